//! `delete`: the events that a search finds are taken out of every later one.
//!
//! It stands behind a search of events and commands that look at one event at a time, in a search as it was written:
//! nowhere else does a row still tell which event it is ([`Runner::run_search`]). Pages are read by their text, and each
//! row carries its place through the commands in a column ([`PLACE`]). Nothing is deleted before all are read, and then
//! everything at once; a search that is stopped before deletes nothing.
//!
//! Not here: how events are kept out of later searches (store), the capability (`permitted`).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{AsArray, UInt32Array};
use arrow::datatypes::UInt32Type;
use arrow::record_batch::RecordBatch;
use quarry_spl::analyse::is_transforming;
use quarry_spl::ast::{Command, DeleteCommand, Pipeline, SearchCommand, Span, Stage};
use quarry_store::{DELETION_BYTES_MAX, Deletion, IndexSelector};

use super::Execute;
use crate::EngineError;
use crate::command::{CommandContext, RowCommand, RowIter, of_batches};
use crate::lower::{Lowering, Step};
use crate::node::DeletionRecord;
use crate::rows::{self, ColumnBuilder, Value, batch_of};
use crate::run::Runner;
use crate::scan::rexes::Rexes;
use crate::scan::{EventScan, PageRef};

/// Column of a row's place in its page; a name that no field has.
const PLACE: &str = "__place";
/// What the row of all indexes together is called.
const ALL: &str = "__ALL__";

impl Execute for DeleteCommand {
    /// Where it may stand it is run before commands become steps.
    fn steps(&self, lowering: &Lowering<'_>) -> Result<Vec<Step>, EngineError> {
        let message = "delete must follow a search of events and commands that look at one event at a time; it \
                       runs in no subsearch and for no command that runs searches";
        Err(EngineError::Invalid { message: message.to_owned(), span: Some(lowering.span) })
    }
}

/// A search whose events are deleted.
struct Deleting<'a> {
    search: &'a SearchCommand,
    /// The commands behind the search, `delete` included.
    stages: &'a [Stage],
    span: Span,
    /// The commands behind `delete`.
    rest: &'a [Stage],
}

/// How many events of an index were deleted, and how many could not be.
#[derive(Clone, Copy, Default)]
struct Counts {
    deleted: u64,
    errors: u64,
}

impl<'a> Deleting<'a> {
    fn of(pipeline: &'a Pipeline) -> Option<Deleting<'a>> {
        let (first, rest) = pipeline.commands.split_first()?;
        let Command::Search(search) = &first.command else { return None };
        let at = rest.iter().position(|stage| matches!(stage.command, Command::Delete(DeleteCommand)))?;
        Some(Deleting { search, stages: &rest[..=at], span: rest[at].span, rest: &rest[at + 1..] })
    }

    fn before(&self) -> &'a [Stage] {
        &self.stages[..self.stages.len() - 1]
    }
}

impl Runner {
    /// Runs a search as it was written, which alone may delete.
    pub(crate) fn run_search(&self, pipeline: &Pipeline) -> Result<RowIter, EngineError> {
        let Some(deleting) = Deleting::of(pipeline) else { return self.run(pipeline) };
        if self.explainer.is_some() {
            // What is told is which events it would read.
            let read = pipeline.commands.len() - deleting.rest.len() - 1;
            return self.run(&Pipeline { commands: pipeline.commands[..read].to_vec(), span: pipeline.span });
        }
        let counts = self.delete(&deleting)?;
        self.chain(of_batches(vec![table(&counts, &self.node.name())?]), deleting.rest, &self.context)
    }

    /// Deletes the events; gives how many of each index that held some.
    fn delete(&self, deleting: &Deleting<'_>) -> Result<BTreeMap<String, Counts>, EngineError> {
        let invalid = |message: String| EngineError::Invalid { message, span: Some(deleting.span) };
        self.permit(&Command::Delete(DeleteCommand), deleting.span)?;
        let mut context = self.context.clone();
        let (expr, range) = self.condition_of(deleting.search)?;
        context.range = range;
        let mut commands = self.event_commands(deleting.before(), &context)?;
        self.source.seal(&self.indexes_of(&expr)).map_err(|fault| invalid(format!("delete: {fault}")))?;
        let mut scan = self.scan(&expr, deleting.search, deleting.stages, Rexes::default(), &context)?;
        // What came in since then is no part of it.
        scan.snapshot.segments.retain(|segment| segment.stored().is_some());
        let allowed = IndexSelector::new(context.permissions.delete_indexes.iter().cloned());
        let (mut deletion, mut counts) = (Deletion::default(), BTreeMap::<String, Counts>::new());
        for page in scan.pages(&context)? {
            if context.stop.stops_reading() {
                return Err(invalid("delete: the search was stopped, and nothing is deleted".to_owned()));
            }
            let Some(places) = places_of(&scan, &page, &mut commands, &context)? else { continue };
            let of_index = counts.entry(page.segment.index().to_owned()).or_default();
            if !allowed.matches(page.segment.index()) || !page.segment.note_deleted(page.page, &places, &mut deletion) {
                of_index.errors += places.len() as u64;
            }
            if deletion.bytes() > DELETION_BYTES_MAX {
                let what = "delete: too many events at once, and nothing is deleted; narrow the search".to_owned();
                return Err(EngineError::Limit {
                    what,
                    limit: "memory of a deletion",
                    value: DELETION_BYTES_MAX as u64,
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
        Ok(counts)
    }

    /// Deletes what was found, once that is on record.
    fn commit(&self, deletion: &Deletion, span: Span) -> Result<BTreeMap<String, u64>, EngineError> {
        let failed = |fault: String| EngineError::Invalid { message: format!("delete: {fault}"), span: Some(span) };
        let context = &self.context;
        let record = DeletionRecord { sid: &context.id, search: &context.search, events: deletion.events() };
        self.node.note_deletion(&context.permissions, &record).map_err(|fault| {
            failed(format!("what is deleted goes on record first, and that failed, so nothing is deleted: {fault}"))
        })?;
        self.source.delete(deletion).map_err(failed)
    }

    /// The commands between the search and `delete`, which must pass events on one by one.
    fn event_commands(
        &self,
        stages: &[Stage],
        context: &CommandContext,
    ) -> Result<Vec<Box<dyn RowCommand>>, EngineError> {
        let mut commands = Vec::new();
        for stage in stages {
            let steps = match is_transforming(std::slice::from_ref(stage)) {
                true => Vec::new(),
                false => self.steps(std::slice::from_ref(stage), context)?,
            };
            let streams = steps.iter().all(|step| matches!(step, Step::Row { ordered: false, .. }));
            if steps.is_empty() || !streams {
                let message = "delete: every command before it must look at one event at a time and keep events, as where, \
                               eval and regex do; this one does not";
                return Err(EngineError::Invalid { message: message.to_owned(), span: Some(stage.span) });
            }
            commands.extend(steps.into_iter().filter_map(Step::into_row).map(|make| make()));
        }
        Ok(commands)
    }
}

/// Which events of a page come through the commands; `None` for none.
fn places_of(
    scan: &EventScan,
    page: &PageRef,
    commands: &mut [Box<dyn RowCommand>],
    context: &CommandContext,
) -> Result<Option<Vec<u32>>, EngineError> {
    let Some((rows, found)) = scan.read_placed(page, context)? else { return Ok(None) };
    let mut rows = rows::with_column(&rows, PLACE, Arc::new(UInt32Array::from(found.clone())))?;
    for command in commands {
        if rows.num_rows() == 0 {
            return Ok(None);
        }
        rows = command.apply(rows)?;
    }
    if rows.num_rows() == 0 {
        return Ok(None);
    }
    let places = rows::column(&rows, PLACE).and_then(|column| column.as_primitive_opt::<UInt32Type>());
    let Some(places) = places else {
        return Err(EngineError::invalid("delete: the commands before it do not tell which event a row is; drop them"));
    };
    let mut places: Vec<u32> = places.iter().flatten().collect();
    places.sort_unstable();
    places.dedup();
    // A command may have written a field of this name: only what the search found is deleted.
    places.retain(|place| found.binary_search(place).is_ok());
    Ok((!places.is_empty()).then_some(places))
}

/// A row for all indexes together and one for each.
fn table(counts: &BTreeMap<String, Counts>, server: &str) -> Result<RecordBatch, EngineError> {
    let mut all = Counts::default();
    for counts in counts.values() {
        (all.deleted, all.errors) = (all.deleted + counts.deleted, all.errors + counts.errors);
    }
    let rows: Vec<(&str, Counts)> =
        std::iter::once((ALL, all)).chain(counts.iter().map(|(index, counts)| (index.as_str(), *counts))).collect();
    let [mut deleted, mut errors, mut indexes, mut servers] = std::array::from_fn(|_| ColumnBuilder::new(rows.len()));
    for (index, counts) in &rows {
        deleted.push_int(counts.deleted as i64);
        errors.push_int(counts.errors as i64);
        indexes.push(Value::owned((*index).to_owned()));
        servers.push(Value::owned(server.to_owned()));
    }
    let columns = [("deleted", deleted), ("errors", errors), ("index", indexes), ("splunk_server", servers)];
    batch_of(columns.map(|(name, column)| (name, column.finish())), rows.len())
}
