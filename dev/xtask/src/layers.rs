//! Checks crate dependencies against a table.
//!
//! A dependency between workspace crates must be in the table, except those on stdx and event. Pure crates must not
//! depend on an async runtime, sockets or SQLite, even indirectly, and their product code must not name files, sockets,
//! processes, threads, the environment, clocks or randomness. A heavy dependency may be named only by the crates listed
//! as its owners. An entry that no manifest needs is reported, too, so that the tables stay accurate.
//!
//! Only normal dependencies that are neither optional nor limited to a platform count.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::root;
use crate::tidy::{collect, is_test_file, product_lines};

/// A table whose rows have a name and the names that belong to it.
type Table<'a> = &'a [(&'a str, &'a [&'a str])];

/// Crates and the workspace crates that each may use besides stdx and event.
const EDGES: Table<'_> = &[
    ("stdx", &[]),
    ("event", &[]),
    ("conf", &[]),
    ("pipeline", &["conf"]),
    ("bucket", &[]),
    ("spl", &[]),
    ("learn", &[]),
    ("blob", &["bucket"]),
    ("catalog", &[]),
    ("collections", &[]),
    ("sharing", &["catalog", "collections"]),
    ("auth", &["conf"]),
    ("store", &["bucket", "blob", "catalog"]),
    ("inputs", &["pipeline", "conf"]),
    ("forward", &["listen", "inputs", "pipeline", "conf"]),
    ("eval", &["spl", "store", "conf"]),
    ("scan", &["eval", "spl", "store", "pipeline", "conf"]),
    ("engine", &["scan", "eval", "spl", "store", "pipeline", "conf", "learn"]),
    ("apps", &["engine", "spl", "collections", "conf"]),
    ("search", &["apps", "engine", "spl", "store", "bucket", "blob", "collections", "conf"]),
    ("api", &["apps", "inputs", "search", "engine", "spl", "auth", "collections", "conf"]),
    ("programs", &["apps", "engine", "spl", "inputs", "pipeline", "conf"]),
    ("listen", &["inputs", "pipeline", "auth", "conf"]),
    ("ingest", &["programs", "store", "blob", "sharing", "catalog", "auth", "inputs", "conf"]),
    (
        "server",
        &[
            "conf",
            "pipeline",
            "spl",
            "blob",
            "auth",
            "collections",
            "sharing",
            "store",
            "inputs",
            "forward",
            "engine",
            "apps",
            "search",
            "programs",
            "listen",
            "ingest",
            "api",
            "eventgen",
        ],
    ),
    ("eventgen", &[]),
    ("testworld", &["engine", "eval", "store", "blob", "s3world", "conf", "spl"]),
    ("s3world", &[]),
    ("pgworld", &[]),
];

/// Pure crates: they use no async, files, sockets, clocks or randomness. Their dependencies must not include those in
/// [`IMPURE`], and their product code must not contain the names in [`IMPURE_NAMES`].
const PURE: &[&str] = &["event", "conf", "pipeline", "bucket", "spl", "learn"];

/// Dependencies that no pure crate may have, directly or indirectly.
const IMPURE: &[&str] = &[
    "tokio",
    "mio",
    "socket2",
    "rusqlite",
    "axum",
    "hyper",
    "tokio-postgres",
    "object_store",
    "rand",
    "async-std",
    "smol",
];

/// Parts of names of the standard library, jiff and stdx that the product code of pure crates must not contain.
const IMPURE_NAMES: &[&str] = &[
    "std::fs",
    "std::process",
    "std::thread",
    "std::env",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "ToSocketAddrs",
    "SystemTime",
    "std::time::Instant",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "TimeZone::system",
    "TimeZone::try_system",
    "SystemClock",
    "quarry_stdx::random",
    "quarry_stdx::log",
    "quarry_stdx::node_files",
    "quarry_stdx::private_file",
    "quarry_stdx::private_folder",
    "quarry_stdx::descriptors",
    "thread_rng",
    "async fn",
];

/// Heavy dependencies and the crates that may name them.
const OWNERS: Table<'_> = &[
    ("datafusion-common", &["eval"]),
    ("datafusion-execution", &["eval"]),
    ("rusqlite", &["catalog", "collections"]),
    ("tokio-postgres", &["catalog"]),
    ("axum", &["api", "inputs", "listen"]),
    ("hyper", &["listen"]),
    ("object_store", &["blob"]),
    ("rcgen", &["listen"]),
    ("maxminddb", &["apps"]),
    ("tar", &["apps"]),
    ("getrandom", &["stdx"]),
    ("arrow", &["eval", "scan", "engine", "search", "testworld"]),
    ("clap", &["server"]),
];

/// Maximum number of packages in the lock file.
const LOCKED_PACKAGES_MAX: usize = 750;

/// Checks the table against `cargo metadata`.
pub(crate) fn run() -> Result<(), String> {
    let metadata = metadata()?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no packages")?;
    let graph = graph(packages);
    let mut faults = Vec::new();
    for package in packages.iter().filter(|package| package["source"].is_null()) {
        check_package(package, &graph, &mut faults);
    }
    check_tables(EDGES, OWNERS, &graph, &mut faults);
    for short in PURE {
        check_pure_sources(short, &mut faults)?;
    }
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).map_err(|error| format!("Cargo.lock: {error}"))?;
    let locked = lock.lines().filter(|line| *line == "[[package]]").count();
    if locked > LOCKED_PACKAGES_MAX {
        faults.push(format!("the lock file holds {locked} packages; the limit is {LOCKED_PACKAGES_MAX}"));
    }
    if faults.is_empty() {
        println!("layers: {} crates in order, {locked} packages locked", EDGES.len());
        return Ok(());
    }
    Err(faults.join("\n"))
}

fn metadata() -> Result<Value, String> {
    let output = crate::cargo()
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// Names of packages, each with its normal dependencies; optional, platform-specific, build and dev-dependencies are
/// not included.
fn graph(packages: &[Value]) -> BTreeMap<String, BTreeSet<String>> {
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages {
        let uses = graph.entry(name_of(package)).or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let counts = dependency["kind"].is_null() && dependency["optional"] != Value::Bool(true);
            if counts && dependency["target"].is_null() {
                uses.insert(name_of(dependency));
            }
        }
    }
    graph
}

fn name_of(value: &Value) -> String {
    value["name"].as_str().unwrap_or_default().to_owned()
}

fn check_package(package: &Value, graph: &BTreeMap<String, BTreeSet<String>>, faults: &mut Vec<String>) {
    let full = name_of(package);
    let Some(short) = short_name(&full) else { return };
    let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == short) else {
        faults.push(format!("crate {full} is not in the table of dev/xtask/src/layers.rs"));
        return;
    };
    let uses = graph.get(&full).cloned().unwrap_or_default();
    for used in uses.iter().filter_map(|used| short_name(used)) {
        if used != "stdx" && used != "event" && !allowed.contains(&used) {
            faults.push(format!("{short} must not use {used}"));
        }
    }
    for (heavy, owners) in OWNERS {
        if uses.contains(*heavy) && !owners.contains(&short) {
            faults.push(format!("{short} must not use {heavy}: its owner is {}", owners.join(", ")));
        }
    }
    if PURE.contains(&short) {
        let reached = reachable_packages(&full, graph);
        for impure in IMPURE.iter().filter(|impure| reached.contains(**impure)) {
            faults.push(format!("{short} is pure and must not reach {impure}"));
        }
    }
}

/// Checks the product code of a pure crate.
fn check_pure_sources(short: &str, faults: &mut Vec<String>) -> Result<(), String> {
    let mut files = Vec::new();
    collect(&root().join("crates").join(short).join("src"), &mut files);
    files.sort();
    for file in &files {
        let name = file.strip_prefix(root()).unwrap_or(file).display().to_string();
        if !is_test_file(&name) {
            let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
            check_pure_text(&name, &text, faults);
        }
    }
    Ok(())
}

fn check_pure_text(name: &str, text: &str, faults: &mut Vec<String>) {
    for (at, line) in product_lines(text).into_iter().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for impure in IMPURE_NAMES.iter().filter(|impure| code.contains(**impure)) {
            faults.push(format!("{name}:{}: a pure crate must not use {impure}", at + 1));
        }
    }
}

/// Reports allowed edges that no manifest has, and owners that do not use their dependency.
fn check_tables(
    edges: Table<'_>,
    owners: Table<'_>,
    graph: &BTreeMap<String, BTreeSet<String>>,
    faults: &mut Vec<String>,
) {
    let uses = |short: &str, package: &str| graph.get(&full_name(short)).is_some_and(|uses| uses.contains(package));
    for (short, allowed) in edges {
        for used in allowed.iter().filter(|used| !uses(short, &full_name(used))) {
            faults.push(format!("{short} may use {used} but does not: remove the edge from EDGES"));
        }
    }
    for (heavy, owners) in owners {
        if !graph.contains_key(*heavy) {
            faults.push(format!("{heavy} is not in Cargo.lock: remove it from OWNERS"));
            continue;
        }
        for owner in owners.iter().filter(|owner| !uses(owner, heavy)) {
            faults.push(format!("{owner} does not use {heavy}: remove it from the row of OWNERS"));
        }
    }
}

/// Package name of a crate, the inverse of [`short_name`].
fn full_name(short: &str) -> String {
    if short == "server" { "quarry".to_owned() } else { format!("quarry-{short}") }
}

/// Short name of a package: `quarry-x` is x, the binary `quarry` is server.
fn short_name(full: &str) -> Option<&str> {
    if full == "quarry" { Some("server") } else { full.strip_prefix("quarry-") }
}

fn reachable_packages(from: &str, graph: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(next) = open.pop() {
        for used in graph.get(&next).into_iter().flatten() {
            if seen.insert(used.clone()) {
                open.push(used.clone());
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, uses: &[&str]) -> Value {
        let dependencies: Vec<Value> =
            uses.iter().map(|used| json!({"name": used, "kind": null, "optional": false, "target": null})).collect();
        json!({"name": name, "source": null, "dependencies": dependencies})
    }

    fn faults(packages: &[Value]) -> Vec<String> {
        let mut faults = Vec::new();
        let graph = graph(packages);
        packages.iter().for_each(|package| check_package(package, &graph, &mut faults));
        faults
    }

    #[test]
    fn edges_outside_the_table_are_reported() {
        let good = [package("quarry-blob", &["quarry-bucket", "quarry-event", "bytes"]), package("quarry", &["clap"])];
        assert!(faults(&good).is_empty());
        assert_eq!(faults(&[package("quarry-event", &["quarry-conf"])]), ["event must not use conf"]);
        let reported = faults(&[package("quarry-store", &["rusqlite"])]);
        assert_eq!(reported, ["store must not use rusqlite: its owner is catalog, collections"]);
        let reported = faults(&[package("quarry-new", &[])]);
        assert_eq!(reported, ["crate quarry-new is not in the table of dev/xtask/src/layers.rs"]);
    }

    #[test]
    fn unused_rows_are_reported() {
        let packages = [package("quarry", &["quarry-api", "clap"]), package("quarry-api", &[]), package("clap", &[])];
        let reported = |edges: Table<'_>, owners: Table<'_>| {
            let mut faults = Vec::new();
            check_tables(edges, owners, &graph(&packages), &mut faults);
            faults
        };
        assert!(reported(&[("server", &["api"]), ("api", &[])], &[("clap", &["server"])]).is_empty());
        let edges: Table<'_> = &[("server", &["api"]), ("api", &["auth"])];
        assert_eq!(reported(edges, &[]), ["api may use auth but does not: remove the edge from EDGES"]);
        let owners: Table<'_> = &[("clap", &["server", "api"]), ("axum", &["api"])];
        assert_eq!(
            reported(&[], owners),
            [
                "api does not use clap: remove it from the row of OWNERS",
                "axum is not in Cargo.lock: remove it from OWNERS"
            ]
        );
    }

    #[test]
    fn pure_crates_reach_no_runtime_on_any_path() {
        let packages = [package("quarry-spl", &["innocent"]), package("innocent", &["tokio"])];
        assert_eq!(faults(&packages), ["spl is pure and must not reach tokio"]);
    }

    #[test]
    fn product_code_of_pure_crates_names_nothing_impure() {
        let mut faults = Vec::new();
        let text = "//! Reads std::fs.\nuse std::time::SystemTime;\n// std::env\nlet now = Timestamp::now();\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        check_pure_text("crates/spl/src/a.rs", text, &mut faults);
        assert_eq!(
            faults,
            [
                "crates/spl/src/a.rs:2: a pure crate must not use SystemTime",
                "crates/spl/src/a.rs:4: a pure crate must not use Timestamp::now"
            ]
        );
    }
}
