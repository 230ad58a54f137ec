//! The term filter: an approximate set of all terms of a bucket, small enough to stay in memory.
//!
//! One binary fuse filter per slab, with nine bits per term and a false positive rate of 1/256. With one probe per
//! filter, a search skips the slabs without the term, and the buckets in which no slab has it, before it reads their
//! objects. In the sidecar, the parameters of the slabs' filters follow the fingerprints, so that the request that
//! opens a remote object returns them. Version 2 has the parameters at the beginning; version 1 has a single filter
//! for all slabs.

mod fuse;
mod remote_filter;

use quarry_event::TermQuery;
use quarry_stdx::number::u32_of;
use xxhash_rust::xxh3::xxh3_64;

use crate::block::enforces_checksums;
use crate::error::{BlockPosition, BucketError};
use crate::filter::fuse::Fuse;
pub(crate) use crate::filter::fuse::sort_and_dedup;
use crate::limits::{MAX_FILTER_BYTES, MAX_SLABS};
use crate::term_dictionary::hash::hash_term;
use crate::term_dictionary::{Namespace, field_term, truncate_term};
use crate::wire::{Cursor, Malformed};

pub use self::remote_filter::RemoteFilter;

/// Magic at the beginning of the sidecar, and again before the checksum at its end.
const MAGIC: &[u8; 8] = b"QRYFILT3";
const MAGIC_OF_VERSION_2: &[u8; 8] = b"QRYFILT2";
const MAGIC_OF_VERSION_1: &[u8; 8] = b"QRYFILT1";
/// Size of a slab's parameters.
const HEAD_BYTES: usize = 24;
/// Size of the number of slabs.
const COUNT_BYTES: usize = 4;
/// Bytes after the parameters of the slabs: the number of slabs, the magic, the checksum.
const TRAILER_BYTES: usize = COUNT_BYTES + MAGIC.len() + 8;

/// Approximate set of a bucket's terms, which shows without reading the bucket that a term is absent. For each slab,
/// about 1 in 256 absent terms is a false positive.
#[derive(Clone, Debug)]
pub struct TermFilter {
    /// Filter of each slab; in version 1, a single filter for all slabs.
    slabs: Vec<Fuse>,
    for_all: bool,
}

/// Builds the filters of a bucket, slab by slab.
#[derive(Debug, Default)]
pub(crate) struct FilterWriter {
    slabs: Vec<Fuse>,
}

impl FilterWriter {
    /// Adds the filter of the next slab from the hashes of its terms, in any order and with repetitions. Sorts the
    /// hashes and removes repetitions.
    pub(crate) fn add_slab(&mut self, hashes: &mut Vec<u64>) -> Result<(), BucketError> {
        sort_and_dedup(hashes);
        let fuse = Fuse::build(hashes).ok_or_else(|| BucketError::Mismatch {
            place: BlockPosition::outside_slabs("filter", 0).in_slab(self.slabs.len()),
            what: format!("no filter of {} terms can be built", hashes.len()),
        })?;
        self.slabs.push(fuse);
        Ok(())
    }

    /// The sidecar.
    pub(crate) fn finish(self) -> Result<Vec<u8>, BucketError> {
        let cells: usize = self.slabs.iter().map(|fuse| fuse.cells.len()).sum();
        let len = MAGIC.len() + cells + HEAD_BYTES * self.slabs.len() + TRAILER_BYTES;
        if len > MAX_FILTER_BYTES {
            return Err(BucketError::Limit {
                what: "bytes of a term filter",
                value: len as u64,
                limit_name: "MAX_FILTER_BYTES",
                limit: MAX_FILTER_BYTES as u64,
            });
        }
        let mut out = Vec::with_capacity(len);
        out.extend_from_slice(MAGIC);
        self.slabs.iter().for_each(|fuse| out.extend_from_slice(&fuse.cells));
        for fuse in &self.slabs {
            out.extend_from_slice(&fuse.seed.to_le_bytes());
            out.extend_from_slice(&fuse.segment_length.to_le_bytes());
            out.extend_from_slice(&fuse.front_length.to_le_bytes());
            out.extend_from_slice(&(fuse.cells.len() as u64).to_le_bytes());
        }
        out.extend_from_slice(&u32_of(self.slabs.len()).to_le_bytes());
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
        assert_eq!(out.len(), len, "the sidecar has the size that was checked");
        Ok(out)
    }
}

/// Parameters of a slab's filter.
#[derive(Clone, Copy)]
struct Head {
    seed: u64,
    segment_length: u32,
    front_length: u32,
    /// Number of the filter's fingerprints.
    cells: u64,
}

impl Head {
    fn read(cursor: &mut Cursor<'_>) -> Result<Head, Malformed> {
        let seed = cursor.u64("seed")?;
        let segment_length = cursor.u32("segment length")?;
        let front_length = cursor.u32("length of all segments")?;
        Ok(Head { seed, segment_length, front_length, cells: cursor.u64("number of fingerprints")? })
    }

    fn with_cells(self, cells: &mut Cursor<'_>) -> Result<Fuse, Malformed> {
        let Head { seed, segment_length, front_length, cells: len } = self;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        check_fuse(Fuse { seed, segment_length, front_length, cells: cells.take(len, "fingerprints")?.into() })
    }
}

/// Checks that a number of slabs is within the limit.
fn slab_count(count: u32) -> Result<usize, Malformed> {
    let count = count as usize;
    if count > MAX_SLABS { Err(Malformed(format!("{count} slabs exceed the limit {MAX_SLABS}"))) } else { Ok(count) }
}

/// The parameters of all slabs from the end of a sidecar; `None` if the sidecar is not of version 3, or `end` is too
/// short to hold all parameters.
fn read_trailing_heads(end: &[u8]) -> Result<Option<Vec<Head>>, Malformed> {
    let Some(foot) = end.len().checked_sub(TRAILER_BYTES) else { return Ok(None) };
    let mut cursor = Cursor::new(&end[foot..]);
    let count = cursor.u32("number of slabs")?;
    if cursor.take(MAGIC.len(), "magic")? != MAGIC {
        return Ok(None);
    }
    let Some(start) = foot.checked_sub(slab_count(count)? * HEAD_BYTES) else { return Ok(None) };
    let mut cursor = Cursor::new(&end[start..foot]);
    (0..count).map(|_| Head::read(&mut cursor)).collect::<Result<Vec<Head>, Malformed>>().map(Some)
}

impl TermFilter {
    /// Opens a sidecar written by [`crate::encode()`] and verifies its checksum.
    pub fn open(sidecar: &[u8]) -> Result<TermFilter, BucketError> {
        let place = BlockPosition::outside_slabs("filter", 0);
        if sidecar.len() > MAX_FILTER_BYTES {
            return Err(place.corrupt(format!("{} bytes exceed the limit {MAX_FILTER_BYTES}", sidecar.len())));
        }
        let Some((body, checksum)) = sidecar.split_last_chunk::<8>() else {
            return Err(place.corrupt(format!("{} bytes are too few for a term filter", sidecar.len())));
        };
        let (found, written) = (xxh3_64(body), u64::from_le_bytes(*checksum));
        if found != written && enforces_checksums() {
            return Err(place.corrupt(format!("checksum is {found:016x}, {written:016x} was written")));
        }
        let mut cursor = Cursor::new(body);
        let magic = place.map_malformed(cursor.take(MAGIC.len(), "magic"))?;
        if magic == MAGIC_OF_VERSION_1 {
            return place.map_malformed(TermFilter::parse_version_1(&mut cursor));
        }
        if magic == MAGIC_OF_VERSION_2 {
            return place.map_malformed(TermFilter::parse_version_2(&mut cursor));
        }
        if magic != MAGIC {
            return Err(BucketError::Unsupported { place, reason: format!("magic {magic:02x?}") });
        }
        place.map_malformed(TermFilter::parse(&mut cursor, sidecar))
    }

    fn parse(cursor: &mut Cursor<'_>, sidecar: &[u8]) -> Result<TermFilter, Malformed> {
        let heads =
            read_trailing_heads(sidecar)?.ok_or_else(|| Malformed::new("its end is not that of a term filter"))?;
        let slabs = heads.iter().map(|head| head.with_cells(cursor)).collect::<Result<Vec<Fuse>, Malformed>>()?;
        cursor.take(heads.len() * HEAD_BYTES + COUNT_BYTES + MAGIC.len(), "parameters of the slabs")?;
        cursor.finish("the term filter")?;
        Ok(TermFilter { slabs, for_all: false })
    }

    fn parse_version_2(cursor: &mut Cursor<'_>) -> Result<TermFilter, Malformed> {
        let count = slab_count(cursor.u32("number of slabs")?)?;
        let heads = (0..count).map(|_| Head::read(cursor)).collect::<Result<Vec<Head>, Malformed>>()?;
        let slabs = heads.iter().map(|head| head.with_cells(cursor)).collect::<Result<Vec<Fuse>, Malformed>>()?;
        cursor.finish("the term filter")?;
        Ok(TermFilter { slabs, for_all: false })
    }

    fn parse_version_1(cursor: &mut Cursor<'_>) -> Result<TermFilter, Malformed> {
        let seed = cursor.u64("seed")?;
        let segment_length = cursor.u32("segment length")?;
        let mask = cursor.u32("segment mask")?;
        let front_length = cursor.u32("length of all segments")?;
        let len = cursor.u64("number of fingerprints")?;
        let cells = cursor.take(cursor.remaining(), "fingerprints")?;
        if cells.len() as u64 != len || cells.is_empty() || mask.checked_add(1) != Some(segment_length) {
            return Err(Malformed(format!("segments of {segment_length} do not fit {len} fingerprints")));
        }
        let fuse = check_fuse(Fuse { seed, segment_length, front_length, cells: cells.into() })?;
        Ok(TermFilter { slabs: vec![fuse], for_all: true })
    }

    /// Whether the bucket may hold a match; `false` is certain. For prefix and metadata queries, it is always `true`.
    pub fn may_match(&self, query: &TermQuery) -> bool {
        self.slabs.iter().any(|fuse| may_match(query, true, &|hash| fuse.may_contain(hash)))
    }

    /// Whether slab `slab` may hold a match, as in [`TermFilter::may_match`]. A version 1 sidecar gives the same answer
    /// for every slab of the bucket. If the slab has no index-time fields (`has_fields` is false), field terms count as
    /// absent without a look-up, which avoids false positives.
    pub fn may_match_slab(&self, slab: usize, query: &TermQuery, has_fields: bool) -> bool {
        self.slab_filter(slab).is_some_and(|fuse| may_match(query, has_fields, &|hash| fuse.may_contain(hash)))
    }

    /// Memory used by the filter, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.slabs.iter().map(|fuse| fuse.cells.len() + size_of::<Fuse>()).sum()
    }

    fn slab_filter(&self, slab: usize) -> Option<&Fuse> {
        self.slabs.get(if self.for_all { 0 } else { slab })
    }

    /// Whether slab `slab` may hold the term with this hash.
    pub(crate) fn may_contain(&self, slab: usize, hash: u64) -> bool {
        self.slab_filter(slab).is_some_and(|fuse| fuse.may_contain(hash))
    }
}

fn check_fuse(fuse: Fuse) -> Result<Fuse, Malformed> {
    if fuse.is_valid() {
        return Ok(fuse);
    }
    Err(Malformed(format!("segments of {} do not fit {} fingerprints", fuse.segment_length, fuse.cells.len())))
}

/// Whether the query may match, if `may_hold` tells which term hashes may occur.
fn may_match(query: &TermQuery, has_fields: bool, may_hold: &dyn Fn(u64) -> bool) -> bool {
    match query {
        TermQuery::All | TermQuery::Prefix(_) | TermQuery::Meta { .. } | TermQuery::UnbrokenBlank => true,
        TermQuery::IndexTimeFields => has_fields,
        TermQuery::None => false,
        TermQuery::Token(token) => may_hold(hash_term(Namespace::Tokens, truncate_term(token.as_bytes()))),
        TermQuery::Field { .. } if !has_fields => false,
        TermQuery::Field { name, value } => may_hold(hash_term(Namespace::Fields, &field_term(name, value))),
        TermQuery::Value { tokens, .. } => may_match(tokens, has_fields, may_hold),
        TermQuery::And(parts) => parts.iter().all(|part| may_match(part, has_fields, may_hold)),
        TermQuery::Or(parts) => parts.iter().any(|part| may_match(part, has_fields, may_hold)),
    }
}

#[cfg(test)]
mod tests;
