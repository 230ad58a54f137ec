//! The full check: format, house rules, layers, licences, lints, links in comments, comparisons with DuckDB, commands
//! of Splunk's SDK, compilation of the fuzz targets, tests, load tests, and a node that is killed repeatedly.
//!
//! Cheap checks run first. All cargo calls use the release profile, so that DataFusion is built once for the demo, the
//! tests and the benchmarks.

use crate::root;

/// Runs every step; stops at the first failure.
pub(crate) fn run() -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"])?;
    crate::tidy::run(false)?;
    crate::layers::run()?;
    crate::import_cycles::run(false)?;
    deny()?;
    quarry_s3world::install();
    // With the feature that a benchmark requires; otherwise nothing would compile it.
    let targets = ["--workspace", "--all-targets", "--features", "quarry-engine/measure"];
    cargo(&[&["clippy", "--release", "--locked"], &targets[..], &["--", "-D", "warnings"]].concat())?;
    // Links in comments to items that no longer exist; the lint is in Cargo.toml.
    cargo(&["doc", "--release", "--locked", "--workspace", "--no-deps", "--document-private-items", "--quiet"])?;
    cargo(&["build", "--release", "--locked", "-p", "quarry"])?;
    crate::python::DIFFERENTIAL.run()?;
    crate::python::DIFFERENTIAL.run_on_s3(None)?;
    crate::python::SEARCH_COMMANDS.run()?;
    cargo(&["check", "--no-default-features", "--manifest-path", "fuzz/Cargo.toml"])?;
    if succeeds(&["nextest", "--version"]) {
        cargo(&["nextest", "run", "--release", "--locked", "--workspace"])?;
        cargo(&["test", "--release", "--locked", "--workspace", "--doc"])?;
    } else {
        cargo(&["test", "--release", "--locked", "--workspace"])?;
    }
    crate::storms::run(&[])?;
    crate::soak_node::run_rounds(crate::soak_node::ROUNDS_OF_CI, 1)
}

/// Licences, sources and bans, checked with cargo-deny if it is installed (CI installs it).
fn deny() -> Result<(), String> {
    if !succeeds(&["deny", "--version"]) {
        println!("cargo-deny is not installed: licences and sources are not checked here (cargo install cargo-deny)");
        return Ok(());
    }
    cargo(&["deny", "--locked", "--offline", "check", "licenses", "bans", "sources"])
}

fn succeeds(arguments: &[&str]) -> bool {
    let run = crate::cargo().args(arguments).current_dir(root()).output();
    run.is_ok_and(|output| output.status.success())
}

/// Runs cargo and passes its output through.
pub(crate) fn cargo(arguments: &[&str]) -> Result<(), String> {
    println!("==> cargo {}", arguments.join(" "));
    let status = crate::cargo().args(arguments).current_dir(root()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo {} ended with {status}", arguments.join(" "))),
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}
