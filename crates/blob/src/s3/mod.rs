//! Objects on an S3-compatible store.
//!
//! The store uses only puts, range gets, listings and deletes of immutable objects, so that it works with any S3
//! implementation; it does not depend on conditional puts or consistent listings. Each object carries checksums of its
//! blocks ([`checksums`]); puts carry a SHA-256 that the server verifies.
//!
//! Calls block: requests run concurrently on two dedicated threads while the caller waits. [`endpoints`] chooses
//! servers; [`retry`] and [`hedge`] decide when a request is repeated.
//!
//! Not here: which objects should exist, and local copies.

mod added_headers;
mod checksums;
mod endpoints;
mod hedge;
mod requests;
mod retry;
mod server_clock;
mod settings;
#[cfg(test)]
mod tests;
mod traffic;
mod unfinished_uploads;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, future, stream};
use object_store::GetRange;
use object_store::path::Path;
use quarry_bucket::{ReadAt, ReadError};
use quarry_stdx::SharedClock;
use tokio::runtime::{Builder, Runtime};

pub(crate) use self::checksums::BLOCK_BYTES;
use self::checksums::{BlockChecksums, Footer};
use self::requests::{ObjectPart, Requests};
use self::traffic::count;
use crate::{BlobError, BlobStore, ListedObject, OpenedObject};

pub use self::added_headers::S3Header;
pub use self::settings::{S3Credentials, S3Encryption, S3Settings};
pub use self::traffic::S3Traffic;

/// Threads of the runtime.
const RUNTIME_THREADS: usize = 2;
/// Bytes read from an object's end by [`BlobStore::open`]: enough for the checksums of 50 MB and a part of the object.
const TAIL_BYTES: u64 = 64 << 10;
/// Minimum bytes read from an object's end: its footer, some checksums, and the last two blocks.
const END_BYTES_MIN: u64 = 3 * BLOCK_BYTES;
/// Maximum bytes read by one request.
const READ_BYTES_MAX: u64 = 4 << 20;
/// Concurrent requests for one range.
const CONCURRENT_READS_MAX: usize = 8;
/// Concurrent range reads of one call: more than the columns of a page usually take.
const CONCURRENT_RANGES_MAX: usize = 64;
/// Concurrent puts of one call.
const CONCURRENT_PUTS_MAX: usize = 8;
/// Maximum number of consecutive attempts at a listing that pass no further object.
const LIST_ATTEMPTS_MAX: u32 = 5;
/// Maximum number of reads of a range whose checksums do not match.
const READ_ATTEMPTS_MAX: u32 = 4;

/// A store of objects in one container (bucket) of an S3-compatible service.
pub struct S3Store {
    core: Arc<Core>,
}

/// State shared by a store and its open objects.
struct Core {
    requests: Arc<Requests>,
    /// `None` only during the drop.
    runtime: Option<Runtime>,
}

impl fmt::Debug for S3Store {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("S3").field(&self.core.requests.place()).finish()
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // The value may be dropped where blocking is forbidden, so the runtime shuts down in the background.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Core {
    /// Runs asynchronous work and waits for its result.
    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, BlobError>> + Send + 'static,
    ) -> Result<T, BlobError> {
        let (tell, reported) = sync_channel(1);
        let ended = || BlobError::Settings { reason: "its threads ended".to_owned() };
        let runtime = self.runtime.as_ref().ok_or_else(ended)?;
        runtime.spawn(async move {
            // The receiver is gone if the caller's thread has ended.
            drop(tell.send(work.await));
        });
        reported.recv().unwrap_or_else(|_| Err(ended()))
    }
}

impl S3Store {
    /// Opens a store without contacting it.
    pub fn open(settings: S3Settings, clock: SharedClock) -> Result<S3Store, BlobError> {
        let requests = Arc::new(Requests::new(settings, clock)?);
        let built =
            Builder::new_multi_thread().worker_threads(RUNTIME_THREADS).thread_name("quarry-s3").enable_all().build();
        let runtime = built.map_err(|error| BlobError::Settings { reason: format!("no threads: {error}") })?;
        Ok(S3Store { core: Arc::new(Core { requests, runtime: Some(runtime) }) })
    }

    /// Statistics of requests so far.
    pub fn traffic(&self) -> S3Traffic {
        self.core.requests.counters.read()
    }
}

impl BlobStore for S3Store {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), BlobError> {
        self.put_all(&[(name, bytes)])
    }

    fn put_all(&self, objects: &[(&str, &[u8])]) -> Result<(), BlobError> {
        objects.iter().try_for_each(|(name, _)| crate::name::check(name))?;
        for some in objects.chunks(CONCURRENT_PUTS_MAX) {
            // The data must outlive the requests, so it is copied, in groups to bound memory.
            let objects: Vec<(String, Bytes)> =
                some.iter().map(|(name, bytes)| ((*name).to_owned(), with_trailer(bytes))).collect();
            let requests = Arc::clone(&self.core.requests);
            self.core.wait(async move {
                let put = |(name, object): (String, Bytes)| {
                    let requests = Arc::clone(&requests);
                    async move { requests.put(&name, object).await }
                };
                // Waits for all uploads before reporting the first failure: an upload dropped halfway would leave its
                // parts behind.
                let ended: Vec<Result<(), BlobError>> =
                    stream::iter(objects).map(put).buffer_unordered(CONCURRENT_PUTS_MAX).collect().await;
                ended.into_iter().collect::<Result<(), BlobError>>()
            })?;
        }
        Ok(())
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>, BlobError> {
        self.open_with_tail(name, TAIL_BYTES)
    }

    fn verifies_checksums(&self) -> bool {
        true
    }

    fn open_with_tail(&self, name: &str, end_bytes: u64) -> Result<Arc<dyn ReadAt>, BlobError> {
        let (requests, name) = (Arc::clone(&self.core.requests), name.to_owned());
        let end_bytes = end_bytes.clamp(END_BYTES_MIN, READ_BYTES_MAX);
        let layout = self.core.wait(async move { Layout::read(&requests, name, end_bytes).await })?;
        Ok(Arc::new(S3Object { core: Arc::clone(&self.core), layout: Arc::new(layout) }))
    }

    fn open_and_read(&self, name: &str, end_bytes: u64, ranges: &[Range<u64>]) -> Result<OpenedObject, BlobError> {
        let is_one_request = |range: &Range<u64>| (1..=READ_BYTES_MAX).contains(&range.end.saturating_sub(range.start));
        // Other ranges are read after opening.
        let is_early = ranges.len() <= CONCURRENT_RANGES_MAX && ranges.iter().all(is_one_request);
        let early = if is_early { ranges } else { &[] };
        let (requests, name, early) = (Arc::clone(&self.core.requests), name.to_owned(), early.to_vec());
        let end_bytes = end_bytes.clamp(END_BYTES_MIN, READ_BYTES_MAX);
        let (layout, parts) = self.core.wait(async move {
            let read = |range: Range<u64>| requests.read(&name, GetRange::Bounded(range));
            let parts = future::join_all(early.into_iter().map(read));
            let (layout, parts) = future::join(Layout::read(&requests, name.clone(), end_bytes), parts).await;
            Ok((layout?, parts))
        })?;
        let verified = |(range, part): (&Range<u64>, Result<ObjectPart, BlobError>)| {
            part.ok().filter(|part| layout.is_verified(range, part)).map(|part| part.bytes)
        };
        let read: Option<Vec<Bytes>> = match parts.len() == ranges.len() {
            true => ranges.iter().zip(parts).map(verified).collect(),
            false => None,
        };
        let object: Arc<dyn ReadAt> = Arc::new(S3Object { core: Arc::clone(&self.core), layout: Arc::new(layout) });
        // If the read failed or does not match its checksums, it is repeated; an error is reported only then.
        let read = read.map_or_else(|| object.read_ranges(ranges), Ok);
        Ok(OpenedObject { object, read })
    }

    fn delete(&self, name: &str) -> Result<(), BlobError> {
        let (requests, name) = (Arc::clone(&self.core.requests), name.to_owned());
        self.core.wait(async move { requests.delete(&name).await })
    }

    fn exists(&self, name: &str) -> Result<bool, BlobError> {
        let (requests, name) = (Arc::clone(&self.core.requests), name.to_owned());
        Ok(self.core.wait(async move { requests.stored_size(&name).await })?.is_some())
    }

    fn delete_unfinished(&self, before_ns: i64, is_own: &dyn Fn(&str) -> bool) -> Result<u64, BlobError> {
        let requests = Arc::clone(&self.core.requests);
        let mut uploads = self.core.wait(async move { requests.unfinished_uploads().await })?;
        uploads.retain(|upload| upload.begun_ns < before_ns && is_own(&upload.name));
        let mut deleted = 0;
        for upload in uploads {
            let requests = Arc::clone(&self.core.requests);
            self.core.wait(async move { requests.abort_upload(&upload).await })?;
            deleted += 1;
        }
        Ok(deleted)
    }

    fn now_ns(&self) -> Option<i64> {
        self.core.requests.server_now_ns()
    }

    fn list(&self) -> Result<Vec<String>, BlobError> {
        let mut names = BTreeSet::new();
        self.list_each(&mut |listed| names.extend([listed.name]))?;
        Ok(names.into_iter().collect())
    }

    fn list_each(&self, visit: &mut dyn FnMut(ListedObject)) -> Result<(), BlobError> {
        let (mut last, mut attempt) = (None, 1);
        loop {
            let before = last.clone();
            match self.list_after(&mut last, visit) {
                // A request whose attempts are used up is not repeated.
                Err(BlobError::Remote { attempts, .. })
                    if attempt < LIST_ATTEMPTS_MAX && attempts < self.core.requests.attempts_max() =>
                {
                    attempt = if last == before { attempt + 1 } else { 1 };
                    count(&self.core.requests.counters.repetitions, 1);
                }
                listed => return listed,
            }
        }
    }
}

impl S3Store {
    /// Passes every object whose key follows `last` to `visit`, and sets `last` to the last key passed. Only the first
    /// request is retried. If a later request fails, the listing fails, and the caller can continue it from `last`. A
    /// listing from the beginning would pass objects twice, and would separate the objects of a bucket.
    fn list_after(&self, last: &mut Option<Path>, visit: &mut dyn FnMut(ListedObject)) -> Result<(), BlobError> {
        let (requests, after) = (Arc::clone(&self.core.requests), last.clone());
        let mut listing = self.core.wait(async move { requests.list(after).await })?;
        loop {
            listing.objects.into_iter().for_each(&mut *visit);
            *last = listing.last.or(last.take());
            let Some(rest) = listing.rest else { return Ok(()) };
            let requests = Arc::clone(&self.core.requests);
            listing = self.core.wait(async move { requests.list_next(rest).await })?;
        }
    }
}

fn with_trailer(bytes: &[u8]) -> Bytes {
    let trailer = checksums::trailer(bytes);
    let mut object = BytesMut::with_capacity(bytes.len() + trailer.len());
    object.extend_from_slice(bytes);
    object.extend_from_slice(&trailer);
    object.freeze()
}

/// Layout of an object, known after reading its end.
struct Layout {
    name: String,
    sums: BlockChecksums,
    /// Offset and content of the last whole blocks, if they were read with the trailer and not taken yet.
    end: Mutex<(u64, Bytes)>,
}

impl Layout {
    async fn read(requests: &Requests, name: String, end_bytes: u64) -> Result<Layout, BlobError> {
        for attempt in 1..=READ_ATTEMPTS_MAX {
            if attempt > 1 {
                count(&requests.counters.refetches, 1);
            }
            let end = requests.read(&name, GetRange::Suffix(end_bytes)).await?;
            if let Some((footer, trailer)) = trailer_of(requests, &name, &end).await?
                && let Some(sums) = BlockChecksums::read(&trailer, footer)
                && let Some(end) = whole_blocks(&sums, &end)
            {
                return Ok(Layout { name, sums, end: Mutex::new(end) });
            }
        }
        Err(BlobError::Damaged { name, reason: "its trailer does not match its checksum".to_owned() })
    }

    fn end(&self) -> MutexGuard<'_, (u64, Bytes)> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a part of the object is this range of whole blocks and matches its checksums.
    fn is_verified(&self, range: &Range<u64>, part: &ObjectPart) -> bool {
        part.start == range.start
            && range.start.is_multiple_of(self.sums.block_bytes())
            && part.bytes.len() as u64 == range.end - range.start
            && self.sums.match_bytes(range.start, &part.bytes)
    }

    /// Reads whole blocks and verifies their checksums.
    async fn blocks(&self, requests: &Requests, range: Range<u64>) -> Result<Bytes, BlobError> {
        for attempt in 1..=READ_ATTEMPTS_MAX {
            if attempt > 1 {
                count(&requests.counters.refetches, 1);
            }
            let part = requests.read(&self.name, GetRange::Bounded(range.clone())).await?;
            if self.is_verified(&range, &part) {
                return Ok(part.bytes);
            }
        }
        let reason = format!("bytes {} to {} do not match their checksums", range.start, range.end);
        Err(BlobError::Damaged { name: self.name.clone(), reason })
    }

    /// Reads a non-empty range inside the object.
    async fn range(&self, requests: &Requests, offset: u64, len: usize) -> Result<Bytes, BlobError> {
        let around = self.sums.enclosing_blocks(offset, len as u64);
        let (start, end) = self.end().clone();
        let (from, found) = if around.start >= start && around.end <= start + end.len() as u64 {
            (start, end)
        } else {
            let pieces = around.clone().step_by(READ_BYTES_MAX as usize);
            let read = |from: u64| self.blocks(requests, from..(from + READ_BYTES_MAX).min(around.end));
            let read: Vec<Result<Bytes, BlobError>> =
                stream::iter(pieces).map(read).buffered(CONCURRENT_READS_MAX).collect().await;
            let read = read.into_iter().collect::<Result<Vec<Bytes>, BlobError>>()?;
            (around.start, if read.len() == 1 { read[0].clone() } else { read.concat().into() })
        };
        let skipped = (offset - from) as usize;
        Ok(found.slice(skipped..skipped + len))
    }
}

/// The footer and trailer of an object whose end was read; reads the rest of the trailer if necessary. `None` if the
/// end is not a footer.
async fn trailer_of(requests: &Requests, name: &str, end: &ObjectPart) -> Result<Option<(Footer, Bytes)>, BlobError> {
    let Some(footer) = Footer::read(&end.bytes, end.stored) else { return Ok(None) };
    let start = end.stored - footer.trailer;
    if start >= end.start {
        return Ok(Some((footer, end.bytes.slice((start - end.start) as usize..))));
    }
    let trailer = requests.read(name, GetRange::Bounded(start..end.stored)).await?;
    Ok(Some((footer, trailer.bytes)))
}

/// The whole blocks that came with an object's end; `None` if they do not match their checksums.
fn whole_blocks(sums: &BlockChecksums, end: &ObjectPart) -> Option<(u64, Bytes)> {
    let start = end.start.next_multiple_of(sums.block_bytes()).min(sums.size());
    if start == sums.size() {
        return Some((start, Bytes::new()));
    }
    let blocks = end.bytes.slice((start - end.start) as usize..(sums.size() - end.start) as usize);
    sums.match_bytes(start, &blocks).then_some((start, blocks))
}

/// An object whose checksums are known.
struct S3Object {
    core: Arc<Core>,
    layout: Arc<Layout>,
}

impl ReadAt for S3Object {
    fn len(&self) -> u64 {
        self.layout.sums.size()
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadError> {
        let size = self.len();
        if offset.checked_add(len as u64).is_none_or(|end| end > size) {
            return Err(ReadError::PastEnd { offset, len, size });
        }
        if len == 0 {
            return Ok(Bytes::new());
        }
        let (requests, layout) = (Arc::clone(&self.core.requests), Arc::clone(&self.layout));
        let read = self.core.wait(async move { layout.range(&requests, offset, len).await });
        read.map_err(|error| error.into_read_error(offset, len))
    }

    fn take_tail(&self) -> Option<(u64, Bytes)> {
        let (start, bytes) = std::mem::take(&mut *self.layout.end());
        (!bytes.is_empty()).then_some((start, bytes))
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ReadError> {
        let size = self.len();
        for range in ranges {
            if range.start > range.end || range.end > size {
                let len = range.end.saturating_sub(range.start) as usize;
                return Err(ReadError::PastEnd { offset: range.start, len, size });
            }
        }
        let (requests, layout, ranges) = (Arc::clone(&self.core.requests), Arc::clone(&self.layout), ranges.to_vec());
        let read = self.core.wait(async move {
            let read = |range: Range<u64>| {
                let (requests, layout) = (&requests, &layout);
                async move {
                    match range.end - range.start {
                        0 => Ok(Bytes::new()),
                        len => layout.range(requests, range.start, len as usize).await,
                    }
                }
            };
            let read: Vec<Result<Bytes, BlobError>> =
                stream::iter(ranges).map(read).buffered(CONCURRENT_RANGES_MAX).collect().await;
            read.into_iter().collect::<Result<Vec<Bytes>, BlobError>>()
        });
        read.map_err(|error| error.into_read_error(0, 0))
    }
}
