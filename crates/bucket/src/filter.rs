//! The term filter: a sketch of every term of a bucket, small enough to stay in memory.
//!
//! A binary fuse filter spends nine bits on a term and errs on one of 256 absent terms. With one probe of it a
//! search skips a bucket without touching the object.

use quarry_event::TermQuery;
use xorf::{BinaryFuse8, BinaryFuse8Ref, DmaSerializable, Filter, FilterRef};
use xxhash_rust::xxh3::xxh3_64;

use crate::block::checksums_decide;
use crate::error::{BucketError, Place};
use crate::lexicon::hash::hash_term;
use crate::lexicon::{Namespace, cut_term, field_term};
use crate::limits::MAX_FILTER_BYTES;
use crate::wire::{Cursor, Malformed};

const MAGIC: &[u8; 8] = b"QRYFILT1";
/// Seed, segment length, its mask, length of all segments.
const DESCRIPTOR_BYTES: usize = BinaryFuse8::DESCRIPTOR_LEN;
/// Arrays of a fuse filter overlap in three segments.
const ARITY: u64 = 3;

/// Says of a bucket, without reading it, that it certainly lacks a term. Wrong "maybe" in about 1 of 256 terms.
#[derive(Clone, Debug)]
pub struct TermFilter {
    descriptor: [u8; DESCRIPTOR_BYTES],
    fingerprints: Box<[u8]>,
}

/// Builds the sidecar of a bucket from the hashes of its terms, which must be distinct.
pub(crate) fn write_filter(hashes: &[u64]) -> Result<Vec<u8>, BucketError> {
    let fuse = BinaryFuse8::try_from(hashes).map_err(|reason| BucketError::Mismatch {
        place: Place::of("filter", 0),
        what: format!("no filter of {} terms can be built: {reason}", hashes.len()),
    })?;
    let mut descriptor = [0; DESCRIPTOR_BYTES];
    fuse.dma_copy_descriptor_to(&mut descriptor);
    let mut out = Vec::with_capacity(64 + fuse.fingerprints.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&descriptor);
    out.extend_from_slice(&(fuse.fingerprints.len() as u64).to_le_bytes());
    out.extend_from_slice(&fuse.fingerprints);
    out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
    Ok(out)
}

impl TermFilter {
    /// Opens a sidecar written by [`crate::encode`]; checks its checksum.
    pub fn open(sidecar: &[u8]) -> Result<TermFilter, BucketError> {
        let place = Place::of("filter", 0);
        if sidecar.len() > MAX_FILTER_BYTES {
            return Err(place.corrupt(format!("{} bytes exceed the limit {MAX_FILTER_BYTES}", sidecar.len())));
        }
        let Some((body, checksum)) = sidecar.split_last_chunk::<8>() else {
            return Err(place.corrupt(format!("{} bytes are too few for a term filter", sidecar.len())));
        };
        let (found, written) = (xxh3_64(body), u64::from_le_bytes(*checksum));
        if found != written && checksums_decide() {
            return Err(place.corrupt(format!("checksum is {found:016x}, {written:016x} was written")));
        }
        let mut cursor = Cursor::new(body);
        let magic = place.decoded(cursor.take(MAGIC.len(), "magic"))?;
        if magic != MAGIC {
            return Err(BucketError::Unsupported { place, reason: format!("magic {magic:02x?}") });
        }
        place.decoded(TermFilter::parse(&mut cursor))
    }

    fn parse(cursor: &mut Cursor<'_>) -> Result<TermFilter, Malformed> {
        let mut descriptor = [0; DESCRIPTOR_BYTES];
        descriptor.copy_from_slice(cursor.take(DESCRIPTOR_BYTES, "descriptor")?);
        let mut facts = Cursor::new(&descriptor[8..]);
        let segment_length = facts.u32("segment length")?;
        let mask = facts.u32("segment mask")?;
        let segment_count_length = facts.u32("length of all segments")?;
        let len = cursor.u64("number of fingerprints")?;
        let fingerprints = cursor.take(cursor.remaining(), "fingerprints")?;
        // These make every probe of the filter stay inside its array.
        let fits = segment_length.is_power_of_two()
            && mask == segment_length - 1
            && segment_count_length > 0
            && segment_count_length.is_multiple_of(segment_length)
            && fingerprints.len() as u64 == len
            && u64::from(segment_count_length) + (ARITY - 1) * u64::from(segment_length) <= len;
        if !fits {
            return Err(Malformed(format!("segments of {segment_length} do not fit {len} fingerprints")));
        }
        Ok(TermFilter { descriptor, fingerprints: fingerprints.into() })
    }

    /// Whether the bucket may hold a match; `false` is certain. Prefixes and metadata always may.
    pub fn may_match(&self, query: &TermQuery) -> bool {
        match query {
            TermQuery::All | TermQuery::Prefix(_) | TermQuery::Meta { .. } => true,
            TermQuery::None => false,
            TermQuery::Piece(piece) => self.may_hold(hash_term(Namespace::Pieces, cut_term(piece.as_bytes()))),
            TermQuery::Field { name, value } => self.may_hold(hash_term(Namespace::Fields, &field_term(name, value))),
            TermQuery::And(parts) => parts.iter().all(|part| self.may_match(part)),
            TermQuery::Or(parts) => parts.iter().any(|part| self.may_match(part)),
        }
    }

    /// Bytes the filter keeps in memory.
    pub fn memory_bytes(&self) -> usize {
        self.fingerprints.len()
    }

    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        BinaryFuse8Ref::from_dma(&self.descriptor, &self.fingerprints).contains(&hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_every_term_and_survives_any_damage() {
        for count in [0u64, 1, 2, 3, 1_000] {
            let hashes: Vec<u64> = (0..count).map(|at| hash_term(Namespace::Pieces, &at.to_le_bytes())).collect();
            let sidecar = write_filter(&hashes).unwrap();
            let filter = TermFilter::open(&sidecar).unwrap();
            assert!(hashes.iter().all(|hash| filter.may_hold(*hash)));
            for at in 0..sidecar.len() {
                let mut flipped = sidecar.clone();
                flipped[at] ^= 4;
                assert!(TermFilter::open(&flipped).is_err());
                assert!(TermFilter::open(&sidecar[..at]).is_err());
            }
        }
    }
}
