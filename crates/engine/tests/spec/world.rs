//! World of an example: its events in memory or in sealed buckets, its tables, its settings, and a fixed current time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, Int64Array, StringViewArray};
use arrow::record_batch::RecordBatch;
use jiff::tz::TimeZone;
use quarry_apps::{KnowledgeFiles, KnowledgeLocation};
use quarry_conf::{ConfSource, Layer, Layers, PropsResolver, Readable};
use quarry_engine::{
    Acceleration, AddressLocations, AlertCall, CommandSource, Engine, EngineOptions, JobResult, Location, LookupSource,
    LookupTable, ModelFile, NodeEntry, NodeSource, SearchRequest, SnapshotSource, SummaryFile, SummaryRequest,
    SummaryStore, TableTime,
};
use quarry_event::time::{NS_PER_SEC, parse_time};
use quarry_event::{EventBatch, TimeNs, TimeRange};
use quarry_pipeline::{Pipeline, PipelineContext, SourceInfo};
use quarry_stdx::ManualClock;
use quarry_store::{AppendRequest, IndexSelector, MemoryStore, Snapshot, Store, StoreError, StoreOptions};
use quarry_testworld::MemorySummary;
use tempfile::TempDir;

use crate::page::{Block, Example, read_settings};

/// 2026-11-20T15:00:00Z, the now of every example.
pub(crate) const NOW: TimeNs = 1_795_186_800 * NS_PER_SEC;

/// Sourcetype of events that name none: a line is an event, fields come from `name=value` and JSON.
const PLAIN_PROPS: &str = "[lines]\nSHOULD_LINEMERGE = false\n";

/// Events of a sealed slab: so few that an example's events lie in several.
const SLAB_EVENTS: usize = 2;

/// Storage of an example's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventStorage {
    /// In memory, all in one piece.
    InMemory,
    /// In sealed buckets of a data directory, two in each slab.
    Sealed,
    /// Like `Sealed`, but only on a volume.
    Far,
    /// Like `Sealed`, but on a volume of the S3 server at this port, without a cache.
    OnS3(u16),
    /// Like `Sealed`, with summaries of the data models.
    Summarised,
}

/// Alert actions of examples: `note` prints its input.
struct Actions;

impl CommandSource for Actions {
    fn check_alert(&self, name: &str) -> Result<(), quarry_stdx::Fault> {
        if name == "note" {
            Ok(())
        } else {
            Err(quarry_stdx::Fault::not_found(format!("there is no alert action {name}; did you mean note?")))
        }
    }

    fn send_alert(&self, call: AlertCall<'_>, _: &dyn Fn() -> bool) -> Result<Vec<String>, quarry_stdx::Fault> {
        let mut text = Vec::new();
        (call.write_rows)(&mut text)?;
        let rows = String::from_utf8(text).unwrap().trim_end().replace('\n', " / ");
        let reported = call.parameters.iter().map(|(name, value)| format!("{name} is {value}"));
        let first = call.first_row.iter().map(|(name, values)| format!("first {name} is {}", values.join("+")));
        let link = call.results_link.map(|link| format!("link is {link}"));
        let rows = format!("{} rows: {rows}", call.row_count);
        Ok(vec![std::iter::once(rows).chain(reported).chain(first).chain(link).collect::<Vec<_>>().join("; ")])
    }
}

/// A running search, or its error.
pub(crate) type SearchStart = Result<quarry_engine::Job, Vec<quarry_spl::Diagnostic>>;

/// Events and tables of an example.
pub(crate) struct World {
    batches: Vec<(String, EventBatch)>,
    tables: BTreeMap<String, LookupTable>,
    props: Arc<PropsResolver>,
    knowledge: KnowledgeFiles,
    /// Folder that the knowledge objects are read from.
    folder: TempDir,
    /// Names of the data models.
    models: Vec<String>,
}

impl World {
    /// Builds the world that the example describes.
    pub(crate) fn of(example: &Example) -> Result<World, String> {
        let own = example.props.as_ref().map(Block::text).unwrap_or_default();
        let transforms = example.transforms.as_ref().map(Block::text).unwrap_or_default();
        let tables = example.table_rules.as_ref().map(Block::text).unwrap_or_default();
        let files = [
            (Layer::SystemLocal, "multikv.conf", tables),
            (Layer::SystemDefault, "props.conf", PLAIN_PROPS.to_owned()),
            (Layer::SystemLocal, "props.conf", own),
            (Layer::SystemLocal, "transforms.conf", transforms),
        ];
        let sources = files.map(|(layer, file, text)| ConfSource { layer, app: None, file: file.to_owned(), text });
        let layers = Layers::new(sources);
        if let Some(warning) = layers.warnings().first() {
            return Err(format!("props: {warning:?}"));
        }
        let (knowledge, folder) = definitions_of(example)?;
        let mut world = World {
            batches: Vec::new(),
            tables: BTreeMap::new(),
            props: Arc::new(PropsResolver::new(&layers)),
            knowledge,
            folder,
            models: example.models.iter().filter_map(|block| block.settings.get("name").cloned()).collect(),
        };
        for block in &example.events {
            world.add_events(block)?;
        }
        for block in &example.tables {
            let name = block.settings.get("name").ok_or("a csv block needs name=")?;
            world.tables.insert(name.clone(), table_of(block)?);
        }
        Ok(world)
    }

    fn add_events(&mut self, block: &Block) -> Result<(), String> {
        let mut settings = block.settings.clone();
        let mut lines = block.lines.as_slice();
        if let Some(rest) = lines.first().and_then(|line| line.strip_prefix("# ")) {
            settings.extend(read_settings(rest));
            lines = &lines[1..];
        }
        if let Some(unknown) = settings
            .keys()
            .find(|key| !["sourcetype", "host", "source", "index", "time", "step"].contains(&key.as_str()))
        {
            return Err(format!("unknown setting {unknown} of events"));
        }
        let setting = |name: &str, default: &str| settings.get(name).cloned().unwrap_or_else(|| default.to_owned());
        let index = setting("index", "main");
        let info = SourceInfo {
            index: index.clone(),
            host: setting("host", "web-1"),
            host_is_fixed: false,
            source: setting("source", "/var/log/app.log"),
            sourcetype: Some(setting("sourcetype", "lines")),
        };
        let context = PipelineContext { now: NOW, zone: Some(TimeZone::UTC), modified: None, orders: None };
        let mut pipeline = Pipeline::new(info, &self.props, context).map_err(|error| error.to_string())?;
        let mut batch = EventBatch::default();
        pipeline.push((lines.join("\n") + "\n").as_bytes(), &mut batch);
        pipeline.finish(&mut batch);
        if let Some(time) = settings.get("time") {
            let step: i64 = setting("step", "0").parse().map_err(|_| "step= is a number of seconds")?;
            let first = time.parse::<jiff::Timestamp>().map_err(|error| error.to_string())?.as_second() * NS_PER_SEC;
            for (row, time) in batch.time.iter_mut().enumerate() {
                *time = first + row as i64 * step * NS_PER_SEC;
            }
        }
        self.batches.push((index, batch));
        Ok(())
    }

    /// Starts the example's search, which reads the definitions in the folder.
    pub(crate) fn start(self, search: &Block, kept: EventStorage) -> Result<(SearchStart, TempDir), String> {
        let time = |name: &str| -> Result<Option<TimeNs>, String> {
            let Some(text) = search.settings.get(name) else { return Ok(None) };
            parse_time(text, NOW, &TimeZone::UTC).map(Some).map_err(|error| error.to_string())
        };
        let range = TimeRange { earliest: time("earliest")?, latest: time("latest")? };
        let request = SearchRequest { range, now: NOW, ..quarry_testworld::request(&search.text()) };
        let tables = Arc::new(Tables(Mutex::new(self.tables)));
        let engine = Engine::new(&EngineOptions::default(), Arc::clone(&self.props), tables);
        let engine = engine.map_err(|error| error.to_string())?.with_knowledge(Arc::new(self.knowledge));
        let mut engine = engine.with_node(Arc::new(Node)).with_commands(Arc::new(Actions));
        let models = self.models.clone();
        let source: Arc<dyn SnapshotSource> = match kept {
            EventStorage::InMemory => Arc::new(Memory::of(self.batches).map_err(|error| error.to_string())?),
            EventStorage::Sealed | EventStorage::Summarised | EventStorage::Far | EventStorage::OnS3(_) => {
                Arc::new(SealedStore::of(self.batches, kept)?)
            }
        };
        if kept == EventStorage::Summarised {
            engine = engine.with_summaries(Arc::new(Summaries::default()));
            for model in models {
                let (now, zone) = (NOW, TimeZone::UTC);
                let indexes = request.default_indexes.clone();
                let wanted = SummaryRequest {
                    model,
                    now,
                    zone,
                    default_indexes: indexes,
                    earliest: None,
                    backfill: None,
                    build: true,
                };
                // A model that cannot be read is reported by the search.
                drop(engine.summarise(&wanted, Arc::clone(&source), &mut || true));
            }
        }
        Ok((engine.start(request, source), self.folder))
    }
}

fn time_of(table: &mut LookupTable) -> &mut TableTime {
    let anywhere = || TableTime { column: "time".to_owned(), format: "%s".to_owned(), offsets: (i64::MAX, 0) };
    table.time.get_or_insert_with(anywhere)
}

fn table_of(block: &Block) -> Result<LookupTable, String> {
    let mut table = LookupTable::of_csv(block.text() + "\n");
    for (name, value) in &block.settings {
        match name.as_str() {
            "name" => {}
            "case_sensitive_match" => table.case_sensitive = value == "true",
            "max_matches" => table.max_matches = value.parse().map_err(|_| "max_matches= is a number")?,
            "default_match" => table.default_match = Some(value.clone()),
            "min_matches" => table.min_matches = value.parse().map_err(|_| "min_matches= is a number")?,
            "time_field" => time_of(&mut table).column.clone_from(value),
            "time_format" => time_of(&mut table).format.clone_from(value),
            "max_offset_secs" => {
                time_of(&mut table).offsets.0 = value.parse().map_err(|_| "max_offset_secs= is a number")?;
            }
            "network" => table.network_columns = value.split(',').map(str::to_owned).collect(),
            "wildcard" => table.wildcard_columns = value.split(',').map(str::to_owned).collect(),
            other => return Err(format!("unknown setting {other} of a csv block")),
        }
    }
    Ok(table)
}

/// Summaries in memory; every model is accelerated.
#[derive(Default)]
struct Summaries(Mutex<BTreeMap<String, Vec<u8>>>);

impl SummaryStore for Summaries {
    fn acceleration(&self, _: &str, _: TimeNs) -> Option<Acceleration> {
        Some(Acceleration::default())
    }

    fn configuration(&self, _: &BTreeSet<String>) -> Result<String, quarry_stdx::Fault> {
        Ok(String::new())
    }

    fn open(&self, name: &str) -> Result<Option<Arc<dyn SummaryFile>>, quarry_stdx::Fault> {
        let bytes = self.0.lock().unwrap().get(name).cloned();
        Ok(bytes.map(|bytes| Arc::new(MemorySummary(bytes)) as Arc<dyn SummaryFile>))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), quarry_stdx::Fault> {
        self.0.lock().unwrap().insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn report_unusable(&self, name: &str, why: &str) {
        panic!("summary {name}: {why}");
    }
}

struct Memory(BTreeMap<String, MemoryStore>);

impl Memory {
    fn of(batches: Vec<(String, EventBatch)>) -> Result<Memory, StoreError> {
        let mut stores = BTreeMap::new();
        for (index, batch) in batches {
            stores.entry(index.clone()).or_insert_with(|| MemoryStore::new(&index)).append(batch)?;
        }
        Ok(Memory(stores))
    }
}

impl SnapshotSource for Memory {
    fn snapshot(&self, indexes: &IndexSelector, _range: &TimeRange) -> Result<Snapshot, StoreError> {
        let mut all = Snapshot::default();
        for (_, store) in self.0.iter().filter(|(name, _)| indexes.matches(name)) {
            all.segments.extend(store.snapshot().segments);
        }
        Ok(all)
    }

    fn store_events(&self, events: EventBatch) -> Result<(), quarry_stdx::Fault> {
        let index = events.metas.first().map(|meta| meta.index.to_string()).unwrap_or_default();
        let missing = || quarry_stdx::Fault::invalid("events cannot be stored here");
        Ok(self.0.get(&index).ok_or_else(missing)?.append(events)?)
    }
}

/// Examples whose events were uploaded to an S3 server, each below a prefix of its own.
static EXAMPLES_ON_S3: AtomicU64 = AtomicU64::new(0);

struct SealedStore {
    store: Arc<Store>,
    _folder: TempDir,
}

impl SealedStore {
    fn of(batches: Vec<(String, EventBatch)>, kept: EventStorage) -> Result<SealedStore, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let fill = || -> Result<Arc<Store>, StoreError> {
            let options = StoreOptions { slab_events: SLAB_EVENTS, sealers: 1, ..StoreOptions::at(folder.path()) };
            let options = match kept {
                EventStorage::Far => quarry_testworld::on_memory_volume(options),
                EventStorage::OnS3(port) => {
                    let number = EXAMPLES_ON_S3.fetch_add(1, Ordering::Relaxed);
                    quarry_testworld::on_s3(options, &format!("http://127.0.0.1:{port}"), &number.to_string())
                }
                _ => options,
            };
            let store = Store::open(options, ManualClock::shared(NOW))?;
            for (_, batch) in batches {
                store.append(AppendRequest { batch, checkpoint: None })?.wait()?;
            }
            store.seal_all()?;
            if matches!(kept, EventStorage::Far | EventStorage::OnS3(_)) {
                store.upload_all()?;
            }
            Ok(store)
        };
        Ok(SealedStore { store: fill().map_err(|error| error.to_string())?, _folder: folder })
    }
}

impl SnapshotSource for SealedStore {
    fn snapshot(&self, indexes: &IndexSelector, range: &TimeRange) -> Result<Snapshot, StoreError> {
        Ok(self.store.snapshot(indexes, range))
    }

    fn store_events(&self, events: EventBatch) -> Result<(), quarry_stdx::Fault> {
        let index = events.metas.first().map(|meta| meta.index.to_string()).unwrap_or_default();
        if !self.store.stats().iter().any(|stats| stats.index == index) {
            return Err(quarry_stdx::Fault::invalid("events cannot be stored here"));
        }
        SnapshotSource::store_events(self.store.as_ref(), events)
    }
}

/// Definitions of an example as in an installation: configuration, and a folder with the files of data models.
fn definitions_of(example: &Example) -> Result<(KnowledgeFiles, TempDir), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let models = folder.path().join("etc/apps/search/default/data/models");
    std::fs::create_dir_all(&models).map_err(|error| error.to_string())?;
    for block in &example.models {
        let name = block.settings.get("name").ok_or("a model block needs name=")?;
        std::fs::write(models.join(format!("{name}.json")), block.text()).map_err(|error| error.to_string())?;
    }
    let source = |block: &Option<Block>, file: &str| ConfSource {
        layer: Layer::SystemLocal,
        app: None,
        file: file.to_owned(),
        text: block.as_ref().map(Block::text).unwrap_or_default(),
    };
    let layers = Layers::new([
        source(&example.macros, "macros.conf"),
        source(&example.saved, "savedsearches.conf"),
        source(&example.event_types, "eventtypes.conf"),
        source(&example.tags, "tags.conf"),
        source(&example.table_rules, "multikv.conf"),
        source(&example.transaction_types, "transactiontypes.conf"),
    ]);
    Ok((KnowledgeFiles::new(&layers, KnowledgeLocation::Apps(folder.path(), None), &Readable::unrestricted()), folder))
}

/// Prefix of the names of models among tables.
const MODEL: &str = "model ";

struct Tables(Mutex<BTreeMap<String, LookupTable>>);

impl LookupSource for Tables {
    fn table(&self, name: &str) -> Result<Option<LookupTable>, quarry_stdx::Fault> {
        Ok(self.0.lock().unwrap().get(name).cloned())
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().keys().cloned().collect()
    }

    fn write(
        &self,
        name: &str,
        _: Option<quarry_engine::TableContext>,
        fill: quarry_engine::FillTable<'_>,
    ) -> Result<(), quarry_stdx::Fault> {
        let mut csv = Vec::new();
        fill(&mut csv)?;
        let csv = String::from_utf8(csv).unwrap();
        self.0.lock().unwrap().insert(name.to_owned(), LookupTable::of_csv(csv));
        Ok(())
    }

    fn dump_file(&self, _: &str, _: &str) -> Result<Box<dyn std::io::Write + Send>, quarry_stdx::Fault> {
        Ok(Box::new(std::io::sink()))
    }

    fn model(&self, name: &str, _: bool) -> Result<Option<Vec<u8>>, quarry_stdx::Fault> {
        let kept = self.0.lock().unwrap().get(&format!("{MODEL}{name}")).cloned();
        Ok(kept.map(|kept| kept.csv.as_bytes().to_vec()))
    }

    fn write_model(&self, name: &str, _: bool, bytes: &[u8]) -> Result<(), quarry_stdx::Fault> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        self.0.lock().unwrap().insert(format!("{MODEL}{name}"), LookupTable::of_csv(text));
        Ok(())
    }

    fn remove_model(&self, name: &str, _: bool) -> Result<bool, quarry_stdx::Fault> {
        Ok(self.0.lock().unwrap().remove(&format!("{MODEL}{name}")).is_some())
    }

    fn models(&self) -> Result<Vec<ModelFile>, quarry_stdx::Fault> {
        let file = |name: &str| ModelFile { name: name.to_owned(), app: "search".to_owned(), owner: None };
        Ok(self.0.lock().unwrap().keys().filter_map(|name| name.strip_prefix(MODEL)).map(file).collect())
    }

    fn address_locations(&self) -> Result<Option<Arc<dyn AddressLocations>>, quarry_stdx::Fault> {
        let table = self.0.lock().unwrap().get("places.mmdb").cloned();
        Ok(table.map(|table| -> Arc<dyn AddressLocations> { Arc::new(TableLocations(table.csv.to_string())) }))
    }
}

/// A table in place of a database: address, City, City in German, Country, its code, Region, lat, lon, Continent,
/// MetroCode, Timezone.
struct TableLocations(String);

impl AddressLocations for TableLocations {
    fn locate(&self, address: IpAddr, languages: &[String]) -> Result<Option<Location>, quarry_stdx::Fault> {
        let address = address.to_string();
        let Some(line) = self.0.lines().find(|line| line.split(',').next() == Some(&address)) else { return Ok(None) };
        let cell = |at: usize| line.split(',').nth(at).filter(|cell| !cell.is_empty()).map(str::to_owned);
        let asks = |language: &str| languages.iter().any(|asked| asked == language);
        Ok(Some(Location {
            city: cell(if asks("de") { 2 } else { 1 }),
            country: cell(if asks("code") { 4 } else { 3 }),
            region: cell(5),
            latitude: cell(6).and_then(|cell| cell.parse().ok()),
            longitude: cell(7).and_then(|cell| cell.parse().ok()),
            continent: cell(8),
            metro_code: cell(9).and_then(|cell| cell.parse().ok()),
            time_zone: cell(10),
        }))
    }
}

/// A node with two endpoints, one stored job and a search history.
struct Node;

fn entry(fields: &[(&str, &str)]) -> NodeEntry {
    fields.iter().map(|(name, value)| ((*name).to_owned(), vec![(*value).to_owned()])).collect()
}

impl NodeSource for Node {
    fn entries(&self, path: &str, _: &quarry_conf::Permissions) -> Result<Option<Vec<NodeEntry>>, quarry_stdx::Fault> {
        Ok(match path.split('?').next().unwrap_or(path) {
            "/services/server/info" => {
                Some(vec![entry(&[("title", "server-info"), ("serverName", "web-1"), ("version", "1.0.0")])])
            }
            "/services/data/indexes" => Some(vec![
                entry(&[("title", "main"), ("totalEventCount", "3"), ("disabled", "0")]),
                entry(&[("title", "summary"), ("totalEventCount", "0"), ("disabled", "0")]),
            ]),
            _ => None,
        })
    }

    fn endpoints(&self) -> Vec<String> {
        vec!["/services/data/indexes".to_owned(), "/services/server/info".to_owned()]
    }

    fn job(&self, sid: &str, _: &quarry_conf::Permissions) -> Result<Option<JobResult>, quarry_stdx::Fault> {
        let hosts: ArrayRef = Arc::new(StringViewArray::from(vec!["web-1", "web-2"]));
        let counts: ArrayRef = Arc::new(Int64Array::from(vec![3, 1]));
        let rows = RecordBatch::try_from_iter([("host", hosts), ("count", counts)]).unwrap();
        let messages = vec!["events were left out".to_owned()];
        Ok((sid == "1795186800.7").then(|| JobResult { rows: vec![rows], events: false, messages, is_partial: false }))
    }

    fn saved_job(&self, name: &str, offset: usize, _: &quarry_conf::Permissions) -> Option<String> {
        (name == "Hosts" && offset == 0).then(|| "1795186800.7".to_owned())
    }

    fn history(&self, _: &quarry_conf::Permissions) -> Option<Vec<NodeEntry>> {
        Some(vec![entry(&[
            ("sid", "1795186800.7"),
            ("search", "search * | stats count BY host"),
            ("event_count", "4"),
            ("_time", "1795186790"),
        ])])
    }
}
