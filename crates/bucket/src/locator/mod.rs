//! Where rare tokens are: which pages of a template slab hold a token that no term dictionary lists, without reading its
//! columns.
//!
//! A list of unique ids and their pages would cost more than the ids do. A *locator* does not keep the tokens: it is a
//! function from the hash of a token to its pages, about seven bits each, which gives pages also for tokens that are
//! not there; whether one is, the term filter says, and in the end the page itself. A token of few pages is a chain of
//! *links*, each a page and whether another follows; a token of many pages says so, and its columns are read.
//!
//! The hashes are cut into *parts* by their upper bits, each a table of its own (`ribbon`), so that a look-up reads a
//! few kilobytes. A compacted slab has a locator; a sealed one, which is to be compacted soon, does without.
//!
//! Not here: what is rare (`crate::term_dictionary::rare_tokens`) and how columns are looked through (`crate::rare_pages`).

mod read;
mod ribbon;
mod write;

pub(crate) use read::Locator;
pub(crate) use write::{RarePages, write_locator};

use self::ribbon::mix;

/// Keys of a part, about.
const KEYS_PER_PART: usize = 8_192;
/// Pages of a token that a locator tells; of a token in more pages it says only that.
const MAX_LINKS: usize = 4;
/// Parts of a locator at most, held against before memory is taken.
const MAX_PARTS: usize = 1 << 20;
/// Low bits of a hash that do not count, as the page takes their place while pairs are sorted.
const PAGE_BITS: u32 = 6;
/// Step between the keys of a chain of links.
const LINK_STEP: u64 = 0xa076_1d64_78bd_642f;

/// The bits of a hash that count.
fn key_of(hash: u64) -> u64 {
    hash >> PAGE_BITS << PAGE_BITS
}

/// The key of a link, from 0, of a token with this key.
fn link_key(key: u64, link: usize) -> u64 {
    mix(key.wrapping_add((link as u64).wrapping_mul(LINK_STEP)))
}

/// The part a key belongs to, of so many.
fn part_of(key: u64, parts: usize) -> usize {
    ((u128::from(key) * parts as u128) >> u64::BITS) as usize
}

/// Bits of a page's number in a slab of so many pages.
fn page_bits(pages: usize) -> u32 {
    usize::BITS - pages.saturating_sub(1).leading_zeros()
}

/// What follows from the number of pages: how a link is written. The page in the low bits, above it whether another
/// link follows. No link leads on from the last page, as pages ascend: that one says that there are too many.
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

    fn too_many(self) -> u8 {
        (1 << self.bits()) - 1
    }

    fn last(self, page: u32) -> u8 {
        page as u8
    }

    fn leading_on(self, page: u32) -> u8 {
        page as u8 | 1 << self.page_bits
    }

    fn page(self, link: u8) -> u32 {
        u32::from(link) & ((1 << self.page_bits) - 1)
    }

    fn leads_on(self, link: u8) -> bool {
        link >> self.page_bits != 0
    }
}

#[cfg(test)]
mod tests;
