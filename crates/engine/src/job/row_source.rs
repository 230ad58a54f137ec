//! The rows of a search, computed on the thread that requests them.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::panics::catch_panic;
use quarry_eval::rows::RowIter;
use quarry_eval::{EngineError, messages, rows};
use quarry_spl::ast::Pipeline;
use quarry_spl::macros::SpanMap;
use quarry_spl::{excerpt, truncate_message};

use crate::field_formats::DisplayFormats;
use crate::plan::Plan;
use crate::run::Runner;
use crate::run::preview::Previews;

/// The result of a search: all rows, or an error that ends them. No event is read before the first request.
pub(super) struct SearchRows {
    runner: Runner,
    work: RowSource,
    /// Maps positions in the pipeline to the original search.
    spans: SpanMap,
    previews: Arc<Previews>,
    state: State,
}

/// Input of [`SearchRows`].
pub(super) enum RowSource {
    /// A search that has not been planned yet.
    Search(Pipeline),
    /// A plan, made by this or another engine.
    Plan(Box<Plan>),
    /// The part of a plan that runs next to the data.
    Map(Box<Plan>),
    /// The part of a plan that runs once, on the rows of its exchange.
    Reduce(Box<Plan>, RowIter),
}

enum State {
    New,
    Begun(Arc<DisplayFormats>, RowIter),
    /// Rows of an exchange, which are returned unchanged.
    Exchanged(RowIter),
    Ended,
}

impl SearchRows {
    /// The rows of a search.
    pub(super) fn new(runner: Runner, work: RowSource, spans: SpanMap, previews: Arc<Previews>) -> SearchRows {
        SearchRows { runner, work, spans, previews, state: State::New }
    }

    /// Drops the sources of the rows.
    pub(super) fn end(&mut self) {
        self.state = State::Ended;
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>, EngineError> {
        if self.runner.context.stop.is_cancelled() {
            return Ok(None);
        }
        if let State::New = self.state {
            self.state = self.begin()?;
        }
        match &mut self.state {
            State::Begun(formats, made) => {
                let Some(batch) = made.next().transpose()? else { return Ok(None) };
                formats.apply(rows::drop_columns(&batch, rows::is_hidden)?).map(Some)
            }
            State::Exchanged(made) => made.next().transpose(),
            State::New | State::Ended => Ok(None),
        }
    }

    /// Starts the computation of the rows, when the first rows are requested.
    fn begin(&mut self) -> Result<State, EngineError> {
        let pipeline = match &self.work {
            RowSource::Search(pipeline) => Cow::Borrowed(pipeline),
            RowSource::Plan(plan) | RowSource::Map(plan) | RowSource::Reduce(plan, _) => Cow::Owned(plan.pipeline()),
        };
        self.runner.admit(&pipeline)?;
        let formats = Arc::new(DisplayFormats::of(&pipeline, &self.runner.context)?);
        let shown = Some((&formats, &self.previews));
        let rows = match &mut self.work {
            RowSource::Search(pipeline) => {
                self.runner.execute_with_previews(self.runner.plan_search(pipeline)?, shown)?
            }
            RowSource::Plan(plan) => self.runner.execute_with_previews(plan.as_ref().clone(), shown)?,
            RowSource::Map(plan) => return Ok(State::Exchanged(self.runner.map(plan)?)),
            RowSource::Reduce(plan, exchanged) => {
                self.runner.reduce(plan, std::mem::replace(exchanged, rows::of_batches(Vec::new())))?
            }
        };
        Ok(State::Begun(formats, rows))
    }

    /// The next rows; at the end, the sources are dropped before `None` is returned.
    fn advance_or_end(&mut self) -> Result<Option<RecordBatch>, EngineError> {
        // Commands leave their loops with an error when a search is cancelled. The search then ends without this error.
        let next = match self.advance() {
            Err(_) if self.runner.context.stop.is_cancelled() => Ok(None),
            next => next,
        };
        if !matches!(next, Ok(Some(_))) {
            self.end();
            let context = &self.runner.context;
            if let Some(events) = context.stop.events_max().filter(|_| context.stop.has_read_enough_events()) {
                context.messages.push(format!("Search auto-finalized after {events} matching events were read."));
            }
        }
        next
    }

    /// Maps the position of an error to the original search.
    fn locate_error(&self, error: EngineError) -> EngineError {
        let (message, span) = match error {
            EngineError::Invalid { message, span: Some(span) } => (message, span),
            other => {
                let place = other.span().map(|span| self.spans.original(span));
                return other.with_span(place);
            }
        };
        let message = match self.spans.fragment(span) {
            Some(fragment) => format!("{message} (the macro expands to `{}`)", excerpt(&fragment)),
            None => message,
        };
        EngineError::Invalid { message: truncate_message(message), span: Some(self.spans.original(span)) }
    }
}

impl Iterator for SearchRows {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        let _noted = messages::enter_scope(Some(Arc::clone(&self.runner.context.messages)));
        let _counting = self.runner.progress.reads().count_thread_reads();
        let _working = self.runner.context.dataflow.begin_work();
        match catch_panic("commands were run", || self.advance_or_end()) {
            Ok(rows) => rows.map(Ok),
            Err(error) => {
                // After a panic, the sources have not been dropped yet.
                self.end();
                Some(Err(self.locate_error(error)))
            }
        }
    }
}
