//! The blocks that the lookup of a token will read, determined before the lookup.
//!
//! The blocks of a bucket on a remote store can then be fetched in one round trip. Not here: the lookup itself
//! (`crate::reader`).

use std::ops::Range;

use quarry_event::TermQuery;

use crate::error::BucketError;
use crate::reader::{BucketReader, order_by_rarity};
use crate::source::ObjectSource;
use crate::term_dictionary::hash::hash_term;
use crate::term_dictionary::{Namespace, truncate_term};

/// Minimum number of digits of a token that counts as an identifier.
const IDENTIFIER_DIGITS_MIN: usize = 4;

/// The lookup of a token in a slab: the blocks of the term dictionary and of the locator that it may read.
pub struct TokenLookup<'a> {
    source: &'a ObjectSource,
    token: &'a [u8],
    /// Ranges of these blocks that are neither in memory nor in a cache.
    missing: Vec<Range<u64>>,
}

impl std::fmt::Debug for TokenLookup<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("TokenLookup").field("missing", &self.missing).finish_non_exhaustive()
    }
}

impl TokenLookup<'_> {
    /// The token, cut to the length of a term.
    pub fn token(&self) -> &[u8] {
        self.token
    }

    /// Whether no network request is needed.
    pub fn is_cached(&self) -> bool {
        self.missing.is_empty()
    }

    /// Reads the blocks so that the object's cache holds them.
    pub fn prefetch(&self) -> Result<(), BucketError> {
        self.source.prefetch(&self.missing)
    }
}

impl BucketReader {
    /// The first lookup of a query in slab `slab`, if its token is an identifier (at least four digits). Identifiers
    /// are mostly stored in columns, so their lookup consults term dictionary, term filter and locator. `None` for
    /// other queries, for a slab that does not exist, and if the directories cannot be read.
    pub fn identifier_lookup<'a>(&'a self, slab: usize, query: &'a TermQuery) -> Option<TokenLookup<'a>> {
        let parts = self.parts().get(slab)?;
        let token = first_identifier(query)?;
        // The directories are usually in the part of the object that was read at opening; otherwise both are fetched
        // together.
        let directories = self.source.uncached_ranges(parts.unopened_directories());
        if !directories.is_empty() {
            self.source.prefetch(&directories).ok()?;
        }
        let term_dictionary = self.term_dictionary(slab, &parts.tokens).ok()?;
        let block = term_dictionary.and_then(|term_dictionary| term_dictionary.block_range(token));
        let part = self.locator_part_range(slab, token)?;
        let missing = self.source.uncached_ranges(block.into_iter().chain(part).collect());
        Some(TokenLookup { source: &self.source, token, missing })
    }

    /// The lookup in slab `slab` of a token that its term dictionary lacks. `None` for a slab that does not exist, and
    /// if the locator's directory cannot be read.
    pub fn unlisted_token_lookup<'a>(&'a self, slab: usize, token: &'a [u8]) -> Option<TokenLookup<'a>> {
        self.parts().get(slab)?;
        let missing = self.source.uncached_ranges(self.locator_part_range(slab, token)?.into_iter().collect());
        Some(TokenLookup { source: &self.source, token, missing })
    }

    /// Range of the locator's part for a token: the inner `None` if the slab has no locator, the outer `None` if its
    /// directory cannot be read.
    fn locator_part_range(&self, slab: usize, token: &[u8]) -> Option<Option<Range<u64>>> {
        let locator = self.locator(slab).ok()?;
        Some(locator.map(|locator| locator.part_range(hash_term(Namespace::Tokens, token))))
    }
}

/// The token that the lookup of a query begins with, if it is an identifier.
fn first_identifier(query: &TermQuery) -> Option<&[u8]> {
    match query {
        TermQuery::Token(token) => {
            let digits = token.bytes().filter(u8::is_ascii_digit).count();
            (digits >= IDENTIFIER_DIGITS_MIN).then(|| truncate_term(token.as_bytes()))
        }
        TermQuery::Value { tokens, .. } => first_identifier(tokens),
        TermQuery::And(queries) => {
            let is_free = |query: &&TermQuery| matches!(query, TermQuery::Meta { .. } | TermQuery::All);
            first_identifier(order_by_rarity(queries).into_iter().find(|query| !is_free(query))?)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, PoisonError};

    use bytes::Bytes;
    use quarry_event::{FieldColumns, ValueColumns};

    use super::*;
    use crate::columns::tests::{batch_of, encoded_by_words};
    use crate::error::ReadError;
    use crate::read_at::{MemoryObject, ReadAt};

    /// An object that records the ranges read of it.
    struct RecordedObject {
        object: MemoryObject,
        ranges: Mutex<Vec<Range<u64>>>,
    }

    impl RecordedObject {
        fn take(&self) -> Vec<Range<u64>> {
            std::mem::take(&mut self.ranges.lock().unwrap_or_else(PoisonError::into_inner))
        }
    }

    impl ReadAt for RecordedObject {
        fn len(&self) -> u64 {
            self.object.len()
        }

        fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadError> {
            let range = offset..offset + len as u64;
            self.ranges.lock().unwrap_or_else(PoisonError::into_inner).push(range);
            self.object.read_at(offset, len)
        }
    }

    struct NoFields;

    impl FieldColumns for NoFields {
        fn columns_of(&self, _field: &str) -> Option<ValueColumns> {
            None
        }
    }

    const EVENTS: usize = 150_000;

    /// An id that begins with a letter, so that it is sorted among the words of the term dictionary.
    fn id(at: usize) -> String {
        format!("c{:04}{:012x}", at % 10_000, (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16)
    }

    /// A compacted bucket of events with an id each and several thousand words; its locator is larger than the end that
    /// opening reads.
    fn bucket() -> (BucketReader, Arc<RecordedObject>) {
        let letter = |at: usize, digit: u32| char::from(b'a' + (at / 9usize.pow(digit) % 9) as u8);
        let word = |at: usize| (0..4).map(|digit| letter(at % 6_000, digit)).collect::<String>();
        let events = batch_of((0..EVENTS).map(|at| format!("{} took {} id={}", word(at), at % 997, id(at))));
        let object = MemoryObject(encoded_by_words(&[events], 3).object);
        let recorded = Arc::new(RecordedObject { object, ranges: Mutex::default() });
        let reader = BucketReader::open(Arc::clone(&recorded) as Arc<dyn ReadAt>).unwrap();
        recorded.take();
        (reader, recorded)
    }

    #[test]
    fn lookups_read_exactly_the_prefetched_ranges() {
        let (reader, recorded) = bucket();
        let mut looked_up = 0;
        for at in (0..EVENTS).step_by(997) {
            let query = TermQuery::And(vec![TermQuery::Token("took".into()), TermQuery::Token(id(at).into())]);
            let lookup = reader.identifier_lookup(0, &query).unwrap();
            assert_eq!(lookup.token(), id(at).as_bytes());
            assert_eq!(recorded.take(), [], "the directories came with the end of the object");
            lookup.prefetch().unwrap();
            let foreseen = recorded.take();
            // Neither the block of the dictionary nor the part of the locator was read at opening.
            looked_up += usize::from(foreseen.len() == 2);
            let found = reader.candidate_pages(0, &query, &NoFields).unwrap();
            assert!(found.contains(at / crate::MAX_PAGE_EVENTS) && found.0.count_ones() <= 2);
            assert!(recorded.take().iter().all(|read| foreseen.contains(read)));
            let unlisted = reader.unlisted_token_lookup(0, lookup.token()).unwrap();
            unlisted.prefetch().unwrap();
            assert!(recorded.take().iter().all(|read| foreseen.contains(read)), "the locator alone");
        }
        assert!(looked_up > 10, "{looked_up}");
    }

    #[test]
    fn words_and_missing_slabs_have_no_lookup() {
        let (reader, _) = bucket();
        for (slab, query) in [
            (0, TermQuery::Token("took".into())),
            (0, TermQuery::Token("abc123".into())),
            (0, TermQuery::Prefix("70000".into())),
            (0, TermQuery::Or(vec![TermQuery::Token(id(1).into())])),
            (0, TermQuery::And(vec![TermQuery::All])),
            (1, TermQuery::Token(id(1).into())),
        ] {
            assert!(reader.identifier_lookup(slab, &query).is_none(), "{query:?}");
        }
    }
}
