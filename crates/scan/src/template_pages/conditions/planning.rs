//! Planning of a field test for one slab: by key (an extraction class and a template), by code of a dictionary of the
//! field or of a column, on numbers, or on the texts of each page.
//!
//! If a value is equal as a number but not as a text, the event text decides. Numbers are therefore compared as numbers
//! only if the comparison of their texts always agrees.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray};
use quarry_eval::EngineError;
use quarry_eval::row_filter::network_of;
use quarry_event::template::{ColumnKind, CountedValues, NumberFormat, TEXT_COLUMN};
use quarry_event::value::{MAX_EXACT_INTEGER, parse_number};
use quarry_spl::ast::CompareOp;

use super::field_plan::{CodedTest, ColumnPlan, FieldPlan};
use super::field_test::FieldTest;
use crate::template_pages::by_value::ByValue;
use crate::template_pages::columns::number_texts;
use crate::template_pages::field_locations::FieldLocations;
use crate::template_pages::outcome::{NO, UNDECIDED, YES};
use crate::template_pages::slab::Slab;
use crate::template_pages::value_location::ValueLocation;

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
        let mut columns: Vec<(u32, ColumnPlan)> = Vec::new();
        let (mut composite, mut constants) = (Vec::new(), Vec::new());
        for (key, place) in field.locations.iter().enumerate() {
            match place {
                // If a pattern may find the field, the text decides.
                _ if field.is_patterned(key as u32) => base[key] = UNDECIDED,
                ValueLocation::Absent => {}
                ValueLocation::Constant(text) => constants.push((key, text)),
                ValueLocation::Nested(nested) if !nested.has_escapes() => {
                    for value in &nested.values {
                        if !columns.iter().any(|(known, _)| *known == value.column) {
                            columns.push((value.column, self.column_plan(value.column, slab)?));
                        }
                    }
                }
                ValueLocation::Composite(_)
                | ValueLocation::Escaped(_)
                | ValueLocation::Written(_)
                | ValueLocation::Pair(_)
                | ValueLocation::Nested(_)
                | ValueLocation::List(_)
                | ValueLocation::Derived => {
                    base[key] = UNDECIDED;
                    composite.resize(base.len(), false);
                    composite[key] = true;
                }
                ValueLocation::Text => base[key] = UNDECIDED,
                ValueLocation::Variable(column) => {
                    if !columns.iter().any(|(known, _)| known == column) {
                        columns.push((*column, self.column_plan(*column, slab)?));
                    }
                }
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

    fn column_plan(&self, column: u32, slab: &Slab) -> Result<ColumnPlan, EngineError> {
        match &slab.template_set.columns[column as usize].kind {
            ColumnKind::Dictionary { .. } => {
                let answers = self.test_column_texts(column, &slab.template_set, &slab.dictionary_values(column)?)?;
                Ok(match answers.first() {
                    Some(first) if answers.iter().all(|answer| answer == first) => ColumnPlan::Same(*first),
                    _ => ColumnPlan::Codes(answers),
                })
            }
            _ if self.requires_presence() => Ok(ColumnPlan::Same(YES)),
            ColumnKind::Numbers { format, min, max } => Ok(self.number_plan(*format, *min, *max)),
            _ => Ok(ColumnPlan::Texts),
        }
    }

    /// The plan for a column of numbers, which are compared as numbers if the comparison of their texts agrees.
    fn number_plan(&self, format: NumberFormat, min: i64, max: i64) -> ColumnPlan {
        let Some((op, value)) = &self.compare else { return ColumnPlan::Texts };
        let exact = MAX_EXACT_INTEGER as i64;
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
        if let ([(column, test)], true) = (plan.columns.as_slice(), plan.alone) {
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
