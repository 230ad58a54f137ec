//! Files with the same beginning: which of them are copies, and of which file.

use std::sync::Arc;

use quarry_event::EventBatch;

use super::World;
use crate::file::fingerprint::{HEAD_BYTES, tail_hash};
use crate::file::identity::{ReadPlan, StartPosition};
use crate::file::open::Handle;
use crate::file::{Rotation, milestones};
use crate::{FileIdentity, FilePosition, Sink};

impl World {
    /// Records a position of a file as if this many bytes had been read, without storing their events.
    pub(super) fn note_read(&self, name: &str, bytes: usize, variant: u32) {
        let path = self.path(name);
        let text = std::fs::read(&path).unwrap();
        let handle = Handle::open(&path).unwrap().unwrap();
        let identity = FileIdentity { scope: "main".to_owned(), head: text[..HEAD_BYTES].to_vec(), variant };
        let position = FilePosition {
            identity: Arc::new(identity),
            offset: bytes as u64,
            tail_hash: tail_hash(&text[..bytes]),
            path: path.display().to_string(),
            milestones: milestones::compute_for_plain(&handle, bytes as u64).unwrap(),
        };
        self.sink.0.lock().unwrap().accept(EventBatch::default(), Some(position)).unwrap();
    }
}

/// Lines of about a hundred bytes.
fn lines(of: &str, from: usize, to: usize) -> String {
    (from..to).map(|at| format!("#line {at} of {of} {}\n", "x".repeat(80))).collect()
}

/// Lines that are not stored exactly once, with their counts.
fn not_once(world: &World, expected: &str) -> Vec<String> {
    let events = world.events();
    let times = |line: &str| events.iter().filter(|event| *event == line).count();
    let wrong = expected.lines().filter(|line| times(line) != 1);
    wrong.map(|line| format!("{} times {}", times(line), &line[..20])).collect()
}

#[test]
fn files_are_identified_by_their_content_at_opening() {
    for opened_with in [0, 100, 255] {
        let mut world = World::new("");
        world.append("a.log", &lines("a", 0, 50));
        world.scan_and_read();
        let text = lines("a", 0, 4);
        world.append("a.log.1", &text[..opened_with]);
        let path = world.path("a.log.1");
        let handle = Handle::open(&path).unwrap().unwrap();
        world.append("a.log.1", &text[opened_with..]);
        let options = (false, Rotation::Awaited);
        let start =
            StartPosition::find(&handle, &path, &path.display().to_string(), "main", options, &mut world.sink).unwrap();
        let is_read = start.next == ReadPlan::Read && opened_with == 0;
        assert_eq!((start.identity.head.len(), is_read), (opened_with, false), "{:?}", start.next);
    }
}

#[test]
fn a_copy_that_is_read_before_its_origin_is_found_is_read_once() {
    for settings in ["", "sourcetype = blocks\n"] {
        for restarts in [false, true] {
            // The name of the copy sorts first.
            let mut world = World::new(settings);
            let text = lines("a", 0, 300);
            world.append("b.log", &text);
            world.append("a.log", &text[..9_000]);
            world.scan_and_read();
            world.append("a.log", &text[9_000..20_000]);
            world.scan_and_read();
            if restarts {
                world.restart();
            }
            world.append("a.log", &text[20_000..]);
            let late = lines("a", 300, 303);
            world.append("b.log", &late);
            // The last event may still continue, so it is not stored yet.
            world.wait(2.0);
            world.empty("b.log");
            world.wait(14.0);
            assert_eq!(not_once(&world, &(text + &late)), Vec::<String>::new(), "{settings:?} {restarts}");
        }
    }
}

#[test]
fn files_with_the_same_long_header_are_distinguished() {
    let heading = lines("the heading", 0, 50);
    for restarts in [false, true] {
        let mut world = World::new("");
        let (of_a, of_b, late) = (lines("a", 0, 100), lines("b", 0, 10), lines("b", 10, 12));
        world.append("a.log", &(heading.clone() + &of_a));
        world.wait(5.0);
        world.append("b.log", &(heading.clone() + &of_b));
        world.wait(5.0);
        if restarts {
            world.restart();
        }
        world.append("b.log", &late);
        world.wait(5.0);
        assert_eq!(not_once(&world, &(of_a + &of_b + &late)), Vec::<String>::new(), "{restarts}");
    }
}

#[test]
fn truncating_a_file_with_the_same_header_does_not_affect_others() {
    let heading = lines("the heading", 0, 50);
    let mut world = World::new("");
    let (of_a, of_b, late) = (lines("a", 0, 100), lines("b", 0, 10), lines("b", 10, 12));
    world.append("a.log", &(heading.clone() + &of_a));
    world.append("b.log", &(heading.clone() + &of_b));
    world.wait(5.0);
    world.empty("a.log");
    world.append("b.log", &late);
    world.wait(5.0);
    assert_eq!(not_once(&world, &(of_a + &of_b + &late)), Vec::<String>::new());
}

#[test]
fn copies_ahead_of_their_origin_wait_while_it_is_read() {
    let mut world = World::over("monitor", "a*", "");
    let text = lines("a", 0, 200);
    // Another reader reads the origin, `b.log`.
    world.append("b.log", &text);
    world.note_read("b.log", 2_000, 0);
    world.append("a.log", &text[..18_000]);
    for read in [4_000, 6_000, 8_000] {
        world.wait(6.0);
        world.note_read("b.log", read, 0);
    }
    world.wait(6.0);
    assert_eq!(world.events().len(), 0, "reading its origin continues");
    world.wait(6.0);
    assert!(world.events().len() > 100, "the original file is no longer read");
}
