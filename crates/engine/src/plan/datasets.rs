//! Planning of commands that refer to objects outside the search: datamodel, savedsearch, searchtxn, and the commands
//! that are rewritten to one of these three.

use std::collections::BTreeSet;

use quarry_eval::EngineError;
use quarry_event::TimeRange;
use quarry_event::time::parse_time;
use quarry_scan::plan::FieldSource;
use quarry_spl::ast::{
    Command, DataModelCommand, DataModelMode, DataModelName, DedupCommand, FieldPattern, FieldsCommand, FormatCommand,
    NodeBuilder, Pipeline, RenameCommand, SavedSearchCommand, SearchCommand, SearchExpr, SearchTxnCommand, Span, Stage,
    TimeModifiers, TransactionCommand, TransactionKind,
};
use quarry_spl::first_fault;
use quarry_stdx::Fault;

use super::{InnerSearch, Plan, Planner, Source};
use crate::knowledge::did_you_mean;

/// Maximum nesting depth of saved searches.
const SAVED_SEARCH_DEPTH_MAX: usize = 8;
/// Fields that every event of a data model keeps.
const EVENT_FIELDS: [&str; 6] = ["host", "source", "sourcetype", "index", "eventtype", "tag"];

impl Planner<'_> {
    /// The plan of `searchtxn` and the commands after it. The plan selects events by the stanza's search, keeps events
    /// that share the values of all (or any) of the stanza's `fields` with an event that matches the condition, and
    /// groups them into transactions.
    pub(super) fn transactions(&self, command: &SearchTxnCommand, rest: &[Stage]) -> Result<Plan, EngineError> {
        let invalid = |message: String| EngineError::Invalid { message, span: Some(command.span) };
        let knowledge = &self.runner.knowledge;
        let (kind, condition) = (&command.kind, &command.condition);
        let Some(settings) = knowledge.transaction_type(kind) else {
            let hint = did_you_mean(kind, &knowledge.transaction_types());
            return Err(invalid(format!("searchtxn: transactiontypes.conf has no stanza {kind}{hint}")));
        };
        let setting = |name: &str| settings.get(name).map(|text| text.trim()).filter(|text| !text.is_empty());
        let selected = self.runner.expand_macros(setting("search").unwrap_or("*"));
        let selected = selected.map_err(|fault| invalid(format!("searchtxn: {fault}")))?;
        let selected = match quarry_spl::parse_arguments("search", &selected) {
            Ok(Command::Search(search)) => search,
            Ok(_) => {
                return Err(invalid(format!("searchtxn: transactiontypes.conf [{kind}]: search= is not a condition")));
            }
            Err(remarks) => {
                let fault = first_fault(&remarks);
                return Err(invalid(format!("searchtxn: with transactiontypes.conf [{kind}]: {fault}")));
            }
        };
        let fields: Vec<&str> = setting("fields")
            .unwrap_or_default()
            .split([',', ' '])
            .map(|name| name.trim_matches('"'))
            .filter(|name| !name.is_empty())
            .collect();
        let make = NodeBuilder::at(command.span);
        let mut search = selected.clone();
        if !fields.is_empty() {
            let join = if command.any { "OR" } else { "AND" };
            let time = condition.time.clone().or(&selected.time);
            let matching = SearchExpr::conjunction(vec![selected.expr, condition.expr.clone()]);
            let subsearch = make.pipeline(vec![
                SearchCommand { expr: matching, time }.into(),
                make.table(&fields),
                DedupCommand { keep_empty: true, fields: make.patterns(&fields), ..DedupCommand::default() }.into(),
                make.head(command.terms_max),
                FormatCommand { column_separator: join.to_owned(), ..FormatCommand::default() }.into(),
            ]);
            search.expr = SearchExpr::conjunction(vec![search.expr, SearchExpr::Subsearch(Box::new(subsearch))]);
        }
        let mut commands = vec![make.stage(search)];
        if !command.events_only {
            let named = TransactionKind { name: kind.clone(), span: command.span, options: String::new() };
            commands.push(make.stage(TransactionCommand { kind: Some(named), ..TransactionCommand::default() }));
            let expr = condition.expr.clone();
            commands.push(make.stage(SearchCommand { expr, time: TimeModifiers::default() }));
        }
        commands.extend_from_slice(rest);
        self.plan(&Pipeline { commands, span: command.span })
    }

    /// The plan of `savedsearch` and the commands after it.
    pub(super) fn saved_search(&self, command: &SavedSearchCommand, rest: &[Stage]) -> Result<Plan, EngineError> {
        let invalid = |message: String| EngineError::Invalid { message, span: Some(command.span) };
        let name = &command.name;
        if self.runner.depth >= SAVED_SEARCH_DEPTH_MAX {
            return Err(invalid(format!("saved searches are nested more than {SAVED_SEARCH_DEPTH_MAX} deep")));
        }
        let mut tokens = Vec::new();
        if command.substitutes {
            tokens.clone_from(&command.tokens);
            // A stored value applies if the command gives none.
            tokens.extend(self.runner.knowledge.saved_arguments(name));
        }
        let text = self.runner.saved_text_with_tokens(name, &tokens, command.span)?;
        let parsed = quarry_spl::parse_with_commands(&text, &self.runner.commands.names());
        if let Some(fault) = parsed.diagnostics.iter().find(|remark| remark.severity == quarry_spl::Severity::Error) {
            return Err(invalid(format!("saved search {name}: {fault}")));
        }
        let range = self.saved_range(name, command.span)?;
        let runner = self.runner.for_saved_search(range);
        let planner = Planner { runner: &runner, fields: FieldSource::SearchTime, subsearches: self.subsearches };
        let (name, span) = (name.clone(), command.span);
        let plan = planner.plan(&parsed.pipeline).map_err(|error| error.in_saved_search(&name, span))?;
        let inner = InnerSearch { name, span, text, plan, range };
        Ok(Plan::of_rows(Source::Search(Box::new(inner)), rest.to_vec()))
    }

    /// The time range of a saved search: the range of the calling search, or the saved range if the calling search
    /// covers all time.
    fn saved_range(&self, name: &str, span: Span) -> Result<TimeRange, EngineError> {
        let context = &self.runner.context;
        if context.range != TimeRange::default() {
            return Ok(context.range);
        }
        let time = |setting: &str, text: Option<String>| {
            // A real-time window selects nothing of the past. In Splunk, an earliest time of 0 means all time.
            let text = text.filter(|text| !matches!(text.trim(), "" | "0") && !text.trim().starts_with("rt"));
            let parsed = text.map(|text| parse_time(&text, context.now, &context.zone)).transpose();
            parsed.map_err(|error| {
                let fault =
                    Fault::invalid(error.to_string()).with_context(format_args!("saved search {name}: {setting}"));
                EngineError::at(fault, span)
            })
        };
        let (earliest, latest) = self.runner.knowledge.saved_time_range(name);
        Ok(TimeRange {
            earliest: time("dispatch.earliest_time", earliest)?,
            latest: time("dispatch.latest_time", latest)?,
        })
    }

    /// The plan of `datamodel`, `from` or `pivot` and the commands after it. Its rows are the events of an object;
    /// their field names may include the object's path.
    pub(super) fn model_events(
        &self,
        command: &DataModelCommand,
        name: &DataModelName,
        span: Span,
        rest: &[Stage],
    ) -> Result<Plan, EngineError> {
        let object = self.model_object(name, &BTreeSet::new())?;
        if let Some((field, span)) = command.required.iter().find(|(field, _)| !object.has_field(field)) {
            let message = format!("pivot: {}", object.unknown_field_message(field));
            return Err(EngineError::Invalid { message, span: Some(*span) });
        }
        let fields = object.fields();
        let wanted: BTreeSet<String> = fields.iter().map(|(_, field)| field.clone()).collect();
        let (search, mut stages) = object.search(&SearchExpr::All, TimeModifiers::default(), &wanted, span);
        let pattern = |text: &str| FieldPattern { text: text.to_owned(), span };
        let mut commands = Vec::new();
        if command.strict_fields {
            let kept = wanted.iter().map(String::as_str).chain(EVENT_FIELDS);
            commands.push(Command::from(FieldsCommand { removes: false, fields: kept.map(pattern).collect() }));
        }
        if command.mode == DataModelMode::Search {
            let named = fields.iter().filter(|(_, field)| !EVENT_FIELDS.contains(&field.as_str()));
            let pairs: Vec<_> = named.map(|(path, field)| (pattern(field), pattern(path))).collect();
            commands.push(RenameCommand { pairs }.into());
        }
        stages.extend(commands.into_iter().map(|command| Stage { command, span }));
        stages.extend_from_slice(rest);
        self.object_plan(&object, search, stages, span)
    }
}
