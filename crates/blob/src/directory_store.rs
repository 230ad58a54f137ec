//! Objects as files in a folder.
//!
//! A put writes `NAME.unfinished`, fsyncs it, renames it and fsyncs the folder. A crash leaves the complete object or
//! an unfinished file. Unfinished files are never opened; [`BlobStore::delete`] or the next put of the name removes
//! them. A delete fsyncs the folder, too.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use quarry_bucket::{ReadAt, ReadError};
use quarry_stdx::{ErrorKind, durable_folder};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use crate::{BlobError, BlobStore, ListedObject, name};

/// Maximum number of threads that write and sync the objects of one call.
const SYNC_THREADS_MAX: usize = 8;
/// Name of these threads.
const SYNC_THREAD: &str = "quarry-put";

/// Maximum number of folders remembered as durable. At the limit all are forgotten, so that their entries are synced
/// once more.
const DURABLE_FOLDERS_MAX: usize = 4_096;

/// Function that makes the entries of a folder durable.
type SyncFolder = dyn Fn(&Path) -> io::Result<()> + Send + Sync;

/// Objects below one folder.
pub struct DirectoryStore {
    root: PathBuf,
    sync_folder: Box<SyncFolder>,
    /// Folders of objects whose own entries are durable. That a folder exists does not show this: the put that created
    /// it may still be running, or may have failed.
    durable: Mutex<BTreeSet<PathBuf>>,
}

impl fmt::Debug for DirectoryStore {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("DirectoryStore").field("root", &self.root).finish_non_exhaustive()
    }
}

impl DirectoryStore {
    /// Opens a store below `root`, creating the folder if missing.
    pub fn open(root: &Path) -> Result<DirectoryStore, BlobError> {
        durable_folder::create(root).map_err(|error| BlobError::from_io("create folder", root, &error))?;
        Ok(DirectoryStore::open_existing(root))
    }

    /// Opens a store below an existing `root` without creating anything, for read-only use.
    pub fn open_existing(root: &Path) -> DirectoryStore {
        DirectoryStore { root: root.to_owned(), sync_folder: Box::new(durable_folder::sync), durable: Mutex::default() }
    }

    /// Path of object `name`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn unfinished_path(&self, name: &str) -> PathBuf {
        self.root.join(format!("{name}{}", name::UNFINISHED_SUFFIX))
    }

    /// A file as a listed object; `None` if it was removed after the listing or its name is not UTF-8. Any other failure
    /// ends the listing, because a caller must not take an existing object for a missing one.
    fn listed(&self, path: &Path) -> Result<Option<ListedObject>, BlobError> {
        let Some(name) = path.strip_prefix(&self.root).ok().and_then(Path::to_str) else { return Ok(None) };
        let facts = match fs::metadata(path).and_then(|facts| Ok((facts.len(), facts.modified()?))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            facts => facts.map_err(|error| BlobError::from_io("stat", path, &error))?,
        };
        let (bytes, modified) = facts;
        let age = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let modified_ns = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
        Ok(Some(ListedObject { name: name.to_owned(), bytes, modified_ns }))
    }

    /// Creates the folder of an object, and adds to `changed` the folders that may have a new entry.
    fn make_folder(&self, folder: &Path, changed: &mut BTreeSet<PathBuf>) -> Result<(), BlobError> {
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if !folder.is_dir() {
            durable.remove(folder);
            fs::create_dir_all(folder).map_err(|error| BlobError::from_io("create folder", folder, &error))?;
        }
        if !durable.contains(folder) {
            let made = folder.ancestors().take_while(|above| above.starts_with(&self.root));
            changed.extend(made.filter_map(folder_of));
        }
        Ok(())
    }

    /// Remembers that the entries of these folders are durable.
    fn note_durable(&self, folders: BTreeSet<PathBuf>) {
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if durable.len() + folders.len() > DURABLE_FOLDERS_MAX {
            durable.clear();
        }
        durable.extend(folders);
    }

    /// Makes the entries of a folder durable.
    fn sync_folder(&self, folder: &Path) -> Result<(), BlobError> {
        (self.sync_folder)(folder).map_err(|error| BlobError::from_io("sync folder", folder, &error))
    }

    /// Writes an object under its name; not yet durable.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), BlobError> {
        let (path, unfinished) = (self.path(name), self.unfinished_path(name));
        let written = write_synced(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, &path));
        written.map_err(|error| {
            // Failing to remove the leftover wastes only space; the write error is what matters.
            drop(fs::remove_file(&unfinished));
            BlobError::from_io("write", &path, &error)
        })
    }
}

impl BlobStore for DirectoryStore {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), BlobError> {
        self.put_all(&[(name, bytes)])
    }

    fn put_all(&self, objects: &[(&str, &[u8])]) -> Result<(), BlobError> {
        objects.iter().try_for_each(|(name, _)| name::check(name))?;
        let folders: BTreeSet<PathBuf> = objects.iter().filter_map(|(name, _)| folder_of(&self.path(name))).collect();
        let mut changed = folders.clone();
        folders.iter().try_for_each(|folder| self.make_folder(folder, &mut changed))?;
        run_in_parallel(objects, |(name, bytes)| self.write(name, bytes))?;
        let changed: Vec<PathBuf> = changed.into_iter().collect();
        run_in_parallel(&changed, |folder| self.sync_folder(folder))?;
        self.note_durable(folders);
        Ok(())
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>, BlobError> {
        name::check(name)?;
        let path = self.path(name);
        let file = File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => BlobError::NotFound { name: name.to_owned() },
            _ => BlobError::from_io("open", &path, &error),
        })?;
        let metadata = file.metadata().map_err(|error| BlobError::from_io("stat", &path, &error))?;
        Ok(Arc::new(LocalObject { file, size: metadata.len(), path }))
    }

    fn delete(&self, name: &str) -> Result<(), BlobError> {
        self.delete_all(&[name])
    }

    fn delete_all(&self, names: &[&str]) -> Result<(), BlobError> {
        names.iter().try_for_each(|name| name::check(name))?;
        for name in names {
            remove_if_exists(&self.unfinished_path(name))?;
            remove_if_exists(&self.path(name))?;
        }
        let folders: BTreeSet<PathBuf> = names.iter().filter_map(|name| folder_of(&self.path(name))).collect();
        // Folders are synced even if no file existed: an earlier call may have removed the files and then failed.
        folders.iter().filter(|folder| folder.is_dir()).try_for_each(|folder| self.sync_folder(folder))
    }

    fn exists(&self, name: &str) -> Result<bool, BlobError> {
        name::check(name)?;
        let path = self.path(name);
        path.try_exists().map_err(|error| BlobError::from_io("stat", &path, &error))
    }

    fn list(&self) -> Result<Vec<String>, BlobError> {
        let mut names = Vec::new();
        self.list_each(&mut |listed| names.push(listed.name))?;
        names.sort();
        Ok(names)
    }

    fn list_each(&self, visit: &mut dyn FnMut(ListedObject)) -> Result<(), BlobError> {
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            let failed = |error: io::Error| BlobError::from_io("list", &folder, &error);
            let entries = match fs::read_dir(&folder) {
                // Nothing has been put yet, or a folder disappeared during the listing.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries.map_err(failed)?,
            };
            let mut files = Vec::new();
            for entry in entries {
                let path = entry.map_err(failed)?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if !path.as_os_str().as_encoded_bytes().ends_with(name::UNFINISHED_SUFFIX.as_bytes()) {
                    files.push(path);
                }
            }
            files.sort();
            for path in &files {
                self.listed(path)?.into_iter().for_each(&mut *visit);
            }
        }
        Ok(())
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn remove_if_exists(path: &Path) -> Result<(), BlobError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(BlobError::from_io("delete", path, &error)),
        _ => Ok(()),
    }
}

fn folder_of(path: &Path) -> Option<PathBuf> {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned)
}

/// Runs `work` for each item, on several threads if there are many: file systems commit concurrent syncs together.
fn run_in_parallel<T: Sync>(items: &[T], work: impl Fn(&T) -> Result<(), BlobError> + Sync) -> Result<(), BlobError> {
    let next = AtomicUsize::new(0);
    let some = || std::iter::from_fn(|| items.get(next.fetch_add(1, Ordering::Relaxed))).try_for_each(&work);
    std::thread::scope(|scope| {
        // The calling thread works too, so one thread fewer is started. If a thread fails to start, the others do its
        // work.
        let further = SYNC_THREADS_MAX.min(items.len()).saturating_sub(1);
        let start = |_| std::thread::Builder::new().name(SYNC_THREAD.to_owned()).spawn_scoped(scope, some).ok();
        let threads: Vec<_> = (0..further).filter_map(start).collect();
        let own = some();
        let fault = |_| BlobError::Io { action: "write", path: PathBuf::new(), reason: "a thread ended".to_owned() };
        threads.into_iter().fold(own, |done, thread| done.and(thread.join().unwrap_or_else(|panic| Err(fault(panic)))))
    })
}

/// An open file; stays readable after its name is removed.
struct LocalObject {
    file: File,
    size: u64,
    path: PathBuf,
}

impl ReadAt for LocalObject {
    fn len(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadError> {
        if offset.checked_add(len as u64).is_none_or(|end| end > self.size) {
            return Err(ReadError::PastEnd { offset, len, size: self.size });
        }
        read_exactly(&self.file, offset, len).map(Bytes::from).map_err(|error| ReadError::Failed {
            offset,
            len,
            // The file became shorter after it was opened.
            kind: match error.kind() {
                io::ErrorKind::UnexpectedEof => ErrorKind::Corrupt,
                _ => ErrorKind::Unavailable,
            },
            reason: format!("{}: {error}", self.path.display()),
        })
    }
}

/// Reads `len` bytes of a file from `offset`. The buffer is not zeroed first, because zeroing was visible in profiles
/// of searches for rare words.
fn read_exactly(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut buffer = Vec::with_capacity(len);
    while buffer.len() < len {
        let at = offset + buffer.len() as u64;
        match rustix::io::pread(file, spare_capacity(&mut buffer), at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // The allocator may return more capacity than requested.
    buffer.truncate(len);
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folders that a store has synced, or has failed to sync.
    type Synced = Arc<Mutex<Vec<PathBuf>>>;

    /// A store whose `failing`-th sync of a folder fails.
    fn store(root: &Path, failing: usize) -> (DirectoryStore, Synced) {
        let (synced, calls) = (Synced::default(), AtomicUsize::new(0));
        let noted = Arc::clone(&synced);
        let sync_folder = move |folder: &Path| {
            noted.lock().unwrap().push(folder.to_owned());
            if calls.fetch_add(1, Ordering::Relaxed) + 1 == failing {
                return Err(io::Error::other("broken"));
            }
            durable_folder::sync(folder)
        };
        let opened = DirectoryStore::open(root).unwrap();
        (DirectoryStore { sync_folder: Box::new(sync_folder), ..opened }, synced)
    }

    fn take(synced: &Synced) -> BTreeSet<PathBuf> {
        std::mem::take(&mut *synced.lock().unwrap()).into_iter().collect()
    }

    #[test]
    fn the_entry_of_a_new_folder_is_synced_until_that_succeeds() {
        for failing in 1..=3 {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().join("db");
            let entries = BTreeSet::from([folder.path().to_owned(), root.clone(), root.join("main")]);
            let (store, synced) = store(&root, failing);
            assert!(store.put("main/1", b"x").is_err());
            take(&synced);
            // The folder exists by now, but nothing shows that its entry is durable.
            store.put("main/1", b"x").unwrap();
            assert_eq!(take(&synced), entries, "sync {failing} failed");
            store.put("main/2", b"x").unwrap();
            assert_eq!(take(&synced), BTreeSet::from([root.join("main")]));
            fs::remove_dir_all(root.join("main")).unwrap();
            store.put("main/1", b"x").unwrap();
            assert_eq!(take(&synced), entries, "the folder is new again");
        }
    }

    #[test]
    fn the_folders_of_deleted_objects_are_synced_until_that_succeeds() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("db");
        let put = DirectoryStore::open(&root).unwrap();
        put.put_all(&[("main/1", b"x"), ("main/2", b"x"), ("web/1", b"x")]).unwrap();
        let (store, synced) = store(&root, 1);
        let (names, folders) = (["main/1", "main/2", "web/1"], BTreeSet::from([root.join("main"), root.join("web")]));
        assert!(store.delete_all(&names).is_err());
        take(&synced);
        // The files are gone by now, but nothing shows that this is durable.
        store.delete_all(&names).unwrap();
        assert_eq!((take(&synced), store.list().unwrap().len()), (folders, 0));
        store.delete("other/1").unwrap();
        assert_eq!(take(&synced), BTreeSet::new(), "no folder, no entries");
    }
}
