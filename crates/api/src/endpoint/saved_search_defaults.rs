//! Settings that every saved search has over REST, whether its stanza sets them or not, and `actions`.
//!
//! Clients read these members without asking whether they exist. `actions` is the list of the actions whose setting
//! `action.NAME` is on. The list is derived from these settings when a saved search is shown, and sets them when a
//! saved search is written. Not here: the effects of the settings ([`super::saved_searches`]).

use std::collections::BTreeMap;

use quarry_apps::objects::ConfObject;
use quarry_conf::parse_bool;
use quarry_event::time::Cron;

use super::entity_kinds::Kind;
use super::search_schedules::NEXT_TIME;
use super::setting_types::expected_instead;
use crate::ApiState;
use crate::message::ApiError;
use crate::parameter_types::value_error;

/// Prefix of the settings of actions: `action.NAME` switches an action on, `action.NAME.KEY` is one of its settings.
const ACTION: &str = "action.";
/// The list of actions.
const ACTIONS: &str = "actions";
/// Actions for which every saved search shows the setting `action.NAME`.
const KNOWN_ACTIONS: [&str; 5] = ["email", "populate_lookup", "rss", "script", "summary_index"];
/// The search with the leading command `search`, which its text may omit.
const QUALIFIED: &str = "qualifiedSearch";

/// Default values of settings.
const DEFAULTS: &[(&str, &str)] = &[
    ("alert.digest_mode", "1"),
    ("alert.expires", "24h"),
    ("alert.managedBy", ""),
    ("alert.severity", "3"),
    ("alert.suppress", "0"),
    ("alert.suppress.fields", ""),
    ("alert.suppress.period", ""),
    ("alert.track", "0"),
    ("alert_comparator", ""),
    ("alert_condition", ""),
    ("alert_threshold", ""),
    ("alert_type", "always"),
    ("allow_skew", "0"),
    ("auto_summarize", "0"),
    ("auto_summarize.cron_schedule", "*/10 * * * *"),
    ("auto_summarize.dispatch.earliest_time", ""),
    ("auto_summarize.dispatch.latest_time", ""),
    ("auto_summarize.dispatch.ttl", "60"),
    ("auto_summarize.max_disabled_buckets", "2"),
    ("auto_summarize.max_summary_ratio", "0.1"),
    ("auto_summarize.max_summary_size", "52428800"),
    ("auto_summarize.max_time", "3600"),
    ("auto_summarize.suspend_period", "24h"),
    ("auto_summarize.timespan", ""),
    ("cron_schedule", ""),
    ("description", ""),
    ("dispatch.buckets", "0"),
    ("dispatch.earliest_time", ""),
    ("dispatch.index_earliest", ""),
    ("dispatch.index_latest", ""),
    ("dispatch.latest_time", ""),
    ("dispatch.lookups", "1"),
    ("dispatch.max_count", "500000"),
    ("dispatch.max_time", "0"),
    ("dispatch.reduce_freq", "10"),
    ("dispatch.rt_backfill", "0"),
    ("dispatch.rt_maximum_span", ""),
    ("dispatch.sample_ratio", "1"),
    ("dispatch.spawn_process", "1"),
    ("dispatch.time_format", "%FT%T.%Q%:z"),
    ("dispatch.ttl", "2p"),
    ("dispatchAs", "owner"),
    ("displayview", ""),
    ("embed.enabled", "0"),
    ("is_scheduled", "0"),
    ("is_visible", "1"),
    ("max_concurrent", "1"),
    ("realtime_schedule", "1"),
    ("request.ui_dispatch_app", ""),
    ("request.ui_dispatch_view", ""),
    ("restart_on_searchpeer_add", "1"),
    ("run_n_times", "0"),
    ("run_on_startup", "0"),
    ("schedule_priority", "default"),
    ("schedule_window", "0"),
    ("vsid", ""),
    ("workload_pool", ""),
];

/// Adds the settings that the stanza does not set, and `actions`.
pub(super) fn fill(kind: &Kind, object: &ConfObject, settings: &mut BTreeMap<String, String>) {
    let next = kind.times.as_ref().and_then(|times| times.next_time(object));
    settings.insert(NEXT_TIME.to_owned(), next.unwrap_or_default());
    let mut add = |key: &str, value: &str| {
        settings.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    };
    KNOWN_ACTIONS.iter().for_each(|name| add(&format!("{ACTION}{name}"), "0"));
    DEFAULTS.iter().for_each(|(key, value)| add(key, value));
    let is_on = |(key, value): (&String, &String)| {
        let name = key.strip_prefix(ACTION).filter(|name| !name.contains('.'))?;
        (parse_bool(value) == Some(true)).then(|| name.to_owned())
    };
    let actions: Vec<String> = settings.iter().filter_map(is_on).collect();
    settings.insert(ACTIONS.to_owned(), actions.join(", "));
    let search = settings.get("search").map_or("", |search| search.trim_start());
    let qualified = match search {
        "" => String::new(),
        search if search.starts_with('|') || search.starts_with("search ") => search.to_owned(),
        search => format!("search {search}"),
    };
    settings.entry(QUALIFIED.to_owned()).or_insert(qualified);
}

/// Replaces `actions` with settings `action.NAME`. Listed actions are switched on even if the request has
/// `action.NAME=0` (Terraform's provider sends it with every list). Other known actions are switched off unless the
/// request sets them.
pub(super) fn expand(_: &str, settings: &mut Vec<(String, String)>) {
    let Some(at) = settings.iter().position(|(key, _)| key == ACTIONS) else { return };
    let (_, list) = settings.remove(at);
    let listed: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let others = KNOWN_ACTIONS.iter().copied().filter(|known| !listed.contains(known));
    let given: Vec<String> = settings.iter().map(|(key, _)| key.clone()).collect();
    let off = others.map(|name| format!("{ACTION}{name}")).filter(|key| !given.contains(key));
    let on: Vec<String> = listed.iter().map(|name| format!("{ACTION}{name}")).collect();
    settings.retain(|(key, _)| !on.contains(key));
    settings.extend(on.into_iter().map(|key| (key, "1".to_owned())).chain(off.map(|key| (key, "0".to_owned()))));
}

/// Conditions of alerts.
const ALERT_TYPES: [&str; 5] = ["always", "custom", "number of events", "number of hosts", "number of sources"];
/// Severities of alerts.
const SEVERITIES: std::ops::RangeInclusive<i64> = 1..=6;

/// Rejects values that do not have the type of their setting.
pub(super) fn validate(_: &ApiState, _: &Kind, _: Option<&str>, settings: &[(String, String)]) -> Result<(), ApiError> {
    settings
        .iter()
        .find_map(|(key, value)| fault_of(key, value))
        .map_or(Ok(()), |fault| Err(ApiError::bad_request(fault)))
}

/// The error message for an invalid value; `None` if the value is valid.
fn fault_of(key: &str, value: &str) -> Option<String> {
    let refused = |wanted: &str| Some(format!("Invalid value for argument {key}=\"{value}\": give {wanted}"));
    if let Some(wanted) = expected_instead(key, value) {
        return refused(wanted);
    }
    let given = value.trim();
    match key {
        _ if given.is_empty() => None,
        "alert.severity" if !given.parse().is_ok_and(|severity| SEVERITIES.contains(&severity)) => {
            refused("a number from 1 to 6")
        }
        _ => {
            let form = FORMS.iter().find(|(name, _)| *name == key).map(|(_, form)| form)?;
            if form.accepts(given) { None } else { refused(&form.description()) }
        }
    }
}

/// Forms of values that are texts in JSON.
enum Form {
    Word(&'static [&'static str]),
    /// A cron schedule.
    Schedule,
    /// A time of a search.
    Time,
    /// A number with a unit of time.
    Duration,
    /// Seconds, or a number of periods of the schedule.
    Lifetime,
    /// Minutes, or `auto`.
    Window,
    /// A number, or a percentage.
    Threshold,
}

/// Comparisons of an alert's condition.
const COMPARISONS: &[&str] = &["greater than", "less than", "equal to", "not equal to", "drops by", "rises by"];

/// Settings whose values have one of these forms.
const FORMS: &[(&str, Form)] = &[
    ("alert.expires", Form::Duration),
    ("alert.suppress.period", Form::Duration),
    ("alert_comparator", Form::Word(COMPARISONS)),
    ("alert_threshold", Form::Threshold),
    ("alert_type", Form::Word(&ALERT_TYPES)),
    ("auto_summarize.cron_schedule", Form::Schedule),
    ("auto_summarize.dispatch.earliest_time", Form::Time),
    ("auto_summarize.dispatch.latest_time", Form::Time),
    ("auto_summarize.dispatch.ttl", Form::Lifetime),
    ("auto_summarize.suspend_period", Form::Duration),
    ("counttype", Form::Word(&ALERT_TYPES)),
    ("dispatch.earliest_time", Form::Time),
    ("dispatch.index_earliest", Form::Time),
    ("dispatch.index_latest", Form::Time),
    ("dispatch.latest_time", Form::Time),
    ("dispatch.ttl", Form::Lifetime),
    ("dispatchAs", Form::Word(&["owner", "user"])),
    ("quantity", Form::Threshold),
    ("relation", Form::Word(COMPARISONS)),
    ("schedule_priority", Form::Word(&["default", "higher", "highest"])),
    ("schedule_window", Form::Window),
];

impl Form {
    fn accepts(&self, text: &str) -> bool {
        let is_count = |text: &str| text.parse::<u64>().is_ok();
        match self {
            Form::Word(words) => words.iter().any(|word| word.eq_ignore_ascii_case(text)),
            Form::Schedule => Cron::parse(text).is_some(),
            Form::Time => value_error("earliest_time", text).is_none(),
            Form::Duration => {
                let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
                is_count(&text[..text.len() - unit.len()])
                    && unit.trim().chars().next().is_none_or(|first| "smhdw".contains(first.to_ascii_lowercase()))
                    && unit.trim().chars().all(|letter| letter.is_ascii_alphabetic())
            }
            Form::Lifetime => is_count(text.strip_suffix('p').unwrap_or(text)),
            Form::Window => text.eq_ignore_ascii_case("auto") || is_count(text),
            Form::Threshold => text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().is_ok_and(f64::is_finite),
        }
    }

    fn description(&self) -> String {
        match self {
            Form::Word(words) => format!("one of {}", words.join(", ")),
            Form::Schedule => "a cron schedule of five fields".to_owned(),
            Form::Time => "a time, as in -24h@h or now".to_owned(),
            Form::Duration => "a number with a unit, as in 30m".to_owned(),
            Form::Lifetime => "seconds, or a number of periods, as in 2p".to_owned(),
            Form::Window => "minutes, or auto".to_owned(),
            Form::Threshold => "a number or a percentage".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_another_type_are_refused() {
        for (key, value) in [
            ("is_scheduled", "maybe"),
            ("disabled", "zz"),
            ("action.email", "sure"),
            ("dispatch.max_count", "abc"),
            ("auto_summarize.max_summary_ratio", "much"),
            ("alert.severity", "99"),
            ("alert_type", "bogus"),
            ("alert.expires", "soon"),
            ("alert.suppress.period", "5 x"),
            ("alert_comparator", "more"),
            ("alert_threshold", "many"),
            ("auto_summarize.cron_schedule", "hourly"),
            ("auto_summarize.dispatch.ttl", "2d"),
            ("counttype", "rows"),
            ("dispatch.earliest_time", "yesterday"),
            ("dispatch.latest_time", "-5parsecs"),
            ("dispatch.ttl", "p"),
            ("dispatchAs", "nobody"),
            ("quantity", "5%%"),
            ("relation", "above"),
            ("schedule_priority", "low"),
            ("schedule_window", "-5"),
        ] {
            assert!(fault_of(key, value).is_some_and(|fault| fault.contains(key)), "{key}={value}");
        }
        for (key, value) in DEFAULTS {
            assert_eq!(fault_of(key, value), None, "{key}={value}");
        }
        for (key, value) in [
            ("is_scheduled", "t"),
            ("alert.severity", "6"),
            ("alert_type", "Number of events"),
            ("alert.suppress.period", "86400s"),
            ("alert.expires", "10 minutes"),
            ("alert_comparator", "rises by"),
            ("alert_threshold", "25%"),
            ("alert.track", "auto"),
            ("dispatch.earliest_time", "rt-15m"),
            ("dispatch.latest_time", "rt"),
            ("dispatch.earliest_time", "2026-10-08T12:00:00"),
            ("dispatch.index_earliest", "-1d@d"),
            ("dispatch.ttl", "600"),
            ("schedule_window", "auto"),
        ] {
            assert_eq!(fault_of(key, value), None, "{key}={value}");
        }
    }

    #[test]
    fn listed_actions_are_on_and_others_off_unless_the_request_switches_them() {
        let given = [("search", "*"), ("actions", "rss, email,mine"), ("action.email", "0"), ("action.script", "1")];
        let mut settings = given.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        expand("", &mut settings);
        settings.sort();
        let expected = [
            ("action.email", "1"),
            ("action.mine", "1"),
            ("action.populate_lookup", "0"),
            ("action.rss", "1"),
            ("action.script", "1"),
            ("action.summary_index", "0"),
            ("search", "*"),
        ];
        assert_eq!(settings, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }
}
