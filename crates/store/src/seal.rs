//! Sealing: a closed slab becomes a bucket object, proven to decode to the same events, before its log may go.
//!
//! Order: `begin_seal` (the objects' names), encode, decode and compare, put both objects, `commit_seal`, then one
//! critical section that swaps the slab for the bucket, then the log. A crash anywhere repeats or skips whole steps.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use quarry_bucket::{BucketError, EncodeOptions, EncodedBucket, SlabSource, encode_verified};
use quarry_catalog::{BucketRow, BucketState, SealCommit};

use crate::StoreError;
use crate::hot::HotSegment;
use crate::sealed::SealedBucket;
use crate::state::{Progress, Shared, State};
use crate::sync::{lock, wait, wait_for};

/// How long sealing rests after a failure.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// Longest part of an object's name that comes from its index.
const FOLDER_BYTES_MAX: usize = 64;
/// Names tried for the objects of one bucket.
const NAMES_MAX: u32 = 1_000;

/// Why a slab was not sealed.
enum Failure {
    /// Trying again may help.
    Later(StoreError),
    /// Trying again gives the same.
    Never(String),
}

impl<E: Into<StoreError>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Later(error.into())
    }
}

/// What a sealer thread does until the store closes.
pub(crate) fn run(shared: &Arc<Shared>) {
    while let Some(segment) = next_slab(shared) {
        // A slab that makes the encoder fail in an unforeseen way must not take the thread with it.
        let outcome = catch_unwind(AssertUnwindSafe(|| seal(shared, &segment)));
        let outcome =
            outcome.unwrap_or_else(|_| Err(Failure::Never("the encoder panicked, please report this".into())));
        note_outcome(shared, &segment, outcome);
        keep_memory(shared, segment);
        shared.seal_done.notify_all();
    }
}

/// Keeps the memory of a sealed slab that no search looks at, while events keep coming.
fn keep_memory(shared: &Shared, segment: Arc<HotSegment>) {
    let rows = Arc::into_inner(segment).and_then(HotSegment::into_rows);
    if let Some(rows) = rows
        && !shared.state().hot.is_empty()
    {
        shared.spares.keep_slab(rows);
    }
}

/// Waits for a slab to seal, oldest first.
fn next_slab(shared: &Shared) -> Option<Arc<HotSegment>> {
    let mut state = shared.state();
    loop {
        if state.stopping {
            return None;
        }
        if let Some(slab) = state.closed.values_mut().find(|slab| slab.progress == Progress::Waiting) {
            slab.progress = Progress::Sealing;
            return Some(slab.segment.clone());
        }
        if state.closed.values().any(|slab| slab.progress == Progress::Failed) {
            state = wait_for(&shared.seal_work, state, RETRY_AFTER);
            state.retry_failed();
        } else {
            state = wait(&shared.seal_work, state);
        }
    }
}

fn note_outcome(shared: &Shared, segment: &HotSegment, outcome: Result<(), Failure>) {
    let number = segment.number();
    let (progress, failure) = match outcome {
        Ok(()) => {
            shared.state().seal_failure = None;
            shared.release_log();
            return;
        }
        Err(Failure::Later(error)) => (Progress::Failed, Some(error)),
        Err(Failure::Never(error)) => (Progress::Quarantined(error), None),
    };
    let mut state = shared.state();
    let reason = match &progress {
        Progress::Quarantined(reason) => format!("{reason}; it stays in memory and in the log"),
        _ => failure.as_ref().map(StoreError::to_string).unwrap_or_default(),
    };
    if let Some(slab) = state.closed.get_mut(&number) {
        slab.progress = progress;
    }
    state.seal_failures += 1;
    state.seal_failure = failure;
    drop(state);
    shared.tell(format!("bucket {}~{number} is not sealed: {reason}", segment.index_name()));
}

fn seal(shared: &Shared, segment: &HotSegment) -> Result<(), Failure> {
    let mut row = row_of(segment);
    choose_names(shared, &mut row)?;
    shared.catalog.begin_seal(&row)?;
    let encoded = encode_checked(segment, shared.options.zstd_level);
    let (encoded, fault) = encoded.map_err(|error| Failure::Never(error.to_string()))?;
    if let Some(fault) = fault {
        let bucket = format!("{}~{}", segment.index_name(), segment.number());
        shared.tell(format!(
            "bucket {bucket} is stored as plain text, its columns do not hold: {fault}; please report this"
        ));
    }
    shared.readers.blobs().put(&row.object, &encoded.object)?;
    shared.readers.blobs().put(&row.filter, &encoded.filter)?;
    row.state = BucketState::Live;
    row.object_bytes = encoded.object.len() as u64;
    row.filter_bytes = encoded.filter.len() as u64;
    row.created = shared.clock.now_ns();
    drop(encoded);
    commit(shared, row)?;
    Ok(())
}

/// Gives the bucket names of objects that do not exist, or those of its own failed try: an object that the catalog
/// does not know may be the only copy of something.
pub(crate) fn choose_names(shared: &Shared, row: &mut BucketRow) -> Result<(), StoreError> {
    let begun = shared.catalog.buckets(BucketState::Sealing)?;
    if let Some(own) = begun.into_iter().find(|begun| begun.number == row.number) {
        (row.object, row.filter) = (own.object, own.filter);
        return Ok(());
    }
    let blobs = shared.readers.blobs();
    let plain = row.object.clone();
    let stem = stem_of(&row.index, row.number);
    for again in 1..=NAMES_MAX {
        if !blobs.exists(&row.object)? && !blobs.exists(&row.filter)? {
            if again > 1 {
                let object = &row.object;
                shared.tell(format!("object {plain} exists although no bucket has it; it stays, {object} is new"));
            }
            return Ok(());
        }
        (row.object, row.filter) = (format!("{stem}-{again}.bucket"), format!("{stem}-{again}.filter"));
    }
    Err(StoreError::NoFreeName { object: plain })
}

/// Encodes a slab and proves that it decodes to the same events.
fn encode_checked(segment: &HotSegment, zstd_level: i32) -> Result<(EncodedBucket, Option<BucketError>), BucketError> {
    let rows = segment.rows();
    let sources = [SlabSource { events: &rows.events, index_times: Some(&rows.index_times) }];
    encode_verified(&sources, &EncodeOptions { zstd_level, ..EncodeOptions::default() })
}

/// Makes the bucket live in the catalog and in the state.
fn commit(shared: &Shared, row: BucketRow) -> Result<(), StoreError> {
    let _commit = lock(&shared.commit);
    let (sealed_through, (checkpoints, position)) = {
        let state = shared.state();
        (state.sealed_through(&row), state.pending_checkpoints())
    };
    let act = SealCommit { bucket: &row, sealed_through, checkpoints: &checkpoints, log_position: position };
    shared.catalog.commit_seal(&act)?;
    let mut state = shared.state();
    state.checkpoints_are_committed(position);
    swap(&mut state, row);
    Ok(())
}

fn swap(state: &mut State, row: BucketRow) {
    state.closed.remove(&row.number);
    state.sealed.insert(row.number, Arc::new(SealedBucket::new(row)));
}

fn row_of(segment: &HotSegment) -> BucketRow {
    let (index, number) = (segment.index_name(), segment.number());
    let (time_min, time_max) = segment.times();
    let stem = stem_of(index, number);
    BucketRow {
        number,
        index: index.to_string(),
        state: BucketState::Sealing,
        object: format!("{stem}.bucket"),
        filter: format!("{stem}.filter"),
        slabs: 1,
        time_min,
        time_max,
        events: segment.events(),
        raw_bytes: segment.raw_bytes(),
        object_bytes: 0,
        filter_bytes: 0,
        created: 0,
        level: 0,
        origins: Vec::new(),
    }
}

/// Name of a bucket's objects without their kind.
pub(crate) fn stem_of(index: &str, number: u64) -> String {
    format!("{}/{number:010}", folder_of(index))
}

/// A folder name every blob store takes; the bucket number keeps objects apart, the folder only helps people.
fn folder_of(index: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    index.bytes().take(FOLDER_BYTES_MAX).map(|byte| if plain(byte) { char::from(byte) } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;
    use crate::state::HotKey;
    use crate::tests::{all, append, expected, open, small, texts};

    #[test]
    fn every_index_has_a_folder_name() {
        for (index, folder) in [("main", "main"), ("_internal", "_internal"), ("../x", "___x"), ("a b", "a_b")] {
            assert_eq!(folder_of(index), folder);
        }
        assert_eq!(folder_of(&"x".repeat(300)).len(), FOLDER_BYTES_MAX);
    }

    #[test]
    fn a_slab_that_cannot_be_sealed_stays_searchable_and_is_named() {
        let dir = tempdir().unwrap();
        let options = small(dir.path());
        let store = open(&options);
        append(&store, "main", 0, 3);
        let segment = {
            let mut state = store.shared.state();
            state.close_hot(&HotKey { index: "main".into(), set: 0 });
            let slab = state.closed.get_mut(&1).unwrap();
            slab.progress = Progress::Sealing;
            slab.segment.clone()
        };
        note_outcome(&store.shared, &segment, Err(Failure::Never("it differs".into())));
        append(&store, "main", 3, 3);
        let error = store.seal_all().unwrap_err();
        assert!(matches!(&error, StoreError::Corrupt { bucket, .. } if bucket == "main~1"), "{error}");
        assert_eq!(texts(&all(&store)), expected("main", 0..6));
        let bad: Vec<String> = store.verify().into_iter().filter(|it| it.result.is_err()).map(|it| it.bucket).collect();
        assert_eq!(bad, ["main~1"]);
        assert!(store.messages()[0].text.contains("it differs"));
        drop(store);
        let store = open(&options);
        store.seal_all().unwrap();
        assert_eq!(texts(&all(&store)), expected("main", 0..6));
    }
}
