//! Lints: searches that run but are probably mistakes, such as a missing pipe or the quotes of another language.
//!
//! Lints do not change a search. Each is a warning with its position and a suggestion; anything that may well be
//! intended is not reported. Subsearches are not checked.

use std::collections::BTreeSet;

use crate::ast::{
    Aggregate, AggregateArg, BinaryOp, Command, CompareOp, Expr, ExprKind, FieldPattern, Pipeline, SearchExpr,
    SearchPattern, Stage,
};
use crate::commands::{StageContext, is_command};
use crate::diagnostic::Diagnostic;
use crate::functions::stats_function;
use crate::missing_pipe::inner_command;
use crate::parse::parse_commands;

/// Command names that are rare as words of logs.
const UNCOMMON_COMMANDS: &[&str] = &[
    "addtotals",
    "bin",
    "chart",
    "dedup",
    "eval",
    "eventstats",
    "fieldsummary",
    "fillnull",
    "iplocation",
    "makemv",
    "mvexpand",
    "rex",
    "spath",
    "stats",
    "streamstats",
    "timechart",
    "transpose",
    "xyseries",
];

/// Bytes after a word that are compared with the syntax of other languages.
const FOREIGN_BYTES_MAX: usize = 128;
/// Maximum number of words of a search that are tried as the start of a command.
const WORDS_TRIED_MAX: usize = 8;

/// The lints of a search that can run.
pub(crate) fn lints(text: &str, pipeline: &Pipeline) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (at, stage) in pipeline.commands.iter().enumerate() {
        let before = found.len();
        stage.command.node().find_lints(&StageContext { text, span: stage.span, is_first: at == 0 }, &mut found);
        // Commands that result from rewriting one command all have its position.
        let is_seen = at > 0 && pipeline.commands[at - 1].span == stage.span;
        if found.len() == before && !is_seen {
            found.extend(find_inner_command(text, stage, at == 0));
        }
    }
    found
}

/// Finds a command among the arguments of another.
fn find_inner_command(text: &str, stage: &Stage, is_first: bool) -> Option<Diagnostic> {
    let inner = inner_command(text, stage.span)?;
    // A `search` may contain any words; `find_missing_pipe` checks the words of the leading search.
    if matches!(stage.command, Command::Search(_)) && (is_first || !has_command_punctuation(inner.command)) {
        return None;
    }
    let name = stage.command.name();
    let word = text.get(inner.span.start..inner.span.end)?;
    let is_command = parse_commands(inner.command, true, &BTreeSet::new()).is_ok();
    let remark = Diagnostic::warning(format!("`{word}` is read as an argument of `{name}`"), inner.span);
    is_command.then(|| remark.with_hint(inner.hint()))
}

// ---- conditions ---------------------------------------------------------------------------------------------------

/// Adds the lints of a search condition.
pub(crate) fn find_in_condition(expr: &SearchExpr, found: &mut Vec<Diagnostic>) {
    match expr {
        SearchExpr::And(parts) | SearchExpr::Or(parts) => {
            parts.windows(3).for_each(|words| check_in(words, found));
            parts.iter().for_each(|part| find_in_condition(part, found));
        }
        SearchExpr::Not(part) => find_in_condition(part, found),
        SearchExpr::Keyword(word) if !word.quoted && word.text == "&&" => {
            let remark = Diagnostic::warning("`&&` is searched for as a word", word.span);
            found.push(remark.with_hint("write AND, or leave it out: a search requires all of its words anyway"));
        }
        SearchExpr::Keyword(word) if !word.quoted && is_in_single_quotes(&word.text) => {
            let inner = word.text.trim_matches('\'');
            let remark = Diagnostic::warning("single quotes are a part of the word that is searched for", word.span);
            // The closing quote may be at the end of a later word.
            let meant = if word.text.ends_with('\'') { inner } else { "…" };
            found.push(remark.with_hint(format!("write \"{meant}\" for a text, or the words alone")));
        }
        SearchExpr::Compare { field, op, value, .. } if !value.quoted => check_value(field, *op, value, found),
        _ => {}
    }
}

/// Checks three words side by side for an `IN` without parentheses.
fn check_in(words: &[SearchExpr], found: &mut Vec<Diagnostic>) {
    let [SearchExpr::Keyword(field), SearchExpr::Keyword(word), SearchExpr::Keyword(values)] = words else { return };
    if !field.quoted && !word.quoted && word.text == "IN" {
        let list = values.text.split(',').collect::<Vec<_>>().join(", ");
        let remark = Diagnostic::warning("`IN` is searched for as a word", word.span);
        found.push(remark.with_hint(format!("write {} IN ({list})", field.text)));
    }
}

/// Whether a word looks like a quoted text, or like the start of one.
fn is_in_single_quotes(word: &str) -> bool {
    word.len() > 1 && word.starts_with('\'') && !word[1..].trim_end_matches('\'').contains('\'')
}

/// Checks the literal of a comparison.
fn check_value(field: &FieldPattern, op: CompareOp, value: &SearchPattern, found: &mut Vec<Diagnostic>) {
    let name = &field.text;
    if let Some(inner) = value.text.strip_prefix('\'') {
        let inner = inner.trim_end_matches('\'');
        let remark = Diagnostic::warning("single quotes are a part of the value in a search", value.span);
        found.push(remark.with_hint(format!("write {name}=\"{inner}\"")));
        return;
    }
    let hint = match (op, value.text.chars().next()) {
        (CompareOp::Lt, Some('>')) if value.text.len() == 1 => format!("write `{name}!=...`"),
        (CompareOp::Lt, Some('>')) => format!("write `{name}!={}`", &value.text[1..]),
        (CompareOp::Eq, Some('~')) => format!("write `| regex {name}=\"...\"`"),
        (CompareOp::Eq, Some(sign @ ('>' | '<'))) => format!("write `{name}{sign}={}`", &value.text[1..]),
        (CompareOp::Eq, Some('!')) => format!("write `{name}!={}`", &value.text[1..]),
        _ => return,
    };
    found.push(Diagnostic::warning(format!("`{}` is read as the value", value.text), value.span).with_hint(hint));
}

/// Finds a word of the leading search that begins a command, or syntax of SQL or a shell.
pub(crate) fn find_missing_pipe(place: &StageContext<'_>, expr: &SearchExpr, found: &mut Vec<Diagnostic>) {
    let parts = match expr {
        SearchExpr::And(parts) => parts.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut tries = 0;
    let mut only_fields = true;
    for part in parts {
        let word = match part {
            SearchExpr::Keyword(word) if !word.quoted => word,
            SearchExpr::Compare { .. } | SearchExpr::In { .. } | SearchExpr::Indexed { .. } => continue,
            _ => {
                only_fields = false;
                continue;
            }
        };
        let before = place.text.get(place.span.start..word.span.start).unwrap_or_default().trim();
        let command = place.text.get(word.span.start..place.span.end).unwrap_or_default();
        let begins = before.is_empty() || before.eq_ignore_ascii_case("search");
        if is_command(&word.text)
            && tries < WORDS_TRIED_MAX
            && (!begins || UNCOMMON_COMMANDS.contains(&word.text.as_str()))
        {
            tries += 1;
            if is_likely_command(&word.text, command, only_fields) {
                let select = if begins { "*" } else { before };
                let remark = Diagnostic::warning(format!("`{}` is searched for as a word", word.text), word.span);
                found.push(remark.with_hint(format!("a `|` goes before a command: {select} | {command}")));
                return;
            }
        }
        if let Some(hint) = foreign_search(&word.text, command, begins) {
            found.push(
                Diagnostic::warning(format!("`{}` is searched for as a word", word.text), word.span).with_hint(hint),
            );
            return;
        }
        only_fields = false;
    }
}

/// A hint that words of the leading search look like a command with its arguments, or like the arguments of `stats`.
/// Words that are common in logs get a hint, too, because the hint is shown only if the search finds nothing.
pub(crate) fn find_command_in_words(text: &str, commands: &[Stage]) -> Option<Diagnostic> {
    let stage = commands.first()?;
    let Command::Search(search) = &stage.command else { return None };
    let parts = match &search.expr {
        SearchExpr::And(parts) => parts.as_slice(),
        one => std::slice::from_ref(one),
    };
    let words = parts.iter().filter_map(|part| match part {
        SearchExpr::Keyword(word) if !word.quoted && is_command(&word.text) => Some((word, "")),
        SearchExpr::Keyword(word) if !word.quoted && is_grouped(text, word) => Some((word, "stats ")),
        _ => None,
    });
    words.take(WORDS_TRIED_MAX).find_map(|(word, name)| {
        let before = text.get(stage.span.start..word.span.start)?.trim();
        let arguments = text.get(word.span.start..stage.span.end)?;
        let has_arguments = arguments.len() > word.text.len();
        let is_first = before.is_empty() || before.eq_ignore_ascii_case("search");
        let is_report = !name.is_empty();
        let is_led = is_report || !is_first && parse_commands(arguments, true, &BTreeSet::new()).is_ok();
        if !has_arguments || !is_led {
            return None;
        }
        let before = if is_first { "*" } else { before };
        let remark = Diagnostic::warning(format!("`{}` is searched for as a word", word.text), word.span);
        Some(remark.with_hint(format!("for the command, a `|` goes before it: {before} | {name}{arguments}")))
    })
}

/// Whether a word is a function of `stats` and `by` follows it.
fn is_grouped(text: &str, word: &SearchPattern) -> bool {
    let name = word.text.split('(').next().unwrap_or_default().to_ascii_lowercase();
    let next = text.get(word.span.end..).and_then(|rest| rest.split_whitespace().next());
    stats_function(&name).is_some() && next.is_some_and(|next| next.eq_ignore_ascii_case("by"))
}

/// Whether words of a search are probably a command: they parse as a command and are unlikely in a log.
fn is_likely_command(name: &str, command: &str, only_fields: bool) -> bool {
    let arguments = command[name.len()..].trim();
    let is_telling = UNCOMMON_COMMANDS.contains(&name) || only_fields || has_command_punctuation(arguments);
    !arguments.is_empty() && is_telling && parse_commands(command, true, &BTreeSet::new()).is_ok()
}

/// Whether arguments contain punctuation typical of a command.
fn has_command_punctuation(arguments: &str) -> bool {
    arguments.contains([',', '=', '(']) || arguments.to_ascii_lowercase().contains(" by ")
}

/// Whether a text begins with `N and M`.
fn is_number_range(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let is_number = |word: Option<&str>| word.is_some_and(|word| word.parse::<f64>().is_ok());
    is_number(words.next()) && words.next() == Some("and") && is_number(words.next())
}

/// The suggestion for a search in another language: SQL, or a shell command. `rest` begins with the word `name`.
fn foreign_search(name: &str, rest: &str, begins: bool) -> Option<&'static str> {
    // This runs for every word of a search, so it reads the whole text for the first word only.
    let after = &rest[name.len()..];
    let lower = after[..after.floor_char_boundary(FOREIGN_BYTES_MAX)].to_ascii_lowercase();
    match name.to_ascii_lowercase().as_str() {
        "select" if begins && after.to_ascii_lowercase().contains(" from ") => {
            Some("this is SQL; in SPL: index=main status=500 | stats count by host | sort -count | head 10")
        }
        "grep" | "egrep" if begins => Some("the words alone select events: error \"connection refused\""),
        "limit" if after.len() == lower.len() && lower.trim().parse::<u64>().is_ok() => {
            Some("write `| head 10`, with the number of rows")
        }
        "like" if !begins && lower.trim_start().starts_with(['"', '\'']) => {
            Some("write `| where FIELD like \"5%\"`, or FIELD=5* as a condition of the search")
        }
        "is" if !begins && ["null", "not null"].iter().any(|word| lower.trim_start().starts_with(word)) => {
            Some("write NOT FIELD=* for events without the field, FIELD=* for those that have it")
        }
        "between" if !begins && is_number_range(&lower) => {
            Some("write FIELD>=100 FIELD<=200 for an inclusive range of numbers")
        }
        "group" | "order" if !begins && lower.trim_start().starts_with("by ") => {
            Some("write `| stats count by FIELD` to group, `| sort FIELD` to order")
        }
        _ => None,
    }
}

// ---- expressions --------------------------------------------------------------------------------------------------

/// Adds the lints of an expression: names in single quotes where a text is meant, a `*` that is not a wildcard, and
/// time formats without `%`.
pub(crate) fn find_in_expression(text: &str, expr: &Expr, found: &mut Vec<Diagnostic>) {
    match &expr.kind {
        ExprKind::Binary(op, left, right) => {
            let starts_with_quote =
                |expr: &Expr| text.get(expr.span.start..).is_some_and(|text| text.starts_with('\''));
            if matches!(op, BinaryOp::Compare(_) | BinaryOp::Like)
                && let ExprKind::Field(name) = &right.kind
                && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '%'))
                && starts_with_quote(right)
                && !starts_with_quote(left)
            {
                let remark = Diagnostic::warning(format!("'{name}' is the field {name}, not a text"), right.span);
                found.push(remark.with_hint(format!("write \"{name}\" for the text")));
            }
            if matches!(op, BinaryOp::Like) {
                check_like(text, right, found);
            }
            if let (BinaryOp::Compare(CompareOp::Eq), ExprKind::Field(name)) = (op, &left.kind) {
                check_equality(text, name, right, found);
            }
        }
        ExprKind::Call(name, args) if matches!(name.as_str(), "strftime" | "strptime") => {
            args.get(1).into_iter().for_each(|format| check_time_format(text, name, format, found));
        }
        ExprKind::Call(name, args) if name == "like" => {
            args.get(1).into_iter().for_each(|pattern| check_like(text, pattern, found));
        }
        _ => {}
    }
    expr.parts().into_iter().for_each(|part| find_in_expression(text, part, found));
}

/// Warns of a `*` at the start or end of a text that a field must equal, because it is not a wildcard in an expression.
fn check_equality(text: &str, field: &str, value: &Expr, found: &mut Vec<Diagnostic>) {
    let ExprKind::Text(written) = &value.kind else { return };
    let inner = written.trim_matches('*');
    let is_quoted = text.get(value.span.start..).is_some_and(|text| text.starts_with('"'));
    let is_pattern = inner.len() < written.len() && inner.chars().any(char::is_alphanumeric);
    if is_quoted && is_pattern && !inner.contains(['*', '%']) {
        let remark = Diagnostic::warning("`*` is not a wildcard in an expression", value.span);
        let pattern = written.replace('*', "%");
        found
            .push(remark.with_hint(format!("write like({field}, \"{pattern}\"), or `| search {field}=\"{written}\"`")));
    }
}

/// Warns of a time format that contains letters without `%`.
fn check_time_format(text: &str, function: &str, format: &Expr, found: &mut Vec<Diagnostic>) {
    let ExprKind::Text(written) = &format.kind else { return };
    let is_quoted = text.get(format.span.start..).is_some_and(|text| text.starts_with('"'));
    if is_quoted && !written.contains('%') && written.contains(['Y', 'M', 'D', 'H', 'y', 'd', 'm']) {
        let remark = Diagnostic::warning(format!("the format of {function} has no `%`"), format.span);
        found.push(remark.with_hint("write \"%Y-%m-%d %H:%M:%S\" for 2026-11-20 14:00:00"));
    }
}

/// Warns of a `*` in the pattern of `like`, because it is not a wildcard there.
fn check_like(text: &str, pattern: &Expr, found: &mut Vec<Diagnostic>) {
    let ExprKind::Text(written) = &pattern.kind else { return };
    let is_quoted = text.get(pattern.span.start..).is_some_and(|text| text.starts_with('"'));
    if is_quoted && written.contains('*') && !written.contains(['%', '_']) {
        let remark = Diagnostic::warning("`*` is not a wildcard in a pattern of like", pattern.span);
        found
            .push(remark.with_hint(format!("write \"{}\": % is any text, _ any character", written.replace('*', "%"))));
    }
}

// ---- reports ------------------------------------------------------------------------------------------------------

pub(crate) fn find_in_report(text: &str, aggregates: &[Aggregate], found: &mut Vec<Diagnostic>) {
    for aggregate in aggregates {
        let AggregateArg::Field(field) = &aggregate.arg else { continue };
        let computes =
            field.text.split_once(['/', '*', '+', '-']).is_some_and(|(_, right)| right.trim().parse::<f64>().is_ok());
        if field.text.contains(['=', '<', '>']) || computes {
            let call = text.get(aggregate.span.start..field.span.start).unwrap_or_default();
            let call = call.trim_end().trim_end_matches('(');
            let hint = format!("write {call}(eval({}))", field.text);
            let remark = Diagnostic::warning(format!("`{}` is read as the name of a field", field.text), field.span);
            found.push(if call.is_empty() { remark } else { remark.with_hint(hint) });
        }
    }
}

/// The name before the first `(`; empty if there is no `(`.
fn call_text(name: &str) -> &str {
    name.split_once('(').map_or("", |(function, _)| function)
}

/// Finds arguments of `table` or `fields` that look like calls and that no earlier command has created as fields.
pub(crate) fn find_calls_in_fields(place: &StageContext<'_>, fields: &[FieldPattern], found: &mut Vec<Diagnostic>) {
    fields.iter().for_each(|field| check_listed_field(place, field, found));
}

fn check_listed_field(place: &StageContext<'_>, field: &FieldPattern, found: &mut Vec<Diagnostic>) {
    let name = call_text(&field.text);
    let is_call = field.text.ends_with(')') && stats_function(name).is_some();
    let made = place.text.get(..place.span.start).is_some_and(|before| before.contains(&field.text));
    if is_call && !made {
        let remark = Diagnostic::warning(format!("`{}` is read as the name of a field", field.text), field.span);
        found.push(remark.with_hint(format!("write `| stats {}` to compute it", field.text)));
    }
}
