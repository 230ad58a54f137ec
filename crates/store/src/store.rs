//! The public interface of the store: opening, appending, closing.
//!
//! One thread writes the log (see `log_thread`), sealer threads seal slabs (see `seal`), one thread may merge buckets
//! (see `compaction`), and any number of threads append and search. Once the ticket of an append reports success, its
//! events are in the log and visible. Closing a store seals nothing and loses nothing.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use quarry_blob::{BlobStore, BlockCache, CacheLimits, DirectoryStore};
use quarry_bucket::{MAX_SLAB_EVENTS, MAX_SLAB_RAW_BYTES};
use quarry_catalog::{Catalog, CheckpointKey, FileCheckpoint, LoggedCheckpoint, SourceIdentity, UnansweredPart};
use quarry_event::time::NS_PER_SEC;
use quarry_event::{EventBatch, SentRequest};
use quarry_stdx::SharedClock;

use crate::data_dir::DirLock;
use crate::disk::{Disk, LocalDisk};
use crate::followers::Follower;
use crate::gaps::AppendTurn;
use crate::log_files::LogFiles;
use crate::log_thread::LogThread;
use crate::new_indexes::NewIndexes;
use crate::order::FileOrder;
use crate::queue::{Closing, PendingAppend, Queue, QueueStats};
use crate::recover::{clean_up, recover, remove_empty};
use crate::remote::copies::Remotes;
use crate::report::Message;
use crate::sealed_buckets::Readers;
use crate::sent_requests::{PartState, SentRequests, duplicates_message};
use crate::state::{ClosedSlab, Progress, RecoveredStore, Shared};
use crate::sync::{lock, wait};
use crate::ticket::{Ticket, promise_and_ticket};
use crate::wal::mark::DurableMark;
use crate::wal::read::Repair;
use crate::wal::record::EncodedRecord;
use crate::wal::write::LogWriter;
use crate::{IndexSelector, StoreError, StoreOptions, admission, compaction, data_dir, remote, seal};

/// Maximum number of files in the block cache, each with up to a megabyte; beyond it, files are evicted.
const CACHE_FILES_MAX: usize = 1 << 20;

/// Events to store, and the checkpoint of their file.
#[derive(Clone, Debug, Default)]
pub struct AppendRequest {
    /// Events, which are split by index when they are stored; may be empty if only the checkpoint changes.
    pub batch: EventBatch,
    /// Position in the file after these events; takes effect together with them.
    pub checkpoint: Option<FileCheckpoint>,
}

/// The volumes of a writable store and their block cache.
fn remotes_of(options: &StoreOptions, clock: &SharedClock) -> Result<Remotes, StoreError> {
    let Some(remote) = &options.remote else { return Ok(Remotes::none()) };
    let free_bytes_min = options.free_bytes_min.saturating_add(remote.eviction_padding);
    let limits = CacheLimits { bytes_max: remote.cache_bytes_max, files_max: CACHE_FILES_MAX, free_bytes_min };
    Ok(Remotes::new(remote, BlockCache::open(&data_dir::cache(&options.dir), limits, clock.clone())?))
}

/// An open data directory.
#[derive(Debug)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    writer: Option<Writer>,
    _lock: DirLock,
}

/// State that only a writable store has.
#[derive(Debug)]
struct Writer {
    queue: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    compaction: Mutex<Option<JoinHandle<()>>>,
    new_indexes: NewIndexes,
}

impl Writer {
    fn new(queue: Arc<Queue>) -> Writer {
        Writer { queue, threads: Mutex::default(), compaction: Mutex::default(), new_indexes: NewIndexes::default() }
    }
}

impl Store {
    /// Opens a data directory for writing, creating it if missing. Events that were stored before an unclean shutdown
    /// are searchable at once.
    pub fn open(options: StoreOptions, clock: SharedClock) -> Result<Arc<Store>, StoreError> {
        let lock = DirLock::exclusive(&options.dir)?;
        let catalog = data_dir::open_catalog(&options, &clock)?;
        let blobs = Arc::new(DirectoryStore::open(&data_dir::objects(&options.dir))?);
        Store::start(options, Arc::new(LocalDisk), blobs, catalog, clock, lock)
    }

    /// Like [`Store::open`] with other implementations of disk, objects and catalog, for tests.
    pub fn open_with(
        options: StoreOptions,
        disk: Arc<dyn Disk>,
        blobs: Arc<dyn BlobStore>,
        catalog: Catalog,
        clock: SharedClock,
    ) -> Result<Arc<Store>, StoreError> {
        let lock = DirLock::exclusive(&options.dir)?;
        Store::start(options, disk, blobs, catalog, clock, lock)
    }

    /// Opens an existing data directory read-only. No server may have the directory open.
    pub fn open_read_only(options: StoreOptions, clock: SharedClock) -> Result<Arc<Store>, StoreError> {
        let lock = DirLock::shared(&options.dir)?;
        let catalog = data_dir::open_catalog_read_only(&options, &clock)?;
        let blobs = Arc::new(DirectoryStore::open_existing(&data_dir::objects(&options.dir)));
        let recovered = recover(&options, &catalog, Repair::ReadOnly)?;
        let remotes = match &options.remote {
            None => Remotes::none(),
            Some(remote) => {
                Remotes::new(remote, BlockCache::open_read_only(&data_dir::cache(&options.dir), clock.clone())?)
            }
        };
        let readers = Readers::new(blobs, remotes, &options);
        let log_files = LogFiles::new(Arc::new(LocalDisk), recovered.segments);
        let found =
            RecoveredStore { state: recovered.state, log_damage: recovered.log_damage, sent: SentRequests::none() };
        let shared = Shared::new(options, clock, catalog, readers, log_files, found);
        recovered.notes.into_iter().for_each(|text| shared.report_message(text));
        shared.report_log_damage();
        Ok(Arc::new(Store { shared: Arc::new(shared), writer: None, _lock: lock }))
    }

    fn start(
        mut options: StoreOptions,
        disk: Arc<dyn Disk>,
        blobs: Arc<dyn BlobStore>,
        catalog: Catalog,
        clock: SharedClock,
        dir_lock: DirLock,
    ) -> Result<Arc<Store>, StoreError> {
        options.pipeline_sets = options.pipeline_sets.max(1);
        options.sealers = options.sealer_threads();
        options.slab_events = options.slab_events.clamp(1, MAX_SLAB_EVENTS);
        options.slab_raw_bytes = options.slab_raw_bytes.clamp(1, MAX_SLAB_RAW_BYTES);
        let mut recovered = recover(&options, &catalog, Repair::Truncate)?;
        remove_empty(&mut recovered.segments, &*disk)?;
        let now = clock.elapsed_ns();
        recovered.state.hot.iter_mut().for_each(|(_, slab)| slab.appended_at = now);
        recovered.state.next_bucket = recovered.next_bucket;
        let (messages, retired) = clean_up(&catalog, &*blobs, &recovered.state)?;
        recovered.state.retired = retired;
        let writer = LogWriter::new(disk.clone(), data_dir::log(&options.dir), options.free_bytes_min);
        let queue = Arc::new(Queue::new(options.pending_bytes_max, options.pipeline_sets));
        let readers = Readers::new(blobs, remotes_of(&options, &clock)?, &options);
        let next_lsn = recovered.next_lsn;
        let log = data_dir::log(&options.dir);
        let (sent, note) = SentRequests::begin(&*disk, &log, &catalog, next_lsn, recovered.sent, now)?;
        recovered.notes.extend(note);
        let mark = DurableMark::new(disk.clone(), &log);
        let log_files = LogFiles::new(disk, recovered.segments);
        let found = RecoveredStore { state: recovered.state, log_damage: recovered.log_damage, sent };
        let shared = Arc::new(Shared::new(options, clock, catalog, readers, log_files, found));
        recovered.notes.into_iter().for_each(|text| shared.report_message(text));
        shared.report_log_damage();
        messages.into_iter().for_each(|text| shared.report_message(text));
        shared.release_log();
        let order = FileOrder::default();
        let (thread_shared, thread_queue) = (shared.clone(), queue.clone());
        let log = LogThread { shared: thread_shared, queue: thread_queue, writer, mark, noted: None, next_lsn, order };
        let mut store = Store { shared, writer: Some(Writer::new(queue)), _lock: dir_lock };
        let holding = store.shared.state().indexes();
        let holding = holding.iter().map(|index| index.to_string());
        let new_indexes = NewIndexes::of(holding, &store.shared.options.configured_indexes);
        if let Some(writer) = &mut store.writer {
            writer.new_indexes = new_indexes;
        }
        store.spawn("quarry-log", move || log.run())?;
        for _ in 0..store.shared.options.sealer_threads() {
            let shared = store.shared.clone();
            store.spawn("quarry-seal", move || seal::run(&shared))?;
        }
        if store.shared.options.remote.is_some() {
            store.shared.resume_uploads()?;
            let shared = store.shared.clone();
            store.spawn("quarry-upload", move || remote::run(&shared))?;
        }
        if store.shared.options.compaction.has_background_merges() {
            let shared = store.shared.clone();
            let thread = store.thread("quarry-compact", move || compaction::run(&shared))?;
            *lock(&store.writer()?.compaction) = Some(thread);
        }
        Ok(Arc::new(store))
    }

    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
        let thread = self.thread(name, work)?;
        lock(&self.writer()?.threads).push(thread);
        Ok(())
    }

    fn thread(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        thread.map_err(|error| StoreError::from_io("start thread for", &self.shared.options.dir, &error))
    }

    fn writer(&self) -> Result<&Writer, StoreError> {
        self.writer.as_ref().ok_or(StoreError::ReadOnly)
    }

    /// Whether the store is writable.
    pub fn is_writable(&self) -> bool {
        self.writer.is_some()
    }

    /// Background failures, oldest first.
    pub fn messages(&self) -> Vec<Message> {
        for fault in self.shared.readers.faults.take_unreported() {
            self.shared.report_message(fault.to_string());
        }
        self.shared.report.messages()
    }

    /// Submits events to the log; the ticket reports when they are stored. Waits while too much is in progress.
    ///
    /// After an append with a checkpoint failed, immediately or through its ticket, every further append of the same
    /// file fails with [`StoreError::EarlierPartMissing`] until the caller has read the file's stored position with
    /// [`Store::checkpoints_of`].
    pub fn append(&self, request: AppendRequest) -> Result<Ticket, StoreError> {
        self.append_to_set(0, request)
    }

    /// Like [`Store::append`], but through pipeline set `set` (modulo the number of sets). Each set has a share of the
    /// queue and hot slabs of its own. A file must use one set at a time.
    pub fn append_to_set(&self, set: usize, request: AppendRequest) -> Result<Ticket, StoreError> {
        let turn = self.shared.gaps.begin(request.checkpoint.is_some());
        let checkpoint = request.checkpoint.clone();
        let queued = self.enqueue_parts(set % self.shared.options.pipeline_sets.max(1), request, &turn);
        if let (Err(_), Some(checkpoint)) = (&queued, &checkpoint) {
            self.shared.gaps.record_failure(checkpoint);
        }
        queued
    }

    /// Begins a request that its sender repeats if it gets no answer. `key` identifies sender and content.
    pub fn begin_request(&self, key: u128) -> SentRequest {
        self.shared.sent.begin_request(key)
    }

    /// Like [`Store::append_to_set`] for a part of a request that [`Store::begin_request`] began. A part that was
    /// stored but not answered before a crash is not stored again.
    pub fn append_sent(&self, set: usize, batch: EventBatch, request: &SentRequest) -> Result<Ticket, StoreError> {
        let mut before = Vec::new();
        let parts = if batch.has_single_index() {
            vec![batch]
        } else {
            admission::check_rows(&batch)?;
            batch.split_by_index()
        };
        let set = set % self.shared.options.pipeline_sets.max(1);
        let mut queue_part = |batch: EventBatch| {
            let turn = self.shared.gaps.begin(false);
            let now = self.shared.clock.elapsed_ns();
            if let PartState::New(part) = self.shared.sent.add_part(request, &batch, &self.shared.catalog, now)? {
                let append = AppendRequest { batch, checkpoint: None };
                before.push(self.enqueue(set, append, None, &turn, Some((request.id, part)))?);
            }
            Ok(())
        };
        if let Err(error) = parts.into_iter().try_for_each(&mut queue_part) {
            // All parts must have ended before the caller records the failure of the request.
            before.into_iter().for_each(|ticket| drop(ticket.wait()));
            return Err(error);
        }
        Ok(Ticket::done(Ok(())).combined_with(before))
    }

    /// Records that the senders of these requests are about to be answered: from now on, the same content is a new
    /// request. After an error, they must not be answered.
    pub fn record_answered(&self, requests: &[SentRequest]) -> Result<(), StoreError> {
        let noted = self.shared.sent.record_answered(requests);
        if let Some(error) = self.shared.sent.take_fault() {
            self.shared.report_message(duplicates_message(&error));
        }
        noted
    }

    /// Records that a request failed and that its sender will be asked to repeat it; its stored parts are not stored
    /// again.
    pub fn record_failure(&self, request: &SentRequest) -> Result<(), StoreError> {
        self.shared.sent.record_failure(request, self.shared.clock.elapsed_ns())
    }

    /// Fails if an index cannot accept events, for example because a new index would exceed the limit of automatic
    /// indexes.
    pub fn check_index(&self, index: &str) -> Result<(), StoreError> {
        let configured = &self.shared.options.configured_indexes;
        self.writer.as_ref().map_or(Ok(()), |writer| writer.new_indexes.check(index, configured))
    }

    fn admit(&self, batch: &EventBatch) -> Result<(), StoreError> {
        admission::check(batch)?;
        self.writer()?.new_indexes.admit(batch, &self.shared.options.configured_indexes)
    }

    /// Fill level of each pipeline set's queue; empty for a read-only store.
    pub fn queue_stats(&self) -> Vec<QueueStats> {
        self.writer().map(|writer| writer.queue.stats()).unwrap_or_default()
    }

    /// An empty batch with the memory of an earlier one, if available, so that large batches need no new memory.
    pub fn spare_batch(&self) -> Option<EventBatch> {
        self.shared.spares.take_batch()
    }

    /// Queues the events, with one part for each index. The checkpoint belongs to the last part, so that it never
    /// covers events that are not stored. After a crash or an error between two parts, a caller that repeats the
    /// request stores the earlier parts twice.
    fn enqueue_parts(&self, set: usize, request: AppendRequest, turn: &Arc<AppendTurn>) -> Result<Ticket, StoreError> {
        if request.batch.has_single_index() {
            return self.enqueue(set, request, None, turn, None);
        }
        let AppendRequest { batch, checkpoint } = request;
        admission::check_rows(&batch)?;
        let rows = batch.len();
        let mut parts = batch.split_by_index();
        assert_eq!(parts.iter().map(|part| part.len()).sum::<usize>(), rows, "each event is in one part");
        // Every part is checked before the first one is queued.
        parts.iter().try_for_each(|part| self.admit(part))?;
        let last = parts.pop().unwrap_or_default();
        let before = parts
            .into_iter()
            .map(|batch| self.enqueue(set, AppendRequest { batch, checkpoint: None }, checkpoint.clone(), turn, None));
        let before = before.collect::<Result<Vec<_>, _>>()?;
        Ok(self.enqueue(set, AppendRequest { batch: last, checkpoint }, None, turn, None)?.combined_with(before))
    }

    fn enqueue(
        &self,
        set: usize,
        request: AppendRequest,
        part_of: Option<FileCheckpoint>,
        turn: &Arc<AppendTurn>,
        sent: Option<(u64, UnansweredPart)>,
    ) -> Result<Ticket, StoreError> {
        let queue = &self.writer()?.queue;
        let AppendRequest { batch, checkpoint } = request;
        self.shared.gaps.check(checkpoint.as_ref().or(part_of.as_ref()), turn)?;
        self.admit(&batch)?;
        if batch.is_empty() && checkpoint.is_none() {
            return Ok(Ticket::done(Ok(())));
        }
        self.wait_for_sealers()?;
        let part = sent.as_ref().map(|(_, part)| part);
        let record = EncodedRecord::new(&batch, checkpoint.as_ref(), part, self.shared.spares.take_record())?;
        let (promise, ticket) = promise_and_ticket();
        let turn = Arc::clone(turn);
        queue.push_append(PendingAppend { record, batch, checkpoint, part_of, sent, set, turn, promise })?;
        Ok(ticket)
    }

    /// Fails if an append would now be refused because the disk is full, sealing has stalled, or the log thread has ended.
    /// Health checks call this function, so that senders turn to another node.
    pub fn check_room(&self) -> Result<(), StoreError> {
        self.check_room_for(0)
    }

    /// Like [`Store::check_room`], for an append of `bytes` bytes in addition to the queued ones. A caller whose sender
    /// cannot repeat events checks this before an append, because a queued append that fails for lack of room is gone.
    pub fn check_room_for(&self, bytes: u64) -> Result<(), StoreError> {
        let options = &self.shared.options;
        let state = self.shared.state();
        if state.stopping {
            return Err(StoreError::Closed);
        }
        if let Some(reason) = state.is_crowded(options).then(|| state.stall_reason()).flatten() {
            return Err(StoreError::SealStalled { reason });
        }
        drop(state);
        if options.free_bytes_min == 0 {
            return Ok(());
        }
        let queued = self.writer.as_ref().map_or(0, |writer| writer.queue.bytes());
        let needed = options.free_bytes_min.saturating_add(queued).saturating_add(bytes);
        let free = self.shared.log_files.free_bytes(&options.dir);
        if free.map_err(|error| StoreError::from_io("determine the free space of", &options.dir, &error))? < needed {
            return Err(StoreError::Full { path: options.dir.clone(), kept_free_bytes: options.free_bytes_min });
        }
        Ok(())
    }

    /// Waits while too many slabs wait to be sealed.
    fn wait_for_sealers(&self) -> Result<(), StoreError> {
        let options = &self.shared.options;
        let mut state = self.shared.state();
        while state.is_crowded(options) {
            if state.stopping {
                return Err(StoreError::Closed);
            }
            if let Some(reason) = state.stall_reason() {
                return Err(StoreError::SealStalled { reason });
            }
            state = wait(&self.shared.seal_done, state);
        }
        Ok(())
    }

    /// Closes every hot slab and waits until all are sealed.
    pub fn seal_all(&self) -> Result<(), StoreError> {
        self.close_slabs(Closing::All)?;
        self.wait_for_seals(&IndexSelector::all())
    }

    /// A follower of the new events of these indexes; `None` if there are too many followers.
    pub fn follow(&self, indexes: &IndexSelector) -> Option<Follower> {
        self.shared.followers.add(indexes)
    }

    /// Like [`Store::seal_all`] for some indexes: afterwards, all events that were appended to them before are in
    /// buckets.
    pub fn seal_selected(&self, indexes: &IndexSelector) -> Result<(), StoreError> {
        self.close_slabs(Closing::Indexes(indexes.clone()))?;
        self.wait_for_seals(indexes)
    }

    pub(crate) fn wait_for_seals(&self, indexes: &IndexSelector) -> Result<(), StoreError> {
        let mut state = self.shared.state();
        state.retry_failed();
        let failures = state.seal_failures;
        let selected = |slab: &ClosedSlab| indexes.matches(slab.segment.index_name());
        let waited: Vec<u64> =
            state.closed.iter().filter(|(_, slab)| selected(slab)).map(|(number, _)| *number).collect();
        self.shared.seal_work.notify_all();
        loop {
            let left = || waited.iter().filter_map(|number| state.closed.get(number));
            let Some(slab) = left().next() else { return Ok(()) };
            if let Progress::Quarantined(reason) = &slab.progress
                && left().all(|slab| matches!(slab.progress, Progress::Quarantined(_)))
            {
                let bucket = format!("{}~{}", slab.segment.index_name(), slab.segment.number());
                return Err(StoreError::Corrupt { bucket, reason: reason.clone() });
            }
            if let (true, Some(failure)) = (state.seal_failures > failures, &state.seal_failure) {
                return Err(failure.clone());
            }
            if state.stopping {
                return Err(StoreError::Closed);
            }
            state = wait(&self.shared.seal_done, state);
        }
    }

    /// Closes hot slabs idle for `idle_seal_secs`; they are sealed in the background.
    pub fn seal_idle(&self) -> Result<(), StoreError> {
        let idle_ns =
            i64::try_from(self.shared.options.idle_seal_secs).map_or(i64::MAX, |secs| secs.saturating_mul(NS_PER_SEC));
        self.close_slabs(Closing::IdleSince(self.shared.clock.elapsed_ns().saturating_sub(idle_ns)))
    }

    /// Waits until every append that was queued before this call is stored or refused.
    pub fn wait_for_appends(&self) -> Result<(), StoreError> {
        self.close_slabs(Closing::Nothing)
    }

    pub(crate) fn close_slabs(&self, closing: Closing) -> Result<(), StoreError> {
        let (promise, ticket) = promise_and_ticket();
        self.writer()?.queue.push_close(closing, promise)?;
        ticket.wait()
    }

    /// Completes accepted appends and ends the threads. Searches still work, and the directory stays locked until the
    /// store is dropped.
    pub fn close(&self) {
        let Some(writer) = &self.writer else { return };
        writer.queue.stop();
        self.shared.uploads.stop();
        self.shared.seal_work.notify_all();
        self.shared.uploads.report_if_busy();
        let threads = std::mem::take(&mut *lock(&writer.threads));
        for thread in threads {
            // A thread that panicked has reported the panic; its work is repeated from the log.
            drop(thread.join());
        }
        let compaction = lock(&writer.compaction).take();
        // Encoding cannot be interrupted, and its result will be discarded, so a compaction that is encoding is not
        // awaited.
        if let Some(thread) = compaction.filter(|_| !self.shared.state().compaction_encodes) {
            drop(thread.join());
        }
    }

    /// Checkpoints that a file starting with `head` may have, like [`Catalog::checkpoints_of`], but including
    /// checkpoints that are not in the catalog yet.
    pub fn checkpoints_of(&self, head: &[u8], salt: &str) -> Result<Vec<LoggedCheckpoint>, StoreError> {
        let is_of_head = |key: &CheckpointKey, length: usize| {
            length <= head.len() && SourceIdentity::of(&head[..length], salt) == key.identity
        };
        // This precedes the collection of the checkpoints, because an append that they lack must not be stored later.
        self.shared.gaps.accept_new_appends(is_of_head);
        // Pending checkpoints are read first: a checkpoint that moves to the catalog in the meantime is then found
        // there.
        let pending: Vec<LoggedCheckpoint> = {
            let state = self.shared.state();
            let of_identity = |identity: &SourceIdentity| {
                let key = |variant| CheckpointKey { identity: *identity, variant };
                state.checkpoints.range(key(0)..=key(u32::MAX)).map(|(_, logged)| logged.clone())
            };
            state.head_lengths.identities(head, salt).iter().flat_map(of_identity).collect()
        };
        let mut found = self.shared.catalog.checkpoints_of(head, salt)?;
        debug_assert!(
            found.iter().all(|logged| is_of_head(&logged.checkpoint.key, logged.checkpoint.head_bytes as usize)),
            "the catalog returns checkpoints of this file only"
        );
        for logged in pending {
            match found.iter_mut().find(|known| known.checkpoint.key == logged.checkpoint.key) {
                Some(known) if known.lsn < logged.lsn => *known = logged,
                Some(_) => {}
                None => found.push(logged),
            }
        }
        let forgotten = self.shared.forgotten_through(salt)?;
        found.retain(|logged| logged.lsn > forgotten);
        found.sort_by_key(|logged| (std::cmp::Reverse(logged.checkpoint.head_bytes), logged.checkpoint.key.variant));
        Ok(found)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}
