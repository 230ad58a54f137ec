//! Builder of nodes for generated commands. Code that expands a command into other commands builds their nodes
//! directly, so that no name or value needs to be quoted in a text and parsed again.

use quarry_stdx::number::f64_of;

use super::{
    Aggregate, AggregateArg, AssignTarget, Assignment, BinOptions, BinaryOp, ChartCommand, Command, CompareOp,
    EvalCommand, EventStatsCommand, Expr, ExprKind, FieldPattern, FieldsCommand, ForeachCommand, ForeachOver,
    HeadCommand, Pipeline, RenameCommand, SearchExpr, SearchPattern, SeriesOptions, SortCommand, SortKey, SortKind,
    Span, SplitField, Stage, StatsCommand, StatsFunction, StreamStatsCommand, TableCommand, TimeText, UnaryOp,
    WhereCommand,
};

/// Builds nodes that all have the position of the command they replace, so that errors point at that command.
#[derive(Clone, Copy, Debug)]
pub struct NodeBuilder {
    span: Span,
}

impl NodeBuilder {
    /// A builder of nodes at this position.
    pub fn at(span: Span) -> NodeBuilder {
        NodeBuilder { span }
    }

    /// The position of the nodes.
    pub fn span(&self) -> Span {
        self.span
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
    pub fn number(&self, number: impl Into<f64>) -> Expr {
        let number = number.into();
        self.expr(ExprKind::Number(number, number.to_string()))
    }

    /// A whole-number literal.
    pub fn integer(&self, number: usize) -> Expr {
        self.expr(ExprKind::Number(f64_of(number), number.to_string()))
    }

    /// A number literal as written, with its sign; `None` if the text is not a number.
    pub fn literal(&self, text: &str) -> Option<Expr> {
        let digits = text.trim_start_matches(['-', '+']);
        let is_number = text.len() - digits.len() <= 1 && digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let number = digits.parse::<f64>().ok().filter(|_| is_number)?;
        let number = self.expr(ExprKind::Number(number, digits.to_owned()));
        Some(match text.starts_with('-') {
            true => self.expr(ExprKind::Unary(UnaryOp::Neg, Box::new(number))),
            false => number,
        })
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

    /// `if(condition, value, null())`.
    pub fn when(&self, condition: Expr, value: Expr) -> Expr {
        self.call("if", [condition, value, self.nullary("null")])
    }

    /// `NOT expr`.
    pub fn not(&self, expr: Expr) -> Expr {
        self.expr(ExprKind::Unary(UnaryOp::Not, Box::new(expr)))
    }

    /// Expressions joined by an associative operator; an empty text literal if there are none.
    pub fn join_operands(&self, op: BinaryOp, operands: impl IntoIterator<Item = Expr>) -> Expr {
        let joined = join_balanced(operands.into_iter().collect(), |left, right| self.binary(op, left, right));
        joined.unwrap_or_else(|| self.text(""))
    }

    /// `field=value` of a search condition; `*` in the value is a wildcard.
    pub fn equals(&self, field: &str, value: &str) -> SearchExpr {
        let value = SearchPattern { text: value.to_owned(), quoted: true, span: self.span };
        SearchExpr::Compare { field: self.pattern(field), op: CompareOp::Eq, value, case_sensitive: false }
    }

    /// `(field=value OR field=value ...)` of a search condition; matches all events if there are no values.
    pub fn equals_any(&self, field: &str, values: &[String]) -> SearchExpr {
        match values {
            [] => SearchExpr::All,
            [value] => self.equals(field, value),
            values => SearchExpr::Or(values.iter().map(|value| self.equals(field, value)).collect()),
        }
    }

    /// A time modifier; `text` must be valid.
    pub fn time(&self, text: &str) -> TimeText {
        TimeText { text: text.to_owned(), span: self.span }
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

    /// `count AS NAME`.
    pub fn count(&self, name: &str) -> Aggregate {
        let (function, arg) = (StatsFunction::Count, AggregateArg::Rows);
        Aggregate { function, arg, name: name.to_owned(), renamed: true, span: self.span }
    }

    /// `stats AGGREGATES BY FIELDS`.
    pub fn stats(&self, aggregates: Vec<Aggregate>, by: &[&str]) -> StatsCommand {
        let by = self.patterns(by);
        StatsCommand { aggregates, by, all_num: false, delim: " ".to_owned(), dedup_split_values: false }
    }

    /// `eventstats AGGREGATES BY FIELDS`.
    pub fn eventstats(&self, aggregates: Vec<Aggregate>, by: &[&str]) -> EventStatsCommand {
        EventStatsCommand(self.stats(aggregates, by))
    }

    /// `streamstats AGGREGATES BY FIELDS`.
    pub fn streamstats(&self, aggregates: Vec<Aggregate>, by: &[&str]) -> StreamStatsCommand {
        let by = self.patterns(by);
        StreamStatsCommand { aggregates, by, ..StreamStatsCommand::default() }
    }

    /// `chart limit=LIMIT useother=OTHER AGGREGATES OVER ROW BY COLUMN`.
    pub fn chart(&self, aggregates: Vec<Aggregate>, row: &str, column: &str, series: SeriesOptions) -> ChartCommand {
        let (row, column) = (Some(self.split(row)), Some(self.split(column)));
        ChartCommand { aggregates, computed: Vec::new(), row, column, series, cont: true }
    }

    /// A field by which `chart` or `timechart` splits.
    pub fn split(&self, name: &str) -> SplitField {
        SplitField { field: self.pattern(name), bin: BinOptions::default() }
    }

    /// `eval TARGET=EXPR`.
    pub fn eval(&self, target: &str, expr: Expr) -> Command {
        EvalCommand { assignments: vec![self.assignment(target, expr)] }.into()
    }

    /// `where CONDITION`.
    pub fn filter(&self, condition: Expr) -> Command {
        WhereCommand { condition }.into()
    }

    /// `rename FROM AS TO`.
    pub fn rename(&self, from: &str, to: &str) -> Command {
        RenameCommand { pairs: vec![(self.pattern(from), self.pattern(to))] }.into()
    }

    /// `fields - NAMES`.
    pub fn drop_fields(&self, names: &[&str]) -> Command {
        FieldsCommand { removes: true, fields: self.patterns(names) }.into()
    }

    /// `table NAMES`.
    pub fn table(&self, names: &[&str]) -> Command {
        TableCommand { fields: self.patterns(names) }.into()
    }

    /// `sort LIMIT KEYS`; 0 keeps all rows.
    pub fn sort(&self, limit: usize, keys: Vec<SortKey>) -> Command {
        SortCommand { limit, has_limit: true, keys, reverse: false }.into()
    }

    /// `head LIMIT`.
    pub fn head(&self, limit: usize) -> Command {
        HeadCommand { limit: Some(limit), condition: None, null_is_true: false, keep_last: false }.into()
    }

    /// A key of `sort`.
    pub fn sort_key(&self, name: &str, descending: bool, kind: SortKind) -> SortKey {
        SortKey { field: self.pattern(name), descending, kind }
    }

    /// `foreach PATTERN [ eval ASSIGNMENTS ]`.
    pub fn each_field(&self, pattern: &str, assignments: Vec<Assignment>) -> Command {
        let over = ForeachOver::Fields(vec![self.pattern(pattern)]);
        ForeachCommand { span: self.span, ..ForeachCommand::with_default_placeholders(over, assignments) }.into()
    }

    /// A subsearch.
    pub fn pipeline(&self, commands: Vec<Command>) -> Pipeline {
        Pipeline { commands: commands.into_iter().map(|command| self.stage(command)).collect(), span: self.span }
    }

    fn expr(&self, kind: ExprKind) -> Expr {
        Expr { kind, span: self.span }
    }
}

/// Joins the operands of an associative operator as a balanced tree, so that a long chain is not a deep tree.
pub(crate) fn join_balanced(mut operands: Vec<Expr>, join: impl Fn(Expr, Expr) -> Expr) -> Option<Expr> {
    while operands.len() > 1 {
        let mut joined = Vec::with_capacity(operands.len().div_ceil(2));
        let mut rest = operands.into_iter();
        while let Some(left) = rest.next() {
            joined.push(match rest.next() {
                Some(right) => join(left, right),
                None => left,
            });
        }
        operands = joined;
    }
    operands.pop()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::EvalCommand;
    use crate::parse::tests::without_spans;

    #[test]
    fn built_nodes_equal_parsed_nodes() {
        let make = NodeBuilder::at(Span::default());
        let difference = make.binary(BinaryOp::Sub, make.field("a b"), make.number(3));
        let condition = make.compare(CompareOp::Lt, difference, make.call("len", [make.text("x\"y")]));
        let choice = make.call("if", [condition, make.number(1), make.number(2)]);
        let built = EvalCommand { assignments: vec![make.assignment("z", choice)] };
        let parsed = crate::parse("| eval z=if('a b'-3<len(\"x\\\"y\"), 1, 2)");
        assert!(parsed.is_ok(), "{:?}", parsed.diagnostics);
        let built = make.stage(built);
        assert_eq!(without_spans(&built.command), without_spans(&parsed.pipeline.commands[0].command));

        let aggregate = make.aggregate(StatsFunction::Sum, "x", "total");
        let parsed = crate::parse("* | stats sum(x) AS total BY user");
        let built = make.stage(make.stats(vec![aggregate], &["user"]));
        assert_eq!(without_spans(&built.command), without_spans(&parsed.pipeline.commands[1].command));
    }
}
