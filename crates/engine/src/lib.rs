//! Runs SPL over a snapshot of the store on one node.
//!
//! A search is a chain of commands. Up to the first reducing command the rows of a *slice* (some pages of the
//! snapshot) pass through [`command::RowCommand`]s and a partial aggregation; states of all slices merge in
//! [`command::Reduce::finish`], which runs on DataFusion with its memory pool and spilling. Rows are Arrow batches
//! whose schema may differ from batch to batch ([`rows`]): schema on read.
//!
//! Not here: SPL text (spl), files and WAL (store), jobs and users (search), HTTP (api).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub(crate) mod command;
mod error;
pub(crate) mod rows;

pub use error::EngineError;
