//! Unpivots metric measurements into rows: one for each field `metric_name:NAME`, and one for `metric_name` with
//! `_value`.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::field_names::{METADATA_FIELDS, names_of};
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader};
use quarry_spl::ast::MeasurementsCommand;
use quarry_stdx::number::u32_of;

use super::Execute;
use crate::lowering::{Lowering, Step, row};
use crate::series_rates::is_dimension;

impl Execute for MeasurementsCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let lists_dimensions = self.lists_dimensions;
        Ok(vec![row(move || Measurements { lists_dimensions })])
    }
}

/// Unpivots the measurements of each row.
struct Measurements {
    /// Whether the names of the dimensions are listed.
    lists_dimensions: bool,
}

impl RowCommand for Measurements {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let (metric, value) = (MeasurementsCommand::METRIC, MeasurementsCommand::VALUE);
        let (named, measured) = (rows::reader(&rows, metric), rows::reader(&rows, value));
        let fields: Vec<String> =
            names_of(&rows).into_iter().filter(|name| name.starts_with(MeasurementsCommand::PREFIX)).collect();
        let readers: Vec<ColumnReader> = fields.iter().map(|field| rows::reader(&rows, field)).collect();
        let count = rows.num_rows();
        let (mut places, mut names, mut values) =
            (Vec::with_capacity(count), ColumnBuilder::new(count), ColumnBuilder::new(count));
        for row in 0..count {
            if !named.is_null(row) && !measured.is_null(row) {
                places.push(u32_of(row));
                names.push(named.value(row));
                values.push(measured.value(row));
            }
            for (field, reader) in fields.iter().zip(&readers).filter(|(_, reader)| !reader.is_null(row)) {
                places.push(u32_of(row));
                names.push_text(&field[MeasurementsCommand::PREFIX.len()..]);
                values.push(reader.value(row));
            }
        }
        let is_other = |name: &str| name != metric && name != value && !name.starts_with(MeasurementsCommand::PREFIX);
        let mut others = rows::drop_columns(&rows, |name| !is_other(name))?;
        if self.lists_dimensions {
            let dimensions = dimensions_of(&others);
            others = rows::with_column(&others, MeasurementsCommand::DIMENSIONS, dimensions)?;
        }
        let taken = rows::take(&others, &UInt32Array::from(places))?;
        let taken = rows::with_column(&taken, metric, names.finish())?;
        rows::with_column(&taken, value, values.finish())
    }
}

/// For each row, the names of the dimensions that have a value.
fn dimensions_of(rows: &RecordBatch) -> ArrayRef {
    let names = names_of(rows).into_iter();
    let names: Vec<String> = names.filter(|name| is_dimension(name) && !METADATA_FIELDS.contains(&&**name)).collect();
    let readers: Vec<ColumnReader> = names.iter().map(|name| rows::reader(rows, name)).collect();
    let mut column = ColumnBuilder::new(rows.num_rows());
    for row in 0..rows.num_rows() {
        let present = names.iter().zip(&readers).filter(|(_, reader)| !reader.is_null(row));
        column.push_multi(present.map(|(name, _)| name));
    }
    column.finish()
}
