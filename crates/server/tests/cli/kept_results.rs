//! Kept results: loadjob and history, with and without a server.

use crate::server::Server;
use crate::support::{Place, lines};

fn place() -> Place {
    let place = Place::new();
    let file = place.write("web.log", lines(0..30));
    place.run(&["add", "oneshot", &file]).expect_success();
    let folder = place.data().join("etc/system/local");
    std::fs::create_dir_all(&folder).unwrap();
    let saved = "[Hosts]\nsearch = * | eval box=line%3 | stats count BY box\n[Lines]\nsearch = * | fields line\n";
    std::fs::write(folder.join("savedsearches.conf"), saved).unwrap();
    place
}

fn ask(place: &Place, search: &str) -> String {
    place.run(&["search", search, "-o", "csv"]).expect_success()
}

/// IDs of the finished searches, newest first.
fn names(place: &Place) -> Vec<String> {
    ask(place, "| history | table sid").lines().skip(1).map(str::to_owned).collect()
}

const HOSTS: &str = "box,count\n0,10\n1,10\n2,10\n";

/// Runs a saved search and loads its result by the name of the saved search and by the id of the run.
fn results_are_found(place: &Place) {
    assert_eq!(ask(place, "| savedsearch Hosts"), HOSTS);
    let name = names(place)[0].clone();
    for search in [format!("| loadjob {name}"), "| loadjob savedsearch=\"admin:search:Hosts\"".to_owned()] {
        assert_eq!(ask(place, &search), HOSTS, "{search}");
    }
    assert_eq!(ask(place, "| loadjob savedsearch=\"x:y:Hosts\" | stats sum(count) AS n"), "n\n30\n");
    ask(place, "* line<3 | table line took");
    let name = names(place)[0].clone();
    assert_eq!(ask(place, &format!("| loadjob {name} | stats sum(took)")), "sum(took)\n21\n");
    let refused = place.run(&["search", "| loadjob savedsearch=\"admin:search:Hosts\" artifact_offset=9"]);
    assert!(refused.code == 3 && refused.err.contains("no run of the saved search Hosts is kept"), "{refused:?}");
}

#[test]
fn results_are_stored_between_commands() {
    let place = place();
    results_are_found(&place);
    let seen = ask(&place, "| history | search savedsearch_name=Hosts | table search result_count scan_count");
    assert_eq!(seen, "search,result_count,scan_count\n| savedsearch Hosts,3,30\n");
    // A report shown as a table must keep all fields, although a table of events needs only their text.
    let table = place.run(&["search", "| savedsearch Hosts", "-o", "table"]).expect_success();
    assert!(table.contains("box") && table.contains("count"), "{table}");
    lines_are_not_kept(&place);
}

/// A search for events that are printed as lines reads only their text, so its result is not kept; the search is listed
/// as typed.
fn lines_are_not_kept(place: &Place) {
    place.run(&["search", "line<9", "-o", "raw", "--maxout", "2", "--order", "oldest"]).expect_success();
    let name = names(place)[0].clone();
    assert_eq!(place.run(&["search", &format!("| loadjob {name}")]).code, 3);
    let listed = ask(place, &format!("| history | search sid={name} | table search event_count"));
    assert_eq!(listed, "search,event_count\nline<9,2\n");
}

#[test]
fn results_are_stored_by_a_server() {
    let place = place();
    let before = {
        ask(&place, "* | stats count");
        names(&place)[0].clone()
    };
    let server = Server::start(&place);
    results_are_found(&place);
    assert_eq!(ask(&place, &format!("| loadjob {before}")), "count\n30\n", "a result from before the server started");
    lines_are_not_kept(&place);
    assert_eq!(server.stop("-TERM"), 0);
    assert_eq!(ask(&place, "| loadjob savedsearch=\"admin:search:Hosts\""), HOSTS);
}
