//! indexes.conf: the indexes and their retention.
//!
//! Splunk's settings of paths and bucket sizes have no effect: the store lays out its own folder. Remote volumes are in
//! [`super::volumes`].

use quarry_stdx::Fault;
use quarry_stdx::number::usize_of;
use std::collections::BTreeMap;

use super::volumes::{HOTLIST, REMOTE_PATH, VOLUME_PREFIX, VOLUME_ROWS};
use crate::layers::{Layers, MergedConf, MergedSetting, MergedStanza};
use crate::table::{ConfTable, Kind, Row, Section, StanzaName, at_least, boolean, count, row, text};
use crate::text::DEFAULT_STANZA;
use crate::values::Values;
use crate::warning::{ConfWarning, Problem};

/// Maximum bytes of an index's name: it becomes part of folder names.
const INDEX_NAME_BYTES_MAX: usize = 200;
/// Number of bytes of an overlong name that a message shows.
const INDEX_NAME_SHOWN_BYTES: usize = 40;

/// Prefix of all merge settings.
const MERGE_PREFIX: &str = "bucketMerg";
const MAX_TOTAL: &str = "maxTotalDataSizeMB";
const MAX_GLOBAL: &str = "maxGlobalDataSizeMB";
const MAX_GLOBAL_RAW: &str = "maxGlobalRawDataSizeMB";
const FROZEN_PERIOD: &str = "frozenTimePeriodInSecs";
const MIN_SIZE: &str = "bucketMerge.minMergeSizeMB";
const MAX_SIZE: &str = "bucketMerge.maxMergeSizeMB";
const MIN_COUNT: &str = "bucketMerge.minMergeCount";
const MAX_COUNT: &str = "bucketMerge.maxMergeCount";
/// Number of buckets per merge: at least two, and limited because all buckets of a merge are open at once.
const MERGE_COUNT: Kind = Kind::Integer { min: 2, max: 1_024 };

/// Settings of indexes.conf.
pub static INDEXES: ConfTable = ConfTable {
    conf: "indexes",
    sections: &[
        Section { stanza: StanzaName::Prefix(VOLUME_PREFIX), rows: VOLUME_ROWS },
        Section { stanza: StanzaName::Any, rows: ROWS },
    ],
    unsupported: &[
        "archiver.coldStorageRetentionPeriod",
        "archiver.enableDataArchive",
        "archiver.maxDataArchiveRetentionPeriod",
        "coldPath.maxDataSizeMB",
        "deleted",
        "federated.dataset",
        "federated.provider",
        "homePath.maxDataSizeMB",
        "isReadOnly",
        "malformedEventIndex",
        "maxVolumeDataSizeMB",
        "maxWarmDBCount",
        "remote.azure.",
        "remote.gs.",
        "remote.s3.bucket_name",
        "remote.s3.cipherSuite",
        "remote.s3.ecdhCurves",
        "remote.s3.encryption.cse.",
        "remote.s3.encryption.sse-",
        "remote.s3.kms.",
        "remote.s3.sslAltNameToCheck",
        "remote.s3.sslCommonNameToCheck",
        "remote.s3.sslVersions",
        "warmToColdScript",
    ],
    unused: &[
        "archiver.coldStorageProvider",
        "archiver.selfStorageBucket",
        "archiver.selfStorageBucketFolder",
        "archiver.selfStorageProvider",
        "assureUTF8",
        "blockSignatureDatabase",
        "blockSignSize",
        "bloomfilterTotalSizeKB",
        "bloomHomePath",
        "bucketRebuildMemoryHint",
        "coldPath",
        "compressRawdata",
        "createBloomfilter",
        "defaultDatabase",
        "disableGlobalMetadata",
        "enableDataIntegrityControl",
        "enableOnlineBucketRepair",
        "enableRealtimeSearch",
        "enableTsidxReduction",
        "fileSystemExecutorWorkers",
        "homePath",
        "hotBucketStreaming.",
        "hotBucketTimeRefreshInterval",
        "hotlist_bloom_filter_recency_hours",
        "indexThreads",
        "inPlaceUpdates",
        "journalCompression",
        "maxBloomBackfillBucketAge",
        "maxBucketSizeCacheEntries",
        "maxConcurrentOptimizes",
        "maxDataSize",
        "maxHotBuckets",
        "maxHotIdleSecs",
        "maxHotSpanSecs",
        "maxMemMB",
        "maxMetaEntries",
        "maxRunningProcessGroups",
        "maxRunningProcessGroupsLowPriority",
        "maxTimeUnreplicatedNoAcks",
        "maxTimeUnreplicatedWithAcks",
        "memPoolMB",
        "metric.",
        "minHotIdleSecsBeforeForceRoll",
        "minRawFileSyncSecs",
        "minStreamGroupQueueSize",
        "partialServiceMetaPeriod",
        "processTrackerServiceInterval",
        "quarantineFutureSecs",
        "quarantinePastSecs",
        "queryLanguageDefinition",
        "rawChunkSizeBytes",
        "rawFileSizeBytes",
        "remote.s3.dhFile",
        "remote.s3.enable_data_integrity_checks",
        "remote.s3.enable_signed_payloads",
        "remote.s3.list_objects_version",
        "remote.s3.max_count.",
        "remote.s3.max_idle_connections",
        "remote.s3.multipart_download.",
        "remote.s3.retry_policy",
        "remote.s3.supports_versioning",
        "remote.s3.timeout.write",
        "remote.s3.tsidx_compression",
        "remote.s3.use_delimiter",
        "repFactor",
        "rotatePeriodInSecs",
        "rtRouterQueueSize",
        "rtRouterThreads",
        "selfStorageThreads",
        "serviceInactiveIndexesPeriod",
        "serviceMetaPeriod",
        "serviceOnlyAsNeeded",
        "serviceSubtaskTimingPeriod",
        "splitByIndexKeys",
        "streamingTargetTsidxSyncPeriodMsec",
        "summaryHomePath",
        "suppressBannerList",
        "suspendHotRollByDeleteQuery",
        "sync",
        "syncMeta",
        "thawedPath",
        "throttleCheckPeriod",
        "timePeriodInSecBeforeTsidxReduction",
        "tsidxDedupPostingsListMaxTermsLimit",
        "tsidxReductionCheckPeriodInSec",
        "tsidxStatsHomePath",
        "tsidxTargetSizeMB",
        "tsidxWritingLevel",
        "tstatsHomePath",
        "waitPeriodInSecsForManifestWrite",
    ],
};

const ROWS: &[Row] = &[
    boolean("bucketMerging", "true", "whether the server merges sealed buckets in the background"),
    count(MIN_SIZE, "0", "MB of text", "minimum size of a merge in the background"),
    row(MAX_SIZE, at_least(1), "2048", "MB of text", "maximum size of a merged bucket"),
    count(
        "bucketMerge.maxMergeTimeSpanSecs",
        "7776000",
        "seconds",
        "maximum time between the first and last event of a merged bucket",
    ),
    row(
        MIN_COUNT,
        MERGE_COUNT,
        "4",
        "buckets",
        "minimum buckets of a merge in the background; on request, two suffice",
    ),
    row(MAX_COUNT, MERGE_COUNT, "1024", "buckets", "maximum buckets of a merge"),
    text(
        "coldToFrozenDir",
        "folder to which a bucket is copied before it is removed; takes precedence over coldToFrozenScript",
    ),
    text("coldToFrozenScript", "program that is run with a bucket's path; exit status 0 allows its removal"),
    row("datatype", Kind::Choice(&["event", "metric"]), "event", "", "intended kind of data; every index accepts both"),
    boolean("disabled", "false", "whether the index accepts no events and cannot be searched"),
    text("lastChanceIndex", "index for events that a rule sends to a missing or disabled index"),
    count(
        "frozenTimePeriodInSecs",
        "188697600",
        "seconds",
        "age of a bucket's newest event at which the bucket is removed",
    ),
    count(
        MAX_TOTAL,
        "500000",
        "MB of objects",
        "size above which the oldest buckets of an index without remotePath are removed; 0: unlimited",
    ),
    count(
        MAX_GLOBAL,
        "0",
        "MB of objects",
        "size above which the oldest buckets of an index with remotePath are removed; 0: unlimited",
    ),
    count(
        MAX_GLOBAL_RAW,
        "0",
        "MB of text",
        "size of the events above which the oldest buckets of an index with remotePath are removed; 0: unlimited",
    ),
    count(HOTLIST, "", "seconds", "local copies of buckets with events younger than this are evicted last"),
    text(REMOTE_PATH, "volume:NAME/PATH to which buckets are uploaded; $_index_name stands for the index"),
];

/// Settings for merging sealed buckets of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeSettings {
    /// `bucketMerging`: whether the server merges buckets in the background.
    pub bucket_merging: bool,
    /// `bucketMerge.minMergeSizeMB`: minimum MB of text for a background merge.
    pub min_merge_size_mb: u64,
    /// `bucketMerge.maxMergeSizeMB`: maximum MB of text in a merged bucket.
    pub max_merge_size_mb: u64,
    /// `bucketMerge.maxMergeTimeSpanSecs`: maximum seconds between the first and last event of a merged bucket.
    pub max_merge_time_span_seconds: u64,
    /// `bucketMerge.minMergeCount`: minimum number of buckets for a background merge.
    pub min_merge_count: usize,
    /// `bucketMerge.maxMergeCount`: maximum number of buckets per merge.
    pub max_merge_count: usize,
}

/// Settings of one index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexSettings {
    /// `frozenTimePeriodInSecs`: how long events are kept.
    pub frozen_time_period_seconds: u64,
    /// Maximum size of the index's objects in MB; 0 is unlimited. As in Splunk, this is `maxGlobalDataSizeMB` for an
    /// index with `remotePath`, and `maxTotalDataSizeMB` for other indexes.
    pub max_data_size_mb: u64,
    /// `maxGlobalRawDataSizeMB`: maximum size of the events of an index with `remotePath`, in MB; 0 is unlimited.
    pub max_raw_data_size_mb: u64,
    /// `coldToFrozenDir`: folder to which a bucket is copied before its removal.
    pub cold_to_frozen_dir: Option<String>,
    /// `coldToFrozenScript`: program that is run with a bucket's path before the bucket is removed.
    pub cold_to_frozen_script: Option<String>,
    /// `disabled`.
    pub disabled: bool,
    /// The settings whose names begin with `bucketMerg`.
    pub merge: MergeSettings,
}

/// All indexes. Settings of an index are read on demand, because there may be thousands of indexes and a command needs
/// only one.
#[derive(Clone, Copy, Debug)]
pub struct IndexesConf<'a> {
    conf: &'a MergedConf,
}

impl<'a> IndexesConf<'a> {
    /// Access to the indexes.conf of these layers.
    pub fn new(layers: &'a Layers) -> IndexesConf<'a> {
        IndexesConf { conf: layers.conf("indexes") }
    }

    /// An index by name.
    pub fn get(&self, name: &str) -> Option<IndexSettings> {
        (is_index(name) && self.conf.stanza(name).is_some()).then(|| self.read(name))
    }

    /// The settings of `[default]`, which apply to indexes without a stanza.
    pub fn defaults(&self) -> IndexSettings {
        self.read(DEFAULT_STANZA)
    }

    /// Names of all indexes, in order of first appearance.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.conf.stanzas().iter().map(|stanza| stanza.name.as_str()).filter(|name| is_index(name))
    }

    /// Indexes with merge or retention settings of their own.
    pub fn own_merges(&self) -> impl Iterator<Item = (&'a str, IndexSettings)> {
        let limits = [MAX_TOTAL, MAX_GLOBAL, REMOTE_PATH, FROZEN_PERIOD];
        let counts = move |key: &String| key.starts_with(MERGE_PREFIX) || limits.contains(&key.as_str());
        let is_own = move |stanza: &&MergedStanza| stanza.settings.keys().any(counts);
        let own = self.conf.stanzas().iter().filter(is_own).map(|stanza| stanza.name.as_str());
        let view = *self;
        own.filter(|name| is_index(name)).map(move |name| (name, view.read(name)))
    }

    fn read(&self, stanza: &str) -> IndexSettings {
        let values = Values::for_stanza(ROWS, self.conf, stanza);
        let mut merge = MergeSettings {
            bucket_merging: values.bool("bucketMerging"),
            min_merge_size_mb: values.count(MIN_SIZE),
            max_merge_size_mb: values.count(MAX_SIZE),
            max_merge_time_span_seconds: values.count("bucketMerge.maxMergeTimeSpanSecs"),
            min_merge_count: values.size(MIN_COUNT),
            max_merge_count: values.size(MAX_COUNT),
        };
        let is_set = |key: &str| self.conf.get(stanza, key).is_some_and(|value| !value.is_empty());
        if !is_set(MIN_COUNT) {
            merge.min_merge_count = merge.min_merge_count.min(merge.max_merge_count);
        }
        // Contradictory values were already reported; here the defaults replace these values.
        if merge.min_merge_size_mb > merge.max_merge_size_mb {
            (merge.min_merge_size_mb, merge.max_merge_size_mb) = (default_of(MIN_SIZE), default_of(MAX_SIZE));
        }
        if merge.min_merge_count > merge.max_merge_count {
            let of = |name| usize_of(default_of(name));
            (merge.min_merge_count, merge.max_merge_count) = (of(MIN_COUNT), of(MAX_COUNT));
        }
        let is_remote = !values.text(REMOTE_PATH).is_empty();
        IndexSettings {
            frozen_time_period_seconds: values.count(FROZEN_PERIOD),
            max_data_size_mb: values.count(if is_remote { MAX_GLOBAL } else { MAX_TOTAL }),
            max_raw_data_size_mb: if is_remote { values.count(MAX_GLOBAL_RAW) } else { 0 },
            cold_to_frozen_dir: values.optional("coldToFrozenDir"),
            cold_to_frozen_script: values.optional("coldToFrozenScript"),
            disabled: values.bool("disabled"),
            merge,
        }
    }
}

/// The index names of indexes.conf, for deciding which indexes accept events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexNames {
    /// Configured indexes; the value is whether the index is disabled.
    configured: BTreeMap<String, bool>,
    last_chance: Option<String>,
    /// Whether the node forwards events instead of storing them.
    is_forwarder: bool,
}

impl IndexNames {
    /// The names of indexes.conf.
    pub fn new(layers: &Layers) -> IndexNames {
        let conf = IndexesConf::new(layers);
        let is_off = |name: &str| conf.get(name).is_some_and(|settings| settings.disabled);
        let configured = conf.names().map(|name| (name.to_owned(), is_off(name))).collect();
        let last_chance = Values::for_stanza(ROWS, conf.conf, DEFAULT_STANZA).optional("lastChanceIndex");
        IndexNames { configured, last_chance, is_forwarder: false }
    }

    /// Returns these names for a forwarder: every valid index name is accepted, because the indexes are on other nodes.
    pub(crate) fn for_forwarder(&self) -> IndexNames {
        IndexNames { is_forwarder: true, ..self.clone() }
    }

    /// Whether events keep the indexer groups that rules set, as a field [`super::index_rules::ROUTING_KEY`].
    pub fn keeps_routing(&self) -> bool {
        self.is_forwarder
    }

    /// `lastChanceIndex`.
    pub fn last_chance(&self) -> Option<&str> {
        self.last_chance.as_deref()
    }

    /// Whether indexes.conf has a stanza for this index.
    pub fn is_configured(&self, index: &str) -> bool {
        self.configured.contains_key(index)
    }

    /// Refuses an invalid name, a disabled index, and an internal index without a stanza. A forwarder accepts every
    /// valid name.
    pub fn check(&self, index: &str) -> Result<(), Fault> {
        check_index_name(index)?;
        match self.configured.get(index) {
            _ if self.is_forwarder => Ok(()),
            Some(true) => Err(Fault::invalid(format!("index {index} is disabled in indexes.conf"))),
            Some(false) => Ok(()),
            None if index.starts_with('_') => Err(Fault::invalid(format!(
                "index {index}: names with a leading _ are internal and need a stanza in indexes.conf"
            ))),
            None => Ok(()),
        }
    }
}

/// Refuses an invalid index name.
fn check_index_name(index: &str) -> Result<(), Fault> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    if index.is_empty() || index.starts_with('-') || !index.bytes().all(is_plain) {
        let shown: String = index.chars().take(INDEX_NAME_BYTES_MAX).flat_map(char::escape_debug).collect();
        return Err(Fault::invalid(format!(
            "index {shown}: a name must consist of lower-case letters, digits, _ and -, and must not begin with -"
        )));
    }
    if index.len() > INDEX_NAME_BYTES_MAX {
        let shown = &index[..INDEX_NAME_SHOWN_BYTES];
        let bytes = index.len();
        return Err(Fault::invalid(format!(
            "index {shown}...: its name has {bytes} bytes; the limit is {INDEX_NAME_BYTES_MAX}"
        )));
    }
    Ok(())
}

pub(super) fn is_index(stanza: &str) -> bool {
    stanza != DEFAULT_STANZA && !stanza.starts_with(VOLUME_PREFIX)
}

fn default_of(name: &str) -> u64 {
    let row = ROWS.iter().find(|row| row.name == name);
    row.and_then(|row| row.default.parse().ok()).unwrap_or(0)
}

/// Reports lower bounds that exceed their upper bounds. A warning names the line of the stanza's own lower bound or,
/// without one, the line of the stanza's own upper bound.
pub(crate) fn check_merged(conf: &MergedConf, warnings: &mut Vec<ConfWarning>) {
    let inherited = |key: &str| conf.stanza(DEFAULT_STANZA).and_then(|stanza| stanza.settings.get(key));
    for stanza in conf.stanzas() {
        for (least, most) in [(MIN_SIZE, MAX_SIZE), (MIN_COUNT, MAX_COUNT)] {
            let own = |key: &str| stanza.settings.get(key);
            let (own_least, own_most) = (own(least), own(most));
            // If the stanza sets neither bound, the contradiction is in [default] and reported there.
            let Some(place) = own_least.or(own_most) else { continue };
            let value = |own: Option<&MergedSetting>, key: &str| -> Option<u64> {
                own.or_else(|| inherited(key)).and_then(|setting| setting.value.parse().ok())
            };
            // A lower bound that is not configured is adjusted silently.
            let Some(lower) = value(own_least, least) else { continue };
            if lower > value(own_most, most).unwrap_or(default_of(most)) {
                let problem = Problem::Contradiction { least, most };
                let (file, line) = (place.file.clone(), place.line);
                warnings.push(ConfWarning { file, line, stanza: stanza.name.clone(), problem });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{INDEX_NAME_BYTES_MAX, IndexNames, IndexesConf, MergeSettings};
    use crate::Layers;
    use crate::layers::tests::local;

    #[test]
    fn built_in_and_configured_indexes_are_read() {
        let own = "[default]\nfrozenTimePeriodInSecs = 86400\n[web]\n[old]\ndisabled = 1\nfrozenTimePeriodInSecs = x\n\
                   [volume:hot]\npath = /x\n";
        let layers = Layers::new([local("indexes", own)]);
        let indexes = IndexesConf::new(&layers);
        assert_eq!(indexes.get("web").unwrap().frozen_time_period_seconds, 86_400);
        assert!(indexes.get("old").unwrap().disabled);
        assert_eq!(indexes.get("old").unwrap().frozen_time_period_seconds, 86_400);
        assert!(!indexes.get("main").unwrap().disabled);
        assert!(indexes.get("volume:hot").is_none() && indexes.get("default").is_none());
        assert!(indexes.names().any(|name| name == "_internal") && indexes.names().all(|name| name != "volume:hot"));
    }

    #[test]
    fn indexes_on_volumes_have_the_limits_of_smartstore() {
        let own = "[default]\nmaxTotalDataSizeMB = 7\nmaxGlobalRawDataSizeMB = 40\n\
                   [web]\nremotePath = volume:far/web\nmaxGlobalDataSizeMB = 30\n\
                   [far]\nremotePath = volume:far/far\n[here]\nmaxGlobalDataSizeMB = 30\n";
        let layers = Layers::new([local("indexes", own)]);
        let of = |name: &str| {
            let settings = IndexesConf::new(&layers).get(name).unwrap();
            (settings.max_data_size_mb, settings.max_raw_data_size_mb)
        };
        assert_eq!((of("web"), of("far"), of("here")), ((30, 40), (0, 40), (7, 0)));
    }

    #[test]
    fn invalid_index_names_are_refused() {
        let names = IndexNames::new(&Layers::new([local("indexes", "[old]\ndisabled = 1\n")]));
        for bad in
            ["", "../../x", "a/b", "a\\b", "..", ".", "a\0b", "a b", "Web", "-a", "größe", "old", "_no_such", "a*"]
        {
            assert!(names.check(bad).is_err(), "{bad:?}");
        }
        for good in ["main", "web_1", "9-a", "_internal", &"x".repeat(INDEX_NAME_BYTES_MAX)] {
            assert_eq!(names.check(good), Ok(()), "{good}");
        }
        let long = names.check(&"x".repeat(INDEX_NAME_BYTES_MAX + 1)).unwrap_err().to_string();
        assert!(long.contains("201 bytes; the limit is 200") && long.len() < 200, "{long}");
        let strange = names.check("a\0\n\u{1b}[31m").unwrap_err().to_string();
        assert!(strange.chars().all(|c| !c.is_control()), "{strange:?}");
    }

    #[test]
    fn merging_is_configured_globally_and_per_index() {
        let defaults = MergeSettings {
            bucket_merging: true,
            min_merge_size_mb: 0,
            max_merge_size_mb: 2_048,
            max_merge_time_span_seconds: 7_776_000,
            min_merge_count: 4,
            max_merge_count: 1_024,
        };
        assert_eq!(IndexesConf::new(&Layers::new([])).defaults().merge, defaults);
        let own = "[default]\nbucketMerge.maxMergeCount = 24\n[web]\n[small]\nbucketMerging = no\n\
                   bucketMerge.minMergeSizeMB = 750\nbucketMerge.maxMergeSizeMB = 1000\n\
                   bucketMerge.maxMergeTimeSpanSecs = 3600\nbucketMerge.minMergeCount = 2\n";
        let layers = Layers::new([local("indexes", own)]);
        assert_eq!(layers.warnings(), []);
        let indexes = IndexesConf::new(&layers);
        assert_eq!(indexes.get("web").unwrap().merge, MergeSettings { max_merge_count: 24, ..defaults });
        let small = MergeSettings {
            bucket_merging: false,
            min_merge_size_mb: 750,
            max_merge_size_mb: 1_000,
            max_merge_time_span_seconds: 3_600,
            min_merge_count: 2,
            max_merge_count: 24,
        };
        let own = |index: &str| indexes.own_merges().find(|(name, _)| *name == index).map(|(_, own)| own.merge);
        assert_eq!((own("small"), own("web")), (Some(small), None));
    }

    #[test]
    fn an_invalid_merge_setting_is_reported_with_its_position_and_falls_back() {
        let merge = |text: &str| {
            let layers = Layers::new([local("indexes", text)]);
            let warnings: Vec<String> = layers.warnings().iter().map(ToString::to_string).collect();
            (IndexesConf::new(&layers).get("web").unwrap().merge, warnings)
        };
        let defaults = merge("[web]\n").0;
        for (setting, allowed) in [
            ("bucketMerging = 2", "true or false"),
            ("bucketMerge.minMergeSizeMB = -1", "a whole number, 0 or more"),
            ("bucketMerge.maxMergeSizeMB = 0", "a whole number, 1 or more"),
            ("bucketMerge.maxMergeTimeSpanSecs = 90d", "a whole number, 0 or more"),
            ("bucketMerge.minMergeCount = 1", "a whole number from 2 to 1024"),
            ("bucketMerge.maxMergeCount = 1025", "a whole number from 2 to 1024"),
        ] {
            let (found, warnings) = merge(&format!("[web]\n{setting}\n"));
            assert_eq!((found, warnings.len()), (defaults, 1), "{warnings:?}");
            assert!(
                warnings[0].contains(&format!("indexes.conf:2: [web] {setting}: expected {allowed}")),
                "{warnings:?}"
            );
        }
        let (found, warnings) = merge("[web]\n\nbucketMerge.minMergeSizeMB = 9\nbucketMerge.maxMergeSizeMB = 8\n");
        assert_eq!(found, defaults);
        assert!(
            warnings[0].contains("indexes.conf:3: [web] bucketMerge.minMergeSizeMB is larger than"),
            "{warnings:?}"
        );
        let (found, warnings) = merge("[web]\nbucketMerge.maxMergeCount = 3\n");
        assert_eq!(
            (found.min_merge_count, found.max_merge_count, warnings.len()),
            (3, 3, 0),
            "the minimum is not configured"
        );
        let inherited = "[default]\nbucketMerge.maxMergeCount = 8\n[web]\nbucketMerge.minMergeCount = 9\n[other]\n";
        let (found, warnings) = merge(inherited);
        assert_eq!((found, warnings.len()), (defaults, 1), "{warnings:?}");
        assert!(warnings[0].contains("indexes.conf:4: [web] bucketMerge.minMergeCount is larger than"), "{warnings:?}");
    }

    #[test]
    fn thousands_of_indexes_are_read_one_by_one() {
        let text: String = (0..20_000).map(|at| format!("[i{at}]\nfrozenTimePeriodInSecs = {at}\n")).collect();
        let layers = Layers::new([local("indexes", &text)]);
        let indexes = IndexesConf::new(&layers);
        assert_eq!(indexes.get("i19999").unwrap().frozen_time_period_seconds, 19_999);
        assert!(indexes.get("i20000").is_none());
        assert_eq!(indexes.own_merges().filter(|(name, _)| name.starts_with('i')).count(), 20_000);
    }
}
