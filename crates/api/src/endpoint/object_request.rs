//! Requests for objects outside the generic collections of stanzas: lookup files, views, data models, passwords, tags.
//!
//! One extractor reads the parts that every handler needs: the object's name, the scope, the caller and the parameters.
//! Not here: collections of stanzas, whose requests also name a kind ([`super::entities`]).

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use quarry_apps::objects::{AclChange, ConfObject, ObjectError, Objects, Scope};
use quarry_conf::Permissions;
use quarry_search::SearchService;

use super::entities::{change, scope_of, with_objects};
use super::path_parts::PathParts;
use super::permissions::{acl_change, required_acl_change, required_move};
use super::run_blocking;
use super::search_jobs::service_of;
use crate::ApiState;
use crate::atom::{Entry, Feed, Form};
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;

/// A request for an object, or for all objects of a kind.
pub(super) struct ObjectRequest {
    state: ApiState,
    /// Variable segments of the path, by name.
    pub(super) parts: PathParts,
    /// The object's name in the path; empty if there is none.
    pub(super) name: String,
    pub(super) scope: Scope,
    caller: Caller,
    /// Parameters of the query and the form.
    pub(super) parameters: Parameters,
}

impl FromRequest<ApiState> for ObjectRequest {
    type Rejection = Response;

    async fn from_request(request: Request, state: &ApiState) -> Result<ObjectRequest, Response> {
        let (mut head, body) = request.into_parts();
        let parts = PathParts::from_request_parts(&mut head, state).await.map_err(IntoResponse::into_response)?;
        let caller = Caller::from_request_parts(&mut head, state).await.map_err(IntoResponse::into_response)?;
        let scope = scope_of(&parts, &caller).map_err(IntoResponse::into_response)?;
        let parameters = Parameters::from_request(Request::from_parts(head, body), state).await?;
        let name = parts.get("name").cloned().unwrap_or_default();
        Ok(ObjectRequest { state: state.clone(), parts, name, scope, caller, parameters })
    }
}

impl ObjectRequest {
    /// Runs work on the objects off the async threads.
    pub(super) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Objects, &Permissions) -> Result<T, ObjectError> + Send + 'static,
    ) -> Result<T, ApiError> {
        with_objects(&self.state, &self.caller, work).await
    }

    /// Runs work on the search service of the request's namespace, on behalf of the caller.
    pub(super) async fn with_searches<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SearchService, &Arc<Permissions>) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let service = service_of(&self.state, &self.caller, &self.parts).await?;
        let viewer = Arc::clone(&self.caller.permissions);
        run_blocking(move || work(&service, &viewer)).await
    }

    /// The requested change of the object's ACL.
    pub(super) fn acl_change(&self) -> Result<AclChange, ApiError> {
        acl_change(&self.state.auth, &self.parameters)
    }

    /// The requested change of the object's ACL, which must not be empty.
    pub(super) fn required_acl_change(&self) -> Result<AclChange, ApiError> {
        required_acl_change(&self.state.auth, &self.parameters)
    }

    pub(super) fn required_move(&self, object: &ConfObject) -> Result<AclChange, ApiError> {
        required_move(&self.state.auth, &self.parameters, object)
    }

    /// The caller's permissions.
    pub(super) fn permissions(&self) -> &Permissions {
        &self.caller.permissions
    }

    /// Like [`ObjectRequest::with`], for changes of a conf.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        conf: &str,
        work: impl FnOnce(&Objects, &Permissions) -> Result<T, ObjectError> + Send + 'static,
    ) -> Result<T, ApiError> {
        change(&self.state, &self.caller, conf, work).await
    }

    /// The request without parameters other than the answer's format, for answering a removal with the list of
    /// remaining objects.
    pub(super) fn without_parameters(self) -> ObjectRequest {
        ObjectRequest { parameters: self.parameters.keep_only("output_mode"), ..self }
    }

    pub(super) fn answer(&self, title: &'static str, path: String, entry: Entry) -> Response {
        Feed::of(title, path, vec![entry]).answer(Form::of(self.parameters.get("output_mode")))
    }
}
