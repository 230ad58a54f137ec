//! Search options of requests other than text and times: sampling and search mode. Also reports arguments without
//! effect.
//!
//! Not here: arguments of the job itself ([`super::jobs`]).

use std::collections::BTreeMap;

use quarry_engine::SearchShape;
use quarry_search::jobs::SearchLevel;

use crate::message::ApiError;
use crate::parameters::Parameters;

/// Arguments that select events and their fields.
pub(super) const SHAPE_ARGUMENTS: [&str; 5] =
    ["sample_ratio", "dispatch.sample_ratio", "adhoc_search_level", "auto_finalize_ec", "enable_lookups"];
/// Search arguments with an effect, in addition to [`SHAPE_ARGUMENTS`].
const EFFECTIVE_ARGUMENTS: &[&str] = &[
    "auto_cancel",
    "auto_pause",
    "count",
    "csv_safe",
    "earliest_time",
    "event_order",
    "exec_mode",
    "f",
    "field_list",
    "head",
    "hints",
    "history",
    "id",
    "implied_search",
    "index_earliest",
    "index_latest",
    "label",
    "latest_time",
    "max_count",
    "max_time",
    "namespace",
    "now",
    "offset",
    "output_mode",
    "preview",
    "priority",
    "reuse_max_seconds_ago",
    "rt_backfill",
    "search",
    "search_mode",
    "status_buckets",
    "text_only",
    "time_format",
    "timeout",
    "zone",
];
/// Splunk's arguments that cannot change an answer here, because they concern Splunk's processes or are only stored for
/// its user interface. `rt_maximum_span` limits how far a real-time search may lag behind its window; here a search
/// never lags, because each of its rounds reads the whole window.
const IGNORED_ARGUMENTS: &[&str] = &[
    "allow_partial_results",
    "check_risky_command",
    "force_bundle_replication",
    "indexedRealtime",
    "indexedRealtimeMinSpan",
    "indexedRealtimeOffset",
    "max_lines",
    "preserve_command_order",
    "provenance",
    "reduce_freq",
    "reload_macros",
    "remote_server_list",
    "required_field_list",
    "required_fields_list",
    "rf",
    "rt_blocking",
    "rt_indexfilter",
    "rt_maxblocksecs",
    "rt_maximum_span",
    "rt_queue_size",
    "search_listener",
    "segmentation",
    "spawn_process",
    "sync_bundle_replication",
    "truncation_mode",
    "ui_dispatch_app",
    "ui_dispatch_view",
    "workload_pool",
];
/// Prefixes of arguments that only store something with a job.
const IGNORED_PREFIXES: [&str; 4] = [CUSTOM_PREFIX, "data.", "display.", "request."];
/// Prefix of fields that clients store with a job.
const CUSTOM_PREFIX: &str = "custom.";
/// Maximum number of arguments reported.
const REPORTED_MAX: usize = 20;
/// Maximum length in characters of a reported name.
const NAME_CHARS_MAX: usize = 80;

/// Reads the arguments that select events and fields, and the search mode.
pub(super) fn parse_shape(parameters: &Parameters) -> Result<(SearchShape, SearchLevel), ApiError> {
    let level = match parameters.get("adhoc_search_level").map(str::trim) {
        Some("fast") => SearchLevel::Fast,
        Some("verbose") => SearchLevel::Verbose,
        _ => SearchLevel::Smart,
    };
    let given =
        ["sample_ratio", "dispatch.sample_ratio"].into_iter().find_map(|name| Some((name, parameters.get(name)?)));
    let sample = given.filter(|(_, text)| !text.trim().is_empty()).map(|(name, text)| parse_sample_ratio(name, text));
    let sample = sample.transpose()?.unwrap_or(1);
    let shape = SearchShape {
        sample,
        named_fields_only: level == SearchLevel::Fast,
        oldest_first: parameters.get("event_order") == Some("oldest"),
        head: parameters.number("head")?.filter(|rows| *rows > 0),
        text_only: parameters.is_set("text_only"),
        events_max: parameters
            .number("auto_finalize_ec")?
            .filter(|events| *events > 0)
            .and_then(|events| u64::try_from(events).ok()),
        skips_lookups: parameters.get("enable_lookups").is_some() && !parameters.is_set("enable_lookups"),
        ..SearchShape::default()
    };
    Ok((shape, level))
}

/// Parses a sampling ratio: N if one in N events is searched.
pub(super) fn parse_sample_ratio(name: &str, text: &str) -> Result<u32, ApiError> {
    let ratio = text.trim().parse::<u32>().ok().filter(|ratio| *ratio > 0);
    ratio.ok_or_else(|| {
        ApiError::bad_request(format!("{name}={text}: give a whole number, 1 or more, such as 100 for 1:100"))
    })
}

/// Messages about arguments that are unknown, or that would change the answer in Splunk but do not here.
pub(super) fn argument_messages(parameters: &Parameters) -> Vec<String> {
    let is_quiet = |name: &str| {
        let lists = [EFFECTIVE_ARGUMENTS, &SHAPE_ARGUMENTS, IGNORED_ARGUMENTS];
        lists.iter().any(|list| list.contains(&name)) || IGNORED_PREFIXES.iter().any(|begin| name.starts_with(begin))
    };
    let mut names: Vec<String> = parameters.clone().into_pairs().into_iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    names.retain(|name| !is_quiet(name));
    let told = |name: &String| {
        let shown: String = name.chars().take(NAME_CHARS_MAX).flat_map(char::escape_debug).collect();
        format!("Argument \"{shown}\" is not supported by this handler: it has no effect.")
    };
    names.iter().take(REPORTED_MAX).map(told).collect()
}

/// The fields in a request that are stored with its job, without their prefix.
pub(super) fn custom_fields(parameters: &Parameters) -> BTreeMap<String, String> {
    let pairs = parameters.clone().into_pairs().into_iter();
    pairs.filter_map(|(name, value)| Some((name.strip_prefix(CUSTOM_PREFIX)?.to_owned(), value))).collect()
}

/// A message about a `max_count` above the number of rows that a job keeps.
pub(super) fn count_message(parameters: &Parameters, most: usize) -> Result<Option<String>, ApiError> {
    let given = parameters.number("max_count")?.filter(|count| *count > most);
    Ok(given.map(|count| format!("max_count={count} is more than a job keeps: its first {most} rows are kept.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Parameters {
        Parameters::of(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn ratios_are_numbers_from_one() {
        for (text, ratio) in [("1", 1), ("100", 100), ("", 1)] {
            assert_eq!(parse_shape(&of(&[("sample_ratio", text)])).unwrap().0.sample, ratio, "{text}");
        }
        for wrong in ["0", "-1", "1:100", "1.5"] {
            assert!(parse_shape(&of(&[("dispatch.sample_ratio", wrong)])).is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits_of_events_and_lookups_are_read() {
        let shape = |pairs: &[(&str, &str)]| parse_shape(&of(pairs)).unwrap().0;
        let read = |pairs| (shape(pairs).events_max, shape(pairs).skips_lookups);
        assert_eq!(read(&[]), (None, false));
        assert_eq!(read(&[("auto_finalize_ec", "0"), ("enable_lookups", "1")]), (None, false));
        assert_eq!(read(&[("auto_finalize_ec", "7"), ("enable_lookups", "0")]), (Some(7), true));
    }

    #[test]
    fn a_lowered_count_is_reported() {
        let told = |count: &str| count_message(&of(&[("max_count", count)]), 500).unwrap();
        assert_eq!((told("500"), told("0")), (None, None));
        assert!(told("501").is_some_and(|text| text.contains("first 500 rows")));
    }

    #[test]
    fn unsupported_arguments_are_reported_unless_they_cannot_change_answers() {
        let told = argument_messages(&of(&[
            ("search", "x"),
            ("custom.a", "b"),
            ("rf", "a"),
            ("colour", "red"),
            ("summarize", "1"),
        ]));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("Argument \"colour\" is not supported"));
    }
}
