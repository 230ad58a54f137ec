//! Idle connections of a port, longest idle first, so that one can be closed in favour of a new one.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;

/// All idle connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdleConnections(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    next: u64,
    by_age: BTreeMap<u64, Arc<Notify>>,
}

impl IdleConnections {
    fn locked(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of idle connections.
    pub(super) fn len(&self) -> usize {
        self.locked().by_age.len()
    }

    /// Requests the connection that has been idle longest to close; returns false if no connection is idle.
    pub(crate) fn close_oldest(&self) -> bool {
        let oldest = self.locked().by_age.pop_first();
        oldest.inspect(|(_, close)| close.notify_one()).is_some()
    }
}

/// State of a connection, which is idle while no request is in progress.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    idle: IdleConnections,
    close: Arc<Notify>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queue_key: Option<u64>,
    /// Requests in progress; HTTP/2 allows several.
    active_requests: usize,
    has_had_request: bool,
}

impl ConnectionState {
    /// Creates the state of a new, idle connection.
    pub(crate) fn new(waiting: &IdleConnections) -> ConnectionState {
        let waiter = ConnectionState { idle: waiting.clone(), close: Arc::default(), state: Mutex::default() };
        waiter.enqueue(&mut waiter.locked());
        waiter
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue(&self, state: &mut State) {
        let mut queue = self.idle.locked();
        let place = queue.next;
        queue.next += 1;
        queue.by_age.insert(place, Arc::clone(&self.close));
        state.queue_key = Some(place);
    }

    fn dequeue(&self, state: &mut State) {
        if let Some(place) = state.queue_key.take() {
            self.idle.locked().by_age.remove(&place);
        }
    }

    /// Resolves when the connection must close.
    pub(crate) async fn close_requested(&self) {
        self.close.notified().await;
    }

    /// True if a request is in progress.
    pub(super) fn has_active_request(&self) -> bool {
        self.locked().active_requests > 0
    }

    /// True if the connection has received a request.
    pub(super) fn has_received_request(&self) -> bool {
        self.locked().has_had_request
    }
}

impl Drop for ConnectionState {
    fn drop(&mut self) {
        self.dequeue(&mut self.locked());
    }
}

/// Guard of a request in progress; the connection becomes idle again when the last answer is sent.
pub(super) struct ActiveRequest(Arc<ConnectionState>);

impl ActiveRequest {
    /// Marks the connection as active.
    pub(super) fn new(waiter: &Arc<ConnectionState>) -> ActiveRequest {
        let mut state = waiter.locked();
        state.has_had_request = true;
        state.active_requests += 1;
        waiter.dequeue(&mut state);
        drop(state);
        ActiveRequest(Arc::clone(waiter))
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut state = self.0.locked();
        state.active_requests -= 1;
        if state.active_requests == 0 {
            self.0.enqueue(&mut state);
        }
    }
}

pub(super) struct AnswerBody {
    /// Content of the answer.
    pub(super) body: Body,
    /// Keeps the connection active until the body is sent.
    pub(super) _at_work: ActiveRequest,
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
