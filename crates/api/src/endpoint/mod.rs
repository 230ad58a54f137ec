//! Endpoint families, one file each.

pub(crate) mod access;
pub(crate) mod admin_aliases;
pub(crate) mod answer_shape;
pub(crate) mod apps;
pub(crate) mod auth;
pub(crate) mod buckets;
pub(crate) mod cache_manager;
mod collection_condition;
pub(crate) mod collection_entities;
mod collection_filter;
pub(crate) mod collector_tokens;
pub(crate) mod configurations;
pub(crate) mod constant_answers;
pub(crate) mod datamodels;
pub(crate) mod directory;
pub(crate) mod documents;
pub(crate) mod entities;
pub(crate) mod entity_actions;
mod entity_kinds;
pub(crate) mod event_analysis;
mod export;
pub(crate) mod extraction;
pub(crate) mod folders;
mod index_defaults;
mod index_permissions;
pub(crate) mod indexes;
pub(crate) mod input_connections;
pub(crate) mod inputs;
mod job_arguments;
mod job_costs;
pub(crate) mod job_edits;
mod job_keywords;
pub(crate) mod job_results;
pub(crate) mod job_stream;
pub(crate) mod jobs;
pub(crate) mod kvstore_statistics;
pub(crate) mod listing;
pub(crate) mod loggers;
pub(crate) mod lookup_table_files;
pub(crate) mod metric_catalog;
pub(crate) mod modular_inputs;
pub(crate) mod new_entities;
pub(crate) mod node_entries;
mod object_request;
pub(crate) mod oneshot;
pub(crate) mod openapi;
pub(crate) mod outputs;
pub(crate) mod passwords;
mod path_parts;
pub(crate) mod permissions;
mod pivot_specification;
pub(crate) mod pivots;
mod plan_shape;
pub(crate) mod preview;
pub(crate) mod props_attributes;
mod real_time;
pub(crate) mod receivers;
mod request_times;
pub(crate) mod roles;
pub(crate) mod root;
pub(crate) mod row;
mod row_requests;
mod saved_search_defaults;
pub(crate) mod saved_searches;
mod search_call;
pub(crate) mod search_jobs;
pub(crate) mod search_language;
mod search_schedules;
pub(crate) mod server_settings;
pub(crate) mod server_state;
mod setting_capabilities;
mod setting_types;
pub(crate) mod shape;
pub(crate) mod spl_services;
mod stored_searches;
pub(crate) mod table;
pub(crate) mod tags;
pub(crate) mod tokens;
pub(crate) mod upload;
pub(crate) mod user_data;
pub(crate) mod users;
pub(crate) mod views;
pub(crate) mod watched_files;

use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::message::ApiError;

/// Runs blocking work off the async threads.
pub(crate) async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| ApiError::internal(format!("the request's task ended early: {error}")))
}

/// A JSON answer.
pub(crate) fn json_response(body: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json; charset=UTF-8")], body).into_response()
}
