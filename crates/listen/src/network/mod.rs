//! Ports for text and forwarders' data: sockets, TLS, limits, logging.
//!
//! A connection must hold a turn ([`read_slots::ReadSlots`]) to read, extract events and append; the number of turns is
//! bounded. While the store is busy, no connection is read, so that senders wait.
//!
//! Ports follow changes of inputs.conf ([`Listeners::apply`]): a socket whose stanzas have changed is closed, the data
//! that it received is stored, and the socket is opened again. Other sockets and their connections stay.
//!
//! Not here: decoding received bytes (`quarry_inputs::network`), the HTTP Event Collector.

mod forwarders;
mod limits;
mod names;
mod read_slots;
mod senders;
mod tcp;
#[cfg(test)]
mod tests;
mod udp;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quarry_conf::{NetworkInput, NetworkInputSettings, NetworkKind, SslSettings};
use quarry_inputs::network::{AccessList, Template};
use quarry_inputs::{EventStore, InputSettings};
use quarry_pipeline::EventTyping;
use quarry_stdx::log;
use tokio::sync::{mpsc, watch};

use crate::error::{ListenError, advice};
use crate::tls;
use limits::Limits;
pub use limits::raise_open_files;
use names::Names;
use read_slots::ReadSlots;
use senders::Senders;

/// Time that shutdown waits for connections.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of log messages.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// State shared by the stanzas of a socket; all sockets share the turns, limits, cached DNS names and senders.
pub(crate) struct Shared {
    /// Accepted tokens: a forwarder must present one of them.
    pub(crate) forwarder_tokens: Option<Arc<[String]>>,
    pub(crate) settings: Arc<InputSettings>,
    pub(crate) turns: Arc<ReadSlots>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) names: Arc<Names>,
    pub(crate) senders: Arc<Senders>,
    /// Set when the socket closes.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Held by every task that must end before the store closes.
    pub(crate) alive: mpsc::Sender<()>,
}

pub(crate) struct Port {
    pub(crate) input: NetworkInput,
    pub(crate) access: AccessList,
    pub(crate) store: Arc<dyn EventStore>,
    /// Rules for parsed events of forwarders.
    pub(crate) typing: Arc<EventTyping>,
    pub(crate) shared: Arc<Shared>,
}

/// Stanzas that share a socket. Stanzas that name a sender come first; the first stanza that allows a sender applies to
/// it.
#[derive(Clone)]
pub(crate) struct PortGroup(Arc<[Arc<Port>]>);

/// Identifies a shared socket.
type SocketKey = (NetworkKind, bool, SocketAddr);

/// A socket as inputs.conf describes it. If anything in it changes, the socket is opened again.
#[derive(Clone, Debug, PartialEq)]
struct SocketConfig {
    key: SocketKey,
    inputs: Vec<NetworkInput>,
    /// Accepted tokens; only for forwarders' ports.
    tokens: Option<Arc<[String]>>,
    /// Settings of TLS; only for ports with TLS.
    ssl: Option<SslSettings>,
}

/// An open socket with the tasks behind it.
struct OpenSocket {
    wanted: SocketConfig,
    /// Errors in those stanzas of the socket that cannot be used.
    faults: Vec<ListenError>,
    stop: watch::Sender<bool>,
    ended: mpsc::Receiver<()>,
}

/// The listening ports.
pub struct Listeners {
    /// Bound address of each stanza.
    pub addresses: BTreeMap<String, SocketAddr>,
    data_dir: PathBuf,
    /// Address for forwarders that the command line names.
    requested: Option<SocketAddr>,
    open: Vec<OpenSocket>,
    turns: Arc<ReadSlots>,
    limits: Arc<Limits>,
    names: Arc<Names>,
    senders: Arc<Senders>,
    /// Ends the task that logs what was refused or lost.
    stop_logging: watch::Sender<bool>,
}

/// Maps a port's routing to its event store.
pub(crate) type Stores<'a> = &'a (dyn Fn(Option<&str>) -> Arc<dyn EventStore> + Sync);

impl Listeners {
    /// Opens the sockets of inputs.conf, and for forwarders also `asked`; returns the faults of stanzas that could not
    /// be opened. Only a fault of `asked` is an error: if another process uses a port of inputs.conf, the node still
    /// has its other inputs and the interface through which the stanza can be corrected.
    pub async fn start(
        data_dir: &Path,
        node: &Arc<InputSettings>,
        asked: Option<SocketAddr>,
        stores: Stores<'_>,
    ) -> Result<(Listeners, Vec<String>), ListenError> {
        let (stop_logging, until) = watch::channel(false);
        let mut listeners = Listeners {
            addresses: BTreeMap::new(),
            data_dir: data_dir.to_owned(),
            requested: asked,
            open: Vec::new(),
            turns: Arc::new(ReadSlots::new()),
            limits: Arc::new(Limits::new()),
            names: Arc::default(),
            senders: Arc::default(),
            stop_logging,
        };
        let mut faults = listeners.follow(node, stores).await;
        let requested = asked.map(|address| NetworkInput::for_forwarders(&node.layers, address).stanza);
        let is_fatal = |fault: &ListenError| match fault {
            ListenError::Stanza { stanza, .. } => Some(stanza) == requested.as_ref(),
            _ => false,
        };
        if let Some(at) = faults.iter().position(is_fatal) {
            return Err(faults.swap_remove(at));
        }
        let is_requested = |open: &OpenSocket| {
            asked.is_none_or(|address| open.wanted.key == (NetworkKind::Forwarders, false, address))
        };
        // Another stanza may share the socket; the fault then names both.
        if asked.is_some()
            && !listeners.open.iter().any(is_requested)
            && let Some(fault) = faults.pop()
        {
            return Err(fault);
        }
        let faults = listeners.with_open_faults(&faults);
        tokio::spawn(log_limits(Arc::clone(&listeners.limits), until));
        Ok((listeners, faults))
    }

    /// Closes the sockets whose stanzas have changed or are gone, and opens those of new and changed stanzas. Returns
    /// the faults of stanzas that could not be opened.
    pub async fn apply(&mut self, node: &Arc<InputSettings>, stores: Stores<'_>) -> Vec<String> {
        let faults = self.follow(node, stores).await;
        self.with_open_faults(&faults)
    }

    /// These faults, and those of unusable stanzas of open sockets.
    fn with_open_faults(&self, faults: &[ListenError]) -> Vec<String> {
        let of_open = self.open.iter().flat_map(|open| open.faults.iter());
        faults.iter().chain(of_open).map(ToString::to_string).collect()
    }

    /// Like [`Listeners::apply`]; returns the errors of sockets that could not be opened.
    async fn follow(&mut self, node: &Arc<InputSettings>, stores: Stores<'_>) -> Vec<ListenError> {
        let (wanted, mut faults) = configured_sockets(node, self.requested);
        let (kept, changed) =
            std::mem::take(&mut self.open).into_iter().partition(|open| wanted.contains(&open.wanted));
        self.open = kept;
        self.close(changed).await;
        for socket in wanted {
            if !self.open.iter().any(|open| open.wanted == socket)
                && let Err(error) = self.listen(socket, node, stores)
            {
                faults.push(error);
            }
        }
        faults
    }

    /// Opens a socket for those of its stanzas that are valid; fails if none is.
    fn listen(
        &mut self,
        wanted: SocketConfig,
        node: &Arc<InputSettings>,
        stores: Stores<'_>,
    ) -> Result<(), ListenError> {
        raise_open_files();
        let (stop, stopping) = watch::channel(false);
        let (alive, ended) = mpsc::channel(1);
        let shared = Arc::new(Shared {
            forwarder_tokens: wanted.tokens.clone(),
            settings: Arc::clone(node),
            turns: Arc::clone(&self.turns),
            limits: Arc::clone(&self.limits),
            names: Arc::clone(&self.names),
            senders: Arc::clone(&self.senders),
            stopping,
            alive,
        });
        let (mut ports, mut faults) = (Vec::new(), Vec::new());
        for input in &wanted.inputs {
            match build_port(input.clone(), &shared, stores) {
                Ok(port) => ports.push(port),
                Err(fault) => faults.push(fault),
            }
        }
        if ports.is_empty()
            && let Some(fault) = faults.pop()
        {
            return Err(fault);
        }
        let group = PortGroup(ports.into());
        let names = || group.0.iter().map(|port| port.input.stanza.as_str());
        let acceptor = match &wanted.ssl {
            Some(ssl) => Some(tls::acceptor(&self.data_dir, &node.host, ssl, &[])?),
            None => None,
        };
        let (kind, _, address) = wanted.key;
        let bound = match kind {
            NetworkKind::Tcp => tcp::listen(&group, address, acceptor),
            NetworkKind::Udp => udp::listen(&group, address),
            NetworkKind::Forwarders => forwarders::listen(group.clone(), address, acceptor),
        };
        let stanza = names().collect::<Vec<_>>().join("], [");
        let bound = bound.map_err(|error| {
            let in_use = "stop the process that listens there, or change or disable the stanza in inputs.conf";
            stanza_error(&stanza, format!("cannot listen on {address}: {error}{}", advice(&error, in_use)))
        })?;
        log::info(format!("quarry receives events on {bound} ([{stanza}])"));
        self.addresses.extend(names().map(|name| (name.to_owned(), bound)));
        self.open.push(OpenSocket { wanted, faults, stop, ended });
        Ok(())
    }

    /// Bound address of the port for forwarders that the command line names.
    pub fn requested_address(&self) -> Option<SocketAddr> {
        let key = (NetworkKind::Forwarders, false, self.requested?);
        let open = self.open.iter().find(|open| open.wanted.key == key)?;
        open.wanted.inputs.iter().find_map(|input| self.addresses.get(&input.stanza).copied())
    }

    /// Closes sockets and waits until what they have received is stored.
    async fn close(&mut self, sockets: Vec<OpenSocket>) {
        for open in &sockets {
            open.stop.send_replace(true);
        }
        let until = tokio::time::Instant::now() + STOP_TIMEOUT;
        for mut open in sockets {
            let names: Vec<&str> = open.wanted.inputs.iter().map(|input| input.stanza.as_str()).collect();
            self.addresses.retain(|stanza, _| !names.contains(&stanza.as_str()));
            if tokio::time::timeout_at(until, open.ended.recv()).await.is_err() {
                let names = names.join("], [");
                log::warning(format!("[{names}] did not finish in time; data that was not stored is lost"));
            }
        }
    }

    /// Stops accepting data and waits until received data is stored.
    pub async fn stop(mut self) {
        let open = std::mem::take(&mut self.open);
        self.close(open).await;
        self.stop_logging.send_replace(true);
    }
}

/// The sockets that inputs.conf describes, and the faults of stanzas without a socket. Stanzas of one address share a
/// socket; a stanza with a system-assigned port number has a socket of its own.
fn configured_sockets(node: &InputSettings, asked: Option<SocketAddr>) -> (Vec<SocketConfig>, Vec<ListenError>) {
    let mut settings = NetworkInputSettings::new(&node.layers);
    let tokens: Option<Arc<[String]>> = settings.forwarder_tokens.take().map(Into::into);
    if let Some(address) = asked {
        // `asked` replaces the address of a stanza with the same port but keeps its settings; a stanza that names its
        // sender or uses TLS stays.
        let gives_way = |input: &NetworkInput| {
            input.kind == NetworkKind::Forwarders
                && input.port == address.port()
                && !input.tls
                && input.remote.is_none()
        };
        settings.inputs.retain(|input| !gives_way(input));
        settings.inputs.push(NetworkInput::for_forwarders(&node.layers, address));
    }
    settings.faults().iter().for_each(log::warning);
    let (mut sockets, mut faults) = (Vec::<SocketConfig>::new(), Vec::new());
    for input in settings.inputs {
        let Ok(bind) = input.bind.parse() else {
            let reason = format!("bindAddress = {}: give an address such as 127.0.0.1", input.bind);
            faults.push(stanza_error(&input.stanza, reason));
            continue;
        };
        let key = (input.kind, input.tls, SocketAddr::new(bind, input.port));
        match sockets.iter_mut().find(|known| known.key == key && input.port != 0) {
            Some(known) => known.inputs.push(input),
            None => {
                let tokens = tokens.clone().filter(|_| input.kind == NetworkKind::Forwarders);
                let ssl = input.tls.then(|| settings.ssl.clone());
                sockets.push(SocketConfig { key, inputs: vec![input], tokens, ssl });
            }
        }
    }
    sockets.iter_mut().for_each(|socket| socket.inputs.sort_by_key(|input| input.remote.is_none()));
    (sockets, faults)
}

fn build_port(input: NetworkInput, shared: &Arc<Shared>, stores: Stores<'_>) -> Result<Arc<Port>, ListenError> {
    let store = stores(input.routing.as_deref());
    store.check_index(&input.index).map_err(|fault| stanza_error(&input.stanza, fault))?;
    let access = build_access_list(&input)?;
    let typing = Arc::new(EventTyping::new(Arc::clone(&shared.settings.props)));
    Ok(Arc::new(Port { input, access, store, typing, shared: Arc::clone(shared) }))
}

fn stanza_error(stanza: &str, reason: impl ToString) -> ListenError {
    ListenError::Stanza { stanza: stanza.to_owned(), reason: reason.to_string() }
}

impl PortGroup {
    /// Index of the stanza for a sender; a sender that no stanza allows is counted.
    pub(crate) fn find_stanza(&self, sender: IpAddr) -> Option<usize> {
        let found = self.0.iter().position(|port| port.access.allows(sender));
        if let (None, Some(port)) = (found, self.0.first()) {
            port.shared.limits.forbidden.fetch_add(1, Ordering::Relaxed);
        }
        found
    }
}

impl Port {
    /// Pipeline settings shared by the port's senders.
    pub(crate) fn template(&self, bound: SocketAddr) -> Template {
        let (word, sourcetype) = match self.input.kind {
            NetworkKind::Udp => ("udp", format!("udp:{}", bound.port())),
            _ => ("tcp", "tcp-raw".to_owned()),
        };
        let template = Template {
            index: self.input.index.clone(),
            source: self.input.source.clone().unwrap_or_else(|| format!("{word}:{}", bound.port())),
            sourcetype: self.input.sourcetype.clone().unwrap_or(sourcetype),
            props: Arc::clone(&self.shared.settings.props),
            kind: self.input.kind,
        };
        if let Some(problem) = template.settings_error(self.shared.settings.clock.now_ns()) {
            log::warning(format!("[{}]: {problem}; received data is indexed without it", self.input.stanza));
        }
        template
    }
}

/// Access list from `acceptFrom` and the host named by the stanza.
fn build_access_list(input: &NetworkInput) -> Result<AccessList, ListenError> {
    let listed = AccessList::new(input.accept_from.iter().map(String::as_str));
    let listed = listed.map_err(|fault| stanza_error(&input.stanza, fault))?;
    let Some(remote) = &input.remote else { return Ok(listed) };
    let addresses = match remote.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) => names::resolve_addresses(remote).map_err(|source| ListenError::UnknownSender {
            stanza: input.stanza.clone(),
            sender: remote.clone(),
            source,
        })?,
    };
    Ok(listed.restricted_to(&addresses))
}

/// Resolves when the server stops or the socket closes.
pub async fn wait_stopped(stopping: &mut watch::Receiver<bool>) {
    // A dropped sender counts as the signal to stop.
    drop(stopping.wait_for(|stopping| *stopping).await);
}

/// Periodically logs the counts of refused connections and lost events.
async fn log_limits(limits: Arc<Limits>, mut stopping: watch::Receiver<bool>) {
    while tokio::time::timeout(LOG_INTERVAL, wait_stopped(&mut stopping)).await.is_err() {
        limits.log_counts();
    }
    limits.log_counts();
}
