//! Assertions of a regular expression (`^`, `\b`, …) at a position, judged by the bytes before and after it.
//!
//! A single byte does not show whether a non-ASCII character belongs to a word; the result is then [`Undecidable`].

use regex_automata::util::look::Look;

/// The assertion cannot be decided.
pub(super) struct Undecidable;

/// Byte before a position, as far as assertions distinguish bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ByteBefore {
    Start,
    LineFeed,
    Word,
    Other,
    /// A byte of a non-ASCII character.
    Wide,
}

/// Byte after a position, if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteAfter {
    Unknown,
    Byte(u8),
    End,
}

/// Kind of a byte for assertions at the position after it.
pub(super) fn classify_before(byte: u8) -> ByteBefore {
    match byte {
        b'\n' => ByteBefore::LineFeed,
        0x80.. => ByteBefore::Wide,
        byte if is_word(byte) => ByteBefore::Word,
        _ => ByteBefore::Other,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether an assertion holds; `None` if that depends on the next byte.
pub(super) fn holds(look: Look, behind: ByteBefore, ahead: ByteAfter) -> Result<Option<bool>, Undecidable> {
    match look {
        Look::Start => return Ok(Some(behind == ByteBefore::Start)),
        Look::StartLF => return Ok(Some(matches!(behind, ByteBefore::Start | ByteBefore::LineFeed))),
        _ => {}
    }
    let next = match ahead {
        ByteAfter::Unknown => return Ok(None),
        ByteAfter::End => None,
        ByteAfter::Byte(byte) => Some(byte),
    };
    // A single byte does not show whether a non-ASCII character belongs to a word.
    let before = || if behind == ByteBefore::Wide { Err(Undecidable) } else { Ok(behind == ByteBefore::Word) };
    let after = || match next {
        Some(0x80..) => Err(Undecidable),
        next => Ok(next.is_some_and(is_word)),
    };
    Ok(Some(match look {
        Look::End => next.is_none(),
        Look::EndLF => next.is_none_or(|byte| byte == b'\n'),
        Look::WordAscii | Look::WordUnicode => before()? != after()?,
        Look::WordAsciiNegate | Look::WordUnicodeNegate => before()? == after()?,
        Look::WordStartAscii | Look::WordStartUnicode => !before()? && after()?,
        Look::WordEndAscii | Look::WordEndUnicode => before()? && !after()?,
        Look::WordStartHalfAscii | Look::WordStartHalfUnicode => !before()?,
        Look::WordEndHalfAscii | Look::WordEndHalfUnicode => !after()?,
        _ => return Err(Undecidable),
    }))
}
