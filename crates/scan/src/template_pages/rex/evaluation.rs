//! Runs a pattern on the window of one row (the part of its text in which the pattern may match), using the row's
//! values there.
//!
//! If the groups have the same positions in every match, they are copied from there once a match is known to exist;
//! otherwise the pattern runs on the text of the window.

use std::str::Utf8Error;
use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_eval::pattern::template_match::{FlatTemplate, Planner, Window};
use quarry_eval::pattern::{Captures, Regex};
use quarry_event::template::{ColumnKind, TemplateSet};
use quarry_store::Segment;

use crate::template_pages::cursors::Cursors;
use crate::template_pages::interner::{ABSENT, Interner};
use crate::template_pages::literals::{LiteralSites, PageHits, RequiredLiterals};
use crate::template_pages::page::PageReader;
use crate::template_pages::pattern_cost::PatternCost;
use crate::template_pages::row_values::{Dictionaries, RowOf, RowValues, append_text};

/// Pattern with everything needed to run it.
pub(in crate::template_pages) struct Evaluation<'a> {
    pub regex: &'a Regex,
    /// Whether an empty group counts as absent.
    pub(super) skips_empty: bool,
    pub captures: &'a mut Captures,
    pub(super) groups: &'a [(usize, String)],
    pub planner: &'a mut Planner,
    pub(super) literals: &'a RequiredLiterals,
    /// Literals found in the values of the page; `None` if testing each row by itself is cheaper.
    pub(super) hits: Option<PageHits>,
    pub text: Vec<u8>,
    pub codes: Vec<u32>,
    /// Parts of the template, each with the row's value.
    pub values: Vec<(usize, Vec<u8>)>,
    /// Codes of the groups of rows whose answers are not cached.
    pub(super) found: Vec<u32>,
    /// Reusable buffer for codes.
    pub(super) some: Vec<u32>,
    pub(in crate::template_pages) cost: &'a mut PatternCost,
}

impl Evaluation<'_> {
    /// Whether the window of this row certainly lacks a literal that every match contains.
    #[inline]
    pub(super) fn lacks_literal(
        &mut self,
        sites: Option<&mut LiteralSites>,
        row: u32,
        cursors: &mut Cursors,
        page: &mut PageReader<'_>,
    ) -> Result<bool, EngineError> {
        match (sites, &mut self.hits) {
            (Some(sites), Some(hits)) => {
                self.cost.texts += 1;
                Ok(!sites.may_match(row, self.literals, hits, cursors, page)?)
            }
            _ => Ok(false),
        }
    }

    /// Reads the codes of a row in these columns; `false` if a code is missing.
    #[inline]
    pub(in crate::template_pages) fn read_codes(
        &mut self,
        columns: &[(u32, usize)],
        row: u32,
        cursors: &mut Cursors,
        page: &mut PageReader<'_>,
    ) -> Result<bool, EngineError> {
        self.codes.clear();
        for (column, _) in columns {
            match cursors.code(*column, row, page)? {
                Some(code) => self.codes.push(code),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Reads the values of these columns and parts for the current codes, as [`Cursors::code`] returned them.
    fn read_values(
        &mut self,
        columns: &[(u32, usize)],
        template_set: &TemplateSet,
        segment: &Arc<dyn Segment>,
        dictionaries: &mut Dictionaries,
    ) -> Result<(), EngineError> {
        self.values.resize_with(columns.len(), Default::default);
        for (((column, part), code), (of, bytes)) in columns.iter().zip(&self.codes).zip(&mut self.values) {
            *of = *part;
            bytes.clear();
            match &template_set.columns[*column as usize].kind {
                ColumnKind::Numbers { format, min, .. } => format.write(min + i64::from(*code), bytes),
                _ => append_text(*column, *code, segment, dictionaries, bytes)?,
            }
        }
        Ok(())
    }
}

/// Like [`evaluate`], for the values of a row in these columns; also `None` if a value is missing.
pub(super) fn evaluate_row(
    template: &FlatTemplate,
    window: &Window,
    (columns, has_codes): (&[(u32, usize)], bool),
    of_row: RowOf<'_, '_>,
    work: &mut Evaluation<'_>,
    texts: &mut [Interner],
    codes: &mut Vec<u32>,
) -> Result<Option<bool>, EngineError> {
    let RowOf { row, cursors, page, segment, dictionaries } = of_row;
    match has_codes {
        true => work.read_values(columns, page.template_set(), segment, dictionaries)?,
        false => {
            work.cost.texts += 1;
            work.values.clear();
        }
    }
    let (known, outcome) = (std::mem::take(&mut work.values), Ok(true));
    let mut row = RowValues { known, columns, row, cursors, page, segment, dictionaries, outcome };
    let value = |part: usize, text: &mut Vec<u8>| row.append(part, text);
    let is_match = evaluate(template, window, work, (texts, has_codes), codes, value)?;
    work.values = row.known;
    let has_all = row.outcome?;
    Ok(is_match.filter(|_| has_all))
}

/// Appends the codes of the groups, given the values that `value` writes, and returns whether there is a match; `None`
/// if there are too many distinct texts. With `is_kept`, the codes are cached for other pages.
fn evaluate(
    template: &FlatTemplate,
    window: &Window,
    work: &mut Evaluation<'_>,
    (texts, is_kept): (&mut [Interner], bool),
    codes: &mut Vec<u32>,
    mut value: impl FnMut(usize, &mut Vec<u8>),
) -> Result<Option<bool>, EngineError> {
    let skips_empty = work.skips_empty;
    let code_of = |texts: &mut Interner, text: &str| match is_kept {
        true => texts.code_of(text, skips_empty),
        false => texts.page_code_of(text, skips_empty),
    };
    if let Some(places) = &window.groups {
        for ((group, _), texts) in work.groups.iter().zip(texts) {
            let Some((start, end)) = places.get(*group).copied().flatten() else {
                codes.push(ABSENT);
                continue;
            };
            work.text.clear();
            template.write_between(start, end, &mut work.text, &mut value);
            let text = std::str::from_utf8(&work.text).map_err(invalid_utf8)?;
            let Some(code) = code_of(texts, text) else { return Ok(None) };
            codes.push(code);
        }
        return Ok(Some(true));
    }
    let found = window.evaluate(template, work.regex, value, &mut work.text, work.captures).map_err(invalid_utf8)?;
    let Some(text) = found else { return Ok(Some(false)) };
    for ((group, _), texts) in work.groups.iter().zip(texts) {
        let code = match work.captures.text(text, *group) {
            Some(found) => code_of(texts, found),
            None => Some(ABSENT),
        };
        let Some(code) = code else { return Ok(None) };
        codes.push(code);
    }
    Ok(Some(true))
}

pub(in crate::template_pages) fn invalid_utf8(_: Utf8Error) -> EngineError {
    EngineError::invalid("a text of a bucket is not UTF-8; rebuild the bucket")
}
