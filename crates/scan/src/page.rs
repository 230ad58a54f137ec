//! One page of a snapshot, as a scan knows it before it reads it.

use std::sync::Arc;

use quarry_store::{PageInfo, Segment};

/// One page of a snapshot that may hold a match.
#[derive(Clone)]
pub struct PageRef {
    /// Segment.
    pub segment: Arc<dyn Segment>,
    /// Page number in it.
    pub page: usize,
    /// What is known of the page.
    pub info: PageInfo,
    /// Whether so few pages of the segment may hold a match that their rows are worth asking for.
    pub is_rare: bool,
}

impl PageRef {
    /// It is not read any more.
    pub(crate) fn done(&self) {
        self.segment.done_with(self.page);
    }

    /// Place of the page's first event in the order of arrival.
    pub(crate) fn arrival(&self) -> u64 {
        (self.segment.sequence() << 32) + self.info.first_row
    }
}
