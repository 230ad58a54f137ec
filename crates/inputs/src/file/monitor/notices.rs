//! Notifications from the kernel about watched folders (inotify).
//!
//! Notifications are only hints: the facts are read from the file system, and everything is scanned periodically,
//! because notifications may be lost, and network file systems send none.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;

/// Bytes per read of notifications.
const READ_BYTES: usize = 16 << 10;
/// Maximum number of paths remembered for one folder, which may be reached through several links.
const NAMES_MAX: usize = 16;
/// Number of distinct paths after which a wait takes no more notifications from the kernel.
const PATHS_MAX: usize = 4_096;

/// Watched events in a folder.
const WATCHED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ONLYDIR);

/// The watched folders.
#[derive(Debug)]
pub(crate) struct Notices {
    kernel: OwnedFd,
    /// All paths under which each folder was requested, by watch descriptor.
    folders: HashMap<i32, Vec<Box<Path>>, FixedState>,
}

/// Notifications received during one wait.
#[derive(Debug, Default)]
pub(crate) struct NoticeBatch {
    /// Paths to examine.
    pub(crate) paths: BTreeSet<PathBuf>,
    /// Whether notifications were lost.
    pub(crate) is_incomplete: bool,
}

impl Notices {
    /// Creates an empty set of watches; `None` if the kernel does not support inotify.
    pub(crate) fn new() -> Option<Notices> {
        let kernel = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        Some(Notices { kernel, folders: HashMap::default() })
    }

    /// Watches a folder; returns false at the kernel's limit. A folder that cannot be watched for another reason is
    /// only scanned.
    pub(crate) fn watch(&mut self, folder: &Path) -> bool {
        match add_watch(&self.kernel, folder, WATCHED) {
            Ok(number) => {
                let names = self.folders.entry(number).or_default();
                if names.len() < NAMES_MAX && names.iter().all(|name| **name != *folder) {
                    names.push(folder.into());
                }
                true
            }
            Err(error) => !matches!(error, Errno::NOSPC | Errno::NOMEM),
        }
    }

    /// Notifications received within `wait`.
    pub(crate) fn wait(&mut self, wait: Duration) -> NoticeBatch {
        let mut batch = NoticeBatch::default();
        let limit = Timespec::try_from(wait).ok();
        let mut polled = [PollFd::new(&self.kernel, PollFlags::IN)];
        // An interrupting signal is treated as no notification.
        if !poll(&mut polled, limit.as_ref()).is_ok_and(|ready| ready > 0) {
            return batch;
        }
        let mut buffer = [const { MaybeUninit::uninit() }; READ_BYTES];
        let mut reader = Reader::new(&self.kernel, &mut buffer);
        let mut gone = Vec::new();
        // At the limit, the reader's buffer is still emptied, because otherwise notifications in it would be
        // lost with the reader.
        while batch.paths.len() < PATHS_MAX || !reader.is_buffer_empty() {
            let Ok(event) = reader.next() else { break };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                batch.is_incomplete = true;
            }
            if event.events().contains(ReadFlags::IGNORED) {
                gone.push(event.wd());
                continue;
            }
            let folder = self.folders.get(&event.wd());
            if let (Some(folder), Some(name)) = (folder, event.file_name()) {
                batch.paths.extend(folder.iter().map(|folder| folder.join(OsStr::from_bytes(name.to_bytes()))));
            }
        }
        gone.iter().for_each(|number| drop(self.folders.remove(number)));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_file_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let mut notices = Notices::new().unwrap();
        assert!(notices.watch(folder.path()) && notices.watch(Path::new("/no/such/folder")));
        assert!(notices.watch(&folder.path().join("x".repeat(300))), "only a lack of watches ends watching");
        assert!(notices.wait(Duration::ZERO).paths.is_empty());
        let path = folder.path().join("a.log");
        std::fs::write(&path, "x").unwrap();
        let batch = notices.wait(Duration::from_secs(10));
        assert_eq!(batch.paths.into_iter().collect::<Vec<_>>(), [path]);
        assert!(!batch.is_incomplete);
    }

    #[test]
    fn notifications_beyond_the_limit_of_a_wait_are_returned_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let mut notices = Notices::new().unwrap();
        assert!(notices.watch(folder.path()));
        // The limit is reached in the middle of the notifications of one read.
        let created: BTreeSet<PathBuf> =
            (0..PATHS_MAX + 1_000).map(|number| folder.path().join(format!("{number:020}"))).collect();
        created.iter().for_each(|path| std::fs::create_dir(path).unwrap());
        let mut found = BTreeSet::new();
        loop {
            let batch = notices.wait(Duration::ZERO);
            if batch.paths.is_empty() || batch.is_incomplete {
                assert!(!batch.is_incomplete);
                break;
            }
            found.extend(batch.paths);
        }
        assert_eq!(found.len(), created.len());
    }
}
