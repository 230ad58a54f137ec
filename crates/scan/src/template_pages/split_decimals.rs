//! Decimals whose digits before and after the point are in columns of their own: `0.007` as a value of the template
//! `⟨whole⟩.⟨fraction⟩`.
//!
//! Not here: fields of numbers in several columns ([`super::number_columns`]).

use arrow::array::AsArray;
use quarry_eval::EngineError;
use quarry_event::template::{ColumnKind, ColumnValues, NumberFormat, PageColumn, TemplatePart, TemplateSet};

use super::cursors::for_each_value;
use super::page::{PageReader, Rows};

/// Maximum number of different fractions in a dictionary.
const FRACTIONS_MAX: u32 = 4_096;
/// Numbers without their point are below this bound, which is within the exact range of doubles.
const NUMBERS_BOUND: u64 = 1_000_000_000_000_000;

/// The numbers of a column in a page.
pub(super) struct SplitDecimals {
    pub format: NumberFormat,
    /// By value of the column; `None` for values in another form.
    pub numbers: Vec<Option<i64>>,
}

/// The template `⟨whole⟩.⟨fraction⟩` of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DecimalTemplate {
    code: u32,
    whole: u32,
    fraction: u32,
}

impl DecimalTemplate {
    /// `None` if the values of the column have no such template.
    pub(super) fn of(column: u32, template_set: &TemplateSet) -> Option<DecimalTemplate> {
        let kind = |column: u32| template_set.columns.get(column as usize).map(|column| &column.kind);
        let is_whole =
            |column: u32| matches!(kind(column), Some(ColumnKind::Numbers { format: NumberFormat::Integer, .. }));
        let is_fraction = |column: u32| match kind(column) {
            Some(ColumnKind::Dictionary { len }) => *len <= FRACTIONS_MAX,
            Some(ColumnKind::Numbers { format: NumberFormat::Padded { .. }, .. }) => true,
            _ => false,
        };
        let Some(ColumnKind::Templates(templates)) = kind(column) else { return None };
        (0u32..).zip(templates.iter()).find_map(|(code, template)| match *template.parts.as_slice() {
            [TemplatePart::Variable(whole), TemplatePart::Literal(ref point), TemplatePart::Variable(fraction)]
                if **point == *b"." && is_whole(whole) && is_fraction(fraction) =>
            {
                Some(DecimalTemplate { code, whole, fraction })
            }
            _ => None,
        })
    }

    /// The numbers of a column with this template, given its values in at least these rows; `None` if most of the
    /// fractions are no digits or have different lengths.
    pub(super) fn read(
        self,
        values: &PageColumn,
        rows: &Rows,
        page: &mut PageReader<'_>,
    ) -> Result<Option<SplitDecimals>, EngineError> {
        let Some(fractions) = Fractions::of(self.fraction, page)? else { return Ok(None) };
        let ColumnValues::Codes(codes) = &values.values else { return Ok(None) };
        let (mut places, mut rows_here) = (Vec::new(), Vec::new());
        for_each_value(values, rows, |_, row, place| {
            if codes.get(place) == Some(&self.code) {
                places.push(place);
                rows_here.push(row);
            }
        });
        let rows_here = Rows::Some(rows_here);
        let whole = page.column_of_rows(self.whole, &rows_here)?;
        let fraction = page.column_of_rows(self.fraction, &rows_here)?;
        let mut wholes: Vec<Option<i64>> = vec![None; places.len()];
        if let ColumnValues::Numbers(numbers) = &whole.values {
            for_each_value(&whole, &rows_here, |at, _, place| wholes[at] = numbers.get(place).copied());
        }
        let mut numbers = vec![None; values.values.len()];
        for_each_value(&fraction, &rows_here, |at, _, place| {
            let joined = wholes[at].zip(fractions.at(&fraction.values, place));
            numbers[places[at]] = joined.and_then(|(whole, fraction)| fractions.join(whole, fraction));
        });
        Ok(Some(SplitDecimals { format: NumberFormat::Decimal { digits: fractions.digits }, numbers }))
    }
}

/// The digits after the point.
struct Fractions {
    /// Number of digits of nearly all fractions.
    digits: u8,
    /// By code of a dictionary; `None` for a text in another form.
    by_code: Vec<Option<i64>>,
}

impl Fractions {
    fn of(column: u32, page: &PageReader<'_>) -> Result<Option<Fractions>, EngineError> {
        match page.template_set().columns[column as usize].kind {
            ColumnKind::Numbers { format: NumberFormat::Padded { digits }, .. } => {
                let is_valid = NumberFormat::Decimal { digits }.is_valid();
                Ok(is_valid.then(|| Fractions { digits, by_code: Vec::new() }))
            }
            ColumnKind::Dictionary { .. } => {
                let texts = page.slab.dictionary_values(column)?;
                Ok(Fractions::of_texts(texts.as_string_view().iter().map(Option::unwrap_or_default)))
            }
            _ => Ok(None),
        }
    }

    /// `None` unless most of the texts are digits of the same length.
    fn of_texts<'t>(texts: impl Iterator<Item = &'t str> + Clone) -> Option<Fractions> {
        let mut lengths = [0usize; 10];
        for text in texts.clone() {
            if let Some(count) = lengths.get_mut(text.len()) {
                *count += 1;
            }
        }
        let digits = (1u8..10).max_by_key(|digits| lengths[usize::from(*digits)])?;
        let format = NumberFormat::Decimal { digits };
        let parse = |text: &str| format.parse_fraction(text.as_bytes()).and_then(|number| i64::try_from(number).ok());
        let by_code: Vec<Option<i64>> = texts.map(parse).collect();
        let known = by_code.iter().flatten().count();
        (known * 2 > by_code.len()).then_some(Fractions { digits, by_code })
    }

    /// The fraction at a place of the column.
    #[inline]
    fn at(&self, values: &ColumnValues, place: usize) -> Option<i64> {
        match values {
            ColumnValues::Codes(codes) => *self.by_code.get(*codes.get(place)? as usize)?,
            ColumnValues::Numbers(numbers) => numbers.get(place).copied(),
            ColumnValues::Texts { .. } => None,
        }
    }

    /// The number with these digits before and after its point, without the point.
    #[inline]
    fn join(&self, whole: i64, fraction: i64) -> Option<i64> {
        let scaled = whole.checked_mul(10i64.pow(u32::from(self.digits)))?;
        let number = if whole < 0 { scaled.checked_sub(fraction) } else { scaled.checked_add(fraction) };
        number.filter(|number| number.unsigned_abs() < NUMBERS_BOUND)
    }
}

#[cfg(test)]
mod tests {
    use quarry_event::template::{Column, Template, ValueTraits};

    use super::*;

    #[test]
    fn digits_before_and_after_the_point_are_one_number() {
        let fractions = Fractions::of_texts(["007", "350", "5", "x12", "040"].into_iter()).unwrap();
        assert_eq!(
            (fractions.digits, fractions.by_code.as_slice()),
            (3, &[Some(7), Some(350), None, None, Some(40)][..])
        );
        let joined = [(0, 7), (12, 350), (-5, 40), (2_000_000_000_000, 1)].map(|(a, b)| fractions.join(a, b));
        assert_eq!(joined, [Some(7), Some(12_350), Some(-5_040), None]);
        assert!(Fractions::of_texts(["html", "js", "007"].into_iter()).is_none());
        assert!(Fractions::of_texts(std::iter::empty()).is_none());
    }

    #[test]
    fn the_template_has_an_integer_and_a_fraction() {
        let column = |kind| Column { parent: None, values: 1, kind, traits: ValueTraits::default() };
        let numbers = |format| column(ColumnKind::Numbers { format, min: 0, max: 9 });
        let template = |parts: &[TemplatePart]| Template { parts: parts.to_vec() };
        let literal = |text: &str| TemplatePart::Literal(text.as_bytes().into());
        let of = |point: &str, fraction: Column| {
            let parts = [TemplatePart::Variable(1), literal(point), TemplatePart::Variable(2)];
            let templates = vec![template(&[literal("-")]), template(&parts)];
            let columns =
                vec![column(ColumnKind::Templates(templates.into())), numbers(NumberFormat::Integer), fraction];
            DecimalTemplate::of(0, &TemplateSet { columns, ..TemplateSet::default() })
        };
        let expected = Some(DecimalTemplate { code: 1, whole: 1, fraction: 2 });
        assert_eq!(of(".", column(ColumnKind::Dictionary { len: 9 })), expected);
        assert_eq!(of(".", numbers(NumberFormat::Padded { digits: 3 })), expected);
        assert_eq!(of(".", column(ColumnKind::Dictionary { len: FRACTIONS_MAX + 1 })), None);
        assert_eq!(of(".", numbers(NumberFormat::Integer)), None);
        assert_eq!(of(":", column(ColumnKind::Dictionary { len: 9 })), None);
    }
}
