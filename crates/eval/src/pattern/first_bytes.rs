//! The bytes with which the matches of an expression can begin.

use regex_syntax::hir::{Class, Hir, HirKind};

/// First byte of the characters beyond ASCII: all bytes that begin such a character.
const LEADING_BYTES: std::ops::RangeInclusive<u8> = 0xc2..=0xf4;

/// The bytes with which matches can begin.
#[derive(Clone, Debug)]
pub(super) struct FirstBytes {
    is_first: Box<[bool; 256]>,
    /// The bytes, if there are few.
    few: Vec<u8>,
}

impl FirstBytes {
    /// The first bytes of the expression, whose matches must not be empty.
    pub(super) fn of(tree: &Hir) -> FirstBytes {
        let mut is_first = Box::new([false; 256]);
        add(tree, &mut is_first);
        let few = (0..=u8::MAX).filter(|byte| is_first[usize::from(*byte)]).take(4).collect();
        FirstBytes { is_first, few }
    }

    /// The first position at or after `from` at which a match can begin.
    #[inline]
    pub(super) fn find(&self, text: &[u8], from: usize) -> Option<usize> {
        let rest = text.get(from..)?;
        let found = match *self.few {
            [one] => memchr::memchr(one, rest),
            [one, two] => memchr::memchr2(one, two, rest),
            [one, two, three] => memchr::memchr3(one, two, three, rest),
            _ => rest.iter().position(|byte| self.is_first[usize::from(*byte)]),
        };
        found.map(|at| from + at)
    }
}

/// Adds the first bytes of an expression; returns whether the expression can match the empty text, so that the bytes of
/// the following expression count as well. The recursion is as deep as groups are nested, which the parser limits.
fn add(tree: &Hir, is_first: &mut [bool; 256]) -> bool {
    match tree.kind() {
        HirKind::Empty | HirKind::Look(_) => true,
        HirKind::Literal(literal) => match literal.0.first() {
            Some(byte) => {
                is_first[usize::from(*byte)] = true;
                false
            }
            None => true,
        },
        HirKind::Class(Class::Unicode(class)) => {
            for range in class.ranges() {
                for character in range.start()..=range.end().min('\x7f') {
                    is_first[character as usize] = true;
                }
                if range.end() > '\x7f' {
                    LEADING_BYTES.for_each(|byte| is_first[usize::from(byte)] = true);
                }
            }
            false
        }
        HirKind::Class(Class::Bytes(class)) => {
            let ranges = class.ranges().iter();
            ranges.flat_map(|range| range.start()..=range.end()).for_each(|byte| is_first[usize::from(byte)] = true);
            false
        }
        HirKind::Repetition(repetition) => add(&repetition.sub, is_first) || repetition.min == 0,
        HirKind::Capture(capture) => add(&capture.sub, is_first),
        HirKind::Concat(parts) => parts.iter().all(|part| add(part, is_first)),
        HirKind::Alternation(parts) => {
            // Every part adds its bytes, also after one that may be empty.
            let may_be_empty: Vec<bool> = parts.iter().map(|part| add(part, is_first)).collect();
            may_be_empty.contains(&true)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARTS: &[&str] =
        &["ab", "b+c", "(a b)", "[ab]c", "(?:ca){2}", "a?b", "[^a]b", "é?c", "(?:ab|c)", "(?:a?|b)", r"\bc", "c*", "|"];

    fn first_bytes(pattern: &str) -> FirstBytes {
        FirstBytes::of(&regex_automata::util::syntax::parse(pattern).unwrap())
    }

    #[test]
    fn first_bytes_are_those_of_all_ways_to_match() {
        for (pattern, expected) in [
            ("abc", "a"),
            ("(?i)abc", "Aa"),
            ("[0-9]+", "0123456789"),
            ("x?y*z", "xyz"),
            ("(?:ab|(cd)?e)f", "ace"),
            (r"\bx", "x"),
            (r#""(?<w>[^"]*)""#, "\""),
            ("(?:a|b?)c", "abc"),
        ] {
            let found = first_bytes(pattern);
            let bytes: Vec<u8> = (0..=u8::MAX).filter(|byte| found.is_first[usize::from(*byte)]).collect();
            assert_eq!(bytes, expected.as_bytes(), "{pattern}");
        }
        assert!(first_bytes("[é]").is_first[0xc3] && !first_bytes("[é]").is_first[usize::from(b'e')]);
    }

    proptest! {
        #[test]
        fn each_match_begins_with_a_first_byte(
            parts in prop::collection::vec(prop::sample::select(PARTS), 1..5),
            text in "[abcé ]{0,12}",
        ) {
            let pattern = parts.concat();
            let regex = regex::Regex::new(&pattern).unwrap();
            let first = first_bytes(&pattern);
            for found in regex.find_iter(&text).filter(|found| !found.is_empty()) {
                let start = found.start();
                prop_assert_eq!(first.find(text.as_bytes(), start), Some(start), "{} in {}", pattern, text);
            }
        }
    }
}
