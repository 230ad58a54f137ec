//! A hint about fields that a search creates or keeps but that its answer omits, because events are shown as time and
//! text only.

use quarry_spl::Diagnostic;
use quarry_spl::ast::{Command, Stage};

use super::outcome::{SearchOutcome, list_names};

/// The hint, if the last command names fields and the rows are events.
pub(super) fn unseen_fields_note(found: &SearchOutcome<'_>, commands: &[Stage]) -> Option<Diagnostic> {
    if found.rows == 0 || !found.filled.contains("_raw") {
        return None;
    }
    let last = commands.last().filter(|_| commands.len() > 1)?;
    let names: Vec<&str> = match &last.command {
        Command::Fields(fields) if !fields.removes => {
            fields.fields.iter().filter(|field| !field.is_wildcard()).map(|field| field.text.as_str()).collect()
        }
        Command::Fields(_) => return None,
        other => other.written_fields()?,
    };
    let unseen: Vec<&str> =
        names.into_iter().filter(|name| !name.starts_with('_') && found.filled.contains(*name)).collect();
    if unseen.is_empty() {
        return None;
    }
    let remark =
        Diagnostic::warning("events are shown as time and text, without the fields of this command", last.span);
    Some(remark.with_hint(format!("to see them, end with `| table _time {}`", list_names(&unseen).replace(", ", " "))))
}
