//! `data/outputs/tcp`: the indexers a forwarder sends to, as servers of groups in `outputs.conf`.
//!
//! `server` lists the servers of all groups by address. A new server is added to a group; a removed server is removed
//! from all groups. Settings of a server are in `[tcpout-server://ADDRESS]`. `group` has the stanzas of groups, and
//! `default` the settings of all groups. `quarry forward` reads these settings when it starts; receivers under `syslog`
//! are stored but not used. Not here: whether a server is reachable, which the forwarder reports.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::LazyLock;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::{ConfObject, NOBODY, ObjectError, Objects, Scope};
use quarry_conf::Permissions;
use quarry_conf::settings::outputs::INDEX_FILTERS;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::answer_shape::{Content, NO_CONTENT};
use super::entities::{Kind, KindLookup, change, kind, rows, scope_of, with_objects};
use super::entity_kinds::ChangeNotice;
use super::listing::{LIST_PARAMETERS, page};
use super::path_parts::PathParts;
use super::permissions::{ACL_PARAMETERS, acl_entry, node_acl_of, required_acl_change};
use super::row::{Access, EDIT_FORWARDERS, Endpoint, entities};
use super::setting_types::json_value;
use super::shape::{Member, Shape};
use crate::ApiState;
use crate::atom::{Acl, Entry, Feed, Fields, Form, escape_segment};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::{Parameters, Settings};

/// Collection of servers below a root.
const SERVERS: &str = "data/outputs/tcp/server";
/// Title of the collection in Atom feeds.
const TITLE: &str = "tcpout-server";
/// Conf of servers and groups.
const CONF: &str = "outputs";
/// Stanza with the settings of all groups.
const TCPOUT: &str = "tcpout";
/// Prefix of group stanzas.
const GROUP: &str = "tcpout:";
/// Prefix of server stanzas.
const SERVER: &str = "tcpout-server://";
/// Splunk's name of the default group.
const GROUP_DEFAULT: &str = "default-autolb-group";
/// Message after a change.
const RESTART_MESSAGE: &str = "The change is saved and takes effect at the next start of `quarry forward`.";
/// Prefix of stanzas of syslog receivers.
const SYSLOG_GROUP: &str = "syslog:";
/// Message after a change of a syslog receiver.
const NOT_SENT: &str =
    "The change is saved and has no effect: `quarry forward` sends to indexers, not to syslog receivers.";
/// Settings of a syslog receiver.
const SYSLOG_SETTINGS: &[&str] = &[
    "disabled",
    "dropEventsOnQueueFull",
    "maxEventSize",
    "priority",
    "server",
    "syslogSourceType",
    "timestampformat",
    "type",
];
const SERVER_SETTINGS: &[&str] = &[
    "clientCert",
    "connectionTimeout",
    "disabled",
    "group",
    "method",
    "readTimeout",
    "sslAltNameToCheck",
    "sslCertPath",
    "sslCipher",
    "sslCommonNameToCheck",
    "sslPassword",
    "sslRootCAPath",
    "sslVerifyServerCert",
    "token",
    "useSSL",
    "writeTimeout",
];
/// Settings of a server that are stored but not used.
const UNUSED_SERVER_SETTINGS: [&str; 3] = ["sslAltNameToCheck", "sslCipher", "sslPassword"];
/// Message after a change of one of [`UNUSED_SERVER_SETTINGS`].
const UNUSED_MESSAGE: &str = "The change is saved and takes effect at the next start of `quarry forward`, except \
     sslAltNameToCheck, sslCipher and sslPassword, which have no effect.";
/// Splunk's parameter for the servers of a group, which are stored as the setting [`SERVER_LIST`].
const SERVERS_PARAMETER: &str = "servers";
/// Setting with the addresses of a group's servers.
const SERVER_LIST: &str = "server";
/// Parameter that says how a group's servers are used.
const METHOD: &str = "method";
/// The only value of this parameter: servers of a group are always load-balanced.
const BALANCED: &str = "autobalance";
const GROUP_SETTINGS: &[&str] = &[
    "autoLBFrequency",
    "autoLBVolume",
    "blockOnCloning",
    "clientCert",
    "compressed",
    "connectionTimeout",
    "disabled",
    "dropEventsOnQueueFull",
    "heartbeatFrequency",
    "maxQueueSize",
    METHOD,
    "readTimeout",
    "sendCookedData",
    SERVER_LIST,
    SERVERS_PARAMETER,
    "sslCertPath",
    "sslCommonNameToCheck",
    "sslRootCAPath",
    "sslVerifyServerCert",
    "token",
    "useACK",
    "useSSL",
    "writeTimeout",
];

const ALL_GROUPS_SETTINGS: &[&str] = &[
    "autoLBFrequency",
    "autoLBVolume",
    "blockOnCloning",
    "clientCert",
    "compressed",
    "connectionTimeout",
    "defaultGroup",
    "disabled",
    "dropEventsOnQueueFull",
    "heartbeatFrequency",
    "indexAndForward",
    "maxQueueSize",
    "readTimeout",
    "sendCookedData",
    "sslCertPath",
    "sslCommonNameToCheck",
    "sslRootCAPath",
    "sslVerifyServerCert",
    "token",
    "useACK",
    "useSSL",
    "writeTimeout",
];

/// Held while a request adds or removes a server, because server lists are read, modified and written.
static CHANGE_LOCK: LazyLock<Mutex<()>> = LazyLock::new(Mutex::default);

/// The collection of groups.
static GROUPS: LazyLock<Kind> = LazyLock::new(|| {
    let fields = Fields { required: &[], optional: GROUP_SETTINGS, wildcard: &[] };
    Kind {
        prefix: GROUP.into(),
        notice: ChangeNotice::Always(RESTART_MESSAGE),
        validate: validate_group,
        expand: expand_group,
        fill: |_, object, settings| {
            let servers = object.get(SERVER_LIST).unwrap_or_default().to_owned();
            settings.insert(SERVERS_PARAMETER.to_owned(), servers);
            settings.insert(METHOD.to_owned(), BALANCED.to_owned());
        },
        ..kind("data/outputs/tcp/group", "tcpout-group", CONF, fields)
    }
});

/// Replaces the parameter `servers`, a list that may be given several times, with the setting, and removes the method
/// if it is load balancing, which all groups use.
fn expand_group(_: &str, settings: &mut Vec<(String, String)>) {
    let servers: Vec<String> =
        settings.iter().filter(|(key, _)| key == SERVERS_PARAMETER).flat_map(|(_, list)| addresses(list)).collect();
    let has_servers = settings.iter().any(|(key, _)| key == SERVERS_PARAMETER);
    settings.retain(|(key, value)| key != SERVERS_PARAMETER && !(key == METHOD && is_balanced(value)));
    if has_servers {
        settings.retain(|(key, _)| key != SERVER_LIST);
        settings.push((SERVER_LIST.to_owned(), servers.join(", ")));
    }
}

/// Whether a method is load balancing, which is the default.
fn is_balanced(method: &str) -> bool {
    method.is_empty() || method == BALANCED
}

/// Refuses invalid addresses and methods.
fn validate_group(_: &ApiState, _: &Kind, _: Option<&str>, settings: &[(String, String)]) -> Result<(), ApiError> {
    for (key, value) in settings {
        match key.as_str() {
            METHOD => return Err(refused_method(value)),
            SERVER_LIST => addresses(value).iter().try_for_each(|address| check_address(address))?,
            _ => {}
        }
    }
    Ok(())
}

/// The error about a method other than load balancing.
fn refused_method(method: &str) -> ApiError {
    ApiError::bad_request(format!(
        "method={method}: the servers of a group are load-balanced; to clone, add them to different groups with group=NAME and \
         list the groups in defaultGroup of [tcpout]"
    ))
}

/// Shown values of settings of `[tcpout]` that are not set, besides the filters of indexes.
const ALL_GROUPS_DEFAULTS: [(&str, &str); 7] = [
    ("compressed", "0"),
    ("dropEventsOnQueueFull", "-1"),
    ("forwardedindex.filter.disable", "0"),
    ("heartbeatFrequency", "30"),
    ("indexAndForward", "0"),
    ("maxQueueSize", "auto"),
    ("sendCookedData", "1"),
];

/// The stanza with the settings of all groups, as a collection with one entity.
static ALL_GROUPS: LazyLock<Kind> = LazyLock::new(|| {
    let fields = Fields { required: &[], optional: ALL_GROUPS_SETTINGS, wildcard: &["forwardedindex.*"] };
    let only = Some((TCPOUT, TCPOUT));
    let refuse: super::entities::ValidateSettings = |_, _, name, _| match name {
        Some(name) if name != TCPOUT => Err(ApiError::bad_request(format!("name={name}: the only one is {TCPOUT}"))),
        _ => Ok(()),
    };
    Kind {
        notice: ChangeNotice::Always(RESTART_MESSAGE),
        only,
        validate: refuse,
        fill: |_, _, settings| {
            for (key, value) in ALL_GROUPS_DEFAULTS.into_iter().chain(INDEX_FILTERS) {
                settings.entry(key.to_owned()).or_insert_with(|| value.to_owned());
            }
        },
        ..kind("data/outputs/tcp/default", "tcpout-default", CONF, fields)
    }
});

/// The collection of syslog receivers.
static SYSLOG: LazyLock<Kind> = LazyLock::new(|| {
    let fields = Fields { required: &[], optional: SYSLOG_SETTINGS, wildcard: &[] };
    let prefix = SYSLOG_GROUP.into();
    Kind { prefix, notice: ChangeNotice::Always(NOT_SENT), ..kind("data/outputs/tcp/syslog", "syslog", CONF, fields) }
});

/// The collections of groups and of the settings of all groups, for tests.
#[cfg(test)]
pub(super) fn kinds() -> Vec<Kind> {
    vec![GROUPS.clone(), ALL_GROUPS.clone()]
}

pub(crate) fn endpoints() -> Vec<Endpoint> {
    // Reading requires the same capability as changing, because the conf may contain passwords.
    let access = Access::Capability(EDIT_FORWARDERS);
    let one = format!("{SERVERS}/{{name}}");
    let kinds = [&*GROUPS, &*ALL_GROUPS, &*SYSLOG].into_iter();
    let mut endpoints: Vec<Endpoint> =
        kinds.flat_map(|kind| rows(&kind.path, [access; 2], kind.fields, KindLookup::always(kind.clone()))).collect();
    let servers = vec![
        Endpoint::new(Method::GET, SERVERS, access, "Lists the servers of all groups.", get(list))
            .takes(LIST_PARAMETERS),
        Endpoint::new(Method::POST, SERVERS, access, "Adds a server to a group.", post(create))
            .needs(&["name"])
            .takes(SERVER_SETTINGS),
        Endpoint::new(Method::GET, one.as_str(), access, "Shows a server.", get(show)),
        Endpoint::new(Method::POST, one.as_str(), access, "Changes settings of a server.", post(edit))
            .takes(SERVER_SETTINGS),
        Endpoint::new(Method::DELETE, one.as_str(), access, "Removes a server from all groups.", delete(remove)),
    ];
    let acl = format!("{one}/acl");
    let changed = "Changes the permissions of a server.";
    let permissions = vec![
        Endpoint::new(Method::GET, acl.as_str(), access, "Shows the permissions of a server.", get(show_acl)),
        Endpoint::new(Method::POST, acl, access, changed, post(set_acl)).takes(ACL_PARAMETERS),
    ];
    endpoints.extend(entities(permissions, &NO_CONTENT));
    let fields = Fields { required: &[], optional: SERVER_SETTINGS, wildcard: &[] };
    let members: &[Member] = &[
        ("group", Shape::Text),
        ("disabled", Shape::Flag),
        ("destHost", Shape::Text),
        ("destIp", Shape::Text),
        ("destPort", Shape::Integer),
    ];
    endpoints.extend(entities(
        servers,
        &Content::for_path(SERVERS, Shape::Settings(super::shape::Settings { fields, more: members })),
    ));
    endpoints
}

/// Addresses in a server list.
fn addresses(list: &str) -> Vec<String> {
    list.split(',').map(|server| server.trim().to_owned()).filter(|server| !server.is_empty()).collect()
}

/// The effective stanzas of outputs.conf.
fn stanzas(objects: &Objects, scope: &Scope) -> Result<Vec<ConfObject>, ObjectError> {
    objects.list(CONF, scope, &Permissions::owner())
}

/// A server and its groups.
struct Server {
    address: String,
    groups: Vec<String>,
    settings: Map<String, Value>,
    /// The server's own stanza, if any.
    stanza: Option<ConfObject>,
}

fn servers_of(stanzas: &[ConfObject]) -> Vec<Server> {
    let mut found: Vec<Server> = Vec::new();
    let lists = stanzas.iter().filter_map(|stanza| {
        let group = if stanza.name == TCPOUT { Some("") } else { stanza.name.strip_prefix(GROUP) };
        Some((group?, stanza.get("server")?))
    });
    for (group, list) in lists {
        for address in addresses(list) {
            match found.iter_mut().find(|server| server.address == address) {
                Some(server) => server.groups.push(group.to_owned()),
                None => {
                    let groups = vec![group.to_owned()];
                    found.push(Server { address, groups, settings: Map::new(), stanza: None });
                }
            }
        }
    }
    for server in &mut found {
        let own = stanzas.iter().find(|stanza| stanza.name.strip_prefix(SERVER) == Some(&server.address));
        let settings = own.into_iter().flat_map(|own| &own.settings);
        server.settings = settings.map(|(key, value)| (key.clone(), json_value(key, value))).collect();
        server.stanza = own.cloned();
    }
    found.sort_by(|one, other| one.address.cmp(&other.address));
    found
}

fn entry(server: Server) -> Entry {
    let path = format!("/services/{SERVERS}/{}", escape_segment(&server.address));
    let links = ["list", "edit", "remove"].map(|name| (name, path.clone())).to_vec();
    let mut content = server.settings;
    let groups: Vec<&str> = server.groups.iter().map(String::as_str).filter(|group| !group.is_empty()).collect();
    content.insert("group".to_owned(), groups.join(", ").into());
    content.insert(METHOD.to_owned(), BALANCED.into());
    let is_disabled = content.get("disabled").and_then(Value::as_bool);
    content.insert("disabled".to_owned(), is_disabled.unwrap_or(false).into());
    let (host, port) = server.address.rsplit_once(':').unwrap_or((&server.address, ""));
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>().map(|ip| ip.to_string()).unwrap_or_default();
    content.insert("destHost".to_owned(), host.into());
    content.insert("destIp".to_owned(), ip.into());
    content.insert("destPort".to_owned(), port.parse::<u16>().unwrap_or(0).into());
    let acl = match &server.stanza {
        Some(stanza) => node_acl_of(stanza),
        None => Acl { can_write: true, can_remove: true, ..Acl::for_node() },
    };
    let fields = Some(Fields { required: &[], optional: SERVER_SETTINGS, wildcard: &[] });
    let author = server.stanza.as_ref().map_or(NOBODY, |stanza| stanza.owner.as_str()).to_owned();
    let app = server.stanza.as_ref().map_or(super::jobs::APP, |stanza| stanza.location.app()).to_owned();
    Entry { name: server.address, path, author, app, acl, fields, updated: 0, links, content }
}

async fn readable_entries(state: &ApiState, caller: &Caller, parts: &PathParts) -> Result<Vec<Entry>, ApiError> {
    let scope = scope_of(parts, caller)?;
    let found = with_objects(state, caller, move |objects, viewer| {
        let mut servers = servers_of(&stanzas(objects, &scope)?);
        servers.retain(|server| server.stanza.as_ref().is_none_or(|stanza| objects.may_read(stanza, viewer)));
        Ok(servers)
    });
    Ok(found.await?.into_iter().map(entry).collect())
}

async fn list(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    page(TITLE, format!("/services/{SERVERS}"), readable_entries(&state, &caller, &parts).await?, &parameters)
}

async fn find_entry(state: &ApiState, caller: &Caller, parts: &PathParts, name: &str) -> Result<Entry, ApiError> {
    let found = readable_entries(state, caller, parts).await?.into_iter().find(|entry| entry.name == name);
    Ok(found.ok_or_else(|| ObjectError::Unknown(name.to_owned()))?)
}

async fn show_acl(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let entry = acl_entry(find_entry(&state, &caller, &parts, &name_of(&parts)).await?);
    Ok(Feed::of(TITLE, entry.path.clone(), vec![entry]).answer(Form::of(parameters.get("output_mode"))))
}

/// Changes the permissions of a server, which are the permissions of its stanza.
async fn set_acl(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let (name, asked) = (name_of(&parts), required_acl_change(&state.auth, &parameters)?);
    find_entry(&state, &caller, &parts, &name).await?;
    let (scope, stanza) = (scope_of(&parts, &caller)?, format!("{SERVER}{name}"));
    let set = move |objects: &Objects, viewer: &Permissions| {
        write(objects, viewer, &scope, &stanza, &[])?;
        objects.set_acl(CONF, &stanza, &asked, &scope, viewer)
    };
    change(&state, &caller, CONF, set).await?;
    show_acl(State(state), parts, caller, parameters.keep_only("output_mode")).await
}

async fn answer(
    state: &ApiState,
    caller: &Caller,
    parts: &PathParts,
    (name, told): (&str, Option<&'static str>),
    parameters: &Parameters,
) -> Result<Response, ApiError> {
    let entry = find_entry(state, caller, parts, name).await?;
    let feed = Feed::of(TITLE, format!("/services/{SERVERS}"), vec![entry]);
    Ok(Feed { notice: told.map(Cow::Borrowed), ..feed }.answer(Form::of(parameters.get("output_mode"))))
}

fn name_of(parts: &PathParts) -> String {
    parts.get("name").cloned().unwrap_or_default()
}

async fn show(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    answer(&state, &caller, &parts, (&name_of(&parts), None), &parameters).await
}

/// Requested group and settings of a server.
struct ServerForm {
    group: Option<String>,
    settings: Vec<(String, String)>,
}

fn parse_form(form: &Parameters) -> Result<ServerForm, ApiError> {
    let mut asked = ServerForm { group: form.text("group"), settings: Vec::new() };
    let given = form.clone().into_settings()?.into_iter();
    for (key, value) in given.filter(|(key, _)| !matches!(key.as_str(), "output_mode" | "name" | "group")) {
        if !SERVER_SETTINGS.contains(&key.as_str()) {
            return Err(ApiError::bad_request(format!("Argument \"{key}\" is not supported by this handler.")));
        }
        match (key.as_str(), value.as_str()) {
            // The servers of a group are always load-balanced; to clone data, clients define several groups.
            (METHOD, method) if is_balanced(method) => {}
            (METHOD, _) => return Err(refused_method(&value)),
            _ => asked.settings.push((key, value)),
        }
    }
    Ok(asked)
}

impl ServerForm {
    /// The message about when the settings take effect.
    fn notice(&self) -> &'static str {
        let is_unused = self.settings.iter().any(|(key, _)| UNUSED_SERVER_SETTINGS.contains(&key.as_str()));
        if is_unused { UNUSED_MESSAGE } else { RESTART_MESSAGE }
    }
}

/// Refuses an invalid server address.
fn check_address(name: &str) -> Result<(), ApiError> {
    let parts = name.rsplit_once(':');
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_host = |host: &str| {
        !host.is_empty()
            && !host.chars().any(|letter| letter.is_whitespace() || letter.is_control() || "[],/".contains(letter))
    };
    let bare = |host: &str| {
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).map_or(host.to_owned(), str::to_owned)
    };
    match parts {
        Some((host, port)) if is_port(port) && is_host(&bare(host)) => Ok(()),
        _ => {
            let shown: String = name.chars().take(80).flat_map(char::escape_debug).collect();
            Err(ApiError::bad_request(format!("name={shown}: give HOST:PORT, as in 10.0.0.5:9997")))
        }
    }
}

/// Writes settings to an existing stanza in its location, or creates the stanza in the scope's location.
fn write(
    objects: &Objects,
    viewer: &Permissions,
    scope: &Scope,
    name: &str,
    settings: &[(String, String)],
) -> Result<(), ObjectError> {
    match objects.edit(CONF, name, settings, scope, viewer) {
        Err(ObjectError::Unknown(_)) => objects.put(CONF, name, settings, scope, viewer),
        changed => changed.map(drop),
    }
}

fn pair(key: &str, value: impl Into<String>) -> (String, String) {
    (key.to_owned(), value.into())
}

async fn create(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    Settings(form): Settings,
) -> Result<Response, ApiError> {
    let name = form.required("name")?.to_owned();
    check_address(&name)?;
    let (asked, scope) = (parse_form(&form)?, scope_of(&parts, &caller)?);
    let (alone, notice) = (CHANGE_LOCK.lock().await, asked.notice());
    if readable_entries(&state, &caller, &parts).await?.iter().any(|entry| entry.name == name) {
        return Err(ObjectError::Exists(name).into());
    }
    let address = name.clone();
    let join = move |objects: &Objects, viewer: &Permissions| {
        let stanzas = stanzas(objects, &scope)?;
        let of_all = stanzas.iter().find(|stanza| stanza.name == TCPOUT);
        let default = of_all.and_then(|stanza| stanza.get("defaultGroup")).map(addresses).unwrap_or_default();
        let group =
            asked.group.clone().or_else(|| default.first().cloned()).unwrap_or_else(|| GROUP_DEFAULT.to_owned());
        let stanza = format!("{GROUP}{group}");
        let there = stanzas.iter().find(|known| known.name == stanza).and_then(|known| known.get("server"));
        let mut servers = there.map(addresses).unwrap_or_default();
        servers.push(address.clone());
        write(objects, viewer, &scope, &stanza, &[pair("server", servers.join(", "))])?;
        if !asked.settings.is_empty() {
            write(objects, viewer, &scope, &format!("{SERVER}{address}"), &asked.settings)?;
        }
        // Without a default group, nothing would be sent, so the group of the server becomes the default group.
        if default.is_empty() {
            write(objects, viewer, &scope, TCPOUT, &[pair("defaultGroup", group)])?;
        }
        Ok(())
    };
    change(&state, &caller, CONF, join).await?;
    drop(alone);
    Ok((StatusCode::CREATED, answer(&state, &caller, &parts, (&name, Some(notice)), &form).await?).into_response())
}

async fn edit(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    Settings(form): Settings,
) -> Result<Response, ApiError> {
    let (name, asked, scope) = (name_of(&parts), parse_form(&form)?, scope_of(&parts, &caller)?);
    if asked.group.is_some() {
        return Err(ApiError::bad_request("group: remove the server and add it to the other group instead"));
    }
    find_entry(&state, &caller, &parts, &name).await?;
    let (stanza, notice) = (format!("{SERVER}{name}"), asked.notice());
    let set = move |objects: &Objects, viewer: &Permissions| write(objects, viewer, &scope, &stanza, &asked.settings);
    change(&state, &caller, CONF, set).await?;
    answer(&state, &caller, &parts, (&name, Some(notice)), &form).await
}

async fn remove(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let (name, scope) = (name_of(&parts), scope_of(&parts, &caller)?);
    let alone = CHANGE_LOCK.lock().await;
    answer(&state, &caller, &parts, (&name, None), &parameters).await?;
    let leave = move |objects: &Objects, viewer: &Permissions| {
        let mut emptied = Vec::new();
        let stanzas = stanzas(objects, &scope)?;
        for stanza in stanzas.iter().filter(|stanza| stanza.name == TCPOUT || stanza.name.starts_with(GROUP)) {
            let servers = stanza.get("server").map(addresses).unwrap_or_default();
            if !servers.contains(&name) {
                continue;
            }
            let left: Vec<&str> = servers.iter().map(String::as_str).filter(|server| *server != name).collect();
            match stanza.name.strip_prefix(GROUP) {
                Some(group) if left.is_empty() && stanza.is_local => {
                    objects.remove(CONF, &stanza.name, &scope, viewer)?;
                    emptied.push(group.to_owned());
                }
                _ => write(objects, viewer, &scope, &stanza.name, &[pair("server", left.join(", "))])?,
            }
        }
        let own = format!("{SERVER}{name}");
        if stanzas.iter().any(|stanza| stanza.name == own && stanza.is_local) {
            objects.remove(CONF, &own, &scope, viewer)?;
        }
        // Removed groups must not stay in the default groups.
        let of_all = stanzas.iter().find(|stanza| stanza.name == TCPOUT);
        let default = of_all.and_then(|stanza| stanza.get("defaultGroup")).map(addresses).unwrap_or_default();
        let left: Vec<&str> =
            default.iter().map(String::as_str).filter(|group| !emptied.iter().any(|gone| gone == group)).collect();
        if left.len() < default.len() {
            write(objects, viewer, &scope, TCPOUT, &[pair("defaultGroup", left.join(", "))])?;
        }
        Ok(())
    };
    change(&state, &caller, CONF, leave).await?;
    drop(alone);
    let entries = readable_entries(&state, &caller, &parts).await?;
    let feed = Feed::of(TITLE, format!("/services/{SERVERS}"), entries);
    Ok(Feed { notice: Some(Cow::Borrowed(RESTART_MESSAGE)), ..feed }.answer(Form::of(parameters.get("output_mode"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_host_and_a_port() {
        for name in ["10.0.0.5:9997", "indexer.example:1", "[2001:db8::1]:9997"] {
            assert!(check_address(name).is_ok(), "{name}");
        }
        for name in ["10.0.0.5", "h:0", "h:70000", ":9997", "a b:1", "a,b:1", "", "h]:1"] {
            assert!(check_address(name).is_err(), "{name}");
        }
    }
}
