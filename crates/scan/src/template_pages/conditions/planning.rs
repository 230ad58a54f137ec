//! Planning of a field test for one slab: by key (an extraction class and a template), by code of a dictionary of the
//! field or of a column, on numbers, or on the texts of each page.
//!
//! If a value is equal as a number but not as a text, the condition is tested on the text of the event. Numbers are
//! therefore compared as numbers only if the comparison of their texts always agrees.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder};
use quarry_eval::EngineError;
use quarry_eval::row_filter::network_of;
use quarry_event::template::{ByteSet, ColumnKind, CountedValues, NumberFormat, TEXT_COLUMN, TemplateSet, ValueTraits};
use quarry_event::value::{MAX_EXACT_INTEGER, parse_number};
use quarry_spl::ast::CompareOp;
use quarry_stdx::number::{integer_part, u32_of};

use super::field_plan::{CodedTest, ColumnPlan, FieldPlan};
use super::field_test::FieldTest;
use crate::template_pages::by_value::ByValue;
use crate::template_pages::columns::number_texts;
use crate::template_pages::field_locations::FieldLocations;
use crate::template_pages::outcome::{NO, UNDECIDED, YES};
use crate::template_pages::rex::invalid_utf8;
use crate::template_pages::slab::Slab;
use crate::template_pages::value_location::{NestedValue, ValueLocation, append_unescaped};

/// Maximum number of texts of a dictionary whose escapes are resolved for a test.
const UNESCAPED_TEXTS_MAX: usize = 8_192;

impl FieldTest {
    /// Evaluation of the test in a slab.
    pub(super) fn plan(&self, slab: &Slab) -> Result<FieldPlan, EngineError> {
        let Some(field) = slab.field(&self.name) else {
            let (base, columns, computed) =
                (vec![UNDECIDED; slab.key_count()], Vec::new(), slab.is_computed_for(&self.name));
            let (coded, composite, ambiguous, alone) = (None, Vec::new(), false, false);
            return Ok(FieldPlan { base, columns, coded, composite, divided: false, computed, ambiguous, alone });
        };
        if let Some(plan) = self.coded_plan(field, slab)? {
            return Ok(plan);
        }
        let mut base = vec![NO; field.locations.len()];
        let mut columns: Vec<(NestedValue, ColumnPlan)> = Vec::new();
        let (mut composite, mut constants) = (Vec::new(), Vec::new());
        for (key, place) in field.locations.iter().enumerate() {
            match place {
                // If a pattern may find the field, the condition is tested on the text.
                _ if field.is_patterned(u32_of(key)) => base[key] = UNDECIDED,
                ValueLocation::Absent => {}
                ValueLocation::Constant(text) => constants.push((key, text)),
                place if let Some(values) = tested_columns(place, &slab.template_set) => {
                    for value in values {
                        if !columns.iter().any(|(known, _)| *known == value) {
                            columns.push((value, self.column_plan(value, slab)?));
                        }
                    }
                }
                ValueLocation::Composite(_)
                | ValueLocation::Escaped(_)
                | ValueLocation::Written(_)
                | ValueLocation::Pair(_)
                | ValueLocation::Nested(_)
                | ValueLocation::List(_)
                | ValueLocation::Variable(_)
                | ValueLocation::Derived => {
                    base[key] = UNDECIDED;
                    composite.resize(base.len(), false);
                    composite[key] = true;
                }
                ValueLocation::Text => base[key] = UNDECIDED,
            }
        }
        if !constants.is_empty() {
            let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(constants.iter().map(|(_, text)| text)));
            let answers = self.test_texts(&texts)?;
            assert_eq!(answers.len(), constants.len(), "each text has an answer");
            constants.iter().zip(answers).for_each(|((key, _), answer)| base[*key] = answer);
        }
        Ok(FieldPlan {
            base,
            columns,
            coded: None,
            composite,
            divided: field.split.is_some(),
            computed: slab.is_computed_for(&self.name),
            ambiguous: !field.ambiguous_columns.is_empty(),
            alone: field.column.is_some() && field.patterned.is_empty() && !field.by_text,
        })
    }

    /// Evaluation on the slab-wide dictionary of a field of which some values are composed or computed from parts; `None`
    /// if not all values are in a dictionary, or if the field may have values from patterns or rules.
    fn coded_plan(&self, field: &FieldLocations, slab: &Slab) -> Result<Option<FieldPlan>, EngineError> {
        let is_composed =
            |place: &ValueLocation| matches!(place, ValueLocation::Composite(_) | ValueLocation::Written(_));
        let may_be_elsewhere =
            !field.patterned.is_empty() || field.derived.is_some() || slab.is_computed_for(&self.name);
        if may_be_elsewhere || !field.locations.iter().any(is_composed) {
            return Ok(None);
        }
        let Some(coded) = slab.coded_field(field)?.filter(|coded| coded.is_complete()) else { return Ok(None) };
        let answers = self.test_texts(&coded.texts)?;
        let answer = |place: &ValueLocation| if *place == ValueLocation::Absent { NO } else { UNDECIDED };
        Ok(Some(FieldPlan {
            base: field.locations.iter().map(answer).collect(),
            columns: Vec::new(),
            coded: Some(CodedTest { field: coded, answers }),
            composite: Vec::new(),
            divided: field.split.is_some(),
            computed: false,
            ambiguous: !field.ambiguous_columns.is_empty(),
            alone: false,
        }))
    }

    fn column_plan(&self, value: NestedValue, slab: &Slab) -> Result<ColumnPlan, EngineError> {
        let NestedValue { column, is_escaped } = value;
        match &slab.template_set.columns[column as usize].kind {
            ColumnKind::Dictionary { .. } => {
                let written = slab.dictionary_values(column)?;
                let texts = if is_escaped { unescaped_texts(&written)? } else { written };
                let answers = self.test_column_texts(column, &slab.template_set, &texts)?;
                Ok(match answers.first() {
                    Some(first) if answers.iter().all(|answer| answer == first) => ColumnPlan::Same(*first),
                    _ => ColumnPlan::Codes(answers),
                })
            }
            _ if self.requires_presence() => Ok(ColumnPlan::Same(YES)),
            ColumnKind::Numbers { format, min, max } => Ok(self.number_plan(*format, *min, *max)),
            _ => Ok(match self.answer_without_texts(&slab.template_set.columns[column as usize].traits) {
                Some(answer) => ColumnPlan::Same(answer),
                None => ColumnPlan::Texts,
            }),
        }
    }

    /// The answer for all values of a column with these traits, if none of them equals the value of the test.
    fn answer_without_texts(&self, traits: &ValueTraits) -> Option<u8> {
        let (op, value) = self.compare.as_ref()?;
        let answer = match op {
            CompareOp::Eq => NO,
            CompareOp::Ne => YES,
            _ => return None,
        };
        // Numbers and networks equal other texts too, and the text of a pattern is not a value.
        let is_plain = !value.contains(['*', '\\']) && parse_number(value).is_none() && network_of(value).is_none();
        (is_plain && !may_equal(value.as_bytes(), traits)).then_some(answer)
    }

    /// The plan for a column of numbers, which are compared as numbers if the comparison of their texts agrees.
    fn number_plan(&self, format: NumberFormat, min: i64, max: i64) -> ColumnPlan {
        let Some((op, value)) = &self.compare else { return ColumnPlan::Texts };
        let exact: i64 = integer_part(MAX_EXACT_INTEGER);
        let is_exact = min >= -exact && max <= exact;
        let plain = !value.contains('*') && network_of(value).is_none();
        let is_number = parse_number(value).is_some();
        let (met, other) = match op {
            CompareOp::Eq => (YES, NO),
            CompareOp::Ne => (NO, YES),
            _ if !is_exact || !is_number => return ColumnPlan::Texts,
            _ => {
                return match format {
                    NumberFormat::Integer => ColumnPlan::Integers,
                    NumberFormat::Decimal { digits } | NumberFormat::Shortest { digits } => {
                        ColumnPlan::Decimals(10f64.powi(i32::from(digits)))
                    }
                    _ => ColumnPlan::Texts,
                };
            }
        };
        let typed = match format {
            NumberFormat::Integer | NumberFormat::Decimal { .. } | NumberFormat::Shortest { .. } => is_exact,
            NumberFormat::Ip4 | NumberFormat::Time(_) => true,
            NumberFormat::Padded { .. } | NumberFormat::Hex { .. } => !is_number,
        };
        match format.parse(value.as_bytes()) {
            Some(number) if typed && plain && (number < min || number > max) => ColumnPlan::Same(other),
            Some(number) if typed && plain => ColumnPlan::Equal(number, met, other),
            _ => ColumnPlan::Texts,
        }
    }

    /// The answers by value of one column, if the test depends on that column only.
    pub(super) fn by_value(&self, plan: &FieldPlan, slab: &Slab) -> Result<Option<ByValue>, EngineError> {
        if let ([(NestedValue { column, .. }, test)], true) = (plan.columns.as_slice(), plan.alone) {
            let answers = self.test_counted_values(*column, test, slab)?;
            return Ok(answers.map(|answers| ByValue::Values { column: *column, answers, rest: NO }));
        }
        if !plan.columns.is_empty() || plan.ambiguous {
            return Ok(None);
        }
        Ok(match plan.base.split_first() {
            Some((first, rest)) if rest.iter().all(|answer| answer == first) => Some(ByValue::Same(*first)),
            // With a single extraction class, a key is a template number.
            Some(_) if slab.class_count() == 1 && !plan.divided => {
                Some(ByValue::Values { column: TEXT_COLUMN, answers: plan.base.clone(), rest: NO })
            }
            _ => None,
        })
    }

    /// The answers for the distinct values of a column, if the slab stores how often each of them occurs.
    fn test_counted_values(&self, column: u32, test: &ColumnPlan, slab: &Slab) -> Result<Option<Vec<u8>>, EngineError> {
        let Some(counts) = slab.template_set.counts.get(&column) else { return Ok(None) };
        match (test, counts.values(), &slab.template_set.columns[column as usize].kind) {
            (ColumnPlan::Same(answer), values, _) => Ok(Some(vec![*answer; values.len()])),
            (ColumnPlan::Codes(answers), CountedValues::Codes(_), _) => Ok(Some(answers.clone())),
            (ColumnPlan::Texts, CountedValues::Numbers(numbers), ColumnKind::Numbers { format, .. }) => {
                let texts = number_texts(numbers.iter().map(|number| Some(*number)), *format)?;
                self.test_column_texts(column, &slab.template_set, &texts).map(Some)
            }
            (test, CountedValues::Numbers(numbers), _) => self.test_numbers(test, numbers),
            _ => Ok(None),
        }
    }
}

/// The columns whose values decide a test of the field at this location; `None` if the values must be composed first.
fn tested_columns(place: &ValueLocation, template_set: &TemplateSet) -> Option<Vec<NestedValue>> {
    let is_testable = |value: &NestedValue| match template_set.columns.get(value.column as usize)?.kind {
        ColumnKind::Dictionary { len } if len as usize <= UNESCAPED_TEXTS_MAX => Some(()),
        _ => (!value.is_escaped).then_some(()),
    };
    let values = match place {
        ValueLocation::Variable(column) => vec![NestedValue { column: *column, is_escaped: false }],
        ValueLocation::Nested(nested) => nested.values.to_vec(),
        place => vec![place.escaped_variable()?],
    };
    values.iter().try_for_each(is_testable)?;
    Some(values)
}

/// JSON strings without their escapes.
fn unescaped_texts(written: &ArrayRef) -> Result<ArrayRef, EngineError> {
    let (mut texts, mut text) = (StringViewBuilder::with_capacity(written.len()), Vec::new());
    for written in written.as_string_view() {
        text.clear();
        append_unescaped(written.unwrap_or_default().as_bytes(), &mut text)?;
        texts.append_value(std::str::from_utf8(&text).map_err(invalid_utf8)?);
    }
    Ok(Arc::new(texts.finish()))
}

/// Whether a value with these traits may equal a text, in upper or lower case.
fn may_equal(text: &[u8], traits: &ValueTraits) -> bool {
    let is_ascii = text.is_ascii() && traits.bytes.iter().all(|byte| byte.is_ascii());
    let (Some(first), Some(last)) = (text.first(), text.last()) else { return true };
    let is_in = |byte: u8, set: ByteSet| {
        [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()].into_iter().any(|byte| set.contains(byte))
    };
    let has_length = (traits.min_len as usize..=traits.max_len as usize).contains(&text.len());
    !is_ascii
        || has_length
            && is_in(*first, traits.firsts)
            && is_in(*last, traits.lasts)
            && text.iter().all(|byte| is_in(*byte, traits.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_with_the_traits_of_a_column() {
        let traits_of = |values: &[&str]| {
            let mut traits = ValueTraits::default();
            values.iter().enumerate().for_each(|(at, value)| traits.add(value.as_bytes(), at == 0));
            traits
        };
        let names = traits_of(&["Anna7", "nul3", "ull12"]);
        for (text, expected) in [
            ("nul3", true),
            ("NUL7", true),
            // Other last byte, first byte, byte within and lengths.
            ("null", false),
            ("lul3", false),
            ("n_l3", false),
            ("nul", false),
            ("nulnul", false),
            ("", true),
            ("n\u{fc}l3", true),
        ] {
            assert_eq!(may_equal(text.as_bytes(), &names), expected, "{text}");
        }
        assert!(may_equal(b"null", &traits_of(&["n\u{fc}7"])));
    }
}
