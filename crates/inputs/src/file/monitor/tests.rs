//! Files that grow, are rotated, copied and removed, read by a worker with a manual clock.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use quarry_conf::{ConfSource, Layer, Layers, MonitorSettings, PropsResolver};
use quarry_event::EventBatch;
use quarry_stdx::{Clock, ManualClock};

mod bursts;
mod copies;
mod packed_files;
mod removed_files;
mod rotations;
mod short_files;
mod waits;

use super::watcher::Watcher;
use super::worker::Worker;
use super::{Monitor, MonitorOptions, NANOS_PER_SEC};
use crate::file::tests::MemorySink;
use crate::{FilePosition, Sink, SinkError};

/// A sink that outlives workers, and checks that a file's positions are looked up before its events are handed over.
#[derive(Clone, Default)]
struct SharedSink(Arc<Mutex<MemorySink>>, Option<(String, Vec<u8>)>, Arc<Mutex<Option<PathBuf>>>);

impl Sink for SharedSink {
    fn positions(&mut self, scope: &str, head: &[u8]) -> Result<Vec<FilePosition>, SinkError> {
        self.1 = Some((scope.to_owned(), head.to_vec()));
        if let Some(emptied) = self.2.lock().unwrap().take() {
            File::create(emptied).unwrap();
        }
        self.0.lock().unwrap().positions(scope, head)
    }

    fn accept(&mut self, batch: EventBatch, position: Option<FilePosition>) -> Result<(), SinkError> {
        let (scope, head) = self.1.as_ref().expect("positions are looked up first");
        let identity = &position.as_ref().unwrap().identity;
        assert!(identity.scope == *scope && (head.starts_with(&identity.head) || identity.head.starts_with(head)));
        self.0.lock().unwrap().accept(batch, position)
    }

    fn end_file(&mut self) {
        self.1 = None;
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// A sink that calls a function before it accepts a batch.
struct BeforeBatch<F>(SharedSink, F);

impl<F: FnMut()> Sink for BeforeBatch<F> {
    fn positions(&mut self, scope: &str, head: &[u8]) -> Result<Vec<FilePosition>, SinkError> {
        self.0.positions(scope, head)
    }

    fn accept(&mut self, batch: EventBatch, position: Option<FilePosition>) -> Result<(), SinkError> {
        (self.1)();
        self.0.accept(batch, position)
    }

    fn end_file(&mut self) {
        self.0.end_file();
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.0.flush()
    }
}

/// A watched folder.
struct World {
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
    sink: SharedSink,
    told: Arc<Mutex<Vec<String>>>,
    stanza: String,
    monitor: &'static Monitor,
    watcher: Watcher<'static>,
    worker: Worker<'static>,
}

impl World {
    fn new(settings: &str) -> World {
        World::over("monitor", "*.log*", settings)
    }

    fn over(kind: &str, files: &str, settings: &str) -> World {
        let folder = tempfile::tempdir().unwrap();
        let stanza = format!("[{kind}://{}/{files}]\nsourcetype = lines\n{settings}", folder.path().display());
        let clock = ManualClock::shared(1_795_244_400 * NANOS_PER_SEC);
        let (sink, told) = (SharedSink::default(), Arc::default());
        let (monitor, worker) = begin(&stanza, &clock, &sink, &told);
        World { folder, clock, sink, told, stanza, monitor, watcher: Watcher::new(monitor), worker }
    }

    /// Simulates a crash: stored data stays, everything else is lost.
    fn restart(&mut self) {
        (self.monitor, self.worker) = begin(&self.stanza, &self.clock, &self.sink, &self.told);
        self.watcher = Watcher::new(self.monitor);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn append(&self, name: &str, text: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(self.path(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        self.touch(&file);
    }

    fn empty(&self, name: &str) {
        self.touch(&File::create(self.path(name)).unwrap());
    }

    /// Empties a file as soon as its positions are looked up, that is, between two reads of the file.
    fn empty_when_looked_up(&self, name: &str) {
        *self.sink.2.lock().unwrap() = Some(self.path(name));
    }

    fn rename(&self, from: &str, to: &str) {
        std::fs::rename(self.path(from), self.path(to)).unwrap();
    }

    fn copy(&self, from: &str, to: &str) {
        std::fs::copy(self.path(from), self.path(to)).unwrap();
        self.touch(&OpenOptions::new().append(true).open(self.path(to)).unwrap());
    }

    /// Marks the file as just written.
    fn touch(&self, file: &File) {
        self.clock.advance_ns(1_000_000);
        file.set_modified(UNIX_EPOCH + Duration::from_nanos(self.clock.now_ns().unsigned_abs())).unwrap();
    }

    /// Finds and reads everything.
    fn scan_and_read(&mut self) {
        self.watcher.scan_all();
        while self.worker.step(0, Duration::ZERO).unwrap() {}
    }

    fn wait(&mut self, seconds: f64) {
        let end = self.clock.now_ns() + (seconds * 1e9) as i64;
        while self.clock.now_ns() < end {
            self.clock.advance_ns(NANOS_PER_SEC / 4);
            self.scan_and_read();
        }
    }

    /// Calls a function before the sink accepts a batch.
    fn before_each_batch(&mut self, function: impl FnMut() + 'static) {
        self.worker = self.worker.successor(Box::new(BeforeBatch(self.sink.clone(), function)));
    }

    fn events(&self) -> Vec<String> {
        self.sink.0.lock().unwrap().events.clone()
    }

    fn assert_events(&self, expected: &[&str]) {
        assert_eq!(self.events(), expected);
    }
}

fn begin(
    stanza: &str,
    clock: &Arc<ManualClock>,
    sink: &SharedSink,
    told: &Arc<Mutex<Vec<String>>>,
) -> (&'static Monitor, Worker<'static>) {
    let local = |file: &str, text: &str| ConfSource {
        layer: Layer::SystemLocal,
        app: None,
        file: file.to_owned(),
        text: text.to_owned(),
    };
    let props = "[lines]\nSHOULD_LINEMERGE = false\nDATETIME_CONFIG = CURRENT\n\
                 [blocks]\nBREAK_ONLY_BEFORE = ^#\nDATETIME_CONFIG = CURRENT\n";
    let layers = Layers::new([local("inputs.conf", stanza), local("props.conf", props)]);
    let (stanzas, wrong) = MonitorSettings::read_all(&layers);
    assert_eq!(wrong, Vec::<String>::new());
    let told = told.clone();
    let options = MonitorOptions {
        host: "here".to_owned(),
        clock: clock.clone(),
        workers: 1,
        open_max: 8,
        held_max: 1_000,
        report: Box::new(move |text| told.lock().unwrap().push(text.to_owned())),
    };
    let (monitor, wrong) = Monitor::new(stanzas, options);
    assert!(wrong.is_empty(), "{wrong:?}");
    // Leaked: it is small, and a test is short.
    let monitor: &'static Monitor = Box::leak(Box::new(monitor));
    let props: &'static PropsResolver = Box::leak(Box::new(PropsResolver::new(&layers)));
    (monitor, Worker::new(monitor, props, Box::new(sink.clone())))
}

#[test]
fn lines_are_delivered_when_complete() {
    let mut world = World::new("");
    world.append("a.log", "one\ntwo\nthr");
    world.scan_and_read();
    world.assert_events(&["one", "two"]);
    world.append("a.log", "ee\n");
    world.scan_and_read();
    world.assert_events(&["one", "two", "three"]);
    world.append("a.log", "four");
    world.wait(2.5);
    assert_eq!(world.events().len(), 3, "the rest of the line may follow");
    world.wait(1.0);
    world.assert_events(&["one", "two", "three", "four"]);
    world.append("a.log", "\nfive\n");
    world.wait(5.0);
    world.append("a.log", "six\n");
    world.scan_and_read();
    assert_eq!(world.events()[4..], ["five", "six"]);
}

#[test]
fn multiline_events_wait_briefly_for_further_lines() {
    for (settings, waits) in [("", 0.75), ("multiline_event_extra_waittime = true\n", 3.0)] {
        let mut world = World::new(&format!("sourcetype = blocks\n{settings}"));
        world.append("a.log", "#1\n a\n#2\n");
        world.scan_and_read();
        world.assert_events(&["#1\n a"]);
        world.append("a.log", " b\n");
        world.wait(waits - 0.5);
        assert_eq!(world.events().len(), 1, "{settings}");
        world.wait(1.0);
        world.assert_events(&["#1\n a", "#2\n b"]);
    }
}

#[test]
fn a_renamed_file_is_read_to_its_end_and_its_successor_from_its_start() {
    let mut world = World::over("monitor", "*.log", "");
    world.append("a.log", "one\n");
    world.scan_and_read();
    world.append("a.log", "two\n");
    world.rename("a.log", "a.old");
    world.append("a.log", "three\n");
    world.scan_and_read();
    world.append("a.old", "late\n");
    world.wait(4.0);
    let mut events = world.events();
    events.sort();
    assert_eq!(events, ["late", "one", "three", "two"]);
}

#[test]
fn copied_and_truncated_files_are_read_once() {
    let mut world = World::new("");
    let lines = |from: usize, to: usize| (from..to).map(|at| format!("line {at} of this log\n")).collect::<String>();
    world.append("a.log", &lines(0, 40));
    world.scan_and_read();
    world.append("a.log", &lines(40, 50));
    world.copy("a.log", "a.log.1");
    world.empty("a.log");
    world.scan_and_read();
    world.append("a.log", &lines(50, 120));
    world.wait(5.0);
    assert_eq!(world.events().len(), 120);
    world.restart();
    world.wait(5.0);
    assert_eq!(world.events().len(), 120);
}

#[test]
fn compressed_copies_are_recognised_as_the_same_file() {
    let mut world = World::new("");
    let text: String = (0..60).map(|at| format!("line {at} of this log\n")).collect();
    world.append("a.log", &text[..600]);
    world.scan_and_read();
    world.append("a.log", &text[600..]);
    let mut packer = flate2::write::GzEncoder::new(File::create(world.path("a.log.gz")).unwrap(), Default::default());
    packer.write_all(text.as_bytes()).unwrap();
    world.touch(&packer.finish().unwrap());
    std::fs::remove_file(world.path("a.log")).unwrap();
    world.scan_and_read();
    world.wait(5.0);
    assert_eq!(world.events(), text.lines().collect::<Vec<_>>());
}

#[test]
fn copies_are_skipped_unless_a_salt_distinguishes_them() {
    for (settings, times) in [("", 1), ("crcSalt = <SOURCE>\n", 2), ("crcSalt = x\n", 1)] {
        let mut world = World::new(settings);
        world.append("a.log", "one\ntwo\n");
        world.copy("a.log", "b.log");
        world.wait(5.0);
        assert_eq!(world.events().len(), 2 * times, "{settings}");
        world.restart();
        world.wait(5.0);
        assert_eq!(world.events().len(), 2 * times, "{settings}");
    }
}

#[test]
fn start_position_follows_the_settings() {
    let mut world = World::new("followTail = 1\n");
    world.append("a.log", "old\nha");
    world.scan_and_read();
    world.append("a.log", "lf\nnew\n");
    world.scan_and_read();
    world.assert_events(&["half", "new"]);
    let mut world = World::new("ignoreOlderThan = 1h\n");
    world.append("a.log", "old\n");
    world.clock.advance_ns(3_700 * NANOS_PER_SEC);
    world.append("b.log", "new\n");
    world.wait(4.0);
    world.assert_events(&["new"]);
}

#[test]
fn batch_stanza_removes_stored_files() {
    let mut world = World::over("batch", "", "move_policy = sinkhole\n");
    world.append("a.log", "one\ntwo");
    world.scan_and_read();
    assert!(world.path("a.log").exists(), "the file may still be written");
    world.wait(5.0);
    world.assert_events(&["one", "two"]);
    assert!(!world.path("a.log").exists());
}

#[test]
fn batch_stanza_keeps_files_that_are_not_stored() {
    let binary: Vec<u8> = (0..=255).cycle().take(4_096).collect();
    let mut tar = vec![0; 1_024];
    tar[..5].copy_from_slice(b"a.txt");
    tar[257..262].copy_from_slice(b"ustar");
    for (name, content) in [("a.bin", &binary[..]), ("a.tar", &tar), ("a.gz", b"\x1f\x8b\x08\0not compressed")] {
        let mut world = World::over("batch", "", "move_policy = sinkhole\n");
        std::fs::write(world.path(name), content).unwrap();
        world.touch(&OpenOptions::new().append(true).open(world.path(name)).unwrap());
        world.wait(90.0);
        assert!(world.path(name).exists() && world.events().is_empty(), "{name}");
        assert!(world.told.lock().unwrap().iter().any(|text| text.contains(name)), "{name}");
    }
}

#[test]
fn batch_stanza_keeps_a_compressed_file_with_other_bytes_at_its_end() {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut packer, b"one\ntwo\n").unwrap();
    let packed = packer.finish().unwrap();
    for (rest, is_kept) in [(&b"three\n"[..], true), (b"\0\0\0\0", false), (b"", false)] {
        let mut world = World::over("batch", "", "move_policy = sinkhole\n");
        // The second name has the content that was stored under the first one.
        for name in ["a.log.gz", "b.log.gz"] {
            std::fs::write(world.path(name), [&packed[..], rest].concat()).unwrap();
            world.touch(&OpenOptions::new().append(true).open(world.path(name)).unwrap());
            world.wait(90.0);
            world.assert_events(&["one", "two"]);
            assert_eq!(world.path(name).exists(), is_kept, "{name} {rest:?}");
        }
    }
}

#[test]
fn batch_stanza_keeps_a_file_that_took_the_name_of_a_read_one() {
    let mut world = World::over("batch", "", "move_policy = sinkhole\n");
    world.append("a.log", "one\n");
    world.scan_and_read();
    world.assert_events(&["one"]);
    let other = tempfile::tempdir().unwrap().keep();
    std::fs::write(other.join("b"), "two\n").unwrap();
    world.touch(&OpenOptions::new().append(true).open(other.join("b")).unwrap());
    std::fs::rename(other.join("b"), world.path("a.log")).unwrap();
    world.clock.advance_ns(60 * NANOS_PER_SEC);
    while world.worker.step(0, Duration::ZERO).unwrap() {}
    world.wait(10.0);
    world.assert_events(&["one", "two"]);
    assert!(!world.path("a.log").exists(), "the file is removed once it is read, too");
    std::fs::remove_dir(other).unwrap();
}

#[test]
fn reading_resumes_at_the_stored_position_after_a_failure() {
    let mut world = World::new("");
    world.append("a.log", "one\n");
    world.append("b.log", "uno\n");
    world.scan_and_read();
    world.sink.0.lock().unwrap().fails_once_at = Some(2);
    world.append("a.log", "two\n");
    world.watcher.scan_all();
    assert!(world.worker.step(0, Duration::ZERO).is_err());
    world.monitor.roster.schedule_all(0);
    world.restart();
    world.append("a.log", "three\n");
    world.scan_and_read();
    world.assert_events(&["one", "uno", "two", "three"]);
}

#[test]
fn a_failure_of_the_sink_is_reported_again_after_it_has_worked() {
    let mut failures = super::FailureReports::default();
    let rounds = [("full", false), ("full", false), ("full", true), ("full", false), ("read-only", false)];
    assert_eq!(rounds.map(|(text, worked)| failures.is_new(text, worked)), [true, false, true, false, true]);
}

#[test]
fn an_unreadable_file_is_reported_once_and_retried() {
    let mut world = World::new("");
    std::fs::write(world.path("a.log.gz"), [0x1f, 0x8b, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]).unwrap();
    world.clock.advance_ns(3_600 * NANOS_PER_SEC * 24 * 365 * 20);
    world.wait(60.0);
    let told = world.told.lock().unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("a.log.gz"), "{told:?}");
}

/// The warning is reported once, whether the sourcetype is known from the start or has to be guessed first.
#[test]
fn dates_of_an_unknown_order_are_reported() {
    for settings in ["sourcetype = other\n", "sourcetype =\n"] {
        let mut world = World::new(settings);
        world.append("a.log", "05/03/2026 10:00:00 started\n");
        world.wait(10.0);
        assert_eq!(world.events(), ["05/03/2026 10:00:00 started"]);
        let told = world.told.lock().unwrap();
        assert_eq!(told.len(), 1, "{settings} {told:?}");
        assert!(told[0].contains("a.log: dates are read with the month first"), "{told:?}");
    }
}

#[test]
fn lines_that_are_cut_are_reported_once() {
    let mut world = World::new("");
    for _ in 0..2 {
        world.append("a.log", &format!("{}\n", "x".repeat(10_001)));
        world.wait(10.0);
    }
    assert_eq!(world.events(), ["x".repeat(10_000), "x".repeat(10_000)]);
    let told = world.told.lock().unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("a.log: lines longer than TRUNCATE are cut"), "{told:?}");
}

/// Operations on files.
#[derive(Clone, Debug)]
enum Step {
    Line { padding: usize },
    HalfLine,
    Look,
    Wait,
    Rename,
    CopyAndEmpty,
    Restart,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (300usize..600).prop_map(|padding| Step::Line { padding }),
        1 => Just(Step::HalfLine),
        4 => Just(Step::Look),
        1 => Just(Step::Wait),
        1 => Just(Step::Rename),
        1 => Just(Step::CopyAndEmpty),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Every line is stored once, whatever happens to files between scans.
    #[test]
    fn every_line_is_stored_once(steps in prop::collection::vec(any_step(), 1..60)) {
        let mut world = World::new("");
        let (mut expected, mut open, mut rotated) = (Vec::new(), String::new(), 0);
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Line { padding } => {
                    let text = format!("line {at} {}", "x".repeat(*padding));
                    world.append("a.log", &format!("{text}\n"));
                    expected.push(std::mem::take(&mut open) + &text);
                }
                Step::HalfLine => {
                    world.append("a.log", "half ");
                    open.push_str("half ");
                }
                Step::Look => world.scan_and_read(),
                Step::Restart => world.restart(),
                Step::Wait if open.is_empty() => world.wait(4.0),
                Step::Rename if open.is_empty() && world.path("a.log").exists() => {
                    rotated += 1;
                    world.rename("a.log", &format!("a.log.{rotated}"));
                }
                Step::CopyAndEmpty if open.is_empty() && world.path("a.log").exists() => {
                    rotated += 1;
                    world.copy("a.log", &format!("a.log.{rotated}"));
                    world.empty("a.log");
                }
                Step::Wait | Step::Rename | Step::CopyAndEmpty => {}
            }
        }
        world.wait(8.0);
        expected.extend(Some(open).filter(|text| !text.is_empty()));
        let mut events = world.events();
        events.sort();
        expected.sort();
        prop_assert_eq!(events, expected);
    }
}
