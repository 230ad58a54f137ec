//! Saved searches whose alerts are suppressed by a request, each until a time.
//!
//! Suppressions are stored in the folder of jobs, so that a restart does not end them. Not here: suppression after an
//! alert (`alert.suppress`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use quarry_event::TimeNs;
use quarry_event::time::NS_PER_SEC;
use quarry_search::jobs::JOBS_FOLDER;
use quarry_stdx::{Fault, log, private_file};

/// Maximum number of suppressed searches. At this limit, a new suppression replaces the one that would end first.
const SUPPRESSIONS_MAX: usize = 10_000;
/// File in the folder of jobs: a JSON list of saved searches, each with the time until which it is suppressed.
const FILE: &str = "suppressions.json";

/// A saved search: owner, app, name.
pub(crate) type SavedSearchKey = (String, String, String);

/// Maximum number of unreadable files that are kept; a further file replaces the last one.
const UNREADABLE_FILES_MAX: usize = 10;

/// The times until which searches are suppressed.
#[derive(Debug)]
pub(crate) struct Suppressions {
    path: PathBuf,
    /// Held while a change is written. Readers do not wait for it.
    changing: Mutex<()>,
    until: RwLock<Arc<Times>>,
}

type Times = BTreeMap<SavedSearchKey, TimeNs>;

impl Suppressions {
    /// The suppressions stored in a data directory. A file that cannot be read is reported, counts as empty, and is
    /// kept under another name.
    pub(crate) fn of_data_dir(data_dir: &Path) -> Suppressions {
        let path = data_dir.join(JOBS_FOLDER).join(FILE);
        let until = read(&path).unwrap_or_else(|fault| {
            let kept = match set_aside(&path) {
                Ok(aside) => format!("the file is now {}", aside.display()),
                Err(error) => format!("and the file cannot be renamed: {error}"),
            };
            log::warning(format!("suppressions of saved searches end: {fault}; {kept}"));
            Times::new()
        });
        Suppressions { path, changing: Mutex::default(), until: RwLock::new(Arc::new(until)) }
    }

    /// Suppresses a search for some seconds from now; 0 ends its suppression. Returns once the change is on disk.
    pub(crate) fn set(&self, search: SavedSearchKey, seconds: i64, now: TimeNs) -> Result<(), Fault> {
        self.change(now, |all| {
            if seconds <= 0 {
                all.remove(&search);
            } else {
                all.insert(search, now.saturating_add(seconds.saturating_mul(NS_PER_SEC)));
            }
        })
    }

    /// Transfers the suppression of a search to the search's new name, or ends the suppression.
    pub(crate) fn move_to(
        &self,
        before: &SavedSearchKey,
        search: Option<SavedSearchKey>,
        now: TimeNs,
    ) -> Result<(), Fault> {
        if search.as_ref() == Some(before) || self.seconds_left(before, now) == 0 {
            return Ok(());
        }
        self.change(now, |all| {
            let until = all.remove(before);
            all.extend(search.zip(until));
        })
    }

    /// Writes a change, then applies it.
    fn change(&self, now: TimeNs, change: impl FnOnce(&mut Times)) -> Result<(), Fault> {
        // A poisoned lock is safe to use, because the map is replaced as a whole.
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = Times::clone(&self.times());
        all.retain(|_, until| *until > now);
        change(&mut all);
        while all.len() > SUPPRESSIONS_MAX {
            let first = all.iter().min_by_key(|(_, until)| **until).map(|(search, _)| search.clone());
            first.and_then(|search| all.remove(&search));
        }
        let stored: Vec<(&SavedSearchKey, &TimeNs)> = all.iter().collect();
        let text = serde_json::to_string(&stored).map_err(|error| Fault::bug(format!("{FILE}: {error}")))?;
        private_file::write(&self.path, &text)?;
        *self.until.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(all);
        Ok(())
    }

    fn times(&self) -> Arc<Times> {
        Arc::clone(&self.until.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Seconds for which a search is still suppressed, rounded up; 0 if the search is not suppressed.
    pub(crate) fn seconds_left(&self, search: &SavedSearchKey, now: TimeNs) -> i64 {
        let left = self.times().get(search).map_or(0, |until| until.saturating_sub(now)).max(0);
        left.saturating_add(NS_PER_SEC - 1) / NS_PER_SEC
    }
}

/// Renames an unreadable file to a name that is free, so that the next change does not overwrite it.
fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    let named = |number: usize| path.with_extension(format!("unreadable-{number}"));
    let free = (1..UNREADABLE_FILES_MAX).map(named).find(|aside| !aside.exists());
    let aside = free.unwrap_or_else(|| named(UNREADABLE_FILES_MAX));
    std::fs::rename(path, &aside).map(|()| aside)
}

/// Reads the file; a missing file counts as empty.
fn read(path: &Path) -> Result<Times, Fault> {
    let cannot = |error: std::io::Error| Fault::io(format_args!("cannot read {}", path.display()), error);
    let text = match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Times::new()),
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
        let until = RwLock::new(Arc::new(full));
        let all = Suppressions { until, ..Suppressions::of_data_dir(folder.path()) };
        all.set(of("new"), 1_000_000, 0).unwrap();
        assert_eq!(
            [number_of(0), number_of(1)].map(|search| all.seconds_left(&search, 0)),
            [0, 2],
            "the first one ends"
        );
        drop(all);
        let again = Suppressions::of_data_dir(folder.path());
        assert_eq!([of("new"), number_of(1)].map(|search| again.seconds_left(&search, 0)), [1_000_000, 2]);
    }

    #[test]
    fn unreadable_files_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let jobs = folder.path().join(JOBS_FOLDER);
        std::fs::create_dir(&jobs).unwrap();
        for round in 0..UNREADABLE_FILES_MAX + 2 {
            std::fs::write(jobs.join(FILE), format!("[[{round}")).unwrap();
            let all = Suppressions::of_data_dir(folder.path());
            assert_eq!(all.seconds_left(&of("a"), 0), 0);
            all.set(of("a"), 100, 0).unwrap();
            let aside = jobs.join(format!("suppressions.unreadable-{}", (round + 1).min(UNREADABLE_FILES_MAX)));
            assert_eq!(std::fs::read_to_string(aside).unwrap(), format!("[[{round}"));
        }
        assert_eq!(Suppressions::of_data_dir(folder.path()).seconds_left(&of("a"), 0), 100);
    }

    #[test]
    fn suppressions_follow_their_searches() {
        let folder = tempfile::tempdir().unwrap();
        let all = Suppressions::of_data_dir(folder.path());
        all.set(of("a"), 100, 0).unwrap();
        all.move_to(&of("a"), Some(of("a")), 0).unwrap();
        all.move_to(&of("other"), Some(of("a")), 0).unwrap();
        assert_eq!(all.seconds_left(&of("a"), 0), 100);
        all.move_to(&of("a"), Some(of("b")), 0).unwrap();
        assert_eq!([of("a"), of("b")].map(|search| all.seconds_left(&search, 0)), [0, 100]);
        all.move_to(&of("b"), None, 0).unwrap();
        assert_eq!([of("a"), of("b")].map(|search| all.seconds_left(&search, 0)), [0, 0]);
    }

    #[test]
    fn reading_does_not_wait_for_a_change_that_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let all = Suppressions::of_data_dir(folder.path());
        all.set(of("a"), 100, 0).unwrap();
        let _writing = all.changing.lock().unwrap();
        assert_eq!(all.seconds_left(&of("a"), 0), 100);
    }

    fn seconds(name: usize) -> i64 {
        i64::try_from(name).unwrap()
    }
}
