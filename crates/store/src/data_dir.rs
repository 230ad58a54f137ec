//! Layout and locking of a data directory.
//!
//! The file `lock` of a data directory is locked while a store is open: exclusively by the single writer, in shared
//! mode by readers. The operating system releases the lock of a process that is killed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use quarry_catalog::{BucketCheck, Catalog, PostgreSqlLocation, PostgreSqlSettings};
use quarry_stdx::{SharedClock, durable_folder, private_file, random};

use crate::wal::read::list_segments;
use crate::{StoreError, StoreOptions};

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

/// File with the name of the PostgreSQL schema that contains the catalog. If it exists, the catalog in PostgreSQL is
/// the authoritative one; otherwise `catalog.sqlite` is.
pub(crate) fn schema_file(dir: &Path) -> PathBuf {
    dir.join("catalog.postgresql")
}

/// Prefix of the name of a PostgreSQL schema, and the number of random bytes that follow it in hexadecimal.
const SCHEMA_PREFIX: &str = "quarry_";
const SCHEMA_BYTES: usize = 8;

/// A random name for a new schema.
pub(crate) fn new_schema() -> String {
    let mut id = [0; SCHEMA_BYTES];
    random::fill(&mut id);
    id.iter().fold(SCHEMA_PREFIX.to_owned(), |name, byte| name + &format!("{byte:02x}"))
}

/// The schema of the catalog; `None` if the catalog is a file.
pub(crate) fn schema(dir: &Path) -> Result<Option<String>, StoreError> {
    let path = schema_file(dir);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // The folder belongs to another user, so the error names the folder; the file may not even exist.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(StoreError::from_io("read", dir, &error)),
        Err(error) => Err(StoreError::from_io("read", &path, &error)),
    }
}

/// Makes the catalog in this schema the authoritative one.
pub(crate) fn set_schema(dir: &Path, schema: &str) -> Result<(), StoreError> {
    let path = schema_file(dir);
    let written = private_file::write(&path, &format!("{schema}\n"));
    written.map_err(|fault| StoreError::Io { action: "write", path, reason: fault.to_string() })
}

/// Location of a schema in the configured database.
pub(crate) fn place_of(settings: &PostgreSqlSettings, schema: &str) -> Result<PostgreSqlLocation, StoreError> {
    PostgreSqlLocation::new(settings, schema).map_err(StoreError::CatalogSettings)
}

/// Opens the catalog for writing; creates it only if there is no data yet. Rows of buckets are verified by recovery.
pub(crate) fn open_catalog(options: &StoreOptions, clock: &SharedClock) -> Result<Catalog, StoreError> {
    let dir = &*options.dir;
    let path = catalog(dir);
    let Some((settings, schema)) = database_settings(options)? else {
        return Ok(match check_catalog(dir, length(&path)?)? {
            Contents::Data => Catalog::open_existing(&path, BucketCheck::WhenRead)?,
            Contents::Catalog | Contents::Nothing => Catalog::open(&path)?,
        });
    };
    let contents = check_catalog(dir, schema.as_ref().map(|_| 1))?;
    let schema = match schema {
        Some(schema) => schema,
        None => {
            // The name is written before the schema is created, so that a crash cannot leave a schema to which no data
            // directory refers.
            let schema = new_schema();
            set_schema(dir, &schema)?;
            schema
        }
    };
    let place = place_of(settings, &schema)?;
    Ok(match contents {
        Contents::Data => Catalog::open_existing_postgresql(&place, clock, BucketCheck::WhenRead)?,
        Contents::Catalog | Contents::Nothing => Catalog::open_postgresql(&place, clock)?,
    })
}

/// Opens the catalog read-only. Rows of buckets are verified by recovery.
pub(crate) fn open_catalog_read_only(options: &StoreOptions, clock: &SharedClock) -> Result<Catalog, StoreError> {
    let dir = &*options.dir;
    let found = database_settings(options)?;
    let len = match &found {
        None => length(&catalog(dir))?,
        Some((_, schema)) => schema.as_ref().map(|_| 1),
    };
    match (check_catalog(dir, len)?, found) {
        (Contents::Nothing, _) | (_, Some((_, None))) => Err(StoreError::NoData { dir: dir.to_owned() }),
        (_, None) => Ok(Catalog::open_read_only(&catalog(dir), BucketCheck::WhenRead)?),
        (_, Some((settings, Some(schema)))) => {
            Ok(Catalog::open_read_only_postgresql(&place_of(settings, &schema)?, clock, BucketCheck::WhenRead)?)
        }
    }
}

/// The configured database and the schema of the directory's catalog; `None` if the catalog is a file. Refuses a
/// directory whose catalog is not in the configured location.
fn database_settings(options: &StoreOptions) -> Result<Option<(&PostgreSqlSettings, Option<String>)>, StoreError> {
    let path = catalog(&options.dir);
    match (&options.catalog, schema(&options.dir)?) {
        (None, None) => Ok(None),
        (None, Some(schema)) => Err(StoreError::CatalogInPostgreSql { path: schema_file(&options.dir), schema }),
        (Some(_), None) if path.exists() => Err(StoreError::CatalogInFile { path }),
        (Some(settings), schema) => Ok(Some((settings, schema))),
    }
}

/// Refuses a directory that contains a catalog or data.
pub(crate) fn check_empty(dir: &Path) -> Result<(), StoreError> {
    for path in [catalog(dir), schema_file(dir)] {
        if path.exists() {
            return Err(StoreError::CatalogExists { path });
        }
    }
    match folder_with_data(dir)? {
        Some(data) => Err(StoreError::DataWithoutCatalog { data }),
        None => Ok(()),
    }
}

/// Contents of a data directory.
enum Contents {
    /// Objects or log segments, and a catalog.
    Data,
    /// A catalog only.
    Catalog,
    /// No data, and no catalog or an empty catalog file.
    Nothing,
}

/// Length of a file; `None` if the file does not exist.
fn length(path: &Path) -> Result<Option<u64>, StoreError> {
    match fs::metadata(path) {
        Ok(facts) => Ok(Some(facts.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::from_io("open", path, &error)),
    }
}

/// Refuses data without a catalog: nothing would show which data is valid, and new buckets would reuse numbers. `len`
/// is the length of the catalog file, or 1 for a catalog in PostgreSQL; `None` if there is no catalog.
fn check_catalog(dir: &Path, len: Option<u64>) -> Result<Contents, StoreError> {
    match (folder_with_data(dir)?, len) {
        (Some(data), None) => Err(StoreError::CatalogMissing { path: catalog(dir), data }),
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
    /// The locked file; `None` if a reader cannot lock it (`is_read_only`).
    file: Option<File>,
}

impl DirLock {
    /// Locks the directory for writing, creating it if missing.
    pub(crate) fn exclusive(dir: &Path) -> Result<DirLock, StoreError> {
        let wal = log(dir);
        // The folders must be durable before anything in them is acknowledged. The data directory itself is created
        // first, because its entry may be new even if it exists.
        for folder in [dir, &wal] {
            let created = durable_folder::create(folder);
            created.map_err(|error| StoreError::from_io("create folder", folder, &error))?;
        }
        let path = dir.join("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|error| StoreError::from_io("open", &path, &error))?;
        DirLock::lock_result(dir, &path, file.try_lock(), file)
    }

    /// Locks an existing directory for reading.
    pub(crate) fn shared(dir: &Path) -> Result<DirLock, StoreError> {
        if !dir.is_dir() {
            let reason = "there is no such folder; name a data directory".to_owned();
            return Err(StoreError::Io { action: "open data directory", path: dir.to_owned(), reason });
        }
        let path = dir.join("lock");
        match File::open(&path) {
            Ok(file) => match file.try_lock_shared() {
                Err(TryLockError::Error(error)) if is_read_only(&error) => Ok(DirLock { file: None }),
                outcome => DirLock::lock_result(dir, &path, outcome, file),
            },
            // The file may be missing in a read-only copy, or owned by another user.
            Err(error) if is_read_only(&error) => Ok(DirLock { file: None }),
            Err(error) => Err(StoreError::from_io("open", &path, &error)),
        }
    }

    fn lock_result(
        dir: &Path,
        path: &Path,
        outcome: Result<(), TryLockError>,
        file: File,
    ) -> Result<DirLock, StoreError> {
        match outcome {
            Ok(()) => Ok(DirLock { file: Some(file) }),
            Err(TryLockError::WouldBlock) => Err(StoreError::Locked {
                dir: dir.to_owned(),
                holder: file.metadata().ok().and_then(|facts| find_lock_holder(facts.ino())),
            }),
            Err(TryLockError::Error(error)) => Err(StoreError::from_io("lock", path, &error)),
        }
    }
}

impl Drop for DirLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that is being started holds copies of all open files until it executes
        // its program. If unlocking fails, closing still releases the lock.
        drop(self.file.as_ref().map(File::unlock));
    }
}

/// The process that holds the lock of a file, according to `/proc/locks` on Linux. Each line there contains the kind of
/// lock, the process id, and `major:minor:inode`.
fn find_lock_holder(inode: u64) -> Option<u32> {
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

/// Whether locking fails because the lock file is missing, access to it is denied, or the file system is read-only.
/// The store is then read without a lock.
fn is_read_only(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
    kinds.contains(&error.kind())
}
