//! Admission of new connections: which connection is closed when a port has no room.
//!
//! On a port where clients must authenticate, connections of unauthenticated clients have a limit of their own, whether
//! they wait for the client or for the server. Beyond it, the oldest connection that waits for its client is closed,
//! or, if none waits, the oldest one. An authenticated client's connection is closed only for another authenticated
//! client, when authenticated clients hold all connections of the port, or for lack of file descriptors. Some
//! connections are left to clients that have yet to log in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quarry_stdx::log;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection_queue::{Clients, ConnectionQueue, ConnectionState};
use super::limits::Bounds;
use super::lingering_close::Lingering;

/// Maximum number of refusals being written at a time; further connections are closed without an answer.
const REFUSALS_MAX: usize = 64;
/// Timeout of writing a refusal.
pub(super) const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 5\r\n\
    Content-Length: 50\r\nConnection: close\r\n\r\ntoo many connections are active; please retry soon";
/// Time to wait until a connection that was requested to close frees its permit.
const PERMIT_WAIT: Duration = Duration::from_millis(100);
/// Maximum number of such waits if no further connection may be closed.
const LAST_WAITS_MAX: usize = 3;

/// The connections of a port and its limits.
pub(super) struct Admission {
    bounds: Bounds,
    has_handshakes: bool,
    places: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    clients: Arc<Clients>,
    /// Connections in their handshake.
    in_handshake: ConnectionQueue,
    refused: AtomicU64,
    failed_handshakes: AtomicU64,
}

impl Admission {
    /// No connections.
    pub(super) fn new(bounds: Bounds, has_handshakes: bool) -> Admission {
        let (in_handshake, refused, failed_handshakes) = Default::default();
        Admission {
            bounds,
            has_handshakes,
            places: Arc::new(Semaphore::new(bounds.connections)),
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
            clients: Arc::new(Clients::new(bounds.authenticated_max())),
            in_handshake,
            refused,
            failed_handshakes,
        }
    }

    /// The state of a connection that has just been accepted.
    pub(super) fn new_connection(&self) -> ConnectionState {
        if self.has_handshakes { ConnectionState::new(&self.in_handshake) } else { self.ready_connection() }
    }

    /// The state of a connection that may send requests.
    pub(super) fn ready_connection(&self) -> ConnectionState {
        match self.bounds.unauthenticated {
            Some(_) => ConnectionState::unauthenticated(&self.clients),
            None => ConnectionState::new(&self.clients.idle),
        }
    }

    /// Closes a connection of an unauthenticated client: the oldest that waits for its client, handshakes included, or
    /// else the oldest whose request is being processed.
    fn close_unauthenticated(&self) -> bool {
        // Stalled handshakes and slow heads are closed by age, so that neither displaces a client that has just
        // connected.
        self.count(self.clients.waiting.close_oldest_of(&self.in_handshake) || self.clients.working.close_oldest())
    }

    fn close_idle(&self) -> bool {
        self.count(self.clients.idle.close_oldest())
    }

    fn count(&self, is_closed: bool) -> bool {
        self.clients.closed.fetch_add(u64::from(is_closed), Ordering::Relaxed);
        is_closed
    }

    /// Closes a connection because the system allows no more.
    pub(super) fn free_descriptor(&self) {
        let _: bool = self.close_unauthenticated() || self.close_idle();
    }

    /// Closes a connection in favour of a new one, whose client is not known yet.
    fn close_oldest(&self) -> bool {
        self.close_unauthenticated() || (self.are_all_authenticated() && self.close_idle())
    }

    /// Whether authenticated clients hold all connections of the port.
    fn are_all_authenticated(&self) -> bool {
        self.bounds.unauthenticated.is_none() || self.clients.authenticated_len() >= self.bounds.connections
    }

    /// A permit for a new connection, closing another one if necessary; `None` if no connection can be closed.
    pub(super) async fn admit(&self) -> Option<OwnedSemaphorePermit> {
        if self.has_handshakes && self.in_handshake.len() >= self.bounds.handshakes {
            self.count(self.in_handshake.close_oldest());
        }
        let has_most = |most| self.clients.unauthenticated_len() + self.in_handshake.len() >= most;
        if self.bounds.unauthenticated.is_some_and(has_most) {
            self.close_unauthenticated();
        }
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(place);
        }
        let mut last_waits = 0;
        while last_waits < LAST_WAITS_MAX {
            if !self.close_oldest() {
                // Connections that are neither listed nor of authenticated clients are already closing, so a permit may
                // be free soon.
                if self.are_all_authenticated() {
                    return None;
                }
                last_waits += 1;
            }
            // The closed connection frees its permit shortly, unless it has just received a request.
            let place = tokio::time::timeout(PERMIT_WAIT, Arc::clone(&self.places).acquire_owned()).await;
            if let Ok(Ok(place)) = place {
                return Some(place);
            }
        }
        None
    }

    /// Answers a client that the port has no room, unless too many are being refused. On a port with TLS, the
    /// connection is closed without an answer.
    pub(super) fn refuse(&self, mut stream: TcpStream) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        if self.has_handshakes {
            return;
        }
        let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() else { return };
        tokio::spawn(async move {
            let reported = async {
                stream.write_all(REFUSAL).await?;
                Lingering::new(stream, REFUSAL_TIMEOUT).shutdown().await
            };
            // The client may have disconnected.
            drop(tokio::time::timeout(REFUSAL_TIMEOUT, reported).await);
            drop(permit);
        });
    }

    /// Counts a connection whose handshake failed.
    pub(super) fn count_failed_handshake(&self) {
        self.failed_handshakes.fetch_add(1, Ordering::Relaxed);
    }

    /// Logs the counts since the last call.
    pub(super) fn log_counts(&self, name: &str) {
        let counts = [
            (&self.clients.closed, "connections were closed in favour of new ones: the limit was reached"),
            (&self.refused, "connections were refused: the maximum number was active"),
            (&self.failed_handshakes, "connections were closed: their TLS handshake failed, or took too long"),
        ];
        for (count, what) in counts {
            let count = count.swap(0, Ordering::Relaxed);
            if count > 0 {
                log::warning(format!("{name}: {count} {what}"));
            }
        }
    }
}
