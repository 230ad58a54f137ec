//! Lines separated by a pattern.
//!
//! Incomplete text waits in a window. A match only counts if [`SETTLED_BYTES`] follow it, because more text could
//! change it; lines therefore do not depend on how the stream is divided into chunks. (A pattern that looks further
//! ahead than that may behave differently.) While no break is found, the window is searched again only after it has
//! doubled, and beyond `TRUNCATE` only its head and a short tail are kept.

use super::{CHARACTER_BYTES_MAX, Line, Until, cut};
use crate::pattern::{BreakMatch, Pattern};

/// Number of bytes that must follow a match before it counts.
const SETTLED_BYTES: usize = 512;
/// Bytes of an over-long line that are searched for its break.
const TAIL_BYTES: usize = 8 << 10;
/// Number of new bytes that justify another search.
const SEARCH_STEP_BYTES: usize = 4 << 10;
/// Bytes of a chunk consumed at once, so that the window stays small for any chunk size.
const FEED_BYTES: usize = 64 << 10;

/// Splits a stream into lines by a pattern.
#[derive(Debug)]
pub(crate) struct PatternLines {
    pattern: Pattern,
    limit: usize,
    /// Text not yet part of a line.
    window: Vec<u8>,
    /// Offset of the window's first byte.
    start: u64,
    /// Number of bytes dropped from the window after its head.
    left_out: u64,
    /// Window length at which the next search is due.
    search_at: usize,
}

impl PatternLines {
    pub(super) fn new(pattern: Pattern, limit: usize) -> PatternLines {
        PatternLines { pattern, limit, window: Vec::new(), start: 0, left_out: 0, search_at: 0 }
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
                self.search(SETTLED_BYTES, sink);
                self.leave_out_middle();
                self.search_at = self.window.len() + self.window.len().clamp(SEARCH_STEP_BYTES, FEED_BYTES);
            }
        }
    }

    pub(super) fn drain(&mut self, until: Until, sink: &mut impl FnMut(Line<'_>)) {
        if until == Until::More {
            return;
        }
        self.search(0, sink);
        if until == Until::End {
            let end = self.window.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
            if end > 0 {
                sink(cut(&self.window[..end], end as u64 + self.left_out, self.start, self.limit));
            }
            self.start += self.window.len() as u64 + self.left_out;
            self.left_out = 0;
            self.window.clear();
        }
        self.search_at = 0;
    }

    /// Number of bytes at the window's start that are the head of an over-long line.
    fn head(&self) -> usize {
        if self.left_out == 0 { 0 } else { self.limit + CHARACTER_BYTES_MAX }
    }

    /// Passes on every line whose break is followed by `settled` bytes.
    fn search(&mut self, settled: usize, sink: &mut impl FnMut(Line<'_>)) {
        let mut cursor = 0;
        while let Some(found) = self.next_break(&self.window[cursor..], self.head()) {
            if found.whole.end + settled > self.window.len() - cursor {
                break;
            }
            let text = &self.window[cursor..cursor + found.group.start];
            if !text.is_empty() {
                sink(cut(text, text.len() as u64 + self.left_out, self.start, self.limit));
            }
            self.start += found.group.end as u64 + self.left_out;
            self.left_out = 0;
            cursor += found.group.end;
        }
        self.window.drain(..cursor);
    }

    /// The first break that consumes text or leaves some before it.
    fn next_break(&self, text: &[u8], from: usize) -> Option<BreakMatch> {
        let mut from = from;
        while from <= text.len() {
            let found = self.pattern.find_break(text, from)?;
            if found.group.end > 0 {
                return Some(found);
            }
            from = found.whole.end.max(from + 1);
        }
        None
    }

    fn leave_out_middle(&mut self) {
        let head = self.limit + CHARACTER_BYTES_MAX;
        if self.window.len() > head + 2 * TAIL_BYTES {
            let tail = self.window.len() - TAIL_BYTES;
            self.left_out += (tail - head) as u64;
            self.window.drain(head..tail);
        }
    }
}
