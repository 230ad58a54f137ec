//! Prefetch of segments on remote storage: their term dictionaries are queried concurrently, and their pages are
//! requested ahead of the workers. Workers take a *run* of consecutive windows at a time ([`crate::slices`]).
//!
//! Reading a remote segment takes several dependent requests: the term dictionary locates the pages, the pages refer to
//! templates, and the templates to columns. The latency is the same for sixteen segments as for one, so many
//! segments are requested at once. While workers read one segment, the first page of each following segment is read and
//! discarded; the store keeps the blocks that it fetched for that page ([`Segment::prefetch_pages`]). Threads for
//! queries and for prefetching are started only when a request is first waited for ([`with_helpers`]); until then,
//! everything needed was cached.
//!
//! Not here: which blocks are fetched together with a page (bucket).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::costs::{PruneFigures, ScanPart};
use quarry_eval::messages;
use quarry_eval::panics::catch_panic;
use quarry_event::TimeNs;
use quarry_stdx::number::usize_of;
use quarry_store::{Segment, Snapshot};

use crate::event_scan::{EventScan, page_set};
use crate::page::PageRef;
use crate::slices::Window;

/// Segments prefetched concurrently.
const CONCURRENT_SEGMENTS_MAX: usize = 16;
/// Segments queried concurrently, or prefetched concurrently if few of their events are read. A lookup or a few events
/// take some kilobytes, so their cost is the round trip, and each further group of segments takes another one.
const CONCURRENT_LOOKUPS_MAX: usize = 64;
/// Maximum bytes of text of a page of which [`CONCURRENT_LOOKUPS_MAX`] are prefetched concurrently. All events of the
/// page may be read: a small segment has few pages even if every event matches.
const SMALL_PAGE_BYTES_MAX: u64 = 4 << 20;
/// Interval at which a thread checks whether an evaluation waits for a request.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Number of checks after which evaluations run concurrently even if none waits for a request.
const POLLS_ALONE: usize = 4;
/// Pages examined to find the next segments: the number of pages in four slabs.
const LOOKAHEAD_PAGES: usize = 256;
/// Distance in pages at which a segment must have been prefetched: the number of pages in a slab.
const DUE_PAGES: usize = 64;

/// Runs `work`, and `help` on `count` more threads as soon as `waits` is true; `help` must end when `work` ends. Before
/// `waits` is true, a single thread polls it, because starting all threads would take longer than reading from the
/// cache.
fn with_helpers<T>(
    count: usize,
    waits: &(dyn Fn() -> bool + Sync),
    help: &(dyn Fn() + Sync),
    work: impl FnOnce() -> T,
) -> T {
    let (ended, end) = (Mutex::new(false), Condvar::new());
    let waits_for_network = || {
        let mut is_ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_ended {
            if waits() {
                return true;
            }
            (is_ended, _) = end.wait_timeout(is_ended, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner);
        }
        false
    };
    std::thread::scope(|scope| {
        let watch = || {
            if waits_for_network() {
                for _ in 0..count {
                    // If a thread does not start, the other threads do its work.
                    drop(std::thread::Builder::new().name("quarry-far".to_owned()).spawn_scoped(scope, help));
                }
            }
        };
        if count > 0 {
            drop(std::thread::Builder::new().name("quarry-far".to_owned()).spawn_scoped(scope, watch));
        }
        let _end = EndOfWork(&ended, &end);
        work()
    })
}

/// Signals on drop that work has ended, even if it panicked.
struct EndOfWork<'a>(&'a Mutex<bool>, &'a Condvar);

impl Drop for EndOfWork<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.1.notify_all();
    }
}

/// Evaluates `of` for `0..count`; results are in order. Evaluations begin on this thread. They run concurrently as soon
/// as one has sent a network request (`requests` counts them) or they have taken some milliseconds.
pub(crate) fn map_concurrently<T: Send>(
    count: usize,
    requests: &(dyn Fn() -> u64 + Sync),
    of: &(dyn Fn(usize) -> T + Sync),
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::default();
    let (before, polls) = (requests(), AtomicUsize::new(0));
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
    let waits = || requests() != before || polls.fetch_add(1, Ordering::Relaxed) >= POLLS_ALONE;
    with_helpers(CONCURRENT_LOOKUPS_MAX.min(count).saturating_sub(1), &waits, &some, some);
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(at, _)| *at);
    assert_eq!(done.len(), count, "each number was asked for once");
    done.into_iter().map(|(_, given)| given).collect()
}

/// Prefetches segments ahead of the workers.
pub(crate) struct SegmentPrefetch<'a> {
    scan: &'a EventScan,
    context: CommandContext,
    /// For each segment, the run that contains its first page, and that page; in the order of runs.
    pages: Vec<(usize, &'a PageRef)>,
    coded: bool,
    /// Maximum number of segments prefetched concurrently.
    most: usize,
    next: AtomicUsize,
    /// For each segment, the number of requests sent before the segment was read.
    requests: Vec<u64>,
    reached: Mutex<WorkerProgress>,
    moved: Condvar,
}

/// Signals on drop that the workers have ended, even if one panicked.
struct EndSignal<'a, 'b>(&'a SegmentPrefetch<'b>);

impl Drop for EndSignal<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.moved.notify_all();
    }
}

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
            for page in firsts.filter(|page| page.segment.is_remote()) {
                if pages.last().is_none_or(|(_, last)| !Arc::ptr_eq(&last.segment, &page.segment)) {
                    pages.push((run, page));
                }
            }
        }
        assert!(pages.is_sorted_by_key(|(run, _)| *run), "segments are begun in the order of their runs");
        // Messages are dropped here; the worker that reads the page reports them.
        let context = CommandContext { messages: Arc::default(), ..context.clone() };
        let (next, reached, moved) = (AtomicUsize::new(0), Mutex::default(), Condvar::new());
        let requests = pages.iter().map(|(_, page)| page.segment.request_count()).collect();
        let most = concurrent_segments(pages.iter().map(|(_, page)| *page));
        SegmentPrefetch { scan, context, pages, coded, most, next, requests, reached, moved }
    }

    /// Runs `work` while segments are prefetched, and returns its result.
    pub(crate) fn run_with_prefetch<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.pages.is_empty() {
            return work();
        }
        let helpers = self.most.min(self.pages.len());
        with_helpers(helpers, &|| self.wait_for_network(), &|| self.prefetch_all(), || {
            let _end = EndSignal(self);
            work()
        })
    }

    /// Whether a worker waits for a request.
    fn wait_for_network(&self) -> bool {
        // Checks the segments being read and a few earlier ones, because requests are counted per bucket, which has
        // several segments.
        let reached = self.lock().run;
        let begun = self.pages.partition_point(|(run, _)| *run <= reached);
        let mut now = begun.saturating_sub(self.most)..begun;
        now.any(|at| self.pages[at].1.segment.request_count() != self.requests[at])
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
        let _counting = self.scan.progress.reads().count_thread_reads();
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

    /// Waits until the segment is among the next segments; true if no worker has passed it yet.
    fn wait_until_due(&self, at: usize, run: usize) -> bool {
        let too_early = |reached: &mut WorkerProgress| {
            let begun = self.pages.partition_point(|(run, _)| *run <= reached.run);
            !reached.ended && at > begun + self.most
        };
        let reached = self.moved.wait_while(self.lock(), too_early).unwrap_or_else(PoisonError::into_inner);
        !reached.ended && run >= reached.run
    }

    fn lock(&self) -> MutexGuard<'_, WorkerProgress> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number of segments with these first pages that are prefetched concurrently.
fn concurrent_segments<'a>(mut firsts: impl Iterator<Item = &'a PageRef>) -> usize {
    let is_small = |page: &PageRef| page.is_rare && page.info.raw_bytes <= SMALL_PAGE_BYTES_MAX;
    if firsts.all(is_small) { CONCURRENT_LOOKUPS_MAX } else { CONCURRENT_SEGMENTS_MAX }
}

/// Remote segments that a time-ordered search has prefetched.
#[derive(Default)]
pub(crate) struct PrefetchedSegments(BTreeSet<u64>);

impl PrefetchedSegments {
    /// The first pages of the next segments not yet prefetched; `pages` are the pages still to be read, the next one
    /// last. Empty until one of these segments is due, and then a whole group: the caller waits for the prefetched
    /// pages, and waiting for a group takes no longer than for one segment.
    pub(crate) fn of(&mut self, pages: &[PageRef]) -> Vec<PageRef> {
        let next = || pages.iter().rev().take(LOOKAHEAD_PAGES);
        let segments = next().map(|page| page.segment.is_remote().then(|| page.segment.first_arrival()));
        let firsts = self.take_group(&segments.collect::<Vec<Option<u64>>>());
        next().enumerate().filter(|(at, _)| firsts.contains(at)).map(|(_, page)| page.clone()).collect()
    }

    /// Positions of the first pages of the segments to prefetch now. `segments` has the segment of each of the next
    /// pages, in reading order; `None` for a local segment.
    fn take_group(&mut self, segments: &[Option<u64>]) -> Vec<usize> {
        let is_due = segments.iter().take(DUE_PAGES).flatten().any(|segment| !self.0.contains(segment));
        let mut firsts = Vec::new();
        for (at, segment) in segments.iter().enumerate().filter(|_| is_due) {
            if firsts.len() < CONCURRENT_SEGMENTS_MAX && segment.is_some_and(|segment| self.0.insert(segment)) {
                firsts.push(at);
            }
        }
        firsts
    }
}

/// One segment of a bucket, and the slab numbers of all requested segments of that bucket.
type BucketSlabs<'a> = (&'a Arc<dyn Segment>, Vec<usize>);

/// The requested slabs of each bucket. Two buckets may have the same number if the number was reused after a restart;
/// their times of creation differ.
fn slabs_by_bucket<'a>(segments: &[&'a Arc<dyn Segment>]) -> Vec<BucketSlabs<'a>> {
    let mut buckets: BTreeMap<(u64, TimeNs), BucketSlabs<'a>> = BTreeMap::new();
    for segment in segments.iter().copied() {
        if let Some(stored) = segment.stored() {
            let (_, slabs) = buckets.entry((stored.bucket, stored.created)).or_insert((segment, Vec::new()));
            slabs.push(usize_of(u64::from(stored.slab)));
        }
    }
    buckets.into_values().collect()
}

/// The newest of a segment's pages, if the pages are few and `is_begun` was not set; in this case, sets `is_begun`.
fn newest_of_few<'a>(pages: &'a [PageRef], is_begun: &AtomicBool) -> Option<&'a PageRef> {
    let newest = pages.iter().max_by_key(|page| (page.info.time_max, page.arrival()))?;
    (newest.is_rare && !is_begun.swap(true, Ordering::Relaxed)).then_some(newest)
}

impl EventScan {
    /// Prefetches a page of a later segment, as [`SegmentPrefetch`] does; messages about it are dropped.
    pub(crate) fn prefetch_segments(&self, page: &PageRef, context: &CommandContext) {
        let context = CommandContext { messages: Arc::default(), ..context.clone() };
        let _noted = messages::enter_scope(Some(Arc::clone(&context.messages)));
        let _counting = self.progress.reads().count_thread_reads();
        drop(catch_panic("a segment was prefetched", || self.prefetch_page(page, false, &context)));
    }

    /// Prefetches the newest of a segment's pages if the pages are few, for one segment only. This overlaps with the
    /// queries of other segments, which take another round trip for tokens that are not in the term dictionary.
    fn begin_first(&self, pages: &[PageRef], is_begun: &AtomicBool, context: &CommandContext) {
        if let Some(newest) = newest_of_few(pages, is_begun) {
            newest.segment.prefetch_pages(page_set(pages), self.reads_all_pages());
            self.prefetch_segments(newest, context);
        }
    }

    /// The pages that may hold a match, for several segments of a snapshot, as in [`EventScan::pages_of`]; remote
    /// segments are queried concurrently. If the rows are read `in_order` of time, a page may be prefetched meanwhile.
    pub(crate) fn pages_of_all(
        &self,
        segments: &[&Arc<dyn Segment>],
        snapshot: &Snapshot,
        in_order: bool,
        context: &CommandContext,
    ) -> Result<Vec<Option<Vec<PageRef>>>, EngineError> {
        let found = context.costs.measure_part(ScanPart::Index, || self.query_all(segments, in_order, context))?;
        context.costs.add_pruned(|| {
            let all = &snapshot.segments;
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

    /// Fetches the blocks that the first lookup in these segments needs: for all slabs of a bucket together, and for
    /// the buckets concurrently.
    fn prefetch_lookups(&self, segments: &[&Arc<dyn Segment>], requests: &(dyn Fn() -> u64 + Sync)) {
        let buckets = slabs_by_bucket(segments);
        let prefetch = |at: usize| {
            let _counting = self.progress.reads().count_thread_reads();
            let (segment, slabs) = &buckets[at];
            // A failure is reported by the lookup itself.
            drop(catch_panic("lookups were prefetched", || {
                segment.prefetch_lookups(slabs, self.filter.terms());
                Ok(())
            }));
        };
        map_concurrently(buckets.len(), requests, &prefetch);
    }

    fn query_all(
        &self,
        segments: &[&Arc<dyn Segment>],
        in_order: bool,
        context: &CommandContext,
    ) -> Result<Vec<Option<Vec<PageRef>>>, EngineError> {
        let far: Vec<&Arc<dyn Segment>> = segments.iter().copied().filter(|segment| segment.is_remote()).collect();
        let requests = || self.progress.reads().stats().requests;
        self.prefetch_lookups(&far, &requests);
        let (before, is_begun) = (requests(), AtomicBool::new(false));
        let ask = |at: usize| {
            let _noted = messages::enter_scope(Some(Arc::clone(&context.messages)));
            let _counting = self.progress.reads().count_thread_reads();
            let pages = catch_panic("remote segments were queried", || self.pages_of(far[at], context))?;
            if in_order && requests() != before {
                self.begin_first(pages.as_deref().unwrap_or_default(), &is_begun, context);
            }
            Ok(pages)
        };
        let mut of_far = map_concurrently(far.len(), &requests, &ask).into_iter();
        let mut all = Vec::with_capacity(segments.len());
        for segment in segments {
            let pages = if segment.is_remote() { of_far.next() } else { None };
            all.push(pages.unwrap_or_else(|| self.pages_of(segment, context))?);
        }
        assert!(of_far.next().is_none(), "each far segment was asked once");
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use quarry_event::{EventBatch, Metadata, TimeRange};
    use quarry_stdx::ManualClock;
    use quarry_store::{AppendRequest, IndexSelector, Store, StoreOptions};

    use super::*;
    use crate::page::CandidateRows;

    /// Maximum wait for the other evaluations.
    const LIMIT: Duration = Duration::from_secs(30);

    /// Whether all of four evaluations run at the same time; each counts `by` requests first.
    fn meet(by: u64) -> Vec<bool> {
        let (requests, running, changed) = (AtomicU64::new(0), Mutex::new(0), Condvar::new());
        map_concurrently(4, &|| requests.load(Ordering::Relaxed), &|_| {
            requests.fetch_add(by, Ordering::Relaxed);
            let mut count = running.lock().unwrap();
            *count += 1;
            changed.notify_all();
            let (count, _) = changed.wait_timeout_while(count, LIMIT, |count| *count < 4).unwrap();
            *count == 4
        })
    }

    #[test]
    fn evaluations_that_wait_run_side_by_side() {
        assert_eq!(meet(1), [true; 4], "those that wait for requests");
        assert_eq!(meet(0), [true; 4], "those that take long");
    }

    #[test]
    fn the_newest_page_of_one_segment_with_few_is_prefetched() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(StoreOptions::at(folder.path()), ManualClock::shared(1)).unwrap();
        let mut batch = EventBatch::default();
        let meta = batch.intern(&Metadata {
            index: "main".into(),
            host: "h".into(),
            source: "s".into(),
            sourcetype: "t".into(),
        });
        // The second of three pages is the newest.
        (0..10_000).for_each(|at: i64| batch.push(b"text", (at - 6_000).abs().wrapping_neg(), meta));
        store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
        store.seal_all().unwrap();
        let segments = store.snapshot(&IndexSelector::all(), &TimeRange::ALL).segments;
        let pages = |is_rare: bool| -> Vec<PageRef> {
            let infos = segments[0].pages().iter().enumerate();
            let segment = || Arc::clone(&segments[0]);
            infos
                .map(|(page, info)| PageRef {
                    segment: segment(),
                    page,
                    info: *info,
                    is_rare,
                    candidates: CandidateRows::Any,
                })
                .collect()
        };
        let is_begun = AtomicBool::new(false);
        assert!(newest_of_few(&[], &is_begun).is_none() && newest_of_few(&pages(false), &is_begun).is_none());
        assert_eq!(newest_of_few(&pages(true), &is_begun).map(|page| page.page), Some(1));
        assert!(newest_of_few(&pages(true), &is_begun).is_none(), "one segment only");
        let mixed = [pages(true), pages(false)].concat();
        assert_eq!(concurrent_segments(pages(true).iter()), CONCURRENT_LOOKUPS_MAX);
        assert_eq!(concurrent_segments(mixed.iter()), CONCURRENT_SEGMENTS_MAX);
        let mut long_events = pages(true);
        long_events[0].info.raw_bytes = SMALL_PAGE_BYTES_MAX + 1;
        assert_eq!(concurrent_segments(long_events.iter()), CONCURRENT_SEGMENTS_MAX);
    }

    #[test]
    fn following_segments_are_prefetched_in_groups() {
        // Seventeen slabs of 64 pages, of which eight are read at once.
        let pages: Vec<Option<u64>> = (0..17 * 64).map(|page| Some(page / 64)).collect();
        let mut prefetched = PrefetchedSegments::default();
        let mut groups = Vec::new();
        for next in (8..pages.len()).step_by(8) {
            let ahead = &pages[next..pages.len().min(next + LOOKAHEAD_PAGES)];
            let group = prefetched.take_group(ahead);
            let mut due = ahead.iter().take(DUE_PAGES).flatten();
            assert!(due.all(|segment| prefetched.0.contains(segment)), "page {next}");
            groups.extend((!group.is_empty()).then_some(group.len()));
        }
        assert!(groups.len() <= 5 && groups.iter().sum::<usize>() == 17, "{groups:?}");
        let mut prefetched = PrefetchedSegments::default();
        assert_eq!(prefetched.take_group(&[None; 64]), [0; 0], "local segments");
        assert_eq!(prefetched.take_group(&[None, Some(3), Some(3), Some(4)]), [1, 3]);
        let many: Vec<Option<u64>> = (10..60).map(Some).collect();
        assert_eq!(prefetched.take_group(&many), (0..CONCURRENT_SEGMENTS_MAX).collect::<Vec<usize>>());
    }

    #[test]
    fn buckets_whose_number_was_reused_are_told_apart() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let segments = [(&first, 1_000_000_000), (&second, 5_000_000_000)].map(|(folder, now)| {
            let store = Store::open(StoreOptions::at(folder.path()), ManualClock::shared(now)).unwrap();
            let mut batch = EventBatch::default();
            let meta = batch.intern(&Metadata {
                index: "main".into(),
                host: "h".into(),
                source: "s".into(),
                sourcetype: "t".into(),
            });
            batch.push(b"text", 1, meta);
            store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
            store.seal_all().unwrap();
            Arc::clone(&store.snapshot(&IndexSelector::all(), &TimeRange::ALL).segments[0])
        });
        let [first, second] = [0, 1].map(|at: usize| segments[at].stored().unwrap());
        assert!(first.bucket == second.bucket && first.created != second.created, "{first:?} {second:?}");
        let found = slabs_by_bucket(&[&segments[0], &segments[1], &segments[0]]);
        let slabs: Vec<Vec<usize>> = found.into_iter().map(|(_, slabs)| slabs).collect();
        assert_eq!(slabs, [vec![0, 0], vec![0]]);
    }

    #[test]
    fn results_are_in_order() {
        for count in [0, 1, 40] {
            assert!(map_concurrently(count, &|| 0, &|at| at * 7).into_iter().eq((0..count).map(|at| at * 7)));
        }
    }

    #[test]
    fn helpers_start_only_if_work_waits() {
        let helped = AtomicUsize::new(0);
        let help = || {
            helped.fetch_add(1, Ordering::Relaxed);
        };
        assert_eq!(with_helpers(3, &|| false, &help, || 5), 5);
        assert_eq!(helped.load(Ordering::Relaxed), 0);
        let until_helped = || {
            let helped_all = || helped.load(Ordering::Relaxed) == 3;
            while !helped_all() {
                std::thread::yield_now();
            }
        };
        with_helpers(3, &|| true, &help, until_helped);
        assert_eq!(helped.load(Ordering::Relaxed), 3);
    }
}
