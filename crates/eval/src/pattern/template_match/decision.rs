//! Windows whose groups have fixed positions in every match, although not every text matches: `after (?<n>\d+)
//! attempts` if the template is `after N TEXT`. To decide whether there is a match, fewer values are needed than to
//! find the groups, whose positions are known.
//!
//! If a single value decides, the automaton's state before the value is precomputed: only as many bytes of each value
//! are read as are needed to decide.

use std::str::Utf8Error;

use regex_automata::hybrid::LazyStateID;

use super::{FlatTemplate, GroupPlaces, Planner, TemplatePosition, Window, has_match_within};
use crate::pattern::{Captures, Regex};

/// A test whether a window has a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Positions of the requested groups if there is a match.
    pub places: GroupPlaces,
    /// The variables whose values decide whether there is a match, in order.
    pub read: Vec<usize>,
    /// The other variables of the window, each with a valid value to use in place of the actual one.
    pub fillers: Vec<(usize, Box<str>)>,
}

impl Window {
    /// Runs the expression to decide whether a match starts in this window. `value` appends the values of
    /// [`Decision::read`].
    pub fn has_match(
        &self,
        decision: &Decision,
        template: &FlatTemplate,
        regex: &Regex,
        value: impl FnMut(usize, &mut Vec<u8>),
        text: &mut Vec<u8>,
        captures: &mut Captures,
    ) -> Result<bool, Utf8Error> {
        let (start, starts_end) = self.fill(template, &decision.fillers, value, text);
        let text = std::str::from_utf8(text)?;
        Ok(has_match_within(regex, text, start, starts_end, captures))
    }

    /// A test of the only deciding value; `None` if several values decide, or matches may start at several positions.
    pub fn value_test(&self, decision: &Decision, template: &FlatTemplate) -> Option<ValueTest> {
        let [only] = decision.read[..] else { return None };
        // A value within which matches may start has no single start position, however short the surrounding text is.
        if self.starts_end > (TemplatePosition { part: only, offset: 0 }) {
            return None;
        }
        let (mut text, mut split) = (Vec::new(), None);
        let value = |part: usize, text: &mut Vec<u8>| {
            if part == only {
                split = Some(text.len());
            }
        };
        let (start, starts_end) = self.fill(template, &decision.fillers, value, &mut text);
        let split = split?;
        let first = std::str::from_utf8(text.get(start..starts_end)?).ok()?;
        if first.chars().count() != 1 {
            return None;
        }
        let behind = start.checked_sub(1).and_then(|before| text.get(before).copied());
        let after = text.split_off(split);
        text.drain(..start);
        Some(ValueTest { behind, before: text, after, state: None })
    }
}

/// Tests values of one variable.
#[derive(Debug)]
pub struct ValueTest {
    /// Byte before the match.
    behind: Option<u8>,
    /// Text between the start of the match and the value.
    before: Vec<u8>,
    /// Text after the value in the window.
    after: Vec<u8>,
    /// The automaton's state before the value, and the cache generation in which it was found.
    state: Option<(LazyStateID, usize)>,
}

/// The automaton's verdict about a match after a step.
enum StepResult {
    Open(LazyStateID),
    Match,
    Dead,
}

impl ValueTest {
    /// Whether there is a match if the variable has this value; `None` if the automaton gives up.
    pub fn is_match(&mut self, planner: &mut Planner, value: &[u8]) -> Option<bool> {
        let answer = self.run(planner, value);
        // Processing earlier values may have filled the automaton's memory.
        match planner.reset_if_cleared() {
            true => None,
            false => answer,
        }
    }

    fn run(&mut self, planner: &mut Planner, value: &[u8]) -> Option<bool> {
        let known = self.state.filter(|(_, emptied)| *emptied == planner.cache_clears).map(|(state, _)| state);
        let state = match known {
            Some(state) => state,
            None => {
                planner.steps = 0;
                let start = planner.start_state(self.behind).ok()?;
                match step_bytes(planner, start, &self.before)? {
                    StepResult::Match => return Some(true),
                    StepResult::Dead => return Some(false),
                    StepResult::Open(state) => {
                        self.state = Some((state, planner.cache_clears));
                        state
                    }
                }
            }
        };
        planner.steps = 0;
        let mut state = state;
        for bytes in [value, &self.after] {
            match step_bytes(planner, state, bytes)? {
                StepResult::Match => return Some(true),
                StepResult::Dead => return Some(false),
                StepResult::Open(next) => state = next,
            }
        }
        planner.matches_at_end(state).ok()
    }
}

/// Steps over bytes until it is decided whether there is a match.
fn step_bytes(planner: &mut Planner, mut state: LazyStateID, bytes: &[u8]) -> Option<StepResult> {
    for byte in bytes {
        state = planner.next(state, *byte).ok()?;
        if state.is_match() {
            return Some(StepResult::Match);
        }
        if state.is_dead() {
            return Some(StepResult::Dead);
        }
    }
    Some(StepResult::Open(state))
}
