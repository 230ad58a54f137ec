//! The command line as a client of the server that has the data folder open.
//!
//! `D/run/server.json` (mode 0600) says where it listens and holds a token for whoever may read the file.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::failure::Failure;

/// Name of the file a server writes, below the data folder.
pub(crate) const RUN_FILE: &str = "run/server.json";

/// How long a server may take to answer a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// A running server.
pub(crate) struct Remote {
    address: String,
    token: String,
    agent: ureq::Agent,
}

/// Answer of a oneshot search.
pub(crate) struct RemoteAnswer {
    /// Field names in order.
    pub(crate) fields: Vec<String>,
    /// Rows: values of each field that a row has.
    pub(crate) rows: Vec<BTreeMap<String, Vec<String>>>,
    /// Messages of the search.
    pub(crate) messages: Vec<String>,
    /// Whether data is missing from the answer.
    pub(crate) partial: bool,
    /// Whether the rows are events.
    pub(crate) events: bool,
}

impl Remote {
    /// The server of `data_dir`, when one runs and answers; a run file left by a crash counts as none.
    pub(crate) fn find(data_dir: &Path) -> Option<Remote> {
        let text = std::fs::read_to_string(data_dir.join(RUN_FILE)).ok()?;
        let value: Value = serde_json::from_str(&text).ok()?;
        let text_of = |key: &str| value[key].as_str().map(str::to_owned);
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let remote = Remote { address: text_of("mgmt")?, token: text_of("token")?, agent: config.into() };
        let address = remote.address.parse().ok()?;
        std::net::TcpStream::connect_timeout(&address, CONNECT_WAIT).ok().map(|_| remote)
    }

    /// Indexes a file of the server's machine; gives the report.
    pub(crate) fn add_file(&self, form: &[(&str, &str)]) -> Result<Value, Failure> {
        read_json(&self.post("/services/data/inputs/oneshot", form)?.body)
    }

    /// Buckets as the server sees them.
    pub(crate) fn buckets(&self) -> Result<Value, Failure> {
        let url = format!("http://{}/services/quarry/buckets", self.address);
        let answer = self.agent.get(&url).header("Authorization", &self.authorization()).call();
        read_json(&self.read(answer)?.body)
    }

    /// Has the server check every bucket.
    pub(crate) fn verify(&self) -> Result<Value, Failure> {
        read_json(&self.post("/services/quarry/buckets/verify", &[])?.body)
    }

    /// Has the server merge buckets; gives the report.
    pub(crate) fn compact(&self) -> Result<Value, Failure> {
        read_json(&self.post("/services/quarry/buckets/compact", &[])?.body)
    }

    /// Runs a search to its end.
    pub(crate) fn search(&self, form: &[(&str, &str)]) -> Result<RemoteAnswer, Failure> {
        let answer = self.post("/services/search/jobs", form)?;
        let value = read_json(&answer.body)?;
        let list = |key: &str| value[key].as_array().cloned().unwrap_or_default();
        let name_of = |field: &Value| field["name"].as_str().unwrap_or_default().to_owned();
        let text_of = |message: &Value| message["text"].as_str().unwrap_or_default().to_owned();
        Ok(RemoteAnswer {
            fields: list("fields").iter().map(name_of).collect(),
            rows: list("results").iter().map(row).collect(),
            messages: list("messages").iter().map(text_of).collect(),
            partial: answer.partial,
            events: answer.events,
        })
    }

    fn authorization(&self) -> String {
        format!("Splunk {}", self.token)
    }

    fn post(&self, path: &str, form: &[(&str, &str)]) -> Result<Answer, Failure> {
        let url = format!("http://{}{path}", self.address);
        let request = self.agent.post(&url).header("Authorization", &self.authorization());
        self.read(request.send_form(form.iter().copied()))
    }

    /// The body of a good answer; the server's own words otherwise.
    fn read(&self, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Answer, Failure> {
        let failed = |error: ureq::Error| Failure::Storage(format!("server {}: {error}", self.address));
        let mut answer = answer.map_err(failed)?;
        let flag = |name: &str| answer.headers().get(name).is_some_and(|value| value == "1");
        let (partial, events) = (flag("x-quarry-partial"), flag("x-quarry-events"));
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(u64::MAX).read_to_string().map_err(failed)?;
        if status.is_success() {
            return Ok(Answer { partial, events, body });
        }
        let message = message_of(&body).unwrap_or(body);
        if status.is_client_error() { Err(Failure::Search(message)) } else { Err(Failure::Storage(message)) }
    }
}

/// A good answer.
struct Answer {
    partial: bool,
    events: bool,
    body: String,
}

fn read_json(body: &str) -> Result<Value, Failure> {
    serde_json::from_str(body).map_err(|error| Failure::Storage(format!("the server's answer is no JSON: {error}")))
}

/// Text of Splunk's error form.
fn message_of(body: &str) -> Option<String> {
    let value: Value = serde_json::from_str(body).ok()?;
    Some(value["messages"][0]["text"].as_str()?.to_owned())
}

fn row(value: &Value) -> BTreeMap<String, Vec<String>> {
    let texts = |value: &Value| match value {
        Value::Array(values) => values.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect(),
        Value::String(text) => vec![text.clone()],
        other => vec![other.to_string()],
    };
    value.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), texts(value))).collect()
}
