//! From event batches to a bucket's two objects.

use bytes::Bytes;
use quarry_event::{EventBatch, TimeNs};

use crate::error::{BucketError, Place};
use crate::summary::BucketSummary;

/// How to encode.
#[derive(Clone, Copy, Debug)]
pub struct EncodeOptions {
    /// zstd level of the text column: 1 when sealing, 3 to 9 when compacting.
    pub zstd_level: i32,
}

impl Default for EncodeOptions {
    fn default() -> EncodeOptions {
        EncodeOptions { zstd_level: 1 }
    }
}

/// A bucket ready to be stored.
#[derive(Clone, Debug)]
pub struct EncodedBucket {
    /// The bucket object, read by [`crate::BucketReader`].
    pub object: Bytes,
    /// The term filter sidecar, read by [`crate::TermFilter`].
    pub filter: Bytes,
    /// What the catalog keeps.
    pub summary: BucketSummary,
}

/// The input of one slab.
#[derive(Clone, Copy, Debug)]
pub struct SlabSource<'a> {
    /// Its events; at most `MAX_SLAB_EVENTS` and `MAX_SLAB_RAW_BYTES`.
    pub events: &'a EventBatch,
    /// `_indextime` of each event, or `None` when `events.index_time` holds for all.
    pub index_times: Option<&'a [TimeNs]>,
}

/// Encodes one slab per batch. Each batch must keep within `MAX_SLAB_EVENTS` and `MAX_SLAB_RAW_BYTES`.
pub fn encode(slabs: &[EventBatch], options: &EncodeOptions) -> Result<EncodedBucket, BucketError> {
    let sources: Vec<SlabSource<'_>> = slabs.iter().map(|events| SlabSource { events, index_times: None }).collect();
    encode_slabs(&sources, options)
}

/// As [`encode`], for slabs whose events came in at different times.
pub fn encode_slabs(_slabs: &[SlabSource<'_>], _options: &EncodeOptions) -> Result<EncodedBucket, BucketError> {
    Err(BucketError::Unsupported { place: Place::of("object", 0), reason: "writing is not built yet".into() })
}
