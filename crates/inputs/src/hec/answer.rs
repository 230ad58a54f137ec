//! Answers of the HTTP Event Collector: Splunk's codes, each with its HTTP status and text.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// Texts about limits of an envelope; a test compares them with the limits.
pub(crate) const TOO_MANY_FIELDS: &str = "Error in handling indexed fields: an event has more than 65536 of them";
pub(crate) const INVALID_FIELD_NAME: &str =
    "Error in handling indexed fields: a name is empty or longer than 1024 bytes";
const INVALID_TIME: &str =
    "Error in handling indexed fields: time is not a number of seconds since 1970 (divide milliseconds by 1000)";
pub(crate) const TOO_DEEP: &str = "Invalid data format: arrays and objects are nested deeper than 500";
pub(crate) const METADATA_TOO_LONG: &str = "Invalid data format: host, source or sourcetype is longer than 65536 bytes";
pub(crate) const EVENT_TOO_LONG: &str = "Invalid data format: an event with its fields is longer than 67108864 bytes";

pub(crate) const TOO_MANY_ACKS: &str = "Invalid data format: more than 100000 acks requested at once";

/// One of Splunk's codes, or a variant of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Success,
    TokenDisabled,
    TokenRequired,
    InvalidAuthorization,
    InvalidToken,
    NoData,
    InvalidFormat,
    IncorrectIndex,
    ServerError,
    Busy,
    ChannelMissing,
    InvalidChannel,
    EventRequired,
    EventBlank,
    AckDisabled,
    InvalidFields,
    /// Invalid time. This code has the number of [`Code::InvalidFields`], as in Splunk, but a text of its own.
    InvalidTime,
    TooManyFields,
    InvalidFieldName,
    /// Nested too deeply. This code has the number of [`Code::InvalidFormat`], but a text of its own.
    TooDeep,
    MetadataTooLong,
    EventTooLong,
    TooManyAcks,
    /// The store refuses these events for good, so a retry does not help.
    Refused,
    QueryAuthorization,
    Healthy,
    UnhealthyQueues,
    ShuttingDown,
    ChannelFull,
}

impl Code {
    /// Number, HTTP status and text.
    pub(crate) fn row(self) -> (u8, StatusCode, &'static str) {
        use StatusCode as Http;
        match self {
            Code::Success => (0, Http::OK, "Success"),
            Code::TokenDisabled => (1, Http::FORBIDDEN, "Token disabled"),
            Code::TokenRequired => (2, Http::UNAUTHORIZED, "Token is required"),
            Code::InvalidAuthorization => (3, Http::UNAUTHORIZED, "Invalid authorization"),
            Code::InvalidToken => (4, Http::FORBIDDEN, "Invalid token"),
            Code::NoData => (5, Http::BAD_REQUEST, "No data"),
            Code::InvalidFormat => (6, Http::BAD_REQUEST, "Invalid data format"),
            Code::IncorrectIndex => (7, Http::BAD_REQUEST, "Incorrect index"),
            Code::ServerError => (8, Http::INTERNAL_SERVER_ERROR, "Internal server error"),
            Code::Busy => (9, Http::SERVICE_UNAVAILABLE, "Server is busy"),
            Code::ChannelMissing => (10, Http::BAD_REQUEST, "Data channel is missing"),
            Code::InvalidChannel => (11, Http::BAD_REQUEST, "Invalid data channel"),
            Code::EventRequired => (12, Http::BAD_REQUEST, "Event field is required"),
            Code::EventBlank => (13, Http::BAD_REQUEST, "Event field cannot be blank"),
            Code::AckDisabled => (14, Http::BAD_REQUEST, "ACK is disabled"),
            Code::InvalidFields => (15, Http::BAD_REQUEST, "Error in handling indexed fields"),
            Code::InvalidTime => (15, Http::BAD_REQUEST, INVALID_TIME),
            Code::TooManyFields => (15, Http::BAD_REQUEST, TOO_MANY_FIELDS),
            Code::InvalidFieldName => (15, Http::BAD_REQUEST, INVALID_FIELD_NAME),
            Code::TooDeep => (6, Http::BAD_REQUEST, TOO_DEEP),
            Code::MetadataTooLong => (6, Http::BAD_REQUEST, METADATA_TOO_LONG),
            Code::EventTooLong => (6, Http::BAD_REQUEST, EVENT_TOO_LONG),
            Code::TooManyAcks => (6, Http::BAD_REQUEST, TOO_MANY_ACKS),
            Code::Refused => (6, Http::BAD_REQUEST, "Invalid data format: the store cannot take these events"),
            Code::QueryAuthorization => (16, Http::BAD_REQUEST, "Query string authorization is not enabled"),
            Code::Healthy => (17, Http::OK, "HEC is healthy"),
            Code::UnhealthyQueues => (18, Http::SERVICE_UNAVAILABLE, "HEC is unhealthy, queues are full"),
            Code::ShuttingDown => (23, Http::SERVICE_UNAVAILABLE, "Server is shutting down"),
            Code::ChannelFull => (27, Http::TOO_MANY_REQUESTS, "ack channel at capacity"),
        }
    }
}

/// An answer: a code and its details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: Code,
    /// Index of the first bad event in the request.
    pub(crate) event: Option<u64>,
    /// Acknowledgment id of the request in its channel.
    pub(crate) ack: Option<u64>,
}

impl From<Code> for Answer {
    fn from(code: Code) -> Answer {
        Answer { code, event: None, ack: None }
    }
}

impl Answer {
    /// An error of the event at `event`.
    pub(crate) fn for_event(code: Code, event: u64) -> Answer {
        Answer { code, event: Some(event), ack: None }
    }

    /// True if the sender has to repeat its request.
    pub(crate) fn asks_to_retry(&self) -> bool {
        self.code.row().1.is_server_error()
    }
}

/// An answer's JSON, with members in Splunk's order.
#[derive(Serialize)]
pub(crate) struct AnswerBody<'a> {
    pub(crate) text: &'a str,
    pub(crate) code: u16,
    #[serde(rename = "invalid-event-number", skip_serializing_if = "Option::is_none")]
    pub(crate) event: Option<u64>,
    #[serde(rename = "ackId", skip_serializing_if = "Option::is_none")]
    pub(crate) ack: Option<u64>,
}

impl<'a> AnswerBody<'a> {
    /// An answer with only text and code.
    pub(crate) fn new(text: &'a str, code: u16) -> AnswerBody<'a> {
        AnswerBody { text, code, event: None, ack: None }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let (number, status, text) = self.code.row();
        json(status, &AnswerBody { text, code: number.into(), event: self.event, ack: self.ack })
    }
}

/// A JSON body.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    // Only maps with non-string keys cannot be serialized, and no body contains such a map.
    json_text(status, serde_json::to_string(body).unwrap_or_default())
}

/// A response whose text is JSON.
pub(crate) fn json_text(status: StatusCode, text: String) -> Response {
    let mut response = (status, text).into_response();
    let kind = HeaderValue::from_static("application/json; charset=UTF-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
