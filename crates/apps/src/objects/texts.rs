//! Objects that are files: views, navigation, panels and time ranges, as `data/ui/KIND/NAME.xml` of a location, and
//! data models, as `data/models/NAME.json`.
//!
//! Locations, sharing and permissions work as for stanzas; metadata lists the objects under the kind's name. Files of
//! the user interface must be well-formed XML; their content is not interpreted.

use quarry_conf::Permissions;
use quarry_conf::file_name::check_file_name;
use std::collections::BTreeMap;
use std::path::PathBuf;

use super::files::LOCAL;
use super::write::check_may_write;
use super::xml_check::check_well_formed;
use super::{AclChange, ConfObject, ObjectError, ObjectLocation, Objects, Scope};
use crate::configuration::read_text;

/// Extension of files of the user interface.
const SUFFIX: &str = ".xml";
const MODEL_SUFFIX: &str = ".json";
/// The setting that holds a file's text.
pub const TEXT: &str = "eai:data";
/// The setting that holds a digest of a file's text, which tells clients whether the file has changed.
pub const DIGEST: &str = "eai:digest";
const DIGEST_BYTES: usize = 16;
/// The name of an app's navigation. The name is reserved among stanzas, but not among files.
const DEFAULT_NAME: &str = "default";
/// Maximum bytes of a file; a larger file is refused.
const TEXT_BYTES_MAX: usize = 4 << 20;
/// Kinds of objects of the user interface, as in paths and metadata.
pub const KINDS: [&str; 4] = ["views", "nav", "panels", "times"];
/// The kind of data models.
pub const MODELS: &str = "models";

/// Extension of the files of a kind.
fn suffix_of(kind: &str) -> &'static str {
    if kind == MODELS { MODEL_SUFFIX } else { SUFFIX }
}

/// Folder of a kind below `default` or `local`.
fn folder_of(kind: &str) -> PathBuf {
    if kind == MODELS { PathBuf::from("data").join(MODELS) } else { PathBuf::from("data/ui").join(kind) }
}

impl Objects {
    /// The visible objects of a kind; in a merged scope, only the object with the highest precedence of each name.
    pub fn texts(&self, kind: &str, scope: &Scope, viewer: &Permissions) -> Result<Vec<ConfObject>, ObjectError> {
        check_kind(kind)?;
        let mut found: Vec<ConfObject> = Vec::new();
        for location in self.locations(scope) {
            if location.user().is_some_and(|user| !super::may_see_user(viewer, user)) {
                continue;
            }
            for (name, is_local) in self.names_of(&location, kind) {
                let is_known = scope.is_merged && found.iter().any(|known| known.name == name);
                if let Some(object) =
                    self.text_of(kind, &name, &location, is_local, scope, viewer).filter(|_| !is_known)
                {
                    found.push(object);
                }
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// One object by name.
    pub fn text(&self, kind: &str, name: &str, scope: &Scope, viewer: &Permissions) -> Result<ConfObject, ObjectError> {
        let found = self.texts(kind, scope, viewer)?.into_iter().find(|object| object.name == name);
        found.ok_or_else(|| ObjectError::Unknown(name.to_owned()))
    }

    /// Creates an object, or changes it in place.
    pub fn put_text(
        &self,
        kind: &str,
        name: &str,
        text: &str,
        is_new: bool,
        scope: &Scope,
        viewer: &Permissions,
    ) -> Result<ConfObject, ObjectError> {
        check_kind(kind)?;
        if name != DEFAULT_NAME {
            super::check_name(name)?;
        }
        check_file_name(&format!("{name}{}", suffix_of(kind)))?;
        if text.len() > TEXT_BYTES_MAX {
            return Err(ObjectError::Invalid(format!(
                "{TEXT} has {} bytes; the limit is {TEXT_BYTES_MAX}",
                text.len()
            )));
        }
        if kind != MODELS {
            check_well_formed(TEXT, text)?;
        }
        let alone = self.files.change()?;
        let location = if is_new {
            let location = scope.target(true);
            self.check_app(location.app(), kind)?;
            if self.names_of(&location, kind).iter().any(|(known, _)| known == name) {
                return Err(ObjectError::Exists(name.to_owned()));
            }
            location
        } else {
            self.text(kind, name, scope, viewer)?.location
        };
        self.check_may_write_in(&location, kind, name, viewer)?;
        if is_new {
            self.record_owner(&location, kind, name, viewer)?;
        }
        let path = self.file_of(&location, LOCAL, kind, name);
        if !path.is_file() {
            super::files::check_file_count(path.parent())?;
        }
        self.files.write(&path, text)?;
        drop(alone);
        self.text(kind, name, scope, viewer)
    }

    /// Removes an object that was not shipped with its app.
    pub fn remove_text(&self, kind: &str, name: &str, scope: &Scope, viewer: &Permissions) -> Result<(), ObjectError> {
        let _alone = self.files.change()?;
        let found = self.text(kind, name, scope, viewer)?;
        check_may_write(&found, viewer)?;
        if !found.is_local {
            let app = found.location.app();
            return Err(ObjectError::Denied(format!("Object id={name} cannot be deleted: it comes with {app}")));
        }
        let path = self.file_of(&found.location, LOCAL, kind, name);
        self.files.remove(&path)?;
        self.remove_meta(&found.location, kind, name)
    }

    /// Changes owner, sharing or roles of an object, and moves its file if necessary. Returns the changed object, even
    /// if it has left the scope.
    pub fn set_text_acl(
        &self,
        kind: &str,
        name: &str,
        change: &AclChange,
        scope: &Scope,
        viewer: &Permissions,
    ) -> Result<ConfObject, ObjectError> {
        let _alone = self.files.change()?;
        let found = self.text(kind, name, scope, viewer)?;
        self.apply_acl(&found, change, viewer, |location| {
            if !found.is_local {
                let app = found.location.app();
                return Err(ObjectError::Invalid(format!("{name} comes with {app}: it cannot be moved")));
            }
            if self.names_of(location, kind).contains_key(name) {
                return Err(ObjectError::Exists(name.to_owned()));
            }
            self.check_may_write_in(location, kind, name, viewer)?;
            let (from, to) =
                (self.file_of(&found.location, LOCAL, kind, name), self.file_of(location, LOCAL, kind, name));
            let text = read_text(&from).unwrap_or_default();
            // The new file is written before the old file is removed, so that a crash loses nothing.
            self.files.write(&to, &text)?;
            self.files.remove(&from)?;
            self.remove_meta(&found.location, kind, name)
        })
    }

    fn file_of(&self, location: &ObjectLocation, layer: &str, kind: &str, name: &str) -> PathBuf {
        location.folder(self.data_dir()).join(layer).join(folder_of(kind)).join(format!("{name}{}", suffix_of(kind)))
    }

    /// Names of a location's objects, and whether each exists only in `local`.
    fn names_of(&self, location: &ObjectLocation, kind: &str) -> BTreeMap<String, bool> {
        let mut names = BTreeMap::new();
        for layer in [LOCAL, "default"] {
            let folder = location.folder(self.data_dir()).join(layer).join(folder_of(kind));
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let file = entry.file_name().to_string_lossy().into_owned();
                if let Some(name) = file.strip_suffix(suffix_of(kind)) {
                    names.insert(name.to_owned(), layer == LOCAL);
                }
            }
        }
        names
    }

    fn text_of(
        &self,
        kind: &str,
        name: &str,
        location: &ObjectLocation,
        is_local: bool,
        scope: &Scope,
        viewer: &Permissions,
    ) -> Option<ConfObject> {
        let acl = self.location_acl(location);
        if !acl.is_visible(kind, name, scope, viewer) {
            return None;
        }
        let text = [LOCAL, "default"].iter().find_map(|layer| read_text(&self.file_of(location, layer, kind, name)))?;
        let mut settings = BTreeMap::from([(TEXT.to_owned(), text)]);
        if kind != MODELS {
            settings.insert(DIGEST.to_owned(), digest_of(&settings[TEXT]));
        }
        Some(ConfObject { settings, ..acl.object(kind, name, is_local, viewer) })
    }
}

fn digest_of(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    quarry_stdx::hex::encode(&digest.as_ref()[..DIGEST_BYTES])
}

fn check_kind(kind: &str) -> Result<(), ObjectError> {
    if KINDS.contains(&kind) || kind == MODELS { Ok(()) } else { Err(ObjectError::Unknown(kind.to_owned())) }
}
