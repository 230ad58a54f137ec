//! State of one channel's text, and its pipeline.
//!
//! A forwarder that does not parse sends the text of a file over a channel, in pieces of any length. The pieces pass
//! through one pipeline until the channel is silent, changes its metadata or ends. The id of a piece is due for
//! acknowledgment when the whole piece has left the pipeline as events.

use std::collections::VecDeque;
use std::sync::Arc;

use super::S2sError;
use jiff::tz::TimeZone;
use quarry_conf::PropsResolver;
use quarry_event::{EventBatch, Metadata, TimeNs};
use quarry_pipeline::{Pipeline, PipelineContext, SourceInfo};
use quarry_stdx::number::u32_of;

/// Maximum number of ids of a channel whose pieces have not become events yet.
const WAITING_IDS_MAX: usize = 65_536;
/// Maximum number of changes of the fields within a channel's text that is not part of events yet; beyond it, the
/// oldest are forgotten.
const FIELD_CHANGES_MAX: usize = 64;
/// Maximum approximate bytes of the fields that a channel keeps for incomplete text, and of the fields of a piece.
const FIELD_BYTES_MAX: usize = 64 << 10;
/// Maximum difference between the time a forwarder sends and our clock; beyond it, the forwarder's time is not used.
const CLOCK_DIFFERENCE_NS: i64 = 86_400_000_000_000;

/// Indexed fields, by name and value.
pub(super) type Fields = Vec<(Arc<str>, Box<str>)>;

/// Text of one channel, or of one source in versions 2 and 3.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) metadata: Metadata,
    pipeline: Option<Box<Pipeline>>,
    /// Bytes passed to the pipeline.
    fed: u64,
    /// Fields of the text that is not part of events yet. Each entry applies from its offset up to the next entry.
    fields: VecDeque<(u64, Fields)>,
    /// Ids of pieces, each with the offset of the piece's end.
    waiting: VecDeque<(u64, u64)>,
    /// Monotonic time of the last piece.
    pub(super) last: i64,
    /// Error in the settings of the channel's sourcetype, to be reported once.
    pub(super) problem: Option<String>,
}

impl Channel {
    pub(super) fn new(metadata: Metadata) -> Channel {
        let (fields, waiting) = (VecDeque::new(), VecDeque::new());
        Channel { metadata, pipeline: None, fed: 0, fields, waiting, last: 0, problem: None }
    }

    /// Processes a piece of text; `sent` is the forwarder's time, used for events without a timestamp.
    pub(super) fn push(
        &mut self,
        props: &PropsResolver,
        piece: Piece<'_>,
        now: TimeNs,
        batch: &mut EventBatch,
    ) -> Result<(), S2sError> {
        let modified = piece.sent.filter(|sent| sent.abs_diff(now) <= CLOCK_DIFFERENCE_NS.unsigned_abs());
        let pipeline = match &mut self.pipeline {
            Some(pipeline) => {
                pipeline.set_now(now, modified);
                pipeline
            }
            None => {
                self.fed = 0;
                self.fields.clear();
                let info = SourceInfo {
                    index: self.metadata.index.to_string(),
                    host: self.metadata.host.to_string(),
                    host_is_fixed: false,
                    source: self.metadata.source.to_string(),
                    sourcetype: Some(self.metadata.sourcetype.to_string()).filter(|name| !name.is_empty()),
                };
                let context = PipelineContext { now, zone: piece.zone.cloned(), modified, orders: None };
                let made = Pipeline::new_lenient(info, props, context)
                    .map_err(|error| S2sError::Pipeline(error.to_string()))?;
                self.problem = made.settings_error().map(ToString::to_string);
                let pipeline = self.pipeline.insert(Box::new(made));
                pipeline.record_starts();
                pipeline
            }
        };
        keep_fields(&mut self.fields, self.fed, piece.fields)?;
        let first = batch.len();
        pipeline.push(piece.raw, batch);
        self.fed += piece.raw.len() as u64;
        let (starts, safe) = (pipeline.take_starts(), pipeline.safe_offset());
        self.add_sent_fields(batch, first, &starts);
        self.forget_fields_before(safe);
        if let Some(id) = piece.id {
            if self.waiting.len() >= WAITING_IDS_MAX {
                return Err(S2sError::Malformed("too many ids wait for the end of one event"));
            }
            self.waiting.push_back((id, self.fed));
        }
        Ok(())
    }

    /// Moves the ids of pieces that have become events to `due`.
    pub(super) fn take_due(&mut self, due: &mut Vec<u64>) {
        let safe = self.pipeline.as_ref().map_or(u64::MAX, |pipeline| pipeline.safe_offset());
        while self.waiting.front().is_some_and(|(_, end)| *end <= safe) {
            due.extend(self.waiting.pop_front().map(|(id, _)| id));
        }
    }

    /// Completes remaining events and drops the pipeline.
    pub(super) fn finish(&mut self, batch: &mut EventBatch) {
        // All pieces are events now, so their ends are not offsets in the text of the next pipeline.
        self.waiting.iter_mut().for_each(|(_, end)| *end = 0);
        if let Some(mut pipeline) = self.pipeline.take() {
            let first = batch.len();
            pipeline.finish(batch);
            self.add_sent_fields(batch, first, &pipeline.take_starts());
            self.forget_fields_before(self.fed);
        }
    }

    /// Adds to each event from row `first` on the fields that were sent with the event's first byte. `starts` contains
    /// the offsets at which these events begin. An event that continues in a piece with other fields keeps the fields
    /// with which it began.
    fn add_sent_fields(&self, batch: &mut EventBatch, first: usize, starts: &[u64]) {
        assert_eq!(batch.len() - first, starts.len(), "each event has an offset");
        for (row, start) in (first..).zip(starts) {
            let begun = self.fields.iter().rev().find(|(from, _)| from <= start);
            if let Some((_, fields)) = begun.or(self.fields.front()) {
                add_fields(batch, row, fields);
            }
        }
    }

    /// Forgets the fields of text before this offset.
    fn forget_fields_before(&mut self, offset: u64) {
        while self.fields.get(1).is_some_and(|(from, _)| *from <= offset) {
            self.fields.pop_front();
        }
    }

    /// Whether there is a pipeline, which may hold an incomplete event.
    pub(super) fn is_open(&self) -> bool {
        self.pipeline.is_some()
    }

    pub(super) fn held_bytes(&self) -> usize {
        let fields = self.fields.iter().map(|(_, fields)| bytes_of(fields)).sum::<usize>();
        self.pipeline.as_ref().map_or(0, |pipeline| pipeline.buffered_capacity()) + fields
    }
}

/// Keeps the fields of a piece at this offset if they differ from those before; forgets the oldest beyond the limits.
fn keep_fields(kept: &mut VecDeque<(u64, Fields)>, offset: u64, fields: &Fields) -> Result<(), S2sError> {
    if kept.back().is_some_and(|(_, last)| last == fields) {
        return Ok(());
    }
    let mut bytes = bytes_of(fields);
    if bytes > FIELD_BYTES_MAX {
        return Err(S2sError::Malformed("the fields of a piece of text have more than 64 KiB"));
    }
    bytes += kept.iter().map(|(_, fields)| bytes_of(fields)).sum::<usize>();
    while kept.len() >= FIELD_CHANGES_MAX || bytes > FIELD_BYTES_MAX {
        let Some((_, forgotten)) = kept.pop_front() else { break };
        bytes -= bytes_of(&forgotten);
    }
    kept.push_back((offset, fields.clone()));
    Ok(())
}

/// Approximate bytes of fields in memory.
fn bytes_of(fields: &Fields) -> usize {
    fields.iter().map(|(name, value)| name.len() + value.len() + size_of::<(Arc<str>, Box<str>)>()).sum()
}

/// A piece of a channel's text.
pub(super) struct Piece<'a> {
    pub(super) raw: &'a [u8],
    pub(super) id: Option<u64>,
    pub(super) sent: Option<TimeNs>,
    /// Time zone of the forwarder; `None` means the node's zone.
    pub(super) zone: Option<&'a TimeZone>,
    pub(super) fields: &'a Fields,
}

/// Adds the fields to an event.
pub(super) fn add_fields(batch: &mut EventBatch, row: usize, fields: &Fields) {
    for (name, value) in fields {
        batch.fields.push(u32_of(row), name, value);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use quarry_conf::{ConfSource, Layer, Layers};

    use super::*;

    const NOW: i64 = 1_795_225_298_000_000_000;

    /// The texts of the events of these pieces, each with the `env` that was sent with its piece.
    fn events_of(sourcetype: &str, pieces: &[(&str, Vec<u8>)]) -> Vec<String> {
        let source = |conf: &str, text: &str| ConfSource {
            layer: Layer::SystemLocal,
            app: None,
            file: format!("{conf}.conf"),
            text: text.to_owned(),
        };
        let props = "[wide]\nCHARSET = UTF-16LE\n[rules]\nTRANSFORMS-a = drop\n";
        let transforms = "[drop]\nREGEX = two\nDEST_KEY = queue\nFORMAT = nullQueue\n";
        let props = PropsResolver::new(&Layers::new([source("props", props), source("transforms", transforms)]));
        let [index, host, file, sourcetype] = ["main", "h", "/a", sourcetype].map(Arc::from);
        let mut channel = Channel::new(Metadata { index, host, source: file, sourcetype });
        let mut batch = EventBatch::default();
        for (env, raw) in pieces {
            let fields = vec![("env".into(), (*env).into())];
            let piece = Piece { raw, id: None, sent: None, zone: None, fields: &fields };
            channel.push(&props, piece, NOW, &mut batch).unwrap();
        }
        channel.finish(&mut batch);
        let env = |row: usize| {
            let fields = batch.fields.iter().filter(|field| field.row as usize == row && &**field.name == "env");
            fields.map(|field| format!(" {}", field.value)).collect::<String>()
        };
        (0..batch.len()).map(|row| String::from_utf8_lossy(batch.raw(row)).into_owned() + &env(row)).collect()
    }

    #[test]
    fn events_have_the_fields_of_their_own_pieces_however_many_are_buffered() {
        let line = |second: usize, text: &str| format!("2026-11-20 10:00:0{second} {text}");
        let texts = [
            ("a", format!("{}\n{}\n", line(1, "one"), line(2, "two"))),
            ("b", format!("{}\n{}", line(3, "three"), &line(4, "four")[..12])),
            ("c", format!("{}\n", &line(4, "four")[12..])),
            ("d", format!("{}\n{}\n", line(5, "five"), line(6, "six"))),
        ];
        let expected: Vec<String> =
            [(1, "one a"), (2, "two a"), (3, "three b"), (4, "four b"), (5, "five d"), (6, "six d")]
                .iter()
                .map(|(second, text)| line(*second, text))
                .collect();
        let pieces = texts.each_ref().map(|(env, text)| (*env, text.clone().into_bytes()));
        // Without a sourcetype, the pieces wait until the sourcetype is guessed.
        for sourcetype in ["", "st"] {
            assert_eq!(events_of(sourcetype, &pieces), expected, "{sourcetype}");
        }
        let without_second: Vec<&String> = expected.iter().filter(|event| !event.contains("two")).collect();
        assert_eq!(events_of("rules", &pieces).iter().collect::<Vec<_>>(), without_second);
        let wide = texts.map(|(env, text)| (env, text.encode_utf16().flat_map(u16::to_le_bytes).collect()));
        assert_eq!(events_of("wide", &wide), expected);
    }

    #[test]
    fn pieces_before_a_change_of_the_metadata_are_acknowledged_at_once() {
        let props = PropsResolver::new(&Layers::new([]));
        let [index, host, source, sourcetype] = ["main", "h", "/a", "st"].map(Arc::from);
        let mut channel = Channel::new(Metadata { index, host, source, sourcetype });
        let mut due = Vec::new();
        for (id, text) in [(1, "a line of some length\nand a beginning"), (2, "b\n"), (3, "c\n")] {
            let piece = Piece { raw: text.as_bytes(), id: Some(id), sent: None, zone: None, fields: &Fields::new() };
            let mut batch = EventBatch::default();
            channel.push(&props, piece, NOW, &mut batch).unwrap();
            if id == 1 {
                channel.finish(&mut batch);
            }
        }
        channel.take_due(&mut due);
        assert_eq!(due.first(), Some(&1));
        channel.finish(&mut EventBatch::default());
        channel.take_due(&mut due);
        assert_eq!(due, [1, 2, 3]);
    }

    fn field(bytes: usize) -> Fields {
        vec![("f".into(), "v".repeat(bytes).into())]
    }

    #[test]
    fn kept_fields_are_bounded_by_number_and_bytes() {
        for (bytes, kept_max) in [(10, FIELD_CHANGES_MAX), (FIELD_BYTES_MAX / 4, 3), (FIELD_BYTES_MAX - 100, 1)] {
            let mut kept = VecDeque::new();
            for at in 0..200 {
                keep_fields(&mut kept, at, &field(bytes - at as usize % 2)).unwrap();
                keep_fields(&mut kept, at, &field(bytes - at as usize % 2)).unwrap();
                assert!(kept.iter().map(|(_, fields)| bytes_of(fields)).sum::<usize>() <= FIELD_BYTES_MAX);
            }
            assert_eq!((kept.len(), kept.back().map(|(at, _)| *at)), (kept_max, Some(199)), "{bytes}");
        }
        assert!(keep_fields(&mut VecDeque::new(), 0, &field(FIELD_BYTES_MAX)).is_err());
    }
}
