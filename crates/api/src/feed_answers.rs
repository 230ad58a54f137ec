//! Writes the bodies of answers with entities ([`AnsweredFeed`]), after their handlers: ids begin with the address by
//! which the client reached the node, and collections have links to their actions.
//!
//! Not here: the format of entities ([`crate::atom`]), links of single entities (their families).

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header;
use axum::http::uri::{Authority, Scheme};
use axum::middleware::Next;
use axum::response::Response;

use crate::ApiState;
use crate::atom::{AnsweredFeed, FeedContext};
use crate::endpoint::access::links_of;

/// Maximum bytes of the host and port in ids, because each entity repeats them; a longer address is omitted. A host
/// name has at most 253 bytes.
const AUTHORITY_BYTES_MAX: usize = 260;

/// Writes the body of an answer with entities.
pub(crate) async fn write_feeds(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let (base, asked) = (base_of(&request), request.uri().path().to_owned());
    let mut answer = next.run(request).await;
    if let Some(feed) = answer.extensions_mut().remove::<AnsweredFeed>() {
        let path = path_in_namespace(&asked, feed.path());
        let context = FeedContext { base, now: state.auth.now(), links: links_of(&path), path };
        // The handler does not know the length.
        answer.headers_mut().remove(header::CONTENT_LENGTH);
        *answer.body_mut() = Body::from(feed.body(&context));
    }
    answer
}

/// The address of the node as the client wrote it; empty if the request does not tell it, as within the process, or if
/// it is not the address of a node.
fn base_of(request: &Request) -> String {
    let is_of_node = |host: &Authority| host.as_str().len() <= AUTHORITY_BYTES_MAX && !host.as_str().contains('@');
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    let authority = host.or_else(|| request.uri().authority().cloned()).filter(is_of_node);
    match (authority, request.extensions().get::<Scheme>()) {
        (Some(authority), Some(scheme)) => format!("{scheme}://{authority}"),
        _ => String::new(),
    }
}

/// The path of a collection, in the namespace of the path that the client asked for.
fn path_in_namespace(asked: &str, path: &str) -> String {
    let namespace = asked.strip_prefix("/servicesNS/").map(|rest| rest.splitn(3, '/').take(2).collect::<Vec<_>>());
    match (namespace.as_deref(), path.strip_prefix("/services/")) {
        (Some([user, app]), Some(below)) => format!("/servicesNS/{user}/{app}/{below}"),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_the_one_that_the_client_wrote() {
        let base = |uri: &str, host: Option<&str>, scheme: Option<Scheme>| {
            let mut request = Request::builder().uri(uri);
            request = host.into_iter().fold(request, |request, host| request.header(header::HOST, host));
            let mut request = request.body(Body::empty()).unwrap();
            if let Some(scheme) = scheme {
                request.extensions_mut().insert(scheme);
            }
            base_of(&request)
        };
        assert_eq!(base("/services", Some("a.example:8089"), Some(Scheme::HTTPS)), "https://a.example:8089");
        assert_eq!(base("/services", Some("[::1]:8089"), Some(Scheme::HTTP)), "http://[::1]:8089");
        assert_eq!(base("https://b:1/services", None, Some(Scheme::HTTPS)), "https://b:1");
        for host in ["x@evil", "a/b", "a b", "<a>", &"a".repeat(AUTHORITY_BYTES_MAX + 1)] {
            assert_eq!(base("/services", Some(host), Some(Scheme::HTTPS)), "", "{host}");
        }
        assert_eq!(base("/services", None, Some(Scheme::HTTPS)), "");
        assert_eq!(base("/services", Some("a"), None), "");
    }

    #[test]
    fn collections_are_in_the_namespace_of_the_request() {
        let shown = path_in_namespace("/servicesNS/-/search/saved/searches/x", "/services/saved/searches");
        assert_eq!(shown, "/servicesNS/-/search/saved/searches");
        assert_eq!(path_in_namespace("/services/apps/local", "/services/apps/local"), "/services/apps/local");
        let own = "/servicesNS/eva/search/saved/searches/x";
        assert_eq!(path_in_namespace("/servicesNS/-/-/saved/searches/x", own), own);
    }

    #[test]
    fn collections_link_to_their_actions() {
        let links = |path: &str| links_of(path).into_iter().map(|(_, path)| path).collect::<Vec<_>>();
        assert_eq!(
            links("/services/saved/searches"),
            ["/services/saved/searches/_new", "/services/saved/searches/_reload"]
        );
        assert_eq!(
            links("/servicesNS/eva/search/saved/searches"),
            ["/servicesNS/eva/search/saved/searches/_new", "/servicesNS/eva/search/saved/searches/_reload"]
        );
        assert_eq!(
            links("/services/server/control"),
            ["/services/server/control/restart", "/services/server/control/restart_webui"]
        );
        assert!(links("/services/server/info").is_empty() && links("/services/search/jobs").is_empty());
        assert!(links("/services/saved/searches/x").is_empty());
    }
}
