//! `-o vertical`: a record per row, a line per field. Missing fields are omitted.

use std::io::{self, Write};

use quarry_search::ResultTable;

use super::text_width::{escape_line, width, wrap};
use super::{HighlightTerms, OutputStyle, is_shown, sparkline};

const DIM: &str = "\u{1b}[2m";
const BOLD: &str = "\u{1b}[1m";
const PLAIN: &str = "\u{1b}[0m";

/// Length of the rule before a record.
const RULE: usize = 40;
/// Blanks between a name and its value.
const GAP: usize = 2;
/// Minimum number of columns of a wrapped value.
const VALUE_MIN: usize = 20;

/// Writes rows as records, whose numbers continue after `rows_before`.
pub(super) fn write(
    result: &ResultTable,
    rows_before: usize,
    style: OutputStyle,
    marks: &HighlightTerms,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (dim, bold, plain) = if style.color { (DIM, BOLD, PLAIN) } else { ("", "", "") };
    for (at, row) in result.rows().enumerate() {
        writeln!(out, "{dim}{:-<RULE$}{plain}", format!("-[ {} ]", rows_before + at + 1))?;
        let cells: Vec<(String, String)> = row
            .cells()
            .filter(|(name, _)| is_shown(name))
            .map(|(name, value)| {
                let bars = sparkline::draw(&value).filter(|_| style.width.is_some());
                (escape_line(name).into_owned(), bars.unwrap_or_else(|| value.join_values("\n").into_owned()))
            })
            .filter(|(_, value)| !value.is_empty())
            .collect();
        let names = cells.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
        let room = style.width.map(|columns| usize::from(columns).saturating_sub(names + GAP).max(VALUE_MIN));
        for (name, value) in &cells {
            let lines = value.lines().flat_map(|line| match room {
                Some(room) => wrap(&escape_line(line), room).into_iter().map(str::to_owned).collect(),
                None => vec![line.to_owned()],
            });
            let is_text = name == "_raw";
            for (line_at, line) in lines.enumerate() {
                let name = if line_at == 0 { name.as_str() } else { "" };
                let blank = names + GAP - width(name);
                let line = if is_text { marks.highlight(&line) } else { line };
                writeln!(out, "{bold}{name}{plain}{:blank$}{line}", "")?;
            }
        }
    }
    Ok(())
}
