//! Parts of a compacted slab, for searches of several indexes.
//!
//! A compacted bucket contains events of several sealed buckets, between which buckets of other indexes may have
//! arrived. For a search that also reads such other buckets, a slab is split into several segments at these positions,
//! so that every event keeps its position in the order of arrival. A search of one index never needs this.

use std::ops::Range;

use crate::PageInfo;
use quarry_catalog::Origin;
use quarry_event::Page;
use quarry_stdx::number::{u32_of, usize_of};

/// Some consecutive events of a slab as a segment of their own.
#[derive(Debug)]
pub(crate) struct SlabPart {
    rows: Range<u64>,
    /// Number of the slab's page that contains the first of these events.
    pub(crate) first_page: usize,
    pub(crate) infos: Vec<PageInfo>,
}

impl SlabPart {
    /// The part with rows `rows`, which are numbered within the bucket and must belong to a slab with these pages.
    pub(crate) fn new(pages: &[PageInfo], rows: Range<u64>) -> SlabPart {
        let end_of = |page: &PageInfo| page.first_row + u64::from(page.events);
        let first_page = pages.partition_point(|page| end_of(page) <= rows.start);
        let overlapping = pages[first_page..].iter().take_while(|page| page.first_row < rows.end);
        let part = |page: &PageInfo| {
            let (start, end) = (page.first_row.max(rows.start), end_of(page).min(rows.end));
            let events = u32_of(usize_of(end - start));
            // The times of the whole page are valid bounds; text bytes are estimated.
            let raw_bytes = page.raw_bytes * u64::from(events) / u64::from(page.events.max(1));
            PageInfo { first_row: start, events, raw_bytes, ..*page }
        };
        let infos = overlapping.map(part).collect();
        SlabPart { rows, first_page, infos }
    }

    /// The events of a page that belong to this part of the slab.
    pub(crate) fn slice_page(&self, page: Page) -> Page {
        let end = page.first_row + page.len() as u64;
        let (from, until) = (self.rows.start.max(page.first_row), self.rows.end.min(end));
        if from == page.first_row && until == end {
            return page;
        }
        let rows = usize_of(from.min(until) - page.first_row)..usize_of(until - page.first_row);
        slice_rows(&page, rows)
    }
}

/// Rows of a page; columns that were not read stay empty.
fn slice_rows(page: &Page, rows: Range<usize>) -> Page {
    let mut part = Page {
        first_row: page.first_row + rows.start as u64,
        time: page.time[rows.clone()].to_vec(),
        meta: page.meta[rows.clone()].to_vec(),
        metas: page.metas.clone(),
        ..Page::default()
    };
    if page.ends.len() == page.len() {
        let end_before = |row: usize| if row == 0 { 0 } else { page.ends[row - 1] };
        let start = end_before(rows.start);
        part.raw = page.raw.slice(start as usize..end_before(rows.end) as usize);
        part.ends = page.ends[rows.clone()].iter().map(|end| end - start).collect();
    }
    if page.index_time.len() == page.len() {
        part.index_time = page.index_time[rows.clone()].to_vec();
    }
    part.fields.append(page.fields.of_rows(rows.clone()), rows.start, 0);
    part
}

/// Rows at which a bucket with these origins must be split because another bucket arrived between two origins.
/// `arrivals` contains, ascending, the numbers of all slabs and buckets that the search reads.
pub(crate) fn split_rows(origins: &[Origin], arrivals: &[u64]) -> Vec<u64> {
    let is_cut = |pair: &&[Origin]| {
        let after = arrivals.partition_point(|number| *number <= pair[0].number);
        arrivals.get(after).is_some_and(|number| *number < pair[1].number)
    };
    origins.windows(2).filter(is_cut).map(|pair| pair[1].first_row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(first_row: u64, events: u32) -> PageInfo {
        PageInfo { first_row, events, time_min: 1, time_max: 2, raw_bytes: u64::from(events) * 10 }
    }

    #[test]
    fn buckets_are_split_only_where_another_bucket_arrived_between() {
        let origins = [(0, 3), (10, 5), (20, 9)].map(|(first_row, number)| Origin { first_row, number });
        for (arrivals, expected) in [
            (vec![3, 5, 9], vec![]),
            (vec![1, 3, 5, 9, 12], vec![]),
            (vec![3, 4, 5, 9], vec![10]),
            (vec![3, 5, 7, 8, 9], vec![20]),
            (vec![3, 4, 5, 6, 9], vec![10, 20]),
        ] {
            assert_eq!(split_rows(&origins, &arrivals), expected, "{arrivals:?}");
        }
        assert_eq!(split_rows(&origins[..1], &[1, 2, 3]), Vec::<u64>::new());
    }

    #[test]
    fn slab_part_has_the_pages_of_its_rows() {
        let pages = [info(100, 10), info(110, 10), info(120, 5)];
        let of = |rows: Range<u64>| {
            let cut = SlabPart::new(&pages, rows);
            (cut.first_page, cut.infos.iter().map(|it| (it.first_row, it.events)).collect::<Vec<_>>())
        };
        assert_eq!(of(100..125), (0, vec![(100, 10), (110, 10), (120, 5)]));
        assert_eq!(of(105..110), (0, vec![(105, 5)]));
        assert_eq!(of(110..111), (1, vec![(110, 1)]));
        assert_eq!(of(119..121), (1, vec![(119, 1), (120, 1)]));
    }

    #[test]
    fn sliced_page_has_sliced_columns() {
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
        let cut = SlabPart::new(&[info(50, 4)], 51..53);
        let part = cut.slice_page(page.clone());
        assert_eq!((part.first_row, part.len(), part.raw(0), part.raw(1)), (51, 2, &b"b"[..], &b"cc"[..]));
        assert_eq!((&part.index_time[..], &part.meta[..]), (&[6, 7][..], &[1, 0][..]));
        let rows: Vec<(u32, &str)> = part.fields.iter().map(|field| (field.row, field.value)).collect();
        assert_eq!(rows, [(0, "1"), (0, "1")]);
        let bare =
            Page { raw: Default::default(), ends: vec![], index_time: vec![], fields: Default::default(), ..page };
        let part = cut.slice_page(bare);
        assert_eq!((part.len(), part.ends.len(), part.index_time.len()), (2, 0, 0));
    }
}
