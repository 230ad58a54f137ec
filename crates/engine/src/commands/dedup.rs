//! `dedup`: the first rows of each combination of values, in input order.

use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::keys::{KeyTable, add_key_part};
use quarry_eval::command::RowCommand;
use quarry_eval::dataflow::MemoryAccount;
use quarry_eval::rows::{self, ColumnReader};
use quarry_spl::ast::{DedupCommand, FieldPattern, SortCommand};

use super::Execute;
use super::sort::Sort;
use crate::lowering::{Lowering, Step, blocking, ordered};

impl Execute for DedupCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let mut steps = Vec::new();
        if !self.sort_by.is_empty() {
            steps.push(blocking(Sort(SortCommand {
                limit: 0,
                has_limit: true,
                keys: self.sort_by.clone(),
                reverse: false,
            })));
        }
        let (command, dataflow) = (self.clone(), Arc::clone(&lowering.environment.context().dataflow));
        steps.push(ordered(move || Dedup::new(&command, dataflow.account("dedup"))));
        Ok(steps)
    }
}

/// The combinations seen so far.
struct Dedup {
    fields: Vec<FieldPattern>,
    count: u32,
    keep_empty: bool,
    keep_events: bool,
    consecutive: bool,
    keys: KeyTable,
    seen: Vec<u32>,
    last: Option<u32>,
    account: MemoryAccount,
}

impl Dedup {
    /// Initial state of the command.
    fn new(command: &DedupCommand, account: MemoryAccount) -> Dedup {
        Dedup {
            fields: command.fields.clone(),
            count: u32::try_from(command.count).unwrap_or(u32::MAX),
            keep_empty: command.keep_empty,
            keep_events: command.keep_events,
            consecutive: command.consecutive,
            keys: KeyTable::default(),
            seen: Vec::new(),
            last: None,
            account,
        }
    }

    /// Whether the row is among the first with its combination.
    fn is_first(&mut self, readers: &[ColumnReader], row: usize, key: &mut Vec<u8>, scratch: &mut String) -> bool {
        key.clear();
        for reader in readers {
            match reader.text(row, scratch) {
                Some(text) => add_key_part(key, text, readers.len()),
                None => return self.keep_empty,
            }
        }
        let at = self.keys.intern(key);
        if at as usize >= self.seen.len() {
            self.seen.push(0);
        }
        if self.consecutive && self.last != Some(at) {
            self.seen[at as usize] = 0;
        }
        self.last = Some(at);
        let seen = &mut self.seen[at as usize];
        *seen = seen.saturating_add(1);
        *seen <= self.count
    }
}

impl RowCommand for Dedup {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let readers: Vec<ColumnReader> = self.fields.iter().map(|field| rows::reader(&rows, &field.text)).collect();
        let (mut key, mut scratch) = (Vec::new(), String::new());
        let kept: Vec<bool> =
            (0..rows.num_rows()).map(|row| self.is_first(&readers, row, &mut key, &mut scratch)).collect();
        self.account.set(self.keys.bytes() + self.seen.capacity() * size_of::<u32>())?;
        let kept = BooleanArray::from(kept);
        if !self.keep_events {
            return rows::filter(&rows, &kept);
        }
        let mut rows = rows;
        let dropped = arrow::compute::not(&kept)?;
        for field in &self.fields {
            if let Some(column) = rows::column(&rows, &field.text) {
                let blanked = arrow::compute::nullif(column, &dropped)?;
                rows = rows::with_column(&rows, &field.text, blanked)?;
            }
        }
        Ok(rows)
    }
}
