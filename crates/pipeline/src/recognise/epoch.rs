//! Epoch timestamps: numbers that are likely to be seconds since 1970, or smaller units.

use quarry_event::time::DateTimeParts;
use quarry_stdx::number::u32_of;

use super::{Form, Rank, Recogniser, Stamp, digits, number};

/// Smallest epoch: ten digits.
const EPOCH_MIN: i64 = 1_000_000_000;
/// Bytes before a number that are searched for its field name.
const KEY_BYTES_MAX: usize = 32;

impl Recogniser {
    /// An epoch of ten digits, or with milli-, micro- or nanoseconds.
    pub(super) fn epoch(&self, text: &[u8], at: usize, run: usize, leads: bool) -> Option<Stamp> {
        let finer = u32_of(run - 10);
        let value = text[at..at + run]
            .iter()
            .try_fold(0i64, |value, digit| value.checked_mul(10)?.checked_add(i64::from(digit - b'0')))?;
        let scale = 10i64.pow(finer);
        let seconds = value / scale;
        if !(EPOCH_MIN..=self.epoch_max).contains(&seconds) {
            return None;
        }
        let mut end = at + run;
        let mut nanos = (value % scale) * 10i64.pow(9 - finer);
        if text.get(end) == Some(&b'.') {
            let kept = digits(text, end + 1).min(9);
            if kept > 0 && finer == 0 {
                let (fraction, _) = number(text, end + 1, kept, kept)?;
                nanos = i64::from(fraction) * 10i64.pow(9 - u32_of(kept));
                end += 1 + digits(text, end + 1);
            }
        }
        let parts =
            DateTimeParts { epoch: Some(seconds), nanos: u32::try_from(nanos).ok()?, ..DateTimeParts::default() };
        let next = text.get(end);
        let ends = next.is_none_or(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'_' | b'/' | b'@'));
        if ends && (leads || is_named(&text[..at])) {
            return Some(Stamp::new(parts, Form::Epoch, Rank::Full, end));
        }
        let stands_alone = run == 10 && next.is_none_or(|byte| *byte == b' ') && at > 0 && text[at - 1] == b' ';
        stands_alone.then(|| Stamp::new(parts, Form::Epoch, Rank::LooseEpoch, end))
    }
}

/// Whether the text before a number names it as a time: `"timestamp":`, `ts=`, `epoch `, `audit(`.
fn is_named(before: &[u8]) -> bool {
    let is_joint = |byte: &u8| matches!(byte, b'"' | b'\'' | b':' | b'=' | b' ' | b'[' | b'(');
    let joints = before.iter().rev().take_while(|byte| is_joint(byte)).count();
    let before = &before[..before.len() - joints];
    let is_key = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'@');
    let length = before.iter().rev().take(KEY_BYTES_MAX).take_while(|byte| is_key(byte)).count();
    let key = before[before.len() - length..].to_ascii_lowercase();
    let contains = |word: &[u8]| key.windows(word.len()).any(|part| part == word);
    joints > 0
        && (contains(b"time")
            || contains(b"date")
            || contains(b"epoch")
            || contains(b"stamp")
            || key == b"ts"
            || key == b"rt"
            // The Linux audit daemon writes `msg=audit(1795600800.123:42)`.
            || key == b"audit"
            || key == b"t"
            || key.ends_with(b"_ts"))
}
