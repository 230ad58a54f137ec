//! Senders that disconnect before the answer, and requests beyond the limits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use axum::body::Body;
use axum::extract::Request;
use quarry_conf::{ConfSource, HttpInputSettings, Layer, Layers, PropsResolver};
use quarry_event::EventBatch;
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

/// A collector and the controls of its store.
fn collector() -> (Arc<Collector>, StoreControls) {
    let file = "inputs.conf".to_owned();
    let source = ConfSource { layer: Layer::SystemLocal, app: None, file, text: TOKENS.to_owned() };
    let layers = Layers::new([source]);
    let ((came, comes), (lets_in, let_in), (stores, stored)) = (channel(), channel(), channel());
    let stored = Arc::new(Mutex::new(stored));
    let is_stored = Arc::new(AtomicBool::new(false));
    let (came, let_in) = (Mutex::new(came), Mutex::new(let_in));
    let store = Arc::new(Slow { came, let_in, stored, is_stored: Arc::clone(&is_stored) });
    let (settings, props) = (HttpInputSettings::new(&layers), Arc::new(PropsResolver::new(&layers)));
    let collector = Collector::new(settings, 1_000, AckNumbers::default(), store, props, SystemClock::shared());
    (Arc::new(collector), StoreControls { comes, lets_in, stores, is_stored })
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
    let Ok(CollectorReply { outcome, note }) = taken else { panic!("it begins") };
    match outcome {
        Ok(answer) | Err(BodyError::Refused(answer)) => (answer, note),
        Err(BodyError::TooLarge(_) | BodyError::DecodedTooLarge(_) | BodyError::TooSlow) => panic!("it is small"),
    }
}

async fn send(collector: &Arc<Collector>, token: &str, body: &str) -> Answer {
    let (answer, note) = send_until_answered(collector, token, body).await;
    note.map_or(Ok(()), |note| note.run()).unwrap();
    answer
}

/// Queries the acknowledgments of these requests; also returns the hook to run before the answer is sent.
async fn query_acks(collector: &Arc<Collector>, numbers: &[u64]) -> (Vec<bool>, Option<ResponseHook>) {
    let mut question = request("2", &serde_json::json!({ "acks": numbers }).to_string());
    *question.uri_mut() = "/services/collector/ack".parse().unwrap();
    let Ok((reported, note)) = acks_of_request(collector, question).await else { panic!("it is a question") };
    (numbers.iter().map(|number| reported["acks"][number.to_string()] == true).collect(), note)
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
async fn unsent_answers_do_not_count_as_answered() {
    let (collector, hands) = collector();
    for _ in 0..2 {
        hands.lets_in.send(()).unwrap();
        hands.stores.send(Ok(())).unwrap();
    }
    let (answer, note) = send_until_answered(&collector, "1", BODY).await;
    assert_eq!((answer.code, hands.comes.try_recv()), (Code::Success, Ok(2)));
    drop(note);
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
    let (reported, note) = query_acks(&collector, &[0, 1]).await;
    assert_eq!(reported, [true, true]);
    assert_eq!(
        query_acks(&collector, &[0]).await.0,
        [false],
        "an acknowledgment that is being sent to one request is not reported to another"
    );
    drop(note);
    let (reported, note) = query_acks(&collector, &[0, 1, 2, 3]).await;
    assert_eq!(reported, [true, true, true, false]);
    note.unwrap().run().unwrap();
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
