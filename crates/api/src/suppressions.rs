//! Saved searches whose alerts are suppressed by a request, each until a time.
//!
//! They are stored in the folder of jobs, so that a restart does not end them. Not here: suppression after an alert
//! (`alert.suppress`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use quarry_event::TimeNs;
use quarry_event::time::NS_PER_SEC;
use quarry_search::jobs::JOBS_FOLDER;
use quarry_stdx::{Fault, log, private_file};

/// Maximum suppressed searches; a new one replaces the one that would end first.
const SUPPRESSIONS_MAX: usize = 10_000;
/// File in the folder of jobs: a JSON list of saved searches, each with the time until which it is suppressed.
const FILE: &str = "suppressions.json";

/// A saved search: owner, app, name.
pub(crate) type SavedSearchKey = (String, String, String);

/// The times until which searches are suppressed.
#[derive(Debug)]
pub(crate) struct Suppressions {
    path: PathBuf,
    until: Mutex<BTreeMap<SavedSearchKey, TimeNs>>,
}

impl Suppressions {
    /// The suppressions stored in a data directory. A file that cannot be read is reported and counts as empty.
    pub(crate) fn of_data_dir(data_dir: &Path) -> Suppressions {
        let path = data_dir.join(JOBS_FOLDER).join(FILE);
        let until = read(&path).unwrap_or_else(|fault| {
            log::warning(format!("suppressions of saved searches are lost: {fault}"));
            BTreeMap::new()
        });
        Suppressions { path, until: Mutex::new(until) }
    }

    /// Suppresses a search for some seconds from now; 0 ends its suppression. Returns once the change is on disk.
    pub(crate) fn set(&self, search: SavedSearchKey, seconds: i64, now: TimeNs) -> Result<(), Fault> {
        // A poisoned lock is safe to use, because the map is replaced as a whole.
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = until.clone();
        all.retain(|_, until| *until > now);
        if seconds <= 0 {
            all.remove(&search);
        } else {
            all.insert(search, now.saturating_add(seconds.saturating_mul(NS_PER_SEC)));
        }
        while all.len() > SUPPRESSIONS_MAX {
            let first = all.iter().min_by_key(|(_, until)| **until).map(|(search, _)| search.clone());
            first.and_then(|search| all.remove(&search));
        }
        let stored: Vec<(&SavedSearchKey, &TimeNs)> = all.iter().collect();
        let text = serde_json::to_string(&stored).map_err(|error| Fault::bug(format!("{FILE}: {error}")))?;
        private_file::write(&self.path, &text)?;
        *until = all;
        Ok(())
    }

    /// Seconds for which a search is still suppressed, rounded up; 0 if it is not.
    pub(crate) fn seconds_left(&self, search: &SavedSearchKey, now: TimeNs) -> i64 {
        let all = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let left = all.get(search).map_or(0, |until| until.saturating_sub(now)).max(0);
        left.saturating_add(NS_PER_SEC - 1) / NS_PER_SEC
    }
}

/// Reads the file; a missing one is empty.
fn read(path: &Path) -> Result<BTreeMap<SavedSearchKey, TimeNs>, Fault> {
    let cannot = |error: std::io::Error| Fault::io(format_args!("cannot read {}", path.display()), error);
    let text = match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        text => text.map_err(cannot)?,
    };
    let stored: Vec<(SavedSearchKey, TimeNs)> = serde_json::from_slice(&text).map_err(|error| cannot(error.into()))?;
    Ok(stored.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> SavedSearchKey {
        ("eva".to_owned(), "search".to_owned(), name.to_owned())
    }

    #[test]
    fn searches_are_suppressed_until_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let all = Suppressions::of_data_dir(folder.path());
        let set = |name: &str, seconds: i64, now: TimeNs| all.set(of(name), seconds, now).unwrap();
        set("a", 100, 0);
        assert_eq!(all.seconds_left(&of("a"), 0), 100);
        assert_eq!(all.seconds_left(&of("a"), NS_PER_SEC / 2), 100);
        assert_eq!(all.seconds_left(&of("a"), 99 * NS_PER_SEC), 1);
        assert_eq!([of("a"), of("b")].map(|search| all.seconds_left(&search, 100 * NS_PER_SEC)), [0, 0]);
        set("a", i64::MAX, 0);
        assert!(all.seconds_left(&of("a"), 0) > 1_000_000_000);
        set("a", 0, 0);
        assert_eq!(all.seconds_left(&of("a"), 0), 0);
    }

    #[test]
    fn suppressions_are_limited_and_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let number_of = |name: usize| of(&name.to_string());
        let full = (0..SUPPRESSIONS_MAX).map(|name| (number_of(name), (seconds(name) + 1) * NS_PER_SEC)).collect();
        let all = Suppressions { until: Mutex::new(full), ..Suppressions::of_data_dir(folder.path()) };
        all.set(of("new"), 1_000_000, 0).unwrap();
        assert_eq!(
            [number_of(0), number_of(1)].map(|search| all.seconds_left(&search, 0)),
            [0, 2],
            "the first one ends"
        );
        drop(all);
        let again = Suppressions::of_data_dir(folder.path());
        assert_eq!([of("new"), number_of(1)].map(|search| again.seconds_left(&search, 0)), [1_000_000, 2]);
        std::fs::write(folder.path().join(JOBS_FOLDER).join(FILE), "[[").unwrap();
        assert_eq!(Suppressions::of_data_dir(folder.path()).seconds_left(&of("new"), 0), 0);
    }

    fn seconds(name: usize) -> i64 {
        i64::try_from(name).unwrap()
    }
}
