//! `streamstats`: adds running aggregates to each row.
//!
//! Without a window, each group has one running fold per aggregate. With a window, the states of each group are
//! updated as rows enter and leave ([`window`]); windows of integers have an implementation of their own
//! ([`integer_windows`]).

mod integer_windows;
mod row_values;
mod stacks;
mod window;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::row_groups::{MultivaluePart, NO_GROUP, RowGroups};
use quarry_eval::aggregate::running_state::RunningState;
use quarry_eval::aggregate::{AggregateColumn, AggregatePlan, Argument, FunctionBody, has_wildcards};
use quarry_eval::command::RowCommand;
use quarry_eval::context::{CommandContext, Stop};
use quarry_eval::dataflow::MemoryAccount;
use quarry_eval::expr::CompiledExpr;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader, REPEATED_VALUES_MAX, Value};
use quarry_eval::spans::{length_of, time_ns};
use quarry_event::TimeNs;
use quarry_spl::ast::StreamStatsCommand;

use self::integer_windows::IntegerWindows;
use self::row_values::RowValues;
use self::window::{Sliding, Window, WindowRow};
use super::Execute;
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
            return refused(format!("streamstats: window={window} is more than {WINDOW_MAX} rows; make it smaller"));
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
    groups: RowGroups,
    /// States of all groups: for each group, one state per aggregate.
    running: Vec<RunningState>,
    /// Windows of counts and small integers; used instead of `windows` and `sliding` until another value occurs.
    integers: Option<IntegerWindows>,
    windows: Vec<Window>,
    /// Window states of the groups.
    sliding: Vec<Vec<Sliding>>,
    /// Values of the last row that left a window.
    left: Vec<RowValues>,
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
        let may_reset = command.reset_on_change || reset_before.is_some() || reset_after.is_some();
        let integers = match command.window > 0 && command.time_window.is_none() && !may_reset {
            true => IntegerWindows::new(&plan.columns, command.window, command.current),
            false => None,
        };
        StreamStats {
            command: command.clone(),
            plan,
            reset_before,
            reset_after,
            groups: RowGroups::new(command.by.len(), MultivaluePart::First),
            running: Vec::new(),
            integers,
            windows: Vec::new(),
            sliding: Vec::new(),
            left: Vec::new(),
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

    /// Whether the states of all groups may be reset within a batch.
    fn may_reset(&self) -> bool {
        self.command.reset_on_change || self.reset_before.is_some() || self.reset_after.is_some()
    }

    fn reset(&mut self) {
        self.groups = RowGroups::new(self.command.by.len(), MultivaluePart::First);
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
        let running: usize = self.running.iter().map(RunningState::bytes).sum();
        let windows = self.windows.capacity() * size_of::<Window>() + self.window_bytes;
        let sliding_bytes = size_of::<Vec<Sliding>>() + self.plan.columns.len() * size_of::<Sliding>();
        let sliding = self.sliding.iter().flatten().map(Sliding::bytes).sum::<usize>();
        let running = self.running.capacity() * size_of::<RunningState>() + running;
        let integers = self.integers.as_ref().map_or(0, IntegerWindows::state_bytes);
        let sliding = self.sliding.capacity() * sliding_bytes + sliding;
        self.account.set(self.groups.bytes() + running + windows + integers + sliding)
    }

    /// Prepares the states of this many groups.
    fn prepare_groups(&mut self, groups: usize) {
        let columns = &self.plan.columns;
        if self.integers.is_some() {
            return;
        }
        if self.is_windowed() {
            let new = || columns.iter().map(|column| Sliding::new(column.body)).collect();
            self.sliding.resize_with(groups.max(self.sliding.len()), new);
            return;
        }
        while self.running.len() < groups * columns.len() {
            self.running.extend(columns.iter().map(|column| RunningState::new(column.body)));
        }
    }

    /// Adds a row; `values` has the argument values of each aggregate. Appends the results of the aggregates to
    /// `results`.
    fn row(
        &mut self,
        seen: WindowRow,
        values: &mut Vec<RowValues>,
        results: &mut Vec<Value<'static>>,
    ) -> Result<(), EngineError> {
        self.prepare_groups(seen.group as usize + 1);
        if self.is_windowed() {
            return self.windowed_row(seen, values, results);
        }
        let count = self.plan.columns.len();
        let states = &mut self.running[seen.group as usize * count..][..count];
        for ((running, column), values) in states.iter_mut().zip(&self.plan.columns).zip(values.iter()) {
            results.push(value_with_row(running, column.body, values, seen.time, self.command.current));
        }
        Ok(())
    }

    fn windowed_row(
        &mut self,
        seen: WindowRow,
        values: &mut Vec<RowValues>,
        results: &mut Vec<Value<'static>>,
    ) -> Result<(), EngineError> {
        // With `global`, a single window contains the rows of all groups; otherwise, each group has its own window.
        let at = if self.command.global { 0 } else { seen.group as usize };
        while self.windows.len() <= at {
            self.windows.push(Window::new(self.plan.columns.len()));
        }
        if self.command.current {
            self.add_to_window(at, seen, values);
            self.evict(at, seen.time)?;
            self.append_values_of_window(at, seen.group, results);
            return Ok(());
        }
        self.evict(at, seen.time)?;
        self.append_values_of_window(at, seen.group, results);
        self.add_to_window(at, seen, values);
        Ok(())
    }

    fn add_to_window(&mut self, at: usize, seen: WindowRow, values: &mut Vec<RowValues>) {
        self.window_bytes += WindowRow::bytes(values);
        let window = &mut self.windows[at];
        let number = window.push(seen, values.drain(..));
        let states = self.sliding[seen.group as usize].iter_mut();
        for (column, (sliding, aggregate)) in states.zip(&self.plan.columns).enumerate() {
            sliding.push(aggregate.body, window, number, column);
        }
    }

    /// Drops the rows that are outside the window ending at the current row, whose time is `time`.
    fn evict(&mut self, at: usize, time: Option<TimeNs>) -> Result<(), EngineError> {
        let size = self.command.window;
        let reach = self.command.time_window.as_ref().map(length_of);
        let too_old = |old: &WindowRow| match (reach, old.time, time) {
            (Some(reach), Some(old), Some(time)) => (old - time).abs() >= reach,
            _ => false,
        };
        while size > 0 && self.windows[at].len() > size || self.windows[at].front().is_some_and(too_old) {
            let Some((number, seen)) = self.windows[at].pop(&mut self.left) else { break };
            self.window_bytes = self.window_bytes.saturating_sub(WindowRow::bytes(&self.left));
            let states = self.sliding[seen.group as usize].iter_mut().zip(&self.plan.columns);
            for ((sliding, aggregate), values) in states.zip(&self.left) {
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
            sliding.value(aggregate.body, &self.windows[at], column)
        };
        results.extend(states.map(value));
    }
}

/// Adds a row to a state. Returns the value that includes the row if `current`, otherwise the value without it.
#[inline]
fn value_with_row(
    running: &mut RunningState,
    body: FunctionBody,
    values: &RowValues,
    time: Option<TimeNs>,
    current: bool,
) -> Value<'static> {
    if current {
        values.add_to(running, body, time);
        return running.value(body);
    }
    let value = running.value(body);
    values.add_to(running, body, time);
    value
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

/// Subtracts the number of values in these multivalues from `left`, the number of values that the batch may still
/// receive. The limit exists because `values(x)` and `list(x)` repeat all their values in every row.
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

/// The columns that the command reads from a batch.
struct Inputs {
    by: Vec<ColumnReader>,
    times: ColumnReader,
    arguments: Vec<Option<ColumnReader>>,
}

impl Inputs {
    fn time(&self, row: usize) -> Option<TimeNs> {
        time_ns(&self.times, row)
    }
}

impl StreamStats {
    /// The results for the first rows of a batch, at least one, if no state is reset and there are no windows:
    /// aggregate by aggregate.
    fn running_columns(&mut self, inputs: &Inputs, groups: &[u32]) -> Result<Vec<ArrayRef>, EngineError> {
        let (count, current) = (self.plan.columns.len(), self.command.current);
        let (work, mut end) = (self.stop.begin_work(), groups.len());
        let (mut built, mut values_left) = (Vec::with_capacity(count), REPEATED_VALUES_MAX);
        for (at, (column, argument)) in self.plan.columns.iter().zip(&inputs.arguments).enumerate() {
            self.stop.check_cancelled()?;
            if matches!(column.body, FunctionBody::Count) {
                let states = self.running.get_mut(at..).unwrap_or_default();
                built.push(running_counts(states, count, argument.as_ref(), &groups[..end], current));
                continue;
            }
            let mut builder = ColumnBuilder::new(end);
            for (row, group) in groups[..end].iter().enumerate() {
                self.stop.check_cancelled()?;
                if row > 0 && end == groups.len() && self.stop.should_end_rows(work) {
                    end = row;
                    break;
                }
                if *group == NO_GROUP {
                    builder.push_null();
                    continue;
                }
                let running = &mut self.running[*group as usize * count + at];
                let values = RowValues::read(column.body, argument.as_ref(), row);
                let value = value_with_row(running, column.body, &values, inputs.time(row), current);
                count_repeated(std::slice::from_ref(&value), &mut values_left)?;
                builder.push(value);
            }
            built.push(builder.finish());
        }
        Ok(built.into_iter().map(|column: ArrayRef| column.slice(0, end)).collect())
    }

    /// The results for a batch from windows of integers; `None` if this or an earlier batch has other values.
    fn integer_columns(&mut self, inputs: &Inputs, groups: &[u32]) -> Result<Option<Vec<ColumnBuilder>>, EngineError> {
        self.stop.check_cancelled()?;
        let Some(windows) = &mut self.integers else { return Ok(None) };
        let columns = self.plan.columns.iter().zip(&inputs.arguments);
        let integers = columns.map(|(column, argument)| IntegerWindows::read(column.body, argument.as_ref()));
        if let Some(integers) = integers.collect::<Option<Vec<_>>>() {
            let columns = windows.add(groups, self.groups.len(), &integers, self.command.global);
            self.window_bytes = windows.row_bytes();
            return Ok(Some(columns));
        }
        self.leave_integers();
        Ok(None)
    }

    /// Moves the rows from windows of integers to windows for values of any type.
    fn leave_integers(&mut self) {
        let Some(integers) = self.integers.take() else { return };
        self.prepare_groups(self.groups.len());
        self.window_bytes = 0;
        integers.into_rows(|at, group, mut values| {
            while self.windows.len() <= at {
                self.windows.push(Window::new(self.plan.columns.len()));
            }
            // Neither counts nor sums depend on the time.
            self.add_to_window(at, WindowRow { time: None, group }, &mut values);
        });
    }

    /// The results for the first rows of a batch, at least one, row by row. `groups` has the group of each row if no
    /// state is reset.
    fn row_columns(
        &mut self,
        rows: &RecordBatch,
        inputs: &Inputs,
        groups: Option<&[u32]>,
    ) -> Result<Vec<ColumnBuilder>, EngineError> {
        let before = self.reset_before.as_ref().map(|expr| expr.matches(rows)).transpose()?;
        let after = match self.reset_after_reads_results() {
            true => None,
            false => self.reset_after.as_ref().map(|expr| expr.matches(rows)).transpose()?,
        };
        let count = rows.num_rows();
        let mut columns: Vec<ColumnBuilder> = self.plan.columns.iter().map(|_| ColumnBuilder::new(count)).collect();
        let (mut values, mut results, mut values_left) = (Vec::new(), Vec::new(), REPEATED_VALUES_MAX);
        let work = self.stop.begin_work();
        for row in 0..count {
            // A row may take long: the mode is computed from all rows of its window.
            self.stop.check_cancelled()?;
            if row > 0 && self.stop.should_end_rows(work) {
                break;
            }
            if before.as_ref().is_some_and(|holds| holds.value(row)) {
                self.reset();
            }
            let group = groups.map_or_else(|| self.group_of_row(&inputs.by, row), |groups| groups[row]);
            if group == NO_GROUP {
                columns.iter_mut().for_each(ColumnBuilder::push_null);
                continue;
            }
            values.clear();
            let arguments = self.plan.columns.iter().zip(&inputs.arguments);
            values.extend(arguments.map(|(column, argument)| RowValues::read(column.body, argument.as_ref(), row)));
            results.clear();
            self.row(WindowRow { time: inputs.time(row), group }, &mut values, &mut results)?;
            let resets = match &after {
                Some(holds) => holds.value(row),
                None => self.resets_after(rows, row, &results)?,
            };
            count_repeated(&results, &mut values_left)?;
            columns.iter_mut().zip(results.drain(..)).for_each(|(column, value)| column.push(value));
            if resets {
                self.reset();
            }
        }
        Ok(columns)
    }

    /// The group of a row. If the group differs from the previous one and the command resets states at such a change,
    /// resets all states.
    fn group_of_row(&mut self, by: &[ColumnReader], row: usize) -> u32 {
        let group = self.groups.number_of_row(by, row);
        if group == NO_GROUP {
            return group;
        }
        let is_other = self.last_group.is_some_and(|last| last != group);
        let group = match self.command.reset_on_change && is_other {
            true => {
                self.reset();
                self.groups.number_of_row(by, row)
            }
            false => group,
        };
        self.last_group = Some(group);
        group
    }
}

/// The counts after each row, or before it without `current`; `states` has the count of each group at every
/// `step`-th position.
fn running_counts(
    states: &mut [RunningState],
    step: usize,
    argument: Option<&ColumnReader>,
    groups: &[u32],
    current: bool,
) -> ArrayRef {
    let mut count_of = |row: usize, group: u32| {
        let Some(RunningState::Count(count)) = states.get_mut(group as usize * step) else { return 0 };
        let before = *count;
        *count += RowValues::read(FunctionBody::Count, argument, row).len() as i64;
        if current { *count } else { before }
    };
    let is_counted = |group: u32| group != NO_GROUP;
    let counts = groups.iter().enumerate().map(|(row, group)| match is_counted(*group) {
        true => count_of(row, *group),
        false => 0,
    });
    let counts: ScalarBuffer<i64> = counts.collect();
    let nulls = groups
        .contains(&NO_GROUP)
        .then(|| NullBuffer::new(BooleanBuffer::collect_bool(groups.len(), |row| is_counted(groups[row]))));
    Arc::new(Int64Array::new(counts, nulls))
}

impl RowCommand for StreamStats {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let inputs = Inputs {
            by: self.command.by.iter().map(|field| rows::reader(&rows, &field.text)).collect(),
            times: rows::reader(&rows, "_time"),
            arguments: arguments(&self.plan, &rows)?,
        };
        let finish = |columns: Vec<ColumnBuilder>| columns.into_iter().map(ColumnBuilder::finish).collect();
        let columns = if self.may_reset() {
            finish(self.row_columns(&rows, &inputs, None)?)
        } else {
            let groups = self.groups.numbers(&inputs.by, rows.num_rows()).to_vec();
            self.prepare_groups(self.groups.len());
            match self.is_windowed() {
                true => finish(match self.integer_columns(&inputs, &groups)? {
                    Some(columns) => columns,
                    None => self.row_columns(&rows, &inputs, Some(&groups))?,
                }),
                false => self.running_columns(&inputs, &groups)?,
            }
        };
        self.account_memory(rows.num_rows())?;
        // Some time after the search was finalised, only the first rows have results.
        let count = columns.first().map_or(rows.num_rows(), |column| column.len());
        let mut result = NewColumns::of(rows.slice(0, count));
        for (aggregate, column) in self.plan.columns.iter().zip(columns) {
            result.set(&aggregate.name, column);
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use quarry_eval::rows::batch_of;
    use quarry_spl::ast::Command;

    use super::*;
    use crate::plan::tests::{ReadClock, runner};

    #[test]
    fn a_finalised_search_computes_its_first_rows() {
        for search in
            ["* | streamstats mode(a)", "* | streamstats mode(a) list(a) count", "* | streamstats window=5 mode(a)"]
        {
            let parsed = quarry_spl::parse(search);
            let Command::StreamStats(command) = &parsed.pipeline.commands[1].command else { panic!("{parsed:?}") };
            let context = runner("*").context;
            let plan = AggregatePlan::new(&command.aggregates, Vec::new(), &context.expressions()).unwrap();
            let mut stats = StreamStats::new(command, Arc::new(plan), None, None, &context);
            let mut results = || {
                let mut column = ColumnBuilder::new(9);
                (0..9).for_each(|_| column.push_text("text"));
                stats.apply(batch_of([("a", column.finish())], 9).unwrap()).unwrap().num_rows()
            };
            assert_eq!(results(), 9, "{search}");
            context.stop.set_clock(Arc::new(ReadClock::default()));
            // Finalised at 0 ms; the batch begins at 40 ms. Its rows go on at 80 and 120 ms, and end at 160 ms.
            context.stop.finish_early();
            assert_eq!(results(), 3, "{search}");
            assert!(context.stop.was_cut(), "{search}");
        }
    }
}
