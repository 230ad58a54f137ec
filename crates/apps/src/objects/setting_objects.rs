//! Settings of stanzas as objects of their own, such as the field extractions of props.conf.
//!
//! An object is the stanza with a single setting, in the location whose file sets it. The metadata may name the setting
//! after its conf and stanza (`[props/access/EXTRACT-status]`); otherwise, the permissions of the stanza apply. Searches
//! follow the same rules ([`quarry_conf::namespace`]). Not here: stanzas with all their settings.

use std::collections::BTreeMap;

use quarry_conf::Permissions;
use quarry_conf::edit::{with_settings, without_settings, without_stanza};
use quarry_conf::object_access::path_name;
use quarry_conf::text::Conf;

use super::files::LocationConf;
use super::read::stanzas;
use super::write::{check_may_write, check_settings, local_path, refused};
use super::{AclChange, ConfObject, DEFAULT_STANZA, ObjectError, ObjectLocation, Objects, Scope, check_name, is_admin};

/// Conf, stanza and setting.
type SettingPath<'p> = [&'p str; 3];

impl Objects {
    /// The visible settings of a conf that `is_wanted` selects, in the order of stanzas and settings. Of several
    /// settings at one path, only the setting with the highest precedence is listed, or all settings if the scope does
    /// not merge objects.
    pub fn list_settings(
        &self,
        conf: &str,
        is_wanted: impl Fn(&str) -> bool,
        scope: &Scope,
        viewer: &Permissions,
    ) -> Result<Vec<ConfObject>, ObjectError> {
        let locations = self.visible_locations(conf, scope, viewer)?;
        let mut found: BTreeMap<(&str, &str), Vec<ConfObject>> = BTreeMap::new();
        for location in &locations {
            let all = stanzas(location).filter(|stanza| stanza.name != DEFAULT_STANZA);
            for (stanza, setting) in all.flat_map(|stanza| stanza.settings.iter().map(move |setting| (stanza, setting)))
            {
                let (path, key) = ((stanza.name.as_str(), setting.key.as_str()), setting.key.as_str());
                let is_shadowed = |others: &Vec<ConfObject>| {
                    scope.is_merged || others.last().is_some_and(|other| other.location == location.location)
                };
                if !is_wanted(key) || found.get(&path).is_some_and(is_shadowed) {
                    continue;
                }
                let object = visible_setting([conf, path.0, key], location, scope, viewer);
                object.into_iter().for_each(|object| found.entry(path).or_default().push(object));
            }
        }
        Ok(found.into_values().flatten().collect())
    }

    /// One setting.
    pub fn setting(
        &self,
        path: SettingPath<'_>,
        scope: &Scope,
        viewer: &Permissions,
    ) -> Result<ConfObject, ObjectError> {
        let locations = self.visible_locations(path[0], scope, viewer)?;
        let found = locations.iter().find_map(|location| visible_setting(path, location, scope, viewer));
        found.ok_or_else(|| ObjectError::Unknown(shown_name(path)))
    }

    /// Changes the value of a setting where it is set; a setting of [`ObjectLocation::System`] is overridden in the scope's
    /// location.
    pub fn edit_setting(
        &self,
        path: SettingPath<'_>,
        value: &str,
        scope: &Scope,
        viewer: &Permissions,
    ) -> Result<ConfObject, ObjectError> {
        let _alone = self.files.change()?;
        let [conf, stanza, key] = path;
        let settings = [(key.to_owned(), value.to_owned())];
        check_settings(&settings)?;
        let found = self.setting(path, scope, viewer)?;
        let location = if found.location == ObjectLocation::System {
            self.target(conf, stanza, scope, viewer)?
        } else {
            check_may_write(&found, viewer)?;
            found.location
        };
        self.rewrite(&location, &local_path(conf), |text| with_settings(text, stanza, &settings))?;
        self.setting(path, scope, viewer)
    }

    /// Removes the value that a setting has in `local`, with its permissions; fails if the setting has no value there.
    /// Only administrators may remove settings of `[default]`, because all other stanzas inherit them.
    pub fn remove_setting(
        &self,
        path: SettingPath<'_>,
        scope: &Scope,
        viewer: &Permissions,
    ) -> Result<(), ObjectError> {
        let _alone = self.files.change()?;
        let [conf, stanza, key] = path;
        let is_default = stanza == DEFAULT_STANZA;
        if !is_default {
            check_name(stanza)?;
        }
        let found = self.setting(path, scope, viewer)?;
        if is_default && !is_admin(viewer) {
            return Err(refused(stanza, &found.location, viewer));
        }
        check_may_write(&found, viewer)?;
        if value_in(&self.location_conf(&found.location, conf).local, path).is_none() {
            return Err(ObjectError::Denied(format!(
                "{key} of [{stanza}] in {conf}.conf cannot be deleted: it comes with {}",
                found.location.app()
            )));
        }
        self.drop_setting(path, &found.location)
    }

    /// Changes owner, sharing, roles or app of a setting, and moves the setting if necessary. Returns the changed
    /// object, even if it has left the scope.
    pub fn set_setting_acl(
        &self,
        path: SettingPath<'_>,
        change: &AclChange,
        scope: &Scope,
        viewer: &Permissions,
    ) -> Result<ConfObject, ObjectError> {
        let _alone = self.files.change()?;
        check_name(path[1])?;
        let found = self.setting(path, scope, viewer)?;
        let location = self.apply_acl_at(&path_name(&path), &found, change, viewer, |location| {
            self.move_setting(path, &found, location, viewer)
        })?;
        let value = found.get(path[2]).unwrap_or_default();
        Ok(self.location_acl(&location).setting(path, value, found.is_local, viewer))
    }

    /// Moves a setting to another location: writes the setting there, then removes it from the old location.
    fn move_setting(
        &self,
        path: SettingPath<'_>,
        found: &ConfObject,
        location: &ObjectLocation,
        viewer: &Permissions,
    ) -> Result<(), ObjectError> {
        let [conf, stanza, key] = path;
        let name = shown_name(path);
        if !found.is_local {
            return Err(ObjectError::Invalid(format!(
                "{name} comes with {}: it cannot be moved",
                found.location.app()
            )));
        }
        let there = self.location_conf(location, conf);
        if value_in(&there.local, path).or(value_in(&there.default, path)).is_some() {
            return Err(ObjectError::Exists(name));
        }
        if !there.acl.may_write(conf, stanza, viewer) {
            return Err(refused(&name, location, viewer));
        }
        let settings = [(key.to_owned(), found.get(key).unwrap_or_default().to_owned())];
        self.rewrite(location, &local_path(conf), |text| with_settings(text, stanza, &settings))?;
        self.drop_setting(path, &found.location)
    }

    /// Removes a setting and its permissions from the files of a location, and the stanza if it has no other setting.
    fn drop_setting(&self, path: SettingPath<'_>, location: &ObjectLocation) -> Result<(), ObjectError> {
        let [conf, stanza, key] = path;
        self.rewrite(location, &local_path(conf), |text| {
            let rest = without_settings(text, stanza, &[key]);
            let is_empty = Conf::parse(conf, &rest).0.stanza(stanza).is_some_and(|stanza| stanza.settings.is_empty());
            if is_empty { without_stanza(&rest, stanza) } else { rest }
        })?;
        self.rewrite_existing_meta(location, |text| without_stanza(text, &path_name(&path)))
    }
}

/// The name of a setting in messages.
fn shown_name([_, stanza, key]: SettingPath<'_>) -> String {
    format!("{stanza} : {key}")
}

fn value_in<'c>(conf: &'c Conf, [_, stanza, key]: SettingPath<'_>) -> Option<&'c str> {
    conf.stanza(stanza)?.get(key)
}

/// The setting of a location, if the location sets it and the scope shows it to the viewer.
fn visible_setting(
    path: SettingPath<'_>,
    location: &LocationConf,
    scope: &Scope,
    viewer: &Permissions,
) -> Option<ConfObject> {
    let [conf, stanza, key] = path;
    let (local, default) = (value_in(&location.local, path), value_in(&location.default, path));
    let object = location.acl.setting(path, local.or(default)?, default.is_none(), viewer);
    let is_in_scope = location.acl.is_in_scope(scope, || object.sharing);
    let may_read = match &location.location {
        ObjectLocation::App(_) => location.acl.may_read_setting(conf, stanza, key, viewer),
        _ => location.acl.may_read(conf, stanza, viewer),
    };
    (is_in_scope && may_read).then_some(object)
}
