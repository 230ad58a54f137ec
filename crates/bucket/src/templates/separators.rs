//! Splits texts into cells at tabs, pipes or the separators of FIX messages. Such texts are exports of proxies,
//! firewalls and tables.
//!
//! A cell is a variable as a whole, even if it is empty or contains blanks, so that all rows of a table have one
//! template. The key of a `key=value` pair is a literal, even if it is a short number as in FIX messages (`35=D`).
//! Cells with quotes, braces or several pairs are scanned like other texts, and so are the first and the last cell,
//! which may be a header and a message.
//!
//! Not here: delimited texts whose cells are index-time fields (`super::cells`).

use memchr::{memchr, memchr_iter, memchr2, memmem};

use super::classes::{BYTE_CLASSES, FIX_SEPARATOR, KEY};
use super::variables::{EventScanner, Variable, VariableKind};

/// Minimum number of separators in a text that is split into cells.
const SEPARATORS_MIN: usize = 5;
/// Maximum number of digits of a key that is a number. Longer numbers are values, because each distinct key needs a
/// template of its own.
const NUMBER_KEY_DIGITS_MAX: usize = 4;

/// The separator at which a text is split into cells; `None` if the text is not split.
pub(super) fn separator_of(text: &[u8]) -> Option<u8> {
    let has_many = |separator: u8| memchr_iter(separator, text).nth(SEPARATORS_MIN - 1).is_some();
    if has_many(b'\t') {
        // The lines of a stack trace begin with tabs.
        return memchr(b'\n', text).is_none().then_some(b'\t');
    }
    if has_many(FIX_SEPARATOR) {
        return memchr(b'\n', text).is_none().then_some(FIX_SEPARATOR);
    }
    let is_cells = has_many(b'|')
        && memchr(b'\n', text).is_none()
        // Pipes between blanks are punctuation. In CEF, pipes separate only the header, and a value extends to the next
        // key.
        && [&b"| "[..], b" |", b"CEF:"].iter().all(|other| memmem::find(text, other).is_none());
    is_cells.then_some(b'|')
}

/// Length of the key of a pair with its equals sign; 0 if the cell is not a pair.
fn key_len(cell: &[u8]) -> usize {
    let len = cell.iter().take_while(|byte| BYTE_CLASSES[usize::from(**byte)] & KEY != 0).count();
    let is_key = cell.first().is_some_and(u8::is_ascii_alphabetic) || is_number_key(&cell[..len]);
    if is_key && cell.get(len) == Some(&b'=') { len + 1 } else { 0 }
}

/// Whether the part of a cell before an equals sign is a number short enough to be a key.
pub(super) fn is_number_key(chunk: &[u8]) -> bool {
    (1..=NUMBER_KEY_DIGITS_MAX).contains(&chunk.len()) && chunk.iter().all(u8::is_ascii_digit)
}

/// Whether a cell, without the key of a pair, is a single variable: it has no quotes, braces or further pairs, which
/// [`EventScanner::scan_range`] would split.
fn is_plain(cell: &[u8]) -> bool {
    memchr2(b'"', b'{', cell).is_none() && (memchr(b'=', cell).is_none() || memchr(b' ', cell).is_none())
}

impl EventScanner<'_, '_> {
    /// Finds the variables of a text that is split into cells, from `at` on. Returns the position at which the scan
    /// ended.
    pub(super) fn scan_cells(&mut self, at: usize, separator: u8) -> usize {
        let text = self.text;
        let next = |at: usize| text.get(at..).and_then(|rest| memchr(separator, rest)).map(|len| at + len);
        let Some(first) = next(at) else { return self.scan_range(at, text.len()) };
        let mut at = self.scan_range(at, first);
        // A quoted text may contain separators.
        while let Some(before) = next(at) {
            let Some(end) = next(before + 1) else { return self.scan_range(before + 1, text.len()) };
            let start = before + 1 + key_len(&text[before + 1..end]);
            at = if is_plain(&text[start..end]) {
                self.variables.push(Variable::new(start, end, VariableKind::Cell(separator)));
                end
            } else {
                self.scan_range(before + 1, end)
            };
        }
        self.scan_range(at, text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::super::variables::split_event;
    use super::*;

    fn variables(text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        split_event(text.as_bytes(), &mut found);
        let mut end = 0;
        for variable in &found {
            assert!(variable.start >= end && variable.end >= variable.start, "{text:?}: the variables are in order");
            end = variable.end;
        }
        found.iter().map(|variable| &text[variable.start..variable.end]).collect()
    }

    #[test]
    fn a_cell_is_one_variable_whatever_it_contains() {
        assert_eq!(
            variables("2026-11-20 06:00:00\tAllowed\tMiscellaneous or Unknown\t\tx.org/?a=1&b=2\tNone\tok now 7"),
            ["2026-11-20", "06:00:00", "Allowed", "Miscellaneous or Unknown", "", "x.org/?a=1&b=2", "None", "7"]
        );
        assert_eq!(
            variables("time=17|rule=Zugriff Büro|user=|note=\"a|b\"|msg=a=1 b=2|x|end"),
            ["17", "Zugriff Büro", "", "a|b", "a=1", "2", "x", "end"]
        );
    }

    #[test]
    fn numbers_before_equals_signs_in_cells_are_keys() {
        let fix = "2026-11-20 06:00:00 8=FIX.4.4|9=108|35=D|58=a=b|12345=6|5001=x 7|55=|10=035";
        let values = ["2026-11-20", "06:00:00", "FIX.4.4", "108", "D", "a=b", "12345=6", "x 7", "", "035"];
        assert_eq!(variables(&format!("{fix}|")), values);
        assert_eq!(variables(fix), values);
        assert_eq!(variables(&fix.replace('|', "\x01")), values);
        assert_eq!(variables("took 8=9 of 10"), ["8", "9", "10"], "not in other texts");
    }

    #[test]
    fn texts_with_few_separators_or_several_lines_are_not_split_into_cells() {
        let separator = |text: &str| separator_of(text.as_bytes());
        assert_eq!(separator("a\tb\tc\td\te"), None);
        assert_eq!(separator("a\tb\tc\td\te\tf"), Some(b'\t'));
        assert_eq!(separator("error\n\tat a\n\tat b\n\tat c\n\tat d\n\tat e"), None);
        assert_eq!(separator("a|b|c|d|e|f"), Some(b'|'));
        assert_eq!(separator("a | b | c | d | e | f"), None);
        assert_eq!(separator("CEF:0|a|b|c|d|e|f|src=1"), None);
    }
}
