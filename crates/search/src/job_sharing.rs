//! Permissions of a job: its readers and writers besides its user and administrators.
//!
//! The rows of a job were found with the permissions of its user; whoever may read the job sees all of these rows. Not
//! here: changes of a job ([`crate::jobs`]).

use quarry_conf::Permissions;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Stands for all users in the permissions of a job.
pub const EVERYONE: &str = "*";

/// Readers and writers of a job besides its user and administrators: names of roles and users, or [`EVERYONE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSharing {
    /// Roles and users that may read the job and its rows.
    pub readers: Vec<String>,
    /// Roles and users that may also control and remove the job.
    pub writers: Vec<String>,
}

impl JobSharing {
    fn includes(names: &[String], viewer: &Permissions) -> bool {
        names.iter().any(|name| name == EVERYONE || *name == viewer.user || viewer.roles.contains(name))
    }

    /// Whether a viewer may read the job. Whoever may change it may also read it.
    pub(crate) fn permits_reading(&self, viewer: &Permissions) -> bool {
        JobSharing::includes(&self.readers, viewer) || self.permits_changes(viewer)
    }

    /// Whether a viewer may control and remove the job.
    pub fn permits_changes(&self, viewer: &Permissions) -> bool {
        JobSharing::includes(&self.writers, viewer)
    }
}

/// Whether a viewer may read the stored job of `user` with the record `record`.
pub(crate) fn is_readable(user: Option<&str>, record: &Value, viewer: &Permissions) -> bool {
    let sharing = || serde_json::from_value::<JobSharing>(record["sharing"].clone()).unwrap_or_default();
    viewer.may_see(user) || sharing().permits_reading(viewer)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    fn viewer(user: &str, roles: &[&str]) -> Permissions {
        let roles = roles.iter().map(|role| (*role).to_owned()).collect();
        Permissions::for_user(user, BTreeSet::new(), Vec::new(), Vec::new()).with_roles(roles)
    }

    #[test]
    fn sharing_names_roles_users_or_everyone() {
        let of = |readers: &[&str], writers: &[&str]| {
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            JobSharing { readers: names(readers), writers: names(writers) }
        };
        let tom = viewer("tom", &["power"]);
        for (sharing, reads, writes) in [
            (of(&[], &[]), false, false),
            (of(&["power"], &[]), true, false),
            (of(&["tom"], &["eva"]), true, false),
            (of(&["user"], &[]), false, false),
            (of(&[EVERYONE], &[]), true, false),
            (of(&[], &["power"]), true, true),
        ] {
            assert_eq!((sharing.permits_reading(&tom), sharing.permits_changes(&tom)), (reads, writes), "{sharing:?}");
            let record = json!({ "sharing": sharing });
            assert_eq!(is_readable(Some("eva"), &record, &tom), reads);
        }
        assert!(!is_readable(Some("eva"), &json!({}), &tom) && is_readable(Some("tom"), &json!({}), &tom));
    }
}
