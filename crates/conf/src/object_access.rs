//! Who may change what an app shares: `access` and `owner` in its `metadata/default.meta` and `local.meta`.
//!
//! `access = read : [ * ], write : [ admin, power ]` names roles. Of the stanzas that name an object the most specific one
//! counts: `[lookups/codes.csv]`, then `[lookups]`, then `[]`. Where none says who may write, the roles `admin` and `power`
//! may, as in the metadata that Splunk's own apps come with. An owner may change what is theirs.
//!
//! Not here: who may read an object, what others see of an app ([`crate::namespace::Sharing`]).

use std::collections::BTreeMap;

use crate::namespace::parts_of;
use crate::permissions::{ADMIN_ALL_OBJECTS, Permissions};
use crate::text::Conf;

/// Setting with the roles.
const ACCESS: &str = "access";
/// What stands before those that may write.
const WRITE: &str = "write";
/// Setting with the owner.
const OWNER: &str = "owner";
/// Stands for all roles.
const EVERYBODY: &str = "*";
/// Roles that may write where nothing is said.
const WRITERS: [&str; 2] = ["admin", "power"];

/// What an app's metadata say of changing its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectAccess {
    /// Roles that may write, by the parts of a stanza's name.
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
                if let Some(writers) = stanza.get(ACCESS).and_then(writers_of) {
                    access.writers.insert(path.clone(), writers);
                }
                if let Some(owner) = stanza.get(OWNER).filter(|_| !path.is_empty()) {
                    access.owners.insert(path, owner.to_owned());
                }
            }
        }
        access
    }

    /// Roles that may change the object of this kind and name; `*` is all.
    pub fn writers(&self, kind: &str, name: &str) -> Vec<String> {
        let path = [kind.to_owned(), name.to_owned()];
        let said = (0..=path.len()).rev().find_map(|length| self.writers.get(&path[..length]));
        said.cloned().unwrap_or_else(|| WRITERS.map(str::to_owned).to_vec())
    }

    /// Whether a user may change the object of this kind and name.
    pub fn may_write(&self, kind: &str, name: &str, user: &Permissions) -> bool {
        let is_owner = || self.owners.get(&[kind.to_owned(), name.to_owned()][..]) == Some(&user.user);
        let may = |role: &String| role == EVERYBODY || user.roles.contains(role);
        user.holds(ADMIN_ALL_OBJECTS) || is_owner() || self.writers(kind, name).iter().any(may)
    }
}

/// The roles behind `write`; `None` where it is not there.
fn writers_of(access: &str) -> Option<Vec<String>> {
    let (_, rest) = access.split_once(WRITE)?;
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
