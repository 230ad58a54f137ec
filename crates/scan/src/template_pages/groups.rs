//! Results of patterns for the rows of a page: the texts of their capture groups, and their conversion to columns.
//!
//! Search-time rules are applied first: a rule takes precedence over later rules and over automatic extraction. The
//! `rex` commands follow in order; each of them overwrites existing fields.
//!
//! Not here: evaluating a pattern on templates ([`super::rex`]).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DictionaryArray, Int64Array, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::UInt32Type;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::RowCommand;
use quarry_eval::extract::rex::Rex;
use quarry_eval::rows::{self, ColumnBuilder, ColumnReader};
use quarry_stdx::number::u32_of;

use super::columns::field_column;
use super::field_locations::FieldLocations;
use super::interner::ABSENT;
use super::page::{PageReader, Rows};
use super::pattern_readers::PatternReaders;
use super::rex::RexReader;
use super::roots::reads_on_columns;
use super::slab::Slab;
use super::text_arrays::dictionary_keys;

/// Results of a pattern for some rows of a page.
pub(super) struct Groups {
    /// For each group and row, the number of the text, or [`ABSENT`].
    pub codes: Vec<Vec<u32>>,
    /// Texts of each group.
    pub texts: Vec<ArrayRef>,
    /// Rows whose text must be read.
    pub undecided: Vec<u32>,
}

impl Groups {
    /// Empty results for `count` groups.
    pub(super) fn empty(count: usize) -> Groups {
        Groups { codes: vec![Vec::new(); count], texts: Vec::new(), undecided: Vec::new() }
    }

    /// 1 for each row that matched, 0 for the others.
    fn matches(&self) -> ArrayRef {
        let codes = self.codes.first().into_iter().flatten();
        Arc::new(codes.map(|code| i64::from(*code != ABSENT)).collect::<Int64Array>())
    }

    /// The column of group number `at`: the group's text, or the field's previous value.
    pub(super) fn take_column(&mut self, at: usize, old: Option<&ArrayRef>) -> Result<ArrayRef, EngineError> {
        let codes = std::mem::take(&mut self.codes[at]);
        self.column_of(codes, at, old)
    }

    /// Like [`Groups::take_column`], but leaves the group in place for further use.
    pub(super) fn clone_column(&self, at: usize, old: Option<&ArrayRef>) -> Result<ArrayRef, EngineError> {
        self.column_of(self.codes[at].clone(), at, old)
    }

    /// Keeps only the rows marked in `kept`.
    pub(super) fn retain(&mut self, kept: &[bool]) {
        for codes in &mut self.codes {
            assert_eq!(codes.len(), kept.len(), "each row has a code of each group");
            let mut kept = kept.iter();
            codes.retain(|_| kept.next().copied().unwrap_or(false));
        }
    }

    fn column_of(&self, codes: Vec<u32>, at: usize, old: Option<&ArrayRef>) -> Result<ArrayRef, EngineError> {
        let absent = codes.contains(&ABSENT);
        let Some(old) = old.filter(|_| absent) else {
            let keys = dictionary_keys(codes);
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

/// Adds readers for a slab's rules that produce requested fields, unless readers with all requested groups exist.
/// `kept` has the readers of earlier searches.
pub(super) fn add_extracts(
    readers: &mut Vec<RexReader>,
    kept: &PatternReaders,
    slab: &Slab,
    wanted: impl Fn(&str) -> bool,
) {
    for extract in slab.extracts() {
        let is_of = |reader: &RexReader| reader.extract.as_ref().is_some_and(|known| Arc::ptr_eq(known, extract));
        let known = readers.iter().position(is_of);
        let has = |name: &str| known.is_some_and(|at| readers[at].groups.iter().any(|(_, group)| group == name));
        if !extract.names.iter().flatten().any(|name| wanted(name) && !has(name)) {
            continue;
        }
        // Groups that another slab requested are kept.
        let names = extract.names.iter().enumerate();
        let is_read = |name: &String| wanted(name) || has(name);
        let groups = names.filter_map(|(at, name)| Some((at, name.clone().filter(is_read)?))).collect();
        let reader = kept.of_rule(extract, groups, &slab.template_set);
        match known {
            Some(at) => readers[at] = reader,
            None => readers.push(reader),
        }
    }
}

/// The groups of patterns in the matching rows. Rows whose text must be read are moved to the undecided rows; if there
/// are none, the groups in `known` are not read again.
pub(super) fn read_groups(
    rexes: &mut [RexReader],
    mut known: Vec<Option<Groups>>,
    sure: &mut Rows,
    maybe: &mut Vec<u32>,
    reader: &mut PageReader<'_>,
) -> Result<Vec<Groups>, EngineError> {
    loop {
        known.resize_with(rexes.len(), || None);
        let asked = rexes.iter_mut().zip(known.drain(..));
        let found = asked.map(|(rex, known)| known.map_or_else(|| rex.read(sure, reader), Ok));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let mut undecided: Vec<u32> = found.iter().flat_map(|groups| &groups.undecided).copied().collect();
        if undecided.is_empty() {
            return Ok(found);
        }
        undecided.sort_unstable();
        undecided.dedup();
        let before = sure.len();
        *sure = Rows::Some(sure.iter().filter(|row| undecided.binary_search(row).is_err()).collect());
        assert_eq!(sure.len() + undecided.len(), before, "undecided rows are among the requested rows");
        maybe.extend(undecided);
        maybe.sort_unstable();
    }
}

/// The values of a field in the rows without a text of the group of this name, and null in the other rows, in which the
/// group overwrites the field. `None` if there is no such value.
pub(super) fn column_where_absent(
    codes: &[u32],
    field: &FieldLocations,
    rows: &Rows,
    page: &mut PageReader<'_>,
) -> Result<Option<ArrayRef>, EngineError> {
    assert_eq!(codes.len(), rows.len(), "each row has a code of the group");
    let absent: Vec<u32> = rows.iter().zip(codes).filter(|(_, code)| **code == ABSENT).map(|(row, _)| row).collect();
    if absent.is_empty() || absent.len() == rows.len() {
        return if absent.is_empty() { Ok(None) } else { field_column(field, rows, page) };
    }
    let Some(values) = field_column(field, &Rows::Some(absent), page)? else { return Ok(None) };
    let mut positions = 0..u32_of(values.len());
    let places = codes.iter().map(|code| if *code == ABSENT { positions.next() } else { None });
    Ok(Some(take(&values, &places.collect::<UInt32Array>(), None)?))
}

/// Adds the groups of search-time rules to the rows.
pub(super) fn with_extracts(
    mut rows: RecordBatch,
    readers: &[RexReader],
    found: &mut [Groups],
    slab: &Slab,
) -> Result<RecordBatch, EngineError> {
    let is_of = |reader: &RexReader, extract| reader.extract.as_ref().is_some_and(|known| Arc::ptr_eq(known, extract));
    // The first rule takes precedence, so it is applied last.
    for extract in slab.extracts().iter().rev() {
        if let Some(at) = readers.iter().position(|reader| is_of(reader, extract)) {
            rows = with_groups(rows, &readers[at], &mut found[at])?;
        }
    }
    Ok(rows)
}

/// Adds the groups of `rex` commands to the rows.
pub(super) fn with_commands(
    mut rows: RecordBatch,
    readers: &[RexReader],
    found: &mut [Groups],
    slab: &Slab,
) -> Result<RecordBatch, EngineError> {
    assert_eq!(readers.len(), found.len(), "each pattern was asked");
    for (reader, groups) in readers.iter().zip(found).filter(|(reader, _)| reader.extract.is_none()) {
        rows = match (&reader.test, &reader.source_field) {
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
    // A rule that applies to no class of the slab was not evaluated.
    if groups.texts.is_empty() {
        return Ok(rows);
    }
    assert_eq!(groups.texts.len(), reader.groups.len(), "each group has its texts");
    assert!(groups.codes.iter().all(|codes| codes.len() == rows.num_rows()), "each row has a code of each group");
    for (at, (_, name)) in reader.groups.iter().enumerate() {
        let column = groups.take_column(at, rows::column(&rows, name))?;
        if column.null_count() < column.len() {
            rows = rows::with_column(&rows, name, column)?;
        }
    }
    Ok(rows)
}
