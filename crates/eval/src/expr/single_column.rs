//! Single-column parts of an expression.
//!
//! A part that reads only one column has equal results for equal values, whatever functions it contains, so it is
//! computed once per distinct value of a coded column ([`crate::rows::DistinctMemo`]). The largest such parts are
//! determined at compile time; parts whose value is a condition in some rows and not in others are excluded.
//!
//! Volatile functions, `searchmatch()`, and the inner expressions of `mvmap` and `mvfilter`, which read a bound value,
//! are never extracted.

use arrow::array::ArrayRef;

use super::batch::{Batch, Slot};
use super::column::{evaluate, is_numeric_by_column};
use super::context::ExprContext;
use super::node::{ExprNode, Row};
use crate::EngineError;
use crate::functions::CallState;
use crate::rows::{ColumnReader, DistinctMemo, NumberHandling, Value};

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
    memo: DistinctMemo,
}

impl SingleColumnPart {
    /// The part's result for each row of its column; `None` if the rows must be evaluated one by one.
    pub(super) fn compute(&self, column: &ArrayRef, context: &ExprContext) -> Result<Option<ArrayRef>, EngineError> {
        let results = self.memo.run(column, self.numbers, |values| {
            // An error may come from a value that no row uses, so after an error the rows are evaluated individually.
            let state = CallState::default();
            let made = evaluate(&self.inner, &Batch::of_slot(self.slot, values, context, &state))?;
            Ok(state.check().is_ok().then(|| vec![made]))
        })?;
        Ok(results.and_then(|mut results| results.pop()))
    }

    /// The column with the part's results, if computed.
    #[inline]
    pub(super) fn computed_column<'a>(&self, row: &Row<'a>) -> Option<&'a ColumnReader> {
        row.singles.get(self.at).and_then(Option::as_ref)
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
            let (at, memo) = (self.count - 1, DistinctMemo::default());
            return ExprNode::Single(Box::new(SingleColumnPart { inner: node, slot, at, numbers, memo }));
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
