//! Projections: the members of a document to return, as in `fields=a,b.c` or `fields=a:0,_key:0`.

use serde_json::{Map, Value};

use crate::CollectionError;
use crate::field_path::FieldPath;
use crate::{KEY, USER};

/// Maximum number of fields of a projection.
const FIELDS_MAX: usize = 1_000;
/// Alias of the key.
const ID: &str = "_id";

/// The members to return; the default is all members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projection {
    included: Vec<FieldPath>,
    excluded: Vec<FieldPath>,
    hides_key: bool,
}

impl Projection {
    /// Parses `a,b:1,_key:0`.
    pub fn parse(text: &str) -> Result<Projection, CollectionError> {
        let fields = text.split(',').map(str::trim).filter(|field| !field.is_empty());
        Projection::of(fields.map(|field| match field.rsplit_once(':') {
            Some((name, "0")) => (name.trim(), false),
            Some((name, "1")) => (name.trim(), true),
            _ => (field, true),
        }))
    }

    /// Parses the projection of a `batch_find` query: a text, a list of names, or an object.
    pub fn from_json(value: &Value) -> Result<Projection, CollectionError> {
        let wrong = || CollectionError::invalid("fields: give names, as \"a,b\", [\"a\", \"b\"] or {\"a\": 1}");
        match value {
            Value::Null => Ok(Projection::default()),
            Value::String(text) => Projection::parse(text),
            Value::Array(names) => {
                let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
                Projection::parse(&names.ok_or_else(wrong)?.join(","))
            }
            Value::Object(members) => Projection::of(members.iter().map(|(name, value)| {
                let is_out = value.as_f64() == Some(0.0) || value.as_bool() == Some(false);
                (name.as_str(), !is_out)
            })),
            Value::Bool(_) | Value::Number(_) => Err(wrong()),
        }
    }

    fn of<'f>(fields: impl Iterator<Item = (&'f str, bool)>) -> Result<Projection, CollectionError> {
        let mut projection = Projection::default();
        for (name, is_in) in fields {
            if matches!(name, KEY | ID) && !is_in {
                projection.hides_key = true;
                continue;
            }
            let path = FieldPath::new(name)
                .ok_or_else(|| CollectionError::invalid("fields: a name has too many parts between dots"))?;
            let list = if is_in { &mut projection.included } else { &mut projection.excluded };
            list.push(path);
        }
        if !projection.included.is_empty() && !projection.excluded.is_empty() {
            let text = "fields: give fields to include or fields to exclude, not both (except to exclude only _key)";
            return Err(CollectionError::invalid(text));
        }
        if projection.included.len() + projection.excluded.len() > FIELDS_MAX {
            return Err(CollectionError::invalid(format!("fields: more than the maximum of {FIELDS_MAX}")));
        }
        Ok(projection)
    }

    /// Whether documents are returned unchanged.
    pub(crate) fn is_all(&self) -> bool {
        *self == Projection::default()
    }

    /// Applies the projection to a document whose members include key and user.
    pub(crate) fn apply(&self, mut document: Map<String, Value>) -> Map<String, Value> {
        if !self.included.is_empty() {
            let mut kept = Map::new();
            for path in &self.included {
                include(path, &document, &mut kept);
            }
            if let Some(key) = document.remove(KEY).filter(|_| !self.hides_key) {
                kept.insert(KEY.to_owned(), key);
            }
            return kept;
        }
        for path in &self.excluded {
            if let Some((object, name)) = path.holder(&mut document) {
                object.remove(name);
            }
        }
        if self.hides_key {
            document.remove(KEY);
        }
        if self.excluded.iter().any(|path| path.name() == USER) {
            document.remove(USER);
        }
        document
    }
}

fn include(path: &FieldPath, document: &Map<String, Value>, kept: &mut Map<String, Value>) {
    if let Some(value) = document.get(path.name()) {
        kept.insert(path.name().to_owned(), value.clone());
        return;
    }
    let values = path.values(document);
    let value = match values.as_slice() {
        [] => return,
        [one] => (*one).clone(),
        several => Value::Array(several.iter().map(|value| (*value).clone()).collect()),
    };
    if let Some(slot) = path.slot(kept) {
        *slot = value;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_included_or_excluded() {
        let of = |text: &str| {
            let document = json!({"_key": "k", "_user": "nobody", "a": 1, "b": {"c": 2, "d": 3}});
            let Value::Object(document) = document else { panic!() };
            Value::Object(Projection::parse(text).unwrap().apply(document))
        };
        assert_eq!(of("a"), json!({"_key": "k", "a": 1}));
        assert_eq!(of("a,_id:0"), json!({"a": 1}));
        assert_eq!(of("b.c:1, z,_key:0"), json!({"b": {"c": 2}}));
        assert_eq!(of("b.c:0,a:0"), json!({"_key": "k", "_user": "nobody", "b": {"d": 3}}));
        assert_eq!(of("_key:0,_user:0"), json!({"a": 1, "b": {"c": 2, "d": 3}}));
        assert!(Projection::parse("").unwrap().is_all());
        assert!(Projection::parse("a:1,b:0").is_err());
        assert_eq!(Projection::from_json(&json!({"a": 1, "_key": 0})), Projection::parse("_key:0,a"));
        assert_eq!(Projection::from_json(&json!(["a", "b"])), Projection::parse("a,b"));
        assert!(Projection::from_json(&json!(1)).is_err() && Projection::from_json(&json!([1])).is_err());
    }

    #[test]
    fn a_projection_that_is_all_is_the_default() {
        assert_eq!(Projection::from_json(&Value::Null), Ok(Projection::default()));
        assert!(!Projection::parse("_key:0").unwrap().is_all());
    }
}
