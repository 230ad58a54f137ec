//! Splits a forwarder's connection into greetings, frames and packets.
//!
//! The decoder returns `None` if the next message is incomplete, and keeps its bytes until more arrive. Every length is
//! checked against its limit before memory is allocated, so an incomplete frame or packet has a maximum size.
//! Compressed streams are decompressed in small steps, so that a few bytes cannot expand to much memory.

use flate2::{Decompress, FlushDecompress, Status};

use super::S2sError;
use super::batch::varint;

/// Parts of a greeting: signature, server name, management port.
pub(super) const GREETING_PARTS: [usize; 3] = [128, 256, 16];
pub(super) const GREETING_BYTES: usize = 400;
/// Signature without its version.
pub(super) const SIGNATURE: &[u8] = b"--splunk-cooked-mode-";
/// Maximum size of a frame or packet: the largest event with its overhead.
pub const FRAME_BYTES_MAX: usize = 20 << 20;
/// Maximum number of pairs of a frame and fields of an event.
pub const FIELDS_MAX: usize = 1_024;
/// Bytes decompressed at a time.
const UNPACK_BYTES: usize = 64 << 10;
/// Maximum capacity that empty buffers retain.
const RETAINED_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes of a varint.
const VARINT_BYTES_MAX: usize = 10;
/// First byte of a zlib stream.
const ZLIB_FIRST_BYTE: u8 = 0x78;

/// A message from a forwarder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The greeting.
    Greeting {
        /// Version of the protocol, 2 or 3.
        version: u8,
        /// Server name of the sender.
        server: String,
    },
    /// A frame of keys and values, versions 2 and 3.
    Pairs(Vec<(String, Vec<u8>)>),
    /// Opens a channel.
    OpenChannel {
        /// Number of the channel whose metadata the new channel copies.
        like: Option<u64>,
        /// Number of the new channel.
        number: u64,
        /// `source::`, `host::`, `sourcetype::` and a number assigned by the sender; `None` if absent.
        slots: [Option<String>; 4],
    },
    /// Closes a channel.
    CloseChannel(u64),
    /// A piece of a channel's text.
    Event(Event),
    /// A compressed batch of a Quarry forwarder, with its number.
    Batch(u64, Vec<u8>),
    /// Inclusive range of acknowledged numbers.
    Acknowledged(u64, u64),
    /// The forwarder's time zone as text.
    Zone(Vec<u8>),
}

/// A piece of a channel's text, from a packet (protocol version 4, which is agreed on in the frames of version 3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Number of the channel.
    pub channel: u64,
    /// Whether the text is one parsed event.
    pub is_whole: bool,
    /// Acknowledgment id.
    pub id: Option<u64>,
    /// Seconds since the epoch.
    pub seconds: Option<u64>,
    /// Fields in order.
    pub fields: Vec<(String, String)>,
    /// The text.
    pub raw: Vec<u8>,
}

/// Protocol element that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProtocolElement {
    Greeting,
    Frames,
    Packets,
}

/// Decodes a connection's bytes.
pub struct Decoder {
    form: ProtocolElement,
    /// Uncompressed bytes; `used` of them were consumed.
    plain: Vec<u8>,
    used: usize,
    /// Decompressor, and the compressed bytes waiting for it.
    packed: Option<(Decompress, Vec<u8>)>,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Decoder").field("form", &self.form).field("held", &self.plain.len()).finish_non_exhaustive()
    }
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { form: ProtocolElement::Greeting, plain: Vec::new(), used: 0, packed: None }
    }
}

impl Decoder {
    /// Adds bytes of the connection.
    pub fn push(&mut self, bytes: &[u8]) {
        match &mut self.packed {
            Some((_, packed)) => packed.extend_from_slice(bytes),
            None => self.plain.extend_from_slice(bytes),
        }
    }

    /// A decoder for the receiver's answers, which begin with frames.
    pub fn for_answers() -> Decoder {
        Decoder { form: ProtocolElement::Frames, ..Decoder::default() }
    }

    /// Decodes the following bytes as packets.
    pub fn switch_to_packets(&mut self) {
        self.form = ProtocolElement::Packets;
    }

    /// The next message; `None` if more bytes are needed.
    pub fn next_message(&mut self) -> Result<Option<Message>, S2sError> {
        loop {
            let rest = self.plain.get(self.used..).unwrap_or_default();
            let decoded = match self.form {
                ProtocolElement::Greeting => greeting(rest)?,
                ProtocolElement::Frames => frame(rest)?,
                ProtocolElement::Packets => packet(rest)?,
            };
            match decoded {
                Step::Message(message, bytes) => {
                    self.used += bytes;
                    if let Message::Greeting { .. } = message {
                        self.form = ProtocolElement::Frames;
                    }
                    return Ok(Some(message));
                }
                Step::Skip(bytes) => self.used += bytes,
                Step::Packed(bytes) => self.begin_unpacking(bytes)?,
                Step::Incomplete => {
                    self.compact();
                    if !self.unpack()? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// True if an incomplete message is buffered.
    pub fn is_inside_message(&self) -> bool {
        self.plain.len() > self.used || self.packed.as_ref().is_some_and(|(_, packed)| !packed.is_empty())
    }

    /// Bytes of memory held.
    pub fn held_bytes(&self) -> usize {
        self.plain.capacity() + self.packed.as_ref().map_or(0, |(_, packed)| packed.capacity())
    }

    fn begin_unpacking(&mut self, skip: usize) -> Result<(), S2sError> {
        if self.packed.is_some() {
            return Err(S2sError::Malformed("a compressed stream in a compressed stream"));
        }
        self.used += skip;
        let packed = self.plain.split_off(self.used.min(self.plain.len()));
        self.packed = Some((Decompress::new(true), packed));
        Ok(())
    }

    /// Decompresses some bytes; returns true if decoding can go on: bytes were added, or the compressed stream ended.
    fn unpack(&mut self) -> Result<bool, S2sError> {
        let Some((unpacker, packed)) = &mut self.packed else { return Ok(false) };
        if packed.is_empty() {
            return Ok(false);
        }
        let before = unpacker.total_in();
        self.plain.reserve(UNPACK_BYTES);
        let held = self.plain.len();
        let status = unpacker.decompress_vec(packed, &mut self.plain, FlushDecompress::Sync);
        let status = status.map_err(|_| S2sError::Malformed("the compressed stream is damaged"))?;
        let taken = usize::try_from(unpacker.total_in() - before).unwrap_or(usize::MAX).min(packed.len());
        packed.drain(..taken);
        if status == Status::StreamEnd {
            let rest = std::mem::take(packed);
            self.packed = None;
            self.plain.extend_from_slice(&rest);
            return Ok(true);
        }
        Ok(self.plain.len() > held)
    }

    /// Drops consumed bytes.
    fn compact(&mut self) {
        self.plain.drain(..self.used);
        self.used = 0;
        if self.plain.is_empty() && self.plain.capacity() > RETAINED_BYTES_MAX {
            self.plain = Vec::new();
        }
    }
}

/// Result of decoding the beginning of a buffer.
enum Step {
    /// A message and its encoded size.
    Message(Message, usize),
    /// Number of bytes to skip.
    Skip(usize),
    /// Number of bytes after which the connection is compressed.
    Packed(usize),
    /// The message is incomplete.
    Incomplete,
}

fn greeting(bytes: &[u8]) -> Result<Step, S2sError> {
    let seen = bytes.len().min(SIGNATURE.len());
    if bytes[..seen] != SIGNATURE[..seen] {
        return Err(S2sError::Greeting);
    }
    if bytes.len() < GREETING_BYTES {
        return Ok(Step::Incomplete);
    }
    let (signature, rest) = bytes.split_at(GREETING_PARTS[0]);
    let version = match until_nul(&signature[SIGNATURE.len()..]) {
        b"v3--" => 3,
        b"v2--" | b"v2--:C" => 2,
        _ => return Err(S2sError::Greeting),
    };
    let server = String::from_utf8_lossy(until_nul(&rest[..GREETING_PARTS[1]])).into_owned();
    Ok(Step::Message(Message::Greeting { version, server }, GREETING_BYTES))
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let four: [u8; 4] = bytes.get(at..)?.get(..4)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(four)).ok()
}

/// Decodes a frame of pairs. The empty `_raw` after the pairs is ignored.
fn frame(bytes: &[u8]) -> Result<Step, S2sError> {
    if bytes.first() == Some(&ZLIB_FIRST_BYTE) {
        return Ok(Step::Packed(0));
    }
    let Some(size) = word(bytes, 0) else { return Ok(Step::Incomplete) };
    if size == 0 {
        return Ok(Step::Skip(4));
    }
    if size > FRAME_BYTES_MAX {
        return Err(S2sError::TooLong { what: "a frame", bytes: size as u64, limit: FRAME_BYTES_MAX });
    }
    let Some(body) = bytes.get(4..4 + size) else { return Ok(Step::Incomplete) };
    let cut_short = S2sError::Malformed("a frame ends within a pair");
    let count = word(body, 0).ok_or_else(|| cut_short.clone())?;
    if count > FIELDS_MAX {
        return Err(S2sError::TooMany { what: "pairs in a frame", count: count as u64, limit: FIELDS_MAX });
    }
    let mut at = 4;
    let mut text = || -> Result<&[u8], S2sError> {
        let length = word(body, at).ok_or_else(|| cut_short.clone())?;
        let start = at + 4;
        at = start.checked_add(length).ok_or_else(|| cut_short.clone())?;
        let text = body.get(start..at).ok_or_else(|| cut_short.clone())?;
        Ok(text.strip_suffix(b"\0").unwrap_or(text))
    };
    let mut pairs = Vec::new();
    for _ in 0..count {
        let key = String::from_utf8_lossy(text()?).into_owned();
        pairs.push((key, text()?.to_vec()));
    }
    Ok(Step::Message(Message::Pairs(pairs), 4 + size))
}

/// Encodes a frame of pairs.
pub fn frame_of(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut body = Vec::new();
    let number = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes();
    body.extend_from_slice(&number(pairs.len()));
    let mut text = |text: &str| {
        body.extend_from_slice(&number(text.len() + 1));
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    };
    for (key, value) in pairs {
        text(key);
        text(value);
    }
    body.extend_from_slice(&[0; 4]);
    body.extend_from_slice(&number(5));
    body.extend_from_slice(b"_raw\0");
    let mut frame = number(body.len()).to_vec();
    frame.append(&mut body);
    frame
}

pub(super) const INIT: u8 = 0xff;
pub(super) const OPEN_CHANNEL: u8 = 0xfe;
pub(super) const CLOSE_CHANNEL: u8 = 0xfd;
pub(super) const EVENT: u8 = 0xfc;
const ACK_ONE: u8 = 0xfb;
const ACK_RANGE: u8 = 0xfa;
const START_ZLIB: u8 = 0xf9;
const CLONE_CHANNEL: u8 = 0xf8;
/// Quarry's extension, used between nodes that support it.
pub(super) const BATCH: u8 = 0xe0;
/// Flags of an event.
const HAS_STREAM: u64 = 0x2;
pub(super) const HAS_ID: u64 = 0x4;
pub(super) const HAS_TIME: u64 = 0x8;
pub(super) const IS_WHOLE: u64 = 0x40;
const HAS_BINARY: u64 = 0x1_0000;

/// Reason why a packet could not be decoded: incomplete or invalid.
enum DecodeStop {
    Incomplete,
    Invalid(S2sError),
}

/// Decodes a packet.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, DecodeStop> {
        let byte = *self.bytes.get(self.at).ok_or(DecodeStop::Incomplete)?;
        self.at += 1;
        Ok(byte)
    }

    fn number(&mut self) -> Result<u64, DecodeStop> {
        let mut value = 0_u64;
        for place in 0..VARINT_BYTES_MAX {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            let shift = 7 * place;
            if shift == 63 && part > 1 {
                break;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeStop::Invalid(S2sError::Malformed("a number of more than 64 bits")))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], DecodeStop> {
        let length = usize::try_from(length).ok().filter(|length| *length <= FRAME_BYTES_MAX);
        let Some(length) = length else {
            let bytes = FRAME_BYTES_MAX as u64 + 1;
            return Err(DecodeStop::Invalid(S2sError::TooLong { what: "a text", bytes, limit: FRAME_BYTES_MAX }));
        };
        let taken = self.bytes.get(self.at..self.at + length).ok_or(DecodeStop::Incomplete)?;
        self.at += length;
        if self.at > FRAME_BYTES_MAX {
            let bytes = self.at as u64;
            return Err(DecodeStop::Invalid(S2sError::TooLong { what: "a packet", bytes, limit: FRAME_BYTES_MAX }));
        }
        Ok(taken)
    }

    fn text(&mut self) -> Result<&'a [u8], DecodeStop> {
        let length = self.number()?;
        self.take(length)
    }

    fn string(&mut self) -> Result<String, DecodeStop> {
        self.text().map(|text| String::from_utf8_lossy(text).into_owned())
    }

    fn count(&mut self) -> Result<usize, DecodeStop> {
        let count = self.number()?;
        let few = usize::try_from(count).ok().filter(|count| *count <= FIELDS_MAX);
        few.ok_or(DecodeStop::Invalid(S2sError::TooMany { what: "fields in a packet", count, limit: FIELDS_MAX }))
    }

    /// Reads a slot of a channel. A slot begins with its length plus one, or with 0 if it is absent.
    fn slot(&mut self) -> Result<Option<String>, DecodeStop> {
        match self.number()? {
            0 => Ok(None),
            length => self.take(length - 1).map(|text| Some(String::from_utf8_lossy(text).into_owned())),
        }
    }

    fn channel(&mut self, like: Option<u64>) -> Result<Message, DecodeStop> {
        let number = self.number()?;
        let slots = [self.slot()?, self.slot()?, self.slot()?, self.slot()?];
        for _ in 0..self.count()? {
            self.text()?;
        }
        Ok(Message::OpenChannel { like, number, slots })
    }
}

fn packet(bytes: &[u8]) -> Result<Step, S2sError> {
    let Some(tag) = bytes.first() else { return Ok(Step::Incomplete) };
    let mut reader = Reader { bytes, at: 1 };
    let read = match *tag {
        // Some forwarders send zeros as keep-alives.
        0 => return Ok(Step::Skip(bytes.iter().take_while(|byte| **byte == 0).count())),
        START_ZLIB => return Ok(Step::Packed(1)),
        INIT => reader.text().map(|text| Message::Zone(text.to_vec())),
        OPEN_CHANNEL => reader.channel(None),
        CLONE_CHANNEL => reader.number().and_then(|like| reader.channel(Some(like))),
        CLOSE_CHANNEL => reader.number().map(Message::CloseChannel),
        EVENT => event(&mut reader).map(Message::Event),
        ACK_ONE => reader.number().map(|id| Message::Acknowledged(id, id)),
        ACK_RANGE => reader.number().and_then(|low| Ok(Message::Acknowledged(low, reader.number()?))),
        BATCH => reader.number().and_then(|number| Ok(Message::Batch(number, reader.text()?.to_vec()))),
        other => return Err(S2sError::UnknownPacket(other)),
    };
    match read {
        Ok(message) => Ok(Step::Message(message, reader.at)),
        Err(DecodeStop::Incomplete) if bytes.len() > FRAME_BYTES_MAX => {
            let (what, bytes) = ("a packet", bytes.len() as u64);
            Err(S2sError::TooLong { what, bytes, limit: FRAME_BYTES_MAX })
        }
        Err(DecodeStop::Incomplete) => Ok(Step::Incomplete),
        Err(DecodeStop::Invalid(error)) => Err(error),
    }
}

/// A field's value before the text is known.
enum Value {
    Text(String),
    /// Offset and length in the text.
    Part(u64, u64),
    Unknown,
}

fn event(reader: &mut Reader<'_>) -> Result<Event, DecodeStop> {
    let mut event = Event { channel: reader.number()?, ..Event::default() };
    let flags = reader.number()?;
    event.is_whole = flags & IS_WHOLE != 0;
    if flags & HAS_STREAM != 0 {
        for _ in 0..3 {
            reader.number()?;
        }
    }
    event.id = if flags & HAS_ID != 0 { Some(reader.number()?) } else { None };
    event.seconds = if flags & HAS_TIME != 0 { Some(reader.number()?) } else { None };
    let count = reader.count()?;
    let mut fields = Vec::new();
    for _ in 0..count {
        fields.push(field(reader)?);
    }
    if flags & HAS_BINARY != 0 {
        reader.text()?;
    }
    let raw = reader.text()?;
    for (name, value) in fields {
        let value = match value {
            Value::Text(text) => text,
            Value::Part(start, length) => {
                let start = usize::try_from(start).unwrap_or(usize::MAX);
                let end = start.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
                let part = raw.get(start..end).unwrap_or_default();
                String::from_utf8_lossy(part).into_owned()
            }
            Value::Unknown => continue,
        };
        if !name.is_empty() {
            event.fields.push((name, value));
        }
    }
    event.raw = raw.to_vec();
    Ok(event)
}

/// Decodes a field. In the field's code, two bits give the encoding of the name, and four bits the encoding of the
/// value.
fn field(reader: &mut Reader<'_>) -> Result<(String, Value), DecodeStop> {
    let form = reader.number()?;
    let name = match form & 3 {
        0 | 3 => reader.string()?,
        1 => {
            reader.number()?;
            String::new()
        }
        _ => predefined(reader.number()?).to_owned(),
    };
    let value = match form >> 2 & 15 {
        0 => Value::Text(reader.number()?.to_string()),
        1 => Value::Text(reader.string()?),
        2 => Value::Text(predefined(reader.number()?).to_owned()),
        3..=9 => Value::Part(reader.number()?, reader.number()?),
        10 => Value::Text(format!("-{}", reader.number()?)),
        11 | 12 => {
            reader.number()?;
            Value::Unknown
        }
        _ => return Err(DecodeStop::Invalid(S2sError::Malformed("a field's value of an unknown kind"))),
    };
    Ok((name, value))
}

/// Predefined names by number; an empty name means that its number is unknown here.
fn predefined(code: u64) -> &'static str {
    match code {
        0 => "_subsecond",
        44 => "_meta",
        _ => "",
    }
}

/// Encodes the acknowledgment of ascending ids; consecutive ids share a packet.
pub fn acknowledgment(ids: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut at = 0;
    while let Some(first) = ids.get(at) {
        let run = ids[at..].iter().zip(*first..).take_while(|(id, expected)| **id == *expected).count().max(1);
        if run == 1 {
            bytes.push(ACK_ONE);
            varint(*first, &mut bytes);
        } else {
            bytes.push(ACK_RANGE);
            varint(*first, &mut bytes);
            varint(first + run as u64 - 1, &mut bytes);
        }
        at += run;
    }
    bytes
}

#[cfg(test)]
pub(crate) mod tests;
