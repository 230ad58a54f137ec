//! `ID/acl` and `ID/move`: answers with the permissions of an entity, and requests to change them.
//!
//! Not here: who may change permissions ([`quarry_apps::objects`]).

use quarry_apps::objects::{AclChange, ConfObject, NOBODY, ObjectLocation, ObjectSharing};
use quarry_auth::Auth;
use serde_json::Map;

use crate::atom::{Acl, Entry};
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

/// The requested change of an ACL; an error if no change is requested.
pub(super) fn required_acl_change(auth: &Auth, form: &Parameters) -> Result<AclChange, ApiError> {
    let asked = acl_change(auth, form)?;
    match asked == AclChange::default() {
        true => Err(ApiError::bad_request("nothing to change: give owner, sharing, perms.read or perms.write")),
        false => Ok(asked),
    }
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
        app: None,
    })
}

/// Parameters of `ID/move`.
pub(super) const MOVE_PARAMETERS: &[&str] = &["app", "user"];

/// The requested move of an object to another app or user. With the user `nobody`, the object belongs to the app.
pub(super) fn required_move(auth: &Auth, form: &Parameters, object: &ConfObject) -> Result<AclChange, ApiError> {
    let app = form.text("app").filter(|app| app != object.location.app());
    let (sharing, owner) = match form.get("user") {
        None if app.is_none() => {
            return Err(ApiError::bad_request(
                "nothing to change: give user=NAME, the new owner, or app=NAME, another app",
            ));
        }
        None => (None, None),
        Some(NOBODY) => (Some(ObjectSharing::App), None),
        Some(user) => (Some(ObjectSharing::User), Some(auth.stored_name(user))),
    };
    Ok(AclChange { sharing, owner, app, ..AclChange::default() })
}

/// The permissions of an object.
pub(super) fn acl_of(object: &ConfObject) -> Acl {
    Acl {
        sharing: object.sharing,
        readers: object.readers.clone(),
        writers: object.writers.clone(),
        can_write: object.can_write,
        can_remove: object.can_write && object.is_local,
        can_share: object.can_write && !matches!(object.location, ObjectLocation::System),
        can_be_private: true,
        is_in_content: true,
    }
}

/// The permissions of an object of the node, which cannot be private.
pub(super) fn node_acl_of(object: &ConfObject) -> Acl {
    let can_write = object.can_write;
    Acl { can_remove: can_write, can_share: can_write, can_be_private: false, ..acl_of(object) }
}
