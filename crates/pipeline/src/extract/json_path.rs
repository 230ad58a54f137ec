//! The values at one path of a JSON text.
//!
//! A path is keys joined by dots; `{}` behind a key stands for every element of its array, `{2}` for the third. Only
//! the way to the path is read, all else is passed over. Keys that hold dots or braces cannot be named.

use std::borrow::Cow;

use super::json::{NESTING_MAX, Reader};

/// One step into a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step<'p> {
    /// The member of this key.
    Key(&'p str),
    /// Every element.
    Each,
    /// The element at this position, from 0.
    At(usize),
}

/// The values at `path` in order: strings without escapes, objects and arrays as their text, all others as written, and so
/// is `null`. Nothing for a path that cannot be read; where the text ceases to be JSON, what was found before.
pub fn json_get<'t>(text: &'t str, path: &str) -> Vec<Cow<'t, str>> {
    let mut found = Vec::new();
    if let Some(steps) = parse(path) {
        // Broken text ends the search; what was found before it counts.
        let _finished: Option<()> = follow(&mut Reader::new(text), &steps, &mut found);
    }
    found
}

fn parse(path: &str) -> Option<Vec<Step<'_>>> {
    let mut steps = Vec::new();
    for (position, part) in path.split('.').enumerate() {
        let (key, mut indexes) = part.split_at(part.find('{').unwrap_or(part.len()));
        // Only the whole text may be an array without a key.
        if !key.is_empty() {
            steps.push(Step::Key(key));
        } else if position > 0 || indexes.is_empty() {
            return None;
        }
        while !indexes.is_empty() {
            let (index, rest) = indexes.strip_prefix('{')?.split_once('}')?;
            steps.push(if index.is_empty() { Step::Each } else { Step::At(index.parse().ok()?) });
            indexes = rest;
        }
    }
    (steps.len() <= NESTING_MAX).then_some(steps)
}

/// Takes one value and collects what lies at `steps` inside; `None` where the text is no JSON.
fn follow<'t>(reader: &mut Reader<'t>, steps: &[Step<'_>], found: &mut Vec<Cow<'t, str>>) -> Option<()> {
    let sign = reader.next_sign()?;
    let Some((step, inner)) = steps.split_first() else {
        let value = if matches!(sign, b'{' | b'[') { reader.value_text().map(Cow::Borrowed) } else { reader.scalar() };
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
        let wanted = match step {
            Step::Key(key) => reader.key()? == *key,
            Step::Each => true,
            Step::At(index) => position == *index,
        };
        if wanted {
            follow(reader, inner, found)?;
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

#[cfg(test)]
mod tests;
