//! One connection that sends text.
//!
//! A connection has a pipeline while bytes arrive. After a silence the last event is complete and the pipeline is
//! dropped; the next bytes start a new one. Only a message with a count goes on after a silence, because its length is
//! known.

use std::sync::Arc;

use jiff::tz::TimeZone;
use quarry_conf::{NetworkKind, PropsResolver};
use quarry_event::time::parse_zone;
use quarry_event::{EventBatch, TimeNs};
use quarry_pipeline::{Pipeline, PipelineContext, PipelineError, SourceInfo};

use super::framing::Framing;
use super::statsd::Statsd;

/// Sourcetypes whose connections may use octet counting.
const SYSLOG_SOURCETYPES: [&str; 2] = ["syslog", "linux_secure"];

/// Settings common to all connections of a port.
#[derive(Clone, Debug)]
pub struct Template {
    /// Index of the events.
    pub index: String,
    /// `source` of the events.
    pub source: String,
    /// `sourcetype` of the events.
    pub sourcetype: String,
    /// Settings for breaking text into events.
    pub props: Arc<PropsResolver>,
    /// Protocol of the port.
    pub kind: NetworkKind,
}

impl Template {
    /// Creates a pipeline for data from `host`.
    pub(crate) fn pipeline(&self, host: &str, now: TimeNs) -> Result<Pipeline, PipelineError> {
        let info = SourceInfo {
            index: self.index.clone(),
            host: host.to_owned(),
            host_is_fixed: false,
            source: self.source.clone(),
            sourcetype: Some(self.sourcetype.clone()),
        };
        Pipeline::new_lenient(info, &self.props, PipelineContext { now, zone: None, modified: None, orders: None })
    }

    /// Describes errors in the settings; erroneous settings are ignored.
    pub fn settings_error(&self, now: TimeNs) -> Option<String> {
        match self.pipeline("", now) {
            Ok(pipeline) => pipeline.settings_error().map(ToString::to_string).or_else(|| self.statsd()?.error),
            Err(problem) => Some(problem.to_string()),
        }
    }

    /// The rules for metrics if the text is statsd. Settings of a host are ignored, because the rules are read once for
    /// all senders.
    pub(crate) fn statsd(&self) -> Option<Statsd> {
        self.props.resolve(&self.source, "", &self.sourcetype).statsd.map(|rules| Statsd::new(&rules))
    }

    /// Time zone of timestamps without a zone.
    pub(crate) fn zone(&self, host: &str) -> TimeZone {
        let settings = self.props.resolve(&self.source, host, &self.sourcetype);
        settings.tz.as_deref().and_then(parse_zone).unwrap_or(settings.node_zone)
    }

    /// True if the text is syslog, which may use octet counting.
    pub(crate) fn is_syslog(&self) -> bool {
        SYSLOG_SOURCETYPES.contains(&self.sourcetype.as_str())
    }
}

/// One connection.
#[derive(Debug)]
pub struct RawStream {
    template: Arc<Template>,
    host: String,
    framing: Framing,
    /// Bytes of an incomplete message.
    held: Vec<u8>,
    pipeline: Option<Box<Pipeline>>,
}

impl RawStream {
    /// Creates the state of a connection from `host`.
    pub fn new(template: Arc<Template>, host: String) -> RawStream {
        let framing = Framing::of(template.kind, template.is_syslog());
        RawStream { template, host, framing, held: Vec::new(), pipeline: None }
    }

    /// Prepares the pipeline and sets its current time. Must be called before the first bytes of each batch; bytes that
    /// arrive later need a new batch.
    pub fn begin(&mut self, now: TimeNs) -> Result<(), PipelineError> {
        match &mut self.pipeline {
            Some(pipeline) => pipeline.set_now(now, None),
            None => self.pipeline = Some(Box::new(self.template.pipeline(&self.host, now)?)),
        }
        Ok(())
    }

    /// Processes bytes and appends completed events to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut EventBatch) {
        let Some(pipeline) = &mut self.pipeline else { return };
        self.framing.push(&mut self.held, bytes, &mut |bytes| pipeline.push(bytes, out));
    }

    /// Appends the remaining events when the connection is silent, except for a message that goes on.
    pub fn pause(&mut self, out: &mut EventBatch) {
        if !self.framing.awaits_rest() {
            return self.finish(out);
        }
        if let Some(mut pipeline) = self.pipeline.take() {
            pipeline.finish(out);
        }
    }

    /// Whether a message with a count is incomplete, so that there is text although [`RawStream::is_idle`] is true.
    pub fn holds_message(&self) -> bool {
        !self.held.is_empty()
    }

    /// Appends the remaining events when the connection has ended or holds too much memory. After a pause that left an
    /// incomplete message, [`RawStream::begin`] must be called first.
    pub fn finish(&mut self, out: &mut EventBatch) {
        let Some(mut pipeline) = self.pipeline.take() else { return };
        self.framing.finish(&mut self.held, &mut |bytes| pipeline.push(bytes, out));
        pipeline.finish(out);
    }

    /// True if nothing is buffered.
    pub fn is_idle(&self) -> bool {
        self.pipeline.is_none()
    }

    /// Memory of buffered text.
    pub fn held_bytes(&self) -> usize {
        self.held.capacity() + self.pipeline.as_ref().map_or(0, |pipeline| pipeline.buffered_capacity())
    }
}

#[cfg(test)]
mod tests {
    use quarry_conf::Layers;

    use super::*;

    #[test]
    fn counted_messages_go_on_after_a_silence() {
        let template = Template {
            index: "net".to_owned(),
            source: "tcp:514".to_owned(),
            sourcetype: "syslog".to_owned(),
            props: Arc::new(PropsResolver::new(&Layers::new([]))),
            kind: NetworkKind::Tcp,
        };
        let mut stream = RawStream::new(Arc::new(template), "h".to_owned());
        let mut batch = EventBatch::default();
        for (at, piece) in ["9 <13>a b c1", "1 <13>d", " e f g", "7 <13>h ", "i9 <13>j k"].into_iter().enumerate() {
            stream.begin(at as i64).unwrap();
            stream.push(piece.as_bytes(), &mut batch);
            stream.pause(&mut batch);
            assert!(stream.is_idle());
        }
        assert!(stream.holds_message());
        stream.begin(9).unwrap();
        stream.finish(&mut batch);
        assert!(!stream.holds_message());
        let texts: Vec<&[u8]> = (0..batch.len()).map(|row| batch.raw(row)).collect();
        assert_eq!(texts, [&b"<13>a b c"[..], b"<13>d e f g", b"<13>h i", b"<13>j k"]);
    }
}
