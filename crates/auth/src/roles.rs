//! The effective permissions of a user's roles.
//!
//! A user has the capabilities and indexes of all roles, including imported roles, except the indexes in
//! `srchIndexesDisallowed`. If roles have different limits, the most generous limit applies. Filters are joined by OR;
//! filters of roles with `srchFilterSelecting = false` are joined by AND. An unknown role grants nothing. The rules are
//! those of Splunk's authorize.conf. Not here: parsing authorize.conf ([`Roles`]).

use std::collections::BTreeSet;

use quarry_conf::permissions::{EDIT_ROLES, SearchLimits};
use quarry_conf::{Permissions, RoleSettings, Roles};

use crate::Identity;
use crate::users::known_names;

/// A filter that matches everything, and thus cancels all filters joined with it by OR.
const MATCH_ALL: &str = "*";

/// The effective permissions of a user.
pub fn permissions(known: &Roles, identity: &Identity) -> Permissions {
    let roles = with_imports(known, &identity.roles);
    let joined = |of: fn(&RoleSettings) -> &Vec<String>| -> Vec<String> {
        let all: BTreeSet<&String> = roles.iter().flat_map(|role| of(role)).collect();
        all.into_iter().cloned().collect()
    };
    let capabilities = roles.iter().flat_map(|role| role.capabilities.iter().cloned()).collect();
    let (allowed, default) = (joined(|role| &role.allowed_indexes), joined(|role| &role.default_indexes));
    let most = |of: fn(&RoleSettings) -> u64| -> Option<u64> {
        // 0 means unlimited. Without a known role there is no limit.
        if roles.iter().any(|role| of(role) == 0) { None } else { roles.iter().map(|role| of(role)).max() }
    };
    let jobs = |quota: Option<u64>| quota.map(|quota| usize::try_from(quota).unwrap_or(usize::MAX));
    let limits = SearchLimits {
        filter: combined_filter(&roles),
        window_s: longest_window(&roles),
        jobs: jobs(most(|role| role.jobs_quota as u64)),
        real_time_jobs: jobs(most(|role| role.real_time_quota as u64)),
        disk_bytes: most(|role| role.disk_quota_mb as u64).map(|megabytes| megabytes.saturating_mul(1 << 20)),
        time_s: most(|role| role.time_max_s),
    };
    Permissions::for_user(&identity.user, capabilities, allowed, default)
        .with_disallowed_indexes(joined(|role| &role.disallowed_indexes))
        .with_delete_indexes(joined(|role| &role.delete_indexes))
        .with_roles(roles.iter().map(|role| role.name.clone()).collect())
        .with_limits(limits)
}

/// The named roles and the roles that they import, each once.
fn with_imports<'r>(known: &'r Roles, names: &'r [String]) -> Vec<&'r RoleSettings> {
    let mut open: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut found: Vec<&RoleSettings> = Vec::new();
    while let Some(name) = open.pop() {
        let Some(role) = known.get(name).filter(|role| !found.iter().any(|other| other.name == role.name)) else {
            continue;
        };
        open.extend(role.imports.iter().map(String::as_str));
        found.push(role);
    }
    found
}

/// The combined filter of all roles.
fn combined_filter(roles: &[&RoleSettings]) -> Option<String> {
    let of = |selects: bool| {
        let filters = roles.iter().filter(move |role| role.filter_selects == selects && !role.search_filter.is_empty());
        filters.map(|role| role.search_filter.as_str()).collect::<BTreeSet<_>>()
    };
    let in_brackets = |filter: &str| format!("({filter})");
    let selecting = of(true);
    let any = match selecting.contains(MATCH_ALL) {
        true => None,
        false => {
            Some(selecting.into_iter().map(in_brackets).collect::<Vec<_>>().join(" OR ")).filter(|any| !any.is_empty())
        }
    };
    let all = of(false).into_iter().filter(|filter| *filter != MATCH_ALL).map(in_brackets);
    let parts: Vec<String> = any.map(|any| in_brackets(&any)).into_iter().chain(all).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// The longest time window; `None` if one role is unlimited or no role sets one.
fn longest_window(roles: &[&RoleSettings]) -> Option<u64> {
    if roles.iter().any(|role| role.time_window_s == 0) {
        return None;
    }
    roles.iter().filter_map(|role| u64::try_from(role.time_window_s).ok()).max()
}

/// The roles that a user may grant; `None` means all. Not enforced for users who may edit roles.
pub fn grantable_roles(known: &Roles, identity: &Identity) -> Option<BTreeSet<String>> {
    let roles = with_imports(known, &identity.roles);
    let is_bound = roles.iter().any(|role| !role.grantable.is_empty())
        && !roles.iter().any(|role| role.capabilities.contains(EDIT_ROLES));
    is_bound.then(|| roles.iter().flat_map(|role| known_names(&role.grantable, known)).collect())
}

#[cfg(test)]
mod tests {
    use quarry_conf::Layers;
    use quarry_conf::layers::{ConfSource, Layer};

    use super::*;

    fn of_known(known: &Roles, roles: &[&str]) -> Permissions {
        let roles = roles.iter().map(|role| (*role).to_owned()).collect();
        permissions(known, &Identity { user: "eva".to_owned(), roles, is_console: false })
    }

    fn of(roles: &[&str]) -> Permissions {
        of_known(&Roles::built_in(), roles)
    }

    #[test]
    fn roles_include_their_imports() {
        let (none, user, power, admin) = (of(&[]), of(&["user"]), of(&["power"]), of(&["admin"]));
        assert_eq!(none, Permissions::for_user("eva", BTreeSet::new(), Vec::new(), Vec::new()));
        assert_eq!(of(&["nobody_knows"]), none);
        assert!(power.roles.iter().eq(["power", "user"]) && none.roles.is_empty());
        assert!(
            user.has_capability("run_collect")
                && !user.has_capability("rtsearch")
                && !user.has_capability("admin_all_objects")
        );
        assert!(user.capabilities.is_subset(&power.capabilities) && power.has_capability("rtsearch"));
        assert!(power.capabilities.is_subset(&admin.capabilities) && admin.has_capability("edit_token_http"));
        assert_eq!([&user, &power, &admin].map(|who| who.limits.jobs), [Some(3), Some(10), Some(50)]);
        assert_eq!([&user, &power, &admin].map(|who| who.limits.real_time_jobs), [Some(6), Some(20), Some(100)]);
        assert_eq!((user.allowed_indexes, power.allowed_indexes), (vec!["*".to_owned()], vec!["*".to_owned()]));
        assert_eq!(admin.allowed_indexes, ["*", "_*"]);
        assert_eq!(admin.default_indexes, ["main"]);
        // By default no role may delete events, not even the administrators' role.
        assert!(
            !admin.has_capability("delete_by_keyword")
                && of(&["admin", "can_delete"]).has_capability("delete_by_keyword")
        );
        assert!(!of(&["can_delete"]).has_capability("search"));
        assert_eq!(
            (admin.delete_indexes.len(), of(&["admin", "can_delete"]).delete_indexes),
            (0, vec!["*".to_owned()])
        );
    }

    #[test]
    fn the_most_generous_limit_applies_and_filters_are_combined() {
        let text = "[role_web]\nimportRoles = loop\nsrchFilter = host=web*\nsrchTimeWin = 60\nsrchJobsQuota = 1\n\
                    [role_db]\nsrchFilter = host=db*\nsrchTimeWin = 3600\nsrchJobsQuota = 2\nsrchIndexesDisallowed = secret\n\
                    [role_narrow]\nsrchFilter = NOT card\nsrchFilterSelecting = false\n\
                    [role_all]\nsrchFilter = *\nsrchTimeWin = 0\nsrchJobsQuota = 0\nsrchDiskQuota = 0\nsrchMaxTime = 2h\n[role_loop]\nimportRoles = web\nsrchJobsQuota = 1\n\
                    [role_slow]\nsrchMaxTime = 0\n";
        let (layer, file) = (Layer::SystemLocal, "etc/system/local/authorize.conf".to_owned());
        let known = Roles::new(&Layers::new([ConfSource { layer, app: None, file, text: text.to_owned() }]));
        let limits = |roles: &[&str]| of_known(&known, roles).limits;
        let filter = |roles: &[&str]| limits(roles).filter.unwrap_or_default();
        assert_eq!(filter(&["web"]), "((host=web*))");
        assert_eq!(filter(&["web", "db"]), "((host=db*) OR (host=web*))");
        assert_eq!(filter(&["web", "narrow"]), "((host=web*)) (NOT card)");
        assert_eq!((filter(&["web", "all"]), filter(&["narrow", "all"])), (String::new(), "(NOT card)".to_owned()));
        assert_eq!((limits(&["web"]).window_s, limits(&["web", "db"]).window_s), (Some(60), Some(3_600)));
        assert_eq!((limits(&["web", "all"]).window_s, limits(&["narrow"]).window_s), (None, None));
        assert_eq!(
            (limits(&["web"]).jobs, limits(&["web", "db"]).jobs, limits(&["all"]).jobs),
            (Some(1), Some(2), None)
        );
        assert_eq!((limits(&["web"]).disk_bytes, limits(&["all"]).disk_bytes), (Some(100 << 20), None));
        assert_eq!((limits(&["all"]).time_s, limits(&["web", "all"]).time_s), (Some(7_200), Some(8_640_000)));
        assert_eq!((limits(&["slow"]).time_s, limits(&["web", "slow"]).time_s), (None, None));
        assert_eq!(of_known(&known, &["web", "db"]).disallowed_indexes, ["secret"]);
    }

    #[test]
    fn grantable_roles_apply_unless_the_user_may_edit_roles() {
        let text =
            "[role_desk]\nedit_user = enabled\ngrantableRoles = user;power\n[role_more]\ngrantableRoles = team\n";
        let (layer, file) = (Layer::SystemLocal, "etc/system/local/authorize.conf".to_owned());
        let known = Roles::new(&Layers::new([ConfSource { layer, app: None, file, text: text.to_owned() }]));
        let of = |roles: &[&str]| {
            let roles = roles.iter().map(|role| (*role).to_owned()).collect();
            let grantable = grantable_roles(&known, &Identity { user: "eva".to_owned(), roles, is_console: false });
            grantable.map(|roles| roles.into_iter().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(
            (of(&["desk"]).as_deref(), of(&["desk", "more"]).as_deref()),
            (Some("power user"), Some("power team user"))
        );
        assert_eq!((of(&["user"]), of(&["admin"]), of(&["desk", "admin"])), (None, None, None));
    }
}
