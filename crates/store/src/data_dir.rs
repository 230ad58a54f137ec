//! Layout and locking of a data directory.
//!
//! `D/lock` is locked while a store is open: exclusively by the single writer, shared by readers. It is an
//! operating-system lock, so a killed process leaves none behind.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use quarry_catalog::Catalog;

use crate::StoreError;
use crate::wal::read::list_segments;

/// Folder of objects: buckets and term filters.
pub(crate) fn objects(dir: &Path) -> PathBuf {
    dir.join("db")
}

/// Folder of cached blocks of remote objects.
pub(crate) fn cache(dir: &Path) -> PathBuf {
    dir.join("cache")
}

/// Folder of the write-ahead log.
pub(crate) fn log(dir: &Path) -> PathBuf {
    dir.join("wal")
}

/// File of the catalog.
pub(crate) fn catalog(dir: &Path) -> PathBuf {
    dir.join("catalog.sqlite")
}

/// Opens the catalog for writing; creates it only if there is no data yet.
pub(crate) fn open_catalog(dir: &Path) -> Result<Catalog, StoreError> {
    let path = catalog(dir);
    Ok(match check_catalog(dir)? {
        Contents::Data => Catalog::open_existing(&path)?,
        Contents::Catalog | Contents::Nothing => Catalog::open(&path)?,
    })
}

/// Opens the catalog read-only.
pub(crate) fn open_catalog_read_only(dir: &Path) -> Result<Catalog, StoreError> {
    match check_catalog(dir)? {
        Contents::Data | Contents::Catalog => Ok(Catalog::open_read_only(&catalog(dir))?),
        Contents::Nothing => Err(StoreError::NoData { dir: dir.to_owned() }),
    }
}

/// Refuses a directory that holds a catalog or data.
pub(crate) fn check_empty(dir: &Path) -> Result<(), StoreError> {
    let path = catalog(dir);
    if path.exists() {
        return Err(StoreError::CatalogExists { path });
    }
    match folder_with_data(dir)? {
        Some(data) => Err(StoreError::DataWithoutCatalog { data }),
        None => Ok(()),
    }
}

/// Content of a data directory.
enum Contents {
    /// Objects or log segments, and a catalog.
    Data,
    /// A catalog only.
    Catalog,
    /// Neither.
    Nothing,
}

/// Refuses data without a catalog: it would be a guess which of it is valid, and new buckets would reuse numbers.
fn check_catalog(dir: &Path) -> Result<Contents, StoreError> {
    let path = catalog(dir);
    let len = match fs::metadata(&path) {
        Ok(facts) => Some(facts.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(StoreError::from_io("open", &path, &error)),
    };
    match (folder_with_data(dir)?, len) {
        (Some(data), None) => Err(StoreError::CatalogMissing { path, data }),
        (Some(_), Some(_)) => Ok(Contents::Data),
        (None, None | Some(0)) => Ok(Contents::Nothing),
        (None, Some(_)) => Ok(Contents::Catalog),
    }
}

/// The folder that contains objects or log segments, if any.
fn folder_with_data(dir: &Path) -> Result<Option<PathBuf>, StoreError> {
    let wal = log(dir);
    if !list_segments(&wal)?.is_empty() {
        return Ok(Some(wal));
    }
    let mut folders = vec![objects(dir)];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(|error| StoreError::from_io("list", &folder, &error))?,
        };
        for entry in entries {
            let path = entry.map_err(|error| StoreError::from_io("list", &folder, &error))?.path();
            if !path.is_dir() {
                return Ok(Some(objects(dir)));
            }
            folders.push(path);
        }
    }
    Ok(None)
}

/// A lock, released when dropped.
#[derive(Debug)]
pub(crate) struct DirLock {
    /// `None` in a read-only folder, where locking is impossible.
    _file: Option<File>,
}

impl DirLock {
    /// Locks the directory for writing, creating it if missing.
    pub(crate) fn exclusive(dir: &Path) -> Result<DirLock, StoreError> {
        let wal = log(dir);
        fs::create_dir_all(&wal).map_err(|error| StoreError::from_io("create folder", &wal, &error))?;
        // The folders must be durable before anything in them is acknowledged.
        for made in [Some(dir), dir.parent()].into_iter().flatten() {
            sync_folder(made)?;
        }
        let path = dir.join("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|error| StoreError::from_io("open", &path, &error))?;
        DirLock::held(dir, &path, file.try_lock(), file)
    }

    /// Locks an existing directory for reading.
    pub(crate) fn shared(dir: &Path) -> Result<DirLock, StoreError> {
        if !dir.is_dir() {
            let reason = "there is no such folder; name one that a quarry has written".to_owned();
            return Err(StoreError::Io { action: "open data directory", path: dir.to_owned(), reason });
        }
        let path = dir.join("lock");
        match File::open(&path) {
            Ok(file) => match file.try_lock_shared() {
                Err(TryLockError::Error(error)) if is_read_only(&error) => Ok(DirLock { _file: None }),
                outcome => DirLock::held(dir, &path, outcome, file),
            },
            // The file may be missing in a read-only copy, or owned by another user.
            Err(error) if is_read_only(&error) => Ok(DirLock { _file: None }),
            Err(error) => Err(StoreError::from_io("open", &path, &error)),
        }
    }

    fn held(dir: &Path, path: &Path, outcome: Result<(), TryLockError>, file: File) -> Result<DirLock, StoreError> {
        match outcome {
            Ok(()) => Ok(DirLock { _file: Some(file) }),
            Err(TryLockError::WouldBlock) => Err(StoreError::Locked {
                dir: dir.to_owned(),
                holder: file.metadata().ok().and_then(|facts| holder_of(facts.ino())),
            }),
            Err(TryLockError::Error(error)) => Err(StoreError::from_io("lock", path, &error)),
        }
    }
}

/// The process that holds a file's lock, according to `/proc/locks` on Linux: a line has the kind of lock, the process
/// and `major:minor:inode`.
fn holder_of(inode: u64) -> Option<u32> {
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let at = fields.iter().position(|field| *field == "FLOCK")?;
        let (pid, file) = (fields.get(at + 3)?, fields.get(at + 4)?);
        let is_it = file.rsplit(':').next()?.parse() == Ok(inode);
        pid.parse::<u32>().ok().filter(|pid| is_it && *pid > 0)
    };
    locks.lines().find_map(of_line)
}

/// Whether locking fails because nothing can be written here; then no one writes to the store either.
fn is_read_only(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
    kinds.contains(&error.kind())
}

fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    if folder.as_os_str().is_empty() {
        return Ok(());
    }
    let synced = File::open(folder).and_then(|opened| opened.sync_all());
    synced.map_err(|error| StoreError::from_io("sync folder", folder, &error))
}
