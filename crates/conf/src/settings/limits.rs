//! limits.conf: the bounds of searches.

use crate::layers::Layers;
use crate::table::{COUNT, ConfTable, Section, StanzaName, row};
use crate::values::{Values, rows_of};

/// Settings of limits.conf. Splunk has hundreds more, about parts that do not exist here; they raise no warning when
/// their stanza is none of these.
pub static LIMITS: ConfTable = ConfTable {
    conf: "limits",
    sections: SECTIONS,
    unsupported: &["ttl", "max_searches_per_cpu", "base_max_searches", "maxopenevents", "maxopentxn"],
    unused: &["avg_extractor_time", "max_extractor_time", "max_rawsize_perchunk", "maxfiles", "indexed_kv_limit"],
};

const SECTIONS: &[Section] = &[
    Section {
        stanza: StanzaName::Named("search"),
        rows: &[row("max_mem_usage_mb", COUNT, "1024", "megabytes", "memory one search may take")],
    },
    Section {
        stanza: StanzaName::Named("searchresults"),
        rows: &[row("maxresultrows", COUNT, "50000", "rows", "most rows a command keeps that does not say")],
    },
    Section {
        stanza: StanzaName::Named("subsearch"),
        rows: &[
            row("maxout", COUNT, "10000", "rows", "most rows a subsearch gives back"),
            row("maxtime", COUNT, "60", "seconds", "longest a subsearch runs"),
        ],
    },
    Section {
        stanza: StanzaName::Named("join"),
        rows: &[
            row("subsearch_maxout", COUNT, "50000", "rows", "most rows of the right side of a join"),
            row("subsearch_maxtime", COUNT, "60", "seconds", "longest the right side of a join runs"),
        ],
    },
    Section {
        stanza: StanzaName::Named("kv"),
        rows: &[
            row("limit", COUNT, "100", "fields", "most fields automatic extraction finds in one event; 0: all"),
            row(
                "maxchars",
                COUNT,
                "10240",
                "bytes",
                "how far into an event automatic extraction looks; 0: all the way",
            ),
            row("maxcols", COUNT, "512", "fields", "most fields of an event in a table"),
        ],
    },
    Section {
        stanza: StanzaName::Named("spath"),
        rows: &[row("extraction_cutoff", COUNT, "5000", "bytes", "how far into an event spath looks")],
    },
    Section {
        stanza: StanzaName::Named("stats"),
        rows: &[
            row("maxvalues", COUNT, "0", "values", "most values of values(x); 0: all"),
            row("list_maxsize", COUNT, "100", "values", "most values of list(x)"),
        ],
    },
    Section {
        stanza: StanzaName::Named("top"),
        rows: &[row("maxresultrows", COUNT, "50000", "rows", "most rows of top and rare")],
    },
    Section {
        stanza: StanzaName::Named("mvexpand"),
        rows: &[row("max_mem_usage_mb", COUNT, "500", "megabytes", "memory mvexpand may take")],
    },
];

/// The bounds in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// `[search] max_mem_usage_mb`.
    pub search_max_mem_mb: u64,
    /// `[searchresults] maxresultrows`.
    pub max_result_rows: u64,
    /// `[subsearch] maxout`.
    pub subsearch_max_rows: u64,
    /// `[subsearch] maxtime`.
    pub subsearch_max_seconds: u64,
    /// `[join] subsearch_maxout`.
    pub join_max_rows: u64,
    /// `[join] subsearch_maxtime`.
    pub join_max_seconds: u64,
    /// `[kv] limit`; 0 is no bound.
    pub kv_max_fields: u64,
    /// `[kv] maxchars`; 0 is no bound.
    pub kv_max_bytes: u64,
    /// `[kv] maxcols`.
    pub kv_max_columns: u64,
    /// `[spath] extraction_cutoff`.
    pub spath_max_bytes: u64,
    /// `[stats] maxvalues`; 0 is no bound.
    pub stats_max_values: u64,
    /// `[stats] list_maxsize`.
    pub stats_list_max_values: u64,
    /// `[top] maxresultrows`.
    pub top_max_rows: u64,
    /// `[mvexpand] max_mem_usage_mb`.
    pub mvexpand_max_mem_mb: u64,
}

impl LimitSettings {
    /// Reads limits.conf.
    pub fn new(layers: &Layers) -> LimitSettings {
        let conf = layers.conf("limits");
        let count = |stanza, key| Values::of_stanza(rows_of(SECTIONS, stanza), conf, stanza).count(key);
        LimitSettings {
            search_max_mem_mb: count("search", "max_mem_usage_mb"),
            max_result_rows: count("searchresults", "maxresultrows"),
            subsearch_max_rows: count("subsearch", "maxout"),
            subsearch_max_seconds: count("subsearch", "maxtime"),
            join_max_rows: count("join", "subsearch_maxout"),
            join_max_seconds: count("join", "subsearch_maxtime"),
            kv_max_fields: count("kv", "limit"),
            kv_max_bytes: count("kv", "maxchars"),
            kv_max_columns: count("kv", "maxcols"),
            spath_max_bytes: count("spath", "extraction_cutoff"),
            stats_max_values: count("stats", "maxvalues"),
            stats_list_max_values: count("stats", "list_maxsize"),
            top_max_rows: count("top", "maxresultrows"),
            mvexpand_max_mem_mb: count("mvexpand", "max_mem_usage_mb"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LimitSettings;
    use crate::Layers;
    use crate::layers::tests::local;

    #[test]
    fn bounds_as_set_and_as_built_in() {
        let own = "[subsearch]\nmaxout = 7\nmaxtime = soon\n[stats]\nlist_maxsize = 3\n";
        let limits = LimitSettings::new(&Layers::new([local("limits", own)]));
        assert_eq!((limits.subsearch_max_rows, limits.subsearch_max_seconds), (7, 60));
        assert_eq!((limits.stats_list_max_values, limits.join_max_rows), (3, 50_000));
        assert_eq!((limits.search_max_mem_mb, limits.mvexpand_max_mem_mb), (1024, 500));
    }

    #[test]
    fn built_in_file_and_table_agree() {
        let bare = LimitSettings::new(&Layers::without_builtin([]));
        assert_eq!(LimitSettings::new(&Layers::new([])), bare);
    }
}
