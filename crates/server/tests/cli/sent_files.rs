//! `quarry add oneshot --uri`: files sent to a server.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::server::Server;
use crate::support::{Place, RunOutput, lines};

#[test]
fn files_are_sent_to_a_server_and_indexed_once() {
    let (place, elsewhere) = (Place::new(), Place::new());
    let _server = Server::start(&place);
    let run_file = std::fs::read_to_string(place.data().join("run/server.json")).unwrap();
    let run_file: Value = serde_json::from_str(&run_file).unwrap();
    let uri = format!("http://{}", run_file["mgmt"].as_str().unwrap());
    let node = ["--uri", uri.as_str(), "--token", run_file["token"].as_str().unwrap()];
    let add = |arguments: &[&str]| -> Vec<String> {
        let all = [&["add", "oneshot"], arguments, node.as_slice()].concat();
        all.into_iter().map(str::to_owned).collect()
    };
    let run =
        |place: &Place, arguments: &[String]| place.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let (first, second) = (elsewhere.write("a.log", lines(0..500)), elsewhere.write("b.log", lines(500..600)));
    let added = run(&elsewhere, &add(&[&first, &second, "--host", "far"])).expect_success();
    assert!(added.starts_with("added 600 events"), "{added}");
    assert!(!elsewhere.data().exists(), "nothing is stored here");
    let found = place.run(&["search", "host=far | stats count BY source | sort source", "-o", "csv"]).expect_success();
    assert_eq!(found, format!("source,count\n{first},500\n{second},100\n"));
    let again = run(&elsewhere, &add(&[&first])).expect_success();
    assert!(again.contains("1 file skipped"), "{again}");
    let piped = add(&["-", "--source", "pipe", "--sourcetype", "kv"]);
    let mut piped = elsewhere.command(&piped.iter().map(String::as_str).collect::<Vec<_>>());
    let mut piped = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    piped.stdin.take().unwrap().write_all(lines(600..610).as_bytes()).unwrap();
    let piped = RunOutput::of(piped.wait_with_output().unwrap()).expect_success();
    assert!(piped.starts_with("added 10 events"), "{piped}");
    for (wrong, says) in [
        (add(&[&second, "--again", "--index", "BAD"]), "BAD"),
        (["add", "oneshot", second.as_str(), "--uri", uri.as_str()].map(str::to_owned).to_vec(), "--auth"),
        (["add", "oneshot", second.as_str(), "--token", "x"].map(str::to_owned).to_vec(), "--uri"),
    ] {
        let refused = run(&elsewhere, &wrong);
        assert!(refused.code != 0 && format!("{}{}", refused.out, refused.err).contains(says), "{refused:?}");
    }
    assert!(std::fs::read_dir(place.data().join("run/uploads")).unwrap().next().is_none(), "nothing is left");
}
