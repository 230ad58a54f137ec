//! Events sent to a running server over HTTP are found at once, and after a kill.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::network::{tls_client, tls_config};
use crate::server::Server;
use crate::support::{Place, sorted};

const TOKENS: &str = "[http://plain]\ntoken = 11111111-1111-1111-1111-111111111111\n\
    [http://acked]\ntoken = 44444444-4444-4444-4444-444444444444\nuseACK = 1\nindex = acked\n";
pub(crate) const PLAIN: &str = "11111111-1111-1111-1111-111111111111";
const ACKED: &str = "44444444-4444-4444-4444-444444444444";
const CHANNEL: &str = "fe0ecfad-13d5-401b-847d-77833bd77131";

pub(crate) fn place_with_tokens() -> Place {
    let place = Place::new();
    std::fs::create_dir_all(place.path("data/etc/system/local")).unwrap();
    place.write("data/etc/system/local/inputs.conf", TOKENS);
    place
}

/// Posts a body and returns the body of the answer.
pub(crate) fn post(place: &Place, path: &str, token: &str, body: &str) -> String {
    let run_file = std::fs::read_to_string(place.data().join("run/server.json")).unwrap();
    let run_file: Value = serde_json::from_str(&run_file).unwrap();
    let mut stream = TcpStream::connect(run_file["hec"].as_str().unwrap()).unwrap();
    write!(
        stream,
        "POST /services/collector{path} HTTP/1.1\r\nHost: collector:8088\r\nAuthorization: Splunk {token}\r\n\
         X-Splunk-Request-Channel: {CHANNEL}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn acknowledged_events_are_found_at_once_and_after_a_kill() {
    let place = place_with_tokens();
    let server = Server::start_with(&place, &["--hec", "127.0.0.1:0"]);
    let success = r#"{"text":"Success","code":0}"#;
    let body = r#"{"event":{"k":"one"},"time":1795225298.5,"host":"h1"}{"event":"k=two","fields":{"f":"x"}}"#;
    assert_eq!(post(&place, "/event", PLAIN, body), success);
    assert_eq!(
        post(
            &place,
            "/raw?sourcetype=lines&host=h2",
            PLAIN,
            "2026-11-20T10:00:00Z k=three\n2026-11-20T10:00:01Z k=four\n"
        ),
        success
    );
    let search =
        "index=main | eval from=if(host=\"collector:8088\", \"server\", host) | stats count by k, from, sourcetype";
    let expected =
        "four,h2,lines,1\nk,from,sourcetype,count\none,h1,httpevent,1\nthree,h2,lines,1\ntwo,server,httpevent,1";
    let found = || place.run(&["search", search, "-o", "csv"]).expect_success();
    assert_eq!(sorted(&found().replace("\r", "")).join("\n"), expected);
    for condition in ["f=x", "f::x", "f=X k=two", "f IN (y, x)"] {
        let counted = place.run(&["search", &format!("{condition} | stats count"), "-o", "csv"]).expect_success();
        assert_eq!(counted.replace("\r", ""), "count\n1\n", "{condition}");
    }
    server.stop("-KILL");
    assert_eq!(sorted(&found().replace("\r", "")).join("\n"), expected, "after a kill");
}

#[test]
fn events_acknowledged_on_a_channel_survive_a_kill() {
    let place = place_with_tokens();
    let server = Server::start_with(&place, &["--hec", "127.0.0.1:0"]);
    for number in 0..20 {
        let body = format!(r#"{{"event":"number={number}"}}"#);
        assert_eq!(post(&place, "", ACKED, &body), format!(r#"{{"text":"Success","code":0,"ackId":{number}}}"#));
    }
    let numbers: Vec<u64> = (0..20).collect();
    let asked: Value =
        serde_json::from_str(&post(&place, "/ack", ACKED, &format!(r#"{{"acks":{numbers:?}}}"#))).unwrap();
    server.stop("-KILL");
    let found = place.run(&["search", "index=acked | stats count by number", "-o", "csv"]).expect_success();
    for (number, stored) in asked["acks"].as_object().unwrap() {
        let line = format!("{number},1");
        assert!(!stored.as_bool().unwrap() || found.lines().any(|found| found.trim() == line), "{number} is not there");
    }
}

#[test]
fn ack_ids_are_not_reused_after_a_kill() {
    let place = place_with_tokens();
    let server = Server::start_with(&place, &["--hec", "127.0.0.1:0"]);
    let send = |text: &str| -> u64 {
        let answer: Value =
            serde_json::from_str(&post(&place, "", ACKED, &format!(r#"{{"event":"{text}"}}"#))).unwrap();
        answer["ackId"].as_u64().unwrap()
    };
    let ask = |ids: &[u64]| -> Value {
        serde_json::from_str(&post(&place, "/ack", ACKED, &format!(r#"{{"acks":{ids:?}}}"#))).unwrap()
    };
    let before: Vec<u64> = (0..5).map(|number| send(&format!("before={number}"))).collect();
    assert_eq!(before, [0, 1, 2, 3, 4]);
    server.stop("-KILL");
    let server = Server::start_with(&place, &["--hec", "127.0.0.1:0"]);
    let after: Vec<u64> = (0..5).map(|number| send(&format!("after={number}"))).collect();
    assert!(after.iter().all(|id| *id > 4), "{after:?}");
    // Events with ids from before the kill may be lost: they must not be reported as stored because events with later
    // ids are.
    let told = || before.iter().chain(&after).map(|id| ask(&[*id])["acks"][id.to_string()] == true);
    let mut stored = [false; 10];
    while stored[5..].contains(&false) {
        stored.iter_mut().zip(told()).for_each(|(stored, told)| *stored |= told);
    }
    assert_eq!(stored[..5], [false; 5]);
    assert_eq!(server.stop("-TERM"), 0);
    std::fs::write(place.data().join("hec/next-ack-id"), "damaged").unwrap();
    let refused = place.run(&["serve", "--mgmt", "127.0.0.1:0", "--hec", "127.0.0.1:0"]);
    assert!(refused.err.contains("hec/next-ack-id is not the next ackId"), "{refused:?}");
}

#[test]
fn events_are_received_over_tls() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("data/etc/system/local")).unwrap();
    place.write("data/etc/system/local/inputs.conf", format!("[http]\nenableSSL = true\n{TOKENS}"));
    let server = Server::start_with(&place, &["--hec", "127.0.0.1:0"]);
    let run_file = std::fs::read_to_string(place.data().join("run/server.json")).unwrap();
    let run_file: Value = serde_json::from_str(&run_file).unwrap();
    let address = run_file["hec"].as_str().unwrap();
    // An unfinished handshake must not block other connections.
    let _silent = TcpStream::connect(address).unwrap();
    let mut stream = tls_client(&place, address);
    let body = r#"{"event":"k=secret"}"#;
    write!(
        stream,
        "POST /services/collector HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Splunk {PLAIN}\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with(r#"{"text":"Success","code":0}"#), "{answer}");
    assert_eq!(
        place.run(&["search", "k=secret | stats count", "-o", "csv"]).expect_success().replace('\r', ""),
        "count\n1\n"
    );
    assert_eq!(server.stop("-TERM"), 0);
}

/// Sends a request to the management port as the first user.
fn manage(place: &Place, method: &str, path: &str, body: &str) -> (u16, Value) {
    let run_file = std::fs::read_to_string(place.data().join("run/server.json")).unwrap();
    let run_file: Value = serde_json::from_str(&run_file).unwrap();
    let mut stream = TcpStream::connect(run_file["mgmt"].as_str().unwrap()).unwrap();
    write!(
        stream,
        "{method} {path}?output_mode=json HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic YWRtaW46Y2hhbmdlbWU=\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
}

#[test]
fn tokens_are_managed_without_a_restart() {
    const ALL: &str = "/servicesNS/nobody/splunk_httpinput/data/inputs/http";
    let place = place_with_tokens();
    let server = Server::start_with(&place, &["--hec", "127.0.0.1:0"]);
    let made = manage(&place, "POST", ALL, "name=made&index=main&sourcetype=shop");
    assert_eq!((made.0, &made.1["entry"][0]["name"]), (201, &Value::from("http://made")), "{made:?}");
    let token = made.1["entry"][0]["content"]["token"].as_str().unwrap().to_owned();
    let event = r#"{"event":"sold"}"#;
    let success = r#"{"text":"Success","code":0}"#;
    assert_eq!(post(&place, "", &token, event), success);
    assert_eq!(manage(&place, "POST", &format!("{ALL}/made/disable"), "").0, 200);
    assert_eq!(post(&place, "", &token, event), r#"{"text":"Token disabled","code":1}"#);
    let enabled = manage(&place, "POST", "/services/data/inputs/http/http%3A%2F%2Fmade/enable", "");
    assert_eq!((enabled.0, &enabled.1["entry"][0]["content"]["disabled"]), (200, &Value::from(false)), "{enabled:?}");
    assert_eq!(manage(&place, "POST", "/services/data/inputs/http/made", "host=till").0, 200);
    assert_eq!(post(&place, "", &token, event), success);
    let listed = manage(&place, "GET", "/services/data/inputs/http", "").1;
    let names: Vec<&str> =
        listed["entry"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["http://acked", "http://made", "http://plain"]);
    for (method, path, body, status) in [
        ("POST", "/services/data/inputs/http", "name=made", 409),
        ("POST", "/services/data/inputs/http", "index=main", 400),
        ("POST", "/services/data/inputs/http", "name=b&colour=red", 400),
        ("GET", "/services/data/inputs/http/nobody", "", 404),
        ("POST", "/services/data/inputs/http/made/explode", "", 404),
    ] {
        assert_eq!(manage(&place, method, path, body).0, status, "{method} {path} {body}");
    }
    assert_eq!(manage(&place, "DELETE", "/services/data/inputs/http/made", "").0, 200);
    assert_eq!(post(&place, "", &token, event), r#"{"text":"Invalid token","code":4}"#);
    assert_eq!(post(&place, "", PLAIN, event), success, "other tokens are unchanged");
    let count = "sourcetype=shop | eval at_till=if(host=\"till\", 1, 0) | stats count sum(at_till) AS till";
    assert_eq!(place.run(&["search", count, "-o", "csv"]).expect_success().replace("\r", ""), "count,till\n2,1\n");
    assert_eq!(std::fs::read_to_string(place.path("data/etc/system/local/inputs.conf")).unwrap(), TOKENS);
    server.stop("-TERM");
}

/// Calls a service over HTTP/2 with TLS; returns the status of the call.
async fn call(place: &Place, address: &str, path: &str, message: &[u8]) -> Option<String> {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(tls_config(place, &[b"h2"]));
    let stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = axum::http::Request::post(format!("https://localhost{path}"));
    let request = request.header("content-type", "application/grpc").header("te", "trailers");
    let request = request.header("authorization", format!("Splunk {PLAIN}")).body(()).unwrap();
    let (answer, mut body) = sender.send_request(request, false).unwrap();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    body.send_data([&[0], &length[..], message].concat().into(), true).unwrap();
    let answer = answer.await.unwrap();
    let in_head = answer.headers().get("grpc-status").cloned();
    let mut answer = answer.into_body();
    while answer.data().await.is_some() {}
    let behind = answer.trailers().await.unwrap().and_then(|trailers| trailers.get("grpc-status").cloned());
    in_head.or(behind).map(|status| status.to_str().unwrap().to_owned())
}

#[test]
fn opentelemetry_events_over_tls_are_found() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("data/etc/system/local")).unwrap();
    let inputs = format!("{TOKENS}[http]\nenableSSL = 1\n[otlp]\ndisabled = 0\nport = 0\n");
    place.write("data/etc/system/local/inputs.conf", inputs);
    let server = Server::start_with(&place, &["--hec", "127.0.0.1:0"]);
    let address = crate::network::address_of(&place, "otlp");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let told = |service: &str| {
        let path = format!("/opentelemetry.proto.collector.{service}/Export");
        runtime.block_on(call(&place, &address, &path, b"\x0a\x0c\x12\x0a\x12\x08\x2a\x06\x0a\x04sold"))
    };
    assert_eq!(told("logs.v1.LogsService").as_deref(), Some("0"));
    assert_eq!(told("trace.v1.TraceService").as_deref(), Some("0"));
    assert_eq!(told("profiles.v1development.ProfilesService").as_deref(), Some("12"));
    assert_eq!(place.run(&["search", "NOT sourcetype=otel:trace", "-o", "raw"]).expect_success(), "sold\n");
    assert!(
        place.run(&["search", "sourcetype=otel:trace", "-o", "raw"]).expect_success().contains("sold"),
        "read as a span's name"
    );
    drop(server);
}
