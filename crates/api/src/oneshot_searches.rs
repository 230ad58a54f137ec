//! Running searches that clients wait for (`exec_mode=oneshot`), by the `id` that the client has chosen.
//!
//! These searches are not jobs, but `POST search/jobs/ID/control` with `action=finalize` ends such a search with the
//! rows found so far; the command line does this on Ctrl-C. The number of these searches is bounded by the limit of
//! running searches. Not here: jobs, which outlive their request ([`crate::endpoint`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quarry_engine::Stopper;

/// User and ID.
type Name = (String, String);

/// The running searches with an ID.
#[derive(Debug, Default)]
pub(crate) struct RunningOneshots(Mutex<BTreeMap<Name, Stopper>>);

impl RunningOneshots {
    /// Registers a search of a user until the returned value is dropped. If the ID is in use, it continues to denote
    /// the earlier search.
    pub(crate) fn add(self: &Arc<RunningOneshots>, user: &str, id: &str, stopper: Stopper) -> Option<OneshotGuard> {
        let name = (user.to_owned(), id.to_owned());
        let mut searches = self.lock();
        if searches.contains_key(&name) {
            return None;
        }
        searches.insert(name.clone(), stopper);
        Some(OneshotGuard { searches: Arc::clone(self), name })
    }

    /// Ends a user's search with the rows found so far; false if no such search runs.
    pub(crate) fn finalize(&self, user: &str, id: &str) -> bool {
        let found = self.lock().get(&(user.to_owned(), id.to_owned())).cloned();
        found.map(|stopper| stopper.finish_early()).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Stopper>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A search that can be ended by its ID.
#[derive(Debug)]
pub(crate) struct OneshotGuard {
    searches: Arc<RunningOneshots>,
    name: Name,
}

impl Drop for OneshotGuard {
    fn drop(&mut self) {
        self.searches.lock().remove(&self.name);
    }
}
