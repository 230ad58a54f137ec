//! Followers receive events as they are stored, for searches that show new events at once.
//!
//! When a batch is durable, the log thread passes it to the followers of its index. It never waits for them: each
//! follower has a queue of limited size, and a batch that does not fit is skipped; its events are counted. Without
//! followers, nothing is copied.
//!
//! Not here: searching the events (search).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use quarry_event::EventBatch;

use crate::IndexSelector;
use crate::sync::lock;

/// Maximum number of followers of a store; further ones are refused.
pub const FOLLOWERS_MAX: usize = 256;
/// Maximum bytes of event text in the queue of one follower, unless a single batch is larger. A batch that does not fit
/// is skipped.
pub const FOLLOWED_BYTES_MAX: usize = 8 << 20;

/// The followers of a store.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    queues: Mutex<Vec<Weak<FollowerQueue>>>,
    /// Length of `queues`, which the log thread reads without the lock.
    count: AtomicUsize,
}

#[derive(Debug)]
struct FollowerQueue {
    indexes: IndexSelector,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    batches: VecDeque<Arc<EventBatch>>,
    bytes: usize,
    missed: u64,
}

/// New events of a follower.
#[derive(Clone, Debug, Default)]
pub struct FollowedEvents {
    /// Batches in the order of arrival, each of one index.
    pub batches: Vec<Arc<EventBatch>>,
    /// Number of events that were skipped since the last call, because the queue was full.
    pub missed: u64,
}

/// Receives the events of some indexes from its creation on.
#[derive(Debug)]
pub struct Follower(Arc<FollowerQueue>);

impl Follower {
    /// The events that have arrived since the last call. If there are none, waits for events, but at most for `most`.
    pub fn next(&self, most: Duration) -> FollowedEvents {
        let is_empty = |waiting: &mut Waiting| waiting.batches.is_empty() && waiting.missed == 0;
        let waited = self.0.arrived.wait_timeout_while(lock(&self.0.waiting), most, is_empty);
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let Waiting { batches, missed, .. } = std::mem::take(&mut *waiting);
        FollowedEvents { batches: batches.into(), missed }
    }
}

impl Followers {
    /// Adds a follower of these indexes; `None` if [`FOLLOWERS_MAX`] is reached.
    pub(crate) fn add(&self, indexes: &IndexSelector) -> Option<Follower> {
        let mut queues = lock(&self.queues);
        queues.retain(|queue| queue.strong_count() > 0);
        let has_room = queues.len() < FOLLOWERS_MAX;
        let queue = has_room.then(|| {
            let queue = Arc::new(FollowerQueue {
                indexes: indexes.clone(),
                waiting: Mutex::default(),
                arrived: Condvar::new(),
            });
            queues.push(Arc::downgrade(&queue));
            queue
        });
        self.count.store(queues.len(), Ordering::Release);
        queue.map(Follower)
    }

    /// Offers a batch of one index to the followers of that index.
    pub(crate) fn publish(&self, batch: &EventBatch) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let Some(meta) = batch.metas.first().filter(|_| !batch.is_empty()) else { return };
        let mut queues = lock(&self.queues);
        queues.retain(|queue| queue.strong_count() > 0);
        self.count.store(queues.len(), Ordering::Release);
        let mut shared: Option<Arc<EventBatch>> = None;
        for queue in queues.iter().filter_map(Weak::upgrade).filter(|queue| queue.indexes.matches(&meta.index)) {
            let mut waiting = lock(&queue.waiting);
            let bytes = batch.raw.len();
            // An empty queue accepts even a batch that is larger than the limit.
            if waiting.bytes > 0 && waiting.bytes + bytes > FOLLOWED_BYTES_MAX {
                waiting.missed += batch.len() as u64;
            } else {
                let shared = shared.get_or_insert_with(|| Arc::new(batch.clone()));
                waiting.bytes += bytes.max(1);
                waiting.batches.push_back(Arc::clone(shared));
            }
            queue.arrived.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use quarry_event::Metadata;

    use super::*;

    fn batch(index: &str, text: &str) -> EventBatch {
        let name = |name: &str| -> Arc<str> { name.into() };
        let meta = Metadata { index: name(index), host: name("h"), source: name("s"), sourcetype: name("t") };
        let mut batch = EventBatch { metas: vec![meta], ..EventBatch::default() };
        batch.raw.extend_from_slice(text.as_bytes());
        batch.ends.push(text.len() as u32);
        batch.time.push(1);
        batch.meta.push(0);
        batch
    }

    #[test]
    fn followers_receive_events_of_their_indexes_and_the_number_missed() {
        let followers = Followers::default();
        followers.publish(&batch("main", "nobody follows yet"));
        let follower = followers.add(&IndexSelector::new(["main".to_owned()])).unwrap();
        followers.publish(&batch("main", "a"));
        followers.publish(&batch("other", "b"));
        let FollowedEvents { batches, missed } = follower.next(Duration::ZERO);
        assert_eq!((batches.len(), missed), (1, 0));
        assert_eq!(batches[0].raw(0), b"a");
        let large = "x".repeat(FOLLOWED_BYTES_MAX);
        for text in [large.as_str(), "c", "d"] {
            followers.publish(&batch("main", text));
        }
        let FollowedEvents { batches, missed } = follower.next(Duration::ZERO);
        assert_eq!((batches.len(), missed), (1, 2));
        followers.publish(&batch("main", "e"));
        assert_eq!(follower.next(Duration::ZERO).batches.len(), 1);
        assert!(follower.next(Duration::ZERO).batches.is_empty());
        drop(follower);
        followers.publish(&batch("main", "f"));
        assert_eq!(followers.count.load(Ordering::Acquire), 0);
    }

    #[test]
    fn number_of_followers_is_limited() {
        let followers = Followers::default();
        let all = IndexSelector::new(["*".to_owned()]);
        let kept: Vec<Follower> = (0..FOLLOWERS_MAX).filter_map(|_| followers.add(&all)).collect();
        assert!(kept.len() == FOLLOWERS_MAX && followers.add(&all).is_none());
        drop(kept);
        assert!(followers.add(&all).is_some());
    }
}
