//! Output of modular inputs that stream XML: `<stream>` with an `<event>` for each event, which has data, time and
//! metadata.
//!
//! Each `<event>` is one event, even if its text has line breaks; its time comes from `<time>`, or else from the
//! timestamp in the text. With `unbroken="1"`, the data are pieces of a stream that an index pipeline breaks into
//! events, each with the time of the piece in which it begins; `<done/>` completes the last event.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::OutputReader;
use super::xml::{XmlToken, XmlTokens};
use crate::EventStore;
use crate::hec::seconds;
use quarry_conf::{DEFAULT_INDEX_WORD, PropsResolver};
use quarry_event::{EventBatch, Metadata, TimeNs};
use quarry_pipeline::{EventTyping, Pipeline, PipelineContext, SourceInfo, TypingStage, WholeEvent};
use quarry_stdx::Fault;
use quarry_stdx::number::u32_of;

/// Maximum number of open streams, and also of pipelines that parse timestamps; beyond it, the first one in the order
/// of stanza and metadata ends.
const OPEN_STREAMS_MAX: usize = 64;
/// Maximum bytes of the elements of an `<event>`; a longer event is dropped.
const EVENT_BYTES_MAX: usize = 16 << 20;
/// Maximum number of pieces of a stream whose text is not part of events yet; beyond it, the text of the first piece
/// has the time of the second.
const OPEN_PIECES_MAX: usize = 1_024;
/// Maximum number of warnings kept for [`OutputReader::take_faults`].
const WARNINGS_MAX: usize = 100;

/// Default metadata of a stanza's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StanzaDefaults {
    /// Index, host, source and sourcetype.
    pub metadata: Metadata,
    /// Whether the user set the host.
    pub host_is_fixed: bool,
}

/// An `<event>` being read.
#[derive(Debug, Default)]
struct OpenEvent {
    stanza: String,
    is_unbroken: bool,
    is_done: bool,
    /// Text of each child element by name.
    parts: BTreeMap<String, String>,
    fault: Option<String>,
}

impl OpenEvent {
    fn add_text(&mut self, element: &str, text: &str) {
        let bytes = text.len() + self.parts.values().map(String::len).sum::<usize>();
        if bytes > EVENT_BYTES_MAX {
            self.fault = Some(format!("it is longer than {EVENT_BYTES_MAX} bytes"));
            self.parts.clear();
            return;
        }
        self.parts.entry(element.to_owned()).or_default().push_str(text);
    }
}

/// A stream that arrives in unbroken pieces.
struct UnbrokenStream {
    pipeline: Box<Pipeline>,
    /// Bytes passed to the pipeline.
    fed: u64,
    /// Times of pieces whose text is not part of events yet. Each entry applies from its offset up to the next entry;
    /// without a time, the time comes from the text.
    times: VecDeque<(u64, Option<TimeNs>)>,
}

impl UnbrokenStream {
    fn new(mut pipeline: Box<Pipeline>) -> UnbrokenStream {
        pipeline.record_starts();
        UnbrokenStream { pipeline, fed: 0, times: VecDeque::new() }
    }

    fn push(&mut self, text: &[u8], time: Option<TimeNs>, now: TimeNs, out: &mut EventBatch) {
        if self.times.back().is_none_or(|(_, last)| *last != time) {
            if self.times.len() >= OPEN_PIECES_MAX {
                self.times.pop_front();
            }
            self.times.push_back((self.fed, time));
        }
        self.fed += text.len() as u64;
        self.advance(now, out, |pipeline, out| pipeline.push(text, out));
    }

    fn pause(&mut self, now: TimeNs, out: &mut EventBatch) {
        self.advance(now, out, Pipeline::pause);
    }

    fn finish(mut self, now: TimeNs, out: &mut EventBatch) {
        self.advance(now, out, Pipeline::finish);
    }

    /// Runs a step of the pipeline and sets the times of the events that it appends.
    fn advance(&mut self, now: TimeNs, out: &mut EventBatch, step: impl FnOnce(&mut Pipeline, &mut EventBatch)) {
        let first = out.len();
        self.pipeline.set_now(now, None);
        step(&mut self.pipeline, out);
        let starts = self.pipeline.take_starts();
        for (time, start) in out.time.iter_mut().skip(first).zip(starts) {
            let begun = self.times.iter().rev().find(|(from, _)| *from <= start);
            if let Some((_, Some(of_piece))) = begun.or(self.times.front()) {
                *time = *of_piece;
            }
        }
        let safe = self.pipeline.safe_offset();
        while self.times.get(1).is_some_and(|(from, _)| *from <= safe) {
            self.times.pop_front();
        }
    }
}

/// Reader of the XML of modular inputs.
pub struct XmlReader {
    tokens: XmlTokens,
    /// Defaults by stanza; an event without a stanza gets the defaults of the first stanza.
    stanzas: BTreeMap<String, StanzaDefaults>,
    first: String,
    props: Arc<PropsResolver>,
    typing: EventTyping,
    store: Arc<dyn EventStore>,
    event: Option<OpenEvent>,
    /// Name of the open child element of the event.
    element: Option<String>,
    unbroken: BTreeMap<(String, Metadata), UnbrokenStream>,
    timed: BTreeMap<Metadata, Box<Pipeline>>,
    faults: Vec<String>,
}

impl std::fmt::Debug for XmlReader {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("XmlReader").field("first", &self.first).field("event", &self.event).finish_non_exhaustive()
    }
}

impl XmlReader {
    /// Creates a reader for a program that serves these stanzas.
    pub fn new(
        first: &str,
        stanzas: BTreeMap<String, StanzaDefaults>,
        props: Arc<PropsResolver>,
        store: Arc<dyn EventStore>,
    ) -> XmlReader {
        XmlReader {
            tokens: XmlTokens::default(),
            stanzas,
            first: first.to_owned(),
            typing: EventTyping::new(Arc::clone(&props)),
            props,
            store,
            event: None,
            element: None,
            unbroken: BTreeMap::new(),
            timed: BTreeMap::new(),
            faults: Vec::new(),
        }
    }

    fn add_warning(&mut self, text: String) {
        if self.faults.len() < WARNINGS_MAX {
            self.faults.push(text);
        }
    }

    fn warn_of_settings(&mut self, pipeline: &Pipeline) {
        if let Some(problem) = pipeline.settings_error() {
            self.add_warning(problem.to_string());
        }
    }

    fn token(&mut self, token: XmlToken, now: TimeNs, out: &mut EventBatch) {
        match token {
            XmlToken::Text(text) => self.text(&text),
            XmlToken::Open { name, attributes, is_empty } => self.open(&name, &attributes, is_empty),
            XmlToken::Close(name) if name == "event" => {
                self.element = None;
                if let Some(event) = self.event.take() {
                    self.end_event(event, now, out);
                }
            }
            XmlToken::Close(name) => {
                if self.element.as_ref() == Some(&name) {
                    self.element = None;
                }
            }
        }
    }

    fn text(&mut self, text: &str) {
        match (&mut self.event, &self.element) {
            (Some(event), Some(element)) => event.add_text(element, text),
            _ if text.trim().is_empty() => {}
            _ => {
                let start: String = text.trim().chars().take(60).collect();
                self.add_warning(format!("its program wrote {start:?} between events; it is ignored"));
            }
        }
    }

    fn open(&mut self, name: &str, attributes: &[(String, String)], is_empty: bool) {
        let Some(event) = &mut self.event else {
            if name == "event" {
                let of = |key: &str| attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
                let stanza = of("stanza").unwrap_or_default();
                self.event = Some(OpenEvent {
                    stanza,
                    is_unbroken: of("unbroken").as_deref() == Some("1"),
                    ..OpenEvent::default()
                });
            }
            return;
        };
        if let Some(element) = &self.element {
            event.fault = Some(format!("<{name}> is inside its <{element}>: a < in text must be written &lt;"));
        } else if name == "done" {
            event.is_done = true;
        } else if !is_empty {
            self.element = Some(name.to_owned());
        }
    }

    fn end_event(&mut self, event: OpenEvent, now: TimeNs, out: &mut EventBatch) {
        match self.metadata_of(&event) {
            Ok((metadata, host_is_fixed, time)) => {
                let outcome = if event.is_unbroken {
                    self.push_piece(event, metadata, host_is_fixed, time, now, out)
                } else {
                    self.push_event(event, metadata, host_is_fixed, time, now, out)
                };
                if let Err(fault) = outcome {
                    self.add_warning(fault.to_string());
                }
            }
            Err(fault) => self.add_warning(format!("an event of its program is dropped: {fault}")),
        }
    }

    /// Metadata of an event, whether its host is fixed, and its time if the program set one.
    fn metadata_of(&self, event: &OpenEvent) -> Result<(Metadata, bool, Option<TimeNs>), Fault> {
        if let Some(fault) = &event.fault {
            return Err(Fault::invalid(fault));
        }
        let stanza = if event.stanza.is_empty() { &self.first } else { &event.stanza };
        let defaults = self
            .stanzas
            .get(stanza)
            .ok_or_else(|| Fault::invalid(format!("it names the stanza {stanza}, which does not exist")))?;
        let said = |name: &str| event.parts.get(name).map(|text| text.trim()).filter(|text| !text.is_empty());
        // Programs repeat the setting of their stanza.
        let index = said("index").filter(|index| *index != DEFAULT_INDEX_WORD);
        let of = |name: &str, default: &Arc<str>| said(name).map_or_else(|| Arc::clone(default), Arc::from);
        let default = &defaults.metadata;
        let metadata = Metadata {
            index: index.map_or_else(|| Arc::clone(&default.index), Arc::from),
            host: of("host", &default.host),
            source: of("source", &default.source),
            sourcetype: of("sourcetype", &default.sourcetype),
        };
        if metadata.index != default.index {
            self.store.check_index(&metadata.index)?;
        }
        let time = said("time")
            .map(|text| seconds(text).ok_or_else(|| Fault::invalid(format!("{text:?} is not a time in seconds"))));
        Ok((metadata, defaults.host_is_fixed || said("host").is_some(), time.transpose()?))
    }

    /// Passes a piece of an unbroken stream to its pipeline.
    fn push_piece(
        &mut self,
        mut event: OpenEvent,
        metadata: Metadata,
        host_is_fixed: bool,
        time: Option<TimeNs>,
        now: TimeNs,
        out: &mut EventBatch,
    ) -> Result<(), Fault> {
        let stanza = if event.stanza.is_empty() { self.first.clone() } else { event.stanza };
        let key = (stanza, metadata);
        if !self.unbroken.contains_key(&key) {
            if self.unbroken.len() >= OPEN_STREAMS_MAX
                && let Some((_, stream)) = self.unbroken.pop_first()
            {
                stream.finish(now, out);
            }
            let pipeline = self.pipeline(&key.1, host_is_fixed, now)?;
            self.warn_of_settings(&pipeline);
            self.unbroken.insert(key.clone(), UnbrokenStream::new(pipeline));
        }
        let text = event.parts.remove("data").unwrap_or_default();
        if let Some(stream) = self.unbroken.get_mut(&key) {
            stream.push(text.as_bytes(), time, now, out);
        }
        if event.is_done
            && let Some(stream) = self.unbroken.remove(&key)
        {
            stream.finish(now, out);
        }
        Ok(())
    }

    /// Appends one whole event.
    fn push_event(
        &mut self,
        mut event: OpenEvent,
        metadata: Metadata,
        host_is_fixed: bool,
        time: Option<TimeNs>,
        now: TimeNs,
        out: &mut EventBatch,
    ) -> Result<(), Fault> {
        let text = event.parts.remove("data").unwrap_or_default();
        let text = text.trim_end_matches(['\n', '\r']);
        if text.is_empty() {
            return Ok(());
        }
        let time = match time {
            Some(time) => time,
            None => self.extract_time(text, &metadata, host_is_fixed, now)?,
        };
        let plan = self.typing.plan(&metadata);
        if let Some(problem) = plan.settings_error() {
            self.add_warning(problem.to_string());
        }
        let event = WholeEvent { raw: text.to_owned(), time, meta: metadata, fields: Vec::new() };
        let (events, refused) = match plan.is_empty() {
            true => (vec![event], None),
            false => self.typing.run(&plan, event, host_is_fixed, TypingStage::All, now),
        };
        out.index_time = now;
        for event in events {
            let meta = out.intern(&event.meta);
            let row = u32_of(out.len());
            out.push(event.raw.as_bytes(), event.time, meta);
            event.fields.iter().for_each(|(name, value)| out.fields.push(row, name, value));
        }
        refused.map_or(Ok(()), |reason| Err(Fault::invalid(reason)))
    }

    /// Timestamp of a text according to the rules of its sourcetype.
    fn extract_time(
        &mut self,
        text: &str,
        metadata: &Metadata,
        host_is_fixed: bool,
        now: TimeNs,
    ) -> Result<TimeNs, Fault> {
        if !self.timed.contains_key(metadata) {
            if self.timed.len() >= OPEN_STREAMS_MAX {
                self.timed.pop_first();
            }
            let made = self.pipeline(metadata, host_is_fixed, now)?;
            self.warn_of_settings(&made);
            self.timed.insert(metadata.clone(), made);
        }
        let mut events = EventBatch::default();
        if let Some(pipeline) = self.timed.get_mut(metadata) {
            pipeline.set_now(now, None);
            pipeline.push(text.as_bytes(), &mut events);
            // After a pause, text could remain for which `LINE_BREAKER` shows no end, and begin the next event.
            pipeline.finish(&mut events);
        }
        Ok(events.time.first().copied().unwrap_or(now))
    }

    fn pipeline(&self, metadata: &Metadata, host_is_fixed: bool, now: TimeNs) -> Result<Box<Pipeline>, Fault> {
        let info = SourceInfo {
            index: metadata.index.to_string(),
            host: metadata.host.to_string(),
            host_is_fixed,
            source: metadata.source.to_string(),
            sourcetype: Some(metadata.sourcetype.to_string()),
        };
        let context = PipelineContext { now, zone: None, modified: None, orders: None };
        Ok(Box::new(Pipeline::new_lenient(info, &self.props, context)?))
    }
}

impl OutputReader for XmlReader {
    fn push(&mut self, bytes: &[u8], now: TimeNs, out: &mut EventBatch) -> Result<(), Fault> {
        let pushed = self.tokens.push(bytes);
        while let Some(token) = self.tokens.take() {
            self.token(token, now, out);
        }
        pushed.map_err(|fault| fault.with_context("the output of its program is not XML"))
    }

    fn pause(&mut self, now: TimeNs, out: &mut EventBatch) {
        self.unbroken.values_mut().for_each(|stream| stream.pause(now, out));
    }

    fn finish(&mut self, now: TimeNs, out: &mut EventBatch) {
        while let Some((_, stream)) = self.unbroken.pop_first() {
            stream.finish(now, out);
        }
        if self.event.take().is_some() || self.tokens.held_bytes() > 0 {
            self.add_warning("its program ended in the middle of an event, which is dropped".to_owned());
        }
        (self.tokens, self.element) = (XmlTokens::default(), None);
    }

    fn take_faults(&mut self) -> Vec<String> {
        std::mem::take(&mut self.faults)
    }
}
