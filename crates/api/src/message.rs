//! Splunk's form of an error: a status and `{"messages":[{"type":"FATAL","text":"..."}]}`.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use quarry_auth::AuthError;
use quarry_engine::EngineError;
use quarry_search::SearchError;
use quarry_search::cell::write_json_text;

use crate::NamespaceError;

/// A refused or failed request.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    text: String,
}

impl ApiError {
    /// The request cannot be served as it is.
    pub(crate) fn bad_request(text: impl Into<String>) -> ApiError {
        ApiError { status: StatusCode::BAD_REQUEST, text: text.into() }
    }

    /// The user's roles do not allow the request.
    pub(crate) fn forbidden(text: impl Into<String>) -> ApiError {
        ApiError { status: StatusCode::FORBIDDEN, text: text.into() }
    }

    /// A refusal with a status of its own.
    pub(crate) fn with_status(status: StatusCode, text: impl Into<String>) -> ApiError {
        ApiError { status, text: text.into() }
    }

    /// The node failed.
    pub(crate) fn internal(text: impl Into<String>) -> ApiError {
        ApiError { status: StatusCode::INTERNAL_SERVER_ERROR, text: text.into() }
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> ApiError {
        let status = match error {
            AuthError::Missing | AuthError::Denied => StatusCode::UNAUTHORIZED,
            AuthError::TooManySessions { .. } => StatusCode::SERVICE_UNAVAILABLE,
            AuthError::BadRecord { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        ApiError { status, text: error.to_string() }
    }
}

impl From<NamespaceError> for ApiError {
    fn from(error: NamespaceError) -> ApiError {
        let status = match error {
            NamespaceError::Unknown(_) => StatusCode::NOT_FOUND,
            NamespaceError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        ApiError { status, text: error.to_string() }
    }
}

impl From<SearchError> for ApiError {
    fn from(error: SearchError) -> ApiError {
        match error {
            SearchError::Engine(EngineError::Invalid { .. }) | SearchError::Syntax(_) | SearchError::Time { .. } => {
                ApiError::bad_request(error.to_string())
            }
            SearchError::Engine(_) => ApiError::internal(error.to_string()),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let kind = if self.status == StatusCode::UNAUTHORIZED { "WARN" } else { "FATAL" };
        let mut body = format!("{{\"messages\":[{{\"type\":\"{kind}\",\"text\":");
        write_json_text(&self.text, &mut body);
        body.push_str("}]}");
        (self.status, [(header::CONTENT_TYPE, "application/json; charset=UTF-8")], body).into_response()
    }
}

/// Answer to a path nobody serves.
pub(crate) async fn not_found() -> ApiError {
    ApiError { status: StatusCode::NOT_FOUND, text: "Not Found".to_owned() }
}
