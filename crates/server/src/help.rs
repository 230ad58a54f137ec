//! `quarry help [COMMAND]`: the search commands, from the language's own table and the manual's pages.
//!
//! The pages are those of `spec/spl`, which are the tests too, so the examples shown are examples that hold.

use std::borrow::Cow;
use std::io::{self, Write};

use quarry_spl::commands;

use crate::failure::Failure;
use crate::output::folded::folded;
use crate::output::grid::{Grid, Heading};

/// The manual: name and text of each page.
const PAGES: &[(&str, &str)] = &[
    ("accum", include_str!("../../../spec/spl/accum.md")),
    ("addinfo", include_str!("../../../spec/spl/addinfo.md")),
    ("addtotals", include_str!("../../../spec/spl/addtotals.md")),
    ("analyzefields", include_str!("../../../spec/spl/analyzefields.md")),
    ("anomalies", include_str!("../../../spec/spl/anomalies.md")),
    ("anomalydetection", include_str!("../../../spec/spl/anomalydetection.md")),
    ("append", include_str!("../../../spec/spl/append.md")),
    ("appendcols", include_str!("../../../spec/spl/appendcols.md")),
    ("appendpipe", include_str!("../../../spec/spl/appendpipe.md")),
    ("apply", include_str!("../../../spec/spl/apply.md")),
    ("associate", include_str!("../../../spec/spl/associate.md")),
    ("autoregress", include_str!("../../../spec/spl/autoregress.md")),
    ("bin", include_str!("../../../spec/spl/bin.md")),
    ("bucketdir", include_str!("../../../spec/spl/bucketdir.md")),
    ("chart", include_str!("../../../spec/spl/chart.md")),
    ("cluster", include_str!("../../../spec/spl/cluster.md")),
    ("cofilter", include_str!("../../../spec/spl/cofilter.md")),
    ("collect", include_str!("../../../spec/spl/collect.md")),
    ("concurrency", include_str!("../../../spec/spl/concurrency.md")),
    ("contingency", include_str!("../../../spec/spl/contingency.md")),
    ("convert", include_str!("../../../spec/spl/convert.md")),
    ("datamodel", include_str!("../../../spec/spl/datamodel.md")),
    ("dbinspect", include_str!("../../../spec/spl/dbinspect.md")),
    ("dedup", include_str!("../../../spec/spl/dedup.md")),
    ("delete", include_str!("../../../spec/spl/delete.md")),
    ("delta", include_str!("../../../spec/spl/delta.md")),
    ("diff", include_str!("../../../spec/spl/diff.md")),
    ("erex", include_str!("../../../spec/spl/erex.md")),
    ("eval", include_str!("../../../spec/spl/eval.md")),
    ("eval-examples", include_str!("../../../spec/spl/eval-examples.md")),
    ("eval-functions", include_str!("../../../spec/spl/eval-functions.md")),
    ("eventcount", include_str!("../../../spec/spl/eventcount.md")),
    ("eventstats", include_str!("../../../spec/spl/eventstats.md")),
    ("extract", include_str!("../../../spec/spl/extract.md")),
    ("fieldformat", include_str!("../../../spec/spl/fieldformat.md")),
    ("fields", include_str!("../../../spec/spl/fields.md")),
    ("fieldsummary", include_str!("../../../spec/spl/fieldsummary.md")),
    ("filldown", include_str!("../../../spec/spl/filldown.md")),
    ("fillnull", include_str!("../../../spec/spl/fillnull.md")),
    ("fit", include_str!("../../../spec/spl/fit.md")),
    ("foreach", include_str!("../../../spec/spl/foreach.md")),
    ("format", include_str!("../../../spec/spl/format.md")),
    ("from", include_str!("../../../spec/spl/from.md")),
    ("fromjson", include_str!("../../../spec/spl/fromjson.md")),
    ("gauge", include_str!("../../../spec/spl/gauge.md")),
    ("gentimes", include_str!("../../../spec/spl/gentimes.md")),
    ("geostats", include_str!("../../../spec/spl/geostats.md")),
    ("head", include_str!("../../../spec/spl/head.md")),
    ("inputlookup", include_str!("../../../spec/spl/inputlookup.md")),
    ("iplocation", include_str!("../../../spec/spl/iplocation.md")),
    ("join", include_str!("../../../spec/spl/join.md")),
    ("kmeans", include_str!("../../../spec/spl/kmeans.md")),
    ("localize", include_str!("../../../spec/spl/localize.md")),
    ("lookup", include_str!("../../../spec/spl/lookup.md")),
    ("macros", include_str!("../../../spec/spl/macros.md")),
    ("makecontinuous", include_str!("../../../spec/spl/makecontinuous.md")),
    ("makemv", include_str!("../../../spec/spl/makemv.md")),
    ("makeresults", include_str!("../../../spec/spl/makeresults.md")),
    ("map", include_str!("../../../spec/spl/map.md")),
    ("mcatalog", include_str!("../../../spec/spl/mcatalog.md")),
    ("metadata", include_str!("../../../spec/spl/metadata.md")),
    ("metasearch", include_str!("../../../spec/spl/metasearch.md")),
    ("mstats", include_str!("../../../spec/spl/mstats.md")),
    ("multikv", include_str!("../../../spec/spl/multikv.md")),
    ("multireport", include_str!("../../../spec/spl/multireport.md")),
    ("multisearch", include_str!("../../../spec/spl/multisearch.md")),
    ("mvcombine", include_str!("../../../spec/spl/mvcombine.md")),
    ("mvexpand", include_str!("../../../spec/spl/mvexpand.md")),
    ("nomv", include_str!("../../../spec/spl/nomv.md")),
    ("noop", include_str!("../../../spec/spl/noop.md")),
    ("outlier", include_str!("../../../spec/spl/outlier.md")),
    ("outputcsv", include_str!("../../../spec/spl/outputcsv.md")),
    ("outputlookup", include_str!("../../../spec/spl/outputlookup.md")),
    ("pivot", include_str!("../../../spec/spl/pivot.md")),
    ("predict", include_str!("../../../spec/spl/predict.md")),
    ("rangemap", include_str!("../../../spec/spl/rangemap.md")),
    ("rare", include_str!("../../../spec/spl/rare.md")),
    ("regex", include_str!("../../../spec/spl/regex.md")),
    ("relevancy", include_str!("../../../spec/spl/relevancy.md")),
    ("reltime", include_str!("../../../spec/spl/reltime.md")),
    ("rename", include_str!("../../../spec/spl/rename.md")),
    ("replace", include_str!("../../../spec/spl/replace.md")),
    ("require", include_str!("../../../spec/spl/require.md")),
    ("rest", include_str!("../../../spec/spl/rest.md")),
    ("return", include_str!("../../../spec/spl/return.md")),
    ("reverse", include_str!("../../../spec/spl/reverse.md")),
    ("rex", include_str!("../../../spec/spl/rex.md")),
    ("savedsearch", include_str!("../../../spec/spl/savedsearch.md")),
    ("score", include_str!("../../../spec/spl/score.md")),
    ("script", include_str!("../../../spec/spl/script.md")),
    ("search", include_str!("../../../spec/spl/search.md")),
    ("selfjoin", include_str!("../../../spec/spl/selfjoin.md")),
    ("sendalert", include_str!("../../../spec/spl/sendalert.md")),
    ("set", include_str!("../../../spec/spl/set.md")),
    ("setfields", include_str!("../../../spec/spl/setfields.md")),
    ("sistats", include_str!("../../../spec/spl/sistats.md")),
    ("sort", include_str!("../../../spec/spl/sort.md")),
    ("spath", include_str!("../../../spec/spl/spath.md")),
    ("stats", include_str!("../../../spec/spl/stats.md")),
    ("stats-functions", include_str!("../../../spec/spl/stats-functions.md")),
    ("strcat", include_str!("../../../spec/spl/strcat.md")),
    ("streamstats", include_str!("../../../spec/spl/streamstats.md")),
    ("subsearches", include_str!("../../../spec/spl/subsearches.md")),
    ("summary", include_str!("../../../spec/spl/summary.md")),
    ("table", include_str!("../../../spec/spl/table.md")),
    ("tags", include_str!("../../../spec/spl/tags.md")),
    ("tail", include_str!("../../../spec/spl/tail.md")),
    ("default-fields", include_str!("../../../spec/spl/default-fields.md")),
    ("folderize", include_str!("../../../spec/spl/folderize.md")),
    ("searchtxn", include_str!("../../../spec/spl/searchtxn.md")),
    ("time", include_str!("../../../spec/spl/time.md")),
    ("timechart", include_str!("../../../spec/spl/timechart.md")),
    ("timewrap", include_str!("../../../spec/spl/timewrap.md")),
    ("tojson", include_str!("../../../spec/spl/tojson.md")),
    ("top", include_str!("../../../spec/spl/top.md")),
    ("transaction", include_str!("../../../spec/spl/transaction.md")),
    ("transpose", include_str!("../../../spec/spl/transpose.md")),
    ("trendline", include_str!("../../../spec/spl/trendline.md")),
    ("tstats", include_str!("../../../spec/spl/tstats.md")),
    ("typeahead", include_str!("../../../spec/spl/typeahead.md")),
    ("union", include_str!("../../../spec/spl/union.md")),
    ("uniq", include_str!("../../../spec/spl/uniq.md")),
    ("untable", include_str!("../../../spec/spl/untable.md")),
    ("walklex", include_str!("../../../spec/spl/walklex.md")),
    ("where", include_str!("../../../spec/spl/where.md")),
    ("xmlkv", include_str!("../../../spec/spl/xmlkv.md")),
    ("xyseries", include_str!("../../../spec/spl/xyseries.md")),
];

/// Spaces in front of what a page shows literally.
const INDENT: &str = "    ";

/// Writes the list of commands, or one page; `columns` are those of a terminal.
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
        writeln!(out, "\n{}", columns.map_or_else(|| also.clone(), |columns| folded(&also, columns)))?;
        return Ok(0);
    };
    let help = commands::help().iter().find(|help| help.name == name);
    let page_name = help.map_or(name, |help| help.page);
    if let Some((_, page)) = PAGES.iter().find(|(page, _)| *page == page_name) {
        out.write_all(&shown(page, columns)?)?;
        return Ok(0);
    }
    match help {
        Some(help) => {
            writeln!(out, "{}\n\n  {}\n\n{}", help.name, help.syntax, help.summary)?;
            Ok(0)
        }
        None => Err(Failure::Usage(format!("no search command is called {name}: `quarry help` lists them"))),
    }
}

/// A page as text: literal blocks are indented and say what they are, tables are aligned, links are their words. On a
/// terminal of so many columns prose and tables are folded, literal blocks stay as they are.
fn shown(page: &str, columns: Option<usize>) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut in_block = false;
    let mut table: Vec<Vec<String>> = Vec::new();
    let mut paragraph = String::new();
    for line in page.lines() {
        let is_prose = !in_block && !line.is_empty() && !line.starts_with(['|', '#']) && !line.starts_with("```");
        if columns.is_some() && (line.starts_with("- ") || !is_prose) {
            write_prose(&std::mem::take(&mut paragraph), columns, &mut out)?;
        }
        if !in_block && line.starts_with('|') {
            table.push(cells_of(line));
            continue;
        }
        write_table(&std::mem::take(&mut table), columns, &mut out)?;
        // A page breaks its lines for who reads it as it is; a terminal has its own width.
        if columns.is_some() && is_prose {
            paragraph.push_str(if paragraph.is_empty() { "" } else { " " });
            paragraph.push_str(line.trim());
            continue;
        }
        if let Some(kind) = line.strip_prefix("```") {
            in_block = !in_block;
            match kind.split_whitespace().next() {
                Some("events") => writeln!(out, "events:")?,
                Some("result") => writeln!(out, "gives:")?,
                Some("error") => writeln!(out, "is refused:")?,
                Some("csv") => writeln!(out, "table:")?,
                _ => {}
            }
        } else if in_block {
            writeln!(out, "{INDENT}{line}")?;
        } else {
            let text = plain(line.strip_prefix('#').map_or(line, |title| title.trim_start_matches('#').trim_start()));
            writeln!(out, "{}", columns.map_or_else(|| text.clone(), |columns| folded(&text, columns)))?;
        }
    }
    write_prose(&paragraph, columns, &mut out)?;
    write_table(&table, columns, &mut out)?;
    Ok(out)
}

/// A paragraph, if there is one.
fn write_prose(paragraph: &str, columns: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    match columns {
        Some(columns) if !paragraph.is_empty() => writeln!(out, "{}", folded(&plain(paragraph), columns)),
        _ => Ok(()),
    }
}

/// The cells of a line of a table; a bar behind a backslash is text.
fn cells_of(line: &str) -> Vec<String> {
    let line = line.replace("\\|", "\u{0}");
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(|cell| plain(cell.trim()).replace('\u{0}', "|")).collect()
}

/// A table, its first line the headings; below them stands a line of dashes, which is left out.
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
    // A column must not be missing; where there is no room for all, the terminal breaks the lines.
    if !grid.left_out(&grid.fit()).is_empty() {
        grid = filled(None);
    }
    let fit = grid.fit();
    if head.iter().any(|text| !text.is_empty()) {
        grid.write_head(&fit, false, out)?;
    }
    grid.write_rows(&fit, &|_, line| line.to_owned(), out)
}

/// Prose without the marks of its links: `[words](page.md)` is its words.
fn plain(text: &str) -> String {
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
    fn pages_read_as_text() {
        let page = help(Some("head"));
        assert!(page.starts_with("head\n"), "{page}");
        assert!(page.contains("    * | head 2 | table n\ngives:\n    n\n"), "{page}");
        assert!(!page.contains("```"), "{page}");
        assert!(!help(Some("where")).contains("](search.md)"));
        assert!(help(None).contains("eval-functions"));
        assert!(run(Some("nonsense"), None, &mut Vec::new()).is_err());
    }

    #[test]
    fn a_terminal_breaks_paragraphs_at_its_own_width() {
        let page = "# t\n\nOne two\nthree [four](x.md)\n`five`.\n- six\n  seven\n\n```spl\na  b\nc\n```\n";
        let of = |columns| String::from_utf8(shown(page, columns).unwrap()).unwrap();
        assert_eq!(of(Some(16)), "t\n\nOne two three\nfour `five`.\n- six seven\n\n    a  b\n    c\n");
        assert_eq!(of(None), "t\n\nOne two\nthree four\n`five`.\n- six\n  seven\n\n    a  b\n    c\n");
    }

    #[test]
    fn every_page_fits_a_terminal_but_for_what_is_literal() {
        for (name, page) in PAGES {
            let text = String::from_utf8(shown(page, Some(80)).unwrap()).unwrap();
            let long = text.lines().find(|line| !line.starts_with(INDENT) && width(line) > 80 && line.contains(' '));
            assert_eq!(long, None, "{name}");
        }
    }
}
