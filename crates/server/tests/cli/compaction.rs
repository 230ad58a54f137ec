//! Merging buckets: on request, by the server, and with a damaged bucket among them.

use crate::server::Server;
use crate::support::{Place, RunOutput, lines, sorted};

/// Creates buckets of two indexes in turn; their time ranges overlap.
fn ten_buckets() -> Place {
    let place = Place::new();
    for number in 0..10 {
        let (index, first) = (["main", "other"][number % 2], number * 100);
        let log = place.write(&format!("{number}.log"), lines(first..first + 100).replace(":3", ":0"));
        place.run(&["add", "oneshot", &log, "--index", index]).expect_success();
    }
    place
}

/// Answers of searches; a merge must not change them, nor the order of their rows.
fn answers(place: &Place) -> Vec<String> {
    let searches =
        ["*", "index=*", "index=main OR index=other line=42*", "index=other | tail 150", "index=* | reverse"];
    searches.map(|search| place.run(&["search", search, "-o", "raw"]).expect_success()).to_vec()
}

/// Values of a column of a CSV.
fn column(csv: &str, name: &str) -> Vec<String> {
    let mut rows = csv.lines();
    let at = rows.next().unwrap().split(',').position(|header| header == name).unwrap();
    rows.map(|row| row.split(',').nth(at).unwrap().to_owned()).collect()
}

#[test]
fn merged_buckets_give_the_same_answers_in_the_same_order() {
    let place = ten_buckets();
    let before = answers(&place);
    assert_eq!(before[1].lines().count(), 1_000);
    let merged = place.run(&["bucket", "compact", "-o", "csv"]);
    assert!(
        merged.err.contains("before: 10 sealed buckets, ") && merged.err.contains("; after: 2 buckets, "),
        "{}",
        merged.err
    );
    let merged = merged.expect_success();
    assert_eq!(column(&merged, "first"), ["main~1", "other~2"]);
    assert_eq!((column(&merged, "parts"), column(&merged, "events")), (vec!["5".into(); 2], vec!["500".into(); 2]));
    assert_eq!(answers(&place), before);
    let list = place.run(&["bucket", "list", "-o", "csv"]).expect_success();
    assert_eq!((column(&list, "level"), column(&list, "events")), (vec!["1".into(); 2], vec!["500".into(); 2]));
    place.run(&["bucket", "verify"]).expect_success();
    let again = place.run(&["bucket", "compact", "-o", "csv"]);
    assert!(again.err.contains("before: 2 sealed buckets, "), "{}", again.err);
    assert_eq!(again.expect_success().lines().count(), 1);
    assert_eq!(place.run(&["bucket", "list", "-o", "csv"]).expect_success(), list);
}

#[test]
fn the_server_merges_on_request_and_in_the_background() {
    let place = ten_buckets();
    let before = answers(&place);
    let server = Server::start(&place);
    let RunOutput { code, err, .. } = place.run(&["bucket", "compact"]);
    assert!(code == 0 && err.contains("; after: 2 buckets, "), "{err}");
    assert_eq!(answers(&place), before);
    assert_eq!(server.stop("-TERM"), 0);
    assert_eq!(answers(&place), before);
    let list = place.run(&["bucket", "list", "-o", "csv"]).expect_success();
    // The node's own events are listed as well.
    let of_main = list.lines().filter(|line| !line.contains("_internal")).collect::<Vec<_>>().join("\n");
    assert_eq!(column(&of_main, "events"), ["500", "500"]);
}

#[test]
fn damaged_buckets_are_kept_and_fail_the_command() {
    let place = ten_buckets();
    let object = place.data().join("db/main/0000000005.bucket");
    let whole = std::fs::read(&object).unwrap();
    std::fs::write(&object, &whole[..whole.len() / 2]).unwrap();
    let merged = place.run(&["bucket", "compact"]);
    assert_eq!(merged.code, 5);
    assert!(merged.err.contains("bucket main~5 not compacted"), "{}", merged.err);
    std::fs::write(&object, &whole).unwrap();
    let found = place.run(&["search", "*", "-o", "raw"]).expect_success();
    assert_eq!(sorted(&found).len(), 500);
    let nowhere = Place::new();
    assert_eq!(nowhere.run(&["bucket", "compact"]).code, 4);
    assert!(!nowhere.data().exists());
}

#[test]
fn an_archived_bucket_is_thawed_with_and_without_a_server() {
    let before = Place::new();
    let log = before.write("a.log", lines(0..100));
    before.run(&["add", "oneshot", &log]).expect_success();
    let place = Place::new();
    let folders = ["db_2_1_1", "db_2_1_2"].map(|name| {
        let folder = place.path(name);
        std::fs::create_dir(&folder).unwrap();
        for entry in std::fs::read_dir(before.data().join("db/main")).unwrap() {
            let object = entry.unwrap().path();
            std::fs::copy(&object, folder.join(object.file_name().unwrap())).unwrap();
        }
        folder.display().to_string()
    });
    let own = place.write("b.log", lines(100..110));
    place.run(&["add", "oneshot", &own]).expect_success();
    let count = || place.run(&["search", "index=* | stats count by index", "-o", "csv"]).expect_success();
    let id = place.run(&["bucket", "thaw", &folders[0]]).expect_success();
    assert_eq!(place.run(&["bucket", "thaw", &folders[0]]).expect_success(), id);
    assert_eq!(count(), "index,count\nmain,110\n");
    let server = Server::start(&place);
    let elsewhere = place.run(&["bucket", "thaw", &folders[1], "--index", "old"]);
    assert!(elsewhere.code != 0 && elsewhere.err.contains("its events belong to index main"), "{}", elsewhere.err);
    place.run(&["bucket", "thaw", &folders[1]]).expect_success();
    assert_eq!(count(), "index,count\nmain,210\n");
    assert_eq!(place.run(&["bucket", "verify"]).code, 0);
    let wrong = place.run(&["bucket", "thaw", &place.path("none").display().to_string()]);
    assert!(wrong.code != 0 && wrong.err.contains("is not thawed"), "{}", wrong.err);
    assert!(place.run(&["bucket", "thaw", &folders[0], "--index", "Bad Name"]).code != 0);
    drop(server);
    assert_eq!(count(), "index,count\nmain,210\n");
    assert_eq!(place.run(&["bucket", "verify"]).code, 0);
}
