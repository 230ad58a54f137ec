//! `quarry spl explain` with data, with configuration only, and for a search with an error.

use crate::server::Server;
use crate::support::Place;

#[test]
fn an_explanation_names_pruning_steps_stages_and_macros() {
    let place = Place::new();
    let log = place.write(
        "a.log",
        "2026-11-20T00:00:01Z web status=200 user=eva\n2026-11-20T00:00:02Z web status=404 user=tom error\n",
    );
    place.run(&["add", "oneshot", &log, "--sourcetype", "lines"]).expect_success();
    let app = place.data().join("etc/apps/shop/default");
    std::fs::create_dir_all(&app).unwrap();
    std::fs::write(app.join("macros.conf"), "[bad]\ndefinition = status>=400 error\n").unwrap();
    let search = "`bad` [search nothing | head 1 | fields user] | eval x=1 | stats count by user | sort user";
    let text = place.run(&["spl", "explain", search]).expect_success();
    for line in [
        "macro `bad` is status>=400 error",
        "indexes  main",
        "terms    error",
        "  map: one row at a time        eval x=1",
        "  map+reduce: rows into groups  stats count by user",
        "  reduce: all rows at once      sort user",
        "  terms           1        1        1            2",
        "exchange groups by user: count (count)",
        "subsearch",
        "  terms    nothing",
        "  exchange events, newest first: _time, _raw, user",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    let json = place.run(&["spl", "explain", search, "-o", "json"]).expect_success();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["plan"]["stages"][1]["phase"], "map+reduce");
    assert_eq!(json["plan"]["events"]["fields"]["names"], serde_json::json!(["user"]));
    assert_eq!(json["plan"]["events"]["pruning"][4]["events"], 2);
    assert_eq!(json["plan"]["subsearches"][0]["events"]["terms"], "nothing");
    let exchanges = json["plan"]["exchanges"].as_array().unwrap();
    let [exchange] = exchanges.as_slice() else { panic!("one round: {exchanges:?}") };
    assert_eq!(exchange["rows"], "groups");
    let state =
        serde_json::json!({ "name": "s0", "type": "integer", "content": "state", "of": "count", "state": "count" });
    assert_eq!(exchange["columns"][1], state);
    assert_eq!(json["macros"][0]["text"], "status>=400 error");
}

#[test]
fn plans_without_data_are_explained_and_errors_have_positions() {
    let place = Place::new();
    let answer = place.run(&["spl", "explain", "a | dedup user | stats count", "--earliest", "-1d@d"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(answer.out.contains("read     in any order, by all workers; pruned by index, time, terms"), "{answer:?}");
    assert!(answer.out.contains("note: buckets, slabs and pages are not counted"), "{answer:?}");
    let fault = place.run(&["spl", "explain", "a | where x >"]);
    assert_eq!(fault.code, 3, "{fault:?}");
    assert!(fault.err.contains('^'), "{fault:?}");
}

#[test]
fn running_servers_include_memory_in_explanations() {
    let place = Place::new();
    let server = Server::start(&place);
    let log = place.write("a.log", "2026-11-20T00:00:01Z web error\n2026-11-20T00:00:02Z web\n");
    place.run(&["add", "oneshot", &log, "--sourcetype", "lines"]).expect_success();
    let text = place.run(&["spl", "explain", "error | stats count"]).expect_success();
    assert!(text.lines().any(|line| line == "terms    error"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("  index") && line.ends_with(" 2")), "{text}");
    let json = place.run(&["spl", "explain", "error | stats count", "-o", "json"]).expect_success();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    // The first row also counts the node's own events.
    assert_eq!(json["plan"]["events"]["pruning"][1]["events"], 2);
    assert_eq!(json["search"], "error | stats count");
    let fault = place.run(&["spl", "explain", "error | where x >"]);
    assert_eq!(fault.code, 3, "{fault:?}");
    assert!(fault.err.contains('^'), "{fault:?}");
    assert_eq!(server.stop("-TERM"), 0);
}
