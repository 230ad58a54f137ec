//! Layout of cells in aligned columns: computes the widths and the columns that fit the terminal, and writes the lines.
//!
//! Without a terminal, every column is as wide as its widest cell. On a terminal, long text is wrapped, except numbers,
//! times and other single words. Columns that do not fit are dropped from the right, and the caller reports their
//! names.

use std::io::{self, Write};

use super::text_width::{escape_line, width, wrap};

/// Blanks between columns.
const GAP: usize = 2;
/// Minimum width of a wrapped column.
const WRAPPED_MIN: usize = 20;
/// Longest single word (a time, an address, an id) that is never wrapped.
const WORD_MAX: usize = 32;

const BOLD: &str = "\u{1b}[1m";
const PLAIN: &str = "\u{1b}[0m";

/// One column of a table.
#[derive(Clone, Debug)]
pub(crate) struct Heading {
    /// Name of the column.
    pub(crate) text: String,
    /// Whether cells are right-aligned.
    pub(crate) is_numeric: bool,
}

/// Headings and cells.
#[derive(Debug)]
pub(crate) struct Grid {
    headings: Vec<Heading>,
    /// Lines of each cell by row and column.
    rows: Vec<Vec<Vec<String>>>,
    /// Width of the terminal; `None` for other outputs.
    terminal: Option<usize>,
}

/// Widths of the displayed columns, which are the leading columns of the grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnWidths(Vec<usize>);

impl ColumnWidths {
    /// Number of columns shown.
    pub(crate) fn columns(&self) -> usize {
        self.0.len()
    }
}

impl Grid {
    /// Creates an empty grid for a terminal of this width; `None` for other outputs.
    pub(crate) fn new(headings: Vec<Heading>, terminal: Option<usize>) -> Grid {
        let heading = |heading: Heading| match terminal {
            Some(_) => Heading { text: escape_line(&heading.text).into_owned(), ..heading },
            None => heading,
        };
        Grid { headings: headings.into_iter().map(heading).collect(), rows: Vec::new(), terminal }
    }

    /// Adds a row; line breaks in cells are kept.
    pub(crate) fn push<'c>(&mut self, cells: impl IntoIterator<Item = std::borrow::Cow<'c, str>>) {
        let lines = |cell: std::borrow::Cow<'_, str>| match self.terminal {
            Some(_) => cell.lines().map(|line| escape_line(line).into_owned()).collect(),
            None => cell.lines().map(str::to_owned).collect(),
        };
        self.rows.push(cells.into_iter().map(lines).collect());
    }

    /// Computes the widths and the displayed columns.
    pub(crate) fn fit(&self) -> ColumnWidths {
        let (natural, least) = self.natural_widths();
        let Some(terminal) = self.terminal else { return ColumnWidths(natural) };
        let mut used = 0;
        let fits = |least: &&usize| {
            used += **least + if used > 0 { GAP } else { 0 };
            used <= terminal
        };
        let columns = least.iter().take_while(fits).count().max(1).min(natural.len());
        ColumnWidths(fit_widths(&natural[..columns], &least[..columns], terminal))
    }

    /// Computes the widths for a further part of the rows: the columns are the same, but wider if these rows have
    /// longer values. A line may then be longer than the terminal, which is better than breaking a value into single
    /// letters.
    pub(crate) fn widen_fit(&self, before: &ColumnWidths) -> ColumnWidths {
        let (natural, least) = self.natural_widths();
        let at_least = |wanted: &[usize]| -> Vec<usize> {
            wanted.iter().zip(&before.0).map(|(&wanted, &width)| wanted.max(width)).collect()
        };
        let (natural, least) = (at_least(&natural), at_least(&least));
        ColumnWidths(self.terminal.map_or_else(|| natural.clone(), |terminal| fit_widths(&natural, &least, terminal)))
    }

    /// The width of each column's widest line, and the minimum width to which each column may be wrapped.
    fn natural_widths(&self) -> (Vec<usize>, Vec<usize>) {
        let heading = |at: usize| width(&self.headings[at].text);
        let cells = |at: usize| self.rows.iter().filter_map(move |row| row.get(at)).flatten();
        let natural: Vec<usize> = (0..self.headings.len())
            .map(|at| cells(at).map(|line| width(line)).max().unwrap_or(0).max(heading(at)))
            .collect();
        let least = (0..natural.len())
            .map(|at| {
                let is_whole = natural[at] <= WORD_MAX && cells(at).all(|line| !line.contains(' '));
                let is_whole = is_whole || self.headings[at].is_numeric;
                if is_whole { natural[at] } else { natural[at].min(heading(at).clamp(WRAPPED_MIN, WORD_MAX)) }
            })
            .collect();
        (natural, least)
    }

    /// Names of the dropped columns.
    pub(crate) fn dropped_columns(&self, fit: &ColumnWidths) -> Vec<&str> {
        self.headings[fit.columns()..].iter().map(|heading| heading.text.as_str()).collect()
    }

    /// Writes the headings, bold if `color`.
    pub(crate) fn write_head(&self, fit: &ColumnWidths, color: bool, out: &mut dyn Write) -> io::Result<()> {
        let cells: Vec<Vec<&str>> = self
            .headings
            .iter()
            .zip(&fit.0)
            .map(|(heading, &columns)| self.wrap_line(&heading.text, columns))
            .collect();
        self.write_cells(
            &cells,
            fit,
            &|_, line| if color { format!("{BOLD}{line}{PLAIN}") } else { line.to_owned() },
            out,
        )
    }

    /// Writes the rows. `dress` receives the number of a column and a line of a cell, and may colour the line.
    pub(crate) fn write_rows(
        &self,
        fit: &ColumnWidths,
        dress: &dyn Fn(usize, &str) -> String,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        for row in &self.rows {
            let lines = row.iter().zip(&fit.0);
            let cells: Vec<Vec<&str>> = lines
                .map(|(lines, &columns)| lines.iter().flat_map(|line| self.wrap_line(line, columns)).collect())
                .collect();
            self.write_cells(&cells, fit, dress, out)?;
        }
        Ok(())
    }

    /// Wraps a line of a cell to the width of its column.
    fn wrap_line<'t>(&self, line: &'t str, columns: usize) -> Vec<&'t str> {
        if self.terminal.is_some() { wrap(line, columns) } else { vec![line] }
    }

    fn write_cells(
        &self,
        cells: &[Vec<&str>],
        fit: &ColumnWidths,
        dress: &dyn Fn(usize, &str) -> String,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let height = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let mut text = String::new();
        for line_at in 0..height {
            text.clear();
            // Blanks are written only when text follows them, so that lines have no trailing blanks.
            let mut owed = 0;
            for (at, cell) in cells.iter().enumerate() {
                let line = cell.get(line_at).copied().unwrap_or("").trim_end();
                let blank = fit.0[at].saturating_sub(width(line));
                let (before, after) = if self.headings[at].is_numeric { (blank, 0) } else { (0, blank) };
                owed += before;
                if !line.is_empty() {
                    text.extend(std::iter::repeat_n(' ', owed));
                    text.push_str(&dress(at, line));
                    owed = 0;
                }
                owed += after + GAP;
            }
            writeln!(out, "{text}")?;
        }
        Ok(())
    }
}

/// Widths that fit the terminal together: the widest columns are reduced first, and no column below its minimum.
fn fit_widths(natural: &[usize], least: &[usize], terminal: usize) -> Vec<usize> {
    let room = terminal.saturating_sub(GAP * natural.len().saturating_sub(1)).max(1);
    let capped = |cap: usize| natural.iter().zip(least).map(move |(&natural, &least)| natural.min(cap.max(least)));
    let widest = natural.iter().copied().max().unwrap_or(0);
    // The total width grows with the maximum width of a column, so a binary search finds this maximum.
    let (mut low, mut high) = (0, widest);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if capped(middle).sum::<usize>() <= room { low = middle } else { high = middle - 1 }
    }
    let mut widths: Vec<usize> = capped(low).collect();
    let mut left = room.saturating_sub(widths.iter().sum());
    for (width, &natural) in widths.iter_mut().zip(natural) {
        let more = usize::from(*width < natural).min(left);
        *width += more;
        left -= more;
    }
    // A single column wider than the terminal is wrapped.
    widths.iter().map(|&width| width.min(terminal.max(1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(terminal: Option<usize>, headings: &[(&str, bool)], rows: &[&[&str]]) -> (String, Vec<String>) {
        let headings = headings.iter().map(|&(text, is_numeric)| Heading { text: text.to_owned(), is_numeric });
        let mut grid = Grid::new(headings.collect(), terminal);
        rows.iter().for_each(|row| grid.push(row.iter().map(|&cell| cell.into())));
        let (fit, mut out) = (grid.fit(), Vec::new());
        grid.write_head(&fit, false, &mut out).unwrap();
        grid.write_rows(&fit, &|_, line| line.to_owned(), &mut out).unwrap();
        let left_out = grid.dropped_columns(&fit).into_iter().map(str::to_owned).collect();
        (String::from_utf8(out).unwrap(), left_out)
    }

    #[test]
    fn headings_are_aligned_with_their_columns() {
        let rows: &[&[&str]] = &[&["日本", "7", "x"], &["e\u{301}", "1234", "y"]];
        let (text, _) = grid(None, &[("name", false), ("n", true), ("z", false)], rows);
        assert_eq!(text, "name     n  z\n日本     7  x\ne\u{301}     1234  y\n");
        let (text, _) = grid(Some(80), &[("a", false), ("b", false)], &[&["\u{1b}[1mx", "y"], &["t\tt", "y"]]);
        assert_eq!(text, "a          b\n\\x1b[1mx   y\nt       t  y\n");
        let mut colored = Vec::new();
        let grid = Grid::new(vec![Heading { text: "n".into(), is_numeric: true }], None);
        grid.write_head(&ColumnWidths(vec![4]), true, &mut colored).unwrap();
        assert_eq!(String::from_utf8(colored).unwrap(), "   \u{1b}[1mn\u{1b}[0m\n");
    }

    #[test]
    fn long_text_wraps_and_numbers_and_words_do_not() {
        let text = "one two three four five six seven eight nine ten";
        let (shown, left_out) =
            grid(Some(40), &[("n", true), ("message", false)], &[&["12345678", text], &["2", "short"]]);
        assert_eq!(
            shown,
            "       n  message\n12345678  one two three four five six\n          seven eight nine ten\n       2  short\n"
        );
        assert!(left_out.is_empty());
    }

    #[test]
    fn later_rows_with_longer_values_widen_their_columns() {
        let heading = |text: &str| Heading { text: text.to_owned(), is_numeric: true };
        let of = |cells: [&'static str; 2]| {
            let mut grid = Grid::new(vec![heading("n"), heading("count")], Some(40));
            grid.push(cells.map(std::borrow::Cow::Borrowed));
            grid
        };
        let first = of(["1", "1"]).fit();
        let later = of(["20000", "1234567"]);
        let fit = later.widen_fit(&first);
        assert_eq!((first, fit.clone()), (ColumnWidths(vec![1, 5]), ColumnWidths(vec![5, 7])));
        assert_eq!(of(["2", "2"]).widen_fit(&fit), fit, "columns do not become narrower again");
        let mut out = Vec::new();
        later.write_rows(&fit, &|_, line| line.to_owned(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "20000  1234567\n");
    }

    #[test]
    fn columns_that_do_not_fit_are_dropped_from_the_right() {
        let names: Vec<String> = (0..30).map(|at| format!("column{at}")).collect();
        let headings: Vec<(&str, bool)> = names.iter().map(|name| (name.as_str(), false)).collect();
        let row: Vec<&str> = names.iter().map(|_| "value").collect();
        for terminal in 1..200 {
            let (shown, left_out) = grid(Some(terminal), &headings, &[&row]);
            assert!(shown.lines().all(|line| width(line) <= terminal), "{terminal}: {shown}");
            let columns = 30 - left_out.len();
            assert!(columns >= ((terminal + GAP) / (8 + GAP)).clamp(1, 30), "{terminal}: {shown}");
            assert!(left_out.iter().eq(&names[columns..]), "{left_out:?}");
        }
        assert_eq!(grid(Some(80), &headings, &[&row]).1.len(), 21);
    }
}
