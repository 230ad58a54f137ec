//! The permissions of a user as plain data: the combined capabilities and indexes of the user's roles.
//!
//! `auth` computes a [`Permissions`] from the roles. A request passes the permissions to its search, and the search
//! checks its commands and the indexes that it reads. Capabilities are strings, because apps may define their own.
//!
//! Not here: roles and how they are combined, passwords, sessions.

use std::collections::BTreeSet;

/// Allows running searches.
pub const SEARCH: &str = "search";
/// Allows managing indexes and their buckets, and writing to internal indexes, whose names begin with `_`.
pub const INDEXES_EDIT: &str = "indexes_edit";
/// Allows seeing and changing other users' objects.
pub const ADMIN_ALL_OBJECTS: &str = "admin_all_objects";
/// Allows listing, creating, changing and removing users, and ending their sessions.
pub const EDIT_USER: &str = "edit_user";
/// Allows changing one's own password.
pub const CHANGE_OWN_PASSWORD: &str = "change_own_password";
/// Allows listing everybody's authentication tokens.
pub const LIST_TOKENS_ALL: &str = "list_tokens_all";
/// Allows listing one's own authentication tokens.
pub const LIST_TOKENS_OWN: &str = "list_tokens_own";
/// Allows creating, switching on or off, and removing everybody's authentication tokens.
pub const EDIT_TOKENS_ALL: &str = "edit_tokens_all";
/// Allows creating, switching on or off, and removing one's own authentication tokens.
pub const EDIT_TOKENS_OWN: &str = "edit_tokens_own";
/// Allows creating, changing and removing roles.
pub const EDIT_ROLES: &str = "edit_roles";

/// User name of the data directory's owner in searches.
const OWNER: &str = "admin";

/// The permissions of one user. The default value grants no permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Name of the user.
    pub user: String,
    /// The user's roles, including imported roles.
    pub roles: BTreeSet<String>,
    /// Capabilities held.
    pub capabilities: BTreeSet<String>,
    /// Patterns of indexes that may be searched (`srchIndexesAllowed`); `*` does not match names that begin with `_`.
    pub allowed_indexes: Vec<String>,
    /// Indexes searched when a search names none (`srchIndexesDefault`).
    pub default_indexes: Vec<String>,
    /// Patterns of indexes in which events may be deleted (`deleteIndexesAllowed`), given the capability to delete.
    pub delete_indexes: Vec<String>,
    /// Patterns of indexes that may not be searched, whatever the other patterns allow (`srchIndexesDisallowed`).
    pub disallowed_indexes: Vec<String>,
    /// Limits on the user's searches.
    pub limits: SearchLimits,
    /// Whether the user is the owner of the data directory, who may do everything.
    is_owner: bool,
}

/// The limits that a user's roles put on searches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchLimits {
    /// Terms that all events must match (the roles' `srchFilter` settings, combined).
    pub filter: Option<String>,
    /// Maximum length of a search's time range in seconds, counted back from its end (`srchTimeWin`).
    pub window_s: Option<u64>,
    /// Maximum number of concurrent searches (`srchJobsQuota`); `None` is unlimited.
    pub jobs: Option<usize>,
    /// Maximum concurrent real-time searches (`rtSrchJobsQuota`); `None` is unlimited.
    pub real_time_jobs: Option<usize>,
    /// Maximum bytes of the user's jobs on disk (`srchDiskQuota`); `None` is unlimited.
    pub disk_bytes: Option<u64>,
    /// Seconds after which a search ends with its results so far (`srchMaxTime`).
    pub time_s: Option<u64>,
}

impl Permissions {
    /// A user with these capabilities, these allowed indexes, and these default indexes.
    pub fn for_user(
        user: &str,
        capabilities: BTreeSet<String>,
        allowed_indexes: Vec<String>,
        default_indexes: Vec<String>,
    ) -> Permissions {
        Permissions { user: user.to_owned(), capabilities, allowed_indexes, default_indexes, ..Permissions::default() }
    }

    /// Sets the names of the roles.
    pub fn with_roles(self, roles: BTreeSet<String>) -> Permissions {
        Permissions { roles, ..self }
    }

    /// Sets the indexes in which the user may delete events.
    pub fn with_delete_indexes(self, delete_indexes: Vec<String>) -> Permissions {
        Permissions { delete_indexes, ..self }
    }

    /// Sets the indexes that the user may not search.
    pub fn with_disallowed_indexes(self, disallowed_indexes: Vec<String>) -> Permissions {
        Permissions { disallowed_indexes, ..self }
    }

    /// Sets the limits on searches.
    pub fn with_limits(self, limits: SearchLimits) -> Permissions {
        Permissions { limits, ..self }
    }

    /// The user who runs the program on the data directory directly, without a server: file permissions grant access.
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

    /// Whether the user is the owner of the data directory.
    pub fn is_owner(&self) -> bool {
        self.is_owner
    }

    /// Whether the user holds a capability.
    pub fn has_capability(&self, capability: &str) -> bool {
        self.is_owner || self.capabilities.contains(capability)
    }

    /// Whether the user may write to an index of this name.
    pub fn may_write(&self, index: &str) -> bool {
        !index.starts_with('_') || self.has_capability(INDEXES_EDIT)
    }

    /// Whether the user may see objects of `owner`, such as search results; `None` is an unknown owner.
    pub fn may_see(&self, owner: Option<&str>) -> bool {
        owner == Some(self.user.as_str()) || self.has_capability(ADMIN_ALL_OBJECTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_user_has_no_permissions_and_the_owner_all() {
        let (nobody, owner) = (Permissions::default(), Permissions::owner());
        for capability in [SEARCH, INDEXES_EDIT, "of_some_app"] {
            assert!(!nobody.has_capability(capability) && owner.has_capability(capability));
        }
        assert!(nobody.may_write("main") && !nobody.may_write("_audit") && owner.may_write("_audit"));
        assert!(!nobody.may_see(None) && !nobody.may_see(Some("eva")) && owner.may_see(None));
        let eva = Permissions { user: "eva".to_owned(), ..Permissions::default() };
        assert!(eva.may_see(Some("eva")) && !eva.may_see(Some("tom")) && !eva.may_see(None));
    }
}
