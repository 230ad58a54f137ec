use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{Collections, NOBODY, Projection, Sort};

pub(super) fn object(value: Value) -> Object {
    match value {
        Value::Object(members) => members,
        other => panic!("{other}"),
    }
}

pub(super) fn definition(settings: &[(&str, &str)]) -> CollectionDefinition {
    let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let (definition, faults) = CollectionDefinition::parse_settings(&settings);
    assert_eq!(faults, []);
    definition
}

pub(super) fn everything() -> Find {
    Find { limit: 1_000_000, bytes_max: usize::MAX, ..Find::default() }
}

pub(super) fn find(collection: &Collection, users: &[&str], find: &Find) -> Vec<Value> {
    let mut out = String::new();
    collection.find(users, find, &mut out).unwrap();
    serde_json::from_str(&out).unwrap()
}

pub(super) fn keys(found: &[Value]) -> Vec<&str> {
    found.iter().map(|document| document["_key"].as_str().unwrap()).collect()
}

pub(super) fn save(collection: &Collection, documents: &[Value], definition: &CollectionDefinition) -> Vec<String> {
    let mut fill = |take: &mut dyn FnMut(Object) -> Result<(), CollectionError>| {
        documents.iter().try_for_each(|document| take(object(document.clone())))
    };
    collection.save_all(NOBODY, definition, &Removed::Nothing, &mut fill).unwrap()
}

#[test]
fn documents_are_written_read_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let collections = Collections::of_data_dir(folder.path());
    let collection = collections.get("search", "c").unwrap();
    let plain = CollectionDefinition::default();
    assert!(find(&collection, &[NOBODY], &everything()).is_empty());
    assert!(!folder.path().join("kvstore").exists(), "reading creates no file");
    let made = collection.insert(NOBODY, object(json!({"a": 1})), &plain).unwrap();
    assert_eq!(made.len(), 24);
    assert_eq!(collection.insert(NOBODY, object(json!({"_key": "k", "a": 2})), &plain), Ok("k".to_owned()));
    let again = collection.insert(NOBODY, object(json!({"_key": "k"})), &plain);
    assert_eq!(again, Err(CollectionError::Exists));
    assert_eq!(collection.insert("eva", object(json!({"_key": "k", "a": 3})), &plain), Ok("k".to_owned()));
    assert_eq!(collection.document(&[NOBODY], "k").unwrap(), r#"{"a":2,"_user":"nobody","_key":"k"}"#);
    assert_eq!(collection.document(&["eva", NOBODY], "k").unwrap(), r#"{"a":3,"_user":"eva","_key":"k"}"#);
    assert_eq!(collection.document(&["tom"], "k"), Err(CollectionError::Unknown));
    assert_eq!(find(&collection, &["eva"], &everything()).len(), 1);
    assert_eq!(find(&collection, &["eva", NOBODY], &everything()).len(), 3);
    collection.replace(NOBODY, "k", object(json!({"b": 1})), &plain).unwrap();
    assert_eq!(find(&collection, &[NOBODY], &everything())[1], json!({"_key": "k", "_user": "nobody", "b": 1}));
    assert_eq!(collection.replace(NOBODY, "none", Object::new(), &plain), Err(CollectionError::Unknown));
    collection.remove(NOBODY, "k", &plain).unwrap();
    assert_eq!(collection.remove(NOBODY, "k", &plain), Err(CollectionError::Unknown));
    assert_eq!(collection.remove_matching(NOBODY, &Query::default(), &plain), Ok(1));
    assert_eq!(find(&collection, &["eva", NOBODY], &everything()).len(), 1);
    collections.remove("search", "c").unwrap();
    assert_eq!(collection.insert(NOBODY, Object::new(), &plain), Err(CollectionError::Unknown));
    assert_eq!(find(&collections.get("search", "c").unwrap(), &["eva"], &everything()).len(), 0);
}

#[test]
fn batches_are_atomic_and_replaced_documents_keep_their_position() {
    let folder = tempfile::tempdir().unwrap();
    let collection = Collections::of_data_dir(folder.path()).get("search", "c").unwrap();
    let plain = CollectionDefinition::default();
    save(&collection, &[json!({"_key": "a", "n": 1}), json!({"_key": "b", "n": 2})], &plain);
    save(&collection, &[json!({"_key": "c"}), json!({"_key": "a", "n": 3})], &plain);
    let found = find(&collection, &[NOBODY], &everything());
    assert_eq!((keys(&found), &found[0]["n"]), (vec!["a", "b", "c"], &json!(3)));
    let mut half = |take: &mut dyn FnMut(Object) -> Result<(), CollectionError>| {
        take(object(json!({"_key": "d"})))?;
        take(object(json!({"$bad": 1})))
    };
    assert!(collection.save_all(NOBODY, &plain, &Removed::All, &mut half).is_err());
    assert_eq!(find(&collection, &[NOBODY], &everything()).len(), 3, "nothing happened");
    let mut one = |take: &mut dyn FnMut(Object) -> Result<(), CollectionError>| take(object(json!({"_key": "d"})));
    let is_two = |members: &Object| members.get("n") == Some(&json!(2));
    collection.save_all(NOBODY, &plain, &Removed::Matching(&is_two), &mut one).unwrap();
    assert_eq!(keys(&find(&collection, &[NOBODY], &everything())), ["a", "c", "d"]);
    collection.save_all(NOBODY, &plain, &Removed::All, &mut one).unwrap();
    assert_eq!(keys(&find(&collection, &[NOBODY], &everything())), ["d"]);
}

#[test]
fn results_are_ordered_paged_and_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let collection = Collections::of_data_dir(folder.path()).get("search", "c").unwrap();
    let typed = definition(&[("field.n", "number")]);
    let documents: Vec<Value> =
        (0..50).map(|n| json!({"_key": n.to_string(), "n": n.to_string(), "m": n % 2})).collect();
    save(&collection, &documents, &typed);
    let wanted = Find {
        query: Query::parse("{\"m\": 1}").unwrap(),
        sort: Sort::parse("n:-1").unwrap(),
        skip: 1,
        limit: 2,
        projection: Projection::parse("n,_key:0").unwrap(),
        ..everything()
    };
    assert_eq!(find(&collection, &[NOBODY], &wanted), [json!({"n": 47}), json!({"n": 45})]);
    assert_eq!(find(&collection, &[NOBODY], &Find { limit: 0, ..everything() }).len(), 0);
    assert_eq!(find(&collection, &[NOBODY], &Find { skip: 49, ..everything() }).len(), 1);
    let small = collection.find(&[NOBODY], &Find { bytes_max: 100, ..everything() }, &mut String::new());
    assert!(matches!(small, Err(CollectionError::Invalid(text)) if text.contains("max_size_per_result_mb")));
}

#[test]
fn readers_do_not_block_writers() {
    let folder = tempfile::tempdir().unwrap();
    let collection = Collections::of_data_dir(folder.path()).get("search", "c").unwrap();
    let plain = CollectionDefinition::default();
    save(&collection, &[json!({"_key": "a"}), json!({"_key": "b"})], &plain);
    let mut seen = Vec::new();
    collection
        .for_each(NOBODY, &mut |key, _| {
            seen.push(key.to_owned());
            collection.insert(NOBODY, Object::new(), &plain).map(drop)
        })
        .unwrap();
    assert_eq!(seen, ["a", "b"], "a read uses the snapshot of its start");
    assert_eq!(find(&collection, &[NOBODY], &everything()).len(), 4);
}

/// Reads with every method; returns the number of documents.
fn read_all(collection: &Collection) -> usize {
    let found = find(collection, &[NOBODY], &everything()).len();
    collection
        .document(&[NOBODY], "k")
        .map(drop)
        .or_else(|error| match error {
            CollectionError::Unknown => Ok(()),
            error => Err(error),
        })
        .unwrap();
    collection.for_each(NOBODY, &mut |_, _| Ok(())).unwrap();
    collection.count(NOBODY).unwrap();
    collection.size().unwrap();
    found
}

#[test]
fn files_without_tables_are_empty_collections() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kvstore/search/c.sqlite");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "").unwrap();
    let collections = Collections::of_data_dir(folder.path());
    let collection = collections.get("search", "c").unwrap();
    assert_eq!(read_all(&collection), 0);
    // Another process is about to commit the tables.
    let mut other = Connection::open(&path).unwrap();
    other.execute_batch(WRITER_PRAGMAS).unwrap();
    assert_eq!(read_all(&collection), 0);
    let transaction = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    transaction.execute_batch(SCHEMA).unwrap();
    transaction.pragma_update(None, "user_version", VERSION).unwrap();
    assert_eq!(read_all(&collection), 0);
    transaction.execute("INSERT INTO documents (user, key, body) VALUES ('nobody', 'k', '{}')", []).unwrap();
    transaction.commit().unwrap();
    assert_eq!(read_all(&collection), 1);
}

#[test]
fn first_writes_can_be_read_concurrently() {
    let folder = tempfile::tempdir().unwrap();
    let collections = Collections::of_data_dir(folder.path());
    let plain = CollectionDefinition::default();
    for round in 0..60 {
        let collection = collections.get("search", &format!("c{round}")).unwrap();
        let is_written = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut seen = 0;
                    while !is_written.load(Ordering::Acquire) {
                        let found = read_all(&collection);
                        assert!(found >= seen, "an existing document is missing");
                        seen = found;
                    }
                    assert_eq!(read_all(&collection), 1);
                });
            }
            collection.insert(NOBODY, object(json!({"_key": "k"})), &plain).unwrap();
            is_written.store(true, Ordering::Release);
        });
    }
}

#[test]
fn old_documents_are_migrated_into_files_without_tables() {
    let folder = tempfile::tempdir().unwrap();
    let former = folder.path().join("kvstore/collections.sqlite");
    let path = folder.path().join("kvstore/search/c.sqlite");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let old = Connection::open(&former).unwrap();
    old.execute_batch("CREATE TABLE documents (place INTEGER PRIMARY KEY, collection TEXT, key TEXT, body TEXT)")
        .unwrap();
    old.execute("INSERT INTO documents (collection, key, body) VALUES ('c', 'k', '{\"a\":1}')", []).unwrap();
    std::fs::write(&path, "").unwrap();
    let collection = Collections::of_data_dir(folder.path()).get("search", "c").unwrap();
    assert_eq!(read_all(&collection), 1);
}

#[test]
fn documents_of_the_shared_file_are_migrated_once() {
    let folder = tempfile::tempdir().unwrap();
    let former = folder.path().join("kvstore/collections.sqlite");
    std::fs::create_dir_all(former.parent().unwrap()).unwrap();
    let old = Connection::open(&former).unwrap();
    old.execute_batch(
        "CREATE TABLE documents (collection TEXT NOT NULL, key TEXT NOT NULL, place INTEGER NOT NULL, body TEXT NOT NULL, \
         PRIMARY KEY (collection, key)) WITHOUT ROWID; \
         INSERT INTO documents VALUES ('c', 'b', 0, '{\"n\":1}'), ('c', 'a', 1, '{\"n\":2}'), ('d', 'x', 0, '{}');",
    )
    .unwrap();
    let collections = Collections::of_data_dir(folder.path());
    let found = find(&collections.get("search", "c").unwrap(), &[NOBODY], &everything());
    assert_eq!(keys(&found), ["b", "a"]);
    collections.remove("search", "c").unwrap();
    assert_eq!(find(&collections.get("search", "c").unwrap(), &[NOBODY], &everything()).len(), 0);
    let left: i64 = old.query_row("SELECT count(*) FROM documents", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 1);
}

fn value() -> BoxedStrategy<Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..4).prop_map(Value::from),
        Just(json!(1.5)),
        Just(json!(i64::MAX)),
        Just(json!(i64::MAX - 1)),
        "[ab\u{0}]{0,2}".prop_map(Value::from),
        Just(Value::from("x".repeat(1_500))),
    ]
    .boxed();
    prop_oneof![
        6 => scalar.clone(),
        1 => prop::collection::vec(scalar.clone(), 0..3).prop_map(Value::from),
        1 => scalar.prop_map(|inner| json!({"b": inner})),
    ]
    .boxed()
}

fn document() -> BoxedStrategy<Value> {
    prop::collection::btree_map(prop_oneof![Just("a"), Just("b"), Just("c")], value(), 0..4)
        .prop_map(|members| Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()))
        .boxed()
}

fn condition() -> BoxedStrategy<Value> {
    let field = prop_oneof![Just("a"), Just("b"), Just("c"), Just("a.b"), Just("_key")];
    let operator = prop_oneof![Just("$eq"), Just("$ne"), Just("$gt"), Just("$gte"), Just("$lt"), Just("$lte")];
    let test = prop_oneof![
        4 => value().prop_map(|value| json!({"$eq": value})),
        4 => (operator.clone(), value()).prop_map(|(operator, value)| json!({operator: value})),
        2 => (operator.clone(), value(), operator, value()).prop_map(|(a, x, b, y)| json!({a: x, b: y})),
        1 => prop::collection::vec(value(), 0..3).prop_map(|values| json!({"$in": values})),
        1 => value().prop_map(|value| json!({"$not": {"$gt": value}})),
    ]
    .boxed();
    let one = (field, test).prop_map(|(field, test)| json!({field: test})).boxed();
    let few = prop::collection::vec(one.clone(), 1..3);
    prop_oneof![
        4 => one,
        2 => few.clone().prop_map(|few| json!({"$and": few})),
        2 => few.clone().prop_map(|few| json!({"$or": few})),
        1 => few.prop_map(|few| json!({"$nor": few})),
    ]
    .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn accelerations_do_not_change_results(
        documents in prop::collection::vec(document(), 0..12),
        replaced in prop::collection::vec((0usize..12, document()), 0..5),
        queries in prop::collection::vec((condition(), prop_oneof![Just(""), Just("a"), Just("a:-1"), Just("a,b"), Just("b:-1,a:1")]), 1..8),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let collections = Collections::of_data_dir(folder.path());
        let plain = CollectionDefinition::default();
        let fast = definition(&[
            ("accelerated_fields.one", "{\"a\": 1}"),
            ("accelerated_fields.two", "{\"a\": 1, \"b\": -1}"),
            ("accelerated_fields.in", "{\"a.b\": 1}"),
            ("accelerated_fields.key", "{\"_key\": 1, \"c\": 1}"),
        ]);
        let (slow, first) = (collections.get("x", "slow").unwrap(), collections.get("x", "first").unwrap());
        let later = collections.get("x", "later").unwrap();
        let keyed = |at: usize, document: &Value| {
            let mut document = document.clone();
            document["_key"] = at.to_string().into();
            document
        };
        let all: Vec<Value> = documents.iter().enumerate().map(|(at, document)| keyed(at, document)).collect();
        let changes: Vec<Value> = replaced.iter().map(|(at, document)| keyed(*at, document)).collect();
        for (collection, definition) in [(&slow, &plain), (&first, &fast), (&later, &plain)] {
            save(collection, &all, definition);
            save(collection, &changes, definition);
        }
        later.update_accelerations(&fast).unwrap();
        for (query, sort) in &queries {
            let wanted = Find {
                query: Query::from_json(query).unwrap(), sort: Sort::parse(sort).unwrap(), skip: 1, limit: 4, ..everything()
            };
            let expected = find(&slow, &[NOBODY], &wanted);
            prop_assert_eq!(&find(&first, &[NOBODY], &wanted), &expected, "{} {}", query, sort);
            prop_assert_eq!(&find(&later, &[NOBODY], &wanted), &expected, "{} {}", query, sort);
        }
        let (query, _) = &queries[0];
        let query = Query::from_json(query).unwrap();
        let removed = slow.remove_matching(NOBODY, &query, &plain).unwrap();
        prop_assert_eq!(first.remove_matching(NOBODY, &query, &fast).unwrap(), removed);
        let left = find(&slow, &[NOBODY], &everything());
        prop_assert_eq!(find(&first, &[NOBODY], &everything()), left);
    }
}

/// A copy of a folder of collections, opened as after a crash, without any state in memory.
fn after_crash(folder: &Path) -> (tempfile::TempDir, std::sync::Arc<Collections>) {
    let copy = tempfile::tempdir().unwrap();
    let place = copy.path().join("kvstore/search");
    std::fs::create_dir_all(&place).unwrap();
    for file in ["c.sqlite", "c.sqlite-wal"] {
        std::fs::copy(folder.join("kvstore/search").join(file), place.join(file)).unwrap();
    }
    let collections = Collections::of_data_dir(copy.path());
    (copy, collections)
}

#[test]
fn failed_commits_do_not_reappear_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let log = |folder: &Path| folder.join("kvstore/search/c.sqlite-wal");
    let collections = Collections::of_data_dir(folder.path());
    let collection = collections.get("search", "c").unwrap();
    let plain = CollectionDefinition::default();
    save(&collection, &[json!({"_key": "a"}), json!({"_key": "b"})], &plain);
    // The log after a commit whose last sync failed: it contains a complete transaction that no reader sees.
    let (copy, others) = after_crash(folder.path());
    let length = std::fs::metadata(log(folder.path())).unwrap().len() as usize;
    others.get("search", "c").unwrap().remove(NOBODY, "a", &plain).unwrap();
    let longer = std::fs::read(log(copy.path())).unwrap();
    assert!(longer.len() > length, "the copy continues the same log");
    std::fs::write(log(folder.path()), &longer).unwrap();
    let found_after_crash = || {
        let (_copy, collections) = after_crash(folder.path());
        find(&collections.get("search", "c").unwrap(), &[NOBODY], &everything()).len()
    };
    assert_eq!(found_after_crash(), 1, "the failed transaction would reappear");
    collection.is_in_doubt.store(true, Ordering::Release);
    assert_eq!(find(&collection, &[NOBODY], &everything()).len(), 2);
    assert!(!collection.is_in_doubt.load(Ordering::Acquire));
    assert_eq!(found_after_crash(), 2, "documents that were read still exist");
}

#[test]
fn collections_whose_last_commit_failed_stay_open() {
    let folder = tempfile::tempdir().unwrap();
    let collections = Collections::of_data_dir(folder.path());
    let collection = collections.get("search", "c").unwrap();
    save(&collection, &[json!({"_key": "a"})], &CollectionDefinition::default());
    collection.is_in_doubt.store(true, Ordering::Release);
    drop(collection);
    (0..100).for_each(|name| drop(collections.get("search", &name.to_string()).unwrap()));
    let collection = collections.get("search", "c").unwrap();
    assert!(collection.is_in_doubt.load(Ordering::Acquire), "the same handle");
}
