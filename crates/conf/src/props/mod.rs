//! props.conf: resolves the settings of a source, host and sourcetype.
//!
//! If several stanzas set a value, `[source::…]` takes precedence over `[host::…]`, then `[sourcetype]`, then
//! `[default]`. Of two patterns for sources, or two for hosts, the pattern with the higher `priority` wins; at equal
//! priority, the pattern whose name sorts first. Each setting is resolved separately over all matching stanzas.
//!
//! Not here: guessing a sourcetype from text, applying `rename`.

mod guess_rules;
mod header;
pub(crate) mod pattern;
pub mod search_time;
pub mod settings;
pub mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use jiff::tz::TimeZone;
use quarry_event::ExpressionCompiler;

use crate::layers::{Layers, MergedConf, MergedStanza};
use crate::settings::index_rules::{self, IndexRule};
use crate::settings::indexes::IndexNames;
use crate::settings::limits::LimitSettings;
use crate::settings::transforms::ReportRule;
use crate::text::DEFAULT_STANZA;
use crate::values::Values;
pub use guess_rules::SourcetypeRule;
use pattern::Pattern;
use search_time::NamedRules;
pub use search_time::{AliasRule, SearchTimeRules, TableStanza};
pub use settings::{DatetimeConfig, ExtraTimeFields, ExtractRule, HeaderMode, HeaderSettings, KvMode, PropsSettings};

/// Prefix of stanzas that match a source.
pub(crate) const SOURCE_PREFIX: &str = "source::";
/// Prefix of stanzas that match a host.
pub(crate) const HOST_PREFIX: &str = "host::";
/// Prefix of stanzas that hold a sourcetype rule.
pub(crate) const RULE_PREFIX: &str = "rule::";
/// Prefix of sourcetype rules that apply only if nothing else determines the sourcetype.
pub(crate) const DELAYED_RULE_PREFIX: &str = "delayedrule::";
/// Default of `[kv] indexed_kv_limit`: indexed fields per event.
const INDEXED_FIELDS_MAX: usize = 200;
/// Default field of `EXTRACT-`.
const RAW_FIELD: &str = "_raw";
/// Value of `INDEXED_EXTRACTIONS` for JSON.
const INDEXED_JSON: &str = "json";
/// Separator of pattern and field in an `EXTRACT-` value.
const EXTRACT_IN: &str = " in ";

/// A stanza's own settings.
type Settings = BTreeMap<String, String>;

/// Resolves the settings of a source, host and sourcetype.
#[derive(Debug)]
pub struct PropsResolver {
    defaults: Settings,
    sourcetypes: BTreeMap<String, Settings>,
    /// In ascending order of precedence.
    hosts: Vec<PatternStanza>,
    /// In ascending order of precedence.
    sources: Vec<PatternStanza>,
    /// Index-time rules by stanza name.
    index_rules: BTreeMap<String, Arc<IndexRule>>,
    indexes: Arc<IndexNames>,
    indexed_fields_max: usize,
    sourcetype_rules: Vec<SourcetypeRule>,
    expressions: Option<Arc<dyn ExpressionCompiler>>,
    /// Time zone of timestamps that contain no zone, if no setting specifies a zone.
    node_zone: TimeZone,
    /// Stanzas of other files that search-time settings refer to.
    named: NamedRules,
    /// See [`PropsResolver::search_time_rules`].
    search_time: OnceLock<Vec<(Option<String>, SearchTimeRules)>>,
}

/// A stanza whose name is a pattern.
#[derive(Debug)]
struct PatternStanza {
    /// Full stanza name, including the prefix before `::`.
    name: String,
    pattern: Pattern,
    settings: Settings,
}

/// An `EXTRACT-` rule with the sourcetype to which it applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldExtraction<'a> {
    /// Sourcetype of the rule's stanza; `None` for stanzas of hosts and sources and for `[default]`.
    pub sourcetype: Option<&'a str>,
    /// Pattern with named groups.
    pub pattern: &'a str,
    /// Field to which the pattern is applied.
    pub source: &'a str,
}

impl PropsResolver {
    /// A stanza of transforms.conf that extracts fields at search time.
    pub fn report_rule(&self, name: &str) -> Option<&ReportRule> {
        self.named.reports.get(name).map(Arc::as_ref)
    }

    /// Reads props.conf and compiles its patterns.
    pub fn new(layers: &Layers) -> PropsResolver {
        let props = layers.conf("props");
        let is_rule = |name: &str| [RULE_PREFIX, DELAYED_RULE_PREFIX].iter().any(|prefix| name.starts_with(prefix));
        let is_pattern = |name: &str| name.starts_with(SOURCE_PREFIX) || name.starts_with(HOST_PREFIX);
        let plain = props
            .stanzas()
            .iter()
            .filter(|stanza| stanza.name != DEFAULT_STANZA && !is_pattern(&stanza.name) && !is_rule(&stanza.name));
        PropsResolver {
            defaults: props.stanza(DEFAULT_STANZA).map(own_settings).unwrap_or_default(),
            sourcetypes: plain.map(|stanza| (stanza.name.clone(), own_settings(stanza))).collect(),
            hosts: pattern_stanzas(props, HOST_PREFIX),
            sources: pattern_stanzas(props, SOURCE_PREFIX),
            index_rules: index_rules::index_rules(layers),
            indexes: Arc::new(IndexNames::new(layers)),
            indexed_fields_max: LimitSettings::new(layers).indexed_fields_max,
            sourcetype_rules: guess_rules::read(props),
            expressions: None,
            node_zone: TimeZone::UTC,
            named: NamedRules::new(layers),
            search_time: OnceLock::new(),
        }
    }

    /// Sets the compiler of expressions in index-time rules.
    pub fn with_expressions(self, compiler: Arc<dyn ExpressionCompiler>) -> PropsResolver {
        PropsResolver { expressions: Some(compiler), ..self }
    }

    /// Sets the node's time zone; the default is UTC.
    pub fn with_zone(self, zone: TimeZone) -> PropsResolver {
        PropsResolver { node_zone: zone, ..self }
    }

    /// Marks the node as a forwarder, which stores nothing and forwards everything.
    pub fn for_forwarder(self) -> PropsResolver {
        PropsResolver { indexes: Arc::new(self.indexes.for_forwarder()), ..self }
    }

    /// The compiler of expressions in index-time rules.
    pub fn expressions(&self) -> Option<&dyn ExpressionCompiler> {
        self.expressions.as_deref()
    }

    /// Names of the indexes that accept events.
    pub fn indexes(&self) -> &Arc<IndexNames> {
        &self.indexes
    }

    /// Maximum number of index-time fields that rules add to an event.
    pub fn indexed_fields_max(&self) -> usize {
        self.indexed_fields_max
    }

    /// The settings for a source, host and sourcetype; names without a stanza have the defaults.
    pub fn resolve(&self, source: &str, host: &str, sourcetype: &str) -> PropsSettings {
        let hosts = self.hosts.iter().filter(|stanza| stanza.pattern.matches(host));
        let sources = self.sources.iter().filter(|stanza| stanza.pattern.matches(source));
        let patterns = hosts.chain(sources).map(|stanza| &stanza.settings);
        self.settings_of(sourcetype, self.sourcetypes.get(sourcetype).into_iter().chain(patterns))
    }

    /// The settings of stanzas over the defaults; `stanzas` are in ascending order of precedence.
    fn settings_of<'s>(&'s self, name: &str, stanzas: impl IntoIterator<Item = &'s Settings>) -> PropsSettings {
        let weakest_first = std::iter::once(&self.defaults).chain(stanzas);
        let set = weakest_first.flatten().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let values = Values::new(table::rows(), set);
        PropsSettings {
            search_time: search_time::read(&values, &self.named),
            indexed_fields_max: self.indexed_fields_max,
            node_zone: self.node_zone.clone(),
            ..read(name, &values, &self.index_rules)
        }
    }

    /// Name of the stanza that determines a setting for a source, host and sourcetype; `None` if no stanza sets it.
    pub fn stanza_of(&self, key: &str, source: &str, host: &str, sourcetype: &str) -> Option<&str> {
        let gives = |settings: &Settings| settings.get(key).is_some_and(|value| !value.is_empty());
        let last = |stanzas: &'_ [PatternStanza], text: &str| {
            stanzas.iter().rposition(|stanza| gives(&stanza.settings) && stanza.pattern.matches(text))
        };
        if let Some(at) = last(&self.sources, source) {
            return Some(&self.sources[at].name);
        }
        if let Some(at) = last(&self.hosts, host) {
            return Some(&self.hosts[at].name);
        }
        if let Some((name, _)) = self.sourcetypes.get_key_value(sourcetype).filter(|(_, own)| gives(own)) {
            return Some(name);
        }
        gives(&self.defaults).then_some(DEFAULT_STANZA)
    }

    /// The sourcetype that a `[source::…]` stanza assigns to a source.
    pub fn sourcetype_for_source(&self, source: &str) -> Option<String> {
        let strongest_first = self.sources.iter().rev().filter(|stanza| stanza.pattern.matches(source));
        let mut named = strongest_first.filter_map(|stanza| stanza.settings.get("sourcetype"));
        named.find(|sourcetype| !sourcetype.is_empty()).cloned()
    }

    /// Rules that determine a sourcetype by the share of matching lines.
    pub fn sourcetype_rules(&self) -> &[SourcetypeRule] {
        &self.sourcetype_rules
    }

    /// The `EXTRACT-` rules with a group of this name.
    pub fn rules_extracting(&self, field: &str) -> Vec<FieldExtraction<'_>> {
        let named = [format!("?<{field}>"), format!("?P<{field}>"), format!("?'{field}'")];
        let has_group = |rule: &FieldExtraction<'_>| named.iter().any(|group| rule.pattern.contains(group));
        self.extract_rules().filter(has_group).collect()
    }

    /// The `EXTRACT-` rules of all stanzas.
    pub fn extract_rules(&self) -> impl Iterator<Item = FieldExtraction<'_>> {
        let of_sourcetypes = self.sourcetypes.iter().map(|(name, settings)| (Some(name.as_str()), settings));
        let patterns = self.hosts.iter().chain(&self.sources).map(|stanza| (None, &stanza.settings));
        let stanzas = of_sourcetypes.chain([(None, &self.defaults)]).chain(patterns);
        stanzas.flat_map(|(sourcetype, settings)| {
            let extracts = settings.iter().filter(|(key, _)| key.starts_with("EXTRACT-"));
            extracts.map(move |(_, rule)| {
                let (pattern, source) = split_extract(rule);
                FieldExtraction { sourcetype, pattern, source }
            })
        })
    }

    /// Sourcetypes that searches see under another name (`rename`), with that name.
    pub fn renamed_sourcetypes(&self) -> BTreeMap<&str, &str> {
        let stanzas =
            self.sourcetypes.iter().filter_map(|(name, own)| Some((name.as_str(), own.get("rename")?.trim())));
        stanzas.filter(|(name, shown)| !shown.is_empty() && name != shown).collect()
    }

    /// Whether any stanza makes JSON fields count as index-time fields.
    pub fn indexes_json(&self) -> bool {
        let patterns = self.hosts.iter().chain(&self.sources).map(|stanza| &stanza.settings);
        let stanzas = self.sourcetypes.values().chain([&self.defaults]).chain(patterns);
        let mut formats = stanzas.filter_map(|settings| settings.get("INDEXED_EXTRACTIONS"));
        formats.any(|format| format.eq_ignore_ascii_case(INDEXED_JSON))
    }

    /// The search-time rules of each stanza that has some, with its sourcetype if the stanza names one.
    pub fn search_time_rules(&self) -> &[(Option<String>, SearchTimeRules)] {
        // Cached, because every search needs the rules, and reading the stanzas of many add-ons takes longer than a
        // search for a rare term.
        self.search_time.get_or_init(|| self.read_search_time_rules())
    }

    fn read_search_time_rules(&self) -> Vec<(Option<String>, SearchTimeRules)> {
        let read = self
            .stanzas()
            .map(|(sourcetype, values)| (sourcetype.map(str::to_owned), search_time::read(&values, &self.named)));
        read.filter(|(_, rules)| !rules.is_empty()).collect()
    }

    /// The sourcetypes with `KV_MODE = xml`, whose values may contain XML entities; `None` stands for a stanza of hosts
    /// or sources, or for `[default]`.
    pub fn xml_sourcetypes(&self) -> impl Iterator<Item = Option<&str>> {
        let is_xml = |values: &Values<'_>| values.text("KV_MODE").trim().eq_ignore_ascii_case("xml");
        self.stanzas().filter(move |(_, values)| is_xml(values)).map(|(sourcetype, _)| sourcetype)
    }

    /// The settings of each single stanza, with its sourcetype if the stanza names one.
    fn stanzas(&self) -> impl Iterator<Item = (Option<&str>, Values<'_>)> {
        let named = self.sourcetypes.iter().map(|(name, settings)| (Some(name.as_str()), settings));
        let patterns = self.hosts.iter().chain(&self.sources).map(|stanza| (None, &stanza.settings));
        named.chain(patterns).chain([(None, &self.defaults)]).map(|(sourcetype, settings)| {
            let set = settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            (sourcetype, Values::new(table::rows(), set))
        })
    }

    /// Sourcetypes that have a stanza, sorted.
    pub fn sourcetypes(&self) -> BTreeSet<&str> {
        self.sourcetypes.keys().map(String::as_str).collect()
    }

    /// The settings of each single stanza of a sourcetype, host or source, over the defaults. The stanza's name takes
    /// the place of the sourcetype.
    pub fn settings_by_stanza(&self) -> impl Iterator<Item = PropsSettings> {
        let sourcetypes = self.sourcetypes.iter();
        let patterns = self.hosts.iter().chain(&self.sources).map(|stanza| (&stanza.name, &stanza.settings));
        sourcetypes.chain(patterns).map(|(name, settings)| self.settings_of(name, [settings]))
    }
}

fn own_settings(stanza: &MergedStanza) -> Settings {
    stanza.settings.iter().map(|(key, setting)| (key.clone(), setting.value.clone())).collect()
}

/// Pattern stanzas with this prefix, lowest precedence first.
fn pattern_stanzas(props: &MergedConf, prefix: &str) -> Vec<PatternStanza> {
    let mut found: Vec<(i64, &str, PatternStanza)> = Vec::new();
    for stanza in props.stanzas() {
        let Some(text) = stanza.name.strip_prefix(prefix) else { continue };
        let pattern = Pattern::new(text, prefix == HOST_PREFIX);
        let settings = own_settings(stanza);
        let priority = settings.get("priority").and_then(|priority| priority.parse().ok());
        let priority = priority.unwrap_or(pattern.default_priority());
        found.push((priority, text, PatternStanza { name: stanza.name.clone(), pattern, settings }));
    }
    // Later stanzas overwrite earlier stanzas, so the name that sorts first comes last.
    found.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.cmp(a.1)));
    found.into_iter().map(|(_, _, stanza)| stanza).collect()
}

fn read(sourcetype: &str, values: &Values<'_>, rules: &BTreeMap<String, Arc<IndexRule>>) -> PropsSettings {
    let structured = values.text("INDEXED_EXTRACTIONS").to_ascii_lowercase();
    // Here, fields of structured JSON are extracted at search time, so `KV_MODE` must not switch their extraction off.
    let kv_mode = if is_indexed_json(values) { KvMode::Json } else { kv_mode(values.text("KV_MODE")) };
    let (header, json_records) = (header::read(&structured, values), values.optional("JSON_RECORDS"));
    // Each line of delimited text, and each record of a JSON array, is an event.
    let has_records = header.is_some() || json_records.is_some();
    PropsSettings {
        sourcetype: sourcetype.to_owned(),
        line_breaker: values.owned("LINE_BREAKER"),
        json_records,
        charset: values.owned("CHARSET"),
        reads_binary: values.bool("NO_BINARY_CHECK"),
        truncate: values.size("TRUNCATE"),
        should_line_merge: values.bool("SHOULD_LINEMERGE") && !has_records,
        break_only_before: values.optional("BREAK_ONLY_BEFORE"),
        break_only_before_date: values.bool("BREAK_ONLY_BEFORE_DATE"),
        must_break_after: values.optional("MUST_BREAK_AFTER"),
        must_not_break_after: values.optional("MUST_NOT_BREAK_AFTER"),
        must_not_break_before: values.optional("MUST_NOT_BREAK_BEFORE"),
        max_events: values.size("MAX_EVENTS"),
        datetime: datetime(values.text("DATETIME_CONFIG")),
        time_prefix: values.optional("TIME_PREFIX"),
        time_format: values.optional("TIME_FORMAT"),
        max_timestamp_lookahead: lookahead(values.integer("MAX_TIMESTAMP_LOOKAHEAD")),
        tz: values.optional("TZ"),
        node_zone: TimeZone::UTC,
        zone_aliases: zone_aliases(values.text("TZ_ALIAS")),
        extra_time_fields: extra_time_fields(values.text("ADD_EXTRA_TIME_FIELDS")),
        annotate_punct: values.bool("ANNOTATE_PUNCT"),
        max_days_ago: values.integer("MAX_DAYS_AGO"),
        max_days_hence: values.integer("MAX_DAYS_HENCE"),
        max_diff_secs_ago: values.integer("MAX_DIFF_SECS_AGO"),
        max_diff_secs_hence: values.integer("MAX_DIFF_SECS_HENCE"),
        kv_mode,
        auto_kv_json: values.bool("AUTO_KV_JSON"),
        header_mode: header_mode(values.text("HEADER_MODE")),
        json_time_paths: if structured == INDEXED_JSON { header::timestamp_fields(values) } else { Vec::new() },
        indexed_json: structured == INDEXED_JSON,
        header,
        indexed_fields_max: INDEXED_FIELDS_MAX,
        typing: index_rules::typing(values, rules),
        statsd: index_rules::statsd_rules(sourcetype, values, rules),
        search_time: SearchTimeRules::default(),
        extracts: values.classes("EXTRACT-").map(|(class, value)| extract_rule(class, value)).collect(),
    }
}

/// 0 and negative numbers mean unlimited.
fn lookahead(bytes: i64) -> usize {
    usize::try_from(bytes).ok().filter(|bytes| *bytes > 0).unwrap_or(usize::MAX)
}

fn datetime(value: &str) -> DatetimeConfig {
    match value.to_ascii_uppercase().as_str() {
        "CURRENT" => DatetimeConfig::Current,
        "NONE" => DatetimeConfig::None,
        _ => DatetimeConfig::Auto,
    }
}

fn header_mode(value: &str) -> HeaderMode {
    match value.to_ascii_lowercase().as_str() {
        "always" => HeaderMode::Always,
        "firstline" => HeaderMode::FirstLine,
        _ => HeaderMode::Never,
    }
}

/// `EST=GMT+10:00,EDT=GMT+11:00`.
fn zone_aliases(value: &str) -> Vec<(String, String)> {
    let pairs = value.split(',').filter_map(|pair| pair.split_once('='));
    let pairs = pairs.map(|(name, zone)| (name.trim().to_owned(), zone.trim().to_owned()));
    pairs.filter(|(name, zone)| !name.is_empty() && !zone.is_empty()).collect()
}

fn extra_time_fields(value: &str) -> ExtraTimeFields {
    match value.to_ascii_lowercase().as_str() {
        "none" | "false" | "f" | "0" | "no" | "n" => ExtraTimeFields::None,
        "subseconds" => ExtraTimeFields::SubSeconds,
        _ => ExtraTimeFields::All,
    }
}

/// Whether JSON fields count as index-time fields.
fn is_indexed_json(values: &Values<'_>) -> bool {
    values.text("INDEXED_EXTRACTIONS").eq_ignore_ascii_case(INDEXED_JSON)
}

fn kv_mode(value: &str) -> KvMode {
    match value.to_ascii_lowercase().as_str() {
        "none" => KvMode::None,
        "auto_escaped" => KvMode::AutoEscaped,
        "json" => KvMode::Json,
        "xml" => KvMode::Xml,
        // After the colon comes the name of a stanza of multikv.conf; the search-time rules contain that stanza.
        multi if multi == "multi" || multi.starts_with("multi:") => KvMode::Multi,
        _ => KvMode::Auto,
    }
}

fn extract_rule(class: &str, value: &str) -> ExtractRule {
    let (pattern, field) = split_extract(value);
    ExtractRule { class: class.to_owned(), pattern: pattern.to_owned(), field: field.to_owned() }
}

/// Splits an `EXTRACT-` value into pattern and field: `PATTERN in FIELD`, or the pattern alone.
pub fn split_extract(value: &str) -> (&str, &str) {
    let is_field =
        |field: &str| !field.is_empty() && field.chars().all(|c| c.is_alphanumeric() || "_.:-{}".contains(c));
    match value.rsplit_once(EXTRACT_IN) {
        Some((pattern, field)) if is_field(field.trim()) => (pattern.trim_end(), field.trim()),
        _ => (value, RAW_FIELD),
    }
}

#[cfg(test)]
mod tests;
