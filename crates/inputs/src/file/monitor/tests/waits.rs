//! Waiting for more data is bounded, and nothing is lost if the file is truncated during the wait.

use std::time::Duration;

use super::World;

/// Settings without a sourcetype.
const GUESSED: &str = "sourcetype =\n";
/// Settings with which a line joins the previous event unless it begins with `#`.
const MERGED: &str = "sourcetype = blocks\n";

/// Writes a line every tenth of a second; returns the longest time in seconds between a line and its event.
fn drip(settings: &str, line: impl Fn(usize) -> String, lines: usize, holds: impl Fn(&str, usize) -> bool) -> f64 {
    let mut world = World::new(settings);
    let mut longest = 0;
    let mut unseen = std::collections::VecDeque::new();
    for tick in 0..lines + 60 {
        if tick < lines {
            world.append("a.log", &line(tick));
            unseen.push_back(tick);
        }
        world.scan_and_read();
        let events = world.events();
        while unseen.front().is_some_and(|line| events.iter().any(|event| holds(event, *line))) {
            longest = longest.max(tick - unseen.pop_front().unwrap());
        }
        world.clock.advance_ns(super::NANOS_PER_SEC / 10);
    }
    assert!(unseen.is_empty(), "{settings}: {unseen:?} of {lines} are missing");
    longest as f64 / 10.0
}

#[test]
fn lines_are_delivered_within_a_second_for_any_growth() {
    let plain = |at: usize| format!("line {at} of a log that drips\n");
    let dated = |at: usize| format!("2026-11-20 10:00:{:02} INFO line {at}.\n", at % 60);
    let holds =
        |event: &str, at: usize| event.contains(&format!("line {at} ")) || event.contains(&format!("line {at}."));
    for settings in ["", GUESSED] {
        assert!(drip(settings, plain, 100, holds) < 1.0, "{settings}");
        assert!(drip(settings, dated, 100, holds) < 1.0, "{settings}");
        // A burst, then silence.
        assert!(drip(settings, dated, 1, holds) < 1.0, "{settings}");
    }
    assert!(drip(MERGED, |at| format!("#line {at} \n"), 100, holds) < 1.0);
    assert!(drip("CHARSET = AUTO\n", plain, 100, holds) < 1.0);
}

#[test]
fn growing_events_are_completed_after_a_timeout() {
    let holds = |event: &str, at: usize| event.contains(&format!(" {at}\n")) || event.ends_with(&format!(" {at}"));
    let longest = drip(MERGED, |at| format!(" more {at}\n"), 200, holds);
    assert!((4.0..6.0).contains(&longest), "{longest}");
    let holds = |event: &str, at: usize| event.contains(&format!("<{at}>"));
    let longest = drip("", |at| format!("<{at}>"), 400, holds);
    assert!((29.0..32.0).contains(&longest), "{longest}");
}

#[test]
fn data_read_before_a_truncation_within_a_second_is_stored() {
    for settings in ["", GUESSED, MERGED] {
        for is_written_anew in [false, true] {
            let mut world = World::new(settings);
            for round in 0..6 {
                world.append("a.log", &format!("#round {round} one\n#round {round} two\n"));
                world.scan_and_read();
                world.empty("a.log");
                if is_written_anew {
                    // Longer than before, so that the size does not reveal the truncation.
                    world.append("a.log", &format!("#round {round} {}\n", "x".repeat(300)));
                }
                world.scan_and_read();
            }
            world.wait(5.0);
            let mut events = world.events();
            events.retain(|event| !event.contains("xxx"));
            events.sort();
            let expected: Vec<String> =
                (0..6).flat_map(|round| ["one", "two"].map(|text| format!("#round {round} {text}"))).collect();
            assert_eq!(events, expected, "{settings} {is_written_anew}");
        }
    }
}

#[test]
fn data_read_before_a_truncation_during_lookup_is_stored() {
    for is_read_before in [true, false] {
        let mut world = World::new(MERGED);
        world.append("a.log", "#one\n more\n#two\n more\n");
        world.scan_and_read();
        world.assert_events(&["#one\n more"]);
        if !is_read_before {
            world.restart();
        }
        world.append("a.log", " unread\n");
        world.empty_when_looked_up("a.log");
        world.scan_and_read();
        world.append("a.log", "#three\n");
        world.wait(5.0);
        let expected =
            if is_read_before { &["#one\n more", "#two\n more", "#three"][..] } else { &["#one\n more", "#three"] };
        world.assert_events(expected);
        assert!(world.told.lock().unwrap().is_empty(), "{:?}", world.told.lock().unwrap());
    }
}

#[test]
fn truncated_lines_are_completed_from_a_copy() {
    for is_copied in [true, false] {
        let mut world = World::new("");
        world.append("a.log", "one\ntw");
        world.scan_and_read();
        if is_copied {
            world.append("a.log", "o and a half\n");
            world.copy("a.log", "a.log.1");
        }
        world.empty("a.log");
        world.append("a.log", "three\n");
        world.wait(8.0);
        let mut events = world.events();
        events.sort();
        assert_eq!(events, if is_copied { ["one", "three", "two and a half"] } else { ["one", "three", "tw"] });
    }
}

#[test]
fn lines_that_are_in_no_file_outlive_a_failure_of_the_sink() {
    let mut world = World::new("");
    world.append("a.log", "one\ntw");
    world.scan_and_read();
    world.empty("a.log");
    world.append("a.log", "three\n");
    world.scan_and_read();
    world.assert_events(&["one", "three"]);
    {
        let mut sink = world.sink.0.lock().unwrap();
        sink.fails_once_at = Some(sink.batches);
    }
    world.append("b.log", "uno\n");
    world.watcher.scan_all();
    assert!(world.worker.step(0, Duration::ZERO).is_err());
    world.monitor.roster.schedule_all(0);
    world.worker = world.worker.successor(Box::new(world.sink.clone()));
    world.wait(8.0);
    let mut events = world.events();
    events.sort();
    assert_eq!(events, ["one", "three", "tw", "uno"]);
}

#[test]
fn lines_read_from_a_copy_are_not_repeated_by_the_original() {
    for settings in ["", GUESSED, MERGED] {
        let mut world = World::new(settings);
        world.append("b.log", "#first\n#second\n");
        world.scan_and_read();
        world.copy("b.log", "a.log");
        world.empty("b.log");
        world.append("b.log", "#third\n");
        world.wait(8.0);
        let mut events = world.events();
        events.sort();
        assert_eq!(events, ["#first", "#second", "#third"], "{settings}");
    }
}

#[test]
fn files_rewritten_while_they_are_read_are_not_mixed_with_their_old_content() {
    let text = |of: &str, lines: usize| -> String {
        (0..lines).map(|at| format!("{of} {at:06} a line of this file, of 50 bytes......\n")).collect()
    };
    let mut world = World::new("");
    world.append("a.log", &text("old", 60_000));
    let new = text("new, longer", 70_000);
    let mut rewrite = Some((world.path("a.log"), new.clone()));
    world.before_each_batch(move || {
        if let Some((path, text)) = rewrite.take() {
            std::fs::write(path, text).unwrap();
        }
    });
    world.wait(10.0);
    let events = world.events();
    let (of_new, of_old): (Vec<&str>, Vec<&str>) =
        events.iter().map(String::as_str).partition(|it| it.starts_with("new"));
    assert!(of_new.into_iter().eq(new.lines()));
    // The last of the old lines may be cut.
    assert!(of_old.len() > 1_000 && text("old", 60_000).starts_with(&of_old.join("\n")));
}
