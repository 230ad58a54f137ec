//! Passes rows through one row command in small portions.
//!
//! Not here: rows before the fold of a plan, which workers pass through commands page by page (scan).

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::context::{Stop, WorkStart};
use quarry_eval::rows::RowIter;

/// Approximate maximum number of values of multivalues that are passed to a command at once.
const PART_VALUES: usize = 65_536;

/// Rows through one row command.
pub(super) struct RowSteps {
    rows: RowIter,
    /// Remaining parts of a large batch, the next one last.
    parts: Vec<RecordBatch>,
    command: Box<dyn RowCommand>,
    ended: bool,
    /// Number of rows passed to the command at once.
    step_rows: usize,
    stop: Arc<Stop>,
    /// Whether the rows are events, of which a search that finishes early processes only a part.
    of_events: bool,
    /// Time at which the first rows that are not events were requested.
    work: Option<WorkStart>,
}

impl RowSteps {
    /// Applies `command` to portions of `step_rows` rows; ends when the search is cancelled.
    pub(super) fn new(rows: RowIter, command: Box<dyn RowCommand>, step_rows: usize, stop: Arc<Stop>) -> RowSteps {
        RowSteps { rows, parts: Vec::new(), command, ended: false, step_rows, stop, of_events: false, work: None }
    }

    /// Sets whether the rows are events.
    pub(super) fn over_events(self, of_events: bool) -> RowSteps {
        RowSteps { of_events, ..self }
    }

    fn should_end(&mut self) -> bool {
        if self.of_events {
            return self.stop.should_end_input();
        }
        let work = *self.work.get_or_insert_with(|| self.stop.begin_work());
        self.stop.should_end_rows(work)
    }

    /// Number of rows of a portion of a batch; fewer if the rows have long multivalues, because `mvexpand` makes a row of
    /// each value.
    fn part_rows(&self, rows: &RecordBatch) -> usize {
        let lists = rows.columns().iter().filter_map(|column| column.as_list_opt::<i32>());
        let ends = lists.filter_map(|lists| Some((*lists.value_offsets().first()?, *lists.value_offsets().last()?)));
        let values: usize = ends.map(|(first, last)| last.abs_diff(first) as usize).sum();
        let rows_with_values = PART_VALUES.saturating_mul(rows.num_rows()) / values.max(1);
        if values > PART_VALUES { self.step_rows.min(rows_with_values.max(1)) } else { self.step_rows }
    }

    /// The next rows, in small portions, so that the command's output stays small.
    fn next_part(&mut self) -> Option<Result<RecordBatch, EngineError>> {
        if self.parts.is_empty() {
            let rows = match self.rows.next()? {
                Ok(rows) => rows,
                Err(error) => return Some(Err(error)),
            };
            let part_rows = self.part_rows(&rows);
            let starts = (0..rows.num_rows().max(1)).step_by(part_rows).rev();
            self.parts = starts.map(|start| rows.slice(start, part_rows.min(rows.num_rows() - start))).collect();
        }
        self.parts.pop().map(Ok)
    }
}

impl Iterator for RowSteps {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended && !self.command.is_done() && !self.should_end() {
            match self.next_part()?.and_then(|rows| self.command.apply(rows)) {
                Ok(rows) if rows.num_rows() == 0 => {}
                Ok(rows) => return Some(Ok(rows)),
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use quarry_eval::rows::{ColumnBuilder, batch_of, of_batches};

    /// A command whose client disconnects while the command processes its first rows.
    struct CancellingCommand {
        stop: Arc<Stop>,
        received_rows: Arc<std::sync::Mutex<Vec<usize>>>,
    }

    impl RowCommand for CancellingCommand {
        fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
            self.received_rows.lock().unwrap().push(rows.num_rows());
            self.stop.cancel();
            Ok(rows)
        }
    }

    /// Records the number of rows that it receives at once.
    struct RecordingCommand(Arc<std::sync::Mutex<Vec<usize>>>);

    impl RowCommand for RecordingCommand {
        fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
            self.0.lock().unwrap().push(rows.num_rows());
            Ok(rows)
        }
    }

    #[test]
    fn rows_with_long_multivalues_are_passed_in_smaller_portions() {
        // Rows, values of each row, and the expected portions of at most 1,000 rows.
        let cases: [(usize, usize, &[usize]); 4] =
            [(2_500, 2, &[1_000, 1_000, 500]), (4, 40_000, &[1, 1, 1, 1]), (300, 655, &[100, 100, 100]), (1, 9, &[1])];
        for (rows, values, expected) in cases {
            let mut column = ColumnBuilder::new(rows);
            (0..rows).for_each(|_| column.push_multi(vec!["v"; values]));
            let batch = batch_of([("a", column.finish())], rows).unwrap();
            let received = Arc::default();
            let command = Box::new(RecordingCommand(Arc::clone(&received)));
            let steps = RowSteps::new(of_batches(vec![batch]), command, 1_000, Arc::default());
            assert_eq!(steps.map(|rows| rows.unwrap().num_rows()).sum::<usize>(), rows);
            assert_eq!(*received.lock().unwrap(), expected, "{rows} rows of {values} values");
        }
    }

    #[test]
    fn cancelled_searches_process_no_further_part_of_a_batch() {
        let stop: Arc<Stop> = Arc::default();
        let given = Arc::default();
        let command = CancellingCommand { stop: Arc::clone(&stop), received_rows: Arc::clone(&given) };
        let batch = batch_of(Vec::<(String, _)>::new(), 1_000).unwrap();
        let mut steps = RowSteps::new(of_batches(vec![batch.clone(), batch]), Box::new(command), 10, stop);
        assert_eq!(steps.next().unwrap().unwrap().num_rows(), 10);
        assert!(steps.next().is_none());
        assert_eq!(*given.lock().unwrap(), [10]);
    }
}
