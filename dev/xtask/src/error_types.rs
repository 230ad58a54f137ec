//! The rule that a crate has one public error type, which has a kind and is named in the crate's `lib.rs`.
//!
//! Decision 0041 has the reasons. Private enums that only name the reasons for ending a connection are not checked.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{crate_of, is_test_file, product_lines, word};

/// Public error types besides the one of their crate: crate, name, reason.
const FURTHER_TYPES: &[(&str, &str, &str)] = &[
    ("bucket", "ReadError", "error of the trait `ReadAt`, which storage outside the crate implements"),
    ("inputs", "AppendError", "error of the traits `EventStore` and `Receipt`, which stores and queues implement"),
    ("inputs", "S2sError", "violation of a protocol: it ends a connection, and names no file as `InputError` does"),
];

/// The public error types of product code, by the crate that defines them.
#[derive(Default)]
pub(crate) struct ErrorTypes {
    defined: BTreeSet<(String, String)>,
    with_kind: BTreeSet<(String, String)>,
    /// The text of each crate's `lib.rs`.
    roots: BTreeMap<String, String>,
}

impl ErrorTypes {
    /// Collects the error types that a file defines, and those to which it gives a kind.
    pub(crate) fn add(&mut self, name: &str, text: &str) {
        let Some(owner) = crate_of(name).filter(|_| !is_test_file(name)) else { return };
        if name.ends_with("/src/lib.rs") {
            self.roots.insert(owner.to_owned(), text.to_owned());
        }
        let is_public =
            |type_name: &str| ["struct", "enum"].iter().any(|kind| text.contains(&format!("pub {kind} {type_name} ")));
        let mut is_error = false;
        for line in product_lines(text) {
            let derives = line.strip_prefix("#[derive(").map(|list| list.trim_end_matches(")]").split(", "));
            is_error |= derives.is_some_and(|mut list| list.any(|item| item == "Error" || item == "thiserror::Error"));
            let implements =
                |interface: &str| line.strip_prefix("impl ")?.split_once(interface).map(|(_, rest)| word(rest));
            if let Some(type_name) = implements("HasKind for ") {
                self.with_kind.insert((owner.to_owned(), type_name));
            } else if let Some(type_name) = implements("Error for ") {
                self.defined.extend(is_public(&type_name).then(|| (owner.to_owned(), type_name)));
            } else if let Some(rest) = line.strip_prefix("pub enum ").or_else(|| line.strip_prefix("pub struct ")) {
                if std::mem::take(&mut is_error) {
                    self.defined.insert((owner.to_owned(), word(rest)));
                }
            } else if line.starts_with("enum ") || line.starts_with("struct ") || line.starts_with("pub(") {
                is_error = false;
            }
        }
    }

    /// Reports error types without a kind, several in a crate, and those that a `lib.rs` does not name.
    pub(crate) fn check(&self, faults: &mut Vec<String>) {
        self.check_with(FURTHER_TYPES, faults);
    }

    fn check_with(&self, further: &[(&str, &str, &str)], faults: &mut Vec<String>) {
        let mut own = BTreeMap::<&str, Vec<&str>>::new();
        for (owner, name) in &self.defined {
            // A `Fault` has its own kind.
            let has_kind = self.with_kind.contains(&(owner.clone(), name.clone()));
            if !has_kind && (owner.as_str(), name.as_str()) != ("stdx", "Fault") {
                faults.push(format!(
                    "crates/{owner}: `{name}` is a public error without a kind; implement `HasKind` for it"
                ));
            }
            if !self.roots.get(owner).is_some_and(|text| text.contains(name.as_str())) {
                faults.push(format!("crates/{owner}: `lib.rs` does not name the public error `{name}`"));
            }
            if !further.iter().any(|(of, known, _)| (*of, *known) == (owner.as_str(), name.as_str())) {
                own.entry(owner).or_default().push(name);
            }
        }
        for (owner, names) in own.into_iter().filter(|(_, names)| names.len() > 1) {
            faults.push(format!(
                "crates/{owner}: {} are public errors, but a crate has one: merge them, or give the reason for the \
                 other in dev/xtask/src/error_types.rs",
                names.join(", ")
            ));
        }
        for (owner, name, _) in further {
            if !self.defined.contains(&((*owner).to_owned(), (*name).to_owned())) {
                faults.push(format!("crates/{owner}: has no public error `{name}`; remove its row in error_types.rs"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "pub use error::{ReadError, WriteError};\n";
    const DEFINED: &str = "#[derive(Debug, thiserror::Error)]\npub enum ReadError {\n}\n";
    const KIND: &str = "impl HasKind for ReadError {\n";

    fn told(lib: &str, text: &str, further: &[(&str, &str, &str)]) -> Vec<String> {
        let (mut errors, mut faults) = (ErrorTypes::default(), Vec::new());
        errors.add("crates/a/src/lib.rs", lib);
        errors.add("crates/a/src/error.rs", text);
        errors.check_with(further, &mut faults);
        faults
    }

    #[test]
    fn public_errors_have_a_kind() {
        assert_eq!(
            told(LIB, DEFINED, &[]),
            ["crates/a: `ReadError` is a public error without a kind; implement `HasKind` for it"]
        );
        assert!(told(LIB, &format!("{DEFINED}{KIND}"), &[]).is_empty());
        assert_eq!(told("use Wrong;", "pub struct Wrong {}\nimpl std::error::Error for Wrong {}\n", &[]).len(), 1);
        assert!(told("", "#[derive(Error)]\nenum Inner {\n}\npub struct Other {\n", &[]).is_empty());
    }

    #[test]
    fn a_crate_has_one_public_error_unless_a_reason_is_given() {
        let second = "#[derive(Debug, thiserror::Error)]\npub enum WriteError {\n}\nimpl HasKind for WriteError {\n";
        let both = format!("{DEFINED}{KIND}{second}");
        assert_eq!(
            told(LIB, &both, &[]),
            ["crates/a: ReadError, WriteError are public errors, but a crate has one: merge them, or give the reason \
              for the other in dev/xtask/src/error_types.rs"]
        );
        assert!(told(LIB, &both, &[("a", "ReadError", "of a trait")]).is_empty());
        assert_eq!(told("", "", &[("a", "Gone", "of a trait")]).len(), 1, "a row without its type");
        let unnamed = told("", &format!("{DEFINED}{KIND}"), &[]);
        assert_eq!(unnamed, ["crates/a: `lib.rs` does not name the public error `ReadError`"]);
    }
}
