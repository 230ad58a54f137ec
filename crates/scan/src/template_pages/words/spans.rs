//! Matches of a word that cross edges between the parts of a template.
//!
//! Such a match lies in a few adjacent parts, a *span*. Instead of whole texts, only the texts of these parts are
//! concatenated and searched, row by row. If the answer depends on one variable with few values, the search runs once
//! per value and slab.
//!
//! A span contains only the end of a long first part, and only the start of a long last part. Where a part is cut, its
//! text continues outside the span, so the cut is not a boundary of a match.

use std::sync::Arc;

use quarry_eval::EngineError;
use quarry_event::template::{ColumnKind, ColumnValues, Dictionary, Template, TemplatePart, Texts};
use quarry_stdx::number::u32_of;

use super::super::cursors::Cursors;
use super::super::edges::{EdgeContext, Edges};
use super::super::facts::PartFacts;
use super::super::outcome::{NO, UNDECIDED};
use super::super::page::PageReader;
use super::alignments::{Alignment, Cuts, Piece};
use super::prefilters::{Prefilter, PrefilterPlanner};
use super::{Planner, Probe, ProbePlan};

/// Number of bytes of a part that are kept in addition to the bytes of a match: the bytes that bound the match,
/// including an encoded breaker.
const MARGIN_BYTES: usize = 8;
/// Maximum number of variables in the spans of a template. With more variables, rebuilding whole texts takes less
/// time.
const SPAN_VARIABLES_MAX: usize = 12;
/// Maximum number of integers from the smallest to the largest number of a column. Up to this limit, an answer is
/// computed in advance for each of the integers.
const CACHED_NUMBERS_MAX: u64 = 1_024;
/// Maximum number of alignments that are kept for a span. If there are more, none is kept, and no row is ruled out.
const ALIGNMENTS_MAX: usize = 16;

/// Adjacent parts of a template.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Span {
    parts: Box<[SpanPart]>,
    /// Surroundings of the parts if no part is shortened.
    around: EdgeContext,
    /// For each alignment of the word with the parts, the word's pieces in the variables; empty if unknown.
    alignments: Box<[Box<[Piece]>]>,
}

#[derive(Debug, PartialEq, Eq)]
enum SpanPart {
    Literal { bytes: Box<[u8]>, cut: CutEnd },
    Value { column: u32, cut: CutEnd },
}

/// Text that is cut off one end of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CutEnd {
    Nothing,
    /// The start of the part; this many bytes remain at its end.
    Start(usize),
    /// The end of the part; this many bytes remain at its start.
    End(usize),
}

impl CutEnd {
    /// The rest of a text, and the cut if any bytes were removed.
    fn cut_text(self, text: &[u8]) -> (&[u8], CutEnd) {
        match self {
            CutEnd::Start(kept) if kept < text.len() => (&text[text.len() - kept..], self),
            CutEnd::End(kept) if kept < text.len() => (&text[..kept], self),
            _ => (text, CutEnd::Nothing),
        }
    }
}

impl EdgeContext {
    /// These surroundings, without a bound at the end that is cut off.
    fn without_cut_bounds(self, cut: CutEnd) -> EdgeContext {
        EdgeContext {
            left: self.left && !matches!(cut, CutEnd::Start(_)),
            right: self.right && !matches!(cut, CutEnd::End(_)),
            free_before: self.free_before && !matches!(cut, CutEnd::Start(_)),
            ..self
        }
    }
}

/// A span, and the templates that contain it.
#[derive(Debug)]
pub(super) struct TemplateSpan {
    span: Span,
    /// For each template, whether the span is part of it and can change the template's answer from no (or undecided)
    /// towards yes.
    counts: Vec<bool>,
    /// Tests that every match passes; `None` if no such tests are known.
    prefilters: Option<Vec<Prefilter>>,
}

/// The parts, from first to last, into which a match that crosses certain edges can extend.
#[derive(Clone, Copy, Debug)]
struct PartRange {
    first: usize,
    last: usize,
    /// Maximum bytes of a match in the first and in the last part.
    in_first: usize,
    in_last: usize,
}

impl PartRange {
    /// The union of two overlapping ranges.
    fn join(self, other: PartRange) -> PartRange {
        let (first, in_first) = match self.first.cmp(&other.first) {
            std::cmp::Ordering::Less => (self.first, self.in_first),
            std::cmp::Ordering::Equal => (self.first, self.in_first.max(other.in_first)),
            std::cmp::Ordering::Greater => (other.first, other.in_first),
        };
        let (last, in_last) = match self.last.cmp(&other.last) {
            std::cmp::Ordering::Greater => (self.last, self.in_last),
            std::cmp::Ordering::Equal => (self.last, self.in_last.max(other.in_last)),
            std::cmp::Ordering::Less => (other.last, other.in_last),
        };
        PartRange { first, last, in_first, in_last }
    }

    fn of(alignment: &Alignment) -> PartRange {
        let Alignment { first, last, in_first, in_last, .. } = *alignment;
        PartRange { first, last, in_first, in_last }
    }

    /// This range and the literals next to its ends, if variables at the ends may lie entirely within the match: then
    /// the bytes of these literals decide whether the match is bounded.
    fn with_neighbours(self, edges: &Edges<'_>) -> PartRange {
        let is_literal = |at: usize| matches!(edges.parts.get(at), Some(TemplatePart::Literal(_)));
        let may_be_whole = |at: usize, bytes: usize| match edges.parts.get(at) {
            Some(TemplatePart::Variable(column)) => edges.traits(*column).min_len as usize <= bytes,
            _ => false,
        };
        let mut range = self;
        if let Some(before) = range.first.checked_sub(1)
            && is_literal(before)
            && may_be_whole(range.first, range.in_first)
        {
            (range.first, range.in_first) = (before, 0);
        }
        if is_literal(range.last + 1) && may_be_whole(range.last, range.in_last) {
            (range.last, range.in_last) = (range.last + 1, 0);
        }
        range
    }
}

impl Alignment {
    fn is_within(&self, range: &PartRange) -> bool {
        range.first <= self.first && self.last <= range.last
    }
}

/// The union of overlapping ranges.
fn join_ranges(ranges: impl Iterator<Item = PartRange>) -> Vec<PartRange> {
    let mut ranges: Vec<PartRange> = ranges.collect();
    ranges.sort_by_key(|range| range.first);
    let mut joined: Vec<PartRange> = Vec::new();
    for mut range in ranges {
        while let Some(before) = joined.pop_if(|before| before.last >= range.first) {
            range = before.join(range);
        }
        joined.push(range);
    }
    joined
}

impl TemplateSpan {
    /// A span of template number `number` of `templates`.
    pub(super) fn new(span: Span, number: usize, templates: usize) -> TemplateSpan {
        let mut counts = vec![false; templates];
        counts[number] = true;
        TemplateSpan { span, counts, prefilters: None }
    }

    /// Finds the tests that every match passes; false if no value passes them.
    pub(super) fn plan_prefilters(&mut self, planner: &mut PrefilterPlanner<'_>) -> Result<bool, EngineError> {
        self.prefilters = match &*self.span.alignments {
            [] => None,
            _ if planner.is_part_of_word() => None,
            alignments => planner.prefilters(alignments, self.span.around.free)?,
        };
        Ok(self.prefilters.as_ref().is_none_or(|prefilters| !prefilters.is_empty()))
    }

    /// Whether `span` equals the span of `self`; if so, template number `number` is added to the templates of `self`.
    pub(super) fn try_add_template(&mut self, span: &Span, number: usize) -> bool {
        let is_same = self.span == *span;
        self.counts[number] |= is_same;
        is_same
    }

    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// For each template, whether the span is part of it and can change the template's answer from no (or undecided)
    /// towards yes.
    pub(super) fn counting_templates(&self) -> &[bool] {
        &self.counts
    }

    /// Removes templates that `is_open` rejects; false if no template remains.
    pub(super) fn retain(&mut self, is_open: impl Fn(usize) -> bool) -> bool {
        self.counts.iter_mut().enumerate().for_each(|(number, counts)| *counts &= is_open(number));
        self.counts.contains(&true)
    }
}

impl Planner<'_> {
    /// The spans of a template that can contain a match across an edge; `None` if they have too many variables.
    pub(super) fn spans(
        &self,
        template: &Template,
        (edges, facts): (&Edges<'_>, &[PartFacts]),
        cuts: Option<&mut Cuts>,
    ) -> Option<Vec<Span>> {
        let alignments =
            cuts.and_then(|cuts| self.probe.run.alignments(edges, (facts, !self.probe.contains_breaker), cuts));
        let reaches = match &alignments {
            Some(found) => join_ranges(found.iter().map(PartRange::of)),
            None => join_ranges((1..edges.parts.len()).filter_map(|edge| self.reachable_parts(edges, edge, facts))),
        };
        let variables = |reach: &PartRange| {
            let parts = &template.parts[reach.first..=reach.last];
            parts.iter().filter(|part| matches!(part, TemplatePart::Variable(_))).count()
        };
        let is_small = reaches.iter().map(variables).sum::<usize>() <= SPAN_VARIABLES_MAX;
        let span = |reach: &PartRange| {
            let within = alignments.iter().flatten().filter(|found| found.is_within(reach));
            let pieces: Box<[Box<[Piece]>]> = within.map(|found| found.pieces.clone()).collect();
            let pieces = if pieces.len() > ALIGNMENTS_MAX { Box::default() } else { pieces };
            self.span(template, reach.with_neighbours(edges), (edges, facts), pieces)
        };
        is_small.then(|| reaches.iter().map(span).collect())
    }

    /// The range of parts that a match across this edge can touch; `None` if no match can cross the edge.
    fn reachable_parts(&self, edges: &Edges<'_>, edge: usize, facts: &[PartFacts]) -> Option<PartRange> {
        let run = &self.probe.run;
        let needle = &run.needle;
        if !self.probe.contains_breaker && !facts[edge].open_edge {
            return None;
        }
        let crosses = |cut: &usize| {
            run.may_end_with(edges, edge - 1, &needle[..*cut]) && run.may_begin_with(edges, edge, &needle[*cut..])
        };
        let shortest = (1..needle.len()).find(crosses)?;
        let longest = (1..needle.len()).rfind(crosses)?;
        let (mut first, mut in_first) = (edge - 1, longest);
        while first > 0 && self.min_len(edges, first) < in_first {
            in_first -= self.min_len(edges, first);
            first -= 1;
        }
        let (mut last, mut in_last) = (edge, needle.len() - shortest);
        while last + 1 < edges.parts.len() && self.min_len(edges, last) < in_last {
            in_last -= self.min_len(edges, last);
            last += 1;
        }
        Some(PartRange { first, last, in_first, in_last })
    }

    fn min_len(&self, edges: &Edges<'_>, at: usize) -> usize {
        match &edges.parts[at] {
            TemplatePart::Literal(literal) => literal.len(),
            TemplatePart::Variable(column) => edges.traits(*column).min_len as usize,
        }
    }

    fn span(
        &self,
        template: &Template,
        reach: PartRange,
        (edges, facts): (&Edges<'_>, &[PartFacts]),
        alignments: Box<[Box<[Piece]>]>,
    ) -> Span {
        let PartRange { first, last, in_first, in_last } = reach;
        let around_of = |at: usize| facts[at].surroundings.context(edges.around, self.probe.bounds);
        let parts = (first..=last).map(|at| {
            let cut = match at {
                at if at == first => CutEnd::Start(in_first + MARGIN_BYTES),
                at if at == last => CutEnd::End(in_last + MARGIN_BYTES),
                _ => CutEnd::Nothing,
            };
            match &template.parts[at] {
                TemplatePart::Literal(literal) => {
                    let (bytes, cut) = cut.cut_text(literal);
                    SpanPart::Literal { bytes: bytes.into(), cut }
                }
                TemplatePart::Variable(column) => SpanPart::Value { column: *column, cut },
            }
        });
        let around = EdgeContext {
            left: around_of(first).left,
            right: around_of(last).right,
            free: (first..=last).all(|at| around_of(at).free),
            free_before: around_of(first).free_before,
        };
        let parts: Box<[SpanPart]> = parts.collect();
        Span { parts, around, alignments }
    }

    /// The plan for a span whose only variable has few values, and the column of that variable.
    pub(super) fn by_value(&self, span: &Span) -> Result<Option<(u32, ProbePlan)>, EngineError> {
        let mut columns = span.parts.iter().filter_map(|part| match part {
            SpanPart::Value { column, .. } => Some(*column),
            SpanPart::Literal { .. } => None,
        });
        let (Some(column), None) = (columns.next(), columns.next()) else { return Ok(None) };
        let (mut text, mut scratch) = (Vec::new(), Vec::new());
        let mut answer = |value: &[u8]| {
            text.clear();
            let mut around = span.around;
            for part in &span.parts {
                let cut = match part {
                    SpanPart::Literal { bytes, cut } => {
                        text.extend_from_slice(bytes);
                        *cut
                    }
                    SpanPart::Value { cut, .. } => append_cut(&mut text, value, *cut),
                };
                around = around.without_cut_bounds(cut);
            }
            self.probe.test_text(&text, around, &mut scratch)
        };
        Ok(match &self.template_set.columns[column as usize].kind {
            ColumnKind::Dictionary { .. } => {
                let texts = self.segment.dictionary(column)?;
                Some((column, ProbePlan::from_codes(texts.iter().map(answer).collect())))
            }
            ColumnKind::Numbers { format, min, max } if max.abs_diff(*min) < CACHED_NUMBERS_MAX => {
                let mut written = Vec::new();
                let answers = (*min..=*max).map(|number| {
                    written.clear();
                    format.write(number, &mut written);
                    answer(&written)
                });
                Some((column, ProbePlan::Numbers { min: *min, answers: answers.collect() }))
            }
            _ => None,
        })
    }
}

/// Appends a text, and returns the cut if any bytes were removed.
fn append_cut(out: &mut Vec<u8>, text: &[u8], cut: CutEnd) -> CutEnd {
    let (text, cut) = cut.cut_text(text);
    out.extend_from_slice(text);
    cut
}

/// The rows of a page whose template contains the span and that may match, ascending.
fn span_rows(
    TemplateSpan { counts, prefilters, .. }: &TemplateSpan,
    parent: u32,
    page: &mut PageReader<'_>,
) -> Result<Vec<u32>, EngineError> {
    let mut open = Vec::new();
    for prefilter in prefilters.iter().flatten() {
        if may_pass(prefilter, page)? {
            open.push(prefilter);
        }
    }
    if prefilters.is_some() && open.is_empty() {
        return Ok(Vec::new());
    }
    let templates = page.column(parent)?;
    let ColumnValues::Codes(codes) = &templates.values else { return Ok(Vec::new()) };
    let with_span = codes.iter().enumerate().filter(|(_, code)| counts.get(**code as usize) == Some(&true));
    let rows = with_span.map(|(place, _)| templates.row_at(place));
    let rows: Vec<u32> = rows.filter(|row| page.is_relevant(*row)).collect();
    if prefilters.is_none() {
        return Ok(rows);
    }
    let mut all = Vec::new();
    for prefilter in open {
        let mut passing = rows.clone();
        for test in &prefilter.tests {
            // Other columns are read only if a row is left for them.
            if passing.is_empty() {
                break;
            }
            let values = page.column(test.column)?;
            passing.retain(|row| values.value_index(*row).is_none_or(|place| test.accepts(&values, place)));
        }
        all.extend(passing);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// False if the page lacks a number that the tests of this prefilter require.
fn may_pass(prefilter: &Prefilter, page: &mut PageReader<'_>) -> Result<bool, EngineError> {
    let Some((test, number)) = prefilter.tests.first().and_then(|test| Some((test, test.number()?))) else {
        return Ok(true);
    };
    Ok(page.contains_number(test.column, number)? != Some(false))
}

/// Reader for the values of a variable in the rows of a page.
enum ValueReader {
    Dictionary(Arc<Dictionary>),
    Texts,
    Numbers,
    /// Rebuilt from templates, one value for each row.
    Rebuilt(Texts),
}

impl Probe {
    /// The answers other than no for the rows of a page whose template, a code of column `parent`, contains this span.
    pub(super) fn test_span(
        &self,
        of_templates: &TemplateSpan,
        parent: u32,
        page: &mut PageReader<'_>,
    ) -> Result<Vec<(u32, u8)>, EngineError> {
        let span = &of_templates.span;
        let rows = span_rows(of_templates, parent, page)?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let mut values = Vec::with_capacity(span.parts.len());
        for part in &span.parts {
            values.push(match part {
                SpanPart::Literal { .. } => None,
                SpanPart::Value { column, .. } => Some(match &page.template_set().columns[*column as usize].kind {
                    ColumnKind::Dictionary { .. } => ValueReader::Dictionary(page.segment().dictionary(*column)?),
                    ColumnKind::Texts => ValueReader::Texts,
                    ColumnKind::Numbers { .. } => ValueReader::Numbers,
                    ColumnKind::Templates(_) => ValueReader::Rebuilt(page.texts(*column, &rows)?),
                }),
            });
        }
        let mut cursors = Cursors::new(page);
        let (mut text, mut scratch, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for (place, row) in rows.iter().enumerate() {
            text.clear();
            let mut around = span.around;
            let mut has_all = true;
            for (part, values) in span.parts.iter().zip(&values) {
                let (column, cut) = match part {
                    SpanPart::Literal { bytes, cut } => {
                        text.extend_from_slice(bytes);
                        around = around.without_cut_bounds(*cut);
                        continue;
                    }
                    SpanPart::Value { column, cut } => (*column, *cut),
                };
                let cut = match values {
                    Some(ValueReader::Dictionary(texts)) => {
                        let code = cursors.code(column, *row, page)?.filter(|code| *code < u32_of(texts.len()));
                        code.map(|code| append_cut(&mut text, texts.get(code), cut))
                    }
                    Some(ValueReader::Texts) => {
                        cursors.text(column, *row, page)?.map(|value| append_cut(&mut text, value, cut))
                    }
                    Some(ValueReader::Numbers) => {
                        cursors.append_value(column, *row, page, &mut text)?.then_some(CutEnd::Nothing)
                    }
                    Some(ValueReader::Rebuilt(texts)) => Some(append_cut(&mut text, texts.get(place), cut)),
                    None => None,
                };
                match cut {
                    Some(cut) => around = around.without_cut_bounds(cut),
                    None => has_all = false,
                }
            }
            let answer = if has_all { self.test_text(&text, around, &mut scratch) } else { UNDECIDED };
            if answer != NO {
                found.push((*row, answer));
            }
        }
        Ok(found)
    }
}
