//! Borders of groups: whether breakers surround the text of an expression's group in every match.
//!
//! The search for the group descends from the whole expression and carries the borders around the current part. For a
//! part that may match the empty text, the weaker of its own border and the border beyond it counts. Not here:
//! conclusions about the terms of a search (scan).

use quarry_event::segment::{UNBROKEN_BLANKS, is_breaker};
use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

/// Maximum number of bytes of a literal between a border and a group; with more, the border is unknown.
const AFFIX_BYTES_MAX: usize = 32;

/// Borders of a group's text in every match, as derived from the expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupBorders {
    /// The text consists of whole tokens: breakers, or the ends of the searched text, surround it.
    Whole(BorderBytes),
    /// The text begins at the start of a token, but may end inside one.
    Begin(BorderBytes),
    /// The text together with the literals beside it consists of whole tokens, as with `0x(?<id>[0-9a-f]+)$`.
    Affixed {
        /// Letters and digits before the text.
        prefix: Box<str>,
        /// Letters and digits after the text; `None` if a token may continue after it.
        suffix: Option<Box<str>>,
        /// The bytes that surround prefix, text and suffix.
        bytes: BorderBytes,
    },
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

/// Border at one side of a part; `None` if a token may continue across it in unknown ways.
type Border = Option<KnownBorder>;

/// A border, and the letters and digits between it and the part.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownBorder {
    bytes: BorderBytes,
    affix: String,
}

impl KnownBorder {
    fn of(bytes: BorderBytes) -> KnownBorder {
        KnownBorder { bytes, affix: String::new() }
    }
}

/// The border of a part that may be in either of two surroundings.
fn weaker(one: Border, other: Border) -> Border {
    let (one, other) = (one?, other?);
    (one.affix == other.affix).then(|| KnownBorder { bytes: one.bytes.min(other.bytes), affix: one.affix })
}

pub(super) fn borders_of(pattern: &str, group: usize) -> GroupBorders {
    let Ok(tree) = regex_automata::util::syntax::parse(pattern) else { return GroupBorders::Unknown };
    // The match itself may begin and end anywhere.
    let around = group_borders(&tree, group, Surroundings { before: None, after: None, is_last: true });
    let Some(Surroundings { before: Some(before), after, .. }) = around else { return GroupBorders::Unknown };
    match after {
        Some(after) if before.affix.is_empty() && after.affix.is_empty() => {
            GroupBorders::Whole(before.bytes.min(after.bytes))
        }
        None if before.affix.is_empty() => GroupBorders::Begin(before.bytes),
        after => GroupBorders::Affixed {
            prefix: before.affix.into(),
            bytes: after.as_ref().map_or(before.bytes, |after| after.bytes.min(before.bytes)),
            suffix: after.map(|after| after.affix.into()),
        },
    }
}

/// The borders around a part of the expression.
#[derive(Clone)]
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
            let last = || if around.is_last { border_after_last(&capture.sub).map(KnownBorder::of) } else { None };
            let after = around.after.or_else(last);
            Some(Surroundings { after, ..around })
        }
        HirKind::Capture(capture) => group_borders(&capture.sub, group, around),
        HirKind::Alternation(parts) => parts.iter().find_map(|part| group_borders(part, group, around.clone())),
        HirKind::Concat(parts) => parts.iter().enumerate().find_map(|(at, part)| {
            let before = parts[..at].iter().fold(around.before.clone(), |beyond, part| border(Side::End, part, beyond));
            let after =
                parts[at + 1..].iter().rfold(around.after.clone(), |beyond, part| border(Side::Start, part, beyond));
            let is_last = around.is_last && at + 1 == parts.len();
            group_borders(part, group, Surroundings { before, after, is_last })
        }),
        HirKind::Repetition(Repetition { max: Some(1), sub, .. }) => group_borders(sub, group, around),
        // Another occurrence of the repeated part may precede or follow the group.
        HirKind::Repetition(Repetition { sub, .. }) => {
            let before = weaker(around.before.clone(), border(Side::End, sub, around.before));
            let after = weaker(around.after.clone(), border(Side::Start, sub, around.after));
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
        HirKind::Literal(literal) => border_of_literal(side, &literal.0, beyond),
        // The start of the searched text, or of one of its lines, may precede a group; the end of a text or line may
        // follow it.
        HirKind::Look(look) => match (side, look) {
            (Side::End, Look::Start | Look::StartLF | Look::StartCRLF) => Some(KnownBorder::of(BorderBytes::Breakers)),
            (Side::Start, Look::End | Look::EndLF | Look::EndCRLF) => Some(KnownBorder::of(BorderBytes::Breakers)),
            _ => beyond,
        },
        HirKind::Class(class) => border_of_class(class).map(KnownBorder::of),
        HirKind::Repetition(repetition) => {
            let filled = border_of_repetition(side, repetition, beyond.clone());
            if repetition.min > 0 { filled } else { weaker(filled, beyond) }
        }
        HirKind::Capture(capture) => border(side, &capture.sub, beyond),
        HirKind::Concat(parts) if side == Side::Start => {
            parts.iter().rfold(beyond, |beyond, part| border(side, part, beyond))
        }
        HirKind::Concat(parts) => parts.iter().fold(beyond, |beyond, part| border(side, part, beyond)),
        HirKind::Alternation(parts) => {
            parts.iter().map(|part| border(side, part, beyond.clone())).reduce(weaker).flatten()
        }
    }
}

/// The border of a part that occurs at least once.
fn border_of_repetition(side: Side, repetition: &Repetition, beyond: Border) -> Border {
    if repetition.max == Some(1) {
        return border(side, &repetition.sub, beyond);
    }
    // If one occurrence alone has no border, the border beyond it counts, provided that no letters or digits lie
    // between.
    border(side, &repetition.sub, None).or_else(|| {
        let plain = beyond.filter(|beyond| beyond.affix.is_empty());
        border(side, &repetition.sub, plain).filter(|found| found.affix.is_empty())
    })
}

/// The border of a literal, and the bytes of the literal that are between the border and the group.
fn border_of_literal(side: Side, literal: &[u8], beyond: Border) -> Border {
    let is_border = |byte: &u8| border_of_byte(*byte).is_some();
    let at = match side {
        Side::End => literal.iter().rposition(is_border),
        Side::Start => literal.iter().position(is_border),
    };
    let (outer, own) = match (at, side) {
        (Some(at), Side::End) => (border_of_byte(literal[at]).map(KnownBorder::of), &literal[at + 1..]),
        (Some(at), Side::Start) => (border_of_byte(literal[at]).map(KnownBorder::of), &literal[..at]),
        (None, _) => (beyond, literal),
    };
    let KnownBorder { bytes, affix } = outer?;
    let own = std::str::from_utf8(own).ok().filter(|own| own.bytes().all(|byte| byte.is_ascii_alphanumeric()))?;
    let affix = if side == Side::End { affix + own } else { own.to_owned() + &affix };
    (affix.len() <= AFFIX_BYTES_MAX).then_some(KnownBorder { bytes, affix })
}

/// The border that a class forms, any character of which may stand beside a group.
fn border_of_class(class: &Class) -> Option<BorderBytes> {
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
fn border_after_last(part: &Hir) -> Option<BorderBytes> {
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

/// The border that a byte forms, whatever is next to it. A percent sign is no border, because it may begin a longer
/// breaker (`%20`).
fn border_of_byte(byte: u8) -> Option<BorderBytes> {
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
        use super::GroupBorders::{Affixed, Begin, Unknown, Whole};
        let affixed = |prefix: &str, suffix: Option<&str>| Affixed {
            prefix: prefix.into(),
            suffix: suffix.map(Into::into),
            bytes: Breakers,
        };
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
            // Literals beside the group are a part of its tokens.
            (r" conn 0x(?<x>[0-9a-f]+)$", affixed("0x", Some(""))),
            (r" took (?<x>\d+)ms\b", Begin(Breakers)),
            (r" took (?<x>\d+)ms,", affixed("", Some("ms"))),
            (r"id=a(?:b)c(?<x>\d+)", affixed("abc", None)),
            (r"id=a(?:b)?(?<x>\d+)", Unknown),
            (r"id=(?:ab)+(?<x>\d+)", Unknown),
            (r"id(?:=ab)+(?<x>\d+);", affixed("ab", Some(""))),
            (r"(?:=a|:a)(?<x>\d+);", affixed("a", Some(""))),
            (r"(?:=a|:b)(?<x>\d+);", Unknown),
            (r"=a(?:(?<x>\d+)a)+;", Unknown),
            (r"=%2(?<x>\d+);", Unknown),
            (r"=é(?<x>\d+);", Unknown),
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
            // Optional parts: the weaker of the part's border and the border of the part after it.
            (r" (?<x>\S+)(?::(?<port>\d+))? -> ", Whole(Breakers)),
            (r" (?<a>\S+)(?::(?<x>\d+))? -> ", Whole(Breakers)),
            (r" (?<a>\S+)(?::(?<x>\d+))?$", Whole(Breakers)),
            (r" (?<x>\S+)(?:port)? -> ", Begin(Breakers)),
            (r" (?:port)?(?<x>\S+) ", Unknown),
            (r"(?:(?<x>\d+),)+", Unknown),
            (r"=(?:(?<x>\d+),)+", Whole(Breakers)),
            (r"=(?:,(?<x>\d+))+;", Whole(Breakers)),
            (r"=(?:(?<x>\d+)a,)+", affixed("", Some("a"))),
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
                    GroupBorders::Affixed { prefix, suffix, bytes } => {
                        (format!("{prefix}{found}{}", suffix.as_deref().unwrap_or("*")), bytes)
                    }
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
                let (found, is_open) = (word.trim_end_matches('*'), word.ends_with('*'));
                let (of_text, mut of_value) = (tokens(&text), tokens(found));
                if is_open
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
