//! The pages of the manual in `spec/spl` as a table in the program, so that a new page needs no more than its file.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    // The variable is read at run time, because clones that share a target folder also share this program.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").ok_or("cargo names no CARGO_MANIFEST_DIR")?;
    let pages = Path::new(&package).join("../../spec/spl").canonicalize()?;
    writeln!(std::io::stdout(), "cargo:rerun-if-env-changed=CARGO_MANIFEST_DIR")?;
    // For a folder, cargo checks all its files.
    writeln!(std::io::stdout(), "cargo:rerun-if-changed={}", pages.display())?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&pages)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
    files.sort();
    let mut table = String::from("&[\n");
    for file in &files {
        let name = file.file_stem().ok_or("a page has no name")?.to_string_lossy();
        table.push_str(&format!("    ({name:?}, include_str!({:?})),\n", file.to_string_lossy()));
    }
    table.push_str("]\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo names no OUT_DIR")?);
    Ok(std::fs::write(out.join("pages.rs"), table)?)
}
