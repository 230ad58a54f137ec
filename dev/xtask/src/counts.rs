//! Instruction counts of the bucket code, for comparisons on machines too busy for timing.
//!
//! `cargo xtask counts` runs each part of `crates/bucket/benches/parts` once under valgrind's callgrind, which counts
//! the instructions inside the function `counted` of that program. Each count is printed with its ratio to the one in
//! `dev/xtask/counts.txt`; `--save` writes that file. The counts of two runs differ by less than a hundredth, so a
//! ratio of more than [`TOLERANCE`] is a failure. Not measured: caches, waiting and memory bandwidth, which instruction
//! counts do not show.

use std::collections::BTreeMap;

use crate::root;

/// Maximum ratio of a count to the saved one; more is not random variation.
const TOLERANCE: f64 = 1.05;
const BASELINE: &str = "dev/xtask/counts.txt";
const RUNNER: &str = r#"target."cfg(unix)".runner = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=parts::counted*"]"#;

/// Counts every part.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let save = match arguments.first().map(String::as_str) {
        None => false,
        Some("--save") => true,
        Some(other) => return Err(format!("{other}: usage: cargo xtask counts [--save]")),
    };
    let listed = bench(&[], &["--list-parts"])?;
    let kept = std::fs::read_to_string(root().join(BASELINE)).unwrap_or_default();
    let kept: BTreeMap<&str, u64> = kept.lines().filter_map(|line| line.rsplit_once('\t')).filter_map(number).collect();
    let (mut file, mut grown) = (String::new(), Vec::new());
    println!("{:<18} {:>14} {:>10} {:>8}", "part", "instructions", "per unit", "ratio");
    for part in listed.out.lines() {
        let run = bench(&["--config", RUNNER], &["--once", part])?;
        let count = collected(&run.err).ok_or_else(|| format!("valgrind counted nothing:\n{}", run.err))?;
        let amount = run.out.lines().find_map(|line| line.strip_prefix(&format!("{part}: "))).unwrap_or("1 ?");
        let mut words = amount.split(' ');
        let amount: f64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(1.0);
        let each = format!("{:.2}/{}", count as f64 / amount, words.next().unwrap_or("?"));
        let ratio = kept.get(part).map(|kept| count as f64 / *kept as f64);
        let shown = ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
        println!("{part:<18} {count:>14} {each:>10} {shown:>8}");
        file.push_str(&format!("{part}\t{count}\n"));
        if ratio.is_some_and(|ratio| ratio > TOLERANCE) {
            grown.push(part.to_owned());
        }
    }
    if save {
        return std::fs::write(root().join(BASELINE), file).map_err(|error| format!("{BASELINE}: {error}"));
    }
    if grown.is_empty() {
        return Ok(());
    }
    Err(format!(
        "more instructions than in {BASELINE}: {}; reduce them, or accept the new counts with --save",
        grown.join(", ")
    ))
}

fn number<'a>((name, count): (&'a str, &str)) -> Option<(&'a str, u64)> {
    Some((name, count.parse().ok()?))
}

struct ProcessOutput {
    out: String,
    err: String,
}

/// Runs the benchmark program.
fn bench(options: &[&str], arguments: &[&str]) -> Result<ProcessOutput, String> {
    let mut command = crate::cargo();
    command.current_dir(root()).args(options).args(["bench", "--quiet", "--locked", "-p", "quarry-bucket"]);
    command.args(["--bench", "parts", "--"]).args(arguments);
    let output = command.output().map_err(|error| format!("cargo does not start: {error}"))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let printed = ProcessOutput { out: text(output.stdout), err: text(output.stderr) };
    if output.status.success() {
        return Ok(printed);
    }
    Err(format!("{}\nif valgrind is missing: apt-get install valgrind", printed.err))
}

/// The count that callgrind reports.
fn collected(reported: &str) -> Option<u64> {
    reported.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}
