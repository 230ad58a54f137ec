//! Positions of the fingerprints of each slab in a sidecar (the object with a bucket's filters), for all versions of
//! the format.
//!
//! The filters of slabs whose lengths and seeds are equal form a *group*. The fingerprints of a term in all slabs of a
//! group are neighbours, so that one lookup answers for all of them. Up to version 3, every slab is a group of its own.

use quarry_stdx::number::u32_of;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::block::enforces_checksums;
use crate::filter::fuse::{Fuse, are_probes_in_bounds, probe};
use crate::limits::MAX_SLABS;
use crate::wire::{Cursor, Malformed};

/// Magic at the beginning of the sidecar, and again before the checksum at its end.
pub(super) const MAGIC: &[u8; 8] = b"QRYFILT4";
pub(super) const MAGIC_OF_VERSION_3: &[u8; 8] = b"QRYFILT3";
pub(super) const MAGIC_OF_VERSION_2: &[u8; 8] = b"QRYFILT2";
pub(super) const MAGIC_OF_VERSION_1: &[u8; 8] = b"QRYFILT1";
/// Size of a block of fingerprints. Each block has a checksum.
pub(super) const BLOCK_BYTES: usize = 8 << 10;
/// Size of a block's checksum.
const SUM_BYTES: usize = 8;
/// Size of a slab's parameters up to version 3.
pub(super) const HEAD_BYTES: usize = 24;
/// Size of the parameters of a group without the numbers of its slabs.
const GROUP_HEAD_BYTES: usize = 28;
/// Size of a slab's number in the list of its group, and of the counts of slabs and groups.
pub(super) const COUNT_BYTES: usize = 4;
/// Bytes after the parameters of the groups: the numbers of slabs and groups, the end of the fingerprints, the magic,
/// the checksum.
pub(super) const TRAILER_BYTES: usize = 2 * COUNT_BYTES + 8 + MAGIC.len() + 8;
/// Bytes after the parameters of the slabs in version 3: the number of slabs, the magic, the checksum.
pub(super) const TRAILER_BYTES_OF_VERSION_3: usize = COUNT_BYTES + MAGIC.len() + 8;

/// Fingerprints of slabs that are stored together, and the parameters for finding the fingerprints of a term.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    seed: u64,
    segment_length: u32,
    front_length: u32,
    /// Number of fingerprints of each slab.
    cells: u64,
    /// Position of the first fingerprint in the sidecar.
    start: u64,
    /// Number of slabs.
    pub(super) slabs: u32,
}

impl Group {
    /// The fingerprint of a hash, and the positions in the sidecar of its three cells in the group's first slab; each
    /// cell is followed by the same cell of the other slabs. `None` if the slabs have no terms.
    #[inline]
    pub(super) fn probe(&self, hash: u64) -> Option<(u8, [u64; 3])> {
        if self.cells == 0 {
            return None;
        }
        let (expected, places) = probe(hash, self.seed, self.segment_length, self.front_length);
        Some((expected, places.map(|place| self.start + place as u64 * u64::from(self.slabs))))
    }

    /// Number of fingerprints of all slabs, if the number does not exceed `most`.
    fn total(&self, most: u64) -> Result<u64, Malformed> {
        let total = self.cells.checked_mul(u64::from(self.slabs)).filter(|total| *total <= most);
        match total.filter(|_| are_probes_in_bounds(self.segment_length, self.front_length, self.cells)) {
            Some(total) => Ok(total),
            None => {
                Err(Malformed(format!("segments of {} do not fit {} fingerprints", self.segment_length, self.cells)))
            }
        }
    }
}

/// The group of a slab, and its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlabPosition {
    /// Number of the group.
    pub(super) group: usize,
    /// Number of the slab in the group.
    pub(super) at: u32,
}

/// The positions of all fingerprints.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    pub(super) groups: Vec<Group>,
    members: Vec<SlabPosition>,
    /// Whether a single filter holds the terms of all slabs, as in version 1.
    for_all: bool,
}

impl Layout {
    pub(super) fn member(&self, slab: usize) -> Option<SlabPosition> {
        self.members.get(if self.for_all { 0 } else { slab }).copied()
    }

    /// Number of slabs.
    pub(super) fn slabs(&self) -> usize {
        self.members.len()
    }

    /// Adds a slab that is a group of its own; its fingerprints begin at `start` and end before `end`. Returns where
    /// they end.
    pub(super) fn add_slab(&mut self, head: Head, start: u64, end: u64) -> Result<u64, Malformed> {
        let Head { seed, segment_length, front_length, cells } = head;
        let group = Group { seed, segment_length, front_length, cells, start, slabs: 1 };
        let total = group.total(end.saturating_sub(start))?;
        self.members.push(SlabPosition { group: self.groups.len(), at: 0 });
        self.groups.push(group);
        Ok(start + total)
    }

    /// This layout, with its only filter applied to all slabs.
    pub(super) fn for_all_slabs(self) -> Layout {
        Layout { for_all: true, ..self }
    }

    /// Parses the end of a sidecar of `len` bytes; `None` if `end` is too short.
    pub(super) fn read(end: &[u8], len: u64) -> Result<Option<(Layout, Sums)>, Malformed> {
        let Some(trailer) = Trailer::read(end)? else { return Err(Malformed::new("it has no trailer")) };
        let known = trailer.cells_end <= len && trailer.cells_end >= MAGIC.len() as u64;
        let Some(after) = (len - trailer.cells_end.min(len)).try_into().ok().filter(|_| known) else {
            return Err(Malformed(format!("fingerprints end at {} of {len} bytes", trailer.cells_end)));
        };
        let Some(from) = end.len().checked_sub(after) else { return Ok(None) };
        let (body, checksum) = end[from..].split_last_chunk::<8>().ok_or_else(|| Malformed::new("it is too short"))?;
        if xxh3_64(body) != u64::from_le_bytes(*checksum) && enforces_checksums() {
            return Err(Malformed::new("its parameters do not match their checksum"));
        }
        let mut cursor = Cursor::new(body);
        let sums = trailer.cells_end.div_ceil(BLOCK_BYTES as u64);
        if sums > (body.len() / SUM_BYTES) as u64 {
            return Err(Malformed(format!("{} bytes cannot hold {sums} checksums", body.len())));
        }
        let sums = (0..sums).map(|_| cursor.u64("checksum of a block")).collect::<Result<Box<[u64]>, Malformed>>()?;
        let layout = Layout::read_groups(&mut cursor, trailer)?;
        cursor.take(TRAILER_BYTES - SUM_BYTES, "trailer")?;
        cursor.finish("the term filter")?;
        Ok(Some((layout, Sums { end: trailer.cells_end, of_blocks: sums })))
    }

    fn read_groups(cursor: &mut Cursor<'_>, trailer: Trailer) -> Result<Layout, Malformed> {
        let mut members = vec![None; trailer.slabs];
        let mut groups = Vec::with_capacity(trailer.groups);
        let mut start = MAGIC.len() as u64;
        for number in 0..trailer.groups {
            let head = Head::read(cursor)?;
            let slabs = cursor.u32("number of slabs of a group")?;
            for at in 0..slabs {
                let slab = cursor.u32("number of a slab")? as usize;
                match members.get_mut(slab) {
                    Some(member @ None) => *member = Some(SlabPosition { group: number, at }),
                    _ => return Err(Malformed(format!("slab {slab} is in two groups, or there is no such slab"))),
                }
            }
            let Head { seed, segment_length, front_length, cells } = head;
            let group = Group { seed, segment_length, front_length, cells, start, slabs };
            start += group.total(trailer.cells_end.saturating_sub(start))?;
            groups.push(group);
        }
        if start != trailer.cells_end {
            return Err(Malformed(format!("fingerprints end at {}, their groups at {start}", trailer.cells_end)));
        }
        let members: Option<Vec<SlabPosition>> = members.into_iter().collect();
        let members = members.ok_or_else(|| Malformed::new("a slab is in no group"))?;
        Ok(Layout { groups, members, for_all: false })
    }
}

/// Content of the trailer.
#[derive(Clone, Copy)]
struct Trailer {
    slabs: usize,
    groups: usize,
    cells_end: u64,
}

impl Trailer {
    /// `None` if `end` is too short or does not have the magic of this version.
    fn read(end: &[u8]) -> Result<Option<Trailer>, Malformed> {
        let Some(foot) = end.len().checked_sub(TRAILER_BYTES) else { return Ok(None) };
        let mut cursor = Cursor::new(&end[foot..]);
        let slabs = slab_count(cursor.u32("number of slabs")?)?;
        let groups = slab_count(cursor.u32("number of groups")?)?;
        let cells_end = cursor.u64("end of the fingerprints")?;
        Ok((cursor.take(MAGIC.len(), "magic")? == MAGIC).then_some(Trailer { slabs, groups, cells_end }))
    }
}

/// Number of bytes after the fingerprints of a sidecar of `len` bytes that ends with `end`; `None` if the sidecar is
/// not of this version. The number follows from the trailer in two ways, which must agree, so that a damaged trailer
/// does not cause a large read.
pub(super) fn bytes_after_cells(end: &[u8], len: u64) -> Result<Option<u64>, Malformed> {
    let is_of_this_version = end.len().checked_sub(MAGIC.len() + 8).is_some_and(|at| end[at..].starts_with(MAGIC));
    let trailer = if is_of_this_version { Trailer::read(end)? } else { None };
    let Some(trailer) = trailer else { return Ok(None) };
    let after = len.checked_sub(trailer.cells_end);
    let after = after.ok_or_else(|| Malformed(format!("{len} bytes are too few")))?;
    let sums = trailer.cells_end.div_ceil(BLOCK_BYTES as u64) * SUM_BYTES as u64;
    let parameters = trailer.groups * GROUP_HEAD_BYTES + trailer.slabs * COUNT_BYTES + TRAILER_BYTES;
    if after != sums + parameters as u64 {
        return Err(Malformed(format!("{after} bytes follow the fingerprints, not {sums} and {parameters}")));
    }
    Ok(Some(after))
}

/// Checksums of the blocks before the parameters; these blocks contain the magic and all fingerprints.
#[derive(Clone, Debug)]
pub(super) struct Sums {
    /// Position where the last block ends.
    end: u64,
    of_blocks: Box<[u64]>,
}

impl Sums {
    /// Byte range of the blocks with a range of fingerprints.
    pub(super) fn blocks_of(&self, range: std::ops::Range<u64>) -> std::ops::Range<u64> {
        let block = BLOCK_BYTES as u64;
        range.start / block * block..range.end.next_multiple_of(block).min(self.end)
    }

    /// The first of these blocks that does not match its checksum; they begin at position `start`.
    pub(super) fn find_damaged(&self, start: u64, bytes: &[u8]) -> Option<u64> {
        let first = start / BLOCK_BYTES as u64;
        let numbered = (first..).zip(bytes.chunks(BLOCK_BYTES));
        let is_damaged = |number: u64, block: &[u8]| {
            let sum = usize::try_from(number).ok().and_then(|number| self.of_blocks.get(number));
            sum != Some(&xxh3_64_with_seed(block, number)) && enforces_checksums()
        };
        numbered.into_iter().find(|(number, block)| is_damaged(*number, block)).map(|(number, _)| number)
    }
}

/// Parameters of a slab's filter up to version 3; in version 4, the first parameters of a group.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) seed: u64,
    pub(super) segment_length: u32,
    pub(super) front_length: u32,
    /// Number of the filter's fingerprints.
    pub(super) cells: u64,
}

impl Head {
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Head, Malformed> {
        let seed = cursor.u64("seed")?;
        let segment_length = cursor.u32("segment length")?;
        let front_length = cursor.u32("length of all segments")?;
        Ok(Head { seed, segment_length, front_length, cells: cursor.u64("number of fingerprints")? })
    }
}

/// Checks that a number of slabs is within the limit.
pub(super) fn slab_count(count: u32) -> Result<usize, Malformed> {
    let count = count as usize;
    if count > MAX_SLABS { Err(Malformed(format!("{count} slabs exceed the limit {MAX_SLABS}"))) } else { Ok(count) }
}

/// The parameters of all slabs from the end of a sidecar of version 3; `None` if the sidecar is not of that version, or
/// `end` is too short to hold all parameters.
pub(super) fn read_trailing_heads(end: &[u8]) -> Result<Option<Vec<Head>>, Malformed> {
    let Some(foot) = end.len().checked_sub(TRAILER_BYTES_OF_VERSION_3) else { return Ok(None) };
    let mut cursor = Cursor::new(&end[foot..]);
    let count = cursor.u32("number of slabs")?;
    if cursor.take(MAGIC.len(), "magic")? != MAGIC_OF_VERSION_3 {
        return Ok(None);
    }
    let Some(start) = foot.checked_sub(slab_count(count)? * HEAD_BYTES) else { return Ok(None) };
    let mut cursor = Cursor::new(&end[start..foot]);
    (0..count).map(|_| Head::read(&mut cursor)).collect::<Result<Vec<Head>, Malformed>>().map(Some)
}

/// The numbers of the slabs of each group.
pub(super) fn groups_of(slabs: &[Fuse]) -> Vec<Vec<usize>> {
    let parameters = |fuse: &Fuse| (fuse.seed, fuse.segment_length, fuse.front_length, fuse.cells.len());
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (number, fuse) in slabs.iter().enumerate() {
        match groups.iter_mut().find(|group| parameters(&slabs[group[0]]) == parameters(fuse)) {
            Some(group) => group.push(number),
            None => groups.push(vec![number]),
        }
    }
    groups
}

/// Size of the sidecar for these groups.
pub(super) fn sidecar_bytes(slabs: &[Fuse], groups: &[Vec<usize>]) -> usize {
    let cells: usize = slabs.iter().map(|fuse| fuse.cells.len()).sum();
    let sums = (MAGIC.len() + cells).div_ceil(BLOCK_BYTES) * SUM_BYTES;
    let parameters = groups.len() * GROUP_HEAD_BYTES + slabs.len() * COUNT_BYTES;
    MAGIC.len() + cells + sums + parameters + TRAILER_BYTES
}

/// Writes a sidecar.
pub(super) fn write(slabs: &[Fuse], groups: &[Vec<usize>]) -> Vec<u8> {
    let len = sidecar_bytes(slabs, groups);
    let mut out = Vec::with_capacity(len);
    out.extend_from_slice(MAGIC);
    for group in groups {
        for cell in 0..slabs[group[0]].cells.len() {
            out.extend(group.iter().map(|slab| slabs[*slab].cells[cell]));
        }
    }
    let cells_end = out.len();
    let blocks = (0..).zip(out.chunks(BLOCK_BYTES));
    let sums: Vec<u64> = blocks.map(|(number, block)| xxh3_64_with_seed(block, number)).collect();
    sums.iter().for_each(|sum| out.extend_from_slice(&sum.to_le_bytes()));
    for group in groups {
        let Fuse { seed, segment_length, front_length, cells } = &slabs[group[0]];
        out.extend_from_slice(&seed.to_le_bytes());
        out.extend_from_slice(&segment_length.to_le_bytes());
        out.extend_from_slice(&front_length.to_le_bytes());
        out.extend_from_slice(&(cells.len() as u64).to_le_bytes());
        out.extend_from_slice(&u32_of(group.len()).to_le_bytes());
        group.iter().for_each(|slab| out.extend_from_slice(&u32_of(*slab).to_le_bytes()));
    }
    out.extend_from_slice(&u32_of(slabs.len()).to_le_bytes());
    out.extend_from_slice(&u32_of(groups.len()).to_le_bytes());
    out.extend_from_slice(&(cells_end as u64).to_le_bytes());
    out.extend_from_slice(MAGIC);
    let checksum = xxh3_64(&out[cells_end..]);
    out.extend_from_slice(&checksum.to_le_bytes());
    assert_eq!(out.len(), len, "the sidecar has the size that was checked");
    out
}
