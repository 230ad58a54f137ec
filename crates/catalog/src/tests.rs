//! Each transaction and its effects.

use std::path::Path;

use rusqlite::Connection;

use super::*;

fn row(number: u64, index: &str, state: BucketState) -> BucketRow {
    BucketRow {
        number,
        index: index.into(),
        state,
        object: format!("{index}/{number}.bucket"),
        filter: format!("{index}/{number}.terms"),
        slabs: 1,
        time_min: -5,
        time_max: 7,
        events: 3,
        raw_bytes: 100,
        object_bytes: 40,
        filter_bytes: 2,
        created: 9,
        level: 0,
        thawed: false,
        remote: None,
        other: None,
        stem: None,
        merged_into: None,
        origins: Vec::new(),
    }
}

fn compacted(number: u64, index: &str, state: BucketState) -> BucketRow {
    let origins = vec![Origin { first_row: 0, number: 1 }, Origin { first_row: 3, number: 4 }];
    BucketRow { level: 1, origins, ..row(number, index, state) }
}

fn logged(head: &[u8], variant: u32, offset: u64, lsn: u64) -> LoggedCheckpoint {
    let key = CheckpointKey { identity: SourceIdentity::of(head, ""), variant };
    let head_bytes = head.len().min(HEAD_BYTES_MAX) as u32;
    let milestones = (0..variant).collect();
    let checkpoint =
        FileCheckpoint { key, head_bytes, offset, tail_hash: u64::MAX - offset, source: "f".into(), milestones };
    LoggedCheckpoint { checkpoint, lsn }
}

fn commit(catalog: &Catalog, bucket: &BucketRow, sealed_through: u64) {
    let buckets = [Sealed { bucket, sealed_through }];
    catalog.commit_seals(&SealCommit { buckets: &buckets, checkpoints: &[], log_position: 0 }).unwrap();
}

/// Removes the columns that the version with remote copies added.
const WITHOUT_REMOTE: &str = "DROP INDEX bucket_merged_into; DROP INDEX bucket_stem; ALTER TABLE bucket DROP COLUMN receipt;
    ALTER TABLE bucket DROP COLUMN stem; ALTER TABLE bucket DROP COLUMN other_volume;
    ALTER TABLE bucket DROP COLUMN other_folder; ALTER TABLE bucket DROP COLUMN other_going;
    ALTER TABLE bucket DROP COLUMN merged_into; ALTER TABLE bucket DROP COLUMN volume; ALTER TABLE bucket DROP COLUMN folder;
    ALTER TABLE bucket DROP COLUMN remote; PRAGMA user_version = 5;";

#[test]
fn a_bucket_goes_through_its_life() {
    let catalog = Catalog::open_in_memory().unwrap();
    assert_eq!(catalog.bucket_number_max().unwrap(), 0);
    catalog.begin_seal(&row(3, "main", BucketState::Sealing)).unwrap();
    assert_eq!(catalog.buckets(BucketState::Sealing).unwrap(), [row(3, "main", BucketState::Sealing)]);
    assert!(catalog.buckets(BucketState::Live).unwrap().is_empty());
    commit(&catalog, &row(3, "main", BucketState::Live), 3);
    assert!(catalog.buckets(BucketState::Sealing).unwrap().is_empty());
    assert_eq!(catalog.buckets(BucketState::Live).unwrap(), [row(3, "main", BucketState::Live)]);
    assert_eq!(catalog.positions().unwrap(), [("main".to_owned(), 3)]);
    catalog.forget(3).unwrap();
    assert_eq!(catalog.buckets(BucketState::Live).unwrap().len(), 1, "a live bucket is not forgotten");
    catalog.retire(&[3]).unwrap();
    assert_eq!(catalog.buckets(BucketState::Retired).unwrap(), [row(3, "main", BucketState::Retired)]);
    catalog.forget(3).unwrap();
    assert!(catalog.buckets(BucketState::Retired).unwrap().is_empty());
    assert_eq!(catalog.bucket_number_max().unwrap(), 3, "numbers are not used twice");
}

#[test]
fn a_retired_bucket_beyond_the_position_stays_on_record() {
    let catalog = Catalog::open_in_memory().unwrap();
    commit(&catalog, &row(2, "main", BucketState::Live), 2);
    commit(&catalog, &row(5, "main", BucketState::Live), 2);
    catalog.retire(&[5]).unwrap();
    catalog.forget(5).unwrap();
    assert_eq!(catalog.buckets(BucketState::Retired).unwrap().len(), 1);
    commit(&catalog, &row(4, "main", BucketState::Live), 5);
    catalog.forget(5).unwrap();
    assert!(catalog.buckets(BucketState::Retired).unwrap().is_empty());
}

#[test]
fn a_position_never_goes_back() {
    let catalog = Catalog::open_in_memory().unwrap();
    commit(&catalog, &row(5, "main", BucketState::Live), 5);
    commit(&catalog, &row(6, "main", BucketState::Live), 4);
    assert_eq!(catalog.positions().unwrap(), [("main".to_owned(), 5)]);
}

#[test]
fn checkpoints_are_found_by_head_and_the_newer_record_wins() {
    let catalog = Catalog::open_in_memory().unwrap();
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

#[test]
fn a_short_file_is_recognised_after_it_grew() {
    let catalog = Catalog::open_in_memory().unwrap();
    catalog.save_checkpoints(&[logged(b"line one\n", 0, 9, 1)], 1).unwrap();
    let mut grown = b"line one\n".to_vec();
    grown.extend_from_slice(&[b'y'; 500]);
    assert_eq!(catalog.checkpoints_of(&grown, "").unwrap(), [logged(b"line one\n", 0, 9, 1)]);
    assert!(catalog.checkpoints_of(b"line", "").unwrap().is_empty());
}

#[test]
fn acts_survive_reopening_and_a_reader_sees_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    {
        let catalog = Catalog::open(&path).unwrap();
        commit(&catalog, &row(1, "main", BucketState::Live), 1);
        catalog.set_setting("a", "b").unwrap();
        catalog.set_setting("a", "c").unwrap();
        let reader = Catalog::open_read_only(&path).unwrap();
        assert_eq!(reader.buckets(BucketState::Live).unwrap().len(), 1);
        assert!(reader.set_setting("a", "d").is_err());
    }
    let catalog = Catalog::open(&path).unwrap();
    assert_eq!(catalog.buckets(BucketState::Live).unwrap(), [row(1, "main", BucketState::Live)]);
    assert_eq!(catalog.setting("a").unwrap().as_deref(), Some("c"));
    assert_eq!(catalog.setting("b").unwrap(), None);
}

#[test]
fn a_newer_or_foreign_file_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    drop(Catalog::open(&path).unwrap());
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let error = Catalog::open(&path).unwrap_err();
    assert!(matches!(error, CatalogError::TooNew { found: 99, .. }), "{error}");
    std::fs::write(&path, vec![b'z'; 8192]).unwrap();
    let error = Catalog::open(&path).unwrap_err();
    assert!(matches!(error, CatalogError::Corrupt { .. }), "{error}");
}

#[test]
fn an_emptied_or_cut_file_is_damaged_and_not_new() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    let catalog = Catalog::open(&path).unwrap();
    commit(&catalog, &row(1, "main", BucketState::Live), 1);
    drop(catalog);
    let whole = std::fs::read(&path).unwrap();
    for len in [0, 1, 20, 99, 100, 600, 4096, whole.len() - 4096] {
        std::fs::write(&path, &whole[..len]).unwrap();
        let opened = [Catalog::open_read_only(&path), Catalog::open_existing(&path)];
        for opened in opened {
            let read = opened.and_then(|catalog| catalog.log_position().and(catalog.buckets(BucketState::Live)));
            let error = read.unwrap_err();
            assert!(error.to_string().contains("is damaged"), "{len} bytes: {error}");
        }
    }
    assert!(Catalog::open_existing(&folder.path().join("missing")).is_err());
}

#[test]
fn a_file_that_nobody_changes_is_read_without_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("100% odd?name#.sqlite");
    let catalog = Catalog::open(&path).unwrap();
    commit(&catalog, &row(1, "main", BucketState::Live), 1);
    drop(catalog);
    let before = std::fs::read_dir(folder.path()).unwrap().count();
    let connection = crate::read_only_open::open_unchanging(&path).unwrap();
    let buckets = connection.query_row("SELECT count(*) FROM bucket", [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!((buckets, std::fs::read_dir(folder.path()).unwrap().count()), (1, before));
}

#[test]
fn forgotten_checkpoints_give_way_to_older_ones() {
    let catalog = Catalog::open_in_memory().unwrap();
    catalog.save_checkpoints(&[logged(b"a", 0, 10, 3), logged(b"b", 0, 20, 7), logged(b"c", 0, 30, 8)], 8).unwrap();
    catalog.forget_checkpoints(5, &[logged(b"b", 0, 9, 2)], 12).unwrap();
    assert_eq!(catalog.checkpoints_of(b"a", "").unwrap(), [logged(b"a", 0, 10, 3)]);
    assert_eq!(catalog.checkpoints_of(b"b", "").unwrap(), [logged(b"b", 0, 9, 2)]);
    assert_eq!(catalog.checkpoints_of(b"c", "").unwrap(), []);
    assert_eq!(catalog.log_position().unwrap(), 12);
}

/// Not meaningful for the superuser, who ignores permissions.
#[test]
fn what_is_not_folded_in_yet_is_not_left_out_where_nothing_can_be_written() {
    use std::os::unix::fs::PermissionsExt;
    for with_index in [true, false] {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let catalog = Catalog::open(&from.path().join("catalog.sqlite")).unwrap();
        commit(&catalog, &row(1, "main", BucketState::Live), 1);
        // The state that a killed process leaves.
        for name in ["catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"] {
            if with_index || !name.ends_with("shm") {
                std::fs::copy(from.path().join(name), to.path().join(name)).unwrap();
            }
        }
        std::fs::set_permissions(to.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
        match Catalog::open_read_only(&to.path().join("catalog.sqlite")) {
            Ok(opened) => assert_eq!(opened.buckets(BucketState::Live).unwrap().len(), 1),
            Err(error) => assert!(!with_index && error.to_string().contains("not closed properly"), "{error}"),
        }
        std::fs::set_permissions(to.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_compacted_bucket_takes_the_place_of_others_at_once() {
    let catalog = Catalog::open_in_memory().unwrap();
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

#[test]
fn a_forgotten_bucket_takes_its_origins_along() {
    let catalog = Catalog::open_in_memory().unwrap();
    let origins =
        || catalog.connection().query_row("SELECT count(*) FROM origin", [], |row| row.get::<_, i64>(0)).unwrap();
    catalog.begin_seal(&compacted(5, "main", BucketState::Sealing)).unwrap();
    assert_eq!(origins(), 2);
    catalog.forget(5).unwrap();
    assert_eq!(origins(), 0);
}

#[test]
fn deleted_events_are_noted_together_and_go_with_their_bucket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    let catalog = Catalog::open(&path).unwrap();
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
    catalog.forget_all(&[1, 2, 3]).unwrap();
    assert_eq!(catalog.deletions().unwrap(), [of(1, b"more")], "bucket 1 is live");
    catalog.check().unwrap();
    drop(catalog);
    assert_eq!(Catalog::open_read_only(&path).unwrap().deletions().unwrap(), [of(1, b"more")]);
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("DELETE FROM deletion").unwrap();
    assert!(Catalog::open_existing(&path).unwrap_err().to_string().contains("deletion"));
}

#[test]
fn a_catalog_from_before_deletions_is_read_checked_and_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    let catalog = Catalog::open(&path).unwrap();
    commit(&catalog, &row(7, "main", BucketState::Live), 7);
    drop(catalog);
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(WITHOUT_REMOTE).unwrap();
    let before = "DROP TABLE deletion; DELETE FROM digest WHERE name = 'deletion'; PRAGMA user_version = 4;";
    connection.execute_batch(before).unwrap();
    let old = Catalog::open_read_only(&path).unwrap();
    old.check().unwrap();
    assert_eq!((old.deletions().unwrap(), old.buckets(BucketState::Live).unwrap().len()), (vec![], 1));
    drop(old);
    Catalog::open_existing(&path).unwrap().check().unwrap();
    connection.execute_batch(&before.replace("PRAGMA", "UPDATE bucket SET events = 4; PRAGMA")).unwrap();
    assert!(Catalog::open_read_only(&path).is_err() && Catalog::open_existing(&path).is_err());
}

#[test]
fn a_catalog_of_the_first_version_is_read_as_it_is_and_brought_up_to_date_when_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    drop(Catalog::open(&path).unwrap());
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(WITHOUT_REMOTE).unwrap();
    connection
        .execute_batch(
            "DROP TABLE origin; DROP TABLE digest; DROP TABLE log_segment; DROP TABLE unanswered; DROP TABLE deletion;
             ALTER TABLE bucket DROP COLUMN level; ALTER TABLE bucket DROP COLUMN thawed;
             ALTER TABLE bucket DROP COLUMN checksum; ALTER TABLE position DROP COLUMN checksum;
             ALTER TABLE checkpoint DROP COLUMN checksum;
             ALTER TABLE checkpoint DROP COLUMN milestones; ALTER TABLE setting DROP COLUMN checksum;
             PRAGMA user_version = 1; INSERT INTO setting VALUES ('log_position', '41');
             INSERT INTO position VALUES ('main', 7);
             INSERT INTO bucket VALUES (7, 'main', 1, 'main/7.bucket', 'main/7.terms', 1, -5, 7, 3, 100, 40, 2, 9);",
        )
        .unwrap();
    drop(connection);
    let expected = [row(7, "main", BucketState::Live)];
    assert_eq!(Catalog::open_read_only(&path).unwrap().buckets(BucketState::Live).unwrap(), expected);
    let catalog = Catalog::open_existing(&path).unwrap();
    catalog.check().unwrap();
    assert_eq!((catalog.log_position().unwrap(), catalog.positions().unwrap()), (41, vec![("main".into(), 7)]));
    assert_eq!(catalog.buckets(BucketState::Live).unwrap(), expected);
    catalog.begin_seal(&compacted(8, "main", BucketState::Sealing)).unwrap();
    assert_eq!(catalog.buckets(BucketState::Sealing).unwrap(), [compacted(8, "main", BucketState::Sealing)]);
}

#[test]
fn rows_of_a_version_without_milestones_keep_their_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    let catalog = Catalog::open(&path).unwrap();
    catalog.save_checkpoints(&[logged(b"a", 0, 10, 3)], 3).unwrap();
    drop(catalog);
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(WITHOUT_REMOTE).unwrap();
    let before = "DROP TABLE deletion; DELETE FROM digest WHERE name = 'deletion';
         ALTER TABLE checkpoint DROP COLUMN milestones; PRAGMA user_version = 3;";
    connection.execute_batch(before).unwrap();
    drop(connection);
    let checkpoints = |catalog: &Catalog| catalog.checkpoints_of(b"a", "").unwrap();
    assert_eq!(checkpoints(&Catalog::open_read_only(&path).unwrap()), [logged(b"a", 0, 10, 3)]);
    let catalog = Catalog::open_existing(&path).unwrap();
    assert_eq!(checkpoints(&catalog), [logged(b"a", 0, 10, 3)]);
    catalog.save_checkpoints(&[logged(b"a", 0, 12, 4), logged(b"b", 2, 12, 4)], 4).unwrap();
    drop(catalog);
    let catalog = Catalog::open_existing(&path).unwrap();
    assert_eq!(catalog.checkpoints_of(b"b", "").unwrap(), [logged(b"b", 2, 12, 4)]);
    catalog.check().unwrap();
}

/// Everything a caller can read from the file, as text; or the error.
fn told(path: &Path, write: bool) -> Result<String, CatalogError> {
    let catalog = if write { Catalog::open_existing(path)? } else { Catalog::open_read_only(path)? };
    let mut told = format!("{:?} {:?}", catalog.positions()?, catalog.log_position()?);
    for state in [BucketState::Sealing, BucketState::Live, BucketState::Retired] {
        told += &format!("{:?}", catalog.buckets(state)?);
    }
    for number in 0..40_u32 {
        told += &format!("{:?}", catalog.checkpoints_of(&[number as u8; 9], "")?);
    }
    told += &format!("{:?} {:?} {:?}", catalog.log_segments()?, catalog.unanswered()?, catalog.deletions()?);
    catalog.check()?;
    Ok(told)
}

#[test]
fn flipped_bytes_are_an_error_or_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    let catalog = Catalog::open(&path).unwrap();
    for number in 1..40 {
        commit(&catalog, &row(number, "main", BucketState::Live), number);
        catalog.save_checkpoints(&[logged(&[number as u8; 9], 0, number * 10, number)], number).unwrap();
        catalog.note_log_segments(&[LogSegmentRow { first_lsn: number * 9, last_lsn: None }]).unwrap();
        let part = UnansweredPart { run: 1, number, key: u128::MAX / u128::from(number), time: 5 };
        catalog.change_unanswered(&[], &[part]).unwrap();
    }
    catalog.begin_seal(&compacted(41, "main", BucketState::Sealing)).unwrap();
    let deletions: Vec<DeletionRow> =
        (5..20).map(|bucket| DeletionRow { bucket, rows: vec![bucket as u8; 30] }).collect();
    assert!(catalog.commit_deletion(&DeletionCommit { deletions: &deletions, emptied: &[20] }).unwrap());
    catalog.retire(&[3, 4]).unwrap();
    catalog.forget_all(&[3]).unwrap();
    catalog.forget_log_segments(&[9]).unwrap();
    drop(catalog);
    let whole = std::fs::read(&path).unwrap();
    let truth = told(&path, false).unwrap();
    let (mut seed, mut errors) = (0x9e37_79b9_7f4a_7c15_u64, 0);
    for round in 0..1_500 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (seed >> 33) as usize % whole.len();
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (seed >> 20 & 7);
        std::fs::write(&path, &flipped).unwrap();
        for name in ["catalog.sqlite-wal", "catalog.sqlite-shm"] {
            drop(std::fs::remove_file(folder.path().join(name)));
        }
        match told(&path, round % 2 == 0) {
            Ok(found) => assert_eq!(found, truth, "byte {at} was flipped"),
            Err(error) => {
                errors += 1;
                assert!(error.to_string().contains("catalog.sqlite"), "{error}");
            }
        }
    }
    assert!(errors > 100, "{errors} of 1500");
}

#[test]
fn a_changed_or_missing_row_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    for (change, name) in [
        ("UPDATE bucket SET events = 4 WHERE number = 2", "row 2 of table bucket"),
        ("DELETE FROM bucket WHERE number = 2", "rows of table bucket are missing"),
        ("UPDATE position SET sealed_through = 9", "row main of table position"),
        ("DELETE FROM setting", "rows of table setting are missing"),
        ("UPDATE checkpoint SET offset = 0", "row f of table checkpoint"),
        ("DELETE FROM digest", "table digest"),
    ] {
        drop(std::fs::remove_file(&path));
        let catalog = Catalog::open(&path).unwrap();
        commit(&catalog, &row(1, "main", BucketState::Live), 1);
        commit(&catalog, &row(2, "main", BucketState::Live), 2);
        catalog.save_checkpoints(&[logged(b"a", 0, 10, 3)], 3).unwrap();
        catalog.connection().execute_batch(change).unwrap();
        drop(catalog);
        for opened in [Catalog::open_read_only(&path), Catalog::open_existing(&path)] {
            let error = opened.unwrap_err();
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

#[test]
fn a_copy_on_a_remote_store_goes_step_by_step() {
    use RemoteState::{Evicted, Evicting, Uploaded, Uploading};
    let catalog = Catalog::open_in_memory().unwrap();
    commit(&catalog, &row(3, "main", BucketState::Live), 3);
    assert!(!catalog.move_remote(3, Uploaded).unwrap(), "nothing was begun");
    assert_eq!(catalog.begin_uploads(&[3, 4], "cold", "main/1").unwrap(), [3]);
    assert_eq!(catalog.begin_uploads(&[3], "other", "main/2").unwrap(), [0; 0], "it has a place already");
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
        assert_eq!(catalog.move_remote(3, next).unwrap(), is_step, "{before:?} to {next:?}");
        assert_eq!(copy_of(&catalog, 3), if is_step { Some(next) } else { before });
    }
    catalog.retire(&[3]).unwrap();
    assert!(!catalog.move_remote(3, Evicting).unwrap(), "what is retired stays as it is");
    assert_eq!(copy_of(&catalog, 3), Some(Uploaded));
    catalog.check().unwrap();
}

#[test]
fn a_catalog_from_before_remote_copies_is_read_checked_and_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    let catalog = Catalog::open(&path).unwrap();
    commit(&catalog, &compacted(7, "main", BucketState::Live), 7);
    drop(catalog);
    Connection::open(&path).unwrap().execute_batch(WITHOUT_REMOTE).unwrap();
    let expected = [compacted(7, "main", BucketState::Live)];
    let old = Catalog::open_read_only(&path).unwrap();
    old.check().unwrap();
    assert_eq!(old.buckets(BucketState::Live).unwrap(), expected);
    drop(old);
    let catalog = Catalog::open_existing(&path).unwrap();
    catalog.check().unwrap();
    assert_eq!(catalog.buckets(BucketState::Live).unwrap(), expected);
    assert_eq!(catalog.begin_uploads(&[7], "cold", "main").unwrap(), [7]);
    drop(catalog);
    for damage in ["volume = 'hot'", "folder = NULL", "remote = 3"] {
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE kept AS SELECT * FROM bucket").unwrap();
        connection.execute_batch(&format!("UPDATE bucket SET {damage}")).unwrap();
        assert!(Catalog::open_read_only(&path).is_err(), "{damage}");
        let restore = "DELETE FROM bucket; INSERT INTO bucket SELECT * FROM kept; DROP TABLE kept";
        connection.execute_batch(restore).unwrap();
        Catalog::open_existing(&path).unwrap().check().unwrap();
    }
}

/// The second copy of a bucket on `volume`.
fn other(volume: &str, going: bool) -> Option<OtherCopy> {
    Some(OtherCopy { volume: volume.into(), folder: format!("{volume}/main"), going })
}

#[test]
fn a_bucket_moves_between_volumes_and_away_step_by_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    let catalog = Catalog::open(&path).unwrap();
    commit(&catalog, &row(1, "main", BucketState::Live), 1);
    let now = || catalog.bucket(1).unwrap().unwrap();
    let remote = |volume: &str, receipt| {
        let folder = format!("{volume}/main");
        Some(RemoteCopy { volume: volume.into(), folder, state: RemoteState::Uploaded, receipt: Some(receipt) })
    };
    assert!(!catalog.begin_move(1, "b", "b/main").unwrap(), "it is on no volume");
    assert_eq!(catalog.begin_uploads(&[1], "a", "a/main").unwrap(), [1]);
    assert!(!catalog.begin_move(1, "b", "b/main").unwrap(), "it is on its way");
    assert!(!catalog.note_receipt(1, 0).unwrap() && catalog.end_upload(1, 0).unwrap());
    assert!(!catalog.end_upload(1, 0).unwrap(), "it was uploaded");
    assert!(catalog.note_receipt(1, 2).unwrap());
    assert_eq!(now().remote, remote("a", 2));
    assert!(catalog.begin_move(1, "b", "b/main").unwrap());
    assert_eq!((now().remote, now().other), (remote("a", 2), other("b", false)));
    assert!(!catalog.begin_move(1, "c", "c/main").unwrap(), "one move at a time");
    assert!(!catalog.leave_volume(1).unwrap() && !catalog.end_leaving(1).unwrap());
    assert!(catalog.end_move(1, 3).unwrap());
    assert_eq!((now().remote, now().other), (remote("b", 3), other("a", true)));
    assert!(!catalog.end_move(1, 3).unwrap(), "what goes does not come back");
    assert!(catalog.end_leaving(1).unwrap() && catalog.leave_volume(1).unwrap());
    assert_eq!((now().remote, now().other), (None, other("b", true)));
    drop(catalog);
    let catalog = Catalog::open_existing(&path).unwrap();
    assert_eq!(catalog.bucket(1).unwrap().unwrap().other, other("b", true));
    assert!(catalog.end_leaving(1).unwrap());
    catalog.begin_uploads(&[1], "a", "a/main").unwrap();
    catalog.end_upload(1, 0).unwrap();
    assert!(catalog.begin_move(1, "b", "b/main").unwrap() && catalog.give_up_move(1).unwrap());
    assert_eq!(catalog.bucket(1).unwrap().unwrap().other, other("b", true));
    catalog.check().unwrap();
    catalog.retire(&[1]).unwrap();
    assert!(!catalog.end_leaving(1).unwrap(), "what is not live changes no more");
}

#[test]
fn what_a_bucket_holds_is_known_through_further_merges() {
    let catalog = Catalog::open_in_memory().unwrap();
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
    catalog.forget(1).unwrap();
    merge(6, &[4, 5]);
    assert_eq!((held(5), held(6)), (vec![], vec![2, 4, 5]));
    catalog.check().unwrap();
}

#[test]
fn found_buckets_come_back_but_for_those_that_others_replace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    let found = |number: u64, replaces: &[&str], deleted: Option<&[u8]>| FoundBucket {
        row: row(number, if number == 4 { "web" } else { "main" }, BucketState::Live),
        deleted: deleted.map(<[u8]>::to_vec),
        replaces: replaces.iter().map(|stem| (*stem).to_owned()).collect(),
    };
    let stem = |row: &BucketRow| format!("stem-{}", row.number);
    {
        let catalog = Catalog::open(&path).unwrap();
        catalog.add_found(&[found(7, &["stem-2", "stem-3"], None), found(1, &[], Some(b"rows"))]).unwrap();
        catalog.add_found(&[found(2, &[], Some(b"gone")), found(4, &[], None)]).unwrap();
        assert_eq!(catalog.end_rebuild(&stem).unwrap(), 1);
        catalog.close().unwrap();
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "one file");
    let catalog = Catalog::open_existing(&path).unwrap();
    let numbers = |state| catalog.buckets(state).unwrap().into_iter().map(|row| row.number).collect::<Vec<_>>();
    assert_eq!((numbers(BucketState::Live), numbers(BucketState::Retired)), (vec![1, 4, 7], vec![2]));
    assert_eq!(catalog.positions().unwrap(), [("main".to_owned(), 7), ("web".to_owned(), 7)]);
    assert_eq!((catalog.deletions().unwrap().len(), catalog.bucket_number_max().unwrap()), (2, 7));
    catalog.forget(2).unwrap();
    assert_eq!(catalog.setting("replaced stem-3").unwrap(), None);
    catalog.check().unwrap();
}
