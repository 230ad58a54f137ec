//! Lost connections, lost answers, killed servers, second writers, and schemas without a valid catalog.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use quarry_event::TimeRange;
use quarry_pgworld::{Cut, CuttingProxy, PostgreSql as Server};
use quarry_stdx::{ErrorKind, HasKind, SystemClock};

use super::*;
use crate::setting::write_setting;
use crate::tests::{Place, commit, compacted, logged, new_schema, row};
use crate::*;

/// Wait of a test that expects the server to come back.
const LONG: Duration = Duration::from_secs(60);
/// Wait of a test that expects the server to stay away.
const SHORT: Duration = Duration::from_millis(300);

fn place(url: &str, schema: &str, wait: Duration) -> PostgreSqlLocation {
    let settings = PostgreSqlSettings { url: url.to_owned(), wait, ..PostgreSqlSettings::default() };
    PostgreSqlLocation::new(&settings, schema).unwrap()
}

fn open(place: &PostgreSqlLocation) -> Result<Catalog, CatalogError> {
    Catalog::open_postgresql(place, &SystemClock::shared())
}

/// A catalog that lost its connection at any message of a transaction executes the transaction exactly once.
fn is_done_once(catalog: &Catalog, proxy: &CuttingProxy, cut: impl Fn(u64)) {
    for number in 1..=3 {
        commit(catalog, &row(number, "main", BucketState::Live), 4);
    }
    let cuts = proxy.cuts();
    cut(1);
    let bucket = compacted(4, "main", BucketState::Live);
    let merge = CompactionCommit { bucket: &bucket, inputs: &[1, 2] };
    assert!(catalog.commit_compaction(&merge).unwrap(), "a second time it would be refused");
    cut(2);
    catalog.save_checkpoints(&[logged(b"a", 1, 10, 3), logged(b"b", 0, 20, 4)], 4).unwrap();
    cut(3);
    assert_eq!(catalog.begin_uploads(&[3], "cold", "main").unwrap(), [3]);
    cut(4);
    assert_eq!(catalog.buckets(BucketState::Live).unwrap().len(), 2);
    assert_eq!(catalog.merged_into(4).unwrap().len(), 2);
    cut(5);
    catalog.remove_buckets(&[1, 2]).unwrap();
    assert_eq!(catalog.log_position().unwrap(), 4);
    assert_eq!(catalog.buckets(BucketState::Retired).unwrap(), []);
    catalog.check().unwrap();
    assert!(proxy.cuts() >= cuts, "cuts are counted");
    catalog.retire(&[3, 4]).unwrap();
    catalog.remove_buckets(&[3, 4]).unwrap();
}

#[test]
fn lost_connections_only_delay_transactions() {
    let server = Server::shared();
    let proxy = CuttingProxy::start(server.socket());
    let place = place(&server.url_through(proxy.address()), &new_schema(), LONG);
    let catalog = open(&place).unwrap();
    // More messages than the longest of these transactions sends, including those of reconnecting.
    for message in 1..40 {
        is_done_once(&catalog, &proxy, |_| proxy.cut(Cut::Message(message)));
    }
    assert!(proxy.cuts() > 50, "{} cuts", proxy.cuts());
    for cut in [Cut::BeforeCommit, Cut::AfterCommit] {
        let before = proxy.cuts();
        is_done_once(&catalog, &proxy, |_| proxy.cut(cut));
        assert!(proxy.cuts() >= before + 4, "{cut:?}");
    }
    for step in 1..=5 {
        is_done_once(&catalog, &proxy, |now| {
            if now == step {
                server.run(
                    "quarry",
                    &format!(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                     WHERE application_name LIKE 'quarry %' AND pid IN (SELECT pid FROM pg_locks
                     WHERE locktype = 'advisory' AND objid = {})",
                        lock_key(place.schema()) & i64::from(u32::MAX)
                    ),
                );
            }
        });
    }
}

#[test]
fn commits_without_an_answer_are_found_later() {
    let server = Server::shared();
    let proxy = CuttingProxy::start(server.socket());
    let place = place(&server.url_through(proxy.address()), &new_schema(), Duration::ZERO);
    let catalog = open(&place).unwrap();
    let seal = |number: u64| {
        let bucket = row(number, "main", BucketState::Live);
        let buckets = [Sealed { bucket: &bucket, sealed_through: number }];
        catalog.commit_seals(&SealCommit { buckets: &buckets, checkpoints: &[], log_position: 0 })
    };
    // The server may notice the lost connection a little later.
    let is_live = |number: u64| (0..1_000).find_map(|_| catalog.is_live_for_certain(number).ok()).unwrap();
    for (number, cut, is_committed) in [(1, Cut::AfterCommit, true), (2, Cut::BeforeCommit, false)] {
        catalog.begin_seal(&row(number, "main", BucketState::Sealing)).unwrap();
        proxy.cut(cut);
        seal(number).unwrap_err();
        assert_eq!(is_live(number), is_committed, "{cut:?}");
    }
    let error = catalog.begin_seal(&row(1, "main", BucketState::Sealing)).unwrap_err();
    assert!(error.to_string().contains("bucket 1 is sealed already"), "{error}");
    assert!(is_live(1));
    let deletion = |rows: &[u8]| DeletionRow { bucket: 1, rows: rows.to_vec() };
    proxy.cut(Cut::AfterCommit);
    let commit = [deletion(&[1])];
    catalog.commit_deletion(&DeletionCommit { deletions: &commit, emptied: &[] }).unwrap_err();
    let is_deleted =
        |rows: &[u8]| (0..1_000).find_map(|_| catalog.is_deleted_for_certain(&deletion(rows)).ok()).unwrap();
    assert_eq!((is_deleted(&[1]), is_deleted(&[1, 2])), (true, false));
    catalog.check().unwrap();
}

#[test]
fn a_panic_inside_a_transaction_rolls_it_back() {
    let place = place(&Server::shared().url(), &new_schema(), LONG);
    let catalog = open(&place).unwrap();
    catalog.set_setting("a", "before").unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        catalog.write(|act| -> StepResult<()> {
            write_setting(act, "a", "never")?;
            panic!("on purpose")
        })
    }));
    assert!(panicked.is_err());
    catalog.set_setting("b", "after").unwrap();
    assert_eq!(catalog.setting("a").unwrap().as_deref(), Some("before"));
    // A reader that panicked does not keep its view of the rows.
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        catalog.read(|act| -> StepResult<()> {
            act.exists("SELECT 1 FROM setting", values![])?;
            panic!("on purpose")
        })
    }));
    assert!(panicked.is_err());
    catalog.set_setting("a", "later").unwrap();
    assert_eq!(catalog.setting("a").unwrap().as_deref(), Some("later"));
    catalog.check().unwrap();
}

#[test]
fn reads_are_not_repeated_because_their_end_has_no_answer() {
    let server = Server::shared();
    let proxy = CuttingProxy::start(server.socket());
    let place = place(&server.url_through(proxy.address()), &new_schema(), LONG);
    let catalog = open(&place).unwrap();
    catalog.set_setting("a", "b").unwrap();
    for cut in [Cut::BeforeCommit, Cut::AfterCommit] {
        proxy.cut(cut);
        let mut runs = 0;
        catalog
            .read(|act| {
                runs += 1;
                act.exists("SELECT 1 FROM setting", values![])
            })
            .unwrap();
        assert_eq!(runs, 1, "{cut:?}");
        assert_eq!(catalog.setting("a").unwrap().as_deref(), Some("b"));
    }
    // A copy writes to its target while it reads the source in one transaction, which must not be repeated either.
    proxy.cut(Cut::BeforeCommit);
    let target = Place::sqlite();
    let target = target.open().unwrap();
    catalog.copy_to(&target).unwrap();
    assert_eq!(target.setting("a").unwrap().as_deref(), Some("b"));
}

#[test]
fn server_restarts_neither_lose_nor_duplicate_changes() {
    let mut server = Server::start();
    let place = place(&server.url(), &new_schema(), LONG);
    let catalog = open(&place).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                number += 2;
                commit(&catalog, &row(number - 1, "main", BucketState::Live), number - 1);
                let bucket = BucketRow { level: 1, ..row(number, "main", BucketState::Live) };
                let merge = CompactionCommit { bucket: &bucket, inputs: &[number - 1] };
                assert!(catalog.commit_compaction(&merge).unwrap(), "bucket {number} twice");
            }
            number
        });
        let reading = scope.spawn(|| {
            let mut seen = 0;
            while !is_over.load(Ordering::Relaxed) {
                let max = catalog.bucket_number_max().unwrap();
                assert!(max >= seen, "{max} after {seen}");
                seen = max;
            }
        });
        for _ in 0..4 {
            let before = catalog.bucket_number_max().unwrap();
            while catalog.bucket_number_max().unwrap() < before + 20 && !writing.is_finished() {
                std::thread::yield_now();
            }
            server.kill();
            server.restart();
        }
        is_over.store(true, Ordering::Relaxed);
        let last = writing.join().unwrap();
        reading.join().unwrap();
        let merged: Vec<u64> =
            catalog.buckets(BucketState::Retired).unwrap().into_iter().map(|bucket| bucket.number).collect();
        assert_eq!(merged, (1..=last).step_by(2).collect::<Vec<_>>());
        assert_eq!(catalog.buckets(BucketState::Live).unwrap().len() as u64, last / 2);
    });
    catalog.check().unwrap();
    drop(catalog);
    Catalog::open_existing_postgresql(&place, &SystemClock::shared(), BucketCheck::AtOpening).unwrap().check().unwrap();
}

#[test]
fn unavailable_servers_cause_an_error_until_they_return() {
    let mut server = Server::start();
    let place = place(&server.url(), &new_schema(), SHORT);
    let catalog = open(&place).unwrap();
    catalog.set_setting("a", "b").unwrap();
    server.kill();
    let unreachable = |error: CatalogError| {
        assert!(matches!(error, CatalogError::Unreachable { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("unreachable for"), "{error}");
    };
    unreachable(catalog.set_setting("a", "c").unwrap_err());
    unreachable(catalog.setting("a").unwrap_err());
    unreachable(open(&place).unwrap_err());
    server.restart();
    // The sessions are gone, and the server may still be recovering at the first attempt.
    assert_eq!(catalog.setting("a").unwrap().as_deref(), Some("b"));
    catalog.set_setting("a", "d").unwrap();
    assert_eq!(catalog.setting("a").unwrap().as_deref(), Some("d"));
}

#[test]
fn replaced_writers_cannot_write() {
    let server = Server::start();
    let place = place(&server.url(), &new_schema(), SHORT);
    let first = open(&place).unwrap();
    first.set_setting("a", "1").unwrap();
    let error = open(&place).unwrap_err();
    assert!(matches!(error, CatalogError::Busy { .. }), "{error}");
    let reader = Catalog::open_read_only_postgresql(&place, &SystemClock::shared(), BucketCheck::AtOpening).unwrap();
    assert_eq!(reader.setting("a").unwrap().as_deref(), Some("1"));
    assert!(reader.set_setting("a", "2").unwrap_err().to_string().contains("reading only"));
    drop(first);
    let first = open(&place).unwrap();
    // A restarted server has lost the lock, and another process takes it first.
    server.end_sessions();
    let second = (0..100).find_map(|_| open(&place).ok()).unwrap();
    let error = first.set_setting("a", "3").unwrap_err();
    assert!(matches!(error, CatalogError::Busy { .. }), "{error}");
    second.set_setting("a", "4").unwrap();
    drop(second);
    let error = (0..100).find_map(|_| match first.set_setting("a", "5") {
        Err(CatalogError::Busy { .. }) => None,
        other => Some(other.unwrap_err()),
    });
    assert!(error.unwrap().to_string().contains("another process has become its writer"));
    assert_eq!(open(&place).unwrap().setting("a").unwrap().as_deref(), Some("4"));
}

#[test]
fn servers_that_lost_commits_are_refused() {
    let server = Server::start();
    let place = place(&server.url(), &new_schema(), SHORT);
    let catalog = open(&place).unwrap();
    (0..3).for_each(|_| catalog.set_setting("a", "b").unwrap());
    // As on a standby that had not received the last transaction.
    server.run("quarry", &format!("UPDATE {}.writer SET transaction = 2", place.schema()));
    server.end_sessions();
    let error = catalog.set_setting("a", "c").unwrap_err();
    assert!(matches!(error, CatalogError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("from number 3 to 3"), "{error}");
}

#[test]
fn incomplete_or_unknown_catalogs_are_refused() {
    let server = Server::shared();
    let schema = new_schema();
    let place = place(&server.url(), &schema, SHORT);
    let existing = || Catalog::open_existing_postgresql(&place, &SystemClock::shared(), BucketCheck::AtOpening);
    let reader = || Catalog::open_read_only_postgresql(&place, &SystemClock::shared(), BucketCheck::AtOpening);
    for error in [existing().unwrap_err(), reader().unwrap_err()] {
        assert!(error.to_string().contains(&format!("there is no schema {schema}")), "{error}");
    }
    drop(open(&place).unwrap());
    existing().unwrap().check().unwrap();
    for (damage, told) in [
        ("UPDATE version SET version = 99", "has version 99, but this quarry supports only up to"),
        ("UPDATE version SET version = 7; DROP TABLE deletion", "has 10 tables"),
        ("DROP TABLE version", "no table named version"),
    ] {
        server.run("quarry", &format!("SET search_path = {schema}; {damage}"));
        for error in [existing().unwrap_err(), open(&place).unwrap_err(), reader().unwrap_err()] {
            assert!(error.to_string().contains(told), "{damage}: {error}");
        }
    }
}

#[test]
fn missing_roles_and_databases_are_reported_immediately() {
    let server = Server::shared();
    let url = server.url();
    let (rest, after) = url.rsplit_once("/quarry").unwrap();
    for (url, told) in [
        (url.replace("quarry@", "nobody_here@"), "role \"nobody_here\" does not exist"),
        (format!("{rest}/nothing_here{after}"), "database \"nothing_here\" does not exist"),
    ] {
        let error = open(&place(&url, &new_schema(), LONG)).unwrap_err();
        assert!(matches!(error, CatalogError::Failed { .. }), "{error}");
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn existing_empty_schemas_are_used_without_create_permission() {
    let server = Server::start();
    let schema = new_schema();
    server.run("quarry", &format!("CREATE ROLE guest LOGIN; CREATE SCHEMA {schema} AUTHORIZATION guest"));
    let url = server.url().replace("quarry@", "guest@");
    open(&place(&url, &schema, SHORT)).unwrap().check().unwrap();
    let error = open(&place(&url, &new_schema(), SHORT)).unwrap_err();
    assert!(error.to_string().contains("grant the role CREATE"), "{error}");
}

#[test]
fn catalogs_are_copied_both_ways_but_never_over_another() {
    let (file, database) = (Place::sqlite(), Place::postgresql());
    let catalog = file.open().unwrap();
    for number in 1..=500 {
        commit(&catalog, &row(number, "main", BucketState::Live), number);
    }
    catalog.begin_seal(&compacted(501, "main", BucketState::Sealing)).unwrap();
    catalog.save_checkpoints(&[logged(b"a", 3, 10, 3)], 9).unwrap();
    catalog.set_setting("odd", "a\0b\u{1a}0").unwrap();
    catalog
        .commit_deletion(&DeletionCommit { deletions: &[DeletionRow { bucket: 7, rows: vec![0, 255] }], emptied: &[] })
        .unwrap();
    let told = |catalog: &Catalog| {
        catalog.check().unwrap();
        let states = [BucketState::Sealing, BucketState::Live].map(|state| catalog.buckets(state).unwrap());
        let checkpoints = catalog.checkpoints_of(b"a", "").unwrap();
        format!("{states:?} {checkpoints:?} {:?} {:?}", catalog.setting("odd"), catalog.deletions())
    };
    let expected = told(&catalog);
    let there = database.open().unwrap();
    // 501 buckets, 2 origins, a position, a checkpoint, 2 settings, a deletion.
    assert_eq!(catalog.copy_to(&there).unwrap(), 501 + 2 + 1 + 1 + 2 + 1);
    assert_eq!(told(&there), expected);
    let back = Place::sqlite();
    let back = back.open().unwrap();
    there.copy_to(&back).unwrap();
    assert_eq!(told(&back), expected);
    for (from, to) in [(&catalog, &there), (&there, &back)] {
        let error = from.copy_to(to).unwrap_err();
        assert!(error.to_string().contains("is not empty"), "{error}");
        assert_eq!(told(to), expected);
    }
}

#[test]
fn schemas_before_spans_are_readable_and_migrated() {
    let place = place(&Server::shared().url(), &new_schema(), SHORT);
    let catalog = open(&place).unwrap();
    commit(&catalog, &compacted(7, "main", BucketState::Live), 7);
    catalog.database.run_script(
        "DROP INDEX bucket_by_span; UPDATE version SET version = 7;
         CREATE INDEX bucket_by_time ON bucket (index_name, time_max, time_min) WHERE state = 1",
    );
    drop(catalog);
    let expected = vec![BucketSpan { number: 7, time_min: -5, time_max: 7 }];
    let found = |catalog: &Catalog| catalog.overlapping(&["main"], &TimeRange::ALL).unwrap();
    let indexes = |catalog: &Catalog| {
        let select =
            "SELECT indexname FROM pg_catalog.pg_indexes WHERE schemaname = ?1 AND indexname LIKE 'bucket_by%'";
        catalog.read(|act| act.rows(select, values![&*place.schema], |row| row.take::<String>(0))).unwrap()
    };
    let old = Catalog::open_read_only_postgresql(&place, &SystemClock::shared(), BucketCheck::AtOpening).unwrap();
    assert_eq!((found(&old), indexes(&old)), (expected.clone(), vec!["bucket_by_time".to_owned()]));
    old.check().unwrap();
    drop(old);
    // Twice: the second time there is nothing left to change.
    for _ in 0..2 {
        let catalog =
            Catalog::open_existing_postgresql(&place, &SystemClock::shared(), BucketCheck::AtOpening).unwrap();
        assert_eq!((found(&catalog), indexes(&catalog)), (expected.clone(), vec!["bucket_by_span".to_owned()]));
        catalog.check().unwrap();
    }
    open(&place).unwrap().database.run_script("UPDATE version SET version = 6");
    assert!(open(&place).unwrap_err().to_string().contains("version 6"));
}
