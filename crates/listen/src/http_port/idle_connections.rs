//! Idle connections of a port, longest idle first, so that one can be closed in favour of a new one.
//!
//! A request whose body is still arriving counts as idle on ports where clients must prove who they are, until its
//! client has done so: otherwise anyone could occupy the port with bodies that never end.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    by_age: BTreeMap<u64, Arc<Notify>>,
}

/// Number of the next connection to become idle; one for all lists, so that ages can be compared between them.
static NEXT_AGE: AtomicU64 = AtomicU64::new(0);

impl IdleConnections {
    fn locked(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of idle connections.
    pub(super) fn len(&self) -> usize {
        self.locked().by_age.len()
    }

    /// Age of the connection that has been idle longest; smaller is older.
    fn oldest(&self) -> Option<u64> {
        self.locked().by_age.first_key_value().map(|(age, _)| *age)
    }

    /// Requests the connection that has been idle longest in either of two lists to close; returns false if none is
    /// idle.
    pub(super) fn close_oldest_of(&self, other: &IdleConnections) -> bool {
        let is_older = match (self.oldest(), other.oldest()) {
            (Some(mine), Some(other)) => mine < other,
            (mine, _) => mine.is_some(),
        };
        let (first, second) = if is_older { (self, other) } else { (other, self) };
        first.close_oldest() || second.close_oldest()
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
    /// List of the connection while it is idle and its client has not proven who it is.
    unproven: IdleConnections,
    /// List of the connection while it is idle and its client is known.
    proven: IdleConnections,
    close: Arc<Notify>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queue_key: Option<u64>,
    /// Requests in progress; HTTP/2 allows several.
    active_requests: usize,
    has_had_request: bool,
    is_proven: bool,
}

impl ConnectionState {
    /// Creates the state of a new, idle connection of a port that treats all clients alike.
    pub(crate) fn new(waiting: &IdleConnections) -> ConnectionState {
        ConnectionState::with(waiting, waiting, true)
    }

    /// Creates the state of a new, idle connection whose client has not proven yet who it is.
    pub(super) fn unproven(unproven: &IdleConnections, proven: &IdleConnections) -> ConnectionState {
        ConnectionState::with(unproven, proven, false)
    }

    fn with(unproven: &IdleConnections, proven: &IdleConnections, is_proven: bool) -> ConnectionState {
        let state = Mutex::new(State { is_proven, ..State::default() });
        let close = Arc::default();
        let waiter = ConnectionState { unproven: unproven.clone(), proven: proven.clone(), close, state };
        waiter.enqueue(&mut waiter.locked());
        waiter
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self, state: &State) -> &IdleConnections {
        if state.is_proven { &self.proven } else { &self.unproven }
    }

    fn enqueue(&self, state: &mut State) {
        let mut queue = self.list(state).locked();
        let place = NEXT_AGE.fetch_add(1, Ordering::Relaxed);
        queue.by_age.insert(place, Arc::clone(&self.close));
        state.queue_key = Some(place);
    }

    fn dequeue(&self, state: &mut State) {
        if let Some(place) = state.queue_key.take() {
            self.list(state).locked().by_age.remove(&place);
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
pub(super) struct ActiveRequest {
    connection: Arc<ConnectionState>,
    /// False while the connection counts as idle because the request is not complete.
    is_active: AtomicBool,
}

impl ActiveRequest {
    /// The request of a connection, which becomes active unless the request is incomplete and its client unproven.
    pub(super) fn new(connection: &Arc<ConnectionState>, is_complete: bool) -> ActiveRequest {
        let request = ActiveRequest { connection: Arc::clone(connection), is_active: AtomicBool::new(false) };
        let mut state = connection.locked();
        state.has_had_request = true;
        if is_complete || state.is_proven {
            request.activate(&mut state);
        }
        drop(state);
        request
    }

    fn activate(&self, state: &mut State) {
        if !self.is_active.swap(true, Ordering::Relaxed) {
            self.connection.dequeue(state);
            state.active_requests += 1;
        }
    }

    /// True unless the connection counts as idle because the request is not complete.
    pub(super) fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// Marks the request as complete.
    pub(super) fn complete(&self) {
        self.activate(&mut self.connection.locked());
    }

    /// Marks the client as known, for this and for later requests.
    pub(super) fn prove(&self) {
        let mut state = self.connection.locked();
        self.activate(&mut state);
        state.is_proven = true;
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        if !self.is_active() {
            return;
        }
        let mut state = self.connection.locked();
        state.active_requests -= 1;
        if state.active_requests == 0 {
            self.connection.enqueue(&mut state);
        }
    }
}

pub(super) struct AnswerBody {
    /// Content of the answer.
    pub(super) body: Body,
    /// Keeps the connection active until the body is sent.
    pub(super) _at_work: Arc<ActiveRequest>,
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
