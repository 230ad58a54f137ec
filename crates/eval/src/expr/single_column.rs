//! Single-column parts of an expression.
//!
//! A part that reads only one column has equal results for equal values, whatever functions it contains, so it is
//! computed once per distinct value of a coded column ([`crate::rows::DistinctMemo`]). The largest such parts are
//! determined at compile time; parts whose value is a condition in some rows and not in others are excluded.
//!
//! A part that reads times only to format them is computed once per distinct unit of its formats, such as a minute.
//!
//! Volatile functions, `searchmatch()`, and the inner expressions of `mvmap` and `mvfilter`, which read a bound value,
//! are never extracted.

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, TimestampNanosecondType};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use jiff::tz::TimeZone;
use quarry_event::time::{equal_text_range, strftime_unit};
use quarry_stdx::number::u32_of;

use super::batch::{Batch, Slot};
use super::column::{evaluate, is_numeric_by_column};
use super::context::ExprContext;
use super::node::{ExprNode, Row};
use crate::EngineError;
use crate::functions::CallState;
use crate::rows::{ColumnReader, DistinctMemo, NumberHandling, Value};

/// Minimum average number of a batch's times per unit for which a part is computed by unit.
const TIMES_PER_UNIT_MIN: usize = 2;

/// A part that reads a single column.
#[derive(Debug)]
pub struct SingleColumnPart {
    /// The expression of the part.
    pub(super) inner: ExprNode,
    /// The slot that the part reads.
    pub(super) slot: usize,
    /// Index of the part among all parts.
    pub(super) at: usize,
    numbers: NumberHandling,
    /// The unit of the part's formats ([`strftime_unit`]), if the part reads times only to format them.
    time_unit: Option<i64>,
    memo: DistinctMemo,
}

impl SingleColumnPart {
    /// The part's result for each row of its column; `None` if the rows must be evaluated one by one.
    pub(super) fn compute(&self, column: &ArrayRef, context: &ExprContext) -> Result<Option<ArrayRef>, EngineError> {
        let compute = |values: &ArrayRef| {
            // An error may come from a value that no row uses, so after an error the rows are evaluated individually.
            let state = CallState::default();
            let made = evaluate(&self.inner, &Batch::of_slot(self.slot, values, context, &state))?;
            Ok::<_, EngineError>(state.check().is_ok().then_some(made))
        };
        if let (Some(unit), DataType::Timestamp(..)) = (self.time_unit, column.data_type()) {
            let Some((times, indices)) = distinct_units(column, unit, &context.zone)? else { return Ok(None) };
            return Ok(compute(&times)?.map(|results| take(&results, &indices, None)).transpose()?);
        }
        let results = self.memo.run(column, self.numbers, |values| Ok(compute(values)?.map(|made| vec![made])))?;
        Ok(results.and_then(|mut results| results.pop()))
    }

    /// The column with the part's results, if computed.
    #[inline]
    pub(super) fn computed_column<'a>(&self, row: &Row<'a>) -> Option<&'a ColumnReader> {
        row.singles.get(self.at).and_then(Option::as_ref)
    }
}

/// A time of each distinct unit in a column of times, followed by null, and the index of each row's unit. `None` if the
/// column has nearly as many units as times.
fn distinct_units(
    column: &ArrayRef,
    unit: i64,
    zone: &TimeZone,
) -> Result<Option<(ArrayRef, UInt32Array)>, EngineError> {
    const NULL: u32 = u32::MAX;
    let Some(times) = column.as_primitive_opt::<TimestampNanosecondType>() else { return Ok(None) };
    let most = times.len() / TIMES_PER_UNIT_MIN;
    let mut known: HashMap<i64, u32, FixedState> = HashMap::default();
    let mut firsts: Vec<Option<u32>> = Vec::new();
    let mut indices: Vec<u32> = Vec::with_capacity(times.len());
    // Times are mostly sorted, so the next time is usually in the same unit.
    let (mut range, mut current) = (0..0, NULL);
    for (row, time) in (0u32..).zip(times.iter()) {
        let Some(time) = time else {
            indices.push(NULL);
            continue;
        };
        if !range.contains(&time) {
            let (start, end) = equal_text_range(time, unit, zone);
            range = start..end;
            current = *known.entry(start).or_insert_with(|| {
                firsts.push(Some(row));
                u32_of(firsts.len()) - 1
            });
            if firsts.len() > most {
                return Ok(None);
            }
        }
        indices.push(current);
    }
    indices.iter_mut().filter(|index| **index == NULL).for_each(|index| *index = u32_of(firsts.len()));
    firsts.push(None);
    Ok(Some((take(column, &UInt32Array::from(firsts), None)?, indices.into())))
}

/// The unit of the formats if a node reads its column only to format times.
fn time_unit(node: &ExprNode) -> Option<i64> {
    match node {
        ExprNode::Call(function, args, _) if function.row.help.name == "strftime" => match args.as_slice() {
            [ExprNode::Slot(_), ExprNode::Constant(format)] => strftime_unit(&format.text()?),
            _ => None,
        },
        ExprNode::Slot(_) | ExprNode::MvFilter(..) | ExprNode::MvMap(..) => None,
        node => {
            let mut unit = Some(i64::MAX);
            node.for_each_child(&mut |part| unit = unit.and_then(|unit| Some(unit.min(time_unit(part)?))));
            unit
        }
    }
}

/// Marks the largest parts of the node that read a single field.
pub(super) fn mark_singles(node: ExprNode, slots: &[Slot]) -> ExprNode {
    Marker { slots, count: 0 }.mark(node)
}

struct Marker<'s> {
    slots: &'s [Slot],
    count: usize,
}

impl Marker<'_> {
    fn mark(&mut self, node: ExprNode) -> ExprNode {
        if matches!(node, ExprNode::Slot(_) | ExprNode::Constant(_)) {
            return node;
        }
        let mut reads = ReadColumns::Nothing;
        self.collect_reads(&node, &mut reads);
        if let ReadColumns::One(slot) = reads
            && !is_mixed(&node)
        {
            self.count += 1;
            let numbers = if is_numeric_by_column(&node) { NumberHandling::ByRow } else { NumberHandling::ByValue };
            let (at, memo, time_unit) = (self.count - 1, DistinctMemo::default(), time_unit(&node));
            return ExprNode::Single(Box::new(SingleColumnPart { inner: node, slot, at, numbers, time_unit, memo }));
        }
        self.mark_parts(node)
    }

    fn mark_boxed(&mut self, mut node: Box<ExprNode>) -> Box<ExprNode> {
        let taken = std::mem::replace(node.as_mut(), ExprNode::Constant(Value::Null));
        *node = self.mark(taken);
        node
    }

    fn mark_arms(&mut self, arms: Vec<(ExprNode, ExprNode)>) -> Vec<(ExprNode, ExprNode)> {
        arms.into_iter().map(|(test, value)| (self.mark(test), self.mark(value))).collect()
    }

    fn mark_all(&mut self, nodes: Vec<ExprNode>) -> Vec<ExprNode> {
        nodes.into_iter().map(|node| self.mark(node)).collect()
    }

    /// Marks parts within the node's operands.
    fn mark_parts(&mut self, node: ExprNode) -> ExprNode {
        match node {
            ExprNode::Constant(_) | ExprNode::Slot(_) | ExprNode::Single(_) | ExprNode::MvFilter(..) => node,
            ExprNode::Negate(a) => ExprNode::Negate(self.mark_boxed(a)),
            ExprNode::Not(a) => ExprNode::Not(self.mark_boxed(a)),
            ExprNode::Arithmetic(op, a, b) => ExprNode::Arithmetic(op, self.mark_boxed(a), self.mark_boxed(b)),
            ExprNode::Concat(a, b) => ExprNode::Concat(self.mark_boxed(a), self.mark_boxed(b)),
            ExprNode::Compare(op, a, b) => ExprNode::Compare(op, self.mark_boxed(a), self.mark_boxed(b)),
            ExprNode::CompareLiteral(op, a, literal) => ExprNode::CompareLiteral(op, self.mark_boxed(a), literal),
            ExprNode::And(a, b) => ExprNode::And(self.mark_boxed(a), self.mark_boxed(b)),
            ExprNode::Or(a, b) => ExprNode::Or(self.mark_boxed(a), self.mark_boxed(b)),
            ExprNode::Xor(a, b) => ExprNode::Xor(self.mark_boxed(a), self.mark_boxed(b)),
            ExprNode::In(a, values) => ExprNode::In(self.mark_boxed(a), self.mark_all(values)),
            ExprNode::InLiterals(a, literals) => ExprNode::InLiterals(self.mark_boxed(a), literals),
            ExprNode::IsNull(a) => ExprNode::IsNull(self.mark_boxed(a)),
            ExprNode::IsNotNull(a) => ExprNode::IsNotNull(self.mark_boxed(a)),
            ExprNode::Case(arms) => ExprNode::Case(self.mark_arms(arms)),
            ExprNode::Validate(arms) => ExprNode::Validate(self.mark_arms(arms)),
            ExprNode::Coalesce(values) => ExprNode::Coalesce(self.mark_all(values)),
            ExprNode::MvMap(values, slot, each) => ExprNode::MvMap(self.mark_boxed(values), slot, each),
            ExprNode::Call(function, args, prepared) => ExprNode::Call(function, self.mark_all(args), prepared),
        }
    }

    /// Adds the columns that a node reads.
    fn collect_reads(&self, node: &ExprNode, reads: &mut ReadColumns) {
        match node {
            ExprNode::Slot(slot) => self.add(*slot, reads),
            ExprNode::MvFilter(slot, _) => self.add(*slot, reads),
            ExprNode::MvMap(_, slot, _) => self.add(*slot, reads),
            ExprNode::Call(function, ..) if !function.is_stable() => *reads = ReadColumns::More,
            _ => {}
        }
        node.for_each_child(&mut |part| self.collect_reads(part, reads));
    }

    fn add(&self, slot: usize, reads: &mut ReadColumns) {
        *reads = match (&*reads, self.slots.get(slot)) {
            (ReadColumns::Nothing, Some(Slot::Field(_))) => ReadColumns::One(slot),
            (ReadColumns::One(known), Some(Slot::Field(_))) if *known == slot => ReadColumns::One(slot),
            _ => ReadColumns::More,
        };
    }
}

/// The columns that a node reads.
enum ReadColumns {
    Nothing,
    One(usize),
    More,
}

/// Whether the value is a condition in some rows and not in others, which a column cannot represent.
fn is_mixed(node: &ExprNode) -> bool {
    let values: Vec<&ExprNode> = match node {
        ExprNode::Case(arms) | ExprNode::Validate(arms) => arms.iter().map(|(_, value)| value).collect(),
        ExprNode::Coalesce(values) => values.iter().collect(),
        _ => return false,
    };
    let conditions = values.iter().filter(|value| value.is_condition()).count();
    (conditions > 0 && conditions < values.len()) || values.into_iter().any(is_mixed)
}

impl ExprNode {
    /// Calls `visit` with each child node.
    fn for_each_child(&self, visit: &mut dyn FnMut(&ExprNode)) {
        match self {
            ExprNode::Constant(_) | ExprNode::Slot(_) => {}
            ExprNode::Negate(a) | ExprNode::Not(a) | ExprNode::IsNull(a) | ExprNode::IsNotNull(a) => visit(a),
            ExprNode::CompareLiteral(_, a, _) | ExprNode::InLiterals(a, _) | ExprNode::MvFilter(_, a) => visit(a),
            ExprNode::Arithmetic(_, a, b)
            | ExprNode::Concat(a, b)
            | ExprNode::Compare(_, a, b)
            | ExprNode::MvMap(a, _, b) => {
                visit(a);
                visit(b);
            }
            ExprNode::And(a, b) | ExprNode::Or(a, b) | ExprNode::Xor(a, b) => {
                visit(a);
                visit(b);
            }
            ExprNode::In(a, values) => {
                visit(a);
                values.iter().for_each(visit);
            }
            ExprNode::Case(arms) | ExprNode::Validate(arms) => arms.iter().for_each(|(test, value)| {
                visit(test);
                visit(value);
            }),
            ExprNode::Coalesce(values) | ExprNode::Call(_, values, _) => values.iter().for_each(visit),
            ExprNode::Single(single) => visit(&single.inner),
        }
    }

    /// Calls `visit` with each marked part.
    pub(super) fn for_each_single(
        &self,
        visit: &mut dyn FnMut(&SingleColumnPart) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        if let ExprNode::Single(single) = self {
            return visit(single);
        }
        let mut ended = Ok(());
        self.for_each_child(&mut |part| {
            if ended.is_ok() {
                ended = part.for_each_single(visit);
            }
        });
        ended
    }
}
