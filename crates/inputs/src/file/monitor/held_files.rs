//! New files are held open from their discovery until they are read, so that a file that is removed while it waits in
//! the queue is still read.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::roster::Inode;
use crate::file::open::open_nonblocking;

/// Number of files that may still be held open.
#[derive(Debug)]
pub(crate) struct Slots(AtomicUsize);

/// One slot, released when dropped.
#[derive(Debug)]
struct FileSlot(Arc<Slots>);

/// A file that is held open.
#[derive(Clone, Debug)]
pub(crate) struct HeldFile {
    pub(crate) file: Arc<File>,
    /// `None` for a file that a worker had open.
    _slot: Option<Arc<FileSlot>>,
    /// Set once the monitor has waited for the file to be found under its new name.
    pub(crate) was_awaited: bool,
}

impl Slots {
    pub(crate) fn new(most: usize) -> Arc<Slots> {
        Arc::new(Slots(AtomicUsize::new(most)))
    }

    fn take(self: &Arc<Slots>) -> Option<FileSlot> {
        let taken = self.0.try_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(1));
        taken.is_ok().then(|| FileSlot(Arc::clone(self)))
    }
}

impl Drop for FileSlot {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl HeldFile {
    /// Opens the regular file at `path`, if it has this inode and a slot is free.
    pub(crate) fn open(path: &Path, node: Inode, slots: &Arc<Slots>) -> Option<HeldFile> {
        let slot = slots.take()?;
        let file = open_nonblocking(path).ok()?;
        let is_this = file.metadata().is_ok_and(|metadata| metadata.is_file() && Inode::of(&metadata) == node);
        is_this.then(|| HeldFile { file: Arc::new(file), _slot: Some(Arc::new(slot)), was_awaited: false })
    }

    /// A file that was open and has lost its name. Files that workers have open are limited by themselves.
    pub(crate) fn nameless(file: Arc<File>) -> HeldFile {
        HeldFile { file, _slot: None, was_awaited: true }
    }

    /// Whether the file is still empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.len() == 0)
    }

    /// True if no name of the file is left, or if it was not found under its new name within the wait.
    pub(crate) fn has_no_name(&self) -> bool {
        self.was_awaited || self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_held_files_is_limited() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "1").unwrap();
        let node = Inode::of(&path.metadata().unwrap());
        let slots = Slots::new(2);
        let held: Vec<_> = (0..3).filter_map(|_| HeldFile::open(&path, node, &slots)).collect();
        assert_eq!((held.len(), held[0].has_no_name()), (2, false));
        std::fs::remove_file(&path).unwrap();
        assert!(held[0].has_no_name() && HeldFile::open(&path, node, &slots).is_none());
        drop(held);
        std::fs::write(&path, "2").unwrap();
        assert!(HeldFile::open(&path, Inode::of(&folder.path().metadata().unwrap()), &slots).is_none(), "another file");
        let node = Inode::of(&path.metadata().unwrap());
        assert!(HeldFile::open(&path, node, &slots).is_some());
        std::fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(HeldFile::open(&path, node, &slots).is_none(), "a pipe without a writer is not waited for");
    }
}
