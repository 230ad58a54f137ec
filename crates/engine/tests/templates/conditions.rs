//! Conditions built from excerpts of the event texts: phrases that cross the edges of columns, and fields with values
//! from anywhere in a text.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use quarry_event::TimeRange;

use super::{compare, events};

/// Fields of the events, of templates and of free text.
const FIELDS: &[&str] =
    &["level", "status", "user", "user_id", "ip", "url", "msg", "a", "key", "n", "took", "w", "b", "path"];

/// Random choices that determine a condition: its event, its excerpt, its field, its form.
#[derive(Clone, Debug)]
struct ConditionChoice {
    event: prop::sample::Index,
    start: prop::sample::Index,
    length: usize,
    field: &'static str,
    kind: usize,
}

fn choice() -> impl Strategy<Value = ConditionChoice> {
    let field = prop::sample::select(FIELDS);
    (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1..24usize, field, 0..14usize)
        .prop_map(|(event, start, length, field, kind)| ConditionChoice { event, start, length, field, kind })
}

impl ConditionChoice {
    /// An excerpt of an event's text, quoted.
    fn excerpt(&self, texts: &[String], splits: &[char]) -> String {
        let text = self.event.get(texts);
        let words: Vec<&str> = text.split(splits).filter(|word| !word.is_empty()).collect();
        let excerpt: String = match (splits.is_empty(), words.is_empty()) {
            (false, false) => (*self.start.get(&words)).to_owned(),
            (_, true) => "nothing".to_owned(),
            _ => text.chars().skip(self.start.index(text.chars().count().max(1))).take(self.length).collect(),
        };
        format!("\"{}\"", excerpt.replace('\\', "\\\\").replace('"', "\\\""))
    }

    fn condition(&self, texts: &[String]) -> String {
        const AROUND: &[char] = &[' ', '=', '"', ',', ':', ';', '{', '}', '&', '?'];
        let (phrase, value) = (self.excerpt(texts, &[]), self.excerpt(texts, AROUND));
        let field = self.field;
        match self.kind {
            0 => phrase,
            1 => format!("NOT {phrase}"),
            2 => format!("{field}={value}"),
            3 => format!("NOT {field}={value}"),
            4 => format!("{field} IN ({value}, 200, INFO)"),
            5 => format!("{field}={value} OR {phrase}"),
            6 => format!("{field}={value} {phrase}"),
            7 => format!("CASE({phrase})"),
            8 => format!("TERM({phrase})"),
            9 => format!("{}*\"", phrase.trim_end_matches('"')),
            10 => format!("\"*{}", phrase.trim_start_matches('"')),
            // The phrase is searched for only where the wildcard pattern may match.
            11 => {
                format!("{} {phrase}", value.trim_matches('"').replace(|letter: char| !letter.is_alphanumeric(), "*"))
            }
            12 => format!("{value} OR (NOT {phrase} {field}=*)"),
            _ => format!(
                "*{}* {field}!={value}",
                phrase
                    .trim_matches('"')
                    .replace(['"', '\\', ' ', '|', '[', ']', '(', ')', '=', '<', '>', '!', ','], "*")
            ),
        }
    }
}

#[test]
fn conditions_from_excerpts_find_the_same_events() {
    let config =
        ProptestConfig { cases: 2, failure_persistence: None, max_shrink_iters: 0, ..ProptestConfig::default() };
    let texts: Vec<String> = events().into_iter().map(|(_, text)| text).collect();
    let answers = |choices: Vec<ConditionChoice>| {
        let searches =
            choices.iter().map(|choice| format!("search {} | stats count by host", choice.condition(&texts)));
        compare(searches.map(|search| (search, TimeRange::ALL)));
        Ok(())
    };
    TestRunner::new(config).run(&prop::collection::vec(choice(), 25), answers).unwrap();
}
