//! What an event is, and the rules every other room shares about it.
//!
//! Raw text with a time and four metadata fields ([`EventBatch`], [`Page`]), how SPL reads a text as a number and
//! writes a number as text ([`value`]), how text falls into searchable terms ([`segment`], [`term`]) and how people
//! write times and spans ([`time`]).
//!
//! Not here: files, sockets, clocks, Arrow arrays. "Now" and the time zone are always arguments.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod batch;
mod batch_rules;
pub mod expression;
pub mod segment;
mod sent_request;
pub mod spreadsheet;
pub mod template;
pub mod term;
pub mod time;
pub mod value;

pub use batch::{EventBatch, IndexedField, KnownMetas, Metadata, Page, PageColumns};
pub use batch_rules::BatchFault;
pub use expression::{Expression, ExpressionCompiler, ExpressionValue};
pub use sent_request::SentRequest;
pub use term::{Anywhere, FieldColumns, PageSet, TermQuery, ValueColumns};
pub use time::{TimeNs, TimeRange};
