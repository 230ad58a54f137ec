//! Tokens of multikv.conf: splitting a line of a table, and parsing list settings.

use quarry_stdx::Fault;

/// Method of splitting a line into tokens.
#[derive(Debug)]
pub(crate) enum Tokens {
    /// `_token_list_`: fixed tokens.
    List(Vec<String>),
    /// `_chop_`: tokens given by first character and length.
    Chop(Vec<(usize, usize)>),
    /// `_tokenize_`: tokens between delimiters.
    Split {
        /// Maximum number of tokens; the last token is the remaining line.
        most: TokenLimit,
        /// Delimiter characters.
        delimiters: Vec<char>,
        /// Whether consecutive delimiters count as one.
        consumes: bool,
    },
    /// `_align_`: tokens at the positions of header texts.
    Align(Vec<Aligned>),
}

/// Maximum number of tokens for `_tokenize_`.
#[derive(Debug)]
pub(crate) enum TokenLimit {
    All,
    /// The number of tokens in the previous section.
    AsBefore,
    Count(usize),
}

/// A token that begins or ends at the same position as a text of the header.
#[derive(Debug)]
pub(crate) struct Aligned {
    header: String,
    at_its_end: bool,
    /// Maximum number of characters; `None` means up to the next blank.
    width: Option<usize>,
}

impl Default for Tokens {
    /// The default: as many words as the header has.
    fn default() -> Tokens {
        Tokens::Split { most: TokenLimit::AsBefore, delimiters: vec![' ', '\t'], consumes: true }
    }
}

impl Tokens {
    /// Parses the setting; the error is for the user.
    pub(crate) fn new(text: &str) -> Result<Tokens, Fault> {
        let items = items(text);
        let (kind, rest) = items.split_first().map_or(("", [].as_slice()), |(first, rest)| (first.text.as_str(), rest));
        let wrong = |form: &str| Err(Fault::invalid(format!("write {form}")));
        let number = |item: &Item| item.text.parse::<usize>().ok();
        match kind {
            "_token_list_" if !rest.is_empty() => Ok(Tokens::List(rest.iter().map(|item| item.text.clone()).collect())),
            "_chop_" if !rest.is_empty() && rest.len().is_multiple_of(2) => {
                let pieces = rest.chunks(2).map(|pair| Some((number(&pair[0])?, number(&pair[1])?)));
                pieces
                    .collect::<Option<Vec<_>>>()
                    .map_or_else(|| wrong("_chop_, OFFSET, LENGTH, ..."), |all| Ok(Tokens::Chop(all)))
            }
            "_align_" if !rest.is_empty() && rest.len().is_multiple_of(3) => {
                let aligned = rest.chunks(3).map(|part| {
                    let at_its_end = match part[1].text.as_str() {
                        "L" | "l" => false,
                        "R" | "r" => true,
                        _ => return None,
                    };
                    let width = match part[2].text.as_str() {
                        "-1" => None,
                        _ => Some(number(&part[2])?),
                    };
                    Some(Aligned { header: part[0].text.clone(), at_its_end, width })
                });
                let all = aligned.collect::<Option<Vec<_>>>();
                all.map_or_else(|| wrong("_align_, \"HEADER\", L or R, WIDTH, ..."), |all| Ok(Tokens::Align(all)))
            }
            "_tokenize_" => split(rest).map_or_else(|| wrong("_tokenize_, NUMBER, \"DELIMITERS\", true or false"), Ok),
            _ => wrong("_tokenize_, _chop_, _align_ or _token_list_ with its arguments"),
        }
    }

    /// The tokens of a line; `before` is the number of tokens in the previous section.
    pub(crate) fn of(&self, line: &str, header: &str, before: usize) -> Vec<String> {
        match self {
            Tokens::List(names) => names.clone(),
            Tokens::Chop(pieces) => {
                let piece =
                    |(start, length): &(usize, usize)| -> String { line.chars().skip(*start).take(*length).collect() };
                pieces.iter().map(|range| piece(range).trim().to_owned()).collect()
            }
            Tokens::Split { most, delimiters, consumes } => {
                let most = match most {
                    TokenLimit::All => usize::MAX,
                    TokenLimit::AsBefore if before == 0 => usize::MAX,
                    TokenLimit::AsBefore => before,
                    TokenLimit::Count(count) => *count,
                };
                split_tokens(line, most, delimiters, *consumes)
            }
            Tokens::Align(all) => all.iter().map(|aligned| aligned.of(line, header)).collect(),
        }
    }
}

/// Parses a number, delimiters, and optionally whether consecutive delimiters count as one.
fn split(items: &[Item]) -> Option<Tokens> {
    let (first, mut rest) = items.split_first()?;
    let most = match first.text.parse::<i64>().ok()? {
        -1 => TokenLimit::All,
        0 => TokenLimit::AsBefore,
        count => TokenLimit::Count(usize::try_from(count).ok()?),
    };
    let mut consumes = true;
    if let Some((last, before)) = rest.split_last()
        && !last.quoted
        && !before.is_empty()
    {
        consumes = match last.text.to_ascii_lowercase().as_str() {
            "true" | "1" | "t" => true,
            "false" | "0" | "f" => false,
            _ => return None,
        };
        rest = before;
    }
    let delimiters: Vec<char> =
        rest.iter().flat_map(|item| item.text.replace("\\t", "\t").chars().collect::<Vec<_>>()).collect();
    (!delimiters.is_empty()).then_some(Tokens::Split { most, delimiters, consumes })
}

/// Splits the line at delimiters into at most `most` tokens.
fn split_tokens(line: &str, most: usize, delimiters: &[char], consumes: bool) -> Vec<String> {
    let mut all = Vec::new();
    let mut rest = line;
    loop {
        if consumes {
            rest = rest.trim_start_matches(delimiters);
            if rest.is_empty() {
                return all;
            }
        }
        let end = if all.len() + 1 < most { rest.find(delimiters) } else { None };
        let Some(end) = end else {
            all.push(if consumes { rest.trim_end_matches(delimiters) } else { rest }.to_owned());
            return all;
        };
        all.push(rest[..end].to_owned());
        rest = &rest[end + rest[end..].chars().next().map_or(1, char::len_utf8)..];
    }
}

impl Aligned {
    /// The token in a line; empty if the header does not contain the text.
    fn of(&self, line: &str, header: &str) -> String {
        let Some(byte) = header.find(&self.header) else { return String::new() };
        let start = header[..byte].chars().count();
        let signs: Vec<char> = line.chars().collect();
        let is_in = |c: &&char| self.width.is_some() || !matches!(c, ' ' | '\t');
        let most = self.width.unwrap_or(usize::MAX);
        let piece: String = match self.at_its_end {
            false => signs.iter().skip(start).take_while(is_in).take(most).collect(),
            true => {
                let end = (start + self.header.chars().count()).min(signs.len());
                let reversed: Vec<&char> = signs[..end].iter().rev().take_while(is_in).take(most).collect();
                reversed.into_iter().rev().collect()
            }
        };
        piece.trim().to_owned()
    }
}

/// An item of a list setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) text: String,
    pub(crate) quoted: bool,
}

/// The items of a setting: words and quoted texts, separated by blanks, commas and `=`. Inside quotes, a backslash is
/// literal unless a quote follows.
pub(crate) fn items(text: &str) -> Vec<Item> {
    let mut all = Vec::new();
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        if sign == '"' {
            let mut inner = String::new();
            while let Some(next) = signs.next() {
                match next {
                    '"' => break,
                    '\\' if signs.peek() == Some(&'"') => inner.extend(signs.next()),
                    other => inner.push(other),
                }
            }
            all.push(Item { text: inner, quoted: true });
        } else if !is_separator(sign) {
            let mut word = String::from(sign);
            while let Some(next) = signs.next_if(|next| !is_separator(*next) && *next != '"') {
                word.push(next);
            }
            all.push(Item { text: word, quoted: false });
        }
    }
    all
}

fn is_separator(sign: char) -> bool {
    sign.is_whitespace() || matches!(sign, ',' | '=')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_line(tokens: &str, line: &str, before: usize) -> Vec<String> {
        Tokens::new(tokens).unwrap().of(line, "  PID  USER   TIME", before)
    }

    #[test]
    fn lines_are_split_by_the_rule() {
        for (tokens, line, before, expected) in [
            ("_tokenize_, -1, \" \"", "  a b   c ", 0, vec!["a", "b", "c"]),
            ("_tokenize_ 2 \" \"", "a b   c ", 0, vec!["a", "b   c"]),
            ("_tokenize_, 0, \" \"", "a b c d", 3, vec!["a", "b", "c d"]),
            ("_tokenize_, -1, \",;\", false", "a,,b;", 0, vec!["a", "", "b", ""]),
            ("_tokenize_, -1, \"\\t\", 0", "a\tb c", 0, vec!["a", "b c"]),
            ("_chop_, 0, 3, 4, 2, 9, 5", "ab  cdef é", 0, vec!["ab", "cd", "é"]),
            ("_token_list_ mode, links", "x", 0, vec!["mode", "links"]),
            (
                "_align_, \"PID\", R, -1, \"USER\", L, -1, \"TIME\", R, 6",
                " 1234  eva   1 2:03",
                0,
                vec!["1234", "eva", "1 2:0"],
            ),
            ("_align_ \"GONE\", L, 3", "abc", 0, vec![""]),
        ] {
            assert_eq!(split_line(tokens, line, before), expected, "{tokens}");
        }
        for text in [
            "",
            "_tokenize_",
            "_tokenize_, x, \" \"",
            "_chop_, 1",
            "_chop_, a, b",
            "_align_, \"A\", M, 1",
            "_token_list_",
        ] {
            assert!(Tokens::new(text).is_err(), "{text}");
        }
    }

    #[test]
    fn list_settings_are_split_into_items() {
        let texts: Vec<String> = items("\"a\\\"b\\d\" =\"x, y\",  c").into_iter().map(|item| item.text).collect();
        assert_eq!(texts, ["a\"b\\d", "x, y", "c"]);
    }
}
