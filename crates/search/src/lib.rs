//! Search jobs: one search from its text and time range to rows that clients can show.
//!
//! [`SearchService`] runs searches of one data directory or one set of files; [`cell`] and [`ResultTable`] say how a
//! value looks, whatever output it goes to.
//!
//! Not here: users and their roles (auth, api; a search gets what they come to), where the rows of searches that ended are kept ([`JobKeeper`]).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod cell;
mod collected;
mod keeper;
mod service;
mod table;

pub use cell::Cell;
pub use collected::{CollectedRows, PART_BYTES, PART_ROWS};
pub use keeper::{JobFacts, JobKeeper, KEPT_BYTES_MAX, REMEMBERED_BYTES_MAX, Remembered};
pub use service::{
    Outcome, RunningSearch, SearchError, SearchParams, SearchService, SearchServiceParts, WantedSummaries,
};
pub use table::{ResultTable, Row};
