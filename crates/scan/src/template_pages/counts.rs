//! Counts from value statistics: if a slab stores how often each value occurs in a page, matching events are counted
//! without being read, and one row represents all events with the same value.
//!
//! This works if the condition depends on one column ([`ByValue`]) and the report needs no field, or only the field of
//! that column. A page with an undecided event is read.

use std::sync::Arc;

use crate::event_scan::EventScan;
use crate::page::PageRef;
use arrow::array::{Array, ArrayRef, Int64Array, StringViewBuilder};
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::field_names::METADATA_FIELDS;
use quarry_eval::rows::{self, ColumnReader};
use quarry_event::template::{ColumnKind, ColumnValues, CountedValues, PageColumn};
use quarry_stdx::number::u32_of;

use super::by_value::ByValue;
use super::columns::{ValuePositions, typed_column};
use super::field_locations::FieldLocations;
use super::outcome::{NO, UNDECIDED, YES};
use super::page::PageReader;
use super::slab::Slab;
use super::value_location::Decoding;
use crate::event_fields::is_intrinsic_field;
use crate::fields::Projection;

/// The part of each event that a report needs.
enum CountedPart {
    /// Only the existence of the event.
    Nothing,
    /// The value of a field, which is stored in this column or computed from the texts of its dictionary.
    Column { name: String, column: u32, decoding: Option<Decoding> },
}

impl EventScan {
    /// Rows with counts that represent all matching events of a page; the outer `None` means that value counts do not
    /// suffice, the inner `None` that no event matches.
    pub(super) fn counted_rows(
        &self,
        page: &PageRef,
        reader: &mut PageReader<'_>,
    ) -> Result<Option<Option<RecordBatch>>, EngineError> {
        let slab = reader.slab;
        let is_plain =
            self.counts && !reader.may_override_locations() && !self.rexes.has_patterns() && self.top_k.is_none();
        let Some(wanted) = is_plain.then(|| self.counted_part(slab)).flatten() else { return Ok(None) };
        let Some(by_value) = slab.by_value(|| self.filter.conditions().by_value(slab))? else { return Ok(None) };
        let asked = match &by_value {
            ByValue::Values { column, .. } => Some(*column),
            ByValue::Same(_) => None,
        };
        let column = match (&wanted, asked) {
            (CountedPart::Column { column, .. }, asked) if asked.is_none_or(|asked| asked == *column) => *column,
            (CountedPart::Column { .. }, _) => return Ok(None),
            (CountedPart::Nothing, Some(asked)) => asked,
            (CountedPart::Nothing, None) => {
                return count_of_all(&by_value, page)
                    .map(|events| rows_of(slab, &self.projection, None, events))
                    .transpose();
            }
        };
        let Some(counts) = slab.template_set.counts.get(&column) else { return Ok(None) };
        let of_page = counts.page_counts(page.page);
        let known: u32 = of_page.iter().map(|count| u32::from(*count)).sum();
        let Some(others) = page.info.events.checked_sub(known).filter(|_| !of_page.is_empty()) else { return Ok(None) };
        // Position of the value, if any, and the number of events with it.
        let mut kept: Vec<(Option<u32>, i64)> = Vec::new();
        let places = (0..u32_of(of_page.len())).map(Some).zip(of_page.iter().map(|count| u32::from(*count)));
        for (place, events) in places.chain([(None, others)]).filter(|(_, events)| *events > 0) {
            let answer = match (&by_value, place) {
                (ByValue::Same(answer), _) | (ByValue::Values { rest: answer, .. }, None) => *answer,
                (ByValue::Values { answers, .. }, Some(place)) => {
                    answers.get(place as usize).copied().unwrap_or(UNDECIDED)
                }
            };
            match answer {
                UNDECIDED => return Ok(None),
                YES => kept.push((place, i64::from(events))),
                _ => {}
            }
        }
        let all: i64 = kept.iter().map(|(_, events)| events).sum();
        assert!(all <= i64::from(page.info.events), "no more events are counted than the page has");
        let CountedPart::Column { name, decoding, .. } = wanted else {
            return rows_of(slab, &self.projection, None, vec![all]).map(Some);
        };
        let (places, events): (Vec<_>, Vec<_>) = kept.into_iter().unzip();
        let column = match places.iter().any(Option::is_some) {
            true => {
                let values = values_at(column, counts.values(), places, reader)?;
                let values = match decoding {
                    Some(decoding) => decoded(&values, decoding),
                    None => values,
                };
                Some((name, values))
            }
            false => None,
        };
        rows_of(slab, &self.projection, column, events).map(Some)
    }

    /// The part of each event that the report needs; `None` if counts do not suffice.
    fn counted_part(&self, slab: &Slab) -> Option<CountedPart> {
        let Projection { all, every, names, patterns, listed: _, tested_patterns: _, tested_names: _, raw, index_time } =
            &self.projection;
        if *all || *every || *raw || *index_time || !patterns.is_empty() {
            return None;
        }
        let mut wanted = CountedPart::Nothing;
        for name in names {
            let is_metadata = METADATA_FIELDS.contains(&name.as_str()) && !self.rexes.is_path_output(name);
            if is_metadata && slab.metadata(name).is_uniform() {
                continue;
            }
            // There are no patterns here, so a field that is read without being requested is the input of a path.
            if self.rexes.reads_exclusively(name) {
                match slab.field(name) {
                    Some(field) if !field.by_text && field.patterned.is_empty() => continue,
                    _ => return None,
                }
            }
            let field =
                self.field_or_path_locations(name, slab).filter(|field| !field.by_text && field.patterned.is_empty());
            let field = field.filter(|_| !is_intrinsic_field(name))?;
            let (column, decoding) = match field.column {
                Some(column) => (column, None),
                None => field.written_column(&slab.template_set).map(|(column, decoding)| (column, Some(decoding)))?,
            };
            // Counts of templates are not counts of the values that the templates compose.
            let is_counted = match slab.template_set.columns.get(column as usize)?.kind {
                ColumnKind::Dictionary { .. } => true,
                ColumnKind::Numbers { .. } => decoding.is_none(),
                ColumnKind::Templates(_) | ColumnKind::Texts => false,
            };
            let CountedPart::Nothing = wanted else { return None };
            if !is_counted {
                return None;
            }
            wanted = CountedPart::Column { name: name.clone(), column, decoding };
        }
        Some(wanted)
    }

    /// The locations of a field: the locations of its path if the events have no other field of that name, otherwise
    /// the locations of the field itself; `None` if they are unknown.
    fn field_or_path_locations<'s>(&self, name: &str, slab: &'s Slab) -> Option<&'s FieldLocations> {
        let own = slab.field(name);
        let mut paths = self.rexes.paths().iter().zip(slab.paths());
        let path = paths.find_map(|(of_text, located)| {
            let at = of_text.paths.iter().position(|path| path.output == name)?;
            Some(located.as_ref().map(|located| located[at].as_ref()))
        });
        let Some(path) = path else { return own };
        let (path, own) = (path?, own?);
        let is_same = own.column.is_some() && own.column == path.column && !own.by_text && own.patterned.is_empty();
        (is_same || own.is_always_absent()).then_some(path)
    }
}

/// The number of matching events if all or none match; `None` if undecided.
fn count_of_all(by_value: &ByValue, page: &PageRef) -> Option<Vec<i64>> {
    match by_value {
        ByValue::Same(YES) => Some(vec![i64::from(page.info.events)]),
        ByValue::Same(NO) => Some(Vec::new()),
        _ => None,
    }
}

/// The values at these positions, among those whose occurrences the slab counts.
fn values_at(
    column: u32,
    values: &CountedValues,
    places: Vec<Option<u32>>,
    reader: &mut PageReader<'_>,
) -> Result<ArrayRef, EngineError> {
    let values = match values {
        CountedValues::Codes(codes) => ColumnValues::Codes((0..*codes).collect()),
        CountedValues::Numbers(numbers) => ColumnValues::Numbers(numbers.to_vec()),
    };
    typed_column(column, &PageColumn { rows: None, values }, &ValuePositions::Some(places), reader)
}

/// The values of a field that are computed from these texts.
fn decoded(texts: &ArrayRef, decoding: Decoding) -> ArrayRef {
    let (reader, mut scratch) = (ColumnReader::new(texts), String::new());
    let mut values = StringViewBuilder::with_capacity(texts.len());
    for row in 0..texts.len() {
        values.append_option(reader.text(row, &mut scratch).and_then(|text| decoding.value(text)));
    }
    Arc::new(values.finish())
}

/// Rows with an event count each; `None` if there are no rows.
fn rows_of(
    slab: &Slab,
    projection: &Projection,
    column: Option<(String, ArrayRef)>,
    events: Vec<i64>,
) -> Result<Option<RecordBatch>, EngineError> {
    let rows = events.len();
    if events.iter().all(|events| *events == 0) {
        return Ok(None);
    }
    let mut columns: Vec<(String, ArrayRef)> = vec![(rows::EVENTS.into(), Arc::new(Int64Array::from(events)))];
    for field in METADATA_FIELDS.into_iter().filter(|field| projection.includes(field)) {
        columns.push((field.into(), slab.metadata(field).column(std::iter::repeat_n(0, rows))?));
    }
    columns.extend(column);
    rows::batch_of(columns, rows).map(Some)
}
