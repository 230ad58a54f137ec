//! Tables in the text of an event, split into rows and cells.
//!
//! A line of names is the header. The lines below are split into words, which are assigned to columns in order if the
//! numbers match, and by position otherwise. A rule of multikv.conf ([`rules`]) overrides all of this.

pub mod rules;
mod tokens;

use std::sync::Arc;

use quarry_spl::ast::MultiKvCommand;

use self::rules::{CellVisitor, TableRule};

/// Reads tables according to the options of `multikv`.
#[derive(Clone)]
pub struct TableReader {
    /// The options.
    pub command: Arc<MultiKvCommand>,
    /// The rule named by the options.
    pub rule: Option<Arc<TableRule>>,
}

/// A word of a line, with its range in characters.
#[derive(Clone)]
struct Word<'t> {
    text: &'t str,
    start: usize,
    end: usize,
}

/// Receives the rows of tables: the line, the columns, and the words of the line.
type RowVisitor<'s> = &'s mut dyn FnMut(&str, &[Column], &[Word<'_>]);

/// A column: its name and the position of the name.
struct Column {
    name: String,
    start: usize,
    end: usize,
}

/// Passes the cells of the tables in a text to `see`, with their column names: the fields for `KV_MODE = multi` and,
/// with a rule, `KV_MODE = multi:STANZA`.
pub fn table_cells(text: &str, rule: Option<&TableRule>, see: &mut dyn FnMut(&str, &str)) {
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
    TableReader { command: Arc::new(command), rule: None }.table(text, &mut |line, columns, words| {
        for (column, value) in assign_words(columns, words, line) {
            if !value.is_empty() {
                see(&column.name, &value);
            }
        }
    });
}

impl TableReader {
    /// Passes each row of the tables in a text to `see`, as the names and values of its cells.
    pub fn rows(&self, text: &str, see: CellVisitor<'_>) {
        let Some(rule) = &self.rule else {
            return self.table(text, &mut |line, columns, words| {
                let cells = assign_words(columns, words, line).into_iter();
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

    /// Passes each row of the tables in a text to `see`.
    fn table(&self, text: &str, see: RowVisitor<'_>) {
        // Non-blank lines, and whether each follows a blank line.
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
                true => see(line, &numbered_columns(&words), &words),
                false => see(line, known, &words),
            }
        }
    }
}

/// Index of the header: the first line of capitalised names, else the first line of several words none of which begins
/// with a digit, else the first line.
fn header_of(lines: &[(&str, bool)]) -> usize {
    let named = |line: &str| words_of(line).iter().all(|word| !word.text.starts_with(|c: char| c.is_ascii_digit()));
    let several = |line: &str| words_of(line).len() > 1;
    let capitals = lines.iter().position(|(line, _)| is_header(&words_of(line)));
    capitals.or_else(|| lines.iter().position(|(line, _)| several(line) && named(line))).unwrap_or(0)
}

/// Whether all words look like capitalised column names.
fn is_header(words: &[Word<'_>]) -> bool {
    let is_name = |word: &Word<'_>| {
        let letters = word.text.trim_start_matches(|c: char| !c.is_alphanumeric());
        letters.starts_with(char::is_uppercase)
    };
    words.len() > 1 && words.iter().all(is_name)
}

fn words_of(line: &str) -> Vec<Word<'_>> {
    let (mut words, mut start) = (Vec::new(), None);
    let mut position = 0;
    for (at, c) in line.char_indices() {
        match (c.is_whitespace(), start) {
            (true, Some((from, column))) => {
                words.push(Word { text: &line[from..at], start: column, end: position });
                start = None;
            }
            (false, None) => start = Some((at, position)),
            _ => {}
        }
        position += 1;
    }
    if let Some((from, column)) = start {
        words.push(Word { text: &line[from..], start: column, end: position });
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

fn numbered_columns(words: &[Word<'_>]) -> Vec<Column> {
    let name = |(at, word): (usize, &Word<'_>)| Column {
        name: format!("Column_{}", at + 1),
        start: word.start,
        end: word.end,
    };
    words.iter().enumerate().map(name).collect()
}

/// Assigns the words of a line to columns. Surplus words belong to the last column.
fn assign_words<'c>(columns: &'c [Column], words: &[Word<'_>], line: &str) -> Vec<(&'c Column, String)> {
    let Some(last) = columns.len().checked_sub(1) else { return Vec::new() };
    if words.len() >= columns.len() {
        let plain = columns.iter().zip(words).take(last).map(|(column, word)| (column, word.text.to_owned()));
        let rest: String = line.chars().skip(words[last].start).collect();
        return plain.chain([(&columns[last], rest.trim_end().to_owned())]).collect();
    }
    // With fewer words than columns, each word is assigned to the nearest column, in order.
    let mut taken = Vec::new();
    let mut from = 0;
    for (at, word) in words.iter().enumerate() {
        // Enough columns must remain for the remaining words.
        let to = columns.len() - (words.len() - at);
        let distance =
            |column: &Column| column.start.saturating_sub(word.end).max(word.start.saturating_sub(column.end));
        let nearest = (from..=to).min_by_key(|at| distance(&columns[*at]));
        if let Some(nearest) = nearest {
            taken.push((&columns[nearest], word.text.to_owned()));
            from = nearest + 1;
        }
    }
    taken
}
