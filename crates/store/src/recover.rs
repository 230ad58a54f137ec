//! From what is on disk to the state a store starts with.
//!
//! The catalog says which buckets are sealed; the log is replayed into hot slabs except for records of those. A bucket
//! is sealed when it is live or retired in the catalog, or when its number is not above its index's position.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quarry_blob::BlobStore;
use quarry_catalog::{BucketState, Catalog, LoggedCheckpoint};

use crate::StoreError;
use crate::disk::Disk;
use crate::hot::{BatchRows, HotSlab};
use crate::log_files::{LogSegment, keep_aside};
use crate::sealed::SealedBucket;
use crate::state::State;
use crate::wal::read::{ReadSegment, Repair, list_segments, read_segment};
use crate::wal::record::Record;
use crate::{StoreOptions, data_dir};

/// What a store starts with.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) state: State,
    pub(crate) segments: Vec<LogSegment>,
    pub(crate) next_lsn: u64,
    pub(crate) next_bucket: u64,
    /// What the operator should know.
    pub(crate) messages: Vec<String>,
}

/// Reads catalog and log. With [`Repair::Cut`], torn tails are cut first.
pub(crate) fn recover(options: &StoreOptions, catalog: &Catalog, repair: Repair) -> Result<Recovered, StoreError> {
    let mut replay = Replay::new(catalog)?;
    let mut segments = Vec::new();
    let mut messages = Vec::new();
    let paths = list_segments(&data_dir::log(&options.dir))?;
    for (at, path) in paths.iter().enumerate() {
        let mut segment = LogSegment::new(path);
        segment.closed = true;
        let newest = at + 1 == paths.len();
        let read = read_segment(path, newest, repair, &mut |record| {
            replay.record(record, &mut segment);
            Ok(())
        })?;
        let ReadSegment { bytes, damage } = read;
        segment.bytes = bytes;
        segment.damaged = damage.is_some();
        messages.extend(damage);
        if segment.damaged && bytes == 0 && repair == Repair::Cut {
            keep_aside(path).map_err(|error| StoreError::from_io("rename", path, &error))?;
        } else {
            segments.push(segment);
        }
    }
    let next_lsn = replay.last_lsn + 1;
    let next_bucket = replay.last_bucket.max(catalog.bucket_number_max()?) + 1;
    Ok(Recovered { state: replay.into_state(), segments, next_lsn, next_bucket, messages })
}

/// Deletes what a crash left of unfinished seals and deletions; gives what went wrong.
pub(crate) fn clean_up(catalog: &Catalog, blobs: &dyn BlobStore) -> Result<Vec<String>, StoreError> {
    let mut problems = Vec::new();
    for state in [BucketState::Sealing, BucketState::Retired] {
        for row in catalog.buckets(state)? {
            let deleted = blobs.delete(&row.object).and_then(|()| blobs.delete(&row.filter));
            match deleted {
                Ok(()) => catalog.forget(row.number)?,
                Err(error) => problems.push(format!("objects of bucket {} stay: {error}", row.number)),
            }
        }
    }
    Ok(problems)
}

/// Removes segments without any record, which an interrupted start of a segment leaves.
pub(crate) fn remove_empty(segments: &mut Vec<LogSegment>, disk: &dyn Disk) -> Result<(), StoreError> {
    for empty in segments.extract_if(.., |segment| segment.bytes == 0) {
        disk.remove(&empty.path).map_err(|error| StoreError::from_io("remove", &empty.path, &error))?;
    }
    Ok(())
}

struct Replay {
    state: State,
    slabs: BTreeMap<u64, HotSlab>,
    sealed: BTreeSet<u64>,
    sealed_through: BTreeMap<String, u64>,
    last_lsn: u64,
    last_bucket: u64,
}

impl Replay {
    fn new(catalog: &Catalog) -> Result<Replay, StoreError> {
        let log_position = catalog.log_position()?;
        let mut state = State { durable_lsn: log_position, committed_lsn: log_position, ..State::default() };
        let mut sealed: BTreeSet<u64> =
            catalog.buckets(BucketState::Retired)?.into_iter().map(|row| row.number).collect();
        for row in catalog.buckets(BucketState::Live)? {
            sealed.insert(row.number);
            state.sealed.insert(row.number, Arc::new(SealedBucket::new(row)));
        }
        let sealed_through = catalog.positions()?.into_iter().collect();
        Ok(Replay { state, slabs: BTreeMap::new(), sealed, sealed_through, last_lsn: log_position, last_bucket: 0 })
    }

    fn record(&mut self, record: Record, segment: &mut LogSegment) {
        let Record { lsn, bucket, batch, checkpoint } = record;
        self.last_lsn = self.last_lsn.max(lsn);
        self.last_bucket = self.last_bucket.max(bucket);
        self.state.durable_lsn = self.state.durable_lsn.max(lsn);
        segment.buckets.insert(bucket);
        if let Some(checkpoint) = checkpoint {
            segment.checkpoint_lsn = lsn;
            if lsn > self.state.committed_lsn {
                self.state.add_checkpoint(LoggedCheckpoint { checkpoint, lsn });
            }
        }
        let Some(index) = batch.metas.first().map(|meta| meta.index.clone()) else { return };
        let position = self.sealed_through.get(&*index).copied().unwrap_or(0);
        if batch.is_empty() || bucket <= position || self.sealed.contains(&bucket) {
            return;
        }
        let slab = self.slabs.entry(bucket).or_insert_with(|| HotSlab::new(&index, bucket));
        let mut rows = BatchRows::new(batch);
        let left = rows.left();
        slab.append(&mut rows, left);
    }

    /// The newest slab of each index goes on; the others wait for their seal.
    fn into_state(self) -> State {
        let mut state = self.state;
        for (_, slab) in self.slabs {
            let index = slab.index().clone();
            state.close_hot(&index);
            state.hot.insert(index, slab);
        }
        state
    }
}
