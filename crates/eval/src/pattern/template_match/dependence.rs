//! Dependence analysis: determines which variables the requested groups of a [`Window`] depend on, by running the
//! expression over all values at once.
//!
//! This is an abstract interpretation of a Pike VM: the threads of the expression run over the template, with template
//! *positions* in place of text offsets. A variable represents every value that its [`ValueTraits`] allow, so after a
//! variable there is a set of *configurations*, one for each possible outcome of the threads. If each configuration
//! has only one successor over a variable, the result does not depend on that variable. Groups are independent of each
//! other, and groups that are not requested are not tracked, so that an undecided group does not affect other groups.
//! The result is one of:
//!
//! - all requested groups have fixed positions in the template, whatever the values ([`Dependence::groups`]): the
//!   expression need not run, and a group that spans one variable equals that variable's column;
//! - the result depends on the values of some variables only ([`Dependence::read`]), and any allowed value may be used
//!   for the other variables ([`filler`]).
//!
//! If there are too many configurations, threads or steps, or an assertion cannot be evaluated, the analysis has no
//! result.

mod cache_keys;
mod outcome;
mod prefixes;

use std::borrow::Cow;
use std::sync::Arc;

use quarry_event::template::{ByteSet, FormPart, ValueForm, ValueTraits};
use regex_automata::nfa::thompson::State;
use regex_automata::util::look::Look;
use regex_automata::util::primitives::{PatternID, StateID};

pub(super) use self::cache_keys::{DependenceCache, Identity, OutcomeCache};
use self::cache_keys::{PassedVariable, SHORT_LIST_MAX};
use self::outcome::{deciding_variables, dependence_of, group_dependence_of};
use self::prefixes::PrefixKey;
pub(super) use self::prefixes::WalkPrefixes;
use super::assertion::{ByteAfter, ByteBefore, Undecidable, classify_before, holds};
use super::characters::{ByteSteps, Phase};
use super::{
    Decision, FlatPart, Planner, TemplatePosition, TemplateReader, Window, intersection, is_inside_character,
    shared_prefix,
};

/// Maximum number of threads of a configuration; with more, the analysis has no result.
const THREADS_MAX: usize = 64;
/// Maximum number of configurations followed at once; with more, the analysis has no result.
const CONFIGURATIONS_MAX: usize = 64;
/// Maximum number of thread steps for one window, not counting its long lists of values; then the analysis has no
/// result.
const STEPS_MAX: usize = 40_000;
/// Further thread steps for each byte of the long lists of values in a window.
const STEPS_PER_LISTED_BYTE: usize = 4;
/// Maximum total number of thread steps of a planner for one slab: a few tenths of a second. Further windows are not
/// analysed.
const PLANNER_STEPS_MAX: usize = 4_000_000;
/// If the minimum length of a value exceeds this limit, the value is not stepped over byte by byte.
const LENGTH_MAX: u32 = 256;
/// Maximum number of cached windows; further ones are not cached.
const CACHED_WINDOWS_MAX: usize = 8_192;
/// Maximum number of entries of an [`OutcomeCache`]; further outcomes are not cached.
const CACHED_OUTCOMES_MAX: usize = 2_048;

/// Start and end of each group in the template; `None` for a group that does not take part in the match or is not
/// requested.
pub type GroupRanges = Vec<Option<(TemplatePosition, TemplatePosition)>>;

/// The parts of the template on which the requested groups of a window depend.
#[derive(Debug)]
pub(super) struct Dependence {
    /// Positions of the groups, if every text matches with these positions.
    pub(super) groups: Option<GroupRanges>,
    /// Parts on whose values the result depends, ascending.
    pub(super) read: Vec<usize>,
    /// If not every text matches: positions of the groups in every match, and the parts on which the existence of a
    /// match depends.
    pub(super) decision: Option<(GroupRanges, Vec<usize>)>,
    /// Parts on which the match and each requested group depend, if neither `groups` nor `decision` is known.
    pub(super) apart: Option<GroupDependence>,
}

/// The parts on which a match depends, and the parts on which each requested group depends: two matching texts with
/// equal values in the parts of a group have the same text in the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDependence {
    /// Parts on which the existence of a match depends.
    pub matched: Vec<usize>,
    /// Parts on which each requested group depends, in the order of the groups.
    pub groups: Vec<Vec<usize>>,
}

/// A position in a text of the template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Position {
    /// A position that is the same in every text.
    Fixed(TemplatePosition),
    /// Inside the variable being passed; at its end, if the value ends at the current byte.
    Here,
    /// Inside this part. The second number is the offset in a listed value if the values are listed. Otherwise it
    /// numbers the threads that left the part with a position inside the part, because each of them may refer to
    /// another byte of the value.
    Within(usize, usize),
    /// The position with this number among those before the variable being passed; used only while the variable is
    /// passed.
    Earlier(usize),
}

/// Start of the match, then start and end of each requested group. Threads share registers until one of them enters a
/// group.
type Registers = Arc<[Option<Position>]>;

/// Threads in order of priority, each in a state that reads a byte or looks ahead, and the best match so far.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Configuration {
    behind: ByteBefore,
    list: Vec<(StateID, Registers)>,
    matched: Option<Registers>,
}

/// One step of the walk: the successors of each configuration.
#[derive(Debug)]
struct Layer {
    /// The variable passed; `None` for a byte of a literal.
    variable: Option<usize>,
    /// For each configuration before the step, the indices of its successors.
    next: Vec<Vec<usize>>,
}

impl Planner {
    /// Determines the parts on which each window depends; removes the windows after one that always matches.
    pub(super) fn find_dependence(&mut self, template: &TemplateReader<'_>, windows: &mut Vec<Window>) {
        for at in 0..windows.len() {
            let Ok(found) = self.dependence(template, &windows[at]) else { continue };
            let window = &mut windows[at];
            window.groups = found.groups;
            (window.read, window.fillers) = split_by_dependence(template, &window.variables, &found.read);
            window.group_dependence = found.apart;
            window.decision = found.decision.map(|(positions, deciding)| {
                let (read, fillers) = split_by_dependence(template, &window.variables, &deciding);
                Decision { positions, read, fillers }
            });
            if window.groups.is_some() {
                window.certain = true;
                windows.truncate(at + 1);
                return;
            }
        }
    }

    /// Dependence of a window, from the cache or by a walk.
    fn dependence(&mut self, template: &TemplateReader<'_>, window: &Window) -> Result<Dependence, Undecidable> {
        let origin = window.context;
        let is_followed = |look: Look| !matches!(look, Look::StartCRLF | Look::EndCRLF);
        let key = self.cache_key(template, window);
        if let Some(known) = self.dependence_cache.get(&key) {
            return known
                .as_ref()
                .map(|known| known.map_positions(|position| position.absolute_from(origin)))
                .ok_or(Undecidable);
        }
        if self.dependence_steps > PLANNER_STEPS_MAX || !self.nfa.look_set_any().iter().all(is_followed) {
            return Err(Undecidable);
        }
        let known = (std::mem::take(&mut self.outcome_cache), std::mem::take(&mut self.walk_prefixes));
        let mut walk = Walk::new(self, template, window, known);
        let finals = walk.run();
        let (steps, layers, reached) = (walk.steps, walk.layers, walk.reached);
        (self.outcome_cache, self.walk_prefixes) = (walk.known, walk.prefixes);
        self.dependence_steps += steps;
        let groups = self.nfa.group_info().group_len(PatternID::ZERO);
        let found = finals.map(|finals| {
            let mut found =
                dependence_of(&finals, deciding_variables(&layers, &finals), &self.requested_groups, groups);
            if found.groups.is_none() && found.decision.is_none() && self.requested_groups.len() > 1 {
                found.apart = Some(group_dependence_of(&layers, &finals, &self.requested_groups));
            }
            found
        });
        // The part of the template that the walk saw beyond the window is not in the cache key, so the result cannot be
        // cached.
        if reached <= window.end && self.dependence_cache.len() < CACHED_WINDOWS_MAX {
            let kept = found.as_ref().ok().map(|found| found.map_positions(|position| position.relative_to(origin)));
            self.dependence_cache.insert(key, kept);
        }
        found
    }

    /// Kind of a byte, as far as the assertions of the expression distinguish bytes before them.
    fn kind_before(&self, byte: u8) -> ByteBefore {
        let looks = self.nfa.look_set_any();
        match classify_before(byte) {
            ByteBefore::Word | ByteBefore::Wide if !looks.contains_word() => ByteBefore::Other,
            ByteBefore::LineFeed if !looks.contains(Look::StartLF) => ByteBefore::Other,
            kind => kind,
        }
    }
}

/// Bytes of the long lists of values in a window.
fn listed_bytes(template: &TemplateReader<'_>, window: &Window) -> usize {
    let lists = window.variables.iter().filter_map(|part| match template.part(*part) {
        Some(FlatPart::Variable(_, traits)) => traits.value_set.as_deref().filter(|list| list.len() > SHORT_LIST_MAX),
        _ => None,
    });
    lists.flatten().map(|value| value.len()).sum()
}

impl Dependence {
    /// This dependence with every position mapped by `moved`.
    fn map_positions(&self, moved: impl Fn(TemplatePosition) -> TemplatePosition) -> Dependence {
        let group =
            |group: &Option<(TemplatePosition, TemplatePosition)>| group.map(|(start, end)| (moved(start), moved(end)));
        let groups = |groups: &GroupRanges| groups.iter().map(group).collect::<GroupRanges>();
        let parts = |parts: &[usize]| -> Vec<usize> {
            parts.iter().map(|part| moved(TemplatePosition { part: *part, offset: 0 }).part).collect()
        };
        Dependence {
            groups: self.groups.as_ref().map(groups),
            read: parts(&self.read),
            decision: self.decision.as_ref().map(|(positions, deciding)| (groups(positions), parts(deciding))),
            apart: self.apart.as_ref().map(|apart| GroupDependence {
                matched: parts(&apart.matched),
                groups: apart.groups.iter().map(|group| parts(group)).collect(),
            }),
        }
    }
}

impl TemplatePosition {
    /// Start of every template.
    const START: TemplatePosition = TemplatePosition { part: 0, offset: 0 };

    /// The position relative to `origin`, which must not be after the position.
    pub(super) fn relative_to(self, origin: TemplatePosition) -> TemplatePosition {
        let part = self.part - origin.part;
        TemplatePosition {
            part,
            offset: if part == 0 { self.offset.saturating_sub(origin.offset) } else { self.offset },
        }
    }

    /// Converts a position relative to `origin` to a position in the whole template.
    fn absolute_from(self, origin: TemplatePosition) -> TemplatePosition {
        let offset = if self.part == 0 { self.offset + origin.offset } else { self.offset };
        TemplatePosition { part: self.part + origin.part, offset }
    }
}

/// One *walk*: a run of the expression over the parts of a template, from the possible starts of a match.
struct Walk<'a> {
    planner: &'a Planner,
    template: &'a TemplateReader<'a>,
    window: &'a Window,
    /// Register of each capture slot of the expression.
    register_of: Vec<Option<usize>>,
    /// Whether assertions look at the text around a position.
    looks: bool,
    layers: Vec<Arc<Layer>>,
    steps: usize,
    /// Maximum number of steps.
    steps_max: usize,
    /// Work list of [`Walk::add_thread`].
    open: Vec<(StateID, Registers)>,
    /// Lists of threads for reuse.
    spare: Vec<Vec<(StateID, Registers)>>,
    /// For each state, the number of the thread list that visited it last.
    seen: Vec<u32>,
    /// Number of the thread list being built.
    list: u32,
    /// Furthest position reached by the walk.
    reached: TemplatePosition,
    /// Successors found by earlier walks.
    known: OutcomeCache,
    /// Cached beginnings of earlier walks.
    prefixes: WalkPrefixes,
}

impl<'a> Walk<'a> {
    fn new(
        planner: &'a Planner,
        template: &'a TemplateReader<'a>,
        window: &'a Window,
        (known, prefixes): (OutcomeCache, WalkPrefixes),
    ) -> Walk<'a> {
        let looks = planner.nfa.look_set_any();
        let mut register_of = vec![None; planner.nfa.group_info().slot_len()];
        register_of[0] = Some(0);
        for (at, group) in planner.requested_groups.iter().enumerate() {
            // The start of the whole match has a register already.
            if *group > 0 {
                register_of[group * 2] = Some(1 + at * 2);
            }
            register_of[group * 2 + 1] = Some(2 + at * 2);
        }
        Walk {
            planner,
            template,
            window,
            register_of,
            looks: !looks.is_empty(),
            layers: Vec::new(),
            steps: 0,
            steps_max: STEPS_MAX + listed_bytes(template, window) * STEPS_PER_LISTED_BYTE,
            open: Vec::new(),
            spare: Vec::new(),
            seen: vec![0; planner.nfa.states().len()],
            list: 0,
            reached: window.start,
            known,
            prefixes,
        }
    }

    /// The configurations at the end of the walk.
    fn run(&mut self) -> Result<Vec<Configuration>, Undecidable> {
        let (start, starts_end) = (self.window.start, self.window.starts_end);
        let mut position = start;
        self.list += 1;
        let behind = self.byte_before_start()?;
        let mut first = Configuration { behind, list: Vec::new(), matched: None };
        self.start_attempt(&mut first, Position::Fixed(position))?;
        let mut all = vec![first];
        let key = PrefixKey::Start(start, starts_end, behind);
        let known = self.prefixes.find(&key).map(|(number, _)| number);
        let mut prefix = known.or_else(|| self.prefixes.insert(key, &all, &[]));
        let mut entered = None;
        while !all.iter().all(|one| self.is_final(one, position)) {
            let Some(part) = self.template.part(position.part) else { break };
            if position.offset == 0 || position == start {
                let key = prefix.map(|before| PrefixKey::of_part(before, part));
                if let Some((number, state)) = key.as_ref().and_then(|key| self.prefixes.find(key)) {
                    (all, self.layers) = (state.configurations.clone(), state.layers.clone());
                    (prefix, position) = (Some(number), TemplatePosition { part: position.part + 1, offset: 0 });
                    self.reached = position;
                    continue;
                }
                entered = key;
            }
            // A part that cannot be passed has been seen as well.
            self.reached = match part {
                FlatPart::Literal(_) => TemplatePosition { part: position.part, offset: position.offset + 1 },
                FlatPart::Variable(..) => TemplatePosition { part: position.part + 1, offset: 0 },
            };
            (all, position) = match part {
                FlatPart::Literal(bytes) => self.pass_byte(all, bytes, position)?,
                FlatPart::Variable(_, traits) => self.pass_variable(&all, position.part, traits)?,
            };
            self.reached = position;
            if position.offset == 0 {
                prefix = entered.take().and_then(|key| self.prefixes.insert(key, &all, &self.layers));
            }
        }
        if self.template.part(position.part).is_none() {
            for one in &mut all {
                let resolved = self.resolve_assertions(one, ByteAfter::End, Position::Fixed(position))?;
                let (behind, matched) = (resolved.behind, resolved.matched.clone());
                *one = Configuration { behind, list: Vec::new(), matched };
            }
        }
        for one in &mut all {
            // A match that starts after the window is not a match of this window.
            one.matched = one.matched.take().filter(|registers| match registers[0] {
                Some(Position::Fixed(start)) => start < self.window.starts_end,
                Some(Position::Within(part, _)) => TemplatePosition { part, offset: 0 } < self.window.starts_end,
                _ => false,
            });
        }
        Ok(all)
    }

    /// The configurations after a byte of a literal, and the position after it.
    fn pass_byte(
        &mut self,
        mut all: Vec<Configuration>,
        bytes: &[u8],
        position: TemplatePosition,
    ) -> Result<(Vec<Configuration>, TemplatePosition), Undecidable> {
        let Some(byte) = bytes.get(position.offset) else { return Err(Undecidable) };
        let at = position.offset + 1;
        let after = match at == bytes.len() {
            true => TemplatePosition { part: position.part + 1, offset: 0 },
            false => TemplatePosition { part: position.part, offset: at },
        };
        let starts = after < self.window.starts_end && !is_inside_character(bytes, at);
        let (mut behind, mut next) = (Vec::with_capacity(all.len()), Vec::with_capacity(all.len()));
        for one in &all {
            let stepped = self.step(one, *byte, Position::Fixed(position), Position::Fixed(after), starts)?;
            next.push(intern(&mut behind, stepped)?);
        }
        self.spare.extend(all.drain(..).map(|one| one.list));
        // A step that merges no configurations needs no layer.
        if behind.len() < next.len() {
            let next = next.into_iter().map(|number| vec![number]).collect();
            self.layers.push(Arc::new(Layer { variable: None, next }));
        }
        Ok((behind, after))
    }

    /// The configurations after a variable, and the position after it.
    fn pass_variable(
        &mut self,
        all: &[Configuration],
        variable: usize,
        traits: &ValueTraits,
    ) -> Result<(Vec<Configuration>, TemplatePosition), Undecidable> {
        let (mut behind, mut next) = (Vec::new(), Vec::new());
        let position = TemplatePosition { part: variable + 1, offset: 0 };
        for one in all {
            let mut outcomes = self.outcomes(one, variable, traits)?;
            for one in &mut outcomes {
                one.move_here(Position::Fixed(position));
                one.number_within(variable);
            }
            let numbers = outcomes.into_iter().map(|one| intern(&mut behind, one));
            next.push(numbers.collect::<Result<_, _>>()?);
        }
        self.layers.push(Arc::new(Layer { variable: Some(variable), next }));
        Ok((behind, position))
    }

    /// Whether no further byte can change a configuration's result.
    fn is_final(&self, one: &Configuration, position: TemplatePosition) -> bool {
        one.list.is_empty() && (one.matched.is_some() || position >= self.window.starts_end)
    }

    /// Kind of the byte before the window, if it is the same for all texts.
    fn byte_before_start(&self) -> Result<ByteBefore, Undecidable> {
        let start = self.window.start;
        if !self.looks {
            return Ok(ByteBefore::Other);
        }
        if start == TemplatePosition::START {
            return Ok(ByteBefore::Start);
        }
        if let Some(bytes) = self.template.literal(start.part)
            && start.offset > 0
        {
            return Ok(self.planner.kind_before(bytes[start.offset - 1]));
        }
        match start.part.checked_sub(1).and_then(|before| self.template.part(before)) {
            None => Err(Undecidable),
            Some(FlatPart::Literal(bytes)) => {
                bytes.last().map(|byte| self.planner.kind_before(*byte)).ok_or(Undecidable)
            }
            Some(FlatPart::Variable(_, traits)) if traits.min_len == 0 => Err(Undecidable),
            Some(FlatPart::Variable(_, traits)) => {
                let mut kinds = traits.lasts.iter().map(|byte| self.planner.kind_before(byte));
                let first = kinds.next().ok_or(Undecidable)?;
                if kinds.all(|kind| kind == first) { Ok(first) } else { Err(Undecidable) }
            }
        }
    }

    /// The possible successors of a configuration after a variable.
    fn outcomes(
        &mut self,
        from: &Configuration,
        part: usize,
        traits: &ValueTraits,
    ) -> Result<Vec<Configuration>, Undecidable> {
        if traits.min_len > LENGTH_MAX {
            return Err(Undecidable);
        }
        let starts = part < self.window.starts_end.part;
        let mut earlier = Vec::new();
        let from = from.with_relative_positions(part, &mut earlier);
        let restored = |ends: Vec<Configuration>| {
            ends.into_iter().map(|one| one.with_absolute_positions(part, &earlier)).collect::<Vec<_>>()
        };
        let key = PassedVariable {
            from: &from,
            starts,
            bytes: [traits.bytes, traits.firsts, traits.lasts].map(|bytes| bytes.words()),
            min_len: traits.min_len,
            max_len: traits.max_len,
            value_set: traits.value_set.clone().map(Identity),
            forms: traits.forms.clone().map(Identity),
        };
        if let Some(known) = self.known.get(&key) {
            self.steps += 1;
            return known.clone().map(restored).ok_or(Undecidable);
        }
        let before = self.steps;
        let ends = match (&traits.value_set, &traits.forms) {
            (Some(values), _) => self.outcomes_of_values(&from, starts, values),
            // If the forms have too many outcomes, the bounds of the values may still have few.
            (None, Some(forms)) => self
                .outcomes_of_forms(&from, starts, forms)
                .or_else(|_| self.find_outcomes(&from, starts, traits, true)),
            (None, None) => self.find_outcomes(&from, starts, traits, true),
        };
        // A variable that alone takes most of the steps of a window would do so in the next window, too, so its failure
        // is cached.
        let is_settled = ends.is_ok() || self.steps - before > self.steps_max / 2;
        if is_settled && self.known.len() < CACHED_OUTCOMES_MAX {
            self.known.insert(key.to_stored(), ends.as_ref().ok().cloned());
        }
        ends.map(restored)
    }

    /// The successors of a configuration after each of these values.
    fn outcomes_of_values(
        &mut self,
        from: &Configuration,
        starts: bool,
        values: &[Box<str>],
    ) -> Result<Vec<Configuration>, Undecidable> {
        let mut ends = Vec::new();
        // The configurations after each prefix of the previous value. Values ascend, so most values share a prefix
        // with the value before.
        let mut after = vec![from.clone()];
        let mut previous: &[u8] = &[];
        for value in values {
            let bytes = value.as_bytes();
            after.truncate(shared_prefix(previous, bytes) + 1);
            for at in after.len() - 1..bytes.len() {
                let before = match at {
                    0 => Position::Fixed(TemplatePosition::START),
                    _ => Position::Within(0, at),
                };
                let mut one = after[at].clone();
                one.move_here(Position::Within(0, at));
                let starts = starts && !is_inside_character(bytes, at + 1);
                after.push(self.step(&one, bytes[at], before, Position::Here, starts)?);
            }
            match after.last() {
                Some(one) if !bytes.is_empty() => intern(&mut ends, one.clone())?,
                _ => intern(&mut ends, from.after_empty(0))?,
            };
            previous = bytes;
        }
        Ok(ends)
    }

    /// The successors of a configuration after values of these forms. Positions inside a value are not distinguished.
    fn outcomes_of_forms(
        &mut self,
        from: &Configuration,
        starts: bool,
        forms: &[ValueForm],
    ) -> Result<Vec<Configuration>, Undecidable> {
        let mut ends = Vec::new();
        for form in forms {
            let mut all = vec![from.clone()];
            for (at, piece) in form.parts.iter().enumerate() {
                let mut next = Vec::new();
                for one in &all {
                    match piece {
                        FormPart::Literal(bytes) => {
                            let mut one = one.clone();
                            for (offset, byte) in bytes.iter().enumerate() {
                                let before = match at + offset {
                                    0 => Position::Fixed(TemplatePosition::START),
                                    _ => Position::Within(0, 0),
                                };
                                one.move_here(Position::Within(0, 0));
                                let starts = starts && !is_inside_character(bytes, offset + 1);
                                one = self.step(&one, *byte, before, Position::Here, starts)?;
                            }
                            intern(&mut next, one)?;
                        }
                        FormPart::Variable(traits) => {
                            for one in self.find_outcomes(one, starts, traits, at == 0)? {
                                intern(&mut next, one)?;
                            }
                        }
                    }
                }
                all = next;
            }
            for one in all {
                intern(&mut ends, one)?;
            }
        }
        Ok(ends)
    }

    /// Determines the outcomes by trying all values. `is_first` is false if the values follow other values in this
    /// part; an empty value then changes nothing.
    fn find_outcomes(
        &mut self,
        from: &Configuration,
        starts: bool,
        traits: &ValueTraits,
        is_first: bool,
    ) -> Result<Vec<Configuration>, Undecidable> {
        let planner = self.planner;
        let (every, lasts) = (planner.byte_steps(traits.bytes), planner.byte_steps(traits.lasts));
        let (firsts, only) =
            (planner.byte_steps(traits.firsts), planner.byte_steps(intersection(traits.firsts, traits.lasts)));
        let (mut ends, mut seen) = (Vec::new(), Vec::new());
        if traits.min_len == 0 {
            // After an empty value, all positions are before the value.
            ends.push(if is_first { from.after_empty(0) } else { from.clone() });
        }
        let mut current = vec![(from.clone(), Phase::Boundary)];
        let mut length = 0;
        while length < traits.max_len && !current.is_empty() {
            length += 1;
            let before = match length {
                1 if is_first => Position::Fixed(TemplatePosition::START),
                _ => Position::Within(0, 0),
            };
            let (bytes, last_bytes) = if length == 1 { (&firsts, &only) } else { (&every, &lasts) };
            current.iter_mut().for_each(|(one, _)| one.move_here(Position::Within(0, 0)));
            if length >= traits.min_len {
                for (one, byte, _) in steps_of(&current, last_bytes).filter(|(.., phase)| *phase == Phase::Boundary) {
                    intern(&mut ends, self.step(one, byte, before, Position::Here, starts)?)?;
                }
            }
            let mut next = Vec::new();
            for (one, byte, phase) in steps_of(&current, bytes) {
                let starts = starts && phase == Phase::Boundary;
                intern(&mut next, (self.step(one, byte, before, Position::Here, starts)?, phase))?;
            }
            if length >= traits.min_len.max(1) {
                // Longer values add nothing if no new configuration appears.
                next.retain(|one| !seen.contains(one));
                for one in &next {
                    intern(&mut seen, one.clone())?;
                }
            }
            current = next;
        }
        Ok(ends)
    }

    /// Steps a configuration over one byte. `before` and `after` are the positions around the byte; `starts` says
    /// whether a match of the window may start after the byte.
    fn step(
        &mut self,
        from: &Configuration,
        byte: u8,
        before: Position,
        after: Position,
        starts: bool,
    ) -> Result<Configuration, Undecidable> {
        let from = self.resolve_assertions(from, ByteAfter::Byte(byte), before)?;
        self.steps += 1 + from.list.len();
        if self.steps > self.steps_max {
            return Err(Undecidable);
        }
        let behind = self.planner.kind_before(byte);
        self.list += 1;
        let mut list = self.spare.pop().unwrap_or_default();
        list.clear();
        let mut next = Configuration { behind, list, matched: from.matched.clone() };
        for (state, registers) in &from.list {
            let to = match self.planner.nfa.state(*state) {
                State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
                State::Sparse(transitions) => transitions.matches_byte(byte),
                State::Dense(transitions) => transitions.matches_byte(byte),
                _ => None,
            };
            if let Some(to) = to
                && self.add_thread(&mut next, to, registers.clone(), after, ByteAfter::Unknown)?
            {
                // Threads of lower priority lose to this match, so they are dropped.
                return Ok(next);
            }
        }
        if next.matched.is_none() && starts {
            self.start_attempt(&mut next, after)?;
        }
        if next.list.len() > THREADS_MAX { Err(Undecidable) } else { Ok(next) }
    }

    /// The configuration after resolving the assertions that had to wait for the next byte.
    fn resolve_assertions<'c>(
        &mut self,
        from: &'c Configuration,
        ahead: ByteAfter,
        position: Position,
    ) -> Result<Cow<'c, Configuration>, Undecidable> {
        let waits = |(state, _): &(StateID, Registers)| matches!(self.planner.nfa.state(*state), State::Look { .. });
        if !from.list.iter().any(waits) {
            return Ok(Cow::Borrowed(from));
        }
        self.list += 1;
        let mut resolved = Configuration { behind: from.behind, list: Vec::new(), matched: from.matched.clone() };
        for (state, registers) in &from.list {
            if self.add_thread(&mut resolved, *state, registers.clone(), position, ahead)? {
                break;
            }
        }
        Ok(Cow::Owned(resolved))
    }

    fn start_attempt(&mut self, one: &mut Configuration, position: Position) -> Result<(), Undecidable> {
        let registers = vec![None; 1 + self.planner.requested_groups.len() * 2].into();
        self.add_thread(one, self.planner.nfa.start_anchored(), registers, position, ByteAfter::Unknown).map(drop)
    }

    /// Adds the successors of a thread in `state` that need no input; returns whether the thread matches.
    fn add_thread(
        &mut self,
        one: &mut Configuration,
        state: StateID,
        registers: Registers,
        position: Position,
        ahead: ByteAfter,
    ) -> Result<bool, Undecidable> {
        if let State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) = self.planner.nfa.state(state) {
            if std::mem::replace(&mut self.seen[state.as_usize()], self.list) != self.list {
                one.list.push((state, registers));
            }
            return Ok(false);
        }
        self.open.clear();
        self.open.push((state, registers));
        while let Some((state, mut registers)) = self.open.pop() {
            // A thread of higher priority has already visited this state.
            if std::mem::replace(&mut self.seen[state.as_usize()], self.list) == self.list {
                continue;
            }
            match self.planner.nfa.state(state) {
                State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) => one.list.push((state, registers)),
                State::Look { look, next } => match holds(*look, one.behind, ahead)? {
                    Some(true) => self.open.push((*next, registers)),
                    Some(false) => {}
                    None => one.list.push((state, registers)),
                },
                State::Fail => {}
                State::Union { alternates } => {
                    self.open.extend(alternates.iter().rev().map(|next| (*next, registers.clone())));
                }
                State::BinaryUnion { alt1, alt2 } => {
                    self.open.push((*alt2, registers.clone()));
                    self.open.push((*alt1, registers));
                }
                State::Capture { next, slot, .. } => {
                    if let Some(Some(register)) = self.register_of.get(slot.as_usize()) {
                        Arc::make_mut(&mut registers)[*register] = Some(position);
                    }
                    self.open.push((*next, registers));
                }
                State::Match { .. } => {
                    one.matched = Some(registers);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

impl Configuration {
    /// The configuration after an empty value, which ends where it starts.
    fn after_empty(&self, part: usize) -> Configuration {
        let (start, end) = (TemplatePosition { part, offset: 0 }, TemplatePosition { part: part + 1, offset: 0 });
        let mut same = self.clone();
        same.rename(Position::Fixed(start), Position::Fixed(end));
        same
    }

    /// The configuration with positions that do not depend on where the variable of this part is: the position before
    /// the variable becomes the position before part 0; all other positions are replaced by numbers, and added to
    /// `earlier`.
    fn with_relative_positions(&self, part: usize, earlier: &mut Vec<Position>) -> Configuration {
        let before = Position::Fixed(TemplatePosition { part, offset: 0 });
        self.with_positions(|position| {
            if position == before {
                return Position::Fixed(TemplatePosition::START);
            }
            let known = earlier.iter().position(|known| *known == position);
            let number = known.unwrap_or_else(|| {
                earlier.push(position);
                earlier.len() - 1
            });
            Position::Earlier(number)
        })
    }

    /// Reverses [`Configuration::with_relative_positions`].
    fn with_absolute_positions(&self, part: usize, earlier: &[Position]) -> Configuration {
        self.with_positions(|position| match position {
            Position::Earlier(number) => earlier.get(number).copied().unwrap_or(position),
            Position::Fixed(position) => Position::Fixed(TemplatePosition { part: part + position.part, ..position }),
            Position::Within(_, number) => Position::Within(part, number),
            Position::Here => Position::Here,
        })
    }

    /// The configuration with every position mapped by `moved`. Threads that share registers share them afterwards.
    fn with_positions(&self, mut moved: impl FnMut(Position) -> Position) -> Configuration {
        let mut last: Option<(&Registers, Registers)> = None;
        let mut of_registers = |registers: &'_ Registers| -> Registers {
            registers.iter().map(|position| position.map(&mut moved)).collect()
        };
        let mut list = Vec::with_capacity(self.list.len());
        for (state, registers) in &self.list {
            let renamed = match &last {
                Some((known, renamed)) if Arc::ptr_eq(known, registers) => Arc::clone(renamed),
                _ => of_registers(registers),
            };
            last = Some((registers, Arc::clone(&renamed)));
            list.push((*state, renamed));
        }
        Configuration { behind: self.behind, list, matched: self.matched.as_ref().map(of_registers) }
    }

    /// Replaces every [`Position::Here`] by another position.
    fn move_here(&mut self, to: Position) {
        self.rename(Position::Here, to);
    }

    /// Numbers the positions within a passed variable by their threads, if several threads have such a position.
    fn number_within(&mut self, part: usize) {
        let here = Position::Within(part, 0);
        let all = self.list.iter_mut().map(|(_, registers)| registers).chain(&mut self.matched);
        let of_several = all.filter(|registers| registers.contains(&Some(here))).enumerate().skip(1);
        of_several.for_each(|(number, registers)| {
            let positions = Arc::make_mut(registers).iter_mut().flatten().filter(|position| **position == here);
            positions.for_each(|position| *position = Position::Within(part, number));
        });
    }

    fn rename(&mut self, from: Position, to: Position) {
        let all = self.list.iter_mut().map(|(_, registers)| registers).chain(&mut self.matched);
        for registers in all.filter(|registers| registers.contains(&Some(from))) {
            for position in Arc::make_mut(registers).iter_mut().flatten().filter(|position| **position == from) {
                *position = to;
            }
        }
    }
}

/// Splits a window's variables into those whose values are read, and those with fillers.
fn split_by_dependence(
    template: &TemplateReader<'_>,
    variables: &[usize],
    asked: &[usize],
) -> (Vec<usize>, Vec<(usize, Box<str>)>) {
    let (mut read, mut fillers) = (Vec::new(), Vec::new());
    for part in variables {
        match template.part(*part) {
            Some(FlatPart::Variable(_, traits)) if !asked.contains(part) => match filler(traits) {
                Some(filler) => fillers.push((*part, filler)),
                None => read.push(*part),
            },
            _ => read.push(*part),
        }
    }
    (read, fillers)
}

fn steps_of<'c>(
    all: &'c [(Configuration, Phase)],
    bytes: &'c ByteSteps,
) -> impl Iterator<Item = (&'c Configuration, u8, Phase)> {
    all.iter().flat_map(move |(one, phase)| bytes.of(*phase).iter().map(move |(byte, after)| (one, *byte, *after)))
}

/// Index of a configuration, which is added if new.
fn intern<T: PartialEq>(all: &mut Vec<T>, one: T) -> Result<usize, Undecidable> {
    if let Some(known) = all.iter().position(|known| *known == one) {
        return Ok(known);
    }
    all.push(one);
    if all.len() > CONFIGURATIONS_MAX { Err(Undecidable) } else { Ok(all.len() - 1) }
}

/// A text allowed by the traits of a variable; `None` if that requires non-ASCII characters, or would be too long.
fn filler(traits: &ValueTraits) -> Option<Box<str>> {
    if let Some(values) = &traits.value_set {
        return values.first().cloned();
    }
    if let Some(form) = traits.forms.as_ref().and_then(|forms| forms.first()) {
        let mut text = String::new();
        for part in &form.parts {
            match part {
                FormPart::Literal(bytes) => text.push_str(std::str::from_utf8(bytes).ok()?),
                FormPart::Variable(traits) => text.push_str(&filler(traits)?),
            }
        }
        return Some(text.into());
    }
    let ascii = |bytes: ByteSet| bytes.iter().find(u8::is_ascii);
    if traits.min_len == 0 {
        return Some("".into());
    }
    if traits.min_len == 1
        && let Some(only) = ascii(intersection(traits.firsts, traits.lasts))
    {
        return Some(char::from(only).to_string().into());
    }
    let len = traits.min_len.max(2);
    if len > traits.max_len || len > LENGTH_MAX {
        return None;
    }
    let mut text = char::from(ascii(traits.firsts)?).to_string();
    if len > 2 {
        let middle = char::from(ascii(traits.bytes)?);
        text.extend(std::iter::repeat_n(middle, len as usize - 2));
    }
    text.push(char::from(ascii(traits.lasts)?));
    Some(text.into())
}
