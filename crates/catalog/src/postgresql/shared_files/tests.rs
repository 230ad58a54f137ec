//! Shared files: changes by several nodes, lost connections and answers, killed servers, damage.

use std::time::Duration;

use quarry_pgworld::{Cut, CuttingProxy, PostgreSql as Server};
use quarry_stdx::SystemClock;

use super::*;
use crate::tests::new_schema;
use crate::{PostgreSqlSettings, SharedDocumentTable};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);

fn place(url: &str, schema: &str, wait: Duration) -> PostgreSqlLocation {
    let settings = PostgreSqlSettings { url: url.to_owned(), wait, ..PostgreSqlSettings::default() };
    PostgreSqlLocation::new(&settings, schema).unwrap()
}

fn open(place: &PostgreSqlLocation) -> SharedFileTable {
    SharedFileTable::open(place, &SystemClock::shared()).unwrap()
}

fn begin(table: &SharedFileTable) -> Result<(), CatalogError> {
    table.lock(table.sessions.database.clock.elapsed_ns())
}

fn put(table: &SharedFileTable, path: &str, known: i64, content: Option<&str>) -> SharedPutResult {
    table.put(&[SharedFileChange { path, known, content: content.map(str::as_bytes) }]).unwrap()
}

/// Number of a file's last change, and the file's text.
fn read(table: &SharedFileTable, path: &str) -> (i64, Option<String>) {
    let now = Some(table.sessions.database.clock.elapsed_ns());
    let file = table.file(path, now).unwrap();
    file.map_or((0, None), |file| (file.version, file.content.map(|bytes| String::from_utf8(bytes).unwrap())))
}

/// Adds 1 to the number in a file.
fn count_up(table: &SharedFileTable) {
    begin(table).unwrap();
    let (known, text) = read(table, "count");
    let next = text.map_or(1, |text| text.parse::<i64>().unwrap() + 1);
    assert_eq!(put(table, "count", known, Some(&next.to_string())), SharedPutResult::Done(next));
    table.unlock();
}

#[test]
fn changes_are_visible_to_all_nodes_and_conflicts_refused() {
    let place = place(&Server::shared().url(), &new_schema(), LONG);
    let (a, b) = (open(&place), open(&place));
    begin(&a).unwrap();
    assert_eq!(put(&a, "x", 0, Some("one")), SharedPutResult::Done(1));
    a.unlock();
    assert_eq!(read(&b, "x"), (1, Some("one".to_owned())));
    assert_eq!(put(&b, "x", 0, Some("other")), SharedPutResult::Conflict);
    assert_eq!(put(&b, "x", 1, Some("two")), SharedPutResult::Done(2));
    assert_eq!(put(&a, "x", 1, None), SharedPutResult::Conflict);
    let both = [("y", 0, "new"), ("x", 1, "late")].map(|(path, known, text)| SharedFileChange {
        path,
        known,
        content: Some(text.as_bytes()),
    });
    assert_eq!(a.put(&both).unwrap(), SharedPutResult::Conflict);
    assert_eq!(read(&a, "y"), (0, None), "all changes or none");
    assert_eq!(put(&a, "x", 2, None), SharedPutResult::Done(3));
    assert_eq!(read(&b, "x"), (3, None));
    assert_eq!(put(&b, "x", 0, Some("again")), SharedPutResult::Done(4), "a removed file can be made anew");
    let newer = |version| b.changes_since(version, None).unwrap();
    assert_eq!(newer(0), (4, vec![SharedFileRow { path: "x".to_owned(), version: 4 }]));
    assert_eq!(newer(4), (4, Vec::new()));
}

#[test]
fn concurrent_changes_of_a_file_are_not_lost() {
    const NODES: usize = 3;
    const ROUNDS: usize = 40;
    let place = place(&Server::shared().url(), &new_schema(), LONG);
    std::thread::scope(|scope| {
        for _ in 0..NODES {
            scope.spawn(|| {
                let table = open(&place);
                (0..ROUNDS).for_each(|_| count_up(&table));
            });
        }
    });
    assert_eq!(read(&open(&place), "count").1, Some((NODES * ROUNDS).to_string()));
}

#[test]
fn lost_connections_apply_a_change_exactly_once() {
    let server = Server::shared();
    let proxy = CuttingProxy::start(server.socket());
    let schema = new_schema();
    let near = open(&place(&server.url(), &schema, LONG));
    let far = open(&place(&server.url_through(proxy.address()), &schema, LONG));
    let cuts = (1..25).map(Cut::Message).chain([Cut::BeforeCommit, Cut::AfterCommit]);
    let mut count = 0;
    for cut in cuts {
        proxy.cut(cut);
        count_up(&far);
        count_up(&near);
        count += 2;
        assert_eq!(read(&near, "count"), (count, Some(count.to_string())), "{cut:?}");
    }
    assert!(proxy.cuts() > 20, "{} cuts", proxy.cuts());
}

#[test]
fn waits_for_locks_and_servers_are_bounded() {
    let mut server = Server::start();
    let place = place(&server.url(), &new_schema(), SHORT);
    let (a, b) = (open(&place), open(&place));
    begin(&a).unwrap();
    assert!(matches!(begin(&b), Err(CatalogError::Busy { .. })));
    a.unlock();
    begin(&b).unwrap();
    b.unlock();
    server.kill();
    assert!(matches!(begin(&a), Err(CatalogError::Unreachable { .. })));
    assert!(matches!(a.changes_since(0, None), Err(CatalogError::Unreachable { .. })));
    server.restart();
    assert!((0..100).any(|_| begin(&a).is_ok()));
    assert_eq!(put(&a, "x", 0, Some("one")), SharedPutResult::Done(1));
    a.unlock();
    // A dead node no longer holds the lock.
    begin(&b).unwrap();
    drop(b);
    begin(&a).unwrap();
}

#[test]
fn damage_and_foreign_tables_are_reported() {
    let server = Server::shared();
    let schema = new_schema();
    let place = place(&server.url(), &schema, SHORT);
    let table = open(&place);
    assert_eq!(put(&table, "x", 0, Some("one")), SharedPutResult::Done(1));
    server.run("quarry", &format!("UPDATE {schema}.file SET content = 'two'"));
    let error = table.file("x", None).unwrap_err().to_string();
    assert!(error.contains("the row of x in file does not match its checksum"), "{error}");
    for (damage, told) in [
        ("UPDATE version SET version = 3", "has version 3, but this quarry supports only up to 2"),
        ("DROP TABLE file", "has tables of another program"),
    ] {
        server.run("quarry", &format!("SET search_path = {schema}; {damage}"));
        let error = SharedFileTable::open(&place, &SystemClock::shared()).unwrap_err().to_string();
        assert!(error.contains(told), "{damage}: {error}");
    }
}

#[test]
fn tables_of_version_1_get_those_of_documents() {
    let server = Server::shared();
    let schema = new_schema();
    let place = place(&server.url(), &schema, SHORT);
    let id = open(&place).id().unwrap();
    let older = "DROP TABLE document; DROP TABLE collection; DROP TABLE document_clock; UPDATE version SET version = 1";
    server.run("quarry", &format!("SET search_path = {schema}; {older}"));
    assert_eq!(open(&place).id().unwrap(), id);
    let documents = SharedDocumentTable::open(&place, &SystemClock::shared()).unwrap();
    assert_eq!(documents.collections_changed_since(0, None).unwrap(), (0, Vec::new()));
    assert_eq!(open(&place).id().unwrap(), id);
}
