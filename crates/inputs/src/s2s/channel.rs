//! State of one channel's text, and its pipeline.
//!
//! A forwarder that does not parse sends a file in pieces of any length. The pieces of a channel pass through one
//! pipeline until the channel is silent, changes its metadata or ends. The id of a piece is due for acknowledgment when
//! the whole piece has left the pipeline as events.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::S2sError;
use jiff::tz::TimeZone;
use quarry_conf::PropsResolver;
use quarry_event::{EventBatch, IndexedField, Metadata, TimeNs};
use quarry_pipeline::{Pipeline, PipelineContext, SourceInfo};
use quarry_stdx::number::u32_of;

/// Maximum ids of a channel whose pieces have not become events yet.
const WAITING_IDS_MAX: usize = 65_536;
/// Maximum changes of the fields within a channel's text that is not part of events yet; beyond it, the oldest are
/// forgotten.
const FIELD_CHANGES_MAX: usize = 64;
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
    /// Fields of the text that is not part of events yet: from each offset on, up to the next.
    fields: VecDeque<(u64, Fields)>,
    /// Ids of pieces, each with the offset of the piece's end.
    waiting: VecDeque<(u64, u64)>,
    /// Monotonic time of the last piece.
    pub(super) last: i64,
    /// Error in the settings of its sourcetype, to be reported once.
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
                self.pipeline.insert(Box::new(made))
            }
        };
        if self.fields.back().is_none_or(|(_, last)| last != piece.fields) {
            if self.fields.len() >= FIELD_CHANGES_MAX {
                self.fields.pop_front();
            }
            self.fields.push_back((self.fed, piece.fields.clone()));
        }
        let (first, begin) = (batch.len(), pipeline.safe_offset());
        pipeline.push(piece.raw, batch);
        self.fed += piece.raw.len() as u64;
        let end = pipeline.safe_offset();
        self.add_sent_fields(batch, first, begin..end);
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
        if let Some(mut pipeline) = self.pipeline.take() {
            let (first, begin) = (batch.len(), pipeline.safe_offset());
            pipeline.finish(batch);
            self.add_sent_fields(batch, first, begin..self.fed);
        }
    }

    /// Adds the fields that were sent with the text in the range to its events, which are those from `first` on, and
    /// forgets fields of earlier text. An event that goes on in a piece with other fields keeps those with which it
    /// began.
    fn add_sent_fields(&mut self, batch: &mut EventBatch, first: usize, text: Range<u64>) {
        let fields_at = |offset: u64| {
            let begun = self.fields.iter().rev().find(|(from, _)| *from <= offset);
            begun.or(self.fields.front()).map(|(_, fields)| fields)
        };
        let (rows, second) = (batch.len(), batch.len().min(first + 1));
        for (rows, offset) in [(first..second, text.start), (second..rows, text.end.saturating_sub(1))] {
            if let Some(fields) = fields_at(offset) {
                add_fields(batch, rows, fields);
            }
        }
        while self.fields.get(1).is_some_and(|(from, _)| *from <= text.end) {
            self.fields.pop_front();
        }
    }

    /// Whether there is a pipeline, which may hold an incomplete event.
    pub(super) fn is_open(&self) -> bool {
        self.pipeline.is_some()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.pipeline.as_ref().map_or(0, |pipeline| pipeline.buffered_capacity())
    }
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

/// Adds the fields to these events.
pub(super) fn add_fields(batch: &mut EventBatch, rows: Range<usize>, fields: &Fields) {
    for row in rows {
        for (name, value) in fields {
            batch.fields.push(IndexedField { row: u32_of(row), name: Arc::clone(name), value: value.clone() });
        }
    }
}
