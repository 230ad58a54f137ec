//! A data model object as commands: its events, and the names and calculations of its fields.
//!
//! A field belongs to the object that defines it, and its full name is the path of objects down to it
//! (`All_Changes.Account_Management.src_user`). A field of a descendant of the requested object is null in events that
//! do not meet the descendant's constraints.

use std::collections::BTreeSet;

use quarry_eval::EngineError;
use quarry_spl::analyse::{expr_fields, search_fields};
use quarry_spl::ast::{
    Command, CompareOp, Expr, FieldPattern, IpLocationCommand, LookupCommand, NodeBuilder, Pipeline, RexCommand,
    RexExtraction, SearchCommand, SearchExpr, Span, Stage, TimeModifiers, TransactionCommand,
};
use quarry_spl::first_fault;
use quarry_stdx::Fault;

use super::did_you_mean;
use super::model::{Calculation, DataModel, DataObject, Grouping};

/// A data model object, prepared for searching.
pub(crate) struct ModelObject {
    /// The search of a root search object or root transaction object; other objects are based on events.
    base_search: Option<Pipeline>,
    /// The object and its ancestors, the root first.
    chain: Vec<Member>,
    /// Descendants, in order of their paths.
    below: Vec<Member>,
    model: String,
    /// Whether this represents rows of a summary, in which conditions and calculations are columns.
    is_summary: bool,
}

/// An object of the hierarchy.
#[derive(Clone)]
struct Member {
    /// Index of the object in the model.
    position: usize,
    /// `All_Changes.Account_Management`.
    path: String,
    name: String,
    condition: SearchExpr,
    /// The condition as text.
    text: String,
    fields: Vec<String>,
    base_fields: Vec<String>,
    calculations: Vec<CalculationCommand>,
}

#[derive(Clone)]
struct CalculationCommand {
    command: Command,
    outputs: Vec<String>,
    inputs: BTreeSet<String>,
}

/// Field to which a name refers in an object.
pub(crate) enum FieldReferent {
    /// A field of the events.
    Field(String),
    /// A field of a descendant: only set in events of that object.
    Guarded(String, Guard),
    /// The name refers to no field.
    Unknown,
}

/// Condition that an event belongs to a descendant, as a syntax tree and as text.
pub(crate) struct Guard {
    pub condition: SearchExpr,
    pub text: String,
    /// The summary column with the result of the condition.
    pub member: Option<String>,
}

/// Name prefix of summary columns that mark the events of an object.
const MEMBER_COLUMN_PREFIX: &str = "__in_";
/// Maximum number of names in a message.
const NAMES_LISTED_MAX: usize = 20;
/// Value of the membership column for an event of the object.
pub(crate) const MEMBER_VALUE: &str = "1";

/// Fields set by event types and tags, independent of the model.
const LABEL_FIELDS: [&str; 2] = ["eventtype", "tag"];
/// Fields that `transaction` computes.
const TRANSACTION_FIELDS: [&str; 4] = ["duration", "eventcount", "closed_txn", "field_match_sum"];
/// Fields of every event, independent of the model.
const EVENT_FIELDS: [&str; 9] =
    ["_time", "_raw", "host", "source", "sourcetype", "index", "_indextime", "splunk_server", "linecount"];

impl ModelObject {
    /// The object `name` of a model. Without a name, the only root object or, if there are several, the only root
    /// object that is the first part of a field name in `mentioned`.
    pub(crate) fn new(
        model: &DataModel,
        name: Option<&str>,
        mentioned: &BTreeSet<String>,
        expand: &dyn Fn(&str) -> Result<String, Fault>,
    ) -> Result<ModelObject, EngineError> {
        let name = match name {
            Some(name) => name.to_owned(),
            None => root_of(model, mentioned)?,
        };
        let objects = model.chain(&name)?;
        let Some(first) = objects.first() else { return Err(model.unknown_object(&name).into()) };
        let mut chain: Vec<Member> = Vec::new();
        for object in &objects {
            chain.push(member(model, object, chain.last().map(|parent| parent.path.as_str()), expand)?);
        }
        let mut below: Vec<Member> = Vec::new();
        for object in model.objects.iter().filter(|object| objects.iter().all(|known| known.name != object.name)) {
            let parents = chain.last().into_iter().chain(&below);
            let Some(path) = parents.into_iter().find(|parent| parent.name == object.parent).map(|p| p.path.clone())
            else {
                continue;
            };
            below.push(member(model, object, Some(&path), expand)?);
        }
        let base_search = match (&first.base_search, &first.grouping) {
            (Some(text), _) => Some(pipeline_of(model, text, expand)?),
            (None, Some(grouping)) => Some(transactions(model, grouping, expand)?),
            (None, None) => None,
        };
        Ok(ModelObject { base_search, chain, below, model: model.name.clone(), is_summary: false })
    }

    /// The base search, if the object is not based on events.
    pub(crate) fn base_search(&self) -> Option<&Pipeline> {
        self.base_search.as_ref()
    }

    /// Path and name of every field of the object.
    pub(crate) fn fields(&self) -> Vec<(String, String)> {
        let own = |member: &Member| {
            let made = member.calculations.iter().flat_map(|computed| computed.outputs.iter());
            let all: BTreeSet<&String> = member.fields.iter().chain(made).collect();
            all.into_iter().map(|field| (format!("{}.{field}", member.path), field.clone())).collect::<Vec<_>>()
        };
        self.chain.iter().flat_map(own).collect()
    }

    /// Whether the object has a field of this name, given without the object's path.
    pub(crate) fn has_field(&self, name: &str) -> bool {
        let is_known = EVENT_FIELDS.contains(&name) || LABEL_FIELDS.contains(&name) || name.starts_with("date_");
        let is_computed = self.base_search.is_some() && TRANSACTION_FIELDS.contains(&name);
        let is_listed = self.chain.iter().any(|member| member.base_fields.iter().any(|field| field == name));
        is_known || is_computed || is_listed || self.fields().iter().any(|(_, field)| field == name)
    }

    /// Error text for a field that the object does not have.
    pub(crate) fn unknown_field_message(&self, name: &str) -> String {
        let path = self.chain.last().map_or("", |member| &member.path);
        let fields: Vec<String> = self.fields().into_iter().map(|(_, field)| field).collect();
        let last = name.rsplit('.').next().unwrap_or(name);
        let hint = match did_you_mean(last, &fields) {
            near if !near.is_empty() => near,
            _ if fields.is_empty() => String::new(),
            _ => format!("; it has {}", list_names(&fields)),
        };
        format!("object {path} of data model {} has no field {name}{hint}", self.model)
    }

    /// Error text for a name that includes an object's path but matches no field; `None` for other names.
    pub(crate) fn unknown_path_message(&self, name: &str) -> Option<String> {
        let members = || self.chain.iter().chain(&self.below);
        let begins = |begin: &str| name.strip_prefix(begin).is_some_and(|rest| rest.starts_with('.'));
        let is_path = members().any(|member| begins(&member.path) || begins(&member.name));
        let is_unknown = matches!(self.resolve(name), FieldReferent::Unknown);
        (is_path && is_unknown).then(|| self.unknown_name_message(name))
    }

    /// Error text for an unknown name.
    pub(crate) fn unknown_name_message(&self, name: &str) -> String {
        let made = |member: &Member| {
            let computed = member.calculations.iter().flat_map(|computed| computed.outputs.iter());
            let all: BTreeSet<&String> = member.fields.iter().chain(computed).collect();
            all.into_iter().map(|field| format!("{}.{field}", member.path)).collect::<Vec<_>>()
        };
        let known: Vec<String> = self.chain.iter().chain(&self.below).flat_map(made).collect();
        // The most likely mistake is a field name without its path.
        let with_path = known.iter().find(|path| path.rsplit('.').next() == Some(name));
        let hint = with_path.map_or_else(|| did_you_mean(name, &known), |path| format!(" (did you mean `{path}`?)"));
        format!("data model {} has no field {name}{hint}", self.model)
    }

    /// Resolves a name used in a search.
    pub(crate) fn resolve(&self, name: &str) -> FieldReferent {
        if EVENT_FIELDS.contains(&name) {
            return FieldReferent::Field(name.to_owned());
        }
        let owned = |member: &&Member, field: &str| {
            member.fields.iter().any(|known| known == field)
                || member.calculations.iter().any(|computed| computed.outputs.iter().any(|made| made == field))
        };
        let split = |member: &Member| {
            let strip = |path: &str| name.strip_prefix(path).and_then(|rest| rest.strip_prefix('.')).map(str::to_owned);
            strip(&member.path).or_else(|| strip(&member.name))
        };
        for member in self.chain.iter().rev() {
            let Some(field) = split(member) else { continue };
            // Fields defined by a parent can also be addressed by the child's name.
            let known = self.chain.iter().any(|member| owned(&member, &field));
            if known || EVENT_FIELDS.contains(&field.as_str()) || field == "tag" {
                return FieldReferent::Field(field);
            }
        }
        for member in &self.below {
            let Some(field) = split(member) else { continue };
            if owned(&member, &field) {
                return FieldReferent::Guarded(field, self.condition_below(member));
            }
        }
        FieldReferent::Unknown
    }

    /// Condition for events of a descendant, including the conditions of the objects in between.
    fn condition_below(&self, member: &Member) -> Guard {
        let way = self.below.iter().filter(|other| {
            member.path == other.path || member.path.strip_prefix(&other.path).is_some_and(|rest| rest.starts_with('.'))
        });
        let way: Vec<&Member> = way.collect();
        if self.is_summary {
            let member = member.membership_column();
            return Guard { condition: membership_test(&member), text: String::new(), member: Some(member) };
        }
        let text: Vec<String> = way.iter().map(|member| format!("({})", member.text)).collect();
        let condition = SearchExpr::And(way.iter().map(|member| member.condition.clone()).collect());
        Guard { condition, text: text.join(" "), member: None }
    }

    /// Name of the object whose summary contains the events of this object: the last object of the chain that
    /// calculates fields, or the root. Later objects of the chain only filter its events.
    pub(crate) fn summarised_as(&self) -> &str {
        let computes = self.chain.iter().skip(1).rev().find(|member| !member.calculations.is_empty());
        computes.or(self.chain.first()).map_or("", |member| &member.name)
    }

    /// The same object over rows of a summary of `root`, one of its ancestors.
    pub(crate) fn over_summary(&self, root: &str) -> ModelObject {
        let first = self.chain.iter().position(|member| member.name == root).unwrap_or(0);
        let mut chain = self.chain.clone();
        for (at, member) in chain.iter_mut().enumerate() {
            member.condition = if at > first { membership_test(&member.membership_column()) } else { SearchExpr::All };
            member.strip_summarized();
        }
        let mut below = self.below.clone();
        below.iter_mut().for_each(Member::strip_summarized);
        ModelObject { base_search: None, chain, below, model: self.model.clone(), is_summary: true }
    }

    /// For each descendant, the summary column that marks its events, and its condition.
    pub(crate) fn members_below(&self) -> Vec<(String, SearchExpr)> {
        self.below.iter().map(|member| (member.membership_column(), self.condition_below(member).condition)).collect()
    }

    /// All fields that a name can refer to, except `_raw` and `splunk_server`.
    pub(crate) fn all_fields(&self) -> BTreeSet<String> {
        // A summary has neither of them: the text is too long to be stored twice, and the server's name is a setting.
        let is_kept = |field: &&&str| !matches!(**field, "_raw" | "splunk_server");
        let event = EVENT_FIELDS.iter().filter(is_kept).map(|field| (*field).to_owned());
        let mut all: BTreeSet<String> = event.chain(["tag".to_owned()]).collect();
        for member in self.chain.iter().chain(&self.below) {
            all.extend(member.fields.iter().cloned());
            all.extend(member.calculations.iter().flat_map(|computed| computed.outputs.iter().cloned()));
        }
        all.retain(|field| !matches!(field.as_str(), "_raw" | "splunk_server"));
        all
    }

    /// Resolves the names in a condition.
    pub(crate) fn resolve_names(&self, expr: &SearchExpr) -> SearchExpr {
        let all = |parts: &[SearchExpr]| parts.iter().map(|part| self.resolve_names(part)).collect();
        match expr {
            SearchExpr::And(parts) => SearchExpr::And(all(parts)),
            SearchExpr::Or(parts) => SearchExpr::Or(all(parts)),
            SearchExpr::Not(part) => SearchExpr::Not(Box::new(self.resolve_names(part))),
            SearchExpr::Compare { field, op, value, .. } if field.text == "nodename" => {
                let node = self.node_condition(&value.text);
                if *op == CompareOp::Ne { SearchExpr::Not(Box::new(node)) } else { node }
            }
            SearchExpr::In { field, values } if field.text == "nodename" => {
                SearchExpr::Or(values.iter().map(|value| self.node_condition(&value.text)).collect())
            }
            SearchExpr::Compare { field, op, value, case_sensitive } => self.on_field(field, |field| {
                SearchExpr::Compare { field, op: *op, value: value.clone(), case_sensitive: *case_sensitive }
            }),
            SearchExpr::In { field, values } => {
                self.on_field(field, |field| SearchExpr::In { field, values: values.clone() })
            }
            other => other.clone(),
        }
    }

    fn on_field(&self, field: &FieldPattern, test: impl Fn(FieldPattern) -> SearchExpr) -> SearchExpr {
        let renamed = |text: String| FieldPattern { text, span: field.span };
        match self.resolve(&field.text) {
            FieldReferent::Field(name) => test(renamed(name)),
            FieldReferent::Guarded(name, guard) => SearchExpr::And(vec![guard.condition, test(renamed(name))]),
            FieldReferent::Unknown => test(field.clone()),
        }
    }

    /// Condition for events of the object with this path or name.
    fn node_condition(&self, path: &str) -> SearchExpr {
        let is = |member: &&Member| member.path == path || member.name == path;
        if self.chain.iter().any(|member| is(&member)) || path == "*" {
            return SearchExpr::All;
        }
        match self.below.iter().find(is) {
            Some(member) => self.condition_below(member).condition,
            None => SearchExpr::Not(Box::new(SearchExpr::All)),
        }
    }

    /// The search for the events of the object that meet `filter`: a condition, and the commands after it, which
    /// provide the calculated fields in `wanted`. The names in `filter` must already be resolved
    /// ([`ModelObject::resolve_names`]).
    pub(crate) fn search(
        &self,
        filter: &SearchExpr,
        time: TimeModifiers,
        wanted: &BTreeSet<String>,
        span: Span,
    ) -> (SearchCommand, Vec<Stage>) {
        let mut needed = wanted.clone();
        needed.extend(search_fields(filter));
        self.chain.iter().for_each(|member| needed.extend(search_fields(&member.condition)));
        let kept = self.required_calculations(&mut needed);
        let computed: BTreeSet<&String> = kept.iter().flat_map(|(_, computed)| &computed.outputs).collect();
        let is_plain = |expr: &SearchExpr| search_fields(expr).iter().all(|field| !computed.contains(field));
        let mut leading = Vec::new();
        let mut stages = Vec::new();
        let stage = |command: Command| Stage { command, span };
        let later = |expr: &SearchExpr| {
            stage(Command::Search(SearchCommand { expr: expr.clone(), time: TimeModifiers::default() }))
        };
        for (at, member) in self.chain.iter().enumerate() {
            if at == 0 || is_plain(&member.condition) {
                leading.push(member.condition.clone());
            } else {
                stages.push(later(&member.condition));
            }
            let own = kept.iter().filter(|(owner, _)| *owner == at);
            stages.extend(own.map(|(_, computed)| stage(computed.command.clone())));
        }
        let parts = match filter {
            SearchExpr::And(parts) => parts.clone(),
            other => vec![other.clone()],
        };
        let (plain, others): (Vec<_>, Vec<_>) = parts.into_iter().partition(is_plain);
        leading.extend(plain);
        let weaker = others.iter().map(|part| self.without_defaults(part, &kept));
        leading.extend(weaker.filter(|part| *part != SearchExpr::All));
        stages.extend(others.iter().map(later));
        leading.retain(|part| *part != SearchExpr::All);
        let expr = if leading.len() == 1 { leading.remove(0) } else { SearchExpr::And(leading) };
        (SearchCommand { expr, time }, stages)
    }

    /// Calculations that produce needed fields, each with the index of its object; adds the fields that they read to
    /// `needed`.
    fn required_calculations(&self, needed: &mut BTreeSet<String>) -> Vec<(usize, &CalculationCommand)> {
        let mut kept = Vec::new();
        for (at, member) in self.chain.iter().enumerate().rev() {
            for computed in member.calculations.iter().rev() {
                if computed.outputs.iter().any(|field| needed.contains(field)) {
                    needed.extend(computed.inputs.iter().cloned());
                    kept.push((at, computed));
                }
            }
        }
        kept.reverse();
        kept
    }

    /// A weaker condition on stored fields, so that the scan can skip events. It keeps comparisons with fields whose
    /// calculation only replaces a missing value with a constant: any other value was stored in the event.
    fn without_defaults(&self, expr: &SearchExpr, kept: &[(usize, &CalculationCommand)]) -> SearchExpr {
        let stands_in_event = |field: &str, value: &str| {
            let mut makers = kept.iter().filter(|(_, computed)| computed.outputs.iter().any(|made| made == field));
            makers.all(|(_, computed)| match &computed.command {
                Command::Eval(eval) => eval.assignments.iter().all(|assignment| {
                    default_of(&assignment.expr, field)
                        .is_some_and(|default| !value.contains('*') && !value.eq_ignore_ascii_case(default))
                }),
                _ => false,
            })
        };
        let holds = |expr: &SearchExpr| match expr {
            SearchExpr::Compare { field, op: CompareOp::Eq, value, .. } => stands_in_event(&field.text, &value.text),
            SearchExpr::In { field, values } => values.iter().all(|value| stands_in_event(&field.text, &value.text)),
            _ => false,
        };
        match expr {
            expr if holds(expr) => expr.clone(),
            SearchExpr::Or(parts) if parts.iter().all(holds) => expr.clone(),
            SearchExpr::And(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| self.without_defaults(part, kept)).collect();
                let parts: Vec<_> = parts.into_iter().filter(|part| *part != SearchExpr::All).collect();
                if parts.is_empty() { SearchExpr::All } else { SearchExpr::And(parts) }
            }
            _ => SearchExpr::All,
        }
    }
}

impl Member {
    /// The summary column that marks the object's events.
    fn membership_column(&self) -> String {
        format!("{MEMBER_COLUMN_PREFIX}{}", self.position)
    }

    /// Replaces calculations with their fields and removes the condition's text: a summary has both as columns.
    fn strip_summarized(&mut self) {
        self.text.clear();
        for computed in std::mem::take(&mut self.calculations) {
            self.fields.extend(computed.outputs);
        }
    }
}

fn membership_test(column: &str) -> SearchExpr {
    NodeBuilder::at(Span::default()).equals(column, MEMBER_VALUE)
}

/// The constant of `if(isnull(FIELD) OR FIELD="", "constant", FIELD)`.
fn default_of<'e>(expr: &'e Expr, field: &str) -> Option<&'e str> {
    use quarry_spl::ast::{BinaryOp, ExprKind};
    let is_field = |expr: &Expr| matches!(&expr.kind, ExprKind::Field(name) if name == field);
    let ExprKind::Call(name, args) = &expr.kind else { return None };
    let [condition, then, otherwise] = args.as_slice() else { return None };
    let (ExprKind::Text(text), true, "if") = (&then.kind, is_field(otherwise), name.as_str()) else { return None };
    let ExprKind::Binary(BinaryOp::Or, left, right) = &condition.kind else { return None };
    let is_null = matches!(&left.kind, ExprKind::Call(name, args) if name == "isnull" && args.iter().all(is_field));
    let is_empty = matches!(&right.kind, ExprKind::Binary(BinaryOp::Compare(CompareOp::Eq), left, right)
        if is_field(left) && matches!(&right.kind, ExprKind::Text(text) if text.is_empty()));
    (is_null && is_empty).then_some(text.as_str())
}

/// The root object to use if the search names no object.
fn root_of(model: &DataModel, mentioned: &BTreeSet<String>) -> Result<String, EngineError> {
    let roots: Vec<&DataObject> = model.roots().collect();
    let begins = |root: &DataObject| {
        mentioned
            .iter()
            .any(|name| name.strip_prefix(&root.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    };
    let named: Vec<&&DataObject> = roots.iter().filter(|root| begins(root)).collect();
    match (roots.as_slice(), named.as_slice()) {
        ([only], _) => Ok(only.name.clone()),
        (_, [only]) => Ok(only.name.clone()),
        _ => {
            let names: Vec<&str> = roots.iter().map(|root| root.name.as_str()).collect();
            let first = names.first().copied().unwrap_or_default();
            let message = format!(
                "data model {} has several root objects: {}; write datamodel={}.{first}",
                model.name,
                names.join(", "),
                model.name
            );
            Err(EngineError::invalid(message))
        }
    }
}

fn member(
    model: &DataModel,
    object: &DataObject,
    parent: Option<&str>,
    expand: &dyn Fn(&str) -> Result<String, Fault>,
) -> Result<Member, EngineError> {
    let place = || format!("data model {}, object {}", model.name, object.name);
    let (mut conditions, mut texts) = (Vec::new(), Vec::new());
    for text in &object.constraints {
        let text = expand(text).map_err(|fault| fault.with_context(place()))?;
        conditions.push(condition_of(&text).map_err(|fault| fault.with_context(place()))?);
        texts.push(format!("({text})"));
    }
    let calculations = object
        .calculations
        .iter()
        .map(|calculation| compile_calculation(calculation).map_err(|fault| fault.with_context(place())));
    Ok(Member {
        position: model.objects.iter().position(|known| known.name == object.name).unwrap_or(usize::MAX),
        path: parent.map_or_else(|| object.name.clone(), |parent| format!("{parent}.{}", object.name)),
        name: object.name.clone(),
        condition: conjunction(conditions),
        text: texts.join(" "),
        fields: object.fields.clone(),
        base_fields: object.base_fields.clone(),
        calculations: calculations.collect::<Result<_, _>>()?,
    })
}

fn condition_of(text: &str) -> Result<SearchExpr, Fault> {
    if text.trim().is_empty() {
        return Ok(SearchExpr::All);
    }
    quarry_spl::parse_condition(text).map_err(|faults| first_fault(&faults))
}

fn pipeline_of(
    model: &DataModel,
    text: &str,
    expand: &dyn Fn(&str) -> Result<String, Fault>,
) -> Result<Pipeline, Fault> {
    let placed = |fault: Fault| fault.with_context(format_args!("data model {}, baseSearch", model.name));
    let parsed = quarry_spl::parse(&expand(text).map_err(placed)?);
    if parsed.is_ok() { Ok(parsed.pipeline) } else { Err(placed(first_fault(&parsed.diagnostics))) }
}

/// The search of a root transaction object: the events of the grouped objects, through `transaction`.
fn transactions(
    model: &DataModel,
    grouping: &Grouping,
    expand: &dyn Fn(&str) -> Result<String, Fault>,
) -> Result<Pipeline, Fault> {
    let make = NodeBuilder::at(Span::default());
    let (mut alternatives, mut commands) = (Vec::new(), Vec::new());
    for chain in model.grouped(grouping)? {
        let mut conditions = Vec::new();
        let place = |object: &DataObject| format!("data model {}, object {}", model.name, object.name);
        for object in &chain {
            for text in &object.constraints {
                let condition = expand(text).and_then(|text| condition_of(&text));
                conditions.push(condition.map_err(|fault| fault.with_context(place(object)))?);
            }
        }
        for (object, calculation) in grouping.calculations_before(&chain) {
            let expanded = match calculation {
                Calculation::Eval { field, expression } => {
                    let field = field.clone();
                    expand(expression).map(|expression| Calculation::Eval { field, expression })
                }
                Calculation::Rex { .. } | Calculation::Lookup { .. } | Calculation::GeoIp { .. } => {
                    Ok(calculation.clone())
                }
            };
            let compiled = expanded.and_then(|calculation| compile_calculation(&calculation));
            commands.push(compiled.map_err(|fault| fault.with_context(place(object)))?.command);
        }
        alternatives.push(conjunction(conditions));
    }
    let expr = if alternatives.len() == 1 { alternatives.remove(0) } else { SearchExpr::Or(alternatives) };
    commands.insert(0, SearchCommand { expr, time: TimeModifiers::default() }.into());
    let mut transaction = TransactionCommand { fields: grouping.fields.clone(), ..TransactionCommand::default() };
    for (name, value) in grouping.options() {
        transaction.set(name, value).map_err(|fault| fault.with_context(format_args!("data model {}", model.name)))?;
    }
    commands.push(transaction.into());
    Ok(make.pipeline(commands))
}

/// The conjunction of conditions.
fn conjunction(mut conditions: Vec<SearchExpr>) -> SearchExpr {
    match conditions.len() {
        0 => SearchExpr::All,
        1 => conditions.remove(0),
        _ => SearchExpr::And(conditions),
    }
}

fn compile_calculation(calculation: &Calculation) -> Result<CalculationCommand, Fault> {
    let outputs: Vec<String> = calculation.outputs().into_iter().map(str::to_owned).collect();
    let (command, inputs) = match calculation {
        Calculation::Eval { field, expression } => {
            let expr = quarry_spl::parse_expression(expression)
                .map_err(|faults| first_fault(&faults).with_context(format_args!("calculated field {field}")))?;
            let inputs = expr_fields(&expr);
            (NodeBuilder::at(Span::default()).eval(field, expr), inputs)
        }
        Calculation::Rex { input, pattern, .. } => {
            let rex = RexExtraction::of(input, pattern).map_err(|fault| first_fault(&[fault]))?;
            (RexCommand::Extract(rex).into(), BTreeSet::from([input.clone()]))
        }
        Calculation::Lookup { table, inputs, outputs } => {
            let fields = inputs.iter().map(|(_, field)| field.clone()).collect();
            let command = LookupCommand {
                table: table.clone(),
                table_span: Span::default(),
                inputs: inputs.clone(),
                outputs: outputs.clone(),
                only_new: false,
                time_field: None,
            };
            (Command::Lookup(command), fields)
        }
        Calculation::GeoIp { input, .. } => {
            let command = IpLocationCommand {
                field: input.clone(),
                prefix: String::new(),
                all_fields: false,
                languages: Vec::new(),
            };
            (Command::IpLocation(command), BTreeSet::from([input.clone()]))
        }
    };
    Ok(CalculationCommand { command, outputs, inputs })
}

/// The first few names, as part of a sentence.
fn list_names(names: &[String]) -> String {
    let mut text = names.iter().take(NAMES_LISTED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > NAMES_LISTED_MAX {
        text.push_str(&format!(" and {} more", names.len() - NAMES_LISTED_MAX));
    }
    text
}
