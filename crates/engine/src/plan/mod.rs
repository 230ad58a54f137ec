//! The plan of a search: what is read, what runs in every worker beside the data, and what runs once.
//!
//! Plain data between the syntax tree and execution. [`Planner`] turns a pipeline into a plan in passes: subsearches of
//! the condition are replaced by what they found, labels by the conditions they stand for, modifiers of time by tests
//! and a range; the commands are split by their [`Kind`](quarry_spl::commands::Kind); extractions, the threshold of a
//! top-k sort and counts are pushed into the scan ([`pushdown`]). [`crate::run`] executes a plan, [`crate::explain`] shows it, and
//! partial states are kept under its [name](name::partial_name).
//!
//! Between map and reduce pass the states of the fold: a row per group, the BY fields first and then the columns of each
//! aggregate's state. Without a fold the rows themselves pass, newest first.
//!
//! Not here: how commands run ([`crate::commands`]) and how events are read (scan).

mod bytes;
mod condition;
mod datasets;
mod deletion;
pub(crate) mod name;
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

pub(crate) use planner::{Effects, Planner, SearchChecker, SubsearchExplainer, Subsearches};

/// How a search runs: plain data that can be compared, printed, written to bytes and read back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Where rows come from.
    pub(crate) source: Source,
    /// Commands that run in every worker, on the rows it reads. None without a fold.
    pub(crate) map: Vec<Stage>,
    /// The command that every worker folds its rows with; the states of all join afterwards.
    pub(crate) fold: Option<Stage>,
    /// Commands that run once, on the rows of all workers.
    pub(crate) reduce: Vec<Stage>,
}

/// Where the rows of a plan come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Source {
    /// From nowhere: there are none.
    Nothing,
    /// Out of the events of indexes.
    Scan(Box<Scan>),
    /// Made by the command.
    Command(Box<Stage>),
    /// One row without fields, for `eval` to begin with.
    Row,
    /// The result of another search.
    Search(Box<InnerSearch>),
    /// Measurements of metrics, grouped into time series.
    Series(Box<Series>),
    /// Counts of the events that were deleted.
    Delete(Box<Deletion>),
}

/// A saved search whose result another search begins with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct InnerSearch {
    /// Its name.
    pub name: String,
    /// Where it is named.
    pub span: Span,
    /// Its text, which places in its commands point into.
    pub text: String,
    /// Its plan.
    pub plan: Plan,
}

/// Measurements whose time series are told apart: `mstats` with `rate_avg`, `rate_sum` or `BY _timeseries`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    /// What gives the measurements.
    pub measured: Plan,
    /// Columns of metrics in them.
    pub metrics: Vec<String>,
    /// The command.
    pub command: TstatsCommand,
    /// Its place.
    pub span: Span,
}

/// Events that `delete` takes out of later searches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Deletion {
    /// The events that are looked at.
    pub scan: Scan,
    /// Commands that each event has to come through.
    pub commands: Vec<Stage>,
    /// Place of `delete`.
    pub span: Span,
}

impl Plan {
    /// The plan that reduces the rows of `source` with `commands`.
    pub(crate) fn of_rows(source: Source, commands: Vec<Stage>) -> Plan {
        Plan { source, map: Vec::new(), fold: None, reduce: commands }
    }

    /// The instants its rows lie in: those of the events, or of the search where it reads none itself.
    pub(crate) fn range(&self, of_search: TimeRange) -> TimeRange {
        match &self.source {
            Source::Scan(scan) => scan.range,
            Source::Series(series) => series.measured.range(of_search),
            _ => of_search,
        }
    }

    /// The commands that run, the source's own among them, as a search.
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

    /// Whether its rows are events.
    pub(crate) fn gives_events(&self) -> bool {
        let begins_with_events = match &self.source {
            Source::Scan(_) => true,
            Source::Search(inner) => inner.plan.gives_events(),
            _ => false,
        };
        begins_with_events && !is_transforming(&self.pipeline().commands)
    }

    /// All commands in order.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &Stage> {
        self.map.iter().chain(&self.fold).chain(&self.reduce)
    }
}

impl fmt::Display for Plan {
    /// One line for the source and one for each part that has commands, which go by their names.
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
