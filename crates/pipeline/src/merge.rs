//! Merging of lines into events.
//!
//! Without `SHOULD_LINEMERGE`, every line is an event. Otherwise, a line either joins the event being assembled or
//! begins a new one, according to [`MergeRules::begins_event`]. All state other than the event itself ends with the
//! event, so that reading can resume at any event's first byte.

use quarry_conf::PropsSettings;

use crate::error::PipelineError;
use crate::pattern::Pattern;

/// Maximum size of a merged event, in bytes.
pub const EVENT_BYTES_MAX: usize = 16 << 20;

/// `SHOULD_LINEMERGE` and related settings.
#[derive(Debug)]
pub(crate) struct MergeRules {
    before: Option<Pattern>,
    before_date: bool,
    after: Option<Pattern>,
    not_after: Option<Pattern>,
    not_before: Option<Pattern>,
    lines_max: usize,
}

/// An event that further lines may join.
#[derive(Debug, Default)]
pub(crate) struct OpenEvent {
    /// The event's lines, joined by line feeds.
    pub(crate) text: Vec<u8>,
    /// Number of lines; 0 means that no event is open.
    pub(crate) lines: usize,
    /// Input offset of the event's first byte.
    pub(crate) start: u64,
    /// Whether the last line matched `MUST_BREAK_AFTER`.
    is_closed: bool,
    /// Whether `MUST_NOT_BREAK_AFTER` keeps the event open.
    is_held: bool,
}

impl MergeRules {
    /// The rules; `None` if lines are not merged. `reads_dates` tells whether timestamps come from the text.
    pub(crate) fn new(settings: &PropsSettings, reads_dates: bool) -> Result<Option<MergeRules>, PipelineError> {
        if !settings.should_line_merge {
            return Ok(None);
        }
        let pattern = |setting, pattern: &Option<String>| PipelineError::pattern(settings, setting, pattern.as_deref());
        let rules = MergeRules {
            before: pattern("BREAK_ONLY_BEFORE", &settings.break_only_before)?,
            before_date: settings.break_only_before_date && reads_dates,
            after: pattern("MUST_BREAK_AFTER", &settings.must_break_after)?,
            not_after: pattern("MUST_NOT_BREAK_AFTER", &settings.must_not_break_after)?,
            not_before: pattern("MUST_NOT_BREAK_BEFORE", &settings.must_not_break_before)?,
            lines_max: settings.max_events.max(1),
        };
        // The settings require dates to separate events, but timestamps are not read; without another rule, everything
        // would become one event, so lines are not merged.
        let is_blob =
            settings.break_only_before_date && !reads_dates && rules.before.is_none() && rules.after.is_none();
        Ok((!is_blob).then_some(rules))
    }

    /// Whether dates determine where events begin.
    pub(crate) fn needs_dates(&self) -> bool {
        self.before.is_none() && self.before_date
    }

    /// Whether `line` begins a new event after `open`.
    pub(crate) fn begins_event(&self, open: &OpenEvent, line: &[u8], has_date: bool) -> bool {
        let matches = |pattern: &Option<Pattern>| pattern.as_ref().is_some_and(|pattern| pattern.is_match(line));
        let is_full = open.lines >= self.lines_max || open.text.len() + line.len() >= EVENT_BYTES_MAX;
        if is_full || open.is_closed {
            return true;
        }
        if open.is_held || matches(&self.not_before) {
            return false;
        }
        match &self.before {
            Some(before) => before.is_match(line),
            None => self.before_date && has_date,
        }
    }

    /// Appends `line` to the open event.
    pub(crate) fn join(&self, open: &mut OpenEvent, line: &[u8], start: u64) {
        if open.lines == 0 {
            open.start = start;
        } else {
            open.text.push(b'\n');
        }
        open.text.extend_from_slice(line);
        open.lines += 1;
        let matches = |pattern: &Option<Pattern>| pattern.as_ref().is_some_and(|pattern| pattern.is_match(line));
        open.is_closed = matches(&self.after);
        open.is_held = !open.is_closed && (open.is_held || matches(&self.not_after));
    }
}

impl OpenEvent {
    /// Clears the event but keeps its buffer, unless the buffer is large.
    pub(crate) fn clear(&mut self) {
        let text = std::mem::take(&mut self.text);
        *self = OpenEvent::default();
        if text.capacity() <= RETAINED_BYTES_MAX {
            self.text = text;
            self.text.clear();
        }
    }
}

/// Maximum size of a buffer that is kept between events.
const RETAINED_BYTES_MAX: usize = 1 << 20;
