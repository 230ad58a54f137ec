//! What the catalog keeps of a bucket, so that most questions about it need no read of the object.

use std::sync::Arc;

use quarry_event::TimeNs;

/// Values of one metadata field a summary lists at most, the most frequent first.
pub const MAX_SUMMARY_VALUES: usize = 1_024;

/// Facts about a whole bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketSummary {
    /// Number of events.
    pub events: u64,
    /// Bytes of text before encoding.
    pub raw_bytes: u64,
    /// Bytes of the object.
    pub object_bytes: u64,
    /// Bytes of the term filter sidecar.
    pub filter_bytes: u64,
    /// Smallest `_time`.
    pub time_min: TimeNs,
    /// Largest `_time`.
    pub time_max: TimeNs,
    /// Largest `_indextime`.
    pub index_time_max: TimeNs,
    /// Distinct hosts; see [`MAX_SUMMARY_VALUES`].
    pub hosts: Vec<ValueSummary>,
    /// Distinct sources.
    pub sources: Vec<ValueSummary>,
    /// Distinct sourcetypes.
    pub sourcetypes: Vec<ValueSummary>,
    /// Whether some field had more values than the lists hold.
    pub values_cut: bool,
}

/// One value of a metadata field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSummary {
    /// The value.
    pub value: Arc<str>,
    /// Events with it.
    pub events: u64,
    /// Their smallest `_time`.
    pub first: TimeNs,
    /// Their largest `_time`.
    pub last: TimeNs,
}
