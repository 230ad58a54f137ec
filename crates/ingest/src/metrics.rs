//! Metrics of the node, written every half minute as events to `_internal`, and the messages that it logs.
//!
//! The lines have the form of Splunk's metrics.log, so that existing searches work: `group=…, name=value`. Events are
//! counted where they enter the store, in four groups: by index, host, source and sourcetype. Only the busiest series
//! of each group are written.
//!
//! Not here: metrics of sealing and merging.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::tz::TimeZone;
use quarry_event::time::{NS_PER_SEC, strftime};
use quarry_event::{EventBatch, Metadata, TimeNs};
use quarry_stdx::log;
use quarry_stdx::number::f64_of;
use quarry_store::{AppendRequest, CacheStats, RemoteStats};

use crate::ingest::Ingest;

/// Interval at which metrics are written.
const WRITE_INTERVAL: Duration = Duration::from_secs(30);
/// Interval at which logged messages are written.
const LOG_INTERVAL: Duration = Duration::from_secs(1);
/// Index of the metrics.
const INDEX: &str = "_internal";
/// `source` of the metrics: Splunk's path of the file, relative to the data directory; searches use
/// `source=*metrics.log`.
const SOURCE: &str = "var/log/splunk/metrics.log";
/// `source` of messages.
const MESSAGES_SOURCE: &str = "var/log/splunk/splunkd.log";
/// Sourcetype of metrics and messages.
const SOURCETYPE: &str = "splunkd";
/// strftime format of the time at the start of a line, in the zone of the machine.
const TIME_FORMAT: &str = "%m-%d-%Y %H:%M:%S.%3N %z";
/// Maximum number of series written per group, busiest first.
const SERIES_MAX: usize = 10;
/// Maximum number of series counted per group; further ones are counted together.
const COUNTED_SERIES_MAX: usize = 10_000;
/// Name of the series that counts all further ones.
const OTHER_SERIES: &str = "_others";
/// Groups, in the order of [`names_of`].
const GROUPS: [&str; 4] = ["per_host_thruput", "per_index_thruput", "per_source_thruput", "per_sourcetype_thruput"];
const BYTES_PER_KB: f64 = 1_024.0;

/// Events and bytes of one series.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Amount {
    events: u64,
    bytes: u64,
    /// Sum over all events of the arrival time minus the event time, in seconds.
    age_seconds: f64,
    max_age_seconds: f64,
}

impl Amount {
    fn add(&mut self, other: &Amount) {
        self.events += other.events;
        self.bytes += other.bytes;
        self.age_seconds += other.age_seconds;
        self.max_age_seconds = self.max_age_seconds.max(other.max_age_seconds);
    }
}

/// Counts events that enter the store.
#[derive(Debug, Default)]
pub(crate) struct Throughput(Mutex<Totals>);

#[derive(Debug, Default)]
struct Totals {
    series: [BTreeMap<Arc<str>, Amount>; GROUPS.len()],
    /// Total of the current interval.
    all: Amount,
    /// Bytes since the start.
    total_bytes: u64,
}

/// Amounts that a batch adds to each series. They are measured before the batch is passed to the store, and counted
/// once the store has accepted the batch.
pub(crate) struct BatchAmounts(Vec<(Metadata, Amount)>);

impl BatchAmounts {
    /// Measures a batch.
    pub(crate) fn of(batch: &EventBatch) -> BatchAmounts {
        let mut amounts = vec![Amount::default(); batch.metas.len()];
        let mut start = 0;
        for row in 0..batch.len() {
            let end = batch.ends[row];
            let age = f64_of((batch.index_time - batch.time[row]).max(0)) / f64_of(NS_PER_SEC);
            if let Some(amount) = amounts.get_mut(batch.meta[row] as usize) {
                amount.add(&Amount {
                    events: 1,
                    bytes: u64::from(end.saturating_sub(start)),
                    age_seconds: age,
                    max_age_seconds: age,
                });
            }
            start = end;
        }
        let used = batch.metas.iter().zip(amounts).filter(|(_, amount)| amount.events > 0);
        BatchAmounts(used.map(|(meta, amount)| (meta.clone(), amount)).collect())
    }
}

impl Throughput {
    /// Counts the events of a batch that the store has taken.
    pub(crate) fn count_events(&self, batch: &BatchAmounts) {
        let mut counted = self.lock();
        for (meta, amount) in &batch.0 {
            counted.all.add(amount);
            counted.total_bytes += amount.bytes;
            for (series, name) in counted.series.iter_mut().zip(names_of(meta)) {
                let is_full = series.len() >= COUNTED_SERIES_MAX && !series.contains_key(name);
                let name = if is_full { Arc::from(OTHER_SERIES) } else { Arc::clone(name) };
                series.entry(name).or_default().add(amount);
            }
        }
    }

    /// Bytes of all events counted so far.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.lock().total_bytes
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Totals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Formats the lines of an interval of `seconds` and resets the counters.
    fn take_lines(&self, seconds: f64) -> Vec<String> {
        let mut counted = self.lock();
        let series = std::mem::take(&mut counted.series);
        let all = std::mem::take(&mut counted.all);
        let total = f64_of(counted.total_bytes) / BYTES_PER_KB;
        drop(counted);
        let mut lines = Vec::new();
        for (group, series) in GROUPS.iter().zip(series) {
            let mut busiest: Vec<(Arc<str>, Amount)> = series.into_iter().collect();
            busiest.sort_by(|a, b| b.1.bytes.cmp(&a.1.bytes).then_with(|| a.0.cmp(&b.0)));
            for (name, amount) in busiest.into_iter().take(SERIES_MAX) {
                let name = name.replace(['"', '\n'], "_");
                let mut line = format!("group={group}, series=\"{name}\", ");
                write_amount(&amount, seconds, &mut line);
                lines.push(line);
            }
        }
        let (rate, events) = (f64_of(all.bytes) / BYTES_PER_KB / seconds, f64_of(all.events) / seconds);
        lines.push(format!(
            "group=thruput, name=index_thruput, instantaneous_kbps={rate:.6}, instantaneous_eps={events:.6}, \
             total_k_processed={total:.3}, kb={:.6}, ev={}",
            f64_of(all.bytes) / BYTES_PER_KB,
            all.events
        ));
        lines.push(format!("group=pipeline, name=indexerpipe, processor=indexer, executes={}", all.events));
        lines
    }
}

/// The series of an event in each group: its host, index, source and sourcetype.
fn names_of(meta: &Metadata) -> [&Arc<str>; GROUPS.len()] {
    [&meta.host, &meta.index, &meta.source, &meta.sourcetype]
}

fn write_amount(amount: &Amount, seconds: f64, out: &mut String) {
    let kilobytes = f64_of(amount.bytes) / BYTES_PER_KB;
    let average = amount.age_seconds / f64_of(amount.events.max(1));
    out.push_str(&format!(
        "kbps={:.6}, eps={:.6}, kb={kilobytes:.6}, ev={}, avg_age={average:.3}, max_age={:.0}",
        kilobytes / seconds,
        f64_of(amount.events) / seconds,
        amount.events,
        amount.max_age_seconds
    ));
}

/// Lines about the queue in front of the write-ahead log, one for the share of each pipeline set.
fn queue_lines(node: &Ingest) -> Vec<String> {
    let queues = node.store.queue_stats();
    let line = |(set, queue): (usize, &quarry_store::QueueStats)| {
        let name = if set == 0 { "indexqueue".to_owned() } else { format!("indexqueue, ingest_pipe={set}") };
        format!(
            "group=queue, name={name}, max_size_kb={}, current_size_kb={}, current_size={}, blocked={}",
            queue.bytes_max / 1_024,
            queue.bytes / 1_024,
            queue.appends,
            queue.bytes >= queue.bytes_max
        )
    };
    queues.iter().enumerate().map(line).collect()
}

/// Lines about buckets on remote volumes: ranges read since `before` from the cache and from volumes, the size of the
/// cache, and waiting uploads. The names of the groups are Splunk's; the fields differ, because ranges and not buckets
/// are fetched.
fn volume_lines(figures: &RemoteStats, before: &CacheStats) -> Vec<String> {
    let kilobytes = |bytes: u64| f64_of(bytes) / BYTES_PER_KB;
    let (cache, since) = (&figures.cache, |now: u64, then: u64| now.saturating_sub(then));
    vec![
        format!(
            "group=cachemgr_download, name=ranges, count={}, kb={:.3}, kb_from_cache={:.3}, damaged_blocks={}, \
             failed_writes={}",
            since(cache.fetches, before.fetches),
            kilobytes(since(cache.bytes_fetched, before.bytes_fetched)),
            kilobytes(since(cache.bytes_read, before.bytes_read)),
            since(cache.damaged_blocks, before.damaged_blocks),
            since(cache.failed_writes, before.failed_writes),
        ),
        format!(
            "group=cachemgr_bucket, name=cache, current_size_kb={:.3}, copies_size_kb={:.3}, evicted_kb={:.3}, \
             remote_size_kb={:.3}",
            kilobytes(cache.bytes),
            kilobytes(figures.copies_bytes),
            kilobytes(since(cache.bytes_evicted, before.bytes_evicted)),
            kilobytes(figures.remote_bytes),
        ),
        format!("group=cachemgr_upload, name=buckets, queued={}", figures.uploads_waiting),
    ]
}

/// Formats lines as events.
fn format_events(lines: Vec<String>, source: &str, host: &str, now: TimeNs, zone: &TimeZone) -> EventBatch {
    let mut batch = EventBatch { index_time: now, ..EventBatch::default() };
    let meta = batch.intern(&Metadata {
        index: INDEX.into(),
        host: host.into(),
        source: source.into(),
        sourcetype: SOURCETYPE.into(),
    });
    let time = strftime(now, TIME_FORMAT, zone);
    for line in lines {
        batch.push(format!("{time} INFO  Metrics - {line}").as_bytes(), now, meta);
    }
    batch
}

/// Writes the errors and warnings of the process to `_internal` as they are logged ([`log::start_recording`]).
pub async fn write_log(node: Arc<Ingest>, data_dir: PathBuf) {
    loop {
        tokio::time::sleep(LOG_INTERVAL).await;
        let (node, data_dir) = (Arc::clone(&node), data_dir.clone());
        drop(tokio::task::spawn_blocking(move || write_logged(&node, &data_dir)).await);
    }
}

/// Writes the messages logged since the last call.
pub fn write_logged(node: &Ingest, data_dir: &Path) {
    let kept = log::take_recent();
    write_messages(node, data_dir, kept.iter().map(|kept| (kept.level, kept.text.as_str())));
}

/// Writes messages, each with its level, to `_internal`, in the form of Splunk's splunkd.log.
pub fn write_messages<'t>(node: &Ingest, data_dir: &Path, texts: impl IntoIterator<Item = (&'t str, &'t str)>) {
    let now = node.settings.clock.now_ns();
    let time = strftime(now, TIME_FORMAT, &node.settings.zone);
    let mut batch = EventBatch { index_time: now, ..EventBatch::default() };
    let source = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_path_buf()).join(MESSAGES_SOURCE);
    let meta = batch.intern(&Metadata {
        index: INDEX.into(),
        host: node.settings.host.as_str().into(),
        source: source.display().to_string().into(),
        sourcetype: SOURCETYPE.into(),
    });
    for (level, text) in texts {
        batch.push(format!("{time} {level:<5} Maintenance - {text}").as_bytes(), now, meta);
    }
    if batch.is_empty() || node.settings.check_index(INDEX).is_err() {
        return;
    }
    // The messages are also on standard error, so a failed append does not lose them.
    if let Ok(ticket) = node.store.append(AppendRequest { batch, checkpoint: None }) {
        drop(ticket);
    }
}

/// Writes metrics periodically.
pub async fn write_metrics(node: Arc<Ingest>, data_dir: &Path) {
    let source = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_path_buf()).join(SOURCE);
    let (source, host) = (source.display().to_string(), node.settings.host.clone());
    if node.settings.check_index(INDEX).is_err() {
        return;
    }
    let before = Arc::<Mutex<CacheStats>>::default();
    loop {
        tokio::time::sleep(WRITE_INTERVAL).await;
        let (node, source, host, before) = (Arc::clone(&node), source.clone(), host.clone(), Arc::clone(&before));
        let round = move || {
            let mut lines = node.throughput.take_lines(WRITE_INTERVAL.as_secs_f64());
            lines.extend(queue_lines(&node));
            if let Some(figures) = node.store.remote_stats() {
                let mut before = before.lock().unwrap_or_else(PoisonError::into_inner);
                lines.extend(volume_lines(&figures, &before));
                *before = figures.cache;
            }
            let batch = format_events(lines, &source, &host, node.settings.clock.now_ns(), &node.settings.zone);
            // Metrics are dispensable, and the inputs report a failing store.
            if let Ok(ticket) = node.store.append(AppendRequest { batch, checkpoint: None }) {
                drop(ticket);
            }
        };
        drop(tokio::task::spawn_blocking(round).await);
    }
}

#[cfg(test)]
mod tests {
    use quarry_conf::{Layers, PropsResolver};
    use quarry_inputs::{EventStore, InputSettings, Sink};
    use quarry_stdx::ManualClock;
    use quarry_store::{Store, StoreOptions};

    use super::*;

    #[test]
    fn volume_metrics_cover_one_interval() {
        let before = CacheStats { bytes_read: 1_024, bytes_fetched: 2_048, fetches: 5, ..CacheStats::default() };
        let cache = CacheStats { bytes: 512, bytes_read: 3_072, fetches: 7, ..before };
        let figures = RemoteStats { cache, uploads_waiting: 3, copies_bytes: 1_024, remote_bytes: 4_096 };
        assert_eq!(
            volume_lines(&figures, &before),
            [
                "group=cachemgr_download, name=ranges, count=2, kb=0.000, kb_from_cache=2.000, damaged_blocks=0, \
                 failed_writes=0",
                "group=cachemgr_bucket, name=cache, current_size_kb=0.500, copies_size_kb=1.000, evicted_kb=0.000, \
                 remote_size_kb=4.000",
                "group=cachemgr_upload, name=buckets, queued=3",
            ]
        );
    }

    #[test]
    fn metrics_cover_one_interval_and_list_the_busiest_series() {
        let throughput = Throughput::default();
        let mut batch = EventBatch { index_time: 20 * NS_PER_SEC, ..EventBatch::default() };
        for number in 0..12 {
            let meta = batch.intern(&Metadata {
                index: "main".into(),
                host: format!("h{number:02}").into(),
                source: "s".into(),
                sourcetype: "web".into(),
            });
            batch.push("x".repeat(1_024 * (1 + number)).as_bytes(), 10 * NS_PER_SEC, meta);
        }
        throughput.count_events(&BatchAmounts::of(&batch));
        let lines = throughput.take_lines(30.0);
        let hosts: Vec<&String> = lines.iter().filter(|line| line.contains("per_host_thruput")).collect();
        assert_eq!(hosts.len(), SERIES_MAX);
        assert!(hosts[0].starts_with("group=per_host_thruput, series=\"h11\", kbps=0.400000, "), "{}", hosts[0]);
        let web = "group=per_sourcetype_thruput, series=\"web\", kbps=2.600000, eps=0.400000, kb=78.000000, ev=12, \
                   avg_age=10.000, max_age=10";
        assert!(lines.iter().any(|line| line == web), "{lines:?}");
        let next = throughput.take_lines(30.0);
        assert_eq!(next.len(), 2, "no series without events: {next:?}");
        assert!(next[0].contains("total_k_processed=78.000, kb=0.000000, ev=0"), "{}", next[0]);
        let events = format_events(next, "/d/metrics.log", "h", 1_795_244_400 * NS_PER_SEC, &TimeZone::UTC);
        assert!(events.raw(0).starts_with(b"11-21-2026 07:00:00.000 +0000 INFO  Metrics - group=thruput, name="));
        assert_eq!((&*events.metas[0].index, events.len()), ("_internal", 2));
    }

    #[test]
    fn refused_batches_are_not_counted() {
        let (folder, clock, layers) = (tempfile::tempdir().unwrap(), ManualClock::shared(0), Layers::new([]));
        let props = Arc::new(PropsResolver::new(&layers));
        let (host, zone, descriptors) = ("h".to_owned(), TimeZone::UTC, 64);
        let settings = InputSettings { layers, props, clock: clock.clone(), host, zone, descriptors };
        let node = Ingest::new(Store::open(StoreOptions::at(folder.path()), clock).unwrap(), settings);
        let batch = |index: &str| {
            let mut batch = EventBatch::default();
            let meta = batch.intern(&Metadata {
                index: index.into(),
                host: "h".into(),
                source: "s".into(),
                sourcetype: "web".into(),
            });
            batch.push(b"text", 0, meta);
            batch
        };
        node.append(batch("main")).unwrap().wait().unwrap();
        assert!(node.append(batch(&"i".repeat(5_000))).is_err());
        let mut sink = node.file_sink(0);
        // A sink reports a refusal later.
        let reported = sink.accept(batch(&"i".repeat(5_000)), None).and_then(|()| sink.flush());
        assert!(reported.is_err());
        let lines = node.throughput.take_lines(1.0);
        assert!(lines.iter().any(|line| line.contains("series=\"web\"") && line.contains(", ev=1,")), "{lines:?}");
        drop(sink);
        node.store.close();
    }
}
