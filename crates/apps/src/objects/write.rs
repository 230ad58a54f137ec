//! Creating, changing, removing and sharing objects.

use quarry_conf::edit::{check_setting, with_settings, without_settings, without_stanza};
use quarry_conf::object_access::{access_text, stanza_name};
use quarry_conf::{Permissions, permissions};

use super::acl::may_have_acl;
use super::files::{LOCAL, LOCAL_META};
use super::{
    APP_SYSTEM, AclChange, ConfObject, DEFAULT_STANZA, NOBODY, OBJECTS_MAX, ObjectAcl, ObjectError, ObjectLocation,
    ObjectSharing, Objects, Scope, can_be_private, check_conf, check_name, is_admin, is_node_conf,
};

/// Maximum size of a conf file in bytes; larger files are not read.
pub(super) const FILE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum size of a private conf file in bytes.
pub(super) const PRIVATE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The metadata setting that shares an object with other apps.
const EXPORT: &str = "export";
/// Metadata stanza for all objects of an app.
const ALL_OBJECTS: &str = "";
/// Default roles that may change shared objects of an app.
const WRITERS_DEFAULT: [&str; 2] = ["admin", "power"];

impl Objects {
    /// Creates a stanza; returns it with the settings that are visible in the scope.
    pub fn create(
        &self,
        conf: &str,
        name: &str,
        settings: &[(String, String)],
        scope: &Scope,
        viewer: &Permissions,
    ) -> Result<ConfObject, ObjectError> {
        let _alone = self.files.change()?;
        check_conf(conf)?;
        check_name(name)?;
        check_settings(settings)?;
        let location = self.target(conf, name, scope, viewer)?;
        let there = self.location_conf(&location, conf);
        if there.default.stanza(name).or(there.local.stanza(name)).is_some() {
            return Err(ObjectError::Exists(name.to_owned()));
        }
        if there.local.stanzas.len() >= OBJECTS_MAX {
            return Err(ObjectError::Invalid(format!("{conf}.conf has {OBJECTS_MAX} stanzas, the maximum")));
        }
        // The owner is written first, because a stanza without an owner belongs to everyone.
        self.record_owner(&location, conf, name, viewer)?;
        self.rewrite(&location, &local_path(conf), |text| with_settings(text, name, settings))?;
        self.get(conf, name, scope, viewer)
    }

    /// Changes settings of a stanza in the location that the scope writes to; creates a missing stanza.
    pub fn put(
        &self,
        conf: &str,
        name: &str,
        settings: &[(String, String)],
        scope: &Scope,
        viewer: &Permissions,
    ) -> Result<(), ObjectError> {
        let _alone = self.files.change()?;
        check_conf(conf)?;
        check_name(name)?;
        check_settings(settings)?;
        let location = self.target(conf, name, scope, viewer)?;
        self.rewrite(&location, &local_path(conf), |text| with_settings(text, name, settings))
    }

    /// Changes settings of the node in `etc/system/local`. Each setting is given with the name of its stanza, which may
    /// be `default`. The caller has checked that the change is permitted.
    pub fn set_node_settings(
        &self,
        conf: &str,
        settings: &[(&'static str, (String, String))],
    ) -> Result<(), ObjectError> {
        let _alone = self.files.change()?;
        check_conf(conf)?;
        settings.iter().try_for_each(|(_, (key, value))| check_setting(key, value))?;
        let change = |text: &str| {
            let set = |text: String, (stanza, setting): &(&str, (String, String))| {
                with_settings(&text, stanza, std::slice::from_ref(setting))
            };
            settings.iter().fold(text.to_owned(), set)
        };
        self.rewrite(&ObjectLocation::System, &local_path(conf), change)
    }

    /// Creates an empty conf file, if there is none.
    pub fn create_conf(&self, conf: &str, scope: &Scope, viewer: &Permissions) -> Result<(), ObjectError> {
        let _alone = self.files.change()?;
        check_conf(conf)?;
        let location = self.target(conf, DEFAULT_STANZA, scope, viewer)?;
        self.rewrite(&location, &local_path(conf), str::to_owned)
    }

    /// Changes settings of a stanza in its location; a stanza of [`ObjectLocation::System`] is overridden by a stanza
    /// in the scope's location. `default` is left unchanged, as in Splunk, because it affects all other stanzas.
    pub fn edit(
        &self,
        conf: &str,
        name: &str,
        settings: &[(String, String)],
        scope: &Scope,
        viewer: &Permissions,
    ) -> Result<ConfObject, ObjectError> {
        let alone = self.files.change()?;
        check_settings(settings)?;
        let found = self.get(conf, name, scope, viewer)?;
        let location = if found.location == ObjectLocation::System {
            self.target(conf, name, scope, viewer)?
        } else {
            check_may_write(&found, viewer)?;
            found.location.clone()
        };
        if name == DEFAULT_STANZA || settings.is_empty() {
            return Ok(found);
        }
        self.rewrite(&location, &local_path(conf), |text| with_settings(text, name, settings))?;
        drop(alone);
        self.get(conf, name, scope, viewer)
    }

    /// Changes settings of `[default]` in the location that the scope writes to. Only administrators may do so, because
    /// all other stanzas inherit them.
    pub fn edit_default(
        &self,
        conf: &str,
        settings: &[(String, String)],
        scope: &Scope,
        viewer: &Permissions,
    ) -> Result<ConfObject, ObjectError> {
        let alone = self.files.change()?;
        check_conf(conf)?;
        check_settings(settings)?;
        let location = self.target(conf, DEFAULT_STANZA, scope, viewer)?;
        if !is_admin(viewer) {
            return Err(refused(DEFAULT_STANZA, &location, viewer));
        }
        self.rewrite(&location, &local_path(conf), |text| with_settings(text, DEFAULT_STANZA, settings))?;
        drop(alone);
        self.get(conf, DEFAULT_STANZA, scope, viewer)
    }

    /// Removes a stanza unless it was shipped with an app or the program.
    pub fn remove(&self, conf: &str, name: &str, scope: &Scope, viewer: &Permissions) -> Result<(), ObjectError> {
        self.remove_with_data(conf, name, scope, viewer, |_| Ok(()))
    }

    /// Removes a stanza as [`Objects::remove`] does, together with data that is stored elsewhere. If `remove_data`
    /// fails, the stanza stays, so that the removal can be tried again and a later stanza of this name does not inherit
    /// the data.
    pub fn remove_with_data<E: From<ObjectError>>(
        &self,
        conf: &str,
        name: &str,
        scope: &Scope,
        viewer: &Permissions,
        remove_data: impl FnOnce(&ConfObject) -> Result<(), E>,
    ) -> Result<(), E> {
        let _alone = self.files.change().map_err(ObjectError::from)?;
        let found = self.removable(conf, name, scope, viewer)?;
        let (path, mut before) = (local_path(conf), String::new());
        self.rewrite(&found.location, &path, |text| {
            text.clone_into(&mut before);
            without_stanza(text, name)
        })?;
        if let Err(error) = remove_data(&found) {
            self.rewrite(&found.location, &path, |_| before)?;
            return Err(error);
        }
        Ok(self.remove_meta(&found.location, conf, name)?)
    }

    /// The stanza of this name, if the user may remove it.
    fn removable(
        &self,
        conf: &str,
        name: &str,
        scope: &Scope,
        viewer: &Permissions,
    ) -> Result<ConfObject, ObjectError> {
        check_name(name)?;
        let found = self.get(conf, name, scope, viewer)?;
        check_may_write(&found, viewer)?;
        if !found.is_local {
            return Err(ObjectError::Denied(format!(
                "Object id={name} cannot be deleted in config={conf}: it comes with {}; disable it instead",
                found.location.app()
            )));
        }
        Ok(found)
    }

    /// Changes the owner, the sharing or the roles of an object, and moves the object if necessary. Returns the changed
    /// object, even if it has left the scope.
    pub fn set_acl(
        &self,
        conf: &str,
        name: &str,
        change: &AclChange,
        scope: &Scope,
        viewer: &Permissions,
    ) -> Result<ConfObject, ObjectError> {
        let _alone = self.files.change()?;
        check_name(name)?;
        let found = self.get(conf, name, scope, viewer)?;
        let changed = self.apply_acl(&found, change, viewer, |location| self.move_to(&found, location, viewer))?;
        let at = self.location_conf(&changed.location, conf);
        debug_assert!(
            at.local.stanza(name).or(at.default.stanza(name)).is_some(),
            "{conf}/{name} was moved to {:?}",
            changed.location
        );
        Ok(changed)
    }

    /// Writes the ACL of an object after moving it with `move_to` if necessary. Returns the changed object, which may
    /// no longer be visible in the scope in which it was found.
    pub(super) fn apply_acl(
        &self,
        found: &ConfObject,
        change: &AclChange,
        viewer: &Permissions,
        move_to: impl FnOnce(&ObjectLocation) -> Result<(), ObjectError>,
    ) -> Result<ConfObject, ObjectError> {
        let (conf, name) = (found.conf.as_str(), found.name.as_str());
        let location = self.apply_acl_at(&stanza_name(conf, name), found, change, viewer, move_to)?;
        Ok(ConfObject {
            settings: found.settings.clone(),
            ..self.location_acl(&location).object(conf, name, found.is_local, viewer)
        })
    }

    /// Like [`Objects::apply_acl`] for the object that this stanza of metadata describes; returns its new location.
    pub(super) fn apply_acl_at(
        &self,
        stanza: &str,
        found: &ConfObject,
        change: &AclChange,
        viewer: &Permissions,
        move_to: impl FnOnce(&ObjectLocation) -> Result<(), ObjectError>,
    ) -> Result<ObjectLocation, ObjectError> {
        let (conf, name) = (found.conf.as_str(), found.name.as_str());
        check_may_write(found, viewer)?;
        let is_of_node = found.location == ObjectLocation::System;
        if is_of_node && !may_have_acl(conf) {
            return Err(ObjectError::Invalid(format!("{name}: objects of the node have no acl of their own")));
        }
        if !is_of_node && change.sharing == Some(ObjectSharing::System) {
            return Err(ObjectError::Invalid(format!("{name} belongs to an app: set sharing to app or global")));
        }
        let sharing = change.sharing.unwrap_or(found.sharing);
        let owner = change.owner.clone().unwrap_or_else(|| found.owner.clone());
        quarry_conf::file_name::check_file_name(&owner)?;
        let is_mine = owner == viewer.user || owner == found.owner;
        if !is_mine && !is_admin(viewer) {
            return Err(ObjectError::Denied(format!(
                "user {} may not change the owner of {name} to {owner}",
                viewer.user
            )));
        }
        let app = self.app_after(found, change)?;
        let location = match sharing {
            ObjectSharing::User if !can_be_private(conf) || owner == NOBODY => {
                return Err(ObjectError::Invalid(format!("{conf}/{name} cannot be private")));
            }
            ObjectSharing::User => ObjectLocation::User { user: owner.clone(), app },
            _ if is_of_node => ObjectLocation::System,
            ObjectSharing::App | ObjectSharing::Global | ObjectSharing::System => ObjectLocation::App(app),
        };
        if location != found.location {
            move_to(&location)?;
        }
        let roles = |given: &Option<Vec<String>>, known: &[String], otherwise: &[&str]| match given {
            Some(roles) => roles.clone(),
            None if known.is_empty() => otherwise.iter().map(|role| (*role).to_owned()).collect(),
            None => known.to_vec(),
        };
        let readers = roles(&change.readers, &found.readers, &["*"]);
        let writers = roles(&change.writers, &found.writers, &WRITERS_DEFAULT);
        let mut said = acl_settings(sharing, &readers, &writers)?;
        said.push(("owner".to_owned(), owner));
        if location.user().is_none() {
            self.rewrite(&location, LOCAL_META, |text| match sharing {
                ObjectSharing::System => {
                    said.retain(|(key, _)| key != EXPORT);
                    with_settings(&without_settings(text, stanza, &[EXPORT]), stanza, &said)
                }
                _ => with_settings(text, stanza, &said),
            })?;
        }
        Ok(location)
    }

    /// The app of an object after a change.
    fn app_after(&self, found: &ConfObject, change: &AclChange) -> Result<String, ObjectError> {
        let here = found.location.app();
        let Some(app) = change.app.as_deref().filter(|app| *app != here) else { return Ok(here.to_owned()) };
        quarry_conf::file_name::check_file_name(app)?;
        if found.location == ObjectLocation::System || app == APP_SYSTEM {
            return Err(ObjectError::Invalid(format!(
                "app={app}: an object cannot be moved between the node and an app"
            )));
        }
        self.check_app(app, &found.conf).map_err(|error| match error {
            ObjectError::Unknown(app) => ObjectError::Invalid(format!("app={app}: there is no such app")),
            other => other,
        })?;
        Ok(app.to_owned())
    }

    /// Permissions of all objects of an app that have no permissions of their own.
    pub(crate) fn app_acl(&self, app: &str) -> ObjectAcl {
        self.location_acl(&ObjectLocation::App(app.to_owned())).of_all()
    }

    /// Whether a user may read an app.
    pub(crate) fn may_read_app(&self, app: &str, viewer: &Permissions) -> bool {
        self.location_acl(&ObjectLocation::App(app.to_owned())).may_read("", ALL_OBJECTS, viewer)
    }

    /// Whether the permissions of an app let a user change it.
    pub(crate) fn may_write_app(&self, app: &str, viewer: &Permissions) -> bool {
        self.location_acl(&ObjectLocation::App(app.to_owned())).permits_write("", ALL_OBJECTS, viewer)
    }

    /// Changes the permissions of an app.
    pub(crate) fn set_app_acl(&self, app: &str, change: &AclChange) -> Result<(), ObjectError> {
        let known = self.app_acl(app);
        let sharing = change.sharing.unwrap_or(known.sharing);
        if !matches!(sharing, ObjectSharing::App | ObjectSharing::Global) {
            return Err(ObjectError::Invalid(format!(
                "sharing={}: an app can be shared only as app or global",
                sharing.word()
            )));
        }
        let readers = change.readers.as_ref().unwrap_or(&known.readers);
        let writers = change.writers.as_ref().unwrap_or(&known.writers);
        let settings = acl_settings(sharing, readers, writers)?;
        self.rewrite(&ObjectLocation::App(app.to_owned()), LOCAL_META, |text| {
            with_settings(text, ALL_OBJECTS, &settings)
        })
    }

    /// Moves an object's local settings to another location: writes the settings there, then removes them from the old
    /// location.
    fn move_to(&self, found: &ConfObject, location: &ObjectLocation, viewer: &Permissions) -> Result<(), ObjectError> {
        let (conf, name) = (found.conf.as_str(), found.name.as_str());
        if !found.is_local {
            return Err(ObjectError::Invalid(format!(
                "{name} comes with {}: it cannot be moved",
                found.location.app()
            )));
        }
        let there = self.location_conf(location, conf);
        if there.default.stanza(name).or(there.local.stanza(name)).is_some() {
            return Err(ObjectError::Exists(name.to_owned()));
        }
        if !there.acl.may_write(conf, name, viewer) {
            return Err(refused(name, location, viewer));
        }
        let here = self.location_conf(&found.location, conf);
        let own = here.local.stanza(name).map(|stanza| stanza.settings.as_slice()).unwrap_or_default();
        let settings: Vec<(String, String)> =
            own.iter().map(|setting| (setting.key.clone(), setting.value.clone())).collect();
        self.rewrite(location, &local_path(conf), |text| with_settings(text, name, &settings))?;
        self.rewrite(&found.location, &local_path(conf), |text| without_stanza(text, name))?;
        self.remove_meta(&found.location, conf, name)
    }

    /// The location of a new stanza, if the user may write there.
    pub(super) fn target(
        &self,
        conf: &str,
        name: &str,
        scope: &Scope,
        viewer: &Permissions,
    ) -> Result<ObjectLocation, ObjectError> {
        let location = scope.target(can_be_private(conf));
        self.check_app(location.app(), conf)?;
        // Only administrators may change settings of the node or preferences of all users.
        let is_of_all =
            is_node_conf(conf) || matches!(&location, ObjectLocation::App(app) if app == super::APP_PREFERENCES);
        let may = self.location_acl(&location).may_write(conf, name, viewer) && (!is_of_all || is_admin(viewer));
        if may { Ok(location) } else { Err(refused(name, &location, viewer)) }
    }

    /// Fails unless the user may write an object of this name in a location.
    pub(super) fn check_may_write_in(
        &self,
        location: &ObjectLocation,
        kind: &str,
        name: &str,
        viewer: &Permissions,
    ) -> Result<(), ObjectError> {
        let may = self.location_acl(location).may_write(kind, name, viewer);
        if may { Ok(()) } else { Err(refused(name, location, viewer)) }
    }

    /// Records the user as the owner of a new object; private objects belong to the owner of their folder.
    pub(super) fn record_owner(
        &self,
        location: &ObjectLocation,
        kind: &str,
        name: &str,
        viewer: &Permissions,
    ) -> Result<(), ObjectError> {
        let ObjectLocation::App(_) = location else { return Ok(()) };
        let owner = [("owner".to_owned(), viewer.user.clone())];
        self.rewrite(location, LOCAL_META, |text| with_settings(text, &stanza_name(kind, name), &owner))
    }

    /// Removes the permissions of an object from the metadata of its location.
    pub(super) fn remove_meta(&self, location: &ObjectLocation, kind: &str, name: &str) -> Result<(), ObjectError> {
        self.rewrite_existing_meta(location, |text| without_stanza(text, &stanza_name(kind, name)))
    }

    pub(super) fn rewrite_existing_meta(
        &self,
        location: &ObjectLocation,
        change: impl FnOnce(&str) -> String,
    ) -> Result<(), ObjectError> {
        if location.folder(self.data_dir()).join(LOCAL_META).is_file() {
            self.rewrite(location, LOCAL_META, change)?;
        }
        Ok(())
    }
}

pub(super) fn local_path(conf: &str) -> String {
    format!("{LOCAL}/{conf}.conf")
}

pub(super) fn check_settings(settings: &[(String, String)]) -> Result<(), ObjectError> {
    settings.iter().try_for_each(|(key, value)| check_setting(key, value))?;
    Ok(())
}

/// Metadata settings for sharing and roles.
fn acl_settings(
    sharing: ObjectSharing,
    readers: &[String],
    writers: &[String],
) -> Result<Vec<(String, String)>, ObjectError> {
    check_roles(readers)?;
    check_roles(writers)?;
    let export = if sharing == ObjectSharing::Global { "system" } else { "none" };
    let said = [("access", access_text(readers, writers)), (EXPORT, export.to_owned())];
    Ok(said.map(|(key, value)| (key.to_owned(), value)).to_vec())
}

fn check_roles(roles: &[String]) -> Result<(), ObjectError> {
    let is_good = |role: &String| {
        role == "*"
            || (!role.is_empty()
                && role.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.')))
    };
    match roles.iter().find(|role| !is_good(role)) {
        Some(role) => Err(ObjectError::Invalid(format!("{role:?} is not a valid role name"))),
        None => Ok(()),
    }
}

pub(super) fn check_may_write(found: &ConfObject, viewer: &Permissions) -> Result<(), ObjectError> {
    if found.can_write { Ok(()) } else { Err(refused(&found.name, &found.location, viewer)) }
}

pub(super) fn refused(name: &str, location: &ObjectLocation, viewer: &Permissions) -> ObjectError {
    let user = &viewer.user;
    ObjectError::Denied(match location {
        ObjectLocation::User { user: owner, .. } => format!("{name} is {owner}'s own: user {user} may not change it"),
        ObjectLocation::App(app) => {
            format!("{name} belongs to the app {app}: user {user} has no write permission there")
        }
        ObjectLocation::System => {
            let capability = permissions::ADMIN_ALL_OBJECTS;
            format!("{name} belongs to the node: user {user} may not change it without the capability {capability}")
        }
    })
}
