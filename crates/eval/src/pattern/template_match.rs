//! Regular expressions over templates: determines where in a template a match can be, before the values of its
//! variables are known.
//!
//! The texts of a slab share a few hundred templates. For each template, a [`Planner`] tries every position at which a
//! match can start: it steps an anchored automaton over the literals and, at a variable, over every string that its
//! [`ValueTraits`] allow. Positions at which all attempts fail are excluded. The other positions become [`Window`]s:
//! the parts of the template that an attempt can read before it is decided. The expression then runs once per
//! combination of values in a window, on a text of a few bytes, with the same result as on the whole event.
//!
//! This is exact: a window extends until every attempt that starts in it is decided, so later text cannot change the
//! result; and windows are evaluated from left to right, so the leftmost match wins. If the expression looks behind,
//! one character of context before the start is kept.
//!
//! Not here: reading columns (scan), the choice of expressions that are pushed down into the scan (engine).

mod assertion;
mod attempts;
mod characters;
mod decision;
mod dependence;
mod memo;
mod memory;
mod plan_cache;
mod tail;

use std::str::Utf8Error;
use std::sync::Arc;

use hashbrown::HashMap;
use quarry_event::template::{ByteSet, Template, TemplatePart, TemplateSet, ValueForm, ValueTraits};
use quarry_stdx::number::u8_of;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::NFA;
use regex_syntax::hir::{Look, LookSet};

use super::{Captures, Regex};
use attempts::Attempt;
use characters::ByteSteps;
use plan_cache::{PlanCache, TemplateReader};

pub use decision::{Decision, ValueTest};
pub use dependence::{GroupDependence, GroupRanges};
pub use memo::{COMBINATIONS_MAX, CombinationMemo};

/// Maximum number of automaton states of an attempt at one position; with more states, the template is not planned.
const STATES_MAX: usize = 128;
/// Cost, in automaton steps, of a step of the dependence analysis, which copies lists of threads.
const DEPENDENCE_STEP_COST: usize = 4;
/// Maximum number of automaton steps per template; with more steps, the template is not planned.
const STEPS_MAX: usize = 400_000;
/// Number of templates of a slab that could not be planned with listed values, after which no further attempt is made.
const FAILED_LISTS_MAX: usize = 4;
/// Maximum memory of an expression's lazy automaton, in bytes; when it is full, its states are discarded.
const AUTOMATON_BYTES_MAX: usize = 4 << 20;

/// A template with the templates of its variables substituted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlatTemplate {
    parts: Vec<FlatPart>,
}

/// Part of a flat template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlatPart {
    /// Literal bytes; whole UTF-8 characters.
    Literal(Box<[u8]>),
    /// A value of this column, made of whole characters, with these traits.
    Variable(u32, ValueTraits),
}

impl FlatTemplate {
    /// The parts in order; adjacent literals are merged.
    pub fn new(parts: impl IntoIterator<Item = FlatPart>) -> FlatTemplate {
        let mut joined: Vec<FlatPart> = Vec::new();
        for part in parts {
            match (joined.last_mut(), part) {
                (_, FlatPart::Literal(bytes)) if bytes.is_empty() => {}
                (Some(FlatPart::Literal(last)), FlatPart::Literal(bytes)) => *last = [&**last, &*bytes].concat().into(),
                (_, part) => joined.push(part),
            }
        }
        FlatTemplate { parts: joined }
    }

    /// A template of this set, unchanged; `None` if a variable has no column.
    pub fn of(template_set: &TemplateSet, template: &Template) -> Option<FlatTemplate> {
        Some(FlatTemplate::new(flat_parts(template_set, template)?))
    }

    /// The template with a variable replaced by one of the templates of its column.
    pub fn with_variable(&self, part: usize, template_set: &TemplateSet, template: &Template) -> Option<FlatTemplate> {
        let (before, after) = (self.parts.get(..part)?, self.parts.get(part + 1..)?);
        let inner = flat_parts(template_set, template)?;
        Some(FlatTemplate::new(before.iter().cloned().chain(inner).chain(after.iter().cloned())))
    }

    /// The template with a variable replaced by one of its values.
    pub fn with_value(&self, part: usize, value: &[u8]) -> Option<FlatTemplate> {
        let (before, after) = (self.parts.get(..part)?, self.parts.get(part + 1..)?);
        let value = FlatPart::Literal(value.into());
        Some(FlatTemplate::new(before.iter().cloned().chain([value]).chain(after.iter().cloned())))
    }

    /// The template with prefixes as literals before variables, so that a group may begin after a prefix. `number`
    /// returns the number of the variable that stands for the text after the prefix of a column's values, or `None` if
    /// the column stays whole.
    pub fn with_prefixes_as_literals(self, number: impl Fn(u32) -> Option<u32>) -> FlatTemplate {
        let split = |part: FlatPart| match &part {
            FlatPart::Variable(column, traits) if !traits.prefix.is_empty() => match number(*column) {
                Some(rest) => {
                    let prefix = FlatPart::Literal(traits.prefix.as_bytes().into());
                    [Some(prefix), Some(FlatPart::Variable(rest, traits.rest()))]
                }
                None => [Some(part), None],
            },
            _ => [Some(part), None],
        };
        FlatTemplate::new(self.parts.into_iter().flat_map(split).flatten())
    }

    /// The template with the values that `list` adds to the traits of these parts; `None` if it adds no values.
    fn with_listed_values(&self, parts: &[usize], list: &mut ValueLists<'_>) -> Option<FlatTemplate> {
        let mut listed: Option<FlatTemplate> = None;
        for part in parts {
            let Some(FlatPart::Variable(column, traits)) = self.parts.get(*part) else { continue };
            if traits.value_set.is_none()
                && let Some(values) = list(*column)
            {
                let traits = ValueTraits { value_set: Some(values), ..traits.clone() };
                listed.get_or_insert_with(|| self.clone()).parts[*part] = FlatPart::Variable(*column, traits);
            }
        }
        listed
    }

    /// The parts between two positions; a literal is split at a position inside it.
    pub fn between(&self, from: TemplatePosition, to: TemplatePosition) -> FlatTemplate {
        let slice = |part: usize| match (self.parts.get(part)?, part == from.part, part == to.part) {
            (FlatPart::Literal(bytes), first, last) => {
                let start = if first { from.offset } else { 0 };
                let end = if last { to.offset } else { bytes.len() };
                Some(FlatPart::Literal(bytes.get(start..end)?.into()))
            }
            (FlatPart::Variable(..), _, true) => None,
            (variable, _, false) => Some(variable.clone()),
        };
        FlatTemplate::new((from.part..=to.part).filter_map(slice))
    }

    /// The template from a position to its end; a literal is split at a position inside it.
    pub fn suffix_from(mut self, from: TemplatePosition) -> FlatTemplate {
        self.parts.drain(..from.part.min(self.parts.len()));
        if let Some(FlatPart::Literal(bytes)) = self.parts.first_mut().filter(|_| from.offset > 0) {
            *bytes = bytes.get(from.offset..).unwrap_or_default().into();
            if bytes.is_empty() {
                self.parts.remove(0);
            }
        }
        self
    }

    /// Literals and columns, which identify the template within its set.
    pub fn key(&self) -> Template {
        let parts = self.parts.iter().map(|part| match part {
            FlatPart::Literal(bytes) => TemplatePart::Literal(bytes.clone()),
            FlatPart::Variable(column, _) => TemplatePart::Variable(*column),
        });
        Template { parts: parts.collect() }
    }

    /// Appends the text between two positions; `value` appends the value of a variable, given its part.
    pub fn write_between(
        &self,
        from: TemplatePosition,
        to: TemplatePosition,
        text: &mut Vec<u8>,
        mut value: impl FnMut(usize, &mut Vec<u8>),
    ) {
        for part in from.part..=to.part {
            let first = if part == from.part { from.offset } else { 0 };
            if let Some(literal) = self.literal(part) {
                let last = if part == to.part { to.offset } else { literal.len() };
                text.extend_from_slice(literal.get(first..last).unwrap_or_default());
            } else if part < to.part {
                value(part, text);
            }
        }
    }

    /// The parts in order.
    pub fn parts(&self) -> &[FlatPart] {
        &self.parts
    }

    fn literal(&self, part: usize) -> Option<&[u8]> {
        match self.parts.get(part) {
            Some(FlatPart::Literal(bytes)) => Some(bytes),
            _ => None,
        }
    }
}

fn flat_parts(template_set: &TemplateSet, template: &Template) -> Option<Vec<FlatPart>> {
    let flat = |part: &TemplatePart| match part {
        TemplatePart::Literal(bytes) => Some(FlatPart::Literal(bytes.clone())),
        TemplatePart::Variable(column) => {
            Some(FlatPart::Variable(*column, template_set.columns.get(*column as usize)?.traits.clone()))
        }
    };
    template.parts.iter().map(flat).collect()
}

/// Lists the distinct values of a column in ascending order; `None` if they are too many or unknown.
pub type ValueLists<'a> = dyn FnMut(u32) -> Option<Arc<[Box<str>]>> + 'a;

/// A position in a template: before byte `offset` of a literal, or before a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplatePosition {
    /// Index of the part; the number of parts means the end of the template.
    pub part: usize,
    /// Byte offset in a literal; 0 at a variable.
    pub offset: usize,
}

/// Positions in a template where matches are possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatchPlan {
    /// No text of the template matches.
    Never,
    /// The leftmost match is in the first window that has one.
    Windows(Vec<Window>),
    /// The whole text must be searched.
    Unknown,
}

impl MatchPlan {
    /// The parts on whose values the result depends, ascending.
    fn deciding_parts(&self) -> Vec<usize> {
        let MatchPlan::Windows(windows) = self else { return Vec::new() };
        let open = windows.iter().filter(|window| window.groups.is_none());
        let deciding = |window: &Window| window.decision.as_ref().map_or(Vec::new(), |decision| decision.read.clone());
        let mut parts: Vec<usize> = open.flat_map(|window| [window.read.clone(), deciding(window)].concat()).collect();
        parts.sort_unstable();
        parts.dedup();
        parts
    }
}

/// The part of a template that contains all matches with a start position in some range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Start of the window's text: `start` or slightly before.
    pub context: TemplatePosition,
    /// First position at which a match of this window may start.
    pub start: TemplatePosition,
    /// End of the positions at which a match of this window may start.
    pub starts_end: TemplatePosition,
    /// End of the window's text.
    pub end: TemplatePosition,
    /// Parts of the window that are variables, in order.
    pub variables: Vec<usize>,
    /// The variables on whose values the requested groups depend, in order.
    pub read: Vec<usize>,
    /// The other variables, each with a valid value to use regardless of the actual one.
    pub fillers: Vec<(usize, Box<str>)>,
    /// Whether every text of the template has a match here.
    pub certain: bool,
    /// Positions of the requested groups if they do not depend on values; the expression need not run then.
    pub groups: Option<GroupRanges>,
    /// Tests whether there is a match; set if the groups have fixed positions in every match, but not every text has a
    /// match.
    pub decision: Option<Decision>,
    /// The variables on which the match and each requested group depend; set if several groups are requested and
    /// depend on values.
    pub group_dependence: Option<GroupDependence>,
}

impl Window {
    /// Last position of the template that is part of the window or one of its groups.
    pub fn last_position(&self) -> TemplatePosition {
        let positions = self.groups.iter().chain(self.decision.iter().map(|decision| &decision.positions));
        positions.flatten().flatten().map(|(_, end)| *end).fold(self.end, TemplatePosition::max)
    }

    /// The window relative to `origin`, which must not be after the window.
    pub fn relative_to(&self, origin: TemplatePosition) -> Window {
        let position = |position: TemplatePosition| position.relative_to(origin);
        let groups = |groups: &GroupRanges| {
            let moved = groups.iter().map(|group| group.map(|(start, end)| (position(start), position(end))));
            moved.collect::<GroupRanges>()
        };
        let parts = |parts: &[usize]| parts.iter().map(|part| part - origin.part).collect::<Vec<_>>();
        let fillers = |fillers: &[(usize, Box<str>)]| {
            fillers.iter().map(|(part, filler)| (part - origin.part, filler.clone())).collect::<Vec<_>>()
        };
        Window {
            context: position(self.context),
            start: position(self.start),
            starts_end: position(self.starts_end),
            end: position(self.end),
            variables: parts(&self.variables),
            read: parts(&self.read),
            fillers: fillers(&self.fillers),
            certain: self.certain,
            groups: self.groups.as_ref().map(groups),
            decision: self.decision.as_ref().map(|decision| Decision {
                positions: groups(&decision.positions),
                read: parts(&decision.read),
                fillers: fillers(&decision.fillers),
            }),
            group_dependence: self.group_dependence.as_ref().map(|apart| GroupDependence {
                matched: parts(&apart.matched),
                groups: apart.groups.iter().map(|group| parts(group)).collect(),
            }),
        }
    }

    /// Runs the expression on this window. The window's text is built in `text`: `value` appends the values of
    /// [`Window::read`] in order, fillers are used for the other variables. Returns the text if a match starts in the
    /// window; `captures` then holds the groups of the match, of which only the requested groups are meaningful.
    pub fn evaluate<'t>(
        &self,
        template: &FlatTemplate,
        regex: &Regex,
        value: impl FnMut(usize, &mut Vec<u8>),
        text: &'t mut Vec<u8>,
        captures: &mut Captures,
    ) -> Result<Option<&'t str>, Utf8Error> {
        let (start, starts_end) = self.fill(template, &self.fillers, value, text);
        let text = std::str::from_utf8(text)?;
        Ok(has_match_within(regex, text, start, starts_end, captures).then_some(text))
    }

    /// Builds the text; returns the byte offsets of `start` and `starts_end`.
    fn fill(
        &self,
        template: &FlatTemplate,
        fillers: &[(usize, Box<str>)],
        mut value: impl FnMut(usize, &mut Vec<u8>),
        text: &mut Vec<u8>,
    ) -> (usize, usize) {
        let (mut start, mut starts_end) = (0, None);
        text.clear();
        for part in self.context.part..=self.end.part {
            let first = if part == self.context.part { self.context.offset } else { 0 };
            let position = |position: TemplatePosition| {
                (position.part == part).then(|| text.len() + position.offset.saturating_sub(first))
            };
            start = position(self.start).unwrap_or(start);
            starts_end = starts_end.or(position(self.starts_end));
            if let Some(literal) = template.literal(part) {
                let last = if part == self.end.part { self.end.offset } else { literal.len() };
                text.extend_from_slice(literal.get(first..last).unwrap_or_default());
            } else if part < self.end.part {
                match fillers.iter().find(|(known, _)| *known == part) {
                    Some((_, filler)) => text.extend_from_slice(filler.as_bytes()),
                    None => value(part, text),
                }
            }
        }
        (start, starts_end.unwrap_or(text.len()))
    }
}

/// Whether a match begins within a range of a text; the range must begin at the start of a character.
fn has_match_within(regex: &Regex, text: &str, start: usize, starts_end: usize, captures: &mut Captures) -> bool {
    // Most windows allow a single start position, which is in a literal.
    if text.get(start..starts_end).is_some_and(|starts| starts.chars().nth(1).is_none() && !starts.is_empty()) {
        return regex.captures_starting_at(text, start, captures);
    }
    regex.captures_at(text, start, captures) && captures.get(0).is_some_and(|(found, _)| found < starts_end)
}

/// Plans one expression over templates.
#[derive(Debug)]
pub struct Planner {
    dfa: DFA,
    cache: Cache,
    nfa: NFA,
    /// Whether the expression has assertions: `^ $ \b`.
    looks: bool,
    /// Whether the expression has assertions about the text after a position: `$ \b`.
    looks_ahead: bool,
    /// Possible first bytes of a match.
    firsts: ByteSet,
    /// One byte of each equivalence class of the automaton.
    every_class: Vec<u8>,
    /// Cached results of the steps of attempts over variables.
    pass_cache: attempts::PassCache,
    /// Whether an attempt in this state has matched, whatever text follows.
    decided: HashMap<LazyStateID, bool, foldhash::fast::FixedState>,
    /// The bytes that change a state.
    exits: HashMap<LazyStateID, decision::StateExits, foldhash::fast::FixedState>,
    steps: usize,
    /// Steps spent on templates so far.
    spent: usize,
    /// Numbers of the requested groups.
    requested_groups: Vec<usize>,
    /// Steps spent so far on dependence analysis.
    dependence_steps: usize,
    /// Cached results of dependence analysis.
    dependence_cache: dependence::DependenceCache,
    /// Cached successors of configurations over single variables.
    outcome_cache: dependence::OutcomeCache,
    /// Cached beginnings of the runs of dependence analysis over templates.
    walk_prefixes: dependence::WalkPrefixes,
    /// Number of times the automaton's cache was cleared; state ids are valid only until the next time.
    cache_clears: usize,
    /// Plans of earlier templates, by the parts of the template on which they depend.
    plan_cache: PlanCache,
    /// Long lists of values, and lists of forms, seen so far; keys of caches refer to them by number.
    value_lists: Vec<Arc<[Box<str>]>>,
    form_lists: Vec<Arc<[ValueForm]>>,
    /// Number of templates of the current slab that could not be planned with listed values.
    failed_lists: usize,
}

/// A template exceeds the planner's limits.
#[derive(Debug)]
struct LimitExceeded;

impl Planner {
    /// A planner for these groups of the expression; `None` if it runs on PCRE2, can match the empty text, or is too
    /// large.
    pub fn new(regex: &Regex, wanted: impl IntoIterator<Item = usize>) -> Option<Planner> {
        Planner::of_texts(regex, wanted, false)
    }

    /// Like [`Planner::new`]; with `is_one_line`, for texts without line feeds only.
    pub fn of_texts(regex: &Regex, wanted: impl IntoIterator<Item = usize>, is_one_line: bool) -> Option<Planner> {
        let pattern = regex.linear_pattern()?;
        let tree = regex_automata::util::syntax::parse(pattern).ok()?;
        if tree.properties().minimum_len().is_none_or(|len| len == 0) {
            return None;
        }
        let wanted: Vec<usize> = wanted.into_iter().filter(|group| *group < regex.group_count()).collect();
        let tree = tail::without_tail(tree, &wanted, is_one_line);
        let looks = tree.properties().look_set();
        let looks_behind = LookSet::singleton(Look::Start).insert(Look::StartLF);
        let limits = regex_automata::nfa::thompson::Config::new().nfa_size_limit(Some(AUTOMATON_BYTES_MAX));
        let nfa = NFA::compiler().configure(limits).build_from_hir(&tree).ok()?;
        let lazy = DFA::config().cache_capacity(AUTOMATON_BYTES_MAX);
        let dfa = DFA::builder().configure(lazy).build_from_nfa(nfa.clone()).ok()?;
        let cache = dfa.create_cache();
        let mut planner = Planner {
            dfa,
            cache,
            nfa,
            looks: !looks.is_empty(),
            looks_ahead: !looks.subtract(looks_behind).is_empty(),
            firsts: ByteSet::EMPTY,
            every_class: Vec::new(),
            pass_cache: HashMap::default(),
            decided: HashMap::default(),
            exits: HashMap::default(),
            steps: 0,
            spent: 0,
            requested_groups: wanted,
            dependence_steps: 0,
            dependence_cache: HashMap::default(),
            outcome_cache: HashMap::default(),
            walk_prefixes: dependence::WalkPrefixes::default(),
            cache_clears: 0,
            plan_cache: PlanCache::default(),
            value_lists: Vec::new(),
            form_lists: Vec::new(),
            failed_lists: 0,
        };
        planner.every_class = planner.classes(ByteSet::from_words([u64::MAX; 4]));
        planner.firsts = planner.find_first_bytes().ok()?;
        Some(planner)
    }

    /// Plans the match for the texts of a template: the positions where matches are possible.
    pub fn plan(&mut self, template: &FlatTemplate) -> MatchPlan {
        if let Some(known) = self.plan_cache.find(&template.parts) {
            return known;
        }
        let reading = TemplateReader::new(&template.parts);
        let mut windows = self.find_windows(&reading);
        self.spent += self.steps;
        if self.reset_if_cleared() {
            // States of earlier templates filled the automaton's memory; retry with an empty cache.
            windows = self.find_windows(&reading);
            self.spent += self.steps;
            if self.reset_if_cleared() {
                return MatchPlan::Unknown;
            }
        }
        let plan = match windows {
            Err(LimitExceeded) => return MatchPlan::Unknown,
            Ok(windows) if windows.is_empty() => MatchPlan::Never,
            Ok(windows) => MatchPlan::Windows(windows),
        };
        self.plan_cache.add(&reading, &plan);
        plan
    }

    /// Like [`Planner::plan`]. If the match depends on variables whose values `list` knows, the template is planned
    /// again with these values in place of bounds: `\d+ms` matches `12ms` and `7ms`, but not every text of their bytes.
    pub fn plan_with_values(&mut self, template: &FlatTemplate, list: &mut ValueLists<'_>) -> MatchPlan {
        let plan = self.plan(template);
        if self.failed_lists >= FAILED_LISTS_MAX {
            return plan;
        }
        match template.with_listed_values(&plan.deciding_parts(), list) {
            None => plan,
            Some(listed) => match self.plan(&listed) {
                MatchPlan::Unknown => {
                    self.failed_lists += 1;
                    plan
                }
                exact => exact,
            },
        }
    }

    /// Discards everything that refers to states if the automaton's cache was cleared, because state ids are then
    /// invalid; returns whether it was cleared.
    fn reset_if_cleared(&mut self) -> bool {
        let cleared = self.cache.clear_count() > 0;
        if cleared {
            self.cache_clears += 1;
            self.cache.reset(&self.dfa);
            self.decided.clear();
            self.exits.clear();
            self.pass_cache.clear();
        }
        cleared
    }

    fn find_windows(&mut self, template: &TemplateReader<'_>) -> Result<Vec<Window>, LimitExceeded> {
        self.steps = 0;
        let mut windows: Vec<Window> = Vec::new();
        // Furthest end of the failed attempts. In the text of a window that ends before this position, the assertions
        // of a failed attempt (`$`, `\b`) could see a false end of text.
        let mut failed_end = TemplatePosition { part: 0, offset: 0 };
        let mut next = 0;
        while let Some(kind) = template.part(next) {
            let part = next;
            next += 1;
            let positions = match kind {
                FlatPart::Literal(bytes) => bytes.len(),
                FlatPart::Variable(..) => 1,
            };
            for offset in 0..positions {
                let start = TemplatePosition { part, offset };
                let starts = match kind {
                    FlatPart::Literal(bytes) => self.firsts.contains(bytes[offset]),
                    FlatPart::Variable(_, traits) => self.firsts.intersects(traits.bytes),
                };
                if !starts {
                    continue;
                }
                if let FlatPart::Literal(bytes) = kind
                    && let Some(end) = self.failed_in_literal(bytes, start)?
                {
                    failed_end = failed_end.max(end);
                    continue;
                }
                let attempt = self.attempt(template, start)?;
                if !attempt.matched {
                    failed_end = failed_end.max(attempt.end);
                    continue;
                }
                let window = self.window(template, start, &attempt);
                let certain = window.certain;
                let cut = self.looks && windows.last().is_some_and(|last| failed_end > last.end.max(window.end));
                match windows.last_mut() {
                    Some(last) if !cut && should_merge(template, last, &window) => {
                        merge_windows(template, last, &window)
                    }
                    _ => {
                        windows.push(window);
                        failed_end = start;
                    }
                }
                if certain {
                    self.find_dependence(template, &mut windows);
                    return Ok(windows);
                }
            }
        }
        self.find_dependence(template, &mut windows);
        Ok(windows)
    }

    /// The window of the attempts that start at one byte of a literal, or anywhere in a variable.
    fn window(&self, template: &TemplateReader<'_>, start: TemplatePosition, attempt: &Attempt) -> Window {
        let starts_end = match template.literal(start.part) {
            Some(bytes) if start.offset + 1 < bytes.len() => {
                TemplatePosition { part: start.part, offset: start.offset + 1 }
            }
            _ => TemplatePosition { part: start.part + 1, offset: 0 },
        };
        let context = self.context(template, start);
        let variables = template.variables(context, attempt.end);
        Window {
            context,
            start,
            starts_end,
            end: attempt.end,
            read: variables.clone(),
            variables,
            fillers: Vec::new(),
            certain: attempt.certain,
            groups: None,
            decision: None,
            group_dependence: None,
        }
    }

    /// Bytes with which an attempt can start, whatever precedes it. Bytes inside a character are excluded, because
    /// expressions match whole characters.
    fn find_first_bytes(&mut self) -> Result<ByteSet, LimitExceeded> {
        let mut starts = vec![self.start_state(None)?];
        if self.looks {
            for at in 0..self.every_class.len() {
                starts.push(self.start_state(Some(self.every_class[at]))?);
            }
        }
        starts.sort_unstable();
        starts.dedup();
        let mut firsts = ByteSet::EMPTY;
        for byte in (0..=u8::MAX).filter(|byte| byte & 0xc0 != 0x80) {
            for start in &starts {
                if !start.is_dead() && !self.next(*start, byte)?.is_dead() {
                    firsts.insert(byte);
                    break;
                }
            }
        }
        Ok(firsts)
    }

    /// Start of the context that the expression needs to look behind a position.
    fn context(&self, template: &TemplateReader<'_>, start: TemplatePosition) -> TemplatePosition {
        if !self.looks || start.part == 0 && start.offset == 0 {
            return start;
        }
        let mut part = start.part;
        let mut offset = start.offset;
        if offset == 0 {
            part -= 1;
            // Parts before a possibly empty variable are also included.
            while part > 0 && matches!(template.part(part), Some(FlatPart::Variable(_, traits)) if traits.min_len == 0)
            {
                part -= 1;
            }
            offset = template.literal(part).map_or(0, <[u8]>::len);
        }
        let Some(bytes) = template.literal(part) else { return TemplatePosition { part, offset: 0 } };
        offset -= 1;
        while offset > 0 && is_inside_character(bytes, offset) {
            offset -= 1;
        }
        TemplatePosition { part, offset }
    }

    /// Total automaton steps so far, the cost of planning.
    pub fn steps_spent(&self) -> usize {
        self.spent + self.dependence_steps * DEPENDENCE_STEP_COST
    }

    /// Whether text around a match can affect whether there is one.
    pub fn looks_around(&self) -> bool {
        self.looks
    }

    /// Whether text after a match can affect whether there is one.
    pub fn looks_ahead(&self) -> bool {
        self.looks_ahead
    }

    /// The steps over bytes of a value that consists of whole characters.
    fn byte_steps(&self, bytes: ByteSet) -> ByteSteps {
        ByteSteps::new(bytes, |bytes| self.classes(bytes))
    }

    /// One byte of each class in the set.
    fn classes(&self, bytes: ByteSet) -> Vec<u8> {
        let mut seen = ByteSet::EMPTY;
        let mut representatives = Vec::new();
        let classes = self.dfa.byte_classes();
        // Consecutive bytes usually belong to one class.
        let mut last = None;
        for (at, word) in bytes.words().into_iter().enumerate() {
            let mut left = word;
            while left != 0 {
                let byte = u8_of(at * 64 + left.trailing_zeros() as usize);
                left &= left - 1;
                let class = classes.get(byte);
                if last.replace(class) != Some(class) && !seen.contains(class) {
                    seen.insert(class);
                    representatives.push(byte);
                }
            }
        }
        representatives
    }
}

/// Whether two adjacent windows are better merged, because the merged window needs no more values than one of them.
fn should_merge(template: &TemplateReader<'_>, first: &Window, second: &Window) -> bool {
    let variables = template.variables(first.context.min(second.context), first.end.max(second.end)).len();
    variables <= first.variables.len().max(second.variables.len())
}

fn merge_windows(template: &TemplateReader<'_>, first: &mut Window, second: &Window) {
    first.context = first.context.min(second.context);
    first.starts_end = second.starts_end;
    first.end = first.end.max(second.end);
    first.variables = template.variables(first.context, first.end);
    first.read = first.variables.clone();
    first.certain |= second.certain;
}

fn intersection(first: ByteSet, second: ByteSet) -> ByteSet {
    let [a, b, c, d] = first.words();
    let [e, f, g, h] = second.words();
    ByteSet::from_words([a & e, b & f, c & g, d & h])
}

/// Length of the common prefix of two values.
fn shared_prefix(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Whether the byte continues a character.
fn is_inside_character(bytes: &[u8], offset: usize) -> bool {
    bytes.get(offset).is_some_and(|byte| byte & 0xc0 == 0x80)
}

#[cfg(test)]
mod tests;
