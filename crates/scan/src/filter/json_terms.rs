//! Terms of values that JSON may write with escapes: `Jos\u00e9`, `line1\nline2`, `a\u0026b`.
//!
//! Encoders differ in the characters that they escape, so each character may be written either way, independently of the
//! others. Characters that no encoder escapes are looked up as they are; texts that escape them have a mark
//! ([`quarry_event::TextMark::JsonLetter`]).

use std::collections::BTreeSet;

use quarry_event::TermQuery;
use quarry_event::segment::{cases_of, for_each_token};

/// Breakers that encoders of JSON escape as `\u`: those with a meaning in HTML or JavaScript, and the plus sign.
const ESCAPED_BREAKERS: [u8; 6] = *b"<>&'=+";
/// Maximum number of ways to write a token that are looked up; a token with more ways is not looked up.
const SPELLINGS_MAX: usize = 32;

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
        // Wildcards next to the token, and a percent sign before it, have the same effect as in the whole text.
        let before = start_with_percent(bytes, token.start);
        let end = token.end + usize::from(bytes.get(token.end) == Some(&b'*'));
        let Some(spelled) = spellings_of(&text[token.clone()], !text.is_ascii()) else { return TermQuery::All };
        let prefixes = escapes_of_breaker(token.start.checked_sub(1).map(|at| bytes[at]));
        let spelled = spelled.iter().flat_map(|token_text| {
            let tail = &text[token.end..end];
            let raw = format!("{}{token_text}{tail}", &text[before..token.start]);
            let escaped = prefixes.iter().map(move |prefix| format!("{prefix}{token_text}{tail}"));
            std::iter::once(raw).chain(escaped).collect::<Vec<String>>()
        });
        TermQuery::or(spelled.map(|text| TermQuery::for_keyword(&text)))
    }))
}

/// Whether encoders write this byte as it is.
fn is_never_escaped(byte: u8) -> bool {
    (b' '..0x7f).contains(&byte) && !ESCAPED_BREAKERS.contains(&byte) && byte != b'`'
}

/// Start of the part of the text that decides how the token at `start` is looked up: a wildcard or a percent sign
/// directly before it.
fn start_with_percent(bytes: &[u8], start: usize) -> usize {
    start - usize::from(start > 0 && matches!(bytes[start - 1], b'*' | b'%'))
}

/// What may be written before a token in place of the breaker before it, other than a breaker: the part of its escapes
/// that belongs to the token.
fn escapes_of_breaker(breaker: Option<u8>) -> Vec<String> {
    let short = match breaker {
        Some(b'\n') => Some("n"),
        Some(b'\t') => Some("t"),
        Some(b'\r') => Some("r"),
        Some(breaker) if ESCAPED_BREAKERS.contains(&breaker) => None,
        _ => return Vec::new(),
    };
    let long = breaker.map(|breaker| format!("u{breaker:04x}"));
    long.into_iter().chain(short.map(str::to_owned)).collect()
}

/// The ways to write a token; `None` if there are too many or they are unknown. If `folds_ascii`, a letter of ASCII
/// equals the other letters with the same lower case.
fn spellings_of(token: &str, folds_ascii: bool) -> Option<BTreeSet<String>> {
    let mut all = BTreeSet::from([String::new()]);
    for letter in token.chars() {
        // A lone surrogate is read as this character.
        if letter == char::REPLACEMENT_CHARACTER || letter == 'İ' || letter == '\u{307}' {
            return None;
        }
        let mut written = vec![letter.to_string()];
        let cases = cases_of(letter).filter(|case| folds_ascii || case.is_ascii() == letter.is_ascii());
        for case in cases.filter(|case| u8::try_from(*case).map_or(true, |byte| !is_never_escaped(byte))) {
            let units = case.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect();
            written.push(units);
        }
        match letter {
            '\u{8}' => written.push("\\b".to_owned()),
            '\u{c}' => written.push("\\f".to_owned()),
            _ => {}
        }
        if all.len() * written.len() > SPELLINGS_MAX {
            return None;
        }
        all = all.iter().flat_map(|known| written.iter().map(move |letter| format!("{known}{letter}"))).collect();
    }
    Some(all)
}

#[cfg(test)]
mod tests {
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
            ("日本語日本語日本語", r"\u65e5本語日本語日本語"),
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
        assert_eq!(escaped_terms("a.b c-1"), TermQuery::for_keyword("a.b c-1"));
    }
}
