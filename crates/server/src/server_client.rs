//! The command line as a client of a server: the server that has the data directory open, or the server that `--uri`
//! names.
//!
//! `run/server.json` in the data directory ([`quarry_apps::run_file`], mode 0600) has the local server's address and a
//! token; anyone who can read the file may use the server. Other nodes get a user's password or token, and their
//! certificate is verified unless `--insecure` is given ([`address`]).

mod address;
mod answer;

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use jiff::tz::TimeZone;
use quarry_apps::run_file;
use quarry_conf::Namespace;
use quarry_search::ResultTable;
use serde_json::Value;
use ureq::http::StatusCode;

use crate::cli::NodeArgs;
use crate::failure::Failure;
use crate::output::text_width::{escape_line, truncate};
use crate::zone;

pub(crate) use address::authorization as credentials;
use answer::NextPage;
pub(crate) use answer::{AnswerRow, RemoteAnswer};

/// Root of the REST paths.
const SERVICES: &str = "/services";
/// Maximum number of columns shown of an error that is not in Splunk's format.
const REASON_COLUMNS: usize = 200;
/// Rows of a job's result per request.
const PAGE_ROWS: usize = 50_000;
/// Message shown for wrong credentials instead of the server's answer, which has Splunk's words.
const LOGIN_FAILED: &str = "login failed: wrong user name or password, or the session has ended";
/// Connection timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A running server.
#[derive(Clone)]
pub(crate) struct Remote {
    /// Scheme, host and port.
    base: String,
    /// `Authorization` header of the requests.
    authorization: String,
    agent: ureq::Agent,
    /// Root of the paths of searches; depends on the namespace.
    root: String,
}

impl Remote {
    /// Finds the server of `data_dir`, if a server is running and answers.
    pub(crate) fn find(data_dir: &Path) -> Option<Remote> {
        let value = run_file::read(data_dir)?;
        let text_of = |key: &str| value[key].as_str().map(str::to_owned);
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let address = text_of("mgmt")?;
        let remote = Remote {
            base: format!("http://{address}"),
            authorization: format!("Splunk {}", text_of("token")?),
            agent: config.into(),
            root: SERVICES.to_owned(),
        };
        let address = address.parse().ok()?;
        std::net::TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).ok().map(|_| remote)
    }

    /// The server to send requests to, if any: the server that the command line names, or else the server of the data
    /// directory.
    pub(crate) fn of(node: &NodeArgs, data_dir: &Path) -> Result<Option<Remote>, Failure> {
        let shown = address::authorization(node)?;
        let Some(uri) = &node.uri else {
            let found = Remote::find(data_dir);
            return Ok(found
                .map(|found| Remote { authorization: shown.unwrap_or_else(|| found.authorization.clone()), ..found }));
        };
        let base = address::parse_base(uri)?;
        let authorization = shown.ok_or_else(|| {
            Failure::Usage(format!("{base} requires a login: give --auth USER (it asks for the password) or --token"))
        })?;
        Ok(Some(Remote { base, authorization, agent: address::agent(node)?, root: SERVICES.to_owned() }))
    }

    pub(crate) fn address(&self) -> &str {
        self.base.split_once("://").map_or(self.base.as_str(), |(_, address)| address)
    }

    /// Returns this server for searches in a namespace.
    pub(crate) fn in_namespace(self, namespace: Option<&Namespace>) -> Remote {
        let Some(namespace) = namespace else { return self };
        let (user, app) = (encode_segment(namespace.user().unwrap_or("nobody")), encode_segment(namespace.app()));
        Remote { root: format!("{SERVICES}NS/{user}/{app}"), ..self }
    }

    /// Indexes a file on the server; returns the report.
    pub(crate) fn add_file(&self, form: &[(&str, &str)]) -> Result<Value, Failure> {
        let form: Vec<(&str, &str)> = form.iter().copied().chain([("output_mode", "json")]).collect();
        let mut feed = read_json(&self.post("/services/data/inputs/oneshot", &form)?)?;
        Ok(feed.pointer_mut("/entry/0/content").map(Value::take).unwrap_or_default())
    }

    /// Sends the content of a file to be indexed, with its metadata in `given`; returns the report.
    pub(crate) fn send_file(&self, given: &[(&str, &str)], content: Box<dyn Read>) -> Result<Value, Failure> {
        let given: Vec<String> = given.iter().map(|(key, value)| format!("{key}={}", encode_segment(value))).collect();
        let path = format!("{}/api/v1/ingest/file?output_mode=json&{}", self.base, given.join("&"));
        let request = self.agent.post(path).header("Authorization", &self.authorization);
        let request = request.header("Content-Type", "application/octet-stream");
        read_json(&self.read(request.send(ureq::SendBody::from_owned_reader(content)))?)
    }

    /// The server's buckets.
    pub(crate) fn buckets(&self) -> Result<Value, Failure> {
        read_json(&self.read(self.get("/services/quarry/buckets"))?)
    }

    /// Names of the server's indexes.
    pub(crate) fn index_names(&self) -> Result<Vec<String>, Failure> {
        let feed = read_json(&self.read(self.get("/services/data/indexes?count=0&output_mode=json"))?)?;
        let entries = feed["entry"].as_array().into_iter().flatten();
        Ok(entries.filter_map(|entry| entry["name"].as_str()).map(str::to_owned).collect())
    }

    /// Verifies every bucket on the server.
    pub(crate) fn verify(&self) -> Result<Value, Failure> {
        read_json(&self.post("/services/quarry/buckets/verify", &[])?)
    }

    /// Merges buckets on the server; returns the report.
    pub(crate) fn compact(&self) -> Result<Value, Failure> {
        read_json(&self.post("/services/quarry/buckets/compact", &[])?)
    }

    /// Thaws an archived bucket on the server; returns its id.
    pub(crate) fn thaw(&self, index: &str, folder: &str) -> Result<Value, Failure> {
        read_json(&self.post("/services/quarry/buckets/thaw", &[("index", index), ("name", folder)])?)
    }

    /// Makes the server move the buckets of an index; returns the report.
    pub(crate) fn migrate(&self, index: &str, to: &str) -> Result<Value, Failure> {
        read_json(&self.post("/services/quarry/buckets/migrate", &[("index", index), ("to", to)])?)
    }

    /// Explains a search; returns printable text.
    pub(crate) fn explain(&self, form: &[(&str, &str)]) -> Result<String, Failure> {
        self.post(&format!("{}/quarry/explain", self.root), &with_typed_search(form))
    }

    /// Runs a search to its end.
    pub(crate) fn search(&self, form: &[(&str, &str)]) -> Result<RemoteAnswer, Failure> {
        let mut answer = self.answer(self.send(&format!("{}/search/jobs", self.root), &without_hints(form)))?;
        if !answer.status().is_success() {
            return Err(self.read_refusal(&mut answer));
        }
        Ok(rows_of(answer, None))
    }

    /// Reads the result of a finished job.
    pub(crate) fn job_result(&self, sid: &str, zone: &TimeZone) -> Result<RemoteAnswer, Failure> {
        let zone = zone::name(zone).map(|zone| format!("&zone={}", encode_segment(&zone))).unwrap_or_default();
        let path = format!(
            "{}/search/v2/jobs/{}/results?output_mode=json_rows&count={PAGE_ROWS}{zone}",
            self.root,
            encode_segment(sid)
        );
        let remote = self.clone();
        let page = move |offset: usize| {
            let mut answer = remote.answer(remote.get(&format!("{path}&offset={offset}")))?;
            if answer.status().is_success() { Ok(answer) } else { Err(remote.read_refusal(&mut answer)) }
        };
        let first = page(0)?;
        Ok(rows_of(first, Some(Box::new(move |offset| Ok(body_of(page(offset)?))))))
    }

    /// Finalizes the search that has the ID `id`; the search then returns the rows found so far.
    pub(crate) fn finalize(&self, id: &str) -> Result<(), Failure> {
        self.post(&format!("{SERVICES}/search/jobs/{}/control", encode_segment(id)), &[("action", "finalize")])
            .map(drop)
    }

    /// Runs a search with a small result; returns its rows and whether they are events.
    pub(crate) fn search_table(&self, text: &str, zone: &TimeZone) -> Result<(ResultTable, bool), Failure> {
        let name = zone::name(zone);
        let mut form = vec![("search", text), ("exec_mode", "oneshot"), ("output_mode", "json_rows"), ("count", "0")];
        form.extend(name.as_deref().map(|name| ("zone", name)));
        let answer = self.search(&form)?;
        let (events, mut names, mut found) = (answer.events, Vec::new(), Vec::new());
        answer.read(&mut |fields, rows| {
            names = fields.to_vec();
            found.extend_from_slice(rows);
            Ok(())
        })?;
        Ok((to_table(&names, &found, zone)?, events))
    }

    /// Runs a search that does not end; returns its answer as a stream.
    pub(crate) fn follow(&self, form: &[(&str, &str)]) -> Result<impl Read, Failure> {
        let mut answer =
            self.answer(self.send(&format!("{}/search/jobs/export", self.root), &with_typed_search(form)))?;
        if !answer.status().is_success() {
            return Err(self.read_refusal(&mut answer));
        }
        Ok(answer.into_body().into_with_config().limit(u64::MAX).reader())
    }

    /// Begins a job, and waits for its end if the form says so; returns its id.
    pub(crate) fn begin_job(&self, form: &[(&str, &str)]) -> Result<String, Failure> {
        let form = [with_typed_search(form), vec![("output_mode", "json")]].concat();
        let answer = read_json(&self.post(&format!("{}/search/jobs", self.root), &form)?)?;
        let no_id = || Failure::Storage(format!("server {}: its answer names no job", self.address()));
        answer["sid"].as_str().map(str::to_owned).ok_or_else(no_id)
    }

    /// Reason why a job failed, if it did.
    pub(crate) fn failure_of_job(&self, sid: &str) -> Result<Option<String>, Failure> {
        let path = format!("{}/search/jobs/{}?output_mode=json", self.root, encode_segment(sid));
        let answer = read_json(&self.read(self.get(&path))?)?;
        let content = &answer["entry"][0]["content"];
        let messages = content["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let fatal = messages.iter().find(|message| message["type"] == "FATAL");
        let reason = fatal.and_then(|message| message["text"].as_str()).unwrap_or("the search failed");
        Ok((content["isFailed"] == true).then(|| reason.to_owned()))
    }

    fn get(&self, path: &str) -> Result<Response, ureq::Error> {
        self.agent.get(format!("{}{path}", self.base)).header("Authorization", &self.authorization).call()
    }

    fn delete(&self, path: &str) -> Result<Response, ureq::Error> {
        self.agent.delete(format!("{}{path}", self.base)).header("Authorization", &self.authorization).call()
    }

    fn send(&self, path: &str, form: &[(&str, &str)]) -> Result<Response, ureq::Error> {
        let request = self.agent.post(format!("{}{path}", self.base)).header("Authorization", &self.authorization);
        request.send_form(form.iter().copied())
    }

    /// Sends a request; returns the status and text of its answer. A form is sent only with `POST`.
    pub(crate) fn request(&self, method: &str, path: &str, form: &[(&str, &str)]) -> Result<(u16, String), Failure> {
        let answer = match method {
            "POST" => self.send(path, form),
            "DELETE" => self.delete(path),
            _ => self.get(path),
        };
        let mut answer = self.answer(answer)?;
        Ok((answer.status().as_u16(), self.body(&mut answer)?))
    }

    fn post(&self, path: &str, form: &[(&str, &str)]) -> Result<String, Failure> {
        self.read(self.send(path, form))
    }

    fn answer(&self, answer: Result<Response, ureq::Error>) -> Result<Response, Failure> {
        answer.map_err(|error| self.failure_of(&error))
    }

    /// Reads the body of a successful answer, or returns the server's error.
    fn read(&self, answer: Result<Response, ureq::Error>) -> Result<String, Failure> {
        let mut answer = self.answer(answer)?;
        if !answer.status().is_success() {
            return Err(self.read_refusal(&mut answer));
        }
        self.body(&mut answer)
    }

    fn body(&self, answer: &mut Response) -> Result<String, Failure> {
        let body = answer.body_mut().with_config().limit(u64::MAX).read_to_string();
        body.map_err(|error| self.failure_of(&error))
    }

    fn failure_of(&self, error: &ureq::Error) -> Failure {
        let hint = if address::is_certificate_error(error) { address::CERTIFICATE_HINT } else { "" };
        Failure::Storage(format!("server {}: {error}{hint}", self.address()))
    }

    /// Converts the server's error to a failure.
    fn read_refusal(&self, answer: &mut Response) -> Failure {
        let body = match self.body(answer) {
            Ok(body) => body,
            Err(failure) => return failure,
        };
        let message =
            parse_message(&body).unwrap_or_else(|| unreadable_text(self.address(), answer.status().as_u16(), &body));
        match answer.status() {
            StatusCode::NOT_FOUND => Failure::NoApp(message),
            // This is not an error in the search: the caller is refused.
            StatusCode::UNAUTHORIZED => Failure::Usage(LOGIN_FAILED.to_owned()),
            StatusCode::TOO_MANY_REQUESTS => Failure::Usage(message),
            status if status.is_client_error() => Failure::Search(message),
            _ => Failure::Storage(message),
        }
    }
}

/// Reader of an answer's rows and of further pages.
fn rows_of(answer: Response, more: Option<NextPage>) -> RemoteAnswer {
    let flag = |name: &str| answer.headers().get(name).is_some_and(|value| value == "1");
    let (partial, events) = (flag("x-quarry-partial"), flag("x-quarry-events"));
    RemoteAnswer { partial, events, body: body_of(answer), more }
}

fn body_of(answer: Response) -> Box<dyn Read> {
    Box::new(answer.into_body().into_with_config().limit(u64::MAX).reader())
}

/// Rows of an answer as a table.
pub(crate) fn to_table(fields: &[String], rows: &[AnswerRow], zone: &TimeZone) -> Result<ResultTable, Failure> {
    let values_of = |row: usize, column: usize| rows[row].get(column).map(Vec::as_slice).unwrap_or_default();
    let table = ResultTable::from_texts(fields, rows.len(), zone.clone(), values_of);
    table.map_err(|error| Failure::Storage(format!("the server's answer cannot be shown: {error}")))
}

type Response = ureq::http::Response<ureq::Body>;

/// Marks the search of a form as typed on a command line, so that it may begin with search terms.
fn with_typed_search<'f>(form: &[(&'f str, &'f str)]) -> Vec<(&'f str, &'f str)> {
    form.iter().copied().chain([("implied_search", "1")]).collect()
}

/// Like [`with_typed_search`], for a client that looks for hints itself.
fn without_hints<'f>(form: &[(&'f str, &'f str)]) -> Vec<(&'f str, &'f str)> {
    with_typed_search(form).into_iter().chain([("hints", "0")]).collect()
}

/// Encodes a name as a path segment.
pub(crate) fn encode_segment(name: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    name.bytes()
        .map(|byte| if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

pub(crate) fn read_json(body: &str) -> Result<Value, Failure> {
    serde_json::from_str(body).map_err(|error| Failure::Storage(format!("the server's answer is not JSON: {error}")))
}

/// The text of an error in Splunk's format: JSON if the request asked for it, else XML.
pub(crate) fn parse_message(body: &str) -> Option<String> {
    match serde_json::from_str::<Value>(body) {
        Ok(value) => {
            let message = &value["messages"][0];
            let text = message["text"].as_str()?;
            let hint = message["hint"].as_str().filter(|hint| !text.contains(hint));
            Some(hint.map_or_else(|| text.to_owned(), |hint| format!("{text} {hint}")))
        }
        Err(_) => message_of_xml(body),
    }
}

/// Text for an error response without a message, such as the response of a proxy; an HTML page is not printed.
pub(crate) fn unreadable_text(address: &str, status: u16, body: &str) -> String {
    let first = body.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let is_page = first.starts_with(['<', '{', '[']);
    let what = if is_page || first.is_empty() {
        "no message".to_owned()
    } else {
        truncate(&escape_line(first), REASON_COLUMNS).into_owned()
    };
    format!("server {address} answers with HTTP status {status}: {what}")
}

/// The text of the first `<msg>`.
fn message_of_xml(body: &str) -> Option<String> {
    let (_, rest) = body.split_once("<msg")?;
    let (_, text) = rest.split_once("</msg>")?.0.split_once('>')?;
    // `&amp;` is decoded last, so that nothing is decoded twice.
    let named = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#39;", "'"), ("&amp;", "&")];
    Some(named.iter().fold(text.trim().to_owned(), |text, (name, character)| text.replace(name, character)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_parsed_from_json_and_xml() {
        for (body, message) in [
            (r#"{"messages":[{"type":"WARN","text":"login failed"}]}"#, Some("login failed")),
            (
                "<?xml version=\"1.0\"?>\n<response><messages><msg type=\"WARN\">a &lt;b&gt; &amp;amp; c</msg></messages></response>",
                Some("a <b> &amp; c"),
            ),
            ("<response><messages><msg>\n plain > text </msg></messages></response>", Some("plain > text")),
            ("{}", None),
            ("Bad Gateway", None),
        ] {
            assert_eq!(parse_message(body).as_deref(), message, "{body}");
        }
    }
}
