//! `xyseries`: pivots rows with a row key, a series name and values into a table with a column per series.

use arrow::array::UInt32Array;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::keys::KeyTable;
use quarry_eval::context::{CommandContext, Stop};
use quarry_eval::rows::{self, ColumnBuilder, RowIter, Value, batch_of, of_batches, rows_in_memory};
use quarry_event::value::sort_key;
use quarry_spl::ast::XySeriesCommand;
use quarry_stdx::number::u32_of;

use super::Execute;
use super::series_table::row_positions;
use super::sorted_positions::sorted_positions;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};

/// Maximum number of columns of the result.
const COLUMNS_MAX: usize = 10_000;
/// Maximum number of cells of the result.
const CELLS_MAX: usize = 20_000_000;

impl Execute for XySeriesCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(self.clone())])
    }
}

/// Rows and columns of a table, and the source row of each cell.
struct Grid {
    /// First source row of each output row.
    rows: Vec<u32>,
    /// Names of series, in order.
    names: Vec<String>,
    /// Source row by series and row.
    cells: Vec<Vec<Option<u32>>>,
}

impl Blocking for XySeriesCommand {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let all = rows_in_memory("xyseries", rows, context)?;
        let grid = grid(self, &all, &context.stop)?;
        let keys = rows::take(&rows::select(&all, &[&self.row])?, &UInt32Array::from(grid.rows.clone()))?;
        let mut columns = vec![(self.row.clone(), rows::column_or_null(&keys, &self.row))];
        for data in &self.data {
            let reader = rows::reader(&all, data);
            for (name, cells) in grid.names.iter().zip(&grid.cells) {
                context.stop.check_cancelled()?;
                let mut column = ColumnBuilder::new(cells.len());
                for cell in cells {
                    column.push(cell.map_or(Value::Null, |row| reader.value(row as usize)));
                }
                columns.push((column_name(self, data, name), column.finish()));
            }
        }
        Ok(of_batches(vec![batch_of(columns, grid.rows.len())?]))
    }
}

/// Name of the column for a series of a data field.
fn column_name(command: &XySeriesCommand, data: &str, name: &str) -> String {
    if let Some(format) = &command.format {
        let format = format.replace("$AGG$", data).replace("$agg$", data);
        return format.replace("$VAL$", name).replace("$val$", name);
    }
    match command.data.len() {
        // Column names made from values must not start with an underscore, which marks internal fields.
        1 if name.starts_with('_') => format!("VALUE{name}"),
        1 => name.to_owned(),
        _ => format!("{data}{}{name}", command.separator),
    }
}

fn grid(command: &XySeriesCommand, all: &RecordBatch, stop: &Stop) -> Result<Grid, EngineError> {
    let (rows, names) = (rows::reader(all, &command.row), rows::reader(all, &command.name));
    let (mut row_keys, mut series) = (KeyTable::default(), KeyTable::default());
    // The first source row of each row; row, series and source row of each cell.
    let (mut first, mut cells): (Vec<u32>, Vec<(u32, u32, u32)>) = (Vec::new(), Vec::new());
    let (mut scratch, mut other) = (String::new(), String::new());
    let mut last: Option<String> = None;
    for row in 0..all.num_rows() {
        stop.check_cancelled()?;
        let (Some(x), Some(name)) = (rows.text(row, &mut scratch), names.text(row, &mut other)) else { continue };
        let at = match command.grouped {
            // With `grouped=true`, consecutive rows with the same row key form one row of the result.
            true if last.as_deref() == Some(x) => first.len() - 1,
            true => first.len(),
            false => row_keys.intern(x.as_bytes()) as usize,
        };
        if at == first.len() {
            first.push(u32_of(row));
        }
        if command.grouped && last.as_deref() != Some(x) {
            last = Some(x.to_owned());
        }
        cells.push((u32_of(at), series.intern(name.as_bytes()), u32_of(row)));
    }
    let width = series.len().saturating_mul(command.data.len());
    for (size, limit, most) in
        [(width, "columns", COLUMNS_MAX), (width.saturating_mul(first.len()), "cells", CELLS_MAX)]
    {
        if size > most {
            let what = format!("xyseries: a table of {} × {width} cells is too large", first.len());
            return Err(EngineError::Limit { what, limit, value: most as u64 });
        }
    }
    let order = match command.grouped {
        true => (0..first.len()).collect(),
        false => row_positions(&texts_of(&row_keys), |a, b| a.cmp(&b), stop)?,
    };
    let names = texts_of(&series);
    let by_name =
        |a: usize, b: usize| sort_key(&names[a]).cmp(&sort_key(&names[b])).then_with(|| names[a].cmp(&names[b]));
    let columns = sorted_positions(names.len(), by_name, stop)?;
    let (row_ranks, column_ranks) = (ranks(&order), ranks(&columns));
    let mut placed = vec![vec![None; order.len()]; columns.len()];
    for (row, column, source) in cells {
        placed[column_ranks[column as usize]][row_ranks[row as usize]] = Some(source);
    }
    Ok(Grid {
        rows: order.iter().map(|at| first[*at]).collect(),
        names: columns.iter().map(|at| names[*at].clone()).collect(),
        cells: placed,
    })
}

fn texts_of(keys: &KeyTable) -> Vec<String> {
    (0..keys.len()).map(|at| String::from_utf8_lossy(keys.key(at)).into_owned()).collect()
}

/// The rank of each number in an order.
fn ranks(order: &[usize]) -> Vec<usize> {
    let mut ranks = vec![0; order.len()];
    for (rank, at) in order.iter().enumerate() {
        ranks[*at] = rank;
    }
    ranks
}
