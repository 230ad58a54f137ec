//! Requests repeated because their answer never arrived.
//!
//! A sender whose connection breaks before the answer cannot know whether its events were stored, and sends them again.
//! If the collector saw the connection end before the answer was sent, the same body on the same channel gets that
//! answer, and its events are not stored again, however many of its answers are lost. A body repeated after its answer
//! was sent is a new request, whose events are stored again. A body that equals a request from long ago is also a new
//! request, because it is more likely another event with the same text.
//!
//! Not here: requests unanswered because the node died (the store handles them), and answers lost after they were
//! written, which only the sender can notice.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use quarry_event::SentRequest;
use xxhash_rust::xxh3::Xxh3;

use super::answer::Answer;

/// Maximum number of requests remembered per channel.
const REQUESTS_MAX: usize = 1_000;
/// Maximum number of channels remembered.
const CHANNELS_MAX: usize = 10_000;
/// Number of channels forgotten at once when there are too many: those whose last requests are the oldest.
const CHANNELS_FORGOTTEN: usize = 100;
/// Age beyond which a request without an answer is no longer recognised; equal to the period for which the store
/// recognises requests of its last run.
const REPEATED_SECONDS_MAX: u64 = 30 * 60;
/// Maximum time for which a repeated request waits until its earlier attempt ends; then its sender is asked to retry.
pub(crate) const EARLIER_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Token and channel.
type ChannelKey = (String, String);

/// Requests whose answers have not been sent.
#[derive(Default)]
pub(crate) struct Retries {
    channels: Mutex<BTreeMap<ChannelKey, VecDeque<Arc<Pending>>>>,
}

/// A request in progress.
struct Pending {
    content: u128,
    /// Identity of the request in the store.
    sent: SentRequest,
    begun_ns: i64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Set while no sender waits for the answer.
    is_abandoned: bool,
    /// The answer once it is known; an inner `None` means failure. `None` while the events are being stored.
    outcome: Option<Option<Answer>>,
}

/// A request that is either new or repeated.
pub(crate) enum Submission {
    /// The request is new; its events are to be stored.
    New(Attempt),
    /// The request was sent before.
    Repeated(Attempt),
}

impl Submission {
    /// The attempt, and the earlier attempt at the same request if there was one.
    pub(crate) fn into_parts(self) -> (Attempt, Option<EarlierAttempt>) {
        match self {
            Submission::New(attempt) => (attempt, None),
            Submission::Repeated(attempt) => {
                let earlier = EarlierAttempt(Arc::clone(&attempt.pending));
                (attempt, Some(earlier))
            }
        }
    }
}

/// A request being answered. Dropping it before its answer is sent means that the sender is gone.
pub(crate) struct Attempt {
    retries: Arc<Retries>,
    key: ChannelKey,
    pending: Arc<Pending>,
    is_answered: bool,
}

/// Records the outcome of storing a request, even if its sender is gone.
pub(crate) struct Outcome(Arc<Pending>);

/// An earlier attempt whose sender is gone.
pub(crate) struct EarlierAttempt(Arc<Pending>);

pub(crate) enum EarlierResult {
    /// The events are stored; this answer was not sent.
    Answered(Answer),
    /// The events were not stored, so the current attempt stores them and records the outcome.
    Failed(Outcome),
    /// The events are still being stored after the maximum wait.
    Unfinished,
}

impl Retries {
    /// Hash that identifies a request within its channel.
    pub(crate) fn content_hash(path_and_query: &str, body: &[u8]) -> u128 {
        let mut hasher = Xxh3::new();
        hasher.update(&(path_and_query.len() as u64).to_le_bytes());
        hasher.update(path_and_query.as_bytes());
        hasher.update(body);
        hasher.digest128()
    }

    /// Hash that identifies a request in the store, computed from its sender (token and channel) and its content.
    pub(crate) fn request_key(token: &str, channel: &str, content: u128) -> u128 {
        let mut hasher = Xxh3::new();
        for text in [token, channel] {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        hasher.update(&content.to_le_bytes());
        hasher.digest128()
    }

    /// Begins a request with this content; `sent` is the request's identity in the store.
    pub(crate) fn begin(
        self: &Arc<Retries>,
        token: &str,
        channel: &str,
        content: u128,
        sent: SentRequest,
        now_ns: i64,
    ) -> Submission {
        let key = (token.to_owned(), channel.to_owned());
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if channels.len() >= CHANNELS_MAX && !channels.contains_key(&key) {
            forget_oldest(&mut channels);
        }
        let requests = channels.entry(key.clone()).or_default();
        let is_recent = |pending: &Pending| now_ns.saturating_sub(pending.begun_ns) < nanos_of(REPEATED_SECONDS_MAX);
        let is_lost =
            |pending: &&Arc<Pending>| pending.content == content && is_recent(pending) && pending.lock().is_abandoned;
        if let Some(earlier) = requests.iter().find(is_lost) {
            earlier.lock().is_abandoned = false;
            let pending = Arc::clone(earlier);
            return Submission::Repeated(Attempt { retries: Arc::clone(self), key, pending, is_answered: false });
        }
        let (state, changed) = (Mutex::default(), Condvar::new());
        let pending = Arc::new(Pending { content, sent, begun_ns: now_ns, state, changed });
        if requests.len() >= REQUESTS_MAX {
            requests.pop_front();
        }
        requests.push_back(Arc::clone(&pending));
        Submission::New(Attempt { retries: Arc::clone(self), key, pending, is_answered: false })
    }

    /// Forgets requests older than `seconds`.
    pub(crate) fn remove_old(&self, seconds: u64, now_ns: i64) {
        let age_ns = nanos_of(seconds);
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels.retain(|_, requests| {
            requests.retain(|pending| now_ns.saturating_sub(pending.begun_ns) < age_ns);
            !requests.is_empty()
        });
    }
}

fn nanos_of(seconds: u64) -> i64 {
    i64::try_from(seconds.saturating_mul(NANOS_PER_SEC)).unwrap_or(i64::MAX)
}

/// Forgets the channels whose last requests are the oldest.
fn forget_oldest(channels: &mut BTreeMap<ChannelKey, VecDeque<Arc<Pending>>>) {
    let begun = |requests: &VecDeque<Arc<Pending>>| requests.back().map_or(i64::MIN, |pending| pending.begun_ns);
    let mut by_age: Vec<(i64, ChannelKey)> =
        channels.iter().map(|(key, requests)| (begun(requests), key.clone())).collect();
    by_age.sort_unstable();
    by_age.into_iter().take(CHANNELS_FORGOTTEN).for_each(|(_, key)| drop(channels.remove(&key)));
}

impl Pending {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt {
    /// Identity of the request in the store.
    pub(crate) fn sent(&self) -> SentRequest {
        self.pending.sent
    }

    /// Returns a handle for setting the outcome, for the code that stores the events of a new request.
    pub(crate) fn outcome(&self) -> Outcome {
        Outcome(Arc::clone(&self.pending))
    }

    /// Records that the answer is sent.
    pub(crate) fn record_answered(&mut self) {
        self.is_answered = true;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        {
            let mut state = self.pending.lock();
            // A sender that was asked to retry because its events are still being stored repeats its request, too.
            if !self.is_answered || state.outcome.is_none() {
                state.is_abandoned = true;
                return;
            }
        }
        let mut channels = self.retries.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(requests) = channels.get_mut(&self.key) {
            requests.retain(|pending| !Arc::ptr_eq(pending, &self.pending));
            if requests.is_empty() {
                channels.remove(&self.key);
            }
        }
    }
}

impl Outcome {
    /// Sets the answer; `None` means that the events were not stored.
    pub(crate) fn set(self, answer: Option<Answer>) {
        self.0.lock().outcome = Some(answer);
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        // An attempt that ends without a result has failed.
        self.0.lock().outcome.get_or_insert(None);
        self.0.changed.notify_all();
    }
}

impl EarlierAttempt {
    /// Waits for the result, at most for `timeout`. After a failure, one of the waiting repetitions stores the events,
    /// and the others wait for its outcome.
    pub(crate) fn wait(self, timeout: Duration) -> EarlierResult {
        let unknown = |state: &mut State| state.outcome.is_none();
        let waited = self.0.changed.wait_timeout_while(self.0.lock(), timeout, unknown);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.outcome {
            Some(Some(answer)) => EarlierResult::Answered(answer),
            Some(None) => {
                state.outcome = None;
                drop(state);
                EarlierResult::Failed(Outcome(self.0))
            }
            None => EarlierResult::Unfinished,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::Code;
    use super::*;

    fn begin(retries: &Arc<Retries>, channel: &str, body: &str) -> Submission {
        retries.begin("t", channel, Retries::content_hash("/event", body.as_bytes()), SentRequest::default(), 0)
    }

    fn new(begun: Submission) -> Attempt {
        match begun {
            Submission::New(attempt) => attempt,
            Submission::Repeated(_) => panic!("the submission is new"),
        }
    }

    fn repeated(begun: Submission) -> (Attempt, EarlierAttempt) {
        match begun.into_parts() {
            (attempt, Some(earlier)) => (attempt, earlier),
            (_, None) => panic!("the submission was sent before"),
        }
    }

    fn answer(mut attempt: Attempt) {
        attempt.record_answered();
    }

    fn answer_of(earlier: EarlierAttempt) -> Option<Answer> {
        match earlier.wait(EARLIER_ATTEMPT_TIMEOUT) {
            EarlierResult::Answered(answer) => Some(answer),
            EarlierResult::Failed(_) | EarlierResult::Unfinished => None,
        }
    }

    /// Begins a request, sets its outcome and sends its answer.
    fn store_and_answer(retries: &Arc<Retries>, channel: &str, body: &str) {
        let attempt = new(begin(retries, channel, body));
        attempt.outcome().set(Some(Code::Success.into()));
        answer(attempt);
    }

    #[test]
    fn unanswered_requests_get_their_answer_however_often_it_is_lost() {
        let retries = Arc::new(Retries::default());
        store_and_answer(&retries, "a", "x");
        let first = new(begin(&retries, "a", "x"));
        let beside = new(begin(&retries, "a", "x"));
        first.outcome().set(Some(Answer { ack: Some(7), ..Code::Success.into() }));
        drop(first);
        store_and_answer(&retries, "b", "x");
        store_and_answer(&retries, "a", "y");
        for _ in 0..3 {
            let (again, earlier) = repeated(begin(&retries, "a", "x"));
            assert_eq!(answer_of(earlier).and_then(|answer| answer.ack), Some(7));
            // The sender disconnects again.
            drop(again);
        }
        answer(repeated(begin(&retries, "a", "x")).0);
        beside.outcome().set(Some(Code::Success.into()));
        answer(beside);
        store_and_answer(&retries, "a", "x");
        assert!(retries.channels.lock().unwrap().is_empty());
    }

    #[test]
    fn one_of_several_retries_stores_a_failed_request_and_the_others_wait_for_it() {
        let retries = Arc::new(Retries::default());
        let attempt = new(begin(&retries, "a", "x"));
        let outcome = attempt.outcome();
        drop(attempt);
        let (second, earlier) = repeated(begin(&retries, "a", "x"));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| earlier.wait(EARLIER_ATTEMPT_TIMEOUT));
            drop(outcome);
            let EarlierResult::Failed(outcome) = waiting.join().unwrap() else { panic!("the earlier attempt failed") };
            drop(second);
            let (third, earlier) = repeated(begin(&retries, "a", "x"));
            let waiting = scope.spawn(|| answer_of(earlier));
            outcome.set(Some(Answer { ack: Some(3), ..Code::Success.into() }));
            assert_eq!(waiting.join().unwrap().and_then(|answer| answer.ack), Some(3));
            answer(third);
        });
        assert!(retries.channels.lock().unwrap().is_empty());
    }

    #[test]
    fn a_retry_that_waited_too_long_is_still_a_retry_when_it_is_repeated() {
        let retries = Arc::new(Retries::default());
        let attempt = new(begin(&retries, "a", "x"));
        let outcome = attempt.outcome();
        drop(attempt);
        let (second, earlier) = repeated(begin(&retries, "a", "x"));
        assert!(matches!(earlier.wait(Duration::ZERO), EarlierResult::Unfinished));
        // The sender gets the answer that the server is busy.
        answer(second);
        outcome.set(Some(Code::Success.into()));
        let (third, earlier) = repeated(begin(&retries, "a", "x"));
        assert_eq!(answer_of(earlier), Some(Code::Success.into()));
        answer(third);
        assert!(retries.channels.lock().unwrap().is_empty());
    }

    #[test]
    fn requests_from_long_ago_are_not_repetitions() {
        let retries = Arc::new(Retries::default());
        let begin = |seconds: i64| retries.begin("t", "a", 1, SentRequest::default(), seconds * 1_000_000_000);
        drop(new(begin(0)));
        drop(repeated(begin(REPEATED_SECONDS_MAX as i64 - 1)));
        drop(new(begin(REPEATED_SECONDS_MAX as i64)));
    }

    #[test]
    fn old_and_excess_requests_are_forgotten() {
        let retries = Arc::new(Retries::default());
        drop(new(begin(&retries, "a", "x")));
        retries.remove_old(10, 9_000_000_000);
        assert_eq!(retries.channels.lock().unwrap().len(), 1);
        retries.remove_old(10, 10_000_000_000);
        assert!(retries.channels.lock().unwrap().is_empty());
        for number in 0..=REQUESTS_MAX {
            drop(new(begin(&retries, "a", &number.to_string())));
        }
        drop(new(begin(&retries, "a", "0")));
        assert!(matches!(begin(&retries, "a", "9"), Submission::Repeated(_)));
    }

    #[test]
    fn the_channels_with_the_oldest_requests_are_forgotten() {
        let retries = Arc::new(Retries::default());
        // The newest channels are the first ones in alphabetical order.
        let begin = |number: usize| {
            let (channel, now) = (format!("{:05}", CHANNELS_MAX - number), i64::try_from(number).unwrap());
            retries.begin("t", &channel, 1, SentRequest::default(), now)
        };
        for number in 0..=CHANNELS_MAX {
            drop(new(begin(number)));
        }
        assert_eq!(retries.channels.lock().unwrap().len(), CHANNELS_MAX + 1 - CHANNELS_FORGOTTEN);
        assert!(matches!(begin(CHANNELS_FORGOTTEN), Submission::Repeated(_)));
        assert!(matches!(begin(CHANNELS_MAX), Submission::Repeated(_)));
        drop(new(begin(CHANNELS_FORGOTTEN - 1)));
    }
}
