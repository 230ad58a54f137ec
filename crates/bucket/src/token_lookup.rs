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

/// Maximum gap between two blocks of a lookup that are fetched with one request, together with the gap.
const GAP_BYTES_MAX: u64 = 32 << 10;

/// The lookup of a token in slabs of a bucket: the blocks of their term dictionaries and locators that it may read.
pub struct TokenLookup<'a> {
    reader: &'a BucketReader,
    slabs: Vec<usize>,
    token: &'a [u8],
}

impl std::fmt::Debug for TokenLookup<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("TokenLookup").field("slabs", &self.slabs).finish_non_exhaustive()
    }
}

impl<'a> TokenLookup<'a> {
    /// The token, cut to the length of a term.
    pub fn token(&self) -> &[u8] {
        self.token
    }

    /// Whether the token has at least four digits. Such tokens are usually stored in columns, so their lookup consults
    /// term dictionary, term filter and locator.
    pub fn is_identifier(&self) -> bool {
        self.token.iter().filter(|byte| byte.is_ascii_digit()).count() >= IDENTIFIER_DIGITS_MIN
    }

    /// Ranges of the blocks of the term dictionaries that are neither in memory nor in a cache.
    pub fn dictionary_ranges(&self) -> Result<Vec<Range<u64>>, BucketError> {
        let mut ranges = Vec::new();
        for slab in &self.slabs {
            let dictionary = self.reader.term_dictionary(*slab, &self.reader.parts()[*slab].tokens)?;
            ranges.extend(dictionary.and_then(|dictionary| dictionary.block_range(self.token)));
        }
        Ok(self.source().uncached_ranges(ranges))
    }

    /// Ranges of the parts of the locators that are neither in memory nor in a cache.
    pub fn locator_ranges(&self) -> Result<Vec<Range<u64>>, BucketError> {
        let hash = hash_term(Namespace::Tokens, self.token);
        let mut ranges = Vec::new();
        for slab in &self.slabs {
            ranges.extend(self.reader.locator(*slab)?.map(|locator| locator.part_range(hash)));
        }
        Ok(self.source().uncached_ranges(ranges))
    }

    /// The same lookup, only in the slabs whose term dictionary lacks the token.
    pub fn where_unlisted(self) -> Result<TokenLookup<'a>, BucketError> {
        let mut slabs = Vec::new();
        for slab in self.slabs {
            let found = match self.reader.term_dictionary(slab, &self.reader.parts()[slab].tokens)? {
                Some(dictionary) => dictionary.find(&self.reader.source, self.token)?,
                None => 0,
            };
            slabs.extend((found == 0).then_some(slab));
        }
        Ok(TokenLookup { slabs, ..self })
    }

    /// Whether the lookup concerns no slab.
    pub fn is_empty(&self) -> bool {
        self.slabs.is_empty()
    }

    /// Reads ranges, so that the object's cache holds them.
    pub fn prefetch(&self, mut ranges: Vec<Range<u64>>) -> Result<(), BucketError> {
        ranges.sort_unstable_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(GAP_BYTES_MAX) => {
                    last.end = last.end.max(range.end);
                }
                _ => merged.push(range),
            }
        }
        if merged.is_empty() { Ok(()) } else { self.source().prefetch(&merged) }
    }

    fn source(&self) -> &ObjectSource {
        &self.reader.source
    }
}

impl BucketReader {
    /// The first lookup of a query, in these slabs. `None` if the query does not begin with a token, if no such slab
    /// exists, or if the directories cannot be read, which the lookup itself reports.
    pub fn first_lookup<'a>(&'a self, slabs: &[usize], query: &'a TermQuery) -> Option<TokenLookup<'a>> {
        let token = first_token(query)?;
        let slabs: Vec<usize> = slabs.iter().copied().filter(|slab| *slab < self.parts().len()).collect();
        // The directories are usually in the part of the object that was read at opening; otherwise all directories are
        // fetched together.
        let directories = slabs.iter().flat_map(|slab| self.parts()[*slab].unopened_directories()).collect();
        let directories = self.source.uncached_ranges(directories);
        if !directories.is_empty() {
            self.source.prefetch(&directories).ok()?;
        }
        (!slabs.is_empty()).then_some(TokenLookup { reader: self, slabs, token })
    }

    /// The lookup of a token in one slab; `None` if there is no such slab.
    pub fn token_lookup<'a>(&'a self, slab: usize, token: &'a [u8]) -> Option<TokenLookup<'a>> {
        (slab < self.parts().len()).then(|| TokenLookup { reader: self, slabs: vec![slab], token })
    }
}

/// The token that the lookup of a query begins with, if any.
fn first_token(query: &TermQuery) -> Option<&[u8]> {
    match query {
        TermQuery::Token(token) => Some(truncate_term(token.as_bytes())),
        TermQuery::Value { tokens, .. } => first_token(tokens),
        TermQuery::And(queries) => {
            let is_free = |query: &&TermQuery| matches!(query, TermQuery::Meta { .. } | TermQuery::All);
            first_token(order_by_rarity(queries).into_iter().find(|query| !is_free(query))?)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, PoisonError};

    use bytes::Bytes;
    use quarry_event::{EventBatch, FieldColumns, ValueColumns};

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
    fn bucket(slabs: usize) -> (BucketReader, Arc<RecordedObject>) {
        let letter = |at: usize, digit: u32| char::from(b'a' + (at / 9usize.pow(digit) % 9) as u8);
        let word = |at: usize| (0..4).map(|digit| letter(at % 6_000, digit)).collect::<String>();
        let text = |at: usize| format!("{} took {} id={}", word(at), at % 997, id(at));
        let of_slab = |slab: usize| batch_of((slab * EVENTS / slabs..(slab + 1) * EVENTS / slabs).map(text));
        let events: Vec<EventBatch> = (0..slabs).map(of_slab).collect();
        let object = MemoryObject(encoded_by_words(&events, 3).object);
        let recorded = Arc::new(RecordedObject { object, ranges: Mutex::default() });
        let reader = BucketReader::open(Arc::clone(&recorded) as Arc<dyn ReadAt>).unwrap();
        recorded.take();
        (reader, recorded)
    }

    #[test]
    fn lookups_read_exactly_the_prefetched_ranges() {
        let (reader, recorded) = bucket(1);
        let mut looked_up = 0;
        for at in (0..EVENTS).step_by(997) {
            let query = TermQuery::And(vec![TermQuery::Token("took".into()), TermQuery::Token(id(at).into())]);
            let lookup = reader.first_lookup(&[0], &query).unwrap();
            assert!(lookup.token() == id(at).as_bytes() && lookup.is_identifier());
            assert_eq!(recorded.take(), [], "the directories came with the end of the object");
            let parts = lookup.locator_ranges().unwrap();
            lookup.prefetch([lookup.dictionary_ranges().unwrap(), parts.clone()].concat()).unwrap();
            let foreseen = recorded.take();
            // Neither the block of the dictionary nor the part of the locator was read at opening.
            looked_up += usize::from(!foreseen.is_empty());
            let found = reader.candidate_pages(0, &query, &NoFields).unwrap();
            assert!(found.contains(at / crate::MAX_PAGE_EVENTS) && found.0.count_ones() <= 2);
            let is_foreseen =
                |read: &Range<u64>| foreseen.iter().any(|range| range.start <= read.start && read.end <= range.end);
            assert!(recorded.take().iter().all(is_foreseen));
            // All ids have the same length, so a prefix of this length can only be a whole id: no column is read.
            let whole = TermQuery::Prefix(id(at).into());
            assert!(reader.candidate_pages(0, &whole, &NoFields).unwrap().contains(at / crate::MAX_PAGE_EVENTS));
            assert!(recorded.take().iter().all(is_foreseen), "{whole:?}");
            let unlisted = reader.token_lookup(0, lookup.token()).unwrap();
            assert_eq!(unlisted.locator_ranges().unwrap(), parts);
        }
        assert!(looked_up > 10, "{looked_up}");
    }

    #[test]
    fn one_request_fetches_the_locator_parts_of_all_slabs() {
        let (reader, recorded) = bucket(6);
        let mut requests = 0;
        for at in (0..EVENTS).step_by(9_970) {
            let query = TermQuery::Token(id(at).into());
            let lookup = reader.first_lookup(&[0, 1, 2, 3, 4, 5], &query).unwrap();
            lookup.prefetch(lookup.locator_ranges().unwrap()).unwrap();
            requests += recorded.take().len();
            let found = (0..6).filter(|slab| !reader.candidate_pages(*slab, &query, &NoFields).unwrap().is_empty());
            assert!(found.count() >= 1);
            recorded.take();
        }
        assert!(requests <= EVENTS.div_ceil(9_970), "{requests} requests");
    }

    #[test]
    fn lookups_of_words_open_no_columns() {
        let (reader, _) = bucket(1);
        // The term dictionary has the first word, and neither it nor the term filter has the second.
        for (word, is_found) in [("took", true), ("absent", false)] {
            let query = TermQuery::Token(word.into());
            let found = reader.candidate_pages_with_filter(0, &query, &NoFields, &|_| false).unwrap();
            assert!(found.is_empty() != is_found && reader.parts()[0].columns.opened.get().is_none(), "{word}");
        }
    }

    #[test]
    fn lookups_concern_existing_slabs_and_queries_that_begin_with_a_token() {
        let (reader, _) = bucket(1);
        for query in [TermQuery::Prefix("70000".into()), TermQuery::Or(vec![TermQuery::Token(id(1).into())])] {
            assert!(reader.first_lookup(&[0], &query).is_none(), "{query:?}");
        }
        assert!(reader.first_lookup(&[0], &TermQuery::And(vec![TermQuery::All])).is_none());
        let query = TermQuery::And(vec![TermQuery::Prefix("a".into()), TermQuery::Token("took".into())]);
        assert!(!reader.first_lookup(&[0], &query).unwrap().is_identifier());
        let query = TermQuery::Token(id(1).into());
        assert!(reader.first_lookup(&[1], &query).is_none() && reader.token_lookup(1, b"took").is_none());
        let is_unlisted =
            |query: &TermQuery| !reader.first_lookup(&[0], query).unwrap().where_unlisted().unwrap().is_empty();
        assert!(!is_unlisted(&TermQuery::Token("took".into())) && is_unlisted(&query));
    }
}
