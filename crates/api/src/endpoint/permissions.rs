//! `ID/acl`: answers with the permissions of an entity, and requests to change them.
//!
//! Not here: who may change them ([`quarry_apps::objects`]).

use std::borrow::Cow;

use quarry_apps::objects::{AclChange, ObjectSharing};
use quarry_auth::Auth;
use serde_json::Map;

use crate::atom::Entry;
use crate::message::ApiError;
use crate::parameters::Parameters;

/// Parameters of a change.
pub(super) const ACL_PARAMETERS: &[&str] = &["owner", "sharing", "perms.read", "perms.write"];

/// The entity with only its ACL as content, as in Splunk.
pub(super) fn acl_entry(mut entry: Entry) -> Entry {
    entry.content = Map::new();
    entry.path.push_str("/acl");
    entry
}

/// The requested change of an ACL. Users and roles are named as they are stored, because their case does not matter.
pub(super) fn acl_change(auth: &Auth, form: &Parameters) -> Result<AclChange, ApiError> {
    let sharing = form.get("sharing").map(|word| {
        ObjectSharing::from_word(word)
            .ok_or_else(|| ApiError::bad_request(format!("sharing={word}: give user, app, global or system")))
    });
    let roles = |name: &str| form.get(name).map(|_| auth.stored_role_names(&form.list(name)));
    Ok(AclChange {
        owner: form.get("owner").map(|owner| auth.stored_name(owner)),
        sharing: sharing.transpose()?,
        readers: roles("perms.read"),
        writers: roles("perms.write"),
    })
}

/// The message about a change of permissions that an entity of the node does not have; `None` if it has them. Clients
/// write the permissions of every object that they create, so the change is not refused.
pub(super) fn keeps_permissions(entry: &Entry, asked: &AclChange, capability: &str) -> Option<Cow<'static, str>> {
    let acl = &entry.acl;
    let is_same = asked.owner.as_ref().is_none_or(|owner| *owner == entry.author)
        && asked.sharing.is_none_or(|sharing| sharing == acl.sharing)
        && asked.readers.as_ref().is_none_or(|readers| *readers == acl.readers)
        && asked.writers.as_ref().is_none_or(|writers| *writers == acl.writers);
    (!is_same).then(|| {
        let text = "belongs to the node and has no permissions of its own, so nothing is changed: who may read and change it \
                    depends on the capability";
        Cow::Owned(format!("{} {text} {capability}.", entry.name))
    })
}
