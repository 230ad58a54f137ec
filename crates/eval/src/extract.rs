//! Fields and rows that are cut out of texts, by commands and while events are read.
//!
//! Not here: patterns of regular expressions ([`crate::pattern`]).

pub mod multikv;
pub mod rex;
