//! Field statistics of a job's rows: how often each field occurs, its most frequent values, and statistics of its
//! numbers.
//!
//! The rows are read once. Up to [`VALUES_MAX`] distinct values per field are counted. If a field has more values, the
//! counts of the first values are exact, the other values are missing, and [`FieldSummary::is_exact`] is false.

use std::collections::{BTreeMap, HashMap};

use arrow::array::Array;
use jiff::tz::TimeZone;
use quarry_event::value::parse_exact_number;
use quarry_event::{TimeNs, TimeRange};
use quarry_stdx::number::f64_of;

use super::SearchJob;
use super::rows::RowsView;
use super::timeline::Timeline;
use crate::Cell;
use crate::error::SearchError;
use crate::service::RunningSearch;

/// Maximum number of distinct values counted per field; further values are not counted.
const VALUES_MAX: usize = 10_000;
/// Maximum number of fields; further fields are ignored.
const FIELDS_MAX: usize = 1_000;
/// Maximum number of most frequent values per field; further values are omitted.
const MODES_MAX: usize = 100;
/// Maximum bytes of a counted value; of longer values, only this prefix is compared.
const VALUE_BYTES_MAX: usize = 1_024;

/// Maximum number of spans of a field's histogram.
const HISTOGRAM_SPANS_MAX: usize = 100;

/// The rows and statistics that a request selects.
#[derive(Clone, Copy, Debug, Default)]
pub struct SummaryRequest {
    /// Time range of the rows; all rows if absent.
    pub range: Option<TimeRange>,
    /// Whether the rows that have a field are counted by time.
    pub has_histograms: bool,
}

/// Field statistics of some rows.
#[derive(Clone, Debug, Default)]
pub struct JobSummary {
    /// Number of rows.
    pub rows: u64,
    /// Times of the job's earliest and latest event, each clipped to the requested time range; `None` if there
    /// is no event or none can be in the range.
    pub times: Option<(TimeNs, TimeNs)>,
    /// Fields by name.
    pub fields: BTreeMap<String, FieldSummary>,
}

/// Statistics of a field.
#[derive(Clone, Debug, Default)]
pub struct FieldSummary {
    /// Number of rows that have the field.
    pub count: u64,
    /// Number of distinct values that were counted, at most 10,000.
    pub distinct: usize,
    /// Whether every distinct value was counted.
    pub is_exact: bool,
    /// Number of numeric values.
    pub numbers: u64,
    /// Smallest number.
    pub min: f64,
    /// Largest number.
    pub max: f64,
    /// Mean of the numbers.
    pub mean: f64,
    /// Sample standard deviation of the numbers.
    pub deviation: f64,
    /// The most frequent values, most frequent first.
    pub values: Vec<FieldValue>,
    /// Rows that have the field, by time, if requested.
    pub histogram: Option<Timeline>,
}

/// A value and its frequency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldValue {
    /// Value as text.
    pub value: String,
    /// Number of occurrences of the value.
    pub count: u64,
}

/// Field statistics of rows that are added in parts.
#[derive(Clone, Debug, Default)]
pub struct RunningSummary {
    rows: u64,
    has_histograms: bool,
    /// Statistics by field.
    fields: BTreeMap<String, FieldAccumulator>,
}

impl RunningSummary {
    /// Adds rows.
    pub fn add(&mut self, view: &RowsView, zone: &TimeZone) -> Result<(), SearchError> {
        let names: Vec<&String> = view.fields().iter().collect();
        for name in &names {
            if self.fields.len() < FIELDS_MAX && !self.fields.contains_key(*name) {
                let histogram = self.has_histograms.then(|| Timeline::new(HISTOGRAM_SPANS_MAX));
                self.fields.insert((*name).clone(), FieldAccumulator { histogram, ..FieldAccumulator::default() });
            }
        }
        let mut places: Vec<(usize, &mut FieldAccumulator)> = self
            .fields
            .iter_mut()
            .filter_map(|(field, counted)| names.iter().position(|name| *name == field).map(|at| (at, counted)))
            .collect();
        for part in view.tables_with_times(zone) {
            let (table, times) = part?;
            for (number, row) in table.rows().enumerate() {
                self.rows += 1;
                let time = times.as_ref().filter(|times| times.is_valid(number)).map(|times| times.value(number));
                for (at, counted) in &mut places {
                    match row.cell(*at) {
                        Cell::Null => continue,
                        Cell::Single(value) => counted.add(&value),
                        Cell::Multi(values) => values.iter().for_each(|value| counted.add(value)),
                    }
                    counted.rows += 1;
                    if let Some((histogram, time)) = counted.histogram.as_mut().zip(time) {
                        histogram.add(time);
                    }
                }
            }
        }
        Ok(())
    }

    /// Number of rows added.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The statistics so far.
    pub fn fields(&self) -> BTreeMap<String, FieldSummary> {
        self.fields.iter().map(|(name, counted)| (name.clone(), counted.clone().finish())).collect()
    }
}

/// Statistics of a field, accumulated over rows.
#[derive(Clone, Debug, Default)]
struct FieldAccumulator {
    rows: u64,
    values: HashMap<String, u64>,
    is_cut: bool,
    numbers: u64,
    min: f64,
    max: f64,
    mean: f64,
    /// Sum of squared distances from the mean, by Welford's method.
    squares: f64,
    histogram: Option<Timeline>,
}

impl FieldAccumulator {
    fn add(&mut self, value: &str) {
        let mut end = value.len().min(VALUE_BYTES_MAX);
        while !value.is_char_boundary(end) {
            end -= 1;
        }
        let key = &value[..end];
        let has_room = self.values.len() < VALUES_MAX;
        match self.values.get_mut(key) {
            Some(count) => *count += 1,
            None if has_room => drop(self.values.insert(key.to_owned(), 1)),
            None => self.is_cut = true,
        }
        let Some(number) = parse_exact_number(value).map(|number| number.as_f64()) else { return };
        self.numbers += 1;
        let is_first = self.numbers == 1;
        self.min = if is_first { number } else { self.min.min(number) };
        self.max = if is_first { number } else { self.max.max(number) };
        let distance = number - self.mean;
        self.mean += distance / f64_of(self.numbers);
        self.squares += distance * (number - self.mean);
    }

    fn finish(self) -> FieldSummary {
        let distinct = self.values.len();
        let mut values: Vec<FieldValue> =
            self.values.into_iter().map(|(value, count)| FieldValue { value, count }).collect();
        values.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.value.cmp(&other.value)));
        values.truncate(MODES_MAX);
        let deviation = if self.numbers > 1 { (self.squares / f64_of(self.numbers - 1)).sqrt() } else { 0.0 };
        FieldSummary {
            count: self.rows,
            distinct,
            is_exact: !self.is_cut,
            numbers: self.numbers,
            min: self.min,
            max: self.max,
            mean: self.mean,
            deviation,
            values,
            histogram: self.histogram,
        }
    }
}

impl SummaryRequest {
    /// Summarises rows of a job whose events have these earliest and latest times.
    pub(super) fn summarise(
        &self,
        view: RowsView,
        times: Option<(TimeNs, TimeNs)>,
        zone: &TimeZone,
    ) -> Result<JobSummary, SearchError> {
        let view = match self.range {
            Some(range) => view.within(range, 0, usize::MAX),
            None => view,
        };
        let mut counted = self.begin();
        counted.add(&view, zone)?;
        Ok(self.finish(counted, times))
    }

    fn begin(&self) -> RunningSummary {
        RunningSummary { has_histograms: self.has_histograms, ..RunningSummary::default() }
    }

    fn finish(&self, counted: RunningSummary, times: Option<(TimeNs, TimeNs)>) -> JobSummary {
        let fields = counted.fields.into_iter().map(|(name, counted)| (name, counted.finish())).collect();
        let range = self.range.unwrap_or(TimeRange::ALL);
        let times = times.map(|(first, last)| {
            (range.earliest.map_or(first, |bound| first.max(bound)), range.latest.map_or(last, |bound| last.min(bound)))
        });
        JobSummary { rows: counted.rows, times: times.filter(|(first, last)| first <= last), fields }
    }
}

impl SearchJob {
    /// Field statistics of the rows that a search over the rows of this job returns.
    pub fn summary_after(
        &self,
        running: &mut RunningSearch,
        request: &SummaryRequest,
    ) -> Result<JobSummary, SearchError> {
        let mut counted = request.begin();
        while let Some(rows) = running.next_rows()? {
            counted.add(&RowsView::from_batches(&[rows], 0, usize::MAX), &self.zone)?;
        }
        Ok(request.finish(counted, self.timeline().bounds()))
    }
}
