//! Escapes the character NUL, which PostgreSQL does not store. It can occur in the name of an archive member.
//!
//! SUBSTITUTE is the escape character: followed by `0` it stands for NUL, followed by `1` for itself.

use std::borrow::Cow;

const ESCAPE: char = '\u{1a}';

/// The text as it is stored.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(ESCAPE, "\u{1a}1").replace('\0', "\u{1a}0"))
}

/// The original of a stored text.
pub(super) fn unescape(text: String) -> String {
    if !text.contains(ESCAPE) {
        return text;
    }
    text.replace("\u{1a}0", "\0").replace("\u{1a}1", "\u{1a}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_texts_round_trip() {
        for text in ["", "plain", "\0", "\u{1a}", "a\0b", "\u{1a}0", "\u{1a}1", "\0\u{1a}\0\u{1a}\u{1a}10"] {
            let stored = escape(text);
            assert!(!stored.contains('\0'), "{text:?}");
            assert_eq!(unescape(stored.into_owned()), text);
        }
    }
}
