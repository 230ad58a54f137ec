//! Literals that every match of an expression contains.
//!
//! Not here: searching for the literals in texts (scan).

use regex_syntax::hir::{Hir, HirKind};

/// Shortest literal worth searching for, in bytes, unless it is a punctuation mark.
const BYTES_MIN: usize = 2;
/// Maximum number of literals; the longest are kept.
const LITERALS_MAX: usize = 3;

/// Literals that every match of the pattern contains, longest first.
pub(super) fn required(pattern: &str) -> Vec<Box<[u8]>> {
    let Ok(tree) = regex_automata::util::syntax::parse(pattern) else { return Vec::new() };
    let mut literals = Literals::default();
    literals.add(&tree);
    literals.close();
    let mut found = literals.found;
    found.sort_by_key(|literal| std::cmp::Reverse(literal.len()));
    found.dedup();
    found.truncate(LITERALS_MAX);
    found
}

/// The literals found so far, and the current run of literal bytes.
#[derive(Default)]
struct Literals {
    run: Vec<u8>,
    found: Vec<Box<[u8]>>,
}

impl Literals {
    fn add(&mut self, tree: &Hir) {
        match tree.kind() {
            HirKind::Literal(literal) => self.run.extend_from_slice(&literal.0),
            HirKind::Concat(parts) => parts.iter().for_each(|part| self.add(part)),
            HirKind::Capture(capture) => self.add(&capture.sub),
            // The part matches no bytes, so the literals before and after it are adjacent.
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Repetition(repetition) => {
                self.close();
                if repetition.min > 0 {
                    self.add(&repetition.sub);
                    self.close();
                }
            }
            HirKind::Class(_) | HirKind::Alternation(_) => self.close(),
        }
    }

    fn close(&mut self) {
        let run = std::mem::take(&mut self.run);
        if run.len() >= BYTES_MIN || run.first().is_some_and(u8::is_ascii_punctuation) {
            self.found.push(run.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pattern::Regex;

    #[test]
    fn literals_are_those_of_every_match() {
        for (pattern, expected) in [
            (r"ticket (?<id>[0-9a-f]{10})", vec!["ticket "]),
            (r"in (?<place>[a-z]+)\. ", vec!["in ", ". "]),
            (r"a(bc)\bd", vec!["abcd"]),
            (r"(?:abc)+x?(?:de)*fg", vec!["abc", "fg"]),
            ("(?:ab|cd)ef", vec!["ef"]),
            ("(?i)user", vec![]),
            (r"\d+", vec![]),
            (r"(?<last>\w+)\?$", vec!["?"]),
            (r"(\w)x(\w) \d", vec![]),
        ] {
            let found = required(pattern);
            let found: Vec<&str> = found.iter().map(|literal| std::str::from_utf8(literal).unwrap()).collect();
            assert_eq!(found, expected, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn a_match_contains_each_literal(
            pattern in r"(ab|b+c|(a b)|[ab]c|(?:ca)\{2\}|a\?b|\^a|b\$|(?:ab\|ca)|\\bc){1,4}",
            text in "[abc ]{0,12}",
        ) {
            let regex = Regex::new(&pattern).unwrap();
            if regex.is_match(&text) {
                for literal in regex.required_literals() {
                    prop_assert!(text.contains(std::str::from_utf8(&literal).unwrap()), "{pattern} in {text:?}");
                }
            }
        }
    }
}
