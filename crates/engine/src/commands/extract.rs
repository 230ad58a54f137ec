//! `extract`: extracts name-value pairs from event texts.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::rows;
use quarry_pipeline::extract::key_value::PairFinder;
use quarry_pipeline::extract::{auto_kv, clean_name};
use quarry_scan::Report;
use quarry_spl::ast::ExtractCommand;

use super::Execute;
use super::extracted_fields::FoundFields;
use crate::lowering::{Lowering, Step, row};

impl Execute for ExtractCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        if self.rules.is_empty() {
            let command = Arc::new(self.clone());
            return Ok(vec![row(move || Extract(Arc::clone(&command)))]);
        }
        let rules = self.rules.iter().map(|(name, span)| lowering.environment.report(name, *span));
        let (rules, chars_max) = (Arc::new(rules.collect::<Result<Vec<_>, _>>()?), self.chars_max);
        Ok(vec![row(move || ExtractByRules { rules: Arc::clone(&rules), chars_max })])
    }
}

/// `extract` without stanzas.
struct Extract(Arc<ExtractCommand>);

/// `extract` with stanzas of transforms.conf.
struct ExtractByRules {
    rules: Arc<Vec<Report>>,
    /// Maximum number of characters read per text.
    chars_max: usize,
}

impl RowCommand for ExtractByRules {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let mut result = rows;
        for rule in self.rules.iter() {
            let (texts, mut scratch) = (rows::reader(&result, rule.source()), String::new());
            let mut found = FoundFields::default();
            for row in 0..result.num_rows() {
                let Some(text) = texts.text(row, &mut scratch) else { continue };
                let end = text.char_indices().nth(self.chars_max).map_or(text.len(), |(at, _)| at);
                rule.run(&text[..end], &mut |name, value| found.add(row, name, value, rule.appends_values()));
            }
            result = found.into_rows(&result, false)?;
        }
        Ok(result)
    }
}

impl RowCommand for Extract {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let command = &*self.0;
        let texts = rows::reader(&rows, "_raw");
        let (mut found, mut scratch) = (FoundFields::default(), String::new());
        let finders = finders_for(command);
        let delimiters = command.delimiters.as_ref().map(|(pair, name)| (Marks::new(pair), Marks::new(name)));
        for row in 0..rows.num_rows() {
            let Some(text) = texts.text(row, &mut scratch) else { continue };
            let end = text.char_indices().nth(command.chars_max).map_or(text.len(), |(at, _)| at);
            let text = &text[..end];
            if let Some(finders) = &finders
                && find_names(text, finders, command.limit, &mut |name, value| found.add(row, name, value, false))
            {
                continue;
            }
            let mut left = command.limit;
            let mut add = |key: &str, value: &str| {
                let name = if command.clean_keys { clean_name(key) } else { Cow::Borrowed(key) };
                if left == 0 || name.is_empty() || value.is_empty() {
                    return;
                }
                left -= 1;
                if command.names.as_ref().is_none_or(|names| names.iter().any(|known| *known == name)) {
                    found.add(row, &name, value, command.adds_values);
                }
            };
            match &delimiters {
                None => auto_kv(text, &mut |key, value| add(key, value)),
                Some((pair, name)) => find_delimited_pairs(text, pair, name, &mut add),
            }
        }
        found.into_rows(&rows, false)
    }
}

/// The finders for the fields that later commands read; `None` if all pairs of a text must be examined.
fn finders_for(command: &ExtractCommand) -> Option<Vec<PairFinder>> {
    let names = command.names.as_ref().filter(|_| command.delimiters.is_none() && !command.adds_values)?;
    // With `clean_keys`, no pair produces a name that cleaning would change.
    let may_exist = |name: &&String| !command.clean_keys || clean_name(name) == **name;
    Some(names.iter().filter(may_exist).map(|name| PairFinder::new(name)).collect())
}

/// Passes the first pair of each of these fields to `found`. False, without having passed anything, if this needs all
/// pairs of the text.
fn find_names(text: &str, finders: &[PairFinder], limit: usize, found: &mut dyn FnMut(&str, &str)) -> bool {
    // Each pair has an equals sign, so a text has too many pairs only if it has more equals signs than `limit`.
    if text.bytes().filter(|byte| *byte == b'=').count() > limit {
        return false;
    }
    let values: Option<Vec<Option<&str>>> = finders.iter().map(|finder| finder.value_in(text)).collect();
    let Some(values) = values else { return false };
    let pairs = finders.iter().zip(values).filter_map(|(finder, value)| Some((finder.name(), value?)));
    pairs.for_each(|(name, value)| found(name, value));
    true
}

/// A set of characters that delimit pairs or names.
struct Marks<'a> {
    all: &'a str,
    is_ascii_mark: [bool; 128],
}

impl<'a> Marks<'a> {
    fn new(all: &'a str) -> Marks<'a> {
        let mut is_ascii_mark = [false; 128];
        all.bytes().filter(u8::is_ascii).for_each(|mark| is_ascii_mark[usize::from(mark)] = true);
        Marks { all, is_ascii_mark }
    }

    fn contains(&self, c: char) -> bool {
        match self.is_ascii_mark.get(c as usize) {
            Some(is_mark) => *is_mark,
            None => self.all.contains(c),
        }
    }
}

/// Name-value pairs of a text, with these pair and name delimiters; quoted parts are kept together.
fn find_delimited_pairs(text: &str, pair: &Marks<'_>, name: &Marks<'_>, found: &mut dyn FnMut(&str, &str)) {
    let mut rest = text;
    while !rest.is_empty() {
        let end = find_unquoted(rest, pair).unwrap_or(rest.len());
        let part = &rest[..end];
        if let Some(at) = find_unquoted(part, name) {
            let value = part[at..].trim_start_matches(|c| name.contains(c));
            found(trim_quotes(&part[..at]), trim_quotes(value));
        }
        let next = rest[end..].chars().next().map_or(0, char::len_utf8);
        rest = &rest[end + next..];
    }
}

/// Position of the first of these characters outside double quotes.
fn find_unquoted(text: &str, marks: &Marks<'_>) -> Option<usize> {
    let is_quote_mark = marks.contains('"');
    let mut quoted = false;
    // An unclosed quote has no effect.
    let closes = |at: usize| text[at + 1..].contains('"');
    for (at, c) in text.char_indices() {
        match c {
            '"' if is_quote_mark => return Some(at),
            '"' if quoted => quoted = false,
            '"' => quoted = closes(at),
            c if !quoted && marks.contains(c) => return Some(at),
            _ => {}
        }
    }
    None
}

/// A name or value without surrounding blanks and quotes.
fn trim_quotes(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')).unwrap_or(text)
}
