//! limits.conf: limits on searches.

use crate::layers::Layers;
use crate::table::{ConfTable, Kind, Section, StanzaName, count, row, text};
use crate::values::{Values, rows_of};

/// Settings of limits.conf. Some of Splunk's other limits are constants here, defined where they are used; a file that
/// sets such a limit causes a warning. Hundreds of further limits concern features that do not exist here; these limits
/// are ignored silently.
pub static LIMITS: ConfTable = ConfTable {
    conf: "limits",
    sections: SECTIONS,
    unsupported: &[
        "extraction_cutoff",
        "limit",
        "list_maxsize",
        "[mvexpand] max_mem_usage_mb",
        "maxchars",
        "maxcols",
        "maxresultrows",
        "maxvalues",
        "perc_digest_type",
        "ttl",
    ],
    unused: &["avg_extractor_time", "max_extractor_time", "max_rawsize_perchunk", "maxfiles"],
};

/// Upper bound on the rows of a subsearch that become conditions, whatever is configured.
const SUBSEARCH_ROWS_MAX: usize = 50_000;
/// Upper bound on concurrent searches, whatever is configured.
const CONCURRENT_SEARCHES_MAX: usize = 1_024;

const SECTIONS: &[Section] = &[
    Section {
        stanza: StanzaName::Named("search"),
        rows: &[
            count(
                "base_max_searches",
                "62",
                "searches",
                "concurrent searches, in addition to max_searches_per_cpu for each core",
            ),
            count(
                "max_searches_per_cpu",
                "1",
                "searches",
                "concurrent searches for each core, in addition to base_max_searches",
            ),
            count(
                "max_rt_search_multiplier",
                "1",
                "times",
                "concurrent real-time searches, as a multiple of the limit for other searches; 0: none",
            ),
            count("max_mem_usage_mb", "1024", "megabytes", "memory that grouping and sorting may take"),
            count(
                "partial_state_cache_mb",
                "128",
                "megabytes",
                "memory for cached partial results of repeated searches over sealed data; 0: no cache",
            ),
        ],
    },
    Section {
        stanza: StanzaName::Named("http_input"),
        rows: &[count(
            "max_content_length",
            "134217728",
            "bytes",
            "maximum decompressed body sent to the HTTP Event Collector",
        )],
    },
    Section { stanza: StanzaName::Named("searchresults"), rows: &[] },
    Section {
        stanza: StanzaName::Named("subsearch"),
        rows: &[
            count("maxout", "10000", "rows", "maximum rows of a subsearch that become conditions; at most 50000"),
            count("maxtime", "60", "seconds", "run time after which a subsearch ends with its rows so far; 0: none"),
        ],
    },
    Section {
        stanza: StanzaName::Named("join"),
        rows: &[
            count("subsearch_maxout", "50000", "rows", "maximum rows of the subsearch of `join`"),
            count(
                "subsearch_maxtime",
                "60",
                "seconds",
                "run time after which the subsearch of `join` ends with its rows so far; 0: none",
            ),
        ],
    },
    Section {
        stanza: StanzaName::Named("kv"),
        rows: &[count("indexed_kv_limit", "200", "fields", "maximum indexed fields of an event; 0: unlimited")],
    },
    Section {
        stanza: StanzaName::Named("kvstore"),
        rows: &[
            count("max_accelerations_per_collection", "10", "accelerations", "maximum accelerations of a collection"),
            count("max_documents_per_batch_save", "1000", "documents", "maximum documents of a batch_save"),
            count("max_fields_per_acceleration", "10", "fields", "maximum fields of an acceleration"),
            count("max_queries_per_batch", "1000", "queries", "maximum queries of a batch_find"),
            count("max_rows_per_query", "50000", "documents", "maximum documents that a query returns"),
            count("max_size_per_batch_result_mb", "100", "megabytes", "maximum size of the answer to a batch_find"),
            count("max_size_per_batch_save_mb", "50", "megabytes", "maximum size of a batch_save"),
            count("max_size_per_result_mb", "50", "megabytes", "maximum size of the answer to a query"),
        ],
    },
    Section { stanza: StanzaName::Named("spath"), rows: &[] },
    Section {
        stanza: StanzaName::Named("stats"),
        rows: &[row(
            "perc_method",
            Kind::Choice(&["nearest-rank", "interpolated"]),
            "nearest-rank",
            "",
            "how percentiles are computed: nearest rank, or interpolated",
        )],
    },
    Section {
        stanza: StanzaName::Named("iplocation"),
        rows: &[text("db_path", "database of IP locations (.mmdb); default: a file in `share` of the data directory")],
    },
    Section { stanza: StanzaName::Named("top"), rows: &[] },
    Section { stanza: StanzaName::Named("mvexpand"), rows: &[] },
    Section {
        stanza: StanzaName::Named("transactions"),
        rows: &[
            count("maxopentxn", "5000", "transactions", "maximum open transactions of a `transaction` command"),
            count(
                "maxopenevents",
                "100000",
                "events",
                "maximum events in the open transactions of a `transaction` command",
            ),
        ],
    },
];

/// The effective limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// `[search] max_mem_usage_mb`.
    pub search_max_mem_mb: u64,
    /// `[search] base_max_searches`.
    pub searches_base: usize,
    /// `[search] max_searches_per_cpu`.
    pub searches_per_cpu: usize,
    /// `[search] max_rt_search_multiplier`.
    pub real_time_multiplier: usize,
    /// `[search] partial_state_cache_mb`.
    pub partial_state_cache_mb: u64,
    /// `[http_input] max_content_length`.
    pub http_body_bytes: u64,
    /// `[kv] indexed_kv_limit`.
    pub indexed_fields_max: usize,
    /// `[transactions] maxopentxn`.
    pub open_transactions: usize,
    /// `[transactions] maxopenevents`.
    pub open_transaction_events: usize,
    /// `[subsearch] maxout` and `maxtime` (seconds).
    pub subsearch: (usize, u64),
    /// `[join] subsearch_maxout` and `subsearch_maxtime` (seconds).
    pub join_subsearch: (usize, u64),
    /// `[stats] perc_method = interpolated` instead of `nearest-rank`.
    pub percentiles_interpolated: bool,
    /// `[iplocation] db_path`.
    pub address_database: Option<String>,
    /// `[kvstore]`.
    pub collections: CollectionLimits,
}

/// Limits on collections (the KV store).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectionLimits {
    /// `max_accelerations_per_collection`.
    pub accelerations: usize,
    /// `max_documents_per_batch_save`.
    pub documents_per_save: usize,
    /// `max_fields_per_acceleration`.
    pub fields_per_acceleration: usize,
    /// `max_queries_per_batch`.
    pub queries_per_batch: usize,
    /// `max_rows_per_query`.
    pub documents_per_query: usize,
    /// `max_size_per_batch_result_mb`, in bytes.
    pub batch_result_bytes: usize,
    /// `max_size_per_batch_save_mb`, in bytes.
    pub save_bytes: usize,
    /// `max_size_per_result_mb`, in bytes.
    pub result_bytes: usize,
}

impl LimitSettings {
    /// Reads limits.conf.
    pub fn new(layers: &Layers) -> LimitSettings {
        let conf = layers.conf("limits");
        let count = |stanza, key| Values::for_stanza(rows_of(SECTIONS, stanza), conf, stanza).count(key);
        let size = |stanza, key| usize::try_from(count(stanza, key)).unwrap_or(usize::MAX);
        LimitSettings {
            search_max_mem_mb: count("search", "max_mem_usage_mb"),
            searches_base: size("search", "base_max_searches"),
            searches_per_cpu: size("search", "max_searches_per_cpu"),
            real_time_multiplier: size("search", "max_rt_search_multiplier"),
            partial_state_cache_mb: count("search", "partial_state_cache_mb"),
            http_body_bytes: count("http_input", "max_content_length"),
            indexed_fields_max: match count("kv", "indexed_kv_limit") {
                0 => usize::MAX,
                fields => usize::try_from(fields).unwrap_or(usize::MAX),
            },
            open_transactions: size("transactions", "maxopentxn"),
            open_transaction_events: size("transactions", "maxopenevents"),
            subsearch: (size("subsearch", "maxout").min(SUBSEARCH_ROWS_MAX), count("subsearch", "maxtime")),
            join_subsearch: (size("join", "subsearch_maxout"), count("join", "subsearch_maxtime")),
            percentiles_interpolated: Values::for_stanza(rows_of(SECTIONS, "stats"), conf, "stats")
                .text("perc_method")
                .eq_ignore_ascii_case("interpolated"),
            address_database: Values::for_stanza(rows_of(SECTIONS, "iplocation"), conf, "iplocation")
                .optional("db_path"),
            collections: {
                let size = |key| size("kvstore", key);
                let bytes = |key| size(key).saturating_mul(1 << 20);
                CollectionLimits {
                    accelerations: size("max_accelerations_per_collection"),
                    documents_per_save: size("max_documents_per_batch_save"),
                    fields_per_acceleration: size("max_fields_per_acceleration"),
                    queries_per_batch: size("max_queries_per_batch"),
                    documents_per_query: size("max_rows_per_query"),
                    batch_result_bytes: bytes("max_size_per_batch_result_mb"),
                    save_bytes: bytes("max_size_per_batch_save_mb"),
                    result_bytes: bytes("max_size_per_result_mb"),
                }
            },
        }
    }

    /// Maximum number of concurrent searches on a machine with this many cores, by Splunk's formula. Each search takes
    /// a thread.
    pub fn concurrent_searches_max(&self, cpus: usize) -> usize {
        let of_cpus = self.searches_per_cpu.saturating_mul(cpus);
        of_cpus.saturating_add(self.searches_base).clamp(1, CONCURRENT_SEARCHES_MAX)
    }

    /// Maximum concurrent real-time searches, by Splunk's formula; counted separately from other searches.
    pub fn concurrent_real_time_max(&self, cpus: usize) -> usize {
        self.real_time_multiplier.saturating_mul(self.concurrent_searches_max(cpus)).min(CONCURRENT_SEARCHES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::{CollectionLimits, LimitSettings};
    use crate::Layers;
    use crate::layers::tests::local;

    #[test]
    fn concurrent_searches_depend_on_the_cores() {
        let of =
            |text: &str, cpus| LimitSettings::new(&Layers::new([local("limits", text)])).concurrent_searches_max(cpus);
        assert_eq!((of("", 2), of("", 16)), (64, 78));
        let set = "[search]\nbase_max_searches = 6\nmax_searches_per_cpu = 2\n";
        assert_eq!((of(set, 4), of("[search]\nbase_max_searches = 0\nmax_searches_per_cpu = 0\n", 4)), (14, 1));
        let real_time =
            |text: &str| LimitSettings::new(&Layers::new([local("limits", text)])).concurrent_real_time_max(4);
        let few = "[search]\nbase_max_searches = 6\nmax_rt_search_multiplier = 2\n";
        assert_eq!((real_time(few), real_time("[search]\nmax_rt_search_multiplier = 0\n")), (20, 0));
    }

    #[test]
    fn limits_are_configured_or_default() {
        let own = "[search]\nmax_mem_usage_mb = 7\npartial_state_cache_mb = 0\n[stats]\nlist_maxsize = 3\n[mvexpand]\nmax_mem_usage_mb = 1\n[http_input]\nmax_content_length = 9\n";
        let layers = Layers::new([local("limits", own)]);
        let collections = CollectionLimits {
            accelerations: 10,
            documents_per_save: 1_000,
            fields_per_acceleration: 10,
            queries_per_batch: 1_000,
            documents_per_query: 50_000,
            batch_result_bytes: 100 << 20,
            save_bytes: 50 << 20,
            result_bytes: 50 << 20,
        };
        let bounds = |search_max_mem_mb, partial_state_cache_mb, http_body_bytes| LimitSettings {
            searches_base: 62,
            searches_per_cpu: 1,
            real_time_multiplier: 1,
            search_max_mem_mb,
            partial_state_cache_mb,
            http_body_bytes,
            indexed_fields_max: 200,
            open_transactions: 5_000,
            open_transaction_events: 100_000,
            subsearch: (10_000, 60),
            join_subsearch: (50_000, 60),
            percentiles_interpolated: false,
            address_database: None,
            collections,
        };
        assert_eq!(LimitSettings::new(&layers), bounds(7, 0, 9));
        assert_eq!(LimitSettings::new(&Layers::new([])), bounds(1024, 128, 128 << 20));
        let own = "[subsearch]\nmaxout = 70000\nmaxtime = 5\n[join]\nsubsearch_maxout = 7\nsubsearch_maxtime = 0\n";
        let layers_of_subsearches = Layers::new([local("limits", own)]);
        let set = LimitSettings::new(&layers_of_subsearches);
        assert_eq!((set.subsearch, set.join_subsearch), ((50_000, 5), (7, 0)));
        assert!(layers_of_subsearches.warnings().is_empty());
        let own = "[transactions]\nmaxopentxn = 2\nmaxopenevents = 9\n[stats]\nperc_method = interpolated\n[iplocation]\ndb_path = share/places.mmdb\n";
        let layers_of_transactions = Layers::new([local("limits", own)]);
        let set = LimitSettings::new(&layers_of_transactions);
        assert_eq!((set.open_transactions, set.open_transaction_events), (2, 9));
        assert!(set.percentiles_interpolated);
        assert_eq!(set.address_database.as_deref(), Some("share/places.mmdb"));
        assert!(layers_of_transactions.warnings().is_empty());
        let warnings: Vec<String> = layers.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings.iter().all(|warning| warning.ends_with("is not supported; it has no effect")), "{warnings:?}");
    }

    #[test]
    fn built_in_file_and_table_agree() {
        let bare = LimitSettings::new(&Layers::without_builtin([]));
        assert_eq!(LimitSettings::new(&Layers::new([])), bare);
    }
}
