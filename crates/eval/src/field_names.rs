//! Field names: matching of patterns, texts matched by wildcards, and the names in a sequence of batches.
//!
//! Field names are case-sensitive. `*` matches any run of characters; every `*` but the last matches as little as
//! possible.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use foldhash::fast::FixedState;
use hashbrown::HashSet;
use quarry_spl::ast::FieldPattern;

use crate::rows::column_order::{are_of_events, merge_columns};

/// Fields that hold an event's metadata.
pub const METADATA_FIELDS: [&str; 4] = ["host", "source", "sourcetype", "index"];

/// The texts matched by the wildcards of `pattern` in `name`, in order; `None` if the name does not match.
pub fn wildcard_parts<'n>(pattern: &str, name: &'n str) -> Option<Vec<&'n str>> {
    let mut literals = pattern.split('*');
    let head = literals.next().unwrap_or_default();
    let Some(tail) = literals.next_back() else { return (pattern == name).then(Vec::new) };
    let mut rest = name.strip_prefix(head)?;
    let mut parts = Vec::new();
    // The first occurrence of a literal leaves most of the name to the wildcards after it, so no other need be tried.
    for literal in literals {
        let (part, after) = rest.split_once(literal)?;
        parts.push(part);
        rest = after;
    }
    parts.push(rest.strip_suffix(tail)?);
    Some(parts)
}

/// Replaces the wildcards of the template with the parts, in order; surplus wildcards are removed.
pub fn fill_wildcards(template: &str, parts: &[&str]) -> String {
    let mut parts = parts.iter();
    let mut filled = String::new();
    for character in template.chars() {
        if character == '*' {
            filled.push_str(parts.next().copied().unwrap_or_default())
        } else {
            filled.push(character)
        }
    }
    filled
}

/// The names that match one of the patterns, in the order of patterns, without duplicates.
pub fn matching_names<'n>(patterns: &[FieldPattern], names: &'n [String]) -> Vec<&'n str> {
    let mut found: Vec<&str> = Vec::new();
    for pattern in patterns {
        for name in names {
            if wildcard_parts(&pattern.text, name).is_some() && !found.contains(&name.as_str()) {
                found.push(name);
            }
        }
    }
    found
}

/// Whether a pattern matches a name. A pattern that does not begin with `_` does not match internal fields.
pub fn covers(pattern: &FieldPattern, name: &str) -> bool {
    let internal = name.starts_with('_');
    (!internal || pattern.text.starts_with('_')) && wildcard_parts(&pattern.text, name).is_some()
}

/// Names of a batch's columns.
pub fn names_of(rows: &arrow::record_batch::RecordBatch) -> Vec<String> {
    rows.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
}

/// The column names of all batches, ordered as in a buffer that holds the batches.
#[derive(Debug, Default)]
pub struct SeenNames {
    names: Vec<String>,
    known: HashSet<String, FixedState>,
    /// The last schema, because most batches have the same.
    last: Option<SchemaRef>,
}

impl SeenNames {
    /// Adds the columns of a batch.
    pub fn add(&mut self, rows: &RecordBatch) {
        if self.last.as_ref() == Some(rows.schema_ref()) {
            return;
        }
        let batch: Vec<&str> = rows.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
        let new: Vec<String> =
            batch.iter().filter(|name| !self.known.contains(**name)).map(|name| (*name).to_owned()).collect();
        if are_of_events(batch.iter().copied()) && !new.is_empty() {
            let known: Vec<&str> = self.names.iter().map(String::as_str).collect();
            let names = merge_columns(&known, &batch, |a, b| a < b).into_iter().map(str::to_owned).collect();
            self.names = names;
        } else {
            self.names.extend(new.iter().cloned());
        }
        self.known.extend(new);
        self.last = Some(rows.schema());
    }

    /// All names so far.
    pub fn all(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_capture_the_matched_texts() {
        assert_eq!(wildcard_parts("src_*", "src_ip"), Some(vec!["ip"]));
        assert_eq!(wildcard_parts("*_*", "a_b_c"), Some(vec!["a", "b_c"]));
        assert_eq!(wildcard_parts("*", ""), Some(vec![""]));
        assert_eq!(wildcard_parts("**", "ab"), Some(vec!["", "ab"]));
        assert_eq!(wildcard_parts("a*b*a", "abba"), Some(vec!["", "b"]));
        assert_eq!(wildcard_parts("*aé*", "baéé"), Some(vec!["b", "é"]));
        let (many, long) = ("*a".repeat(20), "a".repeat(60) + "b");
        assert_eq!(wildcard_parts(&many, &long), None, "without backtracking");
        assert_eq!(wildcard_parts("a*a", "a"), None);
        assert_eq!(wildcard_parts("a", "A"), None);
        assert_eq!(fill_wildcards("x_*_*", &["1", "2"]), "x_1_2");
    }
}
