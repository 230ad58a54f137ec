//! `streamstats`: aggregates over the rows seen so far, written to each row.
//!
//! Without a window each group keeps one running fold per aggregate; with a window it keeps the rows of the window and
//! folds them anew at each row, which is right for every function.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_event::TimeNs;
use quarry_spl::ast::StreamStatsCommand;

use super::running::Running;
use super::spans::{length_of, time_ns};
use super::stats::write_key;
use crate::EngineError;
use crate::aggregate::keys::KeyTable;
use crate::aggregate::{AggregatePlan, Argument};
use crate::command::RowCommand;
use crate::dataflow::MemoryAccount;
use crate::expr::CompiledExpr;
use crate::rows::{self, ColumnBuilder, ColumnReader, Value};

/// Rows a window holds at most (limits.conf `[streamstats] max_stream_window`).
const WINDOW_MAX: usize = 10_000;

/// What the command keeps of a row: its time and, per aggregate, its values.
#[derive(Clone, Debug)]
struct Seen {
    time: Option<TimeNs>,
    values: Vec<Vec<String>>,
    group: u32,
}

/// `streamstats`.
pub(crate) struct StreamStats {
    command: StreamStatsCommand,
    plan: Arc<AggregatePlan>,
    reset_before: Option<Arc<CompiledExpr>>,
    reset_after: Option<Arc<CompiledExpr>>,
    groups: KeyTable,
    running: Vec<Vec<Running>>,
    windows: Vec<VecDeque<Seen>>,
    last_group: Option<u32>,
    account: MemoryAccount,
    /// Bytes of the rows in windows, about.
    window_bytes: usize,
    rows_until_check: usize,
}

/// Rows after which the command looks at its size, at least.
const CHECK_ROWS: usize = 65_536;

impl Seen {
    /// Bytes held, about.
    fn bytes(&self) -> usize {
        let text = |text: &String| size_of::<String>() + text.len();
        let values = |values: &Vec<String>| size_of::<Vec<String>>() + values.iter().map(text).sum::<usize>();
        size_of::<Seen>() + self.values.iter().map(values).sum::<usize>()
    }
}

impl StreamStats {
    /// The command at its start.
    pub(crate) fn new(
        command: &StreamStatsCommand,
        plan: Arc<AggregatePlan>,
        reset_before: Option<Arc<CompiledExpr>>,
        reset_after: Option<Arc<CompiledExpr>>,
        account: MemoryAccount,
    ) -> StreamStats {
        let mut command = command.clone();
        command.window = command.window.min(WINDOW_MAX);
        let (groups, running, windows) = (KeyTable::default(), Vec::new(), Vec::new());
        StreamStats {
            command,
            plan,
            reset_before,
            reset_after,
            groups,
            running,
            windows,
            last_group: None,
            account,
            window_bytes: 0,
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
        self.window_bytes = 0;
        self.last_group = None;
    }

    /// Accounts for what is held, now and then.
    fn check(&mut self, rows: usize) -> Result<(), EngineError> {
        self.rows_until_check = self.rows_until_check.saturating_sub(rows);
        if self.rows_until_check > 0 {
            return Ok(());
        }
        self.rows_until_check = CHECK_ROWS.max(self.groups.len() / 4);
        let of_group = size_of::<Vec<Running>>() + self.plan.columns.len() * size_of::<Running>();
        let running: usize = self.running.iter().flatten().map(Running::bytes).sum();
        let windows = self.windows.capacity() * size_of::<VecDeque<Seen>>() + self.window_bytes;
        self.account.set(self.groups.bytes() + self.running.capacity() * of_group + running + windows)
    }

    /// Values of the aggregates for one row.
    fn row(&mut self, seen: Seen) -> Vec<Value<'static>> {
        if self.is_windowed() {
            return self.windowed_row(seen);
        }
        let group = seen.group as usize;
        while self.running.len() <= group {
            self.running.push(self.plan.columns.iter().map(|column| Running::new(&column.function)).collect());
        }
        let running = &mut self.running[group];
        let before: Option<Vec<Value<'static>>> = (!self.command.current).then(|| values_so_far(&self.plan, running));
        add(&self.plan, running, &seen);
        before.unwrap_or_else(|| values_so_far(&self.plan, running))
    }

    fn windowed_row(&mut self, seen: Seen) -> Vec<Value<'static>> {
        let group = seen.group;
        // One window over all groups counts rows of any group; otherwise each group has its own.
        let at = if self.command.global { 0 } else { group as usize };
        while self.windows.len() <= at {
            self.windows.push(VecDeque::new());
        }
        let (size, current) = (self.command.window, self.command.current);
        let reach = self.command.time_window.as_ref().map(length_of);
        let time = seen.time;
        let window = &mut self.windows[at];
        let held = &mut self.window_bytes;
        *held += seen.bytes();
        let mut leave_room = |window: &mut VecDeque<Seen>| {
            let mut drop_first = |window: &mut VecDeque<Seen>| {
                *held = held.saturating_sub(window.pop_front().map_or(0, |seen| seen.bytes()));
            };
            while size > 0 && window.len() > size {
                drop_first(window);
            }
            let too_old = |old: &Seen| match (reach, old.time, time) {
                (Some(reach), Some(old), Some(time)) => (old - time).abs() >= reach,
                _ => false,
            };
            while window.front().is_some_and(too_old) {
                drop_first(window);
            }
            while window.len() > WINDOW_MAX {
                drop_first(window);
            }
        };
        let fold = |window: &VecDeque<Seen>, plan: &AggregatePlan| {
            let mut running: Vec<Running> = plan.columns.iter().map(|column| Running::new(&column.function)).collect();
            for row in window.iter().filter(|row| row.group == group) {
                add(plan, &mut running, row);
            }
            values_so_far(plan, &mut running)
        };
        if current {
            window.push_back(seen);
            leave_room(window);
            return fold(window, &self.plan);
        }
        leave_room(window);
        let values = fold(window, &self.plan);
        window.push_back(seen);
        values
    }
}

/// Takes a row into the aggregates of its group.
fn add(plan: &AggregatePlan, running: &mut [Running], seen: &Seen) {
    for ((running, column), values) in running.iter_mut().zip(&plan.columns).zip(&seen.values) {
        running.add(&column.function, values, seen.time);
    }
}

/// Values of the aggregates of a group.
fn values_so_far(plan: &AggregatePlan, running: &mut [Running]) -> Vec<Value<'static>> {
    running.iter_mut().zip(&plan.columns).map(|(running, column)| running.value(&column.function)).collect()
}

impl RowCommand for StreamStats {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let by: Vec<ColumnReader> = self.command.by.iter().map(|field| rows::reader(&rows, &field.text)).collect();
        let times = rows::reader(&rows, "_time");
        let arguments = arguments(&self.plan, &rows)?;
        let before = self.reset_before.as_ref().map(|expr| expr.matches(&rows)).transpose()?;
        let after = self.reset_after.as_ref().map(|expr| expr.matches(&rows)).transpose()?;
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
            let results = self.row(Seen { time: time_ns(&times, row), values, group });
            columns.iter_mut().zip(results).for_each(|(column, value)| column.push(value));
            if after.as_ref().is_some_and(|holds| holds.value(row)) {
                self.reset();
            }
        }
        self.check(rows.num_rows())?;
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

/// The row's values; a row that is only counted has one, a false condition none.
fn values_of(argument: Option<&ColumnReader>, row: usize) -> Vec<String> {
    match argument {
        None => vec![String::new()],
        Some(reader) => match reader.value(row) {
            Value::Bool(false) => Vec::new(),
            _ => reader.values(row).map(std::borrow::Cow::into_owned).collect(),
        },
    }
}
