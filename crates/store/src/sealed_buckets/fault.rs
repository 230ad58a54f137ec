//! Buckets with an unreadable term filter. They are searched without the filter, and reported. A filter that was only
//! unavailable, not damaged, is tried again by the next search.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use quarry_bucket::BucketError;
use quarry_stdx::{ErrorKind, HasKind};

use crate::Damage;
use crate::sealed_buckets::SealedBucket;
use crate::sync::lock;

/// Errors of term filters by bucket number.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<BTreeMap<u64, Fault>>);

#[derive(Debug)]
struct Fault {
    damage: Damage,
    /// Whether the error was reported to the operator.
    is_reported: bool,
}

impl Faults {
    /// Records that the term filter of a bucket cannot be read.
    pub(crate) fn note(&self, bucket: &SealedBucket, error: &BucketError) {
        let damage = Damage { bucket: bucket.id().to_owned(), kind: error.kind(), reason: describe(error) };
        lock(&self.0).entry(bucket.row.number).or_insert(Fault { damage, is_reported: false });
    }

    /// The error of bucket `number`, if any.
    pub(crate) fn get(&self, number: u64) -> Option<Damage> {
        lock(&self.0).get(&number).map(|fault| fault.damage.clone())
    }

    /// Forgets the error of a bucket that is gone or intact again.
    pub(crate) fn forget(&self, number: u64) {
        lock(&self.0).remove(&number);
    }

    /// Forgets the errors of these buckets, except damage.
    pub(crate) fn forget_unavailable<'a>(&self, buckets: impl Iterator<Item = &'a Arc<SealedBucket>>) {
        let mut faults = lock(&self.0);
        if faults.values().all(|fault| fault.damage.kind == ErrorKind::Corrupt) {
            return;
        }
        for bucket in buckets {
            if faults.get(&bucket.row.number).is_some_and(|fault| fault.damage.kind != ErrorKind::Corrupt) {
                faults.remove(&bucket.row.number);
            }
        }
    }

    /// Errors not yet reported to the operator.
    pub(crate) fn take_unreported(&self) -> Vec<Damage> {
        let mut faults = lock(&self.0);
        let untold = faults.values_mut().filter(|fault| !fault.is_reported);
        let take = |fault: &mut Fault| {
            fault.is_reported = true;
            fault.damage.clone()
        };
        untold.map(take).collect()
    }
}

/// Description of the error.
pub(crate) fn describe(error: &BucketError) -> String {
    format!("its term filter cannot be used; searches read the bucket without it: {error}")
}
