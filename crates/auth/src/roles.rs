//! The shipped roles and what the roles of a user come to.
//!
//! Capabilities and indexes of several roles, and of roles that a role imports, are joined; nothing takes one away. A
//! role that nobody knows gives nothing. Names and defaults are Splunk's (authorize.conf). Not here: authorize.conf
//! itself, quotas, search filters.

use std::collections::BTreeSet;

use quarry_conf::Permissions;

use crate::Identity;

/// A role as it is shipped.
#[derive(Debug)]
pub struct Role {
    /// Its name.
    pub name: &'static str,
    /// Roles whose capabilities and indexes it has, too.
    pub imports: &'static [&'static str],
    /// Its own capabilities.
    pub capabilities: &'static [&'static str],
    /// Patterns of indexes that may be searched.
    pub allowed_indexes: &'static [&'static str],
    /// Indexes searched where none is named.
    pub default_indexes: &'static [&'static str],
    /// Patterns of indexes from which events may be deleted.
    pub delete_indexes: &'static [&'static str],
}

/// The shipped roles.
const ROLES: &[Role] = &[
    Role {
        name: "user",
        imports: &[],
        capabilities: &[
            "accelerate_search",
            "change_own_password",
            "edit_search_schedule_window",
            "export_results_is_visible",
            "get_metadata",
            "get_typeahead",
            "input_file",
            "list_inputs",
            "list_metrics_catalog",
            "list_tokens_own",
            "output_file",
            "pattern_detect",
            "request_remote_tok",
            "rest_apps_view",
            "rest_properties_get",
            "rest_properties_set",
            "run_collect",
            "run_custom_command",
            "run_dump",
            "run_mcollect",
            "run_sendalert",
            "search",
            "upload_lookup_files",
        ],
        allowed_indexes: &["*"],
        default_indexes: &["main"],
        delete_indexes: &[],
    },
    Role {
        name: "power",
        imports: &["user"],
        capabilities: &[
            "edit_log_alert_event",
            "edit_messages",
            "edit_sourcetypes",
            "edit_statsd_transforms",
            "embed_report",
            "metric_alerts",
            "rtsearch",
            "run_msearch",
            "schedule_search",
        ],
        allowed_indexes: &["*"],
        default_indexes: &["main"],
        delete_indexes: &[],
    },
    Role {
        name: "admin",
        imports: &["power", "user"],
        capabilities: &[
            "accelerate_datamodel",
            "admin_all_objects",
            "change_authentication",
            "dispatch_rest_to_indexers",
            "edit_forwarders",
            "edit_httpauths",
            "edit_indexer_cluster",
            "edit_local_apps",
            "edit_monitor",
            "edit_roles",
            "edit_scripted",
            "edit_search_head_clustering",
            "edit_search_schedule_priority",
            "edit_search_scheduler",
            "edit_search_server",
            "edit_server",
            "edit_splunktcp",
            "edit_splunktcp_ssl",
            "edit_splunktcp_token",
            "edit_storage_passwords",
            "edit_tcp",
            "edit_token_http",
            "edit_tokens_all",
            "edit_tokens_own",
            "edit_tokens_settings",
            "edit_udp",
            "edit_user",
            "indexes_edit",
            "license_edit",
            "list_forwarders",
            "list_httpauths",
            "list_indexer_cluster",
            "list_introspection",
            "list_search_scheduler",
            "list_settings",
            "list_storage_passwords",
            "list_tokens_all",
            "never_expire",
            "never_lockout",
            "restart_splunkd",
            "run_debug_commands",
            "run_walklex",
            "schedule_rtsearch",
        ],
        allowed_indexes: &["*", "_*"],
        default_indexes: &["main"],
        delete_indexes: &[],
    },
    Role {
        name: "can_delete",
        imports: &[],
        capabilities: &["delete_by_keyword", "schedule_rtsearch"],
        allowed_indexes: &[],
        default_indexes: &[],
        // Not what the node writes of itself: nobody is to delete from the audit trail.
        delete_indexes: &["*"],
    },
];

/// Whether some shipped role has a capability of this name.
pub fn is_capability(name: &str) -> bool {
    ROLES.iter().any(|role| role.capabilities.contains(&name))
}

/// Whether a role of this name is shipped.
pub fn is_role(name: &str) -> bool {
    ROLES.iter().any(|role| role.name == name)
}

/// The shipped roles.
pub fn shipped_roles() -> &'static [Role] {
    ROLES
}

/// Names of the shipped roles.
pub fn role_names() -> impl Iterator<Item = &'static str> {
    ROLES.iter().map(|role| role.name)
}

/// What the roles of a user come to.
pub fn permissions(identity: &Identity) -> Permissions {
    let mut open: Vec<&str> = identity.roles.iter().map(String::as_str).collect();
    let mut seen = BTreeSet::new();
    let (mut capabilities, mut allowed, mut default) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut deleted = BTreeSet::new();
    while let Some(name) = open.pop() {
        let Some(role) = ROLES.iter().find(|role| role.name == name).filter(|_| seen.insert(name)) else { continue };
        open.extend(role.imports);
        let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        capabilities.extend(texts(role.capabilities));
        allowed.extend(texts(role.allowed_indexes));
        default.extend(texts(role.default_indexes));
        deleted.extend(texts(role.delete_indexes));
    }
    let (allowed, default) = (allowed.into_iter().collect(), default.into_iter().collect());
    let roles = seen.into_iter().map(str::to_owned).collect();
    Permissions::of_user(&identity.user, capabilities, allowed, default)
        .deleting_from(deleted.into_iter().collect())
        .with_roles(roles)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(roles: &[&str]) -> Permissions {
        let roles = roles.iter().map(|role| (*role).to_owned()).collect();
        permissions(&Identity { user: "eva".to_owned(), roles, is_console: false })
    }

    #[test]
    fn roles_are_joined_with_those_they_import() {
        let (none, user, power, admin) = (of(&[]), of(&["user"]), of(&["power"]), of(&["admin"]));
        assert_eq!(none, Permissions::of_user("eva", BTreeSet::new(), Vec::new(), Vec::new()));
        assert_eq!(of(&["nobody_knows"]), none);
        assert!(power.roles.iter().eq(["power", "user"]) && none.roles.is_empty());
        assert!(user.holds("run_collect") && !user.holds("rtsearch") && !user.holds("admin_all_objects"));
        assert!(user.capabilities.is_subset(&power.capabilities) && power.holds("rtsearch"));
        assert!(power.capabilities.is_subset(&admin.capabilities) && admin.holds("edit_token_http"));
        assert_eq!((user.allowed_indexes, power.allowed_indexes), (vec!["*".to_owned()], vec!["*".to_owned()]));
        assert_eq!(admin.allowed_indexes, ["*", "_*"]);
        assert_eq!(admin.default_indexes, ["main"]);
        // Deleting is nobody's by default, not even an administrator's.
        assert!(!admin.holds("delete_by_keyword") && of(&["admin", "can_delete"]).holds("delete_by_keyword"));
        assert!(!of(&["can_delete"]).holds("search"));
        assert_eq!(
            (admin.delete_indexes.len(), of(&["admin", "can_delete"]).delete_indexes),
            (0, vec!["*".to_owned()])
        );
    }

    #[test]
    fn names_are_known() {
        for role in ROLES {
            assert!(is_role(role.name) && role.imports.iter().all(|name| is_role(name)), "{}", role.name);
        }
        assert!(is_capability("delete_by_keyword") && !is_capability("fly"));
    }
}
