//! Prefix search: fast search for expressions whose matches all begin with one of a few literals, such as `ticket
//! (?<id>[0-9a-f]+)`.
//!
//! The literal is searched for; at each occurrence a one-pass automaton tells whether a match begins there, and where
//! its groups are. The linear engine would scan the match three times: for its end, its start and its groups. The first
//! literal that begins a match begins the leftmost match, so the result is the same.
//!
//! Not here: expressions that are not one-pass, or that begin with anything else.

use regex_automata::dfa::onepass::{self, DFA};
use regex_automata::nfa::thompson::NFA;
use regex_automata::util::prefilter::Prefilter;
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::{Anchored, Input, MatchKind, Span};

/// Maximum memory of an expression's automaton, in bytes.
const AUTOMATON_BYTES_MAX: usize = 1 << 20;
/// Shortest literal worth searching for, in bytes.
const LITERAL_BYTES_MIN: usize = 2;
/// Number of literals without a match in one text after which the linear engine takes over, so that every text takes
/// linear time.
const CANDIDATES_MAX: usize = 8;

/// An expression with a prefix search.
#[derive(Clone, Debug)]
pub(super) struct PrefixSearch {
    literals: Prefilter,
    dfa: DFA,
}

/// Positions of the groups of one match, and scratch space.
#[derive(Clone, Debug)]
pub(super) struct PrefixMatches {
    cache: onepass::Cache,
    slots: Vec<Option<NonMaxUsize>>,
}

impl PrefixSearch {
    /// `None` for an expression that does not qualify.
    pub(super) fn new(pattern: &str) -> Option<PrefixSearch> {
        let tree = regex_automata::util::syntax::parse(pattern).ok()?;
        let literals = Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, &tree)?;
        if literals.max_needle_len() < LITERAL_BYTES_MIN || tree.properties().minimum_len().is_none_or(|len| len == 0) {
            return None;
        }
        let limits = regex_automata::nfa::thompson::Config::new().nfa_size_limit(Some(AUTOMATON_BYTES_MAX));
        let nfa = NFA::compiler().configure(limits).build_from_hir(&tree).ok()?;
        let config = DFA::config().match_kind(MatchKind::LeftmostFirst).size_limit(Some(AUTOMATON_BYTES_MAX));
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa).ok()?;
        Some(PrefixSearch { literals, dfa })
    }

    /// Room for a search.
    pub(super) fn new_places(&self) -> PrefixMatches {
        let slots = self.dfa.get_nfa().group_info().slot_len();
        PrefixMatches { cache: self.dfa.create_cache(), slots: vec![None; slots] }
    }

    /// Whether there is a match at or after `start`; `None` if the linear engine must decide.
    #[inline]
    pub(super) fn captures_at(&self, text: &str, start: usize, places: &mut PrefixMatches) -> Option<bool> {
        let mut from = start;
        for _ in 0..CANDIDATES_MAX {
            let Some(found) = self.literals.find(text.as_bytes(), Span { start: from, end: text.len() }) else {
                return Some(false);
            };
            let input = Input::new(text).span(found.start..text.len()).anchored(Anchored::Yes);
            if self.dfa.try_search_slots(&mut places.cache, &input, &mut places.slots).ok()?.is_some() {
                return Some(true);
            }
            from = found.start + 1;
        }
        None
    }
}

impl PrefixMatches {
    /// Start and end of a group that took part in the match.
    #[inline]
    pub(super) fn get(&self, group: usize) -> Option<(usize, usize)> {
        let start = self.slots.get(group * 2).copied().flatten()?;
        let end = self.slots.get(group * 2 + 1).copied().flatten()?;
        Some((start.get(), end.get()))
    }
}
