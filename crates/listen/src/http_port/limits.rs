//! Limits of ports that speak HTTP.

use std::time::Duration;

use quarry_stdx::number::usize_of;
use rustix::process::{Resource, getrlimit};

use super::request_body::Pace;

/// Denominator of the shares of the open-file limit in [`connections_max`].
const OPEN_FILES_PARTS: u64 = 16;
/// Timeout of a request head, on a new connection and between two requests over HTTP/1; then the connection is closed.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of the first head on the management port, and of the body of a request whose client has not authenticated,
/// such as a login.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(20);
/// Divisor of the port's connection limit that gives the limit of handshakes and unauthenticated connections together;
/// beyond it, one of them is closed.
const UNAUTHENTICATED_DIVISOR: usize = 2;
/// Authenticated clients leave this fraction (1/n) of the port's connections, but at most [`RESERVED_MAX`], to other
/// clients.
const RESERVED_DIVISOR: usize = 8;
const RESERVED_MAX: usize = 128;
/// Timeout of a TLS handshake; then the connection is closed.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of concurrent handshakes of a port; beyond it the oldest is closed.
const HANDSHAKES_MAX: usize = 1_024;
/// Period in which [`PACE_BYTES`] of a body must arrive, or [`PACE_BYTES`] of an answer must be read. Readers of bodies
/// may enforce stricter limits with better messages.
const PACE_WINDOW: Duration = Duration::from_secs(90);
const PACE_BYTES: usize = 16 << 10;
/// Timeout for the rest of an unwanted body, after which its connection is closed.
const UNREAD_BODY_TIMEOUT: Duration = Duration::from_secs(1);
/// Time during which data from a refused sender is read and discarded.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
/// Time that shutdown waits for connections.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Limits of a port.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// Maximum number of connections.
    pub(super) connections: usize,
    /// Maximum size of a request head, and of the read buffer.
    pub(super) head_bytes: usize,
    pub(super) head_wait: Duration,
    /// Timeout of the first head.
    pub(super) first_head_wait: Duration,
    /// Timeout of the body of an unauthenticated client.
    pub(super) authentication_wait: Duration,
    /// Maximum number of connections of unauthenticated clients; `None` if the port treats all clients alike.
    pub(super) unauthenticated: Option<usize>,
    pub(super) handshakes: usize,
    pub(super) handshake_wait: Duration,
    pub(super) pace: Pace,
    pub(super) left_wait: Duration,
    pub(super) linger: Duration,
    pub(super) stop_wait: Duration,
}

impl Bounds {
    /// Limits of the HTTP Event Collector.
    pub fn for_collector() -> Bounds {
        Bounds::new(connections_max(12_288, 6), 16 << 10).for_unauthenticated_clients()
    }

    /// Limits of the gRPC port, where each sender keeps one connection for many requests.
    pub fn for_grpc() -> Bounds {
        Bounds::new(connections_max(4_096, 1), 16 << 10).for_unauthenticated_clients()
    }

    /// Limits of the management port, where URLs may contain searches.
    pub fn for_management() -> Bounds {
        let bounds = Bounds::new(connections_max(1_024, 2), 128 << 10).for_unauthenticated_clients();
        Bounds { first_head_wait: AUTHENTICATION_TIMEOUT, ..bounds }
    }

    /// These limits for a port where clients must authenticate.
    pub(super) fn for_unauthenticated_clients(self) -> Bounds {
        let unauthenticated = Some((self.connections / UNAUTHENTICATED_DIVISOR).max(1));
        Bounds { unauthenticated, ..self }
    }

    /// Number of connections of authenticated clients beyond which an idle one is closed for each client that
    /// authenticates.
    pub(super) fn authenticated_max(&self) -> usize {
        self.connections - (self.connections / RESERVED_DIVISOR).min(RESERVED_MAX)
    }

    fn new(connections: usize, head_bytes: usize) -> Bounds {
        Bounds {
            connections,
            head_bytes,
            head_wait: HEAD_TIMEOUT,
            first_head_wait: HEAD_TIMEOUT,
            authentication_wait: AUTHENTICATION_TIMEOUT,
            unauthenticated: None,
            handshakes: HANDSHAKES_MAX,
            handshake_wait: HANDSHAKE_TIMEOUT,
            pace: Pace { window: PACE_WINDOW, bytes: PACE_BYTES },
            left_wait: UNREAD_BODY_TIMEOUT,
            linger: LINGER_TIMEOUT,
            stop_wait: STOP_TIMEOUT,
        }
    }

    #[cfg(test)]
    pub(super) fn for_test(connections: usize) -> Bounds {
        Bounds::new(connections, 16 << 10)
    }
}

/// Maximum number of connections: at most `most`, and at most `parts`/16 of the open-file limit, because buckets need
/// file descriptors as well.
pub(crate) fn connections_max(most: usize, parts: u64) -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files / OPEN_FILES_PARTS).unwrap_or(usize::MAX).saturating_mul(usize_of(parts)).clamp(1, most)
}
