//! Dotted field names, which address members of nested objects: `address.city`, `tags.0`.
//!
//! A path through an array continues in each of its objects, as in MongoDB. A member whose own name contains dots is
//! found, too.

use serde_json::{Map, Value};

/// Maximum number of parts of a name.
const PARTS_MAX: usize = 64;

/// A parsed field name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldPath {
    name: String,
    parts: Vec<String>,
}

impl FieldPath {
    /// Parses a name; `None` if it has too many parts.
    pub(crate) fn new(name: &str) -> Option<FieldPath> {
        let parts: Vec<String> = name.split('.').map(str::to_owned).collect();
        (parts.len() <= PARTS_MAX).then(|| FieldPath { name: name.to_owned(), parts })
    }

    /// The whole name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The values of an object's field: none if missing, several through an array.
    pub(crate) fn values<'v>(&self, object: &'v Map<String, Value>) -> Vec<&'v Value> {
        if let Some(value) = object.get(&self.name) {
            return vec![value];
        }
        let mut found = Vec::new();
        if let [first, rest @ ..] = self.parts.as_slice()
            && !rest.is_empty()
            && let Some(value) = object.get(first)
        {
            descend(value, rest, &mut found);
        }
        found
    }

    /// The slot of the value, created if missing; `None` if a part of the path is not an object.
    pub(crate) fn slot<'v>(&self, object: &'v mut Map<String, Value>) -> Option<&'v mut Value> {
        let (last, way) = self.parts.split_last()?;
        let mut object = object;
        for part in way {
            object = object.entry(part.clone()).or_insert_with(|| Value::Object(Map::new())).as_object_mut()?;
        }
        Some(object.entry(last.clone()).or_insert(Value::Null))
    }

    /// The object that has the field, if the field exists.
    pub(crate) fn holder<'v>(&self, object: &'v mut Map<String, Value>) -> Option<(&'v mut Map<String, Value>, &str)> {
        if object.contains_key(&self.name) {
            return Some((object, &self.name));
        }
        let (last, way) = self.parts.split_last()?;
        let mut object = object;
        for part in way {
            object = object.get_mut(part)?.as_object_mut()?;
        }
        object.contains_key(last).then_some((object, last.as_str()))
    }
}

/// The value of an object's field; the first value if the path leads through an array.
pub fn member<'v>(object: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    if let Some(value) = object.get(name) {
        return Some(value);
    }
    // Most names have no dots.
    if !name.contains('.') {
        return None;
    }
    FieldPath::new(name)?.values(object).into_iter().next()
}

/// Sets an object's field. A name with dots sets a member of a nested object, unless a part of the path is not an
/// object.
pub fn set_member(object: &mut Map<String, Value>, name: &str, value: Value) {
    let path = FieldPath::new(name).filter(|path| path.parts.iter().all(|part| !part.is_empty()));
    match path.as_ref().and_then(|path| path.slot(object)) {
        Some(slot) => *slot = value,
        None => drop(object.insert(name.to_owned(), value)),
    }
}

fn descend<'v>(value: &'v Value, parts: &[String], found: &mut Vec<&'v Value>) {
    let [part, rest @ ..] = parts else {
        found.push(value);
        return;
    };
    match value {
        Value::Object(object) => {
            if let Some(value) = object.get(part) {
                descend(value, rest, found);
            }
        }
        Value::Array(elements) => {
            if let Some(element) = part.parse::<usize>().ok().and_then(|at| elements.get(at)) {
                descend(element, rest, found);
            }
            for element in elements.iter().filter(|element| element.is_object()) {
                descend(element, parts, found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_descend_into_objects_and_arrays() {
        let object = json!({"a": {"b": 1, "c": [{"d": 2}, {"d": 3}, 4]}, "x.y": 5, "l": [7, 8]});
        let object = object.as_object().unwrap();
        let values = |name: &str| FieldPath::new(name).unwrap().values(object).into_iter().cloned().collect::<Vec<_>>();
        assert_eq!(values("a.b"), [json!(1)]);
        assert_eq!(values("a.c.d"), [json!(2), json!(3)]);
        assert_eq!((values("x.y"), values("l.1")), (vec![json!(5)], vec![json!(8)]));
        assert_eq!((values("a.z"), values("z"), values("a.b.c")), (vec![], vec![], vec![]));
        let mut made = Map::new();
        *FieldPath::new("p.q").unwrap().slot(&mut made).unwrap() = json!(1);
        assert_eq!(Value::Object(made.clone()), json!({"p": {"q": 1}}));
        assert!(FieldPath::new("p.q.r").unwrap().slot(&mut made).is_none());
        assert!(FieldPath::new(&"a.".repeat(100)).is_none());
        for (name, value) in [("p.q", 2), ("p.q.r", 3), ("x", 4), ("..", 5)] {
            set_member(&mut made, name, json!(value));
        }
        assert_eq!(Value::Object(made.clone()), json!({"p": {"q": 2}, "p.q.r": 3, "x": 4, "..": 5}));
        assert_eq!(
            (member(&made, "p.q"), member(&made, "p.q.r"), member(&made, "y")),
            (Some(&json!(2)), Some(&json!(3)), None)
        );
    }
}
