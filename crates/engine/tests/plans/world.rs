//! The same events stored in every possible form, and engines that read them in portions of every size.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::Array as _;
use arrow::datatypes::DataType;
use quarry_conf::{ConfSource, Layer, Layers, PropsResolver};
use quarry_engine::{Engine, EngineOptions, Job, ResultKind, SearchRequest, Slicing, SnapshotSource};
use quarry_event::{EventBatch, Metadata, Page, PageColumns, TimeRange};
use quarry_stdx::ManualClock;
use quarry_store::{AppendRequest, Deletion, IndexSelector, Segment, Snapshot, Store, StoreError, StoreOptions};
use quarry_testworld::{OneTable, request};

const SECOND: i64 = 1_000_000_000;
/// Time of the first event.
pub(crate) const START: i64 = 1_790_000_000 * SECOND;
/// Events of a batch.
const BATCH: u64 = 97;
/// Host of events that are deleted.
const DOOMED: &str = "doomed";

const PROPS: &str = "[json]\nKV_MODE = json\n[plain]\nEXTRACT-code = code-(?<code>\\d+) (?<word>\\w+)\n";

const TABLE: &str = "user,team,weight\neva,red,1\ntom,blue,2\ntom,green,3\nzoë,red,4\n";

/// Event number `at`: its kind and its text.
fn event(at: u64) -> (usize, String) {
    let mix = at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    let user = ["eva", "tom", "zoë", "ann", "Bob"][(mix % 5) as usize];
    let level = ["INFO", "INFO", "WARN", "ERROR"][(mix / 5 % 4) as usize];
    let status = [200, 200, 200, 302, 404, 500][(mix / 20 % 6) as usize];
    let took = mix % 1_000;
    match mix % 8 {
        0..=2 => {
            let tail = if mix.is_multiple_of(3) { " error disk full" } else { "" };
            (0, format!("level={level} user={user} status={status} took={took}.{} n={at}{tail}", mix % 10))
        }
        3 => (0, format!("user={user} status={status} took=-{} path=/a/b{}/c tags=\"x y z\"", took % 50, mix % 12)),
        4 | 5 => (
            1,
            format!(
                "{{\"user\":\"{user}\",\"status\":{status},\"took\":{took},\"tags\":[\"t{}\",\"t{}\"],\"in\":{{\"a\":{}}}}}",
                mix % 3,
                mix % 7,
                mix % 4
            ),
        ),
        6 => (2, format!("code-{status} {level} from 10.{}.0.{} after {took}% of it", mix % 4, mix % 200)),
        _ => (2, format!("session={} {} by {user}", mix % 60, ["opens", "works", "closes"][(mix / 64 % 3) as usize])),
    }
}

/// Appends events `from..until` of the set.
fn append(store: &Store, from: u64, until: u64) {
    append_among(store, from..until, 0);
}

/// Like [`append`], but adds further events between those before number `doomed`. The further events have a host of
/// their own and are deleted later.
fn append_among(store: &Store, numbers: Range<u64>, doomed: u64) {
    append_some(store, numbers, doomed, &|_| true);
}

/// Like [`append_among`], but only for events whose number `is_kept` accepts.
fn append_some(store: &Store, numbers: Range<u64>, doomed: u64, is_kept: &dyn Fn(u64) -> bool) {
    for first in numbers.clone().step_by(BATCH as usize) {
        for index in ["main", "other"] {
            let mut batch = EventBatch { index_time: START, ..EventBatch::default() };
            let others: Vec<u32> = ["kv", "json", "plain"]
                .into_iter()
                .map(|sourcetype| {
                    batch.intern(&Metadata {
                        index: index.into(),
                        host: DOOMED.into(),
                        source: "/var/log/web.log".into(),
                        sourcetype: sourcetype.into(),
                    })
                })
                .collect();
            let metas: Vec<u32> = [("web", "kv"), ("app", "json"), ("db", "plain")]
                .into_iter()
                .map(|(host, sourcetype)| {
                    batch.intern(&Metadata {
                        index: index.into(),
                        host: host.into(),
                        source: format!("/var/log/{host}.log").into(),
                        sourcetype: sourcetype.into(),
                    })
                })
                .collect();
            let of_index = |at: &u64| (at % 11 == 3) == (index == "other");
            for at in (first..numbers.end.min(first + BATCH)).filter(of_index).filter(|at| is_kept(*at)) {
                let (kind, text) = event(at);
                if at < doomed && at % 3 == 1 {
                    let (kind, text) = event(at + 1_000_000);
                    batch.push(text.as_bytes(), START + at as i64 * SECOND, others[kind]);
                }
                // Three events share a timestamp, and some arrive late. Events of two indexes never share a
                // timestamp, because the order in which they arrived is not stored.
                let late = if at % 37 == 0 { 4_000 } else { 0 } - i64::from(index == "other");
                batch.push(text.as_bytes(), START + (at as i64 / 3 * 7 - late) * SECOND, metas[kind]);
                if at % 50 == 17 {
                    let row = batch.len() as u32 - 1;
                    batch.fields.push(row, "zone", "north");
                }
            }
            if !batch.is_empty() {
                store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
            }
        }
    }
}

/// Deletes the events of a host.
fn delete_doomed(store: &Store) {
    let mut deletion = Deletion::default();
    for segment in Store::snapshot(store, &IndexSelector::all(), &TimeRange::ALL).segments {
        for at in 0..segment.pages().len() {
            let page = segment.read_page(at, PageColumns::ALL).unwrap();
            let is_doomed = |row: &u32| &*page.metas[page.meta[*row as usize] as usize].host == DOOMED;
            let rows: Vec<u32> = (0..page.len() as u32).filter(is_doomed).collect();
            assert!(segment.add_to_deletion(at, &rows, &mut deletion));
        }
    }
    assert!(deletion.events() > 0);
    let deleted: u64 = store.delete(&deletion).unwrap().values().sum();
    assert_eq!(deleted, deletion.events());
}

/// Source of the events: a store, with or without its templates.
#[derive(Clone)]
pub(crate) struct EventSource {
    store: Arc<Store>,
    /// Whether templates and columns are hidden, so that every page has only its texts.
    texts_only: bool,
}

impl SnapshotSource for EventSource {
    fn snapshot(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Snapshot, StoreError> {
        let mut snapshot = Store::snapshot(&self.store, indexes, range);
        if self.texts_only {
            snapshot.segments.iter_mut().for_each(|segment| *segment = Arc::new(Texts(Arc::clone(segment))));
        }
        Ok(snapshot)
    }
}

/// A segment without templates.
#[derive(Debug)]
struct Texts(Arc<dyn Segment>);

impl Segment for Texts {
    quarry_testworld::segment_of!(0);
    fn read_page(&self, page: usize, columns: PageColumns) -> Result<Page, StoreError> {
        self.0.read_page(page, columns)
    }
}

/// An empty store whose slabs hold `slab_events` events.
pub(crate) fn store_of(dir: &Path, slab_events: usize) -> Arc<Store> {
    let options = StoreOptions { slab_events, ..StoreOptions::at(dir) };
    Store::open(options, ManualClock::shared(START + 10_000_000 * SECOND)).unwrap()
}

/// The events in one storage form.
pub(crate) struct StoredEvents {
    pub(crate) name: &'static str,
    pub(crate) kept: Arc<EventSource>,
}

/// The contents of a store, with templates or as texts only.
pub(crate) fn stored_events(name: &'static str, store: &Arc<Store>, texts_only: bool) -> StoredEvents {
    StoredEvents { name, kept: Arc::new(EventSource { store: Arc::clone(store), texts_only }) }
}

/// The same `events` events in every storage form, in folders below `folder`.
pub(crate) fn storage_forms(folder: &Path, events: u64) -> Vec<StoredEvents> {
    let hot = store_of(&folder.join("hot"), 1 << 18);
    append(&hot, 0, events);
    let slabs = (events / 6) as usize;
    let sealed = store_of(&folder.join("sealed"), slabs);
    append(&sealed, 0, events);
    sealed.seal_all().unwrap();
    let mixed = store_of(&folder.join("mixed"), slabs);
    append(&mixed, 0, events / 2);
    mixed.seal_all().unwrap();
    append(&mixed, events / 2, events);
    let compacted = store_of(&folder.join("compacted"), slabs);
    append(&compacted, 0, events);
    compacted.seal_all().unwrap();
    compacted.compact_all().unwrap();
    // Half of the slabs, and one of a large slab's pages, lose events.
    let lossy = store_of(&folder.join("lossy"), slabs);
    append_among(&lossy, 0..events, events / 2);
    lossy.seal_all().unwrap();
    delete_doomed(&lossy);
    let late = store_of(&folder.join("late"), slabs);
    append_among(&late, 0..events, events / 2);
    late.seal_all().unwrap();
    late.compact_all().unwrap();
    delete_doomed(&late);
    vec![
        stored_events("hot", &hot, false),
        stored_events("sealed", &sealed, false),
        stored_events("sealed, texts only", &sealed, true),
        stored_events("half sealed", &mixed, false),
        stored_events("compacted", &compacted, false),
        stored_events("some deleted", &lossy, false),
        stored_events("compacted and some deleted", &late, false),
    ]
}

/// The same events distributed over three nodes, each with another storage form. Events with the same time are on one
/// node, because the order in which they arrived is known only there.
pub(crate) fn nodes(folder: &Path, events: u64) -> Vec<StoredEvents> {
    let node = |name: &'static str, number: u64| {
        let store = store_of(&folder.join(name), (events / 9) as usize);
        append_some(&store, 0..events, 0, &|at| at / 3 % 3 == number);
        if number > 0 {
            store.seal_all().unwrap();
        }
        if number > 1 {
            store.compact_all().unwrap();
        }
        stored_events(name, &store, false)
    };
    vec![node("first node", 0), node("second node", 1), node("third node", 2)]
}

/// Stores the texts of one JSON source in every sealed form, below `folder`.
pub(crate) fn storage_forms_of_texts(folder: &Path, texts: &[String]) -> Vec<StoredEvents> {
    storage_forms_of_lines(folder, "json", texts)
}

/// Like [`storage_forms_of_texts`], for a source of this sourcetype.
pub(crate) fn storage_forms_of_lines(folder: &Path, sourcetype: &str, texts: &[String]) -> Vec<StoredEvents> {
    let store = |name: &str| {
        let store = store_of(&folder.join(name), texts.len());
        let mut batch = EventBatch { index_time: START, ..EventBatch::default() };
        let meta = batch.intern(&Metadata {
            index: "main".into(),
            host: "app".into(),
            source: "/var/log/app.log".into(),
            sourcetype: sourcetype.into(),
        });
        for (text, at) in texts.iter().zip(0..) {
            batch.push(text.as_bytes(), START + at * SECOND, meta);
        }
        store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
        store.seal_all().unwrap();
        store
    };
    let (sealed, compacted) = (store("sealed"), store("compacted"));
    compacted.compact_all().unwrap();
    vec![
        stored_events("texts only", &sealed, true),
        stored_events("sealed", &sealed, false),
        stored_events("compacted", &compacted, false),
    ]
}

/// Whether all segments of this storage form consist of templates and columns.
pub(crate) fn has_templates(form: &StoredEvents) -> bool {
    let snapshot = Store::snapshot(&form.kept.store, &IndexSelector::all(), &TimeRange::ALL);
    snapshot.segments.iter().all(|segment| segment.has_templates(0))
}

/// An engine with this memory limit and slicing.
pub(crate) fn engine(memory_bytes: usize, slicing: Slicing) -> Engine {
    let source = ConfSource { layer: Layer::SystemLocal, app: None, file: "props.conf".into(), text: PROPS.into() };
    engine_of(vec![source], memory_bytes, slicing)
}

/// Like `engine`, with this configuration.
pub(crate) fn engine_of(conf: Vec<ConfSource>, memory_bytes: usize, slicing: Slicing) -> Engine {
    let props = Arc::new(PropsResolver::new(&Layers::new(conf)));
    let options = EngineOptions { memory_bytes, slicing, partial_state_bytes: 0, ..EngineOptions::default() };
    Engine::new(&options, props, OneTable::of_csv("teams", TABLE)).unwrap()
}

/// The smallest possible portions.
pub(crate) fn tiny() -> Slicing {
    Slicing { window_pages: 1, workers: Some(4), step_rows: 3 }
}

/// Result of a search: the columns of a report, rows and messages; or its error.
pub(crate) type SearchOutcome = Result<Vec<String>, String>;

/// The request for a search.
pub(crate) fn search_request(text: &str) -> SearchRequest {
    SearchRequest { now: START + 1_000_000 * SECOND, ..request(text) }
}

/// The faults of a search as an error.
pub(crate) fn joined(faults: Vec<quarry_spl::Diagnostic>) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Starts a search and returns its errors.
fn start(engine: &Engine, kept: &Arc<EventSource>, text: &str) -> Result<Job, String> {
    engine.start(search_request(text), Arc::<EventSource>::clone(kept)).map_err(joined)
}

/// The rows of a search by column, each with the texts in it.
pub(crate) fn values(engine: &Engine, kept: &Arc<EventSource>, text: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut job = start(engine, kept, text).unwrap();
    while let Some(batch) = job.next_batch() {
        let batch = batch.unwrap();
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            let rows =
                (0..batch.num_rows()).filter(|row| column.data_type() != &DataType::Null && column.is_valid(*row));
            let texts = rows.map(|row| arrow::util::display::array_value_to_string(column, row).unwrap());
            match found.iter_mut().find(|(name, _)| name == field.name()) {
                Some((_, known)) => known.extend(texts),
                None => found.push((field.name().clone(), texts.collect())),
            }
        }
    }
    found
}

/// Runs a search; faults of the request become an error.
pub(crate) fn run_search(engine: &Engine, kept: &Arc<EventSource>, text: &str) -> SearchOutcome {
    outcome_of(start(engine, kept, text)?)
}

/// The answer of a job.
pub(crate) fn outcome_of(mut job: Job) -> SearchOutcome {
    let mut lines = Vec::new();
    let mut columns: Vec<String> = Vec::new();
    while let Some(batch) = job.next_batch() {
        let batch = batch.map_err(|error| error.to_string())?;
        let schema = batch.schema();
        // Which columns rows have in addition to their fields depends on the pages read.
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            let has_values = column.data_type() != &DataType::Null && column.null_count() < column.len();
            if has_values && !columns.contains(field.name()) {
                columns.push(field.name().clone());
            }
        }
        for row in 0..batch.num_rows() {
            let mut cells: Vec<String> = (schema.fields().iter().zip(batch.columns()))
                .filter(|(_, column)| column.data_type() != &DataType::Null && column.is_valid(row))
                .map(|(field, column)| {
                    let text = arrow::util::display::array_value_to_string(column, row).unwrap();
                    format!("{}={}", field.name(), canonical(&text))
                })
                .collect();
            cells.sort();
            lines.push(cells.join(" | "));
        }
    }
    if job.kind() == ResultKind::Results {
        lines.push(format!("columns {}", columns.join(", ")));
    }
    lines.extend(job.messages().into_iter().map(|message| format!("message {message}")));
    Ok(lines)
}

/// A value as displayed: whole numbers without a fraction, a list with one value as that value.
fn canonical(text: &str) -> String {
    if let Some(list) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let values: Vec<String> = list.split(", ").map(canonical).collect();
        return values.join(", ");
    }
    match text.parse::<f64>() {
        Ok(number) if text.contains('.') && number.is_finite() => quarry_event::value::format_number(number),
        _ => text.to_owned(),
    }
}
