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
use crate::rows::{ColumnReader, DistinctMemo, Numbers, Value};

/// A part that reads a single column.
#[derive(Debug)]
pub struct Single {
    /// The expression of the part.
    pub(super) inner: ExprNode,
    /// The slot that the part reads.
    pub(super) slot: usize,
    /// Index of the part among all parts.
    pub(super) at: usize,
    numbers: Numbers,
    memo: DistinctMemo,
}

impl Single {
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
    pub(super) fn known<'a>(&self, row: &Row<'a>) -> Option<&'a ColumnReader> {
        row.singles.get(self.at).and_then(Option::as_ref)
    }
}

/// Marks the largest parts of the node that read a single field.
pub(super) fn with_singles(node: ExprNode, slots: &[Slot]) -> ExprNode {
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
        let mut reads = Reads::Nothing;
        self.reads(&node, &mut reads);
        if let Reads::One(slot) = reads
            && !is_mixed(&node)
        {
            self.count += 1;
            let numbers = if is_numeric_by_column(&node) { Numbers::AsTheyAre } else { Numbers::ByValue };
            let (at, memo) = (self.count - 1, DistinctMemo::default());
            return ExprNode::Single(Box::new(Single { inner: node, slot, at, numbers, memo }));
        }
        self.parts(node)
    }

    fn boxed(&mut self, mut node: Box<ExprNode>) -> Box<ExprNode> {
        let taken = std::mem::replace(node.as_mut(), ExprNode::Constant(Value::Null));
        *node = self.mark(taken);
        node
    }

    fn arms(&mut self, arms: Vec<(ExprNode, ExprNode)>) -> Vec<(ExprNode, ExprNode)> {
        arms.into_iter().map(|(test, value)| (self.mark(test), self.mark(value))).collect()
    }

    fn all(&mut self, nodes: Vec<ExprNode>) -> Vec<ExprNode> {
        nodes.into_iter().map(|node| self.mark(node)).collect()
    }

    /// Marks parts within the node's operands.
    fn parts(&mut self, node: ExprNode) -> ExprNode {
        match node {
            ExprNode::Constant(_) | ExprNode::Slot(_) | ExprNode::Single(_) | ExprNode::MvFilter(..) => node,
            ExprNode::Negate(a) => ExprNode::Negate(self.boxed(a)),
            ExprNode::Not(a) => ExprNode::Not(self.boxed(a)),
            ExprNode::Arithmetic(op, a, b) => ExprNode::Arithmetic(op, self.boxed(a), self.boxed(b)),
            ExprNode::Concat(a, b) => ExprNode::Concat(self.boxed(a), self.boxed(b)),
            ExprNode::Compare(op, a, b) => ExprNode::Compare(op, self.boxed(a), self.boxed(b)),
            ExprNode::CompareLiteral(op, a, literal) => ExprNode::CompareLiteral(op, self.boxed(a), literal),
            ExprNode::And(a, b) => ExprNode::And(self.boxed(a), self.boxed(b)),
            ExprNode::Or(a, b) => ExprNode::Or(self.boxed(a), self.boxed(b)),
            ExprNode::Xor(a, b) => ExprNode::Xor(self.boxed(a), self.boxed(b)),
            ExprNode::In(a, values) => ExprNode::In(self.boxed(a), self.all(values)),
            ExprNode::InLiterals(a, literals) => ExprNode::InLiterals(self.boxed(a), literals),
            ExprNode::IsNull(a) => ExprNode::IsNull(self.boxed(a)),
            ExprNode::IsNotNull(a) => ExprNode::IsNotNull(self.boxed(a)),
            ExprNode::Case(arms) => ExprNode::Case(self.arms(arms)),
            ExprNode::Validate(arms) => ExprNode::Validate(self.arms(arms)),
            ExprNode::Coalesce(values) => ExprNode::Coalesce(self.all(values)),
            ExprNode::MvMap(values, slot, each) => ExprNode::MvMap(self.boxed(values), slot, each),
            ExprNode::Call(function, args, prepared) => ExprNode::Call(function, self.all(args), prepared),
        }
    }

    /// Adds the columns that a node reads.
    fn reads(&self, node: &ExprNode, reads: &mut Reads) {
        match node {
            ExprNode::Slot(slot) => self.add(*slot, reads),
            ExprNode::MvFilter(slot, _) => self.add(*slot, reads),
            ExprNode::MvMap(_, slot, _) => self.add(*slot, reads),
            ExprNode::Call(function, ..) if !function.is_stable() => *reads = Reads::More,
            _ => {}
        }
        node.each_part(&mut |part| self.reads(part, reads));
    }

    fn add(&self, slot: usize, reads: &mut Reads) {
        *reads = match (&*reads, self.slots.get(slot)) {
            (Reads::Nothing, Some(Slot::Field(_))) => Reads::One(slot),
            (Reads::One(known), Some(Slot::Field(_))) if *known == slot => Reads::One(slot),
            _ => Reads::More,
        };
    }
}

/// The columns that a node reads.
enum Reads {
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
    fn each_part(&self, visit: &mut dyn FnMut(&ExprNode)) {
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
    pub(super) fn each_single(
        &self,
        visit: &mut dyn FnMut(&Single) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        if let ExprNode::Single(single) = self {
            return visit(single);
        }
        let mut ended = Ok(());
        self.each_part(&mut |part| {
            if ended.is_ok() {
                ended = part.each_single(visit);
            }
        });
        ended
    }
}
