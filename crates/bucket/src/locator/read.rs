//! Looks up the pages of a token in a locator.

use std::ops::Range;

use bytes::Bytes;

use crate::block::{BlockKind, BlockRef, open_block};
use crate::error::{BlockPosition, BucketError};
use crate::limits::{MAX_SLAB_PAGES, MAX_TERM_DICTIONARY_DIRECTORY_BYTES};
use crate::locator::ribbon::{MAX_ROWS, MAX_VALUE_BITS, Table};
use crate::locator::{Links, MAX_LINKS, MAX_PARTS, hash_key, link_key, part_number};
use crate::source::ObjectSource;
use crate::wire::{Cursor, Malformed};

/// Maximum bytes of a part, checked before memory is allocated.
const MAX_PART_BYTES: usize = MAX_ROWS / 8 * MAX_VALUE_BITS as usize + 64;

/// The directory of a locator, cached while its bucket is open.
#[derive(Debug)]
pub(crate) struct Locator {
    place: BlockPosition,
    links: Links,
    slab_pages: usize,
    parts: Box<[BlockRef]>,
}

impl Locator {
    /// Reads the directory. `slab_pages` is the number of pages of the slab.
    pub(crate) fn open(
        source: &ObjectSource,
        at: BlockRef,
        place: BlockPosition,
        slab_pages: usize,
    ) -> Result<Locator, BucketError> {
        assert!(slab_pages <= MAX_SLAB_PAGES, "a link holds the number of any page");
        let bytes = source.fetch_block(place, at.stored_len as usize)?;
        let block = open_block(&bytes, at.kind, place, MAX_TERM_DICTIONARY_DIRECTORY_BYTES)?;
        let place = block.position();
        let are_contiguous = at.kind == BlockKind::Locator;
        let parts = place.map_malformed(read_parts(&block.decode()?, are_contiguous))?;
        Ok(Locator { place, links: Links::of(slab_pages), slab_pages, parts })
    }

    /// The pages of the rare token with this hash; arbitrary pages if there is no such token. `None` if the token is in
    /// too many pages to be listed.
    pub(crate) fn find(&self, source: &ObjectSource, hash: u64) -> Result<Option<u64>, BucketError> {
        let key = hash_key(hash);
        let (bytes, place) = self.fetch_part(source, part_number(key, self.part_count()))?;
        Ok(self.follow_links(key, &place.map_malformed(Table::read(&bytes, self.links.bits()))?))
    }

    /// Byte range of the part that a lookup of this hash reads.
    pub(crate) fn part_range(&self, hash: u64) -> Range<u64> {
        self.parts[part_number(hash_key(hash), self.part_count())].range()
    }

    /// Follows the links of a key.
    fn follow_links(&self, key: u64, table: &Table<'_>) -> Option<u64> {
        let mut found = 0;
        for link in 0..MAX_LINKS {
            let value = table.get(link_key(key, link));
            if value == self.links.overflow_link() {
                return None;
            }
            // An absent token may yield pages that do not exist.
            let page = self.links.page(value);
            found |= u64::from((page as usize) < self.slab_pages) << page;
            if !self.links.is_continued(value) {
                break;
            }
        }
        Some(found)
    }

    /// The table of a part and its position.
    fn fetch_part(&self, source: &ObjectSource, part: usize) -> Result<(Bytes, BlockPosition), BucketError> {
        let at = self.parts[part];
        let place = BlockPosition { block: at.kind.name(), offset: at.offset, ..self.place };
        let bytes = source.fetch_block(place, at.stored_len as usize)?;
        let table = open_block(&bytes, at.kind, place, MAX_PART_BYTES)?.stored()?;
        Ok((bytes.slice_ref(table), place))
    }

    /// Reads all tables, for looking up many tokens.
    pub(crate) fn read_tables(&self, source: &ObjectSource) -> Result<Tables<'_>, BucketError> {
        let mut parts = Vec::with_capacity(self.part_count());
        for part in 0..self.part_count() {
            let (bytes, place) = self.fetch_part(source, part)?;
            place.map_malformed(Table::read(&bytes, self.links.bits()))?;
            parts.push((bytes, place));
        }
        Ok(Tables { locator: self, parts })
    }

    fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// The parts' blocks.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = BlockRef> + '_ {
        self.parts.iter().copied()
    }
}

/// All tables of a locator.
#[derive(Debug)]
pub(crate) struct Tables<'a> {
    locator: &'a Locator,
    parts: Vec<(Bytes, BlockPosition)>,
}

impl Tables<'_> {
    /// Like [`Locator::find`].
    pub(crate) fn find(&self, hash: u64) -> Result<Option<u64>, BucketError> {
        let key = hash_key(hash);
        let (bytes, place) = &self.parts[part_number(key, self.parts.len())];
        Ok(self.locator.follow_links(key, &place.map_malformed(Table::read(bytes, self.locator.links.bits()))?))
    }
}

/// The parts that a directory lists. In older buckets, the parts `are_contiguous`; newer buckets list each part with
/// its distance from the previous part.
fn read_parts(bytes: &[u8], are_contiguous: bool) -> Result<Box<[BlockRef]>, Malformed> {
    let mut cursor = Cursor::new(bytes);
    let count = cursor.count("parts of a locator", MAX_PARTS.min(bytes.len()))?;
    if count == 0 {
        return Err(Malformed::new("a locator has no parts"));
    }
    let mut offset = if are_contiguous { cursor.varint("offset of the parts")? } else { 0 };
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        if !are_contiguous {
            offset = offset.saturating_add(cursor.varint("distance of a part")?);
        }
        let stored_len = cursor.count32("stored length of a part", u32::MAX as usize)?;
        parts.push(BlockRef { kind: BlockKind::LocatorPart, offset, stored_len });
        offset = offset.saturating_add(u64::from(stored_len));
    }
    cursor.finish("the locator")?;
    Ok(parts.into())
}
