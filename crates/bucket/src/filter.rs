//! The term filter: a sketch of every term of a bucket, small enough to stay in memory.

use quarry_event::TermQuery;

use crate::error::{BucketError, Place};

/// Says of a bucket, without reading it, that it certainly lacks a term. Wrong "maybe" in about 1 of 256 terms.
#[derive(Clone, Debug)]
pub struct TermFilter {}

impl TermFilter {
    /// Opens a sidecar written by [`crate::encode`].
    pub fn open(_sidecar: &[u8]) -> Result<TermFilter, BucketError> {
        Err(BucketError::Unsupported { place: Place::of("filter", 0), reason: "reading is not built yet".into() })
    }

    /// Whether the bucket may hold a match; `false` is certain. Prefixes and metadata always may.
    pub fn may_match(&self, _query: &TermQuery) -> bool {
        true
    }
}
