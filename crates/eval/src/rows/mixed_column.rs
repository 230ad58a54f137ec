//! Mixed columns: nearly all values are integers, decimals of one scale, or doubles; the other values, such as `-` for a missing
//! size, are texts.
//!
//! The column is a struct of two columns, of which at most one has a value in a row. Thus numbers stay numbers, and
//! only the other values are parsed or compared as texts. The text of a value is canonical as in any other column.
//!
//! Not here: the choice of columns with this form (`scan`).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field};

use super::ColumnReader;
use crate::EngineError;

/// Name of the struct's numbers.
const NUMBERS: &str = "numbers";
/// Name of the struct's texts.
const TEXTS: &str = "texts";

/// Numbers, and the texts of the rows without a number.
#[derive(Clone, Debug)]
pub struct MixedColumn {
    /// Integers, decimals or doubles.
    pub numbers: ColumnReader,
    /// Texts of the rows without a number.
    pub texts: StringViewArray,
}

impl MixedColumn {
    /// The two columns of a struct; `None` if it is not a mixed column.
    pub(super) fn of(array: &StructArray) -> Option<MixedColumn> {
        let [numbers, texts] = array.columns() else { return None };
        let texts = texts.as_any().downcast_ref::<StringViewArray>()?.clone();
        match ColumnReader::new(numbers) {
            numbers @ (ColumnReader::Int(_) | ColumnReader::Decimal(..) | ColumnReader::Float(_)) => {
                Some(MixedColumn { numbers, texts })
            }
            _ => None,
        }
    }

    /// Whether the value of a row is a text.
    #[inline]
    pub fn is_text(&self, row: usize) -> bool {
        self.texts.is_valid(row)
    }

    /// The rows whose value is a text, ascending.
    pub fn text_rows(&self) -> impl Iterator<Item = usize> + '_ {
        let (some, all) = match self.texts.nulls() {
            Some(nulls) => (Some(nulls.valid_indices()), 0..0),
            None => (None, 0..self.texts.len()),
        };
        some.into_iter().flatten().chain(all)
    }

    /// Marks the rows with a value; `None` if every row has a value.
    pub(super) fn validity(&self) -> Option<NullBuffer> {
        present_rows(self.numbers.validity().as_ref(), self.texts.nulls())
    }
}

/// The rows that are valid in either of two columns; `None` if all rows are valid.
fn present_rows(one: Option<&NullBuffer>, other: Option<&NullBuffer>) -> Option<NullBuffer> {
    let either = NullBuffer::new(one?.inner() | other?.inner());
    (either.null_count() > 0).then_some(either)
}

/// A column of these numbers (integers, decimals or doubles) and, in rows without a number, texts.
pub fn mixed_column(numbers: ArrayRef, texts: StringViewArray) -> Result<ArrayRef, EngineError> {
    let nulls = present_rows(numbers.nulls(), texts.nulls());
    let fields = [(NUMBERS, numbers.data_type()), (TEXTS, texts.data_type())];
    let fields = fields.map(|(name, kind)| Field::new(name, kind.clone(), true));
    Ok(Arc::new(StructArray::try_new(fields.to_vec().into(), vec![numbers, Arc::new(texts)], nulls)?))
}

/// Whether `mixed` is the type of a mixed column whose numbers have the type `numbers`.
pub(super) fn is_mixed_of(mixed: &DataType, numbers: &DataType) -> bool {
    matches!(mixed, DataType::Struct(fields) if fields.first().is_some_and(|first| first.data_type() == numbers))
}

/// Whether this is the type of a mixed column.
pub(super) fn is_mixed(kind: &DataType) -> bool {
    matches!(kind, DataType::Struct(_))
}
