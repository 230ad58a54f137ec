//! Who may read and change what an app shares: `access` and `owner` in its `metadata/default.meta` and `local.meta`.
//!
//! `access = read : [ * ], write : [ admin, power ]` names roles. Of the stanzas that name an object the most specific one
//! counts: `[lookups/codes.csv]`, then `[lookups]`, then `[]`. Where none says who may write, the roles `admin` and `power`
//! may, as in the metadata that Splunk's own apps come with. An owner may change what is theirs.
//!
//! Everybody may read where nothing is said.
//!
//! Not here: what others see of an app ([`crate::namespace::Sharing`]).

use std::collections::BTreeMap;

use crate::namespace::{encoded, parts_of};
use crate::permissions::{ADMIN_ALL_OBJECTS, Permissions};
use crate::text::Conf;

/// Setting with the roles.
const ACCESS: &str = "access";
/// What stands before those that may read.
const READ: &str = "read";
/// What stands before those that may write.
const WRITE: &str = "write";
/// Setting with the owner.
const OWNER: &str = "owner";
/// Stands for all roles.
const EVERYBODY: &str = "*";
/// Roles that may write where nothing is said.
const WRITERS: [&str; 2] = ["admin", "power"];

/// What an app's metadata say of reading and changing its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectAccess {
    /// Roles that may read, by the parts of a stanza's name.
    readers: BTreeMap<Vec<String>, Vec<String>>,
    /// Roles that may write.
    writers: BTreeMap<Vec<String>, Vec<String>>,
    /// Owners of objects.
    owners: BTreeMap<Vec<String>, String>,
}

impl ObjectAccess {
    /// Reads the texts of `default.meta` and `local.meta`; what the second one says wins, setting by setting.
    pub fn new(default: &str, local: &str) -> ObjectAccess {
        let mut access = ObjectAccess::default();
        for text in [default, local] {
            let (conf, _) = Conf::parse("metadata", text);
            for stanza in conf.stanzas.iter().filter(|stanza| stanza.line > 0) {
                let path = parts_of(&stanza.name);
                if let Some(readers) = stanza.get(ACCESS).and_then(|text| roles_of(text, READ)) {
                    access.readers.insert(path.clone(), readers);
                }
                if let Some(writers) = stanza.get(ACCESS).and_then(|text| roles_of(text, WRITE)) {
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
        said(&self.readers, kind, name).unwrap_or_else(|| vec![EVERYBODY.to_owned()])
    }

    /// Roles that may change the object of this kind and name; `*` is all.
    pub fn writers(&self, kind: &str, name: &str) -> Vec<String> {
        said(&self.writers, kind, name).unwrap_or_else(|| WRITERS.map(str::to_owned).to_vec())
    }

    /// Whom the object of this kind and name belongs to, if anybody.
    pub fn owner(&self, kind: &str, name: &str) -> Option<&str> {
        self.owners.get(&[kind.to_owned(), name.to_owned()][..]).map(String::as_str)
    }

    /// Whether a user may read the object of this kind and name.
    pub fn may_read(&self, kind: &str, name: &str, user: &Permissions) -> bool {
        self.is_among(self.readers(kind, name), kind, name, user)
    }

    /// Whether a user may change the object of this kind and name.
    pub fn may_write(&self, kind: &str, name: &str, user: &Permissions) -> bool {
        self.is_among(self.writers(kind, name), kind, name, user)
    }

    fn is_among(&self, roles: Vec<String>, kind: &str, name: &str, user: &Permissions) -> bool {
        let may = |role: &String| role == EVERYBODY || user.roles.contains(role);
        user.holds(ADMIN_ALL_OBJECTS) || self.owner(kind, name) == Some(user.user.as_str()) || roles.iter().any(may)
    }
}

/// What the most specific stanza on the way to an object says.
fn said(roles: &BTreeMap<Vec<String>, Vec<String>>, kind: &str, name: &str) -> Option<Vec<String>> {
    let path = [kind.to_owned(), name.to_owned()];
    (0..=path.len()).rev().find_map(|length| roles.get(&path[..length])).cloned()
}

/// The value of `access` for these roles.
pub fn access_text(readers: &[String], writers: &[String]) -> String {
    format!("{READ} : [ {} ], {WRITE} : [ {} ]", readers.join(", "), writers.join(", "))
}

/// The name of an object's stanza in metadata.
pub fn stanza_of(kind: &str, name: &str) -> String {
    format!("{}/{}", encoded(kind), encoded(name))
}

/// The roles behind `word`; `None` where it is not there.
fn roles_of(access: &str, word: &str) -> Option<Vec<String>> {
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
        Permissions::of_user(user, BTreeSet::new(), Vec::new(), Vec::new()).with_roles(roles)
    }

    #[test]
    fn the_most_specific_stanza_says_who_may_write() {
        let default = "[]\naccess = read : [ * ], write : [ admin ]\n[lookups]\naccess = write : [team]\n\
                       [lookups/open.csv]\naccess = read : [ * ], write : [ * ]\n[lookups/own%20one.csv]\nowner = eva\n";
        let access = ObjectAccess::new(default, "[lookups/closed.csv]\naccess = read : [ * ], write : [ ]\n");
        let may = |name: &str, user: &Permissions| access.may_write("lookups", name, user);
        let (eva, tom) = (of("eva", &["user"]), of("tom", &["team"]));
        let admin = Permissions::of_user("a", BTreeSet::from([ADMIN_ALL_OBJECTS.to_owned()]), Vec::new(), Vec::new());
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
    fn administrators_and_power_users_may_write_where_nothing_is_said() {
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
