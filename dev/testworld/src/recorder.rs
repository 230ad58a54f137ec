//! A node that records the side effects of searches.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::sync::Mutex;

use quarry_engine::{
    CommandProcess, CommandSource, FillTable, KnowledgeSource, LookupSource, LookupTable, NodeSource, SnapshotSource,
    TableContext,
};
use quarry_event::{EventBatch, TimeRange};
use quarry_spl::macros::Macro;
use quarry_stdx::Fault;
use quarry_store::{IndexSelector, MemoryStore, Snapshot, StoreError};

/// Name and definition.
type NamedText = (&'static str, &'static str);

/// A node without events. Tables and models exist after they are written; the command `launch` and the alert action
/// `page` always exist.
#[derive(Default)]
pub struct Recorder {
    effects: Mutex<Vec<String>>,
    tables: Mutex<HashMap<String, Vec<u8>>>,
    models: Mutex<HashMap<String, Vec<u8>>>,
    macros: &'static [NamedText],
    saved_searches: &'static [NamedText],
}

impl Recorder {
    /// Creates a node with these macros, which have no arguments, and these saved searches.
    pub fn new(macros: &'static [NamedText], saved_searches: &'static [NamedText]) -> Recorder {
        Recorder { macros, saved_searches, ..Recorder::default() }
    }

    /// Adds a lookup table.
    pub fn with_table(self, name: &str, csv: &str) -> Recorder {
        self.tables.lock().unwrap().insert(name.to_owned(), csv.as_bytes().to_vec());
        self
    }

    /// Side effects so far, in order.
    pub fn effects(&self) -> Vec<String> {
        self.effects.lock().unwrap().clone()
    }

    fn record_effect(&self, effect: String) {
        self.effects.lock().unwrap().push(effect);
    }
}

fn text_of(named: &[NamedText], name: &str) -> Option<String> {
    named.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
}

impl LookupSource for Recorder {
    fn table(&self, name: &str) -> Result<Option<LookupTable>, Fault> {
        let found = self.tables.lock().unwrap().get(name).cloned();
        Ok(found.map(|csv| LookupTable::of_csv(String::from_utf8(csv).unwrap())))
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn write(&self, name: &str, _: Option<TableContext>, fill: FillTable<'_>) -> Result<(), Fault> {
        self.record_effect(format!("table {name}"));
        let mut csv = Vec::new();
        fill(&mut csv)?;
        self.tables.lock().unwrap().insert(name.to_owned(), csv);
        Ok(())
    }

    fn dump_file(&self, _: &str, path: &str) -> Result<Box<dyn Write + Send>, Fault> {
        self.record_effect(format!("dump {path}"));
        Ok(Box::new(std::io::sink()))
    }

    fn model(&self, name: &str, _: bool) -> Result<Option<Vec<u8>>, Fault> {
        Ok(self.models.lock().unwrap().get(name).cloned())
    }

    fn write_model(&self, name: &str, _: bool, bytes: &[u8]) -> Result<(), Fault> {
        self.record_effect(format!("model {name}"));
        self.models.lock().unwrap().insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn remove_model(&self, name: &str, _: bool) -> Result<bool, Fault> {
        self.record_effect(format!("model {name} removed"));
        Ok(self.models.lock().unwrap().remove(name).is_some())
    }
}

impl CommandSource for Recorder {
    fn names(&self) -> BTreeSet<String> {
        BTreeSet::from(["launch".to_owned()])
    }

    fn start(&self, name: &str, _: bool) -> Result<Box<dyn CommandProcess>, Fault> {
        self.record_effect(format!("program {name}"));
        Err(Fault::invalid("it was begun"))
    }

    fn check_alert(&self, name: &str) -> Result<(), Fault> {
        if name == "page" { Ok(()) } else { Err(Fault::invalid("there is none")) }
    }
}

impl KnowledgeSource for Recorder {
    fn macro_definition(&self, name: &str, arguments: usize) -> Option<Macro> {
        let definition = text_of(self.macros, name).filter(|_| arguments == 0)?;
        Some(Macro { definition, ..Macro::default() })
    }

    fn saved_search(&self, name: &str) -> Option<String> {
        text_of(self.saved_searches, name)
    }
}

impl NodeSource for Recorder {}

impl SnapshotSource for Recorder {
    fn snapshot(&self, _: &IndexSelector, _: &TimeRange) -> Result<Snapshot, StoreError> {
        Ok(MemoryStore::new("none").snapshot())
    }

    fn store_events(&self, events: EventBatch) -> Result<(), Fault> {
        self.record_effect(format!("events in {}", events.metas[0].index));
        Ok(())
    }
}
