//! A term filter on remote storage: only the cells of the requested terms are read.
//!
//! The three cells of a term are in three adjacent segments, so that about one read per term and slab suffices. Opening
//! a sidecar reads its end, which has the parameters of the slabs. The checksum over the whole sidecar is not verified,
//! so [`RemoteFilter`] may only be used with stores that verify the bytes they read.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{BlockPosition, BucketError};
use crate::filter::fuse::{are_probes_in_bounds, probe};
use crate::filter::{HEAD_BYTES, Head, MAGIC, MAGIC_OF_VERSION_2, TRAILER_BYTES, read_trailing_heads, slab_count};
use crate::read_at::ReadAt;
use crate::term_dictionary::Namespace;
use crate::term_dictionary::hash::hash_term;
use crate::wire::{Cursor, Malformed};

/// Size of the magic and the number of slabs at the start of version 2.
const START_BYTES: usize = MAGIC.len() + 4;
/// Size of the first read, which holds the parameters of six hundred slabs.
const FIRST_READ_BYTES: usize = 16 << 10;

/// Like [`crate::TermFilter`], but the cells stay in a store and are read on request.
pub struct RemoteFilter {
    object: Arc<dyn ReadAt>,
    slabs: Vec<SlabCells>,
}

/// Position of a slab's cells and the parameters to find those of a term.
struct SlabCells {
    seed: u64,
    segment_length: u32,
    front_length: u32,
    start: u64,
    len: u64,
}

impl fmt::Debug for RemoteFilter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RemoteFilter").field("slabs", &self.slabs.len()).finish_non_exhaustive()
    }
}

impl RemoteFilter {
    /// Opens a sidecar; `None` if it is of version 1, which is small and read as a whole.
    pub fn open(object: Arc<dyn ReadAt>) -> Result<Option<RemoteFilter>, BucketError> {
        let place = BlockPosition::outside_slabs("filter", 0);
        let len = object.len();
        let first = FIRST_READ_BYTES.min(usize::try_from(len).unwrap_or(FIRST_READ_BYTES));
        let mut end = object.read_at(len - first as u64, first)?;
        if let Some(foot) = end.len().checked_sub(TRAILER_BYTES)
            && end[foot..][4..].starts_with(MAGIC)
        {
            let count = place
                .map_malformed(slab_count(place.map_malformed(Cursor::new(&end[foot..]).u32("number of slabs"))?))?;
            let whole = TRAILER_BYTES + count * HEAD_BYTES;
            if whole > end.len() {
                let start =
                    len.checked_sub(whole as u64).ok_or_else(|| place.corrupt(format!("{len} bytes are too few")))?;
                end = object.read_at(start, whole)?;
            }
            let heads = place.map_malformed(read_trailing_heads(&end))?.unwrap_or_default();
            let slabs = place.map_malformed(locate_slab_cells(&heads, MAGIC.len() as u64, len))?;
            return Ok(Some(RemoteFilter { object, slabs }));
        }
        RemoteFilter::open_version_2(object, place, first)
    }

    fn open_version_2(
        object: Arc<dyn ReadAt>,
        place: BlockPosition,
        first: usize,
    ) -> Result<Option<RemoteFilter>, BucketError> {
        let mut start = object.read_at(0, first)?;
        let mut cursor = Cursor::new(&start);
        if place.map_malformed(cursor.take(MAGIC.len(), "magic"))? != MAGIC_OF_VERSION_2 {
            return Ok(None);
        }
        let count = place.map_malformed(slab_count(place.map_malformed(cursor.u32("number of slabs"))?))?;
        let end = START_BYTES + count * HEAD_BYTES;
        if end > start.len() {
            start = object.read_at(0, end)?;
        }
        let mut cursor = Cursor::new(&start[START_BYTES..]);
        let heads = place
            .map_malformed((0..count).map(|_| Head::read(&mut cursor)).collect::<Result<Vec<Head>, Malformed>>())?;
        let slabs = place.map_malformed(locate_slab_cells(&heads, end as u64, object.len()))?;
        Ok(Some(RemoteFilter { object, slabs }))
    }

    /// Whether slab `slab` may hold this token, which must already be cut to the maximum length of a term.
    pub fn may_contain(&self, slab: usize, token: &[u8]) -> Result<bool, BucketError> {
        let Some((expected, ranges)) = self.token_cells(slab, token) else { return Ok(false) };
        let read = self.object.read_ranges(&ranges)?;
        let found = read.iter().flat_map(|cell| cell.first()).fold(0, |all, cell| all ^ cell);
        Ok(found == expected)
    }

    /// Whether [`RemoteFilter::may_contain`] needs no network request.
    pub fn is_cached(&self, slab: usize, token: &[u8]) -> bool {
        self.token_cells(slab, token).is_none_or(|(_, ranges)| self.object.is_cached(&ranges))
    }

    /// The fingerprint of a token and the positions of its cells; `None` if the slab has no tokens.
    fn token_cells(&self, slab: usize, token: &[u8]) -> Option<(u8, [Range<u64>; 3])> {
        let cells = self.slabs.get(slab).filter(|cells| cells.len > 0)?;
        let hash = hash_term(Namespace::Tokens, token);
        let (expected, places) = probe(hash, cells.seed, cells.segment_length, cells.front_length);
        Some((expected, places.map(|place| cells.start + place as u64).map(|place| place..place + 1)))
    }
}

/// The cells of all slabs, which begin at `start`, in a sidecar of `len` bytes.
fn locate_slab_cells(heads: &[Head], mut start: u64, len: u64) -> Result<Vec<SlabCells>, Malformed> {
    let mut slabs = Vec::with_capacity(heads.len());
    for Head { seed, segment_length, front_length, cells } in heads.iter().copied() {
        let end = start.checked_add(cells).filter(|end| *end <= len);
        let Some(end) = end.filter(|_| are_probes_in_bounds(segment_length, front_length, cells)) else {
            return Err(Malformed(format!("segments of {segment_length} do not fit {cells} fingerprints")));
        };
        slabs.push(SlabCells { seed, segment_length, front_length, start, len: cells });
        start = end;
    }
    Ok(slabs)
}
