//! The performance table: ingest of the comparison data, its size on disk, the eight queries and needle searches
//! through a server.
//!
//! `cargo xtask bench DIR` takes a directory with the output of the comparison generator (`gen DIR 3000000 2000000`):
//! `syslog.log` and, if present, `events.jsonl` and `access.log`. Answers are checked before their times count. Query
//! times are medians of [`queries::RUNS`] runs, first on a server without the cache of partial states, and then, named
//! `kept`, on a server with this cache. The table is printed and saved in `target/bench/last.txt`. The next run also
//! prints the ratios of its figures to those of the last run, and to those of `target/bench/baseline.txt` if
//! `--save-baseline` has written that file.
//!
//! `cargo xtask bench --shapes` measures randomised data sets instead ([`shapes`]), `--remote` searches over an S3
//! store ([`remote`]), `--users` many users during ingest ([`users`]). The program is the release binary, or the one
//! that `QUARRY_BENCH_BINARY` names.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod figures;
mod ingest;
mod needles;
mod queries;
mod remote;
mod server;
mod shapes;
mod users;

use std::path::{Path, PathBuf};
use std::process::Command;

use self::figures::Figures;
use self::server::Server;
use crate::python::target_folder;

const USAGE: &str = "usage: cargo xtask bench DIR [--save-baseline] (DIR with syslog.log in it), or bench --shapes …, or bench --remote DIR, or bench --users DIR";

/// Runs the whole table.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    if arguments.first().is_some_and(|argument| argument == "--shapes") {
        return shapes::run(&arguments[1..]);
    }
    if arguments.first().is_some_and(|argument| argument == "--remote") {
        return remote::run(&arguments[1..]);
    }
    if arguments.first().is_some_and(|argument| argument == "--users") {
        return users::run(&arguments[1..]);
    }
    let folder = arguments.first().map(PathBuf::from).ok_or(USAGE)?;
    let save_baseline = match arguments.get(1).map(String::as_str) {
        None => false,
        Some("--save-baseline") => true,
        Some(_) => return Err(USAGE.to_owned()),
    };
    let mut figures = Figures::load();
    for name in ["access.log", "events.jsonl"] {
        let input = folder.join(name);
        if input.exists() {
            ingest::run(&input, &folder.join("quarry-bench-other"), name, &mut figures)?;
        }
    }
    let (input, data) = (folder.join("syslog.log"), folder.join("quarry-bench"));
    ingest::run(&input, &data, "syslog.log", &mut figures)?;
    keep_partial_states(&data, false)?;
    let server = Server::start(&data)?;
    queries::run(&server, &mut figures)?;
    needles::run(&server, &input, &mut figures)?;
    drop(server);
    keep_partial_states(&data, true)?;
    let server = Server::start(&data)?;
    queries::run_kept(&server, &mut figures)?;
    drop(server);
    figures.save(save_baseline)
}

/// Configures a data directory so that servers started on it later cache partial states, or do not.
fn keep_partial_states(data: &Path, keep: bool) -> Result<(), String> {
    let folder = data.join("etc/system/local");
    let file = folder.join("limits.conf");
    let text = if keep { "" } else { "[search]\npartial_state_cache_mb = 0\n" };
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, text));
    written.map_err(|error| format!("{}: {error}", file.display()))
}

/// Creates a command of the measured binary for a data directory.
fn quarry(data: &Path) -> Command {
    let named = std::env::var_os("QUARRY_BENCH_BINARY").map(PathBuf::from);
    let mut command = Command::new(named.unwrap_or_else(|| target_folder().join("release/quarry")));
    command.arg("--data-dir").arg(data);
    command
}
