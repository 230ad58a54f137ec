//! Turns of searches: so many run at once, so many of one user, and others wait in order.
//!
//! A user who has as many as one may have waits behind nobody and keeps nobody waiting: the next in the queue is the
//! first whose user may have one more.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::message::ApiError;

/// Searches that run at once; others wait for their turn. Each may keep every core busy and takes a thread of those that do
/// what blocks; logins and inputs need some of both at any time, so that a server has more of these threads.
pub const SEARCHES_MAX: usize = 64;
/// Searches of one user that run at once: the rest is for others.
pub const SEARCHES_PER_USER_MAX: usize = 48;
/// Searches that wait for their turn; beyond, they are refused.
pub const SEARCHES_WAITING_MAX: usize = 1_024;

/// Limits of turns.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    all: usize,
    of_user: usize,
    waiting: usize,
}

/// The turns of a server.
pub(crate) struct Turns {
    bounds: Bounds,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    running: usize,
    of_user: BTreeMap<String, usize>,
    waiting: VecDeque<(String, oneshot::Sender<Turn>)>,
}

/// A turn, over when it is dropped.
pub(crate) struct Turn {
    turns: Arc<Turns>,
    user: String,
}

impl Turns {
    /// As many as a server has.
    pub(crate) fn of_server() -> Arc<Turns> {
        Turns::new(Bounds { all: SEARCHES_MAX, of_user: SEARCHES_PER_USER_MAX, waiting: SEARCHES_WAITING_MAX })
    }

    fn new(bounds: Bounds) -> Arc<Turns> {
        Arc::new(Turns { bounds, queue: Mutex::default() })
    }

    /// Whether no search runs.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.locked().running == 0
    }

    fn locked(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn for a user; waits for it.
    pub(crate) async fn take(self: &Arc<Turns>, user: &str) -> Result<Turn, ApiError> {
        let waiting = {
            let mut queue = self.locked();
            if queue.may_run(user, &self.bounds) {
                queue.begin(user);
                return Ok(Turn { turns: Arc::clone(self), user: user.to_owned() });
            }
            if queue.waiting.len() >= self.bounds.waiting {
                queue.waiting.retain(|(_, waiter)| !waiter.is_closed());
            }
            if queue.waiting.len() >= self.bounds.waiting {
                let text =
                    format!("{} searches wait for their turn, the most that may: try again", self.bounds.waiting);
                return Err(ApiError::too_many(text));
            }
            let (turn, waiting) = oneshot::channel();
            queue.waiting.push_back((user.to_owned(), turn));
            waiting
        };
        waiting.await.map_err(|_| ApiError::internal("the server is about to stop".to_owned()))
    }
}

impl Queue {
    fn may_run(&self, user: &str, bounds: &Bounds) -> bool {
        self.running < bounds.all && self.of_user.get(user).is_none_or(|count| *count < bounds.of_user)
    }

    fn begin(&mut self, user: &str) {
        self.running += 1;
        *self.of_user.entry(user.to_owned()).or_default() += 1;
    }

    fn end(&mut self, user: &str) {
        self.running -= 1;
        if let Some(count) = self.of_user.get_mut(user) {
            *count -= 1;
            if *count == 0 {
                self.of_user.remove(user);
            }
        }
    }

    /// The next who waits and may run.
    fn next(&mut self, bounds: &Bounds) -> Option<(String, oneshot::Sender<Turn>)> {
        let at = self.waiting.iter().position(|(user, _)| self.may_run(user, bounds))?;
        let next = self.waiting.remove(at)?;
        self.begin(&next.0);
        Some(next)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = {
            let mut queue = self.turns.locked();
            queue.end(&self.user);
            queue.next(&self.turns.bounds)
        };
        if let Some((user, waiter)) = next {
            // One that nobody waits for any more comes back, and goes to the next.
            drop(waiter.send(Turn { turns: Arc::clone(&self.turns), user }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_are_in_order_and_no_user_has_them_all() {
        let turns = Turns::new(Bounds { all: 3, of_user: 2, waiting: 3 });
        let first = turns.take("eva").await.unwrap();
        let second = turns.take("eva").await.unwrap();
        let spawn = |user: &'static str| {
            let turns = Arc::clone(&turns);
            tokio::spawn(async move { turns.take(user).await })
        };
        let third = spawn("eva");
        while turns.locked().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        let other = turns.take("tom").await.unwrap();
        assert_eq!(turns.locked().running, 3, "another user does not wait behind");
        let gone = spawn("ann");
        while turns.locked().waiting.len() < 2 {
            tokio::task::yield_now().await;
        }
        gone.abort();
        assert!(gone.await.is_err());
        let fourth = spawn("ann");
        while turns.locked().waiting.len() < 3 {
            tokio::task::yield_now().await;
        }
        drop(other);
        let fourth = fourth.await.unwrap().unwrap();
        assert_eq!(fourth.user, "ann", "the one that left is passed over, and eva has two");
        drop(first);
        let third = third.await.unwrap().unwrap();
        drop((second, third, fourth));
        let queue = turns.locked();
        assert_eq!((queue.running, queue.of_user.len(), queue.waiting.len()), (0, 0, 0));
    }

    #[tokio::test]
    async fn those_that_wait_are_bounded() {
        let turns = Turns::new(Bounds { all: 1, of_user: 1, waiting: 0 });
        let held = turns.take("eva").await.unwrap();
        assert!(turns.take("tom").await.is_err());
        drop(held);
        assert!(turns.take("tom").await.is_ok());
    }
}
