//! Field flow: which fields a search needs from its events, and whether it shows rows or events.
//!
//! Commands are walked from the last to the first. What a command makes is no longer needed before it, what it reads
//! is; commands that show only named fields cut everything else. When in doubt the answer is "all": too much is slow,
//! too little is wrong.

mod field_needs;
mod named;
mod read_fields;
pub(crate) mod repeatable;
mod sought;

use crate::ast::{Command, DataModelMode, Pipeline, SearchExpr, Stage};
pub use field_needs::FieldNeeds;
pub use named::{asked_values, asks_for, fields_of_events};
pub(crate) use read_fields::{RAW, TIME};
pub use read_fields::{expr_fields, search_fields};
pub use repeatable::{is_constant, is_settled};
pub use sought::{SoughtText, sought_texts};

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

#[cfg(test)]
mod tests;
