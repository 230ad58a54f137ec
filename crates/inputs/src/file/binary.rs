//! Detection of binary files.
//!
//! A file counts as binary by the share of control characters at its start, which is low for text in any encoding;
//! archives are recognised by their first bytes. Files with `CHARSET` or `NO_BINARY_CHECK = true` are not checked. Not
//! here: compressed files, whose content is checked instead.

use std::fmt;

use quarry_conf::PropsResolver;
use quarry_pipeline::{SAMPLE_BYTES, SourceInfo};

use super::compression::{UnsupportedFormat, unsupported_format};
use super::open::Handle;

/// Text has at most one control character per this many bytes.
const BYTES_PER_CONTROL_CHAR: usize = 20;
/// In UTF-16 text that is mostly ASCII, at most one of this many units has a high byte other than 0.
const UTF16_ZERO_SHARE: usize = 4;
/// Byte-order marks of UTF-16.
const UTF16_BYTE_ORDER_MARKS: [[u8; 2]; 2] = [[0xff, 0xfe], [0xfe, 0xff]];

/// Reason for skipping a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The file is binary.
    Binary,
    /// The file is text in the named encoding, which only a byte-order mark or `CHARSET` tells reliably.
    Utf16(&'static str),
    /// The file is an unsupported archive or compression format.
    Archive(UnsupportedFormat),
}

impl fmt::Display for SkipReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SkipReason::Binary => out.write_str(
                "this is binary data and is skipped; NO_BINARY_CHECK = true in its stanza of props.conf reads it anyway",
            ),
            SkipReason::Utf16(charset) => write!(
                out,
                "this looks like {charset} without a byte-order mark and is skipped; CHARSET = {charset} in its stanza of \
                 props.conf reads it"
            ),
            SkipReason::Archive(archive) => archive.fmt(out),
        }
    }
}

/// Reason for skipping a file that has not been read yet, if there is one.
pub(crate) fn skip_reason(
    handle: &Handle,
    info: &SourceInfo,
    props: &PropsResolver,
) -> std::io::Result<Option<SkipReason>> {
    let mut head = vec![0; SAMPLE_BYTES];
    let read = handle.reader()?.read_chunk(&mut head)?;
    Ok(content_skip_reason(&head[..read], info, props))
}

/// Reason for skipping content with this beginning, if there is one.
pub fn content_skip_reason(head: &[u8], info: &SourceInfo, props: &PropsResolver) -> Option<SkipReason> {
    let named = info.sourcetype.clone().or_else(|| props.sourcetype_for_source(&info.source)).unwrap_or_default();
    let settings = props.resolve(&info.source, &info.host, &named);
    if settings.reads_binary || !settings.charset.is_empty() {
        return None;
    }
    let head = &head[..head.len().min(SAMPLE_BYTES)];
    let binary = || is_binary(head).then(|| utf16_charset(head).map_or(SkipReason::Binary, SkipReason::Utf16));
    unsupported_format(head).map(SkipReason::Archive).or_else(binary)
}

/// The byte order of UTF-16 text that is mostly ASCII: every second byte is usually 0, and no other byte is.
fn utf16_charset(head: &[u8]) -> Option<&'static str> {
    let units = head.len() / 2;
    let zeros = |first: usize| head.iter().skip(first).step_by(2).filter(|byte| **byte == 0).count();
    match (zeros(0), zeros(1)) {
        (0, high) if high * UTF16_ZERO_SHARE >= units * (UTF16_ZERO_SHARE - 1) => Some("UTF-16LE"),
        (high, 0) if high * UTF16_ZERO_SHARE >= units * (UTF16_ZERO_SHARE - 1) => Some("UTF-16BE"),
        _ => None,
    }
}

fn is_binary(head: &[u8]) -> bool {
    if UTF16_BYTE_ORDER_MARKS.iter().any(|mark| head.starts_with(mark)) {
        return false;
    }
    // White space, backspace, bell and escape occur in terminal output.
    let is_control = |byte: &&u8| matches!(byte, 0 | 2..=6 | 14..=26 | 28..=31 | 127);
    // Start of heading separates the fields of FIX messages, which have no other control characters, unlike compressed
    // data.
    let is_separator = |byte: &&u8| **byte == 1;
    match head.iter().filter(is_control).count() {
        0 => false,
        controls => (controls + head.iter().filter(is_separator).count()) * BYTES_PER_CONTROL_CHAR > head.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_binary, utf16_charset};

    #[test]
    fn text_in_any_encoding_is_not_binary_but_programs_are() {
        let wide: Vec<u8> = [0xff, 0xfe].into_iter().chain("zwei\n".bytes().flat_map(|byte| [byte, 0])).collect();
        let holed = [&[b'a'; 1000][..], &[0; 20]].concat();
        let fix = b"8=FIX.4.4\x019=61\x0135=D\x0149=A\x0156=B\x0134=1\x0138=5\x0110=128\x01\n";
        let texts = [&b""[..], b"one\ttwo\r\n", b"\x1b[31mred\x1b[0m", b"gr\xfc\xdf dich\n", &wide, &holed, fix];
        for text in texts {
            assert!(!is_binary(text), "{text:?}");
        }
        let random: Vec<u8> = (0..=255).cycle().take(4096).collect();
        for other in [&b"\x7fELF\x02\x01\x01\0\0\0\0\0"[..], &random] {
            assert!(is_binary(other) && utf16_charset(other).is_none(), "{other:?}");
        }
    }

    #[test]
    fn utf16_without_a_byte_order_mark_is_recognised() {
        let encoded =
            |bytes: fn(u16) -> [u8; 2]| -> Vec<u8> { "one ü 日本\n".encode_utf16().flat_map(bytes).collect() };
        for (text, charset) in [(encoded(u16::to_le_bytes), "UTF-16LE"), (encoded(u16::to_be_bytes), "UTF-16BE")] {
            assert!(is_binary(&text));
            assert_eq!(utf16_charset(&text), Some(charset));
        }
    }
}
