//! Knowledge objects over REST: generic collections whose entities are stanzas of a conf file. A table row describes
//! each collection.
//!
//! `GET` lists and shows, `POST` creates and changes, `DELETE` removes. `ID/acl` shows and changes owner and sharing;
//! `ID/enable` and `ID/disable` switch an entity on and off, `ID/move` gives it to another user or app; `GET _new`
//! shows a template, and `POST _new` with a name creates an entity; `_reload` rereads files changed by hand.
//! [`quarry_apps::objects`] implements visibility and permissions. Not here: other actions of saved searches
//! ([`super::saved_searches`]), conf files by name ([`super::configurations`]).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use quarry_apps::objects::{APP_SYSTEM, AclChange, ConfObject, NOBODY, ObjectError, Objects, Scope};
use quarry_conf::permissions::{ADMIN_ALL_OBJECTS, SEARCH};
use quarry_conf::settings::authorize::AUTHORIZE_CONF;
use quarry_conf::text::DEFAULT_STANZA;
use quarry_conf::{Permissions, parse_bool};
use serde_json::{Map, Value};

use super::answer_shape::{AnswerShape, Content, NO_CONTENT};
use super::entity_kinds::{ALERT_ACTIONS, GLOBAL_BANNER, OTHER_PATHS, RELOAD, SHOWN_KINDS, VERBS};
pub(super) use super::entity_kinds::{KINDS, Kind, ValidateSettings, kind};
use super::listing::{LIST_PARAMETERS, select_members, select_page};
use super::path_parts::PathParts;
use super::permissions::{ACL_PARAMETERS, MOVE_PARAMETERS, acl_entry, acl_of, required_acl_change, required_move};
use super::row::{
    Access, EDIT_BANNER, EDIT_BOOKMARKS, EDIT_METRIC_SCHEMA, EDIT_SOURCETYPES, EDIT_STATSD, Endpoint, METRIC_ALERTS,
    REST_PROPERTIES, REST_PROPERTIES_SET, entities,
};
use super::search_schedules::{RANGE, RequestedTimes, schedule_of, zone_of};
use super::setting_capabilities::{check_change, check_removal};
use super::setting_types::json_value;
use super::shape::Shape;
use super::stored_searches::check_search;
use super::{run_blocking, saved_searches};
use crate::ApiState;
use crate::atom::{Acl, Entry, Feed, Fields, Form, escape_segment};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::{Parameters, Settings};

const INPUTS_CONF: &str = "inputs";
/// The conf of the node as a whole.
pub(super) const SERVER_CONF: &str = "server";

/// The collection of saved searches.
const SAVED_SEARCHES: &str = "saved/searches";
/// The message about a change of a saved search with a schedule.
const SCHEDULED: &str =
    "Scheduled searches do not run yet: the search runs when it is dispatched, and its alert does not fire.";

/// Finds a collection by the path of a request.
type ResolveKind = dyn Fn(&PathParts) -> Result<Kind, ApiError> + Send + Sync;

/// Lookup of the collection of a request.
#[derive(Clone)]
pub(super) enum KindLookup {
    /// The kind follows from the path.
    Path(Arc<ResolveKind>),
    /// The node determines the kind, which may take time.
    Node(fn(&ApiState, &PathParts) -> Result<Kind, ApiError>),
}

impl KindLookup {
    /// A lookup that returns the same kind for every request.
    pub(super) fn always(kind: Kind) -> KindLookup {
        KindLookup::Path(Arc::new(move |_| Ok(kind.clone())))
    }

    async fn find(&self, state: &ApiState, parts: &PathParts) -> Result<Kind, ApiError> {
        match self {
            KindLookup::Path(of) => of(parts),
            KindLookup::Node(of) => {
                let (of, state, parts) = (*of, state.clone(), parts.clone());
                run_blocking(move || of(&state, &parts)).await?
            }
        }
    }
}

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let of = |kind: &'static Kind| {
        let access = match kind.path.as_ref() {
            SAVED_SEARCHES => [Access::Capability(SEARCH); 2],
            path => [REST_PROPERTIES, write_capability(path)].map(Access::Capability),
        };
        rows(&kind.path, access, kind.fields, KindLookup::always(kind.clone()))
    };
    let shown = |kind: &'static Kind| read_only_rows(kind, Access::Capability(REST_PROPERTIES));
    // Alert actions of apps may contain passwords, and name programs that the node runs, so only administrators may
    // read and change them.
    let (actions, admin) = (&ALERT_ACTIONS, Access::Capability(ADMIN_ALL_OBJECTS));
    let actions = rows(&actions.path, [admin; 2], actions.fields, KindLookup::always(Kind::clone(actions)));
    let banner = single_rows(&GLOBAL_BANNER, [REST_PROPERTIES, EDIT_BANNER].map(Access::Capability));
    KINDS
        .iter()
        .chain(OTHER_PATHS.iter())
        .flat_map(of)
        .map(with_scheduled_times)
        .chain(actions)
        .chain(SHOWN_KINDS.iter().flat_map(shown))
        .chain(banner)
        .collect()
}

/// Lets the rows that show saved searches take a range of scheduled times.
fn with_scheduled_times(row: Endpoint) -> Endpoint {
    match (row.method.as_str(), row.path.strip_prefix(SAVED_SEARCHES)) {
        ("GET", Some("")) => row.takes(SCHEDULED_LIST_PARAMETERS),
        ("GET", Some("/{name}")) => row.takes(SCHEDULED_ENTITY_PARAMETERS),
        _ => row,
    }
}

/// Parameters of the list of saved searches.
const SCHEDULED_LIST_PARAMETERS: &[&str] =
    &["count", "offset", "search", "sort_key", "sort_dir", "sort_mode", "f", RANGE[0], RANGE[1]];
/// Parameters of a saved search.
const SCHEDULED_ENTITY_PARAMETERS: &[&str] = &["f", RANGE[0], RANGE[1]];

/// The capability that changes of a collection require.
fn write_capability(path: &str) -> &'static str {
    match path {
        "alerts/metric_alerts" => METRIC_ALERTS,
        "data/transforms/metric-schema" => EDIT_METRIC_SCHEMA,
        "data/transforms/statsdextractions" => EDIT_STATSD,
        "saved/bookmarks/monitoring_console" => EDIT_BOOKMARKS,
        "saved/sourcetypes" => EDIT_SOURCETYPES,
        _ => REST_PROPERTIES_SET,
    }
}

/// A handler for entities of one kind.
macro_rules! serve {
    ($kind:expr, $method:ident, $work:expr) => {{
        let kind = $kind.clone();
        $method(move |State(state): State<ApiState>, parts: PathParts, caller: Caller, form: Settings| async move {
            let request = Request::of(&state, &kind, parts, caller, form.0).await?;
            $work(state, request).await
        })
    }};
}

/// The rows of a collection and its entities; `access` is the access required for reading and for changing.
pub(super) fn rows(path: &str, access: [Access; 2], fields: Fields, kind: KindLookup) -> Vec<Endpoint> {
    let content = match path {
        SAVED_SEARCHES => Content::for_path(path, Shape::of_saved_search(fields)),
        _ => Content::for_stanza(path, fields),
    };
    let mut rows = collection_rows(path, access, (fields, &content), &kind);
    rows.extend(entity_rows(&format!("{path}/{{name}}"), access, (fields, &content), &kind));
    rows
}

/// The rows of a collection that cannot be changed, and the rows of its entities.
fn read_only_rows(kind: &Kind, read: Access) -> Vec<Endpoint> {
    let content = Content::for_stanza(&kind.path, kind.fields);
    let (path, kind) = (kind.path.clone(), &KindLookup::always(kind.clone()));
    let one = format!("{path}/{{name}}");
    let shown = "Shows the permissions of an entity.";
    let mut rows = entities(
        vec![
            Endpoint::new(Method::GET, path, read, "Lists entities.", serve!(kind, get, list)).takes(LIST_PARAMETERS),
            Endpoint::new(Method::GET, one.as_str(), read, "Shows an entity.", serve!(kind, get, show)).takes(&["f"]),
        ],
        &content,
    );
    rows.push(
        Endpoint::new(Method::GET, format!("{one}/acl"), read, shown, serve!(kind, get, show_acl))
            .answers(AnswerShape::Entities(NO_CONTENT)),
    );
    rows
}

/// The rows of a collection with a single entity.
pub(super) fn single_rows(kind: &Kind, [read, write]: [Access; 2]) -> Vec<Endpoint> {
    let (one, fields, of) = (format!("{}/{{name}}", kind.path), kind.fields, &KindLookup::always(kind.clone()));
    let mut rows = read_only_rows(kind, read);
    rows.push(
        Endpoint::new(Method::POST, one, write, "Changes an entity.", serve!(of, post, edit))
            .takes(fields.optional)
            .answers(AnswerShape::Entities(Content::for_stanza(&kind.path, fields))),
    );
    rows
}

/// The rows of an entity that is the only one of its kind, in a collection with entities of another kind.
pub(super) fn only_entity_rows(kind: &Kind, [read, write]: [Access; 2]) -> Vec<Endpoint> {
    let (one, of) = (kind.only.map_or("", |(one, _)| one), &KindLookup::always(kind.clone()));
    let path = format!("{}/{one}", kind.path);
    let rows = vec![
        Endpoint::new(Method::GET, path.as_str(), read, "Shows an entity.", serve!(of, get, show)).takes(&["f"]),
        Endpoint::new(Method::POST, path.as_str(), write, "Changes an entity.", serve!(of, post, edit))
            .takes(kind.fields.optional),
        Endpoint::new(Method::POST, format!("{path}/enable"), write, "Enables an entity.", serve!(of, post, enable)),
        Endpoint::new(Method::POST, format!("{path}/disable"), write, "Disables an entity.", serve!(of, post, disable)),
    ];
    entities(rows, &Content::for_stanza(&path, kind.fields))
}

/// Help text of `POST …/_new`.
const NEW_HELP: &str = "Creates an entity; without a name it shows the possible settings.";

fn collection_rows(
    path: &str,
    [read, write]: [Access; 2],
    (fields, content): (Fields, &Content),
    kind: &KindLookup,
) -> Vec<Endpoint> {
    let below = |name: &str| format!("{path}/{name}");
    let (new, reload_all) = ("Shows the possible settings of a new entity.", "Reloads changed files.");
    let mut rows = vec![
        Endpoint::new(Method::GET, path, read, "Lists entities.", serve!(kind, get, list)).takes(LIST_PARAMETERS),
        Endpoint::new(Method::POST, path, write, "Creates an entity.", serve!(kind, post, create))
            .needs(&["name"])
            .takes(fields.optional),
        Endpoint::new(Method::GET, below("_new"), read, new, serve!(kind, get, template)),
        Endpoint::new(Method::GET, below("_reload"), read, reload_all, serve!(kind, get, reload)),
        Endpoint::new(Method::POST, below("_reload"), read, reload_all, serve!(kind, post, reload)),
    ];
    rows = entities(rows, content);
    let answer = AnswerShape::Entities(content.clone());
    rows.push(
        Endpoint::new(Method::POST, below("_new"), write, NEW_HELP, serve!(kind, post, create_named))
            .takes(fields.optional)
            .answers(answer.clone())
            .or_answers(StatusCode::CREATED, answer),
    );
    rows
}

fn entity_rows(
    path: &str,
    [read, write]: [Access; 2],
    (fields, content): (Fields, &Content),
    kind: &KindLookup,
) -> Vec<Endpoint> {
    let below = |name: &str| format!("{path}/{name}");
    let (acl, change_acl) = ("Shows the permissions of an entity.", "Changes the permissions of an entity.");
    let give = "Gives an entity to another user or app.";
    let mut rows = vec![
        Endpoint::new(Method::GET, path, read, "Shows an entity.", serve!(kind, get, show)).takes(&["f"]),
        Endpoint::new(Method::POST, path, write, "Changes an entity.", serve!(kind, post, edit)).takes(fields.optional),
        Endpoint::new(Method::DELETE, path, write, "Deletes an entity.", serve!(kind, delete, remove)),
        Endpoint::new(Method::POST, below("enable"), write, "Enables an entity.", serve!(kind, post, enable)),
        Endpoint::new(Method::POST, below("disable"), write, "Disables an entity.", serve!(kind, post, disable)),
        Endpoint::new(Method::POST, below("move"), write, give, serve!(kind, post, move_entity)).takes(MOVE_PARAMETERS),
    ];
    rows = entities(rows, content);
    rows.extend(entities(
        vec![
            Endpoint::new(Method::GET, below("acl"), read, acl, serve!(kind, get, show_acl)),
            Endpoint::new(Method::POST, below("acl"), write, change_acl, serve!(kind, post, set_acl))
                .takes(ACL_PARAMETERS),
        ],
        &NO_CONTENT,
    ));
    rows
}

/// A request to a collection.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) scope: Scope,
    pub(super) caller: Caller,
    pub(super) parameters: Parameters,
    parts: PathParts,
}

impl Request {
    async fn of(
        state: &ApiState,
        kind: &KindLookup,
        parts: PathParts,
        caller: Caller,
        parameters: Parameters,
    ) -> Result<Request, ApiError> {
        let mut kind = kind.find(state, &parts).await?;
        if kind.conf == INPUTS_CONF {
            kind.input_host = input_host(state).await?;
        }
        if kind.is_by_name && kind.conf == SERVER_CONF {
            kind.node_name = node_name(state).await?;
        }
        let scope = match kind.is_of_node {
            true => Scope::for_namespace(NOBODY, APP_SYSTEM)?,
            false => scope_of(&parts, &caller)?,
        };
        let only = || kind.only.map(|(_, stanza)| stanza.to_owned());
        let name = parts.get("name").map(|name| kind.stanza(name)).or_else(only).unwrap_or_default();
        Ok(Request { kind, name, scope, caller, parameters, parts })
    }

    fn settings(&self) -> Result<Vec<(String, String)>, ApiError> {
        let is_setting = |key: &str| !matches!(key, "output_mode" | "name" | "namespace");
        let given = self.parameters.clone().into_settings()?.into_iter().filter(|(key, _)| is_setting(key));
        // As in Splunk, `iseval` is stored as 1 or 0 even if another boolean word was sent, because clients expect 1 or
        // 0.
        let stored = |(key, value): (String, String)| match parse_bool(&value).filter(|_| key == "iseval") {
            Some(is_set) => (key, u8::from(is_set).to_string()),
            None => (key, value),
        };
        let mut settings: Vec<(String, String)> = given.map(stored).collect();
        (self.kind.expand)(&self.name, &mut settings);
        Ok(settings)
    }

    /// Fails if a change of the stanza requires a capability that the caller does not have.
    fn check_capability(&self, stanza: &str, settings: &[(String, String)]) -> Result<(), ApiError> {
        check_change(&self.caller.permissions, &self.kind.conf, stanza, settings)
    }

    /// Fails if a setting that is a search does not parse.
    async fn check_search(&self, state: &ApiState, settings: &[(String, String)]) -> Result<(), ApiError> {
        match settings.iter().find(|(key, _)| Some(key.as_str()) == self.kind.search_setting) {
            Some((_, text)) => check_search(state, &self.caller, &self.parts, text).await,
            None => Ok(()),
        }
    }

    /// Fails if a change gives the entity another name. Names of entities whose stanzas have a prefix are not compared,
    /// because such a name may contain a setting (`HOST:PORT`).
    fn check_not_renamed(&self) -> Result<(), ApiError> {
        let is_other = |name: &&str| self.kind.prefix.is_empty() && self.kind.only.is_none() && **name != self.name;
        match self.parameters.get("name").filter(is_other) {
            Some(name) => Err(ApiError::bad_request(format!(
                "name={name}: {} cannot be renamed; create an entity of this name and delete the old one",
                self.name
            ))),
            None => Ok(()),
        }
    }

    fn entry(&self, object: &ConfObject) -> Entry {
        entry(&self.kind, object)
    }

    /// The collection with the times that its entities show. Without a valid configuration of searches, saved searches
    /// show no times, so that they can still be read and changed.
    async fn kind_with_times(&self, state: &ApiState, range: &Parameters) -> Result<Kind, ApiError> {
        let mut kind = self.kind.clone();
        if kind.conf == saved_searches::CONF
            && !kind.is_by_name
            && let Ok(zone) = zone_of(state, &self.caller).await
        {
            kind.times = Some(RequestedTimes::of(state.auth.now(), zone, range)?);
        }
        Ok(kind)
    }

    /// The page of these objects that the parameters select. The times of schedules are computed off the async threads
    /// and only for the objects of the page, unless a filter or an order may need the next times of all objects.
    async fn select(
        &self,
        state: &ApiState,
        objects: Vec<ConfObject>,
        parameters: Parameters,
    ) -> Result<Feed, ApiError> {
        let mut kind = self.kind_with_times(state, &self.parameters).await?;
        run_blocking(move || {
            let is_given = |name: &&str| parameters.get(name).is_some_and(|value| !value.is_empty());
            let times = kind.times.clone();
            kind.times = times.clone().filter(|_| ["search", "sort_key"].iter().any(is_given));
            let entries: Vec<Entry> = objects.iter().map(|object| entry(&kind, object)).collect();
            let paths = entries.iter().map(|entry| entry.path.clone());
            let by_path: HashMap<String, &ConfObject> = paths.zip(&objects).collect();
            let mut feed = select_page(kind.title.clone(), format!("/services/{}", kind.path), entries, &parameters)?;
            if let Some(times) = &times {
                times.add_to(&mut feed.entries, &by_path);
                select_members(&mut feed.entries, &parameters.list("f"));
            }
            Ok::<Feed, ApiError>(feed)
        })
        .await?
    }

    /// An entity as an answer to a change.
    async fn answer(&self, state: &ApiState, object: &ConfObject) -> Result<Response, ApiError> {
        let form = Form::of(self.parameters.get("output_mode"));
        // The change has made the cached search services invalid, so only an entity with a schedule needs a new one.
        let (kind, scheduled) = match schedule_of(object) {
            Some(_) => (self.kind_with_times(state, &Parameters::default()).await?, Some(Cow::Borrowed(SCHEDULED))),
            None => (self.kind.clone(), None),
        };
        let feed = Feed::of(kind.title.clone(), format!("/services/{}", kind.path), vec![entry(&kind, object)]);
        Ok(Feed { notice: kind.notice.about(state, &object.name).or(scheduled), ..feed }.answer(form))
    }
}

/// Host of events whose input sets no host.
pub(super) async fn input_host(state: &ApiState) -> Result<Arc<str>, ApiError> {
    let node = state.node.clone();
    run_blocking(move || node.condition().input_host.into()).await
}

/// The name of the node, which server.conf need not set.
pub(super) async fn node_name(state: &ApiState) -> Result<Arc<str>, ApiError> {
    let node = state.node.clone();
    run_blocking(move || node.condition().name.into()).await
}

/// The scope of a request: the scope of the namespace in its path, else the caller's scope.
pub(super) fn scope_of(parts: &PathParts, caller: &Caller) -> Result<Scope, ApiError> {
    match (parts.get("user"), parts.get("app")) {
        (Some(user), Some(app)) => Ok(Scope::for_namespace(user, app)?),
        _ => Ok(Scope::for_caller(&caller.identity.user)),
    }
}

impl From<ObjectError> for ApiError {
    fn from(error: ObjectError) -> ApiError {
        let text = error.to_string();
        match error {
            ObjectError::Unknown(_) => ApiError::with_status(StatusCode::NOT_FOUND, text),
            ObjectError::Exists(_) => ApiError::with_status(StatusCode::CONFLICT, text),
            ObjectError::Denied(_) => ApiError::forbidden(text),
            ObjectError::Invalid(_) => ApiError::bad_request(text),
            ObjectError::Failed(_) => ApiError::internal(text),
            ObjectError::Busy(_) => ApiError::too_many(text),
        }
    }
}

/// Runs work on the objects off the async threads.
pub(super) async fn with_objects<T: Send + 'static>(
    state: &ApiState,
    caller: &Caller,
    work: impl FnOnce(&Objects, &Permissions) -> Result<T, ObjectError> + Send + 'static,
) -> Result<T, ApiError> {
    let (objects, permissions) = (Arc::clone(&state.objects), Arc::clone(&caller.permissions));
    let work = move || work(&objects, &permissions).map_err(|error| error.relative_to(objects.data_dir()));
    Ok(run_blocking(work).await??)
}

/// Like [`with_objects`], for changes of a conf.
pub(super) async fn change<T: Send + 'static>(
    state: &ApiState,
    caller: &Caller,
    conf: &str,
    work: impl FnOnce(&Objects, &Permissions) -> Result<T, ObjectError> + Send + 'static,
) -> Result<T, ApiError> {
    let made = with_objects(state, caller, work).await?;
    notify_changed(state, conf).await?;
    Ok(made)
}

/// Notifies the node that a conf has changed. Changed roles and a changed session timeout apply at once to all
/// sessions.
pub(super) async fn notify_changed(state: &ApiState, conf: &str) -> Result<(), ApiError> {
    let (node, auth, conf) = (state.node.clone(), Arc::clone(&state.auth), conf.to_owned());
    run_blocking(move || {
        node.notify_configuration_changed(&conf);
        if conf == AUTHORIZE_CONF || conf == super::apps::CONF {
            auth.set_roles(|| node.roles());
        }
        if conf == SERVER_CONF || conf == super::apps::CONF {
            auth.set_session_timeout(node.condition().session_timeout_s);
        }
    })
    .await
}

async fn list(state: ApiState, request: Request) -> Result<Response, ApiError> {
    Ok(list_feed(&state, &request).await?.answer(Form::of(request.parameters.get("output_mode"))))
}

async fn list_feed(state: &ApiState, request: &Request) -> Result<Feed, ApiError> {
    let (scope, kind) = (request.scope.clone(), request.kind.clone());
    let (conf, is_by_name) = (kind.conf.clone(), kind.is_by_name);
    let objects = with_objects(state, &request.caller, move |objects, viewer| {
        if is_by_name {
            objects.check_conf_exists(&conf, &scope)?;
        }
        objects.list(&conf, &scope, viewer)
    });
    let mut objects = objects.await?;
    objects.retain(|object| kind.includes(object));
    if objects.is_empty() {
        objects.extend(kind.default_entity(&request.caller.permissions));
    }
    request.select(state, objects, request.parameters.clone()).await
}

async fn find_object(state: &ApiState, request: &Request) -> Result<ConfObject, ApiError> {
    let (scope, kind, name) = (request.scope.clone(), request.kind.clone(), request.name.clone());
    let show = move |objects: &Objects, viewer: &Permissions| {
        let object = match objects.get(&kind.conf, &name, &scope, viewer) {
            Err(ObjectError::Unknown(_)) if kind.only.is_some_and(|(_, stanza)| stanza == name) => {
                return kind.default_entity(viewer).ok_or(ObjectError::Unknown(name));
            }
            found => found?,
        };
        kind.check_includes(&object).map(|()| object)
    };
    with_objects(state, &request.caller, show).await
}

/// The objects that a request names: one object, or all objects of this name if the namespace covers all users or all
/// apps.
async fn find_targets(state: &ApiState, request: &Request) -> Result<Vec<ConfObject>, ApiError> {
    if request.scope.includes_shadowed() {
        let (scope, kind, name) = (request.scope.clone(), request.kind.clone(), request.name.clone());
        let of_conf = kind.conf.clone();
        let listed =
            with_objects(state, &request.caller, move |objects, viewer| objects.list(&of_conf, &scope, viewer));
        let mut objects = listed.await?;
        objects.retain(|object| object.name == name && kind.includes(object));
        if objects.len() > 1 {
            return Ok(objects);
        }
    }
    Ok(vec![find_object(state, request).await?])
}

async fn show(state: ApiState, request: Request) -> Result<Response, ApiError> {
    let objects = find_targets(&state, &request).await?;
    let chosen: Vec<(String, String)> = request
        .parameters
        .clone()
        .into_pairs()
        .into_iter()
        .filter(|(key, _)| matches!(key.as_str(), "f" | "output_mode"))
        .collect();
    let form = Form::of(request.parameters.get("output_mode"));
    Ok(request.select(&state, objects, Parameters::of(chosen)).await?.answer(form))
}

/// `POST …/_new` creates an entity if it has a name. Splunk's SDK for JavaScript posts changes of the defaults here
/// without a name, and its tests expect an answer and no change.
async fn create_named(state: ApiState, request: Request) -> Result<Response, ApiError> {
    match request.parameters.get("name") {
        Some(_) => create(state, request).await,
        None => template(state, request).await,
    }
}

/// The defaults of a new entity. Requests to the collection cannot change them, because a change affects all other
/// entities; requests to `properties` can ([`super::configurations`]).
async fn template(state: ApiState, request: Request) -> Result<Response, ApiError> {
    let default = find_object(&state, &Request { name: DEFAULT_STANZA.to_owned(), ..request.clone() }).await?;
    let content = request.entry(&default).content;
    let (path, name) = (format!("/services/{}/_new", request.kind.path), "_new".to_owned());
    let (author, app) = (request.caller.identity.user.clone(), super::jobs::APP.to_owned());
    let acl = Acl { can_write: true, ..Acl::for_node() };
    let (fields, links) = (Some(request.kind.fields), Vec::new());
    let entry = Entry { name, path: path.clone(), author, app, acl, fields, updated: 0, links, content };
    Ok(Feed::of(request.kind.title.clone(), path, vec![entry]).answer(Form::of(request.parameters.get("output_mode"))))
}

async fn reload(state: ApiState, request: Request) -> Result<Response, ApiError> {
    notify_changed(&state, &request.kind.conf).await?;
    let feed = Feed::of(request.kind.title.clone(), format!("/services/{}", request.kind.path), Vec::new());
    Ok(feed.answer(Form::of(request.parameters.get("output_mode"))))
}

async fn create(state: ApiState, request: Request) -> Result<Response, ApiError> {
    let name = request.parameters.required("name")?.to_owned();
    let (scope, kind, mut settings) = (request.scope.clone(), request.kind.clone(), request.settings()?);
    kind.check(&settings)?;
    request.check_capability(&kind.stanza(&name), &settings)?;
    let name = (kind.make_name)(&kind, &name, &mut settings)?;
    (kind.validate)(&state, &kind, Some(&name), &settings)?;
    let name = kind.stanza(&name);
    if let Some(missing) = kind.fields.required.iter().find(|key| !settings.iter().any(|(given, _)| given == *key)) {
        return Err(ApiError::missing_argument(missing));
    }
    request.check_search(&state, &settings).await?;
    check_by_program(&state, &kind, &name, settings.iter().cloned().collect()).await?;
    let conf = kind.conf.clone();
    let make = move |objects: &Objects, viewer: &Permissions| {
        if let Some(beside) = kind.check_conflict {
            beside(&kind, &name, &objects.list(&kind.conf, &scope, viewer)?)?;
        }
        let made = match objects.create(&kind.conf, &name, &settings, &scope, viewer) {
            // For clients, the only entity always exists: they configure it with the request that creates an entity.
            Err(ObjectError::Exists(_)) if kind.only.is_some_and(|(_, stanza)| stanza == name) => {
                objects.edit(&kind.conf, &name, &settings, &scope, viewer)?
            }
            made => made?,
        };
        if kind.includes(&made) {
            return Ok(made);
        }
        // The collection would never list the new stanza, so it is removed again.
        objects.remove(&kind.conf, &name, &scope, viewer)?;
        Err(ObjectError::Invalid(format!(
            "{name} would not be listed under {0} with these settings: give the settings that {0} requires",
            kind.path
        )))
    };
    let made = change(&state, &request.caller, &conf, make).await?;
    Ok((StatusCode::CREATED, request.answer(&state, &made).await?).into_response())
}

async fn edit(state: ApiState, request: Request) -> Result<Response, ApiError> {
    let settings = request.settings()?;
    request.kind.check(&settings)?;
    request.check_not_renamed()?;
    (request.kind.validate)(&state, &request.kind, None, &settings)?;
    (request.kind.validate_edit)(&request.name, &settings)?;
    request.check_search(&state, &settings).await?;
    if request.kind.check_by_program.is_some() {
        let mut all = find_object(&state, &request).await?.settings;
        all.extend(settings.iter().cloned());
        check_by_program(&state, &request.kind, &request.name, all).await?;
    }
    write(state, request, settings).await
}

/// Lets the program of an input check a stanza with these settings, if the kind of entity has such a check.
async fn check_by_program(
    state: &ApiState,
    kind: &Kind,
    stanza: &str,
    settings: BTreeMap<String, String>,
) -> Result<(), ApiError> {
    let Some(check) = kind.check_by_program else { return Ok(()) };
    let (state, kind, stanza) = (state.clone(), kind.clone(), stanza.to_owned());
    run_blocking(move || check(&state, &kind, &stanza, &settings)).await?
}

async fn write(state: ApiState, request: Request, settings: Vec<(String, String)>) -> Result<Response, ApiError> {
    let made = put(&state, &request, settings).await?;
    request.answer(&state, &made).await
}

async fn put(state: &ApiState, request: &Request, settings: Vec<(String, String)>) -> Result<ConfObject, ApiError> {
    request.check_capability(&request.name, &settings)?;
    let (scope, kind, name) = (request.scope.clone(), request.kind.clone(), request.name.clone());
    let conf = kind.conf.clone();
    let make = move |objects: &Objects, viewer: &Permissions| match objects.get(&kind.conf, &name, &scope, viewer) {
        Err(ObjectError::Unknown(_)) if kind.only.is_some_and(|(_, stanza)| stanza == name) => {
            objects.create(&kind.conf, &name, &settings, &scope, viewer)
        }
        found => {
            kind.check_includes(&found?)?;
            objects.edit(&kind.conf, &name, &settings, &scope, viewer)
        }
    };
    change(state, &request.caller, &conf, make).await
}

async fn enable(state: ApiState, request: Request) -> Result<Response, ApiError> {
    write(state, request, vec![("disabled".to_owned(), "0".to_owned())]).await
}

async fn disable(state: ApiState, request: Request) -> Result<Response, ApiError> {
    write(state, request, disabled()).await
}

/// The setting of a disabled entity.
fn disabled() -> Vec<(String, String)> {
    vec![("disabled".to_owned(), "1".to_owned())]
}

async fn remove(state: ApiState, request: Request) -> Result<Response, ApiError> {
    if request.kind.only.is_some() {
        // Clients expect the only entity of a collection to exist: as in Splunk, its removal disables it.
        put(&state, &request, disabled()).await?;
    } else {
        remove_stanza(&state, &request).await?;
    }
    let request = Request { parameters: request.parameters.keep_only("output_mode"), ..request };
    let told = request.kind.notice.about(&state, &request.name);
    let feed = Feed { notice: told, ..list_feed(&state, &request).await? };
    Ok(feed.answer(Form::of(request.parameters.get("output_mode"))))
}

async fn remove_stanza(state: &ApiState, request: &Request) -> Result<(), ApiError> {
    request.check_capability(&request.name, &[])?;
    let (scope, kind, name) = (request.scope.clone(), request.kind.clone(), request.name.clone());
    let (conf, of_data) = (kind.conf.clone(), state.clone());
    let gone = move |objects: &Objects, viewer: &Permissions| {
        let object = objects.get(&kind.conf, &name, &scope, viewer)?;
        kind.check_includes(&object)?;
        if let Err(refused) = check_removal(viewer, &object) {
            return Ok(Err(refused));
        }
        let remove_data = |object: &ConfObject| (kind.move_data)(&of_data, object, None);
        Ok(objects.remove_with_data(&kind.conf, &name, &scope, viewer, remove_data))
    };
    change(state, &request.caller, &conf, gone).await?
}

async fn show_acl(state: ApiState, request: Request) -> Result<Response, ApiError> {
    let object = find_object(&state, &request).await?;
    Ok(acl_answer(&request, &object))
}

fn acl_answer(request: &Request, object: &ConfObject) -> Response {
    let entry = acl_entry(request.entry(object));
    Feed::of(request.kind.title.clone(), entry.path.clone(), vec![entry])
        .answer(Form::of(request.parameters.get("output_mode")))
}

async fn set_acl(state: ApiState, request: Request) -> Result<Response, ApiError> {
    let asked = required_acl_change(&state.auth, &request.parameters)?;
    let object = apply_acl_change(&state, &request, asked).await?;
    Ok(acl_answer(&request, &object))
}

async fn apply_acl_change(state: &ApiState, request: &Request, asked: AclChange) -> Result<ConfObject, ApiError> {
    request.check_capability(&request.name, &[])?;
    let (scope, kind, name) = (request.scope.clone(), request.kind.clone(), request.name.clone());
    let conf = kind.conf.clone();
    let make = move |objects: &Objects, viewer: &Permissions| {
        let before = objects.get(&kind.conf, &name, &scope, viewer)?;
        kind.check_includes(&before)?;
        Ok((before, objects.set_acl(&kind.conf, &name, &asked, &scope, viewer)?))
    };
    let (before, moved) = change(state, &request.caller, &conf, make).await?;
    let (of_data, move_data) = (state.clone(), request.kind.move_data);
    run_blocking(move || move_data(&of_data, &before, Some(&moved)).map(|()| moved)).await?
}

/// Gives an entity to another user or app.
async fn move_entity(state: ApiState, request: Request) -> Result<Response, ApiError> {
    let object = find_object(&state, &request).await?;
    let asked = required_move(&state.auth, &request.parameters, &object)?;
    let moved = apply_acl_change(&state, &request, asked).await?;
    request.answer(&state, &moved).await
}

/// An object as an entity of a collection.
pub(super) fn entry(kind: &Kind, object: &ConfObject) -> Entry {
    let (owner, app) = (object.location.user().unwrap_or(NOBODY), object.location.app());
    let collection = format!("/servicesNS/{}/{}/{}", escape_segment(owner), escape_segment(app), kind.path);
    let name = kind.entity(&object.name).to_owned();
    let path = format!("{collection}/{}", escape_segment(&name));
    let mut links = vec![("list", path.clone()), (RELOAD, format!("{collection}/{RELOAD}"))];
    if object.can_write {
        links.push(("edit", path.clone()));
        if object.is_local {
            links.push(("remove", path.clone()));
        }
        let switch = if object.is_disabled() { "enable" } else { "disable" };
        links.push((switch, format!("{path}/{switch}")));
        links.push(("move", format!("{path}/move")));
    }
    links.retain(|(name, _)| !VERBS.contains(name) || kind.verbs.contains(name));
    links.extend(kind.more.iter().map(|name| (*name, format!("{path}/{name}"))));
    let value = |(key, text): (String, String)| {
        // If the request names the conf, a value is never shown as a list: the setting may have the same name as a list
        // of another conf.
        let value = Some(json_value(&key, &text)).filter(|value| !kind.is_by_name || !value.is_array());
        (key, value.unwrap_or_else(|| text.into()))
    };
    let mut settings = object.settings.clone();
    (kind.fill)(kind, object, &mut settings);
    let mut content: Map<String, Value> = settings.into_iter().map(value).collect();
    content.entry("disabled").or_insert(Value::Bool(false));
    content.insert("eai:appName".to_owned(), app.into());
    content.insert("eai:userName".to_owned(), owner.into());
    let acl = acl_of(object);
    let (author, app) = (object.owner.clone(), app.to_owned());
    Entry { name, path, author, app, acl, fields: Some(kind.fields), updated: 0, links, content }
}
