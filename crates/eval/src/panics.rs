//! Panics as errors: a bug of ours ends one search, and its answer does not look whole.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::EngineError;

/// Runs a part of a search, so that a panic in it becomes an error. Nothing that `run` changed may be used then.
pub fn caught<T>(stage: &'static str, run: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    let internal = |said: Box<dyn Any + Send>| Err(EngineError::Internal { stage, message: text_of(said.as_ref()) });
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(internal)
}

/// What a panic said.
fn text_of(said: &(dyn Any + Send)) -> String {
    let text = said.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| said.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a text".to_owned())
}
