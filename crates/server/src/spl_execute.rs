//! Runs a search of a corpus twice, on no events and on one matching event, with stand-ins for its dependencies.
//!
//! Lookup tables have one row with the columns that the search names, data models the objects and fields that it names,
//! and saved searches generate one row; jobs and endpoints exist but are empty, and there are no buckets. The event has
//! the fields that the first command compares, with values that match. The output is ignored; the purpose is to check
//! that a search counted as supported runs to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::tz::TimeZone;
use quarry_conf::{Layers, Permissions, PropsResolver};
use quarry_engine::{
    CommandChunk, CommandProcess, CommandSource, Engine, EngineOptions, JobResult, KnowledgeSource, LookupSource,
    LookupTable, NodeEntry, NodeSource, SearchRequest, SearchShape, SnapshotSource,
};
use quarry_event::time::NS_PER_SEC;
use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_spl::analyse::required_fields;
use quarry_spl::ast::{Command, CompareOp, MapCommand, MapSearch, Pipeline, SearchExpr, Stage};
use quarry_spl::dependencies::Dependencies;
use quarry_spl::macros::Macro;
use quarry_stdx::Fault;
use quarry_store::{BucketListing, IndexSelector, MemoryStore, Snapshot, StoreError};
use serde_json::json;

use crate::failure::Failure;

/// Memory of one search, in bytes.
const MEMORY_BYTES: usize = 64 << 20;
/// Maximum number of rows read from a result.
const ROWS_MAX: usize = 10_000;
/// The time of every search: 2026-11-20T15:00:00Z.
const NOW: i64 = 1_795_186_800 * NS_PER_SEC;
/// Default value of a field.
const DEFAULT_VALUE: &str = "1";

/// A failed run of a search.
pub(crate) struct ExecutionFailure {
    /// Events that the search ran on: `none` or `matching`.
    pub(crate) events: &'static str,
    pub(crate) error: String,
}

/// Runs a search on no events and on a matching event. `text` is the text of the search, from which the fields of data
/// models are guessed.
pub(crate) fn execute(pipeline: Pipeline, text: &str, needs: &Dependencies) -> Result<Vec<ExecutionFailure>, Failure> {
    let stand_ins = Arc::new(StandIns { needs: needs.clone(), words: words_of(text) });
    let props = Arc::new(PropsResolver::new(&Layers::new([])));
    let options = EngineOptions { memory_bytes: MEMORY_BYTES, partial_state_bytes: 0, ..EngineOptions::default() };
    let engine = Engine::new(&options, props, stand_ins.clone())?
        .with_knowledge(stand_ins.clone())
        .with_node(stand_ins.clone())
        .with_commands(stand_ins);
    // No summaries exist, and a search that reads only summaries would read nothing and prove little; so it reads
    // events, too.
    let mut pipeline = pipeline;
    for stage in &mut pipeline.commands {
        if let Command::Tstats(tstats) = &mut stage.command {
            tstats.summaries_only = false;
        }
    }
    let mut failures = Vec::new();
    for events in ["none", "matching"] {
        let store = MemoryStore::new("main");
        if events == "matching" {
            store.append(event_for(&pipeline))?;
        }
        let request = SearchRequest {
            text: String::new(),
            prefix: 0,
            pipeline: Some(pipeline.clone()),
            shape: SearchShape::default(),
            range: TimeRange::ALL,
            now: NOW,
            zone: TimeZone::UTC,
            default_indexes: vec!["main".to_owned()],
            permissions: Arc::new(Permissions::owner()),
            sid: None,
        };
        let started = engine.start(request, Arc::new(NoBuckets(store)));
        let mut job = started.map_err(|diagnostics| Failure::Spl { text: text.to_owned(), diagnostics })?;
        let mut rows = 0;
        while let Some(batch) = job.next_batch() {
            match batch {
                Ok(batch) => rows += batch.num_rows(),
                Err(error) => {
                    failures.push(ExecutionFailure { events, error: error.to_string() });
                    break;
                }
            }
            if rows > ROWS_MAX {
                break;
            }
        }
    }
    Ok(failures)
}

/// Words of a search that contain dots.
fn words_of(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.')));
    words.filter(|word| word.contains('.')).map(str::to_owned).collect()
}

/// Creates an event that satisfies the first command and has the fields that the other commands read.
fn event_for(pipeline: &Pipeline) -> EventBatch {
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    let mut words = Vec::new();
    if let Some((first, rest)) = pipeline.commands.split_first() {
        let needs = required_fields(rest);
        let named = needs.fields.iter().filter(|name| !name.starts_with('_') && is_plain(name));
        fields.extend(named.map(|name| (name.clone(), DEFAULT_VALUE.to_owned())));
        fields.extend(mapped_fields(rest).into_iter().map(|name| (name, DEFAULT_VALUE.to_owned())));
        match &first.command {
            Command::Search(search) => collect_requirements(&search.expr, &mut fields, &mut words),
            Command::Tstats(tstats) => collect_requirements(&tstats.filter, &mut fields, &mut words),
            _ => {}
        }
    }
    let mut own = |name: &str, other: &str| Arc::<str>::from(fields.remove(name).unwrap_or_else(|| other.to_owned()));
    let meta = Metadata {
        index: own("index", "main"),
        host: own("host", "web-1"),
        source: own("source", "/var/log/app.log"),
        sourcetype: own("sourcetype", "app"),
    };
    let pairs = fields.iter().map(|(name, value)| format!("{name}=\"{}\"", value.replace('"', "'")));
    let text = words.into_iter().chain(pairs).collect::<Vec<_>>().join(" ");
    let mut batch = EventBatch { index_time: NOW, metas: vec![meta], ..EventBatch::default() };
    batch.push(text.as_bytes(), NOW - NS_PER_SEC, 0);
    batch
}

/// Fields that a `map` inserts into its searches.
fn mapped_fields(stages: &[Stage]) -> Vec<String> {
    let texts = stages.iter().filter_map(|stage| match &stage.command {
        Command::Map(MapCommand { search: MapSearch::Text(text, _), .. }) => Some(text),
        _ => None,
    });
    let names = texts.flat_map(|text| text.split('$')).filter(|name| !name.is_empty() && is_plain(name));
    names.map(str::to_owned).collect()
}

/// True if `name=value` is parsed as a comparison of this field.
fn is_plain(name: &str) -> bool {
    name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Collects the fields and words that an event needs to satisfy a condition; of several alternatives, only the first.
fn collect_requirements(expr: &SearchExpr, fields: &mut BTreeMap<String, String>, words: &mut Vec<String>) {
    let value = |text: &str| {
        let text = text.replace('*', "");
        if text.is_empty() { DEFAULT_VALUE.to_owned() } else { text }
    };
    match expr {
        SearchExpr::And(parts) => parts.iter().for_each(|part| collect_requirements(part, fields, words)),
        SearchExpr::Or(parts) => parts.iter().take(1).for_each(|part| collect_requirements(part, fields, words)),
        SearchExpr::Keyword(pattern) | SearchExpr::Term(pattern) | SearchExpr::Case(pattern) => {
            words.push(value(&pattern.text));
        }
        SearchExpr::Compare { field, op, value: asked, .. } if is_plain(&field.text) => {
            let wanted = match op {
                CompareOp::Eq | CompareOp::Le | CompareOp::Ge => value(&asked.text),
                CompareOp::Gt => format!("{}9", value(&asked.text)),
                CompareOp::Ne | CompareOp::Lt => format!("-{}", value(&asked.text)),
            };
            fields.insert(field.text.clone(), wanted);
        }
        SearchExpr::In { field, values } if is_plain(&field.text) => {
            let wanted = values.first().map_or_else(|| DEFAULT_VALUE.to_owned(), |asked| value(&asked.text));
            fields.insert(field.text.clone(), wanted);
        }
        SearchExpr::Indexed { field, value: asked } => {
            fields.insert(field.text.clone(), value(&asked.text));
        }
        _ => {}
    }
}

/// Stand-ins for a search's dependencies.
struct StandIns {
    needs: Dependencies,
    /// Words of the search that contain dots: they may name fields of data model objects.
    words: BTreeSet<String>,
}

/// An in-memory store without buckets.
struct NoBuckets(MemoryStore);

impl SnapshotSource for NoBuckets {
    fn snapshot(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Snapshot, StoreError> {
        SnapshotSource::snapshot(&self.0, indexes, range)
    }

    fn buckets(&self, _: &IndexSelector, _: &TimeRange) -> Result<Option<Vec<BucketListing>>, StoreError> {
        Ok(Some(Vec::new()))
    }

    fn store_events(&self, events: EventBatch) -> Result<(), Fault> {
        SnapshotSource::store_events(&self.0, events)
    }
}

/// Jobs have no rows, and endpoints have no entries.
impl NodeSource for StandIns {
    fn entries(&self, _: &str, _: &Permissions) -> Result<Option<Vec<NodeEntry>>, Fault> {
        Ok(Some(Vec::new()))
    }

    fn job(&self, _: &str, _: &Permissions) -> Result<Option<JobResult>, Fault> {
        Ok(Some(JobResult { rows: Vec::new(), events: true, messages: Vec::new(), is_partial: false }))
    }

    fn saved_job(&self, _: &str, _: usize, _: &Permissions) -> Option<String> {
        Some(DEFAULT_VALUE.to_owned())
    }

    fn history(&self, _: &Permissions) -> Option<Vec<NodeEntry>> {
        Some(Vec::new())
    }
}

/// A custom command's program that returns its rows unchanged.
struct EchoProgram {
    makes_rows: bool,
}

impl CommandSource for StandIns {
    fn start(&self, _: &str, is_first: bool) -> Result<Box<dyn CommandProcess>, Fault> {
        Ok(Box::new(EchoProgram { makes_rows: is_first }))
    }

    /// Every alert action exists, but none is run.
    fn check_alert(&self, _: &str) -> Result<(), Fault> {
        Ok(())
    }
}

impl CommandProcess for EchoProgram {
    fn exchange(&mut self, chunk: &CommandChunk, _: &dyn Fn() -> bool) -> Result<CommandChunk, Fault> {
        let metadata: serde_json::Value =
            serde_json::from_str(&chunk.metadata).map_err(|error| Fault::bug(error.to_string()))?;
        let answer = match metadata["action"] == "getinfo" {
            true => json!({ "type": "reporting", "generating": self.makes_rows, "finished": false }),
            false => json!({ "finished": self.makes_rows || metadata["finished"] == true }),
        };
        Ok(CommandChunk { metadata: answer.to_string(), body: chunk.body.clone() })
    }
}

impl LookupSource for StandIns {
    fn table(&self, name: &str) -> Result<Option<LookupTable>, Fault> {
        let columns: Vec<&str> = match self.needs.columns.get(name) {
            Some(columns) if !columns.is_empty() => columns.iter().map(String::as_str).collect(),
            _ => vec!["key", "value"],
        };
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let header = columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(",");
        let row = vec![DEFAULT_VALUE; columns.len()].join(",");
        Ok(Some(LookupTable::of_csv(format!("{header}\n{row}\n"))))
    }

    fn names(&self) -> Vec<String> {
        self.needs.lookups.iter().cloned().collect()
    }

    fn write(
        &self,
        _: &str,
        _: Option<quarry_engine::TableContext>,
        _: quarry_engine::FillTable<'_>,
    ) -> Result<(), Fault> {
        Ok(())
    }

    fn model(&self, _: &str, _: bool) -> Result<Option<Vec<u8>>, Fault> {
        quarry_engine::empty_model().map(Some)
    }

    fn write_model(&self, _: &str, _: bool, _: &[u8]) -> Result<(), Fault> {
        Ok(())
    }

    fn remove_model(&self, _: &str, _: bool) -> Result<bool, Fault> {
        Ok(true)
    }
}

impl KnowledgeSource for StandIns {
    fn data_model(&self, name: &str) -> Result<Option<String>, Fault> {
        if !self.needs.data_models.contains(name) || quarry_engine::has_bundled_model(name) {
            return Ok(None);
        }
        let mut objects: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::from([(name, BTreeSet::new())]);
        objects.extend(self.needs.objects.iter().map(|object| (object.as_str(), BTreeSet::new())));
        for word in &self.words {
            if let Some((object, field)) = word.rsplit_once('.') {
                let object = object.rsplit('.').next().unwrap_or(object);
                objects.entry(object).or_default().insert(field);
                objects.entry(field).or_default();
            }
        }
        let objects: Vec<_> = objects
            .into_iter()
            .filter(|(object, _)| !object.is_empty())
            .map(|(object, fields)| {
                let fields: Vec<_> = fields.into_iter().map(|field| json!({ "fieldName": field })).collect();
                json!({ "objectName": object, "parentName": "BaseEvent", "constraints": [{ "search": "*" }],
                    "fields": fields, "calculations": [] })
            })
            .collect();
        Ok(Some(json!({ "modelName": name, "objects": objects }).to_string()))
    }

    fn data_models(&self) -> Vec<String> {
        self.needs.data_models.iter().cloned().collect()
    }

    fn table_rule(&self, _: &str) -> Option<BTreeMap<String, String>> {
        Some(BTreeMap::from([
            ("header.linecount".to_owned(), "1".to_owned()),
            ("body.linecount".to_owned(), DEFAULT_VALUE.to_owned()),
        ]))
    }

    fn macro_definition(&self, _: &str, arguments: usize) -> Option<Macro> {
        // Only macros inside a `map` search have not been expanded yet. They usually stand among search words, so `*`
        // is a valid definition.
        let arguments = (1..=arguments).map(|number| format!("argument_{number}")).collect();
        Some(Macro { arguments, definition: "*".to_owned(), ..Macro::default() })
    }

    fn transaction_type(&self, _: &str) -> Option<BTreeMap<String, String>> {
        Some(BTreeMap::new())
    }

    fn saved_search(&self, name: &str) -> Option<String> {
        self.needs.saved_searches.contains(name).then(|| "| makeresults".to_owned())
    }

    fn saved_searches(&self) -> Vec<String> {
        self.needs.saved_searches.iter().cloned().collect()
    }
}
