//! Apps and users: names are resolved in the namespace of the search, and unshared objects are invisible to others.

use quarry_auth::{UserRecord, format_users, hash_password};

use crate::server::{Server, ask};
use crate::support::Place;

const EVENTS: &str = "2026-11-20T00:00:01Z order a=1 b=2 code=7\n2026-11-20T00:00:02Z order a=3 b=4 code=8\n";

fn write(place: &Place, path: &str, text: &str) {
    let path = place.data().join("etc").join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Installs two apps whose objects have the same names, of which the second app shares some, and a user's private
/// objects.
fn install(place: &Place) {
    let log = place.write("shop.log", EVENTS);
    place.run(&["add", "oneshot", &log, "--sourcetype", "orders"]).expect_success();
    for (app, field, word) in [("shop", "a", "shop"), ("web", "b", "web")] {
        let props = format!("[orders]\nEXTRACT-n = {field}=(?<number>\\d+)\nLOOKUP-l = codes code OUTPUT meaning\n");
        write(place, &format!("apps/{app}/default/props.conf"), &props);
        write(place, &format!("apps/{app}/default/transforms.conf"), "[codes]\nfilename = codes.csv\n");
        write(place, &format!("apps/{app}/lookups/codes.csv"), &format!("code,meaning\n7,{word}\n"));
        let macros = format!("[who]\ndefinition = \"{word}\"\n[only_{app}]\ndefinition = \"{word}\"\n");
        write(place, &format!("apps/{app}/default/macros.conf"), &macros);
        let saved = format!("[Report]\nsearch = | makeresults | eval app=\"{word}\" | table app\n");
        write(place, &format!("apps/{app}/local/savedsearches.conf"), &saved);
        write(place, &format!("apps/{app}/default/eventtypes.conf"), &format!("[kind_{app}]\nsearch = order\n"));
    }
    write(place, "apps/web/lookups/hidden.csv", "x\nweb\n");
    write(place, "apps/web/metadata/default.meta", "[]\nexport = system\n[macros/who]\nexport = none\n");
    write(place, "apps/web/metadata/local.meta", "[lookups/hidden.csv]\nexport = none\n");
    write(place, "users/eva/shop/local/macros.conf", "[who]\ndefinition = \"eva\"\n");
    write(place, "users/eva/shop/lookups/codes.csv", "code,meaning\n7,eva\n");
}

const WHO: &str = "| makeresults | eval who=`who` | table who";
const FIELDS: &str = "order | sort number | table number meaning eventtype";

/// Checks the answers in every app and for every user.
fn check(place: &Place) {
    let csv = |place: &Place, more: &[&str], search: &str| {
        place.run(&[&["search", search, "-o", "csv"], more].concat()).expect_success()
    };
    let ask = |more: &[&str], search: &str| csv(place, more, search);
    let (shop, web) = (["--app", "shop"], ["--app", "web"]);
    let eva = ["--app", "shop", "--user", "eva"];
    assert_eq!(ask(&shop, WHO), "who\nshop\n");
    assert_eq!(ask(&web, WHO), "who\nweb\n");
    assert_eq!(ask(&eva, WHO), "who\neva\n");
    assert_eq!(ask(&["--app", "web", "--user", "eva"], WHO), "who\nweb\n");
    for all in [&[][..], &["--app", "-"], &["--app", "shop", "--user", "-"]] {
        assert_eq!(ask(all, WHO), "who\nshop\n", "the app that sorts first, and nothing of users");
    }
    // Shared event types of the other app apply in addition to the app's own; fields and tables come only from the app
    // itself.
    assert_eq!(
        ask(&shop, FIELDS),
        "number,meaning,eventtype\n1,shop,\"kind_shop\nkind_web\"\n3,,\"kind_shop\nkind_web\"\n"
    );
    assert_eq!(ask(&web, FIELDS), "number,meaning,eventtype\n2,web,kind_web\n4,,kind_web\n");
    assert!(ask(&eva, FIELDS).contains("1,eva,"));
    let report = "| savedsearch Report";
    assert_eq!((ask(&shop, report), ask(&web, report)), ("app\nshop\n".to_owned(), "app\nweb\n".to_owned()));
    assert_eq!(ask(&["--app", "search"], report), "app\nweb\n", "an app without a folder sees shared objects");
    assert_eq!(ask(&shop, "| makeresults | eval x=`only_web` | table x"), "x\nweb\n");
    assert_eq!(ask(&web, "| inputlookup hidden.csv"), "x\nweb\n");
    let refused = |more: &[&str], search: &str| place.run(&[&["search", search], more].concat());
    let hidden = refused(&shop, "| inputlookup hidden.csv");
    assert!(hidden.code != 0 && hidden.err.contains("there is no lookup table hidden.csv"), "{hidden:?}");
    let macros = refused(&web, "| makeresults | eval x=`only_shop`");
    assert!(macros.code != 0 && macros.err.contains("only_shop"), "{macros:?}");
    let no_app = refused(&["--app", "nosuch"], WHO);
    let is_named =
        ["there is no app nosuch", "Application does not exist: nosuch"].map(|text| no_app.err.contains(text));
    assert_eq!((no_app.code, is_named.contains(&true)), (2, true), "{no_app:?}");
    for name in ["..", "a/b", ""] {
        assert_eq!(refused(&["--app", name], WHO).code, 2, "{name:?}");
    }
    let explained = place.run(&["spl", "explain", WHO, "--app", "shop", "--user", "eva"]).expect_success();
    assert!(explained.contains("macro `who` is \"eva\""), "{explained}");
}

#[test]
fn names_resolve_by_app_and_user_with_and_without_a_server() {
    let place = Place::new();
    install(&place);
    check(&place);
    let written = |app: &str| std::fs::read_to_string(place.data().join(format!("etc/apps/{app}/lookups/new.csv")));
    place
        .run(&["search", "| makeresults | eval x=1 | table x | outputlookup new.csv", "--app", "shop"])
        .expect_success();
    assert!(written("shop").unwrap().contains('1') && written("search").is_err());
    // A server serves the namespaces of users that exist.
    let user = |name: &str, role: &str| UserRecord {
        name: name.to_owned(),
        password_hash: hash_password("secret", &[7; 16]).unwrap(),
        roles: vec![role.to_owned()],
    };
    write(&place, "passwd", &format_users(&[user("admin", "admin"), user("eva", "user")]));
    let server = Server::start(&place);
    check(&place);
    assert_eq!(server.stop("-TERM"), 0);
    let files = place.run(&["search", "* | stats count", "shop.log", "--app", "shop"]);
    assert_eq!((files.code, files.err.contains("--app")), (2, true));
    assert_eq!(place.run(&["search", WHO, "--user", "eva"]).code, 2, "a user has an app");
}

#[test]
fn programs_models_and_what_rest_lists_follow_the_app() {
    let place = Place::new();
    install(&place);
    let script = |word: &str| format!("import sys\nprint('word')\nprint('{word}')\n");
    for app in ["shop", "web"] {
        write(&place, &format!("apps/{app}/bin/say.py"), &script(app));
        write(&place, &format!("apps/{app}/bin/only_{app}.py"), &script(app));
        let stanza = "type = python\ngenerating = true\nfilename = say.py\n";
        write(&place, &format!("apps/{app}/default/commands.conf"), &format!("[say]\n{stanza}[say{app}]\n{stanza}"));
        write(&place, &format!("apps/{app}/default/data/models/M_{app}.json"), "{}");
    }
    write(&place, "users/eva/shop/local/data/models/M_eva.json", "{}");
    write(
        &place,
        "apps/web/metadata/local.meta",
        "[models]\nexport = none\n[searchscripts/only_web.py]\nexport = none\n",
    );
    let run = |search: &str, more: &[&str]| place.run(&[&["search", search, "-o", "csv"], more].concat());
    let (shop, web) = (["--app", "shop"], ["--app", "web"]);
    assert_eq!(run("| say", &shop).expect_success(), "word\nshop\n");
    assert_eq!(run("| say", &web).expect_success(), "word\nweb\n");
    assert_eq!(run("| sayweb", &shop).expect_success(), "word\nweb\n", "the script is exported to all apps");
    assert_eq!(run("| sayshop", &web).code, 3);
    assert_eq!(run("| script python say", &web).expect_success(), "word\nweb\n");
    assert_eq!(run("| script python only_web", &web).expect_success(), "word\nweb\n");
    assert!(run("| script python only_web", &shop).err.contains("no app has a program only_web"));
    let models = "| rest /services/datamodel/model | search title=M_* | sort title | table title";
    assert_eq!(run(models, &[]).expect_success(), "title\nM_shop\nM_web\n");
    assert_eq!(run(models, &shop).expect_success(), "title\nM_shop\n");
    assert_eq!(run(models, &["--app", "shop", "--user", "eva"]).expect_success(), "title\nM_eva\nM_shop\n");
    let files = "| rest /services/data/lookup-table-files | sort title | table title";
    assert_eq!(
        run(files, &shop).expect_success(),
        "title\ncodes.csv\ncodes.csv\nhidden.csv\n",
        "local.meta has changed"
    );
    let macros = "| rest /services/admin/macros | sort title | table title";
    assert_eq!(run(macros, &web).expect_success(), "title\nonly_web\nwho\n");
}

#[test]
fn paths_of_the_rest_interface_name_app_and_user() {
    let place = Place::new();
    install(&place);
    let user = |name: &str, role: &str| UserRecord {
        name: name.to_owned(),
        password_hash: hash_password("secret", &[7; 16]).unwrap(),
        roles: vec![role.to_owned()],
    };
    write(&place, "passwd", &format_users(&[user("admin", "admin"), user("eva", "user"), user("tom", "user")]));
    let server = Server::start(&place);
    let search = "search=%7C+makeresults+%7C+eval+who%3D%60who%60+%7C+table+who&exec_mode=oneshot&output_mode=json";
    let key = |name: &str| {
        let login = ask(
            &place,
            "POST",
            "/services/auth/login",
            "",
            &format!("username={name}&password=secret&output_mode=json"),
        );
        format!("Splunk {}", login.split("\"sessionKey\":\"").nth(1).unwrap().split('"').next().unwrap())
    };
    let (admin, eva, tom) = (key("admin"), key("eva"), key("tom"));
    for (key, root, who) in [
        (&eva, "/services", "shop"),
        (&eva, "/servicesNS/-/web", "shop"),
        (&eva, "/servicesNS/eva/-", "shop"),
        (&eva, "/servicesNS/nobody/shop", "shop"),
        (&eva, "/servicesNS/nobody/web", "web"),
        (&eva, "/servicesNS/eva/shop", "eva"),
        (&admin, "/servicesNS/eva/shop", "eva"),
        (&tom, "/servicesNS/tom/shop", "shop"),
    ] {
        for path in ["search/jobs", "search/jobs/export", "search/v2/jobs/export"] {
            let answer = ask(&place, "POST", &format!("{root}/{path}"), key, search);
            assert!(answer.contains(&format!("{{\"who\":\"{who}\"}}")), "{root}/{path}: {answer}");
        }
    }
    let status = |key: &str, root: &str| {
        let answer = ask(&place, "POST", &format!("{root}/search/jobs"), key, search);
        (answer.split(' ').nth(1).unwrap().to_owned(), answer)
    };
    let (code, answer) = status(&tom, "/servicesNS/eva/shop");
    assert!(code == "403" && answer.contains("user tom may not search as eva"), "{answer}");
    let (code, answer) = status(&eva, "/servicesNS/eva/nosuch");
    assert!(code == "404" && answer.contains("Application does not exist: nosuch"), "{answer}");
    let (code, answer) = status(&admin, "/servicesNS/nosuch/shop");
    assert!(code == "404" && answer.contains("User does not exist: nosuch"), "{answer}");
    assert_eq!(status(&admin, "/servicesNS/nobody/%2e%2e").0, "404");
    assert_eq!(status(&admin, "/servicesNS/nobody/..%2fapps%2fshop").0, "404");
    assert_eq!(status("Splunk 00", "/servicesNS/nobody/shop").0, "401");
    drop(server);
}
