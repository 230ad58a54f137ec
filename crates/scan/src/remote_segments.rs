//! Prefetch for segments on remote storage: their term dictionaries are queried concurrently, and their pages are
//! requested ahead of the workers.
//!
//! Reading a remote segment takes several dependent requests: the term dictionary leads to the pages, the pages to the
//! templates, and the templates to the columns. The latency is the same for sixteen segments as for one, so many are
//! requested at once. While workers read one segment, the first page of each following segment is read and discarded;
//! the store keeps the blocks that it fetched for that page ([`Segment::read_ahead`]). Prefetch starts when a worker
//! first waits for a request; before that, everything needed was cached.
//!
//! Not here: which blocks are fetched together with a page (bucket).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::costs::{PruneFigures, ScanPart};
use quarry_eval::messages;
use quarry_eval::panics::catch_panic;
use quarry_store::Segment;

use crate::event_scan::EventScan;
use crate::page::PageRef;
use crate::slices::Window;

/// Segments queried or prefetched concurrently.
const CONCURRENT_SEGMENTS_MAX: usize = 16;
/// Interval at which the prefetcher checks whether workers wait for a request.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Pages examined to find the next segments: the number of pages in four slabs.
const LOOKAHEAD_PAGES: usize = 256;

/// Evaluates `of` for `0..count` concurrently; results are in order.
pub(crate) fn map_concurrently<T: Send>(count: usize, of: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::default();
    let some = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return;
            }
            let given = of(at);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((at, given));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..CONCURRENT_SEGMENTS_MAX.min(count) {
            // If the thread does not start, the other threads do its work.
            drop(std::thread::Builder::new().name("quarry-far".to_owned()).spawn_scoped(scope, some));
        }
        some();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(at, _)| *at);
    assert_eq!(done.len(), count, "each number was asked for once");
    done.into_iter().map(|(_, given)| given).collect()
}

/// Prefetches segments ahead of the workers.
pub(crate) struct SegmentPrefetch<'a> {
    scan: &'a EventScan,
    context: CommandContext,
    /// For each segment: its first page, and the run of windows that contains the page, in the order in which workers
    /// take runs.
    pages: Vec<(usize, &'a PageRef)>,
    coded: bool,
    next: AtomicUsize,
    /// For each segment, the number of requests sent before the segment was read.
    requests: Vec<u64>,
    reached: Mutex<WorkerProgress>,
    moved: Condvar,
}

/// Signals on drop that the workers have ended, even by a panic.
struct EndSignal<'a, 'b>(&'a SegmentPrefetch<'b>);

impl Drop for EndSignal<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.moved.notify_all();
    }
}

/// Progress of the workers.
#[derive(Default)]
struct WorkerProgress {
    /// The last run that a worker took.
    run: usize,
    ended: bool,
}

impl<'a> SegmentPrefetch<'a> {
    /// Collects the remote segments of these runs of windows; `coded` is as in [`EventScan::read_coded`].
    pub(crate) fn of(
        scan: &'a EventScan,
        windows: &'a [Window],
        runs: &[std::ops::Range<usize>],
        coded: bool,
        context: &CommandContext,
    ) -> SegmentPrefetch<'a> {
        let mut pages: Vec<(usize, &PageRef)> = Vec::new();
        // If summaries replace events, the pages may not be read at all.
        let runs = if scan.summary.is_some() { &[] } else { runs };
        for (run, windows) in runs.iter().map(|run| &windows[run.clone()]).enumerate() {
            let firsts = windows.iter().filter_map(|window| window.pages.last());
            for page in firsts.filter(|page| page.segment.is_far()) {
                if pages.last().is_none_or(|(_, last)| !Arc::ptr_eq(&last.segment, &page.segment)) {
                    pages.push((run, page));
                }
            }
        }
        assert!(pages.is_sorted_by_key(|(run, _)| *run), "segments are begun in the order of their runs");
        // Messages are dropped here; the worker that reads the page reports them.
        let context = CommandContext { messages: Arc::default(), ..context.clone() };
        let (next, reached, moved) = (AtomicUsize::new(0), Mutex::default(), Condvar::new());
        let requests = pages.iter().map(|(_, page)| page.segment.requests()).collect();
        SegmentPrefetch { scan, context, pages, coded, next, requests, reached, moved }
    }

    /// Runs `work` while segments are prefetched, and returns its result.
    pub(crate) fn run_with_prefetch<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.pages.is_empty() {
            return work();
        }
        std::thread::scope(|scope| {
            let begin = || {
                if !self.wait_for_network() {
                    return;
                }
                for _ in 0..CONCURRENT_SEGMENTS_MAX.min(self.pages.len()) {
                    let some = || self.prefetch_all();
                    drop(std::thread::Builder::new().name("quarry-far".to_owned()).spawn_scoped(scope, some));
                }
            };
            // If the thread does not start, nothing is prefetched.
            drop(std::thread::Builder::new().name("quarry-far".to_owned()).spawn_scoped(scope, begin));
            let _end = EndSignal(self);
            work()
        })
    }

    /// Waits until a worker waits for a request; false if the workers end first. If all data is cached, prefetching
    /// would only cost time.
    fn wait_for_network(&self) -> bool {
        let mut reached = self.lock();
        while !reached.ended {
            // Includes segments that workers read now and a few earlier ones, because a bucket has several.
            let begun = self.pages.partition_point(|(run, _)| *run <= reached.run);
            let mut now = begun.saturating_sub(CONCURRENT_SEGMENTS_MAX)..begun;
            if now.any(|at| self.pages[at].1.segment.requests() != self.requests[at]) {
                return true;
            }
            (reached, _) = self.moved.wait_timeout(reached, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner);
        }
        false
    }

    /// Records that a worker takes this run.
    pub(crate) fn record_taken_run(&self, run: usize) {
        if !self.pages.is_empty() {
            let mut reached = self.lock();
            reached.run = reached.run.max(run);
            self.moved.notify_all();
        }
    }

    fn prefetch_all(&self) {
        let _noted = messages::enter_scope(Some(Arc::clone(&self.context.messages)));
        let _counting = self.scan.progress.reads().count_here();
        while let Some((at, (run, page))) = self.take_next_segment() {
            if self.wait_until_due(at, *run) && !self.context.stop.should_stop_reading() {
                // Faults are reported by the worker that reads the page.
                drop(catch_panic("a segment was prefetched", || {
                    self.scan.prefetch_page(page, self.coded, &self.context)
                }));
            }
        }
    }

    fn take_next_segment(&self) -> Option<(usize, &(usize, &'a PageRef))> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        self.pages.get(at).map(|page| (at, page))
    }

    /// Waits until the segment is among the next ones; true if no worker has reached it yet.
    fn wait_until_due(&self, at: usize, run: usize) -> bool {
        let too_early = |reached: &mut WorkerProgress| {
            let begun = self.pages.partition_point(|(run, _)| *run <= reached.run);
            !reached.ended && at > begun + CONCURRENT_SEGMENTS_MAX
        };
        let reached = self.moved.wait_while(self.lock(), too_early).unwrap_or_else(PoisonError::into_inner);
        !reached.ended && run >= reached.run
    }

    fn lock(&self) -> MutexGuard<'_, WorkerProgress> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Remote segments that a time-ordered search has prefetched.
#[derive(Default)]
pub(crate) struct PrefetchedSegments(BTreeSet<u64>);

impl PrefetchedSegments {
    /// The first pages of the next segments not yet prefetched; `pages` are the pages still to be read, the next one
    /// last.
    pub(crate) fn of(&mut self, pages: &[PageRef]) -> Vec<PageRef> {
        let next = pages.iter().rev().take(LOOKAHEAD_PAGES).filter(|page| page.segment.is_far());
        next.filter(|page| self.0.insert(page.segment.sequence())).take(CONCURRENT_SEGMENTS_MAX).cloned().collect()
    }
}

impl EventScan {
    /// Prefetches a page of a later segment, as [`SegmentPrefetch`] do; messages about it are dropped.
    pub(crate) fn prefetch_segments(&self, page: &PageRef, context: &CommandContext) {
        let context = CommandContext { messages: Arc::default(), ..context.clone() };
        let _noted = messages::enter_scope(Some(Arc::clone(&context.messages)));
        let _counting = self.progress.reads().count_here();
        drop(catch_panic("a segment was prefetched", || self.prefetch_page(page, false, &context)));
    }

    /// The pages that may hold a match, for several segments, as in [`EventScan::pages_of`]; remote segments are
    /// queried concurrently.
    pub(crate) fn pages_of_all(
        &self,
        segments: &[&Arc<dyn Segment>],
        context: &CommandContext,
    ) -> Result<Vec<Option<Vec<PageRef>>>, EngineError> {
        let found = context.costs.measure_part(ScanPart::Index, || self.query_all(segments, context))?;
        context.costs.add_pruned(|| {
            let all = &self.snapshot.segments;
            let left = || found.iter().flatten().map(Vec::len);
            PruneFigures {
                slabs: all.len() as u64,
                slabs_left: left().filter(|pages| *pages > 0).count() as u64,
                pages: all.iter().map(|segment| segment.pages().len() as u64).sum(),
                pages_left: left().sum::<usize>() as u64,
                text_bytes: 0,
            }
        });
        Ok(found)
    }

    fn query_all(
        &self,
        segments: &[&Arc<dyn Segment>],
        context: &CommandContext,
    ) -> Result<Vec<Option<Vec<PageRef>>>, EngineError> {
        let far: Vec<&Arc<dyn Segment>> = segments.iter().copied().filter(|segment| segment.is_far()).collect();
        let ask = |at: usize| {
            let _noted = messages::enter_scope(Some(Arc::clone(&context.messages)));
            let _counting = self.progress.reads().count_here();
            catch_panic("remote segments were queried", || self.pages_of(far[at], context))
        };
        let mut of_far = map_concurrently(far.len(), &ask).into_iter();
        let mut all = Vec::with_capacity(segments.len());
        for segment in segments {
            let pages = if segment.is_far() { of_far.next() } else { None };
            all.push(pages.unwrap_or_else(|| self.pages_of(segment, context))?);
        }
        assert!(of_far.next().is_none(), "each far segment was asked once");
        Ok(all)
    }
}
