//! Prefix search: fast search for expressions whose matches begin with one of a few literals, such as `ticket
//! (?<id>[0-9a-f]+)`, or with certain bytes, such as `(?<number>\d+)`.
//!
//! The literals or bytes are searched for; at each occurrence, a one-pass automaton determines whether a match begins
//! there, and where its groups are. The linear engine would scan the match three times: for its end, its start and its
//! groups. The first occurrence at which a match begins is the start of the leftmost match, so both engines have the
//! same result.
//!
//! Not here: expressions that are not one-pass.

use regex_automata::util::prefilter::Prefilter;
use regex_automata::{MatchKind, Span};
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Hir, Look};

use super::first_bytes::FirstBytes;
use super::one_pass::{OnePass, OnePassMatch};

/// Number of searches by the linear engine before the prefix search is prepared. Building the automaton takes longer
/// than a few searches, and an expression that is computed for each row has no more of them.
pub(super) const SEARCHES_BEFORE: u32 = 64;
/// Minimum length of the shortest literal, in bytes. Shorter literals occur as often as the first bytes.
const LITERAL_BYTES_MIN: usize = 2;
/// Number of occurrences without a match after which the linear engine continues the search. Each attempt may scan the
/// rest of the text, so their number must be bounded.
pub(super) const CANDIDATES_MAX: usize = 8;
/// Like [`CANDIDATES_MAX`], for positions found by their first byte: if the first ones are no match, most others are
/// none.
const BYTE_CANDIDATES_MAX: usize = 2;
/// Number of searches by first byte that the linear engine had to decide, minus the number of the others, at which
/// positions are no longer searched for by their first byte.
const HANDOVERS_MAX: u32 = 16;

/// The positions at which a match can begin.
#[derive(Clone, Debug)]
pub(super) enum PrefixSearch {
    /// The occurrences of these literals.
    Literals(Prefilter),
    /// The occurrences of these bytes.
    Bytes(FirstBytes),
}

impl PrefixSearch {
    /// The search; `None` if a match can be empty, or begins at the start of the text.
    pub(super) fn new(pattern: &str) -> Option<PrefixSearch> {
        let tree = regex_automata::util::syntax::parse(pattern).ok()?;
        if tree.properties().minimum_len().is_none_or(|len| len == 0) {
            return None;
        }
        match prefix_literals(&tree) {
            Some(literals) => Some(PrefixSearch::Literals(literals)),
            None if tree.properties().look_set_prefix().contains(Look::Start) => None,
            None => Some(PrefixSearch::Bytes(FirstBytes::of(&tree))),
        }
    }

    /// Whether there is a match at or after `start`; `None` if the linear engine must decide. `automaton` is that of
    /// the same expression. `handovers` is the number that [`HANDOVERS_MAX`] limits.
    #[inline]
    pub(super) fn captures_at(
        &self,
        automaton: &OnePass,
        text: &str,
        start: usize,
        found: &mut OnePassMatch,
        handovers: &mut u32,
    ) -> Option<bool> {
        match self {
            PrefixSearch::Literals(literals) => {
                let next = |from| Some(literals.find(text.as_bytes(), Span { start: from, end: text.len() })?.start);
                first_match(automaton, text, start, CANDIDATES_MAX, next, found)
            }
            PrefixSearch::Bytes(_) if *handovers >= HANDOVERS_MAX => None,
            PrefixSearch::Bytes(bytes) => {
                let next = |from| bytes.find(text.as_bytes(), from);
                let answer = first_match(automaton, text, start, BYTE_CANDIDATES_MAX, next, found);
                *handovers = match answer {
                    Some(_) => handovers.saturating_sub(1),
                    None => *handovers + 1,
                };
                answer
            }
        }
    }
}

/// Whether a match begins at one of the positions that `next` finds; `None` if there is no match at the first `limit`
/// positions.
#[inline]
fn first_match(
    automaton: &OnePass,
    text: &str,
    start: usize,
    limit: usize,
    next: impl Fn(usize) -> Option<usize>,
    found: &mut OnePassMatch,
) -> Option<bool> {
    let mut from = start;
    for _ in 0..limit {
        let Some(candidate) = next(from) else { return Some(false) };
        if automaton.captures_starting_at(text, candidate, found)? {
            return Some(true);
        }
        from = candidate + 1;
    }
    None
}

/// A search for the literals with which all matches begin; `None` if there are no such literals, or a literal is too
/// short.
pub(super) fn prefix_literals(tree: &Hir) -> Option<Prefilter> {
    let literals = Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, tree)?;
    // `prefixes` are the literals of the prefilter, which itself provides only the length of the longest literal.
    let mut prefixes = Extractor::new().extract(tree);
    prefixes.optimize_for_prefix_by_preference();
    prefixes.min_literal_len().is_some_and(|len| len >= LITERAL_BYTES_MIN).then_some(literals)
}

#[cfg(test)]
mod tests {
    use super::{HANDOVERS_MAX, OnePass, PrefixSearch};

    #[test]
    fn the_shortest_literal_decides() {
        for (pattern, is_by_literal) in [
            ("ticket (?<id>[0-9]+)", true),
            ("(?:event|ticket).(?<id>[0-9]+)", true),
            ("e.(?<id>[0-9]+)", false),
            ("(?:e|ticket).(?<id>[0-9]+)", false),
            (".(?<id>[0-9]+)", false),
        ] {
            let search = PrefixSearch::new(pattern).unwrap();
            assert_eq!(matches!(search, PrefixSearch::Literals(_)), is_by_literal, "{pattern}");
        }
        assert!(PrefixSearch::new("(?<id>[0-9]*)").is_none(), "the match may be empty");
        assert!(PrefixSearch::new("^(?<id>[0-9]+)").is_none(), "the match begins at the start of the text");
    }

    #[test]
    fn bytes_at_which_hardly_any_match_begins_are_given_up() {
        let pattern = "(?<key>[a-z]+)=";
        let (search, automaton) = (PrefixSearch::new(pattern).unwrap(), OnePass::new(pattern).unwrap());
        let (mut found, mut handovers) = (automaton.new_match(), 0);
        let mut is_match = |text: &str| search.captures_at(&automaton, text, 0, &mut found, &mut handovers);
        assert_eq!(is_match("key=1"), Some(true));
        for _ in 0..HANDOVERS_MAX {
            assert_eq!(is_match("a word and key=1"), None);
        }
        assert_eq!(is_match("key=1"), None);
    }
}
