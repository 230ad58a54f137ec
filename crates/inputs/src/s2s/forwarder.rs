//! One connected forwarder: handshake, channels, and its events in batches of one index each.
//!
//! The handshake offers version 4 unless disabled; version 2 has no handshake. Text marked as one event is stored with
//! its time and fields, and only `RULESET-` rules apply; other text is parsed by its sourcetype's rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use quarry_conf::PropsResolver;
use quarry_event::{EventBatch, Metadata, TimeNs};
use quarry_pipeline::{EventTyping, TypingStage, WholeEvent, meta_pairs};
use subtle::{Choice, ConstantTimeEq};

use super::S2sError;
use super::batch::unpack;
use super::channel::{Channel, Fields, Piece, add_fields};
use super::sender::{BATCHES_WORD, SENDER_BYTES_MAX, TOKEN_WORD};
use super::wire::{Decoder, Event, Message, frame_of};
use super::zone::zone_of;
use crate::hec::seconds;

/// Maximum number of channels per connection, as announced in the handshake.
const CHANNELS_MAX: usize = 300;
/// Maximum number of open batches, one per index, of a connection; beyond it, the caller must take them.
const OPEN_BATCHES_MAX: usize = 16;
/// Text bytes and events after which the caller must take the batches.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_EVENTS: usize = 65_536;
/// Number of whole batches after which the caller must take them.
const NUMBERED_BATCHES_MAX: usize = 64;
/// Silence after which the last event of a channel is complete; forwarders wait equally long before they close a file.
const QUIET_NS: i64 = 3_000_000_000;
const NANOS_PER_SEC: i64 = 1_000_000_000;
/// Highest protocol level offered.
const PROTOCOL_LEVEL: u64 = 7;

/// A whole batch with its sender's number.
pub type NumberedBatch = (u64, EventBatch);

/// Default metadata and settings of a port.
#[derive(Clone, Debug)]
pub struct ForwarderDefaults {
    /// Default index.
    pub index: String,
    /// Default `host`.
    pub host: String,
    /// Default `source`.
    pub source: String,
    /// Default `sourcetype`; guessed if empty.
    pub sourcetype: String,
    /// Accepted tokens: a forwarder must present one of them; with `None`, no token is required.
    pub tokens: Option<Arc<[String]>>,
    /// Whether version 4 is offered.
    pub offers_packets: bool,
    /// Settings for parsing text.
    pub props: Arc<PropsResolver>,
    /// Rules for parsed events: `RULESET-`, which Splunk also applies to data that another node has parsed.
    pub typing: Arc<EventTyping>,
}

/// State of one connection.
#[derive(Debug)]
pub struct Forwarder {
    defaults: Arc<ForwarderDefaults>,
    decoder: Decoder,
    /// Number of messages read.
    messages: u64,
    /// Wall-clock time of the last processing. It is the index time of events completed by silence.
    now: TimeNs,
    wants_acks: bool,
    /// Set once the forwarder has presented a valid token.
    has_token: bool,
    has_packets: bool,
    channels: BTreeMap<u64, Channel>,
    /// Channels of versions 2 and 3, by metadata.
    sources: BTreeMap<Metadata, Channel>,
    batches: Vec<EventBatch>,
    /// Sender name, if the peer is a Quarry forwarder that sends whole batches.
    sender: Option<String>,
    numbered: Vec<NumberedBatch>,
    due: Vec<u64>,
    answer: Vec<u8>,
    /// First unreported message: an error in the settings of a sourcetype, or the reason why an event did not go to the
    /// index that a rule set.
    refused: Option<String>,
    /// Time zone declared by the forwarder, for timestamps without a zone.
    zone: Option<TimeZone>,
}

impl Forwarder {
    /// Creates the state of a new connection.
    pub fn new(defaults: Arc<ForwarderDefaults>) -> Forwarder {
        Forwarder {
            defaults,
            decoder: Decoder::default(),
            messages: 0,
            now: 0,
            wants_acks: false,
            has_token: false,
            has_packets: false,
            channels: BTreeMap::new(),
            sources: BTreeMap::new(),
            batches: Vec::new(),
            sender: None,
            numbered: Vec::new(),
            due: Vec::new(),
            answer: Vec::new(),
            refused: None,
            zone: None,
        }
    }

    /// Adds bytes, to be processed by [`Forwarder::advance`].
    pub fn push(&mut self, bytes: &[u8]) {
        self.decoder.push(bytes);
    }

    /// Processes bytes until more are needed (`false`) or batches must be taken (`true`). `now` is the wall-clock time,
    /// `elapsed` the monotonic time.
    pub fn advance(&mut self, now: TimeNs, elapsed: i64) -> Result<bool, S2sError> {
        self.now = now;
        loop {
            if self.is_full() {
                return Ok(true);
            }
            match self.decoder.next_message()? {
                None => return Ok(false),
                Some(message) => {
                    self.messages += 1;
                    self.process_message(message, now, elapsed)?;
                }
            }
        }
    }

    /// Completes the last events of silent channels, or of every channel if `all` is set.
    pub fn flush_silent(&mut self, all: bool, elapsed: i64) {
        let is_due = |channel: &Channel| channel.is_open() && (all || elapsed.saturating_sub(channel.last) >= QUIET_NS);
        let channels = self.channels.values_mut().chain(self.sources.values_mut());
        for channel in channels.filter(|channel| is_due(channel)) {
            let batch = batch_of(&mut self.batches, &channel.metadata.index, self.now);
            channel.finish(batch);
            channel.take_due(&mut self.due);
        }
    }

    /// Takes the batches, and the ids to acknowledge once these batches are on disk.
    pub fn take_batches(&mut self) -> (Vec<EventBatch>, Vec<u64>) {
        for channel in self.channels.values_mut() {
            channel.take_due(&mut self.due);
        }
        let mut ids = std::mem::take(&mut self.due);
        ids.sort_unstable();
        if !self.wants_acks {
            ids.clear();
        }
        let batches = std::mem::take(&mut self.batches);
        (batches.into_iter().filter(|batch| !batch.is_empty()).collect(), ids)
    }

    /// Whether the forwarder has asked for acknowledgments; it then sends again what is not acknowledged.
    pub fn wants_acks(&self) -> bool {
        self.wants_acks
    }

    /// Sender name of a Quarry forwarder, once known.
    pub fn sender(&self) -> Option<&str> {
        self.sender.as_deref()
    }

    /// True if the forwarder has presented one of the required tokens.
    pub fn has_token(&self) -> bool {
        self.has_token
    }

    /// Takes whole batches in order; the caller acknowledges their numbers.
    pub fn take_numbered(&mut self) -> Vec<NumberedBatch> {
        std::mem::take(&mut self.numbered)
    }

    /// An error in the settings of a sourcetype, or the reason why an event did not go to the index set by a rule;
    /// returned once.
    pub fn take_refused(&mut self) -> Option<String> {
        self.refused.take()
    }

    /// Takes bytes to send to the forwarder.
    pub fn take_answer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.answer)
    }

    /// True if some text is not part of a complete event yet.
    pub fn is_open(&self) -> bool {
        self.channels.values().chain(self.sources.values()).any(Channel::is_open)
    }

    /// Number of messages read.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// True if a message, or the greeting, is incomplete.
    pub fn is_inside_message(&self) -> bool {
        self.messages == 0 || self.decoder.is_inside_message()
    }

    /// Memory of buffered text.
    pub fn held_bytes(&self) -> usize {
        let channels = self.channels.values().chain(self.sources.values());
        self.decoder.held_bytes() + channels.map(Channel::held_bytes).sum::<usize>()
    }

    fn is_full(&self) -> bool {
        let is_full = |batch: &EventBatch| batch.raw.len() >= BATCH_BYTES || batch.len() >= BATCH_EVENTS;
        let numbered: usize = self.numbered.iter().map(|(_, batch)| batch.raw.len()).sum();
        numbered >= BATCH_BYTES
            || self.numbered.len() >= NUMBERED_BATCHES_MAX
            || self.batches.len() >= OPEN_BATCHES_MAX
            || self.batches.iter().any(is_full)
    }

    fn process_message(&mut self, message: Message, now: TimeNs, elapsed: i64) -> Result<(), S2sError> {
        let is_handshake = match &message {
            Message::Greeting { .. } => true,
            Message::Pairs(pairs) => pairs.len() == 1 && pairs.iter().any(|(key, _)| key == "__s2s_capabilities"),
            _ => false,
        };
        if self.defaults.tokens.is_some() && !self.has_token && !is_handshake {
            return Err(S2sError::Token);
        }
        match message {
            Message::Zone(text) => {
                self.zone = zone_of(&text, now);
                Ok(())
            }
            Message::Greeting { .. } | Message::Acknowledged(..) => Ok(()),
            Message::Batch(number, bytes) => {
                if self.sender.is_none() {
                    return Err(S2sError::Malformed("a batch of a sender that has not identified itself"));
                }
                let mut batch = unpack(&bytes)?;
                batch.index_time = now;
                let batch = self.apply_rulesets(batch, now)?;
                self.numbered.push((number, batch));
                Ok(())
            }
            Message::Pairs(pairs) => self.process_pairs(pairs, now, elapsed),
            Message::OpenChannel { like, number, slots } => self.open_channel(like, number, &slots),
            Message::CloseChannel(number) => {
                let closed = self.channels.remove(&number);
                let mut channel = closed.ok_or(S2sError::Channel { number, problem: "is closed and was not open" })?;
                let batch = batch_of(&mut self.batches, &channel.metadata.index, now);
                channel.finish(batch);
                channel.take_due(&mut self.due);
                Ok(())
            }
            Message::Event(event) => self.process_event(event, now, elapsed),
        }
    }

    fn open_channel(&mut self, like: Option<u64>, number: u64, slots: &[Option<String>; 4]) -> Result<(), S2sError> {
        let problem = |problem| Err(S2sError::Channel { number, problem });
        if self.channels.contains_key(&number) {
            return problem("is opened and was open");
        }
        if self.channels.len() >= CHANNELS_MAX {
            return problem("is one more than a connection may have");
        }
        let mut metadata = match like {
            None => self.default_metadata(),
            Some(like) => match self.channels.get(&like) {
                Some(channel) => channel.metadata.clone(),
                None => return problem("is a clone of one that is not open"),
            },
        };
        for slot in slots.iter().flatten() {
            set_metadata(&mut metadata, slot);
        }
        self.channels.insert(number, Channel::new(metadata));
        Ok(())
    }

    fn process_event(&mut self, event: Event, now: TimeNs, elapsed: i64) -> Result<(), S2sError> {
        let number = event.channel;
        let channel = self.channels.get_mut(&number);
        let channel = channel.ok_or(S2sError::Channel { number, problem: "gets an event and is not open" })?;
        channel.last = elapsed;
        let mut metadata = channel.metadata.clone();
        let mut time = event.seconds.and_then(|seconds| i64::try_from(seconds).ok()?.checked_mul(NANOS_PER_SEC));
        let mut fields = Fields::new();
        for (name, value) in &event.fields {
            read_field(name, value, &mut metadata, &mut time, &mut fields);
        }
        // An empty text only carries an id to acknowledge.
        if event.raw.is_empty() {
            self.due.extend(event.id);
            return Ok(());
        }
        if event.is_whole {
            self.take_whole(event.raw, time.unwrap_or(now), metadata, fields, now)?;
            self.due.extend(event.id);
            return Ok(());
        }
        if metadata != channel.metadata {
            let batch = batch_of(&mut self.batches, &channel.metadata.index, now);
            channel.finish(batch);
            channel.metadata = metadata;
        }
        let batch = batch_of(&mut self.batches, &channel.metadata.index, now);
        let piece = Piece { raw: &event.raw, id: event.id, sent: time, zone: self.zone.as_ref(), fields: &fields };
        channel.push(&self.defaults.props, piece, now, batch)?;
        batch.index_time = now;
        self.refused = self.refused.take().or(channel.problem.take());
        Ok(())
    }

    /// Stores a parsed event after applying rulesets.
    fn take_whole(
        &mut self,
        raw: Vec<u8>,
        time: TimeNs,
        metadata: Metadata,
        fields: Fields,
        now: TimeNs,
    ) -> Result<(), S2sError> {
        let raw = String::from_utf8(raw).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let typing = &self.defaults.typing;
        let plan = typing.plan(&metadata);
        let problem = plan.settings_error().map(ToString::to_string);
        self.refused = self.refused.take().or(problem);
        if !plan.has_rulesets() {
            push_whole(batch_of(&mut self.batches, &metadata.index, now), &raw, time, &metadata, &fields);
            return Ok(());
        }
        let fields = fields.into_iter().map(|(name, value)| (name, String::from(value))).collect();
        let event = WholeEvent { raw, time, meta: metadata, fields };
        let (events, refused) = typing.run(&plan, event, false, TypingStage::Rulesets, now);
        self.refused = self.refused.take().or(refused);
        for event in events {
            let fields: Fields = event.fields.into_iter().map(|(name, value)| (name, value.into())).collect();
            let batch = batch_of(&mut self.batches, &event.meta.index, now);
            push_whole(batch, &event.raw, event.time, &event.meta, &fields);
        }
        Ok(())
    }

    /// Applies rulesets to a whole batch; returns the batch unchanged if there are no rulesets.
    fn apply_rulesets(&mut self, batch: EventBatch, now: TimeNs) -> Result<EventBatch, S2sError> {
        let typing = &self.defaults.typing;
        let plans: Vec<_> = batch.metas.iter().map(|meta| typing.plan(meta)).collect();
        let problem = plans.iter().find_map(|plan| plan.settings_error()).map(ToString::to_string);
        self.refused = self.refused.take().or(problem);
        if !plans.iter().any(|plan| plan.has_rulesets()) {
            return Ok(batch);
        }
        let mut ruled = EventBatch { index_time: now, ..EventBatch::default() };
        let mut fields = batch.fields.iter().peekable();
        for row in 0..batch.len() {
            let mut own = Vec::new();
            while let Some(field) = fields.next_if(|field| field.row as usize <= row) {
                own.push((Arc::clone(field.name), String::from(field.value)));
            }
            let at = batch.meta[row] as usize;
            let raw = String::from_utf8_lossy(batch.raw(row)).into_owned();
            let event = WholeEvent { raw, time: batch.time[row], meta: batch.metas[at].clone(), fields: own };
            let (events, refused) = match plans[at].has_rulesets() {
                true => typing.run(&plans[at], event, false, TypingStage::Rulesets, now),
                false => (vec![event], None),
            };
            self.refused = self.refused.take().or(refused);
            for event in events {
                let fields: Fields = event.fields.into_iter().map(|(name, value)| (name, value.into())).collect();
                push_whole(&mut ruled, &event.raw, event.time, &event.meta, &fields);
            }
        }
        Ok(ruled)
    }

    /// Processes a frame of versions 2 and 3: part of the handshake, or text.
    fn process_pairs(&mut self, pairs: Vec<(String, Vec<u8>)>, now: TimeNs, elapsed: i64) -> Result<(), S2sError> {
        let (mut metadata, mut fields) = (self.default_metadata(), Fields::new());
        let (mut raw, mut time, mut is_done, mut capabilities) = (Vec::new(), None, false, None);
        let count = pairs.len();
        for (key, value) in pairs {
            let text = || String::from_utf8_lossy(&value).into_owned();
            match key.as_str() {
                "_raw" => raw = value,
                "_time" => time = seconds(text().trim()),
                "_done" => is_done = true,
                "__s2s_capabilities" => capabilities = Some(text()),
                key => read_field(key, &text(), &mut metadata, &mut time, &mut fields),
            }
        }
        if let Some(capabilities) = capabilities {
            let says = |word: &str| capabilities.split(';').any(|part| part.trim() == word);
            if count == 1 {
                self.wants_acks = says("ack=1");
                let shown = capabilities.split(';').find_map(|part| part.trim().strip_prefix(TOKEN_WORD));
                self.check_token(shown)?;
                let sender = capabilities.split(';').find_map(|part| part.trim().strip_prefix(BATCHES_WORD));
                let is_usable = |name: &&str| !name.is_empty() && name.len() <= SENDER_BYTES_MAX;
                self.sender = sender.filter(|name| self.defaults.offers_packets && is_usable(name)).map(str::to_owned);
                self.answer.extend(self.capabilities_answer());
            } else if self.defaults.offers_packets && says("v4=1") {
                self.has_packets = true;
                self.decoder.switch_to_packets();
            }
            return Ok(());
        }
        if !raw.is_empty() && time.is_some() {
            return self.take_whole(raw, time.unwrap_or(now), metadata, fields, now);
        }
        let index = Arc::clone(&metadata.index);
        if !raw.is_empty() {
            self.drop_silent_source(now);
            let channel = self.sources.entry(metadata.clone()).or_insert_with_key(|key| Channel::new(key.clone()));
            channel.last = elapsed;
            let batch = batch_of(&mut self.batches, &index, now);
            channel.push(
                &self.defaults.props,
                Piece { raw: &raw, id: None, sent: None, zone: self.zone.as_ref(), fields: &fields },
                now,
                batch,
            )?;
            batch.index_time = now;
        }
        if is_done && let Some(channel) = self.sources.get_mut(&metadata) {
            channel.finish(batch_of(&mut self.batches, &index, now));
        }
        Ok(())
    }

    /// Checks the presented token, if tokens are required.
    fn check_token(&mut self, shown: Option<&str>) -> Result<(), S2sError> {
        let Some(tokens) = &self.defaults.tokens else { return Ok(()) };
        let shown = shown.ok_or(S2sError::Token)?;
        // The token is compared with every accepted token, so that the time does not depend on its value.
        let fits = tokens.iter().fold(Choice::from(0), |fits, token| fits | token.as_bytes().ct_eq(shown.as_bytes()));
        self.has_token = fits.into();
        if self.has_token { Ok(()) } else { Err(S2sError::Token) }
    }

    /// Drops the source that has been silent longest if there are too many.
    fn drop_silent_source(&mut self, now: TimeNs) {
        if self.sources.len() < CHANNELS_MAX {
            return;
        }
        let oldest = self.sources.iter().min_by_key(|(_, channel)| channel.last).map(|(key, _)| key.clone());
        if let Some(mut channel) = oldest.and_then(|key| self.sources.remove(&key)) {
            channel.finish(batch_of(&mut self.batches, &channel.metadata.index, now));
        }
    }

    /// Answer to a forwarder's capabilities.
    fn capabilities_answer(&self) -> Vec<u8> {
        let offers = self.defaults.offers_packets;
        let level = if offers { PROTOCOL_LEVEL } else { 0 };
        // Quarry's extension is offered only to a forwarder that requests it.
        let own = if self.sender.is_some() { format!(";{BATCHES_WORD}1") } else { String::new() };
        let text = format!(
            "cap_response=success;cap_flush_key=true;idx_can_send_hb=false;idx_can_recv_token=false;\
             request_certificate=false;v4={offers};channel_limit={CHANNELS_MAX};pl={level}{own}"
        );
        frame_of(&[("__s2s_control_msg", &text)])
    }

    fn default_metadata(&self) -> Metadata {
        let defaults = &self.defaults;
        Metadata {
            index: defaults.index.as_str().into(),
            host: defaults.host.as_str().into(),
            source: defaults.source.as_str().into(),
            sourcetype: defaults.sourcetype.as_str().into(),
        }
    }
}

/// The open batch of an index.
fn batch_of<'a>(batches: &'a mut Vec<EventBatch>, index: &str, now: TimeNs) -> &'a mut EventBatch {
    let is_it = |batch: &EventBatch| batch.metas.first().is_none_or(|meta| *meta.index == *index);
    let at = batches.iter().position(is_it).unwrap_or_else(|| {
        batches.push(EventBatch { index_time: now, ..EventBatch::default() });
        batches.len() - 1
    });
    &mut batches[at]
}

fn push_whole(batch: &mut EventBatch, raw: &str, time: TimeNs, metadata: &Metadata, fields: &Fields) {
    let meta = batch.intern(metadata);
    let first = batch.len();
    batch.push(raw.as_bytes(), time, meta);
    add_fields(batch, first, fields);
}

/// Parses a name prefixed by `source::`, `host::` or `sourcetype::`.
fn set_metadata(metadata: &mut Metadata, text: &str) {
    match text.split_once("::") {
        Some(("source", name)) => metadata.source = name.into(),
        Some(("host", name)) => metadata.host = name.into(),
        Some(("sourcetype", name)) => metadata.sourcetype = name.into(),
        _ => {}
    }
}

/// Processes a key sent with a text: metadata, a part of the time, indexed fields, or a word of the protocol.
fn read_field(key: &str, value: &str, metadata: &mut Metadata, time: &mut Option<TimeNs>, fields: &mut Fields) {
    match key {
        "_MetaData:Index" => {
            if !value.is_empty() && value != "default" {
                metadata.index = value.into();
            }
        }
        "MetaData:Host" | "MetaData:Source" | "MetaData:Sourcetype" => set_metadata(metadata, value),
        "_subsecond" => {
            let part = seconds(value.trim()).filter(|part| (0..NANOS_PER_SEC).contains(part));
            *time = time.map(|time| time.saturating_add(part.unwrap_or(0)));
        }
        "_meta" => {
            let sent = meta_pairs(value).into_iter().filter(|(name, _)| !name.starts_with('_'));
            fields.extend(sent.map(|(name, value)| (name.into(), value.into())));
        }
        key if key.starts_with('_') || key.contains(':') => {}
        key => fields.push((key.into(), value.into())),
    }
}

#[cfg(test)]
mod tests;
