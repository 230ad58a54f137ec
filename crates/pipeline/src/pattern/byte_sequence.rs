//! Patterns of a sequence of bytes at the start of a text, such as `^\d{4}-\d\d-\d\d` or `^\d+(?:\.\d+)?,`.
//!
//! Line breakers and time prefixes are often such patterns and are matched once for each line. Testing the bytes one by
//! one is several times faster than the regular expression engine, most of whose time is spent before its first byte.

/// Maximum number of items of a pattern, and maximum of the least number of repetitions of an item; other patterns are
/// left to the engine.
const BYTES_MAX: usize = 64;
/// Punctuation that stands for itself in a class, if it is not between two other characters.
const CLASS_PUNCTUATION: &[u8] = b"-+:._/";
/// Punctuation that stands for itself after a backslash.
const ESCAPED: &[u8] = b".+*?()[]{}|^$/-";

/// The items of a pattern that matches at the start of a text. They are matched without backtracking: a byte that can
/// follow a repetition is not in its set, and a byte that can follow an optional group cannot begin the group.
#[derive(Clone, Debug)]
pub(super) struct ByteSequence {
    items: Box<[ByteRepetition]>,
}

/// Repeated bytes of a set.
#[derive(Clone, Debug)]
struct ByteRepetition {
    set: ByteSet,
    least: usize,
    most: usize,
    /// Number of items of the optional group that begins here; 0 if none begins.
    group: usize,
}

/// A set of bytes, one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ByteSet([u64; 4]);

impl ByteSet {
    fn add_range(&mut self, first: u8, last: u8) {
        (first..=last).for_each(|byte| self.0[usize::from(byte / 64)] |= 1 << (byte % 64));
    }

    fn contains(self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] >> (byte % 64) & 1 != 0
    }

    fn intersects(self, other: ByteSet) -> bool {
        self.0.iter().zip(other.0).any(|(one, other)| one & other != 0)
    }

    fn add(&mut self, other: ByteSet) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own |= other);
    }
}

impl ByteSequence {
    /// Reads a pattern; `None` if it has anything but literals, `\d`, `\s`, classes of letters, digits and common
    /// punctuation, repetitions and optional groups of them, or if matching may need backtracking.
    pub(super) fn read(pattern: &str) -> Option<ByteSequence> {
        let sequence = pattern.strip_prefix('^')?;
        let group = sequence.strip_prefix("(?:").and_then(|inner| inner.strip_suffix(')'));
        let mut items = Vec::new();
        let mut rest = group.unwrap_or(sequence).as_bytes();
        while !rest.is_empty() {
            let Some(inside) = rest.strip_prefix(b"(?:") else {
                rest = read_repetition(rest, &mut items)?;
                continue;
            };
            let (mut inside, after) = inside.split_at_checked(inside.iter().position(|byte| *byte == b')')?)?;
            rest = after.strip_prefix(b")?").filter(|after| !begins_with_repetition(after))?;
            let first = items.len();
            while !inside.is_empty() {
                inside = read_repetition(inside, &mut items)?;
            }
            let count = items.len() - first;
            items.get_mut(first).filter(|item| item.least > 0)?.group = count;
        }
        (0..items.len()).all(|at| is_decided(&items, at)).then(|| ByteSequence { items: items.into() })
    }

    /// End of the match, if the text begins with one.
    #[inline]
    pub(super) fn find_end(&self, text: &[u8]) -> Option<usize> {
        let (mut at, mut next) = (0, 0);
        while let Some(item) = self.items.get(next) {
            let is_in = |byte: &u8| item.set.contains(*byte);
            next += 1;
            match text.get(at).is_some_and(is_in) {
                true if item.most == 1 => at += 1,
                true => {
                    let count = text[at..].iter().take(item.most).take_while(|byte| is_in(byte)).count();
                    if count < item.least {
                        return None;
                    }
                    at += count;
                }
                false if item.group > 0 => next += item.group - 1,
                false if item.least > 0 => return None,
                false => {}
            }
        }
        Some(at)
    }
}

/// Whether the byte after item `at` always shows that the item's repetition has ended and, if an optional group begins
/// with the item, whether its first byte shows that the match has the group.
fn is_decided(items: &[ByteRepetition], at: usize) -> bool {
    let item = &items[at];
    let (after, _) = first_bytes(items, at + 1);
    let (after_group, is_certain) = first_bytes(items, at + item.group);
    (item.least == item.most || !item.set.intersects(after))
        && (item.group == 0 || (is_certain && !item.set.intersects(after_group)))
}

/// The bytes with which the items from `next` on may begin, and whether they match at least one byte.
fn first_bytes(items: &[ByteRepetition], mut next: usize) -> (ByteSet, bool) {
    let mut first = ByteSet::default();
    while let Some(item) = items.get(next) {
        first.add(item.set);
        if item.group == 0 && item.least > 0 {
            return (first, true);
        }
        next += item.group.max(1);
    }
    (first, false)
}

/// Whether a pattern begins with a repetition operator.
fn begins_with_repetition(pattern: &[u8]) -> bool {
    matches!(pattern, [b'?' | b'*' | b'+' | b'{', ..])
}

/// Reads the first item of a pattern with its repetitions; returns the rest of the pattern.
fn read_repetition<'p>(pattern: &'p [u8], items: &mut Vec<ByteRepetition>) -> Option<&'p [u8]> {
    let (set, after) = read_set(pattern)?;
    let (least, most, rest) = read_times(after)?;
    if least > BYTES_MAX || items.len() == BYTES_MAX {
        return None;
    }
    if most > 0 {
        items.push(ByteRepetition { set, least, most, group: 0 });
    }
    Some(rest)
}

/// The bytes that the first item of a pattern matches, and the rest of the pattern.
fn read_set(pattern: &[u8]) -> Option<(ByteSet, &[u8])> {
    let mut set = ByteSet::default();
    match pattern {
        [b'\\', b'd', rest @ ..] => {
            set.add_range(b'0', b'9');
            Some((set, rest))
        }
        [b'\\', b's', rest @ ..] => {
            set.add_range(b'\t', b'\r');
            set.add_range(b' ', b' ');
            Some((set, rest))
        }
        [b'[', class @ ..] => {
            let close = class.iter().position(|byte| *byte == b']').filter(|close| *close > 0)?;
            let mut members = &class[..close];
            while let Some((&first, after)) = members.split_first() {
                let (last, after) = match after {
                    [b'-', last, after @ ..] => (*last, after),
                    _ => (first, after),
                };
                let is_range = first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() && first <= last;
                let is_single = first == last && CLASS_PUNCTUATION.contains(&first);
                if !is_range && !is_single {
                    return None;
                }
                set.add_range(first, last);
                members = after;
            }
            Some((set, &class[close + 1..]))
        }
        [b'\\', literal, rest @ ..] if ESCAPED.contains(literal) => {
            set.add_range(*literal, *literal);
            Some((set, rest))
        }
        [literal, rest @ ..] if literal.is_ascii_alphanumeric() || b" #-:;,/_<>=\"".contains(literal) => {
            set.add_range(*literal, *literal);
            Some((set, rest))
        }
        _ => None,
    }
}

/// The least and the greatest number of repetitions at the start of a pattern, and the rest of the pattern.
fn read_times(pattern: &[u8]) -> Option<(usize, usize, &[u8])> {
    let number = |digits: &[u8]| {
        let digits = digits.iter().all(u8::is_ascii_digit).then_some(digits)?;
        std::str::from_utf8(digits).ok()?.parse::<usize>().ok()
    };
    let (least, most, after) = match pattern {
        [b'?', after @ ..] => (0, 1, after),
        [b'*', after @ ..] => (0, usize::MAX, after),
        [b'+', after @ ..] => (1, usize::MAX, after),
        [b'{', rest @ ..] => {
            let (times, after) = rest.split_at_checked(rest.iter().position(|byte| *byte == b'}')?)?;
            let (least, most) = match times.iter().position(|byte| *byte == b',') {
                None => (number(times)?, number(times)?),
                Some(comma) if comma + 1 == times.len() => (number(&times[..comma])?, usize::MAX),
                Some(comma) => (number(&times[..comma])?, number(&times[comma + 1..])?),
            };
            (least, most, &after[1..])
        }
        _ => return Some((1, 1, pattern)),
    };
    (least <= most && !begins_with_repetition(after)).then_some((least, most, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_pattern_matches_like_the_engine() {
        let patterns = [
            r"^(?:[IWEF]\d{4} \d\d:\d\d:\d\d)",
            r"^[IWEF]",
            r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
            r"^[a-c0-9X]{2}:",
            r"^time=",
            "^",
            r"^\d{0}x",
            r"^\d+",
            r"^a?",
            r"^a*",
            r"^a{1,2}",
            r"^a{2,}",
            r"^[a-]",
            r"^\.",
            r"^\d{2,3}-\d?x*:",
            r"^(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [A-Za-z0-9+:-]{1,8},)",
            r"^\d{1,3}(?:\.\d+)?(?:[eE][+-]?\d+)?;",
            r"^#Fields:\s*",
            "^#",
            r"^\s\d",
        ];
        let texts = [
            "2026-11-27 00:00:00.000 UTC,x",
            "2026-11-27 00:00:00 +01:00,x",
            "2026-11-27 00:00:00. UTC,x",
            "2026-11-27 00:00:00.000 Etc/Zulu,x",
            "2026-11-27 00:00:00.000 123456789,x",
            "2026-11-27 00:00:00.000 12345678,x",
            "2026-11-27 00:00:00.000 ,x",
            "2026-11-27 00:00:00.000",
            "12-3xx:",
            "123-:",
            "1234-:",
            "12-34:",
            "12.5e-7;",
            "12e;",
            "1.;",
            "123;",
            "1234;",
            "7E+10;x",
            "aaa",
            "a-",
            "-",
            ".",
            "I1127 00:00:00.000339     698 upload",
            "X1127 00:00:00",
            "I112",
            "2026-11-27 00:00:00.000 UTC",
            "2026-11-27 0",
            "b7: x",
            "XX:",
            "d7: x",
            "time=5",
            "x",
            "#Fields: date time",
            "#Fields:\t\n\u{b}\u{c}\r \u{e} x",
            "#Fields",
            "# Fields:",
            " 1",
            "\u{b}1",
            "\u{1c}1",
            "",
        ];
        for pattern in patterns {
            let fixed = ByteSequence::read(pattern).expect(pattern);
            let engine = regex::bytes::RegexBuilder::new(pattern).unicode(false).build().expect(pattern);
            for text in texts {
                let expected = engine.find(text.as_bytes()).map(|found| found.end());
                assert_eq!(fixed.find_end(text.as_bytes()), expected, "{pattern:?} {text:?}");
            }
        }
    }

    #[test]
    fn other_patterns_are_left_to_the_engine() {
        for pattern in [
            r"\d",
            r"^(a)",
            r"^a|b",
            r"^.",
            r"^[^a]",
            r"^[\d]",
            r"^[]a]",
            r"^[b-a]",
            r"^\w",
            r"^a$",
            r"^a{2}?",
            r"^a{2}{2}",
            r"^a{65}",
            r"^a{",
            r"^ä",
            r"^(?:a",
            r"^(?:a)(?:b)",
            r"^(?i)a",
            r"^\b",
            r"^a{x}",
            r"^a{2,1}",
            r"^a{,2}",
            r"^a+?",
            r"^a*a",
            r"^\d+(?:\.\d+)?\d",
            r"^a(?:bc)?",
            r"^a(?:bc)?b",
            r"^(?:a*)?b",
            r"^x(?:a)*b",
            r"^x(?:a)??b",
            r"^x(?:)?b",
            r"^x(?:(?:a)?)?b",
            r"^[+-a]",
            r"^[a--b]",
            r"^[[:digit:]]",
        ] {
            assert!(ByteSequence::read(pattern).is_none(), "{pattern}");
        }
    }
}
