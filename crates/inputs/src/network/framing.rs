//! Framing of a syslog connection: a message ends at a line end, or the number of its bytes precedes it.
//!
//! RFC 6587 calls the second form octet counting: `MSGLEN SP MSG`. Each message is tested for a count, because relays
//! mix both forms in one connection: after a line, a count is a number, a blank and a priority such as `<13>`; in the
//! first message, a number, a blank and `<`; after a counted message, a number and a blank. Line ends inside a counted
//! message are written as `#012`, the usual syslog escape, because a message is one event.

use quarry_conf::NetworkKind;

/// Maximum number of digits of a count.
const COUNT_DIGITS_MAX: usize = 7;
/// Maximum size of a message; a larger number is not treated as a count.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Maximum number of digits of a priority.
const PRIORITY_DIGITS_MAX: usize = 3;
/// Escape of a line end inside a message.
const ESCAPED_LINE_END: &[u8] = b"#012";

/// Framing of one connection.
#[derive(Debug)]
pub(crate) enum Framing {
    /// Messages end at line ends.
    Lines,
    /// Messages may have counts.
    Syslog(SyslogFraming),
}

/// Position in a syslog connection.
#[derive(Debug, Default)]
pub(crate) struct SyslogFraming {
    position: Position,
    previous: Previous,
}

#[derive(Clone, Copy, Debug, Default)]
enum Position {
    /// At the start of a message.
    #[default]
    Start,
    /// Inside a message that ends with a line end.
    Line,
    /// Inside a counted message whose beginning has been passed on.
    Counted {
        /// Bytes of the message that have not arrived.
        left: usize,
    },
}

/// Form of the previous message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Previous {
    /// There was none.
    #[default]
    None,
    Line,
    Counted,
}

/// Result of testing the start of a message for a count.
enum Count {
    /// More bytes are needed.
    Incomplete,
    None,
    /// Size of the count with its blank, and of the message.
    Message {
        header: usize,
        bytes: usize,
    },
}

impl Framing {
    /// The framing of a port's connections.
    pub(crate) fn of(kind: NetworkKind, is_syslog: bool) -> Framing {
        match kind {
            NetworkKind::Tcp if is_syslog => Framing::Syslog(SyslogFraming::default()),
            NetworkKind::Tcp | NetworkKind::Udp | NetworkKind::Forwarders => Framing::Lines,
        }
    }

    /// Passes the text of `bytes` to `give`. Counted messages become lines, and an incomplete message is kept in
    /// `held`; without counts, the bytes are passed on unchanged.
    pub(crate) fn push(&mut self, held: &mut Vec<u8>, bytes: &[u8], give: &mut dyn FnMut(&[u8])) {
        let Framing::Syslog(syslog) = self else { return give(bytes) };
        if held.is_empty() {
            let used = syslog.read(bytes, give);
            held.extend_from_slice(&bytes[used..]);
        } else {
            held.extend_from_slice(bytes);
            let used = syslog.read(held, give);
            held.drain(..used);
        }
    }

    /// Ends a line at a silence. A counted message is not complete before its last byte, so its beginning stays in
    /// `held`; the same applies to the first bytes of the connection as long as they may be a count.
    pub(crate) fn pause(&mut self, held: &mut Vec<u8>, give: &mut dyn FnMut(&[u8])) {
        let Framing::Syslog(syslog) = self else { return };
        if matches!(syslog.position, Position::Line) {
            syslog.position = Position::Start;
        }
        if syslog.previous == Previous::Line && matches!(count_at(held, Previous::Line), Count::Incomplete) {
            give(&std::mem::take(held));
        }
    }

    /// Passes on what has arrived of an incomplete message, because the connection has ended or the message takes too
    /// much time or memory. Of a counted message, the rest follows as a line of its own.
    pub(crate) fn release(&mut self, held: &mut Vec<u8>, give: &mut dyn FnMut(&[u8])) {
        let taken = std::mem::take(held);
        match self {
            Framing::Syslog(syslog) if !taken.is_empty() => syslog.give_incomplete(&taken, give),
            _ => give(&taken),
        }
    }
}

impl SyslogFraming {
    /// Passes on the messages in `bytes`; returns the number of bytes used. The rest is the beginning of a message.
    fn read(&mut self, bytes: &[u8], give: &mut dyn FnMut(&[u8])) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            at += match self.position {
                // Some senders also end counted messages with a line end.
                Position::Start if self.previous == Previous::Counted && matches!(rest[0], b'\n' | b'\r') => 1,
                Position::Start => match count_at(rest, self.previous) {
                    Count::Incomplete => break,
                    Count::None => {
                        (self.position, self.previous) = (Position::Line, Previous::Line);
                        0
                    }
                    Count::Message { header, bytes } => {
                        let Some(message) = rest.get(header..header + bytes) else { break };
                        give_message(message, give);
                        self.previous = Previous::Counted;
                        header + bytes
                    }
                },
                Position::Line => {
                    let (used, is_whole) = whole_lines(rest);
                    give(&rest[..used]);
                    if is_whole {
                        self.position = Position::Start;
                    }
                    used
                }
                Position::Counted { left } => {
                    let used = left.min(rest.len());
                    self.position = Position::Counted { left: left - used };
                    if used == left {
                        give_message(&rest[..used], give);
                        self.position = Position::Start;
                    } else {
                        give_escaped(&rest[..used], give);
                    }
                    used
                }
            };
        }
        at
    }

    /// Passes on the beginning of a message.
    fn give_incomplete(&mut self, bytes: &[u8], give: &mut dyn FnMut(&[u8])) {
        match count_at(bytes, self.previous) {
            Count::Message { header, bytes: size } => {
                let begun = &bytes[header..];
                give_escaped(without_line_ends(begun), give);
                (self.position, self.previous) =
                    (Position::Counted { left: size.saturating_sub(begun.len()) }, Previous::Counted);
            }
            Count::Incomplete | Count::None => give(bytes),
        }
    }
}

/// Tests for the count of a message.
fn count_at(bytes: &[u8], previous: Previous) -> Count {
    let digits = bytes.iter().take(COUNT_DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_digit()).count();
    match bytes.get(digits) {
        _ if digits > COUNT_DIGITS_MAX => return Count::None,
        None => return Count::Incomplete,
        Some(b' ') if digits > 0 => {}
        Some(_) => return Count::None,
    }
    let header = digits + 1;
    let count = std::str::from_utf8(&bytes[..digits]).ok().and_then(|text| text.parse::<usize>().ok());
    let Some(count) = count.filter(|count| *count <= MESSAGE_BYTES_MAX) else { return Count::None };
    let message = &bytes[header..];
    let confirmed = match previous {
        Previous::Counted => Some(true),
        Previous::None => message.first().map(|byte| *byte == b'<'),
        Previous::Line => has_priority(message),
    };
    match confirmed {
        Some(true) => Count::Message { header, bytes: count },
        Some(false) => Count::None,
        None => Count::Incomplete,
    }
}

/// Whether a message begins with a priority; `None` if more bytes are needed.
fn has_priority(message: &[u8]) -> Option<bool> {
    let Some(rest) = message.strip_prefix(b"<") else { return message.first().map(|_| false) };
    let digits = rest.iter().take(PRIORITY_DIGITS_MAX).take_while(|byte| byte.is_ascii_digit()).count();
    rest.get(digits).map(|byte| digits > 0 && *byte == b'>')
}

/// Size of the lines before the next line that may begin with a count, and whether the last of these lines is complete.
fn whole_lines(bytes: &[u8]) -> (usize, bool) {
    let ends = memchr::memchr_iter(b'\n', bytes).map(|end| end + 1);
    let next = ends.into_iter().find(|end| bytes.get(*end).is_none_or(u8::is_ascii_digit));
    next.map_or((bytes.len(), false), |end| (end, true))
}

/// Passes on a message, or its last part, as a line.
fn give_message(message: &[u8], give: &mut dyn FnMut(&[u8])) {
    give_escaped(without_line_ends(message), give);
    give(b"\n");
}

fn without_line_ends(text: &[u8]) -> &[u8] {
    let ends = text.iter().rev().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
    &text[..text.len() - ends]
}

fn give_escaped(text: &[u8], give: &mut dyn FnMut(&[u8])) {
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if number > 0 {
            give(ESCAPED_LINE_END);
        }
        give(line);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Framing, SyslogFraming};

    /// A connection; an empty chunk is a silence, at which an incomplete line is marked by `|`.
    fn framed(chunks: &[&[u8]]) -> String {
        let (mut framing, mut held, mut out) = (Framing::Syslog(SyslogFraming::default()), Vec::new(), Vec::new());
        for chunk in chunks {
            if chunk.is_empty() {
                framing.pause(&mut held, &mut |bytes| out.extend_from_slice(bytes));
                if out.last().is_some_and(|byte| *byte != b'\n') {
                    out.push(b'|');
                }
            } else {
                framing.push(&mut held, chunk, &mut |bytes| out.extend_from_slice(bytes));
            }
        }
        framing.release(&mut held, &mut |bytes| out.extend_from_slice(bytes));
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn first_bytes_of_a_message_determine_its_framing() {
        for (sent, lines) in [
            ("<13>a\n<13>b\n", "<13>a\n<13>b\n"),
            ("5 <13>a6 <13>bc", "<13>a\n<13>bc\n"),
            ("6 <13>a\n6 <13>b\n", "<13>a\n<13>b\n"),
            ("5 <13>a\n5 <13>b\n", "<13>a\n<13>b\n"),
            ("9 <13>a\nb\nc", "<13>a#012b#012c\n"),
            ("5 <13>anonsense\n", "<13>a\nnonsense\n"),
            ("5 <13>anonsense\n5 <13>b", "<13>a\nnonsense\n<13>b\n"),
            ("<13>a\n5 <13>b5 <13>c<13>d\n12 monkeys\n5 <13>e", "<13>a\n<13>b\n<13>c\n<13>d\n12 monkeys\n<13>e\n"),
            ("<13>a\n5 <one>\n4 <1>\n", "<13>a\n5 <one>\n<1>\n"),
            ("12 monkeys\n", "12 monkeys\n"),
            ("12", "12"),
            ("20 <13>cut", "<13>cut"),
            ("5 <13>a9 <13>bc", "<13>a\n<13>bc"),
            ("5 <13>a9 ", "<13>a\n"),
            ("5 <13>a\n", "<13>a\n"),
            ("9 <13>a\nb", "<13>a#012b"),
            ("2026-11-20 text\n", "2026-11-20 text\n"),
        ] {
            assert_eq!(framed(&[sent.as_bytes()]), lines, "{sent:?}");
        }
    }

    #[test]
    fn silences_end_lines_but_not_counted_messages() {
        for (chunks, lines) in [
            (
                &["5 <13>a", "", "5 <1", "", "3>b1", "", "0 <13>a\nb", "", "\ncd"][..],
                "<13>a\n<13>b\n<13>a#012b#012cd\n",
            ),
            (&["1", "", "0 <13>a bcde"], "<13>a bcde\n"),
            (&["<13>a", "", "<13>b\n12", "", "<13>c\n"], "<13>a|<13>b\n12|<13>c\n"),
            (&["<13>a", "", "5 <13>b"], "<13>a|<13>b\n"),
        ] {
            let chunks: Vec<&[u8]> = chunks.iter().map(|chunk| chunk.as_bytes()).collect();
            assert_eq!(framed(&chunks), lines, "{chunks:?}");
        }
    }

    #[test]
    fn messages_after_a_released_part_are_counted() {
        let (mut framing, mut held, mut out) = (Framing::Syslog(SyslogFraming::default()), Vec::new(), Vec::new());
        framing.push(&mut held, b"10 <13>ab", &mut |bytes| out.extend_from_slice(bytes));
        framing.release(&mut held, &mut |bytes| out.extend_from_slice(bytes));
        out.push(b'|');
        for chunk in [&b"c"[..], b"\nd", b"e5 <13>b"] {
            framing.push(&mut held, chunk, &mut |bytes| out.extend_from_slice(bytes));
        }
        assert_eq!(String::from_utf8_lossy(&out), "<13>ab|c#012de\n<13>b\n");
    }

    #[test]
    fn each_part_of_a_message_may_be_released() {
        let (mut framing, mut held, mut out) = (Framing::Syslog(SyslogFraming::default()), Vec::new(), Vec::new());
        for chunk in [&b"5 <13>a9 <13>b"[..], b"cd", b"ef7 <13>ghi6 ", b"<13>jk"] {
            framing.push(&mut held, chunk, &mut |bytes| out.extend_from_slice(bytes));
            framing.release(&mut held, &mut |bytes| out.extend_from_slice(bytes));
            out.push(b'|');
        }
        assert_eq!(String::from_utf8_lossy(&out), "<13>a\n<13>b|cd|ef\n<13>ghi\n|<13>jk\n|");
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
