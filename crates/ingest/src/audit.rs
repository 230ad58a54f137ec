//! Audit events, written to the index `_audit`: logins, logouts, changes of users, tokens and objects, and deletions of
//! events.
//!
//! The lines have the form of Splunk's audit events, so that existing searches work: `Audit:[timestamp=…, user=…,
//! action=…, info=…]`. Equal events within a second become one line with a `count`, so that a storm of failed logins
//! does not fill the store.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use quarry_auth::{AuditRecord, Auth};
use quarry_event::{EventBatch, Metadata, time::strftime};
use quarry_stdx::log;
use quarry_store::AppendRequest;

use crate::ingest::Ingest;

/// Interval at which audit events are written.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// Index of the events.
const INDEX: &str = "_audit";
/// Source and sourcetype of the events.
const AUDIT_TRAIL: &str = "audittrail";
/// strftime format of the time at the start of a line, in the zone of the machine.
const TIME_FORMAT: &str = "%m-%d-%Y %H:%M:%S.%3N";

/// Writes audit events periodically.
pub async fn write_events(node: Arc<Ingest>, auth: Arc<Auth>) {
    loop {
        tokio::time::sleep(WRITE_INTERVAL).await;
        let (node, auth) = (Arc::clone(&node), Arc::clone(&auth));
        drop(tokio::task::spawn_blocking(move || write_round(&node, &auth)).await);
    }
}

/// Writes the audit events recorded since the last call.
pub fn write_round(node: &Ingest, auth: &Auth) {
    let records = auth.take_audit();
    if records.is_empty() || node.settings.check_index(INDEX).is_err() {
        return;
    }
    let settings = &node.settings;
    let batch = format_events(&records, &settings.host, settings.clock.now_ns(), &settings.zone);
    let written = node.store.append(AppendRequest { batch, checkpoint: None }).and_then(|ticket| ticket.wait());
    if let Err(error) = written {
        log::warning(format!("{} audit events are lost: {error}", records.len()));
    }
}

/// Search that is about to delete events.
#[derive(Clone, Copy, Debug)]
pub struct DeletionRequest<'a> {
    /// User of the search.
    pub user: &'a str,
    /// Search id.
    pub sid: &'a str,
    /// SPL text of the search.
    pub search: &'a str,
    /// Number of events to delete.
    pub events: u64,
}

/// The audit event that is stored before events are deleted.
pub fn deletion_event(request: &DeletionRequest<'_>, host: &str, now_ns: i64, zone: &TimeZone) -> EventBatch {
    let mut batch = EventBatch { index_time: now_ns, ..EventBatch::default() };
    let meta = batch.intern(&meta(host));
    let time = strftime(now_ns, TIME_FORMAT, zone);
    let (user, sid, search) = (value(request.user), value(request.sid), escaped(request.search));
    let line = format!(
        "Audit:[timestamp={time}, user={user}, action=delete_by_keyword, info=granted, search_id={sid}, \
         event_count={}, search=\"{search}\"]",
        request.events
    );
    batch.push(line.as_bytes(), now_ns, meta);
    batch
}

fn meta(host: &str) -> Metadata {
    Metadata { index: INDEX.into(), host: host.into(), source: AUDIT_TRAIL.into(), sourcetype: AUDIT_TRAIL.into() }
}

/// Formats records as events.
fn format_events(records: &[AuditRecord], host: &str, now_ns: i64, zone: &TimeZone) -> EventBatch {
    let mut batch = EventBatch { index_time: now_ns, ..EventBatch::default() };
    let meta = batch.intern(&meta(host));
    for record in records {
        batch.push(line(record, zone).as_bytes(), record.time_ns, meta);
    }
    batch
}

fn line(record: &AuditRecord, zone: &TimeZone) -> String {
    let time = strftime(record.time_ns, TIME_FORMAT, zone);
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

/// Quotes a name as a field value, because a name may contain any text and must not look like another field.
fn value(name: &str) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || "._-@/".contains(character);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("\"{}\"", strip_quotes(name))
}

/// Replaces characters that would end a quoted value.
fn strip_quotes(text: &str) -> String {
    let plain = |character: char| if character.is_control() || "\"\\".contains(character) { '_' } else { character };
    text.chars().map(plain).collect()
}

/// Escapes the content of a quoted value for `KV_MODE = auto_escaped`.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if "\"\\".contains(character) {
            escaped.push('\\');
        }
        escaped.push(if character.is_control() { ' ' } else { character });
    }
    escaped
}

#[cfg(test)]
mod tests {
    use quarry_auth::AuditEvent;
    use quarry_event::time::NS_PER_SEC;

    use super::*;

    #[test]
    fn lines_match_splunks_format_and_names_cannot_forge_fields() {
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
        let batch = format_events(&records, "h", 1_795_244_401 * NS_PER_SEC, &TimeZone::fixed(jiff::tz::offset(-5)));
        let text = |row| String::from_utf8(batch.raw(row).to_vec()).unwrap();
        assert_eq!(
            text(0),
            "Audit:[timestamp=11-21-2026 02:00:00.007, user=admin, action=login attempt, info=failed, reason=\"wrong user name or \
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
