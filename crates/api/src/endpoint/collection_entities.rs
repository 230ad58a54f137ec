//! `storage/collections/config`: collections of the KV store, each a stanza of `collections.conf`.
//!
//! Collections belong to apps, so the user of the namespace must be `nobody` or `-`. Removing a collection removes its
//! documents. Not here: the documents ([`super::documents`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use quarry_apps::objects::{ConfObject, NOBODY};
use quarry_collections::CollectionDefinition;

use super::entities::{Kind, KindLookup, kind, rows};
use super::path_parts::PathParts;
use super::row::{Access, Endpoint, REST_PROPERTIES, REST_PROPERTIES_SET};
use crate::ApiState;
use crate::atom::Fields;
use crate::message::ApiError;

pub(super) const CONF: &str = "collections";
/// Path of the collection after the root.
const PATH: &str = "storage/collections/config";
/// User name that means all users.
const ALL: &str = "-";
/// Parameters of a collection.
const FIELDS: Fields = Fields {
    required: &[],
    optional: &[
        "disabled",
        "enforceTypes",
        "profilingEnabled",
        "profilingThresholdMs",
        "replicate",
        "replication_dump_maximum_file_size",
        "replication_dump_strategy",
        "type",
    ],
    wildcard: &["accelerated_fields.*", "field.*"],
};

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let access = [Access::Capability(REST_PROPERTIES), Access::Capability(REST_PROPERTIES_SET)];
    rows(PATH, access, FIELDS, KindLookup::Path(Arc::new(kind_of)))
}

fn kind_of(parts: &PathParts) -> Result<Kind, ApiError> {
    match parts.get("user").map(String::as_str) {
        None | Some(NOBODY | ALL) => Ok(Kind {
            validate: validate_settings,
            fill: fill_defaults,
            move_data: remove_documents,
            ..kind(PATH, "collections-conf", CONF, FIELDS)
        }),
        Some(user) => {
            Err(ApiError::bad_request(format!("collections belong to apps: give {NOBODY} for the user, not {user}")))
        }
    }
}

/// Settings without effect that clients expect, with Splunk's defaults.
const DEFAULTS: [(&str, &str); 7] = [
    ("enforceTypes", "false"),
    ("profilingEnabled", "false"),
    ("profilingThresholdMs", "1000"),
    ("replicate", "false"),
    ("replication_dump_maximum_file_size", "10240"),
    ("replication_dump_strategy", "auto"),
    ("type", "undefined"),
];

fn fill_defaults(_: &Kind, _: &ConfObject, settings: &mut BTreeMap<String, String>) {
    for (key, value) in DEFAULTS {
        settings.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }
}

fn validate_settings(
    state: &ApiState,
    _: &Kind,
    _: Option<&str>,
    settings: &[(String, String)],
) -> Result<(), ApiError> {
    // Unknown types of fields are accepted, as clients expect; such fields have no type.
    let (definition, faults) = CollectionDefinition::parse_settings(&settings.iter().cloned().collect());
    if let Some(fault) = faults.into_iter().next() {
        return Err(fault.into());
    }
    let (limits, (count, widest)) = (state.node.collection_limits(), definition.acceleration_counts());
    for (is, most, name) in [
        (count, limits.accelerations, "max_accelerations_per_collection"),
        (widest, limits.fields_per_acceleration, "max_fields_per_acceleration"),
    ] {
        if is > most {
            return Err(ApiError::bad_request(format!("{is} is over the limit {name}={most}")));
        }
    }
    Ok(())
}

/// Removes the documents of a removed collection. Documents of a moved collection stay, because they belong to the app.
fn remove_documents(state: &ApiState, before: &ConfObject, now: Option<&ConfObject>) -> Result<(), ApiError> {
    match now {
        Some(_) => Ok(()),
        None => Ok(state.collections.remove(before.location.app(), &before.name)?),
    }
}
