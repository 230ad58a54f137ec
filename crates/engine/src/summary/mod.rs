//! Building summaries of data models: contents of an object's summary ([`plan`]), and slabs that lack a summary
//! ([`build`]).
//!
//! Not here: encoding summaries, and reading them in place of events (scan).

mod build;
mod plan;

pub use self::build::{SummaryObject, SummaryReport, SummaryRequest};
