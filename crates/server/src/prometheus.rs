//! The node's metrics in the text format of Prometheus.
//!
//! Counters start at zero with the process. Not here: throughput by host, source and sourcetype, which have too many
//! values for labels; it is in the index `_internal`.

use std::fmt::Display;

use quarry_api::NodeCondition;
use quarry_event::time::NS_PER_SEC;
use quarry_stdx::number::f64_of;
use quarry_store::{IndexStats, QueueStats, RemoteStats, Store};

/// Maximum number of indexes listed, those with the most bytes first.
const INDEXES_MAX: usize = 1_000;

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

/// Formats the metrics of a node.
pub(crate) fn page(store: &Store, condition: &NodeCondition) -> String {
    let mut page = Page::default();
    page.node(condition);
    page.queues(&store.queue_stats());
    page.indexes(store.stats());
    if let Some(figures) = store.remote_stats() {
        page.remote(&figures);
    }
    page.0
}

/// The page as written so far.
#[derive(Default)]
struct Page(String);

impl Page {
    /// Adds a metric with its samples; a sample has labels in braces, or an empty text, and a value.
    fn metric<V: Display>(
        &mut self,
        kind: Kind,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (String, V)>,
    ) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        self.0.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        for (labels, value) in samples {
            self.0.push_str(&format!("{name}{labels} {value}\n"));
        }
    }

    fn one(&mut self, kind: Kind, name: &str, help: &str, value: impl Display) {
        self.metric(kind, name, help, [(String::new(), value)]);
    }

    fn node(&mut self, condition: &NodeCondition) {
        let NodeCondition { started, process_bytes, disk, disk_free_min, faults, .. } = condition;
        let version = format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
        self.metric(Kind::Gauge, "quarry_build_info", "Version of the node.", [(version, 1)]);
        let started = f64_of(*started) / f64_of(NS_PER_SEC);
        self.one(
            Kind::Gauge,
            "process_start_time_seconds",
            "Start time of the process, in seconds since 1970.",
            started,
        );
        self.one(Kind::Gauge, "process_resident_memory_bytes", "Resident memory of the process.", process_bytes);
        self.one(Kind::Gauge, "quarry_disk_bytes", "Size of the data directory's file system.", disk.all);
        self.one(Kind::Gauge, "quarry_disk_free_bytes", "Free space of the data directory's file system.", disk.free);
        let help = "Free space below which events are refused.";
        self.one(Kind::Gauge, "quarry_disk_free_min_bytes", help, disk_free_min);
        self.one(Kind::Gauge, "quarry_background_faults", "Messages about failures in the background.", faults.len());
    }

    fn queues(&mut self, queues: &[QueueStats]) {
        let samples = |of: fn(&QueueStats) -> usize| -> Vec<(String, usize)> {
            queues.iter().enumerate().map(|(set, queue)| (label("ingest_pipe", &set.to_string()), of(queue))).collect()
        };
        let help = "Bytes waiting for the write-ahead log.";
        self.metric(Kind::Gauge, "quarry_queue_bytes", help, samples(|queue| queue.bytes));
        let help = "Maximum of queued bytes, beyond which appends wait.";
        self.metric(Kind::Gauge, "quarry_queue_max_bytes", help, samples(|queue| queue.bytes_max));
        let help = "Appends waiting for the write-ahead log.";
        self.metric(Kind::Gauge, "quarry_queue_appends", help, samples(|queue| queue.appends));
    }

    fn indexes(&mut self, mut indexes: Vec<IndexStats>) {
        indexes.sort_by(|a, b| b.raw_bytes.cmp(&a.raw_bytes).then_with(|| a.index.cmp(&b.index)));
        indexes.truncate(INDEXES_MAX);
        let samples = |of: fn(&IndexStats) -> u64| -> Vec<(String, u64)> {
            indexes.iter().map(|stats| (label("index", &stats.index), of(stats))).collect()
        };
        self.metric(Kind::Gauge, "quarry_index_events", "Events of an index.", samples(|stats| stats.events));
        self.metric(Kind::Gauge, "quarry_index_buckets", "Buckets of an index.", samples(|stats| stats.buckets));
        let help = "Bytes of the text of an index.";
        self.metric(Kind::Gauge, "quarry_index_raw_bytes", help, samples(|stats| stats.raw_bytes));
        let help = "Bytes of the buckets of an index, wherever they are.";
        self.metric(Kind::Gauge, "quarry_index_stored_bytes", help, samples(|stats| stats.stored_bytes));
    }

    fn remote(&mut self, figures: &RemoteStats) {
        let RemoteStats { cache, uploads_waiting, copies_bytes, remote_bytes } = figures;
        for (kind, name, help, value) in [
            (Kind::Gauge, "cache_bytes", "Size of the cache of blocks.", cache.bytes),
            (Kind::Counter, "cache_read_bytes_total", "Bytes read from the cache of blocks.", cache.bytes_read),
            (
                Kind::Counter,
                "cache_evicted_bytes_total",
                "Bytes evicted from the cache of blocks.",
                cache.bytes_evicted,
            ),
            (Kind::Counter, "cache_damaged_blocks_total", "Damaged blocks fetched again.", cache.damaged_blocks),
            (Kind::Counter, "cache_failed_writes_total", "Blocks that could not be written.", cache.failed_writes),
            (Kind::Counter, "remote_fetches_total", "Ranges fetched from remote volumes.", cache.fetches),
            (Kind::Counter, "remote_fetched_bytes_total", "Bytes fetched from remote volumes.", cache.bytes_fetched),
            (Kind::Gauge, "remote_uploads_waiting", "Buckets waiting for their upload.", *uploads_waiting),
            (Kind::Gauge, "remote_copies_bytes", "Bytes of local copies of uploaded buckets.", *copies_bytes),
            (Kind::Gauge, "remote_bytes", "Bytes of buckets on remote volumes.", *remote_bytes),
        ] {
            self.one(kind, &format!("quarry_{name}"), help, value);
        }
    }
}

/// One label in braces.
fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{{{name}=\"{value}\"}}")
}

#[cfg(test)]
mod tests {
    use quarry_store::CacheStats;

    use super::*;

    #[test]
    fn metrics_have_a_kind_help_and_quoted_labels() {
        let mut page = Page::default();
        let stats = |index: &str, raw_bytes| IndexStats {
            index: index.to_owned(),
            buckets: 2,
            events: 3,
            deleted: 0,
            raw_bytes,
            stored_bytes: 4,
            time_min: 0,
            time_max: 0,
        };
        page.indexes(vec![stats("main", 10), stats("a\"b", 20)]);
        let expected = "# HELP quarry_index_events Events of an index.\n# TYPE quarry_index_events gauge\n\
                        quarry_index_events{index=\"a\\\"b\"} 3\nquarry_index_events{index=\"main\"} 3\n";
        assert!(page.0.starts_with(expected), "{}", page.0);
        let cache = CacheStats { fetches: 7, ..CacheStats::default() };
        page.remote(&RemoteStats { cache, ..RemoteStats::default() });
        assert!(page.0.contains("# TYPE quarry_remote_fetches_total counter\nquarry_remote_fetches_total 7\n"));
        let names = page.0.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(['{', ' ']).next());
        let typed: Vec<&str> = page.0.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        for name in names.flatten() {
            assert!(typed.iter().any(|line| line.split(' ').next() == Some(name)), "{name} has no kind");
        }
    }
}
