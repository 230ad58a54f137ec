//! Replicas of documents that several nodes share.

use std::collections::{BTreeMap, BTreeSet};

use quarry_stdx::{ErrorKind, Fault};
use serde_json::json;

use super::tests::{definition, everything, find, keys, object, save};
use super::*;
use crate::{ChangeParts, Collections, DocumentChange, NOBODY, Removed, SharedState};

/// A database of shared documents in memory.
#[derive(Debug, Default)]
struct MemoryDatabase {
    id: i64,
    rows: Mutex<MemoryRows>,
    /// Whether the database does not answer.
    is_down: AtomicBool,
    /// Whether the rows of removed documents are deleted just before the next page is read.
    purges: AtomicBool,
}

#[derive(Debug, Default)]
struct MemoryRows {
    last: i64,
    purged: BTreeMap<(String, String), i64>,
    documents: Vec<(String, String, i64, DocumentChange)>,
}

impl MemoryRows {
    /// Deletes the rows of removed documents of a collection.
    fn purge(&mut self, app: &str, name: &str) {
        let is_removed =
            |row: &(String, String, i64, DocumentChange)| (&*row.0, &*row.1) == (app, name) && row.3.body.is_none();
        let newest = self.documents.iter().filter(|row| is_removed(row)).map(|row| row.2).max();
        self.documents.retain(|row| !is_removed(row));
        self.purged.extend(newest.map(|newest| ((app.to_owned(), name.to_owned()), newest)));
    }
}

impl MemoryDatabase {
    fn new(id: i64) -> Arc<MemoryDatabase> {
        Arc::new(MemoryDatabase { id, ..MemoryDatabase::default() })
    }

    fn answer(&self) -> Result<MutexGuard<'_, MemoryRows>, Fault> {
        match self.is_down.load(Ordering::Acquire) {
            true => Err(Fault::new(ErrorKind::Busy, "the database does not answer")),
            false => Ok(locked(&self.rows)),
        }
    }
}

impl SharedDocuments for MemoryDatabase {
    fn id(&self) -> i64 {
        self.id
    }

    fn exclusively(&self, work: &mut dyn FnMut() -> Result<(), CollectionError>) -> Result<(), CollectionError> {
        drop(self.answer()?);
        work()
    }

    fn changed_since(&self, version: i64) -> Result<(i64, Vec<(String, String)>), Fault> {
        let rows = self.answer()?;
        let changed = rows.documents.iter().filter(|row| row.2 > version).map(|row| (row.0.clone(), row.1.clone()));
        let purged = rows.purged.iter().filter(|(_, purged)| **purged > version).map(|(place, _)| place.clone());
        let all: BTreeSet<(String, String)> = changed.chain(purged).collect();
        Ok((rows.last, all.into_iter().collect()))
    }

    fn state(&self, (app, name): (&str, &str)) -> Result<SharedState, Fault> {
        let rows = self.answer()?;
        let purged = rows.purged.get(&(app.to_owned(), name.to_owned())).copied().unwrap_or(0);
        Ok(SharedState { last: rows.last, purged })
    }

    fn page(&self, (app, name): (&str, &str), after: i64, last: i64) -> Result<Vec<(i64, DocumentChange)>, Fault> {
        let mut rows = self.answer()?;
        if self.purges.swap(false, Ordering::AcqRel) {
            rows.purge(app, name);
        }
        let of =
            rows.documents.iter().filter(|row| (&*row.0, &*row.1) == (app, name) && row.2 > after && row.2 <= last);
        let mut page: Vec<(i64, DocumentChange)> = of.map(|row| (row.2, row.3.clone())).collect();
        page.sort_by_key(|(version, _)| *version);
        page.truncate(3);
        Ok(page)
    }

    fn put(&self, (app, name): (&str, &str), known: i64, parts: ChangeParts<'_>) -> Result<i64, Fault> {
        let mut rows = self.answer()?;
        assert!(rows.documents.iter().all(|row| (&*row.0, &*row.1) != (app, name) || row.2 <= known));
        for at in 0.. {
            let part = parts(at)?;
            if part.is_empty() {
                break;
            }
            for change in part {
                rows.last += 1;
                let last = rows.last;
                let same = |row: &(String, String, i64, DocumentChange)| {
                    (&*row.0, &*row.1, &row.3.user, &row.3.key) == (app, name, &change.user, &change.key)
                };
                rows.documents.retain(|row| !same(row));
                rows.documents.push((app.to_owned(), name.to_owned(), last, change));
            }
        }
        Ok(rows.last)
    }

    fn clear(&self, (app, name): (&str, &str)) -> Result<(), Fault> {
        let mut rows = self.answer()?;
        rows.documents.retain(|row| (&*row.0, &*row.1) != (app, name));
        rows.last += 1;
        let last = rows.last;
        rows.purged.insert((app.to_owned(), name.to_owned()), last);
        Ok(())
    }
}

/// A node: its data directory and the collections there, shared through a database.
struct SharingNode {
    folder: tempfile::TempDir,
    collections: Arc<Collections>,
}

impl SharingNode {
    fn new(database: &Arc<MemoryDatabase>) -> SharingNode {
        let folder = tempfile::tempdir().unwrap();
        let collections = Collections::of_data_dir(folder.path());
        collections.share_through(database.clone()).unwrap();
        SharingNode { folder, collections }
    }

    /// Ends the process of the node and starts it again.
    fn restart(self, database: Option<&Arc<MemoryDatabase>>) -> SharingNode {
        let SharingNode { folder, collections } = self;
        drop(collections);
        let collections = Collections::of_data_dir(folder.path());
        if let Some(database) = database {
            collections.share_through(database.clone()).unwrap();
        }
        SharingNode { folder, collections }
    }

    fn towns(&self) -> Arc<Collection> {
        self.collections.get("shop", "towns").unwrap()
    }

    fn documents(&self) -> Vec<Value> {
        self.collections.apply_shared_changes().unwrap();
        find(&self.towns(), &[NOBODY, "eva"], &everything())
    }
}

#[test]
fn nodes_apply_each_others_changes() {
    let database = MemoryDatabase::new(7);
    let (a, b) = (SharingNode::new(&database), SharingNode::new(&database));
    let plain = CollectionDefinition::default();
    let fast = definition(&[("accelerated_fields.one", "{\"n\": 1}")]);
    let rows: Vec<Value> = (0..8).map(|n| json!({"_key": format!("k{}", 9 - n), "n": n})).collect();
    save(&a.towns(), &rows, &plain);
    assert_eq!(b.documents(), a.documents());
    a.towns().insert("eva", object(json!({"_key": "k1", "n": 1})), &plain).unwrap();
    // Node `b` applies the change of node `a` before its own.
    let again = b.towns().insert("eva", object(json!({"_key": "k1"})), &fast);
    assert_eq!(again, Err(CollectionError::Exists));
    b.towns().replace(NOBODY, "k5", object(json!({"m": "b"})), &fast).unwrap();
    b.towns().remove(NOBODY, "k6", &fast).unwrap();
    assert_eq!(a.documents(), b.documents());
    assert_eq!(a.documents().len(), 8);
    assert_eq!(a.towns().remove_matching(NOBODY, &Query::default(), &plain), Ok(7));
    assert_eq!(keys(&b.documents()), ["k1"]);
    let late = SharingNode::new(&database);
    assert_eq!(late.documents(), a.documents());
    a.collections.remove("shop", "towns").unwrap();
    assert_eq!((b.documents(), late.documents()), (vec![], vec![]));
    b.towns().insert(NOBODY, object(json!({"_key": "new"})), &plain).unwrap();
    assert_eq!((keys(&a.documents()), keys(&late.documents())), (vec!["new"], vec!["new"]));
}

/// Makes every commit fail that writes a document to the file of a collection.
const FAIL_COMMITS: &str = "PRAGMA foreign_keys=ON; \
     CREATE TABLE child (id INTEGER REFERENCES documents (place) DEFERRABLE INITIALLY DEFERRED); \
     CREATE TRIGGER fail AFTER INSERT ON documents BEGIN INSERT INTO child VALUES (-1); END;";

#[test]
fn a_write_that_other_nodes_have_is_done_even_if_the_commit_here_fails() {
    let (database, plain) = (MemoryDatabase::new(7), CollectionDefinition::default());
    let (a, b) = (SharingNode::new(&database), SharingNode::new(&database));
    save(&a.towns(), &[json!({"_key": "k1"})], &plain);
    let run = |sql: &str| locked(&a.towns().writer).connection.as_ref().unwrap().execute_batch(sql).unwrap();
    run(FAIL_COMMITS);
    assert_eq!(a.towns().insert(NOBODY, object(json!({"_key": "k2"})), &plain), Ok("k2".to_owned()));
    assert_eq!(keys(&b.documents()), ["k1", "k2"]);
    // Without the change of its own, a node makes no further one.
    a.towns().insert(NOBODY, object(json!({"_key": "k3"})), &plain).unwrap_err();
    assert_eq!(keys(&find(&a.towns(), &[NOBODY], &everything())), ["k1"]);
    run("DROP TRIGGER fail");
    assert_eq!(a.towns().insert(NOBODY, object(json!({"_key": "k2"})), &plain), Err(CollectionError::Exists));
    assert_eq!((keys(&a.documents()), keys(&b.documents())), (vec!["k1", "k2"], vec!["k1", "k2"]));
}

#[test]
fn removals_that_are_purged_while_they_are_read_are_applied() {
    for has_others in [false, true] {
        let (database, plain) = (MemoryDatabase::new(7), CollectionDefinition::default());
        let (a, b) = (SharingNode::new(&database), SharingNode::new(&database));
        save(&a.towns(), &[json!({"_key": "k1"}), json!({"_key": "k2"})], &plain);
        assert_eq!(keys(&b.documents()), ["k1", "k2"]);
        a.towns().remove(NOBODY, "k1", &plain).unwrap();
        if has_others {
            a.towns().insert(NOBODY, object(json!({"_key": "k3"})), &plain).unwrap();
        }
        database.purges.store(true, Ordering::Release);
        let expected: &[&str] = if has_others { &["k2", "k3"] } else { &["k2"] };
        assert_eq!(keys(&b.documents()), expected);
        assert_eq!(keys(&b.documents()), expected);
        assert!(!database.purges.load(Ordering::Acquire), "the purge came before a page");
    }
}

#[test]
fn writes_without_the_database_are_refused_and_reads_answered() {
    let database = MemoryDatabase::new(7);
    let node = SharingNode::new(&database);
    let plain = CollectionDefinition::default();
    node.towns().insert(NOBODY, object(json!({"_key": "k"})), &plain).unwrap();
    database.is_down.store(true, Ordering::Release);
    let refused = node.towns().insert(NOBODY, object(json!({"_key": "l"})), &plain).unwrap_err();
    assert!(matches!(refused, CollectionError::Refused { kind: ErrorKind::Busy, .. }), "{refused:?}");
    assert!(node.collections.apply_shared_changes().is_err() && node.collections.remove("shop", "towns").is_err());
    assert_eq!(keys(&find(&node.towns(), &[NOBODY], &everything())), ["k"]);
    database.is_down.store(false, Ordering::Release);
    assert_eq!(keys(&node.documents()), ["k"]);
}

#[test]
fn files_that_are_not_replicas_are_merged_with_the_database() {
    let (database, plain) = (MemoryDatabase::new(7), CollectionDefinition::default());
    let first = SharingNode::new(&database);
    save(&first.towns(), &[json!({"_key": "same", "n": 1}), json!({"_key": "differs", "n": 1})], &plain);
    first.towns().insert(NOBODY, object(json!({"_key": "gone"})), &plain).unwrap();
    first.towns().remove(NOBODY, "gone", &plain).unwrap();
    let alone = tempfile::tempdir().unwrap();
    let own = Collections::of_data_dir(alone.path()).get("shop", "towns").unwrap();
    let rows = ["own", "same", "gone"].map(|key| json!({"_key": key, "n": 1}));
    save(&own, &rows, &plain);
    save(&own, &[json!({"_key": "differs", "n": 2})], &plain);
    drop(own);
    let node =
        SharingNode { collections: Collections::of_data_dir(alone.path()), folder: alone }.restart(Some(&database));
    let expected = ["differs", "own", "same"].map(|key| json!({"_key": key, "_user": "nobody", "n": 1}));
    for node in [&node, &first] {
        let mut found = node.documents();
        found.sort_by_key(|document| document["_key"].to_string());
        assert_eq!(found, expected);
    }
    let copy = Connection::open(node.folder.path().join("kvstore/shop/towns.sqlite.replaced")).unwrap();
    let kept: i64 = copy.query_row("SELECT count(*) FROM documents", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 4);
    // A process writes without the database; the next start shares documents that only this file has.
    let node = node.restart(None);
    node.towns().insert(NOBODY, object(json!({"_key": "later"})), &plain).unwrap();
    node.towns().remove(NOBODY, "own", &plain).unwrap();
    let node = node.restart(Some(&database));
    let mut found = keys(&first.documents()).iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    found.sort_unstable();
    assert_eq!(found, ["differs", "later", "own", "same"]);
    assert_eq!(node.documents().len(), 4);
}

#[test]
fn a_collection_that_cannot_be_merged_does_not_delay_the_others() {
    let (database, plain) = (MemoryDatabase::new(7), CollectionDefinition::default());
    let first = SharingNode::new(&database);
    save(&first.towns(), &[json!({"_key": "a"})], &plain);
    let folder = tempfile::tempdir().unwrap();
    // The database has no changes of `lakes` and `people`, so only their files show that they have to be merged with
    // the database.
    let lakes = folder.path().join("kvstore/shop/lakes.sqlite");
    std::fs::create_dir_all(lakes.parent().unwrap()).unwrap();
    std::fs::write(&lakes, vec![b'x'; 4096]).unwrap();
    let own = Collections::of_data_dir(folder.path()).get("shop", "people").unwrap();
    save(&own, &[json!({"_key": "p"})], &plain);
    drop(own);
    let collections = Collections::of_data_dir(folder.path());
    let failed = collections.share_through(database.clone()).unwrap_err();
    assert!(failed.to_string().contains("lakes"), "{failed}");
    let node = SharingNode { folder, collections };
    assert_eq!(keys(&find(&node.towns(), &[NOBODY], &everything())), ["a"]);
    first.collections.apply_shared_changes().unwrap();
    assert_eq!(keys(&find(&first.collections.get("shop", "people").unwrap(), &[NOBODY], &everything())), ["p"]);
    // Every poll retries the damaged file and reports the failure, until the file is removed.
    assert!(node.collections.apply_shared_changes().is_err());
    std::fs::remove_file(&lakes).unwrap();
    node.collections.apply_shared_changes().unwrap();
}

#[test]
fn older_databases_are_refused() {
    let (database, plain) = (MemoryDatabase::new(7), CollectionDefinition::default());
    let node = SharingNode::new(&database);
    save(&node.towns(), &[json!({"_key": "a"}), json!({"_key": "b"})], &plain);
    let older = MemoryDatabase::new(7);
    locked(&older.rows).last = 1;
    let SharingNode { folder, collections } = node;
    drop(collections);
    let refused = Collections::of_data_dir(folder.path()).share_through(older).unwrap_err();
    assert!(
        refused.to_string().contains("is number 1, but collection towns has already applied number 2"),
        "{refused}"
    );
}

#[test]
fn large_writes_are_sent_in_parts() {
    let mut touched = TouchedDocuments::default();
    touched.add(NOBODY, "z", 10);
    touched.add(NOBODY, "a", 5 << 20);
    touched.add(NOBODY, "b", 3 << 20);
    touched.add(NOBODY, "z", 2 << 20);
    (0..1_500).for_each(|n| touched.add("eva", &n.to_string(), 0));
    let sizes: Vec<(String, usize)> = touched.parts().iter().map(|part| (part[0].1.clone(), part.len())).collect();
    let expected = [("z", 1), ("a", 1), ("b", 1_000), ("999", 501)].map(|(key, size)| (key.to_owned(), size));
    assert_eq!(sizes, expected);
}

#[test]
fn the_rows_of_a_write_are_shared_whole_or_not_at_all() {
    let (database, plain) = (MemoryDatabase::new(7), CollectionDefinition::default());
    let (a, b) = (SharingNode::new(&database), SharingNode::new(&database));
    save(&a.towns(), &[json!({"_key": "a"})], &plain);
    let mut half = |take: &mut dyn FnMut(Object) -> Result<(), CollectionError>| {
        take(object(json!({"_key": "b"})))?;
        take(object(json!({"$bad": 1})))
    };
    assert!(a.towns().save_all(NOBODY, &plain, &Removed::All, &mut half).is_err());
    assert_eq!((keys(&a.documents()), keys(&b.documents())), (vec!["a"], vec!["a"]));
}
