//! The systemd journal as written by `journalctl -o json`: an entry per line.
//!
//! The message is the event's text, selected fields become indexed fields, and the time is the entry's own. Reading
//! resumes at the cursor of the last entry.

use std::collections::BTreeSet;
use std::sync::Arc;

use quarry_event::{EventBatch, Metadata, TimeNs};
use quarry_pipeline::{EventTyping, TypingStage, WholeEvent};
use quarry_stdx::Fault;
use quarry_stdx::number::u32_of;
use serde_json::Value;

use super::OutputReader;

/// Maximum bytes of a line; an entry with a longer one is skipped.
const LINE_BYTES_MAX: usize = 16 << 20;
/// Default fields.
const FIELDS: &[&str] = &[
    "PRIORITY",
    "_COMM",
    "_EXE",
    "_GID",
    "_MACHINE_ID",
    "_PID",
    "_SYSTEMD_CGROUP",
    "_SYSTEMD_UNIT",
    "_TRANSPORT",
    "_UID",
];
/// Nanoseconds per microsecond.
const MICROSECOND: i64 = 1_000;

/// Reads entries of the journal.
#[derive(Debug)]
pub struct JournalReader {
    metadata: Metadata,
    /// Whether the user set the host; otherwise the host is taken from the entry.
    host_is_fixed: bool,
    fields: BTreeSet<String>,
    typing: Arc<EventTyping>,
    held: Vec<u8>,
    /// Set until the end of a line that is too long.
    skips_line: bool,
    cursor: Option<String>,
    faults: BTreeSet<String>,
}

impl JournalReader {
    /// Creates a reader that indexes the journal fields in `include` (if empty, the default fields) except those in
    /// `exclude`.
    pub fn new(
        metadata: Metadata,
        host_is_fixed: bool,
        include: &[&str],
        exclude: &[&str],
        typing: Arc<EventTyping>,
    ) -> JournalReader {
        let wanted = if include.is_empty() { FIELDS } else { include };
        let wanted = wanted.iter().filter(|name| !exclude.contains(name) && **name != "MESSAGE");
        let fields = wanted.map(|name| (*name).to_owned()).collect();
        let (held, faults) = (Vec::new(), BTreeSet::new());
        let (skips_line, cursor) = (false, None);
        JournalReader { metadata, host_is_fixed, fields, typing, held, skips_line, cursor, faults }
    }

    fn line(&mut self, line: &[u8], now: TimeNs, out: &mut EventBatch) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let Ok(Value::Object(entry)) = serde_json::from_slice::<Value>(line) else {
            let start: String = String::from_utf8_lossy(line).chars().take(80).collect();
            self.faults.insert(format!("journalctl wrote {start:?}, which is not a journal entry; it is ignored"));
            return;
        };
        let first = |name: &str| entry.get(name).and_then(|value| texts(value).into_iter().next());
        let cursor = first("__CURSOR");
        let time = first("__REALTIME_TIMESTAMP").and_then(|text| text.parse::<i64>().ok());
        let time = time.and_then(|time| time.checked_mul(MICROSECOND)).unwrap_or(now);
        let mut meta = self.metadata.clone();
        if let Some(host) = first("_HOSTNAME").filter(|_| !self.host_is_fixed) {
            meta.host = host.into();
        }
        let chosen = self.fields.iter().filter_map(|name| Some((Arc::<str>::from(name.as_str()), entry.get(name)?)));
        let fields =
            chosen.flat_map(|(name, value)| texts(value).into_iter().map(move |text| (Arc::clone(&name), text)));
        let fields: Vec<(Arc<str>, String)> = fields.collect();
        let raw = first("MESSAGE").unwrap_or_default();
        if !raw.is_empty() {
            self.event(WholeEvent { raw, time, meta, fields }, now, out);
        }
        self.cursor = cursor.or(self.cursor.take());
    }

    fn event(&mut self, event: WholeEvent, now: TimeNs, out: &mut EventBatch) {
        let plan = self.typing.plan(&event.meta);
        self.faults.extend(plan.settings_error().map(ToString::to_string));
        let (events, refused) = match plan.is_empty() {
            true => (vec![event], None),
            false => self.typing.run(&plan, event, self.host_is_fixed, TypingStage::All, now),
        };
        self.faults.extend(refused);
        out.index_time = now;
        for event in events {
            let (meta, row) = (out.intern(&event.meta), u32_of(out.len()));
            out.push(event.raw.as_bytes(), event.time, meta);
            event.fields.iter().for_each(|(name, value)| out.fields.push(row, name, value));
        }
    }
}

impl OutputReader for JournalReader {
    fn push(&mut self, bytes: &[u8], now: TimeNs, out: &mut EventBatch) -> Result<(), Fault> {
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let mut line = std::mem::take(&mut self.held);
            line.extend_from_slice(&rest[..end]);
            if !std::mem::take(&mut self.skips_line) {
                self.line(&line, now, out);
            }
            rest = &rest[end + 1..];
        }
        self.held.extend_from_slice(rest);
        if self.held.len() > LINE_BYTES_MAX || self.skips_line {
            // An error would end the program, and the next run would begin with the same entry.
            if !std::mem::replace(&mut self.skips_line, true) {
                self.faults.insert(format!("a journal entry of more than {LINE_BYTES_MAX} bytes is skipped"));
            }
            self.held = Vec::new();
        }
        Ok(())
    }

    fn finish(&mut self, now: TimeNs, out: &mut EventBatch) {
        let line = std::mem::take(&mut self.held);
        self.skips_line = false;
        // A truncated line is skipped: it comes after the cursor, so its entry will be read again.
        if serde_json::from_slice::<Value>(&line).is_ok() {
            self.line(&line, now, out);
        }
    }

    fn take_faults(&mut self) -> Vec<String> {
        std::mem::take(&mut self.faults).into_iter().collect()
    }

    fn resume_position(&self) -> Option<&str> {
        self.cursor.as_deref()
    }
}

/// The texts of a value. In JSON, a field with several values is an array of values, and a value that is not text is an
/// array of bytes.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Number(number) => vec![number.to_string()],
        Value::Array(parts) => {
            let byte = |part: &Value| part.as_u64().and_then(|byte| u8::try_from(byte).ok());
            match parts.iter().map(byte).collect::<Option<Vec<u8>>>() {
                Some(bytes) if !bytes.is_empty() => vec![String::from_utf8_lossy(&bytes).into_owned()],
                // A value in an array may itself be an array of bytes; journalctl does not nest deeper.
                _ => parts
                    .iter()
                    .flat_map(|part| if part.is_array() { inner(part).into_iter().collect() } else { texts(part) })
                    .collect(),
            }
        }
        _ => Vec::new(),
    }
}

fn inner(value: &Value) -> Option<String> {
    let bytes = value.as_array()?.iter().map(|part| part.as_u64().and_then(|byte| u8::try_from(byte).ok()));
    Some(String::from_utf8_lossy(&bytes.collect::<Option<Vec<u8>>>()?).into_owned())
}
