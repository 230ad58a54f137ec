//! Path parameters by name, such as `user`, `app` and `name`.
//!
//! The user of a namespace is replaced by the name as stored, because user names are case-insensitive, here and at a
//! login. Not here: access to another user's namespace (each endpoint).

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRef, FromRequestParts, Path};
use axum::http::request::Parts;
use quarry_auth::Auth;

/// The segment with the user of a namespace.
const USER: &str = "user";

/// A path parameter that a path does not contain, because the alias of the path fixes its value; an extension of the
/// request.
#[derive(Clone, Copy, Debug)]
pub(super) struct FixedPart {
    pub(super) name: &'static str,
    pub(super) value: &'static str,
}

/// Says that a request with the path of an entity is answered like a request to its collection, without the entity's
/// name; an extension of the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfCollection;

/// Path parameters by name.
#[derive(Clone, Debug)]
pub(super) struct PathParts(pub(super) BTreeMap<String, String>);

impl Deref for PathParts {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathParts
where
    Arc<Auth>: FromRef<S>,
{
    type Rejection = PathRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathParts, PathRejection> {
        let Path(mut segments) = Path::<BTreeMap<String, String>>::from_request_parts(parts, state).await?;
        if let Some(FixedPart { name, value }) = parts.extensions.get().copied() {
            segments.insert(name.to_owned(), value.to_owned());
        }
        if parts.extensions.get::<OfCollection>().is_some() {
            segments.remove("name");
        }
        if let Some(user) = segments.get_mut(USER) {
            *user = Arc::<Auth>::from_ref(state).stored_name(user);
        }
        Ok(PathParts(segments))
    }
}
