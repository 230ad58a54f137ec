//! Splunk .conf files as layered, typed settings with their origin.
//!
//! The server reads files and passes their text as [`ConfSource`]s; [`Layers`] parses them ([`text`]), checks every
//! setting against its table row ([`table`]), drops invalid settings with a [`ConfWarning`] that names file and line,
//! and merges the valid ones over the built-in defaults, in Splunk's global order or in the order for an app and user
//! ([`namespace`]). The typed settings ([`PropsResolver`], [`Transforms`], [`IndexesConf`], [`LimitSettings`],
//! [`ServerSettings`]) never fail: missing and invalid settings have their defaults.
//!
//! Not here: files and folders, compiling PCRE patterns, evaluating expressions, access control on changes.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod check;
mod default_files;
pub mod edit;
pub mod file_name;
pub mod layers;
mod merge;
pub mod namespace;
pub mod object_access;
pub mod permissions;
pub mod props;
pub mod settings;
mod spelling;
pub mod table;
pub mod tables;
pub mod text;
mod values;
pub mod warning;

pub use check::stanza_kinds::suggest_input;
pub use default_files::builtin_sources;
pub use layers::{BtoolRow, ConfSource, Layer, Layers, MergedConf, MergedSetting, MergedStanza};
pub use namespace::{Namespace, Sharing, View};
pub use object_access::{ObjectAccess, Readable, Reader, Readership};
pub use permissions::Permissions;
pub use props::{AliasRule, SearchTimeRules, SourcetypeRule, TableStanza};
pub use props::{DatetimeConfig, ExtractRule, HeaderSettings, KvMode, PropsResolver, PropsSettings};
pub use settings::authorize::{RoleSettings, Roles};
pub use settings::catalog::CatalogSettings;
pub use settings::datamodels::{AccelerationSettings, DataModelsConf};
pub use settings::http_input::{ConnectionHost, HttpInputSettings, HttpToken};
pub use settings::index_rules::{IndexRule, RuleClass, TypingSettings};
pub use settings::indexes::{IndexSettings, IndexesConf, MergeSettings};
pub use settings::limits::{CollectionLimits, LimitSettings};
pub use settings::macros::{MacroDefinition, MacrosConf};
pub use settings::monitor::{CrcSalt, MonitorSettings};
pub use settings::network_input::{NetworkInput, NetworkInputSettings, NetworkKind, SenderHost, SslSettings};
pub use settings::outputs::{OutputGroup, OutputServer, OutputSettings, OutputTls};
pub use settings::program_input::{ChangeFilter, ChangeInput, ProgramInput, ProgramInputs};
pub use settings::server::ServerSettings;
pub use settings::tags::{EventType, Tag, event_types, tag_stanza, tagged_value, tags};
pub use settings::transforms::{ExtractionMethod, LookupDefinition, LookupTime, ReportRule, Transforms, missing_rules};
pub use settings::volumes::{
    CacheManagerSettings, RemotePathSetting, RemoteStorage, S3VolumeSettings, VolumeEncryption, VolumeHeader,
    VolumeKey, VolumeLocation, VolumeSettings,
};
pub use text::{Conf, Setting, Stanza};
pub use values::{DEFAULT_INDEX_WORD, parse_bool};
pub use warning::{ConfWarning, Problem};
