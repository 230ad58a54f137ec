//! Copies of buckets on a remote store: which there are, and whether the local one may go or has gone.
//!
//! Every step is noted before its work begins, so that a crash leaves nothing that nobody knows of: an upload before
//! its objects are put, the end of the local copy before its files are deleted.
//!
//! Not here: the objects' keys below the folder, which the store makes from the row.

use rusqlite::Row;

use crate::bucket::{live_bucket, write_bucket};
use crate::{BucketRow, Catalog, CatalogError};

/// The copy of a bucket on a remote store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteCopy {
    /// Name of the volume in indexes.conf.
    pub volume: String,
    /// Folder of the objects below the path of the volume.
    pub folder: String,
    /// Which copies are whole.
    pub state: RemoteState,
}

/// Which of the two copies of a bucket is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteState {
    /// The local one; remote objects are being put.
    Uploading,
    /// Both.
    Uploaded,
    /// The remote one; local objects are being deleted.
    Evicting,
    /// The remote one alone.
    Evicted,
}

impl RemoteState {
    /// Whether the remote copy is whole.
    pub fn is_remote_whole(self) -> bool {
        self != RemoteState::Uploading
    }

    /// Whether the local copy is whole.
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

    /// Whether one step leads to `next`; a local copy that was brought back makes an evicted bucket an uploaded one.
    fn leads_to(self, next: RemoteState) -> bool {
        use RemoteState::{Evicted, Evicting, Uploaded, Uploading};
        matches!(
            (self, next),
            (Uploading, Uploaded) | (Uploaded, Evicting) | (Evicting, Evicted) | (Evicting | Evicted, Uploaded)
        )
    }
}

impl Catalog {
    /// Notes where the objects of live buckets will be put; those that are not live or have a remote copy are left out.
    /// Gives the numbers of the others.
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

    /// Takes a live bucket's copies one step further. `false`, and nothing is changed, when it is not live any more or no
    /// step leads there from where it is.
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

/// Reads the three columns from `at` on.
pub(crate) fn read_remote(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<RemoteCopy>> {
    let (volume, folder, state): (Option<String>, Option<String>, Option<i64>) =
        (row.get(at)?, row.get(at + 1)?, row.get(at + 2)?);
    // A row where one of them is missing does not fit its checksum.
    Ok(match (volume, folder, state) {
        (Some(volume), Some(folder), Some(state)) => {
            Some(RemoteCopy { volume, folder, state: RemoteState::from_code(state) })
        }
        _ => None,
    })
}
