//! Sort rank of a value: numbers before addresses before texts, missing values last.
//!
//! The constants are classes of values, in ascending order.

use quarry_event::value::{SortKey, parse_number, sort_key};
use quarry_spl::ast::SortKind;

/// Numbers.
pub const NUMBER: i64 = 1;
/// IPv4 addresses.
pub const ADDRESS: i64 = 2;
/// Everything else; with [`SortKind::Str`], every value.
pub const TEXT: i64 = 3;
/// No value; last in either direction.
pub const MISSING: i64 = 4;

/// Class, number and text that determine the sort position of a value.
pub fn rank(kind: SortKind, text: Option<&str>) -> (i64, Option<f64>, Option<&str>) {
    match (kind, text) {
        (_, None) => (MISSING, None, None),
        (SortKind::Str, Some(text)) => (TEXT, None, Some(text)),
        (SortKind::Num, Some(text)) => match parse_number(text) {
            Some(number) => (NUMBER, Some(number), None),
            None => (MISSING, None, None),
        },
        (SortKind::Auto | SortKind::Ip, Some(text)) => match sort_key(text) {
            SortKey::Number(number) => (NUMBER, Some(number.as_f64()), None),
            SortKey::Address(address) => (ADDRESS, Some(f64::from(address)), None),
            SortKey::Text(text) => (TEXT, None, Some(text)),
        },
    }
}
