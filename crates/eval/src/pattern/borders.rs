//! Borders of groups: whether breakers surround the text of an expression's group in every match.
//!
//! The search for the group descends from the whole expression and carries the borders around the current part. A part
//! that may match nothing counts as the weaker of its own border and the one beyond it. Not here: conclusions about the
//! terms of a search (scan).

use quarry_event::segment::{UNBROKEN_BLANKS, is_breaker};
use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

/// Borders of a group's text in every match, as derived from the expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBorders {
    /// The text consists of whole tokens: breakers, or the ends of the searched text, surround it.
    Whole(BorderBytes),
    /// The text begins at the start of a token, but may end inside one.
    Begin(BorderBytes),
    /// Nothing is known.
    Unknown,
}

/// The bytes that surround a group's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BorderBytes {
    /// Whitespace (`\s`) or breakers: in an event with [`UNBROKEN_BLANKS`], the text may still be part of a token.
    Whitespace,
    /// Breakers only.
    Breakers,
}

/// Border at one side of a part; `None` if a token may continue across it.
type Border = Option<BorderBytes>;

/// The borders of a group.
pub(super) fn borders_of(pattern: &str, group: usize) -> GroupBorders {
    let Ok(tree) = regex_automata::util::syntax::parse(pattern) else { return GroupBorders::Unknown };
    // The match itself may begin and end anywhere.
    match group_borders(&tree, group, Surroundings { before: None, after: None, is_last: true }) {
        Some(Surroundings { before: Some(before), after: Some(after), .. }) => GroupBorders::Whole(before.min(after)),
        Some(Surroundings { before: Some(before), after: None, .. }) => GroupBorders::Begin(before),
        _ => GroupBorders::Unknown,
    }
}

/// The borders around a part of the expression.
#[derive(Clone, Copy)]
struct Surroundings {
    before: Border,
    after: Border,
    /// Whether the match ends with this part.
    is_last: bool,
}

/// The borders of the group within `tree`; `None` if the group is not in it.
fn group_borders(tree: &Hir, group: usize, around: Surroundings) -> Option<Surroundings> {
    match tree.kind() {
        HirKind::Capture(capture) if capture.index as usize == group => {
            let after = around.after.or(if around.is_last { border_after_last(&capture.sub) } else { None });
            Some(Surroundings { after, ..around })
        }
        HirKind::Capture(capture) => group_borders(&capture.sub, group, around),
        HirKind::Alternation(parts) => parts.iter().find_map(|part| group_borders(part, group, around)),
        HirKind::Concat(parts) => parts.iter().enumerate().find_map(|(at, part)| {
            let before = parts[..at].iter().fold(around.before, |beyond, part| border(Side::End, part, beyond));
            let after = parts[at + 1..].iter().rfold(around.after, |beyond, part| border(Side::Start, part, beyond));
            let is_last = around.is_last && at + 1 == parts.len();
            group_borders(part, group, Surroundings { before, after, is_last })
        }),
        HirKind::Repetition(Repetition { max: Some(1), sub, .. }) => group_borders(sub, group, around),
        // The part before or after the group may be another repetition.
        HirKind::Repetition(Repetition { sub, .. }) => {
            let before = around.before.min(border(Side::End, sub, around.before));
            let after = around.after.min(border(Side::Start, sub, around.after));
            group_borders(sub, group, Surroundings { before, after, is_last: false })
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Start,
    End,
}

/// The border at this side of a part; `beyond` is the border beyond the part, which counts if the part is empty.
fn border(side: Side, part: &Hir, beyond: Border) -> Border {
    match part.kind() {
        HirKind::Empty => beyond,
        HirKind::Literal(literal) => {
            let byte = if side == Side::Start { literal.0.first() } else { literal.0.last() };
            border_of_byte(*byte?)
        }
        // The start of the searched text, or of one of its lines, may precede a group, an end may follow one.
        HirKind::Look(look) => match (side, look) {
            (Side::End, Look::Start | Look::StartLF | Look::StartCRLF) => Some(BorderBytes::Breakers),
            (Side::Start, Look::End | Look::EndLF | Look::EndCRLF) => Some(BorderBytes::Breakers),
            _ => beyond,
        },
        HirKind::Class(class) => border_of_class(class),
        HirKind::Repetition(repetition) => {
            let filled = border(side, &repetition.sub, beyond);
            if repetition.min > 0 { filled } else { filled.min(beyond) }
        }
        HirKind::Capture(capture) => border(side, &capture.sub, beyond),
        HirKind::Concat(parts) if side == Side::Start => {
            parts.iter().rfold(beyond, |beyond, part| border(side, part, beyond))
        }
        HirKind::Concat(parts) => parts.iter().fold(beyond, |beyond, part| border(side, part, beyond)),
        HirKind::Alternation(parts) => parts.iter().map(|part| border(side, part, beyond)).min().flatten(),
    }
}

/// The border of bytes of which any may stand beside a group.
fn border_of_class(class: &Class) -> Border {
    let of_range = |start: u8, end: u8| (start..=end).map(border_of_byte).min().flatten();
    let of_ranges = match class {
        Class::Bytes(class) => class.ranges().iter().map(|range| of_range(range.start(), range.end())).min(),
        Class::Unicode(class) => {
            let ends = |range: &regex_syntax::hir::ClassUnicodeRange| {
                Some((u8::try_from(range.start()).ok()?, u8::try_from(range.end()).ok()?))
            };
            class.ranges().iter().map(|range| ends(range).and_then(|(start, end)| of_range(start, end))).min()
        }
    };
    of_ranges.flatten()
}

/// The border after the last part of a match. A greedy repetition of a class, such as `\S+`, ends at the end of the
/// searched text or before a character that is not in the class.
fn border_after_last(part: &Hir) -> Border {
    match part.kind() {
        HirKind::Repetition(Repetition { max: None, greedy: true, sub, .. }) => match sub.kind() {
            HirKind::Class(Class::Unicode(class)) => {
                let mut others = class.clone();
                others.negate();
                border_of_class(&Class::Unicode(others))
            }
            _ => None,
        },
        HirKind::Capture(capture) => border_after_last(&capture.sub),
        HirKind::Concat(parts) => border_after_last(parts.last()?),
        _ => None,
    }
}

/// The border that a byte forms, whatever is next to it. A percent sign is none, because it may begin a longer breaker
/// (`%20`).
fn border_of_byte(byte: u8) -> Border {
    if byte.is_ascii() && byte != b'%' && is_breaker(byte) {
        Some(BorderBytes::Breakers)
    } else if UNBROKEN_BLANKS.contains(&byte) {
        Some(BorderBytes::Whitespace)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{BorderBytes, GroupBorders, UNBROKEN_BLANKS};
    use crate::pattern::Regex;

    #[test]
    fn breakers_around_a_group_are_borders() {
        use super::BorderBytes::{Breakers, Whitespace};
        use super::GroupBorders::{Begin, Unknown, Whole};
        for (pattern, expected) in [
            (r"ticket (?<x>[0-9a-f]{10})", Begin(Breakers)),
            (r"ticket=(?<x>\w+)", Begin(Breakers)),
            (r"^(?<x>\w+)", Begin(Breakers)),
            (r"\[\s*\[(?<x>\w+)", Begin(Breakers)),
            (r"a[ \t]+(?<x>\w+)", Begin(Breakers)),
            // Vertical tabs and form feeds are whitespace but not breakers.
            (r"a\s+(?<x>\w+)", Begin(Whitespace)),
            (r"a\s+(?<x>\w+),", Whole(Whitespace)),
            (r"=(?<x>\w+)\s", Whole(Whitespace)),
            (r"=(?<x>\w+)[\s,]*=", Whole(Whitespace)),
            (r"a[ ,]{2}(?<x>\w+)", Begin(Breakers)),
            (r"a\s*(?<x>\w+)", Unknown),
            (r"=\s*(?<x>\w+)", Begin(Whitespace)),
            (r"ticket(?<x>\w+)", Unknown),
            (r"a%(?<x>\w+)", Unknown),
            (r"(?:a |b)(?<x>\w+)", Unknown),
            (r"(?:a |b=)(?<x>\w+)", Begin(Breakers)),
            (r"(a=)(?<x>\w+)", Begin(Breakers)),
            (r"(?<x>\w+) ", Unknown),
            (r"[^a](?<x>\w+)", Unknown),
            (r"(?m)^(?<x>\w+)", Begin(Breakers)),
            (r"=\b(?<x>\w+)", Begin(Breakers)),
            (r"(?<x>\w+)(?=b)", Unknown),
            (r"<Level>(?<x>\d+)</Level>", Whole(Breakers)),
            (r"^(?<x>\w+)$", Whole(Breakers)),
            (r#"Name=['"](?<x>[^'"]*)['"]"#, Whole(Breakers)),
            (r"user=(?<x>\w+)(?:,|;)", Whole(Breakers)),
            (r"user=(?<x>\w+)(?:,|$)", Whole(Breakers)),
            (r"user=(?<x>\w+),?", Begin(Breakers)),
            (r"user=(?<x>\w+)%", Begin(Breakers)),
            (r"user=(?<x>\w+)(?m)$", Whole(Breakers)),
            // Optional parts: the weaker of the part's border and that of what follows it.
            (r" (?<x>\S+)(?::(?<port>\d+))? -> ", Whole(Breakers)),
            (r" (?<a>\S+)(?::(?<x>\d+))? -> ", Whole(Breakers)),
            (r" (?<a>\S+)(?::(?<x>\d+))?$", Whole(Breakers)),
            (r" (?<x>\S+)(?:port)? -> ", Begin(Breakers)),
            (r" (?:port)?(?<x>\S+) ", Unknown),
            (r"(?:(?<x>\d+),)+", Unknown),
            (r"=(?:(?<x>\d+),)+", Whole(Breakers)),
            (r"=(?:,(?<x>\d+))+;", Whole(Breakers)),
            (r"=(?:(?<x>\d+)a,)+", Begin(Breakers)),
            (r"(?:a=(?<x>\d+)|b) ", Whole(Breakers)),
            (r"(?:a(?<x>\d+)|b) ", Unknown),
            // The last group takes all that its class allows.
            (r"user=(?<x>\S+)", Whole(Whitespace)),
            (r#"user="(?<x>[^"]+)"#, Whole(Breakers)),
            (r"(?:user|name)=(?<x>.*)", Whole(Breakers)),
            (r"user=(?<x>\S+?)", Begin(Breakers)),
            (r"user=(?<x>\S{1,3})", Begin(Breakers)),
            (r"user=(?<x>\S+)b?", Begin(Breakers)),
            (r"user=(?<x>a\S*)", Whole(Whitespace)),
            (r"user(?:=(?<x>\S+))+", Begin(Breakers)),
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
            before in r"(\^|a|b |=|\[ =\]|\\s\+|\\s\*|\[ b\]|%|\(\?:=\|a \)|\(\?:b=\)\?|\(\?m:\^\)){0,3}",
            inside in r"\[ab0-9%\]\+|\[\^=\]\+|a\?\\S\*",
            after in r"(\$|a|b |=|\[ =\]|\\s\+|\[ b\]|%|\(\?:=\|\$\)|\(\?:=b\)\?){0,2}",
            around in r"|\?|\+",
            text in "[ab =%20\n\x0b]{0,12}",
        ) {
            use quarry_event::segment::{WordBound, WordPattern};
            let pattern = match around.as_str() {
                "" => format!("{before}(?<x>{inside}){after}"),
                times => format!("(?:{before}(?<x>{inside})){times}{after}"),
            };
            let Ok(regex) = Regex::new(&pattern) else { return Ok(()) };
            let mut captures = regex.new_captures();
            if regex.captures_into(&text, &mut captures) && let Some(found) = captures.text(&text, 1) {
                let (word, bytes) = match regex.borders_of(1) {
                    GroupBorders::Whole(bytes) => (found.to_owned(), bytes),
                    GroupBorders::Begin(bytes) => (format!("{found}*"), bytes),
                    GroupBorders::Unknown => return Ok(()),
                };
                if bytes == BorderBytes::Whitespace && text.contains(UNBROKEN_BLANKS.map(char::from)) {
                    return Ok(());
                }
                let is_found = WordPattern::new(&word, WordBound::Breaker, false).is_match(text.as_bytes());
                prop_assert!(is_found, "{regex:?} in {text:?}");
                let tokens = |text: &str| {
                    let mut all = Vec::new();
                    quarry_event::segment::for_each_token(text.as_bytes(), |token| all.push(token.to_vec()));
                    all
                };
                let (of_text, mut of_value) = (tokens(&text), tokens(found));
                if matches!(regex.borders_of(1), GroupBorders::Begin(_))
                    && !found.ends_with('%')
                    && let Some(last) = of_value.pop()
                    // The digits may be part of a breaker (`%20`), so the query does not contain them.
                    && !found.as_bytes().ends_with(&[b"%", last.as_slice()].concat())
                {
                    prop_assert!(of_text.iter().any(|token| token.starts_with(&last)), "{regex:?} in {text:?}");
                }
                prop_assert!(of_value.iter().all(|token| of_text.contains(token)), "{regex:?} in {text:?}");
            }
        }
    }
}
