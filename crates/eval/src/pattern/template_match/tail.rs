//! Tail elimination: simplifies the part of an expression after the last requested group if the part serves only to
//! test whether there is a match.
//!
//! A repetition at the end is repeated only as often as necessary: `(?<file>\S+)\] (?<message>.+)` finds the same
//! files as `(?<file>\S+)\] .`, so that the remaining message need not be read if only the file is requested. This
//! is exact: the path up to the repetition depends on whether the repetition matches, not on the length of the match.
//! In texts of one line, `(?<message>.*)$` always matches.

use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

/// The expression without parts that cannot affect these groups; with `is_one_line`, no text contains a line feed. If
/// the whole match (group 0) is requested, every part matters.
pub(super) fn without_tail(tree: Hir, wanted: &[usize], is_one_line: bool) -> Hir {
    if wanted.contains(&0) { tree } else { strip_tail(tree, wanted, is_one_line) }
}

fn strip_tail(tree: Hir, wanted: &[usize], is_one_line: bool) -> Hir {
    match tree.into_kind() {
        HirKind::Concat(mut parts) => {
            while let Some(last) = parts.pop() {
                let is_end = matches!(last.kind(), HirKind::Look(Look::End));
                if is_one_line && is_end && parts.last().is_some_and(|before| reaches_line_end(before, wanted)) {
                    continue;
                }
                let last = strip_tail(last, wanted, is_one_line);
                if !matches!(last.kind(), HirKind::Empty) {
                    parts.push(last);
                    break;
                }
            }
            Hir::concat(parts)
        }
        HirKind::Capture(mut capture) => {
            if wanted.contains(&(capture.index as usize)) {
                return Hir::capture(capture);
            }
            let sub = strip_tail(*capture.sub, wanted, is_one_line);
            if !contains_group(&sub, wanted) {
                return sub;
            }
            capture.sub = Box::new(sub);
            Hir::capture(capture)
        }
        HirKind::Repetition(repetition) if !contains_group(&repetition.sub, wanted) => match repetition.min {
            0 => Hir::empty(),
            1 => strip_tail(*repetition.sub, wanted, is_one_line),
            min => Hir::repetition(Repetition { max: Some(min), ..repetition }),
        },
        kind => unchanged(kind),
    }
}

/// Whether the expression is an unlimited repetition of all characters of a line, outside the requested groups. If such
/// an expression matches, it matches up to the end of the line.
fn reaches_line_end(tree: &Hir, wanted: &[usize]) -> bool {
    match tree.kind() {
        HirKind::Capture(capture) => {
            !wanted.contains(&(capture.index as usize)) && reaches_line_end(&capture.sub, wanted)
        }
        HirKind::Repetition(Repetition { max: None, sub, .. }) => match sub.kind() {
            HirKind::Class(Class::Unicode(class)) => {
                let is_in = |first: char, last: char| {
                    class.ranges().iter().any(|range| range.start() <= first && range.end() >= last)
                };
                is_in('\0', '\u{9}') && is_in('\u{b}', '\u{d7ff}') && is_in('\u{e000}', char::MAX)
            }
            _ => false,
        },
        _ => false,
    }
}

/// The expression unchanged.
fn unchanged(kind: HirKind) -> Hir {
    match kind {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(class) => Hir::class(class),
        HirKind::Look(look) => Hir::look(look),
        HirKind::Repetition(repetition) => Hir::repetition(repetition),
        HirKind::Capture(capture) => Hir::capture(capture),
        HirKind::Concat(parts) => Hir::concat(parts),
        HirKind::Alternation(ways) => Hir::alternation(ways),
    }
}

fn contains_group(tree: &Hir, wanted: &[usize]) -> bool {
    match tree.kind() {
        HirKind::Capture(capture) => wanted.contains(&(capture.index as usize)) || contains_group(&capture.sub, wanted),
        HirKind::Repetition(repetition) => contains_group(&repetition.sub, wanted),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(|part| contains_group(part, wanted)),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_after_the_last_group_is_read_only_if_it_affects_the_match() {
        let cases = [
            (r"a(b+) (c+)", &[1][..], r"a(b+) c"),
            (r"a(b+) (c+)", &[2], r"a(b+) (c+)"),
            (r"a(b+) (c+)", &[0], r"a(b+) (c+)"),
            (r"a(b+)(?: c*)?d*", &[1], r"a(b+)"),
            (r"a(b+) (?:x(?:y+z*)+)", &[1], r"a(b+) xy"),
            (r"a(b+) x{2,5}?", &[1], r"a(b+) x{2}?"),
            (r"a(b+) .*$", &[1], r"a(b+) .*$"),
            (r"a(?:(b)|c+)", &[1], r"a(?:(b)|c+)"),
            (r"a(?: (b))?", &[1], r"a(?: (b))?"),
            (r"ab+", &[], r"ab"),
        ];
        for (pattern, wanted, expected) in cases {
            let parsed = |pattern| regex_automata::util::syntax::parse(pattern).unwrap();
            let found = without_tail(parsed(pattern), wanted, false);
            assert_eq!(
                found.to_string().replace("(?:", "("),
                parsed(expected).to_string().replace("(?:", "("),
                "{pattern}"
            );
        }
    }

    #[test]
    fn the_rest_of_a_line_always_matches() {
        let cases = [
            (r"a(b+) .*$", &[1][..], r"a(b+) "),
            (r"a(b+) (.*)$", &[1], r"a(b+) "),
            (r"a(b+) (.*?)$", &[2], r"a(b+) (.*?)$"),
            (r"a(b+) (.+)$", &[1], r"a(b+) ."),
            (r"a(b+) (?s:.){2,}$", &[1], r"a(b+) (?s:.){2}"),
            (r"a(b+) .{0,9}$", &[1], r"a(b+) .{0,9}$"),
            (r"a(b+) \S*$", &[1], r"a(b+) \S*$"),
            (r"(?m)a(b+) .*$", &[1], r"(?m)a(b+) .*$"),
        ];
        for (pattern, wanted, expected) in cases {
            let parsed = |pattern| regex_automata::util::syntax::parse(pattern).unwrap();
            let found = without_tail(parsed(pattern), wanted, true);
            let shown = |tree: Hir| tree.to_string().replace("(?:", "(");
            assert_eq!(shown(found), shown(parsed(expected)), "{pattern}");
        }
    }
}
