//! Storage of data model summaries in `datamodel_summary` of the data directory: one folder for each object and
//! definition, with one file for each slab.
//!
//! A summary is found by its file name alone, and may be deleted at any time: where a summary is missing, searches read
//! the events. The file `status.json` contains the result of the last building round, for `rest` and `quarry datamodel
//! status`.
//!
//! Not here: the format of a summary (engine), and the schedule of building ([`builder`]).

mod builder;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use jiff::tz::TimeZone;
use quarry_apps::{LookupFiles, Lookups};
use quarry_blob::{BlobError, BlobStore, DirectoryStore};
use quarry_bucket::ReadAt;
use quarry_collections::Collections;
use quarry_conf::{AccelerationSettings, DataModelsConf, Layers, Transforms};
use quarry_engine::{Acceleration, LookupSource, SummaryFile, SummaryReport, SummaryStore};
use quarry_event::TimeNs;
use quarry_event::time::{NS_PER_SEC, parse_time};
use quarry_stdx::Fault;
use quarry_stdx::number::f64_of;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub use builder::{BuilderSignal, CurrentService, SummaryBuilder, start};

/// Folder of the summaries, relative to the data directory.
const FOLDER: &str = "datamodel_summary";
/// File extension of summaries.
const EXTENSION: &str = ".summary";
/// File with the result of the last building round.
const STATUS: &str = "status.json";
/// File extension of incomplete files, which a crash may leave.
const INCOMPLETE_EXTENSION: &str = ".unfinished";

/// Settings of props.conf that define no search-time fields and therefore do not affect summaries.
const INDEX_TIME_SETTINGS: [&str; 34] = [
    "ADD_EXTRA_TIME_FIELDS",
    "ANNOTATE_PUNCT",
    "BREAK_ONLY_BEFORE",
    "BREAK_ONLY_BEFORE_DATE",
    "CHARSET",
    "DATETIME_CONFIG",
    "DETERMINE_TIMESTAMP_DATE_WITH_SYSTEM_TIME",
    "EVENT_BREAKER",
    "EVENT_BREAKER_ENABLE",
    "LEARN_SOURCETYPE",
    "LINE_BREAKER",
    "LINE_BREAKER_LOOKBEHIND",
    "MAX_DAYS_AGO",
    "MAX_DAYS_HENCE",
    "MAX_DIFF_SECS_AGO",
    "MAX_DIFF_SECS_HENCE",
    "MAX_EVENTS",
    "MAX_TIMESTAMP_LOOKAHEAD",
    "MUST_BREAK_AFTER",
    "MUST_NOT_BREAK_AFTER",
    "MUST_NOT_BREAK_BEFORE",
    "NO_BINARY_CHECK",
    "SEDCMD-",
    "SEGMENTATION",
    "SHOULD_LINEMERGE",
    "TIME_FORMAT",
    "TIME_PREFIX",
    "TRANSFORMS-",
    "TRUNCATE",
    "TZ",
    "TZ_ALIAS",
    "category",
    "description",
    "pulldown_type",
];

/// The summaries of a data directory.
pub struct ModelSummaries {
    layers: Layers,
    folder: DirectoryStore,
    lookups: Lookups,
    /// Digest of the search-time settings in `layers`.
    settings: String,
    /// Tables named by `LOOKUP-` settings.
    tables: BTreeSet<String>,
    zone: TimeZone,
    /// Name of the last unusable summary, and the reason.
    last_fault: Mutex<Option<(String, String)>>,
}

impl ModelSummaries {
    /// The summaries of `data_dir` that are valid for these settings and lookup `files`. `zone` applies to times in
    /// datamodels.conf.
    pub fn new(layers: &Layers, data_dir: &Path, files: LookupFiles, zone: TimeZone) -> ModelSummaries {
        let lookups = Lookups {
            files,
            transforms: Arc::new(Transforms::new(layers)),
            collections: Some(Collections::of_data_dir(data_dir)),
            addresses: None,
            dispatch: None,
        };
        let (settings, tables) = search_time_digest(layers);
        ModelSummaries {
            layers: layers.clone(),
            folder: DirectoryStore::open_existing(&data_dir.join(FOLDER)),
            lookups,
            settings,
            tables,
            zone,
            last_fault: Mutex::default(),
        }
    }

    /// Names of the models that are accelerated.
    pub fn models(&self) -> Vec<String> {
        DataModelsConf::new(&self.layers).accelerated()
    }

    /// Acceleration settings of a model.
    pub fn settings_of(&self, model: &str) -> AccelerationSettings {
        DataModelsConf::new(&self.layers).acceleration(model).unwrap_or_default()
    }

    /// Name of the last unusable summary, and the reason; returned only once.
    pub fn take_fault(&self) -> Option<(String, String)> {
        self.last_fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Removes all summaries that are not in `names`, and leftovers of a crash. Returns the number of removed files.
    pub fn remove_all_except(&self, names: &BTreeSet<String>) -> Result<usize, BlobError> {
        let root = self.folder.path("");
        if !root.is_dir() {
            return Ok(0);
        }
        let mut removed = 0;
        for name in self.folder.list()? {
            if name.ends_with(EXTENSION) && !names.contains(&name) {
                self.folder.delete(&name)?;
                removed += 1;
            }
        }
        for folder in std::fs::read_dir(&root).into_iter().flatten().flatten().map(|entry| entry.path()) {
            for file in std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
                let is_leftover = file.to_string_lossy().ends_with(INCOMPLETE_EXTENSION);
                // The next round tries again to remove the file.
                if is_leftover && std::fs::remove_file(&file).is_ok() {
                    removed += 1;
                }
            }
            // This fails, as intended, if the folder is not empty.
            drop(std::fs::remove_dir(&folder));
        }
        Ok(removed)
    }

    /// Removes the summaries in these folders; returns their number.
    pub fn remove_folders(&self, folders: &BTreeSet<String>) -> Result<usize, BlobError> {
        if !self.folder.path("").is_dir() {
            return Ok(0);
        }
        let is_inside = |name: &String| name.split_once('/').is_some_and(|(folder, _)| folders.contains(folder));
        let names: Vec<String> = self.folder.list()?.into_iter().filter(is_inside).collect();
        names.iter().try_for_each(|name| self.folder.delete(name))?;
        Ok(names.len())
    }

    /// Writes the result of a building round.
    pub fn write_status(&self, status: &Value) -> Result<(), BlobError> {
        self.folder.put(STATUS, status.to_string().as_bytes())
    }

    /// The result of the last building round, one row for each object; empty before the first round.
    pub fn status(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path(STATUS)).unwrap_or_default();
        let read: Option<Value> = serde_json::from_str(&text).ok();
        read.and_then(|value| value.as_array().cloned()).unwrap_or_default()
    }

    /// Time from which events are summarised, and time from which missing summaries are built. An invalid time sets no
    /// limit; the builder reports it.
    pub fn bounds(&self, settings: &AccelerationSettings, now: TimeNs) -> (Option<TimeNs>, Option<TimeNs>) {
        let instant = |text: &Option<String>| {
            let text = text.as_deref().filter(|text| *text != "0")?;
            parse_time(text, now, &self.zone).ok()
        };
        (instant(&settings.earliest_time), instant(&settings.backfill_time))
    }

    /// Messages about invalid times in a model's settings.
    fn invalid_time_messages(&self, model: &str, settings: &AccelerationSettings, now: TimeNs) -> Vec<String> {
        let times = [("earliest_time", &settings.earliest_time), ("backfill_time", &settings.backfill_time)];
        let wrong = times.into_iter().filter_map(|(key, text)| {
            let text = text.as_deref()?;
            let error = parse_time(text, now, &self.zone).err()?;
            Some(format!(
                "datamodels.conf [{model}] acceleration.{key} = {text}: {error}; events of all times are summarised"
            ))
        });
        wrong.collect()
    }
}

/// Rows of a model's report, one for each object.
pub fn status_rows(model: &str, report: &SummaryReport, now: TimeNs) -> Vec<Value> {
    let seconds = |time: Option<TimeNs>| time.map(|time| time.div_euclid(NS_PER_SEC));
    let row = |object: &quarry_engine::SummaryObject| {
        let complete = match object.slabs_total {
            0 => 1.0,
            total => f64_of(object.slabs_done) / f64_of(total),
        };
        json!({
            "model": model,
            "object": object.object,
            "complete": if object.folder.is_empty() { 0.0 } else { (complete * 10_000.0).round() / 10_000.0 },
            "slabs_done": object.slabs_done,
            "slabs": object.slabs_total,
            "events": object.events,
            "rows": object.rows,
            "bytes": object.bytes,
            "earliest": seconds(object.earliest),
            "latest": seconds(object.latest),
            "folder": object.folder,
            "updated": now.div_euclid(NS_PER_SEC),
            "error": object.faults.first(),
        })
    };
    report.objects.iter().map(row).collect()
}

/// A digest of the settings that define search-time fields, and the tables that `LOOKUP-` names.
fn search_time_digest(layers: &Layers) -> (String, BTreeSet<String>) {
    let mut hasher = Sha256::new();
    let mut tables = BTreeSet::new();
    let is_past = |key: &str| {
        INDEX_TIME_SETTINGS.iter().any(|known| *known == key || known.ends_with('-') && key.starts_with(known))
    };
    for conf in ["multikv", "props", "transforms"] {
        let merged = layers.conf(conf);
        for stanza in merged.stanzas() {
            for (key, setting) in &stanza.settings {
                if conf == "props" && is_past(key) {
                    continue;
                }
                if key.starts_with("LOOKUP-") {
                    tables.extend(setting.value.split_whitespace().next().map(str::to_owned));
                }
                hasher.update(format!("{conf}\n{:?}\n{key:?}\n{:?}\n", stanza.name, setting.value));
            }
        }
    }
    let digest: [u8; 32] = hasher.finalize().into();
    (digest.iter().map(|byte| format!("{byte:02x}")).collect(), tables)
}

impl SummaryStore for ModelSummaries {
    fn acceleration(&self, model: &str, now: TimeNs) -> Option<Acceleration> {
        let settings = DataModelsConf::new(&self.layers).acceleration(model)?;
        Some(Acceleration { earliest: self.bounds(&settings, now).0 })
    }

    fn configuration(&self, tables: &BTreeSet<String>) -> Result<String, Fault> {
        let mut text = self.settings.clone();
        for name in tables.union(&self.tables) {
            let definition = self.lookups.transforms.lookup(name);
            let state = match definition.and_then(|definition| definition.collection.as_ref()) {
                Some(_) => match self.lookups.table(name) {
                    Ok(table) => format!("{:?}", table.map(|table| Sha256::digest(table.csv.as_bytes()))),
                    Err(fault) => fault.to_string(),
                },
                None => {
                    let file = definition.map_or(name.as_str(), |definition| &definition.filename);
                    format!("{:?}", self.lookups.files.version(file)?)
                }
            };
            text.push_str(&format!("\n{name:?} {state}"));
        }
        Ok(text)
    }

    fn open(&self, name: &str) -> Result<Option<Arc<dyn SummaryFile>>, Fault> {
        match self.folder.open(name) {
            Ok(file) => Ok(Some(Arc::new(OpenSummary(file)))),
            Err(BlobError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Fault> {
        Ok(self.folder.put(name, bytes)?)
    }

    fn report_unusable(&self, name: &str, why: &str) {
        let fault = (name.to_owned(), why.to_owned());
        self.last_fault.lock().unwrap_or_else(PoisonError::into_inner).replace(fault);
    }
}

struct OpenSummary(Arc<dyn ReadAt>);

impl SummaryFile for OpenSummary {
    fn bytes(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, length: usize) -> Result<Bytes, Fault> {
        self.0.read_at(offset, length).map_err(|error| Fault::unavailable(error.to_string()))
    }
}
