//! Knowledge objects and other stanzas of `.conf` files: their visibility, permissions and files.
//!
//! An object is in an [`ObjectLocation`]: the bundled defaults and `etc/system`, an app, or a user's private files in
//! an app. A [`Scope`] is a point of view: a namespace, all namespaces (`-`), or no namespace, which means all apps and
//! the caller's private files of the app `search`. Of objects with the same name, the object closest to the scope's
//! user is shown, with settings inherited from locations of lower precedence. If all users or all apps are in scope,
//! each object is shown separately. A change rewrites each file atomically, keeps the comments in the file, and is on
//! disk before the request is answered.
//!
//! The rules of locations and sharing are Splunk's (Admin Manual, "Manage knowledge object permissions" and
//! "default.meta.conf"). Not here: the meaning of settings, and when searches see a change ([`quarry_conf::Layers`]).

mod acl;
mod error;
mod files;
mod node_objects;
mod read;
mod setting_objects;
pub mod tables;
#[cfg(test)]
mod tests;
pub mod texts;
mod write;
mod xml_check;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quarry_conf::edit::check_stanza;
use quarry_conf::file_name::check_file_name;
use quarry_conf::{Permissions, View};
use quarry_stdx::{NodeFiles, node_files};

use crate::secret::Secret;

pub(crate) use acl::ObjectAcl;
pub use acl::{AclChange, ObjectSharing};
pub use error::ObjectError;
pub use node_objects::NodeAcl;
pub use xml_check::RootElement;

/// Default app of private files.
pub const APP_DEFAULT: &str = "search";
/// App of user preferences.
pub const APP_PREFERENCES: &str = "user-prefs";
/// App name that means no app.
pub const APP_SYSTEM: &str = "system";
/// User name that means no user.
pub const NOBODY: &str = "nobody";
/// Name that means all users or all apps.
const ALL: &str = "-";
/// The stanza with defaults for all other stanzas.
const DEFAULT_STANZA: &str = "default";
/// Maximum number of objects per file.
const OBJECTS_MAX: usize = 20_000;
/// Maximum number of files per folder.
const FILES_MAX: usize = 200;
/// Confs that may contain passwords or other secrets; only administrators may read them.
const SECRET_CONFS: [&str; 8] =
    ["alert_actions", "authentication", "indexes", "inputs", "outputs", "passwords", "server", "web"];
/// Reserved words in request paths, which cannot be object names.
const RESERVED_NAMES: [&str; 3] = [DEFAULT_STANZA, "_new", "_reload"];

/// The location of an object, in ascending order of precedence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectLocation {
    /// Bundled defaults and `etc/system/local`.
    System,
    /// `etc/apps/APP`.
    App(String),
    /// `etc/users/USER/APP`.
    User {
        /// Owner.
        user: String,
        /// The app in which the object is visible.
        app: String,
    },
}

impl ObjectLocation {
    /// The app of the location; `system` for [`ObjectLocation::System`].
    pub fn app(&self) -> &str {
        match self {
            ObjectLocation::System => APP_SYSTEM,
            ObjectLocation::App(app) | ObjectLocation::User { app, .. } => app,
        }
    }

    /// The user of a private location.
    pub fn user(&self) -> Option<&str> {
        match self {
            ObjectLocation::User { user, .. } => Some(user),
            ObjectLocation::System | ObjectLocation::App(_) => None,
        }
    }

    /// The folder of the location, which may not exist.
    fn folder(&self, data_dir: &Path) -> PathBuf {
        match self {
            ObjectLocation::System => data_dir.join("etc/system"),
            ObjectLocation::App(app) => data_dir.join("etc/apps").join(app),
            ObjectLocation::User { user, app } => data_dir.join("etc/users").join(user).join(app),
        }
    }
}

/// Users whose private files are visible.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Users {
    None,
    One(String),
    All,
}

/// A point of view on objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    users: Users,
    /// The app; `None` means all.
    app: Option<String>,
    /// Whether objects with the same name are merged into one object.
    is_merged: bool,
}

impl Scope {
    /// The scope of a request without a namespace: all apps, and the caller's private files in the app `search`.
    pub fn for_caller(user: &str) -> Scope {
        // A user whose name cannot be a folder name has no private files.
        let users = if check_file_name(user).is_ok() { Users::One(user.to_owned()) } else { Users::None };
        Scope { users, app: None, is_merged: true }
    }

    /// The scope of a path's namespace; fails for invalid user or app names.
    pub fn for_namespace(user: &str, app: &str) -> Result<Scope, ObjectError> {
        for name in [user, app] {
            check_file_name(name)?;
        }
        let users = match user {
            ALL => Users::All,
            NOBODY => Users::None,
            user => Users::One(user.to_owned()),
        };
        let app = Some(app).filter(|app| *app != ALL).map(str::to_owned);
        let is_merged = users != Users::All && app.is_some();
        Ok(Scope { users, app, is_merged })
    }

    /// Whether several objects of one name may be seen, because the namespace covers all users or all apps (`-`).
    pub fn includes_shadowed(&self) -> bool {
        !self.is_merged && (self.app.is_none() || self.users == Users::All)
    }

    /// The location of a new object: private if `is_own` is set and the namespace has a user, else the app or the
    /// system.
    fn target(&self, is_own: bool) -> ObjectLocation {
        let app = self.app.clone().unwrap_or_else(|| APP_DEFAULT.to_owned());
        match (&self.users, app.as_str()) {
            (Users::One(user), _) if is_own => ObjectLocation::User { user: user.clone(), app },
            (_, APP_SYSTEM) => ObjectLocation::System,
            _ => ObjectLocation::App(app),
        }
    }
}

/// A stanza with the settings and permissions that a scope shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfObject {
    /// Name of the object's conf file without `.conf`.
    pub conf: String,
    /// Name of the stanza.
    pub name: String,
    /// Location in which the object is defined.
    pub location: ObjectLocation,
    /// Settings of the object by name, including inherited settings.
    pub settings: BTreeMap<String, String>,
    /// User name of the owner, or `nobody`.
    pub owner: String,
    /// The users and apps that can see the object.
    pub sharing: ObjectSharing,
    /// Roles that may read the object.
    pub readers: Vec<String>,
    /// Roles that may change the object.
    pub writers: Vec<String>,
    /// Whether the viewer may change the object.
    pub can_write: bool,
    /// Whether the object can be removed, because it was not shipped with the app or the program.
    pub is_local: bool,
}

impl ConfObject {
    /// A setting's value.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(String::as_str)
    }

    /// Whether the object is disabled.
    pub fn is_disabled(&self) -> bool {
        self.get("disabled").is_some_and(|value| matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "true"))
    }
}

/// The objects of a data directory.
#[derive(Debug)]
pub struct Objects {
    files: NodeFiles,
}

impl Objects {
    /// Objects of a data directory.
    pub fn new(data_dir: &Path) -> Objects {
        Objects { files: NodeFiles::of_data_dir(data_dir) }
    }

    /// Objects in files that nodes may share.
    pub fn with_files(files: NodeFiles) -> Objects {
        Objects { files }
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        self.files.data_dir()
    }

    /// Access to the files, which may be shared with other nodes.
    pub(crate) fn files(&self) -> &NodeFiles {
        &self.files
    }

    /// The key that encrypts passwords.
    pub fn secret(&self) -> Result<Secret, ObjectError> {
        let _alone = node_files::lock_files();
        Ok(Secret::of_data_dir(self.data_dir())?)
    }
}

/// Confs that configure the node, its programs or permissions, and therefore cannot be private.
const NON_PRIVATE_CONFS: [&str; 13] = [
    "alert_actions",
    "app",
    "authentication",
    "authorize",
    "commands",
    "indexes",
    "inputs",
    "limits",
    "outputs",
    "passwords",
    "restmap",
    "server",
    "web",
];

/// The conf of collections. It belongs to an app, but users have private documents in its collections.
const COLLECTIONS: &str = "collections";

/// Whether users can have private stanzas of a conf.
fn can_be_private(conf: &str) -> bool {
    !is_node_conf(conf) && conf != COLLECTIONS
}

/// Whether a conf configures the node, so that only administrators may change it.
fn is_node_conf(conf: &str) -> bool {
    NON_PRIVATE_CONFS.contains(&conf.to_ascii_lowercase().as_str())
}

/// Whether a viewer may read any stanza of a conf.
fn may_read_conf(conf: &str, viewer: &Permissions) -> bool {
    !SECRET_CONFS.contains(&conf.to_ascii_lowercase().as_str()) || is_admin(viewer)
}

/// Fails for an invalid object name.
fn check_name(name: &str) -> Result<(), ObjectError> {
    check_stanza(name)?;
    match RESERVED_NAMES.contains(&name) {
        true => Err(ObjectError::Invalid(format!("name={name}: this name is reserved"))),
        false => Ok(()),
    }
}

/// Fails for an invalid conf name.
fn check_conf(conf: &str) -> Result<(), ObjectError> {
    check_file_name(conf)?;
    let is_good = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    if conf.chars().all(is_good) {
        return Ok(());
    }
    Err(ObjectError::Invalid(format!(
        "{conf}: the name of a configuration file must consist of letters, digits, _ and -"
    )))
}

/// Whether a viewer may see the private files of `user`.
fn may_see_user(viewer: &Permissions, user: &str) -> bool {
    viewer.may_see(Some(user))
}

/// Whether a viewer may change objects of the node.
fn is_admin(viewer: &Permissions) -> bool {
    viewer.has_capability(quarry_conf::permissions::ADMIN_ALL_OBJECTS)
}

/// Whether changes of this conf affect searches.
pub fn affects_searches(conf: &str) -> bool {
    View::is_namespaced(conf)
}
