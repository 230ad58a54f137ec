//! datamodels.conf: the accelerated data models and the time ranges of their summaries.
//!
//! Not here: when the server builds summaries and the resources they may use.

use crate::layers::{Layers, MergedStanza};
use crate::table::{ConfTable, Row, Section, StanzaName, at_least, boolean, row, text};
use crate::values::Values;

/// Settings of datamodels.conf. `acceleration.allow_old_summaries` and `acceleration.manual_rebuilds` are unsupported:
/// summaries of an older definition are never read, and missing summaries are always built.
pub static DATAMODELS: ConfTable = ConfTable {
    conf: "datamodels",
    sections: &[Section { stanza: StanzaName::Any, rows: ROWS }],
    unsupported: &[
        "acceleration.allow_old_summaries",
        "acceleration.manual_rebuilds",
        "acceleration.source_guid",
        "acceleration.hunk.compression_codec",
        "acceleration.hunk.dfs_block_size",
        "acceleration.hunk.file_format",
    ],
    unused: &[
        "acceleration.allow_skew",
        "acceleration.cron_schedule",
        "acceleration.max_concurrent",
        "acceleration.poll_buckets_until_maxtime",
        "acceleration.schedule_priority",
        "acceleration.workload_pool",
        "dataset.commands",
        "dataset.description",
        "dataset.display.diversity",
        "dataset.display.currentCommand",
        "dataset.display.limiting",
        "dataset.display.mode",
        "dataset.display.sample_ratio",
        "dataset.fields",
        "dataset.type",
        "strict_fields",
        "tags_whitelist",
    ],
};

const ROWS: &[Row] = &[
    boolean("acceleration", "false", "whether summaries of the model are built and read"),
    text("acceleration.earliest_time", "start of the summarised time range, as in -1mon; empty: all"),
    text(
        "acceleration.backfill_time",
        "start of the time range for which missing summaries are built, if later than earliest_time; existing ones stay",
    ),
    row(
        "acceleration.max_time",
        at_least(0),
        "3600",
        "seconds",
        "maximum time spent on a model in one round; 0: no limit",
    ),
];

/// Acceleration of a data model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccelerationSettings {
    /// `acceleration.earliest_time`, as written.
    pub earliest_time: Option<String>,
    /// `acceleration.backfill_time`, as written.
    pub backfill_time: Option<String>,
    /// `acceleration.max_time` in seconds; `None` is unlimited.
    pub max_time_seconds: Option<u64>,
}

/// The models of datamodels.conf.
#[derive(Clone, Copy, Debug)]
pub struct DataModelsConf<'a>(&'a Layers);

impl<'a> DataModelsConf<'a> {
    /// The data models defined in these files.
    pub fn new(layers: &'a Layers) -> DataModelsConf<'a> {
        DataModelsConf(layers)
    }

    /// Acceleration of a data model; `None` if it is not accelerated.
    pub fn acceleration(&self, model: &str) -> Option<AccelerationSettings> {
        let conf = self.0.conf("datamodels");
        conf.stanza(model)?;
        let values = Values::for_stanza(ROWS, conf, model);
        if !values.bool("acceleration") {
            return None;
        }
        Some(AccelerationSettings {
            earliest_time: values.optional("acceleration.earliest_time"),
            backfill_time: values.optional("acceleration.backfill_time"),
            max_time_seconds: Some(values.count("acceleration.max_time")).filter(|seconds| *seconds > 0),
        })
    }

    /// Names of the accelerated data models.
    pub fn accelerated(&self) -> Vec<String> {
        let named = |stanza: &&MergedStanza| stanza.name != crate::text::DEFAULT_STANZA;
        let names = self.0.conf("datamodels").stanzas().iter().filter(named).map(|stanza| stanza.name.clone());
        names.filter(|name| self.acceleration(name).is_some()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{AccelerationSettings, DataModelsConf};
    use crate::Layers;
    use crate::layers::tests::local;

    #[test]
    fn only_configured_models_are_accelerated() {
        let text = "[Web]\nacceleration = true\nacceleration.earliest_time = -1mon\nacceleration.max_time = 0\n\
                    acceleration.cron_schedule = */5 * * * *\n[Email]\nacceleration = 0\n[Risk]\n";
        let layers = Layers::new([local("datamodels", text)]);
        assert!(layers.warnings().is_empty(), "{:?}", layers.warnings());
        let conf = DataModelsConf::new(&layers);
        assert_eq!(conf.accelerated(), ["Web"]);
        let web = AccelerationSettings { earliest_time: Some("-1mon".to_owned()), ..AccelerationSettings::default() };
        assert_eq!(conf.acceleration("Web"), Some(web));
        assert_eq!((conf.acceleration("Email"), conf.acceleration("None")), (None, None));
    }

    #[test]
    fn settings_without_effect_are_reported() {
        let text = "[Web]\nacceleration = yes\nacceleration.manual_rebuilds = true\nacceleration.max_tyme = 5\n";
        let layers = Layers::new([local("datamodels", text)]);
        let warnings: Vec<String> = layers.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("acceleration.manual_rebuilds"), "{warnings:?}");
        assert!(warnings[1].contains("acceleration.max_time"), "{warnings:?}");
        assert_eq!(DataModelsConf::new(&layers).acceleration("Web").and_then(|web| web.max_time_seconds), Some(3_600));
    }
}
