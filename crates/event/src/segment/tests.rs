//! Tests of tokens and of patterns, and of their agreement on arbitrary texts.

use proptest::prelude::*;

use super::*;
use crate::TermQuery;

fn tokens(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for_each_token(text.as_bytes(), |token| found.push(String::from_utf8_lossy(token).into_owned()));
    found
}

#[test]
fn texts_are_split_into_tokens() {
    for (text, expected) in [
        ("", &[][..]),
        ("   ", &[]),
        ("...", &[]),
        ("Error", &["Error"]),
        ("user=alice id=7", &["user", "alice", "id", "7"]),
        ("10.0.0.1:8080", &["10", "0", "0", "1", "8080"]),
        ("/api/v2/items?page=2&n=3", &["api", "v2", "items", "page", "2", "n", "3"]),
        (
            "[a]<b>(c){d}|e!f;g,h'i\"j*k\nl\rm\tn+o",
            &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o"],
        ),
        ("a@b-c$d#e%f\\g_h", &["a", "b", "c", "d", "e", "f", "g", "h"]),
        ("größe=日本 x", &["größe", "日本", "x"]),
        ("a~b^c`d", &["a~b^c`d"]),
    ] {
        assert_eq!(tokens(text), expected, "{text}");
    }
}

#[test]
fn percent_encoded_breakers_separate_tokens() {
    for (text, expected) in [
        ("a%20b", &["a", "b"][..]),
        ("a%2520b", &["a", "b"]),
        ("a%2526b", &["a", "b"]),
        ("a%3db%3Dc", &["a", "b", "c"]),
        ("a%2fb", &["a", "2fb"]),
        ("a%41b", &["a", "41b"]),
        ("100%", &["100"]),
        ("%2", &["2"]),
        ("%20", &[]),
        ("%%20x", &["x"]),
        ("a%5Bb%5dc", &["a", "b", "c"]),
        ("a%252", &["a", "252"]),
        ("a%0Ab%0D", &["a", "b", "0D"]),
    ] {
        assert_eq!(tokens(text), expected, "{text}");
    }
}

#[test]
fn breaker_masks_agree_with_the_class_table() {
    for byte in 0..=255u8 {
        for place in 0..32 {
            let mut block = [b'a'; 32];
            block[place] = byte;
            assert_eq!(breaker_mask(&block), u64::from(is_breaker(byte)) << place, "{byte} at {place}");
        }
    }
}

proptest! {
    #[test]
    fn blockwise_and_bytewise_tokens_are_equal(
        pieces in prop::collection::vec(
            prop::sample::select(vec![" ", "a", "%2520", "%20", "%", "2", "word", "_", "/", "\u{e4}", "0123456789abcdefghij"]),
            0..60,
        ),
    ) {
        let text = pieces.concat();
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        // Every length from 0, so that the end of the text is reached in every code path.
        for len in 0..=text.len() {
            expected.clear();
            found.clear();
            for_each_token_bytewise(&text.as_bytes()[..len], |token| expected.push(token.to_vec()));
            for_each_token(&text.as_bytes()[..len], |token| found.push(token.to_vec()));
            prop_assert_eq!(&found, &expected, "{} bytes of {}", len, text);
        }
    }
}

#[test]
fn tokens_are_lower_cased_and_truncated() {
    let lowered = |token: &str| {
        let mut out = b"old".to_vec();
        lower_token(token.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(lowered("ErRoR9"), "error9");
    assert_eq!(lowered("ÄÖ"), "äö");
    assert_eq!(lowered("ΑΣ"), "ασ");
    assert_eq!(lowered(&"X".repeat(400)), "x".repeat(MAX_TOKEN_BYTES));
    assert_eq!(lowered(&format!("a{}", "É".repeat(200))).len(), MAX_TOKEN_BYTES);
    assert_eq!(lowered(&"É".repeat(200)), "é".repeat(127));
    let mut out = Vec::new();
    lower_token(b"A\xffB\xc3", &mut out);
    assert_eq!(out, b"a\xffb\xc3");
}

#[test]
fn words_are_bounded_by_breakers() {
    for (text, pattern, expected) in [
        ("connection failed", "failed", true),
        ("connection failed", "FAILED", true),
        ("connection failed", "fail", false),
        ("connection failed", "ailed", false),
        ("connection failed", "fail*", true),
        ("connection failed", "*led", true),
        ("connection failed", "*ile*", true),
        ("connection failed", "f*d", true),
        ("connection failed", "c*d", false),
        ("connection failed", "c*n", true),
        ("connection failed", "connection failed", true),
        ("connection  failed", "connection failed", false),
        ("connection failed", "con*tion fai*", true),
        ("connection was failed", "connection*failed", false),
        ("connection was failed", "connection * failed", true),
        ("user=alice", "alice", true),
        ("user=alice", "user=alice", true),
        ("user=alice", "user=ali*", true),
        ("user=alice", "ser=alice", false),
        ("10.1.2.3", "10.1.2.3", true),
        ("10.1.2.3", "1.2", true),
        ("10.1.2.33", "10.1.2.3", false),
        ("x10.1.2.3", "10.1.2.3", false),
        ("a.b-c", "a*c", true),
        ("a b", "a*b", false),
        ("a%20b", "a", true),
        ("a%20b", "20b", false),
        ("a%20b", "b", true),
        ("a%2fb", "2fb", true),
        ("größe", "GRÖSSE", false),
        ("GRÖßE voll", "größe", true),
        ("größer", "größe", false),
        ("abab ab", "ab", true),
        ("ababab", "*ab", true),
        ("anything", "*", true),
        ("", "*", true),
        ("anything", "", true),
        ("", "a", false),
        ("aab ab", "ab", true),
        ("xa a", "a*", true),
    ] {
        assert_eq!(matches_word_pattern(text.as_bytes(), pattern, false), expected, "{text} / {pattern}");
    }
    assert!(!matches_word_pattern(b"Failed", "failed", true));
    assert!(matches_word_pattern(b"Failed failed", "failed", true));
}

#[test]
fn terms_are_bounded_by_major_breakers() {
    for (text, pattern, expected) in [
        ("ip 10.0.0.1 up", "10.0.0.1", true),
        ("ip=10.0.0.1 up", "10.0.0.1", false),
        ("ip=10.0.0.1 up", "ip=10.0.0.1", true),
        ("ip=10.0.0.1 up", "IP=10.*", true),
        ("ip=10.0.0.1 up", "*10.0.0.1", true),
        ("ip=10.0.0.1,up", "ip=10.0.0.1", true),
        ("a.b.c", "b", false),
        ("a%20b.c", "b.c", true),
        ("x--y", "y", true),
        ("x-y", "y", false),
        ("(err)", "err", true),
    ] {
        assert_eq!(matches_term_pattern(text.as_bytes(), pattern, false), expected, "{text} / {pattern}");
    }
}

#[test]
fn value_patterns_match_whole_values() {
    for (text, pattern, expected) in [
        ("alice", "alice", true),
        ("Alice", "alice", true),
        ("alice b", "alice", false),
        ("alice b", "alice*", true),
        ("alice b", "*b", true),
        ("alice b", "a*c*b", true),
        ("alice b", "a*z*b", false),
        ("aa", "a", false),
        ("", "", true),
        ("a", "", false),
        ("", "*", true),
        ("abcb", "a*b", true),
        ("abcbx", "a*b", false),
        ("/var/log", "/var/*", true),
        ("ab", "ab*ab", false),
        ("abab", "ab*ab", true),
    ] {
        let found = WordPattern::new(pattern, WordBound::Whole, false).is_match(text.as_bytes());
        assert_eq!(found, expected, "{text} / {pattern}");
    }
}

#[test]
fn asterisks_in_words_are_literal() {
    assert!(contains_word(b"a 2*3 b", "2*3", false));
    assert!(!contains_word(b"a 2x3 b", "2*3", false));
    assert!(contains_term(b"a 2.3 b", "2.3", false));
    assert!(contains_word(b"x", "", false));
    assert!(contains_word("ein Ärger".as_bytes(), "ärger", false));
    assert!(!contains_word("ein Ärger".as_bytes(), "ärger", true));
}

/// Reference matcher by brute force: tries every length for every `*`.
fn reference_match(text: &[u8], pattern: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|skip| reference_match(&text[skip..], rest)),
        Some((byte, rest)) => {
            text.first().is_some_and(|first| first.eq_ignore_ascii_case(byte)) && reference_match(&text[1..], rest)
        }
    }
}

fn is_satisfied(query: &TermQuery, text: &str) -> bool {
    let lowered: Vec<String> = tokens(text)
        .iter()
        .map(|token| {
            let mut out = Vec::new();
            lower_token(token.as_bytes(), &mut out);
            String::from_utf8_lossy(&out).into_owned()
        })
        .collect();
    match query {
        TermQuery::Token(token) => lowered.iter().any(|known| **known == **token),
        TermQuery::Prefix(prefix) => lowered.iter().any(|known| known.starts_with(&**prefix)),
        TermQuery::And(parts) => parts.iter().all(|part| is_satisfied(part, text)),
        TermQuery::All => true,
        other => panic!("a keyword never asks for {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn value_patterns_agree_with_the_reference_matcher(text in "[abB ]{0,8}", pattern in "[ab *]{0,6}") {
        let found = WordPattern::new(&pattern, WordBound::Whole, false).is_match(text.as_bytes());
        prop_assert_eq!(found, reference_match(text.as_bytes(), pattern.as_bytes()));
    }

    /// Pruning by the term dictionary is safe: every text that matches has all tokens of the query.
    #[test]
    fn matching_texts_contain_all_tokens_of_the_query(
        text in "[aAb2%0 .=é*-]{0,16}|([ab]{1,2}(%20|%2f|%2520|[ =.%-])){0,6}",
        pattern in "[aAb2%0 .=é*-]{1,6}",
    ) {
        let query = TermQuery::for_keyword(&pattern);
        for bound in [WordBound::Breaker, WordBound::Major] {
            if WordPattern::new(&pattern, bound, false).is_match(text.as_bytes()) {
                prop_assert!(is_satisfied(&query, &text), "{:?} {} {} {:?}", bound, text, pattern, query);
            }
        }
    }

    #[test]
    fn every_token_matches_as_a_word(text in "\\PC{0,40}") {
        for token in tokens(&text) {
            prop_assert!(contains_word(text.as_bytes(), &token, false), "{} in {}", token, text);
            prop_assert!(contains_word(text.as_bytes(), &token, true), "{} in {}", token, text);
        }
    }

    #[test]
    fn searching_arbitrary_bytes_does_not_panic(text in prop::collection::vec(any::<u8>(), 0..40), pattern in "\\PC{0,8}") {
        for bound in [WordBound::Breaker, WordBound::Major, WordBound::Whole] {
            WordPattern::new(&pattern, bound, false).is_match(&text);
            WordPattern::literal(&pattern, bound, true).is_match(&text);
        }
        for_each_token(&text, |token| lower_token(token, &mut Vec::new()));
    }
}
