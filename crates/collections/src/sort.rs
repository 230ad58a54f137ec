//! Sort orders (`sort=a:1,b:-1`), and selecting the first few of many documents.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use serde_json::Value;

use crate::document::Object;
use crate::field_path::FieldPath;
use crate::value_order::compare;
use crate::{CollectionError, Pairs};

/// Maximum number of fields of an order.
const FIELDS_MAX: usize = 32;
/// Memory limit of sorting without an acceleration, in bytes.
const SORT_BYTES_MAX: usize = 64 << 20;
/// Approximate memory of a value besides its text, in bytes.
const VALUE_BYTES: usize = 48;

/// A sort order; the default is the order in which documents were first written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sort(pub(crate) Vec<SortField>);

/// A field of a sort order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SortField {
    pub(crate) path: FieldPath,
    pub(crate) is_descending: bool,
}

impl Sort {
    /// Parses `a,b:-1,c:1`.
    pub fn parse(text: &str) -> Result<Sort, CollectionError> {
        let fields = text.split(',').map(str::trim).filter(|field| !field.is_empty());
        Sort::of(fields.map(|field| match field.rsplit_once(':') {
            Some((name, direction)) => (name.trim().to_owned(), direction.trim().to_owned()),
            None => (field.to_owned(), "1".to_owned()),
        }))
    }

    /// A sort order from a JSON object, `{"a": 1, "b": -1}`.
    pub fn from_pairs(pairs: Pairs) -> Result<Sort, CollectionError> {
        Sort::of(pairs.0.into_iter().map(|(name, direction)| (name, direction.to_string())))
    }

    fn of(fields: impl Iterator<Item = (String, String)>) -> Result<Sort, CollectionError> {
        let mut sort = Vec::new();
        for (name, direction) in fields {
            let is_descending = match direction.as_str() {
                "1" | "1.0" => false,
                "-1" | "-1.0" => true,
                _ => return Err(CollectionError::invalid(format!("sort: {name:.80} takes 1 or -1"))),
            };
            let path = FieldPath::new(&name)
                .ok_or_else(|| CollectionError::invalid("sort: a name has too many parts between dots"))?;
            sort.push(SortField { path, is_descending });
        }
        if sort.len() > FIELDS_MAX {
            return Err(CollectionError::invalid(format!("sort: more than the maximum of {FIELDS_MAX} fields")));
        }
        Ok(Sort(sort))
    }

    pub(crate) fn is_unsorted(&self) -> bool {
        self.0.is_empty()
    }

    /// Sort key of a document: for an array its smallest element, or its greatest when descending.
    fn sort_key(&self, document: &Object) -> Vec<Value> {
        let of = |field: &SortField| {
            let values = field.path.values(document);
            let elements = values.iter().flat_map(|value| match value {
                Value::Array(elements) => elements.iter().collect::<Vec<_>>(),
                value => vec![*value],
            });
            let order = |left: &&Value, right: &&Value| compare(left, right);
            let chosen = if field.is_descending { elements.max_by(order) } else { elements.min_by(order) };
            chosen.cloned().unwrap_or_default()
        };
        self.0.iter().map(of).collect()
    }
}

/// Top-k: the row ids of the first documents in an order, at most `rows_max`.
pub(crate) struct TopK<'s> {
    sort: &'s Sort,
    rows_max: usize,
    heap: BinaryHeap<Ranked<'s>>,
    bytes: usize,
}

struct Ranked<'s> {
    sort: &'s Sort,
    key: Vec<Value>,
    bytes: usize,
    row_id: i64,
}

impl Ord for Ranked<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let directed = |((left, right), field): ((&Value, &Value), &SortField)| {
            let order = compare(left, right);
            if field.is_descending { order.reverse() } else { order }
        };
        let pairs = self.key.iter().zip(&other.key).zip(&self.sort.0);
        pairs.map(directed).find(|order| order.is_ne()).unwrap_or_else(|| self.row_id.cmp(&other.row_id))
    }
}

impl PartialOrd for Ranked<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked<'_> {}

impl<'s> TopK<'s> {
    pub(crate) fn new(sort: &'s Sort, most: usize) -> TopK<'s> {
        TopK { sort, rows_max: most, heap: BinaryHeap::new(), bytes: 0 }
    }

    /// Adds a document.
    pub(crate) fn add(&mut self, row_id: i64, document: &Object) -> Result<(), CollectionError> {
        let key = self.sort.sort_key(document);
        let bytes = key.iter().map(|value| VALUE_BYTES + value.as_str().map_or(0, str::len)).sum();
        let ranked = Ranked { sort: self.sort, key, bytes, row_id };
        if self.heap.len() >= self.rows_max {
            match self.heap.peek() {
                Some(last) if ranked < *last => {}
                _ => return Ok(()),
            }
            self.bytes -= self.heap.pop().map_or(0, |last| last.bytes);
        }
        self.bytes += ranked.bytes;
        self.heap.push(ranked);
        if self.bytes > SORT_BYTES_MAX {
            return Err(CollectionError::invalid(format!(
                "sort: needs more than {SORT_BYTES_MAX} bytes; accelerate the fields, or request fewer documents"
            )));
        }
        Ok(())
    }

    /// The row ids in order.
    pub(crate) fn into_row_ids(self) -> Vec<i64> {
        self.heap.into_sorted_vec().into_iter().map(|ranked| ranked.row_id).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn top_k_returns_the_first_rows_in_order() {
        let documents =
            [json!({"a": 2}), json!({"a": 1}), json!({"a": "x"}), json!({}), json!({"a": [0, 9]}), json!({"a": 1})];
        let sorted = |sort: &str, most: usize| {
            let sort = Sort::parse(sort).unwrap();
            let mut few = TopK::new(&sort, most);
            for (row_id, document) in (0i64..).zip(&documents) {
                few.add(row_id, document.as_object().unwrap()).unwrap();
            }
            few.into_row_ids()
        };
        assert_eq!(sorted("a", 9), [3, 4, 1, 5, 0, 2]);
        assert_eq!(sorted("a:-1", 3), [2, 4, 0]);
        assert_eq!(sorted("b,a:1", 2), [3, 4]);
        assert_eq!(sorted("a", 0), [0i64; 0]);
    }

    #[test]
    fn sort_orders_are_parsed() {
        assert_eq!(Sort::from_pairs(Pairs::parse("{\"b\": -1, \"a\": 1}").unwrap()), Sort::parse("b:-1, a"));
        for wrong in ["a:2", "a:x", "a:"] {
            assert!(Sort::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Sort::parse("").unwrap().is_unsorted());
    }
}
