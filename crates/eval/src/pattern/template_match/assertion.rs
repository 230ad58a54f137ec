//! Assertions of a regular expression (`^`, `\b`, …) at a position, judged by the bytes before and after it.
//!
//! A single byte does not show whether a non-ASCII character belongs to a word; the result is then [`Unclear`].

use regex_automata::util::look::Look;

/// The assertion cannot be decided.
pub(super) struct Unclear;

/// Byte before a position, as far as assertions distinguish bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Behind {
    Start,
    LineFeed,
    Word,
    Other,
    /// A byte of a non-ASCII character.
    Wide,
}

/// Byte after a position, if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    Unknown,
    Byte(u8),
    End,
}

/// Kind of a byte for assertions at the position after it.
pub(super) fn behind(byte: u8) -> Behind {
    match byte {
        b'\n' => Behind::LineFeed,
        0x80.. => Behind::Wide,
        byte if is_word(byte) => Behind::Word,
        _ => Behind::Other,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether an assertion holds; `None` if that depends on the next byte.
pub(super) fn holds(look: Look, behind: Behind, ahead: Ahead) -> Result<Option<bool>, Unclear> {
    match look {
        Look::Start => return Ok(Some(behind == Behind::Start)),
        Look::StartLF => return Ok(Some(matches!(behind, Behind::Start | Behind::LineFeed))),
        _ => {}
    }
    let next = match ahead {
        Ahead::Unknown => return Ok(None),
        Ahead::End => None,
        Ahead::Byte(byte) => Some(byte),
    };
    // A single byte does not show whether a non-ASCII character belongs to a word.
    let before = || if behind == Behind::Wide { Err(Unclear) } else { Ok(behind == Behind::Word) };
    let after = || match next {
        Some(0x80..) => Err(Unclear),
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
        _ => return Err(Unclear),
    }))
}
