//! Borders of groups: whether a breaker precedes a group of an expression in every match.
//!
//! Not here: what follows from it for the terms of a search (scan).

use quarry_event::segment::is_breaker;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// Whether the group begins a token in every match: a breaker or nothing at all precedes it. False if that is not known.
pub(super) fn begins_token(pattern: &str, group: usize) -> bool {
    let Ok(tree) = regex_automata::util::syntax::parse(pattern) else { return false };
    let parts = match tree.kind() {
        HirKind::Concat(parts) => parts.as_slice(),
        _ => return false,
    };
    let is_group = |part: &Hir| matches!(part.kind(), HirKind::Capture(capture) if capture.index as usize == group);
    let before = parts.iter().position(is_group).and_then(|at| at.checked_sub(1));
    before.is_some_and(|before| ends_with_breaker(&parts[before]))
}

/// Whether each text of this part ends with a breaker, or the part is the start of the text.
fn ends_with_breaker(part: &Hir) -> bool {
    match part.kind() {
        HirKind::Literal(literal) => literal.0.last().is_some_and(|byte| is_single_breaker(*byte)),
        HirKind::Look(look) => *look == Look::Start,
        HirKind::Class(Class::Bytes(class)) => {
            class.ranges().iter().all(|range| are_breakers(range.start(), range.end()))
        }
        HirKind::Class(Class::Unicode(class)) => class.ranges().iter().all(|range| {
            let ends = (u8::try_from(range.start()), u8::try_from(range.end()));
            matches!(ends, (Ok(start), Ok(end)) if are_breakers(start, end))
        }),
        HirKind::Repetition(repetition) => repetition.min > 0 && ends_with_breaker(&repetition.sub),
        HirKind::Concat(parts) => parts.last().is_some_and(ends_with_breaker),
        HirKind::Empty | HirKind::Capture(_) | HirKind::Alternation(_) => false,
    }
}

fn are_breakers(start: u8, end: u8) -> bool {
    (start..=end).all(is_single_breaker)
}

/// Whether the byte is a breaker whatever follows it. A percent sign may begin a longer one, `%20`, and is not counted.
fn is_single_breaker(byte: u8) -> bool {
    byte.is_ascii() && byte != b'%' && is_breaker(byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::pattern::Regex;

    #[test]
    fn a_group_begins_a_token_after_a_breaker() {
        for (pattern, expected) in [
            (r"ticket (?<x>[0-9a-f]{10})", true),
            (r"ticket=(?<x>\w+)", true),
            (r"^(?<x>\w+)", true),
            (r"\[\s*\[(?<x>\w+)", true),
            (r"a[ \t]+(?<x>\w+)", true),
            // Of blanks, only those of ASCII are breakers.
            (r"a\s+(?<x>\w+)", false),
            (r"a[ ,]{2}(?<x>\w+)", true),
            (r"a\s*(?<x>\w+)", false),
            (r"ticket(?<x>\w+)", false),
            (r"a%(?<x>\w+)", false),
            (r"(?:a |b)(?<x>\w+)", false),
            (r"(?<x>\w+) ", false),
            (r"[^a](?<x>\w+)", false),
            (r"(?m)^(?<x>\w+)", false),
            (r"(?<x>\w+)(?=b)", false),
        ] {
            assert_eq!(Regex::new(pattern).unwrap().begins_token(1), expected, "{pattern}");
        }
    }

    proptest! {
        /// A keyword search for the beginning of a group's text finds the text if the group begins a token.
        #[test]
        fn a_token_begins_where_the_group_does(
            pattern in r"(\^|a|b |=|\[ =\]|\\s\+|\\s\*|\[ b\]|%){0,3}",
            text in "[ab =%20]{0,12}",
        ) {
            use quarry_event::segment::{WordBound, WordPattern};
            let Ok(regex) = Regex::new(&format!("{pattern}(?<x>[ab0-9]+)")) else { return Ok(()) };
            let mut captures = regex.new_captures();
            if regex.begins_token(1) && regex.captures_into(&text, &mut captures) {
                let found = captures.text(&text, 1).unwrap();
                let word = WordPattern::new(&format!("{found}*"), WordBound::Breaker, false);
                prop_assert!(word.is_match(text.as_bytes()), "{pattern} in {text:?}");
            }
        }
    }
}
