//! Buckets on volumes of indexes.conf: uploaded, searched from there, and found again after kills.

use quarry_s3world::{CONTAINER, Gateway, KEY_ID, SECRET};

use crate::server::Server;
use crate::support::{Place, Ran, lines, wait_until};

/// A place whose indexes are on a volume, but for `here`; local copies go as soon as they are uploaded.
fn place_on(volume: &str) -> Place {
    let place = Place::new();
    let local = place.data().join("etc/system/local");
    std::fs::create_dir_all(&local).unwrap();
    let indexes = format!(
        "[default]\nremotePath = volume:cold/$_index_name\n[volume:cold]\nstorageType = remote\n{volume}\n\
         [here]\nremotePath =\n"
    );
    std::fs::write(local.join("indexes.conf"), indexes).unwrap();
    // More free space than there is: nothing may stay that need not.
    std::fs::write(local.join("server.conf"), "[cachemanager]\neviction_padding = 1000000000\n").unwrap();
    place
}

fn on_s3(gateway: &Gateway) -> Place {
    let url = gateway.url();
    place_on(&format!(
        "path = s3://{CONTAINER}/some/where\nremote.s3.endpoint = {url}\nremote.s3.access_key = {KEY_ID}\n\
         remote.s3.secret_key = {SECRET}"
    ))
}

fn add(place: &Place, range: std::ops::Range<usize>, index: &str) {
    let log = place.write(&format!("{}.log", range.start), lines(range));
    place.run(&["add", "oneshot", &log, "--index", index]).good();
}

fn answers(place: &Place) -> Vec<String> {
    let searches = [
        "index=*",
        "index=main line=42*",
        "index=* line=17",
        "index=* | stats count by index",
        "index=main | timechart span=1d count",
        "| tstats count where index=* by index",
    ];
    searches.map(|search| place.run(&["search", search, "-o", "raw"]).good()).to_vec()
}

/// Where the buckets of each index are, as `quarry bucket list` says.
fn copies(place: &Place) -> Vec<(String, String)> {
    let listed = place.run(&["bucket", "list", "-o", "json"]).good();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&listed).unwrap();
    let of = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap().to_owned();
    let data = rows.iter().filter(|row| !of(row, "index").starts_with('_'));
    data.map(|row| (of(row, "index"), of(row, "copies"))).collect()
}

fn is_uploaded(place: &Place) -> bool {
    copies(place).iter().all(|(index, copies)| copies == if index == "here" { "local" } else { "remote" })
}

fn lives_on(place: &Place) {
    for number in 0..6 {
        add(place, number * 100..number * 100 + 100, ["main", "web", "here"][number % 3]);
    }
    let before = answers(place);
    assert_eq!(before[0].lines().count(), 600);
    let server = Server::start(place);
    assert!(wait_until(|| is_uploaded(place)), "{:?}", copies(place));
    assert_eq!(answers(place), before, "by the server");
    let verified = place.run(&["bucket", "verify", "-o", "csv"]).good();
    assert!(!verified.contains("false"), "{verified}");
    server.stop("-KILL");
    assert_eq!(answers(place), before, "after a kill, without a server");
    std::fs::remove_dir_all(place.data().join("cache")).unwrap();
    assert_eq!(answers(place), before, "without the cache");
    let server = Server::start(place);
    add(place, 600..700, "main");
    assert_eq!(answers(place)[0].lines().count(), 700);
    server.stop("-TERM");
    assert_eq!(answers(place)[0].lines().count(), 700);
}

#[test]
fn buckets_live_on_an_s3_store() {
    let Some(gateway) = Gateway::start() else { return };
    let place = on_s3(&gateway);
    lives_on(&place);
    assert!(gateway.file("some/where/main").is_dir() && !gateway.file("some/where/here").exists());
}

#[test]
fn buckets_live_in_a_folder_of_another_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let place = place_on(&format!("path = file://{}", folder.path().display()));
    lives_on(&place);
    assert!(folder.path().join("main").is_dir());
}

#[test]
fn a_store_that_is_gone_is_told_with_what_is_missing() {
    let Some(gateway) = Gateway::start() else { return };
    let place = on_s3(&gateway);
    add(&place, 0..100, "main");
    add(&place, 100..200, "here");
    let server = Server::start(&place);
    assert!(wait_until(|| is_uploaded(&place)), "{:?}", copies(&place));
    server.stop("-TERM");
    std::fs::remove_dir_all(place.data().join("cache")).unwrap();
    std::fs::remove_dir_all(gateway.file("some")).unwrap();
    let Ran { code, out, err } = place.run(&["search", "index=*", "-o", "raw"]);
    assert_eq!((code, out.lines().count()), (5, 100), "{err}");
    assert!(err.contains("main~1") && err.contains("does not exist"), "{err}");
}

#[test]
fn a_volume_that_cannot_be_used_keeps_the_store_from_opening() {
    let place = place_on("path = s3://");
    let log = place.write("a.log", lines(0..10));
    let Ran { code, err, .. } = place.run(&["add", "oneshot", &log]);
    assert!(code != 0 && err.contains("indexes.conf: [volume:cold]: path = s3://"), "{code} {err}");
}
