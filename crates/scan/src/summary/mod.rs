//! Summaries of data models: the rows that an object of an accelerated model yields for one sealed slab, stored as
//! columns, so that `tstats` need not evaluate the model's conditions, extractions and calculations again.
//!
//! A summary has one row per event of the object, in order of arrival. A summary is identified by the slab and a digest
//! of everything on which its rows depend. A search reads a summary page by page in place of the slab's pages
//! ([`SummaryReader`]); if the summary is missing, stale or damaged, the search reads the events, with the same result.
//!
//! Not here: the contents of a summary and how it is built (engine); scheduling, retention and location (search).

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
pub use self::encode::{SummaryHead, SummaryPage, collect_columns, encode};
pub use self::read::{SummaryReader, folder_name, object_name, open};

/// Acceleration settings of a data model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acceleration {
    /// Buckets with only older events are not summarised.
    pub earliest: Option<TimeNs>,
}

/// Storage of summaries.
pub trait SummaryStore: Send + Sync {
    /// The settings of a model as of `now`; `None` if it is not accelerated.
    fn acceleration(&self, _model: &str, _now: TimeNs) -> Option<Acceleration> {
        None
    }
    /// A fingerprint that changes whenever extraction, calculated fields or lookups may change: it covers the
    /// search-time settings, and the state of `tables` and of the lookup tables that settings refer to. Fails if the
    /// state of a table cannot be determined.
    fn configuration(&self, _tables: &BTreeSet<String>) -> Result<String, Fault> {
        Err(Fault::unavailable("there is no data directory"))
    }
    /// Opens a summary; `None` if no summary has this name.
    fn open(&self, _name: &str) -> Result<Option<Arc<dyn SummaryFile>>, Fault> {
        Ok(None)
    }
    /// Stores a summary atomically: after a crash it exists completely or not at all.
    fn put(&self, _name: &str, _bytes: &[u8]) -> Result<(), Fault> {
        Err(Fault::unavailable("there is no data directory"))
    }
    /// Called when a summary cannot be used, with the reason.
    fn report_unusable(&self, _name: &str, _why: &str) {}
}

/// An open summary; it stays readable when its name is reused.
pub trait SummaryFile: Send + Sync {
    /// Length in bytes.
    fn bytes(&self) -> u64;
    /// Reads bytes; a short read is a fault.
    fn read_at(&self, offset: u64, length: usize) -> Result<Bytes, Fault>;
}

/// A store without summaries: no model is accelerated.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSummaries;

impl SummaryStore for NoSummaries {}
