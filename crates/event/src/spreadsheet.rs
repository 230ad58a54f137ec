//! Texts of events in a spreadsheet: what a cell begins with may make a formula of it.
//!
//! Logs hold what strangers wrote, and a CSV file of them is opened by programs that run formulas. The rule is OWASP's: a
//! text that begins with `=`, `+`, `-`, `@`, a tab or a carriage return gets an apostrophe in front. Numbers stay numbers.

use std::borrow::Cow;

/// What makes a formula of a text.
const BEGINNINGS: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// The text as a cell that no spreadsheet takes for a formula.
pub fn without_formula(text: &str) -> Cow<'_, str> {
    if !text.starts_with(BEGINNINGS) || is_number(text) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{text}"))
}

/// Whether this is a number alone, as in -5 or +1.5e3: `inf` and the like are names to a spreadsheet.
fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'))
        && text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_get_an_apostrophe_and_numbers_stay() {
        for text in
            ["=1+1", "+cmd|'/C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1", "=", "-", "--5", "-inf", "+1-2", "- 5"]
        {
            assert_eq!(without_formula(text), format!("'{text}"), "{text:?}");
        }
        for text in ["", "-5", "+5", "-1.5e-3", "-.5", "a=b", "1-2", " =1", "'=1", "größe", "5"] {
            assert_eq!(without_formula(text), text);
        }
    }
}
