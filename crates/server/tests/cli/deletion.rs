//! `delete` on a server: permissions, answers, and the state after a kill.

use crate::permissions::{key, search, status, with_users};
use crate::server::Server;
use crate::support::{Place, lines};

/// Rows of a search's answer in JSON.
fn rows(answer: &str) -> String {
    assert_eq!(status(answer), "200", "{answer}");
    answer.split("\"results\":").nth(1).expect(answer).split("]").next().unwrap().to_owned()
}

fn count(place: &Place, key: &str, text: &str) -> u64 {
    let answer = rows(&search(place, key, &format!("{text} | stats count")));
    answer.split("\"count\":\"").nth(1).expect(&answer).split('"').next().unwrap().parse().unwrap()
}

/// A server with 2,000 events in buckets and 30 events that are still in hot slabs.
fn world() -> (Place, Server) {
    let place = Place::new();
    with_users(
        &place,
        &[
            ("admin", &["admin"]),
            ("eva", &["user"]),
            ("dora", &["user", "can_delete"]),
            ("root", &["admin", "can_delete"]),
        ],
    );
    let log = place.write("a.log", lines(0..2_000));
    place.run(&["add", "oneshot", &log]).expect_success();
    let server = Server::start(&place);
    let eva = key(&place, "eva");
    let hot = "| makeresults count=30 | streamstats count AS n | eval _raw=\"hot n=\".n | collect index=main";
    assert_eq!(status(&search(&place, &eva, hot)), "200");
    (place, server)
}

#[test]
fn events_are_deleted_by_permitted_users() {
    let (place, server) = world();
    let [admin, eva, dora, root] = ["admin", "eva", "dora", "root"].map(|user| key(&place, user));
    for key in [&admin, &eva] {
        for text in [
            "hot | delete",
            "| makeresults | append [search hot | delete]",
            "| makeresults | map search=\"search hot | delete\"",
        ] {
            let refused = search(&place, key, text);
            assert!(status(&refused) == "403" && refused.contains("delete_by_keyword"), "{text}: {refused}");
        }
    }
    assert_eq!(count(&place, &admin, "hot"), 30);
    let misplaced = [
        "hot | head 3 | delete",
        "hot | stats count | delete",
        "hot | table n | delete",
        "| makeresults | append [search hot | delete]",
        "| makeresults | map search=\"search hot | delete\"",
        "hot | appendpipe [delete]",
        "hot [search hot | delete]",
    ];
    for text in misplaced {
        let refused = search(&place, &dora, text);
        assert!(status(&refused) == "400" && refused.contains("delete"), "{text}: {refused}");
    }
    assert_eq!(count(&place, &admin, "hot"), 30);
    let deleted = search(&place, &dora, "hot | eval odd=n%2 | where odd=1 | fields - n | delete");
    let found = rows(&deleted);
    assert!(
        found.starts_with("[{\"deleted\":\"15\",\"errors\":\"0\",\"index\":\"__ALL__\",\"splunk_server\":\""),
        "{found}"
    );
    assert!(found.contains(",{\"deleted\":\"15\",\"errors\":\"0\",\"index\":\"main\",\"splunk_server\":\""), "{found}");
    assert_eq!(count(&place, &admin, "hot"), 15);
    assert_eq!(count(&place, &admin, "| tstats count where index=main | rename count AS n | search n=2015"), 1);
    assert!(
        rows(&search(&place, &dora, "hot n=1 | delete"))
            .starts_with("[{\"deleted\":\"0\",\"errors\":\"0\",\"index\":\"__ALL__\"")
    );
    // The node's own events are kept, and the deletion is recorded.
    let record = "index=_audit action=delete_by_keyword user=dora event_count=15 search=\"*fields - n*\"";
    assert_eq!(count(&place, &admin, record), 1);
    let refused = search(&place, &root, "index=_audit action=delete_by_keyword | delete");
    let found = rows(&refused);
    assert!(found.contains("{\"deleted\":\"0\",\"errors\":\"1\",\"index\":\"_audit\""), "{refused}");
    assert!(refused.contains("user root may not delete from index _audit"), "{refused}");
    assert_eq!(count(&place, &admin, record), 1);
    drop(server);
}

#[test]
fn deletions_survive_a_kill() {
    let (place, server) = world();
    let (admin, dora) = (key(&place, "admin"), key(&place, "dora"));
    let before = count(&place, &admin, "index=main");
    // The deletion of so few events does not cause a rewrite of the bucket in the background.
    let is_deleted = "index=main (hot n<4) OR (line=*7)";
    let doomed = count(&place, &admin, is_deleted);
    assert!(doomed > 10 && doomed < before, "{doomed} of {before}");
    let answer = rows(&search(&place, &dora, &format!("{is_deleted} | delete")));
    assert!(answer.contains(&format!("\"deleted\":\"{doomed}\"")), "{answer}");
    server.stop("-KILL");
    let server = Server::start(&place);
    let admin = key(&place, "admin");
    assert_eq!([count(&place, &admin, "index=main"), count(&place, &admin, is_deleted)], [before - doomed, 0]);
    let listed = |column: &str| -> u64 {
        let list = place.run(&["bucket", "list", "-o", "csv"]).expect_success();
        let at = list.lines().next().unwrap().split(',').position(|name| name == column).unwrap();
        let of_main = list.lines().skip(1).filter(|line| line.split(',').nth(1) == Some("main"));
        of_main.map(|line| line.split(',').nth(at).unwrap().parse::<u64>().unwrap()).sum()
    };
    assert_eq!([listed("events"), listed("deleted")], [before - doomed, doomed]);
    place.run(&["bucket", "compact"]).expect_success();
    assert_eq!([listed("events"), listed("deleted")], [before - doomed, 0]);
    assert_eq!([count(&place, &admin, "index=main"), count(&place, &admin, is_deleted)], [before - doomed, 0]);
    assert!(place.run(&["bucket", "verify"]).expect_success().contains("true"));
    drop(server);
    let text = place.run(&["search", "index=main | delete"]).err;
    assert!(text.contains("delete"), "{text}");
}
