//! Reading events: from a snapshot's pages to rows with the columns a search needs.
//!
//! A scan is planned as plain data ([`plan`]); a [`ScanEnvironment`] turns it into an [`EventScan`]. The scan's rows
//! are read in parallel and folded ([`fold_windows`]), or newest first ([`OrderedRows`]). Partial states of a fold over
//! a slab are cached for the next search that runs the same plan ([`PartialStates`]). Rows of accelerated data models
//! are read from summaries ([`summary`]).
//!
//! Not here: commands and planning (engine); functions and aggregates (eval); buckets and the term dictionary (store,
//! bucket).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod derive;
mod environment;
mod event_fields;
mod event_scan;
mod fields;
mod filter;
mod first_rows;
mod labels;
mod metadata_cache;
mod page;
mod page_merge;
mod partial_states;
pub mod plan;
mod pushed_commands;
mod pushed_predicates;
mod remote_segments;
mod row_selector;
mod slab_extraction;
mod slices;
mod sourcetype_renames;
pub mod spath;
pub mod summary;
mod template_pages;
mod text_values;
mod top_k;

pub use environment::{ScanEnvironment, ScanRules};
pub use event_scan::{EventScan, ScanProgress};
pub use fields::reports::Report;
pub use filter::{has_keywords, index_patterns};
pub use first_rows::KEY_FIELDS_MAX as FIRST_ROWS_FIELDS_MAX;
pub use labels::{LabelCondition, LabelSource};
pub use page::PageRef;
pub use page_merge::OrderedRows;
pub use partial_states::preview::Previewer;
pub use partial_states::work::{WindowCommands, fold_windows};
pub use partial_states::{PartialStates, PlanStates};
pub use pushed_commands::{document_value, to_extraction};
pub use slab_extraction::RuleExtraction;
pub use slices::Window;
pub use sourcetype_renames::with_renamed_sourcetypes;
pub use top_k::TOP_ROWS_MAX;
