//! The plan of `tstats`: a search over index-time fields, or over a data model object, folded as by `stats`.
//!
//! For an accelerated data model, summaries are read where they exist and events elsewhere; the rows are the same.
//! `summariesonly=true` skips the events. With `prestats=true` the rows are passed on unfolded, and the reporting
//! command that follows folds them.

use std::collections::BTreeSet;

use quarry_eval::EngineError;
use quarry_event::segment::is_major;
use quarry_scan::plan::{FieldSource, SummaryScan};
use quarry_spl::analyse::{required_fields, search_fields};
use quarry_spl::ast::{
    Aggregate, AggregateArg, AssignTarget, Assignment, BinCommand, BinOptions, BinSpan, Command, CompareOp,
    DataModelName, DependsOn, EvalCommand, FieldPattern, FillNullCommand, MeasurementsCommand, NamePart, NodeBuilder,
    Pattern, Pipeline, RenameCommand, RexCommand, RexExtraction, SearchCommand, SearchExpr, SeriesOptions, Span, Stage,
    TimeChartCommand, TimeModifiers, TstatsCommand, TstatsSource,
};
use quarry_stdx::Fault;

use super::{Plan, Planner, Series, Source};
use crate::knowledge::object::{FieldReferent, MEMBER_VALUE, ModelObject};
use crate::knowledge::{data_model, model_text};
use crate::series_rates::{SPAN, groups_series, has_series_rates};

/// Field with the name of a metric.
const METRIC: &str = MeasurementsCommand::METRIC;
/// Field with the measured number.
const VALUE: &str = MeasurementsCommand::VALUE;

impl Planner<'_> {
    /// The plan of `tstats` and the commands after it.
    pub(super) fn tstats(&self, tstats: &TstatsCommand, span: Span, rest: &[Stage]) -> Result<Plan, EngineError> {
        let invalid = |message: String, span| Err(EngineError::Invalid { message, span: Some(span) });
        match &tstats.source {
            TstatsSource::Indexes => {
                let plan = TstatsPlan::new(tstats, None, span);
                let search = SearchCommand { expr: tstats.filter.clone(), time: tstats.time.clone() };
                let commands = [plan.stages(tstats), rest.to_vec()].concat();
                Planner { fields: FieldSource::IndexTime, ..*self }.plan_events(&search, commands, None)
            }
            TstatsSource::DataModel(name) => self.tstats_of_model(name, tstats, span, rest),
            TstatsSource::Metrics => {
                let mut plan = TstatsPlan::of_metrics(tstats, span);
                let mut filter = tstats.filter.clone();
                if requires_measurements(tstats) {
                    // The filter is resolved once, because it is used for events and for measurements.
                    let whole = self.resolve_subsearches(&filter)?;
                    filter = MeasurementsCommand::event_condition(&whole);
                    let left = MeasurementsCommand::remaining_condition(&whole);
                    let kept = SearchCommand { expr: left, time: TimeModifiers::default() };
                    plan.field_commands
                        .splice(0..0, [Command::Measurements(MeasurementsCommand::default()), kept.into()]);
                }
                let mut parts = vec![filter, plan.metric_condition()];
                parts.retain(|part| *part != SearchExpr::All);
                let search = SearchCommand { expr: SearchExpr::And(parts), time: tstats.time.clone() };
                if !has_series_rates(tstats) && !groups_series(tstats) {
                    return self.plan_events(&search, [plan.stages(tstats), rest.to_vec()].concat(), None);
                }
                // The series of a measurement depends on all of its fields.
                let metrics = plan.required_fields.iter().cloned().collect();
                let before =
                    std::mem::take(&mut plan.field_commands).into_iter().map(|command| Stage { command, span });
                let measured = self.plan_events(&search, before.collect(), None)?;
                let folded = if has_series_rates(tstats) { Vec::new() } else { plan.stages(tstats) };
                let series = Series { measured, metrics, command: tstats.clone(), span };
                Ok(Plan::of_rows(Source::Series(Box::new(series)), [folded, rest.to_vec()].concat()))
            }
            TstatsSource::Namespace(name, span) => {
                invalid(format!("tstats: there is no namespace {name}; tscollect is not supported"), *span)
            }
            TstatsSource::Job(sid, span) => {
                invalid(format!("tstats: there is no tscollect job {sid}; tscollect is not supported"), *span)
            }
        }
    }

    fn tstats_of_model(
        &self,
        name: &DataModelName,
        tstats: &TstatsCommand,
        span: Span,
        rest: &[Stage],
    ) -> Result<Plan, EngineError> {
        // Subsearch results may also use names of the model.
        let tstats = &TstatsCommand { filter: self.resolve_subsearches(&tstats.filter)?, ..tstats.clone() };
        let object = self.model_object(name, &mentioned_names(tstats))?;
        let plan = TstatsPlan::new(tstats, Some(&object), span);
        let messages = &self.runner.context.messages;
        plan.unknown.iter().for_each(|field| messages.push(object.unknown_name_message(field)));
        let tested = search_fields(&tstats.filter);
        tested.iter().filter_map(|field| object.unknown_path_message(field)).for_each(|message| messages.push(message));
        let summary = self.summary_of(name, &object, tstats, span, rest)?;
        let filter = object.resolve_names(&tstats.filter);
        let (search, mut stages) = object.search(&filter, tstats.time.clone(), &plan.required_fields, span);
        stages.extend(plan.stages(tstats));
        stages.extend_from_slice(rest);
        match object.base_search() {
            None => self.plan_events(&search, stages, summary),
            // The object cannot have summaries, so there are no rows.
            Some(_) if tstats.summaries_only => Ok(Plan::of_rows(Source::Nothing, stages)),
            Some(_) => self.object_plan(&object, search, stages, span),
        }
    }

    /// The summaries that a search over an object may read, with the commands for their rows.
    fn summary_of(
        &self,
        name: &DataModelName,
        object: &ModelObject,
        tstats: &TstatsCommand,
        span: Span,
        rest: &[Stage],
    ) -> Result<Option<SummaryScan>, EngineError> {
        let runner = self.runner;
        let mut read = SummaryScan { only: tstats.summaries_only, ..SummaryScan::default() };
        let without = |read: SummaryScan, what: String| {
            if tstats.summaries_only {
                runner.context.messages.push(format!(
                    "{what}, so summariesonly=true finds nothing: omit it to read the events{}",
                    if what.ends_with("accelerated") { ", or set acceleration=true in datamodels.conf" } else { "" }
                ));
            }
            tstats.summaries_only.then_some(read)
        };
        let Some(acceleration) = runner.summaries.acceleration(&name.model, runner.context.now) else {
            return Ok(without(read, format!("data model {} is not accelerated", name.model)));
        };
        read.earliest = acceleration.earliest;
        let root = object.summarised_as();
        read.object = format!("{}.{root}", name.model);
        let text = model_text(runner.knowledge.as_ref(), &name.model)?;
        let model = data_model(runner.knowledge.as_ref(), &name.model)?;
        let expand = |text: &str| runner.expand_macros(text);
        let planned = ModelObject::new(&model, Some(root), &BTreeSet::new(), &expand)
            .map_err(Fault::from)
            .and_then(|root| runner.summary_plan(&root, &text));
        let plan = match planned {
            Ok(plan) => plan,
            Err(why) => {
                return Ok(without(read, format!("data model {}.{root} cannot be summarised: {why}", name.model)));
            }
        };
        let over = object.over_summary(root);
        let tstats_plan = TstatsPlan::new(tstats, Some(&over), span);
        let filter = over.resolve_names(&tstats.filter);
        let (search, _) = over.search(&filter, TimeModifiers::default(), &tstats_plan.required_fields, span);
        let by_arrival = tstats.time.index_earliest.is_some() || tstats.time.index_latest.is_some();
        let tests_columns = tests_columns(&search.expr);
        let mut stages = vec![Stage { command: Command::Search(search), span }];
        stages.extend(tstats_plan.stages(tstats));
        stages.extend_from_slice(rest);
        let needs = required_fields(&stages);
        let has = |field: &String| plan.columns.contains(field);
        if tests_columns && !by_arrival && !needs.all && needs.patterns.is_empty() && needs.fields.iter().all(has) {
            read.columns = needs.fields.into_iter().filter(|field| field != "_time").collect();
            read.columns.push("_time".to_owned());
            read.stages = Some(stages);
        }
        read.digest = Some(plan.digest);
        Ok(Some(read))
    }

    /// The object that a search refers to.
    pub(super) fn model_object(
        &self,
        name: &DataModelName,
        mentioned: &BTreeSet<String>,
    ) -> Result<ModelObject, EngineError> {
        let place = |error: EngineError| {
            let span = error.span().unwrap_or(name.span);
            error.with_span(Some(span))
        };
        let model = data_model(self.runner.knowledge.as_ref(), &name.model).map_err(place)?;
        let expand = |text: &str| self.runner.expand_macros(text);
        ModelObject::new(&model, name.object.as_deref(), mentioned, &expand).map_err(place)
    }

    /// The plan of an object's search and the commands after it.
    pub(super) fn object_plan(
        &self,
        object: &ModelObject,
        search: SearchCommand,
        commands: Vec<Stage>,
        span: Span,
    ) -> Result<Plan, EngineError> {
        let Some(base) = object.base_search() else { return self.plan_events(&search, commands, None) };
        let mut all = base.commands.clone();
        all.push(Stage { command: Command::Search(search), span });
        all.extend(commands);
        self.plan(&Pipeline { commands: all, span })
    }
}

/// Whether a condition only tests stored fields: no keywords, no labels.
fn tests_columns(expr: &SearchExpr) -> bool {
    let is_label = |field: &FieldPattern| field.text.starts_with("tag") || field.text.starts_with("eventtype");
    match expr {
        SearchExpr::All => true,
        SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().all(tests_columns),
        SearchExpr::Not(part) => tests_columns(part),
        SearchExpr::Compare { field, .. } | SearchExpr::In { field, .. } => {
            !is_label(field) && !field.text.contains('*')
        }
        SearchExpr::Keyword(_)
        | SearchExpr::Term(_)
        | SearchExpr::Case(_)
        | SearchExpr::Indexed { .. }
        | SearchExpr::Subsearch(_) => false,
    }
}

/// Names used in a `tstats`, from which the object is determined.
fn mentioned_names(tstats: &TstatsCommand) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = tstats.by.iter().map(|split| split.field.clone()).collect();
    names.extend(argument_fields(tstats).map(str::to_owned));
    names.extend(search_fields(&tstats.filter));
    node_names(&tstats.filter, &mut names);
    names
}

fn node_names(expr: &SearchExpr, names: &mut BTreeSet<String>) {
    match expr {
        SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().for_each(|part| node_names(part, names)),
        SearchExpr::Not(part) => node_names(part, names),
        SearchExpr::Compare { field, value, .. } if field.text == "nodename" => {
            names.insert(value.text.clone());
        }
        _ => {}
    }
}

fn argument_fields(tstats: &TstatsCommand) -> impl Iterator<Item = &str> {
    tstats.aggregates.iter().filter_map(|aggregate| match &aggregate.arg {
        AggregateArg::Field(field) => Some(field.text.as_str()),
        _ => None,
    })
}

/// Sources of a `tstats` command's fields, and the names they get.
struct TstatsPlan {
    make: NodeBuilder,
    /// Fields of the model's object that are read; for metrics, their names and patterns.
    required_fields: BTreeSet<String>,
    /// Unknown names.
    unknown: Vec<String>,
    /// Commands that compute fields.
    field_commands: Vec<Command>,
    /// Name as written, and the field it refers to.
    names: Vec<(String, String)>,
}

impl TstatsPlan {
    fn empty(span: Span) -> TstatsPlan {
        let (make, wanted) = (NodeBuilder::at(span), BTreeSet::new());
        TstatsPlan { make, required_fields: wanted, unknown: Vec::new(), field_commands: Vec::new(), names: Vec::new() }
    }

    fn new(tstats: &TstatsCommand, object: Option<&ModelObject>, span: Span) -> TstatsPlan {
        let mut plan = TstatsPlan::empty(span);
        let written: Vec<&str> =
            tstats.by.iter().map(|split| split.field.as_str()).chain(argument_fields(tstats)).collect();
        for name in written {
            if plan.names.iter().any(|(known, _)| known == name) {
                continue;
            }
            let field = match object {
                None => plan.index_time_field(name),
                Some(object) => plan.model_field(name, object),
            };
            plan.names.push((name.to_owned(), field));
        }
        plan
    }

    /// Like [`TstatsPlan::new`] for metrics: `_value` is the measurement of an event; any other name refers to the
    /// measurements of that metric, stored as `metric_name` and `_value` or as a field `metric_name:NAME`.
    fn of_metrics(tstats: &TstatsCommand, span: Span) -> TstatsPlan {
        let mut plan = TstatsPlan::empty(span);
        let make = plan.make;
        for split in &tstats.by {
            plan.names.push((split.field.clone(), split.field.clone()));
        }
        for metric in argument_fields(tstats) {
            if plan.names.iter().any(|(known, _)| known == metric) {
                continue;
            }
            if metric.contains('*') {
                plan.expand_wildcard(metric);
                continue;
            }
            plan.names.push((metric.to_owned(), metric.to_owned()));
            if metric == VALUE {
                continue;
            }
            let same = make.compare(CompareOp::Eq, make.field(METRIC), make.text(metric));
            let other = make.when(same, make.field(VALUE));
            plan.required_fields.insert(metric.to_owned());
            let own = make.field(&format!("{METRIC}:{metric}"));
            plan.field_commands.push(make.eval(metric, make.call("coalesce", [own, other])));
        }
        plan
    }

    /// For a wildcard, every measurement becomes a field `metric_name:NAME`.
    fn expand_wildcard(&mut self, pattern: &str) {
        self.names.push((pattern.to_owned(), format!("{METRIC}:{pattern}")));
        let is_spread = |command: &Command| matches!(command, Command::Eval(eval) if matches!(eval.assignments[..], [Assignment { target: AssignTarget::Dynamic(_), .. }]));
        self.required_fields.insert(pattern.to_owned());
        if self.field_commands.iter().any(is_spread) {
            return;
        }
        let parts = vec![NamePart::Text(format!("{METRIC}:")), NamePart::Field(METRIC.to_owned())];
        let assignment = Assignment { target: AssignTarget::Dynamic(parts), expr: self.make.field(VALUE) };
        self.field_commands.push(EvalCommand { assignments: vec![assignment] }.into());
    }

    /// Condition for events that measure one of the named metrics.
    fn metric_condition(&self) -> SearchExpr {
        // Until events are read, it is unknown which of them have fields that match a wildcard.
        if self.required_fields.iter().any(|name| name.contains('*')) {
            return SearchExpr::All;
        }
        // `_value` is the measurement of any metric.
        if self.names.iter().any(|(name, _)| name == VALUE) {
            return SearchExpr::All;
        }
        let named = self.required_fields.iter();
        let tests: Vec<SearchExpr> = named
            .flat_map(|name| [self.make.equals(METRIC, name), self.make.equals(&format!("{METRIC}:{name}"), "*")])
            .collect();
        if tests.is_empty() { SearchExpr::All } else { SearchExpr::Or(tests) }
    }

    fn index_time_field(&mut self, name: &str) -> String {
        let Some(prefix) = prefix_of(name) else { return name.to_owned() };
        let group = format!("prefix_{}", self.field_commands.len());
        self.field_commands.push(prefix_command(prefix, &group, self.make.span()));
        self.field_commands.push(self.make.eval(name, self.make.call("lower", [self.make.field(&group)])));
        name.to_owned()
    }

    fn model_field(&mut self, name: &str, object: &ModelObject) -> String {
        let make = self.make;
        match object.resolve(name) {
            FieldReferent::Field(field) => {
                self.required_fields.insert(field.clone());
                field
            }
            FieldReferent::Guarded(field, guard) => {
                let matches = match guard.member {
                    Some(column) => make.compare(CompareOp::Eq, make.field(&column), make.text(MEMBER_VALUE)),
                    None => make.call("searchmatch", [make.text(&guard.text)]),
                };
                self.field_commands.push(make.eval(name, make.when(matches, make.field(&field))));
                self.required_fields.insert(field);
                name.to_owned()
            }
            FieldReferent::Unknown => {
                self.unknown.push(name.to_owned());
                self.field_commands.push(make.eval(name, make.nullary("null")));
                name.to_owned()
            }
        }
    }

    /// The commands that produce the result of `tstats` from events.
    fn stages(mut self, tstats: &TstatsCommand) -> Vec<Stage> {
        let mut commands = std::mem::take(&mut self.field_commands);
        let by: Vec<String> = tstats.by.iter().map(|split| self.field_of(&split.field)).collect();
        let is_output = |field: &String| tstats.aggregates.iter().any(|aggregate| aggregate.name == *field);
        let meets = by.iter().any(is_output) || (1..by.len()).any(|at| by[..at].contains(&by[at]));
        if tstats.prestats || meets {
            self.copy_names(&mut commands);
        }
        let by: Vec<String> = tstats.by.iter().map(|split| self.field_of(&split.field)).collect();
        let mut by = by;
        let beside = !tstats.prestats && tstats.chart.is_none() && tstats.aggregates.iter().any(reads_time);
        for (split, field) in tstats.by.iter().zip(&mut by).filter(|_| tstats.chart.is_none()) {
            if split.field == "_time" || split.span.is_some() {
                let options = BinOptions { span: split.span.map(BinSpan::Time), ..BinOptions::default() };
                let output = (beside && field == "_time").then(|| SPAN.to_owned());
                let pattern = self.make.pattern(field);
                if let Some(output) = &output {
                    field.clone_from(output);
                }
                commands.push(Command::Bin(BinCommand { field: pattern, output, options }));
            }
        }
        if let Some(value) = &tstats.fill_null {
            let fields: Vec<FieldPattern> = by
                .iter()
                .filter(|field| *field != "_time" && *field != SPAN)
                .map(|field| self.make.pattern(field))
                .collect();
            if !fields.is_empty() {
                commands.push(Command::FillNull(FillNullCommand { value: value.clone(), fields }));
            }
        }
        if tstats.prestats {
            let mut kept: Vec<&str> = vec!["_time"];
            kept.extend(self.names.iter().map(|(_, field)| field.as_str()));
            commands.push(self.make.table(&kept));
        } else if let Some(series) = &tstats.chart {
            commands.push(self.chart(tstats, series));
        } else {
            commands.push(self.stats(tstats, &by));
            let shown = tstats.by.iter().map(|split| prefix_of(&split.field).unwrap_or(&split.field));
            let renamed = by.iter().zip(shown).filter(|(field, shown)| field != shown);
            let pairs: Vec<_> =
                renamed.map(|(field, shown)| (self.make.pattern(field), self.make.pattern(shown))).collect();
            if !pairs.is_empty() {
                commands.push(RenameCommand { pairs }.into());
            }
        }
        self.make.pipeline(commands).commands
    }

    fn field_of(&self, written: &str) -> String {
        let found = self.names.iter().find(|(name, _)| name == written);
        found.map_or_else(|| written.to_owned(), |(_, field)| field.clone())
    }

    /// Copies every field to its name as written, which later commands use.
    fn copy_names(&mut self, commands: &mut Vec<Command>) {
        for (name, field) in self.names.iter_mut().filter(|(name, field)| name != field) {
            let copied = self.make.field(&std::mem::replace(field, name.clone()));
            commands.push(self.make.eval(name, copied));
        }
    }

    /// The command of `chart=t`: `timechart` with a column for each value of the other BY field.
    fn chart(&self, tstats: &TstatsCommand, series: &SeriesOptions) -> Command {
        let span = tstats.by.iter().find(|split| split.field == "_time").and_then(|split| split.span);
        let column = tstats.by.iter().find(|split| split.field != "_time");
        Command::TimeChart(TimeChartCommand {
            aggregates: self.aggregates(tstats),
            column: column.map(|split| self.make.split(&self.field_of(&split.field))),
            series: series.clone(),
            bin: BinOptions { span: span.map(BinSpan::Time), ..BinOptions::default() },
            ..TimeChartCommand::default()
        })
    }

    fn aggregates(&self, tstats: &TstatsCommand) -> Vec<Aggregate> {
        let aggregates = tstats.aggregates.iter().map(|aggregate| {
            let mut aggregate = aggregate.clone();
            if let AggregateArg::Field(field) = &mut aggregate.arg {
                let meant = self.field_of(&field.text);
                // `expand_wildcards` looks for the pattern in the aggregate's name and replaces it with the field; if
                // `renamed` is set, it fills the wildcards of the name instead. The name contains the pattern as
                // written, not `meant`, so only the latter works.
                aggregate.renamed |= field.text.contains('*') && meant != field.text;
                field.text = meant;
            }
            aggregate
        });
        aggregates.collect()
    }

    fn stats(&self, tstats: &TstatsCommand, by: &[String]) -> Command {
        self.make.stats(self.aggregates(tstats), &by.iter().map(String::as_str).collect::<Vec<_>>()).into()
    }
}

/// Whether an `mstats` refers to metric names or `_value`; these require one row per measurement, however it is stored.
fn requires_measurements(tstats: &TstatsCommand) -> bool {
    let mut fields = tstats.by.iter().map(|split| split.field.as_str()).chain(argument_fields(tstats));
    MeasurementsCommand::mentions_metric(&tstats.filter) || fields.any(|field| field == METRIC || field == VALUE)
}

/// Whether an aggregate reads event times, which must not be replaced by their spans.
fn reads_time(aggregate: &Aggregate) -> bool {
    let of_time = matches!(&aggregate.arg, AggregateArg::Field(field) if field.text == "_time");
    of_time || aggregate.function.depends_on() == DependsOn::Time
}

/// `k=` of `PREFIX(k=)`, the column name for such values.
fn prefix_of(name: &str) -> Option<&str> {
    name.strip_prefix("PREFIX(")?.strip_suffix(')')
}

/// `PREFIX(k=)`: the texts after `k=` in terms of the event.
fn prefix_command(prefix: &str, group: &str, span: Span) -> Command {
    let escape = |text: &str| -> String {
        let escaped = |c: char| if c.is_alphanumeric() || c == '_' { c.to_string() } else { format!("\\{c}") };
        text.chars().map(escaped).collect()
    };
    let ends_terms = |byte: &u8| is_major(*byte) && !byte.is_ascii_whitespace();
    let breakers = format!("\\s{}", escape(&(b' '..=b'~').filter(ends_terms).map(char::from).collect::<String>()));
    let text = format!("(?i)(?:^|[{breakers}]){}(?<{group}>[^{breakers}]+)", escape(prefix));
    let command = RexCommand::Extract(RexExtraction {
        field: "_raw".to_owned(),
        pattern: Pattern { text, span },
        groups: vec![group.to_owned()],
        max_match: 0,
        offset_field: None,
    });
    command.into()
}
