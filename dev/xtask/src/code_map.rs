//! Checks that the files and directories that ARCHITECTURE.md names exist.
//!
//! Only tables are read. A path in backquotes is relative to `crates/`; file names after a directory are relative to
//! that directory. A path with a placeholder (`NAME`) names many files and is not checked.

use std::path::Path;

use crate::root;

/// The page with the map.
const PAGE: &str = "ARCHITECTURE.md";
/// Parts of a path that stand for any name.
const PLACEHOLDERS: [&str; 2] = ["NAME", "VERB"];

/// Reports paths that do not exist.
pub(crate) fn check(faults: &mut Vec<String>) -> Result<(), String> {
    let text = std::fs::read_to_string(root().join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    let crates = root().join("crates");
    let missing = paths(&text).into_iter().filter(|(_, path)| !exists(&crates, path));
    faults.extend(missing.map(|(line, path)| format!("{PAGE}:{line}: there is no file or directory crates/{path}")));
    Ok(())
}

/// Paths in the tables of a page, relative to `crates/`, each with its line number.
fn paths(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, row) in page.lines().enumerate().filter(|(_, line)| line.starts_with('|')) {
        let mut directory = "";
        for name in row.split('`').skip(1).step_by(2).filter(|name| !name.contains(' ')) {
            let path = if name.contains("/src/") {
                directory = if name.ends_with('/') { name } else { "" };
                name.to_owned()
            } else if !directory.is_empty() && name.ends_with(".rs") {
                format!("{directory}{name}")
            } else {
                continue;
            };
            if !PLACEHOLDERS.iter().any(|placeholder| path.contains(placeholder)) {
                found.push((at + 1, path));
            }
        }
    }
    found
}

/// Whether a path exists. A directory may be only the file of the same name.
fn exists(crates: &Path, path: &str) -> bool {
    crates.join(path).exists() || crates.join(format!("{}.rs", path.trim_end_matches('/'))).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_from_the_tables() {
        let page = "# Map\n`a/src/text.rs`\n| files | `a/src/b/` `c.rs`, `d.rs` (`open`); verb: `e/src/f.rs`, `g.rs` |\n\
                    | many | `a/src/NAME.rs`; `a/src/x/` |\n";
        let expected = [(3, "a/src/b/"), (3, "a/src/b/c.rs"), (3, "a/src/b/d.rs"), (3, "e/src/f.rs"), (4, "a/src/x/")];
        assert_eq!(paths(page), expected.map(|(line, path)| (line, path.to_owned())));
    }

    #[test]
    fn the_map_names_no_missing_file() {
        let mut faults = Vec::new();
        check(&mut faults).unwrap();
        assert_eq!(faults, Vec::<String>::new());
    }
}
