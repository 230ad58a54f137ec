use proptest::prelude::*;

use super::*;
use crate::value::format_number;

fn round_trip_format(text: &str) -> Option<NumberFormat> {
    let format = NumberFormat::guess(text.as_bytes())?;
    let number = format.parse(text.as_bytes()).unwrap();
    let mut out = Vec::new();
    format.write(number, &mut out);
    assert_eq!(std::str::from_utf8(&out).unwrap(), text, "{format:?}");
    Some(format)
}

#[test]
fn json_scalars_are_distinguished_from_other_texts() {
    for scalar in
        ["0", "-0", "12", "-7.250", "1e9", "1.5E-3", "2e+07", "null", "true", "false", r#""""#, r#""a \"b\"""#]
    {
        assert!(is_json_scalar(scalar.as_bytes()), "{scalar}");
    }
    for other in [
        "",
        "\"",
        "a",
        "nul",
        "Null",
        "truefalse",
        "01",
        "-",
        "+1",
        "1.",
        ".5",
        "1e",
        "1e+",
        "1.e3",
        "0x1",
        "1 ",
        " 1",
        "1,2",
        "{}",
        "[]",
        "1\"",
        r#""a"#,
        r#""a"b""#,
        r#""a\""#,
        r#""\x""#,
        r#""a","b""#,
        "NaN",
        "--1",
        "1-2",
    ] {
        assert!(!is_json_scalar(other.as_bytes()), "{other}");
    }
}

#[test]
fn number_formats_are_guessed_from_texts() {
    let iso = |between, point, digits, zulu| NumberFormat::Time(TimeLayout::Iso { between, point, digits, zulu });
    for (text, format) in [
        ("0", NumberFormat::Integer),
        ("-12", NumberFormat::Integer),
        ("123456789012345678", NumberFormat::Integer),
        ("1795824001055919104", NumberFormat::Integer),
        ("-4611686018427387903", NumberFormat::Integer),
        ("007", NumberFormat::Padded { digits: 3 }),
        ("8.7", NumberFormat::Decimal { digits: 1 }),
        ("-0.50", NumberFormat::Decimal { digits: 2 }),
        ("10.1.52.71", NumberFormat::Ip4),
        ("255.255.255.255", NumberFormat::Ip4),
        ("84dc9f24", NumberFormat::Hex { digits: 8 }),
        ("ffffffffffffffff", NumberFormat::Hex { digits: 16 }),
        ("2026-11-20T00:00:00.021Z", iso(b'T', b'.', 3, true)),
        ("2015-10-18 18:01:47,978", iso(b' ', b',', 3, false)),
        ("2016-02-29T23:59:59", iso(b'T', 0, 0, false)),
        ("20/Nov/2026:00:00:07", NumberFormat::Time(TimeLayout::Common)),
        ("15:16:01", NumberFormat::Time(TimeLayout::Clock)),
    ] {
        assert_eq!(round_trip_format(text), Some(format), "{text}");
    }
}

#[test]
fn shortest_decimals_have_at_most_the_given_places() {
    let shortest = |texts: &[&str]| NumberFormat::shortest(texts.iter().map(|text| text.as_bytes()));
    assert_eq!(shortest(&["103.65", "232", "-0.5"]), Some(NumberFormat::Shortest { digits: 2 }));
    for others in [&["1.50"][..], &["1.0"], &["12"], &["x"], &[".5"], &["1.0123456789"], &["10.0.0.1", "1.5"]] {
        let format = shortest(others);
        let is_parsed = format.is_some_and(|format| others.iter().all(|text| format.parse(text.as_bytes()).is_some()));
        assert!(!is_parsed, "{others:?}");
    }
    let format = NumberFormat::Shortest { digits: 6 };
    for (text, number) in [
        ("0", 0),
        ("12", 12_000_000),
        ("-12.5", -12_500_000),
        ("0.0001", 100),
        ("999999999.999999", 999_999_999_999_999),
    ] {
        assert_eq!(format.parse(text.as_bytes()), Some(number), "{text}");
    }
    for text in ["-0", "0.0", "1.", "01", "1.50", "0.00009", "1.2345678", "9999999999", "1e3", "+1", "", "-", "1.2.3"] {
        assert_eq!(format.parse(text.as_bytes()), None, "{text}");
    }
    for (text, fraction) in
        [("5", Some(500_000)), ("05", Some(50_000)), ("50", None), ("0", None), ("1234567", None), ("x", None)]
    {
        assert_eq!(format.parse_fraction(text.as_bytes()), fraction, "{text}");
    }
    let two_places = NumberFormat::Decimal { digits: 2 };
    assert_eq!(["50", "5"].map(|text| two_places.parse_fraction(text.as_bytes())), [Some(50), None]);
    assert_eq!(NumberFormat::Integer.parse_fraction(b"5"), None);
}

#[test]
fn texts_that_do_not_round_trip_are_not_numbers() {
    for text in [
        "",
        "-",
        "-0",
        "+1",
        "1.",
        ".5",
        "01.5",
        "-0.0",
        "256.1.1.1",
        "1.2.3.04",
        "AB",
        "4611686018427387904",
        "-4611686018427387904",
        "9999999999999999999",
        "12345678901234567890123",
        "2015-02-29T00:00:00",
        "2026-13-01T00:00:00",
        "24:00:00",
        "2026-11-20T00:00:00.",
        "20/nov/2026:00:00:07",
    ] {
        assert_eq!(round_trip_format(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn numbers_of_every_format_round_trip(text in "[0-9a-f.:/TZ ,-]{0,26}") {
        round_trip_format(&text);
    }

    #[test]
    fn integers_round_trip(number in 1 - (1i64 << 62)..=(1i64 << 62) - 1) {
        round_trip_format(&number.to_string());
    }

    #[test]
    fn shortest_decimals_are_formatted_like_their_doubles(
        number in -999_999_999_999_999i64..=999_999_999_999_999, divisor in 0u32..=15, digits in 1u8..=9,
    ) {
        let number = number / 10i64.pow(divisor);
        let format = NumberFormat::Shortest { digits };
        let mut text = Vec::new();
        format.write(number, &mut text);
        if let Some(parsed) = format.parse(&text) {
            prop_assert_eq!(parsed, number);
            let double = number as f64 / 10f64.powi(i32::from(digits));
            let formatted = format_number(double);
            prop_assert_eq!(formatted.as_bytes(), &text);
        } else {
            let is_small = number.unsigned_abs() < 10u64.pow(u32::from(digits.saturating_sub(4)));
            prop_assert!(is_small || number.unsigned_abs() >= 1_000_000_000_000_000 / 10, "{}", number);
        }
    }

    #[test]
    fn only_ascii_digits_are_parsed_as_digits(
        text in prop::collection::vec(prop_oneof![15 => b'0'..=b'9', 1 => any::<u8>()], 1..=20),
        // Wrong bytes: neighbours of the digits in ASCII, and bytes that differ from digits by one bit.
        wrong in prop::option::of((any::<prop::sample::Index>(), prop::sample::select(b"/:\x10\x19\xb0\xb9p\0".to_vec()))),
    ) {
        let mut text = text;
        if let Some((place, byte)) = wrong {
            let place = place.index(text.len());
            text[place] = byte;
        }
        let is_number = text.len() <= 18 && text.iter().all(u8::is_ascii_digit);
        let expected = if is_number { std::str::from_utf8(&text).unwrap().parse().ok() } else { None };
        prop_assert_eq!(NumberFormat::Padded { digits: text.len() as u8 }.parse(&text), expected);
    }

    #[test]
    fn out_of_range_numbers_are_written_without_panic(number in any::<i64>(), digits in 1u8..=9) {
        for format in [
            NumberFormat::Integer, NumberFormat::Padded { digits }, NumberFormat::Decimal { digits },
            NumberFormat::Shortest { digits },
            NumberFormat::Hex { digits }, NumberFormat::Ip4, NumberFormat::Time(TimeLayout::Common),
            NumberFormat::Time(TimeLayout::Iso { between: b'T', point: b'.', digits, zulu: true }),
        ] {
            let mut out = Vec::new();
            format.write(number, &mut out);
            prop_assert!(out.is_ascii() && !out.is_empty());
        }
    }

    #[test]
    fn byte_sets_contain_exactly_their_bytes(bytes in prop::collection::vec(any::<u8>(), 0..40), other in any::<u8>()) {
        let set = ByteSet::of(&bytes);
        prop_assert_eq!(set.contains(other), bytes.contains(&other));
        prop_assert_eq!(set.intersects(ByteSet::of(&[other])), bytes.contains(&other));
        prop_assert_eq!(ByteSet::from_words(set.words()), set);
    }
}

#[test]
fn dictionaries_find_exactly_their_texts() {
    let dictionary = Dictionary { bytes: Bytes::from_static(b"abbcc"), ends: vec![1, 3, 5] };
    assert_eq!(dictionary.find(b"bb"), Some(1));
    assert_eq!(dictionary.find(b"b"), None);
    assert_eq!((dictionary.lower_bound(b"b"), dictionary.lower_bound(b"d")), (1, 3));
    assert_eq!(dictionary.iter().collect::<Vec<_>>(), [&b"a"[..], b"bb", b"cc"]);
}

#[test]
fn texts_that_would_end_a_json_string_are_not_string_contents() {
    for content in ["", "plain", "zo\u{eb}", r#"a \"b\""#, r"\\", r"\u00e4x", r"\ud83d", "a\nb", r"\/\b\f\n\r\t"] {
        assert!(is_string_content(content.as_bytes()), "{content}");
    }
    for other in ["\"", "a\"b", r"\", r"a\\\", r"\u00", r"\u00zz", r"\x41", r#"\\""#] {
        assert!(!is_string_content(other.as_bytes()), "{other}");
    }
}
