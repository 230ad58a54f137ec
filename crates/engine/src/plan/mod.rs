//! The plan of a search: the data that is read, the commands that run in every worker, and the commands that run once.
//!
//! Plain data between the syntax tree and execution. [`Planner`] turns a pipeline into a plan in passes. Subsearches in
//! the condition are replaced by their results, event types and tags by their conditions, and time modifiers by tests
//! and a time range. Commands are split by [`Kind`](quarry_spl::commands::Kind). Extractions, top-k thresholds and
//! counts are pushed down into the scan ([`pushdown`]). [`crate::run`] executes a plan, [`crate::explain`] shows it,
//! and partial states are cached under its [name](name::partial_name).
//!
//! Map passes an [`Exchange`] to reduce: partial states of groups if there is a fold, otherwise events, newest first.
//! If the fold depends on the times of all rows, an earlier round exchanges these times.
//!
//! Not here: execution of commands ([`crate::commands`]), reading events (scan).

mod bytes;
mod comparisons;
mod condition;
mod datasets;
mod deletion;
pub(crate) mod exchange;
pub(crate) mod name;
mod order;
pub(crate) mod planner;
mod pushdown;
pub(crate) mod search_filter;
#[cfg(test)]
pub(crate) mod tests;
mod text_values;
mod time_windows;
mod tstats;

use std::fmt;

use quarry_event::TimeRange;
use quarry_scan::plan::Scan;
use quarry_spl::analyse::is_transforming;
use quarry_spl::ast::{DeleteCommand, Pipeline, Span, Stage, TstatsCommand};
use serde::{Deserialize, Serialize};

pub(crate) use exchange::{Exchange, ExchangedRows, FoldStates, RowTimes};
pub(crate) use planner::{Effects, Planner, SearchChecker, SubsearchExplainer, Subsearches};

/// The plan of a search: plain data that can be compared, printed and serialized.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Source of the rows.
    pub(crate) source: Source,
    /// Commands that run in every worker, on the rows it reads. Empty without a fold.
    pub(crate) map: Vec<Stage>,
    /// The fold, run by every worker; the states are merged afterwards.
    pub(crate) fold: Option<Stage>,
    /// The partial states that the fold passes to reduce.
    pub(crate) states: Option<FoldStates>,
    /// Commands that run once, on the rows of all workers.
    pub(crate) reduce: Vec<Stage>,
}

/// Source of a plan's rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Source {
    /// No rows.
    Nothing,
    /// Events of indexes.
    Scan(Box<Scan>),
    /// Rows that a command generates.
    Command(Box<Stage>),
    /// One row with only `_time`, for a leading `eval`.
    Row,
    /// The result of another search.
    Search(Box<InnerSearch>),
    /// Metric measurements grouped into time series.
    Series(Box<Series>),
    /// Deletes events; the rows are the counts.
    Delete(Box<Deletion>),
}

/// A saved search whose result is the input of another search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct InnerSearch {
    pub name: String,
    /// Position of the saved search's name in the text.
    pub span: Span,
    /// Text of the saved search, to which positions in its commands refer.
    pub text: String,
    pub plan: Plan,
    /// Time range of the saved search.
    pub range: TimeRange,
}

/// Measurements distinguished by time series: `mstats` with `rate_avg`, `rate_sum` or `BY _timeseries`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    /// The plan that yields the measurements.
    pub measured: Plan,
    /// Metric columns of the measurements.
    pub metrics: Vec<String>,
    pub command: TstatsCommand,
    /// Position of `mstats` in the text.
    pub span: Span,
}

/// Events that `delete` hides from later searches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Deletion {
    /// The events examined.
    pub scan: Scan,
    /// Commands that an event must pass.
    pub commands: Vec<Stage>,
    /// Position of `delete` in the text.
    pub span: Span,
}

impl Plan {
    /// A plan that applies `commands` to the rows of `source`.
    pub(crate) fn of_rows(source: Source, commands: Vec<Stage>) -> Plan {
        Plan { source, map: Vec::new(), fold: None, states: None, reduce: commands }
    }

    /// Time range of the rows: that of the events or of the saved search with which the plan begins, otherwise
    /// `of_search`.
    pub(crate) fn range(&self, of_search: TimeRange) -> TimeRange {
        match &self.source {
            Source::Scan(scan) => scan.range,
            Source::Series(series) => series.measured.range(of_search),
            Source::Search(inner) => inner.range,
            _ => of_search,
        }
    }

    /// The commands that run, including those of the source, as a pipeline.
    pub(crate) fn pipeline(&self) -> Pipeline {
        let mut commands: Vec<Stage> = match &self.source {
            Source::Command(stage) => vec![stage.as_ref().clone()],
            Source::Search(inner) => inner.plan.pipeline().commands,
            Source::Series(series) => series.measured.pipeline().commands,
            Source::Delete(deletion) => {
                let delete = Stage { command: DeleteCommand.into(), span: deletion.span };
                deletion.commands.iter().cloned().chain([delete]).collect()
            }
            Source::Nothing | Source::Row | Source::Scan(_) => Vec::new(),
        };
        commands.extend(self.commands().cloned());
        Pipeline { commands, span: Span::default() }
    }

    /// Whether the plan's rows are events.
    pub(crate) fn yields_events(&self) -> bool {
        let begins_with_events = match &self.source {
            Source::Scan(_) => true,
            Source::Search(inner) => inner.plan.yields_events(),
            _ => false,
        };
        begins_with_events && !is_transforming(&self.pipeline().commands)
    }

    /// All commands after the source, in order.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &Stage> {
        self.map.iter().chain(&self.fold).chain(&self.reduce)
    }
}

impl fmt::Display for Plan {
    /// One line for the source and one for each part with commands, listed by name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Nothing => write!(f, "nothing")?,
            Source::Row => write!(f, "one row")?,
            Source::Command(stage) => write!(f, "{}", stage.command.name())?,
            Source::Search(inner) => write!(f, "saved search {}", inner.name)?,
            Source::Series(series) => write!(f, "series of {}", series.metrics.join(", "))?,
            Source::Delete(deletion) => write!(f, "delete {}", deletion.scan)?,
            Source::Scan(scan) => write!(f, "{scan}")?,
        }
        for (part, stages) in
            [("map", self.map.as_slice()), ("fold", self.fold.as_slice()), ("reduce", self.reduce.as_slice())]
        {
            if !stages.is_empty() {
                let names: Vec<&str> = stages.iter().map(|stage| stage.command.name()).collect();
                write!(f, "\n{part} {}", names.join(" | "))?;
            }
        }
        Ok(())
    }
}
