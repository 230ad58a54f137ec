//! `rest`: lists the entries of a REST endpoint of this node.

mod answer;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::functions::percent_decode;
use quarry_eval::pattern::Wildcard;
use quarry_eval::rows::{RowIter, batch_of, of_batches};
use quarry_spl::ast::RestCommand;
use quarry_stdx::{ErrorKind, Fault};

use super::Execute;
use crate::knowledge::list_names;
use crate::lowering::SearchEnvironment;
use crate::node::{EntriesRequest, NodeEntry, THIS_NODE, table_of};

/// Maximum number of entries if `count=` sets no other.
const ENTRIES_MAX: usize = 100_000;

impl Execute for RestCommand {
    fn generate(&self, search: &dyn SearchEnvironment) -> Result<Option<RowIter>, EngineError> {
        Ok(Some(of_batches(vec![rows_of(self, search)?])))
    }
}

fn rows_of(command: &RestCommand, search: &dyn SearchEnvironment) -> Result<RecordBatch, EngineError> {
    let failed = |fault: Fault| EngineError::at(fault, command.span);
    let server = search.node().name();
    let is_asked = |name: &String| {
        let name = Wildcard::new(name, false);
        name.is_match(THIS_NODE) || name.is_match(&server)
    };
    if !command.servers.is_empty() && !command.servers.iter().any(is_asked) {
        let names = command.servers.join(", ");
        let message = format!("rest: there is no server {names}; this node is called {server} and queries no other");
        search.context().messages.push(message);
        return batch_of(Vec::<(String, _)>::new(), 0);
    }
    let (endpoint, arguments) = command.path.split_once('?').unwrap_or((&command.path, ""));
    let endpoint = endpoint.trim_end_matches('/');
    let wanted = command.search.as_deref();
    let request = EntriesRequest { path: endpoint, arguments, search: wanted, count: command.count };
    let entries = match entries_at(&request, search) {
        // As in Splunk, an endpoint of a part that this node does not have (a cluster) has no entries.
        Err(fault) if fault.kind() == ErrorKind::NotFound && !command.strict => {
            search.context().messages.push(fault.with_context("rest").to_string());
            return batch_of(Vec::<(String, _)>::new(), 0);
        }
        entries => entries.map_err(|fault| failed(fault.with_context("rest")))?,
    };
    let Some(mut entries) = entries else {
        let known = search.node().endpoints();
        let hint = match known.is_empty() {
            true => "this search runs without a node".to_owned(),
            false => format!("existing endpoints: {}", list_names(&known)),
        };
        let message = format!("rest: there is no endpoint {endpoint}; {hint}");
        if command.strict {
            return Err(failed(Fault::not_found(message)));
        }
        search.context().messages.push(message);
        return batch_of(Vec::<(String, _)>::new(), 0);
    };
    let limit = if command.count == 0 { ENTRIES_MAX } else { command.count };
    entries.truncate(limit);
    if !command.fields.is_empty() {
        entries.iter_mut().for_each(|entry| {
            entry.retain(|(name, _)| name == "title" || command.fields.iter().any(|field| field == name));
        });
    }
    if command.as_text {
        let text =
            answer::render_entries(&command.path, &entries).map_err(|fault| failed(fault.with_context("rest")))?;
        return table_of(&[vec![("splunk_server".to_owned(), vec![server]), ("value".to_owned(), vec![text])]]);
    }
    entries.iter_mut().for_each(|entry| entry.push(("splunk_server".to_owned(), vec![server.clone()])));
    table_of(&entries)
}

/// The entries of an endpoint, or the entry named by the last part of the path, which may be percent-encoded.
fn entries_at(request: &EntriesRequest<'_>, search: &dyn SearchEnvironment) -> Result<Option<Vec<NodeEntry>>, Fault> {
    let viewer = search.context().permissions.as_ref();
    if let Some(entries) = search.node().listed(request, viewer)? {
        return Ok(Some(entries));
    }
    let Some((parent, name)) = request.path.rsplit_once('/') else { return Ok(None) };
    let of_parent = EntriesRequest { path: parent, count: 0, ..*request };
    let Some(mut entries) = search.node().listed(&of_parent, viewer)? else { return Ok(None) };
    let name = percent_decode(name);
    entries.retain(|entry| entry.iter().any(|(field, values)| field == "title" && values.contains(&name)));
    Ok((!entries.is_empty()).then_some(entries))
}
