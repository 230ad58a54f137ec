//! `[fschange:PATH]`: changes while the server runs, while it is stopped, and after it was killed.

use crate::server::Server;
use crate::support::{Place, wait_until};

fn rows(place: &Place, search: &str) -> String {
    place.run(&["search", search, "-o", "csv"]).expect_success().replace('\r', "")
}

/// Reported changes, by file name and in order.
fn told(place: &Place) -> Vec<String> {
    let search = "index=web sourcetype=fs_notification isdir=0 | rex field=path \"(?<name>[^/]+)$\" \
                  | eval told=action.\" \".name | sort 0 told | table told";
    rows(place, search).lines().skip(1).map(str::to_owned).collect()
}

fn wait_for(place: &Place, expected: &[&str]) {
    assert!(wait_until(|| told(place) == expected), "{:?} instead of {expected:?}", told(place));
}

#[test]
fn changes_are_reported_once_including_those_while_the_server_was_down() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("data/etc/system/local")).unwrap();
    std::fs::create_dir(place.path("watched")).unwrap();
    let watched = place.path("watched").display().to_string();
    let stanza = format!(
        "[fschange:{watched}]\npollPeriod = 1\nindex = web\nhashMaxSize = 100\ndelayInMills = 0\nfilters = copies\n\
         fullEvent = true\n[filter:blacklist:copies]\nregex1 = ~$\n[fschange:{watched}/a]\nsignedaudit = true\n"
    );
    place.write("data/etc/system/local/inputs.conf", stanza);
    ["a", "b", "b~"].iter().for_each(|name| drop(place.write(&format!("watched/{name}"), format!("text of {name}"))));
    let server = Server::start(&place);
    wait_for(&place, &["add a", "add b"]);
    place.write("watched/b", "other text");
    std::fs::remove_file(place.path("watched/a")).unwrap();
    wait_for(&place, &["add a", "add b", "delete a", "update b"]);
    assert_eq!(server.stop("-TERM"), 0);
    // The server is not running.
    place.write("watched/c", "text of c");
    std::fs::remove_file(place.path("watched/b")).unwrap();
    let mut server = Server::start(&place);
    let expected = ["add a", "add b", "add c", "delete a", "delete b", "update b"];
    wait_for(&place, &expected);
    for _ in 0..2 {
        server.stop("-KILL");
        server = Server::start(&place);
    }
    place.write("watched/d", "text of d");
    let all = ["add a", "add b", "add c", "add d", "delete a", "delete b", "update b"];
    wait_for(&place, &all);
    let full = "index=web \"text of c\" | eval name=replace(source, \".*/\", \"\") | stats count by name";
    assert_eq!(rows(&place, full), "name,count\nc,1\n");
    let audit = "index=_audit sourcetype=audittrail | stats count by action";
    assert_eq!(rows(&place, audit), "action,count\nadd,1\ndelete,1\n");
    assert_eq!(server.stop("-TERM"), 0);
}
