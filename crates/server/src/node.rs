//! The node behind the REST interface: one open store, shared by all requests.
//!
//! Files of several requests are distributed over the pipeline sets of the store, each file to the least busy set.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use jiff::tz::TimeZone;
use quarry_api::{
    AddFile, CollectorToken, CollectorTokens, DiskSpace, ModularInput, ModularInputArgument, Node, NodeCondition,
    PreviewFile, PreviewText, ReceivedText, SearchLimits, TokenChange, TokenError, UPLOADS_FOLDER,
};
use quarry_conf::text::DEFAULT_STANZA;
use quarry_conf::{CollectionLimits, LimitSettings, Namespace, Permissions, Roles, ServerSettings};
use quarry_engine::Explanation;
use quarry_event::{EventBatch, TimeNs};
use quarry_ingest::{Ingest, WatchedFiles};
use quarry_inputs::Sink;
use quarry_inputs::file::{AddProgress, OneshotOptions, Progress, Rotation, WatchedFile, absolute_text, add_file};
use quarry_pipeline::{Pipeline, PipelineContext, PipelineError, SourceInfo};
use quarry_programs::{ModularInputKind, ModularInputKinds, SchemeArgument};
use quarry_search::jobs::FilePreview;
use quarry_search::summaries::BuilderSignal;
use quarry_search::{Namespaces, SearchService};
use quarry_stdx::Fault;
use quarry_store::IndexSelector;
use tokio::sync::Notify;

use crate::data_directory::{self, Settings};
use crate::live_inputs::{Effect, InputChanges};
use crate::restart::RestartSignal;
use crate::{add, bucket, disk_activity, port_connections, preview, prometheus, spl_explain, volume_verbs, zone};

/// Confs whose changes may concern inputs. A change of an app may concern everything, so it is handled separately
/// ([`CONF_OF_APPS`]).
const CONFS_OF_INPUTS: &[&str] = &["inputs", "props"];
/// The conf of the settings of apps, such as whether an app is enabled.
const CONF_OF_APPS: &str = "app";
/// Stanza of server.conf with the settings of the node as a whole.
const GENERAL: &str = "general";
/// Value of `host` that stands for the machine's name.
const DECIDED_AT_START: &str = "$decideOnStartup";
/// File of a catalog in SQLite, in the data directory.
const CATALOG_FILE: &str = "catalog.sqlite";

/// A running node.
pub(crate) struct LocalNode {
    /// The write side of the store.
    pub(crate) ingest: Arc<Ingest>,
    /// The configuration as last read. A pipeline keeps the configuration with which its input was started.
    settings: RwLock<Arc<Settings>>,
    data_dir: PathBuf,
    /// Search services, by namespace and viewer.
    namespaces: Namespaces,
    /// Notifies the builder of data model summaries of changes.
    pub(crate) summary_signal: Arc<BuilderSignal>,
    /// Tokens of the HTTP Event Collector.
    pub(crate) tokens: CollectorTokens,
    /// Kinds of modular inputs.
    modular_inputs: ModularInputKinds,
    /// Requested and applied changes of inputs.
    pub(crate) input_changes: Arc<InputChanges>,
    /// Watched files, set when inputs run.
    watched: OnceLock<WatchedFiles>,
    /// Number of files each pipeline set is adding.
    running: Mutex<Vec<usize>>,
    /// Start time.
    started: TimeNs,
    /// Address of the management port, once it is open.
    management: OnceLock<SocketAddr>,
    /// Requests to restart the server.
    pub(crate) restart: RestartSignal,
    /// Requests for a round of maintenance.
    pub(crate) maintenance_requested: Notify,
}

/// Bytes from the line `NAME: N kB` of a proc(5) file.
fn parse_kilobytes(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = value.and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0).saturating_mul(1 << 10)
}

impl LocalNode {
    /// A node over `ingest`, the write side of the store in `data_dir`.
    pub(crate) fn new(
        data_dir: &Path,
        ingest: Arc<Ingest>,
        settings: Arc<Settings>,
        namespaces: Namespaces,
    ) -> LocalNode {
        let running = Mutex::new(vec![0; settings.pipeline_sets()]);
        let (tokens, settings) = (CollectorTokens::new(data_dir), RwLock::new(settings));
        let started = ingest.settings.clock.now_ns();
        let (data_dir, modular_inputs) = (data_dir.to_owned(), ModularInputKinds::of_data_dir(data_dir));
        let (summary_signal, input_changes) = (Arc::default(), Arc::default());
        LocalNode {
            ingest,
            settings,
            data_dir,
            namespaces,
            summary_signal,
            tokens,
            modular_inputs,
            input_changes,
            watched: OnceLock::new(),
            running,
            started,
            management: OnceLock::new(),
            restart: RestartSignal::of_process(),
            maintenance_requested: Notify::new(),
        }
    }

    /// The configuration as last read.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records the address of the management port, which is opened once; returns it.
    pub(crate) fn set_management_address(&self, address: SocketAddr) -> SocketAddr {
        *self.management.get_or_init(|| address)
    }

    /// Records which files are watched; later calls have no effect.
    pub(crate) fn set_watched_files(&self, watched: WatchedFiles) {
        self.watched.get_or_init(|| watched);
    }

    /// The search service without a namespace, with the current configuration.
    pub(crate) fn search(&self) -> Result<Arc<SearchService>, Fault> {
        self.namespaces.service_of_apps(&Permissions::owner())
    }

    /// Applies a change that may concern any conf file, such as a change made on another node.
    pub(crate) fn record_file_change(&self) {
        self.namespaces.mark_all_changed();
        self.summary_signal.notify_configuration_changed();
        self.reread_settings();
        self.input_changes.apply_and_wait();
    }

    /// Applies edits of knowledge objects in these confs.
    pub(crate) fn record_edits(&self, confs: &BTreeSet<String>) {
        if !confs.is_empty() {
            for conf in confs {
                self.namespaces.mark_conf_changed(conf);
            }
            self.summary_signal.notify_configuration_changed();
            self.reread_settings();
        }
    }

    fn reread_settings(&self) {
        // The configuration is read under the lock, so that after two concurrent changes the version read last, which
        // contains both, is kept.
        let mut settings = self.settings.write().unwrap_or_else(PoisonError::into_inner);
        *settings = Arc::new(Settings::of_data_dir_quietly(&self.data_dir));
    }

    /// Chooses the least busy set.
    fn choose_set(&self) -> RunningFile<'_> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let least = running.iter_mut().enumerate().min_by_key(|(_, files)| **files);
        let set = least.map_or(0, |(set, files)| {
            *files += 1;
            set
        });
        RunningFile { node: self, set }
    }
}

/// A file being added by a set.
struct RunningFile<'a> {
    node: &'a LocalNode,
    set: usize,
}

impl Drop for RunningFile<'_> {
    fn drop(&mut self) {
        let mut running = self.node.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(files) = running.get_mut(self.set) {
            *files -= 1;
        }
    }
}

/// Progress that stops adding a file when the client has disconnected, because the file may never end.
struct UntilDisconnected<'a>(&'a AtomicBool);

impl Progress for UntilDisconnected<'_> {
    fn batch_added(&mut self, _: &AddProgress) -> ControlFlow<()> {
        if self.0.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

fn modular_input(kind: ModularInputKind) -> ModularInput {
    let ModularInputKind { scheme, app, title, description, is_xml, is_single, arguments } = kind;
    let argument = |argument: SchemeArgument| {
        let SchemeArgument { name, title, description, data_type, validation, is_required, is_required_on_edit } =
            argument;
        ModularInputArgument { name, title, description, data_type, validation, is_required, is_required_on_edit }
    };
    let arguments = arguments.into_iter().map(argument).collect();
    ModularInput { scheme, app, title, description, is_xml, is_single, arguments }
}

/// The path of a file that can be previewed.
fn previewable(path: &str) -> Result<&Path, Fault> {
    let file = Path::new(path);
    if !file.is_absolute() {
        return Err(not_absolute(path));
    }
    // A pipe is refused, because it may stay silent forever and reading it consumes the data.
    if file.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        let what = "is a pipe or a device; save its output to a file and preview that";
        return Err(Fault::invalid(what).with_context(path));
    }
    Ok(file)
}

fn not_absolute(path: &str) -> Fault {
    Fault::invalid(format!("{path}: give an absolute path on the server's machine"))
}

impl Node for LocalNode {
    fn search_service_in(&self, user: &str, app: &str, viewer: &Permissions) -> Result<Arc<SearchService>, Fault> {
        // An invalid name refers to no namespace.
        match Namespace::new(user, app).map_err(|fault| Fault::not_found(fault.to_string()))? {
            Some(namespace) => self.namespaces.service(namespace, viewer),
            None => self.namespaces.service_of_apps(viewer),
        }
    }

    fn search_service_of(&self, viewer: &Permissions) -> Result<Arc<SearchService>, Fault> {
        self.namespaces.service_of_user(viewer)
    }

    fn cached_search_service_of(&self, viewer: &Permissions) -> Option<Arc<SearchService>> {
        self.namespaces.cached_service_of_user(viewer)
    }

    fn roll_hot_buckets(&self, index: &str) -> Result<(), Fault> {
        let rolled = self.ingest.store.seal_selected(&IndexSelector::new([index.to_owned()]));
        rolled.map_err(|error| Fault::unavailable(error.to_string()))?;
        // Splunk's SDKs empty an index by short limits and this request, and then wait until it is empty.
        self.maintenance_requested.notify_one();
        Ok(())
    }

    fn notify_configuration_changed(&self, conf: &str) {
        if conf == CONF_OF_APPS {
            // An app that is added, removed or disabled may contain any conf.
            return self.record_file_change();
        }
        if self.namespaces.mark_conf_changed(conf) {
            self.summary_signal.notify_configuration_changed();
        }
        self.reread_settings();
        if CONFS_OF_INPUTS.contains(&conf) {
            self.input_changes.apply_and_wait();
        }
    }

    fn input_warning(&self, stanza: &str) -> Option<String> {
        match self.input_changes.effect(stanza) {
            Effect::Current => None,
            Effect::Pending => Some("The change is saved and is still being applied.".to_owned()),
            Effect::AtStart => Some("The change is saved and takes effect at the next start of the node.".to_owned()),
            Effect::Fault(fault) => Some(format!("The change is saved without effect: {fault}")),
        }
    }

    fn request_restart(&self) -> Result<(), Fault> {
        self.restart.request()
    }

    fn name(&self) -> String {
        let name = ServerSettings::new(&self.settings().layers).server_name;
        name.unwrap_or_else(|| self.ingest.settings.host.clone())
    }

    fn roles(&self) -> Roles {
        Roles::new(&self.settings().layers)
    }

    fn collection_limits(&self) -> CollectionLimits {
        LimitSettings::new(&self.settings().layers).collections
    }

    fn add_file(&self, request: &AddFile, has_left: &Arc<AtomicBool>) -> Result<String, Fault> {
        self.settings().check_index(&request.index)?;
        self.ingest.store.check_index(&request.index)?;
        let path = Path::new(&request.path);
        if !path.is_absolute() {
            return Err(not_absolute(&request.path));
        }
        // A device may never end. The command line reads devices itself and sends their content.
        if path
            .metadata()
            .is_ok_and(|metadata| metadata.file_type().is_char_device() || metadata.file_type().is_block_device())
        {
            return Err(Fault::invalid(format!("{}: a device, not a file", request.path)));
        }
        let options = OneshotOptions {
            index: request.index.clone(),
            host: request.host.clone().unwrap_or_else(data_directory::host_name),
            host_is_fixed: request.host.is_some(),
            source: request.source.clone(),
            sourcetype: request.sourcetype.clone(),
            ignore_positions: request.again,
            scope: None,
            rotation: Rotation::None,
            ended: Arc::clone(has_left),
            zone: zone::parse_request(request.zone.as_deref())?,
            now: self.settings().clock.now_ns(),
        };
        let running = self.choose_set();
        let mut sink = self.ingest.file_sink(running.set);
        let added = add_file(path, &options, &self.settings().props, &mut sink, &mut UntilDisconnected(has_left));
        // Events read before an error must be durable when the error is reported.
        sink.flush().map_err(|error| Fault::unavailable(error.to_string()))?;
        let mut report = added?;
        // The path of an earlier upload is of no use to the client, because that file no longer exists.
        let uploads = absolute_text(&self.data_dir.join(UPLOADS_FOLDER));
        report.stored_as = report.stored_as.filter(|path| !Path::new(path).starts_with(&uploads));
        Ok(add::to_json(&report).to_string())
    }

    fn port_peers(&self, port: u16) -> Result<Vec<SocketAddr>, Fault> {
        port_connections::peers_of_port(port)
    }

    fn watched_files(&self, monitor: Option<&str>, most: usize) -> Vec<WatchedFile> {
        self.watched.get().map(|watched| watched.list(monitor, most)).unwrap_or_default()
    }

    fn check_index_name(&self, name: &str) -> Result<(), Fault> {
        self.settings().check_index(name)
    }

    fn receive(&self, received: &ReceivedText) -> Result<(), Fault> {
        let settings = self.settings();
        settings.check_index(&received.index)?;
        self.ingest.store.check_index(&received.index)?;
        let info = SourceInfo {
            index: received.index.clone(),
            host: received.host.clone(),
            host_is_fixed: false,
            source: received.source.clone(),
            sourcetype: Some(received.sourcetype.clone()),
        };
        let now = settings.clock.now_ns();
        let context = PipelineContext { now, zone: None, modified: None, orders: None };
        let invalid = |error: PipelineError| Fault::invalid(error.to_string());
        let mut pipeline = Pipeline::new_lenient(info, &settings.props, context).map_err(invalid)?;
        let running = self.choose_set();
        let mut sink = self.ingest.file_sink(running.set);
        let mut batch = EventBatch { index_time: now, ..EventBatch::default() };
        pipeline.push(&received.text, &mut batch);
        pipeline.finish(&mut batch);
        let stored = sink.accept(batch, None).and_then(|()| sink.flush());
        stored.map_err(|error| Fault::unavailable(error.to_string()))?;
        match pipeline.refused_index() {
            Some(reason) => Err(Fault::invalid(reason)),
            None => Ok(()),
        }
    }

    fn preview(&self, request: &PreviewFile) -> Result<String, Fault> {
        let path = previewable(&request.path)?;
        let events = request.events.unwrap_or(preview::EVENTS_DEFAULT);
        let zone = zone::parse_request(request.zone.as_deref())?;
        let asked = preview::PreviewRequest { path, sourcetype: request.sourcetype.clone(), host: None, zone, events };
        let made = preview::preview_file(&asked, &self.settings())?;
        Ok(preview::to_json(&asked, &made).to_string())
    }

    fn preview_events(&self, path: &str, props: &[(String, String)]) -> Result<FilePreview, Fault> {
        let file = previewable(path)?;
        let settings = self.settings().overridden_by(&preview::props_of_request(props)?);
        let (sourcetype, host, zone, events) = (None, None, None, preview::EVENTS_MAX);
        let asked = preview::PreviewRequest { path: file, sourcetype, host, zone, events };
        let made = preview::preview_file(&asked, &settings)?;
        Ok(preview::to_events(absolute_text(file), made, &settings))
    }

    fn preview_text(&self, request: &PreviewText) -> Result<String, Fault> {
        let zone = zone::parse_request(request.zone.as_deref())?;
        let events = request.events.unwrap_or(preview::EVENTS_DEFAULT);
        let path = Path::new(&request.source);
        let asked = preview::PreviewRequest { path, sourcetype: request.sourcetype.clone(), host: None, zone, events };
        let made = preview::preview_text(&asked, &request.text, &self.settings())?;
        Ok(preview::to_json(&asked, &made).to_string())
    }

    fn modular_inputs(&self) -> Vec<ModularInput> {
        self.modular_inputs.list().into_iter().map(modular_input).collect()
    }

    fn check_modular_input(&self, scheme: &str, name: &str, settings: &BTreeMap<String, String>) -> Result<(), Fault> {
        let host = self.ingest.settings.host.clone();
        self.modular_inputs.check_stanza((scheme, name), settings, &host, self.management.get().copied())
    }

    fn explanation(
        &self,
        text: &str,
        explanation: &Explanation,
        zone: &TimeZone,
        is_json: bool,
    ) -> Result<String, Fault> {
        Ok(spl_explain::format_explanation(text, explanation, zone, is_json)?)
    }

    fn condition(&self) -> NodeCondition {
        let (settings, host) = (self.settings(), self.ingest.settings.host.clone());
        let (of_server, limits) = (ServerSettings::new(&settings.layers), LimitSettings::new(&settings.layers));
        let messages = self.ingest.store.messages().into_iter();
        // Values that cannot be read stay 0.
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let of_process = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let disk = rustix::fs::statvfs(&self.data_dir).map(|disk| DiskSpace {
            all: disk.f_blocks.saturating_mul(disk.f_frsize),
            free: disk.f_bavail.saturating_mul(disk.f_frsize),
        });
        let of_conf = |conf: &str, stanza: &str, key: &str| -> Option<String> {
            settings.layers.conf(conf).get(stanza, key).map(str::to_owned).filter(|value| !value.is_empty())
        };
        let input_host = of_conf("inputs", DEFAULT_STANZA, "host").filter(|host| host != DECIDED_AT_START);
        NodeCondition {
            name: of_server.server_name.unwrap_or_else(|| host.clone()),
            input_host: input_host.unwrap_or_else(|| host.clone()),
            host,
            management: self.management.get().map(ToString::to_string).unwrap_or_default(),
            has_cluster_key: of_conf("server", GENERAL, "pass4SymmKey").is_some(),
            session_timeout: of_server.session_timeout,
            session_timeout_s: of_server.session_timeout_s,
            folder: self.data_dir.display().to_string(),
            started: self.started,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: DiskSpace {
                all: parse_kilobytes(&memory, "MemTotal"),
                free: parse_kilobytes(&memory, "MemAvailable"),
            },
            process_bytes: parse_kilobytes(&of_process, "VmRSS"),
            disk: disk.unwrap_or_default(),
            disk_free_min: of_server.free_bytes_min,
            disk_activity: disk_activity::of_folder(&self.data_dir),
            taken_bytes: self.ingest.taken_bytes(),
            catalog_bytes: self.data_dir.join(CATALOG_FILE).metadata().ok().map(|file| file.len()),
            search_limits: SearchLimits {
                base: limits.searches_base,
                per_cpu: limits.searches_per_cpu,
                real_time_multiplier: limits.real_time_multiplier,
            },
            faults: messages.map(|message| (message.time, message.text)).collect(),
            input_faults: self.input_changes.faults(),
        }
    }

    fn buckets(&self) -> Result<String, Fault> {
        Ok(bucket::list_buckets(&self.ingest.store).to_string())
    }

    fn metrics(&self) -> String {
        prometheus::page(&self.ingest.store, &self.condition())
    }

    fn verify(&self) -> Result<String, Fault> {
        Ok(bucket::verify_buckets(&self.ingest.store).to_string())
    }

    fn compact(&self) -> Result<String, Fault> {
        Ok(bucket::compaction_json(&self.ingest.store.compact_all()?).to_string())
    }

    fn thaw(&self, index: &str, folder: &str) -> Result<String, Fault> {
        self.settings().check_index(index)?;
        if !Path::new(folder).is_absolute() {
            return Err(not_absolute(folder));
        }
        Ok(bucket::thaw_json(&self.ingest.store.thaw(index, Path::new(folder))?).to_string())
    }

    fn migrate(&self, index: &str, to: &str) -> Result<String, Fault> {
        let report = self.ingest.store.migrate(index, volume_verbs::volume_of(to))?;
        Ok(volume_verbs::migration(&report).to_string())
    }

    fn evict_bucket(&self, id: &str) -> Result<(), Fault> {
        Ok(self.ingest.store.evict_bucket(id)?)
    }

    fn evict_cache(&self, bytes: Option<u64>) -> Result<(), Fault> {
        Ok(self.ingest.store.evict_cache(bytes)?)
    }

    fn close_bucket(&self, id: &str) -> Result<(), Fault> {
        Ok(self.ingest.store.close_bucket(id)?)
    }

    fn remove_events(&self, index: &str) -> Result<usize, Fault> {
        Ok(self.ingest.store.remove_events_of(index)?.len())
    }

    fn collector_tokens(&self) -> Result<Vec<CollectorToken>, TokenError> {
        Ok(self.tokens.list())
    }

    fn collector_listens(&self) -> bool {
        self.tokens.is_attached()
    }

    fn write_collector_token(&self, change: &TokenChange) -> Result<CollectorToken, TokenError> {
        self.tokens.write(change, &|index| self.settings().check_index(index))
    }

    fn remove_collector_token(&self, name: &str) -> Result<(), TokenError> {
        self.tokens.remove(name)
    }
}
