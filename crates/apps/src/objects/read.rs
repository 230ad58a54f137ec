//! Listing and reading objects.

use std::collections::BTreeMap;

use quarry_conf::{Permissions, Stanza};

use super::files::PlaceConf;
use super::{ConfObject, DEFAULT_STANZA, ObjectError, Objects, Place, Scope, check_conf};

impl Objects {
    /// The visible stanzas of a conf by name, without `[default]`.
    pub fn list(&self, conf: &str, scope: &Scope, viewer: &Permissions) -> Result<Vec<ConfObject>, ObjectError> {
        let places = self.visible_places(conf, scope, viewer)?;
        let mut names: Vec<&str> =
            places.iter().flat_map(|place| stanzas(place).map(|stanza| stanza.name.as_str())).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| *name != DEFAULT_STANZA);
        let objects = names.into_iter().flat_map(|name| visible_objects(conf, name, &places, scope, viewer));
        Ok(objects.collect())
    }

    /// One stanza. `default` exists even if no visible location defines it; it then has no settings.
    pub fn get(&self, conf: &str, name: &str, scope: &Scope, viewer: &Permissions) -> Result<ConfObject, ObjectError> {
        let places = self.visible_places(conf, scope, viewer)?;
        let found = visible_objects(conf, name, &places, scope, viewer).into_iter().next();
        let default =
            || places.last().filter(|_| name == DEFAULT_STANZA).map(|place| object(conf, name, place, viewer));
        found.or_else(default).ok_or_else(|| ObjectError::Unknown(name.to_owned()))
    }

    fn visible_places(&self, conf: &str, scope: &Scope, viewer: &Permissions) -> Result<Vec<PlaceConf>, ObjectError> {
        check_conf(conf)?;
        if !super::may_read_conf(conf, viewer) {
            return Err(ObjectError::Denied(format!("{conf} may contain passwords: only administrators may read it")));
        }
        let mut places = self.places(scope);
        places.retain(|place| place.user().is_none_or(|user| super::may_see_user(viewer, user)));
        Ok(places.iter().map(|place| self.place_conf(place, conf)).collect())
    }
}

fn stanzas(place: &PlaceConf) -> impl Iterator<Item = &Stanza> {
    place.local.stanzas.iter().chain(&place.default.stanzas)
}

/// Whether an object of a location is visible in a scope.
fn is_visible(conf: &str, name: &str, place: &PlaceConf, scope: &Scope, viewer: &Permissions) -> bool {
    let is_near = match (&place.place, &scope.app) {
        (Place::App(app), Some(own)) if app != own => place.acl.sharing(conf, name) == super::ObjectSharing::Global,
        _ => true,
    };
    is_near && place.acl.may_read(conf, name, viewer)
}

/// The visible objects of one name: only the one with the highest precedence, or all of them if the scope does not
/// merge objects. `places` are in descending order of precedence.
fn visible_objects(
    conf: &str,
    name: &str,
    places: &[PlaceConf],
    scope: &Scope,
    viewer: &Permissions,
) -> Vec<ConfObject> {
    let seen: Vec<&PlaceConf> = places.iter().filter(|place| is_visible(conf, name, place, scope, viewer)).collect();
    let has = |place: &&&PlaceConf| stanzas(place).any(|stanza| stanza.name == name);
    let mut objects = Vec::new();
    for (at, place) in seen.iter().enumerate().filter(|(_, place)| has(place)) {
        let mut shown = object(conf, name, place, viewer);
        // In ascending order of precedence, so that later locations overwrite earlier ones; `[default]` of every
        // location comes before the stanza of any location.
        let behind: Vec<&PlaceConf> = match scope.is_merged {
            true => seen[at..].iter().rev().copied().collect(),
            false => places.last().into_iter().filter(|last| last.place != place.place).chain([*place]).collect(),
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
fn settings_of(kind: &str, name: &str, places: &[&PlaceConf], viewer: &Permissions) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    for place in places {
        for conf in [&place.default, &place.local] {
            let own = conf.stanza(name).into_iter().flat_map(|stanza| &stanza.settings);
            let own = own.filter(|setting| place.acl.may_read_setting(kind, name, &setting.key, viewer));
            settings.extend(own.map(|setting| (setting.key.clone(), setting.value.clone())));
        }
    }
    settings
}

/// An object of a location; its settings are left empty.
fn object(conf: &str, name: &str, place: &PlaceConf, viewer: &Permissions) -> ConfObject {
    let is_local = place.default.stanza(name).is_none() && place.local.stanza(name).is_some();
    place.acl.object(conf, name, is_local, viewer)
}
