//! Nodes that share users and knowledge objects: an acknowledged change survives the loss of a machine and reaches the
//! other nodes.

use std::sync::atomic::{AtomicBool, Ordering};

use quarry_pgworld::PostgreSql;
use serde_json::Value;

use crate::objects::body;
use crate::permissions::{search, status, with_users};
use crate::server::{Server, ask};
use crate::support::{Place, wait_until};

const USERS: &str = "/services/authentication/users";
const MACROS: &str = "/services/admin/macros";

/// A data directory whose node belongs to the cluster `east`.
fn member(database: &PostgreSql, wait_seconds: u32) -> Place {
    let place = Place::new();
    join(&place, database, wait_seconds);
    place
}

fn join(place: &Place, database: &PostgreSql, wait_seconds: u32) {
    std::fs::create_dir_all(place.path("data/etc/system/local")).unwrap();
    let url = database.url();
    let text = format!("[catalog]\nurl = {url}\nwaitSeconds = {wait_seconds}\ncluster = east\n");
    place.write("data/etc/system/local/server.conf", text);
}

/// `Authorization` header of the account that runs the server.
fn owner(place: &Place) -> String {
    let run_file = std::fs::read_to_string(place.path("data/run/server.json")).unwrap();
    let run: Value = serde_json::from_str(&run_file).unwrap();
    format!("Bearer {}", run["token"].as_str().unwrap())
}

/// Logs in; returns the `Authorization` header; `None` if the node refuses.
fn login(place: &Place, user: &str, password: &str) -> Option<String> {
    let form = format!("username={user}&password={password}&output_mode=json");
    let answer = ask(place, "POST", "/services/auth/login", "", &form);
    answer.split("\"sessionKey\":\"").nth(1).map(|rest| format!("Splunk {}", rest.split('"').next().unwrap()))
}

fn good(place: &Place, method: &str, path: &str, authorization: &str, form: &str) -> String {
    let answer = ask(place, method, path, authorization, form);
    assert!(["200", "201"].contains(&status(&answer)), "{method} {path} {form}: {answer}");
    answer
}

/// Value of `m` in the first row of a search, or the HTTP status.
fn result(place: &Place, authorization: &str, text: &str) -> String {
    let answer = search(place, authorization, text);
    match status(&answer) {
        "200" => body(&answer)["results"][0]["m"].as_str().unwrap_or_default().to_owned(),
        other => other.to_owned(),
    }
}

#[test]
fn documents_of_collections_reach_the_other_nodes() {
    let database = PostgreSql::start();
    let (one, other) = (member(&database, 60), member(&database, 60));
    for place in [&one, &other] {
        let app = place.path("data/etc/apps/shop");
        std::fs::create_dir_all(app.join("default")).unwrap();
        std::fs::create_dir_all(app.join("metadata")).unwrap();
        place.write("data/etc/apps/shop/default/collections.conf", "[towns]\n");
        let lookup = "[towns]\nexternal_type = kvstore\ncollection = towns\nfields_list = _key, m\n";
        place.write("data/etc/apps/shop/default/transforms.conf", lookup);
        place.write("data/etc/apps/shop/metadata/default.meta", "[]\nexport = system\n");
    }
    let servers = [&one, &other].map(Server::start);
    let write = search(&one, &owner(&one), "| makeresults | eval m=1, _key=\"k\" | outputlookup towns");
    assert_eq!(status(&write), "200", "{write}");
    let read =
        |place: &Place| result(place, &owner(place), "| makeresults | eval _key=\"k\" | lookup towns _key OUTPUT m");
    assert_eq!(read(&one), "1", "a node sees its own write at once");
    assert!(wait_until(|| read(&other) == "1"));
    let path = "/servicesNS/nobody/shop/storage/collections/data/towns";
    // The other node writes after it has applied the changes of the first one.
    let post = |place: &Place, path: &str, document: &str| ask(place, "POST", path, &owner(place), document);
    let replaced = post(&other, &format!("{path}/k"), "{\"m\":\"2\"}");
    assert_eq!(status(&replaced), "200", "{replaced}");
    let exists = post(&one, path, "{\"_key\":\"k\",\"m\":\"3\"}");
    assert_eq!(status(&exists), "409", "{exists}");
    assert!(wait_until(|| read(&one) == "2"));
    // An answered write survives a kill of the node that answered it, and reaches a new node.
    let added = post(&one, path, "{\"_key\":\"l\",\"m\":\"4\"}");
    assert_eq!(status(&added), "201", "{added}");
    let [first, second] = servers;
    assert_eq!(first.stop("-KILL"), -1);
    drop(one);
    let all = |place: &Place| body(&good(place, "GET", path, &owner(place), "")).as_array().map(Vec::len);
    assert!(wait_until(|| all(&other) == Some(2)));
    second.stop("-TERM");
    let again = Server::start(&other);
    assert_eq!(all(&other), Some(2));
    drop(again);
}

#[test]
fn users_and_saved_searches_survive_the_loss_of_a_node() {
    let database = PostgreSql::start();
    let lost = member(&database, 60);
    let server = Server::start(&lost);
    good(&lost, "POST", USERS, &owner(&lost), "name=eva&password=her-own-secret&roles=power");
    let eva = login(&lost, "eva", "her-own-secret").unwrap();
    good(&lost, "POST", MACROS, &eva, "name=m&definition=%22of+eva%22");
    let saved = "name=mine&search=%7C+makeresults+%7C+eval+m%3D%60m%60+%7C+table+m";
    good(&lost, "POST", "/servicesNS/eva/search/saved/searches", &eva, saved);
    good(&lost, "POST", "/services/authorization/roles", &owner(&lost), "name=shop&capabilities=search");
    assert_eq!(server.stop("-KILL"), -1);
    drop(lost);
    let place = member(&database, 60);
    let _server = Server::start(&place);
    let eva = login(&place, "eva", "her-own-secret").expect("the user is known");
    assert_eq!(result(&place, &eva, "| savedsearch mine"), "of eva");
    assert!(login(&place, "eva", "another-secret").is_none());
    let roles = good(&place, "GET", "/services/authorization/roles/shop?output_mode=json", &owner(&place), "");
    assert_eq!(body(&roles)["entry"][0]["name"], "shop");
}

#[test]
fn changes_propagate_to_other_nodes() {
    let database = PostgreSql::start();
    let (a, b) = (member(&database, 60), member(&database, 60));
    let _first = Server::start(&a);
    // The key of tokens is not in the database.
    std::fs::create_dir_all(b.path("data/etc/auth")).unwrap();
    std::fs::copy(a.path("data/etc/auth/tokens.key"), b.path("data/etc/auth/tokens.key")).unwrap();
    let _second = Server::start(&b);
    good(&a, "POST", USERS, &owner(&a), "name=eva&password=her-own-secret&roles=power");
    assert!(wait_until(|| login(&b, "eva", "her-own-secret").is_some()));
    let there = login(&b, "eva", "her-own-secret").unwrap();
    let here = login(&a, "eva", "her-own-secret").unwrap();
    good(&a, "POST", MACROS, &here, "name=m&definition=%221%22");
    assert!(wait_until(|| result(&b, &there, "| makeresults | eval m=`m` | table m") == "1"));
    // Each node changes the objects that the other has created.
    good(&b, "POST", MACROS, &there, "name=n&definition=%222%22");
    good(&a, "POST", &format!("{MACROS}/m"), &here, "definition=%223%22");
    good(&b, "POST", &format!("{MACROS}/n"), &there, "definition=%224%22");
    let both = "| makeresults | eval m=`m`.`n` | table m";
    for (place, authorization) in [(&a, &here), (&b, &there)] {
        assert!(wait_until(|| result(place, authorization, both) == "34"));
    }
    assert_eq!(status(&search(&a, &here, "| makeresults | eval m=5 | table m | outputlookup things.csv")), "200");
    assert!(wait_until(|| result(&b, &there, "| inputlookup things.csv") == "5"));
    let made =
        good(&a, "POST", "/services/authorization/tokens?output_mode=json", &owner(&a), "name=eva&audience=test");
    let token = format!("Bearer {}", body(&made)["entry"][0]["content"]["token"].as_str().unwrap());
    assert!(wait_until(|| result(&b, &token, both) == "34"));
    // A removed user is refused by all nodes, and a new password applies on all nodes.
    good(&a, "POST", &format!("{USERS}/eva"), &owner(&a), "password=another-secret");
    assert!(wait_until(|| status(&search(&b, &there, both)) == "401"));
    assert!(login(&b, "eva", "another-secret").is_some());
    good(&b, "DELETE", &format!("{USERS}/eva"), &owner(&b), "");
    assert!(wait_until(|| login(&a, "eva", "another-secret").is_none()));
}

#[test]
fn without_the_database_users_log_in_and_search_and_changes_are_refused_in_time() {
    let mut database = PostgreSql::start();
    let place = member(&database, 1);
    let _server = Server::start(&place);
    good(&place, "POST", USERS, &owner(&place), "name=eva&password=her-own-secret&roles=power");
    let eva = login(&place, "eva", "her-own-secret").unwrap();
    good(&place, "POST", MACROS, &eva, "name=m&definition=%221%22");
    database.kill();
    let eva = login(&place, "eva", "her-own-secret").expect("logins need no database");
    assert_eq!(result(&place, &eva, "| makeresults | eval m=`m` | table m"), "1");
    let refused = ask(&place, "POST", &format!("{MACROS}/m"), &eva, "definition=%222%22");
    assert!(status(&refused) == "503" && refused.contains("unreachable for"), "{refused}");
    let refused = ask(&place, "DELETE", &format!("{USERS}/eva"), &owner(&place), "");
    assert_eq!(status(&refused), "503", "{refused}");
    database.restart();
    assert!(wait_until(|| status(&ask(&place, "POST", &format!("{MACROS}/m"), &eva, "definition=%222%22")) == "200"));
    assert_eq!(result(&place, &eva, "| makeresults | eval m=`m` | table m"), "2");
}

#[test]
fn acknowledged_changes_survive_a_kill_on_all_nodes() {
    const ROUNDS: usize = 4;
    let database = PostgreSql::start();
    let place = member(&database, 60);
    with_users(&place, &[("admin", &["admin"]), ("eva", &["power"])]);
    let mut answered: Vec<usize> = Vec::new();
    for round in 0..ROUNDS {
        let server = Server::start(&place);
        let eva = login(&place, "eva", "secret").unwrap();
        let is_over = AtomicBool::new(false);
        let made = std::thread::scope(|scope| {
            let making = scope.spawn(|| {
                let mut made = Vec::new();
                for number in (round..).step_by(ROUNDS) {
                    let form = format!("name=m{number}&definition={number}");
                    let answer = std::panic::catch_unwind(|| ask(&place, "POST", MACROS, &eva, &form));
                    match answer {
                        Ok(answer) if status(&answer) == "201" => made.push(number),
                        _ if is_over.load(Ordering::Relaxed) => return made,
                        other => panic!("{number}: {other:?}"),
                    }
                }
                made
            });
            let log = place.path("data/etc/users/eva/search/local/macros.conf");
            let begun = format!("[m{}]", round + (7 + 5 * round) * ROUNDS);
            assert!(wait_until(|| std::fs::read_to_string(&log).is_ok_and(|text| text.contains(&begun))));
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(server.stop("-KILL"), -1);
            making.join().unwrap()
        });
        answered.extend(made);
        let other = member(&database, 60);
        let _other = Server::start(&other);
        let eva = login(&other, "eva", "secret").unwrap();
        let listed = good(&other, "GET", &format!("{MACROS}?count=0&output_mode=json"), &eva, "");
        let listed: Vec<String> = body(&listed)["entry"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["name"].as_str().unwrap().to_owned())
            .collect();
        for number in &answered {
            assert!(listed.contains(&format!("m{number}")), "m{number} was answered and is lost");
        }
    }
    assert!(answered.len() > ROUNDS * 7, "{} macros", answered.len());
}

#[test]
fn migrations_include_users_and_objects() {
    let database = PostgreSql::start();
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["power"])]);
    let server = Server::start(&place);
    let eva = login(&place, "eva", "secret").unwrap();
    good(&place, "POST", MACROS, &eva, "name=m&definition=%221%22");
    assert_eq!(server.stop("-TERM"), 0);
    join(&place, &database, 60);
    place.run(&["catalog", "migrate", "postgresql"]).expect_success();
    let other = member(&database, 60);
    let server = Server::start(&other);
    let eva = login(&other, "eva", "secret").expect("the users were migrated");
    assert_eq!(result(&other, &eva, "| makeresults | eval m=`m` | table m"), "1");
    good(&other, "POST", &format!("{MACROS}/m"), &eva, "definition=%222%22");
    assert_eq!(server.stop("-TERM"), 0);
    place.run(&["catalog", "migrate", "sqlite"]).expect_success();
    place.write("data/etc/system/local/server.conf", "");
    let _server = Server::start(&place);
    let eva = login(&place, "eva", "secret").unwrap();
    assert_eq!(result(&place, &eva, "| makeresults | eval m=`m` | table m"), "2");
}

#[test]
fn an_invalid_cluster_name_is_reported() {
    let database = PostgreSql::start();
    let place = member(&database, 60);
    let url = database.url();
    place.write("data/etc/system/local/server.conf", format!("[catalog]\nurl = {url}\ncluster = My Cluster\n"));
    let refused = place.run(&["serve", "--mgmt", "127.0.0.1:0"]);
    assert!(
        refused.code != 0 && refused.err.contains("[catalog] cluster = My Cluster: use 1 to 40"),
        "{}",
        refused.err
    );
}
