//! The values at one path of a JSON text.
//!
//! A path is keys joined by dots; `{}` behind a key stands for every element of its array, `{2}` for the third. Only
//! the way to the path is read, all else is passed over. Keys that hold dots or braces cannot be named.

use std::borrow::Cow;

use super::json::{NESTING_MAX, Reader};

/// A path that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath(Vec<Step>);

/// One step into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// The member of this key.
    Key(Box<str>),
    /// Every element.
    Each,
    /// The element at this position, from 0.
    At(usize),
}

/// The values at `path` in order: strings without escapes, objects and arrays as their text, all others as written, and so
/// is `null`. Nothing for a path that cannot be read; where the text ceases to be JSON, what was found before.
pub fn json_get<'t>(text: &'t str, path: &str) -> Vec<Cow<'t, str>> {
    JsonPath::parse(path).map(|path| path.values(text)).unwrap_or_default()
}

impl JsonPath {
    /// `None` for a path that cannot be read.
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

    /// The values of [`json_get`].
    pub fn values<'t>(&self, text: &'t str) -> Vec<Cow<'t, str>> {
        self.walk(text, 0, &mut |key, wanted, _| key == wanted)
    }

    /// The values at the rest of the path, from step `from` on. `is_wanted` is asked of each key of the objects on the way,
    /// beside the key that the path names there and the number of this step.
    pub fn walk<'t>(
        &self,
        text: &'t str,
        from: usize,
        is_wanted: &mut impl FnMut(&str, &str, usize) -> bool,
    ) -> Vec<Cow<'t, str>> {
        let mut found = Vec::new();
        // Broken text ends the search; what was found before it counts.
        let _finished: Option<()> = self.follow(&mut Reader::new(text), from, is_wanted, &mut found);
        found
    }

    /// Takes one value and collects what lies inside at the steps from `at` on; `None` where the text is no JSON.
    fn follow<'t>(
        &self,
        reader: &mut Reader<'t>,
        at: usize,
        is_wanted: &mut impl FnMut(&str, &str, usize) -> bool,
        found: &mut Vec<Cow<'t, str>>,
    ) -> Option<()> {
        let sign = reader.next_sign()?;
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
        reader.take();
        if reader.closes(array) {
            reader.take();
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
            let sign = reader.take()?;
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
