//! indexes.conf: the indexes and how long each keeps its events.
//!
//! Paths, volumes and bucket sizes of Splunk change nothing here: the store lays out its own folder.

use std::collections::BTreeMap;

use crate::layers::Layers;
use crate::table::{COUNT, ConfTable, Kind, Row, Section, StanzaName, row};
use crate::text::DEFAULT_STANZA;
use crate::values::Values;

/// What a stanza name starts with that describes a volume of disk.
const VOLUME_PREFIX: &str = "volume:";

/// Settings of indexes.conf.
pub static INDEXES: ConfTable = ConfTable {
    conf: "indexes",
    sections: &[Section { stanza: StanzaName::Any, rows: ROWS }],
    unsupported: &["coldToFrozenDir", "coldToFrozenScript", "maxTotalDataSizeMB", "maxGlobalDataSizeMB", "datatype"],
    unused: &[
        "coldPath",
        "coldPath.maxDataSizeMB",
        "compressRawdata",
        "enableDataIntegrityControl",
        "enableTsidxReduction",
        "homePath",
        "homePath.maxDataSizeMB",
        "journalCompression",
        "maxConcurrentOptimizes",
        "maxDataSize",
        "maxHotBuckets",
        "maxHotIdleSecs",
        "maxHotSpanSecs",
        "maxMemMB",
        "maxVolumeDataSizeMB",
        "maxWarmDBCount",
        "path",
        "quarantineFutureSecs",
        "quarantinePastSecs",
        "remotePath",
        "repFactor",
        "rotatePeriodInSecs",
        "summaryHomePath",
        "syncMeta",
        "thawedPath",
        "timePeriodInSecBeforeTsidxReduction",
        "tsidxWritingLevel",
        "tstatsHomePath",
    ],
};

const ROWS: &[Row] = &[
    row("disabled", Kind::Bool, "false", "", "whether the index takes no events and cannot be searched"),
    row("frozenTimePeriodInSecs", COUNT, "188697600", "seconds", "buckets whose newest event is older are removed"),
];

/// One index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexSettings {
    /// `frozenTimePeriodInSecs`: how long events are kept.
    pub frozen_time_period_seconds: u64,
    /// `disabled`.
    pub disabled: bool,
}

/// All indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexesConf {
    indexes: BTreeMap<String, IndexSettings>,
    defaults: IndexSettings,
}

impl IndexesConf {
    /// Reads indexes.conf.
    pub fn new(layers: &Layers) -> IndexesConf {
        let conf = layers.conf("indexes");
        let read = |stanza: &str| {
            let values = Values::of_stanza(ROWS, conf, stanza);
            IndexSettings {
                frozen_time_period_seconds: values.count("frozenTimePeriodInSecs"),
                disabled: values.bool("disabled"),
            }
        };
        let names = conf.stanzas().iter().map(|stanza| stanza.name.as_str());
        let names = names.filter(|name| *name != DEFAULT_STANZA && !name.starts_with(VOLUME_PREFIX));
        IndexesConf {
            indexes: names.map(|name| (name.to_owned(), read(name))).collect(),
            defaults: read(DEFAULT_STANZA),
        }
    }

    /// An index by name.
    pub fn get(&self, name: &str) -> Option<IndexSettings> {
        self.indexes.get(name).copied()
    }

    /// What `[default]` says: the settings of an index that has no stanza.
    pub fn defaults(&self) -> IndexSettings {
        self.defaults
    }

    /// Name and settings of every index, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, IndexSettings)> {
        self.indexes.iter().map(|(name, settings)| (name.as_str(), *settings))
    }
}

#[cfg(test)]
mod tests {
    use super::IndexesConf;
    use crate::Layers;
    use crate::layers::tests::local;

    #[test]
    fn built_in_and_own_indexes() {
        let own = "[default]\nfrozenTimePeriodInSecs = 86400\n[web]\n[old]\ndisabled = 1\nfrozenTimePeriodInSecs = x\n\
                   [volume:hot]\npath = /x\n";
        let indexes = IndexesConf::new(&Layers::new([local("indexes", own)]));
        assert_eq!(indexes.get("web").unwrap().frozen_time_period_seconds, 86_400);
        assert!(indexes.get("old").unwrap().disabled);
        assert_eq!(indexes.get("old").unwrap().frozen_time_period_seconds, 86_400);
        assert!(!indexes.get("main").unwrap().disabled);
        assert!(indexes.get("volume:hot").is_none());
        assert!(indexes.iter().any(|(name, _)| name == "_internal"));
    }
}
