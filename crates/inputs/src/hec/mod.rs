//! The HTTP Event Collector: `/services/collector` and below, with Splunk's answers.
//!
//! A request whose token uses acknowledgment is answered at once with an id, and `/ack` reports when its events are
//! durable. Any other request is answered with success once its events are durable. All requests share one memory
//! budget for bodies; beyond this budget, and while the store accepts no events, senders are asked to retry.
//!
//! Behaviour follows Splunk's public description of the collector, and observed error answers. Not here: TLS,
//! persistence of tokens, forwarders that speak S2S over HTTP.

mod ack_numbers;
mod answer;
mod body;
mod channels;
mod decoding_pool;
mod envelope;
mod json_memory;
mod other_protocols;
mod receive;
mod response_hook;
mod retries;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use quarry_conf::{ConnectionHost, HttpInputSettings, HttpToken, PropsResolver};
use quarry_event::SentRequest;
use quarry_pipeline::EventTyping;
use quarry_stdx::{Fault, SharedClock};
use serde_json::{Map, Value, json};

use crate::{ClientProof, EventStore, SinkError};
pub use ack_numbers::AckNumbers;
pub(crate) use envelope::seconds;
pub use response_hook::ResponseHook;

use answer::{Answer, AnswerBody, Code};
use body::{BodyError, Budget, BudgetedBody, MemoryReservation};
use channels::{AckState, ChannelError, Channels};
use decoding_pool::DecodingPool;
use receive::{Appends, Destination, Receiver, Repeatable, RequestMetadata};
use retries::{Attempt, EARLIER_ATTEMPT_TIMEOUT, EarlierResult, Retries, Submission};

/// Prefix of the sender's name in the keys of requests without a channel; the names of channels cannot begin with it.
const SENDER_PREFIX: &str = "sender:";
/// Maximum size of an acknowledgment query: the maximum number of ids on a channel, at about forty bytes each.
const ACKS_BYTES_MAX: usize = 4 << 20;

type Tokens = BTreeMap<String, Arc<HttpToken>>;

/// A collector that passes events to a store.
pub struct Collector {
    /// Tokens by their secret.
    tokens: RwLock<Tokens>,
    channel_idle_seconds: Option<u64>,
    channels: Channels,
    retries: Arc<Retries>,
    destination: Destination,
    clock: SharedClock,
    budget: Budget,
    /// Threads that decode large bodies.
    decoding_pool: Arc<DecodingPool>,
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Collector").field("tokens", &self.tokens().len()).finish_non_exhaustive()
    }
}

impl Collector {
    /// A collector that stores events in `store`; `props` breaks text into events. Bodies may have `body_bytes_max`
    /// decompressed bytes. `numbers` provides the ids of requests with acknowledgment.
    pub fn new(
        settings: HttpInputSettings,
        body_bytes_max: u64,
        numbers: AckNumbers,
        store: Arc<dyn EventStore>,
        props: Arc<PropsResolver>,
        clock: SharedClock,
    ) -> Collector {
        Collector {
            tokens: RwLock::new(tokens_by_value(settings.tokens)),
            channel_idle_seconds: settings.channel_idle_seconds,
            channels: Channels::new(numbers),
            retries: Arc::default(),
            destination: Destination {
                store,
                typing: EventTyping::new(Arc::clone(&props)),
                props,
                orders: Arc::default(),
            },
            clock,
            budget: Budget::new(body_bytes_max),
            decoding_pool: Arc::default(),
        }
    }

    /// Replaces the tokens; requests in progress continue.
    pub fn set_tokens(&self, tokens: Vec<HttpToken>) {
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = tokens_by_value(tokens);
    }

    fn tokens(&self) -> RwLockReadGuard<'_, Tokens> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Routes of OTLP over gRPC, which has its own port.
    pub fn grpc_router(self: Arc<Collector>) -> Router {
        other_protocols::grpc::router().with_state(self)
    }

    /// Routes of the collector's endpoints.
    pub fn router(self: Arc<Collector>) -> Router {
        let only = |route: MethodRouter<Arc<Collector>>| route.options(answer_docker_check).fallback(not_allowed);
        let (events, raw, ack) = (|| only(post(events)), || only(post(raw)), || only(post(acks)));
        let health = || only(get(health));
        Router::new()
            .route("/services/collector", events())
            .route("/services/collector/event", events())
            .route("/services/collector/event/1.0", events())
            .route("/services/collector/raw", raw())
            .route("/services/collector/raw/1.0", raw())
            .route("/services/collector/ack", ack())
            .route("/services/collector/ack/1.0", ack())
            .route("/services/collector/health", health())
            .route("/services/collector/health/1.0", health())
            .merge(other_protocols::router())
            .fallback(not_found)
            .with_state(self)
    }

    /// Drops unused channels.
    pub fn remove_idle_channels(&self) {
        if let Some(seconds) = self.channel_idle_seconds {
            self.channels.remove_idle(seconds, self.clock.elapsed_ns());
            self.retries.remove_old(seconds, self.clock.elapsed_ns());
        }
    }

    /// Fails if the channel of a request with acknowledgment has no room.
    fn admit(&self, token: &str, channel: &str) -> Result<(), Code> {
        self.channels.reserve_number(token, channel).map_err(|error| match error {
            ChannelError::Full => Code::ChannelFull,
            ChannelError::Number(fault) => self.log_missing_number(&fault),
        })
    }

    /// Logs why no acknowledgment id could be reserved, and returns the code that makes the sender retry.
    fn log_missing_number(&self, fault: &Fault) -> Code {
        self.destination.store.warn(&format!("HTTP Event Collector: requests with useACK are refused: {fault}"));
        Code::Busy
    }

    /// Begins a request on a channel.
    fn begin(&self, token: &HttpToken, channel: &str, uri: &str, body: &BudgetedBody) -> Submission {
        let content = Retries::content_hash(uri, &body.bytes);
        let sent = self.destination.store.begin_request(Retries::request_key(&token.name, channel, content));
        self.retries.begin(&token.name, channel, content, sent, self.clock.elapsed_ns())
    }

    /// Key of a request without a channel, computed from its token, sender and content.
    fn key_without_channel(token: &HttpToken, sender: &str, uri: &str, body: &BudgetedBody) -> Repeatable {
        let content = Retries::content_hash(uri, &body.bytes);
        Repeatable::IfDivided(Retries::request_key(&token.name, &format!("{SENDER_PREFIX}{sender}"), content))
    }

    /// The valid token of a request, which authenticates the client.
    fn authorise(&self, request: &Request, query: &Query) -> Result<Arc<HttpToken>, Code> {
        let token = self.find_token(request.headers(), query)?;
        ClientProof::confirm_in(request.extensions());
        Ok(token)
    }

    fn find_token(&self, headers: &HeaderMap, query: &Query) -> Result<Arc<HttpToken>, Code> {
        let (shown, in_query) = match headers.get(header::AUTHORIZATION) {
            Some(value) => (parse_token(value.to_str().map_err(|_| Code::InvalidAuthorization)?)?, false),
            None => (query.get("token").ok_or(Code::TokenRequired)?.to_owned(), true),
        };
        let token = self.tokens().get(&shown.to_ascii_lowercase()).cloned().ok_or(Code::InvalidToken)?;
        if token.disabled {
            return Err(Code::TokenDisabled);
        }
        if in_query && !token.in_query {
            return Err(Code::QueryAuthorization);
        }
        Ok(token)
    }
}

fn tokens_by_value(tokens: Vec<HttpToken>) -> Tokens {
    tokens.into_iter().map(|token| (token.token.to_ascii_lowercase(), Arc::new(token))).collect()
}

/// The token in an `Authorization` header.
fn parse_token(value: &str) -> Result<String, Code> {
    let (scheme, rest) = value.trim().split_once(' ').ok_or(Code::InvalidAuthorization)?;
    let rest = rest.trim();
    match scheme.to_ascii_lowercase().as_str() {
        "splunk" => Ok(rest.to_owned()),
        "basic" | "apikey" => {
            let decoded = BASE64.decode(rest).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let pair = decoded.ok_or(Code::InvalidAuthorization)?;
            Ok(pair.split_once(':').ok_or(Code::InvalidAuthorization)?.1.to_owned())
        }
        _ => Err(Code::InvalidAuthorization),
    }
}

/// Query parameters; if a name occurs several times, its first value is used.
struct Query(BTreeMap<String, String>);

impl Query {
    fn of(uri: &Uri) -> Query {
        let mut parameters = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            parameters.entry(name.into_owned()).or_insert_with(|| value.into_owned());
        }
        Query(parameters)
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn request_metadata(&self) -> Result<RequestMetadata, Code> {
        let own = |name| self.get(name).map(str::to_owned);
        let time = self.get("time").map(|text| envelope::seconds(text).ok_or(Code::InvalidTime)).transpose()?;
        Ok(RequestMetadata {
            index: own("index"),
            host: own("host"),
            source: own("source"),
            sourcetype: own("sourcetype"),
            time,
        })
    }
}

/// The channel of a request; `None` if it names none.
fn channel_of(headers: &HeaderMap, query: &Query) -> Result<Option<String>, Code> {
    let header = headers.get("x-splunk-request-channel").map(|value| value.to_str().unwrap_or_default());
    match header.or(query.get("channel")) {
        None => Ok(None),
        Some(name) if Channels::is_name(name) => Ok(Some(name.to_ascii_lowercase())),
        Some(_) => Err(Code::InvalidChannel),
    }
}

/// Default host of a request's events.
fn default_host(request: &Request, token: &HttpToken) -> String {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let address = || request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip().to_string());
    let proxied =
        || header("x-forwarded-for").and_then(|list| list.split(',').next()).map(|first| first.trim().to_owned());
    let found = match token.connection_host {
        ConnectionHost::Server => header("host").map(str::to_owned),
        ConnectionHost::Address => address(),
        ConnectionHost::ProxiedAddress => proxied().or_else(address),
    };
    found.filter(|host| !host.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

async fn events(State(collector): State<Arc<Collector>>, request: Request) -> Response {
    collector_response(collect(collector, request, |receiver, body| receiver.events(body)).await)
}

async fn raw(State(collector): State<Arc<Collector>>, request: Request) -> Response {
    collector_response(collect(collector, request, |receiver, body| receiver.raw(body)).await)
}

/// The answer to a request, and the hook to run when it is sent.
struct CollectorReply {
    outcome: Result<Answer, BodyError>,
    hook: Option<ResponseHook>,
}

fn collector_response(collected: Result<CollectorReply, BodyError>) -> Response {
    match collected {
        Ok(CollectorReply { outcome, hook }) => with_hook(to_response(outcome), hook),
        Err(error) => to_response(Err(error)),
    }
}

/// Attaches a [`ResponseHook`] to a response.
fn with_hook(mut response: Response, hook: Option<ResponseHook>) -> Response {
    if let Some(hook) = hook {
        response.extensions_mut().insert(hook);
    }
    response
}

fn to_response(outcome: Result<Answer, BodyError>) -> Response {
    match outcome {
        Ok(answer) | Err(BodyError::Refused(answer)) => answer.into_response(),
        Err(BodyError::TooLarge(bytes)) => {
            let text =
                format!("the body is larger than {bytes} bytes ([http_input] max_content_length); send less at a time");
            too_large(&text)
        }
        Err(BodyError::DecodedTooLarge(bytes)) => too_large(&decoded_too_large_text(bytes)),
        Err(BodyError::TooSlow) => {
            let status = StatusCode::REQUEST_TIMEOUT;
            answer::json(status, &AnswerBody::new(TOO_SLOW_TEXT, status.as_u16()))
        }
    }
}

/// Text for the sender of a slow body.
const TOO_SLOW_TEXT: &str = "the body arrived too slowly; send it again, or send less at a time";

fn too_large(text: &str) -> Response {
    let status = StatusCode::PAYLOAD_TOO_LARGE;
    answer::json(status, &AnswerBody::new(text, status.as_u16()))
}

/// Text for the sender of a body whose decoded data is too large.
fn decoded_too_large_text(bytes: usize) -> String {
    format!("the decoded body takes more than {bytes} bytes of memory; send less at a time")
}

/// Processes a request; `take` decodes its body into events.
async fn collect(
    collector: Arc<Collector>,
    request: Request,
    take: fn(&mut Receiver<'_>, &str) -> Result<(), Answer>,
) -> Result<CollectorReply, BodyError> {
    let query = Query::of(request.uri());
    let token = collector.authorise(&request, &query)?;
    let channel = channel_of(request.headers(), &query)?;
    if token.use_ack && channel.is_none() {
        return Err(Code::ChannelMissing.into());
    }
    if let Some(channel) = channel.as_deref().filter(|_| token.use_ack) {
        collector.admit(&token.name, channel)?;
    }
    let (stated, sender) = (query.request_metadata()?, default_host(&request, &token));
    let (uri, headers) = (request.uri().to_string(), request.headers().clone());
    let kept = BudgetedBody::of(request, &collector.budget).await?;
    if kept.bytes.is_empty() {
        return Err(Code::NoData.into());
    }
    let begun = channel.as_deref().map(|channel| collector.begin(&token, channel, &uri, &kept).into_parts());
    let (attempt, earlier) = begun.unzip();
    let earlier = earlier.flatten();
    let sent = attempt.as_ref().map(Attempt::sent);
    let destination = Arc::clone(&collector.destination.store);
    let outcome = attempt.as_ref().filter(|_| earlier.is_none()).map(Attempt::outcome);
    let pool = Arc::clone(&collector.decoding_pool);
    // A request that waits for an earlier attempt must not occupy a pool thread that the earlier attempt may need.
    let bytes = if earlier.is_some() { 0 } else { kept.bytes.len() };
    let is_packed = headers.contains_key(header::CONTENT_ENCODING);
    let work = move || {
        let outcome = match earlier.map(|earlier| earlier.wait(EARLIER_ATTEMPT_TIMEOUT)) {
            None => outcome,
            Some(EarlierResult::Failed(outcome)) => Some(outcome),
            Some(EarlierResult::Answered(answer)) => return Ok(answer),
            Some(EarlierResult::Unfinished) => return Err(Code::Busy.into()),
        };
        let unbegun = || Collector::key_without_channel(&token, &sender, &uri, &kept);
        let repeatable = sent.map_or_else(unbegun, Repeatable::Begun);
        let stored = kept.decompress(&headers).and_then(|body| {
            let receiver = Receiver::new(&collector.destination, &token, &stated, &sender, collector.clock.now_ns());
            store(&collector, &token, channel.as_deref(), receiver.of_request(repeatable), &body, take)
        });
        // A repetition that waits for the outcome of this attempt must find its stored parts recorded.
        if let (true, Some(sent)) = (requires_retry(&stored), &sent) {
            collector.destination.store.record_failure(sent);
        }
        if let Some(outcome) = outcome {
            let answer = match &stored {
                Ok(answer) | Err(BodyError::Refused(answer)) => Some(*answer),
                Err(BodyError::TooLarge(_) | BodyError::DecodedTooLarge(_) | BodyError::TooSlow) => None,
            };
            // After a server error the sender repeats the request, so the answer is not kept.
            outcome.set(answer.filter(|answer| !answer.asks_to_retry()));
        }
        stored
    };
    // If the sender closes its connection, this future is dropped here, but the work continues.
    let outcome = pool.run(bytes, is_packed, work).await.unwrap_or_else(|code| Err(code.into()));
    // A request with an acknowledgment id counts as answered only when its sender has queried that id.
    let has_number = matches!(&outcome, Ok(Answer { ack: Some(_), .. }));
    let sent = sent.filter(|_| !has_number && !requires_retry(&outcome));
    let hook = response_hook(destination, sent, attempt);
    Ok(CollectorReply { outcome, hook })
}

/// The hook to attach to an answer; `None` if the request is not tracked.
fn response_hook(
    store: Arc<dyn EventStore>,
    sent: Option<SentRequest>,
    attempt: Option<Attempt>,
) -> Option<ResponseHook> {
    (sent.is_some() || attempt.is_some()).then(|| {
        // If the hook is dropped without running, the sender is gone and the attempt counts as unanswered.
        let mut attempt = attempt;
        ResponseHook::new(move || {
            sent.map_or(Ok(()), |sent| store.record_answered(&[sent]))?;
            attempt.iter_mut().for_each(Attempt::record_answered);
            Ok(())
        })
    })
}

/// True if the sender has to repeat its request.
fn requires_retry(outcome: &Result<Answer, BodyError>) -> bool {
    match outcome {
        Ok(answer) | Err(BodyError::Refused(answer)) => answer.asks_to_retry(),
        Err(_) => false,
    }
}

/// Stores the events that `take` decodes from a body; answers when they are stored, or immediately with an
/// acknowledgment id. If a part cannot be stored, all other parts have ended when this returns.
fn store(
    collector: &Collector,
    token: &HttpToken,
    channel: Option<&str>,
    mut receiver: Receiver<'_>,
    body: &BudgetedBody,
    take: fn(&mut Receiver<'_>, &str) -> Result<(), Answer>,
) -> Result<Answer, BodyError> {
    let body = String::from_utf8_lossy(&body.bytes);
    let taken = if body.trim().is_empty() { Err(Code::NoData.into()) } else { take(&mut receiver, &body) };
    let appends = receiver.finish();
    let answered = match channel {
        // Whether the sender gets its answer is known only for a request on a channel. Without one, the store only has
        // to know whether the sender is asked to retry.
        None => appends.settle_and_record(&*collector.destination.store).and(taken).map(|()| Code::Success.into()),
        Some(channel) if token.use_ack && taken.is_ok() && appends.refused.is_none() => {
            acknowledge_later(collector, token, channel, appends)
        }
        Some(_) => appends.settle().and(taken).map(|()| Code::Success.into()),
    };
    answered.map_err(BodyError::Refused)
}

/// The answer with the number under which a sender learns when its events are stored.
fn acknowledge_later(
    collector: &Collector,
    token: &HttpToken,
    channel: &str,
    appends: Appends,
) -> Result<Answer, Answer> {
    let Appends { receipts, sent, refused } = appends;
    let now = collector.clock.elapsed_ns();
    match collector.channels.add(&token.name, channel, receipts, sent.unwrap_or_default(), now) {
        Ok(number) => Ok(Answer { ack: Some(number), ..Answer::from(Code::Success) }),
        Err((fault, receipts)) => {
            let code = collector.log_missing_number(&fault);
            // The sender is asked to retry, whatever became of the events.
            Appends { receipts, sent, refused }.settle().ok();
            Err(code.into())
        }
    }
}

async fn acks(State(collector): State<Arc<Collector>>, request: Request) -> Response {
    match acks_of_request(&collector, request).await {
        Ok((body, hook)) => with_hook(answer::json(StatusCode::OK, &body), hook),
        Err(error) => to_response(Err(error)),
    }
}

/// Answers an acknowledgment query of a channel, and returns the hook to run when the answer is sent.
async fn acks_of_request(
    collector: &Arc<Collector>,
    request: Request,
) -> Result<(Value, Option<ResponseHook>), BodyError> {
    let query = Query::of(request.uri());
    let token = collector.authorise(&request, &query)?;
    if !token.use_ack {
        return Err(Code::AckDisabled.into());
    }
    let channel = channel_of(request.headers(), &query)?.ok_or(Code::ChannelMissing)?;
    let headers = request.headers().clone();
    // The limit applies before the body is read and decompressed, so that this work is short enough for an async
    // worker.
    let budget = collector.budget.limited_to(ACKS_BYTES_MAX);
    let kept = BudgetedBody::of(request, &budget).await.and_then(|kept| kept.decompress(&headers));
    let kept = kept.map_err(|error| match error {
        BodyError::TooLarge(ACKS_BYTES_MAX) => Code::TooManyAcks.into(),
        error => error,
    })?;
    if kept.bytes.is_empty() {
        return Err(Code::NoData.into());
    }
    let mut share = MemoryReservation::new(&collector.budget);
    let Some(body) = json_memory::read_json(&kept.bytes, &mut share) else { return Err(share.refusal()) };
    let numbers = numbers_of(&body)?;
    let acks = collector.channels.query(&token.name, &channel, &numbers, collector.clock.elapsed_ns());
    let mut stored = Vec::new();
    for (number, state) in &acks {
        match state {
            AckState::Stored(sent) => stored.push((*number, *sent)),
            // The sender repeats a request that is never acknowledged; its stored parts must not be stored again.
            AckState::Failed(sent) => collector.destination.store.record_failure(sent),
            AckState::Unknown => {}
        }
    }
    let is_stored =
        |(number, state): (u64, AckState)| (number.to_string(), matches!(state, AckState::Stored(_)).into());
    let acks: Map<String, Value> = acks.into_iter().map(is_stored).collect();
    let hook = (!stored.is_empty()).then(|| {
        let mut reported = ReportedAcks { collector: Arc::clone(collector), token, channel, stored };
        ResponseHook::new(move || reported.commit())
    });
    Ok((json!({ "acks": acks }), hook))
}

/// Requests reported as stored. If the report is never sent, the requests are put back, so that the sender can query
/// them again.
struct ReportedAcks {
    collector: Arc<Collector>,
    token: Arc<HttpToken>,
    channel: String,
    stored: Vec<(u64, SentRequest)>,
}

impl ReportedAcks {
    fn commit(&mut self) -> Result<(), SinkError> {
        let sent: Vec<SentRequest> = self.stored.iter().map(|(_, sent)| *sent).collect();
        self.collector.destination.store.record_answered(&sent)?;
        self.stored.clear();
        Ok(())
    }
}

impl Drop for ReportedAcks {
    fn drop(&mut self) {
        if !self.stored.is_empty() {
            self.collector.channels.restore(&self.token.name, &self.channel, &self.stored);
        }
    }
}

/// The ids in an acknowledgment query.
fn numbers_of(body: &Value) -> Result<Vec<u64>, Code> {
    let numbers = body.get("acks").and_then(Value::as_array).ok_or(Code::InvalidFormat)?;
    if numbers.len() > channels::PENDING_MAX {
        return Err(Code::TooManyAcks);
    }
    let numbers: Option<Vec<u64>> = numbers.iter().map(Value::as_u64).collect();
    numbers.ok_or(Code::InvalidFormat)
}

/// Answers a health check, which needs no token; if a token is sent, it must be valid.
async fn health(State(collector): State<Arc<Collector>>, request: Request) -> Response {
    let query = Query::of(request.uri());
    let shows_token = request.headers().contains_key(header::AUTHORIZATION) || query.get("token").is_some();
    let refused = shows_token.then(|| collector.authorise(&request, &query).err()).flatten();
    match refused {
        Some(code) => {
            let (number, _, text) = code.row();
            answer::json(StatusCode::BAD_REQUEST, &AnswerBody::new(text, number.into()))
        }
        None if collector.budget.is_exhausted() => Answer::from(Code::UnhealthyQueues).into_response(),
        None => {
            // The check queries the file system, so it may block.
            let store = Arc::clone(&collector.destination.store);
            let room = tokio::task::spawn_blocking(move || store.check_room().is_ok()).await;
            let code = if room.unwrap_or(false) { Code::Healthy } else { Code::UnhealthyQueues };
            Answer::from(code).into_response()
        }
    }
}

/// Answers Docker's log driver, which checks for a collector without sending a token.
async fn answer_docker_check() -> StatusCode {
    StatusCode::OK
}

async fn not_allowed(_: Method) -> Response {
    answer::json(StatusCode::METHOD_NOT_ALLOWED, &NOT_FOUND_BODY)
}

async fn not_found() -> Response {
    answer::json(StatusCode::NOT_FOUND, &NOT_FOUND_BODY)
}

const NOT_FOUND_BODY: AnswerBody<'static> =
    AnswerBody { text: "The requested URL was not found on this server.", code: 404, event: None, ack: None };
