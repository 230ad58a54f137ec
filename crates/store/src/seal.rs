//! Sealing: a frozen slab is encoded, verified and written as the objects of a bucket. Only then may its log be
//! deleted.
//!
//! The steps are: `begin_seals` (records the objects' names), encode, decode and compare, store the objects,
//! `commit_seals`, then one critical section that replaces slabs with buckets, then the deletion of log segments that
//! are no longer needed. After a crash, only whole steps are repeated or skipped. Small slabs are sealed together,
//! because otherwise thousands of indexes with one event each would need as many waits for the disk.
//!
//! Before a failed attempt is repeated, the catalog shows whether its commit took effect ([`crate::commit_turn`]),
//! because the objects of a live bucket are never replaced. A panic of the encoder quarantines its slab, which stays in
//! memory and in the log. Any other panic counts as transient: it is reported, the slabs are retried, and meanwhile
//! appends are refused once memory is full.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::catalog_change::{CatalogChange, CommitEvidence};
use crate::hot_slabs::{HotSegment, SpareMemory};
use crate::object_names::object_stem;
use crate::sealed_buckets::SealedBucket;
use crate::state::{Progress, Shared, State};
use crate::sync::{wait, wait_for};
use crate::{StoreError, StoreOptions};
use quarry_bucket::{BucketError, EncodeOptions, EncodedBucket, SlabSource, encode_verified};
use quarry_catalog::{BucketRow, BucketState, SealCommit, Sealed};
use quarry_stdx::number::usize_of;

/// Longest pause after a failure; another slab to seal ends it.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// Maximum number of small slabs sealed together; further ones are sealed later.
const GROUP_SLABS_MAX: usize = 256;
/// Maximum total text of slabs sealed together, in bytes; further slabs are sealed later.
const GROUP_BYTES_MAX: usize = 8 << 20;
/// Maximum number of names tried for the objects of one bucket; then the seal fails.
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
    loop {
        let mut taken: Vec<u64> = Vec::new();
        // A thread that ended would leave its slabs in memory and in the log forever.
        let round = catch_unwind(AssertUnwindSafe(|| {
            let slabs = next_slabs(shared)?;
            taken.extend(slabs.iter().map(|segment| segment.number()));
            seal_and_note(shared, slabs);
            Some(())
        }));
        match round {
            Ok(Some(())) => {}
            Ok(None) => return,
            Err(_) => note_panic(shared, &taken),
        }
        shared.seal_done.notify_all();
    }
}

fn seal_and_note(shared: &Shared, slabs: Vec<Arc<HotSegment>>) {
    let outcomes = seal_group(shared, &slabs);
    let (sealed, failed): (Vec<_>, Vec<_>) = slabs.into_iter().zip(outcomes).partition(|(_, done)| done.is_ok());
    if !sealed.is_empty() {
        shared.release_log();
    }
    // Failures are noted last, so that a success does not clear the reason of a failure before waiters see it.
    for (segment, outcome) in sealed.into_iter().chain(failed) {
        note_outcome(shared, segment.number(), outcome);
        keep_memory(shared, segment);
    }
}

/// Marks slabs as failed if a panic has left it unknown whether they were sealed, so that they are retried.
fn note_panic(shared: &Shared, taken: &[u64]) {
    let is_open =
        |number: &&u64| shared.state().closed.get(*number).is_some_and(|slab| slab.progress == Progress::Sealing);
    let open: Vec<u64> = taken.iter().filter(is_open).copied().collect();
    for number in &open {
        note_outcome(shared, *number, Err(Failure::Transient(StoreError::SealPanicked)));
    }
    if open.is_empty() {
        shared.report_message(format!("a sealing thread continues after a panic: {}", StoreError::SealPanicked));
        let state = shared.state();
        if !state.stopping {
            drop(wait_for(&shared.seal_work, state, RETRY_AFTER));
        }
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

/// Waits until slabs are to be sealed. Returns the oldest slab, or several small slabs that share a commit; `None` when
/// the store stops.
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

fn note_outcome(shared: &Shared, number: u64, outcome: Result<(), Failure>) {
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
    // Without a slab, the seal succeeded after all: another thread has found its commit in the catalog.
    let Some(slab) = state.closed.get_mut(&number) else { return };
    slab.progress = progress;
    let bucket = format!("{}~{number}", slab.segment.index_name());
    state.seal_failures += 1;
    state.seal_failure = failure;
    drop(state);
    shared.report_message(format!("bucket {bucket} is not sealed: {reason}"));
}

/// Seals slabs; returns the results in order. The failure of one slab does not affect the others.
fn seal_group(shared: &Shared, slabs: &[Arc<HotSegment>]) -> Vec<Result<(), Failure>> {
    let rows = match begin(shared, slabs) {
        Ok(rows) => rows,
        Err(error) => return slabs.iter().map(|_| Err(Failure::Transient(error.clone()))).collect(),
    };
    let mut outcomes: Vec<Result<(), Failure>> = Vec::with_capacity(slabs.len());
    let mut encoded = Vec::with_capacity(slabs.len());
    for (segment, row) in slabs.iter().zip(rows) {
        let Some(row) = row else {
            outcomes.push(Ok(()));
            continue;
        };
        // A panic of the encoder must not end the thread.
        let outcome = catch_unwind(AssertUnwindSafe(|| encode(shared, segment)));
        let outcome =
            outcome.unwrap_or_else(|_| Err(Failure::Permanent("the encoder panicked, please report this".into())));
        outcomes.push(outcome.map(|objects| encoded.push((outcomes.len(), row, objects))));
    }
    assert_eq!(outcomes.len(), slabs.len(), "every slab has an outcome");
    let stored = put(shared, encoded, &mut outcomes);
    let (places, rows): (Vec<usize>, Vec<BucketRow>) = stored.into_iter().unzip();
    if let Err(error) = commit(shared, rows) {
        places.into_iter().for_each(|place| outcomes[place] = Err(Failure::Transient(error.clone())));
    }
    outcomes
}

/// Records the names of the objects to be written. A slab that an earlier attempt has already sealed gets `None`.
fn begin(shared: &Shared, slabs: &[Arc<HotSegment>]) -> Result<Vec<Option<BucketRow>>, StoreError> {
    // This settles an earlier attempt whose commit had no answer.
    drop(shared.begin_commit()?);
    let mut rows: Vec<BucketRow> = {
        let state = shared.state();
        let unsealed = slabs.iter().filter(|segment| state.closed.contains_key(&segment.number()));
        unsealed.map(|segment| row_of(segment)).collect()
    };
    rows.iter_mut().try_for_each(|row| choose_names(shared, row))?;
    if !rows.is_empty() {
        shared.catalog.begin_seals(&rows)?;
    }
    let mut rows: BTreeMap<u64, BucketRow> = rows.into_iter().map(|row| (row.number, row)).collect();
    Ok(slabs.iter().map(|segment| rows.remove(&segment.number())).collect())
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

/// Writes the objects of buckets, each given with its position in `outcomes`. Returns the buckets that can be
/// committed.
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
    if let Some(own) = shared.catalog.unfinished_seal(row.number)? {
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
    // Rows of earlier buckets that this commit needs (`state_for_seal`) are loaded before the commit lock is taken,
    // because other threads wait for that lock. While it is held, they stay in memory.
    drop(shared.state_for_seal(&rows)?);
    let mut turn = shared.begin_commit()?;
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
    let commit = SealCommit { buckets: &buckets, checkpoints: &checkpoints, log_position };
    let sealed = rows.clone();
    let Some(first) = rows.first().map(|row| row.number) else { return Ok(()) };
    let change =
        CatalogChange::new(CommitEvidence::Live(first), move |shared: &Shared| publish(shared, &sealed, log_position));
    turn.commit(change, |catalog| catalog.commit_seals(&commit).map(|()| true)).map(drop)
}

/// Replaces slabs with the live buckets they were sealed into.
fn publish(shared: &Shared, rows: &[BucketRow], log_position: u64) {
    let mut state = shared.state();
    state.drop_checkpoints_through(log_position);
    state.sealed_at = Some(shared.clock.elapsed_ns());
    for row in rows {
        if !state.sealed.contains(row.number) {
            state.add_sealed(SealedBucket::new(row.clone()));
        }
    }
    drop(state);
    if shared.options.remote.is_some() {
        rows.iter().for_each(|row| shared.uploads.add(row.number));
    }
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
        note_outcome(&store.shared, segment.number(), Err(Failure::Permanent("it differs".into())));
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
