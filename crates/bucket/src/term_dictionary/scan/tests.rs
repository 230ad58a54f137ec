//! Compares the results of [`RareTest`] on column values with the tokens of the written values.

use proptest::prelude::*;

use super::*;
use crate::term_dictionary::rare_tokens::tests::format_and_numbers;

/// Whether some text contains a requested token.
fn truth(texts: &[Vec<u8>], wanted: TokenPattern<'_>) -> bool {
    let (mut found, mut lower) = (false, Vec::new());
    for text in texts {
        for_each_token(text, |token| {
            lower_token(token, &mut lower);
            found |= wanted.matches(&lower);
        });
    }
    found
}

fn traits_of(texts: &[Vec<u8>]) -> ValueTraits {
    let mut traits = ValueTraits::default();
    texts.iter().enumerate().for_each(|(at, text)| traits.add(text, at == 0));
    traits
}

fn numbers(format: NumberFormat, numbers: &[i64]) -> (Column, ColumnValues, Vec<Vec<u8>>) {
    let text = |number: &i64| {
        let mut text = Vec::new();
        format.write(*number, &mut text);
        text
    };
    let texts: Vec<Vec<u8>> = numbers.iter().map(text).collect();
    let (min, max) = (*numbers.iter().min().unwrap(), *numbers.iter().max().unwrap());
    let kind = ColumnKind::Numbers { format, min, max };
    let column = Column { parent: Some(0), kind, traits: traits_of(&texts), values: numbers.len() as u64 };
    (column, ColumnValues::Numbers(numbers.to_vec()), texts)
}

fn texts(all: &[&str]) -> (Column, ColumnValues, Vec<Vec<u8>>) {
    let texts: Vec<Vec<u8>> = all.iter().map(|text| text.as_bytes().to_vec()).collect();
    let column =
        Column { parent: Some(0), kind: ColumnKind::Texts, traits: traits_of(&texts), values: texts.len() as u64 };
    let ends = texts.iter().scan(0, |end, text| {
        *end += text.len() as u32;
        Some(*end)
    });
    let values = ColumnValues::Texts { ends: ends.collect(), bytes: texts.concat().into() };
    (column, values, texts)
}

/// Tokens of the texts, their prefixes, and slightly different tokens.
fn tokens_to_search(texts: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut tokens, mut lower) = (Vec::new(), Vec::new());
    for text in texts {
        for_each_token(text, |token| {
            lower_token(token, &mut lower);
            tokens.push(lower.clone());
        });
    }
    let mut near = Vec::new();
    for token in &tokens {
        near.extend((1..token.len()).map(|len| token[..len].to_vec()));
        near.push(token[1..].to_vec());
        near.push([token, &b"0"[..]].concat());
        near.push([b"0", &token[..]].concat());
        near.push(token.iter().map(|byte| if *byte == b'1' { b'2' } else { *byte }).collect());
    }
    tokens.extend(near);
    tokens.sort();
    tokens.dedup();
    tokens
}

fn assert_agrees((column, values, texts): &(Column, ColumnValues, Vec<Vec<u8>>), exact: bool) {
    for question in tokens_to_search(texts).iter().filter(|question| !question.is_empty()) {
        for wanted in [TokenPattern::Token(question), TokenPattern::Prefix(question)] {
            let test = RareTest::of(column, wanted);
            let (found, truth) = (test.any_passes(values), truth(texts, wanted));
            let said = format!("{} in {}: {test:?}", question.escape_ascii(), texts.join(&b' ').escape_ascii());
            assert!(found || !truth, "missed {said}");
            assert!(!found || truth || !exact, "invented {said}");
        }
    }
}

proptest! {
    #[test]
    fn numbers_are_found_by_tokens_and_prefixes((format, all) in format_and_numbers()) {
        let exact = !matches!(format, NumberFormat::Time(_));
        assert_agrees(&numbers(format, &all[..all.len().min(6)]), exact);
    }

    #[test]
    fn short_texts_are_found_by_their_tokens(all in proptest::collection::vec("[a-cA-C.%20 -]{0,8}|[a-cä K]{0,5}|[ab2%0kKiIä\u{130}\u{212a}]{0,6}", 1..6)) {
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_agrees(&texts(&all), true);
    }
}

#[test]
fn tokens_do_not_span_adjacent_texts() {
    let (column, values, _) = texts(&[".b", "c.", "de"]);
    for (token, expected) in [("bc", false), ("b", true), ("c", true), ("de", true), ("d", false)] {
        assert_eq!(
            RareTest::of(&column, TokenPattern::Token(token.as_bytes())).any_passes(&values),
            expected,
            "{token}"
        );
    }
    assert!(RareTest::of(&column, TokenPattern::Prefix(b"d")).any_passes(&values));
}

/// If longer tokens were not excluded, a search for any token whose bytes occur in such times would read all pages that
/// have a column of them.
#[test]
fn times_without_fractions_contain_only_short_tokens() {
    let day_ns = 86_400_000_000_000;
    for layout in [TimeLayout::Common, TimeLayout::Clock] {
        let times: Vec<i64> = (0..400).map(|day| day * day_ns + day * 61_000_000_000).collect();
        let (column, ..) = numbers(NumberFormat::Time(layout), &times);
        let test = |wanted| RareTest::of(&column, wanted);
        for token in ["4195023900034321", "195", "b5e", "feba"] {
            assert!(matches!(test(TokenPattern::Token(token.as_bytes())), RareTest::Never), "{token} in {layout:?}");
        }
        for prefix in ["41950", "1970a", "feba"] {
            assert!(matches!(test(TokenPattern::Prefix(prefix.as_bytes())), RareTest::Never), "{prefix} in {layout:?}");
        }
    }
}

#[test]
fn columns_that_cannot_contain_a_token_are_skipped() {
    let (ids, ..) = numbers(NumberFormat::Hex { digits: 16 }, &[-7, 0x1234]);
    let (users, ..) = numbers(NumberFormat::Integer, &[102_349, 868_000, 987_654]);
    for (column, token) in
        [(&ids, "868229"), (&ids, "xyz"), (&users, "99999"), (&users, "1000000"), (&users, "84dc9f24")]
    {
        assert!(matches!(RareTest::of(column, TokenPattern::Token(token.as_bytes())), RareTest::Never), "{token}");
    }
    let test = RareTest::of(&users, TokenPattern::Token(b"868229"));
    assert!(matches!(test, RareTest::Numbers(NumberTest::Either(868_229, -868_229))), "{test:?}");
    let dictionary = Column { kind: ColumnKind::Dictionary { len: 2 }, ..users };
    assert!(matches!(RareTest::of(&dictionary, TokenPattern::Token(b"868229")), RareTest::Never));
}
