//! Classifies the columns of an answer as having values, only zeros, or no values. Columns of the last two kinds cause
//! hints.

use std::collections::BTreeSet;

use crate::{Cell, ResultTable};

/// Columns of an answer, collected from the rows seen so far.
#[derive(Debug, Default)]
pub struct AnswerColumns {
    /// Number of rows.
    pub rows: usize,
    /// Columns without any value.
    pub empty: Vec<String>,
    /// Columns with values.
    pub filled: BTreeSet<String>,
    /// Columns whose values are all zero.
    pub zeros: BTreeSet<String>,
}

impl AnswerColumns {
    /// Adds further rows. A column is not read any more once it has a value other than zero.
    pub fn add(&mut self, part: &ResultTable) {
        self.rows += part.len();
        let is_zero = |cell: Cell<'_>| matches!(cell, Cell::Null) || cell.join_values(" ") == "0";
        for (at, field) in part.fields().iter().enumerate() {
            let is_first = !self.filled.contains(field);
            // Further rows cannot change the class of a column that has a value other than zero.
            if !is_first && !self.zeros.contains(field) {
                continue;
            }
            let has_others = part.rows().any(|row| !is_zero(row.cell(at)));
            let has_value = has_others || part.rows().any(|row| !matches!(row.cell(at), Cell::Null));
            if has_others {
                self.zeros.remove(field);
            } else if is_first && has_value {
                self.zeros.insert(field.clone());
            }
            if !is_first {
                continue;
            }
            if has_value {
                self.filled.insert(field.clone());
                self.empty.retain(|name| name != field);
            } else if !self.empty.contains(field) {
                self.empty.push(field.clone());
            }
        }
    }

    /// Whether the answer is one row of counts and sums over no events, or one such row per time span. Not for answers
    /// whose rows are events.
    pub fn is_empty_aggregate(&self) -> bool {
        let is_zero = |field: &&String| self.zeros.contains(*field);
        let is_series = !self.zeros.is_empty() && self.filled.contains("_time");
        match self.rows {
            1 if self.filled.iter().all(|field| is_zero(&field)) => true,
            _ => is_series && self.filled.iter().filter(|field| !field.starts_with('_')).all(|field| is_zero(&field)),
        }
    }
}
