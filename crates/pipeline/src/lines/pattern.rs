//! Lines separated by a pattern.
//!
//! Incomplete text waits in a window. A match counts only once [`FOLLOWING_BYTES_MIN`] bytes follow it, because more
//! text could change the match; lines therefore do not depend on the division of the stream into chunks. (Only a
//! pattern that looks further ahead can make lines depend on the division.) While no break is found, the window is
//! searched again only after its size has doubled. The growth between two searches is at least [`SEARCH_STEP_BYTES`]
//! and at most [`FEED_BYTES`]. Of a window longer than `TRUNCATE`, only the head and a short tail are kept.

use memchr::memchr2_iter;
use quarry_stdx::Fault;

use super::{CHARACTER_BYTES_MAX, InputState, Line, truncate_line};
use crate::pattern::{BreakMatch, Groups, Pattern};

/// Number of bytes that must follow a match before it counts.
const FOLLOWING_BYTES_MIN: usize = 512;
/// Number of trailing bytes of an over-long line that are searched for its break.
const TAIL_BYTES: usize = 8 << 10;
/// Minimum number of new bytes that justify another search.
const SEARCH_STEP_BYTES: usize = 4 << 10;
/// Number of bytes of a chunk consumed at once, so that the window stays small for any chunk size.
const FEED_BYTES: usize = 64 << 10;

/// Groups with which most patterns begin.
const NEWLINES: [&str; 2] = [r"([\r\n]+)", r"([\n\r]+)"];

/// Method of searching for breaks.
#[derive(Debug)]
enum BreakSearch {
    /// A run of line feeds and carriage returns is a break if this pattern matches right after it. The pattern never
    /// begins with such a byte itself, so it is tried only at the ends of runs.
    Newlines(Pattern),
    /// Any pattern, with storage for its groups.
    Groups(Pattern, Groups),
}

impl BreakSearch {
    fn new(breaker: &str) -> Result<BreakSearch, Fault> {
        let pattern = Pattern::new(breaker)?;
        // Not for the backtracking engine: such a pattern may refer back to the group or look behind it.
        if pattern.is_linear()
            && let Some(rest) = NEWLINES.iter().find_map(|newlines| breaker.strip_prefix(newlines))
            && starts_with_word_byte(rest)
        {
            return Ok(BreakSearch::Newlines(Pattern::new(&format!("^(?:{rest})"))?));
        }
        let groups = pattern.groups();
        Ok(BreakSearch::Groups(pattern, groups))
    }

    /// The first break at or after `from` that consumes text or has text before it.
    fn next(&mut self, text: &[u8], from: usize) -> Option<BreakMatch> {
        match self {
            BreakSearch::Newlines(pattern) => break_after_newlines(pattern, text, from),
            BreakSearch::Groups(pattern, groups) => {
                let mut from = from;
                while from <= text.len() {
                    let found = pattern.find_break_in(text, from, groups)?;
                    if found.group.end > 0 {
                        return Some(found);
                    }
                    from = found.whole.end.max(from + 1);
                }
                None
            }
        }
    }
}

/// The first run of line feeds and carriage returns at or after `from` after which this anchored pattern matches.
fn break_after_newlines(pattern: &Pattern, text: &[u8], from: usize) -> Option<BreakMatch> {
    let (mut start, mut end) = (from, from);
    for place in memchr2_iter(b'\r', b'\n', text.get(from..)?).map(|place| from + place) {
        let is_first = start == end;
        if is_first || place > end {
            start = place;
        }
        end = place + 1;
        if matches!(text.get(end), Some(b'\r' | b'\n')) {
            continue;
        }
        if let Some(len) = pattern.find_end(&text[end..]) {
            return Some(BreakMatch { whole: start..end + len, group: start..end });
        }
    }
    None
}

/// Whether every match of a pattern begins with a byte that the pattern states: a letter, a digit, or a class of
/// letters and digits.
fn starts_with_word_byte(pattern: &str) -> bool {
    let after = match pattern.as_bytes() {
        [b'\\', b'd' | b'w', after @ ..] => after,
        [b'[', class @ ..] => {
            let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            match class.iter().position(|byte| !is_plain(byte)) {
                Some(close @ 1..) if class[close] == b']' => &class[close + 1..],
                _ => return false,
            }
        }
        [first, after @ ..] if first.is_ascii_alphanumeric() => after,
        _ => return false,
    };
    // The literal must not be optional, and every alternative must begin with it.
    let is_required = match after {
        [b'?' | b'*', ..] => false,
        [b'{', least, ..] => matches!(least, b'1'..=b'9'),
        _ => true,
    };
    is_required && !pattern.contains('|')
}

/// Splits a stream into lines by a pattern.
#[derive(Debug)]
pub(crate) struct PatternLines {
    breaks: BreakSearch,
    limit: usize,
    /// Text that is not yet part of a line.
    window: Vec<u8>,
    /// Input offset of the window's first byte.
    start: u64,
    /// Number of bytes dropped from the window after its head.
    left_out: u64,
    /// Window length at which the next search is due.
    search_at: usize,
}

impl PatternLines {
    pub(super) fn new(breaker: &str, limit: usize) -> Result<PatternLines, Fault> {
        let breaks = BreakSearch::new(breaker)?;
        Ok(PatternLines { breaks, limit, window: Vec::new(), start: 0, left_out: 0, search_at: 0 })
    }

    pub(super) fn skip(&mut self, bytes: u64) {
        self.start += bytes;
    }

    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn capacity(&self) -> usize {
        self.window.capacity()
    }

    pub(super) fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Line<'_>)) {
        for piece in bytes.chunks(FEED_BYTES) {
            self.window.extend_from_slice(piece);
            if self.window.len() >= self.search_at {
                self.search(FOLLOWING_BYTES_MIN, sink);
                self.drop_middle();
                self.search_at = self.window.len() + self.window.len().clamp(SEARCH_STEP_BYTES, FEED_BYTES);
            }
        }
    }

    pub(super) fn drain(&mut self, until: InputState, sink: &mut impl FnMut(Line<'_>)) {
        if until == InputState::More {
            return;
        }
        self.search(0, sink);
        if until == InputState::End {
            let end = self.window.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
            if end > 0 {
                sink(truncate_line(&self.window[..end], end as u64 + self.left_out, self.start, self.limit));
            }
            self.start += self.window.len() as u64 + self.left_out;
            self.left_out = 0;
            self.window.clear();
        }
        self.search_at = 0;
    }

    /// Number of bytes at the start of the window that are the head of an over-long line.
    fn head(&self) -> usize {
        if self.left_out == 0 { 0 } else { self.limit + CHARACTER_BYTES_MAX }
    }

    /// Passes every line whose break is followed by `settled` bytes to `sink`.
    fn search(&mut self, settled: usize, sink: &mut impl FnMut(Line<'_>)) {
        let mut cursor = 0;
        loop {
            let head = self.head();
            let Some(found) = self.breaks.next(&self.window[cursor..], head) else { break };
            if found.whole.end + settled > self.window.len() - cursor {
                break;
            }
            let text = &self.window[cursor..cursor + found.group.start];
            if !text.is_empty() {
                sink(truncate_line(text, text.len() as u64 + self.left_out, self.start, self.limit));
            }
            self.start += found.group.end as u64 + self.left_out;
            self.left_out = 0;
            cursor += found.group.end;
        }
        self.window.drain(..cursor);
    }

    fn drop_middle(&mut self) {
        let head = self.limit + CHARACTER_BYTES_MAX;
        if self.window.len() > head + 2 * TAIL_BYTES {
            let tail = self.window.len() - TAIL_BYTES;
            self.left_out += (tail - head) as u64;
            self.window.drain(head..tail);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn newline_shortcut_requires_a_leading_word_byte() {
        for (rest, expected) in [
            (r"\d{4}-\d\d", true),
            (r"[IWEF]\d{4} \d\d", true),
            ("[a-z0-9_]+:", true),
            ("Event", true),
            ("", false),
            (r"(?=\d)", false),
            (r"\s*\d", false),
            (r"\d?x", false),
            (r"\d*x", false),
            (r"\d{0,2}x", false),
            (r"\d{,2}x", false),
            ("[^a]", false),
            (r"[\n]", false),
            ("[]a]", false),
            ("a|\n", false),
            ("^a", false),
            (r"\bword", false),
            (".", false),
        ] {
            assert_eq!(starts_with_word_byte(rest), expected, "{rest}");
        }
    }

    #[test]
    fn lookbehind_patterns_are_matched_in_full() {
        for breaker in [r"([\r\n]+)\d(?<=\n\d)", r"([\r\n]+)a\1"] {
            let mut breaks = BreakSearch::new(breaker).unwrap();
            assert!(matches!(breaks, BreakSearch::Groups(..)), "{breaker}");
            assert_eq!(breaks.next(b"x\na\n1", 0), Pattern::new(breaker).unwrap().find_break(b"x\na\n1", 0));
        }
    }

    proptest! {
        #[test]
        fn newline_shortcut_matches_the_full_pattern(
            text in "[\r\na1 ]{0,24}",
            rest in prop::sample::select(vec!["a", r"\d", "[a1]a", r"\d+ ", r"a\b", r"\d$", r"1\n1", r"a\s+1"]),
            from in 0usize..24,
        ) {
            let text = text.as_bytes();
            let breaker = format!(r"([\r\n]+){rest}");
            let mut breaks = BreakSearch::new(&breaker).unwrap();
            prop_assert!(matches!(breaks, BreakSearch::Newlines(_)));
            let from = from.min(text.len());
            prop_assert_eq!(breaks.next(text, from), Pattern::new(&breaker).unwrap().find_break(text, from));
        }
    }
}
