//! The error of a seam: a kind for the program, a text for whoever reads it.
//!
//! A trait whose methods can fail is declared in one crate and implemented in others, and must not know their enums; and a rule
//! that is wrong has as many texts as there are ways to be wrong, which no caller tells apart. Both fail with a [`Fault`]. Where
//! a caller does tell cases apart, the crate has an enum of its own with a `kind()`.

use std::fmt::Display;

use crate::ErrorKind;

/// An error enum that says of which kind each case is; as a [`Fault`] it keeps kind and text.
pub trait HasKind: Display {
    /// What it means to the caller.
    fn kind(&self) -> ErrorKind;
}

/// What failed: its kind, and a text that says what, where and what to do.
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

    /// [`ErrorKind::Invalid`]: the request has to change.
    pub fn invalid(text: impl Into<String>) -> Fault {
        Fault::new(ErrorKind::Invalid, text)
    }

    /// [`ErrorKind::NotFound`]: what is asked for does not exist.
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

    /// [`ErrorKind::Corrupt`]: something that was stored is damaged.
    pub fn corrupt(text: impl Into<String>) -> Fault {
        Fault::new(ErrorKind::Corrupt, text)
    }

    /// [`ErrorKind::Bug`]: an invariant does not hold.
    pub fn bug(text: impl Into<String>) -> Fault {
        Fault::new(ErrorKind::Bug, text)
    }

    /// The machine failed at a file, a socket or a thread: `what: error`.
    pub fn io(what: impl Display, error: impl Display) -> Fault {
        Fault::unavailable(format!("{what}: {error}"))
    }

    /// What it means to the caller.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The same fault, with where it happened in front of its text: `what: text`.
    pub fn at(self, what: impl Display) -> Fault {
        Fault { text: format!("{what}: {}", self.text), ..self }
    }

    /// The same fault with another text, made of its own.
    pub fn reworded(self, text: impl FnOnce(&str) -> String) -> Fault {
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
    fn a_fault_keeps_its_kind_when_its_place_is_added() {
        let fault = Fault::io("a.csv", "disk full").at("outputlookup").reworded(|text| format!("{text}; free space"));
        assert_eq!(fault.kind(), ErrorKind::Unavailable);
        assert_eq!(fault.to_string(), "outputlookup: a.csv: disk full; free space");
    }
}
