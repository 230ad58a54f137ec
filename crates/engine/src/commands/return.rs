//! `return`: formats fields of the first rows as one search condition in the field `search`.

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, RowIter};
use quarry_spl::ast::{ReturnCommand, ReturnItem};

use super::Execute;
use super::conditions::{check_size, condition_row, quote};
use crate::blocking::BlockingTable;
use crate::lowering::{Lowering, Step, blocking};

impl Execute for ReturnCommand {
    fn steps(&self, _: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        Ok(vec![blocking(self.clone())])
    }
}

impl BlockingTable for ReturnCommand {
    fn run(&self, rows: RowIter, _: &CommandContext) -> Result<Vec<RecordBatch>, EngineError> {
        let (mut parts, mut taken, mut bytes) = (Vec::new(), 0, 0);
        for batch in rows {
            let batch = batch?;
            for row in (0..batch.num_rows()).take(self.count - taken) {
                taken += 1;
                let items = self.items.iter().filter_map(|item| format_item(item, &batch, row));
                let text = items.collect::<Vec<_>>().join(" ");
                bytes += text.len();
                check_size(bytes)?;
                if !text.is_empty() {
                    parts.push(text);
                }
            }
            if taken >= self.count {
                break;
            }
        }
        match parts.as_slice() {
            [] => Ok(Vec::new()),
            [only] => condition_row(only),
            parts => {
                let parts: Vec<String> = parts.iter().map(|part| format!("({part})")).collect();
                condition_row(&parts.join(" OR "))
            }
        }
    }
}

fn format_item(item: &ReturnItem, rows: &RecordBatch, row: usize) -> Option<String> {
    let mut scratch = String::new();
    match item {
        ReturnItem::Pair { name, field } => {
            let reader = rows::reader(rows, field);
            Some(format!("{name}={}", quote(reader.text(row, &mut scratch)?)))
        }
        ReturnItem::Value(field) => rows::reader(rows, field).text(row, &mut scratch).map(str::to_owned),
    }
}
