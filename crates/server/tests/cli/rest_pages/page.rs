//! Parser of the pages of `spec/rest`: prose, requests, and the expected answers.
//!
//! The first line of a block `request` is `METHOD PATH`, followed by any of these words: `as USER`; `until`, to repeat
//! the request until the answer is as expected; `text`, if the body is plain text. The other lines are parameters
//! (`name=value`, with `\n` for a new line), a JSON body, or the plain text. The block `answer` after it has a status
//! and lines of conditions:
//!
//! - `POINTER = VALUE`: the value at this [JSON pointer](https://www.rfc-editor.org/rfc/rfc6901) of the answer; a value
//!   that is not JSON is a string.
//! - `POINTER has VALUE`: the array has this element, the object this key, or the string this part; the empty pointer
//!   stands for the text of the answer.
//! - `POINTER counts N`: the number of elements.
//! - `POINTER lacks VALUE`: not `has`.
//! - `POINTER -> $NAME`: stores the string under this name.
//! - `header NAME = VALUE`.
//!
//! A table whose first heading begins with `$` repeats the page for each of its rows.

use std::collections::BTreeMap;

/// Values by name; names begin with `$`.
pub(super) type Names = BTreeMap<String, String>;

/// A parsed page.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) steps: Vec<Step>,
    /// Values for each repetition; a single empty row if the page is not repeated.
    pub(super) rows: Vec<Names>,
}

/// A request and the expected answer.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// Line of the page.
    pub(super) line: usize,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) user: Option<String>,
    pub(super) until: bool,
    pub(super) is_text: bool,
    pub(super) parameters: Vec<(String, String)>,
    pub(super) body: Option<String>,
    pub(super) status: u16,
    pub(super) expected: Vec<String>,
}

/// Parses a page; the error has the position.
pub(super) fn read_page(text: &str) -> Result<Page, String> {
    let mut page = Page::default();
    let mut block: Option<(String, usize, Vec<&str>)> = None;
    let mut headings: Option<Vec<&str>> = None;
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(fence) = line.strip_prefix("```") {
            match block.take() {
                None => block = Some((fence.to_owned(), number, Vec::new())),
                Some((kind, from, lines)) => {
                    add_block(&mut page, &kind, from, &lines).map_err(|fault| format!("{from}: {fault}"))?
                }
            }
            continue;
        }
        if let Some((_, _, lines)) = &mut block {
            lines.push(line);
            continue;
        }
        let Some(cells) = cells(line) else {
            headings = None;
            continue;
        };
        match &headings {
            None if cells[0].starts_with('$') => headings = Some(cells),
            Some(names) if !cells[0].starts_with("--") => {
                let unquoted = |cell: &str| cell.trim_matches('`').replace("\\|", "|");
                page.rows
                    .push(names.iter().map(|name| (*name).to_owned()).zip(cells.into_iter().map(unquoted)).collect());
            }
            _ => {}
        }
    }
    if block.is_some() || page.steps.iter().any(|step| step.status == 0) {
        return Err("a request has no answer, or a block is not closed".to_owned());
    }
    if page.rows.is_empty() {
        page.rows.push(Names::new());
    }
    Ok(page)
}

fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split(" | ").map(|cell| cell.trim().trim_matches('|').trim()).collect())
}

fn add_block(page: &mut Page, kind: &str, line: usize, lines: &[&str]) -> Result<(), String> {
    let Some((first, rest)) = lines.split_first() else { return Err("an empty block".to_owned()) };
    match kind {
        "request" => {
            let mut words = first.split(' ');
            let (Some(method), Some(path)) = (words.next(), words.next()) else {
                return Err(format!("a request begins with METHOD PATH, not with: {first}"));
            };
            let mut step = Step { line, method: method.to_owned(), path: path.to_owned(), ..Step::default() };
            while let Some(word) = words.next() {
                match word {
                    "as" => step.user = words.next().map(str::to_owned),
                    "until" => step.until = true,
                    "text" => step.is_text = true,
                    _ => return Err(format!("not understood: {word}")),
                }
            }
            if step.is_text || rest.first().is_some_and(|line| line.starts_with(['{', '['])) {
                step.body = Some(rest.join("\n"));
            } else {
                for line in rest {
                    let (name, value) =
                        line.split_once('=').ok_or_else(|| format!("a parameter is NAME=VALUE, not: {line}"))?;
                    step.parameters.push((name.to_owned(), value.to_owned()));
                }
            }
            page.steps.push(step);
            Ok(())
        }
        "answer" => {
            let step = page.steps.last_mut().filter(|step| step.status == 0).ok_or("no request before it")?;
            step.status = first.parse().map_err(|_| format!("an answer begins with a status, not with: {first}"))?;
            step.expected = rest.iter().map(|line| (*line).to_owned()).collect();
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Replaces the names in a text with their values, the longest name first.
pub(super) fn filled(text: &str, names: &Names) -> String {
    let mut by_length: Vec<(&String, &String)> = names.iter().collect();
    by_length.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    by_length.into_iter().fold(text.to_owned(), |text, (name, value)| text.replace(name.as_str(), value))
}
