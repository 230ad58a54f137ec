//! Writer of locators: collects the rare tokens of a slab with their pages.

use quarry_stdx::number::low_u8;

use crate::block::{BlockKind, BlockWriter};
use crate::error::{BlockPosition, BucketError};
use crate::filter::sort_and_dedup;
use crate::limits::MAX_SLAB_PAGES;
use crate::locator::ribbon::MAX_VALUE_BITS;
use crate::locator::ribbon::write_table;
use crate::locator::{Links, MAX_LINKS, MAX_PARTS, PAGE_BITS, TARGET_PART_KEYS, hash_key, link_key, part_number};
use crate::templates::{SlabColumn, SlabValues, TemplateSlab};
use crate::term_dictionary::rare_tokens::{RareNumbers, add_text_hashes, are_numbers_located, are_texts_rare};
use crate::wire::put_varint;

/// Maximum number of collected pairs, repetitions included: 128 MB of memory, and as much for sorting. A slab with more
/// pairs, for example of long events full of ids, gets no locator.
const MAX_PAIRS: usize = 16 << 20;

/// The number of parts is rounded up to a multiple of a power of two: the smallest power of two that is at least the
/// number of parts divided by this constant.
const PART_COUNT_STEPS: usize = 16;

/// Pairs of a rare token and a page that contains it, each as the upper bits of the token's hash with the page number
/// in the low bits.
#[derive(Debug, Default)]
pub(crate) struct RareTokenPages {
    pairs: Vec<u64>,
    /// Whether there were more than [`MAX_PAIRS`] pairs.
    is_over: bool,
}

impl RareTokenPages {
    /// Collects the tokens of those rare columns of a slab that a locator covers.
    pub(crate) fn of(slab: &TemplateSlab) -> RareTokenPages {
        let mut found = RareTokenPages::default();
        let mut hashes = Vec::new();
        for column in &slab.columns {
            match &*column.values {
                SlabValues::Numbers { format, numbers } => {
                    let min = numbers.iter().copied().min().unwrap_or(0);
                    let max = numbers.iter().copied().max().unwrap_or(0);
                    let is_located = are_numbers_located(*format, min, max, numbers.len() as u64);
                    for (page, places) in value_ranges_by_page(column).filter(|_| is_located) {
                        let mut set = RareNumbers::new(*format, min, max, places.len() as u64);
                        set.add(&numbers[places], &mut hashes);
                        set.finish(&mut hashes);
                        found.add(page, &mut hashes);
                    }
                }
                SlabValues::Texts { bytes, ends } if are_texts_rare(&column.traits) => {
                    for (page, places) in value_ranges_by_page(column) {
                        let mut start = if places.start == 0 { 0 } else { ends[places.start - 1] as usize };
                        let text = |end: &u32| &bytes[std::mem::replace(&mut start, *end as usize)..*end as usize];
                        add_text_hashes(ends[places].iter().map(text), &mut hashes);
                        found.add(page, &mut hashes);
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Adds hashes of tokens in one page.
    pub(super) fn add(&mut self, page: usize, hashes: &mut Vec<u64>) {
        assert!(page < MAX_SLAB_PAGES, "the page is in the low bits of a pair");
        self.is_over |= self.pairs.len() + hashes.len() > MAX_PAIRS;
        if self.is_over {
            hashes.clear();
        }
        self.pairs.extend(hashes.drain(..).map(|hash| hash_key(hash) | page as u64));
    }
}

/// The positions of a column's values, for each page with values.
fn value_ranges_by_page(column: &SlabColumn) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> + '_ {
    let places = |bounds: &[u32]| bounds[0] as usize..bounds[1] as usize;
    column.page_starts.windows(2).map(places).enumerate().filter(|(_, places)| !places.is_empty())
}

/// The tables of a locator, ready to be written.
#[derive(Debug)]
pub(crate) struct LocatorTables {
    /// Payloads of all parts, concatenated.
    payloads: Vec<u8>,
    /// End of each payload.
    ends: Vec<usize>,
}

impl LocatorTables {
    /// The locator of a slab of `pages` pages; `None` for a slab with one page, without rare tokens, or with more
    /// than [`MAX_PAIRS`] pairs.
    pub(crate) fn of(rare: RareTokenPages, pages: usize) -> Result<Option<LocatorTables>, BucketError> {
        let mut pairs = rare.pairs;
        if pages < 2 || pairs.is_empty() || rare.is_over {
            return Ok(None);
        }
        sort_and_dedup(&mut pairs);
        let links = Links::of(pages);
        let parts = part_count(pairs.len());
        assert!((1..=MAX_PARTS).contains(&parts), "a locator has at most MAX_PARTS parts");
        assert!(links.bits() <= MAX_VALUE_BITS, "a link fits its table");
        let mut tables = LocatorTables { payloads: Vec::new(), ends: Vec::with_capacity(parts) };
        let mut table = Vec::new();
        let mut left = &pairs[..];
        for part in 0..parts {
            let (here, later) = left.split_at(left.partition_point(|pair| part_number(hash_key(*pair), parts) <= part));
            left = later;
            table.clear();
            for token in here.chunk_by(|a, b| hash_key(*a) == hash_key(*b)) {
                add_chain(token, links, &mut table);
            }
            if !write_table(&table, links.bits(), &mut tables.payloads) {
                let what = format!("no table of {} links can be made", table.len());
                return Err(BucketError::Mismatch {
                    place: BlockPosition::outside_slabs(BlockKind::LocatorPart.name(), 0),
                    what,
                });
            }
            tables.ends.push(tables.payloads.len());
        }
        assert!(left.is_empty(), "every pair is in a part");
        Ok(Some(tables))
    }

    fn parts(&self) -> usize {
        self.ends.len()
    }

    fn payload(&self, part: usize) -> &[u8] {
        &self.payloads[if part == 0 { 0 } else { self.ends[part - 1] }..self.ends[part]]
    }
}

/// Number of parts for this many keys. The number is rounded up, so that slabs of about the same size have the same
/// number of parts, and the parts in which a token is looked up are neighbours in the object.
fn part_count(keys: usize) -> usize {
    let needed = keys.div_ceil(TARGET_PART_KEYS);
    let step = (needed / PART_COUNT_STEPS).checked_next_power_of_two().unwrap_or(1).max(1);
    needed.next_multiple_of(step)
}

/// Appends the parts of the locators of several slabs, ordered by the hashes that they cover. Returns the slabs and the
/// contents of their locators' directories.
pub(crate) fn write_locators(locators: &[(usize, LocatorTables)], blocks: &mut BlockWriter) -> Vec<(usize, Vec<u8>)> {
    let mut order: Vec<(u64, usize, usize)> = Vec::new();
    for (at, (_, tables)) in locators.iter().enumerate() {
        let parts = tables.parts() as u64;
        // The first hash of a part, in units of 2^-32 of all hashes.
        order.extend((0..parts).zip(0..).map(|(part, number)| ((part << 32) / parts, at, number)));
    }
    order.sort_unstable();
    let mut directories: Vec<(usize, Vec<u8>)> = Vec::with_capacity(locators.len());
    for (slab, tables) in locators {
        let mut directory = Vec::new();
        put_varint(&mut directory, tables.parts() as u64);
        directories.push((*slab, directory));
    }
    let mut ends = vec![0u64; locators.len()];
    for (_, at, part) in order {
        let offset = blocks.object.len() as u64;
        let stored = blocks.write_stored(BlockKind::LocatorPart, locators[at].1.payload(part));
        put_varint(&mut directories[at].1, offset - ends[at]);
        put_varint(&mut directories[at].1, u64::from(stored));
        ends[at] = offset + u64::from(stored);
    }
    directories
}

/// Adds the links of one token, whose pairs are `token`, in order of pages.
fn add_chain(token: &[u64], links: Links, table: &mut Vec<(u64, u8)>) {
    let Some(first) = token.first() else { return };
    let key = hash_key(*first);
    if token.len() > MAX_LINKS {
        table.push((link_key(key, 0), links.overflow_link()));
        return;
    }
    for (link, pair) in token.iter().enumerate() {
        let page = low_u8(pair & ((1 << PAGE_BITS) - 1));
        let value = if link + 1 == token.len() { links.final_link(page) } else { links.continued_link(page) };
        table.push((link_key(key, link), value));
    }
}
