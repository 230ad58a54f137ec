//! Bodies of requests, within the memory that all of them together may take.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use flate2::read::MultiGzDecoder;
use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::answer::{Answer, Code};

/// Bytes of all bodies at a time.
const IN_FLIGHT_BYTES: usize = 256 << 20;
/// What memory is counted in.
const UNIT: usize = 1 << 10;
/// Longest pause within a body.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Bytes unpacked at a time.
const UNPACK_BYTES: usize = 256 << 10;

/// Memory of all bodies.
#[derive(Clone)]
pub(crate) struct Budget {
    units: Arc<Semaphore>,
    /// Bytes of one body, unpacked.
    body_bytes_max: usize,
}

impl Budget {
    /// Bodies of at most so many bytes.
    pub(crate) fn new(body_bytes_max: u64) -> Budget {
        let body_bytes_max = usize::try_from(body_bytes_max).unwrap_or(usize::MAX).min(IN_FLIGHT_BYTES);
        Budget { units: Arc::new(Semaphore::new(IN_FLIGHT_BYTES / UNIT)), body_bytes_max }
    }

    /// Bytes of one body, unpacked.
    pub(crate) fn body_bytes_max(&self) -> usize {
        self.body_bytes_max
    }

    /// Whether another body finds no room.
    pub(crate) fn is_spent(&self) -> bool {
        self.units.available_permits() == 0
    }
}

/// A body and its share of the memory.
pub(crate) struct Kept {
    pub(crate) bytes: Vec<u8>,
    budget: Budget,
    share: Option<OwnedSemaphorePermit>,
    shared_bytes: usize,
}

/// A body is too large, or comes too slowly.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// More than so many bytes.
    TooLarge(usize),
    /// Told with a code of Splunk's.
    Told(Answer),
}

impl From<Code> for BodyError {
    fn from(code: Code) -> BodyError {
        BodyError::Told(code.into())
    }
}

impl Kept {
    /// Reads the body of a request; it stays packed. One that says that it is too large is not waited for.
    pub(crate) async fn of(request: Request, budget: &Budget) -> Result<Kept, BodyError> {
        let length = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let length = length.and_then(|text| text.trim().parse::<u64>().ok());
        if length.is_some_and(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX) > budget.body_bytes_max) {
            return Err(BodyError::TooLarge(budget.body_bytes_max));
        }
        Kept::read(request.into_body(), budget).await
    }

    /// Reads a body.
    async fn read(body: Body, budget: &Budget) -> Result<Kept, BodyError> {
        let mut kept = Kept { bytes: Vec::new(), budget: budget.clone(), share: None, shared_bytes: 0 };
        let mut parts = body.into_data_stream();
        loop {
            let next = tokio::time::timeout(PAUSE_MAX, parts.next()).await;
            let Some(part) = next.map_err(|_| Code::Busy)? else { return Ok(kept) };
            let part = part.map_err(|_| Code::InvalidFormat)?;
            kept.grow(part.len())?;
            kept.bytes.extend_from_slice(&part);
        }
    }

    /// Takes memory for so many more bytes.
    fn grow(&mut self, more: usize) -> Result<(), BodyError> {
        let needed = self.bytes.len() + more;
        if needed > self.budget.body_bytes_max {
            return Err(BodyError::TooLarge(self.budget.body_bytes_max));
        }
        if needed > self.shared_bytes {
            let units = (needed - self.shared_bytes).div_ceil(UNIT);
            let taken = self.budget.units.clone().try_acquire_many_owned(u32::try_from(units).unwrap_or(u32::MAX));
            let taken = taken.map_err(|_| Code::Busy)?;
            match &mut self.share {
                Some(share) => share.merge(taken),
                None => self.share = Some(taken),
            }
            self.shared_bytes += units * UNIT;
        }
        Ok(())
    }

    /// Unpacks the body if its headers say that it is packed. Work for a thread that may block.
    pub(crate) fn unpack(self, headers: &HeaderMap) -> Result<Kept, BodyError> {
        let encoding = headers.get("content-encoding").and_then(|value| value.to_str().ok()).unwrap_or_default();
        match encoding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => return Ok(self),
            "gzip" | "x-gzip" => {}
            _ => return Err(Code::InvalidFormat.into()),
        }
        let mut unpacked = Kept { bytes: Vec::new(), budget: self.budget.clone(), share: None, shared_bytes: 0 };
        let mut decoder = MultiGzDecoder::new(&self.bytes[..]);
        let mut part = vec![0; UNPACK_BYTES];
        loop {
            let read = decoder.read(&mut part).map_err(|_| Code::InvalidFormat)?;
            if read == 0 {
                return Ok(unpacked);
            }
            unpacked.grow(read)?;
            unpacked.bytes.extend_from_slice(&part[..read]);
        }
    }
}
