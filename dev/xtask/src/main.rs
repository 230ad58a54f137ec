//! The project's automation, so that development machines and CI run the same program.
//!
//! `cargo xtask ci` runs everything, `quick` the checks for a change in progress; `layers` checks crate dependencies
//! and limits import cycles inside crates, `circle` shows the largest cycle of a crate, `tidy` checks the house rules,
//! `bench` takes the measurements of the performance table, `counts` counts the instructions of parts of the bucket
//! code; `soak-node` repeatedly kills a node and makes its disk fail, `soak-searches` runs generated searches, `storms`
//! runs many clients that fail to log in or do not read their answers, `differential` compares answers with DuckDB's,
//! `search-commands` runs commands of Splunk's SDK, `s3` runs all checks that need an S3 server. Tools are called as
//! child processes; nothing here is part of the product.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its terminal")]

mod assertions;
mod bench;
mod casts;
mod ci;
mod commands;
mod counts;
mod error_types;
mod file_map;
mod import_cycles;
mod layers;
mod python;
mod quick;
mod s3;
mod soak_node;
mod soak_searches;
mod storms;
mod tidy;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: cargo xtask ci | quick [--since COMMIT] | layers [--update] | circle CRATE | tidy [--update] | bench [DATA_DIR] | bench --shapes [OPTIONS] | bench --remote DIR [--latency MS] [--requests NAME] [--bandwidth MB] | bench --users DIR | counts [--save] |
       soak-node [--rounds N] [--seed S] [--volumes] | soak-searches [--seeds N] [--from SEED] |
       storms [--binary PATH] |
       differential [--s3 [--megabytes N]] | search-commands | s3";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let task = arguments.first().map(String::as_str).unwrap_or("");
    let outcome = match task {
        "ci" => ci::run(),
        "circle" => import_cycles::show(arguments.get(1).map_or("engine", String::as_str)),
        "layers" => {
            layers::run().and_then(|()| import_cycles::run(arguments.iter().any(|argument| argument == "--update")))
        }
        "tidy" => tidy::run(arguments.iter().any(|argument| argument == "--update")),
        "bench" => bench::run(&arguments[1..]),
        "quick" => quick::run(&arguments[1..]),
        "counts" => counts::run(&arguments[1..]),
        "soak-node" => soak_node::run(&arguments[1..]),
        "differential" if arguments.iter().any(|argument| argument == "--s3") => {
            let named = arguments.iter().position(|argument| argument == "--megabytes");
            python::DIFFERENTIAL.run_on_s3(named.and_then(|at| arguments.get(at + 1)).map(String::as_str))
        }
        "differential" => python::DIFFERENTIAL.run(),
        "search-commands" => python::SEARCH_COMMANDS.run(),
        "s3" => s3::run(),
        "storms" => storms::run(&arguments[1..]),
        "soak-searches" => soak_searches::run(&arguments[1..]),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask {task}: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Calls cargo as a shell would: without the environment variables that `cargo run` sets. With them, build scripts that
/// read these variables (such as ring's) would run again, and all dependent crates would be rebuilt.
fn cargo() -> Command {
    let mut command = Command::new("cargo");
    for (name, _) in std::env::vars_os() {
        let is_of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
    command
}

/// Root directory of the project.
fn root() -> PathBuf {
    // The directory in which this program was compiled is not used: it may belong to another clone that shares the
    // target directory.
    let here = std::env::current_dir().unwrap_or_default();
    let found = here.ancestors().find(|folder| folder.join("dev/xtask").is_dir()).map(PathBuf::from);
    found.unwrap_or(here)
}
