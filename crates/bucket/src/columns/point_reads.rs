//! Point reads: the values of a few rows of a page, as in a search for an id.
//!
//! Only the values of these rows are read from each column ([`super::random_access`]). A value is found by counting the
//! templates before it. In a shared dictionary, only the values of these rows are looked up, because each look-up may
//! be a cache miss; only the runs with these values are read, all at once. Results are kept with the page, because
//! several columns of the same rows are usually requested. The reverse look-up finds the rows of values from their
//! positions.

use std::sync::Arc;

use bytes::Bytes;
use quarry_event::template::{Column, ColumnKind, ColumnValues, PageColumn, TEXT_COLUMN, Texts};
use quarry_stdx::number::u32_of;

use crate::columns::FewEntries;
use crate::columns::codec::needs_times;
use crate::columns::layout::ChunkLocations;
use crate::columns::random_access::{CodesReader, NumbersReader, TextsReader};
use crate::columns::read::{Extent, SlabColumns, TemplatePage};
use crate::columns::rebuild::NO_VARIABLE;
use crate::columns::slices::{Slice, number_of, part_of, text_of};
use crate::error::BucketError;

/// Maximum number of rows whose values are read one by one; for more rows, the whole column is decoded.
pub const POINT_READ_ROWS_MAX: usize = 16;

/// Decoded values of one column, or a reader that decodes them on demand.
#[derive(Debug)]
enum LazyColumn {
    /// The whole column, because it was decoded before or its templates have to be counted.
    Decoded(Arc<PageColumn>),
    Codes(CodesReader),
    Numbers(NumbersReader),
    Texts(TextsReader),
    Shared {
        codes: CodesReader,
        dictionary: FewEntries,
        component: u32,
    },
    /// Parts of the values of another column.
    Sliced(Slice),
}

enum Value {
    Code(u32),
    Number(i64),
    Text(Bytes),
}

/// State of the point reads of a page.
#[derive(Debug, Default)]
pub(super) struct PointReads {
    /// Decoded state by column; empty before the first request.
    decoded: Vec<Option<LazyColumn>>,
    /// Counts for the rows requested last. Each entry is a group of `namer_groups`, a position in the parent column,
    /// and the number of values before this position whose template contains the columns of the group.
    counts: Vec<(u32, usize, usize)>,
}

impl TemplatePage {
    /// The texts of a column in a few rows. Every row must have a value.
    pub(super) fn point_read_texts(&mut self, column: u32, rows: &[u32]) -> Result<Texts, BucketError> {
        let columns = self.columns.clone();
        self.fetch_descendants(column, Extent::Few)?;
        self.point_reads.counts.clear();
        self.fetch_entries(&columns, &columns.with_descendants(column), rows)?;
        let (mut out, mut ends) = (Vec::new(), Vec::with_capacity(rows.len()));
        for row in rows {
            let Some(place) = self.value_position(&columns, column, *row)? else {
                return Err(self.missing_value_error(column, *row));
            };
            self.append_value(&columns, column, place, &mut out)?;
            ends.push(u32_of(out.len()));
        }
        Ok(Texts { bytes: out.into(), ends })
    }

    /// The values of a column in those of `rows` that have a value; `rows` ascends. If there are more than
    /// [`POINT_READ_ROWS_MAX`] rows, or the column was read completely before, the whole column is returned.
    pub fn column_of_rows(&mut self, column: u32, rows: &[u32]) -> Result<Arc<PageColumn>, BucketError> {
        let columns = self.columns.clone();
        let Some(facts) = columns.layout.template_set.columns.get(column as usize) else {
            return Err(self.position().corrupt(format!("there is no column {column}")));
        };
        if rows.len() > POINT_READ_ROWS_MAX || self.cached_column(column).is_some() {
            return self.column(column);
        }
        self.point_reads.counts.clear();
        self.fetch_entries(&columns, &[column], rows)?;
        let mut found = Vec::with_capacity(rows.len());
        let (mut codes, mut numbers) = (Vec::new(), Vec::new());
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for row in rows {
            let Some(place) = self.value_position(&columns, column, *row)? else { continue };
            found.push(*row);
            match self.value_at(&columns, column, place)? {
                Value::Code(code) => codes.push(code),
                Value::Number(number) => numbers.push(self.check_number(&columns, column, number)?),
                Value::Text(text) => {
                    self.put_bytes(&text, &mut bytes)?;
                    ends.push(u32_of(bytes.len()));
                }
            }
        }
        let values = match facts.kind {
            ColumnKind::Templates(_) | ColumnKind::Dictionary { .. } => ColumnValues::Codes(codes),
            ColumnKind::Numbers { .. } => ColumnValues::Numbers(numbers),
            ColumnKind::Texts => ColumnValues::Texts { bytes: bytes.into(), ends },
        };
        Ok(Arc::new(PageColumn { rows: Some(found.into()), values }))
    }

    /// If a search reads ahead, fetches the runs of shared dictionaries with the values of some columns in these rows,
    /// so that they are not fetched one after the other.
    fn fetch_entries(&mut self, columns: &SlabColumns, among: &[u32], rows: &[u32]) -> Result<(), BucketError> {
        if self.source.read_ahead().is_none() {
            return Ok(());
        }
        let stored = |column: u32| columns.layout.stored.get(column as usize).map(|stored| &stored.values);
        let mut ranges = Vec::new();
        let mut seen = Vec::new();
        for column in among.iter().copied() {
            // Components of the same entries have the same codes.
            let Some(ChunkLocations::Shared { dictionary, offset, .. }) = stored(column) else { continue };
            if !dictionary.has_runs() || seen.contains(offset) {
                continue;
            }
            seen.push(*offset);
            for row in rows {
                let Some(place) = self.value_position(columns, column, *row)? else { continue };
                let LazyColumn::Shared { codes, dictionary, .. } = self.lazy_column(columns, column)? else { break };
                let range = codes.get(place).map(|code| dictionary.missing(code));
                ranges.extend(self.position().map_malformed(range)?);
            }
        }
        self.source.fetch_for_search(ranges)
    }

    /// Rows of the values at these ascending positions of a column.
    pub(crate) fn rows_of_positions(&mut self, column: u32, places: Vec<usize>) -> Result<Vec<u32>, BucketError> {
        let columns = self.columns.clone();
        let (mut column, mut places) = (column, places);
        while let Some(parent) = columns.layout.template_set.columns[column as usize].parent {
            if let Some(namers) = &columns.namers[column as usize] {
                let ColumnValues::Codes(codes) = self.values(parent)? else {
                    return Err(self.position().corrupt(format!("column {parent} has no templates")));
                };
                let named = (0..codes.len()).filter(|at| namers.binary_search(&codes[*at]).is_ok());
                let mut named = named.enumerate();
                let mut of_parent = Vec::with_capacity(places.len());
                for place in places {
                    // Positions ascend.
                    match named.find(|(at, _)| *at == place) {
                        Some((_, found)) => of_parent.push(found),
                        None => return Err(self.position().corrupt(format!("column {column} has no value {place}"))),
                    }
                }
                places = of_parent;
            }
            column = parent;
        }
        Ok(places.into_iter().map(u32_of).collect())
    }

    /// Appends a value of a column as text.
    fn append_value(
        &mut self,
        columns: &SlabColumns,
        column: u32,
        place: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), BucketError> {
        let code = match self.value_at(columns, column, place)? {
            Value::Code(code) => code,
            Value::Text(text) => return self.put_bytes(&text, out),
            Value::Number(number) => return self.put_number(columns, column, number, out),
        };
        let Some(plan) = columns.plans.plan_of_column(column) else {
            let dictionary = columns.dictionary(&self.source, column)?;
            return self.put_bytes(dictionary.get(code), out);
        };
        for step in plan.steps_of(code) {
            self.put_bytes(plan.literal(step), out)?;
            if step.variable != NO_VARIABLE {
                let place = self.variable_position(columns, step.variable, column, place)?;
                self.append_value(columns, step.variable, place, out)?;
            }
        }
        Ok(())
    }

    /// Position of a column's value in a row, if the row has a value.
    fn value_position(&mut self, columns: &SlabColumns, column: u32, row: u32) -> Result<Option<usize>, BucketError> {
        let Some(parent) = columns.layout.template_set.columns[column as usize].parent else {
            return Ok(((row as usize) < self.value_count(TEXT_COLUMN)).then_some(row as usize));
        };
        let Some(place) = self.value_position(columns, parent, row)? else { return Ok(None) };
        let Some(namers) = &columns.namers[column as usize] else { return Ok(Some(place)) };
        let Value::Code(code) = self.value_at(columns, parent, place)? else { return Ok(None) };
        match namers.binary_search(&code) {
            Ok(_) => self.child_position(columns, column, parent, place).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Position of a variable's value, given the position of the value of `above`, whose template contains the
    /// variable, directly or through inlined columns.
    fn variable_position(
        &mut self,
        columns: &SlabColumns,
        variable: u32,
        above: u32,
        place: usize,
    ) -> Result<usize, BucketError> {
        let Some(parent) = columns.layout.template_set.columns[variable as usize].parent else { return Ok(place) };
        let place = match parent == above {
            true => place,
            false => self.variable_position(columns, parent, above, place)?,
        };
        self.child_position(columns, variable, parent, place)
    }

    /// Position of a column's value, given the position of the parent's value: the number of earlier values of the
    /// parent whose template contains the column.
    fn child_position(
        &mut self,
        columns: &SlabColumns,
        column: u32,
        parent: u32,
        place: usize,
    ) -> Result<usize, BucketError> {
        let Some(namers) = &columns.namers[column as usize] else { return Ok(place) };
        // Variables that the same templates contain share their counts.
        let group = columns.namer_groups[column as usize];
        if let Some((.., count)) = self.point_reads.counts.iter().find(|(of, at, _)| *of == group && *at == place) {
            return Ok(*count);
        }
        let codes = match self.lazy_column(columns, parent)? {
            LazyColumn::Decoded(whole) => Arc::clone(whole),
            _ => return Err(self.position().corrupt(format!("the templates of column {parent} cannot be counted"))),
        };
        let ColumnValues::Codes(codes) = &codes.values else {
            return Err(self.position().corrupt(format!("column {parent} has no templates")));
        };
        let before = &codes[..place.min(codes.len())];
        let count = match namers[..] {
            [one] => before.iter().filter(|code| **code == one).count(),
            _ => {
                let mut named = vec![false; namers.last().map_or(0, |most| *most as usize + 1)];
                namers.iter().for_each(|template| named[*template as usize] = true);
                before.iter().filter(|code| named.get(**code as usize) == Some(&true)).count()
            }
        };
        self.point_reads.counts.push((group, place, count));
        Ok(count)
    }

    fn put_number(
        &self,
        columns: &SlabColumns,
        column: u32,
        number: i64,
        out: &mut Vec<u8>,
    ) -> Result<(), BucketError> {
        let number = self.check_number(columns, column, number)?;
        if let ColumnKind::Numbers { format, .. } = &columns.layout.template_set.columns[column as usize].kind {
            format.write(number, out);
        }
        self.put_bytes(&[], out)
    }

    fn check_number(&self, columns: &SlabColumns, column: u32, number: i64) -> Result<i64, BucketError> {
        match &columns.layout.template_set.columns[column as usize].kind {
            ColumnKind::Numbers { min, max, .. } if (*min..=*max).contains(&number) => Ok(number),
            _ => Err(self.position().corrupt(format!("number {number} exceeds the range of column {column}"))),
        }
    }

    /// A value of a column.
    fn value_at(&mut self, columns: &SlabColumns, column: u32, place: usize) -> Result<Value, BucketError> {
        let missing = || crate::wire::Malformed(format!("column {column} has no value {place}"));
        let value = match self.lazy_column(columns, column)? {
            LazyColumn::Codes(codes) => codes.get(place).map(Value::Code),
            LazyColumn::Numbers(numbers) => numbers.get(place).map(Value::Number),
            LazyColumn::Texts(texts) => texts.get(place).map(Value::Text),
            LazyColumn::Shared { codes, dictionary, component } => {
                let (code, dictionary, component) = (codes.get(place), dictionary.clone(), *component);
                let code = self.position().map_malformed(code)?;
                dictionary.number(&self.source, component, code)?.map(Value::Number).ok_or_else(missing)
            }
            LazyColumn::Decoded(whole) => decoded_value(&whole.values, place).ok_or_else(missing),
            LazyColumn::Sliced(slice) => {
                let slice = *slice;
                return self.sliced_value_at(columns, column, slice, place);
            }
        };
        self.position().map_malformed(value)
    }

    /// A value of a column that is a part of a value of another column.
    fn sliced_value_at(
        &mut self,
        columns: &SlabColumns,
        column: u32,
        slice: Slice,
        place: usize,
    ) -> Result<Value, BucketError> {
        let Column { kind, traits, .. } = &columns.layout.template_set.columns[column as usize];
        let (start, len) = (slice.start as usize, traits.max_len as usize);
        let value = match (self.value_at(columns, slice.column, place)?, kind) {
            (Value::Text(text), ColumnKind::Numbers { format, .. }) => {
                part_of(&text, start, len).and_then(|part| number_of(part, *format)).map(Value::Number)
            }
            (Value::Text(text), _) => {
                part_of(&text, start, len).and_then(text_of).map(|part| Value::Text(text.slice_ref(part)))
            }
            _ => Err(crate::wire::Malformed(format!("column {} has no texts", slice.column))),
        };
        self.position().map_malformed(value)
    }

    fn lazy_column(&mut self, columns: &SlabColumns, column: u32) -> Result<&mut LazyColumn, BucketError> {
        let at = column as usize;
        if self.point_reads.decoded.is_empty() {
            self.point_reads.decoded.resize_with(columns.layout.stored.len(), || None);
        }
        if self.point_reads.decoded[at].is_none() {
            let decoded = self.open_lazy(columns, column)?;
            self.point_reads.decoded[at] = Some(decoded);
        }
        let place = self.position();
        let opened = self.point_reads.decoded[at].as_mut();
        opened.ok_or_else(|| place.corrupt(format!("column {column} was not decoded")))
    }

    fn open_lazy(&mut self, columns: &SlabColumns, column: u32) -> Result<LazyColumn, BucketError> {
        if let Some(kept) = self.cached_column(column) {
            return Ok(LazyColumn::Decoded(Arc::clone(kept)));
        }
        let (kind, count) = (&columns.layout.template_set.columns[column as usize].kind, self.value_count(column));
        if columns.counted[column as usize] || count == 0 {
            return self.open_decoded(column);
        }
        let limit = match kind {
            ColumnKind::Templates(templates) => u32_of(templates.len()),
            ColumnKind::Dictionary { len } => *len,
            _ => 0,
        };
        if matches!(columns.layout.stored[column as usize].values, ChunkLocations::Constant) {
            return match kind {
                ColumnKind::Numbers { min, .. } => Ok(LazyColumn::Numbers(NumbersReader::constant(*min, count))),
                _ if limit > 0 => Ok(LazyColumn::Codes(CodesReader::zeros(count))),
                _ => self.open_decoded(column),
            };
        }
        if let Some(slice) = columns.layout.slice_of(column) {
            return Ok(LazyColumn::Sliced(slice));
        }
        let (chunk, place) = self.stored_chunk(column, Extent::Few)?;
        if let Some((dictionary, component)) = columns.shared_for_few(&self.source, column)? {
            let codes = place.map_malformed(CodesReader::read(&chunk, count, dictionary.len()))?;
            return Ok(LazyColumn::Shared { codes, dictionary, component });
        }
        place.map_malformed(match kind {
            ColumnKind::Templates(_) | ColumnKind::Dictionary { .. } => {
                CodesReader::read(&chunk, count, limit).map(LazyColumn::Codes)
            }
            ColumnKind::Numbers { .. } => {
                if needs_times(&chunk) {
                    self.read_times()?;
                }
                NumbersReader::read(&chunk, count, self.times.as_ref()).map(LazyColumn::Numbers)
            }
            ColumnKind::Texts => {
                let dictionary = columns.text_dictionary(&self.source, column)?;
                TextsReader::read(&chunk, count, self.most_bytes, dictionary).map(LazyColumn::Texts)
            }
        })
    }

    fn open_decoded(&mut self, column: u32) -> Result<LazyColumn, BucketError> {
        Ok(LazyColumn::Decoded(match column {
            // The decoded column is cached, because other callers will need it.
            TEXT_COLUMN => self.column(column)?,
            _ => Arc::new(PageColumn { rows: None, values: self.values(column)? }),
        }))
    }
}

fn decoded_value(values: &ColumnValues, place: usize) -> Option<Value> {
    match values {
        ColumnValues::Codes(codes) => codes.get(place).copied().map(Value::Code),
        ColumnValues::Numbers(numbers) => numbers.get(place).copied().map(Value::Number),
        ColumnValues::Texts { bytes, ends } => {
            let end = *ends.get(place)? as usize;
            let start = if place == 0 { 0 } else { ends[place - 1] as usize };
            Some(Value::Text(bytes.slice(start..end)))
        }
    }
}
