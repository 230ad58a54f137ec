//! The response of an endpoint as text, for `rest report_as=text`.
//!
//! Entries are written in the two formats of Splunk's REST interface: an Atom feed, or JSON if the path has
//! `output_mode=json`. All values are texts. Links, authors and access rules are omitted, because they are not
//! available.
//!
//! Source: Splunk's REST API User Manual, "Atom feed response" and `output_mode`.

use quarry_stdx::Fault;
use serde_json::{Map, Value, json};

use super::NodeEntry;

/// Formats the entries of an endpoint as requested by the path's arguments; fails for an unknown format.
pub(super) fn render_entries(path: &str, entries: &[NodeEntry]) -> Result<String, Fault> {
    let (endpoint, arguments) = path.split_once('?').unwrap_or((path, ""));
    let form = arguments.split('&').rev().find_map(|argument| argument.strip_prefix("output_mode="));
    match form {
        None | Some("xml" | "atom") => Ok(atom_feed(endpoint, entries)),
        Some("json") => Ok(json_text(endpoint, entries)),
        Some(other) => {
            Err(Fault::invalid(format!("output_mode={other}: with report_as=text an answer is xml or json")))
        }
    }
}

/// The name of an entry (its field `title`) and its other fields.
fn parts(entry: &NodeEntry) -> (&str, impl Iterator<Item = &(String, Vec<String>)>) {
    let title = entry.iter().find(|(name, _)| name == "title").and_then(|(_, values)| values.first());
    (title.map_or("", String::as_str), entry.iter().filter(|(name, _)| name != "title"))
}

fn json_text(endpoint: &str, entries: &[NodeEntry]) -> String {
    let one = |entry: &NodeEntry| {
        let (title, fields) = parts(entry);
        let value = |values: &[String]| match values {
            [one] => json!(one),
            several => json!(several),
        };
        let content: Map<String, Value> = fields.map(|(name, values)| (name.clone(), value(values))).collect();
        json!({ "name": title, "id": format!("{endpoint}/{title}"), "content": content })
    };
    let entry: Vec<Value> = entries.iter().map(one).collect();
    let paging = json!({ "total": entries.len(), "perPage": entries.len(), "offset": 0 });
    json!({ "origin": endpoint, "entry": entry, "paging": paging, "messages": [] }).to_string()
}

fn atom_feed(endpoint: &str, entries: &[NodeEntry]) -> String {
    let (id, name) = (escape_xml(endpoint), escape_xml(endpoint.rsplit('/').next().unwrap_or(endpoint)));
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <feed xmlns=\"http://www.w3.org/2005/Atom\" xmlns:s=\"http://dev.splunk.com/ns/rest\">\n  \
         <title>{name}</title>\n  <id>{id}</id>\n"
    );
    for entry in entries {
        let (title, fields) = parts(entry);
        let title = escape_xml(title);
        text.push_str(&format!("  <entry>\n    <title>{title}</title>\n    <id>{id}/{title}</id>\n"));
        text.push_str("    <content type=\"text/xml\">\n      <s:dict>\n");
        for (name, values) in fields {
            let value = match values.as_slice() {
                [one] => escape_xml(one),
                several => {
                    let items: String =
                        several.iter().map(|value| format!("<s:item>{}</s:item>", escape_xml(value))).collect();
                    format!("<s:list>{items}</s:list>")
                }
            };
            text.push_str(&format!("        <s:key name=\"{}\">{value}</s:key>\n", escape_xml(name)));
        }
        text.push_str("      </s:dict>\n    </content>\n  </entry>\n");
    }
    text.push_str("</feed>\n");
    text
}

/// Escapes a text for XML; characters not allowed in XML 1.0, such as most control characters, become U+FFFD.
fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(letter),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(letter),
        }
    }
    out
}
