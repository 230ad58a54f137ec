//! Terms of values that JSON may write with escapes: `Jos\u00e9`, `line1\nline2`, `a\u0026b`.
//!
//! Encoders differ in the characters that they escape, so each character may be written either way, independently of the
//! others. Characters that no encoder escapes are looked up as they are; texts that escape them have a mark
//! ([`quarry_event::TextMark::JsonLetter`]).

use quarry_event::TermQuery;
use quarry_event::segment::{cases_of, for_each_token};

/// Breakers that encoders of JSON escape as `\u`: those with a meaning in HTML or JavaScript, and the plus sign.
const ESCAPED_BREAKERS: [u8; 6] = *b"<>&'=+";
/// Maximum number of characters of a token that may each be escaped or not. In a token with more of them, all
/// characters of one kind are escaped or none.
const CHOICES_MAX: usize = 5;

/// Like [`TermQuery::for_keyword`], for texts that may write the characters of `text` as escapes.
pub(super) fn escaped_terms(text: &str) -> TermQuery {
    let bytes = text.as_bytes();
    if bytes.iter().all(|byte| is_never_escaped(*byte)) {
        return TermQuery::for_keyword(text);
    }
    let mut tokens = Vec::new();
    for_each_token(bytes, |token| {
        let start = token.as_ptr() as usize - bytes.as_ptr() as usize;
        tokens.push(start..start + token.len());
    });
    TermQuery::and(tokens.into_iter().map(|token| {
        // A wildcard next to the token, and a percent sign before it, have the same effect as in the whole text.
        let before = token.start.checked_sub(1).map(|at| bytes[at]);
        let head = if matches!(before, Some(b'*' | b'%')) { &text[token.start - 1..token.start] } else { "" };
        let tail = if bytes.get(token.end) == Some(&b'*') { "*" } else { "" };
        let heads: Vec<String> = std::iter::once(head.to_owned()).chain(escapes_of_breaker(before)).collect();
        token_terms(&heads, &text[token], tail, !text.is_ascii())
    }))
}

/// Whether encoders write this byte as it is.
fn is_never_escaped(byte: u8) -> bool {
    (b' '..0x7f).contains(&byte) && !ESCAPED_BREAKERS.contains(&byte) && byte != b'`'
}

/// The parts of a breaker's escapes that belong to the token after it.
fn escapes_of_breaker(breaker: Option<u8>) -> Vec<String> {
    match breaker {
        Some(b'\n') => vec!["u000a".to_owned(), "n".to_owned()],
        Some(b'\t') => vec!["u0009".to_owned(), "t".to_owned()],
        Some(b'\r') => vec!["u000d".to_owned(), "r".to_owned()],
        Some(breaker) if ESCAPED_BREAKERS.contains(&breaker) => vec![format!("u{breaker:04x}")],
        _ => Vec::new(),
    }
}

/// Query for a token of which each character may be escaped; `heads` are the alternatives before it, `tail` comes after
/// it. If `folds_ascii`, an ASCII letter also matches non-ASCII letters with the same lower case (`K` and the Kelvin sign).
fn token_terms(heads: &[String], token: &str, tail: &str, folds_ascii: bool) -> TermQuery {
    // A lone surrogate is read as U+FFFD. The lower case of `İ` is two characters.
    if token.contains([char::REPLACEMENT_CHARACTER, 'İ', '\u{307}']) {
        return TermQuery::All;
    }
    let letters: Vec<(char, Vec<String>)> =
        token.chars().map(|letter| (letter, escapes_of(letter, folds_ascii))).collect();
    let count = letters.iter().filter(|(_, escapes)| !escapes.is_empty()).count();
    // Bit of each character: a bit of its own, or that of its kind.
    let choices = if count <= CHOICES_MAX { count } else { KINDS };
    let mut next = 0;
    let bits = letters.iter().map(|(letter, escapes)| {
        let own = next;
        next += u32::from(!escapes.is_empty());
        if count <= CHOICES_MAX { own } else { kind_of(*letter) }
    });
    let bits: Vec<u32> = bits.collect();
    TermQuery::or((0..1_u32 << choices).map(|choice| {
        let (mut parts, mut open) = (Vec::new(), heads.to_vec());
        let any_of = |texts: &[String]| TermQuery::or(texts.iter().map(|text| TermQuery::for_keyword(text)));
        for ((letter, escapes), bit) in letters.iter().zip(&bits) {
            if escapes.is_empty() || choice >> bit & 1 == 0 {
                open.iter_mut().for_each(|text| text.push(*letter));
                continue;
            }
            // The backslash ends the token before it, and the escape begins the next one.
            parts.push(any_of(&open));
            open.clone_from(escapes);
        }
        open.iter_mut().for_each(|text| text.push_str(tail));
        parts.push(any_of(&open));
        TermQuery::and(parts)
    }))
}

/// Number of kinds of characters, of which encoders escape either all or none.
const KINDS: usize = 3;

/// The kind of a character that may be escaped, below [`KINDS`].
fn kind_of(letter: char) -> u32 {
    match letter {
        '\0'..='\u{9f}' | '\u{2028}' | '\u{2029}' => 0,
        '\u{10000}'.. => 1,
        _ => 2,
    }
}

/// The escapes of a letter in either case, without their first backslash; empty if encoders do not escape it.
fn escapes_of(letter: char, folds_ascii: bool) -> Vec<String> {
    let cases = cases_of(letter).filter(|case| folds_ascii || case.is_ascii() == letter.is_ascii());
    let is_escaped = |case: &char| u8::try_from(*case).map_or(true, |byte| !is_never_escaped(byte));
    let mut escapes: Vec<String> = cases
        .filter(is_escaped)
        .map(|case| {
            let units = case.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("u{unit:04x}")).collect::<Vec<_>>();
            units.join("\\")
        })
        .collect();
    match letter {
        '\u{8}' => escapes.push("b".to_owned()),
        '\u{c}' => escapes.push("f".to_owned()),
        _ => {}
    }
    escapes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use quarry_event::segment::lower_token;

    use super::*;

    /// Whether a text has the terms that the query requires.
    fn has_terms(text: &str, query: &TermQuery) -> bool {
        let mut tokens = BTreeSet::new();
        for_each_token(text.as_bytes(), |token| {
            let mut lower = Vec::new();
            lower_token(token, &mut lower);
            tokens.insert(String::from_utf8(lower).unwrap());
        });
        match query {
            TermQuery::All => true,
            TermQuery::Token(token) => tokens.contains(&**token),
            TermQuery::Prefix(prefix) => tokens.iter().any(|token| token.starts_with(&**prefix)),
            TermQuery::And(parts) => parts.iter().all(|part| has_terms(text, part)),
            TermQuery::Or(parts) => parts.iter().any(|part| has_terms(text, part)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_character_may_be_escaped() {
        for (value, text) in [
            ("José", r"José"),
            ("José", r"JOS\u00C9"),
            ("é-è", r"é-\u00e8"),
            ("éè", r"\u00e9è"),
            ("A&B <É>", r"A\u0026B <\u00e9>"),
            ("a'b+c`d", r"a\u0027b+c\u0060d"),
            ("l1\nl2\nl3\tx", "l1\\nl2\\u000al3\tx"),
            ("a\u{8}b", r"a\bb"),
            ("a\u{1b}[1m", r"a\u001b[1m"),
            ("\u{7f}x", r"\u007fx"),
            ("x 😀y", r"x \ud83d\ude00y"),
            ("a\u{fffd}b c", r"a\ud83db c"),
            ("日本語", r"\u65e5本\u8a9e"),
            ("日本語日本語😀", "日本語日本語\\ud83d\\ude00"),
            ("日本語日本語😀", r"\u65e5\u672c\u8a9e\u65e5\u672c\u8a9e\ud83d\ude00"),
            ("Ошибка1", r"\u041e\u0448\u0438\u0431\u043a\u04301"),
            ("ошибка 1", "ОШИБКА 1"),
            ("ük", "ü\\u212a"),
            ("é*", r"\u00e9abc"),
            ("*é", r"abc\u00e9"),
            ("*'x*", r"a\u0027xy"),
            ("a%20b'c", r"a%20b\u0027c"),
            ("a%2* é", r"a%20 é"),
            ("İstanbul é", r"\u0130stanbul \u00e9"),
        ] {
            assert!(has_terms(text, &escaped_terms(value)), "{value} {text} {:?}", escaped_terms(value));
        }
        assert!(!has_terms("T&D", &escaped_terms("T&C")));
        assert!(!has_terms("T C", &escaped_terms("Té")));
        assert!(!has_terms("日本語日本", &escaped_terms("日本語日本語")));
        assert!(!has_terms(r"\u041e\u0448\u0438", &escaped_terms("ошибка")));
        assert_eq!(escaped_terms("a.b c-1"), TermQuery::for_keyword("a.b c-1"));
    }
}
