//! Damage of any kind causes an error that says where, never a panic and never wrong events.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use quarry_bucket::{
    BucketError, BucketReader, EncodeOptions, EncodedBucket, MemoryObject, ReadAt, ReadError, TermFilter, encode,
};
use quarry_event::{AnyColumn, FieldNames, PageColumns, TermQuery};
use quarry_stdx::{ErrorKind, HasKind};
use support::{delimited_batch, numbered_batch, open, query_for};

fn sample() -> EncodedBucket {
    encode(&[numbered_batch(4_200), numbered_batch(30)], &EncodeOptions::default()).unwrap()
}

fn check(object: Vec<u8>) -> Result<(), BucketError> {
    BucketReader::open(Arc::new(MemoryObject(object.into())))?.check()
}

/// Calls every function of the reader that a search calls; errors are allowed, panics are not.
fn call_search_functions(object: Vec<u8>) {
    let Ok(reader) = BucketReader::open(Arc::new(MemoryObject(object.into()))) else { return };
    let batch = numbered_batch(30);
    for slab in 0..reader.slabs().len() {
        for seed in 0..8 {
            drop(reader.candidate_pages(slab, &query_for(&batch, seed, 1), &AnyColumn));
        }
        for page in 0..reader.slabs()[slab].pages.len() {
            drop(reader.read_page(slab, page, PageColumns::ALL));
        }
    }
}

/// A bucket whose index-time fields have columns.
fn field_batch() -> EncodedBucket {
    let mut batch = numbered_batch(60);
    batch.fields.clear();
    for row in 0..60 {
        batch.fields.push(row, "status", &(row % 3).to_string());
        if row % 4 != 0 {
            batch.fields.push(row, "user", &format!("u{}", row % 7));
        }
    }
    let encoded = encode(&[batch], &EncodeOptions::default()).unwrap();
    let set = open(&encoded).template_set(0).unwrap().unwrap();
    assert_eq!(set.fields.len(), 2);
    encoded
}

/// A bucket whose index-time fields are parts of the texts.
fn cell_batch() -> EncodedBucket {
    let cells = |row: usize| vec![("Row", format!("R{}", row * 2)), ("status", (row % 3).to_string())];
    let encoded = encode(&[delimited_batch(60, ' ', cells, |_, text| text)], &EncodeOptions::default()).unwrap();
    let kinds = open(&encoded).stored_bytes_by_kind(0).unwrap();
    assert!(kinds.iter().any(|(kind, _)| kind.contains("without values of texts")), "{kinds:?}");
    encoded
}

#[test]
fn every_flipped_byte_is_detected() {
    let object = encode(&[numbered_batch(40)], &EncodeOptions::default()).unwrap().object;
    check(object.to_vec()).unwrap();
    for at in 0..object.len() {
        let mut flipped = object.to_vec();
        flipped[at] ^= 1 << (at % 8);
        assert!(check(flipped.clone()).is_err(), "byte {at} of {}", object.len());
        call_search_functions(flipped);
    }
    let fields = field_batch().object;
    check(fields.to_vec()).unwrap();
    for at in 0..fields.len() {
        let mut flipped = fields.to_vec();
        flipped[at] ^= 1 << (at % 8);
        assert!(check(flipped.clone()).is_err(), "byte {at} of {}", fields.len());
        call_search_functions(flipped);
    }
    let cells = cell_batch().object;
    check(cells.to_vec()).unwrap();
    for at in 0..cells.len() {
        let mut flipped = cells.to_vec();
        flipped[at] ^= 1 << (at % 8);
        assert!(check(flipped.clone()).is_err(), "byte {at} of {}", cells.len());
        call_search_functions(flipped);
    }
    for len in 0..object.len() {
        assert!(check(object[..len].to_vec()).is_err(), "cut to {len} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn random_damage_is_detected(flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..6), cut in any::<prop::sample::Index>()) {
        let object = sample().object;
        let mut flipped = object.to_vec();
        for (at, bits) in &flips {
            flipped[at.index(object.len())] ^= bits;
        }
        if flipped[..] != object[..] {
            prop_assert!(check(flipped.clone()).is_err());
        }
        call_search_functions(flipped);
        call_search_functions(object[..cut.index(object.len())].to_vec());
        let mut filter = sample().filter.to_vec();
        let at = flips[0].0.index(filter.len());
        filter[at] ^= flips[0].1;
        prop_assert!(TermFilter::open(&filter).is_err());
    }

    #[test]
    fn garbage_is_rejected(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(check(bytes.clone()).is_err());
        prop_assert!(TermFilter::open(&bytes).is_err());
    }
}

#[test]
fn damage_is_reported_with_its_position_and_other_pages_stay_readable() {
    let object = sample().object;
    let mut flipped = object.to_vec();
    // Byte 40 lies in the first block, the time column of page 0.
    flipped[40] ^= 1;
    let reader = BucketReader::open(Arc::new(MemoryObject(flipped.into()))).unwrap();
    let error = reader.read_page(0, 0, PageColumns::ALL).unwrap_err();
    let BucketError::Corrupt { place, .. } = &error else { panic!("{error}") };
    assert_eq!((place.slab, place.page, place.block, place.offset), (Some(0), Some(0), "time", 16));
    assert!(error.to_string().starts_with("bucket is damaged at slab 0, page 0, time block at byte 16: checksum is "));
    reader.read_page(0, 1, PageColumns::ALL).unwrap();
    reader.read_page(1, 0, PageColumns::ALL).unwrap();
}

#[test]
fn newer_versions_are_reported_as_unsupported() {
    let mut object = sample().object.to_vec();
    let trailer = object.len() - 32;
    object[trailer + 12] = 9;
    let checksum = xxhash_rust::xxh3::xxh3_64(&object[trailer..trailer + 24]);
    object[trailer + 24..].copy_from_slice(&checksum.to_le_bytes());
    let error = check(object).unwrap_err();
    assert!(matches!(error, BucketError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("bucket format version 9"), "{error}");
}

/// Storage whose reads fail, or return fewer bytes than requested.
struct FaultyStorage {
    bytes: Bytes,
    short: bool,
}

impl ReadAt for FaultyStorage {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadError> {
        if self.short {
            return Ok(self.bytes.slice(offset as usize..offset as usize + len / 2));
        }
        let (kind, reason) = (ErrorKind::Unavailable, "object bucket-7: timed out".into());
        Err(ReadError::Failed { offset, len, kind, reason })
    }
}

#[test]
fn storage_errors_are_returned() {
    let bytes = sample().object;
    let error = BucketReader::open(Arc::new(FaultyStorage { bytes: bytes.clone(), short: false })).unwrap_err();
    assert!(matches!(error, BucketError::Read(_)) && error.kind() == ErrorKind::Unavailable, "{error}");
    let remedy = "object bucket-7: timed out; check that its storage can be reached, then try again";
    assert!(error.to_string().ends_with(remedy), "{error}");
    let error = BucketReader::open(Arc::new(FaultyStorage { bytes, short: true })).unwrap_err();
    assert!(matches!(error, BucketError::Corrupt { .. }), "{error}");
}

#[test]
fn reads_are_few_and_small() {
    struct CountedBytes(Bytes, std::sync::Mutex<Vec<usize>>);
    impl ReadAt for CountedBytes {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }
        fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadError> {
            self.1.lock().unwrap().push(len);
            MemoryObject(self.0.clone()).read_at(offset, len)
        }
    }
    let object = encode(&[numbered_batch(200_000)], &EncodeOptions::default()).unwrap().object;
    let counted = Arc::new(CountedBytes(object.clone(), Default::default()));
    let reader = BucketReader::open(counted.clone()).unwrap();
    reader.candidate_pages(0, &TermQuery::Token("unique77".into()), &AnyColumn).unwrap();
    reader.read_page(0, 0, PageColumns { fields: FieldNames::NONE, ..PageColumns::ALL }).unwrap();
    let reads = counted.1.lock().unwrap().clone();
    // Reads of the tail, of the searched column, and of the page: its blocks before the text, and the column that is
    // in no pool.
    assert!(reads.len() <= 4, "{reads:?}");
    assert!(reads[2..].iter().sum::<usize>() < object.len() / 16, "{reads:?} of {}", object.len());
}
