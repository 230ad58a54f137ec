//! Prefix search: fast search for expressions whose matches all begin with one of a few literals, such as `ticket
//! (?<id>[0-9a-f]+)`.
//!
//! The literal is searched for; at each occurrence, a one-pass automaton determines whether a match begins there, and
//! where its groups are. The linear engine would scan the match three times: for its end, its start and its groups.
//! The first occurrence at which a match begins is the start of the leftmost match, so both engines have the same
//! result.
//!
//! Not here: expressions that are not one-pass, or that do not begin with a literal.

use regex_automata::util::prefilter::Prefilter;
use regex_automata::{MatchKind, Span};
use regex_syntax::hir::Hir;
use regex_syntax::hir::literal::Extractor;

use super::one_pass::{OnePass, OnePassMatch};

/// Minimum length of the shortest literal, in bytes. Shorter literals occur so often that attempts are not worthwhile.
const LITERAL_BYTES_MIN: usize = 2;
/// Number of occurrences without a match after which a search is handed over to the linear engine. Each attempt may
/// scan the rest of the text, so their number must be bounded.
pub(super) const CANDIDATES_MAX: usize = 8;

/// An expression with a prefix search.
#[derive(Clone, Debug)]
pub(super) struct PrefixSearch {
    literals: Prefilter,
    automaton: OnePass,
}

impl PrefixSearch {
    /// The search; `None` if the expression does not qualify.
    pub(super) fn new(pattern: &str) -> Option<PrefixSearch> {
        let tree = regex_automata::util::syntax::parse(pattern).ok()?;
        if tree.properties().minimum_len().is_none_or(|len| len == 0) {
            return None;
        }
        Some(PrefixSearch { literals: prefix_literals(&tree)?, automaton: OnePass::new(pattern)? })
    }

    /// Space for the result of a search.
    pub(super) fn new_match(&self) -> OnePassMatch {
        self.automaton.new_match()
    }

    /// Whether there is a match at or after `start`; `None` if the linear engine must decide.
    #[inline]
    pub(super) fn captures_at(&self, text: &str, start: usize, groups: &mut OnePassMatch) -> Option<bool> {
        let mut from = start;
        for _ in 0..CANDIDATES_MAX {
            let Some(found) = self.literals.find(text.as_bytes(), Span { start: from, end: text.len() }) else {
                return Some(false);
            };
            if self.automaton.captures_starting_at(text, found.start, groups)? {
                return Some(true);
            }
            from = found.start + 1;
        }
        None
    }
}

/// A search for the literals with which all matches begin; `None` if there are no such literals, or a literal is too
/// short.
pub(super) fn prefix_literals(tree: &Hir) -> Option<Prefilter> {
    let literals = Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, tree)?;
    // These are the literals of the prefilter, which itself only knows the length of the longest one.
    let mut prefixes = Extractor::new().extract(tree);
    prefixes.optimize_for_prefix_by_preference();
    prefixes.min_literal_len().is_some_and(|len| len >= LITERAL_BYTES_MIN).then_some(literals)
}

#[cfg(test)]
mod tests {
    use super::PrefixSearch;

    #[test]
    fn the_shortest_literal_decides() {
        for (pattern, qualifies) in [
            ("ticket (?<id>[0-9]+)", true),
            ("(?:event|ticket).(?<id>[0-9]+)", true),
            ("e.(?<id>[0-9]+)", false),
            ("(?:e|ticket).(?<id>[0-9]+)", false),
            (".(?<id>[0-9]+)", false),
        ] {
            assert_eq!(PrefixSearch::new(pattern).is_some(), qualifies, "{pattern}");
        }
    }
}
