//! The tokens of numbers, compared with the tokens of their texts.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::term_dictionary::Namespace;
use crate::term_dictionary::hash::hash_term;

/// Hashes of all tokens, found by tokenising the texts of the numbers.
fn expected(format: NumberFormat, numbers: &[i64]) -> BTreeSet<u64> {
    let (mut hashes, mut text, mut lower) = (BTreeSet::new(), Vec::new(), Vec::new());
    for number in numbers {
        text.clear();
        format.write(*number, &mut text);
        segment::for_each_token(&text, |token| {
            segment::lower_token(token, &mut lower);
            hashes.insert(hash_term(Namespace::Tokens, &lower));
        });
    }
    hashes
}

fn collected(format: NumberFormat, numbers: &[i64]) -> BTreeSet<u64> {
    let min = numbers.iter().copied().min().unwrap_or(0);
    let max = numbers.iter().copied().max().unwrap_or(0);
    let mut set = RareNumbers::new(format, min, max, numbers.len() as u64);
    let mut rare = Vec::new();
    numbers.chunks(3).for_each(|page| set.add(page, &mut rare));
    set.finish(&mut rare);
    rare.into_iter().collect()
}

/// Formats, each with numbers that the format can represent.
pub(crate) fn format_and_numbers() -> impl Strategy<Value = (NumberFormat, Vec<i64>)> {
    let many = |range: std::ops::RangeInclusive<i64>| proptest::collection::vec(range, 1..40);
    let time = move |layout: TimeLayout| (Just(NumberFormat::Time(layout)), many(0..=4_000_000_000));
    let iso = (any::<bool>(), 0u8..=9, any::<bool>(), any::<bool>()).prop_flat_map(move |(t, digits, comma, zulu)| {
        let point = if digits == 0 {
            0
        } else if comma {
            b','
        } else {
            b'.'
        };
        let between = if t { b'T' } else { b' ' };
        time(TimeLayout::Iso { between, point, digits, zulu })
    });
    let times = prop_oneof![iso, time(TimeLayout::Common), time(TimeLayout::Clock)];
    let spread = times.prop_map(|(format, seconds)| {
        let step = match format {
            NumberFormat::Time(TimeLayout::Iso { digits, .. }) => 10i64.pow(9 - u32::from(digits)),
            _ => 1_000_000_000,
        };
        let limit = if format == NumberFormat::Time(TimeLayout::Clock) { 86_400_000_000_000 } else { i64::MAX };
        let number = |second: i64| (second * 1_000_000_000 + second * 7_919 % 1_000_000_000 / step * step) % limit;
        (format, seconds.into_iter().map(number).collect())
    });
    let limit = 999_999_999_999_999_999i64;
    prop_oneof![
        (
            Just(NumberFormat::Integer),
            prop_oneof![many(-limit..=limit), many(-300..=300), many(70_000..=900_000), many(limit..=(1 << 62) - 1)]
        ),
        (1u8..=18).prop_flat_map(move |digits| {
            (Just(NumberFormat::Padded { digits }), many(0..=10i64.pow(u32::from(digits)) - 1))
        }),
        (1u8..=9).prop_flat_map(move |digits| {
            (Just(NumberFormat::Decimal { digits }), prop_oneof![many(-limit..=limit), many(-999..=9_999)])
        }),
        (1u8..=9).prop_flat_map(move |digits| {
            let zeros = many(-99..=99).prop_map(|numbers| numbers.into_iter().map(|number| number * 1_000).collect());
            (Just(NumberFormat::Shortest { digits }), prop_oneof![many(-limit..=limit), many(-999..=9_999), zeros])
        }),
        (1u8..=16).prop_flat_map(move |digits| {
            let top = if digits == 16 { i64::MAX } else { (1i64 << (4 * digits)) - 1 };
            (Just(NumberFormat::Hex { digits }), many(if digits == 16 { i64::MIN } else { 0 }..=top))
        }),
        (Just(NumberFormat::Ip4), many(0..=i64::from(u32::MAX))),
        spread,
    ]
}

proptest! {
    #[test]
    fn hashes_of_numbers_are_those_of_their_text_tokens((format, numbers) in format_and_numbers()) {
        prop_assert_eq!(collected(format, &numbers), expected(format, &numbers), "{:?} {:?}", format, numbers);
    }
}

#[test]
fn negative_numbers_drop_their_sign_but_64_bit_ids_do_not() {
    for (format, numbers) in [
        (NumberFormat::Integer, vec![-5, 5, 0, i64::MAX]),
        (NumberFormat::Hex { digits: 16 }, vec![-1, 1, i64::MIN]),
        (NumberFormat::Decimal { digits: 2 }, vec![-870, 870, 1]),
        (NumberFormat::Shortest { digits: 2 }, vec![-870, 870, 1, 0, 100]),
    ] {
        assert_eq!(collected(format, &numbers), expected(format, &numbers), "{format:?}");
    }
}

#[test]
fn texts_are_hashed_as_lower_case_tokens() {
    let mut rare = Vec::new();
    add_text_hashes([&b"Wa1-B2"[..], b"", "GRÖSSE".as_bytes()].into_iter(), &mut rare);
    let hashes = ["wa1", "b2", "grösse"].map(|term| hash_term(Namespace::Tokens, term.as_bytes()));
    assert_eq!(rare, hashes);
}

#[test]
fn repeated_words_are_hashed_seldom_and_no_word_is_left_out() {
    let words: Vec<String> = (0..3_000).map(|number| format!("w{number}")).collect();
    let mut expected: Vec<u64> = words.iter().map(|word| hash_term(Namespace::Tokens, word.as_bytes())).collect();
    let mut rare = Vec::new();
    add_text_hashes(words.iter().chain(&words).map(String::as_bytes), &mut rare);
    rare.sort_unstable();
    rare.dedup();
    expected.sort_unstable();
    assert_eq!(rare, expected);
    rare.clear();
    add_text_hashes(std::iter::repeat_n(&b"http"[..], 1_000), &mut rare);
    assert_eq!(rare, [hash_term(Namespace::Tokens, b"http")]);
}
