//! Installs the S3 server that tests of remote storage use.
//!
//! It is a Go program that the Go tool chain fetches and builds once, in about two minutes. Without go or a network, a
//! message says so, and those tests report that they are skipped.

use std::path::Path;
use std::process::Command;

/// The module to install; `dev/s3world` names the same version for running tests by hand.
const MODULE: &str = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";

/// Installs versitygw where `go install` puts programs, unless it is there.
pub(crate) fn install() {
    let home = std::env::var_os("HOME").unwrap_or_default();
    if Path::new(&home).join("go/bin/versitygw").is_file()
        || Command::new("versitygw").arg("--version").output().is_ok()
    {
        return;
    }
    println!("==> go install {MODULE}");
    let status = Command::new("go").args(["install", MODULE]).status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => println!("tests against an S3 server are skipped: go install ended with {status}"),
        Err(error) => println!("tests against an S3 server are skipped: cannot run go: {error}"),
    }
}
