//! `selfjoin`: rows joined with others of the same result; `bucketdir`: paths folded into folders.

use std::collections::BTreeMap;

use arrow::record_batch::RecordBatch;
use quarry_spl::ast::{BucketDirCommand, SelfJoinCommand};

use crate::EngineError;
use crate::command::{BlockingTable, CommandContext, RowIter};
use crate::field_names::names_of;
use crate::rows::{self, ColumnBuilder, ColumnReader, Value, batch_of, is_hidden, rows_in_memory};

/// Rows a join makes at most.
const ROWS_MAX: usize = 1_000_000;

/// `selfjoin`: each row joins the rows after it that have the same values.
pub(crate) struct SelfJoin(pub SelfJoinCommand);

impl SelfJoin {
    /// Places of a row and of the other it is joined with.
    fn pairs(&self, all: &RecordBatch) -> Result<Vec<(usize, Option<usize>)>, EngineError> {
        let readers: Vec<ColumnReader> = self.0.fields.iter().map(|field| rows::reader(all, &field.text)).collect();
        let mut groups: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
        let mut keys: Vec<Option<Vec<String>>> = Vec::with_capacity(all.num_rows());
        for row in 0..all.num_rows() {
            let key: Option<Vec<String>> =
                readers.iter().map(|reader| reader.value(row).into_text().map(|text| text.into_owned())).collect();
            if let Some(key) = &key {
                groups.entry(key.clone()).or_default().push(row);
            }
            keys.push(key);
        }
        let mut pairs = Vec::new();
        for (row, key) in keys.iter().enumerate() {
            let group = key.as_ref().and_then(|key| groups.get(key)).map(Vec::as_slice).unwrap_or_default();
            let others = group.iter().copied().filter(|other| *other > row);
            let most = if self.0.max == 0 { usize::MAX } else { self.0.max };
            pairs.extend(others.take(most).map(|other| (row, Some(other))));
            if group.len() < 2 && self.0.keeps_single {
                pairs.push((row, None));
            }
            if pairs.len() > ROWS_MAX {
                let what = "selfjoin: name more fields, or a max=".to_owned();
                return Err(EngineError::Limit { what, limit: "rows", value: ROWS_MAX as u64 });
            }
        }
        Ok(pairs)
    }
}

impl BlockingTable for SelfJoin {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("selfjoin", rows, context)?;
        let pairs = self.pairs(&all)?;
        let names: Vec<String> = names_of(&all).into_iter().filter(|name| !is_hidden(name)).collect();
        let columns = names.iter().map(|name| {
            let reader = rows::reader(&all, name);
            let mut column = ColumnBuilder::new(pairs.len());
            for (row, other) in &pairs {
                let (own, other) = (reader.value(*row), other.map_or(Value::Null, |other| reader.value(other)));
                let (first, second) = if self.0.overwrites { (other, own) } else { (own, other) };
                column.push(if first.is_null() { second } else { first });
            }
            (name.clone(), column.finish())
        });
        Ok(vec![batch_of(columns, pairs.len())?])
    }
}

/// `bucketdir`: while there are too many paths, the folder with the least in it takes the place of what it holds.
pub(crate) struct BucketDir(pub BucketDirCommand);

/// What a path stands for.
#[derive(Clone, Copy, Default)]
struct Held {
    size: f64,
    count: f64,
    /// Paths it was made of last.
    parts: usize,
}

impl BucketDir {
    /// The folder a path lies in, with its separator at the end.
    fn folder_of(&self, path: &str) -> Option<String> {
        let separator = self.0.separator.as_str();
        let inner = path.strip_suffix(separator).unwrap_or(path);
        inner.rfind(separator).map(|at| inner[..at + separator.len()].to_owned())
    }
}

impl BlockingTable for BucketDir {
    fn run(&self, rows: RowIter, context: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let all = rows_in_memory("bucketdir", rows, context)?;
        let (paths, sizes) = (rows::reader(&all, &self.0.path), rows::reader(&all, &self.0.size));
        let counts = self.0.count.as_ref().map(|field| rows::reader(&all, field));
        let mut held: BTreeMap<String, Held> = BTreeMap::new();
        for row in 0..all.num_rows() {
            let Some(path) = paths.value(row).into_text() else { continue };
            let entry = held.entry(path.into_owned()).or_default();
            entry.size += sizes.number(row).unwrap_or(0.0);
            entry.count += counts.as_ref().map_or(Some(1.0), |reader| reader.number(row)).unwrap_or(0.0);
        }
        while held.len() > self.0.max {
            let mut folders: BTreeMap<String, Held> = BTreeMap::new();
            for (path, own) in &held {
                if let Some(folder) = self.folder_of(path) {
                    let sum = folders.entry(folder).or_default();
                    (sum.size, sum.count) = (sum.size + own.size, sum.count + own.count);
                    sum.parts += 1;
                }
            }
            // One that holds several, if there is one; of the deepest the smallest.
            if folders.values().any(|sum| sum.parts > 1) {
                folders.retain(|_, sum| sum.parts > 1);
            }
            let depth = |folder: &str| folder.matches(self.0.separator.as_str()).count();
            let deepest = folders.keys().map(|folder| depth(folder)).max();
            let fitting = folders.into_iter().filter(|(folder, _)| Some(depth(folder)) == deepest);
            let Some((folder, sum)) = fitting.min_by(|a, b| a.1.size.total_cmp(&b.1.size)) else { break };
            if held.len() + 1 < self.0.least + sum.parts {
                break;
            }
            held.retain(|path, _| !path.starts_with(&folder));
            held.insert(folder, sum);
        }
        let mut columns: [ColumnBuilder; 3] = std::array::from_fn(|_| ColumnBuilder::new(held.len()));
        for (path, own) in &held {
            columns[0].push_text(path);
            columns[1].push(Value::number_of(own.size));
            columns[2].push(Value::number_of(own.count));
        }
        let names = [self.0.path.clone(), self.0.size.clone(), self.0.count.clone().unwrap_or_else(|| "count".into())];
        Ok(vec![batch_of(names.into_iter().zip(columns.map(ColumnBuilder::finish)), held.len())?])
    }
}
