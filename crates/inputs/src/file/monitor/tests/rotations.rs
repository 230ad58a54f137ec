//! Every way in which logs are rotated, copied and replaced; every line must be stored once.
//!
//! Each row of [`WAYS`] is a series of operations on the log between two writes. Each row is tested with a scan at
//! every step, and without scans but with restarts. Both tests run with single-line events, merged lines, and a guessed
//! sourcetype.

use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use quarry_conf::{Layers, PropsResolver};
use quarry_stdx::Clock;

use super::World;
use crate::file::Rotation;
use crate::file::monitor::roster::Inode;
use crate::file::monitor::tail::{OpenOutcome, ReadOutcome, Tail, TailOptions};

/// Bytes of padding that make a file long enough to be identified by its first bytes.
const PADDING: usize = 60;

/// A log and the lines written to it.
struct Log {
    world: World,
    expected: Vec<String>,
    /// Whether the monitor scans at every step.
    scans: bool,
    rotated: usize,
}

/// Operations on a log.
type Way = fn(&mut Log);

const WAYS: &[(&str, Way)] = &[
    ("rename and create", |log| {
        let to = log.next_name();
        log.world.rename("a.log", &to);
    }),
    ("rename with a date, and write on to it", |log| {
        log.rotated += 1;
        let to = format!("a.log-2026112{}", log.rotated);
        log.world.rename("a.log", &to);
        log.scan_and_read();
        log.line_in(&to);
    }),
    ("copy and empty", |log| {
        let to = log.next_name();
        log.world.copy("a.log", &to);
        log.scan_and_read();
        log.world.empty("a.log");
    }),
    ("copy slowly and empty", |log| {
        let to = log.next_name();
        log.copy_slowly(&to, 20, |log| log.scan_and_read());
        log.world.empty("a.log");
    }),
    ("copy slowly while the log grows, and empty", |log| {
        let to = log.next_name();
        log.copy_slowly(&to, 20, |log| {
            log.line();
            log.scan_and_read();
        });
        log.world.empty("a.log");
    }),
    ("copy byte by byte at first", |log| {
        let to = log.next_name();
        log.copy_slowly(&to, 400, |log| log.scan_and_read());
        log.world.empty("a.log");
    }),
    ("copy with stalls", |log| {
        let to = log.next_name();
        let copy = log.world.path(&to);
        // A copy that stalls before it can be recognised is treated as a new file.
        log.copy_slowly(&to, 3, |log| match copy.metadata().unwrap().len() {
            0..256 => log.scan_and_read(),
            _ => log.world.wait(7.0),
        });
        log.world.empty("a.log");
    }),
    ("copy with restarts", |log| {
        let to = log.next_name();
        log.copy_slowly(&to, 3, |log| {
            log.scan_and_read();
            log.world.restart();
        });
        log.world.empty("a.log");
    }),
    ("copy, go on, and lose the copy's origin", |log| {
        let to = log.next_name();
        log.world.copy("a.log", &to);
        log.world.wait(5.0);
        log.line();
        log.world.wait(5.0);
        log.world.empty("a.log");
        log.world.restart();
    }),
    ("copy, go on at once, empty", |log| {
        (0..60).for_each(|_| log.line());
        log.world.scan_and_read();
        let to = log.next_name();
        log.world.copy("a.log", &to);
        log.line();
        log.world.scan_and_read();
        log.world.empty("a.log");
        log.scan_and_read();
    }),
    ("copy slowly, go on, empty while nobody looks", |log| {
        (0..60).for_each(|_| log.line());
        log.world.scan_and_read();
        let to = log.next_name();
        log.copy_slowly(&to, 20, |log| log.scan_and_read());
        log.line();
        // An event that may continue is stored only after a wait.
        log.world.wait(2.0);
        log.world.empty("a.log");
        log.world.restart();
        log.line();
    }),
    ("copy with a stall, go on, empty", |log| {
        (0..60).for_each(|_| log.line());
        log.world.scan_and_read();
        let to = log.next_name();
        log.copy_part(&to, 0..3_000);
        log.world.wait(7.0);
        log.copy_part(&to, 3_000..u64::MAX);
        log.line();
        // An event that may continue is stored only after a wait.
        log.world.wait(2.0);
        log.world.empty("a.log");
        log.scan_and_read();
    }),
    ("copy that was read at first, go on, empty", |log| {
        (0..60).for_each(|_| log.line());
        log.world.wait(1.0);
        let to = log.next_name();
        log.copy_part(&to, 0..3_000);
        log.note_read(&to);
        log.scan_and_read();
        log.copy_part(&to, 3_000..u64::MAX);
        log.line();
        // An event that may continue is stored only after a wait.
        log.world.wait(2.0);
        log.world.empty("a.log");
        log.scan_and_read();
    }),
    ("copy that was read until shortly before its end, look at it, go on, empty", |log| {
        (0..60).for_each(|_| log.line());
        log.world.wait(1.0);
        let to = log.next_name();
        log.copy_part(&to, 0..4_500);
        log.note_read(&to);
        log.world.scan_and_read();
        log.copy_part(&to, 4_500..u64::MAX);
        log.line();
        // An event that may continue is stored only after a wait.
        log.world.wait(2.0);
        log.world.empty("a.log");
        log.scan_and_read();
    }),
    ("copy where nobody looks, go on, empty, move the copy here", |log| {
        (0..60).for_each(|_| log.line());
        log.world.scan_and_read();
        log.world.copy("a.log", "copied");
        log.line();
        // An event that may continue is stored only after a wait.
        log.world.wait(2.0);
        log.world.empty("a.log");
        log.world.restart();
        log.line();
        log.scan_and_read();
        let to = log.next_name();
        log.world.rename("copied", &to);
    }),
    ("copy where nobody looks, go on, empty, compress the copy", |log| {
        (0..60).for_each(|_| log.line());
        log.world.scan_and_read();
        log.world.copy("a.log", "copied");
        log.line();
        log.world.scan_and_read();
        log.world.empty("a.log");
        let to = log.next_name();
        log.world.rename("copied", &to);
        log.compress(&to, 4, |log| log.world.wait(5.0));
    }),
    ("copy, compress the copy, empty", |log| {
        let to = log.next_name();
        log.world.copy("a.log", &to);
        log.world.empty("a.log");
        log.scan_and_read();
        log.compress(&to, 7, |log| log.scan_and_read());
    }),
    ("rename, compress later", |log| {
        let to = log.next_name();
        log.world.rename("a.log", &to);
        log.line();
        log.world.wait(5.0);
        log.compress(&to, 7, |log| log.scan_and_read());
    }),
    ("rename, compress slowly", |log| {
        let to = log.next_name();
        log.world.rename("a.log", &to);
        log.scan_and_read();
        log.compress(&to, 4, |log| log.world.wait(5.0));
    }),
    ("replace by a longer file", |log| {
        log.world.copy("a.log", "new");
        log.line_in("new");
        log.world.rename("new", "a.log");
    }),
    ("replace by an empty file", |log| {
        log.world.wait(1.0);
        log.world.empty("new");
        log.world.rename("new", "a.log");
    }),
    ("remove", |log| {
        log.world.wait(1.0);
        std::fs::remove_file(log.world.path("a.log")).unwrap();
    }),
    ("a second name", |log| {
        let to = log.next_name();
        std::fs::hard_link(log.world.path("a.log"), log.world.path(&to)).unwrap();
        log.scan_and_read();
        log.line_in(&to);
        log.scan_and_read();
        std::fs::remove_file(log.world.path("a.log")).unwrap();
    }),
    ("overwrite before removing", |log| {
        let to = log.next_name();
        log.world.rename("a.log", &to);
        log.world.wait(5.0);
        let file = OpenOptions::new().write(true).open(log.world.path(&to)).unwrap();
        let noise: Vec<u8> = (0..4_096u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        file.write_all_at(&noise, 0).unwrap();
        log.world.touch(&file);
        log.scan_and_read();
        file.write_all_at(&[0; 4_096], 0).unwrap();
        log.world.touch(&file);
        log.scan_and_read();
        std::fs::remove_file(log.world.path(&to)).unwrap();
    }),
];

impl Log {
    fn new(settings: &str, scans: bool) -> Log {
        Log { world: World::new(settings), expected: Vec::new(), scans, rotated: 0 }
    }

    fn next_name(&mut self) -> String {
        self.rotated += 1;
        format!("a.log.{}", self.rotated)
    }

    fn scan_and_read(&mut self) {
        if self.scans {
            self.world.scan_and_read();
        }
    }

    fn line(&mut self) {
        self.line_in("a.log");
    }

    fn line_in(&mut self, name: &str) {
        let text = format!("#2026-11-20 10:00:00 line {} {}", self.expected.len(), "x".repeat(PADDING));
        self.world.append(name, &format!("{text}\n"));
        self.expected.push(text);
    }

    /// Appends a part of the log to the copy.
    fn copy_part(&mut self, to: &str, part: Range<u64>) {
        let text = std::fs::read_to_string(self.world.path("a.log")).unwrap();
        let part = part.start as usize..text.len().min(part.end as usize);
        self.world.append(to, &text[part]);
    }

    /// Records the whole lines of a file as read before; their events are not counted.
    fn note_read(&mut self, name: &str) {
        let text = std::fs::read_to_string(self.world.path(name)).unwrap();
        let read = text.rfind('\n').unwrap() + 1;
        self.world.note_read(name, read, self.rotated as u32);
    }

    /// Copies the log in parts; the log may grow during the copy.
    fn copy_slowly(&mut self, to: &str, parts: u64, mut between: impl FnMut(&mut Log)) {
        let (from, copy) = (File::open(self.world.path("a.log")).unwrap(), File::create(self.world.path(to)).unwrap());
        let (mut at, part) = (0, (from.metadata().unwrap().len() / parts).max(1));
        // First a single byte, then more.
        let mut next = 1;
        loop {
            let mut bytes = vec![0; next as usize];
            let read = from.read_at(&mut bytes, at).unwrap();
            if read == 0 {
                break;
            }
            copy.write_all_at(&bytes[..read], at).unwrap();
            self.world.touch(&copy);
            at += read as u64;
            next = (next * 4).min(part.max(256));
            if at < from.metadata().unwrap().len() {
                between(self);
            }
        }
    }

    /// Compresses a file in parts into a new file beside it, and removes the original.
    fn compress(&mut self, name: &str, parts: usize, mut between: impl FnMut(&mut Log)) {
        let text = std::fs::read(self.world.path(name)).unwrap();
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(&text).unwrap();
        let packed = packer.finish().unwrap();
        let file = File::create(self.world.path(&format!("{name}.gz"))).unwrap();
        // The first bytes arrive one by one.
        let starts = (1..12).chain((1..=parts).map(|part| packed.len() * part / parts));
        let mut at = 0;
        for end in starts.filter(|end| *end <= packed.len()) {
            if end > at {
                file.write_all_at(&packed[at..end], at as u64).unwrap();
                at = end;
                self.world.touch(&file);
                between(self);
            }
        }
        assert_eq!(at, packed.len());
        std::fs::remove_file(self.world.path(name)).unwrap();
    }

    /// Describes missing or duplicate events at the end.
    fn fault(mut self, what: &str) -> Option<String> {
        self.world.wait(14.0);
        let mut events = self.world.events();
        events.sort();
        self.expected.sort();
        let missing: Vec<_> =
            self.expected.iter().filter(|line| !events.contains(line)).map(|line| &line[..32]).collect();
        let (stored, written) = (events.len(), self.expected.len());
        let is_wrong = events != self.expected;
        is_wrong.then(|| format!("{what}: {stored} events of {written} lines, missing: {missing:?}"))
    }
}

/// Settings with single-line events, with merged lines, and with a guessed sourcetype.
const SETTINGS: [&str; 3] = ["", "sourcetype = blocks\n", "sourcetype =\n"];

#[test]
fn every_line_is_stored_once_for_any_rotation() {
    let mut faults = Vec::new();
    for (name, way) in WAYS {
        for settings in SETTINGS {
            for (scans, restarts) in [(true, false), (false, true)] {
                let mut log = Log::new(settings, scans);
                for _ in 0..2 {
                    for _ in 0..9 {
                        log.line();
                    }
                    // No reader could find data that is truncated before it is read.
                    log.world.scan_and_read();
                    way(&mut log);
                    if restarts {
                        log.world.wait(1.0);
                        log.world.restart();
                    }
                }
                log.line();
                faults.extend(log.fault(&format!("{name} {settings:?} scans {scans} restarts {restarts}")));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A program without append mode whose file was truncated continues at its old offset and leaves a hole.
#[test]
fn leading_holes_are_skipped() {
    for settings in SETTINGS {
        for scans in [true, false] {
            let mut log = Log::new(settings, scans);
            let mut writer = File::create(log.world.path("a.log")).unwrap();
            for round in 0..4 {
                for _ in 0..9 {
                    let text = format!("#2026-11-20 10:00:00 line {} {}", log.expected.len(), "x".repeat(PADDING));
                    writer.write_all(format!("{text}\n").as_bytes()).unwrap();
                    log.expected.push(text);
                    log.world.touch(&writer);
                    log.scan_and_read();
                }
                log.world.scan_and_read();
                let to = log.next_name();
                match round % 2 {
                    0 => log.world.copy("a.log", &to),
                    _ => log.copy_slowly(&to, 5, Log::scan_and_read),
                }
                OpenOptions::new().write(true).open(log.world.path("a.log")).unwrap().set_len(0).unwrap();
                log.scan_and_read();
            }
            assert!(writer.stream_position().unwrap() > 2_000);
            assert_eq!(log.fault(&format!("{settings:?} scans {scans}")), None);
        }
    }
}

#[test]
fn files_with_equal_start_are_new_once_they_diverge() {
    let header = format!("#fields {}\n", "x".repeat(400));
    let mut world = World::new("");
    world.append("a.log", &header);
    world.append("a.log", "one\ntwo\n");
    world.wait(5.0);
    world.append("b.log", &header);
    world.scan_and_read();
    assert_eq!(world.events().len(), 3, "so far it is a copy of what was read");
    world.append("b.log", "three\n");
    world.scan_and_read();
    assert_eq!(world.events()[3..], [header.trim_end(), "three"]);
    world.restart();
    world.wait(5.0);
    assert_eq!(world.events().len(), 5);
}

#[test]
fn files_rewritten_between_open_and_read_are_reopened() {
    let world = World::new("");
    world.append("a.log", "what it held when it was opened\n");
    let path = world.path("a.log");
    let info = quarry_pipeline::SourceInfo {
        index: "main".to_owned(),
        host: "h".to_owned(),
        host_is_fixed: false,
        source: "a.log".to_owned(),
        sourcetype: Some("lines".to_owned()),
    };
    let options = TailOptions {
        node: Inode::of(&path.metadata().unwrap()),
        held: None,
        info,
        context: quarry_pipeline::PipelineContext {
            now: world.clock.now_ns(),
            zone: None,
            modified: None,
            orders: None,
        },
        scope: "main",
        follow_tail: false,
        rotation: Rotation::Settled,
        check_partial_copy: false,
    };
    let (props, mut sink) = (PropsResolver::new(&Layers::new([])), world.sink.clone());
    let opened = Tail::open(&path, &options, &props, &mut sink).unwrap();
    let OpenOutcome::Tail(mut tail) = opened else { panic!("it has something to read") };
    std::fs::write(&path, "what it holds when it is read\n").unwrap();
    let read = tail.read(world.clock.now_ns(), 1_000, &mut [0; 1_000], &mut sink).unwrap();
    assert_eq!((read, tail.has_undelivered(), world.events().len()), (ReadOutcome::Shrunk, false, 0));
}

#[test]
fn changes_of_link_targets_are_reported_even_after_rotation() {
    let elsewhere = tempfile::tempdir().unwrap();
    let (pods, real) = (elsewhere.path().join("pods"), elsewhere.path().join("real"));
    [&pods, &real].iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    let mut world = World::new("");
    // A link to a relative link to a file, as in container logs.
    std::fs::write(real.join("0-json.log"), "one\n").unwrap();
    std::os::unix::fs::symlink("../real/0-json.log", pods.join("0.log")).unwrap();
    std::os::unix::fs::symlink(pods.join("0.log"), world.path("web.log")).unwrap();
    world.scan_and_read();
    world.assert_events(&["one"]);
    // From here on, the monitor relies on notifications.
    let listen = |world: &mut World, events: usize| {
        for _ in 0..100 {
            if world.events().len() >= events {
                return;
            }
            world.watcher.process_notifications(Duration::from_secs(1));
            while world.worker.step(0, Duration::ZERO).unwrap() {}
        }
    };
    OpenOptions::new().append(true).open(real.join("0-json.log")).unwrap().write_all(b"two\n").unwrap();
    listen(&mut world, 2);
    std::fs::rename(real.join("0-json.log"), real.join("0-json.log.1")).unwrap();
    std::fs::write(real.join("0-json.log"), "three of the next file\n").unwrap();
    listen(&mut world, 3);
    std::fs::write(real.join("1-json.log"), "four of another container\n").unwrap();
    std::os::unix::fs::symlink("../real/1-json.log", pods.join("next")).unwrap();
    std::fs::rename(pods.join("next"), pods.join("0.log")).unwrap();
    listen(&mut world, 4);
    world.assert_events(&["one", "two", "three of the next file", "four of another container"]);
}

#[test]
fn redirected_links_yield_both_files() {
    let mut world = World::over("monitor", "current", "");
    for (name, text) in [("1", "one\n"), ("2", "two\n")] {
        world.append(name, text);
        std::os::unix::fs::symlink(world.path(name), world.path("next")).unwrap();
        world.rename("next", "current");
        world.scan_and_read();
    }
    world.append("1", "late\n");
    world.append("2", "three\n");
    world.wait(5.0);
    let mut events = world.events();
    events.sort();
    assert_eq!(events, ["late", "one", "three", "two"]);
}
