//! What ports that speak HTTP take.

use std::time::Duration;

use quarry_stdx::number::usize_of;
use rustix::process::{Resource, getrlimit};

use super::request_body::Pace;

/// Parts of the files that the process may have open, which ports share: see [`connections_max`].
const OPEN_FILES_PARTS: u64 = 16;
/// Longest wait for the head of a request, on a new connection and between two requests over HTTP/1.
const HEAD_WAIT: Duration = Duration::from_secs(60);
/// Longest handshake of TLS.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
/// Connections of a port in their handshake; with more, the oldest goes.
const HANDSHAKES_MAX: usize = 1_024;
/// Time in which [`PACE_BYTES`] of a body must come, or of an answer be read. Readers of bodies may be less patient and say
/// more.
const PACE_WINDOW: Duration = Duration::from_secs(90);
const PACE_BYTES: usize = 16 << 10;
/// Longest wait for what is left of a body that nobody wants, before its connection is closed.
const LEFT_WAIT: Duration = Duration::from_secs(1);
/// Longest time in which what a refused sender still sends is read past.
const LINGER: Duration = Duration::from_secs(2);
/// Longest wait for connections when the server stops.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// What a port takes.
#[derive(Clone, Copy)]
pub struct Bounds {
    /// Connections at a time.
    pub(super) connections: usize,
    /// Bytes of a request's head, and of what is read at a time.
    pub(super) head_bytes: usize,
    pub(super) head_wait: Duration,
    pub(super) handshakes: usize,
    pub(super) handshake_wait: Duration,
    pub(super) pace: Pace,
    pub(super) left_wait: Duration,
    pub(super) linger: Duration,
    pub(super) stop_wait: Duration,
}

impl Bounds {
    /// Of the HTTP Event Collector.
    pub fn of_collector() -> Bounds {
        Bounds::new(connections_max(12_288, 6), 16 << 10)
    }

    /// Of the port for calls: senders keep a connection each and send many requests over it.
    pub fn of_calls() -> Bounds {
        Bounds::new(connections_max(4_096, 1), 16 << 10)
    }

    /// Of the management port, where URLs may hold searches.
    pub fn of_management() -> Bounds {
        Bounds::new(connections_max(1_024, 2), 128 << 10)
    }

    fn new(connections: usize, head_bytes: usize) -> Bounds {
        Bounds {
            connections,
            head_bytes,
            head_wait: HEAD_WAIT,
            handshakes: HANDSHAKES_MAX,
            handshake_wait: HANDSHAKE_WAIT,
            pace: Pace { window: PACE_WINDOW, bytes: PACE_BYTES },
            left_wait: LEFT_WAIT,
            linger: LINGER,
            stop_wait: STOP_WAIT,
        }
    }

    #[cfg(test)]
    pub(super) fn for_test(connections: usize) -> Bounds {
        Bounds::new(connections, 16 << 10)
    }
}

/// At most `most`, and `parts` of 16 of the files that the process may have open: buckets need some as well.
pub(crate) fn connections_max(most: usize, parts: u64) -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files / OPEN_FILES_PARTS).unwrap_or(usize::MAX).saturating_mul(usize_of(parts)).clamp(1, most)
}
