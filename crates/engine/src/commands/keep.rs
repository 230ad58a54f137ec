//! Commands that keep their rows elsewhere and pass them on: outputlookup, collect.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_event::time::{NS_PER_SEC, strftime};
use quarry_event::value::{Number, canonical_number, format_number};
use quarry_event::{EventBatch, Metadata, TimeNs};
use quarry_spl::ast::{CollectCommand, OutputLookupCommand};

use super::lookup::{LookupSource, read_csv};
use super::spans::time_ns;
use crate::EngineError;
use crate::command::{Blocking, BlockingTable, CommandContext, RowIter};
use crate::field_names::names_of;
use crate::rows::{self, KeptRows, concat_rows, is_hidden};
use crate::run::SnapshotSource;

/// Rows that one search writes into a lookup table at most.
const TABLE_ROWS_MAX: usize = 10_000_000;
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

impl BlockingTable for OutputLookup {
    fn run(&self, rows: RowIter, _: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let batches = rows.collect::<Result<Vec<_>, _>>()?;
        let invalid = |message: String| EngineError::Invalid { message, span: Some(self.command.table_span) };
        let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if count > TABLE_ROWS_MAX {
            let what = "outputlookup: too many rows for a lookup table".to_owned();
            return Err(EngineError::Limit { what, limit: "table rows", value: TABLE_ROWS_MAX as u64 });
        }
        let name = &self.command.table;
        let old = self.lookups.table(name).map_err(invalid)?;
        if count == 0 && !self.writes_nothing(old.is_some()) {
            return Ok(batches);
        }
        let keeps_old = self.command.append || self.command.key_field.is_some();
        let old = match old.filter(|_| keeps_old) {
            Some(table) => Some(read_csv(&table.csv).map_err(|error| invalid(format!("lookup {name}: {error}")))?),
            None => None,
        };
        let text = self.csv(old, concat_rows(batches.clone())?)?;
        self.lookups.write(name, &text).map_err(invalid)?;
        Ok(batches)
    }
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

    /// The table as CSV: the rows that stay, then the new ones. Columns of a table that is added to stay as they are.
    fn csv(&self, old: Option<RecordBatch>, new: RecordBatch) -> Result<String, EngineError> {
        let is_kept = |name: &String| !is_hidden(name) && (!name.starts_with('_') || name == "_time" || name == "_key");
        let names: Vec<String> = match &old {
            Some(old) if old.num_columns() > 0 => names_of(old),
            _ => names_of(&new).into_iter().filter(is_kept).collect(),
        };
        let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
        let failed = |error: csv::Error| EngineError::invalid(format!("outputlookup: {error}"));
        if !names.is_empty() {
            writer.write_record(&names).map_err(failed)?;
        }
        let limit = self.command.max.unwrap_or(usize::MAX);
        let new = new.slice(0, new.num_rows().min(limit));
        if let Some(old) = &old {
            let replaced = self.command.key_field.as_ref().map(|key| {
                let reader = rows::reader(&new, key);
                let values =
                    (0..new.num_rows()).filter_map(|row| reader.value(row).into_text().map(|t| t.into_owned()));
                (rows::reader(old, key), values.collect::<std::collections::BTreeSet<_>>())
            });
            let stays = |row: usize| match &replaced {
                Some((key, values)) => key.value(row).text().is_none_or(|text| !values.contains(text.as_ref())),
                None => true,
            };
            write_rows(&mut writer, old, &names, stays).map_err(failed)?;
        }
        write_rows(&mut writer, &new, &names, |_| true).map_err(failed)?;
        let bytes = writer.into_inner().map_err(|error| EngineError::invalid(format!("outputlookup: {error}")))?;
        String::from_utf8(bytes).map_err(|error| EngineError::invalid(format!("outputlookup: {error}")))
    }
}

fn write_rows(
    writer: &mut csv::Writer<Vec<u8>>,
    rows: &RecordBatch,
    names: &[String],
    stays: impl Fn(usize) -> bool,
) -> Result<(), csv::Error> {
    let readers: Vec<_> = names.iter().map(|name| rows::reader(rows, name)).collect();
    for row in (0..rows.num_rows()).filter(|row| stays(*row)) {
        let cells = readers
            .iter()
            .map(|reader| reader.value(row).into_text().map(|text| text.into_owned()).unwrap_or_default());
        writer.write_record(cells.collect::<Vec<String>>())?;
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
            Some(Number::Float(number)) => serde_json::Value::from(number),
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
