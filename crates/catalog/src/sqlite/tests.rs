//! Files of older versions, damaged files, and files in folders that cannot be written to.

use std::path::Path;

use quarry_event::TimeRange;
use rusqlite::Connection;

use crate::tests::{commit, compacted, logged, row};
use crate::*;

/// Removes the indexes that the version with buckets by span added.
const WITHOUT_SPANS: &str = "DROP INDEX bucket_by_span; DROP INDEX bucket_not_live; PRAGMA user_version = 7;";
/// Removes the columns that the version with remote copies added.
const WITHOUT_REMOTE: &str = "DROP INDEX bucket_by_span; DROP INDEX bucket_not_live;
    DROP INDEX bucket_merged_into; DROP INDEX bucket_stem; ALTER TABLE bucket DROP COLUMN receipt;
    ALTER TABLE bucket DROP COLUMN stem; ALTER TABLE bucket DROP COLUMN other_volume;
    ALTER TABLE bucket DROP COLUMN other_folder; ALTER TABLE bucket DROP COLUMN other_going;
    ALTER TABLE bucket DROP COLUMN merged_into; ALTER TABLE bucket DROP COLUMN volume; ALTER TABLE bucket DROP COLUMN folder;
    ALTER TABLE bucket DROP COLUMN remote; PRAGMA user_version = 5;";

#[test]
fn newer_and_foreign_files_are_refused() {
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
fn emptied_or_truncated_files_are_damaged_not_new() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    let catalog = Catalog::open(&path).unwrap();
    commit(&catalog, &row(1, "main", BucketState::Live), 1);
    drop(catalog);
    let whole = std::fs::read(&path).unwrap();
    for len in [0, 1, 20, 99, 100, 600, 4096, whole.len() - 4096] {
        std::fs::write(&path, &whole[..len]).unwrap();
        let opened = [
            Catalog::open_read_only(&path, BucketCheck::AtOpening),
            Catalog::open_existing(&path, BucketCheck::AtOpening),
        ];
        for opened in opened {
            let read = opened.and_then(|catalog| catalog.log_position().and(catalog.buckets(BucketState::Live)));
            let error = read.unwrap_err();
            assert!(error.to_string().contains("is damaged"), "{len} bytes: {error}");
        }
    }
    assert!(Catalog::open_existing(&folder.path().join("missing"), BucketCheck::AtOpening).is_err());
}

#[test]
fn unchanging_files_are_readable_in_read_only_folders() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("100% odd?name#.sqlite");
    let catalog = Catalog::open(&path).unwrap();
    commit(&catalog, &row(1, "main", BucketState::Live), 1);
    drop(catalog);
    let before = std::fs::read_dir(folder.path()).unwrap().count();
    let connection = super::read_only_open::open_immutable(&path).unwrap();
    let buckets = connection.query_row("SELECT count(*) FROM bucket", [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!((buckets, std::fs::read_dir(folder.path()).unwrap().count()), (1, before));
}

/// Proves little when run by the superuser, to whom permissions do not apply.
#[test]
fn read_only_opens_include_the_write_ahead_log() {
    use std::os::unix::fs::PermissionsExt;
    for with_index in [true, false] {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let catalog = Catalog::open(&from.path().join("catalog.sqlite")).unwrap();
        commit(&catalog, &row(1, "main", BucketState::Live), 1);
        // Copies the files in the state that a killed process leaves.
        for name in ["catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"] {
            if with_index || !name.ends_with("shm") {
                std::fs::copy(from.path().join(name), to.path().join(name)).unwrap();
            }
        }
        std::fs::set_permissions(to.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
        match Catalog::open_read_only(&to.path().join("catalog.sqlite"), BucketCheck::AtOpening) {
            Ok(opened) => assert_eq!(opened.buckets(BucketState::Live).unwrap().len(), 1),
            Err(error) => assert!(!with_index && error.to_string().contains("not closed properly"), "{error}"),
        }
        std::fs::set_permissions(to.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn catalogs_before_deletions_are_verified_and_migrated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    let catalog = Catalog::open(&path).unwrap();
    commit(&catalog, &row(7, "main", BucketState::Live), 7);
    drop(catalog);
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(WITHOUT_REMOTE).unwrap();
    let before = "DROP TABLE deletion; DELETE FROM digest WHERE name = 'deletion'; PRAGMA user_version = 4;";
    connection.execute_batch(before).unwrap();
    let old = Catalog::open_read_only(&path, BucketCheck::AtOpening).unwrap();
    old.check().unwrap();
    assert_eq!((old.deletions().unwrap(), old.buckets(BucketState::Live).unwrap().len()), (vec![], 1));
    drop(old);
    Catalog::open_existing(&path, BucketCheck::AtOpening).unwrap().check().unwrap();
    connection.execute_batch(&before.replace("PRAGMA", "UPDATE bucket SET events = 4; PRAGMA")).unwrap();
    assert!(
        Catalog::open_read_only(&path, BucketCheck::AtOpening).is_err()
            && Catalog::open_existing(&path, BucketCheck::AtOpening).is_err()
    );
}

#[test]
fn first_version_catalogs_are_readable_and_migrated() {
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
    assert_eq!(
        Catalog::open_read_only(&path, BucketCheck::AtOpening).unwrap().buckets(BucketState::Live).unwrap(),
        expected
    );
    let catalog = Catalog::open_existing(&path, BucketCheck::AtOpening).unwrap();
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
    assert_eq!(checkpoints(&Catalog::open_read_only(&path, BucketCheck::AtOpening).unwrap()), [logged(b"a", 0, 10, 3)]);
    let catalog = Catalog::open_existing(&path, BucketCheck::AtOpening).unwrap();
    assert_eq!(checkpoints(&catalog), [logged(b"a", 0, 10, 3)]);
    catalog.save_checkpoints(&[logged(b"a", 0, 12, 4), logged(b"b", 2, 12, 4)], 4).unwrap();
    drop(catalog);
    let catalog = Catalog::open_existing(&path, BucketCheck::AtOpening).unwrap();
    assert_eq!(catalog.checkpoints_of(b"b", "").unwrap(), [logged(b"b", 2, 12, 4)]);
    catalog.check().unwrap();
}

/// Everything a caller can read from the file, as text; or the error.
fn readable_content(path: &Path, write: bool) -> Result<String, CatalogError> {
    let catalog = if write {
        Catalog::open_existing(path, BucketCheck::AtOpening)?
    } else {
        Catalog::open_read_only(path, BucketCheck::AtOpening)?
    };
    let mut told = format!("{:?} {:?}", catalog.positions()?, catalog.log_position()?);
    for state in [BucketState::Sealing, BucketState::Live, BucketState::Retired] {
        told += &format!("{:?}", catalog.buckets(state)?);
    }
    for number in 0..40_u32 {
        told += &format!("{:?}", catalog.checkpoints_of(&[number as u8; 9], "")?);
    }
    for names in [&["main"][..], &["main", "other"]] {
        told += &format!("{:?}", catalog.overlapping(names, &TimeRange { earliest: Some(7), latest: Some(9) })?);
    }
    told += &format!("{:?} {:?} {:?}", catalog.log_segments()?, catalog.unanswered()?, catalog.deletions()?);
    catalog.check()?;
    Ok(told)
}

#[test]
fn flipped_bytes_cause_an_error_or_have_no_effect() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    let catalog = Catalog::open(&path).unwrap();
    for number in 1..40 {
        commit(&catalog, &row(number, "main", BucketState::Live), number);
        catalog.save_checkpoints(&[logged(&[number as u8; 9], 0, number * 10, number)], number).unwrap();
        catalog.record_log_segments(&[LogSegmentRow { first_lsn: number * 9, last_lsn: None }]).unwrap();
        let part = UnansweredPart { run: 1, number, key: u128::MAX / u128::from(number), time: 5 };
        catalog.change_unanswered(&[], &[part]).unwrap();
    }
    catalog.begin_seal(&compacted(41, "main", BucketState::Sealing)).unwrap();
    let deletions: Vec<DeletionRow> =
        (5..20).map(|bucket| DeletionRow { bucket, rows: vec![bucket as u8; 30] }).collect();
    assert!(catalog.commit_deletion(&DeletionCommit { deletions: &deletions, emptied: &[20] }).unwrap());
    catalog.retire(&[3, 4]).unwrap();
    catalog.remove_buckets(&[3]).unwrap();
    catalog.remove_log_segments(&[9]).unwrap();
    drop(catalog);
    let whole = std::fs::read(&path).unwrap();
    let truth = readable_content(&path, false).unwrap();
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
        match readable_content(&path, round % 2 == 0) {
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
fn catalogs_before_remote_copies_are_verified_and_migrated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    let catalog = Catalog::open(&path).unwrap();
    commit(&catalog, &compacted(7, "main", BucketState::Live), 7);
    drop(catalog);
    Connection::open(&path).unwrap().execute_batch(WITHOUT_REMOTE).unwrap();
    let expected = [compacted(7, "main", BucketState::Live)];
    let old = Catalog::open_read_only(&path, BucketCheck::AtOpening).unwrap();
    old.check().unwrap();
    assert_eq!(old.buckets(BucketState::Live).unwrap(), expected);
    drop(old);
    let catalog = Catalog::open_existing(&path, BucketCheck::AtOpening).unwrap();
    catalog.check().unwrap();
    assert_eq!(catalog.buckets(BucketState::Live).unwrap(), expected);
    assert_eq!(catalog.begin_uploads(&[7], "cold", "main").unwrap(), [7]);
    drop(catalog);
    for damage in ["volume = 'hot'", "folder = NULL", "remote = 3"] {
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE kept AS SELECT * FROM bucket").unwrap();
        connection.execute_batch(&format!("UPDATE bucket SET {damage}")).unwrap();
        assert!(Catalog::open_read_only(&path, BucketCheck::AtOpening).is_err(), "{damage}");
        let restore = "DELETE FROM bucket; INSERT INTO bucket SELECT * FROM kept; DROP TABLE kept";
        connection.execute_batch(restore).unwrap();
        Catalog::open_existing(&path, BucketCheck::AtOpening).unwrap().check().unwrap();
    }
}

#[test]
fn catalogs_before_spans_are_searchable_and_migrated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    let catalog = Catalog::open(&path).unwrap();
    commit(&catalog, &compacted(7, "main", BucketState::Live), 7);
    catalog.begin_seal(&row(8, "main", BucketState::Sealing)).unwrap();
    drop(catalog);
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(WITHOUT_SPANS).unwrap();
    let expected = [BucketSpan { number: 7, time_min: -5, time_max: 7 }];
    let old = Catalog::open_read_only(&path, BucketCheck::AtOpening).unwrap();
    old.check().unwrap();
    assert_eq!(old.overlapping(&["main"], &TimeRange::ALL).unwrap(), expected);
    drop(old);
    let catalog = Catalog::open_existing(&path, BucketCheck::AtOpening).unwrap();
    catalog.check().unwrap();
    assert_eq!(catalog.overlapping(&["main"], &TimeRange::ALL).unwrap(), expected);
    let count = "SELECT count(*) FROM sqlite_master WHERE name IN ('bucket_by_span', 'bucket_not_live')";
    assert_eq!(connection.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap(), 2);
}

#[test]
fn incomplete_database_indexes_are_reported_as_damage() {
    let catalog = Catalog::open_in_memory().unwrap();
    commit(&catalog, &row(1, "main", BucketState::Live), 1);
    catalog.check().unwrap();
    // A row is added while the index is hidden.
    catalog.database.run_script(
        "CREATE TEMP TABLE kept AS SELECT * FROM sqlite_master WHERE name = 'bucket_by_span';
         PRAGMA writable_schema = 1; DELETE FROM sqlite_master WHERE name = 'bucket_by_span';
         PRAGMA writable_schema = RESET;",
    );
    commit(&catalog, &row(2, "main", BucketState::Live), 2);
    catalog.database.run_script(
        "PRAGMA writable_schema = 1; INSERT INTO sqlite_master SELECT * FROM kept; PRAGMA writable_schema = RESET;",
    );
    assert_eq!(
        catalog.overlapping(&["main"], &TimeRange::ALL).unwrap().len(),
        1,
        "the row that the index lacks is not found"
    );
    let error = catalog.check().unwrap_err();
    assert!(matches!(error, CatalogError::Corrupt { .. }), "{error}");
}

#[test]
fn closed_catalogs_are_a_single_file() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(&folder.path().join("catalog.sqlite")).unwrap();
    commit(&catalog, &row(1, "main", BucketState::Live), 1);
    catalog.close().unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_busy_database_does_not_fail_a_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.sqlite");
    let catalog = Catalog::open(&path).unwrap();
    let other = Connection::open(&path).unwrap();
    other.busy_timeout(std::time::Duration::ZERO).unwrap();
    // Another process cannot write between the first statement, which reads, and the second, which writes.
    let written = catalog.write(|act| {
        act.number("SELECT count(*) FROM setting", &[])?;
        let written = other.execute("INSERT INTO setting (name, value, checksum) VALUES ('other', '', 0)", []);
        assert!(written.is_err(), "the database is locked");
        crate::setting::write_setting(act, "own", "1")
    });
    written.unwrap();
    // SQLite reports some conflicts without waiting.
    let mut attempts = 0;
    let busy = || rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None);
    let written = catalog.write(|act| {
        attempts += 1;
        crate::setting::write_setting(act, "own", "2")?;
        if attempts < 3 { Err(busy().into()) } else { Ok(()) }
    });
    written.unwrap();
    assert_eq!((attempts, catalog.setting("own").unwrap().as_deref()), (3, Some("2")));
    // The number of attempts is limited.
    let refused = catalog.write(|_| Err::<(), _>(busy().into()));
    assert!(matches!(refused, Err(CatalogError::Busy { .. })), "{refused:?}");
    catalog.check().unwrap();
}
