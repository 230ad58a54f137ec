//! Front coding of dictionaries: texts in ascending order, each without the prefix that it shares with the previous
//! text.
//!
//! The encoding starts with the total bytes of all texts. The lengths of the shared prefixes and of the suffixes follow
//! as integers, then the concatenated suffixes. The caller may compress the result.

use quarry_event::template::Dictionary;
use quarry_stdx::number::u32_of;

use crate::integers::{encode_integers, read_integers};
use crate::limits::MAX_SLAB_RAW_BYTES;
use crate::wire::{Cursor, Malformed, put_varint};

/// Appends the encoded texts. `bytes` has the texts one after the other, and `ends` the end of each.
pub(crate) fn encode_dictionary(bytes: &[u8], ends: &[u32], out: &mut Vec<u8>) {
    assert!(ends.is_sorted(), "texts follow each other");
    assert_eq!(ends.last().map_or(0, |end| *end as usize), bytes.len(), "the last text ends with the bytes");
    let (mut shared, mut rests) = (Vec::with_capacity(ends.len()), Vec::with_capacity(ends.len()));
    let mut parts = Vec::with_capacity(bytes.len());
    let (mut start, mut last): (usize, &[u8]) = (0, &[]);
    for end in ends {
        let text = &bytes[start..*end as usize];
        let common = last.iter().zip(text).take_while(|(a, b)| a == b).count();
        shared.push(common as i64);
        rests.push((text.len() - common) as i64);
        parts.extend_from_slice(&text[common..]);
        (start, last) = (*end as usize, text);
    }
    put_varint(out, bytes.len() as u64);
    encode_integers(&shared, out);
    encode_integers(&rests, out);
    out.extend_from_slice(&parts);
}

/// Reads `count` texts and checks that they are UTF-8 and ascending.
pub(crate) fn decode_dictionary(encoded: &[u8], count: usize) -> Result<Dictionary, Malformed> {
    let mut cursor = Cursor::new(encoded);
    let total = cursor.count("bytes of a dictionary", MAX_SLAB_RAW_BYTES)?;
    let shared = read_integers(&mut cursor, count)?;
    let rests = read_integers(&mut cursor, count)?;
    let mut bytes: Vec<u8> = Vec::with_capacity(total.min(cursor.remaining() * 4));
    let mut ends = Vec::with_capacity(count);
    let mut last = 0..0;
    for (shared, rest) in shared.into_iter().zip(rests) {
        let rest = cursor.take(usize::try_from(rest).unwrap_or(usize::MAX), "rest of a text")?;
        let start = bytes.len();
        let Some(common) = usize::try_from(shared).ok().filter(|shared| *shared <= last.len()) else {
            return Err(Malformed(format!("a text shares {shared} bytes with the previous text of {}", last.len())));
        };
        if common + rest.len() > total - start {
            return Err(Malformed(format!("the texts exceed their {total} bytes")));
        }
        // The suffix must not be empty. If the previous text continues after the shared prefix, the suffix must begin
        // with a greater byte.
        let ascends = match (bytes[last.clone()].get(common), rest.first()) {
            (None, Some(_)) => true,
            (Some(before), Some(now)) => before < now,
            (_, None) => ends.is_empty(),
        };
        if !ascends {
            return Err(Malformed(format!("text {} is not greater than the previous one", ends.len())));
        }
        bytes.extend_from_within(last.start..last.start + common);
        bytes.extend_from_slice(rest);
        last = start..bytes.len();
        ends.push(u32_of(bytes.len()));
    }
    cursor.finish("the dictionary")?;
    let text = std::str::from_utf8(&bytes).map_err(|_| Malformed::new("the dictionary is not UTF-8"))?;
    if bytes.len() != total || !ends.iter().all(|end| text.is_char_boundary(*end as usize)) {
        return Err(Malformed(format!("the texts do not have {total} bytes, or one ends inside a character")));
    }
    Ok(Dictionary { bytes: bytes.into(), ends })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn dictionaries_round_trip(texts in prop::collection::btree_set("[abä]{0,5}", 0..40)) {
            let texts: BTreeSet<String> = texts;
            let (mut bytes, mut ends, mut out) = (Vec::new(), Vec::new(), Vec::new());
            for text in &texts {
                bytes.extend_from_slice(text.as_bytes());
                ends.push(bytes.len() as u32);
            }
            encode_dictionary(&bytes, &ends, &mut out);
            let dictionary = decode_dictionary(&out, ends.len()).unwrap();
            prop_assert_eq!((&dictionary.bytes[..], &dictionary.ends), (&bytes[..], &ends));
        }

        #[test]
        fn garbage_returns_errors(bytes in prop::collection::vec(any::<u8>(), 0..64), count in 0usize..20) {
            drop(decode_dictionary(&bytes, count));
        }
    }

    #[test]
    fn unsorted_texts_are_rejected() {
        for (bytes, ends) in [(&b"ba"[..], vec![1, 2]), (b"aa", vec![1, 2]), (b"\xc3\xa4", vec![1, 2])] {
            let mut out = Vec::new();
            encode_dictionary(bytes, &ends, &mut out);
            assert!(decode_dictionary(&out, ends.len()).is_err());
        }
    }
}
