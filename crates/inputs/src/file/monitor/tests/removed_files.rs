//! Files that are removed before they are read to their ends.

use std::fmt::Write as _;

use super::World;

#[test]
fn removed_files_are_read_to_their_ends_over_several_turns() {
    let mut world = World::new("");
    world.append("a.log", "first\n");
    world.scan_and_read();
    let mut text = String::new();
    (0..250_000).for_each(|at| writeln!(text, "line {at:06} {}", "x".repeat(60)).unwrap());
    world.append("a.log", &text);
    std::fs::remove_file(world.path("a.log")).unwrap();
    world.wait(3.0);
    assert_eq!(world.events().len(), 250_001);
}

#[test]
fn removed_files_are_read_to_their_ends_when_monitoring_ends() {
    let mut world = World::new("");
    world.append("a.log", "one\ntw");
    world.scan_and_read();
    world.append("a.log", "o\nthree");
    world.append("b.log", "other\n");
    world.watcher.scan_all();
    ["a.log", "b.log"].into_iter().for_each(|name| std::fs::remove_file(world.path(name)).unwrap());
    world.monitor.end();
    world.worker.run(0).unwrap();
    let mut events = world.events();
    events.sort();
    assert_eq!(events, ["one", "other", "three", "two"]);
}

#[test]
fn removed_files_that_are_open_survive_a_failure_of_the_sink() {
    for is_open in [true, false] {
        let mut world = World::new("");
        world.scan_and_read();
        world.append("a.log", "one\n");
        world.watcher.scan_all();
        if is_open {
            world.scan_and_read();
            world.append("a.log", "two\n");
        }
        std::fs::remove_file(world.path("a.log")).unwrap();
        world.sink.0.lock().unwrap().fails_once_at = Some(usize::from(is_open));
        let failed = (0..20).any(|_| {
            world.clock.advance_ns(super::NANOS_PER_SEC / 4);
            world.worker.step(0, std::time::Duration::ZERO).is_err()
        });
        assert!(failed);
        world.worker = world.worker.successor(Box::new(world.sink.clone()));
        world.monitor.roster.schedule_all(0);
        world.wait(8.0);
        world.assert_events(if is_open { &["one", "two"] } else { &["one"] });
    }
}

#[test]
fn removed_copies_are_not_held_any_longer() {
    let mut world = World::new("");
    let text: String = (0..100).map(|at| format!("line {at} of a file\n")).collect();
    world.append("a.log", &text);
    world.scan_and_read();
    world.copy("a.log", "b.log");
    world.watcher.scan_all();
    std::fs::remove_file(world.path("b.log")).unwrap();
    world.wait(10.0);
    assert_eq!((world.events().len(), world.monitor.roster.len()), (100, 1));
}
