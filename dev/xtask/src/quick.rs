//! The contributor's loop: checks only what changed since a commit.
//!
//! Format, house rules and layers for everything; `check` for the workspace if a crate changed; clippy and unit tests
//! for the crates whose files changed. It uses the dev profile with incremental builds: the first run compiles all
//! dependencies, which takes minutes, and later runs only the affected crates. Not here: specification pages, the
//! command line, crash tests, comparison with DuckDB; `cargo xtask ci` runs these.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use crate::root;

/// Default base commit.
const BASE: &str = "HEAD";

/// Runs the steps and prints the duration of each; stops at the first failure.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let base = match arguments {
        [] => BASE,
        [option, base] if option == "--since" => base,
        _ => return Err("usage: cargo xtask quick [--since COMMIT]".to_owned()),
    };
    let changed = changed_crates(&changed_files(base)?);
    run_timed("format", || cargo(&["fmt", "--all", "--check"]))?;
    run_timed("tidy", || crate::tidy::run(false))?;
    run_timed("layers", || crate::layers::run().and_then(|()| crate::import_cycles::run(false)))?;
    if changed.is_empty() {
        println!("no crate changed since {base}");
        return Ok(());
    }
    println!("changed since {base}: {}", changed.iter().cloned().collect::<Vec<_>>().join(", "));
    run_timed("check", || cargo(&["check", "--workspace", "--locked", "--quiet"]))?;
    let packages: Vec<&str> = changed.iter().flat_map(|package| ["-p", package.as_str()]).collect();
    let clippy =
        [&["clippy", "--locked", "--quiet"], &packages[..], &["--all-targets", "--", "-D", "warnings"]].concat();
    run_timed("clippy", || cargo(&clippy))?;
    let tests = [&["test", "--locked", "--quiet"], &packages[..], &["--lib", "--bins"]].concat();
    run_timed("unit tests", || cargo(&tests))
}

/// Files that differ from `base`, committed or not.
fn changed_files(base: &str) -> Result<Vec<String>, String> {
    let mut files = lines_of("git", &["diff", "--name-only", base])?;
    files.extend(lines_of("git", &["ls-files", "--others", "--exclude-standard"])?);
    Ok(files)
}

/// Packages to which these files belong.
fn changed_crates(files: &[String]) -> BTreeSet<String> {
    let packages = files.iter().filter_map(|file| {
        let mut parts = file.split('/');
        match (parts.next()?, parts.next()?) {
            ("crates", "server") => Some("quarry".to_owned()),
            ("dev", "xtask") => Some("xtask".to_owned()),
            ("crates" | "dev", name) => Some(format!("quarry-{name}")),
            _ => None,
        }
    });
    packages.filter(|package| package != "quarry-install-tools").collect()
}

#[expect(clippy::disallowed_methods, reason = "a development tool that prints durations needs no injected clock")]
fn run_timed(step: &str, work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let start = std::time::Instant::now();
    let outcome = work();
    let took: Duration = start.elapsed();
    println!("{step:>12} {:6.1} s{}", took.as_secs_f64(), if outcome.is_ok() { "" } else { "  failed" });
    outcome
}

fn cargo(arguments: &[&str]) -> Result<(), String> {
    let status = crate::cargo().args(arguments).current_dir(root()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo {} ended with {status}", arguments.join(" "))),
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}

fn lines_of(program: &str, arguments: &[&str]) -> Result<Vec<String>, String> {
    let output = Command::new(program).args(arguments).current_dir(root()).output();
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_map_to_their_packages() {
        let files = ["crates/spl/src/lib.rs", "crates/server/src/main.rs", "dev/xtask/src/ci.rs", "docs/README.md"];
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        let expected: Vec<String> = ["quarry", "quarry-spl", "xtask"].map(str::to_owned).to_vec();
        assert_eq!(changed_crates(&files).into_iter().collect::<Vec<_>>(), expected);
    }
}
