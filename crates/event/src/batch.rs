//! Events as columns: the data structures passed between pipeline, store, bucket and engine.
//!
//! An [`EventBatch`] is emitted by the index pipeline and recorded in the WAL; a search reads a [`Page`] from a hot
//! slab or a sealed bucket. Texts are concatenated in one buffer, so that nothing is allocated per event. Neither type
//! serializes itself: the WAL (crate `store`) and the bucket (crate `bucket`) define their own layouts.

use quarry_stdx::number::u32_of;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::fields::IndexedFields;
use crate::time::TimeNs;

/// The four metadata fields. Events of one file usually share them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Metadata {
    /// Index to which the events belong.
    pub index: Arc<str>,
    /// `host` field.
    pub host: Arc<str>,
    /// `source` field: the file, port or stream.
    pub source: Arc<str>,
    /// `sourcetype` field.
    pub sourcetype: Arc<str>,
}

/// A run of events in arrival order. All events belong to one index, unless pipeline rules routed some events to other
/// indexes ([`EventBatch::split_by_index`]).
///
/// Invariants: `ends`, `time` and `meta` have one entry per event; `ends` ascends and its last entry is `raw.len()`;
/// `raw` is valid UTF-8 and every end is a character boundary; `fields` ascends by row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventBatch {
    /// Concatenated event texts.
    pub raw: Vec<u8>,
    /// End offset of each event in `raw`.
    pub ends: Vec<u32>,
    /// `_time` of each event.
    pub time: Vec<TimeNs>,
    /// `_indextime` of the whole batch.
    pub index_time: TimeNs,
    /// Index into `metas`, per event.
    pub meta: Vec<u32>,
    /// Distinct metadata of this batch.
    pub metas: Vec<Metadata>,
    /// Index-time fields, sparse.
    pub fields: IndexedFields,
    /// Lookup table for a large `metas`, used by [`EventBatch::intern`].
    pub meta_index: MetadataIndex,
}

/// Number of metadata entries up to which a linear search is used instead of a [`MetadataIndex`].
const LINEAR_SEARCH_METAS_MAX: usize = 32;

/// Lookup table for a batch with many metadata entries: senders may set a different host for each event. The table is
/// derived from the batch, so any two tables compare as equal.
#[derive(Clone, Debug, Default)]
pub struct MetadataIndex {
    position: BTreeMap<Metadata, u32>,
    /// Number of entries of the batch's metadata that are in the table.
    seen: usize,
}

impl PartialEq for MetadataIndex {
    fn eq(&self, _: &MetadataIndex) -> bool {
        true
    }
}

impl Eq for MetadataIndex {}

impl MetadataIndex {
    fn find(&mut self, metas: &[Metadata], wanted: &Metadata) -> Option<u32> {
        if self.seen > metas.len() {
            *self = MetadataIndex::default();
        }
        for (at, meta) in metas.iter().enumerate().skip(self.seen) {
            self.position.entry(meta.clone()).or_insert_with(|| u32_of(at));
        }
        self.seen = metas.len();
        // The entry is compared, because it may have been replaced after it was added to the table. If the replaced
        // entry is added again, a duplicate is harmless.
        self.position.get(wanted).copied().filter(|at| metas[*at as usize] == *wanted)
    }
}

fn linear_position(metas: &[Metadata], wanted: &Metadata) -> Option<u32> {
    metas.iter().position(|meta| meta == wanted).map(u32_of)
}

impl EventBatch {
    /// Number of events.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Text of event `row`. Panics if `row` is out of range, as slice indexing does.
    pub fn raw(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] as usize };
        &self.raw[start..self.ends[row] as usize]
    }

    /// Appends an event; `meta` indexes `metas`.
    pub fn push(&mut self, raw: &[u8], time: TimeNs, meta: u32) {
        debug_assert!((meta as usize) < self.metas.len());
        self.raw.extend_from_slice(raw);
        self.ends.push(u32_of(self.raw.len()));
        self.time.push(time);
        self.meta.push(meta);
    }

    /// Whether all events belong to one index.
    pub fn has_single_index(&self) -> bool {
        let first = self.metas.first().map(|meta| &meta.index);
        self.metas.iter().all(|meta| first.is_none_or(|first| Arc::ptr_eq(first, &meta.index) || *first == meta.index))
    }

    /// Splits the events by index into batches, in the order in which the indexes first appear.
    pub fn split_by_index(self) -> Vec<EventBatch> {
        if self.has_single_index() {
            return vec![self];
        }
        let mut parts: Vec<EventBatch> = Vec::new();
        // For each metadata entry that has occurred: the number of its batch in `parts`, and its index in the metadata
        // of that batch.
        let mut places: Vec<Option<(usize, u32)>> = vec![None; self.metas.len()];
        let mut fields = self.fields.iter().peekable();
        for row in 0..self.len() {
            let code = self.meta[row] as usize;
            let (part, meta) = places[code].unwrap_or_else(|| {
                let meta = &self.metas[code];
                let is_its = |part: &EventBatch| part.metas.first().is_some_and(|first| first.index == meta.index);
                let part = parts.iter().position(is_its).unwrap_or_else(|| {
                    parts.push(EventBatch { index_time: self.index_time, ..EventBatch::default() });
                    parts.len() - 1
                });
                parts[part].metas.push(meta.clone());
                (part, u32_of(parts[part].metas.len() - 1))
            });
            places[code] = Some((part, meta));
            let part = &mut parts[part];
            part.push(self.raw(row), self.time[row], meta);
            let new_row = u32_of(part.len() - 1);
            while let Some(field) = fields.next_if(|field| field.row as usize <= row) {
                part.fields.push(new_row, field.name, field.value);
            }
        }
        parts
    }

    /// Index of `meta` in `metas`, added if new.
    pub fn intern(&mut self, meta: &Metadata) -> u32 {
        let known = match self.metas.len() {
            ..=LINEAR_SEARCH_METAS_MAX => linear_position(&self.metas, meta),
            _ => self.meta_index.find(&self.metas, meta),
        };
        match known {
            Some(at) => at,
            None => {
                self.metas.push(meta.clone());
                u32_of(self.metas.len() - 1)
            }
        }
    }
}

/// A set of names of index-time fields: a bit per hash, so that it is passed by value and tested without a lookup. The
/// set may contain a few names that were not added, so readers compare the names of the fields that they get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldNames(u128);

impl FieldNames {
    /// No name.
    pub const NONE: FieldNames = FieldNames(0);
    /// Every name.
    pub const ALL: FieldNames = FieldNames(u128::MAX);

    /// The set of these names.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> FieldNames {
        FieldNames(names.into_iter().fold(0, |set, name| set | FieldNames::bit(name)))
    }

    /// The names of both sets.
    pub fn union(self, other: FieldNames) -> FieldNames {
        FieldNames(self.0 | other.0)
    }

    /// Whether the set may contain a name; false is certain.
    pub fn may_contain(self, name: &str) -> bool {
        self.0 & FieldNames::bit(name) != 0
    }

    /// Whether no name is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// FNV-1a, whose high bits are the best mixed.
    fn bit(name: &str) -> u128 {
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        1 << (hash >> 57)
    }
}

/// The columns of a page that a search needs; other columns are not read and stay empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageColumns {
    /// `raw` and `ends`.
    pub raw: bool,
    /// `index_time`.
    pub index_time: bool,
    /// `fields` with these names.
    pub fields: FieldNames,
}

impl PageColumns {
    /// Every column.
    pub const ALL: PageColumns = PageColumns { raw: true, index_time: true, fields: FieldNames::ALL };

    /// Only `time` and `meta`.
    pub const NONE: PageColumns = PageColumns { raw: false, index_time: false, fields: FieldNames::NONE };
}

/// Up to 4,096 consecutive events of one slab, in arrival order. `time` and `meta` are always filled.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Row number of the first event within its bucket (event id = index:bucket:row).
    pub first_row: u64,
    /// Concatenated event texts; valid UTF-8.
    pub raw: Bytes,
    /// End offset of each event in `raw`.
    pub ends: Vec<u32>,
    /// `_time` of each event.
    pub time: Vec<TimeNs>,
    /// `_indextime` of each event.
    pub index_time: Vec<TimeNs>,
    /// Index into `metas`, per event.
    pub meta: Vec<u32>,
    /// Distinct metadata of the slab.
    pub metas: Arc<[Metadata]>,
    /// Index-time fields, ascending by row.
    pub fields: IndexedFields,
}

impl Page {
    /// Number of events.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Whether the page is empty.
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    /// Text of event `row`; requires a page read with `PageColumns::raw`.
    pub fn raw(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] as usize };
        &self.raw[start..self.ends[row] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(host: &str) -> Metadata {
        Metadata { index: "main".into(), host: host.into(), source: "s".into(), sourcetype: "t".into() }
    }

    #[test]
    fn pushed_events_are_concatenated() {
        let mut batch = EventBatch::default();
        assert!(batch.is_empty());
        let (a, b) = (batch.intern(&metadata("a")), batch.intern(&metadata("b")));
        assert_eq!((a, b, batch.intern(&metadata("a"))), (0, 1, 0));
        batch.push(b"one", 10, a);
        batch.push(b"", 20, b);
        batch.push("größe".as_bytes(), 30, a);
        assert_eq!(batch.len(), 3);
        assert_eq!([0, 1, 2].map(|row| batch.raw(row)), [&b"one"[..], b"", "größe".as_bytes()]);
        assert_eq!(
            (&batch.ends[..], &batch.time[..], &batch.meta[..]),
            (&[3, 3, 10][..], &[10, 20, 30][..], &[0, 1, 0][..])
        );
    }

    #[test]
    fn metadata_is_interned_once_among_many_and_after_replacement() {
        let mut batch = EventBatch::default();
        for _ in 0..2 {
            (0..50_000).for_each(|at| assert_eq!(batch.intern(&metadata(&at.to_string())), at));
        }
        assert_eq!(batch.metas.len(), 50_000);
        let same = EventBatch { metas: batch.metas.clone(), ..EventBatch::default() };
        assert_eq!(batch, same);
        batch.metas.rotate_left(1);
        let at = batch.intern(&metadata("7")) as usize;
        assert_eq!(batch.metas[at], metadata("7"));
        batch.metas.truncate(40);
        assert_eq!(batch.intern(&metadata("30")), 29);
        batch.metas.clear();
        assert_eq!(batch.intern(&metadata("1")), 0);
    }

    #[test]
    fn events_are_split_by_index_in_order() {
        let mut batch = EventBatch { index_time: 7, ..EventBatch::default() };
        let other = Metadata { index: "other".into(), ..metadata("a") };
        let (main, away) = (batch.intern(&metadata("a")), batch.intern(&other));
        for (row, (raw, meta)) in
            [("one", main), ("two", away), ("three", main), ("four", away)].into_iter().enumerate()
        {
            batch.push(raw.as_bytes(), row as i64, meta);
            batch.fields.push(row as u32, "n", raw);
        }
        let parts = batch.split_by_index();
        let texts = |part: &EventBatch| -> Vec<String> {
            let text = |row| String::from_utf8(part.raw(row).to_vec()).unwrap();
            (0..part.len()).map(text).collect()
        };
        assert_eq!(
            (texts(&parts[0]), texts(&parts[1])),
            (vec!["one".into(), "three".into()], vec!["two".into(), "four".into()])
        );
        assert_eq!((&*parts[1].metas[0].index, &parts[1].time[..], parts[1].index_time), ("other", &[1, 3][..], 7));
        let field = parts[0].fields.get(1);
        assert_eq!((field.row, field.value), (1, "three"));
    }

    #[test]
    fn pages_return_the_texts_of_their_rows() {
        let page =
            Page { raw: Bytes::from_static(b"abcde"), ends: vec![2, 2, 5], time: vec![1, 2, 3], ..Page::default() };
        assert_eq!((page.len(), page.is_empty()), (3, false));
        assert_eq!([0, 1, 2].map(|row| page.raw(row)), [&b"ab"[..], b"", b"cde"]);
        assert!(Page::default().is_empty());
    }
}
