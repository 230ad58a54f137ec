//! Requests to a remote store: server selection, concurrency limit, timeouts, retries.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, future, stream};
use object_store::aws::AmazonS3;
use object_store::client::{HttpError, HttpErrorKind};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, MultipartId, ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload};
use quarry_stdx::SharedClock;
use tokio::sync::Semaphore;
use tokio::time;

use super::added_headers::AddedHeaders;
use super::checksums::FOOTER_BYTES;
use super::endpoints::{Endpoints, Outcome};
use super::hedge::{self, Hedge};
use super::retry::{self, Budget};
use super::server_clock::{DatedConnector, ServerClock};
use super::traffic::{Counters, count};
use super::unfinished_uploads::UploadLister;
use crate::{BlobError, ListedObject, S3Settings, name};

/// Number of objects of a listing read at once, as many as one answer contains.
const LIST_PAGE_OBJECTS: usize = 1_000;
/// Maximum length in characters of the part of a server's message that is passed on.
const REASON_BYTES_MAX: usize = 300;

/// The servers of one store and the state shared by all requests.
#[derive(Debug)]
pub(crate) struct Requests {
    endpoints: Endpoints<AmazonS3>,
    pub(super) lister: UploadLister,
    pub(super) settings: S3Settings,
    pub(super) slots: Semaphore,
    pub(super) budget: Budget,
    hedge: Hedge,
    clock: SharedClock,
    server_clock: Arc<ServerClock>,
    pub(crate) counters: Counters,
}

/// Operation and object, for messages.
#[derive(Clone, Copy)]
pub(super) struct RequestContext<'a> {
    action: &'static str,
    name: &'a str,
    timeout: Duration,
    /// Part of the retry budget that retries of this request may not spend.
    reserve: i64,
}

/// A received part of an object.
#[derive(Clone, Debug)]
pub(crate) struct ObjectPart {
    pub(crate) bytes: Bytes,
    /// Offset of the part in the object.
    pub(crate) start: u64,
    /// Size of the whole stored object.
    pub(crate) stored: u64,
}

/// Keys of a listing that are still to come.
pub(crate) type Keys = BoxStream<'static, object_store::Result<ObjectMeta>>;

/// A part of a listing, without objects whose keys are not valid names below the prefix.
pub(crate) struct Listing {
    pub(crate) objects: Vec<ListedObject>,
    /// The last key of this part of the listing, which may belong to an object that is omitted; `None` if the part is
    /// empty.
    pub(crate) last: Option<Path>,
    /// Rest of the listing; `None` at the end.
    pub(crate) rest: Option<Keys>,
}

/// Reason why a request failed.
enum Failure {
    NotFound,
    /// Permanent: a retry would fail as well.
    Permanent(BlobError),
    /// Transient: a retry may succeed.
    Transient {
        reason: String,
        outcome: Outcome,
    },
}

impl Requests {
    pub(crate) fn new(settings: S3Settings, clock: SharedClock) -> Result<Requests, BlobError> {
        let numbers = [settings.requests_max, settings.part_bytes, settings.parts_max];
        if numbers.contains(&0) || settings.attempts_max == 0 {
            return Err(BlobError::Settings {
                reason: "numbers of requests, attempts, parts and bytes must be above 0".into(),
            });
        }
        let prefix = settings.prefix.split('/').all(|part| part != "." && part != "..");
        if !prefix || Path::parse(&settings.prefix).is_err() {
            return Err(BlobError::Settings { reason: format!("{:?} cannot begin a key", settings.prefix) });
        }
        let server_clock = ServerClock::new(clock.clone());
        let headers = Arc::new(AddedHeaders::new(&settings.headers, &settings.region)?);
        let connector = DatedConnector { clock: Arc::clone(&server_clock), headers };
        Ok(Requests {
            endpoints: Endpoints::new(settings.clients(&connector)?, clock.clone()),
            lister: settings.upload_lister(&connector)?,
            server_clock,
            slots: Semaphore::new(settings.requests_max),
            settings,
            budget: Budget::full(),
            hedge: Hedge::new(),
            clock,
            counters: Counters::default(),
        })
    }

    /// Current time by the clock of the servers; `None` before their first answer.
    pub(crate) fn server_now_ns(&self) -> Option<i64> {
        self.server_clock.now_ns()
    }

    /// Maximum number of attempts per request.
    pub(crate) fn attempts_max(&self) -> u32 {
        self.settings.attempts_max
    }

    /// Container and servers, for messages.
    pub(crate) fn place(&self) -> String {
        let urls: Vec<&str> = self.endpoints.urls().collect();
        format!("{} at {}", self.settings.container, urls.join(", "))
    }

    pub(super) fn path(&self, name: &str) -> Result<Path, BlobError> {
        name::check(name)?;
        let prefix = self.settings.prefix.trim_matches('/');
        let key = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
        Path::parse(key).map_err(|_| BlobError::InvalidName { name: name.to_owned(), reason: "it is not a valid key" })
    }

    /// The context of a request that reads an object or lists objects.
    pub(super) fn read_context<'a>(&self, action: &'static str, name: &'a str) -> RequestContext<'a> {
        RequestContext { action, name, timeout: self.settings.request_timeout, reserve: 0 }
    }

    /// The context of a request that changes objects.
    pub(super) fn write_context<'a>(&self, action: &'static str, name: &'a str) -> RequestContext<'a> {
        RequestContext { reserve: retry::READ_RESERVE, ..self.read_context(action, name) }
    }

    /// Sends a request until it is answered or fails permanently, or until no attempt or no retry budget is left.
    pub(super) async fn send<T, F>(&self, ask: RequestContext<'_>, call: impl Fn(AmazonS3) -> F) -> Result<T, BlobError>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let mut avoid: Option<String> = None;
        for attempt in 1.. {
            let (reason, url) = match self.send_once(ask, avoid.as_deref(), &call).await {
                Ok(answer) => {
                    if attempt == 1 {
                        self.budget.earn();
                    }
                    return Ok(answer);
                }
                Err((Failure::NotFound, _)) => return Err(BlobError::NotFound { name: ask.name.to_owned() }),
                Err((Failure::Permanent(error), _)) => return Err(error),
                Err((Failure::Transient { reason, .. }, url)) => (reason, url),
            };
            if attempt >= self.settings.attempts_max || !self.budget.spend(ask.reserve) {
                return Err(self.unavailable(ask, attempt, &reason));
            }
            count(&self.counters.repetitions, 1);
            time::sleep(retry::wait_before(attempt + 1)).await;
            avoid = Some(url);
        }
        // Unreachable, because the range of attempts is infinite, but the compiler cannot infer that.
        Err(self.unavailable(ask, u32::MAX, "the number of attempts overflowed, please report this"))
    }

    pub(super) fn unavailable(&self, ask: RequestContext<'_>, attempts: u32, reason: &str) -> BlobError {
        let (action, name) = (ask.action, ask.name.to_owned());
        BlobError::Remote { action, name, place: self.place(), attempts, reason: reason.to_owned() }
    }

    async fn send_once<T, F>(
        &self,
        ask: RequestContext<'_>,
        avoid: Option<&str>,
        call: &impl Fn(AmazonS3) -> F,
    ) -> Result<T, (Failure, String)>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        // The semaphore is never closed. If it were, requests would merely not be limited.
        let slot = self.slots.acquire().await.ok();
        let turn = self.endpoints.next(avoid);
        count(&self.counters.requests, 1);
        let ended = time::timeout(ask.timeout, call(turn.endpoint.client.clone())).await;
        drop(slot);
        let failure = match ended {
            Ok(Ok(answer)) => {
                turn.end(Outcome::Answered);
                return Ok(answer);
            }
            Ok(Err(error)) => self.failure(ask, &error),
            Err(_) => {
                let reason = format!("no answer within {} s", ask.timeout.as_secs_f64());
                Failure::Transient { reason, outcome: Outcome::Failed }
            }
        };
        let url = turn.endpoint.url.clone();
        turn.end(match &failure {
            Failure::Transient { outcome, .. } => *outcome,
            Failure::NotFound | Failure::Permanent(_) => Outcome::Answered,
        });
        Err((failure, url))
    }

    fn failure(&self, ask: RequestContext<'_>, error: &object_store::Error) -> Failure {
        use object_store::Error as Theirs;
        let reason = add_advice(truncate_message(&error.to_string()));
        match error {
            Theirs::NotFound { .. } if reason.contains("NoSuchBucket") => Failure::Permanent(BlobError::Settings {
                reason: format!("container {} does not exist; create it first", self.place()),
            }),
            Theirs::NotFound { .. } => Failure::NotFound,
            Theirs::PermissionDenied { .. } | Theirs::Unauthenticated { .. } => {
                let (action, name) = (ask.action, ask.name.to_owned());
                Failure::Permanent(BlobError::Denied { action, name, place: self.place(), reason })
            }
            Theirs::NotSupported { .. }
            | Theirs::InvalidPath { .. }
            | Theirs::NotImplemented { .. }
            | Theirs::AlreadyExists { .. }
            | Theirs::Precondition { .. }
            | Theirs::NotModified { .. } => Failure::Permanent(BlobError::Settings { reason }),
            _ => Failure::Transient { outcome: outcome_of(error), reason },
        }
    }

    /// Stores an object.
    pub(crate) async fn put(&self, name: &str, object: Bytes) -> Result<(), BlobError> {
        let path = self.path(name)?;
        if object.len() > self.settings.part_bytes {
            self.put_parts(name, &path, &object).await?;
        } else {
            let payload = PutPayload::from_bytes(object.clone());
            let put = |client: AmazonS3| {
                let (path, payload) = (path.clone(), payload.clone());
                async move { client.put(&path, payload).await }
            };
            self.send(self.write_context("write", name), put).await?;
        }
        count(&self.counters.bytes_sent, object.len() as u64);
        Ok(())
    }

    /// Begins a multipart upload.
    pub(super) async fn begin_upload(&self, name: &str) -> Result<MultipartId, BlobError> {
        let path = self.path(name)?;
        let begin = |client: AmazonS3| {
            let path = path.clone();
            async move { client.create_multipart(&path).await }
        };
        self.send(self.write_context("begin to write", name), begin).await
    }

    async fn put_parts(&self, name: &str, path: &Path, object: &Bytes) -> Result<(), BlobError> {
        let id = self.begin_upload(name).await?;
        let written = self.put_parts_of(name, path, object, &id).await;
        if written.is_err() {
            let abort = |client: AmazonS3| {
                let (path, id) = (path.clone(), id.clone());
                async move { client.abort_multipart(&path, &id).await }
            };
            // If aborting fails, the parts take up space until `delete_unfinished` or the container's lifecycle rule
            // removes them. The first error is returned.
            drop(self.send(self.write_context("abort the upload of", name), abort).await);
        }
        written
    }

    async fn put_parts_of(&self, name: &str, path: &Path, object: &Bytes, id: &MultipartId) -> Result<(), BlobError> {
        let size = self.settings.part_bytes;
        let starts = (0..object.len()).step_by(size).enumerate();
        let put_part = |(number, start): (usize, usize)| {
            let payload = PutPayload::from_bytes(object.slice(start..(start + size).min(object.len())));
            let put = move |client: AmazonS3| {
                let (path, id, payload) = (path.clone(), id.clone(), payload.clone());
                async move { client.put_part(&path, &id, number, payload).await }
            };
            self.send(self.write_context("write a part of", name), put)
        };
        // Waits for all parts before aborting, so that no part arrives after the abort.
        let parts: Vec<Result<PartId, BlobError>> =
            stream::iter(starts).map(put_part).buffered(self.settings.parts_max).collect().await;
        let parts = parts.into_iter().collect::<Result<Vec<PartId>, BlobError>>()?;
        let complete = |client: AmazonS3| {
            let (path, id, parts) = (path.clone(), id.clone(), parts.clone());
            async move { client.complete_multipart(&path, &id, parts).await }
        };
        match self.send(self.write_context("finish writing", name), complete).await {
            Ok(_) => Ok(()),
            // If the answer to the first attempt was lost, the second attempt finds no upload, although the object
            // exists.
            Err(error) => match self.get(name, GetRange::Suffix(FOOTER_BYTES as u64)).await {
                Ok(end) if object.ends_with(&end.bytes) && end.stored == object.len() as u64 => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Reads a part of an object; slow small reads are hedged.
    pub(crate) async fn read(&self, name: &str, range: GetRange) -> Result<ObjectPart, BlobError> {
        let small = match &range {
            GetRange::Bounded(range) => range.end.saturating_sub(range.start) <= hedge::READ_BYTES_MAX,
            GetRange::Suffix(len) => *len <= hedge::READ_BYTES_MAX,
            GetRange::Offset(_) => false,
        };
        if !small {
            return self.get(name, range).await;
        }
        let start_ns = self.clock.elapsed_ns();
        let read = self.get_hedged(name, range).await?;
        let took_ns = self.clock.elapsed_ns().saturating_sub(start_ns).unsigned_abs();
        self.hedge.record_duration(Duration::from_nanos(took_ns));
        Ok(read)
    }

    async fn get_hedged(&self, name: &str, range: GetRange) -> Result<ObjectPart, BlobError> {
        let mut first = Box::pin(self.get(name, range.clone()));
        tokio::select! {
            read = &mut first => return read,
            () = time::sleep(self.hedge.delay()) => {}
        }
        if !self.hedge.take_hedge() {
            return first.await;
        }
        count(&self.counters.hedges, 1);
        let mut second = Box::pin(self.get(name, range));
        tokio::select! {
            read = &mut first => if read.is_ok() { read } else { second.await },
            read = &mut second => if read.is_ok() { read } else { first.await },
        }
    }

    async fn get(&self, name: &str, range: GetRange) -> Result<ObjectPart, BlobError> {
        let path = self.path(name)?;
        let get = |client: AmazonS3| {
            let (path, options) = (path.clone(), GetOptions { range: Some(range.clone()), ..GetOptions::default() });
            async move {
                let got = client.get_opts(&path, options).await?;
                let (Range { start, end }, stored) = (got.range.clone(), got.meta.size);
                let bytes = got.bytes().await?;
                if bytes.len() as u64 == end - start {
                    return Ok(ObjectPart { bytes, start, stored });
                }
                let reason = format!("only {} of {} bytes arrived", bytes.len(), end - start);
                Err(object_store::Error::Generic { store: "S3", source: reason.into() })
            }
        };
        let part = self.send(self.read_context("read", name), get).await?;
        count(&self.counters.bytes_received, part.bytes.len() as u64);
        Ok(part)
    }

    /// Stored size of an object including its trailer; `None` if it does not exist.
    pub(crate) async fn stored_size(&self, name: &str) -> Result<Option<u64>, BlobError> {
        let path = self.path(name)?;
        let head = |client: AmazonS3| {
            let path = path.clone();
            async move { client.head(&path).await }
        };
        match self.send(self.read_context("look for", name), head).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(BlobError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes an object.
    pub(crate) async fn delete(&self, name: &str) -> Result<(), BlobError> {
        let path = self.path(name)?;
        let delete = |client: AmazonS3| {
            let path = path.clone();
            async move { client.delete(&path).await }
        };
        match self.send(self.write_context("delete", name), delete).await {
            Ok(()) | Err(BlobError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Begins a listing of all objects whose keys follow `after`, which S3 lists in ascending order.
    pub(crate) async fn list(&self, after: Option<Path>) -> Result<Listing, BlobError> {
        let prefix = Path::from(self.settings.prefix.trim_matches('/'));
        let list = |client: AmazonS3| {
            let below = (!prefix.as_ref().is_empty()).then_some(&prefix);
            let mut rest = match after.clone() {
                None => client.list(below),
                // Some servers ignore the key after which a listing is to begin.
                Some(after) => client
                    .list_with_offset(below, &after)
                    .try_filter(move |meta| future::ready(meta.location > after))
                    .boxed(),
            };
            async move {
                let page = rest.by_ref().take(LIST_PAGE_OBJECTS).try_collect::<Vec<ObjectMeta>>().await?;
                Ok((page, rest))
            }
        };
        let (page, rest) = self.send(self.read_context("list objects below", &self.settings.prefix), list).await?;
        Ok(self.listing(&page, rest))
    }

    /// The objects that follow in a listing. Not retried after a failure, because other servers do not know the
    /// position of this listing.
    pub(crate) async fn list_next(&self, mut rest: Keys) -> Result<Listing, BlobError> {
        let ask = self.read_context("list objects below", &self.settings.prefix);
        count(&self.counters.requests, 1);
        let page = rest.by_ref().take(LIST_PAGE_OBJECTS).try_collect::<Vec<ObjectMeta>>();
        match time::timeout(ask.timeout, page).await {
            Ok(Ok(page)) => Ok(self.listing(&page, rest)),
            Ok(Err(error)) => Err(self.unavailable(ask, 1, &truncate_message(&error.to_string()))),
            Err(_) => Err(self.unavailable(ask, 1, "no answer in time")),
        }
    }

    fn listing(&self, page: &[ObjectMeta], rest: Keys) -> Listing {
        let prefix = self.settings.prefix.trim_matches('/');
        let listed = |meta: &ObjectMeta| {
            let key: &str = meta.location.as_ref();
            let name = match prefix {
                "" => key,
                prefix => key.strip_prefix(prefix)?.strip_prefix('/')?,
            };
            let modified_ns = meta.last_modified.timestamp_nanos_opt().unwrap_or(0);
            name::check(name).is_ok().then(|| ListedObject { name: name.to_owned(), bytes: meta.size, modified_ns })
        };
        let more = page.len() == LIST_PAGE_OBJECTS;
        let last = page.last().map(|meta| meta.location.clone());
        Listing { objects: page.iter().filter_map(listed).collect(), last, rest: more.then_some(rest) }
    }
}

/// The outcome of a failed request, by which its server is judged healthy or not.
fn outcome_of(error: &object_store::Error) -> Outcome {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if let Some(http) = error.downcast_ref::<HttpError>() {
            return if http.kind() == HttpErrorKind::Connect { Outcome::Unreachable } else { Outcome::Failed };
        }
        cause = error.source();
    }
    Outcome::Failed
}

/// Address of the service by which cloud machines learn their own access keys.
const METADATA_SERVICE: &str = "169.254.169.254";

/// Adds advice to the error of a failed metadata service, which the client queries if no access key is set.
pub(super) fn add_advice(reason: String) -> String {
    match reason.contains(METADATA_SERVICE) {
        true => format!(
            "no access key is set (remote.s3.access_key and remote.s3.secret_key, or AWS_ACCESS_KEY_ID and \
             AWS_SECRET_ACCESS_KEY), and the metadata service of this machine gives none: {reason}"
        ),
        false => reason,
    }
}

/// A server's message as one line of bounded length.
pub(super) fn truncate_message(reason: &str) -> String {
    let line = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(REASON_BYTES_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
