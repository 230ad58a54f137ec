//! Search-time rules of props.conf: `REPORT-`, `FIELDALIAS-`, `EVAL-` and `LOOKUP-`, and the stanza of multikv.conf
//! that `KV_MODE` names.
//!
//! Values are only split here; expressions and lookups stay text for the search language to parse.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::layers::Layers;
use crate::settings::transforms::ReportRule;
use crate::table::matches_name;
use crate::text::DEFAULT_STANZA;
use crate::values::Values;

/// Conf that defines how tables are read.
const TABLES_CONF: &str = "multikv";

/// Search-time settings of props.conf; all other settings are index-time settings.
const SETTINGS: [&str; 9] =
    ["AUTO_KV_JSON", "EVAL-", "EXTRACT-", "FIELDALIAS-", "KV_MODE", "KV_TRIM_SPACES", "LOOKUP-", "REPORT-", "rename"];

/// Whether a setting of props.conf is a search-time setting.
pub(crate) fn is_search_time(key: &str) -> bool {
    SETTINGS.iter().any(|name| matches_name(name, key))
}

/// The search-time rules of one source, in order of execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchTimeRules {
    /// `REPORT-class` transforms by class, then as listed.
    pub reports: Vec<Arc<ReportRule>>,
    /// `FIELDALIAS-class` by class.
    pub aliases: Vec<AliasRule>,
    /// `EVAL-field` by field.
    pub evals: Vec<(String, String)>,
    /// `LOOKUP-class` by class, with the arguments as the `lookup` command takes them.
    pub lookups: Vec<(String, String)>,
    /// `KV_MODE = multi:STANZA`: the stanza with the rules for reading tables in events.
    pub table: Option<Arc<TableStanza>>,
}

impl SearchTimeRules {
    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        let no_classes = self.reports.is_empty() && self.aliases.is_empty() && self.evals.is_empty();
        no_classes && self.lookups.is_empty() && self.table.is_none()
    }
}

/// A stanza of multikv.conf that `KV_MODE` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableStanza {
    /// Name of the stanza.
    pub name: String,
    /// Settings of the stanza; `None` if the stanza does not exist.
    pub settings: Option<BTreeMap<String, String>>,
}

/// Stanzas of other files that props.conf refers to.
#[derive(Debug, Default)]
pub(super) struct NamedRules {
    /// Transforms that extract fields, from transforms.conf.
    pub(super) reports: BTreeMap<String, Arc<ReportRule>>,
    /// Stanzas of multikv.conf by name.
    tables: BTreeMap<String, BTreeMap<String, String>>,
}

impl NamedRules {
    pub(super) fn new(layers: &Layers) -> NamedRules {
        let conf = layers.conf(TABLES_CONF);
        let named = conf.stanzas().iter().filter(|stanza| stanza.name != DEFAULT_STANZA).map(|stanza| {
            let settings = conf.effective(&stanza.name).into_iter();
            let owned = settings.map(|(key, setting)| (key.to_owned(), setting.value.clone()));
            (stanza.name.clone(), owned.collect())
        });
        NamedRules { reports: crate::settings::transforms::report_rules(layers), tables: named.collect() }
    }

    /// The multikv.conf stanza that `KV_MODE` names, if any.
    fn table(&self, kv_mode: &str) -> Option<Arc<TableStanza>> {
        let (_, name) = kv_mode.split_once(':').filter(|(mode, _)| mode.trim().eq_ignore_ascii_case("multi"))?;
        let name = name.trim();
        Some(Arc::new(TableStanza { name: name.to_owned(), settings: self.tables.get(name).cloned() }))
    }
}

/// One `SOURCE AS TARGET` of a `FIELDALIAS-class`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasRule {
    /// Existing field.
    pub source: String,
    /// New name of the field.
    pub target: String,
    /// `ASNEW`: whether an existing value of the target is kept.
    pub only_new: bool,
}

/// The search-time rules in these settings.
pub(super) fn read(values: &Values<'_>, known: &NamedRules) -> SearchTimeRules {
    let owned = |(class, value): (&str, &str)| (class.to_owned(), value.to_owned());
    let named = values.classes("REPORT-").flat_map(|(_, names)| names.split(','));
    SearchTimeRules {
        reports: named.filter_map(|name| known.reports.get(name.trim()).cloned()).collect(),
        aliases: values.classes("FIELDALIAS-").flat_map(|(_, value)| parse_aliases(value)).collect(),
        evals: values.classes("EVAL-").map(owned).collect(),
        lookups: values.classes("LOOKUP-").map(owned).collect(),
        // Fields of structured JSON replace the extraction that `KV_MODE` selects.
        table: known.table(values.text("KV_MODE")).filter(|_| !super::is_indexed_json(values)),
    }
}

/// The aliases in a value, up to the first invalid word.
fn parse_aliases(value: &str) -> Vec<AliasRule> {
    let words = split_words(value);
    let triples = words.chunks_exact(3).map_while(|triple| {
        let only_new = triple[1].eq_ignore_ascii_case("asnew");
        let is_alias = only_new || triple[1].eq_ignore_ascii_case("as");
        is_alias.then(|| AliasRule { source: triple[0].clone(), target: triple[2].clone(), only_new })
    });
    triples.collect()
}

/// Words separated by blanks and commas; quotes group words.
pub fn split_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for letter in text.chars() {
        match letter {
            '"' => quoted = !quoted,
            letter if !quoted && (letter.is_whitespace() || letter == ',') => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            letter => word.push(letter),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{AliasRule, parse_aliases};

    #[test]
    fn aliases_are_parsed_as_triples() {
        let alias = |source: &str, target: &str, only_new| AliasRule {
            source: source.to_owned(),
            target: target.to_owned(),
            only_new,
        };
        assert_eq!(
            parse_aliases("uid AS user \"client ip\" ASNEW src"),
            [alias("uid", "user", false), alias("client ip", "src", true)]
        );
        assert_eq!(parse_aliases("uid user"), []);
    }
}
