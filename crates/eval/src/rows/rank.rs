//! Sort rank of a value: numbers before addresses before texts, missing values last.
//!
//! The constants are classes of values, in ascending order. [`ValueRanks`] turns a column into integers, so that a sort
//! by several columns compares integers, and each distinct value is examined once.

use arrow::array::{Array, StringViewArray};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_event::value::{SortKey, parse_number, sort_key};
use quarry_spl::ast::SortKind;
use quarry_stdx::number::u32_of;

use super::cancellable_sort::sort_cancellable;
use crate::EngineError;
use crate::context::Stop;

/// Number of rows ranked between two checks for cancellation.
const CHECKED_ROWS: usize = 65_536;

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

/// Rank of each row's value among the distinct values of a column, in automatic order; a missing value counts as an
/// empty text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueRanks {
    /// One rank per row; values that the order does not distinguish have the same rank.
    pub ranks: Vec<u32>,
    /// Whether some different texts have the same rank, as `1` and `1.0` do.
    pub has_ties: bool,
}

impl ValueRanks {
    /// Ranks a column of at most `u32::MAX` rows. Ends early if the search is cancelled, because millions of values
    /// take a second.
    pub fn of(column: &StringViewArray, stop: &Stop) -> Result<ValueRanks, EngineError> {
        let mut numbers: HashMap<&str, u32, FixedState> = HashMap::default();
        let mut values: Vec<SortKey<'_>> = Vec::new();
        let mut ranks: Vec<u32> = Vec::with_capacity(column.len());
        for row in 0..column.len() {
            if row.is_multiple_of(CHECKED_ROWS) {
                stop.check_cancelled()?;
            }
            let text = column.value(row);
            ranks.push(*numbers.entry(text).or_insert_with(|| {
                values.push(sort_key(text));
                u32_of(values.len() - 1)
            }));
        }
        drop(numbers);
        let prefix = common_prefix(&values);
        let mut order: Vec<(u64, u32)> = values.iter().map(|value| value.order_prefix_after(prefix)).zip(0..).collect();
        let by_value = |(one, a): &(u64, u32), (other, b): &(u64, u32)| {
            one.cmp(other).then_with(|| values[*a as usize].cmp(&values[*b as usize]))
        };
        sort_cancellable(&mut order, by_value, || stop.check_cancelled())?;
        let (mut rank_of, mut rank, mut has_ties) = (vec![0; values.len()], 0, false);
        for pair in order.windows(2) {
            let [before, after] = [pair[0].1, pair[1].1].map(|number| number as usize);
            let is_same = values[before] == values[after];
            has_ties |= is_same;
            rank += u32::from(!is_same);
            rank_of[after] = rank;
        }
        ranks.iter_mut().for_each(|number| *number = rank_of[*number as usize]);
        Ok(ValueRanks { ranks, has_ties })
    }
}

/// Bytes with which all texts begin.
fn common_prefix(values: &[SortKey<'_>]) -> usize {
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cancelled_search_ranks_nothing() {
        let (column, stop) = (StringViewArray::from_iter_values(["b", "a"]), Stop::default());
        assert!(ValueRanks::of(&column, &stop).is_ok());
        stop.cancel();
        assert!(ValueRanks::of(&column, &stop).is_err());
    }

    proptest! {
        #[test]
        fn ranks_order_rows_by_value(
            texts in prop::collection::vec(
                prop_oneof!["[01a]{0,3}", "/api/v1/item/[ab0-2]{0,9}", "-?[0-3](\\.[05])?", "10\\.0\\.[0-2]\\.1"],
                0..40,
            ),
        ) {
            let found = ValueRanks::of(&StringViewArray::from_iter_values(&texts), &Stop::default()).unwrap();
            let mut ties = false;
            for (one, a) in texts.iter().zip(&found.ranks) {
                for (other, b) in texts.iter().zip(&found.ranks) {
                    prop_assert_eq!(a.cmp(b), sort_key(one).cmp(&sort_key(other)), "{} {}", one, other);
                    ties |= a == b && one != other;
                }
            }
            prop_assert_eq!(found.has_ties, ties);
        }
    }
}
