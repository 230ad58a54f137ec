//! Upper bound of the memory of values parsed from JSON, computed before parsing.
//!
//! The bound counts JSON's punctuation, including punctuation inside strings. Not here: the budget.

use serde_json::Value;

use super::body::MemoryReservation;

/// Memory of an object with its initial capacity for members.
pub(crate) const OBJECT_BYTES: usize = 640;
/// Memory of a value in a list or object, without its text.
pub(crate) const VALUE_BYTES: usize = 128;
/// Size up to which [`with_json`] parses without reserving memory.
const SMALL_BYTES: usize = 4 << 10;

/// Maximum memory of the values in a JSON text.
pub(crate) fn json_memory_bytes(text: &[u8]) -> usize {
    let marks = text.iter().map(|byte| match byte {
        b'{' => OBJECT_BYTES,
        b'[' | b',' => VALUE_BYTES,
        _ => 0,
    });
    marks.fold(text.len() + VALUE_BYTES, usize::saturating_add)
}

/// Parses JSON after reserving its memory in `share`; `None` if the JSON is invalid or does not fit.
pub(crate) fn read_json(text: &[u8], share: &mut MemoryReservation) -> Option<Value> {
    share.reserve(json_memory_bytes(text))?;
    serde_json::from_slice(text).ok()
}

/// Parses JSON and passes the value to `read`; for a large text, memory is reserved in `lent` first.
pub(crate) fn with_json<T>(text: &str, lent: &mut MemoryReservation, read: impl FnOnce(&Value) -> T) -> Option<T> {
    if text.len() > SMALL_BYTES {
        lent.reserve(json_memory_bytes(text.as_bytes()))?;
    }
    serde_json::from_str(text).ok().map(|value| read(&value))
}
