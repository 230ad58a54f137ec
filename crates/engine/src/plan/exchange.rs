//! The exchange of a plan: the rows and columns that pass from *map*, which runs next to the data, to *reduce*, which
//! runs once.
//!
//! Without a fold, events are exchanged: newest first, with the columns that the scan reads. A sort or a `dedup` pushed
//! down to the scan only leaves out events that cannot be in the result. With a fold, groups are exchanged, in the
//! layout of the fold's partial states, whatever the scan does to fold fewer rows (counts of equal events, summaries,
//! cached states). Rows are checked against the exchange wherever they are sent or received.
//!
//! Not here: how rows travel, and how those of several workers are merged ([`crate::run`] takes them merged).

use std::fmt;

use arrow::datatypes::{DataType, Field};
use arrow::record_batch::RecordBatch;
use quarry_eval::aggregate::{LayoutColumn, StateColumn, StateContent, StateLayout};
use quarry_eval::command::Reduce;
use quarry_eval::context::CommandContext;
use quarry_eval::field_names::wildcard_parts;
use quarry_eval::rows::{ColumnType, is_hidden};
use quarry_scan::plan::{ExtractionKind, Scan};
use serde::{Deserialize, Serialize};

use super::{Plan, Source};

/// Pattern of every field.
const EVERY_FIELD: &str = "*";

/// The rows that pass from the workers of a plan to the part that runs once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Meaning of a row.
    pub rows: ExchangedRows,
    /// Their columns. Groups have all of them, in this order. Events have the first, `_time`; another column may be
    /// missing from a batch, which means that its events have no such field.
    pub columns: Vec<ExchangeColumn>,
    /// Patterns of further columns of events, whose names depend on the events.
    pub patterns: Vec<String>,
    /// Whether workers must know the first and last time of the rows of all workers before they fold.
    pub needs_bounds: bool,
}

/// Meaning of the rows of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExchangedRows {
    /// All events that meet the condition, newest first; of one instant, those that arrived last come first.
    Events,
    /// The same without events that cannot be among the first of a sort.
    TopEvents {
        /// Rows wanted.
        count: usize,
        /// The first sort key.
        field: String,
        /// Whether its large values come first.
        descending: bool,
    },
    /// The same without events that have as many newer ones with equal values.
    FirstEvents {
        /// Rows wanted of each combination of values.
        count: usize,
        /// The fields that are compared.
        fields: Vec<String>,
    },
    /// Groups with their partial states, in any order. Several rows may be of one group.
    Groups,
}

/// A column of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeColumn {
    /// Its name in a batch.
    pub name: String,
    /// Type of its values.
    pub kind: ColumnType,
    /// Meaning of its values.
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
    /// A key of the group: the text of this field.
    Key(String),
    /// A state of an aggregate.
    State {
        /// The aggregate, as `avg(bytes)`.
        aggregate: String,
        /// The state.
        column: StateColumn,
    },
}

/// The states of a plan's fold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FoldStates {
    /// Their columns.
    pub layout: StateLayout,
    /// Whether workers must know the times of all rows first.
    pub needs_bounds: bool,
}

impl FoldStates {
    /// States of `fold`.
    pub(crate) fn of(fold: &dyn Reduce, context: &CommandContext) -> FoldStates {
        FoldStates { layout: fold.aggregates().layout(), needs_bounds: fold.needs_bounds(context) }
    }
}

impl Plan {
    /// The rows that workers hand over; `None` if nothing of the plan runs next to the data.
    pub fn exchange(&self) -> Option<Exchange> {
        match &self.source {
            Source::Scan(scan) => Some(match &self.states {
                Some(states) => Exchange::of_states(states),
                None => Exchange::of_events(scan),
            }),
            Source::Search(inner) => inner.plan.exchange(),
            Source::Series(series) => series.measured.exchange(),
            // A deletion is one change of the store, and it hides events where they are found.
            Source::Nothing | Source::Row | Source::Command(_) | Source::Delete(_) => None,
        }
    }
}

impl Exchange {
    /// The events of a scan.
    fn of_events(scan: &Scan) -> Exchange {
        let column = |name: &str, kind, content| ExchangeColumn { name: name.to_owned(), kind, content };
        let is_text_value = |name: &str| {
            let made = |kind: &ExtractionKind| matches!(kind, ExtractionKind::Text { output, .. } if output == name);
            scan.extractions.iter().any(|extraction| made(&extraction.kind))
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
            _ if is_text_value(name) => column(name, ColumnType::Integer, ColumnContent::TextValue),
            _ => column(name, ColumnType::Any, ColumnContent::Field),
        }));
        let rows = match (&scan.top, &scan.first) {
            (Some(top), _) => ExchangedRows::TopEvents {
                count: top.count,
                field: top.key.field.text.clone(),
                descending: top.descending,
            },
            (None, Some(first)) => ExchangedRows::FirstEvents { count: first.count, fields: first.fields.clone() },
            (None, None) => ExchangedRows::Events,
        };
        Exchange { rows, columns, patterns, needs_bounds: false }
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
            needs_bounds: states.needs_bounds,
        }
    }

    /// Whether a batch has the columns of this exchange.
    pub fn admits(&self, rows: &RecordBatch) -> bool {
        let fields = rows.schema_ref().fields();
        let is = |field: &Field, column: &ExchangeColumn| {
            *field.name() == column.name && column.kind.admits(field.data_type())
        };
        if self.rows == ExchangedRows::Groups {
            let pairs = fields.iter().zip(&self.columns);
            return fields.len() == self.columns.len() && pairs.into_iter().all(|(field, column)| is(field, column));
        }
        let is_timed = self.columns.first().is_none_or(|time| fields.iter().any(|field| is(field, time)));
        let is_known = |field: &Field| match self.columns.iter().find(|column| column.name == *field.name()) {
            Some(column) => column.kind.admits(field.data_type()),
            None => self.holds(field.name(), field.data_type()),
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

    /// Each aggregate with its states, as `avg(bytes) (sum, count of numbers)`.
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
    fn holds(&self, name: &str, kind: &DataType) -> bool {
        let is_of = |pattern: &String| match pattern.as_str() {
            EVERY_FIELD => !is_hidden(name),
            pattern => wildcard_parts(pattern, name).is_some(),
        };
        ColumnType::Any.admits(kind) && self.patterns.iter().any(is_of)
    }
}

impl fmt::Display for Exchange {
    /// The meaning of the rows, then their columns: groups by their keys, with the states of each aggregate in
    /// parentheses.
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
            ExchangedRows::Groups => match self.keys().as_slice() {
                [] => write!(f, "one group: ")?,
                keys => write!(f, "groups by {}: ", keys.join(", "))?,
            },
        }
        let mut listed: Vec<String> = match self.rows {
            ExchangedRows::Groups => self.aggregates(),
            _ => self.columns.iter().map(|column| column.name.clone()).collect(),
        };
        listed.extend(self.patterns.iter().cloned());
        write!(f, "{}", listed.join(", "))?;
        write!(f, "{}", if self.needs_bounds { "; before them, the first and last time of all rows" } else { "" })
    }
}
