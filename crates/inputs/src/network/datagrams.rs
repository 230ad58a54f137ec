//! Datagrams of one port. Each datagram consists of whole lines, and each sender has its own pipeline.
//!
//! As in Splunk, a leading syslog priority is removed, and time and host are prefixed if the text has no syslog time.
//! Both steps can be disabled. The time in the prefix is written in the time zone in which the pipeline parses it.

use std::sync::Arc;

use super::statsd::Statsd;
use super::stream::Template;
use hashbrown::HashMap;
use jiff::tz::TimeZone;
use quarry_event::time::strftime;
use quarry_event::{EventBatch, Metadata, TimeNs};
use quarry_pipeline::{Pipeline, PipelineError};

/// Maximum number of senders with a pipeline; beyond it, the sender that has been silent longest loses its pipeline.
const SENDERS_MAX: usize = 4_096;
/// Silence after which the last event of a sender is complete.
const QUIET_NS: i64 = 1_000_000_000;
/// Maximum number of digits of a priority.
const PRIORITY_DIGITS_MAX: usize = 3;
const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// The content of one UDP datagram, with its sender.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// `host` of the datagram's events.
    pub host: &'a str,
    /// Sender's address, for the prefix.
    pub address: &'a str,
    /// Content.
    pub text: &'a [u8],
}

/// The senders of a port.
#[derive(Debug)]
pub struct Datagrams {
    template: Arc<Template>,
    /// Set if the datagrams are statsd.
    statsd: Option<Statsd>,
    keeps_priority: bool,
    keeps_text: bool,
    senders: HashMap<String, Sender, foldhash::fast::FixedState>,
}

#[derive(Debug)]
struct Sender {
    pipeline: Box<Pipeline>,
    /// Time zone of timestamps without a zone; also used to write the prefix.
    zone: TimeZone,
    /// Arrival time of the sender's last datagram.
    last: TimeNs,
    /// Set if the sender's events were completed after the last datagram.
    is_settled: bool,
}

impl Datagrams {
    /// Senders of a port; `keeps_priority` leaves `<N>` in the text, and `keeps_text` disables the prefix.
    pub fn new(template: Arc<Template>, keeps_priority: bool, keeps_text: bool) -> Datagrams {
        let statsd = template.statsd();
        Datagrams { template, statsd, keeps_priority, keeps_text, senders: HashMap::default() }
    }

    /// Processes a datagram received at `now` and appends completed events to `out`.
    pub fn push(&mut self, datagram: Datagram<'_>, now: TimeNs, out: &mut EventBatch) -> Result<(), PipelineError> {
        // Some senders end the text with NUL, as in C.
        let datagram = Datagram { text: datagram.text.strip_suffix(b"\0").unwrap_or(datagram.text), ..datagram };
        if self.add_measurements(&datagram, now, out) {
            return Ok(());
        }
        let text = if self.keeps_priority { datagram.text } else { strip_priority(datagram.text) };
        // A datagram with only a priority is not an event, unless priorities are kept.
        if text.trim_ascii().is_empty() {
            return Ok(());
        }
        if !self.senders.contains_key(datagram.host) {
            self.evict_sender(out);
            let pipeline = Box::new(self.template.pipeline(datagram.host, now)?);
            let zone = self.template.zone(datagram.host);
            self.senders.insert(datagram.host.to_owned(), Sender { pipeline, zone, last: 0, is_settled: true });
        }
        let Some(sender) = self.senders.get_mut(datagram.host) else { return Ok(()) };
        if sender.last != now {
            sender.pipeline.set_now(now, None);
            sender.last = now;
        }
        sender.is_settled = false;
        if !self.keeps_text && !has_syslog_time(text) {
            sender.pipeline.push(splunk_prefix(now, &sender.zone, datagram.address).as_bytes(), out);
        }
        sender.pipeline.push(text, out);
        if text.last() != Some(&b'\n') {
            sender.pipeline.push(b"\n", out);
        }
        Ok(())
    }

    /// Appends the measurements of a statsd datagram; returns false for any other datagram.
    fn add_measurements(&self, datagram: &Datagram<'_>, now: TimeNs, out: &mut EventBatch) -> bool {
        let Some(statsd) = &self.statsd else { return false };
        let Ok(text) = std::str::from_utf8(datagram.text) else { return false };
        let template = &self.template;
        let metadata = Metadata {
            index: template.index.as_str().into(),
            host: datagram.host.into(),
            source: template.source.as_str().into(),
            sourcetype: template.sourcetype.as_str().into(),
        };
        let mut read = EventBatch { index_time: now, ..EventBatch::default() };
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        if !lines.all(|line| statsd.push(line, now, &metadata, &mut read)) {
            return false;
        }
        let first = out.len();
        out.index_time = now;
        for row in 0..read.len() {
            let meta = out.intern(&metadata);
            out.push(read.raw(row), now, meta);
        }
        out.fields.append(read.fields.all(), 0, first);
        true
    }

    /// Appends the last events of silent senders, or of every sender if `all` is set.
    pub fn flush_silent(&mut self, now: TimeNs, all: bool, out: &mut EventBatch) {
        for sender in self.senders.values_mut() {
            if !sender.is_settled && (all || now.saturating_sub(sender.last) >= QUIET_NS) {
                sender.pipeline.pause(out);
                sender.is_settled = true;
            }
        }
    }

    fn evict_sender(&mut self, out: &mut EventBatch) {
        if self.senders.len() < SENDERS_MAX {
            return;
        }
        let oldest = self.senders.iter().min_by_key(|(_, sender)| sender.last).map(|(host, _)| host.clone());
        if let Some(mut sender) = oldest.and_then(|host| self.senders.remove(&host)) {
            sender.pipeline.finish(out);
        }
    }
}

/// The text after `<N>`.
fn strip_priority(text: &[u8]) -> &[u8] {
    let Some(rest) = text.strip_prefix(b"<") else { return text };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match rest.get(digits) {
        Some(b'>') if (1..=PRIORITY_DIGITS_MAX).contains(&digits) => &rest[digits + 1..],
        _ => text,
    }
}

/// Whether the text begins with a syslog time, as in RFC 3164 or 5424. The version number of RFC 5424 may be missing.
fn has_syslog_time(text: &[u8]) -> bool {
    let text = if text.first() == Some(&b'<') { strip_priority(text) } else { text };
    let is_named = text.get(..3).is_some_and(|month| MONTHS.contains(&month))
        && text.get(3) == Some(&b' ')
        && text.get(6) == Some(&b' ')
        && text.get(9) == Some(&b':');
    let numbered = text.strip_prefix(b"1 ").unwrap_or(text);
    let is_numbered = numbered.get(..4).is_some_and(|year| year.iter().all(u8::is_ascii_digit))
        && numbered.get(4) == Some(&b'-')
        && numbered.get(7) == Some(&b'-')
        && numbered.get(10) == Some(&b'T')
        && numbered.get(13) == Some(&b':');
    is_named || is_numbered
}

/// The prefix that Splunk adds: time and sender.
fn splunk_prefix(now: TimeNs, zone: &TimeZone, address: &str) -> String {
    format!("{} {address} ", strftime(now, "%b %e %H:%M:%S", zone))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::tz::TimeZone;
    use quarry_conf::{ConfSource, Layer, Layers, NetworkKind, PropsResolver};
    use quarry_event::EventBatch;

    use super::{Datagram, Datagrams, SENDERS_MAX};
    use crate::network::Template;

    const NOW: i64 = 1_795_225_298_000_000_000;

    #[test]
    fn added_prefix_parses_as_the_time_of_receipt() {
        let props = ConfSource {
            layer: Layer::SystemLocal,
            app: None,
            file: "props.conf".to_owned(),
            text: "[source::udp:514]\nTZ = Asia/Tokyo\n".to_owned(),
        };
        for (layers, offset) in [(Layers::new([]), 2), (Layers::new([props]), 9)] {
            let zone = TimeZone::fixed(jiff::tz::offset(2));
            let props = PropsResolver::new(&layers).with_zone(zone);
            let mut datagrams = datagrams_by(props, false, false);
            let mut batch = EventBatch::default();
            let datagram = Datagram { host: "10.0.0.9", address: "10.0.0.9", text: b"plain" };
            datagrams.push(datagram, NOW, &mut batch).unwrap();
            datagrams.flush_silent(NOW, true, &mut batch);
            assert_eq!(batch.time, [NOW]);
            assert!(texts(&batch)[0].contains(&format!(" {:02}:41:38 10.0.0.9 plain", 1 + offset)), "{batch:?}");
        }
    }

    fn datagrams(keeps_priority: bool, keeps_text: bool) -> Datagrams {
        datagrams_by(PropsResolver::new(&Layers::new([])), keeps_priority, keeps_text)
    }

    fn datagrams_by(props: PropsResolver, keeps_priority: bool, keeps_text: bool) -> Datagrams {
        let template = Template {
            index: "net".to_owned(),
            source: "udp:514".to_owned(),
            sourcetype: "syslog".to_owned(),
            props: Arc::new(props),
            kind: NetworkKind::Udp,
        };
        Datagrams::new(Arc::new(template), keeps_priority, keeps_text)
    }

    fn texts(batch: &EventBatch) -> Vec<String> {
        let host = |row: usize| batch.metas[batch.meta[row] as usize].host.to_string();
        let text = |row: usize| String::from_utf8(batch.raw(row).to_vec()).unwrap();
        (0..batch.len()).map(|row| format!("{}|{}", host(row), text(row))).collect()
    }

    #[test]
    fn dimensions_are_extracted_from_names_of_statsd_metrics() {
        let conf = |file: &str, text: &str| ConfSource {
            layer: Layer::SystemLocal,
            app: None,
            file: file.to_owned(),
            text: text.to_owned(),
        };
        let props = "[own]\nMETRICS_PROTOCOL = statsd\n\
            [named]\nMETRICS_PROTOCOL = STATSD\nSTATSD-DIM-TRANSFORMS = statsd-dims:own, kept, no_such, wrong\n\
            [other]\nSTATSD-DIM-TRANSFORMS = own\n";
        let transforms = "[statsd-dims:own]\nREGEX = (?<ip>\\d+\\.\\d+\\.\\d+\\.\\d+)(?:\\.(?<os>\\w+):)?\n\
            [statsd-dims:kept]\nREGEX = ^(?<area>\\w+)\\.(?=cpu|mem)\nREMOVE_DIMS_FROM_METRIC_NAME = false\n\
            [statsd-dims:wrong]\nREGEX = (\n";
        let layers = Layers::new([conf("props.conf", props), conf("transforms.conf", transforms)]);
        for (sourcetype, text, expected) in [
            (
                "own",
                "mem.used.10.2.3.4.windows:33|g",
                r#"{"ip":"10.2.3.4","metric_name:mem.used":33,"metric_type":"g","os":"windows"}"#,
            ),
            (
                "own",
                "10.1.1.198.cpu.percent:75|g",
                r#"{"ip":"10.1.1.198","metric_name:cpu.percent":75,"metric_type":"g"}"#,
            ),
            ("own", "a.1.1.1.1.b.c:7|c", r#"{"ip":"1.1.1.1","metric_name:a.b.c":7,"metric_type":"c"}"#),
            ("own", "1.1.1.1.a.b:7|c|#ip:x", r#"{"ip":"x","metric_name:a.b":7,"metric_type":"c"}"#),
            ("own", "1.1.1.1:7|c", r#"{"ip":"1.1.1.1","metric_name:1.1.1.1":7,"metric_type":"c"}"#),
            (
                "named",
                "web.cpu.1.1.1.1:7|c",
                r#"{"area":"web","ip":"1.1.1.1","metric_name:web.cpu":7,"metric_type":"c"}"#,
            ),
            ("other", "a.1.1.1.1.b:7|c", "a.1.1.1.1.b:7|c"),
        ] {
            let template = Template {
                index: "net".to_owned(),
                source: "udp:514".to_owned(),
                sourcetype: sourcetype.to_owned(),
                props: Arc::new(PropsResolver::new(&layers)),
                kind: NetworkKind::Udp,
            };
            let error = template.settings_error(NOW).unwrap_or_default();
            assert_eq!(error.contains("statsd-dims:wrong"), sourcetype == "named", "{error}");
            let (mut datagrams, mut batch) = (Datagrams::new(Arc::new(template), true, true), EventBatch::default());
            let datagram = Datagram { host: "h", address: "h", text: text.as_bytes() };
            datagrams.push(datagram, NOW, &mut batch).unwrap();
            datagrams.flush_silent(NOW, true, &mut batch);
            let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
            let found = texts(&batch).concat();
            let found = found.trim_start_matches("h|");
            assert!(
                found == expected || (read(found) == read(expected) && read(found).is_some()),
                "{sourcetype}: {found}"
            );
        }
    }

    #[test]
    fn priorities_are_removed_and_times_added() {
        let sent = [
            "<13>Mar  3 14:07:55 gate sshd: a",
            "plain\n",
            "",
            "\n",
            " \r\n\0",
            "<34>1 2026-11-20T10:00:00Z web app - - b",
            "<9>c\nd",
        ];
        for (keeps_priority, keeps_text, expected) in [
            (
                false,
                false,
                "gate|Mar  3 14:07:55 gate sshd: a;10.0.0.9|Nov 21 01:41:38 10.0.0.9 plain;\
                            web|1 2026-11-20T10:00:00Z web app - - b;10.0.0.9|Nov 21 01:41:38 10.0.0.9 c;10.0.0.9|d",
            ),
            (
                true,
                true,
                "gate|<13>Mar  3 14:07:55 gate sshd: a;10.0.0.9|plain;\
                          web|<34>1 2026-11-20T10:00:00Z web app - - b;10.0.0.9|<9>c;10.0.0.9|d",
            ),
        ] {
            let (mut datagrams, mut batch) = (datagrams(keeps_priority, keeps_text), EventBatch::default());
            for text in sent {
                let datagram = Datagram { host: "10.0.0.9", address: "10.0.0.9", text: text.as_bytes() };
                datagrams.push(datagram, NOW, &mut batch).unwrap();
            }
            assert_eq!(texts(&batch).join(";"), expected);
        }
    }

    #[test]
    fn senders_are_limited_without_losing_events() {
        let (mut datagrams, mut batch) = (datagrams(true, true), EventBatch::default());
        let count = SENDERS_MAX + 10;
        for number in 0..count {
            let host = format!("h{number}");
            let datagram = Datagram { host: &host, address: &host, text: b"x" };
            datagrams.push(datagram, NOW + number as i64, &mut batch).unwrap();
        }
        datagrams.flush_silent(NOW, true, &mut batch);
        assert_eq!((batch.len(), datagrams.senders.len()), (count, SENDERS_MAX));
    }
}
