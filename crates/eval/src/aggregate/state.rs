//! Serialized form of partial states: the columns in which a fold passes on its groups and their states.
//!
//! A [`StateLayout`] is plain data. It depends on the aggregates only, so that a plan can announce it before any row
//! is folded. Folders write and read states in this layout only, whether they spill states, merge the states of
//! another worker or send states to another node.
//!
//! Not here: states in memory, which workers of one process merge as they are ([`super::fold`]).

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::record_batch::RecordBatch;
use serde::{Deserialize, Serialize};

use super::state_column::{PickKey, StateColumn};
use super::{AggregatePlan, call_of};
use crate::EngineError;
use crate::rows::ColumnType;

/// Digits of a row's position in a sequence entry.
const POSITION_DIGITS: usize = 20;
/// Digits of a value's index in its list.
const INDEX_DIGITS: usize = 3;

/// The columns of a fold's partial states: one row per group, first the group's keys, then the states of each
/// aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateLayout {
    /// The columns in order.
    pub columns: Vec<LayoutColumn>,
}

/// A column of partial states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutColumn {
    /// Name of the column, by position: `k0`, `k1`, ... for keys and `s0`, `s1`, ... for states. Field names would not
    /// be unique: a field may be named `s0`.
    pub name: String,
    /// Meaning of the column's values.
    pub content: StateContent,
}

/// Content of a column of partial states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateContent {
    /// A key of the group.
    Key {
        /// The field from which the key is read.
        field: String,
    },
    /// A state column of an aggregate.
    State {
        /// The aggregate, such as `avg(bytes)`.
        aggregate: String,
        /// The state.
        column: StateColumn,
    },
}

impl StateLayout {
    /// The layout of the states of `plan`.
    pub(super) fn of(plan: &AggregatePlan) -> StateLayout {
        let keys = plan.key_fields().enumerate().map(|(at, field)| LayoutColumn {
            name: format!("k{at}"),
            content: StateContent::Key { field: field.to_owned() },
        });
        let states = plan.columns.iter().flat_map(|aggregate| {
            let states = aggregate.body.states().into_iter();
            states.map(move |column| StateContent::State {
                aggregate: call_of(&aggregate.function, &aggregate.argument),
                column,
            })
        });
        let states = states.enumerate().map(|(at, content)| LayoutColumn { name: format!("s{at}"), content });
        StateLayout { columns: keys.chain(states).collect() }
    }

    /// Number of keys.
    pub fn keys(&self) -> usize {
        self.columns.iter().filter(|column| matches!(column.content, StateContent::Key { .. })).count()
    }

    /// Whether a batch has the columns of this layout.
    pub fn accepts(&self, states: &RecordBatch) -> bool {
        let fields = states.schema_ref().fields();
        let is_column = |(field, column): (&FieldRef, &LayoutColumn)| {
            *field.name() == column.name && column.kind().accepts(field.data_type())
        };
        fields.len() == self.columns.len() && fields.iter().zip(&self.columns).all(is_column)
    }

    /// A batch of this layout with one row for each of `groups` groups.
    pub(super) fn batch(&self, columns: Vec<ArrayRef>, groups: usize) -> Result<RecordBatch, EngineError> {
        let named = self.columns.iter().zip(&columns);
        let fields = named.map(|(column, values)| Field::new(&column.name, values.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(groups));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        assert!(self.accepts(&batch), "states are written in the columns that were announced");
        Ok(batch)
    }
}

impl LayoutColumn {
    /// Type of the column.
    pub fn kind(&self) -> ColumnType {
        match self.content {
            StateContent::Key { .. } => ColumnType::Text,
            StateContent::State { column, .. } => column.kind(),
        }
    }
}

impl StateColumn {
    /// Type of the state's serialized form.
    pub fn kind(self) -> ColumnType {
        match self {
            StateColumn::Values | StateColumn::Numbers => ColumnType::Integer,
            StateColumn::MinText | StateColumn::MaxText => ColumnType::Text,
            // A sum is stored as two numbers and its scale: a rounded state would depend on the order of merging.
            StateColumn::MinNumber
            | StateColumn::MaxNumber
            | StateColumn::Sum
            | StateColumn::SumOfSquares
            | StateColumn::Moments
            | StateColumn::Digest { .. }
            | StateColumn::Sparkline { .. } => ColumnType::Numbers,
            StateColumn::Distinct | StateColumn::Sequence | StateColumn::Tally | StateColumn::Pick(_) => {
                ColumnType::Texts
            }
        }
    }
}

impl fmt::Display for StateColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StateColumn::Values => "count",
            StateColumn::Numbers => "count of numbers",
            StateColumn::Sum => "sum",
            StateColumn::SumOfSquares => "sum of squares",
            StateColumn::MinNumber => "smallest number",
            StateColumn::MaxNumber => "largest number",
            StateColumn::MinText => "smallest text",
            StateColumn::MaxText => "largest text",
            StateColumn::Moments => "moments",
            StateColumn::Distinct => "distinct values",
            StateColumn::Sequence => "values in order",
            StateColumn::Tally => "values with counts",
            StateColumn::Digest { exact: false } => "digest",
            StateColumn::Digest { exact: true } => "exact digest",
            StateColumn::Pick(PickKey::First) => "values of the first row",
            StateColumn::Pick(PickKey::Last) => "values of the last row",
            StateColumn::Pick(PickKey::Earliest) => "values of the earliest row",
            StateColumn::Pick(PickKey::Latest) => "values of the latest row",
            StateColumn::Sparkline { .. } => "numbers by span",
        })
    }
}

/// The Arrow field of the items of a number list.
pub(crate) fn number_item() -> FieldRef {
    Arc::new(Field::new("item", DataType::Float64, true))
}

/// An entry of a `list` state. Entries sort by the position of their row, then by their index in the list of one folder.
pub(crate) fn sequence_entry(position: u64, index: usize, value: &str) -> String {
    format!("{position:0POSITION_DIGITS$}{index:0INDEX_DIGITS$}{value}")
}

pub(crate) fn sequence_value(entry: &str) -> &str {
    entry.get(POSITION_DIGITS + INDEX_DIGITS..).unwrap_or_default()
}
