//! Senders that disconnect before the answer, and requests beyond the limits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use axum::body::Body;
use axum::extract::Request;
use quarry_conf::{ConfSource, HttpInputSettings, Layer, Layers, PropsResolver};
use quarry_event::{EventBatch, SentRequest};
use quarry_stdx::SystemClock;

use super::channels::PENDING_MAX;
use super::{
    AckNumbers, Answer, BodyError, Code, Collector, CollectorReply, ResponseHook, acks_of_request, collect, numbers_of,
};
use crate::{AppendError, ClientProof, EventStore, Receipt};

const TOKENS: &str = "[http://plain]\ntoken = 1\n[http://acked]\ntoken = 2\nuseACK = 1\n";
const CHANNEL: &str = "fe0ecfad-13d5-401b-847d-77833bd77131";

/// A store that signals arriving events, and accepts and stores them on command.
struct Slow {
    came: Mutex<Sender<usize>>,
    let_in: Mutex<Receiver<()>>,
    stored: Arc<Mutex<Receiver<Result<(), AppendError>>>>,
    is_stored: Arc<AtomicBool>,
}

struct Waiting {
    stored: Arc<Mutex<Receiver<Result<(), AppendError>>>>,
    is_stored: Arc<AtomicBool>,
}

impl Receipt for Waiting {
    fn is_done(&self) -> bool {
        self.is_stored.load(Ordering::SeqCst)
    }

    fn wait(self: Box<Self>) -> Result<(), AppendError> {
        self.stored.lock().unwrap().recv().unwrap()
    }
}

impl EventStore for Slow {
    fn append(&self, batch: EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
        self.came.lock().unwrap().send(batch.len()).unwrap();
        self.let_in.lock().unwrap().recv().unwrap();
        Ok(Box::new(Waiting { stored: Arc::clone(&self.stored), is_stored: Arc::clone(&self.is_stored) }))
    }

    fn check_index(&self, _: &str) -> Result<(), quarry_stdx::Fault> {
        Ok(())
    }
}

/// Handles with which a test controls the store.
struct StoreControls {
    comes: Receiver<usize>,
    lets_in: Sender<()>,
    stores: Sender<Result<(), AppendError>>,
    /// Value returned by [`Receipt::is_done`]; the next result sent to `stores` is that of [`Receipt::wait`].
    is_stored: Arc<AtomicBool>,
}

/// A store that logs what happens to the parts of requests. It refuses the index `full` at once and fails to store the
/// index `late`.
#[derive(Clone, Default)]
struct PartLog(Arc<Mutex<Vec<String>>>);

impl PartLog {
    fn add(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn append_to(&self, batch: &EventBatch, request: &str) -> Result<Box<dyn Receipt>, AppendError> {
        let index = batch.metas[0].index.to_string();
        if index == "full" {
            return Err(AppendError::Busy("full".into()));
        }
        self.add(format!("append {index}{request}"));
        Ok(Box::new(PartReceipt { log: self.clone(), index }))
    }
}

struct PartReceipt {
    log: PartLog,
    index: String,
}

impl Receipt for PartReceipt {
    fn is_done(&self) -> bool {
        true
    }

    fn wait(self: Box<Self>) -> Result<(), AppendError> {
        self.log.add(format!("end {}", self.index));
        if self.index == "late" { Err(AppendError::Busy("full".into())) } else { Ok(()) }
    }
}

impl EventStore for PartLog {
    fn append(&self, batch: EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
        self.append_to(&batch, "")
    }

    fn begin_request(&self, key: u128) -> SentRequest {
        SentRequest { key, id: 7 }
    }

    fn append_sent(&self, batch: EventBatch, request: &SentRequest) -> Result<Box<dyn Receipt>, AppendError> {
        self.append_to(&batch, &format!(" of {}", request.id))
    }

    fn record_answered(&self, requests: &[SentRequest]) -> Result<(), crate::SinkError> {
        requests.iter().for_each(|request| self.add(format!("answered {}", request.id)));
        Ok(())
    }

    fn record_failure(&self, request: &SentRequest) {
        self.add(format!("failed {}", request.id));
    }

    fn check_index(&self, _: &str) -> Result<(), quarry_stdx::Fault> {
        Ok(())
    }
}

/// A collector and the controls of its store.
fn collector() -> (Arc<Collector>, StoreControls) {
    let ((came, comes), (lets_in, let_in), (stores, stored)) = (channel(), channel(), channel());
    let stored = Arc::new(Mutex::new(stored));
    let is_stored = Arc::new(AtomicBool::new(false));
    let (came, let_in) = (Mutex::new(came), Mutex::new(let_in));
    let store = Arc::new(Slow { came, let_in, stored, is_stored: Arc::clone(&is_stored) });
    (collector_into(store), StoreControls { comes, lets_in, stores, is_stored })
}

fn collector_into(store: Arc<dyn EventStore>) -> Arc<Collector> {
    let file = "inputs.conf".to_owned();
    let source = ConfSource { layer: Layer::SystemLocal, app: None, file, text: TOKENS.to_owned() };
    let layers = Layers::new([source]);
    let (settings, props) = (HttpInputSettings::new(&layers), Arc::new(PropsResolver::new(&layers)));
    let collector = Collector::new(settings, 1_000, AckNumbers::default(), store, props, SystemClock::shared());
    Arc::new(collector)
}

fn request(token: &str, body: &str) -> Request {
    Request::post("/services/collector/event")
        .header("authorization", format!("Splunk {token}"))
        .header("x-splunk-request-channel", CHANNEL)
        .body(Body::from(body.to_owned()))
        .unwrap()
}

const BODY: &str = r#"{"event":"one"}{"event":"two"}"#;

#[tokio::test]
async fn clients_are_known_by_their_token() {
    let (collector, _controls) = collector();
    for (token, is_known) in [("1", true), ("absent", false)] {
        let proven = Arc::new(AtomicBool::new(false));
        let mut request = request(token, "");
        let set = Arc::clone(&proven);
        request.extensions_mut().insert(ClientProof::new(move || set.store(true, Ordering::SeqCst)));
        // The body is empty, so the request is refused in both cases.
        assert!(collect(Arc::clone(&collector), request, |receiver, body| receiver.events(body)).await.is_err());
        assert_eq!(proven.load(Ordering::SeqCst), is_known, "{token}");
    }
}

/// Sends a request and disconnects while its events are being stored.
fn send_and_disconnect(collector: &Arc<Collector>, hands: &StoreControls, token: &str) {
    let mut sending =
        Box::pin(collect(Arc::clone(collector), request(token, BODY), |receiver, body| receiver.events(body)));
    let mut context = Context::from_waker(Waker::noop());
    assert!(sending.as_mut().poll(&mut context).is_pending());
    assert_eq!(hands.comes.recv().unwrap(), 2);
    drop(sending);
    hands.lets_in.send(()).unwrap();
}

async fn send_until_answered(collector: &Arc<Collector>, token: &str, body: &str) -> (Answer, Option<ResponseHook>) {
    let taken = collect(Arc::clone(collector), request(token, body), |receiver, body| receiver.events(body)).await;
    let Ok(CollectorReply { outcome, hook }) = taken else { panic!("the request is accepted") };
    match outcome {
        Ok(answer) | Err(BodyError::Refused(answer)) => (answer, hook),
        Err(BodyError::TooLarge(_) | BodyError::DecodedTooLarge(_) | BodyError::TooSlow) => panic!("the body is small"),
    }
}

async fn send(collector: &Arc<Collector>, token: &str, body: &str) -> Answer {
    let (answer, hook) = send_until_answered(collector, token, body).await;
    hook.map_or(Ok(()), |hook| hook.run()).unwrap();
    answer
}

/// Queries the acknowledgments of these requests; also returns the hook to run before the answer is sent.
async fn query_acks(collector: &Arc<Collector>, numbers: &[u64]) -> (Vec<bool>, Option<ResponseHook>) {
    let mut question = request("2", &serde_json::json!({ "acks": numbers }).to_string());
    *question.uri_mut() = "/services/collector/ack".parse().unwrap();
    let Ok((reported, hook)) = acks_of_request(collector, question).await else { panic!("the query is valid") };
    (numbers.iter().map(|number| reported["acks"][number.to_string()] == true).collect(), hook)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_unanswered_requests_are_stored_once() {
    let (collector, hands) = collector();
    send_and_disconnect(&collector, &hands, "1");
    hands.stores.send(Ok(())).unwrap();
    assert_eq!(send(&collector, "1", BODY).await.code, Code::Success);
    assert!(hands.comes.try_recv().is_err(), "stored once");
    hands.lets_in.send(()).unwrap();
    hands.stores.send(Ok(())).unwrap();
    assert_eq!(send(&collector, "1", BODY).await.code, Code::Success);
    assert_eq!(hands.comes.try_recv(), Ok(2), "a request that was answered is processed as a new one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_whose_answer_is_lost_again_and_again_are_stored_once() {
    for token in ["1", "2"] {
        let (collector, hands) = collector();
        send_and_disconnect(&collector, &hands, token);
        hands.stores.send(Ok(())).unwrap();
        let (mut answers, expected) = (Vec::new(), if token == "2" { Some(0) } else { None });
        for _ in 0..3 {
            let (answer, hook) = send_until_answered(&collector, token, BODY).await;
            // The connection ends before the answer is sent.
            drop(hook);
            answers.push(answer);
        }
        answers.push(send(&collector, token, BODY).await);
        let stored = Answer { ack: expected, ..Answer::from(Code::Success) };
        assert_eq!(answers, [stored; 4], "{token}");
        assert!(hands.comes.try_recv().is_err(), "stored once");
    }
}

/// A request without a channel for events of these indexes.
fn request_for(indexes: &[&str]) -> Request {
    let body: String = indexes.iter().map(|index| format!(r#"{{"event":"x","index":"{index}"}}"#)).collect();
    let mut request = request("1", &body);
    request.headers_mut().remove("x-splunk-request-channel");
    request
}

#[tokio::test]
async fn a_refusal_is_recorded_after_the_end_of_the_other_parts() {
    let log = PartLog::default();
    let collector = collector_into(Arc::new(log.clone()));
    for (indexes, code, expected) in [
        (&["a", "a"][..], Code::Success, &["append a", "end a"][..]),
        (&["a", "b"], Code::Success, &["append a of 7", "append b of 7", "end a", "end b", "answered 7"]),
        (&["a", "full"], Code::Busy, &["append a of 7", "end a", "failed 7"]),
        (&["full", "a"], Code::Busy, &["failed 7"]),
        (&["late", "a"], Code::Busy, &["append late of 7", "append a of 7", "end late", "end a", "failed 7"]),
    ] {
        let taken = collect(Arc::clone(&collector), request_for(indexes), |receiver, body| receiver.events(body)).await;
        let Ok(CollectorReply { outcome, hook }) = taken else { panic!("the request is accepted") };
        let (Ok(answer) | Err(BodyError::Refused(answer))) = outcome else { panic!("the body is small") };
        hook.map_or(Ok(()), |hook| hook.run()).unwrap();
        assert_eq!((answer.code, log.take()), (code, expected.iter().map(|&text| text.to_owned()).collect()));
    }
}

#[tokio::test]
async fn raw_text_is_one_part_unless_it_is_long() {
    let log = PartLog::default();
    let collector = collector_into(Arc::new(log.clone()));
    let mut request = request(
        "1",
        "one
two
three",
    );
    request.headers_mut().remove("x-splunk-request-channel");
    assert!(collect(collector, request, |receiver, body| receiver.raw(body)).await.is_ok());
    assert_eq!(log.take(), ["append main", "end main"]);
}

#[tokio::test]
async fn requests_that_failed_after_their_ack_id_was_sent_may_be_repeated() {
    let log = PartLog::default();
    let collector = collector_into(Arc::new(log.clone()));
    let body = r#"{"event":"x","index":"late"}{"event":"x","index":"a"}"#;
    assert_eq!(send(&collector, "2", body).await.ack, Some(0));
    assert_eq!(query_acks(&collector, &[0]).await.0, [false]);
    assert_eq!(log.take(), ["append late of 7", "append a of 7", "end late", "failed 7"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsent_answers_do_not_count_as_answered() {
    let (collector, hands) = collector();
    for _ in 0..2 {
        hands.lets_in.send(()).unwrap();
        hands.stores.send(Ok(())).unwrap();
    }
    let (answer, hook) = send_until_answered(&collector, "1", BODY).await;
    assert_eq!((answer.code, hands.comes.try_recv()), (Code::Success, Ok(2)));
    drop(hook);
    assert_eq!(send(&collector, "1", BODY).await.code, Code::Success);
    assert!(hands.comes.try_recv().is_err(), "stored once");
    assert_eq!(send(&collector, "1", BODY).await.code, Code::Success);
    assert_eq!(hands.comes.try_recv(), Ok(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsent_ack_reports_can_be_queried_again() {
    let (collector, hands) = collector();
    for number in 0..3 {
        hands.lets_in.send(()).unwrap();
        assert_eq!(send(&collector, "2", &format!(r#"{{"event":{number}}}"#)).await.ack, Some(number));
    }
    hands.is_stored.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        hands.stores.send(Ok(())).unwrap();
    }
    let (reported, hook) = query_acks(&collector, &[0, 1]).await;
    assert_eq!(reported, [true, true]);
    assert_eq!(
        query_acks(&collector, &[0]).await.0,
        [false],
        "an acknowledgment that is being sent to one request is not reported to another"
    );
    drop(hook);
    let (reported, hook) = query_acks(&collector, &[0, 1, 2, 3]).await;
    assert_eq!(reported, [true, true, true, false]);
    hook.unwrap().run().unwrap();
    assert_eq!(query_acks(&collector, &[0, 1, 2]).await.0, [false; 3], "an id is acknowledged once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_requests_are_stored_when_repeated() {
    let (collector, hands) = collector();
    send_and_disconnect(&collector, &hands, "1");
    hands.stores.send(Err(AppendError::Busy("full".into()))).unwrap();
    hands.lets_in.send(()).unwrap();
    hands.stores.send(Ok(())).unwrap();
    assert_eq!(send(&collector, "1", BODY).await.code, Code::Success);
    assert_eq!(hands.comes.try_recv(), Ok(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsent_ack_ids_are_returned_again() {
    let (collector, hands) = collector();
    send_and_disconnect(&collector, &hands, "2");
    let again = send(&collector, "2", BODY).await;
    assert_eq!((again.code, again.ack), (Code::Success, Some(0)));
    assert!(hands.comes.try_recv().is_err());
    hands.lets_in.send(()).unwrap();
    assert_eq!(send(&collector, "2", r#"{"event":"three"}"#).await.ack, Some(1));
}

#[test]
fn ack_queries_may_name_all_requests_of_a_channel() {
    let asked = |acks: serde_json::Value| numbers_of(&serde_json::json!({ "acks": acks }));
    assert_eq!(asked(serde_json::json!([3, 1])), Ok(vec![3, 1]));
    assert_eq!(asked(vec![7; PENDING_MAX].into()).map(|numbers| numbers.len()), Ok(PENDING_MAX));
    assert_eq!(asked(vec![7; PENDING_MAX + 1].into()), Err(Code::TooManyAcks));
    for wrong in [serde_json::json!(1), serde_json::json!(["1"]), serde_json::json!([-1]), serde_json::json!([1.5])] {
        assert_eq!(asked(wrong), Err(Code::InvalidFormat));
    }
    assert!(super::answer::TOO_MANY_ACKS.contains(&PENDING_MAX.to_string()));
}
