//! Borders of groups: whether breakers surround the text of an expression's group in every match.
//!
//! Not here: conclusions about the terms of a search (scan).

use quarry_event::segment::is_breaker;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// Borders of a group's text in every match, as derived from the expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBorders {
    /// The text consists of whole tokens: breakers, or the ends of the searched text, surround it.
    Whole,
    /// The text begins at the start of a token, but may end inside one.
    Begin,
    /// Nothing is known.
    Unknown,
}

/// The borders of a group.
pub(super) fn borders_of(pattern: &str, group: usize) -> GroupBorders {
    let Ok(tree) = regex_automata::util::syntax::parse(pattern) else { return GroupBorders::Unknown };
    let HirKind::Concat(parts) = tree.kind() else { return GroupBorders::Unknown };
    let is_group = |part: &Hir| matches!(part.kind(), HirKind::Capture(capture) if capture.index as usize == group);
    let Some(at) = parts.iter().position(is_group) else { return GroupBorders::Unknown };
    let begins = at.checked_sub(1).is_some_and(|before| is_breaker_at(Side::End, &parts[before]));
    let ends = parts.get(at + 1).is_some_and(|after| is_breaker_at(Side::Start, after));
    match (begins, ends) {
        (true, true) => GroupBorders::Whole,
        (true, false) => GroupBorders::Begin,
        (false, _) => GroupBorders::Unknown,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Start,
    End,
}

/// Whether each text that this part matches has a breaker at this side, or the searched text itself ends there.
fn is_breaker_at(side: Side, part: &Hir) -> bool {
    match part.kind() {
        HirKind::Literal(literal) => {
            let byte = if side == Side::Start { literal.0.first() } else { literal.0.last() };
            byte.is_some_and(|byte| is_single_breaker(*byte))
        }
        // The start of the searched text may precede a group, its end may follow one.
        HirKind::Look(look) => *look == if side == Side::End { Look::Start } else { Look::End },
        HirKind::Class(Class::Bytes(class)) => {
            class.ranges().iter().all(|range| are_breakers(range.start(), range.end()))
        }
        HirKind::Class(Class::Unicode(class)) => class.ranges().iter().all(|range| {
            let ends = (u8::try_from(range.start()), u8::try_from(range.end()));
            matches!(ends, (Ok(start), Ok(end)) if are_breakers(start, end))
        }),
        HirKind::Repetition(repetition) => repetition.min > 0 && is_breaker_at(side, &repetition.sub),
        HirKind::Capture(capture) => is_breaker_at(side, &capture.sub),
        HirKind::Concat(parts) => {
            let outer = if side == Side::Start { parts.first() } else { parts.last() };
            outer.is_some_and(|part| is_breaker_at(side, part))
        }
        HirKind::Alternation(parts) => parts.iter().all(|part| is_breaker_at(side, part)),
        HirKind::Empty => false,
    }
}

fn are_breakers(start: u8, end: u8) -> bool {
    (start..=end).all(is_single_breaker)
}

/// Whether the byte is a breaker whatever follows it. A percent sign is not counted, because it may begin a longer
/// breaker (`%20`).
fn is_single_breaker(byte: u8) -> bool {
    byte.is_ascii() && byte != b'%' && is_breaker(byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::GroupBorders;
    use crate::pattern::Regex;

    #[test]
    fn breakers_around_a_group_are_borders() {
        use super::GroupBorders::{Begin, Unknown, Whole};
        for (pattern, expected) in [
            (r"ticket (?<x>[0-9a-f]{10})", Begin),
            (r"ticket=(?<x>\w+)", Begin),
            (r"^(?<x>\w+)", Begin),
            (r"\[\s*\[(?<x>\w+)", Begin),
            (r"a[ \t]+(?<x>\w+)", Begin),
            // Vertical tabs and form feeds are whitespace but not breakers.
            (r"a\s+(?<x>\w+)", Unknown),
            (r"a[ ,]{2}(?<x>\w+)", Begin),
            (r"a\s*(?<x>\w+)", Unknown),
            (r"ticket(?<x>\w+)", Unknown),
            (r"a%(?<x>\w+)", Unknown),
            (r"(?:a |b)(?<x>\w+)", Unknown),
            (r"(?:a |b=)(?<x>\w+)", Begin),
            (r"(a=)(?<x>\w+)", Begin),
            (r"(?<x>\w+) ", Unknown),
            (r"[^a](?<x>\w+)", Unknown),
            (r"(?m)^(?<x>\w+)", Unknown),
            (r"(?<x>\w+)(?=b)", Unknown),
            (r"<Level>(?<x>\d+)</Level>", Whole),
            (r"^(?<x>\w+)$", Whole),
            (r#"Name=['"](?<x>[^'"]*)['"]"#, Whole),
            (r"user=(?<x>\w+)(?:,|;)", Whole),
            (r"user=(?<x>\w+)(?:,|$)", Whole),
            (r"user=(?<x>\w+),?", Begin),
            (r"user=(?<x>\w+)%", Begin),
            (r"user=(?<x>\w+)(?m)$", Begin),
        ] {
            let regex = Regex::new(pattern).unwrap();
            let group = regex.group_names().iter().position(|name| name.as_deref() == Some("x"));
            assert_eq!(regex.borders_of(group.unwrap()), expected, "{pattern}");
        }
    }

    proptest! {
        /// If the borders are known, a keyword search for the group's text, or for a word that begins with it, finds
        /// the event.
        #[test]
        fn tokens_follow_from_group_borders(
            before in r"(\^|a|b |=|\[ =\]|\\s\+|\\s\*|\[ b\]|%|\(\?:=\|a \)){0,3}",
            after in r"(\$|a|b |=|\[ =\]|\\s\+|\[ b\]|%|\(\?:=\|\$\)){0,2}",
            text in "[ab =%20]{0,12}",
        ) {
            use quarry_event::segment::{WordBound, WordPattern};
            let Ok(regex) = Regex::new(&format!("{before}(?<x>[ab0-9%]+){after}")) else { return Ok(()) };
            let mut captures = regex.new_captures();
            if regex.captures_into(&text, &mut captures) {
                let found = captures.text(&text, 1).unwrap();
                let word = match regex.borders_of(1) {
                    GroupBorders::Whole => found.to_owned(),
                    GroupBorders::Begin => format!("{found}*"),
                    GroupBorders::Unknown => return Ok(()),
                };
                let is_found = WordPattern::new(&word, WordBound::Breaker, false).is_match(text.as_bytes());
                prop_assert!(is_found, "{regex:?} in {text:?}");
                let tokens = |text: &str| {
                    let mut all = Vec::new();
                    quarry_event::segment::for_each_token(text.as_bytes(), |token| all.push(token.to_vec()));
                    all
                };
                let (of_text, mut of_value) = (tokens(&text), tokens(found));
                if regex.borders_of(1) == GroupBorders::Begin
                    && !found.ends_with('%')
                    && let Some(last) = of_value.pop()
                {
                    prop_assert!(of_text.iter().any(|token| token.starts_with(&last)), "{regex:?} in {text:?}");
                }
                prop_assert!(of_value.iter().all(|token| of_text.contains(token)), "{regex:?} in {text:?}");
            }
        }
    }
}
