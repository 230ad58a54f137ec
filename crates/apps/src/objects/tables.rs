//! Lookup files as objects: `lookups/NAME.csv` of a location.
//!
//! Locations, sharing and permissions work as for stanzas; metadata lists the files under `lookups`. Content is sent as
//! text or staged in a folder of the node, as in Splunk; the content is validated and written atomically. Searches see
//! the new content at once. Not here: how searches read and write the files ([`crate::LookupFiles`]).

use quarry_conf::Permissions;
use quarry_conf::file_name::check_file_name;
use quarry_stdx::random;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use super::texts::TEXT;
use super::write::check_may_write;
use super::{AclChange, ConfObject, ObjectError, ObjectLocation, Objects, Scope};
use crate::lookup_files::{CSV, KIND, LOOKUP_BYTES_MAX};

/// Folder of staged files, relative to the data directory.
pub const STAGING_FOLDER: &str = "var/run/splunk/lookup_tmp";

/// Maximum number of files of one lookup folder.
const FILES_MAX: usize = 2_000;

/// The source of a lookup file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableContent {
    /// The text of the file.
    Text(String),
    /// A staged file, by path or name; it is removed after use.
    Staged(PathBuf),
}

impl TableContent {
    /// Parses a client's value: several lines are the content, one line is the path of a staged file.
    pub fn parse(given: &str) -> TableContent {
        match given.contains('\n') {
            true => TableContent::Text(given.to_owned()),
            false => TableContent::Staged(PathBuf::from(given)),
        }
    }
}

fn io_error(path: &Path, error: &std::io::Error) -> ObjectError {
    ObjectError::Failed(format!("{}: {error}", path.display()))
}

impl Objects {
    /// The visible lookup files; of several files with one name, the file with the highest precedence.
    pub fn tables(&self, scope: &Scope, viewer: &Permissions) -> Vec<ConfObject> {
        let mut found: Vec<ConfObject> = Vec::new();
        for location in self.locations(scope) {
            if location.user().is_some_and(|user| !super::may_see_user(viewer, user)) {
                continue;
            }
            for name in self.table_names(&location) {
                let is_known = scope.is_merged && found.iter().any(|known| known.name == name);
                found.extend(self.table_of(&name, &location, scope, viewer).filter(|_| !is_known));
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }

    /// One lookup file.
    pub fn table(&self, name: &str, scope: &Scope, viewer: &Permissions) -> Result<ConfObject, ObjectError> {
        let found = self.tables(scope, viewer).into_iter().find(|object| object.name == name);
        found.ok_or_else(|| ObjectError::Unknown(name.to_owned()))
    }

    /// Creates a lookup file, or replaces its content in place.
    pub fn put_table(
        &self,
        name: &str,
        content: &TableContent,
        is_new: bool,
        scope: &Scope,
        viewer: &Permissions,
    ) -> Result<ConfObject, ObjectError> {
        check_table_name(name)?;
        let location =
            if is_new { self.new_table_location(name, scope)? } else { self.table(name, scope, viewer)?.location };
        self.check_may_write_in(&location, KIND, name, viewer)?;
        let target = self.table_path(&location, name);
        // The content is read before the lock is taken.
        let unfinished = self.write_temporary(&target, content)?;
        let alone = self.files.change()?;
        let moved = || -> Result<(), ObjectError> {
            if is_new && target.exists() {
                return Err(ObjectError::Exists(name.to_owned()));
            }
            if is_new {
                self.record_owner(&location, KIND, name, viewer)?;
            }
            Ok(self.files.move_into_place(&unfinished, &target)?)
        };
        if let Err(error) = moved() {
            // A leftover file is not a table, so a failure to remove it is ignored.
            drop(std::fs::remove_file(&unfinished));
            return Err(error);
        }
        if let TableContent::Staged(path) = content {
            // A staged file that cannot be removed is harmless.
            drop(std::fs::remove_file(self.staged_path(path)?));
        }
        drop(alone);
        self.table(name, scope, viewer)
    }

    /// Removes a lookup file.
    pub fn remove_table(&self, name: &str, scope: &Scope, viewer: &Permissions) -> Result<(), ObjectError> {
        let _alone = self.files.change()?;
        let found = self.table(name, scope, viewer)?;
        check_may_write(&found, viewer)?;
        let path = self.table_path(&found.location, name);
        self.files.remove(&path)?;
        self.remove_meta(&found.location, KIND, name)
    }

    /// Changes owner, sharing or roles of a lookup file, and moves the file if necessary. Returns the changed object,
    /// even if it has left the scope.
    pub fn set_table_acl(
        &self,
        name: &str,
        change: &AclChange,
        scope: &Scope,
        viewer: &Permissions,
    ) -> Result<ConfObject, ObjectError> {
        let _alone = self.files.change()?;
        let found = self.table(name, scope, viewer)?;
        let changed = self.apply_acl(&found, change, viewer, |location| {
            let (from, to) = (self.table_path(&found.location, name), self.table_path(location, name));
            if to.exists() {
                return Err(ObjectError::Exists(name.to_owned()));
            }
            self.check_may_write_in(location, KIND, name, viewer)?;
            if let Some(folder) = to.parent() {
                std::fs::create_dir_all(folder).map_err(|error| io_error(folder, &error))?;
            }
            self.files.rename(&from, &to)?;
            self.remove_meta(&found.location, KIND, name)
        })?;
        Ok(ConfObject { settings: self.table_settings(&changed.location, name), ..changed })
    }

    fn new_table_location(&self, name: &str, scope: &Scope) -> Result<ObjectLocation, ObjectError> {
        let location = scope.target(true);
        self.check_app(location.app(), KIND)?;
        match self.table_path(&location, name).exists() {
            true => Err(ObjectError::Exists(name.to_owned())),
            false => Ok(location),
        }
    }

    fn table_path(&self, location: &ObjectLocation, name: &str) -> PathBuf {
        location.folder(self.data_dir()).join(KIND).join(name)
    }

    /// Names of a location's lookup files.
    fn table_names(&self, location: &ObjectLocation) -> Vec<String> {
        let entries = std::fs::read_dir(location.folder(self.data_dir()).join(KIND)).into_iter().flatten().flatten();
        let files = entries.filter(|entry| entry.path().is_file());
        let names = files.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.ends_with(CSV) && !name.starts_with('.')).collect()
    }

    fn table_of(
        &self,
        name: &str,
        location: &ObjectLocation,
        scope: &Scope,
        viewer: &Permissions,
    ) -> Option<ConfObject> {
        let acl = self.location_acl(location);
        if !acl.is_visible(KIND, name, scope, viewer) {
            return None;
        }
        Some(ConfObject { settings: self.table_settings(location, name), ..acl.object(KIND, name, true, viewer) })
    }

    /// The settings of the object for a lookup file: only the path of the file.
    fn table_settings(&self, location: &ObjectLocation, name: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(TEXT.to_owned(), self.table_path(location, name).display().to_string())])
    }

    /// The path of a staged file, which cannot lead outside the folder.
    fn staged_path(&self, given: &Path) -> Result<PathBuf, ObjectError> {
        let folder = self.data_dir().join(STAGING_FOLDER);
        let wrong = || {
            let given = given.display();
            ObjectError::Invalid(format!(
                "{TEXT}={given}: there is no such file, or it is outside of staging area \
                 $SPLUNK_HOME/{STAGING_FOLDER}; give a file of this folder, or the lines of the file itself"
            ))
        };
        let name = given.file_name().and_then(|name| name.to_str()).ok_or_else(wrong)?;
        check_file_name(name).map_err(|_| wrong())?;
        let is_there = given.parent().is_some_and(|parent| parent.as_os_str().is_empty() || parent == folder);
        let path = folder.join(name);
        let is_file = path.symlink_metadata().is_ok_and(|facts| facts.is_file());
        if is_there && is_file { Ok(path) } else { Err(wrong()) }
    }

    /// Validates content and writes it durably to a temporary file beside its target.
    fn write_temporary(&self, target: &Path, content: &TableContent) -> Result<PathBuf, ObjectError> {
        let folder = target.parent().unwrap_or(self.data_dir());
        std::fs::create_dir_all(folder).map_err(|error| io_error(folder, &error))?;
        let files = std::fs::read_dir(folder).map_err(|error| io_error(folder, &error))?.count();
        if files >= FILES_MAX && !target.exists() {
            return Err(ObjectError::Invalid(format!(
                "there are {files} lookup files here; the maximum is {FILES_MAX}"
            )));
        }
        let path = folder.join(format!(".upload-{}", random::id::<8>()));
        let written = self.fill(&path, content);
        if let Err(error) = written {
            // A leftover file is not a table, so a failure to remove it is ignored.
            drop(std::fs::remove_file(&path));
            return Err(error);
        }
        Ok(path)
    }

    fn fill(&self, path: &Path, content: &TableContent) -> Result<(), ObjectError> {
        let mut out = File::create_new(path).map_err(|error| io_error(path, &error))?;
        let count = match content {
            TableContent::Text(text) => {
                check_csv(text.as_bytes())?;
                out.write_all(text.as_bytes()).map_err(|error| io_error(path, &error))?;
                text.len() as u64
            }
            TableContent::Staged(given) => {
                let staged = self.staged_path(given)?;
                let open = || File::open(&staged).map_err(|error| io_error(&staged, &error));
                check_csv(open()?.take(LOOKUP_BYTES_MAX + 1))?;
                std::io::copy(&mut open()?.take(LOOKUP_BYTES_MAX + 1), &mut out)
                    .map_err(|error| io_error(path, &error))?
            }
        };
        if count > LOOKUP_BYTES_MAX {
            let text = format!("the limit for a lookup file is {LOOKUP_BYTES_MAX} bytes");
            return Err(ObjectError::Invalid(text));
        }
        out.sync_all().map_err(|error| io_error(path, &error))
    }
}

fn check_table_name(name: &str) -> Result<(), ObjectError> {
    check_file_name(name)?;
    if !name.ends_with(CSV) || name.starts_with('.') {
        return Err(ObjectError::Invalid(format!("name={name}: the name of a lookup file ends in {CSV}")));
    }
    Ok(())
}

/// Fails for content that searches could not read as a table.
fn check_csv(text: impl Read) -> Result<(), ObjectError> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text);
    let wrong = |error: csv::Error| match error.kind() {
        csv::ErrorKind::Io(error) if error.kind() != ErrorKind::InvalidData => {
            ObjectError::Failed(format!("the lookup file cannot be read: {error}"))
        }
        _ => ObjectError::Invalid(format!("{TEXT} is not CSV: {error}")),
    };
    if reader.headers().map_err(wrong)?.iter().all(str::is_empty) {
        return Err(ObjectError::Invalid(format!("{TEXT} has no line with the names of columns")));
    }
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(wrong)? {}
    Ok(())
}
