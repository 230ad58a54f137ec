//! Tests of numbers, texts and their orders; every number survives a round trip through its text.

use std::cmp::Ordering::{Equal, Greater, Less};

use proptest::prelude::*;

use super::*;

#[test]
fn numbers_are_formatted_like_spl() {
    for (value, text) in [
        (0.0, "0"),
        (-0.0, "0"),
        (200.0, "200"),
        (-7.0, "-7"),
        (0.1, "0.1"),
        (0.1 + 0.2, "0.3"),
        (1.0 / 3.0, "0.3333333333333333"),
        (10.0 / 3.0, "3.3333333333333335"),
        (-2.0 / 3.0, "-0.6666666666666666"),
        (66.666_666_666_666_67, "66.66666666666667"),
        (1_732_060_800.123_456, "1732060800.123456"),
        (1.1 * 1.1, "1.21"),
        (1234.5, "1234.5"),
        (0.001, "0.001"),
        (0.0001, "0.0001"),
        (0.000_012_3, "1.23e-05"),
        (1e-10, "1e-10"),
        (1.5e-300, "1.5e-300"),
        (MAX_EXACT_INTEGER, "9007199254740992"),
        (-MAX_EXACT_INTEGER, "-9007199254740992"),
        (1e15, "1000000000000000"),
        (1e16, "1e+16"),
        (1.25e20, "1.25e+20"),
        (-1e300, "-1e+300"),
        (999_999_999_999_999.9, "999999999999999.9"),
        (99_999_999_999_999.94, "99999999999999.94"),
        (0.999_999_999_999_999_9, "1"),
        (123_456_789_012.345_67, "123456789012.34567"),
        (f64::NAN, "nan"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
    ] {
        assert_eq!(format_number(value), text);
    }
}

#[test]
fn integers_are_formatted_without_fraction() {
    for (value, text) in
        [(0, "0"), (10, "10"), (-10, "-10"), (i64::MAX, "9223372036854775807"), (i64::MIN, "-9223372036854775808")]
    {
        let mut out = "x".to_owned();
        write_integer(value, &mut out);
        assert_eq!(out, format!("x{text}"));
    }
}

#[test]
fn numeric_texts_are_parsed() {
    for (text, value) in [
        ("0", 0.0),
        ("007", 7.0),
        ("-3", -3.0),
        ("+3", 3.0),
        ("1.50", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("-.5", -0.5),
        ("1e3", 1_000.0),
        ("1E-2", 0.01),
        ("2.5e+2", 250.0),
        ("9007199254740993", 9_007_199_254_740_992.0),
    ] {
        assert_eq!(parse_number(text), Some(value), "{text}");
    }
}

#[test]
fn other_texts_are_not_parsed_as_numbers() {
    for text in [
        "", " ", " 1", "1 ", "-", "+", ".", "e5", "1e", "1e+", "0x10", "inf", "-inf", "nan", "NaN", "infinity",
        "1e999", "1,000", "1_000", "1.2.3", "--1", "1-2", "٣", "abc", "1a", "+-1", "-e", "10.0.0.1",
    ] {
        assert_eq!(parse_number(text), None, "{text}");
        assert_eq!(parse_canonical_number(text), None, "{text}");
    }
}

#[test]
fn canonical_numbers_round_trip() {
    for text in ["0", "200", "-7", "9223372036854775807", "-9223372036854775808"] {
        assert_eq!(parse_canonical_number(text), Some(Number::Int(text.parse().unwrap())), "{text}");
    }
    for text in [
        "0.5",
        "-0.5",
        "8.7",
        "1234.5",
        "0.0001",
        "1.23e-05",
        "1e+16",
        "66.66666666666667",
        "0.3333333333333333",
        "12345678901234.5",
    ] {
        assert_eq!(parse_canonical_number(text), Some(Number::Float(text.parse().unwrap())), "{text}");
    }
    for text in [
        "007",
        "-0",
        "+1",
        "1.0",
        "1.",
        ".5",
        "1e3",
        "1E+16",
        "00",
        "-00.5",
        "0.50",
        "0.00001",
        "9223372036854775808",
        "0.30000000000000004",
        "0.33333333333333333",
        "-",
        "1e16",
        "5.0e-10",
        "00.1",
        "100000000000000000.5",
        "-0.0",
        "0.0",
    ] {
        assert_eq!(parse_canonical_number(text), None, "{text}");
    }
}

#[test]
fn values_compare_numerically_if_both_are_numbers() {
    for (a, b, order) in [
        ("2", "10", Less),
        ("2", "2.0", Equal),
        ("007", "7", Equal),
        ("1e3", "1000", Equal),
        ("-1", "1", Less),
        ("2", "10a", Greater),
        ("a", "B", Greater),
        ("", "0", Less),
        ("abc", "abd", Less),
        ("é", "z", Greater),
        ("9007199254740993", "9007199254740992", Greater),
        ("9223372036854775807", "9223372036854775806", Greater),
        ("9007199254740993", "9007199254740992.0", Greater),
        ("9223372036854775808", "9223372036854775807", Greater),
        ("inf", "1", Greater),
    ] {
        assert_eq!(compare(a, b), order, "{a} {b}");
        assert_eq!(compare(b, a), order.reverse(), "{b} {a}");
    }
}

#[test]
fn numbers_sort_before_addresses_and_addresses_before_texts() {
    let sorted =
        ["-5", "2", "3.5", "10", "2.0.0.1", "10.0.0.2", "10.0.0.10", "", "10.0.0", "10.0.0.256", "A", "a", "é"];
    let mut shuffled = sorted;
    shuffled.reverse();
    shuffled.swap(2, 9);
    shuffled.sort_by_key(|text| sort_key(text));
    assert_eq!(shuffled, sorted);
    assert_eq!(parse_ipv4("10.0.0.1"), Some(0x0a00_0001));
    for text in ["10.0.0", "10.0.0.1.1", "10.0.0.1 ", "a", "", "::1", "10.0.0.-1"] {
        assert_eq!(parse_ipv4(text), None, "{text}");
    }
}

fn any_key_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?[0-9]{1,3}(\\.[0-9]{1,2})?",
        "[0-9]{15,22}(\\.[05])?",
        "1[67][0-9]{8}\\.[0-9]{4,10}",
        "[0-9]{1,3}(\\.[0-9]{1,3}){3}",
        "[a-c1.]{0,4}"
    ]
}

proptest! {
    #[test]
    fn formatted_numbers_round_trip(value in prop::num::f64::NORMAL | prop::num::f64::ZERO) {
        let text = format_number(value);
        let back = parse_number(&text).unwrap();
        prop_assert!((back - value).abs() <= value.abs() * 1e-14, "{} {}", value, text);
        prop_assert_eq!(format_number(back), text);
    }

    #[test]
    fn numbers_between_large_integers_round_trip(value in 1e14..9e15) {
        let text = format_number(value);
        prop_assert_eq!(format_number(parse_number(&text).unwrap()), text);
    }

    #[test]
    fn exact_integers_round_trip(value in -(1i64 << 53)..=1 << 53) {
        let text = format_number(value as f64);
        prop_assert_eq!(&text, &value.to_string());
        prop_assert_eq!(parse_number(&text), Some(value as f64));
        prop_assert_eq!(parse_canonical_number(&text), Some(Number::Int(value)));
    }

    #[test]
    fn decimals_are_canonical_only_if_they_round_trip(text in "-?[0-9]{1,9}(\\.[0-9]{0,9})?(e[+-]?[0-9]{1,2})?") {
        let number = parse_number(&text).unwrap();
        let prints_alike = format_number(number) == text;
        prop_assert_eq!(parse_canonical_number(&text).is_some(), prints_alike);
        prop_assert_eq!(parse_canonical_number(&text).map(Number::as_f64), prints_alike.then_some(number));
    }

    #[test]
    fn parsing_arbitrary_text_does_not_panic(text in any::<String>()) {
        if let Some(number) = parse_number(&text) {
            prop_assert!(number.is_finite());
        }
        parse_canonical_number(&text);
        sort_key(&text);
    }

    #[test]
    fn sort_key_order_is_total(a in any_key_text(), b in any_key_text(), c in any_key_text()) {
        let (a, b, c) = (sort_key(&a), sort_key(&b), sort_key(&c));
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        if a <= b && b <= c {
            prop_assert!(a <= c, "{:?} {:?} {:?}", a, b, c);
        }
    }
}

#[test]
fn order_prefixes_agree_with_the_sort_order() {
    let texts = [
        "",
        "a",
        "A",
        "ab",
        "abcdefgh",
        "abcdefghi",
        "abcdefgj",
        "a\0",
        "zo\u{eb}",
        "zoe",
        "\u{1F600}",
        "7a",
        "0",
        "-0",
        "0.0",
        "00",
        "1",
        "-1",
        "1.5",
        "1.4999",
        "-1.5",
        "1e3",
        "1e300",
        "-1e300",
        "9007199254740992",
        "9007199254740993",
        "9223372036854775807",
        "-9223372036854775808",
        "1763700000.000000001",
        "1763700000.7",
        "1763700000.2",
        "1763700000",
        "0.000000001",
        "10.0.0.1",
        "10.0.0.2",
        "9.255.0.1",
        "255.255.255.255",
        "256.1.1.1",
        "12:30",
        "~",
    ];
    let is_nanos = |key: &SortKey<'_>| matches!(key, SortKey::Number(Number::Nanos(_)));
    for one in texts.map(sort_key) {
        for other in texts.map(sort_key) {
            for has_fractions in [false, true] {
                if has_fractions && (is_nanos(&one) || is_nanos(&other)) {
                    continue;
                }
                let [first, second] = [&one, &other].map(|key| key.order_prefix_after(0, has_fractions));
                match first.cmp(&second) {
                    Ordering::Equal => {}
                    order => assert_eq!(one.cmp(&other), order, "{one:?} {other:?}"),
                }
            }
        }
    }
    assert!(sort_key("1.5").order_prefix_after(0, true) > sort_key("1.4999").order_prefix_after(0, true));
}

proptest! {
    #[test]
    fn short_number_parser_agrees_with_the_general_parser(text in r"-?[0-9]{0,16}(\.[0-9]{0,16})?") {
        let short = parse_short_number(text.as_bytes());
        // Bits are compared, because 0.0 and -0.0 are equal.
        let bits = |number: Number| (matches!(number, Number::Int(_)), number.as_f64().to_bits());
        if let Some(short) = short {
            prop_assert_eq!(parse_any_number(&text).map(bits), Some(bits(short)), "{}", text);
        }
        let plain = text.trim_start_matches('-');
        let is_short = (1..=SAFE_DIGITS_MAX).contains(&plain.len()) && !plain.starts_with('.');
        prop_assert_eq!(short.is_some(), is_short, "{}", text);
    }
}

#[test]
fn short_and_long_numbers_are_the_doubles_that_rust_parses() {
    let texts = [
        "0",
        "-0",
        "00",
        "-00",
        "7",
        "007",
        "-12",
        "+5",
        "1.50",
        "-2.5",
        "-0.0",
        "5.",
        ".5",
        "99999999999999",
        "123456789012345",
        "-123456789012345",
        "1234567890123456789012",
        "0.1",
        "3.14159265358979",
        "1e3",
        "1E-2",
    ];
    for text in texts {
        let expected: f64 = text.parse().unwrap();
        assert_eq!(parse_number(text).map(f64::to_bits), Some(expected.to_bits()), "{text}");
    }
    for text in ["", "-", ".", "1.2.3", "1-2", "e3", "1e400", "inf", "nan", "0x1f", " 1", "1 "] {
        assert_eq!(parse_number(text), None, "{text:?}");
    }
}
