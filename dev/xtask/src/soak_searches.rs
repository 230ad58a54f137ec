//! `cargo xtask soak-searches [--seeds N] [--from SEED]`: runs generated searches as a whole and in slices, over events
//! stored in every way, and as many searches over each shape of the benchmark (crates/engine/tests/plans). A failing
//! seed is reported with its search, and the failure can be reproduced with this seed.

use crate::root;

/// Default number of searches: they take some minutes.
const SEEDS: u64 = 5_000;

/// Runs the searches.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let number = |name: &str, default: u64| match arguments.iter().position(|argument| argument == name) {
        None => Ok(default),
        Some(at) => {
            let given = arguments.get(at + 1).and_then(|text| text.parse::<u64>().ok());
            given.ok_or(format!("{name} needs a number"))
        }
    };
    let (seeds, from) = (number("--seeds", SEEDS)?, number("--from", 0)?);
    let status = crate::cargo()
        .args(["test", "--release", "--locked", "-p", "quarry-engine", "--test", "plans", "generated"])
        .env("SOAK_SEEDS", seeds.to_string())
        .env("SOAK_FROM", from.to_string())
        .current_dir(root())
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("searches {from} to {}: see above", from + seeds)) }
}
