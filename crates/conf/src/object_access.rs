//! Permissions to read and change an app's objects: `access` and `owner` in its `metadata/default.meta` and
//! `local.meta`.
//!
//! `access = read : [ * ], write : [ admin, power ]` names roles. The most specific stanza for an object applies:
//! `[lookups/codes.csv]`, then `[lookups]`, then `[]`. If no stanza names writers, the roles `admin` and `power` may
//! write, as in the metadata of Splunk's own apps. Owners may read and change their own objects.
//!
//! If no stanza names readers, everybody may read. Objects that a user may not read are hidden from the user's
//! searches: [`Readable`] removes these objects from the files that searches read. All users for whom the metadata has
//! the same effect share one cached set of files ([`Reader`]).
//!
//! Not here: sharing between apps ([`crate::namespace::Sharing`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::layers::{ConfSource, Layer};
use crate::namespace::{View, encode_part, split_name};
use crate::permissions::{ADMIN_ALL_OBJECTS, Permissions};
use crate::text::Conf;

/// Setting with the roles.
const ACCESS: &str = "access";
/// Keyword before the roles that may read.
const READ: &str = "read";
/// Keyword before the roles that may write.
const WRITE: &str = "write";
/// Setting with the owner.
const OWNER: &str = "owner";
/// Word that stands for all roles.
const EVERYBODY: &str = "*";
/// Number of parts in the path of an object: its kind and its name.
const OBJECT_PARTS: usize = 2;
/// Roles that may write by default.
const WRITERS: [&str; 2] = ["admin", "power"];

/// Read and write permissions on an app's objects, from its metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectAccess {
    /// Roles that may read, by the parts of a stanza's name.
    readers: BTreeMap<Vec<String>, Vec<String>>,
    /// Roles that may write, by the parts of a stanza's name.
    writers: BTreeMap<Vec<String>, Vec<String>>,
    /// Owners of objects.
    owners: BTreeMap<Vec<String>, String>,
}

impl ObjectAccess {
    /// Reads the texts of `default.meta` and `local.meta`; `local.meta` overrides `default.meta`, setting by setting.
    pub fn new(default: &str, local: &str) -> ObjectAccess {
        let mut access = ObjectAccess::default();
        for text in [default, local] {
            let (conf, _) = Conf::parse("metadata", text);
            for stanza in conf.stanzas.iter().filter(|stanza| stanza.line > 0) {
                let path = split_name(&stanza.name);
                if let Some(readers) = stanza.get(ACCESS).and_then(|text| parse_roles(text, READ)) {
                    access.readers.insert(path.clone(), readers);
                }
                if let Some(writers) = stanza.get(ACCESS).and_then(|text| parse_roles(text, WRITE)) {
                    access.writers.insert(path.clone(), writers);
                }
                if let Some(owner) = stanza.get(OWNER).filter(|_| !path.is_empty()) {
                    access.owners.insert(path, owner.to_owned());
                }
            }
        }
        access
    }

    /// Roles that may read the object of this kind and name; `*` is all.
    pub fn readers(&self, kind: &str, name: &str) -> Vec<String> {
        self.readers_at(&[kind, name])
    }

    /// Roles that may read the object at `path`: its kind, its name, and optionally one of its settings; `*` is all.
    pub fn readers_at(&self, path: &[&str]) -> Vec<String> {
        listed_roles(&self.readers, path).unwrap_or_else(|| vec![EVERYBODY.to_owned()])
    }

    /// Roles that may change the object of this kind and name; `*` is all.
    pub fn writers(&self, kind: &str, name: &str) -> Vec<String> {
        self.writers_at(&[kind, name])
    }

    /// Roles that may change the object at `path`; `*` is all.
    pub fn writers_at(&self, path: &[&str]) -> Vec<String> {
        listed_roles(&self.writers, path).unwrap_or_else(|| WRITERS.map(str::to_owned).to_vec())
    }

    /// Whether a stanza names the roles that may change the object of this kind and name.
    pub fn names_writers(&self, kind: &str, name: &str) -> bool {
        listed_roles(&self.writers, &[kind, name]).is_some()
    }

    /// Owner of the object of this kind and name, if any.
    pub fn owner(&self, kind: &str, name: &str) -> Option<&str> {
        self.owner_at(&[kind, name])
    }

    /// Owner of the object at `path`, if any; a setting without an owner has the owner of its stanza.
    pub fn owner_at(&self, path: &[&str]) -> Option<&str> {
        let owned: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        (OBJECT_PARTS..=owned.len()).rev().find_map(|length| self.owners.get(&owned[..length])).map(String::as_str)
    }

    /// Whether a user may read the object of this kind and name.
    pub fn may_read(&self, kind: &str, name: &str, user: &Permissions) -> bool {
        self.is_listed(self.readers(kind, name), &[kind, name], user)
    }

    /// Whether a user may read a setting of the object of this kind and name.
    pub fn may_read_setting(&self, kind: &str, name: &str, setting: &str, user: &Permissions) -> bool {
        if user.has_capability(ADMIN_ALL_OBJECTS) {
            return true;
        }
        let who = UserProperties { owner: Some(user.user.clone()), roles: user.roles.iter().cloned().collect() };
        self.may_read_path(&[kind, name, setting], &Reader(Some(who)))
    }

    /// Whether a user may change the object of this kind and name.
    pub fn may_write(&self, kind: &str, name: &str, user: &Permissions) -> bool {
        self.may_write_at(&[kind, name], user)
    }

    /// Whether a user may change the object at `path`.
    pub fn may_write_at(&self, path: &[&str], user: &Permissions) -> bool {
        self.is_listed(self.writers_at(path), path, user)
    }

    /// The roles to which the metadata grants reading, and the owners of objects.
    fn names_of_readers(&self) -> (impl Iterator<Item = &String>, impl Iterator<Item = &String>) {
        (self.readers.values().flatten(), self.owners.values())
    }

    /// Whether the metadata restricts the readers of any object.
    fn restricts_reading(&self) -> bool {
        self.readers.values().any(|roles| !roles.iter().any(|role| role == EVERYBODY))
    }

    /// Whether a reader may read the object at `path`: its kind, its name, and optionally one of its settings.
    fn may_read_path(&self, path: &[&str], reader: &Reader) -> bool {
        let Some(who) = &reader.0 else { return true };
        let part = |length: usize| path[..length].iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        let parts: Vec<Vec<String>> = (0..=path.len()).rev().map(part).collect();
        if parts.iter().any(|part| self.owners.get(part).is_some_and(|owner| Some(owner) == who.owner.as_ref())) {
            return true;
        }
        let said = parts.iter().find_map(|part| self.readers.get(part));
        said.is_none_or(|roles| roles.iter().any(|role| role == EVERYBODY || who.roles.contains(role)))
    }

    fn is_listed(&self, roles: Vec<String>, path: &[&str], user: &Permissions) -> bool {
        let may = |role: &String| role == EVERYBODY || user.roles.contains(role);
        user.has_capability(ADMIN_ALL_OBJECTS)
            || self.owner_at(path) == Some(user.user.as_str())
            || roles.iter().any(may)
    }
}

/// An equivalence class of users with the same read permissions in all metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reader(Option<UserProperties>);

/// The properties of a user on which permissions in metadata depend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct UserProperties {
    /// The user's name, if the user owns an object.
    owner: Option<String>,
    /// The user's roles to which the metadata of some app grants reading.
    roles: BTreeSet<String>,
}

impl Reader {
    /// The reader that may read everything: the node itself, and administrators.
    pub fn unrestricted() -> Reader {
        Reader::default()
    }
}

/// The read permissions of all apps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readership {
    /// The apps that restrict reading.
    apps: BTreeMap<String, ObjectAccess>,
}

impl Readership {
    /// Collects the read permissions of each app.
    pub fn new(apps: impl IntoIterator<Item = (String, ObjectAccess)>) -> Readership {
        Readership { apps: apps.into_iter().filter(|(_, access)| access.restricts_reading()).collect() }
    }

    /// The class that a user belongs to.
    pub fn reader(&self, user: &Permissions) -> Reader {
        if self.apps.is_empty() || user.has_capability(ADMIN_ALL_OBJECTS) {
            return Reader::unrestricted();
        }
        let mut who = UserProperties::default();
        for access in self.apps.values() {
            let (mut roles, mut owners) = access.names_of_readers();
            who.roles.extend(roles.by_ref().filter(|role| user.roles.contains(*role)).cloned());
            who.owner = who.owner.or_else(|| owners.find(|owner| **owner == user.user).cloned());
        }
        Reader(Some(who))
    }
}

/// The objects of apps that a reader may read.
#[derive(Clone, Debug, Default)]
pub struct Readable {
    readership: Arc<Readership>,
    reader: Reader,
}

impl Readable {
    /// The objects that `reader` may read according to the metadata.
    pub fn new(readership: Arc<Readership>, reader: Reader) -> Readable {
        Readable { readership, reader }
    }

    /// All objects, without restriction.
    pub fn unrestricted() -> Readable {
        Readable::default()
    }

    /// Whether an app's object may be read; `path` is the object's kind, its name, and optionally one of its settings.
    pub fn includes(&self, app: &str, path: &[&str]) -> bool {
        let access = self.readership.apps.get(app);
        access.is_none_or(|access| access.may_read_path(path, &self.reader))
    }

    /// Removes from an app's file the settings that searches must not see. Index-time settings stay: they are the same
    /// for everyone.
    pub(crate) fn retain_readable(&self, name: &str, source: &ConfSource, conf: &mut Conf) {
        let app = source.app.as_deref().filter(|_| matches!(source.layer, Layer::AppDefault | Layer::AppLocal));
        let Some(app) = app.filter(|app| View::is_namespaced(name) && self.readership.apps.contains_key(*app)) else {
            return;
        };
        conf.stanzas.retain_mut(|stanza| {
            let of_stanza = stanza.name.clone();
            stanza.settings.retain(|setting| {
                !View::is_namespaced_setting(name, &setting.key)
                    || self.includes(app, &[name, &of_stanza, &setting.key])
            });
            !stanza.settings.is_empty() || self.includes(app, &[name, &of_stanza])
        });
    }
}

/// The roles in the most specific stanza for an object; `None` if no stanza for the object names roles.
fn listed_roles(roles: &BTreeMap<Vec<String>, Vec<String>>, path: &[&str]) -> Option<Vec<String>> {
    let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
    (0..=path.len()).rev().find_map(|length| roles.get(&path[..length])).cloned()
}

/// The value of `access` for these roles.
pub fn access_text(readers: &[String], writers: &[String]) -> String {
    format!("{READ} : [ {} ], {WRITE} : [ {} ]", readers.join(", "), writers.join(", "))
}

/// The name of an object's stanza in metadata.
pub fn stanza_name(kind: &str, name: &str) -> String {
    path_name(&[kind, name])
}

/// The name of the stanza in metadata for the object at `path`: its kind, its name, and optionally one of its settings.
pub fn path_name(path: &[&str]) -> String {
    path.iter().map(|part| encode_part(part)).collect::<Vec<_>>().join("/")
}

/// The roles listed after `word`; `None` if the word is missing.
fn parse_roles(access: &str, word: &str) -> Option<Vec<String>> {
    let (_, rest) = access.split_once(word)?;
    let (_, list) = rest.split_once('[')?;
    let (list, _) = list.split_once(']')?;
    Some(list.split(',').map(str::trim).filter(|role| !role.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn of(user: &str, roles: &[&str]) -> Permissions {
        let roles = roles.iter().map(|role| (*role).to_owned()).collect();
        Permissions::for_user(user, BTreeSet::new(), Vec::new(), Vec::new()).with_roles(roles)
    }

    #[test]
    fn the_most_specific_stanza_decides_write_access() {
        let default = "[]\naccess = read : [ * ], write : [ admin ]\n[lookups]\naccess = write : [team]\n\
                       [lookups/open.csv]\naccess = read : [ * ], write : [ * ]\n[lookups/own%20one.csv]\nowner = eva\n";
        let access = ObjectAccess::new(default, "[lookups/closed.csv]\naccess = read : [ * ], write : [ ]\n");
        let may = |name: &str, user: &Permissions| access.may_write("lookups", name, user);
        let (eva, tom) = (of("eva", &["user"]), of("tom", &["team"]));
        let admin = Permissions::for_user("a", BTreeSet::from([ADMIN_ALL_OBJECTS.to_owned()]), Vec::new(), Vec::new());
        assert_eq!(
            ["a.csv", "open.csv", "own one.csv", "closed.csv"].map(|name| may(name, &eva)),
            [false, true, true, false]
        );
        assert_eq!(
            ["a.csv", "open.csv", "own one.csv", "closed.csv"].map(|name| may(name, &tom)),
            [true, true, true, false]
        );
        assert!(may("closed.csv", &admin) && may("closed.csv", &Permissions::owner()));
        assert!(
            !access.may_write("collections", "a", &tom) && access.may_write("collections", "a", &of("x", &["admin"]))
        );
    }

    #[test]
    fn unlisted_readers_are_one_class_and_see_public_objects() {
        let restricted = ObjectAccess::new(
            "[macros/secret]\naccess = read : [ team, admin ]\nowner = eva\n[props/web/EXTRACT-card]\naccess = read : [ team ]\n",
            "",
        );
        let open = ObjectAccess::new("[]\naccess = read : [ * ], write : [ admin ]\n[macros/m]\nowner = ann\n", "");
        let readership = Readership::new([("shop".to_owned(), restricted), ("other".to_owned(), open.clone())]);
        let nobody_knows = ["tom", "ann", "bob"].map(|user| readership.reader(&of(user, &["user"])));
        assert!(nobody_knows.windows(2).all(|pair| pair[0] == pair[1]));
        let (eva, teammate) = (readership.reader(&of("eva", &["user"])), readership.reader(&of("x", &["team"])));
        assert!(
            eva != nobody_knows[0] && teammate != eva && teammate == readership.reader(&of("y", &["team", "user"]))
        );
        let sees = |reader: &Reader| {
            let readable = Readable::new(Arc::new(readership.clone()), reader.clone());
            let paths: [&[&str]; 4] = [
                &["macros", "secret"],
                &["macros", "secret", "definition"],
                &["macros", "open"],
                &["props", "web", "EXTRACT-card"],
            ];
            paths.map(|path| readable.includes("shop", path))
        };
        assert_eq!(sees(&nobody_knows[0]), [false, false, true, false]);
        assert_eq!(sees(&eva), [true, true, true, false]);
        assert_eq!(sees(&teammate), [true; 4]);
        assert_eq!(sees(&Reader::unrestricted()), [true; 4]);
        let admin = Permissions::for_user("a", BTreeSet::from([ADMIN_ALL_OBJECTS.to_owned()]), Vec::new(), Vec::new());
        assert_eq!(readership.reader(&admin), Reader::unrestricted());
        let nothing_kept = Readership::new([("other".to_owned(), open)]);
        assert_eq!(nothing_kept.reader(&of("tom", &[])), Reader::unrestricted());
    }

    #[test]
    fn administrators_and_power_users_may_write_by_default() {
        for text in ["", "[]\nexport = system\n", "[lookups]\naccess = read : [ user ]\n", "[]\naccess = write\n"] {
            let access = ObjectAccess::new(text, "");
            let may = |role: &str| access.may_write("lookups", "a.csv", &of("eva", &[role]));
            assert_eq!(
                [may("user"), may("power"), may("admin"), may("can_delete")],
                [false, true, true, false],
                "{text}"
            );
        }
    }
}
