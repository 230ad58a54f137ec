//! Removal of buckets that have expired by age or size, or were replaced by a merge.
//!
//! A retired bucket is in no later snapshot. Its objects stay as long as a search holds the bucket. If the index
//! archives its buckets, a bucket is archived first and removed only if that succeeded.
//!
//! A clock that is ahead would make everything look expired, so the time comes from [`crate::day_clock`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, TryLockError};

use quarry_catalog::DeletedCopies;
use quarry_event::TimeNs;
use quarry_event::time::NS_PER_SEC;
use quarry_stdx::Fault;

use crate::day_clock::{LARGE_GAIN_NS, TRUSTED_TIME_SETTING};
use crate::emptying::{Emptying, SETTING_PREFIX as EMPTYING};
use crate::index_rows::IDLE_ROUNDS;
use crate::live_buckets::{LiveBuckets, UnloadedRange};
use crate::sealed_buckets::SealedBucket;
use crate::state::Shared;
use crate::sync::lock;
use crate::{Store, StoreError};

/// Maximum number of buckets archived per round; the others wait for the next round.
const ARCHIVED_MAX: usize = 16;

/// Retention of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionRule {
    /// Name of the index.
    pub index: String,
    /// A bucket expires when its newest event has this age in seconds.
    pub max_age_secs: u64,
    /// Total bytes of objects above which the oldest buckets are removed.
    pub max_stored_bytes: Option<u64>,
    /// Total bytes of events above which the oldest buckets are removed.
    pub max_raw_bytes: Option<u64>,
    /// Whether buckets are archived before they are removed.
    pub archives: bool,
    /// Delay in seconds before the last events of the index are removed by age, and before a bucket that was too old
    /// when it was written is removed.
    pub empties_after_secs: u64,
}

impl RetentionRule {
    fn max_age_ns(&self) -> i64 {
        i64::try_from(self.max_age_secs).unwrap_or(i64::MAX).saturating_mul(NS_PER_SEC)
    }

    fn empties_after_ns(&self) -> i64 {
        i64::try_from(self.empties_after_secs).unwrap_or(i64::MAX).saturating_mul(NS_PER_SEC)
    }

    /// Whether some bucket of a range may be too old.
    fn may_expire(&self, range: &UnloadedRange, now: TimeNs) -> bool {
        range.first_end < now.saturating_sub(self.max_age_ns())
    }

    /// Whether a bucket that was already too old when it was written still stays, because it was written shortly before
    /// `now`.
    fn was_expired_on_arrival(&self, bucket: &SealedBucket, now: TimeNs) -> bool {
        let row = &bucket.row;
        row.time_max < row.created.saturating_sub(self.max_age_ns())
            && now.saturating_sub(row.created) < self.empties_after_ns()
    }
}

/// A bucket to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredBucket {
    /// Id of the bucket.
    pub id: String,
    /// Number of the bucket, unique in the store.
    pub number: u64,
    /// Index of the events.
    pub index: String,
    /// Smallest `_time`.
    pub time_min: TimeNs,
    /// Largest `_time`.
    pub time_max: TimeNs,
    /// Names of the bucket's objects, relative to the folder of objects.
    pub objects: [String; 2],
}

/// Buckets removed by a retention round, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedBuckets {
    /// Buckets that expired by age.
    pub too_old: Vec<String>,
    /// The oldest buckets of indexes that were too large.
    pub too_many: Vec<String>,
}

impl Store {
    /// Retires sealed buckets whose newest event is too old, without delays; returns their ids. Objects that a search
    /// still reads are deleted by a later call.
    pub fn retention(&self, ages: &[(String, u64)]) -> Result<Vec<String>, StoreError> {
        let rule = |(index, max_age_secs): &(String, u64)| RetentionRule {
            index: index.clone(),
            max_age_secs: *max_age_secs,
            max_stored_bytes: None,
            max_raw_bytes: None,
            archives: false,
            empties_after_secs: 0,
        };
        let rules: Vec<RetentionRule> = ages.iter().map(rule).collect();
        Ok(self.run_retention(&rules, &|_| Ok(()))?.too_old)
    }

    /// A full retention round. If the rule of an index has `archives`, `archive` is called for each of its expired
    /// buckets; after an error, the bucket stays and is retried in a later round. Thawed buckets are exempt, and the
    /// newest bucket of an index is never removed for size.
    pub fn run_retention(
        &self,
        rules: &[RetentionRule],
        archive: &dyn Fn(&ExpiredBucket) -> Result<(), Fault>,
    ) -> Result<RemovedBuckets, StoreError> {
        if !self.is_writable() {
            return Err(StoreError::ReadOnly);
        }
        let removed = self.shared.retire_with(rules, archive)?;
        self.shared.delete_retired();
        self.shared.unload_idle(IDLE_ROUNDS);
        Ok(removed)
    }
}

/// A bucket to be removed, and the reason.
struct ChosenBucket {
    bucket: Arc<SealedBucket>,
    too_old: bool,
    archives: bool,
}

impl Shared {
    fn retire_with(
        &self,
        rules: &[RetentionRule],
        archive: &dyn Fn(&ExpiredBucket) -> Result<(), Fault>,
    ) -> Result<RemovedBuckets, StoreError> {
        let now = self.retention_time();
        // No bucket is merged while it is archived, because its events would be archived again with the merged bucket.
        let merging = match self.compacting.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        let mut chosen = self.expired(rules, now)?;
        self.keep_last_buckets(&mut chosen, rules, now);
        let mut archived = 0;
        chosen.retain(|chosen| {
            if !chosen.archives {
                return true;
            }
            archived += 1;
            merging.is_some() && archived <= ARCHIVED_MAX && self.archive_bucket(&chosen.bucket, archive)
        });
        drop(merging);
        // The buckets are checked under the commit lock, because one may have been merged in the meantime.
        let mut turn = self.begin_commit()?;
        // The current version is retired, because its deleted events determine the name of the receipt that is deleted.
        chosen.retain_mut(|chosen| {
            let live = self.state().sealed.get(chosen.bucket.row.number).cloned();
            live.map(|live| chosen.bucket = live).is_some()
        });
        if chosen.is_empty() {
            return Ok(RemovedBuckets::default());
        }
        let ids = |too_old: bool| {
            let of_kind = chosen.iter().filter(|chosen| chosen.too_old == too_old);
            of_kind.map(|chosen| chosen.bucket.id().to_owned()).collect()
        };
        let removed = RemovedBuckets { too_old: ids(true), too_many: ids(false) };
        turn.retire(chosen.into_iter().map(|chosen| chosen.bucket).collect())?;
        Ok(removed)
    }

    /// The current time for retention. Reports a system clock that is ahead of this time.
    fn retention_time(&self) -> i64 {
        let mut clock = lock(&self.day_clock);
        let (now, ahead) = clock.now(&self.clock);
        if let Some(gain) = ahead {
            let hours = gain / (60 * 60 * NS_PER_SEC);
            let then = match gain > LARGE_GAIN_NS {
                true => "until it is right, events age at most twice as fast as time passes",
                false => "for a day, no events are removed because of it",
            };
            self.report_message(format!(
                "the clock was set forward by {hours} hours: {then}; check the time of this machine"
            ));
        }
        if let Some(believed) = clock.take_due()
            && let Err(error) = self.catalog.set_setting(TRUSTED_TIME_SETTING, &believed.to_string())
        {
            self.report_message(format!("cannot save the time of the last retention round: {error}"));
        }
        now
    }

    /// Buckets that are too old, and the oldest buckets of indexes that are too large, in order of number.
    fn expired(&self, rules: &[RetentionRule], now: i64) -> Result<Vec<ChosenBucket>, StoreError> {
        let (mut chosen, mut too_large) = (Vec::new(), BTreeSet::new());
        let state = loop {
            let state = self.state_with(|index, range| {
                rules.iter().any(|rule| rule.index == index && rule.may_expire(range, now))
            })?;
            // The sizes of an index's oldest buckets decide how many are removed, so their rows must be in memory.
            let Some((index, range)) = rules.iter().find_map(|rule| oldest_unloaded(rule, &state.sealed)) else {
                break state;
            };
            drop(state);
            self.load_rows(&index, &range)?;
        };
        for rule in rules {
            if choose_expired(rule, &state.sealed, now, &mut chosen) {
                too_large.insert(rule.index.clone());
            }
        }
        drop(state);
        self.report_too_large(too_large);
        chosen.sort_by_key(|chosen| chosen.bucket.row.number);
        chosen.dedup_by_key(|chosen| chosen.bucket.row.number);
        Ok(chosen)
    }

    /// Removes from `chosen` the buckets of indexes that would become empty before their delay has passed, and
    /// buckets that were too old on arrival and must wait.
    fn keep_last_buckets(&self, chosen: &mut Vec<ChosenBucket>, rules: &[RetentionRule], now: i64) {
        // For each index: how many buckets are to be removed, and the bucket number of the newest.
        let mut going: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
        for chosen in chosen.iter() {
            let (count, newest) = going.entry(&chosen.bucket.row.index).or_default();
            *count += 1;
            *newest = chosen.bucket.row.number.max(*newest);
        }
        let is_emptied = |index: &str, count: usize| {
            let state = self.state();
            let totals = state.sealed.totals_of(index);
            state.unsealed_of(index).next().is_none() && totals.buckets - totals.thawed <= count as u64
        };
        let mut held = BTreeSet::new();
        for rule in rules {
            match going.get(rule.index.as_str()).copied() {
                Some((count, newest)) if is_emptied(&rule.index, count) => {
                    if !self.may_empty(rule, newest, now) {
                        held.insert(rule.index.clone());
                    }
                }
                _ => self.end_emptying(&rule.index),
            }
        }
        chosen.retain(|chosen| !held.contains(&*chosen.bucket.row.index));
        self.keep_expired_on_arrival(chosen, rules, now);
    }

    /// Removes from `chosen` the buckets that were too old when they were written and must wait. Reports each index
    /// once.
    fn keep_expired_on_arrival(&self, chosen: &mut Vec<ChosenBucket>, rules: &[RetentionRule], now: i64) {
        let mut waiting = BTreeSet::new();
        chosen.retain(|chosen| {
            let row = &chosen.bucket.row;
            let rule = rules.iter().find(|rule| *rule.index == *row.index).filter(|_| chosen.too_old);
            let waits = rule.is_some_and(|rule| rule.was_expired_on_arrival(&chosen.bucket, now));
            if waits {
                waiting.insert(row.index.to_string());
            }
            !waits
        });
        let mut emptying = lock(&self.emptying);
        for rule in rules.iter().filter(|rule| waiting.contains(&rule.index)) {
            if !emptying.arrived_old.contains(&rule.index) {
                self.report_message(format!(
                    "events of index {} were older than its frozenTimePeriodInSecs of {} when they were added: they stay for {} hours \
                     from then; a higher value in indexes.conf keeps them",
                    rule.index,
                    rule.max_age_secs,
                    rule.empties_after_secs / 3_600
                ));
            }
        }
        emptying.arrived_old = waiting;
    }

    /// Archives a bucket; an error is reported and the bucket stays. Deleted events must not be archived, so a bucket
    /// with deleted events is rewritten without them and archived in a later round. The caller holds `compacting`.
    fn archive_bucket(
        &self,
        bucket: &Arc<SealedBucket>,
        archive: &dyn Fn(&ExpiredBucket) -> Result<(), Fault>,
    ) -> bool {
        if bucket.deleted.is_some() {
            self.rewrite(bucket);
            return false;
        }
        let row = &bucket.row;
        let _archiving = bucket.copies.begin_archiving();
        if let Err(error) = self.ensure_undamaged(bucket) {
            self.report_message(format!("bucket {} cannot be archived and is kept: {error}", bucket.id()));
            return false;
        }
        let expired = ExpiredBucket {
            id: bucket.id().to_owned(),
            number: row.number,
            index: row.index.to_string(),
            time_min: row.time_min,
            time_max: row.time_max,
            objects: [row.object().into_owned(), row.filter().into_owned()],
        };
        let given = archive(&expired);
        if let Err(reason) = &given {
            self.report_message(format!("bucket {} cannot be archived and is kept: {reason}", expired.id));
        }
        given.is_ok()
    }

    /// Deletes the objects of retired buckets that no search holds. Failures are reported and retried.
    pub(crate) fn delete_retired(&self) {
        let mut left = Vec::new();
        loop {
            let free: Vec<Arc<SealedBucket>> = {
                let mut state = self.state();
                state.retired.extract_if(.., |bucket| SealedBucket::is_free(bucket)).collect()
            };
            if free.is_empty() {
                break;
            }
            // A retired bucket holds a reference to the bucket it was merged into. That bucket may become free now.
            left.extend(free.into_iter().filter(|bucket| !self.delete_objects(bucket)));
        }
        self.state().retired.extend(left);
    }

    /// Deletes the objects of a bucket; returns `false` if some must stay or if the deletion failed. Failures are
    /// reported.
    fn delete_objects(&self, bucket: &SealedBucket) -> bool {
        self.readers.forget(bucket.row.number);
        let delete = || -> Result<bool, StoreError> {
            self.delete_local_objects(bucket)?;
            if self.is_only_remote_copy(bucket)? {
                return Ok(false);
            }
            let names = self.delete_remote_objects(bucket)?;
            let deleted = DeletedCopies { names: &names, time_ns: self.clock.now_ns() };
            self.catalog.remove_uploaded_bucket(bucket.row.number, &deleted)?;
            Ok(true)
        };
        delete().unwrap_or_else(|error| {
            self.report_message(format!("cannot delete the objects of retired bucket {}: {error}", bucket.id()));
            false
        })
    }
}

impl Shared {
    /// Deletes the local objects of a retired bucket, unless a later thawed bucket has the same ones.
    fn delete_local_objects(&self, bucket: &SealedBucket) -> Result<(), StoreError> {
        // No bucket is thawed between the check and the deletion.
        let _commit = if bucket.row.thawed { Some(self.begin_commit()?) } else { None };
        if bucket.row.thawed && self.state().sealed.has_thawed_object(&bucket.row.object()) {
            return Ok(());
        }
        Ok(self.readers.blobs().delete_all(&[&bucket.row.object(), &bucket.row.filter()])?)
    }
}

/// Bytes of an index that count towards its limits.
struct IndexSize {
    stored: u64,
    raw: u64,
}

impl IndexSize {
    /// Thawed buckets do not count.
    fn of(index: &str, live: &LiveBuckets) -> IndexSize {
        let totals = live.totals_of(index);
        IndexSize {
            stored: totals.stored_bytes.saturating_sub(totals.thawed_bytes),
            raw: totals.raw_bytes.saturating_sub(totals.thawed_raw_bytes),
        }
    }

    fn exceeds(&self, rule: &RetentionRule) -> bool {
        rule.max_stored_bytes.is_some_and(|most| self.stored > most)
            || rule.max_raw_bytes.is_some_and(|most| self.raw > most)
    }

    fn subtract(&mut self, bucket: &SealedBucket) {
        self.stored = self.stored.saturating_sub(bucket.row.stored_bytes());
        self.raw = self.raw.saturating_sub(bucket.row.raw_bytes);
    }
}

/// For an index that is too large: a range whose rows are not in memory and that may contain one of the oldest buckets.
fn oldest_unloaded(rule: &RetentionRule, live: &LiveBuckets) -> Option<(Arc<str>, UnloadedRange)> {
    let mut size = IndexSize::of(&rule.index, live);
    if !size.exceeds(rule) {
        return None;
    }
    let mut by_end = live.by_end(&rule.index).filter(|bucket| !bucket.row.thawed);
    let mut end = i64::MIN;
    while size.exceeds(rule) {
        let Some(bucket) = by_end.next() else {
            end = i64::MAX;
            break;
        };
        end = bucket.row.time_max;
        size.subtract(bucket);
    }
    let oldest = live.unloaded_of(&rule.index).min_by_key(|range| range.first_end)?;
    let oldest = *oldest;
    live.find_unloaded(|index, range| index == rule.index && *range == oldest && end >= oldest.first_end)
}

/// Chooses the buckets of an index that are too old and, while the index is too large, its oldest. Returns whether its
/// newest bucket alone is too large.
fn choose_expired(rule: &RetentionRule, live: &LiveBuckets, now: i64, chosen: &mut Vec<ChosenBucket>) -> bool {
    let limit = now.saturating_sub(rule.max_age_ns());
    let mut size = IndexSize::of(&rule.index, live);
    let mut by_end = live.by_end(&rule.index).filter(|bucket| !bucket.row.thawed).peekable();
    // Buckets whose rows are not in memory end later than the buckets to be removed.
    let has_later = live.unloaded_of(&rule.index).next().is_some();
    while let Some(bucket) = by_end.next() {
        let too_old = bucket.row.time_max < limit;
        if !too_old && !size.exceeds(rule) {
            return false;
        }
        // However small the limit, the newest bucket stays.
        if !too_old && !has_later && by_end.peek().is_none() {
            return true;
        }
        size.subtract(bucket);
        chosen.push(ChosenBucket { bucket: Arc::clone(bucket), too_old, archives: rule.archives });
    }
    false
}

impl Shared {
    /// Whether an index may become empty now; `newest` is the number of its newest bucket.
    fn may_empty(&self, rule: &RetentionRule, newest: u64, now: TimeNs) -> bool {
        let wait = rule.empties_after_ns();
        if wait == 0 {
            return true;
        }
        let mut emptying = lock(&self.emptying);
        let known = self.emptying_since(&mut emptying, &rule.index);
        match known.filter(|(_, number)| *number == newest) {
            Some((since, _)) if now.saturating_sub(since) >= wait => {
                self.report_message(format!(
                    "all events of index {} were older than its frozenTimePeriodInSecs of {} for {} hours and are now removed",
                    rule.index,
                    rule.max_age_secs,
                    rule.empties_after_secs / 3_600
                ));
                true
            }
            Some(_) => false,
            None => {
                emptying.since.insert(rule.index.clone(), (now, newest));
                self.report_message(format!(
                    "all events of index {} are older than its frozenTimePeriodInSecs of {}: they are kept for {} more hours, in \
                     case the setting or the clock of this machine is wrong, and are then removed; a higher value in indexes.conf keeps them",
                    rule.index,
                    rule.max_age_secs,
                    rule.empties_after_secs / 3_600
                ));
                if let Err(error) =
                    self.catalog.set_setting(&format!("{EMPTYING}{}", rule.index), &format!("{now} {newest}"))
                {
                    self.report_message(format!(
                        "cannot save the time from which the removal of the last events of index {} is due: {error}",
                        rule.index
                    ));
                }
                false
            }
        }
    }

    /// Notes that a retention round does not empty the index, so that the delay begins anew when one does.
    fn end_emptying(&self, index: &str) {
        let mut emptying = lock(&self.emptying);
        if self.emptying_since(&mut emptying, index).is_none() {
            return;
        }
        match self.catalog.set_setting(&format!("{EMPTYING}{index}"), "") {
            Ok(()) => drop(emptying.since.remove(index)),
            Err(error) => {
                // The next round tries again. No bucket has number 0, so the old time is not used meanwhile.
                emptying.since.insert(index.to_owned(), (TimeNs::MAX, 0));
                self.report_message(format!(
                    "cannot save that the last events of index {index} are no longer due for removal: {error}"
                ));
            }
        }
    }

    /// The time from which the emptying of an index has been due, and the number of its newest bucket at that time.
    fn emptying_since(&self, emptying: &mut Emptying, index: &str) -> Option<(TimeNs, u64)> {
        if emptying.loaded.insert(index.to_owned())
            && let Some(saved) = self.saved_emptying(index)
        {
            emptying.since.insert(index.to_owned(), saved);
        }
        emptying.since.get(index).copied()
    }

    fn saved_emptying(&self, index: &str) -> Option<(TimeNs, u64)> {
        let text = self.catalog.setting(&format!("{EMPTYING}{index}")).ok().flatten()?;
        let (since, newest) = text.split_once(' ')?;
        Some((since.parse().ok()?, newest.parse().ok()?))
    }

    /// Reports, once for each index, that its newest bucket alone exceeds the size limit and stays.
    fn report_too_large(&self, indexes: BTreeSet<String>) {
        let mut emptying = lock(&self.emptying);
        for index in indexes.difference(&emptying.too_large) {
            self.report_message(format!(
                "the newest bucket of index {index} alone exceeds the maximum size of the index (maxTotalDataSizeMB; with \
                 remotePath maxGlobalDataSizeMB and maxGlobalRawDataSizeMB); it is kept"
            ));
        }
        emptying.too_large = indexes;
    }
}
