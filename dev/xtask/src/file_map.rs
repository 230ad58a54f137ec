//! Checks that the files which the tables of ARCHITECTURE.md name exist.
//!
//! A row may name a directory first and then files in it, so a name is looked up as the end of a path. Not here:
//! directories, and names with a placeholder, such as `NAME.rs`.

use std::path::PathBuf;

use crate::root;

/// The page with the tables.
const MAP: &str = "ARCHITECTURE.md";
/// Words of the page that stand for a part of a name.
const PLACEHOLDERS: &[&str] = &["NAME", "VERB"];

/// Reports names of Rust files with which no path in `files` ends.
pub(crate) fn check(files: &[PathBuf], faults: &mut Vec<String>) -> Result<(), String> {
    let path = root().join(MAP);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    check_rows(&text, files, faults);
    Ok(())
}

fn check_rows(text: &str, files: &[PathBuf], faults: &mut Vec<String>) {
    for (at, row) in text.lines().enumerate().filter(|(_, line)| line.starts_with('|')) {
        let names = row.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs"));
        let names = names.filter(|name| !PLACEHOLDERS.iter().any(|word| name.contains(word)));
        for name in names.filter(|name| !files.iter().any(|file| file.ends_with(name))) {
            faults.push(format!("{MAP}:{}: {name} does not exist: name the file that has the behaviour now", at + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_do_not_exist_are_reported_by_line() {
        let files = [PathBuf::from("/quarry/crates/scan/src/fields.rs"), "/quarry/crates/scan/src/host/a.rs".into()];
        let text = "`gone.rs`\n| kept | `scan/src/` `fields.rs`, `host/a.rs`; `scan/src/NAME.rs` |\n\
                    | gone | `scan/src/fields.rs`, `elds.rs`, `host/b.rs` |\n";
        let mut faults = Vec::new();
        check_rows(text, &files, &mut faults);
        let named: Vec<&str> = faults.iter().filter_map(|fault| fault.split(": ").nth(1)).collect();
        assert!(faults.iter().all(|fault| fault.starts_with("ARCHITECTURE.md:3: ")), "{faults:?}");
        assert_eq!(named, ["elds.rs does not exist", "host/b.rs does not exist"]);
    }
}
