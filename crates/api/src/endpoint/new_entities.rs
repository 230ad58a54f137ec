//! `PATH/_new` of collections outside the table of entity kinds ([`super::entity_kinds`]): the parameters of a new
//! entity.
//!
//! Clients read the parameters before they offer to create an entity. Not here: `_new` of knowledge objects, which also
//! shows defaults ([`super::entities`]), and of collections without a row here ([`super::entity_actions`]).

use std::borrow::Cow;

use axum::http::Method;
use axum::response::Response;
use axum::routing::get;
use quarry_apps::objects::APP_SYSTEM;
use quarry_conf::permissions::EDIT_USER;
use serde_json::Map;

use super::answer_shape::{AnswerShape, NO_CONTENT};
use super::row::{Access, Endpoint, LIST_PASSWORDS, REST_APPS};
use super::{apps, indexes, passwords, roles, users};
use crate::atom::{Acl, Entry, Feed, Fields, Form};
use crate::caller::Caller;
use crate::parameters::Parameters;

/// Parameters of a message to all users.
const MESSAGE: Fields = Fields { required: &["name", "value"], optional: &["severity"], wildcard: &[] };

/// Collections with their titles in Atom, the access that reading them requires, and the parameters.
const COLLECTIONS: [(&str, &str, Access, Fields); 6] = [
    ("apps/local", "localapps", Access::Capability(REST_APPS), apps::FIELDS),
    ("authentication/users", "users", Access::Capability(EDIT_USER), users::FIELDS),
    ("authorization/roles", "roles", Access::LoggedIn, roles::FIELDS),
    ("data/indexes", "indexes", Access::LoggedIn, indexes::FIELDS),
    ("messages", "messages", Access::LoggedIn, MESSAGE),
    ("storage/passwords", "passwords", Access::Capability(LIST_PASSWORDS), passwords::FIELDS),
];

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let of = |(path, title, access, fields): &(&'static str, &'static str, Access, Fields)| {
        let (path, title, fields) = (*path, *title, *fields);
        let template = move |caller: Caller, parameters: Parameters| async move {
            template_of(title, path, fields, &caller, &parameters)
        };
        Endpoint::new(
            Method::GET,
            format!("{path}/_new"),
            *access,
            "Shows the possible settings of a new entity.",
            get(template),
        )
        .answers(AnswerShape::Entities(NO_CONTENT))
    };
    COLLECTIONS.iter().map(of).collect()
}

/// The template of a new entity with these parameters.
pub(super) fn template_of(
    title: impl Into<Cow<'static, str>>,
    collection: &str,
    fields: Fields,
    caller: &Caller,
    parameters: &Parameters,
) -> Response {
    let path = format!("/services/{collection}/_new");
    let entry = Entry {
        name: "_new".to_owned(),
        path: path.clone(),
        author: caller.identity.user.clone(),
        app: APP_SYSTEM.to_owned(),
        acl: Acl { can_write: true, ..Acl::for_node() },
        fields: Some(fields),
        updated: 0,
        links: Vec::new(),
        content: Map::new(),
    };
    Feed::of(title, path, vec![entry]).answer(Form::of(parameters.get("output_mode")))
}
