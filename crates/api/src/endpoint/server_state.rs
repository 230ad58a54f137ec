//! State of the node: `server/status`, `server/introspection`, `server/health`, `server/control/restart`, and
//! `messages`.
//!
//! Members have Splunk's names; members that do not apply to this node are omitted. Not here: `server/info`
//! ([`super::node_entries`]), `server/settings` ([`super::server_settings`]), folder listings ([`super::folders`]),
//! metrics over time (the index `_internal`).

use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::{APP_SYSTEM, NOBODY};
use quarry_conf::Permissions;
use quarry_event::TimeNs;
use quarry_event::time::NS_PER_SEC;
use quarry_search::cell::format_iso_time;
use quarry_stdx::number::f64_of;
use serde_json::{Map, Value, json};

use super::answer_shape::{AnswerShape, Content, MESSAGES as TOLD};
use super::jobs::message_response;
use super::listing::{LIST_PARAMETERS, page};
use super::path_parts::PathParts;
use super::row::{Access, EDIT_MESSAGES, Endpoint, LIST_INTROSPECTION, RESTART, entities};
use super::run_blocking;
use super::shape::Shape;
use crate::ApiState;
use crate::atom::{Acl, Entry, Form, escape_segment};
use crate::bulletins::{BULLETIN_BYTES_MAX, Bulletin, Severity};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::node::{DiskSpace, NodeCondition, SearchLimits};
use crate::parameters::{ONE_ENTITY, Parameters, Settings};

pub(super) const MEGABYTE: u64 = 1 << 20;
const KILOBYTE: u64 = 1 << 10;
/// Milliseconds in one percent of a second.
const MS_PER_PERCENT: u64 = 10;
/// A disk counts as low below this multiple of the required free space.
const LOW_DISK_FACTOR: u64 = 2;
/// Time in nanoseconds for which background failures affect the node's health.
const RECENT_NS: TimeNs = 60 * 60 * NS_PER_SEC;
/// Name prefix of the node's own messages.
const FAULT_PREFIX: &str = "node-fault-";

/// A collection with one entity.
struct Fact {
    path: &'static str,
    name: &'static str,
    access: Access,
    summary: &'static str,
    content: fn(&Facts) -> Value,
    shape: Shape,
}

/// Data from which the entities are derived.
pub(super) struct Facts {
    pub(super) condition: NodeCondition,
    now: TimeNs,
    jobs: usize,
    searches_max: usize,
    real_time_max: usize,
}

/// The entity with numbers of jobs.
const DISPATCH_ARTIFACTS: &str = "server/status/dispatch-artifacts";

const INTROSPECTION: Access = Access::Capability(LIST_INTROSPECTION);

/// Health of a feature.
pub(super) const COLOR: Shape = Shape::Word(&["green", "yellow", "red"]);

const fn health_fact(path: &'static str, name: &'static str) -> Fact {
    Fact {
        path,
        name,
        access: Access::LoggedIn,
        summary: "Shows the health of the node.",
        content: |facts| json!({ "health": health(facts).0, "disabled": false }),
        shape: Shape::Object(&[("health", COLOR), ("disabled", Shape::Flag)]),
    }
}

const fn health_details(path: &'static str, name: &'static str) -> Fact {
    Fact {
        path,
        name,
        access: INTROSPECTION,
        summary: "Shows the health of each part of the node.",
        content: |facts| {
            let (health, features) = health(facts);
            json!({ "health": health, "features": features, "disabled": false })
        },
        shape: Shape::Object(&[
            ("health", COLOR),
            ("features", Shape::Map(&Shape::Object(&[("health", COLOR), ("reasons", Shape::List(&Shape::Text))]))),
            ("disabled", Shape::Flag),
        ]),
    }
}

const fn search_limits(path: &'static str) -> Fact {
    Fact {
        path,
        name: "search",
        access: INTROSPECTION,
        summary: "Shows the settings that limit concurrent searches.",
        content: |facts| {
            let SearchLimits { base, per_cpu, real_time_multiplier } = facts.condition.search_limits;
            json!({
                "base_max_searches": base, "max_searches_per_cpu": per_cpu, "max_rt_search_multiplier": real_time_multiplier,
            })
        },
        shape: Shape::Object(&[
            ("base_max_searches", Shape::Count),
            ("max_searches_per_cpu", Shape::Count),
            ("max_rt_search_multiplier", Shape::Count),
        ]),
    }
}

static FACTS: [Fact; 18] = [
    health_fact("server/health/splunkd", "splunkd"),
    health_details("server/health/splunkd/details", "splunkd"),
    // The deployment is this node alone.
    health_fact("server/health/deployment", "deployment"),
    health_details("server/health/deployment/details", "deployment"),
    Fact {
        path: "server/introspection/indexer",
        name: "indexer",
        access: INTROSPECTION,
        summary: "Shows whether the node accepts events.",
        content: indexer,
        shape: Shape::Object(&[
            ("average_KBps", Shape::Number),
            ("reason", Shape::Text),
            ("status", Shape::Word(&["normal", "stopped"])),
        ]),
    },
    Fact {
        path: "kvstore/status",
        name: "status",
        access: INTROSPECTION,
        summary: "Shows whether the KV store accepts documents.",
        content: |facts| {
            let status = if has_disk_space(facts) { "ready" } else { "failed" };
            json!({
                "current": {
                    "backupRestoreStatus": "Ready",
                    "disabled": false,
                    "replicationStatus": "KV store captain",
                    "standalone": true,
                    "status": status,
                    "storageEngine": "quarry",
                },
            })
        },
        shape: Shape::Object(&[(
            "current",
            Shape::Object(&[
                ("backupRestoreStatus", Shape::Text),
                ("disabled", Shape::Flag),
                ("replicationStatus", Shape::Text),
                ("standalone", Shape::Flag),
                ("status", Shape::Word(&["ready", "failed"])),
                ("storageEngine", Shape::Text),
            ]),
        )]),
    },
    Fact {
        path: "server/roles",
        name: "result",
        access: Access::LoggedIn,
        summary: "Shows what the node does.",
        content: |_| json!({ "role_list": ["indexer"] }),
        shape: Shape::Object(&[("role_list", Shape::List(&Shape::Text))]),
    },
    Fact {
        path: "server/sysinfo",
        name: "sysinfo",
        access: INTROSPECTION,
        summary: "Shows the cores and the memory of the machine.",
        content: |facts| {
            let NodeCondition { memory, cores, host, .. } = &facts.condition;
            json!({
                "host": host, "os_name": quarry_search::os_name(), "cpu_arch": std::env::consts::ARCH, "numberOfVirtualCores": cores,
                "physicalMemoryMB": memory.all / MEGABYTE,
            })
        },
        shape: Shape::Object(&[
            ("host", Shape::Text),
            ("os_name", Shape::Text),
            ("cpu_arch", Shape::Text),
            ("numberOfVirtualCores", Shape::Count),
            ("physicalMemoryMB", Shape::Count),
        ]),
    },
    Fact {
        path: "server/status/resource-usage/hostwide",
        name: "result",
        access: INTROSPECTION,
        summary: "Shows the resources of the machine and their use.",
        content: hostwide,
        shape: Shape::Object(&[
            ("cpu_count", Shape::Count),
            ("virtual_cpu_count", Shape::Count),
            ("mem", Shape::Text),
            ("mem_used", Shape::Text),
        ]),
    },
    Fact {
        path: "server/status/resource-usage/splunk-processes",
        name: "result",
        access: INTROSPECTION,
        summary: "Shows the resource use of the node.",
        content: process,
        shape: Shape::Object(&[
            ("process", Shape::Text),
            ("pid", Shape::Count),
            ("mem_used", Shape::Text),
            ("elapsed", Shape::Number),
        ]),
    },
    Fact {
        path: "server/status/partitions-space",
        name: "result",
        access: INTROSPECTION,
        summary: "Shows the free space of the node's disk.",
        content: partitions,
        shape: Shape::Object(&[("mount_point", Shape::Text), ("capacity", Shape::Text), ("free", Shape::Text)]),
    },
    Fact {
        path: "server/status/resource-usage/iostats",
        name: "result",
        access: INTROSPECTION,
        summary: "Shows the use of the node's disk since the machine started.",
        content: disk_use,
        shape: Shape::Object(&[
            ("device", Shape::Optional(&Shape::Text)),
            ("fs_type", Shape::Optional(&Shape::Text)),
            ("mount_point", Shape::Optional(&Shape::Text)),
            ("interval", Shape::Optional(&Shape::Text)),
            ("reads_ps", Shape::Optional(&Shape::Text)),
            ("reads_kb_ps", Shape::Optional(&Shape::Text)),
            ("writes_ps", Shape::Optional(&Shape::Text)),
            ("writes_kb_ps", Shape::Optional(&Shape::Text)),
            ("avg_total_ms", Shape::Optional(&Shape::Text)),
            ("avg_service_ms", Shape::Optional(&Shape::Text)),
            ("cpu_pct", Shape::Optional(&Shape::Text)),
        ]),
    },
    Fact {
        path: "server/status/fishbucket",
        name: "result",
        access: INTROSPECTION,
        summary: "Shows the size of the database with the positions in read files.",
        // A catalog in PostgreSQL has no local file, so its size is unknown.
        content: |facts| {
            facts.condition.catalog_bytes.map_or_else(|| json!({}), |bytes| json!({ "total_size": megabytes(bytes) }))
        },
        shape: Shape::Object(&[("total_size", Shape::Optional(&Shape::Text))]),
    },
    Fact {
        path: "server/status/installed-file-integrity",
        name: "result",
        access: INTROSPECTION,
        summary: "Answers that no files are installed besides the program.",
        content: |_| json!({ "check_ready": false, "reason": "the node is one program: no other file is installed that could be checked" }),
        shape: Shape::Object(&[("check_ready", Shape::Flag), ("reason", Shape::Text)]),
    },
    search_limits("search/concurrency-settings"),
    search_limits("search/concurrency-settings/search"),
    Fact {
        path: DISPATCH_ARTIFACTS,
        name: "result",
        access: INTROSPECTION,
        summary: "Counts the stored jobs.",
        content: |facts| json!({ "total_count": facts.jobs.to_string() }),
        shape: Shape::Object(&[
            ("adhoc_count", Shape::Text),
            ("completed_count", Shape::Text),
            // The name is Splunk's, with its misspelling.
            ("incomple_count", Shape::Text),
            ("invalid_count", Shape::Text),
            ("scheduled_count", Shape::Text),
            ("ss_count", Shape::Text),
            ("total_count", Shape::Text),
        ]),
    },
    Fact {
        path: "server/status/limits/search-concurrency",
        name: "result",
        access: INTROSPECTION,
        summary: "Shows the limits of concurrent searches.",
        content: |facts| json!({ "max_hist_searches": facts.searches_max, "max_hist_scheduled_searches": 0, "max_rt_searches": facts.real_time_max }),
        shape: Shape::Object(&[
            ("max_hist_searches", Shape::Count),
            ("max_hist_scheduled_searches", Shape::Count),
            ("max_rt_searches", Shape::Count),
        ]),
    },
];

/// Messages to all users.
const MESSAGES: &str = "messages";

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let own = Access::LoggedIn;
    let facts = FACTS.iter().enumerate().map(|(at, fact)| {
        let show = move |State(state): State<ApiState>, parameters: Parameters| show(state, parameters, at);
        let content = Content::for_path(fact.path, fact.shape.clone());
        Endpoint::new(Method::GET, fact.path, fact.access, fact.summary, get(show))
            .takes(ONE_ENTITY)
            .answers(AnswerShape::Entities(content))
    });
    let (one, write) = (format!("{MESSAGES}/{{name}}"), Access::Capability(EDIT_MESSAGES));
    let message = Content::new(
        MESSAGES,
        // The text is also the value of a member that has the message's name, so the shape is open.
        Shape::Open(
            &[
                ("capabilities", Shape::List(&Shape::Text)),
                ("help", Shape::Text),
                ("message", Shape::Text),
                ("message_alternate", Shape::Text),
                ("roles", Shape::List(&Shape::Text)),
                ("severity", Shape::Text),
                ("server", Shape::Text),
                ("timeCreated_epochSecs", Shape::Integer),
                ("timeCreated_iso", Shape::Text),
            ],
            &Shape::Text,
        ),
    );
    let messages = vec![
        Endpoint::new(Method::GET, MESSAGES, own, "Lists the messages that the user sees.", get(bulletins))
            .takes(LIST_PARAMETERS),
        Endpoint::new(Method::POST, MESSAGES, write, "Creates a message to all users.", post(put))
            .needs(&["name", "value"])
            .takes(&["capability", "role", "severity"]),
        Endpoint::new(Method::GET, one.as_str(), own, "Shows a message to all users.", get(bulletin)),
    ];
    let removal = Endpoint::new(Method::DELETE, one, write, "Deletes a message.", delete(remove_bulletin))
        .answers(AnswerShape::JsonOrXml(TOLD));
    let may_restart = Access::Capability(RESTART);
    let restart =
        Endpoint::new(Method::POST, "server/control/restart", may_restart, "Restarts the node.", post(restart))
            .answers(AnswerShape::JsonOrXml(TOLD));
    facts.chain(entities(messages, &message)).chain([removal, restart]).collect()
}

async fn restart(State(state): State<ApiState>, parameters: Parameters) -> Result<Response, ApiError> {
    let node = Arc::clone(&state.node);
    run_blocking(move || node.request_restart()).await??;
    let told = "The node restarts after it has answered the running requests.";
    Ok(message_response(Form::of(parameters.get("output_mode")), told))
}

pub(super) fn entity(collection: &str, name: &str, author: &str, updated: TimeNs, content: Value) -> Entry {
    let path = format!("/services/{collection}/{}", escape_segment(name));
    let (author, app, links) = (author.to_owned(), APP_SYSTEM.to_owned(), vec![("list", path.clone())]);
    let content = if let Value::Object(members) = content { members } else { Map::new() };
    Entry { name: name.to_owned(), path, author, app, acl: Acl::for_node(), fields: None, updated, links, content }
}

pub(super) async fn read_facts(state: &ApiState) -> Result<Facts, ApiError> {
    let (node, jobs) = (state.node.clone(), Arc::clone(&state.jobs));
    let now = state.auth.now();
    let (searches_max, real_time_max) = (state.searches_max(), state.real_time_max());
    run_blocking(move || Facts { condition: node.condition(), now, jobs: jobs.count(), searches_max, real_time_max })
        .await
}

/// Adds the numbers of jobs by kind and state.
async fn add_job_counts(state: &ApiState, content: &mut Value) -> Result<(), ApiError> {
    let jobs = Arc::clone(&state.jobs);
    let read = move || jobs.list(&Permissions::owner()).iter().map(|job| job.status()).collect::<Vec<_>>();
    let jobs = run_blocking(read).await?;
    let saved = jobs.iter().filter(|status| status.record.saved().is_some()).count();
    let completed = jobs.iter().filter(|status| status.state.is_over()).count();
    for (member, count) in [
        ("adhoc_count", jobs.len() - saved),
        ("completed_count", completed),
        ("incomple_count", jobs.len() - completed),
        ("invalid_count", 0),
        ("scheduled_count", 0),
        ("ss_count", saved),
    ] {
        content[member] = count.to_string().into();
    }
    Ok(())
}

async fn show(state: ApiState, parameters: Parameters, at: usize) -> Result<Response, ApiError> {
    let fact = &FACTS[at];
    let mut content = (fact.content)(&read_facts(&state).await?);
    if fact.path == DISPATCH_ARTIFACTS {
        add_job_counts(&state, &mut content).await?;
    }
    let path = format!("/services/{}", fact.path);
    let links = vec![("list", path.clone())];
    let entry = Entry { path: path.clone(), links, ..entity(fact.path, fact.name, NOBODY, 0, content) };
    page(fact.name, path, vec![entry], &parameters.of_one_entity())
}

/// Green, yellow or red, with the reason for each part.
pub(super) fn health(facts: &Facts) -> (&'static str, Value) {
    let NodeCondition { disk, disk_free_min, faults, input_faults, .. } = &facts.condition;
    let of_disk = match disk.free {
        free if free < *disk_free_min => "red",
        free if free < disk_free_min.saturating_mul(LOW_DISK_FACTOR) => "yellow",
        _ => "green",
    };
    let recent: Vec<&str> = faults
        .iter()
        .filter(|(time, _)| facts.now.saturating_sub(*time) < RECENT_NS)
        .map(|(_, text)| text.as_str())
        .collect();
    let of_store = if recent.is_empty() { "green" } else { "yellow" };
    let of_inputs = if input_faults.is_empty() { "green" } else { "yellow" };
    let parts = [of_disk, of_store, of_inputs];
    let worst = ["red", "yellow"].into_iter().find(|color| parts.contains(color)).unwrap_or("green");
    let room = format!("{} MB are free, {} MB must stay free", disk.free / MEGABYTE, disk_free_min / MEGABYTE);
    let features = json!({
        "Disk Space": { "health": of_disk, "reasons": if of_disk == "green" { json!([]) } else { json!([room]) } },
        "Inputs": {
            "health": of_inputs, "reasons": input_faults.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(),
        },
        "Store": { "health": of_store, "reasons": recent },
    });
    (worst, features)
}

/// Whether the disk has the free space that is required to accept events.
pub(super) fn has_disk_space(facts: &Facts) -> bool {
    facts.condition.disk.free >= facts.condition.disk_free_min
}

fn indexer(facts: &Facts) -> Value {
    let (status, reason) = match has_disk_space(facts) {
        false => ("stopped", "the disk has too little room: see server/status/partitions-space"),
        true => ("normal", ""),
    };
    let NodeCondition { taken_bytes, started, .. } = facts.condition;
    let seconds = f64_of(facts.now.saturating_sub(started).max(NS_PER_SEC)) / f64_of(NS_PER_SEC);
    json!({ "average_KBps": f64_of(taken_bytes) / f64_of(KILOBYTE) / seconds, "reason": reason, "status": status })
}

fn hostwide(facts: &Facts) -> Value {
    let NodeCondition { memory, cores, .. } = facts.condition;
    let used = memory.all.saturating_sub(memory.free);
    json!({
        "cpu_count": cores, "virtual_cpu_count": cores, "mem": megabytes(memory.all), "mem_used": megabytes(used),
    })
}

fn process(facts: &Facts) -> Value {
    let NodeCondition { process_bytes, started, .. } = facts.condition;
    json!({
        "process": "quarry", "pid": std::process::id(), "mem_used": megabytes(process_bytes),
        "elapsed": f64_of(facts.now.saturating_sub(started)) / f64_of(NS_PER_SEC),
    })
}

fn partitions(facts: &Facts) -> Value {
    let (DiskSpace { all, free }, folder) = (facts.condition.disk, &facts.condition.folder);
    json!({ "mount_point": folder, "capacity": megabytes(all), "free": megabytes(free) })
}

/// Disk averages since the machine started; empty if the disk is not a device of this machine.
fn disk_use(facts: &Facts) -> Value {
    let Some(disk) = &facts.condition.disk_activity else { return json!({}) };
    let shown = |number: f64| format!("{:.3}", if number.is_finite() { number } else { 0.0 });
    let per_second = |count: u64| shown(f64_of(count) / disk.seconds);
    let per_request = |ms: u64| shown(f64_of(ms) / f64_of(disk.reads.saturating_add(disk.writes)));
    json!({
        "device": disk.device, "fs_type": disk.file_system, "mount_point": disk.mount_point,
        "interval": shown(disk.seconds), "reads_ps": per_second(disk.reads), "writes_ps": per_second(disk.writes),
        "reads_kb_ps": per_second(disk.read_bytes / KILOBYTE), "writes_kb_ps": per_second(disk.written_bytes / KILOBYTE),
        "avg_total_ms": per_request(disk.waited_ms), "avg_service_ms": per_request(disk.busy_ms),
        "cpu_pct": per_second(disk.busy_ms / MS_PER_PERCENT),
    })
}

/// Megabytes with three decimals, as in Splunk.
fn megabytes(bytes: u64) -> String {
    format!("{:.3}", f64_of(bytes) / f64_of(MEGABYTE))
}

/// The messages that a user sees, including the node's own, as entities.
async fn bulletins_of(state: &ApiState, caller: &Caller) -> Result<Vec<Entry>, ApiError> {
    let condition = read_facts(state).await?.condition;
    let entry = |name: &str, bulletin: &Bulletin| {
        let Bulletin { text, severity, author, time, roles, capabilities } = bulletin;
        let mut content = json!({
            "message": text, "message_alternate": "", "help": "", "severity": severity.word(), "server": condition.name,
            "roles": roles, "capabilities": capabilities, "timeCreated_epochSecs": time.div_euclid(NS_PER_SEC),
            "timeCreated_iso": format_iso_time(*time, &jiff::tz::TimeZone::UTC),
        });
        // Clients read the text at the message's name, which must not hide another member.
        if let Value::Object(members) = &mut content {
            members.entry(name).or_insert_with(|| Value::from(text.as_str()));
        }
        entity(MESSAGES, name, author, *time, content)
    };
    let bulletins = state.bulletins.list().into_iter().filter(|(_, bulletin)| is_for(bulletin, caller));
    let mut entries: Vec<Entry> = bulletins.map(|(name, bulletin)| entry(&name, &bulletin)).collect();
    let faults = condition.faults.iter().chain(&condition.input_faults).enumerate();
    entries.extend(faults.map(|(at, (time, text))| {
        let (text, author, severity) = (text.clone(), NOBODY.to_owned(), Severity::Warn);
        let (roles, capabilities) = (Vec::new(), Vec::new());
        let bulletin = Bulletin { text, severity, author, time: *time, roles, capabilities };
        entry(&format!("{FAULT_PREFIX}{at}"), &bulletin)
    }));
    Ok(entries)
}

/// Whether a message is shown to a user.
fn is_for(bulletin: &Bulletin, caller: &Caller) -> bool {
    let viewer = &caller.permissions;
    let has_role = bulletin.roles.is_empty() || bulletin.roles.iter().any(|role| viewer.roles.contains(role));
    let has_capabilities = bulletin.capabilities.iter().all(|capability| viewer.has_capability(capability));
    bulletin.author == caller.identity.user || has_role && has_capabilities
}

/// The roles and the capabilities of the users to whom a message is shown; all roles and capabilities must exist.
fn addressees(state: &ApiState, form: &Parameters) -> Result<[Vec<String>; 2], ApiError> {
    let known = state.auth.roles();
    let (roles, capabilities) = (state.auth.stored_role_names(&form.list("role")), form.list("capability"));
    if let Some(role) = roles.iter().find(|role| known.get(role).is_none()) {
        return Err(ApiError::bad_request(format!("role={role}: there is no such role; existing: {}", known.names())));
    }
    if let Some(capability) = capabilities.iter().find(|name| !known.capabilities().contains(*name)) {
        return Err(ApiError::bad_request(format!("capability={capability}: there is no such capability")));
    }
    Ok([roles, capabilities])
}

async fn bulletins(
    State(state): State<ApiState>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    page(MESSAGES, format!("/services/{MESSAGES}"), bulletins_of(&state, &caller).await?, &parameters)
}

fn unknown_message(name: &str) -> ApiError {
    ApiError::with_status(StatusCode::NOT_FOUND, format!("Could not find object id={name}"))
}

async fn bulletin(
    State(state): State<ApiState>,
    parts: PathParts,
    caller: Caller,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = parts.get("name").cloned().unwrap_or_default();
    let found = bulletins_of(&state, &caller).await?.into_iter().find(|entry| entry.name == name);
    let found = found.ok_or_else(|| unknown_message(&name))?;
    page(MESSAGES, format!("/services/{MESSAGES}"), vec![found], &parameters.keep_only("output_mode"))
}

async fn put(State(state): State<ApiState>, caller: Caller, Settings(form): Settings) -> Result<Response, ApiError> {
    let (name, text) = (form.required("name")?.to_owned(), form.required("value")?.to_owned());
    let word = form.get("severity").filter(|word| !word.is_empty()).unwrap_or("info");
    let severity = Severity::from_word(word)
        .ok_or_else(|| ApiError::bad_request(format!("severity={word}: give info, warn or error")))?;
    if name.len() > BULLETIN_BYTES_MAX || text.len() > BULLETIN_BYTES_MAX {
        return Err(ApiError::bad_request(format!(
            "a message and its name may each have at most {BULLETIN_BYTES_MAX} bytes"
        )));
    }
    if name.starts_with(FAULT_PREFIX) {
        return Err(ApiError::bad_request(format!(
            "names that begin with {FAULT_PREFIX} are reserved for the node's own messages"
        )));
    }
    let (author, time, [roles, capabilities]) =
        (caller.identity.user.clone(), state.auth.now(), addressees(&state, &form)?);
    state.bulletins.put(name.clone(), Bulletin { text, severity, author, time, roles, capabilities });
    let entries: Vec<Entry> =
        bulletins_of(&state, &caller).await?.into_iter().filter(|entry| entry.name == name).collect();
    let answer = page(MESSAGES, format!("/services/{MESSAGES}"), entries, &form.keep_only("output_mode"))?;
    Ok((StatusCode::CREATED, answer).into_response())
}

async fn remove_bulletin(
    State(state): State<ApiState>,
    parts: PathParts,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = parts.get("name").cloned().unwrap_or_default();
    if name.starts_with(FAULT_PREFIX) {
        return Err(ApiError::bad_request("a message of the node itself disappears when the server restarts"));
    }
    if !state.bulletins.remove(&name) {
        return Err(unknown_message(&name));
    }
    Ok(message_response(Form::of(parameters.get("output_mode")), "The message was removed."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_health_is_that_of_its_worst_feature() {
        let gigabytes = |free: u64| DiskSpace { all: 100 << 30, free: free << 30 };
        let of = |free, fault_age_s: Option<i64>| {
            let faults =
                fault_age_s.map(|age| (-age * NS_PER_SEC, "a bucket is damaged".to_owned())).into_iter().collect();
            let condition =
                NodeCondition { disk: gigabytes(free), disk_free_min: 5 << 30, faults, ..Default::default() };
            let facts = Facts { condition, now: 0, jobs: 0, searches_max: 0, real_time_max: 0 };
            (health(&facts), indexer(&facts)["status"].clone())
        };
        assert_eq!((of(50, None).0.0, of(9, None).0.0, of(4, None).0.0), ("green", "yellow", "red"));
        assert_eq!((of(4, None).1, of(50, None).1), (json!("stopped"), json!("normal")));
        assert_eq!((of(50, Some(60)).0.0, of(50, Some(7_200)).0.0, of(4, Some(60)).0.0), ("yellow", "green", "red"));
        assert_eq!(of(50, Some(60)).0.1["Store"]["reasons"], json!(["a bucket is damaged"]));
        assert_eq!(of(9, None).0.1["Disk Space"]["reasons"], json!(["9216 MB are free, 5120 MB must stay free"]));
    }
}
