//! OTLP over gRPC: unary calls of the services for logs, metrics and traces, decoded like the bodies of OTLP over HTTP.
//!
//! A call is a POST over HTTP/2. Its body is one message after five bytes (compression flag and length); the answer is
//! an empty message followed by a status. The status of a refusal says whether a retry helps.
//!
//! OTLP over HTTP refuses with the same statuses ([`http_refusal`]).
//!
//! Not here: streams, deadlines (a sender whose deadline passes sends the call again), reflection.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http_body_util::{BodyExt, Full};
use serde_json::json;

use super::{BodyEncoding, Collector, Reader, read_logs, read_metrics, read_traces, receive_request, store};
use crate::hec::answer::{self, Code};
use crate::hec::body::BodyError;
use crate::hec::{TOO_SLOW_TEXT, decoded_too_large_text};

/// Media type of calls; a suffix may follow, as in `application/grpc+proto`.
const MEDIA_TYPE: &str = "application/grpc";
/// Size of a message's prefix: compression flag and length.
const PREFIX_BYTES: usize = 5;
const EMPTY_MESSAGE: [u8; PREFIX_BYTES] = [0; PREFIX_BYTES];

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// gRPC status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ok = 0,
    InvalidArgument = 3,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Unimplemented = 12,
    /// The only one of these statuses after which senders retry.
    Unavailable = 14,
    Unauthenticated = 16,
}

impl Status {
    fn number(self) -> u16 {
        self as u16
    }
}

/// Status and message of a failed call.
struct Refusal {
    status: Status,
    text: String,
}

impl Refusal {
    fn new(status: Status, text: impl Into<String>) -> Refusal {
        Refusal { status, text: text.into() }
    }
}

impl From<BodyError> for Refusal {
    fn from(error: BodyError) -> Refusal {
        let answer = match error {
            BodyError::TooLarge(bytes) => {
                let text = format!("the message exceeds {bytes} bytes; send fewer records at a time");
                return Refusal::new(Status::ResourceExhausted, text);
            }
            BodyError::DecodedTooLarge(bytes) => {
                return Refusal::new(Status::ResourceExhausted, decoded_too_large_text(bytes));
            }
            BodyError::TooSlow => return Refusal::new(Status::Unavailable, TOO_SLOW_TEXT),
            BodyError::Refused(answer) => answer,
        };
        let (_, status, text) = answer.code.row();
        let status = match (answer.code, status) {
            (Code::TokenDisabled, _) => Status::PermissionDenied,
            (Code::InvalidToken, _) | (_, StatusCode::UNAUTHORIZED) => Status::Unauthenticated,
            // A failed write is included, because events that were not stored must be sent again.
            (_, status) if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => Status::Unavailable,
            _ => Status::InvalidArgument,
        };
        Refusal::new(status, text)
    }
}

/// A refusal of OTLP over HTTP: a `google.rpc.Status` in the encoding of the request. Exporters go by the HTTP status
/// and retry after 429, 502, 503 and 504 only.
pub(super) fn http_refusal(error: BodyError, form: BodyEncoding) -> Response {
    let http = match &error {
        BodyError::TooLarge(_) | BodyError::DecodedTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
        BodyError::TooSlow => StatusCode::SERVICE_UNAVAILABLE,
        BodyError::Refused(answer) => answer.code.row().1,
    };
    let refusal = Refusal::from(error);
    let is_retried = refusal.status == Status::Unavailable && http != StatusCode::TOO_MANY_REQUESTS;
    let http = if is_retried { StatusCode::SERVICE_UNAVAILABLE } else { http };
    if matches!(form, BodyEncoding::Json) {
        return answer::json(http, &json!({ "code": refusal.status.number(), "message": refusal.text }));
    }
    let media_type = [(header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"))];
    (http, media_type, status_message(refusal.status, &refusal.text)).into_response()
}

/// `google.rpc.Status` as protobuf: field 1 is the code, field 2 the message.
fn status_message(status: Status, text: &str) -> Vec<u8> {
    const CODE: u8 = 1 << 3;
    const TEXT: u8 = 2 << 3 | 2;
    let [status, _] = status.number().to_le_bytes();
    let mut message = vec![CODE, status, TEXT];
    let mut length = text.len();
    while length >= 0x80 {
        message.push(length.to_le_bytes()[0] | 0x80);
        length >>= 7;
    }
    message.push(length.to_le_bytes()[0]);
    message.extend(text.as_bytes());
    message
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        headers.insert(STATUS, HeaderValue::from(self.status.number()));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity,gzip"));
        if let Ok(text) = HeaderValue::from_str(&self.text) {
            headers.insert(MESSAGE, text);
        }
        response
    }
}

/// The services.
pub(in crate::hec) fn router() -> Router<Arc<Collector>> {
    Router::new()
        .route("/opentelemetry.proto.collector.logs.v1.LogsService/Export", post(logs))
        .route("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", post(metrics))
        .route("/opentelemetry.proto.collector.trace.v1.TraceService/Export", post(traces))
        .fallback(unsupported_service)
}

async fn logs(State(collector): State<Arc<Collector>>, request: Request) -> Response {
    to_response(call(collector, request, read_logs).await)
}

async fn metrics(State(collector): State<Arc<Collector>>, request: Request) -> Response {
    to_response(call(collector, request, read_metrics).await)
}

async fn traces(State(collector): State<Arc<Collector>>, request: Request) -> Response {
    to_response(call(collector, request, read_traces).await)
}

/// Unsupported services, such as profiles.
async fn unsupported_service(request: Request) -> Response {
    let text = format!("unknown service {}: this port accepts logs, metrics and traces", request.uri().path());
    Refusal::new(Status::Unimplemented, text).into_response()
}

fn to_response(outcome: Result<(), Refusal>) -> Response {
    if let Err(refusal) = outcome {
        return refusal.into_response();
    }
    let mut trailers = HeaderMap::new();
    trailers.insert(STATUS, HeaderValue::from(Status::Ok.number()));
    let message = Full::new(Bytes::from_static(&EMPTY_MESSAGE)).with_trailers(async move { Some(Ok(trailers)) });
    ([(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE))], Body::new(message)).into_response()
}

async fn call(collector: Arc<Collector>, request: Request, read: Reader) -> Result<(), Refusal> {
    let headers = request.headers();
    let of_header = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !of_header(header::CONTENT_TYPE).starts_with(MEDIA_TYPE) {
        return Err(Refusal::new(
            Status::InvalidArgument,
            "this port accepts only gRPC; use OTLP over HTTP on the other port",
        ));
    }
    let encoding = of_header(ENCODING).to_ascii_lowercase();
    let mut sent = receive_request(collector, request).await?;
    let is_packed = remove_prefix(&mut sent.kept.bytes)?;
    sent.headers.remove(header::CONTENT_ENCODING);
    if is_packed {
        if encoding != "gzip" {
            let text = "messages must be uncompressed or gzip";
            return Err(Refusal::new(Status::Unimplemented, text));
        }
        sent.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    store(sent, BodyEncoding::Protobuf, read).await.map_err(Refusal::from)
}

/// Removes the prefix of a call's message; returns true if the message is compressed.
fn remove_prefix(bytes: &mut Vec<u8>) -> Result<bool, Refusal> {
    let broken = || Refusal::new(Status::InvalidArgument, "the body is not one whole message");
    let (prefix, message) = bytes.split_first_chunk::<PREFIX_BYTES>().ok_or_else(broken)?;
    let [packed, length @ ..] = *prefix;
    if packed > 1 || usize::try_from(u32::from_be_bytes(length)) != Ok(message.len()) {
        return Err(broken());
    }
    bytes.drain(..PREFIX_BYTES);
    Ok(packed == 1)
}

#[cfg(test)]
mod tests {
    use super::{Refusal, Status, remove_prefix, status_message};
    use crate::hec::answer::Code;
    use crate::hec::body::BodyError;

    #[test]
    fn only_one_complete_message_is_accepted() {
        let mut bytes = vec![0, 0, 0, 0, 2, 7, 8];
        assert!(matches!(remove_prefix(&mut bytes), Ok(false)));
        assert_eq!(bytes, [7, 8]);
        assert!(matches!(remove_prefix(&mut vec![1, 0, 0, 0, 0]), Ok(true)));
        for broken in [&[][..], &[0, 0, 0], &[0, 0, 0, 0, 2, 7], &[0, 0, 0, 0, 1, 7, 0, 0, 0, 0, 0], &[2, 0, 0, 0, 0]] {
            assert!(remove_prefix(&mut broken.to_vec()).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn status_message_has_two_fields() {
        assert_eq!(status_message(Status::InvalidArgument, "no"), b"\x08\x03\x12\x02no");
        let long = "x".repeat(300);
        let message = status_message(Status::Unavailable, &long);
        assert_eq!(message, [b"\x08\x0e\x12\xac\x02", long.as_bytes()].concat());
    }

    #[test]
    fn only_transient_failures_request_a_retry() {
        let status = |code: Code| Refusal::from(BodyError::from(code)).status;
        assert_eq!(status(Code::Busy), Status::Unavailable);
        assert_eq!(status(Code::ServerError), Status::Unavailable);
        assert_eq!(status(Code::ShuttingDown), Status::Unavailable);
        assert_eq!(status(Code::InvalidFormat), Status::InvalidArgument);
        assert_eq!(status(Code::IncorrectIndex), Status::InvalidArgument);
        assert_eq!(status(Code::TokenRequired), Status::Unauthenticated);
        assert_eq!(status(Code::InvalidToken), Status::Unauthenticated);
        assert_eq!(status(Code::TokenDisabled), Status::PermissionDenied);
        assert_eq!(Refusal::from(BodyError::TooLarge(5)).status, Status::ResourceExhausted);
    }
}
