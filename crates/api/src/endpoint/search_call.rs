//! Requests that run or analyse searches and answer with their own JSON instead of rows.
//!
//! One extractor reads the parts that every handler needs: the caller, the parameters and the search service of the
//! request's namespace. Its methods run work off the async threads; [`SearchCall::search`] and
//! [`SearchCall::search_both`] also hold a search slot. Not here: searches whose rows are the answer
//! ([`super::search_jobs`]), jobs ([`super::jobs`]).

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use jiff::tz::TimeZone;
use quarry_event::time::parse_zone;
use quarry_search::{SearchError, SearchParams, SearchService};
use quarry_spl::ast::Pipeline;

use super::path_parts::PathParts;
use super::run_blocking;
use super::search_jobs::{params_of, required_search, service_of};
use crate::ApiState;
use crate::caller::Caller;
use crate::message::ApiError;
use crate::parameters::Parameters;
use crate::search_slots::SlotPurpose;

/// A request with the search service that answers it.
pub(super) struct SearchCall {
    state: ApiState,
    pub(super) caller: Caller,
    /// Parameters of the query and the form.
    pub(super) parameters: Parameters,
    pub(super) service: Arc<SearchService>,
}

impl FromRequest<ApiState> for SearchCall {
    type Rejection = Response;

    async fn from_request(request: Request, state: &ApiState) -> Result<SearchCall, Response> {
        let (mut head, body) = request.into_parts();
        let parts = PathParts::from_request_parts(&mut head, state).await.map_err(IntoResponse::into_response)?;
        let caller = Caller::from_request_parts(&mut head, state).await.map_err(IntoResponse::into_response)?;
        let parameters = Parameters::from_request(Request::from_parts(head, body), state).await?;
        let service = service_of(state, &caller, &parts).await.map_err(IntoResponse::into_response)?;
        Ok(SearchCall { state: state.clone(), caller, parameters, service })
    }
}

impl SearchCall {
    /// The zone of the request, or the server's.
    pub(super) fn zone(&self) -> TimeZone {
        self.parameters.get("zone").and_then(parse_zone).unwrap_or_else(|| self.service.zone())
    }

    /// Current time.
    pub(super) fn now(&self) -> quarry_event::TimeNs {
        self.state.auth.now()
    }

    /// The search that the parameters describe; as in a search bar, it may begin with search terms.
    pub(super) fn params(&self) -> Result<SearchParams, ApiError> {
        let params = params_of(&self.service, &self.parameters, &self.caller, None)?;
        Ok(SearchParams { text: required_search(&self.parameters)?, prefix: 0, ..params })
    }

    /// A search with this text, run as the caller.
    pub(super) fn params_for(&self, text: &str) -> SearchParams {
        let permissions = Arc::clone(&self.caller.permissions);
        SearchParams { text: text.to_owned(), permissions, ..SearchParams::default() }
    }

    /// An internal search, parsed as `pipeline`, that serves the request but does not count as the caller's own search;
    /// messages show `text`.
    pub(super) fn params_of(&self, text: &str, pipeline: Pipeline) -> SearchParams {
        SearchParams { pipeline: Some(pipeline), is_internal: true, ..self.params_for(text) }
    }

    /// Runs work without a search slot.
    pub(super) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SearchService) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let service = Arc::clone(&self.service);
        run_blocking(move || work(&service)).await
    }

    /// Like [`SearchCall::with`], for work that fails with a search error; `text` is the search shown with the error.
    pub(super) async fn analyse<T: Send + 'static>(
        &self,
        text: &str,
        work: impl FnOnce(&SearchService) -> Result<T, SearchError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.with(work).await?.map_err(|error| ApiError::from_search_error(text, error))
    }

    /// Like [`SearchCall::analyse`], in a search slot.
    pub(super) async fn search<T: Send + 'static>(
        &self,
        text: &str,
        work: impl FnOnce(&SearchService) -> Result<T, SearchError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let permit = self.state.acquire_slot(&self.caller, SlotPurpose::Search).await?;
        let in_turn = move |service: &SearchService| {
            let found = work(service);
            drop(permit);
            found
        };
        self.analyse(text, in_turn).await
    }

    /// Like [`SearchCall::search`], for two concurrent pieces of work, which share a slot because they are parts of one
    /// answer.
    pub(super) async fn search_both<T: Send + 'static>(
        &self,
        text: &str,
        works: [impl FnOnce(&SearchService) -> Result<T, SearchError> + Send + 'static; 2],
    ) -> Result<(T, T), ApiError> {
        // The slot is held until both searches have ended, even if one fails or the client disconnects earlier.
        let permit = Arc::new(self.state.acquire_slot(&self.caller, SlotPurpose::Search).await?);
        let [first, second] = works.map(|work| {
            let permit = Arc::clone(&permit);
            let in_turn = move |service: &SearchService| {
                let found = work(service);
                drop(permit);
                found
            };
            self.analyse(text, in_turn)
        });
        tokio::try_join!(first, second)
    }
}
