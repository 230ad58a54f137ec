//! `ID/acl`: answers with the permissions of an entity, and requests to change them.
//!
//! Not here: who may change them ([`quarry_apps::objects`]).

use quarry_apps::objects::{AclChange, ObjectSharing};
use serde_json::Map;

use crate::atom::Entry;
use crate::message::ApiError;
use crate::parameters::Parameters;

/// The entity with only its ACL as content, as in Splunk.
pub(super) fn acl_entry(mut entry: Entry) -> Entry {
    entry.content = Map::new();
    entry.path.push_str("/acl");
    entry
}

/// The requested change of an ACL.
pub(super) fn acl_change(form: &Parameters) -> Result<AclChange, ApiError> {
    let sharing = form.get("sharing").map(|word| {
        ObjectSharing::from_word(word)
            .ok_or_else(|| ApiError::bad_request(format!("sharing={word}: give user, app, global or system")))
    });
    let roles = |name: &str| form.get(name).map(|_| form.list(name));
    Ok(AclChange {
        owner: form.text("owner"),
        sharing: sharing.transpose()?,
        readers: roles("perms.read"),
        writers: roles("perms.write"),
    })
}
