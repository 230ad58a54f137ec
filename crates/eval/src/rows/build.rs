//! Building a column from values whose type is not known before the last one.
//!
//! The builder starts with nulls only, adopts the type of the first value and widens when a value does not fit:
//! integers to numbers, anything to text, text to multivalue. Each widening copies the column once, so a column is
//! copied at most three times.

use std::sync::Arc;

use arrow::array::{ArrayBuilder, TimestampNanosecondBuilder};
use arrow::array::{ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, ListBuilder, StringViewBuilder};
use quarry_event::value::MAX_EXACT_INTEGER;
use quarry_stdx::number::{f64_of, integer_part};

use super::{ColumnReader, Value, multi_item, null_column};

/// Collects one value per row; see the module.
#[derive(Debug)]
pub struct ColumnBuilder {
    column: TypedBuilder,
    capacity: usize,
}

#[derive(Debug)]
enum TypedBuilder {
    Null(usize),
    Bool(BooleanBuilder),
    Int(Int64Builder),
    Float(Float64Builder),
    Time(TimestampNanosecondBuilder),
    Text(StringViewBuilder),
    Multi(ListBuilder<StringViewBuilder>),
}

/// Types that a builder can switch to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BuilderType {
    Bool,
    Int,
    Float,
    Time,
    Text,
    Multi,
}

impl ColumnBuilder {
    /// A builder with room for `capacity` rows.
    pub fn new(capacity: usize) -> ColumnBuilder {
        ColumnBuilder { column: TypedBuilder::Null(0), capacity }
    }

    /// Whether no row was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of rows added.
    pub fn len(&self) -> usize {
        match &self.column {
            TypedBuilder::Null(rows) => *rows,
            TypedBuilder::Bool(builder) => builder.len(),
            TypedBuilder::Int(builder) => builder.len(),
            TypedBuilder::Float(builder) => builder.len(),
            TypedBuilder::Time(builder) => builder.len(),
            TypedBuilder::Text(builder) => builder.len(),
            TypedBuilder::Multi(builder) => builder.len(),
        }
    }

    /// Adds a row of any type.
    #[inline]
    pub fn push(&mut self, value: Value<'_>) {
        match value {
            Value::Null => self.push_null(),
            Value::Bool(value) => self.push_bool(value),
            Value::Int(value) => self.push_int(value),
            Value::Float(value) => self.push_float(value),
            Value::Time(value) => self.push_time(value),
            Value::Text(text) => self.push_text(&text),
            Value::Multi(values) => self.push_multi(values),
        }
    }

    /// Adds a null.
    #[inline]
    pub fn push_null(&mut self) {
        match &mut self.column {
            TypedBuilder::Null(rows) => *rows += 1,
            TypedBuilder::Bool(builder) => builder.append_null(),
            TypedBuilder::Int(builder) => builder.append_null(),
            TypedBuilder::Float(builder) => builder.append_null(),
            TypedBuilder::Time(builder) => builder.append_null(),
            TypedBuilder::Text(builder) => builder.append_null(),
            TypedBuilder::Multi(builder) => builder.append_null(),
        }
    }

    /// Adds a boolean.
    pub fn push_bool(&mut self, value: bool) {
        match &mut self.column {
            TypedBuilder::Bool(builder) => builder.append_value(value),
            _ => self.widen(BuilderType::Bool, Value::Bool(value)),
        }
    }

    /// Adds an integer.
    #[inline]
    pub fn push_int(&mut self, value: i64) {
        match &mut self.column {
            TypedBuilder::Int(builder) => builder.append_value(value),
            TypedBuilder::Float(builder) if is_exact(value) => builder.append_value(f64_of(value)),
            _ => self.widen(BuilderType::Int, Value::Int(value)),
        }
    }

    /// Adds a number. One that is not finite becomes a text: its text is not read as a number, so in a column of
    /// numbers it would have other results than in a column of texts.
    #[inline]
    pub fn push_float(&mut self, value: f64) {
        match &mut self.column {
            _ if !value.is_finite() => self.push_text(&Value::Float(value).text().unwrap_or_default()),
            TypedBuilder::Float(builder) => builder.append_value(value),
            _ => self.widen(BuilderType::Float, Value::Float(value)),
        }
    }

    /// Adds a time.
    pub fn push_time(&mut self, value: i64) {
        match &mut self.column {
            TypedBuilder::Time(builder) => builder.append_value(value),
            _ => self.widen(BuilderType::Time, Value::Time(value)),
        }
    }

    /// Adds a text.
    #[inline]
    pub fn push_text(&mut self, text: &str) {
        match &mut self.column {
            TypedBuilder::Text(builder) => builder.append_value(text),
            TypedBuilder::Multi(builder) => {
                builder.values().append_value(text);
                builder.append(true);
            }
            _ => {
                self.convert_to(BuilderType::Text);
                self.push_text(text);
            }
        }
    }

    /// Adds a multivalue; without values it becomes null, and with a single value a text.
    pub fn push_multi<T: AsRef<str>>(&mut self, values: impl IntoIterator<Item = T>) {
        let mut values = values.into_iter();
        let Some(first) = values.next() else { return self.push_null() };
        let Some(second) = values.next() else { return self.push_text(first.as_ref()) };
        self.convert_to(BuilderType::Multi);
        let TypedBuilder::Multi(builder) = &mut self.column else { return };
        builder.values().append_value(first);
        builder.values().append_value(second);
        values.for_each(|value| builder.values().append_value(value));
        builder.append(true);
    }

    /// The column, with the narrowest type that fits all values.
    pub fn finish(self) -> ArrayRef {
        match self.column {
            TypedBuilder::Null(rows) => null_column(rows),
            TypedBuilder::Bool(mut builder) => Arc::new(builder.finish()),
            TypedBuilder::Int(mut builder) => Arc::new(builder.finish()),
            TypedBuilder::Float(mut builder) => Arc::new(builder.finish()),
            TypedBuilder::Time(mut builder) => Arc::new(builder.finish()),
            TypedBuilder::Text(mut builder) => Arc::new(builder.finish()),
            TypedBuilder::Multi(mut builder) => Arc::new(builder.finish()),
        }
    }

    fn kind(&self) -> Option<BuilderType> {
        match self.column {
            TypedBuilder::Null(_) => None,
            TypedBuilder::Bool(_) => Some(BuilderType::Bool),
            TypedBuilder::Int(_) => Some(BuilderType::Int),
            TypedBuilder::Float(_) => Some(BuilderType::Float),
            TypedBuilder::Time(_) => Some(BuilderType::Time),
            TypedBuilder::Text(_) => Some(BuilderType::Text),
            TypedBuilder::Multi(_) => Some(BuilderType::Multi),
        }
    }

    /// Widens the column to a type that accepts `value`, which is of kind `kind` and does not fit, and adds the value.
    #[cold]
    fn widen(&mut self, kind: BuilderType, value: Value<'_>) {
        let target = match (self.kind(), kind) {
            (None, kind) => kind,
            (Some(BuilderType::Int), BuilderType::Float) if self.integers_are_exact() => BuilderType::Float,
            (Some(BuilderType::Multi), _) => BuilderType::Multi,
            _ => BuilderType::Text,
        };
        self.convert_to(target);
        match target {
            BuilderType::Text | BuilderType::Multi => self.push_text(&value.text().unwrap_or_default()),
            _ => self.push(value),
        }
    }

    fn integers_are_exact(&mut self) -> bool {
        let TypedBuilder::Int(builder) = &self.column else { return true };
        builder.values_slice().iter().all(|value| is_exact(*value))
    }

    /// Converts the column to `kind`.
    fn convert_to(&mut self, kind: BuilderType) {
        if self.kind() == Some(kind) {
            return;
        }
        let rows = self.len();
        let capacity = self.capacity.max(rows + 1);
        let fresh = match kind {
            BuilderType::Bool => TypedBuilder::Bool(BooleanBuilder::with_capacity(capacity)),
            BuilderType::Int => TypedBuilder::Int(Int64Builder::with_capacity(capacity)),
            BuilderType::Float => TypedBuilder::Float(Float64Builder::with_capacity(capacity)),
            BuilderType::Time => TypedBuilder::Time(TimestampNanosecondBuilder::with_capacity(capacity)),
            BuilderType::Text => TypedBuilder::Text(StringViewBuilder::with_capacity(capacity)),
            BuilderType::Multi => TypedBuilder::Multi(new_multi(capacity)),
        };
        let old = std::mem::replace(&mut self.column, fresh);
        let old = ColumnBuilder { column: old, capacity: 0 }.finish();
        let old = ColumnReader::new(&old);
        let mut scratch = String::new();
        for row in 0..rows {
            if old.is_null(row) {
                self.push_null();
            } else if kind == BuilderType::Float {
                self.push_float(old.number(row).unwrap_or(f64::NAN));
            } else {
                self.push_text(old.text(row, &mut scratch).unwrap_or_default());
            }
        }
    }
}

fn new_multi(capacity: usize) -> ListBuilder<StringViewBuilder> {
    let items = StringViewBuilder::with_capacity(capacity);
    ListBuilder::with_capacity(items, capacity).with_field(multi_item())
}

fn is_exact(value: i64) -> bool {
    value.unsigned_abs() <= integer_part::<u64>(MAX_EXACT_INTEGER)
}
