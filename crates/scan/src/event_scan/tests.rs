use std::collections::BTreeSet;
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

/// A prefetched page is counted once, when it is read, including the rows that a top-k threshold leaves out.
#[test]
fn prefetched_pages_are_counted_once_when_read() {
    const EVENTS: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(StoreOptions::at(folder.path()), ManualClock::shared(1)).unwrap();
    let mut batch = EventBatch::default();
    let json = Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "_json".into() };
    let meta = batch.intern(&json);
    for at in 0..EVENTS {
        let text = format!(r#"{{"size":{},"path":"/{}"}}"#, EVENTS - at, at % 7);
        batch.push(text.as_bytes(), i64::try_from(at).unwrap(), meta);
    }
    store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
    store.seal_all().unwrap();

    let mut plan = Scan::new(vec!["main".to_owned()], SearchExpr::All, TimeRange::ALL, FieldSource::SearchTime);
    plan.projection = FieldNeeds { fields: ["size".to_owned()].into(), ..FieldNeeds::default() };
    let field = FieldPattern { text: "size".to_owned(), span: Span { start: 0, end: 0 } };
    let key = SortKey { field, descending: true, kind: SortKind::Auto };
    plan.top = Some(TopK { key, descending: true, count: 5, is_only_key: true });
    let context = context();
    let lookups: Arc<dyn LookupSource> = Arc::new(NoTables);
    let summaries: Arc<dyn SummaryStore> = Arc::new(NoSummaries);
    let progress = Arc::<ScanProgress>::default();
    let rules = ScanRules::new(Arc::new(PropsResolver::new(&Layers::new(builtin_sources()))));
    let environment = ScanEnvironment {
        rules: &rules,
        lookups: &lookups,
        labels: &NoLabels,
        node: "n".to_owned(),
        summaries: &summaries,
        progress: &progress,
        context: &context,
    };
    let snapshot = store.snapshot(&IndexSelector::all(), &TimeRange::ALL);
    let scan = environment.scan(&plan, snapshot).unwrap();

    let pages = scan.pages(&context).unwrap();
    assert!(pages.len() > 2, "{} pages", pages.len());
    let mut rows = 0;
    for page in &pages {
        let before = (progress.pages_done(), progress.events_scanned(), progress.events_matched());
        scan.prefetch_page(page, false, &context).unwrap();
        let begun = (progress.pages_done(), progress.events_scanned(), progress.events_matched());
        assert_eq!(begun, before, "prefetching a page counts nothing");
        rows += scan.read(page, &context).unwrap().map_or(0, |rows| rows.num_rows());
    }
    assert!(rows < 10_000, "the threshold leaves rows out: {rows}");
    assert_eq!(progress.events_matched(), EVENTS);
}

#[test]
fn rules_that_read_default_fields_are_evaluated_on_events_in_columns() {
    const EVENTS: u64 = 2_000;
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(StoreOptions::at(folder.path()), ManualClock::shared(1)).unwrap();
    let mut batch = EventBatch::default();
    let json = Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "_json".into() };
    let meta = batch.intern(&json);
    for at in 0..EVENTS {
        let text = format!(r#"{{"size":{at},"path":"/{}"}}"#, at % 7);
        batch.push(text.as_bytes(), i64::try_from(at).unwrap(), meta);
    }
    store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
    store.seal_all().unwrap();

    let mut plan = Scan::new(vec!["main".to_owned()], SearchExpr::All, TimeRange::ALL, FieldSource::SearchTime);
    plan.projection = FieldNeeds { fields: ["lines".to_owned(), "node".to_owned()].into(), ..FieldNeeds::default() };
    let rules = "[_json]\nEVAL-lines = linecount + 1\nFIELDALIAS-node = splunk_server AS node\n";
    let rules = ConfSource {
        layer: Layer::SystemLocal,
        app: None,
        file: "etc/system/local/props.conf".to_owned(),
        text: rules.to_owned(),
    };
    let rules = Layers::new(builtin_sources().into_iter().chain([rules]));
    let rules = ScanRules::new(Arc::new(PropsResolver::new(&rules)));
    let context = context();
    let lookups: Arc<dyn LookupSource> = Arc::new(NoTables);
    let summaries: Arc<dyn SummaryStore> = Arc::new(NoSummaries);
    let progress = Arc::<ScanProgress>::default();
    let environment = ScanEnvironment {
        rules: &rules,
        lookups: &lookups,
        labels: &NoLabels,
        node: "n".to_owned(),
        summaries: &summaries,
        progress: &progress,
        context: &context,
    };
    let snapshot = store.snapshot(&IndexSelector::all(), &TimeRange::ALL);
    let scan = environment.scan(&plan, snapshot).unwrap();

    let mut events = 0;
    for page in &scan.pages(&context).unwrap() {
        let Some(rows) = scan.read(page, &context).unwrap() else { continue };
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
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(StoreOptions::at(folder.path()), ManualClock::shared(1)).unwrap();
    let json = Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "_json".into() };
    // The times of the first two buckets overlap.
    for (bucket, times) in [0..100_i64, 50..150, 160..200].into_iter().enumerate() {
        let mut batch = EventBatch::default();
        let meta = batch.intern(&json);
        times.for_each(|time| {
            batch.push(format!(r#"{{"id":"{bucket}-{time}","of{bucket}":1}}"#).as_bytes(), time, meta);
        });
        store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
        store.seal_all().unwrap();
    }
    let mut plan = Scan::new(vec!["main".to_owned()], SearchExpr::All, TimeRange::ALL, FieldSource::SearchTime);
    plan.projection = FieldNeeds { fields: ["id".to_owned()].into(), ..FieldNeeds::default() };
    let lookups: Arc<dyn LookupSource> = Arc::new(NoTables);
    let summaries: Arc<dyn SummaryStore> = Arc::new(NoSummaries);
    let (context, progress) = (context(), Arc::<ScanProgress>::default());
    let rules = ScanRules::new(Arc::new(PropsResolver::new(&Layers::new(builtin_sources()))));
    let environment = ScanEnvironment {
        rules: &rules,
        lookups: &lookups,
        labels: &NoLabels,
        node: "n".to_owned(),
        summaries: &summaries,
        progress: &progress,
        context: &context,
    };
    let ids = |rows: OrderedRows| -> Vec<String> {
        let mut ids = Vec::new();
        for rows in rows {
            let rows = rows.unwrap();
            let (column, mut scratch) = (rows::reader(&rows, "id"), String::new());
            ids.extend((0..rows.num_rows()).map(|row| column.text(row, &mut scratch).unwrap().to_owned()));
        }
        ids
    };
    let whole = store.snapshot(&IndexSelector::all(), &TimeRange::ALL);
    let opened = Arc::<AtomicUsize>::default();
    let later = |at: usize| -> Arc<dyn LaterSegments> {
        Arc::new(CountedSegments { segment: Arc::clone(&whole.segments[at]), opened: Arc::clone(&opened) })
    };
    let in_parts = Snapshot {
        segments: vec![Arc::clone(&whole.segments[2])],
        later: vec![later(0), later(1)],
        ..Snapshot::default()
    };
    let scan = |snapshot: &Snapshot| environment.scan(&plan, snapshot.clone()).unwrap();
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
    plan.projection = FieldNeeds { patterns: vec!["of*".to_owned()], ..FieldNeeds::default() };
    for snapshot in [&whole, &in_parts] {
        let rows = OrderedRows::new(environment.scan(&plan, snapshot.clone()).unwrap(), context.clone()).unwrap();
        let rows: Vec<RecordBatch> = rows.map(Result::unwrap).collect();
        let names: BTreeSet<&str> =
            rows.iter().flat_map(|rows| rows.schema_ref().fields()).map(|it| &**it.name()).collect();
        assert!(["of0", "of1", "of2"].iter().all(|name| names.contains(name)), "{names:?}");
    }
}

#[test]
fn wildcards_match_the_fields_of_segments_that_are_opened_later() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(StoreOptions::at(folder.path()), ManualClock::shared(1)).unwrap();
    let json = Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "_json".into() };
    for times in [0..5_000_i64, 5_000..10_000] {
        let mut batch = EventBatch::default();
        let meta = batch.intern(&json);
        let field = times.start;
        times.for_each(|time| batch.push(format!(r#"{{"id":"{time}","k{field}":1}}"#).as_bytes(), time, meta));
        store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
        store.seal_all().unwrap();
    }
    let whole = store.snapshot(&IndexSelector::all(), &TimeRange::ALL);
    let later: Arc<dyn LaterSegments> =
        Arc::new(CountedSegments { segment: Arc::clone(&whole.segments[0]), opened: Arc::default() });
    let in_parts =
        Snapshot { segments: vec![Arc::clone(&whole.segments[1])], later: vec![later], ..Snapshot::default() };
    let mut plan = Scan::new(vec!["main".to_owned()], SearchExpr::All, TimeRange::ALL, FieldSource::SearchTime);
    plan.projection = FieldNeeds { patterns: vec!["k*".to_owned()], ..FieldNeeds::default() };
    let lookups: Arc<dyn LookupSource> = Arc::new(NoTables);
    let summaries: Arc<dyn SummaryStore> = Arc::new(NoSummaries);
    let (context, progress) = (context(), Arc::<ScanProgress>::default());
    let rules = ScanRules::new(Arc::new(PropsResolver::new(&Layers::new(builtin_sources()))));
    let environment = ScanEnvironment {
        rules: &rules,
        lookups: &lookups,
        labels: &NoLabels,
        node: "n".to_owned(),
        summaries: &summaries,
        progress: &progress,
        context: &context,
    };
    for snapshot in [whole, in_parts] {
        let scan = environment.scan(&plan, snapshot).unwrap();
        let (mut of_first, mut of_second) = (0, 0);
        for rows in OrderedRows::new(scan, context.clone()).unwrap() {
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
