//! The query language: conditions on documents.
//!
//! The language has the MongoDB operators that Splunk documents for its KV store, `$gt`, `$gte`, `$lt`, `$lte`, `$ne`,
//! `$and`, `$or` and `$not`, plus `$eq`, `$in`, `$nin`, `$nor`, `$exists` and `$regex` with `$options`. A field with an
//! array matches if one of its elements does; values of different types are neither equal nor ordered; `null` also
//! matches a missing field.

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use crate::CollectionError;
use crate::field_path::FieldPath;
use crate::value_order::{compare, type_rank};

/// Maximum number of conditions of a query; a field, its test and each operator count separately.
const CONDITIONS_MAX: usize = 20_000;
/// Maximum nesting of conditions.
const DEPTH_MAX: usize = 64;
/// Maximum size of a compiled pattern in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// A query; the default matches every document.
#[derive(Clone, Debug, Default)]
pub struct Query(pub(crate) Vec<Condition>);

/// A condition on a document.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    Field(FieldPath, Test),
}

/// A condition on a field.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    Equal(Value),
    Compare(Relation, Value),
    In(Vec<Value>),
    Exists(bool),
    Matches(Regex),
    Not(Box<Test>),
    All(Vec<Test>),
}

/// An order relation between values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Relation {
    fn holds(self, value: &Value, than: &Value) -> bool {
        if type_rank(value) != type_rank(than) {
            return false;
        }
        let order = compare(value, than);
        match self {
            Relation::Greater => order.is_gt(),
            Relation::GreaterOrEqual => order.is_ge(),
            Relation::Less => order.is_lt(),
            Relation::LessOrEqual => order.is_le(),
        }
    }
}

fn invalid(text: impl Into<String>) -> CollectionError {
    CollectionError::invalid(format!("query: {}", text.into()))
}

impl Query {
    /// Parses a query; an empty text matches every document.
    pub fn parse(text: &str) -> Result<Query, CollectionError> {
        if text.trim().is_empty() {
            return Ok(Query::default());
        }
        let value: Value = serde_json::from_str(text).map_err(|error| invalid(format!("is not JSON: {error}")))?;
        Query::from_json(&value)
    }

    /// A query from JSON.
    pub fn from_json(value: &Value) -> Result<Query, CollectionError> {
        let mut reader = QueryParser { conditions: 0 };
        match value {
            Value::Null => Ok(Query::default()),
            Value::Object(members) => reader.conditions(members, 0).map(Query),
            _ => Err(invalid("give a JSON object")),
        }
    }

    /// Whether every document matches.
    pub(crate) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a document matches; its members include key and user.
    pub(crate) fn matches(&self, document: &Map<String, Value>) -> bool {
        self.0.iter().all(|condition| condition.holds(document))
    }
}

impl Condition {
    fn holds(&self, document: &Map<String, Value>) -> bool {
        match self {
            Condition::All(conditions) => conditions.iter().all(|condition| condition.holds(document)),
            Condition::Any(conditions) => conditions.iter().any(|condition| condition.holds(document)),
            Condition::Not(condition) => !condition.holds(document),
            Condition::Field(path, test) => test.holds(&path.values(document)),
        }
    }
}

impl Test {
    fn holds(&self, values: &[&Value]) -> bool {
        match self {
            Test::Equal(wanted) => is_among(values, wanted),
            Test::In(wanted) => wanted.iter().any(|wanted| is_among(values, wanted)),
            Test::Compare(relation, than) => any_of(values, |value| relation.holds(value, than)),
            Test::Exists(is_there) => values.is_empty() != *is_there,
            Test::Matches(pattern) => any_of(values, |value| value.as_str().is_some_and(|text| pattern.is_match(text))),
            Test::Not(test) => !test.holds(values),
            Test::All(tests) => tests.iter().all(|test| test.holds(values)),
        }
    }
}

fn is_among(values: &[&Value], wanted: &Value) -> bool {
    (wanted.is_null() && values.is_empty()) || any_of(values, |value| compare(value, wanted).is_eq())
}

/// Whether one of the values, or an element of a value that is an array, satisfies the predicate.
fn any_of(values: &[&Value], is_wanted: impl Fn(&Value) -> bool) -> bool {
    values
        .iter()
        .any(|value| is_wanted(value) || value.as_array().is_some_and(|elements| elements.iter().any(&is_wanted)))
}

/// Parser that counts conditions.
struct QueryParser {
    conditions: usize,
}

impl QueryParser {
    fn count(&mut self, depth: usize) -> Result<(), CollectionError> {
        self.conditions += 1;
        if self.conditions > CONDITIONS_MAX {
            return Err(invalid(format!("has more than the maximum of {CONDITIONS_MAX} conditions")));
        }
        if depth > DEPTH_MAX {
            return Err(invalid(format!("is nested more than {DEPTH_MAX} deep, the maximum")));
        }
        Ok(())
    }

    fn conditions(&mut self, members: &Map<String, Value>, depth: usize) -> Result<Vec<Condition>, CollectionError> {
        members.iter().map(|(name, value)| self.condition(name, value, depth)).collect()
    }

    fn condition(&mut self, name: &str, value: &Value, depth: usize) -> Result<Condition, CollectionError> {
        self.count(depth)?;
        match name {
            "$and" => self.list(name, value, depth).map(Condition::All),
            "$or" => self.list(name, value, depth).map(Condition::Any),
            "$nor" => self.list(name, value, depth).map(|list| Condition::Not(Box::new(Condition::Any(list)))),
            "$not" => match value {
                Value::Object(members) => {
                    Ok(Condition::Not(Box::new(Condition::All(self.conditions(members, depth + 1)?))))
                }
                _ => Err(invalid("$not expects an object")),
            },
            name if name.starts_with('$') => {
                Err(invalid(format!("{name} is not known: expected $and, $or, $nor or $not")))
            }
            name => {
                let path = FieldPath::new(name).ok_or_else(|| invalid("a name has too many parts between dots"))?;
                Ok(Condition::Field(path, self.test(value, depth)?))
            }
        }
    }

    fn list(&mut self, name: &str, value: &Value, depth: usize) -> Result<Vec<Condition>, CollectionError> {
        let list = value.as_array().filter(|list| !list.is_empty());
        let list = list.ok_or_else(|| invalid(format!("{name} expects a list that is not empty")))?;
        let one = |condition: &Value| match condition {
            Value::Object(members) => Ok(Condition::All(self.conditions(members, depth + 1)?)),
            _ => Err(invalid(format!("{name} expects a list of objects"))),
        };
        list.iter().map(one).collect()
    }

    fn test(&mut self, value: &Value, depth: usize) -> Result<Test, CollectionError> {
        self.count(depth)?;
        let operators = value.as_object().filter(|members| members.keys().any(|name| name.starts_with('$')));
        let Some(operators) = operators else { return Ok(Test::Equal(value.clone())) };
        let mut tests = Vec::with_capacity(operators.len());
        for (name, value) in operators {
            if name == "$options" && operators.contains_key("$regex") {
                continue;
            }
            tests.push(self.operator(name, value, operators, depth)?);
        }
        Ok(if tests.len() == 1 { tests.swap_remove(0) } else { Test::All(tests) })
    }

    fn operator(
        &mut self,
        name: &str,
        value: &Value,
        beside: &Map<String, Value>,
        depth: usize,
    ) -> Result<Test, CollectionError> {
        self.count(depth)?;
        let values = || {
            let list = value.as_array().cloned();
            list.ok_or_else(|| invalid(format!("{name} expects a list of values")))
        };
        Ok(match name {
            "$eq" => Test::Equal(value.clone()),
            "$ne" => Test::Not(Box::new(Test::Equal(value.clone()))),
            "$gt" => Test::Compare(Relation::Greater, value.clone()),
            "$gte" => Test::Compare(Relation::GreaterOrEqual, value.clone()),
            "$lt" => Test::Compare(Relation::Less, value.clone()),
            "$lte" => Test::Compare(Relation::LessOrEqual, value.clone()),
            "$in" => Test::In(values()?),
            "$nin" => Test::Not(Box::new(Test::In(values()?))),
            "$exists" => Test::Exists(value.as_bool().unwrap_or_else(|| value.as_f64() != Some(0.0))),
            "$regex" => Test::Matches(pattern(value, beside.get("$options"))?),
            "$not" => match value {
                Value::Object(_) => Test::Not(Box::new(self.test(value, depth + 1)?)),
                _ => return Err(invalid("$not expects an object with operators")),
            },
            other => {
                let known = "$eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $exists, $regex, $not";
                return Err(invalid(format!("{other} is not known: the operators of a field are {known}")));
            }
        })
    }
}

fn pattern(pattern: &Value, options: Option<&Value>) -> Result<Regex, CollectionError> {
    let text = pattern.as_str().ok_or_else(|| invalid("$regex takes a text"))?;
    let options = options.map_or(Some(""), Value::as_str).ok_or_else(|| invalid("$options takes a text"))?;
    let mut builder = RegexBuilder::new(text);
    builder.size_limit(PATTERN_BYTES_MAX);
    for option in options.chars() {
        match option {
            'i' => builder.case_insensitive(true),
            'm' => builder.multi_line(true),
            's' => builder.dot_matches_new_line(true),
            'x' => builder.ignore_whitespace(true),
            other => return Err(invalid(format!("$options: {other} is not known: give i, m, s or x"))),
        };
    }
    builder.build().map_err(|error| invalid(format!("$regex: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fits(query: &Value, document: &Value) -> bool {
        Query::from_json(query).unwrap().matches(document.as_object().unwrap())
    }

    #[test]
    fn documents_match_as_in_mongodb() {
        let document = json!({"n": 10, "t": "ten", "b": true, "tags": ["x", "y"], "at": {"city": "Ulm", "zip": null},
            "parts": [{"id": 1}, {"id": 2}], "z": null});
        let yes = [
            json!({}),
            json!({"n": 10}),
            json!({"n": 10.0, "t": "ten"}),
            json!({"n": {"$gt": 9, "$lt": 11}}),
            json!({"n": {"$gte": 10, "$lte": 10}}),
            json!({"n": {"$ne": 11}}),
            json!({"none": {"$ne": 11}}),
            json!({"none": null}),
            json!({"z": null, "at.zip": null}),
            json!({"tags": "x"}),
            json!({"tags": ["x", "y"]}),
            json!({"at.city": "Ulm"}),
            json!({"at": {"city": "Ulm", "zip": null}}),
            json!({"parts.id": 2}),
            json!({"parts.0.id": 1}),
            json!({"$or": [{"n": 1}, {"t": "ten"}]}),
            json!({"$and": [{"n": 10}, {"$or": [{"b": true}, {"b": false}]}]}),
            json!({"$not": {"n": 1}}),
            json!({"$nor": [{"n": 1}, {"t": "one"}]}),
            json!({"n": {"$not": {"$gt": 10}}}),
            json!({"n": {"$in": [1, 10]}, "t": {"$nin": ["one"]}}),
            json!({"t": {"$regex": "^T", "$options": "i"}}),
            json!({"z": {"$exists": true}, "none": {"$exists": false}}),
        ];
        for query in &yes {
            assert!(fits(query, &document), "{query}");
            assert!(!fits(&json!({"$not": query}), &document), "{query}");
        }
        let no = [
            json!({"n": "10"}),
            json!({"n": {"$gt": "1"}}),
            json!({"t": {"$gt": 1}}),
            json!({"tags": {"$ne": "x"}}),
            json!({"at.city": "ulm"}),
            json!({"at": {"city": "Ulm"}}),
            json!({"b": 1}),
            json!({"t": null}),
            json!({"t": {"$regex": "^T"}}),
        ];
        for query in &no {
            assert!(!fits(query, &document), "{query}");
        }
    }

    #[test]
    fn malformed_queries_are_errors() {
        for text in [
            "nonsense",
            "[]",
            "1",
            "{\"$where\": 1}",
            "{\"a\": {\"$size\": 1}}",
            "{\"$or\": {}}",
            "{\"$or\": []}",
            "{\"$and\": [1]}",
            "{\"$not\": 1}",
            "{\"a\": {\"$not\": 1}}",
            "{\"a\": {\"$in\": 1}}",
            "{\"a\": {\"$regex\": \"(\"}}",
            "{\"a\": {\"$regex\": 1}}",
            "{\"a\": {\"$regex\": \"a\", \"$options\": \"q\"}}",
            "{\"a\": {\"$gt\": 1, \"b\": 2}}",
            "{\"a\": {\"$regex\": \"(a{1000}){1000}\"}}",
        ] {
            assert!(matches!(Query::parse(text), Err(CollectionError::Invalid(_))), "{text}");
        }
        let deep = format!("{}{}{}", "{\"$and\":[".repeat(60), "{\"a\":1}", "]}".repeat(60));
        assert!(Query::parse(&deep).is_ok());
        let deeper = format!("{}{}{}", "{\"$and\":[".repeat(70), "{\"a\":1}", "]}".repeat(70));
        assert!(Query::parse(&deeper).is_err());
        assert!(Query::parse(&format!("{}1{}", "{\"a\":".repeat(1_000), "}".repeat(1_000))).is_err());
        let many = vec![json!({"a": 1}); 20_000];
        assert!(Query::from_json(&json!({"$or": many})).is_err());
    }
}
