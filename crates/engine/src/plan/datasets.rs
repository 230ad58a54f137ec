//! Planning of commands that refer to objects defined elsewhere (datamodel, from, savedsearch, searchtxn), and of
//! metadata.

use std::collections::BTreeSet;

use quarry_eval::EngineError;
use quarry_event::TimeRange;
use quarry_event::time::parse_time;
use quarry_scan::plan::FieldSource;
use quarry_spl::ast::{
    Aggregate, AggregateArg, AssignTarget, Assignment, Command, CompareOp, DataModelCommand, DataModelMode,
    DataModelName, EvalCommand, Expr, ExprKind, FieldPattern, FieldsCommand, FromCommand, InputLookupCommand,
    MetadataCommand, Pipeline, RenameCommand, SavedSearchCommand, SearchCommand, SearchExpr, SearchPattern,
    SearchTxnCommand, Span, Stage, StatsCommand, StatsFunction, TableCommand, TimeModifiers,
};
use quarry_stdx::Fault;

use super::{InnerSearch, Plan, Planner, Source};
use crate::knowledge::did_you_mean;

/// Maximum nesting depth of saved searches.
const SAVED_SEARCH_DEPTH_MAX: usize = 8;
/// Fields that every event of a data model keeps.
const EVENT_FIELDS: [&str; 6] = ["host", "source", "sourcetype", "index", "eventtype", "tag"];

impl Planner<'_> {
    /// The plan of `datamodel` and the commands after it.
    pub(super) fn data_model(
        &self,
        command: &DataModelCommand,
        first: &Stage,
        rest: &[Stage],
    ) -> Result<Plan, EngineError> {
        let (strict, span) = (command.strict_fields, first.span);
        match (&command.name, command.mode) {
            (Some(name), DataModelMode::Search) => self.model_events(name, true, strict, span, rest),
            (Some(name), DataModelMode::Flat) => self.model_events(name, false, strict, span, rest),
            // Definitions are generated rows.
            _ => Ok(Plan::of_rows(Source::Command(Box::new(first.clone())), rest.to_vec())),
        }
    }

    /// The plan of `metadata` and the commands after it: it uses only metadata of events, not their text.
    pub(super) fn metadata(&self, command: &MetadataCommand, span: Span, rest: &[Stage]) -> Result<Plan, EngineError> {
        let kind = &command.kind;
        let field = kind.strip_suffix('s').unwrap_or(kind);
        let pattern = |text: &str| FieldPattern { text: text.to_owned(), span };
        let of_index = |index: &String| SearchExpr::Compare {
            field: pattern("index"),
            op: CompareOp::Eq,
            value: SearchPattern { text: index.clone(), quoted: true, span },
            case_sensitive: false,
        };
        let mut indexes: Vec<SearchExpr> = command.indexes.iter().map(of_index).collect();
        let expr = match indexes.len() {
            0 => SearchExpr::All,
            1 => indexes.remove(0),
            _ => SearchExpr::Or(indexes),
        };
        let aggregate = |function: StatsFunction, field: Option<&str>, name: &str| Aggregate {
            function,
            arg: field.map_or(AggregateArg::Rows, |field| AggregateArg::Field(pattern(field))),
            name: name.to_owned(),
            renamed: true,
            span,
        };
        let stats = StatsCommand {
            aggregates: vec![
                aggregate(StatsFunction::Min, Some("_time"), "firstTime"),
                aggregate(StatsFunction::Max, Some("_time"), "lastTime"),
                aggregate(StatsFunction::Max, Some("_indextime"), "recentTime"),
                aggregate(StatsFunction::Count, None, "totalCount"),
            ],
            by: vec![pattern(field)],
            all_num: false,
            delim: " ".to_owned(),
            dedup_split_values: false,
        };
        let named = Assignment {
            target: AssignTarget::Field("type".to_owned()),
            expr: Expr { kind: ExprKind::Text(kind.clone()), span },
        };
        let shown = ["firstTime", field, "lastTime", "recentTime", "totalCount", "type"];
        let commands = [
            SearchCommand { expr, time: TimeModifiers::default() }.into(),
            Command::Stats(stats),
            EvalCommand { assignments: vec![named] }.into(),
            TableCommand { fields: shown.into_iter().map(pattern).collect() }.into(),
        ];
        let mut commands: Vec<Stage> = commands.into_iter().map(|command| Stage { command, span }).collect();
        commands.extend_from_slice(rest);
        self.plan(&Pipeline { commands, span })
    }

    /// The plan of `from` and the commands after it.
    pub(super) fn dataset(&self, command: &FromCommand, span: Span, rest: &[Stage]) -> Result<Plan, EngineError> {
        match command {
            FromCommand::DataModel(name) => self.model_events(name, false, false, span, rest),
            FromCommand::Pivot(name, fields) => {
                let object = self.model_object(name, &BTreeSet::new())?;
                if let Some((field, span)) = fields.iter().find(|(field, _)| !object.has_field(field)) {
                    let message = format!("pivot: {}", object.no_field(field));
                    return Err(EngineError::Invalid { message, span: Some(*span) });
                }
                self.model_events(name, false, false, span, rest)
            }
            FromCommand::Lookup(table, table_span) => {
                let lookup = InputLookupCommand {
                    table: table.clone(),
                    table_span: *table_span,
                    append: false,
                    strict: true,
                    start: 0,
                    max: usize::MAX,
                    filter: None,
                };
                let stage = Stage { command: Command::InputLookup(lookup), span };
                self.plan(&Pipeline { commands: [vec![stage], rest.to_vec()].concat(), span })
            }
            FromCommand::Transactions(command) => self.transactions(command, rest),
            FromCommand::SavedSearch(name, name_span) => {
                let command =
                    SavedSearchCommand { name: name.clone(), span: *name_span, tokens: Vec::new(), substitutes: false };
                self.saved_search(&command, rest)
            }
        }
    }

    /// The plan of `searchtxn` and the commands after it: among the events that the stanza selects, those that share a
    /// value of its fields with one that matches the condition, grouped into transactions.
    fn transactions(&self, command: &SearchTxnCommand, rest: &[Stage]) -> Result<Plan, EngineError> {
        let invalid = |message: String| EngineError::Invalid { message, span: Some(command.span) };
        let knowledge = &self.runner.knowledge;
        let (kind, condition) = (&command.kind, &command.condition);
        let Some(settings) = knowledge.transaction_type(kind) else {
            let hint = did_you_mean(kind, &knowledge.transaction_types());
            return Err(invalid(format!("searchtxn: transactiontypes.conf has no stanza {kind}{hint}")));
        };
        let setting = |name: &str| settings.get(name).map(|text| text.trim()).filter(|text| !text.is_empty());
        let selected = setting("search").map_or("*".to_owned(), |text| format!("({text})"));
        let fields: Vec<String> = setting("fields")
            .unwrap_or_default()
            .split([',', ' '])
            .filter(|name| !name.is_empty())
            .map(|name| format!("\"{}\"", name.trim_matches('"')))
            .collect();
        let mut text = format!("search {selected}");
        if !fields.is_empty() {
            let (fields, terms) = (fields.join(" "), command.terms_max);
            let join = if command.any { "OR" } else { "AND" };
            text.push_str(&format!(
                " [ search {selected} ({condition}) | table {fields} | dedup keepempty=t {fields} | head {terms} \
                 | format \"(\" \"(\" \"{join}\" \")\" \"OR\" \")\" ]"
            ));
        }
        if !command.events_only {
            text.push_str(&format!(" | transaction name=\"{kind}\" | search {condition}"));
        }
        let text = self.runner.expanded(&text).map_err(|fault| invalid(format!("searchtxn: {fault}")))?;
        let parsed = quarry_spl::parse(&text);
        if let Some(fault) = parsed.diagnostics.iter().find(|remark| remark.severity == quarry_spl::Severity::Error) {
            return Err(invalid(format!("searchtxn: with transactiontypes.conf [{kind}]: {fault}")));
        }
        let commands = [parsed.pipeline.commands, rest.to_vec()].concat();
        self.plan(&Pipeline { commands, span: command.span })
    }

    /// The plan of `savedsearch` and the commands after it.
    pub(super) fn saved_search(&self, command: &SavedSearchCommand, rest: &[Stage]) -> Result<Plan, EngineError> {
        let invalid = |message: String| EngineError::Invalid { message, span: Some(command.span) };
        let name = &command.name;
        if self.runner.depth >= SAVED_SEARCH_DEPTH_MAX {
            return Err(invalid(format!("saved searches run each other more than {SAVED_SEARCH_DEPTH_MAX} deep")));
        }
        let tokens = if command.substitutes { command.tokens.as_slice() } else { &[] };
        let text = self.runner.saved_with(name, tokens, command.span)?;
        let parsed = quarry_spl::parse_with_commands(&text, &self.runner.commands.names());
        if let Some(fault) = parsed.diagnostics.iter().find(|remark| remark.severity == quarry_spl::Severity::Error) {
            return Err(invalid(format!("saved search {name}: {fault}")));
        }
        let range = self.saved_range(name, command.span)?;
        let runner = self.runner.of_saved(range);
        let planner = Planner { runner: &runner, fields: FieldSource::SearchTime, subsearches: self.subsearches };
        let (name, span) = (name.clone(), command.span);
        let plan = planner.plan(&parsed.pipeline).map_err(|error| error.in_saved_search(&name, span))?;
        let inner = InnerSearch { name, span, text, plan, range };
        Ok(Plan::of_rows(Source::Search(Box::new(inner)), rest.to_vec()))
    }

    /// The time range of a saved search: that of the calling search, or the saved one if that is all time.
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
                let fault = Fault::invalid(error.to_string()).at(format_args!("saved search {name}: {setting}"));
                EngineError::at(fault, span)
            })
        };
        let (earliest, latest) = self.runner.knowledge.saved_range(name);
        Ok(TimeRange {
            earliest: time("dispatch.earliest_time", earliest)?,
            latest: time("dispatch.latest_time", latest)?,
        })
    }

    /// The events of a data model object, with field names with or without the object's path.
    fn model_events(
        &self,
        name: &DataModelName,
        with_path: bool,
        strict: bool,
        span: Span,
        rest: &[Stage],
    ) -> Result<Plan, EngineError> {
        let object = self.model_object(name, &BTreeSet::new())?;
        let fields = object.fields();
        let wanted: BTreeSet<String> = fields.iter().map(|(_, field)| field.clone()).collect();
        let (search, mut stages) = object.search(&SearchExpr::All, TimeModifiers::default(), &wanted, span);
        let pattern = |text: &str| FieldPattern { text: text.to_owned(), span };
        let mut commands = Vec::new();
        if strict {
            let kept = wanted.iter().map(String::as_str).chain(EVENT_FIELDS);
            commands.push(Command::from(FieldsCommand { removes: false, fields: kept.map(pattern).collect() }));
        }
        if with_path {
            let named = fields.iter().filter(|(_, field)| !EVENT_FIELDS.contains(&field.as_str()));
            let pairs: Vec<_> = named.map(|(path, field)| (pattern(field), pattern(path))).collect();
            commands.push(RenameCommand { pairs }.into());
        }
        stages.extend(commands.into_iter().map(|command| Stage { command, span }));
        stages.extend_from_slice(rest);
        self.object_plan(&object, search, stages, span)
    }
}
