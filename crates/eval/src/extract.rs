//! Extraction of fields and rows from texts, for commands and for reading events.
//!
//! Not here: regular expressions ([`crate::pattern`]).

pub mod examples;
pub mod multikv;
pub mod rex;
