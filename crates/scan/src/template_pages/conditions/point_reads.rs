//! The condition evaluated for a few rows of a page: only the values of these rows are read and tested.
//!
//! Words are tested on the text, which is cheap to rebuild for a few rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use quarry_eval::EngineError;
use quarry_eval::rows::{ColumnReader, as_text_array};

use super::metadata_test::MetadataTest;
use super::{Condition, Conditions, FieldTest};
use crate::template_pages::columns::field_column;
use crate::template_pages::divided_keys::keys_of_rows;
use crate::template_pages::outcome::{NO, Outcome, UNDECIDED, YES};
use crate::template_pages::page::{PageReader, Rows};
use crate::template_pages::value_location::ValueLocation;

impl Conditions {
    /// The answers for some rows, in order.
    pub(in crate::template_pages) fn test_rows(
        &self,
        rows: &[u32],
        page: &mut PageReader<'_>,
    ) -> Result<Vec<u8>, EngineError> {
        Ok(self.evaluate_rows(&self.root, rows, page)?.into_each(rows.len()))
    }

    fn evaluate_rows(
        &self,
        condition: &Condition,
        rows: &[u32],
        page: &mut PageReader<'_>,
    ) -> Result<Outcome, EngineError> {
        Ok(match condition {
            Condition::Same(answer) => Outcome::Same(*answer),
            // In a local bucket, building the texts of the rows takes less time than planning the word.
            Condition::Word(at, _) if page.is_remote() => {
                let word = &self.words[*at];
                let plan = page.slab.word_plan(*at, word)?;
                Outcome::Each(word.test_rows(&plan, rows, page)?)
            }
            Condition::Word(..) => Outcome::Same(UNDECIDED),
            Condition::And(parts) => {
                let mut all = Outcome::Same(YES);
                for part in parts {
                    all = all.and(self.evaluate_rows(part, rows, page)?);
                }
                all
            }
            Condition::Or(parts) => {
                let mut all = Outcome::Same(NO);
                for part in parts {
                    all = all.or(self.evaluate_rows(part, rows, page)?);
                }
                all
            }
            Condition::Not(part) => self.evaluate_rows(part, rows, page)?.not(),
            Condition::Field(at, _) => Outcome::Each(self.tests[*at].test_rows(rows, page)?),
            Condition::Metadata(at) => self.metas[*at].test_rows(rows, page)?,
        })
    }
}

impl MetadataTest {
    fn test_rows(&self, rows: &[u32], page: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        let answers = self.test_metadata(&page.slab.metas)?;
        let events = page.events()?;
        let metas: Vec<u32> = rows.iter().map(|row| events.meta[*row as usize]).collect();
        Ok(Outcome::by_code(&metas, &answers))
    }
}

impl FieldTest {
    fn test_rows(&self, rows: &[u32], page: &mut PageReader<'_>) -> Result<Vec<u8>, EngineError> {
        let mut each = vec![UNDECIDED; rows.len()];
        let Some(field) = page.slab.field(&self.name) else { return Ok(each) };
        let keys = keys_of_rows(field, &Rows::Some(rows.to_vec()), page)?;
        let repeated = page.rows_with_multiple_values(&field.repeatable_columns)?;
        let mut tested: Vec<(usize, u32)> = Vec::new();
        for (place, row) in rows.iter().enumerate() {
            let key = keys[*row as usize];
            match field.locations.get(key as usize) {
                // In three cases, the text of the event must be examined: a pattern may find the field, a value may
                // itself contain the field's name as a key, or the field occurs more than once.
                _ if field.is_patterned(key) || field.is_ambiguous(key) || repeated.binary_search(row).is_ok() => {}
                Some(ValueLocation::Absent) => each[place] = NO,
                Some(
                    ValueLocation::Constant(_)
                    | ValueLocation::Composite(_)
                    | ValueLocation::Escaped(_)
                    | ValueLocation::Written(_)
                    | ValueLocation::Pair(_)
                    | ValueLocation::Derived
                    | ValueLocation::Variable(_)
                    | ValueLocation::Nested(_),
                ) => tested.push((place, *row)),
                Some(ValueLocation::List(_) | ValueLocation::Text) | None => {}
            }
        }
        if tested.is_empty() {
            return Ok(each);
        }
        let of_rows = Rows::Some(tested.iter().map(|(_, row)| *row).collect());
        let Some(values) = field_column(field, &of_rows, page)? else { return Ok(each) };
        let texts = texts_to_test(values);
        let answers = match field.column {
            Some(column) => self.test_column_texts(column, page.template_set(), &texts)?,
            None => self.test_texts(&texts)?,
        };
        for (at, answer) in answers.into_iter().enumerate().filter(|(at, _)| texts.is_valid(*at)) {
            each[tested[at].0] = answer;
        }
        Ok(each)
    }
}

/// The values of a field as texts. The values of a multivalue field stay separate, because each of them may pass a
/// test.
fn texts_to_test(values: ArrayRef) -> ArrayRef {
    match ColumnReader::new(&values) {
        ColumnReader::Multi(..) => values,
        _ => Arc::new(as_text_array(&values)),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use quarry_eval::row_filter::NumberEquality;
    use quarry_eval::rows::ColumnBuilder;
    use quarry_spl::ast::{CompareOp, FieldPattern, SearchExpr, SearchPattern, Span};

    use super::*;

    fn answers(value: &str, values: ArrayRef) -> Vec<u8> {
        let span = Span { start: 0, end: 0 };
        let field = FieldPattern { text: "f".to_owned(), span };
        let value = SearchPattern { text: value.to_owned(), quoted: false, span };
        let expr = SearchExpr::Compare { field, op: CompareOp::Eq, value, case_sensitive: false };
        let test = FieldTest::new(&expr, "f".to_owned(), &|_, _, _| NumberEquality::Word).unwrap();
        test.test_texts(&texts_to_test(values)).unwrap()
    }

    #[test]
    fn each_value_of_a_multivalue_field_is_tested() {
        let mut lists = ColumnBuilder::new(3);
        lists.push_multi(["a", "b"]);
        lists.push_multi(["b", "c"]);
        lists.push_null();
        assert_eq!(answers("a", lists.finish()), [YES, NO, NO]);
        assert_eq!(answers("7", Arc::new(Int64Array::from(vec![7, 8]))), [YES, NO]);
    }
}
