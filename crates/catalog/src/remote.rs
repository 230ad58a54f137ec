//! Copies of buckets on a remote store, and whether the local copy may be or has been deleted.
//!
//! Every step is recorded before it begins, so that a crash leaves no unknown objects: an upload before its objects are
//! put, an eviction before local files are deleted.
//!
//! Not here: the keys of objects inside the folder, which the store derives from the row.

use rusqlite::Row;

use crate::bucket::{live_bucket, write_bucket};
use crate::{BucketRow, Catalog, CatalogError};

/// The copy of a bucket on a remote store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteCopy {
    /// Name of the volume in indexes.conf.
    pub volume: String,
    /// Folder of the objects, relative to the path of the volume.
    pub folder: String,
    /// Which copies are complete.
    pub state: RemoteState,
}

/// Which copies of a bucket are complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteState {
    /// The local one; the remote objects are being uploaded.
    Uploading,
    /// Both.
    Uploaded,
    /// The remote one; the local objects are being deleted.
    Evicting,
    /// Only the remote one.
    Evicted,
}

impl RemoteState {
    /// Whether the remote copy is complete.
    pub fn is_remote_whole(self) -> bool {
        self != RemoteState::Uploading
    }

    /// Whether the local copy is complete.
    pub fn is_local_whole(self) -> bool {
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

    /// Whether `next` is a valid next state; restoring a local copy turns an evicted bucket into an uploaded one.
    fn leads_to(self, next: RemoteState) -> bool {
        use RemoteState::{Evicted, Evicting, Uploaded, Uploading};
        matches!(
            (self, next),
            (Uploading, Uploaded) | (Uploaded, Evicting) | (Evicting, Evicted) | (Evicting | Evicted, Uploaded)
        )
    }
}

impl Catalog {
    /// Records where the objects of live buckets will be uploaded; skips buckets that are not live or already have a
    /// remote copy. Returns the numbers of the others.
    pub fn begin_uploads(&self, numbers: &[u64], volume: &str, folder: &str) -> Result<Vec<u64>, CatalogError> {
        let (volume, folder) = (volume.to_owned(), folder.to_owned());
        let copy = RemoteCopy { volume, folder, state: RemoteState::Uploading };
        self.act(|act| {
            let mut begun = Vec::new();
            for number in numbers {
                if let Some(bucket) = live_bucket(act, *number)?
                    && bucket.remote.is_none()
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
    pub fn move_remote(&self, number: u64, next: RemoteState) -> Result<bool, CatalogError> {
        self.act(|act| {
            let Some(bucket) = live_bucket(act, number)? else { return Ok(false) };
            match &bucket.remote {
                Some(copy) if copy.state.leads_to(next) => {
                    let copy = RemoteCopy { state: next, ..copy.clone() };
                    write_bucket(act, &BucketRow { remote: Some(copy), ..bucket })?;
                    Ok(true)
                }
                _ => Ok(false),
            }
        })
    }
}

/// Reads the three columns starting at `at`.
pub(crate) fn read_remote(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<RemoteCopy>> {
    let (volume, folder, state): (Option<String>, Option<String>, Option<i64>) =
        (row.get(at)?, row.get(at + 1)?, row.get(at + 2)?);
    // If some but not all are NULL, the row does not match its checksum.
    Ok(match (volume, folder, state) {
        (Some(volume), Some(folder), Some(state)) => {
            Some(RemoteCopy { volume, folder, state: RemoteState::from_code(state) })
        }
        _ => None,
    })
}
