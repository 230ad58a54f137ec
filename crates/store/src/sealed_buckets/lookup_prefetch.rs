//! Prefetches, in parallel, the blocks of a remote bucket that a term lookup reads one after the other.
//!
//! A lookup of a token consults the term dictionary, then the term filter, then the locator. Each step may make the
//! next one unnecessary, but may cost a round trip to the volume. A token that the dictionary lacks needs filter and
//! locator. An identifier (a token of four digits and more) is mostly stored in columns and needs all three. The
//! blocks needed are therefore fetched into the cache together, where the usual lookup finds them.
//!
//! Not here: the lookup ([`BucketReader::candidate_pages_with_filter`]).

use quarry_blob::SearchReads;
use quarry_bucket::{BucketReader, TokenLookup};
use quarry_event::TermQuery;

use super::{Readers, SealedBucket};

impl Readers {
    /// Fetches the blocks of a slab that the first lookup of a query reads, if that lookup is for an identifier.
    pub(crate) fn prefetch_lookup(&self, bucket: &SealedBucket, reader: &BucketReader, slab: usize, query: &TermQuery) {
        if self.is_ranged(bucket)
            && let Some(lookup) = reader.identifier_lookup(slab, query)
        {
            self.prefetch(bucket, slab, &lookup);
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
        if self.is_ranged(bucket)
            && let Some(lookup) = reader.unlisted_token_lookup(slab, token)
        {
            self.prefetch(bucket, slab, &lookup);
        }
        self.may_hold(bucket, slab, token)
    }

    /// Fetches the blocks of a lookup and the filter's cells. Failures are ignored here, because the lookup reads again
    /// and reports them.
    fn prefetch(&self, bucket: &SealedBucket, slab: usize, lookup: &TokenLookup<'_>) {
        let Ok(Some(filter)) = self.ranged_filter(bucket) else { return };
        // A thread is worthwhile only if both parts need a request.
        if lookup.is_cached() || filter.is_cached(slab, lookup.token()) {
            return;
        }
        std::thread::scope(|scope| {
            let reads = SearchReads::of_current_thread();
            let (filter, token) = (&filter, lookup.token());
            let cells = move || {
                let _counting = reads.as_ref().map(SearchReads::count_thread_reads);
                drop(filter.may_contain(slab, token));
            };
            // If the thread cannot be started, the lookup reads the filter later.
            drop(std::thread::Builder::new().name("quarry-lookup".to_owned()).spawn_scoped(scope, cells));
            drop(lookup.prefetch());
        });
    }
}
