//! Any batch survives encoding and decoding, and term look-ups never miss a page.
#![allow(clippy::unwrap_used)]

mod support;

use proptest::prelude::*;
use quarry_bucket::{
    BucketError, BucketReader, EncodeOptions, Locators, MAX_PAGE_EVENTS, SlabFacts, SlabSource, TermFilter, encode,
    encode_slabs, verify_against, verify_slabs,
};
use quarry_event::term::MetaField;
use quarry_event::{AnyColumn, EventBatch, FieldNames, FieldRef, IndexedFields, Metadata, PageColumns, TermQuery};
use support::{
    MARKS, any_batch, any_delimited_batch, delimited_batch, numbered_batch, open, pages_by_brute_force, query_for,
};

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
                let of = |fields: &IndexedFields, row: usize| -> Vec<_> {
                    let of_row = fields.of_rows(row..row + 1).iter();
                    // Fields of different names have no order.
                    let mut of_row: Vec<_> = of_row.map(|field| (field.name.clone(), field.value.to_owned())).collect();
                    of_row.sort_by(|one, other| one.0.cmp(&other.0));
                    of_row
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
        if let Some(set) = reader.slabs().first().and_then(|_| reader.template_set(0).unwrap()) {
            for mark in MARKS {
                let is_marked = (0..slabs[0].len()).any(|row| mark.is_in(slabs[0].raw(row)));
                prop_assert!(!is_marked || mark.may_be_in(&set), "{:?}", mark);
            }
        }
        for seed in seeds {
            let query = query_for(&slabs[0], seed, 2);
            let truth = pages_by_brute_force(&slabs[0], &query);
            let found = reader.candidate_pages(0, &query, &AnyColumn).unwrap();
            prop_assert_eq!(truth & !found.0, 0, "{:?} lost pages of {:b}", query, truth);
            prop_assert!(truth == 0 || filter.may_match(&query), "the filter denies {:?}", query);
            let may_match = truth == 0 || filter.may_match_slab(0, &query, reader.slab_facts(0));
            prop_assert!(may_match, "the filter of the slab denies {:?}", query);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn delimited_batches_round_trip_and_lookups_find_every_page(
        batch in any_delimited_batch(),
        seeds in prop::collection::vec(any::<u64>(), 24),
    ) {
        for locators in [Locators::Omitted, Locators::Included] {
            let encoded = encode(std::slice::from_ref(&batch), &EncodeOptions { locators, ..EncodeOptions::default() });
            let encoded = encoded.unwrap();
            verify_against(&encoded, std::slice::from_ref(&batch)).unwrap();
            let (reader, filter) = (open(&encoded), TermFilter::open(&encoded.filter).unwrap());
            reader.check().unwrap();
            for seed in &seeds {
                let query = query_for(&batch, *seed, 2);
                let truth = pages_by_brute_force(&batch, &query);
                let found = reader.candidate_pages(0, &query, &AnyColumn).unwrap();
                prop_assert_eq!(truth & !found.0, 0, "{:?} lost pages of {:b}", query, truth);
                prop_assert!(truth == 0 || filter.may_match_slab(0, &query, SlabFacts::UNKNOWN), "the filter denies {:?}", query);
            }
        }
    }
}

/// Lines of a file with a header: a cell that differs in every event, one with breakers, one that is often missing.
fn cells_of(row: usize) -> Vec<(&'static str, String)> {
    let mixed = (row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    vec![
        ("date", "2026-11-27".to_owned()),
        ("Method", ["GET", "get", "POST"][row % 3].to_owned()),
        ("uri", format!("/shop/item-{}/Größe%20{}", row % 50, row % 9)),
        ("user", if row % 5 < 2 { "-".to_owned() } else { format!("CORP\\u{}", row % 40) }),
        ("id", format!("{mixed:012x}")),
        ("page", format!("p{}", row / MAX_PAGE_EVENTS)),
    ]
}

#[test]
fn cells_are_stored_once_and_found_by_their_tokens() {
    // A few texts have an escaped quote or lack a field, so that not all values of the user are in them.
    let alter = |row: usize, text: String| match row % 1_000 {
        7 => text.replace("CORP", "\"\"CORP"),
        8 => "no cells".to_owned(),
        _ => text,
    };
    for (batch, in_texts) in [
        (delimited_batch(9_000, ' ', cells_of, |_, text| text), 6),
        (
            delimited_batch(
                9_000,
                ',',
                cells_of,
                |row, text| if row % 1_000 == 7 { text.replace("CORP", "C") } else { text },
            ),
            5,
        ),
        (delimited_batch(9_000, '\t', cells_of, alter), 0),
    ] {
        let options = EncodeOptions { zstd_level: 9, locators: Locators::Included, ..EncodeOptions::default() };
        let encoded = encode(std::slice::from_ref(&batch), &options).unwrap();
        verify_against(&encoded, std::slice::from_ref(&batch)).unwrap();
        let reader = open(&encoded);
        reader.check().unwrap();
        let set = reader.template_set(0).unwrap().unwrap();
        let bytes = reader.stored_bytes_by_column(0).unwrap();
        let kinds = reader.stored_bytes_by_kind(0).unwrap();
        let repeated = set.fields.iter().filter(|field| bytes[field.column as usize] == 0).count();
        assert!(set.fields.len() == 6 && repeated >= in_texts, "{repeated} of {bytes:?}");
        let omits = kinds.iter().any(|(kind, _)| kind.contains("without values of texts"));
        assert_eq!(omits, in_texts > 0, "{kinds:?}");
        let filter = TermFilter::open(&encoded.filter).unwrap();
        let field = |name: &str, value: &str| TermQuery::Field { name: name.into(), value: value.into() };
        for row in [0usize, 3, 4_095, 4_096, 8_007, 8_999] {
            for (name, value) in cells_of(row).into_iter().filter(|(_, value)| value != "-") {
                let query = field(name, &value.to_lowercase());
                let has_value =
                    |field: &FieldRef<'_>| **field.name == *name && field.value.to_lowercase() == value.to_lowercase();
                let rows = batch.fields.iter().filter(has_value).map(|field| field.row as usize);
                let truth = rows.fold(0u64, |pages, row| pages | 1 << (row / MAX_PAGE_EVENTS));
                let found = reader.candidate_pages(0, &query, &AnyColumn).unwrap();
                assert_eq!(truth & !found.0, 0, "{query:?}");
                assert!(filter.may_match_slab(0, &query, SlabFacts::UNKNOWN), "{query:?}");
                if ["id", "page"].contains(&name) {
                    assert_eq!(found.0, truth, "{query:?}");
                }
                let page = row / MAX_PAGE_EVENTS;
                let rows = reader.candidate_rows(0, page, &query, &AnyColumn, 8).unwrap();
                let in_page = u32::try_from(row % MAX_PAGE_EVENTS).unwrap();
                assert!(rows.is_none_or(|rows| rows.contains(&in_page)), "{query:?}");
            }
        }
        for (name, value) in [("nothing", "get"), ("user", "corp\\u999999")] {
            assert!(reader.candidate_pages(0, &field(name, value), &AnyColumn).unwrap().is_empty(), "{name}={value}");
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
    let slabs = [SlabSource { events: &batch, index_times: Some(&times), extractions: &[], extracted_names: None }];
    let encoded = encode_slabs(&slabs, &EncodeOptions::default()).unwrap();
    verify_slabs(&encoded, &slabs).unwrap();
    assert_eq!(encoded.summary.index_time_max, times[4_099]);
    assert!(matches!(verify_against(&encoded, std::slice::from_ref(&batch)), Err(BucketError::Mismatch { .. })));
}

/// Changes row and value of the field at a position.
fn replace_field(batch: &mut EventBatch, position: usize, row: u32, value: &str) {
    let fields = batch.fields.iter().enumerate().map(|(at, field)| match at == position {
        true => (row, field.name, value),
        false => (field.row, field.name, field.value),
    });
    batch.fields = fields.collect();
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
        |batch| replace_field(batch, 1, 2, "other"),
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
        |batch| replace_field(batch, 0, 3, "R0"),
        |batch| replace_field(batch, 1, 4, "R2"),
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

/// Events of which each has a field of every representation, and some have fields without a column.
fn field_batch(events: usize) -> EventBatch {
    let mut batch = numbered_batch(events);
    batch.fields.clear();
    for row in 0..events as u32 {
        let mut add = |name: &str, value: String| {
            batch.fields.push(row, name, &value);
        };
        add("status", ["200", "404", "x"][row as usize % 3].to_owned());
        add("number", (row * 7).to_string());
        if row % 4 != 0 {
            add("address", format!("10.0.{}.{}", row % 256, row / 256));
        }
        add(
            "text",
            format!("{}-{}", "ü".repeat(row as usize % 90), u64::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        );
        if row % 5 == 1 {
            add("twice", "a".to_owned());
            add("twice", "b".to_owned());
        } else {
            add("twice", "c".to_owned());
        }
        if row % 1_000 == 3 {
            add("rare", format!("r{row}"));
        }
    }
    batch
}

#[test]
fn frequent_fields_have_columns() {
    for zstd_level in [1, 3] {
        let slabs = [field_batch(5_000), field_batch(70)];
        let encoded = encode(&slabs, &EncodeOptions { zstd_level, ..EncodeOptions::default() }).unwrap();
        verify_against(&encoded, &slabs).unwrap();
        let reader = open(&encoded);
        reader.check().unwrap();
        let set = reader.template_set(0).unwrap().unwrap();
        let names: Vec<&str> = set.fields.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["status", "number", "text", "twice", "address"]);
        let rows_of = |name: &str| reader.template_page(0, 1).unwrap().unwrap().column(set.field_column(name).unwrap());
        assert_eq!(rows_of("status").unwrap().rows, None);
        let with_address = rows_of("address").unwrap().rows.clone().unwrap();
        assert!(with_address.iter().all(|row| !(row + MAX_PAGE_EVENTS as u32).is_multiple_of(4)));
        let by_row = reader.page_fields_by_row(0, 0, FieldNames::ALL).unwrap();
        assert!(by_row.iter().all(|field| matches!(&**field.name, "twice" | "rare")));
        let named = PageColumns { fields: FieldNames::of(["number"]), ..PageColumns::NONE };
        let page = reader.read_page(0, 1, named).unwrap();
        let numbers: Vec<&str> =
            page.fields.iter().filter(|field| &**field.name == "number").map(|field| field.value).collect();
        assert_eq!((numbers.len(), numbers[0]), (5_000 - MAX_PAGE_EVENTS, "28672"));
    }
}

#[test]
fn a_field_that_repeats_a_part_of_the_text_takes_no_space() {
    let mut plain = EventBatch { index_time: 1_000, ..EventBatch::default() };
    let meta =
        plain.intern(&Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "t".into() });
    for row in 0..20_000u64 {
        let mixed = (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let number = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 34;
        plain.push(format!("took {number} ms").as_bytes(), row as i64, meta);
    }
    let mut with_fields = plain.clone();
    for row in 0..20_000u32 {
        let text = String::from_utf8(plain.raw(row as usize).to_vec()).unwrap();
        with_fields.fields.push(row, "ms", text.split(' ').nth(1).unwrap());
    }
    let columns = |batch: &EventBatch, zstd_level: i32| {
        let options = EncodeOptions { zstd_level, ..EncodeOptions::default() };
        let encoded = encode(std::slice::from_ref(batch), &options).unwrap();
        let kinds = open(&encoded).stored_bytes_by_kind(0).unwrap();
        let of_columns = kinds.iter().filter(|(kind, _)| kind.starts_with("column"));
        of_columns.map(|(_, bytes)| bytes).sum::<u64>()
    };
    for level in [1, 3] {
        let (without, with) = (columns(&plain, level), columns(&with_fields, level));
        assert!(with < without + 512 && without > 10_000, "{without} {with}");
    }
}
