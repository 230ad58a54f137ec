//! Unifies batches with different schemas under a common one.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, Int64Array, ListArray, StringViewArray, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use quarry_event::value::MAX_EXACT_INTEGER;
use quarry_stdx::number::integer_part;

use super::column_order::{are_of_events, merge_columns};
use super::mixed_column::{is_mixed_of, mixed_column};
use super::{ColumnReader, as_number_array, as_text_array, multi_item, multi_type, rebuild};
use crate::EngineError;

/// The narrowest type for values of both types: null adopts the other type, a multivalue stays a multivalue, integers
/// and doubles become doubles, a mixed column ([`super::MixedColumn`]) and a column of its numbers become a mixed
/// column, and incompatible types become text.
pub(crate) fn promote(a: &DataType, b: &DataType) -> DataType {
    match (a, b) {
        _ if a == b => a.clone(),
        (DataType::Null, other) | (other, DataType::Null) => other.clone(),
        (DataType::List(_), _) | (_, DataType::List(_)) => multi_type(),
        (DataType::Int64, DataType::Float64) | (DataType::Float64, DataType::Int64) => DataType::Float64,
        (mixed, numbers) | (numbers, mixed) if is_mixed_of(mixed, numbers) => mixed.clone(),
        _ => DataType::Utf8View,
    }
}

/// The common schema of all batches so far.
#[derive(Default)]
pub(crate) struct Unified {
    fields: Vec<UnifiedField>,
    /// The fields in the order of the common schema, by index.
    order: Vec<usize>,
    indices: hashbrown::HashMap<String, usize, foldhash::fast::FixedState>,
    /// The last schema and the indices of its fields, because most batches have the same schema.
    last: Option<(SchemaRef, Vec<usize>)>,
}

struct UnifiedField {
    name: String,
    kind: DataType,
    /// Whether there are integers that a double cannot represent exactly.
    wide: bool,
    /// Whether some row has a value.
    has_value: bool,
}

impl Unified {
    pub(crate) fn add(&mut self, batch: &RecordBatch) {
        let known = self.last.take().filter(|(schema, _)| schema == batch.schema_ref());
        let (schema, indices) = known.unwrap_or_else(|| self.indices_of(batch.schema()));
        for (at, array) in indices.iter().zip(batch.columns()) {
            let field = &mut self.fields[*at];
            field.wide |= has_wide_integers(array);
            field.has_value = field.has_value || array.logical_null_count() < array.len();
        }
        self.last = Some((schema, indices));
    }

    fn indices_of(&mut self, schema: SchemaRef) -> (SchemaRef, Vec<usize>) {
        let known = self.fields.len();
        let mut indices = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let at = match self.indices.get(field.name()) {
                Some(at) => {
                    let kind = &mut self.fields[*at].kind;
                    *kind = promote(kind, field.data_type());
                    *at
                }
                None => {
                    let (name, kind) = (field.name().clone(), field.data_type().clone());
                    self.indices.insert(name.clone(), self.fields.len());
                    self.fields.push(UnifiedField { name, kind, wide: false, has_value: false });
                    self.fields.len() - 1
                }
            };
            indices.push(at);
        }
        if self.fields.len() > known {
            let name = |at: usize| &self.fields[at].name;
            match are_of_events(schema.fields().iter().map(|field| field.name().as_str())) {
                true => self.order = merge_columns(&self.order, &indices, |a, b| name(a) < name(b)),
                false => self.order.extend(known..self.fields.len()),
            }
        }
        (schema, indices)
    }

    fn in_order(&self) -> impl Iterator<Item = &UnifiedField> {
        self.order.iter().map(|at| &self.fields[*at])
    }

    /// The schema: the columns of events in the order of [`merge_columns`], others in order of first appearance.
    pub(crate) fn schema(&self) -> SchemaRef {
        // An integer beyond 2^53 would lose digits as a double, but not as text.
        let typed = self.in_order().map(|UnifiedField { name, kind, wide, .. }| {
            let kind = if *wide && *kind == DataType::Float64 { DataType::Utf8View } else { kind.clone() };
            Field::new(name, kind, true)
        });
        Arc::new(Schema::new(typed.collect::<Vec<_>>()))
    }

    /// Names of the columns with a value in some row. Whether other columns exist depends on how rows were read.
    pub(crate) fn valued_names(&self) -> Vec<String> {
        self.in_order().filter(|field| field.has_value).map(|field| field.name.clone()).collect()
    }
}

/// A common schema of all batches, see [`Unified`].
fn unified_schema<'a>(batches: impl IntoIterator<Item = &'a RecordBatch>) -> SchemaRef {
    let mut unified = Unified::default();
    batches.into_iter().for_each(|batch| unified.add(batch));
    unified.schema()
}

fn has_wide_integers(array: &ArrayRef) -> bool {
    let wide = |array: &Int64Array| {
        array.values().iter().any(|value| value.unsigned_abs() > integer_part::<u64>(MAX_EXACT_INTEGER))
    };
    array.as_primitive_opt::<Int64Type>().is_some_and(wide)
}

/// Converts the rows to `schema`: columns by name, missing columns become null, other columns are dropped, and types
/// are converted as [`promote`] requires.
pub fn conform(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, EngineError> {
    if rows.schema_ref() == schema {
        return Ok(rows.clone());
    }
    let columns = schema.fields().iter().map(|field| match rows.column_by_name(field.name()) {
        Some(array) => conform_column(array, field.data_type()),
        None => new_null_array(field.data_type(), rows.num_rows()),
    });
    rebuild(schema.fields().to_vec(), columns.collect(), rows.num_rows())
}

/// Converts the column to `kind`. Values that cannot be converted become null, which never happens for types chosen by
/// [`promote`].
pub(crate) fn conform_column(array: &ArrayRef, kind: &DataType) -> ArrayRef {
    if array.data_type() == kind {
        return Arc::clone(array);
    }
    match kind {
        _ if array.null_count() == array.len() || array.data_type() == &DataType::Null => {
            new_null_array(kind, array.len())
        }
        DataType::Utf8View => Arc::new(as_text_array(array)),
        DataType::Float64 => Arc::new(as_number_array(array)),
        DataType::List(_) => as_multi_array(array),
        mixed if is_mixed_of(mixed, array.data_type()) => {
            let texts = StringViewArray::new_null(array.len());
            mixed_column(Arc::clone(array), texts).unwrap_or_else(|_| new_null_array(kind, array.len()))
        }
        _ => arrow::compute::cast(array, kind).unwrap_or_else(|_| new_null_array(kind, array.len())),
    }
}

/// A column of lists, each of which contains the text of a row.
fn as_multi_array(array: &ArrayRef) -> ArrayRef {
    if let ColumnReader::Multi(list, _) = ColumnReader::new(array) {
        return Arc::new(list);
    }
    let texts = as_text_array(array);
    let nulls = texts.nulls().cloned();
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(1, texts.len()));
    Arc::new(ListArray::new(multi_item(), offsets, Arc::new(texts), nulls))
}

/// Concatenates all rows under their [`unified_schema`]. Without batches, there are no rows and no columns.
pub fn concat_rows(batches: Vec<RecordBatch>) -> Result<RecordBatch, EngineError> {
    if batches.len() <= 1 {
        let only = batches.into_iter().next();
        return Ok(only.unwrap_or_else(|| RecordBatch::new_empty(Arc::new(Schema::empty()))));
    }
    let schema = unified_schema(&batches);
    if schema.fields().is_empty() {
        return rebuild(Vec::new(), Vec::new(), batches.iter().map(RecordBatch::num_rows).sum());
    }
    let batches = batches.iter().map(|batch| conform(batch, &schema)).collect::<Result<Vec<_>, _>>()?;
    Ok(concat_batches(&schema, &batches)?)
}
