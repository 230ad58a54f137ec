//! One connection that sends text.
//!
//! A connection has a pipeline while bytes arrive. After a silence the last event is complete and the pipeline is
//! dropped; the next bytes start a new one. Only an incomplete octet-counted message of syslog waits for its remaining
//! bytes.

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

/// Number of silences after which an incomplete octet-counted message is not awaited any longer, because memory is held
/// for it; the bytes that have arrived become an event.
const SILENCES_MAX: u32 = 12;

/// One connection.
#[derive(Debug)]
pub struct RawStream {
    template: Arc<Template>,
    host: String,
    framing: Framing,
    /// Bytes of an incomplete message.
    held: Vec<u8>,
    /// Number of silences since the last bytes.
    silences: u32,
    pipeline: Option<Box<Pipeline>>,
}

impl RawStream {
    /// Creates the state of a connection from `host`.
    pub fn new(template: Arc<Template>, host: String) -> RawStream {
        let framing = Framing::of(template.kind, template.is_syslog());
        RawStream { template, host, framing, held: Vec::new(), silences: 0, pipeline: None }
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
        self.silences = 0;
        self.framing.push(&mut self.held, bytes, &mut |bytes| pipeline.push(bytes, out));
    }

    /// Appends the remaining events when the connection is silent. An incomplete octet-counted message is kept for up
    /// to [`SILENCES_MAX`] silences.
    pub fn pause(&mut self, now: TimeNs, out: &mut EventBatch) -> Result<(), PipelineError> {
        self.silences += 1;
        if self.silences >= SILENCES_MAX {
            return self.finish(now, out);
        }
        if let Some(mut pipeline) = self.pipeline.take() {
            self.framing.pause(&mut self.held, &mut |bytes| pipeline.push(bytes, out));
            pipeline.finish(out);
        }
        Ok(())
    }

    /// Appends the remaining events, including an incomplete message, when the connection has ended or holds too much.
    pub fn finish(&mut self, now: TimeNs, out: &mut EventBatch) -> Result<(), PipelineError> {
        if !self.is_idle() {
            self.begin(now)?;
        }
        if let Some(mut pipeline) = self.pipeline.take() {
            self.framing.release(&mut self.held, &mut |bytes| pipeline.push(bytes, out));
            pipeline.finish(out);
        }
        Ok(())
    }

    /// True if nothing is buffered.
    pub fn is_idle(&self) -> bool {
        self.pipeline.is_none() && self.held.is_empty()
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

    fn stream() -> RawStream {
        let template = Template {
            index: "net".to_owned(),
            source: "tcp:514".to_owned(),
            sourcetype: "syslog".to_owned(),
            props: Arc::new(PropsResolver::new(&Layers::new([]))),
            kind: NetworkKind::Tcp,
        };
        RawStream::new(Arc::new(template), "h".to_owned())
    }

    fn texts(batch: &EventBatch) -> Vec<String> {
        (0..batch.len()).map(|row| String::from_utf8_lossy(batch.raw(row)).into_owned()).collect()
    }

    #[test]
    fn a_silence_neither_cuts_counted_messages_nor_loses_their_framing() {
        let (mut stream, mut out) = (stream(), EventBatch::default());
        for chunk in [&b"7 <13>one7 <1"[..], b"3>two9", b" <13>three7 <13>cut"] {
            stream.begin(0).unwrap();
            stream.push(chunk, &mut out);
            stream.pause(0, &mut out).unwrap();
            stream.pause(0, &mut out).unwrap();
        }
        assert_eq!(texts(&out), ["<13>one", "<13>two", "<13>three", "<13>cut"]);
        assert!(stream.is_idle());
        stream.begin(0).unwrap();
        stream.push(b"30 <13>the connection ends", &mut out);
        stream.pause(0, &mut out).unwrap();
        assert_eq!((texts(&out).len(), stream.is_idle()), (4, false));
        stream.finish(0, &mut out).unwrap();
        assert_eq!(texts(&out)[4..], ["<13>the connection ends"]);
    }

    #[test]
    fn messages_in_many_pieces_are_whole_and_one_that_the_end_cuts_short_is_an_event() {
        let (mut stream, mut out) = (stream(), EventBatch::default());
        for chunk in ["9 <13>a b c1", "1 <13>d", " e f g", "7 <13>h ", "i9 <13>j k"] {
            stream.begin(0).unwrap();
            stream.push(chunk.as_bytes(), &mut out);
            stream.pause(0, &mut out).unwrap();
        }
        assert_eq!(texts(&out), ["<13>a b c", "<13>d e f g", "<13>h i"]);
        stream.finish(0, &mut out).unwrap();
        assert_eq!(texts(&out)[3..], ["<13>j k"]);
    }

    #[test]
    fn a_message_is_not_awaited_forever() {
        let (mut stream, mut out) = (stream(), EventBatch::default());
        stream.begin(0).unwrap();
        stream.push(b"10 <13>half", &mut out);
        (0..SILENCES_MAX).for_each(|_| stream.pause(0, &mut out).unwrap());
        assert_eq!((texts(&out), stream.is_idle(), stream.held_bytes()), (vec!["<13>half".to_owned()], true, 0));
        stream.begin(0).unwrap();
        stream.push(b"ed5 <13>b", &mut out);
        stream.finish(0, &mut out).unwrap();
        assert_eq!(texts(&out)[1..], ["ed", "<13>b"]);
    }
}
