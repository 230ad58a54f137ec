//! `data/inputs`: watched files, ports and programs, each a stanza of `inputs.conf`. Modular inputs of apps are listed
//! under their scheme, and `all` lists every input.
//!
//! A new or changed stanza is validated and written, and the running inputs adopt it; if they cannot, the answer says
//! so. An input over TCP that is restricted to a host is called `HOST:PORT`, so that a port may have an input for each
//! of several hosts. Not here: tokens of the HTTP Event Collector ([`super::collector_tokens`]), and files added once
//! ([`super::oneshot`]).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::get;
use quarry_apps::objects::{ConfObject, ObjectError};
use quarry_conf::permissions::ADMIN_ALL_OBJECTS;
use quarry_conf::text::DEFAULT_STANZA;
use quarry_conf::{ConfSource, Layer, Layers, Problem};
use quarry_event::time::Cron;

use super::answer_shape::Content;
use super::entities::{Kind, KindLookup, entry, input_host, kind, rows, scope_of, single_rows, with_objects};
use super::entity_kinds::{ChangeNotice, use_names};
use super::listing::{LIST_PARAMETERS, page};
use super::path_parts::PathParts;
use super::row::{
    Access, EDIT_MONITOR, EDIT_SCRIPTED, EDIT_SPLUNKTCP, EDIT_SPLUNKTCP_SSL, EDIT_SPLUNKTCP_TOKEN, EDIT_TCP, EDIT_UDP,
    Endpoint, entities,
};
use super::run_blocking;
use super::shape::{Member, SETTING, Settings, Shape};
use crate::ApiState;
use crate::atom::{Entry, Fields};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameter_types::parse_flag;
use crate::parameters::Parameters;

/// Path of the collection of all inputs.
const ALL: &str = "data/inputs/all";
/// Path of the inputs of a kind that an app defines.
const SCHEME_PATH: &str = "data/inputs/{scheme}";
/// Settings of every modular input.
const MODULAR: Fields = Fields {
    required: &[],
    optional: &["disabled", "host", "index", "interval", "python.version", "source", "sourcetype", "start_by_shell"],
    wildcard: &[],
};
/// Settings of TLS for all ports.
const SSL: &[&str] = &[
    "cipherSuite",
    "disabled",
    "password",
    "requireClientCert",
    "rootCA",
    "serverCert",
    "sslPassword",
    "sslRootCAPath",
];
const CONF: &str = "inputs";
/// The sender to which a port is restricted.
const RESTRICTED: &str = "restrictToHost";
/// Prefixes of the stanzas of ports whose name contains the host to which they are restricted.
const TCP_PREFIXES: [&str; 2] = ["tcp://", "splunktcp://"];
/// Value of `host` in inputs.conf that stands for the name of this node.
const HOST_OF_NODE: &str = "$decideOnStartup";
/// Settings of ports for senders of any kind.
const PORT: &[&str] = &[
    "_TCP_ROUTING",
    "_rcvbuf",
    "acceptFrom",
    "bindAddress",
    "connection_host",
    "disabled",
    "host",
    "index",
    "no_appending_timestamp",
    "no_priority_stripping",
    "queue",
    "queueSize",
    "rawTcpDoneTimeout",
    "restrictToHost",
    "source",
    "sourcetype",
];
/// Splunk's parameter for a TCP input over TLS.
const OVER_TLS: &str = "SSL";
/// Parameters of TCP inputs.
const RAW: &[&str] = &concat_names::<{ PORT.len() + 1 }>(PORT, OVER_TLS);

/// A list of names with another name appended.
const fn concat_names<const N: usize>(names: &[&'static str], more: &'static str) -> [&'static str; N] {
    let mut all = [more; N];
    let mut at = 0;
    while at < names.len() {
        all[at] = names[at];
        at += 1;
    }
    all
}

/// Settings of ports for forwarders.
const FORWARDER: &[&str] = &[
    "_TCP_ROUTING",
    "acceptFrom",
    "acceptInternalIndexes",
    "bindAddress",
    "connection_host",
    "disabled",
    "enableS2SHeartbeat",
    "host",
    "index",
    "negotiateProtocolLevel",
    "queue",
    "restrictToHost",
    "s2sHeartbeatTimeout",
    "source",
    "sourcetype",
];
/// Prefix of the stanzas of watched files and folders.
const MONITOR_PREFIX: &str = "monitor://";
/// Prefix of the stanzas of tokens that forwarders present, and the settings of these tokens.
const TOKEN: &str = "splunktcptoken://";
const FORWARDER_TOKEN: &[&str] = &["disabled", "token"];
/// Parameters of watched files that are named differently from their settings, as in Splunk.
const MONITOR_NAMES: [(&str, &str); 4] = [
    ("crc-salt", "crcSalt"),
    ("ignore-older-than", "ignoreOlderThan"),
    ("rename-source", "source"),
    ("time-before-close", "time_before_close"),
];
/// Parameters that ask for checks of a new watched file.
const CHECK_INDEX: &str = "check-index";
const CHECK_PATH: &str = "check-path";
/// Parameters of watched files.
const MONITOR: &[&str] = &[
    "_TCP_ROUTING",
    "blacklist",
    "check-index",
    "check-path",
    "crc-salt",
    "crcSalt",
    "disabled",
    "followSymlink",
    "followTail",
    "host",
    "host_regex",
    "host_segment",
    "ignore-older-than",
    "ignoreOlderThan",
    "index",
    "initCrcLength",
    "multiline_event_extra_waittime",
    "recursive",
    "rename-source",
    "source",
    "sourcetype",
    "time-before-close",
    "time_before_close",
    "whitelist",
];
/// Settings of programs.
const SCRIPT: &[&str] = &["disabled", "host", "index", "interval", "passAuth", "source", "sourcetype"];

/// The collections, with the capability required for changes.
static KINDS: LazyLock<Vec<(Kind, &'static str)>> = LazyLock::new(|| {
    let of = |path, title, prefix, optional| {
        let fields = Fields { required: &[], optional, wildcard: &[] };
        let told = ChangeNotice::InputEffect;
        let kind = Kind {
            prefix: Cow::Borrowed(prefix),
            notice: told,
            validate: validate_settings,
            fill: fill_defaults,
            ..kind(path, title, CONF, fields)
        };
        if prefix == MONITOR_PREFIX {
            return Kind { make_name: checked_path, expand: use_setting_names, ..kind };
        }
        if prefix == TOKEN {
            return Kind { make_name: with_token, is_prefix_shown: true, ..kind };
        }
        if !optional.contains(&RESTRICTED) {
            return kind;
        }
        Kind { make_name: port_name, check_conflict: Some(check_port_conflict), expand: drop_host, ..kind }
    };
    vec![
        (of("data/inputs/monitor", "monitor", MONITOR_PREFIX, MONITOR), EDIT_MONITOR),
        (of("data/inputs/tcp/raw", "raw", "tcp://", RAW), EDIT_TCP),
        (of("data/inputs/tcp/cooked", "cooked", "splunktcp://", FORWARDER), EDIT_SPLUNKTCP),
        (of("data/inputs/tcp/splunktcptoken", "splunktcptoken", TOKEN, FORWARDER_TOKEN), EDIT_SPLUNKTCP_TOKEN),
        (of("data/inputs/udp", "udp", "udp://", PORT), EDIT_UDP),
        (of("data/inputs/script", "script", "script://", SCRIPT), EDIT_SCRIPTED),
    ]
});

/// The collections of all inputs that are not modular, for tests.
#[cfg(test)]
pub(super) fn kinds() -> Vec<Kind> {
    KINDS.iter().map(|(kind, _)| kind.clone()).chain([CERTIFICATE.clone()]).collect()
}

/// The certificate of all ports with TLS.
static CERTIFICATE: LazyLock<Kind> = LazyLock::new(|| {
    let fields = Fields { required: &[], optional: SSL, wildcard: &[] };
    let (only, told) = (Some(("ssl", "SSL")), ChangeNotice::InputEffect);
    Kind {
        only,
        notice: told,
        verbs: &[],
        validate: validate_settings,
        ..kind("data/inputs/tcp/ssl", "ssl", CONF, fields)
    }
});

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let of = |(kind, edit): &'static (Kind, &'static str)| {
        // Reading requires the same capability, because the conf may contain passwords.
        rows(&kind.path, [Access::Capability(edit); 2], kind.fields, KindLookup::always(kind.clone()))
    };
    let mut endpoints: Vec<Endpoint> = KINDS.iter().flat_map(of).collect();
    endpoints.extend(single_rows(&CERTIFICATE, [Access::Capability(EDIT_SPLUNKTCP_SSL); 2]));
    endpoints.extend(rows(SCHEME_PATH, [Access::Capability(EDIT_SCRIPTED); 2], MODULAR, KindLookup::Node(scheme_kind)));
    // The conf may contain passwords.
    let read = Access::Capability(ADMIN_ALL_OBJECTS);
    let (list, one) = ("Lists the inputs that the user may read.", "Shows an input that the user may read.");
    let all = vec![
        Endpoint::new(Method::GET, ALL, read, list, get(list_all)).takes(LIST_PARAMETERS),
        Endpoint::new(Method::GET, format!("{ALL}/{{name}}"), read, one, get(show_one)),
    ];
    let located = Settings { fields: MODULAR, more: LOCATED };
    endpoints.extend(entities(all, &Content::for_path(ALL, Shape::Settings(located))));
    endpoints
}

/// Members of every input.
const LOCATED: &[Member] = &[
    ("disabled", SETTING),
    ("eai:appName", Shape::Text),
    ("eai:userName", Shape::Text),
    ("eai:location", Shape::Text),
];

/// The collection of a modular input's stanzas. The input's program describes the settings.
fn scheme_kind(state: &ApiState, parts: &PathParts) -> Result<Kind, ApiError> {
    let scheme = parts.get("scheme").map_or("", String::as_str);
    let found = state.node.modular_inputs().into_iter().find(|known| known.scheme == scheme);
    let missing = || ApiError::with_status(StatusCode::NOT_FOUND, "Not Found");
    let arguments = found.ok_or_else(missing)?.arguments;
    Ok(Kind {
        path: format!("data/inputs/{scheme}").into(),
        title: scheme.to_owned().into(),
        prefix: format!("{scheme}://").into(),
        more_fields: arguments.into_iter().map(|argument| argument.name).collect(),
        notice: ChangeNotice::InputEffect,
        validate: validate_settings,
        check_by_program: Some(check_by_scheme),
        fill: fill_defaults,
        ..kind("", "", CONF, MODULAR)
    })
}

/// Lets the program of a scheme check a stanza. As in Splunk, the program receives an index even if the stanza sets
/// none.
fn check_by_scheme(
    state: &ApiState,
    kind: &Kind,
    stanza: &str,
    settings: &BTreeMap<String, String>,
) -> Result<(), ApiError> {
    let mut settings = settings.clone();
    settings.entry("index".to_owned()).or_insert_with(|| "default".to_owned());
    Ok(state.node.check_modular_input(&kind.title, kind.entity(stanza), &settings)?)
}

/// The inputs of all kinds that the caller may read, each as in its own collection.
async fn readable_entries(state: &ApiState, parts: &PathParts, caller: &Caller) -> Result<Vec<Entry>, ApiError> {
    let scope = scope_of(parts, caller)?;
    let objects = with_objects(state, caller, move |objects, viewer| objects.list(CONF, &scope, viewer)).await?;
    let input_host = input_host(state).await?;
    let permitted = KINDS.iter().filter(|(_, edit)| caller.permissions.has_capability(edit));
    let mut kinds: Vec<Kind> =
        permitted.map(|(kind, _)| Kind { input_host: Arc::clone(&input_host), ..kind.clone() }).collect();
    if caller.permissions.has_capability(EDIT_SCRIPTED) {
        let node = state.node.clone();
        let of = |scheme: String| Kind {
            path: format!("data/inputs/{scheme}").into(),
            prefix: format!("{scheme}://").into(),
            ..kind("", "", CONF, MODULAR)
        };
        kinds.extend(run_blocking(move || node.modular_inputs()).await?.into_iter().map(|known| of(known.scheme)));
    }
    let as_input = |object: &ConfObject| {
        let kind = kinds.iter().find(|kind| kind.includes(object))?;
        let mut entry = entry(kind, object);
        entry.content.insert("eai:location".to_owned(), format!("/{}", kind.path).into());
        Some(entry)
    };
    Ok(objects.iter().filter_map(as_input).collect())
}

async fn list_all(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    page("all", format!("/services/{ALL}"), readable_entries(&state, &parts, &caller).await?, &parameters)
}

async fn show_one(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = parts.get("name").cloned().unwrap_or_default();
    let found = readable_entries(&state, &parts, &caller).await?.into_iter().find(|entry| entry.name == name);
    let entry = found.ok_or(ObjectError::Unknown(name))?;
    page("all", format!("/services/{ALL}"), vec![entry], &parameters.keep_only("output_mode"))
}

/// Adds the defaults of an input's unset settings, and `host_resolved`: the host of events whose sender sets none.
fn fill_defaults(kind: &Kind, object: &ConfObject, settings: &mut BTreeMap<String, String>) {
    if kind.prefix == TOKEN || object.name == DEFAULT_STANZA {
        return;
    }
    let own = settings.get("host").filter(|host| *host != HOST_OF_NODE);
    let host = own.cloned().unwrap_or_else(|| kind.input_host.to_string());
    settings.insert("host_resolved".to_owned(), host);
    let mut add = |key: &str, value: &str| {
        settings.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    };
    add("host", HOST_OF_NODE);
    add("index", "default");
    match kind.prefix.as_ref() {
        "tcp://" => {
            add("connection_host", "dns");
            add("rawTcpDoneTimeout", "10");
            add(OVER_TLS, "0");
            add("group", "listenerports");
        }
        "udp://" => add("connection_host", "ip"),
        "splunktcp://" => {
            add("connection_host", "ip");
            add("group", "listenerports");
        }
        _ => return,
    }
    if let Some((host, _)) = kind.entity(&object.name).rsplit_once(':') {
        add(RESTRICTED, host);
    }
}

/// Replaces the names of a watched file's parameters with those of the settings. Drops requests for checks from a
/// change, because only new inputs are checked.
fn use_setting_names(stanza: &str, settings: &mut Vec<(String, String)>) {
    use_names(&MONITOR_NAMES, settings);
    if !stanza.is_empty() {
        settings.retain(|(key, _)| key != CHECK_INDEX && key != CHECK_PATH);
    }
}

/// The name of a new watched file, which must exist if the request says so. The index of the file need not exist,
/// because the first event creates it.
fn checked_path(kind: &Kind, name: &str, settings: &mut Vec<(String, String)>) -> Result<String, ApiError> {
    let must_exist = settings.iter().any(|(key, value)| key == CHECK_PATH && parse_flag(value) == Some(true));
    settings.retain(|(key, _)| key != CHECK_INDEX && key != CHECK_PATH);
    let path = name.strip_prefix(kind.prefix.as_ref()).unwrap_or(name);
    match must_exist && !std::path::Path::new(path).exists() {
        true => Err(ApiError::bad_request(format!("name={path}: there is no such file or folder ({CHECK_PATH}=1)"))),
        false => Ok(name.to_owned()),
    }
}

/// Adds a random token to a new token stanza for forwarders that has none. A stanza without a token would admit no
/// forwarder at all, not even one that presents no token.
fn with_token(_: &Kind, name: &str, settings: &mut Vec<(String, String)>) -> Result<String, ApiError> {
    settings.retain(|(key, value)| key != "token" || !value.trim().is_empty());
    if !settings.iter().any(|(key, _)| key == "token") {
        settings.push(("token".to_owned(), crate::collector_tokens::new_token()));
    }
    Ok(name.to_owned())
}

/// The name of a new port: `HOST:PORT` for a TCP port that is restricted to a host.
fn port_name(kind: &Kind, name: &str, settings: &mut Vec<(String, String)>) -> Result<String, ApiError> {
    settings.retain(|(key, value)| key != RESTRICTED || !value.trim().is_empty());
    let prefix = kind.prefix.as_ref();
    if !TCP_PREFIXES.contains(&prefix) {
        return Ok(name.to_owned());
    }
    let port = name.strip_prefix(prefix).unwrap_or(name);
    if port.contains(':') {
        return Err(ApiError::bad_request(format!("name={port}: give a port, and the host as {RESTRICTED}")));
    }
    match settings.iter().find(|(key, _)| key == RESTRICTED) {
        Some((_, host)) => Ok(format!("{}:{port}", host.trim())),
        None => Ok(port.to_owned()),
    }
}

/// Drops the restriction to a host from a change of a TCP input if the host is part of the input's name, because
/// clients send the restriction with every change. For the same reason, drops the parameter `SSL` if it is false.
fn drop_host(stanza: &str, settings: &mut Vec<(String, String)>) {
    settings.retain(|(key, value)| key != OVER_TLS || parse_flag(value) == Some(true));
    let name = TCP_PREFIXES.iter().find_map(|prefix| stanza.strip_prefix(prefix));
    if let Some((host, _)) = name.and_then(|name| name.rsplit_once(':')) {
        settings.retain(|(key, value)| key != RESTRICTED || !value.trim().eq_ignore_ascii_case(host));
    }
}

/// Refuses a port that another input of the kind uses, if both inputs accept the same host or one input accepts any
/// host.
fn check_port_conflict(kind: &Kind, stanza: &str, others: &[ConfObject]) -> Result<(), ObjectError> {
    let parts = |stanza: &str| -> Option<(Option<String>, String)> {
        let name = stanza.strip_prefix(kind.prefix.as_ref())?;
        let (host, port) = name.rsplit_once(':').map_or((None, name), |(host, port)| (Some(host), port));
        Some((host.filter(|host| !host.is_empty()).map(str::to_ascii_lowercase), port.to_owned()))
    };
    let Some((host, port)) = parts(stanza) else { return Ok(()) };
    let has_it = |other: &&ConfObject| {
        parts(&other.name).is_some_and(|(of, at)| at == port && (of == host || of.is_none() || host.is_none()))
    };
    match others.iter().find(has_it) {
        Some(other) => {
            let name = kind.entity(&other.name);
            Err(ObjectError::Invalid(format!("Parameter name: port {port} is already used by the input {name}")))
        }
        None => Ok(()),
    }
}

pub(super) fn validate_settings(
    state: &ApiState,
    kind: &Kind,
    name: Option<&str>,
    settings: &[(String, String)],
) -> Result<(), ApiError> {
    let prefix = kind.prefix.as_ref();
    let name = name.map(|name| name.strip_prefix(prefix).unwrap_or(name));
    if let Some(name) = name {
        check_name(prefix, name)?;
    }
    let is_edit = name.is_none();
    for (key, value) in settings {
        quarry_conf::edit::check_setting(key, value)?;
        if is_edit && key == RESTRICTED && TCP_PREFIXES.contains(&prefix) {
            return Err(ApiError::bad_request(format!(
                "{RESTRICTED} is part of the name of an input over TCP and cannot be changed: create another input"
            )));
        }
        if key == OVER_TLS {
            return Err(ApiError::bad_request(format!(
                "{OVER_TLS}={value}: an input over TLS is a stanza [tcp-ssl://PORT] of inputs.conf"
            )));
        }
        if prefix == TOKEN && key == "token" && value.trim().is_empty() {
            return Err(ApiError::bad_request("token is empty: no forwarder could present it"));
        }
        if prefix == SCRIPT_PREFIX && key == "interval" && !is_schedule(value) {
            return Err(ApiError::bad_request(format!(
                "interval={value}: give seconds, 0, -1 or a cron schedule such as */5 * * * *"
            )));
        }
        // The stanza with the settings of all tokens may leave the index empty.
        let is_unset = value.is_empty() && kind.only.is_some();
        if key == "index" && value != "default" && !is_unset {
            state.node.check_index_name(value)?;
        }
    }
    // The stanza is validated as the node would validate it.
    let stanza = kind.stanza(name.or(kind.only.map(|(only, _)| only)).unwrap_or(sample_name(prefix)));
    let lines: String = settings.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    let source = ConfSource {
        layer: Layer::AppLocal,
        app: Some("search".to_owned()),
        file: format!("{CONF}.conf"),
        text: format!("[{stanza}]\n{lines}"),
    };
    match Layers::without_builtin([source]).warnings().iter().find(|warning| is_error(&warning.problem)) {
        Some(warning) => Err(ApiError::bad_request(warning.to_string())),
        None => Ok(()),
    }
}

/// Prefix of stanzas of programs.
const SCRIPT_PREFIX: &str = "script://";

/// Whether a text is a valid schedule of a program.
fn is_schedule(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || text.parse::<f64>().is_ok_and(|seconds| seconds >= -1.0) || Cron::parse(text).is_some()
}

/// Whether a problem makes a stanza invalid; settings without effect are allowed.
fn is_error(problem: &Problem) -> bool {
    !matches!(problem, Problem::Unsupported { .. } | Problem::UnknownSetting { .. } | Problem::FileWithoutEffect { .. })
}

/// A valid name of an entity whose stanza has this prefix.
fn sample_name(prefix: &str) -> &'static str {
    match prefix {
        "monitor://" | "script://" => "/a",
        _ => "1",
    }
}

fn check_name(prefix: &str, name: &str) -> Result<(), ApiError> {
    let is_odd = name.is_empty() || name.chars().any(char::is_control) || name.contains([']', '[']);
    let is_port = || {
        let port = name.rsplit_once(':').map_or(name, |(_, port)| port);
        port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    let text = match prefix {
        "monitor://" if is_odd || !name.starts_with('/') => "the absolute path of a file or folder",
        "script://" if is_odd => "the path of a program",
        TOKEN if is_odd => "a name",
        _ if is_odd => "a name of one line",
        "tcp://" | "splunktcp://" | "udp://" if is_odd || !is_port() => "a port, or ADDRESS:PORT",
        _ => return Ok(()),
    };
    let shown: String = name.chars().take(80).flat_map(char::escape_debug).collect();
    Err(ApiError::bad_request(format!("name={shown}: give {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_paths_and_ports() {
        for (prefix, name) in [
            ("monitor://", "/var/log"),
            ("monitor://", "/var/log/*.log"),
            ("tcp://", "9999"),
            ("tcp://", "10.0.0.1:9999"),
            ("udp://", "514"),
            ("script://", "./bin/a.sh -x"),
        ] {
            assert!(check_name(prefix, name).is_ok(), "{prefix}{name}");
        }
        for (prefix, name) in [
            ("monitor://", "var/log"),
            ("monitor://", ""),
            ("monitor://", "/a\0b"),
            ("monitor://", "/a]b"),
            ("tcp://", "port"),
            ("tcp://", "0"),
            ("udp://", "70000"),
            ("splunktcp://", "h:"),
            ("script://", ""),
        ] {
            assert!(check_name(prefix, name).is_err(), "{prefix}{name:?}");
        }
    }
}
