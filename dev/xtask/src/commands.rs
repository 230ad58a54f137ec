//! Checks that every SPL command is complete: it must have a row in the table of `quarry_spl::commands`, a syntax file,
//! an execution file and a page.
//!
//! The compiler reports a row without files; this check reports files without a row, and missing pages. `cargo fmt`
//! does not follow modules that a macro declares, so their format is checked here, too.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::root;

/// Directory of the syntax files, and the files in it that are not commands.
const SYNTAX: &str = "crates/spl/src/commands";
const NO_COMMANDS: &[&str] = &["mod", "substitution", "info", "measurements", "unsupported_commands", "registry"];
/// Directory of the execution files.
const EXECUTION: &str = "crates/engine/src/commands";
/// Directory of the pages.
const PAGES: &str = "spec/spl";

/// A row of the table.
struct Row {
    /// Name of the command and of its files.
    name: String,
    /// Whether the command expands to other commands and so needs no execution file.
    is_short: bool,
}

/// Reports missing parts.
pub(crate) fn check(faults: &mut Vec<String>) -> Result<(), String> {
    let table_path = root().join(SYNTAX).join("mod.rs");
    let table = std::fs::read_to_string(&table_path).map_err(|error| format!("{}: {error}", table_path.display()))?;
    let rows = rows(&table);
    if rows.is_empty() {
        faults.push(format!("{SYNTAX}/mod.rs: the table `each_command` has no rows"));
    }
    let mut files = Vec::new();
    for row in &rows {
        let syntax = root().join(SYNTAX).join(format!("{}.rs", row.name));
        let text = std::fs::read_to_string(&syntax).map_err(|error| format!("{}: {error}", syntax.display()))?;
        check_page(row, &text, faults);
        files.push(syntax);
        if !row.is_short {
            files.push(root().join(EXECUTION).join(format!("{}.rs", row.name)));
        }
    }
    let known = |stem: &str| NO_COMMANDS.contains(&stem) || rows.iter().any(|row| row.name == stem);
    for stem in stems(&root().join(SYNTAX))?.iter().filter(|stem| !known(stem)) {
        faults.push(format!("{SYNTAX}/{stem}.rs: no row of `each_command` in mod.rs names this file"));
    }
    check_format(&files, faults)
}

/// Checks that the page exists.
fn check_page(row: &Row, text: &str, faults: &mut Vec<String>) {
    let file = format!("{SYNTAX}/{}.rs", row.name);
    let description = text.split_once("const INFO").map_or("", |(_, rest)| rest);
    let page = quoted_after(description, "page: Some(").unwrap_or(&row.name);
    if !root().join(PAGES).join(format!("{page}.md")).exists() {
        faults.push(format!("{file}: {PAGES}/{page}.md is missing; write it, or name a shared page in `INFO`"));
    }
}

/// The rows of the macro `each_command`.
fn rows(table: &str) -> Vec<Row> {
    let (mut rows, mut is_short, mut is_table) = (Vec::new(), false, false);
    for line in table.lines().map(str::trim) {
        match line {
            "nodes {" => (is_table, is_short) = (true, false),
            "short {" => (is_table, is_short) = (true, true),
            "}" => is_table = false,
            row if is_table => {
                let file = match row.split_once('(') {
                    Some((_, node)) => node.split("::").next().unwrap_or_default(),
                    None => row.trim_end_matches(','),
                };
                rows.push(Row { name: file.trim_start_matches("r#").to_owned(), is_short });
            }
            _ => {}
        }
    }
    rows
}

/// The quoted text that follows a marker.
fn quoted_after<'t>(text: &'t str, mark: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(mark)?;
    rest.trim_start().strip_prefix('"')?.split('"').next()
}

/// Names of the Rust files in a directory.
fn stems(folder: &Path) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut stems: Vec<String> =
        files.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect();
    stems.sort();
    Ok(stems)
}

fn check_format(files: &[PathBuf], faults: &mut Vec<String>) -> Result<(), String> {
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.current_dir(root()).args(["--edition", "2024", "--check", "-l"]).args(files);
    let output = rustfmt.output().map_err(|error| format!("rustfmt: {error}"))?;
    if !output.status.success() {
        let listed = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        faults
            .push(format!("not formatted; run `rustfmt --edition 2024 crates/*/src/commands/*.rs`:\n{listed}{errors}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_from_the_table() {
        let table =
            "nodes {\n  Accum(accum::AccumCommand),\n  Where(r#where::WhereCommand),\n}\nshort {\n  ar,\n}\nx\n";
        let rows: Vec<(String, bool)> = rows(table).into_iter().map(|row| (row.name, row.is_short)).collect();
        assert_eq!(rows, [("accum".to_owned(), false), ("where".to_owned(), false), ("ar".to_owned(), true)]);
    }

    #[test]
    fn missing_pages_are_reported() {
        let told = |name: &str, text: &str| {
            let mut faults = Vec::new();
            check_page(&Row { name: name.to_owned(), is_short: false }, text, &mut faults);
            faults
        };
        assert!(told("accum", "const INFO: syntax: \"accum\",").is_empty());
        assert!(told("mcollect", "const INFO: syntax: \"mcollect\",\npage: Some(\"mcatalog\"),").is_empty());
        assert_eq!(told("nonsense", "const INFO: syntax: \"nonsense\",").len(), 1);
    }
}
