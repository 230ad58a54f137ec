//! Owner and sharing of an object.

use std::collections::BTreeMap;

use quarry_conf::{ObjectAccess, Permissions, Sharing};

use super::{ConfObject, NOBODY, ObjectLocation, Scope};

/// The role that may change objects of the node by default.
const ADMIN_ROLE: &str = "admin";

/// Users who may see an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectSharing {
    /// Only the user of the object.
    User,
    /// Users of the object's app.
    App,
    /// Everyone.
    Global,
    /// Everyone; the object belongs to no app.
    System,
}

impl ObjectSharing {
    /// Splunk's word for this sharing.
    pub fn word(self) -> &'static str {
        match self {
            ObjectSharing::User => "user",
            ObjectSharing::App => "app",
            ObjectSharing::Global => "global",
            ObjectSharing::System => "system",
        }
    }

    /// Parses Splunk's word.
    pub fn from_word(word: &str) -> Option<ObjectSharing> {
        [ObjectSharing::User, ObjectSharing::App, ObjectSharing::Global, ObjectSharing::System]
            .into_iter()
            .find(|sharing| sharing.word() == word)
    }
}

/// A change of owner, sharing, roles or app; `None` keeps the value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclChange {
    /// New owner.
    pub owner: Option<String>,
    /// New sharing.
    pub sharing: Option<ObjectSharing>,
    /// Roles that may read the object.
    pub readers: Option<Vec<String>>,
    /// Roles that may change the object.
    pub writers: Option<Vec<String>>,
    /// The app to which the object moves.
    pub app: Option<String>,
}

/// Sharing and roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectAcl {
    pub(crate) sharing: ObjectSharing,
    pub(crate) readers: Vec<String>,
    pub(crate) writers: Vec<String>,
}

/// Permissions of a location's objects.
pub(super) struct LocationAcl {
    location: ObjectLocation,
    access: ObjectAccess,
    sharing: Sharing,
}

impl LocationAcl {
    /// Parses the texts of `default.meta` and `local.meta`.
    pub(super) fn new(location: &ObjectLocation, default: &str, local: &str) -> LocationAcl {
        let (access, sharing) = (ObjectAccess::new(default, local), Sharing::new(default, local));
        LocationAcl { location: location.clone(), access, sharing }
    }

    /// Permissions of all objects of the location that have no permissions of their own.
    pub(super) fn of_all(&self) -> ObjectAcl {
        // No object has this kind and name, so only the stanza `[]` applies.
        let (kind, name) = ("", "");
        ObjectAcl {
            sharing: self.sharing(kind, name),
            readers: self.readers(kind, name),
            writers: self.writers(kind, name),
        }
    }

    /// An object of the location with its permissions, without settings.
    pub(super) fn object(&self, kind: &str, name: &str, is_local: bool, viewer: &Permissions) -> ConfObject {
        ConfObject {
            conf: kind.to_owned(),
            name: name.to_owned(),
            location: self.location.clone(),
            settings: BTreeMap::new(),
            owner: self.owner(kind, name),
            sharing: self.sharing(kind, name),
            readers: self.readers(kind, name),
            writers: self.writers(kind, name),
            can_write: self.may_write(kind, name, viewer) && (!super::is_node_conf(kind) || super::is_admin(viewer)),
            is_local,
        }
    }

    /// A setting of a stanza; `path` names the conf, the stanza and the setting. The permissions of the stanza apply,
    /// unless the metadata names the setting.
    pub(super) fn setting(&self, path: [&str; 3], value: &str, is_local: bool, viewer: &Permissions) -> ConfObject {
        let [kind, name, key] = path;
        let settings = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let of_stanza = ConfObject { settings, ..self.object(kind, name, is_local, viewer) };
        if !matches!(self.location, ObjectLocation::App(_)) {
            return of_stanza;
        }
        let may_change_kind = !super::is_node_conf(kind) || super::is_admin(viewer);
        ConfObject {
            owner: self.access.owner_at(&path).unwrap_or(NOBODY).to_owned(),
            sharing: if self.sharing.exports(&path) { ObjectSharing::Global } else { ObjectSharing::App },
            readers: self.access.readers_at(&path),
            writers: self.access.writers_at(&path),
            can_write: may_change_kind && self.access.may_write_at(&path, viewer),
            ..of_stanza
        }
    }

    pub(super) fn owner(&self, kind: &str, name: &str) -> String {
        match &self.location {
            ObjectLocation::User { user, .. } => user.clone(),
            ObjectLocation::System | ObjectLocation::App(_) => {
                self.access.owner(kind, name).unwrap_or(NOBODY).to_owned()
            }
        }
    }

    /// Whether the metadata names an owner of the object. Setting the permissions of an object records its owner.
    pub(super) fn names_owner(&self, kind: &str, name: &str) -> bool {
        self.access.owner(kind, name).is_some()
    }

    pub(super) fn sharing(&self, kind: &str, name: &str) -> ObjectSharing {
        match &self.location {
            ObjectLocation::User { .. } => ObjectSharing::User,
            ObjectLocation::System => match self.sharing.nearest_value(&[kind, name]).filter(|_| may_have_acl(kind)) {
                None => ObjectSharing::System,
                Some(true) => ObjectSharing::Global,
                Some(false) => ObjectSharing::App,
            },
            ObjectLocation::App(_) if self.sharing.exports(&[kind, name]) => ObjectSharing::Global,
            ObjectLocation::App(_) => ObjectSharing::App,
        }
    }

    pub(super) fn readers(&self, kind: &str, name: &str) -> Vec<String> {
        if self.location.user().is_some() { Vec::new() } else { self.access.readers(kind, name) }
    }

    pub(super) fn writers(&self, kind: &str, name: &str) -> Vec<String> {
        match &self.location {
            ObjectLocation::User { .. } => Vec::new(),
            ObjectLocation::System if !self.names_writers(kind, name) => vec![ADMIN_ROLE.to_owned()],
            ObjectLocation::System | ObjectLocation::App(_) => self.access.writers(kind, name),
        }
    }

    /// Whether the metadata names the roles that may change an object; otherwise, a default applies.
    pub(super) fn names_writers(&self, kind: &str, name: &str) -> bool {
        (self.location != ObjectLocation::System || may_have_acl(kind)) && self.access.names_writers(kind, name)
    }

    pub(super) fn may_read(&self, kind: &str, name: &str, viewer: &Permissions) -> bool {
        match &self.location {
            ObjectLocation::User { user, .. } => super::may_see_user(viewer, user),
            ObjectLocation::System => !may_have_acl(kind) || self.access.may_read(kind, name, viewer),
            ObjectLocation::App(_) => self.access.may_read(kind, name, viewer),
        }
    }

    /// Whether a user may read a setting of an object that the user may read.
    pub(super) fn may_read_setting(&self, kind: &str, name: &str, setting: &str, viewer: &Permissions) -> bool {
        match &self.location {
            ObjectLocation::App(_) => self.access.may_read_setting(kind, name, setting, viewer),
            _ => true,
        }
    }

    /// Whether an object of the location with this sharing is in a scope. An object of another app is in the scope only
    /// if it is shared with all apps.
    pub(super) fn is_in_scope(&self, scope: &Scope, sharing: impl FnOnce() -> ObjectSharing) -> bool {
        match (&self.location, &scope.app) {
            (ObjectLocation::App(app), Some(own)) if app != own => sharing() == ObjectSharing::Global,
            _ => true,
        }
    }

    /// Whether an object is in a scope and the user may read it.
    pub(super) fn is_visible(&self, kind: &str, name: &str, scope: &Scope, viewer: &Permissions) -> bool {
        self.is_in_scope(scope, || self.sharing(kind, name)) && self.may_read(kind, name, viewer)
    }

    pub(super) fn may_write(&self, kind: &str, name: &str, viewer: &Permissions) -> bool {
        match &self.location {
            ObjectLocation::User { user, .. } => super::may_see_user(viewer, user),
            ObjectLocation::System => {
                super::is_admin(viewer) || (self.names_writers(kind, name) && self.access.may_write(kind, name, viewer))
            }
            ObjectLocation::App(_) => self.access.may_write(kind, name, viewer),
        }
    }

    /// Like [`LocationAcl::may_write`] for an object of the node that a capability protects: if the
    /// metadata names no roles, only the capability is checked.
    pub(super) fn permits_write(&self, kind: &str, name: &str, viewer: &Permissions) -> bool {
        !self.names_writers(kind, name) || self.may_write(kind, name, viewer)
    }
}

/// Whether the node's own objects of a kind may have permissions. Objects that searches read have none: searches find
/// the node's objects for every user.
pub(super) fn may_have_acl(kind: &str) -> bool {
    super::is_node_conf(kind) && !super::affects_searches(kind)
}
