//! The payload that an alert action's program reads from standard input: JSON, or XML by default.
//!
//! The payload contains the search, the location of its results, the parameters, the first row, and the key of a
//! session of the search's user.

use std::collections::BTreeMap;

use quarry_inputs::program::escape_xml;
use serde_json::{Map, Value, json};

use super::tokens::Tokens;

pub(super) struct Payload<'a> {
    pub(super) action: &'a str,
    pub(super) server_uri: String,
    /// Key of a session; empty without a server.
    pub(super) session_key: &'a str,
    /// Parameters with tokens replaced.
    pub(super) configuration: BTreeMap<String, String>,
    pub(super) tokens: &'a Tokens<'a>,
}

impl Payload<'_> {
    /// Names and values of the scalar members.
    fn parts(&self) -> [(&'static str, &str); 9] {
        let tokens = self.tokens;
        [
            ("app", tokens.app),
            ("owner", tokens.owner),
            ("results_file", tokens.results_file),
            ("results_link", tokens.results_link),
            ("search_name", ""),
            ("server_host", tokens.host),
            ("server_uri", &self.server_uri),
            ("session_key", self.session_key),
            ("sid", tokens.sid),
        ]
    }

    /// Formats the payload as JSON on one line. A multivalue field is a list.
    pub(super) fn json(&self) -> String {
        let mut all: Map<String, Value> =
            self.parts().into_iter().map(|(name, text)| (name.to_owned(), json!(text))).collect();
        all.insert("configuration".to_owned(), json!(self.configuration));
        let row = self.tokens.first_row.iter().map(|(name, values)| match values.as_slice() {
            [value] => (name.clone(), json!(value)),
            values => (name.clone(), json!(values)),
        });
        all.insert("result".to_owned(), Value::Object(row.collect()));
        format!("{}\n", Value::Object(all))
    }

    pub(super) fn xml(&self) -> String {
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<alert>\n");
        for (name, text) in self.parts() {
            out.push_str(&format!("  <{name}>{}</{name}>\n", escape_xml(text)));
        }
        out.push_str(&format!("  <configuration>\n    <stanza name=\"{}\">\n", escape_xml(self.action)));
        for (name, value) in &self.configuration {
            out.push_str(&format!("      <param name=\"{}\">{}</param>\n", escape_xml(name), escape_xml(value)));
        }
        out.push_str("    </stanza>\n  </configuration>\n  <result>\n");
        for (name, values) in self.tokens.first_row {
            out.push_str(&format!("    <field k=\"{}\">", escape_xml(name)));
            for value in values {
                out.push_str(&format!("<value><text>{}</text></value>", escape_xml(value)));
            }
            out.push_str("</field>\n");
        }
        out.push_str("  </result>\n</alert>\n");
        out
    }
}
