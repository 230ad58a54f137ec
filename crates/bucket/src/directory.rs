//! The structures that are read first: the trailer, the bucket's directory and one head per slab.
//!
//! The head of a slab holds its metadata, its pages with the position of each block, and the positions of its other
//! blocks, such as the directories of its term dictionaries.

use std::sync::Arc;

use quarry_event::{MarkSet, Metadata, TimeNs};
use xxhash_rust::xxh3::xxh3_64;

use crate::block::{BlockKind, BlockRef, enforces_checksums};
use crate::error::{BlockPosition, BucketError};
use crate::limits::{
    MAX_PAGE_EVENTS, MAX_SLAB_EVENTS, MAX_SLAB_PAGES, MAX_SLAB_RAW_BYTES, MAX_SLABS, MAX_SUMMARY_VALUE_BYTES,
    MAX_SUMMARY_VALUES,
};
use crate::metas::{MetaSet, put_meta_set, put_metas, read_meta_set, read_metas};
use crate::summary::{BucketSummary, ValueSummary};
use crate::wire::{Cursor, Malformed, put_bytes, put_signed, put_varint};

/// First bytes of every bucket, and again before the checksum at its end.
const MAGIC: &[u8; 8] = b"QRYBUCKT";
/// Version of the bucket format: header, trailer, directory and slab heads. Blocks have versions of their own.
const FORMAT_VERSION: u32 = 1;
/// Bytes of the header: magic, version, four zeroes.
pub(crate) const HEADER_BYTES: usize = 16;
/// Bytes of the trailer: offset and stored length of the directory, version, magic, and the checksum of all of them.
pub(crate) const TRAILER_BYTES: usize = 32;

pub(crate) fn bucket_header() -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    header
}

pub(crate) fn put_trailer(directory_offset: u64, directory_len: u32, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&directory_offset.to_le_bytes());
    out.extend_from_slice(&directory_len.to_le_bytes());
    out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    out.extend_from_slice(MAGIC);
    let checksum = xxh3_64(&out[start..]);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// Checks the trailer; returns the offset and stored length of the directory.
pub(crate) fn read_trailer(bytes: &[u8], place: BlockPosition) -> Result<(u64, u32), BucketError> {
    let mut cursor = Cursor::new(bytes);
    let mut fields = || -> Result<(u64, u32, u32, &[u8], u64), Malformed> {
        Ok((cursor.u64("offset")?, cursor.u32("length")?, cursor.u32("version")?, cursor.take(8, "magic")?, {
            cursor.u64("checksum")?
        }))
    };
    let (offset, len, version, magic, checksum) = place.map_malformed(fields())?;
    if magic != MAGIC {
        return Err(place.corrupt("the object does not end like a bucket: it is truncated or not a bucket"));
    }
    let found = xxh3_64(&bytes[..TRAILER_BYTES - 8]);
    if found != checksum && enforces_checksums() {
        return Err(place.corrupt(format!("checksum is {found:016x}, {checksum:016x} was written")));
    }
    if version != FORMAT_VERSION {
        let reason = format!("bucket format version {version}; this program reads version {FORMAT_VERSION}");
        return Err(BucketError::Unsupported { place, reason });
    }
    Ok((offset, len))
}

/// A page as the slab's head describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageHead {
    pub(crate) events: u32,
    pub(crate) time_min: TimeNs,
    pub(crate) time_max: TimeNs,
    pub(crate) raw_bytes: u64,
    /// Metadata codes that occur, ascending. Filled by the writer only.
    pub(crate) codes: Vec<u32>,
    /// The metadata codes as a set; filled by the reader only.
    pub(crate) metas: MetaSet,
    /// Blocks in the order in which they are stored, consecutive.
    pub(crate) blocks: Vec<BlockRef>,
}

/// Content of a slab's head: metadata, pages, and positions of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlabHead {
    pub(crate) metas: Arc<[Metadata]>,
    pub(crate) pages: Vec<PageHead>,
    /// Blocks of the slab as a whole, such as the directories of its term dictionaries, the directories of the shared
    /// dictionaries that its columns use, and text dictionaries.
    pub(crate) blocks: Vec<BlockRef>,
    /// Marks that no text of the slab has; in older buckets empty.
    pub(crate) absent_marks: MarkSet,
}

impl SlabHead {
    /// Appends the head; `added` are further blocks of the slab.
    pub(crate) fn put(&self, added: &[BlockRef], out: &mut Vec<u8>) {
        assert!(self.pages.len() <= MAX_SLAB_PAGES, "a slab has at most MAX_SLAB_PAGES pages");
        put_metas(&self.metas, out);
        put_varint(out, self.pages.len() as u64);
        for page in &self.pages {
            assert!(page.events as usize <= MAX_PAGE_EVENTS, "a page has at most MAX_PAGE_EVENTS events");
            assert!(page.time_min <= page.time_max, "the first time of a page is not after its last");
            let is_known = page.codes.last().is_none_or(|code| (*code as usize) < self.metas.len());
            assert!(is_known, "codes of a page are in the dictionary of its slab");
            put_varint(out, u64::from(page.events));
            put_signed(out, page.time_min);
            put_varint(out, page.time_max.abs_diff(page.time_min));
            put_varint(out, page.raw_bytes);
            put_meta_set(&page.codes, out);
            let behind = |pair: &[BlockRef]| pair[0].offset + u64::from(pair[0].stored_len) == pair[1].offset;
            assert!(page.blocks.windows(2).all(behind), "blocks of a page are contiguous");
            put_varint(out, page.blocks.first().map_or(0, |block| block.offset));
            put_varint(out, page.blocks.len() as u64);
            for block in &page.blocks {
                out.push(block.kind.code());
                put_varint(out, u64::from(block.stored_len));
            }
        }
        put_varint(out, (self.blocks.len() + added.len()) as u64);
        for block in self.blocks.iter().chain(added) {
            out.push(block.kind.code());
            put_varint(out, block.offset);
            put_varint(out, u64::from(block.stored_len));
        }
        out.push(self.absent_marks.0);
    }

    pub(crate) fn read(bytes: &[u8], place: BlockPosition) -> Result<SlabHead, BucketError> {
        let mut cursor = Cursor::new(bytes);
        let metas = place.map_malformed(read_metas(&mut cursor))?;
        let pages = place.map_malformed(cursor.count("number of pages", MAX_SLAB_PAGES))?;
        let pages = (0..pages)
            .map(|at| read_page_head(&mut cursor, metas.len(), place.in_page(at)))
            .collect::<Result<Vec<PageHead>, BucketError>>()?;
        let count = place.map_malformed(cursor.count("number of slab blocks", cursor.remaining()))?;
        let mut blocks = Vec::new();
        for _ in 0..count {
            let kind = read_kind(&mut cursor, place)?;
            let offset = place.map_malformed(cursor.varint("offset of a block"))?;
            let stored_len = place.map_malformed(cursor.count32("length of a block", u32::MAX as usize))?;
            blocks.push(BlockRef { kind, offset, stored_len });
        }
        let absent_marks = match cursor.remaining() {
            0 => MarkSet::default(),
            _ => MarkSet(place.map_malformed(cursor.u8("absent marks"))?),
        };
        place.map_malformed(cursor.finish("the slab head"))?;
        Ok(SlabHead { metas, pages, blocks, absent_marks })
    }

    /// The block of a kind of which a slab has at most one; `None` if the slab has none.
    pub(crate) fn block(&self, kind: BlockKind) -> Option<BlockRef> {
        self.blocks.iter().copied().find(|block| block.kind == kind)
    }
}

fn read_kind(cursor: &mut Cursor<'_>, place: BlockPosition) -> Result<BlockKind, BucketError> {
    let code = place.map_malformed(cursor.u8("kind of a block"))?;
    BlockKind::from_code(code)
        .ok_or_else(|| BucketError::Unsupported { place, reason: format!("column kind {code} is unknown") })
}

fn read_page_head(cursor: &mut Cursor<'_>, metas: usize, place: BlockPosition) -> Result<PageHead, BucketError> {
    let mut page = place.map_malformed(read_page_facts(cursor, metas))?;
    let mut offset = place.map_malformed(cursor.varint("offset of the page"))?;
    let count = place.map_malformed(cursor.count("number of blocks", cursor.remaining() / 2))?;
    page.blocks.reserve_exact(count);
    for _ in 0..count {
        let kind = read_kind(cursor, place)?;
        let stored_len = place.map_malformed(cursor.count32("length of a block", u32::MAX as usize))?;
        page.blocks.push(BlockRef { kind, offset, stored_len });
        offset = offset.saturating_add(u64::from(stored_len));
    }
    Ok(page)
}

fn read_page_facts(cursor: &mut Cursor<'_>, metas: usize) -> Result<PageHead, Malformed> {
    let events = cursor.count32("number of events", MAX_PAGE_EVENTS)?;
    let time_min = cursor.signed("smallest time")?;
    let time_max = time_min.checked_add_unsigned(cursor.varint("largest time")?);
    let time_max = time_max.ok_or_else(|| Malformed::new("the largest time of a page is before its smallest"))?;
    let raw_bytes = cursor.count("bytes of text", MAX_SLAB_RAW_BYTES)? as u64;
    let metas = read_meta_set(cursor, metas)?;
    Ok(PageHead { events, time_min, time_max, raw_bytes, codes: Vec::new(), metas, blocks: Vec::new() })
}

/// The bucket's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directory {
    /// Everything but `object_bytes`, which follows from the object itself.
    pub(crate) summary: BucketSummary,
    /// Offset and stored length of each slab's head.
    pub(crate) slabs: Vec<(u64, u32)>,
}

impl Directory {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let summary = &self.summary;
        for number in [summary.events, summary.raw_bytes, summary.filter_bytes] {
            put_varint(out, number);
        }
        for time in [summary.time_min, summary.time_max, summary.index_time_max] {
            put_signed(out, time);
        }
        out.push(u8::from(summary.values_cut));
        for values in [&summary.hosts, &summary.sources, &summary.sourcetypes] {
            assert!(values.len() <= MAX_SUMMARY_VALUES, "a summary lists at most MAX_SUMMARY_VALUES values");
            put_varint(out, values.len() as u64);
            for value in values {
                put_bytes(out, value.value.as_bytes());
                put_varint(out, value.events);
                put_signed(out, value.first);
                put_signed(out, value.last);
            }
        }
        assert!(self.slabs.len() <= MAX_SLABS, "a bucket has at most MAX_SLABS slabs");
        let in_order = |pair: &[(u64, u32)]| pair[0].0 + u64::from(pair[0].1) <= pair[1].0;
        assert!(self.slabs.windows(2).all(in_order), "heads of slabs follow each other");
        put_varint(out, self.slabs.len() as u64);
        for (offset, len) in &self.slabs {
            put_varint(out, *offset);
            put_varint(out, u64::from(*len));
        }
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Directory, Malformed> {
        let mut cursor = Cursor::new(bytes);
        let summary = BucketSummary {
            events: cursor.varint("number of events")?,
            raw_bytes: cursor.varint("bytes of text")?,
            filter_bytes: cursor.varint("bytes of the filter")?,
            time_min: cursor.signed("smallest time")?,
            time_max: cursor.signed("largest time")?,
            index_time_max: cursor.signed("largest index time")?,
            values_cut: cursor.u8("whether values were cut")? != 0,
            hosts: read_values(&mut cursor)?,
            sources: read_values(&mut cursor)?,
            sourcetypes: read_values(&mut cursor)?,
            object_bytes: 0,
        };
        if summary.events > (MAX_SLABS * MAX_SLAB_EVENTS) as u64 {
            return Err(Malformed(format!("number of events {} is impossible", summary.events)));
        }
        let count = cursor.count("number of slabs", MAX_SLABS)?;
        let slab = |_| Ok((cursor.varint("offset of a slab head")?, cursor.count32("its length", u32::MAX as usize)?));
        let slabs = (0..count).map(slab).collect::<Result<Vec<(u64, u32)>, Malformed>>()?;
        cursor.finish("the directory")?;
        Ok(Directory { summary, slabs })
    }
}

fn read_values(cursor: &mut Cursor<'_>) -> Result<Vec<ValueSummary>, Malformed> {
    let count = cursor.count("number of values", MAX_SUMMARY_VALUES)?;
    let value = |_| {
        Ok(ValueSummary {
            value: cursor.text("a value", MAX_SUMMARY_VALUE_BYTES)?.into(),
            events: cursor.varint("events of a value")?,
            first: cursor.signed("first time of a value")?,
            last: cursor.signed("last time of a value")?,
        })
    };
    (0..count).map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_page_ascend() {
        let last_time = |first: i64, span: u64| {
            let mut bytes = vec![1];
            put_signed(&mut bytes, first);
            put_varint(&mut bytes, span);
            put_varint(&mut bytes, 0);
            put_meta_set(&[0], &mut bytes);
            read_page_facts(&mut Cursor::new(&bytes), 1).map(|page| page.time_max)
        };
        assert_eq!((last_time(-7, 9), last_time(i64::MIN, u64::MAX)), (Ok(2), Ok(i64::MAX)));
        assert!(last_time(5, i64::MAX.unsigned_abs()).is_err(), "the sum exceeds 64 bits");
    }
}
