//! An error as a kind and a text, for trait boundaries.
//!
//! A trait declared in one crate and implemented in others cannot name their error enums, so its methods fail with a
//! [`Fault`]. Checks that can fail in many ways that no caller distinguishes, such as checks of rules, also fail with a
//! [`Fault`]. Where callers do distinguish cases, the crate has an enum of its own with a `kind()`.

use std::fmt::Display;

use crate::ErrorKind;

/// An error enum whose cases have kinds. Converting it to a [`Fault`] keeps the kind and the text.
pub trait HasKind: Display {
    /// Meaning of the error for the caller.
    fn kind(&self) -> ErrorKind;
}

/// Error with a kind and a text that states the problem, its location, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Fault {
    kind: ErrorKind,
    text: String,
}

impl Fault {
    /// A fault of this kind.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Fault {
        Fault { kind, text: text.into() }
    }

    /// [`ErrorKind::Invalid`]: the request must change.
    pub fn invalid(text: impl Into<String>) -> Fault {
        Fault::new(ErrorKind::Invalid, text)
    }

    /// [`ErrorKind::NotFound`]: the requested thing does not exist.
    pub fn not_found(text: impl Into<String>) -> Fault {
        Fault::new(ErrorKind::NotFound, text)
    }

    /// [`ErrorKind::Denied`]: the caller may not do this.
    pub fn denied(text: impl Into<String>) -> Fault {
        Fault::new(ErrorKind::Denied, text)
    }

    /// [`ErrorKind::Unavailable`]: the machine, another node or a program fails.
    pub fn unavailable(text: impl Into<String>) -> Fault {
        Fault::new(ErrorKind::Unavailable, text)
    }

    /// [`ErrorKind::Corrupt`]: stored data is damaged.
    pub fn corrupt(text: impl Into<String>) -> Fault {
        Fault::new(ErrorKind::Corrupt, text)
    }

    /// [`ErrorKind::Bug`]: an invariant is violated.
    pub fn bug(text: impl Into<String>) -> Fault {
        Fault::new(ErrorKind::Bug, text)
    }

    /// [`ErrorKind::Unavailable`] for a failed operation on a file, socket or thread, as `what: error`.
    pub fn io(what: impl Display, error: impl Display) -> Fault {
        Fault::unavailable(format!("{what}: {error}"))
    }

    /// Meaning of the error for the caller.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The same fault with context in front of its text: `what: text`.
    pub fn with_context(self, what: impl Display) -> Fault {
        Fault { text: format!("{what}: {}", self.text), ..self }
    }

    /// This fault with its text replaced by a function of the text.
    pub fn map_text(self, text: impl FnOnce(&str) -> String) -> Fault {
        Fault { text: text(&self.text), ..self }
    }
}

impl<E: HasKind> From<E> for Fault {
    fn from(error: E) -> Fault {
        Fault::new(error.kind(), error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_context_keeps_the_kind() {
        let fault =
            Fault::io("a.csv", "disk full").with_context("outputlookup").map_text(|text| format!("{text}; free space"));
        assert_eq!(fault.kind(), ErrorKind::Unavailable);
        assert_eq!(fault.to_string(), "outputlookup: a.csv: disk full; free space");
    }
}
