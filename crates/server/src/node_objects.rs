//! `quarry add|edit|remove|list|show KIND`: inputs, indexes, users, saved searches and jobs of a node, with Splunk's
//! syntax.
//!
//! Verbs are executed by REST requests ([`crate::node_client`]). Each kind is a table row ([`crate::cli::objects`]),
//! from which the command line, its help, completions and manual pages are generated. Not here: adding files once
//! ([`crate::add`]).

use std::io::{IsTerminal, Write};
use std::net::Ipv4Addr;
use std::path::Path;

use quarry_inputs::file::absolute_text;
use quarry_stdx::log;
use serde_json::{Map, Value, json};

use crate::add::new_index_note;
use crate::bucket::print;
use crate::cli::ListForm;
use crate::cli::objects::{INDEX, ObjectKind, ObjectRequest, ObjectVerb};
use crate::failure::Failure;
use crate::node_client::NodeClient;
use crate::password_input::new_password;
use crate::search;
use crate::server_client::encode_segment;
use crate::user_verbs::check_known_roles;

/// App of new objects unless another is named.
const APP_DEFAULT: &str = "search";
/// The kind whose search is checked before it is saved.
const SAVED_SEARCH: &str = "saved-search";
/// Word in place of a job ID that denotes all jobs.
const ALL: &str = "all";

/// Runs a verb and prints its result; returns the exit code.
pub(crate) fn run(data_dir: &Path, request: &ObjectRequest) -> Result<u8, Failure> {
    let ObjectRequest { verb, kind, name, .. } = request;
    if *verb == ObjectVerb::Edit && request.settings.is_empty() {
        let (word, shown) = (kind.word, name.as_deref().unwrap_or_default());
        return Err(Failure::Usage(format!(
            "nothing to change: `quarry edit {word} --help` lists the settings of {word} {shown}"
        )));
    }
    let mut settings = request.settings.clone();
    if *verb == ObjectVerb::Add && kind.word == "user" && !settings.iter().any(|(key, _)| key == "password") {
        let name = name.as_deref().unwrap_or_default();
        // This check precedes the prompt for the password.
        check_new_user(data_dir, request, name)?;
        settings.push(("password".to_owned(), new_password(name)?));
    }
    check_search(data_dir, request)?;
    let client = NodeClient::of(&request.node, data_dir, *verb == ObjectVerb::Add)?;
    let name = name.as_deref().map(|name| full_name(kind, name, &request.node.uri));
    let root = root(request)?;
    let name = name.map(|name| existing_name(&client, kind, &root, name));
    let form: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let answer = match (verb, name.as_deref()) {
        (ObjectVerb::Add, Some(name)) => client.post(&root, &[&[("name", name)], form.as_slice()].concat())?,
        (ObjectVerb::Edit, Some(name)) => client.post(&entity_path(&root, name), &form)?,
        (ObjectVerb::Remove, Some(name)) => {
            if kind.word == INDEX && !request.is_confirmed {
                confirm_removal(&client, &root, name)?;
            }
            return remove(&client, kind, &root, name);
        }
        (ObjectVerb::List | ObjectVerb::Show, Some(name)) => {
            return show(&client.get(&entity_path(&root, name))?, request.output);
        }
        (_, None) => return list(kind, &client.get(&format!("{root}?count=0"))?, request.output),
    };
    let done = if *verb == ObjectVerb::Add { "added" } else { "changed" };
    log::info(format!("{} {} {done}", kind.word, name.as_deref().unwrap_or_default()));
    if *verb == ObjectVerb::Add
        && let Some(token) = entries(&answer).first().and_then(|entry| entry.get("token")?.as_str())
    {
        // The token is printed on standard output, so that a script can read it.
        writeln!(std::io::stdout().lock(), "{token}")?;
    }
    print_messages(&answer);
    warn_new_index(&client, request);
    warn_index_changed(request);
    // No note is needed for a running server, which has answered whether it listens and may itself use the port.
    if matches!(client, NodeClient::InProcess(_)) {
        warn_port_in_use(*verb, kind, name.as_deref());
    }
    if kind.word == "monitor" && request.node.uri.is_none() {
        name.iter().filter(|name| is_missing(name)).for_each(|name| {
            log::note(format!("{name} does not exist yet; it is watched once it does"));
        });
    }
    Ok(0)
}

/// Refuses a new user without a role, or with a name that is taken. Unknown roles are refused only for this data
/// directory, because another node may have other roles.
fn check_new_user(data_dir: &Path, request: &ObjectRequest, name: &str) -> Result<(), Failure> {
    let roles = request.settings.iter().filter(|(key, _)| key == "roles").map(|(_, role)| role.clone());
    let roles: Vec<String> = roles.collect();
    if request.node.uri.is_none() {
        check_known_roles(data_dir, &roles)?;
    } else if roles.is_empty() {
        return Err(Failure::Usage("a user needs at least one role: give it with --role".to_owned()));
    }
    let client = NodeClient::of(&request.node, data_dir, true)?;
    if client.get(&entity_path(&root(request)?, name)).is_ok() {
        return Err(Failure::Usage(format!("there is a user {name} already; `quarry edit user {name}` changes it")));
    }
    Ok(())
}

/// Refuses a saved search that cannot run. A search for another node is not checked, because that node may have other
/// apps and commands.
fn check_search(data_dir: &Path, request: &ObjectRequest) -> Result<(), Failure> {
    let is_saved = request.kind.word == SAVED_SEARCH && request.node.uri.is_none();
    let texts = request.settings.iter().filter(|(key, value)| is_saved && key == "search" && !value.is_empty());
    for (_, text) in texts {
        search::check(text, data_dir, request.namespace.parse()?)?;
    }
    Ok(())
}

/// Prints a note that an input with a new index reads its data again into that index.
fn warn_index_changed(request: &ObjectRequest) {
    let is_moved = request.verb == ObjectVerb::Edit && request.kind.word == "monitor";
    if let Some((_, index)) = request.settings.iter().find(|(key, _)| is_moved && key == INDEX) {
        log::note(format!(
            "read positions are stored for each index: files that were read into another index are read again into \
             {index}, from their beginning"
        ));
    }
}

/// Prints a note if a program uses the port of a new input, because a server cannot open the port until that program
/// stops.
fn warn_port_in_use(verb: ObjectVerb, kind: &ObjectKind, name: Option<&str>) {
    let Some(name) = name.filter(|_| verb == ObjectVerb::Add) else { return };
    let port = name.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    let is_taken = |port| match kind.word {
        "tcp" | "splunktcp" => is_in_use(std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))),
        "udp" => is_in_use(std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))),
        _ => false,
    };
    if let Some(port) = port.filter(|port| is_taken(*port)) {
        log::note(format!(
            "a program listens on port {port} already: stop it before the server starts again, or remove this input \
             with `quarry remove {} {name}`",
            kind.word
        ));
    }
}

fn is_in_use<T>(bound: std::io::Result<T>) -> bool {
    bound.is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
}

/// Prints a note if an index does not exist, because the first event creates the index, perhaps by mistake.
fn warn_new_index(client: &NodeClient, request: &ObjectRequest) {
    let Some((_, index)) = request.settings.iter().find(|(key, _)| key == INDEX) else { return };
    // Without the right to list indexes, the user gets no note.
    let Ok(feed) = client.get("/services/data/indexes?count=0") else { return };
    let names: Vec<String> = entries(&feed).iter().map(name_of).collect();
    if let Some(note) = new_index_note(index, &names, "is created when the first event arrives") {
        log::note(note);
    }
}

/// True if a path without wildcards does not exist on this machine.
fn is_missing(name: &str) -> bool {
    !name.contains(['*', '?', '[']) && !name.contains("...") && !Path::new(name).exists()
}

/// The name as sent to REST; paths on this machine are made absolute, and a folder is written without a slash at its
/// end.
fn full_name(kind: &ObjectKind, name: &str, uri: &Option<String>) -> String {
    if kind.word != "monitor" {
        return name.to_owned();
    }
    let path = if uri.is_none() { absolute_text(Path::new(name)) } else { name.to_owned() };
    match path.trim_end_matches('/') {
        "" => path,
        folder => folder.to_owned(),
    }
}

/// The name under which an object exists; the path of a folder may have been saved with or without a trailing slash.
fn existing_name(client: &NodeClient, kind: &ObjectKind, root: &str, name: String) -> String {
    if kind.word != "monitor" {
        return name;
    }
    let other = name.strip_suffix('/').map_or_else(|| format!("{name}/"), str::to_owned);
    let is_there = |name: &str| client.get(&entity_path(root, name)).is_ok();
    if !is_there(&name) && is_there(&other) { other } else { name }
}

/// REST path of the collection in the requested namespace.
fn root(request: &ObjectRequest) -> Result<String, Failure> {
    let ObjectRequest { verb, kind, namespace, node, .. } = request;
    // Objects created by the owner of the data directory belong to the app; objects of a logged-in user may be private.
    let is_owners = node.auth.is_none() && node.token.is_none() && *verb == ObjectVerb::Add && kind.is_in_app;
    Ok(match namespace.parse()? {
        Some(namespace) => {
            let (user, app) = (encode_segment(namespace.user().unwrap_or("nobody")), encode_segment(namespace.app()));
            format!("/servicesNS/{user}/{app}/{}", kind.path)
        }
        None if is_owners => format!("/servicesNS/nobody/{APP_DEFAULT}/{}", kind.path),
        None => format!("/services/{}", kind.path),
    })
}

fn entity_path(root: &str, name: &str) -> String {
    format!("{root}/{}", encode_segment(name))
}

/// Asks for confirmation before an index is removed with its events.
fn confirm_removal(client: &NodeClient, root: &str, name: &str) -> Result<(), Failure> {
    let found = entries(&client.get(&entity_path(root, name))?);
    let count = found.first().and_then(|entry| entry.get("totalEventCount")).map(Value::to_string).unwrap_or_default();
    let events = count.trim_matches('"');
    if matches!(events, "" | "0") {
        return Ok(());
    }
    let events = if events == "1" { "1 event, which is".to_owned() } else { format!("{events} events, which are") };
    let warning = format!("index {name} contains {events} removed with it permanently");
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage(format!("{warning}: confirm it with --yes")));
    }
    let mut err = std::io::stderr().lock();
    write!(err, "{warning}. Remove it? [y/N] ")?;
    err.flush()?;
    // After Ctrl-D, the answer is empty.
    let mut answer = String::new();
    if std::io::stdin().read_line(&mut answer)? == 0 {
        writeln!(err)?;
    }
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Usage(format!("index {name} stays"))),
    }
}

fn remove(client: &NodeClient, kind: &ObjectKind, root: &str, name: &str) -> Result<u8, Failure> {
    let names = match (kind.word, name) {
        ("jobs", ALL) => entries(&client.get(&format!("{root}?count=0"))?).iter().map(name_of).collect(),
        _ => vec![name.to_owned()],
    };
    for name in &names {
        let answer = client.delete(&entity_path(root, name))?;
        log::info(format!("{} {name} removed", kind.word));
        // The server's message calls every removed job cancelled, even if it had finished.
        if kind.word != "jobs" {
            print_messages(&answer);
        }
    }
    if names.is_empty() {
        log::info(format!("no `{}` entries", kind.word));
    }
    Ok(0)
}

/// Objects of an answer: content plus name.
fn entries(feed: &Value) -> Vec<Map<String, Value>> {
    let of = |entry: &Value| {
        let mut row = Map::new();
        row.insert("name".to_owned(), entry["name"].clone());
        row.extend(entry["content"].as_object().cloned().unwrap_or_default());
        row
    };
    feed["entry"].as_array().into_iter().flatten().map(of).collect()
}

/// The ID by which an object is requested; the ID of a job differs from its name, which is the text of the search.
fn name_of(row: &Map<String, Value>) -> String {
    let id = row.get("sid").or(row.get("name"));
    id.and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn list(kind: &ObjectKind, feed: &Value, form: ListForm) -> Result<u8, Failure> {
    let rows = entries(feed);
    if rows.is_empty() && form == ListForm::Table {
        log::info(format!("no `{}` entries ({})", kind.word, kind.about.to_lowercase()));
        return Ok(0);
    }
    print(&rows.into_iter().map(flatten_lists).collect(), kind.columns, form)?;
    Ok(0)
}

/// Prints one object: in JSON with all members, otherwise with its settings that have a value.
fn show(feed: &Value, form: ListForm) -> Result<u8, Failure> {
    let Some(entry) = entries(feed).into_iter().next() else {
        return Err(Failure::Storage("the server's answer shows nothing".to_owned()));
    };
    if form == ListForm::Json {
        print(&Value::Array(vec![Value::Object(entry)]), &[], form)?;
        return Ok(0);
    }
    let is_set = |value: &Value| !(value.is_null() || *value == "" || *value == json!([]) || *value == json!({}));
    let Value::Object(members) = flatten_lists(entry) else { return Ok(0) };
    let rows = members.into_iter().filter(|(key, value)| is_set(value) && !key.starts_with("eai:"));
    let rows: Value = rows.map(|(setting, value)| json!({ "setting": setting, "value": value })).collect();
    print(&rows, &["setting", "value"], form)?;
    Ok(0)
}

/// Replaces the lists and objects in a row with texts.
fn flatten_lists(row: Map<String, Value>) -> Value {
    let text = |value: Value| match value {
        Value::Array(values) => {
            let texts = values.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            Value::String(texts.collect::<Vec<_>>().join(", "))
        }
        // Objects occur, for example, as the arguments of a job.
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| match value.as_str() {
                Some(text) => format!("{key}={text}"),
                None => format!("{key}={value}"),
            };
            Value::String(members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        other => other,
    };
    row.into_iter().map(|(key, value)| (key, text(value))).collect::<Map<_, _>>().into()
}

fn print_messages(answer: &Value) {
    let messages = answer["messages"].as_array().into_iter().flatten();
    messages.filter_map(|message| message["text"].as_str()).for_each(log::note);
}
