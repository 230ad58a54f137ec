//! Creates a search service from the configuration of a data directory: apps' knowledge objects, stored results,
//! summaries, limits.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;
use quarry_apps::{AddressDatabase, KnowledgeFiles, KnowledgeLocation, LookupFiles, Lookups};
use quarry_collections::Collections;
use quarry_conf::{Layers, LimitSettings, Namespace, PropsResolver, Readable, Transforms, View};
use quarry_engine::{
    CommandSource, DeletionRecord, Engine, EngineError, EngineOptions, SnapshotSource, SubsearchDefaults,
    TransactionLimits,
};
use quarry_event::EventBatch;
use quarry_spl::ast::PercentileMethod;
use quarry_stdx::{NodeFiles, SharedClock, log};

use crate::dispatch::{JOBS_FOLDER, JobStore};
use crate::job_recorder::JobRecorder;
use crate::node_facts::NodeFacts;
use crate::rest_connection::RestConnection;
use crate::server_info::NodeIdentity;
use crate::service::{SearchService, SearchServiceParts};
use crate::summaries::ModelSummaries;

/// Default index of a search.
pub const DEFAULT_INDEX: &str = "main";
/// Folder of spill files, relative to the data directory.
const SPILL_FOLDER: &str = "run/spill";

/// Creates the audit event of a deletion from user, deletion, machine name, and time in nanoseconds.
pub type RecordDeletion = fn(&str, &DeletionRecord<'_>, &str, i64) -> EventBatch;

/// Settings of searches.
#[derive(Clone)]
pub struct SearchSettings {
    /// The merged configuration.
    pub layers: Layers,
    /// View of the namespace to which `layers` are restricted, if any.
    pub view: Option<Arc<View>>,
    /// If there is no view, the namespace whose private objects are visible in addition to the objects of all apps.
    pub own: Option<Namespace>,
    /// Objects of apps that the reader may read; `layers` contain no other objects.
    pub readable: Arc<Readable>,
    /// Search-time rules.
    pub props: Arc<PropsResolver>,
    /// The clock of the node.
    pub clock: SharedClock,
    /// Time zone of this machine.
    pub zone: TimeZone,
    /// Name of this machine.
    pub host: String,
    /// Identity of this node.
    pub identity: NodeIdentity,
    /// The data directory, if any.
    pub data_dir: Option<PathBuf>,
    /// Whether searches read files in place. The data directory then only provides knowledge and lookups: the search
    /// log, results and spilled rows are not written there, and the summaries stored there do not apply.
    pub in_place: bool,
    /// Starts programs of custom commands and alert actions.
    pub commands: Option<Arc<dyn CommandSource>>,
    /// Creates the audit event of a deletion.
    pub record_deletion: RecordDeletion,
    /// The REST interface for `| rest`, once a server has connected it.
    pub rest: Arc<RestConnection>,
    /// Files of the data directory that are shared with other nodes; `None` if no other node shares them.
    pub files: Option<NodeFiles>,
}

impl SearchSettings {
    /// The data directory, if its events are searched.
    fn searched_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref().filter(|_| !self.in_place)
    }

    /// Stored results of the data directory.
    fn job_store(&self) -> Option<JobStore> {
        self.searched_dir().map(|dir| JobStore::new(dir, &self.layers, self.clock.clone()))
    }

    /// Lookup files visible to searches. Searches of files in place look in the working directory first.
    fn lookup_files(&self) -> LookupFiles {
        let files = match (&self.data_dir, &self.view) {
            (data_dir, _) if self.in_place => LookupFiles::for_working_folder(data_dir.as_deref()),
            (None, _) => LookupFiles::for_working_folder(None),
            (Some(data_dir), None) => LookupFiles::for_data_dir(data_dir),
            (Some(data_dir), Some(view)) => LookupFiles::for_view(data_dir, view),
        };
        files.with_shared_files(self.files.as_ref())
    }

    /// Summaries of data models in `data_dir`, the data directory.
    pub fn summaries(&self, data_dir: &Path) -> Arc<ModelSummaries> {
        Arc::new(ModelSummaries::new(&self.layers, data_dir, self.lookup_files(), self.zone.clone()))
    }

    /// The search service over `source`.
    pub fn service(&self, source: Arc<dyn SnapshotSource>) -> Result<SearchService, EngineError> {
        self.service_with(source, self.job_store().map(Arc::new), None)
    }

    /// Like [`SearchSettings::service`] for the server process; `whole` is the service without a namespace.
    pub(crate) fn service_of_server(
        &self,
        source: Arc<dyn SnapshotSource>,
        jobs: &Arc<JobStore>,
        whole: Option<&SearchService>,
    ) -> Result<SearchService, EngineError> {
        self.service_with(source, Some(Arc::clone(jobs)), whole)
    }

    /// Location of the knowledge files that searches use.
    fn knowledge_location(&self) -> KnowledgeLocation<'_> {
        match (self.data_dir.as_deref(), self.view.as_deref()) {
            (None, _) => KnowledgeLocation::None,
            (Some(data_dir), None) => KnowledgeLocation::Apps(data_dir, self.own.as_ref()),
            (Some(data_dir), Some(view)) => KnowledgeLocation::View(data_dir, view),
        }
    }

    fn engine_options(&self, limits: &LimitSettings) -> EngineOptions {
        let bytes = |megabytes| usize::try_from(megabytes).unwrap_or(usize::MAX).saturating_mul(1 << 20);
        EngineOptions {
            memory_bytes: bytes(limits.search_max_mem_mb),
            spill: self.searched_dir().and_then(spill_folder),
            partial_state_bytes: bytes(limits.partial_state_cache_mb),
            transactions: TransactionLimits {
                max_open: limits.open_transactions,
                max_open_events: limits.open_transaction_events,
            },
            subsearches: SubsearchDefaults {
                condition_rows: limits.subsearch.0,
                time_s: limits.subsearch.1,
                join_rows: limits.join_subsearch.0,
                join_time_s: limits.join_subsearch.1,
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
        jobs: Option<Arc<JobStore>>,
        whole: Option<&SearchService>,
    ) -> Result<SearchService, EngineError> {
        let data_dir = self.data_dir.as_deref();
        let limits = LimitSettings::new(&self.layers);
        let options = self.engine_options(&limits);
        let files = self.lookup_files();
        let lookups = Lookups {
            files: files.clone(),
            transforms: Arc::new(Transforms::new(&self.layers)),
            collections: data_dir.map(Collections::of_data_dir),
            addresses: data_dir.map(|dir| Arc::new(AddressDatabase::new(dir, limits.address_database.clone()))),
            dispatch: self.searched_dir().map(|dir| dir.join(JOBS_FOLDER)),
        };
        let knowledge = KnowledgeFiles::new(&self.layers, self.knowledge_location(), &self.readable);
        let models = quarry_engine::KnowledgeSource::data_models(&knowledge);
        let mut engine =
            Engine::new(&options, self.props.clone(), Arc::new(lookups))?.with_knowledge(Arc::new(knowledge));
        if let Some(whole) = whole {
            engine = engine.with_shared_limits(whole.engine());
        }
        let summaries = self.searched_dir().map(|data_dir| self.summaries(data_dir));
        if let (Some(data_dir), Some(summaries)) = (self.searched_dir(), summaries.clone()) {
            let (layers, data_dir, host) = (self.layers.clone(), data_dir.to_owned(), self.host.clone());
            let identity = self.identity.clone();
            engine = engine.with_summaries(summaries.clone());
            let source = Arc::clone(&source);
            let jobs = jobs.clone();
            let (record_deletion, clock, rest) = (self.record_deletion, self.clock.clone(), Arc::clone(&self.rest));
            let facts = NodeFacts {
                layers,
                data_dir,
                host,
                identity,
                files,
                source,
                models,
                jobs,
                summaries,
                record_deletion,
                clock,
                rest,
            };
            engine = engine.with_node(Arc::new(facts));
        }
        if let Some(commands) = &self.commands {
            engine = engine.with_commands(Arc::clone(commands));
        }
        Ok(SearchService::new(SearchServiceParts {
            engine,
            source,
            clock: self.clock.clone(),
            zone: self.zone.clone(),
            default_indexes: vec![DEFAULT_INDEX.to_owned()],
            recorder: jobs.map(|jobs| jobs as Arc<dyn JobRecorder>),
            summaries,
        }))
    }
}

/// The spill folder; `None` (the system's temporary folder) if the data directory is missing or read-only, because a
/// search does not create a data directory.
fn spill_folder(data_dir: &Path) -> Option<PathBuf> {
    if !data_dir.is_dir() {
        return None;
    }
    let folder = data_dir.join(SPILL_FOLDER);
    std::fs::create_dir_all(&folder).ok().map(|()| folder)
}

/// Removes spill files of dead processes. The caller has locked the data directory for writing, so no other process
/// searches.
pub fn remove_orphaned_spills(data_dir: &Path) {
    let folder = data_dir.join(SPILL_FOLDER);
    if let Err(error) = std::fs::remove_dir_all(&folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        let folder = folder.display();
        log::note(format!("{folder}: files of searches that were stopped cannot be removed: {error}"));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use quarry_apps::{read_apps, read_readable, read_view, read_with_private};
    use quarry_conf::Reader;
    use quarry_stdx::{Fault, SystemClock};

    use super::*;
    use crate::namespaces::Visibility;

    /// Settings of a data directory; fails if the namespace does not exist.
    pub(crate) fn load_settings(dir: &Path, visibility: &Visibility, reader: &Reader) -> Result<SearchSettings, Fault> {
        let readable = Arc::new(read_readable(dir, reader));
        let own = visibility.private_namespace();
        let (layers, view) = match visibility {
            Visibility::Apps => (read_apps(dir, &readable), None),
            Visibility::AppsAndOwn(user) => (read_with_private(dir, user, &readable), None),
            Visibility::Namespace(namespace) => {
                read_view(dir, namespace.clone(), &readable).map(|(layers, view)| (layers, Some(Arc::new(view))))?
            }
        };
        let props = Arc::new(PropsResolver::new(&layers));
        let (data_dir, clock) = (Some(dir.to_owned()), SystemClock::shared());
        let host = "h".to_owned();
        let record_deletion: RecordDeletion = |_, _, _, _| EventBatch::default();
        let (zone, commands) = (TimeZone::UTC, None);
        let rest = Arc::default();
        Ok(SearchSettings {
            layers,
            view,
            own,
            readable,
            props,
            clock,
            zone,
            host,
            identity: NodeIdentity::default(),
            data_dir,
            in_place: false,
            commands,
            record_deletion,
            rest,
            files: None,
        })
    }
}
