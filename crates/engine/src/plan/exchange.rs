//! The exchange of a plan: the rows and columns that pass from *map*, which runs next to the data, to *reduce*, which
//! runs once.
//!
//! Without a fold, events are exchanged, newest first, with the columns that the scan reads. Operations pushed down to
//! the scan, such as a sort, a `dedup` or the condition of a `where`, only omit events that cannot be in the result.
//! With a fold, groups are exchanged in the layout of the fold's partial states, even if the scan passes fewer rows to
//! the fold because it counts equal events or reads summaries or cached states. Rows are checked against the exchange
//! wherever they are sent or received.
//!
//! A plan has one *round* of exchange, or two if its fold depends on the times of all rows, as for a `timechart` that
//! chooses its span. In the first of two rounds, workers return the times of their rows. [`Plan::with_times`] adds
//! these times to the plan, which then has only the second round left. No worker or caller keeps any state between
//! the rounds.
//!
//! Not here: the transport of rows, and the merging of rows from several workers ([`crate::run`] receives merged
//! rows).

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, TimestampNanosecondArray};
use arrow::datatypes::{DataType, Field, TimestampNanosecondType};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::aggregate::{LayoutColumn, StateColumn, StateContent, StateLayout};
use quarry_eval::command::Reduce;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::wildcard_parts;
use quarry_eval::rows::{ColumnType, is_hidden};
use quarry_event::TimeNs;
use quarry_scan::plan::{ExtractionKind, FirstRows, RowLimit, Scan, TextValue, TopK};
use serde::{Deserialize, Serialize};

use super::{Plan, Source};

/// Pattern of every field.
const EVERY_FIELD: &str = "*";

/// The rows that pass from the workers of a plan to the part that runs once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Meaning of a row.
    pub rows: ExchangedRows,
    /// Columns of the rows. Groups and times have all columns, in this order. Events always have the first
    /// column, `_time`; a batch may lack other columns if none of its events has the field.
    pub columns: Vec<ExchangeColumn>,
    /// Patterns for the names of further event columns, which depend on the events.
    pub patterns: Vec<String>,
}

/// Meaning of the rows of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExchangedRows {
    /// All events that meet the condition, newest first; events with the same time are in reverse order of arrival.
    Events,
    /// Like `Events`, but without events that cannot be among the first rows of a sort.
    TopEvents {
        /// Maximum number of rows that the sort keeps.
        count: usize,
        /// The first sort key.
        field: String,
        /// Whether large values come first.
        descending: bool,
    },
    /// Like `Events`, but without events for which `count` newer events have the same values.
    FirstEvents {
        /// Maximum number of events kept for each combination of values.
        count: usize,
        /// The fields that are compared.
        fields: Vec<String>,
    },
    /// Like `Events`, but without events for which `count` older events exist.
    OldestEvents {
        /// Maximum number of events kept.
        count: usize,
    },
    /// Groups with their partial states, in any order. A group may have several rows.
    Groups,
    /// One row with the first and last time of a worker's rows; no row if the worker has none.
    Times,
}

/// A column of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeColumn {
    /// Name of the column in a batch.
    pub name: String,
    /// Type of the values.
    pub kind: ColumnType,
    /// Meaning of the values.
    pub content: ColumnContent,
}

/// Content of a column of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnContent {
    /// Time of the event.
    EventTime,
    /// Text of the event.
    EventText,
    /// A function of the text of the event, such as its length.
    TextValue,
    /// A field of the event.
    Field,
    /// Smallest `_time` of a worker's rows.
    FirstTime,
    /// Largest `_time` of a worker's rows.
    LastTime,
    /// A key of the group: the text of this field.
    Key(String),
    /// A state of an aggregate.
    State {
        /// The aggregate, such as `avg(bytes)`.
        aggregate: String,
        /// The state.
        column: StateColumn,
    },
}

/// The states of a plan's fold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FoldStates {
    /// Columns of the states.
    pub layout: StateLayout,
    /// The times of all rows, if the fold depends on them.
    pub times: RowTimes,
}

/// First and last time of all workers' rows, for a fold that needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RowTimes {
    /// The fold does not depend on the times.
    Unneeded,
    /// The times must be known before the first row is folded.
    Needed,
    /// The known times; `None` if there are no rows.
    Known(Option<(TimeNs, TimeNs)>),
}

impl FoldStates {
    /// States of `fold`.
    pub(crate) fn of(fold: &dyn Reduce, context: &CommandContext) -> FoldStates {
        let times = if fold.needs_bounds(context) { RowTimes::Needed } else { RowTimes::Unneeded };
        FoldStates { layout: fold.aggregates().layout(), times }
    }
}

impl Plan {
    /// The exchange whose rows workers return next; `None` if no part of the plan runs next to the data.
    pub fn exchange(&self) -> Option<Exchange> {
        self.rounds().into_iter().next()
    }

    /// The exchanges whose rows workers return, round by round; rows of the last round are reduced to the result.
    pub fn rounds(&self) -> Vec<Exchange> {
        match &self.source {
            Source::Scan(scan) => match &self.states {
                Some(states) => {
                    let times = (states.times == RowTimes::Needed).then(Exchange::of_times);
                    times.into_iter().chain([Exchange::of_states(states)]).collect()
                }
                None => vec![Exchange::of_events(scan)],
            },
            Source::Search(inner) => inner.plan.rounds(),
            Source::Series(series) => series.measured.rounds(),
            // A deletion is a single change of the store, made on the node that finds the events.
            Source::Nothing | Source::Row | Source::Command(_) | Source::Delete(_) => Vec::new(),
        }
    }

    /// The plan of the second round: this plan with the times that all workers returned in the first round.
    pub fn with_times(mut self, handed_over: &[RecordBatch]) -> Result<Plan, EngineError> {
        let Some(exchange) = self.exchange().filter(|exchange| exchange.rows == ExchangedRows::Times) else {
            return Err(EngineError::invalid("the plan does not depend on the times of all rows: run its only round"));
        };
        let mut known: Option<(TimeNs, TimeNs)> = None;
        for rows in handed_over {
            exchange.check(rows)?;
            let times = |at: usize| rows.column(at).as_primitive::<TimestampNanosecondType>();
            for pair in times(0).iter().zip(times(1)) {
                let (Some(first), Some(last)) = pair else { continue };
                known = Some(known.map_or((first, last), |(low, high)| (low.min(first), high.max(last))));
            }
        }
        self.set_times(known);
        Ok(self)
    }

    fn set_times(&mut self, times: Option<(TimeNs, TimeNs)>) {
        match &mut self.source {
            Source::Search(inner) => inner.plan.set_times(times),
            Source::Series(series) => series.measured.set_times(times),
            _ => self.states.iter_mut().for_each(|states| states.times = RowTimes::Known(times)),
        }
    }
}

impl Exchange {
    /// The events of a scan.
    fn of_events(scan: &Scan) -> Exchange {
        let column = |name: &str, kind, content| ExchangeColumn { name: name.to_owned(), kind, content };
        let text_value = |name: &str| {
            scan.extractions.iter().find_map(|extraction| match &extraction.kind {
                ExtractionKind::Text { value, output } if output == name => Some(match value {
                    TextValue::Length | TextValue::Match(_) => ColumnType::Integer,
                    TextValue::Document { .. } => ColumnType::Any,
                }),
                _ => None,
            })
        };
        let needs = &scan.projection;
        let mut columns = vec![column("_time", ColumnType::Time, ColumnContent::EventTime)];
        let mut patterns = needs.patterns.clone();
        if needs.all {
            columns.push(column("_raw", ColumnType::Text, ColumnContent::EventText));
            columns.push(column("_indextime", ColumnType::Integer, ColumnContent::Field));
            patterns = vec![EVERY_FIELD.to_owned()];
        }
        let named = needs.fields.iter().filter(|name| *name != "_time" && (!needs.all || is_hidden(name)));
        columns.extend(named.map(|name| match name.as_str() {
            "_raw" => column(name, ColumnType::Text, ColumnContent::EventText),
            "_indextime" => column(name, ColumnType::Integer, ColumnContent::Field),
            _ => match text_value(name) {
                Some(kind) => column(name, kind, ColumnContent::TextValue),
                None => column(name, ColumnType::Any, ColumnContent::Field),
            },
        }));
        let top_events = |top: &TopK| ExchangedRows::TopEvents {
            count: top.count,
            field: top.key.field.text.clone(),
            descending: top.descending,
        };
        let first_events =
            |first: &FirstRows| ExchangedRows::FirstEvents { count: first.count, fields: first.fields.clone() };
        let limit = scan.selection.as_ref().and_then(|selection| selection.limit.as_ref());
        let rows = match (&scan.top, &scan.first, limit) {
            (Some(top), ..) | (_, _, Some(RowLimit::Top(top))) => top_events(top),
            (_, Some(first), _) | (_, _, Some(RowLimit::First(first))) => first_events(first),
            (.., Some(RowLimit::Oldest(count))) => ExchangedRows::OldestEvents { count: *count },
            (None, None, None) => ExchangedRows::Events,
        };
        Exchange { rows, columns, patterns }
    }

    /// The times of a worker's rows.
    fn of_times() -> Exchange {
        let column = |name: &str, content| ExchangeColumn { name: name.to_owned(), kind: ColumnType::Time, content };
        let columns = vec![column("first", ColumnContent::FirstTime), column("last", ColumnContent::LastTime)];
        Exchange { rows: ExchangedRows::Times, columns, patterns: Vec::new() }
    }

    /// The groups of a fold.
    fn of_states(states: &FoldStates) -> Exchange {
        let column = |column: &LayoutColumn| ExchangeColumn {
            name: column.name.clone(),
            kind: column.kind(),
            content: match &column.content {
                StateContent::Key { field } => ColumnContent::Key(field.clone()),
                StateContent::State { aggregate, column } => {
                    ColumnContent::State { aggregate: aggregate.clone(), column: *column }
                }
            },
        };
        Exchange {
            rows: ExchangedRows::Groups,
            columns: states.layout.columns.iter().map(column).collect(),
            patterns: Vec::new(),
        }
    }

    /// A row with the times of a worker's rows.
    pub(crate) fn times(&self, (first, last): (TimeNs, TimeNs)) -> Result<RecordBatch, EngineError> {
        let time = |time: TimeNs| Arc::new(TimestampNanosecondArray::from(vec![time])) as ArrayRef;
        let names = self.columns.iter().map(|column| column.name.as_str());
        Ok(RecordBatch::try_from_iter(names.zip([time(first), time(last)]))?)
    }

    /// Refuses a batch whose columns do not match the exchange; the batch may come from another node.
    pub(crate) fn check(&self, rows: &RecordBatch) -> Result<(), EngineError> {
        if self.accepts(rows) {
            return Ok(());
        }
        let fields = rows.schema_ref().fields().iter();
        let found: Vec<String> = fields.map(|field| format!("{} ({})", field.name(), field.data_type())).collect();
        Err(EngineError::invalid(format!(
            "a node handed over the columns {}, but the plan asks for {self}: run the same build on all nodes",
            found.join(", ")
        )))
    }

    /// Whether a batch has the columns of this exchange.
    pub fn accepts(&self, rows: &RecordBatch) -> bool {
        let fields = rows.schema_ref().fields();
        let is = |field: &Field, column: &ExchangeColumn| {
            *field.name() == column.name && column.kind.accepts(field.data_type())
        };
        if matches!(self.rows, ExchangedRows::Groups | ExchangedRows::Times) {
            let pairs = fields.iter().zip(&self.columns);
            return fields.len() == self.columns.len() && pairs.into_iter().all(|(field, column)| is(field, column));
        }
        let is_timed = self.columns.first().is_none_or(|time| fields.iter().any(|field| is(field, time)));
        let is_known = |field: &Field| match self.columns.iter().find(|column| column.name == *field.name()) {
            Some(column) => column.kind.accepts(field.data_type()),
            None => self.may_have_column(field.name(), field.data_type()),
        };
        is_timed && fields.iter().all(|field| is_known(field))
    }

    /// The fields of the groups' keys.
    fn keys(&self) -> Vec<&str> {
        let keys = self.columns.iter().filter_map(|column| match &column.content {
            ColumnContent::Key(field) => Some(field.as_str()),
            _ => None,
        });
        keys.collect()
    }

    /// Each aggregate with its states, such as `avg(bytes) (sum, count of numbers)`.
    fn aggregates(&self) -> Vec<String> {
        let states = self.columns.iter().filter_map(|column| match &column.content {
            ColumnContent::State { aggregate, column } => Some((aggregate, column.to_string())),
            _ => None,
        });
        let states: Vec<_> = states.collect();
        let of_one = states.chunk_by(|(one, _), (next, _)| one == next);
        let text = |states: &[(&String, String)]| {
            let names: Vec<&str> = states.iter().map(|(_, state)| state.as_str()).collect();
            format!("{} ({})", states[0].0, names.join(", "))
        };
        of_one.map(text).collect()
    }

    /// Whether a further column of events may have this name and type.
    fn may_have_column(&self, name: &str, kind: &DataType) -> bool {
        let is_of = |pattern: &String| match pattern.as_str() {
            EVERY_FIELD => !is_hidden(name),
            pattern => wildcard_parts(pattern, name).is_some(),
        };
        ColumnType::Any.accepts(kind) && self.patterns.iter().any(is_of)
    }
}

impl fmt::Display for Exchange {
    /// Writes the meaning of the rows and then their columns. Groups are written as their keys and their aggregates,
    /// with the states of each aggregate in parentheses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rows {
            ExchangedRows::Events => write!(f, "events, newest first: ")?,
            ExchangedRows::TopEvents { count, field, descending } => {
                let which = if *descending { "largest" } else { "smallest" };
                write!(f, "events that may be among the {count} with the {which} {field}: ")?;
            }
            ExchangedRows::FirstEvents { count, fields } => {
                write!(f, "events that may be among the first {count} of each {}: ", fields.join(", "))?;
            }
            ExchangedRows::OldestEvents { count } => write!(f, "events that may be among the {count} oldest: ")?,
            ExchangedRows::Groups => match self.keys().as_slice() {
                [] => write!(f, "one group: ")?,
                keys => write!(f, "groups by {}: ", keys.join(", "))?,
            },
            ExchangedRows::Times => write!(f, "times of each worker's rows: ")?,
        }
        let mut listed: Vec<String> = match self.rows {
            ExchangedRows::Groups => self.aggregates(),
            _ => self.columns.iter().map(|column| column.name.clone()).collect(),
        };
        listed.extend(self.patterns.iter().cloned());
        write!(f, "{}", listed.join(", "))
    }
}
