//! What can go wrong in the store.

/// Failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A bucket is damaged; others still answer.
    #[error("bucket {bucket} is damaged: {reason}")]
    Corrupt {
        /// Bucket id.
        bucket: String,
        /// What is wrong, with slab, page, block and offset.
        reason: String,
    },
}
