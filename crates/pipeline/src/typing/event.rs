//! An event after timestamp recognition, in the form that index-time rules read and write.

use std::borrow::Cow;
use std::sync::Arc;

use quarry_conf::settings::index_rules as keys;
use quarry_event::time::seconds_text;
use quarry_event::value::parse_number;
use quarry_event::{Metadata, TimeNs};
use quarry_stdx::number::{f64_of, integer_part};

use super::format::{pairs, write_pair};
use crate::merge::EVENT_BYTES_MAX;
use crate::text::cut_at_character;

/// Queue of dropped events.
const NULL_QUEUE: &str = "nullQueue";
/// Queue of kept events.
const INDEX_QUEUE: &str = "indexQueue";
/// Maximum length of a value of an indexed field, host, source or sourcetype, in bytes.
const VALUE_BYTES_MAX: usize = 1 << 20;
/// Maximum number of fields of an event while rules run; further fields are not added.
const FIELDS_MAX: usize = 10_000;
/// Nanoseconds per microsecond, the resolution of times computed by rules.
const NS_PER_MICROSECOND: i64 = 1_000;

/// An event being processed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TypedEvent {
    pub(crate) raw: String,
    pub(crate) time: TimeNs,
    pub(crate) meta: Metadata,
    /// Index-time fields in order; a multivalue field has several entries.
    pub(crate) fields: Vec<(Arc<str>, String)>,
    /// Whether the event will be dropped.
    pub(crate) is_dropped: bool,
    /// Whether the event's text or a field value exceeded its limit and was truncated.
    pub(crate) is_truncated: bool,
    /// Values of [`Key::Other`] by name.
    others: Vec<(String, String)>,
}

/// A key that a rule reads or writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Raw,
    Meta,
    Time,
    Queue,
    Host,
    Source,
    Sourcetype,
    Index,
    /// The first value of a field.
    Field(String),
    /// The first values of fields, joined by blanks.
    Fields(Vec<String>),
    /// Any other key: routing keys, and keys that rules use among themselves.
    Other(String),
}

impl Key {
    /// The key in `SOURCE_KEY` or `DEST_KEY`.
    pub(crate) fn of_rule(name: &str) -> Key {
        match name {
            keys::RAW_KEY => Key::Raw,
            keys::META_KEY => Key::Meta,
            keys::TIME_KEY => Key::Time,
            keys::QUEUE_KEY => Key::Queue,
            keys::HOST_KEY => Key::Host,
            keys::SOURCE_KEY => Key::Source,
            keys::SOURCETYPE_KEY => Key::Sourcetype,
            keys::INDEX_KEY => Key::Index,
            name => match (name.strip_prefix("field:"), name.strip_prefix("fields:")) {
                (Some(field), _) => Key::Field(field.trim().to_owned()),
                (_, Some(fields)) => Key::Fields(fields.split(',').map(|field| field.trim().to_owned()).collect()),
                _ => Key::Other(name.to_owned()),
            },
        }
    }

    /// The key to which a name in an expression refers, if any.
    pub(crate) fn of_expression(name: &str) -> Option<Key> {
        Some(match name {
            "_raw" => Key::Raw,
            "_time" => Key::Time,
            "queue" => Key::Queue,
            "host" => Key::Host,
            "source" => Key::Source,
            "sourcetype" => Key::Sourcetype,
            "index" => Key::Index,
            _ => return None,
        })
    }
}

impl TypedEvent {
    /// An event as received from the timestamper.
    pub(crate) fn new(raw: String, time: TimeNs, meta: Metadata) -> TypedEvent {
        TypedEvent { raw, time, meta, fields: Vec::new(), is_dropped: false, is_truncated: false, others: Vec::new() }
    }

    /// Value of a key as a rule's `REGEX` sees it. Host, source and sourcetype have a prefix such as `host::`.
    pub(crate) fn read(&self, key: &Key) -> Cow<'_, str> {
        match key {
            Key::Raw => Cow::Borrowed(&self.raw),
            Key::Meta => {
                let mut text = String::new();
                self.fields.iter().for_each(|(name, value)| write_pair(name, value, &mut text));
                Cow::Owned(text)
            }
            Key::Time => Cow::Owned(seconds_text(self.time)),
            Key::Host => Cow::Owned(format!("host::{}", self.meta.host)),
            Key::Source => Cow::Owned(format!("source::{}", self.meta.source)),
            Key::Sourcetype => Cow::Owned(format!("sourcetype::{}", self.meta.sourcetype)),
            Key::Fields(names) => {
                let values: Vec<&str> = names.iter().filter_map(|name| self.field(name)).collect();
                Cow::Owned(values.join(" "))
            }
            _ => Cow::Borrowed(self.plain(key).unwrap_or_default()),
        }
    }

    /// Value of a key without prefix; `None` if the key is unset or its value is computed.
    pub(crate) fn plain(&self, key: &Key) -> Option<&str> {
        match key {
            Key::Raw => Some(&self.raw),
            Key::Queue => Some(if self.is_dropped { NULL_QUEUE } else { INDEX_QUEUE }),
            Key::Host => Some(&self.meta.host),
            Key::Source => Some(&self.meta.source),
            Key::Sourcetype => Some(&self.meta.sourcetype),
            Key::Index => Some(&self.meta.index),
            Key::Field(name) => self.field(name),
            Key::Other(name) => self.others.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str()),
            Key::Meta | Key::Time | Key::Fields(_) => None,
        }
    }

    /// The indexer groups named by a rule, as a field that only forwarders keep.
    pub(crate) fn routing(&self) -> Option<(Arc<str>, String)> {
        let (_, groups) = self.others.iter().find(|(name, _)| name == keys::ROUTING_KEY)?;
        Some((Arc::from(keys::ROUTING_KEY), groups.clone()))
    }

    /// First value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| **known == *name).map(|(_, value)| value.as_str())
    }

    /// All values of a field.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(known, _)| **known == *name).map(|(_, value)| value.as_str())
    }

    /// Writes a key; the prefix of host, source and sourcetype is removed. A time that is not a number of seconds is
    /// ignored, and so is an empty host, source, sourcetype or index.
    pub(crate) fn write(&mut self, key: &Key, text: Cow<'_, str>) {
        match key {
            Key::Raw => self.set_raw(text.into_owned()),
            Key::Meta => {
                self.fields.clear();
                pairs(&text).into_iter().for_each(|(name, value)| self.add_field(Arc::from(name), value));
            }
            Key::Time => {
                if let Some(time) = parse_number(text.trim()).and_then(time_of_seconds) {
                    self.time = time;
                }
            }
            Key::Queue => self.is_dropped = text.eq_ignore_ascii_case(NULL_QUEUE),
            Key::Host => set_metadata(&mut self.meta.host, &text, "host::"),
            Key::Source => set_metadata(&mut self.meta.source, &text, "source::"),
            Key::Sourcetype => set_metadata(&mut self.meta.sourcetype, &text, "sourcetype::"),
            Key::Index => set_metadata(&mut self.meta.index, &text, ""),
            Key::Field(name) => {
                self.remove_field(name);
                self.add_field(Arc::from(name.as_str()), text.into_owned());
            }
            Key::Fields(_) => {}
            Key::Other(name) => {
                self.others.retain(|(known, _)| known != name);
                self.others.push((name.clone(), text.into_owned()));
            }
        }
    }

    /// Replaces the text, cut to the maximum event size.
    pub(crate) fn set_raw(&mut self, text: String) {
        self.raw = text;
        self.is_truncated |= truncate_text(&mut self.raw, EVENT_BYTES_MAX);
    }

    /// Adds a value to a field, unless the event has [`FIELDS_MAX`] values. A field without a name is not added, nor
    /// one whose name begins with an underscore: such names are internal to the pipeline.
    pub(crate) fn add_field(&mut self, name: Arc<str>, mut value: String) {
        if name.is_empty() || name.starts_with('_') || self.fields.len() >= FIELDS_MAX {
            return;
        }
        self.is_truncated |= truncate_text(&mut value, VALUE_BYTES_MAX);
        self.fields.push((name, value));
    }

    /// Removes all values of a field.
    pub(crate) fn remove_field(&mut self, name: &str) {
        self.fields.retain(|(known, _)| **known != *name);
    }
}

/// Replaces a metadata value with `text` without the prefix `kind`, unless nothing remains.
fn set_metadata(place: &mut Arc<str>, text: &str, kind: &str) {
    let bare = text.strip_prefix(kind).unwrap_or(text);
    let bare = &bare[..cut_at_character(bare.as_bytes(), VALUE_BYTES_MAX)];
    if !bare.is_empty() && **place != *bare {
        *place = Arc::from(bare);
    }
}

/// Cuts a text; returns whether it was too long.
fn truncate_text(text: &mut String, most: usize) -> bool {
    let kept = cut_at_character(text.as_bytes(), most);
    let is_longer = kept < text.len();
    text.truncate(kept);
    is_longer
}

/// The instant for a number of seconds, rounded to microseconds; `None` if it does not fit in [`TimeNs`].
pub(crate) fn time_of_seconds(seconds: f64) -> Option<TimeNs> {
    let micros = (seconds * 1e6).round();
    // Beyond this limit, the nanoseconds do not fit.
    (micros.abs() < f64_of(i64::MAX / NS_PER_MICROSECOND)).then(|| integer_part::<i64>(micros) * NS_PER_MICROSECOND)
}
