//! The roster: the known files, and queues of the files with data to read.
//!
//! A file is identified by device and inode, so that a renamed file is recognised and a file with two names is read
//! once. If the inode of a removed file is reused, the time of creation shows that the file is a new one. The watcher
//! reports files as it finds them. Each file always belongs to the same worker, because the events of a file must stay
//! in order. Files that changed after they were first seen alternate with new ones, so that a new line does not wait
//! for a hundred thousand new files.

use std::collections::VecDeque;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_stdx::number::{u32_of, usize_of};

use super::held_files::HeldFile;
use crate::file::open::created_ns;

/// Maximum number of known files; files beyond it are not read, and a message says so.
pub(crate) const FILES_MAX: usize = 1 << 20;

/// Device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Inode {
    device: u64,
    inode: u64,
}

impl Inode {
    pub(crate) fn of(metadata: &Metadata) -> Inode {
        Inode { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// A file's inode, size and time of the last write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    node: Inode,
    bytes: u64,
    modified_ns: Option<i64>,
}

impl FileState {
    /// The state of the file at `path`; `None` if there is none.
    pub(crate) fn of(path: &Path) -> Option<FileState> {
        let metadata = path.metadata().ok()?;
        let modified_ns = crate::file::open::modified_ns(&metadata);
        Some(FileState { node: Inode::of(&metadata), bytes: metadata.len(), modified_ns })
    }

    /// Inode of the file.
    pub(crate) fn node(&self) -> Inode {
        self.node
    }

    /// Size of the file in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Progress of reading a watched file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileProgress {
    /// It was too old when it was found, and is not read.
    TooOld {
        /// Size of the file in bytes.
        bytes: u64,
    },
    /// Reading has not begun.
    Waiting {
        /// Size of the file in bytes.
        bytes: u64,
    },
    /// Events up to an offset have been handed over.
    Read {
        /// Offset of the first byte that has not been handed over.
        offset: u64,
        /// Size of the file in bytes.
        bytes: u64,
    },
}

/// Number that identifies a file as long as it is known.
pub(crate) type FileNumber = u64;

/// A file with data to read.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) number: FileNumber,
    pub(crate) path: PathBuf,
    pub(crate) node: Inode,
    pub(crate) stanza: usize,
    /// The file held open since discovery, unless it has been read since.
    pub(crate) held: Option<HeldFile>,
}

#[derive(Debug)]
struct Entry {
    path: Box<Path>,
    node: Inode,
    /// Time of creation, if known.
    created_ns: Option<i64>,
    stanza: u32,
    /// Number of the last scan that found the file.
    round: u32,
    size: u64,
    changed: (i64, i64),
    queued: Option<Queue>,
    /// Set if the file was already too old to be read when it was discovered.
    is_left: bool,
    /// Offset up to which its events have been handed over; `None` before it is first read.
    handed_over: Option<u64>,
    /// The file held open, until it is first read under its name.
    held: Option<HeldFile>,
}

/// Queues of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    /// Seen for the first time, or scheduled again.
    Backlog,
    Changed,
}

/// A worker's files with data to read. A file that changes while in the backlog is added to the other queue as well,
/// and its entry in the backlog becomes void.
#[derive(Clone, Debug, Default)]
struct Ready {
    backlog: VecDeque<FileNumber>,
    changed: VecDeque<FileNumber>,
    /// True if the next file comes from the backlog, provided that both queues have files.
    is_backlog_next: bool,
}

impl Ready {
    /// Removes the next file and its queue.
    fn pop(&mut self) -> Option<(FileNumber, Queue)> {
        self.is_backlog_next = !self.is_backlog_next;
        let of_backlog = |backlog: &mut VecDeque<FileNumber>| Some((backlog.pop_front()?, Queue::Backlog));
        let of_changed = |changed: &mut VecDeque<FileNumber>| Some((changed.pop_front()?, Queue::Changed));
        if self.is_backlog_next {
            of_backlog(&mut self.backlog).or_else(|| of_changed(&mut self.changed))
        } else {
            of_changed(&mut self.changed).or_else(|| of_backlog(&mut self.backlog))
        }
    }

    fn is_empty(&self) -> bool {
        self.backlog.is_empty() && self.changed.is_empty()
    }
}

impl Entry {
    /// True if the file can still be found under its known name.
    fn has_its_name(&self) -> bool {
        self.path.metadata().is_ok_and(|metadata| Inode::of(&metadata) == self.node)
    }

    /// False if the file with this inode is certainly another one. The inode of a file that is held open is not reused.
    fn is_file(&self, created_ns: Option<i64>) -> bool {
        self.held.is_some() || self.created_ns.zip(created_ns).is_none_or(|(known, found)| known == found)
    }
}

#[derive(Debug, Default)]
struct Inner {
    next: FileNumber,
    entries: HashMap<FileNumber, Entry, FixedState>,
    numbers: HashMap<Inode, FileNumber, FixedState>,
    ready: Vec<Ready>,
    round: u32,
    is_over: bool,
}

impl Inner {
    /// Forgets the removed file whose inode a new file has.
    fn forget_replaced(&mut self, node: Inode, created_ns: Option<i64>) {
        let known = self.numbers.get(&node).copied();
        if let Some(number) = known.filter(|number| self.entries.get(number).is_some_and(|it| !it.is_file(created_ns)))
        {
            self.entries.remove(&number);
            self.numbers.remove(&node);
        }
    }
}

/// The known files.
#[derive(Debug)]
pub(crate) struct Roster {
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl Roster {
    pub(crate) fn new(workers: usize) -> Roster {
        let ready = vec![Ready::default(); workers.max(1)];
        Roster { inner: Mutex::new(Inner { ready, ..Inner::default() }), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a file was seen under this name. The same inode under another name may be a new file, because inode
    /// numbers are reused.
    pub(crate) fn is_known(&self, path: &Path, metadata: &Metadata) -> bool {
        let inner = self.lock();
        let number = inner.numbers.get(&Inode::of(metadata));
        let entry = number.and_then(|number| inner.entries.get(number));
        entry.is_some_and(|entry| *entry.path == *path && entry.is_file(created_ns(metadata)))
    }

    /// Records the current state of a file; returns false at the limit of known files. If `is_old` is set, a new file
    /// is recorded but not read. `held` keeps a new or renamed file open until it is read.
    pub(crate) fn update(
        &self,
        path: &Path,
        metadata: &Metadata,
        (stanza, is_old): (usize, bool),
        held: Option<HeldFile>,
    ) -> bool {
        let mut inner = self.lock();
        let round = inner.round;
        let node = Inode::of(metadata);
        let (size, changed) = (metadata.len(), (metadata.mtime(), metadata.mtime_nsec()));
        let created_ns = created_ns(metadata);
        inner.forget_replaced(node, created_ns);
        if let Some(number) = inner.numbers.get(&node).copied() {
            let Some(entry) = inner.entries.get_mut(&number) else { return true };
            // If a file has several names, the first one found is used as long as it exists.
            let is_renamed = *entry.path != *path && (entry.round != round || !entry.has_its_name());
            if is_renamed {
                entry.path = path.into();
                entry.held = held.or(entry.held.take());
            }
            entry.round = round;
            let is_same = (entry.size, entry.changed) == (size, changed);
            (entry.size, entry.changed) = (size, changed);
            if (!is_same || is_renamed) && !entry.is_left {
                self.push(&mut inner, number, Queue::Changed);
            }
            return true;
        }
        if inner.entries.len() >= FILES_MAX {
            return false;
        }
        let number = inner.next;
        inner.next += 1;
        let stanza = u32_of(stanza);
        let (queued, is_left, held) = (None, is_old, held.filter(|_| !is_old));
        let entry = Entry {
            path: path.into(),
            node,
            created_ns,
            stanza,
            round,
            size,
            changed,
            queued,
            is_left,
            handed_over: None,
            held,
        };
        inner.entries.insert(number, entry);
        inner.numbers.insert(node, number);
        if !is_old {
            self.push(&mut inner, number, Queue::Backlog);
        }
        true
    }

    /// Records up to which offset the events of a file have been handed over.
    pub(crate) fn record_offset(&self, number: FileNumber, offset: u64) {
        if let Some(entry) = self.lock().entries.get_mut(&number) {
            entry.handed_over = Some(offset);
        }
    }

    /// Path, stanza and progress of the known files of the stanzas for which `is_wanted` is true, at most `most` of
    /// them, by path.
    pub(crate) fn progress(
        &self,
        is_wanted: impl Fn(usize) -> bool,
        most: usize,
    ) -> Vec<(PathBuf, usize, FileProgress)> {
        let inner = self.lock();
        let mut found: Vec<&Entry> = inner.entries.values().filter(|entry| is_wanted(entry.stanza as usize)).collect();
        found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        let shown = |entry: &Entry| {
            let bytes = entry.size.max(entry.handed_over.unwrap_or(0));
            let progress = match (entry.is_left, entry.handed_over) {
                (true, _) => FileProgress::TooOld { bytes },
                (false, None) => FileProgress::Waiting { bytes },
                (false, Some(offset)) => FileProgress::Read { offset, bytes },
            };
            (entry.path.to_path_buf(), entry.stanza as usize, progress)
        };
        found.into_iter().take(most).map(shown).collect()
    }

    /// Keeps holding a file that could not be read yet.
    pub(crate) fn hold(&self, number: FileNumber, held: HeldFile) {
        if let Some(entry) = self.lock().entries.get_mut(&number) {
            entry.held = Some(held);
        }
    }

    /// Schedules a file to be read (again); returns false if the file is not known any longer, because its name is
    /// gone.
    pub(crate) fn schedule(&self, number: FileNumber) -> bool {
        let mut inner = self.lock();
        self.push(&mut inner, number, Queue::Backlog);
        inner.entries.contains_key(&number)
    }

    /// Keeps holding a file, and makes it known again if its name is gone, so that it is read from `held`.
    pub(crate) fn restore(&self, job: &Job, held: HeldFile) {
        let mut inner = self.lock();
        let round = inner.round;
        let entry = inner.entries.entry(job.number).or_insert_with(|| Entry {
            path: job.path.as_path().into(),
            node: job.node,
            created_ns: None,
            stanza: u32_of(job.stanza),
            round,
            size: 0,
            changed: (0, 0),
            queued: None,
            is_left: false,
            handed_over: None,
            held: None,
        });
        entry.held = Some(held);
        inner.numbers.entry(job.node).or_insert(job.number);
    }

    /// Takes the files of a worker that are held open, have no name, and were not read yet.
    pub(crate) fn take_removed(&self, worker: usize) -> Vec<Job> {
        let mut inner = self.lock();
        let workers = inner.ready.len() as u64;
        let removed = inner.entries.iter_mut().filter(|(number, _)| **number % workers == worker as u64);
        let removed = removed.filter_map(|(number, entry)| {
            let held = entry.held.take_if(|held| held.has_no_name())?;
            let Entry { path, node, stanza, .. } = entry;
            let (path, stanza) = (path.to_path_buf(), *stanza as usize);
            Some(Job { number: *number, path, node: *node, stanza, held: Some(held) })
        });
        removed.collect()
    }

    /// Schedules all files of a worker, because their stored positions must be looked up again.
    pub(crate) fn schedule_all(&self, worker: usize) {
        let mut inner = self.lock();
        let workers = inner.ready.len() as u64;
        let of_worker = |number: &FileNumber| *number % workers == worker as u64;
        let mut numbers: Vec<FileNumber> = inner
            .entries
            .iter()
            .filter(|(number, entry)| of_worker(number) && !entry.is_left)
            .map(|(number, _)| *number)
            .collect();
        numbers.sort_unstable();
        numbers.into_iter().for_each(|number| self.push(&mut inner, number, Queue::Backlog));
    }

    fn push(&self, inner: &mut Inner, number: FileNumber, queue: Queue) {
        let worker = usize_of(number % inner.ready.len() as u64);
        let Some(entry) = inner.entries.get_mut(&number) else { return };
        match (entry.queued, queue) {
            (None, Queue::Backlog) => inner.ready[worker].backlog.push_back(number),
            (None | Some(Queue::Backlog), Queue::Changed) => inner.ready[worker].changed.push_back(number),
            (Some(_), Queue::Backlog) | (Some(Queue::Changed), Queue::Changed) => return,
        }
        entry.queued = Some(queue);
        self.changed.notify_all();
    }

    /// The next file of a worker; waits up to `wait` or until monitoring ends.
    pub(crate) fn next(&self, worker: usize, wait: Duration) -> Option<Job> {
        let mut inner = self.lock();
        let is_idle = |inner: &mut Inner| !inner.is_over && inner.ready[worker].is_empty();
        if !wait.is_zero() && is_idle(&mut inner) {
            let waited = self.changed.wait_timeout_while(inner, wait, is_idle);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if inner.is_over {
            return None;
        }
        while let Some((number, queue)) = inner.ready[worker].pop() {
            if let Some(entry) = inner.entries.get_mut(&number).filter(|entry| entry.queued == Some(queue)) {
                entry.queued = None;
                let held = entry.held.take();
                let Entry { path, node, stanza, .. } = entry;
                return Some(Job { number, path: path.to_path_buf(), node: *node, stanza: *stanza as usize, held });
            }
        }
        None
    }

    /// Begins a scan; a file not seen again before [`Roster::end_scan`] is treated as removed.
    pub(crate) fn begin_scan(&self) {
        let mut inner = self.lock();
        inner.round = inner.round.wrapping_add(1);
    }

    /// Ends a scan: forgets files that the scan did not find, except held files, which must be read first.
    pub(crate) fn end_scan(&self) {
        let mut inner = self.lock();
        let Inner { entries, numbers, round, .. } = &mut *inner;
        let mut left = Vec::new();
        entries.retain(|number, entry| {
            let is_seen = entry.round == *round;
            if entry.queued.is_none() {
                // An empty file is not held beyond one scan.
                entry.held.take_if(|held| held.is_empty());
                // The file was removed right after it was written, or was renamed and is not found yet.
                left.extend(entry.held.is_some().then_some(*number).filter(|_| !is_seen));
            }
            let is_known = is_seen || entry.held.is_some();
            if !is_known && numbers.get(&entry.node) == Some(number) {
                numbers.remove(&entry.node);
            }
            is_known
        });
        left.into_iter().for_each(|number| self.push(&mut inner, number, Queue::Backlog));
    }

    /// Number of known files.
    pub(crate) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Sleeps for `wait`, or until monitoring ends.
    pub(crate) fn pause(&self, wait: Duration) {
        drop(self.changed.wait_timeout_while(self.lock(), wait, |inner| !inner.is_over));
    }

    /// Ends monitoring.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// True once monitoring is to end.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(roster: &Roster) -> Option<PathBuf> {
        roster.next(0, Duration::ZERO).map(|job| job.path)
    }

    #[test]
    fn new_and_changed_files_are_read_once_under_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("a.log"), folder.path().join("a.log.1"));
        std::fs::write(&old, "1").unwrap();
        let roster = Roster::new(1);
        let see = |path: &Path| roster.update(path, &path.metadata().unwrap(), (0, false), None);
        see(&old);
        see(&old);
        assert_eq!(next(&roster).as_ref(), Some(&old));
        assert_eq!(next(&roster), None, "the file has not changed");
        std::fs::write(&old, "1\n2").unwrap();
        see(&old);
        std::fs::rename(&old, &new).unwrap();
        roster.begin_scan();
        see(&new);
        roster.end_scan();
        assert_eq!((next(&roster).as_ref(), roster.len()), (Some(&new), 1));
        std::fs::hard_link(&new, folder.path().join("b.log")).unwrap();
        see(&folder.path().join("b.log"));
        assert_eq!((next(&roster), roster.len()), (None, 1), "a second name");
        roster.begin_scan();
        roster.end_scan();
        assert_eq!(roster.len(), 0);
        roster.end();
        assert!(roster.has_ended() && roster.next(0, Duration::MAX).is_none());
    }

    #[test]
    fn changed_files_do_not_wait_behind_new_files() {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..6).map(|at| folder.path().join(format!("{at}.log"))).collect();
        let roster = Roster::new(1);
        let see = |path: &Path| roster.update(path, &path.metadata().unwrap(), (0, false), None);
        paths.iter().for_each(|path| std::fs::write(path, "1").unwrap());
        assert!(paths.iter().all(|path| see(path)));
        for at in [5, 4, 5] {
            std::fs::write(&paths[at], "1".repeat(at + 5)).unwrap();
            see(&paths[at]);
        }
        let read: Vec<PathBuf> = std::iter::from_fn(|| next(&roster)).collect();
        assert_eq!(read, [0, 5, 1, 4, 2, 3].map(|at| paths[at].clone()));
    }

    #[test]
    fn progress_is_limited_to_files_of_the_wanted_stanzas() {
        let folder = tempfile::tempdir().unwrap();
        let roster = Roster::new(2);
        for (name, stanza) in [("a.log", 0), ("b.log", 0), ("c.log", 1), ("d.log", 1)] {
            let path = folder.path().join(name);
            std::fs::write(&path, name).unwrap();
            roster.update(&path, &path.metadata().unwrap(), (stanza, false), None);
        }
        let names = |is_wanted: &dyn Fn(usize) -> bool, most: usize| {
            let found = roster.progress(is_wanted, most);
            found.into_iter().map(|(path, ..)| path.file_name().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&|stanza| stanza == 1, 1), ["c.log"]);
        assert_eq!(names(&|_| true, 3), ["a.log", "b.log", "c.log"]);
    }

    #[test]
    fn a_file_with_the_inode_of_a_removed_file_is_new() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        // Times of creation are as coarse as the timer of the system. Not every file system reuses inodes.
        for _ in 0..20_000 {
            let roster = Roster::new(1);
            std::fs::write(&path, "1").unwrap();
            let old = path.metadata().unwrap();
            roster.update(&path, &old, (0, true), None);
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, "2").unwrap();
            let new = path.metadata().unwrap();
            if Inode::of(&old) == Inode::of(&new) && created_ns(&old) != created_ns(&new) {
                assert!(roster.is_known(&path, &old) && !roster.is_known(&path, &new));
                roster.begin_scan();
                roster.update(&path, &new, (0, false), None);
                roster.end_scan();
                assert_eq!((next(&roster).as_ref(), roster.len()), (Some(&path), 1), "the old file was too old");
                assert!(roster.is_known(&path, &new));
                return;
            }
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn old_files_are_ignored_permanently() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let roster = Roster::new(1);
        for text in ["1", "12"] {
            std::fs::write(&path, text).unwrap();
            roster.update(&path, &path.metadata().unwrap(), (0, text == "1"), None);
            assert_eq!(next(&roster), None);
        }
    }
}
