//! The queue as inputs see it: a sink for files, and a store for events from the network.
//!
//! A batch is split by its routes and compressed before the queue's lock is taken. Data acknowledged to a sender is
//! durable in the queue; a file's position is queued with its events.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use quarry_event::{EventBatch, SentRequest};
use quarry_inputs::s2s::batch::{BatchPacker, split_rows};
use quarry_inputs::{AppendError, EventStore, FilePosition, Receipt, Sink, SinkError};
use quarry_pipeline::EVENT_BYTES_MAX;
use quarry_stdx::Fault;

use crate::{ForwardError, Record, Routes, Spool};

/// Compressors kept for reuse.
const PACKERS_MAX: usize = 4;
/// Number of batches whose memory is kept for reuse, and the maximum size of each.
const SPARES_MAX: usize = 4;
const SPARE_BYTES_MAX: usize = 4 << 20;

/// Adds events to the queue.
#[derive(Debug)]
pub struct Outlet {
    spool: Arc<Spool>,
    routes: Arc<Routes>,
    /// Names of the groups set by the input (`_TCP_ROUTING`); `None` for the default.
    routing: Option<String>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    packers: Mutex<Vec<(BatchPacker, Vec<u8>)>>,
    spares: Mutex<Vec<EventBatch>>,
    events: AtomicU64,
    bytes: AtomicU64,
    unsent: AtomicU64,
    oversized: AtomicU64,
}

/// Counters of an outlet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutletFigures {
    /// Events received.
    pub events: u64,
    /// Bytes of their texts.
    pub bytes: u64,
    /// Events that have no group, or whose index is filtered out.
    pub unsent: u64,
    /// Events with fields too long for any receiver.
    pub oversized: u64,
}

enum BatchOrigin<'a> {
    Unknown,
    /// A file, read up to this position.
    File(FilePosition),
    /// A request that its sender may repeat, and the key of this part of it.
    Request(&'a SentRequest, u128),
}

impl Outlet {
    /// An outlet into the queue.
    pub fn new(spool: Arc<Spool>, routes: Arc<Routes>) -> Outlet {
        Outlet { spool, routes, routing: None, shared: Arc::default() }
    }

    /// This outlet with the routing of one input.
    pub fn with_routing(&self, routing: Option<&str>) -> Outlet {
        let (spool, routes, shared) = (Arc::clone(&self.spool), Arc::clone(&self.routes), Arc::clone(&self.shared));
        Outlet { spool, routes, routing: routing.map(str::to_owned), shared }
    }

    /// The routing rules.
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// A sink for files.
    pub fn sink(&self) -> OutletSink {
        OutletSink { outlet: self.with_routing(None), last: 0 }
    }

    /// The counters so far.
    pub fn figures(&self) -> OutletFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let shared = &self.shared;
        OutletFigures {
            events: read(&shared.events),
            bytes: read(&shared.bytes),
            unsent: read(&shared.unsent),
            oversized: read(&shared.oversized),
        }
    }

    /// Queues a batch; returns a record number. When that record is durable, so is the batch.
    fn put(&self, batch: EventBatch, origin: BatchOrigin<'_>) -> Result<u64, ForwardError> {
        let shared = &self.shared;
        let (events, raw_bytes, mut oversized) = (batch.len() as u64, batch.raw.len() as u64, 0);
        let (parts, unsent) = self.routes.split(batch, self.routing.as_deref());
        let (mut packer, mut bytes) = self.take_packer();
        bytes.clear();
        let mut packed = Vec::new();
        for (groups, batch) in &parts {
            for rows in split_rows(batch) {
                let (start, events) = (bytes.len(), rows.len() as u64);
                if packer.pack(batch, rows, &mut bytes) {
                    packed.push((*groups, start..bytes.len(), events));
                } else {
                    oversized += events;
                }
            }
        }
        let record = |(groups, range, events): &(u64, std::ops::Range<usize>, u64)| Record {
            groups: *groups,
            packed: &bytes[range.clone()],
            events: *events,
        };
        let records: Vec<Record<'_>> = packed.iter().map(record).collect();
        let appended = match origin {
            BatchOrigin::Unknown => self.spool.append(&records, None),
            BatchOrigin::File(position) => self.spool.append(&records, Some(position)),
            BatchOrigin::Request(request, key) => self.spool.append_part(&records, request, key),
        };
        drop(records);
        // A batch that could not be queued is counted when its input tries it again.
        if appended.is_ok() {
            let counts = [(&shared.events, events), (&shared.bytes, raw_bytes), (&shared.unsent, unsent)];
            for (counter, count) in counts {
                counter.fetch_add(count, Ordering::Relaxed);
            }
            shared.oversized.fetch_add(oversized, Ordering::Relaxed);
        }
        self.recycle(packer, bytes, parts);
        appended
    }

    fn take_packer(&self) -> (BatchPacker, Vec<u8>) {
        self.shared.packers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn recycle(&self, packer: BatchPacker, mut bytes: Vec<u8>, parts: Vec<(u64, EventBatch)>) {
        bytes.clear();
        bytes.shrink_to(SPARE_BYTES_MAX);
        let mut packers = self.shared.packers.lock().unwrap_or_else(PoisonError::into_inner);
        if packers.len() < PACKERS_MAX {
            packers.push((packer, bytes));
        }
        drop(packers);
        let mut spares = self.shared.spares.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, mut batch) in parts {
            if spares.len() < SPARES_MAX && batch.raw.capacity() <= SPARE_BYTES_MAX {
                batch.raw.clear();
                batch.ends.clear();
                batch.time.clear();
                batch.meta.clear();
                batch.metas.clear();
                batch.fields.clear_keeping(SPARE_BYTES_MAX);
                spares.push(batch);
            }
        }
    }

    fn take_spare(&self) -> Option<EventBatch> {
        self.shared.spares.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn receipt(&self, appended: Result<u64, ForwardError>) -> Result<Box<dyn Receipt>, AppendError> {
        let number = appended.map_err(refusal)?;
        Ok(Box::new(SpoolReceipt { spool: Arc::clone(&self.spool), number }))
    }
}

/// The error for a sender, which tells whether a retry can help.
fn refusal(error: ForwardError) -> AppendError {
    match error {
        ForwardError::Stopping => AppendError::Stopping,
        ForwardError::Disk { .. } => AppendError::Busy(error.into()),
        _ => AppendError::Failed(error.into()),
    }
}

struct SpoolReceipt {
    spool: Arc<Spool>,
    number: u64,
}

impl Receipt for SpoolReceipt {
    fn is_done(&self) -> bool {
        self.spool.is_durable(self.number)
    }

    fn wait(self: Box<Self>) -> Result<(), AppendError> {
        self.spool.wait_durable(self.number).map_err(refusal)
    }
}

impl EventStore for Outlet {
    fn append(&self, batch: EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
        self.receipt(self.put(batch, BatchOrigin::Unknown))
    }

    fn append_at(&self, batch: EventBatch, position: FilePosition) -> Result<Box<dyn Receipt>, AppendError> {
        self.receipt(self.put(batch, BatchOrigin::File(position)))
    }

    fn begin_request(&self, key: u128) -> SentRequest {
        self.spool.begin_request(key)
    }

    fn append_sent(&self, batch: EventBatch, request: &SentRequest) -> Result<Box<dyn Receipt>, AppendError> {
        let key = request.part_key(&batch);
        let number = match self.spool.find_queued(request, key) {
            Ok(Some(number)) => Ok(number),
            Ok(None) => self.put(batch, BatchOrigin::Request(request, key)),
            Err(error) => Err(error),
        };
        self.receipt(number)
    }

    fn record_answered(&self, requests: &[SentRequest]) -> Result<(), SinkError> {
        Ok(self.spool.record_answered(requests)?)
    }

    fn record_failure(&self, request: &SentRequest) {
        // If the failure cannot be recorded, the queued parts are at worst queued again.
        drop(self.spool.record_failure(request));
    }

    fn known_offset(&self, scope: &str, name: &[u8]) -> Result<u64, SinkError> {
        let known = self.spool.positions_of(scope, name);
        let own = known.iter().filter(|known| known.identity.head.len() == name.len());
        Ok(own.map(|known| known.offset).max().unwrap_or(0))
    }

    fn spare_batch(&self) -> Option<EventBatch> {
        self.take_spare()
    }

    fn check_index(&self, index: &str) -> Result<(), Fault> {
        if index.is_empty() { Err(Fault::invalid("an index without a name")) } else { Ok(()) }
    }
}

/// Sink that queues the events of files.
#[derive(Debug)]
pub struct OutletSink {
    outlet: Outlet,
    /// Last assigned number.
    last: u64,
}

impl Sink for OutletSink {
    fn positions(&mut self, scope: &str, head: &[u8]) -> Result<Vec<FilePosition>, SinkError> {
        Ok(self.outlet.spool.positions_of(scope, head))
    }

    fn accept(&mut self, batch: EventBatch, position: Option<FilePosition>) -> Result<(), SinkError> {
        let origin = position.map_or(BatchOrigin::Unknown, BatchOrigin::File);
        self.last = self.outlet.put(batch, origin)?;
        Ok(())
    }

    fn spare_batch(&mut self) -> Option<EventBatch> {
        self.outlet.take_spare()
    }

    fn set_routing(&mut self, groups: Option<&str>) {
        if self.outlet.routing.as_deref() != groups {
            self.outlet.routing = groups.map(str::to_owned);
        }
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(self.outlet.spool.wait_durable(self.last)?)
    }
}

// The largest event with its overhead must fit a compressed batch.
const _: () = assert!(EVENT_BYTES_MAX * 2 <= quarry_inputs::s2s::batch::PLAIN_BYTES_MAX);

#[cfg(test)]
mod tests {
    use quarry_conf::{ConfSource, Layer, Layers, OutputSettings};
    use quarry_event::Metadata;
    use quarry_event::sent_request::{RecordedAnswers, UNANSWERED_SECS};
    use quarry_event::time::NS_PER_SEC;
    use quarry_stdx::ManualClock;

    use super::*;
    use crate::spool::{GroupOptions, SpoolOptions};

    /// A queue with one group, which nothing reads, and its outlet.
    fn outlet(folder: &std::path::Path) -> (Arc<Spool>, Outlet) {
        outlet_at(folder, &ManualClock::shared(0))
    }

    fn outlet_at(folder: &std::path::Path, clock: &Arc<ManualClock>) -> (Arc<Spool>, Outlet) {
        let (spool, _) = Spool::open(SpoolOptions {
            folder: folder.to_owned(),
            limit_bytes: 1 << 20,
            free_bytes_min: 0,
            groups: vec![GroupOptions { name: "a".to_owned(), blocks: true }],
            drop_after: None,
            clock: clock.clone(),
            new_name: "name".to_owned(),
        })
        .unwrap();
        let text = "[tcpout]\ndefaultGroup = a\n[tcpout:a]\nserver = x:1\n".to_owned();
        let source = ConfSource { layer: Layer::SystemLocal, app: None, file: "outputs.conf".to_owned(), text };
        let routes = Routes::new(&OutputSettings::new(&Layers::new([source]))).unwrap();
        (Arc::clone(&spool), Outlet::new(spool, Arc::new(routes)))
    }

    /// Sends a request with one part; returns whether the part was queued.
    fn send(outlet: &Outlet, text: &[u8], is_answered: bool) -> bool {
        let before = outlet.figures().events;
        let request = outlet.begin_request(u128::from(text[0]));
        drop(outlet.append_sent(batch(text, 0), &request).unwrap());
        if is_answered {
            outlet.record_answered(&[request]).unwrap();
        }
        outlet.figures().events > before
    }

    /// Text that compression shortens little.
    fn noise(size: u64) -> Vec<u8> {
        let byte = |at: u64| (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        (0..size).map(|at| b'0' + byte(at * at + at / 7) as u8).collect()
    }

    #[test]
    fn unanswered_requests_are_not_queued_again_after_a_crash() {
        for is_deleted in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (spool, first) = outlet(folder.path());
            // Of two equal requests, one was answered.
            let sent = [(b"one", true), (b"two", false), (b"tie", true), (b"tie", false)];
            assert!(sent.iter().all(|(text, is_answered)| send(&first, *text, *is_answered)));
            if is_deleted {
                // The file with these records has been sent, and is deleted.
                (0..3).for_each(|_| drop(first.append(batch(&noise(400_000), 0)).unwrap()));
                spool.acknowledge(0, spool.last()).unwrap();
                spool.stop();
                spool.run();
                assert!(spool.used_bytes() < 800_000);
            }
            drop((spool, first));
            // A second crash changes nothing.
            drop(outlet(folder.path()));
            let (spool, again) = outlet(folder.path());
            let repeated = [b"two", b"tie", b"one", b"two", b"tie"].map(|text| send(&again, text, true));
            assert_eq!(repeated, [false, false, true, true, true], "deleted: {is_deleted}");
            drop((spool, again));
            let (_spool, last) = outlet(folder.path());
            assert!(send(&last, b"two", false), "it was answered");
        }
    }

    #[test]
    fn parts_are_candidates_only_if_they_were_certainly_not_answered() {
        let folder = tempfile::tempdir().unwrap();
        let (spool, first) = outlet(folder.path());
        assert!(send(&first, b"one", false) && send(&first, b"two", false));
        drop((spool, first));
        // The machine failed: the file of answers is of another boot.
        let answers = folder.path().join("answers");
        let kept = std::fs::read(&answers).unwrap();
        let mut other = kept.clone();
        other[16] ^= 1;
        std::fs::write(&answers, other).unwrap();
        let (spool, again) = outlet(folder.path());
        assert!(send(&again, b"one", false));
        drop((spool, again));
        // Nothing is known about the answer to the second request, whose record is older than the file.
        let (spool, again) = outlet(folder.path());
        assert_eq!([b"one", b"two"].map(|text| send(&again, text, true)), [false, true]);
        drop((spool, again));
        std::fs::write(&answers, kept).unwrap();
        let (spool, again) = outlet_at(folder.path(), &ManualClock::shared(UNANSWERED_SECS * NS_PER_SEC));
        assert!(!send(&again, b"one", false), "candidates count from the start");
        drop((spool, again));
    }

    #[test]
    fn parts_that_are_too_old_are_recorded_as_answered() {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::shared(0);
        let (spool, first) = outlet_at(folder.path(), &clock);
        assert!(send(&first, b"one", false));
        clock.advance_ns((UNANSWERED_SECS + 1) * NS_PER_SEC);
        assert!(send(&first, b"two", false));
        drop((spool, first));
        drop(outlet_at(folder.path(), &clock));
        let bytes = std::fs::read(folder.path().join("answers")).unwrap();
        let answers = RecordedAnswers::decode(&bytes, quarry_stdx::boot_id());
        assert_eq!([1, 2].map(|record| answers.is_open(record)), [false, true]);
    }

    #[test]
    fn candidates_that_expired_are_none_after_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let (spool, first) = outlet(folder.path());
        assert!(send(&first, b"one", false));
        drop((spool, first));
        let clock = ManualClock::shared(0);
        let (spool, again) = outlet_at(folder.path(), &clock);
        clock.advance_ns(UNANSWERED_SECS * NS_PER_SEC);
        assert!(send(&again, b"two", true));
        drop((spool, again));
        let (_spool, last) = outlet(folder.path());
        assert!(send(&last, b"one", true));
    }

    fn batch(text: &[u8], time: i64) -> EventBatch {
        let mut batch = EventBatch::default();
        let [index, host, source, sourcetype] = ["main", "h", "s", "t"].map(Arc::from);
        let meta = batch.intern(&Metadata { index, host, source, sourcetype });
        batch.push(text, time, meta);
        batch
    }

    #[test]
    fn a_batch_is_counted_when_it_is_queued() {
        let folder = tempfile::tempdir().unwrap();
        let (spool, outlet) = outlet(folder.path());
        assert!(outlet.append(batch(b"text", 0)).is_ok());
        let counted = outlet.figures();
        assert_eq!((counted.events, counted.bytes), (1, 4));
        spool.stop();
        assert!(outlet.append(batch(b"text", 0)).is_err());
        assert_eq!(outlet.figures(), counted);
    }

    #[test]
    fn queued_parts_of_a_failed_request_are_not_queued_again() {
        let folder = tempfile::tempdir().unwrap();
        let (_, outlet) = outlet(folder.path());
        let inputs = [None, Some("other")].map(|routing| outlet.with_routing(routing));
        let send = |parts: &[&[u8]], time: i64| {
            let request = inputs[0].begin_request(5);
            parts.iter().for_each(|text| drop(inputs[0].append_sent(batch(text, time), &request).unwrap()));
            request
        };
        // The last part is refused, and the sender is asked to repeat the request.
        let failed = send(&[b"one", b"two"], 1);
        inputs[1].record_failure(&failed);
        assert_eq!(outlet.figures().events, 2);
        let repeated = send(&[b"one", b"two", b"three"], 2);
        assert_eq!(outlet.figures().events, 3);
        outlet.record_answered(&[repeated]).unwrap();
        // After an answer, the same content is a new request.
        outlet.record_answered(&[send(&[b"one", b"two", b"three"], 3)]).unwrap();
        assert_eq!(outlet.figures().events, 6);
    }
}
