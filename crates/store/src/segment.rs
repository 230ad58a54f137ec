//! The searchable view of the store: an immutable list of segments.
//!
//! A segment is one slab, hot (in memory) or sealed (in a bucket). Readers never block writers: a snapshot keeps its
//! segments until it is dropped, even if they are sealed, compacted or retired in the meantime.

use std::fmt::{self, Debug};
use std::sync::Arc;

use quarry_event::template::{Dictionary, PageColumn, TemplateSet, TextEnds, Texts};
use quarry_event::{FieldColumns, FieldNames, IndexedFields, Metadata, Page, PageColumns, PageSet, TermQuery, TimeNs};
use quarry_stdx::{ErrorKind, HasKind};

use crate::sealing_threads::SealingThreads;
use crate::{Deletion, StoreError};

/// A searchable slab.
pub trait Segment: Debug + Send + Sync {
    /// Id of the bucket. Index, bucket id and row together form an event id.
    fn bucket(&self) -> &str;
    /// Index of all events.
    fn index(&self) -> &str;
    /// Number of the bucket in which the first event arrived: that of the segment's own bucket unless it was merged.
    /// Bucket numbers ascend in the order of arrival, across all indexes.
    fn origin(&self) -> u64;
    /// Position of event `row` of the bucket in the order of arrival, across the whole store. The event belongs to this
    /// segment.
    fn arrival(&self, row: u64) -> u64 {
        arrival(self.origin(), row)
    }
    /// Position of the segment's first event in the order of arrival.
    fn first_arrival(&self) -> u64 {
        self.arrival(self.pages().first().map_or(0, |page| page.first_row))
    }
    /// Process-wide identity of a slab whose events can no longer change; `None` for hot slabs and parts of slabs.
    fn identity(&self) -> Option<SlabIdentity> {
        None
    }
    /// Identity, within the data directory, of a slab that can no longer change. A part of a slab has the identity of
    /// the whole slab.
    fn stored(&self) -> Option<StoredSlab> {
        None
    }
    /// Largest `_indextime` of the bucket; `None` if unknown.
    fn latest_arrival(&self) -> Option<TimeNs> {
        None
    }
    /// Distinct metadata of the events.
    fn metas(&self) -> Arc<[Metadata]>;
    /// Pages of the segment in arrival order, at most 64.
    fn pages(&self) -> &[PageInfo];
    /// Pages that may match (a superset). If `fields` knows the columns of a field, tokens of the field's values are
    /// looked up in these columns only.
    fn candidate_pages(&self, query: &TermQuery, fields: &dyn FieldColumns) -> Result<PageSet, StoreError>;
    /// Rows of a page that may match (a superset), ascending; used when few pages are left. `None` if the rows are
    /// unknown or more than `most`.
    fn candidate_rows(
        &self,
        _page: usize,
        _query: &TermQuery,
        _fields: &dyn FieldColumns,
        _most: usize,
    ) -> Result<Option<Vec<u32>>, StoreError> {
        Ok(None)
    }
    /// Damage found since the snapshot was made that does not affect the events of the segment.
    fn damage(&self) -> Option<Damage> {
        None
    }
    /// Reads the requested columns of one page.
    fn read_page(&self, page: usize, columns: PageColumns) -> Result<Page, StoreError>;
    /// For each event of a page, its index in [`Segment::metas`].
    fn page_metas(&self, page: usize) -> Result<Vec<u32>, StoreError> {
        let columns = PageColumns::NONE;
        Ok(self.read_page(page, columns)?.meta)
    }

    /// Whether a page may have index-time fields.
    fn may_hold_fields(&self, _page: usize) -> bool {
        true
    }
    /// Whether a page may have index-time fields that have no column in [`Segment::template_set`].
    fn may_hold_fields_by_row(&self, page: usize) -> bool {
        self.may_hold_fields(page)
    }
    /// The index-time fields of a page that have these names and no column in [`Segment::template_set`].
    fn fields_by_row(&self, page: usize, names: FieldNames) -> Result<IndexedFields, StoreError> {
        Ok(self.read_page(page, PageColumns { fields: names, ..PageColumns::NONE })?.fields)
    }
    /// The templates and columns of the texts and index-time fields; `None` for plain text.
    fn template_set(&self) -> Result<Option<Arc<TemplateSet>>, StoreError> {
        Ok(None)
    }
    /// The texts of a dictionary column in [`Segment::template_set`]. Returns the same `Arc` while it is cached.
    fn dictionary(&self, _column: u32) -> Result<Arc<Dictionary>, StoreError> {
        Ok(Arc::default())
    }
    /// Whether a page of a segment with [`Segment::template_set`] can be read by columns; false if the page has deleted
    /// events.
    fn has_templates(&self, _page: usize) -> bool {
        true
    }
    /// Adds events of a page to `deletion`; `rows` are rows in the result of [`Segment::read_page`]. Returns `false` if
    /// the events are not sealed.
    fn add_to_deletion(&self, _page: usize, _rows: &[u32], _deletion: &mut Deletion) -> bool {
        false
    }
    /// Whether reads may wait for a network; such segments are read concurrently.
    fn is_remote(&self) -> bool {
        false
    }
    /// Number of network requests sent so far to read the bucket.
    fn request_count(&self) -> u64 {
        0
    }
    /// Announces that [`Segment::candidate_pages`] is about to be called for this query in these slabs of the segment's
    /// bucket, so that a few requests can fetch what all these calls need.
    fn prefetch_lookups(&self, _slabs: &[usize], _query: &TermQuery) {}
    /// Announces pages that may be read, or, if `is_certain`, that will all be read, so that one request can fetch data
    /// of several pages.
    fn prefetch_pages(&self, _pages: PageSet, _is_certain: bool) {}
    /// Announces that a few values of these columns of [`Segment::template_set`] will be read in the announced pages, so
    /// that they are fetched with the first request.
    fn plan_columns(&self, _columns: &[u32]) -> Result<(), StoreError> {
        Ok(())
    }
    /// Ends the use of an announced page.
    fn release_page(&self, _page: usize) {}
    /// Opens a page to read single columns of [`Segment::template_set`]; `None` for plain text.
    fn template_page(&self, _page: usize) -> Result<Option<Box<dyn TemplatePage>>, StoreError> {
        Ok(None)
    }
}

/// Process-wide identity of a sealed slab.
///
/// Valid as long as the store is open, because bucket numbers are not reused and objects do not change during that
/// time. Each opening of a store counts as another store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlabIdentity {
    /// Number that distinguishes openings of stores in this process.
    pub store: u64,
    /// Number of the bucket.
    pub bucket: u64,
    /// Slab of the bucket.
    pub slab: u32,
    /// Number of deleted events. Deletions are never undone, so the number identifies the remaining events.
    pub deleted: u64,
}

/// Identity of a sealed slab within a data directory, valid across restarts; the key of data derived from the slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredSlab {
    /// Number of the bucket.
    pub bucket: u64,
    /// Time of the bucket's sealing or compaction, in nanoseconds since 1970. It distinguishes buckets whose number was
    /// reused after a restart.
    pub created: TimeNs,
    /// Slab of the bucket.
    pub slab: u32,
    /// Compaction level.
    pub level: u32,
    /// Number of deleted events, which identifies the remaining events.
    pub deleted: u64,
}

/// One page of a template slab. Keeps the data that it has read.
pub trait TemplatePage: Send {
    /// The values of a column of [`Segment::template_set`].
    fn column(&mut self, column: u32) -> Result<Arc<PageColumn>, StoreError>;
    /// The values of a column in the given ascending rows; rows without a value are skipped. May return further rows,
    /// but avoids reading them if possible.
    fn column_of_rows(&mut self, column: u32, _rows: &[u32]) -> Result<Arc<PageColumn>, StoreError> {
        self.column(column)
    }
    /// Whether a numeric column contains this number; `None` if the check would take as long as reading the column.
    fn contains_number(&mut self, _column: u32, _number: i64) -> Result<Option<bool>, StoreError> {
        Ok(None)
    }
    /// The lengths of the texts of a column; `None` if reading them would take as long as reading the column.
    fn text_ends(&mut self, _column: u32) -> Result<Option<TextEnds>, StoreError> {
        Ok(None)
    }
    /// Announces that these columns are about to be read in this number of rows, so that a remote bucket fetches them
    /// with one request.
    fn prefetch_columns(&mut self, _columns: &[u32], _rows: usize) -> Result<(), StoreError> {
        Ok(())
    }
    /// The texts of a column in the given ascending rows, each of which must have a text; column 0 is the event text.
    fn texts(&mut self, column: u32, rows: &[u32]) -> Result<Texts, StoreError>;
}

/// Facts about a page, available without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageInfo {
    /// Row of the page's first event within the bucket.
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

/// Bits of an arrival position that hold the row within the bucket; the bits above hold the bucket's number.
const ROW_BITS: u32 = 32;
/// Largest number of a bucket. A store that seals a bucket every second reaches it after 136 years; larger numbers on
/// disk are refused as damage.
pub(crate) const BUCKET_NUMBER_MAX: u64 = u64::MAX >> ROW_BITS;

/// Position of a bucket's event in the order of arrival. It is larger than the positions of all earlier rows and
/// buckets.
fn arrival(origin: u64, row: u64) -> u64 {
    assert!(origin <= BUCKET_NUMBER_MAX, "bucket numbers fit in the upper half of an arrival position");
    assert!(row < 1 << ROW_BITS, "rows of a bucket fit in the lower half of an arrival position");
    origin << ROW_BITS | row
}

/// The segments of a search, as they were at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Segments in the order of arrival of their first events.
    pub segments: Vec<Arc<dyn Segment>>,
    /// Damaged buckets, even if they have segments here. The name of a damaged log segment is `wal~` and its number.
    pub damaged: Vec<Damage>,
    /// Threads of the store that are sealing, now and later.
    pub sealing: SealingThreads,
    /// Further segments, by the times of their newest events, ascending. Only a snapshot for reading newest first has
    /// any.
    pub later: Vec<Arc<dyn LaterSegments>>,
}

/// Segments of a snapshot that are not open yet, because opening them waits for a volume.
pub trait LaterSegments: Debug + Send + Sync {
    /// Upper bound for the times of the events.
    fn time_max(&self) -> TimeNs;
    /// Estimated number of pages, for the progress of a search.
    fn page_count(&self) -> u64;
    /// Opens the segments. In the snapshot returned, `later` is empty.
    fn open(&self) -> Snapshot;
}

impl Snapshot {
    /// Opens the segments that are not open yet.
    pub fn open_later(&mut self) {
        for later in std::mem::take(&mut self.later) {
            let opened = later.open();
            self.segments.extend(opened.segments);
            self.damaged.extend(opened.damaged);
        }
        self.segments.sort_by_key(|segment| segment.first_arrival());
    }
}

/// A bucket that is damaged or cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Id of the bucket.
    pub bucket: String,
    /// [`ErrorKind::Corrupt`] if its data is damaged or missing; otherwise the bucket may become readable again.
    pub kind: ErrorKind,
    /// Description of the damage or failure, without the bucket.
    pub reason: String,
}

impl Damage {
    /// Damaged or missing data.
    pub(crate) fn corrupt(bucket: impl Into<String>, reason: impl Into<String>) -> Damage {
        Damage { bucket: bucket.into(), kind: ErrorKind::Corrupt, reason: reason.into() }
    }

    /// The failure of an operation on a bucket.
    pub(crate) fn of_error(bucket: &str, error: StoreError) -> Damage {
        match error {
            StoreError::Corrupt { bucket, reason } => Damage::corrupt(bucket, reason),
            StoreError::Unreadable { bucket, kind, reason } => Damage { bucket, kind, reason },
            other => Damage { bucket: bucket.to_owned(), kind: other.kind(), reason: other.to_string() },
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.kind == ErrorKind::Corrupt { "is damaged" } else { "cannot be read" };
        write!(out, "bucket {} {state}: {}", self.bucket, self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrival_positions_ascend_by_bucket_and_row() {
        let last_row = (1 << ROW_BITS) - 1;
        // 2^20 buckets were the limit when a position also held the number of the slab.
        let numbers = [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (1 << 32) - 1];
        let positions: Vec<u64> =
            numbers.iter().flat_map(|number| [0, 1, last_row].map(|row| arrival(*number, row))).collect();
        assert!(positions.is_sorted_by(|earlier, later| earlier < later), "{positions:?}");
    }
}
