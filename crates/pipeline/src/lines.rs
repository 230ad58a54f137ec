//! Line breaking: splits a byte stream into lines by `LINE_BREAKER`.
//!
//! The default breaker, runs of line feeds and carriage returns, is implemented as a byte search; a line within one
//! chunk is passed on without copying. Any other pattern is matched in a window ([`pattern`]). In delimited text, line
//! breaks inside quotes do not count ([`quotes`]). Of a long line, only the first `TRUNCATE` bytes are kept. Empty
//! lines are dropped.

mod pattern;
mod quotes;
mod records;

use memchr::memchr2_iter;

use crate::text::cut_at_character;
use pattern::PatternLines;
use quarry_conf::PropsSettings;
use quarry_stdx::Fault;
use quotes::QuotedLines;
use records::RecordLines;

/// Number of bytes kept of a line if `TRUNCATE` is 0.
pub const LINE_BYTES_MAX: usize = 16 << 20;
/// Number of bytes kept beyond the cut, to detect whether the cut splits a character.
const CHARACTER_BYTES_MAX: usize = 4;
/// Patterns equivalent to any run of line feeds and carriage returns, because empty lines are dropped.
const NEWLINE_BREAKERS: [&str; 5] = [r"([\r\n]+)", r"([\n\r]+)", r"([\r\n])", r"([\n\r])", r"((?:\r\n|\r|\n)+)"];

/// A line without its line break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// Text, cut to `TRUNCATE`.
    pub(crate) text: &'a [u8],
    /// Input offset of the first byte.
    pub(crate) start: u64,
    /// Whether the line was longer than the limit.
    pub(crate) is_truncated: bool,
}

/// State of the input after the bytes fed so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputState {
    /// More bytes will come.
    More,
    /// No bytes follow for now: only complete lines are passed on.
    Pause,
    /// End of input: a line without a line break is passed on, too.
    End,
}

/// Splits a stream into lines.
#[derive(Debug)]
pub(crate) enum LineBreaker {
    Newline(NewlineLines),
    Pattern(Box<PatternLines>),
    Records(Box<RecordLines>),
    Quoted(Box<QuotedLines>),
}

impl LineBreaker {
    /// Creates a breaker; `breaker` and `truncate` are the settings `LINE_BREAKER` and `TRUNCATE`.
    pub(crate) fn new(breaker: &str, truncate: usize) -> Result<LineBreaker, Fault> {
        let limit = line_bytes_max(truncate);
        if breaker.is_empty() || NEWLINE_BREAKERS.contains(&breaker) {
            return Ok(LineBreaker::Newline(NewlineLines { head: Vec::new(), length: 0, start: 0, limit }));
        }
        Ok(LineBreaker::Pattern(Box::new(PatternLines::new(breaker, limit)?)))
    }

    /// The breaker of a sourcetype, according to `JSON_RECORDS`, the quotes of its columns, or `LINE_BREAKER`.
    pub(crate) fn of(settings: &PropsSettings) -> Result<LineBreaker, Fault> {
        let limit = line_bytes_max(settings.truncate);
        if let Some(name) = &settings.json_records {
            return Ok(LineBreaker::Records(Box::new(RecordLines::new(name, limit))));
        }
        let lines = LineBreaker::new(&settings.line_breaker, settings.truncate)?;
        let (LineBreaker::Newline(_), Some(columns)) = (&lines, &settings.header) else { return Ok(lines) };
        // No supported format has a quote beyond ASCII.
        let Some(quote) = columns.quote.and_then(|quote| u8::try_from(quote).ok().filter(u8::is_ascii)) else {
            return Ok(lines);
        };
        let lines_max = settings.max_events.max(1);
        Ok(LineBreaker::Quoted(Box::new(QuotedLines::new(quote, columns.delimiter, lines_max, limit))))
    }

    /// Consumes bytes and passes the lines that they complete to `sink`.
    pub(crate) fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Line<'_>)) {
        match self {
            LineBreaker::Newline(lines) => lines.feed(bytes, sink),
            LineBreaker::Pattern(lines) => lines.feed(bytes, sink),
            LineBreaker::Records(lines) => lines.feed(bytes, sink),
            LineBreaker::Quoted(lines) => lines.feed(bytes, sink),
        }
    }

    /// Passes pending lines to `sink`.
    pub(crate) fn drain(&mut self, until: InputState, sink: &mut impl FnMut(Line<'_>)) {
        match (self, until) {
            (LineBreaker::Newline(lines), InputState::End) => lines.end(sink),
            (LineBreaker::Newline(_), _) => {}
            (LineBreaker::Pattern(lines), until) => lines.drain(until, sink),
            (LineBreaker::Records(lines), until) => lines.drain(until, sink),
            (LineBreaker::Quoted(lines), until) => lines.drain(until, sink),
        }
    }

    /// Skips bytes that belong to no line; only before the first line.
    pub(crate) fn skip(&mut self, bytes: u64) {
        match self {
            LineBreaker::Newline(lines) => lines.start += bytes,
            LineBreaker::Pattern(lines) => lines.skip(bytes),
            LineBreaker::Records(lines) => lines.skip(bytes),
            LineBreaker::Quoted(lines) => lines.skip(bytes),
        }
    }

    /// Input offset of the first byte that is not yet part of a line.
    pub(crate) fn start(&self) -> u64 {
        match self {
            LineBreaker::Newline(lines) => lines.start,
            LineBreaker::Pattern(lines) => lines.start(),
            LineBreaker::Records(lines) => lines.start(),
            LineBreaker::Quoted(lines) => lines.start(),
        }
    }

    /// Bytes of memory held.
    pub(crate) fn capacity(&self) -> usize {
        match self {
            LineBreaker::Newline(lines) => lines.head.capacity(),
            LineBreaker::Pattern(lines) => lines.capacity(),
            LineBreaker::Records(lines) => lines.capacity(),
            LineBreaker::Quoted(lines) => lines.capacity(),
        }
    }
}

/// Lines separated by line feeds and carriage returns.
#[derive(Debug)]
pub(crate) struct NewlineLines {
    /// Start of an incomplete line.
    head: Vec<u8>,
    /// Length of the incomplete line so far.
    length: u64,
    /// Input offset of the incomplete line.
    start: u64,
    limit: usize,
}

impl NewlineLines {
    fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Line<'_>)) {
        let mut at = 0;
        for end in memchr2_iter(b'\r', b'\n', bytes) {
            let piece = &bytes[at..end];
            if self.length == 0 {
                if !piece.is_empty() {
                    sink(truncate_line(piece, piece.len() as u64, self.start, self.limit));
                }
                self.start += piece.len() as u64 + 1;
            } else {
                self.buffer(piece);
                self.end(sink);
                self.start += 1;
            }
            at = end + 1;
        }
        self.buffer(&bytes[at..]);
    }

    fn buffer(&mut self, piece: &[u8]) {
        let room = (self.limit + CHARACTER_BYTES_MAX).saturating_sub(self.head.len());
        self.head.extend_from_slice(&piece[..piece.len().min(room)]);
        self.length += piece.len() as u64;
    }

    fn end(&mut self, sink: &mut impl FnMut(Line<'_>)) {
        if self.length > 0 {
            sink(truncate_line(&self.head, self.length, self.start, self.limit));
        }
        self.start += self.length;
        self.head.clear();
        self.length = 0;
    }
}

/// Number of bytes kept of a line according to `TRUNCATE`.
fn line_bytes_max(truncate: usize) -> usize {
    if truncate == 0 { LINE_BYTES_MAX } else { truncate.min(LINE_BYTES_MAX) }
}

/// A line of `length` bytes, of which `head` is available.
fn truncate_line(head: &[u8], length: u64, start: u64, limit: usize) -> Line<'_> {
    Line { text: &head[..cut_at_character(head, limit)], start, is_truncated: length > limit as u64 }
}

#[cfg(test)]
mod tests;
