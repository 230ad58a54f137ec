//! Every link that the management port returns works: from `/services` down, through directories, collections and
//! entities.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::objects::body;
use crate::permissions::{key, status, with_users};
use crate::server::{Server, ask};
use crate::support::Place;

/// Maximum path depth at which all links are followed; below it, only the links of the first few entities are followed.
const WHOLE_PARTS: usize = 4;
/// Number of entities followed below that depth.
const ENTITIES: usize = 3;

#[test]
fn every_link_resolves() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["power"])]);
    let server = Server::start(&place);
    let admin = key(&place, "admin");
    for (path, form) in [
        ("saved/searches", "name=s&search=%7C+makeresults"),
        ("saved/eventtypes", "name=e&search=x"),
        ("admin/macros", "name=m&definition=1"),
        ("storage/passwords", "name=p&password=secret"),
        ("storage/collections/config", "name=c"),
        ("data/ui/views", "name=v&eai%3Adata=%3Cdashboard%2F%3E"),
        ("data/lookup-table-files", "name=l.csv&eai%3Adata=a%0A1%0A"),
        ("data/inputs/http", "name=t"),
        ("data/inputs/monitor", "name=%2Ftmp%2Fnothing.log"),
        ("apps/local", "name=shop"),
        ("messages", "name=note&value=x"),
        ("search/jobs", "search=%7C+makeresults&exec_mode=blocking"),
    ] {
        let made = ask(&place, "POST", &format!("/services/{path}"), &admin, &format!("{form}&output_mode=json"));
        assert!(["200", "201"].contains(&status(&made)), "{path}: {made}");
    }
    let mut dead = Vec::new();
    let mut open = vec!["/services".to_owned()];
    let mut seen: BTreeSet<String> = open.iter().cloned().collect();
    while let Some(path) = open.pop() {
        let answer = ask(&place, "GET", &format!("{path}?output_mode=json"), &admin, "");
        if ["404", "500"].contains(&status(&answer)) {
            dead.push(path.clone());
        }
        if status(&answer) != "200" || !answer.to_ascii_lowercase().contains("application/json") {
            continue;
        }
        // An answer that lists plain values has no links.
        if answer.split_once("\r\n\r\n").is_some_and(|(_, body)| body.starts_with('[')) {
            continue;
        }
        let found = body(&answer);
        let entries = found["entry"].as_array().cloned().unwrap_or_default();
        let followed = if path.matches('/').count() < WHOLE_PARTS { entries.len() } else { ENTITIES };
        for entry in entries.iter().take(followed) {
            let links = entry["links"].as_object().into_iter().flat_map(|links| links.values());
            let id = entry["id"].as_str().and_then(|id| Some(&id[id.find("/services")?..]));
            for link in links.filter_map(Value::as_str).chain(id) {
                if seen.insert(link.to_owned()) {
                    open.push(link.to_owned());
                }
            }
        }
    }
    assert!(dead.is_empty(), "links to nothing: {dead:#?}");
    for path in ["server/status/limits", "data/ui", "configs", "licenser", "authorization/roles/admin"] {
        assert!(seen.contains(&format!("/services/{path}")), "{path} is not reached");
    }
    assert!(seen.len() > 150, "{} paths are reached", seen.len());
    for nothing in ["configs/conf-nosuch", "properties/nosuch", "nosuch", "server/nosuch"] {
        let answer = ask(&place, "GET", &format!("/services/{nothing}"), &admin, "");
        assert_eq!(status(&answer), "404", "{nothing}: {answer}");
    }
    // Paths below `/servicesNS/USER/APP` are reached, too.
    let answer = ask(&place, "GET", "/servicesNS/eva/search/data?output_mode=json", &admin, "");
    assert_eq!(status(&answer), "200", "{answer}");
    drop(server);
}
