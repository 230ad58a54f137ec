//! The index-time and extraction settings in force for one source, typed.

use jiff::tz::TimeZone;

use crate::settings::index_rules::TypingSettings;

/// What props.conf says about one combination of source, host and sourcetype. Defaults are those of the built-in file.
#[derive(Clone, Debug, PartialEq)]
pub struct PropsSettings {
    /// Sourcetype the settings belong to.
    pub sourcetype: String,
    /// `LINE_BREAKER`: what parts lines; the text of group 1 is dropped.
    pub line_breaker: String,
    /// `JSON_RECORDS`: name of the list in a JSON object whose members are events; then `line_breaker` does not count.
    pub json_records: Option<String>,
    /// `CHARSET`: what the bytes are; empty for UTF-8, or UTF-16 where its mark stands in front.
    pub charset: String,
    /// `NO_BINARY_CHECK`: whether files are read that look like no text.
    pub reads_binary: bool,
    /// `TRUNCATE`: bytes kept of a line; 0 keeps all.
    pub truncate: usize,
    /// `SHOULD_LINEMERGE`: whether lines are merged into events by the rules below.
    pub should_line_merge: bool,
    /// `BREAK_ONLY_BEFORE`: a line that matches starts an event.
    pub break_only_before: Option<String>,
    /// `BREAK_ONLY_BEFORE_DATE`: a line that holds a timestamp starts an event.
    pub break_only_before_date: bool,
    /// `MUST_BREAK_AFTER`: a line that matches ends an event.
    pub must_break_after: Option<String>,
    /// `MUST_NOT_BREAK_AFTER`: a line that matches holds the event open until `must_break_after`.
    pub must_not_break_after: Option<String>,
    /// `MUST_NOT_BREAK_BEFORE`: a line that matches never starts an event.
    pub must_not_break_before: Option<String>,
    /// `MAX_EVENTS`: most lines of one event.
    pub max_events: usize,
    /// `DATETIME_CONFIG`.
    pub datetime: DatetimeConfig,
    /// `TIME_PREFIX`: where the timestamp begins to be looked for.
    pub time_prefix: Option<String>,
    /// `TIME_FORMAT`.
    pub time_format: Option<String>,
    /// `MAX_TIMESTAMP_LOOKAHEAD`: bytes looked at, from the prefix or the event's start.
    pub max_timestamp_lookahead: usize,
    /// `TZ`: zone of timestamps that name none.
    pub tz: Option<String>,
    /// The node's zone: of timestamps that name none where neither `TZ` nor the input says one.
    pub node_zone: TimeZone,
    /// `TZ_ALIAS`: zones of abbreviations in timestamps, as written.
    pub zone_aliases: Vec<(String, String)>,
    /// `ADD_EXTRA_TIME_FIELDS`: what is known of the time as it is written.
    pub extra_time_fields: ExtraTimeFields,
    /// `ANNOTATE_PUNCT`: whether events have `punct`.
    pub annotate_punct: bool,
    /// `MAX_DAYS_AGO`.
    pub max_days_ago: i64,
    /// `MAX_DAYS_HENCE`.
    pub max_days_hence: i64,
    /// `MAX_DIFF_SECS_AGO`.
    pub max_diff_secs_ago: i64,
    /// `MAX_DIFF_SECS_HENCE`.
    pub max_diff_secs_hence: i64,
    /// `KV_MODE`: how fields are cut out at search time.
    pub kv_mode: KvMode,
    /// `AUTO_KV_JSON`: whether `auto` also reads JSON.
    pub auto_kv_json: bool,
    /// `INDEXED_EXTRACTIONS = json`: whether fields of JSON count as index-time fields.
    pub indexed_json: bool,
    /// `HEADER_MODE`: which lines `***SPLUNK*** host=…` say where the events behind them come from.
    pub header_mode: HeaderMode,
    /// How columns are read of delimited text (csv, tsv …); such text has one event a line.
    pub header: Option<HeaderSettings>,
    /// What is done with an event behind its timestamp: `SEDCMD-`, `TRANSFORMS-`, `RULESET-`.
    pub typing: TypingSettings,
    /// `EXTRACT-class` patterns in order of class, with the field they read (default `_raw`).
    pub extracts: Vec<ExtractRule>,
    /// `[kv] indexed_kv_limit` of limits.conf: most indexed fields of one event.
    pub indexed_fields_max: usize,
    /// What else is added when searching.
    pub search_time: super::SearchTimeRules,
}

/// How columns become indexed fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderSettings {
    /// `FIELD_DELIMITER`.
    pub delimiter: char,
    /// `HEADER_FIELD_DELIMITER`.
    pub header_delimiter: char,
    /// Whether several delimiters in a row are one.
    pub merges_delimiters: bool,
    /// `FIELD_QUOTE`.
    pub quote: Option<char>,
    /// `HEADER_FIELD_QUOTE`.
    pub header_quote: Option<char>,
    /// `HEADER_FIELD_LINE_NUMBER`: number of the header among lines with text; 0 for the first that is no preamble.
    pub line_number: usize,
    /// `PREAMBLE_REGEX`: lines before the header that match are left out.
    pub preamble: Option<String>,
    /// `FIELD_NAMES`: the columns of text without a header.
    pub names: Vec<String>,
    /// `FIELD_HEADER_REGEX`: what the header has in front of its names.
    pub header_pattern: Option<String>,
    /// Whether a later line that is a header counts from there on.
    pub repeats: bool,
    /// `TIMESTAMP_FIELDS`: columns that hold the time.
    pub timestamp_fields: Vec<String>,
    /// `MISSING_VALUE_REGEX`: values that stand for none.
    pub missing: Option<String>,
    /// `HEADER_FIELD_ACCEPTABLE_SPECIAL_CHARACTERS`: kept in names besides letters, digits, `.` and `_`.
    pub kept_letters: String,
}

/// One `EXTRACT-class`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractRule {
    /// Class after the dash.
    pub class: String,
    /// Pattern with named groups.
    pub pattern: String,
    /// Field read.
    pub field: String,
}

/// Where an event's time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatetimeConfig {
    /// From its text.
    Auto,
    /// The clock at arrival (`CURRENT`).
    Current,
    /// The file's modification time, else the clock (`NONE`).
    None,
}

/// Which lines say where the events behind them come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderMode {
    /// None.
    Never,
    /// The first of the source.
    FirstLine,
    /// Any.
    Always,
}

/// What there is of a time as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraTimeFields {
    /// `date_hour` and its like, and parts of seconds.
    All,
    /// Parts of seconds only.
    SubSeconds,
    /// Times are of whole seconds.
    None,
}

/// Field extraction at search time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvMode {
    /// No automatic extraction.
    None,
    /// `key=value`, and JSON when the event is an object.
    Auto,
    /// `key=value` where values may hold escaped quotes.
    AutoEscaped,
    /// The columns of tables, with a value for each row.
    Multi,
    /// JSON only.
    Json,
    /// XML.
    Xml,
}
