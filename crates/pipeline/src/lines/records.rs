//! `JSON_RECORDS`: JSON objects as lines, both members of a wrapping list and stand-alone objects.
//!
//! Files of some services consist of one object, `{"Records":[{…},{…}]}`. The wrapper is skipped and every object
//! inside becomes a line, regardless of line feeds. No state is kept about the wrapper: commas, blanks and closing
//! brackets between objects are skipped, so that reading can resume at any object. Anything that is not an object is
//! passed on as ordinary lines, so that nothing is lost. An object or line longer than `TRUNCATE` is truncated. If it
//! is also longer than [`LINE_BYTES_MAX`], what follows these bytes is read as further lines.
//!
//! Not here: validation of objects, except for their brackets and quotes.

use memchr::memchr2;

use super::{InputState, LINE_BYTES_MAX, Line, truncate_line};

/// Maximum length of the wrapper's beginning, up to the opening bracket of the list.
const WRAPPER_BYTES_MAX: usize = 256;

/// State at the examined position of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadState {
    /// Between two objects.
    Between,
    /// In an object at this bracket depth; whether inside a string, and whether after a backslash.
    Object { depth: usize, in_text: bool, is_escaped: bool },
    /// In a line that is not an object.
    Other,
}

/// Splits a stream into JSON objects.
#[derive(Debug)]
pub(crate) struct RecordLines {
    /// The name of the list in quotes, as it appears in the wrapper.
    name: Vec<u8>,
    limit: usize,
    /// Number of bytes after which an object or line ends even without its end; [`LINE_BYTES_MAX`] except in tests.
    bytes_max: usize,
    /// Buffered text; its first `front` bytes belong to lines already passed on.
    window: Vec<u8>,
    front: usize,
    /// Offset of the first byte of the text.
    start: u64,
    /// Number of bytes of the text that were examined.
    seen: usize,
    place: ReadState,
}

impl RecordLines {
    pub(super) fn new(name: &str, limit: usize) -> RecordLines {
        let name = format!("\"{name}\"").into_bytes();
        RecordLines {
            name,
            limit,
            bytes_max: LINE_BYTES_MAX,
            window: Vec::new(),
            front: 0,
            start: 0,
            seen: 0,
            place: ReadState::Between,
        }
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
        self.window.extend_from_slice(bytes);
        self.scan(false, sink);
    }

    pub(super) fn drain(&mut self, until: InputState, sink: &mut impl FnMut(Line<'_>)) {
        self.scan(until == InputState::End, sink);
        if until == InputState::End && !self.window.is_empty() {
            let (end, all) = (self.window.trim_ascii_end().len(), self.window.len());
            self.emit(end, all, sink);
            (self.window, self.front) = (Vec::new(), 0);
        }
    }

    fn text(&self) -> &[u8] {
        &self.window[self.front..]
    }

    /// Passes complete objects and lines to `sink`. `is_all` means that no more bytes follow.
    fn scan(&mut self, is_all: bool, sink: &mut impl FnMut(Line<'_>)) {
        loop {
            let continues = match self.place {
                ReadState::Between => self.skip_separators(is_all),
                ReadState::Object { .. } => self.scan_object(sink),
                ReadState::Other => self.scan_line(sink),
            };
            if !continues {
                break;
            }
        }
        self.window.drain(..self.front);
        self.front = 0;
    }

    /// Skips separators between objects; returns whether an object or a line begins.
    fn skip_separators(&mut self, is_all: bool) -> bool {
        let is_joint = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b']' | b'}');
        let joint = self.text().iter().take_while(|byte| is_joint(byte)).count();
        self.consume(joint);
        match self.text().first() {
            None => false,
            Some(b'{') => match self.wrapper() {
                Wrapper::Found(bytes) => {
                    self.consume(bytes);
                    true
                }
                Wrapper::Undecided if !is_all => false,
                Wrapper::Undecided | Wrapper::None => {
                    self.place = ReadState::Object { depth: 0, in_text: false, is_escaped: false };
                    true
                }
            },
            Some(_) => {
                self.place = ReadState::Other;
                true
            }
        }
    }

    /// Searches for the end of an object; returns whether it was found.
    fn scan_object(&mut self, sink: &mut impl FnMut(Line<'_>)) -> bool {
        let ReadState::Object { mut depth, mut in_text, mut is_escaped } = self.place else { return false };
        let text = &self.window[self.front..];
        let limit = text.len().min(self.bytes_max);
        let (mut seen, mut is_whole) = (self.seen, false);
        while seen < limit && !is_whole {
            if in_text && !is_escaped {
                // Most bytes are in strings, and most bytes of strings have no effect.
                let Some(mark) = memchr2(b'"', b'\\', &text[seen..limit]) else {
                    seen = limit;
                    break;
                };
                seen += mark;
            }
            match text[seen] {
                _ if is_escaped => is_escaped = false,
                b'\\' if in_text => is_escaped = true,
                b'"' => in_text = !in_text,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            seen += 1;
            is_whole = depth == 0;
        }
        self.seen = seen;
        if is_whole || seen >= self.bytes_max {
            self.emit(seen, seen, sink);
            return true;
        }
        self.place = ReadState::Object { depth, in_text, is_escaped };
        false
    }

    /// Searches for the end of a line that is not an object; returns whether it was found.
    fn scan_line(&mut self, sink: &mut impl FnMut(Line<'_>)) -> bool {
        let text = self.text();
        let limit = text.len().min(self.bytes_max);
        let found = memchr2(b'\n', b'\r', &text[self.seen..limit]).map(|end| self.seen + end);
        // A line without a line break is truncated at the same byte for any division into chunks.
        let Some(end) = found.or((limit == self.bytes_max).then_some(limit)) else {
            self.seen = limit;
            return false;
        };
        self.emit(end, end, sink);
        true
    }

    /// Passes the first `end` bytes of the window to `sink` and continues after `next` bytes.
    fn emit(&mut self, end: usize, next: usize, sink: &mut impl FnMut(Line<'_>)) {
        if end > 0 {
            sink(truncate_line(&self.text()[..end], end as u64, self.start, self.limit));
        }
        self.consume(next);
        self.place = ReadState::Between;
    }

    fn consume(&mut self, bytes: usize) {
        self.front += bytes;
        self.start += bytes as u64;
        self.seen = 0;
    }

    /// Whether the window begins with the wrapper, `{"NAME":[`.
    fn wrapper(&self) -> Wrapper {
        let head = &self.text()[..self.text().len().min(WRAPPER_BYTES_MAX)];
        let mut at = 0;
        for part in [b"{".as_slice(), &self.name, b":", b"["] {
            at += head[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let there = &head[at..];
            if !there.starts_with(part) {
                let is_cut = there.len() < part.len() && part.starts_with(there) && head.len() < WRAPPER_BYTES_MAX;
                return if is_cut { Wrapper::Undecided } else { Wrapper::None };
            }
            at += part.len();
        }
        Wrapper::Found(at)
    }
}

/// Whether an object is the wrapper.
enum Wrapper {
    None,
    /// Undecided until more bytes are available.
    Undecided,
    /// The wrapper; its list begins after this many bytes.
    Found(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines with their offsets, when the text is fed in pieces of `step` bytes.
    fn lines(text: &str, step: usize) -> Vec<(u64, String)> {
        lines_of_at_most(LINE_BYTES_MAX, text, step)
    }

    fn lines_of_at_most(bytes_max: usize, text: &str, step: usize) -> Vec<(u64, String)> {
        let mut found = Vec::new();
        let mut sink = |line: Line<'_>| found.push((line.start, String::from_utf8_lossy(line.text).into_owned()));
        let mut records = RecordLines { bytes_max, ..RecordLines::new("Records", 1_000) };
        text.as_bytes().chunks(step).for_each(|piece| records.feed(piece, &mut sink));
        records.drain(InputState::End, &mut sink);
        assert_eq!(records.start(), text.len() as u64);
        found
    }

    fn texts(text: &str) -> Vec<String> {
        let whole = lines(text, text.len().max(1));
        for step in [1, 7] {
            assert_eq!(lines(text, step), whole, "pieces of {step}");
        }
        for (start, line) in &whole {
            assert_eq!(&text[*start as usize..*start as usize + line.len()], line);
        }
        whole.into_iter().map(|(_, line)| line).collect()
    }

    #[test]
    fn list_members_become_lines() {
        let members = ["{\"a\":1}", "{\"b\":{\"c\":[1,2]},\"d\":\"}]\\\"\"}", "{\"e\":[{\"f\":{}}]}"];
        let text = members.join(",");
        assert_eq!(texts(&format!("{{\"Records\":[{text}]}}")), members);
        assert_eq!(texts(&format!("{{ \"Records\" : [\n {} ]\n}}\n", members.join(" ,\n "))), members);
        assert_eq!(texts(&members.join("\n")), members, "stand-alone objects");
        assert_eq!(texts(&members.join("")), members);
        let two = format!("{{\"Records\":[{}]}}\n{{\"Records\":[{}]}}", members[0], members[1]);
        assert_eq!(texts(&two), members[..2]);
    }

    #[test]
    fn other_text_is_not_lost() {
        assert_eq!(texts("no object\n{\"a\":1}\nend"), ["no object", "{\"a\":1}", "end"]);
        assert_eq!(texts("{\"Records\":{\"a\":[1]}}"), ["{\"Records\":{\"a\":[1]}}"], "another Records");
        assert_eq!(texts("{\"Records\":[{\"a\":1},{\"b\":"), ["{\"a\":1}", "{\"b\":"]);
        assert_eq!(texts("{\"Records\":[]}"), [""; 0]);
    }

    #[test]
    fn long_lines_are_cut_at_a_fixed_number_of_bytes() {
        let expected = [(0, "abcd"), (4, "efgh"), (8, "ij"), (11, "klmn"), (16, "{\"a\""), (20, ":1}")];
        for step in [1, 3, 100] {
            let found = lines_of_at_most(4, "abcdefghij\nklmn\n{\"a\":1}", step);
            let found: Vec<_> = found.iter().map(|(start, line)| (*start, line.as_str())).collect();
            assert_eq!(found, expected, "pieces of {step}");
        }
    }

    proptest::proptest! {
        #[test]
        fn records_are_independent_of_chunking(text in r#"(\{"Records":\[|\{"a":|\[|\]|\}|\{|"|\\|,|x|1|\n){0,30}"#) {
            let whole = lines(&text, text.len().max(1));
            proptest::prop_assert_eq!(lines(&text, 1), whole.clone());
            proptest::prop_assert_eq!(lines(&text, 5), whole);
        }

        #[test]
        fn long_records_are_independent_of_chunking(
            text in r#"(\{"Records":\[|\{"a":|\[|\]|\}|\{|"|\\|,|x|1|abcdefghijkl|\n){0,30}"#,
            bytes_max in 1usize..20,
            step in 1usize..40,
        ) {
            let whole = lines_of_at_most(bytes_max, &text, text.len().max(1));
            proptest::prop_assert_eq!(lines_of_at_most(bytes_max, &text, step), whole);
        }
    }
}
