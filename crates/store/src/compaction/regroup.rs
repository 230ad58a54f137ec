//! Regroups events of many slabs, page by page, into as few slabs as possible.
//!
//! Order is preserved. A nearly full slab is not mixed with others, because mixing would gain nothing.

use std::collections::BTreeMap;

use quarry_bucket::{MAX_SLAB_EVENTS, MAX_SLAB_RAW_BYTES, SlabSource, TARGET_SLAB_RAW_BYTES};
use quarry_event::{EventBatch, Metadata, Page, TimeNs};
use quarry_stdx::number::u32_of;
/// A slab counts as full if it reaches this many eighths of one of its limits.
const FULL_EIGHTHS: u64 = 6;

/// Maximum content of a slab.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlabLimits {
    pub(crate) events: usize,
    pub(crate) raw_bytes: usize,
}

impl SlabLimits {
    /// The limits of sealing.
    pub(crate) const SEAL_LIMITS: SlabLimits = SlabLimits { events: MAX_SLAB_EVENTS, raw_bytes: TARGET_SLAB_RAW_BYTES };
    /// The limits of the bucket format.
    const FORMAT_LIMITS: SlabLimits = SlabLimits { events: MAX_SLAB_EVENTS, raw_bytes: MAX_SLAB_RAW_BYTES };
}

/// A slab being filled.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    events: EventBatch,
    index_times: Vec<TimeNs>,
    code_of: BTreeMap<Metadata, u32>,
}

/// Slabs being filled, in order.
#[derive(Debug)]
pub(crate) struct Regroup {
    limits: SlabLimits,
    /// Limits of the slab being filled.
    current: SlabLimits,
    slabs: Vec<Slab>,
    /// Whether the last slab accepts no more events.
    closed: bool,
}

impl Regroup {
    pub(crate) fn new(limits: SlabLimits) -> Regroup {
        Regroup { limits, current: limits, slabs: Vec::new(), closed: true }
    }

    /// Announces the pages of the next input slab, which has the given size.
    pub(crate) fn start_slab(&mut self, events: u64, raw_bytes: u64) {
        let is_full = events * 8 >= self.limits.events as u64 * FULL_EIGHTHS
            || raw_bytes * 8 >= self.limits.raw_bytes as u64 * FULL_EIGHTHS;
        self.closed |= is_full;
        self.current = if is_full { SlabLimits::FORMAT_LIMITS } else { self.limits };
    }

    /// Ends the current slab.
    pub(crate) fn end_slab(&mut self) {
        self.closed |= self.current.raw_bytes != self.limits.raw_bytes;
        self.current = self.limits;
    }

    /// Adds the events of a page, read with all columns.
    pub(crate) fn add(&mut self, page: &Page) {
        let mut row = 0;
        while row < page.len() {
            if self.closed {
                self.slabs.push(Slab::default());
                self.closed = false;
            }
            let Some(slab) = self.slabs.last_mut() else { return };
            let rows = slab.rows_that_fit(page, row, self.current);
            if rows == 0 {
                assert!(!slab.events.is_empty(), "an empty slab accepts any events");
                self.closed = true;
                continue;
            }
            slab.add(page, row, rows);
            row += rows;
        }
    }

    /// The slabs that accept no more events, in order.
    pub(crate) fn take_closed(&mut self) -> Vec<Slab> {
        let open = usize::from(!self.closed).min(self.slabs.len());
        self.slabs.drain(..self.slabs.len() - open).collect()
    }

    /// All remaining slabs, in order.
    pub(crate) fn into_slabs(self) -> Vec<Slab> {
        self.slabs
    }
}

impl Slab {
    /// The slab in the encoder's form.
    pub(crate) fn source(&self) -> SlabSource<'_> {
        SlabSource {
            events: &self.events,
            index_times: Some(&self.index_times),
            extractions: &[],
            extracted_names: None,
        }
    }

    /// Number of rows of a page, from `row` on, that still fit into the slab; at least one if the slab is empty.
    fn rows_that_fit(&self, page: &Page, row: usize, limits: SlabLimits) -> usize {
        let room = limits.raw_bytes.saturating_sub(self.events.raw.len());
        let start = text_start(page, row);
        let fitting = page.ends[row..].partition_point(|end| *end as usize - start <= room);
        let fitting = fitting.min(limits.events.saturating_sub(self.events.len()));
        if self.events.is_empty() { fitting.max(1) } else { fitting }
    }

    fn add(&mut self, page: &Page, row: usize, rows: usize) {
        let until = row + rows;
        let start = text_start(page, row);
        let Slab { events, index_times, code_of } = self;
        let (first, byte) = (events.ends.len(), events.raw.len());
        events.raw.extend_from_slice(&page.raw[start..text_start(page, until)]);
        events.ends.extend(page.ends[row..until].iter().map(|end| u32_of(*end as usize - start + byte)));
        events.time.extend_from_slice(&page.time[row..until]);
        index_times.extend_from_slice(&page.index_time[row..until]);
        let mut codes: Vec<Option<u32>> = vec![None; page.metas.len()];
        for meta in &page.meta[row..until] {
            let code = codes[*meta as usize].get_or_insert_with(|| {
                let meta = &page.metas[*meta as usize];
                *code_of.entry(meta.clone()).or_insert_with(|| {
                    events.metas.push(meta.clone());
                    u32_of(events.metas.len()) - 1
                })
            });
            events.meta.push(*code);
        }
        let len = first + rows;
        assert!(u32::try_from(events.raw.len()).is_ok(), "the end of an event fits in 32 bits");
        assert_eq!(
            (events.ends.len(), events.time.len(), events.meta.len()),
            (len, len, len),
            "columns have equal lengths"
        );
        assert_eq!(index_times.len(), len, "every event has its arrival time");
        events.fields.append(page.fields.of_rows(row..until), row, first);
    }
}

/// Offset of the text of row `row`.
fn text_start(page: &Page, row: usize) -> usize {
    if row == 0 { 0 } else { page.ends[row - 1] as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page with the given texts; event times are their lengths, index times ten times as much.
    fn page(host: &str, texts: &[&str]) -> Page {
        let ends = texts.iter().scan(0, |end, text| {
            *end += text.len() as u32;
            Some(*end)
        });
        let meta = Metadata { index: "main".into(), host: host.into(), source: "a".into(), sourcetype: "test".into() };
        Page {
            first_row: 0,
            raw: texts.concat().into(),
            ends: ends.collect(),
            time: texts.iter().map(|text| text.len() as i64).collect(),
            index_time: texts.iter().map(|text| text.len() as i64 * 10).collect(),
            meta: vec![0; texts.len()],
            metas: [meta].into(),
            fields: (0..).zip(texts).map(|(row, text)| (row, "text", text)).collect(),
        }
    }

    /// Host and text of each event by slab, after checking that the other columns match the texts.
    fn slabs(slabs: &[Slab]) -> Vec<Vec<String>> {
        let texts = |slab: &Slab| -> Vec<String> {
            let source = slab.source();
            let events = source.events;
            assert_eq!(events.fields.len(), events.len());
            (0..events.len())
                .map(|row| {
                    let text = String::from_utf8(events.raw(row).to_vec()).unwrap();
                    assert_eq!(events.time[row], text.len() as i64);
                    assert_eq!(source.index_times.unwrap()[row], text.len() as i64 * 10);
                    let field = events.fields.get(row);
                    assert_eq!((field.row, field.value), (row as u32, &*text));
                    format!("{}:{text}", events.metas[events.meta[row] as usize].host)
                })
                .collect()
        };
        slabs.iter().map(texts).collect()
    }

    fn regrouped(limits: SlabLimits, pages: &[Page]) -> Vec<Vec<String>> {
        let (mut regroup, mut eager) = (Regroup::new(limits), Regroup::new(limits));
        let mut taken = Vec::new();
        for page in pages {
            for regroup in [&mut regroup, &mut eager] {
                regroup.start_slab(page.len() as u64, page.raw.len() as u64);
                regroup.add(page);
            }
            taken.extend(eager.take_closed());
            regroup.end_slab();
            eager.end_slab();
        }
        let all = slabs(&regroup.into_slabs());
        taken.extend(eager.into_slabs());
        assert_eq!(slabs(&taken), all, "slabs are the same whenever they are taken");
        all
    }

    #[test]
    fn small_slabs_are_combined_in_order() {
        let limits = SlabLimits { events: 5, raw_bytes: 100 };
        let pages = [page("a", &["1", "22", "333"]), page("b", &["4444", "1", "22"]), page("a", &["1"])];
        assert_eq!(regrouped(limits, &pages), [vec!["a:1", "a:22", "a:333", "b:4444", "b:1"], vec!["b:22", "a:1"]]);
    }

    #[test]
    fn slabs_respect_the_text_limit_and_long_events_get_their_own() {
        let limits = SlabLimits { events: 100, raw_bytes: 8 };
        let pages = [page("a", &["123", "1234"]), page("b", &["12", "1", "1"]), page("b", &["123456789012", "1"])];
        assert_eq!(
            regrouped(limits, &pages),
            [vec!["a:123", "a:1234"], vec!["b:12", "b:1", "b:1"], vec!["b:123456789012", "b:1"]]
        );
    }

    #[test]
    fn full_slabs_stay_unchanged() {
        let limits = SlabLimits { events: 4, raw_bytes: 100 };
        let pages = [page("a", &["1"]), page("b", &["1", "22", "333"]), page("c", &["1"]), page("c", &["22"])];
        assert_eq!(regrouped(limits, &pages), [vec!["a:1"], vec!["b:1", "b:22", "b:333"], vec!["c:1", "c:22"]]);
    }
}
