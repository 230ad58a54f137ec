//! Tests of sidecars (the objects with the term filters of a bucket) of all versions, including damaged ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use xorf::{BinaryFuse8, DmaSerializable};

use super::layout::{HEAD_BYTES, TRAILER_BYTES_OF_VERSION_3};
use super::*;
use crate::error::ReadError;
use crate::{MemoryObject, ReadAt};

fn hashes(from: u64, count: u64) -> Vec<u64> {
    (from..from + count).map(|at| hash_term(Namespace::Tokens, at.to_string().as_bytes())).collect()
}

fn sidecar(slabs: &[Vec<u64>]) -> Vec<u8> {
    let mut writer = FilterWriter::default();
    slabs.iter().for_each(|slab| writer.add_slab(&mut slab.clone()).unwrap());
    writer.finish().unwrap()
}

/// The cells of all slabs, one slab after the other, and the parameters of all slabs, in the layout of versions 1 to 3.
fn cells_and_heads(slabs: &[Vec<u64>]) -> (Vec<u8>, Vec<u8>) {
    let (mut cells, mut heads) = (Vec::new(), Vec::new());
    for slab in slabs {
        let mut hashes = slab.clone();
        sort_and_dedup(&mut hashes);
        let fuse = Fuse::build(&hashes, &[]).unwrap();
        cells.extend_from_slice(&fuse.cells);
        heads.extend_from_slice(&fuse.seed.to_le_bytes());
        heads.extend_from_slice(&fuse.segment_length.to_le_bytes());
        heads.extend_from_slice(&fuse.front_length.to_le_bytes());
        heads.extend_from_slice(&(fuse.cells.len() as u64).to_le_bytes());
    }
    (cells, heads)
}

fn with_checksum(mut out: Vec<u8>) -> Vec<u8> {
    out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
    out
}

/// A sidecar as version 3 wrote it.
fn sidecar_of_version_3(slabs: &[Vec<u64>]) -> Vec<u8> {
    let ((cells, heads), count) = (cells_and_heads(slabs), (slabs.len() as u32).to_le_bytes());
    with_checksum([&MAGIC_OF_VERSION_3[..], &cells, &heads, &count, MAGIC_OF_VERSION_3].concat())
}

/// A sidecar as version 2 wrote it.
fn sidecar_of_version_2(slabs: &[Vec<u64>]) -> Vec<u8> {
    let ((cells, heads), count) = (cells_and_heads(slabs), (slabs.len() as u32).to_le_bytes());
    with_checksum([&MAGIC_OF_VERSION_2[..], &count, &heads, &cells].concat())
}

/// A sidecar as version 1 wrote it.
fn sidecar_of_version_1(hashes: &[u64]) -> Vec<u8> {
    let fuse = BinaryFuse8::try_from(hashes).unwrap();
    let mut descriptor = [0; BinaryFuse8::DESCRIPTOR_LEN];
    fuse.dma_copy_descriptor_to(&mut descriptor);
    let mut out = MAGIC_OF_VERSION_1.to_vec();
    out.extend_from_slice(&descriptor);
    out.extend_from_slice(&(fuse.fingerprints.len() as u64).to_le_bytes());
    out.extend_from_slice(&fuse.fingerprints);
    out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
    out
}

#[test]
fn damaged_sidecars_are_rejected() {
    for count in [0u64, 1, 2, 3, 1_000] {
        let slabs = [hashes(0, count), hashes(7, 3)];
        let older =
            [sidecar_of_version_3(&slabs), sidecar_of_version_2(&slabs), sidecar_of_version_1(&hashes(0, count))];
        for sidecar in std::iter::once(sidecar(&slabs)).chain(older) {
            TermFilter::open(&sidecar).unwrap();
            for at in 0..sidecar.len() {
                let mut flipped = sidecar.clone();
                flipped[at] ^= 4;
                assert!(TermFilter::open(&flipped).is_err());
                assert!(TermFilter::open(&sidecar[..at]).is_err());
            }
        }
    }
}

#[test]
fn version_1_answers_for_the_whole_bucket() {
    for count in [1, 2, 3, 1_000, 30_000] {
        let hashes = hashes(0, count);
        let filter = TermFilter::open(&sidecar_of_version_1(&hashes)).unwrap();
        assert!(hashes.iter().all(|hash| filter.may_contain(0, *hash) && filter.may_contain(11, *hash)));
        assert!(filter.may_match(&TermQuery::All) && filter.may_match_slab(3, &TermQuery::All, SlabFacts::UNKNOWN));
    }
}

#[test]
fn missing_terms_are_counted_with_repetitions() {
    let slabs = [hashes(0, 2_000), Vec::new()];
    let filter = TermFilter::open(&sidecar(&slabs)).unwrap();
    let absent: Vec<u64> = hashes(50_000, 100).into_iter().filter(|hash| !filter.may_contain(0, *hash)).collect();
    assert!(absent.len() > 90, "{} of 100 terms are known to be absent", absent.len());
    let all = [&slabs[0][..], &absent, &slabs[0], &absent].concat();
    assert_eq!([0, 1, 2].map(|slab| filter.count_missing(slab, &slabs[0])), [0, 2_000, 2_000]);
    assert_eq!(filter.count_missing(0, &all), 2 * absent.len());
    assert_eq!(filter.count_missing(0, &[]), 0);
}

#[test]
fn slabs_answer_separately_and_the_bucket_for_all_slabs() {
    let slabs = [hashes(0, 2_000), Vec::new(), hashes(10_000, 1_000)];
    let filter = TermFilter::open(&sidecar(&slabs)).unwrap();
    let token = |number: u64| TermQuery::Token(number.to_string().into());
    for number in (0..2_000).chain(10_000..11_000) {
        let slab = if number < 2_000 { 0 } else { 2 };
        assert!(filter.may_match(&token(number)) && filter.may_match_slab(slab, &token(number), SlabFacts::UNKNOWN));
        assert!(!filter.may_match_slab(1, &token(number), SlabFacts::UNKNOWN));
    }
    let elsewhere = (0..2_000).filter(|number| filter.may_match_slab(2, &token(*number), SlabFacts::UNKNOWN)).count();
    assert!(elsewhere < 30, "{elsewhere} of 2000 terms of another slab");
    let absent = (50_000..52_000).filter(|number| filter.may_match(&token(*number))).count();
    assert!(absent < 45, "{absent} of 2000 absent terms");
    assert!(!filter.may_match_slab(3, &TermQuery::All, SlabFacts::UNKNOWN));
    // A slab without index-time fields contains no field term, even if the filter has a false positive.
    let field = |number: u64| TermQuery::Field { name: "id".into(), value: number.to_string().into() };
    let thought = |has_fields| {
        (0..5_000)
            .filter(|at| filter.may_match_slab(0, &field(*at), SlabFacts { has_fields, ..SlabFacts::UNKNOWN }))
            .count()
    };
    assert!(thought(true) > 0 && thought(false) == 0, "{}", thought(true));
    let both = TermQuery::and([token(5), token(10_005)]);
    assert_eq!((0..3).filter(|slab| filter.may_match_slab(*slab, &both, SlabFacts::UNKNOWN)).count(), 0);
    assert!(filter.may_match(&TermQuery::or([token(5), token(777_777)])));
}

#[test]
fn ranged_filters_agree_with_the_filter_in_memory() {
    let slabs = [hashes(0, 30_000), Vec::new(), hashes(10_000, 1_000), hashes(5, 1)];
    for whole in [sidecar(&slabs), sidecar_of_version_3(&slabs), sidecar_of_version_2(&slabs)] {
        let filter = TermFilter::open(&whole).unwrap();
        let ranged = open_ranged(whole).unwrap().unwrap();
        let without_fields = SlabFacts { has_fields: false, ..SlabFacts::UNKNOWN };
        for number in (0..40_000u64).step_by(7) {
            let text = number.to_string();
            for slab in 0..5 {
                let said = ranged.may_contain(slab, text.as_bytes()).unwrap();
                let query = TermQuery::Token(text.as_str().into());
                let expected = filter.may_match_slab(slab, &query, without_fields);
                assert_eq!(said, expected, "{text} in slab {slab}");
                assert_eq!(ranged.may_match_slab(slab, &query, without_fields, false).unwrap(), expected);
            }
        }
    }
}

#[test]
fn ranged_filters_read_many_heads_and_reject_damage() {
    let many: Vec<Vec<u64>> = (0..900).map(|slab| hashes(slab * 10, 3)).collect();
    for filter in [sidecar(&many), sidecar_of_version_3(&many), sidecar_of_version_2(&many)] {
        let filter = open_ranged(filter).unwrap().unwrap();
        assert!((0..900usize).all(|slab| filter.may_contain(slab, (slab * 10).to_string().as_bytes()).unwrap()));
    }
    assert!(open_ranged(sidecar_of_version_1(&hashes(0, 10))).unwrap().is_none());
    for whole in [sidecar_of_version_3(&[hashes(0, 100)]), sidecar_of_version_2(&[hashes(0, 100)])] {
        for len in 0..whole.len() {
            if let Ok(Some(cut)) = open_ranged(whole[..len].to_vec()) {
                // Only the checksum at the end is incomplete. Ranged reads never read it.
                assert!(len >= whole.len() - 8 && cut.may_contain(0, b"5").unwrap());
            }
        }
        for at in (0..whole.len()).filter(|at| !(START_OF_CELLS..whole.len() - END_OF_CELLS).contains(at)) {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x40;
            // Any answer about terms is allowed, but failures must be errors, not panics.
            if let Ok(Some(filter)) = open_ranged(flipped) {
                drop(filter.may_contain(0, b"5"));
            }
        }
    }
}

#[test]
fn ranged_filters_verify_what_they_read() {
    let whole = sidecar(&[hashes(0, 20_000), hashes(50, 20_000)]);
    assert!(open_ranged(whole.clone()).unwrap().unwrap().verifies_checksums());
    for len in 0..whole.len().min(300) {
        // A truncated sidecar cannot be opened for ranged reads. The caller then reads the whole sidecar, and that read
        // reports the damage.
        let cut = whole[..whole.len() - 1 - len].to_vec();
        assert!(!matches!(open_ranged(cut), Ok(Some(_))), "{len} bytes less");
    }
    let mut refused = 0;
    for at in (0..whole.len()).step_by(37) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x40;
        let asked = open_ranged(flipped).and_then(|filter| {
            let filter = filter.ok_or_else(|| BlockPosition::outside_slabs("filter", 0).corrupt("another version"))?;
            (0..50u64).try_for_each(|number| {
                let held = filter.may_contain(0, number.to_string().as_bytes())?;
                assert!(held, "byte {at} is damaged");
                Ok(())
            })
        });
        refused += usize::from(asked.is_err());
    }
    assert!(refused > 500, "{refused}");
}

#[test]
fn one_lookup_answers_for_slabs_of_about_the_same_size() {
    let slabs: Vec<Vec<u64>> = (0..20).map(|slab| hashes(slab * 7, 60_000 + slab * 100)).collect();
    let whole = sidecar(&slabs);
    let apart = sidecar_of_version_3(&slabs);
    assert!(whole.len() < apart.len() + apart.len() / 20, "{} bytes instead of {}", whole.len(), apart.len());
    let filter = open_ranged(whole).unwrap().unwrap();
    assert!(filter.layout.groups.len() <= 4, "{}", filter.layout.groups.len());
    filter.look_up(b"77777777").unwrap();
    let known = filter.kept_answers();
    let held = (0..20).filter(|slab| filter.may_contain(*slab, b"77777777").unwrap()).count();
    assert!(held <= 2, "{held} slabs hold an absent term");
    assert_eq!((known, filter.kept_answers()), (filter.layout.groups.len(), known));
}

/// An object of `len` bytes, zeros and then the bytes of `end`, that counts the bytes read of it.
struct CountedObject {
    len: u64,
    end: Vec<u8>,
    read: Arc<AtomicU64>,
}

impl ReadAt for CountedObject {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadError> {
        self.read.fetch_add(len as u64, Ordering::Relaxed);
        let zeros = self.len - self.end.len() as u64;
        let byte = |at: u64| at.checked_sub(zeros).map_or(0, |at| self.end[at as usize]);
        Ok((offset..offset + len as u64).map(byte).collect())
    }
}

/// The result of opening a sidecar of `len` bytes with this end, and the number of bytes read.
fn open_counted(len: u64, end: Vec<u8>) -> (Result<Option<RangedFilter>, BucketError>, u64) {
    let read = Arc::<AtomicU64>::default();
    let opened = RangedFilter::open(Arc::new(CountedObject { len, end, read: Arc::clone(&read) }));
    (opened, read.load(Ordering::Relaxed))
}

#[test]
fn a_damaged_length_or_trailer_causes_no_large_read() {
    let whole = sidecar(&[hashes(0, 20_000)]);
    let (opened, read) = open_counted(MAX_FILTER_BYTES as u64 + 1, whole.clone());
    assert!(opened.is_err() && read == 0, "{read} bytes");
    let most = MAX_FILTER_BYTES as u64;
    // A trailer that says that the fingerprints end after one block, in a sidecar of a gigabyte.
    let mut damaged = whole.clone();
    let at = damaged.len() - 24;
    damaged[at..at + 8].copy_from_slice(&8_200u64.to_le_bytes());
    let (opened, read) = open_counted(most, damaged);
    assert!(opened.is_err() && read < most / 500, "{read} bytes");
    let (opened, read) = open_counted(whole.len() as u64, whole.clone());
    assert!(opened.is_ok_and(|filter| filter.is_some()) && read < whole.len() as u64);
}

fn open_ranged(sidecar: Vec<u8>) -> Result<Option<RangedFilter>, BucketError> {
    RangedFilter::open(Arc::new(MemoryObject(sidecar.into())))
}

/// Bytes before the cells in version 2: magic, number of slabs and the head of one slab.
const START_OF_CELLS: usize = 8 + 4 + 24;
/// Bytes after the cells in version 3: the head of one slab and the trailer.
const END_OF_CELLS: usize = HEAD_BYTES + TRAILER_BYTES_OF_VERSION_3;
