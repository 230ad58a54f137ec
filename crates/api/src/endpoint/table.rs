//! The table of endpoints: what each is called, takes of its caller and takes as parameters, and what serves it.
//!
//! A row is method, path, access, a sentence and a handler; families give their rows ([`Endpoint`]), and this is the one list of
//! all. The router is made of it, requests are checked against it ([`super::access`]), the API's description and the manual are
//! printed from it. A handler that is not in the table is never reached.

use std::sync::LazyLock;

use axum::Router;
use axum::http::Method;
use axum::routing::MethodRouter;

use super::access::Access;
use crate::ApiState;

/// Where paths begin without a namespace.
pub(crate) const SERVICES: &str = "/services";
/// Where they begin with that of a user and an app.
pub(crate) const NAMESPACE: &str = "/servicesNS/{user}/{app}";

/// One method of a path.
#[derive(Clone)]
pub(crate) struct Endpoint {
    method: Method,
    /// Path behind a root, with `{names}` of its parts.
    path: String,
    access: Access,
    /// Whether it is also served below a namespace.
    is_namespaced: bool,
    /// Parameters, besides those that every collection takes.
    takes: &'static [&'static str],
    /// Parameters that must be there.
    needs: &'static [&'static str],
    /// What it does.
    summary: &'static str,
    serve: MethodRouter<ApiState>,
}

/// A row of the table without what serves it, for pages and tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointRow {
    /// HTTP method; `HEAD` is as `GET`.
    pub method: Method,
    /// Path from `/services`, with `{names}` of its parts.
    pub path: String,
    /// What it takes of its caller.
    pub access: Access,
    /// Whether it is also served below `/servicesNS/USER/APP`.
    pub is_namespaced: bool,
    /// Parameters it reads.
    pub takes: &'static [&'static str],
    /// Parameters that must be there.
    pub needs: &'static [&'static str],
    /// What it does.
    pub summary: &'static str,
}

impl Endpoint {
    /// A row; `path` is behind a root. It is served below namespaces, too.
    pub(crate) fn new(
        method: Method,
        path: impl Into<String>,
        access: Access,
        summary: &'static str,
        serve: MethodRouter<ApiState>,
    ) -> Endpoint {
        let path = path.into();
        Endpoint { method, path, access, is_namespaced: true, takes: &[], needs: &[], summary, serve }
    }

    /// The same, served without a namespace only.
    pub(crate) fn of_node(self) -> Endpoint {
        Endpoint { is_namespaced: false, ..self }
    }

    /// The same with these parameters.
    pub(crate) fn takes(self, takes: &'static [&'static str]) -> Endpoint {
        Endpoint { takes, ..self }
    }

    /// The same, which cannot do without these parameters.
    pub(crate) fn needs(self, needs: &'static [&'static str]) -> Endpoint {
        Endpoint { needs, ..self }
    }

    fn row(&self) -> EndpointRow {
        let Endpoint { method, path, access, is_namespaced, takes, needs, summary, serve: _ } = self.clone();
        let path = if path.is_empty() { "/".to_owned() } else { format!("{SERVICES}/{path}") };
        EndpointRow { method, path, access, is_namespaced, takes, needs, summary }
    }
}

/// All endpoints.
fn all() -> Vec<Endpoint> {
    let families = [
        super::root::endpoints(),
        super::auth::endpoints(),
        super::users::endpoints(),
        super::jobs::endpoints(),
        super::job_results::endpoints(),
        super::search_jobs::endpoints(),
        super::entities::endpoints(),
        super::configurations::endpoints(),
        super::saved_searches::endpoints(),
        super::node_entries::endpoints(),
        super::fixed_facts::endpoints(),
        super::search_language::endpoints(),
        super::receivers::endpoints(),
        super::passwords::endpoints(),
        super::apps::endpoints(),
        super::indexes::endpoints(),
        super::roles::endpoints(),
        super::views::endpoints(),
        super::oneshot::endpoints(),
        super::preview::endpoints(),
        super::buckets::endpoints(),
        super::collector_tokens::endpoints(),
    ];
    families.into_iter().flatten().collect()
}

/// The rows of all endpoints.
pub static ENDPOINTS: LazyLock<Vec<EndpointRow>> = LazyLock::new(|| all().iter().map(Endpoint::row).collect());

/// What serves them.
pub(crate) fn router() -> Router<ApiState> {
    let mut router = Router::new();
    for endpoint in all() {
        if endpoint.path.is_empty() {
            router = router.route("/", endpoint.serve);
            continue;
        }
        if endpoint.is_namespaced {
            router = router.route(&format!("{NAMESPACE}/{}", endpoint.path), endpoint.serve.clone());
        }
        router = router.route(&format!("{SERVICES}/{}", endpoint.path), endpoint.serve);
    }
    router
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_row_says_what_it_does_and_is_there_once() {
        let mut known = BTreeSet::new();
        for row in ENDPOINTS.iter() {
            assert!(known.insert((row.method.to_string(), row.path.clone())), "{} {} twice", row.method, row.path);
            assert!(row.summary.ends_with('.') && row.summary.len() > 10, "{}: {:?}", row.path, row.summary);
            assert!(row.path.starts_with('/') && !row.path.contains("//"), "{}", row.path);
        }
        // It panics where two rows are in each other's way.
        drop(router());
    }
}
