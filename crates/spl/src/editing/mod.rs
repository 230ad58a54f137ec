//! Editor services for the text of a search: its tokens, completion at a cursor, help at a position, formatting.
//!
//! All of them build on [`tokens`], a lexical analysis that accepts any text, because a search that is being typed
//! rarely parses. Names that depend on the node, such as those of fields and macros, come from the caller as a
//! [`Vocabulary`].
//!
//! Not here: errors and warnings, which [`crate::parse()`] finds.

mod completion;
mod format;
mod hover;
mod option_names;
mod token;

pub use completion::{CANDIDATES_MAX, Candidate, CandidateKind, Completion, Vocabulary, complete};
pub use format::format;
pub use hover::{Hover, functions_named, hover};
pub use token::{Token, TokenKind, tokens};
