//! Computes, for some rows of a page, the fields that have no column: rules compute them from other fields, or patterns
//! find them.
//!
//! A condition tests these fields last, in the rows still undecided; the values of matching rows are reused. If an
//! input field of a row can be extracted only from text, the row is read as text.
//!
//! Not here: computing fields by rules ([`crate::derive`]); evaluating patterns on templates ([`super::rex`]).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, TimestampNanosecondArray};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::field_names::METADATA_FIELDS;
use quarry_eval::rows;

use super::columns;
use super::field_locations::FieldLocations;
use super::groups::{add_extracts, read_groups, with_extracts};
use super::outcome::{Outcome, UNDECIDED, YES};
use super::page::{ComputedRows, PageReader, Rows};
use crate::EventScan;

impl EventScan {
    /// The computed fields of these rows of a page, without the rows whose text must be read.
    pub(super) fn computed_rows(&self, rows: Rows, page: &mut PageReader<'_>) -> Result<ComputedRows, EngineError> {
        let slab = page.slab;
        let names = slab.computed_inputs();
        let held: Vec<&FieldLocations> = names.iter().filter_map(|name| slab.stored_field(name)).collect();
        let told = self.mark_fields_undecided(&held, Outcome::Same(YES), page)?;
        let mut sure = match told {
            Outcome::Same(YES) => rows,
            Outcome::Same(_) => Rows::Some(Vec::new()),
            Outcome::Each(each) => Rows::Some(rows.iter().filter(|row| each[*row as usize] != UNDECIDED).collect()),
        };
        let mut readers = self.computed_rexes.take_readers(&slab.template_set);
        let is_read = |name: &str| slab.needs_pattern(name) && names.iter().any(|read| read == name);
        add_extracts(&mut readers, self.computed_rexes.kept(), slab, is_read);
        let mut undecided = Vec::new();
        let mut groups = read_groups(&mut readers, Vec::new(), &mut sure, &mut undecided, page)?;
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        for name in names {
            if let Some(column) = self.stored_column(name, &sure, page)? {
                columns.push((name.clone(), column));
            }
        }
        let batch = rows::batch_of(columns, sure.len())?;
        let mut batch = with_extracts(batch, &readers, &mut groups, slab)?;
        self.computed_rexes.return_readers(readers);
        if let Some(computed) = slab.computed() {
            let metas: Vec<u32> = match computed.is_uniform() {
                true => Vec::new(),
                false => {
                    let metas = page.metas()?;
                    sure.iter().map(|row| metas[row as usize]).collect()
                }
            };
            batch = computed.apply(batch, &metas)?;
        }
        Ok(ComputedRows::new(sure, batch))
    }

    /// The column of a stored field, without values found by patterns.
    fn stored_column(
        &self,
        name: &str,
        rows: &Rows,
        page: &mut PageReader<'_>,
    ) -> Result<Option<ArrayRef>, EngineError> {
        if name == "_time" {
            let events = page.events()?;
            let times: TimestampNanosecondArray = rows.iter().map(|row| Some(events.time[row as usize])).collect();
            return Ok(Some(Arc::new(times)));
        }
        if METADATA_FIELDS.contains(&name) {
            return self.metadata_column(name, rows, page).map(Some);
        }
        match page.slab.stored_field(name) {
            Some(field) => columns::field_column(field, rows, page),
            None => Ok(None),
        }
    }

    /// The computed fields of matching rows. Rows that need their text are moved to the undecided rows.
    pub(super) fn computed_columns(
        &self,
        sure: &mut Rows,
        maybe: &mut Vec<u32>,
        page: &mut PageReader<'_>,
    ) -> Result<Option<ComputedRows>, EngineError> {
        let is_wanted = |name: &String| page.slab.is_computed(name);
        if sure.is_empty() || self.projection.includes_unnamed() || !self.projection.names.iter().any(is_wanted) {
            return Ok(None);
        }
        let known = page.computed.take();
        if let Some(known) = known
            && let Some(batch) = known.for_rows(sure)?
        {
            return Ok(Some(ComputedRows::new(sure.clone(), batch)));
        }
        let computed = self.computed_rows(sure.clone(), page)?;
        if computed.rows().len() < sure.len() {
            let mut told = computed.rows().iter().peekable();
            maybe.extend(sure.iter().filter(|row| told.next_if_eq(row).is_none()));
            maybe.sort_unstable();
            *sure = computed.rows().clone();
        }
        Ok(Some(computed))
    }

    /// Adds the requested computed fields to the rows.
    pub(super) fn with_computed(
        &self,
        batch: RecordBatch,
        sure: &Rows,
        computed: Option<ComputedRows>,
        page: &PageReader<'_>,
    ) -> Result<RecordBatch, EngineError> {
        let Some(computed) = computed else { return Ok(batch) };
        let left_out = || EngineError::invalid("a row that matches has no computed fields; this is a bug");
        let of_rows = computed.for_rows(sure)?.ok_or_else(left_out)?;
        let mut batch = batch;
        for name in self.projection.names.iter().filter(|name| page.slab.is_computed(name)) {
            if let Some(column) = rows::column(&of_rows, name).filter(|column| column.null_count() < column.len()) {
                batch = rows::with_column(&batch, name, Arc::clone(column))?;
            }
        }
        Ok(batch)
    }
}
