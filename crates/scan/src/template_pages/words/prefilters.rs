//! Prefilters of a word search: for each alignment of a run (the bytes between two wildcards) with the parts of a span,
//! tests of the variables' codes and numbers that every match with this alignment passes.
//!
//! Prefilters rule out most rows of a page before any text is concatenated. The remaining rows may or may not match.

use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_event::template::{ColumnKind, ColumnValues, NumberFormat, PageColumn, Template, TemplateSet};
use quarry_stdx::number::f64_of;
use quarry_store::Segment;

use super::super::edges::{EdgeContext, Edges};
use super::alignments::{Piece, PiecePosition};
use super::run::Run;

/// Maximum number of distinct numbers of a column that are tested by value.
const NUMBERS_MAX: u64 = 1_024;

/// The tests for one alignment, the most selective first. Every match passes all tests of at least one prefilter.
#[derive(Clone, Debug)]
pub(super) struct Prefilter {
    pub tests: Vec<ValueTest>,
}

/// A test of a column's values.
#[derive(Clone, Debug)]
pub(super) struct ValueTest {
    pub column: u32,
    accepted: Accepted,
    /// Share of the distinct values that pass.
    share: f64,
}

#[derive(Clone, Debug)]
enum Accepted {
    /// By code of a dictionary or of templates.
    Codes(Arc<[bool]>),
    /// By number, from the first on.
    Numbers(i64, Arc<[bool]>),
    Number(i64),
}

/// The values that are known to contain a piece.
#[derive(Clone, Debug)]
enum Matching {
    None,
    /// All values, or it is unknown which values match.
    Any,
    Some(ValueTest),
}

impl Matching {
    fn by_value(piece: &Piece, passed: Vec<bool>, accepted: impl FnOnce(Arc<[bool]>) -> Accepted) -> Matching {
        match passed.iter().filter(|passed| **passed).count() {
            0 => Matching::None,
            count if count == passed.len() => Matching::Any,
            count => {
                let share = f64_of(count) / f64_of(passed.len());
                Matching::Some(ValueTest { column: piece.column, accepted: accepted(passed.into()), share })
            }
        }
    }
}

/// Plans the prefilters of spans.
pub(super) struct PrefilterPlanner<'a> {
    run: &'a Run,
    /// Whether the run begins, and ends, at bounds of words.
    bounded: (bool, bool),
    template_set: &'a TemplateSet,
    segment: &'a dyn Segment,
    /// For each column, whether no value can contain an encoded breaker.
    free: &'a [bool],
    /// The values that contain a piece, as far as they have been determined: the templates of a slab share most pieces.
    known: Vec<(Piece, Matching)>,
}

impl<'a> PrefilterPlanner<'a> {
    /// A planner for a run.
    pub(super) fn new(
        run: &'a Run,
        bounded: (bool, bool),
        (template_set, segment, free): (&'a TemplateSet, &'a dyn Segment, &'a [bool]),
    ) -> PrefilterPlanner<'a> {
        PrefilterPlanner { run, bounded, template_set, segment, free, known: Vec::new() }
    }

    /// Whether the run is a part of a word whose ends are unknown. Its pieces are a few letters that many values of
    /// most columns begin or end with, so that testing all values costs more than it saves.
    pub(super) fn is_part_of_word(&self) -> bool {
        self.bounded == (false, false) && self.run.needle.iter().all(u8::is_ascii_alphanumeric)
    }

    /// The prefilters of these alignments: an empty list if nothing can match, `None` if an alignment has no tests.
    /// With `free`, no encoded breaker is in the span or shortly before it.
    pub(super) fn prefilters(
        &mut self,
        alignments: &[Box<[Piece]>],
        free: bool,
    ) -> Result<Option<Vec<Prefilter>>, EngineError> {
        let mut prefilters = Vec::with_capacity(alignments.len());
        'alignments: for pieces in alignments {
            let mut tests = Vec::with_capacity(pieces.len());
            for piece in pieces {
                let piece = if free { self.as_whole_number(*piece) } else { *piece };
                match self.known_matching(&piece)? {
                    Matching::None => continue 'alignments,
                    Matching::Any => {}
                    Matching::Some(test) => tests.push(test),
                }
            }
            if tests.is_empty() {
                return Ok(None);
            }
            tests.sort_by(|a, b| a.share.total_cmp(&b.share));
            prefilters.push(Prefilter { tests });
        }
        Ok(Some(prefilters))
    }

    /// The piece as a whole value, if the run begins or ends with the piece at the bound of a word, and values are
    /// numbers without breakers.
    fn as_whole_number(&self, piece: Piece) -> Piece {
        let ColumnKind::Numbers { format, min, .. } = &self.template_set.columns[piece.column as usize].kind else {
            return piece;
        };
        let is_bounded = match piece.position {
            PiecePosition::End => self.bounded.0,
            PiecePosition::Whole => true,
            PiecePosition::Start => self.bounded.1,
        };
        if is_bounded && is_one_word(*format, *min) { Piece { position: PiecePosition::Whole, ..piece } } else { piece }
    }

    fn known_matching(&mut self, piece: &Piece) -> Result<Matching, EngineError> {
        if let Some((_, known)) = self.known.iter().find(|(known, _)| known == piece) {
            return Ok(known.clone());
        }
        let found = self.find_matching(piece)?;
        self.known.push((*piece, found.clone()));
        Ok(found)
    }

    /// The values that contain a piece.
    fn find_matching(&self, piece: &Piece) -> Result<Matching, EngineError> {
        Ok(match &self.template_set.columns[piece.column as usize].kind {
            ColumnKind::Dictionary { .. } => {
                let texts = self.segment.dictionary(piece.column)?;
                let passed = texts.iter().map(|text| self.run.fits(piece, text)).collect();
                Matching::by_value(piece, passed, Accepted::Codes)
            }
            ColumnKind::Templates(templates) => {
                let passed = templates.iter().map(|template| self.may_fit(piece, template)).collect();
                Matching::by_value(piece, passed, Accepted::Codes)
            }
            ColumnKind::Numbers { format, min, max } if max.abs_diff(*min) < NUMBERS_MAX => {
                let mut text = Vec::new();
                let passed = (*min..=*max).map(|number| {
                    text.clear();
                    format.write(number, &mut text);
                    self.run.fits(piece, &text)
                });
                Matching::by_value(piece, passed.collect(), |passed| Accepted::Numbers(*min, passed))
            }
            ColumnKind::Numbers { format, min, max } => self.whole_number(piece, *format, *min, *max),
            ColumnKind::Texts => Matching::Any,
        })
    }

    /// The number whose text is the piece.
    fn whole_number(&self, piece: &Piece, format: NumberFormat, min: i64, max: i64) -> Matching {
        // Names of months may be written in another case.
        if piece.position != PiecePosition::Whole || matches!(format, NumberFormat::Time(_)) {
            return Matching::Any;
        }
        let text = &self.run.needle[piece.start..piece.end];
        match format.parse(&self.run.as_number(text)) {
            Some(number) if (min..=max).contains(&number) => {
                let share = 1.0 / (f64_of(max.abs_diff(min)) + 1.0);
                let accepted = Accepted::Number(number);
                Matching::Some(ValueTest { column: piece.column, accepted, share })
            }
            _ => Matching::None,
        }
    }

    /// Whether a value with this template may contain the piece.
    fn may_fit(&self, piece: &Piece, template: &Template) -> bool {
        let edges = Edges {
            template_set: self.template_set,
            parts: &template.parts,
            around: EdgeContext { left: false, right: false, free: false, free_around: false },
            free: self.free,
        };
        let text = &self.run.needle[piece.start..piece.end];
        // An empty value has no parts to compare.
        let Some(last) = template.parts.len().checked_sub(1).filter(|_| !text.is_empty()) else { return true };
        let begins = piece.position == PiecePosition::End || self.run.may_begin_with(&edges, 0, text);
        begins && (piece.position == PiecePosition::Start || self.run.may_end_with(&edges, last, text))
    }
}

impl ValueTest {
    /// The only number that passes.
    pub(super) fn number(&self) -> Option<i64> {
        match self.accepted {
            Accepted::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Whether a value of the column passes.
    #[inline]
    pub(super) fn accepts(&self, values: &PageColumn, place: usize) -> bool {
        let by_code = |passed: &[bool], code: Option<usize>| code.is_none_or(|code| passed.get(code) != Some(&false));
        match (&self.accepted, &values.values) {
            (Accepted::Codes(passed), ColumnValues::Codes(codes)) => {
                by_code(passed, codes.get(place).map(|code| *code as usize))
            }
            (Accepted::Numbers(min, passed), ColumnValues::Numbers(numbers)) => {
                let offset = numbers.get(place).and_then(|number| number.checked_sub(*min));
                by_code(passed, offset.and_then(|offset| usize::try_from(offset).ok()))
            }
            (Accepted::Number(wanted), ColumnValues::Numbers(numbers)) => {
                numbers.get(place).is_none_or(|number| number == wanted)
            }
            _ => true,
        }
    }
}

/// Whether no number of this format, from `min` on, contains a breaker.
pub(super) fn is_one_word(format: NumberFormat, min: i64) -> bool {
    match format {
        NumberFormat::Integer => min >= 0,
        NumberFormat::Padded { .. } | NumberFormat::Hex { .. } => true,
        NumberFormat::Decimal { .. } | NumberFormat::Shortest { .. } | NumberFormat::Ip4 | NumberFormat::Time(_) => {
            false
        }
    }
}
