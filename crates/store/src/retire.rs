//! Buckets that go: those whose events are too old or too many, and those that were merged into another one.
//!
//! A retired bucket is in no later snapshot. Its objects stay for as long as a search holds it. Where an index archives,
//! a bucket is given away first, and goes only when that worked.
//!
//! A clock that is ahead makes everything look old, so the time of day is not simply believed ([`crate::day_clock`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, TryLockError};

use quarry_event::TimeNs;
use quarry_event::time::NS_PER_SEC;
use quarry_stdx::Fault;

use crate::day_clock::{BELIEVED, FAR_NS};
use crate::emptying::SETTING as EMPTYING;
use crate::sealed::SealedBucket;
use crate::state::Shared;
use crate::sync::lock;
use crate::{Store, StoreError};

/// Buckets that are archived in one round; the rest waits for the next.
const ARCHIVED_MAX: usize = 16;

/// How long and how much of an index is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionRule {
    /// Its name.
    pub index: String,
    /// Seconds after which a bucket goes, by its newest event.
    pub max_age_secs: u64,
    /// Bytes of objects above which the oldest buckets go.
    pub max_stored_bytes: Option<u64>,
    /// Whether buckets are given to an archive first.
    pub archives: bool,
    /// Seconds for which it must have been due before the last events of the index go by their age.
    pub empties_after_secs: u64,
}

/// A bucket that is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredBucket {
    /// Its id.
    pub id: String,
    /// Its number, unique in the store.
    pub number: u64,
    /// Index of its events.
    pub index: String,
    /// Smallest `_time`.
    pub time_min: TimeNs,
    /// Largest `_time`.
    pub time_max: TimeNs,
    /// Names of its objects, below the folder of objects.
    pub objects: [String; 2],
}

/// What a round of retention removed, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Older than their index keeps events.
    pub too_old: Vec<String>,
    /// The oldest of an index that was too large.
    pub too_many: Vec<String>,
}

impl Store {
    /// Retires sealed buckets whose newest event is older than their index allows, at once; gives their ids. Objects that a
    /// search still reads are deleted by a later call.
    pub fn retention(&self, ages: &[(String, u64)]) -> Result<Vec<String>, StoreError> {
        let rule = |(index, max_age_secs): &(String, u64)| RetentionRule {
            index: index.clone(),
            max_age_secs: *max_age_secs,
            max_stored_bytes: None,
            archives: false,
            empties_after_secs: 0,
        };
        let rules: Vec<RetentionRule> = ages.iter().map(rule).collect();
        Ok(self.retention_by(&rules, &|_| Ok(()))?.too_old)
    }

    /// As [`Store::retention`] by more than age. `archive` is given buckets of indexes that archive, and says why one
    /// must stay; it is asked again in a later round. Thawed buckets never go,
    /// and the newest bucket of an index never goes for its size.
    pub fn retention_by(
        &self,
        rules: &[RetentionRule],
        archive: &dyn Fn(&ExpiredBucket) -> Result<(), Fault>,
    ) -> Result<Removed, StoreError> {
        if !self.is_writable() {
            return Err(StoreError::ReadOnly);
        }
        let removed = self.shared.retire_by(rules, archive)?;
        self.shared.delete_retired();
        Ok(removed)
    }
}

/// A bucket that is to go, and why.
struct Chosen {
    bucket: Arc<SealedBucket>,
    too_old: bool,
    archives: bool,
}

impl Shared {
    fn retire_by(
        &self,
        rules: &[RetentionRule],
        archive: &dyn Fn(&ExpiredBucket) -> Result<(), Fault>,
    ) -> Result<Removed, StoreError> {
        let now = self.retention_time();
        // While a bucket is archived it must not be merged: its events would be archived once more with the merged one.
        let merging = match self.compacting.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        let mut chosen = self.expired(rules, now);
        self.hold_back(&mut chosen, rules, now);
        let mut archived = 0;
        chosen.retain(|chosen| {
            if !chosen.archives {
                return true;
            }
            archived += 1;
            merging.is_some() && archived <= ARCHIVED_MAX && self.archived(&chosen.bucket, archive)
        });
        drop(merging);
        // Under the lock: a bucket that was merged meanwhile is not here any more.
        let _commit = lock(&self.commit);
        let is_live = |chosen: &Chosen| self.state().sealed.contains_key(&chosen.bucket.row.number);
        chosen.retain(is_live);
        if chosen.is_empty() {
            return Ok(Removed::default());
        }
        let numbers: Vec<u64> = chosen.iter().map(|chosen| chosen.bucket.row.number).collect();
        let ids = |too_old: bool| {
            let of_kind = chosen.iter().filter(|chosen| chosen.too_old == too_old);
            of_kind.map(|chosen| chosen.bucket.id.to_string()).collect()
        };
        let removed = Removed { too_old: ids(true), too_many: ids(false) };
        self.catalog.retire(&numbers)?;
        let mut state = self.state();
        numbers.iter().for_each(|number| state.remove_sealed(*number));
        state.retired.extend(chosen.into_iter().map(|chosen| chosen.bucket));
        Ok(removed)
    }

    /// The time of day to go by; a clock that is ahead of it is told.
    fn retention_time(&self) -> i64 {
        let mut clock = lock(&self.day_clock);
        let (now, ahead) = clock.now(&self.clock);
        if let Some(gain) = ahead {
            let hours = gain / (60 * 60 * NS_PER_SEC);
            let then = match gain > FAR_NS {
                true => "old events are removed only as if time passed twice as fast, until it is right",
                false => "no events are removed as old by it for a day",
            };
            self.tell(format!("the clock was set forward by {hours} hours: {then}; check the time of this machine"));
        }
        if let Some(believed) = clock.take_due()
            && let Err(error) = self.catalog.set_setting(BELIEVED, &believed.to_string())
        {
            self.tell(format!("the time of the last retention is not saved: {error}"));
        }
        now
    }

    /// Buckets that are too old, and the oldest of indexes that are too large, by number.
    fn expired(&self, rules: &[RetentionRule], now: i64) -> Vec<Chosen> {
        let (mut chosen, mut too_large) = (Vec::new(), BTreeSet::new());
        let state = self.state();
        for rule in rules {
            let age = i64::try_from(rule.max_age_secs).unwrap_or(i64::MAX).saturating_mul(NS_PER_SEC);
            let limit = now.saturating_sub(age);
            let of_index = state.sealed_of(&rule.index).filter(|bucket| !bucket.row.thawed);
            let (old, mut kept): (Vec<_>, Vec<_>) = of_index.cloned().partition(|it| it.row.time_max < limit);
            let mut stored: u64 = kept.iter().map(|bucket| bucket.row.stored_bytes()).sum();
            kept.sort_by_key(|bucket| (bucket.row.time_max, bucket.row.number));
            // A limit too small for anything empties no index: the newest bucket stays.
            let newest = kept.pop().map_or(0, |bucket| bucket.row.stored_bytes());
            if rule.max_stored_bytes.is_some_and(|most| newest > most) {
                too_large.insert(rule.index.clone());
            }
            let too_many = kept.into_iter().take_while(|bucket| {
                let is_over = rule.max_stored_bytes.is_some_and(|most| stored > most);
                stored -= bucket.row.stored_bytes();
                is_over
            });
            let archives = rule.archives;
            chosen.extend(old.into_iter().map(|bucket| Chosen { bucket, too_old: true, archives }));
            chosen.extend(too_many.map(|bucket| Chosen { bucket, too_old: false, archives }));
        }
        drop(state);
        self.tell_too_large(too_large);
        chosen.sort_by_key(|chosen| chosen.bucket.row.number);
        chosen.dedup_by_key(|chosen| chosen.bucket.row.number);
        chosen
    }

    /// Takes out the buckets of indexes that would be left without any event, where that has to wait.
    fn hold_back(&self, chosen: &mut Vec<Chosen>, rules: &[RetentionRule], now: i64) {
        // Per index how many are to go, and the newest of them.
        let mut going: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
        for chosen in chosen.iter() {
            let (count, newest) = going.entry(&chosen.bucket.row.index).or_default();
            *count += 1;
            *newest = chosen.bucket.row.number.max(*newest);
        }
        let is_emptied = |index: &str, count: usize| {
            let state = self.state();
            state.unsealed_of(index).next().is_none()
                && state.sealed_of(index).filter(|bucket| !bucket.row.thawed).count() <= count
        };
        let mut held = BTreeSet::new();
        for rule in rules {
            let Some((count, newest)) = going.get(rule.index.as_str()).copied() else { continue };
            if is_emptied(&rule.index, count) && !self.may_empty(rule, newest, now) {
                held.insert(rule.index.clone());
            }
        }
        chosen.retain(|chosen| !held.contains(&chosen.bucket.row.index));
    }

    /// Gives a bucket to the archive; what fails is told, and the bucket stays. One with deleted events, which must not
    /// come to an archive, is written anew without them and goes in a later round. The caller holds `compacting`.
    fn archived(&self, bucket: &Arc<SealedBucket>, archive: &dyn Fn(&ExpiredBucket) -> Result<(), Fault>) -> bool {
        if bucket.deleted.is_some() {
            self.rewrite(bucket);
            return false;
        }
        let row = &bucket.row;
        if let Err(error) = self.bring_here(bucket) {
            self.tell(format!("bucket {} is not archived and stays: {error}", bucket.id));
            return false;
        }
        let expired = ExpiredBucket {
            id: bucket.id.to_string(),
            number: row.number,
            index: row.index.clone(),
            time_min: row.time_min,
            time_max: row.time_max,
            objects: [row.object.clone(), row.filter.clone()],
        };
        let given = archive(&expired);
        if let Err(reason) = &given {
            self.tell(format!("bucket {} is not archived and stays: {reason}", expired.id));
        }
        given.is_ok()
    }

    /// Deletes the objects of retired buckets that no search holds. What fails is told and tried again.
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
            // A bucket holds the one that it was merged into: that may be free now.
            left.extend(free.into_iter().filter(|bucket| !self.delete_objects(bucket)));
        }
        self.state().retired.extend(left);
    }

    /// Deletes the objects of a bucket; `false`, and it is told, when that failed.
    fn delete_objects(&self, bucket: &SealedBucket) -> bool {
        self.readers.forget(bucket.row.number);
        let blobs = self.readers.blobs();
        let remote = bucket.copies.remote();
        let deleted = remote.map_or(Ok(()), |copy| self.readers.remotes().delete(&bucket.row, &copy));
        let deleted = deleted.and_then(|()| blobs.delete(&bucket.row.object));
        let deleted = deleted.and_then(|()| blobs.delete(&bucket.row.filter));
        let forgotten = deleted
            .map_err(StoreError::from)
            .and_then(|()| self.catalog.forget(bucket.row.number).map_err(StoreError::from));
        if let Err(error) = &forgotten {
            self.tell(format!("objects of retired bucket {} stay: {error}", bucket.id));
        }
        forgotten.is_ok()
    }
}

impl Shared {
    /// Whether an index may be left without events; `newest` is the number of its newest bucket.
    fn may_empty(&self, rule: &RetentionRule, newest: u64, now: TimeNs) -> bool {
        let wait = i64::try_from(rule.empties_after_secs).unwrap_or(i64::MAX).saturating_mul(NS_PER_SEC);
        if wait == 0 {
            return true;
        }
        let mut emptying = lock(&self.emptying);
        let known = emptying.since.get(&rule.index).copied().or_else(|| self.saved_emptying(&rule.index));
        match known.filter(|(_, number)| *number == newest) {
            Some((since, _)) if now.saturating_sub(since) >= wait => {
                emptying.since.remove(&rule.index);
                self.tell(format!(
                    "all events of index {} were older than its frozenTimePeriodInSecs of {} for {} hours: they go",
                    rule.index,
                    rule.max_age_secs,
                    rule.empties_after_secs / 3_600
                ));
                true
            }
            Some(since) => {
                emptying.since.insert(rule.index.clone(), since);
                false
            }
            None => {
                emptying.since.insert(rule.index.clone(), (now, newest));
                self.tell(format!(
                    "all events of index {} are older than its frozenTimePeriodInSecs of {}: they stay for {} hours more, in \
                     case the setting or the clock of this machine is wrong, and go then; a higher value in indexes.conf keeps them",
                    rule.index,
                    rule.max_age_secs,
                    rule.empties_after_secs / 3_600
                ));
                if let Err(error) =
                    self.catalog.set_setting(&format!("{EMPTYING}{}", rule.index), &format!("{now} {newest}"))
                {
                    self.tell(format!(
                        "the time since which index {} is to be emptied is not saved: {error}",
                        rule.index
                    ));
                }
                false
            }
        }
    }

    fn saved_emptying(&self, index: &str) -> Option<(TimeNs, u64)> {
        let text = self.catalog.setting(&format!("{EMPTYING}{index}")).ok().flatten()?;
        let (since, newest) = text.split_once(' ')?;
        Some((since.parse().ok()?, newest.parse().ok()?))
    }

    /// Tells once of an index whose newest bucket alone is above its limit: that one stays.
    fn tell_too_large(&self, indexes: BTreeSet<String>) {
        let mut emptying = lock(&self.emptying);
        for index in indexes.difference(&emptying.too_large) {
            self.tell(format!(
                "the newest bucket of index {index} alone takes more than the index may (maxTotalDataSizeMB): it stays"
            ));
        }
        emptying.too_large = indexes;
    }
}
