//! Watched files: lines are searchable while the files grow, and each line is stored once, even if files are rotated or
//! the server is killed.

use std::fs::OpenOptions;
use std::io::Write;

use crate::server::Server;
use crate::support::{Place, lines, sorted, wait_until};

fn place_that_watches(more: &str) -> Place {
    let place = Place::new();
    std::fs::create_dir_all(place.path("data/etc/system/local")).unwrap();
    std::fs::create_dir_all(place.path("logs")).unwrap();
    let stanza = format!("[monitor://{}]\nindex = web\n{more}", place.path("logs/*.log*").display());
    place.write("data/etc/system/local/inputs.conf", stanza);
    place
}

fn append(place: &Place, name: &str, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(place.path(name)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn events(place: &Place) -> String {
    place.run(&["search", "index=web", "-o", "raw"]).expect_success()
}

/// Waits until the expected number of lines is found, and compares the lines.
fn assert_found(place: &Place, expected: &str) {
    let count = format!("count\n{}\n", expected.lines().count());
    let counted = || place.run(&["search", "index=web | stats count", "-o", "csv"]).expect_success().replace('\r', "");
    assert!(wait_until(|| counted() == count), "{} instead of {count}", counted());
    assert_eq!(sorted(&events(place)), sorted(expected));
}

#[test]
fn lines_are_found_while_files_grow_are_rotated_and_the_server_is_killed() {
    let place = place_that_watches("sourcetype = generic_single_line\n");
    append(&place, "logs/a.log", &lines(0..500));
    let server = Server::start(&place);
    assert_found(&place, &lines(0..500));
    append(&place, "logs/a.log", &lines(500..700));
    assert_found(&place, &lines(0..700));
    std::fs::rename(place.path("logs/a.log"), place.path("logs/a.log.1")).unwrap();
    append(&place, "logs/a.log.1", &lines(700..800));
    append(&place, "logs/a.log", &lines(800..1_000));
    assert_found(&place, &lines(0..1_000));
    append(&place, "logs/a.log", &lines(1_000..3_000));
    server.stop("-KILL");
    append(&place, "logs/a.log", &lines(3_000..3_500));
    std::fs::copy(place.path("logs/a.log"), place.path("logs/a.log.2")).unwrap();
    std::fs::write(place.path("logs/a.log"), lines(3_500..3_600)).unwrap();
    let server = Server::start(&place);
    assert_found(&place, &lines(0..3_600));
    let sources = place.run(&["search", "index=web | stats dc(source) as n by host", "-o", "csv"]).expect_success();
    assert_eq!(sources.lines().count(), 2, "{sources}");
    assert_eq!(server.stop("-TERM"), 0);
}

#[test]
fn an_invalid_stanza_is_reported_and_the_others_work() {
    let place = place_that_watches("[monitor://relative]\n[monitor:///x]\nwhitelist = (\n[batch:///y]\n");
    append(&place, "logs/a.log", &lines(0..3));
    let server = Server::start(&place);
    assert_found(&place, &lines(0..3));
    assert_eq!(server.stop("-TERM"), 0);
}
