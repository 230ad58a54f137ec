//! Runs searches on behalf of clients: turns a search text and a time range into rows.
//!
//! [`SearchService`] runs searches over one data directory or one set of files. [`cell`] and [`ResultTable`] define how
//! values look in every output. [`SearchSettings`] creates a service from the configuration of a data directory and the
//! knowledge of its apps; [`Namespaces`] keeps a service for each namespace of a server. [`JobStore`] stores the
//! results of finished searches; [`summaries`] stores the summaries of accelerated data models. [`hints`] explains why
//! a search probably found nothing.
//!
//! Not here: users and roles (auth and api; a search receives effective permissions), programs of custom commands
//! (`quarry_programs`).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod answer_hints;
pub mod cell;
pub mod comparison;
mod dispatch;
mod error;
pub mod hints;
mod job_recorder;
mod job_sharing;
pub mod jobs;
pub mod live_report;
mod namespaces;
mod node_facts;
pub mod patterns;
mod pending_rows;
pub mod real_time;
mod rest_connection;
mod result_pages;
mod server_info;
mod service;
mod setup;
pub mod summaries;
pub mod surroundings;
mod table;
mod written_times;

pub use answer_hints::{AnswerWatch, AnsweredSearch};
pub use cell::Cell;
pub use dispatch::JobStore;
pub use error::SearchError;
pub use job_recorder::{COLLECTED_BYTES_MAX, CollectedBytes, JobFacts, JobRecorder, STORED_BYTES_MAX};
pub use namespaces::{Namespaces, ReadSettings, Visibility};
pub use rest_connection::{RestConnection, RestEntries};
pub use result_pages::{CollectedRows, PART_BYTES, PART_ROWS};
pub use server_info::{API_VERSION, NodeIdentity, os_name};
pub use service::{ModelSummaryRequest, Outcome, RunningSearch, SearchParams, SearchService, SearchServiceParts};
pub use setup::{DEFAULT_INDEX, RecordDeletion, SearchSettings, remove_orphaned_spills};
pub use table::{EventFormat, ResultTable, Row};
