//! The rows of props.conf.

use super::guess_rules::{LESS_THAN, MORE_THAN};
use crate::settings::index_rules::STATSD;
use crate::table::{ConfTable, Kind, REGEX, Row, Section, StanzaName, boolean, count, row, text};

/// Maximum number of days that Splunk accepts for `MAX_DAYS_AGO` and `MAX_DAYS_HENCE`: thirty years.
const DAYS_MAX: i64 = 10_951;
/// Minimum of settings where -1 means unlimited.
const UNBOUNDED: i64 = -1;
/// Maximum absolute priority of a stanza.
const PRIORITY_MAX: i64 = 1_000_000;

const DAYS: Kind = Kind::Integer { min: 0, max: DAYS_MAX };
const LOOKAHEAD: Kind = Kind::Integer { min: UNBOUNDED, max: 1 << 31 };
const PRIORITY: Kind = Kind::Integer { min: -PRIORITY_MAX, max: PRIORITY_MAX };

/// Settings of props.conf.
pub static PROPS: ConfTable = ConfTable {
    conf: "props",
    sections: &[Section { stanza: StanzaName::Any, rows: ROWS }],
    unsupported: &[
        "CHECK_METHOD",
        "DETERMINE_TIMESTAMP_DATE_WITH_SYSTEM_TIME",
        "KV_TRIM_SPACES",
        "LEARN_MODEL",
        "LEARN_SOURCETYPE",
        "METRIC-SCHEMA-TRANSFORMS-",
        "PREFIX_SOURCETYPE",
        "SEGMENTATION",
        "given_type",
        "invalid_cause",
        "is_valid",
        "maxDist",
        "unarchive_cmd",
    ],
    unused: &[
        // Used only by forwarders that distribute unparsed data over several indexers.
        "EVENT_BREAKER",
        "EVENT_BREAKER_ENABLE",
        "LINE_BREAKER_LOOKBEHIND",
        "category",
        "description",
        "detect_trailing_nulls",
        "pulldown_type",
        "SEGMENTATION-",
    ],
};

const PROTOCOL: Kind = Kind::Choice(&[STATSD, "COLLECTD_HTTP"]);

const ROWS: &[Row] = &[
    row(
        "ADD_EXTRA_TIME_FIELDS",
        EXTRA_TIMES,
        "true",
        "",
        "subseconds: no date_* fields; none: no date_* fields and no fractions of seconds",
    ),
    boolean("ANNOTATE_PUNCT", "true", "whether events have the field punct"),
    boolean("AUTO_KV_JSON", "true", "whether KV_MODE = auto also reads events that are JSON"),
    row("BREAK_ONLY_BEFORE", REGEX, "", "", "when lines are merged: a line that matches starts an event"),
    boolean("BREAK_ONLY_BEFORE_DATE", "true", "when lines are merged: a line with a time starts an event"),
    text(
        "CHARSET",
        "character encoding; empty: UTF-8, or UTF-16 if the text starts with its byte order mark; AUTO: detected from the bytes",
    ),
    text("DATETIME_CONFIG", "CURRENT: the clock; NONE: the file's modification time; otherwise the event's text"),
    text("EVAL-", "search time: expression for the field named after the dash"),
    row(
        "EXTRACT-",
        Kind::Extract,
        "",
        "",
        "pattern with named groups, followed by `in FIELD` if it reads another field",
    ),
    text("FIELDALIAS-", "search time: aliases of fields: `a AS b c ASNEW d`"),
    row("FIELD_DELIMITER", Kind::Delimiter, "", "", "separator of columns in delimited text"),
    row("FIELD_HEADER_REGEX", REGEX, "", "", "prefix of the header line, before the column names"),
    text("FIELD_NAMES", "column names of text without a header line, separated by commas"),
    row(
        "FIELD_QUOTE",
        Kind::Delimiter,
        "",
        "",
        "quote character of values that contain delimiters; default: the double quote",
    ),
    text("HEADER_FIELD_ACCEPTABLE_SPECIAL_CHARACTERS", "characters kept in column names"),
    row("HEADER_FIELD_DELIMITER", Kind::Delimiter, "", "", "separator of names in the header line"),
    count("HEADER_FIELD_LINE_NUMBER", "0", "", "line of the header; 0: the first after the preamble"),
    row("HEADER_FIELD_QUOTE", Kind::Delimiter, "", "", "quote character of names that contain delimiters"),
    row("HEADER_MODE", HEADER_MODES, "", "", "lines `***SPLUNK*** host=…`: always, or firstline only"),
    row("INDEXED_EXTRACTIONS", FORMATS, "", "", "format of a structured file"),
    row(
        "KV_MODE",
        KV_MODES,
        "auto",
        "",
        "how fields are extracted at search time; multi: may be followed by a stanza of multikv.conf",
    ),
    row(LESS_THAN, REGEX, "", "", "in [rule::…], followed by a percentage: fewer lines than that match"),
    text(
        "JSON_RECORDS",
        "name of the array in a JSON object whose elements are events: {\"Records\":[…]}; replaces LINE_BREAKER",
    ),
    row(
        "LINE_BREAKER",
        Kind::Regex { groups_min: 1 },
        r"([\r\n]+)",
        "",
        "separator of lines; the text of group 1 is dropped",
    ),
    text("LOOKUP-", "search time: lookup to run: `table in AS field OUTPUT out AS field`"),
    row("MAX_DAYS_AGO", DAYS, "10951", "days", "timestamps older than this are ignored"),
    row("MAX_DAYS_HENCE", DAYS, "2", "days", "timestamps further in the future than this are ignored"),
    count("MAX_DIFF_SECS_AGO", "3600", "seconds", "maximum step back from the previous event's time"),
    count("MAX_DIFF_SECS_HENCE", "604800", "seconds", "maximum step forward from the previous event's time"),
    count("MAX_EVENTS", "256", "lines", "maximum lines of an event"),
    row("MAX_TIMESTAMP_LOOKAHEAD", LOOKAHEAD, "128", "bytes", "bytes searched for a timestamp; 0 and -1: unlimited"),
    row("METRICS_PROTOCOL", PROTOCOL, "", "", "STATSD: the lines of UDP datagrams are metrics"),
    row("MISSING_VALUE_REGEX", REGEX, "", "", "column values that count as missing"),
    row(
        MORE_THAN,
        REGEX,
        "",
        "",
        "in [rule::…], the name followed by a percentage: more lines than this percentage match",
    ),
    row("MUST_BREAK_AFTER", REGEX, "", "", "when lines are merged: a line that matches ends an event"),
    row(
        "MUST_NOT_BREAK_AFTER",
        REGEX,
        "",
        "",
        "when lines are merged: after a match, no event ends until MUST_BREAK_AFTER matches",
    ),
    row("MUST_NOT_BREAK_BEFORE", REGEX, "", "", "when lines are merged: a line that matches never starts an event"),
    boolean("NO_BINARY_CHECK", "false", "whether files that look binary are read"),
    row("PREAMBLE_REGEX", REGEX, "", "", "lines before the header that match are skipped"),
    text("REPORT-", "search time: transforms.conf stanzas that extract fields, in order"),
    row("ROUTE_EVENTS_OLDER_THAN", Kind::Age, "", "", "older events are dropped: N with s, m, h or d"),
    text("RULESET-", "like TRANSFORMS-, and applied after them"),
    text("SEDCMD-", "sed commands on the event's text: `s/pattern/text/flags`, `y/abc/xyz/`"),
    boolean("SHOULD_LINEMERGE", "true", "whether lines are merged into events"),
    text(
        "STATSD-DIM-TRANSFORMS",
        "[statsd-dims:NAME] stanzas of transforms.conf, separated by commas; empty: the stanza with the sourcetype's name",
    ),
    text("TIMESTAMP_FIELDS", "columns that contain the time, separated by commas"),
    row("TIME_FORMAT", Kind::TimeFormat, "", "", "format of the timestamp; empty: detected"),
    row("TIME_PREFIX", REGEX, "", "", "pattern after which the timestamp is searched for"),
    text("TRANSFORMS-", "index-time rules of transforms.conf, in order"),
    count("TRUNCATE", "10000", "bytes", "maximum bytes of a line; 0: unlimited"),
    row("TZ", Kind::Zone, "", "", "time zone of timestamps without one"),
    text("TZ_ALIAS", "time zones of abbreviations: `EST=GMT+10:00,EDT=GMT+11:00`"),
    row(
        "priority",
        PRIORITY,
        "",
        "",
        "of two matching patterns, the one with the higher priority wins; default: 100 for plain names, otherwise 0",
    ),
    text("rename", "search time: new name of the sourcetype"),
    text("sourcetype", "in [source::…]: sourcetype of these files; in [rule::…]: sourcetype of matching data"),
];

const FORMATS: Kind = Kind::Choice(&["csv", "tsv", "psv", "w3c", "json", "none"]);
const EXTRA_TIMES: Kind =
    Kind::Choice(&["true", "false", "all", "none", "subseconds", "t", "f", "yes", "no", "y", "n", "1", "0"]);
const HEADER_MODES: Kind = Kind::Choice(&["empty", "always", "firstline"]);
const KV_MODES: Kind = Kind::Choice(&["none", "auto", "auto_escaped", "multi", "multi:", "json", "xml"]);

/// All rows, for stanzas of any kind.
pub(crate) const fn rows() -> &'static [Row] {
    ROWS
}
