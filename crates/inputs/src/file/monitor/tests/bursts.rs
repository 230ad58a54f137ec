//! Many files at once, some of which are removed before they are read.

use std::time::Duration;

use super::World;

/// Settings with single-line events, with merged lines, and with a guessed sourcetype.
const SETTINGS: [&str; 3] = ["", "sourcetype = blocks\n", "sourcetype =\n"];

fn line(at: usize) -> String {
    format!("#2026-11-20 10:00:00 a small file, number {at:04}\n")
}

/// Indices of the files that are not stored exactly once.
fn not_once(world: &World, files: usize) -> Vec<usize> {
    let events = world.events();
    let times = |at: &usize| events.iter().filter(|event| **event == line(*at).trim_end()).count();
    (0..files).filter(|at| times(at) != 1).collect()
}

#[test]
fn files_removed_while_queued_are_read() {
    for settings in SETTINGS {
        let mut world = World::new(settings);
        world.scan_and_read();
        for at in 0..100 {
            world.append(&format!("{at}.log"), &line(at));
        }
        // All files are found, some are read, and all are removed.
        world.watcher.scan_all();
        for _ in 0..20 {
            world.worker.step(0, Duration::ZERO).unwrap();
        }
        (0..100).for_each(|at| std::fs::remove_file(world.path(&format!("{at}.log"))).unwrap());
        world.wait(8.0);
        assert_eq!(not_once(&world, 100), Vec::<usize>::new(), "{settings:?}");
        assert_eq!(world.told.lock().unwrap().len(), 0);
    }
}

#[test]
fn files_found_empty_and_removed_after_writing_are_read() {
    for looks in [true, false] {
        let mut world = World::new("");
        world.scan_and_read();
        for at in 0..100 {
            world.append(&format!("{at}.log"), "");
        }
        world.watcher.scan_all();
        while world.worker.step(0, Duration::ZERO).unwrap() {}
        for at in 0..100 {
            world.append(&format!("{at}.log"), &line(at));
        }
        if looks {
            world.watcher.scan_all();
        }
        (0..100).for_each(|at| std::fs::remove_file(world.path(&format!("{at}.log"))).unwrap());
        world.wait(8.0);
        assert_eq!(not_once(&world, 100), Vec::<usize>::new(), "{looks}");
    }
}

#[test]
fn incomplete_lines_of_removed_files_are_read() {
    for settings in SETTINGS {
        let mut world = World::new(settings);
        world.scan_and_read();
        for at in 0..100 {
            world.append(&format!("{at}.log"), line(at).trim_end());
            world.watcher.scan_all();
            std::fs::remove_file(world.path(&format!("{at}.log"))).unwrap();
            world.worker.step(0, Duration::ZERO).unwrap();
        }
        world.wait(8.0);
        assert_eq!(not_once(&world, 100), Vec::<usize>::new(), "{settings:?}");
    }
}

#[test]
fn growing_files_beyond_the_open_limit_are_read_once() {
    for settings in SETTINGS {
        let mut world = World::new(settings);
        let mut written = 0;
        for _ in 0..20 {
            for file in 0..30 {
                world.append(&format!("{file}.log"), &line(written));
                written += 1;
            }
            world.scan_and_read();
        }
        world.wait(12.0);
        assert_eq!(not_once(&world, written), Vec::<usize>::new(), "{settings:?}");
    }
}

#[test]
fn files_known_by_another_name_are_also_held_open() {
    let mut world = World::new("");
    world.append("a.log", "one\n");
    world.wait(5.0);
    // For the monitor, a rename looks the same as a removal followed by reuse of the inode.
    world.rename("a.log", "b.log");
    world.append("b.log", "two\n");
    world.watcher.scan_all();
    std::fs::remove_file(world.path("b.log")).unwrap();
    world.wait(5.0);
    world.assert_events(&["one", "two"]);
}

#[test]
fn files_renamed_while_queued_are_read_under_the_new_name_or_none() {
    for (to, source) in [("b.log", "b.log"), ("elsewhere", "a.log")] {
        let mut world = World::new("");
        world.scan_and_read();
        world.append("a.log", "one\n");
        world.watcher.scan_all();
        world.rename("a.log", to);
        world.worker.step(0, Duration::ZERO).unwrap();
        assert_eq!(world.events().len(), 0, "the file is searched for");
        world.wait(5.0);
        world.assert_events(&["one"]);
        assert!(world.sink.0.lock().unwrap().sources[0].ends_with(source), "{to}");
    }
}
