//! Load balancing and failover between servers that hold the same objects.
//!
//! A request goes to the healthy server with the fewest requests in flight; among equals, round-robin. Each server has
//! a circuit breaker: after a failed connection or several failed requests in a row, the server backs off, that is, it
//! gets requests only while all servers are backing off. After the backoff, a single probe request tests the server.
//! Backoffs double from [`BACKOFF_FIRST`] to [`BACKOFF_MAX`].

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quarry_stdx::SharedClock;

/// First backoff: the time for which no requests are sent to a server.
const BACKOFF_FIRST: Duration = Duration::from_millis(500);
/// Longest backoff.
const BACKOFF_MAX: Duration = Duration::from_secs(15);
/// Consecutive failures after which no requests are sent to a server for a while. For an unreachable server, one failure
/// is enough.
const FAILURES_MAX: u32 = 3;

/// The servers and their health.
#[derive(Debug)]
pub(crate) struct Endpoints<T> {
    all: Vec<Endpoint<T>>,
    turn: AtomicUsize,
    clock: SharedClock,
}

/// A server, its client and its health.
#[derive(Debug)]
pub(crate) struct Endpoint<T> {
    /// Its URL, which identifies it.
    pub(crate) url: String,
    pub(crate) client: T,
    in_flight: AtomicU64,
    health: Mutex<Health>,
}

#[derive(Debug, Default)]
struct Health {
    failures: u32,
    backoffs: u32,
    backoff_until_ns: Option<i64>,
}

/// Outcome of a request, as it affects the server's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server answered.
    Answered,
    /// The request failed or timed out.
    Failed,
    /// The server was unreachable.
    Unreachable,
    /// Another server answered first, which counts as a failure of this server.
    Superseded,
}

/// A request in flight. Dropping it means that another request overtook it.
pub(crate) struct RequestGuard<'a, T> {
    pub(crate) endpoint: &'a Endpoint<T>,
    clock: &'a SharedClock,
    outcome: Outcome,
}

impl<T> RequestGuard<'_, T> {
    /// Reports how the request ended.
    pub(crate) fn end(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl<T> Drop for RequestGuard<'_, T> {
    fn drop(&mut self) {
        self.endpoint.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.endpoint.health().record_outcome(self.outcome, self.clock.elapsed_ns());
    }
}

impl<T> Endpoint<T> {
    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Health {
    fn record_outcome(&mut self, outcome: Outcome, now_ns: i64) {
        match outcome {
            Outcome::Answered => *self = Health::default(),
            Outcome::Failed | Outcome::Superseded => self.failures += 1,
            Outcome::Unreachable => self.failures = FAILURES_MAX,
        }
        if self.failures >= FAILURES_MAX {
            let rest = BACKOFF_FIRST.saturating_mul(1 << self.backoffs.min(10)).min(BACKOFF_MAX);
            self.failures = 0;
            self.backoffs += 1;
            self.backoff_until_ns = Some(now_ns.saturating_add(i64::try_from(rest.as_nanos()).unwrap_or(i64::MAX)));
        }
    }

    /// Whether the server may be used. After its backoff, one probe is admitted; until the probe is answered, but at
    /// most for [`BACKOFF_MAX`], the server backs off from all other requests.
    fn admits(&mut self, now_ns: i64) -> bool {
        match self.backoff_until_ns {
            None => true,
            Some(until_ns) if now_ns < until_ns => false,
            Some(_) => {
                let trial = i64::try_from(BACKOFF_MAX.as_nanos()).unwrap_or(i64::MAX);
                self.backoff_until_ns = Some(now_ns.saturating_add(trial));
                true
            }
        }
    }
}

impl<T> Endpoints<T> {
    pub(crate) fn new(clients: Vec<(String, T)>, clock: SharedClock) -> Endpoints<T> {
        assert!(!clients.is_empty(), "a store has a server");
        let endpoint = |(url, client)| Endpoint { url, client, in_flight: AtomicU64::new(0), health: Mutex::default() };
        Endpoints { all: clients.into_iter().map(endpoint).collect(), turn: AtomicUsize::new(0), clock }
    }

    /// The server for the next request; avoids the server named `avoid` if another server is healthy.
    pub(crate) fn next(&self, avoid: Option<&str>) -> RequestGuard<'_, T> {
        let now_ns = self.clock.elapsed_ns();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut in_turn: Vec<&Endpoint<T>> =
            (0..self.all.len()).map(|at| &self.all[(turn + at) % self.all.len()]).collect();
        in_turn
            .sort_by_key(|endpoint| (avoid == Some(endpoint.url.as_str()), endpoint.in_flight.load(Ordering::Relaxed)));
        let first = in_turn[0];
        let endpoint = in_turn.into_iter().find(|endpoint| endpoint.health().admits(now_ns)).unwrap_or(first);
        endpoint.in_flight.fetch_add(1, Ordering::Relaxed);
        RequestGuard { endpoint, clock: &self.clock, outcome: Outcome::Superseded }
    }

    pub(crate) fn urls(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|endpoint| endpoint.url.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use quarry_stdx::ManualClock;

    use super::*;

    fn three() -> (Endpoints<()>, Arc<ManualClock>) {
        let clock = ManualClock::shared(0);
        (Endpoints::new(["a", "b", "c"].map(|url| (url.to_owned(), ())).to_vec(), clock.clone()), clock)
    }

    /// Sends `count` requests, each with the outcome that `outcome` returns for its server; returns the number of
    /// requests per server.
    fn send_requests(
        endpoints: &Endpoints<()>,
        count: usize,
        outcome: impl Fn(&str) -> Outcome,
    ) -> BTreeMap<String, usize> {
        let mut asked = BTreeMap::new();
        for _ in 0..count {
            let turn = endpoints.next(None);
            let url = turn.endpoint.url.clone();
            turn.end(outcome(&url));
            *asked.entry(url).or_default() += 1;
        }
        asked
    }

    #[test]
    fn requests_are_spread_over_servers() {
        let (endpoints, _) = three();
        let asked = send_requests(&endpoints, 30, |_| Outcome::Answered);
        assert_eq!(asked.values().copied().collect::<Vec<_>>(), [10, 10, 10]);
        let held: Vec<_> = (0..6).map(|_| endpoints.next(None)).collect();
        let of = |url: &str| held.iter().filter(|turn| turn.endpoint.url == url).count();
        assert_eq!([of("a"), of("b"), of("c")], [2, 2, 2]);
    }

    #[test]
    fn slow_servers_get_fewer_requests() {
        let (endpoints, _) = three();
        let (stuck, others): (Vec<_>, Vec<_>) =
            (0..12).map(|_| endpoints.next(None)).partition(|turn| turn.endpoint.url == "b");
        assert_eq!(stuck.len(), 4);
        others.into_iter().for_each(|turn| turn.end(Outcome::Answered));
        assert!(!send_requests(&endpoints, 30, |_| Outcome::Answered).contains_key("b"));
    }

    #[test]
    fn unreachable_servers_back_off_exponentially() {
        let (endpoints, clock) = three();
        let down = |url: &str| if url == "b" { Outcome::Unreachable } else { Outcome::Answered };
        let mut asked_at = Vec::new();
        for tick in 0..600 {
            if send_requests(&endpoints, 3, down).contains_key("b") {
                asked_at.push(tick);
            }
            clock.advance_ns(100_000_000);
        }
        let rests: Vec<i32> = asked_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(&rests[..6], [5, 10, 20, 40, 80, 150], "tenths of a second");
        clock.advance_ns(BACKOFF_MAX.as_nanos() as i64);
        assert_eq!(send_requests(&endpoints, 30, |_| Outcome::Answered)["b"], 10, "used again at once");
    }

    #[test]
    fn one_request_probes_a_server_after_its_backoff() {
        let (endpoints, clock) = three();
        send_requests(&endpoints, 3, |url| if url == "b" { Outcome::Unreachable } else { Outcome::Answered });
        clock.advance_ns(BACKOFF_FIRST.as_nanos() as i64);
        let held: Vec<_> = (0..9).map(|_| endpoints.next(None)).collect();
        assert_eq!(held.iter().filter(|turn| turn.endpoint.url == "b").count(), 1);
    }

    #[test]
    fn occasional_failures_are_tolerated() {
        let (endpoints, _) = three();
        assert_eq!(send_requests(&endpoints, 6, |_| Outcome::Failed).len(), 3);
        send_requests(&endpoints, 3, |_| Outcome::Answered);
        let failing = |url: &str| if url == "a" { Outcome::Failed } else { Outcome::Answered };
        assert_eq!(send_requests(&endpoints, 60, failing)["a"], FAILURES_MAX as usize);
    }

    #[test]
    fn requests_are_sent_even_if_all_servers_back_off() {
        let (endpoints, _) = three();
        assert_eq!(send_requests(&endpoints, 30, |_| Outcome::Unreachable).values().sum::<usize>(), 30);
    }

    #[test]
    fn second_attempts_use_another_server() {
        let (endpoints, _) = three();
        for _ in 0..10 {
            let turn = endpoints.next(Some("a"));
            assert_ne!(turn.endpoint.url, "a");
            turn.end(Outcome::Answered);
        }
        let single = Endpoints::new(vec![("a".to_owned(), ())], ManualClock::shared(0));
        assert_eq!(single.next(Some("a")).endpoint.url, "a");
    }
}
