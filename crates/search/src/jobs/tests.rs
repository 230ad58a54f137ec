use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use quarry_conf::Reader;
use quarry_conf::permissions::SearchLimits;
use quarry_engine::SearchShape;
use quarry_event::time::NS_PER_SEC;
use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_stdx::ManualClock;
use quarry_store::MemoryStore;

use jiff::tz::TimeZone;

use super::*;
use crate::namespaces::Visibility;
use crate::real_time::RealTimeWindow;
use crate::setup::tests::load_settings;

const START: i64 = 1_795_186_800;
const EVENTS: usize = 20_000;
/// Timeout that no job in these tests reaches.
const LONG: Duration = Duration::from_secs(600);

/// A server with some events.
struct World {
    jobs: Jobs,
    service: Arc<SearchService>,
    clock: Arc<ManualClock>,
}

impl World {
    fn new(folder: &Path) -> World {
        let clock = ManualClock::shared(START * NS_PER_SEC);
        let mut settings = load_settings(folder, &Visibility::Apps, &Reader::unrestricted()).unwrap();
        settings.clock = Arc::clone(&clock) as SharedClock;
        let store = MemoryStore::new("main");
        let meta = Metadata { index: "main".into(), host: "h".into(), source: "s".into(), sourcetype: "st".into() };
        let mut batch = EventBatch { metas: vec![meta], ..EventBatch::default() };
        for at in 0..EVENTS {
            let time = (START - EVENTS as i64 + at as i64) * NS_PER_SEC;
            batch.push(format!("number={at} kind=k{}", at % 3).as_bytes(), time, 0);
        }
        store.append(batch).unwrap();
        let kept = Arc::new(JobStore::for_server(folder, &settings.layers, Arc::clone(&clock) as SharedClock));
        let service = settings.service_of_server(Arc::new(store), &kept, None).unwrap();
        World { jobs: Jobs::new(kept, Arc::clone(&clock) as SharedClock), service: Arc::new(service), clock }
    }

    fn create(&self, user: &str, text: &str, asked: JobOptions) -> Result<StartedJob, SearchError> {
        let params = SearchParams { text: text.to_owned(), permissions: viewer(user), ..SearchParams::default() };
        self.jobs.create(&self.service, params, asked)
    }

    fn run(&self, text: &str) -> Arc<SearchJob> {
        let started = self.create("eva", text, JobOptions { status_buckets: 100, ..JobOptions::default() }).unwrap();
        let job = Arc::clone(started.job());
        started.run(None);
        assert_eq!(job.state(), JobState::Done, "{:?}", job.status().failure);
        job
    }
}

#[test]
fn jobs_keep_their_lifetime_when_more_jobs_are_created() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let first = world.run("search index=main | head 3");
    first.save(true);
    let second = world.run("search index=main | head 3");
    for _ in 0..crate::dispatch::JOBS_MAX + 40 {
        world.run("| makeresults");
    }
    assert_eq!((first_cells(&first, 0, 9).len(), first_cells(&second, 0, 9).len()), (3, 3));
    world.clock.advance_ns((TTL_S + 1) * NS_PER_SEC);
    world.jobs.enforce_lifetimes();
    assert_eq!(first_cells(&first, 0, 9).len(), 3, "the user saved the job");
    assert!(world.jobs.get(second.sid(), &viewer("eva")).is_none() && second.is_removed());
    assert_eq!(
        std::fs::read_dir(folder.path().join("dispatch"))
            .unwrap()
            .flatten()
            .filter(|entry| entry.path().is_dir())
            .count(),
        1
    );
}

#[test]
fn a_job_that_found_nothing_has_hints_and_keeps_them() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let run = |text: &str, has_hints: bool| {
        let asked = JobOptions { has_hints, ..JobOptions::default() };
        let capabilities = ["search".to_owned(), "get_metadata".to_owned()].into();
        let indexes = || vec!["main".to_owned()];
        let permissions = Arc::new(Permissions::for_user("eva", capabilities, indexes(), indexes()));
        let params = SearchParams { text: text.to_owned(), permissions, ..SearchParams::default() };
        let started = world.jobs.create(&world.service, params, asked).unwrap();
        let job = Arc::clone(started.job());
        started.run(None);
        assert_eq!(job.state(), JobState::Done, "{:?}", job.status().failure);
        (job.sid().to_owned(), job.status().hints)
    };
    for (text, said) in [
        ("search index=main kinds=k1", "`kind`"),
        ("search index=main kinds=k1 | stats count", "`kind`"),
        ("search index=main | stats count by kinds", "`kind`"),
        ("search index=main | head 3 | table kinds, number", "`kind`"),
        ("search index=main kind=k7", "k7"),
    ] {
        let (_, hints) = run(text, true);
        assert!(hints.len() == 1 && hints[0].contains(said), "{text}: {hints:?}");
        assert!(run(text, false).1.is_empty(), "{text}: no hints were requested");
    }
    for text in ["search index=main kind=k1", "search index=main | stats count by kind", "| makeresults count=3"] {
        assert!(run(text, true).1.is_empty(), "{text}");
    }
    let (sid, hints) = run("search index=main kinds=k1", true);
    let World { jobs, clock, .. } = world;
    drop(jobs);
    let layers = quarry_conf::Layers::new([]);
    let kept = Arc::new(JobStore::for_server(folder.path(), &layers, Arc::clone(&clock) as SharedClock));
    let next = Jobs::new(kept, clock);
    assert_eq!(next.get(&sid, &viewer("eva")).unwrap().status().hints, hints, "after a restart");
}

fn viewer(user: &str) -> Arc<Permissions> {
    let indexes = || vec!["main".to_owned()];
    Arc::new(Permissions::for_user(user, ["search".to_owned()].into(), indexes(), indexes()))
}

fn first_cells(job: &SearchJob, offset: usize, count: usize) -> Vec<String> {
    let view = job.rows(offset, count).unwrap();
    let tables: Vec<_> = view.tables(job.zone()).map(Result::unwrap).collect();
    tables.iter().flat_map(|table| table.rows().map(|row| row.cell(0).join_values(" ").into_owned())).collect()
}

#[test]
fn jobs_exist_while_queued_running_and_restarted_until_they_expire() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let started = world.create("eva", "* | stats count by kind", JobOptions::default()).unwrap();
    let sid = started.job().sid().to_owned();
    let get = |world: &World, user: &str| world.jobs.get(&sid, &viewer(user));
    assert_eq!(get(&world, "eva").unwrap().state(), JobState::Queued);
    assert!(get(&world, "tom").is_none(), "the job belongs to another user");
    started.run(None);
    let job = get(&world, "eva").unwrap();
    let status = job.status();
    assert_eq!(
        (status.state, status.rows, status.is_events, status.matched),
        (JobState::Done, 3, false, EVENTS as u64)
    );
    assert_eq!(first_cells(&job, 1, 5), ["k1", "k2"]);
    assert_eq!(status.ttl_left_s, TTL_S);
    drop(world);
    let world = World::new(folder.path());
    assert!(get(&world, "tom").is_none());
    let job = get(&world, "eva").unwrap();
    assert_eq!((job.state(), first_cells(&job, 0, 9)), (JobState::Done, vec!["k0".into(), "k1".into(), "k2".into()]));
    assert_eq!(job.status().matched, EVENTS as u64);
    world.clock.advance_ns((TTL_S - 1) * NS_PER_SEC);
    job.touch();
    world.clock.advance_ns((TTL_S - 1) * NS_PER_SEC);
    assert!(get(&world, "eva").is_some());
    world.clock.advance_ns(NS_PER_SEC);
    world.jobs.enforce_lifetimes();
    assert!(get(&world, "eva").is_none());
    assert!(!folder.path().join("dispatch").join(&sid).exists());
}

#[test]
fn events_are_paged_with_timeline_and_fields() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let job = world.run("search kind=k1 | table _time number kind");
    assert_eq!(job.status().rows, EVENTS.div_ceil(3));
    let job = world.run("search kind=k1");
    let status = job.status();
    assert!(status.is_events && status.rows == EVENTS.div_ceil(3) && status.scanned >= status.matched);
    let spans: Vec<TimeSpan> = job.timeline().spans().collect();
    assert!(spans.len() <= 100 && spans.iter().map(|span| span.count).sum::<u64>() == status.rows as u64);
    assert_eq!(status.event_times.map(|(_, last)| last), Some((START - 1) * NS_PER_SEC));
    assert_eq!(
        status.event_fields,
        job.rows(0, 1).unwrap().fields().iter().filter(|name| !name.starts_with('_')).count()
    );
    let summary = job.summary(&SummaryRequest { has_histograms: true, ..SummaryRequest::default() }).unwrap();
    let kind = &summary.fields["kind"];
    assert_eq!((kind.count, kind.distinct, kind.is_exact), (status.rows as u64, 1, true));
    let histogram: Vec<TimeSpan> = kind.histogram.as_ref().unwrap().spans().collect();
    assert!(histogram.len() <= 100 && histogram.iter().map(|span| span.count).sum::<u64>() == kind.count);
    let (first, last) = (START - 10, START - 1);
    let range = TimeRange { earliest: Some(first * NS_PER_SEC), latest: Some(last * NS_PER_SEC) };
    let part = job.summary(&SummaryRequest { range: Some(range), ..SummaryRequest::default() }).unwrap();
    assert!((1..=9).contains(&part.rows) && part.fields["kind"].histogram.is_none());
    assert_eq!(kind.values, [FieldValue { value: "k1".to_owned(), count: status.rows as u64 }]);
    let further = SearchParams {
        text: "| search number<100 | fields number".to_owned(),
        permissions: viewer("eva"),
        shape: SearchShape { job: Some(job.sid().to_owned()), ..SearchShape::default() },
        ..SearchParams::default()
    };
    let mut running = world.service.start(further).unwrap();
    let searched = job.summary_after(&mut running, &SummaryRequest::default()).unwrap();
    // 1, 4, … 97
    assert_eq!((searched.rows, searched.fields["number"].count, !searched.fields.contains_key("kind")), (33, 33, true));
    let number = &summary.fields["number"];
    assert_eq!((number.numbers, number.min, number.is_exact), (status.rows as u64, 1.0, true));
    let pages: Vec<String> =
        (0..status.rows).step_by(1_000).flat_map(|offset| first_cells(&job, offset, 1_000)).collect();
    assert_eq!(pages, first_cells(&job, 0, usize::MAX));
    assert_eq!(pages.len(), status.rows);
}

#[test]
fn paused_jobs_read_nothing_until_resumed_or_ended() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    for end in ["resume", "finalize", "cancel"] {
        let started = world.create("eva", "* | stats count", JobOptions::default()).unwrap();
        let job = Arc::clone(started.job());
        world.jobs.pause(&job).unwrap();
        assert_eq!(job.state(), JobState::Paused);
        thread::scope(|scope| {
            let running = scope.spawn(|| started.run(None));
            assert_eq!((job.state(), job.status().rows), (JobState::Paused, 0));
            match end {
                "resume" => job.resume(None),
                "finalize" => job.finalize(),
                _ => world.jobs.remove(&job),
            }
            running.join().unwrap();
        });
        assert!(job.wait(LONG));
        let found = world.jobs.get(job.sid(), &viewer("eva"));
        assert_eq!(found.is_some(), end != "cancel");
        let is_there = folder.path().join("dispatch").join(job.sid()).exists();
        assert_eq!(is_there, end != "cancel", "{end}");
        if end == "resume" {
            assert_eq!(first_cells(&job, 0, 1), [EVENTS.to_string()]);
        }
        assert_eq!(job.status().is_finalized, end == "finalize");
    }
}

#[test]
fn results_of_finalised_jobs_are_marked() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    for is_early in [true, false] {
        let started = world.create("eva", "* | stats count", JobOptions::default()).unwrap();
        let job = Arc::clone(started.job());
        if is_early {
            world.jobs.pause(&job).unwrap();
            job.finalize();
        }
        started.run(None);
        // A job of an earlier process has no search to finalise.
        job.finalize();
        let loaded = SearchParams {
            text: format!("| loadjob {}", job.sid()),
            permissions: viewer("eva"),
            ..SearchParams::default()
        };
        let loaded = world.service.run(loaded).unwrap();
        let told = loaded.messages.iter().any(|message| message.contains("finalised before it had read all events"));
        assert_eq!((loaded.partial, told), (is_early, is_early), "{:?}", loaded.messages);
    }
}

/// Search slot that counts the slots in use and the calls of `grow`.
struct CountedSlot {
    held: Arc<AtomicUsize>,
    grown: Arc<AtomicUsize>,
}

impl CountedSlot {
    fn take(held: &Arc<AtomicUsize>, grown: &Arc<AtomicUsize>) -> Option<Box<dyn SearchSlot>> {
        held.fetch_add(1, Ordering::SeqCst);
        Some(Box::new(CountedSlot { held: Arc::clone(held), grown: Arc::clone(grown) }))
    }
}

impl SearchSlot for CountedSlot {
    fn grow(self: Box<Self>, release_memory: &mut dyn FnMut()) -> Option<Box<dyn SearchSlot>> {
        release_memory();
        self.grown.fetch_add(1, Ordering::SeqCst);
        Some(self)
    }
}

impl Drop for CountedSlot {
    fn drop(&mut self) {
        self.held.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn paused_jobs_release_their_slot_and_large_ones_grow_it() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let (held, grown) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let turn = || CountedSlot::take(&held, &grown);
    let counts = || (held.load(Ordering::SeqCst), grown.load(Ordering::SeqCst));
    for (text, grows) in [("* | stats count", 0), ("* | eval long=printf(\"%0200d\", number)", 1)] {
        let started = world.create("eva", text, JobOptions::default()).unwrap();
        let job = Arc::clone(started.job());
        world.jobs.pause(&job).unwrap();
        grown.store(0, Ordering::SeqCst);
        let first = turn();
        thread::scope(|scope| {
            let running = scope.spawn(|| started.run(first));
            while counts().0 > 0 {
                thread::yield_now();
            }
            assert!(job.resume_unless_begun(), "it needs a turn");
            assert_eq!(job.state(), JobState::Paused);
            job.resume(turn());
            running.join().unwrap();
        });
        assert_eq!((job.state(), counts()), (JobState::Done, (0, grows)), "{text}");
    }
    let waiting: Vec<StartedJob> =
        (0..=PAUSED_MAX).map(|_| world.create("eva", "*", JobOptions::default()).unwrap()).collect();
    let paused = waiting.iter().map(|started| world.jobs.pause(started.job()).is_ok());
    assert_eq!(paused.filter(|is_paused| *is_paused).count(), PAUSED_MAX);
}

#[test]
fn job_options_are_stored_and_errors_reported() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let asked = |id: &str| JobOptions { id: Some(id.to_owned()), ..JobOptions::default() };
    let named = world.create("eva", "*", asked("mine.1")).unwrap();
    assert!(matches!(
        world.create("eva", "*", asked("mine.1")),
        Err(SearchError::JobExists(name)) if name == "mine.1"
    ));
    for name in ["../x", ".x", "a/b", "", &"x".repeat(300)] {
        assert!(matches!(world.create("eva", "*", asked(name)), Err(SearchError::InvalidJobName(_))));
    }
    named.run(None);
    let before = std::fs::read_dir(folder.path().join("dispatch")).unwrap().count();
    assert!(matches!(world.create("eva", "* | stast", JobOptions::default()), Err(SearchError::Syntax(_))));
    assert_eq!(std::fs::read_dir(folder.path().join("dispatch")).unwrap().count(), before, "no folder is left");
    let failing = world.create("eva", "| loadjob nosuch.1", JobOptions::default()).unwrap();
    let job = Arc::clone(failing.job());
    failing.run(None);
    let status = job.status();
    assert!(status.state == JobState::Failed && status.failure.unwrap().contains("nosuch.1"));
    let limited = world.create(
        "eva",
        "* | table number",
        JobOptions { time_max_s: 5, auto_cancel_s: 3, ..JobOptions::default() },
    );
    let limited = limited.unwrap();
    let job = Arc::clone(limited.job());
    world.clock.advance_ns(4 * NS_PER_SEC);
    world.jobs.enforce_lifetimes();
    assert!(world.jobs.get(job.sid(), &viewer("eva")).is_none(), "no access for more than 3 seconds");
    limited.run(None);
    assert_eq!(world.jobs.list(&viewer("eva")).len(), 2);
    assert!(world.jobs.list(&viewer("tom")).is_empty());
}

#[test]
fn searches_running_at_shutdown_are_marked_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let started =
        world.create("eva", "*", JobOptions { id: Some("long".to_owned()), ..JobOptions::default() }).unwrap();
    world.clock.advance_ns(48 * 3_600 * NS_PER_SEC);
    JobStore::new(
        folder.path(),
        &load_settings(folder.path(), &Visibility::Apps, &Reader::unrestricted()).unwrap().layers,
        Arc::clone(&world.clock) as SharedClock,
    )
    .remove_expired();
    assert!(folder.path().join("dispatch/long").exists(), "a job that runs for long stays");
    drop(started);
    drop(world);
    let world = World::new(folder.path());
    let job = world.jobs.get("long", &viewer("eva")).unwrap();
    let status = job.status();
    assert!(status.state == JobState::Failed && status.failure.unwrap().contains("the server ended"));
    assert!(job.rows(0, 10).unwrap().is_empty());
}

#[test]
fn roles_limit_the_disk_quota_of_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let of = |world: &World, user: &str, bytes: u64, time_s: Option<u64>| {
        let limits = SearchLimits { disk_bytes: Some(bytes), time_s, ..SearchLimits::default() };
        let permissions = Arc::new(viewer(user).as_ref().clone().with_limits(limits));
        let params = SearchParams { text: "*".to_owned(), permissions, ..SearchParams::default() };
        world.jobs.create(&world.service, params, JobOptions::default())
    };
    let quota = 2 << 20;
    let first = of(&world, "eva", quota, None).unwrap();
    let job = Arc::clone(first.job());
    first.run(None);
    let status = job.status();
    assert!(status.state == JobState::Done && status.is_truncated && status.rows < EVENTS, "{status:?}");
    assert!(status.messages.iter().any(|message| message.contains("srchDiskQuota")), "{:?}", status.messages);
    assert!(matches!(of(&world, "eva", quota, None), Err(SearchError::DiskQuota { .. })));
    assert!(of(&world, "tom", quota, None).is_ok(), "another user's");
    for number in 0..3 {
        assert!(of(&world, "ann", 1 << 20, None).is_ok(), "job {number} of the smallest quota, which is hardly used");
    }
    // Jobs still count towards the quota after a restart, but not after they are removed.
    drop(world);
    let world = World::new(folder.path());
    assert!(matches!(of(&world, "eva", quota, None), Err(SearchError::DiskQuota { .. })));
    let job = world.jobs.get(job.sid(), &viewer("eva")).unwrap();
    world.jobs.remove(&job);
    let bounded = of(&world, "eva", quota, Some(60)).unwrap();
    assert_eq!(bounded.job().status().record.time_max_s, 60);
}

#[test]
fn samples_have_the_requested_ratio_and_are_repeatable() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let run = |text: &str, sample: u32| {
        let shape = SearchShape { sample, ..SearchShape::default() };
        let params =
            SearchParams { text: text.to_owned(), permissions: viewer("eva"), shape, ..SearchParams::default() };
        let started = world.jobs.create(&world.service, params, JobOptions::default()).unwrap();
        let job = Arc::clone(started.job());
        started.run(None);
        assert_eq!(job.state(), JobState::Done, "{:?}", job.status().failure);
        job
    };
    let (first, second) = (run("*", 10), run("*", 10));
    let rows = first.status().rows;
    assert!((EVENTS / 10 - 200..EVENTS / 10 + 200).contains(&rows), "{rows}");
    assert_eq!(first_cells(&first, 0, rows), first_cells(&second, 0, rows));
    let counted = run("* | stats count", 10);
    assert_eq!(first_cells(&counted, 0, 1), [rows.to_string()]);
    assert_eq!((counted.status().record.sample_ratio(), run("*", 1).status().rows), (10, EVENTS));
}

#[test]
fn source_events_of_a_report_are_those_it_read() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let asked = JobOptions { level: SearchLevel::Verbose, ..JobOptions::default() };
    let started = world.create("eva", "kind=k1 | eval a=number+1 | stats count by a", asked).unwrap();
    let job = Arc::clone(started.job());
    started.run(None);
    assert!(job.status().record.shows_events() && !job.is_events());
    let events = |job: &SearchJob, most| world.service.run(job.source_events_search(viewer("eva"), most)).unwrap();
    let outcome = events(&job, 5);
    assert!(outcome.events && outcome.table.len() == 5 && outcome.table.fields().contains(&"a".to_owned()));
    assert_eq!(events(&job, EVENTS).table.len() as u64, job.status().matched);
    // The history lists the search of the job once, however often its events are read.
    assert!(job.source_events_search(viewer("eva"), 5).is_internal);
}

#[test]
fn a_real_time_job_follows_its_window_until_it_is_finalised() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let window = RealTimeWindow::of((Some("rt-100s"), Some("rt")), false).unwrap();
    let asked = || JobOptions { real_time: window.clone(), status_buckets: 100, ..JobOptions::default() };
    let started = world.create("eva", "* | stats count", asked()).unwrap();
    let job = Arc::clone(started.job());
    let work = std::thread::spawn(move || started.run(None));
    let shows = |count: &str| {
        while job.preview(0, 1).unwrap().tables(&TimeZone::UTC).next().is_none_or(|table| {
            table.unwrap().rows().next().is_none_or(|row| row.cell_by_name("count").join_values("") != count)
        }) {
            assert!(!job.state().is_over(), "{:?}", job.status().failure);
            std::thread::yield_now();
        }
    };
    shows("100");
    assert!(job.status().rows == 0 && job.status().rows_shown == 1 && job.status().previews > 0);
    // Forty seconds later, the window contains the last sixty events.
    world.clock.advance_ns(40 * NS_PER_SEC);
    shows("60");
    job.finalize();
    work.join().unwrap();
    assert_eq!((job.state(), first_cells(&job, 0, 1)), (JobState::Done, vec!["60".to_owned()]));
    let events = world.create("eva", "kind=k1", asked()).unwrap();
    let job = Arc::clone(events.job());
    let work = std::thread::spawn(move || events.run(None));
    while job.status().previews == 0 {
        std::thread::yield_now();
    }
    assert!(
        job.is_events() && job.timeline().spans().count() > 0 && job.status().rows_shown == 20,
        "{:?}",
        job.status()
    );
    world.jobs.remove(&job);
    work.join().unwrap();
}

#[test]
fn a_job_is_finalised_after_a_number_of_matching_events() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(folder.path());
    let run = |text: &str, events_max: Option<u64>| {
        let shape = SearchShape { events_max, ..SearchShape::default() };
        let params =
            SearchParams { text: text.to_owned(), permissions: viewer("eva"), shape, ..SearchParams::default() };
        let started = world.jobs.create(&world.service, params, JobOptions::default()).unwrap();
        let job = Arc::clone(started.job());
        started.run(None);
        job.status()
    };
    let limited = run("search index=main | stats sum(number)", Some(5_000));
    assert_eq!(limited.state, JobState::Done);
    assert!(limited.is_finalized && limited.is_partial, "{limited:?}");
    assert!(limited.matched >= 5_000 && limited.matched < EVENTS as u64, "{} events", limited.matched);
    assert_eq!(limited.messages, ["Search auto-finalized after 5000 matching events were read."]);
    // The events of a subsearch do not count.
    let inner = "search index=main kind=k0 number<9000 [search index=main number<6000 | stats count | eval kind=\"k0\" \
                 | fields kind] | stats count";
    for unlimited in [run("search index=main number<4000", Some(5_000)), run(inner, Some(5_000))] {
        assert!(!unlimited.is_finalized && unlimited.messages.is_empty(), "{unlimited:?}");
    }
}

#[test]
fn a_previewed_file_is_a_finished_job_that_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let World { jobs, clock, .. } = World::new(folder.path());
    let metadata = Metadata { index: "main".into(), host: "h".into(), source: "/a.log".into(), sourcetype: "t".into() };
    let event = |at: i64, raw: &str| PreviewedEvent {
        time: (START + at) * NS_PER_SEC,
        raw: raw.to_owned(),
        lines: 1,
        metadata: metadata.clone(),
    };
    let preview = FilePreview {
        path: "/a \"b\".log".to_owned(),
        events: vec![event(0, "one"), event(1, "two")],
        notes: vec!["only a part was read".to_owned()],
        props: [("TRUNCATE".to_owned(), "10".to_owned())].into(),
    };
    let read = PreviewedFile { sourcetype: "t".to_owned(), props: preview.props.clone() };
    let zone = quarry_event::time::parse_zone("+02:00").unwrap();
    let job = jobs.create_preview(&viewer("eva"), ("search", zone), preview).unwrap();
    let sid = job.sid().to_owned();
    let text = job.status().record.search().to_owned();
    let searched = SearchParams { text, permissions: viewer("eva"), ..SearchParams::default() };
    let asked = JobOptions { app: "search".to_owned(), ..JobOptions::default() };
    assert!(jobs.find_repeated(&searched, &asked, 600).is_none(), "a preview is no result of the search");
    drop(jobs);
    let layers = quarry_conf::Layers::new([]);
    let kept = Arc::new(JobStore::for_server(folder.path(), &layers, Arc::clone(&clock) as SharedClock));
    let later = Jobs::new(kept, clock).get(&sid, &viewer("eva")).unwrap();
    for job in [job, later] {
        let status = job.status();
        assert_eq!((status.state, status.rows, status.is_events, status.matched), (JobState::Done, 2, true, 2));
        assert_eq!(status.event_times, Some((START * NS_PER_SEC, (START + 1) * NS_PER_SEC)));
        assert_eq!(status.messages, ["only a part was read"]);
        assert_eq!(quarry_event::time::zone_name(job.zone()).as_deref(), Some("+02:00"));
        assert_eq!(status.record.search(), "search source=\"/a \\\"b\\\".log\"");
        assert_eq!(status.record.previewed(), Some(&read));
        let table = job.rows(0, 9).unwrap().tables(&TimeZone::UTC).next().unwrap().unwrap();
        let raw: Vec<String> = table.rows().map(|row| row.cell_by_name("_raw").join_values("").into_owned()).collect();
        assert_eq!(raw, ["one", "two"]);
    }
}
