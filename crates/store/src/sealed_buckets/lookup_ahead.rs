//! Lookups in a remote bucket that fetch in parallel what they would read one after the other.
//!
//! A lookup of a token consults the term dictionary, then the term filter, then the locator, because each answer may make
//! the next one unnecessary, but each may also wait for a round trip to the store. A token that the dictionary lacks needs
//! filter and locator; an identifier (a token of four digits and more) is mostly stored in columns and needs all three.
//! These blocks are fetched into the cache together; the lookup itself stays as it is and finds them there.
//!
//! Not here: the lookup ([`BucketReader::candidate_pages_with_filter`]).

use quarry_blob::SearchReads;
use quarry_bucket::{BucketReader, TokenLookup};
use quarry_event::TermQuery;

use super::{Readers, SealedBucket};

impl Readers {
    /// Fetches the blocks that the first lookup of a query reads of a slab, if it is that of an identifier.
    pub(crate) fn look_up_ahead(&self, bucket: &SealedBucket, reader: &BucketReader, slab: usize, query: &TermQuery) {
        if self.is_ranged(bucket)
            && let Some(lookup) = reader.lookup_of_identifier(slab, query)
        {
            self.prefetch(bucket, slab, &lookup);
        }
    }

    /// Whether a slab may hold a token that its term dictionary lacks, as [`Readers::may_hold`] does; fetches the part of
    /// the locator at the same time.
    pub(crate) fn may_hold_unlisted(
        &self,
        bucket: &SealedBucket,
        reader: &BucketReader,
        slab: usize,
        token: &[u8],
    ) -> bool {
        if self.is_ranged(bucket)
            && let Some(lookup) = reader.lookup_of_unlisted(slab, token)
        {
            self.prefetch(bucket, slab, &lookup);
        }
        self.may_hold(bucket, slab, token)
    }

    /// Fetches the blocks of a lookup and the filter's cells. Failures are ignored here: the lookup reads again and
    /// reports them.
    fn prefetch(&self, bucket: &SealedBucket, slab: usize, lookup: &TokenLookup<'_>) {
        let Ok(Some(filter)) = self.ranged_filter(bucket) else { return };
        // Only a second request is worth a thread.
        if lookup.is_at_hand() || filter.is_at_hand(slab, lookup.token()) {
            return;
        }
        std::thread::scope(|scope| {
            let reads = SearchReads::of_thread();
            let (filter, token) = (&filter, lookup.token());
            let cells = move || {
                let _counting = reads.as_ref().map(SearchReads::count_here);
                drop(filter.may_hold(slab, token));
            };
            // A thread that fails to start is not needed.
            drop(std::thread::Builder::new().name("quarry-lookup".to_owned()).spawn_scoped(scope, cells));
            drop(lookup.prefetch());
        });
    }
}
