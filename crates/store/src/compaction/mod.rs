//! Compaction: small sealed buckets of one index are merged into larger ones with better compression. By default, four
//! neighbouring buckets that were never merged become one bucket of level 1, and four of these one of level 2.
//!
//! `policy` chooses the buckets, and `merge` contains the steps of one merge. The compaction thread works alongside
//! ingest, at a rate that `pace` limits. It begins a merge when no slab waits to be sealed and none was sealed
//! recently. [`Store::compact_all`] merges at once. Merges omit deleted events, and buckets with many deleted events
//! are rewritten. Merged buckets store the search-time fields that `field_storage` extracts; [`Store::compact_all`]
//! also rewrites buckets that lack such fields and cannot be merged.
//!
//! Not here: deletion of the inputs' objects (`retire`).

mod field_storage;
mod merge;
mod pace;
pub(crate) mod policy;
mod regroup;
mod report;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use quarry_bucket::BucketEncoder;
use quarry_stdx::ErrorKind;

use crate::sealed_buckets::SealedBucket;
use crate::slab_extraction::CurrentExtraction;
use crate::state::{Progress, Shared, State};
use crate::sync::{lock, wait, wait_for};
use crate::{Damage, Store, StoreError};

use self::merge::Purpose;
pub(crate) use self::merge::{AddSlab, Failure};
use self::pace::Pace;
use self::policy::Request;
pub use self::report::{CompactionReport, Merge};

/// Pause after a transient failure, such as a full disk.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// The compaction thread.
pub(crate) fn run(shared: &Shared) {
    loop {
        let must_pause = match catch_unwind(AssertUnwindSafe(|| merge_next(shared))) {
            Ok(None) => return,
            Ok(Some(outcome)) => matches!(outcome, Err(Failure::Transient(_))),
            // A thread that ended would never merge again.
            Err(_) => {
                shared.report_message("compaction panicked and will be retried; please report this".to_owned());
                true
            }
        };
        let state = shared.state();
        if must_pause && !state.stopping {
            drop(wait_for(&shared.compaction_wakeup, state, RETRY_AFTER));
        }
    }
}

/// Waits for buckets to merge, and merges them; `None` when the store closes.
fn merge_next(shared: &Shared) -> Option<Result<(), Failure>> {
    if !wait_for_work(shared) {
        return None;
    }
    let _turn = lock(&shared.compacting);
    let (inputs, purpose) = choose(shared, &mut shared.state(), Request::Background);
    if inputs.is_empty() {
        return Some(Ok(()));
    }
    let mut pace = Pace::within_budget(shared);
    Some(merge_and_report(shared, inputs, purpose, &mut pace, BucketEncoder::add_slab).map(drop))
}

/// Waits until there is something to merge, no slab waits to be sealed, and none has been sealed for a while; returns
/// `false` when the store closes.
fn wait_for_work(shared: &Shared) -> bool {
    let mut state = shared.state();
    loop {
        if state.stopping {
            return false;
        }
        if !is_due(shared, &mut state) {
            if has_unexamined(&state, Request::Background) && !is_sealing(&state) {
                state = release_briefly(shared, state);
                continue;
            }
            state = wait(&shared.seal_done, state);
            continue;
        }
        match remaining_quiet_time(shared, &state) {
            Duration::ZERO => return true,
            left => state = wait_for(&shared.seal_done, state, left),
        }
    }
}

/// Time until a merge may begin, provided that no slab is sealed before.
fn remaining_quiet_time(shared: &Shared, state: &State) -> Duration {
    let Some(sealed_at) = state.sealed_at else { return Duration::ZERO };
    let quiet = Duration::from_secs(shared.options.compaction.quiet_secs);
    let passed = shared.clock.elapsed_ns().saturating_sub(sealed_at);
    quiet.saturating_sub(Duration::from_nanos(u64::try_from(passed).unwrap_or(0)))
}

/// Whether there are buckets to merge and no slab waits to be sealed. Sealing has priority.
pub(crate) fn is_due(shared: &Shared, state: &mut State) -> bool {
    !is_sealing(state) && !choose(shared, state, Request::Background).0.is_empty()
}

/// Whether buckets are left to be examined.
fn has_unexamined(state: &State, request: Request) -> bool {
    policy::has_unexamined(state, request) || (rewrites_alone(request) && policy::has_unasked(state))
}

/// Whether buckets may be rewritten alone to store search-time fields or to become smaller. In the background they are
/// not, because a rewritten bucket is at a different level from its neighbours and would not be merged with them.
fn rewrites_alone(request: Request) -> bool {
    request == Request::Explicit
}

fn is_sealing(state: &State) -> bool {
    state.closed.values().any(|slab| !matches!(slab.progress, Progress::Quarantined(_)))
}

/// Releases the state to other threads before the examination of many buckets continues.
fn release_briefly<'a>(shared: &'a Shared, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    drop(state);
    std::thread::yield_now();
    shared.state()
}

/// The buckets to merge next, and why; none if there is nothing to do.
fn choose(shared: &Shared, state: &mut State, request: Request) -> (Vec<Arc<SealedBucket>>, Purpose) {
    let not_compacted = std::mem::take(&mut state.not_compacted);
    let is_whole = |bucket: &SealedBucket| {
        let number = bucket.row.number;
        // Buckets that are only on a remote volume are excluded: they are rarely used, and a merge would fetch them in
        // small parts.
        let is_here = bucket.copies.is_local();
        is_here && !not_compacted.contains(&number) && shared.readers.faults.get(number).is_none()
    };
    let options = &shared.options.compaction;
    let mut chosen = (policy::choose(state, &is_whole, options, request), Purpose::FewerBuckets);
    if chosen.0.is_empty() && rewrites_alone(request) && !policy::has_unexamined(state, request) {
        let alone = policy::choose_alone(state, &is_whole, options);
        chosen = (alone.into_iter().collect(), Purpose::BetterBucket);
    }
    state.not_compacted = not_compacted;
    chosen
}

/// Runs one merge and reports a failure to the operator. Damaged buckets, and the inputs of a merge that failed
/// permanently, are not merged again in the background.
pub(crate) fn merge_and_report(
    shared: &Shared,
    inputs: Vec<Arc<SealedBucket>>,
    purpose: Purpose,
    pace: &mut Pace<'_>,
    add: AddSlab,
) -> Result<Merge, Failure> {
    assert!(!inputs.is_empty(), "a merge has inputs");
    assert!(inputs.iter().all(|bucket| bucket.row.index == inputs[0].row.index), "a merge stays within one index");
    let numbers: Vec<u64> = inputs.iter().map(|bucket| bucket.row.number).collect();
    let ids: Vec<&str> = inputs.iter().map(|bucket| bucket.id()).collect();
    let names = format!("{} to {}", ids.first().unwrap_or(&""), ids.last().unwrap_or(&""));
    // A panic of the encoder must not end the thread.
    let outcome = catch_unwind(AssertUnwindSafe(|| merge::merge(shared, &inputs, purpose, pace, add)));
    let outcome =
        outcome.unwrap_or_else(|_| Err(Failure::Permanent("the encoder panicked, please report this".into())));
    shared.state().compaction_encodes = false;
    match &outcome {
        Ok(_) | Err(Failure::Stopped | Failure::Changed) => {}
        Err(Failure::NotBetter) => {
            let mut state = shared.state();
            numbers.iter().for_each(|number| state.note_not_better(*number));
        }
        Err(Failure::Transient(error)) => {
            let seconds = RETRY_AFTER.as_secs();
            shared.report_message(format!(
                "buckets {names} cannot be compacted; next attempt in {seconds} s at the earliest: {error}"
            ));
        }
        Err(Failure::Damaged(number, damage)) => {
            shared.state().not_compacted.insert(*number);
            let state = if damage.kind == ErrorKind::Corrupt { "is damaged and" } else { "cannot be read and" };
            shared.report_message(format!("bucket {} {state} is not compacted: {}", damage.bucket, damage.reason));
        }
        Err(Failure::Permanent(reason)) => {
            shared.state().not_compacted.extend(numbers);
            shared.report_message(format!("buckets {names} cannot be compacted: {reason}"));
        }
    }
    drop(inputs);
    shared.delete_retired();
    outcome
}

impl Shared {
    /// Rewrites a bucket without its deleted events; errors are reported. The caller holds `compacting`.
    pub(crate) fn rewrite(&self, bucket: &Arc<SealedBucket>) {
        if let Err(error) = self.ensure_local(bucket) {
            self.report_message(format!("bucket {} is not rewritten: {error}", bucket.id()));
            return;
        }
        let (inputs, purpose) = (vec![Arc::clone(bucket)], Purpose::FewerBuckets);
        drop(merge_and_report(self, inputs, purpose, &mut Pace::unlimited(self), BucketEncoder::add_slab));
    }
}

impl Store {
    /// Lets merged buckets store search-time fields. For each merge, `current` returns the extraction of the fields.
    /// Only the first call has an effect.
    pub fn store_extractions(&self, current: Box<CurrentExtraction>) {
        self.shared.extraction.set(current);
    }

    /// Merges neighbouring sealed buckets as far as their limits allow, regardless of minimum counts; returns when
    /// done.
    pub fn compact_all(&self) -> Result<CompactionReport, StoreError> {
        self.compact_with(BucketEncoder::add_slab)
    }

    /// Like [`Store::compact_all`] with another slab encoder, for tests.
    pub(crate) fn compact_with(&self, add: AddSlab) -> Result<CompactionReport, StoreError> {
        if !self.is_writable() {
            return Err(StoreError::ReadOnly);
        }
        let shared = &self.shared;
        let _waiting = CompactionWaiter::new(shared);
        let _turn = lock(&shared.compacting);
        shared.state_with_all()?.compact_again();
        let mut report = CompactionReport::begin(&shared.state());
        loop {
            let (inputs, purpose) = {
                let mut state = shared.state();
                if state.stopping {
                    return Err(StoreError::Closed);
                }
                let chosen = choose(shared, &mut state, Request::Explicit);
                if chosen.0.is_empty() && has_unexamined(&state, Request::Explicit) {
                    drop(release_briefly(shared, state));
                    continue;
                }
                chosen
            };
            if inputs.is_empty() {
                report.end(&shared.state());
                return Ok(report);
            }
            match merge_and_report(shared, inputs, purpose, &mut Pace::unlimited(shared), add) {
                Ok(merge) => report.merges.push(merge),
                Err(Failure::Stopped) => return Err(StoreError::Closed),
                Err(Failure::Changed | Failure::NotBetter) => {}
                Err(Failure::Transient(error)) => return Err(error),
                Err(Failure::Damaged(_, damage)) => report.skipped.push(damage),
                Err(Failure::Permanent(reason)) => report.skipped.push(Damage::corrupt("", reason)),
            }
        }
    }
}

/// While this value exists, a caller waits for the compaction, which therefore does not rest.
pub(crate) struct CompactionWaiter<'a>(&'a Shared);

impl CompactionWaiter<'_> {
    pub(crate) fn new(shared: &Shared) -> CompactionWaiter<'_> {
        shared.state().compaction_requests += 1;
        shared.compaction_wakeup.notify_all();
        CompactionWaiter(shared)
    }
}

impl Drop for CompactionWaiter<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        debug_assert!(state.compaction_requests > 0, "the caller was counted");
        state.compaction_requests -= 1;
    }
}
