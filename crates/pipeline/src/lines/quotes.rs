//! Records of delimited text, whose quoted values may span several lines.
//!
//! A record ends at the first line break outside quotes. A quote opens a value only at the start of the record or
//! after a delimiter, as when columns are read; inside a quoted value, two quotes represent one. A quote that is never
//! closed must not swallow the rest of the file: if a record would exceed `MAX_EVENTS` lines or [`RECORD_BYTES_MAX`],
//! its first line becomes a record by itself, and the next line begins another record. All state ends with the record,
//! so that reading can resume at any record.
//!
//! Not here: columns and their values.

use memchr::{memchr, memchr2};

use super::{InputState, Line, NewlineLines, truncate_line};

/// Maximum bytes of a record with line breaks; the first line of a longer one becomes a record by itself.
pub(crate) const RECORD_BYTES_MAX: usize = 1 << 20;

/// Splits delimited text into records.
#[derive(Debug)]
pub(crate) struct QuotedLines {
    quote: u8,
    delimiter: Vec<u8>,
    lines_max: usize,
    limit: usize,
    /// The bytes of the incomplete record, unless its line is too long.
    window: Vec<u8>,
    /// Input offset of the window.
    start: u64,
    progress: Progress,
    /// Splitter for a line longer than [`RECORD_BYTES_MAX`], until the line ends.
    long: Option<NewlineLines>,
}

/// Progress in the current record.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Number of bytes in complete lines of the record.
    whole: usize,
    /// Number of complete lines that are not empty.
    lines: usize,
    /// Whether the complete lines end inside quotes.
    is_open: bool,
    /// Number of bytes in which the next line break was searched for.
    searched: usize,
}

impl QuotedLines {
    pub(super) fn new(quote: u8, delimiter: char, lines_max: usize, limit: usize) -> QuotedLines {
        QuotedLines {
            quote,
            delimiter: delimiter.to_string().into_bytes(),
            lines_max,
            limit,
            window: Vec::new(),
            start: 0,
            progress: Progress::default(),
            long: None,
        }
    }

    pub(super) fn skip(&mut self, bytes: u64) {
        self.start += bytes;
    }

    pub(super) fn start(&self) -> u64 {
        self.long.as_ref().map_or(self.start, |long| long.start)
    }

    pub(super) fn capacity(&self) -> usize {
        self.window.capacity() + self.long.as_ref().map_or(0, |long| long.head.capacity())
    }

    pub(super) fn feed(&mut self, mut bytes: &[u8], sink: &mut impl FnMut(Line<'_>)) {
        while !bytes.is_empty() {
            if self.long.is_none() && self.window.is_empty() {
                let taken = self.take(bytes, false, sink);
                self.window.extend_from_slice(&bytes[taken..]);
                return;
            }
            // Only the bytes that complete the record are copied.
            let (line, rest) = bytes.split_at(memchr2(b'\r', b'\n', bytes).map_or(bytes.len(), |end| end + 1));
            bytes = rest;
            if let Some(long) = &mut self.long {
                long.feed(line, sink);
                if long.length == 0 {
                    (self.start, self.long) = (long.start, None);
                }
                continue;
            }
            let mut window = std::mem::take(&mut self.window);
            window.extend_from_slice(line);
            let taken = self.take(&window, false, sink);
            window.drain(..taken);
            self.window = window;
        }
    }

    pub(super) fn drain(&mut self, until: InputState, sink: &mut impl FnMut(Line<'_>)) {
        if until != InputState::End {
            return;
        }
        let window = std::mem::take(&mut self.window);
        self.take(&window, true, sink);
        if let Some(mut long) = self.long.take() {
            long.end(sink);
            self.start = long.start;
        }
    }

    /// Passes the complete records of `text` to `sink`, or all records if nothing follows; returns the number of bytes
    /// consumed.
    fn take(&mut self, text: &[u8], is_all: bool, sink: &mut impl FnMut(Line<'_>)) -> usize {
        let mut front = 0;
        while front < text.len() {
            let rest = &text[front..];
            let Progress { whole, searched, .. } = self.progress;
            let from = whole.max(searched);
            let found = memchr2(b'\r', b'\n', &rest[from..]).map(|at| from + at);
            let end = match found {
                Some(end) => end,
                None if is_all => rest.len(),
                None if rest.len() <= RECORD_BYTES_MAX => {
                    self.progress.searched = rest.len();
                    break;
                }
                None if self.progress.is_open => {
                    front += self.pass_first_line(rest, sink);
                    continue;
                }
                None => {
                    let mut long = NewlineLines { head: Vec::new(), length: 0, start: self.start, limit: self.limit };
                    long.feed(rest, sink);
                    (self.long, self.progress) = (Some(long), Progress::default());
                    return text.len();
                }
            };
            if whole > 0 && end > RECORD_BYTES_MAX {
                front += self.pass_first_line(rest, sink);
                continue;
            }
            let is_open = self.is_open_after(&rest[whole..end], self.progress.is_open);
            if !is_open {
                front += self.emit_record(rest, end, sink);
                continue;
            }
            let lines = self.progress.lines + usize::from(end > whole);
            self.progress = Progress { whole: end + 1, lines, is_open, searched: 0 };
            if found.is_none() || lines >= self.lines_max {
                front += self.pass_first_line(rest, sink);
            }
        }
        front
    }

    /// Passes the first line of a record whose quotes are not closed to `sink`; returns the number of bytes consumed.
    fn pass_first_line(&mut self, record: &[u8], sink: &mut impl FnMut(Line<'_>)) -> usize {
        let end = memchr2(b'\r', b'\n', record).unwrap_or(record.len());
        self.emit_record(record, end, sink)
    }

    /// Passes the record of `end` bytes to `sink`; returns its length including its line break.
    fn emit_record(&mut self, text: &[u8], end: usize, sink: &mut impl FnMut(Line<'_>)) -> usize {
        if end > 0 {
            sink(truncate_line(
                &text[..end.min(self.limit + super::CHARACTER_BYTES_MAX)],
                end as u64,
                self.start,
                self.limit,
            ));
        }
        let taken = (end + 1).min(text.len());
        self.start += taken as u64;
        self.progress = Progress::default();
        taken
    }

    /// Whether a line ends inside quotes, given whether it begins inside quotes.
    fn is_open_after(&self, line: &[u8], mut is_open: bool) -> bool {
        let mut at = 0;
        while let Some(found) = memchr(self.quote, &line[at..]) {
            let quote = at + found;
            at = quote + 1;
            if !is_open {
                is_open = quote == 0 || line[..quote].ends_with(&self.delimiter);
            } else if line.get(at) == Some(&self.quote) {
                at += 1;
            } else {
                is_open = false;
            }
        }
        is_open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES_MAX: usize = 4;

    /// Records with their offsets, when the text is fed in pieces of `step` bytes.
    fn records(text: &[u8], step: usize) -> Vec<(u64, String)> {
        let mut found = Vec::new();
        let mut sink = |line: Line<'_>| found.push((line.start, String::from_utf8_lossy(line.text).into_owned()));
        let mut records = QuotedLines::new(b'"', ',', LINES_MAX, 100);
        text.chunks(step).for_each(|piece| records.feed(piece, &mut sink));
        records.drain(InputState::End, &mut sink);
        assert_eq!(records.start(), text.len() as u64);
        found
    }

    fn texts(text: &str) -> Vec<String> {
        let whole = records(text.as_bytes(), text.len());
        for step in [1, 2, 7] {
            assert_eq!(records(text.as_bytes(), step), whole, "pieces of {step}");
        }
        for (start, record) in &whole {
            assert_eq!(&text[*start as usize..*start as usize + record.len()], record);
        }
        whole.into_iter().map(|(_, record)| record).collect()
    }

    #[test]
    fn line_breaks_in_quoted_values_are_kept() {
        assert_eq!(texts("1,2\n3,\"x\ny\"\n5,6\n"), ["1,2", "3,\"x\ny\"", "5,6"]);
        assert_eq!(texts("\"a\r\n\r\nb\",\"c\nd\"\r\ne"), ["\"a\r\n\r\nb\",\"c\nd\"", "e"]);
        assert_eq!(texts("\"say \"\"a\"\"\n\"\"b\"\"\",c\nd"), ["\"say \"\"a\"\"\n\"\"b\"\"\",c", "d"]);
        assert_eq!(texts("\"a\nb\"\n\"c\"\n"), ["\"a\nb\"", "\"c\""], "the quote that closes may end the line");
    }

    #[test]
    fn quotes_inside_a_value_are_literal() {
        assert_eq!(texts("5\" pipe,x\n6\" pipe,y\n"), ["5\" pipe,x", "6\" pipe,y"]);
        assert_eq!(texts("\"a\" b\",c\nd\n"), ["\"a\" b\",c", "d"]);
    }

    #[test]
    fn unclosed_quotes_affect_only_their_line() {
        assert_eq!(texts("1,\"a\n2,b\n3,\"c\nd\"\n"), ["1,\"a\n2,b\n3,\"c", "d\""], "as if it were closed");
        assert_eq!(texts("1,\"a\n2\n3\n\n4\n5,\"c\nd\"\n"), ["1,\"a", "2", "3", "4", "5,\"c\nd\""], "too many lines");
        assert_eq!(texts("1,\"a\n2,\"\"\n"), ["1,\"a", "2,\"\""], "nothing follows");
    }

    #[test]
    fn long_records_are_bounded() {
        let text =
            format!("1,\"{}\nb\"\n2,\"c\nd\"\n{}\n3", "a".repeat(RECORD_BYTES_MAX), "e".repeat(RECORD_BYTES_MAX + 9));
        for step in [1 << 12, text.len()] {
            let found: Vec<(u64, usize)> =
                records(text.as_bytes(), step).into_iter().map(|(start, text)| (start, text.len())).collect();
            let second = RECORD_BYTES_MAX as u64 + 4;
            let last = text.len() as u64 - 1;
            let expected = [(0, 100), (second, 2), (second + 3, 7), (second + 11, 100), (last, 1)];
            assert_eq!(found, expected, "pieces of {step}");
        }
        let mut records = QuotedLines::new(b'"', ',', usize::MAX, 100);
        let (mut most, mut count) = (0, 0);
        for _ in 0..4_000 {
            records.feed(b"\"\"\"\n,\"", &mut |_| count += 1);
            most = most.max(records.capacity());
        }
        let piece = [b'x'; 1 << 12];
        for _ in 0..1_000 {
            records.feed(&piece, &mut |_| count += 1);
            most = most.max(records.capacity());
        }
        assert!(count > 0 && most <= 4 * RECORD_BYTES_MAX, "{count} {most}");
    }

    #[test]
    fn pauses_keep_an_open_record() {
        let mut found = Vec::new();
        let mut records = QuotedLines::new(b'"', ',', LINES_MAX, 100);
        let mut sink = |line: Line<'_>| found.push(line.text.to_vec());
        records.feed(b"1,2\n3,\"x\n", &mut sink);
        records.drain(InputState::Pause, &mut sink);
        assert_eq!(records.start(), 4, "reading can resume at the record");
        records.feed(b"y\"\n", &mut sink);
        assert_eq!(found, [b"1,2".to_vec(), b"3,\"x\ny\"".to_vec()]);
    }

    proptest::proptest! {
        #[test]
        fn records_are_independent_of_chunking_and_resumable(text in "(\"|,|a|\n|\r\n|\"\"){1,60}") {
            let bytes = text.as_bytes();
            let whole = records(bytes, bytes.len());
            proptest::prop_assert_eq!(&records(bytes, 1), &whole);
            proptest::prop_assert_eq!(&records(bytes, 5), &whole);
            for at in 0..whole.len() {
                let from = whole[at].0;
                let rest = records(&bytes[from as usize..], bytes.len());
                let rest: Vec<(u64, String)> = rest.into_iter().map(|(start, text)| (from + start, text)).collect();
                proptest::prop_assert_eq!(&rest[..], &whole[at..]);
            }
        }
    }
}
