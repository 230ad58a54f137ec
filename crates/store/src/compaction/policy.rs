//! Merge policy: chooses the buckets to merge.
//!
//! Only neighbours are merged: buckets of one index with nothing between them in the order of arrival, so that the
//! merged bucket can replace them. In the background, only buckets of the same level are merged, and only if there are
//! enough of them. An event is therefore rewritten a logarithmic number of times, rather than once for every later
//! bucket.
//!
//! A store may have a million buckets, and the policy runs after every seal, under the lock that appends wait for. It
//! therefore examines only positions where buckets have changed.
//!
//! If there is nothing to merge, buckets with deleted events are rewritten: in the background only those with many
//! deleted events, on request all. Last, and only on request, buckets that were never merged are proposed for a rewrite
//! that stores search-time fields or saves space ([`choose_alone`]).

use std::cell::Cell;
use std::sync::Arc;

use quarry_event::time::NS_PER_SEC;

use crate::merge_positions::{Examined, IndexPositions, MergePositions};
use crate::options::{CompactionOptions, MERGE_COUNT_MAX, MergeOptions};
use crate::sealed_buckets::SealedBucket;
use crate::state::State;

/// Maximum number of buckets examined at a time, because appends wait meanwhile. It is a multiple of the largest merge,
/// so that every examination makes progress.
const EXAMINED_MAX: usize = 16 * MERGE_COUNT_MAX;

/// Minimum number of inputs of a merge, whatever its options.
const INPUTS_MIN: usize = 2;

/// A bucket is rewritten in the background if at least one in this many of its events is deleted.
const REWRITE_DIVISOR: u64 = 4;

/// Initiator of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// The background thread: only worthwhile merges.
    Background,
    /// A user: every merge that fits the limits.
    Explicit,
}

/// The next buckets to merge, in order of arrival, or one bucket to rewrite; none if there is nothing to do. Examines
/// only positions where buckets were added, removed or changed since the last examination, and at most `EXAMINED_MAX`
/// buckets. [`has_unexamined`] shows whether positions remain.
pub(crate) fn choose(
    state: &mut State,
    is_whole: &dyn Fn(&SealedBucket) -> bool,
    options: &CompactionOptions,
    request: Request,
) -> Vec<Arc<SealedBucket>> {
    let mut unexamined = std::mem::take(unexamined_by(state, request));
    let left = Cell::new(EXAMINED_MAX);
    let found = unexamined.find(|index, places| {
        if request == Request::Background && !options.merge_options(index).background {
            return Examined::Nothing;
        }
        Examination { state, is_whole, options, request, index, left: &left }.merge(places)
    });
    *unexamined_by(state, request) = unexamined;
    found.unwrap_or_else(|| choose_rewrite(state, is_whole, options, request).into_iter().collect())
}

/// Whether positions are left to be examined.
pub(crate) fn has_unexamined(state: &State, request: Request) -> bool {
    match request {
        Request::Background => !state.sealed.unexamined.is_empty(),
        Request::Explicit => !state.sealed.unrequested.is_empty(),
    }
}

fn unexamined_by(state: &mut State, request: Request) -> &mut MergePositions {
    match request {
        Request::Background => &mut state.sealed.unexamined,
        Request::Explicit => &mut state.sealed.unrequested,
    }
}

/// The search for a merge in one index.
struct Examination<'a> {
    state: &'a State,
    is_whole: &'a dyn Fn(&SealedBucket) -> bool,
    options: &'a CompactionOptions,
    request: Request,
    index: &'a str,
    /// Number of buckets that may still be examined before a pause.
    left: &'a Cell<usize>,
}

impl<'a> Examination<'a> {
    /// The first merge at an unexamined position. A change affects only merges that include the changed position. Such
    /// merges begin before the position by at most the maximum number of inputs. Groups may begin at other buckets than
    /// in an examination of the whole index, so the merges found may differ.
    fn merge(&self, places: &mut IndexPositions) -> Examined<Vec<Arc<SealedBucket>>> {
        // A merge that was found earlier but not carried out is found again.
        let due = places.take_due().map(|due| (due, self.merge_from(due, due, places)));
        if let Some((due, MergeChoice::Merge(inputs))) = due {
            places.set_due(due);
            return Examined::Found(inputs);
        }
        let mut next = places.next(0);
        while let Some((place, through)) = next {
            match self.merge_from(self.examination_start(place), through, places) {
                MergeChoice::Merge(inputs) => {
                    places.set_due(inputs.first().map_or(place, |bucket| bucket.first_origin()));
                    return Examined::Found(inputs);
                }
                MergeChoice::Nothing => return Examined::Nothing,
                MergeChoice::NothingBefore(far) => next = Some(far),
                MergeChoice::Paused(at) => {
                    places.mark_examined_before(at.max(place));
                    return Examined::Paused;
                }
            }
        }
        Examined::Nothing
    }

    /// Position at which the examination of `place` begins.
    fn examination_start(&self, place: u64) -> u64 {
        let most = self.options.merge_options(self.index).max_merge_count.clamp(INPUTS_MIN, MERGE_COUNT_MAX);
        self.state.sealed.place_before(self.index, place, most)
    }

    /// Examines the buckets from `begin` on, up to the end of the group at `through` and of the groups at nearby
    /// unexamined positions after it. Positions farther away are left for another call.
    fn merge_from(&self, begin: u64, mut through: u64, places: &IndexPositions) -> MergeChoice {
        let unsealed: Vec<u64> = self.state.unsealed_of(self.index).collect();
        let new_group = || Group::new(self.options, self.options.merge_options(self.index), self.request);
        let mut group = new_group();
        // Thawed buckets are not merged: they stay in their folder.
        let buckets =
            self.state.sealed.arrived_between(self.index, begin, u64::MAX).filter(|bucket| !bucket.row.thawed);
        for bucket in buckets {
            let (last, next) = (group.last_origin(), bucket.first_origin());
            match self.left.get().checked_sub(1) {
                Some(left) => self.left.set(left),
                None => return MergeChoice::Paused(next),
            }
            // Rows that are not in memory are read when something needs them; merges of their buckets wait until then.
            let is_neighbour = !unsealed.iter().any(|number| last < *number && *number < next)
                && !self.state.sealed.has_unloaded_between(self.index, last, next);
            let is_whole = (self.is_whole)(bucket);
            if !(is_neighbour && is_whole && group.accepts(bucket)) {
                if group.is_due() {
                    return MergeChoice::Merge(group.inputs);
                }
                group = new_group();
                if next > through {
                    match places.next(through + 1) {
                        None => return MergeChoice::Nothing,
                        Some(far) if self.examination_start(far.0) > next => return MergeChoice::NothingBefore(far),
                        Some((_, later)) => through = later,
                    }
                }
            }
            if is_whole {
                group.add(bucket);
            }
        }
        if group.is_due() { MergeChoice::Merge(group.inputs) } else { MergeChoice::Nothing }
    }
}

/// Result of examining the buckets of an index from a position on.
enum MergeChoice {
    /// Buckets to be merged.
    Merge(Vec<Arc<SealedBucket>>),
    /// No merge in the rest of the index.
    Nothing,
    /// No merge before this range of unexamined positions.
    NothingBefore((u64, u64)),
    /// No merge so far; the examination stopped before the bucket at this position.
    Paused(u64),
}

/// A bucket worth rewriting without its deleted events. Thawed buckets stay unchanged.
fn choose_rewrite(
    state: &State,
    is_whole: &dyn Fn(&SealedBucket) -> bool,
    options: &CompactionOptions,
    request: Request,
) -> Option<Arc<SealedBucket>> {
    let is_worth_it = |bucket: &SealedBucket| match request {
        Request::Background => {
            bucket.deleted_events().saturating_mul(REWRITE_DIVISOR) >= bucket.row.events
                && options.merge_options(&bucket.row.index).background
        }
        Request::Explicit => true,
    };
    let rewritable = |bucket: &SealedBucket| !bucket.row.thawed && is_worth_it(bucket) && is_whole(bucket);
    state.sealed.with_deletions().find(|bucket| rewritable(bucket)).cloned()
}

/// The next bucket that was never merged or rewritten, which a request may rewrite. Every call returns the same bucket
/// until it is rewritten or noted in [`State::not_better`]. Examines at most `EXAMINED_MAX` buckets; [`has_unasked`]
/// shows whether there are more.
pub(crate) fn choose_alone(
    state: &mut State,
    is_whole: &dyn Fn(&SealedBucket) -> bool,
    options: &CompactionOptions,
) -> Option<Arc<SealedBucket>> {
    let is_candidate = |bucket: &SealedBucket| {
        let row = &bucket.row;
        row.level == 0
            && !row.thawed
            && !state.not_better.contains(&row.number)
            && bucket.deleted_events() < row.events
            && row.stored_bytes() <= options.max_merge_stored_bytes
            && is_whole(bucket)
    };
    let mut found = None;
    let mut unasked = u64::MAX;
    for (at, bucket) in state.sealed.numbered_from(state.sealed.unasked).enumerate() {
        let is_found = is_candidate(bucket);
        if is_found || at == EXAMINED_MAX {
            unasked = bucket.row.number;
            found = is_found.then(|| Arc::clone(bucket));
            break;
        }
    }
    state.sealed.unasked = unasked;
    found
}

/// Whether buckets are left for [`choose_alone`].
pub(crate) fn has_unasked(state: &State) -> bool {
    state.sealed.unasked < u64::MAX
}

/// Buckets to be merged into one.
#[derive(Debug)]
struct Group<'a> {
    options: &'a CompactionOptions,
    merge: &'a MergeOptions,
    request: Request,
    inputs: Vec<Arc<SealedBucket>>,
    events: u64,
    raw_bytes: u64,
    stored_bytes: u64,
    /// Smallest and largest `_time`.
    times: (i64, i64),
    /// Longest time span of an input.
    widest: i64,
}

impl<'a> Group<'a> {
    fn new(options: &'a CompactionOptions, merge: &'a MergeOptions, request: Request) -> Group<'a> {
        let times = (i64::MAX, i64::MIN);
        Group {
            options,
            merge,
            request,
            inputs: Vec::new(),
            events: 0,
            raw_bytes: 0,
            stored_bytes: 0,
            times,
            widest: 0,
        }
    }

    /// Whether `bucket` may join this merge.
    fn accepts(&self, bucket: &SealedBucket) -> bool {
        let Some(last) = self.inputs.last() else { return true };
        let row = &bucket.row;
        let (first, end) = (self.times.0.min(row.time_min), self.times.1.max(row.time_max));
        let limit = i64::try_from(self.merge.max_merge_time_span_secs).unwrap_or(i64::MAX);
        // The events of an input whose time span exceeds the limit are kept that long even without a merge.
        let widest = self.widest.max(span(row.time_min, row.time_max)).max(limit.saturating_mul(NS_PER_SEC));
        (self.request == Request::Explicit || last.row.level == row.level)
            && self.inputs.len() < self.merge.max_merge_count.clamp(INPUTS_MIN, MERGE_COUNT_MAX)
            && self.events.saturating_add(row.events) <= self.options.max_merge_events
            && self.raw_bytes.saturating_add(row.raw_bytes) <= self.merge.max_merge_raw_bytes
            && self.stored_bytes.saturating_add(row.stored_bytes())
                <= self.options.max_merge_stored_bytes.min(self.merge.max_merge_stored_bytes)
            && span(first, end) <= widest
    }

    fn add(&mut self, bucket: &Arc<SealedBucket>) {
        let row = &bucket.row;
        self.events = self.events.saturating_add(row.events);
        self.raw_bytes = self.raw_bytes.saturating_add(row.raw_bytes);
        self.stored_bytes = self.stored_bytes.saturating_add(row.stored_bytes());
        self.times = (self.times.0.min(row.time_min), self.times.1.max(row.time_max));
        self.widest = self.widest.max(span(row.time_min, row.time_max));
        self.inputs.push(bucket.clone());
    }

    /// Whether the merge is worthwhile.
    fn is_due(&self) -> bool {
        match self.request {
            Request::Background => {
                self.inputs.len() >= self.merge.min_merge_count.max(INPUTS_MIN)
                    && self.raw_bytes >= self.merge.min_merge_raw_bytes
            }
            Request::Explicit => self.inputs.len() >= INPUTS_MIN,
        }
    }

    fn last_origin(&self) -> u64 {
        self.inputs.last().map_or(0, |bucket| bucket.origin_of(bucket.row.events))
    }
}

fn span(first: i64, last: i64) -> i64 {
    last.saturating_sub(first)
}

#[cfg(test)]
mod tests {
    use quarry_catalog::{BucketRow, BucketState, Origin};

    use super::*;

    const MOST_STORED: u64 = 30_000;
    const DAY: i64 = 86_400 * NS_PER_SEC;

    fn row(number: u64, raw_bytes: u64) -> BucketRow {
        BucketRow {
            number,
            index: "main".into(),
            state: BucketState::Live,
            object: String::new(),
            filter: String::new(),
            slabs: 1,
            time_min: 0,
            time_max: 10,
            events: 5,
            raw_bytes,
            object_bytes: 1,
            filter_bytes: 1,
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

    fn chosen(rows: impl IntoIterator<Item = BucketRow>, request: Request) -> Vec<u64> {
        chosen_but(rows, request, &[])
    }

    fn chosen_but(rows: impl IntoIterator<Item = BucketRow>, request: Request, bad: &[u64]) -> Vec<u64> {
        let merge = MergeOptions { max_merge_raw_bytes: 100, ..MergeOptions::default() };
        chosen_with(rows, request, bad, &CompactionOptions { merge, ..CompactionOptions::default() })
    }

    fn chosen_with(
        rows: impl IntoIterator<Item = BucketRow>,
        request: Request,
        bad: &[u64],
        options: &CompactionOptions,
    ) -> Vec<u64> {
        let mut state = State::default();
        rows.into_iter().for_each(|row| drop(state.add_sealed(SealedBucket::new(row))));
        let options = CompactionOptions { max_merge_stored_bytes: MOST_STORED, ..options.clone() };
        let is_whole = |bucket: &SealedBucket| !bad.contains(&bucket.row.number);
        choose(&mut state, &is_whole, &options, request).iter().map(|bucket| bucket.row.number).collect()
    }

    #[test]
    fn each_index_uses_its_own_merge_options() {
        use Request::{Background, Explicit};
        let of = |index: &str, numbers: std::ops::RangeInclusive<u64>| -> Vec<BucketRow> {
            numbers.map(|number| BucketRow { index: index.into(), ..row(number, 10) }).collect()
        };
        let chosen = |merge: MergeOptions, request: Request| {
            // The other index has too few buckets for a background merge.
            let rows = [of("own", 1..=9), of("which", 11..=13)].concat();
            let merge_of = [("own".to_owned(), merge)].into();
            let options = CompactionOptions { merge_of, ..CompactionOptions::default() };
            chosen_with(rows, request, &[], &options).len()
        };
        let defaults = MergeOptions::default();
        let stored = row(1, 10).stored_bytes();
        for (merge, background, explicit) in [
            (defaults, 9, 9),
            (MergeOptions { background: false, ..defaults }, 0, 9),
            (MergeOptions { min_merge_count: 10, ..defaults }, 0, 9),
            (MergeOptions { min_merge_count: 2, max_merge_count: 3, ..defaults }, 3, 3),
            (MergeOptions { min_merge_count: 0, max_merge_count: 0, ..defaults }, 2, 2),
            (MergeOptions { min_merge_raw_bytes: 90, ..defaults }, 9, 9),
            (MergeOptions { min_merge_raw_bytes: 91, ..defaults }, 0, 9),
            (MergeOptions { max_merge_raw_bytes: 65, ..defaults }, 6, 6),
            (MergeOptions { max_merge_stored_bytes: 5 * stored, ..defaults }, 5, 5),
            // The other index has something to merge on request.
            (MergeOptions { max_merge_stored_bytes: stored, ..defaults }, 0, 3),
            (MergeOptions { min_merge_raw_bytes: 65, max_merge_raw_bytes: 65, ..defaults }, 0, 6),
        ] {
            assert_eq!(chosen(merge, Background), background, "{merge:?}");
            assert_eq!(chosen(merge, Explicit), explicit, "{merge:?}");
        }
    }

    #[test]
    fn neighbours_merge_up_to_the_target_size() {
        use Request::{Background, Explicit};
        assert_eq!(chosen((1..=3).map(|number| row(number, 10)), Background), [0_u64; 0]);
        assert_eq!(chosen((1..=3).map(|number| row(number, 10)), Explicit), [1, 2, 3]);
        assert_eq!(chosen((1..=5).map(|number| row(number, 10)), Background), [1, 2, 3, 4, 5]);
        assert_eq!(chosen((1..=9).map(|number| row(number, 20)), Background), [1, 2, 3, 4, 5]);
        assert_eq!(chosen((1..=9).map(|number| row(number, 51)), Explicit), [0_u64; 0]);
        assert_eq!(chosen([row(1, 90), row(2, 20), row(3, 20)], Explicit), [2, 3]);
        assert_eq!(chosen((1..=4).map(|number| BucketRow { events: 1 << 40, ..row(number, 1) }), Explicit), [0_u64; 0]);
        let heavy = (1..=9).map(|number| BucketRow { object_bytes: MOST_STORED / 3, ..row(number, 1) });
        assert_eq!(chosen(heavy, Explicit), [1, 2]);
        assert_eq!(chosen((1..=2_000).map(|number| row(number, 0)), Background).len(), MERGE_COUNT_MAX);
    }

    #[test]
    fn indexes_are_not_mixed() {
        let rows = (1..=8).map(|number| BucketRow { index: format!("index{}", number % 2), ..row(number, 1) });
        assert_eq!(chosen(rows, Request::Background), [2, 4, 6, 8]);
    }

    #[test]
    fn unmergeable_buckets_separate_their_neighbours() {
        let rows = || (1..=7).map(|number| row(number, 1));
        assert_eq!(chosen_but(rows(), Request::Background, &[3]), [4, 5, 6, 7]);
        assert_eq!(chosen_but(rows(), Request::Background, &[4]), [0_u64; 0]);
        assert_eq!(chosen_but(rows(), Request::Explicit, &[3]), [1, 2]);
    }

    #[test]
    fn buckets_are_not_merged_across_rows_in_the_catalog() {
        let mut state = State::default();
        let rows = [4_094, 4_095, 4_096, 4_099, 8_192, 8_193].map(|number| SealedBucket::new(row(number, 1)));
        rows.into_iter().for_each(|bucket| drop(state.add_sealed(bucket)));
        let choose = |state: &mut State| {
            let chosen = choose(state, &|_| true, &CompactionOptions::default(), Request::Explicit);
            chosen.iter().map(|bucket| bucket.row.number).collect::<Vec<u64>>()
        };
        assert_eq!(state.sealed.unload(&"main".into(), &(4_096..=8_191), |_| true).len(), 2);
        assert_eq!(choose(&mut state), [4_094, 4_095]);
        let (index, range) = state.sealed.find_unloaded(|_, _| true).unwrap();
        let read = [4_096, 4_099].map(|number| SealedBucket::new(row(number, 1)));
        state.sealed.load(&index, &range, read.into());
        assert_eq!(choose(&mut state), [4_094, 4_095, 4_096, 4_099, 8_192, 8_193]);
    }

    #[test]
    fn merges_respect_the_maximum_time_span() {
        let at = |number: u64, first: i64, last: i64| BucketRow {
            time_min: first * DAY,
            time_max: last * DAY,
            ..row(number, 1)
        };
        let explicit = |rows: Vec<BucketRow>| chosen(rows, Request::Explicit);
        assert_eq!(explicit(vec![at(1, 0, 1), at(2, 50, 90)]), [1, 2]);
        assert_eq!(explicit(vec![at(1, 0, 1), at(2, 50, 91), at(3, 90, 92)]), [2, 3]);
        assert_eq!(explicit(vec![at(1, 0, 400), at(2, 50, 91)]), [1, 2], "one of them is as wide");
        assert_eq!(explicit(vec![at(1, 0, 400), at(2, 300, 401)]), [0_u64; 0]);
    }

    #[test]
    fn background_merges_do_not_mix_size_levels() {
        let rows = |levels: &[u32]| -> Vec<BucketRow> {
            levels.iter().zip(1..).map(|(level, number)| BucketRow { level: *level, ..row(number, 1) }).collect()
        };
        assert_eq!(chosen(rows(&[1, 1, 1, 0, 0, 0]), Request::Background), [0_u64; 0]);
        assert_eq!(chosen(rows(&[1, 1, 1, 0, 0, 0]), Request::Explicit), [1, 2, 3, 4, 5, 6]);
        assert_eq!(chosen(rows(&[1, 0, 0, 0, 0]), Request::Background), [2, 3, 4, 5]);
        assert_eq!(chosen(rows(&[1, 1, 1, 1, 0]), Request::Background), [1, 2, 3, 4]);
    }

    #[test]
    fn neighbours_are_determined_by_arrival_order_not_bucket_number() {
        let compacted = |number: u64, origin: u64| BucketRow {
            level: 1,
            origins: vec![Origin { first_row: 0, number: origin }],
            ..row(number, 1)
        };
        let rows = vec![row(4, 1), row(9, 1), compacted(20, 6), compacted(21, 2)];
        assert_eq!(chosen(rows, Request::Explicit), [21, 4, 20, 9]);
    }

    /// Sizes that look random.
    fn sizes() -> impl Iterator<Item = u64> {
        (1_u64..).map(|number| 1 + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 30)
    }

    /// Replaces buckets as a merge does.
    fn merge(state: &mut State, inputs: &[Arc<SealedBucket>], number: u64) {
        let origins =
            inputs.iter().zip(0..).map(|(bucket, at)| Origin { first_row: 5 * at, number: bucket.first_origin() });
        let merged = BucketRow {
            level: inputs[0].row.level + 1,
            origins: origins.collect(),
            events: inputs.iter().map(|bucket| bucket.row.events).sum(),
            ..row(number, inputs.iter().map(|bucket| bucket.row.raw_bytes).sum())
        };
        state.add_sealed(SealedBucket::new(merged));
        inputs.iter().for_each(|bucket| state.sealed.remove(bucket.row.number));
    }

    #[test]
    fn skipped_places_contain_no_possible_merge() {
        let merge_options = MergeOptions { max_merge_raw_bytes: 400, ..MergeOptions::default() };
        let options = CompactionOptions { merge: merge_options, ..CompactionOptions::default() };
        let numbers = |inputs: &[Arc<SealedBucket>]| inputs.iter().map(|bucket| bucket.row.number).collect::<Vec<_>>();
        for request in [Request::Background, Request::Explicit] {
            let (mut state, mut number, mut merges) = (State::default(), 0, 0);
            for raw_bytes in sizes().take(300) {
                number += 1;
                state.add_sealed(SealedBucket::new(row(number, raw_bytes)));
                loop {
                    let chosen = choose(&mut state, &|_| true, &options, request);
                    let mut anew = State::default();
                    for bucket in state.sealed.values() {
                        let row = BucketRow {
                            level: bucket.row.level,
                            events: bucket.row.events,
                            origins: if bucket.row.level > 0 { bucket.origins.to_vec() } else { Vec::new() },
                            ..row(bucket.row.number, bucket.row.raw_bytes)
                        };
                        anew.add_sealed(SealedBucket::new(row));
                    }
                    assert_eq!(numbers(&chosen), numbers(&choose(&mut anew, &|_| true, &options, request)));
                    if chosen.is_empty() {
                        break;
                    }
                    number += 1;
                    merges += 1;
                    merge(&mut state, &chosen, number);
                }
            }
            assert!(merges > 20, "{request:?}: {merges}");
        }
    }

    #[test]
    fn each_change_causes_few_reexaminations() {
        let merge_options = MergeOptions { max_merge_count: 10, max_merge_raw_bytes: 60, ..MergeOptions::default() };
        let options = CompactionOptions { merge: merge_options, ..CompactionOptions::default() };
        let looked = std::cell::Cell::new(0);
        let is_whole = |_: &SealedBucket| {
            looked.set(looked.get() + 1);
            true
        };
        let mut state = State::default();
        (1..=3_000).for_each(|number| drop(state.add_sealed(SealedBucket::new(row(number, 20)))));
        let choose = |state: &mut State| {
            looked.set(0);
            (choose(state, &is_whole, &options, Request::Background).len(), looked.get())
        };
        assert_eq!(choose(&mut state), (0, 3_000));
        assert_eq!(choose(&mut state), (0, 0), "nothing has changed");
        state.add_sealed(SealedBucket::new(row(3_001, 20)));
        let (merged, few) = choose(&mut state);
        assert!(merged == 0 && few <= 11, "{few}");
        // Two positions far from each other, where buckets are removed without a merge.
        [1_000, 2_000, 2_001].into_iter().for_each(|number| state.sealed.remove(number));
        state.add_sealed(SealedBucket::new(row(3_002, 20)));
        let (merged, few) = choose(&mut state);
        assert!(merged == 0 && few <= 50, "{few}");
        // Small buckets in place of large ones are merged.
        for number in 500..506 {
            state.sealed.remove(number);
            state.add_sealed(SealedBucket::new(row(number, 5)));
        }
        let (merged, few) = choose(&mut state);
        assert!(merged >= 4 && few <= 30, "{merged} of {few}");
        assert_eq!(choose(&mut state).0, merged, "it stays due until it is merged");
    }

    #[test]
    fn many_buckets_are_examined_in_several_passes() {
        let options = CompactionOptions {
            merge: MergeOptions { max_merge_raw_bytes: 60, ..MergeOptions::default() },
            ..CompactionOptions::default()
        };
        let looked = Cell::new(0);
        let is_whole = |_: &SealedBucket| {
            looked.set(looked.get() + 1);
            true
        };
        let many = 3 * EXAMINED_MAX as u64;
        let mut state = State::default();
        for number in 1..=many {
            // The last four can be merged.
            state.add_sealed(SealedBucket::new(row(number, if number > many - 4 { 1 } else { 40 })));
        }
        for request in [Request::Background, Request::Explicit] {
            let mut goes = 0;
            let merged = loop {
                looked.set(0);
                let chosen = choose(&mut state, &is_whole, &options, request);
                assert!(looked.get() <= EXAMINED_MAX);
                goes += 1;
                if !chosen.is_empty() {
                    break chosen;
                }
                assert!(has_unexamined(&state, request) && goes < 10);
            };
            assert!(merged.len() >= 4 && goes > 3, "{} in {goes}", merged.len());
            assert!(has_unexamined(&state, request), "the merge is not done");
        }
    }
}
