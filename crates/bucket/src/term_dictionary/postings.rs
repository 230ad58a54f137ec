//! Compact encoding of posting lists: the pages of a term.
//!
//! Most terms of a log occur in one page, which takes one byte. A few pages are listed, more pages become a bitmap, and
//! page sets shared by many terms (above all the set of all pages) are written once and referenced by number.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use quarry_stdx::number::{low_u8, u8_of, u32_of};

use crate::limits::{MAX_SHARED_MASKS, MAX_SLAB_PAGES};
use crate::term_dictionary::table::Entry;
use crate::wire::{Cursor, Malformed, put_varint};

/// Codes below this value stand for a single page, whose number is the code.
const LIST_BASE: u8 = u8_of(MAX_SLAB_PAGES);
/// Number of pages of the shortest and of the longest list. Code `LIST_BASE + n - LIST_PAGES_MIN` is followed by `n`
/// pages.
const LIST_PAGES_MIN: u32 = 2;
const LIST_PAGES_MAX: u32 = 7;
/// Code followed by one bit per page of the slab.
const BITMAP_CODE: u8 = LIST_BASE + u8_of((LIST_PAGES_MAX - LIST_PAGES_MIN) as usize) + 1;
/// Code followed by the number of a shared mask.
const SHARED_CODE: u8 = BITMAP_CODE + 1;

/// Approximate bytes of a reference to a shared mask, besides its code.
const REFERENCE_BYTES: u32 = 2;
/// Bytes of a shared mask.
const MASK_BYTES: u64 = 8;

/// Writes the posting lists of one term dictionary.
#[derive(Debug)]
pub(crate) struct PostingsWriter {
    bitmap_bytes: usize,
    /// Shared masks, the most used first.
    shared: Vec<u64>,
    numbers: HashMap<u64, u32, FixedState>,
}

impl PostingsWriter {
    /// Chooses the masks worth sharing among `entries` of a slab of `pages` pages.
    pub(crate) fn new(entries: &[Entry], pages: usize) -> PostingsWriter {
        assert!(pages <= MAX_SLAB_PAGES, "a mask has one bit per page");
        let bitmap_bytes = pages.div_ceil(8);
        let mut uses: HashMap<u64, u32, FixedState> = HashMap::default();
        for entry in entries.iter().filter(|entry| entry.pages.count_ones() > REFERENCE_BYTES) {
            *uses.entry(entry.pages).or_default() += 1;
        }
        let saved = |mask: u64, uses: u32| {
            let inline = u64::from(mask.count_ones()).min(bitmap_bytes as u64 + 1);
            inline.saturating_sub(u64::from(REFERENCE_BYTES)) * u64::from(uses)
        };
        let mut worth: Vec<(u64, u32)> =
            uses.into_iter().filter(|(mask, uses)| saved(*mask, *uses) > MASK_BYTES).collect();
        // Sorted by use, then by value, because the output must not depend on the order of a hash map.
        worth.sort_unstable_by_key(|(mask, uses)| (std::cmp::Reverse(*uses), *mask));
        worth.truncate(MAX_SHARED_MASKS);
        let shared: Vec<u64> = worth.into_iter().map(|(mask, _)| mask).collect();
        let numbers = shared.iter().enumerate().map(|(number, mask)| (*mask, u32_of(number))).collect();
        PostingsWriter { bitmap_bytes, shared, numbers }
    }

    pub(crate) fn shared(&self) -> &[u64] {
        &self.shared
    }

    #[inline]
    pub(crate) fn put(&self, mask: u64, out: &mut Vec<u8>) {
        let pages = mask.count_ones();
        debug_assert!(pages > 0, "a term occurs in at least one page");
        debug_assert!(mask.checked_shr(u32_of(self.bitmap_bytes * 8)).unwrap_or(0) == 0, "the bitmap has all pages");
        if pages == 1 {
            out.push(low_u8(mask.trailing_zeros()));
        } else if let Some(number) = self.shared_mask_number(mask, pages) {
            out.push(SHARED_CODE);
            put_varint(out, u64::from(number));
        } else if (LIST_PAGES_MIN..=LIST_PAGES_MAX).contains(&pages) {
            out.push(LIST_BASE + low_u8(pages - LIST_PAGES_MIN));
            let mut left = mask;
            while left != 0 {
                out.push(low_u8(left.trailing_zeros()));
                left &= left - 1;
            }
        } else {
            out.push(BITMAP_CODE);
            out.extend_from_slice(&mask.to_le_bytes()[..self.bitmap_bytes]);
        }
    }

    fn shared_mask_number(&self, mask: u64, pages: u32) -> Option<u32> {
        if pages <= REFERENCE_BYTES { None } else { self.numbers.get(&mask).copied() }
    }
}

/// Reads one posting list. `pages` is the number of pages of the slab.
#[inline]
pub(crate) fn read_postings(cursor: &mut Cursor<'_>, shared: &[u64], pages: usize) -> Result<u64, Malformed> {
    let code = cursor.u8("postings")?;
    let mask = match code {
        page if page < LIST_BASE => 1 << page,
        SHARED_CODE => {
            let number = cursor.varint("number of a shared page set")?;
            let mask = usize::try_from(number).ok().and_then(|number| shared.get(number));
            *mask.ok_or_else(|| Malformed(format!("shared page set {number} of {} does not exist", shared.len())))?
        }
        BITMAP_CODE => {
            let mut mask = [0; 8];
            let bytes = pages.div_ceil(8).min(mask.len());
            mask[..bytes].copy_from_slice(cursor.take(bytes, "page bitmap")?);
            u64::from_le_bytes(mask)
        }
        list if list < BITMAP_CODE => {
            let count = usize::from(list - LIST_BASE) + LIST_PAGES_MIN as usize;
            let mut mask = 0u64;
            for page in cursor.take(count, "page list")? {
                mask |= 1u64.checked_shl(u32::from(*page)).unwrap_or(0);
            }
            mask
        }
        unknown => return Err(Malformed(format!("postings code {unknown} is unknown"))),
    };
    let beyond = if pages >= MAX_SLAB_PAGES { 0 } else { mask >> pages };
    if mask == 0 || beyond != 0 {
        return Err(Malformed(format!("page set {mask:#x} does not fit a slab of {pages} pages")));
    }
    Ok(mask)
}
