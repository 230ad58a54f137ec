//! A term filter that reads only the blocks with the cells of the requested terms.
//!
//! Opening a sidecar (the object with a bucket's filters) reads its end, which has the parameters of all slabs and the
//! checksums of the blocks. The answers about the last few terms are kept, because a search asks for the same term in
//! every slab. A sidecar of version 2 or 3 has no checksums of blocks: such a sidecar may be used only with stores that
//! verify the bytes they read.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use quarry_event::TermQuery;

use crate::error::{BlockPosition, BucketError};
use crate::filter::layout::{
    self, COUNT_BYTES, HEAD_BYTES, Head, Layout, MAGIC, MAGIC_OF_VERSION_2, MAGIC_OF_VERSION_3, Sums,
    TRAILER_BYTES_OF_VERSION_3, read_trailing_heads, slab_count,
};
use crate::filter::{SlabFacts, may_match};
use crate::limits::MAX_FILTER_BYTES;
use crate::read_at::ReadAt;
use crate::term_dictionary::Namespace;
use crate::term_dictionary::hash::hash_term;
use crate::wire::{Cursor, Malformed};

/// Size of the magic and the number of slabs at the start of version 2.
const START_BYTES: usize = MAGIC.len() + COUNT_BYTES;
/// Minimum size of the first read, which holds the parameters of two hundred slabs.
const FIRST_READ_BYTES_MIN: u64 = 8 << 10;
/// The first read covers the size of a sidecar divided by this number: a little more than its checksums take.
const FIRST_READ_DIVISOR: u64 = 800;
/// Maximum number of answers that are kept.
const RECENT_ANSWERS_MAX: usize = 256;

/// Like [`crate::TermFilter`], but the cells stay in a store and are read on request.
pub struct RangedFilter {
    object: Arc<dyn ReadAt>,
    pub(super) layout: Layout,
    /// `None` for a version without checksums of blocks.
    sums: Option<Sums>,
    recent: Mutex<VecDeque<Answer>>,
    lookups: AtomicU64,
}

/// The slabs of a group that may hold the term with this hash.
struct Answer {
    hash: u64,
    group: usize,
    slabs: Box<[bool]>,
}

impl fmt::Debug for RangedFilter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RangedFilter").field("slabs", &self.layout.slabs()).finish_non_exhaustive()
    }
}

impl RangedFilter {
    /// Opens a sidecar; `None` if it is of version 1, which is small and read as a whole, or of no known version.
    pub fn open(object: Arc<dyn ReadAt>) -> Result<Option<RangedFilter>, BucketError> {
        let place = BlockPosition::outside_slabs("filter", 0);
        let len = object.len();
        if len > MAX_FILTER_BYTES as u64 {
            return Err(place.corrupt(format!("{len} bytes exceed the limit {MAX_FILTER_BYTES}")));
        }
        let first = (len / FIRST_READ_DIVISOR).max(FIRST_READ_BYTES_MIN).min(len);
        let mut end = read_end(&*object, first)?;
        if let Some(after) = place.map_malformed(layout::bytes_after_cells(&end, len))? {
            if after > end.len() as u64 {
                end = read_end(&*object, after)?;
            }
            let read = place.map_malformed(Layout::read(&end, len))?;
            let (layout, sums) = read.ok_or_else(|| place.corrupt("its end was not returned"))?;
            return Ok(Some(RangedFilter {
                object,
                layout,
                sums: Some(sums),
                recent: Mutex::default(),
                lookups: AtomicU64::new(0),
            }));
        }
        let layout = match place.map_malformed(bytes_of_trailing_heads(&end))? {
            Some(whole) => {
                if whole > end.len() as u64 {
                    end = read_end(&*object, whole)?;
                }
                let heads = place.map_malformed(read_trailing_heads(&end))?.unwrap_or_default();
                let start = MAGIC.len() as u64;
                place.map_malformed(layout_of(&heads, start, len.saturating_sub(whole)))?
            }
            None => match layout_of_version_2(&*object, place, first)? {
                Some(layout) => layout,
                None => return Ok(None),
            },
        };
        Ok(Some(RangedFilter { object, layout, sums: None, recent: Mutex::default(), lookups: AtomicU64::new(0) }))
    }

    /// Whether every block that is read is verified against a checksum of the sidecar.
    pub fn verifies_checksums(&self) -> bool {
        self.sums.is_some()
    }

    /// Number of lookups that have read cells, since the last call of [`RangedFilter::reset_lookups`].
    pub fn lookups(&self) -> u64 {
        self.lookups.load(Ordering::Relaxed)
    }

    /// Counts lookups from zero again.
    pub fn reset_lookups(&self) {
        self.lookups.store(0, Ordering::Relaxed);
    }

    /// Whether slab `slab` may hold this token, which must already be truncated to the maximum length of a term.
    pub fn may_contain(&self, slab: usize, token: &[u8]) -> Result<bool, BucketError> {
        self.may_contain_hash(slab, hash_term(Namespace::Tokens, token))
    }

    /// Like [`crate::TermFilter::may_match_slab`]. If `only_cached`, a term whose cells would have to be fetched counts
    /// as present.
    pub fn may_match_slab(
        &self,
        slab: usize,
        query: &TermQuery,
        facts: SlabFacts,
        only_cached: bool,
    ) -> Result<bool, BucketError> {
        let failure = RefCell::new(None);
        let may_hold = |hash: u64| {
            if only_cached && !self.is_cached_hash(slab, hash) {
                return true;
            }
            self.may_contain_hash(slab, hash).unwrap_or_else(|error| {
                failure.borrow_mut().get_or_insert(error);
                true
            })
        };
        let may_match = self.layout.member(slab).is_some() && may_match(query, facts, &may_hold);
        failure.into_inner().map_or(Ok(may_match), Err)
    }

    /// Whether [`RangedFilter::may_contain`] needs no network request for any slab.
    pub fn is_cached(&self, token: &[u8]) -> bool {
        let hash = hash_term(Namespace::Tokens, token);
        self.unknown_groups(hash).into_iter().all(|group| self.object.is_cached(&self.cell_ranges(group, hash)))
    }

    /// Reads what [`RangedFilter::may_contain`] needs for this token, for all slabs at once.
    pub fn look_up(&self, token: &[u8]) -> Result<(), BucketError> {
        let hash = hash_term(Namespace::Tokens, token);
        self.look_up_in(&self.unknown_groups(hash), hash)
    }

    fn may_contain_hash(&self, slab: usize, hash: u64) -> Result<bool, BucketError> {
        let Some(member) = self.layout.member(slab) else { return Ok(false) };
        let kept = |recent: &VecDeque<Answer>| {
            let of_term = |answer: &&Answer| answer.hash == hash && answer.group == member.group;
            recent.iter().rfind(of_term).and_then(|answer| answer.slabs.get(member.at as usize)).copied()
        };
        if let Some(known) = kept(&self.recent()) {
            return Ok(known);
        }
        self.look_up_in(&[member.group], hash)?;
        // Other searches may have dropped the answer meanwhile; the term then counts as present.
        Ok(kept(&self.recent()).unwrap_or(true))
    }

    fn is_cached_hash(&self, slab: usize, hash: u64) -> bool {
        let Some(member) = self.layout.member(slab) else { return true };
        let is_kept = self.recent().iter().any(|answer| answer.hash == hash && answer.group == member.group);
        is_kept || self.object.is_cached(&self.cell_ranges(member.group, hash))
    }

    /// The groups for which no answer about this hash is kept.
    fn unknown_groups(&self, hash: u64) -> Vec<usize> {
        let recent = self.recent();
        let is_known = |group: &usize| recent.iter().any(|answer| answer.hash == hash && answer.group == *group);
        (0..self.layout.groups.len()).filter(|group| !is_known(group)).collect()
    }

    /// Ranges of the cells of a hash in all slabs of a group, extended to whole blocks if blocks have checksums; empty
    /// if the slabs have no terms.
    fn cell_ranges(&self, group: usize, hash: u64) -> Vec<Range<u64>> {
        let group = &self.layout.groups[group];
        let places = group.probe(hash).map_or(Vec::new(), |(_, places)| places.to_vec());
        let cells = places.into_iter().map(|place| place..place + u64::from(group.slabs));
        cells.map(|cells| self.sums.as_ref().map_or(cells.clone(), |sums| sums.blocks_of(cells))).collect()
    }

    /// Reads the cells of a hash in these groups and keeps the answers.
    fn look_up_in(&self, groups: &[usize], hash: u64) -> Result<(), BucketError> {
        if groups.is_empty() {
            return Ok(());
        }
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let ranges: Vec<Vec<Range<u64>>> = groups.iter().map(|group| self.cell_ranges(*group, hash)).collect();
        let mut read = self.object.read_ranges(&ranges.concat())?.into_iter();
        for (group, ranges) in groups.iter().zip(ranges) {
            let read: Vec<(u64, Bytes)> =
                ranges.iter().zip(read.by_ref()).map(|(range, bytes)| (range.start, bytes)).collect();
            let answer = Answer { hash, group: *group, slabs: self.answer(*group, hash, &read)? };
            let mut recent = self.recent();
            if recent.len() >= RECENT_ANSWERS_MAX {
                recent.pop_front();
            }
            recent.push_back(answer);
        }
        Ok(())
    }

    /// The slabs of a group that may hold a hash, according to bytes read for its cells.
    fn answer(&self, group: usize, hash: u64, read: &[(u64, Bytes)]) -> Result<Box<[bool]>, BucketError> {
        let group = &self.layout.groups[group];
        let Some((expected, places)) = group.probe(hash) else { return Ok(vec![false; group.slabs as usize].into()) };
        let mut found = vec![0u8; group.slabs as usize];
        for (place, (start, bytes)) in places.into_iter().zip(read) {
            let position = BlockPosition::outside_slabs("filter", *start);
            if let Some(number) = self.sums.as_ref().and_then(|sums| sums.find_damaged(*start, bytes)) {
                return Err(position.corrupt(format!("block {number} does not match its checksum")));
            }
            let skipped = (place - start) as usize;
            let cells = bytes.get(skipped..skipped + found.len());
            let cells = cells.ok_or_else(|| position.corrupt(format!("{} bytes were returned", bytes.len())))?;
            found.iter_mut().zip(cells).for_each(|(all, cell)| *all ^= cell);
        }
        Ok(found.into_iter().map(|found| found == expected).collect())
    }

    /// Number of answers kept.
    #[cfg(test)]
    pub(super) fn kept_answers(&self) -> usize {
        self.recent().len()
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<Answer>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last `bytes` bytes of the sidecar, or the whole sidecar if it is shorter: the end of a damaged sidecar may state
/// any number.
fn read_end(object: &dyn ReadAt, bytes: u64) -> Result<Bytes, BucketError> {
    let bytes = bytes.min(object.len());
    Ok(object.read_at(object.len() - bytes, usize::try_from(bytes).unwrap_or(usize::MAX))?)
}

/// Bytes of the parameters and the trailer of version 3; `None` if the sidecar with this end is not of that version.
fn bytes_of_trailing_heads(end: &[u8]) -> Result<Option<u64>, Malformed> {
    let Some(foot) = end.len().checked_sub(TRAILER_BYTES_OF_VERSION_3) else { return Ok(None) };
    if !end[foot + COUNT_BYTES..].starts_with(MAGIC_OF_VERSION_3) {
        return Ok(None);
    }
    let count = slab_count(Cursor::new(&end[foot..]).u32("number of slabs")?)?;
    Ok(Some((TRAILER_BYTES_OF_VERSION_3 + count * HEAD_BYTES) as u64))
}

/// The slabs whose cells are between `start` and `end`, one after the other.
fn layout_of(heads: &[Head], mut start: u64, end: u64) -> Result<Layout, Malformed> {
    let mut layout = Layout::default();
    for head in heads {
        start = layout.add_slab(*head, start, end)?;
    }
    Ok(layout)
}

/// `None` if the sidecar is not of version 2.
fn layout_of_version_2(object: &dyn ReadAt, place: BlockPosition, first: u64) -> Result<Option<Layout>, BucketError> {
    let mut start = object.read_at(0, usize::try_from(first).unwrap_or(usize::MAX))?;
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
    let heads =
        place.map_malformed((0..count).map(|_| Head::read(&mut cursor)).collect::<Result<Vec<Head>, Malformed>>())?;
    place.map_malformed(layout_of(&heads, end as u64, object.len())).map(Some)
}
