//! The command line as a client of the server that has the data folder open.
//!
//! `D/run/server.json` (mode 0600) has the server's address and a token for anyone who can read the file.

mod answer;

use std::path::Path;
use std::time::Duration;

use quarry_apps::run_file::RUN_FILE;
use quarry_auth::UserChange;
use quarry_conf::Namespace;
use serde_json::Value;

use crate::failure::Failure;

pub(crate) use answer::{AnswerRow, RemoteAnswer};

/// Root of paths.
const SERVICES: &str = "/services";
/// Path of users.
const USERS: &str = "/services/authentication/users";
/// Connection timeout.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// A running server.
pub(crate) struct Remote {
    address: String,
    token: String,
    agent: ureq::Agent,
    /// Root of search paths.
    root: String,
}

impl Remote {
    /// The server of `data_dir`, if one runs and answers; a run file left by a crash is ignored.
    pub(crate) fn find(data_dir: &Path) -> Option<Remote> {
        let text = std::fs::read_to_string(data_dir.join(RUN_FILE)).ok()?;
        let value: Value = serde_json::from_str(&text).ok()?;
        let text_of = |key: &str| value[key].as_str().map(str::to_owned);
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let remote = Remote {
            address: text_of("mgmt")?,
            token: text_of("token")?,
            agent: config.into(),
            root: SERVICES.to_owned(),
        };
        let address = remote.address.parse().ok()?;
        std::net::TcpStream::connect_timeout(&address, CONNECT_WAIT).ok().map(|_| remote)
    }

    /// Its address.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The same server for searches of a namespace.
    pub(crate) fn in_namespace(self, namespace: Option<&Namespace>) -> Remote {
        let Some(namespace) = namespace else { return self };
        let (user, app) = (encoded(namespace.user().unwrap_or("nobody")), encoded(namespace.app()));
        Remote { root: format!("{SERVICES}NS/{user}/{app}"), ..self }
    }

    /// Indexes a file on the server; returns the report.
    pub(crate) fn add_file(&self, form: &[(&str, &str)]) -> Result<Value, Failure> {
        read_json(&self.post("/services/data/inputs/oneshot", form)?)
    }

    /// The server's buckets.
    pub(crate) fn buckets(&self) -> Result<Value, Failure> {
        let url = format!("http://{}/services/quarry/buckets", self.address);
        let answer = self.agent.get(&url).header("Authorization", &self.authorization()).call();
        read_json(&self.read(answer)?)
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

    /// Has the server move the buckets of an index; gives the report.
    pub(crate) fn migrate(&self, index: &str, to: &str) -> Result<Value, Failure> {
        read_json(&self.post("/services/quarry/buckets/migrate", &[("index", index), ("to", to)])?)
    }

    /// The users, as listed over REST.
    pub(crate) fn users(&self) -> Result<Value, Failure> {
        let url = format!("http://{}{USERS}?output_mode=json&count=0", self.address);
        read_json(&self.read_of_users(self.agent.get(&url).header("Authorization", &self.authorization()).call())?)
    }

    /// Changes users on the server.
    pub(crate) fn change_users(&self, change: &UserChange) -> Result<(), Failure> {
        let path = format!("{USERS}/{}", encoded(change.name()));
        let changed = match change {
            UserChange::Add { name, password, roles } => {
                let mut form = vec![("name", name.as_str()), ("password", password.as_str())];
                form.extend(roles.iter().map(|role| ("roles", role.as_str())));
                self.send(USERS, &form)
            }
            UserChange::Edit { password, roles, .. } => {
                let mut form: Vec<(&str, &str)> =
                    password.iter().map(|password| ("password", password.as_str())).collect();
                form.extend(roles.iter().flatten().map(|role| ("roles", role.as_str())));
                self.send(&path, &form)
            }
            UserChange::Remove { .. } => {
                let url = format!("http://{}{path}", self.address);
                self.agent.delete(&url).header("Authorization", &self.authorization()).call()
            }
        };
        self.read_of_users(changed).map(drop)
    }

    /// As [`Remote::read`]; a refusal means that the command line was wrong.
    fn read_of_users(&self, answer: Result<Response, ureq::Error>) -> Result<String, Failure> {
        self.read(answer).map_err(|failure| match failure {
            Failure::Search(text) => Failure::Usage(text),
            other => other,
        })
    }

    /// Explains a search, as printable text.
    pub(crate) fn explain(&self, form: &[(&str, &str)]) -> Result<String, Failure> {
        self.post(&format!("{}/quarry/explain", self.root), &typed(form))
    }

    /// Runs a search to its end.
    pub(crate) fn search(&self, form: &[(&str, &str)]) -> Result<RemoteAnswer, Failure> {
        let mut answer = self.answer(self.send(&format!("{}/search/jobs", self.root), &typed(form)))?;
        let flag = |name: &str| answer.headers().get(name).is_some_and(|value| value == "1");
        let (partial, events) = (flag("x-quarry-partial"), flag("x-quarry-events"));
        if !answer.status().is_success() {
            return Err(self.refusal(&mut answer));
        }
        let body = answer.into_body().into_with_config().limit(u64::MAX).reader();
        Ok(RemoteAnswer { partial, events, body: Box::new(body) })
    }

    fn authorization(&self) -> String {
        format!("Splunk {}", self.token)
    }

    fn send(&self, path: &str, form: &[(&str, &str)]) -> Result<Response, ureq::Error> {
        let url = format!("http://{}{path}", self.address);
        let request = self.agent.post(&url).header("Authorization", &self.authorization());
        request.send_form(form.iter().copied())
    }

    fn post(&self, path: &str, form: &[(&str, &str)]) -> Result<String, Failure> {
        self.read(self.send(path, form))
    }

    fn answer(&self, answer: Result<Response, ureq::Error>) -> Result<Response, Failure> {
        answer.map_err(|error| Failure::Storage(format!("server {}: {error}", self.address)))
    }

    /// The body of a successful answer; otherwise the server's error.
    fn read(&self, answer: Result<Response, ureq::Error>) -> Result<String, Failure> {
        let mut answer = self.answer(answer)?;
        if !answer.status().is_success() {
            return Err(self.refusal(&mut answer));
        }
        self.body(&mut answer)
    }

    fn body(&self, answer: &mut Response) -> Result<String, Failure> {
        let failed = |error: ureq::Error| Failure::Storage(format!("server {}: {error}", self.address));
        answer.body_mut().with_config().limit(u64::MAX).read_to_string().map_err(failed)
    }

    /// The server's error as a failure.
    fn refusal(&self, answer: &mut Response) -> Failure {
        let body = match self.body(answer) {
            Ok(body) => body,
            Err(failure) => return failure,
        };
        let message = message_of(&body).unwrap_or(body);
        if answer.status() == ureq::http::StatusCode::NOT_FOUND {
            return Failure::NoApp(message);
        }
        if answer.status().is_client_error() { Failure::Search(message) } else { Failure::Storage(message) }
    }
}

type Response = ureq::http::Response<ureq::Body>;

/// A form with a search typed on a command line: it may begin with search terms.
fn typed<'f>(form: &[(&'f str, &'f str)]) -> Vec<(&'f str, &'f str)> {
    form.iter().copied().chain([("implied_search", "1")]).collect()
}

/// A name encoded as a path segment.
fn encoded(name: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    name.bytes()
        .map(|byte| if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn read_json(body: &str) -> Result<Value, Failure> {
    serde_json::from_str(body).map_err(|error| Failure::Storage(format!("the server's answeris not JSON: {error}")))
}

/// The text in Splunk's error form.
fn message_of(body: &str) -> Option<String> {
    let value: Value = serde_json::from_str(body).ok()?;
    Some(value["messages"][0]["text"].as_str()?.to_owned())
}
