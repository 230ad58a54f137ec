//! eventtypes.conf and tags.conf: named searches, and tags on field values.

use crate::layers::Layers;
use crate::text::DEFAULT_STANZA;
use crate::values::{parse_bool, parse_hex_byte};

/// A named search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventType {
    /// Name of the stanza.
    pub name: String,
    /// `search`.
    pub search: String,
    /// `priority`: 1 is shown first; the default is 10.
    pub priority: u32,
}

/// A tag on a field value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Name of the tag.
    pub name: String,
    /// Field that has the tagged value.
    pub field: String,
    /// The tagged value.
    pub value: String,
}

/// Default priority of an event type.
const PRIORITY_LOWEST: u32 = 10;

/// The enabled event types of all apps, by priority, then by name.
pub fn event_types(layers: &Layers) -> Vec<EventType> {
    let conf = layers.conf("eventtypes");
    let stanzas = conf.stanzas().iter().filter(|stanza| stanza.name != DEFAULT_STANZA);
    let mut found: Vec<EventType> = stanzas
        .filter(|stanza| !conf.get(&stanza.name, "disabled").and_then(parse_bool).unwrap_or(false))
        .filter_map(|stanza| {
            let search = conf.get(&stanza.name, "search").map(str::trim).filter(|search| !search.is_empty())?;
            let priority = conf.get(&stanza.name, "priority").and_then(|text| text.parse().ok());
            let priority = priority.unwrap_or(PRIORITY_LOWEST);
            Some(EventType { name: stanza.name.clone(), search: search.to_owned(), priority })
        })
        .collect();
    found.sort_by(|a, b| a.priority.cmp(&b.priority).then_with(|| a.name.cmp(&b.name)));
    found
}

/// The enabled tags of all apps, by stanza, then by name.
pub fn tags(layers: &Layers) -> Vec<Tag> {
    let mut found = Vec::new();
    for stanza in layers.conf("tags").stanzas() {
        let Some((field, value)) = tagged_value(&stanza.name) else { continue };
        let enabled = stanza.settings.iter().filter(|(_, setting)| setting.value.eq_ignore_ascii_case("enabled"));
        found.extend(enabled.map(|(name, _)| Tag { name: name.clone(), field: field.clone(), value: value.clone() }));
    }
    found
}

/// Field and value tagged by a stanza of tags.conf.
pub fn tagged_value(stanza: &str) -> Option<(String, String)> {
    let (field, value) = stanza.split_once('=')?;
    Some((field.trim().to_owned(), unescape(value.trim())))
}

/// The name of the stanza of tags.conf for a field's value; bytes that could be mistaken for syntax are escaped.
pub fn tag_stanza(field: &str, value: &str) -> String {
    let mut stanza = format!("{field}=");
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte) {
            stanza.push(char::from(byte));
        } else {
            stanza.push_str(&format!("%{byte:02X}"));
        }
    }
    stanza
}

/// Decodes escapes such as `%2F`; invalid escapes stay as they are.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| text.get(text.len() - behind.len()..text.len() - behind.len() + 2));
        match escaped.flatten().and_then(parse_hex_byte) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Tag, event_types, tag_stanza, tagged_value, tags};
    use crate::Layers;
    use crate::layers::tests::local;

    #[test]
    fn tag_stanza_names_round_trip() {
        for value in ["10.0.0.1", "/var/log/a b", "50%", "[x]=y", "é", "%2F", " x ", ""] {
            let stanza = tag_stanza("source", value);
            assert!(stanza.is_ascii() && !stanza.contains(['[', ']', ' ']), "{stanza}");
            assert_eq!(tagged_value(&stanza), Some(("source".to_owned(), value.to_owned())));
        }
        assert_eq!(tag_stanza("source", "/a"), "source=%2Fa");
        assert_eq!(tagged_value("nothing"), None);
        assert_eq!(tagged_value("field=50%+5 %"), Some(("field".to_owned(), "50%+5 %".to_owned())), "no escape");
    }

    #[test]
    fn stanzas_become_event_types_and_tags() {
        let types = "[b]\nsearch = x=1\n[a]\nsearch = y\n[top]\nsearch = z\npriority = 1\n[off]\nsearch = q\n\
                     disabled = 1\n[empty]\n";
        let own = "[eventtype=a]\nlogin = enabled\nold = disabled\n[path=%2Fetc%20x 5%]\nfile = enabled\n";
        let layers = Layers::new([local("eventtypes", types), local("tags", own)]);
        let names: Vec<String> = event_types(&layers).into_iter().map(|found| found.name).collect();
        assert_eq!(names, ["top", "a", "b"]);
        let tag = |name: &str, field: &str, value: &str| Tag {
            name: name.to_owned(),
            field: field.to_owned(),
            value: value.to_owned(),
        };
        assert_eq!(tags(&layers), [tag("login", "eventtype", "a"), tag("file", "path", "/etc x 5%")]);
    }
}
