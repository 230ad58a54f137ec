//! The conf files of locations: listing, reading and rewriting them.

use std::path::{Path, PathBuf};

use quarry_conf::tables::{CONFS_WITHOUT_TABLE, TABLES};
use quarry_conf::{Conf, builtin_sources};

use super::acl::LocationAcl;
use super::{APP_SYSTEM, ObjectError, ObjectLocation, Objects, Scope, Users};
use crate::configuration::read_text;
use crate::folders::{app_name, enabled_apps, folders_in, is_disabled};

/// Metadata shipped with an app.
const DEFAULT_META: &str = "metadata/default.meta";
/// Metadata changed on this node, which overrides the shipped metadata.
pub(super) const LOCAL_META: &str = "metadata/local.meta";
/// Folder with changes of conf files.
pub(super) const LOCAL: &str = "local";

/// The content of one conf in a location.
pub(super) struct LocationConf {
    pub(super) location: ObjectLocation,
    pub(super) acl: LocationAcl,
    /// Stanzas shipped with the app or the program.
    pub(super) default: Conf,
    /// Stanzas changed on this node.
    pub(super) local: Conf,
}

fn parse_conf(file: &str, text: &str) -> Conf {
    // Errors are reported where the configuration is loaded for use.
    Conf::parse(file, text).0
}

impl Objects {
    /// The locations that a scope covers, highest precedence first.
    pub(super) fn locations(&self, scope: &Scope) -> Vec<ObjectLocation> {
        let users: Vec<String> = match &scope.users {
            Users::None => Vec::new(),
            Users::One(user) => vec![user.clone()],
            Users::All => folders_in(&self.data_dir().join("etc/users")).iter().map(|path| app_name(path)).collect(),
        };
        let mut locations = Vec::new();
        for user in users {
            let folder = self.data_dir().join("etc/users").join(&user);
            for app in folders_in(&folder).iter().map(|path| app_name(path)) {
                let is_seen = match &scope.app {
                    Some(own) => *own == app,
                    // Without a namespace, only private files in the default app are visible.
                    None => !scope.is_merged || app == super::APP_DEFAULT,
                };
                if is_seen {
                    locations.push(ObjectLocation::User { user: user.clone(), app });
                }
            }
        }
        // Among the other apps, the app whose name sorts last wins, as in a view.
        let mut apps: Vec<String> = enabled_apps(self.data_dir()).iter().map(|path| app_name(path)).collect();
        apps.sort_by_key(|app| std::cmp::Reverse((scope.app.as_ref() == Some(app), app.clone())));
        locations.extend(apps.into_iter().map(ObjectLocation::App));
        locations.push(ObjectLocation::System);
        locations
    }

    /// The content of a conf in a location.
    pub(super) fn location_conf(&self, location: &ObjectLocation, conf: &str) -> LocationConf {
        let folder = location.folder(self.data_dir());
        let file = format!("{conf}.conf");
        let text = |path: PathBuf| read_text(&path).unwrap_or_default();
        let default = match location {
            ObjectLocation::System => {
                let found = builtin_sources().into_iter().find(|source| Path::new(&source.file).ends_with(&file));
                found.map(|source| source.text).unwrap_or_default()
            }
            ObjectLocation::App(_) => text(folder.join("default").join(&file)),
            ObjectLocation::User { .. } => String::new(),
        };
        LocationConf {
            acl: self.location_acl(location),
            default: parse_conf(&file, &default),
            local: parse_conf(&file, &text(folder.join(LOCAL).join(&file))),
            location: location.clone(),
        }
    }

    /// Permissions of a location's objects.
    pub(super) fn location_acl(&self, location: &ObjectLocation) -> LocationAcl {
        let folder = location.folder(self.data_dir());
        let text = |file: &str| read_text(&folder.join(file)).unwrap_or_default();
        LocationAcl::new(location, &text(DEFAULT_META), &text(LOCAL_META))
    }

    /// Names of all confs that exist in the scope.
    pub fn conf_names(&self, scope: &Scope) -> Vec<String> {
        let mut names: Vec<String> = builtin_sources()
            .iter()
            .filter_map(|source| Path::new(&source.file).file_stem().map(|stem| stem.to_string_lossy().into_owned()))
            .collect();
        for location in self.locations(scope) {
            let folder = location.folder(self.data_dir());
            for layer in ["default", LOCAL] {
                let entries = std::fs::read_dir(folder.join(layer)).into_iter().flatten().flatten();
                names.extend(entries.filter_map(|entry| {
                    let name = entry.file_name().to_string_lossy().into_owned();
                    name.strip_suffix(".conf").map(str::to_owned)
                }));
            }
        }
        names.sort();
        names.dedup();
        names
    }

    /// Fails for a conf that exists neither in the program nor in the scope.
    pub fn check_conf_exists(&self, conf: &str, scope: &Scope) -> Result<(), ObjectError> {
        let is_known =
            TABLES.iter().any(|table| table.conf == conf) || CONFS_WITHOUT_TABLE.iter().any(|(name, _)| *name == conf);
        match is_known || self.conf_names(scope).iter().any(|name| name == conf) {
            true => Ok(()),
            false => Err(ObjectError::Unknown(conf.to_owned())),
        }
    }

    /// Rewrites a file of a location with `change` applied to its text; an empty result leaves an empty file.
    pub(super) fn rewrite(
        &self,
        location: &ObjectLocation,
        file: &str,
        change: impl FnOnce(&str) -> String,
    ) -> Result<(), ObjectError> {
        let path = location.folder(self.data_dir()).join(file);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(ObjectError::Failed(format!("{}: {error}", path.display()))),
        };
        let changed = change(&text);
        if !path.is_file() {
            check_file_count(path.parent())?;
        }
        let most = match location {
            ObjectLocation::User { .. } => super::write::PRIVATE_BYTES_MAX,
            ObjectLocation::System | ObjectLocation::App(_) => super::write::FILE_BYTES_MAX,
        };
        if changed.len() > most {
            return Err(ObjectError::Invalid(format!("{file} would exceed the maximum of {most} bytes")));
        }
        if changed != text || !path.is_file() {
            self.files.write(&path, &changed)?;
        }
        Ok(())
    }

    /// Fails for a missing app, because a write must not create an app, and for a disabled app, whose objects cannot be
    /// seen. The app.conf of a disabled app can be changed nevertheless, because this is how the app is enabled.
    pub(super) fn check_app(&self, app: &str, conf: &str) -> Result<(), ObjectError> {
        if conf != crate::local_apps::CONF && is_disabled(&self.data_dir().join("etc/apps").join(app)) {
            return Err(ObjectError::Invalid(format!("the app {app} is disabled: enable it to change its objects")));
        }
        let is_there = [APP_SYSTEM, super::APP_DEFAULT, super::APP_PREFERENCES].contains(&app)
            || self.data_dir().join("etc/apps").join(app).is_dir();
        if is_there { Ok(()) } else { Err(ObjectError::Unknown(app.to_owned())) }
    }
}

/// Fails if a folder has reached its maximum number of files.
pub(super) fn check_file_count(folder: Option<&Path>) -> Result<(), ObjectError> {
    let files = folder.and_then(|folder| std::fs::read_dir(folder).ok()).map_or(0, Iterator::count);
    if files < super::FILES_MAX {
        return Ok(());
    }
    let most = super::FILES_MAX;
    Err(ObjectError::Invalid(format!(
        "there are {files} files of this kind already; the maximum is {most}: remove some first"
    )))
}
