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
use quarry_store::{AppendRequest, IndexSelector, Store, StoreOptions};

use super::*;
use crate::environment::{ScanEnvironment, ScanRules};
use crate::labels::{LabelCondition, LabelSource};
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
