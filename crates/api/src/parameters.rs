//! Parameters of a request, from its URL and its body, as in Splunk.

use std::time::Duration;

use axum::body::{Bytes, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::IntoResponse;
use axum::response::Response;
use serde_json::Value;

use crate::message::{ApiError, RefusalForm};
use crate::parameter_types::{ParameterType, UNLIMITED, parse_flag, type_of, value_error};

/// Maximum bytes of a request's body, except at endpoints that have a limit of their own; a larger body is refused.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Content type of JSON, which Quarry's own interface also accepts for parameters.
const JSON: &str = "application/json";
/// Beginning of the paths of Quarry's own interface.
const OWN_PATHS: &str = "/api/v1/";
/// Content type of form bodies.
const FORM: &str = "application/x-www-form-urlencoded";

/// Maximum size of a form that is read only because it may select the format of a refusal.
const UNREAD_BYTES_MAX: usize = 16 << 10;
/// Maximum wait for such a form.
const UNREAD_WAIT: Duration = Duration::from_millis(500);

/// Parameters that every handler of objects accepts.
const COMMON_PARAMETERS: [&str; 2] = ["namespace", "output_mode"];

/// Parameters that select and order the entities of an answer. Some clients add them to every URL. In the URL of a
/// change, these parameters have no effect unless the endpoint declares them; in a body, they are settings of the same
/// names.
pub(crate) const LIST_ONLY: [&str; 8] =
    ["count", "f", "listDefaultActionArgs", "offset", "sort_dir", "sort_key", "sort_mode", "summarize"];

/// Parameters of an endpoint with a single entity.
pub(crate) const ONE_ENTITY: &[&str] = &["f", "search"];

/// The number of the first entry or row to return; a negative number counts from the end, as in Splunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offset(isize);

impl Offset {
    /// The number among `total` entries or rows, from 0 on.
    pub(crate) fn in_total(self, total: usize) -> usize {
        match usize::try_from(self.0) {
            Ok(offset) => offset,
            Err(_) => total.saturating_sub(self.0.unsigned_abs()),
        }
    }

    /// Whether the number counts from the end.
    pub(crate) fn is_from_end(self) -> bool {
        self.0 < 0
    }
}

/// Settings that are lists: values of parameters with the same name are joined by commas.
const LISTS: &[&str] = &[
    "FIELDS",
    "_TCP_ROUTING",
    "acceptFrom",
    "action.email.bcc",
    "action.email.cc",
    "action.email.to",
    "actions",
    "alert.suppress.fields",
    "args",
    "capabilities",
    "defaultGroup",
    "deleteIndexesAllowed",
    "eventtypes",
    "fields",
    "fields_list",
    "grantableRoles",
    "imported_roles",
    "indexes",
    "match_type",
    "roles",
    "server",
    "servers",
    "srchIndexesAllowed",
    "srchIndexesDefault",
    "srchIndexesDisallowed",
    "sslAltNameToCheck",
    "sslCommonNameToCheck",
    "suppressBannerList",
];

/// The parameters that the endpoint of a request declares; an extension of the request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeclaredParameters(pub(crate) &'static [&'static str]);

/// Parameters in order, first the parameters of the URL.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// The first value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Like [`Parameters::get`], owned.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }

    /// A required value.
    pub(crate) fn required(&self, name: &str) -> Result<&str, ApiError> {
        self.get(name).ok_or_else(|| ApiError::missing_argument(name))
    }

    /// An integer; an unlimited count is 0.
    pub(crate) fn number(&self, name: &str) -> Result<Option<usize>, ApiError> {
        let kind = type_of(name);
        debug_assert!(matches!(kind, Some(ParameterType::Count | ParameterType::Limit)), "{name} has no row");
        let Some(text) = self.get(name).map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
        if kind == Some(ParameterType::Limit) && text == UNLIMITED {
            return Ok(Some(0));
        }
        let wrong = |_| {
            ApiError::bad_request(value_error(name, text).unwrap_or_else(|| format!("{name}={text} is not a number")))
        };
        text.parse().map(Some).map_err(wrong)
    }

    /// The number of the first entry or row to return.
    pub(crate) fn offset(&self) -> Result<Offset, ApiError> {
        let Some(text) = self.get("offset").map(str::trim).filter(|text| !text.is_empty()) else {
            return Ok(Offset::default());
        };
        text.parse().map(Offset).map_err(|_| {
            ApiError::bad_request(value_error("offset", text).unwrap_or_else(|| format!("offset={text} is no number")))
        })
    }

    /// All values of a name, split at commas.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let values = self.0.iter().filter(|(other, _)| other == name).flat_map(|(_, value)| value.split(','));
        values.map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned).collect()
    }

    /// Whether a parameter is true.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        debug_assert_eq!(type_of(name), Some(ParameterType::Flag), "{name} has no row");
        self.get(name).and_then(parse_flag) == Some(true)
    }

    /// Refuses parameters with unknown names, in Splunk's words. A known name that ends with `*` is a prefix.
    pub(crate) fn reject_unknown(&self, known: &[&[&str]]) -> Result<(), ApiError> {
        let is_known = |name: &str| {
            let mut all = known.iter().copied().flatten().chain(&COMMON_PARAMETERS);
            all.any(|known| known.strip_suffix('*').map_or(*known == name, |begin| name.starts_with(begin)))
        };
        match self.0.iter().find(|(name, _)| !is_known(name)) {
            Some((name, _)) => {
                Err(ApiError::bad_request(format!("Argument \"{name}\" is not supported by this handler.")))
            }
            None => Ok(()),
        }
    }

    /// Parses the query string of a URL.
    pub(crate) fn from_query(query: &str) -> Parameters {
        let pairs = form_urlencoded::parse(query.as_bytes());
        Parameters(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// Wraps decoded parameters.
    pub(crate) fn of(parameters: Vec<(String, String)>) -> Parameters {
        Parameters(parameters)
    }

    /// Keeps only the parameters that select from a single entity: its format, members of its content, a condition.
    pub(crate) fn of_one_entity(mut self) -> Parameters {
        self.0.retain(|(name, _)| name == "output_mode" || ONE_ENTITY.contains(&name.as_str()));
        self
    }

    pub(crate) fn keep_only(mut self, name: &str) -> Parameters {
        self.0.retain(|(other, _)| other == name);
        self
    }

    /// The same parameters, with an unlimited `count` if none is given.
    pub(crate) fn unpaged(mut self) -> Parameters {
        if self.get("count").is_none() {
            self.0.push(("count".to_owned(), "0".to_owned()));
        }
        self
    }

    /// All parameters in the order of the request.
    pub(crate) fn into_pairs(self) -> Vec<(String, String)> {
        self.0
    }

    /// Each name once, in the order of the request. The values of a list are joined. Different values of any other
    /// setting are refused, because only one could be stored.
    pub(crate) fn into_settings(self) -> Result<Vec<(String, String)>, ApiError> {
        let mut settings: Vec<(String, String)> = Vec::new();
        for (name, value) in self.0 {
            match settings.iter_mut().find(|(known, _)| *known == name) {
                None => settings.push((name, value)),
                Some((_, known)) if LISTS.contains(&name.as_str()) => {
                    if !known.is_empty() && !value.is_empty() {
                        known.push(',');
                    }
                    known.push_str(&value);
                }
                Some((_, known)) if *known == value => {}
                Some((_, known)) => {
                    return Err(ApiError::bad_request(format!(
                        "{name} is given twice, as {known:?} and as {value:?}: give one value"
                    )));
                }
            }
        }
        Ok(settings)
    }
}

/// Refuses values of the wrong type.
fn check<N: AsRef<str>, V: AsRef<str>>(parameters: &[(N, V)]) -> Result<(), ApiError> {
    // Bounds in a format of the client are checked where the format is known.
    let has_format =
        parameters.iter().any(|(name, value)| name.as_ref() == "time_format" && !value.as_ref().is_empty());
    let is_formatted = |name: &str| has_format && matches!(name, "earliest_time" | "latest_time");
    let mut typed = parameters.iter().filter(|(name, _)| !is_formatted(name.as_ref()));
    let fault = typed.find_map(|(name, value)| Some((name.as_ref(), value_error(name.as_ref(), value.as_ref())?)));
    match fault {
        None => Ok(()),
        Some((name, fault)) if type_of(name) == Some(ParameterType::SearchTime) => {
            Err(ApiError::bad_request(format!("Invalid {name}.")).with_hint(fault))
        }
        Some((_, fault)) => Err(ApiError::bad_request(fault)),
    }
}

/// Like [`check`], for the parameters in a URL; called for every endpoint that requires a login.
pub(crate) fn check_query(query: &str) -> Result<(), ApiError> {
    check(&form_urlencoded::parse(query.as_bytes()).collect::<Vec<_>>())
}

impl<S: Send + Sync> FromRequest<S> for Parameters {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Parameters, Response> {
        let parameters = read(request, state).await?;
        check(&parameters.0).map_err(IntoResponse::into_response)?;
        Ok(parameters)
    }
}

/// Reads the form of a request that was refused before its handler could read it, because the form may select the
/// format of the refusal. Large or late forms are ignored, because the client may not be authenticated.
pub(crate) async fn note_unread_form(request: Request) {
    let Some(form) = request.extensions().get::<RefusalForm>().cloned() else { return };
    if !is_small(request.headers()) {
        return;
    }
    let body = to_bytes(request.into_body(), UNREAD_BYTES_MAX);
    if let Ok(Ok(body)) = tokio::time::timeout(UNREAD_WAIT, body).await
        && !is_no_form(&body)
    {
        form_urlencoded::parse(&body).for_each(|(name, value)| form.note_parameter(&name, &value));
    }
}

/// Whether a body is stated to have at most [`UNREAD_BYTES_MAX`].
fn is_small(headers: &HeaderMap) -> bool {
    let bytes = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    bytes.is_some_and(|bytes| bytes <= UNREAD_BYTES_MAX)
}

/// Whether a body is not a form, but JSON, XML or multipart, or has no parameter. As in Splunk, a form is read whatever
/// its content type is.
fn is_no_form(body: &[u8]) -> bool {
    let body = body.trim_ascii_start();
    !body.contains(&b'=') || [&b"{"[..], b"[", b"\"", b"<", b"--"].iter().any(|begin| body.starts_with(begin))
}

/// Whether a content type is that of forms.
fn is_form(kind: &str) -> bool {
    kind.trim().to_ascii_lowercase().starts_with(FORM)
}

/// The compression of a body. Other values of the header, such as a character set, say nothing about the bytes.
fn compression_of(headers: &HeaderMap) -> Option<&'static str> {
    let encoding = headers.get(header::CONTENT_ENCODING)?.to_str().ok()?.trim();
    ["gzip", "deflate", "br", "zstd"].into_iter().find(|name| name.eq_ignore_ascii_case(encoding))
}

/// Parameters that include settings of a conf, whose names and values are not checked here.
#[derive(Clone, Debug)]
pub(crate) struct Settings(pub(crate) Parameters);

impl<S: Send + Sync> FromRequest<S> for Settings {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Settings, Response> {
        read(request, state).await.map(Settings)
    }
}

/// Reads the URL and the body.
async fn read<S: Send + Sync>(request: Request, state: &S) -> Result<Parameters, Response> {
    let parsed = |bytes: &[u8]| {
        form_urlencoded::parse(bytes).map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
    };
    let mut parameters: Vec<(String, String)> = parsed(request.uri().query().unwrap_or_default().as_bytes());
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let declared = request.extensions().get::<DeclaredParameters>().copied().unwrap_or_default().0;
        parameters.retain(|(name, _)| !LIST_ONLY.contains(&name.as_str()) || declared.contains(&name.as_str()));
    }
    let form = request.extensions().get::<RefusalForm>().cloned().unwrap_or_default();
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).map(str::to_owned);
    let is_of_quarry = request.uri().path().starts_with(OWN_PATHS);
    let encoding = compression_of(request.headers());
    let body = Bytes::from_request(request, state).await.map_err(|refusal| match refusal.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let text = format!("the body of the request is longer than {} MB, the maximum", BODY_BYTES_MAX >> 20);
            ApiError::with_status(StatusCode::PAYLOAD_TOO_LARGE, text).into_response()
        }
        _ => refusal.into_response(),
    })?;
    if let Some(encoding) = encoding.filter(|_| !body.is_empty()) {
        let text = format!("parameters are sent as they are, not with Content-Encoding: {encoding}");
        return Err(ApiError::with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into_response());
    }
    let is_form = kind.as_deref().is_none_or(is_form);
    let is_json = is_of_quarry && kind.as_deref().is_some_and(|kind| kind.trim().starts_with(JSON));
    if !body.is_empty() {
        if is_json {
            parameters.extend(members(&body).map_err(IntoResponse::into_response)?);
        } else if !is_form && is_no_form(&body) {
            let text = format!("parameters are sent as {FORM}, not as {}", kind.unwrap_or_default());
            return Err(ApiError::with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into_response());
        } else {
            parameters.extend(parsed(&body));
        }
    }
    parameters.iter().for_each(|(name, value)| form.note_parameter(name, value));
    Ok(Parameters(parameters))
}

/// The members of a JSON object as parameters; the elements of a list are values of one name.
fn members(body: &[u8]) -> Result<Vec<(String, String)>, ApiError> {
    let wrong = || ApiError::bad_request("the body is JSON, but not an object whose members are parameters");
    let Ok(Value::Object(object)) = serde_json::from_slice(body) else { return Err(wrong()) };
    let mut parameters = Vec::with_capacity(object.len());
    for (name, value) in object {
        let values = if let Value::Array(values) = value { values } else { vec![value] };
        for value in values {
            match value {
                Value::Null => {}
                Value::String(text) => parameters.push((name.clone(), text)),
                Value::Bool(_) | Value::Number(_) => parameters.push((name.clone(), value.to_string())),
                Value::Array(_) | Value::Object(_) => return Err(wrong()),
            }
        }
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;
    use crate::parameter_types::TYPES;

    async fn read(uri: &str, kind: &str, body: &str) -> Result<Parameters, StatusCode> {
        let request = Request::post(uri).header(header::CONTENT_TYPE, kind).body(Body::from(body.to_owned())).unwrap();
        Parameters::from_request(request, &()).await.map_err(|response| response.status())
    }

    #[tokio::test]
    async fn compressed_forms_are_refused() {
        for (encoding, status) in [("gzip", Some(StatusCode::UNSUPPORTED_MEDIA_TYPE)), ("utf-8", None)] {
            let request = Request::post("/x").header(header::CONTENT_ENCODING, encoding).body(Body::from("a=1"));
            let read = Parameters::from_request(request.unwrap(), &()).await;
            assert_eq!(read.err().map(|response| response.status()), status, "{encoding}");
        }
    }

    #[tokio::test]
    async fn url_and_body_parameters_are_merged() {
        let read_well =
            read("/x?a=1&a=2", "application/x-www-form-urlencoded; charset=UTF-8", "b=%2B+x&count=12&again=yes&a=3,4");
        let parameters = read_well.await.unwrap();
        assert_eq!((parameters.get("a"), parameters.get("b")), (Some("1"), Some("+ x")));
        assert_eq!(parameters.list("a"), ["1", "2", "3", "4"]);
        assert_eq!((parameters.number("count").unwrap(), parameters.number("max_count").unwrap()), (Some(12), None));
        assert_eq!(parameters.offset().unwrap(), Offset(0));
        for (text, total, expected) in [("2", 5, 2), ("9", 5, 9), ("-1", 5, 4), ("-5", 5, 0), ("-9", 5, 0)] {
            let offset = Parameters::from_query(&format!("offset={text}")).offset().unwrap();
            assert_eq!(offset.in_total(total), expected, "{text}");
        }
        assert!(parameters.reject_unknown(&[&["a", "b"], &["cou*", "again"]]).is_ok());
        assert!(parameters.reject_unknown(&[&["a", "b", "count"]]).is_err());
        assert!(parameters.required("c").is_err() && parameters.is_set("again") && !parameters.is_set("preview"));
        assert_eq!(read("/x", "application/json", "{}").await.err(), Some(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        for other in ["[1]", " \n<a b=''/>", "--boundary\r\na=b", "\"text\"", "text"] {
            assert_eq!(
                read("/x", "text/plain", other).await.err(),
                Some(StatusCode::UNSUPPORTED_MEDIA_TYPE),
                "{other}"
            );
        }
        assert!(read("/x", "application/json", "").await.is_ok(), "there is nothing to read");
        let form = read("/x", "application/json", "a=b%20c&d=").await.unwrap();
        assert_eq!((form.get("a"), form.get("d")), (Some("b c"), Some("")), "a form of a client that talks JSON");
        let own =
            read("/api/v1/x?a=1", "application/json", r#"{"a":["2",3],"b":true,"count":4,"c":null}"#).await.unwrap();
        assert_eq!((own.list("a").join(" "), own.get("b"), own.get("c")), ("1 2 3".to_owned(), Some("true"), None));
        for wrong in ["[]", "{", r#"{"a":{}}"#, r#"{"count":"x"}"#] {
            let refused = read("/api/v1/x", "application/json", wrong).await.err();
            assert_eq!(refused, Some(StatusCode::BAD_REQUEST), "{wrong}");
        }
        for (name, _) in TYPES {
            let (wrong, form) = (format!("{name}=%21"), "application/x-www-form-urlencoded");
            assert_eq!(read("/x", form, &wrong).await.err(), Some(StatusCode::BAD_REQUEST), "{name}");
            // In a URL, wrong values of the parameters in `LIST_ONLY` are refused by `check_query` only.
            let is_read = !LIST_ONLY.contains(name);
            assert_eq!(read(&format!("/x?{wrong}"), form, "").await.is_err(), is_read, "{name}");
            assert!(check_query(&wrong).is_err() && check_query(&format!("{name}=")).is_ok());
        }
    }

    #[tokio::test]
    async fn list_parameters_in_the_url_of_a_change_have_no_effect_unless_declared() {
        for name in LIST_ONLY {
            let value = type_of(name).map_or("x", |kind| match kind {
                ParameterType::Word(words) => words[0],
                _ => "1",
            });
            for (method, declared, in_url) in [
                (Method::GET, "", true),
                (Method::HEAD, "", true),
                (Method::POST, "", false),
                (Method::DELETE, "", false),
                (Method::POST, name, true),
            ] {
                let declared: &'static [&'static str] = Box::leak(Box::new([declared]));
                let request = Request::builder().method(method.clone()).uri(format!("/x?{name}={value}&a=b"));
                let request = request.extension(DeclaredParameters(declared));
                let read = Parameters::from_request(request.body(Body::empty()).unwrap(), &()).await.unwrap();
                assert_eq!((read.get(name).is_some(), read.get("a")), (in_url, Some("b")), "{method} {name}");
            }
            let in_body = read("/x?count=2", FORM, &format!("{name}={value}")).await.unwrap();
            assert_eq!(
                in_body.into_settings().unwrap(),
                [(name.to_owned(), value.to_owned())],
                "a setting of this name"
            );
        }
    }

    #[test]
    fn values_of_lists_are_joined_and_others_have_one_value() {
        let settings = |query: &str| {
            Parameters::from_query(query).into_settings().map(|settings| {
                settings.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
            })
        };
        assert!(LISTS.is_sorted());
        for name in LISTS {
            assert_eq!(settings(&format!("{name}=a&b=1&{name}=b,c")).unwrap(), format!("{name}=a,b,c b=1"));
        }
        assert_eq!(settings("indexes=&indexes=a&indexes=").unwrap(), "indexes=a");
        assert_eq!(settings("index=a&index=a").unwrap(), "index=a");
        assert!(settings("index=a&index=b").is_err());
    }

    #[tokio::test]
    async fn small_forms_select_the_format_of_a_refusal() {
        let short = "a=b&output_mode=json".to_owned();
        let long = format!("{short}&c={}", "x".repeat(UNREAD_BYTES_MAX));
        for (kind, body, is_json) in [
            (FORM, short.clone(), true),
            (FORM, "a=b&output_mode=xml".to_owned(), false),
            (FORM, long, false),
            ("application/json", short, true),
            ("application/json", "{\"output_mode\":\"=&output_mode=json\"}".to_owned(), false),
        ] {
            let form = RefusalForm::default();
            form.note_parameter("output_mode", "xml");
            let length = body.len().to_string();
            let request = Request::post("/x").header(header::CONTENT_TYPE, kind).header(header::CONTENT_LENGTH, length);
            let request = request.extension(form.clone()).body(Body::from(body)).unwrap();
            note_unread_form(request).await;
            assert_eq!(!form.is_xml(), is_json, "{kind}");
        }
    }
}
