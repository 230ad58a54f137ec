//! Named knowledge objects used by searches: data models, macros, event types, tags, saved searches, and stanzas of
//! multikv.conf and transactiontypes.conf.
//!
//! The engine asks a [`KnowledgeSource`], whose implementation finds the files. Models that no app defines are looked
//! up among the bundled models ([`common_information_model`]).

pub(crate) mod common_information_model;
pub(crate) mod labels;
pub(crate) mod macros;
pub(crate) mod model;
pub(crate) mod model_description;
pub(crate) mod object;

use std::collections::BTreeMap;

use quarry_eval::EngineError;
use quarry_spl::macros::Macro;
use quarry_stdx::Fault;

pub use self::labels::{EventType, Tag};
use self::model::DataModel;
pub use self::model_description::{described_model, model_headline, stored_model};

/// Source of definitions.
pub trait KnowledgeSource: Send + Sync {
    /// JSON text of the data model of this name.
    fn data_model(&self, _name: &str) -> Result<Option<String>, Fault> {
        Ok(None)
    }
    /// Names of the data models.
    fn data_models(&self) -> Vec<String> {
        Vec::new()
    }
    /// The macro with this name and number of arguments.
    fn macro_definition(&self, _name: &str, _arguments: usize) -> Option<Macro> {
        None
    }
    /// Names of the macros, those with arguments as `name(2)`.
    fn macro_names(&self) -> Vec<String> {
        Vec::new()
    }
    /// The event types, in the order in which events list them.
    fn event_types(&self) -> Vec<EventType> {
        Vec::new()
    }
    /// All tags.
    fn tags(&self) -> Vec<Tag> {
        Vec::new()
    }
    /// Settings of a stanza of multikv.conf.
    fn table_rule(&self, _name: &str) -> Option<BTreeMap<String, String>> {
        None
    }
    /// Names of the stanzas of multikv.conf.
    fn table_rules(&self) -> Vec<String> {
        Vec::new()
    }
    /// Settings of a stanza of transactiontypes.conf.
    fn transaction_type(&self, _name: &str) -> Option<BTreeMap<String, String>> {
        None
    }
    /// Names of the stanzas of transactiontypes.conf.
    fn transaction_types(&self) -> Vec<String> {
        Vec::new()
    }
    /// Text of the saved search of this name.
    fn saved_search(&self, _name: &str) -> Option<String> {
        None
    }
    /// Start and end of the time range saved with a search, as time modifiers.
    fn saved_time_range(&self, _name: &str) -> (Option<String>, Option<String>) {
        (None, None)
    }
    /// Values saved with a search for `$key$` in its text (`args.key`).
    fn saved_arguments(&self, _name: &str) -> Vec<(String, String)> {
        Vec::new()
    }
    /// Names of the saved searches.
    fn saved_searches(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Maximum number of names in an error message.
const NAMES_MAX: usize = 12;

/// Defines nothing; only the bundled data models exist.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoKnowledge;

impl KnowledgeSource for NoKnowledge {}

/// Whether a data model of this name is bundled.
pub fn has_bundled_model(name: &str) -> bool {
    common_information_model::json_of(name).is_some()
}

/// Names and JSON texts of the bundled data models.
pub fn bundled_models() -> impl Iterator<Item = (&'static str, &'static str)> {
    common_information_model::MODELS.iter().copied()
}

/// Names of all data models, those of apps first.
pub(crate) fn model_names(source: &dyn KnowledgeSource) -> Vec<String> {
    let mut names = source.data_models();
    for (name, _) in common_information_model::MODELS {
        if !names.iter().any(|known| known == name) {
            names.push((*name).to_owned());
        }
    }
    names
}

/// JSON text of a data model.
pub(crate) fn model_text(source: &dyn KnowledgeSource, name: &str) -> Result<String, EngineError> {
    if let Some(text) = source.data_model(name)? {
        return Ok(text);
    }
    common_information_model::json_of(name).map(str::to_owned).ok_or_else(|| {
        let known = suggest_or_list(name, "models", &model_names(source));
        EngineError::invalid(format!("there is no data model {name}{known}"))
    })
}

pub(crate) fn data_model(source: &dyn KnowledgeSource, name: &str) -> Result<DataModel, EngineError> {
    Ok(DataModel::of_json(name, &model_text(source, name)?)?)
}

/// The first names, and the number of further names.
pub(crate) fn list_names(names: &[String]) -> String {
    let first = names.iter().take(NAMES_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => first,
        rest => format!("{first} and {rest} more"),
    }
}

/// ` (did you mean ...?)` if there is a similar name, otherwise the known names; `what` says what they name.
pub(crate) fn suggest_or_list(name: &str, what: &str, known: &[String]) -> String {
    match did_you_mean(name, known) {
        near if near.is_empty() && !known.is_empty() => format!("; existing {what}: {}", list_names(known)),
        near => near,
    }
}

/// ` (did you mean ...?)` if there is a similar name.
pub(crate) fn did_you_mean(name: &str, known: &[String]) -> String {
    let near = quarry_spl::closest_name(name, known.iter().map(String::as_str));
    near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
}
