//! Splunk's form of an error: a status and `{"messages":[{"type":"FATAL","text":"..."}]}`, or the XML equivalent.
//!
//! All errors, of endpoints or of the router itself, have this form: [`write_error_body`] wraps everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use quarry_apps::objects::ObjectError;
use quarry_auth::AuthError;
use quarry_search::SearchError;
use quarry_search::cell::write_json_text;
use quarry_spl::ast::Span;
use quarry_spl::{Diagnostic, Severity, excerpt};
use quarry_stdx::{ErrorKind, Fault, HasKind};

/// Parts of the paths of Quarry's own interface, whose errors are in JSON by default. Errors of Splunk's paths are in
/// XML by default, which Splunk's clients parse.
const JSON_PATHS: [&str; 2] = ["/api/v1/", "/quarry/"];
/// Beginnings, below the root or a namespace, of the paths whose errors are of type `FATAL` in Splunk: the paths that
/// run searches or show their results. The errors of Splunk's other paths, except paths that end with [`DISPATCH`], are
/// of type `ERROR`.
const DISPATCHER_PATHS: [&str; 5] = ["search/jobs", "search/v1/", "search/v2/", "search/parser", "search/timeparser"];
/// End of the path that runs a saved search.
const DISPATCH: &str = "/dispatch";
/// Type of the errors of searches and of Quarry's own interface.
const FATAL: &str = "FATAL";
/// Type of most other errors; requests that are not authenticated get `WARN`.
const ERROR: &str = "ERROR";
/// Maximum bytes of an error text that comes from the router.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// `Retry-After` of an overloaded node, in seconds.
const RETRY_AFTER_S: u64 = 2;

/// A refused or failed request.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    messages: Vec<Message>,
    retry_after_s: Option<u64>,
    /// Type of the error's messages.
    kind: &'static str,
    /// Whether this type does not depend on the path.
    keeps_kind: bool,
    /// Whether the answer invites the client to send a password (`WWW-Authenticate`).
    asks_password: bool,
}

#[derive(Clone, Debug, Default)]
struct Message {
    text: String,
    /// Splunk's code for the error.
    code: Option<&'static str>,
    /// Position in the search, in bytes.
    place: Option<Span>,
    hint: Option<String>,
}

impl ApiError {
    /// The request is invalid.
    pub(crate) fn bad_request(text: impl Into<String>) -> ApiError {
        ApiError::with_status(StatusCode::BAD_REQUEST, text)
    }

    /// The user's roles do not allow the request.
    pub(crate) fn forbidden(text: impl Into<String>) -> ApiError {
        ApiError::with_status(StatusCode::FORBIDDEN, text)
    }

    /// An error with a specific status.
    pub(crate) fn with_status(status: StatusCode, text: impl Into<String>) -> ApiError {
        let message = Message { text: text.into(), ..Message::default() };
        ApiError::from_messages(status, vec![message])
    }

    fn from_messages(status: StatusCode, messages: Vec<Message>) -> ApiError {
        let kind = match status {
            StatusCode::UNAUTHORIZED => "WARN",
            StatusCode::FORBIDDEN => ERROR,
            _ => FATAL,
        };
        ApiError { status, messages, retry_after_s: None, kind, keeps_kind: false, asks_password: false }
    }

    /// Adds a hint to a text that does not say how to mend the request, because it is Splunk's.
    pub(crate) fn with_hint(mut self, hint: String) -> ApiError {
        self.messages.iter_mut().for_each(|message| message.hint = Some(hint.clone()));
        self
    }

    /// The path or the method is not served; has the message type that Splunk uses for such errors.
    pub(crate) fn unserved(status: StatusCode, text: impl Into<String>) -> ApiError {
        ApiError { kind: ERROR, ..ApiError::with_status(status, text) }
    }

    /// The path is below the endpoints of searches, and not served.
    pub(crate) fn unknown_endpoint() -> ApiError {
        ApiError { keeps_kind: true, ..ApiError::with_status(StatusCode::NOT_FOUND, "Unknown endpoint.") }
    }

    /// A required parameter is missing.
    pub(crate) fn missing_argument(name: &str) -> ApiError {
        ApiError::bad_request(format!("The following required arguments are missing: {name}."))
    }

    /// The request has no credentials, or its credentials `shown` were not accepted.
    pub(crate) fn invalid_credentials(error: AuthError, shown: Option<&str>) -> ApiError {
        let is_password =
            shown.is_some_and(|shown| shown.get(..6).is_some_and(|kind| kind.eq_ignore_ascii_case("basic ")));
        match error {
            AuthError::Denied if is_password => {
                let wrong = ApiError::with_status(StatusCode::UNAUTHORIZED, "Unauthorized");
                ApiError { kind: ERROR, asks_password: true, ..wrong }
            }
            AuthError::Missing | AuthError::Denied => ApiError {
                asks_password: error == AuthError::Missing,
                ..ApiError::with_status(StatusCode::UNAUTHORIZED, "call not properly authenticated")
            },
            error => error.into(),
        }
    }

    pub(crate) fn missing_capability(user: &str, capability: &str) -> ApiError {
        ApiError::forbidden(format!(
            "You (user={user}) do not have permission to perform this operation (requires capability: {capability})."
        ))
    }

    /// The node failed.
    pub(crate) fn internal(text: impl Into<String>) -> ApiError {
        ApiError::with_status(StatusCode::INTERNAL_SERVER_ERROR, text)
    }

    /// Overload; the client may retry.
    pub(crate) fn too_many(text: impl Into<String>) -> ApiError {
        let error = ApiError::with_status(StatusCode::SERVICE_UNAVAILABLE, text);
        ApiError { retry_after_s: Some(RETRY_AFTER_S), ..error }
    }

    /// The error of the search `text`.
    pub(crate) fn from_search_error(text: &str, error: SearchError) -> ApiError {
        ApiError::from_typed_search(&TypedSearch { text: text.to_owned(), prefix: 0 }, error)
    }

    /// The error of a search, with positions in the text that the client has sent.
    pub(crate) fn from_typed_search(search: &TypedSearch, error: SearchError) -> ApiError {
        let status = status_of(error.kind());
        let Some(diagnostics) = error.diagnostics() else { return ApiError::with_status(status, error.to_string()) };
        let errors = diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
        let messages = errors.map(|diagnostic| message_of(search, diagnostic)).collect();
        ApiError::from_messages(status, messages)
    }

    /// Whether the requested object does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    pub(crate) fn text(&self) -> String {
        self.messages.iter().map(|message| message.text.as_str()).collect::<Vec<_>>().join("; ")
    }

    fn render(&self, is_xml: bool) -> Response {
        let (content_type, body) = match is_xml {
            true => ("text/xml; charset=UTF-8", self.xml()),
            false => ("application/json; charset=UTF-8", self.json()),
        };
        let mut response = (self.status, [(header::CONTENT_TYPE, content_type)], body).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.asks_password {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"/quarry\""));
        }
        response
    }

    fn json(&self) -> String {
        let mut body = "{\"messages\":[".to_owned();
        for (at, message) in self.messages.iter().enumerate() {
            body.push_str(if at > 0 { ",{\"type\":\"" } else { "{\"type\":\"" });
            body.push_str(self.kind);
            if let Some(code) = message.code {
                body.push_str(&format!("\",\"code\":\"{code}"));
            }
            body.push_str("\",\"text\":");
            write_json_text(&message.text, &mut body);
            if let Some(place) = message.place {
                body.push_str(&format!(",\"start\":{},\"end\":{}", place.start, place.end));
            }
            if let Some(hint) = &message.hint {
                body.push_str(",\"hint\":");
                write_json_text(hint, &mut body);
            }
            body.push('}');
        }
        body.push_str("]}");
        body
    }

    fn xml(&self) -> String {
        let line =
            |code: &str, text: &str| format!("    <msg type=\"{}\"{code}>{}</msg>\n", self.kind, escape_xml(text));
        let message = |message: &Message| {
            let code = message.code.map(|code| format!(" code=\"{code}\"")).unwrap_or_default();
            // XML has no member for a hint.
            let hint = message.hint.as_deref().filter(|hint| !message.text.contains(hint));
            line(&code, &message.text) + &hint.map(|hint| line("", hint)).unwrap_or_default()
        };
        let messages: String = self.messages.iter().map(message).collect();
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<response>\n  <messages>\n{messages}  </messages>\n</response>\n"
        )
    }
}

/// The text of a search that runs for a request.
#[derive(Clone, Debug)]
pub(crate) struct TypedSearch {
    pub(crate) text: String,
    /// Number of bytes at the start of the text that the client has not sent.
    pub(crate) prefix: usize,
}

/// The name of the unknown command that a diagnostic reports, and the rest of the message; `None` for other
/// diagnostics.
fn unknown_command(diagnostic: &Diagnostic) -> Option<(&str, &str)> {
    diagnostic.message.strip_prefix("unknown command `")?.split_once('`')
}

/// A diagnostic as plain text: the problem, its location, and a correction. Clients recognise an unknown command by
/// Splunk's text. If the diagnostic says no more than this text, the message has only this text, and the location and
/// the correction as members.
fn message_of(search: &TypedSearch, diagnostic: &Diagnostic) -> Message {
    let typed = |at: usize| at.saturating_sub(search.prefix);
    let place = Span { start: typed(diagnostic.span.start), end: typed(diagnostic.span.end) };
    let (Span { start, end }, search) = (place, search.text.get(search.prefix..).unwrap_or_default());
    if let Some((name, "")) = unknown_command(diagnostic) {
        let text = format!("Unknown search command '{name}'.");
        return Message { text, code: None, place: Some(place), hint: diagnostic.hint.clone() };
    }
    let mut text = match unknown_command(diagnostic) {
        Some((name, rest)) => format!("Unknown search command '{name}'.{rest}"),
        None => diagnostic.message.clone(),
    };
    if let Some(before) = search.get(..start) {
        let shown = excerpt(search.get(start..end.max(start)).unwrap_or_default());
        let shown = if shown.is_empty() { String::new() } else { format!(": `{shown}`") };
        text.push_str(&format!(" (character {}{shown})", before.chars().count() + 1));
    }
    if let Some(hint) = &diagnostic.hint {
        text.push_str(&format!("; {hint}"));
    }
    Message { text, code: None, place: Some(place), hint: diagnostic.hint.clone() }
}

/// A text escaped for XML; characters invalid in XML are dropped.
pub(crate) fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(character),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {}
            other => out.push(other),
        }
    }
    out
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> ApiError {
        let retry_after_s = match error {
            AuthError::Throttled { retry_after_s } | AuthError::Busy { retry_after_s } => Some(retry_after_s),
            _ => None,
        };
        let status = match error {
            AuthError::Denied => {
                let code = Some("incorrect_username_or_password");
                let message = Message { text: "Login failed".to_owned(), code, ..Message::default() };
                return ApiError::from_messages(StatusCode::UNAUTHORIZED, vec![message]);
            }
            AuthError::UserExists(name) => return ObjectError::Exists(name).into(),
            AuthError::UnknownUser(name) => {
                let text = format!("Could not get info for non-existent user=\"{name}\"");
                return ApiError::with_status(StatusCode::NOT_FOUND, text);
            }
            AuthError::Missing => StatusCode::UNAUTHORIZED,
            AuthError::Throttled { .. } => StatusCode::TOO_MANY_REQUESTS,
            _ => status_of(error.kind()),
        };
        ApiError { retry_after_s, ..ApiError::with_status(status, error.to_string()) }
    }
}

/// The HTTP status of an error kind.
fn status_of(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Denied => StatusCode::FORBIDDEN,
        ErrorKind::Busy => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Unavailable | ErrorKind::Corrupt | ErrorKind::Bug => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl From<Fault> for ApiError {
    fn from(fault: Fault) -> ApiError {
        ApiError::with_status(status_of(fault.kind()), fault.to_string())
    }
}

impl IntoResponse for ApiError {
    /// The response has no body yet; [`write_error_body`] writes it in the requested format.
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// The format of a request's errors; `output_mode` changes it when the parameter is read.
#[derive(Clone, Debug, Default)]
pub(crate) struct RefusalForm(Arc<AtomicBool>);

impl RefusalForm {
    /// Whether the format is XML.
    pub(crate) fn is_xml(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the format if the parameter is `output_mode`.
    pub(crate) fn note_parameter(&self, name: &str, value: &str) {
        if name == "output_mode" {
            self.0.store(matches!(value, "xml" | "atom"), Ordering::Relaxed);
        }
    }
}

/// Whether the `Accept` header names XML before JSON; `None` if it names neither.
fn accepts_xml(headers: &HeaderMap) -> Option<bool> {
    let accepted = headers.get(header::ACCEPT)?.to_str().ok()?.to_ascii_lowercase();
    accepted.split(',').find_map(|kind| match kind.split(';').next()?.trim() {
        "application/json" => Some(false),
        "application/xml" | "text/xml" | "application/atom+xml" => Some(true),
        _ => None,
    })
}

/// Whether errors of a path keep the type `FATAL`.
fn is_fatal(path: &str) -> bool {
    let below = match path.strip_prefix("/servicesNS/") {
        Some(rest) => rest.splitn(3, '/').nth(2),
        None => path.strip_prefix("/services/"),
    };
    // All errors of Quarry's own interface have the type `FATAL`.
    let Some(below) = below else { return true };
    below.starts_with("quarry/")
        || below.ends_with(DISPATCH)
        || DISPATCHER_PATHS.iter().any(|begin| below.starts_with(begin))
}

/// Response extension of errors about a part of Splunk that this node does not have, such as a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LackedPart;

/// Writes the body of every error in Splunk's form.
pub(crate) async fn write_error_body(mut request: Request, next: Next) -> Response {
    let form = RefusalForm::default();
    let path = request.uri().path();
    let is_fatal = is_fatal(path);
    let by_path = !JSON_PATHS.iter().any(|part| path.contains(part));
    // The default format, for errors that occur before the body is read; the body may contain `output_mode`.
    form.0.store(accepts_xml(request.headers()).unwrap_or(by_path), Ordering::Relaxed);
    for (name, value) in form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()) {
        form.note_parameter(&name, &value);
    }
    request.extensions_mut().insert(form.clone());
    let mut response = next.run(request).await;
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let allow: Option<(HeaderName, HeaderValue)> =
        response.headers().get(header::ALLOW).map(|value| (header::ALLOW, value.clone()));
    let lacked = response.extensions_mut().remove::<LackedPart>();
    let mut error = match response.extensions_mut().remove::<ApiError>() {
        Some(error) => error,
        // The router itself has refused the request.
        None => {
            let body = to_bytes(response.into_body(), TEXT_BYTES_MAX).await.unwrap_or_default();
            let text = String::from_utf8_lossy(&body).trim().to_owned();
            let text = if text.is_empty() { status.canonical_reason().unwrap_or("refused").to_owned() } else { text };
            ApiError::with_status(status, text)
        }
    };
    if error.kind == FATAL && !is_fatal && !error.keeps_kind {
        error.kind = ERROR;
    }
    let mut rendered = error.render(form.is_xml());
    rendered.headers_mut().extend(allow);
    if let Some(lacked) = lacked {
        rendered.extensions_mut().insert(lacked);
    }
    rendered
}

#[cfg(test)]
mod tests {
    use quarry_engine::EngineError;

    use super::*;

    #[test]
    fn error_formats_follow_the_accept_header() {
        for (accepted, is_xml) in [
            ("application/json", Some(false)),
            ("Application/JSON; q=1, text/xml", Some(false)),
            ("text/html, application/xml;q=0.9, application/json", Some(true)),
            ("*/*", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accepted))]);
            assert_eq!(accepts_xml(&headers), is_xml, "{accepted}");
        }
        assert_eq!(accepts_xml(&HeaderMap::new()), None);
    }

    #[test]
    fn only_errors_of_searches_are_fatal() {
        for path in [
            "/services/search/jobs",
            "/services/search/jobs/1/results",
            "/services/search/v1/jobs/1/control",
            "/servicesNS/eva/search/search/v2/jobs/export",
            "/services/search/parser",
            "/servicesNS/-/-/saved/searches/a/dispatch",
            "/api/v1/spl/lint",
            "/services/quarry/x",
        ] {
            assert!(is_fatal(path), "{path}");
        }
        for path in [
            "/services/saved/searches/a",
            "/servicesNS/nobody/search/data/ui/views",
            "/services/authentication/users",
            "/services/search/tags",
        ] {
            assert!(!is_fatal(path), "{path}");
        }
    }

    #[test]
    fn search_errors_contain_position_and_hint() {
        let search = "é | stast count";
        let span = Span { start: 5, end: 10 };
        let wrong = Diagnostic::error("unknown command `stast`", span).with_hint("did you mean `stats`?");
        let error = ApiError::from_search_error(search, SearchError::Syntax(vec![wrong]));
        assert_eq!(
            error.json(),
            "{\"messages\":[{\"type\":\"FATAL\",\"text\":\"Unknown search command 'stast'.\",\"start\":5,\"end\":10,\"hint\":\"did you mean `stats`?\"}]}"
        );
        assert_eq!(
            error.xml().matches("<msg type=\"FATAL\">").count(),
            2,
            "the hint is a message of its own in XML: {}",
            error.xml()
        );
        let parsed = quarry_spl::parse("* | stast count").diagnostics;
        assert_eq!(parsed.first().and_then(unknown_command), Some(("stast", "")), "the parser's words");
        let odd = Diagnostic::error("odd", Span { start: 1, end: 999 });
        let whole = TypedSearch { text: search.to_owned(), prefix: 0 };
        assert_eq!(message_of(&whole, &odd).text, "odd", "an invalid location");
        let prefixed = TypedSearch { text: "|stast count".to_owned(), prefix: 1 };
        let told = message_of(&prefixed, &Diagnostic::error("bad", Span { start: 1, end: 6 }));
        assert_eq!((told.text.as_str(), told.place), ("bad (character 1: `stast`)", Some(Span { start: 0, end: 5 })));
    }

    #[test]
    fn search_limits_are_client_errors() {
        let limit = EngineError::Limit { what: "x".into(), limit: "y", value: 1 };
        assert_eq!(ApiError::from_search_error("x", limit.into()).status, StatusCode::BAD_REQUEST);
        assert_eq!(ApiError::from_search_error("x", EngineError::invalid("x").into()).status, StatusCode::BAD_REQUEST);
        assert_eq!(
            ApiError::from_search_error("x", EngineError::Memory.into()).status,
            StatusCode::INTERNAL_SERVER_ERROR
        );
    }

    #[test]
    fn faults_of_search_dependencies_have_status_and_position() {
        let of = |fault: Fault| {
            ApiError::from_search_error("| x y", EngineError::at(fault, Span { start: 4, end: 5 }).into())
        };
        for (fault, status) in [
            (Fault::invalid("y"), StatusCode::BAD_REQUEST),
            (Fault::not_found("y"), StatusCode::BAD_REQUEST),
            (Fault::denied("y"), StatusCode::FORBIDDEN),
            (Fault::io("y", "disk full"), StatusCode::INTERNAL_SERVER_ERROR),
        ] {
            let error = of(fault);
            assert_eq!((error.status, error.messages[0].place), (status, Some(Span { start: 4, end: 5 })));
        }
        assert_eq!(ApiError::from(Fault::not_found("no app x")).status, StatusCode::NOT_FOUND);
    }

    #[test]
    fn xml_holds_any_text() {
        let error = ApiError::bad_request("a<b> & \u{1}c");
        assert!(error.xml().contains("    <msg type=\"FATAL\">a&lt;b&gt; &amp; c</msg>\n"), "{}", error.xml());
    }
}
