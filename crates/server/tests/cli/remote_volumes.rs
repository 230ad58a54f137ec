//! Buckets on volumes of indexes.conf: they are uploaded, searched there, and found again after kills.

use std::time::Duration;

use quarry_s3world::{CONTAINER, FaultProxy, Faults, Gateway, KEY_ID, ProxiedRequest, SECRET};

use crate::jobs::Client;
use crate::permissions::with_users;
use crate::server::Server;
use crate::support::{Place, RunOutput, lines, wait_until};

/// A data directory whose indexes are on a volume, except `here`; local copies are evicted after the upload.
fn place_on(volume: &str) -> Place {
    let place = Place::new();
    put_indexes_on(&place, volume);
    place
}

fn put_indexes_on(place: &Place, volume: &str) {
    let local = place.data().join("etc/system/local");
    std::fs::create_dir_all(&local).unwrap();
    let indexes = format!(
        "[default]\nremotePath = volume:cold/$_index_name\n[volume:cold]\nstorageType = remote\n{volume}\n\
         [here]\nremotePath =\n"
    );
    std::fs::write(local.join("indexes.conf"), indexes).unwrap();
    // This requires more free space than the disk has, so every local copy that can be evicted is evicted.
    std::fs::write(local.join("server.conf"), "[cachemanager]\neviction_padding = 1000000000\n").unwrap();
}

/// Like [`place_on`], with a volume on an S3 server.
pub(crate) fn on_s3(gateway: &Gateway) -> Place {
    place_on(&s3_volume(&gateway.url()))
}

/// Settings of a volume on an S3 server.
fn s3_volume(url: &str) -> String {
    format!(
        "path = s3://{CONTAINER}/some/where\nremote.s3.endpoint = {url}\nremote.s3.access_key = {KEY_ID}\n\
         remote.s3.secret_key = {SECRET}"
    )
}

fn add(place: &Place, range: std::ops::Range<usize>, index: &str) {
    let log = place.write(&format!("{}.log", range.start), lines(range));
    place.run(&["add", "oneshot", &log, "--index", index]).expect_success();
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
    searches.map(|search| place.run(&["search", search, "-o", "raw"]).expect_success()).to_vec()
}

/// Index and location of each bucket, according to `quarry bucket list`.
pub(crate) fn copies(place: &Place) -> Vec<(String, String)> {
    let listed = place.run(&["bucket", "list", "-o", "json"]).expect_success();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&listed).unwrap();
    let of = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap().to_owned();
    let data = rows.iter().filter(|row| !of(row, "index").starts_with('_'));
    data.map(|row| (of(row, "index"), of(row, "copies"))).collect()
}

pub(crate) fn is_uploaded(place: &Place) -> bool {
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
    let verified = place.run(&["bucket", "verify", "-o", "csv"]).expect_success();
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
fn buckets_are_stored_on_s3() {
    let Some(gateway) = Gateway::start() else { return };
    let place = on_s3(&gateway);
    lives_on(&place);
    assert!(gateway.file("some/where/main").is_dir() && !gateway.file("some/where/here").exists());
}

#[test]
fn volumes_are_listed_with_the_buckets_that_they_have() {
    let Some(gateway) = Gateway::start() else { return };
    let place = on_s3(&gateway);
    add(&place, 0..100, "main");
    add(&place, 100..200, "here");
    let server = Server::start(&place);
    assert!(wait_until(|| is_uploaded(&place)), "{:?}", copies(&place));
    server.stop("-TERM");
    let listed = || {
        let search =
            "| rest /services/data/index-volumes | search title IN (cold, new) | table title total_event_count";
        place.run(&["search", search, "-o", "csv"]).expect_success()
    };
    let before = listed();
    assert!(before.starts_with("title,total_event_count\ncold,1"), "{before}");
    // A change of indexes.conf moves no bucket by itself.
    let conf = place.data().join("etc/system/local/indexes.conf");
    let text = std::fs::read_to_string(&conf).unwrap();
    let (defaults, volume) = text.split_once("[volume:cold]").unwrap();
    let other = volume.split("[here]").next().unwrap().replace("some/where", "else/where");
    let defaults = defaults.replace("volume:cold/", "volume:new/");
    std::fs::write(&conf, format!("{defaults}[volume:new]{other}[volume:cold]{volume}")).unwrap();
    assert_eq!(listed(), format!("{before}new,0\n"));
}

#[test]
fn reads_of_a_search_from_volumes_are_reported() {
    let Some(gateway) = Gateway::start() else { return };
    let place = on_s3(&gateway);
    with_users(&place, &[("admin", &["admin"])]);
    for number in 0..3 {
        add(&place, number * 100..number * 100 + 100, ["main", "web", "here"][number % 3]);
    }
    let server = Server::start(&place);
    assert!(wait_until(|| is_uploaded(&place)), "{:?}", copies(&place));
    server.stop("-TERM");
    if place.data().join("cache").exists() {
        std::fs::remove_dir_all(place.data().join("cache")).unwrap();
    }
    let server = Server::start(&place);
    let admin = Client::of(&place, "admin");
    let performance = |search: &str| {
        let job = admin.run(search, "");
        (admin.json(&job)["entry"][0]["content"]["performance"].clone(), admin.get(&format!("{job}/search.log")).1)
    };
    let number = |performance: &serde_json::Value, cache: &str, name: &str| {
        performance[format!("command.search.rawdata.bucketcache.{cache}")][name].as_u64().unwrap()
    };
    let (local, log) = performance("search index=here");
    let is_of_volumes = |part: &String| part.contains("bucketcache");
    assert!(!local.as_object().unwrap().keys().any(is_of_volumes) && !log.contains("remote volumes"), "{local} {log}");
    // The reads of a subsearch count for the outer search.
    let (nested, _) = performance("search index=here [search index=main | head 1 | fields host]");
    assert!(number(&nested, "miss", "invocations") > 0, "{nested}");
    let (cold, log) = performance("search index=web | stats count by line");
    assert!(number(&cold, "miss", "invocations") > 0 && number(&cold, "miss", "bytes") > 0, "{cold}");
    assert!(cold["command.search.rawdata.bucketcache.miss"]["duration_secs"].as_f64().unwrap() > 0.0, "{cold}");
    assert!(log.contains(" INFO  remote volumes: ") && log.contains(" requests with "), "{log}");

    let buckets = admin.json("/services/admin/cacheman?count=0&sort_key=name");
    let entries = buckets["entry"].as_array().unwrap();
    let of = |index: &str| entries.iter().find(|entry| entry["content"]["cm:bucket.index"] == index);
    let main = of("main").unwrap();
    assert!(main["name"].as_str().unwrap().starts_with("bid|main~") && of("here").is_none(), "{buckets}");
    let (stable, status) = (&main["content"]["cm:bucket.stable"], &main["content"]["cm:bucket.status"]);
    assert!(stable == "1" && status == "remote", "{main}");
    let name = main["name"].as_str().unwrap();
    let guid = admin.json("/services/server/info")["entry"][0]["content"]["guid"].as_str().unwrap().to_owned();
    assert!(name.ends_with(&format!("~{guid}|")), "{name} {guid}");
    let totals = &admin.json("/services/admin/cacheman/_metrics")["entry"][0]["content"];
    let total = |name: &str| totals[name].as_str().unwrap().parse::<u64>().unwrap();
    // These objects are so small that opening them fetches all of them.
    assert!(total("cache.bytes_fetched") > 0 && total("remote.bytes") > 0 && total("copies.bytes") == 0, "{totals}");
    let search = "| rest /services/admin/cacheman/_metrics | table cache.fetches migration.status";
    let listed = place.run(&["search", search, "-o", "csv"]).expect_success();
    assert!(listed.starts_with("cache.fetches,migration.status\n"), "{listed}");
    let (_, page) = admin.get("/services/quarry/metrics");
    let line = page.lines().find(|line| line.starts_with("quarry_remote_fetched_bytes_total "));
    assert!(line.is_some_and(|line| !line.ends_with(" 0")), "{page}");
    server.stop("-TERM");
}

#[test]
fn encrypted_buckets_are_stored_on_s3_and_keys_are_rotated() {
    let Some(gateway) = Gateway::start() else { return };
    let place = on_s3(&gateway);
    let keys = place.write("keys", format!("2025 {}\n", "0a".repeat(32)));
    let cse =
        format!("[volume:cold]\nremote.s3.encryption = cse\nremote.s3.encryption.cse.key_file = {keys}\n[volume:cold]");
    configure(&place, "[volume:cold]", &cse);
    lives_on(&place);
    let objects = || {
        let out = std::process::Command::new("find").arg(gateway.file("some")).args(["-type", "f"]).output().unwrap();
        String::from_utf8(out.stdout).unwrap().lines().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>()
    };
    let has = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).any(|window| window == what);
    let all = objects();
    assert!(all.len() > 10 && all.iter().all(|bytes| has(bytes, b"QRYENC01") && has(bytes, b"2025")));
    assert!(!all.iter().any(|bytes| has(bytes, b"\"index\"")), "receipts are encrypted, too");
    let before = answers(&place);
    std::fs::write(&keys, format!("2026 {}\n2025 {}\n", "0b".repeat(32), "0a".repeat(32))).unwrap();
    // Without a server, added events are sealed when the command ends.
    add(&place, 700..800, "main");
    let server = Server::start(&place);
    assert!(wait_until(|| is_uploaded(&place)), "{:?}", copies(&place));
    assert!(objects().iter().any(|bytes| has(bytes, b"2026")));
    assert_eq!(answers(&place)[0].lines().count(), before[0].lines().count() + 100);
    server.stop("-TERM");
    std::fs::write(&keys, format!("2026 {}\n", "0b".repeat(32))).unwrap();
    std::fs::remove_dir_all(place.data().join("cache")).unwrap();
    let search = place.run(&["search", "index=main", "-o", "raw"]);
    assert!(
        search.code == 5 && search.err.contains("key 2025, which the key file of its volume lacks"),
        "{}",
        search.err
    );
    assert!(search.err.contains("bucket main~1 cannot be read: ") && !search.err.contains("damaged"), "{}", search.err);
    let RunOutput { code, out, err } = place.run(&["bucket", "verify", "-o", "csv"]);
    assert!(code == 5 && out.contains("main~1,false,") && !out.contains("damaged"), "{code} {out}");
    assert!(err.contains("not verified, because they cannot be read now") && !err.contains("damaged"), "{err}");
    configure(&place, &keys, "/nowhere/keys");
    let refused = place.run(&["search", "index=main", "-o", "raw"]);
    assert!(refused.code != 0 && refused.err.contains("/nowhere/keys"), "{}", refused.err);
}

#[test]
fn buckets_are_stored_on_another_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let place = place_on(&format!("path = file://{}", folder.path().display()));
    lives_on(&place);
    assert!(folder.path().join("main").is_dir());
}

/// Replaces a text in indexes.conf of a data directory.
fn configure(place: &Place, from: &str, to: &str) {
    let conf = place.data().join("etc/system/local/indexes.conf");
    let text = std::fs::read_to_string(&conf).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(conf, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn lost_catalogs_are_rebuilt_from_s3() {
    let Some(gateway) = Gateway::start() else { return };
    let place = on_s3(&gateway);
    for number in 0..4 {
        add(&place, number * 100..number * 100 + 100, ["main", "web"][number % 2]);
    }
    let server = Server::start(&place);
    assert!(wait_until(|| is_uploaded(&place)), "{:?}", copies(&place));
    let refused = place.run(&["bucket", "rebuild-catalog", "--store", "0123456789abcdef"]);
    assert!(refused.code != 0 && refused.err.contains("in use by another process"), "{}", refused.err);
    let searches = ["index=main OR index=web", "index=web line=142", "index=main OR index=web | stats count by index"];
    let answers = |place: &Place| searches.map(|search| place.run(&["search", search, "-o", "raw"]).expect_success());
    let before = answers(&place);
    assert_eq!(before[0].lines().count(), 400);
    server.stop("-TERM");
    // The server's own events are only in the log, so they are lost with the machine.
    let lost = Place::new();
    std::fs::create_dir_all(lost.data()).unwrap();
    std::fs::rename(place.data().join("etc"), lost.data().join("etc")).unwrap();
    let listed = lost.run(&["bucket", "rebuild-catalog", "-o", "json"]);
    let stores: Vec<serde_json::Value> = serde_json::from_str(&listed.out).unwrap();
    assert_eq!((listed.code, stores.len()), (2, 1), "{}", listed.err);
    assert!(listed.err.contains("--store ID"), "{}", listed.err);
    let id = stores[0]["store"].as_str().unwrap();
    let reported = lost.run(&["bucket", "rebuild-catalog", "--store", id]).expect_success();
    assert!(reported.contains(" buckets with "), "{reported}");
    assert_eq!(answers(&lost), before);
    let again = lost.run(&["bucket", "rebuild-catalog", "--store", id]);
    assert!(again.code != 0 && again.err.contains("there is a catalog already"), "{}", again.err);
    let server = Server::start(&lost);
    add(&lost, 400..500, "main");
    assert_eq!(answers(&lost)[0].lines().count(), 500);
    server.stop("-TERM");
}

#[test]
fn an_index_moves_to_a_folder_and_back_to_the_data_folder() {
    let Some(gateway) = Gateway::start() else { return };
    let place = on_s3(&gateway);
    let folder = tempfile::tempdir().unwrap();
    for number in 0..3 {
        add(&place, number * 100..number * 100 + 100, "main");
    }
    let server = Server::start(&place);
    assert!(wait_until(|| is_uploaded(&place)), "{:?}", copies(&place));
    let before = place.run(&["search", "index=main", "-o", "raw"]).expect_success();
    let refused = place.run(&["index", "migrate", "main", "--to", "nas"]);
    assert!(refused.code != 0 && refused.err.contains("set remotePath = volume:nas/"), "{}", refused.err);
    server.stop("-TERM");
    let nas = format!(
        "[volume:nas]\nstorageType = remote\npath = file://{}\n[main]\nremotePath = volume:nas/$_index_name\n[here]",
        folder.path().display()
    );
    configure(&place, "[here]", &nas);
    // First with the server, then without one.
    let server = Server::start(&place);
    let moved = place.run(&["index", "migrate", "main", "--to", "nas"]).expect_success();
    assert!(moved.starts_with("3 buckets of "), "{moved}");
    assert_eq!(place.run(&["search", "index=main", "-o", "raw"]).expect_success(), before);
    let is_empty = || {
        let listed = std::fs::read_dir(gateway.file("some/where/main"));
        let inner = listed.into_iter().flatten().flatten().map(|entry| entry.path());
        inner.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten()).count() == 0
    };
    assert!(wait_until(is_empty), "nothing is left at the old location");
    server.stop("-KILL");
    configure(&place, "remotePath = volume:nas/$_index_name", "remotePath =");
    let moved = place.run(&["index", "migrate", "main", "--to", "local"]).expect_success();
    assert!(moved.starts_with("3 buckets of "), "{moved}");
    let again = place.run(&["index", "migrate", "main", "--to", "local"]).expect_success();
    assert_eq!(again, "0 buckets of 0 bytes moved, 3 were already in the data directory\n");
    let of_main: Vec<(String, String)> = copies(&place).into_iter().filter(|(index, _)| index == "main").collect();
    assert!(of_main.iter().all(|(_, copies)| copies == "local"), "{of_main:?}");
    assert_eq!(place.run(&["search", "index=main", "-o", "raw"]).expect_success(), before);
}

#[test]
fn a_missing_store_is_reported_with_what_is_missing() {
    let Some(gateway) = Gateway::start() else { return };
    let place = on_s3(&gateway);
    add(&place, 0..100, "main");
    add(&place, 100..200, "here");
    let server = Server::start(&place);
    assert!(wait_until(|| is_uploaded(&place)), "{:?}", copies(&place));
    server.stop("-TERM");
    std::fs::remove_dir_all(place.data().join("cache")).unwrap();
    std::fs::remove_dir_all(gateway.file("some")).unwrap();
    let RunOutput { code, out, err } = place.run(&["search", "index=*", "-o", "raw"]);
    assert_eq!((code, out.lines().count()), (5, 100), "{err}");
    assert!(err.contains("main~1") && err.contains("does not exist"), "{err}");
}

#[test]
fn an_unreachable_store_is_reported_once_per_bucket_and_not_as_damage() {
    let Some(gateway) = Gateway::start() else { return };
    let place = on_s3(&gateway);
    add(&place, 0..100, "main");
    add(&place, 100..200, "here");
    let server = Server::start(&place);
    assert!(wait_until(|| is_uploaded(&place)), "{:?}", copies(&place));
    server.stop("-TERM");
    std::fs::remove_dir_all(place.data().join("cache")).unwrap();
    drop(gateway);
    let RunOutput { code, out, err } = place.run(&["search", "index=*", "-o", "raw"]);
    assert!(code == 5 && out.lines().count() == 100 && err.contains("bucket main~1 cannot be read: "), "{code} {err}");
    let log = place.write("late.log", lines(200..210));
    let added = place.run(&["add", "oneshot", &log, "--index", "main"]);
    assert!(added.code == 0 && added.err.contains("waiting for requests to a volume to end"), "{added:?}");
    let remedy = "check that its storage can be reached, then try again";
    assert_eq!((err.matches("main~1").count(), err.matches(remedy).count()), (1, 1), "{err}");
    assert!(!err.contains("damaged"), "{err}");
}

#[test]
fn a_volume_that_cannot_be_used_keeps_the_store_from_opening() {
    let place = place_on("path = s3://");
    let log = place.write("a.log", lines(0..10));
    let RunOutput { code, err, .. } = place.run(&["add", "oneshot", &log]);
    assert!(code != 0 && err.contains("indexes.conf: [volume:cold]: path = s3://"), "{code} {err}");
}

/// Number of events in a bucket of two slabs, whose term filter is too large to be read whole.
const EVENTS_WITH_IDS: usize = 300_000;
/// Delay of each answer in a test that counts sequential requests; longer than it takes to send all requests that do
/// not wait for an answer.
const ROUND_TRIP: Duration = Duration::from_millis(300);

/// The id of an event: unique, of digits and letters.
fn id_of(event: usize) -> String {
    format!("{:016x}", (event as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The length of the longest chain of requests in which each request was sent after the answer to the previous one.
fn sequential_requests(requests: &[ProxiedRequest]) -> usize {
    let mut chains: Vec<usize> = Vec::new();
    // A second request for the same bytes hedges the first.
    let is_hedge = |at: usize| {
        let same = |other: &ProxiedRequest| {
            other.head.lines().next() == requests[at].head.lines().next()
                && other.header("range") == requests[at].header("range")
        };
        requests[..at].iter().any(same)
    };
    for (at, request) in requests.iter().enumerate() {
        if is_hedge(at) {
            chains.push(0);
            continue;
        }
        let earlier = requests.iter().zip(&chains);
        let before = earlier.filter(|(earlier, _)| earlier.answered.is_some_and(|at| at <= request.arrived));
        let before = before.map(|(_, chain)| *chain).max().unwrap_or(0);
        chains.push(before + 1);
    }
    chains.into_iter().max().unwrap_or(0)
}

#[test]
fn rare_events_are_found_with_few_sequential_requests() {
    let Some(gateway) = Gateway::start() else { return };
    let proxy = FaultProxy::start(gateway.address(), Faults::default());
    let place = Place::new();
    let event = |at: usize| {
        let (second, word) = (at / 10, if at == EVENTS_WITH_IDS / 3 { "zebra" } else { "horse" });
        let time = format!(
            "2026-11-{:02}T{:02}:{:02}:{:02}Z",
            1 + second / 86_400,
            second / 3_600 % 24,
            second / 60 % 60,
            second % 60
        );
        format!("{time} worker={} id={} animal={word} took={} ms\n", at % 17, id_of(at), at * 31 % 9_973)
    };
    let log = place.write("ids.log", (0..EVENTS_WITH_IDS).map(event).collect::<String>());
    place.run(&["add", "oneshot", &log]).expect_success();
    place.run(&["bucket", "compact"]).expect_success();
    put_indexes_on(&place, &s3_volume(&proxy.url()));
    let server = Server::start(&place);
    assert!(wait_until(|| is_uploaded(&place)), "{:?}", copies(&place));
    server.stop("-TERM");
    let (id, absent) = (id_of(EVENTS_WITH_IDS / 7), "0123456789abcdee");
    for (search, most, expected) in [
        ("zebra | table animal", 4, "animal\nzebra\n".to_owned()),
        (&*format!("{id} | head 1 | table id"), 4, format!("id\n{id}\n")),
        (&*format!("id={id} | table id worker"), 4, format!("id,worker\n{id},{}\n", EVENTS_WITH_IDS / 7 % 17)),
        (&*format!("{absent} | stats count"), 4, "count\n0\n".to_owned()),
        ("zebra | stats count", 4, "count\n1\n".to_owned()),
    ] {
        if place.data().join("cache").exists() {
            std::fs::remove_dir_all(place.data().join("cache")).unwrap();
        }
        let server = Server::start(&place);
        proxy.set(Faults { latency: ROUND_TRIP, ..Faults::default() });
        let before = proxy.requests().len();
        assert_eq!(place.run(&["search", search, "-o", "csv"]).expect_success(), expected, "{search}");
        let requests = proxy.requests().split_off(before);
        proxy.set(Faults::default());
        let heads = || requests.iter().map(|request| request.header("range").unwrap_or_default()).collect::<Vec<_>>();
        let sequential = sequential_requests(&requests);
        assert!((1..=most).contains(&sequential), "{search}: {sequential} sequential requests: {:?}", heads());
        assert!(requests.len() <= 30, "{search}: {:?}", heads());
        server.stop("-TERM");
    }
}
