//! Metadata of a slab: the dictionary of its distinct metadata and, for each page, the set of entries that occur.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use quarry_event::segment::fold_case;
use quarry_event::term::MetaField;
use quarry_event::{Metadata, TimeNs};

use crate::limits::{MAX_METADATA_BYTES, MAX_PAGE_EVENTS, MAX_SLAB_EVENTS};
use crate::wire::{Cursor, Malformed, put_bytes, put_varint};

/// A set of metadata codes: bit `i` stands for `SlabInfo::metas[i]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetaSet(Box<[u64]>);

impl MetaSet {
    /// The set of `codes`, each below `metas`.
    pub(crate) fn of(codes: &[u32], metas: usize) -> MetaSet {
        assert!(codes.iter().all(|code| (*code as usize) < metas), "the slab has the metadata of its pages");
        let mut words = vec![0u64; metas.div_ceil(64)].into_boxed_slice();
        for code in codes {
            words[*code as usize / 64] |= 1 << (code % 64);
        }
        MetaSet(words)
    }

    /// Whether `code` is in the set.
    pub fn contains(&self, code: u32) -> bool {
        self.0.get(code as usize / 64).is_some_and(|word| word >> (code % 64) & 1 == 1)
    }

    /// The codes in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..)
            .zip(&self.0)
            .flat_map(|(at, word)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit))
    }
}

/// Writes the dictionary; a repeated text is a reference to its first occurrence.
pub(crate) fn put_metas(metas: &[Metadata], out: &mut Vec<u8>) {
    let mut known: HashMap<&str, u64, FixedState> = HashMap::default();
    assert!(metas.len() <= MAX_SLAB_EVENTS, "a slab has no more metadata than events");
    put_varint(out, metas.len() as u64);
    for meta in metas {
        for text in [&meta.index, &meta.host, &meta.source, &meta.sourcetype] {
            let next = known.len() as u64 + 1;
            match known.get(&**text) {
                Some(number) => put_varint(out, *number),
                None => {
                    known.insert(text, next);
                    put_varint(out, 0);
                    put_bytes(out, text.as_bytes());
                }
            }
        }
    }
}

pub(crate) fn read_metas(cursor: &mut Cursor<'_>) -> Result<Arc<[Metadata]>, Malformed> {
    // An entry takes at least four bytes.
    let count = cursor.count("number of metadata entries", MAX_SLAB_EVENTS.min(cursor.remaining() / 4))?;
    let mut known: Vec<Arc<str>> = Vec::new();
    let mut metas = Vec::with_capacity(count);
    for _ in 0..count {
        let mut text = || -> Result<Arc<str>, Malformed> {
            match cursor.count("metadata reference", known.len())? {
                0 => {
                    let text: Arc<str> = cursor.text("metadata value", MAX_METADATA_BYTES)?.into();
                    known.push(text.clone());
                    Ok(text)
                }
                number => Ok(known[number - 1].clone()),
            }
        };
        metas.push(Metadata { index: text()?, host: text()?, source: text()?, sourcetype: text()? });
    }
    Ok(metas.into())
}

/// Writes the metadata codes of one page, which ascend.
pub(crate) fn put_meta_set(codes: &[u32], out: &mut Vec<u8>) {
    assert!(codes.is_sorted_by(|left, right| left < right), "codes ascend");
    assert!(codes.len() <= MAX_PAGE_EVENTS, "an event has one code");
    put_varint(out, codes.len() as u64);
    let mut last = 0;
    for code in codes {
        put_varint(out, u64::from(code - last));
        last = *code;
    }
}

pub(crate) fn read_meta_set(cursor: &mut Cursor<'_>, metas: usize) -> Result<MetaSet, Malformed> {
    let count = cursor.count("number of metadata codes", MAX_PAGE_EVENTS.min(cursor.remaining()))?;
    let mut codes = Vec::with_capacity(count);
    let mut last = 0;
    for _ in 0..count {
        last += cursor.count32("metadata code", metas)?;
        if last as usize >= metas {
            return Err(Malformed(format!("metadata code {last} of {metas} does not exist")));
        }
        codes.push(last);
    }
    Ok(MetaSet::of(&codes, metas))
}

/// The text of one metadata field.
pub(crate) fn field_text(meta: &Metadata, field: MetaField) -> &str {
    match field {
        MetaField::Index => &meta.index,
        MetaField::Host => &meta.host,
        MetaField::Source => &meta.source,
        MetaField::Sourcetype => &meta.sourcetype,
    }
}

/// Case-insensitive match of a pattern in which `*` stands for any run of characters.
pub(crate) fn matches_pattern(text: &str, pattern: &str) -> bool {
    let (lowered, pattern) = (fold_case(text), fold_case(pattern));
    let Some((head, tail)) = pattern.split_once('*') else {
        return lowered == pattern;
    };
    let Some(mut left) = lowered.strip_prefix(head) else {
        return false;
    };
    // The text must end with the last piece; the pieces before it can be matched at their first occurrence.
    let (middle, last) = tail.rsplit_once('*').unwrap_or(("", tail));
    for piece in middle.split('*') {
        match left.find(piece) {
            Some(at) => left = &left[at + piece.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

/// Number of events of one metadata entry of a slab, and their smallest and largest `_time`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetaCount {
    pub(crate) events: u64,
    pub(crate) first: TimeNs,
    pub(crate) last: TimeNs,
}

impl MetaCount {
    pub(crate) const NONE: MetaCount = MetaCount { events: 0, first: TimeNs::MAX, last: TimeNs::MIN };

    pub(crate) fn add(&mut self, time: TimeNs) {
        self.merge(&MetaCount { events: 1, first: time, last: time });
    }

    pub(crate) fn merge(&mut self, other: &MetaCount) {
        self.events += other.events;
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcard_patterns_match_texts() {
        for (text, pattern, expected) in [
            ("Web-01", "web-01", true),
            ("web-01", "web", false),
            ("web-01", "web*", true),
            ("web-01", "*01", true),
            ("web-01", "w*b*1", true),
            ("web-01", "w*c*1", false),
            ("abab", "*ab", true),
            ("ab", "ab*ab", false),
            ("", "*", true),
            ("É1", "é*", true),
            ("aXbXc", "a*x*c", true),
        ] {
            assert_eq!(matches_pattern(text, pattern), expected, "{text} {pattern}");
        }
    }
}
