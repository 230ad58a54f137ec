//! Where a message of a syslog connection ends: at a line's end, or after the number of bytes in front of it.
//!
//! RFC 6587 calls the second octet counting: `MSGLEN SP MSG`. A connection speaks one of them, and its first bytes tell
//! which: a number, a blank and `<`. A message with a count may hold line ends, which are written as Splunk's neighbours
//! write control characters, `#012`: a message is one event.

/// Digits of a count at most.
const COUNT_DIGITS_MAX: usize = 7;
/// Bytes of a message at most; a larger count is no count.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// How a line end inside a message is written.
const LINE_END: &[u8] = b"#012";

/// Framing of one connection.
#[derive(Debug, Default)]
pub(crate) enum Framing {
    /// Not enough bytes were seen.
    #[default]
    Unknown,
    /// As the bytes come.
    Lines,
    /// Messages with a count.
    Counted,
}

/// What the first bytes of a connection say.
enum First {
    Short,
    Counted,
    Lines,
}

impl Framing {
    /// Takes bytes, of which `held` came before and were not used, and gives lines to `give`. Returns what is held.
    pub(crate) fn push(&mut self, held: &mut Vec<u8>, bytes: &[u8], give: &mut dyn FnMut(&[u8])) {
        if matches!(self, Framing::Lines) {
            return give(bytes);
        }
        held.extend_from_slice(bytes);
        if matches!(self, Framing::Unknown) {
            match first(held) {
                First::Short => return,
                First::Counted => *self = Framing::Counted,
                First::Lines => *self = Framing::Lines,
            }
        }
        if matches!(self, Framing::Counted) {
            let (used, goes_on) = give_messages(held, give);
            held.drain(..used);
            if goes_on {
                return;
            }
            // What follows has no count: better odd lines than none.
            *self = Framing::Lines;
        }
        give(&std::mem::take(held));
    }

    /// Gives what is left when no more comes.
    pub(crate) fn finish(&mut self, held: &mut Vec<u8>, give: &mut dyn FnMut(&[u8])) {
        if !held.is_empty() {
            give(&std::mem::take(held));
        }
    }
}

/// Gives whole messages; bytes used, and whether what follows may be a message.
fn give_messages(bytes: &[u8], give: &mut dyn FnMut(&[u8])) -> (usize, bool) {
    let mut at = 0;
    loop {
        // Some senders end messages with a line end as well.
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
        give_message(message, give);
        at = start + count;
    }
}

fn give_message(message: &[u8], give: &mut dyn FnMut(&[u8])) {
    let ends = message.iter().rev().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
    for (number, line) in message[..message.len() - ends].split(|byte| *byte == b'\n').enumerate() {
        if number > 0 {
            give(LINE_END);
        }
        give(line);
    }
    give(b"\n");
}

fn first(bytes: &[u8]) -> First {
    let digits = bytes.iter().take(COUNT_DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_digit()).count();
    if digits > COUNT_DIGITS_MAX || (digits == 0 && !bytes.is_empty()) {
        return First::Lines;
    }
    match bytes[digits..] {
        [b' ', b'<', ..] => First::Counted,
        [] | [b' '] => First::Short,
        _ => First::Lines,
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
    fn the_first_bytes_tell_how_messages_end() {
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
        fn lines_do_not_depend_on_how_bytes_are_cut(
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
