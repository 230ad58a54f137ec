//! Roles over REST and in authorize.conf: permissions and limits, which take effect with the next request.

use serde_json::Value;

use crate::objects::body;
use crate::permissions::{key, search, status, with_users};
use crate::server::{Server, ask};
use crate::support::Place;

const ROLES: &str = "/services/authorization/roles";

/// The count that a search returns.
fn count(place: &Place, key: &str, text: &str) -> String {
    let answer = search(place, key, text);
    match status(&answer) {
        "200" => body(&answer)["results"][0]["n"].as_str().unwrap_or_default().to_owned(),
        other => other.to_owned(),
    }
}

fn content(answer: &str) -> Value {
    body(answer)["entry"][0]["content"].take()
}

#[test]
fn roles_are_created_granted_changed_and_removed() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["user"]), ("tom", &["power"])]);
    let server = Server::start(&place);
    let [admin, eva, tom] = ["admin", "eva", "tom"].map(|user| key(&place, user));
    let role = |key: &str, form: &str| ask(&place, "POST", &format!("{ROLES}/team?output_mode=json"), key, form);
    for who in [&eva, &tom] {
        let refused = ask(&place, "POST", ROLES, who, "name=team&capabilities=admin_all_objects");
        assert!(status(&refused) == "403" && refused.contains("edit_roles"), "{refused}");
    }
    let made = ask(
        &place,
        "POST",
        &format!("{ROLES}?output_mode=json"),
        &admin,
        "name=Team&imported_roles=user&capabilities=edit_user&capabilities=rtsearch&srchJobsQuota=2&srchTimeWin=60",
    );
    assert_eq!(status(&made), "201", "{made}");
    let reported = content(&made);
    assert_eq!(reported["capabilities"], serde_json::json!(["edit_user", "rtsearch"]));
    assert_eq!(
        (&reported["imported_roles"][0], &reported["srchJobsQuota"], &reported["srchTimeWin"]),
        (&"user".into(), &2.into(), &60.into())
    );
    assert_eq!(body(&made)["entry"][0]["name"], "team");
    assert_eq!(status(&ask(&place, "POST", ROLES, &admin, "name=team")), "409");
    for wrong in [
        "imported_roles=nosuch",
        "imported_roles=team",
        "capabilities=fly",
        "srchTimeWin=-2",
        "srchJobsQuota=many",
        "srchFilter=host%3Da+%7C+head+1",
        "srchFilter=earliest%3D-1d",
        "srchIndexesAllowed=a%0Ab",
        "colour=red",
    ] {
        assert_eq!(status(&role(&admin, wrong)), "400", "{wrong}");
    }
    for name in ["a:b", "a%2Fb", "", "a+b"] {
        assert_eq!(status(&ask(&place, "POST", ROLES, &admin, &format!("name={name}"))), "400", "{name}");
    }
    // Users with the capability manage users; changes of a role apply to open sessions.
    let users = "/services/authentication/users";
    assert_eq!(status(&ask(&place, "GET", users, &eva, "")), "403");
    assert_eq!(status(&ask(&place, "POST", &format!("{users}/eva"), &admin, "roles=team")), "200");
    let eva = key(&place, "eva");
    assert_eq!(status(&ask(&place, "POST", users, &eva, "name=ann&password=long+enough&roles=user")), "201");
    assert_eq!(status(&role(&admin, "capabilities=rtsearch")), "200");
    assert_eq!(status(&ask(&place, "POST", users, &eva, "name=bob&password=long+enough&roles=user")), "403");
    let shown = ask(&place, "GET", "/services/authentication/current-context?output_mode=json", &eva, "");
    let held = content(&shown)["capabilities"].to_string();
    assert!(held.contains("rtsearch") && held.contains("\"search\"") && !held.contains("edit_user"), "{held}");
    // The administrators' role must keep the capabilities without which no user could restore it.
    let taken = ask(&place, "POST", &format!("{ROLES}/admin"), &admin, "capabilities=search");
    assert!(status(&taken) == "400" && taken.contains("keeps the capability"), "{taken}");
    assert_eq!(status(&ask(&place, "DELETE", &format!("{ROLES}/admin"), &admin, "")), "403");
    // The same change through the endpoint of authorize.conf.
    let conf = "/servicesNS/nobody/system/configs/conf-authorize/role_user";
    assert_eq!(status(&ask(&place, "POST", conf, &tom, "run_dump=disabled")), "403");
    assert_eq!(status(&ask(&place, "POST", conf, &admin, "search=disabled")), "200");
    assert_eq!(count(&place, &tom, "| makeresults | stats count AS n"), "403");
    assert_eq!(status(&ask(&place, "POST", conf, &admin, "search=enabled")), "200");
    assert_eq!(count(&place, &tom, "| makeresults | stats count AS n"), "1");
    drop(server);
    let server = Server::start(&place);
    let admin = key(&place, "admin");
    assert_eq!(content(&ask(&place, "GET", &format!("{ROLES}/TEAM?output_mode=json"), &admin, ""))["srchJobsQuota"], 2);
    assert_eq!(status(&ask(&place, "DELETE", &format!("{ROLES}/team"), &admin, "")), "200");
    assert_eq!(status(&ask(&place, "GET", &format!("{ROLES}/team"), &admin, "")), "404");
    let eva = key(&place, "eva");
    assert_eq!(count(&place, &eva, "| makeresults | stats count AS n"), "403", "a removed role grants nothing");
    drop(server);
}

#[test]
fn roles_restrict_the_events_of_their_users() {
    let place = Place::new();
    let role = "[role_web]\nsearch = enabled\nget_metadata = enabled\nrest_properties_get = enabled\nrest_properties_set = enabled\n\
                run_walklex = enabled\nget_typeahead = enabled\nlist_metrics_catalog = enabled\n\
                srchIndexesAllowed = *\nsrchIndexesDisallowed = secret*\nsrchIndexesDefault = main\n\
                srchFilter = host=web*\n[role_recent]\nimportRoles = user\nsrchTimeWin = 3600\n";
    std::fs::create_dir_all(place.data().join("etc/system/local")).unwrap();
    std::fs::write(place.data().join("etc/system/local/authorize.conf"), role).unwrap();
    std::fs::write(place.data().join("etc/system/local/indexes.conf"), "[secret1]\n[summary]\n").unwrap();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["web"]), ("tom", &["recent"])]);
    let add = |name: &str, text: &str, more: &[&str]| {
        let log = place.write(name, text);
        place.run(&[&["add", "oneshot", &log, "--sourcetype", "orders"], more].concat()).expect_success();
    };
    add("a.log", "2026-11-20T10:00:00Z kind:front a\n2026-11-20T10:59:00Z kind:front b\n", &["--host", "web1"]);
    add("b.log", "2026-11-20T10:00:01Z kind:back c\n2026-11-20T11:30:00Z kind:back d\n", &["--host", "db1"]);
    add("c.log", "2026-11-20T10:00:02Z kind:front e\n", &["--host", "web2", "--index", "secret1"]);
    let server = Server::start(&place);
    let [admin, eva, tom] = ["admin", "eva", "tom"].map(|user| key(&place, user));
    for (text, of_admin, of_eva) in [
        ("search index=main | stats count AS n", "4", "2"),
        ("search host=db1 OR index=* | stats count AS n", "5", "2"),
        ("search index=secret1 | stats count AS n", "1", "0"),
        ("search NOT host=web1 index=main | stats count AS n", "2", "0"),
        ("search index=main kind:back | stats count AS n", "2", "0"),
        ("| makeresults | append [search index=main] | stats count AS n", "5", "3"),
        ("| makeresults | map search=\"search index=main | stats count AS n\"", "4", "2"),
        ("| tstats count AS n where index=main", "4", "2"),
        ("| tstats count AS n where index=* by host | stats sum(n) AS n", "5", "2"),
        ("| metadata type=hosts index=main | stats count AS n", "2", "1"),
        ("| multisearch [search index=main] [search index=main host=db1] | stats count AS n", "6", "2"),
        ("search index=main | join host [search index=main] | stats count AS n", "4", "2"),
    ] {
        assert_eq!(
            (count(&place, &admin, text).as_str(), count(&place, &eva, text).as_str()),
            (of_admin, of_eva),
            "{text}"
        );
    }
    // A user's own definition of the field must not bypass the filter.
    let props = "/servicesNS/eva/search/configs/conf-props";
    let made = ask(&place, "POST", props, &eva, "name=orders&EVAL-host=%22web9%22&FIELDALIAS-x=sourcetype+AS+source");
    assert_eq!(status(&made), "201", "{made}");
    assert_eq!(count(&place, &eva, "search index=main | stats count AS n"), "2");
    let words = search(&place, &eva, "| walklex index=main type=term | search term=back OR term=d | stats count AS n");
    assert!(!words.contains("\"n\":\"1\"") && !words.contains("\"n\":\"2\""), "{words}");
    // The time window of the role ends at the end of the search's time range.
    let windowed = |latest: &str| {
        let text = format!("search index=main earliest=2026-11-20T00:00:00Z latest={latest} | stats count AS n");
        (count(&place, &admin, &text), count(&place, &tom, &text))
    };
    assert_eq!(windowed("2026-11-20T11:00:00Z"), ("3".to_owned(), "3".to_owned()));
    assert_eq!(windowed("2026-11-20T11:31:00Z"), ("4".to_owned(), "2".to_owned()));
    let parts = "search (earliest=2026-11-20T00:00:00Z latest=2026-11-20T10:30:00Z) OR (latest=2026-11-20T12:00:00Z) | stats count AS n";
    assert_eq!(count(&place, &tom, parts), "1");
    assert_eq!(
        count(
            &place,
            &tom,
            "| tstats count AS n where index=main earliest=2026-11-20T00:00:00Z latest=2026-11-20T11:31:00Z"
        ),
        "2"
    );
    assert_eq!(
        count(&place, &tom, "search index=main earliest=0 | stats count AS n"),
        "0",
        "the range ends now, and so does the window of the role"
    );
    drop(server);
}

#[test]
fn commands_cannot_bypass_search_filters() {
    let place = Place::new();
    let role = "[role_open]\nimportRoles = user\nrun_walklex = enabled\nsrchFilter = NOT level=secret\n";
    std::fs::create_dir_all(place.data().join("etc/system/local")).unwrap();
    std::fs::write(place.data().join("etc/system/local/authorize.conf"), role).unwrap();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["open"])]);
    let log = place.write("a.log", "2026-11-20T10:00:00Z level=secret a\n2026-11-20T10:59:00Z level=info b\n");
    place.run(&["add", "oneshot", &log]).expect_success();
    let server = Server::start(&place);
    let [admin, eva] = ["admin", "eva"].map(|user| key(&place, user));
    assert_eq!(count(&place, &eva, "search index=main | stats count AS n"), "1");
    for text in ["| tstats count AS n where index=main", "| walklex index=main type=term | stats count AS n"] {
        assert_ne!(count(&place, &admin, text), "403", "{text}");
        assert_eq!(count(&place, &eva, text), "403", "{text}");
    }
    drop(server);
}

#[test]
fn users_grant_only_permitted_roles() {
    let place = Place::new();
    let role = "[role_desk]\nimportRoles = user\nedit_user = enabled\ngrantableRoles = user\n\
                [role_auditor]\nlist_tokens_all = enabled\n";
    std::fs::create_dir_all(place.data().join("etc/system/local")).unwrap();
    std::fs::write(place.data().join("etc/system/local/authorize.conf"), role).unwrap();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["desk"]), ("tom", &["user"]), ("ann", &["auditor"])]);
    let server = Server::start(&place);
    let [eva, ann] = ["eva", "ann"].map(|user| key(&place, user));
    let users = "/services/authentication/users";
    for (path, form, expected) in [
        (users.to_owned(), "name=bob&password=long+enough&roles=user", "201"),
        (users.to_owned(), "name=bad&password=long+enough&roles=admin", "403"),
        (format!("{users}/tom"), "roles=user", "200"),
        (format!("{users}/tom"), "roles=user,power", "403"),
        (format!("{users}/admin"), "password=mine+is+longer", "403"),
        (format!("{users}/eva"), "roles=admin", "403"),
    ] {
        let answer = ask(&place, "POST", &path, &eva, form);
        assert_eq!(status(&answer), expected, "{path} {form}: {answer}");
    }
    let refused = ask(&place, "DELETE", &format!("{users}/admin"), &eva, "");
    assert!(status(&refused) == "403" && refused.contains("grantableRoles"), "{refused}");
    // A user who may list all tokens may also list their own.
    assert_eq!(status(&ask(&place, "GET", "/services/authorization/tokens", &ann, "")), "200");
    assert_eq!(status(&ask(&place, "POST", "/services/authorization/tokens", &ann, "name=ann&audience=x")), "403");
    drop(server);
}
