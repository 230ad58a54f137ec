//! The HTTP Event Collector of a running node: its ports, and the way from them into the store.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use quarry_conf::{HttpInputSettings, LimitSettings, NetworkInputSettings, SslSettings};
use quarry_event::EventBatch;
use quarry_inputs::hec::Collector;
use quarry_inputs::{AppendError, EventStore, FilePosition, Receipt, SentRequest, SinkError};
use quarry_store::{AppendRequest, SentRequest as StoredRequest, StoreError, Ticket};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::failure::Failure;
use crate::http_port::{Bounds, HttpPort};
use crate::listeners::bound::listen_on;
use crate::listeners::{limits, tls};
use crate::local::Settings;
use crate::node::LocalNode;
use crate::store_sink::{checkpoint_of, set_of};

/// Time between two looks for channels that nobody uses.
const IDLE_EVERY: Duration = Duration::from_secs(60);
/// Longest wait for senders when the server stops.
const STOP_WAIT: Duration = Duration::from_secs(5);

/// Protocols that senders of calls agree on with TLS.
const CALLS_PROTOCOLS: [&[u8]; 1] = [b"h2"];

/// Ports that take events.
pub(crate) struct Listening {
    /// Where the collector is.
    pub(crate) address: SocketAddr,
    /// What takes events.
    pub(crate) collector: Arc<Collector>,
    /// Where OTLP over gRPC is taken.
    pub(crate) calls: Option<SocketAddr>,
    ports: Vec<Port>,
    cleanup: JoinHandle<()>,
}

struct Port {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

/// Listens on `asked`, or where inputs.conf says when there are tokens; `None` when inputs.conf switches the collector
/// off, or nobody asked and nobody could send.
pub(crate) async fn listen(
    data_dir: &Path,
    asked: Option<SocketAddr>,
    node: &Settings,
    store: Arc<dyn EventStore>,
) -> Result<Option<Listening>, Failure> {
    let settings = HttpInputSettings::new(&node.layers);
    if let Some(address) = asked.filter(|address| !settings.tls && !address.ip().is_loopback()) {
        let text =
            "is reachable from other machines, and tokens must not go there in clear: set enableSSL = true in [http]";
        return Err(Failure::Usage(format!("--hec {address} {text}")));
    }
    if settings.disabled && asked.is_some() {
        crate::tell("note: --hec: the HTTP Event Collector is disabled in inputs.conf, nothing listens there");
    }
    if settings.disabled || (asked.is_none() && settings.tokens.is_empty()) {
        return Ok(None);
    }
    let address = asked.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, settings.port)));
    limits::raise_open_files();
    if settings.tokens.is_empty() {
        crate::tell(
            "note: --hec: no token is configured, every sender will be refused; add [http://NAME] with token = GUID to \
             etc/system/local/inputs.conf",
        );
    }
    let scheme = if settings.tls { "https" } else { "http" };
    let acceptors = if settings.tls {
        let ssl = certificate_of(&settings, node);
        Some((tls::acceptor(data_dir, &ssl, &[])?, tls::acceptor(data_dir, &ssl, &CALLS_PROTOCOLS)?))
    } else {
        None
    };
    let (acceptor, calls_acceptor) = acceptors.unzip();
    let (props, clock, calls_port) = (Arc::clone(&node.props), node.clock.clone(), settings.calls_port);
    let collector =
        Arc::new(Collector::new(settings, LimitSettings::new(&node.layers).http_body_bytes, store, props, clock));
    let router = Arc::clone(&collector).router();
    let port = Port::open("HTTP Event Collector", address, acceptor, router, Bounds::of_collector()).await?;
    let bound = port.address;
    crate::tell(&format!("quarry takes events on {scheme}://{bound}/services/collector"));
    let (mut ports, mut calls) = (vec![port], None);
    if let Some(number) = calls_port {
        let address = SocketAddr::new(address.ip(), number);
        let router = Arc::clone(&collector).calls();
        let port = Port::open("OTLP over gRPC", address, calls_acceptor, router, Bounds::of_calls()).await?;
        crate::tell(&format!("quarry takes OTLP over gRPC on {} ([otlp])", port.address));
        calls = Some(port.address);
        ports.push(port);
    }
    let cleaned = Arc::clone(&collector);
    let cleanup = tokio::spawn(async move {
        loop {
            tokio::time::sleep(IDLE_EVERY).await;
            cleaned.forget_idle_channels();
        }
    });
    Ok(Some(Listening { address: bound, collector, calls, ports, cleanup }))
}

/// The collector's certificate, or that of all inputs.
fn certificate_of(settings: &HttpInputSettings, node: &Settings) -> SslSettings {
    let all = NetworkInputSettings::new(&node.layers).ssl;
    let certificate = settings.certificate.clone().or(all.certificate);
    // Tokens say who sends.
    SslSettings { certificate, requires_client: false, roots: None }
}

impl Port {
    async fn open(
        name: &str,
        address: SocketAddr,
        acceptor: Option<TlsAcceptor>,
        router: Router,
        bounds: Bounds,
    ) -> Result<Port, Failure> {
        let cannot = |error: std::io::Error| Failure::Storage(format!("cannot listen on {address}: {error}"));
        let listener = listen_on(address).map_err(cannot)?;
        let bound = listener.local_addr().map_err(cannot)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let port = HttpPort { name: format!("{name} {bound}"), listener, acceptor, router, bounds };
        let served = tokio::spawn(port.serve(async {
            // A sender that is gone means stop as well.
            drop(stopped.await);
        }));
        Ok(Port { address: bound, stop, served })
    }
}

impl Listening {
    /// Takes no more requests and waits for those that run.
    pub(crate) async fn stop(self) {
        self.cleanup.abort();
        let mut served = Vec::new();
        for port in self.ports {
            // Where nobody hears it, the port has ended already.
            if port.stop.send(()).is_ok() {
                served.push(port.served);
            }
        }
        let ended = async {
            for task in served {
                // How it ended it has told itself.
                drop(task.await);
            }
        };
        if tokio::time::timeout(STOP_WAIT, ended).await.is_err() {
            crate::tell("warning: senders of events did not end in time; what was not answered they send again");
        }
    }
}

/// The node's store as network inputs see it; batches go round the pipeline sets.
pub(crate) struct NodeStore {
    node: Arc<LocalNode>,
    sets_used: AtomicUsize,
}

impl NodeStore {
    /// The store of `node`.
    pub(crate) fn new(node: &Arc<LocalNode>) -> NodeStore {
        NodeStore { node: Arc::clone(node), sets_used: AtomicUsize::new(0) }
    }
}

impl EventStore for NodeStore {
    fn append(&self, batch: EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
        self.node.throughput.note(&batch);
        let set = self.sets_used.fetch_add(1, Ordering::Relaxed);
        let appended = self.node.store.append_in(set, AppendRequest { batch, checkpoint: None });
        appended.map(|ticket| -> Box<dyn Receipt> { Box::new(Stored(ticket)) }).map_err(refusal)
    }

    fn append_at(&self, batch: EventBatch, position: FilePosition) -> Result<Box<dyn Receipt>, AppendError> {
        self.node.throughput.note(&batch);
        // Of one sender always the same, so that nothing overtakes what came before it.
        let set = set_of(&position.identity);
        let request = AppendRequest { batch, checkpoint: Some(checkpoint_of(position)) };
        let appended = self.node.store.append_in(set, request);
        appended.map(|ticket| -> Box<dyn Receipt> { Box::new(Stored(ticket)) }).map_err(refusal)
    }

    fn sent_request(&self, key: u128) -> SentRequest {
        let StoredRequest { key, id } = self.node.store.sent_request(key);
        SentRequest { key, id }
    }

    fn append_sent(&self, batch: EventBatch, request: &SentRequest) -> Result<Box<dyn Receipt>, AppendError> {
        self.node.throughput.note(&batch);
        let set = self.sets_used.fetch_add(1, Ordering::Relaxed);
        let appended = self.node.store.append_sent(set, batch, &known(request));
        appended.map(|ticket| -> Box<dyn Receipt> { Box::new(Stored(ticket)) }).map_err(refusal)
    }

    fn answered(&self, request: &SentRequest) {
        if let Err(error) = self.node.store.answered(&known(request)) {
            self.tell(&format!("a request that is sent again after a crash may be taken for a repetition: {error}"));
        }
    }

    fn gave_up(&self, request: &SentRequest) {
        self.node.store.gave_up(&known(request));
    }

    fn known_offset(&self, scope: &str, name: &[u8]) -> Result<u64, SinkError> {
        self.node.store.settle()?;
        let known = self.node.store.checkpoints_of(name, scope)?;
        let own = known.iter().map(|logged| &logged.checkpoint).filter(|known| known.head_bytes as usize == name.len());
        Ok(own.map(|known| known.offset).max().unwrap_or(0))
    }

    fn spare_batch(&self) -> Option<EventBatch> {
        self.node.store.spare_batch()
    }

    fn tell(&self, text: &str) {
        self.node.tell_once(text);
    }

    fn check_index(&self, index: &str) -> Result<(), String> {
        self.node.settings.check_index(index)?;
        self.node.store.check_index(index).map_err(|error| error.to_string())
    }
}

fn known(request: &SentRequest) -> StoredRequest {
    StoredRequest { key: request.key, id: request.id }
}

struct Stored(Ticket);

impl Receipt for Stored {
    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    fn wait(self: Box<Self>) -> Result<(), AppendError> {
        self.0.wait().map_err(refusal)
    }
}

/// What a sender is to make of a failure: whether it helps to come again.
fn refusal(error: StoreError) -> AppendError {
    match error {
        StoreError::Full { .. } | StoreError::SealStalled { .. } => AppendError::Busy(error.into()),
        StoreError::Closed => AppendError::Stopping,
        StoreError::TooLarge { .. } | StoreError::InvalidBatch { .. } | StoreError::TooManyIndexes { .. } => {
            AppendError::Refused(error.into())
        }
        _ => AppendError::Failed(error.into()),
    }
}
