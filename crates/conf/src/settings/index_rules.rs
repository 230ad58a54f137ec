//! Index-time rules of transforms.conf, to which `TRANSFORMS-` and `RULESET-` refer.
//!
//! A rule either matches a pattern against a key of the event (its text or metadata) and writes `FORMAT`, or evaluates
//! expressions (`INGEST_EVAL`, `STOP_PROCESSING_IF`). Patterns, formats and expressions stay text here; the pipeline
//! compiles them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::layers::Layers;
use crate::settings::transforms::ROWS;
use crate::text::DEFAULT_STANZA;
use crate::values::Values;

/// Key of an event's text; the default key that a rule reads.
pub const RAW_KEY: &str = "_raw";
/// Key of an event's index-time fields.
pub const META_KEY: &str = "_meta";
/// Key of an event's host.
pub const HOST_KEY: &str = "MetaData:Host";
/// Key of an event's source.
pub const SOURCE_KEY: &str = "MetaData:Source";
/// Key of an event's sourcetype.
pub const SOURCETYPE_KEY: &str = "MetaData:Sourcetype";
/// Key of an event's index.
pub const INDEX_KEY: &str = "_MetaData:Index";
/// Key of an event's time, in seconds.
pub const TIME_KEY: &str = "_time";
/// Key of the queue to which an event is sent next.
pub const QUEUE_KEY: &str = "queue";
/// Key of the indexer groups that an event is sent to.
pub const ROUTING_KEY: &str = "_TCP_ROUTING";
/// Key of syslog routes, which are not supported.
const SYSLOG_ROUTING_KEY: &str = "_SYSLOG_ROUTING";
/// Keys that a rule may write.
pub(crate) const DEST_KEYS: &[&str] = &[
    RAW_KEY,
    META_KEY,
    TIME_KEY,
    QUEUE_KEY,
    HOST_KEY,
    SOURCE_KEY,
    SOURCETYPE_KEY,
    INDEX_KEY,
    ROUTING_KEY,
    SYSLOG_ROUTING_KEY,
];
/// Value of `METRICS_PROTOCOL` for statsd.
pub(crate) const STATSD: &str = "STATSD";
/// Default `FORMAT` of a rule that sets the host.
const HOST_FORMAT: &str = "host::$1";

/// An index-time rule: one stanza of transforms.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct IndexRule {
    /// Stanza name.
    pub name: String,
    /// `REGEX`.
    pub pattern: Option<String>,
    /// `SOURCE_KEY`: key that the pattern is matched against.
    pub source_key: String,
    /// `DEST_KEY`: key that is written; empty if the rule only adds fields.
    pub dest_key: String,
    /// `FORMAT`; by default a field with the stanza's name and the first group as its value, or, if the rule sets the
    /// host, the first group as the host.
    pub format: String,
    /// `DEFAULT_VALUE`: written if the pattern does not match.
    pub default_value: Option<String>,
    /// `WRITE_META`: whether `FORMAT` adds fields.
    pub writes_fields: bool,
    /// `REPEAT_MATCH`: whether the pattern is matched again after each match.
    pub repeats: bool,
    /// `LOOKAHEAD`: bytes of the key that are searched.
    pub lookahead: usize,
    /// `CLONE_SOURCETYPE`: sourcetype of a copy of the event; the rule changes the copy instead of the event.
    pub clone_sourcetype: Option<String>,
    /// `INGEST_EVAL`: assignments.
    pub ingest_eval: Option<String>,
    /// `REMOVE_DIMS_FROM_METRIC_NAME` of a rule for statsd: whether the name of the metric loses the matched values.
    pub removes_dimensions: bool,
    /// `STOP_PROCESSING_IF`: an expression; if true, the remaining rules of the class are skipped.
    pub stop_if: Option<String>,
}

impl IndexRule {
    /// Whether the rule only extracts the host from the event's text.
    pub fn is_plain_host(&self) -> bool {
        let is_host = self.dest_key == HOST_KEY && self.format == HOST_FORMAT && self.source_key == RAW_KEY;
        let is_more = self.default_value.is_some()
            || self.writes_fields
            || self.repeats
            || self.clone_sourcetype.is_some()
            || self.ingest_eval.is_some()
            || self.stop_if.is_some();
        is_host && self.pattern.is_some() && !is_more
    }
}

/// The rules of one `TRANSFORMS-class` or `RULESET-class`, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuleClass {
    /// Class after the dash.
    pub name: String,
    /// Rules in order.
    pub rules: Vec<Arc<IndexRule>>,
}

/// The changes to an event between timestamp recognition and indexing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TypingSettings {
    /// `SEDCMD-class` commands, by class.
    pub sed: Vec<(String, String)>,
    /// `TRANSFORMS-class` by class.
    pub transforms: Vec<RuleClass>,
    /// `RULESET-class` by class.
    pub rulesets: Vec<RuleClass>,
    /// `ROUTE_EVENTS_OLDER_THAN` in seconds: older events are dropped.
    pub drop_older_than_seconds: Option<u64>,
}

impl TypingSettings {
    /// Every rule, in order of execution.
    pub fn rules(&self) -> impl Iterator<Item = &Arc<IndexRule>> {
        self.transforms.iter().chain(&self.rulesets).flat_map(|class| &class.rules)
    }
}

/// Every rule by stanza name.
pub(crate) fn index_rules(layers: &Layers) -> BTreeMap<String, Arc<IndexRule>> {
    let conf = layers.conf("transforms");
    let mut rules = BTreeMap::new();
    for stanza in conf.stanzas().iter().filter(|stanza| stanza.name != DEFAULT_STANZA) {
        let values = Values::for_stanza(ROWS, conf, &stanza.name);
        let (pattern, ingest_eval) = (values.optional("REGEX"), values.optional("INGEST_EVAL"));
        if pattern.is_none() && ingest_eval.is_none() && values.text("STOP_PROCESSING_IF").is_empty() {
            continue;
        }
        rules.insert(stanza.name.clone(), Arc::new(read(&stanza.name, &values)));
    }
    rules
}

fn read(name: &str, values: &Values<'_>) -> IndexRule {
    let dest_key = dest_key(values.text("DEST_KEY"));
    let format = values.optional("FORMAT");
    // A host rule without FORMAT sets the host to the first group.
    let usual = || if dest_key == HOST_KEY { HOST_FORMAT.to_owned() } else { format!("{name}::$1") };
    let format = format.unwrap_or_else(usual);
    IndexRule {
        name: name.to_owned(),
        pattern: values.optional("REGEX"),
        source_key: values.owned("SOURCE_KEY"),
        dest_key,
        format,
        default_value: values.optional("DEFAULT_VALUE"),
        writes_fields: values.bool("WRITE_META"),
        repeats: values.bool("REPEAT_MATCH"),
        lookahead: values.size("LOOKAHEAD"),
        clone_sourcetype: values.optional("CLONE_SOURCETYPE"),
        ingest_eval: values.optional("INGEST_EVAL"),
        removes_dimensions: values.bool("REMOVE_DIMS_FROM_METRIC_NAME"),
        stop_if: values.optional("STOP_PROCESSING_IF"),
    }
}

/// The key as the constants above spell it.
fn dest_key(written: &str) -> String {
    let known = DEST_KEYS.iter().find(|key| key.eq_ignore_ascii_case(written));
    known.map_or_else(|| written.to_owned(), |key| (*key).to_owned())
}

/// The rules that apply to one source.
pub(crate) fn typing(values: &Values<'_>, rules: &BTreeMap<String, Arc<IndexRule>>) -> TypingSettings {
    let classes = |prefix: &str| {
        let class = |(class, names): (&str, &str)| RuleClass {
            name: class.to_owned(),
            rules: names.split(',').filter_map(|name| rules.get(name.trim()).cloned()).collect(),
        };
        values.classes(prefix).map(class).filter(|class| !class.rules.is_empty()).collect::<Vec<_>>()
    };
    TypingSettings {
        sed: values.classes("SEDCMD-").map(|(class, text)| (class.to_owned(), text.to_owned())).collect(),
        transforms: classes("TRANSFORMS-"),
        rulesets: classes("RULESET-"),
        drop_older_than_seconds: values.read("ROUTE_EVENTS_OLDER_THAN", parse_age),
    }
}

/// Prefix of rules that extract dimensions from the names of statsd metrics.
const STATSD_PREFIX: &str = "statsd-dims:";

/// The rules that extract dimensions from the names of statsd metrics, in order: the rules that `STATSD-DIM-TRANSFORMS`
/// names, or the rule that has the name of the sourcetype. `None` if the events are not statsd metrics.
pub(crate) fn statsd_rules(
    sourcetype: &str,
    values: &Values<'_>,
    rules: &BTreeMap<String, Arc<IndexRule>>,
) -> Option<Vec<Arc<IndexRule>>> {
    if !values.text("METRICS_PROTOCOL").eq_ignore_ascii_case(STATSD) {
        return None;
    }
    let named = values.text("STATSD-DIM-TRANSFORMS");
    let names = if named.trim().is_empty() { sourcetype } else { named };
    let full_name = |name: &str| match name.starts_with(STATSD_PREFIX) {
        true => name.to_owned(),
        false => format!("{STATSD_PREFIX}{name}"),
    };
    Some(names.split(',').filter_map(|name| rules.get(&full_name(name.trim())).cloned()).collect())
}

/// Seconds of `N[s|m|h|d]`.
pub(crate) fn parse_age(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}
