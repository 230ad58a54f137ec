//! Quantities: values that are a number and a unit in one word, such as `404mA`, `23.4C` or `0.043mm/s`.
//!
//! Such values are split at the end of the number, inside the word: the template has the unit, and the number is a
//! column of numbers. Each number format has one column, whatever the unit, so that a field with several units is in
//! few columns. Values without a number or with a rare unit are plain texts.
//!
//! Not here: numbers without a unit (`super::trial`), words with digits elsewhere (`super::variables`).

use quarry_event::template::NumberFormat;
use quarry_stdx::number::{u8_of, u32_of};

use super::dictionary::TextList;
use super::trie::FoundVariable;

/// Maximum bytes of a unit.
const UNIT_BYTES_MAX: usize = 8;
/// Maximum number of templates, one for each combination of a unit and a number format.
const TEMPLATES_MAX: usize = 16;
/// Maximum number of digits after the point.
const FRACTION_DIGITS_MAX: usize = 9;
/// A column is split into quantities if at most one value in this many is not a quantity.
const VALUES_PER_OTHER: usize = 8;
/// At least one value in this many must have a unit.
const VALUES_PER_UNIT: usize = 2;

/// The templates of a column of quantities.
#[derive(Debug, Default)]
pub(super) struct Quantities(Vec<QuantityTemplate>);

#[derive(Debug)]
struct QuantityTemplate {
    format: NumberFormat,
    unit: Box<[u8]>,
    template: u32,
    column: u32,
}

/// A value divided into its number and its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quantity<'t> {
    pub(super) format: NumberFormat,
    pub(super) number: &'t [u8],
    pub(super) unit: &'t [u8],
}

impl<'t> Quantity<'t> {
    /// Divides a value that is an integer or a decimal, followed by at most `UNIT_BYTES_MAX` bytes of letters,
    /// non-ASCII characters, `%` and `/`. `None` for any other text, and if formatting the number would not restore its
    /// text.
    pub(super) fn parse(text: &'t [u8]) -> Option<Quantity<'t>> {
        let digits = |from: usize| text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let start = usize::from(text.first() == Some(&b'-'));
        let whole = digits(start);
        if whole == 0 {
            return None;
        }
        let point = start + whole;
        let fraction = if text.get(point) == Some(&b'.') { digits(point + 1) } else { 0 };
        let (end, format) = match fraction {
            0 => (point, NumberFormat::Integer),
            1..=FRACTION_DIGITS_MAX => (point + 1 + fraction, NumberFormat::Decimal { digits: u8_of(fraction) }),
            _ => return None,
        };
        let (number, unit) = text.split_at(end);
        let is_unit = |byte: &u8| byte.is_ascii_alphabetic() || !byte.is_ascii() || matches!(byte, b'%' | b'/');
        let is_quantity = unit.len() <= UNIT_BYTES_MAX && unit.iter().all(is_unit) && format.parse(number).is_some();
        is_quantity.then_some(Quantity { format, number, unit })
    }

    /// Distinguishes the columns of numbers.
    pub(super) fn form(&self) -> u32 {
        match self.format {
            NumberFormat::Decimal { digits } => u32::from(digits),
            _ => 0,
        }
    }
}

impl Quantities {
    /// The template of a known combination of unit and format; fills its variable.
    #[inline]
    pub(super) fn find(&self, text: &[u8], filled: &mut Vec<FoundVariable>) -> Option<u32> {
        let Quantity { format, number, unit } = Quantity::parse(text)?;
        let found = self.0.iter().find(|known| known.format == format && *known.unit == *unit)?;
        filled.clear();
        filled.push(FoundVariable { column: found.column, start: 0, end: u32_of(number.len()) });
        Some(found.template)
    }

    /// Whether no further template may be added.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() == TEMPLATES_MAX
    }

    /// Adds a template that is not known yet.
    pub(super) fn add(&mut self, quantity: &Quantity<'_>, template: u32, column: u32) {
        debug_assert!(!self.is_full(), "the caller checks the number of templates");
        let Quantity { format, unit, .. } = *quantity;
        self.0.push(QuantityTemplate { format, unit: unit.into(), template, column });
    }
}

/// Whether most of these values are quantities, at least one in `VALUES_PER_UNIT` with a unit, and need few templates.
pub(super) fn are_quantities(texts: &TextList) -> bool {
    let (mut known, mut with_unit, mut others): (Vec<(NumberFormat, &[u8])>, usize, usize) = (Vec::new(), 0, 0);
    for text in texts.iter() {
        let Some(Quantity { format, unit, .. }) = Quantity::parse(text) else {
            others += 1;
            if others * VALUES_PER_OTHER > texts.len() {
                return false;
            }
            continue;
        };
        with_unit += usize::from(!unit.is_empty());
        if !known.contains(&(format, unit)) {
            if known.len() == TEMPLATES_MAX {
                return false;
            }
            known.push((format, unit));
        }
    }
    with_unit * VALUES_PER_UNIT >= texts.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_split_at_the_end_of_the_number() {
        let told = |text: &'static str| {
            let quantity = Quantity::parse(text.as_bytes())?;
            Some((std::str::from_utf8(quantity.number).unwrap(), std::str::from_utf8(quantity.unit).unwrap()))
        };
        for (text, expected) in [
            ("404mA", ("404", "mA")),
            ("-23.4°C", ("-23.4", "°C")),
            ("0.043mm/s", ("0.043", "mm/s")),
            ("0ms", ("0", "ms")),
            ("37%", ("37", "%")),
            ("12KB", ("12", "KB")),
            ("17", ("17", "")),
            ("999999999999999999s", ("999999999999999999", "s")),
        ] {
            assert_eq!(told(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "-",
            "ms",
            "-ms",
            "007ms",
            "-0ms",
            "+5ms",
            ".5s",
            "5.s",
            "1.2.3",
            "1e9",
            "5m30s",
            "12 ms",
            "1,5s",
            "12kilometres",
            "9999999999999999999s",
            "1.0123456789s",
            "12_a",
            "3-a",
            "12(a)",
        ] {
            assert_eq!(told(text), None, "{text}");
        }
    }
}
