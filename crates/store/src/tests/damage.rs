//! A damaged bucket is reported, and everything else can still be searched.

use std::fs;
use std::path::PathBuf;

use quarry_event::{AnyColumn, TermQuery, TimeRange};
use tempfile::tempdir;

use super::{all, append, expected, open, segment_texts, small};
use crate::{IndexSelector, Segment, Store, StoreError};

/// Texts that a search for a term finds, and names of the damaged buckets.
fn search(store: &Store) -> (Vec<String>, Vec<String>) {
    let snapshot = all(store);
    let mut damaged: Vec<String> = snapshot.damaged.iter().map(|damage| damage.bucket.clone()).collect();
    let mut texts = Vec::new();
    for segment in &snapshot.segments {
        match search_segment(&**segment) {
            Ok(found) => texts.extend(found),
            Err(StoreError::Corrupt { bucket, .. }) => damaged.push(bucket),
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
    // The mark names records of a later segment, which is released, too.
    let store = open(&options);
    append(&store, "main", 3, 2);
    store.seal_all().unwrap();
    drop(store);
    drop(open(&options));
    assert_eq!(segments(), Vec::<PathBuf>::new());
    // The row of the segment is gone, its file is not.
    fs::write(&older, bytes).unwrap();
    let store = open(&options);
    assert_eq!(search(&store), (expected("main", 0..5), Vec::new()));
    drop(store);
    drop(open(&options));
    assert_eq!(segments(), Vec::<PathBuf>::new());
}
