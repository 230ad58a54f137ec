//! The order of JSON values, as in MongoDB: first by type (null, numbers, texts, objects, arrays, true and false), then
//! by value.

use std::cmp::Ordering;

use serde_json::{Number, Value};

pub(crate) fn type_rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Number(_) => 1,
        Value::String(_) => 2,
        Value::Object(_) => 3,
        Value::Array(_) => 4,
        Value::Bool(_) => 5,
    }
}

/// Compares two values.
pub(crate) fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let first = left.iter().zip(right).map(|(left, right)| compare(left, right)).find(|order| order.is_ne());
            first.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let first = left
                .iter()
                .zip(right)
                .map(|((name, left), (other, right))| name.cmp(other).then_with(|| compare(left, right)))
                .find(|order| order.is_ne());
            first.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        _ => type_rank(left).cmp(&type_rank(right)),
    }
}

fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    let whole = |number: &Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => {
            let (left, right) = (left.as_f64().unwrap_or_default(), right.as_f64().unwrap_or_default());
            left.partial_cmp(&right).unwrap_or(Ordering::Equal)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_ordered_by_type_first() {
        let sorted = [
            json!(null),
            json!(-1.5),
            json!(2),
            json!(10),
            json!(u64::MAX),
            json!(""),
            json!("10"),
            json!("2"),
            json!("a"),
            json!({"a": 1}),
            json!({"a": 2}),
            json!({"a": 2, "b": 0}),
            json!([]),
            json!([1]),
            json!([1, 2]),
            json!(false),
            json!(true),
        ];
        for (at, left) in sorted.iter().enumerate() {
            for (other, right) in sorted.iter().enumerate() {
                assert_eq!(compare(left, right), at.cmp(&other), "{left} {right}");
            }
        }
        assert_eq!(compare(&json!(1), &json!(1.0)), Ordering::Equal);
    }
}
