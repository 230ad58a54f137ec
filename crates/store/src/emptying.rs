//! Delays the removal of an index's last events, and of events that were too old when they arrived, by retention.
//!
//! A retention round that would empty an index is more often caused by a wrong setting or clock than intended, and
//! cannot be undone. It is therefore reported, and carried out only after it has been due for the configured time. The
//! waiting state is in the catalog and survives a restart. An index whose buckets expire one by one never waits. A
//! bucket that had expired before it was written waits for as long from then on, so that an old log can be searched
//! after it was added.
//!
//! This module holds the state; `retire` uses it.

use std::collections::{BTreeMap, BTreeSet};

use quarry_event::TimeNs;

/// Prefix of catalog settings: time at which an index was to be emptied, and its newest bucket at that time.
pub(crate) const SETTING: &str = "emptying/";

/// Indexes waiting to be emptied, and those reported as too large.
#[derive(Debug, Default)]
pub(crate) struct Emptying {
    /// Time since which each waits, and its newest bucket at that time.
    pub(crate) since: BTreeMap<String, (TimeNs, u64)>,
    /// Indexes whose newest bucket alone exceeds their limit.
    pub(crate) too_large: BTreeSet<String>,
    /// Indexes with buckets that were too old when they were written, and wait.
    pub(crate) arrived_old: BTreeSet<String>,
}
