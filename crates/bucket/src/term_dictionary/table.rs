//! The term table: collects the distinct terms of a slab from its text; the hot path of ingest.
//!
//! An entry stores a term's first sixteen bytes as two big-endian words, so that looking up, hashing, lower-casing and
//! sorting a typical short term works on two registers without touching the text; longer terms are also stored whole in
//! an arena. Lookups are processed in small batches: first all slots of a batch are loaded, then all entries, and then
//! the entries are compared. The cache misses of the many nearly unique terms thus overlap.

use quarry_event::segment;
use quarry_stdx::number::{low_u32, u32_of};

use crate::term_dictionary::hash::{PAIR_BYTES, hash_pair, hash_term, load_pair};
use crate::term_dictionary::{Namespace, truncate_term};

/// Number of terms looked up together: enough to hide a cache miss, few enough for the first-level cache.
const BATCH_TERMS: usize = 64;
/// Number of slots for the terms added last, which fit the first-level cache; a power of two. Most tokens of a text are
/// words that occurred shortly before, and need no look-up.
const RECENT_TERMS: usize = 256;
/// Number of slots of an empty table; a power of two.
const INITIAL_SLOTS: usize = 1 << 12;
/// A slot without entry.
const EMPTY_SLOT: u64 = 0;

/// A distinct term.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// First sixteen bytes, big-endian, padded with zeroes.
    pub(crate) pair: [u64; 2],
    /// Pages that contain the term: bit `i` is page `i`.
    pub(crate) pages: u64,
    /// Length of the whole term in bytes.
    len: u32,
    /// Position of the whole term in the arena, if longer than the pair.
    arena_at: u32,
}

impl Entry {
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the pair holds the whole term.
    pub(crate) fn is_short(&self) -> bool {
        self.len() <= PAIR_BYTES
    }
}

/// A term waiting for its look-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PendingTerm {
    pair: [u64; 2],
    hash: u64,
    /// Pages that contain the term.
    pages: u64,
    len: u32,
}

/// Position of the entry of a slot that has one.
#[inline(always)]
fn position_in(slot: u64) -> usize {
    low_u32(slot) as usize - 1
}

/// The distinct terms of one slab in one namespace: tokens of texts, or terms of index-time fields.
#[derive(Debug)]
pub(crate) struct TermTable {
    namespace: Namespace,
    /// Upper half of the hash and position in `entries` plus one; [`EMPTY_SLOT`] if free. Open addressing, at most 3/4
    /// full.
    slots: Vec<u64>,
    entries: Vec<Entry>,
    arena: Vec<u8>,
    pending: Box<[PendingTerm; BATCH_TERMS]>,
    pending_len: usize,
    /// Terms added last, each in the slot of its hash. A new term that equals an entry here, including its pages, is
    /// already in the table or pending, and is not added again.
    recent: Box<[PendingTerm; RECENT_TERMS]>,
    scratch: Vec<u8>,
    /// Pages of the terms that are added next: bit `i` is page `i`.
    pages: u64,
}

impl TermTable {
    pub(crate) fn new(namespace: Namespace) -> TermTable {
        TermTable {
            namespace,
            slots: vec![EMPTY_SLOT; INITIAL_SLOTS],
            entries: Vec::new(),
            arena: Vec::new(),
            pending: Box::new([PendingTerm::default(); BATCH_TERMS]),
            pending_len: 0,
            recent: Box::new([PendingTerm::default(); RECENT_TERMS]),
            scratch: Vec::new(),
            pages: 1,
        }
    }

    /// Removes the terms but keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(EMPTY_SLOT);
        self.entries.clear();
        self.arena.clear();
        self.pending_len = 0;
        self.recent.fill(PendingTerm::default());
        self.pages = 1;
    }

    pub(crate) fn namespace(&self) -> Namespace {
        self.namespace
    }

    /// Entries in order of first appearance. Complete only after [`TermTable::finish`].
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The whole term of `entry`; `pair_bytes` is a buffer for short terms.
    #[inline]
    pub(crate) fn term<'a>(&'a self, entry: &Entry, pair_bytes: &'a mut [u8; PAIR_BYTES]) -> &'a [u8] {
        if entry.is_short() {
            pair_bytes[..8].copy_from_slice(&entry.pair[0].to_be_bytes());
            pair_bytes[8..].copy_from_slice(&entry.pair[1].to_be_bytes());
            &pair_bytes[..entry.len()]
        } else {
            let start = entry.arena_at as usize;
            &self.arena[start..start + entry.len()]
        }
    }

    /// Hash of `entry`'s term.
    #[inline]
    pub(crate) fn hash_of(&self, entry: &Entry) -> u64 {
        if entry.is_short() {
            hash_pair(self.namespace, entry.pair, entry.len())
        } else {
            let start = entry.arena_at as usize;
            hash_term(self.namespace, &self.arena[start..start + entry.len()])
        }
    }

    /// Subsequent terms belong to page `page`.
    pub(crate) fn start_page(&mut self, page: usize) {
        self.pages = 1 << page;
    }

    /// Subsequent terms occur in all pages of this set: bit `i` is page `i`.
    pub(crate) fn start_pages(&mut self, pages: u64) {
        self.pages = pages;
    }

    /// Adds every token of an event's text.
    pub(crate) fn add_text(&mut self, text: &[u8]) {
        segment::for_each_token(text, |token| self.add_token(token));
    }

    /// Looks up the pending terms, so that `entries` is complete.
    pub(crate) fn finish(&mut self) {
        self.flush();
    }

    #[inline]
    fn add_token(&mut self, token: &[u8]) {
        if token.len() > PAIR_BYTES {
            self.add_long(token);
            return;
        }
        let pair = load_pair(token);
        match (lower_word(pair[0]), lower_word(pair[1])) {
            (Some(first), Some(second)) => self.push([first, second], token.len()),
            _ => self.add_long(token),
        }
    }

    #[inline]
    fn push(&mut self, pair: [u64; 2], len: usize) {
        let hash = hash_pair(self.namespace, pair, len);
        let term = PendingTerm { pair, hash, pages: self.pages, len: low_u32(len) };
        let recent = &mut self.recent[(hash >> 32) as usize % RECENT_TERMS];
        if *recent == term {
            return;
        }
        *recent = term;
        self.pending[self.pending_len] = term;
        self.pending_len += 1;
        if self.pending_len == BATCH_TERMS {
            self.flush();
        }
    }

    /// Adds a token that is long or not ASCII.
    #[cold]
    fn add_long(&mut self, token: &[u8]) {
        let mut lowered = std::mem::take(&mut self.scratch);
        lowered.clear();
        segment::lower_token(token, &mut lowered);
        self.add_term(&lowered);
        self.scratch = lowered;
    }

    /// Adds a term without lower-casing it; truncates the term if it is too long.
    pub(crate) fn add_term(&mut self, term: &[u8]) {
        let term = truncate_term(term);
        let pair = load_pair(term);
        if term.len() <= PAIR_BYTES {
            self.push(pair, term.len());
            return;
        }
        let hash = hash_term(self.namespace, term);
        let mut at = self.slot_of(hash);
        loop {
            let slot = self.slots[at];
            if slot == EMPTY_SLOT {
                let arena_at = u32_of(self.arena.len());
                self.arena.extend_from_slice(term);
                let entry = Entry { pair, pages: self.pages, len: u32_of(term.len()), arena_at };
                self.insert(at, hash, entry);
                return;
            }
            if slot >> 32 == hash >> 32 {
                let entry = self.entries[position_in(slot)];
                let mut pair_bytes = [0; PAIR_BYTES];
                if entry.pair == pair && self.term(&entry, &mut pair_bytes) == term {
                    self.entries[position_in(slot)].pages |= self.pages;
                    return;
                }
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    #[inline(always)]
    fn slot_of(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    fn flush(&mut self) {
        let waiting = std::mem::take(&mut self.pending_len);
        if (self.entries.len() + waiting) * 3 > self.slots.len() * 2 {
            self.grow();
        }
        let mut first_slots = [EMPTY_SLOT; BATCH_TERMS];
        for (slot, pending) in first_slots.iter_mut().zip(&self.pending[..waiting]) {
            *slot = self.slots[pending.hash as usize & (self.slots.len() - 1)];
        }
        // The first words of entries whose slot matches; arbitrary words otherwise.
        let mut first_words = [0; BATCH_TERMS];
        if !self.entries.is_empty() {
            for (at, pending) in self.pending[..waiting].iter().enumerate() {
                let known = first_slots[at] != EMPTY_SLOT && first_slots[at] >> 32 == pending.hash >> 32;
                let position = if known { position_in(first_slots[at]) } else { 0 };
                first_words[at] = self.entries[position].pair[0];
            }
        }
        for (at, slot) in first_slots.into_iter().enumerate().take(waiting) {
            let pending = self.pending[at];
            // Usually the first slot is right. A slot that was empty may have been filled by this batch, so the pending
            // term is looked up again.
            if slot != EMPTY_SLOT && slot >> 32 == pending.hash >> 32 && first_words[at] == pending.pair[0] {
                let entry = &mut self.entries[position_in(slot)];
                if entry.pair == pending.pair && entry.len == pending.len {
                    entry.pages |= pending.pages;
                    continue;
                }
            }
            self.probe(pending);
        }
    }

    fn probe(&mut self, pending: PendingTerm) {
        let mut at = self.slot_of(pending.hash);
        loop {
            let slot = self.slots[at];
            if slot == EMPTY_SLOT {
                let PendingTerm { pair, pages, len, .. } = pending;
                let entry = Entry { pair, pages, len, arena_at: 0 };
                self.insert(at, pending.hash, entry);
                return;
            }
            if slot >> 32 == pending.hash >> 32 {
                let entry = &mut self.entries[position_in(slot)];
                if entry.pair == pending.pair && entry.len == pending.len {
                    entry.pages |= pending.pages;
                    return;
                }
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    fn insert(&mut self, at: usize, hash: u64, entry: Entry) {
        self.entries.push(entry);
        self.slots[at] = hash >> 32 << 32 | self.entries.len() as u64;
        if self.entries.len() * 4 > self.slots.len() * 3 {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 4 - 1;
        let mut slots = vec![EMPTY_SLOT; mask + 1];
        for (position, entry) in self.entries.iter().enumerate() {
            let hash = self.hash_of(entry);
            let mut at = hash as usize & mask;
            while slots[at] != EMPTY_SLOT {
                at = (at + 1) & mask;
            }
            slots[at] = hash >> 32 << 32 | (position as u64 + 1);
        }
        self.slots = slots;
    }
}

/// Hash of the term for a token of the text; `scratch` is a buffer for long tokens.
#[inline]
pub(crate) fn hash_token(token: &[u8], scratch: &mut Vec<u8>) -> u64 {
    if token.len() <= PAIR_BYTES {
        let pair = load_pair(token);
        if let (Some(first), Some(second)) = (lower_word(pair[0]), lower_word(pair[1])) {
            return hash_pair(Namespace::Tokens, [first, second], token.len());
        }
    }
    segment::lower_token(token, scratch);
    hash_term(Namespace::Tokens, truncate_term(scratch))
}

const ONE_PER_BYTE: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x80 * ONE_PER_BYTE;

/// Lower-cases eight ASCII bytes at once; `None` if a byte is not ASCII.
#[inline(always)]
fn lower_word(word: u64) -> Option<u64> {
    if word & HIGH_BITS != 0 {
        return None;
    }
    // The first addition sets a byte's high bit if the byte is at least 'A', the second if it is above 'Z'; no byte
    // overflows into the next.
    let from_a = word + ONE_PER_BYTE * (0x80 - b'A' as u64);
    let above_z = word + ONE_PER_BYTE * (0x7f - b'Z' as u64);
    let upper = (from_a & !above_z) & HIGH_BITS;
    Some(word | upper >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_lower_cased_like_bytes() {
        for byte in 0..=127u8 {
            let word = u64::from_be_bytes([byte, b'Z', 0, b'a', byte, b'@', b'[', 127]);
            let lowered = word.to_be_bytes().map(|byte| byte.to_ascii_lowercase());
            assert_eq!(lower_word(word), Some(u64::from_be_bytes(lowered)));
        }
        assert_eq!(lower_word(0x80), None);
    }

    #[test]
    fn terms_of_every_length_are_distinguished() {
        let mut table = TermTable::new(Namespace::Tokens);
        let long: Vec<u8> = (0..600u32).map(|at| b'a' + (at * 7 % 26) as u8).collect();
        for page in [0, 5] {
            table.start_page(page);
            for len in 0..long.len() {
                table.add_term(&long[..len]);
            }
        }
        table.finish();
        assert_eq!(table.entries().len(), long.len());
        let mut pair_bytes = [0; PAIR_BYTES];
        for entry in table.entries() {
            assert_eq!(entry.pages, 0b10_0001);
            assert_eq!(table.term(entry, &mut pair_bytes), &long[..entry.len()]);
            assert_eq!(table.hash_of(entry), hash_term(Namespace::Tokens, &long[..entry.len()]));
        }
    }
}
