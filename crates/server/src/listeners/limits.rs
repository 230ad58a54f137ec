//! What network inputs may take, and what was refused or lost.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustix::process::{Resource, getrlimit, setrlimit};

/// Connections of all ports together.
pub(crate) const CONNECTIONS_MAX: usize = 16_384;
/// Bytes of text that are no event yet, of all connections together; beyond it whoever adds gives up its own as events.
pub(crate) const HELD_BYTES_MAX: usize = 256 << 20;
/// Files that the process asks to have open: connections, buckets, and a reserve.
const OPEN_FILES: u64 = 65_536;

/// Counters.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    connections: AtomicUsize,
    held_bytes: AtomicUsize,
    /// Connections that were refused because there were too many.
    pub(crate) refused: AtomicU64,
    /// Connections of senders that may not send.
    pub(crate) forbidden: AtomicU64,
    /// Datagrams that the system dropped.
    pub(crate) dropped: AtomicU64,
    /// Events that the store had taken and failed to write.
    pub(crate) lost: AtomicU64,
    /// Events of forwarders for an index that there is not.
    pub(crate) homeless: AtomicU64,
    /// Batches of forwarders that came again and were stored before.
    pub(crate) repeated: AtomicU64,
    told: [AtomicU64; 6],
}

/// A connection that counts.
pub(crate) struct Place<'a> {
    limits: &'a Limits,
    held_bytes: usize,
}

impl Limits {
    /// A place for one more connection, if there is one.
    pub(crate) fn place(&self) -> Option<Place<'_>> {
        if self.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            self.connections.fetch_sub(1, Ordering::Relaxed);
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Place { limits: self, held_bytes: 0 })
    }

    /// Tells what happened since the last time.
    pub(crate) fn tell(&self) {
        let counts = [
            (&self.refused, "connections were refused: more than the server takes"),
            (&self.forbidden, "connections and datagrams of senders that acceptFrom does not name were refused"),
            (&self.dropped, "datagrams were lost: they came faster than they were stored (see _rcvbuf)"),
            (
                &self.homeless,
                "events of forwarders are for indexes that are not there (such as _internal) and were left out",
            ),
            (
                &self.repeated,
                "batches came again from forwarders that had heard no acknowledgment; they are stored once",
            ),
            (&self.lost, "batches of events could not be written and are lost"),
        ];
        for ((count, what), told) in counts.into_iter().zip(&self.told) {
            let count = count.load(Ordering::Relaxed);
            let fresh = count.saturating_sub(told.swap(count, Ordering::Relaxed));
            if fresh > 0 {
                crate::tell(&format!("warning: {fresh} {what}"));
            }
        }
    }
}

impl Place<'_> {
    /// Takes note of what the connection holds; whether all together hold too much.
    pub(crate) fn set_held(&mut self, bytes: usize) -> bool {
        let all = &self.limits.held_bytes;
        all.fetch_add(bytes, Ordering::Relaxed);
        all.fetch_sub(self.held_bytes, Ordering::Relaxed);
        self.held_bytes = bytes;
        all.load(Ordering::Relaxed) > HELD_BYTES_MAX
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.set_held(0);
        self.limits.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Asks for as many open files as connections may need; most systems start with 1,024.
pub(crate) fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            crate::tell(&format!("note: the system allows no more open files ({error}): fewer senders find a place"));
        }
    }
}
