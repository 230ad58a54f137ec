//! `streamstats`: aggregates over the rows seen so far, written to each row.
//!
//! Without a window each group keeps one running fold per aggregate; with a window it keeps the rows of the window and
//! folds them anew at each row, which is right for every function.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_event::TimeNs;
use quarry_event::value::{compare, parse_number};
use quarry_spl::ast::{StatsFunction, StreamStatsCommand};

use super::spans::{length_of, time_ns};
use super::stats::write_key;
use crate::EngineError;
use crate::aggregate::digest::Digest;
use crate::aggregate::keys::KeyTable;
use crate::aggregate::{AggregatePlan, Argument, LIST_VALUES_MAX};
use crate::command::RowCommand;
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
}

impl StreamStats {
    /// The command at its start.
    pub(crate) fn new(
        command: &StreamStatsCommand,
        plan: Arc<AggregatePlan>,
        reset_before: Option<Arc<CompiledExpr>>,
        reset_after: Option<Arc<CompiledExpr>>,
    ) -> StreamStats {
        let mut command = command.clone();
        command.window = command.window.min(WINDOW_MAX);
        let (groups, running, windows) = (KeyTable::default(), Vec::new(), Vec::new());
        StreamStats { command, plan, reset_before, reset_after, groups, running, windows, last_group: None }
    }

    fn is_windowed(&self) -> bool {
        self.command.window > 0 || self.command.time_window.is_some()
    }

    fn reset(&mut self) {
        self.groups = KeyTable::default();
        self.running.clear();
        self.windows.clear();
        self.last_group = None;
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
        let before: Option<Vec<Value<'static>>> =
            (!self.command.current).then(|| running.iter_mut().map(|running| running.value()).collect());
        running.iter_mut().zip(&seen.values).for_each(|(running, values)| running.add(values, seen.time));
        before.unwrap_or_else(|| running.iter_mut().map(|running| running.value()).collect())
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
        let leave_room = |window: &mut VecDeque<Seen>| {
            while size > 0 && window.len() > size {
                window.pop_front();
            }
            let too_old = |old: &Seen| match (reach, old.time, time) {
                (Some(reach), Some(old), Some(time)) => (old - time).abs() >= reach,
                _ => false,
            };
            while window.front().is_some_and(too_old) {
                window.pop_front();
            }
            while window.len() > WINDOW_MAX {
                window.pop_front();
            }
        };
        let fold = |window: &VecDeque<Seen>, plan: &AggregatePlan| {
            let mut running: Vec<Running> = plan.columns.iter().map(|column| Running::new(&column.function)).collect();
            for row in window.iter().filter(|row| row.group == group) {
                running.iter_mut().zip(&row.values).for_each(|(running, values)| running.add(values, row.time));
            }
            running.iter_mut().map(Running::value).collect()
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

/// One aggregate over rows as they come.
struct Running {
    function: StatsFunction,
    count: i64,
    numbers: i64,
    sum: f64,
    squares: f64,
    moments: crate::aggregate::moments::Moments,
    low: Option<String>,
    high: Option<String>,
    distinct: KeyTable,
    tally: Vec<i64>,
    list: Vec<String>,
    first: Option<(Option<TimeNs>, Vec<String>)>,
    last: Option<(Option<TimeNs>, Vec<String>)>,
    digest: Digest,
}

impl Running {
    fn new(function: &StatsFunction) -> Running {
        Running {
            function: function.clone(),
            count: 0,
            numbers: 0,
            sum: 0.0,
            squares: 0.0,
            moments: crate::aggregate::moments::Moments::default(),
            low: None,
            high: None,
            distinct: KeyTable::default(),
            tally: Vec::new(),
            list: Vec::new(),
            first: None,
            last: None,
            digest: Digest::new(false),
        }
    }

    fn add(&mut self, values: &[String], time: Option<TimeNs>) {
        if values.is_empty() {
            return;
        }
        self.add_row(values, time);
        for value in values {
            self.count += 1;
            match self.function {
                StatsFunction::Dc | StatsFunction::EstDc | StatsFunction::Values | StatsFunction::Mode => {
                    self.add_distinct(value)
                }
                StatsFunction::List if self.list.len() < LIST_VALUES_MAX => self.list.push(value.clone()),
                StatsFunction::Min | StatsFunction::Max | StatsFunction::Range => self.add_extreme(value),
                _ => {}
            }
            if let Some(number) = parse_number(value) {
                self.numbers += 1;
                self.sum += number;
                self.squares += number * number;
                self.moments.add(number);
                if matches!(self.function, StatsFunction::Percentile { .. }) {
                    self.digest.add(number);
                }
            }
        }
    }

    fn add_row(&mut self, values: &[String], time: Option<TimeNs>) {
        let by_time = matches!(
            self.function,
            StatsFunction::Earliest
                | StatsFunction::Latest
                | StatsFunction::EarliestTime
                | StatsFunction::LatestTime
                | StatsFunction::Rate
        );
        let earlier = |known: &Option<(Option<TimeNs>, Vec<String>)>| {
            known.as_ref().is_none_or(|(known, _)| by_time && time < *known)
        };
        let later = |known: &Option<(Option<TimeNs>, Vec<String>)>| {
            known.as_ref().is_none_or(|(known, _)| !by_time || time > *known)
        };
        if earlier(&self.first) {
            self.first = Some((time, values.to_vec()));
        }
        if later(&self.last) {
            self.last = Some((time, values.to_vec()));
        }
    }

    fn add_distinct(&mut self, value: &str) {
        let at = self.distinct.intern(value.as_bytes()) as usize;
        if at >= self.tally.len() {
            self.tally.push(0);
        }
        self.tally[at] += 1;
    }

    fn add_extreme(&mut self, value: &str) {
        if matches!(self.function, StatsFunction::Range) && parse_number(value).is_none() {
            return;
        }
        if self.low.as_deref().is_none_or(|low| compare(value, low).is_lt()) {
            self.low = Some(value.to_owned());
        }
        if self.high.as_deref().is_none_or(|high| compare(value, high).is_gt()) {
            self.high = Some(value.to_owned());
        }
    }

    fn value(&mut self) -> Value<'static> {
        let number = |value: Option<f64>| value.map_or(Value::Null, Value::number_of);
        let some = self.numbers > 0;
        match &self.function {
            StatsFunction::Count => Value::Int(self.count),
            StatsFunction::Dc | StatsFunction::EstDc => Value::Int(self.distinct.len() as i64),
            StatsFunction::Sum | StatsFunction::Per(_) => number(some.then_some(self.sum)),
            StatsFunction::SumSq => number(some.then_some(self.squares)),
            StatsFunction::Avg => number(some.then(|| self.sum / self.numbers as f64)),
            StatsFunction::Min => text(self.low.clone()),
            StatsFunction::Max => text(self.high.clone()),
            StatsFunction::Range => {
                let parsed = |text: &Option<String>| text.as_deref().and_then(parse_number);
                number(parsed(&self.high).zip(parsed(&self.low)).map(|(high, low)| high - low))
            }
            StatsFunction::Stdev => number(self.moments.variance(true).map(f64::sqrt)),
            StatsFunction::StdevP => number(self.moments.variance(false).map(f64::sqrt)),
            StatsFunction::Var => number(self.moments.variance(true)),
            StatsFunction::VarP => number(self.moments.variance(false)),
            StatsFunction::Percentile { percent, .. } => number(self.digest.percentile(*percent)),
            StatsFunction::Mode => {
                let best = self.tally.iter().enumerate().max_by_key(|(at, count)| (**count, std::cmp::Reverse(*at)));
                text(best.map(|(at, _)| String::from_utf8_lossy(self.distinct.key(at)).into_owned()))
            }
            StatsFunction::Values => {
                let all =
                    (0..self.distinct.len()).map(|at| String::from_utf8_lossy(self.distinct.key(at)).into_owned());
                let mut all: Vec<String> = all.collect();
                all.sort_unstable();
                many(all)
            }
            StatsFunction::List => many(self.list.clone()),
            StatsFunction::First | StatsFunction::Earliest => {
                many(self.first.clone().map(|(_, values)| values).unwrap_or_default())
            }
            StatsFunction::Last | StatsFunction::Latest => {
                many(self.last.clone().map(|(_, values)| values).unwrap_or_default())
            }
            StatsFunction::EarliestTime => {
                self.first.as_ref().and_then(|(time, _)| *time).map_or(Value::Null, Value::Time)
            }
            StatsFunction::LatestTime => {
                self.last.as_ref().and_then(|(time, _)| *time).map_or(Value::Null, Value::Time)
            }
            StatsFunction::Rate => number(self.rate()),
            StatsFunction::Sparkline { .. } => Value::Null,
        }
    }

    fn rate(&self) -> Option<f64> {
        let point = |known: &Option<(Option<TimeNs>, Vec<String>)>| {
            let (time, values) = known.as_ref()?;
            Some(((*time)? as f64 / 1e9, parse_number(values.first()?)?))
        };
        let ((from, low), (to, high)) = (point(&self.first)?, point(&self.last)?);
        (to > from).then(|| (high - low) / (to - from))
    }
}

fn text(text: Option<String>) -> Value<'static> {
    text.map_or(Value::Null, Value::owned)
}

fn many(values: Vec<String>) -> Value<'static> {
    Value::multi(values.into_iter().map(std::borrow::Cow::Owned).collect())
}
