//! Authentication events waiting to be written to the audit index. Equal events of a round (the time between two
//! writes) are counted instead of repeated, so that a burst of failed logins becomes a few lines.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Maximum number of distinct events per round; further events are counted without user, object and client.
const EVENTS_MAX: usize = 100;
/// Maximum length in characters of a recorded name; the rest is dropped, because failed logins contain arbitrary names.
const NAME_CHARS_MAX: usize = 100;

/// Content of an audit event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditEvent {
    /// User name.
    pub user: String,
    /// Action, in Splunk's words.
    pub action: &'static str,
    /// Outcome, in Splunk's words.
    pub info: &'static str,
    /// Reason for a failure.
    pub reason: Option<&'static str>,
    /// Object of the action: kind of change and name.
    pub object: Option<(&'static str, String)>,
    /// Client address.
    pub client: IpAddr,
}

/// A number of equal events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// The event that occurred `count` times.
    pub event: AuditEvent,
    /// Time of the first occurrence.
    pub time_ns: i64,
    /// Number of occurrences.
    pub count: u64,
}

/// Events of the current round.
#[derive(Default)]
pub(crate) struct AuditBuffer(BTreeMap<AuditEvent, (i64, u64)>);

impl AuditBuffer {
    pub(crate) fn record(&mut self, mut event: AuditEvent, now_ns: i64) {
        event.user = event.user.chars().take(NAME_CHARS_MAX).collect();
        if self.0.len() >= EVENTS_MAX && !self.0.contains_key(&event) {
            event = AuditEvent { user: String::new(), object: None, client: IpAddr::from([0; 4]), ..event };
        }
        self.0.entry(event).or_insert((now_ns, 0)).1 += 1;
    }

    /// Takes the events since the last call, oldest first.
    pub(crate) fn take(&mut self) -> Vec<AuditRecord> {
        let noted = std::mem::take(&mut self.0).into_iter();
        let mut records: Vec<AuditRecord> =
            noted.map(|(event, (time_ns, count))| AuditRecord { event, time_ns, count }).collect();
        records.sort_by_key(|record| record.time_ns);
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_equal_events_become_few_records() {
        let mut buffer = AuditBuffer::default();
        let event = |user: String| AuditEvent {
            user,
            action: "login attempt",
            info: "failed",
            reason: None,
            object: None,
            client: IpAddr::from([192, 0, 2, 1]),
        };
        for at in 0..1_000 {
            buffer.record(event("eva".into()), at);
        }
        for at in 0..1_000 {
            buffer.record(event(format!("{at}{}", "x".repeat(1_000))), 1_000 + at);
        }
        let records = buffer.take();
        assert_eq!((records[0].event.user.as_str(), records[0].time_ns, records[0].count), ("eva", 0, 1_000));
        assert_eq!(records.len(), EVENTS_MAX + 1);
        let others = records.iter().find(|record| record.event.user.is_empty()).unwrap();
        assert_eq!(others.count, 1_000 - (EVENTS_MAX as u64 - 1));
        assert!(records.iter().all(|record| record.event.user.chars().count() <= NAME_CHARS_MAX));
        assert!(buffer.take().is_empty());
    }
}
