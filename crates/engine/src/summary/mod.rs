//! Making summaries of data models: what a summary of an object holds ([`plan`]), and which slabs lack one ([`build`]).
//!
//! Not here: how they are written and read in place of events (scan).

mod build;
mod plan;

pub use self::build::{SummaryObject, SummaryReport, SummaryRequest};
