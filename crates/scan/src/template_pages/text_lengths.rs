//! Lengths of texts in characters, added up from their parts without rebuilding any text.
//!
//! If all values of a column have the same length (fixed-width numbers, dictionaries with texts of equal length), the
//! length is computed once per slab. Such a column is not read; its length is added to the length of the templates
//! that contain it. The lengths of other columns are added column by column.
//!
//! Not here: lengths of plain texts ([`crate::text_values`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, Int64Array};
use quarry_eval::EngineError;
use quarry_event::template::{
    ByteSet, Column, ColumnKind, ColumnValues, NumberFormat, PageColumn, TEXT_COLUMN, TemplatePart, TemplateSet,
    ip4_text_len,
};
use quarry_stdx::number::{low_u32, u32_of};

use super::page::{PageReader, Rows};
use crate::text_values::char_count;

/// Largest dictionary whose entries are all measured at the first row; the entries of a larger dictionary are measured
/// row by row.
const MEASURED_TEXTS_MAX: usize = 65_536;
/// If at least one in this many rows of a page is measured, the columns to read are fetched together.
const MANY_ROWS_DIVISOR: usize = 4;

/// Cached lengths of the values of a slab's columns.
pub(super) struct LengthCache {
    /// For each column, the length of its values, if all values have the same length.
    fixed: Vec<Option<u32>>,
    /// By template column: for each template the total length of its literals and fixed-length variables.
    templates: BTreeMap<u32, Vec<u32>>,
    /// By column: the length of each dictionary entry; computed on request.
    dictionaries: Mutex<BTreeMap<u32, Arc<[u32]>>>,
}

impl LengthCache {
    pub(super) fn of(template_set: &TemplateSet) -> LengthCache {
        let mut fixed: Vec<Option<u32>> = vec![None; template_set.columns.len()];
        let mut of_templates = BTreeMap::new();
        // Reverse order: a variable's column has a higher number than the column whose templates contain it.
        for (number, column) in template_set.columns.iter().enumerate().rev() {
            let ColumnKind::Templates(templates) = &column.kind else {
                fixed[number] = common_length(column);
                continue;
            };
            let of_part = |part: &TemplatePart| match part {
                TemplatePart::Literal(bytes) => Some(u32_of(char_count(bytes))),
                TemplatePart::Variable(column) => fixed.get(*column as usize).copied().flatten(),
            };
            let own: Vec<u32> =
                templates.iter().map(|template| template.parts.iter().filter_map(of_part).sum()).collect();
            let is_whole = templates.iter().all(|template| template.parts.iter().all(|part| of_part(part).is_some()));
            let first = own.first().copied();
            let variables = templates.iter().flat_map(|template| template.variables());
            debug_assert!(
                variables.into_iter().all(|variable| variable as usize > number),
                "variables follow their column"
            );
            fixed[number] = first.filter(|first| is_whole && own.iter().all(|length| length == first));
            of_templates.insert(u32_of(number), own);
        }
        LengthCache { fixed, templates: of_templates, dictionaries: Mutex::default() }
    }

    fn has_common_length(&self, column: u32) -> bool {
        self.fixed.get(column as usize).is_some_and(Option::is_some)
    }

    /// The columns that may have to be read for the lengths of texts: the text column and all columns nested in it,
    /// except columns whose values have equal lengths and the columns nested in such columns.
    fn columns_to_read(&self, template_set: &TemplateSet) -> Vec<u32> {
        let mut is_read = vec![false; template_set.columns.len()];
        for (number, column) in (0u32..).zip(&template_set.columns) {
            let parent = column.parent.and_then(|parent| is_read.get(parent as usize)).copied();
            is_read[number as usize] =
                number == TEXT_COLUMN || (parent == Some(true) && !self.has_common_length(number));
        }
        (0u32..).zip(is_read).filter(|(_, is_read)| *is_read).map(|(number, _)| number).collect()
    }

    /// Lengths of the texts of a dictionary; `None` for a large dictionary.
    fn dictionary_lengths(&self, column: u32, page: &PageReader<'_>) -> Result<Option<Arc<[u32]>>, EngineError> {
        let mut known = self.dictionaries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = known.get(&column) {
            return Ok(Some(Arc::clone(counts)));
        }
        let dictionary = page.segment().dictionary(column)?;
        if dictionary.len() > MEASURED_TEXTS_MAX {
            return Ok(None);
        }
        let counts: Arc<[u32]> = dictionary.iter().map(|text| u32_of(char_count(text))).collect();
        assert_eq!(counts.len(), dictionary.len(), "each entry has a length");
        known.insert(column, Arc::clone(&counts));
        Ok(Some(counts))
    }
}

/// The lengths of the texts in these rows.
pub(super) fn text_lengths(rows: &Rows, page: &mut PageReader<'_>) -> Result<ArrayRef, EngineError> {
    let known = page.slab.value_lengths();
    let mut lengths = vec![0u32; page.len()];
    let mut open = vec![TEXT_COLUMN];
    let mut seen = vec![false; page.template_set().columns.len()];
    let are_many = rows.len() >= page.len() / MANY_ROWS_DIVISOR;
    if are_many {
        page.prefetch_columns(&known.columns_to_read(page.template_set()), rows)?;
    }
    while let Some(column) = open.pop() {
        if are_many
            && is_ascii(&page.template_set().columns[column as usize])
            && let Some(texts) = page.text_ends(column)?
        {
            add_text_lengths(texts.rows.as_deref(), &texts.ends, &mut lengths);
            continue;
        }
        let values = page.column_of_rows(column, rows)?;
        if values.values.is_empty() {
            continue;
        }
        if let (ColumnKind::Templates(templates), ColumnValues::Codes(codes)) =
            (&page.template_set().columns[column as usize].kind, &values.values)
        {
            let mut used = vec![false; templates.len()];
            codes.iter().for_each(|code| used[*code as usize] = true);
            let named =
                templates.iter().zip(used).filter(|(_, used)| *used).flat_map(|(template, _)| template.variables());
            let before = open.len();
            for variable in named.filter(|variable| !known.has_common_length(*variable)) {
                if !std::mem::replace(&mut seen[variable as usize], true) {
                    open.push(variable);
                }
            }
            page.prefetch_columns(&open[before..], rows)?;
        }
        add_column_lengths(column, &values, &known, &mut lengths, page)?;
    }
    debug_assert!(rows.iter().all(|row| (row as usize) < lengths.len()), "the rows belong to the page");
    let of_rows = rows.iter().map(|row| lengths.get(row as usize).map(|length| i64::from(*length)));
    Ok(Arc::new(of_rows.collect::<Int64Array>()))
}

/// Adds the lengths of a column's values.
fn add_column_lengths(
    column: u32,
    values: &PageColumn,
    known: &LengthCache,
    lengths: &mut [u32],
    page: &PageReader<'_>,
) -> Result<(), EngineError> {
    let described = &page.template_set().columns[column as usize];
    let rows = values.rows.as_deref();
    match (&values.values, &described.kind) {
        (ColumnValues::Codes(codes), ColumnKind::Templates(_)) => {
            let own = known.templates.get(&column).map_or(&[][..], Vec::as_slice);
            add_value_lengths(rows, codes.iter().map(|code| own.get(*code as usize).copied().unwrap_or(0)), lengths);
        }
        (ColumnValues::Codes(codes), _) => match known.dictionary_lengths(column, page)? {
            Some(counts) => add_value_lengths(rows, codes.iter().map(|code| counts[*code as usize]), lengths),
            None => {
                let dictionary = page.segment().dictionary(column)?;
                add_value_lengths(rows, codes.iter().map(|code| u32_of(char_count(dictionary.get(*code)))), lengths);
            }
        },
        (ColumnValues::Numbers(numbers), ColumnKind::Numbers { format, .. }) => {
            let mut text = Vec::new();
            let length = |number: &i64| formatted_length(*format, *number, &mut text);
            add_value_lengths(rows, numbers.iter().map(length), lengths);
        }
        (ColumnValues::Texts { ends, .. }, _) if is_ascii(described) => {
            add_text_lengths(rows, ends, lengths);
        }
        (ColumnValues::Texts { bytes, ends }, _) => {
            let mut start = 0usize;
            let length = |end: &u32| {
                let text = bytes.get(start..*end as usize).unwrap_or_default();
                start = *end as usize;
                u32_of(char_count(text))
            };
            add_value_lengths(rows, ends.iter().map(length), lengths);
        }
        (ColumnValues::Numbers(_), _) => {
            return Err(EngineError::invalid(
                "a column of a bucket holds numbers where texts are declared; rebuild the bucket",
            ));
        }
    }
    Ok(())
}

/// Whether each byte of a column's values is a character.
fn is_ascii(column: &Column) -> bool {
    column.traits.bytes.is_subset(ASCII)
}

/// Adds the lengths of texts to the lengths of their rows. The texts have one byte per character and are given by their
/// ends.
fn add_text_lengths(rows: Option<&[u32]>, ends: &[u32], lengths: &mut [u32]) {
    let mut start = 0;
    let length = |end: &u32| end - std::mem::replace(&mut start, *end);
    add_value_lengths(rows, ends.iter().map(length), lengths);
}

/// Adds the length of each value to the length of its row.
fn add_value_lengths(rows: Option<&[u32]>, of_values: impl Iterator<Item = u32>, lengths: &mut [u32]) {
    match rows {
        None => lengths.iter_mut().zip(of_values).for_each(|(length, of_value)| *length += of_value),
        Some(rows) => rows.iter().zip(of_values).for_each(|(row, of_value)| lengths[*row as usize] += of_value),
    }
}

/// All bytes that encode a character by themselves.
const ASCII: ByteSet = ByteSet::from_words([u64::MAX, u64::MAX, 0, 0]);

/// The length of a column's values, if all values have the same length.
fn common_length(column: &Column) -> Option<u32> {
    let traits = &column.traits;
    match &column.kind {
        ColumnKind::Numbers { format, min, max } => {
            let mut text = Vec::new();
            let (first, last) =
                (formatted_length(*format, *min, &mut text), formatted_length(*format, *max, &mut text));
            let is_monotonic = matches!(format, NumberFormat::Integer | NumberFormat::Decimal { .. }) && *min >= 0;
            let is_fixed = match format {
                NumberFormat::Padded { .. } | NumberFormat::Hex { .. } | NumberFormat::Time(_) => true,
                NumberFormat::Integer | NumberFormat::Decimal { .. } => is_monotonic,
                NumberFormat::Shortest { .. } | NumberFormat::Ip4 => false,
            };
            (is_fixed && first == last).then_some(first)
        }
        ColumnKind::Dictionary { .. } | ColumnKind::Texts => {
            (traits.min_len == traits.max_len && traits.bytes.is_subset(ASCII)).then_some(traits.min_len)
        }
        ColumnKind::Templates(_) => None,
    }
}

/// Length of a number as written; all its characters are ASCII, so bytes are counted.
#[inline]
fn formatted_length(format: NumberFormat, number: i64, text: &mut Vec<u8>) -> u32 {
    let digits_of = |number: u64| number.checked_ilog10().unwrap_or(0) + 1;
    let sign = u32::from(number < 0);
    match format {
        NumberFormat::Integer => digits_of(number.unsigned_abs()) + sign,
        NumberFormat::Decimal { digits } => {
            digits_of(number.unsigned_abs() / 10u64.pow(u32::from(digits))) + 1 + u32::from(digits) + sign
        }
        NumberFormat::Shortest { digits } => {
            let (mut magnitude, mut fraction) = (number.unsigned_abs(), u32::from(digits));
            while fraction > 0 && magnitude % 10 == 0 {
                (magnitude, fraction) = (magnitude / 10, fraction - 1);
            }
            digits_of(magnitude / 10u64.pow(fraction)) + fraction + u32::from(fraction > 0) + sign
        }
        NumberFormat::Ip4 => ip4_text_len(low_u32(number)),
        NumberFormat::Padded { .. } | NumberFormat::Hex { .. } | NumberFormat::Time(_) => {
            text.clear();
            format.write(number, text);
            u32_of(text.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use quarry_event::template::{Template, ValueTraits};

    use super::*;

    #[test]
    fn lengths_of_numbers_are_those_of_their_texts() {
        let formats = [
            NumberFormat::Integer,
            NumberFormat::Decimal { digits: 3 },
            NumberFormat::Shortest { digits: 3 },
            NumberFormat::Padded { digits: 7 },
        ];
        let (mut text, mut scratch) = (Vec::new(), Vec::new());
        for format in formats {
            for number in [0, 5, 50, 500, 5_000, 12_340, 999_999, -1, -500, -12_000] {
                text.clear();
                format.write(number, &mut text);
                let length = formatted_length(format, number, &mut scratch);
                assert_eq!(length as usize, text.len(), "{number} as {format:?}");
            }
        }
    }

    #[test]
    fn columns_with_one_length_and_those_below_are_not_read() {
        let templates = |parts: &[&[u32]]| {
            let of = |variables: &&[u32]| Template {
                parts: variables.iter().map(|column| TemplatePart::Variable(*column)).collect(),
            };
            ColumnKind::Templates(parts.iter().map(of).collect())
        };
        let column = |parent: Option<u32>, kind: ColumnKind, lens: (u32, u32)| {
            let traits = ValueTraits { min_len: lens.0, max_len: lens.1, bytes: ASCII, ..ValueTraits::default() };
            Column { parent, kind, traits, values: 1 }
        };
        let columns = vec![
            column(None, templates(&[&[1, 2], &[1, 3, 4]]), (0, 9)),
            column(Some(0), ColumnKind::Texts, (1, 2)),
            column(Some(0), ColumnKind::Texts, (3, 3)),
            column(Some(0), templates(&[&[5]]), (3, 3)),
            column(Some(0), templates(&[&[6], &[]]), (0, 3)),
            column(Some(3), ColumnKind::Dictionary { len: 7 }, (3, 3)),
            column(Some(4), ColumnKind::Dictionary { len: 7 }, (1, 3)),
        ];
        let template_set = TemplateSet { columns, ..TemplateSet::default() };
        assert_eq!(LengthCache::of(&template_set).columns_to_read(&template_set), [0, 1, 4, 6]);
    }
}
