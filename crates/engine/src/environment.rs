//! The environment of commands: the parts of the running search that they can access.
//!
//! While a search is only explained, subsearches return no rows.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::{CommandContext, Stop};
use quarry_eval::lookup::{LookupSource, LookupTable, unknown_table_message};
use quarry_eval::rows::{self, RowIter};
use quarry_scan::Report;
use quarry_spl::ast::{Command, Pipeline, SearchExpr, Span, Stage};
use quarry_stdx::Fault;

use crate::commands::{execution, steps_of};
use crate::custom_commands::CommandSource;
use crate::knowledge::KnowledgeSource;
use crate::lowering::{Environment, SearchEnvironment, Step, lower};
use crate::node::{NodeSession, NodeSource};
use crate::plan::{Planner, Subsearches};
use crate::run::{Runner, metered};
use crate::source::SnapshotSource;
use crate::subsearch::SubsearchBounds;

/// A runner with the context of one pipeline.
pub(crate) struct PipelineEnvironment<'a> {
    /// Runner of the search.
    pub runner: &'a Runner,
    pub context: &'a CommandContext,
    /// Treatment of subsearches.
    pub subsearches: Subsearches<'a>,
}

impl<'a> PipelineEnvironment<'a> {
    /// The steps of commands.
    pub(crate) fn steps(&self, stages: &[Stage]) -> Result<Vec<Step>, EngineError> {
        let mut steps = Vec::new();
        for stage in stages {
            let of_stage = lower(stage, self)?;
            steps.extend(match self.context.costs.command_meter(stage.command.name()) {
                Some(meter) => metered(of_stage, &meter),
                None => of_stage,
            });
        }
        Ok(steps)
    }

    fn planner(&self) -> Planner<'a> {
        Planner::new(self.runner, self.subsearches)
    }
}

impl Environment for PipelineEnvironment<'_> {
    fn context(&self) -> &CommandContext {
        self.context
    }

    fn permit(&self, command: &Command, span: Span) -> Result<(), EngineError> {
        self.runner.permit(command, span)
    }

    fn subsearch(&self, pipeline: &Pipeline, bounds: SubsearchBounds) -> Result<Vec<RecordBatch>, EngineError> {
        self.planner().subsearch_rows(pipeline, bounds)
    }

    fn resolve_subsearches(&self, expr: &SearchExpr) -> Result<SearchExpr, EngineError> {
        self.planner().resolve_subsearches(expr)
    }

    fn lookup_table(&self, name: &str, span: Span) -> Result<LookupTable, EngineError> {
        self.runner.lookup_table(name, span)
    }

    fn report(&self, name: &str, span: Span) -> Result<Report, EngineError> {
        self.runner.report(name, span)
    }

    fn detach(&self) -> Arc<dyn Environment + Send + Sync> {
        Arc::new(Runner { context: self.context.clone(), ..self.runner.clone() })
    }

    fn lookups(&self) -> Arc<dyn LookupSource> {
        Arc::clone(&self.runner.lookups)
    }

    fn source(&self) -> Arc<dyn SnapshotSource> {
        Arc::clone(&self.runner.source)
    }

    fn node_name(&self) -> String {
        self.runner.node.name()
    }

    fn open_session(&self) -> Option<NodeSession> {
        self.runner.node.open_session(&self.context.permissions)
    }

    fn knowledge(&self) -> Arc<dyn KnowledgeSource> {
        Arc::clone(&self.runner.knowledge)
    }

    fn commands(&self) -> Arc<dyn CommandSource> {
        Arc::clone(&self.runner.commands)
    }

    fn saved_search_text(&self, name: &str, span: Span) -> Result<String, EngineError> {
        self.runner.saved_search_text(name, span)
    }

    fn steps_of(&self, command: &Command, span: Span) -> Result<Vec<Step>, EngineError> {
        if let Subsearches::Explain(_) = self.subsearches {
            if self.is_dynamic(command) {
                let mut inner = command.subsearches().into_iter();
                inner.try_for_each(|inner| self.subsearch(inner, SubsearchBounds::of_count(0)).map(drop))?;
                return Ok(Vec::new());
            }
            execution(command).check(self.runner)?;
        }
        steps_of(command, span, self)
    }

    fn is_dynamic(&self, command: &Command) -> bool {
        matches!(self.subsearches, Subsearches::Explain(explainer) if explainer.is_dynamic(command))
    }

    fn admit(&self, pipeline: &Pipeline) -> Result<(), EngineError> {
        self.runner.admit(pipeline)
    }
}

impl Environment for Runner {
    fn context(&self) -> &CommandContext {
        &self.context
    }

    fn permit(&self, command: &Command, span: Span) -> Result<(), EngineError> {
        Runner::permit(self, command, span)
    }

    fn subsearch(&self, pipeline: &Pipeline, bounds: SubsearchBounds) -> Result<Vec<RecordBatch>, EngineError> {
        let SubsearchBounds { rows: rows_max, time_s } = bounds;
        if let Some(known) = self.subsearch_results.replay(pipeline, rows_max) {
            return known;
        }
        let stop = Arc::new(Stop::for_subsearch(&self.context.stop, time_s));
        let dataflow = Arc::new(self.context.dataflow.for_search(&stop));
        let context = CommandContext { dataflow, stop: Arc::clone(&stop), ..self.context.clone() };
        let limited = Runner { context, ..self.clone() };
        let mut batches = Vec::new();
        let mut left = rows_max;
        for batch in limited.run(pipeline)? {
            let batch = batch?;
            if batch.num_rows() > left {
                let message =
                    format!("a subsearch returned more than {rows_max} rows; the others are dropped (maxout)");
                self.context.messages.push(message);
            }
            let batch = batch.slice(0, batch.num_rows().min(left));
            left -= batch.num_rows();
            batches.push(rows::drop_columns(&batch, rows::is_hidden)?);
            if left == 0 {
                break;
            }
        }
        if stop.has_reached_limit() {
            let message = format!("[subsearch]: Search auto-finalized after time limit ({time_s} seconds) reached.");
            self.context.messages.push(message);
        }
        Ok(batches)
    }

    fn resolve_subsearches(&self, expr: &SearchExpr) -> Result<SearchExpr, EngineError> {
        Planner::new(self, Subsearches::Run).resolve_subsearches(expr)
    }

    fn detach(&self) -> Arc<dyn Environment + Send + Sync> {
        Arc::new(self.clone())
    }

    fn lookups(&self) -> Arc<dyn LookupSource> {
        Arc::clone(&self.lookups)
    }

    fn source(&self) -> Arc<dyn SnapshotSource> {
        Arc::clone(&self.source)
    }

    fn node_name(&self) -> String {
        self.node.name()
    }

    fn open_session(&self) -> Option<NodeSession> {
        self.node.open_session(&self.context.permissions)
    }

    fn knowledge(&self) -> Arc<dyn KnowledgeSource> {
        Arc::clone(&self.knowledge)
    }

    fn commands(&self) -> Arc<dyn CommandSource> {
        Arc::clone(&self.commands)
    }

    fn saved_search_text(&self, name: &str, span: Span) -> Result<String, EngineError> {
        self.saved_search_text(name, span)
    }

    fn steps_of(&self, command: &Command, span: Span) -> Result<Vec<Step>, EngineError> {
        steps_of(command, span, self)
    }

    fn admit(&self, pipeline: &Pipeline) -> Result<(), EngineError> {
        Runner::admit(self, pipeline)
    }

    fn report(&self, name: &str, span: Span) -> Result<Report, EngineError> {
        let failed = |fault: Fault| EngineError::at(fault, span);
        let rule = self.rules.props().report_rule(name);
        let missing = || failed(Fault::not_found(format!("transforms.conf has no stanza {name} that extracts fields")));
        let report = Report::new(rule.ok_or_else(missing)?);
        report.map_err(|fault| failed(fault.with_context(format_args!("transforms.conf [{name}]"))))
    }

    fn lookup_table(&self, name: &str, span: Span) -> Result<LookupTable, EngineError> {
        let missing = || Fault::not_found(unknown_table_message(name, self.lookups.as_ref()));
        let table = self.lookups.table(name).and_then(|table| table.ok_or_else(missing));
        table.map_err(|fault| EngineError::at(fault, span))
    }
}

impl SearchEnvironment for Runner {
    fn run(&self, pipeline: &Pipeline) -> Result<RowIter, EngineError> {
        Runner::run(self, pipeline)
    }

    fn node(&self) -> &dyn NodeSource {
        self.node.as_ref()
    }

    fn default_indexes(&self) -> &[String] {
        &self.default_indexes
    }
}
