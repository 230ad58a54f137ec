//! Reports to the port that the client of a request has been authenticated.
//!
//! A port that must close connections begins with those of unauthenticated clients. Only the handler of a request knows
//! whether its password, session or token is valid, and it knows this before it reads the body. The handler therefore
//! reports it through an extension of the request.

use std::sync::Arc;

use axum::http::Extensions;

/// An extension of a request, by which its handler tells the port that the client has authenticated.
#[derive(Clone)]
pub struct ClientProof(Arc<dyn Fn() + Send + Sync>);

impl ClientProof {
    /// A proof that is reported to `confirm`.
    pub fn new(confirm: impl Fn() + Send + Sync + 'static) -> ClientProof {
        ClientProof(Arc::new(confirm))
    }

    /// Reports that the client is authenticated.
    pub fn confirm(&self) {
        (self.0)();
    }

    /// Reports that the client of a request with these extensions is authenticated.
    pub fn confirm_in(extensions: &Extensions) {
        if let Some(proof) = extensions.get::<ClientProof>() {
            proof.confirm();
        }
    }
}
