//! A data directory opened as a node: store, users, search services and the state of the REST interface.
//!
//! `serve` opens a node to answer the requests of its port. Verbs on objects open a node in their own process if no
//! server has the folder open ([`crate::node_client`]). Not here: ports, inputs and maintenance ([`crate::serve`]).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_api::{ApiState, listed_entries, listed_paths};
use quarry_apps::objects::Objects;
use quarry_apps::run_file::management_address;
use quarry_auth::{Auth, AuthError, TokensFile, UsersFile};
use quarry_collections::Collections;
use quarry_conf::{LimitSettings, Permissions, Reader, Roles, ServerSettings};
use quarry_engine::{EntriesRequest, NodeEntry, NodeSession};
use quarry_ingest::{Ingest, open_shared_files};
use quarry_search::{Namespaces, RestEntries, SearchSettings, Visibility};
use quarry_sharing::SharedFolder;
use quarry_stdx::{Fault, NodeFiles, SharedFiles, log, random};
use quarry_store::Store;
use tokio::runtime::Handle;

use crate::data_directory::{Settings, environment_variables};
use crate::failure::Failure;
use crate::identity;
use crate::node::LocalNode;

/// Stack size of request threads; a search may run on the thread that answers its request.
pub(crate) const THREAD_STACK_BYTES: usize = quarry_engine::STACK_BYTES + (1 << 20);

/// An open node without ports.
pub(crate) struct OpenNode {
    /// State of the REST interface.
    pub(crate) state: ApiState,
    /// The node itself.
    pub(crate) node: Arc<LocalNode>,
    /// Settings of searches.
    pub(crate) searching: SearchSettings,
    /// Files shared with other nodes, if any.
    pub(crate) shared: Option<Arc<SharedFolder>>,
    /// The collections of the data directory.
    pub(crate) collections: Arc<Collections>,
}

impl OpenNode {
    /// Opens the node over a store that is open for writing.
    pub(crate) fn new(data_dir: &Path, settings: Settings, store: Arc<Store>) -> Result<OpenNode, Failure> {
        let shared = open_shared_files(data_dir, &settings.layers, &settings.clock, &environment_variables())?;
        let is_changed = shared.as_ref().is_some_and(|shared| !shared.take_changed().is_empty());
        let settings = if is_changed { Settings::of_data_dir(data_dir) } else { settings };
        let files = NodeFiles::shared_by(data_dir, shared.clone().map(|shared| shared as Arc<dyn SharedFiles>));
        let collections = Collections::of_data_dir(data_dir);
        if let Some(shared) = &shared {
            // One unreadable collection must not stop the node; the server tries again periodically.
            if let Err(error) = collections.share_through(shared.documents()) {
                log::warning(error);
            }
        }
        identity::create_if_missing(data_dir)?;
        let auth = Arc::new(open_auth(&files, &settings)?);
        settings.open_job_store(data_dir).remove_expired();
        let searching = SearchSettings { files: Some(files.clone()), ..settings.search_settings(Some(data_dir)) };
        let (of_namespace, rest, of_searches) = (data_dir.to_owned(), Arc::clone(&searching.rest), files.clone());
        let read = move |visibility: &Visibility, reader: &Reader| -> Result<SearchSettings, Fault> {
            let searching =
                Settings::for_visibility(&of_namespace, visibility, reader)?.search_settings(Some(&of_namespace));
            Ok(SearchSettings { rest: Arc::clone(&rest), files: Some(of_searches.clone()), ..searching })
        };
        let namespaces = Namespaces::new(&searching, store.clone(), Box::new(read))?;
        let jobs = Arc::clone(&namespaces.lasting);
        let settings = Arc::new(settings);
        let ingest = Arc::new(Ingest::new(store, settings.inputs()));
        let node = Arc::new(LocalNode::new(data_dir, ingest, settings, namespaces));
        // Weak, because the node owns the store.
        let of_node = Arc::downgrade(&node);
        let extraction = move || Some(of_node.upgrade()?.search().ok()?.engine().slab_extraction());
        node.ingest.store.store_extractions(Box::new(extraction));
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let limits = LimitSettings::new(&node.settings().layers);
        let searches_max = (limits.concurrent_searches_max(cpus), limits.concurrent_real_time_max(cpus));
        let state = ApiState::new(auth, jobs, node.clone(), Objects::with_files(files), searches_max);
        Ok(OpenNode { state, node, searching, shared, collections })
    }
}

/// The REST interface of a server, for searches that read its endpoints.
pub(crate) struct ServerEntries {
    /// State of the interface.
    pub(crate) state: ApiState,
    /// Runtime of the requests; a search waits for its request on a thread outside this runtime.
    pub(crate) runtime: Handle,
    /// The data directory, where the server records its address.
    pub(crate) data_dir: PathBuf,
}

impl RestEntries for ServerEntries {
    fn entries(&self, request: &EntriesRequest<'_>, viewer: &Permissions) -> Result<Option<Vec<NodeEntry>>, Fault> {
        self.runtime.block_on(listed_entries(&self.state, request, viewer))
    }

    fn endpoints(&self) -> Vec<String> {
        listed_paths()
    }

    fn open_session(&self, viewer: &Permissions) -> Option<NodeSession> {
        let address = management_address(&self.data_dir)?;
        let auth = Arc::clone(&self.state.auth);
        let key = auth.open_program_session_of(&viewer.user)?;
        let ended = key.clone();
        let end = Box::new(move || auth.end_program_session(&ended));
        Some(NodeSession::new(key, format!("http://{address}"), end))
    }
}

/// Opens the store of users and tokens.
fn open_auth(files: &NodeFiles, settings: &Settings) -> Result<Auth, Failure> {
    let file = UsersFile::of(files);
    let roles = Roles::new(&settings.layers);
    let users = file.read_or_create(&roles)?;
    let cannot = |error: AuthError| Failure::Storage(error.to_string());
    let clock = settings.clock.clone();
    let auth = Auth::new(users, Box::new(file), clock, Box::new(random::fill), Arc::new(roles)).map_err(cannot)?;
    auth.set_session_timeout(ServerSettings::new(&settings.layers).session_timeout_s);
    Ok(auth.with_tokens(TokensFile::of(files).read_or_create(&random::fill)?))
}
