//! Searches of the built-in sourcetypes have the same results whether the events are stored as text or as templates.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod rng;

use std::sync::Arc;

use arrow::array::Array as _;
use arrow::datatypes::DataType;
use quarry_conf::{ConfSource, Layer, Layers, PropsResolver};
use quarry_engine::{Engine, EngineOptions, SnapshotSource};
use quarry_event::{EventBatch, Metadata, TimeRange};
use quarry_stdx::ManualClock;
use quarry_store::{AppendRequest, IndexSelector, MemoryStore, Store, StoreOptions};
use quarry_testworld::{FixedSnapshot, NoTables, request};

/// The same events stored as text and sealed, and the engine that searches them.
struct World {
    engine: Engine,
    text: Arc<dyn SnapshotSource>,
    sealed: Arc<Store>,
    _folder: tempfile::TempDir,
}

impl World {
    /// Events of several sourcetypes in one index, with the built-in settings and `props` on top.
    fn new(events: &[(&str, String)], props: &str) -> World {
        let folder = tempfile::tempdir().unwrap();
        let sealed = Store::open(StoreOptions::at(folder.path()), ManualClock::shared(1_000_000_000)).unwrap();
        let memory = MemoryStore::new("main");
        let mut batch = EventBatch { index_time: 5_000_000_000, ..EventBatch::default() };
        for (at, (sourcetype, text)) in events.iter().enumerate() {
            let meta = batch.intern(&Metadata {
                index: "main".into(),
                host: "web".into(),
                source: "/var/log/x.log".into(),
                sourcetype: (*sourcetype).into(),
            });
            batch.push(text.as_bytes(), at as i64 * 1_000_000_000, meta);
        }
        memory.append(batch.clone()).unwrap();
        sealed.append(AppendRequest { batch, checkpoint: None }).unwrap().wait().unwrap();
        sealed.seal_all().unwrap();
        let snapshot = SnapshotSource::snapshot(sealed.as_ref(), &IndexSelector::all(), &TimeRange::ALL).unwrap();
        for segment in &snapshot.segments {
            assert!(segment.template_set().unwrap().is_some(), "the events are made of columns");
        }
        let mut sources = quarry_conf::builtin_sources();
        let own = ConfSource { layer: Layer::SystemLocal, app: None, file: "props.conf".into(), text: props.into() };
        sources.push(own);
        let props = Arc::new(PropsResolver::new(&Layers::new(sources)));
        let engine = Engine::new(&EngineOptions::default(), props, Arc::new(NoTables)).unwrap();
        World { engine, text: Arc::new(FixedSnapshot(memory.snapshot().segments)), sealed, _folder: folder }
    }

    fn run_search(&self, source: Arc<dyn SnapshotSource>, search: &str) -> Vec<String> {
        let request = request(search);
        let mut job = self.engine.start(request, source).unwrap_or_else(|faults| panic!("{search}: {faults:?}"));
        let mut found = Vec::new();
        while let Some(batch) = job.next_batch() {
            let batch = batch.unwrap_or_else(|error| panic!("{search}: {error}"));
            let schema = batch.schema();
            for row in 0..batch.num_rows() {
                let mut cells: Vec<String> = (schema.fields().iter().zip(batch.columns()))
                    .filter(|(_, column)| column.data_type() != &DataType::Null && column.is_valid(row))
                    .map(|(field, column)| {
                        let text = arrow::util::display::array_value_to_string(column, row).unwrap();
                        format!("{}={text}", field.name())
                    })
                    .collect();
                cells.sort();
                found.push(cells.join(" | "));
            }
        }
        assert!(job.messages().is_empty(), "{search}: {:?}", job.messages());
        found
    }

    /// Runs searches over both.
    fn compare(&self, searches: impl Iterator<Item = String>) {
        let mut faults = Vec::new();
        for search in searches {
            let expected = self.run_search(Arc::clone(&self.text), &search);
            let found = self.run_search(Arc::clone(&self.sealed) as Arc<dyn SnapshotSource>, &search);
            if found != expected {
                let rows = found.len().max(expected.len());
                let differs = (0..rows).find(|at| found.get(*at) != expected.get(*at)).unwrap();
                faults.push(format!(
                    "{search}: {} rows, {} expected; row {differs}\n  sealed {:?}\n  text   {:?}",
                    found.len(),
                    expected.len(),
                    found.get(differs),
                    expected.get(differs)
                ));
            }
        }
        assert!(faults.is_empty(), "{} differ\n{}", faults.len(), faults[..faults.len().min(20)].join("\n"));
    }
}
