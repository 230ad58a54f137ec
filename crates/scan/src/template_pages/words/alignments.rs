//! Alignments: the ways in which a run (the bytes between two wildcards of a search word) can lie across the edges
//! between the parts of a template.
//!
//! Literals must equal their piece of the run. A variable must end with its piece, equal it, or begin with it; what is
//! known about the column's values rules out most pieces.

use quarry_event::template::{ByteSet, TemplatePart, ValueTraits};

use super::super::edges::Edges;
use super::super::facts::PartFacts;
use super::run::Run;

/// Maximum length of a run whose alignments are found, because its cuts are the bits of one number.
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
    pub position: PiecePosition,
}

/// The position of a piece in the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PiecePosition {
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

/// The positions at which an edge can cut a run, as sets of bits: bit `n` stands for `n` bytes before the edge.
pub(super) struct Cuts {
    /// By byte: the cuts that the byte can precede, and those that it can follow.
    of_bytes: Box<[PartCuts; 256]>,
    /// By column: the cuts, computed so far, that the values of a column allow in the same way.
    of_columns: Box<[Option<PartCuts>]>,
}

/// The cuts at the edges of a part.
#[derive(Clone, Copy, Default)]
struct PartCuts {
    /// At the edge after the part.
    ending: u128,
    /// At the edge before the part.
    starting: u128,
}

impl Cuts {
    /// The cuts of a run; `None` if the run is too long.
    pub(super) fn new(run: &Run, columns: usize) -> Option<Cuts> {
        let needle = &run.needle;
        (needle.len() < RUN_BYTES_MAX).then_some(())?;
        let mut of_bytes = Box::new([PartCuts::default(); 256]);
        let cases =
            |byte: u8| if run.fold { [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()] } else { [byte; 2] };
        for cut in 1..needle.len() {
            for byte in cases(needle[cut - 1]) {
                of_bytes[usize::from(byte)].ending |= 1 << cut;
            }
            for byte in cases(needle[cut]) {
                of_bytes[usize::from(byte)].starting |= 1 << cut;
            }
        }
        Some(Cuts { of_bytes, of_columns: vec![None; columns].into() })
    }

    /// The cuts at the edges of a part.
    fn of_part(&mut self, run: &Run, part: &TemplatePart, edges: &Edges<'_>) -> PartCuts {
        let of_byte = |byte: Option<&u8>| byte.map_or_else(PartCuts::default, |byte| self.of_bytes[usize::from(*byte)]);
        match part {
            TemplatePart::Literal(literal) => {
                PartCuts { ending: of_byte(literal.last()).ending, starting: of_byte(literal.first()).starting }
            }
            TemplatePart::Variable(column) => {
                let known = &mut self.of_columns[*column as usize];
                *known.get_or_insert_with(|| {
                    let traits = edges.traits(*column);
                    let select = |set: ByteSet, offset: usize| {
                        let may_be = |cut: &usize| run.matches_set(run.needle[cut - offset], set);
                        (1..run.needle.len()).filter(may_be).fold(0, |bits, cut| bits | 1 << cut)
                    };
                    PartCuts { ending: select(traits.lasts, 1), starting: select(traits.firsts, 0) }
                })
            }
        }
    }
}

/// A run whose first bytes have been aligned with the parts before `part`.
struct Begun {
    first: usize,
    in_first: usize,
    part: usize,
    /// Number of bytes that have been aligned.
    done: usize,
    pieces: Vec<Piece>,
}

impl Run {
    /// The alignments that cross an edge between parts (with `only_open`, an open edge); `None` if there are too many
    /// possibilities.
    pub(super) fn alignments(
        &self,
        edges: &Edges<'_>,
        (facts, only_open): (&[PartFacts], bool),
        cuts: &mut Cuts,
    ) -> Option<Vec<Alignment>> {
        let (mut found, mut steps) = (Vec::new(), 0);
        let Some(last) = edges.parts.last() else { return Some(found) };
        // The cuts that the bytes after an edge allow, and the cuts that the part after the edge allows.
        let mut after = 0;
        let mut part = cuts.of_part(self, last, edges);
        for at in (1..edges.parts.len()).rev() {
            let (_, _, is_filled) = edges.part_bounds(at);
            after = part.starting | if is_filled { 0 } else { after };
            part = cuts.of_part(self, &edges.parts[at - 1], edges);
            if only_open && !facts[at].open_edge {
                continue;
            }
            let mut open = part.ending & after;
            while open != 0 {
                let cut = open.trailing_zeros() as usize;
                open &= open - 1;
                let Some(begun) = self.begin(edges, at - 1, cut) else { continue };
                self.complete(edges, begun, &mut steps, &mut found)?;
            }
        }
        Some(found)
    }

    /// The run, if part `first` can end with the first `cut` bytes of the run.
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
                pieces.push(Piece { column: *column, start: 0, end: cut, position: PiecePosition::End });
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
            let piece =
                |length: usize, position| Piece { column, start: begun.done, end: begun.done + length, position };
            for length in (traits.min_len as usize)..=fitting.min(rest.len() - 1) {
                if self.may_equal(&rest[..length], traits) {
                    let mut pieces = begun.pieces.clone();
                    pieces.push(piece(length, PiecePosition::Whole));
                    open.push(Begun { part: begun.part + 1, done: begun.done + length, pieces, ..begun });
                }
            }
            if fitting == rest.len() && self.may_begin(rest, traits) {
                begun.pieces.push(piece(rest.len(), PiecePosition::Start));
                found.push(begun.finish(rest.len()));
            }
        }
        Some(())
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

    /// Whether a value has this piece at its position.
    pub(super) fn fits(&self, piece: &Piece, value: &[u8]) -> bool {
        let mine = &self.needle[piece.start..piece.end];
        let Some(rest) = value.len().checked_sub(mine.len()) else { return false };
        match piece.position {
            PiecePosition::End => self.equals(mine, &value[rest..]),
            PiecePosition::Whole => rest == 0 && self.equals(mine, value),
            PiecePosition::Start => self.equals(mine, &value[..mine.len()]),
        }
    }
}

impl Begun {
    fn finish(self, in_last: usize) -> Alignment {
        let Begun { first, in_first, part, pieces, .. } = self;
        Alignment { first, last: part, in_first, in_last, pieces: pieces.into() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quarry_event::segment::WordBound;
    use quarry_event::template::{Column, ColumnKind, Template, TemplateSet};

    use super::super::super::edges::EdgeContext;
    use super::super::super::facts::WordFacts;
    use super::super::Word;
    use super::*;

    /// Traits of a column with these values.
    fn traits_of(values: &[String]) -> ValueTraits {
        let mut traits = ValueTraits { min_len: u32::MAX, ..ValueTraits::default() };
        for value in values {
            value.bytes().for_each(|byte| traits.bytes.insert(byte));
            value.bytes().next().iter().for_each(|byte| traits.firsts.insert(*byte));
            value.bytes().last().iter().for_each(|byte| traits.lasts.insert(*byte));
            let length = u32::try_from(value.len()).unwrap();
            (traits.min_len, traits.max_len) = (traits.min_len.min(length), traits.max_len.max(length));
        }
        traits
    }

    fn template_set(template: &Template, columns: &[Vec<String>]) -> TemplateSet {
        let text = Column {
            parent: None,
            kind: ColumnKind::Templates([template.clone()].into()),
            traits: ValueTraits::default(),
            values: 1,
        };
        let column = |values: &Vec<String>| Column {
            parent: Some(0),
            kind: ColumnKind::Texts,
            traits: traits_of(values),
            values: 1,
        };
        let columns = std::iter::once(text).chain(columns.iter().map(column)).collect();
        TemplateSet { columns, ..TemplateSet::default() }
    }

    proptest! {
        #[test]
        fn every_match_across_an_edge_has_an_alignment(
            columns in prop::collection::vec(prop::collection::vec("[aA,b]{0,3}", 1..3), 3..4),
            literals in prop::collection::vec("[a,b]{1,2}", 2..3),
            chosen in prop::collection::vec(any::<prop::sample::Index>(), 3..4),
            place in any::<prop::sample::Index>(),
            length in 2usize..8,
        ) {
            let parts = vec![
                TemplatePart::Variable(1),
                TemplatePart::Literal(literals[0].as_bytes().into()),
                TemplatePart::Variable(2),
                TemplatePart::Literal(literals[1].as_bytes().into()),
                TemplatePart::Variable(3),
            ];
            let values: Vec<&String> = chosen.iter().zip(&columns).map(|(at, values)| at.get(values)).collect();
            let texts = [values[0], &literals[0], values[1], &literals[1], values[2]];
            let text: String = texts.iter().map(|part| part.as_str()).collect();
            let start = place.index(text.len());
            let end = (start + length).min(text.len());
            // The parts in which the excerpt begins and ends.
            let ends: Vec<usize> =
                texts.iter().scan(0, |end, part| { *end += part.len(); Some(*end) }).collect();
            let part_at = |byte: usize| ends.iter().position(|end| byte < *end).unwrap();
            let (first, last) = (part_at(start), part_at(end - 1));
            prop_assume!(first < last);
            let template = Template { parts };
            let set = template_set(&template, &columns);
            let facts = WordFacts::new(&set);
            let word = Word::new(&text[start..end], WordBound::Breaker, false);
            let around = EdgeContext { left: true, right: true, free: true, free_around: true };
            let free = facts.columns_without_encoded_breakers();
            let edges = Edges { template_set: &set, parts: &template.parts, around, free };
            let probe = &word.runs[0][0];
            let mut cuts = Cuts::new(&probe.run, set.columns.len()).unwrap();
            let facts = (facts.parts(0, 0), !probe.contains_breaker);
            let found = probe.run.alignments(&edges, facts, &mut cuts).unwrap();
            let is_it = |alignment: &&Alignment| {
                (alignment.first, alignment.last) == (first, last)
                    && alignment.in_first == ends[first] - start
                    && alignment.in_last == end - ends[last - 1]
            };
            // A word without breakers crosses only edges that no breaker is next to.
            if !probe.contains_breaker && !(first..last).all(|at| facts.0[at + 1].open_edge) {
                return Ok(());
            }
            let met = found.iter().filter(is_it).any(|alignment| {
                alignment.pieces.iter().all(|piece| probe.run.fits(piece, values[piece.column as usize - 1].as_bytes()))
            });
            prop_assert!(met, "{:?} in {:?}: {:?}", &text[start..end], texts, found);
        }
    }
}
