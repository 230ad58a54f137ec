//! Commands that keep their rows elsewhere and pass them on: outputlookup, collect.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_event::spreadsheet::without_formula;
use quarry_event::time::{NS_PER_SEC, strftime};
use quarry_event::value::{Number, canonical_number, format_number};
use quarry_event::{EventBatch, Metadata, TimeNs};
use quarry_spl::ast::{CollectCommand, OutputLookupCommand};

use super::lookup::{LookupSource, read_csv};
use super::spans::time_ns;
use crate::EngineError;
use crate::command::{Blocking, CommandContext, RowIter};
use crate::field_names::{SeenNames, names_of};
use crate::rows::{self, KeptRows, is_hidden};
use crate::run::SnapshotSource;

/// Rows that one search writes into a lookup table at most.
const TABLE_ROWS_MAX: usize = 10_000_000;
/// Bytes of a key besides its text, about.
const KEY_BYTES: usize = 64;
/// Bytes of events kept at once.
const BATCH_BYTES: usize = 4 << 20;
/// How the time stands in front of an event that has no text of its own.
const TIME_FORMAT: &str = "%m/%d/%Y %H:%M:%S %z";
/// Source of events that name none.
const SOURCE: &str = "collect";
/// Host of events that name none.
const HOST: &str = "search";

/// `outputlookup`.
pub(crate) struct OutputLookup {
    /// Command.
    pub command: OutputLookupCommand,
    /// Tables.
    pub lookups: Arc<dyn LookupSource>,
}

impl Blocking for OutputLookup {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let invalid = |message: String| EngineError::Invalid { message, span: Some(self.command.table_span) };
        let (mut all, mut names) = (KeptRows::new("outputlookup", &context.dataflow), SeenNames::default());
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
        let old = self.lookups.table(name).map_err(invalid)?;
        if all.num_rows() == 0 && !self.writes_nothing(old.is_some()) {
            return Ok(all.into_rows());
        }
        let keeps_old = self.command.append || self.command.key_field.is_some();
        let old = match old.filter(|_| keeps_old) {
            Some(table) => Some(read_csv(&table.csv).map_err(|error| invalid(format!("lookup {name}: {error}")))?),
            None => None,
        };
        let replaced = self.keys(&all, context)?;
        let new = NewRows { rows: &all, names: names.all(), replaced: &replaced };
        let mut fill = |out: &mut dyn Write| self.write_csv(old.as_ref(), &new, out);
        self.lookups.write(name, &mut fill).map_err(invalid)?;
        Ok(all.into_rows())
    }
}

/// What `outputlookup` adds to a table.
struct NewRows<'r> {
    rows: &'r KeptRows,
    names: &'r [String],
    /// Keys of the rows that give way to these.
    replaced: &'r BTreeSet<String>,
}

impl OutputLookup {
    /// Whether a result without rows changes the table.
    fn writes_nothing(&self, exists: bool) -> bool {
        match (exists, self.command.append) {
            (_, true) => false,
            (true, false) => self.command.override_if_empty,
            (false, false) => self.command.create_empty,
        }
    }

    /// The new rows that are written, a batch at a time.
    fn written<'r>(&self, rows: &'r KeptRows) -> impl Iterator<Item = Result<RecordBatch, EngineError>> + 'r {
        let mut left = self.command.max.unwrap_or(usize::MAX);
        rows.iter().map(move |batch| {
            let batch = batch?;
            let count = batch.num_rows().min(left);
            left -= count;
            Ok(batch.slice(0, count))
        })
    }

    /// Values of `key_field=` in the new rows.
    fn keys(&self, rows: &KeptRows, context: &CommandContext) -> Result<BTreeSet<String>, EngineError> {
        let mut keys = BTreeSet::new();
        let Some(field) = &self.command.key_field else { return Ok(keys) };
        let (mut account, mut bytes) = (context.dataflow.account("keys of outputlookup"), 0);
        for batch in self.written(rows) {
            let batch = batch?;
            let reader = rows::reader(&batch, field);
            for row in 0..batch.num_rows() {
                if let Some(key) = reader.value(row).into_text() {
                    bytes += key.len() + KEY_BYTES;
                    keys.insert(key.into_owned());
                }
            }
            account.set(bytes)?;
        }
        Ok(keys)
    }

    /// The table as CSV: the rows that stay, then the new ones. Columns of a table that is added to stay as they are.
    fn write_csv(&self, old: Option<&RecordBatch>, new: &NewRows<'_>, out: &mut dyn Write) -> Result<(), String> {
        let is_kept = |name: &String| !is_hidden(name) && (!name.starts_with('_') || name == "_time" || name == "_key");
        let names: Vec<String> = match old {
            Some(old) if old.num_columns() > 0 => names_of(old),
            _ => new.names.iter().filter(|name| is_kept(name)).cloned().collect(),
        };
        let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(out);
        let failed = |error: csv::Error| format!("outputlookup: {error}");
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
            // They are as they were written.
            write_rows(&mut writer, old, &names, false, stays).map_err(failed)?;
        }
        for batch in self.written(new.rows) {
            let batch = batch.map_err(|error| error.to_string())?;
            write_rows(&mut writer, &batch, &names, self.command.safe, |_| true).map_err(failed)?;
        }
        writer.flush().map_err(|error| format!("outputlookup: {error}"))
    }
}

fn cell(text: &str, safe: bool) -> Cow<'_, str> {
    if safe { without_formula(text) } else { Cow::Borrowed(text) }
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

/// `collect`.
pub(crate) struct Collect {
    /// Command.
    pub command: CollectCommand,
    /// Where events are kept.
    pub source: Arc<dyn SnapshotSource>,
}

impl Blocking for Collect {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let all = KeptRows::collect("collect", rows, &context.dataflow)?;
        if self.command.test_mode {
            return Ok(all.into_rows());
        }
        let mut kept = self.empty(context);
        for rows in all.iter() {
            self.add(&rows?, &mut kept, context)?;
        }
        self.keep(kept)?;
        Ok(all.into_rows())
    }
}

impl Collect {
    fn empty(&self, context: &CommandContext) -> EventBatch {
        let meta = Metadata {
            index: self.command.index.as_str().into(),
            host: self.command.host.as_deref().unwrap_or(HOST).into(),
            source: self.command.source.as_deref().unwrap_or(SOURCE).into(),
            sourcetype: self.command.sourcetype.as_str().into(),
        };
        EventBatch { index_time: context.now, metas: vec![meta], ..EventBatch::default() }
    }

    fn add(&self, rows: &RecordBatch, kept: &mut EventBatch, context: &CommandContext) -> Result<(), EngineError> {
        let (time, began) = (rows::reader(rows, "_time"), rows::reader(rows, "info_min_time"));
        let raw = rows::reader(rows, "_raw");
        let names: Vec<String> = names_of(rows).into_iter().filter(|name| !name.starts_with('_')).collect();
        let fields: Vec<_> = names.iter().map(|name| (name, rows::reader(rows, name))).collect();
        for row in 0..rows.num_rows() {
            let at = time_ns(&time, row).or_else(|| time_ns(&began, row).filter(|time| *time > 0));
            let at = at.unwrap_or(context.range.earliest.unwrap_or(context.now.div_euclid(NS_PER_SEC) * NS_PER_SEC));
            let mut text = match raw.value(row).into_text() {
                Some(text) => text.into_owned(),
                None => self.written(at, row, &fields, context),
            };
            if let Some(marker) = &self.command.marker {
                text.push_str(&format!(", {marker}"));
            }
            kept.raw.extend_from_slice(text.as_bytes());
            kept.ends.push(kept.raw.len() as u32);
            kept.time.push(at);
            kept.meta.push(0);
            if kept.raw.len() >= BATCH_BYTES {
                self.keep(std::mem::replace(kept, self.empty(context)))?;
            }
        }
        Ok(())
    }

    /// The fields of a row as `name="value"`.
    fn written(
        &self,
        at: TimeNs,
        row: usize,
        fields: &[(&String, rows::ColumnReader)],
        context: &CommandContext,
    ) -> String {
        if self.command.as_json {
            return json_of(row, fields);
        }
        let mut parts = Vec::new();
        if self.command.add_time {
            let format = self.command.time_format.as_deref().unwrap_or(TIME_FORMAT);
            parts.push(strftime(at, format, &context.zone));
        }
        if self.command.add_info {
            let seconds = |time: Option<TimeNs>, open: &str| match time {
                Some(time) => format_number(time as f64 / NS_PER_SEC as f64),
                None => open.to_owned(),
            };
            let facts = [
                ("info_min_time", seconds(context.range.earliest, "0.000")),
                ("info_max_time", seconds(context.range.latest, "+Infinity")),
                ("info_search_time", seconds(Some(context.now), "")),
            ];
            // A row that tells of a search itself, such as one of `addinfo`, is believed.
            let told = |name: &str| fields.iter().any(|(field, _)| *field == name);
            let facts = facts.iter().filter(|(name, _)| !told(name));
            parts.extend(facts.map(|(name, value)| format!("{name}={value}")));
        }
        for (name, reader) in fields {
            for value in reader.values(row) {
                parts.push(format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")));
            }
        }
        parts.join(", ")
    }

    fn keep(&self, batch: EventBatch) -> Result<(), EngineError> {
        if batch.ends.is_empty() {
            return Ok(());
        }
        let span = Some(self.command.index_span);
        self.source.keep(batch).map_err(|message| EngineError::Invalid { message: format!("collect: {message}"), span })
    }
}

/// The fields of a row as a JSON object, numbers as numbers.
fn json_of(row: usize, fields: &[(&String, rows::ColumnReader)]) -> String {
    let mut object = serde_json::Map::new();
    for (name, reader) in fields {
        let typed = |text: std::borrow::Cow<'_, str>| match canonical_number(&text) {
            Some(Number::Int(number)) => serde_json::Value::from(number),
            Some(number) => serde_json::Value::from(number.as_f64()),
            None => serde_json::Value::String(text.into_owned()),
        };
        let mut values: Vec<serde_json::Value> = reader.values(row).map(typed).collect();
        match values.len() {
            0 => {}
            1 => drop(object.insert((*name).clone(), values.swap_remove(0))),
            _ => drop(object.insert((*name).clone(), serde_json::Value::Array(values))),
        }
    }
    serde_json::Value::Object(object).to_string()
}
