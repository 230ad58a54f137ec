//! A sender that behaves like Splunk's forwarders: S2S version 4 with acknowledgements.
//!
//! A request is one packet: lines that the node breaks into events, or one complete event. It counts as stored when its
//! number is acknowledged. Not here: TLS, compression, and Quarry's forwarder, which `forwarder` tests by running it.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use super::senders::{ANSWER_WAIT, OPEN_MAX, Request};
use super::{Ledger, Rng};

/// Bytes of the greeting before the frame with the capabilities.
const GREETING_BYTES: usize = 400;
const EVENT: u8 = 0xfc;
const OPEN_CHANNEL: u8 = 0xfe;
const ACKNOWLEDGED: u8 = 0xfb;
const ACKNOWLEDGED_MANY: u8 = 0xfa;
const HAS_ID: u64 = 0x4;
const IS_WHOLE: u64 = 0x40;
/// Channel of all events.
const CHANNEL: u64 = 1;
/// Maximum bytes of an answer to a greeting.
const ANSWER_BYTES_MAX: usize = 1 << 16;

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn text(bytes: &[u8], out: &mut Vec<u8>) {
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends a frame text: its length, and a zero byte at its end.
fn frame_text(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32 + 1).to_be_bytes());
    out.extend_from_slice(bytes);
    out.push(0);
}

fn frame(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut body = (pairs.len() as u32).to_be_bytes().to_vec();
    for (key, value) in pairs {
        frame_text(key.as_bytes(), &mut body);
        frame_text(value.as_bytes(), &mut body);
    }
    body.extend_from_slice(&[0; 4]);
    frame_text(b"_raw", &mut body);
    [&(body.len() as u32).to_be_bytes()[..], &body].concat()
}

/// A connection after its handshake.
struct Connection {
    stream: TcpStream,
}

impl Connection {
    fn open(address: &str) -> Option<Connection> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(ANSWER_WAIT)).ok()?;
        stream.set_nodelay(true).ok()?;
        let mut connection = Connection { stream };
        let mut hello = b"--splunk-cooked-mode-v3--".to_vec();
        hello.resize(GREETING_BYTES, 0);
        hello.extend(frame(&[("__s2s_capabilities", "ack=1;compression=0")]));
        connection.stream.write_all(&hello).ok()?;
        let mut size = [0; 4];
        connection.stream.read_exact(&mut size).ok()?;
        let mut answer = vec![0; (u32::from_be_bytes(size) as usize).min(ANSWER_BYTES_MAX)];
        connection.stream.read_exact(&mut answer).ok()?;
        let mut opening = frame(&[("_raw", "ForwarderInfo"), ("__s2s_capabilities", "v4=1;pl=7")]);
        opening.push(OPEN_CHANNEL);
        varint(CHANNEL, &mut opening);
        for slot in ["source::packets", "host::edge", "sourcetype::soak_lines"] {
            varint(slot.len() as u64 + 1, &mut opening);
            opening.extend_from_slice(slot.as_bytes());
        }
        opening.extend_from_slice(&[0, 0]);
        connection.stream.write_all(&opening).ok()?;
        Some(connection)
    }

    fn send(&mut self, id: u64, request: &Request) -> Option<()> {
        let (flags, raw) = match &request.texts[..] {
            [one] => (HAS_ID | IS_WHOLE, one.clone()),
            many => (HAS_ID, many.join("\n") + "\n"),
        };
        let mut bytes = vec![EVENT];
        varint(CHANNEL, &mut bytes);
        varint(flags, &mut bytes);
        varint(id, &mut bytes);
        varint(1, &mut bytes);
        varint(4, &mut bytes);
        varint(b"_MetaData:Index".len() as u64, &mut bytes);
        bytes.extend_from_slice(b"_MetaData:Index");
        text(b"main", &mut bytes);
        text(raw.as_bytes(), &mut bytes);
        self.stream.write_all(&bytes).ok()
    }

    /// Reads the next acknowledgement; returns its first and last number.
    fn acknowledged(&mut self) -> Option<(u64, u64)> {
        let mut tag = [0];
        self.stream.read_exact(&mut tag).ok()?;
        let first = self.number()?;
        match tag[0] {
            ACKNOWLEDGED => Some((first, first)),
            ACKNOWLEDGED_MANY => Some((first, self.number()?)),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u64> {
        let (mut value, mut byte) = (0, [0]);
        for shift in (0..64).step_by(7) {
            self.stream.read_exact(&mut byte).ok()?;
            value |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

/// Sends packets and tracks which of them are acknowledged.
#[derive(Default)]
pub(crate) struct Packets {
    pub(crate) ledger: Ledger,
    next: u64,
    again: Vec<Request>,
}

impl Packets {
    /// Sends until the round or the node ends.
    pub(crate) fn send(&mut self, address: &str, round: u64, mut rng: Rng, over: &AtomicBool) {
        let Some(mut connection) = Connection::open(address) else { return };
        let mut open: VecDeque<(u64, Request)> = VecDeque::new();
        let mut id = 0;
        while !over.load(Ordering::SeqCst) {
            let kept = self.again.pop().filter(|_| rng.below(2) == 0);
            let request = kept.unwrap_or_else(|| Request::make("packet", &mut self.next, &mut rng));
            request.note_sent(&mut self.ledger, round);
            id += 1;
            let sent = connection.send(id, &request);
            open.push_back((id, request));
            if sent.is_none() {
                break;
            }
            let mut is_heard = true;
            while is_heard && (open.len() >= OPEN_MAX || (!open.is_empty() && rng.below(3) == 0)) {
                is_heard = self.hear(&mut connection, &mut open);
            }
            if !is_heard {
                break;
            }
        }
        self.again.extend(open.into_iter().map(|(_, request)| request));
        self.again.truncate(OPEN_MAX);
    }

    /// Waits for one acknowledgement; `false` if no more will arrive.
    fn hear(&mut self, connection: &mut Connection, open: &mut VecDeque<(u64, Request)>) -> bool {
        let Some((first, last)) = connection.acknowledged() else { return false };
        let ledger = &mut self.ledger;
        open.retain(|(id, request)| {
            let is_stored = (first..=last).contains(id);
            if is_stored {
                request.note_acknowledged(ledger);
            }
            !is_stored
        });
        true
    }
}
