//! `server/introspection/kvstore`: the process that keeps the KV store, and the size of each collection.
//!
//! As in Splunk, `data` contains JSON texts. Not here: whether documents can be written (`kvstore/status`), and replica
//! sets ([`super::constant_answers`]).

use axum::extract::State;
use axum::http::Method;
use axum::response::Response;
use axum::routing::get;
use quarry_apps::objects::{APP_SYSTEM, ConfObject, NOBODY, Scope};
use quarry_collections::{CollectionError, CollectionSize};
use quarry_conf::text::DEFAULT_STANZA;
use quarry_event::time::NS_PER_SEC;
use serde_json::{Map, Value, json};

use super::answer_shape::Content;
use super::collection_entities::CONF;
use super::entities::with_objects;
use super::listing::page;
use super::row::{Access, Endpoint, LIST_INTROSPECTION, entities};
use super::run_blocking;
use super::shape::Shape;
use crate::ApiState;
use crate::atom::{Acl, Entry};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;

const FOLDER: &str = "server/introspection/kvstore";
const PROCESS: &str = "serverstatus";
const COLLECTIONS: &str = "collectionstats";

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let row = |name: &str, summary, serve| {
        Endpoint::new(Method::GET, format!("{FOLDER}/{name}"), Access::Capability(LIST_INTROSPECTION), summary, serve)
    };
    let rows = vec![
        row(PROCESS, "Shows the state of the KV store.", get(process)),
        row(COLLECTIONS, "Shows the size of each collection.", get(collections)),
    ];
    entities(rows, &Content::for_path(FOLDER, Shape::Object(&[("data", Shape::List(&Shape::Text))])))
}

fn answer(name: &'static str, data: &[Value], parameters: Parameters) -> Result<Response, ApiError> {
    let path = format!("/services/{FOLDER}/{name}");
    let texts: Vec<String> = data.iter().map(Value::to_string).collect();
    let content = Map::from_iter([("data".to_owned(), texts.into())]);
    let (author, app, links) = (NOBODY.to_owned(), APP_SYSTEM.to_owned(), vec![("list", path.clone())]);
    let (entity, place, acl) = (name.to_owned(), path.clone(), Acl::for_node());
    let entry = Entry { name: entity, path, author, app, acl, fields: None, updated: 0, links, content };
    page(name, place, vec![entry], &parameters.keep_only("output_mode"))
}

async fn process(State(state): State<ApiState>, parameters: Parameters) -> Result<Response, ApiError> {
    let (node, now) = (state.node.clone(), state.auth.now());
    let condition = run_blocking(move || node.condition()).await?;
    let uptime = now.saturating_sub(condition.started).div_euclid(NS_PER_SEC);
    let status = json!({
        "host": condition.host, "version": env!("CARGO_PKG_VERSION"), "process": "quarry", "pid": std::process::id(),
        "uptime": uptime, "storageEngine": { "name": "sqlite" },
    });
    answer(PROCESS, &[status], parameters)
}

async fn collections(
    State(state): State<ApiState>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let listed =
        with_objects(&state, &caller, |objects, viewer| objects.list(CONF, &Scope::for_namespace("-", "-")?, viewer));
    let (listed, collections) = (listed.await?, state.collections.clone());
    let sizes = run_blocking(move || {
        let of_object = |object: ConfObject| {
            let (app, name) = (object.location.app(), &object.name);
            let CollectionSize { documents, bytes } = collections.get(app, name)?.size()?;
            let average = bytes.checked_div(documents).unwrap_or(0);
            Ok(json!({
                "ns": format!("{app}.{name}"), "count": documents, "storageSize": bytes, "avgObjSize": average,
            }))
        };
        let defined = listed.into_iter().filter(|object| object.name != DEFAULT_STANZA);
        defined.map(of_object).collect::<Result<Vec<Value>, CollectionError>>()
    });
    answer(COLLECTIONS, &sizes.await??, parameters)
}
