//! Lookup files and inputs over REST.

use serde_json::Value;

use crate::permissions::{key, search, status, with_users};
use crate::server::{Server, ask};
use crate::support::Place;

const FILES: &str = "/servicesNS/nobody/search/data/lookup-table-files";

fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let (from, to) = (body.find('{').unwrap_or_default(), body.rfind('}').map_or(0, |at| at + 1));
    serde_json::from_str(&body[from..to]).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

fn form(pairs: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// The value that a search finds in the lookup table, or the HTTP status of a failed search.
fn codes(place: &Place, key: &str) -> String {
    let answer = search(place, key, "| inputlookup codes.csv | stats values(action) AS a | eval a=mvjoin(a, \" \")");
    match status(&answer) {
        "200" => body(&answer)["results"][0]["a"].as_str().unwrap_or_default().to_owned(),
        other => other.to_owned(),
    }
}

#[test]
fn a_lookup_file_is_uploaded_replaced_shared_and_removed() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["user"]), ("tom", &["user"])]);
    let server = Server::start(&place);
    let [admin, eva, tom] = ["admin", "eva", "tom"].map(|user| key(&place, user));
    let given = form(&[("name", "codes.csv"), ("eai:data", "code,action\n1,failure\n"), ("output_mode", "json")]);
    let made = ask(&place, "POST", FILES, &admin, &given);
    assert_eq!(status(&made), "201", "{made}");
    let path = body(&made)["entry"][0]["content"]["eai:data"].as_str().unwrap().to_owned();
    assert!(path.ends_with("etc/apps/search/lookups/codes.csv"), "{path}");
    assert_eq!((codes(&place, &admin), codes(&place, &eva)), ("failure".to_owned(), "failure".to_owned()));
    assert_eq!(status(&ask(&place, "POST", FILES, &admin, &given)), "409");
    let one = format!("{FILES}/codes.csv");
    let other = form(&[("eai:data", "code,action\n1,\"ok\ngo\"\n")]);
    assert_eq!(status(&ask(&place, "POST", &one, &eva, &other)), "403", "the file belongs to the app");
    let staged = place.data().join("var/run/splunk/lookup_tmp");
    std::fs::create_dir_all(&staged).unwrap();
    std::fs::write(staged.join("up.csv"), "code,action\n1,success\n").unwrap();
    std::fs::write(place.path("secret.csv"), "a,b\n").unwrap();
    std::os::unix::fs::symlink(place.path("secret.csv"), staged.join("link.csv")).unwrap();
    let path = staged.join("up.csv").display().to_string();
    let outside = [
        place.path("secret.csv").display().to_string(),
        format!("{}/../../../../etc/passwd", staged.display()),
        staged.join("link.csv").display().to_string(),
        "../passwd".to_owned(),
        "none.csv".to_owned(),
        staged.display().to_string(),
        String::new(),
    ];
    for wrong in &outside {
        let answer = ask(&place, "POST", &one, &admin, &form(&[("eai:data", wrong)]));
        assert_eq!(status(&answer), "400", "{wrong}: {answer}");
    }
    assert_eq!(status(&ask(&place, "POST", &one, &admin, &form(&[("eai:data", &path)]))), "200");
    assert_eq!((codes(&place, &eva), staged.join("up.csv").exists()), ("success".to_owned(), false));
    for (name, data) in [
        ("codes.txt", "a\n1\n"),
        ("../x.csv", "a\n1\n"),
        ("a/b.csv", "a\n1\n"),
        (".x.csv", "a\n1\n"),
        ("x\u{0}.csv", "a\n1\n"),
        ("x.csv", "\n\n"),
    ] {
        let answer = ask(&place, "POST", FILES, &admin, &form(&[("name", name), ("eai:data", data)]));
        assert_eq!(status(&answer), "400", "{name}: {answer}");
    }
    let files = std::fs::read_dir(place.data().join("etc/apps/search/lookups")).unwrap();
    assert_eq!(files.count(), 1, "refused changes leave nothing behind");

    let own = "/services/data/lookup-table-files";
    let mine = form(&[("name", "mine.csv"), ("eai:data", "a\n1\n")]);
    assert_eq!(status(&ask(&place, "POST", own, &eva, &mine)), "201");
    assert!(place.data().join("etc/users/eva/search/lookups/mine.csv").is_file());
    assert_eq!(status(&ask(&place, "GET", &format!("{FILES}/mine.csv"), &tom, "")), "404");
    let shared = form(&[("sharing", "app"), ("owner", "eva")]);
    assert_eq!(status(&ask(&place, "POST", &format!("{own}/mine.csv/acl"), &eva, &shared)), "403");
    let theirs = "/servicesNS/eva/search/data/lookup-table-files/mine.csv";
    let moved = ask(&place, "POST", &format!("{theirs}/acl"), &admin, &shared);
    assert_eq!(status(&moved), "200", "{moved}");
    assert!(place.data().join("etc/apps/search/lookups/mine.csv").is_file());
    assert_eq!(status(&ask(&place, "GET", &format!("{FILES}/mine.csv"), &tom, "")), "200");
    let listed = body(&ask(&place, "GET", &format!("{FILES}?output_mode=json&search=mine"), &tom, ""));
    assert_eq!((&listed["paging"]["total"], &listed["entry"][0]["acl"]["owner"]), (&1.into(), &"eva".into()));
    assert_eq!(status(&ask(&place, "DELETE", &one, &tom, "")), "403");
    assert_eq!(status(&ask(&place, "DELETE", &one, &admin, "")), "200");
    assert_eq!(status(&ask(&place, "GET", &one, &admin, "")), "404");
    assert_ne!(codes(&place, &eva), "success");
    drop(server);
}

#[test]
fn inputs_are_stanzas_that_are_checked_and_followed_at_once() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["power"])]);
    let server = Server::start(&place);
    let [admin, eva] = ["admin", "eva"].map(|user| key(&place, user));
    let log = place.write("watched.log", "one\n");
    let monitor = "/servicesNS/nobody/search/data/inputs/monitor";
    let given = form(&[("name", &log), ("sourcetype", "lines"), ("output_mode", "json")]);
    assert_eq!(status(&ask(&place, "POST", monitor, &eva, &given)), "403");
    let made = ask(&place, "POST", monitor, &admin, &given);
    assert_eq!(status(&made), "201", "{made}");
    let made = body(&made);
    assert_eq!(
        (&made["entry"][0]["name"], &made["entry"][0]["content"]["sourcetype"]),
        (&log.as_str().into(), &"lines".into())
    );
    assert_eq!(made["messages"], serde_json::json!([]), "{made}");
    assert_eq!(status(&ask(&place, "POST", monitor, &admin, &given)), "409");
    for (kind, pairs) in [
        ("monitor", vec![("name", "relative/path")]),
        ("monitor", vec![("name", "/x"), ("index", "../up")]),
        ("monitor", vec![("name", "/x"), ("host_segment", "second")]),
        ("monitor", vec![("name", "/x"), ("whitelist", "(")]),
        ("monitor", vec![("name", "/x"), ("colour", "red")]),
        ("tcp/raw", vec![("name", "port")]),
        ("tcp/raw", vec![("name", "70000")]),
        ("udp", vec![("name", "514\n[x]")]),
        ("tcp/cooked", vec![("name", "0")]),
        ("script", vec![("name", "")]),
    ] {
        let answer = ask(&place, "POST", &format!("/services/data/inputs/{kind}"), &admin, &form(&pairs));
        assert_eq!(status(&answer), "400", "{kind} {pairs:?}: {answer}");
    }
    for kind in ["tcp/raw", "tcp/cooked", "udp"] {
        let path = format!("/services/data/inputs/{kind}");
        let name = if kind == "udp" { "name=127.0.0.1:39999" } else { "name=39999&restrictToHost=127.0.0.1" };
        let made = ask(&place, "POST", &path, &admin, &format!("{name}&connection_host=ip"));
        assert_eq!(status(&made), "201", "{kind}: {made}");
        let one = format!("{path}/127.0.0.1:39999");
        assert_eq!(status(&ask(&place, "POST", &one, &admin, "index=web&host=h")), "200");
        assert_eq!(status(&ask(&place, "POST", &format!("{one}/disable"), &admin, "")), "200");
        let shown = body(&ask(&place, "GET", &format!("{one}?output_mode=json"), &admin, ""));
        assert_eq!(shown["entry"][0]["content"]["disabled"], true, "{shown}");
        let listed = body(&ask(&place, "GET", &format!("{path}?output_mode=json"), &admin, ""));
        assert_eq!(listed["paging"]["total"], 1, "{kind}: {listed}");
        assert_eq!(status(&ask(&place, "DELETE", &one, &admin, "")), "200");
        assert_eq!(status(&ask(&place, "GET", &one, &admin, "")), "404");
    }
    let found = || search(&place, &admin, "search index=main source=*watched.log | stats count");
    assert!(crate::support::wait_until(|| found().contains("\"count\":\"1\"")), "{}", found());
    drop(server);
}
