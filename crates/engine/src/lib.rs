//! Plans SPL searches and runs them on one node, over a snapshot of the store.
//!
//! A search becomes a [plan]: a scan; commands that every worker applies to the rows of its *slices* (groups of pages
//! of the snapshot); a fold; and commands that run once, on the fold's result or, without a fold, on the events. Events
//! are read by `quarry_scan`; rows and computations on them are in `quarry_eval`.
//!
//! Not here: SPL text (spl), functions and aggregates (eval), reading events (scan), files and WAL (store), jobs and
//! users (search), HTTP (api).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod blocking;
mod commands;
mod custom_commands;
mod environment;
mod explain;
mod field_formats;
mod ingest;
mod job;
mod knowledge;
mod lowering;
#[cfg(feature = "measure")]
#[doc(hidden)]
pub mod measure;
mod new_columns;
mod node;
mod permissions;
mod plan;
mod references;
mod result_rows;
mod run;
mod series_rates;
mod source;
mod subsearch;
mod summary;
mod threads;

pub use commands::models::empty_model;
pub use custom_commands::{AlertCall, CommandChunk, CommandProcess, CommandSource, NoCommands};
pub use explain::{
    ExplainedEvents, ExplainedPlan, ExplainedStage, ExplainedSummaries, Explanation, Phase, PruningStep, StageShape,
};
pub use ingest::IngestExpressions;
pub use job::language::{BaseSearch, check_regex};
pub use job::shape::SearchShape;
pub use job::{Engine, EngineOptions, Job, ResultKind, SearchRequest, Stopper};
pub use knowledge::{
    EventType, KnowledgeSource, NoKnowledge, Tag, bundled_models, described_model, has_bundled_model, model_headline,
    stored_model,
};
pub use node::{DeletionRecord, EntriesRequest, JobResult, NoNode, NodeEntry, NodeSession, NodeSource};
pub use permissions::allowed_indexes;
pub use plan::Plan;
pub use plan::exchange::{ColumnContent, Exchange, ExchangeColumn, ExchangedRows};
pub use plan::search_filter::is_search_filter;
pub use quarry_eval::EngineError;
pub use quarry_eval::context::{SubsearchDefaults, TransactionLimits};
pub use quarry_eval::costs::{CostFigures, CostReport, Costs, PruneFigures, ScanPart};
pub use quarry_eval::dataflow::Slicing;
pub use quarry_eval::extract::examples;
pub use quarry_eval::field_names::SeenNames;
pub use quarry_eval::lookup::{AddressLocations, FillTable, Location, LookupSource, LookupTable, ModelFile, TableTime};
pub use quarry_eval::messages::Messages;
pub use quarry_eval::rows::{ColumnType, RowIter, compact, reverse, split_by_bytes};
pub use quarry_scan::ScanProgress;
pub use quarry_scan::summary::{Acceleration, SummaryFile, SummaryStore};
pub use quarry_spl::ast::TableContext;
pub use result_rows::ResultRows;
pub use run::preview::{Preview, Previews};
pub use source::SnapshotSource;
pub use summary::{SummaryObject, SummaryReport, SummaryRequest};
pub use threads::STACK_BYTES;
