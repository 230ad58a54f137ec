//! Request bodies within a memory budget shared by all requests.
//!
//! A body is counted as it arrives and as it is decompressed. The data decoded from it may be many times larger: an
//! empty JSON object takes two bytes of text, and labels sent once may apply to thousands of events. For decoded data,
//! a [`MemoryReservation`] takes bytes from a second budget before the memory is allocated.

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
use tokio::time::Instant;

use super::answer::{Answer, Code};

/// Maximum bytes of all bodies in memory, unless [`COPIES_OF_A_BODY`] bodies of the maximum size need more.
const IN_FLIGHT_BYTES: usize = 256 << 20;
/// Maximum bytes decoded from all bodies and not stored yet, unless [`COPIES_OF_A_BODY`] bodies of the maximum size
/// need more.
const DECODED_BYTES_MAX: usize = 512 << 20;
/// Number of bodies of the maximum size for which each budget has room: a body may be in memory next to its compressed
/// form, and the events decoded from it may be larger than the body.
const COPIES_OF_A_BODY: usize = 2;
/// Minimum bytes reserved at a time.
const RESERVATION_STEP_BYTES: usize = 64 << 10;
/// Bytes per permit of the budget.
const PERMIT_BYTES: usize = 1 << 10;
/// Minimum rate at which a body must arrive.
const MINIMUM_RATE: MinimumRate =
    MinimumRate { pause: Duration::from_secs(30), window: Duration::from_secs(60), bytes: 16 << 10 };
/// Bytes decompressed at a time.
const DECOMPRESS_STEP_BYTES: usize = 256 << 10;

/// Minimum rate of a body, so that slow senders cannot hold memory.
#[derive(Clone, Copy)]
pub(crate) struct MinimumRate {
    /// Longest pause between two parts of a body.
    pub(crate) pause: Duration,
    /// Period in which [`MinimumRate::bytes`] bytes, or the end of the body, must arrive.
    pub(crate) window: Duration,
    /// Minimum bytes per period.
    pub(crate) bytes: usize,
}

/// Memory budget of all bodies.
#[derive(Clone)]
pub(crate) struct Budget {
    units: Arc<Semaphore>,
    made_units: Arc<Semaphore>,
    /// Maximum decompressed bytes of one body.
    body_bytes_max: usize,
    /// Maximum bytes decoded from one body.
    decoded_bytes_max: usize,
    pace: MinimumRate,
}

impl Budget {
    /// Creates a budget for bodies of at most this size. It always has room for [`COPIES_OF_A_BODY`] such bodies.
    pub(crate) fn new(body_bytes_max: u64) -> Budget {
        let body_bytes_max = usize::try_from(body_bytes_max).unwrap_or(usize::MAX);
        let largest = body_bytes_max.div_ceil(PERMIT_BYTES).saturating_mul(COPIES_OF_A_BODY);
        let units = |usual_bytes: usize| {
            let permits = (usual_bytes / PERMIT_BYTES).max(largest);
            Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)))
        };
        Budget {
            units: units(IN_FLIGHT_BYTES),
            made_units: units(DECODED_BYTES_MAX),
            body_bytes_max,
            decoded_bytes_max: DECODED_BYTES_MAX.max(body_bytes_max.saturating_mul(COPIES_OF_A_BODY)),
            pace: MINIMUM_RATE,
        }
    }

    /// Sets another minimum rate.
    #[cfg(test)]
    pub(crate) fn with_minimum_rate(self, pace: MinimumRate) -> Budget {
        Budget { pace, ..self }
    }

    /// The same budget for bodies of at most this size.
    pub(crate) fn limited_to(&self, body_bytes_max: usize) -> Budget {
        Budget { body_bytes_max: body_bytes_max.min(self.body_bytes_max), ..self.clone() }
    }

    /// True if the budget has no room for another body.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.units.available_permits() == 0
    }
}

/// A body in memory with its share of the budget.
pub(crate) struct BudgetedBody {
    pub(crate) bytes: Vec<u8>,
    budget: Budget,
    share: Option<OwnedSemaphorePermit>,
    shared_bytes: usize,
}

/// Reason for refusing a request's body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// The body has more than this many bytes.
    TooLarge(usize),
    /// The body arrived too slowly.
    TooSlow,
    /// The decoded body exceeds this many bytes.
    DecodedTooLarge(usize),
    /// Refused with one of Splunk's codes.
    Refused(Answer),
}

impl From<Code> for BodyError {
    fn from(code: Code) -> BodyError {
        BodyError::Refused(code.into())
    }
}

/// A request's share of the budget for decoded data, released when dropped.
pub(crate) struct MemoryReservation {
    units: Arc<Semaphore>,
    taken: Option<OwnedSemaphorePermit>,
    taken_bytes: usize,
    left: usize,
    bytes_max: usize,
    refusal: Option<BodyError>,
}

impl MemoryReservation {
    /// An empty share.
    pub(crate) fn new(budget: &Budget) -> MemoryReservation {
        let (units, bytes_max) = (Arc::clone(&budget.made_units), budget.decoded_bytes_max);
        MemoryReservation { units, taken: None, taken_bytes: 0, left: 0, bytes_max, refusal: None }
    }

    /// Reserves bytes; `None` if that is impossible, and [`MemoryReservation::refusal`] then returns the reason.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Option<()> {
        if let Some(left) = self.left.checked_sub(bytes) {
            self.left = left;
            return Some(());
        }
        let step = (bytes - self.left).max(RESERVATION_STEP_BYTES).div_ceil(PERMIT_BYTES);
        if self.taken_bytes.saturating_add(step.saturating_mul(PERMIT_BYTES)) > self.bytes_max {
            self.refusal = Some(BodyError::DecodedTooLarge(self.bytes_max));
            return None;
        }
        let Ok(taken) = Arc::clone(&self.units).try_acquire_many_owned(u32::try_from(step).unwrap_or(u32::MAX)) else {
            self.refusal = Some(Code::Busy.into());
            return None;
        };
        match &mut self.taken {
            Some(before) => before.merge(taken),
            None => self.taken = Some(taken),
        }
        self.taken_bytes += step * PERMIT_BYTES;
        self.left = self.left + step * PERMIT_BYTES - bytes;
        Some(())
    }

    /// True if a reservation has failed.
    pub(crate) fn is_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// Fails with the reason for which another share failed.
    pub(crate) fn refuse_as<T>(&mut self, other: MemoryReservation) -> Option<T> {
        self.refusal = other.refusal;
        None
    }

    /// Reason why the body was not decoded: lack of memory, or an invalid body.
    pub(crate) fn refusal(self) -> BodyError {
        self.refusal.unwrap_or(Code::InvalidFormat.into())
    }
}

impl BudgetedBody {
    /// Reads the body of a request, still compressed. A body whose declared length exceeds the limit is refused at
    /// once.
    pub(crate) async fn of(request: Request, budget: &Budget) -> Result<BudgetedBody, BodyError> {
        let length = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let length = length.and_then(|text| text.trim().parse::<u64>().ok());
        if length.is_some_and(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX) > budget.body_bytes_max) {
            return Err(BodyError::TooLarge(budget.body_bytes_max));
        }
        BudgetedBody::read(request.into_body(), budget).await
    }

    /// Reads a body within the budget and at the minimum rate.
    async fn read(body: Body, budget: &Budget) -> Result<BudgetedBody, BodyError> {
        let mut kept = BudgetedBody { bytes: Vec::new(), budget: budget.clone(), share: None, shared_bytes: 0 };
        let mut parts = body.into_data_stream();
        let pace = budget.pace;
        let (mut window, mut came) = (Instant::now() + pace.window, 0);
        loop {
            let latest = window.min(Instant::now() + pace.pause);
            let next = tokio::time::timeout_at(latest, parts.next()).await;
            let Some(part) = next.map_err(|_| BodyError::TooSlow)? else { return Ok(kept) };
            let part = part.map_err(|_| Code::InvalidFormat)?;
            kept.grow(part.len())?;
            kept.bytes.extend_from_slice(&part);
            came += part.len();
            if came >= pace.bytes {
                (window, came) = (Instant::now() + pace.window, 0);
            }
        }
    }

    /// Reserves memory for more bytes.
    fn grow(&mut self, more: usize) -> Result<(), BodyError> {
        let needed = self.bytes.len() + more;
        if needed > self.budget.body_bytes_max {
            return Err(BodyError::TooLarge(self.budget.body_bytes_max));
        }
        if needed > self.shared_bytes {
            let units = (needed - self.shared_bytes).div_ceil(PERMIT_BYTES);
            let taken = self.budget.units.clone().try_acquire_many_owned(u32::try_from(units).unwrap_or(u32::MAX));
            let taken = taken.map_err(|_| Code::Busy)?;
            match &mut self.share {
                Some(share) => share.merge(taken),
                None => self.share = Some(taken),
            }
            self.shared_bytes += units * PERMIT_BYTES;
        }
        Ok(())
    }

    /// Decompresses the body if its headers say so. May block.
    pub(crate) fn decompress(self, headers: &HeaderMap) -> Result<BudgetedBody, BodyError> {
        let encoding = headers.get("content-encoding").and_then(|value| value.to_str().ok()).unwrap_or_default();
        match encoding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => return Ok(self),
            "gzip" | "x-gzip" => {}
            _ => return Err(Code::InvalidFormat.into()),
        }
        let mut unpacked =
            BudgetedBody { bytes: Vec::new(), budget: self.budget.clone(), share: None, shared_bytes: 0 };
        let mut decoder = MultiGzDecoder::new(&self.bytes[..]);
        let mut part = vec![0; DECOMPRESS_STEP_BYTES];
        loop {
            let read = decoder.read(&mut part).map_err(|_| Code::InvalidFormat)?;
            if read == 0 {
                return Ok(unpacked);
            }
            unpacked.grow(read)?;
            unpacked.bytes.extend_from_slice(&part[..read]);
        }
    }

    /// Decompresses a snappy body, whose length is known in advance.
    pub(crate) fn decompress_snappy(self) -> Result<BudgetedBody, BodyError> {
        let length = snap::raw::decompress_len(&self.bytes).map_err(|_| Code::InvalidFormat)?;
        let mut unpacked =
            BudgetedBody { bytes: Vec::new(), budget: self.budget.clone(), share: None, shared_bytes: 0 };
        unpacked.grow(length)?;
        unpacked.bytes = snap::raw::Decoder::new().decompress_vec(&self.bytes).map_err(|_| Code::InvalidFormat)?;
        Ok(unpacked)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use axum::body::{Body, Bytes};
    use axum::http::header::CONTENT_ENCODING;
    use axum::http::{HeaderMap, HeaderValue, Request};
    use futures::stream::{self, StreamExt};

    use super::{BodyError, Budget, BudgetedBody, IN_FLIGHT_BYTES, MinimumRate};

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(600);

    fn part() -> Result<Bytes, Infallible> {
        Ok(Bytes::from_static(b"x"))
    }

    async fn read(pace: MinimumRate, body: Body) -> Result<usize, BodyError> {
        BudgetedBody::of(Request::new(body), &Budget::new(1 << 28).with_minimum_rate(pace))
            .await
            .map(|kept| kept.bytes.len())
    }

    #[tokio::test]
    async fn bodies_that_arrive_too_slowly_are_refused() {
        let silent = || Body::from_stream(stream::iter([part()]).chain(stream::pending()));
        let pace = MinimumRate { pause: SHORT, window: LONG, bytes: 100 };
        assert_eq!(read(pace, silent()).await, Err(BodyError::TooSlow));
        let pace = MinimumRate { pause: LONG, window: SHORT, bytes: 100 };
        assert_eq!(read(pace, silent()).await, Err(BodyError::TooSlow));
        // The body arrives steadily, but too slowly.
        let slow = stream::unfold(0, |round| async move {
            tokio::task::yield_now().await;
            let bytes = if round % 1_000 == 0 { Bytes::from_static(b"x") } else { Bytes::new() };
            Some((Ok::<_, Infallible>(bytes), round + 1))
        });
        let pace = MinimumRate { pause: LONG, window: SHORT, bytes: usize::MAX };
        assert_eq!(read(pace, Body::from_stream(slow)).await, Err(BodyError::TooSlow));
        let whole = Body::from_stream(stream::iter((0..500).map(|_| part())));
        assert_eq!(read(MinimumRate { pause: LONG, window: LONG, bytes: 10 }, whole).await, Ok(500));
    }

    #[tokio::test]
    async fn oversized_bodies_without_length_are_refused() {
        // The body never ends.
        let endless = Body::from_stream(stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 64]))));
        let kept = BudgetedBody::of(Request::new(endless), &Budget::new(1_000)).await;
        assert_eq!(kept.map(|kept| kept.decompress(&HeaderMap::new()).is_ok()), Err(BodyError::TooLarge(1_000)));
    }

    #[test]
    fn a_body_of_the_configured_size_is_accepted_also_if_it_exceeds_the_usual_budget() {
        let large = u64::try_from(IN_FLIGHT_BYTES + 1).unwrap();
        let budget = Budget::new(large);
        let mut body = BudgetedBody { bytes: Vec::new(), budget: budget.clone(), share: None, shared_bytes: 0 };
        assert_eq!(body.grow(IN_FLIGHT_BYTES + 2), Err(BodyError::TooLarge(IN_FLIGHT_BYTES + 1)));
        assert_eq!(body.grow(IN_FLIGHT_BYTES + 1), Ok(()));
        let mut unpacked = BudgetedBody { bytes: Vec::new(), budget, share: None, shared_bytes: 0 };
        assert_eq!(unpacked.grow(IN_FLIGHT_BYTES), Ok(()), "the body and its decompressed form fit into the budget");
        assert!(!Budget::new(u64::MAX).is_exhausted());
    }

    #[test]
    fn a_limited_budget_ends_decompression_at_its_limit() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, &vec![b' '; 1 << 24]).unwrap();
        let budget = Budget::new(1 << 28).limited_to(1 << 20);
        let bytes = gzip.finish().unwrap();
        let body = BudgetedBody { bytes, budget, share: None, shared_bytes: 0 };
        let headers = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static("gzip"))]);
        assert_eq!(body.decompress(&headers).map(|body| body.bytes.len()), Err(BodyError::TooLarge(1 << 20)));
    }
}
