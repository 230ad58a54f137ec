//! Index-time processing: from bytes to events ([`Pipeline`]), including sourcetype detection ([`guess`]); and
//! search-time field extraction ([`extract`]).
//!
//! Everything here is pure: "now" and the time zone are arguments; the caller reads files and keeps the batches.
//! Malformed data is never an error; anomalies are counted.
//!
//! Not here: files, sockets, compression, storage.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod assemble;
mod charset;
mod date_orders;
pub mod error;
pub mod extract;
pub mod guess;
mod header;
mod host;
mod lines;
mod merge;
pub mod pattern;
pub mod pipeline;
pub mod preview;
mod recognise;
mod setting_faults;
mod text;
mod timestamp;
mod typing;
pub mod written_time;

pub use date_orders::DateOrders;
pub use error::{InvalidRule, PipelineError};
pub use guess::Guess;
pub use header::COLUMNS_MAX;
pub use lines::LINE_BYTES_MAX;
pub use merge::EVENT_BYTES_MAX;
pub use pattern::{Groups, Pattern};
pub use pipeline::{Pipeline, PipelineContext, PipelineCounters, ResumeHint, SAMPLE_BYTES, SourceInfo};
pub use preview::{Preview, PreviewEvent, PreviewText, preview};
pub use timestamp::{NoTimeReason, TimeReason, WrittenZone};
pub use typing::{EventTyping, TypingPlan, TypingStage, WholeEvent, meta_pairs};
pub use written_time::{WrittenTime, WrittenTimes};
