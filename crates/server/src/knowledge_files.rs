//! What searches know by name, from the files of apps: macros.conf, savedsearches.conf, eventtypes.conf, tags.conf
//! and data models.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quarry_conf::{Layers, MacrosConf};
use quarry_engine::{EventType, KnowledgeSource, Tag};
use quarry_spl::macros::Macro;

/// Largest data model read, in bytes.
const MODEL_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Definitions of a data folder.
pub(crate) struct KnowledgeFiles {
    layers: Layers,
    /// Files of data models by name; an app's own changes win over what it came with.
    models: BTreeMap<String, PathBuf>,
}

impl KnowledgeFiles {
    /// Definitions of a data folder; without one those of the configuration alone.
    pub(crate) fn new(layers: &Layers, data_dir: Option<&Path>) -> KnowledgeFiles {
        let mut models = BTreeMap::new();
        let apps = data_dir.map(|dir| sorted(&dir.join("etc/apps"))).unwrap_or_default();
        for layer in ["default", "local"] {
            for app in &apps {
                for path in sorted(&app.join(layer).join("data/models")) {
                    let is_json = path.extension().is_some_and(|extension| extension == "json");
                    if let Some(name) = path.file_stem().filter(|_| is_json) {
                        models.insert(name.to_string_lossy().into_owned(), path.clone());
                    }
                }
            }
        }
        KnowledgeFiles { layers: layers.clone(), models }
    }
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

impl KnowledgeSource for KnowledgeFiles {
    fn data_model(&self, name: &str) -> Result<Option<String>, String> {
        let Some(path) = self.models.get(name) else { return Ok(None) };
        let unreadable = |error: std::io::Error| format!("{}: {error}", path.display());
        let bytes = path.metadata().map_err(unreadable)?.len();
        if bytes > MODEL_BYTES_MAX {
            return Err(format!("{}: {bytes} bytes, the limit for a data model is {MODEL_BYTES_MAX}", path.display()));
        }
        std::fs::read_to_string(path).map(Some).map_err(unreadable)
    }

    fn data_models(&self) -> Vec<String> {
        self.models.keys().cloned().collect()
    }

    fn macro_definition(&self, name: &str, arguments: usize) -> Option<Macro> {
        MacrosConf::new(&self.layers).get(name, arguments).map(|found| Macro {
            arguments: found.arguments,
            definition: found.definition,
            is_eval: found.is_eval,
            validation: found.validation,
            error_message: found.error_message,
        })
    }

    fn macro_names(&self) -> Vec<String> {
        MacrosConf::new(&self.layers).names()
    }

    fn event_types(&self) -> Vec<EventType> {
        let types = quarry_conf::event_types(&self.layers).into_iter();
        types.map(|found| EventType { name: found.name, search: found.search }).collect()
    }

    fn tags(&self) -> Vec<Tag> {
        let tags = quarry_conf::tags(&self.layers).into_iter();
        tags.map(|found| Tag { name: found.name, field: found.field, value: found.value }).collect()
    }

    fn saved_search(&self, name: &str) -> Option<String> {
        self.layers.conf("savedsearches").get(name, "search").map(str::to_owned)
    }

    fn saved_searches(&self) -> Vec<String> {
        self.layers.conf("savedsearches").stanzas().iter().map(|stanza| stanza.name.clone()).collect()
    }
}
