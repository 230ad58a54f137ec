//! Named knowledge from the files of apps: macros.conf, savedsearches.conf, eventtypes.conf, tags.conf, multikv.conf,
//! transactiontypes.conf and data models.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quarry_conf::text::DEFAULT_STANZA;
use quarry_conf::{Layers, MacrosConf, Namespace, Readable, View};
use quarry_engine::{EventType, KnowledgeSource, Tag};
use quarry_spl::macros::Macro;
use quarry_stdx::Fault;

use crate::folders::{app_folders, app_name, user_folder};

/// Location of knowledge files that are not part of the configuration.
#[derive(Clone, Copy, Debug)]
pub enum KnowledgeLocation<'a> {
    /// No files; only the configuration is used.
    None,
    /// All apps of a data directory, and the private objects of a namespace if one is given.
    Apps(&'a Path, Option<&'a Namespace>),
    /// Files that a view of a data directory sees.
    View(&'a Path, &'a View),
}

/// Prefix of the settings of a saved search with values for its `$key$`.
const ARGUMENT_PREFIX: &str = "args.";
/// Maximum size of a data model in bytes.
const MODEL_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Knowledge of a data directory.
pub struct KnowledgeFiles {
    layers: Layers,
    /// Files of data models by name; `local` takes precedence over `default`.
    models: BTreeMap<String, PathBuf>,
}

impl KnowledgeFiles {
    /// Combines a configuration with the data models at a location, without models that `readable` excludes.
    pub fn new(layers: &Layers, place: KnowledgeLocation<'_>, readable: &Readable) -> KnowledgeFiles {
        let models = match place {
            KnowledgeLocation::None => BTreeMap::new(),
            KnowledgeLocation::Apps(data_dir, own) => {
                let mut models = all_models(data_dir, readable);
                models.extend(own.into_iter().flat_map(|own| private_models(data_dir, own)));
                models
            }
            KnowledgeLocation::View(data_dir, view) => visible_models(data_dir, view, readable),
        };
        KnowledgeFiles { layers: layers.clone(), models }
    }
}

/// Data models of all apps.
fn all_models(data_dir: &Path, readable: &Readable) -> BTreeMap<String, PathBuf> {
    let apps = app_folders(data_dir, None);
    let folders = ["default", "local"].into_iter().flat_map(|layer| apps.iter().map(move |app| (app, layer)));
    let readable_of = |(app, layer): (&PathBuf, &str)| {
        let app_name = app_name(app);
        let models = models_in(&app.join(layer)).into_iter();
        models.filter(|(name, _)| may_read(readable, &app_name, name)).collect::<Vec<_>>()
    };
    folders.flat_map(readable_of).collect()
}

/// Whether a model may be read. Metadata may name the kind of a model `models` or `datamodels`; both must permit
/// reading.
fn may_read(readable: &Readable, app: &str, name: &str) -> bool {
    ["models", "datamodels"].iter().all(|kind| readable.includes(app, &[kind, name]))
}

/// Data models visible to a view. Of several models with one name, a private model wins, else the first app's model.
fn visible_models(data_dir: &Path, view: &View, readable: &Readable) -> BTreeMap<String, PathBuf> {
    let mut models = BTreeMap::new();
    for folder in app_folders(data_dir, Some(view)).into_iter().rev() {
        let app = app_name(&folder);
        let of_app = ["default", "local"].into_iter().flat_map(|layer| models_in(&folder.join(layer)));
        models.extend(of_app.filter(|(name, _)| view.is_model_visible(&app, name) && may_read(readable, &app, name)));
    }
    models.extend(private_models(data_dir, view.namespace()));
    models
}

/// Private data models of a namespace's user, who may read all of them.
fn private_models(data_dir: &Path, own: &Namespace) -> Vec<(String, PathBuf)> {
    user_folder(data_dir, own).map(|folder| models_in(&folder.join("local"))).unwrap_or_default()
}

fn models_in(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut files = sorted_paths(&folder.join("data/models"));
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    let named = |path: PathBuf| Some((path.file_stem()?.to_string_lossy().into_owned(), path));
    files.into_iter().filter_map(named).collect()
}

fn sorted_paths(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The settings of an existing stanza.
fn stanza_of(layers: &Layers, conf: &str, name: &str) -> Option<BTreeMap<String, String>> {
    let conf = layers.conf(conf);
    conf.stanzas().iter().find(|stanza| stanza.name == name)?;
    Some(conf.effective(name).into_iter().map(|(key, setting)| (key.to_owned(), setting.value.clone())).collect())
}

impl KnowledgeSource for KnowledgeFiles {
    fn data_model(&self, name: &str) -> Result<Option<String>, Fault> {
        let Some(path) = self.models.get(name) else { return Ok(None) };
        let unreadable = |error: std::io::Error| Fault::io(format_args!("data model {name}"), error);
        let bytes = path.metadata().map_err(unreadable)?.len();
        if bytes > MODEL_BYTES_MAX {
            return Err(Fault::invalid(format!(
                "data model {name}: {bytes} bytes; the limit for a data model is {MODEL_BYTES_MAX}"
            )));
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

    fn table_rule(&self, name: &str) -> Option<BTreeMap<String, String>> {
        stanza_of(&self.layers, "multikv", name)
    }

    fn transaction_type(&self, name: &str) -> Option<BTreeMap<String, String>> {
        stanza_of(&self.layers, "transactiontypes", name)
    }

    fn transaction_types(&self) -> Vec<String> {
        self.layers.conf("transactiontypes").stanzas().iter().map(|stanza| stanza.name.clone()).collect()
    }

    fn table_rules(&self) -> Vec<String> {
        self.layers.conf("multikv").stanzas().iter().map(|stanza| stanza.name.clone()).collect()
    }

    fn saved_search(&self, name: &str) -> Option<String> {
        self.layers.conf("savedsearches").get(name, "search").map(str::to_owned)
    }

    fn saved_time_range(&self, name: &str) -> (Option<String>, Option<String>) {
        let saved = self.layers.conf("savedsearches");
        let time = |setting| saved.get(name, setting).map(str::to_owned);
        (time("dispatch.earliest_time"), time("dispatch.latest_time"))
    }

    fn saved_arguments(&self, name: &str) -> Vec<(String, String)> {
        let saved = self.layers.conf("savedsearches");
        let stanza = saved.stanzas().iter().find(|stanza| stanza.name == name);
        let settings = stanza.into_iter().flat_map(|stanza| &stanza.settings);
        let arguments = settings.filter_map(|(key, setting)| Some((key.strip_prefix(ARGUMENT_PREFIX)?, setting)));
        arguments.map(|(key, setting)| (key.to_owned(), setting.value.clone())).collect()
    }

    fn saved_searches(&self) -> Vec<String> {
        let conf = self.layers.conf("savedsearches");
        let named = conf.stanzas().iter().filter(|stanza| stanza.name != DEFAULT_STANZA);
        named.map(|stanza| stanza.name.clone()).collect()
    }
}
