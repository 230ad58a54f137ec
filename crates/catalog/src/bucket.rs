//! The life cycle of a bucket: sealing, live, retired, forgotten.
//!
//! A bucket is sealed from the log, or compacted from older buckets, which it replaces in one transaction. `begin_seal`
//! records the object names before the objects are written, and `retire` keeps them until they are deleted. A crash
//! therefore never leaves an unknown object, and no folder needs to be listed.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::checkpoint::{LoggedCheckpoint, write_checkpoint};
use crate::checksum::{RowSum, Table, check_row, delete_rows, known_sum, note_change};
use crate::deletion::drop_deletion_of_forgotten;
use crate::origin::{Origin, drop_origins_of_forgotten, read_origins, write_origins};
use crate::position::move_position;
use crate::remote::{OtherCopy, RemoteCopy, read_other, read_remote};
use crate::setting::write_setting;
use crate::{Catalog, CatalogError};

const COLUMNS: &str = "number, index_name, state, object, filter, slabs, time_min, time_max, events, raw_bytes, \
                       object_bytes, filter_bytes, created, level, thawed, volume, folder, remote, receipt, stem, \
                       other_volume, other_folder, other_going, merged_into, checksum";
/// Setting with the newest log record that a commit covers.
const LOG_POSITION: &str = "log_position";

/// The catalog's record of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketRow {
    /// Its number, unique in the store. Numbers of sealed buckets ascend in the order in which their first events
    /// arrived.
    pub number: u64,
    /// Index of its events.
    pub index: String,
    /// Its state.
    pub state: BucketState,
    /// Name of the bucket object.
    pub object: String,
    /// Name of the term filter object.
    pub filter: String,
    /// Number of slabs.
    pub slabs: u32,
    /// Smallest `_time`, nanoseconds.
    pub time_min: i64,
    /// Largest `_time`, nanoseconds.
    pub time_max: i64,
    /// Number of events.
    pub events: u64,
    /// Bytes of text before encoding.
    pub raw_bytes: u64,
    /// Bytes of the bucket object.
    pub object_bytes: u64,
    /// Bytes of the term filter object.
    pub filter_bytes: u64,
    /// When it was sealed or compacted, nanoseconds.
    pub created: i64,
    /// How often its events were compacted; 0 for a sealed bucket.
    pub level: u32,
    /// Whether it was restored from an archive, which exempts it from retention.
    pub thawed: bool,
    /// The sealed buckets its events came from, by ascending row; empty for a sealed bucket.
    pub origins: Vec<Origin>,
    /// Its copy on a remote store, if any.
    pub remote: Option<RemoteCopy>,
    /// A second copy on a remote store, while the bucket moves from one volume to another or away from its volume.
    pub other: Option<OtherCopy>,
    /// Stem of its remote objects, if it does not follow from number and time: it was found on a volume, and its number
    /// belonged to another bucket.
    pub stem: Option<String>,
    /// Of a retired bucket, the bucket that now contains its events, after any number of merges.
    pub merged_into: Option<u64>,
}

impl BucketRow {
    /// Total bytes of its objects.
    pub fn stored_bytes(&self) -> u64 {
        self.object_bytes + self.filter_bytes
    }

    fn sum(&self) -> i64 {
        let mut sum = RowSum::of(Table::Bucket).number(self.number.cast_signed()).text(&self.index);
        sum = sum.number(self.state.code()).text(&self.object).text(&self.filter).number(self.slabs.into());
        let counts = [self.events, self.raw_bytes, self.object_bytes, self.filter_bytes, self.level.into()];
        for number in [self.time_min, self.time_max, self.created, self.thawed.into()] {
            sum = sum.number(number);
        }
        for count in counts {
            sum = sum.number(count.cast_signed());
        }
        for origin in &self.origins {
            sum = sum.number(origin.first_row.cast_signed()).number(origin.number.cast_signed());
        }
        // Rows of earlier versions have no remote copy and keep their checksums.
        if let Some(remote) = &self.remote {
            sum = sum.text(&remote.volume).text(&remote.folder).number(remote.state.code());
            if let Some(receipt) = remote.receipt {
                sum = sum.text("receipt").number(receipt.cast_signed());
            }
        }
        if let Some(other) = &self.other {
            sum = sum.text("other").text(&other.volume).text(&other.folder).number(other.going.into());
        }
        if let Some(stem) = &self.stem {
            sum = sum.text("stem").text(stem);
        }
        if let Some(top) = self.merged_into {
            sum = sum.text("merged_into").number(top.cast_signed());
        }
        sum.finish()
    }
}

/// State of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketState {
    /// Its objects are being written; its events are still in the log or in the buckets it will replace.
    Sealing,
    /// Searched.
    Live,
    /// No longer searched; its objects are being deleted.
    Retired,
}

impl BucketState {
    fn code(self) -> i64 {
        match self {
            BucketState::Sealing => 0,
            BucketState::Live => 1,
            BucketState::Retired => 2,
        }
    }

    fn from_code(code: i64) -> BucketState {
        match code {
            0 => BucketState::Sealing,
            1 => BucketState::Live,
            _ => BucketState::Retired,
        }
    }
}

/// A bucket whose seal is complete.
#[derive(Clone, Copy, Debug)]
pub struct Sealed<'a> {
    /// The bucket, live from now on.
    pub bucket: &'a BucketRow,
    /// All buckets of its index up to this number are sealed.
    pub sealed_through: u64,
}

/// The atomic change at the end of some seals.
#[derive(Clone, Copy, Debug)]
pub struct SealCommit<'a> {
    /// The buckets.
    pub buckets: &'a [Sealed<'a>],
    /// Checkpoints that became durable in the log since the last commit.
    pub checkpoints: &'a [LoggedCheckpoint],
    /// Newest log record the checkpoints cover.
    pub log_position: u64,
}

/// The atomic change of a compaction.
#[derive(Clone, Copy, Debug)]
pub struct CompactionCommit<'a> {
    /// The bucket, live from now on.
    pub bucket: &'a BucketRow,
    /// The buckets it replaces, which are retired.
    pub inputs: &'a [u64],
}

impl Catalog {
    /// Records the names of objects that will be written; `bucket.state` must be `Sealing`.
    pub fn begin_seal(&self, bucket: &BucketRow) -> Result<(), CatalogError> {
        self.begin_seals(std::slice::from_ref(bucket))
    }

    /// As [`Catalog::begin_seal`] for several buckets at once.
    pub fn begin_seals(&self, buckets: &[BucketRow]) -> Result<(), CatalogError> {
        debug_assert!(buckets.iter().all(|bucket| bucket.state == BucketState::Sealing));
        self.act(|act| buckets.iter().try_for_each(|bucket| write_bucket(act, bucket)))
    }

    /// A bucket whose seal began but has not ended.
    pub fn begun(&self, number: u64) -> Result<Option<BucketRow>, CatalogError> {
        self.act(|act| {
            let select = format!("SELECT {COLUMNS} FROM bucket WHERE number = ?1 AND state = 0");
            let found = act.prepare_cached(&select)?.query_row([number.cast_signed()], read_bucket).optional()?;
            found.map(|found| whole(act, found).map(|(bucket, _)| bucket)).transpose()
        })
    }

    /// Makes sealed buckets live, advances the positions of their indexes and stores checkpoints.
    pub fn commit_seals(&self, commit: &SealCommit<'_>) -> Result<(), CatalogError> {
        debug_assert!(commit.buckets.iter().all(|sealed| sealed.bucket.state == BucketState::Live));
        self.act(|act| {
            for Sealed { bucket, sealed_through } in commit.buckets {
                write_bucket(act, bucket)?;
                move_position(act, &bucket.index, *sealed_through)?;
            }
            write_log_position(act, commit.checkpoints, commit.log_position)
        })?;
        self.know(commit.checkpoints);
        Ok(())
    }

    /// Makes a compacted bucket live and retires its inputs. Returns `false`, without changes, if one of them is no
    /// longer live.
    pub fn commit_compaction(&self, commit: &CompactionCommit<'_>) -> Result<bool, CatalogError> {
        debug_assert_eq!(commit.bucket.state, BucketState::Live);
        self.act(|act| {
            let mut live = act.prepare_cached("SELECT count(*) FROM bucket WHERE number = ?1 AND state = 1")?;
            for number in commit.inputs {
                if live.query_row([(*number).cast_signed()], |row| row.get::<_, i64>(0))? == 0 {
                    return Ok(false);
                }
            }
            write_bucket(act, commit.bucket)?;
            for number in commit.inputs {
                merge_into(act, *number, commit.bucket.number)?;
            }
            Ok(true)
        })
    }

    /// Stores checkpoints without a seal, so that the log records they came from can be deleted.
    pub fn save_checkpoints(&self, checkpoints: &[LoggedCheckpoint], log_position: u64) -> Result<(), CatalogError> {
        self.act(|act| write_log_position(act, checkpoints, log_position))?;
        self.know(checkpoints);
        Ok(())
    }

    /// Drops the checkpoints of record `from_lsn` and later, because records were lost there, and stores the older ones
    /// that replace them.
    pub fn forget_checkpoints(
        &self,
        from_lsn: u64,
        older: &[LoggedCheckpoint],
        log_position: u64,
    ) -> Result<(), CatalogError> {
        self.act(|act| {
            let delete = "DELETE FROM checkpoint WHERE lsn >= ?1 RETURNING checksum";
            delete_rows(act, Table::Checkpoint, delete, [from_lsn.cast_signed()])?;
            write_log_position(act, older, log_position)
        })?;
        self.know(older);
        Ok(())
    }

    /// Removes live buckets from all later searches. Their objects can be deleted afterwards.
    pub fn retire(&self, numbers: &[u64]) -> Result<(), CatalogError> {
        self.act(|act| retire(act, numbers))
    }

    /// Drops a sealing or retired bucket whose objects are deleted. A retired one beyond its index's position stays
    /// recorded, because the log still contains its events and a replay must not restore them.
    pub fn forget(&self, number: u64) -> Result<(), CatalogError> {
        self.forget_all(&[number])
    }

    /// As [`Catalog::forget`] for several buckets at once.
    pub fn forget_all(&self, numbers: &[u64]) -> Result<(), CatalogError> {
        self.act(|act| {
            let delete = "DELETE FROM bucket WHERE number = ?1 AND (state = 0 OR state = 2 AND number <=
                (SELECT sealed_through FROM position WHERE position.index_name = bucket.index_name)) RETURNING checksum";
            for number in numbers {
                delete_rows(act, Table::Bucket, delete, [(*number).cast_signed()])?;
                drop_origins_of_forgotten(act, *number)?;
                drop_deletion_of_forgotten(act, *number)?;
            }
            Ok(())
        })
    }

    /// All buckets in one state, ascending by number.
    pub fn buckets(&self, state: BucketState) -> Result<Vec<BucketRow>, CatalogError> {
        self.act(|act| {
            let select = format!("SELECT {COLUMNS} FROM bucket WHERE state = ?1 ORDER BY number");
            let mut statement = act.prepare_cached(&select)?;
            let found: Vec<StoredBucket> =
                statement.query_map([state.code()], read_bucket)?.collect::<rusqlite::Result<_>>()?;
            found.into_iter().map(|found| whole(act, found).map(|(bucket, _)| bucket)).collect()
        })
    }

    /// The bucket of this number, whatever its state.
    pub fn bucket(&self, number: u64) -> Result<Option<BucketRow>, CatalogError> {
        self.act(|act| bucket_of(act, number))
    }

    /// The bucket whose remote objects are called this, where that is not made of number and time.
    pub fn bucket_with_stem(&self, stem: &str) -> Result<Option<BucketRow>, CatalogError> {
        self.act(|act| {
            let select = format!("SELECT {COLUMNS} FROM bucket WHERE stem = ?1");
            let found = act.prepare_cached(&select)?.query_row([stem], read_bucket).optional()?;
            found.map(|found| whole(act, found).map(|(bucket, _)| bucket)).transpose()
        })
    }

    /// Retired buckets whose events a bucket holds, as far as they are on record.
    pub fn merged_into(&self, number: u64) -> Result<Vec<BucketRow>, CatalogError> {
        self.act(|act| merged_into(act, number))
    }

    /// Largest bucket number on record; 0 if there is none.
    pub fn bucket_number_max(&self) -> Result<u64, CatalogError> {
        self.act(|act| {
            let select = "SELECT max(coalesce((SELECT max(number) FROM bucket), 0),
                                    coalesce((SELECT max(sealed_through) FROM position), 0))";
            act.prepare_cached(select)?.query_row([], |row| row.get::<_, i64>(0)).map(|number| number.cast_unsigned())
        })
    }

    /// Newest log record covered by a commit; 0 if there is none.
    pub fn log_position(&self) -> Result<u64, CatalogError> {
        Ok(self.setting(LOG_POSITION)?.and_then(|text| text.parse().ok()).unwrap_or(0))
    }
}

fn write_log_position(act: &Connection, checkpoints: &[LoggedCheckpoint], log_position: u64) -> rusqlite::Result<()> {
    for logged in checkpoints {
        write_checkpoint(act, logged)?;
    }
    write_setting(act, LOG_POSITION, &log_position.to_string())
}

/// Retires a bucket that was merged into bucket `top`, which holds from now on what had been merged into that one, too.
fn merge_into(act: &Connection, number: u64, top: u64) -> rusqlite::Result<()> {
    let inner = merged_into(act, number)?;
    let input = bucket_of(act, number)?.map(|bucket| BucketRow { state: BucketState::Retired, ..bucket });
    for bucket in inner.into_iter().chain(input) {
        write_bucket(act, &BucketRow { merged_into: Some(top), ..bucket })?;
    }
    Ok(())
}

fn merged_into(act: &Connection, number: u64) -> rusqlite::Result<Vec<BucketRow>> {
    let select = format!("SELECT {COLUMNS} FROM bucket WHERE merged_into = ?1 ORDER BY number");
    let mut statement = act.prepare_cached(&select)?;
    let found: Vec<StoredBucket> =
        statement.query_map([number.cast_signed()], read_bucket)?.collect::<rusqlite::Result<_>>()?;
    found.into_iter().map(|found| whole(act, found).map(|(bucket, _)| bucket)).collect()
}

pub(crate) fn retire(act: &Connection, numbers: &[u64]) -> rusqlite::Result<()> {
    for number in numbers {
        if let Some(bucket) = live_bucket(act, *number)? {
            write_bucket(act, &BucketRow { state: BucketState::Retired, ..bucket })?;
        }
    }
    Ok(())
}

pub(crate) fn write_bucket(act: &Connection, bucket: &BucketRow) -> rusqlite::Result<()> {
    let insert = format!(
        "INSERT OR REPLACE INTO bucket ({COLUMNS})
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,
                 ?24, ?25)"
    );
    let sum = bucket.sum();
    let old = known_sum(act, "SELECT checksum FROM bucket WHERE number = ?1", [bucket.number.cast_signed()])?;
    act.prepare_cached(&insert)?.execute(params![
        bucket.number.cast_signed(),
        bucket.index,
        bucket.state.code(),
        bucket.object,
        bucket.filter,
        bucket.slabs,
        bucket.time_min,
        bucket.time_max,
        bucket.events.cast_signed(),
        bucket.raw_bytes.cast_signed(),
        bucket.object_bytes.cast_signed(),
        bucket.filter_bytes.cast_signed(),
        bucket.created,
        bucket.level,
        bucket.thawed,
        bucket.remote.as_ref().map(|remote| &*remote.volume),
        bucket.remote.as_ref().map(|remote| &*remote.folder),
        bucket.remote.as_ref().map(|remote| remote.state.code()),
        bucket.remote.as_ref().and_then(|remote| remote.receipt).map(u64::cast_signed),
        bucket.stem,
        bucket.other.as_ref().map(|other| &*other.volume),
        bucket.other.as_ref().map(|other| &*other.folder),
        bucket.other.as_ref().map(|other| other.going),
        bucket.merged_into.map(u64::cast_signed),
        sum,
    ])?;
    write_origins(act, bucket.number, &bucket.origins)?;
    note_change(act, Table::Bucket, old, sum)
}

/// A row without its origins, and its checksum.
type StoredBucket = (BucketRow, Option<i64>);

fn read_bucket(row: &Row<'_>) -> rusqlite::Result<StoredBucket> {
    let unsigned = |at: usize| row.get::<_, i64>(at).map(|value| value.cast_unsigned());
    let bucket = BucketRow {
        number: unsigned(0)?,
        index: row.get(1)?,
        state: BucketState::from_code(row.get(2)?),
        object: row.get(3)?,
        filter: row.get(4)?,
        slabs: row.get(5)?,
        time_min: row.get(6)?,
        time_max: row.get(7)?,
        events: unsigned(8)?,
        raw_bytes: unsigned(9)?,
        object_bytes: unsigned(10)?,
        filter_bytes: unsigned(11)?,
        created: row.get(12)?,
        level: row.get(13)?,
        thawed: row.get(14)?,
        origins: Vec::new(),
        remote: read_remote(row, 15)?,
        stem: row.get(19)?,
        other: read_other(row, 20)?,
        merged_into: row.get::<_, Option<i64>>(23)?.map(i64::cast_unsigned),
    };
    Ok((bucket, row.get(24)?))
}

/// The bucket of this number if it is live.
pub(crate) fn live_bucket(act: &Connection, number: u64) -> rusqlite::Result<Option<BucketRow>> {
    Ok(bucket_of(act, number)?.filter(|bucket| bucket.state == BucketState::Live))
}

/// The bucket of this number.
pub(crate) fn bucket_of(act: &Connection, number: u64) -> rusqlite::Result<Option<BucketRow>> {
    let select = format!("SELECT {COLUMNS} FROM bucket WHERE number = ?1");
    let found = act.prepare_cached(&select)?.query_row([number.cast_signed()], read_bucket).optional()?;
    found.map(|found| whole(act, found).map(|(bucket, _)| bucket)).transpose()
}

/// The row with its origins, verified against its checksum.
fn whole(act: &Connection, (mut bucket, found): StoredBucket) -> rusqlite::Result<(BucketRow, i64)> {
    if bucket.level > 0 {
        bucket.origins = read_origins(act, bucket.number)?;
    }
    let sum = bucket.sum();
    check_row(Table::Bucket, &bucket.number, found, sum)?;
    Ok((bucket, sum))
}

fn all_buckets(act: &Connection) -> rusqlite::Result<Vec<(BucketRow, i64)>> {
    let mut statement = act.prepare_cached(&format!("SELECT {COLUMNS} FROM bucket"))?;
    let found: Vec<StoredBucket> = statement.query_map([], read_bucket)?.collect::<rusqlite::Result<_>>()?;
    found.into_iter().map(|found| whole(act, found)).collect()
}

pub(crate) fn sum_of_buckets(act: &Connection) -> rusqlite::Result<i64> {
    Ok(all_buckets(act)?.iter().fold(0, |all, (_, sum)| all ^ sum))
}

/// Adds checksums to the rows of an older catalog.
pub(crate) fn add_bucket_sums(act: &Connection) -> rusqlite::Result<()> {
    all_buckets(act)?.iter().try_for_each(|(bucket, _)| {
        let update = "UPDATE bucket SET checksum = ?2 WHERE number = ?1";
        act.prepare_cached(update)?.execute(params![bucket.number.cast_signed(), bucket.sum()]).map(drop)
    })
}
