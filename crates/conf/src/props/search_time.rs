//! What props.conf says is added to events when they are searched: `REPORT-`, `FIELDALIAS-`, `EVAL-` and `LOOKUP-`,
//! and the stanza of multikv.conf that `KV_MODE` names.
//!
//! Values are taken apart as far as files go; expressions and lookups stay text, which the search language reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::layers::Layers;
use crate::settings::transforms::ReportRule;
use crate::table::name_fits;
use crate::text::DEFAULT_STANZA;
use crate::values::Values;

/// Conf of the stanzas that say how tables are read.
const TABLES: &str = "multikv";

/// Settings of props.conf that count when events are searched; all others when they are made.
const SETTINGS: [&str; 9] =
    ["AUTO_KV_JSON", "EVAL-", "EXTRACT-", "FIELDALIAS-", "KV_MODE", "KV_TRIM_SPACES", "LOOKUP-", "REPORT-", "rename"];

/// Whether a setting of props.conf counts when events are searched.
pub(crate) fn is_search_time(key: &str) -> bool {
    SETTINGS.iter().any(|name| name_fits(name, key))
}

/// What one source's events are given at search time, in the order in which it happens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchTimeRules {
    /// `REPORT-class` transforms in order of class and as listed.
    pub reports: Vec<Arc<ReportRule>>,
    /// `FIELDALIAS-class` in order of class.
    pub aliases: Vec<AliasRule>,
    /// `EVAL-field` by field.
    pub evals: Vec<(String, String)>,
    /// `LOOKUP-class` in order of class, as the `lookup` command writes its arguments.
    pub lookups: Vec<(String, String)>,
    /// `KV_MODE = multi:STANZA`: how tables in texts are read.
    pub table: Option<Arc<TableStanza>>,
}

impl SearchTimeRules {
    /// Whether nothing is added.
    pub fn is_empty(&self) -> bool {
        let no_classes = self.reports.is_empty() && self.aliases.is_empty() && self.evals.is_empty();
        no_classes && self.lookups.is_empty() && self.table.is_none()
    }
}

/// A stanza of multikv.conf that `KV_MODE` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableStanza {
    /// Name.
    pub name: String,
    /// Its settings; `None` when there is no such stanza.
    pub settings: Option<BTreeMap<String, String>>,
}

/// Where stanzas that settings name are found.
#[derive(Debug, Default)]
pub(super) struct NamedRules {
    /// Of transforms.conf, those that cut fields.
    pub(super) reports: BTreeMap<String, Arc<ReportRule>>,
    /// Of multikv.conf.
    tables: BTreeMap<String, BTreeMap<String, String>>,
}

impl NamedRules {
    pub(super) fn new(layers: &Layers) -> NamedRules {
        let conf = layers.conf(TABLES);
        let named = conf.stanzas().iter().filter(|stanza| stanza.name != DEFAULT_STANZA).map(|stanza| {
            let settings = conf.effective(&stanza.name).into_iter();
            let owned = settings.map(|(key, setting)| (key.to_owned(), setting.value.clone()));
            (stanza.name.clone(), owned.collect())
        });
        NamedRules { reports: crate::settings::transforms::report_rules(layers), tables: named.collect() }
    }

    /// What `KV_MODE` names, if it names something.
    fn table(&self, kv_mode: &str) -> Option<Arc<TableStanza>> {
        let (_, name) = kv_mode.split_once(':').filter(|(mode, _)| mode.trim().eq_ignore_ascii_case("multi"))?;
        let name = name.trim();
        Some(Arc::new(TableStanza { name: name.to_owned(), settings: self.tables.get(name).cloned() }))
    }
}

/// One `SOURCE AS TARGET` of a `FIELDALIAS-class`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasRule {
    /// Field that is there.
    pub source: String,
    /// Its other name.
    pub target: String,
    /// `ASNEW`: a value that the target has stays.
    pub only_new: bool,
}

/// The rules among these settings.
pub(super) fn read(values: &Values<'_>, known: &NamedRules) -> SearchTimeRules {
    let owned = |(class, value): (&str, &str)| (class.to_owned(), value.to_owned());
    let named = values.classes("REPORT-").flat_map(|(_, names)| names.split(','));
    SearchTimeRules {
        reports: named.filter_map(|name| known.reports.get(name.trim()).cloned()).collect(),
        aliases: values.classes("FIELDALIAS-").flat_map(|(_, value)| aliases_of(value)).collect(),
        evals: values.classes("EVAL-").map(owned).collect(),
        lookups: values.classes("LOOKUP-").map(owned).collect(),
        // Fields of structured JSON are read in place of all others.
        table: known.table(values.text("KV_MODE")).filter(|_| !super::is_indexed_json(values)),
    }
}

/// The aliases of a value; words that are none end it.
fn aliases_of(value: &str) -> Vec<AliasRule> {
    let words = words_of(value);
    let triples = words.chunks_exact(3).map_while(|triple| {
        let only_new = triple[1].eq_ignore_ascii_case("asnew");
        let is_alias = only_new || triple[1].eq_ignore_ascii_case("as");
        is_alias.then(|| AliasRule { source: triple[0].clone(), target: triple[2].clone(), only_new })
    });
    triples.collect()
}

/// Words between blanks and commas; quotes hold one together.
pub(crate) fn words_of(text: &str) -> Vec<String> {
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
    use super::{AliasRule, aliases_of};

    #[test]
    fn aliases_come_in_triples() {
        let alias = |source: &str, target: &str, only_new| AliasRule {
            source: source.to_owned(),
            target: target.to_owned(),
            only_new,
        };
        assert_eq!(
            aliases_of("uid AS user \"client ip\" ASNEW src"),
            [alias("uid", "user", false), alias("client ip", "src", true)]
        );
        assert_eq!(aliases_of("uid user"), []);
    }
}
