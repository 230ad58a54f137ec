//! `multikv`: a row for each row of a table that stands in the text of an event.
//!
//! A line of names is the header; the lines below are cut into words, which go to the columns in order where there are
//! as many, and by their place otherwise. With a rule of multikv.conf ([`rules`]) it says what is what.

pub(crate) mod rules;
mod tokens;

use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::rows::{self, ColumnBuilder};
use quarry_spl::ast::{MultiKvCommand, Span};

use self::rules::{SeeCells, TableRule};
use super::Execute;
use super::found_fields::FoundFields;
use crate::lower::{Lowering, Step, row};

/// Rows that the texts of one batch give at most.
const ROWS_MAX: usize = 5_000_000;

impl Execute for MultiKvCommand {
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let rule = self.rule.as_ref().map(|(name, span)| table_rule(lowering, name, *span)).transpose()?;
        let command = MultiKv { command: Arc::new(self.clone()), rule };
        Ok(vec![row(move || command.clone())])
    }
}

/// The rule of a stanza of multikv.conf.
fn table_rule(lowering: &Lowering<'_>, name: &str, span: Span) -> Result<Arc<TableRule>, EngineError> {
    let invalid = |message: String| EngineError::Invalid { message, span: Some(span) };
    let knowledge = lowering.environment.knowledge();
    let settings = knowledge.table_rule(name).ok_or_else(|| {
        let known = knowledge.table_rules();
        let known = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
        invalid(format!("multikv: multikv.conf has no stanza {name}; {known}"))
    })?;
    let rule = TableRule::new(&settings).map_err(|fault| invalid(format!("multikv.conf [{name}]: {fault}")))?;
    Ok(Arc::new(rule))
}

/// The command with its options.
#[derive(Clone)]
struct MultiKv {
    command: Arc<MultiKvCommand>,
    /// The rule that it names.
    rule: Option<Arc<TableRule>>,
}

/// A word of a line, with the characters it stands at.
#[derive(Clone)]
struct Word<'t> {
    text: &'t str,
    start: usize,
    end: usize,
}

/// What is shown the rows of tables: the line, the columns and its words.
type SeeRow<'s> = &'s mut dyn FnMut(&str, &[Column], &[Word<'_>]);

/// A column: its name and where its name stands.
struct Column {
    name: String,
    start: usize,
    end: usize,
}

impl RowCommand for MultiKv {
    fn apply(&mut self, rows: RecordBatch) -> Result<RecordBatch, EngineError> {
        let (texts, mut scratch) = (rows::reader(&rows, "_raw"), String::new());
        let (mut places, mut lines, mut found) = (Vec::new(), Vec::new(), FoundFields::default());
        for row in 0..rows.num_rows() {
            let Some(text) = texts.text(row, &mut scratch) else { continue };
            if !self.command.removes_event {
                places.push(row as u32);
                lines.push(text.to_owned());
            }
            let fields = &self.command.fields;
            self.rows(text, &mut |line, cells| {
                let at = places.len();
                places.push(row as u32);
                lines.push(line.to_owned());
                for (name, value) in cells {
                    if fields.is_empty() || fields.contains(&name) {
                        found.add(at, &name, &value, false);
                    }
                }
            });
            if places.len() > ROWS_MAX {
                let value = ROWS_MAX as u64;
                return Err(EngineError::Limit { what: "multikv".into(), limit: "rows of tables", value });
            }
        }
        let count = places.len();
        let mut raw = ColumnBuilder::new(count);
        lines.iter().for_each(|line| raw.push_text(line));
        let copied = match self.command.copies_fields {
            true => rows::take(&rows, &UInt32Array::from(places))?,
            false => rows::batch_of([("_raw", rows::null_column(count))], count)?,
        };
        found.into_rows(&rows::with_column(&copied, "_raw", raw.finish())?, true)
    }
}

/// The cells of the tables in a text with the names of their columns: what `KV_MODE = multi` makes fields of, and with a
/// rule `KV_MODE = multi:STANZA`.
pub(crate) fn table_cells(text: &str, rule: Option<&TableRule>, see: &mut dyn FnMut(&str, &str)) {
    if let Some(rule) = rule {
        rule.rows(text, true, true, &mut |_, cells| cells.iter().for_each(|(name, value)| see(name, value)));
        return;
    }
    let command = MultiKvCommand {
        copies_fields: false,
        fields: Vec::new(),
        filter: Vec::new(),
        header_line: None,
        several_tables: true,
        no_header: false,
        removes_event: true,
        rule: None,
    };
    MultiKv { command: Arc::new(command), rule: None }.table(text, &mut |line, columns, words| {
        for (column, value) in assigned(columns, words, line) {
            if !value.is_empty() {
                see(&column.name, &value);
            }
        }
    });
}

impl MultiKv {
    /// Shows each row of the tables in a text with names and values of its cells.
    fn rows(&self, text: &str, see: SeeCells<'_>) {
        let Some(rule) = &self.rule else {
            return self.table(text, &mut |line, columns, words| {
                let cells = assigned(columns, words, line).into_iter();
                see(line, cells.map(|(column, value)| (column.name.clone(), value)).collect());
            });
        };
        let filter = &self.command.filter;
        rule.rows(text, self.command.several_tables, !self.command.no_header, &mut |line, cells| {
            if filter.is_empty() || filter.iter().any(|text| line.contains(text.as_str())) {
                see(line, cells);
            }
        });
    }

    /// Shows each row of the tables in a text.
    fn table(&self, text: &str, see: SeeRow<'_>) {
        // Lines that are not blank, and whether a blank one stood before.
        let mut lines: Vec<(&str, bool)> = Vec::new();
        let mut after_blank = true;
        for line in text.lines() {
            match line.trim().is_empty() {
                true => after_blank = true,
                false => lines.push((line, std::mem::replace(&mut after_blank, false))),
            }
        }
        let mut columns: Option<Vec<Column>> = self.command.no_header.then(Vec::new);
        let header = match (self.command.no_header, self.command.header_line) {
            (true, _) => None,
            (false, Some(line)) => Some(line - 1),
            (false, None) => Some(header_of(&lines)),
        };
        for (at, (line, after_blank)) in lines.iter().enumerate() {
            let words = words_of(line);
            if Some(at) == header {
                columns = Some(columns_of(&words));
                continue;
            }
            let Some(known) = &columns else { continue };
            let starts_table =
                self.command.several_tables && self.command.header_line.is_none() && !self.command.no_header;
            if starts_table && *after_blank && is_header(&words) {
                columns = Some(columns_of(&words));
                continue;
            }
            if !self.command.filter.is_empty() && !self.command.filter.iter().any(|text| line.contains(text.as_str())) {
                continue;
            }
            match self.command.no_header {
                true => see(line, &numbered(&words), &words),
                false => see(line, known, &words),
            }
        }
    }
}

/// Which line is the header: the first of names that begin with capitals, else the first without numbers, else the first.
fn header_of(lines: &[(&str, bool)]) -> usize {
    let named = |line: &str| words_of(line).iter().all(|word| !word.text.starts_with(|c: char| c.is_ascii_digit()));
    let several = |line: &str| words_of(line).len() > 1;
    let capitals = lines.iter().position(|(line, _)| is_header(&words_of(line)));
    capitals.or_else(|| lines.iter().position(|(line, _)| several(line) && named(line))).unwrap_or(0)
}

/// Whether all words look like names of columns that begin with capitals.
fn is_header(words: &[Word<'_>]) -> bool {
    let is_name = |word: &Word<'_>| {
        let letters = word.text.trim_start_matches(|c: char| !c.is_alphanumeric());
        letters.starts_with(char::is_uppercase)
    };
    words.len() > 1 && words.iter().all(is_name)
}

fn words_of(line: &str) -> Vec<Word<'_>> {
    let (mut words, mut start) = (Vec::new(), None);
    let mut place = 0;
    for (at, c) in line.char_indices() {
        match (c.is_whitespace(), start) {
            (true, Some((from, column))) => {
                words.push(Word { text: &line[from..at], start: column, end: place });
                start = None;
            }
            (false, None) => start = Some((at, place)),
            _ => {}
        }
        place += 1;
    }
    if let Some((from, column)) = start {
        words.push(Word { text: &line[from..], start: column, end: place });
    }
    words
}

fn columns_of(words: &[Word<'_>]) -> Vec<Column> {
    let clean = |text: &str| -> String {
        let sign = |c: char| if c.is_alphanumeric() || c == '_' { c } else { '_' };
        text.chars().map(sign).collect::<String>().trim_matches('_').to_owned()
    };
    let names = words.iter().enumerate().map(|(at, word)| {
        let name = clean(word.text);
        let name = if name.is_empty() { format!("Column_{}", at + 1) } else { name };
        Column { name, start: word.start, end: word.end }
    });
    names.collect()
}

fn numbered(words: &[Word<'_>]) -> Vec<Column> {
    let name = |(at, word): (usize, &Word<'_>)| Column {
        name: format!("Column_{}", at + 1),
        start: word.start,
        end: word.end,
    };
    words.iter().enumerate().map(name).collect()
}

/// The words of a line by column. What is left over belongs to the last column.
fn assigned<'c>(columns: &'c [Column], words: &[Word<'_>], line: &str) -> Vec<(&'c Column, String)> {
    let Some(last) = columns.len().checked_sub(1) else { return Vec::new() };
    if words.len() >= columns.len() {
        let plain = columns.iter().zip(words).take(last).map(|(column, word)| (column, word.text.to_owned()));
        let rest: String = line.chars().skip(words[last].start).collect();
        return plain.chain([(&columns[last], rest.trim_end().to_owned())]).collect();
    }
    // Fewer words than columns: each goes to the column it stands nearest to, in order.
    let mut taken = Vec::new();
    let mut from = 0;
    for (at, word) in words.iter().enumerate() {
        // As many columns must stay for the words to come.
        let to = columns.len() - (words.len() - at);
        let distance =
            |column: &Column| column.start.saturating_sub(word.end).max(word.start.saturating_sub(column.end));
        let nearest = (from..=to).min_by_key(|place| distance(&columns[*place]));
        if let Some(place) = nearest {
            taken.push((&columns[place], word.text.to_owned()));
            from = place + 1;
        }
    }
    taken
}
