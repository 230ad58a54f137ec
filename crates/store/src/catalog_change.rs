//! A change of the catalog, and its effects once it is known whether the change was committed.
//!
//! `S` is the state in memory to which the effects are applied. Not here: commits ([`crate::commit_turn`]).

use std::fmt;

use quarry_catalog::DeletionRow;

/// Brings memory and objects in line with the outcome of a commit. After a panic, it is called again.
pub(crate) type ChangeEffect<S> = Box<dyn Fn(&S) + Send>;

/// The fact by which the catalog shows that a change was committed.
#[derive(Debug)]
pub(crate) enum CommitEvidence {
    /// The bucket of this number is live.
    Live(u64),
    /// The bucket of this number, which was live, is no longer live.
    NotLive(u64),
    /// These events are recorded as deleted.
    Deleted(DeletionRow),
}

pub(crate) struct CatalogChange<S> {
    pub(crate) evidence: CommitEvidence,
    /// The effect of the committed change.
    pub(crate) apply: ChangeEffect<S>,
    /// The effect if it turns out later that the change was not committed.
    pub(crate) undo: ChangeEffect<S>,
}

impl<S> CatalogChange<S> {
    /// A change that needs no cleaning up if it was not committed.
    pub(crate) fn new(evidence: CommitEvidence, apply: impl Fn(&S) + Send + 'static) -> CatalogChange<S> {
        CatalogChange { evidence, apply: Box::new(apply), undo: Box::new(|_| {}) }
    }

    /// The same change, with an effect if it was not committed.
    pub(crate) fn with_undo(self, undo: impl Fn(&S) + Send + 'static) -> CatalogChange<S> {
        CatalogChange { undo: Box::new(undo), ..self }
    }
}

impl<S> fmt::Debug for CatalogChange<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CatalogChange").field("evidence", &self.evidence).finish_non_exhaustive()
    }
}
