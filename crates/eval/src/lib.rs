//! Rows and computations on them: values, expressions, functions, patterns, conditions, aggregates, lookup tables.
//!
//! Rows are Arrow batches whose schema may differ from batch to batch ([`rows`]): schema on read. Commands are row
//! commands, reduce commands or blocking ([`command`]); aggregates fold rows into groups, and spill to files when
//! memory is short ([`aggregate`], [`dataflow`]).
//!
//! Not here: sources of events (scan), commands and planning (engine).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

// The name by which the rows of the tests refer to this crate.
#[cfg(test)]
extern crate self as quarry_eval;

pub mod aggregate;
#[cfg(test)]
#[allow(unreachable_pub, reason = "other crates use these items as part of testworld")]
#[path = "../../../dev/testworld/src/coded_rows.rs"]
mod coded_rows;
pub mod command;
pub mod context;
pub mod costs;
pub mod dataflow;
mod error;
pub mod expr;
pub mod extract;
pub mod field_names;
pub mod functions;
pub mod lookup;
pub mod messages;
pub mod panics;
pub mod pattern;
pub mod row_filter;
pub mod rows;
pub mod spans;

pub use error::EngineError;
