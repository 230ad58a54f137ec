//! Builder of nodes for generated commands. Code that expands a command to others builds their nodes directly, so that
//! no name or value needs to be quoted in a text and parsed again.

use super::{
    Aggregate, AggregateArg, AssignTarget, Assignment, BinaryOp, Command, CompareOp, Expr, ExprKind, FieldPattern,
    Span, Stage, StatsCommand, StatsFunction,
};

/// Builds nodes that all have one position: that of the command they replace, so that errors point at it.
#[derive(Clone, Copy, Debug)]
pub struct NodeBuilder {
    span: Span,
}

impl NodeBuilder {
    /// A builder of nodes at this position.
    pub fn at(span: Span) -> NodeBuilder {
        NodeBuilder { span }
    }

    /// A command in a pipeline.
    pub fn stage(&self, command: impl Into<Command>) -> Stage {
        Stage { command: command.into(), span: self.span }
    }

    /// A field name or pattern outside of expressions.
    pub fn pattern(&self, name: &str) -> FieldPattern {
        FieldPattern { text: name.to_owned(), span: self.span }
    }

    /// Field names or patterns outside of expressions.
    pub fn patterns(&self, names: &[&str]) -> Vec<FieldPattern> {
        names.iter().map(|name| self.pattern(name)).collect()
    }

    /// A field in an expression.
    pub fn field(&self, name: &str) -> Expr {
        self.expr(ExprKind::Field(name.to_owned()))
    }

    /// A text literal.
    pub fn text(&self, text: &str) -> Expr {
        self.expr(ExprKind::Text(text.to_owned()))
    }

    /// A number literal.
    pub fn number(&self, number: u32) -> Expr {
        self.expr(ExprKind::Number(f64::from(number), number.to_string()))
    }

    /// A call of an eval function, by its lower-case name.
    pub fn call(&self, name: &str, arguments: impl Into<Vec<Expr>>) -> Expr {
        self.expr(ExprKind::Call(name.to_owned(), arguments.into()))
    }

    /// A call of an eval function without arguments.
    pub fn nullary(&self, name: &str) -> Expr {
        self.call(name, Vec::<Expr>::new())
    }

    /// `left op right`.
    pub fn binary(&self, op: BinaryOp, left: Expr, right: Expr) -> Expr {
        self.expr(ExprKind::Binary(op, Box::new(left), Box::new(right)))
    }

    /// A comparison.
    pub fn compare(&self, op: CompareOp, left: Expr, right: Expr) -> Expr {
        self.binary(BinaryOp::Compare(op), left, right)
    }

    /// `TARGET = EXPR` of an eval command.
    pub fn assignment(&self, target: &str, expr: Expr) -> Assignment {
        Assignment { target: AssignTarget::Field(target.to_owned()), expr }
    }

    /// `FUNCTION(FIELD) AS NAME`.
    pub fn aggregate(&self, function: StatsFunction, field: &str, name: impl Into<String>) -> Aggregate {
        let arg = AggregateArg::Field(self.pattern(field));
        Aggregate { function, arg, name: name.into(), renamed: true, span: self.span }
    }

    /// `stats AGGREGATES BY FIELDS`.
    pub fn stats(&self, aggregates: Vec<Aggregate>, by: &[&str]) -> StatsCommand {
        let by = self.patterns(by);
        StatsCommand { aggregates, by, all_num: false, delim: " ".to_owned(), dedup_split_values: false }
    }

    fn expr(&self, kind: ExprKind) -> Expr {
        Expr { kind, span: self.span }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::EvalCommand;

    #[test]
    fn nodes_are_those_of_the_parser() {
        let make = NodeBuilder::at(Span::default());
        let difference = make.binary(BinaryOp::Sub, make.field("a b"), make.number(3));
        let condition = make.compare(CompareOp::Lt, difference, make.call("len", [make.text("x\"y")]));
        let choice = make.call("if", [condition, make.number(1), make.number(2)]);
        let built = EvalCommand { assignments: vec![make.assignment("z", choice)] };
        let parsed = crate::parse("| eval z=if('a b'-3<len(\"x\\\"y\"), 1, 2)");
        assert!(parsed.is_ok(), "{:?}", parsed.diagnostics);
        let built = make.stage(built);
        assert_eq!(without_places(&built.command), without_places(&parsed.pipeline.commands[0].command));

        let aggregate = make.aggregate(StatsFunction::Sum, "x", "total");
        let parsed = crate::parse("* | stats sum(x) AS total BY user");
        let built = make.stage(make.stats(vec![aggregate], &["user"]));
        assert_eq!(without_places(&built.command), without_places(&parsed.pipeline.commands[1].command));
    }

    /// A tree as text, without positions.
    fn without_places(command: &Command) -> String {
        let text = format!("{command:?}");
        let parts = text.split("Span { ").enumerate();
        parts.map(|(at, part)| if at == 0 { part } else { part.split_once('}').unwrap().1 }).collect()
    }
}
