//! Assembler: turns lines into finished events in the caller's batch by merging lines, finding timestamps, converting
//! text, reading header fields and applying rules.

use std::sync::Arc;

use memchr::memchr;
use quarry_conf::PropsSettings;
use quarry_conf::props::HeaderMode;
use quarry_conf::settings::indexes::IndexNames;
use quarry_event::time::TimeNs;
use quarry_event::{EventBatch, Metadata};
use quarry_stdx::number::u32_of;

use crate::error::PipelineError;
use crate::extract::{auto_kv, json_fields};
use crate::header::{Header, HeaderRules, LineRole};
use crate::host::HostRules;
use crate::lines::Line;
use crate::merge::{MergeRules, OpenEvent};
use crate::pipeline::{PipelineCounters, ResumeHint};
use crate::recognise::DateOrder;
use crate::text::{append_text, is_text, text_of};
use crate::timestamp::{FoundTimestamp, READ_AHEAD_BYTES_MAX, TimeHistory, Timestamper};
use crate::typing::Typing;
use crate::typing::event::TypedEvent;

/// Prefix of a line that sets the metadata of the following events.
const METADATA_MARK: &[u8] = b"***SPLUNK***";

/// Processing of events after their timestamps: none, host extraction only, or all rules.
#[derive(Debug)]
pub(crate) struct EventRules {
    pub(crate) hosts: Option<HostRules>,
    pub(crate) typing: Option<Box<Typing>>,
    /// Indexes that accept events.
    pub(crate) indexes: Arc<IndexNames>,
}

/// Assembles events from lines.
#[derive(Debug)]
pub(crate) struct Assembler {
    rules: Option<MergeRules>,
    open: OpenEvent,
    /// Timestamp of the open event's first line.
    open_found: Option<FoundTimestamp>,
    timestamper: Timestamper,
    columns: Option<HeaderRules>,
    header: Option<Header>,
    /// Paths of the members of JSON events that hold the time; empty if the whole text is searched.
    json_time_paths: Vec<String>,
    meta: Metadata,
    /// Whether lines may set other metadata, and whether a line has done so.
    header_mode: HeaderMode,
    is_renamed: bool,
    /// Reason why events are not in the index named by a metadata line.
    refused: Option<String>,
    /// Index of `meta` in the batch of the current call.
    meta_row: Option<u32>,
    rules_of_events: EventRules,
    index_time: TimeNs,
    /// Text of an event that needs decoding.
    decoded: Vec<u8>,
    /// Input offset after which all bytes so far are ASCII.
    ascii_from: u64,
    /// Lines from later in the source, which may show whether its dates begin with the day or the month.
    samples: Vec<u8>,
    /// Offsets of the first bytes of the emitted events, if they are requested.
    starts: Option<Vec<u64>>,
    /// Number of offsets in `starts` that refer to the input instead of the decoded text.
    converted_starts: usize,
}

impl Assembler {
    pub(crate) fn new(
        settings: &PropsSettings,
        timestamper: Timestamper,
        meta: Metadata,
        rules_of_events: EventRules,
        now: TimeNs,
    ) -> Result<Assembler, PipelineError> {
        let columns = HeaderRules::new(settings)?;
        Ok(Assembler {
            rules: MergeRules::new(settings, timestamper.reads_text())?,
            open: OpenEvent::default(),
            open_found: None,
            timestamper,
            header: columns.as_ref().and_then(HeaderRules::configured_header),
            columns,
            json_time_paths: settings.json_time_paths.clone(),
            meta,
            header_mode: settings.header_mode,
            is_renamed: false,
            refused: None,
            meta_row: None,
            rules_of_events,
            index_time: now,
            decoded: Vec::new(),
            ascii_from: 0,
            samples: Vec::new(),
            starts: None,
            converted_starts: 0,
        })
    }

    /// Sets the current time for subsequent lines.
    pub(crate) fn set_now(&mut self, now: TimeNs, modified: Option<TimeNs>) {
        self.index_time = now;
        self.timestamper.set_now(now, modified);
        if let Some(typing) = &mut self.rules_of_events.typing {
            typing.set_now(now);
        }
    }

    /// Must be called before lines are passed with a batch.
    pub(crate) fn begin(&mut self, out: &mut EventBatch) {
        out.index_time = self.index_time;
        self.meta_row = None;
        if let Some(hosts) = &mut self.rules_of_events.hosts {
            hosts.begin(out);
        }
        if let Some(typing) = &mut self.rules_of_events.typing {
            typing.begin(out);
        }
    }

    /// Reason why an event did not go to the index named by a rule or a line.
    pub(crate) fn refused_index(&self) -> Option<&str> {
        let of_rules = self.rules_of_events.typing.as_ref().and_then(|typing| typing.refused());
        of_rules.or(self.refused.as_deref())
    }

    /// Must be called with the bytes that contain the next lines; they end at input offset `end`.
    pub(crate) fn look_ahead(&mut self, bytes: &[u8], end: u64) {
        if !bytes.is_ascii() {
            self.ascii_from = end;
        }
        self.timestamper.look_ahead(bytes);
        // The nearest evidence has precedence, so the samples are read after the bytes themselves.
        if !self.samples.is_empty() && memchr(b'\n', bytes).is_some() {
            let samples = std::mem::take(&mut self.samples);
            samples.chunks(READ_AHEAD_BYTES_MAX).for_each(|part| self.timestamper.look_ahead(part));
        }
    }

    /// Takes whole lines from later in the source.
    pub(crate) fn set_samples(&mut self, samples: Vec<u8>) {
        self.samples = samples;
    }

    /// Records the offset of each event's first byte from now on.
    pub(crate) fn record_starts(&mut self) {
        self.starts.get_or_insert_default();
    }

    /// The offsets that were recorded since they were last taken.
    pub(crate) fn take_starts(&mut self) -> Vec<u64> {
        self.converted_starts = 0;
        self.starts.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Converts the offsets that were recorded since the last call.
    pub(crate) fn convert_starts(&mut self, convert: impl Fn(u64) -> u64) {
        let Some(starts) = &mut self.starts else { return };
        starts.iter_mut().skip(self.converted_starts).for_each(|start| *start = convert(*start));
        self.converted_starts = starts.len();
    }

    /// Whether lines from later in the source could show the order of day and month in its dates.
    pub(crate) fn needs_samples(&self) -> bool {
        self.timestamper.needs_order()
    }

    /// Offset of the event being assembled.
    pub(crate) fn open_event_offset(&self) -> Option<u64> {
        (self.open.lines > 0).then_some(self.open.start)
    }

    /// Bytes of memory held.
    pub(crate) fn capacity(&self) -> usize {
        self.open.text.capacity() + self.decoded.capacity() + self.samples.capacity()
    }

    /// State that another assembler needs to continue after the last event.
    pub(crate) fn resume_hint(&self, sourcetype: String) -> ResumeHint {
        ResumeHint {
            sourcetype: Some(sourcetype),
            history: self.timestamper.history(),
            header: self.header.clone(),
            encoding: None,
            metadata: self.is_renamed.then(|| self.meta.clone()),
            is_at_start: false,
        }
    }

    /// Continues where another assembler stopped.
    pub(crate) fn resume(&mut self, history: TimeHistory, header: Option<Header>, meta: Option<Metadata>) {
        if let Some(meta) = meta {
            (self.meta, self.is_renamed) = (meta, true);
        }
        self.timestamper.set_history(history);
        self.header = header.or(self.header.take());
    }

    /// Takes a line, and emits the event that it completes.
    pub(crate) fn push_line(&mut self, line: Line<'_>, out: &mut EventBatch, counters: &mut PipelineCounters) {
        counters.truncated_lines += u64::from(line.is_truncated);
        if self.header_mode != HeaderMode::Never && self.take_metadata(&line, out, counters) {
            return;
        }
        if let Some(columns) = &mut self.columns {
            match columns.line_role(line.text, self.header.is_some()) {
                LineRole::Header(header) => {
                    self.header = Some(header);
                    return;
                }
                LineRole::Preamble => return,
                LineRole::Event => {}
            }
        }
        let Some(rules) = &self.rules else {
            let found = self.find_time(line.text);
            self.emit(line.text, line.start, found, out, counters);
            return;
        };
        let found = if rules.needs_dates() { self.timestamper.find(line.text) } else { None };
        if self.open.lines > 0 {
            let has_date = found.is_some_and(|found| found.begins_event);
            if rules.begins_event(&self.open, line.text, has_date) {
                self.close(out, counters);
            } else {
                counters.merged_lines += 1;
            }
        }
        let Some(rules) = &self.rules else { return };
        if self.open.lines == 0 {
            self.open_found = found;
        }
        rules.join(&mut self.open, line.text, line.start);
    }

    /// Handles a line `***SPLUNK*** host=… source=… sourcetype=… index=…`, whose values apply from the next event on.
    /// Returns false if the line is not such a line.
    fn take_metadata(&mut self, line: &Line<'_>, out: &mut EventBatch, counters: &mut PipelineCounters) -> bool {
        let Some(rest) = line.text.strip_prefix(METADATA_MARK) else { return false };
        if self.header_mode == HeaderMode::FirstLine && line.start > 0 {
            return false;
        }
        self.close(out, counters);
        let text = String::from_utf8_lossy(rest);
        auto_kv(&text, &mut |name, value| {
            let place = match name {
                "host" => &mut self.meta.host,
                "source" => &mut self.meta.source,
                "sourcetype" => &mut self.meta.sourcetype,
                "index" => match self.rules_of_events.indexes.check(value) {
                    Ok(()) => &mut self.meta.index,
                    Err(reason) => {
                        let stays = &self.meta.index;
                        self.refused.get_or_insert_with(|| format!("{reason}; events after such a line keep {stays}"));
                        return;
                    }
                },
                _ => return,
            };
            *place = Arc::from(value);
        });
        (self.meta_row, self.is_renamed) = (None, true);
        true
    }

    /// The timestamp of a line; read from its columns or members, if the settings name those with times.
    fn find_time(&self, line: &[u8]) -> Option<FoundTimestamp> {
        if !self.json_time_paths.is_empty() {
            return self.timestamper.find(json_time_text(&self.json_time_paths, line).as_bytes());
        }
        match (&self.columns, &self.header) {
            (Some(columns), Some(header)) if columns.has_time_columns() => {
                self.timestamper.find(columns.time_text(header, &String::from_utf8_lossy(line)).as_bytes())
            }
            _ => self.timestamper.find(line),
        }
    }

    /// Emits the open event.
    pub(crate) fn close(&mut self, out: &mut EventBatch, counters: &mut PipelineCounters) {
        if self.open.lines == 0 {
            return;
        }
        let mut open = std::mem::take(&mut self.open);
        let of_first_line = self.open_found.take();
        let found = match self.json_time_paths.is_empty() {
            true => of_first_line.or_else(|| self.timestamper.find(&open.text)),
            // The members with the time may be in any line.
            false => self.find_time(&open.text),
        };
        self.emit(&open.text, open.start, found, out, counters);
        open.clear();
        self.open = open;
    }

    /// Emits the event `raw`, whose first byte was at offset `start` of the text.
    fn emit(
        &mut self,
        raw: &[u8],
        start: u64,
        found: Option<FoundTimestamp>,
        out: &mut EventBatch,
        counters: &mut PipelineCounters,
    ) {
        let first = out.len();
        self.append(raw, start, found, out, counters);
        if let Some(starts) = &mut self.starts {
            // Rules may drop an event or make copies of it.
            starts.extend((first..out.len()).map(|_| start));
        }
    }

    /// Appends the event to the batch.
    fn append(
        &mut self,
        raw: &[u8],
        start: u64,
        found: Option<FoundTimestamp>,
        out: &mut EventBatch,
        counters: &mut PipelineCounters,
    ) {
        let (time, is_own) = self.timestamper.time(found);
        counters.bad_timestamps += u64::from(!is_own);
        // A date with dots is read with the day first, as is usual. Only dates read with the month first may
        // surprise a user, so only such dates are counted.
        let is_month_first = |found: &FoundTimestamp| found.read == Some(DateOrder::MonthDayYear);
        let is_ambiguous = found.is_some_and(|found| found.is_ambiguous && is_month_first(&found));
        counters.ambiguous_dates += u64::from(is_own && is_ambiguous);
        let text = if start >= self.ascii_from || is_text(raw) {
            raw
        } else {
            self.decoded.clear();
            counters.undecodable_bytes += append_text(raw, &mut self.decoded);
            &self.decoded
        };
        if let Some(typing) = &mut self.rules_of_events.typing {
            let mut event = TypedEvent::new(text_of(text.to_vec()), time, self.meta.clone());
            if let (Some(columns), Some(header)) = (&self.columns, &self.header) {
                columns.read_fields(header, &event.raw, |name, value| {
                    event.fields.push((Arc::clone(name), value.to_owned()));
                });
            }
            typing.take(event, out, counters);
            return;
        }
        counters.events += 1;
        let own_host = self.rules_of_events.hosts.as_mut().and_then(|hosts| hosts.metadata_row(raw, &self.meta, out));
        let meta = match (own_host, self.meta_row) {
            (Some(row), _) | (None, Some(row)) => row,
            (None, None) => *self.meta_row.insert(out.intern(&self.meta)),
        };
        out.push(text, time, meta);
        if let (Some(columns), Some(header)) = (&self.columns, &self.header)
            && let Ok(line) = std::str::from_utf8(text)
        {
            let row = u32_of(out.len() - 1);
            columns.read_fields(header, line, |name, value| out.fields.push(row, name, value));
        }
    }
}

/// The first values at the paths in a JSON object, joined by blanks: the time of the event.
fn json_time_text(paths: &[String], text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut found: Vec<Option<String>> = vec![None; paths.len()];
    json_fields(&text, &mut |path, value| {
        if let Some(at) = paths.iter().position(|known| known == path) {
            found[at].get_or_insert_with(|| value.into_owned());
        }
    });
    let found: Vec<String> = found.into_iter().flatten().collect();
    found.join(" ")
}
