//! [`Folder`] folds the rows of one worker into groups; the folders of all workers are merged into the values of
//! groups. In this module, a *folder* is always such a value, never a directory.
//!
//! A folder accepts batches of any slices of a snapshot. Folders that fit into memory together are merged there and
//! finished without serializing states. A folder that grows beyond its share spills its states and starts over; then
//! the states of all folders are merged partition by partition ([`super::spill`]).

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;
use quarry_stdx::number::u32_of;

use super::code_counts::{CountedValues, DirectCounts};
use super::finished_groups::FinishedGroups;
use super::fold::{self, Fold, Input};
use super::functions::FunctionBody;
use super::groups::GroupTable;
use super::numbers::Numbers;
use super::spill::{MergedFolders, SpilledPartials};
use super::{AggregatePlan, Argument, finish};
use crate::EngineError;
use crate::command::RowCommand;
use crate::context::CommandContext;
use crate::costs::Meter;
use crate::dataflow::Dataflow;
use crate::rows::{self, ColumnReader, RowIter};

/// Minimum number of rows between two checks of a folder's size.
const CHECK_ROWS: usize = 16_384;
/// Divisor of the search's memory for all folders together; the remaining memory serves to hold and sort the
/// resulting values.
const MEMORY_DIVISOR: usize = 3;
/// Bits of a position that number the rows within a slice.
const ROW_BITS: u32 = 32;

/// Folds rows into groups; see the module.
pub struct Folder {
    plan: AggregatePlan,
    /// Row command applied to rows before they are folded.
    shape: Option<Box<dyn RowCommand>>,
    groups: GroupTable,
    arguments: Vec<ArgumentColumn>,
    folds: Vec<ColumnFolds>,
    /// Direct counts, if rows are only counted; [`Folder::flush_direct_counts`] turns them into group counts.
    direct: DirectCounts,
    only_counts: bool,
    /// Spilled partial states, with the number of times they were split before.
    spilled: Option<SpilledPartials>,
    /// Spilled states of folders that were merged into this one.
    others: Vec<SpilledPartials>,
    level: u32,
    dataflow: Arc<Dataflow>,
    bytes_max: usize,
    rows_until_check: usize,
    /// Measures the cost of the folder's rows.
    meter: Option<Meter>,
}

/// Groups and states of a folder, which can be merged into other folders any number of times.
pub struct FoldedPart {
    groups: GroupTable,
    folds: Vec<Vec<Box<dyn Fold>>>,
    bytes: usize,
}

impl FoldedPart {
    /// Approximate bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// An argument shared by one or more aggregates.
struct ArgumentColumn {
    argument: Argument,
    numbers: Option<Numbers>,
}

/// The folds of one aggregate.
struct ColumnFolds {
    argument: usize,
    parts: Vec<Box<dyn Fold>>,
}

/// Folded rows of all workers.
pub enum Folded {
    /// All groups are in memory.
    Groups(Box<Folder>),
    /// Some groups are spilled; they are merged partition by partition.
    Parts(Box<MergedFolders>),
}

impl Folder {
    /// A folder with the regular share of the search's memory.
    pub fn new(plan: &AggregatePlan, context: &CommandContext) -> Folder {
        Folder::with_limit(plan, plan.bytes_max(context) / context.dataflow.workers(), context)
    }

    /// A folder that spills its states above this many bytes.
    pub fn with_limit(plan: &AggregatePlan, bytes_max: usize, context: &CommandContext) -> Folder {
        Folder::for_states(plan, bytes_max, 0, context)
    }

    /// A folder for states that were already split `level` times.
    pub(super) fn for_states(plan: &AggregatePlan, bytes_max: usize, level: u32, context: &CommandContext) -> Folder {
        let mut folder = Folder {
            plan: plan.clone(),
            shape: None,
            groups: GroupTable::default(),
            arguments: Vec::new(),
            folds: Vec::new(),
            direct: DirectCounts::default(),
            only_counts: plan
                .columns
                .iter()
                .all(|column| matches!((column.body, &column.argument), (FunctionBody::Count, Argument::Rows))),
            spilled: None,
            others: Vec::new(),
            level,
            dataflow: Arc::clone(&context.dataflow),
            bytes_max,
            rows_until_check: 0,
            meter: None,
        };
        folder.reset();
        folder
    }

    /// Measures the cost of adding rows.
    pub fn with_meter(mut self, meter: Meter) -> Folder {
        self.meter = Some(meter);
        self
    }

    /// Applies `shape` to rows before they are folded.
    pub fn with_shape(mut self, shape: Box<dyn RowCommand>) -> Folder {
        self.shape = Some(shape);
        self
    }

    /// Adds rows of a slice; `position` is the number of rows of the slice that were added before. Slice numbers ascend in
    /// the order of rows.
    pub fn add(&mut self, rows: &RecordBatch, slice: u64, position: u64) -> Result<(), EngineError> {
        match self.meter.clone() {
            Some(meter) => meter.call(rows::event_count(rows), || self.add_rows(rows, slice, position)),
            None => self.add_rows(rows, slice, position),
        }
    }

    fn add_rows(&mut self, rows: &RecordBatch, slice: u64, position: u64) -> Result<(), EngineError> {
        let shaped = self.shape.as_mut().map(|shape| shape.apply(rows.clone())).transpose()?;
        let rows = shaped.as_ref().unwrap_or(rows);
        let columns: Vec<ColumnReader> = self.plan.key_fields().map(|name| rows::reader(rows, name)).collect();
        let events = rows::column(rows, rows::EVENTS).and_then(|events| events.as_primitive_opt::<Int64Type>());
        if self.only_counts && events.is_none() {
            if self.direct.add(&columns) {
                return self.check_size(rows.num_rows());
            }
            self.flush_direct_counts();
            // A batch is usually refused because it has a different dictionary.
            if self.direct.add(&columns) {
                return self.check_size(rows.num_rows());
            }
        }
        if events.is_some() {
            self.flush_direct_counts();
        }
        let members = self.groups.members(&columns, rows.num_rows());
        let times = rows::column(rows, "_time").map(ColumnReader::new);
        for (at, argument) in self.arguments.iter_mut().enumerate() {
            let values = argument_values(&argument.argument, rows)?;
            let numbers = match (&values, &mut argument.numbers) {
                (Some(values), Some(numbers)) => numbers.of(values),
                _ => None,
            };
            let present = values.as_ref().and_then(ColumnReader::validity);
            let input = Input {
                values: values.as_ref(),
                numbers: numbers.as_ref(),
                present: present.as_ref(),
                times: times.as_ref(),
                events: events.map(|events| events.values().as_ref()),
                row_base: (slice << ROW_BITS) + position,
            };
            let folds = self.folds.iter_mut().filter(|folds| folds.argument == at);
            folds.flat_map(|folds| &mut folds.parts).for_each(|fold| fold.update(&input, &members));
        }
        self.check_size(rows.num_rows())
    }

    /// Turns direct counts into group counts.
    fn flush_direct_counts(&mut self) {
        self.drain_direct_counts(false);
    }

    /// Turns direct counts into group counts when no rows will be added before the folder is emptied: if the integers
    /// are the only values, they need no lookup table, which would take more memory than the integers.
    fn flush_last_direct_counts(&mut self) {
        self.drain_direct_counts(self.groups.len() == 0);
    }

    fn drain_direct_counts(&mut self, is_only: bool) {
        let Folder { direct, groups, folds, .. } = self;
        if is_only {
            let count = direct.integer_count();
            groups.reserve_integers(count);
            folds.iter_mut().flat_map(|folds| &mut folds.parts).for_each(|fold| fold.reserve(count));
        }
        direct.drain(|counted, rows| {
            let only;
            let groups = match counted {
                CountedValues::Integers(form, integers) if is_only => groups.append_integers(form, integers),
                CountedValues::Integers(form, integers) => groups.groups_of_integers(form, integers),
                CountedValues::Time(time, text) => {
                    only = [groups.group_of_time(time, text)];
                    &only
                }
                CountedValues::Texts(texts) => {
                    only = [groups.group_of(texts.iter().copied())];
                    &only
                }
            };
            folds.iter_mut().flat_map(|folds| &mut folds.parts).for_each(|fold| fold.add_counts(groups, rows));
        });
    }

    fn check_size(&mut self, rows: usize) -> Result<(), EngineError> {
        self.rows_until_check = self.rows_until_check.saturating_sub(rows);
        if self.rows_until_check > 0 {
            return Ok(());
        }
        self.rows_until_check = CHECK_ROWS.max(self.groups.len() / 4).min(self.bytes_max);
        if self.bytes() > self.bytes_max { self.spill() } else { Ok(()) }
    }

    /// Spills the states of all groups; an error if spilling cannot reduce memory.
    fn spill(&mut self) -> Result<(), EngineError> {
        let is_one_group = self.plan.by.is_empty() || (self.level > 0 && self.groups.len() == 1);
        if is_one_group || !SpilledPartials::may_split(self.level) {
            return Err(EngineError::Memory);
        }
        // The states of a million groups take a fraction of a second.
        self.dataflow.stop().check_cancelled()?;
        let state = self.take_state()?;
        assert_eq!(self.groups.len(), 0, "spilled states are removed from memory");
        self.dataflow.stop().check_cancelled()?;
        let (keys, level, dataflow) = (self.plan.by.len(), self.level, &self.dataflow);
        self.spilled.get_or_insert_with(|| SpilledPartials::new(level, dataflow)).add(&state, keys)
    }

    /// Whether states were spilled.
    pub(super) fn has_spilled(&self) -> bool {
        self.spilled.is_some()
    }

    /// Approximate bytes held.
    pub fn bytes(&self) -> usize {
        let folds: usize = self.folds.iter().flat_map(|folds| &folds.parts).map(|fold| fold.bytes()).sum();
        self.direct.bytes() + self.groups.bytes() + folds
    }

    /// Approximate bytes held after direct counts are turned into group counts.
    fn flushed_bytes(&self) -> usize {
        let of_group = GroupTable::INTEGER_BYTES + self.folds.len() * size_of::<i64>();
        self.bytes() + self.direct.integer_count() * of_group
    }

    /// Empties the folder.
    fn reset(&mut self) {
        self.groups = GroupTable::new(self.plan.null_key_texts());
        self.arguments.clear();
        self.folds.clear();
        for column in &self.plan.columns {
            let parts = column.body.states();
            let known = self.arguments.iter().position(|known| known.argument.reads_same_values(&column.argument));
            let argument = known.unwrap_or(self.arguments.len());
            if known.is_none() {
                self.arguments.push(ArgumentColumn { argument: column.argument.clone(), numbers: None });
            }
            if parts.iter().any(|part| fold::reads_numbers(*part)) {
                let numbers = self.arguments[argument].numbers.get_or_insert_default();
                if parts.iter().any(|part| fold::reads_scales(*part)) {
                    numbers.read_scales();
                }
            }
            let parts = parts.into_iter().map(|part| fold::of(part, self.plan.by.is_empty())).collect();
            self.folds.push(ColumnFolds { argument, parts });
        }
        assert_eq!(self.folds.len(), self.plan.columns.len(), "each aggregate has its folds");
        assert!(self.folds.iter().all(|folds| folds.argument < self.arguments.len()), "each reads an argument");
    }

    /// The states of all groups, in the plan's [layout](AggregatePlan::layout); the folder is reset.
    pub fn take_state(&mut self) -> Result<RecordBatch, EngineError> {
        self.flush_last_direct_counts();
        let groups = self.groups.len();
        let mut columns = self.groups.key_columns(None);
        let folds = std::mem::take(&mut self.folds).into_iter().flat_map(|folds| folds.parts);
        columns.extend(folds.map(|fold| fold.state(groups)));
        assert!(columns.iter().all(|column| column.len() == groups), "every group has its key and its states");
        self.reset();
        self.plan.layout().batch(columns, groups)
    }

    /// Spills the states in memory and returns all spilled states.
    pub(super) fn into_spilled(mut self) -> Result<SpilledPartials, EngineError> {
        // The direct counts are not in groups yet.
        self.flush_direct_counts();
        if self.groups.len() > 0 || self.spilled.is_none() {
            self.spill()?;
        }
        self.spilled.ok_or(EngineError::Memory)
    }

    /// Merges states written by [`Folder::take_state`] of a folder of the same plan, on this or another node.
    pub fn add_states(&mut self, states: &RecordBatch) -> Result<(), EngineError> {
        self.flush_direct_counts();
        assert!(self.plan.layout().accepts(states), "the states belong to the same plan");
        let keys: Vec<ColumnReader> = states.columns()[..self.plan.by.len()].iter().map(ColumnReader::new).collect();
        let members = self.groups.members(&keys, states.num_rows());
        let total = members.groups;
        let mut groups = Vec::with_capacity(states.num_rows());
        members.for_each(|_, group| groups.push(u32_of(group)));
        assert_eq!(groups.len(), states.num_rows(), "every state belongs to one group");
        let folds = self.folds.iter_mut().flat_map(|folds| &mut folds.parts);
        folds.zip(&states.columns()[keys.len()..]).for_each(|(fold, state)| fold.add_states(state, &groups, total));
        self.check_size(states.num_rows())
    }

    /// The folder's groups and states, for later use; `None` if it had to spill.
    pub fn part(&mut self) -> Option<FoldedPart> {
        self.flush_direct_counts();
        let parts = |column: &ColumnFolds| column.parts.iter().map(|fold| fold.clone_fold()).collect();
        let folds: Vec<Vec<Box<dyn Fold>>> = self.folds.iter().map(parts).collect();
        let groups = self.groups.without_caches();
        let bytes = groups.bytes() + folds.iter().flatten().map(|fold| fold.bytes()).sum::<usize>();
        self.spilled.is_none().then_some(FoldedPart { groups, folds, bytes })
    }

    /// Merges the groups and states of a part folded earlier with the same plan.
    pub fn add_part(&mut self, part: &FoldedPart) -> Result<(), EngineError> {
        self.flush_direct_counts();
        assert_eq!(self.folds.len(), part.folds.len(), "the part belongs to the same plan");
        let groups = self.groups.absorb(&part.groups);
        let total = self.groups.len();
        for (mine, others) in self.folds.iter_mut().zip(&part.folds) {
            let pairs = mine.parts.iter_mut().zip(others);
            pairs.for_each(|(mine, other)| mine.absorb(other.clone_fold(), &groups, total));
        }
        self.check_size(groups.len())
    }

    /// Merges another folder of the same plan, including spilled states.
    pub fn add_folder(&mut self, other: Folder) -> Result<(), EngineError> {
        if other.has_spilled() {
            let spilled = other.into_spilled()?;
            self.others.push(spilled);
            return Ok(());
        }
        let groups = other.groups.len();
        self.absorb(other);
        self.check_size(groups)
    }

    /// Merges the groups of another folder.
    fn absorb(&mut self, mut other: Folder) {
        self.direct.absorb(&mut other.direct);
        if other.direct.is_empty() && other.groups.len() == 0 {
            return;
        }
        self.flush_direct_counts();
        other.flush_direct_counts();
        assert_eq!(self.folds.len(), other.folds.len(), "merged folders have the same plan");
        let groups = self.groups.absorb(&other.groups);
        let total = self.groups.len();
        for (mine, others) in self.folds.iter_mut().zip(other.folds) {
            let pairs = mine.parts.iter_mut().zip(others.parts);
            pairs.for_each(|(mine, other)| mine.absorb(other, &groups, total));
        }
    }

    /// The values of all groups.
    pub fn finish(mut self) -> FinishedGroups {
        self.flush_last_direct_counts();
        let groups = self.groups.len();
        let columns = self.plan.columns.iter().zip(self.folds).map(|(column, mut folds)| {
            if let [fold] = folds.parts.as_mut_slice()
                && let Some(values) = fold.values(column.body, groups)
            {
                return values;
            }
            let states: Vec<ArrayRef> = folds.parts.into_iter().map(|fold| fold.state(groups)).collect();
            finish::value_of(column.body, &states, groups)
        });
        let columns: Vec<ArrayRef> = columns.collect();
        for (column, values) in self.plan.columns.iter().zip(&columns) {
            debug_assert!(
                column.may_have_type_of(values),
                "{:?} has values that its row does not state",
                column.function
            );
        }
        FinishedGroups::new(self.groups, columns)
    }
}

impl AggregatePlan {
    /// Merges the folders of all workers, in memory if they fit there.
    pub fn gather(&self, folders: Vec<Folder>, context: &CommandContext) -> Result<Folded, EngineError> {
        let bytes: usize = folders.iter().map(Folder::flushed_bytes).sum();
        let has_spilled = |folder: &Folder| folder.has_spilled() || !folder.others.is_empty();
        let fits = bytes <= self.bytes_max(context);
        if !folders.iter().any(has_spilled) && (fits || self.by.is_empty()) {
            let mut folders = folders.into_iter();
            let mut all = folders.next().unwrap_or_else(|| Folder::new(self, context));
            for folder in folders {
                context.dataflow.check_cancelled()?;
                all.absorb(folder);
            }
            return if all.flushed_bytes() <= self.bytes_max(context) {
                Ok(Folded::Groups(Box::new(all)))
            } else {
                Err(EngineError::Memory)
            };
        }
        let mut spilled = Vec::new();
        for mut folder in folders {
            context.dataflow.check_cancelled()?;
            spilled.append(&mut folder.others);
            spilled.push(folder.into_spilled()?);
        }
        Ok(Folded::Parts(Box::new(MergedFolders::new(self, spilled, self.bytes_max(context), context))))
    }

    /// Folds batches in order.
    pub fn fold(
        &self,
        batches: Box<dyn Iterator<Item = Result<RecordBatch, EngineError>> + '_>,
        context: &CommandContext,
    ) -> Result<Folded, EngineError> {
        let mut folder = Folder::new(self, context);
        let mut position = 0;
        for rows in batches {
            let rows = rows?;
            folder.add(&rows, 0, position)?;
            position += rows.num_rows() as u64;
        }
        self.gather(vec![folder], context)
    }

    /// Values of folded rows. All of them must fit into memory.
    pub fn finished(&self, folded: Folded, context: &CommandContext) -> Result<FinishedGroups, EngineError> {
        let folder = match folded {
            Folded::Groups(folder) => *folder,
            Folded::Parts(_) => {
                let mut folder = Folder::with_limit(self, usize::MAX, context);
                folder.add_states(&self.states(folded, context)?)?;
                folder
            }
        };
        context.dataflow.check_cancelled()?;
        Ok(folder.finish())
    }

    /// Values of folded rows: the BY fields, then the aggregates. All of them must fit into memory.
    pub fn values(&self, folded: Folded, context: &CommandContext) -> Result<RecordBatch, EngineError> {
        if self.depends_on_all_groups() && matches!(folded, Folded::Parts(_)) {
            return self.finish(&self.states(folded, context)?);
        }
        self.all(folded, context, |folder| folder.finish().rows(self))
    }

    /// The states of all groups, one partition at a time.
    pub fn state_batches(&self, folded: Folded) -> Result<RowIter, EngineError> {
        Ok(match folded {
            Folded::Groups(mut folder) => rows::of_batches(vec![folder.take_state()?]),
            Folded::Parts(parts) => Box::new(parts.map(|folder| folder?.take_state())),
        })
    }

    /// The states of all groups, one row per group. All of them must fit into memory.
    pub fn states(&self, folded: Folded, context: &CommandContext) -> Result<RecordBatch, EngineError> {
        self.all(folded, context, |mut folder| folder.take_state())
    }

    fn all(
        &self,
        folded: Folded,
        context: &CommandContext,
        rows_of: impl Fn(Folder) -> Result<RecordBatch, EngineError>,
    ) -> Result<RecordBatch, EngineError> {
        let parts = match folded {
            Folded::Groups(folder) => {
                context.dataflow.check_cancelled()?;
                return rows_of(*folder);
            }
            Folded::Parts(parts) => parts,
        };
        let mut account = context.dataflow.account("groups");
        let (mut all, mut bytes) = (Vec::new(), 0);
        for folder in parts {
            let (rows, more) = rows::compact(&rows_of(folder?)?)?;
            bytes += more;
            account.set(bytes)?;
            all.push(rows);
        }
        rows::concat_rows(all)
    }

    /// Memory limit for the folders of all workers. Without BY fields, the single group cannot be spilled and may use
    /// all memory.
    fn bytes_max(&self, context: &CommandContext) -> usize {
        let share = if self.by.is_empty() { 1 } else { MEMORY_DIVISOR };
        context.dataflow.memory_bytes() / share
    }
}

/// The values read by an aggregate; `None` if it counts rows. False conditions do not count as values.
fn argument_values(argument: &Argument, rows: &RecordBatch) -> Result<Option<ColumnReader>, EngineError> {
    let array = match argument {
        Argument::Rows => return Ok(None),
        Argument::Field(name) => rows::column_or_null(rows, name),
        Argument::Expr(expr) => only_true(expr.evaluate(rows)?),
    };
    Ok(Some(ColumnReader::new(&array)))
}

fn only_true(array: ArrayRef) -> ArrayRef {
    let Some(conditions) = array.as_boolean_opt() else { return array };
    let conditions = conditions.iter().map(|value| value.filter(|value| *value));
    Arc::new(conditions.collect::<BooleanArray>())
}
