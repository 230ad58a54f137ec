//! `delete`: hides the events found by a search from all later searches.
//!
//! `delete` must follow a search of events and commands that process one event at a time, and be written in the
//! search itself, because only there a row identifies its event ([`crate::plan::Planner::plan_search`]). Pages are
//! read as text, and each row carries its position through the commands in a column ([`POSITION_COLUMN`]). Nothing is
//! deleted before all events are read; then everything is deleted at once. A search that is stopped earlier deletes
//! nothing.
//!
//! Not here: hiding events from later searches (store), the required capability (`crate::permissions`).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{AsArray, UInt32Array};
use arrow::datatypes::UInt32Type;
use arrow::record_batch::RecordBatch;
use quarry_eval::EngineError;
use quarry_eval::command::{MakeRowCommand, RowCommand};
use quarry_eval::context::CommandContext;
use quarry_eval::rows::{self, ColumnBuilder, RowIter, Value, batch_of, of_batches};
use quarry_scan::{EventScan, PageRef};
use quarry_spl::analyse::is_transforming;
use quarry_spl::ast::{Span, Stage};
use quarry_stdx::Fault;
use quarry_store::{Deletion, IndexSelector};

use super::Runner;
use crate::environment::PipelineEnvironment;
use crate::lowering::Step;
use crate::node::DeletionRecord;
use crate::plan::{Deletion as PlannedDeletion, Subsearches};

/// Column with a row's position in its page; no field of events has this name.
const POSITION_COLUMN: &str = "__place";
/// Name of the row for all indexes together.
const ALL_INDEXES: &str = "__ALL__";

/// Number of an index's events that were deleted, and number of its events that could not be deleted.
#[derive(Clone, Copy, Default)]
struct Counts {
    deleted: u64,
    errors: u64,
}

impl Runner {
    /// Deletes the events; returns a row of counts for all indexes together and one for each index with
    /// events to delete.
    pub(crate) fn delete(&self, deleting: &PlannedDeletion) -> Result<RowIter, EngineError> {
        let invalid = |message: String| EngineError::Invalid { message, span: Some(deleting.span) };
        let context = CommandContext { range: deleting.scan.range, ..self.context.clone() };
        let environment = PipelineEnvironment { runner: self, context: &context, subsearches: Subsearches::Run };
        let commands = event_commands(&deleting.commands, &environment)?;
        let mut commands: Vec<_> = commands.iter().map(|make| make()).collect();
        let indexes = IndexSelector::new(deleting.scan.indexes.clone());
        self.source.seal(&indexes).map_err(|fault| EngineError::at(fault.with_context("delete"), deleting.span))?;
        let mut scan = self.event_scan(&deleting.scan, &context)?;
        // Only sealed segments are searched; events that arrived after the sealing are not deleted.
        scan.snapshot.segments.retain(|segment| segment.stored().is_some());
        let allowed = IndexSelector::new(context.permissions.delete_indexes.iter().cloned());
        let (mut deletion, mut counts) = (Deletion::default(), BTreeMap::<String, Counts>::new());
        for page in scan.pages(&context)? {
            if context.stop.should_stop_reading() {
                return Err(invalid("delete: the search was stopped, and nothing is deleted".to_owned()));
            }
            let Some(places) = matching_positions(&scan, &page, &mut commands, &context)? else { continue };
            let of_index = counts.entry(page.segment.index().to_owned()).or_default();
            if !allowed.matches(page.segment.index())
                || !page.segment.add_to_deletion(page.page, &places, &mut deletion)
            {
                of_index.errors += places.len() as u64;
            }
            if deletion.bytes() > self.deletion_bytes {
                let what = "delete: too many events at once, so nothing is deleted; narrow the search".to_owned();
                return Err(EngineError::Limit {
                    what,
                    limit: "memory of a deletion",
                    value: self.deletion_bytes as u64,
                });
            }
        }
        for (index, counts) in counts.iter().filter(|(_, counts)| counts.errors > 0) {
            let (user, errors) = (&context.permissions.user, counts.errors);
            let message = format!("user {user} may not delete from index {index}: {errors} events stay");
            self.context.messages.push(message);
        }
        if deletion.events() > 0 {
            for (index, deleted) in self.commit(&deletion, deleting.span)? {
                counts.entry(index).or_default().deleted = deleted;
            }
        }
        Ok(of_batches(vec![table(&counts, &self.node.name())?]))
    }

    /// Deletes the events found, after recording the deletion.
    fn commit(&self, deletion: &Deletion, span: Span) -> Result<BTreeMap<String, u64>, EngineError> {
        let failed = |fault: Fault| EngineError::at(fault.with_context("delete"), span);
        let context = &self.context;
        let record = DeletionRecord { sid: &context.id, search: &context.search, events: deletion.events() };
        self.node
            .record_deletion(&context.permissions, &record)
            .map_err(|fault| failed(fault.with_context("the deletion could not be recorded, so nothing is deleted")))?;
        self.source.delete(deletion).map_err(failed)
    }
}

/// The commands between the search and `delete`, which must be row commands on events.
pub(crate) fn event_commands(
    stages: &[Stage],
    environment: &PipelineEnvironment<'_>,
) -> Result<Vec<MakeRowCommand>, EngineError> {
    let mut commands = Vec::new();
    for stage in stages {
        let steps = match is_transforming(std::slice::from_ref(stage)) {
            true => Vec::new(),
            false => environment.steps(std::slice::from_ref(stage))?,
        };
        let streams = steps.iter().all(|step| matches!(step, Step::Row { ordered: false, .. }));
        if steps.is_empty() || !streams {
            let message = "delete: every command before it must process one event at a time and keep events, as \
                           where, eval and regex do; this one does not";
            return Err(EngineError::Invalid { message: message.to_owned(), span: Some(stage.span) });
        }
        commands.extend(steps.into_iter().filter_map(Step::into_row));
    }
    Ok(commands)
}

/// Positions of a page's events that pass the commands; `None` if no event passes.
fn matching_positions(
    scan: &EventScan,
    page: &PageRef,
    commands: &mut [Box<dyn RowCommand>],
    context: &CommandContext,
) -> Result<Option<Vec<u32>>, EngineError> {
    let Some((rows, found)) = scan.read_with_positions(page, context)? else { return Ok(None) };
    let mut rows = rows::with_column(&rows, POSITION_COLUMN, Arc::new(UInt32Array::from(found.clone())))?;
    for command in commands {
        if rows.num_rows() == 0 {
            return Ok(None);
        }
        rows = command.apply(rows)?;
    }
    if rows.num_rows() == 0 {
        return Ok(None);
    }
    let places = rows::column(&rows, POSITION_COLUMN).and_then(|column| column.as_primitive_opt::<UInt32Type>());
    let Some(places) = places else {
        return Err(EngineError::invalid(
            "delete: after the commands before it, rows cannot be matched to events; remove them",
        ));
    };
    let mut places: Vec<u32> = places.iter().flatten().collect();
    places.sort_unstable();
    places.dedup();
    // A command may have written a field of this name; only events found by the search are deleted.
    places.retain(|place| found.binary_search(place).is_ok());
    Ok((!places.is_empty()).then_some(places))
}

/// One row for all indexes together and one per index.
fn table(counts: &BTreeMap<String, Counts>, server: &str) -> Result<RecordBatch, EngineError> {
    let mut all = Counts::default();
    for counts in counts.values() {
        (all.deleted, all.errors) = (all.deleted + counts.deleted, all.errors + counts.errors);
    }
    let rows: Vec<(&str, Counts)> = std::iter::once((ALL_INDEXES, all))
        .chain(counts.iter().map(|(index, counts)| (index.as_str(), *counts)))
        .collect();
    let [mut deleted, mut errors, mut indexes, mut servers] = std::array::from_fn(|_| ColumnBuilder::new(rows.len()));
    for (index, counts) in &rows {
        deleted.push_int(counts.deleted as i64);
        errors.push_int(counts.errors as i64);
        indexes.push(Value::owned_text((*index).to_owned()));
        servers.push(Value::owned_text(server.to_owned()));
    }
    let columns = [("deleted", deleted), ("errors", errors), ("index", indexes), ("splunk_server", servers)];
    batch_of(columns.map(|(name, column)| (name, column.finish())), rows.len())
}
