//! Types of settings in JSON: one table by name for all stanzas shown as entities.
//!
//! A setting is a text in its file. If a setting is declared as a boolean or a number, Splunk's handlers answer in JSON
//! with a value of this type, and clients in typed languages expect it. A text that looks like a number need not be
//! declared as a number: `alert_threshold` and `schedule_window` are texts even if they are `0`. A value that does not
//! have the declared type (`interval = */5 * * * *`) stays a text. Types are those in answers of Splunk 10 and in the
//! models of its Terraform provider.
//!
//! Not here: types of request parameters ([`crate::parameter_types`]).

use serde_json::{Number, Value};

use super::shape::Shape;
use crate::parameter_types::parse_flag;

/// Type of a setting in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SettingType {
    Flag,
    Integer,
    Number,
    /// Texts separated by commas.
    List,
}

use SettingType::{Flag, Integer, List, Number as Fraction};

/// Settings that are not texts, by name, in byte order.
const TYPES: &[(&str, SettingType)] = &[
    ("CAN_OPTIMIZE", Flag),
    ("CLEAN_KEYS", Flag),
    ("KEEP_EMPTY_VALS", Flag),
    ("MV_ADD", Flag),
    ("SSL", Flag),
    ("alert.digest_mode", Flag),
    ("alert.severity", Integer),
    ("alert.suppress", Flag),
    ("alert.track", Flag),
    ("archiver.coldStorageRetentionPeriod", Integer),
    ("archiver.enableDataArchive", Flag),
    ("archiver.maxDataArchiveRetentionPeriod", Integer),
    ("auto_summarize", Flag),
    ("auto_summarize.max_disabled_buckets", Integer),
    ("auto_summarize.max_summary_ratio", Fraction),
    ("auto_summarize.max_summary_size", Integer),
    ("auto_summarize.max_time", Integer),
    ("blockSignSize", Integer),
    ("bucketMerging", Flag),
    ("case_sensitive_match", Flag),
    ("changes_colorder", Flag),
    ("coldPath.maxDataSizeMB", Integer),
    ("compressed", Flag),
    ("dashboardType", Integer),
    ("disabled", Flag),
    ("dispatch.buckets", Integer),
    ("dispatch.indexedRealtime", Flag),
    ("dispatch.indexedRealtimeMinspan", Integer),
    ("dispatch.indexedRealtimeOffset", Integer),
    ("dispatch.lookups", Flag),
    ("dispatch.max_count", Integer),
    ("dispatch.max_time", Integer),
    ("dispatch.reduce_freq", Integer),
    ("dispatch.rt_backfill", Flag),
    ("dispatch.rt_maximum_span", Integer),
    ("dispatch.sample_ratio", Integer),
    ("dispatch.spawn_process", Flag),
    ("dropEventsOnQueueFull", Integer),
    ("embed.enabled", Flag),
    ("embed.expiry", Integer),
    ("enableTsidxReduction", Flag),
    ("enableheader", Flag),
    ("fields_array", List),
    ("fileSystemExecutorWorkers", Integer),
    ("followTail", Flag),
    ("frozenTimePeriodInSecs", Integer),
    ("generates_timeorder", Flag),
    ("generating", Flag),
    ("heartbeatFrequency", Integer),
    ("homePath.maxDataSizeMB", Integer),
    ("host_segment", Integer),
    ("hotBucketTimeRefreshInterval", Integer),
    ("indexAndForward", Flag),
    ("interval", Integer),
    ("isDashboard", Flag),
    ("isVisible", Flag),
    ("is_scheduled", Flag),
    ("is_visible", Flag),
    ("maxBucketSizeCacheEntries", Integer),
    ("maxConcurrentOptimizes", Integer),
    ("maxGlobalDataSizeMB", Integer),
    ("maxGlobalRawDataSizeMB", Integer),
    ("maxHotIdleSecs", Integer),
    ("maxHotSpanSecs", Integer),
    ("maxMemMB", Integer),
    ("maxMetaEntries", Integer),
    ("maxRunningProcessGroupsLowPriority", Integer),
    ("maxTimeUnreplicatedNoAcks", Integer),
    ("maxTimeUnreplicatedWithAcks", Integer),
    ("maxTotalDataSizeMB", Integer),
    ("maxWarmDBCount", Integer),
    ("max_concurrent", Integer),
    ("max_matches", Integer),
    ("maxinputs", Integer),
    ("metric.compressionBlockSize", Integer),
    ("metric.enableFloatingPointCompression", Flag),
    ("metric.stubOutRawdataJournal", Flag),
    ("metric.tsidxTargetSizeMB", Integer),
    ("minHotIdleSecsBeforeForceRoll", Integer),
    ("minStreamGroupQueueSize", Integer),
    ("min_matches", Integer),
    ("no_appending_timestamp", Flag),
    ("no_priority_stripping", Flag),
    ("outputheader", Flag),
    ("partialServiceMetaPeriod", Integer),
    ("passauth", Flag),
    ("priority", Integer),
    ("processTrackerServiceInterval", Integer),
    ("quarantineFutureSecs", Integer),
    ("quarantinePastSecs", Integer),
    ("rawChunkSizeBytes", Integer),
    ("rawTcpDoneTimeout", Integer),
    ("realtime_schedule", Flag),
    ("recursive", Flag),
    ("replicate_delta", Flag),
    ("requires_preop", Flag),
    ("restart_on_searchpeer_add", Flag),
    ("retainsevents", Flag),
    ("rotatePeriodInSecs", Integer),
    ("rtRouterQueueSize", Integer),
    ("rtRouterThreads", Integer),
    ("run_n_times", Integer),
    ("run_on_startup", Flag),
    ("selfStorageThreads", Integer),
    ("sendCookedData", Flag),
    ("servers", List),
    ("serviceInactiveIndexesPeriod", Integer),
    ("serviceMetaPeriod", Integer),
    ("serviceOnlyAsNeeded", Flag),
    ("serviceSubtaskTimingPeriod", Integer),
    ("sslVerifyServerCert", Flag),
    ("streaming", Flag),
    ("streamingTargetTsidxSyncPeriodMsec", Integer),
    ("supports_rawargs", Flag),
    ("suspendHotRollByDeleteQuery", Flag),
    ("syncMeta", Flag),
    ("tags", List),
    ("throttleCheckPeriod", Integer),
    ("time-before-close", Integer),
    ("timePeriodInSecBeforeTsidxReduction", Integer),
    ("time_before_close", Integer),
    ("totalEventCount", Integer),
    ("tsidxDedupPostingsListMaxTermsLimit", Integer),
    ("tsidxReductionCheckPeriodInSec", Integer),
    ("tsidxTargetSizeMB", Integer),
    ("waitPeriodInSecsForManifestWrite", Integer),
];

/// Settings of an action, by the part of the name after `action.NAME.`, in byte order.
const ACTION_TYPES: &[(&str, SettingType)] = &[
    ("inline", Flag),
    ("maxresults", Integer),
    ("reportIncludeSplunkLogo", Flag),
    ("reportServerEnabled", Flag),
    ("sendpdf", Flag),
    ("sendresults", Flag),
    ("track_alert", Flag),
    ("use_ssl", Flag),
    ("use_tls", Flag),
    ("width_sort_columns", Flag),
];

/// The setting's value in JSON.
pub(super) fn json_value(name: &str, text: &str) -> Value {
    let typed = match type_of(name) {
        Some(Flag) => parse_flag(text).map(Value::Bool),
        Some(Integer) => text.trim().parse::<i64>().ok().map(Value::from),
        Some(Fraction) => text.trim().parse().ok().and_then(Number::from_f64).map(Value::Number),
        Some(List) => {
            let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
            Some(Value::Array(texts.map(Value::from).collect()))
        }
        None => None,
    };
    typed.unwrap_or_else(|| text.into())
}

/// The shape of the setting's value.
pub(super) fn shape(name: &str) -> Shape {
    match type_of(name) {
        Some(Flag) => super::shape::SETTING,
        Some(Integer) => super::shape::WHOLE_NUMBER,
        Some(Fraction) => Shape::Either(&[Shape::Text, Shape::Number]),
        Some(List) => Shape::List(&Shape::Text),
        None => Shape::Text,
    }
}

/// A description of the values that a setting may have, if it is declared as a flag or a number and `text` is not one.
/// An empty text does not count as a value.
pub(super) fn expected_instead(name: &str, text: &str) -> Option<&'static str> {
    let text = text.trim();
    match type_of(name)? {
        _ if text.is_empty() => None,
        // `auto` is valid, too: Splunk then decides by the alert's actions.
        Flag if name == "alert.track" && text.eq_ignore_ascii_case("auto") => None,
        Flag => parse_flag(text).is_none().then_some("1 or 0"),
        Integer => text.parse::<i64>().is_err().then_some("a whole number"),
        Fraction => text.parse::<f64>().is_err().then_some("a number"),
        List => None,
    }
}

fn type_of(name: &str) -> Option<SettingType> {
    let find = |types: &[(&str, SettingType)], name: &str| {
        types.binary_search_by(|(other, _)| (*other).cmp(name)).ok().map(|at| types[at].1)
    };
    match name.strip_prefix("action.").map(|of_action| of_action.split_once('.')) {
        // `action.NAME` switches the action on or off.
        Some(None) => Some(Flag),
        Some(Some((_, setting))) => find(ACTION_TYPES, setting),
        None => find(TYPES, name),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_have_their_declared_type_or_stay_texts() {
        assert!(
            TYPES.is_sorted_by_key(|(name, _)| *name) && ACTION_TYPES.is_sorted_by_key(|(name, _)| *name),
            "the tables are searched by bisection"
        );
        for (name, text, value) in [
            ("is_scheduled", "t", json!(true)),
            ("is_scheduled", "perhaps", json!("perhaps")),
            ("alert.severity", "4", json!(4)),
            ("alert_threshold", "0", json!("0")),
            ("schedule_window", "0", json!("0")),
            ("dispatch.ttl", "600", json!("600")),
            ("auto_summarize.max_summary_ratio", "0.1", json!(0.1)),
            ("interval", "60", json!(60)),
            ("interval", "*/5 * * * *", json!("*/5 * * * *")),
            ("maxHotBuckets", "10", json!("10")),
            ("generating", "stream", json!("stream")),
            ("passauth", "true", json!(true)),
            ("action.email", "0", json!(false)),
            ("action.mine", "1", json!(true)),
            ("action.email.to", "1", json!("1")),
            ("action.email.maxtime", "5", json!("5")),
            ("action.email.sendcsv", "1", json!("1")),
            ("action.rss.maxresults", "100", json!(100)),
        ] {
            assert_eq!(json_value(name, text), value, "{name} = {text}");
        }
    }
}
