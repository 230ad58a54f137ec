use std::sync::atomic::{AtomicUsize, Ordering};

use quarry_conf::{ConfSource, Layer, Layers, PropsResolver, builtin_sources};
use quarry_eval::dataflow::Dataflow;
use quarry_eval::expr::ExprTables;
use quarry_eval::lookup::{LookupSource, LookupTable};
use quarry_eval::messages::Messages;
use quarry_event::time::parse_zone;
use quarry_event::{EventBatch, Metadata};
use quarry_spl::analyse::FieldNeeds;
use quarry_spl::ast::{FieldPattern, PercentileMethod, SearchExpr, SortKey, SortKind, Span};
use quarry_stdx::{Fault, ManualClock};
use quarry_store::{AppendRequest, IndexSelector, LaterSegments, Store, StoreOptions};

use super::*;
use crate::environment::{ScanEnvironment, ScanRules};
use crate::labels::{LabelCondition, LabelSource};
use crate::page_merge::OrderedRows;
use crate::plan::{FieldSource, Scan, TopK};
use crate::summary::{NoSummaries, SummaryStore};

struct NoTables;

impl LookupSource for NoTables {
    fn table(&self, _: &str) -> Result<Option<LookupTable>, Fault> {
        Ok(None)
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

struct NoLabels;

impl LabelSource for NoLabels {
    fn fields(&self) -> Vec<String> {
        Vec::new()
    }

    fn conditions(&self, _: &Messages) -> Vec<LabelCondition> {
        Vec::new()
    }
}

fn context() -> CommandContext {
    CommandContext {
        id: Arc::from(""),
        search: Arc::from(""),
        now: 0,
        zone: parse_zone("UTC").unwrap(),
        range: TimeRange::ALL,
        dataflow: Arc::new(Dataflow::new(64 << 20, None).unwrap()),
        transactions: Default::default(),
        subsearches: Default::default(),
        percentiles: PercentileMethod::default(),
        tables: ExprTables::default(),
        messages: Arc::default(),
        stop: Arc::default(),
        holdings: Arc::default(),
        costs: Arc::default(),
        permissions: Arc::default(),
    }
}

/// A store with a bucket for each call of [`World::add_bucket`], and what a scan of it needs.
struct World {
    store: Arc<Store>,
    rules: ScanRules,
    lookups: Arc<dyn LookupSource>,
    summaries: Arc<dyn SummaryStore>,
    progress: Arc<ScanProgress>,
    context: CommandContext,
    _folder: tempfile::TempDir,
}

impl World {
    /// `props` is text of props.conf besides the built-in one.
    fn new(props: &str) -> World {
        let props = ConfSource {
            layer: Layer::SystemLocal,
            app: None,
            file: "etc/system/local/props.conf".to_owned(),
            text: props.to_owned(),
        };
        let layers = Layers::new(builtin_sources().into_iter().chain([props]));
        let folder = tempfile::tempdir().unwrap();
        World {
            store: Store::open(StoreOptions::at(folder.path()), ManualClock::shared(1)).unwrap(),
            rules: ScanRules::new(Arc::new(PropsResolver::new(&layers))),
            lookups: Arc::new(NoTables),
            summaries: Arc::new(NoSummaries),
            progress: Arc::default(),
            context: context(),
            _folder: folder,
        }
    }

    /// Adds and seals events of these times.
    fn add_bucket(&self, times: std::ops::Range<i64>, text: impl Fn(i64) -> String) {
        let json = Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "_json".into() };
        let mut batch = EventBatch::default();
        let meta = batch.intern(&json);
        times.for_each(|time| batch.push(text(time).as_bytes(), time, meta));
        self.store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
        self.store.seal_all().unwrap();
    }

    fn snapshot(&self) -> Snapshot {
        self.store.snapshot(&IndexSelector::all(), &TimeRange::ALL)
    }

    fn environment(&self) -> ScanEnvironment<'_> {
        ScanEnvironment {
            rules: &self.rules,
            lookups: &self.lookups,
            labels: &NoLabels,
            node: "n".to_owned(),
            summaries: &self.summaries,
            progress: &self.progress,
            context: &self.context,
        }
    }
}

/// A scan of all events of the index for these fields.
fn plan_for(projection: FieldNeeds) -> Scan {
    let mut plan = Scan::new(vec!["main".to_owned()], SearchExpr::All, TimeRange::ALL, FieldSource::SearchTime);
    plan.projection = projection;
    plan
}

/// A prefetched page is counted once, when it is read, including the rows that a top-k threshold leaves out.
#[test]
fn prefetched_pages_are_counted_once_when_read() {
    const EVENTS: i64 = 20_000;
    let world = World::new("");
    world.add_bucket(0..EVENTS, |at| format!(r#"{{"size":{},"path":"/{}"}}"#, EVENTS - at, at % 7));
    let mut plan = plan_for(FieldNeeds { fields: ["size".to_owned()].into(), ..FieldNeeds::default() });
    let field = FieldPattern { text: "size".to_owned(), span: Span { start: 0, end: 0 } };
    let key = SortKey { field, descending: true, kind: SortKind::Auto };
    plan.top = Some(TopK { key, descending: true, count: 5, is_only_key: true });
    let (context, progress) = (&world.context, &world.progress);
    let scan = world.environment().scan(&plan, world.snapshot()).unwrap();

    let pages = scan.pages(context).unwrap();
    assert!(pages.len() > 2, "{} pages", pages.len());
    let mut rows = 0;
    for page in &pages {
        let before = (progress.pages_done(), progress.events_scanned(), progress.events_matched());
        scan.prefetch_page(page, false, context).unwrap();
        let begun = (progress.pages_done(), progress.events_scanned(), progress.events_matched());
        assert_eq!(begun, before, "prefetching a page counts nothing");
        rows += scan.read(page, context).unwrap().map_or(0, |rows| rows.num_rows());
    }
    assert!(rows < 10_000, "the threshold leaves rows out: {rows}");
    assert_eq!(progress.events_matched(), EVENTS.unsigned_abs());
}

#[test]
fn rules_that_read_default_fields_are_evaluated_on_events_in_columns() {
    const EVENTS: i64 = 2_000;
    let world = World::new("[_json]\nEVAL-lines = linecount + 1\nFIELDALIAS-node = splunk_server AS node\n");
    world.add_bucket(0..EVENTS, |at| format!(r#"{{"size":{at},"path":"/{}"}}"#, at % 7));
    let fields = ["lines".to_owned(), "node".to_owned()].into();
    let plan = plan_for(FieldNeeds { fields, ..FieldNeeds::default() });
    let scan = world.environment().scan(&plan, world.snapshot()).unwrap();

    let mut events = 0;
    for page in &scan.pages(&world.context).unwrap() {
        let Some(rows) = scan.read(page, &world.context).unwrap() else { continue };
        let mut scratch = (String::new(), String::new());
        let (lines, node) = (rows::reader(&rows, "lines"), rows::reader(&rows, "node"));
        for row in 0..rows.num_rows() {
            assert_eq!((lines.text(row, &mut scratch.0), node.text(row, &mut scratch.1)), (Some("2"), Some("n")));
            events += 1;
        }
    }
    assert_eq!(events, EVENTS);
}

/// Segments that are opened on request, which is counted.
#[derive(Debug)]
struct CountedSegments {
    segment: Arc<dyn Segment>,
    opened: Arc<AtomicUsize>,
}

impl LaterSegments for CountedSegments {
    fn time_max(&self) -> TimeNs {
        self.segment.pages().iter().map(|page| page.time_max).max().unwrap()
    }

    fn page_count(&self) -> u64 {
        self.segment.pages().len() as u64
    }

    fn open(&self) -> Snapshot {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Snapshot { segments: vec![Arc::clone(&self.segment)], ..Snapshot::default() }
    }
}

#[test]
fn later_segments_are_opened_when_all_newer_rows_were_returned() {
    let world = World::new("");
    // The times of the first two buckets overlap.
    for (bucket, times) in [0..100, 50..150, 160..200].into_iter().enumerate() {
        world.add_bucket(times, |time| format!(r#"{{"id":"{bucket}-{time}"}}"#));
    }
    let plan = plan_for(FieldNeeds { fields: ["id".to_owned()].into(), ..FieldNeeds::default() });
    let (context, progress) = (&world.context, &world.progress);
    let ids = |rows: OrderedRows| -> Vec<String> {
        let mut ids = Vec::new();
        for rows in rows {
            let rows = rows.unwrap();
            let (column, mut scratch) = (rows::reader(&rows, "id"), String::new());
            ids.extend((0..rows.num_rows()).map(|row| column.text(row, &mut scratch).unwrap().to_owned()));
        }
        ids
    };
    let whole = world.snapshot();
    let opened = Arc::<AtomicUsize>::default();
    let later = |at: usize| -> Arc<dyn LaterSegments> {
        Arc::new(CountedSegments { segment: Arc::clone(&whole.segments[at]), opened: Arc::clone(&opened) })
    };
    let in_parts = Snapshot {
        segments: vec![Arc::clone(&whole.segments[2])],
        later: vec![later(0), later(1)],
        ..Snapshot::default()
    };
    let scan = |snapshot: &Snapshot| world.environment().scan(&plan, snapshot.clone()).unwrap();
    let mut expected = ids(OrderedRows::new(scan(&whole), context.clone()).unwrap());
    assert_eq!(expected.len(), 240);
    let planned = progress.pages_total();
    let mut rows = OrderedRows::new(scan(&in_parts), context.clone()).unwrap();
    assert_eq!(progress.pages_total() - planned, 3);
    let first = rows.next().unwrap().unwrap();
    assert_eq!((first.num_rows(), opened.load(Ordering::Relaxed)), (40, 0));
    assert_eq!(ids(rows), expected[40..]);
    assert_eq!((opened.load(Ordering::Relaxed), progress.pages_total() - planned), (2, 3));
    let mut unordered = ids(OrderedRows::in_any_order(scan(&in_parts), context.clone()).unwrap());
    expected.sort_unstable();
    unordered.sort_unstable();
    assert_eq!(unordered, expected);
}

#[test]
fn wildcards_match_the_fields_of_segments_that_are_opened_later() {
    let world = World::new("");
    for times in [0..5_000, 5_000..10_000] {
        let field = times.start;
        world.add_bucket(times, |time| format!(r#"{{"id":"{time}","k{field}":1}}"#));
    }
    let whole = world.snapshot();
    let later: Arc<dyn LaterSegments> =
        Arc::new(CountedSegments { segment: Arc::clone(&whole.segments[0]), opened: Arc::default() });
    let in_parts =
        Snapshot { segments: vec![Arc::clone(&whole.segments[1])], later: vec![later], ..Snapshot::default() };
    let plan = plan_for(FieldNeeds { patterns: vec!["k*".to_owned()], ..FieldNeeds::default() });
    for snapshot in [whole, in_parts] {
        let scan = world.environment().scan(&plan, snapshot).unwrap();
        let (mut of_first, mut of_second) = (0, 0);
        for rows in OrderedRows::new(scan, world.context.clone()).unwrap() {
            let rows = rows.unwrap();
            let values = |name: &str| {
                let (column, mut scratch) = (rows::reader(&rows, name), String::new());
                (0..rows.num_rows()).filter(|row| column.text(*row, &mut scratch).is_some()).count()
            };
            of_first += values("k0");
            of_second += values("k5000");
        }
        assert_eq!((of_first, of_second), (5_000, 5_000));
    }
}
