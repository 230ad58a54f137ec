//! Sealing: a closed slab is written as a bucket object and verified before its log may be deleted.
//!
//! Order: `begin_seals` (records the objects' names), encode, decode and compare, put the objects, `commit_seals`,
//! then one critical section that replaces slabs by buckets, then the deletion of log segments that are no longer
//! needed. After a crash, only whole steps are repeated or skipped. Small slabs are sealed together, because
//! otherwise thousands of indexes with one event each would need as many waits for the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::hot_slabs::{HotSegment, SpareMemory};
use crate::object_names::object_stem;
use crate::sealed_buckets::SealedBucket;
use crate::state::{Progress, Shared, State};
use crate::sync::{lock, wait, wait_for};
use crate::{StoreError, StoreOptions};
use quarry_bucket::{BucketError, EncodeOptions, EncodedBucket, SlabSource, encode_verified};
use quarry_catalog::{BucketRow, BucketState, SealCommit, Sealed};
use quarry_stdx::number::usize_of;

/// Longest pause after a failure; another slab to seal ends it.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// Maximum number of small slabs sealed together.
const GROUP_SLABS_MAX: usize = 256;
/// Maximum total text of slabs sealed together, in bytes.
const GROUP_BYTES_MAX: usize = 8 << 20;
/// Maximum number of names tried for the objects of one bucket.
const NAME_ATTEMPTS_MAX: u32 = 1_000;

/// Reason why a slab was not sealed.
enum Failure {
    /// A retry may succeed.
    Transient(StoreError),
    /// A retry would fail the same way.
    Permanent(String),
}

impl<E: Into<StoreError>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Transient(error.into())
    }
}

/// A sealer thread.
pub(crate) fn run(shared: &Arc<Shared>) {
    while let Some(slabs) = next_slabs(shared) {
        let outcomes = seal_group(shared, &slabs);
        let (sealed, failed): (Vec<_>, Vec<_>) = slabs.into_iter().zip(outcomes).partition(|(_, done)| done.is_ok());
        if !sealed.is_empty() {
            shared.release_log();
        }
        // Failures are noted last, so that a success does not clear the reason of a failure before waiters see it.
        for (segment, outcome) in sealed.into_iter().chain(failed) {
            note_outcome(shared, &segment, outcome);
            keep_memory(shared, segment);
        }
        shared.seal_done.notify_all();
    }
}

/// Keeps the memory of a sealed slab for reuse, if no search uses it and events keep arriving.
fn keep_memory(shared: &Shared, segment: Arc<HotSegment>) {
    let Some(rows) = Arc::into_inner(segment).and_then(HotSegment::into_rows) else { return };
    if !SpareMemory::is_worth_keeping(&rows) {
        return;
    }
    let others = {
        let state = shared.state();
        if state.hot.is_empty() {
            return;
        }
        state.large_slabs(&shared.options)
    };
    // Slabs that wait to be sealed, and slabs that other pipeline sets fill, reduce the number of slabs whose memory
    // may be kept.
    let options = &shared.options;
    let most = (options.unsealed_limit() + 1).saturating_sub(others + options.pipeline_sets.saturating_sub(1));
    shared.spares.keep_slab(rows, most);
}

/// Waits for slabs to seal. Returns the oldest slab, or several small slabs that share a commit; `None` when the store
/// stops.
fn next_slabs(shared: &Shared) -> Option<Vec<Arc<HotSegment>>> {
    let mut state = shared.state();
    loop {
        if state.stopping {
            return None;
        }
        let slabs = take_waiting(&mut state, &shared.options);
        if !slabs.is_empty() {
            return Some(slabs);
        }
        if state.closed.values().any(|slab| slab.progress == Progress::Failed) {
            state = wait_for(&shared.seal_work, state, RETRY_AFTER);
            state.retry_failed();
        } else {
            state = wait(&shared.seal_work, state);
        }
    }
}

fn take_waiting(state: &mut State, options: &StoreOptions) -> Vec<Arc<HotSegment>> {
    let mut slabs: Vec<Arc<HotSegment>> = Vec::new();
    let mut left = GROUP_BYTES_MAX;
    for slab in state.closed.values_mut().filter(|slab| slab.progress == Progress::Waiting) {
        let raw_bytes = usize_of(slab.segment.raw_bytes());
        let is_small = options.is_small(usize_of(slab.segment.events()), raw_bytes);
        let joins = is_small && raw_bytes <= left;
        if !(slabs.is_empty() || joins) {
            break;
        }
        slab.progress = Progress::Sealing;
        slabs.push(slab.segment.clone());
        left = left.saturating_sub(raw_bytes);
        if !is_small || slabs.len() == GROUP_SLABS_MAX {
            break;
        }
    }
    assert!(slabs.len() <= GROUP_SLABS_MAX, "one commit has a bounded number of slabs");
    slabs
}

fn note_outcome(shared: &Shared, segment: &HotSegment, outcome: Result<(), Failure>) {
    let number = segment.number();
    let (progress, failure) = match outcome {
        Ok(()) => {
            shared.state().seal_failure = None;
            return;
        }
        Err(Failure::Transient(error)) => (Progress::Failed, Some(error)),
        Err(Failure::Permanent(error)) => (Progress::Quarantined(error), None),
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
    shared.report_message(format!("bucket {}~{number} is not sealed: {reason}", segment.index_name()));
}

/// Seals slabs; returns the results in order. The failure of one slab does not affect the others.
fn seal_group(shared: &Shared, slabs: &[Arc<HotSegment>]) -> Vec<Result<(), Failure>> {
    let rows = match begin(shared, slabs) {
        Ok(rows) => rows,
        Err(error) => return slabs.iter().map(|_| Err(Failure::Transient(error.clone()))).collect(),
    };
    let mut outcomes: Vec<Result<(), Failure>> = Vec::with_capacity(slabs.len());
    let (mut encoded, mut stored) = (Vec::with_capacity(slabs.len()), Vec::new());
    for (segment, row) in slabs.iter().zip(rows) {
        if row.state == BucketState::Live {
            stored.push((outcomes.len(), row));
            outcomes.push(Ok(()));
            continue;
        }
        // A panic of the encoder must not end the thread.
        let outcome = catch_unwind(AssertUnwindSafe(|| encode(shared, segment)));
        let outcome =
            outcome.unwrap_or_else(|_| Err(Failure::Permanent("the encoder panicked, please report this".into())));
        outcomes.push(outcome.map(|objects| encoded.push((outcomes.len(), row, objects))));
    }
    assert_eq!(outcomes.len(), slabs.len(), "every slab has an outcome");
    stored.extend(put(shared, encoded, &mut outcomes));
    let (places, rows): (Vec<usize>, Vec<BucketRow>) = stored.into_iter().unzip();
    if let Err(error) = commit(shared, rows) {
        places.into_iter().for_each(|place| outcomes[place] = Err(Failure::Transient(error.clone())));
    }
    outcomes
}

/// Records the names of the objects to be written. The rows of buckets that an earlier attempt has sealed without
/// learning of it are live, and their objects are stored.
fn begin(shared: &Shared, slabs: &[Arc<HotSegment>]) -> Result<Vec<BucketRow>, StoreError> {
    let mut rows: Vec<BucketRow> = slabs.iter().map(|segment| row_of(segment)).collect();
    rows.iter_mut().try_for_each(|row| choose_names(shared, row))?;
    let live = shared.catalog.begin_seals(&rows)?;
    for known in live {
        rows.iter_mut().filter(|row| row.number == known.number).for_each(|row| row.clone_from(&known));
    }
    Ok(rows)
}

fn encode(shared: &Shared, segment: &HotSegment) -> Result<EncodedBucket, Failure> {
    let _sealing = shared.sealing.begin();
    let encoded = encode_checked(segment, shared.options.zstd_level);
    let (encoded, fault) = encoded.map_err(|error| Failure::Permanent(error.to_string()))?;
    if let Some(fault) = fault {
        let bucket = format!("{}~{}", segment.index_name(), segment.number());
        shared.report_message(format!(
            "bucket {bucket} is stored as plain text because its columns are wrong: {fault}; please report this"
        ));
    }
    Ok(encoded)
}

/// Puts the objects of buckets, each given with its position in `outcomes`. Returns the buckets that can be committed.
fn put(
    shared: &Shared,
    encoded: Vec<(usize, BucketRow, EncodedBucket)>,
    outcomes: &mut [Result<(), Failure>],
) -> Vec<(usize, BucketRow)> {
    let blobs = shared.readers.blobs();
    let mut all: Vec<(&str, &[u8])> = Vec::with_capacity(encoded.len() * 2);
    for (_, row, objects) in &encoded {
        all.push((&row.object, &objects.object));
        all.push((&row.filter, &objects.filter));
    }
    let together = blobs.put_all(&all);
    let mut stored = Vec::with_capacity(encoded.len());
    for (pair, (place, row, objects)) in all.chunks_exact(2).zip(&encoded) {
        // After a failure, each bucket is tried alone to find the one that failed.
        let done = match &together {
            Err(_) if encoded.len() > 1 => blobs.put_all(pair),
            outcome => outcome.clone(),
        };
        match done {
            Ok(()) => stored.push((*place, stored_row(shared, row, objects))),
            Err(error) => outcomes[*place] = Err(error.into()),
        }
    }
    stored
}

fn stored_row(shared: &Shared, row: &BucketRow, objects: &EncodedBucket) -> BucketRow {
    assert!(!objects.object.is_empty() && !objects.filter.is_empty(), "a bucket has two objects");
    BucketRow {
        state: BucketState::Live,
        object_bytes: objects.object.len() as u64,
        filter_bytes: objects.filter.len() as u64,
        created: shared.clock.now_ns(),
        ..row.clone()
    }
}

/// Chooses object names that are not in use, or those of the bucket's own failed attempt. An object that the catalog
/// does not know is never overwritten, because it may be the only copy of its events.
pub(crate) fn choose_names(shared: &Shared, row: &mut BucketRow) -> Result<(), StoreError> {
    if let Some(own) = shared.catalog.bucket(row.number)?.filter(|own| own.state != BucketState::Retired) {
        (row.object, row.filter) = (own.object, own.filter);
        return Ok(());
    }
    let blobs = shared.readers.blobs();
    let plain = row.object.clone();
    let stem = object_stem(&row.index, row.number);
    for again in 1..=NAME_ATTEMPTS_MAX {
        if !blobs.exists(&row.object)? && !blobs.exists(&row.filter)? {
            if again > 1 {
                let object = &row.object;
                shared.report_message(format!(
                    "object {plain} belongs to no bucket; it is kept, and {object} is used instead"
                ));
            }
            return Ok(());
        }
        (row.object, row.filter) = (format!("{stem}-{again}.bucket"), format!("{stem}-{again}.filter"));
    }
    Err(StoreError::NoFreeObjectName { object: plain })
}

/// Encodes a slab and verifies that it decodes to the same events.
fn encode_checked(segment: &HotSegment, zstd_level: i32) -> Result<(EncodedBucket, Option<BucketError>), BucketError> {
    let rows = segment.rows();
    let sources = [SlabSource {
        events: &rows.events,
        index_times: Some(&rows.index_times),
        extractions: &[],
        extracted_names: None,
    }];
    encode_verified(&sources, &EncodeOptions { zstd_level, ..EncodeOptions::default() })
}

/// Makes buckets live in the catalog and in the state.
fn commit(shared: &Shared, rows: Vec<BucketRow>) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let is_stored = |row: &BucketRow| row.state == BucketState::Live && row.object_bytes > 0;
    assert!(rows.iter().all(is_stored), "objects are stored before their rows");
    // The rows are read before the commit lock is taken, because other threads wait for that lock. While it is held,
    // the rows stay in memory.
    drop(shared.state_for_seal(&rows)?);
    let _commit = lock(&shared.commit);
    let mut sealing: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for row in &rows {
        sealing.entry(&row.index).or_default().insert(row.number);
    }
    let mut through: BTreeMap<&str, u64> = BTreeMap::new();
    let (checkpoints, log_position) = {
        let state = shared.state_for_seal(&rows)?;
        for (index, numbers) in &sealing {
            through.insert(index, state.sealed_through(index, numbers));
        }
        state.pending_checkpoints()
    };
    let sealed_through = |row: &BucketRow| through.get(row.index.as_str()).copied().unwrap_or(0);
    let buckets: Vec<Sealed<'_>> =
        rows.iter().map(|bucket| Sealed { bucket, sealed_through: sealed_through(bucket) }).collect();
    shared.catalog.commit_seals(&SealCommit { buckets: &buckets, checkpoints: &checkpoints, log_position })?;
    let mut state = shared.state();
    state.drop_checkpoints_through(log_position);
    state.sealed_at = Some(shared.clock.elapsed_ns());
    let numbers: Vec<u64> = rows.iter().map(|row| row.number).collect();
    for row in rows {
        state.add_sealed(SealedBucket::new(row));
    }
    drop(state);
    if shared.options.remote.is_some() {
        numbers.into_iter().for_each(|number| shared.uploads.add(number));
    }
    Ok(())
}

fn row_of(segment: &HotSegment) -> BucketRow {
    let (index, number) = (segment.index_name(), segment.number());
    let (time_min, time_max) = segment.times();
    assert!(segment.events() > 0 && time_min <= time_max, "a slab that is sealed has events");
    let stem = object_stem(index, number);
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
        thawed: false,
        remote: None,
        other: None,
        stem: None,
        merged_into: None,
        origins: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;
    use crate::hot_slabs::HotKey;
    use crate::tests::compaction::objects;
    use crate::tests::{all, append, expected, open, small, texts};

    #[test]
    fn unsealable_slabs_stay_searchable_and_are_reported() {
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
        note_outcome(&store.shared, &segment, Err(Failure::Permanent("it differs".into())));
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

    #[test]
    fn a_seal_whose_commit_had_no_answer_is_not_begun_again() {
        for dies in [true, false] {
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
            let slabs = [segment];
            let row = begin(&store.shared, &slabs).unwrap().pop().unwrap();
            let Ok(encoded) = encode(&store.shared, &slabs[0]) else { panic!("not encoded") };
            let stored = put(&store.shared, vec![(0, row, encoded)], &mut [Ok(())]);
            let buckets = [Sealed { bucket: &stored[0].1, sealed_through: 1 }];
            store
                .shared
                .catalog
                .commit_seals(&SealCommit { buckets: &buckets, checkpoints: &[], log_position: 1 })
                .unwrap();
            if dies {
                assert_eq!(begin(&store.shared, &slabs).unwrap(), [stored[0].1.clone()]);
                drop(slabs);
                drop(store);
            } else {
                drop(slabs);
                store.shared.state().closed.get_mut(&1).unwrap().progress = Progress::Waiting;
                store.seal_all().unwrap();
                assert_eq!(texts(&all(&store)), expected("main", 0..3));
                assert_eq!(objects(&store), ["main/0000000001.bucket", "main/0000000001.filter"]);
                assert_eq!(store.messages(), []);
                drop(store);
            }
            let store = open(&options);
            assert_eq!(texts(&all(&store)), expected("main", 0..3), "dies: {dies}");
        }
    }
}
