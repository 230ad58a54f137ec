//! The names in a search: fields, and values of index, sourcetype and host. Used only for hints.

use std::collections::BTreeSet;

use super::{FieldNeeds, has_subsearch, search_fields};
use crate::ast::{
    Aggregate, AggregateArg, BinaryOp, Command, CompareOp, Expr, ExprKind, Pipeline, SearchExpr, SearchPattern, Span,
    Stage,
};
use crate::commands::Beginning;

/// Fields that every event has.
const EVENT_FIELDS: [&str; 2] = ["_raw", "_time"];

/// The literal values (without `*`) to which comparisons with `=` or `IN`, at the top level of the leading search or of
/// `tstats`, limit a field.
pub fn required_values<'s>(commands: &'s [Stage], field: &str) -> Vec<&'s SearchPattern> {
    let expr = match commands.first().map(|stage| &stage.command) {
        Some(Command::Search(search)) => &search.expr,
        Some(Command::Tstats(tstats)) => &tstats.filter,
        _ => return Vec::new(),
    };
    let mut found = Vec::new();
    conjuncts(expr).iter().for_each(|part| collect_values(part, field, &mut found));
    found.retain(|value| !value.text.contains('*') && !value.text.is_empty());
    found
}

/// The words and phrases that the leading search requires in the text of each event, in groups: an event must contain
/// at least one word of each group. A group is a single word or the alternatives of an OR that has no other conditions.
pub fn required_words(commands: &[Stage]) -> Vec<Vec<&SearchPattern>> {
    let Some(Command::Search(search)) = commands.first().map(|stage| &stage.command) else { return Vec::new() };
    let is_any = |word: &&SearchPattern| word.text.chars().all(|c| c == '*');
    let groups = conjuncts(&search.expr).iter().filter_map(alternatives_of);
    groups.filter(|group| !group.iter().any(is_any)).collect()
}

/// Positions of the words, phrases and comparisons that the leading search requires of each event, and whether the
/// search has no other conditions (`IN`, `OR`, `NOT`, `TERM`, `CASE`, subsearches).
pub fn required_conditions(commands: &[Stage]) -> (Vec<Span>, bool) {
    let Some(Command::Search(search)) = commands.first().map(|stage| &stage.command) else {
        return (Vec::new(), false);
    };
    let place = |part: &SearchExpr| match part {
        SearchExpr::Keyword(word) => Some(word.span),
        SearchExpr::Compare { field, value, case_sensitive: false, .. } | SearchExpr::Indexed { field, value } => {
            Some(Span { start: field.span.start, end: value.span.end })
        }
        _ => None,
    };
    let parts = conjuncts(&search.expr);
    let places: Vec<Span> = parts.iter().filter_map(place).filter(|place| place.start < place.end).collect();
    let are_all = places.len() == parts.len();
    (places, are_all)
}

/// The word, if the condition is a single word.
fn word_of(part: &SearchExpr) -> Option<&SearchPattern> {
    match part {
        SearchExpr::Keyword(word) | SearchExpr::Term(word) | SearchExpr::Case(word) => Some(word),
        _ => None,
    }
}

/// The words in an OR of words, or the word of a condition that is a single word; `None` for other conditions.
fn alternatives_of(part: &SearchExpr) -> Option<Vec<&SearchPattern>> {
    match part {
        SearchExpr::Or(parts) => parts.iter().map(word_of).collect(),
        one => word_of(one).map(|word| vec![word]),
    }
}

/// The parts of a condition that must all hold.
fn conjuncts(expr: &SearchExpr) -> &[SearchExpr] {
    match expr {
        SearchExpr::And(parts) => parts,
        one => std::slice::from_ref(one),
    }
}

fn collect_values<'s>(expr: &'s SearchExpr, wanted: &str, found: &mut Vec<&'s SearchPattern>) {
    match expr {
        SearchExpr::Or(parts) => parts.iter().for_each(|part| collect_values(part, wanted, found)),
        SearchExpr::Compare { field, op: CompareOp::Eq, value, .. } | SearchExpr::Indexed { field, value }
            if field.text == wanted =>
        {
            found.push(value);
        }
        SearchExpr::In { field, values } if field.text == wanted => found.extend(values),
        _ => {}
    }
}

/// Whether the leading search mentions a field, or contains a subsearch, which may mention it.
pub fn mentions_field(commands: &[Stage], field: &str) -> bool {
    let Some(Command::Search(search)) = commands.first().map(|stage| &stage.command) else { return false };
    search_fields(&search.expr).iter().any(|name| name == field) || has_subsearch(&search.expr)
}

/// A comparison in a `where` command that every row must meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhereEquality<'s> {
    /// Name of the field on the left side.
    pub field: &'s str,
    /// Value or field that the field must equal.
    pub other: ComparedWith<'s>,
    /// Position of the right side of the comparison.
    pub span: Span,
    /// Position where the command begins.
    pub stage_start: usize,
}

/// Value or field that a field is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparedWith<'s> {
    /// A text.
    Text(&'s str),
    /// Another field.
    Field(&'s str),
}

/// The comparisons `FIELD=...` that every row must meet, from the `where` commands of a search.
pub fn where_equalities(commands: &[Stage]) -> Vec<WhereEquality<'_>> {
    let mut found = Vec::new();
    for stage in commands {
        if let Command::Where(command) = &stage.command {
            collect_equalities(&command.condition, stage.span.start, &mut found);
        }
    }
    found
}

fn collect_equalities<'s>(expr: &'s Expr, stage_start: usize, found: &mut Vec<WhereEquality<'s>>) {
    match &expr.kind {
        ExprKind::Binary(BinaryOp::And, left, right) => {
            collect_equalities(left, stage_start, found);
            collect_equalities(right, stage_start, found);
        }
        ExprKind::Binary(BinaryOp::Compare(CompareOp::Eq), left, right) => {
            let ExprKind::Field(field) = &left.kind else { return };
            let other = match &right.kind {
                ExprKind::Text(text) => ComparedWith::Text(text),
                ExprKind::Field(name) => ComparedWith::Field(name),
                _ => return,
            };
            found.push(WhereEquality { field, other, span: right.span, stage_start });
        }
        _ => {}
    }
}

/// Fields in the expressions of `where`, `eval`, `stats` and `timechart` that may be texts without quotes: on the right
/// of a comparison, beside AND or OR, in a list, or as second or later arguments of a function.
pub fn fields_as_values(commands: &[Stage]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for stage in commands {
        let expressions: Vec<&Expr> = match &stage.command {
            Command::Where(command) => vec![&command.condition],
            Command::Eval(command) => command.assignments.iter().map(|assignment| &assignment.expr).collect(),
            Command::Stats(command) => command.aggregates.iter().filter_map(argument_expr).collect(),
            Command::TimeChart(command) => command.aggregates.iter().filter_map(argument_expr).collect(),
            _ => Vec::new(),
        };
        expressions.into_iter().for_each(|expr| collect_value_fields(expr, &mut found));
    }
    found
}

fn argument_expr(aggregate: &Aggregate) -> Option<&Expr> {
    if let AggregateArg::Eval(expr) = &aggregate.arg { Some(expr) } else { None }
}

fn collect_value_fields(expr: &Expr, found: &mut BTreeSet<String>) {
    let values: Vec<&Expr> = match &expr.kind {
        ExprKind::Binary(BinaryOp::Compare(_), _, right) => vec![right],
        // In `level="error" OR warn`, `warn` is probably meant as a text.
        ExprKind::Binary(BinaryOp::And | BinaryOp::Or, left, right) => vec![left, right],
        ExprKind::In(_, list) => list.iter().collect(),
        ExprKind::Call(_, arguments) => arguments.iter().skip(1).collect(),
        _ => Vec::new(),
    };
    found.extend(values.into_iter().filter_map(|value| match &value.kind {
        ExprKind::Field(name) => Some(name.clone()),
        _ => None,
    }));
    expr.parts().into_iter().for_each(|part| collect_value_fields(part, found));
}

/// The subsearches that are conditions of the leading search, at its top level.
pub fn subsearches_of(commands: &[Stage]) -> Vec<&Pipeline> {
    let Some(Command::Search(search)) = commands.first().map(|stage| &stage.command) else { return Vec::new() };
    let parts = conjuncts(&search.expr).iter();
    parts.filter_map(|part| if let SearchExpr::Subsearch(inner) = part { Some(&**inner) } else { None }).collect()
}

/// Fields and patterns of fields that commands of a search remove or rename.
pub fn removed_fields(commands: &[Stage]) -> BTreeSet<String> {
    let made = commands.iter().skip(1).filter_map(|stage| stage.command.node().created_fields());
    made.flat_map(|made| made.removed).map(|(name, _)| name).collect()
}

/// Fields that the leading search compares only under `NOT`; the events that it finds need not have them.
pub fn negated_fields(commands: &[Stage]) -> BTreeSet<String> {
    let Some(Command::Search(search)) = commands.first().map(|stage| &stage.command) else { return BTreeSet::new() };
    let (mut all, mut plain) = (BTreeSet::new(), BTreeSet::new());
    collect_compared(&search.expr, &mut all);
    collect_unnegated(&search.expr, &mut plain);
    all.difference(&plain).cloned().collect()
}

/// Fields that a condition compares outside `NOT`.
fn collect_unnegated(expr: &SearchExpr, fields: &mut BTreeSet<String>) {
    match expr {
        SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().for_each(|part| collect_unnegated(part, fields)),
        SearchExpr::Not(_) => {}
        one => {
            collect_compared(one, fields);
        }
    }
}

/// Whether rows certainly lack a field after these commands.
pub fn is_removed(name: &str, before: &[Stage]) -> bool {
    origin_of(name, before).is_some_and(|origin| origin != FieldOrigin::Events)
}

/// A field that a command reads by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadField {
    /// Name of the field.
    pub name: String,
    /// Position of the command.
    pub stage: Span,
    /// Possible source of its value.
    pub origin: FieldOrigin,
}

/// Possible source of a field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldOrigin {
    /// The events, or the rows of a data set, with which the search begins.
    Events,
    /// No source: the command leaves only these fields.
    Nowhere {
        /// The command.
        command: String,
        /// The fields that the command leaves, and the fields that later commands create.
        fields: Vec<String>,
    },
    /// No source: the command removed or renamed the field.
    Removed {
        /// The command.
        command: String,
        /// The new name of a renamed field.
        new_name: Option<String>,
    },
}

/// The fields that commands of a search read by name and that no earlier command creates or may create. Each command
/// declares the fields that it reads and creates ([`crate::commands`]); after a command that may create any field,
/// nothing is known.
pub fn named_fields(commands: &[Stage]) -> Vec<ReadField> {
    let mut found = Vec::new();
    if let Some(Command::Search(search)) = commands.first().map(|stage| &stage.command) {
        let mut fields = BTreeSet::new();
        // A subsearch may use any fields.
        if collect_compared(&search.expr, &mut fields).is_some() {
            let stage = commands[0].span;
            let of_events = |name| ReadField { name, stage, origin: FieldOrigin::Events };
            found.extend(fields.into_iter().filter(|name| is_plain(name)).map(of_events));
        }
    }
    for (at, stage) in commands.iter().enumerate().skip(1) {
        let node = stage.command.node();
        let may_lack = node.optional_fields();
        let read = node.fields_before(FieldNeeds::all_fields()).fields;
        let reads_event = matches!(
            stage.command,
            Command::Search(_)
                | Command::Where(_)
                | Command::Eval(_)
                | Command::Rex(_)
                | Command::Bin(_)
                | Command::Table(_)
                | Command::Sort(_)
                | Command::Chart(_)
                | Command::TimeChart(_)
                | Command::Transaction(_)
        );
        for name in read.into_iter().filter(|name| !may_lack.contains(name)) {
            // Events have a time and a text unless a report has removed them.
            let is_of_event =
                EVENT_FIELDS.contains(&name.as_str()) && reads_event && is_removed(&name, &commands[..at]);
            if !is_of_event && !is_plain(&name) {
                continue;
            }
            if let Some(origin) = origin_of(&name, &commands[..at])
                && !found.iter().any(|known| known.name == name && known.origin == origin)
            {
                found.push(ReadField { name, stage: stage.span, origin });
            }
        }
    }
    found
}

fn is_plain(name: &str) -> bool {
    !name.starts_with('_') && !name.contains(['*', '{', '$'])
}

/// Origin of a field that is read after these commands; `None` if it is unknown, for example because one of them may
/// create the field.
fn origin_of(name: &str, before: &[Stage]) -> Option<FieldOrigin> {
    let (first, rest) = before.split_first()?;
    let mut between = Vec::new();
    for stage in rest.iter().rev() {
        let made = stage.command.node().created_fields()?;
        if made.has(name) {
            return None;
        }
        if let Some(new_name) = made.removal_of(name) {
            return Some(FieldOrigin::Removed { command: stage.command.name().to_owned(), new_name });
        }
        between.extend(made.names);
        // `fields` keeps time and text.
        let keeps = matches!(stage.command, Command::Fields(_)) && EVENT_FIELDS.contains(&name);
        if made.alone && !keeps {
            return Some(FieldOrigin::Nowhere { command: stage.command.name().to_owned(), fields: between });
        }
    }
    let brings_rows = match first.command.begins_with() {
        Beginning::Events(_) | Beginning::LookupTable => true,
        // `pivot` turns the events into a table.
        Beginning::DataModel(model, _) => model.required.is_empty(),
        _ => false,
    };
    brings_rows.then_some(FieldOrigin::Events)
}

/// Fields that a condition compares; `None` if it contains a subsearch, which may use any fields.
fn collect_compared(expr: &SearchExpr, fields: &mut BTreeSet<String>) -> Option<()> {
    match expr {
        SearchExpr::And(parts) | SearchExpr::Or(parts) => {
            parts.iter().try_for_each(|part| collect_compared(part, fields))
        }
        SearchExpr::Compare { field, .. } | SearchExpr::In { field, .. } => {
            fields.insert(field.text.clone());
            Some(())
        }
        SearchExpr::Not(inner) => collect_compared(inner, fields),
        SearchExpr::Subsearch(_) => None,
        _ => Some(()),
    }
}

/// Fields that a row must have to meet a condition.
pub(crate) fn collect_always_compared(expr: &SearchExpr, fields: &mut BTreeSet<String>) {
    match expr {
        SearchExpr::And(parts) => parts.iter().for_each(|part| collect_always_compared(part, fields)),
        SearchExpr::Compare { field, op, .. } if *op != CompareOp::Ne => {
            fields.insert(field.text.clone());
        }
        SearchExpr::In { field, .. } => {
            fields.insert(field.text.clone());
        }
        _ => {}
    }
}
