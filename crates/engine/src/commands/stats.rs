//! stats and eventstats.

use arrow::array::{Array, UInt32Array};
use arrow::record_batch::RecordBatch;
use quarry_event::value::sort_key;
use quarry_spl::ast::{Aggregate, StatsCommand};

use crate::EngineError;
use crate::aggregate::keys::{KeyTable, add_key_part};
use crate::aggregate::{AggregatePlan, Folder, expand_wildcards};
use crate::command::{Blocking, CommandContext, Reduce, RowIter};
use crate::expr::ExprContext;
use crate::field_names::names_of;
use crate::rows::{self, ColumnReader, concat_rows};

/// `stats` whose columns are known before the rows.
pub(crate) struct Stats(pub AggregatePlan);

impl Reduce for Stats {
    fn needs_order(&self) -> bool {
        self.0.needs_order()
    }

    fn folder(&self, context: &CommandContext) -> Result<Folder, EngineError> {
        Ok(Folder::new(&self.0, context))
    }

    fn finish(&self, folders: Vec<Folder>, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let result = self.0.values(self.0.gather(folders, context)?)?;
        Ok(vec![sorted_by(&result, &self.0.by)?])
    }
}

/// The rows in ascending order of these fields: numbers by value before texts, equal numbers by their texts.
pub(crate) fn sorted_by(rows: &RecordBatch, fields: &[String]) -> Result<RecordBatch, EngineError> {
    if fields.is_empty() || rows.num_rows() < 2 {
        return Ok(rows.clone());
    }
    let columns: Vec<_> = fields.iter().map(|field| rows::as_text_array(&rows::column_or_null(rows, field))).collect();
    let keys: Vec<Vec<_>> =
        columns.iter().map(|column| (0..column.len()).map(|row| sort_key(column.value(row))).collect()).collect();
    let mut places: Vec<u32> = (0..rows.num_rows() as u32).collect();
    places.sort_by(|a, b| {
        let orders = keys.iter().map(|keys| keys[*a as usize].cmp(&keys[*b as usize]));
        let order = orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then);
        order.then_with(|| {
            let orders = columns.iter().map(|column| column.value(*a as usize).cmp(column.value(*b as usize)));
            orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        })
    });
    rows::take(rows, &UInt32Array::from(places))
}

/// `stats` with wildcards in its arguments: which columns there are is known when all rows are there.
pub(crate) struct WildcardStats {
    /// Aggregates as written.
    pub command: StatsCommand,
    /// Names of the BY fields.
    pub by: Vec<String>,
    /// For expressions.
    pub expressions: ExprContext,
}

impl Blocking for WildcardStats {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        let plan = plan_for(&self.command.aggregates, &self.by, &rows, &self.expressions)?;
        let result = plan.values(plan.fold(&rows, context)?)?;
        Ok(vec![sorted_by(&result, &plan.by)?])
    }
}

/// The aggregates with wildcards replaced by the fields these rows have.
fn plan_for(
    aggregates: &[Aggregate],
    by: &[String],
    rows: &[RecordBatch],
    expressions: &ExprContext,
) -> Result<AggregatePlan, EngineError> {
    let mut names: Vec<String> = Vec::new();
    for name in rows.iter().flat_map(names_of) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    AggregatePlan::new(&expand_wildcards(aggregates, by, &names), by.to_vec(), expressions)
}

/// `eventstats`: the aggregates of its group joined to every row. A row that lacks a BY field stays as it is.
pub(crate) struct EventStats {
    /// Aggregates as written.
    pub command: StatsCommand,
    /// Names of the BY fields.
    pub by: Vec<String>,
    /// For expressions.
    pub expressions: ExprContext,
}

impl Blocking for EventStats {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let batches = rows.collect::<Result<Vec<_>, _>>()?;
        let plan = plan_for(&self.command.aggregates, &self.by, &batches, &self.expressions)?;
        let groups = plan.values(plan.fold(&batches, context)?)?;
        let rows = concat_rows(batches)?;
        let places = group_of_each(&rows, &groups, &self.by);
        let mut result = rows;
        for column in &plan.columns {
            let values = rows::column_or_null(&groups, &column.name);
            let values = arrow::compute::take(&values, &places, None)?;
            result = rows::with_column(&result, &column.name, values)?;
        }
        Ok(vec![result])
    }
}

/// Row of `groups` for each row; null without one.
fn group_of_each(rows: &RecordBatch, groups: &RecordBatch, by: &[String]) -> UInt32Array {
    if by.is_empty() {
        return std::iter::repeat_n(Some(0), rows.num_rows()).collect();
    }
    let mut keys = KeyTable::default();
    let readers: Vec<ColumnReader> = by.iter().map(|name| rows::reader(groups, name)).collect();
    let mut key = Vec::new();
    for row in 0..groups.num_rows() {
        write_key(&readers, row, &mut key);
        keys.intern(&key);
    }
    let readers: Vec<ColumnReader> = by.iter().map(|name| rows::reader(rows, name)).collect();
    (0..rows.num_rows()).map(|row| write_key(&readers, row, &mut key).then(|| keys.find(&key)).flatten()).collect()
}

/// Writes the key of a row from the first value of each field; false when a field is missing.
pub(crate) fn write_key(readers: &[ColumnReader], row: usize, key: &mut Vec<u8>) -> bool {
    key.clear();
    for reader in readers {
        match reader.values(row).next() {
            Some(text) => add_key_part(key, &text, readers.len()),
            None => return false,
        }
    }
    true
}
