//! Rows for tests, and the databases that tests run on.

mod conformance;
mod overlap;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quarry_pgworld::PostgreSql;
use quarry_stdx::SystemClock;
use tempfile::TempDir;

use crate::*;

/// A database for one test.
pub(crate) enum Place {
    /// A file in a folder.
    Sqlite(TempDir),
    /// A schema of the server that all tests share.
    PostgreSql(Box<PostgreSqlLocation>),
}

/// The name of a schema that no other test has.
pub(crate) fn new_schema() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("quarry_{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

impl Place {
    pub(crate) fn sqlite() -> Place {
        Place::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) fn postgresql() -> Place {
        let (url, wait) = (PostgreSql::shared().url(), Duration::from_secs(10));
        let settings = PostgreSqlSettings { url, wait, ..PostgreSqlSettings::default() };
        Place::PostgreSql(Box::new(PostgreSqlLocation::new(&settings, &new_schema()).unwrap()))
    }

    pub(crate) fn open(&self) -> Result<Catalog, CatalogError> {
        match self {
            Place::Sqlite(folder) => Catalog::open(&folder.path().join("catalog.sqlite")),
            Place::PostgreSql(place) => Catalog::open_postgresql(place, &SystemClock::shared()),
        }
    }

    pub(crate) fn open_existing(&self) -> Result<Catalog, CatalogError> {
        self.open_existing_with(BucketCheck::AtOpening)
    }

    pub(crate) fn open_existing_with(&self, buckets: BucketCheck) -> Result<Catalog, CatalogError> {
        match self {
            Place::Sqlite(folder) => Catalog::open_existing(&folder.path().join("catalog.sqlite"), buckets),
            Place::PostgreSql(place) => Catalog::open_existing_postgresql(place, &SystemClock::shared(), buckets),
        }
    }

    pub(crate) fn open_read_only(&self) -> Result<Catalog, CatalogError> {
        self.open_read_only_with(BucketCheck::AtOpening)
    }

    pub(crate) fn open_read_only_with(&self, buckets: BucketCheck) -> Result<Catalog, CatalogError> {
        match self {
            Place::Sqlite(folder) => Catalog::open_read_only(&folder.path().join("catalog.sqlite"), buckets),
            Place::PostgreSql(place) => Catalog::open_read_only_postgresql(place, &SystemClock::shared(), buckets),
        }
    }

    /// Another database, which is empty.
    pub(crate) fn fresh(&self) -> Place {
        match self {
            Place::Sqlite(_) => Place::sqlite(),
            Place::PostgreSql(_) => Place::postgresql(),
        }
    }
}

pub(crate) fn row(number: u64, index: &str, state: BucketState) -> BucketRow {
    BucketRow {
        number,
        index: index.into(),
        state,
        object: format!("{index}/{number}.bucket"),
        filter: format!("{index}/{number}.terms"),
        slabs: 1,
        time_min: -5,
        time_max: 7,
        events: 3,
        raw_bytes: 100,
        object_bytes: 40,
        filter_bytes: 2,
        created: 9,
        level: 0,
        thawed: false,
        remote: None,
        other: None,
        stem: None,
        merged_into: None,
        origins: Vec::new(),
    }
}

pub(crate) fn compacted(number: u64, index: &str, state: BucketState) -> BucketRow {
    let origins = vec![Origin { first_row: 0, number: 1 }, Origin { first_row: 3, number: 4 }];
    BucketRow { level: 1, origins, ..row(number, index, state) }
}

pub(crate) fn logged(head: &[u8], variant: u32, offset: u64, lsn: u64) -> LoggedCheckpoint {
    let key = CheckpointKey { identity: SourceIdentity::of(head, ""), variant };
    let head_bytes = head.len().min(HEAD_BYTES_MAX) as u32;
    let milestones = (0..variant).collect();
    let checkpoint =
        FileCheckpoint { key, head_bytes, offset, tail_hash: u64::MAX - offset, source: "f".into(), milestones };
    LoggedCheckpoint { checkpoint, lsn }
}

pub(crate) fn commit(catalog: &Catalog, bucket: &BucketRow, sealed_through: u64) {
    let buckets = [Sealed { bucket, sealed_through }];
    catalog.commit_seals(&SealCommit { buckets: &buckets, checkpoints: &[], log_position: 0 }).unwrap();
}
