//! Connections of a port that wait for their sender to say something, longest first, so that one of them can go for a
//! new one.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;

/// All that wait.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    next: u64,
    by_age: BTreeMap<u64, Arc<Notify>>,
}

impl Waiting {
    fn locked(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.locked().by_age.len()
    }

    /// Tells the one that waits longest to close; whether there was one.
    pub(crate) fn close_oldest(&self) -> bool {
        let oldest = self.locked().by_age.pop_first();
        oldest.inspect(|(_, close)| close.notify_one()).is_some()
    }
}

/// A connection, which waits from its beginning on.
#[derive(Debug)]
pub(crate) struct Waiter {
    waiting: Waiting,
    close: Arc<Notify>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    place: Option<u64>,
    /// Requests that are at work: over HTTP/2 there may be many.
    at_work: usize,
    has_asked: bool,
}

impl Waiter {
    /// A connection that begins to wait.
    pub(crate) fn new(waiting: &Waiting) -> Waiter {
        let waiter = Waiter { waiting: waiting.clone(), close: Arc::default(), state: Mutex::default() };
        waiter.wait(&mut waiter.locked());
        waiter
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, state: &mut State) {
        let mut queue = self.waiting.locked();
        let place = queue.next;
        queue.next += 1;
        queue.by_age.insert(place, Arc::clone(&self.close));
        state.place = Some(place);
    }

    fn leave(&self, state: &mut State) {
        if let Some(place) = state.place.take() {
            self.waiting.locked().by_age.remove(&place);
        }
    }

    /// Returns when the connection shall close.
    pub(crate) async fn told_to_close(&self) {
        self.close.notified().await;
    }

    /// Whether a request is at work.
    pub(super) fn is_at_work(&self) -> bool {
        self.locked().at_work > 0
    }

    /// Whether a request has come.
    pub(super) fn has_asked(&self) -> bool {
        self.locked().has_asked
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.leave(&mut self.locked());
    }
}

/// A request at work; the connection waits again when the last of its answers is sent.
pub(super) struct AtWork(Arc<Waiter>);

impl AtWork {
    /// A request of the connection has come.
    pub(super) fn new(waiter: &Arc<Waiter>) -> AtWork {
        let mut state = waiter.locked();
        state.has_asked = true;
        state.at_work += 1;
        waiter.leave(&mut state);
        drop(state);
        AtWork(Arc::clone(waiter))
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let mut state = self.0.locked();
        state.at_work -= 1;
        if state.at_work == 0 {
            self.0.wait(&mut state);
        }
    }
}

/// The body of an answer.
pub(super) struct AnswerBody {
    /// What the answer holds.
    pub(super) body: Body,
    /// Until it is sent.
    pub(super) _at_work: AtWork,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
