//! Requests that are sent again after a crash are stored once; requests repeated on purpose are stored twice.

use std::fs;
use std::path::Path;

use quarry_event::{Metadata, SentRequest};
use tempfile::tempdir;

use super::sample::batch;
use super::{all, open, small, texts};
use crate::{Store, StoreOptions, UNANSWERED_PARTS_MAX};

fn send(store: &Store, key: u128, number: u64) -> SentRequest {
    let request = store.begin_request(key);
    store.append_sent(0, batch("main", number, 1), &request).unwrap().wait().unwrap();
    request
}

fn answer(store: &Store, key: u128, number: u64) {
    let request = send(store, key, number);
    store.record_answered(&[request]).unwrap();
}

fn stored(store: &Store) -> usize {
    texts(&all(store)).len()
}

fn options(dir: &Path) -> StoreOptions {
    StoreOptions { log_segment_bytes: 300, ..small(dir) }
}

#[test]
fn repeated_unanswered_requests_are_stored_once() {
    for sealed in [false, true] {
        let dir = tempdir().unwrap();
        let options = options(dir.path());
        let store = open(&options);
        answer(&store, 1, 0);
        send(&store, 2, 10);
        // Two heartbeats, one of which was answered.
        answer(&store, 3, 20);
        send(&store, 3, 20);
        if sealed {
            // The records are removed from the log.
            store.seal_all().unwrap();
            (30..60).for_each(|number| answer(&store, 9, number));
            store.seal_all().unwrap();
        }
        let before = stored(&store);
        drop(store);
        for crash_again in [true, false] {
            let store = open(&options);
            assert_eq!(stored(&store), before);
            if crash_again {
                continue;
            }
            answer(&store, 2, 10);
            answer(&store, 3, 20);
            assert_eq!(stored(&store), before, "sealed: {sealed}");
            answer(&store, 2, 10);
            answer(&store, 3, 20);
            answer(&store, 1, 0);
            assert_eq!(stored(&store), before + 3, "sealed: {sealed}");
        }
        // A candidate that was matched once is no candidate in the next run.
        let store = open(&options);
        for (key, number) in [(1, 0), (2, 10), (3, 20)] {
            answer(&store, key, number);
        }
        assert_eq!(stored(&store), before + 6, "sealed: {sealed}");
    }
}

/// Opens a store that was killed and runs `act`. Returns the number of stored events, and kills the store again.
fn next_run(options: &StoreOptions, act: impl Fn(&Store)) -> usize {
    let store = open(options);
    act(&store);
    stored(&store)
}

#[test]
fn repetitions_without_answer_stay_candidates() {
    let dir = tempdir().unwrap();
    let options = options(dir.path());
    let again = |store: &Store| {
        send(store, 1, 0);
    };
    assert_eq!(next_run(&options, again), 1);
    for _ in 0..3 {
        assert_eq!(next_run(&options, again), 1);
    }
    assert_eq!(next_run(&options, |store| answer(store, 1, 0)), 1);
    // The request was answered, even though the store died right afterwards.
    assert_eq!(next_run(&options, again), 2);
    assert_eq!(next_run(&options, again), 2);
}

#[test]
fn answered_requests_beyond_the_limit_never_count_as_unanswered() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let store = open(&options);
    let requests: Vec<_> = (0..UNANSWERED_PARTS_MAX as u64 + 9)
        .map(|key| {
            let request = store.begin_request(u128::from(key));
            (request, store.append_sent(0, batch("main", key, 1), &request).unwrap())
        })
        .collect();
    let requests: Vec<_> = requests
        .into_iter()
        .map(|(request, ticket)| {
            ticket.wait().unwrap();
            request
        })
        .collect();
    store.record_answered(&requests[..10]).unwrap();
    let before = stored(&store);
    drop(store);
    let store = open(&options);
    (0..10).for_each(|key| answer(&store, key.into(), key));
    assert_eq!(stored(&store), before + 10);
    answer(&store, 10, 10);
    assert_eq!(stored(&store), before + 10);
}

#[test]
fn only_stored_parts_are_skipped() {
    let dir = tempdir().unwrap();
    let options = options(dir.path());
    let store = open(&options);
    send(&store, 7, 0);
    drop(store);
    let store = open(&options);
    let request = store.begin_request(7);
    for number in [0, 1] {
        store.append_sent(0, batch("main", number, 1), &request).unwrap().wait().unwrap();
    }
    store.append_sent(0, batch("other", 0, 1), &request).unwrap().wait().unwrap();
    assert_eq!(stored(&store), 3);
}

#[test]
fn requested_retries_are_stored_once_without_a_crash() {
    let dir = tempdir().unwrap();
    let store = open(&options(dir.path()));
    let request = send(&store, 7, 0);
    store.record_failure(&request).unwrap();
    answer(&store, 7, 0);
    assert_eq!(stored(&store), 1);
    answer(&store, 7, 0);
    assert_eq!(stored(&store), 2);
}

#[test]
fn the_queued_parts_of_a_batch_that_is_refused_are_stored_once() {
    let dir = tempdir().unwrap();
    let store = open(&options(dir.path()));
    let mut mixed = batch("main", 0, 1);
    let too_long = Metadata { index: "i".repeat(5_000).into(), ..mixed.metas[0].clone() };
    let meta = mixed.intern(&too_long);
    mixed.push(b"other", 0, meta);
    let request = store.begin_request(7);
    assert!(store.append_sent(0, mixed, &request).is_err());
    store.record_failure(&request).unwrap();
    answer(&store, 7, 0);
    assert_eq!(stored(&store), 1);
}

#[test]
fn incomplete_answer_records_disable_deduplication() {
    for lose in [
        |path: &Path| fs::remove_file(path).unwrap(),
        |path: &Path| fs::write(path, "").unwrap(),
        // The file is from another boot.
        |path: &Path| {
            let mut bytes = fs::read(path).unwrap();
            bytes[20] ^= 1;
            fs::write(path, bytes).unwrap();
        },
    ] {
        for sealed in [false, true] {
            let dir = tempdir().unwrap();
            let options = options(dir.path());
            let store = open(&options);
            let request = send(&store, 1, 0);
            if sealed {
                // The catalog then contains the request, but not the fact that it was answered.
                store.seal_all().unwrap();
                (30..60).for_each(|number| answer(&store, 9, number));
                store.seal_all().unwrap();
                store.record_answered(&[request]).unwrap();
            }
            let before = stored(&store);
            drop(store);
            lose(&dir.path().join("wal/answers"));
            let store = open(&options);
            answer(&store, 1, 0);
            assert_eq!(stored(&store), before + 1, "sealed: {sealed}");
        }
    }
}
