//! transforms.conf: lookup tables, and transforms that extract fields at search time.
//!
//! A stanza with `filename` is a lookup in a CSV file; a stanza with `external_type = kvstore` is a lookup in a
//! collection. Index-time rules are in [`index_rules`](super::index_rules).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::layers::Layers;
use crate::props::search_time::split_words;
use crate::settings::index_rules::DEST_KEYS;
use crate::table::{ANY_NAME, ConfTable, Kind, Row, Section, StanzaName, boolean, count, row, text};
use crate::text::DEFAULT_STANZA;
use crate::values::Values;

/// Maximum number of matches of a lookup for one row.
const MATCHES_MAX: i64 = 1000;

/// Stanza of additional keys that rules may read and write.
pub(crate) const ACCEPTED_KEYS: &str = "accepted_keys";
const ACCEPTED_ROWS: &[Row] = &[text(ANY_NAME, "a key that DEST_KEY and SOURCE_KEY may name")];

/// Settings of transforms.conf.
pub static TRANSFORMS: ConfTable = ConfTable {
    conf: "transforms",
    sections: &[
        Section { stanza: StanzaName::Named(ACCEPTED_KEYS), rows: ACCEPTED_ROWS },
        Section { stanza: StanzaName::Any, rows: ROWS },
    ],
    unsupported: &["external_cmd", "filter"],
    unused: &[
        "CAN_OPTIMIZE",
        "MATCH_LIMIT",
        "DEPTH_LIMIT",
        "allow_caching",
        "batch_index_query",
        "disabled",
        "replicate",
        "replicate_delta",
        "reverse_lookup_honor_case_sensitive_match",
    ],
};

/// Rows of transforms.conf.
pub(crate) const ROWS: &[Row] = &[
    boolean("CLEAN_KEYS", "true", "whether names keep only letters, digits and underscores"),
    text("CLONE_SOURCETYPE", "index time: sourcetype of a copy that the rule changes instead of the event"),
    text("DEFAULT_VALUE", "index time: written to DEST_KEY if REGEX does not match"),
    text("DELIMS", "quoted lists of delimiters: between pairs, then between name and value"),
    row("DEST_KEY", Kind::Choice(DEST_KEYS), "", "", "index time: key that the rule writes"),
    text("FIELDS", "names for the values that DELIMS separates"),
    text("FORMAT", "`name::value` pairs with `$1` for groups; index time: value for DEST_KEY, as in host::$1"),
    text("INGEST_EVAL", "index time: assignments `name = expression` or `name := expression`"),
    boolean("KEEP_EMPTY_VALS", "false", "whether empty values become fields"),
    count("LOOKAHEAD", "4096", "bytes", "index time: bytes of SOURCE_KEY that are matched"),
    boolean("MV_ADD", "false", "whether an existing field gets further values"),
    // Not validated here, because dropping an invalid pattern would make the rule look as if it had no pattern.
    text("REGEX", "pattern of a rule"),
    boolean(
        "REMOVE_DIMS_FROM_METRIC_NAME",
        "true",
        "in [statsd-dims:…]: whether the values of the named groups of REGEX are removed from the metric's name",
    ),
    boolean("REPEAT_MATCH", "false", "index time: whether REGEX is matched again after each match"),
    row("SOURCE_KEY", Kind::Text, "_raw", "", "field or key to read"),
    text("STOP_PROCESSING_IF", "index time: if true, the remaining rules of the class are skipped"),
    boolean("WRITE_META", "false", "index time: whether FORMAT adds indexed fields"),
    boolean("case_sensitive_match", "true", "whether matching is case-sensitive"),
    text("collection", "collection that holds the table, with external_type = kvstore"),
    text("default_match", "value of the output fields if nothing matches"),
    text("external_type", "`kvstore` for a collection; other types are not supported"),
    text("fields_list", "columns of a lookup in a collection, separated by commas"),
    text("filename", "CSV file in the lookups folder"),
    row("max_matches", Kind::Integer { min: 1, max: MATCHES_MAX }, "100", "rows", "maximum matching rows"),
    text("match_type", "how columns match, if not exactly: `WILDCARD(a), CIDR(b)`"),
    row(
        "max_offset_secs",
        Kind::Text,
        "2000000000",
        "s",
        "maximum time from a row to the event, in a time-based lookup",
    ),
    row(
        "min_matches",
        Kind::Integer { min: 0, max: MATCHES_MAX },
        "0",
        "rows",
        "missing matches up to this number are filled with default_match",
    ),
    row("min_offset_secs", Kind::Text, "0", "s", "minimum time from a row to the event"),
    text("time_field", "column with the time from which a row is valid"),
    row("time_format", Kind::Text, "%s.%Q", "", "format of the time in time_field"),
];

/// A transform that extracts fields at search time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportRule {
    /// Stanza name.
    pub name: String,
    /// `SOURCE_KEY`: the field read.
    pub source: String,
    /// Method of extracting fields.
    pub method: ExtractionMethod,
    /// `MV_ADD`.
    pub adds_values: bool,
    /// `CLEAN_KEYS`.
    pub cleans_names: bool,
    /// `KEEP_EMPTY_VALS`.
    pub keeps_empty: bool,
}

/// Method by which a transform extracts fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtractionMethod {
    /// `REGEX`, with the name and value of each pair of `FORMAT`; without pairs, the named groups are fields.
    Pattern {
        /// The pattern.
        pattern: String,
        /// Name and value, either of which may contain `$1`.
        pairs: Vec<(String, String)>,
    },
    /// `DELIMS`.
    Delimited {
        /// Delimiters of pairs or values.
        outer: String,
        /// Delimiters of name and value; `None` if there is only one list.
        inner: Option<String>,
        /// `FIELDS`: names for the values.
        names: Vec<String>,
    },
}

/// Messages about rules that props.conf refers to but transforms.conf does not define; such references have no effect.
pub fn missing_rules(layers: &Layers) -> Vec<String> {
    let transforms = layers.conf("transforms");
    let mut missing = Vec::new();
    for stanza in layers.conf("props").stanzas() {
        for (key, setting) in &stanza.settings {
            let is_rule = ["TRANSFORMS-", "RULESET-", "REPORT-"].iter().any(|prefix| key.starts_with(prefix));
            let names: Vec<&str> = match () {
                () if is_rule => setting.value.split(',').map(str::trim).filter(|name| !name.is_empty()).collect(),
                // A lookup may also be named by its file.
                () if key.starts_with("LOOKUP-") => {
                    setting.value.split_whitespace().take(1).filter(|name| !name.contains(['.', '"'])).collect()
                }
                () => continue,
            };
            let unknown = names.into_iter().filter(|name| transforms.stanza(name).is_none());
            missing.extend(unknown.map(|name| {
                let (file, line, stanza) = (&setting.file, setting.line, &stanza.name);
                format!("{file}:{line}: [{stanza}] {key}: transforms.conf has no stanza [{name}]; the reference has no effect")
            }));
        }
    }
    missing
}

/// The search-time transforms by stanza name.
pub(crate) fn report_rules(layers: &Layers) -> BTreeMap<String, Arc<ReportRule>> {
    let conf = layers.conf("transforms");
    let mut rules = BTreeMap::new();
    for stanza in conf.stanzas().iter().filter(|stanza| stanza.name != DEFAULT_STANZA) {
        let values = Values::for_stanza(ROWS, conf, &stanza.name);
        let method = match (values.optional("REGEX"), values.optional("DELIMS")) {
            (_, Some(delimiters)) => parse_delimiters(&delimiters, values.text("FIELDS")),
            (Some(pattern), None) => {
                Some(ExtractionMethod::Pattern { pattern, pairs: format_pairs(values.text("FORMAT")) })
            }
            (None, None) => None,
        };
        let Some(method) = method.filter(|_| values.text("DEST_KEY").is_empty()) else { continue };
        let rule = ReportRule {
            name: stanza.name.clone(),
            source: values.owned("SOURCE_KEY"),
            method,
            adds_values: values.bool("MV_ADD"),
            cleans_names: values.bool("CLEAN_KEYS"),
            keeps_empty: values.bool("KEEP_EMPTY_VALS"),
        };
        rules.insert(stanza.name.clone(), Arc::new(rule));
    }
    rules
}

/// `name::value` pairs; quotes enclose a value with blanks.
fn format_pairs(format: &str) -> Vec<(String, String)> {
    let words = split_words(format);
    words.iter().filter_map(|word| word.split_once("::")).map(|(name, value)| (name.into(), value.into())).collect()
}

/// Parses quoted lists of delimiters, with the escapes `\t`, `\n`, `\r`, `\\` and `\"`.
fn parse_delimiters(lists: &str, fields: &str) -> Option<ExtractionMethod> {
    let (mut found, mut list): (Vec<String>, Option<String>) = (Vec::new(), None);
    let mut letters = lists.chars();
    while let Some(letter) = letters.next() {
        match (letter, &mut list) {
            ('"', None) => list = Some(String::new()),
            ('"', Some(_)) => found.extend(list.take()),
            ('\\', Some(list)) => list.push(match letters.next()? {
                't' => '\t',
                'n' => '\n',
                'r' => '\r',
                other => other,
            }),
            (letter, Some(list)) => list.push(letter),
            (_, None) => {}
        }
    }
    let mut found = found.into_iter().filter(|list| !list.is_empty());
    Some(ExtractionMethod::Delimited { outer: found.next()?, inner: found.next(), names: split_words(fields) })
}

/// Default of `max_offset_secs`: any age.
const MAX_OFFSET_SECONDS: i64 = 2_000_000_000;

/// One lookup table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupDefinition {
    /// `filename`: the table's file, without its folder; may be empty for a collection.
    pub filename: String,
    /// `case_sensitive_match`.
    pub case_sensitive_match: bool,
    /// `max_matches`.
    pub max_matches: usize,
    /// `default_match`, if set.
    pub default_match: Option<String>,
    /// `min_matches`.
    pub min_matches: usize,
    /// Columns of `match_type = WILDCARD(…)`.
    pub wildcard_columns: Vec<String>,
    /// Columns of `match_type = CIDR(…)`.
    pub network_columns: Vec<String>,
    /// Time matching by `time_field`.
    pub time: Option<LookupTime>,
    /// `collection`, where `external_type = kvstore`.
    pub collection: Option<String>,
    /// `fields_list`: columns of a collection.
    pub fields: Vec<String>,
}

/// Settings that choose a row by the time of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupTime {
    /// `time_field`: column with the row's time.
    pub field: String,
    /// `time_format`.
    pub format: String,
    /// `max_offset_secs`: maximum seconds from the row's time to the event's.
    pub max_offset_seconds: i64,
    /// `min_offset_secs`: minimum seconds from the row's time to the event's.
    pub min_offset_seconds: i64,
}

/// Names separated by commas or blanks.
fn parse_names(list: &str) -> Vec<String> {
    let names = list.split(|c: char| c == ',' || c.is_whitespace());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn parse_time<'c>(own: &dyn Fn(&str) -> Option<&'c str>) -> Option<LookupTime> {
    let seconds = |name: &str, other: i64| own(name).and_then(|text| text.trim().parse().ok()).unwrap_or(other);
    Some(LookupTime {
        field: own("time_field")?.to_owned(),
        format: own("time_format").unwrap_or("%s.%Q").to_owned(),
        max_offset_seconds: seconds("max_offset_secs", MAX_OFFSET_SECONDS),
        min_offset_seconds: seconds("min_offset_secs", 0),
    })
}

/// The columns that `match_type` lists for this word.
fn columns_of(match_type: &str, word: &str) -> Vec<String> {
    let parts = match_type.split(')').filter_map(|part| part.split_once('('));
    let named = parts.filter(|(kind, _)| kind.trim_matches([' ', ',']).eq_ignore_ascii_case(word));
    named.map(|(_, column)| column.trim().to_owned()).collect()
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
            let values = Values::for_stanza(ROWS, conf, &stanza.name);
            let own = |key: &str| conf.get(&stanza.name, key).filter(|value| !value.trim().is_empty());
            let is_collection = own("external_type").is_some_and(|kind| kind.eq_ignore_ascii_case("kvstore"));
            let collection = own("collection").filter(|_| is_collection).map(str::to_owned);
            let filename = match (values.optional("filename"), &collection) {
                (Some(filename), _) => filename,
                (None, Some(_)) => String::new(),
                (None, None) => continue,
            };
            let definition = LookupDefinition {
                filename,
                time: parse_time(&own),
                collection,
                fields: own("fields_list").map_or_else(Vec::new, parse_names),
                case_sensitive_match: values.bool("case_sensitive_match"),
                max_matches: match own("time_field") {
                    // In a lookup with times, each row is valid until the time of the next row, so the default is one
                    // match.
                    Some(_) if !stanza.settings.contains_key("max_matches") => 1,
                    _ => values.size("max_matches"),
                },
                default_match: values.optional("default_match"),
                min_matches: values.size("min_matches"),
                wildcard_columns: columns_of(values.text("match_type"), "WILDCARD"),
                network_columns: columns_of(values.text("match_type"), "CIDR"),
            };
            lookups.insert(stanza.name.clone(), definition);
        }
        Transforms { lookups }
    }

    /// A lookup by stanza name.
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
            min_matches: 0,
            wildcard_columns: Vec::new(),
            network_columns: Vec::new(),
            time: None,
            collection: None,
            fields: Vec::new(),
        };
        assert_eq!(transforms.lookup("status"), Some(&status));
        assert_eq!(transforms.lookup("drop"), None);
        let warnings: Vec<String> = layers.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains(":3: [status] max_matches = 5000: expected a whole number from 1 to 1000"));
    }

    #[test]
    fn missing_rules_are_reported() {
        let props = "[a]\nTRANSFORMS-x = there, typo\nREPORT-y = gone\nEXTRACT-z = (?<z>.)\n\
                     LOOKUP-a = lost f OUTPUT g\nLOOKUP-b = there f\nLOOKUP-c = a.csv f\n";
        let layers = Layers::new([local("props", props), local("transforms", "[there]\nREGEX = .\n")]);
        let missing = super::missing_rules(&layers);
        assert_eq!(missing.len(), 3, "{missing:?}");
        for name in ["[typo]", "[gone]", "[lost]"] {
            assert!(missing.iter().any(|text| text.contains(name)), "{name}: {missing:?}");
        }
        assert_eq!(super::missing_rules(&Layers::new([])), Vec::<String>::new());
    }

    #[test]
    fn collections_and_times_of_rows_are_read() {
        let own = "[users]\nexternal_type = kvstore\ncollection = people\nfields_list = _key, user, city\n\
                   [leases]\nfilename = leases.csv\ntime_field = start\ntime_format = %F\nmax_offset_secs = 86400\n";
        let transforms = Transforms::new(&Layers::new([local("transforms", own)]));
        let users = transforms.lookup("users").unwrap();
        assert_eq!((users.collection.as_deref(), users.fields.len()), (Some("people"), 3));
        let leases = transforms.lookup("leases").unwrap();
        let time = leases.time.as_ref().unwrap();
        assert_eq!((time.field.as_str(), time.format.as_str(), leases.max_matches), ("start", "%F", 1));
        assert_eq!((time.max_offset_seconds, time.min_offset_seconds), (86_400, 0));
    }
}
