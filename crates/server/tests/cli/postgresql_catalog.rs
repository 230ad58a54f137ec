//! The catalog in PostgreSQL: it is moved there and back, and the database is killed while a server uses it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use quarry_pgworld::PostgreSql;

use crate::collector::{PLAIN, place_with_tokens, post};
use crate::server::Server;
use crate::support::{Place, lines, wait_until};

/// Points server.conf to a database, or to none.
fn configure(place: &Place, url: Option<&str>) {
    std::fs::create_dir_all(place.path("data/etc/system/local")).unwrap();
    let text = url.map_or_else(String::new, |url| format!("[catalog]\nurl = {url}\nwaitSeconds = 60\n"));
    place.write("data/etc/system/local/server.conf", text);
}

fn count(place: &Place) -> String {
    place.run(&["search", "index=main | stats count", "-o", "csv"]).expect_success()
}

#[test]
fn a_catalog_moves_to_postgresql_and_back() {
    let database = PostgreSql::start();
    let place = Place::new();
    for number in 0..3 {
        let log = place.write(&format!("{number}.log"), lines(number * 100..number * 100 + 100));
        place.run(&["add", "oneshot", &log]).expect_success();
    }
    let refused = place.run(&["catalog", "migrate", "postgresql"]);
    assert!(refused.code != 0 && refused.err.contains("[catalog] url"), "{}", refused.err);
    configure(&place, Some(&database.url()));
    let refused = place.run(&["search", "*"]);
    assert!(refused.code == 2 && refused.err.contains("catalog migrate postgresql`"), "{}", refused.err);
    let reported = place.run(&["catalog", "migrate", "postgresql"]).expect_success();
    assert!(
        reported.contains("the catalog is in postgresql://quarry@") && reported.contains("schema quarry_"),
        "{reported}"
    );
    assert!(!place.data().join("catalog.sqlite").exists());
    assert_eq!(count(&place), "count\n300\n");
    let again = place.run(&["add", "oneshot", &place.path("1.log").display().to_string()]).expect_success();
    assert!(again.contains("1 file skipped"), "{again}");
    let more = place.write("3.log", lines(300..400));
    place.run(&["add", "oneshot", &more]).expect_success();
    assert_eq!(place.run(&["bucket", "verify"]).code, 0);
    let schema = std::fs::read_to_string(place.data().join("catalog.postgresql")).unwrap();
    let damage =
        |events: &str| database.run("quarry", &format!("UPDATE {}.bucket SET events = {events}", schema.trim()));
    damage("events + 1");
    let damaged = place.run(&["search", "*"]);
    assert!(damaged.code == 4 && damaged.err.contains("does not match its checksum"), "{}", damaged.err);
    damage("events - 1");
    configure(&place, None);
    let refused = place.run(&["search", "*"]);
    assert!(refused.code == 2 && refused.err.contains("the catalog is in PostgreSQL"), "{}", refused.err);
    configure(&place, Some(&database.url()));
    place.run(&["catalog", "migrate", "sqlite"]).expect_success();
    configure(&place, None);
    assert_eq!(count(&place), "count\n400\n");
    assert_eq!(place.run(&["bucket", "verify"]).code, 0);
}

#[test]
fn a_database_that_is_killed_under_load_disturbs_neither_senders_nor_searches() {
    const ROUNDS: usize = 3;
    let mut database = PostgreSql::start();
    let place = place_with_tokens();
    configure(&place, Some(&database.url()));
    let server = Server::start_with(&place, &["--hec", "127.0.0.1:0"]);
    let (sent, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let number = sent.load(Ordering::Relaxed);
                let answer = post(&place, "/event", PLAIN, &format!("{{\"event\":\"number={number}\"}}"));
                assert_eq!(answer, r#"{"text":"Success","code":0}"#, "event {number}");
                sent.store(number + 1, Ordering::Relaxed);
            }
        });
        let arrive = |more: usize| {
            let until = sent.load(Ordering::Relaxed) + more;
            assert!(wait_until(|| sent.load(Ordering::Relaxed) >= until), "senders wait");
        };
        for round in 0..ROUNDS {
            arrive(50);
            database.kill();
            arrive(50);
            let counted = count(&place);
            assert!(counted.trim_start_matches("count\n").trim().parse::<usize>().unwrap() >= 100, "{counted}");
            database.restart();
            let log = place.write(&format!("{round}.log"), lines(round * 10..round * 10 + 10));
            place.run(&["add", "oneshot", &log, "--index", "files"]).expect_success();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(server.stop("-TERM"), 0);
    let sent = sent.load(Ordering::Relaxed);
    let counts = "index=main | stats count, dc(number) as numbers";
    assert_eq!(place.run(&["search", counts, "-o", "csv"]).expect_success(), format!("count,numbers\n{sent},{sent}\n"));
    let files = place.run(&["search", "index=files | stats count", "-o", "csv"]).expect_success();
    assert_eq!(files, format!("count\n{}\n", ROUNDS * 10));
    assert_eq!(place.run(&["bucket", "verify"]).code, 0);
}
