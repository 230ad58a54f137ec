//! What a user may do, as plain data: the capabilities and indexes that all roles of the user come to.
//!
//! Whoever knows roles (`auth`) makes a [`Permissions`]; a request carries it into the search, where commands and reads
//! of indexes are checked against it. Names of capabilities are texts, because apps may bring their own.
//!
//! Not here: roles and how they are joined, passwords, sessions.

use std::collections::BTreeSet;

/// Runs searches at all.
pub const SEARCH: &str = "search";
/// Writes into and manages indexes that belong to the node, whose names begin with `_`.
pub const INDEXES_EDIT: &str = "indexes_edit";
/// Sees and changes what belongs to other users.
pub const ADMIN_ALL_OBJECTS: &str = "admin_all_objects";
/// Runs programs of apps as commands.
pub const RUN_CUSTOM_COMMAND: &str = "run_custom_command";
/// Lists, makes, changes and removes users; ends their sessions.
pub const EDIT_USER: &str = "edit_user";
/// Changes one's own password.
pub const CHANGE_OWN_PASSWORD: &str = "change_own_password";
/// Sees everybody's authentication tokens.
pub const LIST_TOKENS_ALL: &str = "list_tokens_all";
/// Sees one's own.
pub const LIST_TOKENS_OWN: &str = "list_tokens_own";
/// Makes, switches and removes everybody's authentication tokens.
pub const EDIT_TOKENS_ALL: &str = "edit_tokens_all";
/// Makes, switches and removes one's own.
pub const EDIT_TOKENS_OWN: &str = "edit_tokens_own";
/// Makes, changes and removes roles.
pub const EDIT_ROLES: &str = "edit_roles";

/// Name under which the owner of the data folder searches.
const OWNER: &str = "admin";

/// What one user may do. The default is nobody, who may do nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Name of the user.
    pub user: String,
    /// Names of the user's roles, with those that they import.
    pub roles: BTreeSet<String>,
    /// Capabilities held.
    pub capabilities: BTreeSet<String>,
    /// Patterns of indexes that may be searched (`srchIndexesAllowed`); `*` is not for names that begin with `_`.
    pub allowed_indexes: Vec<String>,
    /// Indexes searched when a search names none (`srchIndexesDefault`).
    pub default_indexes: Vec<String>,
    /// Patterns of indexes in which events may be deleted (`deleteIndexesAllowed`), with the capability for that.
    pub delete_indexes: Vec<String>,
    /// Patterns of indexes that may not be searched, whatever else is allowed (`srchIndexesDisallowed`).
    pub disallowed_indexes: Vec<String>,
    /// Bounds of what searches read and of how many run.
    pub limits: SearchLimits,
    /// Whether this is the owner of the data folder, to whom nothing is refused.
    is_owner: bool,
}

/// What the roles of a user bound searches by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchLimits {
    /// Terms that all events must match (`srchFilter` of the roles, joined).
    pub filter: Option<String>,
    /// Seconds before its end from which a search reads (`srchTimeWin`).
    pub window_s: Option<u64>,
    /// Searches at once (`srchJobsQuota`); `None` is any number.
    pub jobs: Option<usize>,
    /// Bytes that jobs keep on disk (`srchDiskQuota`); `None` is any number.
    pub disk_bytes: Option<u64>,
    /// Seconds after which a search ends with what it has (`srchMaxTime`).
    pub time_s: Option<u64>,
}

impl Permissions {
    /// A user whose roles come to these capabilities, to these indexes, and to these where a search names none.
    pub fn of_user(
        user: &str,
        capabilities: BTreeSet<String>,
        allowed_indexes: Vec<String>,
        default_indexes: Vec<String>,
    ) -> Permissions {
        Permissions { user: user.to_owned(), capabilities, allowed_indexes, default_indexes, ..Permissions::default() }
    }

    /// The same with the names of the roles.
    pub fn with_roles(self, roles: BTreeSet<String>) -> Permissions {
        Permissions { roles, ..self }
    }

    /// The same, whose roles come to these indexes to delete from.
    pub fn deleting_from(self, delete_indexes: Vec<String>) -> Permissions {
        Permissions { delete_indexes, ..self }
    }

    /// The same, who may not search these indexes.
    pub fn not_searching(self, disallowed_indexes: Vec<String>) -> Permissions {
        Permissions { disallowed_indexes, ..self }
    }

    /// The same, whose searches are bounded.
    pub fn with_limits(self, limits: SearchLimits) -> Permissions {
        Permissions { limits, ..self }
    }

    /// Whoever runs the program on the data folder itself, without a server: the file system has let them in.
    pub fn owner() -> Permissions {
        Permissions {
            user: OWNER.to_owned(),
            allowed_indexes: vec!["*".to_owned(), "_*".to_owned()],
            default_indexes: vec!["main".to_owned()],
            delete_indexes: vec!["*".to_owned(), "_*".to_owned()],
            is_owner: true,
            ..Permissions::default()
        }
    }

    /// Whether this is the owner of the data folder.
    pub fn is_owner(&self) -> bool {
        self.is_owner
    }

    /// Whether the user holds a capability.
    pub fn holds(&self, capability: &str) -> bool {
        self.is_owner || self.capabilities.contains(capability)
    }

    /// Whether the user may write into an index of this name.
    pub fn may_write(&self, index: &str) -> bool {
        !index.starts_with('_') || self.holds(INDEXES_EDIT)
    }

    /// Whether the user may see what belongs to `owner`, such as results of searches; `None` is somebody not known.
    pub fn may_see(&self, owner: Option<&str>) -> bool {
        owner == Some(self.user.as_str()) || self.holds(ADMIN_ALL_OBJECTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_may_do_nothing_and_the_owner_everything() {
        let (nobody, owner) = (Permissions::default(), Permissions::owner());
        for capability in [SEARCH, INDEXES_EDIT, "of_some_app"] {
            assert!(!nobody.holds(capability) && owner.holds(capability));
        }
        assert!(nobody.may_write("main") && !nobody.may_write("_audit") && owner.may_write("_audit"));
        assert!(!nobody.may_see(None) && !nobody.may_see(Some("eva")) && owner.may_see(None));
        let eva = Permissions { user: "eva".to_owned(), ..Permissions::default() };
        assert!(eva.may_see(Some("eva")) && !eva.may_see(Some("tom")) && !eva.may_see(None));
    }
}
