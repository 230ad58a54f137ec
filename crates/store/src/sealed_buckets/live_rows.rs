//! The remaining events of a slab, or of a part of one, after deletions.
//!
//! Readers of a segment see its pages as if the deleted events had never arrived: a page has fewer events, in the same
//! order. A page with deleted events is read as text, because the columns of a template page contain the rows of the
//! whole page. Other pages are read as usual.

use std::sync::Arc;

use crate::PageInfo;
use crate::deletion::RowSet;
use quarry_event::{Page, PageSet};
use quarry_stdx::number::{u32_of, usize_of};

/// The remaining events of a segment.
#[derive(Debug)]
pub(crate) struct RemainingRows {
    deleted: Arc<RowSet>,
    /// Number of events of each page before deletion.
    all: Vec<u32>,
    /// Pages of the segment after deletion; a page may be empty.
    pub(crate) infos: Vec<PageInfo>,
    /// Pages with deleted events.
    touched: PageSet,
    /// Pages with remaining events.
    pub(crate) filled: PageSet,
}

impl RemainingRows {
    /// The events of a bucket's `pages` that remain after its rows `deleted` are gone; `None` if no row of these pages
    /// is deleted.
    pub(crate) fn new(deleted: &Arc<RowSet>, pages: &[PageInfo]) -> Option<RemainingRows> {
        assert!(pages.len() <= u64::BITS as usize, "a mask has one bit per page");
        let (mut touched, mut filled) = (0u64, 0u64);
        let mut infos = Vec::with_capacity(pages.len());
        for (number, page) in pages.iter().enumerate() {
            let gone = deleted.count_within(page.first_row..page.first_row + u64::from(page.events));
            let gone = u32_of(usize_of(gone));
            assert!(gone <= page.events, "no more rows are deleted than there are");
            let events = page.events - gone;
            touched |= u64::from(gone > 0) << number;
            filled |= u64::from(events > 0) << number;
            // The times of the whole page are valid bounds; text bytes are estimated.
            let raw_bytes = page.raw_bytes * u64::from(events) / u64::from(page.events.max(1));
            infos.push(PageInfo { events, raw_bytes, ..*page });
        }
        (touched > 0).then(|| RemainingRows {
            deleted: Arc::clone(deleted),
            all: pages.iter().map(|page| page.events).collect(),
            infos,
            touched: PageSet(touched),
            filled: PageSet(filled),
        })
    }

    /// Whether a page has deleted events.
    pub(crate) fn is_touched(&self, page: usize) -> bool {
        self.touched.contains(page)
    }

    /// Row numbers within the bucket of a page's remaining events.
    pub(crate) fn rows_of(&self, page: usize) -> Vec<u64> {
        let (Some(info), Some(all)) = (self.infos.get(page), self.all.get(page)) else { return Vec::new() };
        let rows = remaining_rows(info.first_row, *all as usize, &self.deleted);
        rows.into_iter().map(|row| info.first_row + u64::from(row)).collect()
    }

    /// A page without its deleted events.
    pub(crate) fn remove_deleted(&self, number: usize, page: Page) -> Page {
        if self.is_touched(number) { without_deleted(&page, &self.deleted) } else { page }
    }
}

/// Remaining rows of a page, relative to its first row.
fn remaining_rows(first_row: u64, events: usize, deleted: &RowSet) -> Vec<u32> {
    (0..u32_of(events)).filter(|row| !deleted.contains(first_row + u64::from(*row))).collect()
}

/// A page without deleted rows; columns that were not read stay empty.
fn without_deleted(page: &Page, deleted: &RowSet) -> Page {
    let rows = remaining_rows(page.first_row, page.len(), deleted);
    let pick = |values: &[i64]| rows.iter().filter_map(|row| values.get(*row as usize).copied()).collect();
    let mut left = Page {
        first_row: page.first_row,
        time: pick(&page.time),
        index_time: pick(&page.index_time),
        meta: rows.iter().map(|row| page.meta[*row as usize]).collect(),
        metas: Arc::clone(&page.metas),
        ..Page::default()
    };
    assert_eq!((left.time.len(), left.meta.len()), (rows.len(), rows.len()), "columns have equal lengths");
    if page.ends.len() == page.len() {
        let mut raw = Vec::new();
        for row in &rows {
            raw.extend_from_slice(page.raw(*row as usize));
            left.ends.push(u32_of(raw.len()));
        }
        left.raw = raw.into();
    }
    for field in page.fields.iter() {
        if let Ok(place) = rows.binary_search(&field.row) {
            left.fields.push(u32_of(place), field.name, field.value);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(first_row: u64, events: u32) -> PageInfo {
        PageInfo { first_row, events, time_min: 1, time_max: 2, raw_bytes: u64::from(events) * 10 }
    }

    fn set_of(rows: &[u64]) -> Arc<RowSet> {
        let mut set = RowSet::default();
        rows.iter().for_each(|row| set.insert(*row));
        Arc::new(set)
    }

    #[test]
    fn pages_with_deleted_rows_are_detected() {
        let pages = [info(100, 10), info(110, 2), info(112, 5)];
        assert!(RemainingRows::new(&set_of(&[99, 117]), &pages).is_none());
        let live = RemainingRows::new(&set_of(&[3, 102, 109, 110, 111]), &pages).unwrap();
        let left: Vec<_> = live.infos.iter().map(|page| (page.first_row, page.events, page.raw_bytes)).collect();
        assert_eq!(left, [(100, 8, 80), (110, 0, 0), (112, 5, 50)]);
        assert_eq!(live.filled.0, 0b101);
        assert_eq!([0, 1, 2].map(|page| live.is_touched(page)), [true, true, false]);
    }

    #[test]
    fn remaining_rows_have_their_own_columns() {
        let page = Page {
            first_row: 50,
            raw: "abccddd".into(),
            ends: vec![1, 2, 4, 7],
            time: vec![1, 2, 3, 4],
            index_time: vec![5, 6, 7, 8],
            meta: vec![0, 1, 0, 1],
            fields: [0, 1, 1, 3].map(|row: u32| (row, "user", row.to_string())).into_iter().collect(),
            ..Page::default()
        };
        let deleted = set_of(&[50, 52, 54]);
        let left = without_deleted(&page, &deleted);
        assert_eq!((left.first_row, left.len(), left.raw(0), left.raw(1)), (50, 2, &b"b"[..], &b"ddd"[..]));
        assert_eq!((&left.index_time[..], &left.meta[..]), (&[6, 8][..], &[1, 1][..]));
        let rows: Vec<(u32, &str)> = left.fields.iter().map(|field| (field.row, field.value)).collect();
        assert_eq!(rows, [(0, "1"), (0, "1"), (1, "3")]);
        let bare =
            Page { raw: Default::default(), ends: vec![], index_time: vec![], fields: Default::default(), ..page };
        let left = without_deleted(&bare, &deleted);
        assert_eq!((left.len(), left.ends.len(), left.index_time.len()), (2, 0, 0));
    }
}
