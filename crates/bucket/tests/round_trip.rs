//! Any batch survives encoding and decoding, and term look-ups never miss a page.
#![allow(clippy::unwrap_used)]

mod support;

use proptest::prelude::*;
use quarry_bucket::{
    BucketError, BucketReader, EncodeOptions, MAX_PAGE_EVENTS, SlabSource, TermFilter, encode, encode_slabs,
    verify_against, verify_slabs,
};
use quarry_event::term::MetaField;
use quarry_event::{AnyColumn, EventBatch, FieldNames, IndexedField, PageColumns, TermQuery};
use support::{any_batch, numbered_batch, open, pages_by_brute_force, query_for};

fn assert_round_trip(slabs: &[EventBatch]) -> BucketReader {
    let encoded = encode(slabs, &EncodeOptions::default()).unwrap();
    verify_against(&encoded, slabs).unwrap();
    let reader = open(&encoded);
    reader.check().unwrap();
    assert_eq!(reader.summary(), &encoded.summary);
    let mut first_row = 0;
    for (number, slab) in slabs.iter().enumerate() {
        assert_eq!(reader.slabs()[number].first_row, first_row);
        let mut row = 0;
        for at in 0..reader.slabs()[number].pages.len() {
            let page = reader.read_page(number, at, PageColumns::ALL).unwrap();
            assert_eq!(page.first_row, first_row + row as u64);
            for in_page in 0..page.len() {
                assert_eq!(page.raw(in_page), slab.raw(row));
                assert_eq!(page.time[in_page], slab.time[row]);
                assert_eq!(page.index_time[in_page], slab.index_time);
                assert_eq!(page.metas[page.meta[in_page] as usize], slab.metas[slab.meta[row] as usize]);
                let of = |fields: &[IndexedField], row: usize| -> Vec<_> {
                    let of_row = fields.iter().filter(|field| field.row as usize == row);
                    of_row.map(|field| (field.name.clone(), field.value.clone())).collect()
                };
                assert_eq!(of(&page.fields, in_page), of(&slab.fields, row));
                row += 1;
            }
        }
        assert_eq!(row, slab.len());
        first_row += row as u64;
    }
    reader
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn arbitrary_batches_round_trip(slabs in prop::collection::vec(any_batch(40), 0..4)) {
        assert_round_trip(&slabs);
    }

    #[test]
    fn candidate_pages_include_every_matching_page(batch in any_batch(60), seeds in prop::collection::vec(any::<u64>(), 12)) {
        let slabs = [batch];
        let encoded = encode(&slabs, &EncodeOptions::default()).unwrap();
        let reader = open(&encoded);
        let filter = TermFilter::open(&encoded.filter).unwrap();
        for seed in seeds {
            let query = query_for(&slabs[0], seed, 2);
            let truth = pages_by_brute_force(&slabs[0], &query);
            let found = reader.candidate_pages(0, &query, &AnyColumn).unwrap();
            prop_assert_eq!(truth & !found.0, 0, "{:?} lost pages of {:b}", query, truth);
            prop_assert!(truth == 0 || filter.may_match(&query), "the filter denies {:?}", query);
        }
    }
}

#[test]
fn lookups_distinguish_pages() {
    let slabs = [numbered_batch(2 * MAX_PAGE_EVENTS + 10), numbered_batch(3)];
    let reader = assert_round_trip(&slabs);
    assert_eq!(reader.slabs()[0].pages.len(), 3);
    for row in [0, MAX_PAGE_EVENTS - 1, MAX_PAGE_EVENTS, 2 * MAX_PAGE_EVENTS + 9] {
        let query = TermQuery::Token(format!("unique{row}").into());
        assert_eq!(reader.candidate_pages(0, &query, &AnyColumn).unwrap().0, 1 << (row / MAX_PAGE_EVENTS));
    }
    let everywhere = reader.candidate_pages(0, &TermQuery::Prefix("uniq".into()), &AnyColumn).unwrap();
    assert_eq!(everywhere.0, 0b111);
    let host = |pattern: &str| TermQuery::Meta { field: MetaField::Host, pattern: pattern.into() };
    assert_eq!(reader.candidate_pages(0, &host("h*st-1"), &AnyColumn).unwrap().0, 0b010);
    assert!(reader.candidate_pages(0, &host("host"), &AnyColumn).unwrap().is_empty());
    assert!(reader.candidate_pages(9, &TermQuery::All, &AnyColumn).unwrap().is_empty());
    let field = |value: &str| TermQuery::Field { name: "Row".into(), value: value.into() };
    assert_eq!(reader.candidate_pages(0, &field("r4100"), &AnyColumn).unwrap().0, 0b010);
    assert!(reader.candidate_pages(0, &field("r4101"), &AnyColumn).unwrap().is_empty());
}

#[test]
fn only_requested_columns_are_filled() {
    let reader = assert_round_trip(&[numbered_batch(5)]);
    let page = reader.read_page(0, 0, PageColumns { fields: FieldNames::ALL, ..PageColumns::NONE }).unwrap();
    assert!(page.raw.is_empty() && page.ends.is_empty() && page.index_time.is_empty());
    assert_eq!((page.time.len(), page.meta.len()), (5, 5));
    assert!(!page.fields.is_empty());
}

#[test]
fn huge_and_empty_events_round_trip() {
    let mut batch = numbered_batch(2);
    batch.fields.clear();
    batch.push(b"", 5, 0);
    batch.push("é0 ".repeat(700_000).as_bytes(), 6, 0);
    batch.push(&b"y".repeat(3_000_000), 7, 0);
    batch.push(b"", 8, 0);
    assert_round_trip(&[batch]);
    assert_round_trip(&[EventBatch::default()]);
    assert_round_trip(&[]);
}

#[test]
fn index_times_may_differ_by_event() {
    let batch = numbered_batch(4_100);
    let times: Vec<i64> = (0..4_100).map(|row| i64::from(row) * 1_000_000_000).collect();
    let slabs = [SlabSource { events: &batch, index_times: Some(&times) }];
    let encoded = encode_slabs(&slabs, &EncodeOptions::default()).unwrap();
    verify_slabs(&encoded, &slabs).unwrap();
    assert_eq!(encoded.summary.index_time_max, times[4_099]);
    assert!(matches!(verify_against(&encoded, std::slice::from_ref(&batch)), Err(BucketError::Mismatch { .. })));
}

#[test]
fn verification_detects_every_changed_column() {
    let batch = numbered_batch(4_100);
    let encoded = encode(std::slice::from_ref(&batch), &EncodeOptions::default()).unwrap();
    let changes: [fn(&mut EventBatch); 6] = [
        |batch| batch.raw[7] ^= 1,
        |batch| batch.ends[4_097] -= 1,
        |batch| batch.time[3] += 1,
        |batch| batch.index_time += 1,
        |batch| batch.meta[4_099] = 0,
        |batch| batch.fields[1].value = "other".into(),
    ];
    for change in changes {
        let mut changed = batch.clone();
        change(&mut changed);
        assert!(matches!(verify_against(&encoded, &[changed]), Err(BucketError::Mismatch { .. })));
    }
}

#[test]
fn invalid_batches_are_rejected() {
    let changes: [fn(&mut EventBatch); 7] = [
        |batch| batch.ends[1] = 0,
        |batch| batch.raw.push(b'x'),
        |batch| batch.raw[0] = 0xff,
        |batch| batch.time.clear(),
        |batch| batch.meta[0] = 99,
        |batch| batch.fields[0].row = 3,
        |batch| batch.fields.last_mut().unwrap().row = 4,
    ];
    for change in changes {
        let mut batch = numbered_batch(4);
        change(&mut batch);
        let outcome = encode(&[batch], &EncodeOptions::default());
        assert!(matches!(outcome, Err(BucketError::InvalidBatch { slab: 0, .. })), "{outcome:?}");
    }
}

#[test]
fn the_summary_counts_metadata_values() {
    let encoded = encode(&[numbered_batch(5_000)], &EncodeOptions::default()).unwrap();
    let summary = encoded.summary;
    assert_eq!((summary.events, summary.time_min, summary.time_max), (5_000, 0, 4_999_000_000_000));
    let hosts: Vec<_> = summary.hosts.iter().map(|host| (&*host.value, host.events, host.first, host.last)).collect();
    assert_eq!(hosts, [("host-0", 4_096, 0, 4_095_000_000_000), ("host-1", 904, 4_096_000_000_000, 4_999_000_000_000)]);
    assert_eq!(summary.object_bytes, encoded.object.len() as u64);
    assert_eq!(summary.stored_bytes(), (encoded.object.len() + encoded.filter.len()) as u64);
}

#[test]
fn encoding_is_deterministic() {
    let slabs = [numbered_batch(5_000)];
    let objects = [0, 1].map(|_| encode(&slabs, &EncodeOptions::default()).unwrap());
    assert_eq!(objects[0].object, objects[1].object);
    assert_eq!(objects[0].filter, objects[1].filter);
}
