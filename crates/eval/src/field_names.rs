//! Names of fields: which fit a pattern, what its stars stood for, and which names a run of batches has.
//!
//! Field names are case-sensitive; a star stands for any run of characters, the first star for the shortest run.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use foldhash::fast::FixedState;
use hashbrown::HashSet;
use quarry_spl::ast::FieldPattern;

/// Fields of an event that come from its metadata.
pub const METADATA_FIELDS: [&str; 4] = ["host", "source", "sourcetype", "index"];

/// What the stars of `pattern` stand for in `name`, in order; `None` when the name does not fit.
pub fn wildcard_parts<'n>(pattern: &str, name: &'n str) -> Option<Vec<&'n str>> {
    let Some((head, tail)) = pattern.split_once('*') else { return (pattern == name).then(Vec::new) };
    let rest = name.strip_prefix(head)?;
    if !tail.contains('*') {
        let part = rest.strip_suffix(tail)?;
        return Some(vec![part]);
    }
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    for end in ends {
        if let Some(mut parts) = wildcard_parts(tail, &rest[end..]) {
            parts.insert(0, &rest[..end]);
            return Some(parts);
        }
    }
    None
}

/// The template with its stars replaced in order; stars beyond the parts go.
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

/// The names that fit one of the patterns, in the order of patterns, each once.
pub fn matching<'n>(patterns: &[FieldPattern], names: &'n [String]) -> Vec<&'n str> {
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

/// Whether a pattern covers a name. One that does not begin with `_` leaves internal fields alone.
pub fn covers(pattern: &FieldPattern, name: &str) -> bool {
    let internal = name.starts_with('_');
    (!internal || pattern.text.starts_with('_')) && wildcard_parts(&pattern.text, name).is_some()
}

/// Names of a batch's columns.
pub fn names_of(rows: &arrow::record_batch::RecordBatch) -> Vec<String> {
    rows.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
}

/// Names of columns in the order they were first seen.
#[derive(Default)]
pub struct SeenNames {
    names: Vec<String>,
    known: HashSet<String, FixedState>,
    /// Seen last: most batches are alike.
    last: Option<SchemaRef>,
}

impl SeenNames {
    /// Takes the columns of a batch into account.
    pub fn add(&mut self, rows: &RecordBatch) {
        if self.last.as_ref() == Some(rows.schema_ref()) {
            return;
        }
        for field in rows.schema_ref().fields() {
            if !self.known.contains(field.name()) {
                self.known.insert(field.name().clone());
                self.names.push(field.name().clone());
            }
        }
        self.last = Some(rows.schema());
    }

    /// All names.
    pub fn all(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_give_what_they_stand_for() {
        assert_eq!(wildcard_parts("src_*", "src_ip"), Some(vec!["ip"]));
        assert_eq!(wildcard_parts("*_*", "a_b_c"), Some(vec!["a", "b_c"]));
        assert_eq!(wildcard_parts("*", ""), Some(vec![""]));
        assert_eq!(wildcard_parts("a*a", "a"), None);
        assert_eq!(wildcard_parts("a", "A"), None);
        assert_eq!(fill_wildcards("x_*_*", &["1", "2"]), "x_1_2");
    }
}
