//! Permissions of objects that belong to the node and have their own endpoints and capability, such as indexes and
//! tokens of the HTTP Event Collector (stanzas of inputs.conf).
//!
//! The permissions are in the metadata of the location whose file defines the stanza. A user needs the capability, and
//! one of the roles that the metadata name; without metadata, the capability suffices.

use quarry_conf::Permissions;

use super::files::LocationConf;
use super::{AclChange, ConfObject, ObjectError, ObjectLocation, Objects, Scope};

impl Objects {
    /// The stanzas with these names, without settings; `None` for a stanza that the viewer may not read. A stanza that no
    /// file defines counts as a stanza of `etc/system`, where the node would write it.
    pub fn node_objects(
        &self,
        conf: &str,
        names: &[String],
        viewer: &Permissions,
    ) -> Result<Vec<Option<ConfObject>>, ObjectError> {
        let locations = self.node_locations(conf)?;
        let found = |name: &String| node_object(conf, name, defining_location(&locations, name)?, viewer);
        Ok(names.iter().map(found).collect())
    }

    /// The own permissions of stanzas with these names. A stanza has permissions of its own if the metadata name its
    /// owner.
    pub fn node_acls(&self, conf: &str, names: &[String], viewer: &Permissions) -> Result<Vec<NodeAcl>, ObjectError> {
        let locations = self.node_locations(conf)?;
        let found = |name: &String| match defining_location(&locations, name) {
            Some(location) if location.acl.names_owner(conf, name) => {
                node_object(conf, name, location, viewer).map_or(NodeAcl::Hidden, NodeAcl::Own)
            }
            _ => NodeAcl::Inherited,
        };
        Ok(names.iter().map(found).collect())
    }

    /// The locations of the node's objects, highest precedence first.
    fn node_locations(&self, conf: &str) -> Result<Vec<LocationConf>, ObjectError> {
        let mut locations: Vec<LocationConf> = self
            .locations(&Scope::for_namespace("-", "-")?)
            .iter()
            .map(|location| self.location_conf(location, conf))
            .collect();
        locations.retain(|location| location.location.user().is_none());
        // The last location is the node's location, whose files have the highest precedence.
        locations.rotate_right(1);
        Ok(locations)
    }

    /// One stanza.
    pub fn node_object(&self, conf: &str, name: &str, viewer: &Permissions) -> Result<ConfObject, ObjectError> {
        let found = self.node_objects(conf, &[name.to_owned()], viewer)?.pop().flatten();
        found.ok_or_else(|| ObjectError::Unknown(name.to_owned()))
    }

    /// Whether a viewer may read an object that was read on behalf of the node.
    pub fn may_read(&self, object: &ConfObject, viewer: &Permissions) -> bool {
        self.location_acl(&object.location).may_read(&object.conf, &object.name, viewer)
    }

    /// One stanza, if the viewer may change it.
    pub fn writable_node_object(
        &self,
        conf: &str,
        name: &str,
        viewer: &Permissions,
    ) -> Result<ConfObject, ObjectError> {
        let found = self.node_object(conf, name, viewer)?;
        match found.can_write {
            true => Ok(found),
            false => Err(ObjectError::Denied(format!(
                "user {} may not change {name}: its acl permits this only to {}",
                viewer.user,
                found.writers.join(", ")
            ))),
        }
    }

    /// Changes owner, sharing or roles of a stanza.
    pub fn set_node_object_acl(
        &self,
        conf: &str,
        name: &str,
        change: &AclChange,
        viewer: &Permissions,
    ) -> Result<ConfObject, ObjectError> {
        let _alone = self.files.change()?;
        let found = self.writable_node_object(conf, name, viewer)?;
        let changed = self.apply_acl(&found, change, viewer, |_| {
            Err(ObjectError::Invalid(format!("{name} belongs to the node and cannot be moved")))
        })?;
        let can_write = self.location_acl(&changed.location).permits_write(conf, name, viewer);
        Ok(ConfObject { can_write, ..changed })
    }

    /// Removes the permissions of a stanza that has been removed, so that a later stanza of the same name does not
    /// inherit them.
    pub fn forget_node_object(&self, conf: &str, name: &str) -> Result<(), ObjectError> {
        let _alone = self.files.change()?;
        self.remove_meta(&ObjectLocation::System, conf, name)
    }
}

/// Permissions of a stanza of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAcl {
    /// The stanza has no permissions of its own.
    Inherited,
    /// Its permissions hide it from the viewer.
    Hidden,
    /// The stanza, without settings, with permissions of its own.
    Own(ConfObject),
}

/// The location that defines a stanza; a stanza that no file defines is one of `etc/system`.
fn defining_location<'l>(locations: &'l [LocationConf], name: &str) -> Option<&'l LocationConf> {
    let defines = |location: &&LocationConf| location.local.stanza(name).or(location.default.stanza(name)).is_some();
    locations.iter().find(defines).or(locations.first())
}

/// A stanza of a location, unless the viewer may not read it.
fn node_object(conf: &str, name: &str, location: &LocationConf, viewer: &Permissions) -> Option<ConfObject> {
    let is_local = location.default.stanza(name).is_none();
    let object = location.acl.object(conf, name, is_local, viewer);
    let can_write = location.acl.permits_write(conf, name, viewer);
    location.acl.may_read(conf, name, viewer).then_some(ConfObject { can_write, ..object })
}
