//! `bucketdir`: groups paths into directories until few enough remain.

use std::collections::BTreeMap;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, ColumnBuilder, RowIter, Value, batch_of, rows_in_memory};
use quarry_spl::ast::BucketDirCommand;

use super::Execute;
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for BucketDirCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(BucketDir(self.clone()))])
    }
}

/// While there are too many paths, the smallest of the deepest directories replaces its contents.
struct BucketDir(BucketDirCommand);

/// A path in the current set.
#[derive(Clone, Copy, Default)]
struct PathTotals {
    size: f64,
    count: f64,
    /// For a directory, the number of entries that it replaced; 0 for a path of the input.
    parts: usize,
}

impl BucketDir {
    /// The directory of a path, with the separator at its end.
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
        let mut held: BTreeMap<String, PathTotals> = BTreeMap::new();
        for row in 0..all.num_rows() {
            let Some(path) = paths.value(row).into_text() else { continue };
            let entry = held.entry(path.into_owned()).or_default();
            entry.size += sizes.number(row).unwrap_or(0.0);
            entry.count += counts.as_ref().map_or(Some(1.0), |reader| reader.number(row)).unwrap_or(0.0);
        }
        while held.len() > self.0.max {
            let mut folders: BTreeMap<String, PathTotals> = BTreeMap::new();
            for (path, own) in &held {
                if let Some(folder) = self.folder_of(path) {
                    let sum = folders.entry(folder).or_default();
                    (sum.size, sum.count) = (sum.size + own.size, sum.count + own.count);
                    sum.parts += 1;
                }
            }
            // Directories with several entries are preferred; of the deepest directories, the smallest is merged.
            if folders.values().any(|sum| sum.parts > 1) {
                folders.retain(|_, sum| sum.parts > 1);
            }
            let depth = |folder: &str| folder.matches(self.0.separator.as_str()).count();
            let deepest = folders.keys().map(|folder| depth(folder)).max();
            let fitting = folders.into_iter().filter(|(folder, _)| Some(depth(folder)) == deepest);
            let Some((folder, _)) = fitting.min_by(|a, b| a.1.size.total_cmp(&b.1.size)) else { break };
            // The directory also replaces paths in its subdirectories, which are not part of the sums so far.
            let below = held.range(folder.clone()..).take_while(|(path, _)| path.starts_with(&folder));
            let whole = below.fold(PathTotals::default(), |whole, (_, own)| PathTotals {
                size: whole.size + own.size,
                count: whole.count + own.count,
                parts: whole.parts + 1,
            });
            if held.len() + 1 < self.0.least + whole.parts {
                break;
            }
            held.retain(|path, _| !path.starts_with(&folder));
            held.insert(folder, whole);
        }
        let mut columns: [ColumnBuilder; 3] = std::array::from_fn(|_| ColumnBuilder::new(held.len()));
        for (path, own) in &held {
            columns[0].push_text(path);
            columns[1].push(Value::from_f64(own.size));
            columns[2].push(Value::from_f64(own.count));
        }
        let names = [self.0.path.clone(), self.0.size.clone(), self.0.count.clone().unwrap_or_else(|| "count".into())];
        Ok(vec![batch_of(names.into_iter().zip(columns.map(ColumnBuilder::finish)), held.len())?])
    }
}
