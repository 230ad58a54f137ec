//! Settings of delimited text (csv, tsv …), with the defaults of each format.

use super::HeaderSettings;
use crate::values::{Values, parse_delimiter};

/// Words that mean whitespace as the delimiter.
const WHITESPACE: [&str; 2] = ["whitespace", "ws"];
/// Default quote character.
const QUOTE: char = '"';
/// Prefix of the header line in a W3C log; other lines that begin with `#` are not events.
const W3C_HEADER: &str = r"^#Fields:\s*";
const W3C_PREAMBLE: &str = "^#";

/// The settings of a format; `None` if texts in this format have no columns.
pub(super) fn read(format: &str, values: &Values<'_>) -> Option<HeaderSettings> {
    let is_w3c = format == "w3c";
    let of_format = match format {
        "csv" => Some(','),
        "tsv" => Some('\t'),
        "psv" => Some('|'),
        "w3c" => Some(' '),
        _ => None,
    };
    let set = |key: &str| delimiter(values.text(key));
    let (own, header) = (set("FIELD_DELIMITER"), set("HEADER_FIELD_DELIMITER"));
    let first = own.or(header).map_or(of_format, |found| found.or(of_format))?;
    let is_whitespace = |key: &str| WHITESPACE.iter().any(|word| values.text(key).eq_ignore_ascii_case(word));
    let quote = |key: &str| match values.text(key) {
        "" => None,
        text => Some(parse_delimiter(text).unwrap_or(Some(QUOTE))),
    };
    let (own_quote, header_quote) = (quote("FIELD_QUOTE"), quote("HEADER_FIELD_QUOTE"));
    let of_w3c = |key: &str, preset: &str| values.optional(key).or_else(|| is_w3c.then(|| preset.to_owned()));
    Some(HeaderSettings {
        delimiter: first,
        header_delimiter: header.flatten().unwrap_or(first),
        merges_delimiters: is_whitespace("FIELD_DELIMITER") || is_whitespace("HEADER_FIELD_DELIMITER"),
        quote: own_quote.or(header_quote).unwrap_or(Some(QUOTE)),
        header_quote: header_quote.or(own_quote).unwrap_or(Some(QUOTE)),
        line_number: values.size("HEADER_FIELD_LINE_NUMBER"),
        preamble: of_w3c("PREAMBLE_REGEX", W3C_PREAMBLE),
        names: names(values, "FIELD_NAMES"),
        header_pattern: of_w3c("FIELD_HEADER_REGEX", W3C_HEADER),
        repeats: is_w3c,
        timestamp_fields: timestamp_fields(values),
        missing: values.optional("MISSING_VALUE_REGEX"),
        kept_letters: values.owned("HEADER_FIELD_ACCEPTABLE_SPECIAL_CHARACTERS"),
    })
}

/// `TIMESTAMP_FIELDS`: names of the fields that hold the time.
pub(super) fn timestamp_fields(values: &Values<'_>) -> Vec<String> {
    names(values, "TIMESTAMP_FIELDS")
}

/// The names in a list separated by commas, without quotes around them.
fn names(values: &Values<'_>, key: &str) -> Vec<String> {
    let names = values.text(key).split(',').map(|name| name.trim().trim_matches('"').to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

/// The configured delimiter; the inner `None` stands for the word `none`.
fn delimiter(text: &str) -> Option<Option<char>> {
    if text.is_empty() {
        return None;
    }
    if WHITESPACE.iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Some(Some(' '));
    }
    Some(parse_delimiter(text).unwrap_or(None))
}
