use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use proptest::prelude::*;
use quarry_event::template::{ColumnKind, ColumnValues, NumberFormat, TEXT_COLUMN};
use quarry_event::{AnyColumn, EventBatch, PageColumns, PageSet, TermQuery};

use super::read::{EntryForm, OLDER_RUN_ENTRIES};
use super::runs::{DictionaryRuns, RUN_ENTRIES, decode_whole, write_runs};
use super::*;
use crate::block::BlockWriter;
use crate::block::tests::ENFORCE_CHECKSUMS;
use crate::columns::layout::ChunkLocations;
use crate::columns::tests::batch_of;
use crate::error::ReadError;
use crate::source::ObjectSource;
use crate::{
    BucketReader, EncodeOptions, EncodedBucket, Locators, MemoryObject, ReadAt, TermFilter, encode, verify_against,
};

fn pseudo_random(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^= mixed >> 29;
    mixed.wrapping_mul(0x94d0_49bb_1331_11eb) ^ (mixed >> 32)
}

fn session(number: u64) -> String {
    let (a, b) = (pseudo_random(number), pseudo_random(number + (1 << 40)));
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        a >> 32,
        a >> 16 & 0xffff,
        a & 0xfff,
        0x8000 | b >> 50,
        b & 0xffff_ffff_ffff
    )
}

/// Slabs with the same session ids in every slab, and with unique request ids.
fn slabs(count: usize, events: u64, sessions: u64) -> Vec<EventBatch> {
    let slab = |slab: u64| {
        let text = |row: u64| {
            let number = pseudo_random(slab * events + row) % sessions;
            format!(
                "level=info session={} request_id={:016x} done",
                session(number),
                pseudo_random(slab << 32 | row | 1 << 50)
            )
        };
        batch_of((0..events).map(text))
    };
    (0..count as u64).map(slab).collect()
}

fn encoded_with(locators: Locators, slabs: &[EventBatch]) -> EncodedBucket {
    encode(slabs, &EncodeOptions { zstd_level: 3, templates: true, locators }).unwrap()
}

fn compacted(slabs: &[EventBatch]) -> EncodedBucket {
    encoded_with(Locators::Included, slabs)
}

fn open(encoded: &EncodedBucket) -> BucketReader {
    BucketReader::open(Arc::new(MemoryObject(encoded.object.clone()))).unwrap()
}

fn shared_columns(reader: &BucketReader, slab: usize) -> usize {
    let stored = &reader.columns(slab).unwrap().unwrap().layout.stored;
    stored.iter().filter(|column| matches!(column.values, ChunkLocations::Shared { .. })).count()
}

#[test]
fn sessions_of_all_slabs_share_a_searchable_dictionary() {
    let slabs = slabs(3, 9_000, 5_000);
    let encoded = compacted(&slabs);
    verify_against(&encoded, &slabs).unwrap();
    let reader = open(&encoded);
    reader.check().unwrap();
    let filter = TermFilter::open(&encoded.filter).unwrap();
    for slab in 0..3 {
        assert_eq!(shared_columns(&reader, slab), 5, "the five numbers of a session");
        let pages = reader.slabs()[slab].pages.len();
        for number in [0, 1, 77, 4_999] {
            let text = session(number);
            let holds = |page: &usize| {
                let page = reader.read_page(slab, *page, PageColumns::ALL).unwrap();
                (0..page.len()).any(|row| page.raw(row).windows(text.len()).any(|window| window == text.as_bytes()))
            };
            let expected: u64 = (0..pages).filter(holds).fold(0, |set, page| set | 1 << page);
            for query in [TermQuery::Token(text[..8].into()), TermQuery::Prefix(text[24..30].into())] {
                let found = reader.candidate_pages(slab, &query, &AnyColumn).unwrap();
                assert_eq!(found.0 & expected, expected, "{query:?}");
                // In a slab without the token, the locator returns an arbitrary page.
                assert!(expected == 0 || !matches!(query, TermQuery::Token(_)) || found == PageSet(expected));
            }
            assert!(expected == 0 || filter.may_match(&TermQuery::Token(text[24..].into())));
        }
        let absent = reader.candidate_pages(slab, &TermQuery::Token("0123456789ab".into()), &AnyColumn).unwrap();
        // For a token that occurs nowhere, the locator returns an arbitrary page.
        assert!(absent.0.count_ones() <= 4, "{absent:?}");
    }
    let single: usize = slabs.iter().map(|slab| compacted(std::slice::from_ref(slab)).object.len()).sum();
    assert!(encoded.object.len() * 100 < single * 85, "{} of {single}", encoded.object.len());
}

#[test]
fn locators_are_included_within_the_size_budget() {
    let slabs = slabs(2, 9_000, 5_000);
    let bytes = |encoded: &EncodedBucket| (encoded.object.len() + encoded.filter.len()) as u64;
    let (with, without) = (encoded_with(Locators::Included, &slabs), encoded_with(Locators::Omitted, &slabs));
    assert!(bytes(&without) < bytes(&with));
    for (limit, expected) in [(bytes(&with), &with), (bytes(&with) - 1, &without), (0, &without)] {
        let encoded = encoded_with(Locators::IncludedWithin(limit), &slabs);
        assert!(encoded.object == expected.object && encoded.filter == expected.filter, "within {limit} bytes");
        assert_eq!(encoded.summary, expected.summary);
        assert_eq!(encoded.summary.object_bytes, encoded.object.len() as u64);
        verify_against(&encoded, &slabs).unwrap();
        let reader = open(&encoded);
        reader.check().unwrap();
        let waited: usize = (0..2).map(|slab| shared_columns(&reader, slab)).sum();
        assert_eq!(waited, 10, "the layouts waited for shared dictionaries");
        for slab in 0..2 {
            assert_eq!(reader.locator(slab).unwrap().is_some(), limit == bytes(&with));
        }
    }
}

#[test]
fn unique_values_are_stored_without_sharing() {
    let slabs = slabs(2, 17_000, u64::MAX);
    let encoded = compacted(&slabs);
    verify_against(&encoded, &slabs).unwrap();
    let reader = open(&encoded);
    reader.check().unwrap();
    assert_eq!(shared_columns(&reader, 0) + shared_columns(&reader, 1), 0);
}

#[test]
fn sealed_buckets_have_no_shared_dictionaries() {
    let slabs = slabs(2, 5_000, 1_000);
    let encoded = encode(&slabs, &EncodeOptions::default()).unwrap();
    let reader = open(&encoded);
    assert_eq!(shared_columns(&reader, 0), 0);
}

#[test]
fn numbers_of_every_format_round_trip() {
    let text = |slab: u64, row: u64| {
        let number = pseudo_random(pseudo_random(slab * 9_000 + row) % 3_000);
        format!(
            "account={} ip={} code={:012} end",
            number >> 8,
            std::net::Ipv4Addr::from(number as u32),
            number % 1_000_000_000_000
        )
    };
    let slabs: Vec<EventBatch> = (0..3).map(|slab| batch_of((0..9_000).map(|row| text(slab, row)))).collect();
    let encoded = compacted(&slabs);
    verify_against(&encoded, &slabs).unwrap();
    let reader = open(&encoded);
    reader.check().unwrap();
    assert_eq!(shared_columns(&reader, 2), 3);
    let template_set = reader.template_set(1).unwrap().unwrap();
    let mut page = reader.template_page(1, 1).unwrap().unwrap();
    let is_integer = |kind: &ColumnKind| matches!(kind, ColumnKind::Numbers { format: NumberFormat::Integer, .. });
    let account = template_set.columns.iter().position(|column| is_integer(&column.kind)).unwrap();
    let ColumnValues::Numbers(numbers) = &page.column(account as u32).unwrap().values else { panic!() };
    assert_eq!(numbers[0] as u64, pseudo_random(pseudo_random(9_000 + 4_096) % 3_000) >> 8);
}

#[test]
fn damaged_dictionaries_are_rejected_or_decoded() {
    let slabs = slabs(2, 5_000, 1_500);
    let encoded = compacted(&slabs);
    assert!(shared_columns(&open(&encoded), 0) > 0);
    ENFORCE_CHECKSUMS.set(false);
    let object = encoded.object.to_vec();
    for at in (8..object.len()).step_by(object.len() / 300) {
        let mut changed = object.clone();
        changed[at] = changed[at].wrapping_add(1 + (at % 250) as u8);
        let Ok(reader) = BucketReader::open(Arc::new(MemoryObject(changed.into()))) else { continue };
        for slab in 0..reader.slabs().len() {
            if let Ok(Some(mut page)) = reader.template_page(slab, 0) {
                drop(page.texts(TEXT_COLUMN, &[5]));
            }
            drop(reader.read_page(slab, 0, PageColumns::ALL));
            drop(reader.candidate_pages(slab, &TermQuery::Token("0123456789ab".into()), &AnyColumn));
        }
    }
    ENFORCE_CHECKSUMS.set(true);
}

/// An object that records the ranges read of it.
struct RecordedObject(MemoryObject, Mutex<Vec<Range<u64>>>);

impl RecordedObject {
    fn take(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.1.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ReadAt for RecordedObject {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadError> {
        let range = offset..offset + len as u64;
        self.1.lock().unwrap_or_else(PoisonError::into_inner).push(range);
        self.0.read_at(offset, len)
    }
}

#[test]
fn a_few_values_are_read_from_their_runs_and_many_from_the_whole() {
    let slabs = slabs(2, 9_000, 20_000);
    let encoded = compacted(&slabs);
    let object = Arc::new(RecordedObject(MemoryObject(encoded.object.clone()), Mutex::default()));
    let reader = BucketReader::open(object.clone()).unwrap();
    let at = reader.columns(0).unwrap().unwrap().layout.shared_dictionaries()[0];
    let (whole, runs) = (at.range(), at.blocks(&reader.source).unwrap().len() - 1);
    let of_dictionary = |ranges: Vec<Range<u64>>| -> Vec<u64> {
        let within = ranges.into_iter().filter(|range| range.start >= whole.start && range.end <= whole.end);
        within.map(|range| range.end - range.start).collect()
    };
    let text = |slab: usize, page: usize, row: u32| {
        let mut opened = reader.template_page(slab, page).unwrap().unwrap();
        let texts = opened.texts(TEXT_COLUMN, &[row]).unwrap();
        assert_eq!(texts.get(0), slabs[slab].raw(page * crate::MAX_PAGE_EVENTS + row as usize));
    };
    object.take();
    text(0, 1, 77);
    let read = of_dictionary(object.take());
    let run = (RUN_ENTRIES * 16) as u64;
    assert!(read.len() <= 2 && read.iter().sum::<u64>() < run * 5 / 4, "the directory and a run: {read:?}");
    text(0, 1, 77);
    assert_eq!(of_dictionary(object.take()), [0u64; 0], "the run is in memory");
    // Every row needs another run until a quarter of the runs are in memory.
    for row in 0..200 {
        text(1, 0, row);
    }
    let read = of_dictionary(object.take());
    assert!(runs >= 10 && read.len() <= runs / 4 + 1, "{} reads of {runs} runs", read.len());
    assert_eq!(read.last(), Some(&at.stored_bytes()), "the whole dictionary in one read");
    let page = reader.read_page(0, 0, PageColumns::ALL).unwrap();
    assert_eq!(page.raw(4), slabs[0].raw(4));
    assert_eq!(of_dictionary(object.take()), [0u64; 0], "the dictionary is in memory");
}

#[test]
fn the_slab_head_lists_the_directories_of_runs() {
    let encoded = compacted(&slabs(2, 5_000, 1_500));
    let reader = open(&encoded);
    for slab in 0..2 {
        let columns = reader.columns(slab).unwrap().unwrap();
        let expected: Vec<BlockRef> = columns.layout.shared_dictionaries().iter().map(|at| at.block).collect();
        assert_eq!(reader.parts()[slab].listed, expected);
        assert_eq!(expected.len(), 1);
    }
}

/// Encodes entries as older versions did, in one block.
fn encode_older(entries: &[u128], components: &[Component], out: &mut Vec<u8>) {
    let form = EntryForm::of(components);
    form.put(entries.len(), out);
    entries.chunks(OLDER_RUN_ENTRIES).for_each(|run| form.put_run(run, out));
}

/// An object that contains only a dictionary in runs.
fn in_runs(entries: &[u128], components: &[Component]) -> (Vec<u8>, SharedAt) {
    let mut blocks = BlockWriter::new(Vec::new(), 1).unwrap();
    let at = write_runs(entries, &EntryForm::of(components), &mut blocks).unwrap();
    assert_eq!(at.range(), 0..blocks.object.len() as u64);
    (blocks.object, at)
}

#[test]
fn entries_of_several_runs_round_trip() {
    for count in [1, RUN_ENTRIES - 1, RUN_ENTRIES, RUN_ENTRIES + 1, 3 * RUN_ENTRIES] {
        let entries: Vec<u128> = (0..count as u128).map(|at| (at * at) << 3 | 5).collect();
        let (object, at) = in_runs(&entries, &[Component { width: 60, base: 0 }]);
        let whole = decode_whole(&object, &at).unwrap();
        let source = ObjectSource::open(Arc::new(MemoryObject(object.clone().into()))).unwrap();
        let runs = DictionaryRuns::open(&source, &at).unwrap();
        assert_eq!((whole.len() as usize, runs.len() as usize), (count, count));
        for (code, entry) in (0u32..).zip(&entries) {
            assert_eq!(whole.number(0, code), Some(*entry as i64));
            assert_eq!(runs.number(&source, 0, code).unwrap(), Some(*entry as i64));
            assert_eq!(runs.missing(code), None);
        }
        assert_eq!(runs.number(&source, 0, count as u32).unwrap(), None);
        assert_eq!(runs.number(&source, 1, 0).unwrap(), None);
    }
}

#[test]
fn every_flipped_bit_of_runs_is_detected() {
    let entries: Vec<u128> = (0..2_000u128).map(|at| at * 17).collect();
    let (object, at) = in_runs(&entries, &[Component { width: 20, base: -4 }]);
    for bit in 0..object.len() * 8 {
        let mut flipped = object.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_whole(&flipped, &at).is_err(), "bit {bit}");
    }
}

proptest! {
    #[test]
    fn dictionary_entries_round_trip(entries in prop::collection::btree_set(any::<u128>(), 0..200), wide in any::<bool>()) {
        let components: &[Component] = match wide {
            true => &[Component { width: 64, base: i64::MIN }, Component { width: 64, base: 0 }],
            false => &[Component { width: 1, base: -7 }, Component { width: 40, base: 0 }],
        };
        let bits = entry_bits(components);
        let mut entries: Vec<u128> = entries.into_iter().map(|entry| if bits < 128 { entry & ((1 << bits) - 1) } else { entry }).collect();
        entries.sort_unstable();
        entries.dedup();
        let mut encoded = Vec::new();
        encode_older(&entries, components, &mut encoded);
        let dictionary = SharedDictionary::decode(&encoded).unwrap();
        let (object, at) = in_runs(&entries, components);
        prop_assert_eq!(&decode_whole(&object, &at).unwrap(), &dictionary);
        prop_assert_eq!(dictionary.len() as usize, entries.len());
        let codes: Vec<u32> = (0..dictionary.len()).collect();
        for component in 0..2u32 {
            let numbers = dictionary.numbers(component, &codes).unwrap();
            for (code, number) in numbers.iter().enumerate() {
                let found = dictionary.codes_where(component, &|numbers| numbers.contains(number));
                prop_assert!(found.contains(&(code as u32)));
            }
            let Component { width, base } = components[component as usize];
            let shift = if component == 0 { components[1].width } else { 0 };
            for (number, entry) in numbers.iter().zip(&entries) {
                let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
                prop_assert_eq!(number.wrapping_sub(base) as u64, (entry >> shift) as u64 & mask);
            }
        }
        prop_assert!(dictionary.numbers(2, &codes).is_none());
    }

    #[test]
    fn garbage_returns_errors(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        drop(SharedDictionary::decode(&bytes));
    }

    #[test]
    fn damaged_runs_are_rejected_or_decoded(changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4)) {
        let entries: Vec<u128> = (0..1_500u128).map(|at| at * at * 7).collect();
        let (mut object, at) = in_runs(&entries, &[Component { width: 20, base: 0 }, Component { width: 30, base: 3 }]);
        for (place, byte) in changes {
            let place = place % object.len();
            object[place] = byte;
        }
        ENFORCE_CHECKSUMS.set(false);
        drop(decode_whole(&object, &at));
        let source = ObjectSource::open(Arc::new(MemoryObject(object.into()))).unwrap();
        if let Ok(runs) = DictionaryRuns::open(&source, &at) {
            for code in [0, 1_023, 1_024, 1_499, u32::MAX] {
                drop(runs.number(&source, 1, code));
            }
        }
        ENFORCE_CHECKSUMS.set(true);
    }
}
