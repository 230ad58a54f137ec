//! Field flow: which fields a search needs from its events, and whether it shows rows or events.
//!
//! Commands are walked from the last to the first. What a command makes is no longer needed before it, what it reads
//! is; commands that show only named fields cut everything else. When in doubt the answer is "all": too much is slow,
//! too little is wrong.

mod named;
pub(crate) mod repeatable;
mod sought;

use std::collections::BTreeSet;

use crate::ast::{
    Aggregate, AggregateArg, Command, DataModelMode, Expr, ExprKind, FieldPattern, Pipeline, SearchExpr, Stage,
};
use crate::parse::parse_condition;
pub use named::{asked_values, asks_for, fields_of_events};
pub use repeatable::{is_constant, is_settled};
pub use sought::{SoughtText, sought_texts};

/// Name of the event text.
pub(crate) const RAW: &str = "_raw";
/// Name of the event time.
pub(crate) const TIME: &str = "_time";

/// Fields that must be delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldNeeds {
    /// Every field.
    pub all: bool,
    /// Whether a command asks for every field by `*`, so that fields which are computed only when asked for are meant.
    pub every: bool,
    /// Fields by name.
    pub fields: BTreeSet<String>,
    /// Names with `*`.
    pub patterns: Vec<String>,
}

impl FieldNeeds {
    /// Every field is needed.
    pub fn everything() -> FieldNeeds {
        FieldNeeds { all: true, ..FieldNeeds::default() }
    }

    /// Adds a field, or all that a name with `*` covers.
    pub(crate) fn add(&mut self, name: &str) {
        if name == "*" {
            (self.all, self.every) = (true, true);
        } else if name.contains('*') {
            if !self.patterns.iter().any(|known| known == name) {
                self.patterns.push(name.to_owned());
            }
        } else {
            self.fields.insert(name.to_owned());
        }
    }

    /// Adds fields.
    pub(crate) fn add_all<'a>(&mut self, fields: impl IntoIterator<Item = &'a FieldPattern>) {
        for field in fields {
            self.add(&field.text);
        }
    }

    /// Adds the fields of a list; an empty list means every field.
    pub(crate) fn add_all_or_every(&mut self, fields: &[FieldPattern]) {
        self.all |= fields.is_empty();
        self.add_all(fields);
    }

    /// Adds all that `other` needs.
    pub(crate) fn add_needs(&mut self, other: FieldNeeds) {
        self.all |= other.all;
        self.every |= other.every;
        self.fields.extend(other.fields);
        other.patterns.iter().for_each(|pattern| self.add(pattern));
    }

    /// Adds the fields that an expression reads.
    pub(crate) fn add_expr(&mut self, expr: &Expr) {
        self.fields.extend(expr_fields(expr));
        if reads_event(expr) {
            self.all = true;
        }
    }

    /// Adds the fields that aggregates read.
    pub(crate) fn add_aggregates(&mut self, aggregates: &[Aggregate]) {
        for aggregate in aggregates {
            match &aggregate.arg {
                AggregateArg::Rows => {}
                AggregateArg::Field(field) => self.add(&field.text),
                AggregateArg::Eval(expr) => self.add_expr(expr),
            }
            if aggregate.function.reads_time() {
                self.add(TIME);
            }
        }
    }

    /// Whether anything asks for this field.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.all || self.fields.contains(name) || self.patterns.iter().any(|pattern| covers(pattern, name))
    }
}

/// Whether a name with `*` covers a name.
fn covers(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty()
}

/// Fields the event scan must deliver for the commands that follow the leading search.
pub fn required_fields(commands: &[Stage]) -> FieldNeeds {
    needed_before(commands, FieldNeeds::everything())
}

/// What is needed before commands, given what is needed after them.
pub(crate) fn needed_before(commands: &[Stage], after: FieldNeeds) -> FieldNeeds {
    commands.iter().rev().fold(after, |needs, stage| before(&stage.command, needs))
}

/// What is needed before a command, given what is needed after it.
fn before(command: &Command, after: FieldNeeds) -> FieldNeeds {
    if let Some((_, node)) = command.described() {
        return node.fields_before(after);
    }
    let mut needs = after;
    match command {
        Command::Chart(chart) => {
            needs = FieldNeeds::default();
            needs.add_aggregates(&chart.aggregates);
            needs.add_all([&chart.row, &chart.column].into_iter().flatten().map(|split| &split.field));
        }
        Command::TimeChart(chart) => {
            needs = FieldNeeds::default();
            needs.add_aggregates(&chart.aggregates);
            needs.add_all(chart.column.iter().map(|split| &split.field));
            needs.add(TIME);
        }
        _ => return before_row_command(command, needs),
    }
    needs
}

/// The same for commands that keep rows as they are but for a few fields.
fn before_row_command(command: &Command, mut needs: FieldNeeds) -> FieldNeeds {
    match command {
        Command::Metadata(_) => needs = FieldNeeds::default(),
        Command::DataModel(_) | Command::From(_) | Command::SavedSearch(_) => needs = FieldNeeds::default(),
        // What the rows before it hold is finished by the command after it, whose needs are these already.
        Command::Tstats(tstats) if !tstats.append => needs = FieldNeeds::default(),
        _ => {}
    }
    needs
}

/// Whether the output is a table of results rather than events.
pub fn is_transforming(commands: &[Stage]) -> bool {
    commands.iter().any(|stage| makes_table(&stage.command))
}

pub(crate) fn makes_table(command: &Command) -> bool {
    if let Some((_, node)) = command.described() {
        return node.makes_table();
    }
    match command {
        Command::Chart(_) | Command::TimeChart(_) | Command::Tstats(_) | Command::Metadata(_) => true,
        Command::DataModel(model) => model.mode == DataModelMode::Definition,
        _ => false,
    }
}

impl Command {
    /// Whether it makes the same of a row in every search, at any time, so that partial states behind it can be kept.
    pub fn is_repeatable(&self) -> bool {
        if let Some((_, node)) = self.described() {
            return node.is_repeatable();
        }
        let command = self;
        match command {
            Command::Chart(chart) => {
                repeatable::aggregates(&chart.aggregates)
                    && repeatable::split(&chart.row)
                    && repeatable::split(&chart.column)
            }
            Command::TimeChart(chart) => {
                repeatable::aggregates(&chart.aggregates)
                    && repeatable::split(&chart.column)
                    && repeatable::is_aligned(&chart.bin)
            }
            // Lookups read tables that change without a trace; the others do not come before a fold.
            _ => false,
        }
    }
}

/// Whether a search begins with events that it selects itself.
pub fn begins_with_events(commands: &[Stage]) -> bool {
    match commands.first().map(|stage| &stage.command) {
        Some(Command::Search(_)) => true,
        Some(Command::Filled(filled)) => matches!(filled.shape.first(), Some(Command::Search(_))),
        _ => false,
    }
}

/// Functions that look at the whole event.
fn reads_event(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Call(name, args) => name == "searchmatch" || args.iter().any(reads_event),
        ExprKind::Unary(_, inner) => reads_event(inner),
        ExprKind::Binary(_, left, right) => reads_event(left) || reads_event(right),
        ExprKind::In(value, list) => reads_event(value) || list.iter().any(reads_event),
        ExprKind::Text(_) | ExprKind::Number(..) | ExprKind::Bool(_) | ExprKind::Field(_) => false,
    }
}

/// Whether a condition has a subsearch in it.
pub(crate) fn has_subsearch(expr: &SearchExpr) -> bool {
    !expr.subsearches().is_empty()
}

impl SearchExpr {
    /// The subsearches in the condition, in their order.
    pub fn subsearches(&self) -> Vec<&Pipeline> {
        match self {
            SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().flat_map(SearchExpr::subsearches).collect(),
            SearchExpr::Not(part) => part.subsearches(),
            SearchExpr::Subsearch(pipeline) => vec![pipeline],
            _ => Vec::new(),
        }
    }
}

/// Fields an expression reads.
pub fn expr_fields(expr: &Expr) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    collect_expr(expr, &mut fields);
    fields
}

fn collect_expr(expr: &Expr, fields: &mut BTreeSet<String>) {
    match &expr.kind {
        ExprKind::Text(_) | ExprKind::Number(..) | ExprKind::Bool(_) => {}
        ExprKind::Field(name) => {
            fields.insert(name.clone());
        }
        ExprKind::Unary(_, inner) => collect_expr(inner, fields),
        ExprKind::Binary(_, left, right) => {
            collect_expr(left, fields);
            collect_expr(right, fields);
        }
        ExprKind::In(value, list) => {
            collect_expr(value, fields);
            list.iter().for_each(|item| collect_expr(item, fields));
        }
        ExprKind::Call(name, args) => {
            // Default fields that are computed are there only for those who name them.
            if let ("searchmatch", [Expr { kind: ExprKind::Text(text), .. }]) = (name.as_str(), args.as_slice())
                && let Ok(condition) = parse_condition(text)
            {
                collect_search(&condition, fields);
            }
            args.iter().for_each(|arg| collect_expr(arg, fields));
        }
    }
}

/// Fields a search condition reads; keywords read `_raw`.
pub fn search_fields(expr: &SearchExpr) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    collect_search(expr, &mut fields);
    fields
}

fn collect_search(expr: &SearchExpr, fields: &mut BTreeSet<String>) {
    match expr {
        SearchExpr::All | SearchExpr::Subsearch(_) => {}
        SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().for_each(|part| collect_search(part, fields)),
        SearchExpr::Not(part) => collect_search(part, fields),
        SearchExpr::Keyword(_) | SearchExpr::Term(_) | SearchExpr::Case(_) => {
            fields.insert(RAW.to_owned());
        }
        SearchExpr::Compare { field, .. } | SearchExpr::In { field, .. } | SearchExpr::Indexed { field, .. } => {
            fields.insert(field.text.clone());
        }
    }
}

#[cfg(test)]
mod tests;
