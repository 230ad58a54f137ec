//! Fields cut out of events at search time: `key=value` pairs and JSON.
//!
//! Everything here reads a text once, from front to back, and hands each field to the caller as it is found; names and
//! values are slices of the text wherever the text holds them as they are. How many fields are taken, and which, is the
//! caller's choice, and so is how much of the event it hands in.
//!
//! Not here: `EXTRACT-` patterns, XML, tables of several lines.

pub mod json;
pub mod json_path;
pub mod key_value;

pub use json::{JsonText, json_fields, json_object_start, json_string};
pub use json_path::{JsonPath, json_get};
pub use key_value::{auto_kv, auto_kv_escaped, clean_key};

/// The field that automatic extraction makes of a name in the text: an event has a host, source and sourcetype of its
/// own, so what its text says under these names goes to a field beside them.
pub fn beside_own(name: &str) -> &str {
    match name {
        "host" => "extracted_host",
        "source" => "extracted_source",
        "sourcetype" => "extracted_sourcetype",
        other => other,
    }
}
