//! Results of the subsearches of a running search.
//!
//! Commands such as `append` and `join` run their subsearches when their steps are made. Previews make the steps again
//! and read the results from here, so that no subsearch runs twice. Not here: subsearches in the condition of the first
//! `search`, whose results are part of the plan ([`crate::plan`]).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_spl::ast::Pipeline;

/// The result of a subsearch.
struct Known {
    subsearch: Pipeline,
    rows_max: usize,
    /// The rows share memory with the rows that the command holds.
    rows: Vec<RecordBatch>,
}

/// Results of subsearches.
#[derive(Clone, Default)]
pub(crate) struct KnownResults(Arc<Mutex<Vec<Known>>>);

impl KnownResults {
    fn lock(&self) -> MutexGuard<'_, Vec<Known>> {
        // A poisoned lock is safe to use, because each change is a single push.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Treatment of the results of subsearches.
#[derive(Clone, Default)]
pub(crate) enum SubsearchResults {
    /// Results are not kept.
    #[default]
    Unkept,
    /// Results are kept for previews.
    Kept(KnownResults),
    /// Only kept results are available; no subsearch is run.
    Replayed(KnownResults),
}

impl SubsearchResults {
    /// Keeps the results of a search that has previews.
    pub(crate) fn kept() -> SubsearchResults {
        SubsearchResults::Kept(KnownResults::default())
    }

    /// The same results, for a preview.
    pub(crate) fn replayed(&self) -> SubsearchResults {
        match self {
            SubsearchResults::Unkept => SubsearchResults::Replayed(KnownResults::default()),
            SubsearchResults::Kept(known) | SubsearchResults::Replayed(known) => {
                SubsearchResults::Replayed(known.clone())
            }
        }
    }

    /// The result of a subsearch if it must not be run: its rows, or an error if it has not been run.
    pub(crate) fn replay(
        &self,
        subsearch: &Pipeline,
        rows_max: usize,
    ) -> Option<Result<Vec<RecordBatch>, EngineError>> {
        let SubsearchResults::Replayed(known) = self else { return None };
        let known = known.lock();
        let found = known.iter().find(|known| known.rows_max == rows_max && known.subsearch == *subsearch);
        let missing = || EngineError::invalid("the search runs a subsearch for its rows, which a preview does not run");
        Some(found.map(|known| known.rows.clone()).ok_or_else(missing))
    }

    /// Keeps the result of a subsearch, if results are kept.
    pub(crate) fn keep(&self, subsearch: &Pipeline, rows_max: usize, rows: &[RecordBatch]) {
        if let SubsearchResults::Kept(known) = self {
            let kept = Known { subsearch: subsearch.clone(), rows_max, rows: rows.to_vec() };
            known.lock().push(kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_has_only_results_of_subsearches_that_have_run() {
        let subsearch = |text: &str| quarry_spl::parse(text).pipeline;
        let (ran, other) = (subsearch("| makeresults"), subsearch("| makeresults count=2"));
        let kept = SubsearchResults::kept();
        kept.keep(&ran, 10, &[]);
        assert!(kept.replay(&ran, 10).is_none(), "the search itself runs its subsearches");
        let preview = kept.replayed();
        assert!(preview.replay(&ran, 10).is_some_and(|rows| rows.is_ok()));
        assert!(preview.replay(&ran, 9).is_some_and(|rows| rows.is_err()), "another number of rows");
        assert!(preview.replay(&other, 10).is_some_and(|rows| rows.is_err()));
        assert!(SubsearchResults::default().replayed().replay(&ran, 10).is_some_and(|rows| rows.is_err()));
    }
}
