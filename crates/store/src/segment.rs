//! What a search sees of the store: a frozen list of segments.
//!
//! A segment is one slab, hot (in memory) or sealed (in a bucket). Readers never block writers: a snapshot holds its
//! segments until it is dropped, whatever is sealed, compacted or retired meanwhile.

use std::fmt::Debug;
use std::sync::Arc;

use quarry_event::shape::{Dictionary, PageColumn, Shapes, Texts};
use quarry_event::{FieldColumns, Metadata, Page, PageColumns, PageSet, TermQuery, TimeNs};

use crate::{Deletion, StoreError};

/// One slab that can be searched.
pub trait Segment: Debug + Send + Sync {
    /// Bucket the slab belongs to; with the index and a row it makes an event id.
    fn bucket(&self) -> &str;
    /// Index of all its events.
    fn index(&self) -> &str;
    /// Position in the order of arrival over the whole store; later segments hold later arrivals.
    fn sequence(&self) -> u64;
    /// What tells a slab whose events never change any more from every other one, in this process; `None` where events
    /// may still come, and for a part of a slab.
    fn identity(&self) -> Option<SlabIdentity> {
        None
    }
    /// Where its events are kept, for a slab that never changes any more and for parts of one.
    fn stored(&self) -> Option<StoredSlab> {
        None
    }
    /// Distinct metadata of its events.
    fn metas(&self) -> Arc<[Metadata]>;
    /// Its pages in arrival order, at most 64.
    fn pages(&self) -> &[PageInfo];
    /// Pages that may hold a match: a superset of the truth. Where `fields` says where a field's values lie, the tokens
    /// of such a value are looked for there alone.
    fn candidate_pages(&self, query: &TermQuery, fields: &dyn FieldColumns) -> Result<PageSet, StoreError>;
    /// Rows of a page that may hold a match, ascending: a superset of the truth, asked for where few pages are left.
    /// `None` where that is not known, or where there are more than `most`.
    fn candidate_rows(
        &self,
        _page: usize,
        _query: &TermQuery,
        _fields: &dyn FieldColumns,
        _most: usize,
    ) -> Result<Option<Vec<u32>>, StoreError> {
        Ok(None)
    }
    /// What was found wrong since the snapshot was made, although the segment answers in full.
    fn damage(&self) -> Option<Damage> {
        None
    }
    /// Reads the wanted columns of one page.
    fn read_page(&self, page: usize, columns: PageColumns) -> Result<Page, StoreError>;
    /// Which of [`Segment::metas`] each event of a page has.
    fn page_metas(&self, page: usize) -> Result<Vec<u32>, StoreError> {
        let columns = PageColumns { raw: false, index_time: false, fields: false };
        Ok(self.read_page(page, columns)?.meta)
    }

    /// Whether a page may hold index-time fields; without, nobody need look.
    fn may_hold_fields(&self, _page: usize) -> bool {
        true
    }
    /// How its texts are made of columns; `None` where there is only plain text.
    fn shapes(&self) -> Result<Option<Arc<Shapes>>, StoreError> {
        Ok(None)
    }
    /// The texts of a dictionary column of [`Segment::shapes`]. Every call gives the same `Arc` while it is cached.
    fn dictionary(&self, _column: u32) -> Result<Arc<Dictionary>, StoreError> {
        Ok(Arc::default())
    }
    /// Whether a page of a segment with [`Segment::shapes`] can be read by columns: not where some of its events are
    /// deleted.
    fn is_shaped(&self, _page: usize) -> bool {
        true
    }
    /// Notes events of a page, by their rows in what [`Segment::read_page`] gives, as to be deleted; `false` where they
    /// cannot be, because they are not sealed.
    fn note_deleted(&self, _page: usize, _rows: &[u32], _deletion: &mut Deletion) -> bool {
        false
    }
    /// Whether reading it may wait for a network: several such segments are read side by side.
    fn is_far(&self) -> bool {
        false
    }
    /// Requests that were sent over a network to read its bucket so far.
    fn requests(&self) -> u64 {
        0
    }
    /// Says which pages are going to be read, all of them where that `is_certain`, so that what is read of one is fetched
    /// of others in the same request.
    fn read_ahead(&self, _pages: PageSet, _is_certain: bool) {}
    /// A page is not read any more.
    fn done_with(&self, _page: usize) {}
    /// Opens a page to read single columns of [`Segment::shapes`]; `None` where there is only plain text.
    fn shaped_page(&self, _page: usize) -> Result<Option<Box<dyn ShapedPage>>, StoreError> {
        Ok(None)
    }
}

/// A sealed slab, among all that were ever opened in this process.
///
/// A bucket's number is never given twice while a store is open, not to a merged bucket either, and its objects are
/// written once; each opening of a store counts as another store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlabIdentity {
    /// Which opening of a store.
    pub store: u64,
    /// Number of the bucket.
    pub bucket: u64,
    /// Slab of the bucket.
    pub slab: u32,
    /// How many of its events are deleted. Deleted events never come back, so that the number tells which are left.
    pub deleted: u64,
}

/// A sealed slab, among all of a data folder: what is kept of it elsewhere is found by this after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredSlab {
    /// Number of the bucket.
    pub bucket: u64,
    /// When the bucket was sealed or compacted, nanoseconds: a number may be given again after a restart.
    pub created: TimeNs,
    /// Slab of the bucket.
    pub slab: u32,
    /// How often its events were compacted.
    pub level: u32,
    /// How many of its events are deleted, which tells which are left.
    pub deleted: u64,
}

/// One page of a slab whose texts are made of columns. What was read is kept until it is dropped.
pub trait ShapedPage: Send {
    /// The values of a column of [`Segment::shapes`].
    fn column(&mut self, column: u32) -> Result<Arc<PageColumn>, StoreError>;
    /// The values of a column in these rows, ascending, of those that have one. It may give more rows; that many are
    /// read is what it is there to avoid.
    fn column_of_rows(&mut self, column: u32, _rows: &[u32]) -> Result<Arc<PageColumn>, StoreError> {
        self.column(column)
    }
    /// Whether a column of numbers holds this one; `None` where telling takes as long as reading it.
    fn holds_number(&mut self, _column: u32, _number: i64) -> Result<Option<bool>, StoreError> {
        Ok(None)
    }
    /// The texts that a column has in these rows, ascending, each of which must have one; column 0 gives the events.
    fn texts(&mut self, column: u32, rows: &[u32]) -> Result<Texts, StoreError>;
}

/// What is known of a page without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

/// The segments a search reads, frozen at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Segments by ascending sequence.
    pub segments: Vec<Arc<dyn Segment>>,
    /// Buckets that are damaged, whether they are among the segments or not; a damaged log segment is `wal~` and its
    /// number.
    pub damaged: Vec<Damage>,
}

/// A bucket that cannot be read, or not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Its id.
    pub bucket: String,
    /// What is wrong with it.
    pub reason: String,
}
