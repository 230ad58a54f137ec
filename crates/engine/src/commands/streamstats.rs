//! `streamstats`: adds running aggregates to each row.
//!
//! Without a window, each group has one running fold per aggregate. With a window, the states of each group are
//! updated as rows enter and leave ([`window`]).

mod window;

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::keys::KeyTable;
use quarry_eval::aggregate::running_state::Running;
use quarry_eval::aggregate::{AggregateColumn, AggregatePlan, Argument, has_wildcards};
use quarry_eval::command::RowCommand;
use quarry_eval::dataflow::MemoryAccount;
use quarry_eval::expr::CompiledExpr;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, Value};
use quarry_eval::spans::{length_of, time_ns};
use quarry_event::TimeNs;
use quarry_spl::ast::StreamStatsCommand;

use self::window::{Sliding, Window, WindowRow};
use super::Execute;
use super::stats::write_key;
use crate::lowering::{Lowering, Step, names, ordered};

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
        let (command, dataflow) = (self.clone(), Arc::clone(&lowering.environment.context().dataflow));
        Ok(vec![ordered(move || {
            let account = dataflow.account("streamstats");
            StreamStats::new(&command, Arc::clone(&plan), before.clone(), after.clone(), account)
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
        account: MemoryAccount,
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
            account,
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

    /// Values of the aggregates for one row.
    fn row(&mut self, seen: WindowRow) -> Result<Vec<Value<'static>>, EngineError> {
        if self.is_windowed() {
            return self.windowed_row(seen);
        }
        let group = seen.group as usize;
        while self.running.len() <= group {
            self.running.push(self.plan.columns.iter().map(|column| Running::new(column.body)).collect());
        }
        let running = &mut self.running[group];
        let before: Option<Vec<Value<'static>>> = (!self.command.current).then(|| values_so_far(&self.plan, running));
        add(&self.plan, running, &seen);
        Ok(before.unwrap_or_else(|| values_so_far(&self.plan, running)))
    }

    fn windowed_row(&mut self, seen: WindowRow) -> Result<Vec<Value<'static>>, EngineError> {
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
            return Ok(self.values_of_window(at, group));
        }
        self.evict(at, time)?;
        let values = self.values_of_window(at, group);
        self.add_to_window(at, seen);
        Ok(values)
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

    fn values_of_window(&self, at: usize, group: u32) -> Vec<Value<'static>> {
        let states = self.sliding[group as usize].iter().zip(&self.plan.columns).enumerate();
        let value = |(column, (sliding, aggregate)): (usize, (&Sliding, &AggregateColumn))| {
            sliding.value(aggregate.body, &self.windows[at], column, group)
        };
        states.map(value).collect()
    }
}

/// Adds a row to the aggregates of its group.
fn add(plan: &AggregatePlan, running: &mut [Running], seen: &WindowRow) {
    for ((running, column), values) in running.iter_mut().zip(&plan.columns).zip(&seen.values) {
        running.add(column.body, values, seen.time);
    }
}

/// Current values of a group's aggregates.
fn values_so_far(plan: &AggregatePlan, running: &mut [Running]) -> Vec<Value<'static>> {
    running.iter_mut().zip(&plan.columns).map(|(running, column)| running.value(column.body)).collect()
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
        let mut key = Vec::new();
        for row in 0..rows.num_rows() {
            if before.as_ref().is_some_and(|holds| holds.value(row)) {
                self.reset();
            }
            if !write_key(&by, row, &mut key) {
                columns.iter_mut().for_each(ColumnBuilder::push_null);
                continue;
            }
            let mut group = self.groups.intern(&key);
            if self.command.reset_on_change && self.last_group.is_some_and(|last| last != group) {
                self.reset();
                group = self.groups.intern(&key);
            }
            self.last_group = Some(group);
            let values = arguments.iter().map(|argument| values_of(argument.as_ref(), row)).collect();
            let results = self.row(WindowRow { time: time_ns(&times, row), values, group })?;
            let resets = match &after {
                Some(holds) => holds.value(row),
                None => self.resets_after(&rows, row, &results)?,
            };
            columns.iter_mut().zip(results).for_each(|(column, value)| column.push(value));
            if resets {
                self.reset();
            }
        }
        self.account_memory(rows.num_rows())?;
        let mut result = rows.clone();
        for (aggregate, column) in self.plan.columns.iter().zip(columns) {
            result = rows::with_column(&result, &aggregate.name, column.finish())?;
        }
        Ok(result)
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

/// Values of the argument in a row: one empty text without an argument, none for a false condition.
fn values_of(argument: Option<&ColumnReader>, row: usize) -> Vec<String> {
    match argument {
        None => vec![String::new()],
        Some(reader) => match reader.value(row) {
            Value::Bool(false) => Vec::new(),
            _ => reader.values(row).map(std::borrow::Cow::into_owned).collect(),
        },
    }
}
