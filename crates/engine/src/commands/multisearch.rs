//! `multisearch`: merges the events of several searches, newest first.

use std::collections::VecDeque;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::rows::{self, RowIter};
use quarry_eval::spans::time_ns;
use quarry_event::TimeNs;
use quarry_spl::ast::{Command, MultiSearchCommand, Pipeline, Stage};

use super::Execute;
use crate::lowering::{SearchEnvironment, Step, lower};

impl Execute for MultiSearchCommand {
    fn generate(&self, search: &dyn SearchEnvironment) -> Result<Option<RowIter>, EngineError> {
        if let Some(fault) = self.searches.iter().find_map(|inner| find_non_streaming(search, inner).transpose()) {
            let message = "multisearch supports only searches that process one event at a time; use union or append";
            return Err(EngineError::Invalid { message: message.to_owned(), span: Some(fault?.span) });
        }
        merge_searches(search, &self.searches).map(Some)
    }
}

/// Merges the rows of several searches, each newest first.
pub(super) fn merge_searches(search: &dyn SearchEnvironment, searches: &[Pipeline]) -> Result<RowIter, EngineError> {
    let sources = searches.iter().map(|inner| search.run(inner)).collect::<Result<Vec<_>, _>>()?;
    Ok(Box::new(MergedRows::new(sources)))
}

/// The first command of a search that prevents merging, because it is not streaming or does not return events.
pub(super) fn find_non_streaming<'p>(
    search: &dyn SearchEnvironment,
    inner: &'p Pipeline,
) -> Result<Option<&'p Stage>, EngineError> {
    let Some((first, rest)) = inner.commands.split_first() else { return Ok(None) };
    if !matches!(first.command, Command::Search(_)) {
        return Ok(Some(first));
    }
    for stage in rest {
        let steps = lower(stage, search)?;
        if !steps.iter().all(|step| matches!(step, Step::Row { ordered: false, .. })) {
            return Ok(Some(stage));
        }
    }
    Ok(None)
}

/// Merge of several searches, each newest first.
struct MergedRows {
    sources: Vec<Source>,
    is_started: bool,
}

/// One search of a merge.
struct Source {
    rows: RowIter,
    /// Rows not yet emitted, with their times.
    batch: Option<(RecordBatch, VecDeque<Option<TimeNs>>)>,
}

impl Source {
    /// Reads until rows are available or the end is reached.
    fn fill(&mut self) -> Result<(), EngineError> {
        while self.batch.is_none() {
            let Some(batch) = self.rows.next().transpose()? else { return Ok(()) };
            if batch.num_rows() > 0 {
                let reader = rows::reader(&batch, "_time");
                let times = (0..batch.num_rows()).map(|row| time_ns(&reader, row)).collect();
                self.batch = Some((batch, times));
            }
        }
        Ok(())
    }

    fn newest(&self) -> Option<Option<TimeNs>> {
        self.batch.as_ref().and_then(|(_, times)| times.front().copied())
    }

    /// Takes the rows that precede the next rows of all other sources, at least one: `earlier` and `later` are the
    /// newest times of the sources before and after this one. Rows of equal times are in the order of the sources.
    fn take(&mut self, earlier: Option<Option<TimeNs>>, later: Option<Option<TimeNs>>) -> Option<RecordBatch> {
        let (batch, mut times) = self.batch.take()?;
        let is_due = |time: &Option<TimeNs>| {
            earlier.is_none_or(|bound| *time > bound) && later.is_none_or(|bound| *time >= bound)
        };
        let count = times.iter().take_while(|time| is_due(time)).count().max(1);
        if count < times.len() {
            times.drain(..count);
            self.batch = Some((batch.slice(count, times.len()), times));
        }
        Some(batch.slice(0, count))
    }
}

impl MergedRows {
    /// Of rows with equal times, those of the first source come first, however the sources divide their rows into batches.
    fn new(sources: Vec<RowIter>) -> MergedRows {
        let sources = sources.into_iter().map(|rows| Source { rows, batch: None }).collect();
        MergedRows { sources, is_started: false }
    }

    fn next_rows(&mut self) -> Result<Option<RecordBatch>, EngineError> {
        if !self.is_started {
            self.is_started = true;
            self.sources.iter_mut().try_for_each(Source::fill)?;
        }
        let newest = self.sources.iter().enumerate().filter_map(|(at, source)| Some((source.newest()?, at)));
        let Some((_, at)) = newest.max_by_key(|(time, at)| (*time, std::cmp::Reverse(*at))) else { return Ok(None) };
        let newest_of = |sources: &[Source]| sources.iter().filter_map(Source::newest).max();
        let (earlier, later) = (newest_of(&self.sources[..at]), newest_of(&self.sources[at + 1..]));
        let taken = self.sources[at].take(earlier, later);
        self.sources[at].fill()?;
        Ok(taken)
    }
}

impl Iterator for MergedRows {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_rows().transpose();
        if matches!(next, Some(Err(_))) {
            self.sources.clear();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use quarry_eval::rows::{ColumnBuilder, Value, batch_of, of_batches};

    use super::*;

    fn rows_of(number: i64, batches: &[&[i64]]) -> RowIter {
        let batch = |times: &&[i64]| {
            let (mut time, mut source) = (ColumnBuilder::new(times.len()), ColumnBuilder::new(times.len()));
            times.iter().for_each(|at| time.push(Value::Time(*at)));
            times.iter().for_each(|_| source.push_int(number));
            batch_of([("_time", time.finish()), ("source", source.finish())], times.len()).unwrap()
        };
        of_batches(batches.iter().map(batch).collect())
    }

    /// The times of the merged rows, each with the number of its source.
    fn merged(sources: &[Vec<&[i64]>]) -> Vec<(Option<i64>, String)> {
        let sources = sources.iter().zip(1..).map(|(batches, number)| rows_of(number, batches)).collect();
        let mut found = Vec::new();
        for batch in MergedRows::new(sources) {
            let batch = batch.unwrap();
            let (times, sources) = (rows::reader(&batch, "_time"), rows::reader(&batch, "source"));
            let mut scratch = String::new();
            for row in 0..batch.num_rows() {
                found.push((time_ns(&times, row), sources.text(row, &mut scratch).unwrap_or_default().to_owned()));
            }
        }
        found
    }

    #[test]
    fn rows_of_equal_times_are_in_the_order_of_the_sources_for_any_batches() {
        let expected: Vec<(Option<i64>, String)> =
            [(7, "2"), (5, "1"), (5, "2"), (5, "2"), (5, "3"), (4, "1"), (4, "2")]
                .map(|(time, source)| (Some(time), source.to_owned()))
                .to_vec();
        for first in [vec![&[5, 4][..]], vec![&[5][..], &[4]]] {
            for second in [vec![&[7, 5, 5, 4][..]], vec![&[7][..], &[5, 5], &[4]], vec![&[7, 5][..], &[], &[5, 4]]] {
                assert_eq!(merged(&[first.clone(), second, vec![&[5][..]]]), expected);
            }
        }
    }
}
