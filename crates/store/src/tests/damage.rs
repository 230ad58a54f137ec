//! A damaged bucket is reported, and everything else can still be searched.

use std::fs;
use std::path::PathBuf;

use quarry_event::{AnyColumn, TermQuery, TimeRange};
use tempfile::tempdir;

use super::{all, append, expected, open, sample, segment_texts, small};
use crate::{AppendRequest, IndexSelector, Segment, Store, StoreError, StoreOptions};

/// Texts that a search for a term finds, and names of the damaged buckets.
fn search(store: &Store) -> (Vec<String>, Vec<String>) {
    let snapshot = all(store);
    let mut damaged: Vec<String> = snapshot.damaged.iter().map(|damage| damage.bucket.clone()).collect();
    let mut texts = Vec::new();
    for segment in &snapshot.segments {
        match search_segment(&**segment) {
            Ok(found) => texts.extend(found),
            Err(StoreError::Corrupt { bucket, .. } | StoreError::Unreadable { bucket, .. }) => damaged.push(bucket),
            Err(error) => panic!("{error}"),
        }
        damaged.extend(segment.damage().map(|damage| damage.bucket));
    }
    (texts, damaged)
}

fn search_segment(segment: &dyn Segment) -> Result<Vec<String>, StoreError> {
    if segment.candidate_pages(&TermQuery::for_keyword("number"), &AnyColumn)?.is_empty() {
        return Ok(Vec::new());
    }
    segment_texts(segment)
}

#[test]
fn flipped_bits_are_detected_and_affect_one_bucket() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let store = open(&options);
    for index in ["main", "other"] {
        append(&store, index, 0, 8);
        store.seal_all().unwrap();
    }
    append(&store, "hot", 0, 3);
    drop(store);
    let folder = dir.path().join("db/main");
    let files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 2);
    let rest: Vec<String> = expected("other", 0..8).into_iter().chain(expected("hot", 0..3)).collect();
    for file in files {
        let whole = fs::read(&file).unwrap();
        for at in (0..whole.len()).step_by(29) {
            let mut flipped = whole.clone();
            flipped[at] ^= 16;
            fs::write(&file, flipped).unwrap();
            let store = open(&options);
            let bad: Vec<String> =
                store.verify().into_iter().filter(|verdict| verdict.result.is_err()).map(|it| it.bucket).collect();
            assert_eq!(bad, ["main~1"], "byte {at} of {}", file.display());
            let (texts, damaged) = search(&store);
            assert!(texts.ends_with(&rest), "byte {at}");
            // The damaged block may be one that the search did not need.
            assert!(damaged == ["main~1"] || texts.starts_with(&expected("main", 0..8)), "byte {at}");
            if file.extension().unwrap() == "filter" {
                assert!(damaged == ["main~1"] && texts.starts_with(&expected("main", 0..8)), "byte {at}");
                assert_eq!(search(&store), (texts, damaged));
                assert!(store.messages()[0].text.contains("term filter"), "{:?}", store.messages());
            }
        }
        fs::remove_file(&file).unwrap();
        let store = open(&options);
        let (texts, damaged) = search(&store);
        let kept = if file.extension().unwrap() == "filter" { expected("main", 0..8) } else { Vec::new() };
        assert_eq!((texts, damaged), ([kept, rest.clone()].concat(), vec!["main~1".to_owned()]));
        assert_eq!(all(&store).damaged.len(), 1);
        assert_eq!(store.verify().iter().filter(|verdict| verdict.result.is_err()).count(), 1);
        fs::write(&file, whole).unwrap();
    }
    assert_eq!(search(&open(&options)).1, Vec::<String>::new());
}

#[test]
fn damaged_blocks_of_a_large_term_filter_are_reported_and_hide_no_event() {
    let dir = tempdir().unwrap();
    let options = StoreOptions { slab_events: 50_000, ..small(dir.path()) };
    let id = |event: u64, number: u64| format!("{:016x}", (event * 8 + number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let text = |event: u64| (0..8).map(|number| id(event, number)).collect::<Vec<String>>().join(" ");
    let store = open(&options);
    let batch = sample::batch_of("main", (0..40_000).map(|event| (event, text(event))));
    store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
    store.seal_all().unwrap();
    drop(store);
    let file = dir.path().join("db/main/0000000001.filter");
    let whole = fs::read(&file).unwrap();
    assert!(whole.len() > 300_000, "{} bytes", whole.len());
    // The positions are in the fingerprints (the first two), the checksums and the parameters; the last one damages
    // nothing.
    for at in [20_000, 200_000, whole.len() - 300, whole.len() - 20, usize::MAX] {
        let mut flipped = whole.clone();
        flipped.get_mut(at).into_iter().for_each(|byte| *byte ^= 16);
        fs::write(&file, flipped).unwrap();
        let store = open(&options);
        let snapshot = all(&store);
        let mut damaged = snapshot.damaged.clone();
        let is_found = |event: u64| {
            let query = TermQuery::for_keyword(&id(event, event % 8));
            snapshot.segments.iter().any(|segment| !segment.candidate_pages(&query, &AnyColumn).unwrap().is_empty())
        };
        // The filter is read block by block at first, and then as a whole.
        assert!((0..200).all(|number| is_found(number * 199)), "byte {at}");
        damaged.extend(snapshot.segments.iter().filter_map(|segment| segment.damage()));
        let expected = if at == usize::MAX { 0 } else { 1 };
        assert_eq!(damaged.len(), expected, "byte {at}: {damaged:?}");
    }
}

#[test]
fn damage_outside_the_search_range_is_ignored() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let store = open(&options);
    append(&store, "main", 0, 8);
    append(&store, "other", 0, 8);
    store.seal_all().unwrap();
    drop(store);
    fs::remove_dir_all(dir.path().join("db/main")).unwrap();
    let store = open(&options);
    assert_eq!(store.snapshot(&IndexSelector::new(["other"]), &TimeRange::ALL).damaged, []);
    assert_eq!(store.snapshot(&IndexSelector::new(["main"]), &TimeRange::ALL).damaged.len(), 1);
    let wrong: Vec<_> = store.verify().into_iter().filter(|verdict| verdict.result.is_err()).collect();
    assert_eq!(wrong.iter().map(|verdict| verdict.bucket.as_str()).collect::<Vec<_>>(), ["main~1"]);
}

#[test]
fn a_log_segment_that_a_crash_left_after_its_release_is_not_damaged() {
    let dir = tempdir().unwrap();
    let options = small(dir.path());
    let segments = || {
        let files = fs::read_dir(dir.path().join("wal")).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect::<Vec<_>>()
    };
    let store = open(&options);
    append(&store, "main", 0, 3);
    let older = segments().pop().unwrap();
    let bytes = fs::read(&older).unwrap();
    store.seal_all().unwrap();
    drop(store);
    // The mark of durable records then refers to a later segment, which is released, too.
    let store = open(&options);
    append(&store, "main", 3, 2);
    store.seal_all().unwrap();
    drop(store);
    drop(open(&options));
    assert_eq!(segments(), Vec::<PathBuf>::new());
    // The row of the older segment is gone, but its file is back.
    fs::write(&older, bytes).unwrap();
    let store = open(&options);
    assert_eq!(search(&store), (expected("main", 0..5), Vec::new()));
    drop(store);
    drop(open(&options));
    assert_eq!(segments(), Vec::<PathBuf>::new());
}
