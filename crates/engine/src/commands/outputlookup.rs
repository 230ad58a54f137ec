//! `outputlookup`: writes rows to a lookup table.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::{SeenNames, names_of};
use quarry_eval::lookup::{LookupSource, read_csv};
use quarry_eval::rows::{self, RowBuffer, RowIter, is_hidden};
use quarry_event::spreadsheet::escape_formula;
use quarry_spl::ast::OutputLookupCommand;
use quarry_stdx::Fault;

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};

/// Maximum number of rows that one search writes to a lookup table.
const TABLE_ROWS_MAX: usize = 10_000_000;
/// Approximate overhead of a key, in bytes.
const KEY_OVERHEAD_BYTES: usize = 64;

impl Execute for OutputLookupCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(OutputLookup { command: self.clone(), lookups: lowering.environment.lookups() })])
    }
}

/// Writes the rows and passes them on.
struct OutputLookup {
    command: OutputLookupCommand,
    lookups: Arc<dyn LookupSource>,
}

impl Blocking for OutputLookup {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let failed = |fault: Fault| EngineError::at(fault, self.command.table_span);
        let (mut all, mut names) = (RowBuffer::new("outputlookup", &context.dataflow), SeenNames::default());
        for batch in rows {
            let batch = batch?;
            names.add(&batch);
            all.push(&batch)?;
            if all.num_rows() > TABLE_ROWS_MAX {
                let what = "outputlookup: too many rows for a lookup table".to_owned();
                return Err(EngineError::Limit { what, limit: "table rows", value: TABLE_ROWS_MAX as u64 });
            }
        }
        let name = &self.command.table;
        let keeps_old = self.command.append || self.command.key_field.is_some();
        if keeps_old && self.lookups.has_keys(name) {
            let new = NewRows { rows: &all, names: names.all(), replaced: &BTreeSet::new() };
            let mut fill = |out: &mut dyn Write| self.write_csv(None, &new, out);
            self.lookups.add_rows(name, self.command.key_field.as_deref(), &mut fill).map_err(failed)?;
            return Ok(all.into_rows());
        }
        let old = self.lookups.table(name).map_err(failed)?;
        if all.num_rows() == 0 && !self.writes_empty_results(old.is_some()) {
            return Ok(all.into_rows());
        }
        let old = match old.filter(|_| keeps_old) {
            Some(table) => {
                Some(read_csv(&table.csv).map_err(|fault| failed(fault.with_context(format_args!("lookup {name}"))))?)
            }
            None => None,
        };
        let replaced = self.keys(&all, context)?;
        let new = NewRows { rows: &all, names: names.all(), replaced: &replaced };
        let mut fill = |out: &mut dyn Write| self.write_csv(old.as_ref(), &new, out);
        self.lookups.write(name, self.command.context, &mut fill).map_err(failed)?;
        Ok(all.into_rows())
    }
}

/// Rows that `outputlookup` adds to a table.
struct NewRows<'r> {
    rows: &'r RowBuffer,
    names: &'r [String],
    /// Keys of existing rows that the new rows replace.
    replaced: &'r BTreeSet<String>,
}

impl OutputLookup {
    /// Whether an empty result is written: it empties an existing table, or creates a missing one.
    fn writes_empty_results(&self, exists: bool) -> bool {
        match (exists, self.command.append) {
            (_, true) => false,
            (true, false) => self.command.override_if_empty,
            (false, false) => self.command.create_empty,
        }
    }

    /// The new rows to be written, one batch at a time.
    fn rows_to_write<'r>(&self, rows: &'r RowBuffer) -> impl Iterator<Item = Result<RecordBatch, EngineError>> + 'r {
        let mut left = self.command.max.unwrap_or(usize::MAX);
        rows.iter().map(move |batch| {
            let batch = batch?;
            let count = batch.num_rows().min(left);
            left -= count;
            Ok(batch.slice(0, count))
        })
    }

    /// Values of `key_field=` in the new rows.
    fn keys(&self, rows: &RowBuffer, context: &CommandContext) -> Result<BTreeSet<String>, EngineError> {
        let mut keys = BTreeSet::new();
        let Some(field) = &self.command.key_field else { return Ok(keys) };
        let (mut account, mut bytes) = (context.dataflow.account("keys of outputlookup"), 0);
        for batch in self.rows_to_write(rows) {
            let batch = batch?;
            let reader = rows::reader(&batch, field);
            for row in 0..batch.num_rows() {
                if let Some(key) = reader.value(row).into_text() {
                    bytes += key.len() + KEY_OVERHEAD_BYTES;
                    keys.insert(key.into_owned());
                }
            }
            account.set(bytes)?;
        }
        Ok(keys)
    }

    /// Writes the table as CSV: the remaining old rows, then the new rows. The columns of an existing table are kept.
    fn write_csv(&self, old: Option<&RecordBatch>, new: &NewRows<'_>, out: &mut dyn Write) -> Result<(), Fault> {
        let is_kept = |name: &String| !is_hidden(name) && (!name.starts_with('_') || name == "_time" || name == "_key");
        let names: Vec<String> = match old {
            Some(old) if old.num_columns() > 0 => names_of(old),
            _ => new.names.iter().filter(|name| is_kept(name)).cloned().collect(),
        };
        let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(out);
        let failed = |error: csv::Error| Fault::unavailable(format!("outputlookup: {error}"));
        if !names.is_empty() {
            let head = names.iter().map(|name| cell(name, self.command.safe).into_owned());
            writer.write_record(head).map_err(failed)?;
        }
        if let Some(old) = old {
            let key = self.command.key_field.as_ref().map(|key| rows::reader(old, key));
            let stays = |row: usize| match &key {
                Some(key) => key.value(row).text().is_none_or(|text| !new.replaced.contains(text.as_ref())),
                None => true,
            };
            // Old rows are written unchanged.
            write_rows(&mut writer, old, &names, false, stays).map_err(failed)?;
        }
        for batch in self.rows_to_write(new.rows) {
            let batch = batch?;
            write_rows(&mut writer, &batch, &names, self.command.safe, |_| true).map_err(failed)?;
        }
        writer.flush().map_err(|error| Fault::unavailable(format!("outputlookup: {error}")))
    }
}

fn cell(text: &str, safe: bool) -> Cow<'_, str> {
    if safe { escape_formula(text) } else { Cow::Borrowed(text) }
}

fn write_rows(
    writer: &mut csv::Writer<&mut dyn Write>,
    rows: &RecordBatch,
    names: &[String],
    safe: bool,
    stays: impl Fn(usize) -> bool,
) -> Result<(), csv::Error> {
    let readers: Vec<_> = names.iter().map(|name| rows::reader(rows, name)).collect();
    let mut scratch = String::new();
    for row in (0..rows.num_rows()).filter(|row| stays(*row)) {
        for reader in &readers {
            let text = reader.text(row, &mut scratch).unwrap_or_default();
            writer.write_field(cell(text, safe).as_ref())?;
        }
        writer.write_record(None::<&[u8]>)?;
    }
    Ok(())
}
