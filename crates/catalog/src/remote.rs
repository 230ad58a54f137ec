//! Remote copies of buckets, and the eviction of their local copies.
//!
//! Every step is recorded before it begins, so that a crash leaves no unknown objects: uploads before objects are
//! written, evictions before local files are deleted. While a bucket moves to another volume or off all volumes, a
//! second copy, which is being uploaded or deleted, is on record.
//!
//! Not here: the keys of objects inside the folder, which the store derives from the row.

use crate::bucket::{live_bucket, write_bucket};
use crate::deleted_copies::write_deleted_copies;
use crate::transaction::{Row, StepResult};
use crate::{BucketRow, Catalog, CatalogError, DeletedCopies};

/// The copy of a bucket on a remote store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteCopy {
    /// Name of the volume in indexes.conf.
    pub volume: String,
    /// Folder of the objects, relative to the path of the volume.
    pub folder: String,
    /// State of the remote and the local copy.
    pub state: RemoteState,
    /// Number of deleted events in the receipt stored with its objects; `None` before the first receipt.
    pub receipt: Option<u64>,
}

/// A second copy of a bucket on a remote store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherCopy {
    /// Name of the volume in indexes.conf.
    pub volume: String,
    /// Folder of the objects below the path of the volume.
    pub folder: String,
    /// Whether its objects are being deleted; otherwise they are being uploaded.
    pub is_obsolete: bool,
}

/// The copies of a bucket that are complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteState {
    /// Only the local copy; the remote objects are being uploaded.
    Uploading,
    /// Both the local copy and the remote one.
    Uploaded,
    /// Only the remote copy; the local objects are being deleted or restored.
    Evicting,
    /// Only the remote copy; the local objects are deleted.
    Evicted,
}

impl RemoteState {
    /// Whether the remote copy is complete.
    pub fn is_remote_complete(self) -> bool {
        self != RemoteState::Uploading
    }

    /// Whether the local copy is complete.
    pub fn is_local_complete(self) -> bool {
        matches!(self, RemoteState::Uploading | RemoteState::Uploaded)
    }

    pub(crate) fn code(self) -> i64 {
        match self {
            RemoteState::Uploading => 0,
            RemoteState::Uploaded => 1,
            RemoteState::Evicting => 2,
            RemoteState::Evicted => 3,
        }
    }

    fn from_code(code: i64) -> RemoteState {
        match code {
            0 => RemoteState::Uploading,
            1 => RemoteState::Uploaded,
            2 => RemoteState::Evicting,
            _ => RemoteState::Evicted,
        }
    }

    /// Whether `next` may directly follow this state. When an evicted bucket's local copy is restored, its state is
    /// `Evicting` until the copy is complete and `Uploaded` from then on.
    fn may_lead_to(self, next: RemoteState) -> bool {
        use RemoteState::{Evicted, Evicting, Uploaded, Uploading};
        matches!(
            (self, next),
            (Uploading, Uploaded)
                | (Uploaded | Evicted, Evicting)
                | (Evicting, Evicted)
                | (Evicting | Evicted, Uploaded)
        )
    }
}

impl Catalog {
    /// Records where the objects of live buckets will be uploaded, and returns the numbers of these buckets. Skips
    /// buckets that are not live, already have a remote copy, or still have a second copy, which is being deleted.
    pub fn begin_uploads(&self, numbers: &[u64], volume: &str, folder: &str) -> Result<Vec<u64>, CatalogError> {
        let (volume, folder) = (volume.to_owned(), folder.to_owned());
        let copy = RemoteCopy { volume, folder, state: RemoteState::Uploading, receipt: None };
        self.write(|act| {
            let mut begun = Vec::new();
            for number in numbers {
                if let Some(bucket) = live_bucket(act, *number)?
                    && bucket.remote.is_none()
                    && bucket.other.is_none()
                {
                    write_bucket(act, &BucketRow { remote: Some(copy.clone()), ..bucket })?;
                    begun.push(*number);
                }
            }
            Ok(begun)
        })
    }

    /// Moves a live bucket to the next state. Returns `false`, without changes, if it is no longer live or the
    /// transition is invalid.
    pub fn set_remote_state(&self, number: u64, next: RemoteState) -> Result<bool, CatalogError> {
        self.write(|act| {
            let Some(bucket) = live_bucket(act, number)? else { return Ok(false) };
            match &bucket.remote {
                Some(copy) if copy.state.may_lead_to(next) => {
                    let copy = RemoteCopy { state: next, ..copy.clone() };
                    write_bucket(act, &BucketRow { remote: Some(copy), ..bucket })?;
                    Ok(true)
                }
                _ => Ok(false),
            }
        })
    }

    /// Records that an upload and its receipt are complete. Returns `false`, without changes, if the bucket is not live
    /// or not being uploaded.
    pub fn end_upload(&self, number: u64, receipt: u64) -> Result<bool, CatalogError> {
        self.change_copies(number, |bucket| {
            let copy = bucket.remote.as_mut().filter(|copy| copy.state == RemoteState::Uploading)?;
            (copy.state, copy.receipt) = (RemoteState::Uploaded, Some(receipt));
            Some(())
        })
    }

    /// Records the receipt stored with the remote objects of a live bucket whose remote copy is complete.
    pub fn record_receipt(&self, number: u64, receipt: u64) -> Result<bool, CatalogError> {
        self.change_copies(number, |bucket| {
            let copy = bucket.remote.as_mut().filter(|copy| copy.state.is_remote_complete())?;
            copy.receipt = Some(receipt);
            Some(())
        })
    }

    /// Records where a second remote copy of a live bucket will be uploaded; the bucket's local copy and its first
    /// remote copy must be complete.
    pub fn begin_move(&self, number: u64, volume: &str, folder: &str) -> Result<bool, CatalogError> {
        self.change_copies(number, |bucket| {
            let has_both = bucket.remote.as_ref().is_some_and(|copy| copy.state == RemoteState::Uploaded);
            if !has_both || bucket.other.is_some() {
                return None;
            }
            bucket.other = Some(OtherCopy { volume: volume.to_owned(), folder: folder.to_owned(), is_obsolete: false });
            Some(())
        })
    }

    /// Makes the second copy, which was uploaded with this receipt, the bucket's remote copy; the first copy can then
    /// be deleted.
    pub fn end_move(&self, number: u64, receipt: u64) -> Result<bool, CatalogError> {
        self.change_copies(number, |bucket| {
            let other = bucket.other.as_mut().filter(|other| !other.is_obsolete)?;
            let copy = bucket.remote.as_mut()?;
            std::mem::swap(&mut other.volume, &mut copy.volume);
            std::mem::swap(&mut other.folder, &mut copy.folder);
            (other.is_obsolete, copy.receipt) = (true, Some(receipt));
            Some(())
        })
    }

    /// Abandons the remote copy of a live bucket whose local copy is complete; the remote copy can then be deleted.
    pub fn abandon_remote_copy(&self, number: u64) -> Result<bool, CatalogError> {
        self.change_copies(number, |bucket| {
            let copy = bucket.remote.take_if(|copy| copy.state.is_local_complete())?;
            if bucket.other.is_some() {
                return None;
            }
            bucket.other = Some(OtherCopy { volume: copy.volume, folder: copy.folder, is_obsolete: true });
            Some(())
        })
    }

    /// Records that the second copy of a live bucket is obsolete and to be deleted.
    pub fn abandon_move(&self, number: u64) -> Result<bool, CatalogError> {
        self.change_copies(number, |bucket| {
            bucket.other.as_mut()?.is_obsolete = true;
            Some(())
        })
    }

    /// Records that the second copy of a live bucket is completely deleted.
    pub fn remove_other_copy(&self, number: u64, deleted: &DeletedCopies<'_>) -> Result<bool, CatalogError> {
        self.write(|act| {
            let Some(mut bucket) = live_bucket(act, number)? else { return Ok(false) };
            if bucket.other.take_if(|other| other.is_obsolete).is_none() {
                return Ok(false);
            }
            write_bucket(act, &bucket)?;
            write_deleted_copies(act, deleted)?;
            Ok(true)
        })
    }

    /// Changes the copies recorded for a live bucket. Returns `false` and changes nothing if the bucket is no longer
    /// live or `change` returns `None`.
    fn change_copies(&self, number: u64, change: impl Fn(&mut BucketRow) -> Option<()>) -> Result<bool, CatalogError> {
        self.write(|act| {
            let Some(mut bucket) = live_bucket(act, number)? else { return Ok(false) };
            if change(&mut bucket).is_none() {
                return Ok(false);
            }
            write_bucket(act, &bucket)?;
            Ok(true)
        })
    }
}

/// Reads the four columns of a remote copy from column `at` on.
pub(crate) fn read_remote(row: &mut Row, at: usize) -> StepResult<Option<RemoteCopy>> {
    let (volume, folder, state): (Option<String>, Option<String>, Option<i64>) =
        (row.take(at)?, row.take(at + 1)?, row.take(at + 2)?);
    let receipt = row.take::<Option<i64>>(at + 3)?.map(i64::cast_unsigned);
    // A row in which only some of these are NULL does not match its checksum, so it is not used.
    Ok(match (volume, folder, state) {
        (Some(volume), Some(folder), Some(state)) => {
            Some(RemoteCopy { volume, folder, state: RemoteState::from_code(state), receipt })
        }
        _ => None,
    })
}

/// Reads the three columns of a second copy from column `at` on.
pub(crate) fn read_other(row: &mut Row, at: usize) -> StepResult<Option<OtherCopy>> {
    let (volume, folder, going): (Option<String>, Option<String>, Option<bool>) =
        (row.take(at)?, row.take(at + 1)?, row.take(at + 2)?);
    Ok(match (volume, folder, going) {
        (Some(volume), Some(folder), Some(going)) => Some(OtherCopy { volume, folder, is_obsolete: going }),
        _ => None,
    })
}
