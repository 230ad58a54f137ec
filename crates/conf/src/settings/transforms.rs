//! transforms.conf: the lookup tables, and the index-time rules that set an event's host.
//!
//! A stanza with `filename` is a lookup in a CSV file. A stanza with `REGEX` and `DEST_KEY = MetaData:Host` takes the
//! host from the event. Other rules are known and warned about, not carried out.

use std::collections::BTreeMap;

use crate::layers::Layers;
use crate::props::HostRule;
use crate::table::{ConfTable, Kind, Row, Section, StanzaName, row};
use crate::text::DEFAULT_STANZA;
use crate::values::Values;

/// `DEST_KEY` of a rule that sets the host.
const HOST_KEY: &str = "MetaData:Host";
/// `FORMAT` of such a rule.
const HOST_FORMAT: &str = "host::$1";
/// Most matches a lookup may give for one row.
const MATCHES_MAX: i64 = 1000;

/// Settings of transforms.conf.
pub static TRANSFORMS: ConfTable = ConfTable {
    conf: "transforms",
    sections: &[Section { stanza: StanzaName::Any, rows: ROWS }],
    unsupported: &[
        "CLEAN_KEYS",
        "CLONE_SOURCETYPE",
        "DEFAULT_VALUE",
        "DELIMS",
        "FIELDS",
        "INGEST_EVAL",
        "KEEP_EMPTY_VALS",
        "LOOKAHEAD",
        "MV_ADD",
        "REPEAT_MATCH",
        "SOURCE_KEY",
        "STOP_PROCESSING_IF",
        "WRITE_META",
        "collection",
        "external_cmd",
        "external_type",
        "filter",
        "match_type",
        "max_offset_secs",
        "min_matches",
        "min_offset_secs",
        "time_field",
        "time_format",
    ],
    unused: &[
        "fields_list",
        "CAN_OPTIMIZE",
        "MATCH_LIMIT",
        "DEPTH_LIMIT",
        "batch_index_query",
        "replicate",
        "reverse_lookup_honor_case_sensitive_match",
    ],
};

const ROWS: &[Row] = &[
    row("DEST_KEY", Kind::Choice(&[HOST_KEY]), "", "", "what the rule sets"),
    row("FORMAT", Kind::Choice(&[HOST_FORMAT]), HOST_FORMAT, "", "how it is set: the pattern's group is the host"),
    row("REGEX", Kind::Regex { groups_min: 0 }, "", "", "pattern of an index-time rule"),
    row("case_sensitive_match", Kind::Bool, "true", "", "whether values must agree in case"),
    row("default_match", Kind::Text, "", "", "value of the output fields where nothing matches"),
    row("filename", Kind::Text, "", "", "CSV file in the lookups folder"),
    row("max_matches", Kind::Integer { min: 1, max: MATCHES_MAX }, "100", "rows", "most matching rows taken"),
];

/// The index-time rules that set the host, by name of their stanza.
pub(crate) fn host_rules(layers: &Layers) -> BTreeMap<String, HostRule> {
    let conf = layers.conf("transforms");
    let mut rules = BTreeMap::new();
    for stanza in conf.stanzas().iter().filter(|stanza| stanza.name != DEFAULT_STANZA) {
        let values = Values::of_stanza(ROWS, conf, &stanza.name);
        let Some(pattern) = values.optional("REGEX") else { continue };
        if values.text("DEST_KEY").eq_ignore_ascii_case(HOST_KEY) {
            rules.insert(stanza.name.clone(), HostRule { name: stanza.name.clone(), pattern });
        }
    }
    rules
}

/// One lookup table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupDefinition {
    /// `filename`: the CSV file, without folder.
    pub filename: String,
    /// `case_sensitive_match`.
    pub case_sensitive_match: bool,
    /// `max_matches`.
    pub max_matches: usize,
    /// `default_match`, if one is set.
    pub default_match: Option<String>,
}

/// All lookup tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transforms {
    lookups: BTreeMap<String, LookupDefinition>,
}

impl Transforms {
    /// Reads transforms.conf.
    pub fn new(layers: &Layers) -> Transforms {
        let conf = layers.conf("transforms");
        let mut lookups = BTreeMap::new();
        for stanza in conf.stanzas().iter().filter(|stanza| stanza.name != DEFAULT_STANZA) {
            let values = Values::of_stanza(ROWS, conf, &stanza.name);
            let Some(filename) = values.optional("filename") else { continue };
            let definition = LookupDefinition {
                filename,
                case_sensitive_match: values.bool("case_sensitive_match"),
                max_matches: values.size("max_matches"),
                default_match: values.optional("default_match"),
            };
            lookups.insert(stanza.name.clone(), definition);
        }
        Transforms { lookups }
    }

    /// A lookup by name of its stanza.
    pub fn lookup(&self, name: &str) -> Option<&LookupDefinition> {
        self.lookups.get(name)
    }

    /// Name and definition of every lookup, by name.
    pub fn lookups(&self) -> impl Iterator<Item = (&str, &LookupDefinition)> {
        self.lookups.iter().map(|(name, definition)| (name.as_str(), definition))
    }
}

#[cfg(test)]
mod tests {
    use super::{LookupDefinition, Transforms};
    use crate::Layers;
    use crate::layers::tests::local;

    #[test]
    fn stanzas_with_a_file_are_lookups() {
        let own = "[status]\nfilename = status.csv\nmax_matches = 5000\ncase_sensitive_match = no\ndefault_match = ?\n\
                   [drop]\nREGEX = .\n";
        let layers = Layers::new([local("transforms", own)]);
        let transforms = Transforms::new(&layers);
        let status = LookupDefinition {
            filename: "status.csv".to_owned(),
            case_sensitive_match: false,
            max_matches: 100,
            default_match: Some("?".to_owned()),
        };
        assert_eq!(transforms.lookup("status"), Some(&status));
        assert_eq!(transforms.lookup("drop"), None);
        let warnings: Vec<String> = layers.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains(":3: [status] max_matches = 5000: allowed is a whole number from 1 to 1000"));
    }
}
