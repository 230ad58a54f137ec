//! The ports of the HTTP Event Collector, and of OTLP over gRPC.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use quarry_conf::{HttpInputSettings, LimitSettings, NetworkInputSettings, SslSettings};
use quarry_inputs::{
    EventStore, InputSettings,
    hec::{AckNumbers, Collector},
};
use quarry_stdx::log;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::error::ListenError;
use crate::http_port::{Bounds, HttpPort, Security};
use crate::network::raise_open_files;
use crate::sockets::listen_on;
use crate::tls;

/// Interval at which idle channels are dropped.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Time that shutdown waits for senders.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// File of the next acknowledgment id, below the data directory.
const ACK_NUMBERS: &str = "hec/next-ack-id";

/// ALPN protocols of gRPC clients.
const GRPC_PROTOCOLS: [&[u8]; 1] = [b"h2"];

/// Name of the collector's port in messages, and the option and setting of its number.
const COLLECTOR: (&str, &str) = ("HTTP Event Collector", "--hec, or port in [http] of inputs.conf");
/// Like [`COLLECTOR`], for the port of OTLP over gRPC.
const GRPC: (&str, &str) = ("OTLP over gRPC", "port in [otlp] of inputs.conf");

/// Running collector ports.
pub struct RunningCollector {
    /// The collector's address.
    pub address: SocketAddr,
    /// The collector that processes requests.
    pub collector: Arc<Collector>,
    /// The address of OTLP over gRPC, if it is enabled.
    pub calls: Option<SocketAddr>,
    ports: Vec<Port>,
    cleanup: JoinHandle<()>,
}

struct Port {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

/// Listens on `requested`, or, if tokens exist, on the loopback address with the port of inputs.conf. Returns `None` if
/// inputs.conf disables the collector, or if no address was requested and no token exists.
pub async fn listen(
    data_dir: &Path,
    requested: Option<SocketAddr>,
    node: &InputSettings,
    store: Arc<dyn EventStore>,
) -> Result<Option<RunningCollector>, ListenError> {
    let settings = HttpInputSettings::new(&node.layers);
    if let Some(address) = requested.filter(|address| !settings.tls && !address.ip().is_loopback()) {
        return Err(ListenError::TokensInClear(address));
    }
    if settings.disabled && requested.is_some() {
        log::note("--hec: the HTTP Event Collector is disabled in inputs.conf, so the port is not opened");
    }
    if settings.disabled || (requested.is_none() && settings.tokens.is_empty()) {
        return Ok(None);
    }
    let address = requested.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, settings.port)));
    raise_open_files();
    if settings.tokens.is_empty() {
        log::note(
            "--hec: no token is configured, so every sender will be refused; `quarry add http-event-collector NAME` \
             creates one",
        );
    }
    let scheme = if settings.tls { "https" } else { "http" };
    let acceptors = if settings.tls {
        let ssl = certificate_of(&settings, node);
        Some((
            tls::acceptor(data_dir, &node.host, &ssl, &[])?,
            tls::acceptor(data_dir, &node.host, &ssl, &GRPC_PROTOCOLS)?,
        ))
    } else {
        None
    };
    let (acceptor, calls_acceptor) = acceptors.unzip();
    let (props, clock, grpc_port) = (Arc::clone(&node.props), node.clock.clone(), settings.grpc_port);
    let numbers = AckNumbers::open(data_dir.join(ACK_NUMBERS)).map_err(ListenError::AckNumbers)?;
    let body_bytes_max = LimitSettings::new(&node.layers).http_body_bytes;
    let collector = Arc::new(Collector::new(settings, body_bytes_max, numbers, store, props, clock));
    let router = Arc::clone(&collector).router();
    let port = Port::open(COLLECTOR, address, acceptor, router, Bounds::for_collector()).await?;
    let bound = port.address;
    log::info(format!("quarry receives events on {scheme}://{bound}/services/collector"));
    let (mut ports, mut calls) = (vec![port], None);
    if let Some(number) = grpc_port {
        let address = SocketAddr::new(address.ip(), number);
        let router = Arc::clone(&collector).grpc_router();
        let port = Port::open(GRPC, address, calls_acceptor, router, Bounds::for_grpc()).await?;
        log::info(format!("quarry receives OTLP over gRPC on {} ([otlp])", port.address));
        calls = Some(port.address);
        ports.push(port);
    }
    let cleaned = Arc::clone(&collector);
    let cleanup = tokio::spawn(async move {
        loop {
            tokio::time::sleep(IDLE_CHECK_INTERVAL).await;
            cleaned.remove_idle_channels();
        }
    });
    Ok(Some(RunningCollector { address: bound, collector, calls, ports, cleanup }))
}

/// Certificate of the collector, or the one configured for all inputs.
fn certificate_of(settings: &HttpInputSettings, node: &InputSettings) -> SslSettings {
    let all = NetworkInputSettings::new(&node.layers).ssl;
    let certificate = settings.certificate.clone().or(all.certificate);
    // Senders are identified by tokens, so no client certificate is required.
    SslSettings { certificate, requires_client: false, roots: None }
}

impl Port {
    async fn open(
        (name, setting): (&str, &'static str),
        address: SocketAddr,
        acceptor: Option<TlsAcceptor>,
        router: Router,
        bounds: Bounds,
    ) -> Result<Port, ListenError> {
        let cannot = |source: std::io::Error| ListenError::Address { name: name.to_owned(), setting, address, source };
        let listener = listen_on(address).map_err(cannot)?;
        let bound = listener.local_addr().map_err(cannot)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let security = acceptor.map_or(Security::Clear, Security::Tls);
        let port = HttpPort { name: format!("{name} {bound}"), listener, security, router, bounds };
        let served = tokio::spawn(port.serve(async {
            // A dropped sender counts as the signal to stop.
            drop(stopped.await);
        }));
        Ok(Port { address: bound, stop, served })
    }
}

impl RunningCollector {
    /// Stops accepting requests and waits for running requests.
    pub async fn stop(self) {
        self.cleanup.abort();
        let mut served = Vec::new();
        for port in self.ports {
            // If the signal has no receiver, the port has ended.
            if port.stop.send(()).is_ok() {
                served.push(port.served);
            }
        }
        let ended = async {
            for task in served {
                // The task has logged its own errors.
                drop(task.await);
            }
        };
        if tokio::time::timeout(STOP_TIMEOUT, ended).await.is_err() {
            log::warning(
                "senders of events did not finish in time; they will resend the requests that were not answered",
            );
        }
    }
}
