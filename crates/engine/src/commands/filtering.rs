//! Commands that drop rows: where, regex, head, dedup.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::record_batch::RecordBatch;
use quarry_spl::ast::{FieldPattern, HeadCommand};

use crate::EngineError;
use crate::aggregate::keys::{KeyTable, add_key_part};
use crate::command::RowCommand;
use crate::dataflow::MemoryAccount;
use crate::expr::CompiledExpr;
use crate::pattern::Regex;
use crate::rows::{self, ColumnReader, DistinctMemo, Numbers};

/// Rows `head` keeps when nothing is said.
const HEAD_ROWS: usize = 10;

/// `where`.
pub(crate) struct Where(pub Arc<CompiledExpr>);

impl RowCommand for Where {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        rows::filter(&rows, &self.0.matches(&rows)?)
    }
}

/// `regex`. A missing field matches nothing, so `!=` keeps it.
#[derive(Clone)]
pub(crate) struct RegexFilter {
    /// Field tested.
    pub field: String,
    /// Pattern.
    pub regex: Regex,
    /// `!=`.
    pub negated: bool,
    /// Answers by value.
    pub memo: Arc<DistinctMemo>,
}

impl RowCommand for RegexFilter {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let column = rows::column_or_null(&rows, &self.field);
        let by_value =
            self.memo.run(&column, Numbers::ByValue, |values| Ok(Some(vec![Arc::new(self.kept(values))])))?;
        let kept = by_value.and_then(|kept| Some(kept.first()?.as_boolean_opt()?.clone()));
        rows::filter(&rows, &kept.unwrap_or_else(|| self.kept(&column)))
    }
}

impl RegexFilter {
    /// Which values stay.
    fn kept(&self, column: &ArrayRef) -> BooleanArray {
        let reader = ColumnReader::new(column);
        let matches = |row| reader.values(row).any(|value| self.regex.is_match(&value));
        (0..column.len()).map(|row| Some(matches(row) != self.negated)).collect()
    }
}

/// `head`.
pub(crate) struct Head {
    left: Option<usize>,
    condition: Option<Arc<CompiledExpr>>,
    null_is_true: bool,
    keep_last: bool,
    done: bool,
}

impl Head {
    /// The command with its condition compiled.
    pub(crate) fn new(command: &HeadCommand, condition: Option<Arc<CompiledExpr>>) -> Head {
        let left = command.limit.or(condition.is_none().then_some(HEAD_ROWS));
        let (null_is_true, keep_last) = (command.null_is_true, command.keep_last);
        Head { left, condition, null_is_true, keep_last, done: left == Some(0) }
    }

    /// Rows before the first one where the condition fails.
    fn while_true(&mut self, rows: &RecordBatch) -> Result<usize, EngineError> {
        let Some(condition) = &self.condition else { return Ok(rows.num_rows()) };
        let holds = condition.evaluate(rows)?;
        let holds = ColumnReader::new(&holds);
        for row in 0..rows.num_rows() {
            let passes = match &holds {
                ColumnReader::Bool(values) if values.is_valid(row) => values.value(row),
                _ => self.null_is_true,
            };
            if !passes {
                self.done = true;
                return Ok(row + usize::from(self.keep_last));
            }
        }
        Ok(rows.num_rows())
    }
}

impl RowCommand for Head {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        if self.done {
            return Ok(rows.slice(0, 0));
        }
        let mut count = self.while_true(&rows)?;
        if let Some(left) = &mut self.left {
            count = count.min(*left);
            *left -= count;
            self.done |= *left == 0;
        }
        Ok(rows.slice(0, count))
    }

    fn is_done(&self) -> bool {
        self.done
    }
}

/// `dedup`: the first rows of each combination, in the order they come.
pub(crate) struct Dedup {
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
    /// The command at its start.
    pub(crate) fn new(command: &quarry_spl::ast::DedupCommand, account: MemoryAccount) -> Dedup {
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

    /// Whether the row is among the first of its combination.
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
