//! Prefetches the blocks of a remote bucket that a search's first term lookup reads, for all its slabs at once.
//!
//! In each slab, the lookup of a token consults the term dictionary, then the term filter, then the locator. Each step
//! may make the next one unnecessary, but may cost a round trip to the volume. A token that a dictionary lacks needs
//! filter and locator; an identifier (a token with at least four digits) is usually stored in columns and needs all
//! three. The blocks for all slabs are neighbours, so a few requests bring them into the cache together, where the
//! usual lookup finds them.
//!
//! Not here: the lookup ([`BucketReader::candidate_pages_with_filter`]).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Mutex;

use quarry_blob::SearchReads;
use quarry_bucket::{BucketError, BucketReader, RangedFilter, TokenLookup};
use quarry_event::TermQuery;

use super::{OpenBucket, Readers, SealedBucket};
use crate::sync::lock;

/// Maximum number of tokens of a bucket that are remembered as prefetched; the oldest is forgotten.
const RECENT_TOKENS_MAX: usize = 64;

/// The tokens whose lookup in a bucket was prefetched recently.
#[derive(Debug, Default)]
pub(crate) struct RecentTokens(Mutex<VecDeque<Box<[u8]>>>);

impl RecentTokens {
    /// Adds a token; false if it was there already.
    fn add(&self, token: &[u8]) -> bool {
        let mut tokens = lock(&self.0);
        if tokens.iter().any(|known| **known == *token) {
            return false;
        }
        if tokens.len() >= RECENT_TOKENS_MAX {
            tokens.pop_front();
        }
        tokens.push_back(token.into());
        true
    }
}

impl Readers {
    /// Fetches the blocks that the first lookup of a query reads in these slabs. Failures are ignored here, because the
    /// lookup reads again and reports them.
    pub(crate) fn prefetch_lookups(
        &self,
        bucket: &SealedBucket,
        open: &OpenBucket,
        slabs: &[usize],
        query: &TermQuery,
    ) {
        if !bucket.copies.is_local()
            && let Ok(Some(filter)) = self.ranged_filter(bucket)
            && let Some(lookup) = open.reader.first_lookup(slabs, query)
            && open.recent_tokens.add(lookup.token())
        {
            drop(prefetch_first(lookup, &filter));
        }
    }

    /// Like [`Readers::may_hold`] for a token that the term dictionary lacks, but fetches the blocks of the locator at
    /// the same time.
    pub(crate) fn may_hold_prefetched(
        &self,
        bucket: &SealedBucket,
        reader: &BucketReader,
        slab: usize,
        token: &[u8],
    ) -> bool {
        if !bucket.copies.is_local()
            && let Ok(Some(filter)) = self.ranged_filter(bucket)
            && let Some(lookup) = reader.token_lookup(slab, token)
            && let Ok(parts) = lookup.locator_ranges()
        {
            prefetch(&lookup, parts, &filter);
        }
        self.may_hold(bucket, slab, token)
    }
}

fn prefetch_first(lookup: TokenLookup<'_>, filter: &RangedFilter) -> Result<(), BucketError> {
    let dictionaries = lookup.dictionary_ranges()?;
    if lookup.is_identifier() {
        let blocks = [dictionaries, lookup.locator_ranges()?].concat();
        prefetch(&lookup, blocks, filter);
        return Ok(());
    }
    lookup.prefetch(dictionaries)?;
    let unlisted = lookup.where_unlisted()?;
    if !unlisted.is_empty() {
        let parts = unlisted.locator_ranges()?;
        prefetch(&unlisted, parts, filter);
    }
    Ok(())
}

/// Fetches blocks of the bucket and, at the same time, the parts of the filter that the lookup of the token reads.
fn prefetch(lookup: &TokenLookup<'_>, blocks: Vec<Range<u64>>, filter: &RangedFilter) {
    if filter.is_cached(lookup.token()) {
        drop(lookup.prefetch(blocks));
        return;
    }
    if blocks.is_empty() {
        drop(filter.look_up(lookup.token()));
        return;
    }
    std::thread::scope(|scope| {
        let reads = SearchReads::of_current_thread();
        let token = lookup.token();
        let cells = move || {
            let _counting = reads.as_ref().map(SearchReads::count_thread_reads);
            drop(filter.look_up(token));
        };
        // If the thread cannot be started, the lookup reads the filter later.
        drop(std::thread::Builder::new().name("quarry-lookup".to_owned()).spawn_scoped(scope, cells));
        drop(lookup.prefetch(blocks));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_remembered_up_to_the_limit() {
        let recent = RecentTokens::default();
        let token = |number: usize| number.to_le_bytes();
        assert!((0..RECENT_TOKENS_MAX).all(|number| recent.add(&token(number))));
        assert!((0..RECENT_TOKENS_MAX).all(|number| !recent.add(&token(number))));
        assert!(recent.add(b"another") && recent.add(&token(0)) && !recent.add(b"another"));
    }
}
