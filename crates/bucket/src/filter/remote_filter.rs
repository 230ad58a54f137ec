//! A term filter on remote storage: only the cells of the requested terms are read.
//!
//! The three cells of a term lie in three adjacent segments, which is about one read per term and slab. The checksum
//! over the whole sidecar is not verified, so this may only be used with stores that verify what they read.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use quarry_event::TermQuery;

use crate::error::{BlockPosition, BucketError};
use crate::filter::fuse::{probe, probes_stay_inside};
use crate::filter::{MAGIC, may_match};
use crate::limits::MAX_SLABS;
use crate::read_at::ReadAt;
use crate::wire::{Cursor, Malformed};

/// Size of the magic and the number of slabs.
const START_BYTES: usize = MAGIC.len() + 4;
/// Size of a slab's entry.
const HEAD_BYTES: usize = 24;
/// Size of the first read, which holds the entries of six hundred slabs.
const FIRST_BYTES: usize = 16 << 10;

/// Like [`crate::TermFilter`], with its cells in a store.
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
    /// Opens a sidecar; `None` if it has an earlier version, which is small and read as a whole.
    pub fn open(object: Arc<dyn ReadAt>) -> Result<Option<RemoteFilter>, BucketError> {
        let place = BlockPosition::of("filter", 0);
        let len = object.len();
        let mut head = object.read_at(0, FIRST_BYTES.min(usize::try_from(len).unwrap_or(FIRST_BYTES)))?;
        let mut cursor = Cursor::new(&head);
        if place.decoded(cursor.take(MAGIC.len(), "magic"))? != MAGIC {
            return Ok(None);
        }
        let count = place.decoded(cursor.u32("number of slabs"))? as usize;
        if count > MAX_SLABS {
            return Err(place.corrupt(format!("{count} slabs exceed the limit {MAX_SLABS}")));
        }
        let end = START_BYTES + count * HEAD_BYTES;
        if end > head.len() {
            head = object.read_at(0, end)?;
        }
        let slabs = place.decoded(slabs_of(&mut Cursor::new(&head[START_BYTES..]), count, len))?;
        Ok(Some(RemoteFilter { object, slabs }))
    }

    /// Whether slab `slab` may hold a match, as [`crate::TermFilter::may_match_slab`].
    pub fn may_match_slab(&self, slab: usize, query: &TermQuery, has_fields: bool) -> Result<bool, BucketError> {
        let Some(cells) = self.slabs.get(slab) else { return Ok(false) };
        let asked = RefCell::new(Vec::new());
        collect(query, has_fields, &asked);
        let mut hashes = asked.into_inner();
        hashes.sort_unstable();
        hashes.dedup();
        if cells.len == 0 || hashes.is_empty() {
            return Ok(may_match(query, has_fields, &|_| false));
        }
        let probes: Vec<(u8, [usize; 3])> =
            hashes.iter().map(|hash| probe(*hash, cells.seed, cells.segment_length, cells.front_length)).collect();
        let places = probes.iter().flat_map(|(_, places)| places);
        let ranges: Vec<Range<u64>> =
            places.map(|place| cells.start + *place as u64).map(|place| place..place + 1).collect();
        let read = self.object.read_ranges(&ranges)?;
        let given = |cells: &[bytes::Bytes]| cells.iter().flat_map(|cell| cell.first()).fold(0, |all, cell| all ^ cell);
        let held: Vec<bool> =
            probes.iter().zip(read.chunks(3)).map(|((expected, _), cells)| given(cells) == *expected).collect();
        let may_hold = |hash: u64| hashes.binary_search(&hash).is_ok_and(|at| held[at]);
        Ok(may_match(query, has_fields, &may_hold))
    }
}

/// Adds the hashes of all terms of a query.
fn collect(query: &TermQuery, has_fields: bool, hashes: &RefCell<Vec<u64>>) {
    match query {
        TermQuery::And(parts) | TermQuery::Or(parts) => {
            parts.iter().for_each(|part| collect(part, has_fields, hashes));
        }
        TermQuery::Value { tokens, .. } => collect(tokens, has_fields, hashes),
        one => {
            let note = |hash: u64| {
                hashes.borrow_mut().push(hash);
                true
            };
            may_match(one, has_fields, &note);
        }
    }
}

fn slabs_of(cursor: &mut Cursor<'_>, count: usize, len: u64) -> Result<Vec<SlabCells>, Malformed> {
    let mut start = (START_BYTES + count * HEAD_BYTES) as u64;
    let mut slabs = Vec::with_capacity(count);
    for _ in 0..count {
        let seed = cursor.u64("seed")?;
        let segment_length = cursor.u32("segment length")?;
        let front_length = cursor.u32("length of all segments")?;
        let cells = cursor.u64("number of fingerprints")?;
        let end = start.checked_add(cells).filter(|end| *end <= len);
        let Some(end) = end.filter(|_| probes_stay_inside(segment_length, front_length, cells)) else {
            return Err(Malformed(format!("segments of {segment_length} do not fit {cells} fingerprints")));
        };
        slabs.push(SlabCells { seed, segment_length, front_length, start, len: cells });
        start = end;
    }
    Ok(slabs)
}
