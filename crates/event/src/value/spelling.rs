//! Spellings of a number: texts that only add a sign, a decimal point or zeros after the point.
//!
//! `=` in the first command of a search looks a number up as a word. A value that is equal as a number, but is another
//! word (`01`, `1e0`), would be found only in pages that contain the number itself in another text. Therefore, `=` in
//! the first command accepts only values that contain the number itself: `+1`, `1.` and `1.00` for `1`.

/// The numbers of which `text` is a different spelling: `1.0`, `+1` and `1` for `+1.0`.
#[inline]
pub fn numbers_spelled(text: &str) -> impl Iterator<Item = &str> {
    let unsigned = without_sign(text);
    [without_zeros(text), unsigned, unsigned.and_then(without_zeros)].into_iter().flatten()
}

/// Whether `text` is a different spelling of `number`.
#[inline]
pub fn is_spelling(number: &str, text: &str) -> bool {
    text.len() > number.len() && numbers_spelled(text).any(|spelled| spelled.eq_ignore_ascii_case(number))
}

/// The beginnings of the spellings of a number, each with `true` if zeros may follow it.
pub fn spelled_beginnings(number: &str) -> impl Iterator<Item = (String, bool)> {
    let signs: &[&str] = match number.as_bytes().first() {
        Some(b'+' | b'-') => &[""],
        _ if is_zero(number) => &["", "+", "-"],
        _ => &["", "+"],
    };
    let points: &[&str] = if is_whole(number) { &["", "."] } else { &[""] };
    let all = signs.iter().flat_map(move |sign| points.iter().map(move |point| (sign, point)));
    all.map(move |(sign, point)| (format!("{sign}{number}{point}"), !point.is_empty()))
}

/// The whole number before a point that only zeros follow.
fn without_zeros(text: &str) -> Option<&str> {
    if !text.ends_with(['0', '.']) {
        return None;
    }
    let (whole, zeros) = text.split_once('.')?;
    (is_whole(whole) && zeros.bytes().all(|byte| byte == b'0')).then_some(whole)
}

/// The number after a sign that does not change it.
fn without_sign(text: &str) -> Option<&str> {
    let starts_unsigned = |text: &str| text.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.');
    match text.as_bytes().first()? {
        b'+' => text.get(1..).filter(|rest| starts_unsigned(rest)),
        b'-' => text.get(1..).filter(|rest| is_zero(rest)),
        _ => None,
    }
}

/// Whether the text consists of digits, after an optional sign.
fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the text is a zero without a sign, such as `0` and `0.00`.
fn is_zero(text: &str) -> bool {
    text.starts_with('0') && text.bytes().all(|byte| matches!(byte, b'0' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::contains_word;
    use crate::value::parse_exact_number;

    const TEXTS: &[&str] = &[
        "1",
        "01",
        "1.0",
        "1.00",
        "1.",
        "1.01",
        "+1",
        "+1.0",
        "-1",
        "-1.0",
        "1e0",
        "1.0e0",
        "0",
        "-0",
        "-0.0",
        "0.0",
        "00",
        "+01.0",
        "10",
        "1.10",
        "0e1",
        ".5",
        "+.5",
        "0.5",
        "-0.5",
        "12345678901234567890",
        "12345678901234567890.0",
        "12345678901234567891",
        "",
        "+",
        ".",
        "nan",
        "0x1",
        "1,0",
    ];

    #[test]
    fn spellings_are_equal_numbers_that_contain_the_number() {
        let spelled: Vec<(&str, &str)> = TEXTS
            .iter()
            .flat_map(|number| TEXTS.iter().map(move |text| (*number, *text)))
            .filter(|(number, text)| is_spelling(number, text))
            .collect();
        for (number, text) in &spelled {
            let values = [number, text].map(|text| parse_exact_number(text).map(|number| number.as_f64()));
            assert!(values[0].is_some() && values[0] == values[1], "{text} for {number}");
            assert!(contains_word(text.as_bytes(), number, false), "{text} for {number}");
        }
        let of_one: Vec<&str> = spelled.iter().filter(|(number, _)| *number == "1").map(|(_, text)| *text).collect();
        assert_eq!(of_one, ["1.0", "1.00", "1.", "+1", "+1.0"]);
        let of_zero: Vec<&str> = spelled.iter().filter(|(number, _)| *number == "0").map(|(_, text)| *text).collect();
        assert_eq!(of_zero, ["-0", "-0.0", "0.0"]);
    }

    #[test]
    fn every_spelling_has_one_of_the_beginnings() {
        for number in TEXTS.iter().filter(|text| parse_exact_number(text).is_some()) {
            for text in TEXTS.iter().filter(|text| **text == *number || is_spelling(number, text)) {
                let begins = spelled_beginnings(number).any(|(start, zeros)| match zeros {
                    true => text.starts_with(&start),
                    false => *text == start,
                });
                assert!(begins, "{text} for {number}");
            }
        }
    }
}
