//! Syntax of the commands that bring several searches together, and of those that make a search of rows.

use super::{Pipeline, SubsearchLimits};

/// A command about more than one search.
#[derive(Clone, Debug, PartialEq)]
pub enum SeveralCommand {
    /// `appendcols`.
    AppendCols {
        /// `override=f`: whether values of the subsearch win.
        replaces: bool,
        /// The subsearch.
        subsearch: Pipeline,
        /// Its limits.
        limits: SubsearchLimits,
    },
    /// `appendpipe [ ... ]`: commands over the rows there are, whose result is added.
    AppendPipe(Pipeline),
    /// `multireport [ ... ] [ ... ]`: several runs of commands over the rows there are, whose results take their place.
    MultiReport(Vec<Pipeline>),
    /// A search over index-time fields alone, which `walklex` or `typeahead` stands for.
    IndexTime {
        /// The command as it is written.
        command: &'static str,
        /// The search.
        search: Pipeline,
    },
    /// `union [ ... ] [ ... ]`.
    Union {
        /// The subsearches.
        subsearches: Vec<Pipeline>,
        /// Limits of each.
        limits: SubsearchLimits,
    },
    /// `multisearch [ ... ] [ ... ]`.
    MultiSearch(Vec<Pipeline>),
    /// `set union|diff|intersect [ ... ] [ ... ]`.
    Set {
        /// Which rows stay.
        operation: SetOperation,
        /// First subsearch.
        left: Pipeline,
        /// Second subsearch.
        right: Pipeline,
    },
    /// `format`.
    Format(FormatCommand),
    /// `return`.
    Return(ReturnCommand),
    /// `gentimes`.
    GenTimes(GenTimesCommand),
}

impl SeveralCommand {
    /// Whether it makes rows of its own and so may be the first of a search.
    pub fn generates(&self) -> bool {
        matches!(
            self,
            SeveralCommand::Union { .. }
                | SeveralCommand::MultiSearch(_)
                | SeveralCommand::Set { .. }
                | SeveralCommand::GenTimes(_)
                | SeveralCommand::IndexTime { .. }
        )
    }

    /// The searches within it, in order.
    pub fn subsearches(&self) -> Vec<&Pipeline> {
        match self {
            SeveralCommand::AppendCols { subsearch, .. } => vec![subsearch],
            SeveralCommand::AppendPipe(pipeline) | SeveralCommand::IndexTime { search: pipeline, .. } => vec![pipeline],
            SeveralCommand::Union { subsearches, .. }
            | SeveralCommand::MultiSearch(subsearches)
            | SeveralCommand::MultiReport(subsearches) => subsearches.iter().collect(),
            SeveralCommand::Set { left, right, .. } => vec![left, right],
            SeveralCommand::Format(_) | SeveralCommand::Return(_) | SeveralCommand::GenTimes(_) => Vec::new(),
        }
    }
}

/// Operations of `set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperation {
    /// Rows of either side, each once.
    Union,
    /// Rows of one side only.
    Diff,
    /// Rows of both sides.
    Intersect,
}

/// `format`.
#[derive(Clone, Debug, PartialEq)]
pub struct FormatCommand {
    /// `mvsep=OR`.
    pub value_separator: String,
    /// `maxresults=0`; 0 is all.
    pub rows_max: usize,
    /// `emptystr=`: what is written of no rows.
    pub empty: String,
    /// Before all rows.
    pub row_prefix: String,
    /// Before the fields of a row.
    pub column_prefix: String,
    /// Between fields.
    pub column_separator: String,
    /// After the fields of a row.
    pub column_end: String,
    /// Between rows.
    pub row_separator: String,
    /// After all rows.
    pub row_end: String,
}

/// `return`.
#[derive(Clone, Debug, PartialEq)]
pub struct ReturnCommand {
    /// Rows taken. Default 1.
    pub count: usize,
    /// What is written of each row.
    pub items: Vec<ReturnItem>,
}

/// One item of `return`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReturnItem {
    /// `field` or `name=field`: `name="value"`.
    Pair {
        /// Name written.
        name: String,
        /// Field read.
        field: String,
    },
    /// `$field`: the value alone.
    Value(String),
}

/// `gentimes`.
#[derive(Clone, Debug, PartialEq)]
pub struct GenTimesCommand {
    /// `start=`.
    pub start: GenTime,
    /// `end=`; today's midnight when absent.
    pub end: Option<GenTime>,
    /// `increment=1d`: amount and unit `s`, `m`, `h` or `d`.
    pub increment: quarry_event::time::Span,
}

/// A time of `gentimes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GenTime {
    /// Days from today, at midnight.
    Days(i64),
    /// Year, month, day, hour, minute and second in the user's zone.
    Date([i16; 6]),
}
