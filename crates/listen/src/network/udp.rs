//! Ports for datagrams.
//!
//! One thread reads the socket into packs of datagrams; another extracts events. Between them, a bounded number of
//! packs is queued. Further datagrams stay in the system's receive buffer, for which a large size is requested.
//! Datagrams that the system drops are counted from its socket table and logged.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use quarry_conf::SenderHost;
use quarry_event::EventBatch;
use quarry_inputs::network::{Appender, Datagram, Datagrams};
use quarry_stdx::log;
use rustix::net::sockopt;

use super::tcp::{BATCH_BYTES, BATCH_EVENTS, append, while_busy};
use super::{Port, PortGroup};

/// Size of the buffer for a datagram in bytes; no datagram is larger.
const DATAGRAM_BYTES_MAX: usize = 65_536;
const PACK_BYTES: usize = 1 << 20;
const PACK_DATAGRAMS: usize = 8_192;
/// Maximum number of queued packs; further datagrams wait in the system's buffer.
const PACKS_MAX: usize = 32;
/// Pause in which datagrams accumulate.
const GATHER_PAUSE: Duration = Duration::from_millis(2);
/// Number of times that the socket is found empty between two checks for dropped datagrams.
const DROP_CHECK_READS: u64 = 32;
/// Time in nanoseconds for which a socket that is to close is read while datagrams keep arriving.
const LAST_READ_NS: i64 = 1_000_000_000;
/// Timeout of waiting for a datagram.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(50);

/// Received datagrams.
#[derive(Debug, Default)]
struct Pack {
    bytes: Vec<u8>,
    /// End of each datagram in `bytes`, and its sender.
    ends: Vec<(usize, IpAddr)>,
}

/// Listens and receives datagrams until the socket closes.
pub(super) fn listen(group: &PortGroup, address: SocketAddr) -> std::io::Result<SocketAddr> {
    let socket = UdpSocket::bind(address)?;
    let bound = socket.local_addr()?;
    let wanted = group.0.iter().map(|port| port.input.receive_bytes).max().unwrap_or_default();
    // A process with root privileges may exceed the system's limit.
    if wanted > 0 && sockopt::set_socket_recv_buffer_size_force(socket.as_fd(), wanted).is_err() {
        sockopt::set_socket_recv_buffer_size(socket.as_fd(), wanted)?;
    }
    socket.set_read_timeout(Some(RECEIVE_TIMEOUT))?;
    let (packs, arrived) = sync_channel(PACKS_MAX);
    let (spent, spares) = sync_channel(PACKS_MAX);
    let (reader, writer) = (group.clone(), group.clone());
    let name = |what: &str| std::thread::Builder::new().name(format!("udp-{what}-{}", bound.port()));
    name("read").spawn(move || {
        read(&reader, &socket, &packs, &spares, LAST_READ_NS);
        // The socket is dropped before the stanzas: once they are gone, another socket may be opened at this address.
        drop(socket);
        drop(reader);
    })?;
    name("cut").spawn(move || extract_events(&writer, bound, &arrived, &spent))?;
    Ok(bound)
}

/// Empties the socket. While datagrams arrive, it reads without blocking after short pauses, in which the system
/// buffers them; it blocks only after a silence.
///
/// At the end, datagrams that have already arrived are read, for `last_read_ns` at most.
fn read(group: &PortGroup, socket: &UdpSocket, packs: &SyncSender<Pack>, spares: &Receiver<Pack>, last_read_ns: i64) {
    let Some(shared) = group.0.first().map(|port| &port.shared) else { return };
    let clock = &shared.settings.clock;
    let mut stopped_at = None;
    let mut is_over = |is_empty: bool| {
        if !*shared.stopping.borrow() {
            return false;
        }
        let since = *stopped_at.get_or_insert_with(|| clock.elapsed_ns());
        is_empty || clock.elapsed_ns().saturating_sub(since) >= last_read_ns
    };
    let mut drops = Drops::of(socket);
    let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
    let mut pack = Pack::default();
    let (mut waits, mut came, mut rounds) = (true, 0_u64, 0_u64);
    // If the mode cannot be set, reading only becomes less efficient.
    let set_waiting = |waits: bool| drop(socket.set_nonblocking(!waits));
    loop {
        match socket.recv_from(&mut datagram) {
            Ok((count, from)) => {
                pack.bytes.extend_from_slice(&datagram[..count]);
                pack.ends.push((pack.bytes.len(), from.ip()));
                came += 1;
                if waits {
                    waits = false;
                    set_waiting(false);
                }
                if pack.bytes.len() >= PACK_BYTES || pack.ends.len() >= PACK_DATAGRAMS {
                    let next = spares.try_recv().unwrap_or_default();
                    if packs.send(std::mem::replace(&mut pack, next)).is_err() || is_over(false) {
                        return;
                    }
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let Some(next) = try_send_pack(pack, packs, spares) else { return };
                pack = next;
                rounds += 1;
                if rounds.is_multiple_of(DROP_CHECK_READS) {
                    shared.limits.dropped.fetch_add(drops.new_drops(), Ordering::Relaxed);
                }
                if is_over(came == 0 && pack.ends.is_empty()) {
                    if !pack.ends.is_empty() {
                        // The other thread takes the packs before it ends.
                        packs.send(pack).ok();
                    }
                    return;
                }
                match (waits, came) {
                    (true, _) => {}
                    (false, 0) => {
                        waits = true;
                        set_waiting(true);
                    }
                    (false, _) => std::thread::park_timeout(GATHER_PAUSE),
                }
                came = 0;
            }
            // An ICMP error from a destination does not concern received datagrams.
            Err(_) => {}
        }
    }
}

/// Passes a pack to the other thread, unless the queue is full; the pack may then be filled further. Returns the pack
/// to fill next, or `None` if the other thread has ended.
fn try_send_pack(pack: Pack, packs: &SyncSender<Pack>, spares: &Receiver<Pack>) -> Option<Pack> {
    if pack.ends.is_empty() {
        return Some(pack);
    }
    match packs.try_send(pack) {
        Ok(()) => Some(spares.try_recv().unwrap_or_default()),
        Err(TrySendError::Full(kept)) => Some(kept),
        Err(TrySendError::Disconnected(_)) => None,
    }
}

/// Extracts the events of one stanza.
struct EventExtractor<'a> {
    port: &'a Port,
    datagrams: Datagrams,
    appender: Appender,
    batch: EventBatch,
    host: CachedHost<'a>,
}

/// Extracts and stores events.
fn extract_events(group: &PortGroup, bound: SocketAddr, arrived: &Receiver<Pack>, spent: &SyncSender<Pack>) {
    let Some(shared) = group.0.first().map(|port| &port.shared) else { return };
    let _alive = shared.alive.clone();
    let mut cutters: Vec<EventExtractor<'_>> = group.0.iter().map(|port| EventExtractor::new(port, bound)).collect();
    loop {
        let now = || shared.settings.clock.now_ns();
        let arrived = arrived.recv_timeout(RECEIVE_TIMEOUT);
        match arrived {
            Ok(mut pack) => {
                take(group, &mut cutters, &pack, now());
                pack.bytes.clear();
                pack.ends.clear();
                // If the channel is full, the pack is freed.
                drop(spent.try_send(pack));
            }
            Err(RecvTimeoutError::Timeout) => {
                cutters.iter_mut().for_each(|cutter| cutter.datagrams.flush_silent(now(), false, &mut cutter.batch));
            }
            Err(RecvTimeoutError::Disconnected) => {
                for cutter in &mut cutters {
                    cutter.datagrams.flush_silent(now(), true, &mut cutter.batch);
                    cutter.append(&bound);
                    cutter.settle(&bound);
                }
                return;
            }
        }
        cutters.iter_mut().for_each(|cutter| cutter.append(&bound));
    }
}

fn take(group: &PortGroup, cutters: &mut [EventExtractor<'_>], pack: &Pack, now: i64) {
    let mut start = 0;
    // Most datagrams come from the same sender as the previous one.
    let mut known: Option<(IpAddr, Option<usize>)> = None;
    for (end, from) in &pack.ends {
        let text = &pack.bytes[start..*end];
        start = *end;
        let place = match known {
            Some((sender, Some(place))) if sender == *from => Some(place),
            _ => group.find_stanza(*from),
        };
        known = Some((*from, place));
        if let Some(cutter) = place.and_then(|place| cutters.get_mut(place)) {
            cutter.take(text, *from, now);
        }
    }
}

impl EventExtractor<'_> {
    fn new(port: &Arc<Port>, bound: SocketAddr) -> EventExtractor<'_> {
        let template = Arc::new(port.template(bound));
        EventExtractor {
            port,
            datagrams: Datagrams::new(template, port.input.keeps_priority, port.input.keeps_text),
            appender: Appender::new(Arc::clone(&port.store)),
            batch: EventBatch::default(),
            host: CachedHost { port, cached: None },
        }
    }

    fn take(&mut self, text: &[u8], from: IpAddr, now: i64) {
        let (address, host) = self.host.lookup(from);
        if let Err(error) = self.datagrams.push(Datagram { host, address, text }, now, &mut self.batch) {
            self.port.shared.limits.lost.fetch_add(1, Ordering::Relaxed);
            log::error(format!("[{}]: {error}", self.port.input.stanza));
        }
        if self.batch.raw.len() >= BATCH_BYTES || self.batch.len() >= BATCH_EVENTS {
            self.append(&from);
        }
    }

    fn append(&mut self, from: &dyn std::fmt::Display) {
        append(&mut self.appender, &mut self.batch, self.port, from);
    }

    /// Waits until everything is stored or lost.
    fn settle(&mut self, from: &dyn std::fmt::Display) {
        while !self.appender.is_settled() {
            while_busy(&mut self.appender, &mut self.batch, (self.port, from), |appender, _| {
                appender.wait_until_at_most(0)
            });
        }
    }
}

/// Cached host; most datagrams come from the same sender as the previous one.
struct CachedHost<'a> {
    port: &'a Port,
    cached: Option<(IpAddr, String, String)>,
}

impl CachedHost<'_> {
    /// Returns the text of the address `from` and its host.
    fn lookup(&mut self, from: IpAddr) -> (&str, &str) {
        if self.cached.as_ref().is_none_or(|(address, ..)| *address != from) {
            let host = match self.port.input.sender_host {
                SenderHost::Address => from.to_canonical().to_string(),
                SenderHost::Name => self.port.shared.names.resolve_blocking(from),
                SenderHost::Fixed => self.port.input.host.as_ref().unwrap_or(&self.port.shared.settings.host).clone(),
            };
            self.cached = Some((from, from.to_canonical().to_string(), host));
        }
        self.cached.as_ref().map_or(("", ""), |(_, address, host)| (address.as_str(), host.as_str()))
    }
}

/// Reader of the system's count of datagrams dropped for a socket.
struct Drops {
    table: &'static str,
    inode: Option<String>,
    last_count: u64,
}

impl Drops {
    fn of(socket: &UdpSocket) -> Drops {
        let is_v6 = socket.local_addr().is_ok_and(|address| address.is_ipv6());
        let table = if is_v6 { "/proc/net/udp6" } else { "/proc/net/udp" };
        let inode = rustix::fs::fstat(socket.as_fd()).ok().map(|stat| stat.st_ino.to_string());
        Drops { table, inode, last_count: 0 }
    }

    /// Number of datagrams dropped since the last call; 0 on systems without such a table.
    fn new_drops(&mut self) -> u64 {
        let Some(inode) = &self.inode else { return 0 };
        let Ok(table) = std::fs::read_to_string(self.table) else { return 0 };
        let row = table.lines().map(str::split_whitespace).find(|row| row.clone().nth(9) == Some(inode));
        let drops = row.and_then(|row| row.last()?.parse::<u64>().ok()).unwrap_or(self.last_count);
        let fresh = drops.saturating_sub(self.last_count);
        self.last_count = drops;
        fresh
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use quarry_inputs::EventStore;

    use super::super::tests::{FailsLater, FullLog, Nowhere, port_of};
    use super::*;

    /// Number of lost batches if one datagram arrives before the socket of a port with this store closes.
    fn lost_from(store: Arc<dyn EventStore>) -> u64 {
        let (port, _clock, _open) = port_of(store);
        let port = Arc::new(port);
        let address = SocketAddr::from(([127, 0, 0, 1], 514));
        let (packs, arrived) = sync_channel(1);
        let (spent, _spares) = sync_channel(1);
        packs.send(Pack { bytes: b"text".to_vec(), ends: vec![(4, address.ip())] }).unwrap();
        drop(packs);
        extract_events(&PortGroup(vec![Arc::clone(&port)].into()), address, &arrived, &spent);
        port.shared.limits.lost.load(Ordering::Relaxed)
    }

    #[test]
    fn events_that_are_lost_when_a_socket_closes_are_counted() {
        assert_eq!(lost_from(Arc::new(FailsLater)), 1);
    }

    #[test]
    fn events_that_the_log_refuses_are_stored_before_a_socket_closes() {
        let store = Arc::new(FullLog::with_refusals(2));
        assert_eq!((lost_from(store.clone()), store.texts().len()), (0, 1));
    }

    #[test]
    fn a_socket_that_is_flooded_closes() {
        let (port, _clock, (stop, _ended)) = port_of(Arc::new(Nowhere));
        let group = PortGroup(vec![Arc::new(port)].into());
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        socket.set_read_timeout(Some(RECEIVE_TIMEOUT)).unwrap();
        let (packs, arrived) = sync_channel(PACKS_MAX);
        let (_spent, spares) = sync_channel(PACKS_MAX);
        let is_closed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let flooding = scope.spawn(|| {
                let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
                // Far more than is sent before the socket closes.
                let sent = (0..5_000_000).take_while(|_| {
                    sender.send_to(b"text", address).ok();
                    !is_closed.load(Ordering::Relaxed)
                });
                sent.count()
            });
            scope.spawn(move || {
                arrived.recv().unwrap();
                stop.send_replace(true);
                arrived.iter().for_each(drop);
            });
            read(&group, &socket, &packs, &spares, 0);
            is_closed.store(true, Ordering::Relaxed);
            drop(packs);
            assert!(flooding.join().unwrap() < 5_000_000, "the socket was read until the sender had finished");
        });
    }
}
