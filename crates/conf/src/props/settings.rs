//! The index-time and extraction settings in force for one source, typed.

use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::settings::index_rules::{IndexRule, TypingSettings};

/// The settings of props.conf for one combination of source, host and sourcetype. Defaults are those of the built-in
/// file.
#[derive(Clone, Debug, PartialEq)]
pub struct PropsSettings {
    /// Sourcetype the settings belong to.
    pub sourcetype: String,
    /// `LINE_BREAKER`: separator of lines; the text of group 1 is dropped.
    pub line_breaker: String,
    /// `JSON_RECORDS`: name of the array in a JSON object whose elements are events; replaces `line_breaker`.
    pub json_records: Option<String>,
    /// `CHARSET`: character encoding; empty for UTF-8, or UTF-16 if the text starts with its byte order mark.
    pub charset: String,
    /// `NO_BINARY_CHECK`: whether files that look binary are read.
    pub reads_binary: bool,
    /// `TRUNCATE`: maximum bytes of a line; 0 is unlimited.
    pub truncate: usize,
    /// `SHOULD_LINEMERGE`: whether lines are merged into events by the rules below.
    pub should_line_merge: bool,
    /// `BREAK_ONLY_BEFORE`: a line that matches starts an event.
    pub break_only_before: Option<String>,
    /// `BREAK_ONLY_BEFORE_DATE`: whether a line with a timestamp starts an event.
    pub break_only_before_date: bool,
    /// `MUST_BREAK_AFTER`: a line that matches ends an event.
    pub must_break_after: Option<String>,
    /// `MUST_NOT_BREAK_AFTER`: after a line that matches, the event continues until a line matches `must_break_after`.
    pub must_not_break_after: Option<String>,
    /// `MUST_NOT_BREAK_BEFORE`: a line that matches never starts an event.
    pub must_not_break_before: Option<String>,
    /// `MAX_EVENTS`: maximum lines of an event.
    pub max_events: usize,
    /// `DATETIME_CONFIG`.
    pub datetime: DatetimeConfig,
    /// `TIME_PREFIX`: pattern after which the timestamp is searched for.
    pub time_prefix: Option<String>,
    /// `TIME_FORMAT`.
    pub time_format: Option<String>,
    /// `MAX_TIMESTAMP_LOOKAHEAD`: bytes searched for the timestamp, from the prefix or the event's start.
    pub max_timestamp_lookahead: usize,
    /// `TZ`: time zone of timestamps that contain no zone.
    pub tz: Option<String>,
    /// The node's time zone, for timestamps that contain no zone if neither `TZ` nor the input sets one.
    pub node_zone: TimeZone,
    /// `TZ_ALIAS`: time zones of abbreviations in timestamps, as configured.
    pub zone_aliases: Vec<(String, String)>,
    /// `ADD_EXTRA_TIME_FIELDS`: fields derived from the timestamp's text.
    pub extra_time_fields: ExtraTimeFields,
    /// `ANNOTATE_PUNCT`: whether events have a `punct` field.
    pub annotate_punct: bool,
    /// `MAX_DAYS_AGO`.
    pub max_days_ago: i64,
    /// `MAX_DAYS_HENCE`.
    pub max_days_hence: i64,
    /// `MAX_DIFF_SECS_AGO`.
    pub max_diff_secs_ago: i64,
    /// `MAX_DIFF_SECS_HENCE`.
    pub max_diff_secs_hence: i64,
    /// `KV_MODE`: how fields are extracted at search time.
    pub kv_mode: KvMode,
    /// `AUTO_KV_JSON`: whether `auto` also reads JSON.
    pub auto_kv_json: bool,
    /// `INDEXED_EXTRACTIONS = json`: whether JSON fields count as index-time fields.
    pub indexed_json: bool,
    /// `TIMESTAMP_FIELDS` of JSON events: paths of the members that hold the time, as in `meta.created`.
    pub json_time_paths: Vec<String>,
    /// `HEADER_MODE`: selects the `***SPLUNK*** host=…` lines that set the metadata of the events after them.
    pub header_mode: HeaderMode,
    /// Settings of delimited text (csv, tsv …), in which each line is an event.
    pub header: Option<HeaderSettings>,
    /// Changes to an event after its timestamp is known: `SEDCMD-`, `TRANSFORMS-`, `RULESET-`.
    pub typing: TypingSettings,
    /// `METRICS_PROTOCOL = STATSD`: the rules of `STATSD-DIM-TRANSFORMS`; `None` for other events.
    pub statsd: Option<Vec<Arc<IndexRule>>>,
    /// `EXTRACT-class` patterns by class, with the field they read (default `_raw`).
    pub extracts: Vec<ExtractRule>,
    /// `[kv] indexed_kv_limit` of limits.conf: maximum indexed fields of one event.
    pub indexed_fields_max: usize,
    /// Other search-time rules.
    pub search_time: super::SearchTimeRules,
}

/// Settings that turn columns into indexed fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderSettings {
    /// `FIELD_DELIMITER`.
    pub delimiter: char,
    /// `HEADER_FIELD_DELIMITER`.
    pub header_delimiter: char,
    /// Whether consecutive delimiters count as one.
    pub merges_delimiters: bool,
    /// `FIELD_QUOTE`.
    pub quote: Option<char>,
    /// `HEADER_FIELD_QUOTE`.
    pub header_quote: Option<char>,
    /// `HEADER_FIELD_LINE_NUMBER`: number of the header line, counting only non-empty lines; 0 for the first line after
    /// the preamble.
    pub line_number: usize,
    /// `PREAMBLE_REGEX`: lines before the header that match are skipped.
    pub preamble: Option<String>,
    /// `FIELD_NAMES`: column names of text without a header.
    pub names: Vec<String>,
    /// `FIELD_HEADER_REGEX`: prefix of the header line, before the column names.
    pub header_pattern: Option<String>,
    /// Whether a later header line replaces the header for the lines after it.
    pub repeats: bool,
    /// `TIMESTAMP_FIELDS`: columns that hold the time.
    pub timestamp_fields: Vec<String>,
    /// `MISSING_VALUE_REGEX`: values that count as missing.
    pub missing: Option<String>,
    /// `HEADER_FIELD_ACCEPTABLE_SPECIAL_CHARACTERS`: characters kept in names in addition to letters, digits and `_`.
    pub kept_letters: String,
}

/// One `EXTRACT-class`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractRule {
    /// Class after the dash.
    pub class: String,
    /// Pattern with named groups.
    pub pattern: String,
    /// Field to which the pattern is applied.
    pub field: String,
}

/// Source of an event's timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatetimeConfig {
    /// The event's text.
    Auto,
    /// The clock on arrival (`CURRENT`).
    Current,
    /// The file's modification time, else the clock (`NONE`).
    None,
}

/// Header lines that set the metadata of the events after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderMode {
    /// No header line.
    Never,
    /// Only the first line of the source.
    FirstLine,
    /// Every header line.
    Always,
}

/// The fields derived from the timestamp's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraTimeFields {
    /// `date_hour` and similar fields, and fractions of seconds.
    All,
    /// Fractions of seconds only.
    SubSeconds,
    /// No fields, and times in whole seconds.
    None,
}

/// Field extraction at search time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvMode {
    /// No automatic extraction.
    None,
    /// `key=value`, and JSON if the event is an object.
    Auto,
    /// `key=value` where values may hold escaped quotes.
    AutoEscaped,
    /// Columns of tables, with one value per row.
    Multi,
    /// JSON only.
    Json,
    /// XML.
    Xml,
}
