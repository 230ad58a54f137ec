//! A commit of the catalog whose outcome is unknown.
//!
//! Not here: how its outcome is determined ([`crate::commit_settlement`]).

use std::sync::{Arc, MutexGuard};

use quarry_catalog::BucketRow;

use crate::deletion::RowSet;
use crate::sealed_buckets::SealedBucket;

/// A transaction that failed, with everything that memory needs to adopt it.
#[derive(Debug)]
pub(crate) enum UnsettledCommit {
    /// A merge of `inputs`.
    Merge { output: BucketRow, inputs: Vec<Arc<SealedBucket>> },
    /// A deletion: buckets, each with all its deleted rows.
    Deletion(Vec<(Arc<SealedBucket>, RowSet)>),
    /// The addition of a thawed bucket, whose objects belong to the operator.
    Thaw(BucketRow),
    /// The retirement of buckets.
    Retirement(Vec<Arc<SealedBucket>>),
}

/// The lock that is held from the decision about a commit until memory reflects it, with the commit that failed last.
pub(crate) type CommitGuard<'a> = MutexGuard<'a, Option<UnsettledCommit>>;
