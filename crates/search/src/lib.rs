//! Search jobs: one search from its text and time range to rows that clients can show.
//!
//! [`SearchService`] runs searches of one data directory or one set of files; [`cell`] and [`ResultTable`] say how a
//! value looks, whatever output it goes to. [`SearchSettings`] make a service as a data folder is configured, with what its apps
//! define; [`Namespaces`] has one for each namespace of a server; [`KeptJobs`] keeps the rows of searches that ended, and
//! [`summaries`] those of accelerated data models.
//!
//! Not here: users and their roles (auth, api; a search gets what they come to), programs of
//! custom commands (`quarry_programs`).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod cell;
mod dispatch;
pub mod jobs;
mod keeper;
mod namespaces;
mod node_facts;
mod pending_rows;
mod result_pages;
mod service;
mod setup;
pub mod summaries;
mod table;

pub use cell::Cell;
pub use dispatch::KeptJobs;
pub use keeper::{JobFacts, JobKeeper, KEPT_BYTES_MAX, REMEMBERED_BYTES_MAX, Remembered};
pub use namespaces::{Namespaces, ReadSettings, Sight};
pub use result_pages::{CollectedRows, PART_BYTES, PART_ROWS};
pub use service::{
    Outcome, RunningSearch, SearchError, SearchParams, SearchService, SearchServiceParts, WantedSummaries,
};
pub use setup::{DEFAULT_INDEX, RecordDeletion, SearchSettings, remove_left_spills};
pub use table::{ResultTable, Row};
