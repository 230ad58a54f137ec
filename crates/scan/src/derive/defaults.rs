//! Splunk's default fields, computed on request: `date_hour` and the other `date_*` fields, `timestartpos`,
//! `timeendpos`, `punct`, `linecount`, `splunk_server`, `_sourcetype`.
//!
//! None of them is stored. The `date_*` fields show the clock time written in the event text, regardless of the time
//! zone of the user or the search. The rules that extracted `_time` at index time run again to find this time; an event
//! whose time was not read from its text has no `date_*` fields. A field of the same name in the event takes
//! precedence.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, StringViewArray, StringViewBuilder};
use arrow::record_batch::RecordBatch;
use quarry_conf::PropsResolver;
use quarry_conf::props::ExtraTimeFields;
use quarry_eval::EngineError;
use quarry_eval::field_names::wildcard_parts;
use quarry_eval::messages::Messages;
use quarry_eval::rows;
use quarry_event::{Metadata, Page, TimeNs};
use quarry_pipeline::{WrittenTime, WrittenTimes};

use super::requested_fields::RequestedFields;
use crate::metadata_cache::MetadataCache;
use crate::sourcetype_renames::ORIGINAL_SOURCETYPE_FIELD;

/// The field with the number of lines of an event.
pub(crate) const LINE_COUNT_FIELD: &str = "linecount";
/// Maximum length of `punct` in characters.
const PUNCT_CHARS_MAX: usize = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DefaultField {
    Hour,
    MonthDay,
    Minute,
    Month,
    Second,
    WeekDay,
    Year,
    Zone,
    StampStart,
    StampEnd,
    Punct,
    LineCount,
    Server,
    Sourcetype,
}

const FIELDS: [(&str, DefaultField); 14] = [
    (ORIGINAL_SOURCETYPE_FIELD, DefaultField::Sourcetype),
    ("date_hour", DefaultField::Hour),
    ("date_mday", DefaultField::MonthDay),
    ("date_minute", DefaultField::Minute),
    ("date_month", DefaultField::Month),
    ("date_second", DefaultField::Second),
    ("date_wday", DefaultField::WeekDay),
    ("date_year", DefaultField::Year),
    ("date_zone", DefaultField::Zone),
    (LINE_COUNT_FIELD, DefaultField::LineCount),
    ("punct", DefaultField::Punct),
    ("splunk_server", DefaultField::Server),
    ("timeendpos", DefaultField::StampEnd),
    ("timestartpos", DefaultField::StampStart),
];

/// Whether `field` is a default field, or a wildcard pattern that covers a default field.
pub(crate) fn is_default_field(field: &str) -> bool {
    FIELDS.iter().any(|(name, _)| *name == field || (field.contains('*') && wildcard_parts(field, name).is_some()))
}

impl DefaultField {
    fn is_timestamp_part(self) -> bool {
        !matches!(self, DefaultField::Punct | DefaultField::LineCount | DefaultField::Server | DefaultField::Sourcetype)
    }
}

/// Computes the default fields of one search.
pub(super) struct DefaultFields {
    props: Arc<PropsResolver>,
    now: TimeNs,
    node: String,
    /// Default fields that the search requests.
    requested: Vec<&'static str>,
    sources: Mutex<MetadataCache<Arc<Source>>>,
}

/// Settings of one source that the default fields depend on.
struct Source {
    times: Option<WrittenTimes>,
    punct: bool,
}

impl DefaultFields {
    /// `now` is the time of the search, `node` this node's name (`splunk_server`).
    pub(super) fn new(
        props: &Arc<PropsResolver>,
        wanted: &RequestedFields,
        now: TimeNs,
        node: String,
    ) -> DefaultFields {
        let names = FIELDS.iter().map(|(name, _)| *name);
        let wanted = names.filter(|name| wanted.requests_explicitly(name)).collect();
        DefaultFields { props: Arc::clone(props), now, node, requested: wanted, sources: Mutex::default() }
    }

    /// Whether the search requests any default field.
    pub(super) fn is_requested(&self) -> bool {
        !self.requested.is_empty()
    }

    /// Adds the requested default fields, and those in `more`, to the rows. `selected` has each row's position in the
    /// page.
    pub(super) fn add(
        &self,
        rows: RecordBatch,
        events: &Page,
        selected: &[u32],
        more: &[String],
        messages: &Messages,
    ) -> Result<RecordBatch, EngineError> {
        let is_wanted = |name: &str| self.requested.contains(&name) || more.iter().any(|more| more == name);
        let fields: Vec<_> = FIELDS.iter().copied().filter(|(name, _)| is_wanted(name)).collect();
        if fields.is_empty() || selected.is_empty() {
            return Ok(rows);
        }
        let sources: Vec<Arc<Source>> = events.metas.iter().map(|meta| self.source(meta, messages)).collect();
        let reads_stamp = fields.iter().any(|(_, field)| field.is_timestamp_part());
        let mut columns: Vec<StringViewBuilder> = fields
            .iter()
            .map(|_| StringViewBuilder::with_capacity(selected.len()).with_deduplicate_strings())
            .collect();
        let mut text = String::new();
        for row in selected {
            let row = *row as usize;
            let source = &sources[events.meta[row] as usize];
            let raw = events.raw(row);
            let times = source.times.as_ref().filter(|_| reads_stamp);
            let stamp = times.and_then(|times| times.read(raw, events.time[row]));
            for ((_, field), column) in fields.iter().zip(&mut columns) {
                text.clear();
                match field {
                    DefaultField::Punct if source.punct => write_punct(raw, &mut text),
                    DefaultField::Punct => {}
                    DefaultField::LineCount => text.push_str(&line_count(raw).to_string()),
                    DefaultField::Server => text.push_str(&self.node),
                    // For a renamed sourcetype, the segment already provides the original name as `_sourcetype`, and
                    // that takes precedence.
                    DefaultField::Sourcetype => text.push_str(&events.metas[events.meta[row] as usize].sourcetype),
                    field => stamp.iter().for_each(|stamp| write_timestamp_part(stamp, *field, raw, &mut text)),
                }
                column.append_option((!text.is_empty()).then_some(text.as_str()));
            }
        }
        let mut result = rows;
        for ((name, _), mut column) in fields.into_iter().zip(columns) {
            result = fill_missing(&result, name, column.finish())?;
        }
        Ok(result)
    }

    fn source(&self, meta: &Metadata, messages: &Messages) -> Arc<Source> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = sources.get(meta) {
            return Arc::clone(source);
        }
        let settings = self.props.resolve(&meta.source, &meta.host, &meta.sourcetype);
        let times = match settings.extra_time_fields {
            ExtraTimeFields::All => WrittenTimes::new(&settings, self.now)
                .map_err(|error| messages.push(format!("{error}; its events have no date_ fields")))
                .ok(),
            ExtraTimeFields::SubSeconds | ExtraTimeFields::None => None,
        };
        let source = Arc::new(Source { times, punct: settings.annotate_punct });
        sources.insert(meta.clone(), Arc::clone(&source));
        source
    }
}

/// Adds a column whose values apply to events without a value of their own.
fn fill_missing(rows: &RecordBatch, name: &str, column: StringViewArray) -> Result<RecordBatch, EngineError> {
    if column.null_count() == column.len() {
        return Ok(rows.clone());
    }
    let column: ArrayRef = Arc::new(column);
    match rows::column(rows, name) {
        Some(own) => rows::with_column(rows, name, rows::coalesce(own, &column)),
        None => rows::with_column(rows, name, column),
    }
}

fn write_timestamp_part(stamp: &WrittenTime, field: DefaultField, raw: &[u8], out: &mut String) {
    let clock = &stamp.clock;
    // Positions count characters, as everywhere in SPL.
    let place = |byte: usize| raw.get(..byte).map_or(byte, |before| String::from_utf8_lossy(before).chars().count());
    let number = match field {
        DefaultField::Month => return out.push_str(&clock.month_name().to_ascii_lowercase()),
        DefaultField::WeekDay => return out.push_str(&clock.weekday_name().to_ascii_lowercase()),
        DefaultField::Zone => match stamp.zone {
            None => return out.push_str("local"),
            Some(offset) => i64::from(offset / 60),
        },
        DefaultField::Hour => i64::from(clock.hour),
        DefaultField::MonthDay => i64::from(clock.day),
        DefaultField::Minute => i64::from(clock.minute),
        DefaultField::Second => i64::from(clock.second),
        DefaultField::Year => clock.year,
        DefaultField::StampStart => place(stamp.start) as i64,
        DefaultField::StampEnd => place(stamp.end) as i64,
        DefaultField::Punct | DefaultField::LineCount | DefaultField::Server | DefaultField::Sourcetype => return,
    };
    out.push_str(&number.to_string());
}

/// Punctuation of the first line: spaces become `_`, tabs `t`; everything else that is not ASCII punctuation is
/// dropped.
fn write_punct(raw: &[u8], out: &mut String) {
    let line = raw.iter().take_while(|byte| !matches!(byte, b'\n' | b'\r'));
    let signs = line.filter_map(|byte| match byte {
        b' ' => Some('_'),
        b'\t' => Some('t'),
        byte if byte.is_ascii_punctuation() => Some(char::from(*byte)),
        _ => None,
    });
    out.extend(signs.take(PUNCT_CHARS_MAX));
}

/// Number of lines in a text; a trailing line break does not start another line.
fn line_count(raw: &[u8]) -> usize {
    let text = raw.strip_suffix(b"\n").unwrap_or(raw);
    memchr::memchr_iter(b'\n', text).count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn punct_covers_the_first_line_up_to_30_characters() {
        let punct = |text: &str| {
            let mut out = String::new();
            write_punct(text.as_bytes(), &mut out);
            out
        };
        assert_eq!(punct("2026-11-20T14:00:00Z user=eva\tbob"), "--::_=t");
        assert_eq!(punct("a_b (ü)\nnext!"), "__()");
        assert_eq!(punct(&"!".repeat(40)).len(), PUNCT_CHARS_MAX);
    }

    #[test]
    fn line_count_ignores_a_trailing_line_break() {
        assert_eq!(["", "a", "a\n", "a\nb", "a\n\nb\n"].map(|text| line_count(text.as_bytes())), [1, 1, 1, 2, 3]);
    }

    #[test]
    fn wildcard_patterns_match_default_fields() {
        assert!(["date_hour", "date_*", "*punct", "*"].iter().all(|name| is_default_field(name)));
        assert!(!["date", "hour", "splunk", "x*"].iter().any(|name| is_default_field(name)));
    }
}
