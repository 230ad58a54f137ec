//! Authentication of a request, before its body is read.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use quarry_auth::{Identity, Origin};
use quarry_conf::Permissions;
use quarry_inputs::ClientProof;

use crate::ApiState;
use crate::endpoint::run_blocking;
use crate::message::ApiError;

/// The authenticated sender of a request; the extractor fails for unauthenticated requests.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) identity: Identity,
    /// The caller's effective permissions.
    pub(crate) permissions: Arc<Permissions>,
    pub(crate) origin: Origin,
    /// The `Authorization` header, or the equivalent built from a session cookie.
    pub(crate) shown: Option<String>,
}

/// The origin of a request, set by the port.
pub(crate) struct RequestOrigin(pub(crate) Origin);

impl<S: Sync> FromRequestParts<S> for RequestOrigin {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<RequestOrigin, Infallible> {
        Ok(RequestOrigin(parts.extensions.get::<Origin>().copied().unwrap_or(Origin::UNKNOWN)))
    }
}

/// Lets handlers that check passwords report to the port that the client of a request has proved its identity.
pub(crate) struct RequestProof(Option<ClientProof>);

impl RequestProof {
    pub(crate) fn confirm(&self) {
        self.0.iter().for_each(ClientProof::confirm);
    }
}

impl<S: Sync> FromRequestParts<S> for RequestProof {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<RequestProof, Infallible> {
        Ok(RequestProof(parts.extensions.get::<ClientProof>().cloned()))
    }
}

impl FromRequestParts<ApiState> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Caller, ApiError> {
        // The access check has already authenticated the request.
        if let Some(known) = parts.extensions.get::<Caller>() {
            return Ok(known.clone());
        }
        let shown = credentials_of(&parts.headers);
        let Ok(RequestOrigin(origin)) = RequestOrigin::from_request_parts(parts, state).await;
        let refused = |error| ApiError::invalid_credentials(error, shown.as_deref());
        let identity = match state.auth.recognise(shown.as_deref(), &origin).map_err(refused)? {
            Some(identity) => identity,
            None => {
                let (auth, header) = (state.auth.clone(), shown.clone());
                // Hashing a password must not block async threads.
                run_blocking(move || auth.authenticate(header.as_deref(), &origin)).await?.map_err(refused)?
            }
        };
        ClientProof::confirm_in(&parts.extensions);
        let permissions = Arc::new(state.auth.permissions(&identity));
        Ok(Caller { identity, permissions, origin, shown })
    }
}

/// Prefix of the session cookie's name.
pub(crate) const COOKIE: &str = "splunkd_";

/// Default port in cookie names.
const PORT: &str = "8089";

/// Name of the cookie for the requested node. The name contains the port, because browsers send cookies to all ports of
/// a host.
pub(crate) fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port);
    let is_port = |port: &&str| port.len() <= 5 && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    format!("{COOKIE}{}", port.filter(is_port).unwrap_or(PORT))
}

/// A cookie with the key of a session; the cookie lasts for `lifetime_s` seconds.
pub(crate) fn session_cookie(headers: &HeaderMap, key: &str, lifetime_s: i64) -> String {
    format!("{}={key}; Path=/; HttpOnly; SameSite=Strict; Max-Age={lifetime_s}", cookie_name(headers))
}

/// The cookie with a renewed lifetime, if the request was authenticated by a cookie.
pub(crate) fn renewed_cookie(headers: &HeaderMap, lifetime_s: i64) -> Option<HeaderValue> {
    let key = session_key_of(headers).filter(|_| !headers.contains_key(header::AUTHORIZATION))?;
    session_cookie(headers, key, lifetime_s).parse().ok()
}

/// The credentials of a request: its `Authorization` header, or its session cookie.
fn credentials_of(headers: &HeaderMap) -> Option<String> {
    if let Some(shown) = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()) {
        return Some(shown.to_owned());
    }
    session_key_of(headers).map(|key| format!("Splunk {key}"))
}

/// The session key in the cookies; the key in this node's cookie takes precedence.
fn session_key_of(headers: &HeaderMap) -> Option<&str> {
    let own = cookie_name(headers);
    let text = headers.get(header::COOKIE)?.to_str().ok()?;
    let cookies = text.split(';').filter_map(|cookie| cookie.trim().split_once('='));
    let cookies: Vec<(&str, &str)> = cookies.filter(|(name, _)| name.starts_with(COOKIE)).collect();
    let (_, key) = cookies.iter().find(|(name, _)| *name == own).or(cookies.first())?;
    Some(key.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_read_from_header_or_cookie() {
        let headers = |pairs: &[(header::HeaderName, &str)]| {
            pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect::<HeaderMap>()
        };
        let cookie = (header::COOKIE, "a=b; splunkd_8089=\"key\"; c=d");
        assert_eq!(credentials_of(&headers(std::slice::from_ref(&cookie))).as_deref(), Some("Splunk key"));
        assert_eq!(
            credentials_of(&headers(&[cookie, (header::AUTHORIZATION, "Bearer x")])).as_deref(),
            Some("Bearer x")
        );
        assert_eq!(credentials_of(&headers(&[(header::COOKIE, "session=key")])), None);
        let two = [(header::HOST, "h:9001"), (header::COOKIE, "splunkd_8089=a; splunkd_9001=b")];
        assert_eq!(credentials_of(&headers(&two)).as_deref(), Some("Splunk b"));
        let renewed = |pairs: &[(header::HeaderName, &str)]| renewed_cookie(&headers(pairs), 3_600);
        let cookie = renewed(&two).unwrap();
        assert!(cookie.to_str().unwrap().starts_with("splunkd_9001=b; Path=/; HttpOnly;"), "{cookie:?}");
        assert_eq!(renewed(&[(header::COOKIE, "splunkd_8089=a"), (header::AUTHORIZATION, "Bearer x")]), None);
        assert_eq!(renewed(&[(header::HOST, "h:9001")]), None);
        let names = |host: &str| cookie_name(&headers(&[(header::HOST, host)]));
        assert_eq!(
            [names("h"), names("h:1"), names("[::1]:22"), names("h:x;y")],
            ["splunkd_8089", "splunkd_1", "splunkd_22", "splunkd_8089"]
        );
    }
}
