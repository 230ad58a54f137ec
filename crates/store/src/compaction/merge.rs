//! The steps of one merge.
//!
//! The steps are: choose the search-time fields to be stored; read, regroup and encode, slab by slab; read again,
//! decode and compare, slab by slab; `begin_seal` (records the objects' names), store both objects,
//! `commit_compaction`, then one critical section that replaces the old buckets with the new one. A crash before the
//! commit leaves objects that the next start deletes; after the commit, the old buckets are retired, and their objects
//! are deleted like the objects of expired buckets. Memory holds one input slab and the output objects.
//! `max_merge_stored_bytes` bounds the size of the inputs; the output is rarely larger.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use quarry_bucket::{
    BucketEncoder, BucketError, BucketVerifier, EncodeOptions, EncodedBucket, ExtractionDigest, Locators, SlabSource,
};
use quarry_catalog::{BucketRow, BucketState, CompactionCommit, Origin};
use quarry_event::template::Extraction;
use quarry_event::{PageColumns, TimeNs};
use quarry_stdx::{ErrorKind, HasKind};

use crate::catalog_change::{CatalogChange, CommitEvidence};
use crate::compaction::field_storage::FieldStorage;
use crate::compaction::pace::{Pace, Stopped};
use crate::compaction::regroup::{Regroup, SlabLimits};
use crate::compaction::report::Merge;
use crate::deletion::{MergedRows, Ranks};
use crate::object_names::object_stem;
use crate::seal::choose_names;
use crate::sealed_buckets::{RemainingRows, SealedBucket, bucket_error};
use crate::state::Shared;
use crate::{Damage, StoreError, data_dir};

/// Function that adds a slab to the new bucket.
pub(crate) type AddSlab = fn(&mut BucketEncoder, &SlabSource<'_>) -> Result<(), BucketError>;

/// Minimum size of the text of a bucket that is rewritten only to become smaller; the disk space of smaller buckets is
/// negligible.
const SHRUNK_RAW_BYTES_MIN: u64 = 1 << 20;
/// A rewrite whose only purpose is a smaller bucket must save at least the bucket's size divided by this number.
const GAIN_DIVISOR: u64 = 32;

/// Purpose of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Fewer buckets, or fewer deleted events.
    FewerBuckets,
    /// A bucket is rewritten alone, if it then stores search-time fields or becomes smaller.
    BetterBucket,
}

/// Reason for which buckets were not merged. The inputs are unchanged.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The store is stopping.
    Stopped,
    /// A retry may succeed.
    Transient(StoreError),
    /// A bucket was retired, or some of its events were deleted, in the meantime.
    Changed,
    /// The bucket with this number cannot be read.
    Damaged(u64, Damage),
    /// A retry would fail the same way.
    Permanent(String),
    /// The only purpose was a [`Purpose::BetterBucket`], and the new bucket would not be better.
    NotBetter,
}

impl<E: Into<StoreError>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Transient(error.into())
    }
}

impl From<Stopped> for Failure {
    fn from(_: Stopped) -> Failure {
        Failure::Stopped
    }
}

/// Merges `inputs`, which are neighbours in the order of arrival, into one bucket.
pub(crate) fn merge(
    shared: &Shared,
    inputs: &[Arc<SealedBucket>],
    purpose: Purpose,
    pace: &mut Pace<'_>,
    add: AddSlab,
) -> Result<Merge, Failure> {
    check_free_space(shared, inputs)?;
    // This settles an earlier attempt whose commit had no answer, so that it need not be repeated.
    drop(shared.begin_commit()?);
    if !are_live(shared, inputs) {
        return Err(Failure::Changed);
    }
    let storage = fields_to_store(shared, inputs, pace)?;
    let (encoded, content) = if purpose == Purpose::BetterBucket && storage.is_empty() {
        encode_smaller(shared, inputs, pace, add)?
    } else {
        encode_with_fields(shared, inputs, &storage, pace, add)?
    };
    let left: u64 = inputs.iter().map(|bucket| bucket.row.events - bucket.deleted_events()).sum();
    assert_eq!(content.events, left, "a merged bucket has each event of its inputs that is not deleted");
    pace.step(0)?;
    let mut row = row_of(shared, inputs, &content)?;
    choose_names(shared, &mut row)?;
    shared.catalog.begin_seal(&row)?;
    let stored = put(shared, &mut row, encoded, pace);
    if stored.is_err() {
        delete_output(shared, &row);
    }
    stored?;
    commit(shared, &row, inputs)?;
    Ok(Merge {
        bucket: SealedBucket::new(row.clone()).id().to_owned(),
        inputs: inputs.iter().map(|bucket| bucket.id().to_owned()).collect(),
        events: row.events,
        bytes_before: stored_bytes(inputs),
        bytes_after: row.stored_bytes(),
    })
}

/// Encodes the bucket without search-time fields, if that makes it smaller.
fn encode_smaller(
    shared: &Shared,
    inputs: &[Arc<SealedBucket>],
    pace: &mut Pace<'_>,
    add: AddSlab,
) -> Result<(EncodedBucket, Content), Failure> {
    if inputs.iter().map(|bucket| bucket.row.raw_bytes).sum::<u64>() < SHRUNK_RAW_BYTES_MIN {
        return Err(Failure::NotBetter);
    }
    let before = stored_bytes(inputs);
    encode_checked(shared, inputs, &FieldStorage::NONE, Some(before - before / GAIN_DIVISOR), pace, add)
}

fn stored_bytes(inputs: &[Arc<SealedBucket>]) -> u64 {
    inputs.iter().map(|bucket| bucket.row.stored_bytes()).sum()
}

/// Refuses a merge whose new objects would take the space that appends need, because the old objects are deleted only
/// later.
fn check_free_space(shared: &Shared, inputs: &[Arc<SealedBucket>]) -> Result<(), Failure> {
    let path = data_dir::objects(&shared.options.dir);
    let needed = shared.options.free_bytes_min.saturating_add(stored_bytes(inputs));
    // If the free space is unknown, the merge goes ahead; the write then fails if there is too little.
    match shared.log_files.free_bytes(&shared.options.dir) {
        Ok(free) if free < needed => {
            Err(StoreError::Full { path, kept_free_bytes: shared.options.free_bytes_min }.into())
        }
        _ => Ok(()),
    }
}

/// The search-time fields that the new bucket stores; none if they cannot be found.
fn fields_to_store(
    shared: &Shared,
    inputs: &[Arc<SealedBucket>],
    pace: &mut Pace<'_>,
) -> Result<FieldStorage, Failure> {
    let mut storage = FieldStorage::new(shared.extraction.current());
    let readers = Arc::new(shared.readers.without_caches());
    for bucket in inputs {
        match run_uninterruptible(shared, || storage.add_fields_of(&readers, bucket)) {
            Ok(()) => {}
            Err(Failure::Permanent(reason)) => {
                let id = bucket.id();
                shared.report_message(format!("no search-time fields are stored with the events of {id}: {reason}"));
                return Ok(FieldStorage::NONE);
            }
            Err(other) => return Err(other),
        }
        pace.step(0)?;
    }
    Ok(storage)
}

/// Encodes the merged bucket with these search-time fields, or without fields if that fails: fields must not prevent a
/// merge.
fn encode_with_fields(
    shared: &Shared,
    inputs: &[Arc<SealedBucket>],
    storage: &FieldStorage,
    pace: &mut Pace<'_>,
    add: AddSlab,
) -> Result<(EncodedBucket, Content), Failure> {
    if storage.is_empty() {
        return encode_checked(shared, inputs, storage, None, pace, add);
    }
    let fault = match catch_unwind(AssertUnwindSafe(|| encode_checked(shared, inputs, storage, None, pace, add))) {
        Ok(Err(Failure::Permanent(fault))) => fault,
        Ok(outcome) => return outcome,
        Err(_) => {
            shared.state().compaction_encodes = false;
            "the encoder panicked".to_owned()
        }
    };
    let outcome = encode_checked(shared, inputs, &FieldStorage::NONE, None, pace, add)?;
    shared.report_message(format!("buckets are merged without search-time fields: {fault}; please report this"));
    Ok(outcome)
}

/// Content of a merged bucket.
#[derive(Debug, Default)]
struct Content {
    slabs: u32,
    events: u64,
    raw_bytes: u64,
    /// Smallest and largest `_time`; `None` without events.
    times: Option<(TimeNs, TimeNs)>,
}

impl Content {
    fn add(&mut self, slab: &SlabSource<'_>) {
        self.slabs += 1;
        self.events += slab.events.len() as u64;
        self.raw_bytes += slab.events.raw.len() as u64;
        for time in &slab.events.time {
            let (first, last) = self.times.unwrap_or((*time, *time));
            self.times = Some((first.min(*time), last.max(*time)));
        }
    }
}

/// Passes the live events of the inputs to `visit`, in the slabs of the output.
fn for_each_slab(
    shared: &Shared,
    inputs: &[Arc<SealedBucket>],
    pace: &mut Pace<'_>,
    visit: &mut dyn FnMut(&SlabSource<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut regroup = Regroup::new(SlabLimits::SEAL_LIMITS);
    for bucket in inputs {
        let failed = |error| unreadable(bucket, &error);
        // The merge bypasses the caches, so that it does not evict what searches need.
        let open = shared.readers.open_uncached(bucket).map_err(failed)?;
        let (mut events, mut raw_bytes) = (0, 0);
        let pages = open.infos.iter().map(Vec::len).sum::<usize>().max(1) as u64;
        for (slab, infos) in open.infos.iter().enumerate() {
            let live = bucket.deleted.as_ref().and_then(|deleted| RemainingRows::new(deleted, infos));
            let left = live.as_ref().map_or(infos, |live| &live.infos);
            let slab_events = left.iter().map(|page| u64::from(page.events)).sum();
            regroup.start_slab(slab_events, left.iter().map(|page| page.raw_bytes).sum());
            for at in 0..infos.len() {
                let page = open.reader.read_page(slab, at, PageColumns::ALL).map_err(failed)?;
                events += page.len() as u64;
                raw_bytes += page.raw.len() as u64;
                regroup.add(&match &live {
                    Some(live) => live.remove_deleted(at, page),
                    None => page,
                });
                pace.step(bucket.row.object_bytes / pages)?;
                regroup.take_closed().iter().try_for_each(|slab| visit(&slab.source()))?;
            }
            regroup.end_slab();
        }
        if (events, raw_bytes) != (bucket.row.events, bucket.row.raw_bytes) {
            let reason = format!("it has {events} events, but the catalog says {}", bucket.row.events);
            return Err(Failure::Damaged(bucket.row.number, Damage::corrupt(bucket.id(), reason)));
        }
    }
    regroup.into_slabs().iter().try_for_each(|slab| visit(&slab.source()))
}

/// The failure to read an input: transient if its storage fails.
fn unreadable(bucket: &SealedBucket, error: &BucketError) -> Failure {
    let is_transient = matches!(error, BucketError::Read(read) if read.kind() == ErrorKind::Unavailable);
    let failure = bucket_error(bucket.id(), error);
    match is_transient {
        true => Failure::Transient(failure),
        false => Failure::Damaged(bucket.row.number, Damage::of_error(bucket.id(), failure)),
    }
}

/// The slab with the fields that were extracted from its events.
fn with_extraction<'a>(slab: &SlabSource<'a>, extraction: &'a Extraction) -> SlabSource<'a> {
    SlabSource { extractions: &extraction.fields, extracted_names: extraction.names.as_ref(), ..*slab }
}

/// Encodes the merged bucket and verifies that it decodes to the events of the inputs, which are read again. The bucket
/// has no locators if they would make it larger than its inputs or than `most` bytes; if the bucket exceeds `most`
/// bytes even without locators, the merge is not worthwhile.
fn encode_checked(
    shared: &Shared,
    inputs: &[Arc<SealedBucket>],
    storage: &FieldStorage,
    most: Option<u64>,
    pace: &mut Pace<'_>,
    add: AddSlab,
) -> Result<(EncodedBucket, Content), Failure> {
    let mut proven = |templates: bool| {
        let locators = Locators::IncludedWithin(most.unwrap_or_else(|| stored_bytes(inputs)));
        let options = EncodeOptions { zstd_level: shared.options.compaction.zstd_level, templates, locators };
        let mut encoder = run_uninterruptible(shared, || BucketEncoder::new(&options))?;
        let (mut content, mut digests) = (Content::default(), Vec::new());
        for_each_slab(shared, inputs, pace, &mut |slab| {
            content.add(slab);
            let extraction = run_uninterruptible(shared, || storage.extract(slab.events))?;
            let slab = with_extraction(slab, &extraction);
            digests.push(ExtractionDigest::of(&slab));
            run_uninterruptible(shared, || add(&mut encoder, &slab))
        })?;
        let encoded = run_uninterruptible(shared, || encoder.finish())?;
        let bytes = (encoded.object.len() + encoded.filter.len()) as u64;
        if most.is_some_and(|most| bytes > most) {
            return Err(Failure::NotBetter);
        }
        let mut verifier = run_uninterruptible(shared, || BucketVerifier::new(&encoded))?;
        // Extracting the fields again would take as long as the rest of the merge.
        let mut digests = digests.into_iter();
        for_each_slab(shared, inputs, pace, &mut |slab| {
            // If there are more slabs than before, the verifier fails.
            let digest = digests.next().unwrap_or_default();
            run_uninterruptible(shared, || verifier.verify_next_slab_by_digest(slab, &digest))
        })?;
        run_uninterruptible(shared, || verifier.finish())?;
        Ok((encoded, content))
    };
    match proven(true) {
        // An error in the template splitter must not prevent the merge, so the events are encoded as plain text.
        Err(Failure::Permanent(fault)) if storage.is_empty() => {
            let plain = proven(false)?;
            shared.report_message(format!(
                "buckets are merged as plain text because their columns are wrong: {fault}; please report this"
            ));
            Ok(plain)
        }
        outcome => outcome,
    }
}

/// Runs work that cannot be interrupted. A stopping store does not wait for this work: while `compaction_encodes` is
/// set, the merge changes nothing, and it fails as soon as the work ends.
fn run_uninterruptible<T, E: Display>(shared: &Shared, work: impl FnOnce() -> Result<T, E>) -> Result<T, Failure> {
    let encodes = |encodes: bool| {
        let mut state = shared.state();
        state.compaction_encodes = encodes;
        if state.stopping { Err(Failure::Stopped) } else { Ok(()) }
    };
    encodes(true)?;
    let done = work();
    encodes(false)?;
    done.map_err(|error| Failure::Permanent(error.to_string()))
}

fn row_of(shared: &Shared, inputs: &[Arc<SealedBucket>], content: &Content) -> Result<BucketRow, Failure> {
    let rows = || inputs.iter().map(|bucket| &bucket.row);
    let (Some(first), Some((time_min, time_max))) = (rows().next(), content.times) else {
        return Err(Failure::Permanent("nothing to merge".to_owned()));
    };
    let level = rows().map(|row| row.level).max().unwrap_or(0);
    let number = shared.state().take_number();
    let stem = object_stem(&first.index, number);
    Ok(BucketRow {
        number,
        index: first.index.to_string(),
        state: BucketState::Sealing,
        object: format!("{stem}.bucket"),
        filter: format!("{stem}.filter"),
        slabs: content.slabs,
        time_min,
        time_max,
        events: content.events,
        raw_bytes: content.raw_bytes,
        object_bytes: 0,
        filter_bytes: 0,
        created: 0,
        // A bucket that is merely rewritten has not grown.
        level: if inputs.len() == 1 { level.max(1) } else { level + 1 },
        thawed: false,
        remote: None,
        other: None,
        stem: None,
        merged_into: None,
        origins: origins_of(inputs),
    })
}

/// Origins of the events of `inputs`, concatenated. Origins with consecutive numbers share one entry, because no other
/// bucket can come between them.
fn origins_of(inputs: &[Arc<SealedBucket>]) -> Vec<Origin> {
    let mut origins: Vec<Origin> = Vec::new();
    let (mut first_row, mut last) = (0, None);
    for bucket in inputs {
        let deleted = bucket.deleted.as_ref().map(|deleted| Ranks::new(deleted));
        for origin in bucket.origins.iter() {
            if last.is_none_or(|last: u64| last + 1 != origin.number) {
                let gone = deleted.as_ref().map_or(0, |deleted| deleted.before(origin.first_row));
                let origin = Origin { first_row: first_row + origin.first_row - gone, number: origin.number };
                // The previous origin has no events left.
                origins.pop_if(|before| before.first_row == origin.first_row);
                origins.push(origin);
            }
            last = Some(origin.number);
        }
        first_row += bucket.row.events - bucket.deleted_events();
    }
    assert!(origins.is_sorted_by_key(|origin| origin.first_row), "origins are in the order of their rows");
    origins
}

/// Stores both objects of the new bucket and sets their sizes in `row`.
fn put(shared: &Shared, row: &mut BucketRow, encoded: EncodedBucket, pace: &mut Pace<'_>) -> Result<(), Failure> {
    let blobs = shared.readers.blobs();
    for (name, bytes) in [(&row.object, &encoded.object), (&row.filter, &encoded.filter)] {
        blobs.put(name, bytes)?;
        pace.step(bytes.len() as u64)?;
    }
    row.object_bytes = encoded.object.len() as u64;
    row.filter_bytes = encoded.filter.len() as u64;
    row.created = shared.clock.now_ns();
    Ok(())
}

/// Whether all these buckets are live and unchanged.
fn are_live(shared: &Shared, buckets: &[Arc<SealedBucket>]) -> bool {
    let state = shared.state();
    buckets.iter().all(|bucket| state.sealed.get(bucket.row.number).is_some_and(|live| Arc::ptr_eq(live, bucket)))
}

/// Replaces the inputs with the new bucket, in the catalog and in the state.
fn commit(shared: &Shared, row: &BucketRow, inputs: &[Arc<SealedBucket>]) -> Result<(), Failure> {
    let mut turn = shared.begin_commit()?;
    if !are_live(shared, inputs) {
        delete_output(shared, row);
        return Err(Failure::Changed);
    }
    let live = BucketRow { state: BucketState::Live, ..row.clone() };
    let numbers: Vec<u64> = inputs.iter().map(|bucket| bucket.row.number).collect();
    let change = {
        let (live, inputs, output) = (live.clone(), inputs.to_vec(), row.clone());
        // After an error it is unknown whether the transaction was committed: the objects stay until that is known.
        CatalogChange::new(CommitEvidence::Live(row.number), move |shared: &Shared| publish(shared, &live, &inputs))
            .with_undo(move |shared| delete_output(shared, &output))
    };
    let commit = CompactionCommit { bucket: &live, inputs: &numbers };
    if !turn.commit(change, |catalog| catalog.commit_compaction(&commit))? {
        delete_output(shared, row);
        return Err(Failure::Permanent("not all of them are live in the catalog".to_owned()));
    }
    Ok(())
}

/// Replaces the inputs with the new bucket in the state.
fn publish(shared: &Shared, row: &BucketRow, inputs: &[Arc<SealedBucket>]) {
    let mut state = shared.state();
    let to = match state.sealed.get(row.number) {
        Some(known) => Arc::clone(known),
        None => state.add_sealed(SealedBucket::new(row.clone())),
    };
    if shared.options.remote.is_some() {
        shared.uploads.add(row.number);
    }
    let mut first_row = 0;
    for bucket in inputs {
        let moved = MergedRows { to: Arc::clone(to.hold()), first_row, dropped: bucket.deleted.clone() };
        first_row += bucket.row.events - bucket.deleted_events();
        if state.sealed.contains(bucket.row.number) {
            assert!(bucket.hold().moved.get().is_none(), "a bucket is merged once");
            bucket.hold().moved.get_or_init(|| moved);
            state.sealed.remove(bucket.row.number);
            state.retired.push(bucket.clone());
        }
    }
}

/// Deletes the objects of a failed merge; leftovers are deleted at the next start.
fn delete_output(shared: &Shared, row: &BucketRow) {
    let deleted = shared.readers.blobs().delete_all(&[&row.object, &row.filter]);
    let forgotten = deleted.map_err(StoreError::from).and_then(|()| Ok(shared.catalog.remove_bucket(row.number)?));
    if let Err(error) = forgotten {
        shared.report_message(format!(
            "objects of unfinished bucket {} remain until the next start: {error}",
            row.number
        ));
    }
}
