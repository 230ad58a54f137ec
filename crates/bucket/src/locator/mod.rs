//! Locator of rare tokens: maps a token that is not in the term dictionary to the pages of a template slab,
//! without reading columns.
//!
//! A list of unique ids with their pages would take more space than the ids themselves. A *locator* does not store the
//! tokens: it maps the hash of a token to pages and takes about seven bits per token. For absent tokens, it returns
//! arbitrary pages. Whether a token exists is decided by the term filter and finally by the page itself. A token in few
//! pages is stored as a chain of *links*: each link is a page and a flag that tells whether another link follows. A
//! token in many pages is only marked as such, and its columns are read.
//!
//! The hashes are divided into *parts* by their upper bits, each with a table of its own (`ribbon`), so that a lookup
//! reads a few kilobytes. Only compacted slabs have a locator; sealed slabs, which are compacted soon, have none.
//!
//! Not here: which tokens are rare (`crate::term_dictionary::rare_tokens`); searching columns (`crate::rare_pages`).

mod read;
mod ribbon;
mod write;

pub(crate) use read::Locator;
pub(crate) use write::{LocatorTables, RareTokenPages, write_locators};

use self::ribbon::mix_key;
use crate::limits::MAX_SLAB_PAGES;

/// Approximate number of keys of a part.
const TARGET_PART_KEYS: usize = 8_192;
/// Maximum number of pages that a locator returns for a token; for a token in more pages, it only reports that there
/// are too many.
const MAX_LINKS: usize = 4;
/// Maximum number of parts of a locator, checked before memory is allocated.
const MAX_PARTS: usize = 1 << 20;
/// Low bits of a hash that are ignored; while pairs of a token and a page are sorted, the page number takes the place
/// of these bits.
const PAGE_BITS: u32 = 6;
const _: () = assert!(MAX_SLAB_PAGES == 1 << PAGE_BITS, "the low bits number every page of a slab");
/// Step between the keys of a chain's links.
const LINK_STEP: u64 = 0xa076_1d64_78bd_642f;

/// The significant bits of a hash.
fn hash_key(hash: u64) -> u64 {
    hash >> PAGE_BITS << PAGE_BITS
}

/// The key of a token's link; links are counted from 0.
fn link_key(key: u64, link: usize) -> u64 {
    debug_assert!(link < MAX_LINKS, "readers follow no more links");
    mix_key(key.wrapping_add((link as u64).wrapping_mul(LINK_STEP)))
}

/// The part that a key belongs to.
fn part_number(key: u64, parts: usize) -> usize {
    ((u128::from(key) * parts as u128) >> u64::BITS) as usize
}

/// Bits of a page number in a slab of this many pages.
fn page_bits(pages: usize) -> u32 {
    usize::BITS - pages.saturating_sub(1).leading_zeros()
}

/// Encoding of links. The low bits, as many as the number of pages requires, are the page; the bit above them tells
/// whether another link follows. Pages ascend, so no link can follow the slab's last page. A link to the last page with
/// this bit set therefore means that the token is in too many pages.
#[derive(Clone, Copy, Debug)]
struct Links {
    page_bits: u32,
}

impl Links {
    fn of(pages: usize) -> Links {
        Links { page_bits: page_bits(pages) }
    }

    /// Bits of a link.
    fn bits(self) -> u32 {
        self.page_bits + 1
    }

    fn overflow_link(self) -> u8 {
        (1 << self.bits()) - 1
    }

    fn final_link(self, page: u8) -> u8 {
        page
    }

    fn continued_link(self, page: u8) -> u8 {
        page | 1 << self.page_bits
    }

    fn page(self, link: u8) -> u32 {
        u32::from(link) & ((1 << self.page_bits) - 1)
    }

    fn is_continued(self, link: u8) -> bool {
        link >> self.page_bits != 0
    }
}

#[cfg(test)]
mod tests;
