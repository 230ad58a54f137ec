//! Byte access to an object by range, wherever it is stored.

use std::ops::Range;

use bytes::Bytes;

use crate::error::ReadError;

/// An immutable object that can be read by range. Blob stores implement this trait; calls may block.
pub trait ReadAt: Send + Sync {
    /// Size of the object in bytes.
    fn len(&self) -> u64;

    /// Whether the object is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Exactly `len` bytes from `offset`; a range past the end is [`ReadError::PastEnd`].
    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadError>;

    /// The bytes of several ranges, in their order. Remote stores read them concurrently.
    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ReadError> {
        let read = |range: &Range<u64>| {
            let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
            self.read_at(range.start, len)
        };
        ranges.iter().map(read).collect()
    }

    /// Whether these ranges can be read without a network request at present. Only a hint, because a cache may evict
    /// ranges before they are read.
    fn is_cached(&self, _ranges: &[Range<u64>]) -> bool {
        false
    }

    /// Number of network requests sent for the object so far.
    fn request_count(&self) -> u64 {
        0
    }

    /// Returns bytes of the object's end that were received when it was opened, with their offset, so that a cache need
    /// not read them again. `None` if no such bytes were received, and on later calls.
    fn take_tail(&self) -> Option<(u64, Bytes)> {
        None
    }
}

/// An object in memory; ranges share its bytes.
#[derive(Clone, Debug)]
pub struct MemoryObject(pub Bytes);

impl ReadAt for MemoryObject {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadError> {
        let size = self.0.len();
        let past_end = ReadError::PastEnd { offset, len, size: size as u64 };
        let start = usize::try_from(offset).map_err(|_| past_end.clone())?;
        let end = start.checked_add(len).filter(|end| *end <= size).ok_or(past_end)?;
        Ok(self.0.slice(start..end))
    }
}
