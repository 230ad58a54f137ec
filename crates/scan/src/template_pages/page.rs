//! A page of a template slab during a search; columns, texts and events are read on first use.

use std::sync::Arc;

use crate::page::PageRef;
use arrow::array::{ArrayRef, UInt32Array};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::rows;
use quarry_event::template::{ColumnValues, FieldColumn, PageColumn, TEXT_COLUMN, TemplateSet, TextEnds, Texts};
use quarry_event::{FieldNames, IndexedFields, Page, PageColumns};
use quarry_store::{Segment, TemplatePage};

use super::key_splits::KeySplit;
use super::outcome::{NO, Outcome, UNDECIDED};
use super::slab::Slab;

/// A page, and what has been read of it.
pub(super) struct PageReader<'a> {
    pub slab: &'a Slab,
    page: &'a PageRef,
    /// Columns that [`PageReader::events`] reads.
    columns: PageColumns,
    /// Names of the index-time fields that the search reads.
    fields: FieldNames,
    has_fields_by_row: bool,
    fields_by_row: Option<Arc<IndexedFields>>,
    shaped: Option<Box<dyn TemplatePage>>,
    events: Option<Arc<Page>>,
    metas: Option<Arc<[u32]>>,
    keys: Option<Arc<[u32]>>,
    /// The key of each row for each division of the slab's keys.
    pub divided_keys: Vec<(Arc<KeySplit>, Arc<[u32]>)>,
    /// During the second evaluation of a condition, the rows that the first left undecided. Fields that are composed of
    /// columns or computed are tested only in these rows.
    pub open: Option<Vec<u32>>,
    /// Fields without a column, computed for some rows.
    pub computed: Option<ComputedRows>,
    /// Outcome of the other parts of a conjunction, if known; rows whose outcome is [`NO`] need no answer.
    pub rest: Option<Outcome>,
}

/// Rows of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// All rows of a page, which has this many.
    All(u32),
    /// These rows, ascending.
    Some(Vec<u32>),
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        match self {
            Rows::All(count) => *count as usize,
            Rows::Some(rows) => rows.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (all, some): (u32, &[u32]) = match self {
            Rows::All(count) => (*count, &[]),
            Rows::Some(rows) => (0, rows),
        };
        (0..all).chain(some.iter().copied())
    }

    pub(super) fn into_vec(self) -> Vec<u32> {
        match self {
            Rows::All(count) => (0..count).collect(),
            Rows::Some(rows) => rows,
        }
    }
}

/// Fields without a column, for some rows of a page.
pub(super) struct ComputedRows {
    /// The rows, ascending.
    rows: Rows,
    /// The fields of these rows.
    batch: RecordBatch,
}

impl ComputedRows {
    pub(super) fn new(rows: Rows, batch: RecordBatch) -> ComputedRows {
        assert_eq!(rows.len(), batch.num_rows(), "every row has its fields");
        ComputedRows { rows, batch }
    }

    /// The rows for which the fields were computed.
    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// A field; `None` if no row has the field.
    pub(super) fn column(&self, name: &str) -> Option<&ArrayRef> {
        rows::column(&self.batch, name)
    }

    /// The computed fields of the rows `wanted`; `None` if the fields of some of these rows were not computed.
    pub(super) fn for_rows(&self, wanted: &Rows) -> Result<Option<RecordBatch>, EngineError> {
        if self.rows.len() == wanted.len() {
            return Ok(self.rows.iter().eq(wanted.iter()).then(|| self.batch.clone()));
        }
        let mut known = (0u32..).zip(self.rows.iter());
        let places: Option<Vec<u32>> =
            wanted.iter().map(|row| known.find(|(_, known)| *known == row).map(|(place, _)| place)).collect();
        places.map(|places| rows::take(&self.batch, &UInt32Array::from(places))).transpose()
    }
}

impl<'a> PageReader<'a> {
    pub(super) fn new(slab: &'a Slab, page: &'a PageRef, columns: PageColumns) -> PageReader<'a> {
        let (fields, segment) = (columns.fields, &page.segment);
        let has_fields_by_row = !fields.is_empty() && segment.may_hold_fields_by_row(page.page);
        PageReader {
            slab,
            page,
            columns: PageColumns { raw: false, fields: FieldNames::NONE, ..columns },
            fields,
            has_fields_by_row,
            fields_by_row: None,
            shaped: None,
            events: None,
            metas: None,
            keys: None,
            divided_keys: Vec::new(),
            open: None,
            computed: None,
            rest: None,
        }
    }

    /// [`UNDECIDED`] for rows whose answer matters, [`NO`] for all others.
    pub(super) fn relevant_rows(&self) -> Outcome {
        match &self.rest {
            Some(Outcome::Each(answers)) => {
                Outcome::Each(answers.iter().map(|answer| (*answer).min(UNDECIDED)).collect())
            }
            Some(Outcome::Same(_)) | None => Outcome::Same(UNDECIDED),
        }
    }

    /// Whether the answer of a condition for this row matters.
    pub(super) fn is_relevant(&self, row: u32) -> bool {
        match &self.rest {
            Some(Outcome::Each(answers)) => answers.get(row as usize) != Some(&NO),
            Some(Outcome::Same(_)) | None => true,
        }
    }

    pub(super) fn segment(&self) -> Arc<dyn Segment> {
        Arc::clone(&self.page.segment)
    }

    /// Whether reading the page may wait for a volume.
    pub(super) fn is_remote(&self) -> bool {
        self.page.segment.is_remote()
    }

    pub(super) fn template_set(&self) -> &'a TemplateSet {
        &self.slab.template_set
    }

    /// Number of the page in its slab.
    pub(super) fn number(&self) -> usize {
        self.page.page
    }

    /// Number of events.
    pub(super) fn len(&self) -> usize {
        self.page.info.events as usize
    }

    fn template_page(&mut self) -> Result<&mut dyn TemplatePage, EngineError> {
        if self.shaped.is_none() {
            self.shaped = self.page.segment.template_page(self.page.page)?;
        }
        match &mut self.shaped {
            Some(page) => Ok(page.as_mut()),
            None => Err(EngineError::invalid(format!(
                "bucket {} has columns for its texts, but page {} has none; restore or rebuild the bucket",
                self.page.segment.bucket(),
                self.page.page
            ))),
        }
    }

    /// Rows in which several of these columns have a value, ascending; the text of such rows must be read.
    pub(super) fn rows_with_multiple_values(&mut self, columns: &[u32]) -> Result<Vec<u32>, EngineError> {
        if columns.is_empty() {
            return Ok(Vec::new());
        }
        let mut counts = vec![0u32; self.len()];
        for column in columns {
            match &self.column(*column)?.rows {
                Some(rows) => rows.iter().for_each(|row| counts[*row as usize] += 1),
                None => counts.iter_mut().for_each(|count| *count += 1),
            }
        }
        Ok((0u32..).zip(counts).filter(|(_, count)| *count > 1).map(|(row, _)| row).collect())
    }

    /// Values of a column.
    pub(super) fn column(&mut self, column: u32) -> Result<Arc<PageColumn>, EngineError> {
        Ok(self.template_page()?.column(column)?)
    }

    /// Announces that these columns are about to be read in these rows.
    pub(super) fn prefetch_columns(&mut self, columns: &[u32], rows: &Rows) -> Result<(), EngineError> {
        match columns {
            [] | [_] => Ok(()),
            _ => Ok(self.template_page()?.prefetch_columns(columns, rows.len())?),
        }
    }

    /// Values of a column for at least the rows in `rows` that have a value.
    pub(super) fn column_of_rows(&mut self, column: u32, rows: &Rows) -> Result<Arc<PageColumn>, EngineError> {
        match rows {
            Rows::All(_) => self.column(column),
            Rows::Some(rows) => {
                debug_assert!(rows.is_sorted(), "rows are asked for in order of arrival");
                Ok(self.template_page()?.column_of_rows(column, rows)?)
            }
        }
    }

    /// Whether a number column contains this number; `None` if finding out costs as much as reading the column.
    pub(super) fn contains_number(&mut self, column: u32, number: i64) -> Result<Option<bool>, EngineError> {
        Ok(self.template_page()?.contains_number(column, number)?)
    }

    /// Lengths of the texts of a column; `None` if reading the column itself takes no longer.
    pub(super) fn text_ends(&mut self, column: u32) -> Result<Option<TextEnds>, EngineError> {
        Ok(self.template_page()?.text_ends(column)?)
    }

    /// Texts of a column in these rows, all of which must have a text.
    pub(super) fn texts(&mut self, column: u32, rows: &[u32]) -> Result<Texts, EngineError> {
        debug_assert!(rows.is_sorted(), "rows are asked for in order of arrival");
        let texts = self.template_page()?.texts(column, rows)?;
        assert_eq!(texts.ends.len(), rows.len(), "every requested row has its text");
        Ok(texts)
    }

    /// The events' data other than their texts.
    pub(super) fn events(&mut self) -> Result<Arc<Page>, EngineError> {
        if let Some(events) = &self.events {
            return Ok(Arc::clone(events));
        }
        let events = Arc::new(self.page.segment.read_page(self.page.page, self.columns)?);
        self.events = Some(Arc::clone(&events));
        Ok(events)
    }

    /// The metadata code of each event.
    pub(super) fn metas(&mut self) -> Result<Arc<[u32]>, EngineError> {
        if let Some(metas) = &self.metas {
            return Ok(Arc::clone(metas));
        }
        let metas: Arc<[u32]> = match &self.events {
            Some(events) => events.meta.as_slice().into(),
            None => self.page.segment.page_metas(self.page.page)?.into(),
        };
        self.metas = Some(Arc::clone(&metas));
        Ok(metas)
    }

    /// Extraction class and template of each event as one number, see [`Slab::key`].
    pub(super) fn keys(&mut self) -> Result<Arc<[u32]>, EngineError> {
        if let Some(keys) = &self.keys {
            return Ok(Arc::clone(keys));
        }
        let column = self.column(TEXT_COLUMN)?;
        let ColumnValues::Codes(codes) = &column.values else {
            return Err(EngineError::invalid("the text column of a bucket holds no templates; rebuild the bucket"));
        };
        let keys: Arc<[u32]> = if self.slab.class_count() == 1 {
            codes.as_slice().into()
        } else {
            let metas = self.metas()?;
            codes.iter().zip(metas.iter()).map(|(code, meta)| self.slab.key(*meta, *code)).collect()
        };
        assert_eq!(keys.len(), self.len(), "each event of a page has a template");
        self.keys = Some(Arc::clone(&keys));
        Ok(keys)
    }

    /// Whether events may have index-time fields that override locations in the text, so that they are read as text.
    pub(super) fn may_override_locations(&self) -> bool {
        self.has_fields_by_row || !self.slab.overriding_columns().is_empty()
    }

    /// Whether an event of the page may have an index-time field.
    pub(super) fn may_hold_fields(&self) -> bool {
        self.page.segment.may_hold_fields(self.page.page)
    }

    /// The index-time fields that the search reads and that have no column.
    pub(super) fn fields_by_row(&mut self) -> Result<Arc<IndexedFields>, EngineError> {
        if let Some(fields) = &self.fields_by_row {
            return Ok(Arc::clone(fields));
        }
        let fields: Arc<IndexedFields> = match self.has_fields_by_row {
            true => self.page.segment.fields_by_row(self.page.page, self.fields)?.into(),
            false => Arc::default(),
        };
        self.fields_by_row = Some(Arc::clone(&fields));
        Ok(fields)
    }

    /// The index-time fields of these rows; their row numbers are positions in `rows`.
    fn fields_of_rows(&mut self, rows: &[u32]) -> Result<IndexedFields, EngineError> {
        let by_row = self.fields_by_row()?;
        let mut columns = Vec::new();
        for FieldColumn { name, column } in &self.template_set().fields {
            if !self.fields.may_contain(name) {
                continue;
            }
            let values = self.column_of_rows(*column, &Rows::Some(rows.to_vec()))?;
            let places: Vec<u32> = (0u32..)
                .zip(rows)
                .filter(|(_, row)| values.value_index(**row).is_some())
                .map(|(place, _)| place)
                .collect();
            let filled: Vec<u32> = places.iter().map(|place| rows[*place as usize]).collect();
            columns.push((name, places, self.texts(*column, &filled)?));
        }
        let mut fields = IndexedFields::default();
        let (mut by_row, mut next) = (by_row.iter().peekable(), vec![0; columns.len()]);
        for (place, row) in (0u32..).zip(rows) {
            while let Some(field) = by_row.next_if(|field| field.row <= *row) {
                if field.row == *row {
                    fields.push(place, field.name, field.value);
                }
            }
            for ((name, places, texts), at) in columns.iter().zip(&mut next) {
                if places.get(*at) == Some(&place) {
                    let value = std::str::from_utf8(texts.get(*at))
                        .map_err(|_| EngineError::invalid("a field of a bucket is not UTF-8; rebuild the bucket"))?;
                    fields.push(place, *name, value);
                    *at += 1;
                }
            }
        }
        Ok(fields)
    }

    /// These rows as a page of their own, with their texts rebuilt.
    pub(super) fn rebuild_rows(&mut self, rows: &[u32]) -> Result<Page, EngineError> {
        let events = self.events()?;
        assert_eq!(events.time.len(), self.len(), "a page has as many events as its bucket lists");
        let texts = self.texts(TEXT_COLUMN, rows)?;
        let at = |row: &u32| *row as usize;
        let fields = self.fields_of_rows(rows)?;
        Ok(Page {
            first_row: events.first_row,
            raw: texts.bytes,
            ends: texts.ends,
            time: rows.iter().map(|row| events.time[at(row)]).collect(),
            index_time: rows.iter().filter_map(|row| events.index_time.get(at(row)).copied()).collect(),
            meta: rows.iter().map(|row| events.meta[at(row)]).collect(),
            metas: Arc::clone(&events.metas),
            fields,
        })
    }
}
