//! Bytes of an open object: its last bytes (here the *tail*), kept since opening, and ranges fetched on demand.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{BlockPosition, BucketError};
use crate::limits::TAIL_READ_BYTES;
use crate::read_ahead::ReadAhead;
use crate::read_at::ReadAt;

/// An object with its tail in memory.
#[derive(Clone)]
pub(crate) struct ObjectSource {
    object: Arc<dyn ReadAt>,
    len: u64,
    tail: Bytes,
    /// Start and bytes of each range fetched for a pass over many pages.
    ahead: Vec<(u64, Bytes)>,
    /// Read-ahead of a search, for remote objects.
    search: Option<Arc<ReadAhead>>,
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
            return Err(BlockPosition::outside_slabs("object", len - tail_len).corrupt(reason));
        }
        Ok(ObjectSource { object, len, tail, ahead: Vec::new(), search: None })
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn request_count(&self) -> u64 {
        self.object.request_count()
    }

    /// The ranges outside the tail; empty if the object's cache is known to hold all of them.
    pub(crate) fn uncached_ranges(&self, mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let tail_start = self.len - self.tail.len() as u64;
        ranges.retain(|range| range.start < tail_start && range.end <= self.len);
        if self.object.is_cached(&ranges) { Vec::new() } else { ranges }
    }

    /// Reads ranges only to bring them into a remote object's cache.
    pub(crate) fn prefetch(&self, ranges: &[Range<u64>]) -> Result<(), BucketError> {
        self.object.read_ranges(ranges)?;
        Ok(())
    }

    /// The same object, read ahead for `search`.
    pub(crate) fn with_read_ahead(&self, search: Arc<ReadAhead>) -> ObjectSource {
        ObjectSource { search: Some(search), ..self.clone() }
    }

    /// The read-ahead of the search, if any.
    pub(crate) fn read_ahead(&self) -> Option<&Arc<ReadAhead>> {
        self.search.as_ref()
    }

    /// Fetches ranges with a single read; later reads within them need no request.
    pub(crate) fn fetch_ahead(&mut self, mut ranges: Vec<Range<u64>>) -> Result<(), BucketError> {
        ranges.retain(|range| range.end <= self.len);
        let fetched = self.object.read_ranges(&ranges)?;
        self.ahead.extend(ranges.into_iter().map(|range| range.start).zip(fetched));
        Ok(())
    }

    /// Whether a range is available without a request.
    pub(crate) fn is_available(&self, range: &Range<u64>) -> bool {
        range.start >= self.len - self.tail.len() as u64
            || range.is_empty()
            || self.search.as_ref().is_some_and(|search| search.get(range).is_some())
    }

    /// Fetches, with a single read, the ranges that are not available yet, and holds them for the search. Does
    /// nothing without read-ahead.
    pub(crate) fn fetch_for_search(&self, mut ranges: Vec<Range<u64>>) -> Result<(), BucketError> {
        let Some(search) = &self.search else { return Ok(()) };
        // Ranges beyond the object are ignored here; the read that needs them reports the error.
        let tail_start = self.len - self.tail.len() as u64;
        ranges.retain(|range| range.start < tail_start && range.end <= self.len);
        let missing = search.missing_ranges(ranges);
        if missing.is_empty() {
            return Ok(());
        }
        for (range, bytes) in missing.iter().zip(self.object.read_ranges(&missing)?) {
            search.insert(range.start, bytes);
        }
        Ok(())
    }

    /// The `len` bytes at `place`.
    pub(crate) fn fetch_block(&self, place: BlockPosition, len: usize) -> Result<Bytes, BucketError> {
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
        if let Some(bytes) = self.search.as_ref().and_then(|search| search.get(&(offset..end))) {
            return Ok(bytes);
        }
        let bytes = self.object.read_at(offset, len)?;
        if bytes.len() != len {
            return Err(place.corrupt(format!("{} of its {len} bytes were returned", bytes.len())));
        }
        Ok(bytes)
    }
}
