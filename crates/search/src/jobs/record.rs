//! The settings of a job, and their record in the job's folder.

use std::collections::BTreeMap;

use quarry_engine::BaseSearch;
use quarry_event::{TimeNs, TimeRange};
use serde::{Deserialize, Serialize};

use super::{TTL_MAX_S, TTL_S};
use crate::job_sharing::JobSharing;
use crate::real_time::RealTimeWindow;
use crate::service::{SearchParams, saved_name};

/// Options of a job besides its search.
#[derive(Clone, Debug, Default)]
pub struct JobOptions {
    /// Name of the job; generated if absent.
    pub id: Option<String>,
    /// Display name.
    pub label: Option<String>,
    /// Name of the saved search that the job runs, if the search text does not contain it.
    pub saved: Option<String>,
    /// App in whose namespace the search runs.
    pub app: String,
    /// Maximum number of spans of the timeline; 0 for no timeline.
    pub status_buckets: usize,
    /// Lifetime in seconds after the end of the search; default [`TTL_S`].
    pub ttl_s: Option<i64>,
    /// Seconds without access after which the job is cancelled; 0 for never.
    pub auto_cancel_s: i64,
    /// Seconds without access after which the search pauses; 0 for never.
    pub auto_pause_s: i64,
    /// Maximum run time in seconds, after which the search ends with the rows found so far; 0 for no limit.
    pub time_max_s: i64,
    /// Priority from 0 to 10, for waiting searches.
    pub priority: u8,
    /// Search mode: fields of events, and whether events of a report are available.
    pub level: SearchLevel,
    /// The window of a real-time search.
    pub real_time: Option<RealTimeWindow>,
    /// Whether the real-time window excludes events that arrived before the job began.
    pub is_not_backfilled: bool,
    /// Notes about the request, such as parameters without effect.
    pub notes: Vec<String>,
    /// Whether the client wants hints.
    pub has_hints: bool,
    /// Whether the request asks for previews (true) or declines them (false); by default, previews are made when a
    /// client reads them.
    pub previews: Option<bool>,
    /// Fields that the client stores with the job.
    pub custom: BTreeMap<String, String>,
    /// The file whose events are previewed, if the job runs no search.
    pub previewed: Option<PreviewedFile>,
}

/// The way in which a previewed file was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviewedFile {
    /// Sourcetype of the events; empty if there are none.
    pub sourcetype: String,
    /// Settings of props.conf that the request set for the file.
    pub props: BTreeMap<String, String>,
}

/// Splunk's search modes, which decide the fields of events and whether the events behind a report are available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchLevel {
    /// Events have the fields that the search names, and default fields.
    Fast,
    /// Events have all fields; reports extract only the fields they need.
    #[default]
    Smart,
    /// Like smart mode; additionally, the events behind a report are available.
    Verbose,
}

impl SearchLevel {
    /// Splunk's name of the mode.
    pub fn word(self) -> &'static str {
        match self {
            SearchLevel::Fast => "fast",
            SearchLevel::Smart => "smart",
            SearchLevel::Verbose => "verbose",
        }
    }
}

/// The settings of a job as stored in its folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobRecord {
    pub(crate) sid: String,
    pub(crate) user: String,
    pub(crate) app: String,
    pub(crate) search: String,
    /// The search with its macros expanded, if the search has macros.
    #[serde(default)]
    pub(crate) expanded: Option<String>,
    /// The search for events with which the search begins.
    #[serde(default)]
    pub(crate) base: Option<BaseTexts>,
    pub(crate) saved: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) earliest: Option<String>,
    pub(crate) latest: Option<String>,
    pub(crate) began_ns: TimeNs,
    /// Time that `now` means in the search; `None` means the creation time.
    #[serde(default)]
    pub(crate) now_ns: Option<TimeNs>,
    pub(crate) status_buckets: usize,
    pub(crate) ttl_s: i64,
    pub(crate) auto_cancel_s: i64,
    pub(crate) time_max_s: i64,
    pub(crate) priority: u8,
    #[serde(default)]
    pub(crate) level: SearchLevel,
    /// Sampling ratio N: one of N events is read.
    #[serde(default)]
    pub(crate) sample_ratio: u32,
    /// Number of matching events after which the job is finalised; 0 for no limit.
    #[serde(default)]
    pub(crate) events_max: u64,
    /// Whether automatic lookups are skipped.
    #[serde(default)]
    pub(crate) skips_lookups: bool,
    #[serde(default)]
    pub(crate) is_real_time: bool,
    #[serde(default)]
    pub(crate) previews: Option<bool>,
    #[serde(default)]
    pub(crate) auto_pause_s: i64,
    /// Limits of the times at which the events arrived.
    #[serde(default)]
    pub(crate) arrived: TimeRange,
    #[serde(default)]
    pub(crate) custom: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) sharing: JobSharing,
    #[serde(default)]
    pub(crate) previewed: Option<PreviewedFile>,
}

/// A [`BaseSearch`] as stored with a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseTexts {
    /// The command `search` with the conditions of event types and tags.
    pub search: String,
    /// Its condition in a normal form, in which all ways to write the condition are equal.
    pub condition: String,
}

impl From<BaseSearch> for BaseTexts {
    fn from(base: BaseSearch) -> BaseTexts {
        BaseTexts { search: base.search, condition: base.condition }
    }
}

impl JobOptions {
    /// Record of a job with these options.
    pub(super) fn record(&self, sid: &str, params: &SearchParams, now: TimeNs) -> JobRecord {
        JobRecord {
            sid: sid.to_owned(),
            user: params.permissions.user.clone(),
            app: self.app.clone(),
            search: params.text.clone(),
            expanded: None,
            base: None,
            saved: self.saved.clone().or_else(|| saved_name(&params.text)),
            label: self.label.clone(),
            earliest: params.earliest.clone(),
            latest: params.latest.clone(),
            began_ns: now,
            now_ns: params.now,
            status_buckets: self.status_buckets,
            ttl_s: self.ttl_s.unwrap_or(TTL_S).clamp(0, TTL_MAX_S),
            auto_cancel_s: self.auto_cancel_s,
            time_max_s: bounded_run_time(self.time_max_s, params.permissions.limits.time_s),
            priority: self.priority,
            level: self.level,
            sample_ratio: params.shape.sample,
            events_max: params.shape.events_max.unwrap_or(0),
            skips_lookups: params.shape.skips_lookups,
            is_real_time: self.real_time.is_some(),
            previews: self.previews,
            auto_pause_s: self.auto_pause_s,
            arrived: params.shape.arrived,
            custom: self.custom.clone(),
            sharing: JobSharing::default(),
            previewed: self.previewed.clone(),
        }
    }
}

/// Maximum run time in seconds: as requested, limited by the user's roles (0 is unlimited).
fn bounded_run_time(asked_s: i64, of_roles: Option<u64>) -> i64 {
    let of_roles = of_roles.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
    match (asked_s, of_roles) {
        (0, of_roles) => of_roles.unwrap_or(0),
        (asked, Some(most)) => asked.min(most),
        (asked, None) => asked,
    }
}

impl JobRecord {
    /// Name of the job.
    pub fn sid(&self) -> &str {
        &self.sid
    }

    /// User who created the job.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// App in whose namespace the search runs.
    pub fn app(&self) -> &str {
        &self.app
    }

    /// Text of the search, as it was requested.
    pub fn search(&self) -> &str {
        &self.search
    }

    /// Text of the search with its macros expanded.
    pub fn expanded(&self) -> &str {
        self.expanded.as_deref().unwrap_or(&self.search)
    }

    /// The search for events with which the search begins, with event types and tags expanded; `None` if it begins
    /// otherwise, and for a job of an older version.
    pub fn base(&self) -> Option<&BaseTexts> {
        self.base.as_ref()
    }

    /// Name of the saved search that the job runs; `None` if the job does anything else.
    pub fn saved(&self) -> Option<&str> {
        self.saved.as_deref()
    }

    /// Display name.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Requested start of the time range.
    pub fn earliest(&self) -> Option<&str> {
        self.earliest.as_deref()
    }

    /// Requested end of the time range.
    pub fn latest(&self) -> Option<&str> {
        self.latest.as_deref()
    }

    /// Creation time.
    pub fn began_ns(&self) -> TimeNs {
        self.began_ns
    }

    /// Maximum number of spans of the timeline.
    pub fn status_buckets(&self) -> usize {
        self.status_buckets
    }

    /// Search mode.
    pub fn level(&self) -> SearchLevel {
        self.level
    }

    /// Sampling ratio N: one of N events is read; 1 reads all events.
    pub fn sample_ratio(&self) -> u32 {
        self.sample_ratio.max(1)
    }

    /// Whether the search is a real-time search.
    pub fn is_real_time(&self) -> bool {
        self.is_real_time
    }

    /// Whether the events behind the report are available: in verbose mode, or if the job has a timeline.
    pub fn shows_events(&self) -> bool {
        self.level == SearchLevel::Verbose || self.status_buckets > 0
    }

    /// Priority from 0 to 10, for waiting searches.
    pub fn priority(&self) -> u8 {
        self.priority
    }

    /// Seconds without access after which the job is cancelled; 0 for never.
    pub fn auto_cancel_s(&self) -> i64 {
        self.auto_cancel_s
    }

    /// Seconds without access after which the search pauses; 0 for never.
    pub fn auto_pause_s(&self) -> i64 {
        self.auto_pause_s
    }

    /// Fields that clients have stored with the job.
    pub fn custom(&self) -> &BTreeMap<String, String> {
        &self.custom
    }

    /// The file whose events the job previews; `None` for the job of a search.
    pub fn previewed(&self) -> Option<&PreviewedFile> {
        self.previewed.as_ref()
    }

    /// Other readers and writers of the job.
    pub fn sharing(&self) -> &JobSharing {
        &self.sharing
    }

    /// Whether this job repeats the search of the job `other`: same user, app, text, times, mode, sampling and
    /// timeline, and the same limits and lookups. False for real-time searches.
    pub(super) fn repeats(&self, other: &JobRecord) -> bool {
        let what = |record: &JobRecord| {
            let JobRecord { user, app, search, earliest, latest, now_ns, level, sample_ratio, arrived, .. } = record;
            (
                [user.clone(), app.clone(), search.clone()],
                [earliest.clone(), latest.clone()],
                (*now_ns, *level, *sample_ratio, *arrived, record.status_buckets),
                (record.events_max, record.skips_lookups),
            )
        };
        !self.is_real_time && !other.is_real_time && what(self) == what(other)
    }
}
