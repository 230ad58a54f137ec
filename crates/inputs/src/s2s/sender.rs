//! The sending side of a connection to an indexer, without sockets: handshake, encoding of events, acknowledgments.
//!
//! The indexer's answer determines the encoding. A Quarry node that supports whole batches receives the encoded batches
//! of the queue, each with its number. Other indexers receive parsed events as packets of version 4, or as frames of
//! pairs if they do not offer packets. If so configured, plain lines are sent. Only whole batches and packets are
//! acknowledged.
//!
//! Not here: sockets, time, choosing an indexer, resending.

use std::collections::{BTreeMap, VecDeque};

use quarry_event::time::seconds_text;
use quarry_event::{EventBatch, FieldRef, Metadata};

use super::S2sError;
use super::batch::{unpack, varint};
use super::wire::{
    BATCH, CLOSE_CHANNEL, Decoder, EVENT, GREETING_BYTES, GREETING_PARTS, HAS_ID, HAS_TIME, INIT, IS_WHOLE, Message,
    OPEN_CHANNEL, SIGNATURE, frame_of,
};

/// Handshake word by which Quarry nodes recognise each other. In the request, the sender's name follows the word; in
/// the answer, the digit 1 does.
pub(crate) const BATCHES_WORD: &str = "quarry_batches=";
/// Handshake word followed by a Quarry forwarder's token. Splunk's forwarders use an undocumented form.
pub(crate) const TOKEN_WORD: &str = "token=";
/// Maximum length of a sender's name.
pub const SENDER_BYTES_MAX: usize = 200;
/// Default number of channels of a connection.
const DEFAULT_CHANNELS: usize = 300;
/// Maximum number of channels used, whatever the indexer allows.
const CHANNELS_MAX: usize = 4_096;
/// Codes of a field whose value is inline text: with an inline name, and with a numbered name.
const INLINE_TEXT: u64 = 1 << 2;
const NUMBERED_TEXT: u64 = 1 << 2 | 2;
/// Number of the name `_subsecond`.
const SUBSECOND: u64 = 0;
const NANOS_PER_SEC: i64 = 1_000_000_000;
/// Declaration of UTC as the time zone, sent in the first packet.
const ZONE_UTC: &[u8] = b"### SERIALIZED TIMEZONE FORMAT 1.0\nC0\nY0 NW 55 54 43\n$\n";

/// Encoding of events on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentForm {
    /// Lines of text.
    Raw,
    /// Frames of pairs.
    Frames,
    /// Packets of version 4.
    Packets,
    /// Whole batches.
    Batches,
}

/// Settings of all connections.
#[derive(Clone, Debug)]
pub struct SenderSettings {
    /// Name under which batch numbers are stored; at most [`SENDER_BYTES_MAX`] bytes without `;`.
    pub sender: String,
    /// Name of this machine.
    pub host: String,
    /// Whether indexers without support for whole batches are asked for acknowledgments.
    pub use_ack: bool,
    /// Whether S2S is used; if not, plain lines are sent.
    pub is_cooked: bool,
    /// Token for the indexer, without `;`.
    pub token: Option<String>,
}

/// State of one connection.
#[derive(Debug)]
pub struct Sender {
    settings: SenderSettings,
    form: Option<SentForm>,
    decoder: Decoder,
    channels: Channels,
    next_id: u64,
    /// Batches that were sent but not acknowledged.
    waiting: VecDeque<PendingBatch>,
    /// Number up to which everything is acknowledged.
    acknowledged: Option<u64>,
}

/// A batch whose ids are not all acknowledged.
#[derive(Debug)]
struct PendingBatch {
    number: u64,
    /// Ranges of ids that are not acknowledged, in ascending order; both ends belong to a range.
    missing: Vec<(u64, u64)>,
}

impl PendingBatch {
    fn new(number: u64, first: u64, last: u64) -> PendingBatch {
        PendingBatch { number, missing: vec![(first, last)] }
    }

    /// Removes the ids from `low` to `high`. An indexer may acknowledge an id again; other ids are not affected.
    fn acknowledge(&mut self, low: u64, high: u64) {
        let is_outside = |(first, last): &(u64, u64)| high < *first || low > *last;
        if self.missing.iter().all(is_outside) {
            return;
        }
        let mut missing = Vec::with_capacity(self.missing.len() + 1);
        for range in self.missing.drain(..) {
            let (first, last) = range;
            if is_outside(&range) {
                missing.push(range);
                continue;
            }
            if first < low {
                missing.push((first, low - 1));
            }
            if last > high {
                missing.push((high + 1, last));
            }
        }
        self.missing = missing;
    }
}

/// Open channels of a connection by metadata.
#[derive(Debug)]
struct Channels {
    open: BTreeMap<[std::sync::Arc<str>; 3], (u64, u64)>,
    most: usize,
    next: u64,
    clock: u64,
}

impl Sender {
    /// Creates the state of a new connection.
    pub fn new(settings: SenderSettings) -> Sender {
        let form = (!settings.is_cooked).then_some(SentForm::Raw);
        let channels = Channels { open: BTreeMap::new(), most: DEFAULT_CHANNELS, next: 1, clock: 0 };
        let (waiting, acknowledged) = (VecDeque::new(), None);
        Sender { settings, form, decoder: Decoder::for_answers(), channels, next_id: 1, waiting, acknowledged }
    }

    /// First bytes to send to the indexer.
    pub fn hello(&self) -> Vec<u8> {
        if self.form.is_some() {
            return Vec::new();
        }
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend_from_slice(b"v3--");
        bytes.resize(GREETING_PARTS[0], 0);
        let host = self.settings.host.as_bytes();
        bytes.extend_from_slice(&host[..host.len().min(GREETING_PARTS[1] - 1)]);
        bytes.resize(GREETING_PARTS[0] + GREETING_PARTS[1], 0);
        bytes.extend_from_slice(b"8089");
        bytes.resize(GREETING_BYTES, 0);
        let ack = u8::from(self.settings.use_ack);
        let token = self.settings.token.as_ref().map_or_else(String::new, |token| format!(";{TOKEN_WORD}{token}"));
        let capabilities = format!("ack={ack};compression=0;{BATCHES_WORD}{}{token}", self.settings.sender);
        bytes.extend_from_slice(&frame_of(&[("__s2s_capabilities", &capabilities)]));
        bytes
    }

    /// The encoding, once the indexer has answered.
    pub fn form(&self) -> Option<SentForm> {
        self.form
    }

    /// True if sent data counts as delivered only when it is acknowledged.
    pub fn awaits_acks(&self) -> bool {
        match self.form {
            Some(SentForm::Batches) => true,
            Some(SentForm::Packets) => self.settings.use_ack,
            _ => false,
        }
    }

    /// Number of unacknowledged batches.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Number up to which everything is acknowledged.
    pub fn acknowledged(&self) -> Option<u64> {
        self.acknowledged
    }

    /// Processes bytes from the indexer; replies are appended to `out`.
    pub fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), S2sError> {
        if self.form == Some(SentForm::Raw) {
            return Ok(());
        }
        self.decoder.push(bytes);
        while let Some(message) = self.decoder.next_message()? {
            match message {
                Message::Pairs(pairs) => {
                    let control = pairs.iter().find(|(key, _)| key == "__s2s_control_msg");
                    if let (Some((_, text)), None) = (control, self.form) {
                        self.agree(&String::from_utf8_lossy(text), out)?;
                    }
                }
                Message::Acknowledged(low, high) => self.acknowledge_range(low, high),
                _ => {}
            }
        }
        Ok(())
    }

    /// Processes the indexer's capabilities.
    fn agree(&mut self, text: &str, out: &mut Vec<u8>) -> Result<(), S2sError> {
        let said = |word: &str| text.split(';').find_map(|part| part.trim().strip_prefix(word));
        if said("cap_response=").is_some_and(|answer| answer != "success") {
            return Err(S2sError::Malformed("the indexer rejects the capabilities of this forwarder"));
        }
        let knows_packets = said("v4=") == Some("true");
        let form = match () {
            () if knows_packets && said(BATCHES_WORD).is_some() => SentForm::Batches,
            () if knows_packets => SentForm::Packets,
            () => SentForm::Frames,
        };
        if let Some(most) = said("channel_limit=").and_then(|limit| limit.parse::<usize>().ok()) {
            self.channels.most = most.clamp(1, CHANNELS_MAX);
        }
        let (version, level) = if knows_packets { (1, 7) } else { (0, 0) };
        let host = &self.settings.host;
        let raw = format!("ForwarderInfo build=0 version=9.4.0 os=Linux arch=x86_64 hostname={host} fwdType=full");
        let capabilities = format!("cli_can_rcv_hb=0;compression=0;pl={level};v4={version}");
        out.extend_from_slice(&frame_of(&[
            ("_MetaData:Index", "_internal"),
            ("MetaData:Host", &format!("host::{host}")),
            ("MetaData:Source", "source::fwd"),
            ("MetaData:Sourcetype", "sourcetype::fwdinfo"),
            ("__s2s_capabilities", &capabilities),
            ("_raw", &raw),
        ]));
        if knows_packets {
            self.decoder.switch_to_packets();
        }
        if form == SentForm::Packets {
            out.push(INIT);
            text_of(ZONE_UTC, out);
        }
        self.form = Some(form);
        Ok(())
    }

    fn acknowledge_range(&mut self, low: u64, high: u64) {
        self.waiting.iter_mut().for_each(|waiting| waiting.acknowledge(low, high));
        while self.waiting.front().is_some_and(|waiting| waiting.missing.is_empty()) {
            self.acknowledged = self.waiting.pop_front().map(|waiting| waiting.number);
        }
    }

    /// Writes a compressed batch in the connection's encoding.
    pub fn write(&mut self, number: u64, packed: &[u8], out: &mut Vec<u8>) -> Result<(), S2sError> {
        match self.form {
            Some(SentForm::Batches) => {
                out.push(BATCH);
                varint(number, out);
                text_of(packed, out);
                self.waiting.push_back(PendingBatch::new(number, number, number));
            }
            Some(SentForm::Packets) => self.write_packets(number, &unpack(packed)?, out),
            Some(SentForm::Frames) => write_frames(&unpack(packed)?, out),
            Some(SentForm::Raw) => {
                let batch = unpack(packed)?;
                for row in 0..batch.len() {
                    out.extend_from_slice(batch.raw(row));
                    out.push(b'\n');
                }
            }
            None => return Err(S2sError::Malformed("a batch before the indexer has answered")),
        }
        Ok(())
    }

    fn write_packets(&mut self, number: u64, batch: &EventBatch, out: &mut Vec<u8>) {
        let first = self.next_id;
        let mut fields = batch.fields.iter().peekable();
        for row in 0..batch.len() {
            let meta = &batch.metas[batch.meta[row] as usize];
            let channel = self.channels.channel_of(meta, out);
            let seconds = u64::try_from(batch.time[row].div_euclid(NANOS_PER_SEC)).ok();
            out.push(EVENT);
            varint(channel, out);
            let mut flags = IS_WHOLE;
            flags |= if self.settings.use_ack { HAS_ID } else { 0 };
            flags |= if seconds.is_some() { HAS_TIME } else { 0 };
            varint(flags, out);
            if self.settings.use_ack {
                varint(self.next_id, out);
                self.next_id += 1;
            }
            if let Some(seconds) = seconds {
                varint(seconds, out);
            }
            let own = fields_of(&mut fields, row);
            let part = batch.time[row].rem_euclid(NANOS_PER_SEC);
            let has_part = seconds.is_some() && part != 0;
            varint(1 + u64::from(has_part) + own.len() as u64, out);
            named(b"_MetaData:Index", meta.index.as_bytes(), out);
            if has_part {
                varint(NUMBERED_TEXT, out);
                varint(SUBSECOND, out);
                text_of(format!(".{part:09}").trim_end_matches('0').as_bytes(), out);
            }
            own.iter().for_each(|field| named(field.name.as_bytes(), field.value.as_bytes(), out));
            text_of(batch.raw(row), out);
        }
        if self.settings.use_ack && self.next_id > first {
            self.waiting.push_back(PendingBatch::new(number, first, self.next_id - 1));
        }
    }
}

impl Channels {
    /// Number of the channel for `meta`. If necessary, opens the channel and closes the least recently used channel for
    /// it.
    fn channel_of(&mut self, meta: &Metadata, out: &mut Vec<u8>) -> u64 {
        let key = [&meta.source, &meta.host, &meta.sourcetype].map(std::sync::Arc::clone);
        self.clock += 1;
        if let Some((number, used)) = self.open.get_mut(&key) {
            *used = self.clock;
            return *number;
        }
        if self.open.len() >= self.most {
            let oldest = self.open.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            if let Some((number, _)) = oldest.and_then(|key| self.open.remove(&key)) {
                out.push(CLOSE_CHANNEL);
                varint(number, out);
            }
        }
        let number = self.next;
        self.next += 1;
        out.push(OPEN_CHANNEL);
        varint(number, out);
        for (word, text) in ["source::", "host::", "sourcetype::"].iter().zip(&key) {
            varint((word.len() + text.len()) as u64 + 1, out);
            out.extend_from_slice(word.as_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        // Neither a sender number nor columns follow.
        out.extend_from_slice(&[0, 0]);
        self.open.insert(key, (number, self.clock));
        number
    }
}

fn write_frames(batch: &EventBatch, out: &mut Vec<u8>) {
    let mut fields = batch.fields.iter().peekable();
    for row in 0..batch.len() {
        let meta = &batch.metas[batch.meta[row] as usize];
        let (host, source) = (format!("host::{}", meta.host), format!("source::{}", meta.source));
        let sourcetype = format!("sourcetype::{}", meta.sourcetype);
        let time = seconds_text(batch.time[row]);
        // Texts are UTF-8, as in every batch.
        let raw = String::from_utf8_lossy(batch.raw(row));
        let mut pairs = vec![
            ("_MetaData:Index", &*meta.index),
            ("MetaData:Host", &host),
            ("MetaData:Source", &source),
            ("MetaData:Sourcetype", &sourcetype),
            ("_time", &time),
        ];
        pairs.extend(fields_of(&mut fields, row).into_iter().map(|field| (&**field.name, field.value)));
        pairs.extend([("_raw", &*raw), ("_done", "_done")]);
        out.extend_from_slice(&frame_of(&pairs));
    }
}

/// Fields of one row; `fields` is in ascending order of rows.
fn fields_of<'a>(
    fields: &mut std::iter::Peekable<impl Iterator<Item = FieldRef<'a>>>,
    row: usize,
) -> Vec<FieldRef<'a>> {
    let mut own = Vec::new();
    while let Some(field) = fields.next_if(|field| field.row as usize <= row) {
        own.push(field);
    }
    own
}

fn named(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    varint(INLINE_TEXT, out);
    text_of(name, out);
    text_of(value, out);
}

fn text_of(text: &[u8], out: &mut Vec<u8>) {
    varint(text.len() as u64, out);
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quarry_conf::{ConfSource, Layer, Layers, PropsResolver};
    use quarry_event::{EventBatch, Metadata};

    use super::{Sender, SenderSettings, SentForm};
    use crate::s2s::batch::BatchPacker;
    use crate::s2s::wire::{acknowledgment, frame_of};
    use crate::s2s::{Forwarder, ForwarderDefaults};

    const NOW: i64 = 1_795_225_298_000_000_000;

    fn batch(first: usize, count: usize) -> EventBatch {
        let mut batch = EventBatch::default();
        for number in first..first + count {
            let host = format!("h{}", number % 400);
            let meta = Metadata { index: "web".into(), host: host.into(), source: "/a".into(), sourcetype: "t".into() };
            let meta = batch.intern(&meta);
            let row = batch.len() as u32;
            batch.push(format!("größe {number}\nmore").as_bytes(), NOW + number as i64 * 1_500_000_000, meta);
            batch.fields.push(row, "n", &number.to_string());
        }
        batch
    }

    fn packed(batch: &EventBatch) -> Vec<u8> {
        let mut bytes = Vec::new();
        assert!(BatchPacker::default().pack(batch, 0..batch.len(), &mut bytes));
        bytes
    }

    fn sender(use_ack: bool, is_cooked: bool) -> Sender {
        Sender::new(SenderSettings {
            sender: "id/g".to_owned(),
            host: "edge".to_owned(),
            use_ack,
            is_cooked,
            token: None,
        })
    }

    fn receiver(offers_packets: bool) -> Forwarder {
        receiver_by(offers_packets, &Layers::new([]))
    }

    fn receiver_by(offers_packets: bool, layers: &Layers) -> Forwarder {
        let text = || "x".to_owned();
        let props = Arc::new(PropsResolver::new(layers));
        Forwarder::new(Arc::new(ForwarderDefaults {
            index: text(),
            host: text(),
            source: text(),
            sourcetype: text(),
            tokens: None,
            offers_packets,
            typing: Arc::new(quarry_pipeline::EventTyping::new(Arc::clone(&props))),
            props,
        }))
    }

    fn describe_events(batches: &[EventBatch]) -> Vec<String> {
        let row = |batch: &EventBatch, row: usize| {
            let meta = &batch.metas[batch.meta[row] as usize];
            let fields = batch.fields.iter().filter(|field| field.row as usize == row);
            let fields: Vec<String> = fields.map(|field| format!("{}={}", field.name, field.value)).collect();
            let text = String::from_utf8(batch.raw(row).to_vec()).unwrap();
            format!("{meta:?} {} {fields:?} {text}", batch.time[row])
        };
        batches.iter().flat_map(|batch| (0..batch.len()).map(move |at| row(batch, at))).collect()
    }

    /// Runs the handshake between both sides; `knows_batches` tells whether the receiver supports whole batches.
    fn agree(sender: &mut Sender, receiver: &mut Forwarder, knows_batches: bool) {
        receiver.push(&sender.hello());
        assert_eq!(receiver.advance(NOW, 0), Ok(false));
        let answer = receiver.take_answer();
        let answer = match knows_batches {
            true => answer,
            false => {
                let text = String::from_utf8_lossy(&answer).into_owned();
                let start = text.find("cap_response").unwrap();
                let end = text.find(";quarry").unwrap_or(text.len() - 10);
                let said = text[start..end].trim_end_matches('\0').to_owned();
                frame_of(&[("__s2s_control_msg", &said)])
            }
        };
        let mut reply = Vec::new();
        sender.take(&answer, &mut reply).unwrap();
        receiver.push(&reply);
        assert_eq!(receiver.advance(NOW, 0), Ok(false));
    }

    #[test]
    fn quarry_nodes_receive_and_acknowledge_whole_batches() {
        let (mut sender, mut receiver) = (sender(false, true), receiver(true));
        agree(&mut sender, &mut receiver, true);
        assert_eq!((sender.form(), receiver.sender()), (Some(SentForm::Batches), Some("id/g")));
        let batches = [batch(0, 10), batch(10, 5)];
        let mut bytes = Vec::new();
        sender.write(7, &packed(&batches[0]), &mut bytes).unwrap();
        sender.write(9, &packed(&batches[1]), &mut bytes).unwrap();
        receiver.push(&bytes);
        assert_eq!(receiver.advance(NOW, 0), Ok(false));
        let got = receiver.take_numbered();
        assert_eq!(got.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [7, 9]);
        let got: Vec<EventBatch> = got.into_iter().map(|(_, batch)| batch).collect();
        assert_eq!(describe_events(&got), describe_events(&batches));
        assert_eq!((sender.waiting(), sender.acknowledged()), (2, None));
        sender.take(&acknowledgment(&[9]), &mut Vec::new()).unwrap();
        assert_eq!((sender.waiting(), sender.acknowledged()), (2, None), "the first acknowledgment is missing");
        sender.take(&acknowledgment(&[7]), &mut Vec::new()).unwrap();
        assert_eq!((sender.waiting(), sender.acknowledged()), (0, Some(9)));
    }

    #[test]
    fn other_indexers_receive_packets_or_frames() {
        for (offers_packets, form) in [(true, SentForm::Packets), (false, SentForm::Frames)] {
            let (mut sender, mut receiver) = (sender(true, true), receiver(offers_packets));
            agree(&mut sender, &mut receiver, false);
            assert_eq!(sender.form(), Some(form));
            // More channels than a connection may have.
            let batches = [batch(0, 700), batch(700, 3)];
            let mut bytes = Vec::new();
            batches.iter().zip([3, 4]).for_each(|(batch, number)| {
                sender.write(number, &packed(batch), &mut bytes).unwrap();
            });
            receiver.push(&bytes);
            assert_eq!(receiver.advance(NOW, 0), Ok(false));
            let (got, ids) = receiver.take_batches();
            assert_eq!(describe_events(&got), describe_events(&batches));
            assert_eq!(sender.awaits_acks(), form == SentForm::Packets);
            if sender.awaits_acks() {
                assert_eq!(ids.len(), 703);
                sender.take(&acknowledgment(&ids[..701]), &mut Vec::new()).unwrap();
                assert_eq!((sender.waiting(), sender.acknowledged()), (1, Some(3)));
                sender.take(&acknowledgment(&ids[701..]), &mut Vec::new()).unwrap();
                assert_eq!((sender.waiting(), sender.acknowledged()), (0, Some(4)));
            }
        }
    }

    #[test]
    fn repeated_acknowledgments_do_not_stand_for_missing_ones() {
        let (mut sender, mut receiver) = (sender(true, true), receiver(true));
        agree(&mut sender, &mut receiver, false);
        sender.write(3, &packed(&batch(0, 6)), &mut Vec::new()).unwrap();
        sender.write(4, &packed(&batch(6, 2)), &mut Vec::new()).unwrap();
        let mut take = |ids: &[u64]| {
            sender.take(&acknowledgment(ids), &mut Vec::new()).unwrap();
            (sender.waiting(), sender.acknowledged())
        };
        for ids in [&[1, 2, 3][..], &[1, 2, 3], &[2], &[3, 4], &[6], &[6, 7], &[1, 2, 3, 4]] {
            assert_eq!(take(ids), (2, None), "5 is missing: {ids:?}");
        }
        assert_eq!(take(&[5]), (1, Some(3)));
        assert_eq!(take(&[5, 6, 7]), (1, Some(3)));
        assert_eq!(take(&[8]), (0, Some(4)));
    }

    #[test]
    fn receiver_applies_rulesets_to_whole_batches() {
        let source = |conf: &str, text: &str| ConfSource {
            layer: Layer::SystemLocal,
            app: None,
            file: format!("{conf}.conf"),
            text: text.to_owned(),
        };
        let props = source("props", "[t]\nRULESET-a = away, drop\nTRANSFORMS-b = all\n");
        let rules = "[away]\nREGEX = größe 1\nDEST_KEY = _MetaData:Index\nFORMAT = away\n\
                     [drop]\nREGEX = größe 2\nDEST_KEY = queue\nFORMAT = nullQueue\n\
                     [all]\nREGEX = .\nDEST_KEY = queue\nFORMAT = nullQueue\n";
        let layers = Layers::new([props, source("transforms", rules)]);
        let (mut sender, mut receiver) = (sender(false, true), receiver_by(true, &layers));
        agree(&mut sender, &mut receiver, true);
        let mut bytes = Vec::new();
        sender.write(1, &packed(&batch(0, 4)), &mut bytes).unwrap();
        receiver.push(&bytes);
        assert_eq!(receiver.advance(NOW, 0), Ok(false));
        let got: Vec<EventBatch> = receiver.take_numbered().into_iter().map(|(_, batch)| batch).collect();
        let expected: Vec<String> = describe_events(&[batch(0, 4)])
            .into_iter()
            .enumerate()
            .filter(|(row, _)| *row != 2)
            .map(|(row, text)| if row == 1 { text.replace("\"web\"", "\"away\"") } else { text })
            .collect();
        assert_eq!(describe_events(&got), expected);
    }

    #[test]
    fn raw_lines_need_no_handshake() {
        let mut sender = sender(true, false);
        let mut bytes = sender.hello();
        assert!(bytes.is_empty() && !sender.awaits_acks());
        sender.write(1, &packed(&batch(0, 2)), &mut bytes).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), "größe 0\nmore\ngröße 1\nmore\n");
    }

    #[test]
    fn refusing_indexers_cause_an_error() {
        let mut sender = sender(true, true);
        let refused = sender.take(&frame_of(&[("__s2s_control_msg", "cap_response=failure")]), &mut Vec::new());
        assert!(refused.is_err());
    }
}
