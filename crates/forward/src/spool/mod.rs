//! The queue on disk: batches that indexers have not acknowledged, in files of numbered records.
//!
//! An append is durable once the sync thread has synced it, and is sent only then, so that a number never denotes two
//! records, even after a crash. Each group of indexers has a cursor: the number of the last record that the group no
//! longer needs. Once all cursors have passed a file of the queue, the read positions stored in that file are saved
//! elsewhere, and the file is deleted. The total size is bounded; at the limit, an append waits, or drops its events
//! after the time in `drop_after`.
//!
//! Not here: the content of a batch, connections.

mod positions;
mod reader;
mod record;
mod segment;
mod sent_requests;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quarry_event::SentRequest;
use quarry_inputs::FilePosition;
use quarry_stdx::SharedClock;
use quarry_stdx::number::usize_of;
use rustix::fs::{FlockOperation, flock, statvfs};
use tokio::sync::watch;
use xxhash_rust::xxh3::xxh3_64;

pub use self::reader::{QueueRecord, SpoolReader};

use self::positions::Positions;
use self::record::{Body, RequestPart};
use self::segment::{PRIVATE_MODE, Segment, recover, replace};
use self::sent_requests::{SentRequests, UnansweredParts};
use crate::ForwardError;

/// Number of segment files into which the size limit is divided, and their minimum and maximum sizes.
const SEGMENT_COUNT: u64 = 8;
const SEGMENT_BYTES: (u64, u64) = (256 << 10, 16 << 20);
/// Unsynced bytes that trigger a sync at once, and the longest wait for more.
const GATHER_BYTES: u64 = 1 << 20;
const GATHER_WAIT: Duration = Duration::from_millis(5);
/// Interval at which the clock is checked while an append waits for room.
const ROOM_WAIT: Duration = Duration::from_millis(200);
/// Record numbers skipped after damage, because lost records with these numbers may have been sent.
const SKIPPED_NUMBERS: u64 = 1 << 20;
/// Names of the files other than segments.
const LOCK_FILE: &str = "lock";
const NAME_FILE: &str = "name";
const POSITIONS_FILE: &str = "positions";
/// Size of a cursor file: number and hash.
const CURSOR_BYTES: usize = 16;

/// A group's options.
#[derive(Clone, Debug)]
pub struct GroupOptions {
    /// Name of the group.
    pub name: String,
    /// Whether a full queue waits for this group; otherwise the group loses unread records.
    pub blocks: bool,
}

/// Options of a queue.
#[derive(Debug)]
pub struct SpoolOptions {
    /// Folder of the queue; created if missing.
    pub folder: PathBuf,
    /// Maximum bytes on disk.
    pub limit_bytes: u64,
    /// Bytes the file system must keep free; otherwise no new file is started.
    pub free_bytes_min: u64,
    /// Groups, each numbered by its position in this list.
    pub groups: Vec<GroupOptions>,
    /// Time to wait for room before events are dropped; `None` waits without limit.
    pub drop_after: Option<Duration>,
    /// Clock.
    pub clock: SharedClock,
    /// Name given to a queue that is newly created; must be unique.
    pub new_name: String,
}

/// A compressed batch for some groups.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Groups, as bits of their numbers.
    pub groups: u64,
    /// The compressed batch.
    pub packed: &'a [u8],
    /// Number of events in the batch.
    pub events: u64,
}

/// State of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFigures {
    /// Name of the group.
    pub name: String,
    /// Number of the last record that the group no longer needs.
    pub cursor: u64,
    /// Number of records that the group lost because it was too slow.
    pub lost: u64,
    /// Number of records that could not be sent to the group, because they are damaged in the queue or the protocol
    /// cannot represent them.
    pub unsent: u64,
}

/// The queue on disk, shared by inputs, the sync thread and the readers.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    name: String,
    limit_bytes: u64,
    segment_bytes: u64,
    free_bytes_min: u64,
    drop_after: Option<Duration>,
    clock: SharedClock,
    state: Mutex<State>,
    /// Notified when there are records to sync or files to delete.
    work: Condvar,
    /// Notified when records became durable or the queue failed.
    settled: Condvar,
    /// Notified when room became available.
    room: Condvar,
    durable: watch::Sender<u64>,
    _lock: File,
}

#[derive(Debug)]
struct State {
    segments: VecDeque<Segment>,
    next: u64,
    durable: u64,
    unsynced_bytes: u64,
    groups: Vec<Group>,
    positions: Positions,
    sent: SentRequests,
    buffer: Vec<u8>,
    /// Whether the file being written is damaged, so that the next append starts a new one.
    is_active_damaged: bool,
    /// Whether an append has waited for room in vain; until there is room again, further appends drop their records at
    /// once.
    is_dropping: bool,
    dropped_events: u64,
    failure: Option<ForwardError>,
    is_stopping: bool,
}

#[derive(Debug)]
struct Group {
    name: String,
    blocks: bool,
    file: File,
    cursor: u64,
    lost: u64,
    unsent: u64,
}

impl Spool {
    /// Opens the queue in a folder and recovers from a crash. The returned texts describe losses.
    pub fn open(options: SpoolOptions) -> Result<(Arc<Spool>, Vec<String>), ForwardError> {
        let folder = options.folder;
        std::fs::create_dir_all(&folder).map_err(|error| ForwardError::disk(&folder, "cannot be created", &error))?;
        let lock = lock(&folder)?;
        let name = read_or_create_name(&folder, &options.new_name)?;
        let list = folder.join(POSITIONS_FILE);
        let read = Positions::read(&list).map_err(|error| ForwardError::disk(&list, "cannot be read", &error))?;
        let mut notes = Vec::new();
        let mut positions = read.unwrap_or_else(|| {
            notes.push(format!("{}: damaged; files that were read before may be read again", list.display()));
            Positions::default()
        });
        let mut unanswered = UnansweredParts::read(&folder)?;
        let mut found = recover(&folder, &mut positions, &mut |record, part| unanswered.add(record, part))?;
        notes.append(&mut found.notes);
        let groups =
            options.groups.into_iter().map(|group| Group::open(&folder, group)).collect::<Result<Vec<_>, _>>()?;
        let last = groups.iter().map(|group| group.cursor).fold(found.last, u64::max);
        let next = last + 1 + if found.is_cut { SKIPPED_NUMBERS } else { 0 };
        let mut segments: VecDeque<Segment> = found.segments.into();
        segments.push_back(Segment::create(&folder, next)?);
        let sent = SentRequests::open(&folder, unanswered, next, options.clock.elapsed_ns())?;
        let state = State {
            segments,
            next,
            durable: next - 1,
            unsynced_bytes: 0,
            groups,
            positions,
            sent,
            buffer: Vec::new(),
            is_active_damaged: false,
            is_dropping: false,
            dropped_events: 0,
            failure: None,
            is_stopping: false,
        };
        let (smallest, largest) = SEGMENT_BYTES;
        let spool = Spool {
            folder,
            name,
            limit_bytes: options.limit_bytes,
            segment_bytes: (options.limit_bytes / SEGMENT_COUNT).clamp(smallest, largest),
            free_bytes_min: options.free_bytes_min,
            drop_after: options.drop_after,
            clock: options.clock,
            state: Mutex::new(state),
            work: Condvar::new(),
            settled: Condvar::new(),
            room: Condvar::new(),
            durable: watch::Sender::new(next - 1),
            _lock: lock,
        };
        Ok((Arc::new(spool), notes))
    }

    /// The queue's unique name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A watch on the number of the last durable record.
    pub fn watch_durable(&self) -> watch::Receiver<u64> {
        self.durable.subscribe()
    }

    /// Total size of the files.
    pub fn used_bytes(&self) -> u64 {
        self.lock().used_bytes()
    }

    /// Events dropped for lack of room.
    pub fn dropped_events(&self) -> u64 {
        self.lock().dropped_events
    }

    /// Counts records that cannot be sent to a group.
    fn count_unsent(&self, group: usize, records: u64) {
        if let Some(group) = self.lock().groups.get_mut(group) {
            group.unsent += records;
        }
    }

    /// Appends nothing more to a file whose rest cannot be read; returns the number of its last record.
    fn end_segment(&self, segment: &Segment) -> u64 {
        let mut state = self.lock();
        let is_its = |known: &&Segment| known.path == segment.path;
        let last = state.segments.iter().find(is_its).map_or(segment.last, |known| known.last);
        state.is_active_damaged |= state.segments.back().is_some_and(|active| is_its(&active));
        last
    }

    /// State of each group.
    pub fn figures(&self) -> Vec<GroupFigures> {
        let figures = |group: &Group| GroupFigures {
            name: group.name.clone(),
            cursor: group.cursor,
            lost: group.lost,
            unsent: group.unsent,
        };
        self.lock().groups.iter().map(figures).collect()
    }

    /// Number of the last record.
    pub fn last(&self) -> u64 {
        self.lock().next - 1
    }

    /// Positions of files that may begin with `head`.
    pub fn positions_of(&self, scope: &str, head: &[u8]) -> Vec<FilePosition> {
        self.lock().positions.find(scope, head)
    }

    /// Appends records with the position of their file; waits while the queue is full. Returns the number of the last
    /// record, for [`Spool::wait_durable`].
    pub fn append(&self, records: &[Record<'_>], position: Option<FilePosition>) -> Result<u64, ForwardError> {
        self.append_with(records, position, None)
    }

    /// Begins a request with this key, which its sender may repeat.
    pub(crate) fn begin_request(&self, key: u128) -> SentRequest {
        self.lock().sent.begin(key)
    }

    /// Like [`Spool::append`] for a part of a request; `key` identifies the part.
    pub(crate) fn append_part(
        &self,
        records: &[Record<'_>],
        request: &SentRequest,
        key: u128,
    ) -> Result<u64, ForwardError> {
        self.append_with(records, None, Some((request, key)))
    }

    /// If a part with this key is queued already, adds it to the request, and returns the number of its record.
    pub(crate) fn find_queued(&self, request: &SentRequest, key: u128) -> Result<Option<u64>, ForwardError> {
        self.lock().sent.find_queued(request, key, self.clock.elapsed_ns())
    }

    /// Records that the senders of these requests are about to be answered. After an error, they must not be answered.
    pub(crate) fn record_answered(&self, requests: &[SentRequest]) -> Result<(), ForwardError> {
        self.lock().sent.record_answered(requests)
    }

    /// Records that a request failed and that its sender will be asked to repeat it.
    pub(crate) fn record_failure(&self, request: &SentRequest) -> Result<(), ForwardError> {
        self.lock().sent.record_failure(request, self.clock.elapsed_ns())
    }

    fn append_with(
        &self,
        records: &[Record<'_>],
        position: Option<FilePosition>,
        part: Option<(&SentRequest, u128)>,
    ) -> Result<u64, ForwardError> {
        let bytes: usize = records.iter().map(|record| record.packed.len()).sum();
        let (mut state, is_room) = self.wait_for_room(bytes as u64)?;
        let mut records = records;
        if !is_room {
            state.dropped_events += records.iter().map(|record| record.events).sum::<u64>();
            records = &[];
        }
        if records.is_empty() && position.is_none() {
            return Ok(state.next - 1);
        }
        if self.should_roll(&state) {
            self.roll(&mut state)?;
        }
        let part = part.map(|(request, key)| (request, RequestPart { key, time: self.clock.now_ns() }));
        self.write(&mut state, records, position, part.map(|(_, part)| part))?;
        let number = state.next - 1;
        if let Some((request, part)) = part {
            state.sent.record_queued(request, number, part)?;
        }
        drop(state);
        self.work.notify_one();
        Ok(number)
    }

    /// Waits for room; `false` means the records are to be dropped.
    fn wait_for_room(&self, bytes: u64) -> Result<(MutexGuard<'_, State>, bool), ForwardError> {
        let mut state = self.lock();
        let begun = self.clock.elapsed_ns();
        loop {
            state.check()?;
            let is_small = state.segments.len() <= 1 || state.used_bytes() + bytes <= self.limit_bytes;
            if is_small && !(self.should_roll(&state) && self.is_disk_low()) {
                state.is_dropping = false;
                return Ok((state, true));
            }
            if state.skip_oldest_segment() {
                self.work.notify_one();
            }
            let waited = self.clock.elapsed_ns().saturating_sub(begun).unsigned_abs();
            if self.drop_after.is_some_and(|most| state.is_dropping || Duration::from_nanos(waited) >= most) {
                state.is_dropping = true;
                return Ok((state, false));
            }
            let waited = self.room.wait_timeout(state, ROOM_WAIT);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether the next record starts a new file.
    fn should_roll(&self, state: &State) -> bool {
        state.is_active_damaged || state.segments.back().is_none_or(|active| active.bytes >= self.segment_bytes)
    }

    /// Whether the file system has too little free space.
    pub fn is_disk_low(&self) -> bool {
        let free = statvfs(&self.folder).map(|found| found.f_bavail.saturating_mul(found.f_frsize));
        free.is_ok_and(|free| free < self.free_bytes_min)
    }

    /// Starts a new file.
    fn roll(&self, state: &mut State) -> Result<(), ForwardError> {
        if let Some(active) = state.segments.back() {
            let synced = active.file.sync_data();
            if let Err(error) = synced {
                let error = ForwardError::disk(&active.path, "cannot be synced", &error);
                return Err(self.fail_sync(state, error));
            }
        }
        let segment = Segment::create(&self.folder, state.next)?;
        state.segments.push_back(segment);
        state.is_active_damaged = false;
        Ok(())
    }

    fn write(
        &self,
        state: &mut State,
        records: &[Record<'_>],
        position: Option<FilePosition>,
        part: Option<RequestPart>,
    ) -> Result<(), ForwardError> {
        let mut buffer = std::mem::take(&mut state.buffer);
        buffer.clear();
        let first = state.next;
        let mut kept = position.clone();
        let empty = [Record { groups: 0, packed: &[], events: 0 }];
        let records = if records.is_empty() { &empty[..] } else { records };
        for (at, record) in records.iter().enumerate() {
            let is_last = at + 1 == records.len();
            let groups = state.names(record.groups);
            let position = if is_last { kept.take() } else { None };
            let body = Body {
                number: first + at as u64,
                groups: &groups,
                position,
                part: part.filter(|_| is_last),
                packed: record.packed,
                has_more: !is_last,
            };
            record::write(&body, &mut buffer);
        }
        let written = state.segments.back().map_or(Ok(()), |active| active.file.write_all_at(&buffer, active.bytes));
        let bytes = buffer.len() as u64;
        buffer.shrink_to(usize_of(GATHER_BYTES));
        state.buffer = buffer;
        let Some(active) = state.segments.back_mut() else { return Err(ForwardError::Stopping) };
        if let Err(error) = written {
            let failed = ForwardError::disk(&active.path, "cannot be written", &error);
            // A partial write must not remain before the next record.
            let is_clean = active.file.set_len(active.bytes).is_ok();
            return Err(if is_clean { failed } else { self.fail(state, failed) });
        }
        active.bytes += bytes;
        active.last = first + records.len() as u64 - 1;
        state.next = first + records.len() as u64;
        state.unsynced_bytes += bytes;
        if let Some(position) = position {
            state.positions.set(position);
        }
        Ok(())
    }

    fn fail(&self, state: &mut State, error: ForwardError) -> ForwardError {
        state.failure.get_or_insert(ForwardError::Failed(error.to_string()));
        self.settled.notify_all();
        self.room.notify_all();
        error
    }

    /// Makes the queue fail because a sync has failed. The system may count the unsynced pages as written, so the next
    /// run may read records that are not durable; it must not treat the parts in them as queued.
    fn fail_sync(&self, state: &mut State, error: ForwardError) -> ForwardError {
        // If this fails, too, nothing more can be done: the queue fails in any case.
        drop(state.sent.void(&error));
        self.fail(state, error)
    }

    /// Whether a number is durable.
    pub fn is_durable(&self, number: u64) -> bool {
        *self.durable.borrow() >= number
    }

    /// Waits until a number is durable.
    pub fn wait_durable(&self, number: u64) -> Result<(), ForwardError> {
        let mut state = self.lock();
        while state.durable < number {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            state = self.settled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Notes that a group no longer needs the records up to this number.
    pub fn acknowledge(&self, group: usize, number: u64) -> Result<(), ForwardError> {
        let mut state = self.lock();
        let Some(group) = state.groups.get_mut(group).filter(|group| group.cursor < number) else { return Ok(()) };
        group.cursor = number;
        let stored = group.save_cursor();
        let can_go = state.removable_count() > 0;
        drop(state);
        if can_go {
            self.work.notify_one();
        }
        stored.map_err(|error| ForwardError::disk(&self.folder, "a cursor cannot be written", &error))
    }

    /// Stops the queue: waiting appends fail. [`Spool::run`] returns once everything is durable.
    pub fn stop(&self) {
        self.lock().is_stopping = true;
        self.work.notify_all();
        self.room.notify_all();
    }

    /// Syncs and deletes files until the queue is stopped or fails.
    pub fn run(&self) {
        loop {
            let mut state = self.lock();
            while state.durable + 1 == state.next && state.removable_count() == 0 && !state.is_stopping {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.unsynced_bytes > 0 && state.unsynced_bytes < GATHER_BYTES && !state.is_stopping {
                drop(state);
                std::thread::park_timeout(GATHER_WAIT);
                state = self.lock();
            }
            let is_over = state.is_stopping;
            if state.failure.is_some() || !self.sync(state) || is_over {
                self.settled.notify_all();
                return;
            }
        }
    }

    /// Syncs written records and deletes files that are no longer needed; returns whether that succeeded.
    fn sync(&self, mut state: MutexGuard<'_, State>) -> bool {
        let target = state.next - 1;
        state.unsynced_bytes = 0;
        // The files to delete, the list of read positions and the list of unanswered parts are determined before the
        // sync, so that the events up to each position are durable when the lists are written.
        let count = state.removable_count();
        let lists = (count > 0).then(|| (state.positions.to_bytes(), state.sent.to_bytes()));
        let active = state.segments.back().cloned();
        drop(state);
        let synced = active.as_ref().map_or(Ok(()), |active| active.file.sync_data());
        let mut state = self.lock();
        if let (Err(error), Some(active)) = (synced, active) {
            self.fail_sync(&mut state, ForwardError::disk(&active.path, "cannot be synced", &error));
            return false;
        }
        state.durable = state.durable.max(target);
        let gone: Vec<Segment> = state.segments.iter().take(count).cloned().collect();
        drop(state);
        self.durable.send_replace(target);
        self.settled.notify_all();
        let Some((positions, unanswered)) = lists else { return true };
        let saved = unanswered.map_or(Ok(()), |list| SentRequests::save_list(&self.folder, &list));
        if let Err(error) = saved.and_then(|()| self.remove(&gone, &positions)) {
            let mut state = self.lock();
            self.fail(&mut state, error);
            return false;
        }
        self.lock().segments.drain(..count);
        self.room.notify_all();
        true
    }

    fn remove(&self, gone: &[Segment], list: &[u8]) -> Result<(), ForwardError> {
        replace(&self.folder.join(POSITIONS_FILE), list)?;
        for segment in gone {
            let removed = std::fs::remove_file(&segment.path);
            removed.map_err(|error| ForwardError::disk(&segment.path, "cannot be removed", &error))?;
        }
        Ok(())
    }

    /// A reader for a group, starting at its cursor.
    pub fn reader(self: &Arc<Spool>, group: usize) -> SpoolReader {
        let name = self.lock().groups.get(group).map(|group| group.name.clone()).unwrap_or_default();
        SpoolReader::new(Arc::clone(self), group, name)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn check(&self) -> Result<(), ForwardError> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None if self.is_stopping => Err(ForwardError::Stopping),
            None => Ok(()),
        }
    }

    fn used_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    fn names(&self, groups: u64) -> String {
        let named = self.groups.iter().enumerate().filter(|(at, _)| groups >> at & 1 == 1);
        named.map(|(_, group)| group.name.as_str()).collect::<Vec<_>>().join(",")
    }

    /// Files at the front that no group needs; never the last file, which is being written.
    fn removable_count(&self) -> usize {
        let passed = self.groups.iter().map(|group| group.cursor).min().unwrap_or(u64::MAX);
        let full = self.segments.len().saturating_sub(1);
        self.segments.iter().take(full).take_while(|segment| segment.last <= passed).count()
    }

    /// Skips the first file for non-blocking groups if only they need it; returns whether any group skipped it.
    fn skip_oldest_segment(&mut self) -> bool {
        let Some(first) = self.segments.front().map(|segment| segment.last) else { return false };
        let needs = |group: &Group| group.cursor < first;
        let is_alone = self.groups.iter().all(|group| !needs(group) || !group.blocks);
        // A file that no group has passed yet would be lost entirely, so the queue waits.
        let has_another = self.groups.iter().any(|group| !needs(group));
        if !is_alone || !has_another || !self.groups.iter().any(needs) {
            return false;
        }
        for group in self.groups.iter_mut().filter(|group| group.cursor < first) {
            group.lost += first - group.cursor;
            group.cursor = first;
            // If storing the cursor fails, records are at worst sent again after a crash.
            drop(group.save_cursor());
        }
        true
    }
}

impl Group {
    fn open(folder: &Path, options: GroupOptions) -> Result<Group, ForwardError> {
        let path = folder.join(format!("cursor-{:016x}", xxh3_64(options.name.as_bytes())));
        let about = |error: std::io::Error| ForwardError::disk(&path, "cannot be opened", &error);
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(PRIVATE_MODE).open(&path);
        let file = opened.map_err(about)?;
        let mut bytes = [0; CURSOR_BYTES];
        // A new or damaged cursor starts at the first existing record.
        let cursor = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => parse_cursor(&bytes).unwrap_or(0),
            Err(_) => 0,
        };
        Ok(Group { name: options.name, blocks: options.blocks, file, cursor, lost: 0, unsent: 0 })
    }

    fn save_cursor(&self) -> std::io::Result<()> {
        let number = self.cursor.to_le_bytes();
        let mut bytes = [0; CURSOR_BYTES];
        bytes[..8].copy_from_slice(&number);
        bytes[8..].copy_from_slice(&xxh3_64(&number).to_le_bytes());
        self.file.write_all_at(&bytes, 0)
    }
}

fn parse_cursor(bytes: &[u8; CURSOR_BYTES]) -> Option<u64> {
    let (number, hash) = bytes.split_first_chunk::<8>()?;
    let is_whole = u64::from_le_bytes(hash.try_into().ok()?) == xxh3_64(number);
    is_whole.then(|| u64::from_le_bytes(*number))
}

fn lock(folder: &Path) -> Result<File, ForwardError> {
    let path = folder.join(LOCK_FILE);
    let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(PRIVATE_MODE).open(&path);
    let file = opened.map_err(|error| ForwardError::disk(&path, "cannot be opened", &error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(_) => Err(ForwardError::Locked { path: folder.to_path_buf() }),
    }
}

/// The queue's name; a new queue gets `new_name`.
fn read_or_create_name(folder: &Path, new_name: &str) -> Result<String, ForwardError> {
    let path = folder.join(NAME_FILE);
    match std::fs::read_to_string(&path) {
        Ok(name) if !name.trim().is_empty() => Ok(name.trim().to_owned()),
        _ => {
            replace(&path, new_name.as_bytes())?;
            Ok(new_name.to_owned())
        }
    }
}
