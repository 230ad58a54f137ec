//! Reports that only count are answered from value counts, with the same results.

use std::sync::Arc;

use quarry_event::template::{Dictionary, TemplateSet};
use quarry_event::{EventBatch, Metadata, Page, PageColumns, TimeRange};
use quarry_store::{IndexSelector, MemoryStore, Segment, StoreError, TemplatePage};

use super::shaper::{HandMade, SplitOptions};
use super::{CONDITIONS, FixedSnapshot, SPLIT_OPTIONS, compare_in, engine, run_search, source_reports, store};

const REPORTS: &[&str] = &[
    "stats count",
    "stats count by status",
    "stats count dc(level) values(level) by level",
    "stats count by level, sourcetype",
    "stats min(status) max(status) range(status) count estdc(status)",
    "top limit=0 level",
    "rare showperc=f status by sourcetype",
    // Values that are templates themselves.
    "stats count by msg",
    "stats dc(msg) values(user) by user",
    "stats count by quoted",
    "top limit=0 url",
    "stats dc(note) values(t) count",
    // Reports that need more than counts.
    "stats count(status) by status",
    "stats sum(status) mode(status)",
    "stats count by level, status",
    "stats count min(_time) by status",
];

#[test]
fn value_counts_give_the_same_results() {
    let range = TimeRange { earliest: Some(20_000_000_000), latest: Some(1_090_000_000_000) };
    let searches = REPORTS.iter().enumerate().flat_map(|(at, report)| {
        // The first report, a plain count, is combined with all conditions; every other report with some of them.
        let wanted = CONDITIONS.iter().enumerate().filter(move |(number, _)| at == 0 || (number + at) % 11 == 0);
        wanted.map(move |(number, condition)| {
            let range = if number % 5 == 0 { range } else { TimeRange::ALL };
            (format!("search {condition} | {report}"), range)
        })
    });
    compare_in(&store(), &engine(), searches.clone());
    // No event has additional fields, and all events of a slab have the same template.
    compare_in(&source_reports::store(), &engine(), searches);
}

/// Events of one source, a second apart.
fn store_of(texts: impl Iterator<Item = String>) -> MemoryStore {
    let store = MemoryStore::new("main");
    let mut batch = EventBatch::default();
    let meta = batch.intern(&Metadata {
        index: "main".into(),
        host: "web1".into(),
        source: "/var/log/x.log".into(),
        sourcetype: "kv".into(),
    });
    texts.zip(0..).for_each(|(text, at)| batch.push(text.as_bytes(), at * 1_000_000_000, meta));
    store.append(batch).unwrap();
    store
}

#[test]
fn values_that_are_made_by_templates_are_not_counted_as_these() {
    let store = store_of((0..300).map(|at| format!("n={at} sid=\"user {at} of many\" even={} end", at % 2)));
    let segments = quarry_engine::SnapshotSource::snapshot(&store, &IndexSelector::all(), &TimeRange::ALL).unwrap();
    let manner = SplitOptions { outliers: 0, ..SPLIT_OPTIONS[2] };
    let shaped = segments.segments.iter().map(|segment| HandMade::new(Arc::clone(segment), manner) as _);
    let frozen = Arc::new(FixedSnapshot(shaped.collect()));
    let told = |search: &str| run_search(&engine(), &frozen, search, TimeRange::ALL);
    for (condition, expected) in [("*", 300), ("user", 300), ("sid=*many*", 300), ("sid=\"user 7 of many\"", 1)] {
        assert_eq!(told(&format!("search {condition} | stats count by sid")).len(), expected, "{condition}");
        assert_eq!(told(&format!("search {condition} | stats dc(sid) AS n")), [format!("n={expected}")]);
        assert_eq!(told(&format!("search {condition} | top limit=0 sid")).len(), expected);
    }
}

/// A segment whose events cannot be read.
#[derive(Debug)]
struct UnreadableSegment(Arc<HandMade>);

impl Segment for UnreadableSegment {
    quarry_testworld::segment_of!(0);

    fn read_page(&self, _: usize, _: PageColumns) -> Result<Page, StoreError> {
        panic!("a page is read")
    }

    fn may_hold_fields(&self, _: usize) -> bool {
        false
    }

    fn template_set(&self) -> Result<Option<Arc<TemplateSet>>, StoreError> {
        self.0.template_set()
    }

    fn dictionary(&self, column: u32) -> Result<Arc<Dictionary>, StoreError> {
        self.0.dictionary(column)
    }

    fn template_page(&self, _: usize) -> Result<Option<Box<dyn TemplatePage>>, StoreError> {
        panic!("columns of a page are read")
    }
}

#[test]
fn counted_values_are_not_read() {
    let store = store_of((0..2_000).map(|at| {
        let (level, status) = (["L1", "L2"][usize::from(at % 10 == 0)], [200, 404, 500][at % 3]);
        let tail = if at % 100 == 0 { " every100" } else { "" };
        format!("n={at} level={level} status={status} end{tail}")
    }));
    let segments = quarry_engine::SnapshotSource::snapshot(&store, &IndexSelector::all(), &TimeRange::ALL).unwrap();
    let blind = |segment: &Arc<dyn Segment>| -> Arc<dyn Segment> {
        Arc::new(UnreadableSegment(HandMade::new(Arc::clone(segment), SPLIT_OPTIONS[0])))
    };
    let frozen = Arc::new(FixedSnapshot(segments.segments.iter().map(blind).collect()));
    let told = |search: &str| run_search(&engine(), &frozen, search, TimeRange::ALL);
    assert_eq!(told("search every100 | stats count"), ["count=20"]);
    assert_eq!(told("search NOT every100 | stats count"), ["count=1980"]);
    assert_eq!(
        told("search status>=404 | stats count by status"),
        ["count=667 | status=404", "count=666 | status=500"]
    );
    assert_eq!(told("search * | top showperc=f level"), ["count=1800 | level=L1", "count=200 | level=L2"]);
    assert_eq!(
        told("search status=404 OR status=500 | stats dc(status) max(status)"),
        ["dc(status)=2 | max(status)=500"]
    );
}
