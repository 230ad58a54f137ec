//! The rows of a search or of a job, read in parts, so that memory never holds all rows. The server sends the rows as
//! arrays (`json_rows`), without repeating the field names in each row.

use std::fmt;
use std::io::{BufReader, Read};

use quarry_search::{PART_BYTES, PART_ROWS};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::failure::Failure;

/// A row: the values of each field, in the order of the fields.
pub(crate) type AnswerRow = Vec<Vec<String>>;

/// Consumer of rows: it receives the field names of all rows and some of the rows.
pub(crate) type RowConsumer<'t> = &'t mut dyn FnMut(&[String], &[AnswerRow]) -> Result<(), Failure>;

/// Requests the page of rows that begins at an offset.
pub(super) type NextPage = Box<dyn Fn(usize) -> Result<Box<dyn Read>, Failure>>;

/// Rows of a oneshot search or of a job.
pub(crate) struct RemoteAnswer {
    /// Whether the answer is partial.
    pub(crate) partial: bool,
    /// Whether the rows are events.
    pub(crate) events: bool,
    pub(super) body: Box<dyn Read>,
    /// Request for further pages, if the rows are sent in pages; the page after the last page is empty.
    pub(super) more: Option<NextPage>,
}

impl RemoteAnswer {
    /// Passes the rows to `take` in groups, calling it at least once; returns the messages of the search.
    pub(crate) fn read(self, take: RowConsumer<'_>) -> Result<Vec<String>, Failure> {
        let mut reading =
            ReadState { take, fields: Vec::new(), messages: Vec::new(), failure: None, parts: 0, rows: 0 };
        let mut body = self.body;
        loop {
            let before = reading.rows;
            let mut json = serde_json::Deserializer::from_reader(BufReader::new(body));
            let read = reading.deserialize(&mut json).and_then(|()| json.end());
            if let Some(failure) = reading.failure {
                return Err(failure);
            }
            read.map_err(|error| Failure::Storage(format!("the server's answer cannot be read: {error}")))?;
            match &self.more {
                Some(more) if reading.rows > before => body = more(reading.rows)?,
                _ => break,
            }
        }
        if reading.parts == 0 {
            (reading.take)(&reading.fields, &[])?;
        }
        Ok(reading.messages)
    }
}

struct ReadState<'t> {
    take: RowConsumer<'t>,
    fields: Vec<String>,
    messages: Vec<String>,
    /// Failure of the consumer of the rows.
    failure: Option<Failure>,
    parts: usize,
    rows: usize,
}

impl ReadState<'_> {
    fn pass_rows<E: Error>(&mut self, rows: &mut Vec<AnswerRow>) -> Result<(), E> {
        self.parts += 1;
        self.rows += rows.len();
        let taken = (self.take)(&self.fields, rows);
        rows.clear();
        taken.map_err(|failure| {
            self.failure = Some(failure);
            E::custom("its rows cannot be written")
        })
    }
}

#[derive(Deserialize)]
struct Message {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    text: String,
}

/// The values of a field in a row: none, one or several.
struct CellTexts(Vec<String>);

impl<'de> Deserialize<'de> for CellTexts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<CellTexts, D::Error> {
        from.deserialize_any(CellVisitor)
    }
}

struct CellVisitor;

impl<'de> Visitor<'de> for CellVisitor {
    type Value = CellTexts;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value, a list of values or null")
    }

    fn visit_unit<E: Error>(self) -> Result<CellTexts, E> {
        Ok(CellTexts(Vec::new()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<CellTexts, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<CellTexts, E> {
        Ok(CellTexts(vec![text]))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<CellTexts, E> {
        self.visit_string(value.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<CellTexts, E> {
        self.visit_string(number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<CellTexts, E> {
        self.visit_string(number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<CellTexts, E> {
        self.visit_string(number.to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<CellTexts, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = list.next_element::<String>()? {
            texts.push(text);
        }
        Ok(CellTexts(texts))
    }
}

impl<'de> DeserializeSeed<'de> for &mut ReadState<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut ReadState<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object with fields, messages and rows")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "messages" => {
                    // The server's hints are dropped, because this process makes better hints, which can mark positions
                    // in the search and refer to the printed output.
                    let messages =
                        map.next_value::<Vec<Message>>()?.into_iter().filter(|message| message.kind != "INFO");
                    self.messages = messages.map(|message| message.text).collect();
                }
                "fields" => self.fields = map.next_value()?,
                "rows" => map.next_value_seed(Rows(self))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Deserializer of the rows, which follow the fields.
struct Rows<'r, 't>(&'r mut ReadState<'t>);

impl<'de> DeserializeSeed<'de> for Rows<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Rows<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        let (mut part, mut bytes): (Vec<AnswerRow>, usize) = (Vec::new(), 0);
        while let Some(row) = rows.next_element::<Vec<CellTexts>>()? {
            let row: AnswerRow = row.into_iter().map(|values| values.0).collect();
            if row.len() != self.0.fields.len() {
                return Err(A::Error::custom("the number of values in a row differs from the number of fields"));
            }
            bytes += row.iter().flatten().map(String::len).sum::<usize>();
            part.push(row);
            if part.len() >= PART_ROWS || bytes >= PART_BYTES {
                bytes = 0;
                self.0.pass_rows(&mut part)?;
            }
        }
        if part.is_empty() { Ok(()) } else { self.0.pass_rows(&mut part) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = (Vec<(Vec<String>, Vec<AnswerRow>)>, Result<Vec<String>, Failure>);

    fn read(text: &str) -> Read {
        let mut parts = Vec::new();
        let body: Box<dyn std::io::Read> = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
        let answer = RemoteAnswer { partial: false, events: true, body, more: None };
        let messages = answer.read(&mut |fields, rows| {
            parts.push((fields.to_vec(), rows.to_vec()));
            Ok(())
        });
        (parts, messages)
    }

    #[test]
    fn rows_are_passed_in_parts_with_fields_and_messages() {
        let rows: Vec<String> = (0..=PART_ROWS).map(|row| format!(r#"["{row}",["a","b"],null]"#)).collect();
        let text = format!(
            r#"{{"preview":false,"messages":[{{"type":"WARN","text":"cut"}}],"fields":["n","m","o"],"rows":[{}]}}"#,
            rows.join(",")
        );
        let (parts, messages) = read(&text);
        assert_eq!(messages.unwrap(), ["cut"]);
        assert_eq!(parts.iter().map(|(_, rows)| rows.len()).collect::<Vec<_>>(), [PART_ROWS, 1]);
        assert!(parts.iter().all(|(fields, _)| *fields == ["n", "m", "o"]));
        let last = &parts[1].1[0];
        assert_eq!(*last, [vec![PART_ROWS.to_string()], vec!["a".to_owned(), "b".to_owned()], Vec::new()]);
    }

    #[test]
    fn pages_are_read_until_one_is_empty() {
        let page = |rows: &str| -> Box<dyn std::io::Read> {
            let text = format!(r#"{{"messages":[],"fields":["n"],"rows":[{rows}]}}"#);
            Box::new(std::io::Cursor::new(text.into_bytes()))
        };
        let body = page(r#"["1"],["2"]"#);
        let more: NextPage = Box::new(move |offset| Ok(page(if offset == 2 { r#"["3"]"# } else { "" })));
        let mut read = Vec::new();
        let answer = RemoteAnswer { partial: false, events: false, body, more: Some(more) };
        let messages = answer.read(&mut |_, rows| {
            read.extend(rows.iter().map(|row| row[0].join("")));
            Ok(())
        });
        assert!(messages.unwrap().is_empty());
        assert_eq!(read, ["1", "2", "3"]);
    }

    #[test]
    fn empty_answers_have_fields_and_truncated_ones_fail() {
        let (parts, messages) = read(r#"{"messages":[],"fields":["n"],"rows":[]}"#);
        assert!(messages.unwrap().is_empty());
        assert_eq!(parts, [(vec!["n".to_owned()], vec![])]);
        for torn in [r#"["1"],"#, r#"["1","2"]]}"#] {
            let (_, failed) = read(&format!(r#"{{"messages":[],"fields":["n"],"rows":[{torn}"#));
            assert!(matches!(failed, Err(Failure::Storage(_))), "{torn}");
        }
    }
}
