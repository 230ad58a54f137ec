//! The knowledge objects that a search needs: the lookup tables, data models and saved searches that it names.

use std::collections::{BTreeMap, BTreeSet};

use crate::ast::{DataModelName, Pipeline};

/// Names that a search depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// Lookup tables that the search reads.
    pub lookups: BTreeSet<String>,
    /// Columns of these tables that the search names.
    pub columns: BTreeMap<String, BTreeSet<String>>,
    /// Data models that the search reads.
    pub data_models: BTreeSet<String>,
    /// Objects of data models that the search names.
    pub objects: BTreeSet<String>,
    /// Machine learning models that the search applies or describes.
    pub models: BTreeSet<String>,
    /// Saved searches that the search runs.
    pub saved_searches: BTreeSet<String>,
    /// Searches that `map` runs; their macros are expanded when they run.
    pub map_texts: BTreeSet<String>,
}

impl Dependencies {
    /// The needs of a search and its subsearches.
    pub fn of(pipeline: &Pipeline) -> Dependencies {
        let mut needs = Dependencies::default();
        needs.add(pipeline);
        needs
    }

    fn add(&mut self, pipeline: &Pipeline) {
        for (at, stage) in pipeline.commands.iter().enumerate() {
            let node = stage.command.node();
            node.subsearches().into_iter().for_each(|inner| self.add(inner));
            node.add_dependencies(&pipeline.commands[at + 1..], self);
        }
    }

    /// Adds a lookup table.
    pub(crate) fn add_lookup(&mut self, name: &str) {
        self.lookups.insert(name.to_owned());
    }

    /// Adds a data model and its object.
    pub(crate) fn add_model(&mut self, name: &DataModelName) {
        self.data_models.insert(name.model.clone());
        self.objects.extend(name.object.clone());
    }
}
