//! Who came to the doors of the node: logins, logouts and changes of users as events of `_audit`.
//!
//! The lines are those that searches over Splunk's audit events read: `Audit:[timestamp=…, user=…, action=…, info=…]`. Equal
//! events of a second are one line with their `count`, so that a storm of wrong logins does not fill the store.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use quarry_auth::{AuditRecord, Auth};
use quarry_event::{EventBatch, Metadata, time::strftime};
use quarry_stdx::log;
use quarry_store::AppendRequest;

use crate::ingest::Ingest;

/// Time between two rounds.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Index of the events.
const INDEX: &str = "_audit";
/// Source and sourcetype of the events.
const AUDIT_TRAIL: &str = "audittrail";

/// Writes what happened again and again.
pub async fn write_events(node: Arc<Ingest>, auth: Arc<Auth>) {
    loop {
        tokio::time::sleep(WRITE_EVERY).await;
        let (node, auth) = (Arc::clone(&node), Arc::clone(&auth));
        drop(tokio::task::spawn_blocking(move || write_round(&node, &auth)).await);
    }
}

/// Writes what happened since the last round.
pub fn write_round(node: &Ingest, auth: &Auth) {
    let records = auth.take_audit();
    if records.is_empty() || node.settings.check_index(INDEX).is_err() {
        return;
    }
    let batch = round(&records, &node.settings.host, node.settings.clock.now_ns());
    let written = node.store.append(AppendRequest { batch, checkpoint: None }).and_then(|ticket| ticket.wait());
    if let Err(error) = written {
        log::warning(format!("{} audit events are lost: {error}", records.len()));
    }
}

/// A search that deletes events.
#[derive(Clone, Copy, Debug)]
pub struct Deleting<'a> {
    /// Who searches.
    pub user: &'a str,
    /// Name of the search.
    pub sid: &'a str,
    /// Its text as written.
    pub search: &'a str,
    /// How many events it found.
    pub events: u64,
}

/// What goes on record before events are deleted.
pub fn deletion(deleting: &Deleting<'_>, host: &str, now_ns: i64) -> EventBatch {
    let mut batch = EventBatch { index_time: now_ns, ..EventBatch::default() };
    let meta = batch.intern(&meta(host));
    let time = strftime(now_ns, "%m-%d-%Y %H:%M:%S.%3N", &TimeZone::UTC);
    let (user, sid, search) = (value(deleting.user), value(deleting.sid), clean(deleting.search));
    let line = format!(
        "Audit:[timestamp={time}, user={user}, action=delete_by_keyword, info=granted, search_id={sid}, \
         event_count={}, search=\"{search}\"]",
        deleting.events
    );
    batch.push(line.as_bytes(), now_ns, meta);
    batch
}

fn meta(host: &str) -> Metadata {
    Metadata { index: INDEX.into(), host: host.into(), source: AUDIT_TRAIL.into(), sourcetype: AUDIT_TRAIL.into() }
}

/// One round as events.
fn round(records: &[AuditRecord], host: &str, now_ns: i64) -> EventBatch {
    let mut batch = EventBatch { index_time: now_ns, ..EventBatch::default() };
    let meta = batch.intern(&meta(host));
    for record in records {
        batch.push(line(record).as_bytes(), record.time_ns, meta);
    }
    batch
}

fn line(record: &AuditRecord) -> String {
    let time = strftime(record.time_ns, "%m-%d-%Y %H:%M:%S.%3N", &TimeZone::UTC);
    let event = &record.event;
    let user = if event.user.is_empty() { "n/a" } else { &event.user };
    let mut line =
        format!("Audit:[timestamp={time}, user={}, action={}, info={}", value(user), event.action, event.info);
    if let Some((operation, object)) = &event.object {
        line.push_str(&format!(", operation={operation}, object={}", value(object)));
    }
    if let Some(reason) = event.reason {
        line.push_str(&format!(", reason=\"{reason}\""));
    }
    line.push_str(&format!(", clientip={}, count=\"{}\"]", event.client, record.count));
    line
}

/// A name as a value: it may be whatever somebody sent, and must not look like another field.
fn value(name: &str) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || "._-@/".contains(character);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("\"{}\"", clean(name))
}

/// A text without what would end a value in quotes.
fn clean(text: &str) -> String {
    let plain = |character: char| if character.is_control() || "\"\\".contains(character) { '_' } else { character };
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use quarry_auth::AuditEvent;
    use quarry_event::time::NS_PER_SEC;

    use super::*;

    #[test]
    fn lines_are_splunks_and_names_cannot_forge_fields() {
        let event = |user: &str, object| AuditEvent {
            user: user.to_owned(),
            action: "login attempt",
            info: "failed",
            reason: Some("wrong user name or password"),
            object,
            client: [127, 0, 0, 1].into(),
        };
        let of = |event| AuditRecord { event, time_ns: 1_795_244_400 * NS_PER_SEC + 7_000_000, count: 3 };
        let records = [
            of(event("admin", None)),
            of(event("x, info=succeeded]\n\"", Some(("edit", "eva".to_owned())))),
            of(event("", None)),
        ];
        let batch = round(&records, "h", 1_795_244_401 * NS_PER_SEC);
        let text = |row| String::from_utf8(batch.raw(row).to_vec()).unwrap();
        assert_eq!(
            text(0),
            "Audit:[timestamp=11-21-2026 07:00:00.007, user=admin, action=login attempt, info=failed, reason=\"wrong user name or \
             password\", clientip=127.0.0.1, count=\"3\"]"
        );
        assert!(
            text(1).contains(
                "user=\"x, info=succeeded]__\", action=login attempt, info=failed, operation=edit, object=eva"
            )
        );
        assert!(text(2).contains("user=n/a, "));
        assert_eq!((&*batch.metas[0].index, batch.time[0]), ("_audit", records[0].time_ns));
    }
}
