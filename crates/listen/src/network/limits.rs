//! Limits of network inputs, and counts of refused connections and lost events.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use quarry_stdx::log;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::http_port::{ConnectionQueue, ConnectionState, connections_max};

/// Maximum number of connections of all ports together, and the share of the open-file limit (in sixteenths) that they
/// may use.
const CONNECTIONS_MAX: usize = 16_384;
const CONNECTIONS_PARTS: u64 = 4;
/// Maximum number of errors of single connections logged per interval; further errors are only counted.
const FAULTS_LOGGED_MAX: u64 = 10;
/// Maximum bytes that all connections buffer; beyond it, the partial lines of a connection are completed as events, and
/// a forwarder is disconnected.
pub(crate) const HELD_BYTES_MAX: usize = 256 << 20;
/// Open-file limit to request, which covers connections, buckets, and a reserve.
const OPEN_FILES: u64 = 65_536;

/// Limits and counters of all network inputs.
#[derive(Debug)]
pub(crate) struct Limits {
    connections_max: usize,
    connections: AtomicUsize,
    held_bytes: AtomicUsize,
    /// Connections that have sent nothing yet; the oldest is closed when a new connection needs room.
    silent: ConnectionQueue,
    /// Connections closed to make room for a new one.
    closed: AtomicU64,
    /// Connections refused for lack of room.
    pub(crate) refused: AtomicU64,
    /// Connections and datagrams of senders that no stanza allows.
    pub(crate) forbidden: AtomicU64,
    /// Datagrams dropped by the system.
    pub(crate) dropped: AtomicU64,
    /// Datagrams and batches of events that could not be stored.
    pub(crate) lost: AtomicU64,
    /// Events of forwarders that were dropped because their index is missing or the store or the port refuses them.
    pub(crate) refused_events: AtomicU64,
    /// Duplicate batches of forwarders.
    pub(crate) repeated: AtomicU64,
    /// Errors of single connections.
    faults: AtomicU64,
    unlogged_faults: AtomicU64,
    reported: [AtomicU64; 8],
}

pub(crate) struct ConnectionPermit<'a> {
    limits: &'a Limits,
    held_bytes: usize,
    /// Entry among the connections that have sent nothing; `None` once the connection has sent something.
    silent: Option<ConnectionState>,
}

impl Limits {
    /// Creates limits without connections, with all counters at zero.
    pub(crate) fn new() -> Limits {
        Limits::of(connections_max(CONNECTIONS_MAX, CONNECTIONS_PARTS))
    }

    fn of(connections_max: usize) -> Limits {
        let (connections, held_bytes, silent, closed) = Default::default();
        let (refused, forbidden, dropped, lost, refused_events, repeated) = Default::default();
        let (faults, unlogged_faults, reported) = Default::default();
        Limits {
            connections_max,
            connections,
            held_bytes,
            silent,
            closed,
            refused,
            forbidden,
            dropped,
            lost,
            refused_events,
            repeated,
            faults,
            unlogged_faults,
            reported,
        }
    }

    /// Permit for one more connection. If all permits are in use, a connection that has sent nothing is closed in its
    /// favour; `None` if there is no such connection.
    pub(crate) fn acquire(&self) -> Option<ConnectionPermit<'_>> {
        let is_full = self.connections.fetch_add(1, Ordering::Relaxed) >= self.connections_max;
        // A connection that was requested to close frees its permit shortly afterwards.
        if is_full && self.silent.close_oldest() {
            self.closed.fetch_add(1, Ordering::Relaxed);
        } else if is_full {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(ConnectionPermit { limits: self, held_bytes: 0, silent: Some(ConnectionState::new(&self.silent)) })
    }

    /// Logs an error of a connection, unless many were logged recently, so that the log cannot fill the disk.
    pub(crate) fn log_fault(&self, text: &str) {
        if self.faults.fetch_add(1, Ordering::Relaxed) < FAULTS_LOGGED_MAX {
            log::warning(text);
        } else {
            self.unlogged_faults.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Logs the counts since the last call.
    pub(crate) fn log_counts(&self) {
        self.faults.store(0, Ordering::Relaxed);
        let counts = [
            (
                &self.closed,
                "connections that had sent nothing were closed in favour of new ones: the limit was reached",
            ),
            (&self.refused, "connections were refused: the limit was reached"),
            (&self.forbidden, "connections and datagrams of senders that acceptFrom does not name were refused"),
            (&self.dropped, "datagrams were lost: they arrived faster than they were stored (see _rcvbuf)"),
            (
                &self.refused_events,
                "events of forwarders were dropped: their index does not exist (such as _internal), or the store permanently refuses them",
            ),
            (
                &self.repeated,
                "batches were resent by forwarders that had received no acknowledgment; they are stored once",
            ),
            (&self.unlogged_faults, "more connections ended with errors, which are not logged one by one"),
            (&self.lost, "batches of events could not be written and are lost"),
        ];
        for ((count, what), reported) in counts.into_iter().zip(&self.reported) {
            let count = count.load(Ordering::Relaxed);
            let fresh = count.saturating_sub(reported.swap(count, Ordering::Relaxed));
            if fresh > 0 {
                log::warning(format!("{fresh} {what}"));
            }
        }
    }
}

impl ConnectionPermit<'_> {
    /// Records that the connection has sent something, so that it is no longer closed to make room.
    pub(crate) fn mark_active(&mut self) {
        self.silent = None;
    }

    /// Resolves when the connection must close to make room for another.
    pub(crate) async fn close_requested(&self) {
        match &self.silent {
            Some(waiter) => waiter.close_requested().await,
            None => std::future::pending().await,
        }
    }

    /// Updates the connection's buffered bytes; returns true if the total exceeds the limit.
    pub(crate) fn set_held(&mut self, bytes: usize) -> bool {
        let all = &self.limits.held_bytes;
        all.fetch_add(bytes, Ordering::Relaxed);
        all.fetch_sub(self.held_bytes, Ordering::Relaxed);
        self.held_bytes = bytes;
        all.load(Ordering::Relaxed) > HELD_BYTES_MAX
    }
}

impl Drop for ConnectionPermit<'_> {
    fn drop(&mut self) {
        self.set_held(0);
        self.limits.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Raises the open-file limit for connections; most systems start with 1,024.
pub fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            log::note(format!("the system allows no more open files ({error}): fewer senders can connect"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{FAULTS_LOGGED_MAX, Limits};

    #[test]
    fn excess_connections_get_no_permit_until_one_ends() {
        let limits = Limits::of(2);
        let (mut first, mut second) = (limits.acquire(), limits.acquire());
        [&mut first, &mut second].into_iter().flatten().for_each(|place| place.mark_active());
        assert!(first.is_some() && second.is_some() && limits.acquire().is_none());
        assert_eq!(limits.refused.load(Ordering::Relaxed), 1);
        drop(first);
        assert!(limits.acquire().is_some());
    }

    #[tokio::test]
    async fn silent_connections_are_closed_for_new_ones() {
        let limits = Limits::of(2);
        let (mut active, silent) = (limits.acquire().unwrap(), limits.acquire().unwrap());
        active.mark_active();
        let new = limits.acquire();
        assert!(new.is_some());
        silent.close_requested().await;
        drop(silent);
        assert_eq!((limits.closed.load(Ordering::Relaxed), limits.refused.load(Ordering::Relaxed)), (1, 0));
        drop(new);
        assert_eq!(limits.connections.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn many_faults_are_counted_and_not_logged() {
        let limits = Limits::of(1);
        (0..FAULTS_LOGGED_MAX + 5).for_each(|_| limits.log_fault("a connection is odd"));
        assert_eq!(limits.unlogged_faults.load(Ordering::Relaxed), 5);
        limits.log_counts();
        limits.log_fault("told again");
        assert_eq!(limits.unlogged_faults.load(Ordering::Relaxed), 5);
    }
}
