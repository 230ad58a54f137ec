//! A data folder opened in this process: its store, its configuration, and the search service over them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_apps::{AddressDatabase, KnowledgeFiles, LookupFiles, Lookups, read_configuration, read_view};
use quarry_conf::{Layers, LimitSettings, Namespace, PropsResolver, ServerSettings, Transforms, View, missing_rules};
use quarry_engine::{Engine, EngineOptions, IngestExpressions, SnapshotSource, TransactionLimits};
use quarry_event::EventBatch;
use quarry_inputs::{FilePosition, InputSettings, KnownPosition, Sink, SinkError};
use quarry_programs::CustomCommands;
use quarry_search::{JobKeeper, SearchService, SearchServiceParts};
use quarry_spl::ast::PercentileMethod;
use quarry_stdx::{SharedClock, SystemClock, log};
use quarry_store::{MemoryStore, Store};

use crate::failure::Failure;
use crate::kept_jobs::KeptJobs;
use crate::model_summaries::ModelSummaries;
use crate::namespaces::NAMESPACES_MAX;
use crate::node_facts::NodeFacts;
use crate::zone;

/// Index a search reads when it names none.
pub(crate) const DEFAULT_INDEX: &str = "main";
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

    /// Pipeline sets that add files side by side.
    pub(crate) fn pipeline_sets(&self) -> usize {
        ServerSettings::new(&self.layers).parallel_ingestion_pipelines
    }

    /// The results that are kept in a data folder.
    pub(crate) fn kept_jobs(&self, data_dir: &Path) -> KeptJobs {
        KeptJobs::new(data_dir, &self.layers, self.clock.clone())
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
            let clock = self.clock.clone();
            let facts = NodeFacts { layers, data_dir, files, source, models, jobs, summaries, clock };
            engine = engine.with_node(Arc::new(facts));
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
    let store = quarry_ingest::open_to_add(data_dir, &settings.inputs())?;
    remove_left_spills(data_dir);
    Ok(store)
}

/// As [`open_to_add`], for a server: buckets are merged in the background.
pub(crate) fn open_to_serve(data_dir: &Path, settings: &Settings) -> Result<Arc<Store>, Failure> {
    let store = quarry_ingest::open_to_serve(data_dir, &settings.inputs())?;
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
