//! Folder listings: paths below `/services` that are not endpoints themselves but have endpoints below them.
//!
//! The listings are derived from the table of endpoints, so that every link is served. An entry has the link `create`
//! if entities can be created below its path; by this link, Splunk's SDKs distinguish collections from folders. Kinds
//! of inputs that come with apps are listed, too. Not here: collections, which list their entities.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::extract::State;
use axum::http::Method;
use axum::response::Response;
use axum::routing::get;
use quarry_apps::objects::{APP_SYSTEM, NOBODY};
use serde_json::Map;

use super::answer_shape::{AnswerShape, NO_CONTENT};
use super::listing::{LIST_PARAMETERS, page};
use super::row::{Access, Endpoint, LIST_INPUTS, SERVICES};
use super::run_blocking;
use crate::ApiState;
use crate::atom::{Acl, Entry, escape_segment};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;

/// Path of the folder that lists the kinds of inputs.
const INPUTS: &str = "data/inputs";
/// Name of the template of a new entity, below its collection.
const TEMPLATE: &str = "_new";
/// Name of the top folder.
const ROOT: &str = "services";

/// The folders above these endpoints.
pub(crate) fn endpoints(served: &[Endpoint]) -> Vec<Endpoint> {
    let of = |(path, children): (String, BTreeSet<Child>)| {
        let (children, place): (Arc<[Child]>, Arc<str>) = (children.into_iter().collect(), path.as_str().into());
        let list = move |State(state): State<ApiState>, caller: Caller, parameters: Parameters| {
            list(state, caller, parameters, Arc::clone(&place), Arc::clone(&children))
        };
        Endpoint::new(Method::GET, path, Access::LoggedIn, "Lists the paths below this one.", get(list))
            .takes(LIST_PARAMETERS)
            .answers(AnswerShape::Entities(NO_CONTENT))
    };
    children(served).into_iter().map(of).collect()
}

/// Entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Child {
    name: String,
    /// Whether entities can be created below the entry.
    is_collection: bool,
    /// Whether the entry has a template of a new entity, which is the target of Splunk's `create` link.
    has_template: bool,
}

impl Child {
    pub(super) fn collection(name: &str) -> Child {
        Child { name: name.to_owned(), is_collection: true, has_template: false }
    }
}

/// Entries of each folder, by its path after the root.
fn children(served: &[Endpoint]) -> BTreeMap<String, BTreeSet<Child>> {
    let paths_of = |method: Method| served.iter().filter(move |row| row.method == method).map(Endpoint::full_path);
    let creating: BTreeSet<String> = paths_of(Method::POST).collect();
    let shown = paths_of(Method::GET).filter(|path| !path.contains('{'));
    let paths: BTreeSet<String> =
        shown.filter_map(|path| Some(path.strip_prefix(SERVICES)?.strip_prefix('/')?.to_owned())).collect();
    let mut folders: BTreeMap<String, BTreeSet<Child>> = BTreeMap::new();
    for path in &paths {
        let parts: Vec<&str> = path.split('/').collect();
        for (at, part) in parts.iter().enumerate() {
            let path = parts[..=at].join("/");
            let is_collection = creating.contains(&format!("{SERVICES}/{path}"));
            let has_template = paths.contains(&format!("{path}/{TEMPLATE}"));
            let child = Child { name: (*part).to_owned(), is_collection, has_template };
            folders.entry(parts[..at].join("/")).or_default().insert(child);
        }
    }
    folders.retain(|path, _| !paths.contains(path));
    folders
}

async fn list(
    state: ApiState,
    caller: Caller,
    parameters: Parameters,
    folder: Arc<str>,
    children: Arc<[Child]>,
) -> Result<Response, ApiError> {
    let mut children = children.to_vec();
    if folder.as_ref() == INPUTS && caller.permissions.has_capability(LIST_INPUTS) {
        let node = state.node.clone();
        let kinds = run_blocking(move || node.modular_inputs()).await?;
        children.extend(kinds.iter().map(|kind| Child { has_template: true, ..Child::collection(&kind.scheme) }));
    }
    links(&folder, children.iter(), parameters)
}

/// Links to the entries below a path.
pub(super) fn links<'c>(
    folder: &str,
    children: impl Iterator<Item = &'c Child>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let place = if folder.is_empty() { SERVICES.to_owned() } else { format!("{SERVICES}/{folder}") };
    let entry = |Child { name, is_collection, has_template }: &Child| {
        let path = format!("{place}/{}", escape_segment(name));
        let (author, app) = (NOBODY.to_owned(), APP_SYSTEM.to_owned());
        let mut links = vec![("list", path.clone())];
        if *is_collection {
            let create = if *has_template { format!("{path}/{TEMPLATE}") } else { path.clone() };
            links.push(("create", create));
        }
        let (acl, content) = (Acl::for_node(), Map::new());
        Entry { name: name.clone(), path, author, app, acl, fields: None, updated: 0, links, content }
    };
    let entries = children.map(entry).collect();
    let title = folder.rsplit('/').next().filter(|title| !title.is_empty()).unwrap_or(ROOT).to_owned();
    page(title, place, entries, &parameters.unpaged())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_list_their_endpoints_and_have_no_other_handler() {
        let endpoint = |method: Method, path: &str| {
            Endpoint::new(method, path, Access::LoggedIn, "Does something.", get(|| async { "" }))
        };
        let served = [
            endpoint(Method::GET, "a/b/c"),
            endpoint(Method::GET, "a/b/d/{name}"),
            endpoint(Method::GET, "a/e"),
            endpoint(Method::GET, "a/e/f"),
            endpoint(Method::POST, "g/h"),
            endpoint(Method::POST, "a/e"),
        ];
        let found: Vec<(String, String)> = children(&served)
            .into_iter()
            .map(|(path, children)| {
                let shown = |child: Child| format!("{}{}", child.name, if child.is_collection { "+" } else { "" });
                (path, children.into_iter().map(shown).collect::<Vec<_>>().join(" "))
            })
            .collect();
        let texts = |path: &str, names: &str| (path.to_owned(), names.to_owned());
        assert_eq!(found, [texts("", "a"), texts("a", "b e+"), texts("a/b", "c")]);
    }
}
