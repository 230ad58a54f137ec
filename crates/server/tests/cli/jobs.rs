//! Jobs over REST: created, inspected, read page by page, kept across a restart.

use serde_json::Value;

use crate::permissions::{key, with_users};
use crate::server::{Server, ask};
use crate::support::{Place, lines, wait_until};

const JOBS: &str = "/services/search/jobs";

/// Status and body of an answer, which may be chunked.
fn parts(answer: &str) -> (&str, String) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap();
    if !head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        return (status, body.to_owned());
    }
    let (mut rest, mut whole) = (body, String::new());
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
    }
    (status, whole)
}

/// A user of the management port.
pub(crate) struct Client<'a> {
    place: &'a Place,
    key: String,
}

impl Client<'_> {
    pub(crate) fn of<'a>(place: &'a Place, user: &str) -> Client<'a> {
        Client { place, key: key(place, user) }
    }

    pub(crate) fn get(&self, path: &str) -> (String, String) {
        let answer = ask(self.place, "GET", path, &self.key, "");
        let (status, body) = parts(&answer);
        (status.to_owned(), body)
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let joint = if path.contains('?') { "&" } else { "?" };
        let (status, body) = self.get(&format!("{path}{joint}output_mode=json"));
        assert_eq!(status, "200", "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    fn post(&self, path: &str, form: &str) -> (String, String) {
        let answer = ask(self.place, "POST", path, &self.key, form);
        let (status, body) = parts(&answer);
        (status.to_owned(), body)
    }

    /// Starts a job; returns its path when it is done.
    pub(crate) fn run(&self, search: &str, more: &str) -> String {
        let text: String = form_urlencoded::byte_serialize(search.as_bytes()).collect();
        let (status, body) = self.post(JOBS, &format!("search={text}{more}"));
        assert_eq!(status, "201", "{body}");
        let sid = body.split("<sid>").nth(1).unwrap().split("</sid>").next().unwrap();
        let path = format!("{JOBS}/{sid}");
        assert!(wait_until(|| self.json(&path)["entry"][0]["content"]["isDone"] == true));
        path
    }
}

#[test]
fn the_job_of_a_preview_says_that_it_has_only_the_first_events() {
    let place = Place::new();
    let text: String = (0..10_010).map(|number| format!("2026-11-20T10:00:00Z n={number}\n")).collect();
    let log = place.write("a.log", text);
    with_users(&place, &[("admin", &["admin"])]);
    let server = Server::start(&place);
    let admin = Client::of(&place, "admin");
    let (status, body) = admin.post("/services/indexing/preview", &format!("input.path={log}&output_mode=json"));
    assert_eq!(status, "200", "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    let job = admin.json(&format!("{JOBS}/{}", answer["messages"][0]["text"].as_str().unwrap()));
    let content = &job["entry"][0]["content"];
    assert_eq!(content["resultCount"], 10_000);
    assert!(content["messages"].to_string().contains("only the first 10000 events are shown"), "{content}");
    drop(server);
}

#[test]
fn jobs_are_created_inspected_and_read_in_every_format() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..1_000));
    place.run(&["add", "oneshot", &log]).expect_success();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["user"]), ("tom", &["user"])]);
    let server = Server::start(&place);
    let client = |user: &str| Client::of(&place, user);
    let (eva, tom, admin) = (client("eva"), client("tom"), client("admin"));
    let path = eva.run("search * | stats count by host", "&label=mine&status_buckets=10");
    let (status, entry) = eva.get(&path);
    assert_eq!(status, "200");
    for part in ["<entry xmlns=", "<s:key name=\"dispatchState\">DONE</s:key>", "<s:key name=\"isDone\">1</s:key>"] {
        assert!(entry.contains(part), "{entry}");
    }
    let content = &eva.json(&path)["entry"][0]["content"];
    assert_eq!((content["resultCount"].as_u64(), content["eventCount"].as_u64()), (Some(1), Some(1_000)));
    assert_eq!(
        (content["label"].as_str(), content["reportSearch"].as_str()),
        (Some("mine"), Some("stats count by host"))
    );
    let results = |mode: &str| eva.get(&format!("{path}/results?output_mode={mode}")).1;
    assert_eq!(eva.json(&format!("{path}/results"))["results"][0]["count"], "1000");
    assert!(results("json_rows").contains("\"fields\":[\"host\",\"count\"],\"rows\":[["), "{}", results("json_rows"));
    assert!(results("json_cols").contains("\"columns\":[[\"") && results("json_cols").ends_with("[\"1000\"]]}"));
    assert!(results("csv").starts_with("host,count\n") && results("csv").ends_with(",1000\n"), "{}", results("csv"));
    let xml = results("xml");
    assert!(xml.contains("<results preview='0'>") && xml.contains("<value><text>1000</text></value>"), "{xml}");
    assert_eq!(tom.get(&path).0, "404", "the job belongs to another user");
    assert_eq!(admin.get(&path).0, "200");
    assert_eq!(tom.json(JOBS)["paging"]["total"], 0);
    assert_eq!(eva.json(&format!("{JOBS}/"))["entry"][0]["content"]["label"], "mine");
    assert!(eva.get(&format!("{path}/search.log")).1.contains("DONE after"));
    let unknown = eva.get(&format!("{JOBS}/nosuch"));
    assert_eq!(unknown.0, "404");
    assert!(unknown.1.contains("<msg type=\"FATAL\">Unknown sid.</msg>"), "{}", unknown.1);
    // Version 2 of the path, requested with POST as SDKs do.
    let second = path.replace("search/jobs", "search/v2/jobs");
    let (status, body) = eva.post(&format!("{second}/results"), "output_mode=json&count=1");
    assert!(status == "200" && body.contains("\"count\":\"1000\""), "{body}");
    assert_eq!(eva.post(&format!("{path}/control"), "action=setttl").0, "400");
    assert_eq!(eva.post(&format!("{path}/control"), "action=dance").0, "400");
    assert_eq!(tom.post(&format!("{path}/control"), "action=cancel").0, "404");
    assert_eq!(eva.post(&format!("{path}/control"), "action=save").0, "200");
    assert_eq!(eva.json(&path)["entry"][0]["content"]["isSaved"], true);
    assert_eq!(eva.post(&format!("{path}/control"), "action=cancel").0, "200");
    assert_eq!(eva.get(&path).0, "404");
    drop(server);
}

#[test]
fn event_pages_form_the_result_even_after_a_restart() {
    let place = Place::new();
    let log = place.write("a.log", lines(0..2_500));
    place.run(&["add", "oneshot", &log]).expect_success();
    with_users(&place, &[("admin", &["admin"])]);
    let server = Server::start(&place);
    let admin = Client { place: &place, key: key(&place, "admin") };
    let path = admin.run("search *", "&exec_mode=blocking&status_buckets=50&timeout=3600");
    let page = |client: &Client<'_>, what: &str, offset: usize| {
        let rows = client.json(&format!("{path}/{what}?offset={offset}&count=700&f=_raw"));
        assert_eq!(rows["init_offset"], offset);
        rows["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["_raw"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let all = |client: &Client<'_>, what: &str| {
        (0..2_500).step_by(700).flat_map(|at| page(client, what, at)).collect::<Vec<_>>()
    };
    let events = all(&admin, "events");
    assert_eq!(crate::support::sorted(&(events.join("\n") + "\n")), crate::support::sorted(&lines(0..2_500)));
    assert_eq!(all(&admin, "results"), events);
    assert_eq!(all(&admin, "results_preview"), events);
    let timeline = admin.json(&format!("{path}/timeline"));
    let counted: u64 =
        timeline["buckets"].as_array().unwrap().iter().map(|span| span["total_count"].as_u64().unwrap()).sum();
    assert_eq!((timeline["event_count"].as_u64(), counted), (Some(2_500), 2_500));
    let summary = admin.json(&format!("{path}/summary?f=host"));
    assert_eq!(
        (summary["fields"]["host"]["count"].as_u64(), summary["event_count"].as_u64()),
        (Some(2_500), Some(2_500))
    );
    let sid = path.rsplit('/').next().unwrap();
    assert_eq!(server.stop("-KILL"), -1);
    let server = Server::start(&place);
    let admin = Client { place: &place, key: key(&place, "admin") };
    assert_eq!(all(&admin, "results"), events, "an acknowledged change of a job survives kill -9");
    assert_eq!(admin.json(&path)["entry"][0]["content"]["eventCount"], 2_500);
    let loaded = admin.run(&format!("| loadjob {sid} | stats count"), "");
    assert_eq!(admin.json(&format!("{loaded}/results"))["results"][0]["count"], "2500");
    assert_eq!(ask(&place, "DELETE", &path, &admin.key, "").split(' ').nth(1), Some("200"));
    assert_eq!(admin.get(&path).0, "404");
    drop(server);
}

#[test]
fn the_node_is_read_as_entities() {
    let place = Place::new();
    with_users(&place, &[("admin", &["admin"])]);
    let server = Server::start(&place);
    let admin = Client { place: &place, key: key(&place, "admin") };
    let info = admin.json("/services/server/info");
    assert!(info["entry"][0]["content"]["version"].as_str().is_some_and(|version| !version.is_empty()));
    let main = admin.json("/servicesNS/nobody/search/data/indexes/main");
    assert_eq!(main["entry"][0]["name"], "main");
    assert!(admin.get("/services/data/indexes").1.contains("<title>main</title>"));
    assert_eq!(admin.get("/services/data/indexes/nosuch").0, "404");
    drop(server);
}

#[test]
fn jobs_are_streamed_to_their_end() {
    let place = Place::new();
    place.run(&["add", "oneshot", &place.write("a.log", lines(0..1_000))]).expect_success();
    with_users(&place, &[("admin", &["admin"]), ("eva", &["user"]), ("tom", &["user"])]);
    let server = Server::start(&place);
    let client = |user: &str| Client { place: &place, key: key(&place, user) };
    let (eva, tom) = (client("eva"), client("tom"));
    let stream_of = |path: &str| format!("/api/v1/jobs/{}/stream", path.rsplit('/').next().unwrap());
    let data = |text: &str, event: &str| -> Vec<Value> {
        let reported =
            text.split("\n\n").filter_map(|reported| reported.split_once(&format!("event: {event}\ndata: ")));
        reported.map(|(_, data)| serde_json::from_str(data).unwrap()).collect()
    };
    let report = eva.run("search * | stats count by host", "");
    let (status, text) = eva.get(&stream_of(&report));
    assert_eq!(status, "200", "{text}");
    assert_eq!(data(&text, "state").last().unwrap()["state"], "DONE");
    assert_eq!(data(&text, "rows")[0]["rows"][0][1], "1000", "{text}");
    assert_eq!(data(&text, "end").len(), 1);
    let events = eva.run("search *", "&exec_mode=blocking&status_buckets=10");
    let (_, text) = eva.get(&format!("{}?count=20", stream_of(&events)));
    assert_eq!(data(&text, "rows").iter().map(|page| page["rows"].as_array().unwrap().len()).sum::<usize>(), 20);
    let spans = data(&text, "timeline").remove(0);
    let counted: i64 = spans["spans"].as_array().unwrap().iter().map(|span| span[1].as_i64().unwrap()).sum();
    assert_eq!(counted, 1_000, "{spans}");
    let fields = data(&text, "fields");
    assert_eq!((fields.len(), fields[0]["events"].as_u64()), (1, Some(1_000)), "{fields:?}");
    assert_eq!(fields[0]["fields"]["index"]["values"][0], serde_json::json!(["main", 1_000]), "{fields:?}");
    assert_eq!(tom.get(&stream_of(&events)).0, "404", "the job belongs to another user");
    drop(server);
}

#[test]
fn times_are_reported_as_instants() {
    let place = Place::new();
    with_users(&place, &[("eva", &["user"])]);
    let server = Server::start(&place);
    let eva = Client { place: &place, key: key(&place, "eva") };
    let path = "/services/search/timeparser?now=1795186800&zone=UTC&time=-1d%40d&time=1795186800";
    let reported = eva.json(&format!("{path}&output_mode=json&output_time_format=%25F+%25T"));
    assert_eq!(
        (reported["-1d@d"].as_str(), reported["1795186800"].as_str()),
        (Some("2026-11-19 00:00:00"), Some("2026-11-20 15:00:00"))
    );
    let xml = eva.get(path).1;
    assert!(xml.contains("<key name=\"-1d@d\">2026-11-19T00:00:00.000+00:00</key>"), "{xml}");
    assert_eq!(eva.get("/services/search/timeparser?time=tomorrowish").0, "400");
    assert_eq!(eva.get("/services/search/timeparser").0, "400");
    drop(server);
}
