//! Summaries of data models: what an object of an accelerated model makes of the events of one sealed slab, kept as
//! columns, so that `tstats` does not evaluate the model's conditions, extractions and calculations again.
//!
//! A summary has one row per event of the object, in order of arrival, and is found by the slab and by a digest of
//! everything that its rows depend on. It is read page by page in place of the slab's pages ([`SummaryRead`]);
//! where one is missing, stale or damaged the events are read, which gives the same rows.
//!
//! Not here: what a summary of an object holds, and making it (engine); when that happens, for how long they are kept and
//! where (search).

mod decode;
mod encode;
mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use quarry_event::TimeNs;
use quarry_stdx::Fault;

pub use self::decode::{COLUMNS_MAX, OpenSummary};
pub use self::encode::{SummaryHead, SummaryPage, columns_of, encode};
pub use self::read::{SummaryRead, folder_of, name_of, open};

/// How a data model is accelerated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acceleration {
    /// Buckets whose events are all older are not summarised.
    pub earliest: Option<TimeNs>,
}

/// Where summaries are kept.
pub trait SummaryStore: Send + Sync {
    /// How a model is accelerated, seen from `now`; `None` when it is not.
    fn acceleration(&self, _model: &str, _now: TimeNs) -> Option<Acceleration> {
        None
    }
    /// A text that is another one as soon as fields may be cut, added or looked up in another way: search-time
    /// settings, and the state of these lookup tables and of those that settings name. `Err` says why it cannot be
    /// told.
    fn configuration(&self, _tables: &BTreeSet<String>) -> Result<String, Fault> {
        Err(Fault::unavailable("there is no data folder"))
    }
    /// Opens a summary; `None` when there is none of this name.
    fn open(&self, _name: &str) -> Result<Option<Arc<dyn SummaryFile>>, Fault> {
        Ok(None)
    }
    /// Keeps a summary; after a crash it is there whole or not at all.
    fn put(&self, _name: &str, _bytes: &[u8]) -> Result<(), Fault> {
        Err(Fault::unavailable("there is no data folder"))
    }
    /// Told that a summary cannot be used, and why.
    fn unusable(&self, _name: &str, _why: &str) {}
}

/// An open summary; stays readable when its name is given to another one.
pub trait SummaryFile: Send + Sync {
    /// Its length.
    fn bytes(&self) -> u64;
    /// Some of its bytes; fewer are a fault.
    fn read_at(&self, offset: u64, length: usize) -> Result<Bytes, Fault>;
}

/// No model is accelerated.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSummaries;

impl SummaryStore for NoSummaries {}
