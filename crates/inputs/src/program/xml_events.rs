//! Output of modular inputs that stream XML: `<stream>` with an `<event>` for each event, which has data, time and
//! metadata.
//!
//! Each `<event>` is one event, even if its text has line breaks; its time comes from `<time>`, or else from the
//! timestamp in the text. With `unbroken="1"`, the data are pieces of a stream that an index pipeline breaks into
//! events; `<done/>` completes the last event.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::OutputReader;
use super::xml::{XmlToken, XmlTokens};
use crate::EventStore;
use quarry_conf::PropsResolver;
use quarry_event::time::parse_epoch;
use quarry_event::{EventBatch, IndexedField, Metadata, TimeNs};
use quarry_pipeline::{EventTyping, Pipeline, PipelineContext, SourceInfo, TypingStage, WholeEvent};
use quarry_stdx::Fault;
use quarry_stdx::number::u32_of;

/// Maximum number of open streams, and also of pipelines that parse timestamps; beyond it, the first one in the order
/// of stanza and metadata ends.
const OPEN_STREAMS_MAX: usize = 64;
/// Number of decimal places of a time in seconds with nanosecond precision.
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
    unbroken: BTreeMap<(String, Metadata), (Box<Pipeline>, Option<TimeNs>)>,
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
            (Some(event), Some(element)) => event.parts.entry(element.clone()).or_default().push_str(text),
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
        let of = |name: &str, default: &Arc<str>| said(name).map_or_else(|| Arc::clone(default), Arc::from);
        let default = &defaults.metadata;
        let metadata = Metadata {
            index: of("index", &default.index),
            host: of("host", &default.host),
            source: of("source", &default.source),
            sourcetype: of("sourcetype", &default.sourcetype),
        };
        if metadata.index != default.index {
            self.store.check_index(&metadata.index)?;
        }
        let time = said("time")
            .map(|text| parse_epoch(text).ok_or_else(|| Fault::invalid(format!("{text:?} is not a time in seconds"))));
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
        let key = (event.stanza.clone(), metadata);
        if !self.unbroken.contains_key(&key) {
            if self.unbroken.len() >= OPEN_STREAMS_MAX
                && let Some((_, (pipeline, time))) = self.unbroken.pop_first()
            {
                finish_piece(*pipeline, time, now, out);
            }
            let pipeline = self.pipeline(&key.1, host_is_fixed, now)?;
            self.warn_of_settings(&pipeline);
            self.unbroken.insert(key.clone(), (pipeline, None));
        }
        let text = event.parts.remove("data").unwrap_or_default();
        if let Some((pipeline, known)) = self.unbroken.get_mut(&key) {
            *known = time.or(*known);
            let from = out.len();
            pipeline.set_now(now, None);
            pipeline.push(text.as_bytes(), out);
            set_times(out, from, *known);
        }
        if event.is_done
            && let Some((pipeline, time)) = self.unbroken.remove(&key)
        {
            finish_piece(*pipeline, time, now, out);
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
            let fields = event.fields.into_iter();
            out.fields.extend(fields.map(|(name, value)| IndexedField { row, name, value: value.into() }));
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
            pipeline.push(b"\n", &mut events);
            pipeline.pause(&mut events);
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

fn finish_piece(mut pipeline: Pipeline, time: Option<TimeNs>, now: TimeNs, out: &mut EventBatch) {
    let from = out.len();
    pipeline.set_now(now, None);
    pipeline.finish(out);
    set_times(out, from, time);
}

fn set_times(out: &mut EventBatch, from: usize, time: Option<TimeNs>) {
    if let (Some(time), Some(times)) = (time, out.time.get_mut(from..)) {
        times.fill(time);
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

    fn finish(&mut self, now: TimeNs, out: &mut EventBatch) {
        while let Some((_, (pipeline, time))) = self.unbroken.pop_first() {
            finish_piece(*pipeline, time, now, out);
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
