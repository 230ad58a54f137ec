//! Users and their roles: access to endpoints, commands, indexes and results of others; file permissions of the data
//! directory.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use quarry_api::{Access, ENDPOINTS};
use quarry_auth::{UserRecord, format_users, hash_password};
use quarry_conf::Roles;

use crate::server::{Server, ask};
use crate::support::Place;

/// A data directory whose users have these roles; the password of each is `secret`.
pub(crate) fn with_users(place: &Place, users: &[(&str, &[&str])]) {
    let record = |(name, roles): &(&str, &[&str])| UserRecord {
        name: (*name).to_owned(),
        password_hash: hash_password("secret", &[7; 16]).unwrap(),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
    };
    std::fs::create_dir_all(place.data().join("etc")).unwrap();
    let records: Vec<UserRecord> = users.iter().map(record).collect();
    std::fs::write(place.data().join("etc/passwd"), format_users(&records)).unwrap();
}

/// The authorization header of a logged-in user.
pub(crate) fn key(place: &Place, user: &str) -> String {
    let form = format!("username={user}&password=secret&output_mode=json");
    let login = ask(place, "POST", "/services/auth/login", "", &form);
    format!("Splunk {}", login.split("\"sessionKey\":\"").nth(1).expect(&login).split('"').next().unwrap())
}

pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

/// Runs a search; returns status, headers and body of the answer.
pub(crate) fn search(place: &Place, key: &str, text: &str) -> String {
    let text: String = form_urlencoded::byte_serialize(text.as_bytes()).collect();
    ask(
        place,
        "POST",
        "/services/search/jobs",
        key,
        &format!("search={text}&implied_search=1&exec_mode=oneshot&output_mode=json&count=0"),
    )
}

/// Replaces the placeholders in a path of the table of endpoints.
fn filled(path: &str) -> String {
    [
        ("{name}", "web"),
        ("{action}", "enable"),
        ("{sid}", "1.1"),
        ("{collection}", "web"),
        ("{file}", "conf-macros"),
        ("{key}", "x"),
    ]
    .into_iter()
    .fold(path.to_owned(), |path, (name, text)| path.replace(name, text))
}

#[test]
fn endpoints_require_the_access_in_the_table() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("norole", &[]), ("eva", &["user"]), ("deleter", &["can_delete"])]);
    let server = Server::start(&place);
    let (admin, norole, eva, deleter) =
        (key(&place, "admin"), key(&place, "norole"), key(&place, "eva"), key(&place, "deleter"));
    for row in ENDPOINTS.iter() {
        let Access::Capability(capability) = row.access else { continue };
        let is_object = ["/search/macros", "/search/eventtypes"].iter().any(|path| row.path.contains(path));
        let roots = match row.path.contains("/search/") && !is_object || row.path.contains("inputs/http") {
            true => vec!["/services", "/servicesNS/nobody/search", "/servicesNS/-/-"],
            false => vec!["/services"],
        };
        for root in roots {
            let path = filled(&row.path.replacen("/services", root, 1));
            let path = format!(
                "{path}?output_mode=json{}",
                if row.method == "GET" { "&search=search&prefix=x&q=x" } else { "" }
            );
            let asked = |key: &str| ask(&place, row.method.as_str(), &path, key, "search=x&name=x");
            for key in [&norole, &deleter] {
                let answer = asked(key);
                assert_eq!(status(&answer), "403", "{} {path}: {answer}", row.method);
                assert!(
                    answer.contains("{\"messages\":[{\"type\":") && answer.contains(capability),
                    "{path}: {answer}"
                );
            }
            assert_eq!(status(&asked("")), "401", "{} {path}", row.method);
            let of_eva = asked(&eva);
            let is_of_users = Roles::built_in().get("user").is_some_and(|role| role.capabilities.contains(capability));
            assert_eq!(status(&of_eva) == "403", !is_of_users, "{} {path}: {of_eva}", row.method);
            // Not sent, because it would restart the server to which the next request goes.
            if row.path.ends_with("/control/restart") {
                continue;
            }
            let of_admin = asked(&admin);
            assert!(!["401", "403", "405"].contains(&status(&of_admin)), "{} {path}: {of_admin}", row.method);
        }
    }
    for (method, path, expected) in [
        ("GET", "/services/auth/login", "405"),
        ("DELETE", "/services/search/jobs", "400"),
        ("DELETE", "/servicesNS/nobody/search/saved/searches", "400"),
        ("PUT", "/services/quarry/buckets", "405"),
    ] {
        let answer = ask(&place, method, path, &admin, "");
        assert_eq!(status(&answer), expected, "{method} {path}");
        assert!(expected != "405" || answer.contains("allow: "), "{answer}");
    }
    assert_eq!(status(&ask(&place, "GET", "/services/nothing", &admin, "")), "404");
    drop(server);
}

/// Tests every endpoint, with parameters in the URL and in the body, even parameters that the endpoint does not use.
#[test]
fn values_of_another_type_are_refused_by_every_endpoint() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"])]);
    let server = Server::start(&place);
    let admin = key(&place, "admin");
    for row in ENDPOINTS.iter().filter(|row| row.access != Access::Open) {
        let path = filled(&row.path);
        for wrong in [
            "max_count=abc",
            "count=-2",
            "offset=x",
            "preview=perhaps",
            "earliest_time=someday",
            "zone=Mars",
            "exec_mode=x",
        ] {
            let answer = ask(
                &place,
                row.method.as_str(),
                &format!("{path}?output_mode=json&{wrong}"),
                &admin,
                "search=x&name=x",
            );
            assert!(answer.starts_with("HTTP/1.1 400"), "{} {path} {wrong}: {answer}", row.method);
            // Splunk's text about a bound of the time range does not show the value.
            let text = if wrong == "earliest_time=someday" { "Invalid earliest_time." } else { wrong };
            let told =
                ["FATAL", "ERROR"].map(|kind| format!("{{\"messages\":[{{\"type\":\"{kind}\",\"text\":\"{text}"));
            assert!(told.iter().any(|told| answer.contains(told)), "{answer}");
        }
    }
    for path in ["/services/search/jobs", "/services/search/jobs/export", "/services/data/inputs/oneshot"] {
        let answer = ask(&place, "POST", path, &admin, "search=x&name=x&exec_mode=oneshot&max_count=abc");
        assert!(
            answer.starts_with("HTTP/1.1 400") && answer.contains("max_count=abc: give a whole number"),
            "{answer}"
        );
    }
    // Unknown roles are refused over REST and by the command line, which calls the server or writes the file itself.
    let unknown = "there is no role \\\"nosuch\\\"; existing: user, power, admin, can_delete";
    let users = "/services/authentication/users";
    let json = "output_mode=json";
    let made = ask(&place, "POST", &format!("{users}?{json}"), &admin, "name=bob&password=longenough&roles=nosuch");
    assert!(made.starts_with("HTTP/1.1 400") && made.contains(unknown), "{made}");
    let edited = ask(&place, "POST", &format!("{users}/admin?{json}"), &admin, "roles=admin,nosuch");
    assert!(edited.starts_with("HTTP/1.1 400") && edited.contains(unknown), "{edited}");
    let refused = |place: &Place| {
        let ran = place.run(&["user", "add", "bob", "--role", "nosuch"]);
        assert!(ran.code == 2 && ran.err.contains("existing: user, power, admin, can_delete"), "{ran:?}");
    };
    refused(&place);
    drop(server);
    refused(&place);
}

#[test]
fn roles_limit_what_searches_may_do() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["user"]), ("tom", &["power"]), ("norole", &[])]);
    let server = Server::start(&place);
    let (admin, eva, tom, norole) =
        (key(&place, "admin"), key(&place, "eva"), key(&place, "tom"), key(&place, "norole"));
    let refused = search(&place, &norole, "| makeresults");
    assert!(status(&refused) == "403" && refused.contains("(user=norole)") && refused.contains("search"), "{refused}");

    // Internal indexes are written and read by administrators only.
    let collect = "| makeresults | eval _raw=\"by somebody\" | collect index=_audit";
    for key in [&eva, &tom] {
        let refused = search(&place, key, collect);
        assert!(status(&refused) == "403" && refused.contains("indexes_edit"), "{refused}");
    }
    assert_eq!(status(&search(&place, &admin, collect)), "200");
    let count = "index=_audit \"by somebody\" | stats count";
    let counted = |key: &str| search(&place, key, count).contains("{\"count\":\"1\"}");
    assert_eq!([&admin, &eva, &tom].map(|key| counted(key)), [true, false, false]);

    // The results of others are invisible.
    let ran = search(&place, &eva, "| makeresults | eval whose=\"eva\" | table whose");
    let sid = ran.split("x-quarry-sid: ").nth(1).expect(&ran).split("\r\n").next().unwrap().to_owned();
    let load = format!("| loadjob {sid}");
    assert!(search(&place, &eva, &load).contains("{\"whose\":\"eva\"}"));
    assert!(search(&place, &admin, &load).contains("{\"whose\":\"eva\"}"));
    let (other, missing) = (search(&place, &tom, &load), search(&place, &tom, "| loadjob 1.1"));
    assert_eq!((status(&other), status(&missing)), ("400", "400"));
    let text_of = |answer: &str| {
        let body = answer.split("\r\n\r\n").nth(1).unwrap();
        body.split("\",\"start\"").next().unwrap().replace(&sid, "1.1")
    };
    assert_eq!(text_of(&other), text_of(&missing), "as if it did not exist");
    let history = "| history | search search=\"*whose*makeresults*\" OR search=\"*makeresults*whose*\" | stats count";
    assert!(search(&place, &eva, history).contains("{\"count\":\"1\"}"));
    assert!(search(&place, &tom, history).contains("{\"count\":\"0\"}"));
    drop(server);
}

/// Access to lookup files, results files, collections and models is checked in the search itself, in its subsearches
/// and in searches that it runs from a text.
#[test]
fn shared_objects_are_changed_by_permitted_users() {
    let place = Place::new();
    with_users(
        &place,
        &[("admin", &["admin"]), ("tom", &["power"]), ("eva", &["user"]), ("ann", &["user"]), ("bob", &["user"])],
    );
    let write = |path: &str, text: &str| {
        let path = place.data().join("etc/apps/search").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "default/transforms.conf",
        "[people]\nexternal_type = kvstore\ncollection = people\nfields_list = _key, who\n[named]\nfilename = shared.csv\n",
    );
    write("default/collections.conf", "[people]\n");
    write(
        "metadata/local.meta",
        "[lookups/anns.csv]\nowner = ann\n[lookups/open.csv]\naccess = read : [ * ], write : [ * ]\n",
    );
    let server = Server::start(&place);
    let keys = ["admin", "tom", "eva", "ann", "bob"].map(|user| key(&place, user));
    let [admin, tom, eva, ann, bob] = &keys;
    let rows = |who: &str| format!("| makeresults | eval who=\"{who}\", x=1 | table who x");
    let did = |key: &str, text: &str| {
        let answer = search(&place, key, text);
        assert!(status(&answer) == "200", "{text}: {answer}");
        answer
    };
    for table in ["shared.csv", "people", "anns.csv", "open.csv"] {
        did(admin, &format!("{} | outputlookup {table}", rows("admin")));
    }
    did(admin, &format!("{} | outputcsv report", rows("admin")));
    did(admin, &format!("{} | fit StandardScaler x into app:scales", rows("admin")));
    for writer in [
        "outputlookup shared.csv",
        "outputlookup append=t shared.csv",
        "outputlookup key_field=who shared.csv",
        "outputlookup named",
        "outputlookup people",
        "outputlookup append=t people",
        "outputlookup anns.csv",
        "outputcsv report",
        "outputcsv append=t report",
        "fit StandardScaler x into app:scales",
    ] {
        let texts = [
            format!("{} | {writer}", rows("eva")),
            format!("{} | append [{} | {writer}]", rows("eva"), rows("eva")),
            format!("{} | appendpipe [{writer}]", rows("eva")),
            format!("{} | map search=\"| makeresults | eval who=1, x=1 | {writer}\"", rows("eva")),
        ];
        for text in texts.iter().take(if writer.starts_with("fit") { 1 } else { 4 }) {
            let refused = search(&place, eva, text);
            assert!(status(&refused) == "403" && refused.contains("user eva may not change it"), "{text}: {refused}");
        }
    }
    let refused = search(&place, eva, "| deletemodel app:scales");
    assert!(status(&refused) == "403" && refused.contains("may not change it"), "{refused}");
    let who = |key: &str, table: &str| {
        let answer = did(key, &format!("| inputlookup {table} | stats values(who) AS who"));
        answer.split("\"who\":\"").nth(1).map(|rest| rest.split('"').next().unwrap().to_owned()).unwrap_or_default()
    };
    for table in ["shared.csv", "people", "anns.csv", "results.report.csv"] {
        assert_eq!(who(eva, table), "admin", "{table}");
    }
    // Writing is allowed for users who have the role or own the file, and for everyone if the permissions say so.
    did(tom, &format!("{} | outputlookup shared.csv", rows("tom")));
    did(tom, &format!("{} | outputlookup people", rows("tom")));
    did(ann, &format!("{} | outputlookup anns.csv", rows("ann")));
    did(eva, &format!("{} | outputlookup open.csv", rows("eva")));
    assert_eq!(
        ["shared.csv", "people", "anns.csv", "open.csv"].map(|table| who(bob, table)),
        ["tom", "tom", "ann", "eva"]
    );
    // New files of other users are private, and take precedence over those of the app.
    for (key, name) in [(eva, "eva"), (bob, "bob")] {
        did(key, &format!("{} | outputlookup new.csv", rows(name)));
        did(key, &format!("{} | outputlookup append=t new.csv", rows(name)));
        did(key, &format!("{} | outputcsv mine", rows(name)));
        did(key, &format!("{} | fit StandardScaler x into scales", rows(name)));
        assert_eq!([who(key, "new.csv"), who(key, "results.mine.csv")], [name, name]);
        assert!(place.data().join(format!("etc/users/{name}/search/lookups/new.csv")).is_file());
        assert!(!place.data().join("etc/apps/search/lookups/new.csv").exists());
    }
    assert!(search(&place, tom, "| inputlookup new.csv").contains("new.csv"), "nobody else sees them");
    did(eva, "| deletemodel scales");
    assert!(place.data().join("etc/users/bob/search/lookups/__mlspl_scales.mlmodel").is_file());
    assert!(place.data().join("etc/apps/search/lookups/__mlspl_scales.mlmodel").is_file());
    let mut found = Vec::new();
    open_to_others(&place.data().join("etc/users"), false, &mut found);
    assert!(found.is_empty(), "{found:?}");
    // A namespace does not circumvent the permissions.
    for root in ["/servicesNS/nobody/search", "/servicesNS/eva/search", "/servicesNS/-/-", "/servicesNS/nobody/system"]
    {
        let text: String =
            form_urlencoded::byte_serialize(format!("{} | outputlookup shared.csv", rows("eva")).as_bytes()).collect();
        let answer =
            ask(&place, "POST", &format!("{root}/search/jobs"), eva, &format!("search={text}&exec_mode=oneshot"));
        let is_own = root.ends_with("/system");
        assert_eq!(status(&answer), if is_own { "200" } else { "403" }, "{root}: {answer}");
    }
    assert_eq!(who(bob, "shared.csv"), "tom");
    drop(server);
}

#[test]
fn new_tables_are_written_by_context_with_permission() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["user"])]);
    let server = Server::start(&place);
    let (admin, eva) = (key(&place, "admin"), key(&place, "eva"));
    let write = |key: &str, options: &str, table: &str| {
        search(&place, key, &format!("| makeresults | eval x=1 | table x | outputlookup {options} {table}.csv"))
    };
    let places = |user: &str, table: &str| {
        let etc = place.data().join("etc");
        let folders = ["apps/search".to_owned(), format!("users/{user}/search"), "system".to_owned()];
        folders.map(|folder| etc.join(folder).join("lookups").join(format!("{table}.csv")).is_file())
    };
    let (app, own, system) = ([true, false, false], [false, true, false], [false, false, true]);
    for (at, (options, of_admin, of_eva)) in [
        ("", app, Some(own)),
        ("create_context=app", app, None),
        ("create_context=User", own, Some(own)),
        ("create_context=system", system, None),
        ("createinapp=t", app, None),
        ("createinapp=f", system, None),
        ("createinapp=f create_context=user", own, Some(own)),
        ("create_context=app createinapp=f", app, None),
    ]
    .into_iter()
    .enumerate()
    {
        let (admins, evas) = (format!("a{at}"), format!("e{at}"));
        assert_eq!(status(&write(&admin, options, &admins)), "200", "{options}");
        assert_eq!(places("admin", &admins), of_admin, "{options}");
        let answer = write(&eva, options, &evas);
        assert_eq!(status(&answer), if of_eva.is_some() { "200" } else { "403" }, "{options}: {answer}");
        assert_eq!(places("eva", &evas), of_eva.unwrap_or_default(), "{options}");
        let inner = format!("| makeresults | appendpipe [outputlookup {options} m{at}.csv]");
        assert_eq!(status(&search(&place, &eva, &inner)), status(&answer), "{inner}");
    }
    // An existing file is overwritten where it is.
    assert_eq!(status(&write(&admin, "create_context=user", "a1")), "200");
    assert_eq!(places("admin", "a1"), app);
    let wrong = write(&admin, "create_context=ap", "b");
    assert!(status(&wrong) == "400" && wrong.contains("app, user or system"), "{wrong}");
    drop(server);
}

#[test]
fn suggestions_come_only_from_searchable_indexes() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["user"])]);
    let server = Server::start(&place);
    let (admin, eva) = (key(&place, "admin"), key(&place, "eva"));
    let collect = "| makeresults | eval _raw=\"zebrafish seen\" | collect index=_audit";
    assert_eq!(status(&search(&place, &admin, collect)), "200");
    for scope in [" index=_audit", " index=_*"] {
        let suggest = format!("| typeahead prefix=zebra{scope} | table content");
        let seen = |key: &str| search(&place, key, &suggest).contains("zebrafish");
        assert_eq!([&admin, &eva].map(|key| seen(key)), [true, false], "{scope}");
    }
    drop(server);
}

#[test]
fn texts_that_become_names_of_files_are_checked_before_a_search_runs() {
    let place = Place::new();
    let log = place.write("a.log", crate::support::lines(0..20));
    place.run(&["add", "oneshot", &log]).expect_success();
    let long = "x".repeat(300);
    let names = ["../../up.csv", "a/b.csv", "a\\b.csv", ".hidden.csv", &format!("{long}.csv"), "tab\t.csv"];
    for name in names {
        for command in
            ["outputlookup", "outputlookup append=t", "outputcsv", "inputlookup append=t", "inputcsv append=t"]
        {
            let quoted = name.replace('\\', "\\\\");
            let ran = place.run(&["search", &format!("* | {command} \"{quoted}\"")]);
            // Results files have a prefix, so their names never begin with a dot.
            if name == ".hidden.csv" && command.contains("csv") {
                continue;
            }
            assert!(ran.code == 3 && ran.err.contains("cannot be the name of a file"), "{command} {name}: {ran:?}");
            assert!(!ran.err.contains(&long), "{command} {name}: {ran:?}");
        }
    }
    let ran = place.run(&["search", "* | outputlookup nocsv"]);
    assert!(ran.code == 3 && ran.err.contains("the name of a lookup file ends in .csv"), "{ran:?}");
    assert!(place.data().join("../up.csv").symlink_metadata().is_err() && !place.data().join("up.csv").exists());
    place.run(&["search", "* | outputlookup fine.csv"]).expect_success();
}

/// Files and directories below `folder` that users other than the owner can access, except `etc`.
fn open_to_others(folder: &Path, is_top: bool, found: &mut Vec<String>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.push(folder.to_owned());
    for path in entries {
        let Ok(about) = path.symlink_metadata() else { continue };
        if about.permissions().mode() & 0o077 != 0 {
            found.push(format!("{} {:o}", path.display(), about.permissions().mode() & 0o777));
        }
        if about.is_dir() && path != folder && !(is_top && path.ends_with("etc")) {
            open_to_others(&path, false, found);
        }
    }
}

#[test]
fn other_accounts_cannot_read_a_data_directory() {
    let place = Place::new();
    let log = place.write("a.log", crate::support::lines(0..2_000));
    let closed = |when: &str| {
        let mut found = Vec::new();
        open_to_others(&place.data(), true, &mut found);
        assert!(found.is_empty(), "{when}: {found:#?}");
    };
    place.run(&["add", "oneshot", &log]).expect_success();
    closed("after add");
    place.run(&["search", "* | stats count | outputlookup codes.csv", "-o", "csv"]).expect_success();
    place.run(&["search", "| makeresults | outputcsv rows"]).expect_success();
    place.run(&["search", "| makeresults | eval x=1 | fit StandardScaler x into scales"]).expect_success();
    closed("after searches");
    let server = Server::start(&place);
    place.run(&["search", "* | head 2 | collect index=summary"]).expect_success();
    place.run(&["search", "* | outputlookup more.csv"]).expect_success();
    place.run(&["search", "* | sort 0 - _raw | stats count by _raw | outputcsv rows"]).expect_success();
    closed("while it serves");
    place.run(&["bucket", "compact"]).expect_success();
    closed("after merging");
    assert_eq!(server.stop("-TERM"), 0);
    closed("after serving");
    // The mode of an existing directory is restricted when it is opened for writing; files that the owner wrote below
    // `etc` keep their mode.
    let open = |path: PathBuf, mode: u32| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let own = place.data().join("etc/system/local");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("props.conf"), "[a]\n").unwrap();
    open(own.join("props.conf"), 0o644);
    let catalog = std::fs::read_dir(place.data()).unwrap().map(|entry| entry.unwrap().path());
    catalog.filter(|path| path.is_file()).for_each(|path| open(path, 0o644));
    open(place.data(), 0o755);
    let more = place.write("b.log", crate::support::lines(2_000..2_100));
    place.run(&["add", "oneshot", &more]).expect_success();
    closed("after adding to an existing folder");
    assert_eq!(own.join("props.conf").metadata().unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn csv_can_be_safe_to_open_in_a_spreadsheet() {
    let place = Place::new();
    let rows = "| makeresults | eval a=\"=cmd()\", b=\"-5\", c=\"@x, y\" | table a b c";
    assert_eq!(place.run(&["search", rows, "-o", "csv"]).expect_success(), "a,b,c\n=cmd(),-5,\"@x, y\"\n");
    let safe = "a,b,c\n'=cmd(),-5,\"'@x, y\"\n";
    assert_eq!(place.run(&["search", rows, "-o", "csv", "--csv-safe"]).expect_success(), safe);
    assert_eq!(place.run(&["search", rows, "-o", "csv-safe"]).expect_success(), safe);
    let log = place.write("a.log", crate::support::lines(0..1));
    place.run(&["add", "oneshot", &log]).expect_success();
    let server = Server::start(&place);
    assert_eq!(place.run(&["search", rows, "-o", "csv", "--csv-safe"]).expect_success(), safe);
    let admin = {
        let login =
            ask(&place, "POST", "/services/auth/login", "", "username=admin&password=changeme&output_mode=json");
        format!("Splunk {}", login.split("\"sessionKey\":\"").nth(1).expect(&login).split('"').next().unwrap())
    };
    let text: String = form_urlencoded::byte_serialize(rows.as_bytes()).collect();
    for (path, more) in [("search/jobs", "&exec_mode=oneshot"), ("search/jobs/export", "")] {
        let asked = |csv_safe: &str| {
            let form = format!("search={text}&output_mode=csv{more}{csv_safe}");
            ask(&place, "POST", &format!("/services/{path}"), &admin, &form)
        };
        assert!(asked("&csv_safe=1").contains("'=cmd(),-5,\"'@x, y\""), "{path}");
        assert!(asked("").contains("\n=cmd(),-5,\"@x, y\""), "{path}");
        assert_eq!(status(&asked("&csv_safe=perhaps")), "400");
    }
    place.run(&["search", &format!("{rows} | outputcsv csv_safe=t sheet")]).expect_success();
    assert_eq!(place.run(&["search", "| inputcsv sheet | table a b c", "-o", "csv"]).expect_success(), safe);
    drop(server);
}
