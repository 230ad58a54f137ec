//! Converts panics to errors, so that a bug ends one search only, and the result of that search does not look complete.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::EngineError;

/// Runs part of a search and converts a panic to an error. Nothing that `run` changed may be used afterwards.
pub fn catch_panic<T>(stage: &'static str, run: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    let internal =
        |said: Box<dyn Any + Send>| Err(EngineError::Internal { stage, message: panic_message(said.as_ref()) });
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(internal)
}

fn panic_message(said: &(dyn Any + Send)) -> String {
    let text = said.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| said.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a text".to_owned())
}
