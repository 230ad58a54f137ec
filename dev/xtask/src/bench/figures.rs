//! Figures of this run, compared with the last run and with the baseline.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::root;

/// The figures of this run so far.
pub(super) struct Figures {
    last: BTreeMap<String, f64>,
    baseline: BTreeMap<String, f64>,
    now: Vec<(String, f64)>,
}

impl Figures {
    /// Creates an empty table and loads the figures of earlier runs.
    pub(super) fn load() -> Figures {
        Figures { last: read(&path_of("last")), baseline: read(&path_of("baseline")), now: Vec::new() }
    }

    /// Adds and prints a figure.
    pub(super) fn add(&mut self, name: &str, figure: f64) {
        let ratio = |known: &BTreeMap<String, f64>, of: &str| {
            known.get(name).map(|other| format!("  x{:.2} of the {of}", figure / other)).unwrap_or_default()
        };
        println!("{name:<34} {figure:>12.1}{}{}", ratio(&self.last, "last run"), ratio(&self.baseline, "baseline"));
        self.now.push((name.to_owned(), figure));
    }

    /// Saves the table for the next run.
    pub(super) fn save(&self, as_baseline: bool) -> Result<(), String> {
        let text: String = self.now.iter().map(|(name, figure)| format!("{name} {figure:.3}\n")).collect();
        write(&path_of("last"), &text)?;
        if as_baseline { write(&path_of("baseline"), &text) } else { Ok(()) }
    }
}

fn path_of(name: &str) -> PathBuf {
    root().join(format!("target/bench/{name}.txt"))
}

fn read(path: &Path) -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let rows = text.lines().filter_map(|line| line.rsplit_once(' '));
    rows.filter_map(|(name, figure)| Some((name.to_owned(), figure.parse().ok()?))).collect()
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}
