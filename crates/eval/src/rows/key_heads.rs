//! Numbers that order most sort keys without reading the keys.
//!
//! Encoded keys have long parts in which few of them differ: the class of a value, an absent number before a text, the
//! zeros at the end of a number. The *head* of a key therefore consists only of bytes in which keys differ: the first
//! such byte and, of the keys that are equal there, the next seven. If the heads of two keys differ, they order the
//! keys; otherwise the keys must be compared.

use arrow::row::Rows;

/// Number of bytes of a head after the first.
const TAIL_BYTES: usize = 7;
/// Number of bytes after the first difference that are searched for further differences.
const EXAMINED_BYTES: usize = u64::BITS as usize;

/// The positions of the bytes that form the heads of keys.
pub(super) struct KeyHeads {
    /// Number of bytes with which all keys begin.
    prefix: usize,
    /// For each byte that follows the prefix: ascending positions of the next bytes in which keys with this byte differ.
    tails: Vec<Vec<usize>>,
}

/// The keys that have the same byte after the prefix of all keys.
#[derive(Clone)]
struct HeadGroup {
    /// Number of the first key; `None` if there are no keys.
    first: Option<usize>,
    /// Bit n is set if keys differ in byte n after the one that they share.
    differences: u64,
    /// Number of bytes that are still examined: up to the last of those that form the tail.
    examined: usize,
}

impl KeyHeads {
    pub(super) fn of(keys: &Rows) -> KeyHeads {
        let prefix = common_prefix(keys);
        let mut groups = vec![HeadGroup { first: None, differences: 0, examined: EXAMINED_BYTES }; 256];
        for (at, key) in keys.iter().enumerate() {
            let key = key.as_ref();
            let group = &mut groups[usize::from(byte(key, prefix))];
            let first = *group.first.get_or_insert(at);
            group.add_differences(keys.row(first).as_ref(), key, prefix + 1);
        }
        KeyHeads { prefix, tails: groups.iter().map(|group| group.tail(prefix + 1)).collect() }
    }

    /// The head of a key as a number.
    #[inline]
    pub(super) fn head(&self, key: &[u8]) -> u64 {
        let first = byte(key, self.prefix);
        let tail = &self.tails[usize::from(first)];
        let head = tail.iter().fold(u64::from(first), |head, at| head << 8 | u64::from(byte(key, *at)));
        head << (8 * (TAIL_BYTES - tail.len()))
    }
}

impl HeadGroup {
    /// Adds the positions from `start` at which two keys of the group differ.
    #[inline]
    fn add_differences(&mut self, one: &[u8], other: &[u8], start: usize) {
        let mut differences = self.differences;
        for at in start..one.len().max(other.len()).min(start + self.examined) {
            differences |= u64::from(one.get(at) != other.get(at)) << (at - start);
        }
        if differences != self.differences {
            self.differences = differences;
            self.examined = self.tail(0).get(TAIL_BYTES - 1).map_or(EXAMINED_BYTES, |last| last + 1);
        }
    }

    /// The positions of the first differences, given the position of the first byte that was examined.
    fn tail(&self, start: usize) -> Vec<usize> {
        let differs = |at: &usize| self.differences >> at & 1 == 1;
        (0..EXAMINED_BYTES).filter(differs).take(TAIL_BYTES).map(|at| start + at).collect()
    }
}

/// A byte of a key; 0 after its end, because a key that another key begins with is less.
#[inline]
fn byte(key: &[u8], at: usize) -> u8 {
    key.get(at).copied().unwrap_or(0)
}

/// Number of bytes with which all keys begin.
fn common_prefix(keys: &Rows) -> usize {
    let mut keys = keys.iter();
    let Some(first) = keys.next() else { return 0 };
    let first = first.as_ref();
    keys.fold(first.len(), |length, key| {
        let alike = first[..length].iter().zip(key.as_ref()).take_while(|(one, other)| one == other);
        alike.count()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float64Array, Int64Array, StringViewArray};
    use arrow::compute::SortOptions;
    use arrow::datatypes::DataType;
    use arrow::row::{RowConverter, SortField};
    use proptest::prelude::*;

    use super::*;

    /// Keys as `sort` makes them: class, number or text, and order of arrival.
    fn keys(values: &[Result<f64, String>], descending: bool) -> Rows {
        let class = values.iter().map(|value| if value.is_ok() { 1 } else { 3 });
        let columns: [ArrayRef; 4] = [
            Arc::new(Int64Array::from_iter_values(class)),
            Arc::new(values.iter().map(|value| value.as_ref().ok().copied()).collect::<Float64Array>()),
            Arc::new(values.iter().map(|value| value.as_ref().err()).collect::<StringViewArray>()),
            Arc::new(Int64Array::from_iter_values(0..values.len() as i64)),
        ];
        let kinds = [DataType::Int64, DataType::Float64, DataType::Utf8View, DataType::Int64];
        let options = [false, descending, descending, false];
        let options = options.map(|descending| SortOptions { descending, nulls_first: false });
        let fields = kinds.into_iter().zip(options).map(|(kind, options)| SortField::new_with_options(kind, options));
        RowConverter::new(fields.collect()).unwrap().convert_columns(&columns).unwrap()
    }

    fn heads(keys: &Rows) -> Vec<u64> {
        let heads = KeyHeads::of(keys);
        keys.iter().map(|key| heads.head(key.as_ref())).collect()
    }

    fn distinct(values: &[Result<f64, String>], descending: bool) -> usize {
        heads(&keys(values, descending)).into_iter().collect::<BTreeSet<u64>>().len()
    }

    #[test]
    fn heads_distinguish_keys_that_have_long_parts_in_common() {
        // Identifiers, of which a few are numbers.
        let ids: Vec<_> = (0..5_000_u64)
            .map(|at| match at % 97 {
                0 => Ok(at as f64),
                _ => Err(format!("{:016x}", at.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
            })
            .collect();
        assert_eq!(distinct(&ids, false), ids.len());
        // With few distinct numbers, equal numbers keep their order of arrival.
        let numbers: Vec<_> = (0..5_000).map(|at| Ok(f64::from(at * 31 % 257))).collect();
        assert_eq!(distinct(&numbers, true), numbers.len());
        assert_eq!((distinct(&[], false), distinct(&[Err("a".into())], false)), (0, 1));
    }

    proptest! {
        #[test]
        fn different_heads_have_the_order_of_the_keys(
            values in prop::collection::vec(
                prop_oneof![
                    (-3..3_i8).prop_map(|number| Ok(f64::from(number) / 2.0)),
                    "[ab\u{0}\u{e9}]{0,4}".prop_map(Err),
                    "/a/long/common/beginning/of/paths/that/is/longer/than/one/block/[ab]{0,40}".prop_map(Err),
                ],
                0..30,
            ),
            descending: bool,
        ) {
            let keys = keys(&values, descending);
            let heads = heads(&keys);
            for one in 0..heads.len() {
                for other in 0..heads.len() {
                    if keys.row(one) < keys.row(other) {
                        prop_assert!(heads[one] <= heads[other], "{:?} and {:?}", values[one], values[other]);
                    }
                }
            }
        }
    }
}
