//! Ports for text and forwarders' data: sockets, TLS, limits, logging.
//!
//! A connection must hold a turn ([`turns::Turns`]) to read, extract events and append; the number of turns is bounded.
//! While the store is busy, no connection is read, so that senders wait.
//!
//! Not here: decoding received bytes (`quarry_inputs::network`), the HTTP Event Collector.

mod forwarders;
mod limits;
mod names;
mod senders;
mod tcp;
mod turns;
mod udp;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quarry_conf::{NetworkInput, NetworkInputSettings, NetworkKind};
use quarry_inputs::network::{AccessList, Template};
use quarry_inputs::{EventStore, InputSettings};
use quarry_pipeline::EventTyping;
use quarry_stdx::{Fault, log};
use tokio::sync::{mpsc, watch};

use crate::error::ListenError;
use crate::tls;
use limits::Limits;
pub use limits::raise_open_files;
use names::Names;
use senders::Senders;
use turns::Turns;

/// Time that shutdown waits for connections.
const STOP_WAIT: Duration = Duration::from_secs(5);
/// Interval of log messages.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// State shared by all ports.
pub(crate) struct Shared {
    /// Accepted tokens: a forwarder must present one of them.
    pub(crate) forwarder_tokens: Option<Arc<[String]>>,
    pub(crate) settings: Arc<InputSettings>,
    pub(crate) turns: Turns,
    pub(crate) limits: Limits,
    pub(crate) names: Names,
    pub(crate) senders: Senders,
    /// Set when the server stops.
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
pub(crate) struct Stanzas(Arc<[Arc<Port>]>);

/// Identifies a shared socket.
type SocketKey = (NetworkKind, bool, SocketAddr);
type Sockets = Vec<(SocketKey, Vec<Arc<Port>>)>;

/// The listening ports.
pub struct Listeners {
    /// Bound address of each stanza.
    pub addresses: BTreeMap<String, SocketAddr>,
    stop: watch::Sender<bool>,
    ended: mpsc::Receiver<()>,
}

impl Listeners {
    /// Listens on the ports in inputs.conf, and for forwarders also on `asked`. `stores` maps a port's routing to its
    /// event store.
    pub async fn start(
        data_dir: &Path,
        node: &Arc<InputSettings>,
        asked: Option<SocketAddr>,
        stores: &dyn Fn(Option<&str>) -> Arc<dyn EventStore>,
    ) -> Result<Listeners, ListenError> {
        let mut settings = NetworkInputSettings::new(&node.layers);
        let forwarder_tokens = settings.forwarder_tokens.take().map(Into::into);
        if let Some(address) = asked {
            // `asked` replaces the address of a stanza with the same port but keeps its settings; a stanza that names
            // its sender keeps its own address.
            let gives_way = |input: &NetworkInput| {
                input.kind == NetworkKind::Forwarders
                    && input.port == address.port()
                    && !input.tls
                    && input.remote.is_none()
            };
            settings.inputs.retain(|input| !gives_way(input));
            settings.inputs.push(NetworkInput::of_forwarders(&node.layers, address));
        }
        for name in &settings.bad_names {
            log::warning(format!("inputs.conf [{name}]: no port in its name, so no port is opened"));
        }
        let (stop, stopping) = watch::channel(false);
        let (alive, ended) = mpsc::channel(1);
        let mut listeners = Listeners { addresses: BTreeMap::new(), stop, ended };
        if settings.inputs.is_empty() {
            return Ok(listeners);
        }
        raise_open_files();
        let shared = Arc::new(Shared {
            settings: Arc::clone(node),
            forwarder_tokens,
            turns: Turns::new(),
            limits: Limits::new(),
            names: Names::default(),
            senders: Senders::default(),
            stopping,
            alive,
        });
        let needs_tls = settings.inputs.iter().any(|input| input.tls);
        let acceptor = if needs_tls { Some(tls::acceptor(data_dir, &node.host, &settings.ssl, &[])?) } else { None };
        for (key, stanzas) in sockets(settings.inputs, &shared, stores)? {
            listeners.listen(key, &Stanzas(stanzas.into()), acceptor.as_ref())?;
        }
        tokio::spawn(tell_limits(Arc::clone(&shared)));
        Ok(listeners)
    }

    fn listen(
        &mut self,
        (kind, tls, address): SocketKey,
        stanzas: &Stanzas,
        acceptor: Option<&tokio_rustls::TlsAcceptor>,
    ) -> Result<(), ListenError> {
        let names = || stanzas.0.iter().map(|port| port.input.stanza.as_str());
        let acceptor = acceptor.filter(|_| tls).cloned();
        let bound = match kind {
            NetworkKind::Tcp => tcp::listen(stanzas, address, acceptor),
            NetworkKind::Udp => udp::listen(stanzas, address),
            NetworkKind::Forwarders => forwarders::listen(stanzas.clone(), address, acceptor),
        };
        let stanza = names().collect::<Vec<_>>().join("], [");
        let bound = bound.map_err(|error| {
            about(
                &stanza,
                format!(
                    "cannot listen on {address}: {error}; end the process that listens there, or change or disable the \
                 stanza in inputs.conf"
                ),
            )
        })?;
        log::info(format!("quarry receives events on {bound} ([{stanza}])"));
        self.addresses.extend(names().map(|name| (name.to_owned(), bound)));
        Ok(())
    }

    /// Stops accepting data and waits until received data is stored.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        if tokio::time::timeout(STOP_WAIT, self.ended.recv()).await.is_err() {
            log::warning("network inputs did not finish in time; data that was not stored is lost");
        }
    }
}

/// Ports grouped by socket; a stanza with a system-assigned port number has a socket of its own.
fn sockets(
    inputs: Vec<NetworkInput>,
    shared: &Arc<Shared>,
    stores: &dyn Fn(Option<&str>) -> Arc<dyn EventStore>,
) -> Result<Sockets, ListenError> {
    let mut sockets = Sockets::new();
    for input in inputs {
        let stanza = input.stanza.clone();
        let store = stores(input.routing.as_deref());
        store.check_index(&input.index).map_err(|fault| about(&stanza, fault))?;
        let access = access_of(&input).map_err(|fault| about(&stanza, fault))?;
        let wrong = |_| about(&stanza, format!("bindAddress = {}: give an address such as 127.0.0.1", input.bind));
        let address = SocketAddr::new(input.bind.parse().map_err(wrong)?, input.port);
        let key = (input.kind, input.tls, address);
        let typing = Arc::new(EventTyping::new(Arc::clone(&shared.settings.props)));
        let port = Arc::new(Port { input, access, store, typing, shared: Arc::clone(shared) });
        match sockets.iter_mut().find(|(known, _)| *known == key && address.port() != 0) {
            Some((_, ports)) => ports.push(port),
            None => sockets.push((key, vec![port])),
        }
    }
    sockets.iter_mut().for_each(|(_, ports)| ports.sort_by_key(|port| port.input.remote.is_none()));
    Ok(sockets)
}

fn about(stanza: &str, reason: impl ToString) -> ListenError {
    ListenError::Stanza { stanza: stanza.to_owned(), reason: reason.to_string() }
}

impl Stanzas {
    /// Index of the stanza for a sender; a sender that no stanza allows is counted.
    pub(crate) fn of(&self, sender: IpAddr) -> Option<usize> {
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
        if let Some(problem) = template.problem(self.shared.settings.clock.now_ns()) {
            log::warning(format!("[{}]: {problem}; received data is indexed without it", self.input.stanza));
        }
        template
    }
}

/// Access list from `acceptFrom` and the host named by the stanza.
fn access_of(input: &NetworkInput) -> Result<AccessList, Fault> {
    let listed = AccessList::new(input.accept_from.iter().map(String::as_str))?;
    let Some(remote) = &input.remote else { return Ok(listed) };
    let addresses = match remote.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) => {
            names::addresses_of(remote).map_err(|error| Fault::io(format_args!("{remote} has no address"), error))?
        }
    };
    Ok(listed.only(&addresses))
}

/// Resolves when the server stops.
pub async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // A dropped sender counts as the signal to stop.
    drop(stopping.wait_for(|stopping| *stopping).await);
}

/// Periodically logs the counts of refused connections and lost events.
async fn tell_limits(shared: Arc<Shared>) {
    let mut stopping = shared.stopping.clone();
    while tokio::time::timeout(TELL_EVERY, stopped(&mut stopping)).await.is_err() {
        shared.limits.tell();
    }
    shared.limits.tell();
}
