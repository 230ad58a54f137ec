//! Objects that an app restricts to some roles (`access = read : [ … ]`) are invisible to searches of other users: by
//! REST, in subsearches, in automatic fields. A change takes effect at once.

use crate::objects::body;
use crate::permissions::{key, search, status, with_users};
use crate::server::{Server, ask};
use crate::support::Place;

/// A data model with one object.
const MODEL: &str = r#"{"modelName": "Hidden_model", "displayName": "m", "objects": [{"objectName": "Orders",
    "displayName": "o", "parentName": "BaseEvent", "fields": [], "calculations": [],
    "constraints": [{"search": "index=main sourcetype=orders"}]}]}"#;

/// An app whose objects of every kind are restricted to the team.
fn with_app(place: &Place) {
    let write = |path: &str, text: &str| {
        let path = place.data().join("etc/apps/shop").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("local/macros.conf", "[who]\ndefinition = \"hidden\"\n[open]\ndefinition = \"shown\"\n");
    write("local/savedsearches.conf", "[Hidden]\nsearch = | makeresults | eval x=\"hidden\" | table x\n");
    write("local/eventtypes.conf", "[hidden_type]\nsearch = card\n");
    write("local/tags.conf", "[host=till]\nhidden_tag = enabled\n");
    write(
        "local/props.conf",
        "[orders]\nEXTRACT-card = card:(?<card>\\d+)\nEXTRACT-sum = sum:(?<amount>\\d+)\nEVAL-hidden_eval = \"x\"\n\
         FIELDALIAS-a = amount AS hidden_alias\nLOOKUP-l = hidden_names amount OUTPUT name AS hidden_name\n",
    );
    write("local/transforms.conf", "[hidden_names]\nfilename = names.csv\n");
    write("lookups/names.csv", "amount,name\n7,hidden\n");
    write("local/data/models/Hidden_model.json", MODEL);
    // The team has all users with the role `power`.
    write("metadata/local.meta", &metadata("power"));
}

/// The app's metadata; `readers` may read the hidden objects.
fn metadata(readers: &str) -> String {
    let hidden = [
        "macros/who",
        "savedsearches/Hidden",
        "eventtypes/hidden_type",
        "tags/host%3Dtill",
        "props/orders/EXTRACT-card",
        "props/orders/EVAL-hidden_eval",
        "props/orders/FIELDALIAS-a",
        "props/orders/LOOKUP-l",
        "transforms/hidden_names",
        "lookups/names.csv",
        "models/Hidden_model",
    ];
    let stanza = |name: &&str| format!("[{name}]\naccess = read : [ {readers} ], write : [ admin ]\n");
    format!("[]\nexport = system\n{}", hidden.iter().map(stanza).collect::<String>())
}

/// Searches that return a row with `hidden` or a count if the objects they use are visible.
const SEARCHES: [&str; 12] = [
    "| makeresults | eval x=`who` | table x",
    "| makeresults | append [| makeresults | eval x=`who`] | table x",
    "| savedsearch Hidden",
    "search index=main eventtype=hidden_type | stats count AS hidden | where hidden>0",
    "search index=main tag=hidden_tag | stats count AS hidden | where hidden>0",
    "search index=main | where isnotnull(card) | eval x=\"hidden\" | table x",
    "search index=main | where hidden_eval=\"x\" | table hidden_eval",
    "search index=main | where hidden_alias=7 | table hidden_alias",
    "search index=main | where isnotnull(hidden_name) | table hidden_name",
    "| inputlookup names.csv",
    "| makeresults | eval amount=7 | lookup hidden_names amount OUTPUT name | where isnotnull(name) | table name",
    "| from datamodel:Hidden_model.Orders | stats count AS hidden | where hidden>0",
];

#[test]
fn objects_that_a_user_may_not_read_are_invisible_to_searches() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["user"]), ("tom", &["power"])]);
    with_app(&place);
    let log = place.write("a.log", "2026-11-20T10:00:00Z card:4711 sum:7\n");
    place.run(&["add", "oneshot", &log, "--sourcetype", "orders", "--host", "till"]).expect_success();
    let server = Server::start(&place);
    let [admin, eva, tom] = ["admin", "eva", "tom"].map(|user| key(&place, user));
    let sees = |key: &str, text: &str| {
        let answer = search(&place, key, text);
        // The objects are visible if the answer has a row with `hidden`, in a value or in the name of a field, or with
        // `x`.
        answer.contains("\"results\":[{") && (answer.contains("hidden") || answer.contains("\"x\""))
    };
    for text in SEARCHES {
        for _ in 0..2 {
            assert_eq!([&admin, &tom, &eva].map(|key| sees(key, text)), [true, true, false], "{text}");
        }
    }
    // Unrestricted objects and all events are still visible.
    for key in [&admin, &tom, &eva] {
        assert!(search(&place, key, "| makeresults | eval x=`open` | table x").contains("shown"));
        assert!(search(&place, key, "search index=main amount=7 | stats count AS n").contains("\"n\":\"1\""));
    }
    for path in
        ["admin/macros", "saved/searches", "data/props/extractions", "data/lookup-table-files", "datamodel/model"]
    {
        let listed = |key: &str| {
            let rest = search(&place, key, &format!("| rest /services/{path} count=0"));
            let http = ask(&place, "GET", &format!("/services/{path}?output_mode=json&count=0"), key, "");
            let marks = ["\"who\"", "Hidden", "EXTRACT-card", "names.csv"];
            [rest, http].map(|text| marks.iter().any(|mark| text.contains(mark)))
        };
        assert_eq!((listed(&tom), listed(&eva)), ([true; 2], [false; 2]), "{path}");
    }
    // The readers of an object are changed over REST; the change takes effect with the next search.
    let acl = "/servicesNS/nobody/shop/admin/macros/who/acl";
    let changed = ask(&place, "POST", acl, &admin, "sharing=global&owner=nobody&perms.read=*&output_mode=json");
    assert_eq!(status(&changed), "200", "{changed}");
    assert_eq!(body(&changed)["entry"][0]["acl"]["perms"]["read"][0], "*");
    assert!(sees(&eva, SEARCHES[0]));
    let changed = ask(&place, "POST", acl, &admin, "sharing=global&owner=nobody&perms.read=admin");
    assert_eq!(status(&changed), "200", "{changed}");
    assert_eq!([&admin, &tom, &eva].map(|key| sees(key, SEARCHES[0])), [true, false, false]);
    let files = "/servicesNS/nobody/shop/data/lookup-table-files/names.csv/acl";
    let changed = ask(&place, "POST", files, &admin, "sharing=global&owner=eva&perms.read=admin");
    assert_eq!(status(&changed), "200", "{changed}");
    assert_eq!(
        [&admin, &tom, &eva].map(|key| sees(key, "| inputlookup names.csv")),
        [true, false, true],
        "the owner reads the table as well"
    );
    drop(server);
}
