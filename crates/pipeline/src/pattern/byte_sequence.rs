//! Patterns of a fixed sequence of bytes at the start of a text, such as `^\d{4}-\d\d-\d\d`.
//!
//! Line breakers and time prefixes are often such patterns and are matched once for each line. Testing the bytes one by
//! one is several times faster than the regular expression engine, most of whose time is spent before its first byte.

/// Maximum number of bytes of a match; other patterns are left to the engine.
const BYTES_MAX: usize = 64;

/// The bytes that may be at each position of a match, which begins where the text begins.
#[derive(Clone, Debug)]
pub(super) struct ByteSequence {
    places: Box<[ByteSet]>,
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
}

impl ByteSequence {
    /// Reads a pattern; `None` if it has anything but literal letters, digits, blanks and common punctuation, `\d`,
    /// classes of letters and digits, and numbers of repetitions.
    pub(super) fn read(pattern: &str) -> Option<ByteSequence> {
        let sequence = pattern.strip_prefix('^')?;
        let group = sequence.strip_prefix("(?:").and_then(|inner| inner.strip_suffix(')'));
        let mut rest = group.unwrap_or(sequence).as_bytes();
        let mut places = Vec::new();
        while !rest.is_empty() {
            let (set, after) = read_set(rest)?;
            let (times, after) = read_times(after)?;
            rest = after;
            if places.len() + times > BYTES_MAX {
                return None;
            }
            places.extend(std::iter::repeat_n(set, times));
        }
        Some(ByteSequence { places: places.into() })
    }

    /// End of the match, if the text begins with one.
    #[inline]
    pub(super) fn find_end(&self, text: &[u8]) -> Option<usize> {
        let head = text.get(..self.places.len())?;
        self.places.iter().zip(head).all(|(set, byte)| set.contains(*byte)).then_some(head.len())
    }
}

/// The bytes that the first item of a pattern matches, and the rest of the pattern.
fn read_set(pattern: &[u8]) -> Option<(ByteSet, &[u8])> {
    let mut set = ByteSet::default();
    match pattern {
        [b'\\', b'd', rest @ ..] => {
            set.add_range(b'0', b'9');
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
                if !first.is_ascii_alphanumeric() || !last.is_ascii_alphanumeric() || first > last {
                    return None;
                }
                set.add_range(first, last);
                members = after;
            }
            Some((set, &class[close + 1..]))
        }
        [literal, rest @ ..] if literal.is_ascii_alphanumeric() || b" -:,/_<>=\"".contains(literal) => {
            set.add_range(*literal, *literal);
            Some((set, rest))
        }
        _ => None,
    }
}

/// The number of repetitions at the start of a pattern, and the rest of the pattern.
fn read_times(pattern: &[u8]) -> Option<(usize, &[u8])> {
    match pattern {
        [b'?' | b'*' | b'+', ..] => None,
        [b'{', rest @ ..] => {
            let close = rest.iter().position(|byte| *byte == b'}')?;
            let digits = rest[..close].iter().all(u8::is_ascii_digit).then_some(&rest[..close])?;
            let times = std::str::from_utf8(digits).ok()?.parse().ok()?;
            let after = &rest[close + 1..];
            (!matches!(after, [b'?' | b'*' | b'+' | b'{', ..])).then_some((times, after))
        }
        _ => Some((1, pattern)),
    }
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
        ];
        let texts = [
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
            r"^\d+",
            r"^a?",
            r"^a*",
            r"^(a)",
            r"^a|b",
            r"^.",
            r"^[^a]",
            r"^[a-]",
            r"^[\d]",
            r"^[]a]",
            r"^[b-a]",
            r"^\w",
            r"^\s",
            r"^a$",
            r"^a{1,2}",
            r"^a{2}?",
            r"^a{2}{2}",
            r"^a{65}",
            r"^a{",
            r"^ä",
            r"^(?:a",
            r"^(?:a)(?:b)",
            r"^(?i)a",
            r"^\b",
            r"^\.",
            r"^a{x}",
            r"^[[:digit:]]",
        ] {
            assert!(ByteSequence::read(pattern).is_none(), "{pattern}");
        }
    }
}
