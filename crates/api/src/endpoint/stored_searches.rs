//! Checks of searches that are stored: a saved search that no user could run is refused when it is written, as in
//! Splunk.
//!
//! The final text of a search with macros or `$placeholders$` is known only when the search runs, so such a search is
//! stored unchecked. Not here: event types, which are conditions ([`super::entity_kinds`]).

use quarry_search::{SearchError, SearchParams};
use quarry_spl::Severity;

use super::path_parts::PathParts;
use super::run_blocking;
use super::search_jobs::service_of;
use crate::ApiState;
use crate::caller::Caller;
use crate::message::{ApiError, TypedSearch};

/// Whether a text contains `$name$`, which is replaced when the search is dispatched.
fn has_placeholder(text: &str) -> bool {
    let is_name = |part: &str| {
        let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '.' | '-' | ':');
        !part.is_empty() && part.chars().all(is_part)
    };
    let parts: Vec<&str> = text.split('$').collect();
    // The first part precedes all `$`, the last part follows them.
    parts.iter().skip(1).take(parts.len().saturating_sub(2)).any(|part| is_name(part))
}

/// Refuses a search that does not parse in the namespace of a request.
pub(super) async fn check_search(
    state: &ApiState,
    caller: &Caller,
    place: &PathParts,
    text: &str,
) -> Result<(), ApiError> {
    if text.trim().is_empty() || text.contains('`') || has_placeholder(text) {
        return Ok(());
    }
    let service = service_of(state, caller, place).await?;
    let typed = TypedSearch { text: text.to_owned(), prefix: 0 };
    // The permissions of the user who stores a search do not matter, because other users may run it.
    let params = SearchParams { text: text.to_owned(), ..SearchParams::for_owner() };
    let found = run_blocking(move || service.diagnose(params)).await?;
    let found = found.map_err(|error| ApiError::from_typed_search(&typed, error))?;
    let errors: Vec<_> = found.into_iter().filter(|fault| fault.severity == Severity::Error).collect();
    match errors.is_empty() {
        true => Ok(()),
        false => Err(ApiError::from_typed_search(&typed, SearchError::Syntax(errors))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_names_between_dollars() {
        for text in ["status=$status$", "a | head $args.n$", "$a$"] {
            assert!(has_placeholder(text), "{text}");
        }
        for text in ["", "a", "rex \"^(?<x>a)$\"", "eval a=\"$ $\"", "rex \"a$\" | rex \"b c$\"", "a$"] {
            assert!(!has_placeholder(text), "{text}");
        }
    }
}
