//! `delete` deletes all events that it found, or none.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::sync::Arc;

use quarry_engine::{Engine, EngineError, EngineOptions};
use quarry_event::{EventBatch, Metadata};
use quarry_stdx::ManualClock;
use quarry_store::{AppendRequest, Store, StoreOptions};
use quarry_testworld::request;
use tempfile::tempdir;

/// Room for the deleted events of one bucket, but not of two.
const ONE_BUCKET_BYTES: usize = 1_000;

fn engine(deletion_bytes: usize) -> Engine {
    let options = EngineOptions { deletion_bytes, ..EngineOptions::default() };
    quarry_testworld::engine(&options)
}

/// A store of two indexes with 100 events each.
fn store(folder: &Path) -> Arc<Store> {
    let store = Store::open(StoreOptions::at(folder), ManualClock::shared(0)).unwrap();
    for index in ["main", "other"] {
        let mut batch = EventBatch::default();
        let meta = batch.intern(&Metadata {
            index: index.into(),
            host: "h".into(),
            source: "/var/log/x.log".into(),
            sourcetype: "plain".into(),
        });
        (0..100).for_each(|at| batch.push(format!("event n={at}").as_bytes(), at, meta));
        store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
    }
    store
}

/// The first cell of the first row, or the error.
fn run_search(engine: &Engine, store: &Arc<Store>, text: &str) -> Result<String, EngineError> {
    let request = request(text);
    let mut job = engine.start(request, Arc::<Store>::clone(store)).unwrap();
    let batch = job.next_batch().unwrap()?;
    Ok(arrow::util::display::array_value_to_string(batch.column(0), 0).unwrap())
}

#[test]
fn deletions_beyond_the_memory_limit_are_refused_entirely() {
    let folder = tempdir().unwrap();
    let store = store(folder.path());
    let (small, usual) = (engine(ONE_BUCKET_BYTES), engine(EngineOptions::default().deletion_bytes));
    let left = || run_search(&usual, &store, "index=* | stats count").unwrap();
    let refused = run_search(&small, &store, "index=* | delete").unwrap_err();
    assert!(
        matches!(&refused, EngineError::Limit { what, value: 1_000, .. } if what.contains("nothing is deleted")),
        "{refused}"
    );
    assert_eq!(left(), "200");
    // Deletions that fit the limit succeed: 100 events of one index, then all that remain.
    assert_eq!(run_search(&small, &store, "index=other | delete").unwrap(), "100");
    assert_eq!(left(), "100");
    assert_eq!(run_search(&usual, &store, "index=* n<40 | delete").unwrap(), "40");
    assert_eq!(left(), "60");
}

#[test]
fn refused_searches_delete_nothing() {
    let folder = tempdir().unwrap();
    let (store, engine) = (store(folder.path()), engine(EngineOptions::default().deletion_bytes));
    for behind in [
        "lookup nosuch n",
        "delete",
        "head 5 | lookup nosuch n",
        "append [ search index=other | lookup nosuch n ]",
        "appendpipe [ lookup nosuch n ]",
        "join n [ | inputlookup nosuch ]",
        "where n > [ | inputlookup nosuch | return $n ]",
        "makeresults",
        "streamstats window=20000000 sum(n)",
    ] {
        let refused = run_search(&engine, &store, &format!("index=* | delete | {behind}")).unwrap_err();
        assert!(matches!(refused, EngineError::Invalid { .. }), "{behind}: {refused}");
        assert_eq!(run_search(&engine, &store, "index=* | stats count").unwrap(), "200", "{behind}");
    }
    // A valid command after `delete` runs on the result of `delete`.
    assert_eq!(run_search(&engine, &store, "index=* n<40 | delete | eval deleted=deleted*2").unwrap(), "160");
}
