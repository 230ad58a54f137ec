//! `quarry serve`: runs the node with its management port, until SIGINT, SIGTERM or a request to restart.
//!
//! `run/server.json` in the data directory contains the server's address for commands of the same account. The server
//! stops without sealing slabs, because acknowledged data is in the log.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quarry_api::{ApiState, Node};
use quarry_apps::rest_handlers::declared_endpoints;
use quarry_apps::run_file::RunFile;
use quarry_auth::{Auth, FIRST_USER};
use quarry_collections::{CollectionError, Collections};
use quarry_conf::{ServerSettings, SslSettings};
use quarry_ingest::{
    Ingest, SinkFactory, archive, index_settings, retention, watch_files, write_audit_events, write_audit_round,
    write_log, write_logged, write_messages, write_metrics,
};
use quarry_inputs::EventStore;
use quarry_listen::{
    Bounds, HttpPort, ListenError, Listeners, Security, listen_for_events, listen_on, raise_open_files,
};
use quarry_programs::{ManagementPort, ProgramSessions, start_inputs};
use quarry_search::jobs::Jobs;
use quarry_search::summaries;
use quarry_sharing::SharedFolder;
use quarry_stdx::{ErrorKind, HasKind, descriptors, log};
use quarry_store::{ExpiredBucket, RemovedBuckets, Store, ThawScanResult};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::cli::ServeArgs;
use crate::data_directory::{self, Settings};
use crate::edited_files::KnowledgeFiles;
use crate::failure::Failure;
use crate::input_indexes;
use crate::live_inputs::{Inputs, LiveInputs};
use crate::node::LocalNode;
use crate::open_node::{OpenNode, ServerEntries, THREAD_STACK_BYTES};
use crate::restart::{Restart, StopFlags};
use crate::server_client::Remote;
use crate::watched_paths;

/// Interval at which idle slabs are sealed and expired buckets and results are removed.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(60);
/// Interval at which abandoned searches are ended, expired jobs are removed, and edits of conf files are looked for.
const JOB_MAINTENANCE_INTERVAL: Duration = Duration::from_secs(2);
/// Interval at which shared files are checked for changes by other nodes.
const SHARED_FILES_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Time that shutdown waits for running requests.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of blocking threads besides those of running searches. These threads serve logins, inputs that wait
/// for the disk, long answers, and searches that are paused or queued.
const OTHER_THREADS_MAX: usize = 640;

/// Runs the server until it is stopped. A restart replaces the process.
pub(crate) fn run(data_dir: &Path, arguments: &ServeArgs) -> Result<u8, Failure> {
    let restart = run_until_stopped(data_dir, arguments)?;
    quarry_programs::end_all();
    // A signal ends the server even if it arrives after the request to restart, while the store is being closed.
    match restart.filter(|restart| !restart.signals.have_arrived_or_default()) {
        Some(restart) => Err(restart.execute()),
        None => Ok(0),
    }
}

/// Runs the server until a signal or a request to restart; returns the requested restart, if any.
fn run_until_stopped(data_dir: &Path, arguments: &ServeArgs) -> Result<Option<Restart>, Failure> {
    log::start_recording();
    let address = parse_address("--mgmt", &arguments.mgmt)?;
    let s2s = arguments.s2s.as_deref().map(|text| parse_address("--s2s", text)).transpose()?;
    let hec = arguments.hec.as_deref().map(|text| parse_address("--hec", text)).transpose()?;
    if let Some(address) = &arguments.web {
        log::note(format!("--web {address}: this version has no such service; the port is not opened"));
    }
    descriptors::raise_limit();
    // The files are examined before the configuration is read, so that edits during a long start are found.
    let files = KnowledgeFiles::new(data_dir);
    let settings = Settings::for_server(data_dir);
    let tls = ServerSettings::new(&settings.layers).tls.filter(|_| !arguments.insecure);
    if tls.is_none() && !address.ip().is_loopback() {
        return Err(Failure::Usage(format!(
            "--mgmt {address} is reachable from other machines, and passwords must not be sent unencrypted: leave out \
             --insecure and enableSplunkdSSL = false in [sslConfig] of server.conf, or bind 127.0.0.1"
        )));
    }
    if !data_dir.exists() {
        // The management port is tried first, so that a server that cannot open it creates nothing.
        std::net::TcpListener::bind(address).map_err(|error| listen_error(address, error))?;
    }
    let store = data_directory::open_to_serve(data_dir, &settings).map_err(|failure| match Remote::find(data_dir) {
        Some(remote) => {
            Failure::Storage(format!("{}; a quarry server is running at {}", failure.text(), remote.address()))
        }
        None => failure,
    })?;
    // The folder is locked, so an existing run file was left by a dead server.
    RunFile::remove_stale(data_dir);
    let open = OpenNode::new(data_dir, settings, store)?;
    report_first_password(&open.state.auth);
    let OpenNode { state, node, searching, shared, collections } = open;
    if shared.is_some() {
        log::note(
            "this node shares users, knowledge objects and documents of collections; jobs and sessions stay on the node that has them",
        );
    }
    let layers = &node.ingest.settings.layers;
    input_indexes::notes(layers, &node.ingest.store).iter().for_each(log::note);
    watched_paths::report(layers);
    let jobs = Arc::clone(&state.jobs);
    let of_builder = Arc::clone(&node);
    let current = Box::new(move || of_builder.search());
    let building = summaries::start(current, &node.settings().clock, &node.summary_signal);
    let building = building.map_err(|error| Failure::Storage(format!("cannot start a thread: {error}")))?;
    let runtime = start_runtime(state.searches_max() + state.real_time_max())?;
    // Dropping the engine joins its threads, which must not happen on a thread that serves requests.
    let _outlives_requests = state.clone();
    let listen = ListenAddresses { management: address, tls, hec, s2s };
    let rest = Arc::clone(&searching.rest);
    let (runtime_handle, data_dir_of_rest) = (runtime.handle().clone(), data_dir.to_path_buf());
    rest.connect(Arc::new(ServerEntries { state: state.clone(), runtime: runtime_handle, data_dir: data_dir_of_rest }));
    let following =
        shared.map(|shared| follow_other_nodes((shared, collections), node.clone(), Arc::clone(&state.auth)));
    let following = following.map(|following| runtime.spawn(following));
    let served = runtime.block_on(serve(data_dir, listen, state, (node.clone(), files)));
    following.inspect(JoinHandle::abort);
    jobs.shut_down();
    // The REST interface keeps the searches alive, and the searches keep the connection; disconnecting breaks the
    // cycle.
    rest.disconnect();
    drop(building);
    runtime.shutdown_timeout(STOP_TIMEOUT);
    node.ingest.store.close();
    served
}

/// Starts the threads that serve requests and this many searches at once.
fn start_runtime(searches: usize) -> Result<tokio::runtime::Runtime, Failure> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.enable_all().thread_stack_size(THREAD_STACK_BYTES).max_blocking_threads(searches + OTHER_THREADS_MAX);
    runtime.build().map_err(|error| Failure::Storage(format!("cannot start threads: {error}")))
}

/// Reports the initial password at each start until it is changed.
fn report_first_password(auth: &Auth) {
    let (name, password) = FIRST_USER;
    match auth.has_first_password() {
        Ok(false) => {}
        Ok(true) => log::warning(format!(
            "user {name} still has the password {password}, which everybody knows: change it with `quarry user passwd \
             {name}`; this password is refused from other machines, and on ports that other machines can reach"
        )),
        // The server still starts, because other users can log in.
        Err(error) => log::warning(error),
    }
}

pub(crate) fn parse_address(option: &str, text: &str) -> Result<SocketAddr, Failure> {
    let parsed = text.parse::<SocketAddr>();
    parsed.map_err(|_| Failure::Usage(format!("{option} {text}: give an address and a port, as in 127.0.0.1:8089")))
}

/// Addresses to listen on, with the TLS settings of the management port.
struct ListenAddresses {
    management: SocketAddr,
    /// TLS of the management port.
    tls: Option<SslSettings>,
    hec: Option<SocketAddr>,
    s2s: Option<SocketAddr>,
}

async fn serve(
    data_dir: &Path,
    listen: ListenAddresses,
    state: ApiState,
    (node, files): (Arc<LocalNode>, KnowledgeFiles),
) -> Result<Option<Restart>, Failure> {
    let address = listen.management;
    raise_open_files();
    let cannot = |error: std::io::Error| listen_error(address, error);
    let security = match &listen.tls {
        Some(tls) => Security::optional_tls(data_dir, &node.ingest.settings.host, tls)?,
        None => Security::Clear,
    };
    let scheme = if listen.tls.is_some() { "https" } else { "http" };
    let listener = listen_on(address).map_err(cannot)?;
    let address = node.set_management_address(listener.local_addr().map_err(cannot)?);
    let (ingest, inputs) = (&node.ingest, &node.ingest.settings);
    let sinks: Arc<dyn SinkFactory> = Arc::<Ingest>::clone(ingest);
    let events: Arc<dyn EventStore> = Arc::<Ingest>::clone(ingest);
    let collector = listen_for_events(data_dir, listen.hec, inputs, Arc::clone(&events)).await?;
    let (mut listeners, faults) = Listeners::start(data_dir, inputs, listen.s2s, &|_| Arc::clone(&events)).await?;
    if let Some(listening) = &collector {
        node.tokens.attach(&listening.collector);
    }
    let calls = collector.as_ref().and_then(|collector| collector.calls);
    listeners.addresses.extend(calls.map(|address| ("otlp".to_owned(), address)));
    let (stop, signals) =
        catch_signals().map_err(|error| Failure::Storage(format!("cannot handle signals: {error}")))?;
    // The inputs start only now, so that a second server, whose ports are in use, reads no files and runs no programs.
    let monitors = watch_files(inputs, &sinks)?;
    let management = ManagementPort { address, sessions: Arc::new(SessionsForPrograms(Arc::clone(&state.auth))) };
    let programs = start_inputs(data_dir, inputs, Some(management), &|_| Arc::clone(&events))?;
    let hec = collector.as_ref().map(|collector| collector.address);
    let run_file = RunFile::write(data_dir, addresses(address, hec, &listeners, state.auth.local_token()))?;
    let logged_until = log_store_messages(&node, 0);
    declared_endpoints(data_dir).iter().for_each(|endpoint| log::warning(endpoint.message()));
    log::info(format!("quarry serves {} on {scheme}://{address}", data_dir.display()));
    let (figured, folder) = (Arc::clone(ingest), data_dir.to_path_buf());
    let counts = (state.auth.users().len(), node.settings().pipeline_sets(), state.searches_max());
    let texts = start_messages(data_dir, &format!("{scheme}://{address}"), hec, &listeners, counts);
    write_messages(ingest, data_dir, texts.iter().map(|text| ("INFO", text.as_str())));
    let bound = [("mgmt", Some(address)), ("hec", hec), ("s2s", listeners.requested_address())].into_iter();
    let bound = bound.filter_map(|(option, address)| Some((option, address?))).collect();
    let live = LiveInputs::start(Inputs { listeners, monitors, programs }, &node, faults)?;
    let logged = tokio::spawn(write_log(Arc::clone(ingest), data_dir.to_path_buf()));
    let figures = tokio::spawn(async move { write_metrics(figured, &folder).await });
    let maintenance = tokio::spawn(maintain(Arc::clone(&node), data_dir.to_path_buf(), logged_until));
    let auth = Arc::clone(&state.auth);
    let jobs = tokio::spawn(maintain_jobs(Arc::clone(&state.jobs), Arc::clone(&node), files));
    let audit = tokio::spawn(write_audit_events(Arc::clone(ingest), Arc::clone(&auth)));
    let stop = signal_or_restart(stop, Arc::clone(&node), state.clone());
    let (name, router) = (format!("management port {address}"), quarry_api::router(state));
    HttpPort { name, listener, security, router, bounds: Bounds::for_management() }.serve(stop).await;
    [maintenance, figures, audit, logged, jobs].iter().for_each(JoinHandle::abort);
    let reading = live.stop_listening().await;
    if let Some(collector) = collector {
        collector.stop().await;
    }
    drop(run_file);
    // Stopping waits for programs and for the store; this wait must not block a runtime thread.
    let (folder, program) = (data_dir.to_path_buf(), node.restart.program());
    let ended = tokio::task::spawn_blocking(move || {
        write_audit_round(&node.ingest, &auth);
        drop(reading);
        write_logged(&node.ingest, &folder);
    });
    drop(ended.await);
    log::info("quarry stopped");
    Ok(program.map(|program| Restart { program, bound, signals }))
}

/// Sessions of the node for programs of inputs.
struct SessionsForPrograms(Arc<Auth>);

impl ProgramSessions for SessionsForPrograms {
    fn open(&self, user: Option<&str>) -> Option<String> {
        match user {
            Some(user) => self.0.open_program_session_of(user),
            None => Some(self.0.open_program_session()),
        }
    }

    fn end(&self, key: &str) {
        self.0.end_program_session(key);
    }
}

/// A future that resolves on a signal, and the flags that a restart reads. Until both exist, a signal ends the process
/// at once.
fn catch_signals() -> std::io::Result<(impl Future<Output = ()>, StopFlags)> {
    let flags = StopFlags::install()?;
    let stop = stop_signal()?;
    flags.catch();
    Ok((stop, flags))
}

/// A future that resolves on a signal or on a request to restart.
async fn signal_or_restart(signal: impl Future<Output = ()>, node: Arc<LocalNode>, state: ApiState) {
    tokio::select! {
        () = signal => {}
        () = node.restart.requested() => log::info("restarting: running requests are finished"),
    }
    state.end_real_time();
}

/// The error for a management port that cannot be opened.
fn listen_error(address: SocketAddr, source: std::io::Error) -> ListenError {
    ListenError::Address { name: "management port".to_owned(), setting: "--mgmt", address, source }
}

/// Messages about the start of the node.
fn start_messages(
    data_dir: &Path,
    management: &str,
    hec: Option<SocketAddr>,
    listeners: &Listeners,
    (users, pipelines, searches): (usize, usize, usize),
) -> Vec<String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut lines = vec![
        format!("quarry {} has started, pid={}", env!("CARGO_PKG_VERSION"), std::process::id()),
        format!("data directory {}", data_dir.display()),
        format!("os={} arch={} cores={cores}", std::env::consts::OS, std::env::consts::ARCH),
        format!("management port {management}"),
        format!("users {users}"),
        format!("concurrent searches {searches}"),
        format!("pipeline sets {pipelines}"),
        format!("maintenance every {} s", MAINTENANCE_INTERVAL.as_secs()),
        format!("job maintenance every {} s", JOB_MAINTENANCE_INTERVAL.as_secs()),
    ];
    lines.extend(hec.map(|address| format!("event collector http://{address}/services/collector")));
    lines.extend(listeners.addresses.iter().map(|(what, address)| format!("input {what} on {address}")));
    lines
}

/// Resolves on SIGINT or SIGTERM.
pub(crate) fn stop_signal() -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        log::info("stopping: running requests are finished");
    })
}

/// Periodically applies the changes of other nodes to shared files and documents.
async fn follow_other_nodes(
    (shared, collections): (Arc<SharedFolder>, Arc<Collections>),
    node: Arc<LocalNode>,
    auth: Arc<Auth>,
) {
    // Kind of the last failure to apply documents; repeated failures of this kind are not logged.
    let failed: Arc<Mutex<Option<ErrorKind>>> = Arc::default();
    loop {
        tokio::time::sleep(SHARED_FILES_POLL_INTERVAL).await;
        let (shared, node, auth) = (Arc::clone(&shared), node.clone(), Arc::clone(&auth));
        let (collections, failed) = (Arc::clone(&collections), Arc::clone(&failed));
        let round = tokio::task::spawn_blocking(move || {
            shared.poll();
            log_changed_failure(collections.apply_shared_changes(), &failed);
            if shared.take_changed().is_empty() {
                return;
            }
            if let Err(fault) = auth.reload() {
                log::warning(fault);
            }
            node.record_file_change();
            auth.set_roles(|| node.roles());
        });
        // If the round fails, the next round tries again.
        drop(round.await);
    }
}

/// Periodically ends abandoned searches, removes expired jobs, and applies edits of knowledge objects by hand.
async fn maintain_jobs(jobs: Arc<Jobs>, node: Arc<LocalNode>, files: KnowledgeFiles) {
    let files = Arc::new(Mutex::new(files));
    loop {
        tokio::time::sleep(JOB_MAINTENANCE_INTERVAL).await;
        let (jobs, node, files) = (Arc::clone(&jobs), Arc::clone(&node), Arc::clone(&files));
        // If the round fails, the next round tries again.
        drop(
            tokio::task::spawn_blocking(move || {
                jobs.enforce_lifetimes();
                node.record_edits(&files.lock().unwrap_or_else(PoisonError::into_inner).take_edited());
            })
            .await,
        );
    }
}

/// Periodically seals idle slabs and removes expired buckets and results. The first round runs at the start, so that a
/// node that is often restarted is maintained too. The store's messages up to `logged_until` are already logged.
async fn maintain(node: Arc<LocalNode>, data_dir: PathBuf, mut logged_until: i64) {
    loop {
        let (maintained, data_dir) = (Arc::clone(&node), data_dir.clone());
        let round = tokio::task::spawn_blocking(move || {
            maintained.settings().open_job_store(&data_dir).remove_expired();
            maintenance_round(&maintained, &data_dir, logged_until)
        });
        let round = round.await;
        logged_until = round.unwrap_or(logged_until);
        // A request may ask for a round before the interval has passed.
        let _request = tokio::time::timeout(MAINTENANCE_INTERVAL, node.maintenance_requested.notified()).await;
    }
}

/// Runs one round of maintenance; returns the time up to which the store's messages were logged.
fn maintenance_round(node: &LocalNode, data_dir: &Path, logged_until: i64) -> i64 {
    let settings = node.settings();
    let (store, layers): (&Store, _) = (&node.ingest.store, &settings.layers);
    if let Err(error) = store.seal_idle() {
        log::warning(format!("idle events cannot be sealed: {error}"));
    }
    let rules = retention(layers, store.stats().into_iter().map(|stats| stats.index));
    let archived = |bucket: &ExpiredBucket| archive(data_dir, &index_settings(layers, &bucket.index), bucket);
    match store.run_retention(&rules, &archived) {
        Ok(RemovedBuckets { too_old, too_many }) => {
            let reasons = ["expired buckets removed", "oldest buckets removed, the index exceeds its maximum size"];
            for (ids, reason) in [too_old, too_many].into_iter().zip(reasons).filter(|(ids, _)| !ids.is_empty()) {
                let text = format!("{reason}: {}", ids.join(", "));
                log::info(&text);
                write_messages(&node.ingest, data_dir, [("INFO", text.as_str())]);
            }
        }
        Err(error) => log::warning(format!("old buckets cannot be removed: {error}")),
    }
    match store.scan_thawed() {
        Ok(ThawScanResult { added, removed, refused }) => {
            for (ids, what) in [(added, "thawed"), (removed, "thawed buckets removed")] {
                if !ids.is_empty() {
                    log::info(format!("{what}: {}", ids.join(", ")));
                }
            }
            refused.iter().for_each(log::warning);
        }
        Err(error) => log::warning(format!("thawed buckets cannot be listed: {error}")),
    }
    log_store_messages(node, logged_until)
}

/// Logs messages of the store newer than `logged_until`; returns the time of the newest.
fn log_store_messages(node: &LocalNode, logged_until: i64) -> i64 {
    let fresh = node.ingest.store.messages().into_iter().filter(|message| message.time > logged_until);
    let fresh: Vec<_> = fresh.collect();
    fresh.iter().for_each(|message| log::warning(&message.text));
    fresh.last().map_or(logged_until, |message| message.time)
}

/// Contents of the run file, with which the command line finds the server: addresses and a token.
fn addresses(
    management: SocketAddr,
    hec: Option<SocketAddr>,
    listeners: &Listeners,
    token: &str,
) -> serde_json::Map<String, Value> {
    let facts = [
        ("mgmt", json!(management.to_string())),
        ("hec", json!(hec.map(|address| address.to_string()))),
        ("inputs", json!(listeners.addresses)),
        ("token", json!(token)),
    ];
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Logs a failure to apply documents of other nodes unless it is of the same kind as the last failure.
fn log_changed_failure(done: Result<(), CollectionError>, last: &Mutex<Option<ErrorKind>>) {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    let kind = done.as_ref().err().map(HasKind::kind);
    if let Err(error) = &done
        && *last != kind
    {
        log::warning(format!("shared documents: {error}"));
    }
    *last = kind;
}
