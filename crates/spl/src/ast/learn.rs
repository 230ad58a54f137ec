//! What the commands of machine learning share: names of models, and options of algorithms.

use serde::{Deserialize, Serialize};

use super::Span;

/// Name of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelName {
    /// Letters, digits, `_` and `-`.
    pub text: String,
    /// `app:NAME`: the one that the users of the app share.
    pub shared: bool,
    /// Place.
    pub span: Span,
}

/// `name=value` as it is given to the algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnOption {
    /// Name in lower case.
    pub name: String,
    /// Value, unquoted.
    pub value: String,
    /// Place of the value.
    pub span: Span,
}
