//! Values at a path of a JSON text.
//!
//! A path consists of keys joined by dots; after a key, `{}` selects all elements of its array, and `{2}` the third
//! one. Only values on the path are parsed; all others are skipped. Keys that contain dots or braces cannot be
//! addressed.

use std::borrow::Cow;

use super::json::{NESTING_MAX, Reader};

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath(Vec<Step>);

/// One step into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// The member with this key.
    Key(Box<str>),
    /// Every element.
    Each,
    /// The element at this position, from 0.
    At(usize),
}

impl JsonPath {
    /// Parses a path; `None` if it is invalid.
    pub fn parse(path: &str) -> Option<JsonPath> {
        let mut steps = Vec::new();
        for (position, part) in path.split('.').enumerate() {
            let (key, mut indexes) = part.split_at(part.find('{').unwrap_or(part.len()));
            // Only the whole text may be an array without a key.
            if !key.is_empty() {
                steps.push(Step::Key(key.into()));
            } else if position > 0 || indexes.is_empty() {
                return None;
            }
            while !indexes.is_empty() {
                let (index, rest) = indexes.strip_prefix('{')?.split_once('}')?;
                steps.push(if index.is_empty() { Step::Each } else { Step::At(index.parse().ok()?) });
                indexes = rest;
            }
        }
        (steps.len() <= NESTING_MAX).then_some(JsonPath(steps))
    }

    /// The values at the path in order: strings unescaped, objects and arrays as text, all others (including `null`) as
    /// written. If the text becomes invalid JSON, the values found before are returned.
    pub fn values<'t>(&self, text: &'t str) -> Vec<Cow<'t, str>> {
        self.walk(text, 0, &mut |key, wanted, _| key == wanted)
    }

    /// The values at the rest of the path, from step `from` on. `is_wanted` decides which members of the objects along
    /// the path are followed; it gets a member's key, the path's key at that step, and the number of the step.
    pub fn walk<'t>(
        &self,
        text: &'t str,
        from: usize,
        is_wanted: &mut impl FnMut(&str, &str, usize) -> bool,
    ) -> Vec<Cow<'t, str>> {
        let mut found = Vec::new();
        // Invalid JSON ends the search; values found before are kept.
        let _finished: Option<()> = self.follow(&mut Reader::new(text), from, is_wanted, &mut found);
        found
    }

    /// Consumes one value and collects values inside it at the steps from `at` on; `None` if the text is not valid
    /// JSON.
    fn follow<'t>(
        &self,
        reader: &mut Reader<'t>,
        at: usize,
        is_wanted: &mut impl FnMut(&str, &str, usize) -> bool,
        found: &mut Vec<Cow<'t, str>>,
    ) -> Option<()> {
        let sign = reader.peek_nonblank()?;
        let Some(step) = self.0.get(at) else {
            let value =
                if matches!(sign, b'{' | b'[') { reader.value_text().map(Cow::Borrowed) } else { reader.scalar() };
            found.push(value?);
            return Some(());
        };
        let array = match (step, sign) {
            (Step::Key(_), b'{') => false,
            (Step::Each | Step::At(_), b'[') => true,
            _ => return reader.value_text().map(|_| ()),
        };
        reader.next_byte();
        if reader.closes(array) {
            reader.next_byte();
            return Some(());
        }
        for position in 0.. {
            let is_on_path = match step {
                Step::Key(key) => is_wanted(&reader.key()?, key, at),
                Step::Each => true,
                Step::At(index) => position == *index,
            };
            if is_on_path {
                self.follow(reader, at + 1, is_wanted, found)?;
            } else {
                reader.value_text()?;
            }
            let closes = reader.closes(array);
            let sign = reader.next_byte()?;
            if closes {
                break;
            }
            (sign == b',').then_some(())?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
