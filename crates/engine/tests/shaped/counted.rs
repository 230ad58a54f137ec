//! Reports that only count are answered by how often values occur, and alike.

use std::sync::Arc;

use quarry_event::shape::{Dictionary, Shapes};
use quarry_event::{EventBatch, Metadata, Page, PageColumns, PageSet, TermQuery, TimeRange};
use quarry_store::{IndexSelector, MemoryStore, PageInfo, Segment, ShapedPage, StoreError};

use super::shaper::HandShaped;
use super::{CONDITIONS, Frozen, MANNERS, alike, answer, compare_in, engine, store};

const REPORTS: &[&str] = &[
    "stats count",
    "stats count by status",
    "stats count dc(level) values(level) by level",
    "stats count by level, sourcetype",
    "stats min(status) max(status) range(status) count estdc(status)",
    "top limit=0 level",
    "rare showperc=f status by sourcetype",
    // More than counts.
    "stats count(status) by status",
    "stats sum(status) mode(status)",
    "stats count by level, status",
    "stats count min(_time) by status",
];

#[test]
fn counts_tell_the_same() {
    let range = TimeRange { earliest: Some(20_000_000_000), latest: Some(1_090_000_000_000) };
    let searches = REPORTS.iter().enumerate().flat_map(|(at, report)| {
        // Each condition with the plain count, and with some of the others.
        let wanted = CONDITIONS.iter().enumerate().filter(move |(number, _)| at == 0 || (number + at) % 11 == 0);
        wanted.map(move |(number, condition)| {
            let range = if number % 5 == 0 { range } else { TimeRange::ALL };
            (format!("search {condition} | {report}"), range)
        })
    });
    compare_in(&store(), &engine(), searches.clone());
    // No event has fields of its own, and those of a slab are cut alike.
    compare_in(&alike::store(), &engine(), searches);
}

/// A segment whose events cannot be read.
#[derive(Debug)]
struct Blind(Arc<HandShaped>);

impl Segment for Blind {
    fn bucket(&self) -> &str {
        self.0.bucket()
    }

    fn index(&self) -> &str {
        self.0.index()
    }

    fn sequence(&self) -> u64 {
        self.0.sequence()
    }

    fn metas(&self) -> Arc<[Metadata]> {
        self.0.metas()
    }

    fn pages(&self) -> &[PageInfo] {
        self.0.pages()
    }

    fn candidate_pages(&self, query: &TermQuery) -> Result<PageSet, StoreError> {
        self.0.candidate_pages(query)
    }

    fn read_page(&self, _: usize, _: PageColumns) -> Result<Page, StoreError> {
        panic!("a page is read")
    }

    fn may_hold_fields(&self, _: usize) -> bool {
        false
    }

    fn shapes(&self) -> Result<Option<Arc<Shapes>>, StoreError> {
        self.0.shapes()
    }

    fn dictionary(&self, column: u32) -> Result<Arc<Dictionary>, StoreError> {
        self.0.dictionary(column)
    }

    fn shaped_page(&self, _: usize) -> Result<Option<Box<dyn ShapedPage>>, StoreError> {
        panic!("columns of a page are read")
    }
}

#[test]
fn what_is_counted_is_not_read() {
    let store = MemoryStore::new("main");
    let mut batch = EventBatch::default();
    let meta = batch.intern(&Metadata {
        index: "main".into(),
        host: "web1".into(),
        source: "/var/log/x.log".into(),
        sourcetype: "kv".into(),
    });
    for at in 0..2_000i64 {
        let (level, status) = (["L1", "L2"][usize::from(at % 10 == 0)], [200, 404, 500][at as usize % 3]);
        let tail = if at % 100 == 0 { " every100" } else { "" };
        batch.push(format!("n={at} level={level} status={status} end{tail}").as_bytes(), at * 1_000_000_000, meta);
    }
    store.append(batch).unwrap();
    let segments = quarry_engine::SnapshotSource::snapshot(&store, &IndexSelector::all(), &TimeRange::ALL).unwrap();
    let blind = |segment: &Arc<dyn Segment>| -> Arc<dyn Segment> {
        Arc::new(Blind(HandShaped::new(Arc::clone(segment), MANNERS[0])))
    };
    let frozen = Arc::new(Frozen(segments.segments.iter().map(blind).collect()));
    let told = |search: &str| answer(&engine(), &frozen, search, TimeRange::ALL);
    assert_eq!(told("search every100 | stats count"), ["count=20"]);
    assert_eq!(told("search NOT every100 | stats count"), ["count=1980"]);
    assert_eq!(
        told("search status>=404 | stats count by status"),
        ["count=667 | status=404", "count=666 | status=500"]
    );
    assert_eq!(told("search * | top showperc=f level"), ["count=1800 | level=L1", "count=200 | level=L2"]);
    assert_eq!(
        told("search status=404 OR status=500 | stats dc(status) max(status)"),
        ["dc(status)=2 | max(status)=500.0"]
    );
}
