//! Windows whose groups have fixed positions in every match, although not every text matches, such as `after (?<n>\d+)
//! attempts` if the template is `after N TEXT`. The positions of the groups are known, so only the values that decide
//! whether there is a match are read.
//!
//! If a single value decides, the automaton's state before the value is precomputed: only as many bytes of each value
//! are read as are needed to decide.

use std::str::Utf8Error;

use regex_automata::hybrid::LazyStateID;

use quarry_event::template::ByteSet;

use super::{FlatTemplate, GroupRanges, LimitExceeded, Planner, TemplatePosition, Window, has_match_within};
use crate::pattern::{Captures, Regex};

/// A test that decides whether a window has a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Positions of the requested groups if there is a match.
    pub positions: GroupRanges,
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
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let next = planner.next(state, *byte).ok()?;
        if next.is_match() {
            return Some(StepResult::Match);
        }
        if next.is_dead() {
            return Some(StepResult::Dead);
        }
        at += 1;
        if next == state && bytes.len() - at >= SKIPPED_BYTES_MIN {
            let exits = planner.exits_of(state).ok()?;
            at += exits.find(&bytes[at..]).unwrap_or(bytes.len() - at);
        }
        state = next;
    }
    Some(StepResult::Open(state))
}

/// Minimum number of remaining bytes for which it pays to search for a byte that changes the state.
const SKIPPED_BYTES_MIN: usize = 8;

/// The bytes that change a state, such as the quote in `[^"]*`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StateExits {
    set: ByteSet,
    /// The bytes themselves, if there are at most three; the last one is repeated.
    few: Option<[u8; 3]>,
}

impl StateExits {
    /// Position of the first byte that changes the state.
    fn find(&self, bytes: &[u8]) -> Option<usize> {
        match self.few {
            Some([one, two, three]) => memchr::memchr3(one, two, three, bytes),
            None => bytes.iter().position(|byte| self.set.contains(*byte)),
        }
    }
}

impl Planner {
    /// The bytes that change a state; cached until the automaton's memory is full.
    fn exits_of(&mut self, state: LazyStateID) -> Result<StateExits, LimitExceeded> {
        if let Some(known) = self.exits.get(&state) {
            return Ok(*known);
        }
        let mut classes = ByteSet::EMPTY;
        for at in 0..self.every_class.len() {
            let byte = self.every_class[at];
            if self.next(state, byte)? != state {
                classes.insert(self.dfa.byte_classes().get(byte));
            }
            // The state's id is no longer valid.
            if self.cache.clear_count() > 0 {
                return Err(LimitExceeded);
            }
        }
        let mut exits = StateExits::default();
        for byte in 0..=u8::MAX {
            if classes.contains(self.dfa.byte_classes().get(byte)) {
                exits.set.insert(byte);
            }
        }
        let mut each = exits.set.iter();
        let first = [each.next(), each.next(), each.next()];
        if let ([Some(one), two, three], None) = (first, each.next()) {
            let two = two.unwrap_or(one);
            exits.few = Some([one, two, three.unwrap_or(two)]);
        }
        self.exits.insert(state, exits);
        Ok(exits)
    }
}
