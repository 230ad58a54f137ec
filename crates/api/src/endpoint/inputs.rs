//! `data/inputs`: watched files, ports and programs, each a stanza of `inputs.conf`.
//!
//! A new or changed stanza is validated and written; it takes effect when the node starts, as the answers say. Not
//! here: tokens of the HTTP Event Collector, which take effect at once ([`super::collector_tokens`]), and files added
//! once ([`super::oneshot`]).

use std::sync::{Arc, LazyLock};

use quarry_conf::{ConfSource, Layer, Layers, Problem};

use super::entities::{Kind, kind, rows};
use super::row::{
    Access, EDIT_MONITOR, EDIT_SCRIPTED, EDIT_SPLUNKTCP, EDIT_SPLUNKTCP_TOKEN, EDIT_TCP, EDIT_UDP, Endpoint,
};
use super::search_jobs::PathParts;
use crate::ApiState;
use crate::atom::Fields;
use crate::message::ApiError;

/// The conf of inputs.
const CONF: &str = "inputs";
/// Message that accompanies a change.
const FROM_START: &str = "The change is saved and takes effect at the next start of the node.";
/// Settings of ports for any sender.
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
/// Prefix of tokens that forwarders present, and their settings.
const TOKEN: &str = "splunktcptoken://";
const FORWARDER_TOKEN: &[&str] = &["disabled", "token"];
/// Settings of watched files.
const MONITOR: &[&str] = &[
    "_TCP_ROUTING",
    "blacklist",
    "crcSalt",
    "disabled",
    "followSymlink",
    "followTail",
    "host",
    "host_regex",
    "host_segment",
    "ignoreOlderThan",
    "index",
    "initCrcLength",
    "multiline_event_extra_waittime",
    "recursive",
    "source",
    "sourcetype",
    "time_before_close",
    "whitelist",
];
/// Settings of programs.
const SCRIPT: &[&str] = &["disabled", "host", "index", "interval", "passAuth", "source", "sourcetype"];

/// The collections, with the capability required for changes.
static KINDS: LazyLock<Vec<(Kind, &'static str)>> = LazyLock::new(|| {
    let of = |path, title, prefix, optional| {
        let fields = Fields { required: &[], optional, wildcard: &[] };
        Kind { prefix, told: Some(FROM_START), refuse, ..kind(path, title, CONF, fields) }
    };
    vec![
        (of("data/inputs/monitor", "monitor", "monitor://", MONITOR), EDIT_MONITOR),
        (of("data/inputs/tcp/raw", "raw", "tcp://", PORT), EDIT_TCP),
        (of("data/inputs/tcp/cooked", "cooked", "splunktcp://", FORWARDER), EDIT_SPLUNKTCP),
        (of("data/inputs/tcp/splunktcptoken", "splunktcptoken", TOKEN, FORWARDER_TOKEN), EDIT_SPLUNKTCP_TOKEN),
        (of("data/inputs/udp", "udp", "udp://", PORT), EDIT_UDP),
        (of("data/inputs/script", "script", "script://", SCRIPT), EDIT_SCRIPTED),
    ]
});

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let of = |(kind, edit): &'static (Kind, &'static str)| {
        // Reading requires the same capability, because the conf may contain passwords.
        let access = [Access::Capability(edit); 2];
        let kind = Kind { holds: holds_of(kind.prefix), ..kind.clone() };
        let (path, fields) = (kind.path.clone(), kind.fields);
        rows(&path, access, fields, Arc::new(move |_: &PathParts| Ok(kind.clone())))
    };
    KINDS.iter().flat_map(of).collect()
}

/// Whether a stanza belongs to a kind, by its prefix.
fn holds_of(prefix: &str) -> fn(&quarry_apps::objects::ConfObject) -> bool {
    match prefix {
        "monitor://" => |object| object.name.starts_with("monitor://"),
        "tcp://" => |object| object.name.starts_with("tcp://"),
        "splunktcp://" => |object| object.name.starts_with("splunktcp://"),
        "udp://" => |object| object.name.starts_with("udp://"),
        TOKEN => |object| object.name.starts_with(TOKEN),
        _ => |object| object.name.starts_with("script://"),
    }
}

fn refuse(state: &ApiState, kind: &Kind, name: Option<&str>, settings: &[(String, String)]) -> Result<(), ApiError> {
    let name = name.map(|name| name.strip_prefix(kind.prefix).unwrap_or(name));
    if let Some(name) = name {
        check_name(kind.prefix, name)?;
    }
    for (key, value) in settings {
        quarry_conf::edit::check_setting(key, value)?;
        if key == "index" && value != "default" {
            state.node.check_index_name(value)?;
        }
    }
    // Validates the stanza as the node would.
    let stanza = format!("{}{}", kind.prefix, name.unwrap_or(sample(kind.prefix)));
    let lines: String = settings.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    let source = ConfSource {
        layer: Layer::AppLocal,
        app: Some("search".to_owned()),
        file: format!("{CONF}.conf"),
        text: format!("[{stanza}]\n{lines}"),
    };
    match Layers::without_builtin([source]).warnings().iter().find(|warning| is_wrong(&warning.problem)) {
        Some(warning) => Err(ApiError::bad_request(warning.to_string())),
        None => Ok(()),
    }
}

/// Whether a problem makes a stanza invalid; settings without effect are allowed.
fn is_wrong(problem: &Problem) -> bool {
    !matches!(problem, Problem::Unsupported { .. } | Problem::UnknownSetting { .. } | Problem::FileWithoutEffect { .. })
}

/// A valid name of such an entity.
fn sample(prefix: &str) -> &'static str {
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
