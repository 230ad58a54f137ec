//! A search may do no more than its user: refused commands fail before anything runs, wherever they occur in the
//! search, and indexes that may not be searched appear empty.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quarry_conf::{Layers, Permissions, PropsResolver};
use quarry_engine::{
    Engine, EngineError, EngineOptions, JobResult, NodeEntry, NodeSource, SearchRequest, SnapshotSource,
};
use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_store::{BucketListing, IndexSelector, ListingState, MemoryStore, Snapshot, StoreError};
use quarry_testworld::{Recorder, count, request, rows_of};

const MACROS: &[(&str, &str)] = &[("writes", "outputlookup t.csv")];

const SAVED_SEARCHES: &[(&str, &str)] = &[
    ("Writer", "* | outputlookup t.csv"),
    ("Outer", "| savedsearch Writer"),
    ("Circle", "| savedsearch Circle | append [| savedsearch Circle]"),
];

/// A node that records side effects and counts snapshots, with a job of one of its users.
struct Node {
    recorder: Arc<Recorder>,
    read: AtomicUsize,
    indexes: Vec<(&'static str, MemoryStore)>,
}

impl Node {
    fn effects(&self) -> usize {
        self.recorder.effects().len()
    }
}

impl NodeSource for Node {
    fn job(&self, sid: &str, viewer: &Permissions) -> Result<Option<JobResult>, quarry_stdx::Fault> {
        Ok((sid == "1.1" && viewer.may_see(Some("tom"))).then(JobResult::default))
    }

    fn history(&self, viewer: &Permissions) -> Option<Vec<NodeEntry>> {
        let entry = |user: &str| vec![("user".to_owned(), vec![user.to_owned()])];
        Some(["tom", "eva"].into_iter().filter(|user| viewer.may_see(Some(user))).map(entry).collect())
    }
}

impl SnapshotSource for Node {
    fn snapshot(&self, indexes: &IndexSelector, _: &TimeRange) -> Result<Snapshot, StoreError> {
        self.read.fetch_add(1, Ordering::SeqCst);
        let mut all = MemoryStore::new("none").snapshot();
        for (name, store) in &self.indexes {
            if indexes.matches(name) {
                all.segments.extend(store.snapshot().segments);
            }
        }
        Ok(all)
    }

    fn buckets(&self, indexes: &IndexSelector, _: &TimeRange) -> Result<Option<Vec<BucketListing>>, StoreError> {
        let listing = |name: &str| BucketListing {
            id: format!("{name}~1"),
            index: name.to_owned(),
            state: ListingState::Hot,
            events: 1,
            deleted: 0,
            raw_bytes: 1,
            stored_bytes: 0,
            time_min: 1,
            time_max: 1,
            slabs: 1,
            level: 0,
            copies: quarry_store::BucketCopies::Local,
            volume: None,
        };
        let wanted = self.indexes.iter().filter(|(name, _)| indexes.matches(name));
        Ok(Some(wanted.map(|(name, _)| listing(name)).collect()))
    }

    fn store_events(&self, events: EventBatch) -> Result<(), quarry_stdx::Fault> {
        self.recorder.store_events(events)
    }
}

fn node() -> (Engine, Arc<Node>) {
    let index = |name: &'static str| {
        let store = MemoryStore::new(name);
        let mut batch = EventBatch::default();
        let meta = batch.intern(&Metadata {
            index: name.into(),
            host: "h".into(),
            source: "s".into(),
            sourcetype: "t".into(),
        });
        batch.push(format!("word=of_{name}").as_bytes(), 1, meta);
        store.append(batch).unwrap();
        (name, store)
    };
    let table = "code,word\n1,| outputlookup t\n";
    let recorder = Arc::new(Recorder::new(MACROS, SAVED_SEARCHES).with_table("codes", table));
    let indexes = vec![index("main"), index("web"), index("_audit")];
    let node = Arc::new(Node { recorder: Arc::clone(&recorder), read: AtomicUsize::new(0), indexes });
    let props = Arc::new(PropsResolver::new(&Layers::new([])));
    let engine = Engine::new(&EngineOptions::default(), props, recorder.clone()).unwrap();
    let engine = engine.with_commands(recorder.clone()).with_knowledge(recorder).with_node(node.clone());
    (engine, node)
}

fn user(capabilities: &[&str], allowed: &[&str]) -> Arc<Permissions> {
    let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let capabilities = texts(capabilities).into_iter().collect();
    Arc::new(Permissions::for_user("eva", capabilities, texts(allowed), vec!["main".to_owned()]))
}

fn run_search(
    engine: &Engine,
    node: &Arc<Node>,
    text: &str,
    permissions: &Arc<Permissions>,
) -> Result<usize, EngineError> {
    let request = SearchRequest {
        default_indexes: permissions.default_indexes.clone(),
        permissions: Arc::clone(permissions),
        ..request(text)
    };
    let source: Arc<dyn SnapshotSource> = Arc::<Node>::clone(node);
    let mut job = engine.start_on_reader_thread(request, source).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
    Ok(count(&rows_of(&mut job)?))
}

#[test]
fn a_command_that_is_not_allowed_is_refused_before_anything_runs() {
    let (engine, node) = node();
    let searcher = user(&["search", "input_file"], &["*"]);
    let written = [
        ("outputlookup", "output_file", "outputlookup t.csv"),
        ("outputcsv", "output_file", "outputcsv t"),
        ("dump", "run_dump", "dump basefilename=t"),
        ("fit", "output_file", "fit KMeans x into m"),
        ("collect", "run_collect", "collect index=web"),
        ("mcollect", "run_mcollect", "mcollect index=web split=t"),
        ("meventcollect", "run_mcollect", "meventcollect index=web"),
        ("sendalert", "run_sendalert", "sendalert page"),
        ("launch", "run_custom_command", "launch"),
        ("script", "run_custom_command", "script python x"),
        ("run", "run_custom_command", "run python x"),
    ];
    let places = [
        "* | COMMAND",
        "* | stats count | COMMAND | head 1",
        "* | append [search * | COMMAND]",
        "* | join word [search * | COMMAND]",
        "* | appendpipe [COMMAND]",
        "* | appendcols [search * | COMMAND]",
        "[search * | COMMAND | return 1 word]",
        "* | where word > [search * | COMMAND | return $word]",
        "| union [search *] [search * | COMMAND]",
        "| multisearch [search *] [search [search * | COMMAND | return 1 word]]",
        "* | foreach word [COMMAND]",
        "* | foreach w* [COMMAND]",
        "* | map search=\"search * | COMMAND\"",
        "* | outputtext | map search=\"| makeresults | map search=\\\"search * | COMMAND\\\"\"",
    ];
    for (name, capability, command) in written {
        for place in places {
            let text = place.replace("COMMAND", command);
            let before = (node.effects(), node.read.load(Ordering::SeqCst));
            match run_search(&engine, &node, &text, &searcher) {
                Err(EngineError::Forbidden { command, capability: taken, user, span }) => {
                    assert_eq!((command.as_str(), taken.as_str(), user.as_str()), (name, capability, "eva"), "{text}");
                    assert!(span.is_some(), "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
            assert_eq!((node.effects(), node.read.load(Ordering::SeqCst)), before, "{text}: nothing ran before");
        }
    }
}

#[test]
fn expansions_of_macros_and_saved_searches_are_checked() {
    let (engine, node) = node();
    let searcher = user(&["search", "input_file"], &["*"]);
    for text in [
        "* | `writes`",
        "* | append [search * | `writes`]",
        "* | map search=\"search * | `writes`\"",
        "| savedsearch Writer",
        "| from savedsearch:Writer",
        "| savedsearch Outer",
        "* | map Writer",
        "* | append [| savedsearch Outer]",
    ] {
        let refused = run_search(&engine, &node, text, &searcher);
        assert!(matches!(&refused, Err(EngineError::Forbidden { command, .. }) if command == "outputlookup"), "{text}");
        assert_eq!((node.effects(), node.read.load(Ordering::SeqCst)), (0, 0), "{text}");
    }
    // A saved search that runs itself ends with an error.
    assert!(matches!(run_search(&engine, &node, "| savedsearch Circle", &searcher), Err(EngineError::Invalid { .. })));
    assert!(run_search(&engine, &node, "| savedsearch Writer", &user(&["search", "output_file"], &["*"])).is_ok());
    assert_eq!(node.effects(), 1);
}

#[test]
fn commands_built_from_data_are_refused_at_run_time() {
    let (engine, node) = node();
    let searcher = user(&["search", "input_file"], &["*"]);
    for text in [
        "| makeresults | eval c=\"outputlookup t.csv\" | map search=\"| makeresults | $c$\"",
        "| makeresults | eval c=\"| outputlookup t.csv\" | map search=\"search * $c$\"",
        "| inputlookup codes | map search=\"search * $word$\"",
    ] {
        let refused = run_search(&engine, &node, text, &searcher);
        assert!(matches!(&refused, Err(EngineError::Forbidden { .. })), "{text}: {refused:?}");
        assert_eq!(node.effects(), 0, "{text}");
    }
}

#[test]
fn users_without_roles_find_nothing() {
    let (engine, node) = node();
    for text in ["*", "| makeresults", "| history", "| rest /services/server/info"] {
        let refused = run_search(&engine, &node, text, &Arc::new(Permissions::default()));
        assert!(matches!(&refused, Err(EngineError::Forbidden { capability, .. }) if capability == "search"), "{text}");
    }
    let explained = engine.explain(
        SearchRequest {
            default_indexes: Vec::new(),
            permissions: user(&["search"], &["*"]),
            ..request("* | outputlookup t")
        },
        None,
    );
    assert!(explained.unwrap_err()[0].message.contains("output_file"));
    assert_eq!(node.read.load(Ordering::SeqCst), 0);
}

#[test]
fn forbidden_indexes_appear_empty() {
    let (engine, node) = node();
    let all = user(&["search", "get_metadata"], &["*", "_*"]);
    let usual = user(&["search", "get_metadata"], &["*"]);
    let web = user(&["search", "get_metadata"], &["web"]);
    for (text, rows) in [
        ("index=* OR index=_*", [3, 2, 1]),
        ("index=_audit", [1, 0, 0]),
        ("index=web", [1, 1, 1]),
        ("*", [1, 1, 0]),
        ("index=* OR index=_* | stats count by index", [3, 2, 1]),
        ("| tstats count where index=* OR index=_* by index", [3, 2, 1]),
        ("| makeresults | append [search index=_audit]", [2, 1, 1]),
        ("| makeresults | map search=\"search index=_audit\"", [1, 0, 0]),
        ("| union [search index=_audit] [search index=web]", [2, 1, 1]),
        ("| dbinspect index=* index=_*", [3, 2, 1]),
        ("| metadata type=hosts index=_audit", [1, 0, 0]),
        ("| eventcount summarize=false index=* index=_*", [3, 2, 1]),
    ] {
        let found = [&all, &usual, &web].map(|permissions| run_search(&engine, &node, text, permissions).unwrap());
        assert_eq!(found, rows, "{text}");
    }
}

#[test]
fn events_are_written_only_to_allowed_indexes() {
    let (engine, node) = node();
    let writer = user(&["search", "run_collect", "run_mcollect"], &["*"]);
    let admin = user(&["search", "run_collect", "run_mcollect", "indexes_edit"], &["*", "_*"]);
    for index in ["_audit", "_internal"] {
        for command in ["collect", "mcollect", "meventcollect"] {
            let text = format!("* | eval metric_name=\"m\", _value=1 | {command} index={index}");
            let refused = run_search(&engine, &node, &text, &writer).unwrap_err().to_string();
            assert!(refused.contains("indexes_edit") && refused.contains(command), "{text}: {refused}");
        }
    }
    let long = "x".repeat(300);
    for index in ["../../x", "a\u{0}b", &long, "Web", "a b", "-a", "_nobody_knows", "a/b", ".."] {
        for command in ["collect", "mcollect", "meventcollect"] {
            for permissions in [&writer, &admin] {
                let text = format!("* | {command} index=\"{index}\"");
                let refused = run_search(&engine, &node, &text, permissions).unwrap_err();
                assert!(refused.span().is_some(), "{text}: {refused:?}");
            }
        }
    }
    assert_eq!((node.effects(), node.read.load(Ordering::SeqCst)), (0, 0), "refused before events were read");
    run_search(&engine, &node, "* | collect index=web", &writer).unwrap();
    run_search(&engine, &node, "* | collect index=_audit", &admin).unwrap();
    assert_eq!(node.recorder.effects(), ["events in web", "events in _audit"]);
}

#[test]
fn jobs_of_other_users_are_invisible() {
    let (engine, node) = node();
    let (eva, admin) = (user(&["search"], &["*"]), user(&["search", "admin_all_objects"], &["*"]));
    let refused = run_search(&engine, &node, "| loadjob 1.1", &eva).unwrap_err().to_string();
    assert!(refused.contains("no job 1.1 is kept"), "{refused}");
    assert!(run_search(&engine, &node, "| loadjob 1.1", &admin).is_ok());
    assert_eq!([&eva, &admin].map(|viewer| run_search(&engine, &node, "| history", viewer).unwrap()), [1, 2]);
}
