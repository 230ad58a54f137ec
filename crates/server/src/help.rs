//! `quarry help [COMMAND]`: help on search commands and functions, from their tables and the manual's pages.
//!
//! The pages are those of `spec/spl`, which are also tests, so the examples shown are correct.

use std::borrow::Cow;
use std::io::{self, Write};

use clap::CommandFactory;
use quarry_spl::commands;
use quarry_spl::editing::functions_named;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output::grid::{Grid, Heading};
use crate::output::line_folding::fold_text;

/// The manual: name and text of each page, sorted by name.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// Indentation of literal blocks.
const INDENT: &str = "    ";

/// Prints the list of commands or one page; `columns` is the terminal's width.
pub(crate) fn run(command: Option<&str>, columns: Option<usize>, out: &mut dyn Write) -> Result<u8, Failure> {
    let Some(name) = command else {
        writeln!(out, "Search commands (quarry help COMMAND for one; quarry --help for the program):")?;
        for group in commands::Group::ALL {
            writeln!(out, "\n{}", group.title())?;
            for help in commands::help().iter().filter(|help| help.group == group) {
                writeln!(out, "  {:<16} {}", help.name, help.summary)?;
            }
        }
        let listed = |page: &&str| !commands::is_command(page);
        let topics: Vec<&str> = PAGES.iter().map(|(page, _)| *page).filter(listed).collect();
        let also = format!("Also: quarry help {}", topics.join(" | "));
        writeln!(out, "\n{}", columns.map_or_else(|| also.clone(), |columns| fold_text(&also, columns)))?;
        return Ok(0);
    };
    // "stats functions" is the page stats-functions.
    let dashed = name.trim().to_lowercase().replace([' ', '_'], "-");
    let name = if PAGES.iter().any(|(page, _)| *page == dashed) { dashed.as_str() } else { name };
    let help = commands::help().iter().find(|help| help.name == name);
    let page_name = help.map_or(name, |help| help.page);
    if let Some((_, page)) = PAGES.iter().find(|(page, _)| *page == page_name) {
        out.write_all(&format_page(page, columns)?)?;
        return Ok(0);
    }
    match help {
        Some(help) => {
            writeln!(out, "{}\n\n  {}\n\n{}", help.name, help.syntax, help.summary)?;
            Ok(0)
        }
        None if Cli::command().find_subcommand(name).is_some() => Err(Failure::Usage(format!(
            "{name} is not a search command but a command of the program: `quarry {name} --help` describes it"
        ))),
        None if write_functions(name, out)? => Ok(0),
        None => {
            let pages = PAGES.iter().map(|(page, _)| *page);
            let near = quarry_spl::closest_name(name, commands::help().iter().map(|help| help.name).chain(pages));
            let meant = near.map_or_else(String::new, |near| format!(" (did you mean `quarry help {near}`?)"));
            Err(Failure::Usage(format!("no search command is called {name}{meant}: `quarry help` lists them")))
        }
    }
}

/// Writes the descriptions of the eval function and of the stats function with this name; false if there is neither.
fn write_functions(name: &str, out: &mut dyn Write) -> io::Result<bool> {
    let name = name.trim().trim_end_matches("()").to_lowercase();
    let mut functions = functions_named(&name).into_iter().flatten().peekable();
    if functions.peek().is_none() {
        return Ok(false);
    }
    for (at, (help, page)) in functions.enumerate() {
        let kind = page.trim_end_matches("-functions");
        let empty = if at > 0 { "\n" } else { "" };
        writeln!(out, "{empty}{name}: {kind} function\n\n{INDENT}{}\n\n{}", help.syntax, help.summary)?;
        writeln!(out, "More: quarry help {page}")?;
    }
    Ok(true)
}

/// Formats a page as plain text: literal blocks are indented and labelled, tables aligned, links reduced to their text.
/// On a terminal, prose, syntax and tables are folded to `columns`.
fn format_page(page: &str, columns: Option<usize>) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let (mut in_block, mut in_syntax) = (false, false);
    let mut table: Vec<Vec<String>> = Vec::new();
    let mut paragraph = String::new();
    for line in page.lines() {
        let is_prose = !in_block && !line.is_empty() && !line.starts_with(['|', '#']) && !line.starts_with("```");
        if columns.is_some() && (line.starts_with("- ") || !is_prose) {
            write_prose(&std::mem::take(&mut paragraph), columns, &mut out)?;
        }
        if !in_block && line.starts_with('|') {
            table.push(split_cells(line));
            continue;
        }
        write_table(&std::mem::take(&mut table), columns, &mut out)?;
        // The page's own line breaks are replaced by the terminal's.
        if columns.is_some() && is_prose {
            paragraph.push_str(if paragraph.is_empty() { "" } else { " " });
            paragraph.push_str(line.trim());
            continue;
        }
        if let Some(kind) = line.strip_prefix("```") {
            in_block = !in_block;
            in_syntax = in_block && kind == "text";
            match kind.split_whitespace().next() {
                Some("events") => writeln!(out, "events:")?,
                Some("result") => writeln!(out, "gives:")?,
                Some("error") => writeln!(out, "is refused:")?,
                Some("csv") => writeln!(out, "table:")?,
                _ => {}
            }
        } else if in_block && in_syntax {
            let line = format!("{INDENT}{line}");
            writeln!(out, "{}", columns.map_or_else(|| line.clone(), |columns| fold_text(&line, columns)))?;
        } else if in_block {
            writeln!(out, "{INDENT}{line}")?;
        } else {
            let text =
                strip_links(line.strip_prefix('#').map_or(line, |title| title.trim_start_matches('#').trim_start()));
            writeln!(out, "{}", columns.map_or_else(|| text.clone(), |columns| fold_text(&text, columns)))?;
        }
    }
    write_prose(&paragraph, columns, &mut out)?;
    write_table(&table, columns, &mut out)?;
    Ok(out)
}

/// Writes a paragraph unless it is empty.
fn write_prose(paragraph: &str, columns: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    match columns {
        Some(columns) if !paragraph.is_empty() => writeln!(out, "{}", fold_text(&strip_links(paragraph), columns)),
        _ => Ok(()),
    }
}

/// Splits a table row into cells; an escaped bar is text.
fn split_cells(line: &str) -> Vec<String> {
    let line = line.replace("\\|", "\u{0}");
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(|cell| strip_links(cell.trim()).replace('\u{0}', "|")).collect()
}

/// Writes a table whose first row has the headings; the row of dashes is dropped.
fn write_table(table: &[Vec<String>], columns: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    let Some((head, rows)) = table.split_first() else { return Ok(()) };
    let headings =
        || head.iter().map(|text| Heading { text: text.clone(), is_numeric: false }).collect::<Vec<Heading>>();
    let filled = |terminal: Option<usize>| {
        let mut grid = Grid::new(headings(), terminal);
        rows.iter().skip(1).for_each(|row| grid.push(row.iter().map(|cell| Cow::from(cell.as_str()))));
        grid
    };
    let mut grid = filled(columns);
    // All columns must be shown; if they do not fit, the terminal wraps the lines.
    if !grid.dropped_columns(&grid.fit()).is_empty() {
        grid = filled(None);
    }
    let fit = grid.fit();
    if head.iter().any(|text| !text.is_empty()) {
        grid.write_head(&fit, false, out)?;
    }
    grid.write_rows(&fit, &|_, line| line.to_owned(), out)
}

/// Reduces links in prose to their text: `[words](page.md)` becomes `words`.
fn strip_links(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, words, after)) = rest.split_once('[').and_then(|(before, link)| {
        let (words, target) = link.split_once("](")?;
        let (page, after) = target.split_once(')')?;
        (!words.contains(['[', '`']) && !page.contains(' ')).then_some((before, words, after))
    }) {
        out.push_str(before);
        out.push_str(words);
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::text_width::width;

    fn help(name: Option<&str>) -> String {
        let mut out = Vec::new();
        assert!(run(name, None, &mut out).is_ok());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_command_has_a_page_or_shares_one() {
        for command in commands::help() {
            let has_page = PAGES.iter().any(|(page, _)| *page == command.page);
            assert!(has_page, "{} has no page in spec/spl", command.name);
        }
    }

    #[test]
    fn pages_are_formatted_as_text() {
        let page = help(Some("head"));
        assert!(page.starts_with("head\n"), "{page}");
        assert!(page.contains("    * | head 2 | table n\ngives:\n    n\n"), "{page}");
        assert!(!page.contains("```"), "{page}");
        assert!(!help(Some("where")).contains("](search.md)"));
        assert!(help(None).contains("eval-functions"));
        let refused = |name: &str| run(Some(name), None, &mut Vec::new()).unwrap_err().text();
        assert_eq!(refused("nonsense"), "no search command is called nonsense: `quarry help` lists them");
        assert!(refused("add").contains("`quarry add --help`"));
        for (name, near) in [("stat", "stats"), ("timchart", "timechart"), ("eval-function", "eval-functions")] {
            assert!(refused(name).contains(&format!("(did you mean `quarry help {near}`?)")), "{}", refused(name));
        }
    }

    #[test]
    fn a_function_is_described_with_its_page() {
        let text = help(Some("round"));
        assert!(text.starts_with("round: eval function\n\n    round("), "{text}");
        assert!(text.ends_with("More: quarry help eval-functions\n"), "{text}");
        assert!(help(Some("MAX()")).contains("More: quarry help stats-functions\n"));
        assert!(help(Some("p95")).starts_with("p95: stats function"));
    }

    #[test]
    fn a_terminal_breaks_paragraphs_at_its_own_width() {
        let page = "# t\n\nOne two\nthree [four](x.md)\n`five`.\n- six\n  seven\n\n```spl\na  b\nc\n```\n";
        let of = |columns| String::from_utf8(format_page(page, columns).unwrap()).unwrap();
        assert_eq!(of(Some(16)), "t\n\nOne two three\nfour `five`.\n- six seven\n\n    a  b\n    c\n");
        assert_eq!(of(None), "t\n\nOne two\nthree four\n`five`.\n- six\n  seven\n\n    a  b\n    c\n");
    }

    #[test]
    fn a_line_of_syntax_is_folded_and_an_example_is_not() {
        let page = "```text\nt ONE TWO [THREE]\n```\n\n```spl\n* | t one two three\n```\n";
        let text = String::from_utf8(format_page(page, Some(16)).unwrap()).unwrap();
        assert_eq!(text, "    t ONE TWO\n    [THREE]\n\n    * | t one two three\n");
    }

    #[test]
    fn pages_fit_a_terminal_except_literal_blocks() {
        for (name, page) in PAGES {
            let text = String::from_utf8(format_page(page, Some(80)).unwrap()).unwrap();
            let long = text.lines().find(|line| !line.starts_with(INDENT) && width(line) > 80 && line.contains(' '));
            assert_eq!(long, None, "{name}");
        }
        let mut list = Vec::new();
        assert!(run(None, Some(80), &mut list).is_ok());
        let list = String::from_utf8(list).unwrap();
        assert_eq!(list.lines().find(|line| width(line) > 80), None);
    }
}
