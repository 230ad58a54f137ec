//! Delays removals by retention: of the last events of an index, and of events that were too old when they arrived.
//!
//! If a retention round would empty an index, the cause is more often a wrong setting or clock than an intention, and
//! the removal cannot be undone. It is therefore reported, and carried out only after it has been due for the
//! configured time without interruption. If, in the meantime, a round would not empty the index, because the setting or
//! the clock was corrected, a later removal waits again for the whole time. The beginning of this delay is stored in
//! the catalog and survives a restart. An index whose buckets expire one by one is not delayed. A bucket whose events
//! had expired before it was written is kept equally long after the write, so that an old log can be searched after it
//! is added.
//!
//! This module holds the state; `retire` uses it.

use std::collections::{BTreeMap, BTreeSet};

use quarry_event::TimeNs;

/// Prefix of catalog settings with the time from which the emptying of an index has been due, and the number of its
/// newest bucket at that time.
pub(crate) const SETTING_PREFIX: &str = "emptying/";

/// Indexes with delayed removals, and indexes reported as too large.
#[derive(Debug, Default)]
pub(crate) struct Emptying {
    /// Indexes whose emptying is delayed: the time from which it has been due, and the number of the newest bucket at
    /// that time.
    pub(crate) since: BTreeMap<String, (TimeNs, u64)>,
    /// Indexes whose stored time was read since the start.
    pub(crate) loaded: BTreeSet<String>,
    /// Indexes whose newest bucket alone exceeds the size limit of the index.
    pub(crate) too_large: BTreeSet<String>,
    /// Indexes with buckets whose removal is delayed because they were too old when they were written.
    pub(crate) arrived_old: BTreeSet<String>,
}
