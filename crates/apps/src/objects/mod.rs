//! Knowledge objects and other stanzas of `.conf` files, one by one: who sees them where, who may change them, and their files.
//!
//! An object lies in a [`Place`]: what comes with the program and `etc/system`, an app, or a user's own files in an app. A
//! [`Scope`] is where somebody looks from: a namespace, all of them (`-`), or none, which is all apps with the caller's own
//! files of the app `search`. Of objects with one name the one nearest to the scope's user is shown, with what the places behind it
//! say of its settings; where all users or all apps are looked at, each is shown by itself. A change rewrites one file as a
//! whole, with its comments, and is on disk when it is answered.
//!
//! Rules of places and sharing are Splunk's (Admin Manual, "Manage knowledge object permissions" and "default.meta.conf"). Not
//! here: what settings mean, and when searches see a change ([`quarry_conf::Layers`]).

mod acl;
mod error;
mod files;
mod read;
pub mod tables;
#[cfg(test)]
mod tests;
pub mod texts;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use quarry_conf::edit::check_stanza;
use quarry_conf::file_name::check_file_name;
use quarry_conf::{Permissions, View};

use crate::secret::Secret;

pub use acl::{AclChange, ObjectSharing};
pub use error::ObjectError;

/// The app of users' files where none is named.
pub const APP_DEFAULT: &str = "search";
/// The app of what users prefer.
pub const APP_PREFERENCES: &str = "user-prefs";
/// What belongs to no app.
pub const APP_SYSTEM: &str = "system";
/// In the place of a user: none.
pub const NOBODY: &str = "nobody";
/// In the place of a user or an app: all of them.
const ALL: &str = "-";
/// The stanza that others inherit.
const DEFAULT_STANZA: &str = "default";
/// Objects of one file at most; more are not made.
const OBJECTS_MAX: usize = 20_000;
/// Files of one folder at most; more are not made.
const FILES_MAX: usize = 200;
/// Confs that hold passwords and keys in clear: administrators alone read them.
const SECRET: [&str; 8] =
    ["alert_actions", "authentication", "indexes", "inputs", "outputs", "passwords", "server", "web"];
/// What stands in the place of an object's name in paths.
const NOT_NAMES: [&str; 3] = [DEFAULT_STANZA, "_new", "_reload"];

/// Where an object lies, the weakest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// What comes with the program, and `etc/system/local`.
    System,
    /// `etc/apps/APP`.
    App(String),
    /// `etc/users/USER/APP`.
    User {
        /// Whose it is.
        user: String,
        /// The app in which it is seen.
        app: String,
    },
}

impl Place {
    /// The app.
    pub fn app(&self) -> &str {
        match self {
            Place::System => APP_SYSTEM,
            Place::App(app) | Place::User { app, .. } => app,
        }
    }

    /// The user, if it is somebody's own.
    pub fn user(&self) -> Option<&str> {
        match self {
            Place::User { user, .. } => Some(user),
            Place::System | Place::App(_) => None,
        }
    }

    /// Its folder; it may not be there.
    fn folder(&self, data_dir: &Path) -> PathBuf {
        match self {
            Place::System => data_dir.join("etc/system"),
            Place::App(app) => data_dir.join("etc/apps").join(app),
            Place::User { user, app } => data_dir.join("etc/users").join(user).join(app),
        }
    }
}

/// Whose own files are seen.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Users {
    None,
    One(String),
    All,
}

/// Where somebody looks from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    users: Users,
    /// The app; `None` is all of them.
    app: Option<String>,
    /// Whether objects of one name are one.
    is_merged: bool,
}

impl Scope {
    /// Without a namespace: what all apps have, and the caller's own in the app `search`.
    pub fn of_caller(user: &str) -> Scope {
        // Nobody whose name cannot be that of a folder has one.
        let users = if check_file_name(user).is_ok() { Users::One(user.to_owned()) } else { Users::None };
        Scope { users, app: None, is_merged: true }
    }

    /// The namespace of a path; an error names what cannot be a user or an app.
    pub fn of_namespace(user: &str, app: &str) -> Result<Scope, ObjectError> {
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

    /// Where a new object goes: a user's own files, where `is_own` such objects can be anybody's own, else the app's.
    fn target(&self, is_own: bool) -> Place {
        let app = self.app.clone().unwrap_or_else(|| APP_DEFAULT.to_owned());
        match (&self.users, app.as_str()) {
            (Users::One(user), _) if is_own => Place::User { user: user.clone(), app },
            (_, APP_SYSTEM) => Place::System,
            _ => Place::App(app),
        }
    }
}

/// A stanza as a scope shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfObject {
    /// Name of its file without `.conf`.
    pub conf: String,
    /// Its name.
    pub name: String,
    /// Where it lies.
    pub place: Place,
    /// Its settings with what it inherits, by name.
    pub settings: BTreeMap<String, String>,
    /// Whom it belongs to.
    pub owner: String,
    /// Who else sees it.
    pub sharing: ObjectSharing,
    /// Roles that may read it.
    pub readers: Vec<String>,
    /// Roles that may change it.
    pub writers: Vec<String>,
    /// Whether the viewer may change it.
    pub can_write: bool,
    /// Whether it can be removed: it does not come with the app or the program.
    pub is_local: bool,
}

impl ConfObject {
    /// A setting's value.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(String::as_str)
    }

    /// Whether it is switched off.
    pub fn is_disabled(&self) -> bool {
        self.get("disabled").is_some_and(|value| matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "true"))
    }
}

/// The objects of a data folder.
#[derive(Debug)]
pub struct Objects {
    data_dir: PathBuf,
    /// One change at a time.
    changing: &'static Mutex<()>,
}

/// Held while a conf file is changed: several parts of a node change the same ones.
static CHANGING: Mutex<()> = Mutex::new(());

/// Waits until nobody else changes a conf file; nobody does until what is given goes.
pub fn change_alone() -> MutexGuard<'static, ()> {
    CHANGING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Objects {
    /// Objects of a data folder.
    pub fn new(data_dir: &Path) -> Objects {
        Objects { data_dir: data_dir.to_owned(), changing: &CHANGING }
    }

    /// Where they are.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// What seals passwords.
    pub fn secret(&self) -> Result<Secret, ObjectError> {
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Secret::of_data_dir(&self.data_dir)?)
    }
}

/// Confs that say how programs are run or who may do what: of these nobody has files of their own.
const NOT_OWN: [&str; 13] = [
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

/// The conf of collections: each is an app's, in which users have documents of their own.
const COLLECTIONS: &str = "collections";

/// Whether users can have stanzas of a conf of their own.
fn can_be_own(conf: &str) -> bool {
    !is_of_node(conf) && conf != COLLECTIONS
}

/// Whether a conf says how the node works, so that only an administrator changes it.
fn is_of_node(conf: &str) -> bool {
    NOT_OWN.contains(&conf.to_ascii_lowercase().as_str())
}

/// Whether somebody may read a conf at all.
fn may_read_conf(conf: &str, viewer: &Permissions) -> bool {
    !SECRET.contains(&conf.to_ascii_lowercase().as_str()) || is_admin(viewer)
}

/// Refuses what cannot be the name of an object.
fn check_name(name: &str) -> Result<(), ObjectError> {
    check_stanza(name)?;
    match NOT_NAMES.contains(&name) {
        true => Err(ObjectError::Invalid(format!("name={name}: this name stands for something else"))),
        false => Ok(()),
    }
}

/// Refuses what cannot be the name of a conf file.
fn check_conf(conf: &str) -> Result<(), ObjectError> {
    check_file_name(conf)?;
    let is_good = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    if conf.chars().all(is_good) {
        return Ok(());
    }
    Err(ObjectError::Invalid(format!("{conf}: the name of a configuration file is letters, digits, _ and -")))
}

/// Whether somebody may look into the files of `user`.
fn may_see_user(viewer: &Permissions, user: &str) -> bool {
    viewer.may_see(Some(user))
}

/// Whether somebody may change what belongs to the node.
fn is_admin(viewer: &Permissions) -> bool {
    viewer.holds(quarry_conf::permissions::ADMIN_ALL_OBJECTS)
}

/// Whether changes of this conf concern what searches know.
pub fn concerns_searches(conf: &str) -> bool {
    View::concerns(conf)
}
