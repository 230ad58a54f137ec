//! Groups that lie at the same places of a template whatever its slots hold: `took (?<ms>\d+)ms` over a slot of digits.
//!
//! The threads of the expression run over the template with places in it for positions. Over a slot the threads must
//! come out the same for every byte its values are made of and for every length they have; then no value has to be
//! looked at, and a group that spans one slot is that slot's column. Anything else, look-around other than a leading
//! `^` included, is left to [`super::Window::evaluate`].

use quarry_event::shape::ValueTraits;
use regex_automata::nfa::thompson::State;
use regex_automata::util::look::Look;
use regex_automata::util::primitives::StateID;

use super::{FlatPart, FlatTemplate, Place, Planner, Window, is_inside_character};

/// Threads followed at once; with more the groups are found per combination.
const THREADS_MAX: usize = 64;
/// Longest shortest value of a slot that is stepped over byte by byte.
const LENGTH_MAX: u32 = 64;

/// Start and end of each group in the template; `None` for one that takes no part.
pub(crate) type GroupPlaces = Vec<Option<(Place, Place)>>;

/// A position in a text of the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// The same place for every text.
    Fixed(Place),
    /// Inside the slot, where the threads are now.
    Here,
    /// Inside a slot, somewhere.
    Inside,
}

type Slots = Vec<Option<Position>>;

/// Threads by falling priority, each in a state that reads a byte, and the best match so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Threads {
    list: Vec<(StateID, Slots)>,
    matched: Option<Slots>,
}

impl Planner {
    /// Fills in [`Window::groups`]; what lies behind a window that always has a match is dropped.
    pub(super) fn name_groups(&self, template: &FlatTemplate, windows: &mut Vec<Window>) {
        for at in 0..windows.len() {
            let window = &mut windows[at];
            window.groups = self.uniform_groups(template, window);
            if window.groups.is_some() {
                window.certain = true;
                windows.truncate(at + 1);
                return;
            }
        }
    }

    fn uniform_groups(&self, template: &FlatTemplate, window: &Window) -> Option<GroupPlaces> {
        let looks = self.nfa.look_set_any();
        if looks.iter().any(|look| look != Look::Start) {
            return None;
        }
        // Behind a slot that can be empty is a place that is the start of some texts only.
        if !looks.is_empty() && matches!(template.parts.first(), Some(FlatPart::Slot(_, traits)) if traits.min_len == 0)
        {
            return None;
        }
        let mut threads = Threads::default();
        let mut place = window.start;
        self.add_fresh(&mut threads, Position::Fixed(place));
        while place.part < template.parts.len() && !threads.list.is_empty() {
            match &template.parts[place.part] {
                FlatPart::Literal(bytes) => {
                    let byte = *bytes.get(place.offset)?;
                    place.offset += 1;
                    let fresh = !is_inside_character(bytes, place.offset);
                    if place.offset == bytes.len() {
                        place = Place { part: place.part + 1, offset: 0 };
                    }
                    threads = self.step_threads(&threads, byte, Position::Fixed(place), fresh)?;
                }
                FlatPart::Slot(_, traits) => {
                    threads = self.threads_through_slot(threads, traits)?;
                    place = Place { part: place.part + 1, offset: 0 };
                    threads.move_here(Position::Fixed(place));
                }
            }
            if threads.matched.is_none() && place >= window.end {
                return None;
            }
        }
        group_places(&threads.matched?, window)
    }

    /// The threads behind a slot if they are the same for all its values.
    fn threads_through_slot(&self, mut threads: Threads, traits: &ValueTraits) -> Option<Threads> {
        if traits.min_len == 0 || traits.min_len > LENGTH_MAX {
            return None;
        }
        let (firsts, every) = (self.classes(traits.firsts), self.classes(traits.bytes));
        for length in 1..=traits.min_len {
            threads = self.step_alike(&threads, if length == 1 { &firsts } else { &every })?;
        }
        // Longer values must change nothing more.
        if traits.max_len > traits.min_len && self.step_alike(&threads, &every)? != threads {
            return None;
        }
        Some(threads)
    }

    /// One byte further if all of these bytes lead to the same threads.
    fn step_alike(&self, threads: &Threads, bytes: &[u8]) -> Option<Threads> {
        let mut threads = threads.clone();
        threads.move_here(Position::Inside);
        let (first, others) = bytes.split_first()?;
        let next = self.step_threads(&threads, *first, Position::Here, true)?;
        for byte in others {
            if self.step_threads(&threads, *byte, Position::Here, true)? != next {
                return None;
            }
        }
        Some(next)
    }

    /// The threads one byte further, at `position`.
    fn step_threads(&self, threads: &Threads, byte: u8, position: Position, fresh: bool) -> Option<Threads> {
        let mut next = Threads { list: Vec::new(), matched: threads.matched.clone() };
        for (state, slots) in &threads.list {
            let to = match self.nfa.state(*state) {
                State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
                State::Sparse(transitions) => transitions.matches_byte(byte),
                State::Dense(transitions) => transitions.matches_byte(byte),
                _ => None,
            };
            if let Some(to) = to
                && self.add(&mut next, to, slots.clone(), position)
            {
                // Threads of lower priority lose against this match.
                return Some(next);
            }
        }
        if next.matched.is_none() && fresh {
            self.add_fresh(&mut next, position);
        }
        (next.list.len() <= THREADS_MAX).then_some(next)
    }

    /// Starts an attempt at a position.
    fn add_fresh(&self, threads: &mut Threads, position: Position) {
        let slots = vec![None; self.nfa.group_info().slot_len()];
        self.add(threads, self.nfa.start_anchored(), slots, position);
    }

    /// Adds what a thread in `state` can become without reading; says whether it matches.
    fn add(&self, threads: &mut Threads, state: StateID, slots: Slots, position: Position) -> bool {
        let mut open = vec![(state, slots)];
        let mut seen: Vec<StateID> = Vec::new();
        while let Some((state, mut slots)) = open.pop() {
            if seen.contains(&state) || threads.list.iter().any(|(known, _)| *known == state) {
                continue;
            }
            seen.push(state);
            match self.nfa.state(state) {
                State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) => threads.list.push((state, slots)),
                // Only `^` is left of the assertions.
                State::Look { next, .. } if position == Position::Fixed(Place { part: 0, offset: 0 }) => {
                    open.push((*next, slots));
                }
                State::Look { .. } | State::Fail => {}
                State::Union { alternates } => {
                    open.extend(alternates.iter().rev().map(|next| (*next, slots.clone())));
                }
                State::BinaryUnion { alt1, alt2 } => {
                    open.push((*alt2, slots.clone()));
                    open.push((*alt1, slots));
                }
                State::Capture { next, slot, .. } => {
                    if let Some(place) = slots.get_mut(slot.as_usize()) {
                        *place = Some(position);
                    }
                    open.push((*next, slots));
                }
                State::Match { .. } => {
                    threads.matched = Some(slots);
                    return true;
                }
            }
        }
        false
    }
}

impl Threads {
    /// Makes every [`Position::Here`] another position.
    fn move_here(&mut self, to: Position) {
        let slots = self.list.iter_mut().map(|(_, slots)| slots).chain(&mut self.matched);
        for position in slots.flatten().flatten() {
            if *position == Position::Here {
                *position = to;
            }
        }
    }
}

/// The groups of a match of this window; `None` unless all of them are at fixed places.
fn group_places(slots: &[Option<Position>], window: &Window) -> Option<GroupPlaces> {
    let place = |position: Option<Position>| match position? {
        Position::Fixed(place) => Some(place),
        _ => None,
    };
    let mut groups = GroupPlaces::new();
    for pair in slots.chunks_exact(2) {
        groups.push(match (pair[0], pair[1]) {
            (Some(start), Some(end)) => Some((place(Some(start))?, place(Some(end))?)),
            _ => None,
        });
    }
    let (start, _) = (*groups.first()?)?;
    (start < window.starts_end).then_some(groups)
}
