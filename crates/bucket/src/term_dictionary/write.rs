//! Writer of term dictionaries: sorted terms, front-coded into pages that decode independently, and a directory of the
//! pages.
//!
//! A page has three streams (lengths, suffixes, postings). Their byte frequencies differ, so each stream is compressed
//! on its own; a single entropy code for all three would take a fifth more space.

use quarry_stdx::number::low_u8;

use crate::block::BlockWriter;
use crate::error::BucketError;
use crate::limits::{
    MAX_SHARED_MASKS, MAX_SLAB_PAGES, MAX_TERM_DICTIONARY_DIRECTORY_BYTES, MAX_TERM_DICTIONARY_PAGE_TERMS,
    MAX_TERM_DICTIONARY_TERMS,
};
use crate::term_dictionary::hash::PAIR_BYTES;
use crate::term_dictionary::postings::PostingsWriter;
use crate::term_dictionary::table::{Entry, TermTable};
use crate::wire::{put_bytes, put_varint};

/// Marks lengths that do not fit in two nibbles and therefore follow as varints.
pub(crate) const LONG_LENGTHS_MARKER: u8 = 0xff;

/// Maximum size of a position as varint.
const POSITION_BYTES_MAX: usize = 10;

/// Fingerprint of a term and its pages. The sum of all fingerprints is an order-independent checksum, which shows that
/// the collected terms and pages were written.
#[inline]
pub(crate) fn term_fingerprint(hash: u64, pages: u64) -> u64 {
    (hash ^ pages.rotate_left(17)).wrapping_mul(0x9fb2_1c65_1e98_df25)
}

/// A term dictionary whose position in the object is not known yet.
#[derive(Debug)]
pub(crate) struct WrittenDictionary {
    /// Content of the directory block before the position of the pages, and after it.
    before: Vec<u8>,
    after: Vec<u8>,
    /// The blocks of the pages, which are contiguous.
    pages: Vec<u8>,
}

impl WrittenDictionary {
    /// Appends the pages to the object; returns the content of the directory block.
    pub(crate) fn write_pages(&self, blocks: &mut BlockWriter) -> Vec<u8> {
        let mut directory = self.before.clone();
        put_varint(&mut directory, blocks.object.len() as u64);
        directory.extend_from_slice(&self.after);
        blocks.object.extend_from_slice(&self.pages);
        directory
    }
}

/// Encodes the terms of `table`, which belong to a slab of `pages` pages. `blocks` only compresses them; nothing is
/// added to its object.
pub(crate) fn encode_term_dictionary(
    table: &TermTable,
    pages: usize,
    blocks: &mut BlockWriter,
) -> Result<WrittenDictionary, BucketError> {
    assert!(pages <= MAX_SLAB_PAGES, "a page set has one bit per page");
    let order = sort_terms(table)?;
    let postings = PostingsWriter::new(table.entries(), pages);
    let (mut before, mut directory) = (Vec::new(), Vec::new());
    put_varint(&mut before, order.len() as u64);
    let start = blocks.object.len();
    directory.extend_from_slice(&table_fingerprint(table).to_le_bytes());
    assert!(postings.shared().len() <= MAX_SHARED_MASKS, "the number of shared page sets has a limit");
    put_varint(&mut directory, postings.shared().len() as u64);
    for mask in postings.shared() {
        directory.extend_from_slice(&mask.to_le_bytes());
    }
    assert_eq!(order.len(), table.entries().len(), "every term is written once");
    let mut page = PageStreams::default();
    for chunk in order.chunks(MAX_TERM_DICTIONARY_PAGE_TERMS) {
        page.fill(table, chunk, &postings);
        let parts: [&[u8]; 3] = [&page.lengths, &page.suffixes, &page.postings];
        let stored = blocks.write_parts(table.namespace().page_kind(), &parts)?;
        put_varint(&mut directory, stored as u64);
        let mut pair_bytes = [0; PAIR_BYTES];
        let first = &table.entries()[chunk[0].position as usize];
        put_bytes(&mut directory, table.term(first, &mut pair_bytes));
    }
    let directory_bytes = before.len() + POSITION_BYTES_MAX + directory.len();
    if directory_bytes > MAX_TERM_DICTIONARY_DIRECTORY_BYTES {
        return Err(BucketError::Limit {
            what: "bytes of a term dictionary directory",
            value: directory_bytes as u64,
            limit_name: "MAX_TERM_DICTIONARY_DIRECTORY_BYTES",
            limit: MAX_TERM_DICTIONARY_DIRECTORY_BYTES as u64,
        });
    }
    Ok(WrittenDictionary { before, after: directory, pages: blocks.object.split_off(start) })
}

fn table_fingerprint(table: &TermTable) -> u64 {
    table.entries().iter().fold(0, |sum, entry| sum.wrapping_add(term_fingerprint(table.hash_of(entry), entry.pages)))
}

/// Sort key of an entry: its first eight bytes, which usually decide, and its position in the table.
#[derive(Clone, Copy)]
struct SortKey {
    first: u64,
    position: u32,
}

/// The entries in ascending order of their terms.
fn sort_terms(table: &TermTable) -> Result<Vec<SortKey>, BucketError> {
    let entries = table.entries();
    if entries.len() > MAX_TERM_DICTIONARY_TERMS {
        return Err(BucketError::Limit {
            what: "distinct terms of a slab",
            value: entries.len() as u64,
            limit_name: "MAX_TERM_DICTIONARY_TERMS",
            limit: MAX_TERM_DICTIONARY_TERMS as u64,
        });
    }
    let key = |(position, entry): (u32, &Entry)| SortKey { first: entry.pair[0], position };
    let mut order: Vec<SortKey> = (0..).zip(entries).map(key).collect();
    order.sort_unstable_by_key(|key| key.first);
    for ties in order.chunk_by_mut(|a, b| a.first == b.first) {
        if ties.len() > 1 {
            ties.sort_unstable_by(|a, b| {
                let (mut a_bytes, mut b_bytes) = ([0; PAIR_BYTES], [0; PAIR_BYTES]);
                let (a, b) = (&entries[a.position as usize], &entries[b.position as usize]);
                table.term(a, &mut a_bytes).cmp(table.term(b, &mut b_bytes))
            });
        }
    }
    Ok(order)
}

/// The streams of the page being filled.
#[derive(Default)]
struct PageStreams {
    entries: Vec<Entry>,
    lengths: Vec<u8>,
    suffixes: Vec<u8>,
    postings: Vec<u8>,
}

impl PageStreams {
    fn fill(&mut self, table: &TermTable, chunk: &[SortKey], postings: &PostingsWriter) {
        self.lengths.clear();
        self.suffixes.clear();
        self.postings.clear();
        // In sorted order, reading an entry is a cache miss; copying all entries of the page first lets the misses
        // overlap.
        self.entries.clear();
        self.entries.extend(chunk.iter().map(|key| table.entries()[key.position as usize]));
        let (mut bytes, mut last_bytes) = ([0; PAIR_BYTES], [0; PAIR_BYTES]);
        let mut last: Option<&Entry> = None;
        for entry in &self.entries {
            let term = table.term(entry, &mut bytes);
            let shared = match last {
                None => 0,
                Some(last) if last.is_short() || entry.is_short() => {
                    shared_pair_prefix(last.pair, entry.pair).min(last.len()).min(entry.len())
                }
                Some(last) => shared_prefix(table.term(last, &mut last_bytes), term),
            };
            debug_assert!(last.is_none() || shared < term.len(), "terms ascend and differ");
            put_lengths(&mut self.lengths, shared, term.len() - shared);
            self.suffixes.extend_from_slice(&term[shared..]);
            postings.put(entry.pages, &mut self.postings);
            last = Some(entry);
        }
    }
}

/// Number of equal leading bytes of two pairs of words, padding included.
#[inline]
fn shared_pair_prefix(a: [u64; 2], b: [u64; 2]) -> usize {
    let first = (a[0] ^ b[0]).leading_zeros() as usize / 8;
    if first < 8 { first } else { 8 + (a[1] ^ b[1]).leading_zeros() as usize / 8 }
}

fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[inline]
fn put_lengths(out: &mut Vec<u8>, shared: usize, suffix: usize) {
    let packed = low_u8(shared << 4 | suffix);
    if shared < 16 && suffix < 16 && packed != LONG_LENGTHS_MARKER {
        out.push(packed);
    } else {
        out.push(LONG_LENGTHS_MARKER);
        put_varint(out, shared as u64);
        put_varint(out, suffix as u64);
    }
}
