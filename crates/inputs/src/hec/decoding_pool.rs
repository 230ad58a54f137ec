//! A small thread pool for decoding large bodies.
//!
//! Decoding multiplies a body's size, and the allocator retains memory freed by a thread for that thread. If hundreds
//! of threads decoded bodies, each thread would retain the memory of its largest body long after that body was stored.
//! Large bodies are therefore queued for a few threads here, together with their share of the body budget.
//!
//! Not here: the body budget ([`super::body`]).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::oneshot;

use super::answer::Code;

/// Size from which a body counts as large.
const LARGE_BODY_BYTES_MIN: usize = 256 << 10;
/// Approximate maximum compression ratio.
const COMPRESSION_RATIO_MAX: usize = 32;
/// Minimum and maximum number of threads; between them, one thread per core.
const THREADS_RANGE: (usize, usize) = (2, 4);

/// Maximum bytes of large bodies, as received, that are decoded or queued; a single body may exceed it. The limit keeps
/// waits short, because a sender that waits too long resends events that will be stored anyway.
const WAITING_BYTES_MAX: usize = 64 << 20;

type Work = Box<dyn FnOnce() + Send>;

/// A pool of decoding threads; dropping it ends them.
#[derive(Default)]
pub(super) struct DecodingPool {
    queue: OnceLock<Option<Sender<Work>>>,
    waiting_bytes: Arc<AtomicUsize>,
}

impl DecodingPool {
    /// Runs `work` on a body of this size; fails if too much is queued, or if `work` panics.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        is_packed: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Code> {
        let unpacked = if is_packed { bytes.saturating_mul(COMPRESSION_RATIO_MAX) } else { bytes };
        let queue = self.queue.get_or_init(start_threads).as_ref().filter(|_| unpacked > LARGE_BODY_BYTES_MIN);
        let Some(queue) = queue else {
            return tokio::task::spawn_blocking(work).await.map_err(|_| Code::ServerError);
        };
        let place = QueuedBytes::take(&self.waiting_bytes, bytes).ok_or(Code::Busy)?;
        let (done, outcome) = oneshot::channel();
        let work = move || {
            let _place = place;
            // The receiver is gone if the caller has given up; the work is done anyway.
            drop(done.send(work()));
        };
        queue.send(Box::new(work)).map_err(|_| Code::ServerError)?;
        outcome.await.map_err(|_| Code::ServerError)
    }
}

/// Reservation of the bytes of a body that is queued or being decoded.
struct QueuedBytes {
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl QueuedBytes {
    fn take(all: &Arc<AtomicUsize>, bytes: usize) -> Option<QueuedBytes> {
        let before = all.fetch_add(bytes, Ordering::Relaxed);
        let place = QueuedBytes { all: Arc::clone(all), bytes };
        (before == 0 || before.saturating_add(bytes) <= WAITING_BYTES_MAX).then_some(place)
    }
}

impl Drop for QueuedBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Starts the threads; `None` if the system refuses.
fn start_threads() -> Option<Sender<Work>> {
    let (sender, queue) = channel::<Work>();
    let queue = Arc::new(Mutex::new(queue));
    let threads = std::thread::available_parallelism()
        .map_or(THREADS_RANGE.0, usize::from)
        .clamp(THREADS_RANGE.0, THREADS_RANGE.1);
    let started = (0..threads).filter(|_| {
        let queue = Arc::clone(&queue);
        std::thread::Builder::new().name("large-bodies".to_owned()).spawn(move || run_worker(&queue)).is_ok()
    });
    (started.count() > 0).then_some(sender)
}

fn run_worker(queue: &Mutex<Receiver<Work>>) {
    loop {
        // The lock is held while waiting, so that only one idle thread waits on the queue and the others wait for the
        // lock.
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(work) = next else { return };
        // After a panic, the caller's result channel is closed.
        drop(catch_unwind(AssertUnwindSafe(work)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn pool_threads_are_limited_and_survive_panics() {
        let pool = Arc::new(DecodingPool::default());
        let (large, packed) = (LARGE_BODY_BYTES_MIN + 1, LARGE_BODY_BYTES_MIN / COMPRESSION_RATIO_MAX + 1);
        assert!(matches!(pool.run::<()>(large, false, || panic!("of this test")).await, Err(Code::ServerError)));
        let running: Vec<_> = (0..200)
            .map(|at| {
                let pool = Arc::clone(&pool);
                let bytes = if at % 2 == 0 { large } else { packed };
                tokio::spawn(async move { pool.run(bytes, at % 2 != 0, || thread::current().id()).await })
            })
            .collect();
        let mut threads = BTreeSet::new();
        for run in running {
            threads.insert(format!("{:?}", run.await.unwrap().unwrap()));
        }
        assert!((1..=THREADS_RANGE.1).contains(&threads.len()), "{threads:?}");
        let small = pool.run(LARGE_BODY_BYTES_MIN, false, || thread::current().id()).await.unwrap();
        assert!(!threads.contains(&format!("{small:?}")));
    }

    #[test]
    fn queued_bytes_are_limited_except_for_a_single_body() {
        let all = Arc::default();
        let long = QueuedBytes::take(&all, 2 * WAITING_BYTES_MAX).unwrap();
        assert!(QueuedBytes::take(&all, 1).is_none());
        drop(long);
        let first = QueuedBytes::take(&all, WAITING_BYTES_MAX).unwrap();
        assert!(QueuedBytes::take(&all, 1).is_none());
        drop(first);
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }
}
