//! Folder listings: paths from `/services` down that are not endpoints themselves but have endpoints below them.
//!
//! They are derived from the table of endpoints, so that every link is served. Not here: collections, which list their
//! entities.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::Method;
use axum::response::Response;
use axum::routing::get;
use quarry_apps::objects::{APP_SYSTEM, NOBODY};
use serde_json::Map;

use super::listing::{LISTED, page};
use super::row::{Access, Endpoint, SERVICES};
use crate::atom::{Acl, Entry, escaped};
use crate::message::ApiError;
use crate::parameters::Parameters;

/// Name of the top folder.
const ROOT: &str = "services";

/// The folders above these endpoints.
pub(crate) fn endpoints(served: &[Endpoint]) -> Vec<Endpoint> {
    let of = |(path, names): (String, BTreeSet<String>)| {
        let (names, place): (Arc<[String]>, Arc<str>) = (names.into_iter().collect(), path.as_str().into());
        let list = move |parameters: Parameters| list(parameters, Arc::clone(&place), Arc::clone(&names));
        Endpoint::new(Method::GET, path, Access::LoggedIn, "Lists the paths below.", get(list)).takes(LISTED)
    };
    children(served).into_iter().map(of).collect()
}

/// Names below each folder, by its path after the root.
fn children(served: &[Endpoint]) -> BTreeMap<String, BTreeSet<String>> {
    let rows = served.iter().map(Endpoint::row).filter(|row| row.method == Method::GET && !row.path.contains('{'));
    let paths: BTreeSet<String> =
        rows.filter_map(|row| Some(row.path.strip_prefix(SERVICES)?.strip_prefix('/')?.to_owned())).collect();
    let mut folders: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in &paths {
        let parts: Vec<&str> = path.split('/').collect();
        for (at, part) in parts.iter().enumerate() {
            folders.entry(parts[..at].join("/")).or_default().insert((*part).to_owned());
        }
    }
    folders.retain(|path, _| !paths.contains(path));
    folders
}

async fn list(parameters: Parameters, folder: Arc<str>, names: Arc<[String]>) -> Result<Response, ApiError> {
    links(&folder, names.iter().map(String::as_str), parameters)
}

/// Links to what is below a path.
pub(super) fn links<'n>(
    folder: &str,
    names: impl Iterator<Item = &'n str>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let place = if folder.is_empty() { SERVICES.to_owned() } else { format!("{SERVICES}/{folder}") };
    let entry = |name: &str| {
        let path = format!("{place}/{}", escaped(name));
        let (author, app, links) = (NOBODY.to_owned(), APP_SYSTEM.to_owned(), vec![("list", path.clone())]);
        let (acl, content) = (Acl::of_node(), Map::new());
        Entry { name: name.to_owned(), path, author, app, acl, fields: None, updated: 0, links, content }
    };
    let entries = names.map(entry).collect();
    let title = folder.rsplit('/').next().filter(|title| !title.is_empty()).unwrap_or(ROOT).to_owned();
    page(title, place, entries, &parameters.unpaged())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_what_is_served_below_it_and_is_served_by_nobody_else() {
        let endpoint = |method: Method, path: &str| {
            Endpoint::new(method, path, Access::LoggedIn, "Does something.", get(|| async { "" }))
        };
        let served = [
            endpoint(Method::GET, "a/b/c"),
            endpoint(Method::GET, "a/b/d/{name}"),
            endpoint(Method::GET, "a/e"),
            endpoint(Method::GET, "a/e/f"),
            endpoint(Method::POST, "g/h"),
        ];
        let found: Vec<(String, String)> = children(&served)
            .into_iter()
            .map(|(path, names)| (path, names.into_iter().collect::<Vec<_>>().join(" ")))
            .collect();
        let texts = |path: &str, names: &str| (path.to_owned(), names.to_owned());
        assert_eq!(found, [texts("", "a"), texts("a", "b e"), texts("a/b", "c")]);
    }
}
