//! authorize.conf: roles, with their capabilities, indexes and limits.
//!
//! A role is the stanza `[role_NAME]`; the roles that Splunk ships are in the built-in file. A role has each capability
//! whose setting is `enabled`. Not here: combining the roles of a user (`auth`).

use std::collections::BTreeSet;

use crate::layers::Layers;
use crate::table::{ConfTable, Kind, Row, Section, StanzaName, at_least, boolean, count, row, text};
use crate::text::DEFAULT_STANZA;
use crate::values::Values;

/// Base name of authorize.conf.
pub const AUTHORIZE_CONF: &str = "authorize";
/// Prefix of a role's stanza.
pub const ROLE_PREFIX: &str = "role_";
/// Prefix of a stanza in which an app defines a capability.
const CAPABILITY_PREFIX: &str = "capability::";
/// Stanza of authentication tokens.
const TOKENS: &str = "tokens_auth";
/// Value of a granted capability.
pub const ENABLED: &str = "enabled";
/// Value of a capability that is not granted.
pub const DISABLED: &str = "disabled";
/// Default number of concurrent searches per user of a role, as in Splunk.
const JOBS_QUOTA: &str = "3";
/// Default number of concurrent real-time searches per user of a role, as in Splunk.
const REAL_TIME_QUOTA: &str = "6";
/// Default megabytes of jobs per user of a role, as in Splunk.
const DISK_QUOTA: &str = "100";
/// Default maximum duration of a search by a user of a role, as in Splunk.
const MAX_TIME: &str = "100days";

/// Settings of authorize.conf.
pub static AUTHORIZE: ConfTable = ConfTable {
    conf: AUTHORIZE_CONF,
    sections: &[
        Section { stanza: StanzaName::Prefix(ROLE_PREFIX), rows: ROLE_ROWS },
        Section { stanza: StanzaName::Prefix(CAPABILITY_PREFIX), rows: &[] },
        Section { stanza: StanzaName::Named(TOKENS), rows: TOKEN_ROWS },
    ],
    unsupported: &["cumulativeSrchJobsQuota", "fieldFilter-", "srchTimeEarliest"],
    unused: &["cumulativeRTSrchJobsQuota", "defaultApp", "ephemeralExpiration", "federatedProviders"],
};

const ROLE_ROWS: &[Row] = &[
    text("importRoles", "roles whose capabilities, indexes and limits are inherited, separated by `;`"),
    text("srchIndexesAllowed", "patterns of indexes that may be searched"),
    text("srchIndexesDefault", "indexes searched when a search names none"),
    text(
        "srchIndexesDisallowed",
        "patterns of indexes that may not be searched, even if other settings or roles allow them",
    ),
    text("deleteIndexesAllowed", "patterns of indexes from which events may be deleted"),
    text("srchFilter", "terms that all events of its users' searches must match"),
    boolean("srchFilterSelecting", "true", "whether filters of several roles are combined by OR rather than AND"),
    text("grantableRoles", "roles that its users may grant to others; empty: not restricted by this setting"),
    count(
        "rtSrchJobsQuota",
        REAL_TIME_QUOTA,
        "real-time searches",
        "maximum concurrent real-time searches of a user; 0: unlimited",
    ),
    count("srchDiskQuota", DISK_QUOTA, "MB", "maximum size of a user's jobs on disk; 0: unlimited"),
    row(
        "srchMaxTime",
        Kind::Text,
        MAX_TIME,
        "",
        "maximum run time of a search, which then ends with its results so far; 0: unlimited",
    ),
    count("srchJobsQuota", JOBS_QUOTA, "searches", "maximum concurrent searches of a user; 0: unlimited"),
    row(
        "srchTimeWin",
        at_least(-1),
        "-1",
        "seconds",
        "maximum time range of a search, back from its end; 0: unlimited, whatever other roles set; -1: not set",
    ),
    row("*", Kind::Choice(&[ENABLED, DISABLED]), DISABLED, "", "a capability"),
];

const TOKEN_ROWS: &[Row] = &[
    boolean("disabled", "false", "whether authentication tokens are refused"),
    row("expiration", Kind::Text, "+30d", "", "default lifetime of a token: a relative time, or never"),
];

/// A role as configured; settings of imported roles are not merged in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleSettings {
    /// Name of the role, without the prefix of its stanza.
    pub name: String,
    /// Roles whose capabilities, indexes and limits the role inherits.
    pub imports: Vec<String>,
    /// The role's own capabilities.
    pub capabilities: BTreeSet<String>,
    /// Patterns of indexes that may be searched.
    pub allowed_indexes: Vec<String>,
    /// Indexes searched when a search names none.
    pub default_indexes: Vec<String>,
    /// Patterns of indexes that may not be searched.
    pub disallowed_indexes: Vec<String>,
    /// Patterns of indexes from which events may be deleted.
    pub delete_indexes: Vec<String>,
    /// Terms that events must match; empty for none.
    pub search_filter: String,
    /// Whether the filter is combined with the filters of other roles by OR.
    pub filter_selects: bool,
    /// Maximum number of concurrent searches of a user; 0 is unlimited.
    pub jobs_quota: usize,
    /// Maximum concurrent real-time searches of a user; 0 is unlimited.
    pub real_time_quota: usize,
    /// Maximum length of a search's time range in seconds, counted back from its end; 0 is unlimited, -1 is not set.
    pub time_window_s: i64,
    /// Maximum megabytes of a user's jobs on disk; 0 is unlimited.
    pub disk_quota_mb: usize,
    /// Seconds after which a search ends with its results so far; 0 means never.
    pub time_max_s: u64,
    /// Roles that users of the role may grant to others; empty if not set.
    pub grantable: Vec<String>,
    /// Maximum number of concurrent searches of all users of the role (not enforced); 0 is unlimited.
    pub cumulative_quota: usize,
    /// Maximum concurrent real-time searches of all users of the role (not enforced); 0 is unlimited.
    pub cumulative_real_time_quota: usize,
    /// App that users of the role see first (without effect here); empty if not set.
    pub default_app: String,
}

/// The roles of a node in file order, shipped roles first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    roles: Vec<RoleSettings>,
    /// Capabilities that a role or app defines.
    capabilities: BTreeSet<String>,
    tokens_disabled: bool,
    token_expiration: String,
}

impl Roles {
    /// Reads authorize.conf.
    pub fn new(layers: &Layers) -> Roles {
        let conf = layers.conf(AUTHORIZE_CONF);
        let named = conf.stanzas().iter().filter(|stanza| stanza.name != DEFAULT_STANZA);
        let tokens = Values::for_stanza(TOKEN_ROWS, conf, TOKENS);
        let (tokens_disabled, token_expiration) = (tokens.bool("disabled"), tokens.owned("expiration"));
        let mut roles = Roles { tokens_disabled, token_expiration, ..Roles::default() };
        for stanza in named {
            if let Some(capability) = stanza.name.strip_prefix(CAPABILITY_PREFIX) {
                roles.capabilities.insert(capability.to_owned());
            }
            let Some(name) = stanza.name.strip_prefix(ROLE_PREFIX).filter(|name| !name.is_empty()) else { continue };
            let settings = conf.effective(&stanza.name);
            let is_setting = |key: &str| ROLE_ROWS.iter().any(|row| row.name == key) || AUTHORIZE.unused.contains(&key);
            let of_roles = settings.iter().filter(|(key, setting)| !is_setting(key) && is_word(&setting.value));
            roles.capabilities.extend(of_roles.clone().map(|(key, _)| (*key).to_owned()));
            let held = of_roles.filter(|(_, setting)| setting.value.eq_ignore_ascii_case(ENABLED));
            let values = Values::for_stanza(ROLE_ROWS, conf, &stanza.name);
            let list = |key: &str| parse_list(values.text(key));
            // Settings without effect have no row.
            let unused = |key: &str| settings.get(key).map_or("", |setting| setting.value.as_str());
            roles.roles.push(RoleSettings {
                name: name.to_owned(),
                imports: list("importRoles"),
                capabilities: held.map(|(key, _)| (*key).to_owned()).collect(),
                allowed_indexes: list("srchIndexesAllowed"),
                default_indexes: list("srchIndexesDefault"),
                disallowed_indexes: list("srchIndexesDisallowed"),
                delete_indexes: list("deleteIndexesAllowed"),
                search_filter: values.owned("srchFilter").trim().to_owned(),
                filter_selects: values.bool("srchFilterSelecting"),
                jobs_quota: values.size("srchJobsQuota"),
                real_time_quota: values.size("rtSrchJobsQuota"),
                time_window_s: values.integer("srchTimeWin"),
                disk_quota_mb: values.size("srchDiskQuota"),
                time_max_s: values.read("srchMaxTime", span_seconds).unwrap_or(0),
                grantable: list("grantableRoles"),
                cumulative_quota: unused("cumulativeSrchJobsQuota").trim().parse().unwrap_or(0),
                cumulative_real_time_quota: unused("cumulativeRTSrchJobsQuota").trim().parse().unwrap_or(0),
                default_app: unused("defaultApp").to_owned(),
            });
        }
        roles
    }

    /// The shipped roles alone.
    pub fn built_in() -> Roles {
        Roles::new(&Layers::new([]))
    }

    /// Iterates over the roles in file order.
    pub fn iter(&self) -> impl Iterator<Item = &RoleSettings> {
        self.roles.iter()
    }

    /// Role by name, ignoring case, as in Splunk. If several names differ only in case, the exact name wins.
    pub fn get(&self, name: &str) -> Option<&RoleSettings> {
        let exact = self.roles.iter().find(|role| role.name == name);
        exact.or_else(|| {
            let name = name.to_lowercase();
            self.roles.iter().find(|role| role.name.to_lowercase() == name)
        })
    }

    /// Names of all roles, for messages.
    pub fn names(&self) -> String {
        self.roles.iter().map(|role| role.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Whether authentication tokens are refused.
    pub fn are_tokens_disabled(&self) -> bool {
        self.tokens_disabled
    }

    /// Default lifetime of an authentication token.
    pub fn token_expiration(&self) -> &str {
        &self.token_expiration
    }

    /// All known capabilities.
    pub fn capabilities(&self) -> &BTreeSet<String> {
        &self.capabilities
    }
}

fn is_word(value: &str) -> bool {
    [ENABLED, DISABLED].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Seconds of a duration such as `2h` or `100days`; a number without a unit is in seconds.
pub fn span_seconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()));
    let seconds = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1,
        "m" | "min" | "mins" | "minute" | "minutes" => 60,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600,
        "d" | "day" | "days" => 86_400,
        "w" | "week" | "weeks" => 604_800,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(seconds)
}

/// The items of a list, separated by `;` or `,`.
fn parse_list(text: &str) -> Vec<String> {
    text.split([';', ',']).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::tests::local;

    #[test]
    fn files_change_and_add_to_the_built_in_roles() {
        let shipped = Roles::built_in();
        assert_eq!(shipped.names(), "user, power, admin, can_delete");
        let user = shipped.get("user").unwrap();
        assert_eq!((user.jobs_quota, user.time_window_s, user.filter_selects), (3, -1, true));
        assert_eq!((user.disk_quota_mb, user.time_max_s), (100, 8_640_000));
        assert_eq!(["power", "admin"].map(|name| shipped.get(name).unwrap().disk_quota_mb), [500, 10_000]);
        assert_eq!(
            ["90", "2 hours", "1w", "2x", "h"].map(span_seconds),
            [Some(90), Some(7_200), Some(604_800), None, None]
        );
        assert!(user.capabilities.contains("search") && !shipped.get("power").unwrap().capabilities.contains("search"));
        assert_eq!(shipped.get("admin").unwrap().imports, ["power", "user"]);
        let text = "[role_user]\nrtsearch = enabled\nrun_dump = disabled\n[role_team]\nimportRoles = user;power\n\
                    srchIndexesAllowed = web;db*\nsrchFilter = host=web*\nsrchJobsQuota = 7\nsrchTimeWin = 3600\n\
                    fly = enabled\n[capability::of_app]\n";
        let layers = Layers::new([local("authorize", text)]);
        assert!(layers.warnings().is_empty(), "{:?}", layers.warnings());
        let roles = Roles::new(&layers);
        let user = roles.get("user").unwrap();
        assert!(user.capabilities.contains("rtsearch") && !user.capabilities.contains("run_dump"));
        let team = roles.get("team").unwrap();
        assert_eq!(
            (team.imports.len(), team.allowed_indexes.as_slice()),
            (2, ["web".to_owned(), "db*".to_owned()].as_slice())
        );
        assert_eq!((team.search_filter.as_str(), team.jobs_quota, team.time_window_s), ("host=web*", 7, 3_600));
        let found = |name: &str| roles.get(name).map(|role| role.name.clone());
        assert_eq!(["Team", "TEAM", "teams"].map(found), [Some("team".to_owned()), Some("team".to_owned()), None]);
        for name in ["fly", "of_app", "run_dump", "admin_all_objects"] {
            assert!(roles.capabilities().contains(name), "{name}");
        }
        assert!(!roles.capabilities().contains("srchFilter") && roles.get("nobody").is_none());
    }
}
