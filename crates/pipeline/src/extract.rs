//! Search-time field extraction from event text: `key=value` pairs and JSON.
//!
//! Each function scans a text once, from front to back, and passes each field to the caller as it is found; names and
//! values are slices of the text wherever possible. The caller decides which fields to keep, how many, and how much of
//! the event is scanned.
//!
//! Not here: `EXTRACT-` patterns, XML, multi-line tables.

pub mod json;
pub mod json_path;
pub mod key_value;

pub use json::{JsonText, json_fields, json_stop, json_string};
pub use json_path::JsonPath;
pub use key_value::{auto_kv, auto_kv_escaped, clean_key, clean_name};

/// Field name for a name found in the text: an event has a host, source and sourcetype of its own, so text fields with
/// these names are renamed.
pub fn extracted_name(name: &str) -> &str {
    match name {
        "host" => "extracted_host",
        "source" => "extracted_source",
        "sourcetype" => "extracted_sourcetype",
        other => other,
    }
}
