//! `dbinspect`: lists the buckets of indexes.

use std::collections::BTreeMap;

use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{ColumnBuilder, RowIter, Value, batch_of, of_batches};
use quarry_eval::spans::TimeSpans;
use quarry_event::TimeRange;
use quarry_event::time::{NS_PER_SEC, strftime};
use quarry_spl::ast::DbInspectCommand;
use quarry_stdx::number::f64_of;
use quarry_store::{BucketListing, IndexSelector, ListingState};

use super::Execute;
use crate::lowering::SearchEnvironment;

/// Bytes of a megabyte.
const MEGABYTE: f64 = 1_048_576.0;

impl Execute for DbInspectCommand {
    fn generate(&self, search: &dyn SearchEnvironment) -> Result<Option<RowIter>, EngineError> {
        Ok(Some(of_batches(vec![rows_of(self, search)?])))
    }
}

fn rows_of(command: &DbInspectCommand, search: &dyn SearchEnvironment) -> Result<RecordBatch, EngineError> {
    let wanted = if command.indexes.is_empty() { search.default_indexes().to_vec() } else { command.indexes.clone() };
    let range = if command.all_time { TimeRange::ALL } else { search.context().range };
    let Some(mut buckets) = search.source().buckets(&IndexSelector::new(wanted), &range)? else {
        return Err(EngineError::invalid(
            "dbinspect: this search runs without a data directory, so there are no buckets",
        ));
    };
    if command.corrupt_only {
        buckets.clear();
    }
    match command.span {
        None => buckets_table(&buckets, command, &search.node().name(), search.context()),
        Some(span) => {
            let mut spans = TimeSpans::new(span, None, search.context())?;
            by_time(&buckets, |time| spans.floor(time))
        }
    }
}

/// One row per bucket.
fn buckets_table(
    buckets: &[BucketListing],
    command: &DbInspectCommand,
    server: &str,
    context: &CommandContext,
) -> Result<RecordBatch, EngineError> {
    let seconds = |time: i64| Value::Int(time.div_euclid(NS_PER_SEC));
    let state = |state: ListingState| match state {
        ListingState::Hot => "hot",
        ListingState::Sealing => "warm (sealing)",
        ListingState::Sealed => "warm",
    };
    type Cell<'c> = &'c dyn Fn(&BucketListing) -> Value<'static>;
    let cells: [(&str, Cell<'_>); 12] = [
        ("bucketId", &|bucket| Value::owned_text(bucket.id.clone())),
        ("endEpoch", &|bucket| seconds(bucket.time_max)),
        ("endTime", &|bucket| Value::owned_text(strftime(bucket.time_max, &command.time_format, &context.zone))),
        ("eventCount", &|bucket| Value::Int(bucket.events as i64)),
        ("id", &|bucket| Value::owned_text(bucket.id.rsplit('~').next().unwrap_or_default().to_owned())),
        ("index", &|bucket| Value::owned_text(bucket.index.clone())),
        ("rawSize", &|bucket| Value::Int(bucket.raw_bytes as i64)),
        ("sizeOnDiskMB", &|bucket| Value::owned_text(format!("{:.6}", f64_of(bucket.stored_bytes) / MEGABYTE))),
        ("splunk_server", &|_| Value::owned_text(server.to_owned())),
        ("startEpoch", &|bucket| seconds(bucket.time_min)),
        ("startTime", &|bucket| Value::owned_text(strftime(bucket.time_min, &command.time_format, &context.zone))),
        ("state", &|bucket| Value::borrowed_text(state(bucket.state))),
    ];
    let columns = cells.into_iter().map(|(name, cell)| {
        let mut column = ColumnBuilder::new(buckets.len());
        buckets.iter().for_each(|bucket| column.push(cell(bucket)));
        (name, column.finish())
    });
    batch_of(columns, buckets.len())
}

/// A row for each span of time, with the number of buckets that begin in it, by state.
fn by_time(buckets: &[BucketListing], mut floor: impl FnMut(i64) -> i64) -> Result<RecordBatch, EngineError> {
    let mut counts: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for bucket in buckets {
        let entry = counts.entry(floor(bucket.time_min)).or_default();
        match bucket.state {
            ListingState::Hot => entry.0 += 1,
            ListingState::Sealing | ListingState::Sealed => entry.1 += 1,
        }
    }
    let mut columns: [ColumnBuilder; 3] = std::array::from_fn(|_| ColumnBuilder::new(counts.len()));
    for (time, (hot, warm)) in &counts {
        columns[0].push(Value::Time(*time));
        columns[1].push_int(*hot);
        columns[2].push_int(*warm);
    }
    let names = ["_time", "hot", "warm"];
    batch_of(names.into_iter().zip(columns.map(ColumnBuilder::finish)), counts.len())
}
