//! `collect`: stores rows as events of an index.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::names_of;
use quarry_eval::rows::{self, RowBuffer, RowIter};
use quarry_eval::spans::time_ns;
use quarry_event::time::{NS_PER_SEC, strftime};
use quarry_event::value::{Number, format_number, parse_canonical_number};
use quarry_event::{EventBatch, Metadata, TimeNs};
use quarry_spl::ast::CollectCommand;
use quarry_stdx::number::{f64_of, u32_of};

use super::Execute;
use crate::blocking::Blocking;
use crate::lowering::{Lowering, Step, blocking};
use crate::source::SnapshotSource;

/// Bytes of events stored at once.
const BATCH_BYTES: usize = 4 << 20;
/// Default format of the time prefix of an event that has no text of its own.
const TIME_FORMAT: &str = "%m/%d/%Y %H:%M:%S %z";
/// Value of `source` if the command names none.
const DEFAULT_SOURCE: &str = "collect";

impl Execute for CollectCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let (source, node) = (lowering.environment.source(), lowering.environment.node_name());
        Ok(vec![blocking(Collect { command: self.clone(), source, node })])
    }
}

/// Stores rows.
struct Collect {
    command: CollectCommand,
    /// Store that the events are written to.
    source: Arc<dyn SnapshotSource>,
    /// Name of the node: the host of the events if the command names none.
    node: String,
}

impl Blocking for Collect {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<RowIter, EngineError> {
        let all = RowBuffer::collect("collect", rows, &context.dataflow)?;
        if self.command.test_mode {
            return Ok(all.into_rows());
        }
        let mut kept = self.new_batch(context);
        for rows in all.iter() {
            self.add(&rows?, &mut kept, context)?;
        }
        self.store_batch(kept)?;
        Ok(all.into_rows())
    }
}

impl Collect {
    fn new_batch(&self, context: &CommandContext) -> EventBatch {
        let meta = Metadata {
            index: self.command.index.as_str().into(),
            host: self.command.host.as_deref().unwrap_or(&self.node).into(),
            source: self.command.source.as_deref().unwrap_or(DEFAULT_SOURCE).into(),
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
                None => self.format_row(at, row, &fields, context),
            };
            if let Some(marker) = &self.command.marker {
                text.push_str(&format!(", {marker}"));
            }
            kept.raw.extend_from_slice(text.as_bytes());
            kept.ends.push(u32_of(kept.raw.len()));
            kept.time.push(at);
            kept.meta.push(0);
            if kept.raw.len() >= BATCH_BYTES {
                self.store_batch(std::mem::replace(kept, self.new_batch(context)))?;
            }
        }
        Ok(())
    }

    /// Event text for a row without `_raw`: JSON, or the time, search information and fields as `name="value"`.
    fn format_row(
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
                Some(time) => format_number(f64_of(time) / f64_of(NS_PER_SEC)),
                None => open.to_owned(),
            };
            let facts = [
                ("info_min_time", seconds(context.range.earliest, "0.000")),
                ("info_max_time", seconds(context.range.latest, "+Infinity")),
                ("info_search_time", seconds(Some(context.now), "")),
            ];
            // Search information that is already in the row, as after `addinfo`, takes precedence.
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

    fn store_batch(&self, batch: EventBatch) -> Result<(), EngineError> {
        if batch.ends.is_empty() {
            return Ok(());
        }
        self.source
            .store_events(batch)
            .map_err(|fault| EngineError::at(fault.with_context("collect"), self.command.index_span))
    }
}

/// The fields of a row as a JSON object, numbers as numbers.
fn json_of(row: usize, fields: &[(&String, rows::ColumnReader)]) -> String {
    let mut object = serde_json::Map::new();
    for (name, reader) in fields {
        let typed = |text: std::borrow::Cow<'_, str>| match parse_canonical_number(&text) {
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
