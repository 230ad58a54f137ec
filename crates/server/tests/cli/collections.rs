//! Collections over REST and as lookup tables: both show the same documents, owners are respected, and acknowledged
//! writes survive a kill.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::permissions::{key, search, status, with_users};
use crate::server::{Server, ask};
use crate::support::Place;

const CONFIG: &str = "/servicesNS/nobody/search/storage/collections/config";
const DATA: &str = "/servicesNS/nobody/search/storage/collections/data/people";

fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let from = body.find(['{', '[']).unwrap_or_default();
    let to = body.rfind(['}', ']']).map_or(0, |at| at + 1);
    serde_json::from_str(&body[from..to]).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

fn escaped(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

fn rows(place: &Place, key: &str, text: &str) -> Value {
    let answer = search(place, key, text);
    assert_eq!(status(&answer), "200", "{text}: {answer}");
    body(&answer)["results"].clone()
}

/// A server with a collection that the lookup `people` reads.
fn with_collection(place: &Place, settings: &str) -> (Server, String) {
    with_users(place, &[("admin", &["admin"]), ("eva", &["user"]), ("tom", &["user"])]);
    let local = place.data().join("etc/apps/search/local");
    std::fs::create_dir_all(&local).unwrap();
    let stanza = "[people]\nexternal_type = kvstore\ncollection = people\nfields_list = _key, who, age, at.city\n";
    std::fs::write(local.join("transforms.conf"), stanza).unwrap();
    let server = Server::start(place);
    let admin = key(place, "admin");
    let made = ask(place, "POST", CONFIG, &admin, &format!("name=people&output_mode=json{settings}"));
    assert_eq!(status(&made), "201", "{made}");
    (server, admin)
}

#[test]
fn searches_and_rest_have_the_same_documents() {
    let place = Place::new();
    let (server, admin) = with_collection(&place, "&field.age=number");
    let made =
        ask(&place, "POST", DATA, &admin, r#"{"_key":"a","who":"ann","age":"30","at":{"city":"Ulm"},"more":[1]}"#);
    assert_eq!((status(&made), body(&made)), ("201", json!({"_key": "a"})), "{made}");
    let table = rows(&place, &admin, "| inputlookup people | table _key who age at.city");
    assert_eq!(table, json!([{"_key": "a", "who": "ann", "age": "30", "at.city": "Ulm"}]));
    let found = rows(&place, &admin, "| makeresults | eval who=\"ann\" | lookup people who OUTPUT age | table age");
    assert_eq!(found, json!([{"age": "30"}]));
    rows(
        &place,
        &admin,
        "| makeresults | eval _key=\"b\", who=\"bob\", age=5, at.city=\"Bonn\" | outputlookup append=t key_field=_key people",
    );
    rows(&place, &admin, "| makeresults | eval who=\"cid\" | outputlookup append=t people");
    let all = body(&ask(&place, "GET", &format!("{DATA}?sort=who&fields=who,age,at,more,_key:0"), &admin, ""));
    let expected = json!([
        {"who": "ann", "age": 30, "at": {"city": "Ulm"}, "more": [1]},
        {"who": "bob", "age": 5, "at": {"city": "Bonn"}},
        {"who": "cid"}
    ]);
    assert_eq!(all, expected, "rows added by a search leave the others unchanged");
    rows(&place, &admin, "| makeresults | eval who=\"bob\", age=6 | outputlookup key_field=who people");
    let query = escaped(r#"{"who": "bob"}"#);
    let bobs = body(&ask(&place, "GET", &format!("{DATA}?query={query}"), &admin, ""));
    assert_eq!((bobs.as_array().unwrap().len(), &bobs[0]["age"]), (1, &json!(6)));
    rows(&place, &admin, "| makeresults | eval who=\"dan\" | outputlookup people");
    assert_eq!(body(&ask(&place, "GET", DATA, &admin, "")).as_array().unwrap().len(), 1);
    drop(server);
}

#[test]
fn documents_are_queried_changed_and_removed() {
    let place = Place::new();
    let (server, admin) = with_collection(&place, &format!("&accelerated_fields.n={}", escaped("{\"n\": 1}")));
    let documents: Vec<Value> =
        (0..100).map(|n| json!({"_key": format!("k{n}"), "n": n, "even": n % 2 == 0})).collect();
    let saved = ask(&place, "POST", &format!("{DATA}/batch_save"), &admin, &Value::from(documents).to_string());
    assert_eq!((status(&saved), body(&saved)[99].as_str()), ("200", Some("k99")), "{saved}");
    let asked = |more: &str| ask(&place, "GET", &format!("{DATA}?{more}"), &admin, "");
    let query = escaped(r#"{"n": {"$gte": 90}, "even": true}"#);
    let found = body(&asked(&format!("query={query}&sort=n:-1&skip=1&limit=2&fields=n")));
    assert_eq!(found, json!([{"_key": "k96", "n": 96}, {"_key": "k94", "n": 94}]));
    let queries =
        json!([{"query": {"n": 7}, "fields": "n,_key:0"}, {"query": {"even": false}, "sort": {"n": -1}, "limit": 1}]);
    let both = ask(&place, "POST", &format!("{DATA}/batch_find"), &admin, &queries.to_string());
    assert_eq!((body(&both)[0].clone(), body(&both)[1][0]["n"].clone()), (json!([{"n": 7}]), json!(99)));
    assert_eq!(status(&ask(&place, "POST", DATA, &admin, "{\"_key\": \"k1\"}")), "409");
    assert_eq!(body(&ask(&place, "POST", &format!("{DATA}/k1"), &admin, "{\"n\": -1}")), json!({"_key": "k1"}));
    let one = body(&ask(&place, "GET", &format!("{DATA}/k1"), &admin, ""));
    assert_eq!(one, json!({"_key": "k1", "_user": "nobody", "n": -1}));
    for (method, path, given, expected) in [
        ("GET", format!("{DATA}/none"), "", "404"),
        ("POST", format!("{DATA}/none"), "{}", "404"),
        ("DELETE", format!("{DATA}/none"), "", "404"),
        ("GET", DATA.replace("people", "none"), "", "404"),
        ("POST", DATA.replace("people", "none"), "{}", "404"),
        ("POST", DATA.to_owned(), "no json", "400"),
        ("POST", DATA.to_owned(), "[1]", "400"),
        ("POST", DATA.to_owned(), "{\"$a\": 1}", "400"),
        ("POST", format!("{DATA}/batch_save"), "{}", "400"),
        ("POST", format!("{DATA}/batch_find"), "[{\"colour\": 1}]", "400"),
        ("GET", format!("{DATA}?query=nonsense"), "", "400"),
        ("GET", format!("{DATA}?query=%7B%22$where%22:1%7D"), "", "400"),
        ("GET", format!("{DATA}?sort=n:up"), "", "400"),
        ("GET", format!("{DATA}?limit=many"), "", "400"),
        ("GET", format!("{DATA}?fields=a:1,b:0"), "", "400"),
    ] {
        let answer = ask(&place, method, &path, &admin, given);
        assert_eq!(status(&answer), expected, "{method} {path}: {answer}");
        assert!(answer.contains("<msg type=\"ERROR\">"), "{answer}");
    }
    let many = Value::from(vec![json!({}); 1_001]).to_string();
    let refused = ask(&place, "POST", &format!("{DATA}/batch_save"), &admin, &many);
    assert!(status(&refused) == "400" && refused.contains("max_documents_per_batch_save=1000"), "{refused}");
    assert_eq!(status(&ask(&place, "DELETE", &format!("{DATA}/k2"), &admin, "")), "200");
    let query = escaped(r#"{"n": {"$lt": 90}}"#);
    assert_eq!(status(&ask(&place, "DELETE", &format!("{DATA}?query={query}"), &admin, "")), "200");
    assert_eq!(body(&asked("")).as_array().unwrap().len(), 10);
    assert_eq!(status(&ask(&place, "DELETE", DATA, &admin, "")), "200");
    assert_eq!(body(&asked("")), json!([]));
    drop(server);
}

#[test]
fn collections_are_created_and_removed_with_their_documents() {
    let place = Place::new();
    let (server, admin) = with_collection(&place, "");
    let shown = body(&ask(&place, "GET", &format!("{CONFIG}?output_mode=json"), &admin, ""));
    let entry = &shown["entry"][0];
    assert_eq!((&entry["name"], &entry["acl"]["sharing"]), (&json!("people"), &json!("app")));
    assert_eq!(status(&ask(&place, "POST", CONFIG, &admin, "name=people")), "409");
    let wide = (0..11).map(|n| format!("\"f{n}\": 1")).collect::<Vec<_>>().join(",");
    for wrong in [
        "name=x&colour=red".to_owned(),
        "name=x&accelerated_fields.a=nonsense".to_owned(),
        format!("name=x&accelerated_fields.a={}", escaped(&format!("{{{wide}}}"))),
        "name=".to_owned(),
    ] {
        assert_eq!(status(&ask(&place, "POST", CONFIG, &admin, &wrong)), "400", "{wrong}");
    }
    let own = ask(&place, "GET", "/servicesNS/admin/search/storage/collections/config", &admin, "");
    assert_eq!(status(&own), "400", "a collection belongs to an app: {own}");
    assert_eq!(status(&ask(&place, "POST", DATA, &admin, "{\"n\": 1}")), "201");
    assert_eq!(status(&ask(&place, "DELETE", &format!("{CONFIG}/people"), &admin, "")), "200");
    assert_eq!(status(&ask(&place, "GET", DATA, &admin, "")), "404");
    assert_eq!(status(&ask(&place, "POST", CONFIG, &admin, "name=people")), "201");
    assert_eq!(body(&ask(&place, "GET", DATA, &admin, "")), json!([]));
    drop(server);
}

#[test]
fn objects_that_cannot_be_removed_keep_their_data() {
    let place = Place::new();
    let (server, admin) = with_collection(&place, "");
    ask(&place, "POST", DATA, &admin, r#"{"_key":"a"}"#);
    let saved = "/servicesNS/nobody/search/saved/searches";
    let suppress = format!("{saved}/mine/suppress?output_mode=json");
    ask(&place, "POST", saved, &admin, "name=mine&search=*");
    ask(&place, "POST", &suppress, &admin, "expiration=100000");
    let documents = || body(&ask(&place, "GET", DATA, &admin, "")).as_array().map(Vec::len);
    let suppressed = || body(&ask(&place, "GET", &suppress, &admin, ""))["entry"][0]["content"]["suppressed"].take();
    let [collection, search] = [format!("{CONFIG}/people"), format!("{saved}/mine")];
    // The files cannot be replaced, because folders that are not empty have the names of their next versions.
    let local = place.data().join("etc/apps/search/local");
    let blocked = ["collections.conf.new", "savedsearches.conf.new"].map(|name| local.join(name));
    blocked.iter().for_each(|folder| std::fs::create_dir_all(folder.join("x")).unwrap());
    for path in [&collection, &search] {
        let refused = ask(&place, "DELETE", path, &admin, "");
        assert!(status(&refused).starts_with('5'), "{refused}");
    }
    assert_eq!((documents(), suppressed()), (Some(1), json!("1")));
    blocked.iter().for_each(|folder| std::fs::remove_dir_all(folder).unwrap());
    for path in [&collection, &search] {
        assert_eq!(status(&ask(&place, "DELETE", path, &admin, "")), "200");
    }
    assert_eq!(status(&ask(&place, "POST", CONFIG, &admin, "name=people")), "201");
    assert_eq!(status(&ask(&place, "POST", saved, &admin, "name=mine&search=*")), "201");
    assert_eq!((documents(), suppressed()), (Some(0), json!("0")));
    drop(server);
}

#[test]
fn collections_whose_documents_cannot_be_removed_stay() {
    let place = Place::new();
    let (server, admin) = with_collection(&place, "");
    let config = format!("{CONFIG}/people");
    let acl = format!("{config}/acl");
    assert_eq!(status(&ask(&place, "POST", &acl, &admin, "owner=nobody&sharing=app&perms.read=power")), "200");
    // A folder in place of the file makes the removal of the documents fail.
    let file = place.data().join("kvstore/search/people.sqlite");
    std::fs::create_dir_all(&file).unwrap();
    let refused = ask(&place, "DELETE", &config, &admin, "");
    assert!(status(&refused).starts_with('5'), "{refused}");
    let shown = body(&ask(&place, "GET", &format!("{config}?output_mode=json"), &admin, ""));
    assert_eq!(shown["entry"][0]["acl"]["perms"]["read"], json!(["power"]), "{shown}");
    std::fs::remove_dir(&file).unwrap();
    assert_eq!(status(&ask(&place, "DELETE", &config, &admin, "")), "200");
    assert_eq!(status(&ask(&place, "GET", &config, &admin, "")), "404");
    drop(server);
}

#[test]
fn users_have_private_documents_and_write_where_permitted() {
    let place = Place::new();
    let (server, admin) = with_collection(&place, "");
    let [eva, tom] = ["eva", "tom"].map(|user| key(&place, user));
    let of = |user: &str| DATA.replace("nobody", user);
    assert_eq!(status(&ask(&place, "POST", DATA, &admin, "{\"_key\": \"k\", \"n\": 0}")), "201");
    let refused = ask(&place, "POST", DATA, &eva, "{}");
    assert!(status(&refused) == "403" && refused.contains("user eva may not change"), "{refused}");
    assert_eq!(status(&ask(&place, "DELETE", DATA, &eva, "")), "403");
    let opened = ask(
        &place,
        "POST",
        &format!("{CONFIG}/people/acl"),
        &admin,
        "sharing=app&owner=nobody&perms.read=*&perms.write=*",
    );
    assert_eq!(status(&opened), "200", "{opened}");
    assert_eq!(status(&ask(&place, "POST", &of("eva"), &eva, "{\"_key\": \"k\", \"n\": 1}")), "201");
    assert_eq!(body(&ask(&place, "GET", &of("eva"), &eva, "")), json!([{"_key": "k", "_user": "eva", "n": 1}]));
    let shared = body(&ask(&place, "GET", &format!("{}?shared=true&sort=n", of("eva")), &eva, ""));
    assert_eq!((shared.as_array().unwrap().len(), &shared[0]["_user"]), (2, &json!("nobody")));
    for (method, given) in [("GET", ""), ("POST", "{}"), ("DELETE", "")] {
        assert_eq!(status(&ask(&place, method, &of("eva"), &tom, given)), "403", "{method}");
    }
    assert_eq!(status(&ask(&place, "DELETE", &of("eva"), &eva, "")), "200");
    assert_eq!(body(&ask(&place, "GET", DATA, &tom, ""))[0]["n"], 0, "shared documents still exist");
    let closed = ask(
        &place,
        "POST",
        &format!("{CONFIG}/people/acl"),
        &admin,
        "sharing=app&owner=nobody&perms.read=admin&perms.write=admin",
    );
    assert_eq!(status(&closed), "200", "{closed}");
    assert_eq!(status(&ask(&place, "GET", DATA, &tom, "")), "404");
    drop(server);
}

#[test]
fn acknowledged_documents_survive_a_killed_server() {
    let place = Place::new();
    let (mut server, mut admin) = with_collection(&place, &format!("&accelerated_fields.n={}", escaped("{\"n\": 1}")));
    let mut answered = BTreeSet::new();
    for round in 0..4 {
        let writer = |part: usize, place: &Place, admin: &str| {
            let mut mine = Vec::new();
            for n in 0.. {
                let name = format!("r{round}p{part}n{n}");
                // The server is killed between two writes or during one.
                let given = format!("{{\"_key\": \"{name}\", \"n\": {n}}}");
                let answer = std::panic::catch_unwind(|| ask(place, "POST", DATA, admin, &given));
                match answer {
                    Ok(answer) if status(&answer) == "201" => mine.push(name),
                    _ => break,
                }
            }
            mine
        };
        std::thread::scope(|scope| {
            let (place, admin) = (&place, admin.as_str());
            let writers: Vec<_> = (0..2).map(|part| scope.spawn(move || writer(part, place, admin))).collect();
            let path = place.data().join("kvstore/search/people.sqlite-wal");
            let length = || path.metadata().map_or(0, |facts| facts.len());
            let before = length();
            assert!(crate::support::wait_until(|| length().abs_diff(before) > 600_000));
            assert!(
                std::process::Command::new("kill").args(["-9", &server.pid().to_string()]).status().unwrap().success()
            );
            for writer in writers {
                answered.extend(writer.join().unwrap());
            }
        });
        drop(server);
        server = Server::start(&place);
        admin = key(&place, "admin");
        let kept = body(&ask(&place, "GET", &format!("{DATA}?fields=_key&sort=n"), &admin, ""));
        let kept: BTreeSet<String> =
            kept.as_array().unwrap().iter().map(|document| document["_key"].as_str().unwrap().to_owned()).collect();
        assert!(answered.is_subset(&kept), "lost {:?}", answered.difference(&kept).collect::<Vec<_>>());
    }
    assert!(answered.len() > 100, "{}", answered.len());
    drop(server);
}
