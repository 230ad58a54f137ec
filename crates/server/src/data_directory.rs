//! A data directory opened in this process: its configuration, and the settings of inputs and searches derived from it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use quarry_apps::{read_apps, read_configuration, read_readable, read_view, read_with_private};
use quarry_conf::{
    ConfSource, ConfWarning, Layers, Namespace, PropsResolver, Readable, Reader, ServerSettings, View, missing_rules,
};
use quarry_engine::{DeletionRecord, IngestExpressions};
use quarry_event::{EventBatch, TimeNs};
use quarry_ingest::{DeletionRequest, IngestError, deletion_on_record};
use quarry_inputs::{FilePosition, InputSettings, Sink, SinkError};
use quarry_programs::CustomCommands;
use quarry_search::{JobStore, NodeIdentity, SearchSettings, Visibility, remove_orphaned_spills};
use quarry_stdx::{Fault, SharedClock, SystemClock, log, private_file};
use quarry_store::{MemoryStore, Store};

use crate::failure::Failure;
use crate::{identity, zone};

/// File with the configuration errors reported last, relative to the data directory.
const REPORTED_FAULTS: &str = "run/told_faults";

/// Time at which the process first read the configuration of a data directory, shown as the start time of the process.
static STARTED: OnceLock<TimeNs> = OnceLock::new();

/// Configuration of a data directory, as used by verbs.
pub(crate) struct Settings {
    pub(crate) layers: Layers,
    /// The namespace's view that `layers` are restricted to, if any.
    pub(crate) view: Option<Arc<View>>,
    /// User whose private objects are visible to searches in addition to the objects of all apps; only set without a
    /// view.
    pub(crate) own: Option<Namespace>,
    /// Readable objects of apps; `layers` contain nothing else.
    pub(crate) readable: Arc<Readable>,
    pub(crate) props: Arc<PropsResolver>,
    pub(crate) clock: SharedClock,
}

impl Settings {
    /// The configuration of a data directory. The first command that sees an error reports it; later commands do not
    /// report it again as long as the error persists.
    pub(crate) fn of_data_dir(data_dir: &Path) -> Settings {
        let settings = Settings::of_data_dir_quietly(data_dir);
        settings.report_faults(data_dir, false);
        settings
    }

    /// Like [`Settings::of_data_dir`] for a server, which reports errors at each start.
    pub(crate) fn for_server(data_dir: &Path) -> Settings {
        let settings = Settings::of_data_dir_quietly(data_dir);
        settings.report_faults(data_dir, true);
        settings
    }

    /// Errors in the stanza of a sourcetype in props.conf.
    pub(crate) fn sourcetype_faults(&self, sourcetype: &str) -> Vec<String> {
        let is_of_it =
            |warning: &&ConfWarning| warning.stanza == sourcetype && Path::new(&*warning.file).ends_with("props.conf");
        self.layers.warnings().iter().filter(is_of_it).map(ToString::to_string).collect()
    }

    /// Reports the errors that were not reported before, or all errors if `again` is set; returns the reported errors.
    pub(crate) fn report_faults(&self, data_dir: &Path, again: bool) -> Vec<String> {
        let faults = self.faults();
        let (file, text) = (data_dir.join(REPORTED_FAULTS), faults.join("\n"));
        let reported = std::fs::read_to_string(&file).unwrap_or_default();
        if (faults.is_empty() && reported.is_empty()) || (reported == text && !again) {
            return Vec::new();
        }
        let known: BTreeSet<&str> = reported.lines().filter(|_| !again).collect();
        let fresh: Vec<String> = faults.iter().filter(|fault| !known.contains(fault.as_str())).cloned().collect();
        fresh.iter().for_each(log::warning);
        if !fresh.is_empty() {
            log::note("`quarry btool check` lists all faults of the configuration; other commands report each once");
        }
        // If the file cannot be written, the errors are reported again next time.
        if data_dir.is_dir() {
            drop(private_file::write(&file, &text));
        }
        fresh
    }

    /// Errors of the configuration without duplicates.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let missing = missing_rules(&self.layers);
        let warnings = self.layers.warnings().iter().map(ToString::to_string);
        let all = warnings.chain(missing.iter().map(ToString::to_string));
        all.filter(|fault| seen.insert(fault.clone())).collect()
    }

    /// Like [`Settings::of_data_dir`], but reports no errors: they were reported when data was added, and `btool` lists
    /// them.
    pub(crate) fn of_data_dir_quietly(data_dir: &Path) -> Settings {
        Settings::of(read_configuration(data_dir))
    }

    /// The configuration visible to a namespace; fails if its app does not exist.
    pub(crate) fn for_namespace(data_dir: &Path, namespace: Namespace) -> Result<Settings, Fault> {
        Settings::for_reader(data_dir, namespace, Readable::unrestricted())
    }

    fn for_reader(data_dir: &Path, namespace: Namespace, readable: Readable) -> Result<Settings, Fault> {
        let (layers, view) = read_view(data_dir, namespace, &readable)?;
        Ok(Settings { view: Some(Arc::new(view)), readable: Arc::new(readable), ..Settings::of(layers) })
    }

    /// The configuration for the searches of `reader`; fails if the app of `visibility` does not exist.
    pub(crate) fn for_visibility(data_dir: &Path, visibility: &Visibility, reader: &Reader) -> Result<Settings, Fault> {
        let readable = read_readable(data_dir, reader);
        let layers = match visibility {
            Visibility::Apps => read_apps(data_dir, &readable),
            Visibility::AppsAndOwn(user) => read_with_private(data_dir, user, &readable),
            Visibility::Namespace(namespace) => return Settings::for_reader(data_dir, namespace.clone(), readable),
        };
        Ok(Settings { own: visibility.private_namespace(), readable: Arc::new(readable), ..Settings::of(layers) })
    }

    /// The configuration for a search, restricted to its namespace if it has one.
    pub(crate) fn for_search(data_dir: &Path, namespace: Option<Namespace>) -> Result<Settings, Failure> {
        match namespace {
            None => Ok(Settings::of_data_dir_quietly(data_dir)),
            Some(namespace) => {
                Settings::for_namespace(data_dir, namespace).map_err(|fault| Failure::NoApp(fault.to_string()))
            }
        }
    }

    /// The configuration of a forwarder's data directory; errors are reported.
    pub(crate) fn for_forwarder(data_dir: &Path) -> Settings {
        let Settings { layers, clock, .. } = Settings::for_server(data_dir);
        let expressions = IngestExpressions::new(zone::machine(), clock.now_ns().cast_unsigned());
        let props = PropsResolver::new(&layers)
            .with_expressions(Arc::new(expressions))
            .with_zone(zone::machine())
            .for_forwarder();
        Settings { layers, view: None, own: None, readable: Arc::default(), props: Arc::new(props), clock }
    }

    fn of(layers: Layers) -> Settings {
        let clock = SystemClock::shared();
        let expressions = IngestExpressions::new(zone::machine(), clock.now_ns().cast_unsigned());
        let props = PropsResolver::new(&layers).with_expressions(Arc::new(expressions)).with_zone(zone::machine());
        Settings { layers, view: None, own: None, readable: Arc::default(), props: Arc::new(props), clock }
    }

    /// This configuration with another conf file that overrides all others.
    pub(crate) fn overridden_by(&self, source: &ConfSource) -> Settings {
        Settings::of(self.layers.overridden_by(source))
    }

    /// Settings of a node's inputs.
    pub(crate) fn inputs(&self) -> InputSettings {
        InputSettings {
            layers: self.layers.clone(),
            props: Arc::clone(&self.props),
            clock: self.clock.clone(),
            host: host_name(),
            zone: zone::machine(),
            descriptors: quarry_stdx::descriptors::soft_limit(),
        }
    }

    /// Returns an error if an index is invalid or disabled.
    pub(crate) fn check_index(&self, index: &str) -> Result<(), Fault> {
        self.props.indexes().check(index)
    }

    /// Number of pipeline sets.
    pub(crate) fn pipeline_sets(&self) -> usize {
        ServerSettings::new(&self.layers).parallel_ingestion_pipelines
    }

    /// Opens the stored results of a data directory.
    pub(crate) fn open_job_store(&self, data_dir: &Path) -> JobStore {
        JobStore::new(data_dir, &self.layers, self.clock.clone())
    }

    /// Settings of searches that read files without adding them; uses the knowledge objects of the data directory, if
    /// it exists.
    pub(crate) fn in_place_search_settings(&self, data_dir: &Path) -> SearchSettings {
        let data_dir = Some(data_dir).filter(|folder| folder.is_dir());
        SearchSettings { in_place: true, ..self.search_settings(data_dir) }
    }

    /// Settings of searches over a data directory.
    pub(crate) fn search_settings(&self, data_dir: Option<&Path>) -> SearchSettings {
        let host = host_name();
        let started = *STARTED.get_or_init(|| self.clock.now_ns());
        let identity = NodeIdentity { guid: data_dir.and_then(identity::read).unwrap_or_default(), started };
        let commands = CustomCommands::new(&self.layers, data_dir, (self.view.as_ref(), &self.readable), &host);
        SearchSettings {
            layers: self.layers.clone(),
            view: self.view.clone(),
            own: self.own.clone(),
            readable: Arc::clone(&self.readable),
            props: Arc::clone(&self.props),
            clock: self.clock.clone(),
            zone: zone::machine(),
            host,
            identity,
            data_dir: data_dir.map(Path::to_owned),
            in_place: false,
            commands: Some(Arc::new(commands)),
            record_deletion,
            rest: Arc::default(),
            files: None,
        }
    }
}

/// Creates the audit event of a deletion.
fn record_deletion(user: &str, record: &DeletionRecord<'_>, host: &str, now_ns: i64) -> EventBatch {
    let DeletionRecord { sid, search, events } = *record;
    deletion_on_record(&DeletionRequest { user, sid, search, events }, host, now_ns, &zone::machine())
}

/// Opens the store of `data_dir` for adding, creating the folder if missing.
pub(crate) fn open_to_add(data_dir: &Path, settings: &Settings) -> Result<Arc<Store>, Failure> {
    let store = quarry_ingest::open_to_add(data_dir, &settings.inputs(), &environment_variables())?;
    remove_orphaned_spills(data_dir);
    store.report_upload_waits(report_upload_wait);
    Ok(store)
}

/// Like [`open_to_add`] for a server, which merges buckets in the background.
pub(crate) fn open_to_serve(data_dir: &Path, settings: &Settings) -> Result<Arc<Store>, Failure> {
    let store = quarry_ingest::open_to_serve(data_dir, &settings.inputs(), &environment_variables())?;
    remove_orphaned_spills(data_dir);
    store.report_upload_waits(report_upload_wait);
    Ok(store)
}

/// Reports that a command has done its work but waits for uploads.
fn report_upload_wait() {
    log::info(
        "waiting for requests to a volume to end; what is not uploaded stays on this disk, and a later command or server \
         uploads it",
    );
}

/// Opens an existing store for writing.
pub(crate) fn open_existing(data_dir: &Path, settings: &Settings) -> Result<Arc<Store>, IngestError> {
    let store = quarry_ingest::open_existing(data_dir, &settings.inputs(), &environment_variables())?;
    store.report_upload_waits(report_upload_wait);
    Ok(store)
}

/// Opens an existing store for reading.
pub(crate) fn open_read_only(data_dir: &Path, settings: &Settings) -> Result<Arc<Store>, IngestError> {
    quarry_ingest::open_read_only(data_dir, &settings.layers, &settings.clock, &environment_variables())
}

/// The environment variables that are UTF-8. As with the tools of AWS and PostgreSQL, variables may contain access keys
/// and passwords, and server.conf may name such a variable.
pub(crate) fn environment_variables() -> Vec<(String, String)> {
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    std::env::vars_os().filter_map(text).collect()
}

/// Name of this machine.
pub(crate) fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

/// Sink into an in-memory store, which has no file positions.
pub(crate) struct MemorySink<'a>(pub(crate) &'a MemoryStore);

impl Sink for MemorySink<'_> {
    fn positions(&mut self, _: &str, _: &[u8]) -> Result<Vec<FilePosition>, SinkError> {
        Ok(Vec::new())
    }

    fn accept(&mut self, batch: EventBatch, _: Option<FilePosition>) -> Result<(), SinkError> {
        Ok(self.0.append(batch)?)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}
