//! Eval expressions in prefix notation.

use crate::ast::{AssignTarget, BinaryOp, Command, CompareOp, Expr, ExprKind, NamePart, UnaryOp};
use crate::parse::{parse, parse_expression};

fn show(expr: &Expr) -> String {
    let list = |args: &[Expr]| args.iter().map(show).collect::<Vec<_>>().join(" ");
    match &expr.kind {
        ExprKind::Text(text) => format!("{text:?}"),
        ExprKind::Number(_, literal) => literal.clone(),
        ExprKind::Bool(value) => value.to_string(),
        ExprKind::Field(name) => name.clone(),
        ExprKind::Unary(op, inner) => {
            let op = match op {
                UnaryOp::Neg => "neg",
                UnaryOp::Plus => "plus",
                UnaryOp::Not => "not",
            };
            format!("({op} {})", show(inner))
        }
        ExprKind::Binary(op, left, right) => format!("({} {} {})", sign(*op), show(left), show(right)),
        ExprKind::In(value, values) => format!("(in {} {})", show(value), list(values)),
        ExprKind::Call(name, args) => format!("{name}({})", list(args)),
    }
}

fn sign(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::Rem => "%",
        BinaryOp::Concat => ".",
        BinaryOp::Compare(CompareOp::Eq) => "=",
        BinaryOp::Compare(CompareOp::Ne) => "!=",
        BinaryOp::Compare(CompareOp::Lt) => "<",
        BinaryOp::Compare(CompareOp::Le) => "<=",
        BinaryOp::Compare(CompareOp::Gt) => ">",
        BinaryOp::Compare(CompareOp::Ge) => ">=",
        BinaryOp::Like => "like",
        BinaryOp::And => "and",
        BinaryOp::Or => "or",
        BinaryOp::Xor => "xor",
    }
}

#[test]
fn expressions_are_parsed_by_precedence() {
    let table = [
        ("1+2*3", "(+ 1 (* 2 3))"),
        ("(1+2)*3", "(* (+ 1 2) 3)"),
        ("1-2-3", "(- (- 1 2) 3)"),
        ("-x+1", "(+ (neg x) 1)"),
        ("a=1 OR b=2 AND NOT c=3", "(or (= a 1) (and (= b 2) (not (= c 3))))"),
        ("a=1 or b=2 xor c=3", "(or (= a 1) (xor (= b 2) (= c 3)))"),
        ("a==b", "(= a b)"),
        ("a . \":\" . b", "(. (. a \":\") b)"),
        ("foo.bar", "(. foo bar)"),
        ("a.1.5", "(. a 1.5)"),
        ("1.5e3", "1.5e3"),
        (".5", ".5"),
        ("'a b'.'c.d'", "(. a b c.d)"),
        ("\"a\\\"b\\\\c\\d\"", "\"a\\\"b\\\\c\\\\d\""),
        ("x LIKE \"a%\"", "(like x \"a%\")"),
        ("like(x, \"a%\")", "like(x \"a%\")"),
        ("NOT LIKE(x, \"a%\") AND y IN (1, \"b\")", "(and (not like(x \"a%\")) (in y 1 \"b\"))"),
        ("NOT new IN (old)", "(not (in new old))"),
        ("in(x, 1, 2)", "in(x 1 2)"),
        ("IF(isnull(x), true, false())", "if(isnull(x) true() false())"),
        ("case(x>1, \"a\", 1=1, \"b\")", "case((> x 1) \"a\" (= 1 1) \"b\")"),
        ("tag::host", "tag::host"),
        ("x.\"%\"", "(. x \"%\")"),
        ("a % 2 == 0", "(= (% a 2) 0)"),
        ("a ``` sum ``` + b", "(+ a b)"),
        ("1=1 AND 2=2 AND 3=3 AND 4=4", "(and (and (= 1 1) (= 2 2)) (and (= 3 3) (= 4 4)))"),
    ];
    for (text, want) in table {
        let expr = parse_expression(text).unwrap_or_else(|remarks| panic!("{text}: {remarks:?}"));
        assert_eq!(show(&expr), want, "{text}");
        assert_eq!(expr.span.end, text.len(), "{text}");
    }
}

#[test]
fn invalid_expressions_are_errors() {
    for text in
        ["", "1+", "(1", "a b", "foo(", "if(1,2)", "case(a)", "'a", "=1", "AND", "a IN", "a IN (1) IN (2", "1 2"]
    {
        assert!(parse_expression(text).is_err(), "{text}");
    }
}

#[test]
fn assignments_are_parsed() {
    let parsed = parse("| eval a=1, 'b c'=2, \"d\"=3, e.f=a, pre{g}post=1, {h}=x, i{}.j=1");
    assert!(parsed.is_ok(), "{:?}", parsed.diagnostics);
    let Command::Eval(eval) = &parsed.pipeline.commands[0].command else { panic!("eval") };
    let targets: Vec<AssignTarget> = eval.assignments.iter().map(|assignment| assignment.target.clone()).collect();
    let field = |name: &str| AssignTarget::Field(name.to_owned());
    let text = |part: &str| NamePart::Text(part.to_owned());
    let want = [
        field("a"),
        field("b c"),
        field("d"),
        field("e.f"),
        AssignTarget::Dynamic(vec![text("pre"), NamePart::Field("g".to_owned()), text("post")]),
        AssignTarget::Dynamic(vec![NamePart::Field("h".to_owned())]),
        field("i{}.j"),
    ];
    assert_eq!(targets, want);
}
