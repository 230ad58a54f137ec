//! What happened at the door, to be written down elsewhere: equal events of a round are counted, not repeated, so that a
//! storm of wrong logins is a few lines.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Different events of a round; further ones are counted as one, without a user.
const EVENTS_MAX: usize = 100;
/// Characters of a name that are kept: names of failed logins are whatever somebody sent.
const NAME_CHARS_MAX: usize = 100;

/// What is told of an event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditEvent {
    /// Who.
    pub user: String,
    /// What was done, in Splunk's words.
    pub action: &'static str,
    /// How it ended, in Splunk's words.
    pub info: &'static str,
    /// Why, where it failed.
    pub reason: Option<&'static str>,
    /// What was done to it: kind of change and name.
    pub object: Option<(&'static str, String)>,
    /// Where it came from.
    pub client: IpAddr,
}

/// Equal events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// What they tell.
    pub event: AuditEvent,
    /// When the first was.
    pub time_ns: i64,
    /// How many there were.
    pub count: u64,
}

/// Events of a round.
#[derive(Default)]
pub(crate) struct Ledger(BTreeMap<AuditEvent, (i64, u64)>);

impl Ledger {
    /// Notes an event.
    pub(crate) fn note(&mut self, mut event: AuditEvent, now_ns: i64) {
        event.user = event.user.chars().take(NAME_CHARS_MAX).collect();
        if self.0.len() >= EVENTS_MAX && !self.0.contains_key(&event) {
            event = AuditEvent { user: String::new(), object: None, client: IpAddr::from([0; 4]), ..event };
        }
        self.0.entry(event).or_insert((now_ns, 0)).1 += 1;
    }

    /// The events since the last call, oldest first.
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
    fn a_storm_is_a_few_records() {
        let mut ledger = Ledger::default();
        let event = |user: String| AuditEvent {
            user,
            action: "login attempt",
            info: "failed",
            reason: None,
            object: None,
            client: IpAddr::from([192, 0, 2, 1]),
        };
        for at in 0..1_000 {
            ledger.note(event("eva".into()), at);
        }
        for at in 0..1_000 {
            ledger.note(event(format!("{at}{}", "x".repeat(1_000))), 1_000 + at);
        }
        let records = ledger.take();
        assert_eq!((records[0].event.user.as_str(), records[0].time_ns, records[0].count), ("eva", 0, 1_000));
        assert_eq!(records.len(), EVENTS_MAX + 1);
        let others = records.iter().find(|record| record.event.user.is_empty()).unwrap();
        assert_eq!(others.count, 1_000 - (EVENTS_MAX as u64 - 1));
        assert!(records.iter().all(|record| record.event.user.chars().count() <= NAME_CHARS_MAX));
        assert!(ledger.take().is_empty());
    }
}
