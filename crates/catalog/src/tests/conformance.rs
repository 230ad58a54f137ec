//! Each method of the catalog and its effects, on every database.
//!
//! Not here: tests specific to one database (`crate::sqlite`, `crate::postgresql`).

use super::*;
use crate::transaction::values;

/// Runs the tests below on each database.
macro_rules! on_each_database {
    ($($name:ident),* $(,)?) => {
        mod on_sqlite {
            use crate::tests::Place;
            $(#[test] fn $name() { super::$name(&Place::sqlite()); })*
        }

        mod on_postgresql {
            use crate::tests::Place;
            $(#[test] fn $name() { super::$name(&Place::postgresql()); })*
        }
    };
}

on_each_database! {
    a_bucket_goes_through_its_life,
    a_retired_bucket_beyond_the_position_stays_on_record,
    a_position_never_goes_back,
    checkpoints_are_found_by_head_and_the_newer_record_wins,
    a_short_file_is_recognised_after_it_grew,
    acts_survive_reopening_and_a_reader_sees_them,
    forgotten_checkpoints_give_way_to_older_ones,
    a_compacted_bucket_takes_the_place_of_others_at_once,
    a_forgotten_bucket_takes_its_origins_along,
    deleted_events_are_noted_together_and_go_with_their_bucket,
    a_changed_or_missing_row_is_named,
    a_copy_on_a_remote_store_goes_step_by_step,
    a_bucket_moves_between_volumes_and_away_step_by_step,
    what_a_bucket_holds_is_known_through_further_merges,
    found_buckets_come_back_but_for_those_that_others_replace,
    buckets_are_read_in_pages,
    live_buckets_of_an_index_are_read_in_pages,
    checkpoints_of_a_transaction_without_an_answer_are_found,
    seals_that_are_complete_are_not_begun_again,
    deletions_of_copies_stay_on_record_until_they_are_old,
}

fn a_bucket_goes_through_its_life(place: &Place) {
    let catalog = place.open().unwrap();
    assert_eq!(catalog.bucket_number_max().unwrap(), 0);
    catalog.begin_seal(&row(3, "main", BucketState::Sealing)).unwrap();
    assert_eq!(catalog.buckets(BucketState::Sealing).unwrap(), [row(3, "main", BucketState::Sealing)]);
    assert!(catalog.buckets(BucketState::Live).unwrap().is_empty());
    commit(&catalog, &row(3, "main", BucketState::Live), 3);
    assert!(catalog.buckets(BucketState::Sealing).unwrap().is_empty());
    assert_eq!(catalog.buckets(BucketState::Live).unwrap(), [row(3, "main", BucketState::Live)]);
    assert_eq!(catalog.positions().unwrap(), [("main".to_owned(), 3)]);
    catalog.remove_bucket(3).unwrap();
    assert_eq!(catalog.buckets(BucketState::Live).unwrap().len(), 1, "a live bucket is not forgotten");
    catalog.retire(&[3]).unwrap();
    assert_eq!(catalog.buckets(BucketState::Retired).unwrap(), [row(3, "main", BucketState::Retired)]);
    catalog.remove_bucket(3).unwrap();
    assert!(catalog.buckets(BucketState::Retired).unwrap().is_empty());
    assert_eq!(catalog.bucket_number_max().unwrap(), 3, "numbers are not used twice");
}

fn a_retired_bucket_beyond_the_position_stays_on_record(place: &Place) {
    let catalog = place.open().unwrap();
    commit(&catalog, &row(2, "main", BucketState::Live), 2);
    commit(&catalog, &row(5, "main", BucketState::Live), 2);
    catalog.retire(&[5]).unwrap();
    catalog.remove_bucket(5).unwrap();
    assert_eq!(catalog.buckets(BucketState::Retired).unwrap().len(), 1);
    commit(&catalog, &row(4, "main", BucketState::Live), 5);
    catalog.remove_bucket(5).unwrap();
    assert!(catalog.buckets(BucketState::Retired).unwrap().is_empty());
}

fn a_position_never_goes_back(place: &Place) {
    let catalog = place.open().unwrap();
    commit(&catalog, &row(5, "main", BucketState::Live), 5);
    commit(&catalog, &row(6, "main", BucketState::Live), 4);
    assert_eq!(catalog.positions().unwrap(), [("main".to_owned(), 5)]);
}

fn checkpoints_are_found_by_head_and_the_newer_record_wins(place: &Place) {
    let catalog = place.open().unwrap();
    let long = vec![b'x'; 1000];
    catalog.save_checkpoints(&[logged(&long, 0, 1000, 4), logged(&long, 1, 700, 5)], 5).unwrap();
    catalog.save_checkpoints(&[logged(&long, 0, 900, 3)], 5).unwrap();
    catalog.save_checkpoints(&[logged(&long, 1, 800, 6)], 6).unwrap();
    let found = catalog.checkpoints_of(&long, "").unwrap();
    assert_eq!(found, [logged(&long, 0, 1000, 4), logged(&long, 1, 800, 6)]);
    assert!(catalog.checkpoints_of(&long, "salt").unwrap().is_empty());
    assert!(catalog.checkpoints_of(b"other", "").unwrap().is_empty());
    assert_eq!(catalog.log_position().unwrap(), 6);
}

fn a_short_file_is_recognised_after_it_grew(place: &Place) {
    let catalog = place.open().unwrap();
    catalog.save_checkpoints(&[logged(b"line one\n", 0, 9, 1)], 1).unwrap();
    let mut grown = b"line one\n".to_vec();
    grown.extend_from_slice(&[b'y'; 500]);
    assert_eq!(catalog.checkpoints_of(&grown, "").unwrap(), [logged(b"line one\n", 0, 9, 1)]);
    assert!(catalog.checkpoints_of(b"line", "").unwrap().is_empty());
}

fn acts_survive_reopening_and_a_reader_sees_them(place: &Place) {
    {
        let catalog = place.open().unwrap();
        commit(&catalog, &row(1, "main", BucketState::Live), 1);
        catalog.set_setting("a", "b").unwrap();
        catalog.set_setting("a", "c").unwrap();
        let reader = place.open_read_only().unwrap();
        assert_eq!(reader.buckets(BucketState::Live).unwrap().len(), 1);
        assert!(reader.set_setting("a", "d").is_err());
    }
    let catalog = place.open().unwrap();
    assert_eq!(catalog.buckets(BucketState::Live).unwrap(), [row(1, "main", BucketState::Live)]);
    assert_eq!(catalog.setting("a").unwrap().as_deref(), Some("c"));
    assert_eq!(catalog.setting("b").unwrap(), None);
}

fn forgotten_checkpoints_give_way_to_older_ones(place: &Place) {
    let catalog = place.open().unwrap();
    catalog.save_checkpoints(&[logged(b"a", 0, 10, 3), logged(b"b", 0, 20, 7), logged(b"c", 0, 30, 8)], 8).unwrap();
    catalog.replace_lost_checkpoints(5, &[logged(b"b", 0, 9, 2)], 12).unwrap();
    assert_eq!(catalog.checkpoints_of(b"a", "").unwrap(), [logged(b"a", 0, 10, 3)]);
    assert_eq!(catalog.checkpoints_of(b"b", "").unwrap(), [logged(b"b", 0, 9, 2)]);
    assert_eq!(catalog.checkpoints_of(b"c", "").unwrap(), []);
    assert_eq!(catalog.log_position().unwrap(), 12);
}

fn a_compacted_bucket_takes_the_place_of_others_at_once(place: &Place) {
    let catalog = place.open().unwrap();
    for number in [1, 2, 4] {
        commit(&catalog, &row(number, "main", BucketState::Live), 4);
    }
    catalog.begin_seal(&compacted(5, "main", BucketState::Sealing)).unwrap();
    assert_eq!(catalog.buckets(BucketState::Sealing).unwrap(), [compacted(5, "main", BucketState::Sealing)]);
    let live = compacted(5, "main", BucketState::Live);
    catalog.retire(&[2]).unwrap();
    assert!(!catalog.commit_compaction(&CompactionCommit { bucket: &live, inputs: &[1, 2] }).unwrap());
    assert_eq!(catalog.buckets(BucketState::Live).unwrap().len(), 2, "nothing is changed");
    assert_eq!(catalog.buckets(BucketState::Sealing).unwrap().len(), 1);
    assert!(catalog.commit_compaction(&CompactionCommit { bucket: &live, inputs: &[1, 4] }).unwrap());
    assert_eq!(catalog.buckets(BucketState::Live).unwrap(), [live]);
    let retired: Vec<u64> =
        catalog.buckets(BucketState::Retired).unwrap().into_iter().map(|bucket| bucket.number).collect();
    assert_eq!(retired, [1, 2, 4]);
    assert_eq!(catalog.positions().unwrap(), [("main".to_owned(), 4)], "the log has nothing of a compacted bucket");
}

fn a_forgotten_bucket_takes_its_origins_along(place: &Place) {
    let catalog = place.open().unwrap();
    let origins = || catalog.read(|act| act.number("SELECT count(*) FROM origin", values![])).unwrap().unwrap();
    catalog.begin_seal(&compacted(5, "main", BucketState::Sealing)).unwrap();
    assert_eq!(origins(), 2);
    catalog.remove_bucket(5).unwrap();
    assert_eq!(origins(), 0);
}

fn deleted_events_are_noted_together_and_go_with_their_bucket(place: &Place) {
    let catalog = place.open().unwrap();
    (1..=4).for_each(|number| commit(&catalog, &row(number, "main", BucketState::Live), number));
    let of = |bucket: u64, rows: &[u8]| DeletionRow { bucket, rows: rows.to_vec() };
    let note = |deletions: &[DeletionRow], emptied: &[u64]| {
        catalog.commit_deletion(&DeletionCommit { deletions, emptied }).unwrap()
    };
    assert!(note(&[of(1, b"one"), of(2, b"two")], &[3]));
    let retired = || catalog.buckets(BucketState::Retired).unwrap().len();
    assert_eq!((catalog.deletions().unwrap(), retired()), (vec![of(1, b"one"), of(2, b"two")], 1));
    for (deletions, emptied) in [(vec![of(1, b"more"), of(3, b"gone")], vec![]), (vec![of(1, b"more")], vec![9])] {
        assert!(!note(&deletions, &emptied), "one of them is not live");
        assert_eq!(catalog.deletions().unwrap(), [of(1, b"one"), of(2, b"two")]);
    }
    assert!(note(&[of(1, b"more")], &[2]));
    assert_eq!(catalog.deletions().unwrap(), [of(1, b"more"), of(2, b"two")]);
    catalog.remove_buckets(&[1, 2, 3]).unwrap();
    assert_eq!(catalog.deletions().unwrap(), [of(1, b"more")], "bucket 1 is live");
    catalog.check().unwrap();
    drop(catalog);
    assert_eq!(place.open_read_only().unwrap().deletions().unwrap(), [of(1, b"more")]);
    place.open().unwrap().database.run_script("DELETE FROM deletion");
    assert!(place.open_existing().unwrap_err().to_string().contains("deletion"));
}

fn a_changed_or_missing_row_is_named(place: &Place) {
    for (change, name) in [
        ("UPDATE bucket SET events = 4 WHERE number = 2", "row 2 of table bucket"),
        ("DELETE FROM bucket WHERE number = 2", "rows of table bucket are missing"),
        ("UPDATE position SET sealed_through = 9", "row main of table position"),
        ("DELETE FROM setting", "rows of table setting are missing"),
        ("UPDATE checkpoint SET \"offset\" = 0", "row f of table checkpoint"),
        ("DELETE FROM digest", "table digest"),
    ] {
        let place = place.fresh();
        let catalog = place.open().unwrap();
        commit(&catalog, &row(1, "main", BucketState::Live), 1);
        commit(&catalog, &row(2, "main", BucketState::Live), 2);
        catalog.save_checkpoints(&[logged(b"a", 0, 10, 3)], 3).unwrap();
        catalog.database.run_script(change);
        drop(catalog);
        let read_all = |catalog: Catalog| -> Result<(), CatalogError> {
            let mut pages = catalog.read_buckets();
            while pages.next_page()?.is_some() {}
            Ok(())
        };
        let opened = [place.open_read_only(), place.open_existing()].map(|opened| opened.map(drop));
        let later = BucketCheck::WhenRead;
        let read =
            [place.open_read_only_with(later).and_then(read_all), place.open_existing_with(later).and_then(read_all)];
        for result in opened.into_iter().chain(read) {
            let error = result.unwrap_err();
            assert!(matches!(error, CatalogError::Corrupt { .. }), "{error}");
            assert!(error.to_string().contains(name), "{change}: {error}");
        }
    }
}

/// The catalog's state of a bucket's copies.
fn copy_of(catalog: &Catalog, number: u64) -> Option<RemoteState> {
    let all = [BucketState::Live, BucketState::Retired].map(|state| catalog.buckets(state).unwrap()).concat();
    all.into_iter().find(|row| row.number == number).unwrap().remote.map(|copy| copy.state)
}

fn a_copy_on_a_remote_store_goes_step_by_step(place: &Place) {
    use RemoteState::{Evicted, Evicting, Uploaded, Uploading};
    let catalog = place.open().unwrap();
    commit(&catalog, &row(3, "main", BucketState::Live), 3);
    assert!(!catalog.set_remote_state(3, Uploaded).unwrap(), "nothing was begun");
    assert_eq!(catalog.begin_uploads(&[3, 4], "cold", "main/1").unwrap(), [3]);
    assert_eq!(catalog.begin_uploads(&[3], "other", "main/2").unwrap(), [0; 0], "bucket 3 has a location");
    let copy = RemoteCopy { volume: "cold".into(), folder: "main/1".into(), state: Uploading, receipt: None };
    let expected = BucketRow { remote: Some(copy), ..row(3, "main", BucketState::Live) };
    assert_eq!(catalog.buckets(BucketState::Live).unwrap(), [expected]);
    for (next, is_step) in [
        (Evicting, false),
        (Evicted, false),
        (Uploaded, true),
        (Uploading, false),
        (Evicted, false),
        (Evicting, true),
        (Evicted, true),
        (Uploading, false),
        (Uploaded, true),
    ] {
        let before = copy_of(&catalog, 3);
        assert_eq!(catalog.set_remote_state(3, next).unwrap(), is_step, "{before:?} to {next:?}");
        assert_eq!(copy_of(&catalog, 3), if is_step { Some(next) } else { before });
    }
    catalog.retire(&[3]).unwrap();
    assert!(!catalog.set_remote_state(3, Evicting).unwrap(), "a retired bucket does not change");
    assert_eq!(copy_of(&catalog, 3), Some(Uploaded));
    catalog.check().unwrap();
}

/// The second copy of a bucket on `volume`.
fn other(volume: &str, going: bool) -> Option<OtherCopy> {
    Some(OtherCopy { volume: volume.into(), folder: format!("{volume}/main"), is_obsolete: going })
}

fn a_bucket_moves_between_volumes_and_away_step_by_step(place: &Place) {
    let catalog = place.open().unwrap();
    commit(&catalog, &row(1, "main", BucketState::Live), 1);
    let none = DeletedCopies::default();
    let now = || catalog.bucket(1).unwrap().unwrap();
    let remote = |volume: &str, receipt| {
        let folder = format!("{volume}/main");
        Some(RemoteCopy { volume: volume.into(), folder, state: RemoteState::Uploaded, receipt: Some(receipt) })
    };
    assert!(!catalog.begin_move(1, "b", "b/main").unwrap(), "the bucket is on no volume");
    assert_eq!(catalog.begin_uploads(&[1], "a", "a/main").unwrap(), [1]);
    assert!(!catalog.begin_move(1, "b", "b/main").unwrap(), "the bucket is being uploaded");
    assert!(!catalog.record_receipt(1, 0).unwrap() && catalog.end_upload(1, 0).unwrap());
    assert!(!catalog.end_upload(1, 0).unwrap(), "the bucket was uploaded");
    assert!(catalog.record_receipt(1, 2).unwrap());
    assert_eq!(now().remote, remote("a", 2));
    assert!(catalog.begin_move(1, "b", "b/main").unwrap());
    assert_eq!((now().remote, now().other), (remote("a", 2), other("b", false)));
    assert!(!catalog.begin_move(1, "c", "c/main").unwrap(), "one move at a time");
    assert!(!catalog.abandon_remote_copy(1).unwrap() && !catalog.remove_other_copy(1, &none).unwrap());
    assert!(catalog.end_move(1, 3).unwrap());
    assert_eq!((now().remote, now().other), (remote("b", 3), other("a", true)));
    assert!(!catalog.end_move(1, 3).unwrap(), "a copy that is being deleted is not restored");
    assert!(catalog.remove_other_copy(1, &none).unwrap() && catalog.abandon_remote_copy(1).unwrap());
    assert_eq!((now().remote, now().other), (None, other("b", true)));
    drop(catalog);
    let catalog = place.open_existing().unwrap();
    assert_eq!(catalog.bucket(1).unwrap().unwrap().other, other("b", true));
    assert!(catalog.remove_other_copy(1, &none).unwrap());
    catalog.begin_uploads(&[1], "a", "a/main").unwrap();
    catalog.end_upload(1, 0).unwrap();
    assert!(catalog.begin_move(1, "b", "b/main").unwrap() && catalog.abandon_move(1).unwrap());
    assert_eq!(catalog.bucket(1).unwrap().unwrap().other, other("b", true));
    catalog.check().unwrap();
    catalog.retire(&[1]).unwrap();
    assert!(!catalog.remove_other_copy(1, &none).unwrap(), "a bucket that is not live does not change");
}

fn deletions_of_copies_stay_on_record_until_they_are_old(place: &Place) {
    let catalog = place.open().unwrap();
    commit(&catalog, &row(1, "main", BucketState::Live), 1);
    let names = ["a/x/1", "a0/x/1", "b/x/1"].map(str::to_owned);
    catalog.begin_uploads(&[1], "a", "a/main").unwrap();
    assert!(catalog.abandon_remote_copy(1).unwrap());
    let moved = DeletedCopies { names: &names[..1], time_ns: 10 };
    assert!(catalog.remove_other_copy(1, &moved).unwrap() && !catalog.remove_other_copy(1, &moved).unwrap());
    catalog.retire(&[1]).unwrap();
    // More records than one transaction removes.
    let many: Vec<String> = (0..=1_000).map(|number| format!("c/x/{number}")).collect();
    let removed = [&names[1..], &many[..]].concat();
    catalog.remove_uploaded_bucket(1, &DeletedCopies { names: &removed, time_ns: 20 }).unwrap();
    assert_eq!(catalog.bucket(1).unwrap(), None);
    let known = || {
        let is_known = |name: &String| catalog.is_deleted_copy(name).unwrap();
        names.iter().filter(|name| is_known(name)).map(String::as_str).collect::<Vec<_>>()
    };
    catalog.forget_deleted_copies(Some("a"), 10, &|_| false).unwrap();
    catalog.forget_deleted_copies(Some("a"), 11, &|name| name == "a/x/1").unwrap();
    assert_eq!(known(), names);
    catalog.forget_deleted_copies(Some("a"), i64::MAX, &|name| name == "b/x/1").unwrap();
    assert_eq!(known(), ["a0/x/1", "b/x/1"]);
    catalog.forget_deleted_copies(None, 20, &|_| false).unwrap();
    assert!(many.iter().all(|name| catalog.is_deleted_copy(name).unwrap()));
    catalog.forget_deleted_copies(None, 21, &|name| name == "b/x/1").unwrap();
    assert!(known() == ["b/x/1"] && many.iter().all(|name| !catalog.is_deleted_copy(name).unwrap()));
    catalog.check().unwrap();
}

fn what_a_bucket_holds_is_known_through_further_merges(place: &Place) {
    let catalog = place.open().unwrap();
    for number in [1, 2, 4] {
        commit(&catalog, &row(number, "main", BucketState::Live), 4);
    }
    let merge = |number: u64, inputs: &[u64]| {
        let bucket = compacted(number, "main", BucketState::Live);
        assert!(catalog.commit_compaction(&CompactionCommit { bucket: &bucket, inputs }).unwrap());
    };
    let held = |number| catalog.merged_into(number).unwrap().into_iter().map(|row| row.number).collect::<Vec<_>>();
    merge(5, &[1, 2]);
    assert_eq!(held(5), [1, 2]);
    catalog.remove_bucket(1).unwrap();
    merge(6, &[4, 5]);
    assert_eq!((held(5), held(6)), (vec![], vec![2, 4, 5]));
    catalog.check().unwrap();
}

fn found_buckets_come_back_but_for_those_that_others_replace(place: &Place) {
    let found = |number: u64, replaces: &[&str], deleted: Option<&[u8]>| FoundBucket {
        row: row(number, if number == 4 { "web" } else { "main" }, BucketState::Live),
        deleted: deleted.map(<[u8]>::to_vec),
        replaces: replaces.iter().map(|stem| (*stem).to_owned()).collect(),
    };
    let stem = |row: &BucketRow| format!("stem-{}", row.number);
    {
        let catalog = place.open().unwrap();
        catalog.add_found(&[found(7, &["stem-2", "stem-3"], None), found(1, &[], Some(b"rows"))]).unwrap();
        catalog.add_found(&[found(2, &[], Some(b"gone")), found(4, &[], None)]).unwrap();
        assert_eq!(catalog.end_rebuild(&stem).unwrap(), 1);
        catalog.close().unwrap();
    }
    let catalog = place.open_existing().unwrap();
    let numbers = |state| catalog.buckets(state).unwrap().into_iter().map(|row| row.number).collect::<Vec<_>>();
    assert_eq!((numbers(BucketState::Live), numbers(BucketState::Retired)), (vec![1, 4, 7], vec![2]));
    assert_eq!(catalog.positions().unwrap(), [("main".to_owned(), 7), ("web".to_owned(), 7)]);
    assert_eq!((catalog.deletions().unwrap().len(), catalog.bucket_number_max().unwrap()), (2, 7));
    catalog.remove_bucket(2).unwrap();
    assert_eq!(catalog.setting("replaced stem-3").unwrap(), None);
    catalog.check().unwrap();
}

fn buckets_are_read_in_pages(place: &Place) {
    let catalog = place.open().unwrap();
    assert_eq!(catalog.newest_created().unwrap(), None);
    let live = |number: u64| match number % 2 {
        0 => compacted(number, "main", BucketState::Live),
        _ => BucketRow { created: 50 - number.cast_signed(), ..row(number, "web", BucketState::Live) },
    };
    for number in [2, 3, 5, 8, 9, 40] {
        commit(&catalog, &live(number), number);
    }
    catalog.begin_seal(&row(4, "main", BucketState::Sealing)).unwrap();
    catalog.retire(&[8]).unwrap();
    assert_eq!(catalog.newest_created().unwrap(), Some(47));
    let retired = BucketRow { state: BucketState::Retired, ..live(8) };
    let all = [live(2), live(3), row(4, "main", BucketState::Sealing), live(5), retired, live(9), live(40)];
    for most in [1, 3, 7, 100] {
        let mut pages = catalog.read_buckets();
        pages.most = most;
        let mut read = Vec::new();
        while let Some(page) = pages.next_page().unwrap() {
            assert!(!page.is_empty() && page.len() <= most as usize);
            read.extend(page);
        }
        assert_eq!(read, all);
        assert_eq!(pages.next_page().unwrap(), None);
    }
}

fn live_buckets_of_an_index_are_read_in_pages(place: &Place) {
    let catalog = place.open().unwrap();
    for number in [2, 3, 5, 7, 8, 9, 40] {
        let template = if number % 2 == 0 { compacted } else { row };
        commit(&catalog, &template(number, if number == 7 { "web" } else { "main" }, BucketState::Live), number);
    }
    catalog.begin_seal(&row(4, "main", BucketState::Sealing)).unwrap();
    catalog.retire(&[8]).unwrap();
    let live = |number: u64| match number % 2 {
        0 => compacted(number, "main", BucketState::Live),
        _ => row(number, "main", BucketState::Live),
    };
    for most in [1, 3, 5, 100] {
        let mut pages = catalog.read_live("main", 0..=u64::MAX);
        pages.most = most;
        let mut read = Vec::new();
        while let Some(page) = pages.next_page().unwrap() {
            assert!(!page.is_empty() && page.len() <= most as usize);
            read.extend(page);
        }
        assert_eq!(read, [2, 3, 5, 9, 40].map(live));
        assert_eq!(pages.next_page().unwrap(), None);
        let mut some = catalog.read_live("main", 3..=9);
        some.most = most;
        let read: Vec<BucketRow> = std::iter::from_fn(|| some.next_page().unwrap()).flatten().collect();
        assert_eq!(read, [3, 5, 9].map(live));
    }
    assert_eq!(catalog.read_live("web", 7..=7).next_page().unwrap().unwrap(), [row(7, "web", BucketState::Live)]);
    assert_eq!(catalog.read_live("web", std::ops::RangeInclusive::new(8, 7)).next_page().unwrap(), None);
    assert_eq!(catalog.read_live("other", 0..=u64::MAX).next_page().unwrap(), None);
    catalog.database.run_script("UPDATE origin SET number = 3 WHERE bucket = 40");
    let error = catalog.read_live("main", 0..=u64::MAX).next_page().unwrap_err().to_string();
    assert!(error.contains("row 40 of table bucket does not match its checksum"), "{error}");
}

fn checkpoints_of_a_transaction_without_an_answer_are_found(place: &Place) {
    let catalog = place.open().unwrap();
    assert_eq!(catalog.checkpoints_of(b"head", "").unwrap(), []);
    // Committed, although the caller receives an error.
    let known = logged(b"head", 0, 10, 3);
    catalog.write(|act| crate::checkpoint::write_checkpoint(act, &known)).unwrap();
    catalog.add_known(&Err(CatalogError::Busy { place: "here".to_owned() }), &[]);
    assert_eq!(catalog.checkpoints_of(b"head", "").unwrap(), [known]);
    catalog.settle().unwrap();
    catalog.settle().unwrap();
    catalog.check().unwrap();
}

fn seals_that_are_complete_are_not_begun_again(place: &Place) {
    let catalog = place.open().unwrap();
    let live = row(1, "main", BucketState::Live);
    commit(&catalog, &live, 1);
    let again = [2, 1].map(|number| BucketRow { object: "x".into(), ..row(number, "main", BucketState::Sealing) });
    let error = catalog.begin_seals(&again).unwrap_err().to_string();
    assert!(error.contains("bucket 1 is sealed already"), "{error}");
    assert_eq!((catalog.bucket(1).unwrap(), catalog.bucket(2).unwrap()), (Some(live), None));
    catalog.check().unwrap();
}
