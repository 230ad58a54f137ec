//! Reading a bucket by range: directory first, then only the blocks a search needs.

use std::sync::Arc;

use quarry_event::{Metadata, Page, PageColumns, PageSet, TermQuery, TimeNs};

use crate::error::{BucketError, Place};
use crate::read_at::ReadAt;
use crate::summary::BucketSummary;

/// An open bucket. Cheap to share behind an `Arc`; every method takes `&self`.
#[derive(Debug)]
pub struct BucketReader {
    summary: BucketSummary,
    slabs: Vec<SlabInfo>,
}

/// What is known of a slab without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabInfo {
    /// Row of its first event within the bucket.
    pub first_row: u64,
    /// Its pages in arrival order, at most 64.
    pub pages: Vec<PageInfo>,
    /// Distinct metadata of its events.
    pub metas: Arc<[Metadata]>,
}

/// What is known of a page without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageInfo {
    /// Row of its first event within the bucket.
    pub first_row: u64,
    /// Number of events.
    pub events: u32,
    /// Smallest `_time`.
    pub time_min: TimeNs,
    /// Largest `_time`.
    pub time_max: TimeNs,
    /// Bytes of text.
    pub raw_bytes: u64,
    /// Which of the slab's metadata occur.
    pub metas: MetaSet,
}

/// A set of metadata codes: bit `i` stands for `SlabInfo::metas[i]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetaSet(pub(crate) Box<[u64]>);

impl MetaSet {
    /// Whether `code` is in the set.
    pub fn contains(&self, code: u32) -> bool {
        self.0.get(code as usize / 64).is_some_and(|word| word >> (code % 64) & 1 == 1)
    }

    /// The codes in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at as u32 * 64 + bit)
        })
    }
}

impl BucketReader {
    /// Opens a bucket: reads and checks its directory, no event.
    pub fn open(_object: Arc<dyn ReadAt>) -> Result<BucketReader, BucketError> {
        Err(BucketError::Unsupported { place: Place::of("object", 0), reason: "reading is not built yet".into() })
    }

    /// Facts about the whole bucket.
    pub fn summary(&self) -> &BucketSummary {
        &self.summary
    }

    /// Its slabs in arrival order.
    pub fn slabs(&self) -> &[SlabInfo] {
        &self.slabs
    }

    /// Pages of slab `slab` that may hold a match: a superset of the truth.
    pub fn candidate_pages(&self, _slab: usize, _query: &TermQuery) -> Result<PageSet, BucketError> {
        Err(BucketError::Unsupported { place: Place::of("object", 0), reason: "reading is not built yet".into() })
    }

    /// Reads the wanted columns of one page.
    pub fn read_page(&self, _slab: usize, _page: usize, _columns: PageColumns) -> Result<Page, BucketError> {
        Err(BucketError::Unsupported { place: Place::of("object", 0), reason: "reading is not built yet".into() })
    }

    /// Reads everything: every checksum and every structural rule.
    pub fn check(&self) -> Result<(), BucketError> {
        Err(BucketError::Unsupported { place: Place::of("object", 0), reason: "reading is not built yet".into() })
    }
}
