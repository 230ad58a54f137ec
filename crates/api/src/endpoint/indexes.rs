//! `data/indexes`: the indexes of the node, with contents and retention.
//!
//! Contents come from the store; retention comes from `indexes.conf` and can be changed here. An index needs no stanza
//! to accept events. Not here: how the events of a removed index are deleted (store).

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::{NOBODY, ObjectError, Objects, Scope};
use quarry_conf::Permissions;
use quarry_conf::permissions::INDEXES_EDIT;
use quarry_conf::text::DEFAULT_STANZA;
use quarry_event::time::NS_PER_SEC;
use quarry_stdx::Fault;
use serde_json::{Map, Value, json};

use super::answer_shape::{AnswerShape, Content, NO_CONTENT};
use super::entities::{change, scope_of, with_objects};
use super::index_defaults::{DEFAULTS, FLAGS};
use super::index_permissions::{CONF, change_acl, check_may_write, with_permissions};
use super::listing::page;
use super::path_parts::PathParts;
use super::permissions::{ACL_PARAMETERS, acl_entry, required_acl_change};
use super::row::{Access, Endpoint, LIST_INTROSPECTION, entities};
use super::run_blocking;
use super::setting_types::json_value;
use super::shape::{Member, Settings as StanzaShape, Shape, WHOLE_NUMBER};
use crate::ApiState;
use crate::atom::{Acl, Entry, Feed, Fields, Form, escape_segment};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameter_types::parse_flag;
use crate::parameters::{Parameters, Settings};

/// Path of the collection after the root.
const COLLECTION: &str = "data/indexes";
/// Title of the collection in Atom feeds.
const TITLE: &str = "indexes";
/// Folder of all indexes in the data directory.
const FOLDER: &str = "db";
/// Paths of an index, relative to its folder. The paths are fixed, but clients read them; `NAME_expanded` is the
/// absolute path.
const PATHS: [(&str, &str); 4] =
    [("coldPath", ""), ("homePath", ""), ("summaryHomePath", "/summary"), ("thawedPath", "/thaweddb")];
/// The member with the number and size of buckets.
const BUCKET_DIRS: &str = "bucket_dirs";
/// The setting that may be `auto` instead of a number.
const HOT_BUCKETS: &str = "maxHotBuckets";
/// Settings that are whole numbers.
const NUMBERS: [&str; 5] =
    ["frozenTimePeriodInSecs", HOT_BUCKETS, "maxTotalDataSizeMB", "maxWarmDBCount", "quarantinePastSecs"];
/// Setting with the kind of events, and the valid values of this setting.
const DATATYPE: &str = "datatype";
const DATATYPES: [&str; 2] = ["event", "metric"];
/// The kind that stands for both in requests for the list.
const ALL_DATATYPES: &str = "all";
const INDEX_LIST_PARAMETERS: &[&str] =
    &["count", "offset", "search", "sort_key", "sort_dir", "sort_mode", "f", DATATYPE];
const NS_PER_MICROSECOND: i64 = 1_000;
/// Maximum number of stanzas that are removed with an index; further stanzas stay.
const STANZAS_MAX: usize = 100;
/// Parameters of an index.
pub(super) const FIELDS: Fields = Fields {
    required: &[],
    optional: &[
        "archiver.enableDataArchive",
        "bucketRebuildMemoryHint",
        "coldPath",
        "coldToFrozenDir",
        "coldToFrozenScript",
        "compressRawdata",
        "datatype",
        "disabled",
        "enableDataIntegrityControl",
        "enableOnlineBucketRepair",
        "enableRealtimeSearch",
        "enableTsidxReduction",
        "frozenTimePeriodInSecs",
        "homePath",
        "maxBloomBackfillBucketAge",
        "maxConcurrentOptimizes",
        "maxDataSize",
        "maxHotBuckets",
        "maxHotIdleSecs",
        "maxHotSpanSecs",
        "maxMemMB",
        "maxMetaEntries",
        "maxTimeUnreplicatedNoAcks",
        "maxTimeUnreplicatedWithAcks",
        "maxTotalDataSizeMB",
        "maxWarmDBCount",
        "metric.timestampResolution",
        "minHotIdleSecsBeforeForceRoll",
        "minRawFileSyncSecs",
        "minStreamGroupQueueSize",
        "partialServiceMetaPeriod",
        "processTrackerServiceInterval",
        "quarantineFutureSecs",
        "quarantinePastSecs",
        "rawChunkSizeBytes",
        "repFactor",
        "rotatePeriodInSecs",
        "serviceMetaPeriod",
        "suspendHotRollByDeleteQuery",
        "suppressBannerList",
        "syncMeta",
        "thawedPath",
        "throttleCheckPeriod",
        "timePeriodInSecBeforeTsidxReduction",
        "tsidxReductionCheckPeriodInSec",
        "tstatsHomePath",
        "warmToColdScript",
    ],
    wildcard: &["remote.*"],
};

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let (own, edit_indexes) = (Access::LoggedIn, Access::Capability(INDEXES_EDIT));
    let one = format!("{COLLECTION}/{{name}}");
    let below = |name: &str| format!("{one}/{name}");
    let rows = vec![
        Endpoint::new(Method::GET, COLLECTION, own, "Lists the indexes that the user may search.", get(list))
            .takes(INDEX_LIST_PARAMETERS)
            .of_conf(CONF),
        Endpoint::new(Method::POST, COLLECTION, edit_indexes, "Creates an index.", post(create))
            .needs(&["name"])
            .takes(FIELDS.optional),
        Endpoint::new(Method::GET, one.as_str(), own, "Shows an index that the user may search.", get(show)),
        Endpoint::new(Method::POST, one.as_str(), edit_indexes, "Changes the settings of an index.", post(edit))
            .takes(FIELDS.optional),
        Endpoint::new(Method::DELETE, one.as_str(), edit_indexes, "Removes an index with its events.", delete(remove)),
        Endpoint::new(
            Method::POST,
            below("roll-hot-buckets"),
            edit_indexes,
            "Seals the events of an index that are only in the log.",
            post(roll),
        ),
        Endpoint::new(Method::POST, below("enable"), edit_indexes, "Enables an index.", post(enable)),
        Endpoint::new(Method::POST, below("disable"), edit_indexes, "Disables an index.", post(disable)),
    ];
    let permissions =
        Endpoint::new(Method::POST, below("acl"), edit_indexes, "Changes the permissions of an index.", post(set_acl))
            .takes(ACL_PARAMETERS)
            .answers(AnswerShape::Entities(NO_CONTENT));
    let content = Content::for_path(COLLECTION, Shape::Settings(StanzaShape { fields: FIELDS, more: INDEX }));
    let mut rows = entities(rows, &content);
    rows.push(permissions);
    rows
}

/// Members of an index besides its settings.
const INDEX: &[Member] = &[
    ("archiver.enableDataArchive", Shape::Flag),
    ("assureUTF8", Shape::Flag),
    ("bucketMerging", Shape::Flag),
    (BUCKET_DIRS, Shape::Map(&Shape::Map(&Shape::Text))),
    ("compressRawdata", Shape::Flag),
    ("currentDBSizeMB", Shape::Text),
    ("defaultDatabase", Shape::Text),
    ("disabled", Shape::Flag),
    ("enableDataIntegrityControl", Shape::Flag),
    ("enableOnlineBucketRepair", Shape::Flag),
    ("enableRealtimeSearch", Shape::Flag),
    ("enableTsidxReduction", Shape::Flag),
    ("frozenTimePeriodInSecs", WHOLE_NUMBER),
    ("isInternal", Shape::Flag),
    ("isReadOnly", Shape::Flag),
    ("isReady", Shape::Flag),
    ("isVirtual", Shape::Flag),
    ("lastInitTime", Shape::Text),
    ("maxTime", Shape::Text),
    ("metric.enableFloatingPointCompression", Shape::Flag),
    ("metric.stubOutRawdataJournal", Shape::Flag),
    ("minTime", Shape::Text),
    ("serviceOnlyAsNeeded", Shape::Flag),
    ("suspendHotRollByDeleteQuery", Shape::Flag),
    ("sync", Shape::Text),
    ("syncMeta", Shape::Flag),
    ("totalEventCount", WHOLE_NUMBER),
    ("total_bucket_count", Shape::Text),
    ("total_raw_size", Shape::Text),
    ("total_size", Shape::Text),
];

/// The buckets of an index by Splunk's directories. There is only one directory: buckets are not moved as they age.
fn bucket_dirs(content: &Map<String, Value>) -> Value {
    let text = |key: &str| match content.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    json!({
        "cold": {},
        "home": {
            "capacity": "infinite",
            "event_count": text("totalEventCount"),
            "event_max_time": text("maxTime"),
            "event_min_time": text("minTime"),
            "hot_bucket_count": "0",
            "size": text("total_size"),
            "warm_bucket_count": text("total_bucket_count"),
            "warm_bucket_size": text("total_size"),
        },
        "thawed": {},
    })
}

/// The indexes the caller may search, by name.
async fn searchable_entries(state: &ApiState, caller: &Caller) -> Result<Vec<Entry>, ApiError> {
    let (node, permissions) = (state.node.clone(), caller.permissions.clone());
    let path = format!("/services/{COLLECTION}");
    let read = move || {
        let entries = node.search_service_of(&permissions)?.node_entries(&path, &permissions)?;
        Ok::<_, Fault>((entries.unwrap_or_default(), node.condition().started))
    };
    let (facts, started) = run_blocking(read).await??;
    let started = format!("{}.{:06}", started / NS_PER_SEC, started % NS_PER_SEC / NS_PER_MICROSECOND);
    let settings = with_objects(state, caller, |objects, _| {
        let all = objects.list(CONF, &Scope::for_namespace("-", "-")?, &Permissions::owner())?;
        let mut settings: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        // Of stanzas with the same name, the first has the highest precedence, so settings already present are kept.
        for object in all {
            let of_index = settings.entry(object.name).or_default();
            for (key, value) in object.settings {
                of_index.entry(key).or_insert(value);
            }
        }
        Ok((settings, format!("{}/{FOLDER}", objects.data_dir().display())))
    });
    let ((settings, folder), may) = (settings.await?, caller.permissions.has_capability(INDEXES_EDIT));
    // Paths of the machine are shown only to users who may read how the node stores its events.
    let is_folder_shown = may || caller.permissions.has_capability(LIST_INTROSPECTION);
    let entry = |node: quarry_engine::NodeEntry| {
        let mut content = Map::new();
        let mut name = String::new();
        for (key, values) in node {
            match (key.as_str(), values.into_iter().next().unwrap_or_default()) {
                ("title", title) => name = title,
                (_, value) => drop(content.insert(key.clone(), json_value(&key, &value))),
            }
        }
        let is_shown = |key: &str, value: &str| is_folder_shown || !names_place(key, value);
        for (key, value) in settings.get(&name).into_iter().flatten().filter(|(key, value)| is_shown(key, value)) {
            content.entry(key.clone()).or_insert_with(|| json_value(key, value));
        }
        for (key, otherwise) in DEFAULTS {
            let of_all = settings.get(DEFAULT_STANZA).and_then(|of_all| of_all.get(key));
            let of_all = of_all.filter(|value| is_shown(key, value));
            content.entry(key).or_insert_with(|| json_value(key, of_all.map_or(otherwise, String::as_str)));
        }
        content.insert("lastInitTime".to_owned(), started.as_str().into());
        content.insert(BUCKET_DIRS.to_owned(), bucket_dirs(&content));
        content
            .entry("tstatsHomePath")
            .or_insert_with(|| format!("volume:_splunk_summaries/{name}/datamodel_summary").into());
        add_paths(&name, is_folder_shown.then_some(&*folder), &mut content);
        for (flag, otherwise) in FLAGS {
            let said = match content.get(flag) {
                Some(Value::Bool(said)) => Some(*said),
                said => said.and_then(Value::as_str).and_then(parse_flag),
            };
            content.insert(flag.to_owned(), said.unwrap_or(otherwise).into());
        }
        let path = format!("/servicesNS/{NOBODY}/search/{COLLECTION}/{}", escape_segment(&name));
        let is_off = content.get("disabled") == Some(&Value::Bool(true));
        let mut links = vec![("list", path.clone())];
        if may {
            let switch = if is_off { "enable" } else { "disable" };
            links.extend([("edit", path.clone()), (switch, format!("{path}/{switch}"))]);
        }
        let acl = Acl { can_write: may, can_share: may, ..Acl::for_node() };
        let (author, app) = (NOBODY.to_owned(), "search".to_owned());
        Entry { name, path, author, app, acl, fields: Some(FIELDS), updated: 0, links, content }
    };
    with_permissions(state, caller, facts.into_iter().map(entry).collect()).await
}

/// Whether a setting names a location on the machine: an absolute path, or the program or folder of frozen events.
fn names_place(key: &str, value: &str) -> bool {
    value.trim_start().starts_with('/') || key.starts_with("coldToFrozen") || key == "warmToColdScript"
}

/// Adds the paths of an index as settings, and below the folder of the data directory if it is given.
fn add_paths(index: &str, folder: Option<&str>, content: &mut Map<String, Value>) {
    for (path, below) in PATHS {
        let place = format!("{index}{below}");
        content.entry(path).or_insert_with(|| format!("$SPLUNK_DB/{place}").into());
        if let Some(folder) = folder {
            content.insert(format!("{path}_expanded"), format!("{folder}/{place}").into());
        }
    }
}

/// The indexes of one kind, or all of them. Without a kind, Splunk lists the indexes of events only; here an index of
/// events may have metrics, too, so all are listed.
async fn list(State(state): State<ApiState>, caller: Caller, parameters: Parameters) -> Result<Response, ApiError> {
    let wanted = parameters.get(DATATYPE).map(str::trim).filter(|kind| !kind.is_empty() && *kind != ALL_DATATYPES);
    if let Some(kind) = wanted.filter(|kind| !DATATYPES.contains(kind)) {
        return Err(ApiError::bad_request(format!("{DATATYPE}={kind}: give event, metric or all")));
    }
    let mut entries = searchable_entries(&state, &caller).await?;
    entries.retain(|entry| wanted.is_none_or(|kind| entry.content.get(DATATYPE).and_then(Value::as_str) == Some(kind)));
    page(TITLE, format!("/services/{COLLECTION}"), entries, &parameters)
}

async fn one(state: &ApiState, caller: &Caller, name: &str, parameters: &Parameters) -> Result<Response, ApiError> {
    let entry = find(state, caller, name).await?;
    let form = Form::of(parameters.get("output_mode"));
    Ok(Feed::of(TITLE, format!("/services/{COLLECTION}"), vec![entry]).answer(form))
}

async fn find(state: &ApiState, caller: &Caller, name: &str) -> Result<Entry, ApiError> {
    let found = searchable_entries(state, caller).await?.into_iter().find(|entry| entry.name == *name);
    Ok(found.ok_or_else(|| ObjectError::Unknown(name.to_owned()))?)
}

fn name_of(parts: &PathParts) -> String {
    parts.get("name").cloned().unwrap_or_default()
}

async fn show(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    one(&state, &caller, &name_of(&parts), &parameters).await
}

async fn set_acl(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let (name, asked) = (name_of(&parts), required_acl_change(&state.auth, &parameters)?);
    find(&state, &caller, &name).await?;
    change_acl(&state, &caller, &name, asked).await?;
    let entry = acl_entry(find(&state, &caller, &name).await?);
    let feed = Feed::of(TITLE, entry.path.clone(), vec![entry]);
    Ok(feed.answer(Form::of(parameters.get("output_mode"))))
}

/// Writes to buckets all events that were acknowledged before the request.
async fn roll(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = name_of(&parts);
    let answer = one(&state, &caller, &name, &parameters).await?;
    let node = state.node.clone();
    run_blocking(move || node.roll_hot_buckets(&name)).await??;
    Ok(answer)
}

fn settings_of(form: &Parameters) -> Result<Vec<(String, String)>, ApiError> {
    let is_setting = |key: &str| !matches!(key, "output_mode" | "name");
    let settings: Vec<(String, String)> =
        form.clone().into_settings()?.into_iter().filter(|(key, _)| is_setting(key)).collect();
    for (key, value) in settings.iter().filter(|(key, _)| NUMBERS.contains(&key.as_str())) {
        let is_chosen = key == HOT_BUCKETS && value.trim() == "auto";
        if !is_chosen && value.trim().parse::<u64>().is_err() {
            return Err(ApiError::bad_request(format!("{key}={value}: give a whole number, 0 or more")));
        }
    }
    let odd_kind = |(key, value): &&(String, String)| key == DATATYPE && !DATATYPES.contains(&value.trim());
    if let Some((_, value)) = settings.iter().find(odd_kind) {
        return Err(ApiError::bad_request(format!("{DATATYPE}={value}: give {}", DATATYPES.join(" or "))));
    }
    let is_known = |key: &str| FIELDS.optional.contains(&key) || key.starts_with("remote.");
    match settings.iter().find(|(key, _)| !is_known(key)) {
        Some((key, _)) => Err(ApiError::bad_request(format!("Argument \"{key}\" is not supported by this handler."))),
        None => Ok(settings),
    }
}

async fn create(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    Settings(form): Settings,
) -> Result<Response, ApiError> {
    let name = form.required("name")?.to_owned();
    let settings = settings_of(&form)?;
    let (node, checked) = (state.node.clone(), name.clone());
    run_blocking(move || node.check_index_name(&checked)).await??;
    if searchable_entries(&state, &caller).await?.iter().any(|entry| entry.name == name) {
        return Err(ObjectError::Exists(name).into());
    }
    write(&state, &caller, &parts, &name, settings).await?;
    Ok((StatusCode::CREATED, one(&state, &caller, &name, &form).await?).into_response())
}

async fn edit(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    Settings(form): Settings,
) -> Result<Response, ApiError> {
    let name = name_of(&parts);
    let settings = settings_of(&form)?;
    one(&state, &caller, &name, &form).await?;
    check_may_write(&state, &caller, &name).await?;
    write(&state, &caller, &parts, &name, settings).await?;
    one(&state, &caller, &name, &form).await
}

async fn write(
    state: &ApiState,
    caller: &Caller,
    parts: &PathParts,
    name: &str,
    settings: Vec<(String, String)>,
) -> Result<(), ApiError> {
    let (scope, name) = (scope_of(parts, caller)?, name.to_owned());
    let put = move |objects: &Objects, viewer: &Permissions| objects.put(CONF, &name, &settings, &scope, viewer);
    change(state, caller, CONF, put).await
}

/// Removes an index with its events, as Splunk does: first its stanza, then the events stored until then. An index with
/// events but without a stanza was created automatically or left by an interrupted removal.
async fn remove(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let (name, scope) = (name_of(&parts), scope_of(&parts, &caller)?);
    let is_known = searchable_entries(&state, &caller).await?.iter().any(|entry| entry.name == name);
    if !is_known {
        return Err(ObjectError::Unknown(name).into());
    }
    check_may_write(&state, &caller, &name).await?;
    let of_stanza = name.clone();
    let gone = move |objects: &Objects, viewer: &Permissions| {
        let remove = || objects.remove(CONF, &of_stanza, &scope, viewer);
        match remove() {
            Err(ObjectError::Unknown(_)) => return objects.forget_node_object(CONF, &of_stanza),
            removed => removed?,
        }
        // The index may have further stanzas in other apps, and in `system`. A stanza shipped with an app stays.
        for _ in 1..STANZAS_MAX {
            if remove().is_err() {
                break;
            }
        }
        objects.forget_node_object(CONF, &of_stanza)
    };
    change(&state, &caller, CONF, gone).await?;
    let node = state.node.clone();
    run_blocking(move || node.remove_events(&name)).await??;
    page(
        TITLE,
        format!("/services/{COLLECTION}"),
        searchable_entries(&state, &caller).await?,
        &parameters.keep_only("output_mode"),
    )
}

async fn enable(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    Settings(form): Settings,
) -> Result<Response, ApiError> {
    switch(&state, &caller, &parts, &form, "0").await
}

async fn disable(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    Settings(form): Settings,
) -> Result<Response, ApiError> {
    switch(&state, &caller, &parts, &form, "1").await
}

async fn switch(
    state: &ApiState,
    caller: &Caller,
    parts: &PathParts,
    form: &Parameters,
    disabled: &str,
) -> Result<Response, ApiError> {
    let name = name_of(parts);
    one(state, caller, &name, form).await?;
    check_may_write(state, caller, &name).await?;
    write(state, caller, parts, &name, vec![("disabled".to_owned(), disabled.to_owned())]).await?;
    one(state, caller, &name, form).await
}
