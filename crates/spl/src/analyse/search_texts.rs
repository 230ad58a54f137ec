//! The texts that a search looks for in events, for highlighting them when an event is displayed.

use crate::ast::{Command, CompareOp, SearchExpr, SearchPattern, Stage};

/// Maximum number of texts, because each position of each event is compared with all texts.
const TEXTS_MAX: usize = 64;

/// A text that a search looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchedText {
    /// The text, without stars.
    pub text: String,
    /// Whether the text may begin inside a word, because a `*` precedes it in the pattern.
    pub begins_inside: bool,
    /// Whether the text may end inside a word, because a `*` follows it in the pattern.
    pub ends_inside: bool,
}

/// The texts that the searches of a pipeline look for: words, phrases and field values. Omits texts under NOT, and
/// values of metadata fields, event types, tags and internal fields.
pub fn highlighted_texts(commands: &[Stage]) -> Vec<SearchedText> {
    let mut found = Vec::new();
    for stage in commands {
        if let Command::Search(search) = &stage.command {
            collect(&search.expr, &mut found);
        }
    }
    found
}

fn collect(expr: &SearchExpr, found: &mut Vec<SearchedText>) {
    match expr {
        SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().for_each(|part| collect(part, found)),
        SearchExpr::Keyword(pattern) | SearchExpr::Term(pattern) | SearchExpr::Case(pattern) => add(pattern, found),
        SearchExpr::Compare { field, op: CompareOp::Eq, value, .. } if !is_metadata(&field.text) => add(value, found),
        SearchExpr::In { field, values } if !is_metadata(&field.text) => {
            values.iter().for_each(|value| add(value, found));
        }
        _ => {}
    }
}

fn is_metadata(field: &str) -> bool {
    matches!(field, "index" | "host" | "source" | "sourcetype" | "eventtype" | "tag") || field.starts_with('_')
}

fn add(pattern: &SearchPattern, found: &mut Vec<SearchedText>) {
    let parts: Vec<&str> = pattern.text.split('*').collect();
    for (at, part) in parts.iter().enumerate() {
        let sought =
            SearchedText { text: (*part).to_owned(), begins_inside: at > 0, ends_inside: at + 1 < parts.len() };
        if !part.is_empty() && found.len() < TEXTS_MAX && !found.contains(&sought) {
            found.push(sought);
        }
    }
}
