//! Copies of a data directory, and printed commands: every command works on the directory that it names.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::server::Server;
use crate::support::{Place, RunOutput, lines, wait_until};

/// Copies a directory as `cp -r` does; returns whether all files were copied.
fn copies(from: &Path, to: &Path) -> bool {
    Command::new("cp").arg("-r").args([from, to]).status().unwrap().success()
}

/// Copies the directory of a running server. Copies are repeated until the server has written nothing during one: its
/// own events may reach the log while the log is copied, and such a copy lacks records.
fn copy_served(from: &Path, to: &Path) {
    let log = || -> BTreeMap<PathBuf, Vec<u8>> {
        let files = std::fs::read_dir(from.join("wal")).unwrap().map(|entry| entry.unwrap().path());
        files.map(|path| (path.clone(), std::fs::read(&path).unwrap_or_default())).collect()
    };
    assert!(wait_until(|| {
        let before = log();
        drop(std::fs::remove_dir_all(to));
        copies(from, to) && log() == before
    }));
}

fn run_on(place: &Place, folder: &str, arguments: &[&str]) -> RunOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quarry"));
    command.env("TZ", "UTC").current_dir(place.path("")).args(["--data-dir", folder]).args(arguments);
    RunOutput::of(command.output().unwrap())
}

fn count(place: &Place, folder: &str) -> String {
    run_on(place, folder, &["search", "* | stats count", "-o", "csv"]).expect_success().replace("count\n", "")
}

fn indexes_conf(place: &Place, folder: &str) -> String {
    std::fs::read_to_string(place.path(folder).join("etc/apps/search/local/indexes.conf"))
        .or_else(|_| std::fs::read_to_string(place.path(folder).join("etc/system/local/indexes.conf")))
        .unwrap_or_default()
}

#[test]
fn copies_of_a_served_directory_are_independent() {
    let place = Place::new();
    let [old, new] = [lines(0..10), lines(10..15)];
    let old = place.write("old.log", old);
    place.run(&["add", "oneshot", &old]).expect_success();
    let server = Server::start(&place);
    copy_served(&place.data(), &place.path("copy"));
    assert!(place.path("copy/run/server.json").exists());
    let new = place.write("new.log", new);
    place.run(&["add", "oneshot", &new]).expect_success();
    assert_eq!((count(&place, "data"), count(&place, "copy")), ("15\n".to_owned(), "10\n".to_owned()));
    assert_eq!(run_on(&place, "copy", &["add", "index", "scratch"]).code, 0);
    assert!(indexes_conf(&place, "copy").contains("[scratch]"));
    assert!(!indexes_conf(&place, "data").contains("[scratch]"));
    // `verify` on a backup must examine the backup, not the original.
    let damaged = std::fs::read_dir(place.path("copy/db/main")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&damaged, "damage").unwrap();
    assert_eq!(run_on(&place, "copy", &["bucket", "verify"]).code, 5);
    assert_eq!(place.run(&["bucket", "verify"]).code, 0);
    assert_eq!(server.stop("-KILL"), -1);
    assert!(copies(&place.data(), &place.path("killed")));
    // Both run files name the port of the killed server, which another server may have by now.
    assert_eq!((count(&place, "killed"), count(&place, "data")), ("15\n".to_owned(), "15\n".to_owned()));
    let _server = Server::start(&place);
    assert_eq!((count(&place, "killed"), count(&place, "data")), ("15\n".to_owned(), "15\n".to_owned()));
}

#[test]
fn ports_of_killed_servers_may_be_reused_by_others() {
    let (place, other) = (Place::new(), Place::new());
    let log = place.write("a.log", lines(0..10));
    place.run(&["add", "oneshot", &log]).expect_success();
    let server = Server::start(&place);
    let text = std::fs::read_to_string(place.data().join("run/server.json")).unwrap();
    let address = serde_json::from_str::<serde_json::Value>(&text).unwrap()["mgmt"].as_str().unwrap().to_owned();
    server.stop("-KILL");
    let _other = Server::start_at(&other, &address);
    assert_eq!(count(&place, "data"), "10\n");
    assert_eq!(
        place.run(&["list", "user", "-o", "csv"]).expect_success(),
        "name,roles,realname,email\nadmin,admin,,\n"
    );
}

/// The command between backquotes in a line.
fn printed_command(line: &str) -> String {
    line.split('`').nth(1).unwrap_or_else(|| panic!("{line}")).to_owned()
}

/// Runs a printed command in `folder`, which is not the folder of the program that printed it.
fn type_in(folder: &Path, command: &str, input: &str) -> RunOutput {
    let program = Path::new(env!("CARGO_BIN_EXE_quarry")).parent().unwrap();
    let mut shell = Command::new("sh");
    shell.current_dir(folder).env("PATH", format!("{}:/usr/bin:/bin", program.display())).args(["-c", command]);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = shell.spawn().unwrap();
    running.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    RunOutput::of(running.wait_with_output().unwrap())
}

#[test]
fn commands_in_messages_work_when_typed() {
    let place = Place::new();
    let elsewhere = place.path("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    let mut serving = place
        .command(&["serve", "--mgmt", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let reported = BufReader::new(serving.stderr.take().unwrap()).lines().map(Result::unwrap);
    let warning = reported.into_iter().find(|line| line.contains("user passwd")).unwrap();
    assert!(wait_until(|| place.data().join("run/server.json").exists()));
    let changed = type_in(&elsewhere, &printed_command(&warning), "something-else\n");
    assert_eq!(changed.code, 0, "{warning}: {changed:?}");
    assert!(!elsewhere.join("quarry-data").exists());
    let passwd = std::fs::read_to_string(place.data().join("etc/passwd")).unwrap();
    serving.kill().unwrap();
    serving.wait().unwrap();
    let again = place.command(&["serve", "--mgmt", "127.0.0.1:70000"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&again.stderr).contains("changeme"), "{passwd}");
    // Without a server, messages of other verbs name the directory as it was typed.
    let follow = run_on(&place, "data", &["search", "-f", "*"]);
    assert!(follow.err.contains("`quarry --data-dir data serve`"), "{follow:?}");
    let detached = run_on(&place, "data", &["search", "*", "--detach"]);
    assert!(detached.err.contains("`quarry --data-dir data serve`"), "{detached:?}");
    let start = run_on(&place, "my data", &["start"]);
    assert!(start.err.contains("`quarry --data-dir 'my data' serve`"), "{start:?}");
}

#[test]
fn passwords_are_not_changed_in_missing_directories() {
    let place = Place::new();
    for arguments in
        [&["user", "passwd", "admin"][..], &["user", "remove", "eva"], &["edit", "user", "admin", "--email", "x"]]
    {
        let mut command = place.command(arguments);
        let ran = RunOutput::of(command.stdin(Stdio::null()).output().unwrap());
        assert!(ran.code != 0 && ran.err.contains("there is no data directory"), "{arguments:?}: {ran:?}");
        assert!(!place.data().exists(), "{arguments:?}");
    }
}

#[test]
fn refused_logins_are_explained() {
    let place = Place::new();
    let _server = Server::start(&place);
    let text = std::fs::read_to_string(place.data().join("run/server.json")).unwrap();
    let address = serde_json::from_str::<serde_json::Value>(&text).unwrap()["mgmt"].as_str().unwrap().to_owned();
    let uri = format!("http://{address}");
    let verbs: [&[&str]; 6] = [
        &["search", "*"],
        &["search", "-f", "*"],
        &["dispatch", "*"],
        &["search", "*", "--detach"],
        &["list", "user"],
        &["add", "index", "x"],
    ];
    let mut reported = Vec::new();
    for (at, verb) in verbs.into_iter().cycle().take(12).enumerate() {
        let auth = format!("admin:wrong{at}");
        let ran = place.run(&[verb, &["--uri", &uri, "--auth", &auth]].concat());
        assert_eq!((ran.code, ran.err.lines().count(), ran.err.contains('<')), (2, 1, false), "{verb:?}: {ran:?}");
        reported.push(ran.err);
    }
    for says in ["login failed", "too many failed logins"] {
        assert!(reported.iter().any(|line| line.starts_with(&format!("error: {says}"))), "{reported:?}");
    }
}
