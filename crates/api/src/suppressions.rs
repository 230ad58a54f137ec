//! Saved searches whose alerts are suppressed by a request, each until a time.
//!
//! They are kept in memory only. Not here: suppression after an alert (`alert.suppress`).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use quarry_event::TimeNs;
use quarry_event::time::NS_PER_SEC;

/// Maximum suppressed searches; a new one replaces the one that would end first.
const SUPPRESSIONS_MAX: usize = 10_000;

/// A saved search: owner, app, name.
pub(crate) type SavedSearchKey = (String, String, String);

/// The times until which searches are suppressed.
#[derive(Debug, Default)]
pub(crate) struct Suppressions(Mutex<BTreeMap<SavedSearchKey, TimeNs>>);

impl Suppressions {
    /// Suppresses a search for some seconds from now; 0 ends that.
    pub(crate) fn set(&self, search: SavedSearchKey, seconds: i64, now: TimeNs) {
        // A poisoned lock is safe to use, because each change is a single call.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, until| *until > now);
        if seconds <= 0 {
            all.remove(&search);
            return;
        }
        all.insert(search, now.saturating_add(seconds.saturating_mul(NS_PER_SEC)));
        while all.len() > SUPPRESSIONS_MAX {
            let first = all.iter().min_by_key(|(_, until)| **until).map(|(search, _)| search.clone());
            first.and_then(|search| all.remove(&search));
        }
    }

    /// Seconds for which a search is still suppressed, rounded up; 0 if it is not.
    pub(crate) fn seconds_left(&self, search: &SavedSearchKey, now: TimeNs) -> i64 {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = all.get(search).map_or(0, |until| until.saturating_sub(now)).max(0);
        left.saturating_add(NS_PER_SEC - 1) / NS_PER_SEC
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_are_suppressed_until_a_time() {
        let of = |name: &str| ("eva".to_owned(), "search".to_owned(), name.to_owned());
        let all = Suppressions::default();
        all.set(of("a"), 100, 0);
        assert_eq!(all.seconds_left(&of("a"), 0), 100);
        assert_eq!(all.seconds_left(&of("a"), NS_PER_SEC / 2), 100);
        assert_eq!(all.seconds_left(&of("a"), 99 * NS_PER_SEC), 1);
        assert_eq!([of("a"), of("b")].map(|search| all.seconds_left(&search, 100 * NS_PER_SEC)), [0, 0]);
        all.set(of("a"), i64::MAX, 0);
        assert!(all.seconds_left(&of("a"), 0) > 1_000_000_000);
        all.set(of("a"), 0, 0);
        assert_eq!(all.seconds_left(&of("a"), 0), 0);
        for number in 0..SUPPRESSIONS_MAX + 5 {
            all.set(of(&number.to_string()), i64::try_from(number).unwrap() + 1, 0);
        }
        assert_eq!([4, 5].map(|number| all.seconds_left(&of(&number.to_string()), 0)), [0, 6]);
    }
}
