//! Objects over REST: ownership, visibility to the next search, persistence, and protection from other users.

use std::io::Write as _;

use serde_json::Value;

use crate::permissions::{key, search, status, with_users};
use crate::server::{Server, ask, connected};
use crate::support::{Place, wait_until};

const MACROS: &str = "/services/admin/macros";

/// The JSON object or array of an answer, which may be chunked.
pub(crate) fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let (from, to) = (body.find(['{', '[']).unwrap_or_default(), body.rfind(['}', ']']).map_or(0, |at| at + 1));
    serde_json::from_str(&body[from..to]).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// The value of the macro `m` in a search without a namespace, or the search's status.
fn expanded(place: &Place, key: &str) -> String {
    let answer = search(place, key, "| makeresults | eval m=`m` | table m");
    match status(&answer) {
        "200" => body(&answer)["results"][0]["m"].as_str().unwrap_or_default().to_owned(),
        other => other.to_owned(),
    }
}

#[test]
fn macros_are_private_until_shared_and_effective_at_once() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["power"]), ("tom", &["user"])]);
    let server = Server::start(&place);
    let [eva, tom] = ["eva", "tom"].map(|user| key(&place, user));
    assert_eq!(expanded(&place, &eva), "400");
    let made = ask(&place, "POST", MACROS, &eva, "name=m&definition=%22one%22&output_mode=json");
    assert_eq!(status(&made), "201", "{made}");
    let entry = &body(&made)["entry"][0];
    assert_eq!((entry["acl"]["sharing"].as_str(), entry["acl"]["owner"].as_str()), (Some("user"), Some("eva")));
    assert_eq!((expanded(&place, &eva), expanded(&place, &tom)), ("one".to_owned(), "400".to_owned()));
    assert_eq!(status(&ask(&place, "POST", MACROS, &eva, "name=m&definition=x")), "409");
    assert_eq!(status(&ask(&place, "POST", MACROS, &eva, "name=n&definition=x&colour=red")), "400");
    assert_eq!(status(&ask(&place, "POST", MACROS, &eva, "name=n")), "400");
    let theirs = "/servicesNS/eva/search/admin/macros/m";
    for (method, path) in [("GET", theirs.to_owned()), ("POST", theirs.to_owned()), ("DELETE", theirs.to_owned())] {
        let answer = ask(&place, method, &path, &tom, "definition=mine");
        assert!(["403", "404"].contains(&status(&answer)), "{method}: {answer}");
    }
    let made = ask(&place, "POST", "/servicesNS/eva/search/admin/macros", &tom, "name=z&definition=x");
    assert_eq!(status(&made), "403", "{made}");
    let changed = ask(&place, "POST", &format!("{MACROS}/m"), &eva, "definition=%22two%22");
    assert_eq!(status(&changed), "200", "{changed}");
    assert_eq!(expanded(&place, &eva), "two");
    let shared = ask(&place, "POST", &format!("{MACROS}/m/acl"), &eva, "sharing=global&owner=eva");
    assert_eq!(status(&shared), "200", "{shared}");
    assert_eq!(expanded(&place, &tom), "two");
    assert_eq!(status(&ask(&place, "POST", &format!("{MACROS}/m"), &tom, "definition=x")), "403");
    drop(server);
    let server = Server::start(&place);
    let [eva, tom] = ["eva", "tom"].map(|user| key(&place, user));
    assert_eq!(expanded(&place, &tom), "two", "a change is on disk before it is answered");
    assert_eq!(status(&ask(&place, "DELETE", &format!("{MACROS}/m"), &eva, "")), "200");
    assert_eq!(expanded(&place, &tom), "400");
    drop(server);
}

#[test]
fn a_saved_search_runs_as_a_job_with_its_arguments() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["user"])]);
    let server = Server::start(&place);
    let eva = key(&place, "eva");
    let saved = "/servicesNS/eva/search/saved/searches";
    let text = "search=%7C+makeresults+count%3D%24n%24+%7C+stats+count";
    assert_eq!(status(&ask(&place, "POST", saved, &eva, &format!("name=My+search&{text}"))), "201");
    let one = format!("{saved}/My%20search");
    let begun = ask(&place, "POST", &format!("{one}/dispatch"), &eva, "args.n=3&output_mode=json");
    assert_eq!(status(&begun), "201", "{begun}");
    let sid = body(&begun)["sid"].as_str().unwrap().to_owned();
    let rows = format!("/services/search/jobs/{sid}/results?output_mode=json");
    let rows = (0..600).map(|_| ask(&place, "GET", &rows, &eva, "")).find(|answer| status(answer) == "200").unwrap();
    assert_eq!(body(&rows)["results"][0]["count"], "3");
    let history = body(&ask(&place, "GET", &format!("{one}/history?output_mode=json"), &eva, ""));
    assert_eq!(
        (history["paging"]["total"].as_u64(), history["entry"][0]["name"].as_str()),
        (Some(1), Some(sid.as_str()))
    );
    let further = format!("/services/search/jobs/{sid}/results?output_mode=json&search=eval+twice%3Dcount%2A2");
    let further = body(&ask(&place, "GET", &further, &eva, ""));
    assert_eq!((further["results"][0]["twice"].as_str(), further["post_process_count"].as_u64()), (Some("6"), Some(1)));
    assert_eq!(status(&ask(&place, "POST", &format!("{one}/disable"), &eva, "")), "200");
    assert_eq!(status(&ask(&place, "POST", &format!("{one}/dispatch"), &eva, "args.n=3")), "400");
    let listed = format!("{saved}?output_mode=json&search=name%3DMy*&f=search&sort_dir=desc");
    let listed = body(&ask(&place, "GET", &listed, &eva, ""));
    assert_eq!(listed["entry"][0]["content"].as_object().map(|content| content.len()), Some(2), "{listed}");
    drop(server);
}

#[test]
fn app_passwords_are_encrypted_and_visible_only_to_administrators() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["power"])]);
    let server = Server::start(&place);
    let [admin, eva] = ["admin", "eva"].map(|user| key(&place, user));
    let passwords = "/services/storage/passwords";
    let made = ask(&place, "POST", passwords, &admin, "name=mail&realm=a%3Ab&password=hidden+word&output_mode=json");
    assert_eq!(status(&made), "201", "{made}");
    let entry = &body(&made)["entry"][0];
    assert_eq!(entry["name"], "a\\:b:mail:");
    assert_eq!(
        (&entry["content"]["clear_password"], &entry["content"]["realm"]),
        (&"hidden word".into(), &"a:b".into())
    );
    for path in [
        passwords,
        "/services/configs/conf-passwords",
        "/services/properties/passwords/credential:a%5C:b:mail:/password",
    ] {
        let seen = ask(&place, "GET", &format!("{path}?output_mode=json"), &eva, "");
        assert!(!seen.contains("hidden word"), "{path}: {seen}");
    }
    assert_eq!(status(&ask(&place, "GET", passwords, &eva, "")), "403");
    let file = std::fs::read_to_string(place.data().join("etc/apps/search/local/passwords.conf")).unwrap();
    assert!(file.contains("[credential:a\\:b:mail:]") && !file.contains("hidden"), "{file}");
    drop(server);
    let server = Server::start(&place);
    let admin = key(&place, "admin");
    let shown = ask(&place, "GET", &format!("{passwords}?output_mode=json"), &admin, "");
    assert_eq!(body(&shown)["entry"][0]["content"]["clear_password"], "hidden word");
    drop(server);
}

#[test]
fn indexes_are_created_used_and_disabled() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["power"])]);
    let server = Server::start(&place);
    let [admin, eva] = ["admin", "eva"].map(|user| key(&place, user));
    let indexes = "/services/data/indexes";
    assert_eq!(status(&ask(&place, "POST", indexes, &eva, "name=web")), "403");
    for wrong in ["name=..%2Fweb", "name=Web", "name=web&colour=red"] {
        assert_eq!(status(&ask(&place, "POST", indexes, &admin, wrong)), "400", "{wrong}");
    }
    let made = ask(&place, "POST", indexes, &admin, "name=web&frozenTimePeriodInSecs=86400&output_mode=json");
    assert_eq!(status(&made), "201", "{made}");
    assert_eq!(body(&made)["entry"][0]["content"]["frozenTimePeriodInSecs"], 86_400);
    assert_eq!(status(&ask(&place, "POST", indexes, &admin, "name=web")), "409");
    let receiver = "/services/receivers/simple?index=web&sourcetype=lines&source=here&output_mode=json";
    let taken = ask(&place, "POST", receiver, &admin, "one event");
    assert_eq!((status(&taken), &body(&taken)["bytes"]), ("200", &9.into()), "{taken}");
    assert_eq!(status(&ask(&place, "POST", receiver, &eva, "one event")), "403");
    // As in the `attach` functions of Splunk's SDKs, the request has no length, and the client does not wait for an
    // answer.
    let head = |authorization: &str| {
        format!(
            "POST /services/receivers/stream?index=web&sourcetype=generic_single_line HTTP/1.1\r\nHost: 127.0.0.1\r\n\
             Authorization: {authorization}\r\nX-Splunk-Input-Mode: Streaming\r\n\r\n"
        )
    };
    for (authorization, text) in [(&admin, "attached one\nattached two"), (&eva, "attached without leave\n")] {
        let mut stream = connected(&place);
        stream.write_all(format!("{}{text}", head(authorization)).as_bytes()).unwrap();
    }
    let mut open = connected(&place);
    open.write_all(format!("{}attached three\nattached fo", head(&admin)).as_bytes()).unwrap();
    let attached = "search index=web attached | stats count values(_raw) as texts | eval texts=mvjoin(texts, \",\")";
    let has = |texts: &str| wait_until(|| search(&place, &admin, attached).contains(texts));
    assert!(has("attached one,attached three,attached two"), "whole lines are found while the connection is open");
    open.write_all(b"ur\n").unwrap();
    drop(open);
    assert!(has("attached four,attached one,attached three,attached two"));
    let found = search(&place, &admin, "search index=web | table _raw source");
    assert!(found.contains("one event") && found.contains("here"), "{found}");
    assert_eq!(status(&ask(&place, "POST", &format!("{indexes}/web/disable"), &admin, "")), "200");
    assert_eq!(status(&ask(&place, "POST", receiver, &admin, "one event")), "400");
    assert_eq!(status(&ask(&place, "POST", &format!("{indexes}/web/enable"), &admin, "")), "200");
    assert_eq!(status(&ask(&place, "POST", receiver, &admin, "one event")), "200");
    drop(server);
}

#[test]
fn changes_of_objects_are_in_the_audit_trail() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["power"])]);
    let server = Server::start(&place);
    let eva = key(&place, "eva");
    let one = format!("{MACROS}/m");
    for (method, path, form) in [
        ("POST", MACROS, "name=m&definition=1"),
        ("POST", &one, "definition=2"),
        ("POST", &one, "definition=3"),
        ("POST", &one, "colour=red"),
        ("DELETE", &one, ""),
        ("DELETE", &one, ""),
        ("GET", MACROS, ""),
    ] {
        ask(&place, method, path, &eva, form);
    }
    let searched = "index=_audit action=edit_object user=eva | stats sum(count) by operation object";
    let path = "/servicesNS/eva/search/admin/macros/m";
    let expected = format!("create,{path},1\nedit,{path},2\nremove,/services/admin/macros/m,1");
    let mut last = String::new();
    let is_found = wait_until(|| {
        last = place.run(&["search", searched, "-o", "csv"]).expect_success();
        last.split_once('\n').is_some_and(|(_, rows)| rows.trim_end() == expected)
    });
    assert!(is_found, "{last}");
    // Slashes in names are encoded once, however a client encodes them.
    let admin = key(&place, "admin");
    let monitor = "/services/data/inputs/monitor";
    for (method, name, form) in [
        ("POST", "", "name=/no/kept"),
        ("POST", "", "name=/no/such/log"),
        ("POST", "/%252Fno%252Fsuch%252Flog", "whitelist=a"),
        ("POST", "/%2Fno%2Fsuch%2Flog", "whitelist=b"),
        ("DELETE", "/%252Fno%252Fsuch%252Flog", ""),
    ] {
        ask(&place, method, &format!("{monitor}{name}"), &admin, form);
    }
    let searched = "index=_audit action=edit_object object=*monitor* | stats sum(count) by operation object";
    let entry = "/servicesNS/nobody/search/data/inputs/monitor/%2Fno%2Fsuch%2Flog";
    let kept = "/servicesNS/nobody/search/data/inputs/monitor/%2Fno%2Fkept";
    let expected = format!("create,{kept},1\ncreate,{entry},1\nedit,{entry},2\nremove,{monitor}/%2Fno%2Fsuch%2Flog,1");
    let is_found = wait_until(|| {
        last = place.run(&["search", searched, "-o", "csv"]).expect_success();
        last.split_once('\n').is_some_and(|(_, rows)| rows.trim_end() == expected)
    });
    assert!(is_found, "{last}");
    drop(server);
}

#[test]
fn node_health_and_user_messages_are_shown() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["power"]), ("tom", &["user"])]);
    let server = Server::start(&place);
    let [admin, eva, tom] = ["admin", "eva", "tom"].map(|user| key(&place, user));
    let content = |key: &str, path: &str| {
        let answer = ask(&place, "GET", &format!("/services/{path}?output_mode=json"), key, "");
        assert_eq!(status(&answer), "200", "{path}: {answer}");
        body(&answer)["entry"][0]["content"].take()
    };
    assert_eq!(content(&tom, "server/health/splunkd")["health"], "green");
    assert_eq!(content(&admin, "server/health/splunkd/details")["features"]["Disk Space"]["health"], "green");
    assert_eq!(content(&admin, "server/introspection/indexer")["status"], "normal");
    assert_eq!(content(&tom, "server/settings")["SPLUNK_HOME"], place.data().display().to_string());
    let megabytes = |value: &Value| value.as_str().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    assert!(megabytes(&content(&admin, "server/status/resource-usage/splunk-processes")["mem_used"]) > 1.0);
    let room = content(&admin, "server/status/partitions-space");
    assert!(megabytes(&room["capacity"]) >= megabytes(&room["free"]) && megabytes(&room["free"]) > 1.0, "{room}");
    assert!(content(&admin, "server/status/resource-usage/hostwide")["cpu_count"].as_u64() >= Some(1));
    assert_eq!(content(&admin, "server/status/limits/search-concurrency")["max_hist_searches"], 64);
    assert_eq!(status(&ask(&place, "GET", "/services/server/status/partitions-space", &tom, "")), "403");
    let messages = "/services/messages";
    assert_eq!(status(&ask(&place, "POST", messages, &tom, "name=a&value=b")), "403");
    assert_eq!(status(&ask(&place, "POST", messages, &eva, "name=a&value=b&severity=loud")), "400");
    assert_eq!(status(&ask(&place, "POST", messages, &eva, "name=a&value=disk+is+changed&severity=warn")), "201");
    let seen = content(&tom, "messages/a");
    assert_eq!((seen["message"].as_str(), seen["severity"].as_str()), (Some("disk is changed"), Some("warn")));
    assert_eq!(status(&ask(&place, "DELETE", &format!("{messages}/a"), &tom, "")), "403");
    assert_eq!(status(&ask(&place, "DELETE", &format!("{messages}/a"), &eva, "")), "200");
    assert_eq!(status(&ask(&place, "GET", &format!("{messages}/a"), &tom, "")), "404");
    drop(server);
}
