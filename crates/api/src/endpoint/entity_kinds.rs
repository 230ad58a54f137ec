//! Kinds of knowledge objects: for each collection its path, the conf whose stanzas are its entities, and the settings
//! that an entity may have.
//!
//! Not here: requests of these collections ([`super::entities`]).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use quarry_apps::objects::{ConfObject, NOBODY, ObjectError, ObjectLocation, ObjectSharing};
use quarry_auth::ADMIN_ROLE;
use quarry_conf::Permissions;
use quarry_conf::permissions::ADMIN_ALL_OBJECTS;
use quarry_conf::text::DEFAULT_STANZA;
use quarry_engine::check_regex;
use quarry_event::time::Cron;

use super::search_schedules::RequestedTimes;
use super::setting_capabilities::{BANNER_CONF, BOOKMARK, METRIC_ALERTS_CONF, METRIC_SCHEMA, STATSD_DIMENSIONS};
use super::{saved_search_defaults, saved_searches};
use crate::ApiState;
use crate::atom::Fields;
use crate::message::ApiError;

/// A collection of stanzas, as a row of the table.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// Path of the collection after the root.
    pub(super) path: Cow<'static, str>,
    /// Title of the collection in Atom feeds.
    pub(super) title: Cow<'static, str>,
    /// The conf whose stanzas are the entities.
    pub(super) conf: Cow<'static, str>,
    /// Parameters of an entity; other parameters are refused.
    pub(super) fields: Fields,
    /// Whether the request names the conf, so that an unknown conf is answered with 404.
    pub(super) is_by_name: bool,
    /// Whether a stanza is an entity of the collection.
    pub(super) is_entity: fn(&ConfObject) -> bool,
    /// The supported subset of [`VERBS`].
    pub(super) verbs: &'static [&'static str],
    /// Further actions of an entity, as links.
    pub(super) more: &'static [&'static str],
    /// Prefix of the stanzas' names. Requests may omit it.
    pub(super) prefix: Cow<'static, str>,
    /// Whether answers name the entities with the prefix, as Splunk does in some collections.
    pub(super) is_prefix_shown: bool,
    /// Name and stanza of the entity, in a collection that has exactly one entity. The entity exists even without a
    /// stanza.
    pub(super) only: Option<(&'static str, &'static str)>,
    /// Whether the stanzas belong to the node, whatever the namespace of a request.
    pub(super) is_of_node: bool,
    /// Further parameters of an entity, known only at run time.
    pub(super) more_fields: Arc<[String]>,
    /// Host of events whose input sets no host; empty in collections without inputs.
    pub(super) input_host: Arc<str>,
    /// Name of the node; empty in collections other than the stanzas of server.conf.
    pub(super) node_name: Arc<str>,
    /// The times that a request asks for; `None` in collections without schedules.
    pub(super) times: Option<RequestedTimes>,
    /// A message that accompanies changes, if any.
    pub(super) notice: ChangeNotice,
    /// Makes the name of a new entity, which may contain a setting of the request (`restrictToHost`).
    pub(super) make_name: MakeName,
    /// Checks a new entity against the other stanzas of its conf, if the kind has such a rule.
    pub(super) check_conflict: Option<ConflictCheck>,
    /// Adds settings to the shown settings.
    pub(super) fill: fn(&Kind, &ConfObject, &mut BTreeMap<String, String>),
    /// Replaces parameters that stand for settings. The first argument is the name of the stanza, empty for a new
    /// stanza.
    pub(super) expand: fn(&str, &mut Vec<(String, String)>),
    /// Validates settings.
    pub(super) validate: ValidateSettings,
    /// The setting whose value is a search; the search must parse.
    pub(super) search_setting: Option<&'static str>,
    /// Check that runs a program, after all other checks, with the settings that the entity would have.
    pub(super) check_by_program: Option<ProgramCheck>,
    /// Validates new settings of an entity against its name.
    pub(super) validate_edit: ValidateEdit,
    /// Called after the stanza of an entity has been moved or removed, to move or remove the entity's other data.
    pub(super) move_data: MoveData,
}

/// A message that accompanies changes.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChangeNotice {
    Nothing,
    Always(&'static str),
    /// The effect on the running inputs, which the node knows.
    InputEffect,
}

impl ChangeNotice {
    /// The message about a stanza.
    pub(super) fn about(self, state: &ApiState, stanza: &str) -> Option<Cow<'static, str>> {
        match self {
            ChangeNotice::Nothing => None,
            ChangeNotice::Always(text) => Some(Cow::Borrowed(text)),
            ChangeNotice::InputEffect => state.node.input_warning(stanza).map(Cow::Owned),
        }
    }
}

/// Makes the name of a new entity; may remove settings that are part of the name.
pub(super) type MakeName = fn(&Kind, &str, &mut Vec<(String, String)>) -> Result<String, ApiError>;
/// Checks a new stanza against the existing stanzas.
pub(super) type ConflictCheck = fn(&Kind, &str, &[ConfObject]) -> Result<(), ObjectError>;

/// The name in the request.
fn name_as_given(_: &Kind, name: &str, _: &mut Vec<(String, String)>) -> Result<String, ApiError> {
    Ok(name.to_owned())
}

/// Adds nothing to the settings of the stanza.
fn as_set(_: &Kind, _: &ConfObject, _: &mut BTreeMap<String, String>) {}

/// Parameter names in Splunk's REST reference, and the settings that they set.
const STATSD_NAMES: [(&str, &str); 2] =
    [("regex", "REGEX"), ("remove_dimensions_from_metric_name", "REMOVE_DIMS_FROM_METRIC_NAME")];
const SCHEMA_NAMES: [(&str, &str); 3] = [
    ("blacklist_dimensions", "METRIC-SCHEMA-BLACKLIST-DIMS"),
    ("field_names", "METRIC-SCHEMA-MEASURES"),
    ("whitelist_dimensions", "METRIC-SCHEMA-WHITELIST-DIMS"),
];

/// Replaces the names of parameters with those of the settings.
pub(super) fn use_names(names: &[(&str, &str)], settings: &mut [(String, String)]) {
    for (key, _) in settings {
        if let Some((_, setting)) = names.iter().find(|(parameter, _)| parameter == key) {
            *key = (*setting).to_owned();
        }
    }
}

/// Replaces nothing, because every parameter is a setting.
fn as_sent(_: &str, _: &mut Vec<(String, String)>) {}

/// Actions of an entity, as links.
pub(super) const VERBS: &[&str] = &[RELOAD, "disable", "enable", "move"];
/// Rereads changed files: an action of the collection. Each entity has a link to it.
pub(super) const RELOAD: &str = "_reload";

/// Validates new settings of an entity against its name.
pub(super) type ValidateEdit = fn(&str, &[(String, String)]) -> Result<(), ApiError>;
/// Validates settings, and the names of new entities.
pub(super) type ValidateSettings = fn(&ApiState, &Kind, Option<&str>, &[(String, String)]) -> Result<(), ApiError>;

/// Checks the entity of this name with these settings.
pub(super) type ProgramCheck = fn(&ApiState, &Kind, &str, &BTreeMap<String, String>) -> Result<(), ApiError>;

/// Accepts everything.
pub(super) fn accept_all(_: &ApiState, _: &Kind, _: Option<&str>, _: &[(String, String)]) -> Result<(), ApiError> {
    Ok(())
}

/// Moves the data that an entity has outside its stanza to the entity's new location. If the entity was removed,
/// removes the data, so that a later entity of the same name does not inherit them. Runs after the change of the
/// stanza, because data removed first would be lost if the entity could not be removed. If moving or removing the data
/// fails, a removed stanza is restored.
pub(super) type MoveData = fn(&ApiState, &ConfObject, Option<&ConfObject>) -> Result<(), ApiError>;

fn move_data(state: &ApiState, before: &ConfObject, now: Option<&ConfObject>) -> Result<(), ApiError> {
    match before.conf == saved_searches::CONF {
        true => saved_searches::move_suppression(state, before, now),
        false => Ok(()),
    }
}

/// All roles, in the permissions of an object.
const ANYONE: &str = "*";

fn always(_: &ConfObject) -> bool {
    true
}

fn is_lookup(object: &ConfObject) -> bool {
    ["filename", "external_type", "external_cmd", "collection"].iter().any(|key| object.get(key).is_some())
}

/// Members of lookups that follow from their settings.
fn fill_lookup(_: &Kind, object: &ConfObject, settings: &mut BTreeMap<String, String>) {
    if let Some(fields) = settings.get("fields_list").cloned() {
        settings.insert("fields_array".to_owned(), fields);
    }
    if is_lookup(object) {
        let of_type = match settings.get("external_type").map(|kind| kind.trim()) {
            Some("kvstore") => "kvstore",
            Some("geo") => "geo",
            Some("geo_hex") => "geo_hex",
            _ if settings.contains_key("filename") => "file",
            _ => "external",
        };
        settings.insert("type".to_owned(), of_type.to_owned());
        add_defaults(&TRANSFORM_DEFAULTS, settings);
        add_defaults(&LOOKUP_DEFAULTS, settings);
    }
}

/// Settings of every stanza of transforms.conf, with their defaults.
const TRANSFORM_DEFAULTS: [(&str, &str); 13] = [
    ("CAN_OPTIMIZE", "1"),
    ("CLEAN_KEYS", "1"),
    ("DEFAULT_VALUE", ""),
    ("DEPTH_LIMIT", "1000"),
    ("DEST_KEY", ""),
    ("FORMAT", ""),
    ("KEEP_EMPTY_VALS", "0"),
    ("LOOKAHEAD", "4096"),
    ("MATCH_LIMIT", "100000"),
    ("MV_ADD", "0"),
    ("REGEX", ""),
    ("SOURCE_KEY", "_raw"),
    ("WRITE_META", "False"),
];
/// Further settings of lookups that clients expect.
const LOOKUP_DEFAULTS: [(&str, &str); 6] = [
    ("collection", ""),
    ("default_match", ""),
    ("external_cmd", ""),
    ("external_type", ""),
    ("match_type", ""),
    ("replicate_delta", "0"),
];

fn fill_transform(_: &Kind, _: &ConfObject, settings: &mut BTreeMap<String, String>) {
    add_defaults(&TRANSFORM_DEFAULTS, settings);
}

fn add_defaults(defaults: &[(&str, &str)], settings: &mut BTreeMap<String, String>) {
    for (key, value) in defaults {
        settings.entry((*key).to_owned()).or_insert_with(|| (*value).to_owned());
    }
}

fn is_extraction(object: &ConfObject) -> bool {
    !is_lookup(object) && ["REGEX", "DELIMS"].iter().any(|key| object.get(key).is_some())
}

/// Parameters of a stanza: any setting.
pub(super) const ANY_SETTING: Fields = Fields { required: &[], optional: &[], wildcard: &["*"] };

pub(super) fn kind(path: &'static str, title: &'static str, conf: &'static str, fields: Fields) -> Kind {
    Kind {
        path: Cow::Borrowed(path),
        title: Cow::Borrowed(title),
        conf: Cow::Borrowed(conf),
        fields,
        is_by_name: false,
        is_entity: always,
        verbs: VERBS,
        more: &[],
        prefix: Cow::Borrowed(""),
        is_prefix_shown: false,
        only: None,
        is_of_node: false,
        more_fields: Arc::default(),
        input_host: Arc::default(),
        node_name: Arc::default(),
        times: None,
        notice: ChangeNotice::Nothing,
        make_name: name_as_given,
        check_conflict: None,
        fill: as_set,
        expand: as_sent,
        validate: accept_all,
        search_setting: None,
        check_by_program: None,
        validate_edit: |_, _| Ok(()),
        move_data,
    }
}

/// The global banner: a message shown on every page.
pub(super) static GLOBAL_BANNER: LazyLock<Kind> = LazyLock::new(|| {
    let fields = Fields { required: &[], optional: &[], wildcard: &["global_banner.*"] };
    let only = Some((BANNER, BANNER));
    Kind { only, verbs: &[], ..kind("data/ui/global-banner", "global-banner", BANNER_CONF, fields) }
});
/// The only stanza of the collection.
const BANNER: &str = "BANNER_MESSAGE_SINGLETON";

/// Read-only collections, whose entities come with apps.
pub(super) static SHOWN_KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let of = |path, title, conf| Kind {
        verbs: &[],
        ..kind(path, title, conf, Fields { required: &[], optional: &[], wildcard: &[] })
    };
    let is_tagged_value = |object: &ConfObject| object.name.contains('=');
    vec![
        of("data/commands", "commands", "commands"),
        of("data/ui/prefs", "ui-prefs", "ui-prefs"),
        of("data/ui/viewstates", "viewstates", "viewstates"),
        of("data/user-prefs", "user-prefs", "user-prefs"),
        Kind { is_entity: is_tagged_value, ..of("saved/fvtags", "fvtags", "tags") },
    ]
});

/// Parameters of saved searches.
const SAVED_SEARCH: Fields = Fields {
    required: &["search"],
    optional: &[
        "actions",
        "allow_skew",
        "alert_comparator",
        "alert_condition",
        "alert_threshold",
        "alert_type",
        "counttype",
        "cron_schedule",
        "defer_scheduled_searchable_idxc",
        "description",
        "disabled",
        "dispatchAs",
        "displayview",
        "durable.backfill_type",
        "durable.lag_time",
        "durable.max_backfill_intervals",
        "durable.track_time_type",
        "embed.enabled",
        "enableSched",
        "is_scheduled",
        "is_visible",
        "max_concurrent",
        "next_scheduled_time",
        "precalculate_required_fields_for_alerts",
        "qualifiedSearch",
        "quantity",
        "realtime_schedule",
        "relation",
        "restart_on_searchpeer_add",
        "run_n_times",
        "run_on_startup",
        "schedule_priority",
        "schedule_window",
        "skip_scheduled_realtime_idxc",
        "userContext",
        "vsid",
        "workload_pool",
    ],
    wildcard: &[
        "action.*",
        "alert.*",
        "args.*",
        "auto_summarize*",
        "dispatch.*",
        "display.*",
        "federated.*",
        "request.*",
    ],
};

/// Parameters of alert actions. Passwords are not among them, because every reader of the conf file would see them.
const ALERT_ACTION: Fields = Fields {
    required: &[],
    optional: &[
        "alert.execute.cmd",
        "command",
        "description",
        "disabled",
        "forceCsvResults",
        "format",
        "from",
        "hostname",
        "icon_path",
        "inline",
        "is_custom",
        "label",
        "mailserver",
        "maxresults",
        "maxtime",
        "payload_format",
        "python.version",
        "sendresults",
        "subject",
        "to",
        "track_alert",
        "ttl",
        "use_ssl",
        "use_tls",
    ],
    wildcard: &["alert.execute.cmd.arg.*", "footer.*", "message.*", "param.*", "subject.*"],
};

/// Alert actions: the stanzas of apps whose programs `sendalert` runs.
pub(super) static ALERT_ACTIONS: LazyLock<Kind> =
    LazyLock::new(|| kind("alerts/alert_actions", "alert_actions", "alert_actions", ALERT_ACTION));

/// Parameters of metric alerts.
const METRIC_ALERT: Fields = Fields {
    required: &["condition"],
    optional: &[
        "complex_condition",
        "description",
        "disabled",
        "filter",
        "groupby",
        "metric_indexes",
        "splunk_ui.displayview",
    ],
    wildcard: &["action.*", "label.*", "trigger.*"],
};

/// Parameters of event types.
const EVENT_TYPE: Fields = Fields {
    required: &["search"],
    optional: &["color", "description", "disabled", "priority", "tags"],
    wildcard: &[],
};

/// The collection of event types at this path.
fn event_types(path: &'static str) -> Kind {
    let fill = fill_event_type;
    Kind { validate: check_condition, fill, ..kind(path, "eventtypes", "eventtypes", EVENT_TYPE) }
}

/// Settings of event types that clients expect, with Splunk's defaults.
fn fill_event_type(_: &Kind, _: &ConfObject, settings: &mut BTreeMap<String, String>) {
    add_defaults(&[("color", "none"), ("description", ""), ("priority", "1"), ("tags", "")], settings);
}

/// Refuses an event type whose search is not a condition, because every search that reads event types would warn about
/// it. Searches with macros are not checked, because the text of macros is known only when a search runs.
fn check_condition(_: &ApiState, _: &Kind, _: Option<&str>, settings: &[(String, String)]) -> Result<(), ApiError> {
    let search = settings.iter().find(|(key, _)| key == "search").map(|(_, text)| text.as_str());
    let Some(search) = search.filter(|text| !text.contains('`')) else { return Ok(()) };
    let faults = quarry_spl::parse_condition(search).err().unwrap_or_default();
    faults.first().map_or(Ok(()), |fault| {
        Err(ApiError::bad_request(format!(
            "search: {fault}; an event type is a condition, without pipes and subsearches"
        )))
    })
}

/// Parameters of macros.
const MACRO: Fields = Fields {
    required: &["definition"],
    optional: &["args", "description", "disabled", "errormsg", "iseval", "validation"],
    wildcard: &[],
};

/// The collection of macros at this path.
fn macros(path: &'static str) -> Kind {
    Kind { validate: check_macro, validate_edit: check_macro_edit, ..kind(path, "macros", "macros", MACRO) }
}

fn macro_arguments(settings: &[(String, String)]) -> Option<&str> {
    settings.iter().find(|(key, _)| key == "args").map(|(_, value)| value.as_str())
}

/// Refuses a new macro that no search could call.
fn check_macro(_: &ApiState, _: &Kind, name: Option<&str>, settings: &[(String, String)]) -> Result<(), ApiError> {
    name.map_or(Ok(()), |name| check_macro_call(name, macro_arguments(settings).unwrap_or_default()))
}

/// Refuses new arguments with which no search could call the macro.
fn check_macro_edit(name: &str, settings: &[(String, String)]) -> Result<(), ApiError> {
    macro_arguments(settings).map_or(Ok(()), |args| check_macro_call(name, args))
}

/// Checks that the name of a macro with arguments states their number, and that the names of the arguments are
/// different words. Source: Splunk's macros.conf reference.
fn check_macro_call(name: &str, args: &str) -> Result<(), ApiError> {
    let refused =
        |fault: String| Err(ApiError::bad_request(format!("{fault}; a macro with arguments is called NAME(COUNT)")));
    let (called, count) = name.split_once('(').map_or((name, Some("0")), |(called, count)| {
        let count = count.strip_suffix(')').filter(|count| !count.starts_with('0'));
        (called, count.filter(|count| count.bytes().all(|byte| byte.is_ascii_digit())))
    });
    let Some(count) = count.and_then(|count| count.parse::<usize>().ok()) else {
        return refused(format!("name={name}: the number of arguments is not a number from 1"));
    };
    if called.is_empty() || called.trim() != called || called.contains('`') {
        return refused(format!("name={name}: no search could call this name"));
    }
    let given: Vec<&str> = args.split(',').map(str::trim).filter(|arg| !arg.is_empty()).collect();
    if given.len() != count {
        return refused(format!("args={args}: {} arguments, but the name {name} says {count}", given.len()));
    }
    let is_word = |arg: &str| arg.chars().all(|char| char.is_alphanumeric() || matches!(char, '_' | '-'));
    if let Some(arg) = given.iter().find(|arg| !is_word(arg)) {
        return refused(format!(
            "args={args}: {arg} cannot be the name of an argument; a name must consist of letters, digits, _ and -"
        ));
    }
    match given.iter().enumerate().find(|(at, arg)| given[..*at].contains(arg)) {
        Some((_, arg)) => refused(format!("args={args}: {arg} occurs twice")),
        None => Ok(()),
    }
}

/// Refuses an extraction whose expression cannot be compiled, because it would extract nothing and every search would
/// warn about it.
fn check_extraction(_: &ApiState, _: &Kind, _: Option<&str>, settings: &[(String, String)]) -> Result<(), ApiError> {
    let regex = settings.iter().find(|(key, value)| key == "REGEX" && !value.is_empty());
    regex.map_or(Ok(()), |(key, regex)| {
        check_regex(regex).map_err(|fault| ApiError::bad_request(format!("{key}={regex}: {fault}")))
    })
}

/// Collections of event types and macros at further paths.
pub(super) static OTHER_PATHS: LazyLock<Vec<Kind>> =
    LazyLock::new(|| vec![event_types("search/eventtypes"), macros("data/macros"), macros("search/macros")]);

/// Collections whose entities can be created and changed, except the collections that other modules define.
pub(super) static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    vec![
        Kind {
            more: &["dispatch", "history"],
            fill: saved_search_defaults::fill,
            expand: saved_search_defaults::expand,
            validate: saved_search_defaults::validate,
            search_setting: Some("search"),
            ..kind("saved/searches", "savedsearch", "savedsearches", SAVED_SEARCH)
        },
        event_types("saved/eventtypes"),
        Kind {
            is_entity: |object| !object.name.contains("::"),
            ..kind("saved/sourcetypes", "sourcetypes", "props", ANY_SETTING)
        },
        macros("admin/macros"),
        Kind {
            notice: ChangeNotice::Always("The alert is saved. Alerts are not evaluated yet."),
            ..kind("alerts/metric_alerts", "metric_alerts", METRIC_ALERTS_CONF, METRIC_ALERT)
        },
        Kind {
            is_entity: is_lookup,
            fill: fill_lookup,
            ..kind(
                "data/transforms/lookups",
                "transforms-lookup",
                "transforms",
                Fields {
                    required: &[],
                    optional: &[
                        "allow_caching",
                        "batch_index_query",
                        "case_sensitive_match",
                        "collection",
                        "default_match",
                        "disabled",
                        "external_cmd",
                        "external_type",
                        "fields_list",
                        "filename",
                        "filter",
                        "match_type",
                        "max_matches",
                        "max_offset_secs",
                        "min_matches",
                        "min_offset_secs",
                        "replicate",
                        "replicate_delta",
                        "time_field",
                        "time_format",
                    ],
                    wildcard: &[],
                },
            )
        },
        Kind {
            is_entity: is_extraction,
            fill: fill_transform,
            validate: check_extraction,
            ..kind(
                "data/transforms/extractions",
                "transforms-extract",
                "transforms",
                Fields {
                    required: &[],
                    optional: &[
                        "CAN_OPTIMIZE",
                        "CLEAN_KEYS",
                        "DEFAULT_VALUE",
                        "DELIMS",
                        "DEST_KEY",
                        "FIELDS",
                        "FORMAT",
                        "KEEP_EMPTY_VALS",
                        "LOOKAHEAD",
                        "MV_ADD",
                        "REGEX",
                        "REPEAT_MATCH",
                        "SOURCE_KEY",
                        "WRITE_META",
                        "disabled",
                    ],
                    wildcard: &[],
                },
            )
        },
        Kind {
            prefix: Cow::Borrowed(STATSD_DIMENSIONS),
            is_prefix_shown: true,
            notice: ChangeNotice::Always("The change is saved and takes effect at the next start of the node."),
            expand: |_, settings| use_names(&STATSD_NAMES, settings),
            ..kind(
                "data/transforms/statsdextractions",
                "statsd-extractions",
                "transforms",
                Fields { required: &["REGEX"], optional: &["REMOVE_DIMS_FROM_METRIC_NAME"], wildcard: &[] },
            )
        },
        Kind {
            prefix: Cow::Borrowed(BOOKMARK),
            ..kind(
                "saved/bookmarks/monitoring_console",
                "bookmarks",
                "bookmarks",
                Fields { required: &["url"], optional: &[], wildcard: &[] },
            )
        },
        kind(
            "data/ui/workflow-actions",
            "workflow-actions",
            "workflow_actions",
            Fields {
                required: &["label"],
                optional: &["disabled", "display_location", "eventtypes", "fields", "type"],
                wildcard: &["link.*", "search.*"],
            },
        ),
        Kind {
            prefix: Cow::Borrowed(METRIC_SCHEMA),
            is_prefix_shown: true,
            is_entity: |object| object.settings.keys().any(|key| key.starts_with("METRIC-SCHEMA-")),
            expand: |_, settings| use_names(&SCHEMA_NAMES, settings),
            ..kind(
                "data/transforms/metric-schema",
                "metric-schema",
                "transforms",
                Fields { required: &[], optional: &[], wildcard: &["METRIC-SCHEMA-*"] },
            )
        },
    ]
});

impl Kind {
    /// The stanza name of an entity.
    pub(super) fn stanza(&self, name: &str) -> String {
        match self.only {
            Some((entity, stanza)) if entity == name => stanza.to_owned(),
            _ if name.starts_with(self.prefix.as_ref()) => name.to_owned(),
            _ => format!("{}{name}", self.prefix),
        }
    }

    /// The name of the entity that a stanza defines.
    pub(super) fn entity<'s>(&self, stanza: &'s str) -> &'s str {
        match self.only {
            Some((entity, only)) if only == stanza => entity,
            _ if self.is_prefix_shown => stanza,
            _ => stanza.strip_prefix(self.prefix.as_ref()).unwrap_or(stanza),
        }
    }

    /// Whether a stanza is an entity of the collection.
    pub(super) fn includes(&self, object: &ConfObject) -> bool {
        object.name.starts_with(self.prefix.as_ref())
            && self.only.is_none_or(|(_, stanza)| stanza == object.name)
            && (self.is_entity)(object)
    }

    /// Fails if the collection does not list the stanza. The stanza `default` is found in every collection.
    pub(super) fn check_includes(&self, object: &ConfObject) -> Result<(), ObjectError> {
        match object.name == DEFAULT_STANZA || self.includes(object) {
            true => Ok(()),
            false => Err(ObjectError::Unknown(object.name.clone())),
        }
    }

    /// The collection's only entity, if it has no stanza yet.
    pub(super) fn default_entity(&self, viewer: &Permissions) -> Option<ConfObject> {
        let (_, stanza) = self.only?;
        let roles = [ANYONE.to_owned()];
        Some(ConfObject {
            conf: self.conf.clone().into_owned(),
            name: stanza.to_owned(),
            location: ObjectLocation::System,
            settings: BTreeMap::new(),
            owner: NOBODY.to_owned(),
            sharing: ObjectSharing::System,
            readers: roles.to_vec(),
            writers: vec![ADMIN_ROLE.to_owned()],
            can_write: viewer.has_capability(ADMIN_ALL_OBJECTS),
            is_local: false,
        })
    }

    /// Refuses unknown parameters and invalid schedules, in Splunk's words.
    pub(super) fn check(&self, settings: &[(String, String)]) -> Result<(), ApiError> {
        let Fields { required, optional, wildcard } = self.fields;
        let is_known = |key: &str| {
            required.contains(&key)
                || optional.contains(&key)
                || wildcard.iter().any(|pattern| key.starts_with(pattern.trim_end_matches('*')))
                || self.more_fields.iter().any(|known| known == key)
        };
        if let Some((key, _)) = settings.iter().find(|(key, _)| !is_known(key)) {
            return Err(ApiError::bad_request(format!("Argument \"{key}\" is not supported by this handler.")));
        }
        let is_schedule = |(key, value): &&(String, String)| key == "cron_schedule" && !value.trim().is_empty();
        match settings.iter().filter(is_schedule).find(|(_, value)| Cron::parse(value).is_none()) {
            Some((_, value)) => Err(ApiError::bad_request(format!("Invalid cron_schedule=\"{value}\""))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use quarry_conf::{ConfSource, Layer, Layers};

    use super::*;
    use crate::endpoint::{collector_tokens, indexes, inputs, outputs};

    /// Warnings about a stanza in which each of these settings has an empty value.
    fn warnings(conf: &str, stanza: &str, settings: &[String]) -> Vec<String> {
        let lines: String = settings.iter().map(|key| format!("{key} =\n")).collect();
        let (file, text) = (format!("etc/system/local/{conf}.conf"), format!("[{stanza}]\n{lines}"));
        let source = ConfSource { layer: Layer::SystemLocal, app: None, file, text };
        Layers::new([source]).warnings().iter().map(ToString::to_string).collect()
    }

    /// A setting that a request may store must not be reported as unknown when the conf is read.
    #[test]
    fn parameters_of_entities_are_known_to_their_conf() {
        let mut kinds: Vec<Kind> = KINDS.iter().chain(OTHER_PATHS.iter()).cloned().collect();
        kinds.extend(inputs::kinds());
        kinds.push(collector_tokens::COLLECTOR.clone());
        kinds.extend(outputs::kinds());
        kinds.push(kind("", "", "indexes", indexes::FIELDS));
        let mut checked = 0;
        for kind in kinds {
            let names = kind.fields.required.iter().chain(kind.fields.optional);
            let mut settings: Vec<(String, String)> = names.map(|name| ((*name).to_owned(), String::new())).collect();
            let stanza = kind.stanza("x");
            (kind.expand)(&stanza, &mut settings);
            let keys: Vec<String> = settings.into_iter().map(|(key, _)| key).collect();
            let told = warnings(&kind.conf, &stanza, &keys);
            let unknown: Vec<&String> = told.iter().filter(|text| text.contains("unknown setting")).collect();
            assert!(unknown.is_empty(), "{} {unknown:?}", kind.path);
            checked += keys.len();
        }
        assert!(checked > 200, "{checked}");
    }
}
