//! Framing of a syslog connection: a message ends at a line end, or the number of its bytes precedes it.
//!
//! RFC 6587 calls the second form octet counting: `MSGLEN SP MSG`. A connection uses octet counting if its first bytes
//! are a number, a blank and `<`, and line ends otherwise. Line ends inside a counted message are written as `#012`,
//! the usual syslog escape, because a message is one event.

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
    /// Messages with a count.
    OctetCounted,
}

/// Framing indicated by the first bytes.
enum DetectedFraming {
    Incomplete,
    OctetCounted,
    Lines,
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
                DetectedFraming::OctetCounted => *self = Framing::OctetCounted,
                DetectedFraming::Lines => *self = Framing::Lines,
            }
        }
        if matches!(self, Framing::OctetCounted) {
            let (used, goes_on) = emit_messages(held, give);
            held.drain(..used);
            if goes_on {
                return;
            }
            // The following bytes have no count, so they are treated as lines rather than dropped.
            *self = Framing::Lines;
        }
        give(&std::mem::take(held));
    }

    /// Passes the rest to `give` when the connection has ended or is silent.
    pub(crate) fn finish(&mut self, held: &mut Vec<u8>, give: &mut dyn FnMut(&[u8])) {
        if !held.is_empty() {
            give(&std::mem::take(held));
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
        let digits = bytes[at..].iter().take(COUNT_DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_digit()).count();
        let start = at + digits + 1;
        match bytes.get(at + digits) {
            None if digits <= COUNT_DIGITS_MAX => return (at, true),
            Some(b' ') if (1..=COUNT_DIGITS_MAX).contains(&digits) => {}
            _ => return (at, false),
        }
        let count = std::str::from_utf8(&bytes[at..at + digits]).ok().and_then(|text| text.parse::<usize>().ok());
        let Some(count) = count.filter(|count| *count <= MESSAGE_BYTES_MAX) else { return (at, false) };
        let Some(message) = bytes.get(start..start + count) else { return (at, true) };
        emit_message(message, give);
        at = start + count;
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
