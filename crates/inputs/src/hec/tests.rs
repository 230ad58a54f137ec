//! Senders that leave before they are answered, and that ask for too much.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use axum::body::Body;
use axum::extract::Request;
use quarry_conf::{ConfSource, HttpInputSettings, Layer, Layers, PropsResolver};
use quarry_event::EventBatch;
use quarry_stdx::SystemClock;

use super::channels::PENDING_MAX;
use super::{Answer, BodyError, Code, Collector, collect, numbers_of};
use crate::{AppendError, EventStore, Receipt};

const TOKENS: &str = "[http://plain]\ntoken = 1\n[http://acked]\ntoken = 2\nuseACK = 1\n";
const CHANNEL: &str = "fe0ecfad-13d5-401b-847d-77833bd77131";

/// A store that signals arriving events, and accepts and stores them on command.
struct Slow {
    came: Mutex<Sender<usize>>,
    let_in: Mutex<Receiver<()>>,
    stored: Arc<Mutex<Receiver<Result<(), AppendError>>>>,
}

struct Waiting(Arc<Mutex<Receiver<Result<(), AppendError>>>>);

impl Receipt for Waiting {
    fn is_done(&self) -> bool {
        false
    }

    fn wait(self: Box<Self>) -> Result<(), AppendError> {
        self.0.lock().unwrap().recv().unwrap()
    }
}

impl EventStore for Slow {
    fn append(&self, batch: EventBatch) -> Result<Box<dyn Receipt>, AppendError> {
        self.came.lock().unwrap().send(batch.len()).unwrap();
        self.let_in.lock().unwrap().recv().unwrap();
        Ok(Box::new(Waiting(Arc::clone(&self.stored))))
    }

    fn check_index(&self, _: &str) -> Result<(), quarry_stdx::Fault> {
        Ok(())
    }
}

/// A test's controls of a store.
struct Hands {
    comes: Receiver<usize>,
    lets_in: Sender<()>,
    stores: Sender<Result<(), AppendError>>,
}

/// A collector and the controls of its store.
fn collector() -> (Arc<Collector>, Hands) {
    let file = "inputs.conf".to_owned();
    let source = ConfSource { layer: Layer::SystemLocal, app: None, file, text: TOKENS.to_owned() };
    let layers = Layers::new([source]);
    let ((came, comes), (lets_in, let_in), (stores, stored)) = (channel(), channel(), channel());
    let stored = Arc::new(Mutex::new(stored));
    let store = Arc::new(Slow { came: Mutex::new(came), let_in: Mutex::new(let_in), stored });
    let (settings, props) = (HttpInputSettings::new(&layers), Arc::new(PropsResolver::new(&layers)));
    let collector = Collector::new(settings, 1_000, store, props, SystemClock::shared());
    (Arc::new(collector), Hands { comes, lets_in, stores })
}

fn request(token: &str, body: &str) -> Request {
    Request::post("/services/collector/event")
        .header("authorization", format!("Splunk {token}"))
        .header("x-splunk-request-channel", CHANNEL)
        .body(Body::from(body.to_owned()))
        .unwrap()
}

const BODY: &str = r#"{"event":"one"}{"event":"two"}"#;

/// Sends a request and disconnects while its events are being stored.
fn send_and_go(collector: &Arc<Collector>, hands: &Hands, token: &str) {
    let mut sending =
        Box::pin(collect(Arc::clone(collector), request(token, BODY), |receiver, body| receiver.events(body)));
    let mut context = Context::from_waker(Waker::noop());
    assert!(sending.as_mut().poll(&mut context).is_pending());
    assert_eq!(hands.comes.recv().unwrap(), 2);
    drop(sending);
    hands.lets_in.send(()).unwrap();
}

async fn send(collector: &Arc<Collector>, token: &str, body: &str) -> Answer {
    match collect(Arc::clone(collector), request(token, body), |receiver, body| receiver.events(body)).await {
        Ok(answer) | Err(BodyError::Told(answer)) => answer,
        Err(BodyError::TooLarge(_) | BodyError::Swells(_) | BodyError::TooSlow) => panic!("it is small"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_answered_is_stored_once_when_it_is_sent_again() {
    let (collector, hands) = collector();
    send_and_go(&collector, &hands, "1");
    hands.stores.send(Ok(())).unwrap();
    assert_eq!(send(&collector, "1", BODY).await.code, Code::Success);
    assert!(hands.comes.try_recv().is_err(), "stored once");
    hands.lets_in.send(()).unwrap();
    hands.stores.send(Ok(())).unwrap();
    assert_eq!(send(&collector, "1", BODY).await.code, Code::Success);
    assert_eq!(hands.comes.try_recv(), Ok(2), "an answered request is not repeated but made again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_failed_before_it_was_answered_is_stored_when_it_is_sent_again() {
    let (collector, hands) = collector();
    send_and_go(&collector, &hands, "1");
    hands.stores.send(Err(AppendError::Busy("full".into()))).unwrap();
    hands.lets_in.send(()).unwrap();
    hands.stores.send(Ok(())).unwrap();
    assert_eq!(send(&collector, "1", BODY).await.code, Code::Success);
    assert_eq!(hands.comes.try_recv(), Ok(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_that_never_arrived_is_given_again() {
    let (collector, hands) = collector();
    send_and_go(&collector, &hands, "2");
    let again = send(&collector, "2", BODY).await;
    assert_eq!((again.code, again.ack), (Code::Success, Some(0)));
    assert!(hands.comes.try_recv().is_err());
    hands.lets_in.send(()).unwrap();
    assert_eq!(send(&collector, "2", r#"{"event":"three"}"#).await.ack, Some(1));
}

#[test]
fn a_question_names_as_many_requests_as_a_channel_may_have() {
    let asked = |acks: serde_json::Value| numbers_of(&serde_json::json!({ "acks": acks }));
    assert_eq!(asked(serde_json::json!([3, 1])), Ok(vec![3, 1]));
    assert_eq!(asked(vec![7; PENDING_MAX].into()).map(|numbers| numbers.len()), Ok(PENDING_MAX));
    assert_eq!(asked(vec![7; PENDING_MAX + 1].into()), Err(Code::ManyAcks));
    for wrong in [serde_json::json!(1), serde_json::json!(["1"]), serde_json::json!([-1]), serde_json::json!([1.5])] {
        assert_eq!(asked(wrong), Err(Code::InvalidFormat));
    }
    assert!(super::answer::MANY_ACKS.contains(&PENDING_MAX.to_string()));
}
