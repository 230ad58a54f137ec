//! What patterns found in the rows of a page, and how it becomes columns.
//!
//! Search-time rules come first: what one finds goes before what another finds that is listed later, and before what
//! automatic extraction finds. Then come `rex` commands in their order, each of which replaces what is there.
//!
//! Not here: how a pattern is asked of templates ([`super::rex`]).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DictionaryArray, Int64Array, UInt32Array};
use arrow::datatypes::UInt32Type;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::extract::rex::Rex;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader};

use super::page::{PageReader, Rows};
use super::rex::{RexReader, reads_on_columns};
use super::slab::Slab;

/// Code of a group that takes no part in the match.
pub(super) const ABSENT: u32 = u32::MAX;

/// What a pattern gave for rows of a page.
pub(super) struct Groups {
    /// Per group the number of its text, or [`ABSENT`], for each row.
    pub codes: Vec<Vec<u32>>,
    /// Per group its texts.
    pub texts: Vec<ArrayRef>,
    /// Rows that only their text can answer.
    pub undecided: Vec<u32>,
}

impl Groups {
    /// Nothing yet of so many groups.
    pub(super) fn none(count: usize) -> Groups {
        Groups { codes: vec![Vec::new(); count], texts: Vec::new(), undecided: Vec::new() }
    }

    /// 1 for each row in which a test matched, 0 for others.
    fn matches(&self) -> ArrayRef {
        let codes = self.codes.first().into_iter().flatten();
        Arc::new(codes.map(|code| i64::from(*code != ABSENT)).collect::<Int64Array>())
    }

    /// The column of group number `at`: the group's text, or what the field held before.
    pub(super) fn column(&mut self, at: usize, old: Option<&ArrayRef>) -> Result<ArrayRef, EngineError> {
        let codes = std::mem::take(&mut self.codes[at]);
        let absent = codes.contains(&ABSENT);
        let Some(old) = old.filter(|_| absent) else {
            let keys: UInt32Array = match absent {
                true => codes.into_iter().map(|code| (code != ABSENT).then_some(code)).collect(),
                false => codes.into(),
            };
            return Ok(Arc::new(DictionaryArray::<UInt32Type>::try_new(keys, Arc::clone(&self.texts[at]))?));
        };
        let old = ColumnReader::new(old);
        let texts = ColumnReader::new(&self.texts[at]);
        let mut column = ColumnBuilder::new(codes.len());
        for (row, code) in codes.into_iter().enumerate() {
            column.push(if code == ABSENT { old.value(row) } else { texts.value(code as usize) });
        }
        Ok(column.finish())
    }
}

/// Adds readers for the rules of a slab that make wanted fields, unless they are there with all groups that are wanted.
pub(super) fn add_extracts(readers: &mut Vec<RexReader>, slab: &Slab, wanted: impl Fn(&str) -> bool) {
    for extract in slab.extracts() {
        let is_of = |reader: &RexReader| reader.extract.as_ref().is_some_and(|known| Arc::ptr_eq(known, extract));
        let known = readers.iter().position(is_of);
        let has = |name: &str| known.is_some_and(|at| readers[at].groups.iter().any(|(_, group)| group == name));
        if !extract.names.iter().flatten().any(|name| wanted(name) && !has(name)) {
            continue;
        }
        // Of another slab other groups were wanted.
        let reader = RexReader::of_extract(extract, |name| wanted(name) || has(name));
        match known {
            Some(at) => readers[at] = reader,
            None => readers.push(reader),
        }
    }
}

/// The groups of patterns in the rows that match; those that only their text can answer become rows that may.
pub(super) fn read_groups(
    rexes: &mut [RexReader],
    sure: &mut Rows,
    maybe: &mut Vec<u32>,
    reader: &mut PageReader<'_>,
) -> Result<Vec<Groups>, EngineError> {
    loop {
        let found = rexes.iter_mut().map(|rex| rex.read(sure, reader)).collect::<Result<Vec<_>, _>>()?;
        let mut undecided: Vec<u32> = found.iter().flat_map(|groups| &groups.undecided).copied().collect();
        if undecided.is_empty() {
            return Ok(found);
        }
        undecided.sort_unstable();
        undecided.dedup();
        *sure = Rows::Some(sure.iter().filter(|row| undecided.binary_search(row).is_err()).collect());
        maybe.extend(undecided);
        maybe.sort_unstable();
    }
}

/// The rows with the groups that readers of rules found in them.
pub(super) fn with_extracts(
    mut rows: RecordBatch,
    readers: &[RexReader],
    found: &mut [Groups],
    slab: &Slab,
) -> Result<RecordBatch, EngineError> {
    let is_of = |reader: &RexReader, extract| reader.extract.as_ref().is_some_and(|known| Arc::ptr_eq(known, extract));
    // The first rule wins, so it is put in last.
    for extract in slab.extracts().iter().rev() {
        if let Some(at) = readers.iter().position(|reader| is_of(reader, extract)) {
            rows = with_groups(rows, &readers[at], &mut found[at])?;
        }
    }
    Ok(rows)
}

/// The rows with the groups that readers of commands found in them.
pub(super) fn with_commands(
    mut rows: RecordBatch,
    readers: &[RexReader],
    found: &mut [Groups],
    slab: &Slab,
) -> Result<RecordBatch, EngineError> {
    for (reader, groups) in readers.iter().zip(found).filter(|(reader, _)| reader.extract.is_none()) {
        rows = match (&reader.test, &reader.of_field) {
            (Some(output), _) => rows::with_column(&rows, output, groups.matches())?,
            (None, Some((command, field))) if !reads_on_columns(slab, field) => {
                Rex::new(Arc::clone(command), reader.regex.clone()).apply(rows)?
            }
            (None, _) => with_groups(rows, reader, groups)?,
        };
    }
    Ok(rows)
}

fn with_groups(mut rows: RecordBatch, reader: &RexReader, groups: &mut Groups) -> Result<RecordBatch, EngineError> {
    // A rule that no class of the slab has was not asked.
    if groups.texts.is_empty() {
        return Ok(rows);
    }
    for (at, (_, name)) in reader.groups.iter().enumerate() {
        let column = groups.column(at, rows::column(&rows, name))?;
        if column.null_count() < column.len() {
            rows = rows::with_column(&rows, name, column)?;
        }
    }
    Ok(rows)
}
