use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quarry_inputs::{FileIdentity, FilePosition};
use quarry_stdx::ManualClock;

use super::*;

struct Running {
    spool: Arc<Spool>,
    clock: Arc<ManualClock>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.spool.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

fn options(folder: &Path, groups: &[(&str, bool)], limit_bytes: u64, clock: &Arc<ManualClock>) -> SpoolOptions {
    let group = |(name, blocks): &(&str, bool)| GroupOptions { name: (*name).to_owned(), blocks: *blocks };
    SpoolOptions {
        folder: folder.to_owned(),
        limit_bytes,
        free_bytes_min: 0,
        groups: groups.iter().map(group).collect(),
        drop_after: None,
        clock: clock.clone(),
        new_name: "name".to_owned(),
    }
}

fn running(folder: &Path, groups: &[(&str, bool)], limit_bytes: u64) -> Running {
    let clock = ManualClock::shared(0);
    started(options(folder, groups, limit_bytes, &clock), clock)
}

fn started(options: SpoolOptions, clock: Arc<ManualClock>) -> Running {
    let (spool, notes) = Spool::open(options).unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    let syncing = Arc::clone(&spool);
    let thread = std::thread::spawn(move || syncing.run());
    Running { spool, clock, thread: Some(thread) }
}

fn position(offset: u64) -> FilePosition {
    let identity = Arc::new(FileIdentity { scope: "main".to_owned(), head: b"head".to_vec(), variant: 0 });
    FilePosition { identity, offset, tail_hash: offset, path: "/f".to_owned(), milestones: vec![3] }
}

fn put(spool: &Spool, groups: u64, text: &str) -> u64 {
    let number = spool.append(&[Record { groups, packed: text.as_bytes(), events: 1 }], None).unwrap();
    spool.wait_durable(number).unwrap();
    number
}

fn taken(reader: &mut SpoolReader) -> Vec<(u64, String)> {
    let mut all = Vec::new();
    while let Some(taken) = reader.next_record().unwrap() {
        all.push((taken.number, String::from_utf8(taken.packed.to_vec()).unwrap()));
    }
    all
}

fn texts(reader: &mut SpoolReader) -> String {
    taken(reader).into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" ")
}

fn files(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|extension| extension == "log")).count()
}

#[test]
fn groups_read_their_records_in_order() {
    let place = tempfile::tempdir().unwrap();
    let running = running(place.path(), &[("a", true), ("b", true)], 1 << 20);
    for (groups, text) in [(0b11, "1"), (0b01, "2"), (0b10, "3"), (0b11, "4")] {
        put(&running.spool, groups, text);
    }
    let (mut a, mut b) = (running.spool.reader(0), running.spool.reader(1));
    assert_eq!((texts(&mut a).as_str(), texts(&mut b).as_str()), ("1 2 4", "1 3 4"));
    assert_eq!((texts(&mut a).as_str(), a.last_passed()), ("", 4));
    put(&running.spool, 0b01, "5");
    assert_eq!((texts(&mut a).as_str(), texts(&mut b).as_str(), b.last_passed()), ("5", "", 5));
    running.spool.acknowledge(0, 2).unwrap();
    a.rewind();
    assert_eq!(texts(&mut a), "4 5", "unacknowledged batches are sent again");
}

#[test]
fn records_and_positions_survive_a_crash() {
    let place = tempfile::tempdir().unwrap();
    {
        let running = running(place.path(), &[("a", true)], 1 << 20);
        for offset in 1..=3 {
            let text = format!("t{offset}");
            let record = Record { groups: 1, packed: text.as_bytes(), events: 1 };
            running.spool.append(&[record, record], Some(position(offset))).unwrap();
        }
        running.spool.acknowledge(0, 3).unwrap();
        let held = Spool::open(options(place.path(), &[("a", true)], 1, &running.clock));
        assert!(matches!(held, Err(ForwardError::Locked { .. })));
    }
    let log = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path());
    let log = log.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "log")).unwrap();
    let whole = std::fs::read(&log).unwrap();
    // The last append loses its end, or only its second record; an append is recovered completely or not at all.
    for (cut, left, offset) in [(0, "t2 t3 t3", 3), (1, "t2", 2), (whole.len() / 6 + 1, "t2", 2)] {
        let after = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap()) {
            std::fs::copy(entry.path(), after.path().join(entry.file_name())).unwrap();
        }
        std::fs::write(after.path().join(log.file_name().unwrap()), &whole[..whole.len() - cut]).unwrap();
        let running = running(after.path(), &[("a", true)], 1 << 20);
        assert_eq!((texts(&mut running.spool.reader(0)).as_str(), running.spool.name()), (left, "name"));
        let known = running.spool.positions_of("main", b"header");
        assert_eq!(known.iter().map(|known| known.offset).collect::<Vec<_>>(), [offset]);
        let next = put(&running.spool, 1, "next");
        assert_eq!(next > 7, cut > 0, "numbers that may have been sent are not reused: {next}");
    }
}

#[test]
fn full_queues_wait_for_acknowledgment_of_the_oldest_file() {
    let place = tempfile::tempdir().unwrap();
    let running = running(place.path(), &[("a", true), ("b", true)], 2 << 20);
    let text = "x".repeat(100 << 10);
    let mut last = 0;
    while running.spool.used_bytes() + (101 << 10) < 2 << 20 {
        last = put(&running.spool, 0b11, &text);
    }
    assert!(last > 15);
    std::thread::scope(|scope| {
        let spool = &running.spool;
        let (tell, reported) = std::sync::mpsc::channel();
        scope.spawn(move || {
            spool.append(&[Record { groups: 1, packed: text.as_bytes(), events: 1 }], Some(position(9))).unwrap();
            tell.send(spool.used_bytes()).unwrap();
        });
        spool.acknowledge(0, last).unwrap();
        assert_eq!(spool.lock().removable_count(), 0, "the other group still needs every file");
        assert!(reported.try_recv().is_err());
        spool.acknowledge(1, last - 1).unwrap();
        assert!(reported.recv().unwrap() < 2 << 20);
    });
    assert!(files(place.path()) < 8);
    assert_eq!(running.spool.positions_of("main", b"head").len(), 1);
}

#[test]
fn positions_survive_deletion_of_their_records() {
    let place = tempfile::tempdir().unwrap();
    {
        let running = running(place.path(), &[("a", true)], 2 << 20);
        let text = "x".repeat(300 << 10);
        running.spool.append(&[Record { groups: 1, packed: text.as_bytes(), events: 1 }], Some(position(5))).unwrap();
        let last = put(&running.spool, 1, &text);
        let first = files(place.path());
        running.spool.acknowledge(0, last).unwrap();
        while files(place.path()) >= first {
            std::thread::yield_now();
        }
    }
    let running = running(place.path(), &[("a", true)], 2 << 20);
    assert_eq!(running.spool.positions_of("main", b"head")[0].offset, 5);
    assert_eq!(texts(&mut running.spool.reader(0)), "");
}

#[test]
fn non_blocking_groups_lose_records_when_the_queue_is_full() {
    let place = tempfile::tempdir().unwrap();
    let running = running(place.path(), &[("a", true), ("b", false)], 2 << 20);
    let text = "x".repeat(100 << 10);
    for _ in 0..60 {
        let last = put(&running.spool, 0b11, &text);
        running.spool.acknowledge(0, last).unwrap();
    }
    let figures = running.spool.figures();
    assert!(figures[0].lost == 0 && figures[1].lost > 30, "{figures:?}");
    let numbers: Vec<u64> = taken(&mut running.spool.reader(1)).into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, (figures[1].cursor + 1..=60).collect::<Vec<_>>());
}

#[test]
fn events_are_dropped_after_a_configured_wait() {
    let place = tempfile::tempdir().unwrap();
    let clock = ManualClock::shared(0);
    let asked = SpoolOptions {
        drop_after: Some(Duration::from_secs(5)),
        ..options(place.path(), &[("a", true)], 1 << 20, &clock)
    };
    let running = started(asked, clock);
    let text = "x".repeat(100 << 10);
    while running.spool.used_bytes() + (101 << 10) < 1 << 20 {
        put(&running.spool, 1, &text);
    }
    let record = Record { groups: 1, packed: text.as_bytes(), events: 7 };
    std::thread::scope(|scope| {
        let (spool, clock) = (&running.spool, &running.clock);
        let waiting = scope.spawn(move || spool.append(&[record], Some(position(3))).unwrap());
        while !waiting.is_finished() {
            clock.advance_ns(1_000_000_000);
            std::thread::yield_now();
        }
    });
    running.spool.append(&[record], None).unwrap();
    assert_eq!(running.spool.dropped_events(), 14);
    assert_eq!(running.spool.positions_of("main", b"head")[0].offset, 3, "reading the file continues");
}

#[test]
fn appends_wait_while_the_disk_is_full() {
    let place = tempfile::tempdir().unwrap();
    let clock = ManualClock::shared(0);
    let asked = SpoolOptions { free_bytes_min: u64::MAX, ..options(place.path(), &[("a", true)], 1 << 30, &clock) };
    let running = started(SpoolOptions { limit_bytes: 1 << 20, ..asked }, clock);
    assert!(running.spool.is_disk_low());
    let text = "x".repeat(300 << 10);
    put(&running.spool, 1, &text);
    std::thread::scope(|scope| {
        let spool = &running.spool;
        let waiting = scope.spawn(|| spool.append(&[Record { groups: 1, packed: text.as_bytes(), events: 1 }], None));
        spool.stop();
        assert!(matches!(waiting.join().unwrap(), Err(ForwardError::Stopping)));
    });
    assert_eq!(files(place.path()), 1);
}

#[test]
fn stopping_ends_waiting_appends() {
    let place = tempfile::tempdir().unwrap();
    let running = running(place.path(), &[("a", true)], 1 << 20);
    let text = "x".repeat(600 << 10);
    put(&running.spool, 1, &text);
    put(&running.spool, 1, "y");
    std::thread::scope(|scope| {
        let spool = &running.spool;
        let waiting = scope.spawn(|| spool.append(&[Record { groups: 1, packed: text.as_bytes(), events: 1 }], None));
        spool.stop();
        assert!(matches!(waiting.join().unwrap(), Err(ForwardError::Stopping)));
    });
}

#[test]
fn queued_parts_are_not_recognised_after_a_failed_sync() {
    for is_rolled in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let clock = ManualClock::shared(0);
        let open = || Spool::open(options(place.path(), &[("a", true)], 1 << 20, &clock)).unwrap().0;
        let record = Record { groups: 1, packed: b"text", events: 1 };
        let spool = open();
        spool.append_part(&[record], &spool.begin_request(5), 7).unwrap();
        {
            let mut state = spool.lock();
            // This file cannot be synced.
            let null = OpenOptions::new().write(true).open("/dev/null").unwrap();
            state.segments.back_mut().unwrap().file = Arc::new(null);
            state.is_active_damaged = is_rolled;
        }
        if is_rolled {
            assert!(spool.append(&[record], None).is_err());
        } else {
            spool.stop();
            spool.run();
        }
        drop(spool);
        let spool = open();
        assert_eq!(spool.find_queued(&spool.begin_request(5), 7).unwrap(), None, "rolled: {is_rolled}");
    }
}

/// Changes the byte at `offset` after `text` in the queue's file.
fn damage_after(folder: &Path, text: &str, offset: usize) {
    let mut paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let log = paths.find(|path| path.extension().is_some_and(|extension| extension == "log")).unwrap();
    let bytes = std::fs::read(&log).unwrap();
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap() + text.len() + offset;
    let file = std::fs::OpenOptions::new().write(true).open(&log).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[!bytes[at]], at as u64).unwrap();
}

#[test]
fn damaged_records_are_named_and_counted() {
    for (offset, lost, rest) in [(HEAD_DAMAGE, "records 2 to 4 are lost", ""), (BODY_DAMAGE, "record 2 is lost", "c d")]
    {
        let place = tempfile::tempdir().unwrap();
        let running = running(place.path(), &[("a", true)], 2 << 20);
        for text in ["first", "second", "c", "d"] {
            put(&running.spool, 1, text);
        }
        damage_after(place.path(), "first", offset);
        let mut reader = running.spool.reader(0);
        assert_eq!(reader.next_record().unwrap().map(|record| record.number), Some(1));
        let error = reader.next_record().map(|record| record.is_some()).unwrap_err().to_string();
        assert!(error.contains(lost), "{error}");
        assert_eq!(texts(&mut reader), rest);
        let unsent = if rest.is_empty() { 3 } else { 1 };
        assert_eq!(running.spool.figures()[0].unsent, unsent);
        // A connection begins anew, and new records are sent.
        let number = put(&running.spool, 1, "e");
        reader.rewind();
        assert_eq!(texts(&mut reader), format!("first {rest} e").replace("  ", " "), "reported once");
        assert_eq!(running.spool.figures()[0].unsent, unsent, "counted once");
        assert_eq!([reader.count_unsent(number), reader.count_unsent(number)], [true, false]);
        assert_eq!(running.spool.figures()[0].unsent, unsent + 1, "with one that the caller could not send");
    }
}

/// Every byte of a file of the queue is damaged in turn, and the file is cut off at every byte: together, the returned
/// and the lost records are all records, and reading ends.
#[test]
fn every_record_is_returned_or_counted_once() {
    let put_all = |spool: &Spool| {
        let records =
            ["first", "second", "c", "d"].map(|text| Record { groups: 1, packed: text.as_bytes(), events: 1 });
        spool.wait_durable(spool.append(&records, None).unwrap()).unwrap();
    };
    let length = {
        let place = tempfile::tempdir().unwrap();
        let running = running(place.path(), &[("a", true)], 2 << 20);
        put_all(&running.spool);
        running.spool.used_bytes()
    };
    for at in 0..length {
        for is_cut in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let running = running(place.path(), &[("a", true)], 2 << 20);
            put_all(&running.spool);
            let file = running.spool.lock().segments.back().unwrap().file.clone();
            if is_cut {
                file.set_len(at).unwrap();
            } else {
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).unwrap();
                file.write_all_at(&[!byte[0]], at).unwrap();
            }
            let mut reader = running.spool.reader(0);
            let (mut returned, mut reported) = (0, 0);
            for round in 0..2 {
                loop {
                    match reader.next_record() {
                        Ok(Some(_)) => returned += 1,
                        Ok(None) => break,
                        Err(ForwardError::Lost { first, last, .. }) => reported += last - first + 1,
                        Err(other) => panic!("{other}"),
                    }
                }
                let unsent = running.spool.figures()[0].unsent;
                assert_eq!((returned + unsent, reported), (4 + round, unsent), "{at} {is_cut}");
                running.spool.acknowledge(0, reader.last_passed()).unwrap();
                put(&running.spool, 1, "new");
                reader.rewind();
            }
        }
    }
}

#[test]
fn unreadable_records_are_given_up_after_a_while() {
    let place = tempfile::tempdir().unwrap();
    let running = running(place.path(), &[("a", true)], 2 << 20);
    for text in ["first", "second"] {
        put(&running.spool, 1, text);
    }
    // A read from a file that is open only for writing fails, as a read from a broken disk does.
    let path = running.spool.lock().segments.back().unwrap().path.clone();
    let for_writing = Arc::new(OpenOptions::new().write(true).open(path).unwrap());
    let good = std::mem::replace(&mut running.spool.lock().segments.back_mut().unwrap().file, for_writing.clone());
    let mut reader = running.spool.reader(0);
    let next = |reader: &mut SpoolReader| match reader.next_record() {
        Ok(record) => record.map_or_else(|| "none".to_owned(), |record| record.number.to_string()),
        Err(error) => error.to_string(),
    };
    assert!(next(&mut reader).contains("cannot be read now and will be retried"));
    running.clock.advance_ns(59_000_000_000);
    assert_eq!([next(&mut reader), next(&mut reader)], ["none", "none"], "reported once");
    running.spool.lock().segments.back_mut().unwrap().file = good;
    assert_eq!([next(&mut reader), next(&mut reader)], ["1", "2"], "the disk has recovered");
    running.spool.lock().segments.back_mut().unwrap().file = for_writing;
    reader.rewind();
    assert!(next(&mut reader).contains("cannot be read now and will be retried"));
    running.clock.advance_ns(60_000_000_000);
    assert!(next(&mut reader).contains("records 1 to 2 are lost"));
    assert_eq!(running.spool.figures()[0].unsent, 2);
    assert_eq!((next(&mut reader), put(&running.spool, 1, "third")), ("none".to_owned(), 3));
    assert_eq!([next(&mut reader), next(&mut reader)], ["3", "none"]);
}

/// Offset of a byte of the next record's head, and of its body.
const HEAD_DAMAGE: usize = 3;
const BODY_DAMAGE: usize = super::record::HEAD_BYTES + super::record::NUMBER_BYTES + 2;
