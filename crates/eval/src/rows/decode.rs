//! Decodes coded columns ([`super::read`]) to texts.
//!
//! A scan returns dictionary codes, addresses and decimals as numbers, and mixed columns; commands that do not support
//! these forms receive texts. Integers remain numbers, because their text is canonical.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, StringViewBuilder};
use arrow::compute::take;
use arrow::datatypes::{DataType, Decimal64Type, UInt32Type};
use arrow::record_batch::RecordBatch;
use quarry_event::template::NumberFormat;

use super::mixed_column::is_mixed;
use super::{as_text_array, rebuild};
use crate::EngineError;

/// Precision of decimal columns of a scan.
pub const DECIMAL_PRECISION: u8 = 18;

/// The rows, with coded columns decoded to texts.
pub fn decode_rows(rows: &RecordBatch) -> Result<RecordBatch, EngineError> {
    decode_columns(rows, |kind| is_mixed(kind) || is_coded(kind))
}

/// Like [`decode_rows`], but addresses, decimals and the numbers of mixed columns stay numbers.
pub fn decode_rows_except_numbers(rows: &RecordBatch) -> Result<RecordBatch, EngineError> {
    decode_columns(rows, |kind| matches!(kind, DataType::Dictionary(..)))
}

fn is_coded(kind: &DataType) -> bool {
    matches!(kind, DataType::UInt32 | DataType::Decimal64(..) | DataType::Dictionary(..))
}

fn decode_columns(rows: &RecordBatch, is_coded: impl Fn(&DataType) -> bool) -> Result<RecordBatch, EngineError> {
    if !rows.schema_ref().fields().iter().any(|field| is_coded(field.data_type())) {
        return Ok(rows.clone());
    }
    let fields = rows.schema_ref().fields().iter().map(|field| match is_coded(field.data_type()) {
        true => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View)),
        false => Arc::clone(field),
    });
    let arrays = rows.columns().iter().map(|array| match is_coded(array.data_type()) {
        true => decode_column(array),
        false => Ok(Arc::clone(array)),
    });
    let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
    rebuild(fields.collect(), arrays, rows.num_rows())
}

/// The column, decoded to texts if it is coded.
pub fn decode_column(array: &ArrayRef) -> Result<ArrayRef, EngineError> {
    Ok(match array.data_type() {
        DataType::Dictionary(code, value)
            if code.as_ref() == &DataType::UInt32 && value.as_ref() == &DataType::Utf8View =>
        {
            let dictionary = array.as_dictionary::<UInt32Type>();
            // Unlike a cast, this copies no text and does not validate the texts again for each row.
            take(dictionary.values(), dictionary.keys(), None)?
        }
        DataType::UInt32 => {
            let numbers = array.as_primitive::<UInt32Type>();
            format_numbers(numbers.iter().map(|number| number.map(i64::from)), NumberFormat::Ip4)
        }
        DataType::Decimal64(_, digits) => {
            let digits = u8::try_from(*digits).unwrap_or(0);
            let format = if digits == 0 { NumberFormat::Integer } else { NumberFormat::Decimal { digits } };
            format_numbers(array.as_primitive::<Decimal64Type>().iter(), format)
        }
        DataType::Dictionary(..) => arrow::compute::cast(array, &DataType::Utf8View)?,
        kind if is_mixed(kind) => Arc::new(as_text_array(array)),
        _ => Arc::clone(array),
    })
}

fn format_numbers(numbers: impl ExactSizeIterator<Item = Option<i64>>, format: NumberFormat) -> ArrayRef {
    let mut builder = StringViewBuilder::with_capacity(numbers.len());
    let mut text = Vec::new();
    for number in numbers {
        text.clear();
        let written = number.map(|number| {
            format.write(number, &mut text);
            String::from_utf8_lossy(&text)
        });
        builder.append_option(written);
    }
    Arc::new(builder.finish())
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, StringViewArray, UInt32Array};

    use super::*;
    use crate::rows::batch_of;

    #[test]
    fn addresses_stay_numbers_unless_all_columns_are_decoded() {
        let address: ArrayRef = Arc::new(UInt32Array::from(vec![0x0a00_0001, 0x7f00_0001]));
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b"]));
        let word = DictionaryArray::<UInt32Type>::try_new(UInt32Array::from(vec![1, 0]), texts).unwrap();
        let rows = batch_of([("address", address), ("word", Arc::new(word) as ArrayRef)], 2).unwrap();
        let types = |rows: &RecordBatch| {
            rows.schema().fields().iter().map(|field| field.data_type().clone()).collect::<Vec<DataType>>()
        };
        assert_eq!(types(&decode_rows_except_numbers(&rows).unwrap()), [DataType::UInt32, DataType::Utf8View]);
        let decoded = decode_rows(&rows).unwrap();
        let texts_of = |at: usize| decoded.column(at).as_string_view().iter().flatten().collect::<Vec<&str>>();
        assert_eq!((texts_of(0), texts_of(1)), (vec!["10.0.0.1", "127.0.0.1"], vec!["b", "a"]));
    }
}
