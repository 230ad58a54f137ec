//! Generated searches over events of the benchmark's shapes have the same results however the events are stored: as
//! texts, hot, sealed or compacted.
//!
//! Not here: whether these results are right; `cargo xtask bench --shapes` compares them with a database.

use std::collections::BTreeMap;
use std::path::Path;

use quarry_conf::{ConfSource, Layer, builtin_sources};
use quarry_engine::Slicing;
use quarry_event::{EventBatch, Metadata};
use quarry_eventgen::shapes::{self, Shape};
use quarry_store::{AppendRequest, Store};
use tempfile::tempdir;

use crate::generator::Rng;
use crate::text_searches::{CorpusSample, search};
use crate::world::{START, StoredEvents, engine_of, run_search, store_of, stored_events, tiny, values};
use crate::{DIFFERENCES_SHOWN_MAX, SUFFICIENT_BYTES, columns_sorted, difference};

/// Number of events in a data set: more than are needed to recognise the templates of a shape.
const EVENTS: u32 = 400;
/// Number of searches per generated data set; later searches use another data set.
const SEARCHES_PER_DRAW: u64 = 500;
/// Number of searches of each shape per test run.
const SEARCHES: u64 = 10;
/// Number of events per append.
const BATCH: usize = 97;

/// Appends all events, to the index `main`.
fn append(store: &Store, shape: &dyn Shape, events: &[(i64, shapes::Event)]) {
    let files = shape.files();
    for events in events.chunks(BATCH) {
        let mut batch = EventBatch { index_time: START, ..EventBatch::default() };
        for (millis, event) in events {
            let file = &files[event.file];
            let meta = batch.intern(&Metadata {
                index: "main".into(),
                host: "drawn".into(),
                source: format!("/var/log/{}", file.name).into(),
                sourcetype: file.sourcetype.into(),
            });
            batch.push(event.text.as_bytes(), millis * 1_000_000, meta);
        }
        store.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
    }
}

/// Stores the events in every form, below `folder`; plain texts come first.
fn storage_forms(folder: &Path, shape: &dyn Shape, events: &[(i64, shapes::Event)]) -> Vec<StoredEvents> {
    let store = |name: &str, slab_events: usize| {
        let store = store_of(&folder.join(name), slab_events);
        append(&store, shape, events);
        store
    };
    let hot = store("hot", 1 << 18);
    let sealed = store("sealed", events.len());
    sealed.seal_all().unwrap();
    let compacted = store("compacted", events.len() / 3);
    compacted.seal_all().unwrap();
    compacted.compact_all().unwrap();
    vec![
        stored_events("texts only", &sealed, true),
        stored_events("hot", &hot, false),
        stored_events("sealed", &sealed, false),
        stored_events("compacted", &compacted, false),
    ]
}

/// Configuration files: the built-in ones and those of the shape.
fn conf(shape: &dyn Shape) -> Vec<ConfSource> {
    let mut by_file = BTreeMap::<&str, String>::new();
    shape.conf().iter().for_each(|(file, text)| by_file.entry(file).or_default().push_str(text));
    let own = by_file.into_iter().map(|(file, text)| ConfSource {
        layer: Layer::SystemLocal,
        app: None,
        file: file.into(),
        text,
    });
    builtin_sources().into_iter().chain(own).collect()
}

/// Runs the searches of `seeds` on one generated data set.
fn run_generated(at: usize, draw: u64, seeds: std::ops::Range<u64>, faults: &mut Vec<String>) -> u64 {
    let mut shape = shapes::shapes(draw).swap_remove(at);
    let events = shapes::events(shape.as_mut(), draw, EVENTS, START / 1_000_000_000);
    let folder = tempdir().unwrap();
    let forms = storage_forms(folder.path(), shape.as_ref(), &events);
    let conf = conf(shape.as_ref());
    let (whole, sliced) =
        (engine_of(conf.clone(), SUFFICIENT_BYTES, Slicing::default()), engine_of(conf, SUFFICIENT_BYTES, tiny()));
    let fields = values(&whole, &forms[0].kept, "index=main | head 300 | table *");
    let texts = events.into_iter().map(|(_, event)| event.text).collect();
    let known = CorpusSample { texts, fields: fields.into_iter().filter(|(name, _)| !name.starts_with('_')).collect() };
    let mut found_some = 0;
    for seed in seeds {
        let text = search(&mut Rng::new(seed), &known);
        let expected = columns_sorted(run_search(&whole, &forms[0].kept, &text));
        found_some +=
            u64::from(expected.as_ref().is_ok_and(|rows| rows.iter().any(|row| !row.starts_with("columns "))));
        for (form, engine) in forms[1..].iter().flat_map(|form| [(form, &whole), (form, &sliced)]) {
            let found = columns_sorted(run_search(engine, &form.kept, &text));
            if found != expected {
                let what = difference(&found, &expected);
                faults.push(format!("{} draw {draw} seed {seed} ({}): {text}\n  {what}", shape.name(), form.name));
                break;
            }
        }
    }
    found_some
}

/// For more or other seeds: `cargo xtask soak-searches --seeds N --from SEED`.
#[test]
#[expect(clippy::disallowed_methods, reason = "SOAK_SEEDS and SOAK_FROM say which searches, SOAK_SHAPE of which shape")]
fn generated_searches_give_the_same_results_in_every_storage_form() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse::<u64>().unwrap());
    let (from, count) = (number("SOAK_FROM", 0), number("SOAK_SEEDS", SEARCHES));
    let only = std::env::var("SOAK_SHAPE").ok();
    let (mut faults, mut asked, mut found_some) = (Vec::new(), 0, 0);
    for (at, shape) in shapes::shapes(0).iter().enumerate() {
        if only.as_ref().is_some_and(|only| only != shape.name()) {
            continue;
        }
        let mut first = from;
        while first < from + count {
            let draw = first / SEARCHES_PER_DRAW;
            let end = ((draw + 1) * SEARCHES_PER_DRAW).min(from + count);
            found_some += run_generated(at, draw, first..end, &mut faults);
            asked += end - first;
            first = end;
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults\n{}",
        faults.len(),
        faults[..faults.len().min(DIFFERENCES_SHOWN_MAX)].join("\n")
    );
    assert!(found_some * 3 > asked, "{found_some} of {asked} searches found something");
}
