//! Shared documents: changes by several nodes, lost connections and answers, removed documents, large pages, damage.

use std::time::Duration;

use quarry_pgworld::{Cut, CuttingProxy, PostgreSql as Server};
use quarry_stdx::SystemClock;

use super::*;
use crate::tests::new_schema;
use crate::{PostgreSqlSettings, SharedFileTable};

const WAIT: Duration = Duration::from_secs(60);
const TOWNS: (&str, &str) = ("shop", "towns");

fn open(url: &str, schema: &str) -> SharedDocumentTable {
    let settings = PostgreSqlSettings { url: url.to_owned(), wait: WAIT, ..PostgreSqlSettings::default() };
    let place = PostgreSqlLocation::new(&settings, schema).unwrap();
    let clock = SystemClock::shared();
    SharedFileTable::open(&place, &clock).unwrap();
    SharedDocumentTable::open(&place, &clock).unwrap()
}

fn document(key: &str, body: Option<&str>) -> SharedDocument {
    SharedDocument { user: "nobody".to_owned(), key: key.to_owned(), body: body.map(str::to_owned) }
}

/// Writes parts as a node that knows the collection up to `known`.
fn put(table: &SharedDocumentTable, known: i64, parts: &[Vec<SharedDocument>]) -> DocumentPutResult {
    table.lock(table.sessions.database.clock.elapsed_ns()).unwrap();
    let done = table.put(TOWNS, known, &|at| Ok(parts.get(at).cloned().unwrap_or_default()));
    table.unlock();
    done.unwrap()
}

/// All documents changed after a number, and the number of pages.
fn changed_after(table: &SharedDocumentTable, after: i64) -> (Vec<(i64, SharedDocument)>, usize) {
    let last = table.state(TOWNS.0, TOWNS.1, None).unwrap().last;
    let (mut all, mut pages, mut after): (Vec<(i64, SharedDocument)>, usize, i64) = (Vec::new(), 0, after);
    loop {
        let page = table.page(TOWNS, (after, last), None).unwrap();
        let Some((newest, _)) = page.last() else { return (all, pages) };
        after = *newest;
        pages += 1;
        all.extend(page);
    }
}

#[test]
fn changes_are_numbered_and_conflicts_refused() {
    let (url, schema) = (Server::shared().url(), new_schema());
    let (a, b) = (open(&url, &schema), open(&url, &schema));
    let parts = [
        vec![document("x\0\u{1a}", Some("{\"m\":\"\\u0000\"}")), document("y", Some("{}"))],
        vec![document("z", None)],
    ];
    assert_eq!(put(&a, 0, &parts), DocumentPutResult::Done(3));
    let numbered: Vec<_> = (1..).zip(parts.concat()).collect();
    assert_eq!(changed_after(&b, 0).0, numbered);
    assert_eq!(changed_after(&b, 2).0, numbered[2..]);
    let other = [vec![document("y", Some("{\"m\":1}"))]];
    assert_eq!(put(&b, 2, &other), DocumentPutResult::Conflict);
    assert_eq!(put(&b, 3, &other), DocumentPutResult::Done(4));
    assert_eq!(b.page(("shop", "other"), (0, 9), None).unwrap(), []);
    let changed = |after| a.collections_changed_since(after, None).unwrap();
    assert_eq!(changed(3), (4, vec![("shop".to_owned(), "towns".to_owned())]));
    assert_eq!(changed(4), (4, Vec::new()));
    let failed = a.put(TOWNS, 4, &|at| match at {
        0 => Ok(vec![document("w", Some("{}"))]),
        _ => Err(CatalogError::Failed { place: "here".to_owned(), reason: "unreadable".to_owned() }),
    });
    assert!(matches!(failed, Err(CatalogError::Failed { .. })));
    assert_eq!(changed(4), (4, Vec::new()), "all documents or none");
}

#[test]
fn lost_connections_apply_a_change_exactly_once() {
    let server = Server::shared();
    let proxy = CuttingProxy::start(server.socket());
    let schema = new_schema();
    let near = open(&server.url(), &schema);
    let far = open(&server.url_through(proxy.address()), &schema);
    let mut last = 0;
    for cut in (1..25).map(Cut::Message).chain([Cut::BeforeCommit, Cut::AfterCommit]) {
        proxy.cut(cut);
        for table in [&far, &near] {
            let body = format!("{{\"n\":{last}}}");
            assert_eq!(
                put(table, last, &[vec![document("count", Some(&body))]]),
                DocumentPutResult::Done(last + 1),
                "{cut:?}"
            );
            last += 1;
            assert_eq!(changed_after(&near, 0).0, [(last, document("count", Some(&body)))]);
        }
    }
    assert!(proxy.cuts() > 20, "{} cuts", proxy.cuts());
}

#[test]
fn rows_of_removed_documents_are_bounded() {
    let table = open(&Server::shared().url(), &new_schema());
    let all = |body: Option<&str>| -> Vec<Vec<SharedDocument>> {
        let documents: Vec<SharedDocument> = (0..2_500).map(|key| document(&key.to_string(), body)).collect();
        documents.chunks(900).map(<[_]>::to_vec).collect()
    };
    assert_eq!(put(&table, 0, &all(Some("{}"))), DocumentPutResult::Done(2_500));
    assert_eq!(put(&table, 2_500, &all(None)), DocumentPutResult::Done(5_000));
    let state = table.state(TOWNS.0, TOWNS.1, None).unwrap();
    assert_eq!(state, SharedCollectionState { last: 5_000, purged: 5_000 - REMOVED_KEPT });
    assert_eq!(changed_after(&table, 0).0.len() as i64, REMOVED_KEPT);
    table.clear(TOWNS).unwrap();
    assert_eq!(table.state(TOWNS.0, TOWNS.1, None).unwrap(), SharedCollectionState { last: 5_001, purged: 5_001 });
    assert_eq!(changed_after(&table, 0).0, []);
    let changed = table.collections_changed_since(5_000, None).unwrap();
    assert_eq!(changed, (5_001, vec![("shop".to_owned(), "towns".to_owned())]));
    table.clear(TOWNS).unwrap();
    assert_eq!(table.state(TOWNS.0, TOWNS.1, None).unwrap().last, 5_001, "nothing was removed");
    assert_eq!(put(&table, 5_000, &[vec![document("x", None)]]), DocumentPutResult::Conflict);
}

#[test]
fn pages_are_bounded_by_bytes() {
    let table = open(&Server::shared().url(), &new_schema());
    let large = format!("{{\"m\":\"{}\"}}", "x".repeat(5 << 20));
    for at in 0..4 {
        put(&table, at, &[vec![document(&at.to_string(), Some(&large))]]);
    }
    let (documents, pages) = changed_after(&table, 0);
    assert_eq!((documents.len(), pages), (4, 2));
}

#[test]
fn damaged_rows_are_reported() {
    let (server, schema) = (Server::shared(), new_schema());
    let table = open(&server.url(), &schema);
    put(&table, 0, &[vec![document("x", Some("{}"))]]);
    server.run("quarry", &format!("UPDATE {schema}.document SET body = '{{\"a\":1}}'"));
    let error = table.page(TOWNS, (0, 1), None).unwrap_err().to_string();
    assert!(error.contains("document x of collection towns"), "{error}");
}
