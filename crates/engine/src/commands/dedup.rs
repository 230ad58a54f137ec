//! `dedup`: keeps the first rows of each combination of values, in input order.

use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::buffer::BooleanBuffer;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::row_groups::{MultivaluePart, NO_GROUP, RowGroups};
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
    groups: RowGroups,
    /// By group: number of rows so far.
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
            groups: RowGroups::new(command.fields.len(), MultivaluePart::Joined),
            seen: Vec::new(),
            last: None,
            account,
        }
    }

    /// For each row, whether it is among the first with its combination.
    fn first_rows(&mut self, readers: &[ColumnReader], rows: usize) -> Vec<bool> {
        let groups = self.groups.numbers(readers, rows);
        let mut kept = Vec::with_capacity(rows);
        for group in groups {
            if *group == NO_GROUP {
                kept.push(self.keep_empty);
                continue;
            }
            let at = *group as usize;
            if at >= self.seen.len() {
                self.seen.resize(at + 1, 0);
            }
            if self.consecutive && self.last != Some(*group) {
                self.seen[at] = 0;
            }
            self.last = Some(*group);
            self.seen[at] = self.seen[at].saturating_add(1);
            kept.push(self.seen[at] <= self.count);
        }
        kept
    }
}

impl RowCommand for Dedup {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let readers: Vec<ColumnReader> = self.fields.iter().map(|field| rows::reader(&rows, &field.text)).collect();
        let kept = self.first_rows(&readers, rows.num_rows());
        self.account.set(self.groups.bytes() + self.seen.capacity() * size_of::<u32>())?;
        let kept = BooleanArray::new(BooleanBuffer::collect_bool(kept.len(), |row| kept[row]), None);
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
