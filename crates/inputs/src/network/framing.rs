//! Framing of a syslog connection: a message ends at a line end, or the number of its bytes precedes it.
//!
//! RFC 6587 calls the second form octet counting: `MSGLEN SP MSG`. A connection uses octet counting if its first bytes
//! are a number, a blank and `<`, and line ends otherwise. Line ends inside a counted message are written as `#012`,
//! the usual syslog escape, because a message is one event. A message may arrive in pieces with pauses between them; a
//! message that is cut short by the end of the connection is passed on without its count.

use quarry_conf::NetworkKind;

/// Maximum digits of a count.
const COUNT_DIGITS_MAX: usize = 7;
/// Maximum size of a message; a larger number is not treated as a count.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Escape of a line end inside a message.
const ESCAPED_LINE_END: &[u8] = b"#012";

/// Framing of one connection.
#[derive(Debug, Default)]
pub(crate) enum Framing {
    /// Not known yet, because more bytes are needed.
    #[default]
    Unknown,
    Lines,
    /// Messages with a count. The first `rest` bytes belong to a message whose beginning was passed on before.
    OctetCounted {
        rest: usize,
    },
}

/// Framing indicated by the first bytes.
enum DetectedFraming {
    Incomplete,
    OctetCounted,
    Lines,
}

/// Start of a counted message.
enum MessageStart {
    /// More bytes are needed.
    Incomplete,
    /// The message has so many bytes, after a prefix of so many bytes.
    Counted { prefix: usize, count: usize },
    /// The bytes have no count.
    Uncounted,
}

impl Framing {
    /// The framing of a port's connections.
    pub(crate) fn of(kind: NetworkKind, is_syslog: bool) -> Framing {
        match kind {
            NetworkKind::Tcp if is_syslog => Framing::Unknown,
            NetworkKind::Tcp | NetworkKind::Udp | NetworkKind::Forwarders => Framing::Lines,
        }
    }

    /// Passes the text of `bytes` to `give`. Counted messages become lines, and an incomplete message is kept in
    /// `held`; without counts, the bytes are passed on unchanged.
    pub(crate) fn push(&mut self, held: &mut Vec<u8>, bytes: &[u8], give: &mut dyn FnMut(&[u8])) {
        if matches!(self, Framing::Lines) {
            return give(bytes);
        }
        held.extend_from_slice(bytes);
        if matches!(self, Framing::Unknown) {
            match detect_framing(held) {
                DetectedFraming::Incomplete => return,
                DetectedFraming::OctetCounted => *self = Framing::OctetCounted { rest: 0 },
                DetectedFraming::Lines => *self = Framing::Lines,
            }
        }
        if let Framing::OctetCounted { rest } = self {
            let Some(begun) = emit_rest(held, rest, give) else { return };
            let (used, goes_on) = emit_messages(&held[begun..], give);
            held.drain(..begun + used);
            if goes_on {
                return;
            }
            // The following bytes have no count, so they are treated as lines rather than dropped.
            *self = Framing::Lines;
        }
        give(&std::mem::take(held));
    }

    /// Whether bytes in `held` are the beginning of a message whose end is still to come, however long the connection
    /// is silent.
    pub(crate) fn awaits_rest(&self) -> bool {
        matches!(self, Framing::OctetCounted { .. })
    }

    /// Passes the bytes in `held` to `give`, because the connection has ended or holds too much memory. Of a counted
    /// message, its text so far is passed on; what may follow is a line of its own.
    pub(crate) fn finish(&mut self, held: &mut Vec<u8>, give: &mut dyn FnMut(&[u8])) {
        let held = std::mem::take(held);
        if held.is_empty() {
            return;
        }
        match self {
            Framing::OctetCounted { rest: 0 } => match message_start(&held) {
                MessageStart::Counted { prefix, count } => {
                    let text = held.get(prefix..).unwrap_or_default();
                    *self = Framing::OctetCounted { rest: count.saturating_sub(text.len()) };
                    emit_part(text, give);
                }
                // A count without a message is not text.
                MessageStart::Incomplete => *self = Framing::Lines,
                MessageStart::Uncounted => give(&held),
            },
            Framing::OctetCounted { rest } => {
                *rest = rest.saturating_sub(held.len());
                emit_part(&held, give);
            }
            Framing::Unknown | Framing::Lines => give(&held),
        }
    }
}

/// Passes the rest of a message whose beginning was passed on before to `give`; returns the length of that rest, `None`
/// if more bytes are needed.
fn emit_rest(held: &[u8], rest: &mut usize, give: &mut dyn FnMut(&[u8])) -> Option<usize> {
    let count = std::mem::take(rest);
    match held.get(..count) {
        Some(text) => {
            emit_part(text, give);
            Some(count)
        }
        None => {
            *rest = count;
            None
        }
    }
}

/// Passes whole messages to `give`; returns the number of bytes used, and whether the rest may be the beginning of a
/// message.
fn emit_messages(bytes: &[u8], give: &mut dyn FnMut(&[u8])) -> (usize, bool) {
    let mut at = 0;
    loop {
        // Some senders also end messages with a line end.
        at += bytes[at..].iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        let (prefix, count) = match message_start(&bytes[at..]) {
            MessageStart::Incomplete => return (at, true),
            MessageStart::Uncounted => return (at, false),
            MessageStart::Counted { prefix, count } => (prefix, count),
        };
        let start = at + prefix;
        let Some(message) = bytes.get(start..start + count) else { return (at, true) };
        emit_message(message, give);
        at = start + count;
    }
}

fn message_start(bytes: &[u8]) -> MessageStart {
    let digits = bytes.iter().take(COUNT_DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_digit()).count();
    match bytes.get(digits) {
        None if digits <= COUNT_DIGITS_MAX => return MessageStart::Incomplete,
        Some(b' ') if (1..=COUNT_DIGITS_MAX).contains(&digits) => {}
        _ => return MessageStart::Uncounted,
    }
    let count = std::str::from_utf8(&bytes[..digits]).ok().and_then(|text| text.parse::<usize>().ok());
    match count.filter(|count| *count <= MESSAGE_BYTES_MAX) {
        Some(count) => MessageStart::Counted { prefix: digits + 1, count },
        None => MessageStart::Uncounted,
    }
}

/// Passes a part of a message to `give`, unless it is empty.
fn emit_part(part: &[u8], give: &mut dyn FnMut(&[u8])) {
    if !part.is_empty() {
        emit_message(part, give);
    }
}

fn emit_message(message: &[u8], give: &mut dyn FnMut(&[u8])) {
    let ends = message.iter().rev().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
    for (number, line) in message[..message.len() - ends].split(|byte| *byte == b'\n').enumerate() {
        if number > 0 {
            give(ESCAPED_LINE_END);
        }
        give(line);
    }
    give(b"\n");
}

fn detect_framing(bytes: &[u8]) -> DetectedFraming {
    let digits = bytes.iter().take(COUNT_DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_digit()).count();
    if digits > COUNT_DIGITS_MAX || (digits == 0 && !bytes.is_empty()) {
        return DetectedFraming::Lines;
    }
    match bytes[digits..] {
        [b' ', b'<', ..] => DetectedFraming::OctetCounted,
        [] | [b' '] => DetectedFraming::Incomplete,
        _ => DetectedFraming::Lines,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Framing;

    fn framed(chunks: &[&[u8]]) -> String {
        let (mut framing, mut held, mut out) = (Framing::default(), Vec::new(), Vec::new());
        for chunk in chunks {
            framing.push(&mut held, chunk, &mut |bytes| out.extend_from_slice(bytes));
        }
        framing.finish(&mut held, &mut |bytes| out.extend_from_slice(bytes));
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn first_bytes_determine_the_framing() {
        for (sent, lines) in [
            ("<13>a\n<13>b\n", "<13>a\n<13>b\n"),
            ("5 <13>a6 <13>bc", "<13>a\n<13>bc\n"),
            ("6 <13>a\n6 <13>b\n", "<13>a\n<13>b\n"),
            ("5 <13>a\n5 <13>b\n", "<13>a\n<13>b\n"),
            ("9 <13>a\nb\nc", "<13>a#012b#012c\n"),
            ("5 <13>anonsense\n", "<13>a\nnonsense\n"),
            ("12 monkeys\n", "12 monkeys\n"),
            ("12", "12"),
            ("2026-11-20 text\n", "2026-11-20 text\n"),
        ] {
            assert_eq!(framed(&[sent.as_bytes()]), lines, "{sent:?}");
        }
    }

    #[test]
    fn messages_cut_short_lose_their_count_and_nothing_else() {
        for (sent, lines) in [
            ("5 <13>a9 <13>bc", "<13>a\n<13>bc\n"),
            ("5 <13>a9 ", "<13>a\n"),
            ("5 <13>a9", "<13>a\n"),
            ("5 <13>a\n", "<13>a\n"),
            ("9 <13>a\nb", "<13>a#012b\n"),
        ] {
            assert_eq!(framed(&[sent.as_bytes()]), lines, "{sent:?}");
        }
    }

    #[test]
    fn messages_go_on_after_their_beginning_was_passed_on() {
        let (mut framing, mut held, mut out) = (Framing::default(), Vec::new(), Vec::new());
        for chunk in [&b"5 <13>a9 <13>b"[..], b"cd", b"ef7 <13>ghi6 ", b"<13>jk"] {
            framing.push(&mut held, chunk, &mut |bytes| out.extend_from_slice(bytes));
            framing.finish(&mut held, &mut |bytes| out.extend_from_slice(bytes));
        }
        assert_eq!(String::from_utf8_lossy(&out), "<13>a\n<13>b\ncd\nef\n<13>ghi\n<13>jk\n");
    }

    proptest! {
        #[test]
        fn framing_is_independent_of_chunking(
            messages in prop::collection::vec("<1[0-9]>[a-z \n]{0,40}[a-z]", 1..8),
            cuts in prop::collection::vec(1_usize..20, 0..40),
        ) {
            let sent: String = messages.iter().map(|message| format!("{} {message}", message.len())).collect();
            let mut chunks = Vec::new();
            let mut rest = sent.as_bytes();
            for cut in cuts {
                let (chunk, behind) = rest.split_at(cut.min(rest.len()));
                chunks.push(chunk);
                rest = behind;
            }
            chunks.push(rest);
            let expected: String = messages.iter().map(|message| message.replace('\n', "#012") + "\n").collect();
            prop_assert_eq!(framed(&chunks), expected);
        }
    }
}
