//! The one-pass automaton of an expression, which determines in one scan whether a match begins at a position and
//! where its groups are.
//!
//! Not here: positions at which matches may begin (`super::prefix_search`, `super::template_match`).

use regex_automata::dfa::onepass::{self, DFA};
use regex_automata::nfa::thompson::NFA;
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::{Anchored, Input, MatchKind};

/// Maximum memory of an expression's automaton, in bytes; an expression that needs more has none.
const AUTOMATON_BYTES_MAX: usize = 1 << 20;

/// A one-pass expression: at each byte, at most one way of matching can continue.
#[derive(Clone, Debug)]
pub(super) struct OnePass(DFA);

/// Positions of the groups of one match, and scratch space.
#[derive(Clone, Debug)]
pub(super) struct OnePassMatch {
    cache: onepass::Cache,
    slots: Vec<Option<NonMaxUsize>>,
}

impl OnePass {
    /// The automaton; `None` if the expression is not one-pass, or its automaton is too large.
    pub(super) fn new(pattern: &str) -> Option<OnePass> {
        let tree = regex_automata::util::syntax::parse(pattern).ok()?;
        let limits = regex_automata::nfa::thompson::Config::new().nfa_size_limit(Some(AUTOMATON_BYTES_MAX));
        let nfa = NFA::compiler().configure(limits).build_from_hir(&tree).ok()?;
        let config = DFA::config().match_kind(MatchKind::LeftmostFirst).size_limit(Some(AUTOMATON_BYTES_MAX));
        DFA::builder().configure(config).build_from_nfa(nfa).ok().map(OnePass)
    }

    /// Space for the result of a search.
    pub(super) fn new_match(&self) -> OnePassMatch {
        let slots = self.0.get_nfa().group_info().slot_len();
        OnePassMatch { cache: self.0.create_cache(), slots: vec![None; slots] }
    }

    /// Whether a match begins at `start`; assertions such as `\b` see the text before it. `None` if the linear engine
    /// must decide.
    #[inline]
    pub(super) fn captures_starting_at(&self, text: &str, start: usize, found: &mut OnePassMatch) -> Option<bool> {
        let input = Input::new(text).span(start..text.len()).anchored(Anchored::Yes);
        Some(self.0.try_search_slots(&mut found.cache, &input, &mut found.slots).ok()?.is_some())
    }
}

impl OnePassMatch {
    /// Start and end of a group that took part in the match.
    #[inline]
    pub(super) fn get(&self, group: usize) -> Option<(usize, usize)> {
        let start = self.slots.get(group * 2).copied().flatten()?;
        let end = self.slots.get(group * 2 + 1).copied().flatten()?;
        Some((start.get(), end.get()))
    }
}
