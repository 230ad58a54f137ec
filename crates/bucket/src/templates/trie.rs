//! Templates of one column as a trie of literals, so that the template and the variables of a text are found by one
//! search with little backtracking.
//!
//! A node is the position before a literal. Each edge is a literal followed either by a variable, whose kind and column
//! the edge stores, or by the end of the text. A lookup follows the edges whose literal comes next in the text, and
//! backtracks if no edge of a node fits. A lookup only compares bytes; it neither splits nor hashes the text. An edge
//! that matches moves towards the front, so that frequent edges are tried first. Strict lookups normally accept
//! only chunks with a digit as values. A variable that has had `LOOSE_VALUES_MIN` other chunks is exempt, so that its
//! texts are not looked up twice.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use quarry_stdx::number::u32_of;

use super::classes::texts_equal;
use super::variables::{Variable, VariableKind, variable_end};

/// Number of edges tried before a text counts as unknown.
const TRIED_EDGES_MAX: u32 = 96;
/// Number of chunks without a digit after which a variable accepts such chunks in strict lookups too.
const LOOSE_VALUES_MIN: u8 = 4;

/// Range of a value in the text that contains it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) len: u32,
}

impl Span {
    #[inline]
    pub(super) fn of(self, base: &[u8]) -> &[u8] {
        &base[self.range()]
    }

    #[inline]
    pub(super) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

/// A variable found by the trie: its column and its range in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundVariable {
    pub(super) column: u32,
    pub(super) start: u32,
    pub(super) end: u32,
}

impl FoundVariable {
    #[inline]
    pub(super) fn new(column: u32, start: usize, end: usize) -> FoundVariable {
        FoundVariable { column, start: u32_of(start), end: u32_of(end) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    End { template: u32 },
    Variable { kind: VariableKind, column: u32, node: u32 },
}

#[derive(Debug)]
struct Edge {
    /// First eight bytes of the literal, and a mask of the bytes that exist.
    head: u64,
    mask: u64,
    /// Last eight bytes of the literal, if it has that many.
    tail: u64,
    literal: Box<[u8]>,
    target: Target,
    /// Number of chunks without digits found by lookups that are not strict, up to [`LOOSE_VALUES_MIN`].
    loose_values: u8,
}

#[derive(Debug, Default)]
struct TrieNode {
    edges: Vec<Edge>,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    node: u32,
    edge: u32,
    at: u32,
}

/// A template given by its literals: one before each variable and one at the end.
#[derive(Debug)]
struct LiteralSkeleton {
    literals: Box<[Box<[u8]>]>,
    /// Family of each variable ([`VariableKind::family`]); variables of different families have different columns.
    families: Box<[u8]>,
    columns: Box<[u32]>,
    template: u32,
}

impl LiteralSkeleton {
    fn matches(&self, text: &[u8], variables: &[Variable]) -> bool {
        self.columns.len() == variables.len()
            && self.families.iter().zip(variables).all(|(family, variable)| *family == variable.kind.family())
            && self.literals.iter().zip(literals(text, variables)).all(|(mine, literal)| texts_equal(mine, literal))
    }
}

/// The literals before each variable and after the last variable.
fn literals<'t>(text: &'t [u8], variables: &'t [Variable]) -> impl Iterator<Item = &'t [u8]> {
    let starts = std::iter::once(0).chain(variables.iter().map(|variable| variable.end));
    let ends = variables.iter().map(|variable| variable.start).chain(std::iter::once(text.len()));
    starts.zip(ends).map(|(start, end)| &text[start..end])
}

fn skeleton_hash(text: &[u8], variables: &[Variable]) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    literals(text, variables).for_each(|literal| {
        hasher.write(literal);
        hasher.write_u8(0xff);
    });
    hasher.finish()
}

/// Templates of one column.
#[derive(Debug)]
pub(super) struct Trie {
    nodes: Vec<TrieNode>,
    skeletons: HashMap<u64, Vec<LiteralSkeleton>, FixedState>,
    steps: Vec<Step>,
}

impl Trie {
    pub(super) fn new() -> Trie {
        Trie { nodes: vec![TrieNode::default()], skeletons: HashMap::default(), steps: Vec::new() }
    }

    /// The template of a text, with its variables in `filled`. `strict` is as in [`variable_end`], except for
    /// variables that often have chunks without digits.
    #[inline]
    pub(super) fn find(&mut self, text: &[u8], strict: bool, filled: &mut Vec<FoundVariable>) -> Option<u32> {
        let mut tries = TRIED_EDGES_MAX;
        filled.clear();
        self.steps.clear();
        let (mut node, mut edge, mut at) = (0u32, 0u32, 0usize);
        loop {
            let found = self.next_edge(text, node, edge, at, strict, &mut tries);
            match found {
                Some((edge, EdgeMatch::End(template))) => {
                    self.steps.push(Step { node, edge, at: u32_of(at) });
                    if !strict {
                        self.count_loose_values(text, filled);
                    }
                    self.promote();
                    return Some(template);
                }
                Some((edge, EdgeMatch::Variable { column, start, end, node: next })) => {
                    self.steps.push(Step { node, edge, at: u32_of(at) });
                    filled.push(FoundVariable::new(column, start, end));
                    node = next;
                    at = end;
                }
                None => {
                    let step = self.steps.pop()?;
                    filled.pop();
                    (node, at) = (step.node, step.at as usize);
                    edge = step.edge + 1;
                    continue;
                }
            }
            edge = 0;
        }
    }

    /// The first edge of the node, at or after `edge`, whose literal and variable match the text at `at`.
    #[inline]
    fn next_edge(
        &self,
        text: &[u8],
        node: u32,
        edge: u32,
        at: usize,
        strict: bool,
        tries: &mut u32,
    ) -> Option<(u32, EdgeMatch)> {
        let rest = &text[at..];
        let head = first_eight_bytes(rest);
        for (place, edge) in (edge..).zip(self.nodes[node as usize].edges.iter().skip(edge as usize)) {
            *tries = tries.checked_sub(1)?;
            if (head ^ edge.head) & edge.mask != 0 {
                continue;
            }
            let literal = &*edge.literal;
            match edge.target {
                Target::End { template } if bytes_equal(rest, literal) => {
                    return Some((place, EdgeMatch::End(template)));
                }
                Target::Variable { kind, column, node } if edge.matches_rest(rest) => {
                    let start = at + literal.len();
                    if start >= text.len() {
                        continue;
                    }
                    let strict = strict && edge.loose_values < LOOSE_VALUES_MIN;
                    if let Some(end) = variable_end(kind, text, start, strict) {
                        return Some((place, EdgeMatch::Variable { column, start, end, node }));
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Counts the chunks of the found text that a strict lookup does not accept as variables.
    fn count_loose_values(&mut self, text: &[u8], filled: &[FoundVariable]) {
        for (step, found) in self.steps.iter().zip(filled) {
            let edge = &mut self.nodes[step.node as usize].edges[step.edge as usize];
            if let Target::Variable { kind: kind @ VariableKind::Chunk, .. } = edge.target
                && edge.loose_values < LOOSE_VALUES_MIN
                && variable_end(kind, text, found.start as usize, true).is_none()
            {
                edge.loose_values += 1;
            }
        }
    }

    #[inline]
    fn promote(&mut self) {
        for step in &self.steps {
            if step.edge > 0 {
                self.nodes[step.node as usize].edges.swap(step.edge as usize, step.edge as usize - 1);
            }
        }
    }

    /// The template that has the same literals and variable families as this text; fills `filled`. The template is
    /// found by a hash of the literals instead of the trie, because with free text, the first node has a great many
    /// edges.
    pub(super) fn find_skeleton(
        &self,
        text: &[u8],
        variables: &[Variable],
        filled: &mut Vec<FoundVariable>,
    ) -> Option<u32> {
        filled.clear();
        let candidates = self.skeletons.get(&skeleton_hash(text, variables))?;
        let found = candidates.iter().find(|skeleton| skeleton.matches(text, variables))?;
        let columns = found.columns.iter().zip(variables);
        filled.extend(columns.map(|(column, variable)| FoundVariable::new(*column, variable.start, variable.end)));
        Some(found.template)
    }

    fn variable_edge(&self, node: u32, literal: &[u8], variable: VariableKind) -> Option<&Edge> {
        let head = first_eight_bytes(literal);
        self.nodes[node as usize].edges.iter().find(|edge| {
            edge.head == head
                && *edge.literal == *literal
                && matches!(edge.target, Target::Variable { kind, .. } if kind == variable)
        })
    }

    /// The columns of the first variables, up to where this text differs from the templates that begin like it.
    pub(super) fn shared_columns(&self, text: &[u8], variables: &[Variable]) -> Vec<u32> {
        let (mut node, mut at, mut columns) = (0u32, 0, Vec::new());
        for variable in variables {
            let known = self.variable_edge(node, &text[at..variable.start], variable.kind).map(|edge| edge.target);
            let Some(Target::Variable { column, node: next, .. }) = known else { break };
            columns.push(column);
            (node, at) = (next, variable.end);
        }
        columns
    }

    /// Adds a template whose variables belong to these columns. Templates that begin alike share edges, so the caller
    /// must give them the same columns up to where they differ.
    pub(super) fn insert(&mut self, text: &[u8], variables: &[Variable], columns: &[u32], template: u32) {
        let skeleton = LiteralSkeleton {
            literals: literals(text, variables).map(Box::from).collect(),
            families: variables.iter().map(|variable| variable.kind.family()).collect(),
            columns: columns.into(),
            template,
        };
        self.skeletons.entry(skeleton_hash(text, variables)).or_default().push(skeleton);
        let (mut node, mut at) = (0u32, 0);
        for (variable, column) in variables.iter().zip(columns) {
            let literal = &text[at..variable.start];
            let known = self.variable_edge(node, literal, variable.kind).map(|edge| edge.target);
            let next = match known {
                Some(Target::Variable { node, .. }) => node,
                _ => {
                    let next = u32_of(self.nodes.len());
                    self.nodes.push(TrieNode::default());
                    let target = Target::Variable { kind: variable.kind, column: *column, node: next };
                    self.nodes[node as usize].edges.push(Edge::new(literal, target));
                    next
                }
            };
            (node, at) = (next, variable.end);
        }
        self.nodes[node as usize].edges.push(Edge::new(&text[at..], Target::End { template }));
    }
}

#[derive(Clone, Copy)]
enum EdgeMatch {
    End(u32),
    Variable { column: u32, start: usize, end: usize, node: u32 },
}

impl Edge {
    fn new(literal: &[u8], target: Target) -> Edge {
        let mask = head_mask(literal);
        let tail = literal.last_chunk::<8>().map_or(0, |tail| u64::from_le_bytes(*tail));
        Edge { head: first_eight_bytes(literal), mask, tail, literal: literal.into(), target, loose_values: 0 }
    }

    /// Whether a text continues with the literal, given that the first eight bytes match. In a literal of up to sixteen
    /// bytes, head and tail cover all bytes, so the literal itself need not be loaded.
    #[inline]
    fn matches_rest(&self, text: &[u8]) -> bool {
        match self.literal.len() {
            0..=8 => true,
            len @ 9..=16 => {
                let tail = text.get(len - 8..).and_then(|tail| tail.first_chunk::<8>());
                tail.is_some_and(|tail| u64::from_le_bytes(*tail) == self.tail)
            }
            len => text.get(..len).is_some_and(|head| bytes_equal(head, &self.literal)),
        }
    }
}

/// Whether two texts are equal. Not inlined: otherwise the search for the next edge, which usually compares only eight
/// bytes, would always save registers for this comparison.
#[inline(never)]
fn bytes_equal(one: &[u8], other: &[u8]) -> bool {
    texts_equal(one, other)
}

/// Mask of the bytes of [`first_eight_bytes`] that the text has.
pub(super) fn head_mask(text: &[u8]) -> u64 {
    if text.len() >= 8 { u64::MAX } else { (1u64 << (8 * text.len())) - 1 }
}

/// The first eight bytes as a number, padded with zeroes. A zero byte in a text looks like its end, so comparing heads
/// requires comparing lengths too.
#[inline]
pub(super) fn first_eight_bytes(text: &[u8]) -> u64 {
    if let Some(head) = text.first_chunk::<8>() {
        return u64::from_le_bytes(*head);
    }
    // Two overlapping reads cover all bytes.
    let len = text.len();
    if let (Some(head), Some(tail)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*head)) | u64::from(u32::from_le_bytes(*tail)) << (8 * (len - 4));
    }
    match text {
        [] => 0,
        [first, .., last] => {
            u64::from(*first) | u64::from(text[len / 2]) << (8 * (len / 2)) | u64::from(*last) << (8 * (len - 1))
        }
        [only] => u64::from(*only),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::templates::variables::split_event;

    #[test]
    fn an_edge_that_often_accepts_words_without_digits_accepts_them_in_strict_lookups() {
        let mut trie = Trie::new();
        let (mut variables, mut filled) = (Vec::new(), Vec::new());
        let known = b"GET host1 200 5 ms";
        split_event(known, &mut variables);
        trie.insert(known, &variables, &vec![0; variables.len()], 7);
        for word in ["ada", "bob", "carl", "dora"] {
            let text = format!("GET {word} 200 5 ms");
            assert_eq!(trie.find(text.as_bytes(), true, &mut filled), None, "{text}");
            assert_eq!(trie.find(text.as_bytes(), false, &mut filled), Some(7), "{text}");
        }
        assert_eq!(trie.find(b"GET emil 200 5 ms", true, &mut filled), Some(7));
        assert_eq!((filled[0].start, filled[0].end), (4, 8));
        // The other variables still accept only numbers.
        assert_eq!(trie.find(b"GET emil many 5 ms", true, &mut filled), None);
    }

    #[test]
    fn first_eight_bytes_are_zero_padded() {
        let text = b"abcdefghij";
        for len in 0..=text.len() {
            let mut bytes = [0; 8];
            let known = len.min(8);
            bytes[..known].copy_from_slice(&text[..known]);
            assert_eq!(first_eight_bytes(&text[..len]), u64::from_le_bytes(bytes));
            assert_eq!(
                head_mask(&text[..len]) & u64::from_le_bytes([b'x'; 8]),
                u64::from_le_bytes(bytes.map(|byte| if byte == 0 { 0 } else { b'x' }))
            );
        }
    }
}
