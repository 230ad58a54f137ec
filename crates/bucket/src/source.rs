//! The bytes of an open object: its tail, kept since opening, and ranges fetched when needed.

use std::sync::Arc;

use bytes::Bytes;

use crate::error::{BlockPosition, BucketError};
use crate::limits::TAIL_READ_BYTES;
use crate::read_at::ReadAt;

/// An object with its last bytes at hand.
#[derive(Clone)]
pub(crate) struct ObjectSource {
    object: Arc<dyn ReadAt>,
    len: u64,
    tail: Bytes,
    /// Ranges fetched ahead: where they start and their bytes.
    ahead: Vec<(u64, Bytes)>,
}

impl std::fmt::Debug for ObjectSource {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ObjectSource").field("len", &self.len).finish_non_exhaustive()
    }
}

impl ObjectSource {
    pub(crate) fn open(object: Arc<dyn ReadAt>) -> Result<ObjectSource, BucketError> {
        let len = object.len();
        let tail_len = len.min(TAIL_READ_BYTES as u64);
        let tail = object.read_at(len - tail_len, tail_len as usize)?;
        if tail.len() as u64 != tail_len {
            let reason = format!("{} bytes were returned for {tail_len}", tail.len());
            return Err(BlockPosition::of("object", len - tail_len).corrupt(reason));
        }
        Ok(ObjectSource { object, len, tail, ahead: Vec::new() })
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Fetches bytes that many of the next reads lie in.
    pub(crate) fn fetch_ahead(&mut self, place: BlockPosition, len: usize) -> Result<(), BucketError> {
        let bytes = self.fetch(place, len)?;
        self.ahead.push((place.offset, bytes));
        Ok(())
    }

    /// The `len` bytes at `place`.
    pub(crate) fn fetch(&self, place: BlockPosition, len: usize) -> Result<Bytes, BucketError> {
        let offset = place.offset;
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.len);
        let Some(end) = end else {
            return Err(place.corrupt(format!("its {len} bytes reach past the object's {} bytes", self.len)));
        };
        let tail_start = self.len - self.tail.len() as u64;
        if offset >= tail_start {
            return Ok(self.tail.slice((offset - tail_start) as usize..(end - tail_start) as usize));
        }
        for (start, bytes) in &self.ahead {
            if offset >= *start && end - start <= bytes.len() as u64 {
                return Ok(bytes.slice((offset - start) as usize..(end - start) as usize));
            }
        }
        let bytes = self.object.read_at(offset, len)?;
        if bytes.len() != len {
            return Err(place.corrupt(format!("{} of its {len} bytes were returned", bytes.len())));
        }
        Ok(bytes)
    }
}
