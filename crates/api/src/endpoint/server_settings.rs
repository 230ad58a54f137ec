//! Settings of the node: `server/settings`.
//!
//! All settings that Splunk's clients read are shown. Settings with an effect here are changed in the conf file that
//! defines them; changes of other settings are refused. A request may repeat any current value, because clients send
//! back what they have read. Not here: settings of single inputs and indexes, other settings of conf files
//! ([`super::configurations`]).

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::Method;
use axum::response::Response;
use axum::routing::{get, post};
use quarry_apps::objects::NOBODY;
use quarry_conf::parse_bool;
use quarry_conf::table::ConfTable;
use quarry_conf::text::DEFAULT_STANZA;
use serde_json::{Value, json};

use super::answer_shape::Content;
use super::entities::{SERVER_CONF, change};
use super::listing::{LIST_PARAMETERS, select_page};
use super::row::{Access, EDIT_SERVER, Endpoint, REST_PROPERTIES, entities};
use super::server_state::{Facts, MEGABYTE, entity, read_facts};
use super::shape::{Member, Shape};
use crate::ApiState;
use crate::atom::{Entry, Feed, Fields, Form};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::node::NodeCondition;
use crate::parameters::{Parameters, Settings};

/// The collection, and its only entity.
const PATH: &str = "server/settings";
const NAME: &str = "settings";
/// The text shown instead of a key.
const MASK: &str = "********";
/// The notice on changes that do not take effect at once.
const LATER: &str = "The change is saved and takes effect at the next start of the node.";
/// Settings that can be changed.
const FIELDS: Fields =
    Fields { required: &[], optional: &["host", "minFreeSpace", "serverName", "sessionTimeout"], wildcard: &[] };

/// A setting to write: its stanza, name and value.
type NodeSetting = (&'static str, (String, String));

/// Time at which a change takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    AtOnce,
    AtStart,
}

/// Result of a change of a setting.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// The setting is written to this stanza of this conf.
    Write { conf: &'static str, stanza: &'static str, effect: Effect },
    /// The change is refused for this reason.
    Refuse(&'static str),
}

const GENERAL: Change = Change::Write { conf: SERVER_CONF, stanza: "general", effect: Effect::AtOnce };
const DISK: Change = Change::Write { conf: SERVER_CONF, stanza: "diskUsage", effect: Effect::AtStart };
const INPUTS: Change = Change::Write { conf: "inputs", stanza: DEFAULT_STANZA, effect: Effect::AtOnce };
const NO_WEB: Change = Change::Refuse("the node has no web server of its own");
const OPTION: Change = Change::Refuse("it is an option of the command that starts the node (quarry serve --mgmt)");
const FOLDER: Change =
    Change::Refuse("the data directory is an option of the command that starts the node (--data-dir)");
const NO_CLUSTER: Change = Change::Refuse("the node belongs to no cluster, so the key is not used");
const NO_PROXY: Change = Change::Refuse("there is no single sign-on, so no address is trusted");

/// Members of the content.
const MEMBERS: &[Member] = &[
    ("SPLUNK_DB", Shape::Text),
    ("SPLUNK_HOME", Shape::Text),
    ("enableSplunkWebSSL", Shape::Flag),
    ("host", Shape::Text),
    ("httpport", Shape::Count),
    ("mgmtHostPort", Shape::Count),
    ("minFreeSpace", Shape::Count),
    ("pass4SymmKey", Shape::Text),
    ("serverName", Shape::Text),
    ("sessionTimeout", Shape::Text),
    ("startwebserver", Shape::Flag),
    ("trustedIP", Shape::Text),
];

/// Result of a change of each setting.
const CHANGES: [(&str, Change); 12] = [
    ("SPLUNK_DB", FOLDER),
    ("SPLUNK_HOME", FOLDER),
    ("enableSplunkWebSSL", NO_WEB),
    ("host", INPUTS),
    ("httpport", NO_WEB),
    ("mgmtHostPort", OPTION),
    ("minFreeSpace", DISK),
    ("pass4SymmKey", NO_CLUSTER),
    ("serverName", GENERAL),
    ("sessionTimeout", GENERAL),
    ("startwebserver", NO_WEB),
    ("trustedIP", NO_PROXY),
];

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (read, write) = (Access::Capability(REST_PROPERTIES), Access::Capability(EDIT_SERVER));
    let (one, shown) = (format!("{PATH}/{NAME}"), "Shows the settings of the node.");
    let rows = vec![
        Endpoint::new(Method::GET, PATH, read, shown, get(show)).takes(LIST_PARAMETERS),
        Endpoint::new(Method::GET, one.as_str(), read, shown, get(show)),
        Endpoint::new(Method::POST, one, write, "Changes settings of the node.", post(set)).takes(FIELDS.optional),
    ];
    entities(rows, &Content::for_path(PATH, Shape::Object(MEMBERS)))
}

/// The settings as members of an entity.
fn content(facts: &Facts) -> Value {
    let NodeCondition { name, input_host, folder, disk_free_min, management, has_cluster_key, session_timeout, .. } =
        &facts.condition;
    json!({
        "SPLUNK_DB": format!("{folder}/db"), "SPLUNK_HOME": folder, "enableSplunkWebSSL": false, "host": input_host,
        // In Splunk's web.conf, 0 means that no such port is open.
        "httpport": 0, "mgmtHostPort": management_port(management), "minFreeSpace": disk_free_min / MEGABYTE,
        "pass4SymmKey": if *has_cluster_key { MASK } else { "" }, "serverName": name, "sessionTimeout": session_timeout,
        "startwebserver": false, "trustedIP": "",
    })
}

/// The port of the management address, which Splunk shows instead of the address; 0 without an address.
fn management_port(address: &str) -> u16 {
    address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0)
}

async fn answer(state: &ApiState, parameters: &Parameters, notice: Option<&'static str>) -> Result<Response, ApiError> {
    let path = format!("/services/{PATH}");
    let entry = entity(PATH, NAME, NOBODY, 0, content(&read_facts(state).await?));
    let mut links = entry.links.clone();
    links.push(("edit", entry.path.clone()));
    let feed = select_page(NAME, path, vec![Entry { links, fields: Some(FIELDS), ..entry }], parameters)?;
    let feed = Feed { notice: notice.map(Cow::Borrowed), ..feed };
    Ok(feed.answer(Form::of(parameters.get("output_mode"))))
}

async fn show(State(state): State<ApiState>, parameters: Parameters) -> Result<Response, ApiError> {
    answer(&state, &parameters, None).await
}

/// Changes the given settings, or none if one of them is refused.
async fn set(State(state): State<ApiState>, caller: Caller, Settings(form): Settings) -> Result<Response, ApiError> {
    let shown = content(&read_facts(&state).await?);
    let (mut writes, mut waits) = (BTreeMap::<&'static str, Vec<NodeSetting>>::new(), false);
    for (key, value) in form.clone().into_settings()?.into_iter().filter(|(key, _)| key != "output_mode") {
        let Some((conf, stanza, effect)) = place_of(&key, &value, &shown)? else { continue };
        check_value(conf, stanza, &key, &value)?;
        waits |= effect == Effect::AtStart;
        writes.entry(conf).or_default().push((stanza, (key, value)));
    }
    for (conf, settings) in writes {
        change(&state, &caller, conf, move |objects, _| objects.set_node_settings(conf, &settings)).await?;
    }
    answer(&state, &form.keep_only("output_mode"), waits.then_some(LATER)).await
}

/// Conf and stanza of a setting, and when its change takes effect; `None` if the setting has this value already.
fn place_of(key: &str, value: &str, shown: &Value) -> Result<Option<(&'static str, &'static str, Effect)>, ApiError> {
    let unknown = || ApiError::bad_request(format!("Argument \"{key}\" is not supported by this handler."));
    let (_, change) = CHANGES.iter().find(|(name, _)| *name == key).ok_or_else(unknown)?;
    let is_same = match &shown[key] {
        Value::Bool(flag) => parse_bool(value) == Some(*flag),
        Value::String(text) => text == value,
        other => {
            let shown = other.to_string();
            shown == value
        }
    };
    match change {
        _ if is_same => Ok(None),
        Change::Write { conf, stanza, effect } => Ok(Some((conf, stanza, *effect))),
        Change::Refuse(why) => Err(ApiError::bad_request(format!("{key} cannot be changed: {why}"))),
    }
}

/// Refuses a value that the setting's type does not allow.
fn check_value(conf: &str, stanza: &str, key: &str, value: &str) -> Result<(), ApiError> {
    let sections = ConfTable::find_table(conf).and_then(|table| table.sections_of(stanza)).unwrap_or_default();
    let row = sections.iter().flat_map(|section| section.rows).find(|row| row.name == key);
    match row {
        Some(row) if row.kind.accepts(value) && !value.chars().any(char::is_control) => Ok(()),
        Some(row) => Err(ApiError::bad_request(format!("{key}={value}: give {}", row.kind.describe_values()))),
        None => Err(ApiError::internal(format!("{conf}.conf has no setting {key}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_shown_and_those_that_change_have_a_row() {
        let names: Vec<&str> = CHANGES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, MEMBERS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        let mut changed = Vec::new();
        for (name, change) in CHANGES {
            if let Change::Write { conf, stanza, .. } = change {
                check_value(conf, stanza, name, "").unwrap();
                changed.push(name);
            }
        }
        assert_eq!(changed, FIELDS.optional);
    }

    #[test]
    fn values_that_are_sent_back_change_nothing() {
        let shown = json!({ "startwebserver": false, "minFreeSpace": 256, "pass4SymmKey": MASK, "trustedIP": "" });
        for (key, value) in
            [("startwebserver", "0"), ("minFreeSpace", "256"), ("pass4SymmKey", MASK), ("trustedIP", "")]
        {
            assert_eq!(place_of(key, value, &shown).unwrap(), None, "{key}");
        }
        assert!(place_of("minFreeSpace", "300", &shown).unwrap().is_some_and(|(.., effect)| effect == Effect::AtStart));
        assert!(place_of("startwebserver", "1", &shown).is_err());
        assert!(place_of("colour", "red", &shown).is_err());
        assert!(check_value("server", "diskUsage", "minFreeSpace", "much").is_err());
        assert!(check_value("server", "general", "sessionTimeout", "2h").is_ok());
    }
}
