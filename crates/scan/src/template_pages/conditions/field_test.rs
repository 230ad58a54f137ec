//! A test of an extracted field, for every event of a page: yes, no or undecided.
//!
//! It applies the same filter ([`RowFilter`]) as the test of fields extracted from texts. Depending on the slab's
//! [`FieldPlan`], the test runs once per distinct text of a dictionary of the field or of a column, on typed numbers, or
//! on the values of each page.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array};
use quarry_eval::EngineError;
use quarry_eval::row_filter::{NumberEquality, NumberRule, RowFilter};
use quarry_eval::rows;
use quarry_event::template::{ColumnKind, ColumnValues, TemplateSet};
use quarry_spl::ast::{CompareOp, SearchExpr, SearchPattern};
use quarry_stdx::number::{f64_of, u32_of};

use super::field_plan::{CodedTest, ColumnPlan, FieldPlan};
use crate::event_fields::{appears_verbatim, is_index_time_column};
use crate::template_pages::ambiguous_rows::ambiguous_rows;
use crate::template_pages::columns::{field_column, number_texts};
use crate::template_pages::divided_keys::{RowKeys, keys_of};
use crate::template_pages::field_locations::FieldLocations;
use crate::template_pages::outcome::{NO, Outcome, UNDECIDED, YES};
use crate::template_pages::page::{PageReader, Rows};
use crate::template_pages::text_arrays::text_array;
use crate::template_pages::value_location::NestedValue;

/// A test of an extracted field.
pub(super) struct FieldTest {
    pub(super) name: String,
    filter: RowFilter,
    /// The same test with numbers compared as texts. `Some` if a number of the test also equals its other spellings,
    /// but only in events whose text contains it as a word ([`NumberEquality::Word`]). Rows that satisfy only `filter`
    /// are then left undecided.
    by_text: Option<RowFilter>,
    /// The values of the test, if the text of a matching event must contain them in this spelling
    /// ([`appears_verbatim`]); otherwise empty. Rows whose value only equals one of them in another spelling are left
    /// undecided.
    as_written: Vec<String>,
    /// The comparison, if the test is a single comparison.
    pub(super) compare: Option<(CompareOp, String)>,
}

impl FieldTest {
    /// Compiles a test.
    pub(super) fn new(expr: &SearchExpr, name: String, numbers: NumberRule<'_>) -> Result<FieldTest, EngineError> {
        let (values, compare) = match expr {
            SearchExpr::Compare { op: CompareOp::Eq, value, .. } => {
                (vec![value], Some((CompareOp::Eq, value.text.clone())))
            }
            SearchExpr::Compare { op, value, .. } => (Vec::new(), Some((*op, value.text.clone()))),
            SearchExpr::In { values, .. } => (values.iter().collect(), None),
            SearchExpr::Indexed { value, .. } => (vec![value], Some((CompareOp::Eq, value.text.clone()))),
            _ => (Vec::new(), None),
        };
        let is_verbatim = |value: &&SearchPattern| !is_index_time_column(&name) && appears_verbatim(&name, value);
        let as_written = match values.iter().all(is_verbatim) {
            true => values.iter().map(|value| value.text.clone()).collect(),
            false => Vec::new(),
        };
        let is_by_word = compare.as_ref().is_none_or(|(op, _)| *op == CompareOp::Eq)
            && values.iter().any(|value| numbers(&name, &value.text, false) == NumberEquality::Word);
        let by_text = is_by_word.then(|| RowFilter::with_number_rule(expr, &|_, _, _| NumberEquality::Text));
        let filter = RowFilter::with_number_rule(expr, &|_, _, _| NumberEquality::Value)?;
        Ok(FieldTest { filter, by_text: by_text.transpose()?, name, as_written, compare })
    }

    /// Name of the tested field.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the test requires only that the field is present (`field=*`).
    pub(super) fn requires_presence(&self) -> bool {
        self.as_written.is_empty() && matches!(&self.compare, Some((CompareOp::Eq, value)) if value == "*")
    }

    /// The answers for values spelled as in the event text.
    pub(super) fn test_texts(&self, texts: &ArrayRef) -> Result<Vec<u8>, EngineError> {
        let mut answers = self.test_values(texts)?;
        if self.as_written.is_empty() {
            return Ok(answers);
        }
        let reader = rows::ColumnReader::new(texts);
        let mut scratch = String::new();
        let is_written = |text: &str| self.as_written.iter().any(|value| value.eq_ignore_ascii_case(text));
        for (row, answer) in answers.iter_mut().enumerate().filter(|(_, answer)| **answer == YES) {
            let is_certain = match &reader {
                rows::ColumnReader::Multi(..) => reader.value(row).values().iter().any(|text| is_written(text)),
                _ => is_written(reader.text(row, &mut scratch).unwrap_or_default()),
            };
            if !is_certain {
                *answer = UNDECIDED;
            }
        }
        Ok(answers)
    }

    /// The answers for texts of this column. Values of index-time fields need not be in the event text.
    pub(super) fn test_column_texts(
        &self,
        column: u32,
        template_set: &TemplateSet,
        texts: &ArrayRef,
    ) -> Result<Vec<u8>, EngineError> {
        match template_set.is_field_column(column) {
            true => self.test_values(texts),
            false => self.test_texts(texts),
        }
    }

    fn test_values(&self, values: &ArrayRef) -> Result<Vec<u8>, EngineError> {
        let values = rows::batch_of([(self.name.as_str(), Arc::clone(values))], values.len())?;
        let found = self.filter.matches(&values)?;
        let answers = |met: u8| found.values().iter().map(move |found| if found { met } else { NO });
        Ok(match &self.by_text {
            Some(by_text) if found.true_count() > 0 => {
                let certain = by_text.matches(&values)?;
                answers(UNDECIDED)
                    .zip(certain.values())
                    .map(|(answer, certain)| if certain { YES } else { answer })
                    .collect()
            }
            _ => answers(YES).collect(),
        })
    }

    /// The answer for every event of a page.
    pub(super) fn run(&self, plan: &FieldPlan, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        if let ([(NestedValue { column, .. }, test)], true) = (plan.columns.as_slice(), plan.alone) {
            let found = self.test_column(*column, test, page)?;
            if found.is_all(NO) {
                return Ok(found);
            }
            let values = page.column(*column)?;
            let Some(rows) = &values.rows else { return Ok(found) };
            let mut each = vec![NO; page.len()];
            found.possible_positions(rows.len()).for_each(|(place, answer)| each[rows[place] as usize] = answer);
            return Ok(Outcome::Each(each));
        }
        let asks_composites = page.open.is_some() && (!plan.composite.is_empty() || plan.computed);
        if plan.columns.is_empty()
            && plan.coded.is_none()
            && !asks_composites
            && !plan.ambiguous
            && let Some((first, rest)) = plan.base.split_first()
            && rest.iter().all(|answer| answer == first)
        {
            return Ok(Outcome::Same(*first));
        }
        let keys = match page.slab.field(&self.name) {
            Some(field) => keys_of(field, page)?,
            None => page.keys()?,
        };
        let mut each = Outcome::by_code(&keys, &plan.base).into_each(keys.len());
        if plan.computed {
            self.test_computed(&mut each, page)?;
        }
        let Some(field) = page.slab.field(&self.name) else { return Ok(Outcome::Each(each)) };
        for (value, test) in &plan.columns {
            let found = self.test_column(value.column, test, page)?;
            if found.is_all(NO) {
                continue;
            }
            let values = page.column(value.column)?;
            for (place, answer) in found.possible_positions(values.values.len()) {
                let row = values.rows.as_ref().map_or(place, |rows| rows[place] as usize);
                let key = keys[row];
                let is_there = field.locations.get(key as usize).is_some_and(|place| place.has_value_in(*value));
                if is_there && !field.is_patterned(key) {
                    each[row] = answer;
                }
            }
        }
        if let Some(coded) = &plan.coded {
            coded.run(field, &mut each, page)?;
        }
        if asks_composites && !plan.composite.is_empty() {
            self.test_composites(field, plan, &keys, &mut each, page)?;
        }
        // Two kinds of rows are left undecided: those in which the field occurs more than once, and those in which a
        // value may contain the field's name as a key.
        let repeated = page.rows_with_multiple_values(&field.repeatable_columns)?;
        let ambiguous = ambiguous_rows(field, page)?;
        repeated.into_iter().chain(ambiguous).for_each(|row| each[row as usize] = UNDECIDED);
        Ok(Outcome::Each(each))
    }

    /// Tests the undecided rows in which the field's values must be computed from columns ([`FieldPlan::composite`]).
    fn test_composites(
        &self,
        field: &FieldLocations,
        plan: &FieldPlan,
        keys: &[u32],
        each: &mut [u8],
        page: &mut PageReader<'_>,
    ) -> Result<(), EngineError> {
        let is_composite = |row: &u32| plan.composite[keys[*row as usize] as usize];
        let rows: Vec<u32> = page.open.iter().flatten().copied().filter(is_composite).collect();
        let rows = Rows::Some(rows);
        if rows.is_empty() {
            return Ok(());
        }
        if let Some(texts) = field_column(field, &rows, page)? {
            let answers = self.test_texts(&texts)?;
            rows.iter().zip(answers).for_each(|(row, answer)| each[row as usize] = answer);
        }
        Ok(())
    }

    /// Decides rows in which the field is computed.
    fn test_computed(&self, each: &mut [u8], page: &mut PageReader<'_>) -> Result<(), EngineError> {
        let Some(computed) = page.computed.take() else { return Ok(()) };
        let answers = match computed.column(&self.name) {
            Some(values) => self.test_values(values)?,
            None => vec![NO; computed.rows().len()],
        };
        let values = computed.column(&self.name).filter(|_| !self.as_written.is_empty()).map(rows::ColumnReader::new);
        let unwritten = page.slab.computed().and_then(|computed| computed.nonverbatim_metas(&self.name));
        let metas = match unwritten {
            Some(unwritten) if unwritten.contains(&false) => Some(page.metas()?),
            _ => None,
        };
        // Values that rules produce need not be in the text. Any other value must be in the text in the spelling
        // searched for.
        let is_free = |row: u32| match (unwritten, &metas) {
            (Some(unwritten), Some(metas)) => unwritten.get(metas[row as usize] as usize) == Some(&true),
            (unwritten, _) => unwritten.is_some(),
        };
        let mut scratch = String::new();
        for (place, (row, answer)) in computed.rows().iter().zip(answers).enumerate() {
            let is_written = |text: Option<&str>| {
                text.is_some_and(|text| self.as_written.iter().any(|value| value.eq_ignore_ascii_case(text)))
            };
            each[row as usize] = match &values {
                Some(values) if answer == YES && !is_free(row) && !is_written(values.text(place, &mut scratch)) => {
                    UNDECIDED
                }
                _ => answer,
            };
        }
        page.computed = Some(computed);
        Ok(())
    }

    /// The answers for the values of a column.
    fn test_column(&self, column: u32, plan: &ColumnPlan, page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        if let ColumnPlan::Same(answer) = plan {
            return Ok(Outcome::Same(*answer));
        }
        if let ColumnPlan::Equal(wanted, _, other) = plan
            && page.contains_number(column, *wanted)? == Some(false)
        {
            return Ok(Outcome::Same(*other));
        }
        let values = page.column(column)?;
        Ok(match (plan, &values.values) {
            (ColumnPlan::Codes(answers), ColumnValues::Codes(codes)) => Outcome::by_code(codes, answers),
            (ColumnPlan::Texts, _) => {
                let texts = column_texts(column, page)?;
                Outcome::Each(self.test_column_texts(column, page.template_set(), &texts)?)
            }
            (plan, ColumnValues::Numbers(numbers)) => {
                self.test_numbers(plan, numbers)?.map_or(Outcome::Same(UNDECIDED), Outcome::Each)
            }
            _ => Outcome::Same(UNDECIDED),
        })
    }

    /// The answers for numbers compared as numbers.
    pub(super) fn test_numbers(&self, plan: &ColumnPlan, numbers: &[i64]) -> Result<Option<Vec<u8>>, EngineError> {
        let array: ArrayRef = match plan {
            ColumnPlan::Equal(wanted, met, other) => {
                let answer = |number: &i64| if number == wanted { *met } else { *other };
                return Ok(Some(numbers.iter().map(answer).collect()));
            }
            ColumnPlan::Integers => Arc::new(numbers.iter().copied().collect::<Int64Array>()),
            // Both operands are exact doubles, so their quotient is the double nearest to the decimal.
            ColumnPlan::Decimals(unit) => {
                Arc::new(numbers.iter().map(|number| Some(f64_of(*number) / unit)).collect::<Float64Array>())
            }
            ColumnPlan::Same(_) | ColumnPlan::Codes(_) | ColumnPlan::Texts => return Ok(None),
        };
        self.test_values(&array).map(Some)
    }
}

impl CodedTest {
    /// Sets the answers of the events of a page whose location has codes.
    fn run(&self, field: &FieldLocations, each: &mut [u8], page: &mut PageReader<'_>) -> Result<(), EngineError> {
        let rows = Rows::All(u32_of(page.len()));
        let keys = RowKeys::of(field, &rows, page)?;
        let found = self.field.codes_of(&rows, &keys, page)?;
        assert!(found.exceptions.is_empty(), "all values of the field have codes");
        for ((answer, code), key) in each.iter_mut().zip(found.codes).zip(keys.keys.iter()) {
            if self.field.has_location(*key) {
                *answer = self.answers.get(code as usize).copied().unwrap_or(NO);
            }
        }
        Ok(())
    }
}

/// The values of a column in a page as texts.
fn column_texts(column: u32, page: &mut PageReader<'_>) -> Result<ArrayRef, EngineError> {
    let values = page.column(column)?;
    match (&values.values, &page.template_set().columns[column as usize].kind) {
        (ColumnValues::Texts { bytes, ends }, _) => text_array(bytes, ends),
        (ColumnValues::Numbers(numbers), ColumnKind::Numbers { format, .. }) => {
            number_texts(numbers.iter().map(|number| Some(*number)), *format)
        }
        _ => {
            let rows: Vec<u32> = match &values.rows {
                Some(rows) => rows.to_vec(),
                None => (0..u32_of(values.values.len())).collect(),
            };
            let texts = page.texts(column, &rows)?;
            text_array(&texts.bytes, &texts.ends)
        }
    }
}
