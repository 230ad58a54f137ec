//! Reporting that the client of a request is known.
//!
//! A port closes connections of unknown clients first. Only the handler of a request knows whether its password, session
//! or token is valid, and it knows so before it reads the body. The means to report it is therefore an extension of the
//! request.

use std::sync::Arc;

use axum::http::Extensions;

/// An extension of a request, by which its handler tells the port that the client has proven who it is.
#[derive(Clone)]
pub struct ClientProof(Arc<dyn Fn() + Send + Sync>);

impl ClientProof {
    /// A proof that is reported to `confirm`.
    pub fn new(confirm: impl Fn() + Send + Sync + 'static) -> ClientProof {
        ClientProof(Arc::new(confirm))
    }

    /// Reports that the client is known.
    pub fn confirm(&self) {
        (self.0)();
    }

    /// Reports that the client of a request with these extensions is known.
    pub fn confirm_in(extensions: &Extensions) {
        if let Some(proof) = extensions.get::<ClientProof>() {
            proof.confirm();
        }
    }
}
