//! Reading template slabs by their codes: fields are stored as columns, and the condition is evaluated on templates and
//! dictionaries instead of events.
//!
//! For each event of a page, the condition yields yes, no or undecided ([`conditions`], [`words`]). The texts of
//! undecided events are rebuilt and processed like events of plain slabs, as are events whose template does not
//! determine the location of a field ([`fields`]). The fields of other events come from the slab's columns
//! ([`columns`]); their text is rebuilt only if the search needs `_raw` or fields whose names it does not know. For
//! example, if user and status are the variables of `user=eva status=404`, then `status=404 | stats count by user`
//! reads two columns and no text.
//!
//! The events of a page are counted without reading the page if the slab stores how often each value occurs in it
//! ([`counts`]).
//!
//! Not here: reading and decoding columns (bucket); the meaning of coded columns for commands (`rows`).

mod ambiguous_columns;
mod ambiguous_rows;
mod by_value;
mod cells;
mod coded_columns;
mod coded_fields;
mod column_codes;
mod columnless_fields;
mod columns;
mod composed_columns;
mod conditions;
mod counts;
mod cursors;
mod decider;
mod derived_fields;
mod divided_keys;
mod edges;
mod extracts;
mod facts;
mod field_locations;
mod fields;
mod group_memos;
mod groups;
mod inner_pairs;
mod interner;
mod json;
mod key_end;
mod key_splits;
mod line_counts;
mod listed_names;
mod listed_values;
mod literals;
mod needle_rows;
mod number_columns;
mod optional_pairs;
mod outcome;
mod page;
mod path_columns;
mod paths;
mod pattern_cost;
mod pattern_readers;
mod planned_template;
mod planning_budget;
mod predicate_filter;
mod prefixed_columns;
mod prefixed_values;
mod reports;
mod rex;
mod roots;
mod row_values;
mod segments;
mod shared_plans;
mod slab;
mod split_decimals;
mod stored_fields;
mod template_index;
mod text_arrays;
mod text_lengths;
mod value_columns;
mod value_location;
mod words;
mod xml;

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, TimestampNanosecondArray, UInt32Array};
use arrow::record_batch::RecordBatch;
use foldhash::fast::FixedState;
use hashbrown::HashSet;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::costs::ScanPart;
use quarry_eval::field_names::METADATA_FIELDS;
use quarry_eval::messages::Messages;
use quarry_eval::rows::{self, concat_rows};
use quarry_event::template::TEXT_COLUMN;
use quarry_event::time::NS_PER_SEC;
use quarry_event::{FieldColumns, PageColumns, TermQuery, TimeRange, ValueColumns};
use quarry_stdx::number::u32_of;
use quarry_store::Segment;

use self::ambiguous_rows::ambiguous_rows;
pub(crate) use self::conditions::{Conditions, RequiredWords};
pub(crate) use self::facts::TemplateFactsCache;
use self::field_locations::FieldLocations;
use self::groups::{Groups, add_extracts, column_where_absent, read_groups, with_commands, with_extracts};
pub(crate) use self::listed_names::listed_names;
pub(crate) use self::needle_rows::NeedleSlabs;
use self::outcome::{NO, Outcome, UNDECIDED, YES};
use self::page::{PageReader, Rows};
pub(crate) use self::pattern_readers::PatternReaders;
pub(crate) use self::rex::RexReader;
use self::roots::reads_on_columns;
pub(crate) use self::slab::SlabCache;
use self::slab::{Slab, SlabRequest};
pub(crate) use self::stored_fields::fields_to_store;
use super::event_fields::is_intrinsic_field;
use super::fields::Projection;
use super::row_selector::PositionedRows;
use super::top_k::TopKThreshold;
use super::{EventScan, PageRef};
use crate::derive::FieldStrategy;
use crate::spath::TEXT_FIELD;

/// Minimum number of undecided events in a page for which a condition is evaluated again, with composed and computed
/// fields.
const UNDECIDED_ROWS_MIN: usize = 16;
/// If a page has at most this many candidate rows, only these rows are read and tested; no column is read whole.
const RARE_ROWS_MAX: usize = 16;

/// Matches are rare if at most one in this many events matches.
const RARE_MATCHES_DIVISOR: usize = 16;

/// Maximum number of columns that are fetched before a condition is known to match.
const PLANNED_COLUMNS_MAX: usize = 16;

/// Result of reading a page by columns.
pub(super) enum TemplateRows {
    /// The page is stored as plain text.
    PlainTexts,
    /// The matching rows.
    Rows(Option<PositionedRows>),
}

/// Field locations in a slab, if its templates determine them.
struct SlabFieldColumns<'a>(Option<&'a Slab>);

impl FieldColumns for SlabFieldColumns<'_> {
    fn columns_of(&self, field: &str) -> Option<ValueColumns> {
        self.0?.field(field)?.columns.clone()
    }
}

/// Like [`SlabFieldColumns`], for a slab that is opened only when a field is requested.
pub(super) struct LazyFieldColumns<'a> {
    pub scan: &'a EventScan,
    pub segment: &'a Arc<dyn Segment>,
    pub messages: &'a Messages,
}

impl FieldColumns for LazyFieldColumns<'_> {
    fn columns_of(&self, field: &str) -> Option<ValueColumns> {
        // Locating the field takes longer than looking for a word in all columns. Numbers occur in many columns.
        if !self.segment.is_remote() && self.scan.tests_words_only(field) {
            return None;
        }
        let names = self.scan.extracted_names();
        // Faults of the slab are reported when it is read.
        let way = self.scan.derivations.strategy_of(self.segment, self.messages).ok()?;
        let slab = self.scan.slabs.of(self.segment, &self.scan.slab_request(&names, &way, self.messages)).ok()?;
        SlabFieldColumns(slab.as_deref()).columns_of(field)
    }
}

impl EventScan {
    /// The matching rows of a page of a template slab, with dictionary-coded columns. `coded` allows omitting `_time`
    /// if nothing requests it, and returning one row for several events.
    pub(super) fn read_templates(
        &self,
        page: &PageRef,
        columns: PageColumns,
        way: &FieldStrategy,
        coded: bool,
        context: &CommandContext,
        left: &mut usize,
    ) -> Result<TemplateRows, EngineError> {
        if let Some(rows) = self.read_needles(page, columns, way, context)? {
            return Ok(TemplateRows::Rows(rows));
        }
        let Some(slab) = self.slab_of(page, way, context)? else { return Ok(TemplateRows::PlainTexts) };
        if page.is_rare && page.segment.is_remote() {
            page.segment.plan_columns(&self.field_columns(&slab))?;
        }
        let mut reader = PageReader::new(&slab, page, columns);
        let in_range = self.rows_in_range(&mut reader, page)?;
        if in_range.is_empty() {
            return Ok(TemplateRows::Rows(None));
        }
        if page.is_rare
            && let Some(rows) = context.costs.measure_part(ScanPart::Index, || {
                let known = SlabFieldColumns(Some(slab.as_ref()));
                page.segment.candidate_rows(page.page, self.filter.terms(), &known, RARE_ROWS_MAX)
            })?
        {
            let rows = match in_range {
                Rows::All(_) => rows,
                Rows::Some(in_range) => rows.into_iter().filter(|row| in_range.binary_search(row).is_ok()).collect(),
            };
            return Ok(TemplateRows::Rows(self.read_candidates(rows, &mut reader, coded, context)?));
        }
        if coded
            && matches!(in_range, Rows::All(_))
            && let Some(rows) = self.counted_rows(page, &mut reader)?
        {
            return Ok(TemplateRows::Rows(rows.map(representative_rows)));
        }
        let outcome = context.costs.measure_part(ScanPart::Filter, || self.evaluate_condition(&mut reader))?;
        if coded && self.is_represented_by_extremes(&outcome, &in_range, &slab) {
            return self.extreme_rows(page, &slab).map(|rows| TemplateRows::Rows(Some(representative_rows(rows))));
        }
        let rows = self.filter_by_terms(page, split_outcome(outcome, in_range), &reader, left)?;
        Ok(TemplateRows::Rows(self.build_rows(rows, &mut reader, coded, context, left)?))
    }

    /// The columns with the fields that the search returns; none if they are many.
    fn field_columns(&self, slab: &Slab) -> Vec<u32> {
        let fields = self.projection.names.iter().filter_map(|name| slab.field(name)?.columns.as_ref());
        let columns: Vec<u32> = fields.flat_map(|values| values.columns.iter().copied()).collect();
        if columns.len() > PLANNED_COLUMNS_MAX { Vec::new() } else { columns }
    }

    /// Builds the rows at these positions of a page of a template slab from their texts.
    pub(super) fn read_templates_at(
        &self,
        page: &PageRef,
        selected: &[u32],
        columns: PageColumns,
        way: &FieldStrategy,
        context: &CommandContext,
    ) -> Result<TemplateRows, EngineError> {
        let Some(slab) = self.slab_of(page, way, context)? else { return Ok(TemplateRows::PlainTexts) };
        let (rows, positions) =
            self.test_undecided(selected.to_vec(), &mut PageReader::new(&slab, page, columns), context)?;
        Ok(TemplateRows::Rows(rows.map(|rows| PositionedRows { rows, positions })))
    }

    /// The facts about a slab that the search needs; `names` are the fields that it reads.
    fn slab_request<'a>(
        &'a self,
        names: &'a [String],
        way: &'a FieldStrategy,
        messages: &'a Messages,
    ) -> SlabRequest<'a> {
        SlabRequest {
            rules: &self.rules,
            names,
            paths: self.rexes.paths(),
            is_listed: self.projection.listed.is_some(),
            words: self.filter.conditions().words().len(),
            tested: self.filter.conditions().tested_fields().collect(),
            computed: way.computed.as_ref(),
            messages,
        }
    }

    /// Whether each value that is looked up for a field has a token with a letter.
    fn tests_words_only(&self, field: &str) -> bool {
        has_only_words(self.filter.terms(), field) && has_only_words(self.demands.terms(), field)
    }

    /// The template slab of a page; `None` if the page is stored as plain text.
    fn slab_of(
        &self,
        page: &PageRef,
        way: &FieldStrategy,
        context: &CommandContext,
    ) -> Result<Option<Arc<Slab>>, EngineError> {
        let names = self.extracted_names();
        let asked = self.slab_request(&names, way, &context.messages);
        Ok(self.slabs.of(&page.segment, &asked)?.filter(|_| page.segment.has_templates(page.page)))
    }

    /// Builds the matching rows of a page in order of arrival; `sure` match, of `maybe` those that match by their text.
    fn build_rows(
        &self,
        (sure, mut maybe): (Rows, Vec<u32>),
        reader: &mut PageReader<'_>,
        coded: bool,
        context: &CommandContext,
        left: &mut usize,
    ) -> Result<Option<PositionedRows>, EngineError> {
        let slab = reader.slab;
        let mut sure = self.apply_top_k(sure, reader, left)?;
        let costs = &context.costs;
        let computed = costs.measure_part(ScanPart::Rules, || self.computed_columns(&mut sure, &mut maybe, reader))?;
        let mut rexes = self.rexes.take_readers(&slab.template_set);
        if !self.projection.includes_unnamed() {
            add_extracts(&mut rexes, self.rexes.kept(), slab, |name| {
                let is_asked_for = !is_intrinsic_field(name) && slab.needs_pattern(name) && !slab.is_computed(name);
                is_asked_for && self.projection.names.iter().any(|wanted| wanted == name)
            });
        }
        let mut groups = Vec::new();
        // Rows that are dropped here need neither patterns nor the columns that patterns read.
        if !sure.is_empty() {
            let known = self.filter_by_groups(&mut rexes, &mut sure, reader, left)?;
            groups = costs
                .measure_part(ScanPart::Fields, || read_groups(&mut rexes, known, &mut sure, &mut maybe, reader))?;
        }
        let sure_rows = match sure.is_empty() {
            true => None,
            false => {
                let overwriting = match (rexes.as_slice(), groups.as_slice()) {
                    ([rex], [groups]) if rex.is_command_on_texts() && self.rexes.paths().is_empty() => {
                        Some((rex, groups))
                    }
                    _ => None,
                };
                let rows = self.columns_of_matches(&sure, overwriting, reader, coded, context)?;
                let rows = with_extracts(rows, &rexes, &mut groups, slab)?;
                let rows = self.with_computed(rows, &sure, computed, reader)?;
                let rows = with_commands(rows, &rexes, &mut groups, slab)?;
                let rows = costs.measure_part(ScanPart::Fields, || self.add_paths(rows, &sure, reader))?;
                let rows = self.add_lengths(rows, &sure, reader)?;
                assert_eq!(rows.num_rows(), sure.len(), "columns that are added leave the rows as they are");
                Some(rows)
            }
        };
        self.rexes.return_readers(rexes);
        let (maybe_rows, kept) = self.test_undecided(maybe, reader, context)?;
        join_rows((sure_rows, sure.into_vec()), (maybe_rows, kept))
    }

    /// Adds the lengths of the event texts.
    fn add_lengths(
        &self,
        mut rows: RecordBatch,
        sure: &Rows,
        reader: &mut PageReader<'_>,
    ) -> Result<RecordBatch, EngineError> {
        for output in self.rexes.length_fields() {
            rows = rows::with_column(&rows, output, text_lengths::text_lengths(sure, reader)?)?;
        }
        Ok(rows)
    }

    /// The result of the condition for each event of a page.
    fn evaluate_condition(&self, reader: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        let mut outcome = self.filter.conditions().run(reader)?;
        outcome = self.reevaluate_composites(outcome, reader)?;
        if reader.may_override_locations() {
            outcome = self.mark_indexed_undecided(outcome, reader)?;
        }
        if !self.projection.includes_unnamed() {
            outcome = self.mark_unlocated_undecided(outcome, reader)?;
            outcome = mark_open_undecided(outcome, reader)?;
        }
        Ok(outcome)
    }

    /// Whether the first and last event can represent a page: all its events match, and their requested fields differ
    /// only in their times.
    fn is_represented_by_extremes(&self, outcome: &Outcome, in_range: &Rows, slab: &Slab) -> bool {
        let Projection { all, every, names, patterns, listed: _, tested_patterns: _, tested_names: _, raw, index_time } =
            &self.projection;
        let is_alike = |name: &String| {
            name == "_time" || METADATA_FIELDS.contains(&name.as_str()) && slab.metadata(name).is_uniform()
        };
        let all_match = matches!(in_range, Rows::All(_)) && outcome.is_all(YES);
        let is_more = *all || *every || *raw || *index_time || !patterns.is_empty();
        let is_rest = self.rexes.is_empty() && self.top_k.is_none();
        self.extremes && all_match && is_rest && !is_more && names.iter().all(is_alike)
    }

    /// The first and last event of a page of otherwise equal events, with the number of events each represents. The
    /// time range listed for a page of a template slab is exact; a part of a page, whose time range may be too wide,
    /// never has templates.
    fn extreme_rows(&self, page: &PageRef, slab: &Slab) -> Result<RecordBatch, EngineError> {
        assert!(page.info.events > 0, "a page whose events all match has an event");
        let (times, events) = match i64::from(page.info.events) {
            1 => (vec![page.info.time_min], vec![1]),
            events => (vec![page.info.time_min, page.info.time_max], vec![1, events - 1]),
        };
        let rows = times.len();
        let mut columns: Vec<(String, ArrayRef)> = vec![(rows::EVENTS.into(), Arc::new(Int64Array::from(events)))];
        if self.projection.includes("_time") {
            columns.push(("_time".into(), Arc::new(TimestampNanosecondArray::from(times))));
        }
        for field in METADATA_FIELDS.into_iter().filter(|field| self.projection.includes(field)) {
            columns.push((field.into(), slab.metadata(field).column(std::iter::repeat_n(0, rows))?));
        }
        rows::batch_of(columns, rows)
    }

    /// Drops rows that cannot be among the first of the top-k sort, if the sort key is a field of the slab.
    fn apply_top_k(&self, sure: Rows, reader: &mut PageReader<'_>, left: &mut usize) -> Result<Rows, EngineError> {
        let field = self.top_k.as_ref().and_then(|top_k| Some((top_k, reader.slab.field(top_k.event_field()?)?)));
        let Some((top_k, field)) =
            field.filter(|(_, field)| !field.by_text && field.patterned.is_empty() && !sure.is_empty())
        else {
            return Ok(sure);
        };
        let values = columns::field_column(field, &sure, reader)?;
        let Some(kept) = top_k.candidate_mask(values.as_ref(), None, sure.len()) else { return Ok(sure) };
        let rows: Vec<u32> = sure.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(row, _)| row).collect();
        *left += sure.len() - rows.len();
        Ok(Rows::Some(rows))
    }

    /// Evaluates the condition again if many events are undecided because a field is composed of several parts or
    /// computed: the text of the field is smaller than the text of the event.
    fn reevaluate_composites(&self, outcome: Outcome, reader: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        let open: Vec<u32> = match &outcome {
            Outcome::Same(UNDECIDED) => (0..u32_of(reader.len())).collect(),
            Outcome::Same(_) => Vec::new(),
            Outcome::Each(answers) => memchr::memchr_iter(UNDECIDED, answers).map(u32_of).collect(),
        };
        let conditions = self.filter.conditions();
        if open.len() < UNDECIDED_ROWS_MIN || !conditions.tests_composites(reader.slab)? {
            return Ok(outcome);
        }
        if conditions.tests_computed(reader.slab) {
            let rows = match open.len() == reader.len() {
                true => Rows::All(u32_of(open.len())),
                false => Rows::Some(open.clone()),
            };
            reader.computed = Some(self.computed_rows(rows, reader)?);
        }
        reader.open = Some(open);
        conditions.run(reader)
    }

    /// Names of the extracted fields.
    pub(crate) fn extracted_names(&self) -> Vec<String> {
        let wanted = self.projection.names.iter().map(String::as_str);
        let all = wanted.chain(self.filter.names()).chain(self.top_k.as_ref().and_then(TopKThreshold::event_field));
        let mut known = HashSet::with_hasher(FixedState::default());
        all.filter(|name| !is_intrinsic_field(name) && known.insert(*name)).map(str::to_owned).collect()
    }

    fn rows_in_range(&self, reader: &mut PageReader<'_>, page: &PageRef) -> Result<Rows, EngineError> {
        if self.covers_page(page) {
            return Ok(Rows::All(page.info.events));
        }
        Ok(Rows::Some(self.event_rows_in_range(reader.events()?.as_ref(), &page.info)))
    }

    /// Makes events undecided if they have an index-time field that the search reads, unless the field is located in a
    /// column of its own.
    fn mark_indexed_undecided(&self, outcome: Outcome, reader: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        let slab = reader.slab;
        let fields = reader.fields_by_row()?;
        let matches_pattern = |name: &str| self.projection.has_patterns() && self.projection.includes(name);
        let is_read = |name: &str| slab.reads_field(name) || matches_pattern(name);
        let mut doubted: Vec<u32> = fields.iter().filter(|field| is_read(field.name)).map(|field| field.row).collect();
        for column in slab.overriding_columns() {
            match &reader.column(*column)?.rows {
                Some(rows) => doubted.extend_from_slice(rows),
                None => return Ok(Outcome::Same(UNDECIDED)),
            }
        }
        if doubted.is_empty() {
            return Ok(outcome);
        }
        let mut each = outcome.into_each(reader.len());
        doubted.into_iter().for_each(|row| each[row as usize] = UNDECIDED);
        Ok(Outcome::Each(each))
    }

    /// Makes matching events undecided if a requested field must be read from their text, or if one of their values
    /// may contain the field's name as a key.
    fn mark_unlocated_undecided(&self, outcome: Outcome, reader: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
        if outcome.is_all(NO) {
            return Ok(outcome);
        }
        let slab = reader.slab;
        let fields = self.projection.names.iter().filter_map(|name| slab.field(name));
        // Paths of fields are evaluated on the fields' values.
        let of_events = self.rexes.paths().iter().zip(slab.paths()).filter(|(paths, _)| paths.source == TEXT_FIELD);
        let of_events = of_events.flat_map(|(_, located)| located.iter().flatten().map(Arc::as_ref));
        let fields: Vec<&FieldLocations> = fields.chain(of_events).collect();
        self.mark_fields_undecided(&fields, outcome, reader)
    }

    /// Makes matching events undecided if one of these fields must be read from their text.
    fn mark_fields_undecided(
        &self,
        fields: &[&FieldLocations],
        outcome: Outcome,
        reader: &mut PageReader<'_>,
    ) -> Result<Outcome, EngineError> {
        let mut outcome = mark_repeated_undecided(fields, outcome, reader)?;
        if let Some(by_key) = text_only_keys(fields, reader.slab) {
            let keys = reader.keys()?;
            if keys.iter().any(|key| by_key[*key as usize]) {
                let mut each = outcome.into_each(keys.len());
                for (answer, key) in each.iter_mut().zip(keys.iter()) {
                    if *answer == YES && by_key[*key as usize] {
                        *answer = UNDECIDED;
                    }
                }
                outcome = Outcome::Each(each);
            }
        }
        for field in fields {
            let rows = ambiguous_rows(field, reader)?;
            if !rows.is_empty() {
                let mut each = outcome.into_each(reader.len());
                for row in rows {
                    let answer = &mut each[row as usize];
                    *answer = if *answer == YES { UNDECIDED } else { *answer };
                }
                outcome = Outcome::Each(each);
            }
        }
        Ok(outcome)
    }

    /// The matching rows among a few candidates, decided by the values of the requested fields if these suffice.
    fn read_candidates(
        &self,
        rows: Vec<u32>,
        reader: &mut PageReader<'_>,
        coded: bool,
        context: &CommandContext,
    ) -> Result<Option<PositionedRows>, EngineError> {
        let is_computed = self.projection.names.iter().any(|name| reader.slab.is_computed(name));
        let wants_text = self.projection.raw || self.projection.has_patterns();
        let by_text = wants_text || reader.may_override_locations() || !self.rexes.is_empty() || is_computed;
        if rows.is_empty() || by_text || reader.slab.needs_any_pattern() {
            let (rows, positions) = self.test_undecided(rows, reader, context)?;
            return Ok(rows.map(|rows| PositionedRows { rows, positions }));
        }
        let mut answers =
            context.costs.measure_part(ScanPart::Filter, || self.filter.conditions().test_rows(&rows, reader))?;
        assert_eq!(answers.len(), rows.len(), "each row has its answer");
        let slab = reader.slab;
        let fields: Vec<&FieldLocations> = self.projection.names.iter().filter_map(|name| slab.field(name)).collect();
        let by_key = text_only_keys(&fields, slab);
        let doubted: Vec<&FieldLocations> =
            fields.into_iter().filter(|field| !field.ambiguous_columns.is_empty()).collect();
        if by_key.is_some() || !doubted.is_empty() {
            let keys = reader.keys()?;
            let asked = Rows::Some(rows.clone());
            let of_fields =
                doubted.iter().map(|field| Ok((*field, divided_keys::keys_of_rows(field, &asked, reader)?)));
            let of_fields = of_fields.collect::<Result<Vec<_>, EngineError>>()?;
            for (answer, row) in answers.iter_mut().zip(&rows).filter(|(answer, _)| **answer == YES) {
                let at = *row as usize;
                let by_text = by_key.as_ref().is_some_and(|by_key| by_key[keys[at] as usize]);
                if by_text || of_fields.iter().any(|(field, keys)| field.is_ambiguous(keys[at])) {
                    *answer = UNDECIDED;
                }
            }
        }
        for field in self.projection.names.iter().filter_map(|name| reader.slab.field(name)) {
            let repeated = reader.rows_with_multiple_values(&field.repeatable_columns)?;
            let doubted = answers.iter_mut().zip(&rows).filter(|(_, row)| repeated.binary_search(row).is_ok());
            doubted.filter(|(answer, _)| **answer == YES).for_each(|(answer, _)| *answer = UNDECIDED);
        }
        let with = |wanted: u8| rows.iter().zip(&answers).filter(move |(_, answer)| **answer == wanted);
        let sure = Rows::Some(with(YES).map(|(row, _)| *row).collect());
        let sure_rows = match sure.is_empty() {
            true => None,
            false => Some(self.columns_of_matches(&sure, None, reader, coded, context)?),
        };
        let maybe = with(UNDECIDED).map(|(row, _)| *row).collect();
        let (maybe_rows, kept) = self.test_undecided(maybe, reader, context)?;
        join_rows((sure_rows, sure.into_vec()), (maybe_rows, kept))
    }

    /// The columns of matching rows. `overwriting` is the only pattern, if it is a command on the texts; its groups
    /// overwrite fields.
    fn columns_of_matches(
        &self,
        sure: &Rows,
        overwriting: Option<(&RexReader, &Groups)>,
        reader: &mut PageReader<'_>,
        coded: bool,
        context: &CommandContext,
    ) -> Result<RecordBatch, EngineError> {
        if self.projection.includes_unnamed() {
            let rows: Vec<u32> = sure.iter().collect();
            let events = context.costs.measure_part(ScanPart::RawData, || reader.rebuild_rows(&rows))?;
            let all: Vec<u32> = (0..u32_of(rows.len())).collect();
            let batch = self.columns(&events, &all, context)?;
            return self.drop_filter_columns(batch);
        }
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        if !coded || self.projection.includes("_time") {
            let events = reader.events()?;
            let times: TimestampNanosecondArray = match sure {
                Rows::All(_) => events.time.clone().into(),
                Rows::Some(rows) => rows.iter().map(|row| events.time[*row as usize]).collect::<Vec<_>>().into(),
            };
            columns.push(("_time".into(), Arc::new(times)));
        }
        if self.projection.raw {
            let rows: Vec<u32> = sure.iter().collect();
            let texts = context.costs.measure_part(ScanPart::RawData, || reader.texts(TEXT_COLUMN, &rows))?;
            columns.push(("_raw".into(), text_arrays::text_array(&texts.bytes, &texts.ends)?));
        }
        for field in METADATA_FIELDS.into_iter().filter(|field| self.projection.includes(field)) {
            columns.push((field.into(), self.metadata_column(field, sure, reader)?));
        }
        if self.projection.index_time {
            let events = reader.events()?;
            let seconds = sure.iter().map(|row| events.index_time.get(row as usize).map(|time| time / NS_PER_SEC));
            columns.push(("_indextime".into(), Arc::new(seconds.collect::<Int64Array>())));
        }
        let slab = reader.slab;
        let is_read_here = |name: &&String| {
            let is_read_by_rex = self.rexes.reads_exclusively(name) && reads_on_columns(slab, name);
            !is_intrinsic_field(name) && !is_read_by_rex
        };
        let names = self.projection.names.iter().filter(is_read_here);
        let fields: Vec<(&String, &FieldLocations)> =
            names.filter_map(|name| slab.field(name).map(|field| (name, field))).collect();
        let stored: Vec<u32> = fields.iter().filter_map(|(_, field)| field.column).collect();
        reader.prefetch_columns(&stored, sure)?;
        for (name, field) in fields {
            let codes = overwriting.and_then(|(rex, found)| {
                let at = rex.groups.iter().position(|(_, group)| group == name)?;
                found.codes.get(at)
            });
            let column = context.costs.measure_part(ScanPart::Fields, || match codes {
                Some(codes) => column_where_absent(codes, field, sure, reader),
                None => columns::field_column(field, sure, reader),
            })?;
            if let Some(column) = column {
                columns.push((name.clone(), column));
            }
        }
        rows::batch_of(columns, sure.len())
    }

    /// A metadata field of these rows.
    fn metadata_column(&self, field: &str, rows: &Rows, reader: &mut PageReader<'_>) -> Result<ArrayRef, EngineError> {
        let metadata = reader.slab.metadata(field);
        match (metadata.is_uniform(), rows) {
            // All events have the same value, so the codes need not be read.
            (true, rows) => metadata.column(std::iter::repeat_n(0, rows.len())),
            (false, Rows::All(_)) => metadata.column(reader.metas()?.iter().copied()),
            (false, Rows::Some(rows)) => {
                let metas = reader.metas()?;
                metadata.column(rows.iter().map(|row| metas[*row as usize]))
            }
        }
    }

    /// The rows that match by their text, and their positions.
    fn test_undecided(
        &self,
        maybe: Vec<u32>,
        reader: &mut PageReader<'_>,
        context: &CommandContext,
    ) -> Result<(Option<RecordBatch>, Vec<u32>), EngineError> {
        if maybe.is_empty() {
            return Ok((None, maybe));
        }
        let events = context.costs.measure_part(ScanPart::RawData, || reader.rebuild_rows(&maybe))?;
        let all = (0..u32_of(maybe.len())).collect();
        let found = self.filter_rows(&events, all, context)?;
        Ok(match found {
            Some((batch, kept)) => (Some(batch), kept.into_iter().map(|place| maybe[place as usize]).collect()),
            None => (None, Vec::new()),
        })
    }

    /// Whether the time range covers the whole page, and arrival times are not restricted.
    pub(super) fn covers_page(&self, page: &PageRef) -> bool {
        self.index_range == TimeRange::ALL
            && self.range.contains(page.info.time_min)
            && self.range.contains(page.info.time_max)
    }

    /// Whether every event of the page becomes a row.
    pub fn matches_every_event(&self, page: &PageRef) -> bool {
        self.covers_page(page) && self.filter.conditions().is_always()
    }

    /// Whether only the number of events is requested.
    pub(super) fn only_counts(&self) -> bool {
        let Projection {
            all,
            every: _,
            names,
            patterns,
            listed: _,
            tested_patterns: _,
            tested_names: _,
            raw,
            index_time,
        } = &self.projection;
        let wants_nothing = !all && names.is_empty() && patterns.is_empty() && !raw && !index_time;
        wants_nothing && self.filter.conditions().is_always()
    }
}

/// Whether each value of a field in the query has a token with a letter.
fn has_only_words(query: &TermQuery, field: &str) -> bool {
    match query {
        TermQuery::Value { field: known, tokens, .. } => **known != *field || has_letters(tokens),
        TermQuery::And(parts) | TermQuery::Or(parts) => parts.iter().all(|part| has_only_words(part, field)),
        _ => true,
    }
}

/// Whether the events that a query finds have a token with a letter.
fn has_letters(query: &TermQuery) -> bool {
    match query {
        TermQuery::Token(token) | TermQuery::Prefix(token) => token.bytes().any(|byte| !byte.is_ascii_digit()),
        TermQuery::And(parts) => parts.iter().any(has_letters),
        TermQuery::Or(parts) => parts.iter().filter(|part| !matches!(part, TermQuery::Marked(_))).all(has_letters),
        _ => false,
    }
}

/// Makes matching events undecided if they may have fields beyond those that the search lists.
fn mark_open_undecided(outcome: Outcome, reader: &mut PageReader<'_>) -> Result<Outcome, EngineError> {
    let Some(open) = reader.slab.open_keys() else { return Ok(outcome) };
    let keys = reader.keys()?;
    if !keys.iter().any(|key| open[*key as usize]) {
        return Ok(outcome);
    }
    let mut each = outcome.into_each(reader.len());
    let sure = each.iter_mut().zip(keys.iter()).filter(|(answer, _)| **answer == YES);
    sure.filter(|(_, key)| open[**key as usize]).for_each(|(answer, _)| *answer = UNDECIDED);
    Ok(Outcome::Each(each))
}

/// Makes matching events undecided if they contain a requested field several times.
fn mark_repeated_undecided(
    fields: &[&FieldLocations],
    mut outcome: Outcome,
    reader: &mut PageReader<'_>,
) -> Result<Outcome, EngineError> {
    for field in fields {
        let repeated = reader.rows_with_multiple_values(&field.repeatable_columns)?;
        if !repeated.is_empty() {
            let mut each = outcome.into_each(reader.len());
            let sure = repeated.into_iter().filter(|row| each[*row as usize] == YES).collect::<Vec<_>>();
            sure.into_iter().for_each(|row| each[row as usize] = UNDECIDED);
            outcome = Outcome::Each(each);
        }
    }
    Ok(outcome)
}

/// By key: whether one of these fields must be read from text; `None` if no field must.
fn text_only_keys(fields: &[&FieldLocations], slab: &Slab) -> Option<Vec<bool>> {
    let mut unplaced = fields.iter().filter(|field| field.by_text).peekable();
    unplaced.peek()?;
    let mut by_key = vec![false; slab.key_count()];
    for field in unplaced {
        for (key, place) in (0u32..).zip(&field.locations) {
            // If a pattern may produce the field, the pattern is evaluated first.
            if *place == value_location::ValueLocation::Text && !field.is_patterned(key) {
                by_key[field.slab_key(key as usize)] = true;
            }
        }
    }
    by_key.contains(&true).then_some(by_key)
}

/// Rows that match, and rows that may match, within the range.
fn split_outcome(outcome: Outcome, in_range: Rows) -> (Rows, Vec<u32>) {
    match outcome {
        Outcome::Same(YES) => (in_range, Vec::new()),
        Outcome::Same(UNDECIDED) => (Rows::Some(Vec::new()), in_range.into_vec()),
        Outcome::Same(_) => (Rows::Some(Vec::new()), Vec::new()),
        Outcome::Each(answers) => {
            let is_whole = !matches!(&in_range, Rows::All(_)) || in_range.len() == answers.len();
            assert!(is_whole, "each event of a page has its answer");
            let with = |wanted: u8| -> Vec<u32> {
                match &in_range {
                    Rows::All(_) => rows_with(wanted, &answers),
                    Rows::Some(rows) => rows.iter().copied().filter(|row| answers[*row as usize] == wanted).collect(),
                }
            };
            let (sure, maybe) = (with(YES), with(UNDECIDED));
            let whole = matches!(in_range, Rows::All(_)) && sure.len() == answers.len();
            (if whole { in_range } else { Rows::Some(sure) }, maybe)
        }
    }
}

/// The rows that have this answer. If they are rare, whole blocks of other rows are skipped.
fn rows_with(wanted: u8, answers: &[u8]) -> Vec<u32> {
    let count = answers.iter().filter(|answer| **answer == wanted).count();
    if count <= answers.len() / RARE_MATCHES_DIVISOR {
        return memchr::memchr_iter(wanted, answers).map(u32_of).collect();
    }
    let mut rows = Vec::with_capacity(count);
    rows.extend((0u32..).zip(answers).filter(|(_, answer)| **answer == wanted).map(|(row, _)| row));
    rows
}

/// Rows without positions, because each may represent several events.
fn representative_rows(rows: RecordBatch) -> PositionedRows {
    PositionedRows { rows, positions: Vec::new() }
}

/// The rows certain to match and the undecided rows that turned out to match, with the position of each.
fn join_rows(
    (sure, sure_at): (Option<RecordBatch>, Vec<u32>),
    (maybe, maybe_at): (Option<RecordBatch>, Vec<u32>),
) -> Result<Option<PositionedRows>, EngineError> {
    Ok(match (sure, maybe) {
        (Some(sure), Some(maybe)) => Some(merge_rows(sure, sure_at, maybe, maybe_at)?),
        (Some(rows), None) => Some(PositionedRows { rows, positions: sure_at }),
        (None, Some(rows)) => {
            assert_eq!(rows.num_rows(), maybe_at.len(), "each row that matches by its text has its place");
            Some(PositionedRows { rows, positions: maybe_at })
        }
        (None, None) => None,
    })
}

/// Merges both kinds of rows in order of arrival.
fn merge_rows(
    sure: RecordBatch,
    mut positions: Vec<u32>,
    maybe: RecordBatch,
    maybe_at: Vec<u32>,
) -> Result<PositionedRows, EngineError> {
    assert_eq!(sure.num_rows(), positions.len(), "each row that matches has its place");
    assert_eq!(maybe.num_rows(), maybe_at.len(), "each row that matches by its text has its place");
    let rows = concat_rows(vec![rows::decode_rows(&sure)?, maybe])?;
    positions.extend(maybe_at);
    let mut places: Vec<u32> = (0..u32_of(rows.num_rows())).collect();
    places.sort_by_key(|place| positions[*place as usize]);
    let positions = places.iter().map(|place| positions[*place as usize]).collect();
    Ok(PositionedRows { rows: rows::take(&rows, &UInt32Array::from(places))?, positions })
}
