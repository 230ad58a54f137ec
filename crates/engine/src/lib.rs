//! Runs SPL over a snapshot of the store on one node.
//!
//! A search is a chain of commands. Up to the first reducing command each worker passes the rows of its *slices* (some
//! pages of the snapshot) through [`command::RowCommand`]s and folds them; what the workers folded joins in memory,
//! or, when memory is short, as states on DataFusion with its memory pool and spilling. Rows are Arrow batches whose
//! schema may differ from batch to batch ([`rows`]): schema on read.
//!
//! Not here: SPL text (spl), files and WAL (store), jobs and users (search), HTTP (api).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod aggregate;
mod command;
mod commands;
mod custom;
mod dataflow;
mod environment;
mod error;
mod explain;
mod expr;
mod field_names;
mod functions;
mod ingest;
mod job;
mod knowledge;
mod losses;
mod lower;
#[cfg(feature = "measure")]
#[doc(hidden)]
pub mod measure;
mod named;
mod node;
mod partial;
mod pattern;
mod permitted;
mod plan;
mod result_rows;
mod row_filter;
mod rows;
mod run;
mod scan;
mod series_rates;
mod shown;
mod subsearch;
mod summary;
mod threads;

pub use command::Messages;
pub use commands::iplocation::{AddressPlaces, Place};
pub use commands::lookup::{FillTable, LookupSource, LookupTable, ModelFile, TableTime};
pub use commands::models::empty_model;
pub use commands::sendalert::AlertCall;
pub use custom::{CommandChunk, CommandProcess, CommandSource, NoCommands};
pub use dataflow::Slicing;
pub use error::EngineError;
pub use explain::{
    ExplainedEvents, ExplainedPlan, ExplainedStage, ExplainedSummaries, Explanation, Phase, Sieve, StageShape,
};
pub use ingest::IngestExpressions;
pub use job::{Engine, EngineOptions, Job, ResultKind, SearchRequest, Stopper, TransactionLimits};
pub use knowledge::{EventType, KnowledgeSource, NoKnowledge, Tag, has_bundled_model};
pub use node::{DeletionRecord, KeptJob, NoNode, NodeEntry, NodeSource};
pub use result_rows::ResultRows;
pub use run::SnapshotSource;
pub use scan::ScanProgress;
pub use summary::{Acceleration, SummaryFile, SummaryObject, SummaryReport, SummaryRequest, SummaryStore};
pub use threads::STACK_BYTES;
