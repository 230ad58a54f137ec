//! Errors of reading and writing a bucket, with the position of the damage and the remedy.

use std::fmt;

use quarry_stdx::{ErrorKind, HasKind};

use crate::wire::Malformed;

/// Failure to write or read a bucket.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// The object's bytes could not be fetched; the error says whether they are missing or out of reach.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The bytes differ from those written. Other slabs and buckets can still be searched.
    #[error(
        "bucket is damaged at {place}: {reason}; restore the object from a copy or take the bucket out of the index"
    )]
    Corrupt {
        /// Position of the damage.
        place: BlockPosition,
        /// The violated rule of the format.
        reason: String,
    },
    /// A newer version wrote the bucket; it is intact but cannot be read by this version.
    #[error("bucket was written by a newer version of quarry ({place}: {reason}); upgrade this node to read it")]
    Unsupported {
        /// Position of the unknown part.
        place: BlockPosition,
        /// The unknown version, kind or codec.
        reason: String,
    },
    /// An event batch violates the rules stated at `EventBatch`, which is a bug of the caller.
    #[error("event batch of slab {slab} cannot be encoded: {reason}")]
    InvalidBatch {
        /// Slab number within the bucket.
        slab: usize,
        /// The broken rule.
        reason: String,
    },
    /// The input exceeds a limit of the format.
    #[error("{what} is {value}, above the limit {limit_name} = {limit}; split the input")]
    Limit {
        /// Name of the limited quantity.
        what: &'static str,
        /// Actual amount.
        value: u64,
        /// Name of the constant.
        limit_name: &'static str,
        /// Value of the constant.
        limit: u64,
    },
    /// The encoded bucket does not decode to its input: keep the input (WAL) and report the bug.
    #[error("encoded bucket differs from its input at {place}: {what}; the input is kept, please report this")]
    Mismatch {
        /// Position of the difference.
        place: BlockPosition,
        /// The column or structure that differs.
        what: String,
    },
}

impl HasKind for BucketError {
    fn kind(&self) -> ErrorKind {
        match self {
            BucketError::Read(error) => error.kind(),
            BucketError::Unsupported { .. } => ErrorKind::Unavailable,
            BucketError::Corrupt { .. } => ErrorKind::Corrupt,
            BucketError::Limit { .. } => ErrorKind::Invalid,
            BucketError::InvalidBatch { .. } | BucketError::Mismatch { .. } => ErrorKind::Bug,
        }
    }
}

/// Position in a bucket; slab and page are `None` if they are unknown or if the block belongs to no slab or page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockPosition {
    /// Slab number.
    pub slab: Option<u32>,
    /// Page number within the slab.
    pub page: Option<u32>,
    /// Kind of block, such as `text` or `term dictionary`.
    pub block: &'static str,
    /// Byte offset of the block in the object.
    pub offset: u64,
}

impl BlockPosition {
    /// A block outside any slab.
    pub(crate) fn outside_slabs(block: &'static str, offset: u64) -> BlockPosition {
        BlockPosition { slab: None, page: None, block, offset }
    }

    /// This block as part of a slab.
    pub(crate) fn in_slab(self, slab: usize) -> BlockPosition {
        BlockPosition { slab: u32::try_from(slab).ok(), ..self }
    }

    /// This block as part of a page.
    pub(crate) fn in_page(self, page: usize) -> BlockPosition {
        BlockPosition { page: u32::try_from(page).ok(), ..self }
    }

    /// Turns malformed data into damage at this position.
    pub(crate) fn map_malformed<T>(self, outcome: Result<T, Malformed>) -> Result<T, BucketError> {
        outcome.map_err(|malformed| self.corrupt(malformed.0))
    }

    /// Damage found here.
    pub(crate) fn corrupt(self, reason: impl Into<String>) -> BucketError {
        BucketError::Corrupt { place: self, reason: reason.into() }
    }
}

impl fmt::Display for BlockPosition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(slab) = self.slab {
            write!(out, "slab {slab}, ")?;
        }
        if let Some(page) = self.page {
            write!(out, "page {page}, ")?;
        }
        write!(out, "{} block at byte {}", self.block, self.offset)
    }
}

/// Failure of a [`crate::ReadAt`].
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The range reaches past the end of the object.
    #[error("bytes {offset}..+{len} lie outside the object of {size} bytes")]
    PastEnd {
        /// First requested byte.
        offset: u64,
        /// Number of requested bytes.
        len: usize,
        /// Size of the object.
        size: u64,
    },
    /// The storage failed, or returned bytes other than those that were written.
    #[error("{}{reason}{}", range(*offset, *len), remedy(*kind))]
    Failed {
        /// First requested byte.
        offset: u64,
        /// Number of requested bytes; 0 if the object could not be opened.
        len: usize,
        /// [`ErrorKind::Corrupt`] if the bytes are damaged or missing.
        kind: ErrorKind,
        /// Error text of the storage, with the object's name. Unless the storage is unavailable, it includes the
        /// remedy.
        reason: String,
    },
}

/// Part of an error message about the requested bytes.
fn range(offset: u64, len: usize) -> String {
    if len == 0 { String::new() } else { format!("bytes {offset}..+{len}: ") }
}

/// Part of an error message with the remedy.
fn remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Unavailable => "; check that its storage can be reached, then try again",
        _ => "",
    }
}

impl HasKind for ReadError {
    fn kind(&self) -> ErrorKind {
        match self {
            ReadError::PastEnd { .. } => ErrorKind::Corrupt,
            ReadError::Failed { kind, .. } => *kind,
        }
    }
}
