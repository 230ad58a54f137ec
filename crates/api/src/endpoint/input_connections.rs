//! `connections` below an input over TCP or UDP: the senders that are currently connected to its port.
//!
//! An input that is restricted to a host shows the connections from this host. Datagrams come without a connection, so
//! the list of an input over UDP is empty. Not here: the connections themselves ([`crate::Node::port_peers`]).

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use axum::extract::State;
use axum::http::Method;
use axum::response::Response;
use axum::routing::get;
use quarry_apps::objects::{APP_SYSTEM, NOBODY};
use quarry_stdx::Fault;
use serde_json::{Map, Value};

use super::answer_shape::Content;
use super::entities::{scope_of, with_objects};
use super::listing::{LIST_PARAMETERS, page};
use super::path_parts::PathParts;
use super::row::{Access, EDIT_SPLUNKTCP, EDIT_TCP, EDIT_UDP, Endpoint, entities};
use super::run_blocking;
use super::shape::Shape;
use crate::ApiState;
use crate::atom::{Acl, Entry, escape_segment};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;

const CONF: &str = "inputs";
/// Title of the collections in Atom feeds.
const TITLE: &str = "connections";

/// A kind of input that listens on a port.
#[derive(Clone, Copy)]
struct PortKind {
    /// Path of the inputs after the root.
    path: &'static str,
    /// Prefix of the stanzas.
    prefix: &'static str,
    /// Capability that the inputs require.
    capability: &'static str,
    /// Whether senders open connections, unlike over UDP.
    has_connections: bool,
}

const KINDS: [PortKind; 3] = [
    PortKind {
        path: "data/inputs/tcp/cooked",
        prefix: "splunktcp://",
        capability: EDIT_SPLUNKTCP,
        has_connections: true,
    },
    PortKind { path: "data/inputs/tcp/raw", prefix: "tcp://", capability: EDIT_TCP, has_connections: true },
    PortKind { path: "data/inputs/udp", prefix: "udp://", capability: EDIT_UDP, has_connections: false },
];

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let of = |kind: PortKind| {
        let path = format!("{}/{{name}}/connections", kind.path);
        let serve = get(move |state, parts, caller, parameters| list(kind, state, parts, caller, parameters));
        let help = "Lists the senders that are connected to an input's port.";
        let row = Endpoint::new(Method::GET, path, Access::Capability(kind.capability), help, serve);
        entities(vec![row.takes(LIST_PARAMETERS)], &CONNECTIONS)
    };
    KINDS.into_iter().flat_map(of).collect()
}

/// Content of a connection entity.
const CONNECTIONS: Content =
    Content::new("inputs.connections", Shape::Object(&[("connection", Shape::Text), ("servername", Shape::Text)]));

async fn list(
    kind: PortKind,
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let (scope, name) = (scope_of(&parts, &caller)?, parts.get("name").cloned().unwrap_or_default());
    let stanza = format!("{}{name}", kind.prefix);
    with_objects(&state, &caller, move |objects, viewer| objects.get(CONF, &stanza, &scope, viewer)).await?;
    let (host, port) =
        name.rsplit_once(':').map_or((None, name.as_str()), |(host, port)| (Some(host.to_owned()), port));
    let mut peers = Vec::new();
    if let Some(port) = port.parse::<u16>().ok().filter(|_| kind.has_connections) {
        let node = state.node.clone();
        peers = run_blocking(move || {
            let peers = node.port_peers(port)?;
            match host {
                Some(host) => Ok(peers_from(&host, peers)?),
                None => Ok::<_, ApiError>(peers),
            }
        })
        .await??;
    }
    let path = format!("/servicesNS/{NOBODY}/{APP_SYSTEM}/{}/{}/connections", kind.path, escape_segment(&name));
    let entries = peers.into_iter().map(|peer| entry(&path, peer)).collect();
    page(TITLE, path, entries, &parameters)
}

/// The peers whose address belongs to a host; an error if the host's name cannot be resolved.
fn peers_from(host: &str, mut peers: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Fault> {
    let found = (host, 0).to_socket_addrs();
    let found = found.map_err(|error| Fault::unavailable(format!("the addresses of {host} are unknown: {error}")))?;
    let addresses: Vec<IpAddr> = found.map(|address| address.ip().to_canonical()).collect();
    peers.retain(|peer| addresses.contains(&peer.ip()));
    Ok(peers)
}

fn entry(collection: &str, peer: SocketAddr) -> Entry {
    let name = peer.to_string();
    let content = [("connection", name.clone()), ("servername", peer.ip().to_string())];
    let path = format!("{collection}/{}", escape_segment(&name));
    Entry {
        name,
        path,
        author: NOBODY.to_owned(),
        app: APP_SYSTEM.to_owned(),
        acl: Acl::for_node(),
        fields: None,
        updated: 0,
        links: vec![("list", collection.to_owned())],
        content: content.into_iter().map(|(key, value)| (key.to_owned(), Value::from(value))).collect::<Map<_, _>>(),
    }
}
