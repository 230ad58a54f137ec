//! Delimited text whose first line names the columns.
//!
//! The header is no event; every later line is one, with a field per column that has a name and a value. A value in
//! quotes may hold the delimiter, and a quote written twice. Not here: values that go over several lines.

use std::sync::Arc;

use quarry_event::{EventBatch, IndexedField};

/// Columns beyond this have no fields.
pub const COLUMNS_MAX: usize = 200;
const QUOTE: u8 = b'"';

/// The columns of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    names: Vec<Arc<str>>,
}

impl Header {
    /// Reads the first line.
    pub(crate) fn new(line: &str, delimiter: char) -> Header {
        let mut names = Vec::new();
        split(line, delimiter, |_, name| names.push(Arc::from(field_name(name).as_str())));
        Header { names }
    }

    /// Adds the fields of the last event of `out`, whose text is `line`.
    pub(crate) fn add_fields(&self, line: &str, delimiter: char, out: &mut EventBatch) {
        let Some(row) = out.len().checked_sub(1) else { return };
        self.read_fields(line, delimiter, |name, value| {
            out.fields.push(IndexedField { row: row as u32, name: Arc::clone(name), value: Box::from(value) });
        });
    }

    /// Gives name and value of each field of a line.
    pub(crate) fn read_fields(&self, line: &str, delimiter: char, mut take: impl FnMut(&Arc<str>, &str)) {
        split(line, delimiter, |column, value| {
            if let Some(name) = self.names.get(column).filter(|name| !name.is_empty())
                && !value.is_empty()
            {
                take(name, value);
            }
        });
    }
}

/// A column's title as a field name: what is neither letter nor digit becomes `_`.
fn field_name(title: &str) -> String {
    let clean = |letter: char| if letter.is_alphanumeric() || matches!(letter, '.' | '_') { letter } else { '_' };
    title.trim().chars().map(clean).collect()
}

/// Calls `take` with number and value of each column.
fn split(line: &str, delimiter: char, mut take: impl FnMut(usize, &str)) {
    let mut rest = Some(line);
    for column in 0..COLUMNS_MAX {
        let Some(text) = rest else { return };
        if text.as_bytes().first() != Some(&QUOTE) {
            let (value, after) = text.split_once(delimiter).map_or((text, None), |(value, after)| (value, Some(after)));
            take(column, value);
            rest = after;
            continue;
        }
        let (value, after) = quoted(&text[1..]);
        take(column, &value);
        // What stands between the closing quote and the delimiter is dropped.
        rest = after.split_once(delimiter).map(|(_, after)| after);
    }
}

/// A value up to its closing quote, and the text after that.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut rest = text;
    while let Some((piece, after)) = rest.split_once('"') {
        value.push_str(piece);
        match after.strip_prefix('"') {
            Some(after) => {
                value.push('"');
                rest = after;
            }
            None => return (value, after),
        }
    }
    value.push_str(rest);
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(line: &str, delimiter: char) -> Vec<String> {
        let mut values = Vec::new();
        split(line, delimiter, |_, value| values.push(value.to_owned()));
        values
    }

    #[test]
    fn quotes_protect_the_delimiter() {
        assert_eq!(values(r#"a,"b, ""c""",,d"#, ','), ["a", r#"b, "c""#, "", "d"]);
        assert_eq!(values("a\tb c\t", '\t'), ["a", "b c", ""]);
        assert_eq!(values("\"open", ','), ["open"]);
    }

    #[test]
    fn titles_become_field_names() {
        let header = Header::new("user id,,\"Grüße?\"", ',');
        assert_eq!(header.names.iter().map(|name| &**name).collect::<Vec<_>>(), ["user_id", "", "Grüße_"]);
    }
}
