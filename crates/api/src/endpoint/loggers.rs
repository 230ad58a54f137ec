//! `server/logger`: the levels of the node's log. A change of a level lasts until the node stops.
//!
//! `root` is the level of everything that the node writes to its log; less important messages are dropped. Audit events
//! have a logger too, because clients change its level, but every audit event is recorded, whatever the level.
//!
//! Not here: dropping messages ([`quarry_stdx::log`]).

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use quarry_apps::objects::{APP_SYSTEM, NOBODY};
use quarry_stdx::log::{self, Level};
use serde_json::{Map, Value};

use super::answer_shape::Content;
use super::listing::{LIST_PARAMETERS, page};
use super::path_parts::PathParts;
use super::row::{Access, EDIT_SERVER, Endpoint, entities};
use super::shape::Shape;
use crate::atom::{Acl, Entry, Feed, Fields, Form};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;

/// Path of the collection after the root.
const COLLECTION: &str = "server/logger";
/// Title of the collection in Atom feeds.
const TITLE: &str = "logger";
/// Logger of everything that the node writes to its log.
const ROOT: &str = "root";
/// Logger of audit events.
const AUDIT: &str = "AuditLogger";
/// The loggers, by name.
const LOGGERS: [&str; 2] = [AUDIT, ROOT];
/// Parameter with the new level.
const LEVEL: &str = "level";
/// Splunk's levels and their equivalents here, where `Info` is the most detailed and `Error` the most severe level.
const LEVELS: [(&str, Level); 7] = [
    ("DEBUG", Level::Info),
    ("INFO", Level::Info),
    ("WARN", Level::Warning),
    ("ERROR", Level::Error),
    ("FATAL", Level::Error),
    ("CRIT", Level::Error),
    ("ALERT", Level::Error),
];
/// Messages about levels without an effect of their own.
const AUDIT_NOTICE: &str = "The level is shown and has no effect: every audit event is recorded.";
const DEBUG_NOTICE: &str = "There are no messages for debugging: DEBUG has the effect of INFO.";

const FIELDS: Fields = Fields { required: &[LEVEL], optional: &[], wildcard: &[] };

/// The level of each of [`LOGGERS`] as it was set.
static CURRENT: Mutex<[&str; 2]> = Mutex::new(["INFO"; 2]);

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (own, edit) = (Access::LoggedIn, Access::Capability(EDIT_SERVER));
    let one = format!("{COLLECTION}/{{name}}");
    let rows = vec![
        Endpoint::new(Method::GET, COLLECTION, own, "Lists the loggers of the node with their levels.", get(list))
            .takes(LIST_PARAMETERS),
        Endpoint::new(Method::GET, one.as_str(), own, "Shows the level of a logger.", get(show)),
        Endpoint::new(Method::POST, one, edit, "Sets the level of a logger until the node stops.", post(edit_level))
            .needs(&[LEVEL]),
    ];
    entities(rows, &Content::for_path(COLLECTION, Shape::Object(&[(LEVEL, Shape::Text)])))
}

fn entry(name: &str, level: &str, may_change: bool) -> Entry {
    let path = format!("/servicesNS/{NOBODY}/{APP_SYSTEM}/{COLLECTION}/{name}");
    let mut links = vec![("list", path.clone())];
    if may_change {
        links.push(("edit", path.clone()));
    }
    let content = Map::from_iter([(LEVEL.to_owned(), Value::from(level))]);
    let (author, app) = (NOBODY.to_owned(), APP_SYSTEM.to_owned());
    let acl = Acl { can_write: may_change, ..Acl::for_node() };
    Entry { name: name.to_owned(), path, author, app, acl, fields: Some(FIELDS), updated: 0, links, content }
}

fn entries(caller: &Caller) -> Vec<Entry> {
    let current = *CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    let may_change = caller.permissions.has_capability(EDIT_SERVER);
    LOGGERS.into_iter().zip(current).map(|(name, level)| entry(name, level, may_change)).collect()
}

async fn list(caller: Caller, parameters: Parameters) -> Result<Response, ApiError> {
    page(TITLE, format!("/services/{COLLECTION}"), entries(&caller), &parameters)
}

/// Position of the logger of a path in [`LOGGERS`].
fn find_logger(parts: &PathParts) -> Result<usize, ApiError> {
    let name = parts.get("name").map(String::as_str).unwrap_or_default();
    let missing = || ApiError::with_status(StatusCode::NOT_FOUND, format!("Could not find object id={name}"));
    LOGGERS.iter().position(|known| *known == name).ok_or_else(missing)
}

fn answer(at: usize, caller: &Caller, parameters: &Parameters, notice: Option<&'static str>) -> Response {
    let entry = entries(caller).into_iter().skip(at).take(1).collect();
    let feed = Feed::of(TITLE, format!("/services/{COLLECTION}"), entry);
    Feed { notice: notice.map(Cow::Borrowed), ..feed }.answer(Form::of(parameters.get("output_mode")))
}

async fn show(parts: PathParts, caller: Caller, parameters: Parameters) -> Result<Response, ApiError> {
    Ok(answer(find_logger(&parts)?, &caller, &parameters, None))
}

async fn edit_level(parts: PathParts, caller: Caller, parameters: Parameters) -> Result<Response, ApiError> {
    let (at, asked) = (find_logger(&parts)?, parameters.required(LEVEL)?.trim());
    let Some((word, level)) = LEVELS.into_iter().find(|(word, _)| word.eq_ignore_ascii_case(asked)) else {
        let words = LEVELS.map(|(word, _)| word).join(", ");
        return Err(ApiError::bad_request(format!("{LEVEL}={asked}: give one of {words}")));
    };
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)[at] = word;
    if LOGGERS[at] == AUDIT {
        return Ok(answer(at, &caller, &parameters, Some(AUDIT_NOTICE)));
    }
    log::set_level(level);
    Ok(answer(at, &caller, &parameters, (word == "DEBUG").then_some(DEBUG_NOTICE)))
}
