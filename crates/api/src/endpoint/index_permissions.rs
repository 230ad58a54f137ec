//! Permissions of indexes, as objects of the node.
//!
//! An index without permissions of its own is shown to all users who may search it, and users with the required
//! capability may change it. An index's own permissions restrict who may see and change it, but do not affect searches:
//! a role names the indexes that its users may search ([`super::roles`]).

use quarry_apps::objects::{AclChange, NodeAcl, Objects};
use quarry_conf::Permissions;

use super::entities::with_objects;
use super::permissions::node_acl_of;
use crate::ApiState;
use crate::atom::{Acl, Entry};
use crate::caller::Caller;
use crate::message::ApiError;

pub(super) const CONF: &str = "indexes";

/// The indexes that the caller may see, with their permissions.
pub(super) async fn with_permissions(
    state: &ApiState,
    caller: &Caller,
    entries: Vec<Entry>,
) -> Result<Vec<Entry>, ApiError> {
    let names: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
    let acls = with_objects(state, caller, move |objects, viewer| objects.node_acls(CONF, &names, viewer)).await?;
    let shown = |(entry, acl): (Entry, NodeAcl)| match acl {
        NodeAcl::Inherited => Some(entry),
        NodeAcl::Hidden => None,
        NodeAcl::Own(object) => {
            let can_write = entry.acl.can_write && object.can_write;
            let acl = Acl { can_write, can_share: can_write, can_remove: false, ..node_acl_of(&object) };
            Some(Entry { acl, author: object.owner, ..entry })
        }
    };
    Ok(entries.into_iter().zip(acls).filter_map(shown).collect())
}

/// Fails if the permissions of an index do not let the caller change it.
pub(super) async fn check_may_write(state: &ApiState, caller: &Caller, name: &str) -> Result<(), ApiError> {
    let name = name.to_owned();
    let check = move |objects: &Objects, viewer: &Permissions| match objects
        .node_acls(CONF, std::slice::from_ref(&name), viewer)?
        .pop()
    {
        Some(NodeAcl::Own(_)) => objects.writable_node_object(CONF, &name, viewer).map(drop),
        _ => Ok(()),
    };
    with_objects(state, caller, check).await
}

/// Changes the permissions of an index.
pub(super) async fn change_acl(
    state: &ApiState,
    caller: &Caller,
    name: &str,
    asked: AclChange,
) -> Result<(), ApiError> {
    let name = name.to_owned();
    let set = move |objects: &Objects, viewer: &Permissions| {
        objects.set_node_object_acl(CONF, &name, &asked, viewer).map(drop)
    };
    with_objects(state, caller, set).await
}
