//! Deletes the remote copies of retired buckets.
//!
//! The inputs of a merge stay on their volume until the merged bucket is uploaded. If the machine is lost in the
//! meantime, no event that was once uploaded is lost.

use std::collections::BTreeSet;

use super::copies::{RemotePath, copy_name, stem};
use crate::StoreError;
use crate::sealed_buckets::SealedBucket;
use crate::state::Shared;

impl Shared {
    /// Whether the remote objects of a retired bucket must stay, because the bucket it was merged into is not uploaded
    /// yet.
    pub(crate) fn is_only_remote_copy(&self, bucket: &SealedBucket) -> Result<bool, StoreError> {
        if !bucket.copies.is_anywhere_remote() {
            return Ok(false);
        }
        let Some(top) = self.catalog.bucket(bucket.row.number)?.and_then(|row| row.merged_into) else {
            return Ok(false);
        };
        // If the merged bucket was removed in the meantime, its inputs are removed, too.
        let top = self.state_with_bucket(&bucket.row.index, top)?.sealed.get(top).cloned();
        let Some(top) = top else { return Ok(false) };
        match top.copies.remote() {
            Some(copy) => Ok(!copy.state.is_remote_complete()),
            None => Ok(self.upload_place(&top.row.index)?.is_some()),
        }
    }

    /// Deletes all objects of a bucket on volumes; returns the names of the deleted copies.
    pub(crate) fn delete_remote_objects(&self, bucket: &SealedBucket) -> Result<Vec<String>, StoreError> {
        let copy = bucket.copies.remote();
        let receipts: BTreeSet<u64> =
            copy.iter().filter_map(|copy| copy.receipt).chain([bucket.deleted_events()]).collect();
        let receipts: Vec<u64> = receipts.into_iter().collect();
        let place = copy.map(|copy| RemotePath { volume: copy.volume, path: copy.folder });
        let other = bucket.copies.other().map(|other| RemotePath { volume: other.volume, path: other.folder });
        let delete = |place: RemotePath| {
            self.readers.remotes().delete(&bucket.row, &place, &receipts)?;
            Ok(copy_name(&place.volume, &place.path, &stem(&bucket.row)))
        };
        place.into_iter().chain(other).map(delete).collect()
    }
}
