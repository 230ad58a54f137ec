//! Buckets whose term filter cannot be read: they are searched without it, and that is told.

use std::collections::BTreeMap;
use std::sync::Mutex;

use quarry_bucket::BucketError;

use crate::Damage;
use crate::sealed::SealedBucket;
use crate::sync::lock;

/// What is wrong with term filters, by bucket number.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<BTreeMap<u64, Fault>>);

#[derive(Debug)]
struct Fault {
    damage: Damage,
    /// It is in the operator's messages.
    told: bool,
}

impl Faults {
    /// Notes that the term filter of a bucket cannot be read.
    pub(crate) fn note(&self, bucket: &SealedBucket, error: &BucketError) {
        let damage = Damage { bucket: bucket.id.to_string(), reason: describe(error) };
        lock(&self.0).entry(bucket.row.number).or_insert(Fault { damage, told: false });
    }

    /// What is wrong with the term filter of bucket `number`.
    pub(crate) fn of(&self, number: u64) -> Option<Damage> {
        lock(&self.0).get(&number).map(|fault| fault.damage.clone())
    }

    /// Forgets a bucket that is gone or whole again.
    pub(crate) fn forget(&self, number: u64) {
        lock(&self.0).remove(&number);
    }

    /// Faults that the operator was not told of.
    pub(crate) fn take_untold(&self) -> Vec<Damage> {
        let mut faults = lock(&self.0);
        let untold = faults.values_mut().filter(|fault| !fault.told);
        let take = |fault: &mut Fault| {
            fault.told = true;
            fault.damage.clone()
        };
        untold.map(take).collect()
    }
}

/// The fault in words.
pub(crate) fn describe(error: &BucketError) -> String {
    format!("its term filter cannot be used, searches read the bucket without it: {error}")
}
