//! Alignments: the ways in which a run of bytes can lie across the edges between the parts of a template.
//!
//! Literals must equal their piece of the run. A variable must end with its piece, equal it, or begin with it; what is
//! known about the column's values rules out most pieces.

use quarry_event::template::{ByteSet, TemplatePart, ValueTraits};

use super::super::edges::Edges;
use super::super::facts::PartFacts;
use super::Probe;

/// Maximum length of a run whose alignments are found: its cuts are bits of a number.
const RUN_BYTES_MAX: usize = 128;
/// Maximum number of steps for the alignments of one template.
const STEPS_MAX: usize = 512;

/// The piece of a run that lies in a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub column: u32,
    /// The first byte of the piece in the run, and the byte after its last.
    pub start: usize,
    pub end: usize,
    pub place: Place,
}

/// Where a piece lies in the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The value ends with the piece.
    End,
    /// The value equals the piece.
    Whole,
    /// The value begins with the piece.
    Start,
}

/// One way in which the run can lie across parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Alignment {
    /// The parts that contain the first and the last byte.
    pub first: usize,
    pub last: usize,
    /// Bytes of the run in these parts.
    pub in_first: usize,
    pub in_last: usize,
    pub pieces: Box<[Piece]>,
}

/// The cuts of a run at an edge: bit `n` stands for `n` bytes before the edge.
struct Cuts<'a> {
    probe: &'a Probe,
}

impl Cuts<'_> {
    /// The cuts before which one of these bytes can stand.
    fn after_bytes(&self, lasts: ByteSet) -> u128 {
        self.select(|at| self.probe.matches_set(self.probe.needle[at - 1], lasts))
    }

    /// The cuts after which one of these bytes can stand.
    fn before_bytes(&self, firsts: ByteSet) -> u128 {
        self.select(|at| self.probe.matches_set(self.probe.needle[at], firsts))
    }

    fn select(&self, is_met: impl Fn(usize) -> bool) -> u128 {
        (1..self.probe.needle.len()).filter(|at| is_met(*at)).fold(0, |bits, at| bits | 1 << at)
    }
}

/// A run of which a beginning has been aligned with the parts before `part`.
struct Begun {
    first: usize,
    in_first: usize,
    part: usize,
    /// Number of bytes that have been aligned.
    done: usize,
    pieces: Vec<Piece>,
}

impl Probe {
    /// The alignments that cross an edge between parts; `None` if there are too many possibilities.
    pub(super) fn alignments(&self, edges: &Edges<'_>, facts: &[PartFacts]) -> Option<Vec<Alignment>> {
        if self.needle.len() >= RUN_BYTES_MAX {
            return None;
        }
        let (mut found, mut steps) = (Vec::new(), 0);
        let cuts = Cuts { probe: self };
        // The cuts at the edge before the part that was visited last.
        let mut after = 0;
        for at in (1..edges.parts.len()).rev() {
            let (firsts, _, is_filled) = edges.part_bounds(at);
            after = cuts.before_bytes(firsts) | if is_filled { 0 } else { after };
            if !self.contains_breaker && !facts[at].open_edge {
                continue;
            }
            let mut open = if after == 0 { 0 } else { after & cuts.after_bytes(edges.part_bounds(at - 1).1) };
            while open != 0 {
                let cut = open.trailing_zeros() as usize;
                open &= open - 1;
                let Some(begun) = self.begin(edges, at - 1, cut) else { continue };
                self.complete(edges, begun, &mut steps, &mut found)?;
            }
        }
        Some(found)
    }

    /// The run, if part `first` can end with its first `cut` bytes.
    fn begin(&self, edges: &Edges<'_>, first: usize, cut: usize) -> Option<Begun> {
        let head = &self.needle[..cut];
        let mut pieces = Vec::new();
        match &edges.parts[first] {
            TemplatePart::Literal(literal) => {
                let at = literal.len().checked_sub(cut)?;
                self.equals(head, &literal[at..]).then_some(())?;
            }
            TemplatePart::Variable(column) => {
                let traits = edges.traits(*column);
                (cut <= traits.max_len as usize && self.consists_of(head, traits.bytes)).then_some(())?;
                pieces.push(Piece { column: *column, start: 0, end: cut, place: Place::End });
            }
        }
        Some(Begun { first, in_first: cut, part: first + 1, done: cut, pieces })
    }

    /// Adds all alignments with this beginning; `None` after too many steps.
    fn complete(&self, edges: &Edges<'_>, begun: Begun, steps: &mut usize, found: &mut Vec<Alignment>) -> Option<()> {
        let mut open = vec![begun];
        while let Some(mut begun) = open.pop() {
            *steps += 1;
            (*steps <= STEPS_MAX).then_some(())?;
            let rest = &self.needle[begun.done..];
            let column = match edges.parts.get(begun.part) {
                None => continue,
                Some(TemplatePart::Literal(literal)) => {
                    let shared = rest.len().min(literal.len());
                    if !self.equals(&rest[..shared], &literal[..shared]) {
                        continue;
                    }
                    if shared == rest.len() {
                        found.push(begun.finish(shared));
                    } else {
                        begun.part += 1;
                        begun.done += shared;
                        open.push(begun);
                    }
                    continue;
                }
                Some(TemplatePart::Variable(column)) => *column,
            };
            let traits = edges.traits(column);
            let fitting = rest.iter().take_while(|byte| self.matches_set(**byte, traits.bytes)).count();
            let fitting = fitting.min(traits.max_len as usize);
            let piece = |length: usize, place| Piece { column, start: begun.done, end: begun.done + length, place };
            for length in (traits.min_len as usize)..=fitting.min(rest.len() - 1) {
                if self.may_equal(&rest[..length], traits) {
                    let mut pieces = begun.pieces.clone();
                    pieces.push(piece(length, Place::Whole));
                    open.push(Begun { part: begun.part + 1, done: begun.done + length, pieces, ..begun });
                }
            }
            if fitting == rest.len() && self.may_begin(rest, traits) {
                begun.pieces.push(piece(rest.len(), Place::Start));
                found.push(begun.finish(rest.len()));
            }
        }
        Some(())
    }

    fn equals(&self, mine: &[u8], text: &[u8]) -> bool {
        if self.fold { mine.eq_ignore_ascii_case(text) } else { mine == text }
    }

    fn consists_of(&self, mine: &[u8], set: ByteSet) -> bool {
        mine.iter().all(|byte| self.matches_set(*byte, set))
    }

    /// Whether a value with these traits may begin with a piece that consists of bytes of the column.
    fn may_begin(&self, piece: &[u8], traits: &ValueTraits) -> bool {
        let shared = piece.len().min(traits.prefix.len());
        piece.first().is_none_or(|first| self.matches_set(*first, traits.firsts))
            && self.equals(&piece[..shared], &traits.prefix.as_bytes()[..shared])
    }

    /// Whether a value with these traits may equal a piece that consists of bytes of the column.
    fn may_equal(&self, piece: &[u8], traits: &ValueTraits) -> bool {
        let is_listed = |values: &[Box<str>]| values.iter().any(|value| self.equals(piece, value.as_bytes()));
        self.may_begin(piece, traits)
            && piece.len() >= traits.prefix.len()
            && piece.last().is_none_or(|last| self.matches_set(*last, traits.lasts))
            && traits.value_set.as_deref().is_none_or(is_listed)
    }

    /// Whether a value may have this piece in this place.
    pub(super) fn fits(&self, piece: &Piece, value: &[u8]) -> bool {
        let mine = &self.needle[piece.start..piece.end];
        let Some(rest) = value.len().checked_sub(mine.len()) else { return false };
        match piece.place {
            Place::End => self.equals(mine, &value[rest..]),
            Place::Whole => rest == 0 && self.equals(mine, value),
            Place::Start => self.equals(mine, &value[..mine.len()]),
        }
    }
}

impl Begun {
    fn finish(self, in_last: usize) -> Alignment {
        let Begun { first, in_first, part, pieces, .. } = self;
        Alignment { first, last: part, in_first, in_last, pieces: pieces.into() }
    }
}
