//! When retention may take the last events of an index: not at once.
//!
//! A round that would leave nothing of an index is more often a wrong setting, or a wrong clock, than what somebody wants, and
//! cannot be undone. So it is told, and carried out when it has been due for as long as the rule says; that it waits is kept
//! in the catalog, so that a restart changes nothing. An index whose oldest buckets go one by one never waits.
//!
//! Here is what is known of such indexes; what is made of it is retention's.

use std::collections::{BTreeMap, BTreeSet};

use quarry_event::TimeNs;

/// Settings of the catalog begin with this: the time since which an index was to be emptied, and its newest bucket then.
pub(crate) const SETTING: &str = "emptying/";

/// Indexes that are to be emptied, and those of which it was told that they are too large.
#[derive(Debug, Default)]
pub(crate) struct Emptying {
    /// Since when, and the newest bucket then.
    pub(crate) since: BTreeMap<String, (TimeNs, u64)>,
    /// Indexes whose newest bucket alone is above their limit.
    pub(crate) too_large: BTreeSet<String>,
}
