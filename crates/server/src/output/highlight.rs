//! Highlights search terms in an event's text.
//!
//! As in the index, a word matches as a whole: `err` marks nothing in `error`, `err*` marks the beginning of `error`.
//! ASCII letters match in either case.

use quarry_spl::analyse::SearchedText;

const MARKED: &str = "\u{1b}[1;33m";
const PLAIN: &str = "\u{1b}[0m";

/// Colours the search terms in a line.
pub(super) fn highlight(line: &str, sought: &[SearchedText]) -> String {
    let (mut out, mut at) = (String::with_capacity(line.len()), 0);
    while at < line.len() {
        match sought.iter().filter_map(|text| match_length_at(line, at, text)).max() {
            Some(length) => {
                out.push_str(MARKED);
                out.push_str(&line[at..at + length]);
                out.push_str(PLAIN);
                at += length;
            }
            None => {
                let next = line[at..].chars().next().map_or(1, char::len_utf8);
                out.push_str(&line[at..at + next]);
                at += next;
            }
        }
    }
    out
}

/// Length of a search term at a position of the line, if it occurs there.
fn match_length_at(line: &str, at: usize, sought: &SearchedText) -> Option<usize> {
    let length = sought.text.len();
    let here = line.get(at..at + length)?;
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let begins = sought.begins_inside || !is_word(line[..at].chars().next_back()) || !is_word(here.chars().next());
    let ends = sought.ends_inside || !is_word(line[at + length..].chars().next()) || !is_word(here.chars().next_back());
    (length > 0 && here.eq_ignore_ascii_case(&sought.text) && begins && ends).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(search: &str, line: &str) -> String {
        let sought = quarry_spl::analyse::highlighted_texts(&quarry_spl::parse(search).pipeline.commands);
        highlight(line, &sought).replace(MARKED, "<").replace(PLAIN, ">")
    }

    #[test]
    fn words_phrases_and_values_are_highlighted() {
        for (search, line, want) in [
            ("error", "an Error, no errors: ERROR", "an <Error>, no errors: <ERROR>"),
            ("err*", "errors", "<err>ors"),
            ("*ors", "errors", "err<ors>"),
            ("\"failed password\" NOT root", "Failed password for root", "<Failed password> for root"),
            ("status=503 | stats count", "a 503 b 5030", "a <503> b 5030"),
            ("a OR (b user IN (\"x y\", z))", "a b x y z q", "<a> <b> <x y> <z> q"),
            ("index=main host=h", "main h", "main h"),
            ("*", "plain", "plain"),
            ("é日", "é日 x", "<é日> x"),
        ] {
            assert_eq!(marked(search, line), want, "{search}");
        }
    }
}
