//! Values of an aggregate's argument in one row of `streamstats`, in the form that its function needs.
//!
//! A count needs no texts, and a sum or a percentile needs only the number, so that these functions allocate nothing per
//! row. Other functions, and multivalues of numbers, receive the texts.

use std::borrow::Cow;

use arrow::array::Array;
use quarry_eval::aggregate::FunctionBody;
use quarry_eval::aggregate::running_state::RunningState;
use quarry_eval::rows::{ColumnReader, Value};
use quarry_event::TimeNs;
use quarry_event::value::{Number, parse_exact_number};

/// Values of an aggregate's argument in one row, as far as its function needs them.
#[derive(Clone, Debug)]
pub(super) enum RowValues {
    /// Number of values.
    Count(usize),
    /// The only value, if it is a number.
    Number(Option<Number>),
    /// All values, as texts.
    Texts(Vec<String>),
}

impl RowValues {
    /// Reads the values of a row for a function; without an argument, each row counts as one empty text.
    pub(super) fn read(body: FunctionBody, argument: Option<&ColumnReader>, row: usize) -> RowValues {
        let Some(reader) = argument else {
            return match body {
                FunctionBody::Count => RowValues::Count(1),
                _ => RowValues::Texts(vec![String::new()]),
            };
        };
        match (body, reader) {
            (FunctionBody::Count, ColumnReader::Multi(..)) => RowValues::Count(reader.values(row).count()),
            // A false condition does not count as a value.
            (FunctionBody::Count, ColumnReader::Bool(truth)) => {
                RowValues::Count((truth.is_valid(row) && truth.value(row)).into())
            }
            (FunctionBody::Count, _) => RowValues::Count((!reader.is_null(row)).into()),
            (
                FunctionBody::Sum { .. } | FunctionBody::Percentile(_),
                ColumnReader::Int(_)
                | ColumnReader::Text(_)
                | ColumnReader::Dictionary(_)
                | ColumnReader::Decimal(..)
                | ColumnReader::Mixed(_),
            ) => RowValues::Number(reader.exact_number(row)),
            _ if matches!(reader.value(row), Value::Bool(false)) => RowValues::Texts(Vec::new()),
            _ => RowValues::Texts(reader.values(row).map(Cow::into_owned).collect()),
        }
    }

    /// Adds the values to a state of the function for which they were read.
    pub(super) fn add_to(&self, running: &mut RunningState, body: FunctionBody, time: Option<TimeNs>) {
        match (self, running) {
            (RowValues::Count(values), RunningState::Count(count)) => *count += *values as i64,
            (RowValues::Number(number), RunningState::Sums(sums)) => number.iter().for_each(|number| sums.add(*number)),
            (RowValues::Number(number), RunningState::Numbers(numbers)) => {
                number.iter().for_each(|number| numbers.add(*number));
            }
            (RowValues::Texts(texts), running) => running.add(body, texts, time),
            _ => debug_assert!(false, "values are added to a state of the function for which they were read"),
        }
    }

    /// Whether the function has nothing to add.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            RowValues::Count(values) => *values == 0,
            RowValues::Number(number) => number.is_none(),
            RowValues::Texts(texts) => texts.is_empty(),
        }
    }

    /// Approximate bytes held.
    pub(super) fn bytes(&self) -> usize {
        let text = |text: &String| size_of::<String>() + text.len();
        size_of::<RowValues>() + self.texts().iter().map(text).sum::<usize>()
    }

    /// Number of values.
    pub(super) fn len(&self) -> usize {
        match self {
            RowValues::Count(values) => *values,
            RowValues::Number(number) => number.iter().len(),
            RowValues::Texts(texts) => texts.len(),
        }
    }

    /// The numbers among the values.
    pub(super) fn numbers(&self) -> impl Iterator<Item = Number> + '_ {
        let number = if let RowValues::Number(number) = self { *number } else { None };
        number.into_iter().chain(self.texts().iter().filter_map(|text| parse_exact_number(text)))
    }

    /// All values, if the function needs them as texts.
    pub(super) fn texts(&self) -> &[String] {
        match self {
            RowValues::Texts(texts) => texts,
            RowValues::Count(_) | RowValues::Number(_) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, StringViewArray, UInt32Array,
    };
    use arrow::datatypes::UInt32Type;
    use quarry_spl::ast::StatsFunction;

    use super::super::window::{Sliding, Window, WindowRow};
    use super::*;

    #[test]
    fn values_count_and_sum_as_their_texts_do() {
        let texts = [Some("5"), None, Some("-2.50"), Some("-"), Some("9007199254740993"), Some("1e3"), Some("")];
        let texts: StringViewArray = texts.into_iter().collect();
        let codes: DictionaryArray<UInt32Type> =
            DictionaryArray::try_new(UInt32Array::from(vec![Some(4), Some(3), None, Some(0)]), Arc::new(texts.clone()))
                .unwrap();
        let columns: [ArrayRef; 5] = [
            Arc::new(texts),
            Arc::new(codes),
            Arc::new(Int64Array::from(vec![Some(i64::MAX), None, Some(-7)])),
            Arc::new(Float64Array::from(vec![Some(0.1), None, Some(-0.0)])),
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        ];
        let functions = [StatsFunction::Count, StatsFunction::Sum, StatsFunction::Avg, StatsFunction::SumSq];
        for (column, function) in columns.iter().flat_map(|column| functions.iter().map(move |f| (column, f))) {
            let (body, reader) = (FunctionBody::of(function), ColumnReader::new(column));
            let (mut running, mut expected) = (RunningState::new(body), RunningState::new(body));
            let (mut window, mut sliding) = (Window::new(1), Sliding::new(body));
            for row in 0..column.len() {
                let values = RowValues::read(body, Some(&reader), row);
                values.add_to(&mut running, body, None);
                let at = window.push(WindowRow { time: None, group: 0 }, std::iter::once(values));
                sliding.push(body, &window, at, 0);
                let texts = match reader.value(row) {
                    Value::Bool(false) => Vec::new(),
                    _ => reader.values(row).map(Cow::into_owned).collect(),
                };
                expected.add(body, &texts, None);
                let expected = expected.value(body);
                assert_eq!(running.value(body), expected, "{function:?} of {column:?} to row {row}");
                assert_eq!(sliding.value(body, &window, 0), expected, "{function:?} of {column:?} to row {row}");
            }
        }
    }
}
