//! The life cycle of a bucket: sealing, live, retired, forgotten.
//!
//! A bucket is sealed from the log, or compacted from older buckets, which it replaces in one transaction. `begin_seal`
//! records the names of its objects before they are written, and a retired bucket stays on record until its objects are
//! deleted. A crash therefore never leaves an unknown object, and no folder needs to be listed.
//!
//! Not here: the buckets of a time range (`crate::overlap`).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::checkpoint::{LoggedCheckpoint, write_checkpoint};
use crate::checksum::{RowChecksum, Table, check_row, delete_rows, known_sum};
use crate::deleted_copies::write_deleted_copies;
use crate::deletion::drop_deletion_of_forgotten;
use crate::origin::{Origin, drop_origins_of_forgotten, read_origins, write_origins};
use crate::position::advance_position;
use crate::remote::{OtherCopy, RemoteCopy, read_other, read_remote};
use crate::setting::write_setting;
use crate::transaction::{CatalogTransaction, Failure, Row, StepResult, Value, upsert, values};
use crate::{Catalog, CatalogError, DeletedCopies};

const COLUMNS: &str = "number, index_name, state, object, filter, slabs, time_min, time_max, events, raw_bytes, \
                       object_bytes, filter_bytes, created, level, thawed, volume, folder, remote, receipt, stem, \
                       other_volume, other_folder, other_going, merged_into, checksum";
/// Name of the setting that holds the newest log record covered by a commit.
const LOG_POSITION: &str = "log_position";

/// The catalog's record of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketRow {
    /// Number of the bucket, unique in the store. Numbers of sealed buckets ascend in the order in which their first
    /// events arrived.
    pub number: u64,
    /// Index to which its events belong.
    pub index: String,
    /// State in the life cycle.
    pub state: BucketState,
    /// Name of the bucket object.
    pub object: String,
    /// Name of the term filter object.
    pub filter: String,
    /// Number of slabs (parts of up to 64 pages with their own term dictionaries).
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
    /// Time of sealing or compaction, in nanoseconds since 1970.
    pub created: i64,
    /// One more than the highest level of the buckets that were merged into it; 0 for a sealed bucket. Rewriting a
    /// single bucket changes only level 0, to 1.
    pub level: u32,
    /// Whether the bucket was restored from an archive and is therefore exempt from retention.
    pub thawed: bool,
    /// The sealed buckets its events came from, by ascending row; empty for a sealed bucket.
    pub origins: Vec<Origin>,
    /// Its copy on a remote store, if any.
    pub remote: Option<RemoteCopy>,
    /// A second copy on a remote store, while the bucket moves from one volume to another or away from its volume.
    pub other: Option<OtherCopy>,
    /// Stem (the common part of the names) of its remote objects, if not derived from number and time. Set for a bucket
    /// that was found on a volume and whose original number was already taken.
    pub stem: Option<String>,
    /// If this bucket was merged: the bucket that now contains its events, after any number of merges.
    pub merged_into: Option<u64>,
}

impl BucketRow {
    /// Total bytes of its objects.
    pub fn stored_bytes(&self) -> u64 {
        self.object_bytes + self.filter_bytes
    }

    fn sum(&self) -> i64 {
        let mut sum = RowChecksum::of(Table::Bucket).number(self.number.cast_signed()).text(&self.index);
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
            sum = sum.text("other").text(&other.volume).text(&other.folder).number(other.is_obsolete.into());
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
    /// The sealed bucket, which becomes live.
    pub bucket: &'a BucketRow,
    /// All buckets of the same index up to this number are sealed.
    pub sealed_through: u64,
}

/// The atomic change that completes one or more seals.
#[derive(Clone, Copy, Debug)]
pub struct SealCommit<'a> {
    /// The buckets that become live.
    pub buckets: &'a [Sealed<'a>],
    /// Checkpoints that became durable in the log since the last commit.
    pub checkpoints: &'a [LoggedCheckpoint],
    /// Newest log record the checkpoints cover.
    pub log_position: u64,
}

/// The atomic change of a compaction.
#[derive(Clone, Copy, Debug)]
pub struct CompactionCommit<'a> {
    /// The compacted bucket, which becomes live.
    pub bucket: &'a BucketRow,
    /// The buckets it replaces, which are retired.
    pub inputs: &'a [u64],
}

impl Catalog {
    /// Records the names of objects that will be written; `bucket.state` must be `Sealing`.
    pub fn begin_seal(&self, bucket: &BucketRow) -> Result<(), CatalogError> {
        self.begin_seals(std::slice::from_ref(bucket))
    }

    /// Like [`Catalog::begin_seal`] for several buckets at once. Refuses a bucket that was sealed before: a crash
    /// during the second seal would lose its events, because the bucket would count as incomplete, and the position of
    /// its index would prevent its events from being restored from the log.
    pub fn begin_seals(&self, buckets: &[BucketRow]) -> Result<(), CatalogError> {
        debug_assert!(buckets.iter().all(|bucket| bucket.state == BucketState::Sealing));
        self.write(|act| {
            for bucket in buckets {
                let number = values![bucket.number.cast_signed()];
                if act.exists("SELECT 1 FROM bucket WHERE number = ?1 AND state <> 0", number)? {
                    let reason = format!("bucket {} is sealed already and cannot be sealed again", bucket.number);
                    return Err(Failure::Permanent(self.bug_error(&reason)));
                }
                write_bucket(act, bucket)?;
            }
            Ok(())
        })
    }

    /// The bucket of this number, if its seal has begun but not ended.
    pub fn unfinished_seal(&self, number: u64) -> Result<Option<BucketRow>, CatalogError> {
        self.read(|act| one_bucket(act, "bucket.number = ?1 AND bucket.state = 0", values![number.cast_signed()]))
    }

    /// Makes sealed buckets live, advances the sealing positions of their indexes and stores checkpoints.
    pub fn commit_seals(&self, commit: &SealCommit<'_>) -> Result<(), CatalogError> {
        debug_assert!(commit.buckets.iter().all(|sealed| sealed.bucket.state == BucketState::Live));
        let written = self.write(|act| {
            for Sealed { bucket, sealed_through } in commit.buckets {
                write_bucket(act, bucket)?;
                advance_position(act, &bucket.index, *sealed_through)?;
            }
            write_log_position(act, commit.checkpoints, commit.log_position)
        });
        self.add_known(&written, commit.checkpoints);
        written
    }

    /// Makes a compacted bucket live and retires its inputs. Returns `false`, without changes, if one of them is no
    /// longer live.
    pub fn commit_compaction(&self, commit: &CompactionCommit<'_>) -> Result<bool, CatalogError> {
        debug_assert_eq!(commit.bucket.state, BucketState::Live);
        self.write(|act| {
            for number in commit.inputs {
                if !is_live(act, *number)? {
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
        let written = self.write(|act| write_log_position(act, checkpoints, log_position));
        self.add_known(&written, checkpoints);
        written
    }

    /// Drops the checkpoints that came with lost log records (those from `from_lsn` on), and stores older checkpoints
    /// in their place.
    pub fn replace_lost_checkpoints(
        &self,
        from_lsn: u64,
        older: &[LoggedCheckpoint],
        log_position: u64,
    ) -> Result<(), CatalogError> {
        let written = self.write(|act| {
            let delete = "DELETE FROM checkpoint WHERE lsn >= ?1 RETURNING checksum";
            delete_rows(act, Table::Checkpoint, delete, values![from_lsn.cast_signed()])?;
            write_log_position(act, older, log_position)
        });
        self.add_known(&written, older);
        written
    }

    /// Removes live buckets from all later searches. Their objects can be deleted afterwards.
    pub fn retire(&self, numbers: &[u64]) -> Result<(), CatalogError> {
        self.write(|act| retire(act, numbers))
    }

    /// Drops a sealing or retired bucket whose objects are deleted. A retired bucket beyond the sealing position of its
    /// index stays on record, because the log still contains its events and a replay must not restore them. The events
    /// of a thawed bucket were never in the log.
    pub fn remove_bucket(&self, number: u64) -> Result<(), CatalogError> {
        self.remove_buckets(&[number])
    }

    /// Like [`Catalog::remove_bucket`]; records that the bucket's copies on volumes are deleted.
    pub fn remove_uploaded_bucket(&self, number: u64, deleted: &DeletedCopies<'_>) -> Result<(), CatalogError> {
        self.write(|act| {
            write_deleted_copies(act, deleted)?;
            remove_buckets(act, &[number])
        })
    }

    /// Like [`Catalog::remove_bucket`] for several buckets at once.
    pub fn remove_buckets(&self, numbers: &[u64]) -> Result<(), CatalogError> {
        self.write(|act| remove_buckets(act, numbers))
    }

    /// All buckets in one state, ascending by number. Live buckets may be too many for one list: see
    /// [`Catalog::read_buckets`].
    pub fn buckets(&self, state: BucketState) -> Result<Vec<BucketRow>, CatalogError> {
        // The state is a literal, not a parameter, so that the databases can use the partial index on buckets that are
        // not live.
        self.read(|act| buckets_where(act, &format!("bucket.state = {}", state.code()), &[]))
    }

    /// The latest time at which a live bucket was written; `None` without live buckets.
    pub fn newest_created(&self) -> Result<Option<i64>, CatalogError> {
        self.read(|act| {
            let found = act.row("SELECT max(created) FROM bucket WHERE state = 1", &[], |row| row.take(0))?;
            Ok(found.flatten())
        })
    }

    /// Whether a bucket is live after all earlier transactions, including one whose commit got no answer. Runs as a
    /// writing transaction, because a read-only one might run before such a commit has ended.
    pub fn is_live_for_certain(&self, number: u64) -> Result<bool, CatalogError> {
        self.write(|act| is_live(act, number))
    }

    /// The bucket of this number, whatever its state.
    pub fn bucket(&self, number: u64) -> Result<Option<BucketRow>, CatalogError> {
        self.read(|act| bucket_of(act, number))
    }

    /// The bucket for which this stem is on record. Stems derived from number and time are not on record.
    pub fn bucket_with_stem(&self, stem: &str) -> Result<Option<BucketRow>, CatalogError> {
        self.read(|act| one_bucket(act, "bucket.stem = ?1", values![stem]))
    }

    /// Retired buckets that were merged into a bucket and are still on record.
    pub fn merged_into(&self, number: u64) -> Result<Vec<BucketRow>, CatalogError> {
        self.read(|act| merged_into(act, number))
    }

    /// Largest bucket number on record; 0 if there is none.
    pub fn bucket_number_max(&self) -> Result<u64, CatalogError> {
        self.read(|act| {
            let of_buckets = act.number("SELECT coalesce(max(number), 0) FROM bucket", &[])?;
            let of_positions = act.number("SELECT coalesce(max(sealed_through), 0) FROM position", &[])?;
            Ok(of_buckets.max(of_positions).map_or(0, i64::cast_unsigned))
        })
    }

    /// Newest log record covered by a commit; 0 if there is none.
    pub fn log_position(&self) -> Result<u64, CatalogError> {
        Ok(self.setting(LOG_POSITION)?.and_then(|text| text.parse().ok()).unwrap_or(0))
    }
}

fn remove_buckets(act: &CatalogTransaction<'_>, numbers: &[u64]) -> StepResult<()> {
    let delete = "DELETE FROM bucket WHERE number = ?1 AND (state = 0 OR state = 2 AND thawed = 1 OR
        state = 2 AND number <= (SELECT sealed_through FROM position
        WHERE position.index_name = bucket.index_name)) RETURNING checksum";
    for number in numbers {
        delete_rows(act, Table::Bucket, delete, values![(*number).cast_signed()])?;
        drop_origins_of_forgotten(act, *number)?;
        drop_deletion_of_forgotten(act, *number)?;
    }
    Ok(())
}

fn write_log_position(
    act: &CatalogTransaction<'_>,
    checkpoints: &[LoggedCheckpoint],
    log_position: u64,
) -> StepResult<()> {
    for logged in checkpoints {
        write_checkpoint(act, logged)?;
    }
    write_setting(act, LOG_POSITION, &log_position.to_string())
}

/// Retires a bucket that was merged into bucket `top`. Buckets merged into it earlier count as merged into `top`, too.
fn merge_into(act: &CatalogTransaction<'_>, number: u64, top: u64) -> StepResult<()> {
    let inner = merged_into(act, number)?;
    let input = bucket_of(act, number)?.map(|bucket| BucketRow { state: BucketState::Retired, ..bucket });
    for bucket in inner.into_iter().chain(input) {
        write_bucket(act, &BucketRow { merged_into: Some(top), ..bucket })?;
    }
    Ok(())
}

fn merged_into(act: &CatalogTransaction<'_>, number: u64) -> StepResult<Vec<BucketRow>> {
    buckets_where(act, "bucket.merged_into = ?1", values![number.cast_signed()])
}

/// Whether a bucket is live.
pub(crate) fn is_live(act: &CatalogTransaction<'_>, number: u64) -> StepResult<bool> {
    act.exists("SELECT 1 FROM bucket WHERE number = ?1 AND state = 1", values![number.cast_signed()])
}

pub(crate) fn retire(act: &CatalogTransaction<'_>, numbers: &[u64]) -> StepResult<()> {
    for number in numbers {
        if let Some(bucket) = live_bucket(act, *number)? {
            write_bucket(act, &BucketRow { state: BucketState::Retired, ..bucket })?;
        }
    }
    Ok(())
}

pub(crate) fn write_bucket(act: &CatalogTransaction<'_>, bucket: &BucketRow) -> StepResult<()> {
    let sum = bucket.sum();
    let old = known_sum(act, "SELECT checksum FROM bucket WHERE number = ?1", values![bucket.number.cast_signed()])?;
    let values = values![
        bucket.number.cast_signed(),
        &bucket.index,
        bucket.state.code(),
        &bucket.object,
        &bucket.filter,
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
        bucket.stem.as_deref(),
        bucket.other.as_ref().map(|other| &*other.volume),
        bucket.other.as_ref().map(|other| &*other.folder),
        bucket.other.as_ref().map(|other| other.is_obsolete),
        bucket.merged_into.map(u64::cast_signed),
        sum,
    ];
    act.execute(&upsert("bucket", COLUMNS, "number"), values)?;
    write_origins(act, bucket.number, &bucket.origins)?;
    act.note_change(Table::Bucket, old, sum);
    Ok(())
}

/// A row without its origins, and its checksum.
type StoredBucket = (BucketRow, Option<i64>);

fn read_bucket(row: &mut Row) -> StepResult<StoredBucket> {
    let bucket = BucketRow {
        number: row.unsigned(0)?,
        index: row.take(1)?,
        state: BucketState::from_code(row.take(2)?),
        object: row.take(3)?,
        filter: row.take(4)?,
        slabs: row.take(5)?,
        time_min: row.take(6)?,
        time_max: row.take(7)?,
        events: row.unsigned(8)?,
        raw_bytes: row.unsigned(9)?,
        object_bytes: row.unsigned(10)?,
        filter_bytes: row.unsigned(11)?,
        created: row.take(12)?,
        level: row.take(13)?,
        thawed: row.take(14)?,
        origins: Vec::new(),
        remote: read_remote(row, 15)?,
        stem: row.take(19)?,
        other: read_other(row, 20)?,
        merged_into: row.take::<Option<i64>>(23)?.map(i64::cast_unsigned),
    };
    Ok((bucket, row.take(24)?))
}

/// The bucket of this number if it is live.
pub(crate) fn live_bucket(act: &CatalogTransaction<'_>, number: u64) -> StepResult<Option<BucketRow>> {
    Ok(bucket_of(act, number)?.filter(|bucket| bucket.state == BucketState::Live))
}

/// The bucket of this number.
pub(crate) fn bucket_of(act: &CatalogTransaction<'_>, number: u64) -> StepResult<Option<BucketRow>> {
    one_bucket(act, "bucket.number = ?1", values![number.cast_signed()])
}

/// The only bucket that fulfils `condition`, if there is one.
fn one_bucket(act: &CatalogTransaction<'_>, condition: &str, values: &[Value<'_>]) -> StepResult<Option<BucketRow>> {
    Ok(buckets_where(act, condition, values)?.pop())
}

/// The buckets that fulfil `condition`, ascending by number.
fn buckets_where(act: &CatalogTransaction<'_>, condition: &str, values: &[Value<'_>]) -> StepResult<Vec<BucketRow>> {
    Ok(summed_buckets_where(act, condition, values)?.into_iter().map(|(bucket, _)| bucket).collect())
}

/// Like [`buckets_where`], and returns the verified checksums of the rows.
fn summed_buckets_where(
    act: &CatalogTransaction<'_>,
    condition: &str,
    values: &[Value<'_>],
) -> StepResult<Vec<(BucketRow, i64)>> {
    let select = format!("SELECT {COLUMNS} FROM bucket WHERE {condition} ORDER BY number");
    let found = act.rows(&select, values, read_bucket)?;
    let has_origins = found.iter().any(|(bucket, _)| bucket.level > 0);
    let of_buckets = format!("origin.bucket = bucket.number AND {condition}");
    let origins = if has_origins { read_origins(act, "origin, bucket", &of_buckets, values)? } else { BTreeMap::new() };
    with_origins(found, origins)
}

/// The buckets with the next numbers after `number`, at most `most`, each with its verified checksum.
pub(crate) fn page(act: &CatalogTransaction<'_>, number: u64, most: u32) -> StepResult<Vec<(BucketRow, i64)>> {
    let select = format!("SELECT {COLUMNS} FROM bucket WHERE number > ?1 ORDER BY number LIMIT ?2");
    let found = act.rows(&select, values![number.cast_signed(), most], read_bucket)?;
    let Some((last, _)) = found.last() else { return Ok(Vec::new()) };
    // Without a join, so that the databases read the origins in the order of their key.
    let range = "origin.bucket > ?1 AND origin.bucket <= ?2";
    let origins = read_origins(act, "origin", range, values![number.cast_signed(), last.number.cast_signed()])?;
    with_origins(found, origins)
}

/// The first live buckets of an index with these numbers, at most `most`.
pub(crate) fn live_page(
    act: &CatalogTransaction<'_>,
    index: &str,
    numbers: &RangeInclusive<u64>,
    most: u32,
) -> StepResult<Vec<BucketRow>> {
    // The database stores numbers as positive signed 64-bit integers.
    let stored = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let (first, through) = (stored(*numbers.start()), stored(*numbers.end()));
    let select = format!(
        "SELECT {COLUMNS} FROM bucket WHERE index_name = ?1 AND number >= ?2 AND number <= ?3 AND state = 1
         ORDER BY number LIMIT ?4"
    );
    let found = act.rows(&select, values![index, first, through, most], read_bucket)?;
    let Some((last, _)) = found.last() else { return Ok(Vec::new()) };
    let of_page =
        "origin.bucket = bucket.number AND bucket.index_name = ?1 AND bucket.number >= ?2 AND bucket.number <= ?3
        AND bucket.state = 1";
    let values = values![index, first, last.number.cast_signed()];
    let origins = read_origins(act, "bucket, origin", of_page, values)?;
    Ok(with_origins(found, origins)?.into_iter().map(|(bucket, _)| bucket).collect())
}

/// Adds the origins to the found buckets; verifies the checksums of the buckets.
fn with_origins(
    found: Vec<StoredBucket>,
    mut origins: BTreeMap<u64, Vec<Origin>>,
) -> StepResult<Vec<(BucketRow, i64)>> {
    let whole = |(mut bucket, found): StoredBucket| {
        if bucket.level > 0 {
            bucket.origins = origins.remove(&bucket.number).unwrap_or_default();
        }
        let sum = bucket.sum();
        check_row(Table::Bucket, &bucket.number, found, sum)?;
        Ok((bucket, sum))
    };
    found.into_iter().map(whole).collect()
}

/// Adds checksums to the rows of an older catalog.
pub(crate) fn add_bucket_sums(act: &CatalogTransaction<'_>) -> StepResult<()> {
    summed_buckets_where(act, "1 = 1", &[])?.iter().try_for_each(|(bucket, sum)| {
        let update = "UPDATE bucket SET checksum = ?2 WHERE number = ?1";
        act.execute(update, values![bucket.number.cast_signed(), *sum]).map(drop)
    })
}
