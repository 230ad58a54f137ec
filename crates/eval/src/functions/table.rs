//! `lookup(TABLE, OBJECT, ARRAY)`: fields of the first matching row of a table, as a JSON object.
//!
//! The table is loaded when the expression is compiled; for each set of input columns, an index is built on first use.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use quarry_spl::ast::{LookupCommand, Span};
use quarry_stdx::Fault;

use super::call::{Call, FunctionImpl, Prepared};
use super::json_tree::Json;
use crate::lookup::{LookupIndex, LookupTable, csv_columns};
use crate::rows::Value;

/// Maximum number of indexes per call, one per set of input columns; a further index replaces one of them.
const INDEXES_MAX: usize = 16;

pub(super) static BODIES: &[(&str, FunctionImpl)] = &[("lookup", lookup)];

/// A table used by a call.
#[derive(Clone)]
pub struct EvalTable {
    name: Arc<str>,
    table: LookupTable,
    columns: Arc<[String]>,
    /// Indexes of the table by input columns.
    indexes: Arc<Mutex<Indexes>>,
}

/// Indexes by their columns; `None` if the table lacks one of the columns.
type Indexes = BTreeMap<Vec<String>, Option<Arc<LookupIndex>>>;

impl std::fmt::Debug for EvalTable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "table {}", self.name)
    }
}

impl EvalTable {
    /// Reads the column names; the error is a message for the user.
    pub fn new(name: &str, table: LookupTable) -> Result<EvalTable, Fault> {
        let columns = csv_columns(&table.csv).map_err(|fault| fault.with_context(format_args!("lookup {name}")))?;
        Ok(EvalTable { name: name.into(), table, columns: columns.into(), indexes: Arc::default() })
    }

    /// Message for a column that the table lacks.
    pub fn missing_column_message(&self, column: &str) -> Option<String> {
        let known = self.columns.iter().any(|known| known == column);
        (!known).then(|| format!("lookup {} has no column {column}; it has {}", self.name, self.columns.join(", ")))
    }

    /// The index on these columns; `None` if the table lacks one of the columns.
    fn index(&self, columns: Vec<String>) -> Option<Arc<LookupIndex>> {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = indexes.get(&columns) {
            return known.clone();
        }
        if indexes.len() >= INDEXES_MAX {
            indexes.pop_first();
        }
        let command = LookupCommand {
            table: self.name.to_string(),
            table_span: Span { start: 0, end: 0 },
            inputs: columns.iter().map(|column| (column.clone(), column.clone())).collect(),
            outputs: Vec::new(),
            only_new: false,
            time_field: None,
        };
        let index = LookupIndex::new(&command, self.table.clone()).ok().map(Arc::new);
        indexes.insert(columns, index.clone());
        index
    }
}

/// `lookup`: null without a match; columns that are empty in the row are omitted.
fn lookup<'a>(args: &mut [Value<'a>], call: &Call<'_>) -> Value<'a> {
    let Prepared::Table(table) = call.prepared else { return Value::Null };
    let document = |at: usize| args.get(at).and_then(Value::text).and_then(|text| Json::parse(&text));
    let (Some(Json::Object(inputs)), Some(Json::Array(outputs))) = (document(1), document(2)) else {
        return Value::Null;
    };
    let (columns, values): (Vec<String>, Vec<Option<String>>) =
        inputs.iter().map(|(column, value)| (column.clone(), value.field_text())).unzip();
    let Some(values) = values.into_iter().collect::<Option<Vec<String>>>().filter(|values| !values.is_empty()) else {
        return Value::Null;
    };
    let Some(index) = table.index(columns) else { return Value::Null };
    let Some(row) = index.first_match(&values) else { return Value::Null };
    let cells = outputs.iter().filter_map(Json::field_text).filter_map(|column| {
        let cell = index.cell(row, &column)?;
        Some((column, Json::Text(cell)))
    });
    Value::owned_text(Json::Object(cells.collect()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_sets_of_columns_replace_earlier_indexes() {
        let names: Vec<String> = (0..INDEXES_MAX + 4).map(|at| format!("c{at}")).collect();
        let table = EvalTable::new("t", LookupTable::of_csv(format!("{0}\n{0}\n", names.join(",")))).unwrap();
        for name in names.iter().chain(&names) {
            let index = table.index(vec![name.clone()]).unwrap();
            assert_eq!(index.first_match(std::slice::from_ref(name)), Some(0), "{name}");
        }
        assert!(table.index(vec!["nothing".to_owned()]).is_none());
        assert!(table.indexes.lock().unwrap().len() <= INDEXES_MAX);
    }
}
