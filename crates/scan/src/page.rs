//! Reference to a page of a snapshot, before the page is read.

use std::sync::Arc;

use quarry_store::{PageInfo, Segment};

/// A page of a snapshot that may hold a match.
#[derive(Clone)]
pub struct PageRef {
    /// The segment that holds the page.
    pub segment: Arc<dyn Segment>,
    /// Page number in the segment.
    pub page: usize,
    /// Entry of the page in the segment's page directory.
    pub info: PageInfo,
    /// Whether so few pages of the segment may hold a match that looking up the matching rows pays off.
    pub is_rare: bool,
    /// Rows that the commands after the scan may keep, according to the term dictionary.
    pub candidates: CandidateRows,
}

/// Rows of a page that the commands after a scan may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateRows {
    /// Any row.
    Any,
    /// Few rows; looking them up costs less than testing all rows.
    Rare,
    /// No row; the page is read only to count its matching events.
    None,
}

impl PageRef {
    /// Tells the segment that the page has been read.
    pub(crate) fn release(&self) {
        self.segment.release_page(self.page);
    }

    /// Position of the page's first event in the order of arrival.
    pub(crate) fn arrival(&self) -> u64 {
        self.segment.arrival(self.info.first_row)
    }
}
