//! Errors of the store.

use std::io;
use std::path::{Path, PathBuf};

use quarry_blob::BlobError;
use quarry_catalog::CatalogError;
use quarry_stdx::{ErrorKind, Fault, HasKind};

/// Failure of the store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// A bucket is damaged; the other buckets can still be searched.
    #[error("bucket {bucket} is damaged: {reason}")]
    Corrupt {
        /// Bucket id.
        bucket: String,
        /// Description of the damage, with slab, page, block and offset.
        reason: String,
    },
    /// A bucket cannot be read now, because its storage or a key is missing; the other buckets can still be searched.
    #[error("bucket {bucket} cannot be read: {reason}")]
    Unreadable {
        /// Bucket id.
        bucket: String,
        /// Meaning of the failure; not [`ErrorKind::Corrupt`].
        kind: ErrorKind,
        /// The failure and its remedy.
        reason: String,
    },
    /// Too little disk space is left. Nothing was stored; appends succeed again once there is space.
    #[error("no space left for {}{}; make room on its file system", path.display(), kept_free(*kept_free_bytes))]
    Full {
        /// File or folder that cannot grow.
        path: PathBuf,
        /// Number of bytes that are kept free by configuration; 0 if the disk itself is full.
        kept_free_bytes: u64,
    },
    /// An operation on a file failed; if data was being stored, it was not stored.
    #[error("cannot {action} {}: {reason}", path.display())]
    Io {
        /// Operation that failed.
        action: &'static str,
        /// File or folder.
        path: PathBuf,
        /// The system's error.
        reason: String,
    },
    /// Another process has the data directory open.
    #[error(
        "data directory {} is in use by another process{}; stop that process, or send the request to it", dir.display(),
        holder.map_or_else(String::new, |pid| format!(" (pid {pid})"))
    )]
    Locked {
        /// The data directory.
        dir: PathBuf,
        /// The process, if known.
        holder: Option<u32>,
    },
    /// The data directory contains data but no catalog.
    #[error(
        "catalog {} is missing, but {} holds data; restore the catalog from a copy, or move that data away to start \
         anew", path.display(), data.display()
    )]
    CatalogMissing {
        /// Expected path of the catalog.
        path: PathBuf,
        /// Folder that holds objects or log segments.
        data: PathBuf,
    },
    /// A catalog cannot be created, because it exists already.
    #[error(
        "there is a catalog already: {}; if it is damaged and you have no copy to restore, move it away first",
        path.display()
    )]
    CatalogExists {
        /// The catalog.
        path: PathBuf,
    },
    /// The catalog is in a database, but no database is configured.
    #[error(
        "according to {}, the catalog is in PostgreSQL, schema {schema}: set [catalog] url in server.conf; to bring \
         the catalog back into the data directory, then also run `quarry catalog migrate sqlite`", path.display()
    )]
    CatalogInPostgreSql {
        /// The file that names the schema.
        path: PathBuf,
        /// The schema.
        schema: String,
    },
    /// A database is configured, but the catalog is a file.
    #[error(
        "server.conf has [catalog] url, but the catalog is still {}: copy it with `quarry catalog migrate postgresql`, or \
         remove the url", path.display()
    )]
    CatalogInFile {
        /// The catalog.
        path: PathBuf,
    },
    /// The settings of the catalog's database are invalid.
    #[error("server.conf: [catalog] {0}")]
    CatalogSettings(Fault),
    /// The destination of a copy of the catalog is its current location.
    #[error("the catalog is in {place} already")]
    CatalogAlreadyThere {
        /// Current location of the catalog.
        place: String,
    },
    /// The catalog is to be copied to or from a database, but no database is configured.
    #[error(
        "no database is configured to copy the catalog to or from: set [catalog] url = \
         postgresql://USER@HOST:PORT/DATABASE in server.conf"
    )]
    NoDatabase,
    /// A catalog cannot be rebuilt from volumes because the data directory already contains data.
    #[error(
        "{} holds data that would be missing from a catalog rebuilt from volumes: move the folder away first; \
         afterwards, use `quarry bucket thaw` to restore its buckets that were not uploaded", data.display()
    )]
    DataWithoutCatalog {
        /// Folder that holds objects or log segments.
        data: PathBuf,
    },
    /// The operation needs a remote volume, but none is configured.
    #[error(
        "indexes.conf has no remote volume: add a stanza [volume:NAME], and set remotePath in the stanzas of indexes"
    )]
    NoVolumes,
    /// The destination of a migration is not the configured location of the index.
    #[error(
        "index {index} is configured to keep its buckets {}, not {}: set remotePath = {} in its stanza of indexes.conf, \
         restart, and migrate then",
        place(configured.as_deref()), place(to.as_deref()),
        to.as_ref().map_or_else(String::new, |to| format!("volume:{to}/$_index_name"))
    )]
    PlacementMismatch {
        /// Name of the index.
        index: String,
        /// Volume to which the index is to be migrated; `None` for the data directory.
        to: Option<String>,
        /// Volume of the index in indexes.conf; `None` for the data directory.
        configured: Option<String>,
    },
    /// The folder contains no store.
    #[error("no data in {}; add data first", dir.display())]
    NoData {
        /// The folder.
        dir: PathBuf,
    },
    /// No index has this name.
    #[error("there is no index {index}")]
    NoIndex {
        /// The name.
        index: String,
    },
    /// No live bucket has this id.
    #[error("there is no bucket {bucket}")]
    NoBucket {
        /// The id.
        bucket: String,
    },
    /// The local copy of a bucket is the only complete copy, or is needed for the bucket's move to another volume.
    #[error("bucket {bucket} cannot be evicted: it is not completely on a volume, or is being moved")]
    NotEvictable {
        /// Bucket id.
        bucket: String,
    },
    /// The store was opened for reading.
    #[error("the store is open read-only: start `quarry serve`, and send requests to it")]
    ReadOnly,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// An earlier part of the same file was not stored, so the checkpoint of this part would hide the gap.
    #[error(
        "an earlier part of {source_name} was not stored, so this part was refused; read the file again from \
             its stored position"
    )]
    EarlierPartMissing {
        /// The file.
        source_name: String,
    },
    /// A batch exceeds a limit; split it.
    #[error("{what} of a batch is {value}, above the limit of {limit}; split the batch")]
    TooLarge {
        /// Name of the limited quantity.
        what: &'static str,
        /// Value of the quantity.
        value: u64,
        /// The limit.
        limit: u64,
    },
    /// A batch violates the invariants of `EventBatch` because of a bug in the caller.
    #[error("event batch cannot be stored: {reason}")]
    InvalidBatch {
        /// The violated invariant.
        reason: String,
    },
    /// The limit of indexes without a stanza is reached.
    #[error(
        "index {index} does not exist, and no more than {limit} indexes may exist without a stanza in indexes.conf; add a \
         stanza [{index}] to that file"
    )]
    TooManyIndexes {
        /// Name of the index.
        index: String,
        /// Maximum number of indexes without a stanza.
        limit: usize,
    },
    /// Sealing fails, and the slabs waiting for it have reached their memory limit. Appends succeed again once sealing
    /// does.
    #[error("cannot take more events, because sealing fails: {reason}")]
    SealStalled {
        /// Error of the last seal.
        reason: String,
    },
    /// A panic interrupted sealing.
    #[error("sealing panicked and will be retried; please report this")]
    SealPanicked,
    /// The write-ahead log is of a newer version.
    #[error("log {} has version {found}, but this quarry supports only up to {known}; use a newer quarry", path.display())]
    LogTooNew {
        /// The log segment.
        path: PathBuf,
        /// Version of the segment.
        found: u32,
        /// Newest version that this build reads.
        known: u32,
    },
    /// Every name tried for a bucket's object is taken by an unknown object.
    #[error("object {object} and others like it belong to no bucket; move them away")]
    NoFreeObjectName {
        /// The first name that was tried.
        object: String,
    },
    /// A folder was not thawed because it contains no valid archived bucket.
    #[error("{} is not thawed: {reason}", path.display())]
    NotThawed {
        /// The folder.
        path: PathBuf,
        /// Reason.
        reason: Fault,
    },
    /// The catalog failed.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// An object could not be stored or removed.
    #[error(transparent)]
    Blob(#[from] BlobError),
}

/// Location of an index's buckets, in words.
fn place(volume: Option<&str>) -> String {
    volume.map_or_else(|| "in the data directory".to_owned(), |volume| format!("on volume {volume}"))
}

impl HasKind for StoreError {
    fn kind(&self) -> ErrorKind {
        match self {
            StoreError::Corrupt { .. } | StoreError::CatalogMissing { .. } => ErrorKind::Corrupt,
            StoreError::Unreadable { kind, .. } => *kind,
            StoreError::NoData { .. } | StoreError::NoBucket { .. } | StoreError::NoIndex { .. } => ErrorKind::NotFound,
            StoreError::NotEvictable { .. } => ErrorKind::Invalid,
            StoreError::CatalogExists { .. }
            | StoreError::DataWithoutCatalog { .. }
            | StoreError::NoVolumes
            | StoreError::CatalogInPostgreSql { .. }
            | StoreError::CatalogInFile { .. }
            | StoreError::CatalogAlreadyThere { .. }
            | StoreError::NoDatabase
            | StoreError::PlacementMismatch { .. } => ErrorKind::Invalid,
            StoreError::Locked { .. } => ErrorKind::Busy,
            StoreError::TooLarge { .. } | StoreError::TooManyIndexes { .. } => ErrorKind::Invalid,
            StoreError::NotThawed { reason, .. } | StoreError::CatalogSettings(reason) => reason.kind(),
            StoreError::InvalidBatch { .. } | StoreError::SealPanicked => ErrorKind::Bug,
            StoreError::Full { .. }
            | StoreError::Io { .. }
            | StoreError::ReadOnly
            | StoreError::Closed
            | StoreError::EarlierPartMissing { .. }
            | StoreError::SealStalled { .. }
            | StoreError::LogTooNew { .. }
            | StoreError::NoFreeObjectName { .. } => ErrorKind::Unavailable,
            StoreError::Catalog(error) => error.kind(),
            StoreError::Blob(error) => error.kind(),
        }
    }
}

/// Part of an error message about space that is kept free by configuration.
fn kept_free(bytes: u64) -> String {
    if bytes == 0 {
        return String::new();
    }
    format!(" in addition to the {} MB that are kept free (minFreeSpace in [diskUsage] of server.conf)", bytes >> 20)
}

impl StoreError {
    /// The failure to read a bucket: damage only if the bytes are damaged or missing.
    pub(crate) fn of_bucket<E: HasKind>(bucket: &str, error: &E) -> StoreError {
        let (bucket, reason) = (bucket.to_owned(), error.to_string());
        match error.kind() {
            kind @ (ErrorKind::Unavailable | ErrorKind::Denied | ErrorKind::Invalid) => {
                StoreError::Unreadable { bucket, kind, reason }
            }
            _ => StoreError::Corrupt { bucket, reason },
        }
    }

    /// Classifies a system error: out of space, or other.
    pub(crate) fn from_io(action: &'static str, path: &Path, error: &io::Error) -> StoreError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                StoreError::Full { path: path.to_owned(), kept_free_bytes: 0 }
            }
            _ => StoreError::Io { action, path: path.to_owned(), reason: error.to_string() },
        }
    }
}
