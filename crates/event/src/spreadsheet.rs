//! Prevents event texts from being interpreted as formulas in spreadsheets.
//!
//! Logs contain text from untrusted sources, and programs that open CSV exports of logs evaluate formulas. As OWASP
//! recommends, a text that begins with `=`, `+`, `-`, `@`, a tab or a carriage return is prefixed with an apostrophe.
//! Numbers are left alone.

use std::borrow::Cow;

/// First characters that make a text a formula.
const FORMULA_STARTS: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// The text in a form that no spreadsheet interprets as a formula.
pub fn escape_formula(text: &str) -> Cow<'_, str> {
    if !text.starts_with(FORMULA_STARTS) || is_number(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{text}"))
}

/// Whether the text is just a number, such as -5 or +1.5e3; spreadsheets interpret `inf` and similar words as names.
fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'))
        && text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_escaped_and_numbers_are_kept() {
        for text in
            ["=1+1", "+cmd|'/C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1", "=", "-", "--5", "-inf", "+1-2", "- 5"]
        {
            assert_eq!(escape_formula(text), format!("'{text}"), "{text:?}");
        }
        for text in ["", "-5", "+5", "-1.5e-3", "-.5", "a=b", "1-2", " =1", "'=1", "größe", "5"] {
            assert_eq!(escape_formula(text), text);
        }
    }
}
