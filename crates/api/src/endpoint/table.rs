//! The table of all endpoints.
//!
//! A row has method, path, access, parameters, answers, help text and handler; each family provides its rows
//! ([`Endpoint`]). The router, the access check ([`super::access`]), the API description and the manual are generated
//! from the table. A handler without a row cannot be reached.

use std::sync::LazyLock;

use axum::Router;

use super::row::{Endpoint, EndpointRow};
use crate::ApiState;

fn all() -> Vec<Endpoint> {
    let families = [
        super::root::endpoints(),
        super::auth::endpoints(),
        super::users::endpoints(),
        super::jobs::endpoints(),
        super::job_edits::endpoints(),
        super::job_results::endpoints(),
        super::job_stream::endpoints(),
        super::search_jobs::endpoints(),
        super::entities::endpoints(),
        super::props_attributes::endpoints(),
        super::configurations::endpoints(),
        super::saved_searches::endpoints(),
        super::new_entities::endpoints(),
        super::node_entries::endpoints(),
        super::cache_manager::endpoints(),
        super::datamodels::endpoints(),
        super::pivots::endpoints(),
        super::server_settings::endpoints(),
        super::server_state::endpoints(),
        super::constant_answers::endpoints(),
        super::loggers::endpoints(),
        super::search_language::endpoints(),
        super::spl_services::endpoints(),
        super::event_analysis::endpoints(),
        super::export::endpoints(),
        super::extraction::endpoints(),
        super::user_data::endpoints(),
        super::receivers::endpoints(),
        super::collection_entities::endpoints(),
        super::kvstore_statistics::endpoints(),
        super::metric_catalog::endpoints(),
        super::directory::endpoints(),
        super::documents::endpoints(),
        super::lookup_table_files::endpoints(),
        super::inputs::endpoints(),
        super::input_connections::endpoints(),
        super::watched_files::endpoints(),
        super::modular_inputs::endpoints(),
        super::outputs::endpoints(),
        super::passwords::endpoints(),
        super::apps::endpoints(),
        super::indexes::endpoints(),
        super::roles::endpoints(),
        super::tags::endpoints(),
        super::tokens::endpoints(),
        super::views::endpoints(),
        super::openapi::endpoints(),
        super::oneshot::endpoints(),
        super::upload::endpoints(),
        super::preview::endpoints(),
        super::buckets::endpoints(),
        super::collector_tokens::endpoints(),
    ];
    let mut served: Vec<Endpoint> = families.into_iter().flatten().collect();
    super::entity_actions::create_missing(&mut served);
    served.extend(super::entity_actions::endpoints(&served));
    served.extend(super::admin_aliases::endpoints(&served));
    served.extend(super::folders::endpoints(&served));
    served
}

/// The rows of all endpoints.
pub static ENDPOINTS: LazyLock<Vec<EndpointRow>> =
    LazyLock::new(|| all().into_iter().map(Endpoint::into_row).collect());

/// The router of all endpoints.
pub(crate) fn router() -> Router<ApiState> {
    all().into_iter().fold(Router::new(), |router, endpoint| endpoint.mount(router))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn endpoints_are_unique_and_fully_described() {
        let mut known = BTreeSet::new();
        for row in ENDPOINTS.iter() {
            assert!(known.insert((row.method.to_string(), row.path.clone())), "{} {} twice", row.method, row.path);
            assert!(row.summary.ends_with('.') && row.summary.len() > 10, "{}: {:?}", row.path, row.summary);
            assert!(row.path.starts_with('/') && !row.path.contains("//"), "{}", row.path);
            assert!(row.answers.is_some(), "{} {} states no answer", row.method, row.path);
        }
        // Panics if two rows conflict.
        drop(router());
    }
}
