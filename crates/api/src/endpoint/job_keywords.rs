//! `keywords` of a job: the terms that its events must contain, in Splunk's form.
//!
//! The keywords are the words, phrases and field values of the first search, sorted; those under `NOT` are omitted. A
//! value of a field is written `field::value`. Not here: running the search.

use std::collections::BTreeSet;

use quarry_spl::ast::{Command, CompareOp, SearchExpr};

/// The keywords of a search, separated by blanks.
pub(super) fn keywords_of(search: &str) -> String {
    let commands = quarry_spl::parse(search).pipeline.commands;
    let mut words = BTreeSet::new();
    if let Some(Command::Search(first)) = commands.first().map(|stage| &stage.command) {
        collect(&first.expr, &mut words);
    }
    words.into_iter().collect::<Vec<_>>().join(" ")
}

fn collect(expr: &SearchExpr, words: &mut BTreeSet<String>) {
    let quoted = |text: &str| if text.contains(' ') { format!("\"{text}\"") } else { text.to_owned() };
    match expr {
        SearchExpr::And(parts) | SearchExpr::Or(parts) => parts.iter().for_each(|part| collect(part, words)),
        SearchExpr::Keyword(word) | SearchExpr::Term(word) | SearchExpr::Case(word) => {
            words.insert(quoted(&word.text));
        }
        SearchExpr::Compare { field, op: CompareOp::Eq, value, .. } | SearchExpr::Indexed { field, value } => {
            words.insert(format!("{}::{}", field.text, quoted(&value.text)));
        }
        SearchExpr::In { field, values } => {
            words.extend(values.iter().map(|value| format!("{}::{}", field.text, quoted(&value.text))));
        }
        SearchExpr::All | SearchExpr::Not(_) | SearchExpr::Compare { .. } | SearchExpr::Subsearch(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_positive_words_and_values() {
        for (search, keywords) in [
            ("search index=main error NOT debug status!=404 | stats count by host", "error index::main"),
            ("search \"disk full\" (host=a OR host=b)", "\"disk full\" host::a host::b"),
            ("search status IN (404, 500) TERM(x)", "status::404 status::500 x"),
            ("search *", ""),
            ("| makeresults", ""),
        ] {
            assert_eq!(keywords_of(search), keywords, "{search}");
        }
    }
}
