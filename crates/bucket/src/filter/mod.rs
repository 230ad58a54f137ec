//! The term filter: an approximate set of all terms of a bucket, small enough to stay in memory.
//!
//! A bucket has one binary fuse filter per slab, with nine bits per term and a false positive rate of 1/256; the object
//! with these filters is the bucket's *sidecar*. With one probe per filter, a search skips the slabs without the term,
//! and the buckets in which no slab has it, before it reads their objects. [`TermFilter`] holds a whole sidecar in
//! memory, [`RangedFilter`] reads single blocks of it.
//!
//! The slabs of a bucket are usually about equally large. The fingerprints of a term in all these slabs are neighbours
//! ([`layout`]), so that a lookup reads three blocks of a sidecar of any size. The parameters follow the fingerprints,
//! so that the request that opens a remote object returns them. Version 3 has the fingerprints slab by slab; version 2
//! also has them slab by slab, with the parameters at the beginning; version 1 has a single filter for all slabs.

mod fuse;
mod layout;
mod ranged_filter;

use quarry_event::{MarkSet, TermQuery};
use xxhash_rust::xxh3::xxh3_64;

use crate::block::enforces_checksums;
use crate::error::{BlockPosition, BucketError};
pub(crate) use crate::filter::fuse::sort_and_dedup;
use crate::filter::fuse::{Fuse, Lengths};
use crate::filter::layout::{
    Head, Layout, MAGIC, MAGIC_OF_VERSION_1, MAGIC_OF_VERSION_2, MAGIC_OF_VERSION_3, read_trailing_heads, slab_count,
};
use crate::limits::MAX_FILTER_BYTES;
use crate::term_dictionary::field_terms::field_lookup;
use crate::term_dictionary::hash::hash_term;
use crate::term_dictionary::{Namespace, truncate_term};
use crate::wire::{Cursor, Malformed};

pub use self::ranged_filter::RangedFilter;

/// Beginning of the magic of every version.
const MAGIC_OF_ANY_VERSION: &[u8] = b"QRYFILT";

/// Approximate set of a bucket's terms, which shows without reading the bucket that a term is absent. For each slab,
/// about 1 in 256 absent terms is a false positive.
#[derive(Clone, Debug)]
pub struct TermFilter {
    layout: Layout,
    sidecar: Box<[u8]>,
}

/// Facts about a slab, known without its filter, that rule out false positives.
#[derive(Clone, Copy, Debug)]
pub struct SlabFacts {
    /// Whether the slab has index-time fields. If not, field terms count as absent without a look-up, which avoids
    /// false positives.
    pub has_fields: bool,
    /// Marks (escapes, entities and the like, see `quarry_event::text_marks`) that occur in no text of the slab.
    pub absent_marks: MarkSet,
}

impl SlabFacts {
    /// Nothing is known.
    pub const UNKNOWN: SlabFacts = SlabFacts { has_fields: true, absent_marks: MarkSet(0) };
}

/// Builds the filters of a bucket, slab by slab.
#[derive(Debug, Default)]
pub(crate) struct FilterWriter {
    slabs: Vec<Fuse>,
    /// Lengths of the filters added.
    lengths: Vec<Lengths>,
}

impl FilterWriter {
    /// Adds the filter of the next slab from the hashes of its terms, in any order and with repetitions. Sorts the
    /// hashes and removes repetitions.
    pub(crate) fn add_slab(&mut self, hashes: &mut Vec<u64>) -> Result<(), BucketError> {
        sort_and_dedup(hashes);
        let fuse = Fuse::build(hashes, &self.lengths).ok_or_else(|| BucketError::Mismatch {
            place: BlockPosition::outside_slabs("filter", 0).in_slab(self.slabs.len()),
            what: format!("no filter of {} terms can be built", hashes.len()),
        })?;
        let lengths = (fuse.segment_length, fuse.front_length);
        if fuse.seed == 0 && !self.lengths.contains(&lengths) {
            self.lengths.push(lengths);
        }
        self.slabs.push(fuse);
        Ok(())
    }

    /// The sidecar.
    pub(crate) fn finish(self) -> Result<Vec<u8>, BucketError> {
        let groups = layout::groups_of(&self.slabs);
        let len = layout::sidecar_bytes(&self.slabs, &groups);
        if len > MAX_FILTER_BYTES {
            return Err(BucketError::Limit {
                what: "bytes of a term filter",
                value: len as u64,
                limit_name: "MAX_FILTER_BYTES",
                limit: MAX_FILTER_BYTES as u64,
            });
        }
        Ok(layout::write(&self.slabs, &groups))
    }
}

impl TermFilter {
    /// Opens a sidecar written by [`crate::encode()`] and verifies its checksums.
    pub fn open(sidecar: &[u8]) -> Result<TermFilter, BucketError> {
        let place = BlockPosition::outside_slabs("filter", 0);
        if sidecar.len() > MAX_FILTER_BYTES {
            return Err(place.corrupt(format!("{} bytes exceed the limit {MAX_FILTER_BYTES}", sidecar.len())));
        }
        let layout = match sidecar.first_chunk::<8>() {
            None => return Err(place.corrupt(format!("{} bytes are too few for a term filter", sidecar.len()))),
            Some(MAGIC) => place.map_malformed(layout_of_verified(sidecar))?,
            Some(MAGIC_OF_VERSION_1 | MAGIC_OF_VERSION_2 | MAGIC_OF_VERSION_3) => {
                place.map_malformed(layout_of_older_version(sidecar))?
            }
            Some(magic) if magic.starts_with(MAGIC_OF_ANY_VERSION) => {
                return Err(BucketError::Unsupported { place, reason: format!("magic {magic:02x?}") });
            }
            Some(magic) => return Err(place.corrupt(format!("magic {magic:02x?}"))),
        };
        Ok(TermFilter { layout, sidecar: sidecar.into() })
    }

    /// Whether the bucket may hold a match; `false` is certain. For prefix and metadata queries, it is always `true`.
    pub fn may_match(&self, query: &TermQuery) -> bool {
        (0..self.layout.slabs()).any(|slab| may_match(query, SlabFacts::UNKNOWN, &|hash| self.may_contain(slab, hash)))
    }

    /// Whether slab `slab` may hold a match, as in [`TermFilter::may_match`]. A version 1 sidecar gives the same answer
    /// for every slab of the bucket.
    pub fn may_match_slab(&self, slab: usize, query: &TermQuery, facts: SlabFacts) -> bool {
        self.layout.member(slab).is_some() && may_match(query, facts, &|hash| self.may_contain(slab, hash))
    }

    /// Memory used by the filter, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.sidecar.len()
    }

    /// Whether slab `slab` may hold the term with this hash.
    pub(crate) fn may_contain(&self, slab: usize, hash: u64) -> bool {
        self.count_missing(slab, &[hash]) == 0
    }

    /// Number of the terms with these hashes that slab `slab` does not hold. The cells of one term are loaded while
    /// those of the term before it are awaited.
    pub(crate) fn count_missing(&self, slab: usize, hashes: &[u64]) -> usize {
        let Some(member) = self.layout.member(slab) else { return hashes.len() };
        let group = &self.layout.groups[member.group];
        let is_missing = |hash: &&u64| {
            group.probe(**hash).is_none_or(|(expected, places)| {
                let cells = places.map(|place| self.sidecar[place as usize + member.at as usize]);
                expected != cells[0] ^ cells[1] ^ cells[2]
            })
        };
        hashes.iter().filter(is_missing).count()
    }
}

/// The layout of a sidecar of the current version, all of whose bytes are verified.
fn layout_of_verified(sidecar: &[u8]) -> Result<Layout, Malformed> {
    let Some((layout, sums)) = Layout::read(sidecar, sidecar.len() as u64)? else {
        return Err(Malformed::new("it does not end as a term filter does"));
    };
    let cells = sums.blocks_of(0..sidecar.len() as u64);
    match sums.find_damaged(0, &sidecar[..cells.end as usize]) {
        Some(number) => Err(Malformed(format!("block {number} does not match its checksum"))),
        None => Ok(layout),
    }
}

/// The layout of a sidecar of version 1, 2 or 3, whose checksum is verified.
fn layout_of_older_version(sidecar: &[u8]) -> Result<Layout, Malformed> {
    let Some((body, checksum)) = sidecar.split_last_chunk::<8>() else {
        return Err(Malformed::new("it is too short"));
    };
    let (found, written) = (xxh3_64(body), u64::from_le_bytes(*checksum));
    if found != written && enforces_checksums() {
        return Err(Malformed(format!("checksum is {found:016x}, {written:016x} was written")));
    }
    let mut cursor = Cursor::new(body);
    let magic = cursor.take(MAGIC.len(), "magic")?;
    if magic == MAGIC_OF_VERSION_1 {
        return layout_of_version_1(&mut cursor, body.len() as u64);
    }
    let (heads, mut start, end) = if magic == MAGIC_OF_VERSION_2 {
        let count = slab_count(cursor.u32("number of slabs")?)?;
        let heads = (0..count).map(|_| Head::read(&mut cursor)).collect::<Result<Vec<Head>, Malformed>>()?;
        (heads, (body.len() - cursor.remaining()) as u64, body.len() as u64)
    } else {
        let heads =
            read_trailing_heads(sidecar)?.ok_or_else(|| Malformed::new("it does not end as a term filter does"))?;
        let after = heads.len() * layout::HEAD_BYTES + layout::COUNT_BYTES + MAGIC.len();
        (heads, MAGIC.len() as u64, body.len().saturating_sub(after) as u64)
    };
    let mut layout = Layout::default();
    for head in heads {
        start = layout.add_slab(head, start, end)?;
    }
    if start == end { Ok(layout) } else { Err(Malformed(format!("fingerprints end at {start}, not at {end}"))) }
}

fn layout_of_version_1(cursor: &mut Cursor<'_>, end: u64) -> Result<Layout, Malformed> {
    let seed = cursor.u64("seed")?;
    let segment_length = cursor.u32("segment length")?;
    let mask = cursor.u32("segment mask")?;
    let front_length = cursor.u32("length of all segments")?;
    let cells = cursor.u64("number of fingerprints")?;
    let start = end - cursor.remaining() as u64;
    if end - start != cells || cells == 0 || mask.checked_add(1) != Some(segment_length) {
        return Err(Malformed(format!("segments of {segment_length} do not fit {cells} fingerprints")));
    }
    let mut layout = Layout::default();
    layout.add_slab(Head { seed, segment_length, front_length, cells }, start, end)?;
    Ok(layout.for_all_slabs())
}

/// Whether the query may match, if `may_hold` tells which term hashes may occur.
fn may_match(query: &TermQuery, facts: SlabFacts, may_hold: &dyn Fn(u64) -> bool) -> bool {
    match query {
        TermQuery::All | TermQuery::Prefix(_) | TermQuery::Meta { .. } => true,
        TermQuery::Marked(mark) => !facts.absent_marks.contains(*mark),
        TermQuery::IndexTimeFields => facts.has_fields,
        TermQuery::None => false,
        TermQuery::Token(token) => may_hold(hash_term(Namespace::Tokens, truncate_term(token.as_bytes()))),
        TermQuery::Field { .. } | TermQuery::FieldNumber { .. } if !facts.has_fields => false,
        // The filter has the term of the value, or the tokens of the value if texts contain it. Other spellings of a
        // number need no test: their events match only if their text also contains the number itself.
        TermQuery::Field { .. } | TermQuery::FieldNumber { .. } => field_lookup(query).is_none_or(|wanted| {
            may_hold(hash_term(Namespace::Fields, &wanted.term())) || may_match(&wanted.tokens(), facts, may_hold)
        }),
        TermQuery::Value { tokens, .. } => may_match(tokens, facts, may_hold),
        TermQuery::And(parts) => parts.iter().all(|part| may_match(part, facts, may_hold)),
        TermQuery::Or(parts) => parts.iter().any(|part| may_match(part, facts, may_hold)),
    }
}

#[cfg(test)]
mod tests;
