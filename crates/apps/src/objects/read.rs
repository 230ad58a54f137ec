//! Listing and reading objects.

use std::collections::BTreeMap;

use quarry_conf::{Permissions, Stanza};

use super::files::LocationConf;
use super::{ConfObject, DEFAULT_STANZA, ObjectError, Objects, Scope, check_conf};

impl Objects {
    /// The visible stanzas of a conf by name, without `[default]`.
    pub fn list(&self, conf: &str, scope: &Scope, viewer: &Permissions) -> Result<Vec<ConfObject>, ObjectError> {
        let locations = self.visible_locations(conf, scope, viewer)?;
        let mut names: Vec<&str> =
            locations.iter().flat_map(|location| stanzas(location).map(|stanza| stanza.name.as_str())).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| *name != DEFAULT_STANZA);
        let objects = names.into_iter().flat_map(|name| visible_objects(conf, name, &locations, scope, viewer));
        Ok(objects.collect())
    }

    /// One stanza. `default` exists even if no visible location defines it; it then has no settings.
    pub fn get(&self, conf: &str, name: &str, scope: &Scope, viewer: &Permissions) -> Result<ConfObject, ObjectError> {
        let locations = self.visible_locations(conf, scope, viewer)?;
        let found = visible_objects(conf, name, &locations, scope, viewer).into_iter().next();
        let default =
            || locations.last().filter(|_| name == DEFAULT_STANZA).map(|location| object(conf, name, location, viewer));
        found.or_else(default).ok_or_else(|| ObjectError::Unknown(name.to_owned()))
    }

    pub(super) fn visible_locations(
        &self,
        conf: &str,
        scope: &Scope,
        viewer: &Permissions,
    ) -> Result<Vec<LocationConf>, ObjectError> {
        check_conf(conf)?;
        if !super::may_read_conf(conf, viewer) {
            return Err(ObjectError::Denied(format!("{conf} may contain passwords: only administrators may read it")));
        }
        let mut locations = self.locations(scope);
        locations.retain(|location| location.user().is_none_or(|user| super::may_see_user(viewer, user)));
        Ok(locations.iter().map(|location| self.location_conf(location, conf)).collect())
    }
}

pub(super) fn stanzas(location: &LocationConf) -> impl Iterator<Item = &Stanza> {
    location.local.stanzas.iter().chain(&location.default.stanzas)
}

/// The visible objects of one name: only the object with the highest precedence, or all of them if the scope does not
/// merge objects. `locations` are in descending order of precedence.
fn visible_objects(
    conf: &str,
    name: &str,
    locations: &[LocationConf],
    scope: &Scope,
    viewer: &Permissions,
) -> Vec<ConfObject> {
    let seen: Vec<&LocationConf> =
        locations.iter().filter(|location| location.acl.is_visible(conf, name, scope, viewer)).collect();
    let has = |location: &&&LocationConf| stanzas(location).any(|stanza| stanza.name == name);
    let mut objects = Vec::new();
    for (at, location) in seen.iter().enumerate().filter(|(_, location)| has(location)) {
        let mut shown = object(conf, name, location, viewer);
        // In ascending order of precedence, so that later locations overwrite earlier locations; `[default]` of every
        // location comes before the stanza of any location.
        let behind: Vec<&LocationConf> = match scope.is_merged {
            true => seen[at..].iter().rev().copied().collect(),
            false => locations
                .last()
                .into_iter()
                .filter(|last| last.location != location.location)
                .chain([*location])
                .collect(),
        };
        shown.settings = settings_of(conf, DEFAULT_STANZA, &behind, viewer);
        shown.settings.extend(settings_of(conf, name, &behind, viewer));
        objects.push(shown);
        if scope.is_merged {
            break;
        }
    }
    objects
}

/// The settings of a stanza that the viewer may read.
fn settings_of(kind: &str, name: &str, locations: &[&LocationConf], viewer: &Permissions) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    for location in locations {
        for conf in [&location.default, &location.local] {
            let own = conf.stanza(name).into_iter().flat_map(|stanza| &stanza.settings);
            let own = own.filter(|setting| location.acl.may_read_setting(kind, name, &setting.key, viewer));
            settings.extend(own.map(|setting| (setting.key.clone(), setting.value.clone())));
        }
    }
    settings
}

/// An object of a location; its settings are left empty.
fn object(conf: &str, name: &str, location: &LocationConf, viewer: &Permissions) -> ConfObject {
    let is_local = location.default.stanza(name).is_none() && location.local.stanza(name).is_some();
    location.acl.object(conf, name, is_local, viewer)
}
