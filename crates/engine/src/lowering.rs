//! Lowering: from a command of the syntax tree to the steps that run it. Defines the interface of commands
//! ([`Execute`]), their [`Environment`] and their steps.
//!
//! Patterns and expressions are compiled here, once, so that a fault is reported with its position before any event is
//! read. Results of subsearches and lookup tables come from the [`Environment`].
//!
//! Not here: the commands, and their dispatch ([`crate::commands`]).

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::{MakeRowCommand, Reduce, RowCommand};
use quarry_eval::context::CommandContext;
use quarry_eval::expr::{CompiledExpr, ExprContext};
use quarry_eval::lookup::{LookupSource, LookupTable};
use quarry_eval::pattern::Regex;
use quarry_eval::rows::RowIter;
use quarry_scan::Report;
use quarry_spl::ast::{Command, Expr, FieldPattern, Pattern, Pipeline, SearchExpr, Span, Stage, SubsearchLimits};
use quarry_spl::commands::Kind;

use crate::blocking::Blocking;
use crate::custom_commands::CommandSource;
use crate::knowledge::KnowledgeSource;
use crate::node::{NodeSession, NodeSource};
use crate::source::SnapshotSource;
use crate::subsearch::SubsearchBounds;

/// One step of a search.
#[derive(Clone)]
pub(crate) enum Step {
    /// Row by row.
    Row {
        /// Makes the command for one worker.
        make: MakeRowCommand,
        /// Whether rows must pass in order through one instance.
        ordered: bool,
    },
    /// A fold.
    Reduce(Arc<dyn Reduce>),
    /// All rows at once.
    Blocking(Arc<dyn Blocking>),
}

impl Step {
    /// Demand of the step on the order and number of its rows.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Step::Row { ordered: false, .. } => Kind::Row,
            Step::Row { ordered: true, .. } => Kind::OrderedRow,
            Step::Reduce(_) => Kind::Fold,
            Step::Blocking(_) => Kind::Blocking,
        }
    }

    /// The factory of the row command, if the step is a row command.
    pub(crate) fn into_row(self) -> Option<MakeRowCommand> {
        match self {
            Step::Row { make, .. } => Some(make),
            Step::Reduce(_) | Step::Blocking(_) => None,
        }
    }
}

/// Interface of lowering to the running search.
pub(crate) trait Environment {
    /// The search's context.
    fn context(&self) -> &CommandContext;
    /// Refuses a command that the user may not run.
    fn permit(&self, command: &Command, span: Span) -> Result<(), EngineError>;
    /// Rows of a subsearch within its bounds.
    fn subsearch(&self, pipeline: &Pipeline, bounds: SubsearchBounds) -> Result<Vec<RecordBatch>, EngineError>;
    /// The expression with subsearches replaced by their results.
    fn resolve_subsearches(&self, expr: &SearchExpr) -> Result<SearchExpr, EngineError>;
    /// An owned environment, for commands that create steps while they run.
    fn detach(&self) -> Arc<dyn Environment + Send + Sync>;
    /// Store of lookup tables and models, and of the files of `dump`.
    fn lookups(&self) -> Arc<dyn LookupSource>;
    /// Commands of apps.
    fn commands(&self) -> Arc<dyn CommandSource>;
    /// Event types, tags and macros.
    fn knowledge(&self) -> Arc<dyn KnowledgeSource>;
    /// Store of the events.
    fn source(&self) -> Arc<dyn SnapshotSource>;
    fn node_name(&self) -> String;
    /// A session of the search's user at the node's REST interface, for a program.
    fn open_session(&self) -> Option<NodeSession>;
    /// Text of a saved search with its macros expanded.
    fn saved_search_text(&self, name: &str, span: Span) -> Result<String, EngineError>;
    /// A field extraction of transforms.conf.
    fn report(&self, name: &str, span: Span) -> Result<Report, EngineError>;
    fn lookup_table(&self, name: &str, span: Span) -> Result<LookupTable, EngineError>;
    /// The steps of a command that receives rows from another.
    fn steps_of(&self, command: &Command, span: Span) -> Result<Vec<Step>, EngineError>;
    /// Whether the contents of a command are known only when the search runs.
    fn is_dynamic(&self, _command: &Command) -> bool {
        false
    }
    /// Called before any command runs: refuses a search that the user may not run, and a faulty search with side
    /// effects.
    fn admit(&self, pipeline: &Pipeline) -> Result<(), EngineError>;
}

/// Additional environment for commands that begin a search and generate rows, and for checks of commands.
pub(crate) trait SearchEnvironment: Environment {
    /// The rows of a search.
    fn run(&self, pipeline: &Pipeline) -> Result<RowIter, EngineError>;
    /// The node's data other than events.
    fn node(&self) -> &dyn NodeSource;
    /// Indexes read if a search names no index.
    fn default_indexes(&self) -> &[String];
}

/// Execution of a command of the syntax tree.
pub(crate) trait Execute {
    /// The steps that run the command on the rows of preceding commands; an error for commands that can only begin a
    /// search.
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Err(lowering.not_first_error())
    }

    /// Reports faults that would otherwise appear only at run time, such as a missing table or model.
    fn check(&self, _environment: &dyn SearchEnvironment) -> Result<(), EngineError> {
        Ok(())
    }

    /// The rows that the command generates at the start of a search; `None` if it consumes rows.
    fn generate(&self, _search: &dyn SearchEnvironment) -> Result<Option<RowIter>, EngineError> {
        Ok(None)
    }
}

/// The steps of a command that is not the first.
pub(crate) fn lower(stage: &Stage, environment: &dyn Environment) -> Result<Vec<Step>, EngineError> {
    environment.steps_of(&stage.command, stage.span).map_err(|error| clamp_to_command(error, stage.span))
}

/// The fold among the steps of a command, and its position.
pub(crate) fn fold_of(steps: &[Step]) -> Option<(usize, &Arc<dyn Reduce>)> {
    steps.iter().enumerate().find_map(|(at, step)| match step {
        Step::Reduce(reduce) => Some((at, reduce)),
        Step::Row { .. } | Step::Blocking(_) => None,
    })
}

/// Restricts the error's position to the command: positions in generated commands refer to another text.
fn clamp_to_command(error: EngineError, command: Span) -> EngineError {
    match error.span() {
        Some(span) if span.start < command.start || span.end > command.end => error.with_span(Some(command)),
        _ => error,
    }
}

/// A command being lowered.
pub(crate) struct Lowering<'a> {
    /// Environment of the search.
    pub environment: &'a dyn Environment,
    /// Position of the command.
    pub span: Span,
    pub name: &'a str,
}

impl Lowering<'_> {
    /// The steps of a command that receives rows from another.
    pub(crate) fn steps(&self, command: &Command) -> Result<Vec<Step>, EngineError> {
        self.environment.steps_of(command, self.span)
    }

    /// The steps of a bracketed pipeline that consumes the current rows.
    pub(crate) fn steps_of(&self, pipeline: &Pipeline) -> Result<Vec<Step>, EngineError> {
        let steps = pipeline.commands.iter().map(|stage| lower(stage, self.environment));
        Ok(steps.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// The context for evaluating expressions.
    pub(crate) fn expressions(&self) -> ExprContext {
        let context = self.environment.context();
        context.expressions()
    }

    /// Compiles an expression.
    pub(crate) fn compile(&self, expr: &Expr) -> Result<Arc<CompiledExpr>, EngineError> {
        Ok(Arc::new(CompiledExpr::new(expr, &self.expressions())?))
    }

    /// Compiles a regular expression.
    pub(crate) fn regex(&self, pattern: &Pattern) -> Result<Regex, EngineError> {
        Regex::new(&pattern.text).map_err(|fault| EngineError::at(fault, pattern.span))
    }

    /// Warns the user about given options that have no effect.
    pub(crate) fn warn_ignored_options(&self, idle: &[(bool, &str)]) {
        for (_, option) in idle.iter().filter(|(given, _)| *given) {
            self.environment.context().messages.push(format!("{option} is not supported yet; it has no effect"));
        }
    }

    /// Runs a subsearch within its limits.
    pub(crate) fn subsearch(
        &self,
        pipeline: &Pipeline,
        limits: SubsearchLimits,
    ) -> Result<Vec<RecordBatch>, EngineError> {
        self.warn_ignored_options(&limits.ignored_options());
        self.environment.subsearch(pipeline, SubsearchBounds::of_rows(&limits, self.environment.context()))
    }

    /// Error for a command that can only begin a search.
    pub(crate) fn not_first_error(&self) -> EngineError {
        self.must_be_first_error(self.name, "")
    }

    /// Error for a command that can begin a search, or be used elsewhere with the options described by `or`.
    pub(crate) fn must_be_first_error(&self, command: &str, or: &str) -> EngineError {
        let message = format!("{command} must be the first command of a search{or}");
        EngineError::Invalid { message, span: Some(self.span) }
    }
}

/// Names of fields.
pub(crate) fn names(fields: &[FieldPattern]) -> Vec<String> {
    fields.iter().map(|field| field.text.clone()).collect()
}

/// A step for a stateless row command.
pub(crate) fn row<C: RowCommand + 'static>(make: impl Fn() -> C + Send + Sync + 'static) -> Step {
    Step::Row { make: Arc::new(move || Box::new(make())), ordered: false }
}

/// A step for a row command that keeps state from row to row.
pub(crate) fn ordered<C: RowCommand + 'static>(make: impl Fn() -> C + Send + Sync + 'static) -> Step {
    Step::Row { make: Arc::new(move || Box::new(make())), ordered: true }
}

/// A step for a blocking command.
pub(crate) fn blocking(command: impl Blocking + 'static) -> Step {
    Step::Blocking(Arc::new(command))
}
