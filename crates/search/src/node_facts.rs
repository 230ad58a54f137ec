//! Answers the command `rest`: through the REST interface of the server or, in a search without a server, from the few
//! endpoints listed here, which read the configuration and the store. The REST interface shows some of these entries,
//! too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;
use quarry_apps::LookupFiles;
use quarry_conf::settings::server::ServerSettings;
use quarry_conf::{IndexesConf, Layers, Permissions, RemoteStorage};
use quarry_engine::{
    DeletionRecord, EntriesRequest, JobResult, NodeEntry, NodeSession, NodeSource, SnapshotSource, allowed_indexes,
};
use quarry_event::TimeRange;
use quarry_event::time::strftime;
use quarry_stdx::number::f64_of;
use quarry_stdx::{Fault, SharedClock};
use quarry_store::{BucketCopies, BucketListing, IndexSelector, IndexStats, RemoteStats};
use serde_json::Value;

use crate::dispatch::JobStore;
use crate::rest_connection::RestConnection;
use crate::server_info::{NodeIdentity, server_info};
use crate::setup::RecordDeletion;
use crate::summaries::ModelSummaries;

/// Splunk's format of the times of an index.
const INDEX_TIME_FORMAT: &str = "%Y-%m-%dT%H:%M:%S%z";

/// Endpoints below `/services` that need no server, and the capability each requires in addition to searching.
const ENDPOINTS: [(&str, Option<&str>); 14] = [
    (CACHE_MANAGER, Some("list_introspection")),
    (CACHE_METRICS, Some("list_introspection")),
    ("admin/macros", Some("rest_properties_get")),
    ("admin/summarization", Some("rest_properties_get")),
    ("apps/local", Some("rest_apps_view")),
    ("data/indexes", None),
    ("data/index-volumes", Some("list_introspection")),
    ("data/lookup-table-files", Some("rest_properties_get")),
    ("data/props/extractions", Some("rest_properties_get")),
    ("data/summaries", Some("list_introspection")),
    ("data/transforms/lookups", Some("rest_properties_get")),
    ("datamodel/model", Some("rest_properties_get")),
    ("saved/searches", Some("rest_properties_get")),
    ("server/info", None),
];
/// Splunk's endpoint of the cache manager: one entry for each bucket of an index with a remote volume.
const CACHE_MANAGER: &str = "admin/cacheman";
/// Splunk's endpoint with the totals of the cache manager.
const CACHE_METRICS: &str = "admin/cacheman/_metrics";
/// Fields of `admin/summarization`, and their names in the stored status.
const SUMMARY_FIELDS: [(&str, &str); 13] = [
    ("datamodel", "model"),
    ("object", "object"),
    ("summary.id", "folder"),
    ("summary.complete", "complete"),
    ("summary.buckets", "slabs"),
    ("summary.buckets_done", "slabs_done"),
    ("summary.size", "bytes"),
    ("summary.events", "events"),
    ("summary.rows", "rows"),
    ("summary.earliest_time", "earliest"),
    ("summary.latest_time", "latest"),
    ("summary.mod_time", "updated"),
    ("summary.last_error", "error"),
];
/// Bytes of a megabyte.
const MEGABYTE: u64 = 1 << 20;

/// Data from which `rest` is answered on this node.
pub(crate) struct NodeFacts {
    pub(crate) layers: Layers,
    pub(crate) data_dir: PathBuf,
    /// Name of this machine.
    pub(crate) host: String,
    pub(crate) identity: NodeIdentity,
    /// Lookup files visible to searches.
    pub(crate) files: LookupFiles,
    pub(crate) source: Arc<dyn SnapshotSource>,
    /// Names of the data models of apps.
    pub(crate) models: Vec<String>,
    /// Stored results.
    pub(crate) jobs: Option<Arc<JobStore>>,
    /// Summaries of data models.
    pub(crate) summaries: Arc<ModelSummaries>,
    /// Creates the audit event of a deletion.
    pub(crate) record_deletion: RecordDeletion,
    /// Clock for the times of audit events.
    pub(crate) clock: SharedClock,
    /// The REST interface, for all other endpoints.
    pub(crate) rest: Arc<RestConnection>,
}

/// A field with one value.
pub(crate) fn field(name: &str, value: impl Into<String>) -> (String, Vec<String>) {
    (name.to_owned(), vec![value.into()])
}

impl NodeSource for NodeFacts {
    fn open_session(&self, viewer: &Permissions) -> Option<NodeSession> {
        self.rest.get()?.open_session(viewer)
    }

    fn name(&self) -> String {
        ServerSettings::new(&self.layers).server_name.unwrap_or_else(|| self.host.clone())
    }

    fn record_deletion(&self, viewer: &Permissions, record: &DeletionRecord<'_>) -> Result<(), Fault> {
        self.source.store_events((self.record_deletion)(&viewer.user, record, &self.host, self.clock.now_ns()))
    }

    fn entries(&self, path: &str, viewer: &Permissions) -> Result<Option<Vec<NodeEntry>>, Fault> {
        let path = path.trim_end_matches('/');
        let Some(endpoint) = strip_services(path) else { return Ok(None) };
        let Some((_, capability)) = ENDPOINTS.iter().find(|(known, _)| *known == endpoint) else {
            return Ok(None);
        };
        if let Some(capability) = capability.filter(|capability| !viewer.has_capability(capability)) {
            let user = &viewer.user;
            return Err(Fault::denied(format!(
                "user {user} may not read {path}: it requires the capability {capability}"
            )));
        }
        Ok(Some(match Some(endpoint) {
            Some("server/info") => vec![server_info(&self.host, self.name(), &self.identity)],
            Some("data/indexes") => self.indexes(viewer),
            Some("data/index-volumes") => self.volumes()?,
            Some("data/summaries") => self.model_summaries(),
            Some("saved/searches") => self.stanzas("savedsearches"),
            Some("admin/summarization") => self.summarization(),
            Some("admin/macros") => self.stanzas("macros"),
            Some(CACHE_MANAGER) => self.cached_buckets(viewer)?,
            Some(CACHE_METRICS) => self.source.remote_figures().iter().map(cache_metrics).collect(),
            Some("data/transforms/lookups") => {
                let mut entries = self.stanzas("transforms");
                let is_lookup = |(name, _): &(String, Vec<String>)| {
                    matches!(name.as_str(), "filename" | "external_type" | "external_cmd" | "collection")
                };
                entries.retain(|entry| entry.iter().any(is_lookup));
                entries
            }
            Some("data/props/extractions") => self.extractions(),
            Some("data/lookup-table-files") => {
                let names = self.files.visible_to(viewer).names();
                names.into_iter().map(|name| vec![field("title", name)]).collect()
            }
            Some("datamodel/model") => self.models.iter().map(|name| vec![field("title", name)]).collect(),
            Some("apps/local") => folders(&self.data_dir.join("etc/apps")),
            _ => return Ok(None),
        }))
    }

    fn listed(&self, request: &EntriesRequest<'_>, viewer: &Permissions) -> Result<Option<Vec<NodeEntry>>, Fault> {
        match self.rest.get() {
            Some(rest) => rest.entries(request, viewer),
            None => Ok(self.entries(request.path, viewer)?.map(|entries| request.select(entries))),
        }
    }

    fn job(&self, sid: &str, viewer: &Permissions) -> Result<Option<JobResult>, Fault> {
        self.jobs.as_ref().map_or(Ok(None), |jobs| jobs.load(sid, viewer))
    }

    fn saved_job(&self, name: &str, offset: usize, viewer: &Permissions) -> Option<String> {
        self.jobs.as_ref()?.saved_search_job(name, offset, viewer)
    }

    fn history(&self, viewer: &Permissions) -> Option<Vec<NodeEntry>> {
        self.jobs.as_ref().map(|jobs| jobs.history(viewer))
    }

    fn endpoints(&self) -> Vec<String> {
        match self.rest.get() {
            Some(rest) => rest.endpoints(),
            None => ENDPOINTS.iter().map(|(path, _)| format!("/services/{path}")).collect(),
        }
    }
}

/// The path after `/services` or `/servicesNS/USER/APP`.
fn strip_services(path: &str) -> Option<&str> {
    if let Some(rest) = path.strip_prefix("/servicesNS/") {
        return rest.splitn(3, '/').nth(2);
    }
    path.strip_prefix("/services/")
}

/// Megabytes with three decimals, as in Splunk.
fn megabytes(bytes: u64) -> String {
    format!("{:.3}", f64_of(bytes) / f64_of(MEGABYTE))
}

impl NodeFacts {
    /// Indexes that `viewer` may search and that are configured or contain events.
    fn indexes(&self, viewer: &Permissions) -> Vec<NodeEntry> {
        let allowed = allowed_indexes(viewer);
        let totals: BTreeMap<String, IndexStats> =
            self.source.index_stats().into_iter().map(|stats| (stats.index.clone(), stats)).collect();
        let conf = IndexesConf::new(&self.layers);
        let stanzas = self.layers.conf("indexes");
        let configured = stanzas.stanzas().iter().map(|stanza| stanza.name.clone());
        let is_index = |name: &String| name != "default" && !name.contains(':');
        let names: std::collections::BTreeSet<String> =
            configured.filter(is_index).chain(totals.keys().cloned()).collect();
        let names = names.into_iter().filter(|name| allowed.matches(name));
        let entry = |name: String| {
            let own = totals.get(&name);
            let settings = conf.get(&name).unwrap_or(conf.defaults());
            let stored_bytes = own.map_or(0, |stats| stats.stored_bytes);
            let mut entry = vec![
                field("title", name.clone()),
                field("totalEventCount", own.map_or(0, |stats| stats.events).to_string()),
                field("currentDBSizeMB", stored_bytes.div_ceil(MEGABYTE).to_string()),
                field("disabled", if settings.disabled { "1" } else { "0" }),
                field("frozenTimePeriodInSecs", settings.frozen_time_period_seconds.to_string()),
                field("isInternal", if name.starts_with('_') { "1" } else { "0" }),
                field("total_bucket_count", own.map_or(0, |stats| stats.buckets).to_string()),
                field("total_raw_size", own.map_or(0, |stats| stats.raw_bytes).div_ceil(MEGABYTE).to_string()),
                field("total_size", stored_bytes.div_ceil(MEGABYTE).to_string()),
            ];
            // Both times are empty for an index without events.
            let events = own.filter(|stats| stats.events > 0);
            let time = |time: Option<i64>| {
                time.map_or_else(String::new, |time| strftime(time, INDEX_TIME_FORMAT, &TimeZone::UTC))
            };
            entry.push(field("minTime", time(events.map(|stats| stats.time_min))));
            entry.push(field("maxTime", time(events.map(|stats| stats.time_max))));
            entry
        };
        names.map(entry).collect()
    }

    /// The data directory and the remote volumes, each with its buckets, bytes and events. A bucket with a local and a
    /// remote copy counts for both.
    fn volumes(&self) -> Result<Vec<NodeEntry>, Fault> {
        let storage = RemoteStorage::new(&self.layers)?;
        let entry = |name: String, (buckets, bytes, events): (u64, u64, u64)| {
            vec![
                field("title", name),
                field("max_size", "infinite"),
                field("total_size", megabytes(bytes)),
                field("total_bucket_count", buckets.to_string()),
                field("total_event_count", events.to_string()),
            ]
        };
        let sums = |all: &mut dyn Iterator<Item = (u64, u64, u64)>| {
            all.fold((0, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2))
        };
        let local_name = self.data_dir.join("db").display().to_string();
        if storage.volumes.is_empty() {
            let totals = self.source.index_stats();
            let mut totals = totals.iter().map(|stats| (stats.buckets, stats.stored_bytes, stats.events));
            return Ok(vec![entry(local_name, sums(&mut totals))]);
        }
        let buckets = self.buckets(&IndexSelector::all())?;
        let sums_of = |buckets: Vec<&BucketListing>| {
            sums(&mut buckets.into_iter().map(|bucket| (1, bucket.stored_bytes, bucket.events)))
        };
        let local = buckets.iter().filter(|bucket| bucket.copies != BucketCopies::Remote).collect();
        let mut entries = vec![entry(local_name, sums_of(local))];
        let is_uploaded = |bucket: &&BucketListing| matches!(bucket.copies, BucketCopies::Both | BucketCopies::Remote);
        entries.extend(storage.volumes.keys().map(|name| {
            // After a change of indexes.conf, buckets stay on their volume until they are moved.
            let is_there = |bucket: &&BucketListing| bucket.volume.as_ref() == Some(name);
            entry(name.clone(), sums_of(buckets.iter().filter(is_uploaded).filter(is_there).collect()))
        }));
        Ok(entries)
    }

    /// Disk space of the summaries of each data model.
    fn model_summaries(&self) -> Vec<NodeEntry> {
        let mut models: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for row in self.summaries.status().iter() {
            let Some(name) = row["model"].as_str() else { continue };
            let (bytes, slabs) = models.entry(name.to_owned()).or_default();
            *bytes += row["bytes"].as_u64().unwrap_or(0);
            *slabs += row["slabs_done"].as_u64().unwrap_or(0);
        }
        let entry = |(name, (bytes, slabs)): (String, (u64, u64))| {
            vec![
                field("title", name),
                field("total_size", megabytes(bytes)),
                field("total_bucket_count", slabs.to_string()),
            ]
        };
        models.into_iter().map(entry).collect()
    }

    /// The stanzas of a conf file with their settings.
    fn stanzas(&self, file: &str) -> Vec<NodeEntry> {
        let merged = self.layers.conf(file);
        let named = merged.stanzas().iter().filter(|stanza| stanza.name != "default");
        let entry = |name: &str| {
            let settings = merged.effective(name);
            let own = settings.keys().filter_map(|key| Some(field(key, merged.get(name, key)?)));
            std::iter::once(field("title", name)).chain(own).collect()
        };
        named.map(|stanza| entry(&stanza.name)).collect()
    }

    /// Buckets that `viewer` may search and that are, or will be, on a remote volume.
    fn cached_buckets(&self, viewer: &Permissions) -> Result<Vec<NodeEntry>, Fault> {
        let entry = |bucket: BucketListing| {
            let (stable, status) = match bucket.copies {
                BucketCopies::Local => return None,
                BucketCopies::Uploading => ("0", "local"),
                BucketCopies::Both => ("1", "local"),
                BucketCopies::Remote => ("1", "remote"),
            };
            Some(vec![
                field("title", format!("bid|{}~{}|", bucket.id, self.identity.guid)),
                field("cm:bucket.index", bucket.index),
                field("cm:bucket.stable", stable),
                field("cm:bucket.status", status),
                field("cm:bucket.estimated_size", bucket.stored_bytes.to_string()),
            ])
        };
        Ok(self.buckets(&allowed_indexes(viewer))?.into_iter().filter_map(entry).collect())
    }

    /// The buckets of some indexes; none if events are not stored in buckets. Fails if the catalog cannot be read.
    fn buckets(&self, indexes: &IndexSelector) -> Result<Vec<BucketListing>, Fault> {
        Ok(self.source.buckets(indexes, &TimeRange::ALL)?.unwrap_or_default())
    }

    /// Summaries of accelerated data models as of the last building round, one entry per object.
    fn summarization(&self) -> Vec<NodeEntry> {
        let entry = |row: &Value| {
            let text = |key: &str| match &row[key] {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            };
            let title = format!("{}.{}", text("model").unwrap_or_default(), text("object").unwrap_or_default());
            let named = SUMMARY_FIELDS.iter().filter_map(|(name, key)| Some(field(name, text(key)?)));
            std::iter::once(field("title", title.trim_end_matches('.'))).chain(named).collect()
        };
        self.summaries.status().iter().map(entry).collect()
    }

    /// Extractions of props.conf, one entry each.
    fn extractions(&self) -> Vec<NodeEntry> {
        let merged = self.layers.conf("props");
        let mut entries = Vec::new();
        for stanza in merged.stanzas() {
            for key in merged.effective(&stanza.name).keys() {
                let kind = if key.starts_with("EXTRACT-") { "Inline" } else { "Uses transform" };
                if !key.starts_with("EXTRACT-") && !key.starts_with("REPORT-") {
                    continue;
                }
                let value = merged.get(&stanza.name, key).unwrap_or_default();
                let name = &stanza.name;
                entries.push(vec![
                    field("title", format!("{name} : {key}")),
                    field("stanza", name.as_str()),
                    field("attribute", *key),
                    field("type", kind),
                    field("value", value),
                ]);
            }
        }
        entries
    }
}

/// Totals of the cache manager. As in Splunk, `migration.status` tells whether all buckets are on their remote volumes.
fn cache_metrics(figures: &RemoteStats) -> NodeEntry {
    let RemoteStats { cache, uploads_waiting, copies_bytes, remote_bytes } = figures;
    let numbers = [
        ("cache.bytes", cache.bytes),
        ("cache.bytes_read", cache.bytes_read),
        ("cache.bytes_fetched", cache.bytes_fetched),
        ("cache.bytes_evicted", cache.bytes_evicted),
        ("cache.fetches", cache.fetches),
        ("cache.damaged_blocks", cache.damaged_blocks),
        ("cache.failed_writes", cache.failed_writes),
        ("copies.bytes", *copies_bytes),
        ("remote.bytes", *remote_bytes),
        ("uploads.waiting", *uploads_waiting),
    ];
    let title = CACHE_METRICS.rsplit('/').next().unwrap_or(CACHE_METRICS);
    let status = if *uploads_waiting == 0 { "finished" } else { "running" };
    let numbers = numbers.into_iter().map(|(name, number)| field(name, number.to_string()));
    [field("title", title), field("migration.status", status)].into_iter().chain(numbers).collect()
}

/// Subfolders of a folder, sorted by name.
fn folders(folder: &Path) -> Vec<NodeEntry> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.into_iter().map(|name| vec![field("title", name), field("disabled", "0")]).collect()
}
