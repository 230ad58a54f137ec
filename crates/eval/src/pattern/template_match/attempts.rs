//! Match attempts: runs the automaton from one position over all possible continuations of a template.

use hashbrown::HashMap;
use quarry_event::template::{ByteSet, ValueTraits};
use regex_automata::Anchored;
use regex_automata::hybrid::LazyStateID;
use regex_automata::util::start;

use super::characters::{ByteSteps, Phase};
use super::dependence::Identity;
use super::{
    FlatPart, LimitExceeded, Planner, STATES_MAX, STEPS_MAX, TemplatePosition, TemplateReader, intersection,
    is_inside_character, shared_prefix,
};

/// Maximum number of cached steps over variables; further ones are not cached.
pub(super) const PASSES_MAX: usize = 4_096;
/// Minimum lengths of values are distinguished up to this limit; greater ones are treated alike.
const LENGTH_MAX: u32 = 64;

/// A state, and whether a match was seen before it was reached.
type LiveState = (LazyStateID, bool);

/// Outcome of the attempts at one position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    /// Position at which all attempts have ended.
    pub(super) end: TemplatePosition,
    /// Whether an attempt may have matched.
    pub(super) matched: bool,
    /// Whether there is only one attempt, and it always matches.
    pub(super) certain: bool,
}

/// Cache key of passing over the values of a variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PassKey {
    live: Box<[LiveState]>,
    bytes: [[u64; 4]; 3],
    min_len: u32,
    max_len: u32,
    value_set: Option<Identity<[Box<str>]>>,
}

impl PassKey {
    fn new(live: &[LiveState], traits: &ValueTraits) -> PassKey {
        let bytes = [traits.bytes, traits.firsts, traits.lasts].map(|bytes| bytes.words());
        let (min_len, max_len, value_set) = (traits.min_len, traits.max_len, traits.value_set.clone().map(Identity));
        PassKey { live: live.into(), bytes, min_len, max_len, value_set }
    }
}

/// Cached results of passing over variables.
pub(super) type PassCache = HashMap<PassKey, Attempts, foldhash::fast::FixedState>;

/// All possible outcomes of attempts.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts {
    /// States of undecided attempts.
    live: Vec<LiveState>,
    /// Whether an attempt may have matched.
    matched: bool,
    /// Whether an attempt may have failed.
    failed: bool,
}

impl Planner {
    /// Runs all attempts that start at a position or, if it is a variable, anywhere in its values.
    pub(super) fn attempt(
        &mut self,
        template: &TemplateReader<'_>,
        start: TemplatePosition,
    ) -> Result<Attempt, LimitExceeded> {
        let mut attempts = Attempts::default();
        let mut position = start;
        let in_variable = template.literal(start.part).is_none();
        self.begin(template, start, &mut attempts)?;
        if let Some(FlatPart::Variable(_, traits)) = template.part(start.part) {
            let inside =
                ValueTraits { firsts: traits.bytes, min_len: 1, value_set: None, forms: None, ..traits.clone() };
            self.step_variable(&mut attempts, &inside)?;
            position = TemplatePosition { part: start.part + 1, offset: 0 };
        }
        while !attempts.live.is_empty() {
            match template.part(position.part) {
                None => {
                    self.finish_attempts(&mut attempts)?;
                    break;
                }
                Some(FlatPart::Variable(_, traits)) => {
                    self.step_variable(&mut attempts, traits)?;
                    position = TemplatePosition { part: position.part + 1, offset: 0 };
                }
                Some(FlatPart::Literal(bytes)) => {
                    position.offset = self.step_literal(&mut attempts, bytes, position.offset)?;
                    if position.offset == bytes.len() {
                        position = TemplatePosition { part: position.part + 1, offset: 0 };
                    }
                }
            }
        }
        let certain = attempts.matched && !attempts.failed && !in_variable;
        Ok(Attempt { end: position, matched: attempts.matched, certain })
    }

    /// The end of an attempt that fails within the literal in which it starts, as nearly all attempts do.
    pub(super) fn failed_in_literal(
        &mut self,
        literal: &[u8],
        start: TemplatePosition,
    ) -> Result<Option<TemplatePosition>, LimitExceeded> {
        let behind = match (self.looks, start.offset.checked_sub(1)) {
            (false, _) => None,
            (true, Some(before)) => Some(literal[before]),
            (true, None) => return Ok(None),
        };
        let mut state = self.start_state(behind)?;
        let mut at = start.offset;
        while !state.is_dead() {
            if at == literal.len() || state.is_match() {
                return Ok(None);
            }
            state = self.next(state, literal[at])?;
            at += 1;
        }
        while is_inside_character(literal, at) {
            at += 1;
        }
        Ok(Some(match at == literal.len() {
            true => TemplatePosition { part: start.part + 1, offset: 0 },
            false => TemplatePosition { part: start.part, offset: at },
        }))
    }

    /// The start states: one for each kind of text that may precede the position.
    fn begin(
        &mut self,
        template: &TemplateReader<'_>,
        start: TemplatePosition,
        attempts: &mut Attempts,
    ) -> Result<(), LimitExceeded> {
        let mut behind = vec![];
        let mut bytes = ByteSet::EMPTY;
        if self.looks {
            if let Some(FlatPart::Variable(_, traits)) = template.part(start.part) {
                bytes = bytes.union(traits.bytes);
            }
            let mut at = start;
            loop {
                if at.offset > 0 {
                    let before = template.literal(at.part).and_then(|bytes| bytes.get(at.offset - 1));
                    before.into_iter().for_each(|byte| bytes.insert(*byte));
                    break;
                }
                if at.part == 0 {
                    behind.push(None);
                    break;
                }
                at = TemplatePosition { part: at.part - 1, offset: 0 };
                match template.part(at.part) {
                    Some(FlatPart::Literal(bytes)) => at.offset = bytes.len(),
                    Some(FlatPart::Variable(_, traits)) => {
                        bytes = bytes.union(traits.lasts);
                        if traits.min_len > 0 {
                            break;
                        }
                    }
                    None => break,
                }
            }
        } else {
            behind.push(None);
        }
        behind.extend(self.classes(bytes).iter().copied().map(Some));
        for byte in behind {
            let state = self.start_state(byte)?;
            match state.is_dead() {
                true => attempts.failed = true,
                false => attempts.live.push((state, false)),
            }
        }
        attempts.live.sort_unstable();
        attempts.live.dedup();
        Ok(())
    }

    /// The start state after this byte, or at the start of the text.
    pub(super) fn start_state(&mut self, behind: Option<u8>) -> Result<LazyStateID, LimitExceeded> {
        let config = start::Config::new().anchored(Anchored::Yes).look_behind(behind);
        let state = self.dfa.start_state(&mut self.cache, &config).map_err(|_| LimitExceeded)?;
        if state.is_quit() { Err(LimitExceeded) } else { Ok(state) }
    }

    /// Steps over a literal from a byte on; returns the offset at which all attempts are decided, or the length of the
    /// literal.
    fn step_literal(&mut self, attempts: &mut Attempts, literal: &[u8], from: usize) -> Result<usize, LimitExceeded> {
        let mut at = from;
        if let [one] = attempts.live[..] {
            at = self.single_through_literal(one, attempts, literal, from)?;
        }
        while at < literal.len() && !attempts.live.is_empty() {
            let live = std::mem::take(&mut attempts.live);
            attempts.live = self.step(&live, &literal[at..=at], attempts)?;
            at += 1;
        }
        while is_inside_character(literal, at) {
            at += 1;
        }
        Ok(at)
    }

    /// Like [`Planner::step_literal`], for a single state, which has one successor per byte.
    fn single_through_literal(
        &mut self,
        (mut state, mut seen): LiveState,
        attempts: &mut Attempts,
        literal: &[u8],
        from: usize,
    ) -> Result<usize, LimitExceeded> {
        attempts.live.clear();
        for (at, byte) in literal.iter().enumerate().skip(from) {
            state = self.next(state, *byte)?;
            seen |= state.is_match();
            attempts.matched |= seen;
            if state.is_dead() {
                attempts.failed |= !seen;
                return Ok(at + 1);
            }
            if self.is_decided(state)? {
                attempts.matched = true;
                return Ok(at + 1);
            }
        }
        attempts.live.push((state, seen));
        Ok(literal.len())
    }

    /// Steps over every value of a variable. Results are cached, because attempts reach the same variables in many
    /// templates.
    fn step_variable(&mut self, attempts: &mut Attempts, traits: &ValueTraits) -> Result<(), LimitExceeded> {
        let key = PassKey::new(&attempts.live, traits);
        if let Some(known) = self.pass_cache.get(&key) {
            self.steps += 1;
            attempts.live.clone_from(&known.live);
            attempts.matched |= known.matched;
            attempts.failed |= known.failed;
            return Ok(());
        }
        let mut passed = Attempts { live: std::mem::take(&mut attempts.live), ..Attempts::default() };
        self.pass_variable(&mut passed, traits)?;
        attempts.live.clone_from(&passed.live);
        attempts.matched |= passed.matched;
        attempts.failed |= passed.failed;
        if self.pass_cache.len() < PASSES_MAX {
            self.pass_cache.insert(key, passed);
        }
        Ok(())
    }

    /// Steps over each of these values.
    fn pass_values(&mut self, attempts: &mut Attempts, values: &[Box<str>]) -> Result<(), LimitExceeded> {
        let mut ends: Vec<LiveState> = Vec::new();
        // The states after each prefix of the previous value. Values ascend, so most values share a prefix with the
        // value before.
        let mut after = vec![std::mem::take(&mut attempts.live)];
        let mut previous: &[u8] = &[];
        for value in values {
            let value = value.as_bytes();
            after.truncate(shared_prefix(previous, value) + 1);
            for at in after.len() - 1..value.len() {
                let next = self.step(&after[at], &value[at..=at], attempts)?;
                after.push(next);
            }
            ends.extend(after.last().into_iter().flatten());
            previous = value;
        }
        ends.sort_unstable();
        ends.dedup();
        attempts.live = ends;
        Ok(())
    }

    fn pass_variable(&mut self, attempts: &mut Attempts, traits: &ValueTraits) -> Result<(), LimitExceeded> {
        if let Some(values) = &traits.value_set {
            return self.pass_values(attempts, values);
        }
        let shortest = traits.min_len.min(LENGTH_MAX);
        let mut ends = if shortest == 0 { attempts.live.clone() } else { Vec::new() };
        let live = std::mem::take(&mut attempts.live);
        let mut current: Vec<(LiveState, Phase)> = live.into_iter().map(|one| (one, Phase::Boundary)).collect();
        let mut seen: Vec<(LiveState, Phase)> = Vec::new();
        let (every, last) = (self.byte_steps(traits.bytes), self.byte_steps(traits.lasts));
        let first = self.byte_steps(traits.firsts);
        let only = self.byte_steps(intersection(traits.firsts, traits.lasts));
        let mut length = 0;
        while length < traits.max_len && !current.is_empty() {
            length += 1;
            let (bytes, lasts) = if length == 1 { (&first, &only) } else { (&every, &last) };
            if length >= shortest {
                let after = self.step_characters(&current, lasts, attempts)?;
                ends.extend(after.into_iter().filter(|(_, phase)| *phase == Phase::Boundary).map(|(one, _)| one));
                ends.sort_unstable();
                ends.dedup();
            }
            current = self.step_characters(&current, bytes, attempts)?;
            if length >= shortest.max(1) {
                // Longer values add nothing if no new state appears.
                current.retain(|state| seen.binary_search(state).is_err());
                seen.extend(&current);
                seen.sort_unstable();
            }
        }
        attempts.live = ends;
        Ok(())
    }

    /// Ends the attempts at the end of the text.
    fn finish_attempts(&mut self, attempts: &mut Attempts) -> Result<(), LimitExceeded> {
        for (state, seen) in std::mem::take(&mut attempts.live) {
            let end = self.dfa.next_eoi_state(&mut self.cache, state).map_err(|_| LimitExceeded)?;
            if end.is_match() || seen {
                attempts.matched = true;
            } else {
                attempts.failed = true;
            }
        }
        Ok(())
    }

    /// Steps over one more byte of a value; records attempts that end.
    fn step_characters(
        &mut self,
        live: &[(LiveState, Phase)],
        bytes: &ByteSteps,
        attempts: &mut Attempts,
    ) -> Result<Vec<(LiveState, Phase)>, LimitExceeded> {
        let mut next = Vec::with_capacity(live.len());
        for ((state, seen), phase) in live {
            for (byte, after) in bytes.of(*phase) {
                if let Some(to) = self.step_state(*state, *seen, *byte, attempts)? {
                    next.push((to, *after));
                }
            }
        }
        next.sort_unstable();
        next.dedup();
        if next.len() > STATES_MAX { Err(LimitExceeded) } else { Ok(next) }
    }

    /// The state after a byte; `None` if the attempt has ended, which is recorded.
    fn step_state(
        &mut self,
        state: LazyStateID,
        seen: bool,
        byte: u8,
        attempts: &mut Attempts,
    ) -> Result<Option<LiveState>, LimitExceeded> {
        let to = self.next(state, byte)?;
        let seen = seen || to.is_match();
        attempts.matched |= seen;
        if to.is_dead() {
            attempts.failed |= !seen;
        } else if self.is_decided(to)? {
            attempts.matched = true;
        } else {
            return Ok(Some((to, seen)));
        }
        Ok(None)
    }

    /// Steps over one more byte, which may be any of this set; records attempts that end.
    fn step(
        &mut self,
        live: &[LiveState],
        bytes: &[u8],
        attempts: &mut Attempts,
    ) -> Result<Vec<LiveState>, LimitExceeded> {
        let mut next = Vec::with_capacity(live.len());
        for (state, seen) in live {
            for byte in bytes {
                next.extend(self.step_state(*state, *seen, *byte, attempts)?);
            }
        }
        next.sort_unstable();
        next.dedup();
        if next.len() > STATES_MAX { Err(LimitExceeded) } else { Ok(next) }
    }

    pub(super) fn next(&mut self, state: LazyStateID, byte: u8) -> Result<LazyStateID, LimitExceeded> {
        self.steps += 1;
        let next = self.dfa.next_state(&mut self.cache, state, byte).map_err(|_| LimitExceeded)?;
        if next.is_quit() || self.steps > STEPS_MAX { Err(LimitExceeded) } else { Ok(next) }
    }

    /// Whether an attempt in this state has matched and no later text can change the match. The automaton reports a
    /// match one byte late; without this check, the window would include the next part.
    fn is_decided(&mut self, state: LazyStateID) -> Result<bool, LimitExceeded> {
        if let Some(known) = self.decided.get(&state) {
            return Ok(*known);
        }
        let settled = self.has_ended(state)? || (!self.looks_ahead && self.match_ends_here(state)?);
        self.decided.insert(state, settled);
        Ok(settled)
    }

    /// Whether a match ended one byte ago and no running thread can replace it.
    fn has_ended(&mut self, state: LazyStateID) -> Result<bool, LimitExceeded> {
        if !state.is_match() {
            return Ok(false);
        }
        for at in 0..self.every_class.len() {
            if !self.next(state, self.every_class[at])?.is_dead() {
                return Ok(false);
            }
        }
        Ok(!self.matches_at_end(state)?)
    }

    /// Whether a match ends here, whatever text follows. If the expression looks ahead, the groups might still differ.
    fn match_ends_here(&mut self, state: LazyStateID) -> Result<bool, LimitExceeded> {
        for at in 0..self.every_class.len() {
            let next = self.next(state, self.every_class[at])?;
            if !self.has_ended(next)? {
                return Ok(false);
            }
        }
        self.matches_at_end(state)
    }

    pub(super) fn matches_at_end(&mut self, state: LazyStateID) -> Result<bool, LimitExceeded> {
        Ok(self.dfa.next_eoi_state(&mut self.cache, state).map_err(|_| LimitExceeded)?.is_match())
    }
}
