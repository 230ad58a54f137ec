//! How much memory values take that are read from a text, known before they are read.
//!
//! An upper bound from the marks of JSON alone: those inside of texts count as well. Not here: who has that memory.

use serde_json::Value;

use super::body::Share;

/// Bytes of an object with its first pairs.
pub(crate) const OBJECT_BYTES: usize = 640;
/// Bytes of a value beside those of its text, as part of a list or of an object.
pub(crate) const VALUE_BYTES: usize = 128;
/// Texts that are read without counting; what they become is small.
const SMALL_BYTES: usize = 4 << 10;

/// Most bytes that the values of a text of JSON take.
pub(crate) fn of_json(text: &[u8]) -> usize {
    let marks = text.iter().map(|byte| match byte {
        b'{' => OBJECT_BYTES,
        b'[' | b',' => VALUE_BYTES,
        _ => 0,
    });
    marks.fold(text.len() + VALUE_BYTES, usize::saturating_add)
}

/// Reads JSON within a share; `None` when it is none, or does not fit.
pub(crate) fn read_json(text: &[u8], share: &mut Share) -> Option<Value> {
    share.take(of_json(text))?;
    serde_json::from_slice(text).ok()
}

/// Reads JSON for a moment: large texts within a share of `lent`, which they have only as long as the value is there.
pub(crate) fn with_json<T>(text: &str, lent: &mut Share, read: impl FnOnce(&Value) -> T) -> Option<T> {
    if text.len() > SMALL_BYTES {
        lent.take(of_json(text.as_bytes()))?;
    }
    serde_json::from_str(text).ok().map(|value| read(&value))
}
