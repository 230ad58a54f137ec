//! `streamstats`: adds running aggregates to each row.
//!
//! Without a window, each group has one running fold per aggregate. With a window, the states of each group are
//! updated as rows enter and leave ([`window`]).

mod row_values;
mod window;

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::keys::KeyTable;
use quarry_eval::aggregate::running_state::Running;
use quarry_eval::aggregate::{AggregateColumn, AggregatePlan, Argument, has_wildcards};
use quarry_eval::command::RowCommand;
use quarry_eval::context::{CommandContext, Stop};
use quarry_eval::dataflow::MemoryAccount;
use quarry_eval::expr::CompiledExpr;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, REPEATED_VALUES_MAX, Value};
use quarry_eval::spans::{length_of, time_ns};
use quarry_event::TimeNs;
use quarry_spl::ast::StreamStatsCommand;

use self::row_values::RowValues;
use self::window::{Sliding, Window, WindowRow};
use super::Execute;
use super::stats::write_key;
use crate::lowering::{Lowering, Step, names, ordered};
use crate::new_columns::NewColumns;

/// Maximum number of rows in a window.
const WINDOW_MAX: usize = 1_000_000;

impl Execute for StreamStatsCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let refused = |message| Err(EngineError::Invalid { message, span: Some(lowering.span) });
        if has_wildcards(&self.aggregates) {
            return refused("streamstats cannot take wildcards in its functions; name the fields".to_owned());
        }
        if self.window > WINDOW_MAX {
            let window = self.window;
            return refused(format!("streamstats: window={window} is beyond {WINDOW_MAX} rows; give fewer"));
        }
        let plan = Arc::new(AggregatePlan::new(&self.aggregates, names(&self.by), &lowering.expressions())?);
        let before = self.reset_before.as_ref().map(|expr| lowering.compile(expr)).transpose()?;
        let after = self.reset_after.as_ref().map(|expr| lowering.compile(expr)).transpose()?;
        lowering.warn_ignored_options(&[(self.all_num, "allnum=")]);
        let (command, context) = (self.clone(), lowering.environment.context().clone());
        Ok(vec![ordered(move || {
            StreamStats::new(&command, Arc::clone(&plan), before.clone(), after.clone(), &context)
        })])
    }
}

/// The folds and windows of the groups.
struct StreamStats {
    command: StreamStatsCommand,
    plan: Arc<AggregatePlan>,
    reset_before: Option<Arc<CompiledExpr>>,
    reset_after: Option<Arc<CompiledExpr>>,
    groups: KeyTable,
    running: Vec<Vec<Running>>,
    windows: Vec<Window>,
    /// Window states of the groups.
    sliding: Vec<Vec<Sliding>>,
    last_group: Option<u32>,
    account: MemoryAccount,
    stop: Arc<Stop>,
    /// Approximate bytes of the rows in windows.
    window_bytes: usize,
    /// `window_bytes` at the last memory accounting.
    checked_bytes: usize,
    rows_until_check: usize,
}

/// Number of rows after which memory is accounted for again; more if there are many groups.
const CHECK_ROWS: usize = 65_536;
/// Growth of windows in bytes after which memory is accounted for earlier.
const UNACCOUNTED_BYTES: usize = 4 << 20;

impl StreamStats {
    /// Initial state of the command.
    fn new(
        command: &StreamStatsCommand,
        plan: Arc<AggregatePlan>,
        reset_before: Option<Arc<CompiledExpr>>,
        reset_after: Option<Arc<CompiledExpr>>,
        context: &CommandContext,
    ) -> StreamStats {
        StreamStats {
            command: command.clone(),
            plan,
            reset_before,
            reset_after,
            groups: KeyTable::default(),
            running: Vec::new(),
            windows: Vec::new(),
            sliding: Vec::new(),
            last_group: None,
            account: context.dataflow.account("streamstats"),
            stop: Arc::clone(&context.stop),
            window_bytes: 0,
            checked_bytes: 0,
            rows_until_check: 0,
        }
    }

    fn is_windowed(&self) -> bool {
        self.command.window > 0 || self.command.time_window.is_some()
    }

    fn reset(&mut self) {
        self.groups = KeyTable::default();
        self.running.clear();
        self.windows.clear();
        self.sliding.clear();
        self.window_bytes = 0;
        self.last_group = None;
    }

    /// Periodically accounts for memory.
    fn account_memory(&mut self, rows: usize) -> Result<(), EngineError> {
        self.rows_until_check = self.rows_until_check.saturating_sub(rows);
        if self.rows_until_check > 0 && self.window_bytes < self.checked_bytes + UNACCOUNTED_BYTES {
            return Ok(());
        }
        self.checked_bytes = self.window_bytes;
        self.rows_until_check = CHECK_ROWS.max(self.groups.len() / 4);
        let group_bytes = size_of::<Vec<Running>>() + self.plan.columns.len() * size_of::<Running>();
        let running: usize = self.running.iter().flatten().map(Running::bytes).sum();
        let windows = self.windows.capacity() * size_of::<Window>() + self.window_bytes;
        let sliding_bytes = size_of::<Vec<Sliding>>() + self.plan.columns.len() * size_of::<Sliding>();
        let sliding = self.sliding.iter().flatten().map(Sliding::bytes).sum::<usize>();
        let running = self.running.capacity() * group_bytes + running;
        self.account.set(self.groups.bytes() + running + windows + self.sliding.capacity() * sliding_bytes + sliding)
    }

    /// Adds a row, and appends the values of its aggregates to `results`. A window takes the row's values.
    fn row(&mut self, seen: &mut WindowRow, results: &mut Vec<Value<'static>>) -> Result<(), EngineError> {
        if self.is_windowed() {
            return self.windowed_row(WindowRow { values: std::mem::take(&mut seen.values), ..*seen }, results);
        }
        let group = seen.group as usize;
        while self.running.len() <= group {
            self.running.push(self.plan.columns.iter().map(|column| Running::new(column.body)).collect());
        }
        let running = &mut self.running[group];
        if self.command.current {
            add(&self.plan, running, seen);
        }
        let states = running.iter_mut().zip(&self.plan.columns);
        results.extend(states.map(|(running, column)| running.value(column.body)));
        if !self.command.current {
            add(&self.plan, running, seen);
        }
        Ok(())
    }

    fn windowed_row(&mut self, seen: WindowRow, results: &mut Vec<Value<'static>>) -> Result<(), EngineError> {
        let (group, time) = (seen.group, seen.time);
        // A single window over all groups counts rows of any group; otherwise each group has its own.
        let at = if self.command.global { 0 } else { group as usize };
        while self.windows.len() <= at {
            self.windows.push(Window::default());
        }
        while self.sliding.len() <= group as usize {
            self.sliding.push(self.plan.columns.iter().map(|column| Sliding::new(column.body)).collect());
        }
        if self.command.current {
            self.add_to_window(at, seen);
            self.evict(at, time)?;
            self.append_values_of_window(at, group, results);
            return Ok(());
        }
        self.evict(at, time)?;
        self.append_values_of_window(at, group, results);
        self.add_to_window(at, seen);
        Ok(())
    }

    fn add_to_window(&mut self, at: usize, seen: WindowRow) {
        self.window_bytes += seen.bytes();
        let (window, group) = (&mut self.windows[at], seen.group as usize);
        let number = window.push(seen);
        for (column, (sliding, aggregate)) in self.sliding[group].iter_mut().zip(&self.plan.columns).enumerate() {
            sliding.push(aggregate.body, window, number, column);
        }
    }

    /// Drops rows that have left the window of a row with this time.
    fn evict(&mut self, at: usize, time: Option<TimeNs>) -> Result<(), EngineError> {
        let size = self.command.window;
        let reach = self.command.time_window.as_ref().map(length_of);
        let too_old = |old: &WindowRow| match (reach, old.time, time) {
            (Some(reach), Some(old), Some(time)) => (old - time).abs() >= reach,
            _ => false,
        };
        while size > 0 && self.windows[at].len() > size || self.windows[at].front().is_some_and(too_old) {
            let Some((number, seen)) = self.windows[at].pop() else { break };
            self.window_bytes = self.window_bytes.saturating_sub(seen.bytes());
            let states = self.sliding[seen.group as usize].iter_mut().zip(&self.plan.columns);
            for ((sliding, aggregate), values) in states.zip(&seen.values) {
                sliding.pop(aggregate.body, number, values);
            }
        }
        if self.windows[at].len() > WINDOW_MAX {
            let message = format!("streamstats: a window holds more than {WINDOW_MAX} rows; make time_window= shorter");
            return Err(EngineError::invalid(message));
        }
        Ok(())
    }

    fn append_values_of_window(&self, at: usize, group: u32, results: &mut Vec<Value<'static>>) {
        let states = self.sliding[group as usize].iter().zip(&self.plan.columns).enumerate();
        let value = |(column, (sliding, aggregate)): (usize, (&Sliding, &AggregateColumn))| {
            sliding.value(aggregate.body, &self.windows[at], column, group)
        };
        results.extend(states.map(value));
    }
}

/// Adds a row to the aggregates of its group.
fn add(plan: &AggregatePlan, running: &mut [Running], seen: &WindowRow) {
    for ((running, column), values) in running.iter_mut().zip(&plan.columns).zip(&seen.values) {
        values.add_to(running, column.body, seen.time);
    }
}

impl StreamStats {
    /// Whether the condition of `reset_after` reads results of the command.
    fn reset_after_reads_results(&self) -> bool {
        let names = self.reset_after.as_ref().map(|expr| expr.field_names());
        names.is_some_and(|names| {
            names.is_none_or(|names| names.iter().any(|name| self.plan.columns.iter().any(|made| made.name == *name)))
        })
    }

    /// Evaluates the condition of `reset_after` on a row with its results.
    fn resets_after(&self, rows: &RecordBatch, row: usize, results: &[Value<'static>]) -> Result<bool, EngineError> {
        let Some(expr) = &self.reset_after else { return Ok(false) };
        let mut one = rows.slice(row, 1);
        for (aggregate, value) in self.plan.columns.iter().zip(results) {
            let mut column = ColumnBuilder::new(1);
            column.push(value.clone());
            one = rows::with_column(&one, &aggregate.name, column.finish())?;
        }
        Ok(expr.matches(&one)?.value(0))
    }
}

/// Deducts the values of these multivalues from `left`, the number that the batch may still get: `values(x)` and
/// `list(x)` repeat all their values in every row.
fn count_repeated(results: &[Value<'_>], left: &mut usize) -> Result<(), EngineError> {
    let values = results.iter().map(|value| if let Value::Multi(values) = value { values.len() } else { 0 });
    *left = left.checked_sub(values.sum()).ok_or_else(|| EngineError::Limit {
        what:
            "streamstats: a function such as values() repeats a long list in every row; use eventstats, stats or dc()"
                .to_owned(),
        limit: "values of repeated multivalues",
        value: REPEATED_VALUES_MAX as u64,
    })?;
    Ok(())
}

impl RowCommand for StreamStats {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let by: Vec<ColumnReader> = self.command.by.iter().map(|field| rows::reader(&rows, &field.text)).collect();
        let times = rows::reader(&rows, "_time");
        let arguments = arguments(&self.plan, &rows)?;
        let before = self.reset_before.as_ref().map(|expr| expr.matches(&rows)).transpose()?;
        let after = match self.reset_after_reads_results() {
            true => None,
            false => self.reset_after.as_ref().map(|expr| expr.matches(&rows)).transpose()?,
        };
        let mut columns: Vec<ColumnBuilder> =
            self.plan.columns.iter().map(|_| ColumnBuilder::new(rows.num_rows())).collect();
        let (mut key, mut results) = (Vec::new(), Vec::new());
        let mut seen = WindowRow { time: None, values: Vec::new(), group: 0 };
        let mut values_left = REPEATED_VALUES_MAX;
        for row in 0..rows.num_rows() {
            // A median is computed from all rows of its window.
            self.stop.check_cancelled()?;
            if before.as_ref().is_some_and(|holds| holds.value(row)) {
                self.reset();
            }
            // Without BY fields, all rows have the empty key, which is known after the first row.
            let is_known = by.is_empty() && !self.groups.is_empty();
            if !is_known && !write_key(&by, row, &mut key) {
                columns.iter_mut().for_each(ColumnBuilder::push_null);
                continue;
            }
            let mut group = if is_known { 0 } else { self.groups.intern(&key) };
            if self.command.reset_on_change && self.last_group.is_some_and(|last| last != group) {
                self.reset();
                group = self.groups.intern(&key);
            }
            self.last_group = Some(group);
            seen.values.clear();
            let columns_of_plan = self.plan.columns.iter().zip(&arguments);
            seen.values
                .extend(columns_of_plan.map(|(column, argument)| RowValues::read(column.body, argument.as_ref(), row)));
            (seen.time, seen.group) = (time_ns(&times, row), group);
            results.clear();
            self.row(&mut seen, &mut results)?;
            let resets = match &after {
                Some(holds) => holds.value(row),
                None => self.resets_after(&rows, row, &results)?,
            };
            count_repeated(&results, &mut values_left)?;
            columns.iter_mut().zip(results.drain(..)).for_each(|(column, value)| column.push(value));
            if resets {
                self.reset();
            }
        }
        self.account_memory(rows.num_rows())?;
        let mut result = NewColumns::of(rows);
        for (aggregate, column) in self.plan.columns.iter().zip(columns) {
            result.set(&aggregate.name, column.finish());
        }
        result.finish()
    }
}

fn arguments(plan: &AggregatePlan, rows: &RecordBatch) -> Result<Vec<Option<ColumnReader>>, EngineError> {
    let argument = |argument: &Argument| {
        Ok(match argument {
            Argument::Rows => None,
            Argument::Field(name) => Some(rows::reader(rows, name)),
            Argument::Expr(expr) => Some(ColumnReader::new(&expr.evaluate(rows)?)),
        })
    };
    plan.columns.iter().map(|column| argument(&column.argument)).collect()
}
