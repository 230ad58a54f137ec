//! Types of request parameters: one table by name for all endpoints.
//!
//! A value of the wrong type is refused with a correction, even if the endpoint ignores the parameter, because a value
//! such as `max_count=abc` is certainly a mistake. An empty value counts as absent. Parameters not in the table are
//! texts that the endpoint interprets. Types and words are those of Splunk's REST reference.

use jiff::tz::TimeZone;
use quarry_event::time::{parse_time, parse_zone};
use quarry_search::real_time::real_time_modifier;

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterType {
    /// A boolean.
    Flag,
    /// A non-negative integer.
    Count,
    /// A number of entries or rows; 0 or -1 is all.
    Limit,
    /// The number of an entry or row, from 0 on; a negative number counts from the end.
    Offset,
    /// A non-negative number.
    Number,
    /// A time: absolute, relative, or in seconds since 1970.
    Time,
    /// A time, or a bound of a real-time window such as `rt-5m`.
    SearchTime,
    /// A time zone.
    Zone,
    Word(&'static [&'static str]),
}

use ParameterType::{Count, Flag, Limit, Number, Offset, SearchTime, Time, Word, Zone};

/// Parameters and their types, by name.
pub(crate) const TYPES: &[(&str, ParameterType)] = &[
    ("adhoc_search_level", Word(&["fast", "smart", "verbose"])),
    ("after", Count),
    ("again", Flag),
    ("allow_partial_results", Flag),
    ("allowQueryStringAuth", Flag),
    ("attachment", Flag),
    ("auto_cancel", Count),
    ("auto_finalize_ec", Count),
    ("auto_pause", Count),
    ("baseline_earliest_time", Time),
    ("baseline_latest_time", Time),
    ("before", Count),
    ("concise", Flag),
    ("cookie", Flag),
    ("count", Limit),
    ("csv_safe", Flag),
    ("cursor", Count),
    ("disabled", Flag),
    ("dispatch.sample_ratio", Count),
    ("earliest_time", SearchTime),
    ("enable_lookups", Flag),
    ("event_order", Word(&["newest", "oldest"])),
    ("exec_mode", Word(&["blocking", "normal", "oneshot"])),
    ("force_bundle_replication", Flag),
    ("head", Count),
    ("hints", Flag),
    ("histogram", Flag),
    ("history", Flag),
    ("implied_search", Flag),
    ("index_earliest", Time),
    ("index_latest", Time),
    ("indexedRealtime", Flag),
    ("indexedRealtimeOffset", Count),
    ("latest_time", SearchTime),
    ("limit", Limit),
    ("max_count", Count),
    ("max_lines", Count),
    ("max_time", Count),
    ("mb", Count),
    ("min_freq", Number),
    ("modified", Number),
    ("now", Time),
    ("offset", Offset),
    ("output_mode", Word(&["atom", "csv", "csv-safe", "json", "json_cols", "json_rows", "raw", "text", "xml"])),
    ("positions", Word(&["bytes", "utf-16"])),
    ("preview", Flag),
    ("priority", Count),
    ("provisional", Flag),
    ("reduce_freq", Count),
    ("reload_macros", Flag),
    ("replay_speed", Number),
    ("reuse_max_seconds_ago", Count),
    ("rt_backfill", Flag),
    ("rt_blocking", Flag),
    ("rt_indexfilter", Flag),
    ("rt_maxblocksecs", Count),
    ("rt_queue_size", Count),
    ("sample_ratio", Count),
    ("sample_seed", Count),
    ("search_mode", Word(&["normal", "realtime"])),
    ("sensitivity", Number),
    ("shared", Flag),
    ("skip", Count),
    ("sort_dir", Word(&["asc", "desc"])),
    ("sort_mode", Word(&["alpha", "alpha_case", "auto", "num"])),
    ("spawn_process", Flag),
    ("status_buckets", Count),
    ("summarize", Flag),
    ("sync_bundle_replication", Flag),
    ("text_only", Flag),
    ("timeout", Count),
    ("top_count", Count),
    ("truncation_mode", Word(&["abstract", "truncate"])),
    ("ttl", Count),
    ("useACK", Flag),
    ("zone", Zone),
];

/// The type of a parameter; `None` for texts.
pub(crate) fn type_of(name: &str) -> Option<ParameterType> {
    TYPES.iter().find(|(other, _)| *other == name).map(|(_, kind)| *kind)
}

/// The error in a parameter's value, if any.
pub(crate) fn value_error(name: &str, value: &str) -> Option<String> {
    let kind = type_of(name)?;
    let value = value.trim();
    let is_right = value.is_empty()
        || match kind {
            Flag => parse_flag(value).is_some(),
            Count => value.parse::<usize>().is_ok(),
            Limit => value == UNLIMITED || value.parse::<usize>().is_ok(),
            Offset => value.parse::<isize>().is_ok(),
            Number => value.parse::<f64>().is_ok_and(|number| number.is_finite() && number >= 0.0),
            Time => is_time(value),
            SearchTime => {
                real_time_modifier(value).map_or_else(|| is_time(value), |rest| rest.is_empty() || is_time(rest))
            }
            Zone => parse_zone(value).is_some(),
            Word(words) => words.contains(&value),
        };
    if is_right {
        return None;
    }
    let shown: String = value.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
    Some(match kind {
        Flag => format!("{name}={shown}: give 1 or 0"),
        Count => format!("{name}={shown}: give a whole number, 0 or more"),
        Limit => format!("{name}={shown}: give a whole number, 0 or more, or {UNLIMITED} for all"),
        Offset => format!("{name}={shown}: give a whole number; negative numbers count from the end"),
        Number => format!("{name}={shown}: give a number from 0"),
        Time | SearchTime => {
            format!(
                "{name}={shown} is not a time: use a form such as 2026-11-20T10:00:00, seconds since 1970, or -15m@m"
            )
        }
        Zone => format!("{name}={shown} is not a known time zone: use a name such as Europe/Berlin"),
        Word(words) => format!("{name}={shown}: give one of {}", words.join(", ")),
    })
}

fn is_time(text: &str) -> bool {
    parse_time(text, 0, &TimeZone::UTC).is_ok()
}

/// Count with which some clients request all entries.
pub(crate) const UNLIMITED: &str = "-1";

/// Maximum length in characters of the part of a wrong value that is shown.
const SHOWN_CHARS_MAX: usize = 80;

/// Splunk's spellings of booleans.
pub(crate) fn parse_flag(value: &str) -> Option<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "1" | "t" | "true" | "y" | "yes" | "on" => Some(true),
        "0" | "f" | "false" | "n" | "no" | "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_another_type_are_faults() {
        for (name, good, bad) in [
            ("again", "1 0 t f true FALSE yes no", "2 maybe"),
            ("count", "0 1 100 -1", "abc -2 1.5 1e3 0x10 99999999999999999999"),
            ("max_count", "0 1 100", "abc -1 1.5 1e3 0x10 99999999999999999999"),
            ("offset", "0 1 100 -1", "abc 1.5 1e3 0x10 99999999999999999999"),
            ("replay_speed", "0 1 1.5", "-1 nan inf fast"),
            (
                "earliest_time",
                "0 1763600000.5 -15m@m now 2026-11-20T10:00:00 rt rt-5m@m rtnow",
                "someday 15zz rtx rt-5zz",
            ),
            ("now", "0 -15m", "rt rt-5m"),
            ("zone", "UTC Europe/Berlin", "Mars"),
            ("exec_mode", "oneshot", "ONE oneshots"),
        ] {
            let good = good.split(' ').filter(|value| value_error(name, value).is_some()).collect::<Vec<_>>();
            let bad = bad.split(' ').filter(|value| value_error(name, value).is_none()).collect::<Vec<_>>();
            assert!(good.is_empty() && bad.is_empty(), "{name}: refused {good:?}, taken {bad:?}");
        }
        assert_eq!(value_error("search", "abc"), None);
        assert!(TYPES.iter().all(|(name, _)| value_error(name, "").is_none() && value_error(name, "!").is_some()));
        let names: Vec<String> = TYPES.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        assert!(names.is_sorted() && names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
