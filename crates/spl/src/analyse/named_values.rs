//! What a search names of the data it reads: indexes, sourcetypes and hosts by value, fields by name. For hints alone.

use std::collections::BTreeSet;

use super::{has_subsearch, required_fields, search_fields};
use crate::ast::{Command, CompareOp, SearchExpr, SearchPattern, Stage};

/// The whole values that the leading search asks a field for, at its top level, without stars.
pub fn asked_values<'s>(commands: &'s [Stage], field: &str) -> Vec<&'s SearchPattern> {
    let Some(Command::Search(search)) = commands.first().map(|stage| &stage.command) else { return Vec::new() };
    let parts = match &search.expr {
        SearchExpr::And(parts) => parts.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut found = Vec::new();
    parts.iter().for_each(|part| values_of(part, field, &mut found));
    found.retain(|value| !value.text.contains('*') && !value.text.is_empty());
    found
}

fn values_of<'s>(expr: &'s SearchExpr, wanted: &str, found: &mut Vec<&'s SearchPattern>) {
    match expr {
        SearchExpr::Or(parts) => parts.iter().for_each(|part| values_of(part, wanted, found)),
        SearchExpr::Compare { field, op: CompareOp::Eq, value, .. } | SearchExpr::Indexed { field, value }
            if field.text == wanted =>
        {
            found.push(value);
        }
        SearchExpr::In { field, values } if field.text == wanted => found.extend(values),
        _ => {}
    }
}

/// Whether the leading search says anything of a field.
pub fn asks_for(commands: &[Stage], field: &str) -> bool {
    let Some(Command::Search(search)) = commands.first().map(|stage| &stage.command) else { return false };
    search_fields(&search.expr).iter().any(|name| name == field) || has_subsearch(&search.expr)
}

/// Names of the fields that a search takes from its events; `None` where a command may bring fields along that no event
/// has, so that a name nothing is known of may be right.
pub fn fields_of_events(text: &str, commands: &[Stage]) -> Option<BTreeSet<String>> {
    let (first, rest) = commands.split_first()?;
    let Command::Search(search) = &first.command else { return None };
    if !rest.iter().all(|stage| stage.command.node().names_its_fields()) {
        return None;
    }
    let mut fields = required_fields(rest).fields;
    compared(&search.expr, &mut fields)?;
    // What a regular expression cuts out is no field of events.
    let is_cut = |name: &String| text.contains(&format!("<{name}>"));
    fields.retain(|name| !is_cut(name) && !name.starts_with('_') && !name.contains(['*', '{']));
    Some(fields)
}

/// Fields that a condition compares; `None` with a subsearch, which may bring any.
fn compared(expr: &SearchExpr, fields: &mut BTreeSet<String>) -> Option<()> {
    match expr {
        SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().try_for_each(|part| compared(part, fields)),
        SearchExpr::Compare { field, .. } | SearchExpr::In { field, .. } => {
            fields.insert(field.text.clone());
            Some(())
        }
        SearchExpr::Subsearch(_) => None,
        _ => Some(()),
    }
}
