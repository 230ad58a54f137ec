//! Types, as plain data, of the columns that one part of a search passes to another.
//!
//! Not here: the columns themselves, and the coded types of a scan's columns (dictionary codes, addresses and decimals
//! as numbers), which [`super::decode_rows`] decodes to the types named here.

use std::fmt;

use arrow::datatypes::DataType;
use serde::{Deserialize, Serialize};

use super::{TIME_TYPE, multi_type};
use crate::aggregate::number_item;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ColumnType {
    /// The type of the column's values, which may differ from batch to batch: texts, integers, floats, booleans,
    /// times, lists of texts, or null.
    Any,
    /// Times.
    Time,
    /// Texts.
    Text,
    /// Integers.
    Integer,
    /// Lists of floats.
    Numbers,
    /// Lists of texts.
    Texts,
}

impl ColumnType {
    /// The Arrow type of the column; `None` if it depends on the values.
    pub fn data_type(self) -> Option<DataType> {
        match self {
            ColumnType::Any => None,
            ColumnType::Time => Some(TIME_TYPE),
            ColumnType::Text => Some(DataType::Utf8View),
            ColumnType::Integer => Some(DataType::Int64),
            ColumnType::Numbers => Some(DataType::List(number_item())),
            ColumnType::Texts => Some(multi_type()),
        }
    }

    /// Whether a column may have this type.
    pub fn accepts(self, column: &DataType) -> bool {
        let is_of_any = || match column {
            DataType::Null | DataType::Utf8View | DataType::Int64 | DataType::Float64 | DataType::Boolean => true,
            other => *other == TIME_TYPE || *other == multi_type(),
        };
        self.data_type().map_or_else(is_of_any, |known| known == *column)
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ColumnType::Any => "any value",
            ColumnType::Time => "time",
            ColumnType::Text => "text",
            ColumnType::Integer => "integer",
            ColumnType::Numbers => "list of numbers",
            ColumnType::Texts => "list of texts",
        })
    }
}
