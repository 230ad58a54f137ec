//! Words, phrases and wildcard words on templates and columns instead of text.
//!
//! A match lies in a literal, in the value of a slot, or across an edge between them. Literals and dictionary texts are
//! looked at once per slab, numbers and plain texts once per page, and only if the bytes of their column allow a match
//! at all. What may lie across an edge, or is bounded by bytes that are not known, is a *maybe*: the rows are then
//! decided by their text. Nothing here says yes or no where the text could say otherwise.
//!
//! Percent-encoded breakers (`%20`) make a bound depend on bytes further away. Where one may be near, only maybe is said.

use std::sync::Arc;

use quarry_event::segment::{WordBound, WordPattern, is_breaker, is_major};
use quarry_event::shape::{
    ByteSet, Column, ColumnKind, ColumnValues, NumberFormat, Part, Shapes, Template, TimeLayout, ValueTraits,
};
use quarry_store::Segment;

use super::outcome::{MAYBE, NO, Outcome, YES};
use super::page::PageReader;
use crate::EngineError;

/// Bytes a percent-encoded breaker has at most.
const PERCENT_REACH: u32 = 5;
/// What can follow the `%` of an encoded breaker.
const PERCENT_NEXT: ByteSet = ByteSet::of(b"02357");
/// A byte no pattern holds and that is no breaker.
const STRANGER: u8 = 0xff;

/// A word to look for.
#[derive(Clone, Debug)]
pub(super) struct Word {
    probes: Vec<Probe>,
    /// Only the text can tell.
    opaque: bool,
}

/// A run of bytes without wildcards.
#[derive(Clone, Debug)]
struct Probe {
    needle: Box<[u8]>,
    fold: bool,
    /// Finds it anywhere.
    occurs: WordPattern,
    /// The whole pattern, if this is all of it.
    whole: Option<Whole>,
}

#[derive(Clone, Debug)]
struct Whole {
    pattern: WordPattern,
    bound: WordBound,
    leading_star: bool,
    trailing_star: bool,
}

/// What surrounds a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Around {
    /// A match may begin where the value does.
    left: bool,
    /// A match may end where the value does.
    right: bool,
    /// No percent-encoded breaker is near.
    free: bool,
}

/// How one probe is answered for a column in one slab.
#[derive(Debug)]
enum Node {
    /// The same for every value.
    Same(u8),
    /// By the code of the text.
    Codes(Vec<u8>),
    /// Number by number: this one only, or none.
    Equals(i64),
    /// Value by value.
    Each(Around),
    /// By the template, and by the slots' values where these say more.
    Templates { base: Vec<u8>, children: Vec<Child> },
}

#[derive(Debug)]
struct Child {
    column: u32,
    around: Around,
    node: Node,
    /// For which templates it counts.
    counts: Vec<bool>,
}

/// How a word is answered in one slab.
#[derive(Debug)]
pub(super) struct WordPlan {
    nodes: Vec<Node>,
}

impl Word {
    /// A word as the search has it.
    pub(super) fn new(pattern: &str, bound: WordBound, case_sensitive: bool) -> Word {
        let texts: Vec<&str> = pattern.split('*').filter(|part| !part.is_empty()).collect();
        let fold = !case_sensitive;
        let whole = Whole {
            pattern: WordPattern::new(pattern, bound, case_sensitive),
            bound,
            leading_star: pattern.starts_with('*'),
            trailing_star: pattern.ends_with('*'),
        };
        let alone = texts.len() == 1;
        let probes = texts.iter().map(|text| Probe {
            needle: text.as_bytes().into(),
            fold,
            occurs: WordPattern::new(&format!("*{text}*"), WordBound::Whole, case_sensitive),
            whole: alone.then(|| whole.clone()),
        });
        // Letters beyond ASCII change their bytes with their case.
        Word { probes: probes.collect(), opaque: fold && !pattern.is_ascii() }
    }

    /// How it is answered in a slab.
    pub(super) fn plan(&self, shapes: &Shapes, segment: &dyn Segment) -> Result<WordPlan, EngineError> {
        if self.opaque {
            return Ok(WordPlan { nodes: vec![Node::Same(MAYBE)] });
        }
        let nodes = self.probes.iter().map(|probe| {
            let around = Around { left: true, right: true, free: true };
            Planner { probe, shapes, segment }.node(0, around)
        });
        Ok(WordPlan { nodes: nodes.collect::<Result<_, _>>()? })
    }

    /// The answer for every event of a page.
    pub(super) fn run(&self, plan: &WordPlan, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        // No probe: an empty word is in every text.
        let mut all = Outcome::Same(YES);
        for (at, node) in plan.nodes.iter().enumerate() {
            if all.is_same(NO) {
                break;
            }
            let found = match self.probes.get(at) {
                Some(probe) => probe.run(node, 0, page)?,
                None => Outcome::Same(MAYBE),
            };
            all = all.and(found);
        }
        Ok(all)
    }
}

impl Probe {
    fn is(&self, mine: u8, byte: u8) -> bool {
        mine == byte || (self.fold && mine.eq_ignore_ascii_case(&byte))
    }

    fn in_set(&self, mine: u8, set: ByteSet) -> bool {
        set.contains(mine)
            || (self.fold && (set.contains(mine.to_ascii_lowercase()) || set.contains(mine.to_ascii_uppercase())))
    }

    /// Whether a value with these traits can hold it.
    fn fits(&self, traits: &ValueTraits) -> bool {
        self.needle.len() <= traits.max_len as usize && self.needle.iter().all(|byte| self.in_set(*byte, traits.bytes))
    }

    /// The answer for a text between what is `around`; `scratch` is free to use.
    fn answer(&self, text: &[u8], around: Around, scratch: &mut Vec<u8>) -> u8 {
        if text.len() < self.needle.len() || !self.occurs.is_match(text) {
            return NO;
        }
        let Some(whole) = &self.whole else { return MAYBE };
        if whole.leading_star && whole.trailing_star {
            return YES;
        }
        if !around.free {
            return MAYBE;
        }
        let is_sure = if around.left && around.right {
            whole.pattern.is_match(text)
        } else {
            scratch.clear();
            scratch.extend((!around.left).then_some(STRANGER));
            scratch.extend_from_slice(text);
            scratch.extend((!around.right).then_some(STRANGER));
            whole.pattern.is_match(scratch)
        };
        if is_sure {
            return YES;
        }
        // The ends of the value may be bounds after all.
        let open =
            whole.bound != WordBound::Breaker || (!(around.left && around.right) && whole.pattern.is_match(text));
        if open { MAYBE } else { NO }
    }

    fn run(&self, node: &Node, column: u32, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        Ok(match node {
            Node::Same(answer) => Outcome::Same(*answer),
            Node::Codes(answers) => match &page.column(column)?.values {
                ColumnValues::Codes(codes) => Outcome::by_code(codes, answers),
                _ => Outcome::Same(MAYBE),
            },
            Node::Equals(wanted) => match &page.column(column)?.values {
                ColumnValues::Numbers(numbers) => {
                    Outcome::Each(numbers.iter().map(|number| if number == wanted { YES } else { NO }).collect())
                }
                _ => Outcome::Same(MAYBE),
            },
            Node::Each(around) => self.each(column, *around, page)?,
            Node::Templates { base, children } => {
                let values = page.column(column)?;
                let ColumnValues::Codes(codes) = &values.values else { return Ok(Outcome::Same(MAYBE)) };
                let mut all = Outcome::by_code(codes, base);
                for child in children {
                    if all.is_same(YES) {
                        break;
                    }
                    let found = self.run(&child.node, child.column, page)?;
                    if found.is_same(NO) {
                        continue;
                    }
                    let of_child = page.column(child.column)?;
                    let mut each = all.into_each(codes.len());
                    for (place, answer) in found.above_no(of_child.values.len()) {
                        let row = of_child.rows.as_ref().map_or(place as u32, |rows| rows[place]);
                        let Some(at) = values.place(row) else { continue };
                        if child.counts.get(codes[at] as usize).copied().unwrap_or(true) {
                            each[at] = each[at].max(answer);
                        }
                    }
                    all = Outcome::Each(each);
                }
                all
            }
        })
    }

    /// Looks at every value of a page.
    fn each(&self, column: u32, around: Around, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        let values = page.column(column)?;
        let mut scratch = Vec::new();
        Ok(match (&values.values, &page.shapes().columns[column as usize].kind) {
            (ColumnValues::Numbers(numbers), ColumnKind::Numbers { format, .. }) => {
                let mut text = Vec::new();
                let answers = numbers.iter().map(|number| {
                    text.clear();
                    format.write(*number, &mut text);
                    self.answer(&text, around, &mut scratch)
                });
                Outcome::Each(answers.collect())
            }
            (ColumnValues::Texts { bytes, ends }, _) => {
                // All texts at once first: most pages hold no match.
                if !self.occurs.is_match(bytes) {
                    return Ok(Outcome::Same(NO));
                }
                let mut start = 0;
                let answers = ends.iter().map(|end| {
                    let text = &bytes[start..*end as usize];
                    start = *end as usize;
                    self.answer(text, around, &mut scratch)
                });
                Outcome::Each(answers.collect())
            }
            _ => Outcome::Same(MAYBE),
        })
    }
}

/// Makes the nodes of one probe.
struct Planner<'a> {
    probe: &'a Probe,
    shapes: &'a Shapes,
    segment: &'a dyn Segment,
}

impl Planner<'_> {
    fn node(&self, column: u32, around: Around) -> Result<Node, EngineError> {
        let Some(Column { kind, traits, .. }) = self.shapes.columns.get(column as usize) else {
            return Ok(Node::Same(MAYBE));
        };
        if !self.probe.fits(traits) {
            return Ok(Node::Same(NO));
        }
        let around = Around { free: around.free && column_is_free(self.shapes, column), ..around };
        match kind {
            ColumnKind::Templates(templates) => self.templates(templates, around),
            ColumnKind::Dictionary { .. } => {
                let texts = self.segment.dictionary(column)?;
                let mut scratch = Vec::new();
                let answers: Vec<u8> = texts.iter().map(|text| self.probe.answer(text, around, &mut scratch)).collect();
                Ok(match answers.first() {
                    Some(first) if answers.iter().all(|answer| answer == first) => Node::Same(*first),
                    _ => Node::Codes(answers),
                })
            }
            ColumnKind::Numbers { format, min, .. } => Ok(self.numbers(*format, *min, around)),
            ColumnKind::Texts => Ok(Node::Each(around)),
        }
    }

    /// Digits are sought in numbers without writing these where nothing in a number bounds a word.
    fn numbers(&self, format: NumberFormat, min: i64, around: Around) -> Node {
        let needle = &self.probe.needle;
        let digits = needle.iter().all(u8::is_ascii_digit);
        if let NumberFormat::Time(layout) = format
            && digits
            && needle.len() > longest_run(layout)
        {
            return Node::Same(NO);
        }
        let is_one_word = match format {
            NumberFormat::Integer => min >= 0,
            NumberFormat::Padded { .. } | NumberFormat::Hex { .. } => true,
            // Four parts cannot begin anywhere else.
            NumberFormat::Ip4 => format.parse(needle).is_some(),
            _ => false,
        };
        let is_word = self
            .probe
            .whole
            .as_ref()
            .is_some_and(|whole| whole.bound == WordBound::Breaker && !whole.leading_star && !whole.trailing_star);
        if !(is_one_word && is_word && around.left && around.right && around.free) {
            return Node::Each(around);
        }
        let needle = if self.probe.fold { needle.to_ascii_lowercase() } else { needle.to_vec() };
        format.parse(&needle).map_or(Node::Same(NO), Node::Equals)
    }

    fn templates(&self, templates: &[Template], around: Around) -> Result<Node, EngineError> {
        let mut base = vec![NO; templates.len()];
        let mut children: Vec<Child> = Vec::new();
        let mut scratch = Vec::new();
        for (number, template) in templates.iter().enumerate() {
            let edges = Edges { shapes: self.shapes, parts: &template.parts, around };
            let mut answer = if self.may_straddle(&edges) { MAYBE } else { NO };
            for (at, part) in template.parts.iter().enumerate() {
                if let Part::Literal(literal) = part {
                    answer = answer.max(self.probe.answer(literal, self.around(&edges, at), &mut scratch));
                }
            }
            base[number] = answer;
            if answer == YES {
                continue;
            }
            for (at, part) in template.parts.iter().enumerate() {
                let Part::Slot(column) = part else { continue };
                let inside = self.around(&edges, at);
                let known = children.iter().position(|child| (child.column, child.around) == (*column, inside));
                let child = match known {
                    Some(known) => &mut children[known],
                    None => {
                        let node = self.node(*column, inside)?;
                        let counts = vec![false; templates.len()];
                        children.push(Child { column: *column, around: inside, node, counts });
                        let last = children.len() - 1;
                        &mut children[last]
                    }
                };
                match &child.node {
                    Node::Same(same) => base[number] = base[number].max(*same),
                    _ => child.counts[number] = true,
                }
            }
        }
        children.retain(|child| child.counts.contains(&true));
        Ok(match base.first() {
            Some(first) if children.is_empty() && base.iter().all(|answer| answer == first) => Node::Same(*first),
            _ => Node::Templates { base, children },
        })
    }

    /// What is around part `at` of a template.
    fn around(&self, edges: &Edges<'_>, at: usize) -> Around {
        let bound = self.probe.whole.as_ref().map_or(WordBound::Breaker, |whole| whole.bound);
        let breaks = |byte: u8| if bound == WordBound::Major { is_major(byte) } else { is_breaker(byte) };
        let all = |set: ByteSet| set.iter().all(breaks);
        let (before, open_start) = edges.bytes_before(at);
        let (after, open_end) = edges.bytes_after(at + 1);
        let (firsts, lasts, filled) = edges.own(at);
        Around {
            left: (all(before) && (!open_start || edges.around.left)) || (filled && all(firsts)),
            right: (all(after) && (!open_end || edges.around.right)) || (filled && all(lasts)),
            free: edges.is_free(at),
        }
    }

    /// Whether a match can lie across an edge.
    fn may_straddle(&self, edges: &Edges<'_>) -> bool {
        let needle = &self.probe.needle;
        (1..edges.parts.len()).any(|edge| {
            (1..needle.len())
                .any(|cut| self.may_end(edges, edge - 1, &needle[..cut]) && self.may_begin(edges, edge, &needle[cut..]))
        })
    }

    /// Whether the text up to part `at` can end with `head`.
    fn may_end(&self, edges: &Edges<'_>, at: usize, head: &[u8]) -> bool {
        match &edges.parts[at] {
            Part::Literal(literal) => {
                head.iter().rev().zip(literal.iter().rev()).all(|(mine, byte)| self.probe.is(*mine, *byte))
            }
            Part::Slot(column) => {
                let traits = edges.traits(*column);
                let (lasts, _) = edges.bytes_before(at + 1);
                let sure = head.len().min(traits.min_len as usize);
                head.last().is_some_and(|last| self.probe.in_set(*last, lasts))
                    && head[head.len() - sure..].iter().all(|byte| self.probe.in_set(*byte, traits.bytes))
            }
        }
    }

    /// Whether the text from part `at` on can begin with `tail`.
    fn may_begin(&self, edges: &Edges<'_>, at: usize, tail: &[u8]) -> bool {
        match &edges.parts[at] {
            Part::Literal(literal) => tail.iter().zip(literal.iter()).all(|(mine, byte)| self.probe.is(*mine, *byte)),
            Part::Slot(column) => {
                let traits = edges.traits(*column);
                let (firsts, _) = edges.bytes_after(at);
                let sure = tail.len().min(traits.min_len as usize);
                tail.first().is_some_and(|first| self.probe.in_set(*first, firsts))
                    && tail[..sure].iter().all(|byte| self.probe.in_set(*byte, traits.bytes))
            }
        }
    }
}

/// Most digits in a row.
fn longest_run(layout: TimeLayout) -> usize {
    match layout {
        TimeLayout::Iso { digits, .. } => usize::from(digits).max(4),
        TimeLayout::Common => 4,
        TimeLayout::Clock => 2,
    }
}

/// The edges of a template's parts.
struct Edges<'a> {
    shapes: &'a Shapes,
    parts: &'a [Part],
    around: Around,
}

impl<'a> Edges<'a> {
    fn traits(&self, column: u32) -> &'a ValueTraits {
        &self.shapes.columns[column as usize].traits
    }

    /// First and last bytes of a part, and whether it is never empty.
    fn own(&self, at: usize) -> (ByteSet, ByteSet, bool) {
        match &self.parts[at] {
            Part::Literal(literal) => match (literal.first(), literal.last()) {
                (Some(first), Some(last)) => (ByteSet::of(&[*first]), ByteSet::of(&[*last]), true),
                _ => (ByteSet::EMPTY, ByteSet::EMPTY, false),
            },
            Part::Slot(column) => {
                let traits = self.traits(*column);
                (traits.firsts, traits.lasts, traits.min_len > 0)
            }
        }
    }

    /// Bytes that can stand before part `at`, and whether it can also be the start.
    fn bytes_before(&self, at: usize) -> (ByteSet, bool) {
        let mut set = ByteSet::EMPTY;
        for before in (0..at).rev() {
            let (_, lasts, filled) = self.own(before);
            set = set.union(lasts);
            if filled {
                return (set, false);
            }
        }
        (set, true)
    }

    /// Bytes that part `at` or what follows can begin with, and whether it can also be the end.
    fn bytes_after(&self, at: usize) -> (ByteSet, bool) {
        let mut set = ByteSet::EMPTY;
        for after in at..self.parts.len() {
            let (firsts, _, filled) = self.own(after);
            set = set.union(firsts);
            if filled {
                return (set, false);
            }
        }
        (set, true)
    }

    /// Whether no percent-encoded breaker is in part `at` or shortly before it.
    fn is_free(&self, at: usize) -> bool {
        let mut length = 0;
        for before in (0..=at).rev() {
            if !part_is_free(self, before) {
                return false;
            }
            if before < at {
                length += match &self.parts[before] {
                    Part::Literal(literal) => literal.len() as u32,
                    Part::Slot(column) => self.traits(*column).min_len,
                };
            }
            if length >= PERCENT_REACH {
                return true;
            }
        }
        self.around.free
    }
}

/// Whether no `%` of a part begins an encoded breaker. One at the very end of a column is its parent's affair.
fn part_is_free(edges: &Edges<'_>, at: usize) -> bool {
    let ends_free = || !edges.bytes_after(at + 1).0.meets(PERCENT_NEXT);
    match &edges.parts[at] {
        Part::Literal(literal) => memchr::memchr_iter(b'%', literal)
            .all(|place| literal.get(place + 1).map_or_else(ends_free, |next| !PERCENT_NEXT.contains(*next))),
        Part::Slot(column) => {
            let traits = edges.traits(*column);
            column_is_free(edges.shapes, *column) && (!traits.lasts.contains(b'%') || ends_free())
        }
    }
}

/// Whether no value of a column holds what may be an encoded breaker.
fn column_is_free(shapes: &Shapes, column: u32) -> bool {
    let column = &shapes.columns[column as usize];
    if !column.traits.bytes.contains(b'%') {
        return true;
    }
    let ColumnKind::Templates(templates) = &column.kind else { return false };
    let around = Around { left: true, right: true, free: true };
    templates.iter().all(|template| {
        let edges = Edges { shapes, parts: &template.parts, around };
        (0..template.parts.len()).all(|at| part_is_free(&edges, at))
    })
}

/// Shared plans of one slab.
pub(super) type SharedPlan = Arc<WordPlan>;
