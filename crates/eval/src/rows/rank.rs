//! Sort rank of a value: numbers before addresses before texts, missing values last; and the order of many values.
//!
//! The constants are classes of values, in ascending order.

use std::cmp::Ordering;

use quarry_event::value::{SortKey, parse_number, sort_key};
use quarry_spl::ast::SortKind;

use super::cancellable_sort::sort_first_until;
use crate::EngineError;
use crate::context::Stop;

/// Numbers.
pub const NUMBER: i64 = 1;
/// IPv4 addresses.
pub const ADDRESS: i64 = 2;
/// Any other value; with [`SortKind::Str`], every value.
pub const TEXT: i64 = 3;
/// No value; always last, whatever the direction.
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

/// Positions of values in ascending order, each with the value's [`SortKey::order_prefix_after`]; `by_text` orders
/// values that the keys do not distinguish. After `should_end`, only the first values are returned. A cancelled search
/// ends early, because millions of values take a second.
pub fn sorted_positions_of(
    values: &[SortKey<'_>],
    by_text: impl Fn(u32, u32) -> Ordering,
    stop: &Stop,
    should_end: impl Fn() -> bool,
) -> Result<Vec<(u64, u32)>, EngineError> {
    let prefix = common_prefix(values);
    let mut order: Vec<(u64, u32)> = values.iter().map(|value| value.order_prefix_after(prefix)).zip(0..).collect();
    let compare = |(one, a): &(u64, u32), (other, b): &(u64, u32)| {
        let by_value = || values[*a as usize].cmp(&values[*b as usize]);
        one.cmp(other).then_with(by_value).then_with(|| by_text(*a, *b))
    };
    sort_first_until(&mut order, usize::MAX, compare, || stop.check_cancelled(), should_end)?;
    Ok(order)
}

/// Bytes with which all texts begin.
pub(crate) fn common_prefix(values: &[SortKey<'_>]) -> usize {
    let mut texts = values.iter().filter_map(|value| match value {
        SortKey::Text(text) => Some(text.as_bytes()),
        SortKey::Number(_) | SortKey::Address(_) => None,
    });
    let Some(first) = texts.next() else { return 0 };
    texts.fold(first.len(), |length, text| {
        let alike = first[..length].iter().zip(text).take_while(|(one, other)| one == other);
        alike.count()
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cancelled_search_sorts_nothing() {
        let (values, stop) = ([sort_key("b"), sort_key("a")], Stop::default());
        let order = || sorted_positions_of(&values, |_, _| Ordering::Equal, &stop, || false);
        assert_eq!(order().unwrap().into_iter().map(|(_, at)| at).collect::<Vec<_>>(), [1, 0]);
        stop.cancel();
        assert!(order().is_err());
    }

    proptest! {
        #[test]
        fn values_are_ordered_by_key_then_by_text(
            texts in prop::collection::vec(
                prop_oneof!["[01a]{0,3}", "/api/v1/item/[ab0-2]{0,9}", "-?[0-3](\\.[05])?", "10\\.0\\.[0-2]\\.1"],
                0..40,
            ),
        ) {
            let values: Vec<SortKey<'_>> = texts.iter().map(|text| sort_key(text)).collect();
            let by_text = |a: u32, b: u32| texts[a as usize].cmp(&texts[b as usize]);
            let order = sorted_positions_of(&values, by_text, &Stop::default(), || false).unwrap();
            let found: Vec<&String> = order.iter().map(|(_, at)| &texts[*at as usize]).collect();
            let mut expected: Vec<&String> = texts.iter().collect();
            expected.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)).then(a.cmp(b)));
            prop_assert_eq!(found, expected);
        }
    }
}
