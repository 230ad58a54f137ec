//! A data folder opened in this process: its store, its configuration, and the search service over them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use quarry_apps::{AddressDatabase, KnowledgeFiles, LookupFiles, Lookups, read_configuration, read_view};
use quarry_conf::{
    IndexSettings, IndexesConf, Layers, LimitSettings, MergeSettings, Namespace, PropsResolver, ServerSettings,
    Transforms, View, missing_rules,
};
use quarry_engine::{Engine, EngineOptions, IngestExpressions, SnapshotSource, TransactionLimits};
use quarry_event::EventBatch;
use quarry_inputs::{FilePosition, InputSettings, KnownPosition, Sink, SinkError};
use quarry_programs::CustomCommands;
use quarry_search::{JobKeeper, SearchService, SearchServiceParts};
use quarry_spl::ast::PercentileMethod;
use quarry_stdx::{SharedClock, SystemClock, log};
use quarry_store::{MemoryStore, MergeOptions, RetentionRule, Store, StoreError, StoreOptions};

use crate::failure::Failure;
use crate::kept_jobs::KeptJobs;
use crate::model_summaries::ModelSummaries;
use crate::namespaces::NAMESPACES_MAX;
use crate::node_facts::NodeFacts;
use crate::owner_only;
use crate::zone;

/// Index a search reads when it names none.
pub(crate) const DEFAULT_INDEX: &str = "main";
/// Tries to open a data folder that another process has open, and the wait between two of them.
const LOCK_ROUNDS_MAX: usize = 50;
const LOCK_ROUND: Duration = Duration::from_millis(20);
/// Folder of files that large searches spill to, below the data folder.
const SPILL_FOLDER: &str = "run/spill";

/// File of the collections (KV store), below the data folder.
const COLLECTIONS: &str = "kvstore/collections.sqlite";

/// Configuration as the verbs use it.
pub(crate) struct Settings {
    pub(crate) layers: Layers,
    /// The namespace that `layers` are seen from, if any.
    pub(crate) view: Option<Arc<View>>,
    pub(crate) props: Arc<PropsResolver>,
    pub(crate) clock: SharedClock,
}

impl Settings {
    /// Configuration of a data folder; what is wrong with it is told.
    pub(crate) fn of_data_dir(data_dir: &Path) -> Settings {
        let settings = Settings::of_data_dir_quietly(data_dir);
        settings.faults().iter().for_each(log::warning);
        settings
    }

    /// What is wrong with the configuration, each fault once.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut told = BTreeSet::new();
        let missing = missing_rules(&self.layers);
        let warnings = self.layers.warnings().iter().map(ToString::to_string);
        let all = warnings.chain(missing.iter().map(ToString::to_string));
        all.filter(|fault| told.insert(fault.clone())).collect()
    }

    /// The configuration of a data folder; its faults were told when data was added and are told by `btool`.
    pub(crate) fn of_data_dir_quietly(data_dir: &Path) -> Settings {
        Settings::of(read_configuration(data_dir))
    }

    /// The configuration that the searches of a namespace see.
    pub(crate) fn of_namespace(data_dir: &Path, namespace: Namespace) -> Result<Settings, Failure> {
        let (layers, view) = read_view(data_dir, namespace).map_err(Failure::NoApp)?;
        Ok(Settings { view: Some(Arc::new(view)), ..Settings::of(layers) })
    }

    /// Configuration of a data folder for a search: that of its namespace, if it has one.
    pub(crate) fn of_search(data_dir: &Path, namespace: Option<Namespace>) -> Result<Settings, Failure> {
        match namespace {
            None => Ok(Settings::of_data_dir_quietly(data_dir)),
            Some(namespace) => Settings::of_namespace(data_dir, namespace),
        }
    }

    /// Configuration of a data folder whose node keeps nothing and sends everything on; what is wrong with it is told.
    pub(crate) fn of_forwarder(data_dir: &Path) -> Settings {
        let Settings { layers, clock, .. } = Settings::of_data_dir(data_dir);
        let expressions = IngestExpressions::new(zone::machine(), clock.now_ns().cast_unsigned());
        let props =
            PropsResolver::new(&layers).with_expressions(Arc::new(expressions)).in_zone(zone::machine()).of_forwarder();
        Settings { layers, view: None, props: Arc::new(props), clock }
    }

    /// The built-in configuration alone.
    pub(crate) fn built_in() -> Settings {
        Settings::of(Layers::new([]))
    }

    fn of(layers: Layers) -> Settings {
        let clock = SystemClock::shared();
        let expressions = IngestExpressions::new(zone::machine(), clock.now_ns().cast_unsigned());
        let props = PropsResolver::new(&layers).with_expressions(Arc::new(expressions)).in_zone(zone::machine());
        Settings { layers, view: None, props: Arc::new(props), clock }
    }

    /// What the inputs of a node are set up with.
    pub(crate) fn inputs(&self) -> InputSettings {
        InputSettings {
            layers: self.layers.clone(),
            props: Arc::clone(&self.props),
            clock: self.clock.clone(),
            host: host_name(),
            zone: zone::machine(),
        }
    }

    /// Refuses a name that cannot be an index, and an index that is switched off.
    pub(crate) fn check_index(&self, index: &str) -> Result<(), String> {
        self.props.indexes().check(index)
    }

    /// What indexes.conf says of an index.
    pub(crate) fn index(&self, name: &str) -> IndexSettings {
        let conf = IndexesConf::new(&self.layers);
        conf.get(name).unwrap_or_else(|| conf.defaults())
    }

    /// How long and how much each index keeps, for `indexes` that hold something.
    pub(crate) fn retention(&self, indexes: impl IntoIterator<Item = String>) -> Vec<RetentionRule> {
        let rule = |index: String| {
            let settings = self.index(&index);
            RetentionRule {
                index,
                max_age_secs: settings.frozen_time_period_seconds,
                max_stored_bytes: Some(settings.max_total_data_size_mb.saturating_mul(1 << 20))
                    .filter(|most| *most > 0),
                archives: settings.cold_to_frozen_dir.is_some() || settings.cold_to_frozen_script.is_some(),
            }
        };
        indexes.into_iter().map(rule).collect()
    }

    /// Pipeline sets that add files side by side.
    pub(crate) fn pipeline_sets(&self) -> usize {
        ServerSettings::new(&self.layers).parallel_ingestion_pipelines
    }

    /// The results that are kept in a data folder.
    pub(crate) fn kept_jobs(&self, data_dir: &Path) -> KeptJobs {
        KeptJobs::new(data_dir, &self.layers, self.clock.clone())
    }

    /// Options of the store of a data folder that is added to.
    fn store_options(&self, data_dir: &Path) -> StoreOptions {
        let free_bytes_min = ServerSettings::new(&self.layers).free_bytes_min;
        let mut options =
            StoreOptions { pipeline_sets: self.pipeline_sets(), free_bytes_min, ..StoreOptions::at(data_dir) };
        self.set_merges(&mut options);
        options.configured_indexes = IndexesConf::new(&self.layers).names().map(str::to_owned).collect();
        options
    }

    /// Takes over what indexes.conf says of merging.
    fn set_merges(&self, options: &mut StoreOptions) {
        let conf = IndexesConf::new(&self.layers);
        options.compaction.merge = merge_options(&conf.defaults().merge);
        let own = conf.own_merges().map(|(index, merge)| (index.to_owned(), merge_options(&merge)));
        options.compaction.merge_of = own.collect();
    }

    /// The results that the server of a data folder keeps.
    pub(crate) fn server_jobs(&self, data_dir: &Path) -> KeptJobs {
        KeptJobs::of_server(data_dir, &self.layers, self.clock.clone())
    }

    /// The lookup files that searches see; without a data folder those of the working folder.
    fn lookup_files(&self, data_dir: Option<&Path>) -> LookupFiles {
        match (data_dir, &self.view) {
            (None, _) => LookupFiles::of_working_folder(),
            (Some(data_dir), None) => LookupFiles::of_data_dir(data_dir),
            (Some(data_dir), Some(view)) => LookupFiles::of_view(data_dir, view),
        }
    }

    /// Commands that apps bring along, as searches see them.
    pub(crate) fn commands(&self, data_dir: Option<&Path>) -> CustomCommands {
        CustomCommands::new(&self.layers, data_dir, self.view.as_ref(), &host_name())
    }

    /// The summaries of data models in a data folder.
    pub(crate) fn summaries(&self, data_dir: &Path) -> Arc<ModelSummaries> {
        let files = self.lookup_files(Some(data_dir));
        Arc::new(ModelSummaries::new(&self.layers, data_dir, files, data_dir.join(COLLECTIONS)))
    }

    /// The search service over `source`; `data_dir` is where its lookups and spill files are.
    pub(crate) fn service(
        &self,
        source: Arc<dyn SnapshotSource>,
        data_dir: Option<&Path>,
    ) -> Result<SearchService, Failure> {
        self.service_with(source, data_dir, data_dir.map(|dir| Arc::new(self.kept_jobs(dir))), None)
    }

    /// As [`Settings::service`], for the process that serves the data folder; `whole` is the service without a
    /// namespace, for those of namespaces.
    pub(crate) fn service_of_server(
        &self,
        source: Arc<dyn SnapshotSource>,
        data_dir: &Path,
        jobs: &Arc<KeptJobs>,
        whole: Option<&SearchService>,
    ) -> Result<SearchService, Failure> {
        self.service_with(source, Some(data_dir), Some(Arc::clone(jobs)), whole)
    }

    fn engine_options(&self, limits: &LimitSettings, data_dir: Option<&Path>) -> EngineOptions {
        // All namespaces together keep as much as the service without one.
        let share = if self.view.is_some() { NAMESPACES_MAX } else { 1 };
        let bytes = |megabytes| usize::try_from(megabytes).unwrap_or(usize::MAX).saturating_mul(1 << 20);
        EngineOptions {
            memory_bytes: bytes(limits.search_max_mem_mb),
            spill: data_dir.and_then(spill_folder),
            partial_state_bytes: bytes(limits.partial_state_cache_mb) / share,
            transactions: TransactionLimits {
                max_open: limits.open_transactions,
                max_open_events: limits.open_transaction_events,
            },
            percentiles: match limits.percentiles_interpolated {
                true => PercentileMethod::Interpolated,
                false => PercentileMethod::NearestRank,
            },
            ..EngineOptions::default()
        }
    }

    fn service_with(
        &self,
        source: Arc<dyn SnapshotSource>,
        data_dir: Option<&Path>,
        jobs: Option<Arc<KeptJobs>>,
        whole: Option<&SearchService>,
    ) -> Result<SearchService, Failure> {
        let limits = LimitSettings::new(&self.layers);
        let options = self.engine_options(&limits, data_dir);
        let files = self.lookup_files(data_dir);
        let lookups = Lookups {
            files: files.clone(),
            transforms: Transforms::new(&self.layers),
            collections: data_dir.map(|dir| dir.join(COLLECTIONS)),
            addresses: data_dir.map(|dir| AddressDatabase::new(dir, limits.address_database.clone())),
        };
        let knowledge = KnowledgeFiles::new(&self.layers, data_dir, self.view.as_deref());
        let models = quarry_engine::KnowledgeSource::data_models(&knowledge);
        let mut engine =
            Engine::new(&options, self.props.clone(), Arc::new(lookups))?.with_knowledge(Arc::new(knowledge));
        if let Some(whole) = whole {
            engine = engine.sharing(whole.engine());
        }
        if let Some(data_dir) = data_dir {
            let (layers, data_dir) = (self.layers.clone(), data_dir.to_owned());
            let summaries = self.summaries(&data_dir);
            engine = engine.with_summaries(summaries.clone());
            let source = Arc::clone(&source);
            let jobs = jobs.clone();
            engine = engine.with_node(Arc::new(NodeFacts { layers, data_dir, files, source, models, jobs, summaries }));
        }
        let engine = engine.with_commands(Arc::new(self.commands(data_dir)));
        Ok(SearchService::new(SearchServiceParts {
            engine,
            source,
            clock: self.clock.clone(),
            zone: zone::machine(),
            default_indexes: vec![DEFAULT_INDEX.to_owned()],
            keeper: jobs.map(|jobs| jobs as Arc<dyn JobKeeper>),
        }))
    }
}

fn merge_options(conf: &MergeSettings) -> MergeOptions {
    let bytes = |megabytes: u64| megabytes.saturating_mul(1 << 20);
    MergeOptions {
        background: conf.bucket_merging,
        min_merge_count: conf.min_merge_count,
        max_merge_count: conf.max_merge_count,
        min_merge_raw_bytes: bytes(conf.min_merge_size_mb),
        max_merge_raw_bytes: bytes(conf.max_merge_size_mb),
        max_merge_time_span_secs: conf.max_merge_time_span_seconds,
    }
}

/// Where large searches spill to; `None`, the system's folder for temporary files, if the data folder takes nothing or
/// is not there: a search does not make one.
fn spill_folder(data_dir: &Path) -> Option<PathBuf> {
    if !data_dir.is_dir() {
        return None;
    }
    let folder = data_dir.join(SPILL_FOLDER);
    std::fs::create_dir_all(&folder).ok().map(|()| folder)
}

/// Opens the store of `data_dir` for adding; the folder is made when missing.
pub(crate) fn open_to_add(data_dir: &Path, settings: &Settings) -> Result<Arc<Store>, Failure> {
    owner_only::close_folder(data_dir);
    let options = settings.store_options(data_dir);
    let store = when_free(|| Store::open(options.clone(), settings.clock.clone()))?;
    remove_left_spills(data_dir);
    Ok(store)
}

/// Removes what searches spilled whose process died. The folder is open for writing here, so that nobody else searches.
fn remove_left_spills(data_dir: &Path) {
    let folder = data_dir.join(SPILL_FOLDER);
    if let Err(error) = std::fs::remove_dir_all(&folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        let folder = folder.display();
        log::note(format!("{folder}: files of searches that were ended cannot be removed: {error}"));
    }
}

/// As [`open_to_add`], for a server: buckets are merged in the background.
pub(crate) fn open_to_serve(data_dir: &Path, settings: &Settings) -> Result<Arc<Store>, Failure> {
    owner_only::close_folder(data_dir);
    let mut options = settings.store_options(data_dir);
    options.compaction.bucket_merging = true;
    let store = when_free(|| Store::open(options.clone(), settings.clock.clone()))?;
    remove_left_spills(data_dir);
    Ok(store)
}

/// Opens the store of `data_dir` for writing, where there is data already.
pub(crate) fn open_existing(data_dir: &Path, settings: &Settings) -> Result<Arc<Store>, Failure> {
    check_exists(data_dir)?;
    open_to_add(data_dir, settings)
}

/// Refuses a data folder that is not there.
pub(crate) fn check_exists(data_dir: &Path) -> Result<(), Failure> {
    if data_dir.is_dir() {
        return Ok(());
    }
    let dir = data_dir.display();
    Err(Failure::Storage(format!("there is no data folder {dir}: name one with --data-dir, or add data first")))
}

/// Opens the store of `data_dir` for reading.
pub(crate) fn open_read_only(data_dir: &Path, clock: SharedClock) -> Result<Arc<Store>, Failure> {
    check_exists(data_dir)?;
    Ok(when_free(|| Store::open_read_only(StoreOptions::at(data_dir), clock.clone()))?)
}

/// Opens a store, waiting a moment for another command that has it open: a process that is just ending, or an add
/// that is almost done.
fn when_free(open: impl Fn() -> Result<Arc<Store>, StoreError>) -> Result<Arc<Store>, StoreError> {
    for _ in 0..LOCK_ROUNDS_MAX {
        match open() {
            Err(StoreError::Locked { .. }) => std::thread::park_timeout(LOCK_ROUND),
            opened => return opened,
        }
    }
    open()
}

/// Name of this machine.
pub(crate) fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

/// Hands an input's events to a store in memory, which knows no files.
pub(crate) struct MemorySink<'a>(pub(crate) &'a MemoryStore);

impl Sink for MemorySink<'_> {
    fn positions(&mut self, _: &str, _: &[u8]) -> Result<Vec<KnownPosition>, SinkError> {
        Ok(Vec::new())
    }

    fn accept(&mut self, batch: EventBatch, _: Option<FilePosition>) -> Result<(), SinkError> {
        Ok(self.0.append(batch)?)
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}
