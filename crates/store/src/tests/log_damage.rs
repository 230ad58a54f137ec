//! Damage to the log is reported, affects only the damaged records, and is never hidden by a checkpoint.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quarry_catalog::{Catalog, LogSegmentRow};
use quarry_stdx::ManualClock;
use tempfile::tempdir;

use super::sample::{batch, checkpoint};
use super::{all, append as append_to, expected, open, small, texts};
use crate::wal::mark::DurableMark;
use crate::{AppendRequest, LocalDisk, Store, StoreOptions, data_dir};

/// Number of records in the segment.
const RECORDS: u64 = 6;

fn append(store: &Store, source: &str, number: u64) {
    let checkpoint = Some(checkpoint(source, number + 1));
    store.append(AppendRequest { batch: batch("main", number, 1), checkpoint }).unwrap().wait().unwrap();
}

fn offset(store: &Store, source: &str) -> u64 {
    let found = store.checkpoints_of(source.as_bytes(), "").unwrap();
    found.first().map_or(0, |logged| logged.checkpoint.offset)
}

fn logs(dir: &Path) -> Vec<PathBuf> {
    let mut logs: Vec<_> = fs::read_dir(dir.join("wal")).unwrap().map(|it| it.unwrap().path()).collect();
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.sort();
    logs
}

/// A store with six records of the file `a` in one segment, one event each.
fn written(dir: &Path) -> (StoreOptions, PathBuf) {
    let options = StoreOptions { log_segment_bytes: 1 << 20, ..small(dir) };
    let store = open(&options);
    (0..RECORDS).for_each(|number| append(&store, "a", number));
    drop(store);
    (options, logs(dir).pop().unwrap())
}

/// Texts of the store and names of its damaged parts. Asserts that search, `verify` and messages agree.
fn texts_and_damage(store: &Store) -> (Vec<String>, Vec<String>) {
    let mut snapshot = all(store);
    let damaged: Vec<String> = snapshot.damaged.drain(..).map(|damage| damage.bucket).collect();
    let verdicts = store.verify().into_iter().filter(|verdict| verdict.result.is_err());
    assert_eq!(verdicts.map(|verdict| verdict.bucket).collect::<Vec<_>>(), damaged);
    assert_eq!(store.messages().len(), damaged.len(), "{:?}", store.messages());
    (texts(&snapshot), damaged)
}

fn without(numbers: &[u64]) -> Vec<String> {
    let all = expected("main", 0..RECORDS).into_iter().enumerate();
    all.filter(|(number, _)| !numbers.contains(&(*number as u64))).map(|(_, text)| text).collect()
}

/// Offset of record `number`; all records are equally long.
fn start_of(bytes: &[u8], number: u64) -> usize {
    32 + (bytes.len() - 32) / RECORDS as usize * number as usize
}

#[test]
fn flipped_bits_lose_one_record_and_are_reported() {
    let name = ["wal~00000000000000000001".to_owned()];
    let dir = tempdir().unwrap();
    let (options, log) = written(dir.path());
    let whole = fs::read(&log).unwrap();
    for at in (0..whole.len()).step_by(37) {
        let dir = tempdir().unwrap();
        let options = copy(options.dir.as_path(), dir.path());
        let log = dir.path().join("wal").join(log.file_name().unwrap());
        let mut flipped = whole.clone();
        flipped[at] ^= 4;
        fs::write(&log, &flipped).unwrap();
        let lost: Vec<u64> =
            at.checked_sub(32).map(|at| (at / (start_of(&whole, 1) - 32)) as u64).into_iter().collect();
        let reader = Store::open_read_only(options.clone(), ManualClock::shared(0)).unwrap();
        assert_eq!(texts_and_damage(&reader), (without(&lost), name.to_vec()), "byte {at}");
        drop(reader);
        assert_eq!(fs::read(&log).unwrap(), flipped);
        for round in 0..3 {
            let store = open(&options);
            assert_eq!(texts_and_damage(&store), (without(&lost), name.to_vec()), "byte {at}, round {round}");
            assert_eq!(offset(&store, "a"), *lost.first().unwrap_or(&RECORDS), "byte {at}, round {round}");
            if round == 1 {
                store.seal_all().unwrap();
            }
        }
        assert_eq!(fs::read(log.with_extension("damaged")).unwrap(), flipped);
        fs::remove_file(log.with_extension("damaged")).unwrap();
        assert_eq!(texts_and_damage(&open(&options)), (without(&lost), Vec::new()));
    }
}

/// Sets the mark to record `lsn`, as it may be after a machine failure: older than the newest record.
fn set_mark(dir: &Path, lsn: u64) {
    DurableMark::new(Arc::new(LocalDisk), &dir.join("wal")).set(lsn).unwrap();
}

/// Copies the data directory `from` to `to`.
fn copy(from: &Path, to: &Path) -> StoreOptions {
    for folder in ["wal", "."] {
        fs::create_dir_all(to.join(folder)).unwrap();
        for entry in fs::read_dir(from.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                fs::copy(&path, to.join(folder).join(path.file_name().unwrap())).unwrap();
            }
        }
    }
    StoreOptions { log_segment_bytes: 1 << 20, ..small(to) }
}

#[test]
fn damage_of_a_durable_last_record_is_reported() {
    let whole = tempdir().unwrap();
    let (_, log) = written(whole.path());
    let bytes = fs::read(&log).unwrap();
    let start = start_of(&bytes, RECORDS - 1);
    let lose = |change: &dyn Fn(&Path)| {
        let dir = tempdir().unwrap();
        let options = copy(whole.path(), dir.path());
        let log = dir.path().join("wal").join(log.file_name().unwrap());
        change(&log);
        let reader = Store::open_read_only(options.clone(), ManualClock::shared(0)).unwrap();
        let seen = texts_and_damage(&reader);
        drop(reader);
        for _ in 0..2 {
            assert_eq!(texts_and_damage(&open(&options)), seen);
        }
        let store = open(&options);
        let stored = seen.0.len() as u64;
        assert_eq!((offset(&store, "a"), stored < RECORDS), (stored, !seen.1.is_empty()));
        // Later records are not part of the damage.
        append(&store, "b", 50);
        drop(store);
        assert_eq!(texts_and_damage(&open(&options)).0.len() as u64, stored + 1);
        seen.0.len()
    };
    for at in (start..bytes.len()).step_by(19) {
        assert_eq!(lose(&|log| fs::write(log, &bytes[..at]).unwrap()), 5, "cut at {at}");
        assert_eq!(
            lose(&|log| {
                let mut flipped = bytes.clone();
                flipped[at] ^= 32;
                fs::write(log, flipped).unwrap();
            }),
            5,
            "flipped at {at}"
        );
    }
    assert_eq!(lose(&|log| fs::write(log, "").unwrap()), 0);
    assert_eq!(lose(&|log| fs::write(log, &bytes[..32]).unwrap()), 0);
    assert_eq!(lose(&|log| fs::write(log, &bytes[..start_of(&bytes, 2)]).unwrap()), 2);
    assert_eq!(lose(&|log| fs::remove_file(log).unwrap()), 0);
    assert_eq!(lose(&|_| {}), 6);
}

#[test]
fn removed_or_emptied_segments_are_reported() {
    let whole = tempdir().unwrap();
    let options = StoreOptions { log_segment_bytes: 300, slab_events: 1_000, ..small(whole.path()) };
    let store = open(&options);
    (0..RECORDS).for_each(|number| append(&store, "a", number));
    drop(store);
    let segments = logs(whole.path());
    assert!(segments.len() > 2);
    for segment in &segments {
        for empty in [false, true] {
            let dir = tempdir().unwrap();
            let options = copy(whole.path(), dir.path());
            let segment = dir.path().join("wal").join(segment.file_name().unwrap());
            if empty {
                fs::write(&segment, "").unwrap()
            } else {
                fs::remove_file(&segment).unwrap()
            }
            for _ in 0..2 {
                let store = open(&options);
                let (texts, damaged) = texts_and_damage(&store);
                assert!(texts.len() < RECORDS as usize && damaged.len() == 1, "{texts:?} {damaged:?}");
                let told = store.messages()[0].text.clone();
                let lost = format!("{} records", RECORDS as usize - texts.len());
                assert!(told.contains(&lost) && told.contains("missing"), "{told}");
            }
        }
    }
}

#[test]
fn released_segments_are_not_reported_as_missing() {
    for sealed in [false, true] {
        let dir = tempdir().unwrap();
        let options = StoreOptions { log_segment_bytes: 300, slab_events: 3, ..small(dir.path()) };
        for round in 0..4 {
            let store = open(&options);
            assert_eq!(texts_and_damage(&store).1, Vec::<String>::new(), "round {round}");
            // The slab of `slow` keeps its log segment while later segments are deleted.
            append_to(&store, "slow", round, 1);
            (0..20).for_each(|number| append_to(&store, "main", round * 20 + number, 1));
            if sealed {
                store.seal_all().unwrap();
            }
        }
        let store = open(&options);
        assert_eq!((texts_and_damage(&store).0.len(), texts_and_damage(&store).1), (84, Vec::<String>::new()));
    }
}

#[test]
fn missing_or_damaged_marks_are_reported_until_rewritten() {
    let dir = tempdir().unwrap();
    let (options, _) = written(dir.path());
    let mark = dir.path().join("wal/durable");
    for damage in [&|| fs::remove_file(&mark).unwrap() as _, &|| fs::write(&mark, [7; 24]).unwrap()] as [&dyn Fn(); 2] {
        damage();
        let reader = Store::open_read_only(options.clone(), ManualClock::shared(0)).unwrap();
        assert_eq!(texts_and_damage(&reader).1, ["wal~durable"]);
        drop(reader);
        let store = open(&options);
        assert!(store.messages()[0].text.contains("wal/durable is"));
        append(&store, "b", 50);
        drop(store);
        let store = open(&options);
        assert_eq!((store.messages(), all(&store).damaged), (Vec::new(), Vec::new()));
    }
}

#[test]
fn unreadable_records_without_a_mark_are_not_a_torn_tail() {
    for lose_mark in [|mark: &Path| fs::remove_file(mark).unwrap(), |mark: &Path| fs::write(mark, [7; 24]).unwrap()] {
        let dir = tempdir().unwrap();
        let (options, log) = written(dir.path());
        lose_mark(&dir.path().join("wal/durable"));
        let mut bytes = fs::read(&log).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&log, &bytes).unwrap();
        let segment = "wal~00000000000000000001";
        let reader = Store::open_read_only(options.clone(), ManualClock::shared(0)).unwrap();
        assert_eq!(
            texts_and_damage(&reader),
            (without(&[RECORDS - 1]), vec![segment.to_owned(), "wal~durable".to_owned()])
        );
        drop(reader);
        for _ in 0..2 {
            let store = open(&options);
            assert_eq!(all(&store).damaged.iter().map(|damage| &*damage.bucket).collect::<Vec<_>>(), [segment]);
            assert_eq!(offset(&store, "a"), RECORDS - 1);
            append(&store, "b", 50);
        }
        assert_eq!(fs::read(log.with_extension("damaged")).unwrap(), bytes);
    }
}

#[test]
fn logs_without_their_first_mark_are_intact() {
    let dir = tempdir().unwrap();
    let (options, log) = written(dir.path());
    // The process ended between the sync of the first records and the write of their mark.
    fs::remove_file(dir.path().join("wal/durable")).unwrap();
    Catalog::open(&data_dir::catalog(dir.path())).unwrap().set_log_segments(&[]).unwrap();
    let mut bytes = fs::read(&log).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&log, &bytes).unwrap();
    for _ in 0..2 {
        let reader = Store::open_read_only(options.clone(), ManualClock::shared(0)).unwrap();
        assert_eq!(texts_and_damage(&reader), (without(&[RECORDS - 1]), Vec::new()));
        drop(reader);
        let store = open(&options);
        assert_eq!(texts_and_damage(&store), (without(&[RECORDS - 1]), Vec::new()));
    }
    let store = open(&options);
    append(&store, "b", 50);
    drop(store);
    fs::remove_file(dir.path().join("wal/durable")).unwrap();
    let reader = Store::open_read_only(options, ManualClock::shared(0)).unwrap();
    assert_eq!(texts_and_damage(&reader).1, ["wal~durable"]);
}

#[test]
fn damaged_records_after_the_mark_are_a_torn_tail() {
    let dir = tempdir().unwrap();
    let (options, log) = written(dir.path());
    let whole = fs::read(&log).unwrap();
    let start = start_of(&whole, RECORDS - 1);
    for len in (start..whole.len()).step_by(19) {
        set_mark(dir.path(), RECORDS - 1);
        fs::write(&log, &whole[..len]).unwrap();
        assert_eq!(texts_and_damage(&open(&options)), (without(&[RECORDS - 1]), Vec::new()), "{len} bytes");
        set_mark(dir.path(), RECORDS - 1);
        let mut zeroed = whole.clone();
        zeroed[len..].fill(0);
        fs::write(&log, &zeroed).unwrap();
        assert_eq!(texts_and_damage(&open(&options)), (without(&[RECORDS - 1]), Vec::new()), "zero from {len}");
    }
}

#[test]
fn missing_bytes_are_detected() {
    let dir = tempdir().unwrap();
    let (options, log) = written(dir.path());
    let mut bytes = fs::read(&log).unwrap();
    bytes.drain(start_of(&bytes, 2)..start_of(&bytes, 4));
    fs::write(&log, &bytes).unwrap();
    let store = open(&options);
    let (texts, damaged) = texts_and_damage(&store);
    assert_eq!((texts, damaged.len(), offset(&store, "a")), (without(&[2, 3]), 1, 2));
}

#[test]
fn files_reread_after_damage_keep_their_new_checkpoints() {
    let dir = tempdir().unwrap();
    let (options, log) = written(dir.path());
    let mut bytes = fs::read(&log).unwrap();
    let at = start_of(&bytes, 1) + 60;
    bytes[at] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let store = open(&options);
    assert_eq!(offset(&store, "a"), 1);
    append(&store, "a", 8);
    append(&store, "b", 9);
    drop(store);
    let store = open(&options);
    assert_eq!((offset(&store, "a"), offset(&store, "b")), (9, 10));
    drop(store);
    // The newest segment is damaged, too. The checkpoints that the first damage made invalid stay invalid.
    let newest = logs(dir.path()).pop().unwrap();
    let mut bytes = fs::read(&newest).unwrap();
    bytes[32 + 60] ^= 1;
    fs::write(&newest, &bytes).unwrap();
    let store = open(&options);
    assert_eq!((offset(&store, "a"), offset(&store, "b")), (1, 0));
    assert_eq!(texts_and_damage(&store).1.len(), 2);
}

#[test]
fn checkpoints_in_the_catalog_do_not_hide_a_loss() {
    let dir = tempdir().unwrap();
    let options = StoreOptions { log_segment_bytes: 1 << 20, ..small(dir.path()) };
    let store = open(&options);
    (0..3).for_each(|number| append(&store, "a", number));
    let other = AppendRequest { batch: batch("other", 0, 20), checkpoint: Some(checkpoint("b", 9)) };
    store.append(other).unwrap().wait().unwrap();
    while store.verify().is_empty() {
        std::thread::yield_now();
    }
    drop(store);
    let log = logs(dir.path()).pop().unwrap();
    let mut bytes = fs::read(&log).unwrap();
    bytes[32 + 60] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let store = open(&options);
    assert_eq!((offset(&store, "a"), offset(&store, "b")), (0, 0));
    assert_eq!(texts_and_damage(&store).1, ["wal~00000000000000000001"]);
}

#[test]
fn segments_without_a_header_are_read() {
    let dir = tempdir().unwrap();
    let (options, log) = written(dir.path());
    let bytes = fs::read(&log).unwrap();
    fs::write(&log, &bytes[20..]).unwrap();
    assert_eq!(texts_and_damage(&open(&options)).0, without(&[]));
    fs::write(&log, [7; 4_000]).unwrap();
    let (texts, damaged) = texts_and_damage(&open(&options));
    assert_eq!((texts, damaged.len()), (Vec::new(), 1));
}

#[test]
fn crash_during_log_repair_duplicates_nothing() {
    let dir = tempdir().unwrap();
    let (options, log) = written(dir.path());
    let mut bytes = fs::read(&log).unwrap();
    for number in [1, 3] {
        let at = start_of(&bytes, number) + 60;
        bytes[at] ^= 1;
    }
    fs::write(&log, &bytes).unwrap();
    assert_eq!(texts_and_damage(&open(&options)).0, without(&[1, 3]));
    let segments = logs(dir.path());
    assert_eq!(segments.len(), 3);
    // The damaged segment is put back twice, as if its replacement by three segments had been interrupted: first when
    // only the third segment exists, then when the second and third exist.
    let middle = fs::read(&segments[1]).unwrap();
    fs::remove_file(&segments[1]).unwrap();
    for with_middle in [false, true] {
        fs::write(&log, &bytes).unwrap();
        // The catalog records the new segments only once all of them exist, so it lists the damaged one.
        let catalog = Catalog::open(&data_dir::catalog(dir.path())).unwrap();
        catalog.set_log_segments(&[LogSegmentRow { first_lsn: 1, last_lsn: None }]).unwrap();
        drop(catalog);
        if with_middle {
            fs::write(&segments[1], &middle).unwrap();
        }
        let store = open(&options);
        assert_eq!((texts_and_damage(&store).0, offset(&store, "a")), (without(&[1, 3]), 1));
        drop(store);
        assert_eq!(logs(dir.path()), segments);
    }
}

#[test]
fn files_that_only_resemble_segments_are_ignored() {
    let dir = tempdir().unwrap();
    let (options, log) = written(dir.path());
    let others = ["7.log", "00000000000000000001 (copy).log", "18446744073709551615.log"];
    let others = others.map(|name| log.with_file_name(name));
    for other in &others {
        fs::copy(&log, other).unwrap();
    }
    assert_eq!(texts(&all(&open(&options))), expected("main", 0..RECORDS));
    assert!(others.iter().all(|other| other.exists()), "they are kept");
}

#[test]
fn a_mark_after_which_no_record_could_follow_is_damaged() {
    let dir = tempdir().unwrap();
    let (options, _) = written(dir.path());
    set_mark(dir.path(), u64::MAX);
    let store = open(&options);
    assert_eq!(texts(&all(&store)), expected("main", 0..RECORDS));
    assert!(
        store.messages().iter().any(|message| message.text.contains("durable is damaged")),
        "{:?}",
        store.messages()
    );
}
