//! Whether a file looks like text at all.
//!
//! Told by the share of control characters at its start, which text in any character set has few of. Files whose
//! `CHARSET` is set, and those with `NO_BINARY_CHECK = true`, are not looked at. Not here: packed files, whose content
//! counts.

use quarry_conf::PropsResolver;
use quarry_pipeline::{SAMPLE_BYTES, SourceInfo};

use super::open::OpenFile;

/// One in so many bytes at most is a control character in a text.
const CONTROL_SHARE: usize = 20;
/// First bytes of UTF-16, either way round.
const WIDE_MARKS: [[u8; 2]; 2] = [[0xff, 0xfe], [0xfe, 0xff]];

/// Whether the file, of which nothing was read yet, is left out since it looks like no text.
pub(crate) fn is_left_out(file: &mut OpenFile, info: &SourceInfo, props: &PropsResolver) -> std::io::Result<bool> {
    let named = info.sourcetype.clone().or_else(|| props.sourcetype_for_source(&info.source)).unwrap_or_default();
    let settings = props.resolve(&info.source, &info.host, &named);
    if settings.reads_binary || !settings.charset.is_empty() {
        return Ok(false);
    }
    let mut head = vec![0; SAMPLE_BYTES];
    let read = file.read_chunk(&mut head)?;
    Ok(is_binary(&head[..read]))
}

fn is_binary(head: &[u8]) -> bool {
    if WIDE_MARKS.iter().any(|mark| head.starts_with(mark)) {
        return false;
    }
    // Blanks of all kinds, backspace, bell and escape stand in texts for terminals.
    let is_control = |byte: &&u8| matches!(byte, 0..=6 | 14..=26 | 28..=31 | 127);
    head.iter().filter(is_control).count() * CONTROL_SHARE > head.len()
}

#[cfg(test)]
mod tests {
    use super::is_binary;

    #[test]
    fn texts_in_any_set_are_texts_and_programs_are_not() {
        let wide: Vec<u8> = [0xff, 0xfe].into_iter().chain("zwei\n".bytes().flat_map(|byte| [byte, 0])).collect();
        let holed = [&[b'a'; 1000][..], &[0; 20]].concat();
        for text in [&b""[..], b"one\ttwo\r\n", b"\x1b[31mred\x1b[0m", b"gr\xfc\xdf dich\n", &wide, &holed] {
            assert!(!is_binary(text), "{text:?}");
        }
        let random: Vec<u8> = (0..=255).cycle().take(4096).collect();
        for other in [&b"\x7fELF\x02\x01\x01\0\0\0\0\0"[..], &random] {
            assert!(is_binary(other), "{other:?}");
        }
    }
}
