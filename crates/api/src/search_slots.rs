//! Search slots: each running search holds one, so that their number limits the concurrent searches, in total and per
//! user. Waiting searches are in a fair queue.
//!
//! A user at the limit does not block others: the next search to run is the first in the queue whose user is below the
//! limit. Streams, whose rows are sent as they are found, last as long as their clients read, so some of a user's slots
//! are reserved for short searches. Searches that turn out to have many rows count as streams.
//!
//! Among searches that could run, searches of higher priority come first ([`Priority`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use quarry_search::jobs::SearchSlot;

use crate::message::ApiError;

/// Maximum share of all slots that one user may have: three quarters.
const USER_SHARE: (usize, usize) = (3, 4);
/// Maximum share of a user's slots that streams may have, not counting streams of stalled clients: two thirds.
const STREAM_SHARE: (usize, usize) = (2, 3);
/// Maximum number of waiting searches; further searches are refused.
pub const SEARCHES_WAITING_MAX: usize = 1_024;

/// Maximum number of searches with many rows that wait for other searches; each holds a thread and little memory.
/// Further searches with many rows continue without waiting.
pub(crate) const LARGE_WAITING_MAX: usize = 64;

/// Default priority of a search.
pub(crate) const PRIORITY_DEFAULT: u8 = 5;

/// The priority of a waiting search from 0 to 10, which may change while it waits.
///
/// The priority orders the searches of one user. Among searches of different users, priorities above the default count
/// only for users who may set the priority of scheduled searches, because otherwise anyone could lock out all others.
#[derive(Clone, Debug)]
pub(crate) struct Priority {
    pub(crate) value: Arc<AtomicU8>,
    /// Whether a priority above the default puts the search before the searches of other users.
    pub(crate) outranks_others: bool,
}

impl Default for Priority {
    fn default() -> Priority {
        Priority { value: Arc::new(AtomicU8::new(PRIORITY_DEFAULT)), outranks_others: false }
    }
}

impl Priority {
    fn among_own(&self) -> u8 {
        self.value.load(Ordering::Relaxed)
    }

    fn among_all(&self) -> u8 {
        if self.outranks_others { self.among_own() } else { self.among_own().min(PRIORITY_DEFAULT) }
    }
}

/// A search that waits for a slot.
struct Waiter {
    user: String,
    purpose: SlotPurpose,
    priority: Priority,
    permit: oneshot::Sender<SlotPermit>,
}

/// Limits of the slots of a server.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Maximum number of concurrent searches. Each may use every core and one blocking thread. Because logins and
    /// inputs need blocking threads at any time, a server has more blocking threads than search slots.
    all: usize,
    of_user: usize,
    streams_of_user: usize,
    waiting: usize,
    large_waiting: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotPurpose {
    /// A search whose rows are collected before they are sent.
    Search,
    /// A search whose rows are sent as they are found, or which has many rows.
    Stream,
}

/// Numbers of slots that a user holds: in all, and for streams.
#[derive(Clone, Copy, Debug, Default)]
struct UserSlots {
    all: usize,
    streams: usize,
}

/// The search slots of a server.
pub(crate) struct SlotPool {
    bounds: Bounds,
    queue: Mutex<Queue>,
    /// Whether the server is stopping, so that searches without an end of their own must end.
    is_ending: AtomicBool,
}

#[derive(Default)]
struct Queue {
    running: usize,
    of_user: BTreeMap<String, UserSlots>,
    /// Quotas of users whose roles set a quota; at most one entry for each user of the server.
    quotas: BTreeMap<String, usize>,
    /// The waiting searches, in order of arrival.
    waiting: VecDeque<Waiter>,
    /// Waiting searches that already have many rows.
    large_waiting: usize,
}

/// A slot, released when dropped.
pub(crate) struct SlotPermit {
    pool: Arc<SlotPool>,
    user: String,
    purpose: SlotPurpose,
}

impl SlotPool {
    /// Slots of a server with a maximum number of concurrent searches.
    pub(crate) fn for_server(all: usize) -> Arc<SlotPool> {
        let of_user = fraction_of(all, USER_SHARE);
        SlotPool::new(Bounds {
            all,
            of_user,
            streams_of_user: fraction_of(of_user, STREAM_SHARE),
            waiting: SEARCHES_WAITING_MAX,
            large_waiting: LARGE_WAITING_MAX,
        })
    }

    /// Maximum number of concurrent searches.
    pub(crate) fn searches_max(&self) -> usize {
        self.bounds.all
    }

    /// Sets the quota of a user's roles, `None` for unlimited.
    pub(crate) fn set_quota(&self, user: &str, searches: Option<usize>) {
        let mut queue = self.lock();
        match searches {
            Some(searches) => drop(queue.quotas.insert(user.to_owned(), searches.max(1))),
            None => drop(queue.quotas.remove(user)),
        }
    }

    /// Removes the quota of a deleted user.
    pub(crate) fn remove_user(&self, user: &str) {
        self.lock().quotas.remove(user);
    }

    fn new(bounds: Bounds) -> Arc<SlotPool> {
        Arc::new(SlotPool { bounds, queue: Mutex::default(), is_ending: AtomicBool::new(false) })
    }

    /// Requests the end of searches that do not end by themselves.
    pub(crate) fn request_end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Whether searches that do not end by themselves must end.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Whether no search is running.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().running == 0
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot for a user and acquires it.
    pub(crate) async fn acquire(
        self: &Arc<SlotPool>,
        user: &str,
        purpose: SlotPurpose,
    ) -> Result<SlotPermit, ApiError> {
        self.acquire_reporting(user, purpose, Priority::default(), |_| {}).await
    }

    /// Like [`SlotPool::acquire`], with a priority; passes the reason to `tell` if the search must wait.
    pub(crate) async fn acquire_reporting(
        self: &Arc<SlotPool>,
        user: &str,
        purpose: SlotPurpose,
        priority: Priority,
        tell: impl FnOnce(String),
    ) -> Result<SlotPermit, ApiError> {
        let (waiting, why) = {
            let mut queue = self.lock();
            if queue.may_run(user, purpose, &self.bounds) {
                queue.add_running(user, purpose);
                return Ok(SlotPermit { pool: Arc::clone(self), user: user.to_owned(), purpose });
            }
            if queue.waiting.len() >= self.bounds.waiting {
                queue.waiting.retain(|waiter| !waiter.permit.is_closed());
            }
            if queue.waiting.len() >= self.bounds.waiting {
                let text = format!("{} searches wait for a slot, the maximum: try again", self.bounds.waiting);
                return Err(ApiError::too_many(text));
            }
            // A user's waiting searches are limited, because a queue filled by one user would lock out all others.
            let is_own = |waiter: &&Waiter| waiter.user == user && !waiter.permit.is_closed();
            let of_user = queue.waiting.iter().filter(is_own).count();
            if of_user >= self.bounds.waiting.div_ceil(2) {
                let text = format!("{of_user} searches of user {user} wait for a slot, the maximum: try again");
                return Err(ApiError::too_many(text));
            }
            let (permit, waiting) = oneshot::channel();
            queue.waiting.push_back(Waiter { user: user.to_owned(), purpose, priority, permit });
            (waiting, queue.reason_to_wait(user, &self.bounds))
        };
        tell(why);
        waiting.await.map_err(|_| ApiError::internal("the server is about to stop".to_owned()))
    }
}

impl SlotPermit {
    /// Reclassifies a search with many rows as a stream. If the user has too many streams, the search calls
    /// `release_memory`, gives up its slot and waits, unless [`LARGE_WAITING_MAX`] searches already wait. Blocks.
    pub(crate) fn grow(mut self, release_memory: impl FnOnce()) -> Option<SlotPermit> {
        let slots = Arc::clone(&self.pool);
        let waiting = {
            let mut queue = slots.lock();
            if self.purpose == SlotPurpose::Stream || queue.convert_to_stream(&self.user, &slots.bounds) {
                self.purpose = SlotPurpose::Stream;
                return Some(self);
            }
            if queue.large_waiting >= slots.bounds.large_waiting {
                return Some(self);
            }
            queue.large_waiting += 1;
            let (permit, waiting) = oneshot::channel();
            let (user, purpose, priority) = (self.user.clone(), SlotPurpose::Stream, Priority::default());
            queue.waiting.push_back(Waiter { user, purpose, priority, permit });
            waiting
        };
        release_memory();
        // The next search in the queue, which may be this one, gets the slot.
        drop(self);
        let permit = waiting.blocking_recv();
        slots.lock().large_waiting -= 1;
        // The queue drops no waiter, so a slot always arrives.
        permit.ok()
    }
}

impl SearchSlot for SlotPermit {
    fn grow(self: Box<Self>, release_memory: &mut dyn FnMut()) -> Option<Box<dyn SearchSlot>> {
        SlotPermit::grow(*self, release_memory).map(|permit| Box::new(permit) as Box<dyn SearchSlot>)
    }
}

impl Queue {
    fn may_run(&self, user: &str, purpose: SlotPurpose, bounds: &Bounds) -> bool {
        let share = self.of_user.get(user).copied().unwrap_or_default();
        let (of_user, streams_of_user) = self.bounds_of(user, bounds);
        let fits = purpose == SlotPurpose::Search || share.streams < streams_of_user;
        fits && self.running < bounds.all && share.all < of_user
    }

    /// Reason why a search of a user must wait.
    fn reason_to_wait(&self, user: &str, bounds: &Bounds) -> String {
        let own = self.of_user.get(user).copied().unwrap_or_default();
        let (of_user, _) = self.bounds_of(user, bounds);
        if own.all >= of_user {
            return format!(
                "The search waits for a slot: {} searches of user {user} run, and {of_user} may run at a time \
                 (srchJobsQuota of the user's roles, or three quarters of all slots).",
                own.all
            );
        }
        format!(
            "The search waits for a slot: {} searches run, and {} may run at a time (base_max_searches and \
             max_searches_per_cpu in limits.conf).",
            self.running, bounds.all
        )
    }

    /// Maximum number of searches and streams of a user.
    fn bounds_of(&self, user: &str, bounds: &Bounds) -> (usize, usize) {
        match self.quotas.get(user).copied().filter(|quota| *quota < bounds.of_user) {
            None => (bounds.of_user, bounds.streams_of_user),
            Some(quota) => (quota, fraction_of(quota, STREAM_SHARE).min(bounds.streams_of_user)),
        }
    }

    fn add_running(&mut self, user: &str, purpose: SlotPurpose) {
        self.running += 1;
        let share = self.of_user.entry(user.to_owned()).or_default();
        share.all += 1;
        share.streams += usize::from(purpose == SlotPurpose::Stream);
    }

    /// Turns a running search into a stream, if its user may have one more stream.
    fn convert_to_stream(&mut self, user: &str, bounds: &Bounds) -> bool {
        let (_, streams_of_user) = self.bounds_of(user, bounds);
        let share = self.of_user.entry(user.to_owned()).or_default();
        let may = share.streams < streams_of_user;
        share.streams += usize::from(may);
        may
    }

    fn remove_running(&mut self, user: &str, purpose: SlotPurpose) {
        self.running -= 1;
        if let Some(share) = self.of_user.get_mut(user) {
            share.all -= 1;
            share.streams -= usize::from(purpose == SlotPurpose::Stream);
            if share.all == 0 {
                self.of_user.remove(user);
            }
        }
    }

    /// The next waiter that may run: of the highest priority, and among equals the first in the queue.
    fn next_waiter(&mut self, bounds: &Bounds) -> Option<Waiter> {
        let ready = |(_, waiter): &(usize, &Waiter)| self.may_run(&waiter.user, waiter.purpose, bounds);
        let ready = || self.waiting.iter().enumerate().filter(ready);
        let (_, first) = ready().max_by_key(|(at, waiter)| (waiter.priority.among_all(), Reverse(*at)))?;
        let of_user = ready().filter(|(_, waiter)| waiter.user == first.user);
        let (at, _) = of_user.max_by_key(|(at, waiter)| (waiter.priority.among_own(), Reverse(*at)))?;
        let next = self.waiting.remove(at)?;
        self.add_running(&next.user, next.purpose);
        Some(next)
    }
}

impl Drop for SlotPermit {
    fn drop(&mut self) {
        let next = {
            let mut queue = self.pool.lock();
            queue.remove_running(&self.user, self.purpose);
            queue.next_waiter(&self.pool.bounds)
        };
        if let Some(Waiter { user, purpose, permit, .. }) = next {
            // If the waiter is gone, the returned slot is dropped and goes to the next waiter.
            drop(permit.send(SlotPermit { pool: Arc::clone(&self.pool), user, purpose }));
        }
    }
}

/// A fraction of a number, at least one.
fn fraction_of(of: usize, (some, all): (usize, usize)) -> usize {
    (of * some / all).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn searches_of_higher_priority_come_first() {
        let slots = SlotPool::for_server(1);
        let running = slots.acquire("admin", SlotPurpose::Search).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        let waiters = [
            ("eva 5", 5, false),
            ("eva 9", 9, false),
            ("tom 10", 10, false),
            ("tom 5", 5, false),
            ("ann 1", 1, false),
            ("root 6", 6, true),
        ];
        for (at, (name, value, outranks_others)) in waiters.into_iter().enumerate() {
            let priority = Priority { value: Arc::new(AtomicU8::new(value)), outranks_others };
            let (pool, order) = (Arc::clone(&slots), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let user = name.split(' ').next().unwrap();
                let permit = pool.acquire_reporting(user, SlotPurpose::Search, priority, |_| {}).await.unwrap();
                order.lock().unwrap().push(name);
                drop(permit);
            }));
            while slots.lock().waiting.len() <= at {
                tokio::task::yield_now().await;
            }
        }
        drop(running);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), ["root 6", "eva 9", "eva 5", "tom 10", "tom 5", "ann 1"]);
    }

    #[tokio::test]
    async fn roles_limit_the_concurrent_searches_of_a_user() {
        let slots = SlotPool::for_server(64);
        assert_eq!((slots.bounds.of_user, slots.bounds.streams_of_user, slots.searches_max()), (48, 32, 64));
        slots.set_quota("eva", Some(3));
        let streams = [
            slots.acquire("eva", SlotPurpose::Stream).await.unwrap(),
            slots.acquire("eva", SlotPurpose::Stream).await.unwrap(),
        ];
        let search = slots.acquire("eva", SlotPurpose::Search).await.unwrap();
        let waiting = Arc::clone(&slots);
        let (say, told) = std::sync::mpsc::channel();
        let tell = move |why| say.send(why).unwrap();
        let fourth = tokio::spawn(async move {
            waiting.acquire_reporting("eva", SlotPurpose::Search, Priority::default(), tell).await
        });
        while slots.lock().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        let why = told.recv().unwrap();
        assert!(why.contains("3 searches of user eva run, and 3 may run at a time"), "{why}");
        let others: Vec<SlotPermit> = futures_of(&slots, "tom", 40).await;
        assert_eq!(slots.lock().running, 43, "tom has no quota, and eva has hers");
        drop(search);
        let fourth = fourth.await.unwrap().unwrap();
        slots.set_quota("eva", None);
        slots.set_quota("ann", Some(1));
        slots.remove_user("ann");
        assert!(slots.lock().quotas.is_empty());
        let fifth = slots.acquire("eva", SlotPurpose::Search).await.unwrap();
        drop((streams, fourth, fifth, others));
        assert!(slots.is_idle());
    }

    async fn futures_of(slots: &Arc<SlotPool>, user: &str, count: usize) -> Vec<SlotPermit> {
        let mut taken = Vec::new();
        for _ in 0..count {
            taken.push(slots.acquire(user, SlotPurpose::Search).await.unwrap());
        }
        taken
    }

    #[tokio::test]
    async fn users_cannot_fill_the_queue_alone() {
        let slots = SlotPool::new(Bounds { all: 1, of_user: 1, streams_of_user: 1, waiting: 4, large_waiting: 0 });
        let held = slots.acquire("eva", SlotPurpose::Search).await.unwrap();
        let spawn = |user: &'static str| {
            let slots = Arc::clone(&slots);
            tokio::spawn(async move { slots.acquire(user, SlotPurpose::Search).await.map(drop) })
        };
        let floods: Vec<_> = (0..3).map(|_| spawn("eva")).collect();
        while slots.lock().waiting.len() < 2 {
            tokio::task::yield_now().await;
        }
        let tom = spawn("tom");
        while slots.lock().waiting.len() < 3 {
            tokio::task::yield_now().await;
        }
        drop(held);
        let mut refused = 0;
        for flood in floods {
            refused += usize::from(flood.await.unwrap().is_err());
        }
        assert!(tom.await.unwrap().is_ok() && refused == 1);
    }

    #[tokio::test]
    async fn slots_are_granted_in_order_and_shared_between_users() {
        let slots = SlotPool::new(Bounds { all: 3, of_user: 2, streams_of_user: 2, waiting: 3, large_waiting: 0 });
        let first = slots.acquire("eva", SlotPurpose::Search).await.unwrap();
        let second = slots.acquire("eva", SlotPurpose::Search).await.unwrap();
        let spawn = |user: &'static str| {
            let slots = Arc::clone(&slots);
            tokio::spawn(async move { slots.acquire(user, SlotPurpose::Search).await })
        };
        let third = spawn("eva");
        while slots.lock().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        let other = slots.acquire("tom", SlotPurpose::Search).await.unwrap();
        assert_eq!(slots.lock().running, 3, "another user does not wait");
        let gone = spawn("ann");
        while slots.lock().waiting.len() < 2 {
            tokio::task::yield_now().await;
        }
        gone.abort();
        assert!(gone.await.is_err());
        let fourth = spawn("ann");
        while slots.lock().waiting.len() < 3 {
            tokio::task::yield_now().await;
        }
        drop(other);
        let fourth = fourth.await.unwrap().unwrap();
        assert_eq!(fourth.user, "ann", "the cancelled search is skipped, and eva has two");
        drop(first);
        let third = third.await.unwrap().unwrap();
        drop((second, third, fourth));
        let queue = slots.lock();
        assert_eq!((queue.running, queue.of_user.len(), queue.waiting.len()), (0, 0, 0));
    }

    #[tokio::test]
    async fn waiting_searches_are_bounded() {
        let slots = SlotPool::new(Bounds { all: 1, of_user: 1, streams_of_user: 1, waiting: 0, large_waiting: 0 });
        let held = slots.acquire("eva", SlotPurpose::Search).await.unwrap();
        assert!(slots.acquire("tom", SlotPurpose::Search).await.is_err());
        drop(held);
        assert!(slots.acquire("tom", SlotPurpose::Search).await.is_ok());
    }

    #[tokio::test]
    async fn streams_leave_slots_to_other_searches_of_their_user() {
        let slots = SlotPool::new(Bounds { all: 8, of_user: 4, streams_of_user: 2, waiting: 8, large_waiting: 0 });
        let first = slots.acquire("eva", SlotPurpose::Stream).await.unwrap();
        let second = slots.acquire("eva", SlotPurpose::Stream).await.unwrap();
        let waiting = Arc::clone(&slots);
        let third = tokio::spawn(async move { waiting.acquire("eva", SlotPurpose::Stream).await });
        while slots.lock().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        let search = slots.acquire("eva", SlotPurpose::Search).await.unwrap();
        drop(search);
        assert_eq!(slots.lock().waiting.len(), 1, "a slot of a search is not given to a stream beyond the limit");
        drop(first);
        let third = third.await.unwrap().unwrap();
        drop((second, third));
        assert!(slots.is_idle() && slots.lock().of_user.is_empty());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn large_searches_yield_their_slots_and_waiting_ones_are_bounded() {
        let slots = SlotPool::new(Bounds { all: 8, of_user: 3, streams_of_user: 1, waiting: 0, large_waiting: 1 });
        let mut searches = Vec::new();
        for _ in 0..3 {
            searches.push(slots.acquire("eva", SlotPurpose::Search).await.unwrap());
        }
        let never = || panic!("it does not wait");
        let first = searches.pop().unwrap().grow(never).unwrap();
        assert_eq!(first.purpose, SlotPurpose::Stream);
        let (second, third) = (searches.pop().unwrap(), searches.pop().unwrap());
        let (told, hears) = std::sync::mpsc::channel();
        let waiting = tokio::task::spawn_blocking(move || second.grow(move || told.send(()).unwrap()));
        hears.recv().unwrap();
        while slots.lock().running > 2 {
            tokio::task::yield_now().await;
        }
        let third = third.grow(never).unwrap();
        assert_eq!(
            third.purpose,
            SlotPurpose::Search,
            "the queue is full, so it keeps its slot and does not count as a stream"
        );
        let other = slots.acquire("eva", SlotPurpose::Search).await.unwrap();
        drop(first);
        let second = waiting.await.unwrap().unwrap();
        assert_eq!(second.purpose, SlotPurpose::Stream);
        drop((second, third, other));
        let queue = slots.lock();
        assert_eq!((queue.running, queue.of_user.len(), queue.large_waiting), (0, 0, 0));
    }
}
