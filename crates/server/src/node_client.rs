//! REST requests for objects: to the server that has the data directory open, to another node, or, if no server runs,
//! to a node opened in this process.
//!
//! All three nodes have the same endpoints, so validation, permissions and file locations are implemented once. Not
//! here: searches, whose rows are streamed ([`crate::search`]).

use std::path::Path;

use quarry_api::{Method, answer_in_process};
use quarry_ingest::write_audit_round;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::cli::NodeArgs;
use crate::data_directory::{self, Settings};
use crate::failure::Failure;
use crate::open_node::{OpenNode, THREAD_STACK_BYTES};
use crate::server_client::{Remote, credentials, parse_message, read_json, unreadable_text};

/// Process that answers requests.
pub(crate) enum NodeClient {
    Server(Remote),
    /// The node in this process.
    InProcess(Box<InProcessNode>),
}

/// The node of a data directory, opened in this process.
pub(crate) struct InProcessNode {
    // This field is dropped first, because its threads use the node.
    runtime: Runtime,
    open: OpenNode,
    /// `Authorization` header from the command line; without it, requests have the rights of the folder's owner.
    authorization: Option<String>,
}

impl Drop for InProcessNode {
    fn drop(&mut self) {
        let ingest = &self.open.node.ingest;
        write_audit_round(ingest, &self.open.state.auth);
        ingest.store.close();
    }
}

impl NodeClient {
    /// The node that the command line selects. A missing data directory is created if `writes` is set.
    pub(crate) fn of(node: &NodeArgs, data_dir: &Path, writes: bool) -> Result<NodeClient, Failure> {
        if let Some(remote) = Remote::of(node, data_dir)? {
            return Ok(NodeClient::Server(remote));
        }
        if !writes {
            quarry_ingest::check_exists(data_dir)?;
        }
        let settings = Settings::of_data_dir(data_dir);
        let store = data_directory::open_to_add(data_dir, &settings)?;
        let open = OpenNode::new(data_dir, settings, store)?;
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().thread_stack_size(THREAD_STACK_BYTES).build();
        let runtime = runtime.map_err(|error| Failure::Storage(format!("cannot start threads: {error}")))?;
        Ok(NodeClient::InProcess(Box::new(InProcessNode { runtime, open, authorization: credentials(node)? })))
    }

    pub(crate) fn get(&self, path: &str) -> Result<Value, Failure> {
        self.request(&Method::GET, path, &[])
    }

    /// `POST` of a form.
    pub(crate) fn post(&self, path: &str, form: &[(&str, &str)]) -> Result<Value, Failure> {
        self.request(&Method::POST, path, form)
    }

    pub(crate) fn delete(&self, path: &str) -> Result<Value, Failure> {
        self.request(&Method::DELETE, path, &[])
    }

    fn request(&self, method: &Method, path: &str, form: &[(&str, &str)]) -> Result<Value, Failure> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{mark}output_mode=json");
        let (status, body) = match self {
            NodeClient::Server(remote) => remote.request(method.as_str(), &path, form)?,
            NodeClient::InProcess(here) => {
                let shown = here.authorization.as_deref();
                let answer = answer_in_process(&here.open.state, method.clone(), &path, shown, form);
                let answer = here.runtime.block_on(answer)?;
                (answer.status, answer.body)
            }
        };
        if status < 400 {
            return read_json(&body);
        }
        let address = if let NodeClient::Server(remote) = self { remote.address() } else { "of this process" };
        let message = parse_message(&body).unwrap_or_else(|| unreadable_text(address, status, &body));
        Err(if status < 500 { Failure::Usage(message) } else { Failure::Storage(message) })
    }
}
