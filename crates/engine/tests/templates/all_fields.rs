//! Which fields rows have, and the order of their columns, does not depend on how events are stored.

use std::sync::Arc;

use quarry_event::TimeRange;
use quarry_store::Segment;
use quarry_testworld::request;

use super::{FixedSnapshot, SPLIT_OPTIONS, compare, engine, run_search, store};
use crate::shaper::HandMade;

const SEARCHES: &[&str] = &[
    "search host=web2 took>54 | fillnull value=- | table took note u",
    "search status>450 | fillnull value=- | table _time status note k ok",
    "search host=web2 | head 7 | where took>1 | fillnull value=- | table took note tags{}",
    "search status>450 | stats count(*) by host",
    "search took>54 | chart count(*s) over host",
];

#[test]
fn fields_without_values_are_no_fields() {
    compare(SEARCHES.iter().map(|search| ((*search).to_owned(), TimeRange::ALL)));
    let source = Arc::new(FixedSnapshot(store().snapshot().segments));
    let found = run_search(&engine(), &source, SEARCHES[0], TimeRange::ALL);
    assert_eq!(found, ["took=54.5"], "events with `note` or `u` do not match");
}

#[test]
fn fields_of_events_are_sorted_by_name() {
    let plain = store().snapshot().segments;
    let shaped = |segment: &Arc<dyn Segment>| HandMade::new(Arc::clone(segment), SPLIT_OPTIONS[0]) as Arc<dyn Segment>;
    let shaped = plain.iter().map(shaped).collect();
    for segments in [plain, shaped] {
        let source = Arc::new(FixedSnapshot(segments));
        let engine = engine();
        let mut job = engine.start(request("search host=web2 | table *"), source).unwrap();
        let batches: Vec<_> = std::iter::from_fn(|| job.next_batch()).map(|batch| batch.unwrap()).collect();
        assert!(!batches.is_empty());
        for batch in batches {
            let names: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
            let (metadata, found) = names.split_at(4);
            assert_eq!(metadata, ["host", "source", "sourcetype", "index"]);
            assert!(found.is_sorted() && !found.is_empty(), "{found:?}");
        }
    }
}
