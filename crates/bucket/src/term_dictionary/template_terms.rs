//! The terms of a template slab: each literal and each dictionary text is tokenised once, not once per event.
//!
//! Variables usually begin and end at breakers, so that the tokens of a text are the tokens of its literals and of its
//! variables' values. The bytes on both sides of a variable's edge tell whether a token may straddle the edge. If a
//! token may straddle it, the variable and the words next to it are rebuilt for every value and tokenised as a text;
//! the other parts of the text are not rebuilt. Columns of numbers and of short texts, which seldom repeat, are only
//! hashed, for the term filter (`super::rare_tokens`).

use quarry_event::segment::is_breaker;
use quarry_event::template::{Template, TemplatePart, ValueTraits};

use crate::templates::{SlabColumn, SlabValues, TemplateSlab};
use crate::term_dictionary::rare_tokens::{RareNumbers, add_text_hashes, are_texts_rare};
use crate::term_dictionary::table::TermTable;

/// Maximum number of bytes after a `%` that may be the start of a percent-encoded breaker: `%252` may continue as
/// `%2520`.
const OPEN_PERCENT_BYTES_MAX: usize = 3;
/// Bytes that occur in percent-encoded breakers.
const PERCENT_CODE: &[u8] = b"0123456789ABCDabcd";

/// Adds the terms of the slab to the term dictionary's table, and the hashes of the terms that the dictionary omits to
/// `rare`, with repetitions. The table must be empty and is not finished here.
pub(crate) fn add_terms(slab: &TemplateSlab, tokens: &mut TermTable, rare: &mut Vec<u64>) {
    let reaches = column_edge_traits(slab);
    for (number, column) in slab.columns.iter().enumerate() {
        match &*column.values {
            SlabValues::Templates { templates, codes } => {
                let terms: Vec<TemplateTerms<'_>> =
                    templates.iter().map(|template| TemplateTerms::of(template, &reaches)).collect();
                for (terms, pages) in terms.iter().zip(code_pages(column, codes, templates.len())) {
                    tokens.start_pages(pages);
                    terms.literals.iter().for_each(|literal| tokens.add_text(literal));
                }
                if terms.iter().any(|terms| !terms.runs.is_empty()) {
                    add_straddling_tokens(slab, number, &terms, tokens);
                }
            }
            SlabValues::Dictionary { bytes, ends, codes } => {
                for (text, pages) in text_slices(bytes, ends, 0..ends.len()).zip(code_pages(column, codes, ends.len()))
                {
                    tokens.start_pages(pages);
                    tokens.add_text(text);
                }
            }
            SlabValues::Numbers { format, numbers } => {
                let min = numbers.iter().copied().min().unwrap_or(0);
                let max = numbers.iter().copied().max().unwrap_or(0);
                let mut set = RareNumbers::new(*format, min, max, numbers.len() as u64);
                set.add(numbers, rare);
                set.finish(rare);
            }
            SlabValues::Texts { bytes, ends } if are_texts_rare(&column.traits) => {
                add_text_hashes(text_slices(bytes, ends, 0..ends.len()), rare);
            }
            SlabValues::Texts { bytes, ends } => {
                for (page, places) in value_ranges_by_page(column) {
                    tokens.start_page(page);
                    text_slices(bytes, ends, places).for_each(|text| tokens.add_text(text));
                }
            }
        }
    }
}

/// The positions of a column's values in each page.
pub(super) fn value_ranges_by_page(column: &SlabColumn) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> + '_ {
    let places = |bounds: &[u32]| bounds[0] as usize..bounds[1] as usize;
    column.page_starts.windows(2).map(places).enumerate()
}

/// Pages in which each code occurs.
pub(super) fn code_pages(column: &SlabColumn, codes: &[u32], len: usize) -> Vec<u64> {
    let mut pages = vec![0u64; len];
    for (page, places) in value_ranges_by_page(column) {
        for code in &codes[places] {
            pages[*code as usize] |= 1 << page;
        }
    }
    pages
}

pub(super) fn text_slices<'a>(
    bytes: &'a [u8],
    ends: &'a [u32],
    places: std::ops::Range<usize>,
) -> impl Iterator<Item = &'a [u8]> {
    let mut start = if places.start == 0 { 0 } else { ends[places.start - 1] as usize };
    ends[places].iter().map(move |end| &bytes[std::mem::replace(&mut start, *end as usize)..*end as usize])
}

/// Kinds of bytes that may be at the ends of a value, or of a run of a template's parts.
#[derive(Clone, Copy, Debug, Default)]
struct EdgeTraits {
    /// Whether the value may begin with a byte that is not a breaker.
    word_first: bool,
    /// Whether the value may begin with a byte of a percent-encoded breaker.
    code_first: bool,
    /// Whether the value may end with a byte that is not a breaker.
    word_last: bool,
    /// Whether the value may end with a `%` and the start of a percent-encoded breaker.
    open_percent: bool,
    may_be_empty: bool,
}

impl EdgeTraits {
    const EMPTY: EdgeTraits =
        EdgeTraits { word_first: false, code_first: false, word_last: false, open_percent: false, may_be_empty: true };

    fn from_literal(bytes: &[u8]) -> EdgeTraits {
        let tail = &bytes[bytes.len() - bytes.len().min(OPEN_PERCENT_BYTES_MAX + 1)..];
        let percent = tail.iter().rposition(|byte| *byte == b'%');
        EdgeTraits {
            word_first: bytes.first().is_some_and(|byte| !is_breaker(*byte)),
            code_first: bytes.first().is_some_and(|byte| PERCENT_CODE.contains(byte)),
            word_last: bytes.last().is_some_and(|byte| !is_breaker(*byte)),
            open_percent: percent.is_some_and(|at| tail[at + 1..].iter().all(|byte| PERCENT_CODE.contains(byte))),
            may_be_empty: bytes.is_empty(),
        }
    }

    fn from_values(traits: &ValueTraits) -> EdgeTraits {
        EdgeTraits {
            word_first: traits.firsts.iter().any(|byte| !is_breaker(byte)),
            code_first: PERCENT_CODE.iter().any(|byte| traits.firsts.contains(*byte)),
            word_last: traits.lasts.iter().any(|byte| !is_breaker(byte)),
            open_percent: traits.bytes.contains(b'%'),
            may_be_empty: traits.min_len == 0,
        }
    }

    /// Whether a token or a percent-encoded breaker may straddle the border between two neighbours.
    fn may_straddle(self, next: EdgeTraits) -> bool {
        (self.word_last && next.word_first) || (self.open_percent && next.code_first)
    }

    fn concat(self, next: EdgeTraits) -> EdgeTraits {
        EdgeTraits {
            word_first: self.word_first || (self.may_be_empty && next.word_first),
            code_first: self.code_first || (self.may_be_empty && next.code_first),
            word_last: next.word_last || (next.may_be_empty && self.word_last),
            open_percent: next.open_percent || (next.may_be_empty && self.open_percent),
            may_be_empty: self.may_be_empty && next.may_be_empty,
        }
    }

    fn union(self, other: EdgeTraits) -> EdgeTraits {
        EdgeTraits {
            word_first: self.word_first || other.word_first,
            code_first: self.code_first || other.code_first,
            word_last: self.word_last || other.word_last,
            open_percent: self.open_percent || other.open_percent,
            may_be_empty: self.may_be_empty || other.may_be_empty,
        }
    }
}

/// Edge traits of each column. The traits of a template column follow from the columns of its variables, which come
/// later.
fn column_edge_traits(slab: &TemplateSlab) -> Vec<EdgeTraits> {
    let mut reaches = vec![EdgeTraits::EMPTY; slab.columns.len()];
    for (number, column) in slab.columns.iter().enumerate().rev() {
        reaches[number] = match &*column.values {
            SlabValues::Templates { templates, .. } => {
                let whole = |template: &Template| {
                    template
                        .parts
                        .iter()
                        .fold(EdgeTraits::EMPTY, |reach, part| reach.concat(part_edge_traits(part, &reaches)))
                };
                templates.iter().map(whole).reduce(EdgeTraits::union).unwrap_or(EdgeTraits::EMPTY)
            }
            _ => EdgeTraits::from_values(&column.traits),
        };
    }
    reaches
}

fn part_edge_traits(part: &TemplatePart, reaches: &[EdgeTraits]) -> EdgeTraits {
    match part {
        TemplatePart::Literal(bytes) => EdgeTraits::from_literal(bytes),
        TemplatePart::Variable(column) => reaches[*column as usize],
    }
}

/// A part of a template, for tokenisation: a variable, a literal, or a piece of a literal.
#[derive(Clone, Copy, Debug)]
enum Piece<'a> {
    Literal(&'a [u8]),
    Variable(u32),
}

/// The terms of a template, except those that the columns of its variables contribute.
#[derive(Debug, Default)]
struct TemplateTerms<'a> {
    /// Literals beyond whose ends no token extends, whatever the values of the variables are.
    literals: Vec<&'a [u8]>,
    /// Sequences of neighbouring pieces in which tokens may straddle the borders.
    runs: Vec<Vec<Piece<'a>>>,
}

impl<'a> TemplateTerms<'a> {
    fn of(template: &'a Template, columns: &[EdgeTraits]) -> TemplateTerms<'a> {
        let mut terms = TemplateTerms::default();
        for mut run in split_into_runs(template, columns) {
            match (run.pop(), run.is_empty()) {
                (Some(Piece::Literal(literal)), true) => terms.literals.push(literal),
                // The column of the variable has the terms of its values.
                (Some(Piece::Variable(_)) | None, true) => {}
                (last, false) => {
                    run.extend(last);
                    terms.runs.push(run);
                }
            }
        }
        terms
    }
}

/// Divides a template between neighbours that no token and no percent-encoded breaker straddles. Literals are divided
/// after their first and last breaker, so that only the words at their ends are in a run with a variable.
fn split_into_runs<'a>(template: &'a Template, columns: &[EdgeTraits]) -> Vec<Vec<Piece<'a>>> {
    let mut runs: Vec<(Vec<Piece<'_>>, EdgeTraits)> = Vec::new();
    let mut before = EdgeTraits::EMPTY;
    let pieces = template.parts.iter().flat_map(|part| match part {
        TemplatePart::Literal(bytes) => cut_literal(bytes).map(Piece::Literal),
        TemplatePart::Variable(column) => [Piece::Variable(*column), Piece::Literal(b""), Piece::Literal(b"")],
    });
    for piece in pieces {
        let next = match piece {
            Piece::Literal([]) => continue,
            Piece::Literal(bytes) => EdgeTraits::from_literal(bytes),
            Piece::Variable(column) => columns[column as usize],
        };
        let mut run = (vec![piece], next);
        if before.may_straddle(next) {
            // A token that begins before a run whose variables are all empty straddles the whole run.
            while let Some((mut pieces, edges)) = runs.pop() {
                pieces.append(&mut run.0);
                run = (pieces, edges.concat(run.1));
                if !edges.may_be_empty {
                    break;
                }
            }
        }
        // A percent-encoded breaker may extend over several short pieces.
        let open_percent = before.open_percent && next.code_first;
        before = before.concat(next);
        before.open_percent |= open_percent;
        runs.push(run);
    }
    runs.into_iter().map(|(pieces, _)| pieces).collect()
}

/// Cuts a literal after its first and after its last breaker other than `%`, which may begin a percent-encoded breaker.
fn cut_literal(bytes: &[u8]) -> [&[u8]; 3] {
    let ends_piece = |byte: &u8| is_breaker(*byte) && *byte != b'%';
    let last = bytes.iter().rposition(ends_piece).map_or(0, |at| at + 1);
    let first = bytes.iter().position(ends_piece).map_or(0, |at| at + 1);
    [&bytes[..first], &bytes[first..last], &bytes[last..]]
}

/// A step by which [`Filler`] handles a value that has a certain template.
#[derive(Debug)]
enum FillStep<'a> {
    /// Concatenate these pieces, with the next values of their variables, and tokenise the text.
    Add(&'a [Piece<'a>]),
    /// Skip the next value of this column: its variable is in runs of other templates, but not in a run of this one.
    Skip(usize),
}

/// The steps for each template of a column, by the number of the template. `terms` has the runs of each template.
fn fill_steps<'a>(templates: &[Template], terms: &'a [TemplateTerms<'a>], columns: usize) -> Vec<Vec<FillStep<'a>>> {
    let mut is_filled = vec![false; columns];
    for piece in terms.iter().flat_map(|terms| terms.runs.iter().flatten()) {
        if let Piece::Variable(column) = piece {
            is_filled[*column as usize] = true;
        }
    }
    let steps_of = |(template, terms): (&Template, &'a TemplateTerms<'a>)| {
        let mut in_run = Vec::new();
        for piece in terms.runs.iter().flatten() {
            if let Piece::Variable(column) = piece {
                in_run.push(*column);
            }
        }
        let skipped = template.parts.iter().filter_map(|part| match part {
            TemplatePart::Variable(column) if is_filled[*column as usize] && !in_run.contains(column) => {
                Some(FillStep::Skip(*column as usize))
            }
            _ => None,
        });
        terms.runs.iter().map(|run| FillStep::Add(run)).chain(skipped).collect()
    };
    templates.iter().zip(terms).map(steps_of).collect()
}

/// Rebuilds the texts of the runs for each value of a template column, and adds their tokens page by page.
fn add_straddling_tokens(slab: &TemplateSlab, number: usize, terms: &[TemplateTerms<'_>], tokens: &mut TermTable) {
    let column = &slab.columns[number];
    let SlabValues::Templates { templates, codes } = &*column.values else {
        return;
    };
    let steps = fill_steps(templates, terms, slab.columns.len());
    let mut filler = Filler { slab, next: vec![0; slab.columns.len()], text: Vec::new() };
    for (page, places) in value_ranges_by_page(column) {
        tokens.start_page(page);
        for step in codes[places].iter().flat_map(|code| &steps[*code as usize]) {
            match step {
                FillStep::Skip(column) => filler.skip_variable(*column),
                FillStep::Add(pieces) => {
                    filler.text.clear();
                    filler.fill_pieces(pieces);
                    tokens.add_text(&filler.text);
                }
            }
        }
    }
}

/// Rebuilds texts of runs, value by value. The values of a variable's column are in the order of the parent column's
/// values, so the position of the next value in each column is sufficient.
struct Filler<'a> {
    slab: &'a TemplateSlab,
    /// Index of the next value of each column.
    next: Vec<usize>,
    text: Vec<u8>,
}

impl<'a> Filler<'a> {
    fn fill_pieces(&mut self, pieces: &[Piece<'_>]) {
        for piece in pieces {
            match piece {
                Piece::Literal(bytes) => self.text.extend_from_slice(bytes),
                Piece::Variable(column) => self.fill_variable(*column as usize),
            }
        }
    }

    fn fill(&mut self, template: &'a Template) {
        for part in &template.parts {
            match part {
                TemplatePart::Literal(bytes) => self.text.extend_from_slice(bytes),
                TemplatePart::Variable(column) => self.fill_variable(*column as usize),
            }
        }
    }

    fn fill_variable(&mut self, column: usize) {
        let at = self.next[column];
        self.next[column] += 1;
        match &*self.slab.columns[column].values {
            SlabValues::Templates { templates, codes } => self.fill(&templates[codes[at] as usize]),
            SlabValues::Dictionary { bytes, ends, codes } => {
                self.text.extend_from_slice(text_at(bytes, ends, codes[at] as usize))
            }
            SlabValues::Numbers { format, numbers } => format.write(numbers[at], &mut self.text),
            SlabValues::Texts { bytes, ends } => self.text.extend_from_slice(text_at(bytes, ends, at)),
        }
    }

    /// Passes over the next value of a column, and over the values of its variables.
    fn skip_variable(&mut self, column: usize) {
        let at = self.next[column];
        self.next[column] += 1;
        if let SlabValues::Templates { templates, codes } = &*self.slab.columns[column].values {
            for part in &templates[codes[at] as usize].parts {
                if let TemplatePart::Variable(column) = part {
                    self.skip_variable(*column as usize);
                }
            }
        }
    }
}

fn text_at<'a>(bytes: &'a [u8], ends: &[u32], at: usize) -> &'a [u8] {
    let start = if at == 0 { 0 } else { ends[at - 1] as usize };
    &bytes[start..ends[at] as usize]
}

#[cfg(test)]
mod tests;
