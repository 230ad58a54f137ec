//! The life of a store: append, search, seal, restart, retire.

use std::fs;
use std::sync::{Arc, Mutex};

use quarry_event::term::MetaField;
use quarry_event::{AnyColumn, EventBatch, PageColumns, PageSet, TermQuery, TimeRange};
use quarry_stdx::{Fault, ManualClock};
use tempfile::tempdir;

use super::{all, append, expected, open, segment_texts, small, texts, try_append};
use crate::tests::sample::{batch, batch_of, checkpoint, text};
use crate::{
    AppendRequest, BATCH_EVENTS_MAX, ExpiredBucket, IndexSelector, ListingState, MemoryStore, RemovedBuckets,
    RetentionRule, Store, StoreError, StoreOptions,
};

#[test]
fn acknowledged_events_are_visible_and_a_snapshot_does_not_change() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    append(&store, "main", 0, 7);
    let before = all(&store);
    append(&store, "main", 7, 6);
    assert_eq!(texts(&before), expected("main", 0..7));
    assert_eq!(texts(&all(&store)), expected("main", 0..13));
    store.seal_all().unwrap();
    append(&store, "main", 13, 1);
    assert_eq!(texts(&before), expected("main", 0..7));
    assert_eq!(texts(&all(&store)), expected("main", 0..14));
}

#[test]
fn rerouted_events_are_stored_atomically_with_their_file() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    let mut events = batch("main", 0, 1);
    for part in [batch("other", 0, 1), batch("main", 1, 1)] {
        let meta = events.intern(&part.metas[0]);
        events.push(part.raw(0), part.time[0], meta);
    }
    let position = checkpoint("a.log", 9);
    store.append(AppendRequest { batch: events, checkpoint: Some(position.clone()) }).unwrap().wait().unwrap();
    let indexes = |store: &Store| {
        let of = |index: &str| -> Vec<String> { texts(&store.snapshot(&IndexSelector::new([index]), &TimeRange::ALL)) };
        (of("main"), of("other"))
    };
    let stored = (vec![text("main", 0), text("main", 1)], vec![text("other", 0)]);
    assert_eq!(indexes(&store), stored);
    drop(store);
    let store = open(&small(dir.path()));
    assert_eq!(indexes(&store), stored);
    let head = position.source.as_bytes();
    assert_eq!(store.checkpoints_of(head, "").unwrap()[0].checkpoint.offset, 9);
}

#[test]
fn sealing_preserves_events_and_ids() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    let mut events = batch("main", 0, 15);
    events.fields.push(3, "user", "ann");
    store.append(AppendRequest { batch: events, checkpoint: None }).unwrap().wait().unwrap();
    append(&store, "main", 15, 4);
    let ids = |store: &Store| -> Vec<(String, u64, u64)> {
        let segments = all(store).segments;
        segments.iter().map(|it| (it.bucket().to_owned(), it.first_arrival(), it.pages()[0].first_row)).collect()
    };
    let fields = |store: &Store| all(store).segments[0].read_page(0, PageColumns::ALL).unwrap().fields;
    let (hot_ids, hot_fields) = (ids(&store), fields(&store));
    assert_eq!(store.buckets()[0].state, ListingState::Hot);
    store.seal_all().unwrap();
    assert_eq!(store.buckets()[0].state, ListingState::Sealed);
    assert_eq!((ids(&store), fields(&store)), (hot_ids, hot_fields));
    assert_eq!(texts(&all(&store)), expected("main", 0..19));
    assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()));
    assert_eq!(store.messages(), []);
}

#[test]
fn restart_recovers_unsealed_events_without_duplicates() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let store = open(&options);
    append(&store, "main", 0, 12);
    append(&store, "other", 0, 5);
    store.seal_all().unwrap();
    append(&store, "main", 12, 7);
    drop(store);
    for _ in 0..2 {
        let store = open(&options);
        let of = |index: &str| texts(&store.snapshot(&IndexSelector::new([index]), &TimeRange::ALL));
        assert_eq!(of("main"), expected("main", 0..19));
        assert_eq!(of("other"), expected("other", 0..5));
    }
    let reader = Store::open_read_only(options.clone(), ManualClock::shared(0)).unwrap();
    let second = Store::open_read_only(options.clone(), ManualClock::shared(0)).unwrap();
    assert_eq!(texts(&all(&reader)).len(), 24);
    assert_eq!(texts(&all(&second)).len(), 24);
    assert!(!reader.is_writable());
    assert!(matches!(try_append(&reader, "main", 0, 1), Err(StoreError::ReadOnly)));
    assert!(matches!(reader.seal_all(), Err(StoreError::ReadOnly)));
    drop((reader, second));
    let store = open(&options);
    append(&store, "main", 19, 30);
    store.seal_all().unwrap();
    drop(store);
    assert_eq!(
        texts(&open(&options).snapshot(&IndexSelector::new(["main"]), &TimeRange::ALL)),
        expected("main", 0..49)
    );
}

#[test]
fn log_segments_are_removed_after_sealing() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let store = open(&options);
    for first in (0..400).step_by(5) {
        append(&store, "main", first, 5);
    }
    store.seal_all().unwrap();
    append(&store, "main", 400, 5);
    drop(store);
    let names = fs::read_dir(dir.path().join("wal")).unwrap().map(|entry| entry.unwrap().path());
    assert!(names.filter(|path| path.extension().is_some()).count() <= 2);
    assert_eq!(texts(&all(&open(&options))), expected("main", 0..405));
}

#[test]
fn torn_log_tails_are_truncated_and_the_log_continues() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    for round in 0..3 {
        let store = open(&options);
        append(&store, "main", round * 3, 3);
        drop(store);
        let mut logs: Vec<_> = fs::read_dir(dir.path().join("wal")).unwrap().map(|it| it.unwrap().path()).collect();
        logs.retain(|path| path.extension().is_some());
        logs.sort();
        let newest = logs.last().unwrap();
        let mut bytes = fs::read(newest).unwrap();
        bytes.extend_from_slice(&[round as u8; 50]);
        fs::write(newest, bytes).unwrap();
    }
    let store = open(&options);
    assert_eq!(texts(&all(&store)), expected("main", 0..9));
    assert_eq!(store.messages(), []);
}

#[test]
fn log_damage_is_reported_and_intact_records_recovered() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    for round in 0..3 {
        append(&open(&options), "main", round * 3, 3);
    }
    let mut logs: Vec<_> = fs::read_dir(dir.path().join("wal")).unwrap().map(|it| it.unwrap().path()).collect();
    logs.retain(|path| path.extension().is_some());
    logs.sort();
    let mut bytes = fs::read(&logs[1]).unwrap();
    let at = bytes.len() - 10;
    bytes[at] ^= 1;
    fs::write(&logs[1], bytes).unwrap();
    let store = open(&options);
    let kept: Vec<String> = expected("main", 0..3).into_iter().chain(expected("main", 6..9)).collect();
    let mut snapshot = all(&store);
    assert_eq!(snapshot.damaged.drain(..).count(), 1);
    assert_eq!(texts(&snapshot), kept);
    assert!(store.messages()[0].text.contains("is damaged at byte"), "{:?}", store.messages());
    assert!(logs[1].with_extension("damaged").exists());
}

#[test]
fn data_directory_is_locked_against_other_processes() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let store = open(&options);
    let clock = || ManualClock::shared(0);
    let refused = Store::open(options.clone(), clock()).unwrap_err();
    assert!(matches!(refused, StoreError::Locked { .. }));
    // The message names the process only on some systems.
    let holder = format!("in use by another process (pid {})", std::process::id());
    assert!(refused.to_string().contains(&holder) || !refused.to_string().contains("pid"), "{refused}");
    assert!(matches!(Store::open_read_only(options.clone(), clock()), Err(StoreError::Locked { .. })));
    drop(store);
    drop(open(&options));
    let missing = StoreOptions::at(dir.path().join("missing"));
    let error = Store::open_read_only(missing, clock()).unwrap_err();
    assert!(matches!(&error, StoreError::Io { .. }), "{error}");
    assert!(error.to_string().contains("missing"), "{error}");
}

#[test]
fn snapshots_are_pruned_by_index_and_time() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    for (index, first) in [("a", 0), ("a", 100), ("_internal", 0)] {
        append(&store, index, first, 10);
        store.seal_all().unwrap();
    }
    append(&store, "a", 200, 10);
    let count = |pattern: &str, earliest: i64, latest: i64| {
        let range = TimeRange { earliest: Some(earliest), latest: Some(latest) };
        store.snapshot(&IndexSelector::new([pattern]), &range).segments.len()
    };
    assert_eq!(count("*", 0, 1_000), 3);
    assert_eq!(count("*", 5, 100), 1);
    assert_eq!(count("a", 109, 201), 2);
    assert_eq!(count("*", 210, 300), 0);
    assert_eq!(count("_*", 0, 300), 1);
    let stats = store.stats();
    assert_eq!((stats[0].index.as_str(), stats[0].events), ("_internal", 10));
    assert_eq!((stats[1].buckets, stats[1].events, stats[1].time_min, stats[1].time_max), (3, 30, 0, 209));
}

#[test]
fn candidates_are_found_by_terms_and_metadata() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    append(&store, "main", 0, 10);
    let ask = |query: &TermQuery| all(&store).segments[0].candidate_pages(query, &AnyColumn).unwrap();
    let host = |pattern: &str| TermQuery::Meta { field: MetaField::Host, pattern: pattern.into() };
    for _ in 0..2 {
        assert_eq!(ask(&TermQuery::for_keyword("number")), PageSet::first(1));
        assert_eq!(ask(&host("host2")), PageSet::first(1));
        assert!(ask(&host("host3")).is_empty());
        assert!(ask(&TermQuery::and([TermQuery::for_keyword("number"), host("x*")])).is_empty());
        store.seal_all().unwrap();
    }
    assert!(ask(&TermQuery::for_keyword("absent")).is_empty());
}

#[test]
fn absent_metadata_does_not_disable_the_term_filter() {
    let dir = tempdir().unwrap();
    let store = open(&StoreOptions::at(dir.path()));
    let id = |number: u64| format!("{:016x}", (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let batch = batch_of("main", (0..20_000).map(|number| (number, format!("id={} ok", id(number)))));
    store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
    store.seal_all().unwrap();
    store.compact_all().unwrap();
    let segments = all(&store).segments;
    let ask = |query: &TermQuery| -> Vec<PageSet> {
        segments.iter().map(|segment| segment.candidate_pages(query, &AnyColumn).unwrap()).collect()
    };
    let foreign = TermQuery::Meta { field: MetaField::Sourcetype, pattern: "xmlwineventlog".into() };
    for number in 0..500 {
        for number in [number, 50_000 + number] {
            let wanted = TermQuery::for_keyword(&id(number));
            assert_eq!(ask(&TermQuery::or([wanted.clone(), foreign.clone()])), ask(&wanted), "{number}");
        }
    }
}

#[test]
fn clock_jumps_delay_retention_by_a_day() {
    const HOUR: i64 = 3_600 * 1_000_000_000;
    let dir = tempdir().unwrap();
    let clock = ManualClock::shared(1_000 * HOUR);
    let store = Store::open(small(dir.path()), clock.clone()).unwrap();
    append(&store, "main", (1_000 * HOUR) as u64, 5);
    store.seal_all().unwrap();
    let ages = [("main".to_owned(), 100 * 3_600)];
    let nothing = Vec::<String>::new();
    clock.set_forward_ns(100_000 * HOUR);
    assert_eq!(store.retention(&ages).unwrap(), nothing);
    assert_eq!(store.retention(&ages).unwrap(), nothing);
    let told: Vec<String> = store.messages().into_iter().map(|message| message.text).collect();
    assert_eq!(told.iter().filter(|text| text.contains("set forward by 100000 hours")).count(), 1, "{told:?}");
    clock.advance_ns(20 * HOUR);
    // The clock is corrected and even set back permanently. Neither change removes anything.
    clock.set_forward_ns(-100_010 * HOUR);
    assert_eq!(store.retention(&ages).unwrap(), nothing);
    clock.advance_ns(30 * HOUR);
    assert_eq!(store.retention(&ages).unwrap(), nothing);
    // Events that arrive while the clock is set back are found, too.
    append(&store, "main", (1_040 * HOUR) as u64, 5);
    assert_eq!(texts(&all(&store)).len(), 10);
    store.seal_all().unwrap();
    clock.set_forward_ns(100_000 * HOUR);
    assert_eq!(store.retention(&ages).unwrap(), nothing);
    // A clock that is far ahead is not trusted even after a day.
    clock.advance_ns(25 * HOUR);
    assert_eq!(store.retention(&ages).unwrap(), nothing);
    clock.set_forward_ns(-100_000 * HOUR);
    assert_eq!(store.retention(&ages).unwrap(), nothing);
    clock.set_forward_ns(150 * HOUR);
    assert_eq!(store.retention(&ages).unwrap(), nothing);
    clock.advance_ns(25 * HOUR);
    assert_eq!(store.retention(&ages).unwrap(), ["main~1", "main~2"], "the removal was intended");
}

#[test]
fn large_clock_jumps_advance_retention_time_at_double_speed() {
    const HOUR: i64 = 3_600 * 1_000_000_000;
    let dir = tempdir().unwrap();
    let ages = [("main".to_owned(), 100 * 3_600)];
    let nothing = Vec::<String>::new();
    let store = Store::open(small(dir.path()), ManualClock::shared(1_000 * HOUR)).unwrap();
    append(&store, "main", (1_000 * HOUR) as u64, 5);
    store.seal_all().unwrap();
    drop(store);
    for _ in 0..3 {
        // However often the store starts, it removes nothing.
        let store = Store::open(small(dir.path()), ManualClock::shared(263_000 * HOUR)).unwrap();
        assert_eq!(store.retention(&ages).unwrap(), nothing);
        assert!(store.messages()[0].text.contains("set forward by 262000 hours"), "{:?}", store.messages());
    }
    let clock = ManualClock::shared(263_000 * HOUR);
    let store = Store::open(small(dir.path()), clock.clone()).unwrap();
    clock.advance_ns(49 * HOUR);
    assert_eq!(store.retention(&ages).unwrap(), nothing);
    clock.advance_ns(2 * HOUR);
    assert_eq!(store.retention(&ages).unwrap(), ["main~1"]);
}

#[test]
fn size_limit_removes_oldest_buckets_unless_archiving_fails() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    for first in [200, 0, 100] {
        append(&store, "main", first, 5);
        store.seal_all().unwrap();
    }
    let bytes: Vec<u64> = store.buckets().iter().map(|bucket| bucket.stored_bytes).collect();
    let rule = |most: u64, archives: bool| {
        let max_stored_bytes = Some(most);
        [RetentionRule {
            index: "main".to_owned(),
            max_age_secs: 1 << 40,
            max_stored_bytes,
            max_raw_bytes: None,
            archives,
            empties_after_secs: 0,
        }]
    };
    let all_bytes: u64 = bytes.iter().sum();
    let unasked = |_: &ExpiredBucket| -> Result<(), Fault> { Err(Fault::invalid("nobody asked")) };
    assert_eq!(store.run_retention(&rule(all_bytes, false), &unasked).unwrap(), RemovedBuckets::default());
    assert_eq!(store.run_retention(&rule(all_bytes - 1, true), &unasked).unwrap(), RemovedBuckets::default());
    assert!(store.messages()[0].text.contains("bucket main~2 cannot be archived and is kept: nobody asked"));
    assert_eq!(texts(&all(&store)).len(), 15);
    let asked = Mutex::new(Vec::new());
    let archive = |bucket: &ExpiredBucket| -> Result<(), Fault> {
        assert!(bucket.objects.iter().all(|object| dir.path().join("db").join(object).is_file()));
        asked.lock().unwrap().push((bucket.id.clone(), bucket.time_max));
        Ok(())
    };
    let removed = store.run_retention(&rule(bytes[0], true), &archive).unwrap();
    assert_eq!((removed.too_old.len(), removed.too_many), (0, vec!["main~2".to_owned(), "main~3".to_owned()]));
    assert_eq!(*asked.lock().unwrap(), [("main~2".to_owned(), 4), ("main~3".to_owned(), 104)]);
    assert_eq!(texts(&all(&store)), expected("main", 200..205));
}

#[test]
fn limit_of_event_bytes_removes_oldest_buckets() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    for first in [200, 0, 100] {
        append(&store, "main", first, 5);
        store.seal_all().unwrap();
    }
    let raw: u64 = store.buckets().iter().map(|bucket| bucket.raw_bytes).sum();
    let round = |most: u64| {
        let rule = RetentionRule {
            index: "main".to_owned(),
            max_age_secs: 1 << 40,
            max_stored_bytes: None,
            max_raw_bytes: Some(most),
            archives: false,
            empties_after_secs: 0,
        };
        store.run_retention(&[rule], &|_| Ok(())).unwrap().too_many
    };
    assert_eq!(round(raw), [""; 0]);
    assert_eq!(round(raw - 1), ["main~2"]);
    assert_eq!(round(1), ["main~3"]);
    assert_eq!(round(1), [""; 0]);
    assert_eq!(texts(&all(&store)), expected("main", 200..205));
}

#[test]
fn last_events_are_removed_after_a_day_and_newest_bucket_is_kept() {
    const HOUR: i64 = 3_600 * 1_000_000_000;
    let dir = tempdir().unwrap();
    let clock = ManualClock::shared(1_000 * HOUR);
    let open = |clock: &quarry_stdx::SharedClock| Store::open(small(dir.path()), clock.clone()).unwrap();
    let store = open(&(clock.clone() as _));
    for first in [900, 950, 990] {
        append(&store, "main", (first * HOUR) as u64, 5);
        store.seal_all().unwrap();
    }
    append(&store, "other", (990 * HOUR) as u64, 5);
    store.seal_all().unwrap();
    let rule = |hours: u64, most: Option<u64>| {
        let of = |index: &str| RetentionRule {
            index: index.to_owned(),
            max_age_secs: hours * 3_600,
            max_stored_bytes: most,
            max_raw_bytes: None,
            archives: false,
            empties_after_secs: 24 * 3_600,
        };
        [of("main"), of("other")]
    };
    let round =
        |store: &Store, hours: u64, most: Option<u64>| store.run_retention(&rule(hours, most), &|_| Ok(())).unwrap();
    let told =
        |store: &Store, what: &str| store.messages().iter().filter(|message| message.text.contains(what)).count();
    // If the size limit is smaller than every bucket, only the newest bucket of the index stays.
    let removed = round(&store, 10_000, Some(1));
    assert_eq!((removed.too_old.len(), removed.too_many), (0, vec!["main~1".to_owned(), "main~2".to_owned()]));
    assert_eq!(round(&store, 10_000, Some(1)), RemovedBuckets::default());
    assert_eq!(told(&store, "index main alone exceeds"), 1);
    append(&store, "main", (995 * HOUR) as u64, 5);
    store.seal_all().unwrap();
    // Only the older bucket is due, and is removed at once.
    clock.advance_ns(HOUR);
    assert_eq!(round(&store, 10, None), RemovedBuckets { too_old: vec!["main~3".into()], too_many: vec![] });
    // All buckets are due, so their removal is delayed, even after a restart.
    assert_eq!(round(&store, 1, None), RemovedBuckets::default());
    assert_eq!(told(&store, "all events of index main are older than its frozenTimePeriodInSecs of 3600"), 1);
    clock.advance_ns(23 * HOUR);
    drop(store);
    let store = open(&(clock.clone() as _));
    assert_eq!(round(&store, 1, None), RemovedBuckets::default());
    // Events that arrive during the delay restart it.
    append(&store, "other", (1_000 * HOUR) as u64, 5);
    store.seal_all().unwrap();
    clock.advance_ns(2 * HOUR);
    let gone = round(&store, 1, None);
    assert_eq!(gone.too_old.len(), 1, "{gone:?}");
    assert!(gone.too_old[0].starts_with("main~") && told(&store, "index main were older") == 1);
    clock.advance_ns(25 * HOUR);
    assert_eq!(round(&store, 1, None).too_old.len(), 2);
    assert_eq!(texts(&all(&store)).len(), 0);
}

#[test]
fn an_emptying_that_was_averted_is_delayed_anew() {
    const HOUR: i64 = 3_600 * 1_000_000_000;
    for restarts in [false, true] {
        let dir = tempdir().unwrap();
        let clock = ManualClock::shared(1_000 * HOUR);
        let open = || Store::open(small(dir.path()), clock.clone()).unwrap();
        let mut store = open();
        append(&store, "main", (990 * HOUR) as u64, 5);
        store.seal_all().unwrap();
        let round = |store: &Store, hours: u64| {
            let rule = RetentionRule {
                index: "main".to_owned(),
                max_age_secs: hours * 3_600,
                max_stored_bytes: None,
                max_raw_bytes: None,
                archives: false,
                empties_after_secs: 24 * 3_600,
            };
            store.run_retention(&[rule], &|_| Ok(())).unwrap().too_old
        };
        assert_eq!(round(&store, 1), Vec::<String>::new());
        // The setting is corrected in time, and wrong again days later.
        if restarts {
            drop(store);
            store = open();
        }
        assert_eq!(round(&store, 10_000), Vec::<String>::new());
        clock.advance_ns(23 * HOUR);
        if restarts {
            drop(store);
            store = open();
        }
        clock.advance_ns(23 * HOUR);
        assert_eq!(round(&store, 1), Vec::<String>::new(), "restarts: {restarts}");
        clock.advance_ns(23 * HOUR);
        assert_eq!(round(&store, 1), Vec::<String>::new());
        clock.advance_ns(2 * HOUR);
        assert_eq!(round(&store, 1), ["main~1"]);
    }
}

#[test]
fn events_expired_on_arrival_are_kept_for_a_day() {
    const HOUR: i64 = 3_600 * 1_000_000_000;
    let dir = tempdir().unwrap();
    let clock = ManualClock::shared(1_000 * HOUR);
    let store = Store::open(small(dir.path()), clock.clone()).unwrap();
    let rule = RetentionRule {
        index: "main".to_owned(),
        max_age_secs: 10 * 3_600,
        max_stored_bytes: None,
        max_raw_bytes: None,
        archives: false,
        empties_after_secs: 24 * 3_600,
    };
    let round = || store.run_retention(std::slice::from_ref(&rule), &|_| Ok(())).unwrap().too_old;
    // One bucket is old when it arrives, the other becomes old, and the index always has newer events.
    for hours in [100, 995] {
        append(&store, "main", (hours * HOUR) as u64, 5);
        store.seal_all().unwrap();
    }
    assert_eq!(round(), Vec::<String>::new());
    clock.advance_ns(23 * HOUR);
    append(&store, "main", (1_023 * HOUR) as u64, 5);
    assert_eq!(round(), ["main~2"]);
    let told =
        |store: &Store| store.messages().iter().filter(|message| message.text.contains("were older than")).count();
    assert_eq!((round(), told(&store)), (vec![], 1));
    clock.advance_ns(HOUR);
    assert_eq!(round(), ["main~1"]);
}

#[test]
fn expired_buckets_are_deleted_after_their_last_search() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let clock = ManualClock::shared(0);
    let store = Store::open(options.clone(), clock.clone()).unwrap();
    append(&store, "main", 0, 5);
    append(&store, "kept", 0, 5);
    store.seal_all().unwrap();
    append(&store, "main", 20_000_000_000, 5);
    store.seal_all().unwrap();
    let reading = store.snapshot(&IndexSelector::new(["main"]), &TimeRange::ALL);
    let ages = [("main".to_owned(), 10)];
    assert_eq!(store.retention(&ages).unwrap(), Vec::<String>::new());
    clock.advance_ns(15_000_000_000);
    assert_eq!(store.retention(&ages).unwrap(), ["main~1"]);
    assert_eq!(texts(&all(&store)).len(), 10);
    assert_eq!(texts(&reading).len(), 10);
    let objects = |name: &str| fs::read_dir(dir.path().join("db").join(name)).unwrap().count();
    assert_eq!(objects("main"), 4);
    drop(reading);
    assert_eq!(store.retention(&ages).unwrap(), Vec::<String>::new());
    assert_eq!((objects("main"), objects("kept")), (2, 2));
    drop(store);
    assert_eq!(texts(&all(&open(&options))).len(), 10);
}

#[test]
fn idle_slabs_are_closed() {
    let dir = tempdir().unwrap();
    let mut options = small(dir.path());
    options.idle_seal_secs = 10;
    let clock = ManualClock::shared(0);
    let store = Store::open(options, clock.clone()).unwrap();
    append(&store, "main", 0, 5);
    store.seal_idle().unwrap();
    assert_eq!(store.buckets()[0].state, ListingState::Hot);
    clock.advance_ns(10_000_000_000);
    store.seal_idle().unwrap();
    assert_ne!(store.buckets()[0].state, ListingState::Hot);
}

#[test]
fn checkpoints_are_visible_immediately_and_survive_restart() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let store = open(&options);
    let put = |store: &Store, offset: u64, events: u64| {
        let request = AppendRequest { batch: batch("main", offset, events), checkpoint: Some(checkpoint("a", offset)) };
        store.append(request).unwrap().wait().unwrap();
    };
    let offset = |store: &Store| {
        let found = store.checkpoints_of(b"abc", "").unwrap();
        assert_eq!(found.len(), 1);
        found[0].checkpoint.offset
    };
    assert_eq!(store.checkpoints_of(b"abc", "").unwrap(), []);
    put(&store, 10, 3);
    assert_eq!(offset(&store), 10);
    store.seal_all().unwrap();
    assert_eq!(offset(&store), 10);
    put(&store, 20, 3);
    assert_eq!(offset(&store), 20);
    drop(store);
    let store = open(&options);
    assert_eq!(offset(&store), 20);
    for at in 30..60 {
        put(&store, at, 0);
    }
    assert_eq!(offset(&store), 59);
    store.seal_all().unwrap();
    drop(store);
    for _ in 0..2 {
        assert_eq!(offset(&open(&options)), 59);
    }
}

#[test]
fn invalid_and_oversized_batches_are_refused() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    let refuse = |batch: EventBatch| store.append(AppendRequest { batch, checkpoint: None }).unwrap_err();
    let mut many = batch("main", 0, 1);
    for _ in 0..BATCH_EVENTS_MAX {
        many.push(b"", 0, 0);
    }
    assert!(matches!(refuse(many), StoreError::TooLarge { .. }));
    let mut broken = batch("main", 0, 2);
    broken.time.pop();
    assert!(matches!(refuse(broken), StoreError::InvalidBatch { .. }));
    let mut mixed = batch("main", 0, 2);
    mixed.metas[1].index = "".into();
    assert!(matches!(refuse(mixed), StoreError::InvalidBatch { .. }));
    store.append(AppendRequest::default()).unwrap().wait().unwrap();
    append(&store, "main", 0, 50);
    assert_eq!(texts(&all(&store)), expected("main", 0..50));
    store.close();
    assert!(matches!(try_append(&store, "main", 0, 1), Err(StoreError::Closed)));
    assert_eq!(texts(&all(&store)), expected("main", 0..50));
}

#[test]
fn many_threads_append_and_search_while_slabs_are_sealed() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let store = open(&options);
    std::thread::scope(|scope| {
        for index in ["a", "b", "c"] {
            let store: &Arc<Store> = &store;
            scope.spawn(move || {
                for first in (0..120).step_by(4) {
                    append(store, index, first, 4);
                    let seen = store.snapshot(&IndexSelector::new([index]), &TimeRange::ALL);
                    assert_eq!(texts(&seen), expected(index, 0..first + 4));
                }
            });
        }
    });
    store.seal_all().unwrap();
    assert!(store.buckets().iter().all(|bucket| bucket.state == ListingState::Sealed));
    drop(store);
    let store = open(&options);
    for index in ["a", "b", "c"] {
        assert_eq!(texts(&store.snapshot(&IndexSelector::new([index]), &TimeRange::ALL)), expected(index, 0..120));
    }
}

#[test]
fn batches_across_page_boundaries_read_back_after_a_seal() {
    let dir = tempdir().unwrap();
    let mut options = StoreOptions::at(dir.path());
    options.sealers = 1;
    let store = open(&options);
    for (first, events) in [(0, 4_000), (4_000, 5_000), (9_000, 1)] {
        append(&store, "main", first, events);
    }
    let pages = |store: &Store| -> Vec<u32> {
        all(store)
            .segments
            .iter()
            .flat_map(|it| it.pages().iter().map(|page| page.events).collect::<Vec<_>>())
            .collect()
    };
    assert_eq!(pages(&store), [4_096, 4_096, 809]);
    assert_eq!(texts(&all(&store)), expected("main", 0..9_001));
    store.seal_all().unwrap();
    assert_eq!(pages(&store), [4_096, 4_096, 809]);
    assert_eq!(texts(&all(&store)), expected("main", 0..9_001));
}

#[test]
fn tiny_caches_and_queues_do_not_change_results() {
    let dir = tempdir().unwrap();
    let mut options = small(dir.path());
    (options.open_buckets_max, options.filter_cache_bytes, options.page_cache_bytes) = (1, 0, 0);
    (options.pending_bytes_max, options.hot_bytes_max, options.log_bytes_max) = (1, 1, 1);
    (options.slab_events, options.slab_raw_bytes) = (1, 1);
    let store = open(&options);
    let tickets: Vec<_> = (0..12)
        .map(|at| store.append(AppendRequest { batch: batch("main", at * 3, 3), checkpoint: None }).unwrap())
        .collect();
    tickets.into_iter().for_each(|ticket| ticket.wait().unwrap());
    store.seal_all().unwrap();
    assert_eq!(store.buckets().len(), 12);
    let snapshot = all(&store);
    for _ in 0..2 {
        assert_eq!(texts(&snapshot), expected("main", 0..36));
        for segment in &snapshot.segments {
            assert_eq!(
                segment.candidate_pages(&TermQuery::for_keyword("number"), &AnyColumn).unwrap(),
                PageSet::first(1)
            );
        }
    }
}

#[test]
fn memory_store_accepts_any_batch() {
    let store = MemoryStore::new("main");
    store.append(batch("main", 0, 100)).unwrap();
    store.append(batch("main", 100, 9_000)).unwrap();
    let snapshot = store.snapshot();
    assert_eq!(texts(&snapshot), expected("main", 0..9_100));
    let mut many = EventBatch::default();
    many.intern(&batch("main", 0, 1).metas[0]);
    for _ in 0..BATCH_EVENTS_MAX + 10 {
        many.push(b"x", 0, 0);
    }
    store.append(many).unwrap();
    let events =
        |at: usize| store.snapshot().segments[at].pages().iter().map(|page| page.events as usize).sum::<usize>();
    assert_eq!((events(0), events(1)), (BATCH_EVENTS_MAX, 9_110));
    assert_eq!(segment_texts(&*snapshot.segments[0]).unwrap().len(), 9_100);
}

/// Batches that are large enough for direct I/O and begin in the middle of blocks.
#[test]
fn large_and_small_batches_are_recovered_from_the_log() {
    let dir = tempdir().unwrap();
    let mut options = StoreOptions::at(dir.path());
    options.slab_events = 100_000;
    let store = open(&options);
    let mut next = 0;
    for events in [1, 30_000, 7, 45_000, 2, 50_000] {
        append(&store, "main", next, events);
        next += events;
    }
    let held = all(&store);
    append(&store, "main", next, 3);
    assert!(texts(&held) == expected("main", 0..next));
    drop((held, store));
    let store = open(&options);
    assert!(texts(&all(&store)) == expected("main", 0..next + 3));
    store.seal_all().unwrap();
    assert!(texts(&all(&store)) == expected("main", 0..next + 3));
}

#[test]
fn removing_an_index_removes_only_its_events() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    append(&store, "web", 0, 20);
    append(&store, "main", 0, 5);
    store.seal_all().unwrap();
    append(&store, "web", 20, 3);
    let before = all(&store);
    assert!(!store.remove_events_of("web").unwrap().is_empty());
    assert_eq!(texts(&all(&store)), expected("main", 0..5));
    assert_eq!(texts(&before).len(), 28, "a search that began earlier still reads them");
    drop(before);
    assert_eq!(store.remove_events_of("web").unwrap(), Vec::<String>::new());
    append(&store, "web", 0, 2);
    drop(store);
    let store = open(&small(dir.path()));
    let of_web = store.snapshot(&IndexSelector::new(["web"]), &TimeRange::ALL);
    assert_eq!(texts(&of_web), expected("web", 0..2), "also after a restart");
    assert!(store.verify().iter().all(|verdict| verdict.result.is_ok()));
}

#[test]
fn events_that_arrive_while_their_index_is_removed_stay() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let store = open(&options);
    append(&store, "web", 0, 8);
    store.seal_all().unwrap();
    append(&store, "web", 8, 8);
    let cut = store.close_before_removal("web").unwrap();
    // Some of the later events are sealed before the removal, others are not.
    append(&store, "web", 16, 3);
    store.seal_all().unwrap();
    append(&store, "web", 19, 2);
    assert_eq!(store.remove_before("web", cut).unwrap(), ["web~1", "web~2"]);
    assert_eq!(texts(&all(&store)), expected("web", 16..21));
    assert_eq!(store.shared.forgotten_through("web").unwrap(), 2, "records of the removed events");
    drop(store);
    assert_eq!(texts(&all(&open(&options))), expected("web", 16..21));
}

#[test]
fn files_that_were_read_into_a_removed_index_can_be_read_again() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    let put = |store: &Store, salt: &str, offset: u64| {
        let mut position = checkpoint("a", offset);
        position.key.identity = quarry_catalog::SourceIdentity::of(b"abc", salt);
        position.head_bytes = 3;
        let request = AppendRequest { batch: batch(salt, offset, 2), checkpoint: Some(position) };
        store.append(request).unwrap().wait().unwrap();
    };
    let offsets = |store: &Store| {
        ["web", "main"].map(|salt| {
            let found = store.checkpoints_of(b"abcdef", salt).unwrap();
            found.iter().map(|logged| logged.checkpoint.offset).collect::<Vec<_>>()
        })
    };
    put(&store, "web", 10);
    put(&store, "main", 10);
    store.remove_events_of("web").unwrap();
    assert_eq!(offsets(&store), [vec![], vec![10]]);
    drop(store);
    let store = open(&small(dir.path()));
    assert_eq!(offsets(&store), [vec![], vec![10]], "also after a restart");
    put(&store, "web", 4);
    assert_eq!(offsets(&store), [vec![4], vec![10]]);
    store.seal_all().unwrap();
    drop(store);
    assert_eq!(offsets(&open(&small(dir.path()))), [vec![4], vec![10]]);
}

#[test]
fn followers_receive_each_stored_event_once() {
    let dir = tempdir().unwrap();
    let store = open(&small(dir.path()));
    append(&store, "main", 0, 2);
    let follower = store.follow(&IndexSelector::new(["main"])).unwrap();
    for from in 0..10 {
        append(&store, "main", 2 + from * 3, 3);
        append(&store, "other", from, 1);
    }
    let followed = follower.next(std::time::Duration::ZERO);
    let of_batch = |batch: &std::sync::Arc<EventBatch>| -> Vec<String> {
        (0..batch.len()).map(|row| String::from_utf8_lossy(batch.raw(row)).into_owned()).collect()
    };
    let found: Vec<String> = followed.batches.iter().flat_map(of_batch).collect();
    assert_eq!((found, followed.missed), (expected("main", 2..32), 0));
}
