//! Building a column from values whose type is not known before the last one.
//!
//! The builder starts with nulls only, adopts the type of the first value and widens when a value does not fit:
//! integers to numbers, anything to text, text to multivalue. Each widening copies the column once, so a column is
//! copied at most three times.

use std::sync::Arc;

use arrow::array::{ArrayBuilder, TimestampNanosecondBuilder};
use arrow::array::{ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, ListBuilder, StringViewBuilder};
use quarry_event::value::MAX_EXACT_INTEGER;

use super::{ColumnReader, Value, multi_item, null_column};

/// Collects one value per row; see the module.
#[derive(Debug)]
pub struct ColumnBuilder {
    column: Building,
    capacity: usize,
}

#[derive(Debug)]
enum Building {
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
enum Kind {
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
        ColumnBuilder { column: Building::Null(0), capacity }
    }

    /// Whether no row was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of rows added.
    pub fn len(&self) -> usize {
        match &self.column {
            Building::Null(rows) => *rows,
            Building::Bool(builder) => builder.len(),
            Building::Int(builder) => builder.len(),
            Building::Float(builder) => builder.len(),
            Building::Time(builder) => builder.len(),
            Building::Text(builder) => builder.len(),
            Building::Multi(builder) => builder.len(),
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
            Building::Null(rows) => *rows += 1,
            Building::Bool(builder) => builder.append_null(),
            Building::Int(builder) => builder.append_null(),
            Building::Float(builder) => builder.append_null(),
            Building::Time(builder) => builder.append_null(),
            Building::Text(builder) => builder.append_null(),
            Building::Multi(builder) => builder.append_null(),
        }
    }

    /// Adds a boolean.
    pub fn push_bool(&mut self, value: bool) {
        match &mut self.column {
            Building::Bool(builder) => builder.append_value(value),
            _ => self.widen(Kind::Bool, Value::Bool(value)),
        }
    }

    /// Adds an integer.
    #[inline]
    pub fn push_int(&mut self, value: i64) {
        match &mut self.column {
            Building::Int(builder) => builder.append_value(value),
            Building::Float(builder) if is_exact(value) => builder.append_value(value as f64),
            _ => self.widen(Kind::Int, Value::Int(value)),
        }
    }

    /// Adds a number.
    #[inline]
    pub fn push_float(&mut self, value: f64) {
        match &mut self.column {
            Building::Float(builder) => builder.append_value(value),
            _ => self.widen(Kind::Float, Value::Float(value)),
        }
    }

    /// Adds a time.
    pub fn push_time(&mut self, value: i64) {
        match &mut self.column {
            Building::Time(builder) => builder.append_value(value),
            _ => self.widen(Kind::Time, Value::Time(value)),
        }
    }

    /// Adds a text.
    #[inline]
    pub fn push_text(&mut self, text: &str) {
        match &mut self.column {
            Building::Text(builder) => builder.append_value(text),
            Building::Multi(builder) => {
                builder.values().append_value(text);
                builder.append(true);
            }
            _ => {
                self.become_kind(Kind::Text);
                self.push_text(text);
            }
        }
    }

    /// Adds a multivalue; an empty one becomes null, and one with a single value becomes a text.
    pub fn push_multi<T: AsRef<str>>(&mut self, values: impl IntoIterator<Item = T>) {
        let mut values = values.into_iter();
        let Some(first) = values.next() else { return self.push_null() };
        let Some(second) = values.next() else { return self.push_text(first.as_ref()) };
        self.become_kind(Kind::Multi);
        let Building::Multi(builder) = &mut self.column else { return };
        builder.values().append_value(first);
        builder.values().append_value(second);
        values.for_each(|value| builder.values().append_value(value));
        builder.append(true);
    }

    /// The column, with the narrowest type that fits all values.
    pub fn finish(self) -> ArrayRef {
        match self.column {
            Building::Null(rows) => null_column(rows),
            Building::Bool(mut builder) => Arc::new(builder.finish()),
            Building::Int(mut builder) => Arc::new(builder.finish()),
            Building::Float(mut builder) => Arc::new(builder.finish()),
            Building::Time(mut builder) => Arc::new(builder.finish()),
            Building::Text(mut builder) => Arc::new(builder.finish()),
            Building::Multi(mut builder) => Arc::new(builder.finish()),
        }
    }

    fn kind(&self) -> Option<Kind> {
        match self.column {
            Building::Null(_) => None,
            Building::Bool(_) => Some(Kind::Bool),
            Building::Int(_) => Some(Kind::Int),
            Building::Float(_) => Some(Kind::Float),
            Building::Time(_) => Some(Kind::Time),
            Building::Text(_) => Some(Kind::Text),
            Building::Multi(_) => Some(Kind::Multi),
        }
    }

    /// Widens the column to a type that accepts `value`, which is of kind `kind` and does not fit, and adds the value.
    #[cold]
    fn widen(&mut self, kind: Kind, value: Value<'_>) {
        let target = match (self.kind(), kind) {
            (None, kind) => kind,
            (Some(Kind::Int), Kind::Float) if self.integers_are_exact() => Kind::Float,
            (Some(Kind::Multi), _) => Kind::Multi,
            _ => Kind::Text,
        };
        self.become_kind(target);
        match target {
            Kind::Text | Kind::Multi => self.push_text(&value.text().unwrap_or_default()),
            _ => self.push(value),
        }
    }

    fn integers_are_exact(&mut self) -> bool {
        let Building::Int(builder) = &self.column else { return true };
        builder.values_slice().iter().all(|value| is_exact(*value))
    }

    /// Converts the column to `kind`.
    fn become_kind(&mut self, kind: Kind) {
        if self.kind() == Some(kind) {
            return;
        }
        let rows = self.len();
        let capacity = self.capacity.max(rows + 1);
        let fresh = match kind {
            Kind::Bool => Building::Bool(BooleanBuilder::with_capacity(capacity)),
            Kind::Int => Building::Int(Int64Builder::with_capacity(capacity)),
            Kind::Float => Building::Float(Float64Builder::with_capacity(capacity)),
            Kind::Time => Building::Time(TimestampNanosecondBuilder::with_capacity(capacity)),
            Kind::Text => Building::Text(StringViewBuilder::with_capacity(capacity)),
            Kind::Multi => Building::Multi(new_multi(capacity)),
        };
        let old = std::mem::replace(&mut self.column, fresh);
        let old = ColumnBuilder { column: old, capacity: 0 }.finish();
        let old = ColumnReader::new(&old);
        let mut scratch = String::new();
        for row in 0..rows {
            if old.is_null(row) {
                self.push_null();
            } else if kind == Kind::Float {
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
    value.unsigned_abs() <= MAX_EXACT_INTEGER as u64
}
