//! Events, and the rules about them that all other crates share.
//!
//! The crate contains types for events, that is, raw text with a time and four metadata fields ([`EventBatch`],
//! [`Page`]); conversion between texts and numbers in SPL ([`value`]); division of text into searchable terms
//! ([`segment`], [`term`]); notations for times and spans ([`time`]).
//!
//! Not here: files, sockets, clocks, Arrow arrays. "Now" and the time zone are always arguments.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod batch;
mod batch_rules;
mod error;
pub mod expression;
pub mod fields;
pub mod segment;
pub mod sent_request;
pub mod spreadsheet;
pub mod template;
pub mod term;
mod text_marks;
pub mod time;
pub mod value;

pub use batch::{EventBatch, FieldNames, Metadata, MetadataIndex, Page, PageColumns};
pub use error::TimeError;
pub use expression::{Expression, ExpressionCompiler, ExpressionValue};
pub use fields::{EventFields, FieldRef, FieldRun, IndexedFields};
pub use sent_request::SentRequest;
pub use term::{AnyColumn, FieldColumns, PageSet, TermQuery, ValueColumns};
pub use text_marks::{MarkSet, TextMark};
pub use time::{TimeNs, TimeRange};
