//! Local filters are read in single blocks at first, and later whole.

use quarry_event::{FieldColumns, ValueColumns};
use tempfile::tempdir;

use super::*;
use crate::Segment;
use crate::tests::{all, open, sample};

impl Readers {
    /// Caches an open object of a bucket.
    pub(crate) fn put_open_object(&self, number: u64, object: Arc<dyn ReadAt>) {
        self.objects.open.put(number, object, 1);
    }
}

struct NoFields;

impl FieldColumns for NoFields {
    fn columns_of(&self, _field: &str) -> Option<ValueColumns> {
        None
    }
}

/// A store with these options and one bucket, whose filter is large enough to be read in blocks.
fn store_of_one_bucket(options: &StoreOptions) -> Arc<crate::Store> {
    let store = open(options);
    let text = |number: u64| (0..10).map(|word| format!("w{number}x{word} ")).collect::<String>();
    for first in (0..30_000).step_by(5_000) {
        let batch = sample::batch_of("main", (first..first + 5_000).map(|number| (number, text(number))));
        store.append(crate::AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
    }
    store.seal_all().unwrap();
    store
}

/// Looks up `count` absent tokens.
fn look_up(segment: &dyn Segment, first: u64, count: u64) {
    for number in first..first + count {
        let query = TermQuery::Token(format!("absent{number}").into());
        segment.candidate_pages(&query, &NoFields).unwrap();
    }
}

#[test]
fn whole_filters_are_read_after_many_lookups_and_again_only_after_as_many() {
    let dir = tempdir().unwrap();
    let store = store_of_one_bucket(&StoreOptions::at(dir.path()));
    let segment = Arc::clone(&all(&store).segments[0]);
    let (readers, number) = (&store.shared.readers, segment.stored().unwrap().bucket);
    for round in 0..3 {
        look_up(&*segment, round * 1_000, LOOKUPS_BEFORE_WHOLE);
        assert!(readers.filters.get(&number).is_none(), "round {round}: too early");
        look_up(&*segment, round * 1_000 + 500, 1);
        assert!(readers.filters.get(&number).is_some(), "round {round}");
        // The filters of other buckets would displace this filter in the same way.
        readers.filters.remove_if(|_| true);
    }
}

#[test]
fn filters_larger_than_the_cache_are_never_read_whole() {
    let dir = tempdir().unwrap();
    let options = StoreOptions { filter_cache_bytes: usize_of(WHOLE_FILTER_BYTES_MAX), ..StoreOptions::at(dir.path()) };
    let store = store_of_one_bucket(&options);
    let segment = Arc::clone(&all(&store).segments[0]);
    let (readers, number) = (&store.shared.readers, segment.stored().unwrap().bucket);
    look_up(&*segment, 0, 3 * LOOKUPS_BEFORE_WHOLE);
    assert_eq!(readers.ranged_filters.get(&number).unwrap().lookups(), 3 * LOOKUPS_BEFORE_WHOLE);
}
