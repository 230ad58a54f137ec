//! Recovery: rebuilds the state from the catalog and the log at start.
//!
//! Log records of sealed buckets are skipped; all others are replayed into hot slabs. A bucket is sealed if it is
//! live or retired in the catalog, or if its number does not exceed the position of its index (the number up to which
//! all buckets of the index are sealed). Every record names its bucket, so slabs of several pipeline sets are
//! restored as they were.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_blob::BlobStore;
use quarry_catalog::{BucketState, Catalog, DeletionRow, LoggedCheckpoint, UnansweredPart};

use crate::damage::Losses;
use crate::deletion::RowSet;
use crate::disk::Disk;
use crate::expected_log::ExpectedLog;
use crate::hot_slabs::{BatchRows, HotKey, HotSlab};
use crate::index_rows::read_range;
use crate::live_buckets::{Cells, Loading};
use crate::log_files::LogSegment;
use crate::remote::is_in_motion;
use crate::sealed_buckets::SealedBucket;
use crate::segment::BUCKET_NUMBER_MAX;
use crate::state::State;
use crate::wal::read::{ReadSegment, Repair, Run, WalItem, read_segment, truncate_file};
use crate::wal::record::Record;
use crate::wal::salvage::salvage;
use crate::wal::{HEADER_BYTES, segment_path};
use crate::{Damage, StoreError, StoreOptions, damage, data_dir};

#[derive(Debug)]
pub(crate) struct RecoveryResult {
    pub(crate) state: State,
    pub(crate) segments: Vec<LogSegment>,
    pub(crate) next_lsn: u64,
    pub(crate) next_bucket: u64,
    /// Log segments that are or were damaged.
    pub(crate) log_damage: Vec<Damage>,
    /// Other notes for the operator.
    pub(crate) notes: Vec<String>,
    /// Parts of senders' requests found in the log.
    pub(crate) sent: Vec<UnansweredPart>,
}

/// Reads catalog and log. With [`Repair::Truncate`], truncates torn tails and replaces damaged segments.
pub(crate) fn recover(options: &StoreOptions, catalog: &Catalog, repair: Repair) -> Result<RecoveryResult, StoreError> {
    let mut replay = Replay::new(options, catalog)?;
    let folder = data_dir::log(&options.dir);
    let log = ExpectedLog::new(catalog, &folder)?;
    let ReadLog { mut segments, damaged, missing } = read_log(&log, &folder, &mut replay, repair)?;
    let mut notes = Vec::new();
    let mut log_damage: Vec<Damage> = damaged.iter().map(|(damage, ..)| damage.clone()).collect();
    log_damage.extend(missing.iter().map(|(damage, _)| damage.clone()));
    let mark_damage = log.mark_fault.as_ref().map(|fault| damage::describe_mark(&folder, fault));
    log_damage.extend(mark_damage.clone());
    if repair == Repair::Truncate {
        replay.commit_losses(catalog)?;
        segments.extend(salvage_damaged(catalog, &missing, &damaged)?);
        segments.sort_by(|a, b| a.path.cmp(&b.path));
        if log.has_mark()
            && let Err(error) = log.save_segments(catalog, &segments)
        {
            notes.push(format!("not all log segments can be recorded in the catalog: {error}"));
        }
        log_damage.clear();
        // A damaged mark (the number of the newest durable record) needs no repair: a new one is written with the next
        // record.
        notes.extend(mark_damage.map(|damage| damage.reason));
    }
    for kept in damage::load_damage(catalog, &folder)? {
        if log_damage.iter().all(|damage| damage.bucket != kept.bucket) {
            log_damage.push(kept);
        }
    }
    let next_lsn = following_number(replay.last_lsn, u64::MAX, "record")?;
    assert!(next_lsn > replay.state.durable_lsn, "no number of a record is used twice");
    let last_bucket = replay.last_bucket.max(catalog.bucket_number_max()?);
    let next_bucket = following_number(last_bucket, BUCKET_NUMBER_MAX, "bucket")?;
    let sent = std::mem::take(&mut replay.sent);
    let state = replay.into_state();
    Ok(RecoveryResult { state, segments, next_lsn, next_bucket, log_damage, notes, sent })
}

/// The number after `last`, the largest number on disk. If it would exceed `most`, the data is damaged.
fn following_number(last: u64, most: u64, what: &str) -> Result<u64, StoreError> {
    if last < most {
        return Ok(last + 1);
    }
    Err(StoreError::Corrupt {
        bucket: "catalog and log".to_owned(),
        reason: format!(
            "they contain {what} {last}, but the largest possible number is {most}, so no {what} can follow; restore \
             them from a copy"
        ),
    })
}

/// The segments read from a log.
#[derive(Default)]
struct ReadLog {
    segments: Vec<LogSegment>,
    damaged: Vec<(Damage, LogSegment, ReadSegment)>,
    missing: Vec<(Damage, PathBuf)>,
}

/// Replays the segments. With [`Repair::Truncate`], truncates torn tails.
fn read_log(log: &ExpectedLog, folder: &Path, replay: &mut Replay, repair: Repair) -> Result<ReadLog, StoreError> {
    let mut read_log = ReadLog::default();
    for (at, expected) in log.segments.iter().enumerate() {
        let path = &expected.path;
        let mut segment = LogSegment::new(path);
        segment.closed = true;
        let through = log.last_record_of(at);
        if !expected.exists {
            replay.losses.record_loss(expected.first_lsn);
            replay.last_lsn = replay.last_lsn.max(through.unwrap_or(expected.first_lsn));
            read_log.missing.push((damage::describe_missing(path, expected.first_lsn, through), path.clone()));
            continue;
        }
        let following = log.segments.get(at + 1).map(|next| next.first_lsn);
        let mut lost = false;
        let read = read_segment(path, following, through, &mut |found| match found {
            WalItem::Record(record) => replay.apply_record(*record, &mut segment),
            WalItem::Lost(from, until) => {
                lost = true;
                replay.losses.record_loss(from);
                replay.last_lsn = replay.last_lsn.max(until.map_or(from, |until| until - 1));
            }
        })?;
        segment.bytes = read.bytes();
        segment.last_lsn = read.runs.last().map_or(0, |run| run.last_lsn);
        if let Some(what) = &read.damage {
            read_log.damaged.push((damage::describe(path, what, lost), segment, read));
            continue;
        }
        if let (true, Some(fault)) = (read.torn, &log.mark_fault) {
            // Without the mark, it is unknown whether the unreadable bytes were acknowledged; they are treated as a
            // loss.
            let what = format!("log segment {} ends with bytes that cannot be read, and {fault}", path.display());
            replay.last_lsn += 1;
            replay.losses.record_loss(replay.last_lsn);
            read_log.damaged.push((damage::describe(path, &what, true), segment, read));
            continue;
        }
        if read.torn && repair == Repair::Truncate && segment.bytes > 0 {
            truncate_file(path, segment.bytes)?;
        }
        read_log.segments.push(segment);
    }
    if let Some(durable) = log.durable.filter(|durable| replay.last_lsn < *durable) {
        let from = replay.last_lsn + 1;
        let path = segment_path(folder, from);
        replay.losses.record_loss(from);
        replay.last_lsn = durable;
        read_log.missing.push((damage::describe_missing(&path, from, Some(durable)), path));
    }
    Ok(read_log)
}

/// Records losses and replaces damaged segments; returns the segments that replace them.
fn salvage_damaged(
    catalog: &Catalog,
    missing: &[(Damage, PathBuf)],
    damaged: &[(Damage, LogSegment, ReadSegment)],
) -> Result<Vec<LogSegment>, StoreError> {
    for (damage, path) in missing {
        damage::save_damage(catalog, damage)?;
        damage::create_placeholder(path, damage)?;
    }
    let mut segments = Vec::new();
    // The newest segment is replaced first, so that the oldest loss is found again if a crash comes before all are
    // replaced.
    for (damage, segment, read) in damaged.iter().rev() {
        damage::save_damage(catalog, damage)?;
        segments.extend(replace(segment, read)?);
    }
    Ok(segments)
}

/// Replaces a damaged segment with its intact runs.
fn replace(segment: &LogSegment, read: &ReadSegment) -> Result<Vec<LogSegment>, StoreError> {
    let paths = salvage(&segment.path, &read.runs)?;
    let of_run = |(path, run): (PathBuf, &Run)| LogSegment {
        path,
        bytes: (HEADER_BYTES + run.bytes.len()) as u64,
        last_lsn: run.last_lsn,
        buckets: segment.buckets.clone(),
        checkpoint_lsn: segment.checkpoint_lsn,
        closed: true,
    };
    Ok(paths.into_iter().zip(&read.runs).map(of_run).collect())
}

/// Deletes leftovers of unfinished seals and of unfinished deletions of objects. Returns errors, and the retired
/// buckets with a remote copy, which are deleted later because a start must not wait for the network.
pub(crate) fn clean_up(
    catalog: &Catalog,
    blobs: &dyn BlobStore,
    recovered: &State,
) -> Result<(Vec<String>, Vec<Arc<SealedBucket>>), StoreError> {
    let (mut problems, mut retired) = (Vec::new(), Vec::new());
    let mut deletions = load_deletions(catalog)?;
    for state in [BucketState::Sealing, BucketState::Retired] {
        let mut gone = Vec::new();
        for row in catalog.buckets(state)? {
            if row.remote.is_some() || row.other.is_some() {
                let deleted = deletions.remove(&row.number);
                let bucket = SealedBucket::new(row);
                retired.push(Arc::new(match deleted {
                    Some(deleted) => bucket.with_deleted(deleted),
                    None => bucket,
                }));
                continue;
            }
            if recovered.sealed.has_thawed_object(&row.object) {
                gone.push(row.number);
                continue;
            }
            match blobs.delete_all(&[&row.object, &row.filter]) {
                Ok(()) => gone.push(row.number),
                Err(error) => problems.push(format!("cannot delete the objects of bucket {}: {error}", row.number)),
            }
        }
        if !gone.is_empty() {
            catalog.remove_buckets(&gone)?;
        }
    }
    Ok((problems, retired))
}

/// Removes segments without records, which an interrupted creation has left.
pub(crate) fn remove_empty(segments: &mut Vec<LogSegment>, disk: &dyn Disk) -> Result<(), StoreError> {
    for empty in segments.extract_if(.., |segment| segment.bytes == 0) {
        disk.remove(&empty.path).map_err(|error| StoreError::from_io("remove", &empty.path, &error))?;
    }
    Ok(())
}

/// The deleted rows of buckets, by number.
fn load_deletions(catalog: &Catalog) -> Result<BTreeMap<u64, RowSet>, StoreError> {
    let decode = |row: DeletionRow| {
        let rows = RowSet::decode(&row.rows).ok_or_else(|| StoreError::Corrupt {
            bucket: row.bucket.to_string(),
            reason: "the catalog's list of its deleted events is damaged or has a newer version".to_owned(),
        })?;
        Ok((row.bucket, rows))
    };
    catalog.deletions()?.into_iter().map(decode).collect()
}

/// Adds all live buckets of the catalog; reading a row verifies it. Rows that were not kept in memory may be read
/// again, because nothing else changes the catalog during a start. Returns the numbers of buckets that were sealed
/// beyond the positions of their indexes.
fn load_live_buckets(
    state: &mut State,
    catalog: &Catalog,
    options: &StoreOptions,
    sealed_through: &BTreeMap<String, u64>,
) -> Result<BTreeSet<u64>, StoreError> {
    let mut sealed_beyond = BTreeSet::new();
    let mut removed = load_deletions(catalog)?;
    let mut loading = Loading::new(options.rows_at_start, Cells { origins: options.rows_of_cell });
    let mut pages = catalog.read_buckets();
    while let Some(page) = pages.next_page()? {
        for row in page.into_iter().filter(|row| row.state == BucketState::Live) {
            if row.level == 0 && row.number > sealed_through.get(&row.index).copied().unwrap_or(0) {
                sealed_beyond.insert(row.number);
            }
            let bucket = SealedBucket::new(row);
            let bucket = match removed.remove(&bucket.row.number) {
                Some(deleted) => bucket.with_deleted(deleted),
                None => bucket,
            };
            let in_motion = is_in_motion(&bucket, options.remote.is_some());
            loading.add(bucket, in_motion);
        }
    }
    let missing;
    (state.sealed, missing) = loading.into_live();
    if !missing.is_empty() {
        removed = load_deletions(catalog)?;
    }
    for (index, range) in missing {
        let read = read_range(catalog, &index, &range, &mut removed)?;
        state.sealed.load(&index, &range, read);
    }
    Ok(sealed_beyond)
}

struct Replay {
    state: State,
    slabs: BTreeMap<u64, HotSlab>,
    /// Numbers of retired buckets, and of live ones beyond the positions of their indexes.
    sealed: BTreeSet<u64>,
    sealed_through: BTreeMap<String, u64>,
    losses: Losses,
    last_lsn: u64,
    last_bucket: u64,
    sent: Vec<UnansweredPart>,
}

impl Replay {
    fn new(options: &StoreOptions, catalog: &Catalog) -> Result<Replay, StoreError> {
        let log_position = catalog.log_position()?;
        let mut state = State::default();
        (state.durable_lsn, state.committed_lsn) = (log_position, log_position);
        let sealed_through = catalog.positions()?.into_iter().collect();
        let mut sealed = load_live_buckets(&mut state, catalog, options, &sealed_through)?;
        sealed.extend(catalog.buckets(BucketState::Retired)?.into_iter().map(|row| row.number));
        let losses = Losses::new(catalog)?;
        let slabs = BTreeMap::new();
        let (last_lsn, last_bucket, sent) = (log_position, 0, Vec::new());
        Ok(Replay { state, slabs, sealed, sealed_through, losses, last_lsn, last_bucket, sent })
    }

    fn apply_record(&mut self, record: Record, segment: &mut LogSegment) {
        let Record { lsn, bucket, batch, checkpoint, sent } = record;
        self.sent.extend(sent);
        self.last_lsn = self.last_lsn.max(lsn);
        self.last_bucket = self.last_bucket.max(bucket);
        self.state.durable_lsn = self.state.durable_lsn.max(lsn);
        segment.buckets.insert(bucket);
        if let Some(checkpoint) = checkpoint {
            segment.checkpoint_lsn = lsn;
            let logged = LoggedCheckpoint { checkpoint, lsn };
            if self.losses.add_checkpoint(&logged) && lsn > self.state.committed_lsn {
                self.state.add_checkpoint(logged);
            }
        }
        let Some(index) = batch.metas.first().map(|meta| meta.index.clone()) else { return };
        let position = self.sealed_through.get(&*index).copied().unwrap_or(0);
        if batch.is_empty() || bucket <= position || self.sealed.contains(&bucket) {
            return;
        }
        let slab = self.slabs.entry(bucket).or_insert_with(|| HotSlab::new(&index, bucket));
        let mut rows = BatchRows::new(batch);
        let left = rows.remaining_rows();
        slab.append(&mut rows, left);
    }

    /// Drops from the catalog the checkpoints (read positions of files) that may hide a loss.
    fn commit_losses(&mut self, catalog: &Catalog) -> Result<(), StoreError> {
        if self.losses.has_losses() {
            self.losses.commit(catalog, self.last_lsn)?;
            self.state.drop_checkpoints_through(self.last_lsn);
        }
        Ok(())
    }

    /// The newest slab of each index accepts further events, in the first pipeline set; older slabs wait to be sealed.
    /// Older slabs must not accept events, because later events of a file must not go to a slab older than a slab with
    /// events of that file, and any file may have events in the newest slab. If a newer bucket is sealed already, no
    /// slab of the index accepts events. The log does not contain the pipeline sets of slabs, because they do not
    /// matter after a restart.
    fn into_state(self) -> State {
        let mut state = self.state;
        for (number, slab) in self.slabs {
            let key = HotKey { index: slab.index().clone(), set: 0 };
            state.close_hot(&key);
            if state.sealed.has_later(&key.index, number) {
                state.add_closed(slab.close());
            } else {
                state.hot.insert(key, slab);
            }
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_bucket_numbers_are_reported_as_damage() {
        let following = |last| following_number(last, BUCKET_NUMBER_MAX, "bucket");
        assert_eq!(following(BUCKET_NUMBER_MAX - 1).unwrap(), BUCKET_NUMBER_MAX);
        for last in [BUCKET_NUMBER_MAX, BUCKET_NUMBER_MAX + 1, u64::MAX] {
            let error = following(last).unwrap_err();
            assert!(
                error.to_string().contains(&format!("bucket {last}, but the largest possible number is")),
                "{error}"
            );
        }
    }
}
