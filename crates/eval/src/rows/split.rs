//! Splitting batches by bytes.
//!
//! The number of rows of a batch is limited, but a single row may have a megabyte. Here, the bytes that are sent or
//! written at once are limited.

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray};
use arrow::datatypes::{DataType, UInt32Type};
use arrow::record_batch::RecordBatch;
use quarry_stdx::number::low_u32;

use super::row_buffer::value_bytes;

/// Size of the values in each row of a batch, in bytes.
pub fn row_bytes(batch: &RecordBatch) -> Vec<usize> {
    let mut bytes = vec![0; batch.num_rows()];
    batch.columns().iter().for_each(|column| add_bytes(column, &mut bytes));
    bytes
}

/// Splits the rows into batches of at most `most` bytes, or of a single row if it is larger.
pub fn split_by_bytes(batch: &RecordBatch, most: usize) -> Vec<RecordBatch> {
    if batch.columns().iter().map(value_bytes).sum::<usize>() <= most {
        return vec![batch.clone()];
    }
    let (mut batches, mut start, mut held) = (Vec::new(), 0, 0);
    for (row, bytes) in row_bytes(batch).into_iter().enumerate() {
        if row > start && held + bytes > most {
            batches.push(batch.slice(start, row - start));
            (start, held) = (row, 0);
        }
        held += bytes;
    }
    batches.push(batch.slice(start, batch.num_rows() - start));
    batches
}

fn add_bytes(column: &ArrayRef, bytes: &mut [usize]) {
    let mut add = |bytes_of: &dyn Fn(usize) -> usize| {
        bytes.iter_mut().enumerate().for_each(|(row, sum)| *sum += bytes_of(row));
    };
    match column.data_type() {
        DataType::Utf8View => {
            let texts = column.as_string_view();
            add(&|row| text_bytes(texts, row));
        }
        DataType::List(_) => {
            let lists: &ListArray = column.as_list();
            let items = lists.values().as_string_view_opt();
            let offsets = lists.value_offsets();
            add(&|row| {
                let items_of_row = offsets[row] as usize..offsets[row + 1] as usize;
                items_of_row.map(|item| items.map_or(size_of::<u64>(), |items| text_bytes(items, item))).sum()
            });
        }
        DataType::Dictionary(..) => {
            if let Some(column) = column.as_dictionary_opt::<UInt32Type>()
                && let Some(values) = column.values().as_string_view_opt()
            {
                let key = |row| column.is_valid(row).then(|| column.keys().value(row) as usize);
                add(&|row| key(row).map_or(0, |key| text_bytes(values, key)));
            }
        }
        DataType::Struct(_) => column.as_struct().columns().iter().for_each(|column| add_bytes(column, bytes)),
        kind => {
            let width = kind.primitive_width().unwrap_or(1);
            add(&|_| width);
        }
    }
}

fn text_bytes(texts: &StringViewArray, row: usize) -> usize {
    // The low half of a view's first word is the length.
    size_of::<u128>() + if texts.is_valid(row) { low_u32(texts.views()[row]) as usize } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;
    use proptest::prelude::*;

    use super::*;
    use crate::rows::{ColumnBuilder, batch_of};

    fn batch(lengths: &[usize]) -> RecordBatch {
        let texts: StringViewArray = lengths.iter().map(|length| Some("x".repeat(*length))).collect();
        let mut lists = ColumnBuilder::new(lengths.len());
        lengths.iter().for_each(|length| lists.push_multi([&"y".repeat(length / 2), "z"]));
        let numbers = Int64Array::from_iter_values(0..lengths.len() as i64);
        let columns: Vec<(&str, ArrayRef)> =
            vec![("t", Arc::new(texts)), ("l", lists.finish()), ("n", Arc::new(numbers))];
        batch_of(columns, lengths.len()).unwrap()
    }

    proptest! {
        #[test]
        fn split_batches_keep_all_rows_in_order_and_stay_small(
            lengths in prop::collection::vec(prop_oneof![4 => 0usize..100, 1 => 1_000usize..20_000], 0..60),
            most in 1usize..10_000,
            from in 0usize..10,
        ) {
            let whole = batch(&lengths);
            let from = from.min(lengths.len());
            let rows = whole.slice(from, lengths.len() - from);
            let cut = split_by_bytes(&rows, most);
            for piece in &cut {
                prop_assert!(piece.num_rows() <= 1 || row_bytes(piece).iter().sum::<usize>() <= most);
            }
            prop_assert_eq!(arrow::compute::concat_batches(&rows.schema(), &cut).unwrap(), rows);
        }
    }
}
