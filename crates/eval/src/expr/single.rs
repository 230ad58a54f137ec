//! Parts of an expression that read one column only.
//!
//! Such a part gives equal results for equal values, so it is computed once per distinct value of a coded column
//! ([`crate::rows::DistinctMemo`]), whatever functions it consists of. The largest such parts are found when the
//! expression is compiled, apart from those whose value is a condition in some rows and something else in others.
//!
//! Functions that change from call to call, searches in expressions and what `mvmap` and `mvfilter` do with a value they
//! bind are never taken out.

use arrow::array::ArrayRef;

use super::batch::{Batch, Slot};
use super::column::{evaluate, is_numeric_by_column};
use super::context::ExprContext;
use super::node::{Node, Row};
use crate::EngineError;
use crate::functions::CallState;
use crate::rows::{ColumnReader, DistinctMemo, Numbers, Value};

/// A part that reads one column only.
#[derive(Debug)]
pub struct Single {
    /// The part.
    pub(super) inner: Node,
    /// The slot it reads.
    pub(super) slot: usize,
    /// Its number among the parts.
    pub(super) at: usize,
    numbers: Numbers,
    memo: DistinctMemo,
}

impl Single {
    /// What the part gives for each row of the column it reads; `None` where rows are to be computed one by one.
    pub(super) fn compute(&self, column: &ArrayRef, context: &ExprContext) -> Result<Option<ArrayRef>, EngineError> {
        let results = self.memo.run(column, self.numbers, |values| {
            // A value that fails may belong to no row that asks for it: rows then find out themselves.
            let state = CallState::default();
            let made = evaluate(&self.inner, &Batch::of_slot(self.slot, values, context, &state))?;
            Ok(state.check().is_ok().then(|| vec![made]))
        })?;
        Ok(results.and_then(|mut results| results.pop()))
    }

    /// The column of its results, if they were computed.
    #[inline]
    pub(super) fn known<'a>(&self, row: &Row<'a>) -> Option<&'a ColumnReader> {
        row.singles.get(self.at).and_then(Option::as_ref)
    }
}

/// The node with its largest parts that read one field marked.
pub(super) fn with_singles(node: Node, slots: &[Slot]) -> Node {
    Marker { slots, count: 0 }.mark(node)
}

struct Marker<'s> {
    slots: &'s [Slot],
    count: usize,
}

impl Marker<'_> {
    fn mark(&mut self, node: Node) -> Node {
        if matches!(node, Node::Slot(_) | Node::Constant(_)) {
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
            return Node::Single(Box::new(Single { inner: node, slot, at, numbers, memo }));
        }
        self.parts(node)
    }

    fn boxed(&mut self, mut node: Box<Node>) -> Box<Node> {
        let taken = std::mem::replace(node.as_mut(), Node::Constant(Value::Null));
        *node = self.mark(taken);
        node
    }

    fn arms(&mut self, arms: Vec<(Node, Node)>) -> Vec<(Node, Node)> {
        arms.into_iter().map(|(test, value)| (self.mark(test), self.mark(value))).collect()
    }

    fn all(&mut self, nodes: Vec<Node>) -> Vec<Node> {
        nodes.into_iter().map(|node| self.mark(node)).collect()
    }

    /// The node with its operands marked.
    fn parts(&mut self, node: Node) -> Node {
        match node {
            Node::Constant(_) | Node::Slot(_) | Node::Single(_) | Node::MvFilter(..) => node,
            Node::Negate(a) => Node::Negate(self.boxed(a)),
            Node::Not(a) => Node::Not(self.boxed(a)),
            Node::Arithmetic(op, a, b) => Node::Arithmetic(op, self.boxed(a), self.boxed(b)),
            Node::Concat(a, b) => Node::Concat(self.boxed(a), self.boxed(b)),
            Node::Compare(op, a, b) => Node::Compare(op, self.boxed(a), self.boxed(b)),
            Node::CompareLiteral(op, a, literal) => Node::CompareLiteral(op, self.boxed(a), literal),
            Node::And(a, b) => Node::And(self.boxed(a), self.boxed(b)),
            Node::Or(a, b) => Node::Or(self.boxed(a), self.boxed(b)),
            Node::Xor(a, b) => Node::Xor(self.boxed(a), self.boxed(b)),
            Node::In(a, values) => Node::In(self.boxed(a), self.all(values)),
            Node::InLiterals(a, literals) => Node::InLiterals(self.boxed(a), literals),
            Node::IsNull(a) => Node::IsNull(self.boxed(a)),
            Node::IsNotNull(a) => Node::IsNotNull(self.boxed(a)),
            Node::Case(arms) => Node::Case(self.arms(arms)),
            Node::Validate(arms) => Node::Validate(self.arms(arms)),
            Node::Coalesce(values) => Node::Coalesce(self.all(values)),
            Node::MvMap(values, slot, each) => Node::MvMap(self.boxed(values), slot, each),
            Node::Call(function, args, prepared) => Node::Call(function, self.all(args), prepared),
        }
    }

    /// Adds what a node reads.
    fn reads(&self, node: &Node, reads: &mut Reads) {
        match node {
            Node::Slot(slot) => self.add(*slot, reads),
            Node::MvFilter(slot, _) => self.add(*slot, reads),
            Node::MvMap(_, slot, _) => self.add(*slot, reads),
            Node::Call(function, ..) if !function.is_stable() => *reads = Reads::More,
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

/// The columns a node reads.
enum Reads {
    Nothing,
    One(usize),
    More,
}

/// Whether a value is a condition in some rows and something else in others, which a column cannot hold.
fn is_mixed(node: &Node) -> bool {
    let values: Vec<&Node> = match node {
        Node::Case(arms) | Node::Validate(arms) => arms.iter().map(|(_, value)| value).collect(),
        Node::Coalesce(values) => values.iter().collect(),
        _ => return false,
    };
    let conditions = values.iter().filter(|value| value.is_condition()).count();
    (conditions > 0 && conditions < values.len()) || values.into_iter().any(is_mixed)
}

impl Node {
    /// The nodes right below.
    fn each_part(&self, visit: &mut dyn FnMut(&Node)) {
        match self {
            Node::Constant(_) | Node::Slot(_) => {}
            Node::Negate(a) | Node::Not(a) | Node::IsNull(a) | Node::IsNotNull(a) => visit(a),
            Node::CompareLiteral(_, a, _) | Node::InLiterals(a, _) | Node::MvFilter(_, a) => visit(a),
            Node::Arithmetic(_, a, b) | Node::Concat(a, b) | Node::Compare(_, a, b) | Node::MvMap(a, _, b) => {
                visit(a);
                visit(b);
            }
            Node::And(a, b) | Node::Or(a, b) | Node::Xor(a, b) => {
                visit(a);
                visit(b);
            }
            Node::In(a, values) => {
                visit(a);
                values.iter().for_each(visit);
            }
            Node::Case(arms) | Node::Validate(arms) => arms.iter().for_each(|(test, value)| {
                visit(test);
                visit(value);
            }),
            Node::Coalesce(values) | Node::Call(_, values, _) => values.iter().for_each(visit),
            Node::Single(single) => visit(&single.inner),
        }
    }

    /// The marked parts in it.
    pub(super) fn each_single(
        &self,
        visit: &mut dyn FnMut(&Single) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        if let Node::Single(single) = self {
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
