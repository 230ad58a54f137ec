//! Ways: for each alignment of a run with the parts of a span, tests of the variables' codes and numbers that every
//! match passes.
//!
//! They rule out most rows of a page before any text is concatenated. The rows that remain are not known to match.

use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_event::template::{ColumnKind, ColumnValues, NumberFormat, PageColumn, Template};

use super::super::edges::{EdgeContext, Edges};
use super::super::page::PageReader;
use super::alignments::{Piece, Place};
use super::{Planner, row_at};

/// Maximum number of distinct numbers of a column that are tested by value.
const NUMBERS_MAX: u64 = 1_024;
/// If all ways have a test that at most this share of the values passes, the rows of a span are few.
const SELECTIVE_SHARE_MAX: f64 = 0.25;

/// Tests for one alignment, the most selective first; every match has the alignment of some way and passes its tests.
#[derive(Clone, Debug)]
pub(super) struct Way {
    tests: Vec<ValueTest>,
}

/// A test of a column's values.
#[derive(Clone, Debug)]
struct ValueTest {
    column: u32,
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

/// What is known about the values that contain a piece.
#[derive(Clone, Debug)]
pub(super) enum Matching {
    None,
    /// All, or it is unknown.
    Any,
    Some(Box<Test>),
}

/// A test whose representation other files need not know.
#[derive(Clone, Debug)]
pub(super) struct Test(ValueTest);

impl Matching {
    fn by_value(piece: &Piece, passed: Vec<bool>, accepted: impl FnOnce(Arc<[bool]>) -> Accepted) -> Matching {
        match passed.iter().filter(|passed| **passed).count() {
            0 => Matching::None,
            count if count == passed.len() => Matching::Any,
            count => {
                let share = count as f64 / passed.len() as f64;
                Matching::Some(Box::new(Test(ValueTest {
                    column: piece.column,
                    accepted: accepted(passed.into()),
                    share,
                })))
            }
        }
    }
}

impl Way {
    fn is_selective(&self) -> bool {
        self.tests.first().is_some_and(|test| test.share <= SELECTIVE_SHARE_MAX)
    }
}

/// Whether few rows are expected to pass.
pub(super) fn are_selective(ways: &[Way]) -> bool {
    ways.iter().all(Way::is_selective)
}

impl Planner<'_> {
    /// The ways of these alignments; none if nothing can match, and `None` if an alignment has no tests.
    pub(super) fn ways(&self, alignments: &[Box<[Piece]>]) -> Result<Option<Vec<Way>>, EngineError> {
        let mut ways = Vec::with_capacity(alignments.len());
        'alignments: for pieces in alignments {
            let mut tests = Vec::with_capacity(pieces.len());
            for piece in pieces {
                match self.known_matching(piece)? {
                    Matching::None => continue 'alignments,
                    Matching::Any => {}
                    Matching::Some(test) => tests.push(test.0),
                }
            }
            if tests.is_empty() {
                return Ok(None);
            }
            tests.sort_by(|a, b| a.share.total_cmp(&b.share));
            ways.push(Way { tests });
        }
        Ok(Some(ways))
    }

    /// The values that contain a piece. The templates of a slab share most pieces.
    fn known_matching(&self, piece: &Piece) -> Result<Matching, EngineError> {
        if let Some((_, known)) = self.matching.borrow().iter().find(|(known, _)| known == piece) {
            return Ok(known.clone());
        }
        let found = self.find_matching(piece)?;
        self.matching.borrow_mut().push((*piece, found.clone()));
        Ok(found)
    }

    fn find_matching(&self, piece: &Piece) -> Result<Matching, EngineError> {
        Ok(match &self.template_set.columns[piece.column as usize].kind {
            ColumnKind::Dictionary { .. } => {
                let texts = self.segment.dictionary(piece.column)?;
                let passed = texts.iter().map(|text| self.probe.fits(piece, text)).collect();
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
                    self.probe.fits(piece, &text)
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
        if piece.place != Place::Whole || matches!(format, NumberFormat::Time(_)) {
            return Matching::Any;
        }
        let text = &self.probe.needle[piece.start..piece.end];
        let text = if self.probe.fold { text.to_ascii_lowercase() } else { text.to_vec() };
        match format.parse(&text) {
            Some(number) if (min..=max).contains(&number) => {
                let share = 1.0 / (max.abs_diff(min) as f64 + 1.0);
                let accepted = Accepted::Number(number);
                Matching::Some(Box::new(Test(ValueTest { column: piece.column, accepted, share })))
            }
            _ => Matching::None,
        }
    }

    /// Whether a value with this template may contain the piece.
    fn may_fit(&self, piece: &Piece, template: &Template) -> bool {
        let edges = Edges {
            template_set: self.template_set,
            parts: &template.parts,
            around: EdgeContext { left: false, right: false, free: false },
            free: self.facts.columns_without_encoded_breakers(),
        };
        let text = &self.probe.needle[piece.start..piece.end];
        // An empty value has no parts that could be compared.
        let Some(last) = template.parts.len().checked_sub(1).filter(|_| !text.is_empty()) else { return true };
        let begins = piece.place == Place::End || self.may_begin_with(&edges, 0, text);
        begins && (piece.place == Place::Start || self.may_end_with(&edges, last, text))
    }
}

impl ValueTest {
    /// The rows of a page that pass, ascending.
    fn passing_rows(&self, page: &mut PageReader<'_>) -> Result<Vec<u32>, EngineError> {
        if let Accepted::Number(number) = self.accepted
            && page.contains_number(self.column, number)? == Some(false)
        {
            return Ok(Vec::new());
        }
        let values = page.column(self.column)?;
        let passing = (0..values.values.len()).filter(|place| self.accepts(&values, *place));
        Ok(passing.map(|place| row_at(&values, place)).collect())
    }

    #[inline]
    fn accepts(&self, values: &PageColumn, place: usize) -> bool {
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

/// The rows that pass the tests of some way and whose template `counts`, a code of column `parent`.
pub(super) fn rows_of_ways(
    ways: &[Way],
    counts: &[bool],
    parent: u32,
    page: &mut PageReader<'_>,
) -> Result<Vec<u32>, EngineError> {
    let mut all = Vec::new();
    for way in ways {
        let Some((first, rest)) = way.tests.split_first() else { continue };
        let mut rows = first.passing_rows(page)?;
        rows.retain(|row| page.is_relevant(*row));
        if rows.is_empty() {
            continue;
        }
        let templates = page.column(parent)?;
        let ColumnValues::Codes(codes) = &templates.values else { continue };
        let is_counted = |code: &u32| counts.get(*code as usize) == Some(&true);
        rows.retain(|row| templates.value_index(*row).and_then(|place| codes.get(place)).is_some_and(is_counted));
        for test in rest {
            if rows.is_empty() {
                break;
            }
            let values = page.column(test.column)?;
            rows.retain(|row| values.value_index(*row).is_none_or(|place| test.accepts(&values, place)));
        }
        all.extend(rows);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}
