//! Parallel lookups of an identifier in a remote bucket: term dictionary, term filter and locator at the same time.
//!
//! A lookup consults them one after the other, because each answer often makes the next one unnecessary, and each may
//! wait for a round trip to the store. Identifiers (tokens with a digit) are mostly stored in columns, so the dictionary
//! lacks them and all three are needed. Their blocks are therefore fetched into the cache together; the lookup itself
//! stays as it is and finds them there.
//!
//! Not here: words, which the dictionary mostly has; the lookup ([`BucketReader::candidate_pages_with_filter`]).

use quarry_blob::SearchReads;
use quarry_bucket::BucketReader;
use quarry_event::TermQuery;

use super::{Readers, SealedBucket};

impl Readers {
    /// Fetches what the lookup of a query's first token is going to read of a slab. Failures are ignored here: the
    /// lookup reads again and reports them.
    pub(crate) fn look_up_ahead(&self, bucket: &SealedBucket, reader: &BucketReader, slab: usize, query: &TermQuery) {
        if !self.is_ranged(bucket) {
            return;
        }
        let Some(lookup) = reader.lookup_of_identifier(slab, query) else { return };
        let Ok(Some(filter)) = self.ranged_filter(bucket) else { return };
        // Only waiting twice is worth a thread.
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
