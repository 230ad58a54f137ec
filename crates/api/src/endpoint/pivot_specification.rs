//! A pivot as clients describe it (`pivot_json`), as the `pivot` command, and as a `tstats` search.
//!
//! A specification names an object of a data model, cells (aggregates), row and column splits, and filters. Source:
//! Splunk's REST API Reference Manual, "datamodel/pivot", and its public SDKs.
//!
//! Not here: the meaning of the command (`quarry_spl`).

use serde_json::Value;

use crate::message::ApiError;

/// Maximum number of cells, of splits, and of filters; a specification with more is refused.
const PARTS_MAX: usize = 100;
/// Functions of cells: the client's name and the name in `stats`.
const FUNCTIONS: [(&str, &str); 13] = [
    ("average", "avg"),
    ("count", "count"),
    ("dc", "dc"),
    ("duration", "range"),
    ("earliest", "earliest"),
    ("first", "first"),
    ("last", "last"),
    ("latest", "latest"),
    ("list", "list"),
    ("max", "max"),
    ("min", "min"),
    ("stdev", "stdev"),
    ("values", "values"),
];
/// Further functions, whose names for clients and in `stats` are the same.
const SAME_NAMED_FUNCTIONS: [&str; 3] = ["avg", "sum", "median"];
/// Values of boolean fields that count as true, and as false.
const TRUE: &str = "(\"true\", \"1\", \"t\")";
const FALSE: &str = "(\"false\", \"0\", \"f\")";
/// Error for a specification without cells and rows; clients know this text.
const EMPTY: &str = "In handler 'datamodelpivot': Error in 'PivotReport': Must have non-empty cells or non-empty rows.";

#[derive(Debug)]
pub(super) struct PivotSpecification {
    model: String,
    object: String,
    cells: Vec<Cell>,
    rows: Vec<Split>,
    column: Option<Split>,
    filters: Vec<Filter>,
}

#[derive(Debug)]
struct Cell {
    function: &'static str,
    /// `None` counts the object's events.
    field: Option<Field>,
    label: String,
}

/// A field, and whether it is defined by the object or is a field of every event.
#[derive(Clone, Debug)]
struct Field {
    name: String,
    is_of_object: bool,
}

#[derive(Debug)]
struct Split {
    field: Field,
    label: Option<String>,
    period: Option<String>,
    /// Width of the ranges into which numbers are grouped.
    size: Option<f64>,
    truth: (Option<String>, Option<String>),
}

#[derive(Debug)]
enum Filter {
    /// Arguments of `FILTER` after the field, and the same condition as search terms with `{}` for the field, if search
    /// terms can express it.
    Rule { field: Field, text: String, condition: Option<String> },
    /// Arguments of `LIMIT`.
    Limit(String),
}

fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn invalid_specification(what: &str) -> ApiError {
    ApiError::bad_request(format!("In handler 'datamodelpivot': pivot_json: {what}"))
}

fn text<'j>(json: &'j Value, key: &str) -> Option<&'j str> {
    json[key].as_str().filter(|text| !text.is_empty())
}

fn parts<'j>(json: &'j Value, key: &str) -> Result<&'j [Value], ApiError> {
    let list = json[key].as_array().map(Vec::as_slice).unwrap_or_default();
    if list.len() > PARTS_MAX {
        return Err(invalid_specification(&format!("{key} has {} elements, more than {PARTS_MAX}", list.len())));
    }
    Ok(list)
}

/// A number, which older clients write as text.
fn number(json: &Value) -> Option<f64> {
    json.as_f64().or_else(|| json.as_str()?.trim().parse().ok()).filter(|number| number.is_finite())
}

impl Field {
    fn of(json: &Value) -> Result<Field, ApiError> {
        Field::named(text(json, "fieldName"), text(json, "owner"))
    }

    fn named(name: Option<&str>, owner: Option<&str>) -> Result<Field, ApiError> {
        let name = name.ok_or_else(|| invalid_specification("a field has no fieldName"))?;
        if name.chars().any(char::is_control) {
            return Err(invalid_specification(&format!("{} is not a field name", name.escape_debug())));
        }
        let is_of_object = owner.is_none_or(|owner| !owner.starts_with("Base"));
        Ok(Field { name: name.to_owned(), is_of_object: is_of_object && !name.starts_with('_') })
    }

    fn is_true_or_false(json: &Value) -> bool {
        text(json, "type") == Some("boolean")
    }

    /// The field's name in `tstats`.
    fn full_name(&self, object: &str) -> String {
        if self.is_of_object { quote(&format!("{object}.{}", self.name)) } else { quote(&self.name) }
    }
}

impl PivotSpecification {
    /// Reads a specification for a model.
    pub(super) fn from_json(model: &str, given: &str) -> Result<PivotSpecification, ApiError> {
        let json: Value =
            serde_json::from_str(given).map_err(|error| invalid_specification(&format!("it is not JSON: {error}")))?;
        if let Some(other) = text(&json, "dataModel").filter(|other| *other != model) {
            return Err(invalid_specification(&format!("it is for the data model {other}, not for {model}")));
        }
        let object =
            text(&json, "baseClass").ok_or_else(|| invalid_specification("baseClass names no object"))?.to_owned();
        let cells = parts(&json, "cells")?.iter().map(|cell| Cell::of(cell, &object)).collect::<Result<Vec<_>, _>>()?;
        let rows = parts(&json, "rows")?.iter().map(Split::of).collect::<Result<Vec<_>, _>>()?;
        let mut columns = parts(&json, "columns")?.iter().map(Split::of).collect::<Result<Vec<_>, _>>()?;
        let filters =
            parts(&json, "filters")?.iter().map(|json| Filter::of(json, &object)).collect::<Result<Vec<_>, _>>()?;
        if columns.len() > 1 {
            return Err(invalid_specification("a pivot can have at most one column split"));
        }
        if cells.is_empty() && rows.is_empty() {
            return Err(ApiError::bad_request(EMPTY));
        }
        Ok(PivotSpecification { model: model.to_owned(), object, cells, rows, column: columns.pop(), filters })
    }

    /// Arguments of the `pivot` command.
    pub(super) fn arguments(&self) -> String {
        let mut out = format!("{} {}", quote(&self.model), quote(&self.object));
        for cell in &self.cells {
            let field = cell.field.as_ref().map_or(self.object.as_str(), |field| &field.name);
            out.push_str(&format!(" {}({}) AS {}", cell.function, argument(field), quote(&cell.label)));
        }
        if self.cells.is_empty() {
            out.push_str(&format!(" count({}) AS count", argument(&self.object)));
        }
        self.rows.iter().for_each(|row| out.push_str(&format!(" SPLITROW {}", row.arguments())));
        self.column.iter().for_each(|column| out.push_str(&format!(" SPLITCOL {}", column.arguments())));
        for filter in &self.filters {
            match filter {
                Filter::Rule { field, text, .. } => out.push_str(&format!(" FILTER {} {text}", quote(&field.name))),
                Filter::Limit(text) => out.push_str(&format!(" LIMIT {text}")),
            }
        }
        out
    }

    /// The pivot as a `tstats` search, which can read summaries; `None` if `tstats` cannot express the pivot.
    pub(super) fn tstats(&self) -> Option<String> {
        let is_plain = |row: &Split| row.size.is_none() && row.truth == (None, None);
        if self.column.is_some() || self.cells.is_empty() || !self.rows.iter().all(is_plain) {
            return None;
        }
        let cell = |cell: &Cell| match &cell.field {
            None => format!("count AS {}", quote(&cell.label)),
            Some(field) => format!("{}({}) AS {}", cell.function, field.full_name(&self.object), quote(&cell.label)),
        };
        let cells: Vec<String> = self.cells.iter().map(cell).collect();
        let mut conditions = Vec::new();
        for filter in &self.filters {
            let Filter::Rule { field, condition, .. } = filter else { return None };
            conditions.push(condition.as_ref()?.replace("{}", &field.full_name(&self.object)));
        }
        let mut out = format!("| tstats {} FROM datamodel={}.{}", cells.join(" "), self.model, self.object);
        if !conditions.is_empty() {
            out.push_str(&format!(" WHERE {}", conditions.join(" ")));
        }
        if !self.rows.is_empty() {
            let by: Vec<String> = self.rows.iter().map(|row| row.tstats_field(&self.object)).collect::<Option<_>>()?;
            out.push_str(&format!(" BY {}", by.join(" ")));
        }
        for row in &self.rows {
            let label = row.label.as_ref().unwrap_or(&row.field.name);
            let field = row.field.full_name(&self.object);
            if field != quote(label) {
                out.push_str(&format!(" | rename {field} AS {}", quote(label)));
            }
        }
        Some(out)
    }
}

/// A field as the argument of a function.
fn argument(field: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '.');
    if field.chars().all(is_plain) { field.to_owned() } else { quote(field) }
}

impl Cell {
    fn of(json: &Value, object: &str) -> Result<Cell, ApiError> {
        let name = text(json, "value").unwrap_or("count");
        let same = SAME_NAMED_FUNCTIONS.iter().find(|known| **known == name).copied();
        let known = FUNCTIONS.iter().find(|(known, _)| *known == name).map(|(_, function)| *function).or(same);
        let function = known.ok_or_else(|| {
            let names: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).chain(SAME_NAMED_FUNCTIONS).collect();
            invalid_specification(&format!("the value of a cell is {name}: give one of {}", names.join(", ")))
        })?;
        let field = Field::of(json)?;
        let is_count = matches!(text(json, "type"), Some("objectCount" | "childCount")) || field.name == object;
        let label = text(json, "label").map_or_else(|| format!("{function}({})", field.name), str::to_owned);
        match is_count {
            true if function == "count" => Ok(Cell { function, field: None, label }),
            true => Err(invalid_specification(&format!("{} can only be counted: {name} is not available", field.name))),
            false => Ok(Cell { function, field: Some(field), label }),
        }
    }
}

impl Split {
    fn of(json: &Value) -> Result<Split, ApiError> {
        let owned = |key: &str| text(json, key).map(str::to_owned);
        let ranges = &json["ranges"];
        let size = number(&ranges["size"]).or_else(|| {
            let (start, end, most) =
                (number(&ranges["start"])?, number(&ranges["end"])?, number(&ranges["maxNumberOf"])?);
            Some((end - start) / most).filter(|size| *size > 0.0)
        });
        Ok(Split {
            field: Field::of(json)?,
            label: owned("label"),
            period: owned("period"),
            size: size.filter(|_| text(json, "display") == Some("ranges")),
            truth: (owned("trueLabel"), owned("falseLabel")),
        })
    }

    fn arguments(&self) -> String {
        let mut out = quote(&self.field.name);
        let mut add = |keyword: &str, value: &Option<String>| {
            value.iter().for_each(|value| out.push_str(&format!(" {keyword} {}", quote(value))));
        };
        add("AS", &self.label);
        add("PERIOD", &self.period);
        add("TRUELABEL", &self.truth.0);
        add("FALSELABEL", &self.truth.1);
        if let Some(size) = self.size {
            out.push_str(&format!(" RANGE size={size}"));
        }
        out
    }

    /// The field in the `by` clause of `tstats`, with a span; `None` for a period that `tstats` does not support.
    fn tstats_field(&self, object: &str) -> Option<String> {
        let name = self.field.full_name(object);
        let span = match self.period.as_deref() {
            None => return Some(name),
            Some("second") => "1s",
            Some("minute") => "1m",
            Some("hour") => "1h",
            Some("day") => "1d",
            Some("month") => "1mon",
            Some("auto") => "auto",
            Some(_) => return None,
        };
        Some(if span == "auto" { name } else { format!("_time span={span}") })
    }
}

impl Filter {
    fn of(json: &Value, object: &str) -> Result<Filter, ApiError> {
        let field = Field::of(json)?;
        if json["limitAmount"].is_number() || json["limitAmount"].is_string() {
            return Filter::limit(json, &field, object);
        }
        let rule = &json["rule"];
        let comparator =
            text(rule, "comparator").ok_or_else(|| invalid_specification("the rule of a filter has no comparator"))?;
        let value = match &rule["compareTo"] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let same = |value: &str| format!("{{}}={}", quote(value));
        let lower = comparator.to_ascii_lowercase();
        let (text, condition) = match lower.as_str() {
            "isnull" => ("isNull".to_owned(), Some("NOT {}=*".to_owned())),
            "isnotnull" => ("isNotNull".to_owned(), Some("{}=*".to_owned())),
            "=" | "is" if Field::is_true_or_false(json) => {
                let is_true = matches!(value.to_ascii_lowercase().as_str(), "true" | "1" | "t");
                (format!("in {}", if is_true { TRUE } else { FALSE }), None)
            }
            "=" | "is" => (format!("is {}", quote(&value)), (!value.contains('*')).then(|| same(&value))),
            "!=" | "isnot" => (format!("isNot {}", quote(&value)), None),
            "contains" => {
                (format!("contains {}", quote(&value)), (!value.contains('*')).then(|| same(&format!("*{value}*"))))
            }
            "doesnotcontain" => (format!("doesNotContain {}", quote(&value)), None),
            "startswith" => {
                (format!("startsWith {}", quote(&value)), (!value.contains('*')).then(|| same(&format!("{value}*"))))
            }
            "endswith" => {
                (format!("endsWith {}", quote(&value)), (!value.contains('*')).then(|| same(&format!("*{value}"))))
            }
            "<" | "<=" | ">" | ">=" => {
                let bound = number(&rule["compareTo"]).ok_or_else(|| {
                    invalid_specification(&format!("compareTo={value}: give a number for {comparator}"))
                })?;
                (format!("{lower} {bound}"), Some(format!("{{}}{lower}{bound}")))
            }
            _ => {
                return Err(invalid_specification(&format!(
                    "comparator={comparator}: give one of is, isNot, contains, doesNotContain, startsWith, endsWith, \
                     isNull, isNotNull, =, !=, <, <=, > and >="
                )));
            }
        };
        Ok(Filter::Rule { field, text, condition })
    }

    fn limit(json: &Value, field: &Field, object: &str) -> Result<Filter, ApiError> {
        let amount = number(&json["limitAmount"]).filter(|amount| amount.fract() == 0.0 && (1.0..1e9).contains(amount));
        let amount = amount.ok_or_else(|| invalid_specification("limitAmount: give a whole number, 1 or more"))?;
        let attribute = Field::named(text(json, "attributeName"), text(json, "attributeOwner"))?;
        let value = serde_json::json!({
            "fieldName": attribute.name, "value": text(json, "statsFn").unwrap_or("count"),
        });
        let cell = Cell::of(&value, object)?;
        let ranked = if text(json, "limitType") == Some("lowest") { "BOTTOM" } else { "TOP" };
        let counted = cell.field.as_ref().map_or(object, |field| &field.name);
        Ok(Filter::Limit(format!(
            "{} BY {ranked} {amount} {}({})",
            quote(&field.name),
            cell.function,
            argument(counted)
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &str) -> Result<PivotSpecification, String> {
        PivotSpecification::from_json("Shop", given).map_err(|error| error.text())
    }

    #[test]
    fn specifications_become_pivot_commands() {
        let given = r#"{"dataModel": "Shop", "baseClass": "Orders",
            "cells": [{"fieldName": "Orders", "type": "objectCount", "value": "count", "label": "Orders"},
                      {"fieldName": "price", "owner": "Orders", "type": "number", "value": "average", "label": "Mean \"price\""}],
            "rows": [{"fieldName": "host", "owner": "BaseEvent", "type": "string", "label": "Host"}],
            "columns": [{"fieldName": "price", "owner": "Orders", "type": "number", "display": "ranges", "ranges": {"start": "0", "end": 12, "size": 5}}],
            "filters": [{"fieldName": "paid", "owner": "Orders", "type": "boolean", "rule": {"comparator": "is", "compareTo": true}},
                        {"fieldName": "price", "type": "number", "rule": {"comparator": ">=", "compareTo": 2.5}},
                        {"fieldName": "item", "limitAmount": 10, "limitType": "lowest", "attributeName": "price", "statsFn": "sum"}]}"#;
        let specification = of(given).unwrap();
        let arguments = specification.arguments();
        assert_eq!(
            arguments,
            "\"Shop\" \"Orders\" count(Orders) AS \"Orders\" avg(price) AS \"Mean \\\"price\\\"\" SPLITROW \"host\" AS \"Host\" \
             SPLITCOL \"price\" RANGE size=5 FILTER \"paid\" in (\"true\", \"1\", \"t\") FILTER \"price\" >= 2.5 \
             LIMIT \"item\" BY BOTTOM 10 sum(price)"
        );
        assert!(quarry_spl::commands::pivot_searches(&arguments).is_ok());
        assert_eq!(specification.tstats(), None, "it has a column split");
    }

    #[test]
    fn simple_specifications_become_tstats_searches() {
        let given = r#"{"baseClass": "Orders", "cells": [{"fieldName": "price", "owner": "Orders", "value": "sum", "label": "Sum"}],
            "rows": [{"fieldName": "_time", "owner": "BaseEvent", "period": "day"}, {"fieldName": "item", "owner": "Orders", "label": "Item"}],
            "filters": [{"fieldName": "item", "owner": "Orders", "type": "string", "rule": {"comparator": "contains", "compareTo": "a\"b"}}]}"#;
        let tstats = of(given).unwrap().tstats().unwrap();
        assert_eq!(
            tstats,
            "| tstats sum(\"Orders.price\") AS \"Sum\" FROM datamodel=Shop.Orders WHERE \"Orders.item\"=\"*a\\\"b*\" \
             BY _time span=1d \"Orders.item\" | rename \"Orders.item\" AS \"Item\""
        );
        assert!(quarry_spl::parse(&tstats).is_ok(), "{:?}", quarry_spl::parse(&tstats).diagnostics);
    }

    #[test]
    fn invalid_specifications_are_reported() {
        for (given, says) in [
            ("{", "not JSON"),
            ("{}", "baseClass"),
            (r#"{"baseClass": "Orders"}"#, "non-empty cells"),
            (r#"{"dataModel": "Other", "baseClass": "O"}"#, "Other"),
            (r#"{"baseClass": "O", "cells": [{"fieldName": "x", "value": "product"}]}"#, "product"),
            (r#"{"baseClass": "O", "cells": [{"fieldName": "O", "value": "sum"}]}"#, "counted"),
            (
                r#"{"baseClass": "O", "rows": [{"fieldName": "x"}], "filters": [{"fieldName": "x", "rule": {"comparator": "~"}}]}"#,
                "comparator=~",
            ),
            (
                r#"{"baseClass": "O", "rows": [{"fieldName": "x"}], "filters": [{"fieldName": "x", "rule": {"comparator": "<", "compareTo": "a"}}]}"#,
                "number",
            ),
            (r#"{"baseClass": "O", "rows": [{}]}"#, "fieldName"),
        ] {
            let told = of(given).unwrap_err();
            assert!(told.contains(says), "{given}: {told}");
        }
    }
}
