//! A store that counts reads of its sealed slabs, a data model over this store, and summaries in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use jiff::tz::TimeZone;
use quarry_conf::{ConfSource, Layer, Layers, PropsResolver};
use quarry_engine::{
    Acceleration, Engine, EngineOptions, EventType, ExplainedPlan, KnowledgeSource, SearchRequest, SummaryFile,
    SummaryReport, SummaryRequest, SummaryStore, Tag,
};
use quarry_event::{TimeNs, TimeRange};
pub(crate) use quarry_testworld::{CountedStore as World, Interruption, SECOND, START, deletion_of_every};
use quarry_testworld::{MemorySummary, OneTable, lines, rows_of};

/// A model with computed fields of every kind, nested objects, and a root with a keyword constraint.
const MODEL: &str = r#"{"modelName": "Web", "objects": [
  {"objectName": "Traffic", "parentName": "BaseEvent", "constraints": [{"search": "(index=main OR index=other) status=*"}],
   "fields": [{"fieldName": "status"}, {"fieldName": "took"}, {"fieldName": "path"}, {"fieldName": "alias"},
              {"fieldName": "made"}, {"fieldName": "tags{}"}],
   "calculations": [
     {"calculationType": "Eval", "expression": "if(isnull(user) OR user=\"\",\"unknown\",user)",
      "outputFields": [{"fieldName": "user"}]},
     {"calculationType": "Eval", "expression": "if(took>20,\"yes\",\"no\")", "outputFields": [{"fieldName": "slow"}]},
     {"calculationType": "Eval", "expression": "took/3", "outputFields": [{"fieldName": "third"}]},
     {"calculationType": "Eval", "expression": "if(status>=500,null(),_time+0.25)", "outputFields": [{"fieldName": "at"}]},
     {"calculationType": "Eval", "expression": "strftime(_time,\"%H\")", "outputFields": [{"fieldName": "hour"}]},
     {"calculationType": "Eval", "expression": "split(path,\"/\")", "outputFields": [{"fieldName": "parts"}]},
     {"calculationType": "Rex", "inputField": "path", "expression": "/(?<leaf>\\d+)$",
      "outputFields": [{"fieldName": "leaf"}]},
     {"calculationType": "Lookup", "lookupName": "people", "inputField": "user",
      "outputFields": [{"fieldName": "team", "lookupOutputFieldName": "team"}]}]},
  {"objectName": "Failed", "parentName": "Traffic", "constraints": [{"search": "status>=400"}],
   "fields": [{"fieldName": "level"}], "calculations": []},
  {"objectName": "Broken", "parentName": "Failed", "constraints": [{"search": "tag=broken"}],
   "fields": [], "calculations": []},
  {"objectName": "Late", "parentName": "Traffic", "constraints": [{"search": "slow=yes"}], "fields": [],
   "calculations": [{"calculationType": "Eval", "expression": "round(took,0)", "outputFields": [{"fieldName": "band"}]}]},
  {"objectName": "Words", "parentName": "BaseEvent", "constraints": [{"search": "error OR found"}],
   "fields": [{"fieldName": "user"}, {"fieldName": "code"}], "calculations": []}]}"#;

/// Settings that extract and compute fields.
pub(crate) const PROPS: &str = "[mixed]\nEXTRACT-code = code-(?<code>\\d+)\nFIELDALIAS-a = user AS alias\n\
                                EVAL-made = user.\"-\".status\n";

/// Searches over the model.
pub(crate) const SEARCHES: &[&str] = &[
    "| tstats count FROM datamodel=Web.Traffic",
    "| tstats count FROM datamodel=Web.Traffic BY Traffic.user",
    "| tstats count dc(Traffic.user) AS users values(Traffic.status) AS codes FROM datamodel=Web.Traffic BY host index",
    "| tstats sum(Traffic.took) avg(Traffic.third) min(Traffic.took) max(Traffic.third) stdev(Traffic.took) \
     FROM datamodel=Web.Traffic BY Traffic.team",
    "| tstats perc90(Traffic.took) median(Traffic.third) range(Traffic.at) \
     FROM datamodel=Web.Traffic BY Traffic.slow",
    "| tstats earliest(Traffic.user) latest(Traffic.user) earliest_time(Traffic.user) max(_time) min(_indextime) \
     FROM datamodel=Web.Traffic BY Traffic.status",
    "| tstats count FROM datamodel=Web.Traffic BY _time span=10m Traffic.slow",
    "| tstats count FROM datamodel=Web.Traffic BY _time Traffic.hour",
    "| tstats first(Traffic.user) last(Traffic.path) FROM datamodel=Web.Traffic BY host",
    "| tstats count FROM datamodel=Web.Traffic BY Traffic.parts",
    "| tstats count values(Traffic.tags{}) AS t FROM datamodel=Web.Traffic BY Traffic.leaf",
    "| tstats count FROM datamodel=Web.Traffic WHERE Traffic.user=b* Traffic.status!=404 BY Traffic.path",
    "| tstats count FROM datamodel=Web.Traffic WHERE NOT Traffic.team=red Traffic.took>10.5 BY Traffic.made",
    "| tstats count FROM datamodel=Web.Traffic WHERE Traffic.user IN (alice, unknown) OR host=db BY Traffic.alias",
    "| tstats count FROM datamodel=Web.Traffic WHERE index=other BY source sourcetype",
    "| tstats count FROM datamodel=Web.Traffic WHERE TERM(user=bob) BY Traffic.user",
    "| tstats count FROM datamodel=Web.Traffic WHERE tag=broken BY Traffic.status",
    "| tstats count FROM datamodel=Web.Traffic WHERE nodename=Traffic.Failed BY Traffic.status",
    "| tstats count FROM datamodel=Web.Traffic WHERE nodename=Traffic.Failed.Broken Traffic.slow=yes",
    "| tstats count values(Traffic.Failed.level) AS levels FROM datamodel=Web.Traffic BY Traffic.status",
    "| tstats count FROM datamodel=Web.Failed BY Failed.user Failed.level",
    "| tstats count sum(Traffic.took) FROM datamodel=Web.Broken BY Traffic.user",
    "| tstats count FROM datamodel=Web.Late BY Late.band Late.user",
    "| tstats count FROM datamodel=Web.Words BY Words.user Words.code",
    "| tstats fillnull_value=none count FROM datamodel=Web.Traffic BY Traffic.path Traffic.team",
    "| tstats prestats=t count FROM datamodel=Web.Traffic BY _time Traffic.slow span=5m \
     | timechart span=5m count BY Traffic.slow",
    "| tstats prestats=t avg(Traffic.took) FROM datamodel=Web.Traffic BY Traffic.user | stats avg(Traffic.took) BY Traffic.user",
    "| tstats prestats=t count FROM datamodel=Web.Traffic BY _time | timechart count",
    "| tstats count FROM datamodel=Web.Traffic WHERE [search index=main status=500 user=* | head 1 | rename user AS Traffic.user \
     | fields Traffic.user] BY Traffic.user",
    "| tstats count FROM datamodel=Web.Traffic WHERE _index_earliest=-30d BY Traffic.user",
    "| tstats count sum(Traffic.nowhere) FROM datamodel=Web.Traffic BY Traffic.user",
    "| tstats count FROM datamodel=Web.Traffic BY Traffic.user | sort -count | head 2",
    "| tstats count FROM datamodel=Web.Traffic WHERE Traffic.user=nobody",
];

/// Whether a search is answered by summaries alone.
pub(crate) fn reads_no_event(text: &str) -> bool {
    !["TERM(", "tag=broken", "first(", "[search", "_index_earliest", "| timechart count", "BY _time Traffic.hour"]
        .iter()
        .any(|part| text.contains(part))
}

pub(crate) struct Knowledge(pub(crate) String);

impl KnowledgeSource for Knowledge {
    fn data_model(&self, name: &str) -> Result<Option<String>, quarry_stdx::Fault> {
        Ok((name == "Web").then(|| self.0.clone()))
    }

    fn event_types(&self) -> Vec<EventType> {
        vec![EventType { name: "crash".into(), search: "status=500 OR code=500".into() }]
    }

    fn tags(&self) -> Vec<Tag> {
        vec![Tag { name: "broken".into(), field: "eventtype".into(), value: "crash".into() }]
    }
}

/// Summaries in memory.
#[derive(Default)]
pub(crate) struct Summaries {
    pub(crate) files: Mutex<BTreeMap<String, Vec<u8>>>,
    pub(crate) configuration: Mutex<String>,
    pub(crate) unusable: AtomicU64,
    pub(crate) full: std::sync::atomic::AtomicBool,
    /// Runs while summaries are opened.
    pub(crate) interruption: Interruption,
}

impl SummaryStore for Summaries {
    fn acceleration(&self, model: &str, _: TimeNs) -> Option<Acceleration> {
        (model == "Web").then(Acceleration::default)
    }

    fn configuration(&self, _: &BTreeSet<String>) -> Result<String, quarry_stdx::Fault> {
        Ok(self.configuration.lock().unwrap().clone())
    }

    fn open(&self, name: &str) -> Result<Option<Arc<dyn SummaryFile>>, quarry_stdx::Fault> {
        self.interruption.step();
        let bytes = self.files.lock().unwrap().get(name).cloned();
        Ok(bytes.map(|bytes| Arc::new(MemorySummary(bytes)) as Arc<dyn SummaryFile>))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), quarry_stdx::Fault> {
        if self.full.load(Ordering::Relaxed) {
            return Err(quarry_stdx::Fault::invalid("the disk is full"));
        }
        self.files.lock().unwrap().insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn report_unusable(&self, _: &str, _: &str) {
        self.unusable.fetch_add(1, Ordering::Relaxed);
    }
}

/// An engine with these rules and, if given, summaries.
pub(crate) fn engine(props: &str, people: &str, model: Option<&str>, summaries: Option<Arc<Summaries>>) -> Engine {
    let source = ConfSource { layer: Layer::SystemLocal, app: None, file: "props.conf".into(), text: props.into() };
    let options = EngineOptions { partial_state_bytes: 0, ..EngineOptions::default() };
    let props = Arc::new(PropsResolver::new(&Layers::new([source])));
    let engine = Engine::new(&options, props, OneTable::of_csv("people", people)).unwrap();
    let engine = engine.with_knowledge(Arc::new(Knowledge(model.unwrap_or(MODEL).to_owned())));
    match summaries {
        Some(summaries) => engine.with_summaries(summaries),
        None => engine,
    }
}

pub(crate) const PEOPLE: &str = "user,team\nalice,red\nbob,blue\nunknown,none\n";

/// The model with a different definition of `slow`.
pub(crate) fn other_model() -> String {
    MODEL.replace("took>20", "took>5")
}

/// Event number `at`.
fn text(at: u64) -> String {
    let user = ["alice", "bob", "Carol", "dave", "zoë"][(at / 3 % 5) as usize];
    let status = [200, 200, 404, 500, 301][(at / 7 % 5) as usize];
    match at % 5 {
        0 => format!("user={user} status={status} took={}.25 path=/a/{} level=INFO", at % 50, at % 9),
        1 => format!("user={user} status={status} took={}.5 level=error not found", at % 31),
        2 => {
            format!("{{\"user\":\"{user}\",\"status\":{status},\"tags\":[\"x\",\"t{}\"],\"took\":{}}}", at % 3, at % 17)
        }
        3 => format!("status={status} took={} path=/b/c{}", at % 23, at % 7),
        _ => format!("plain words user={user} code-{status} ERROR found not {}", at % 11),
    }
}

/// Opens a store whose slabs are small.
pub(crate) fn open(dir: &Path, slab_events: usize) -> Arc<World> {
    World::open(dir, slab_events, false, text)
}

/// Summarises until `pages` pages are read.
pub(crate) fn summarise(world: &Arc<World>, engine: &Engine, pages: usize) -> SummaryReport {
    let request = SummaryRequest {
        model: "Web".into(),
        now: START + 1_000_000 * SECOND,
        zone: TimeZone::UTC,
        default_indexes: vec!["main".into()],
        earliest: None,
        backfill: None,
        build: true,
    };
    let source: Arc<World> = Arc::clone(world);
    let mut left = pages;
    let mut go_on = || {
        left = left.saturating_sub(1);
        left > 0
    };
    engine.summarise(&request, source, &mut go_on).unwrap()
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SearchOutcome {
    pub(crate) rows: Vec<String>,
    pub(crate) messages: Vec<String>,
    pub(crate) partial: bool,
}

/// A search in a range of seconds after the start.
fn request(text: &str, range: Option<(i64, i64)>) -> SearchRequest {
    let instant = |seconds: i64| Some(START + seconds * SECOND);
    SearchRequest {
        range: range.map_or(TimeRange::ALL, |(from, to)| TimeRange { earliest: instant(from), latest: instant(to) }),
        now: START + 1_000_000 * SECOND,
        ..quarry_testworld::request(text)
    }
}

/// Explained plan of a search.
pub(crate) fn explained(engine: &Engine, world: &Arc<World>, text: &str) -> ExplainedPlan {
    let source: Arc<World> = Arc::clone(world);
    engine.explain(request(text, None), Some(source)).unwrap_or_else(|faults| panic!("{text}: {faults:?}")).plan
}

/// Asks a search in a range of seconds after the start.
pub(crate) fn run_search(engine: &Engine, world: &Arc<World>, text: &str, range: Option<(i64, i64)>) -> SearchOutcome {
    let source: Arc<World> = Arc::clone(world);
    let mut job = engine.start(request(text, range), source).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
    let rows = lines(&rows_of(&mut job).unwrap_or_else(|error| panic!("{text}: {error}")));
    SearchOutcome { rows, messages: job.messages(), partial: job.is_partial() }
}
