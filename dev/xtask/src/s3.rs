//! All checks that need an S3 server, and only those, against the server that `QUARRY_S3_SERVER` names.
//!
//! The full check also runs these checks, against versitygw. This command runs them against a second implementation:
//! `make test-minio`.

use crate::ci::cargo;

/// Substrings of the names of these tests.
const NAMES: [&str; 3] = ["s3", "remote_volumes", "encryption"];
/// Rounds of the soak test on volumes.
const ROUNDS: u64 = 60;

/// Installs the server and runs every check; stops at the first failure.
pub(crate) fn run() -> Result<(), String> {
    quarry_s3world::install();
    cargo(&["build", "--release", "--locked", "-p", "quarry"])?;
    let mut tests = vec!["test", "--release", "--locked", "--workspace", "--tests", "--"];
    tests.extend(NAMES);
    cargo(&tests)?;
    crate::python::DIFFERENTIAL.run_on_s3(None)?;
    crate::soak_node::run_on_volumes(ROUNDS, 1)
}
