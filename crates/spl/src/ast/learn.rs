//! Syntax shared by the machine learning commands: names of models, and options of algorithms.

use serde::{Deserialize, Serialize};

use super::Span;

/// Name of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelName {
    /// Letters, digits, `_` and `-`.
    pub text: String,
    /// `app:NAME`: the model that the users of the app share.
    pub shared: bool,
    /// Position in the text.
    pub span: Span,
}

/// A `name=value` option, passed to the algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnOption {
    /// Name in lower case.
    pub name: String,
    /// Value, unquoted.
    pub value: String,
    /// Position of the value.
    pub span: Span,
}
