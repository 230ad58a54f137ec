//! Tables of automatic lookups, read once per search when the first event needs them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use quarry_eval::lookup::{Lookup, LookupIndex, LookupSource, csv_columns};
use quarry_spl::ast::{Command, LookupCommand};
use quarry_spl::first_fault;
use quarry_stdx::Fault;

/// Loads lookup tables for one search.
pub(crate) struct Tables {
    source: Arc<dyn LookupSource>,
    /// Whether no rule produces fields.
    are_skipped: bool,
    /// Opened tables by the text of the rule.
    cache: Mutex<BTreeMap<String, LoadedLookup>>,
    /// Output fields by the text of the rule.
    outputs: Mutex<BTreeMap<String, Result<Vec<String>, Fault>>>,
}

/// A lookup, or the reason why it cannot be read.
type LoadedLookup = Result<Lookup, Fault>;

/// Parses a `LOOKUP-` setting, which has the syntax of the `lookup` command.
pub(crate) fn command_of(text: &str) -> Result<LookupCommand, Fault> {
    match quarry_spl::parse_arguments("lookup", text).map_err(|remarks| first_fault(&remarks))? {
        Command::Lookup(command) if !command.inputs.is_empty() => Ok(command),
        _ => Err(Fault::invalid("it needs a table and a field to look up")),
    }
}

impl Tables {
    /// Tables loaded from this source.
    pub(crate) fn new(source: Arc<dyn LookupSource>) -> Tables {
        Tables { source, are_skipped: false, cache: Mutex::default(), outputs: Mutex::default() }
    }

    /// Tables of a search that applies no automatic lookups: no rule produces fields.
    pub(crate) fn skipped(source: Arc<dyn LookupSource>) -> Tables {
        Tables { are_skipped: true, ..Tables::new(source) }
    }

    /// Fields that a rule produces.
    pub(crate) fn outputs(&self, text: &str) -> Result<Vec<String>, Fault> {
        if self.are_skipped {
            return Ok(Vec::new());
        }
        if let Some(known) = self.outputs.lock().unwrap_or_else(PoisonError::into_inner).get(text) {
            return known.clone();
        }
        let outputs = self.read_outputs(text);
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned(), outputs.clone());
        outputs
    }

    fn read_outputs(&self, text: &str) -> Result<Vec<String>, Fault> {
        let command = command_of(text)?;
        if !command.outputs.is_empty() {
            return Ok(command.outputs.into_iter().map(|(_, field)| field).collect());
        }
        let missing = || Fault::not_found(format!("there is no lookup table {}", command.table));
        let table = self.source.table(&command.table)?.ok_or_else(missing)?;
        let columns = csv_columns(&table.csv)?;
        Ok(columns.into_iter().filter(|column| !command.inputs.iter().any(|(input, _)| input == column)).collect())
    }

    /// The lookup of a rule.
    pub(crate) fn lookup(&self, text: &str) -> Result<Lookup, Fault> {
        if let Some(known) = self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(text) {
            return known.clone();
        }
        let lookup = self.load(text);
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned(), lookup.clone());
        lookup
    }

    fn load(&self, text: &str) -> LoadedLookup {
        let command = command_of(text)?;
        let missing = || Fault::not_found(format!("there is no lookup table {}", command.table));
        let table = self.source.table(&command.table)?.ok_or_else(missing)?;
        Ok(Lookup::new(LookupIndex::new(&command, table)?))
    }
}
