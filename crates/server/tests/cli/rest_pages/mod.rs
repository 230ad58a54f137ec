//! Runs the pages of `spec/rest` against a server and compares each answer with the page and with its schema. The test
//! fails if a row of the table of endpoints has no request in any page.

mod page;
mod schema;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use quarry_api::ENDPOINTS;
use quarry_s3world::Gateway;
use serde_json::Value;

use self::page::{Names, Step, filled, read_page};
use self::schema::{AnswerFacts, Description};
use crate::permissions::with_users;
use crate::remote_volumes::{copies, is_uploaded, on_s3};
use crate::server::Server;
use crate::support::{Place, wait_until};

/// Maximum number of repetitions of a request marked `until`.
const REPETITIONS_MAX: usize = 20_000;
/// Parameters of lists, which some clients add to the URL of every request.
const LIST_PARAMETERS: [(&str, &str); 8] = [
    ("count", "-1"),
    ("f", "title"),
    ("listDefaultActionArgs", "1"),
    ("offset", "1"),
    ("sort_dir", "desc"),
    ("sort_key", "name"),
    ("sort_mode", "alpha"),
    ("summarize", "1"),
];
/// Events that the requests of all pages find.
const EVENTS: &str = "2026-11-01T10:00:00Z level=info user=eva took=5\n2026-11-01T10:00:01Z level=warn user=tom took=7\n2026-11-01T10:00:02Z level=info user=tom took=9\n";

/// A server with users and their sessions.
struct World {
    address: String,
    place: Place,
    sessions: Names,
    asked: BTreeSet<(String, String)>,
    description: Option<Description>,
    /// Answers that are not as described.
    undescribed: BTreeSet<String>,
    /// Whether [`LIST_PARAMETERS`] are added to the URLs of changes, where they must have no effect.
    adds_list_parameters: bool,
    _server: Server,
}

/// An app with two kinds of inputs of its own: one whose program describes it, and one that only a file declares.
fn with_modular_input(place: &Place) {
    for folder in ["bin", "README"] {
        std::fs::create_dir_all(place.path(&format!("data/etc/apps/weather_app/{folder}"))).unwrap();
    }
    place.write(
        "data/etc/apps/weather_app/README/inputs.conf.spec",
        "[weather://<name>]\ncity = <string>\n[sky://<name>]\nregion = <string>\n* Where to look.\n",
    );
    std::fs::create_dir_all(place.path("data/etc/apps/weather_app/default")).unwrap();
    place.write(
        "data/etc/apps/weather_app/default/restmap.conf",
        "[script:forecast]\nmatch = /weather/forecast\nscripttype = persist\n",
    );
    let silent = place.write("data/etc/apps/weather_app/bin/sky.sh", "#!/bin/sh\n");
    let scheme = "<scheme><title>Weather</title><use_external_validation>true</use_external_validation><endpoint><args>\
                  <arg name='city'/></args></endpoint></scheme>";
    let refuses = "<error><message>Atlantis has no weather</message></error>";
    let checks =
        format!("if [ \"$1\" = --validate-arguments ]; then ! grep -q Atlantis || ! echo '{refuses}'; exit; fi");
    let text = format!("#!/bin/sh\n{checks}\necho \"{scheme}\"\n");
    let program = place.write("data/etc/apps/weather_app/bin/weather.sh", text);
    assert!(Command::new("chmod").args(["+x", &program, &silent]).status().unwrap().success());
}

struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    text: String,
}

impl World {
    /// Stores buckets on the local disk or, with `gateway`, on S3, where local copies and cached blocks are evicted at
    /// once.
    fn new(gateway: Option<&Gateway>) -> World {
        let place = gateway.map_or_else(Place::new, on_s3);
        with_users(&place, &[("admin", &["admin"]), ("eva", &["power"]), ("tom", &["user"]), ("norole", &[])]);
        with_modular_input(&place);
        let log = place.write("events.log", EVENTS);
        place.run(&["add", "oneshot", &log, "--sourcetype", "kv", "--host", "h1"]).expect_success();
        let server = Server::start(&place);
        if gateway.is_some() {
            assert!(wait_until(|| is_uploaded(&place)), "{:?}", copies(&place));
        }
        let run = std::fs::read_to_string(place.data().join("run/server.json")).unwrap();
        let run: Value = serde_json::from_str(&run).unwrap();
        let address = format!("http://{}", run["mgmt"].as_str().unwrap());
        let (sessions, asked, undescribed) = (Names::new(), BTreeSet::new(), BTreeSet::new());
        let (description, adds_list_parameters) = (None, false);
        let mut world =
            World { address, place, sessions, asked, description, undescribed, adds_list_parameters, _server: server };
        for user in ["admin", "eva", "tom", "norole"] {
            let login =
                [("username", user), ("password", "secret")].map(|(name, value)| (name.to_owned(), value.to_owned()));
            let step = Step {
                method: "POST".into(),
                path: "/services/auth/login".into(),
                parameters: login.to_vec(),
                ..Step::default()
            };
            let answer = world.ask(&step, &Names::new());
            let key = serde_json::from_str::<Value>(&answer.text).unwrap()["sessionKey"].as_str().unwrap().to_owned();
            world.sessions.insert(user.to_owned(), key);
        }
        let path = "/services/quarry/openapi.json".to_owned();
        let described = Step { method: "GET".into(), path, user: Some("admin".into()), ..Step::default() };
        world.description = Some(Description::of(&world.ask(&described, &Names::new()).text));
        world
    }

    fn ask(&mut self, step: &Step, names: &Names) -> Answer {
        let mut pairs: Vec<(String, String)> = step
            .parameters
            .iter()
            .map(|(name, value)| (filled(name, names), filled(value, names).replace("\\n", "\n")))
            .collect();
        if !pairs.iter().any(|(name, _)| name == "output_mode") {
            pairs.push(("output_mode".to_owned(), "json".to_owned()));
        }
        pairs.retain(|(name, value)| name != "output_mode" || value != "none");
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(&pairs).finish();
        let path = filled(&step.path, names);
        self.asked.insert((step.method.clone(), path.split('?').next().unwrap_or_default().to_owned()));
        let is_body = step.method == "POST" && step.body.is_none();
        let joint = if path.contains('?') { '&' } else { '?' };
        let url =
            if is_body { format!("{}{path}", self.address) } else { format!("{}{path}{joint}{form}", self.address) };
        let url = format!("{url}{}", self.list_parameters(&step.method, &path, &url));
        let (kind, body) = match &step.body {
            Some(body) if step.is_text => ("text/plain", filled(body, names)),
            Some(body) => ("application/json", filled(body, names)),
            None if is_body => ("application/x-www-form-urlencoded", form),
            None => ("", String::new()),
        };
        let mut request = ureq::http::Request::builder().method(step.method.as_str()).uri(url);
        if let Some(session) = step.user.as_ref().and_then(|user| self.sessions.get(user)) {
            request = request.header("Authorization", format!("Splunk {session}"));
        }
        if !kind.is_empty() {
            request = request.header("Content-Type", kind);
        }
        let agent = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0).build().new_agent();
        let mut answer = match step.method.as_str() {
            "POST" => agent.run(request.body(body).unwrap()),
            _ => agent.run(request.body(()).unwrap()),
        }
        .unwrap_or_else(|error| panic!("{} {path}: {error}", step.method));
        let header = |(name, value): (&ureq::http::HeaderName, &ureq::http::HeaderValue)| {
            (name.to_string(), value.to_str().unwrap_or_default().to_owned())
        };
        let headers: Vec<(String, String)> = answer.headers().iter().map(header).collect();
        let status = answer.status().as_u16();
        let answer = Answer { status, headers, text: answer.body_mut().read_to_string().unwrap_or_default() };
        self.hold(&step.method, &path, &answer);
        answer
    }

    /// The parameters of lists that the endpoint of a change does not declare, to be appended to its URL.
    fn list_parameters(&self, method: &str, path: &str, url: &str) -> String {
        if !self.adds_list_parameters || method == "GET" {
            return String::new();
        }
        let path = path.split('?').next().unwrap_or_default();
        let rows = ENDPOINTS.iter().filter(|row| row.method.as_str() == method && is_of(path, &row.path));
        let declared: BTreeSet<&str> = rows.flat_map(|row| row.takes.iter().copied()).collect();
        let added = LIST_PARAMETERS.iter().filter(|(name, _)| !declared.contains(name));
        let added: Vec<String> = added.map(|(name, value)| format!("{name}={value}")).collect();
        format!("{}{}", if url.contains('?') { '&' } else { '?' }, added.join("&"))
    }

    /// Validates an answer against its schema and records a difference.
    fn hold(&mut self, method: &str, path: &str, answer: &Answer) {
        let Some(description) = &self.description else { return };
        let media_type = answer.headers.iter().find(|(name, _)| name == "content-type").map(|(_, kind)| kind.as_str());
        let (path, status, text) = (path.split('?').next().unwrap_or_default(), answer.status, answer.text.as_str());
        if let Some(fault) = description.fault(&AnswerFacts { method, path, status, media_type, text }) {
            self.undescribed.insert(format!("{method} {path} answers {status} outside its schema: {fault}"));
        }
    }

    /// Differences between an answer and the page.
    fn faults(step: &Step, answer: &Answer, names: &mut Names) -> Vec<String> {
        let mut faults = Vec::new();
        if answer.status != step.status {
            faults.push(format!("status {}, not {}", answer.status, step.status));
        }
        let json: Value = serde_json::from_str(&answer.text).unwrap_or(Value::Null);
        for line in &step.expected {
            // A name that the line defines must not be replaced by its earlier value.
            let line = if line.contains(" -> ") { line.clone() } else { filled(line, names) };
            if let Err(fault) = check(&line, answer, &json, names) {
                faults.push(format!("{line}: {fault}"));
            }
        }
        faults
    }

    fn run(&mut self, name: &str, text: &str) -> Vec<String> {
        let page = match read_page(text) {
            Ok(page) => page,
            Err(fault) => return vec![format!("spec/rest/{name}:{fault}")],
        };
        let mut faults = Vec::new();
        for row in &page.rows {
            let folder = self.place.path("").display().to_string().trim_end_matches('/').to_owned();
            let folder = Names::from([("$PLACE".to_owned(), folder)]);
            let mut names: Names = row.iter().map(|(name, value)| (name.clone(), filled(value, &folder))).collect();
            names.extend(folder);
            for step in &page.steps {
                let place = format!("spec/rest/{name}:{} {} {}", step.line, step.method, filled(&step.path, &names));
                if filled(&step.path, &names).contains('$') {
                    faults.push(format!("{place}: a name has no value"));
                    continue;
                }
                let mut found = Vec::new();
                for _ in 0..if step.until { REPETITIONS_MAX } else { 1 } {
                    let answer = self.ask(step, &names);
                    found = World::faults(step, &answer, &mut names);
                    if found.is_empty() {
                        break;
                    }
                    found.push(format!("answered: {}", answer.text.chars().take(1500).collect::<String>()));
                }
                faults.extend((!found.is_empty()).then(|| format!("{place}\n  {}", found.join("\n  "))));
            }
        }
        faults
    }
}

/// Compares one line of a page with an answer.
fn check(line: &str, answer: &Answer, json: &Value, names: &mut Names) -> Result<(), String> {
    if let Some(rest) = line.strip_prefix("header ") {
        let (name, value) = rest.split_once(" = ").ok_or("not understood")?;
        let found = answer.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
        return match found {
            Some((_, found)) if found == value => Ok(()),
            found => Err(format!("it is {found:?}")),
        };
    }
    let (pointer, verb, value) = parts(line).ok_or("not understood")?;
    let text = Value::String(answer.text.clone());
    let found = if pointer.is_empty() && verb != "counts" { Some(&text) } else { json.pointer(pointer) };
    let Some(found) = found else {
        return if verb == "lacks" { Ok(()) } else { Err("nothing is there".to_owned()) };
    };
    let wanted: Value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    let holds = match verb {
        // The value of a name is a string, even if it has only digits.
        "=" => *found == wanted || names.values().any(|bound| bound == value) && found.as_str() == Some(value),
        "has" => has(found, value, &wanted),
        "lacks" => !has(found, value, &wanted),
        "counts" => size(found) == wanted.as_u64(),
        _ => {
            let bound = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            names.insert(value.to_owned(), bound);
            true
        }
    };
    if holds { Ok(()) } else { Err(format!("it is {}", found.to_string().chars().take(400).collect::<String>())) }
}

fn parts(line: &str) -> Option<(&str, &str, &str)> {
    let verbs: [&'static str; 5] = ["=", "has", "lacks", "counts", "->"];
    for verb in verbs {
        if let Some(value) = line.strip_prefix(&format!("{verb} ")) {
            return Some(("", verb, value));
        }
    }
    let (at, verb) = verbs.into_iter().filter_map(|verb| Some((line.find(&format!(" {verb} "))?, verb))).min()?;
    Some((&line[..at], verb, &line[at + verb.len() + 2..]))
}

fn has(found: &Value, text: &str, wanted: &Value) -> bool {
    match found {
        Value::Array(elements) => elements.contains(wanted),
        Value::Object(members) => members.contains_key(text),
        Value::String(found) => found.contains(text),
        _ => false,
    }
}

fn size(found: &Value) -> Option<u64> {
    match found {
        Value::Array(elements) => Some(elements.len() as u64),
        Value::Object(members) => Some(members.len() as u64),
        _ => None,
    }
}

/// True if a requested path matches a path of the table, whose placeholders may have any value.
fn is_of(asked: &str, row: &str) -> bool {
    let asked = match asked.strip_prefix("/servicesNS/") {
        Some(rest) => format!("/services/{}", rest.splitn(3, '/').nth(2).unwrap_or_default()),
        None => asked.to_owned(),
    };
    let (asked, row): (Vec<&str>, Vec<&str>) = (asked.split('/').collect(), row.split('/').collect());
    asked.len() == row.len() && asked.iter().zip(&row).all(|(asked, row)| asked == row || row.starts_with('{'))
}

/// Runs all pages; `adds_list_parameters` adds [`LIST_PARAMETERS`] to changes.
fn run_pages(gateway: Option<&Gateway>, adds_list_parameters: bool) {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/rest");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    files.sort();
    let mut world = World::new(gateway);
    world.adds_list_parameters = adds_list_parameters;
    let mut faults = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        faults.extend(world.run(&name, &std::fs::read_to_string(&file).unwrap()));
    }
    if gateway.is_some() {
        // The page migrates an index to its current location, whose name differs on S3 ([`crate::remote_volumes`] tests
        // migration).
        faults.retain(|fault| !fault.contains("/services/quarry/buckets/migrate"));
    }
    // A path is served only by the row whose fixed parts match best, so every row needs its own request.
    // An alias has the handler of the row that it repeats.
    for row in ENDPOINTS.iter().filter(|row| row.alias_of.is_none()) {
        let path = row.path.replacen("/servicesNS/{user}/{app}", "/services", 1);
        let is_asked = |(method, asked): &(String, String)| *method == row.method.as_str() && is_of(asked, &path);
        if !world.asked.iter().any(is_asked) {
            faults.push(format!("no page asks for {} {}", row.method, row.path));
        }
    }
    faults.dedup();
    faults.extend(world.undescribed);
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

/// Splunk's clients expect Atom if they do not name a format.
#[test]
fn lists_are_answered_in_atom_unless_json_is_asked_for() {
    let mut world = World::new(None);
    let is_list =
        |path: &str| path.starts_with("/services") && !path.starts_with("/services/quarry/") && !path.contains('{');
    let lists = ENDPOINTS.iter().filter(|row| row.method == "GET" && is_list(&row.path));
    let mut asked = 0;
    for row in lists {
        for (mode, wanted) in [("none", "text/xml"), ("json", "application/json")] {
            let parameters = vec![("output_mode".to_owned(), mode.to_owned())];
            let (method, path, user) = ("GET".to_owned(), row.path.clone(), Some("admin".to_owned()));
            let answer = world.ask(&Step { method, path, user, parameters, ..Step::default() }, &Names::new());
            let kind = answer.headers.iter().find(|(name, _)| name == "content-type").map(|(_, kind)| kind.as_str());
            assert!(kind.is_some_and(|kind| kind.starts_with(wanted)), "{} {mode}: {kind:?}", row.path);
            asked += 1;
        }
    }
    assert!(asked > 150, "{asked}");
    assert!(world.undescribed.is_empty(), "{:#?}", world.undescribed);
}

/// `| rest` shows entries as their endpoints do: title, author, permissions, and the fields of the content.
#[test]
fn rows_of_rest_match_the_endpoint_schemas() {
    let mut world = World::new(None);
    let of_entries = ["title", "author", "id", "updated", "splunk_server"];
    let (mut faults, mut rows) = (Vec::new(), 0);
    for path in quarry_api::listed_paths() {
        let members = world.description.as_ref().and_then(|description| description.content_members(&path));
        let parameters = [("search", format!("| rest {path}")), ("exec_mode", "oneshot".to_owned())];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let (method, user) = ("POST".to_owned(), Some("admin".to_owned()));
        let step = Step { method, path: "/services/search/jobs".to_owned(), user, parameters, ..Step::default() };
        let answer = world.ask(&step, &Names::new());
        let found: Value = serde_json::from_str(&answer.text).unwrap();
        let Some(found) = found["results"].as_array() else {
            // Information about cluster members is unavailable to searches as well.
            faults.extend(
                (!answer.text.contains("is not enabled on this node")).then(|| format!("{path}: {}", answer.text)),
            );
            continue;
        };
        rows += found.len();
        let Some(members) = members else { continue };
        // Objects are shown with the names of their members.
        let is_described = |field: &str| {
            of_entries.contains(&field)
                || field.starts_with("eai:acl.")
                || members
                    .iter()
                    .any(|known| field.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
        };
        let fields: BTreeSet<&String> = found.iter().filter_map(Value::as_object).flat_map(|row| row.keys()).collect();
        faults.extend(fields.into_iter().filter(|field| !is_described(field)).map(|field| format!("{path}: {field}")));
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(rows > 200, "{rows}");
}

#[test]
fn every_endpoint_answers_as_documented() {
    run_pages(None, false);
}

#[test]
fn every_endpoint_answers_alike_with_the_data_on_an_s3_server() {
    let Some(gateway) = Gateway::start() else { return };
    run_pages(Some(&gateway), false);
}

#[test]
fn parameters_of_lists_in_urls_do_not_affect_changes() {
    run_pages(None, true);
}
