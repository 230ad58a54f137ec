//! Connections of a port by what they wait for, oldest first, so that one of them can be closed in favour of a new
//! connection.
//!
//! On ports where clients must authenticate, the connection of an unauthenticated client is in one of two lists as long
//! as it exists: the connection waits for its client (to send a head or the rest of a body, or to take an answer), or
//! the server works on its request. Neither requests nor answers make a connection younger. A connection of an
//! authenticated client is listed while it is idle. Ports that treat all clients alike treat them as authenticated.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Connections in one state, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionQueue(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    by_age: BTreeMap<u64, Arc<Notify>>,
}

/// Number of the next connection to enter a list; one counter for all lists, so that ages in different lists can be
/// compared.
static NEXT_AGE: AtomicU64 = AtomicU64::new(0);

fn next_age() -> u64 {
    NEXT_AGE.fetch_add(1, Ordering::Relaxed)
}

impl ConnectionQueue {
    fn locked(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of connections.
    pub(super) fn len(&self) -> usize {
        self.locked().by_age.len()
    }

    /// Age of the oldest connection; smaller is older.
    fn oldest(&self) -> Option<u64> {
        self.locked().by_age.first_key_value().map(|(age, _)| *age)
    }

    /// Asks the oldest connection of two lists to close; returns false if both are empty.
    pub(super) fn close_oldest_of(&self, other: &ConnectionQueue) -> bool {
        let is_older = match (self.oldest(), other.oldest()) {
            (Some(mine), Some(other)) => mine < other,
            (mine, _) => mine.is_some(),
        };
        let (first, second) = if is_older { (self, other) } else { (other, self) };
        first.close_oldest() || second.close_oldest()
    }

    /// Asks the oldest connection to close; returns false if there is none.
    pub(crate) fn close_oldest(&self) -> bool {
        let oldest = self.locked().by_age.pop_first();
        oldest.inspect(|(_, close)| close.notify_one()).is_some()
    }

    fn insert(&self, age: u64, close: &Arc<Notify>) {
        self.locked().by_age.insert(age, Arc::clone(close));
    }

    /// Removes a connection; returns false if it has been requested to close.
    fn remove(&self, age: u64) -> bool {
        self.locked().by_age.remove(&age).is_some()
    }

    fn contains(&self, age: u64) -> bool {
        self.locked().by_age.contains_key(&age)
    }
}

/// The connections of a port, without those in their handshake.
#[derive(Debug, Default)]
pub(super) struct Clients {
    /// Unauthenticated clients without a request that is being processed.
    pub(super) waiting: ConnectionQueue,
    /// Unauthenticated clients whose request is being processed.
    pub(super) working: ConnectionQueue,
    /// Authenticated clients without a request.
    pub(super) idle: ConnectionQueue,
    /// Number of connections of authenticated clients, on ports where clients must authenticate.
    authenticated: AtomicUsize,
    /// Number of these connections beyond which an idle one is closed for each client that authenticates.
    authenticated_max: usize,
    /// Connections that were closed in favour of others.
    pub(super) closed: AtomicU64,
}

impl Clients {
    /// No connections; authenticated clients may have `authenticated_max`.
    pub(super) fn new(authenticated_max: usize) -> Clients {
        Clients { authenticated_max, ..Clients::default() }
    }

    /// Number of connections of unauthenticated clients.
    pub(super) fn unauthenticated_len(&self) -> usize {
        self.waiting.len() + self.working.len()
    }

    /// Number of connections of authenticated clients.
    pub(super) fn authenticated_len(&self) -> usize {
        self.authenticated.load(Ordering::Relaxed)
    }

    fn add_authenticated(&self) {
        let others = self.authenticated.fetch_add(1, Ordering::Relaxed);
        if others >= self.authenticated_max && self.idle.close_oldest() {
            self.closed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[derive(Debug)]
pub(crate) struct ConnectionState {
    /// List of the connection while its client is authenticated and it has no request.
    idle: ConnectionQueue,
    /// Lists of a port where clients must authenticate.
    clients: Option<Arc<Clients>>,
    close: Arc<Notify>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Age of the connection in the lists of unauthenticated clients.
    age: u64,
    /// The list that contains the connection, and its age there.
    place: Option<(Standing, u64)>,
    /// Requests whose answer was not taken completely yet; HTTP/2 allows several.
    open_requests: usize,
    /// Open requests that the server is processing.
    working_requests: usize,
    has_had_request: bool,
    is_authenticated: bool,
    /// Whether the connection was requested to close while it was in a list that it has left since.
    is_chosen: bool,
    /// Number of the next request.
    next_request: u64,
    /// Number of the current period, in which clients must take a part of each answer.
    period: u64,
    /// For each request, by number, the period since which the client has taken less of the answer than it must.
    untaken_since: BTreeMap<u64, u64>,
}

/// State of a connection that may be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Waiting,
    Working,
    Idle,
}

/// Manner in which a connection must close when it is requested to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// At once.
    Now,
    /// After the answers to requests that have just arrived.
    AfterAnswers,
    /// Not at all: its client has just authenticated.
    Spared,
}

impl ConnectionState {
    /// Creates the state of a new connection of a port that treats all clients alike.
    pub(crate) fn new(idle: &ConnectionQueue) -> ConnectionState {
        ConnectionState::with(idle, None)
    }

    /// Creates the state of a new connection whose client has not authenticated yet.
    pub(super) fn unauthenticated(clients: &Arc<Clients>) -> ConnectionState {
        ConnectionState::with(&clients.idle, Some(Arc::clone(clients)))
    }

    fn with(idle: &ConnectionQueue, clients: Option<Arc<Clients>>) -> ConnectionState {
        let state = Mutex::new(State { age: next_age(), is_authenticated: clients.is_none(), ..State::default() });
        let waiter = ConnectionState { idle: idle.clone(), clients, close: Arc::default(), state };
        waiter.update_place(&mut waiter.locked());
        waiter
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self, standing: Standing) -> &ConnectionQueue {
        match (&self.clients, standing) {
            (Some(clients), Standing::Waiting) => &clients.waiting,
            (Some(clients), Standing::Working) => &clients.working,
            (_, Standing::Idle) | (None, _) => &self.idle,
        }
    }

    /// Moves the connection to the list of its state.
    fn update_place(&self, state: &mut State) {
        let standing = state.standing();
        if state.place.map(|(standing, _)| standing) == standing {
            return;
        }
        if let Some((standing, age)) = state.place.take()
            && !self.list(standing).remove(age)
        {
            state.is_chosen = true;
            return;
        }
        if let Some(standing) = standing {
            let age = if standing == Standing::Idle { next_age() } else { state.age };
            self.list(standing).insert(age, &self.close);
            state.place = Some((standing, age));
        }
    }

    /// Resolves when the connection is requested to close.
    pub(crate) async fn close_requested(&self) {
        self.close.notified().await;
    }

    /// Manner in which the connection must close once it is requested to.
    pub(super) fn closing(&self) -> Closing {
        let state = self.locked();
        let is_removed = state.place.is_some_and(|(standing, age)| !self.list(standing).contains(age));
        if !state.is_chosen && !is_removed {
            Closing::Spared
        } else if state.is_authenticated && state.open_requests > 0 {
            Closing::AfterAnswers
        } else {
            Closing::Now
        }
    }

    /// True if shutdown must wait for the answer to a request.
    pub(super) fn is_busy(&self) -> bool {
        let state = self.locked();
        state.working_requests > 0 || (state.is_authenticated && state.open_requests > 0)
    }

    /// True if the connection has received a request.
    pub(super) fn has_received_request(&self) -> bool {
        self.locked().has_had_request
    }

    /// Begins the next period; returns true if the client took too little of an answer throughout the previous period.
    pub(super) fn ends_stalled_period(&self) -> bool {
        let mut state = self.locked();
        state.period += 1;
        // A period has passed completely if another one has begun and ended since.
        state.untaken_since.values().any(|since| since + 2 <= state.period)
    }
}

impl State {
    /// The list to which the connection belongs; `None` if it must not be closed, or closes already.
    fn standing(&self) -> Option<Standing> {
        match (self.is_authenticated, self.is_chosen) {
            (_, true) => None,
            (false, _) if self.working_requests > 0 => Some(Standing::Working),
            (false, _) => Some(Standing::Waiting),
            (true, _) => (self.open_requests == 0).then_some(Standing::Idle),
        }
    }
}

impl Drop for ConnectionState {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (place, is_authenticated) = (state.place.take(), state.is_authenticated);
        if let Some((standing, age)) = place {
            self.list(standing).remove(age);
        }
        if let Some(clients) = self.clients.as_ref().filter(|_| is_authenticated) {
            clients.authenticated.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A request from its head until its answer was taken.
pub(super) struct OpenRequest {
    connection: Arc<ConnectionState>,
    number: u64,
    /// Whether the server is processing the request. Changes while the state of the connection is locked.
    is_working: AtomicBool,
    /// Bytes of the answer that the client must take in a period.
    period_bytes: usize,
    answer: Mutex<Untaken>,
}

/// The part of an answer that its client must take.
#[derive(Default)]
struct Untaken {
    /// Bytes that were passed to the connection and not written.
    bytes: usize,
    /// Bytes written in the current period.
    taken: usize,
}

impl OpenRequest {
    /// A request, on which the server works unless it is incomplete and its client unauthenticated.
    pub(super) fn new(connection: &Arc<ConnectionState>, is_complete: bool, period_bytes: usize) -> OpenRequest {
        let mut state = connection.locked();
        let number = state.next_request;
        (state.next_request, state.has_had_request) = (number + 1, true);
        state.open_requests += 1;
        let (is_working, answer) = Default::default();
        let request = OpenRequest { connection: Arc::clone(connection), number, is_working, period_bytes, answer };
        if is_complete || state.is_authenticated {
            request.set_working(&mut state, true);
        }
        connection.update_place(&mut state);
        drop(state);
        request
    }

    fn set_working(&self, state: &mut State, is_working: bool) {
        if self.is_working.swap(is_working, Ordering::Relaxed) != is_working {
            state.working_requests =
                if is_working { state.working_requests + 1 } else { state.working_requests.saturating_sub(1) };
        }
    }

    fn change_working(&self, is_working: bool) {
        let mut state = self.connection.locked();
        self.set_working(&mut state, is_working);
        self.connection.update_place(&mut state);
    }

    /// True if the client has authenticated.
    pub(super) fn is_authenticated(&self) -> bool {
        self.connection.locked().is_authenticated
    }

    /// Marks the request as complete.
    pub(super) fn complete(&self) {
        self.change_working(true);
    }

    /// Marks the answer as ready: from now on, the connection waits for its client.
    pub(super) fn answered(&self) {
        self.change_working(false);
    }

    /// Marks the client as authenticated, for this and for later requests.
    pub(super) fn mark_authenticated(&self) {
        let (connection, mut state) = (&self.connection, self.connection.locked());
        if std::mem::replace(&mut state.is_authenticated, true) {
            return;
        }
        if let Some((standing, age)) = state.place.take() {
            connection.list(standing).remove(age);
        }
        // A connection that was to be closed because its client was unauthenticated is spared.
        state.is_chosen = false;
        self.set_working(&mut state, true);
        connection.update_place(&mut state);
        if let Some(clients) = &connection.clients {
            clients.add_authenticated();
        }
    }

    fn untaken(&self) -> MutexGuard<'_, Untaken> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that bytes of the answer wait until they can be written.
    pub(super) fn add_untaken(&self, bytes: usize) {
        let mut answer = self.untaken();
        if answer.bytes == 0 && bytes > 0 {
            self.begin_period(&mut answer);
        }
        answer.bytes += bytes;
    }

    /// Records that bytes of the answer were written, or are no longer wanted.
    pub(super) fn take(&self, bytes: usize) {
        let mut answer = self.untaken();
        answer.bytes = answer.bytes.saturating_sub(bytes);
        answer.taken += bytes;
        if answer.bytes == 0 {
            self.connection.locked().untaken_since.remove(&self.number);
        } else if answer.taken >= self.period_bytes {
            self.begin_period(&mut answer);
        }
    }

    fn begin_period(&self, answer: &mut Untaken) {
        answer.taken = 0;
        let mut state = self.connection.locked();
        let period = state.period;
        state.untaken_since.insert(self.number, period);
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut state = self.connection.locked();
        state.untaken_since.remove(&self.number);
        self.set_working(&mut state, false);
        state.open_requests = state.open_requests.saturating_sub(1);
        self.connection.update_place(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection of an unauthenticated client.
    fn connection(clients: &Arc<Clients>) -> Arc<ConnectionState> {
        Arc::new(ConnectionState::unauthenticated(clients))
    }

    fn lens(clients: &Clients) -> (usize, usize, usize, usize) {
        (clients.waiting.len(), clients.working.len(), clients.idle.len(), clients.authenticated_len())
    }

    #[test]
    fn every_connection_of_an_unauthenticated_client_is_counted() {
        let clients = Arc::new(Clients::new(9));
        let state = connection(&clients);
        assert_eq!(lens(&clients), (1, 0, 0, 0));
        let request = OpenRequest::new(&state, false, 1);
        assert_eq!(lens(&clients), (1, 0, 0, 0), "the body of the request is incomplete");
        request.complete();
        assert_eq!(lens(&clients), (0, 1, 0, 0));
        let other = OpenRequest::new(&state, true, 1);
        request.answered();
        assert_eq!(lens(&clients), (0, 1, 0, 0), "the other request is processed");
        other.answered();
        assert_eq!(lens(&clients), (1, 0, 0, 0), "the answers were not taken");
        drop(request);
        other.mark_authenticated();
        assert_eq!(lens(&clients), (0, 0, 0, 1));
        drop(other);
        assert_eq!(lens(&clients), (0, 0, 1, 1));
        let later = OpenRequest::new(&state, false, 1);
        assert_eq!(lens(&clients), (0, 0, 0, 1));
        drop((later, state));
        assert_eq!(lens(&clients), (0, 0, 0, 0));
    }

    #[test]
    fn requests_do_not_make_unauthenticated_clients_younger() {
        let clients = Arc::new(Clients::new(9));
        let (first, second) = (connection(&clients), connection(&clients));
        drop(OpenRequest::new(&first, true, 1));
        assert!(clients.waiting.close_oldest());
        assert_eq!((first.closing(), second.closing()), (Closing::Now, Closing::Spared));
    }

    #[test]
    fn closing_spares_clients_that_have_just_authenticated() {
        let clients = Arc::new(Clients::new(9));
        let state = connection(&clients);
        let request = OpenRequest::new(&state, false, 1);
        assert!(clients.waiting.close_oldest());
        request.complete();
        assert_eq!((state.closing(), lens(&clients)), (Closing::Now, (0, 0, 0, 0)));
        request.mark_authenticated();
        assert_eq!(state.closing(), Closing::Spared);
        drop(request);
        assert!(clients.idle.close_oldest());
        assert_eq!(state.closing(), Closing::Now);
        let _request = OpenRequest::new(&state, true, 1);
        assert_eq!(state.closing(), Closing::AfterAnswers);
    }

    #[test]
    fn each_answer_must_be_taken_in_parts() {
        let state = Arc::new(ConnectionState::new(&ConnectionQueue::default()));
        let (slow, fast) = (OpenRequest::new(&state, true, 10), OpenRequest::new(&state, true, 10));
        for _ in 0..9 {
            assert!(!state.ends_stalled_period(), "the answers are not ready");
        }
        [&slow, &fast].iter().for_each(|request| request.add_untaken(100));
        for _ in 0..9 {
            [&slow, &fast].iter().for_each(|request| request.take(10));
            assert!(!state.ends_stalled_period(), "parts are taken");
        }
        fast.take(10);
        slow.take(9);
        assert!(state.ends_stalled_period(), "9 bytes of 10 were taken in this period");
        slow.take(1);
        assert!(!state.ends_stalled_period(), "everything was taken");
        slow.add_untaken(5);
        assert!(!state.ends_stalled_period());
        drop(slow);
        assert!((0..9).all(|_| !state.ends_stalled_period()), "the request was cancelled");
    }
}
