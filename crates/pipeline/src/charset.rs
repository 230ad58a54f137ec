//! Decoding of character sets other than UTF-8, line by line.
//!
//! A line of input is decoded as a whole, so that reading can resume at any line. Undecodable bytes are written as
//! `\xHH`, as with UTF-8. Subsequent stages count bytes of decoded text; [`TextDecoder::input_offset`] maps back to the
//! input.
//!
//! Not here: character sets in which a line feed is not a single byte or UTF-16 unit; UTF-8, which needs no decoding.

use std::collections::VecDeque;

use encoding_rs::{DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

use crate::lines::LINE_BYTES_MAX;
use crate::text::append_text;

/// Charset name that requests detection from the bytes.
const AUTO: &str = "auto";
/// UTF-16 byte order marks.
const BYTE_ORDER_MARKS: [(&[u8], &Encoding); 2] = [(b"\xFF\xFE", UTF_16LE), (b"\xFE\xFF", UTF_16BE)];
/// Maximum number of bytes that a decoder holds back when it encounters an invalid byte.
const PENDING_BYTES_MAX: usize = 8;

/// Character set of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charset {
    /// UTF-8, or UTF-16 after a byte order mark.
    Default,
    /// The character set is detected from the first bytes.
    Auto,
    /// A named character set.
    Named(&'static Encoding),
}

impl Charset {
    /// The character set with this name; `None` if unknown.
    pub(crate) fn new(name: &str) -> Option<Charset> {
        let name = name.trim().to_ascii_lowercase();
        match name.as_str() {
            "" => return Some(Charset::Default),
            AUTO => return Some(Charset::Auto),
            "utf-16" | "utf16" | "ucs-2" => return Some(Charset::Named(UTF_16LE)),
            _ => {}
        }
        let spellings = [name.clone(), name.replace('_', "-"), name.replace('-', "_"), name.replace(['-', '_'], "")];
        let known = spellings.iter().find_map(|name| Encoding::for_label(name.as_bytes()));
        // `REPLACEMENT` represents character sets that cannot be decoded.
        known.filter(|encoding| *encoding != encoding_rs::REPLACEMENT).map(Charset::Named)
    }

    /// The character set of a source that starts with these bytes, and the length of its byte order mark.
    pub(crate) fn resolve(self, start: &[u8]) -> (Option<&'static Encoding>, usize) {
        let marked = BYTE_ORDER_MARKS.iter().find(|(mark, _)| start.starts_with(mark));
        let utf16 = |encoding: &Encoding| encoding == UTF_16LE || encoding == UTF_16BE;
        match (self, marked) {
            (Charset::Named(named), Some((mark, found))) if utf16(named) => (Some(found), mark.len()),
            (Charset::Default | Charset::Auto, Some((mark, found))) => (Some(found), mark.len()),
            (Charset::Default, _) => (None, 0),
            (Charset::Named(named), _) => (Some(named).filter(|named| *named != UTF_8), 0),
            (Charset::Auto, None) => (detect(start), 0),
        }
    }
}

/// The probable character set of bytes without a byte order mark.
fn detect(start: &[u8]) -> Option<&'static Encoding> {
    let zeros = |odd: usize| start.iter().skip(odd).step_by(2).filter(|byte| **byte == 0).count();
    let half = start.len() / 2;
    if half > 1 && zeros(1) * 4 > half * 3 {
        return Some(UTF_16LE);
    }
    if half > 1 && zeros(0) * 4 > half * 3 {
        return Some(UTF_16BE);
    }
    let is_text = match std::str::from_utf8(start) {
        Ok(_) => true,
        // The last character may be incomplete.
        Err(error) => error.error_len().is_none(),
    };
    if is_text { None } else { Some(WINDOWS_1252) }
}

/// Decodes one source.
#[derive(Debug)]
pub(crate) struct TextDecoder {
    encoding: &'static Encoding,
    /// Number of bytes after which a line is decoded even without its end; [`LINE_BYTES_MAX`] except in tests.
    bytes_max: usize,
    /// Input bytes of an incomplete line.
    held: Vec<u8>,
    /// Starts of lines, each as an offset in the decoded text and in the input.
    starts: VecDeque<(u64, u64)>,
    /// Number of bytes of decoded text produced.
    decoded: u64,
    /// Input offset of the first byte of `held`.
    input: u64,
    /// Number of undecodable bytes.
    pub(crate) undecodable: u64,
}

impl TextDecoder {
    /// A decoder for a source of which `input` bytes have been consumed.
    pub(crate) fn new(encoding: &'static Encoding, input: u64) -> TextDecoder {
        let starts = VecDeque::from([(0, input)]);
        let bytes_max = LINE_BYTES_MAX;
        TextDecoder { encoding, bytes_max, held: Vec::new(), starts, decoded: 0, input, undecodable: 0 }
    }

    /// The character set.
    pub(crate) fn encoding(&self) -> &'static Encoding {
        self.encoding
    }

    /// Consumes input and appends the text of complete lines.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let from = self.held.len();
        self.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.held);
        let (mut start, mut at) = (0, from);
        loop {
            // A line without a line end is truncated at the same byte for any division into chunks.
            let limit = held.len().min(start + self.bytes_max);
            let cut = (limit - start == self.bytes_max).then_some(limit);
            let Some(end) = self.line_end(&held[..limit], start, at).or(cut) else { break };
            self.line(&held[start..end], out);
            (start, at) = (end, end);
        }
        self.held = held[start..].to_vec();
    }

    /// Appends the text of a line without a line end; no further input may follow.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            self.line(&held, out);
        }
    }

    /// End of the line that starts at `start`; bytes before `at` were searched already.
    fn line_end(&self, bytes: &[u8], start: usize, at: usize) -> Option<usize> {
        let unit: &[u8] = match self.encoding {
            encoding if encoding == UTF_16LE => b"\n\0",
            encoding if encoding == UTF_16BE => b"\0\n",
            _ => return memchr::memchr(b'\n', &bytes[at..]).map(|found| at + found + 1),
        };
        // UTF-16 code units are at even distances from the start of the line.
        let from = start + (at.saturating_sub(start) & !1);
        let mut units = bytes[from..].chunks_exact(unit.len());
        units.position(|found| found == unit).map(|found| from + (found + 1) * unit.len())
    }

    fn line(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let before = out.len();
        self.decode(bytes, out);
        self.decoded += (out.len() - before) as u64;
        self.input += bytes.len() as u64;
        self.starts.push_back((self.decoded, self.input));
    }

    fn decode(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut decoder = self.encoding.new_decoder_without_bom_handling();
        let most = decoder.max_utf8_buffer_length_without_replacement(bytes.len()).unwrap_or(bytes.len() * 4);
        let mut text = String::with_capacity(most);
        let mut read = 0;
        loop {
            let (result, taken) = decoder.decode_to_string_without_replacement(&bytes[read..], &mut text, true);
            read += taken;
            match result {
                DecoderResult::InputEmpty => break,
                DecoderResult::OutputFull => text.reserve(bytes.len() - read + PENDING_BYTES_MAX),
                DecoderResult::Malformed(bad, behind) => {
                    let end = read.saturating_sub(usize::from(behind));
                    let bad = &bytes[end.saturating_sub(usize::from(bad))..end];
                    self.undecodable += bad.len() as u64;
                    let mut written = Vec::new();
                    bad.iter().for_each(|byte| write_escaped(*byte, &mut written));
                    text.push_str(&String::from_utf8_lossy(&written));
                }
            }
        }
        out.extend_from_slice(text.as_bytes());
    }

    /// Input offset of a position in the decoded text; for a position inside a line, the offset of the line's start.
    pub(crate) fn input_offset(&self, decoded: u64) -> u64 {
        let behind = self.starts.partition_point(|(start, _)| *start <= decoded);
        self.starts.get(behind.saturating_sub(1)).map_or(self.input, |(_, input)| *input)
    }

    /// Forgets the starts of lines before a position in the decoded text.
    pub(crate) fn drop_before(&mut self, decoded: u64) {
        while self.starts.get(1).is_some_and(|(start, _)| *start <= decoded) {
            self.starts.pop_front();
        }
    }

    /// Bytes of memory held.
    pub(crate) fn capacity(&self) -> usize {
        self.held.capacity() + self.starts.capacity() * size_of::<(u64, u64)>()
    }
}

/// Appends a byte as `\xHH`.
fn write_escaped(byte: u8, out: &mut Vec<u8>) {
    if byte < 0x80 {
        // The second byte of a broken two-byte character may be plain text, so it is kept.
        out.push(byte);
    } else {
        append_text(&[byte], out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(charset: &str, bytes: &[u8], chunk: usize) -> String {
        let (encoding, mark) = Charset::new(charset).unwrap().resolve(bytes);
        let Some(encoding) = encoding else { return String::from_utf8(bytes.to_vec()).unwrap() };
        let mut decoding = TextDecoder::new(encoding, mark as u64);
        let mut out = Vec::new();
        bytes[mark..].chunks(chunk).for_each(|chunk| decoding.feed(chunk, &mut out));
        decoding.finish(&mut out);
        assert_eq!(decoding.input_offset(out.len() as u64), bytes.len() as u64);
        String::from_utf8(out).unwrap()
    }

    fn utf16(text: &str, big: bool) -> Vec<u8> {
        let bytes = |unit: u16| if big { unit.to_be_bytes() } else { unit.to_le_bytes() };
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn decoding_is_independent_of_chunking() {
        // U+0A0A and U+0A00 contain bytes that look like line feeds.
        let text = "grün\nzwei\u{0A0A}\u{0A00}x\n\nend";
        for chunk in [1, 2, 3, 7, 100] {
            assert_eq!(decoded("latin-1", b"gr\xFCn\nA", chunk), "grün\nA");
            assert_eq!(decoded("SHIFT-JIS", b"\x93\xFA\x96\x7B\n", chunk), "日本\n");
            assert_eq!(decoded("UTF-16LE", &utf16(text, false), chunk), text);
            assert_eq!(decoded("utf-16be", &utf16(text, true), chunk), text);
            assert_eq!(decoded("", &[b"\xFF\xFE", &utf16(text, false)[..]].concat(), chunk), text);
            assert_eq!(decoded("AUTO", &utf16("plain text\n", false), chunk), "plain text\n");
            assert_eq!(decoded("AUTO", b"caf\xE9 au lait\n", chunk), "café au lait\n");
            assert_eq!(decoded("AUTO", "grün\n".as_bytes(), chunk), "grün\n");
            assert_eq!(decoded("SHIFT-JIS", b"a\xFFb\x81", chunk), "a\\xFFb\\x81");
        }
        assert_eq!(Charset::new("no-such-set"), None);
        assert_eq!(Charset::new("CP1252"), Some(Charset::Named(WINDOWS_1252)));
    }

    #[test]
    fn long_lines_are_cut_independently_of_chunking() {
        let bytes = utf16("ab\ncdefghi\nüü\n", false);
        for chunk in [1, 2, 3, 7, 100] {
            let mut decoding = TextDecoder { bytes_max: 8, ..TextDecoder::new(UTF_16LE, 0) };
            let mut out = Vec::new();
            bytes.chunks(chunk).for_each(|chunk| decoding.feed(chunk, &mut out));
            assert_eq!(out, "ab\ncdefghi\nüü\n".as_bytes(), "chunks of {chunk}");
            let starts: [(u64, u64); 5] = [(0, 0), (3, 6), (7, 14), (11, 22), (16, 28)];
            assert_eq!(decoding.starts, starts, "chunks of {chunk}");
        }
    }

    #[test]
    fn positions_map_back_to_the_input() {
        let mut decoding = TextDecoder::new(UTF_16LE, 2);
        let mut out = Vec::new();
        decoding.feed(&utf16("grün\nb\nc", false), &mut out);
        assert_eq!(out, "grün\nb\n".as_bytes());
        let places = [(0, 2), (6, 12), (7, 12), (8, 16)];
        for (text, input) in places {
            assert_eq!(decoding.input_offset(text), input, "{text}");
        }
        decoding.drop_before(7);
        assert_eq!((decoding.input_offset(7), decoding.starts.len()), (12, 2));
    }
}
