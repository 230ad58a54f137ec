//! Compiler from syntax tree to nodes: resolves names to slots, folds constants, compiles patterns.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quarry_event::value::parse_exact_number;
use quarry_spl::ast::{BinaryOp, CompareOp, Expr, ExprKind, UnaryOp};

use super::arithmetic::Arithmetic;
use super::batch::Slot;
use super::compare::{Literal, flip};
use super::context::ExprContext;
use super::node::{ExprNode, Row};
use crate::EngineError;
use crate::functions;
use crate::functions::json_tree::Json;
use crate::functions::significant_figures::Figures;
use crate::functions::table::EvalTable;
use crate::functions::{CallState, Prepared};
use crate::lookup::unknown_table_message;
use crate::rows::Value;

/// Compiles an expression into its root and the slots it reads.
pub(super) fn compile(expr: &Expr, context: &ExprContext) -> Result<(ExprNode, Vec<Slot>), EngineError> {
    let (slots, fields) = (Vec::new(), HashMap::default());
    let mut compiler = Compiler { context, slots, fields, state: CallState::default() };
    let root = compiler.node(expr)?;
    compiler.state.check()?;
    Ok((root, compiler.slots))
}

struct Compiler<'c> {
    context: &'c ExprContext,
    slots: Vec<Slot>,
    /// The slots of fields by name.
    fields: HashMap<String, usize, FixedState>,
    state: CallState,
}

/// An error with its position in the search.
fn invalid(expr: &Expr, message: impl Into<String>) -> EngineError {
    EngineError::Invalid { message: message.into(), span: Some(expr.span) }
}

impl Compiler<'_> {
    fn node(&mut self, expr: &Expr) -> Result<ExprNode, EngineError> {
        let node = match &expr.kind {
            ExprKind::Text(text) => ExprNode::Constant(Value::owned_text(text.clone())),
            ExprKind::Number(value, written) => ExprNode::Constant(number(*value, written)),
            ExprKind::Bool(value) => ExprNode::Constant(Value::Bool(*value)),
            ExprKind::Field(name) => ExprNode::Slot(self.field(name)),
            ExprKind::Unary(UnaryOp::Plus, inner) => return self.node(inner),
            ExprKind::Unary(UnaryOp::Neg, inner) => ExprNode::Negate(self.boxed(inner)?),
            ExprKind::Unary(UnaryOp::Not, inner) => ExprNode::Not(self.boxed(inner)?),
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b)?,
            ExprKind::In(needle, values) => self.membership(needle, values)?,
            ExprKind::Call(name, args) => self.call(expr, name, args)?,
        };
        Ok(self.fold_constants(node))
    }

    fn boxed(&mut self, expr: &Expr) -> Result<Box<ExprNode>, EngineError> {
        self.node(expr).map(Box::new)
    }

    fn nodes(&mut self, exprs: &[Expr]) -> Result<Vec<ExprNode>, EngineError> {
        exprs.iter().map(|expr| self.node(expr)).collect()
    }

    fn field(&mut self, name: &str) -> usize {
        *self.fields.entry(name.to_owned()).or_insert_with(|| {
            self.slots.push(Slot::Field(name.to_owned()));
            self.slots.len() - 1
        })
    }

    fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Result<ExprNode, EngineError> {
        if op == BinaryOp::Like {
            return self.function(b, "like", &[a.clone(), b.clone()]);
        }
        let (left, right) = (self.boxed(a)?, self.boxed(b)?);
        Ok(match op {
            BinaryOp::Add => ExprNode::Arithmetic(Arithmetic::Add, left, right),
            BinaryOp::Sub => ExprNode::Arithmetic(Arithmetic::Sub, left, right),
            BinaryOp::Mul => ExprNode::Arithmetic(Arithmetic::Mul, left, right),
            BinaryOp::Div => ExprNode::Arithmetic(Arithmetic::Div, left, right),
            BinaryOp::Rem => ExprNode::Arithmetic(Arithmetic::Rem, left, right),
            BinaryOp::Concat | BinaryOp::Like => ExprNode::Concat(left, right),
            BinaryOp::Compare(op) => comparison(op, left, right),
            BinaryOp::And => ExprNode::And(left, right),
            BinaryOp::Or => ExprNode::Or(left, right),
            BinaryOp::Xor => ExprNode::Xor(left, right),
        })
    }

    /// Compiles functions that choose which arguments to evaluate, or bind values; all other functions come from the
    /// function table.
    fn call(&mut self, expr: &Expr, name: &str, args: &[Expr]) -> Result<ExprNode, EngineError> {
        match (name, args) {
            ("true", []) => Ok(ExprNode::Constant(Value::Bool(true))),
            ("false", []) => Ok(ExprNode::Constant(Value::Bool(false))),
            ("null", []) => Ok(ExprNode::Constant(Value::Null)),
            ("if", [condition, then, otherwise]) => {
                let always = ExprNode::Constant(Value::Bool(true));
                Ok(ExprNode::Case(vec![(self.node(condition)?, self.node(then)?), (always, self.node(otherwise)?)]))
            }
            ("case", args) => self.arms(expr, name, args).map(ExprNode::Case),
            ("validate", args) => self.arms(expr, name, args).map(ExprNode::Validate),
            ("coalesce", args) => self.nodes(args).map(ExprNode::Coalesce),
            ("isnull", [inner]) => self.boxed(inner).map(ExprNode::IsNull),
            ("isnotnull", [inner]) => self.boxed(inner).map(ExprNode::IsNotNull),
            ("in", [needle, values @ ..]) => self.membership(needle, values),
            ("mvfilter", [predicate]) => self.mvfilter(predicate),
            ("mvmap", [values, each, rest @ ..]) => self.mvmap(values, each, rest),
            ("sigfig", [calculation]) => {
                let mut parts = Vec::new();
                let figures = Figures::of(calculation, &mut parts);
                let nodes = parts.into_iter().map(|part| self.node(part)).collect::<Result<_, _>>()?;
                let function = functions::find(name).ok_or_else(|| invalid(expr, "sigfig() is missing"))?;
                Ok(ExprNode::Call(function, nodes, Prepared::Figures(Box::new(figures))))
            }
            ("searchmatch", [text]) => self.searchmatch(text),
            _ => self.function(expr, name, args),
        }
    }

    /// `needle IN (values)`; constants are parsed once.
    fn membership(&mut self, needle: &Expr, values: &[Expr]) -> Result<ExprNode, EngineError> {
        let (needle, values) = (self.boxed(needle)?, self.nodes(values)?);
        let literal = |node: &ExprNode| if let ExprNode::Constant(value) = node { Literal::of(value) } else { None };
        let literals: Option<Vec<Literal>> = values.iter().map(literal).collect();
        Ok(match literals {
            Some(literals) => ExprNode::InLiterals(needle, literals),
            None => ExprNode::In(needle, values),
        })
    }

    fn arms(&mut self, expr: &Expr, name: &str, args: &[Expr]) -> Result<Vec<(ExprNode, ExprNode)>, EngineError> {
        if args.is_empty() || !args.len().is_multiple_of(2) {
            return Err(invalid(
                expr,
                format!("{name}() needs pairs of a condition and a value; it has {} arguments", args.len()),
            ));
        }
        args.chunks(2).map(|pair| Ok((self.node(&pair[0])?, self.node(&pair[1])?))).collect()
    }

    fn function(&mut self, expr: &Expr, name: &str, args: &[Expr]) -> Result<ExprNode, EngineError> {
        let function = functions::find(name)
            .ok_or_else(|| invalid(expr, format!("eval function {name}() is not known; check its spelling")))?;
        let nodes = self.nodes(args)?;
        let help = &function.row.help;
        if !help.arity.allows(nodes.len()) {
            return Err(invalid(
                expr,
                format!("{name}() cannot have {} arguments; write {}", nodes.len(), help.syntax),
            ));
        }
        let constants: Vec<Option<&Value<'static>>> =
            nodes.iter().map(|node| if let ExprNode::Constant(value) = node { Some(value) } else { None }).collect();
        let prepared = match name {
            "lookup" => self.table(args)?,
            _ => functions::prepare(name, &constants).map_err(|fault| EngineError::at(fault, expr.span))?,
        };
        Ok(ExprNode::Call(function, nodes, prepared))
    }

    /// The table of a `lookup()`. Its name must be constant; column names that are constant must exist.
    fn table(&self, args: &[Expr]) -> Result<Prepared, EngineError> {
        let [table, asked @ ..] = args else { return Ok(Prepared::Nothing) };
        let ExprKind::Text(name) = &table.kind else {
            return Err(invalid(table, "lookup() needs the name of its table in quotes"));
        };
        let Some(source) = &self.context.tables.0 else {
            return Err(invalid(table, "lookup() works in searches only"));
        };
        let read = source.table(name).map_err(|fault| EngineError::at(fault, table.span))?;
        let found = read.ok_or_else(|| invalid(table, unknown_table_message(name, source.as_ref())))?;
        let found = EvalTable::new(name, found).map_err(|fault| EngineError::at(fault, table.span))?;
        check_json_of_lookup(asked)?;
        let columns = asked.iter().flat_map(|asked| match &asked.kind {
            ExprKind::Call(call, pairs) if call == "json_object" => pairs.iter().step_by(2).collect(),
            ExprKind::Call(call, values) if call == "json_array" => values.iter().collect(),
            _ => Vec::new(),
        });
        for column in columns {
            if let ExprKind::Text(text) = &column.kind
                && let Some(message) = found.missing_column_message(text)
            {
                return Err(invalid(column, message));
            }
        }
        Ok(Prepared::Table(Box::new(found)))
    }

    fn mvfilter(&mut self, predicate: &Expr) -> Result<ExprNode, EngineError> {
        let mut names = Vec::new();
        collect_fields(predicate, &mut names);
        match names.as_slice() {
            [name] => {
                let slot = self.field(name);
                Ok(ExprNode::MvFilter(slot, self.boxed(predicate)?))
            }
            _ => Err(invalid(
                predicate,
                format!("mvfilter() needs a condition over exactly one field; this one names {}", names.len()),
            )),
        }
    }

    /// Compiles `mvmap`; it binds the field in the third argument or, without a third argument, the first field
    /// of the first argument.
    fn mvmap(&mut self, values: &Expr, each: &Expr, rest: &[Expr]) -> Result<ExprNode, EngineError> {
        let mut names = Vec::new();
        match rest.first().map(|expr| &expr.kind) {
            Some(ExprKind::Field(name) | ExprKind::Text(name)) => names.push(name.as_str()),
            _ => collect_fields(values, &mut names),
        }
        let Some(name) = names.first() else {
            return Err(invalid(
                values,
                "mvmap() needs a field in its first argument, or a name for the value as its third",
            ));
        };
        let slot = self.field(name);
        Ok(ExprNode::MvMap(self.boxed(values)?, slot, self.boxed(each)?))
    }

    fn searchmatch(&mut self, text: &Expr) -> Result<ExprNode, EngineError> {
        let ExprKind::Text(search) = &text.kind else {
            return Err(invalid(text, "searchmatch() takes a quoted search"));
        };
        let filter = crate::row_filter::RowFilter::parse(search, self.context).map_err(|error| match error {
            EngineError::Invalid { message, .. } => invalid(text, message),
            other => other,
        })?;
        self.slots.push(Slot::Search(Box::new(filter)));
        Ok(ExprNode::Slot(self.slots.len() - 1))
    }

    /// The node, or its value if it is constant.
    fn fold_constants(&self, node: ExprNode) -> ExprNode {
        let row = Row::detached(self.context, &self.state);
        if matches!(node, ExprNode::Constant(_)) || !is_constant(&node) {
            return node;
        }
        let value = node.value(&row).into_owned();
        ExprNode::Constant(value)
    }
}

/// A number keeps the digits with which it is written, like a number in a field.
fn number(value: f64, written: &str) -> Value<'static> {
    parse_exact_number(written).map_or_else(|| Value::from_f64(value), Value::from_number)
}

/// Moves a constant to the right, where it is parsed only once.
fn comparison(op: CompareOp, left: Box<ExprNode>, right: Box<ExprNode>) -> ExprNode {
    let literal = |node: &ExprNode| if let ExprNode::Constant(value) = node { Literal::of(value) } else { None };
    if let Some(literal) = literal(&right) {
        return ExprNode::CompareLiteral(op, left, literal);
    }
    if let Some(literal) = literal(&left) {
        return ExprNode::CompareLiteral(flip(op), right, literal);
    }
    ExprNode::Compare(op, left, right)
}

/// Whether the node's operands are constants. They are already folded, so one level is enough.
fn is_constant(node: &ExprNode) -> bool {
    let constant = |node: &ExprNode| matches!(node, ExprNode::Constant(_));
    let constant_arms = |arms: &[(ExprNode, ExprNode)]| arms.iter().all(|(a, b)| constant(a) && constant(b));
    match node {
        ExprNode::Constant(_) => true,
        ExprNode::Slot(_) | ExprNode::MvFilter(..) | ExprNode::MvMap(..) | ExprNode::Single(_) => false,
        ExprNode::Negate(a)
        | ExprNode::Not(a)
        | ExprNode::IsNull(a)
        | ExprNode::IsNotNull(a)
        | ExprNode::CompareLiteral(_, a, _) => constant(a),
        ExprNode::Arithmetic(_, a, b) | ExprNode::Concat(a, b) | ExprNode::Compare(_, a, b) => {
            constant(a) && constant(b)
        }
        ExprNode::And(a, b) | ExprNode::Or(a, b) | ExprNode::Xor(a, b) => constant(a) && constant(b),
        ExprNode::InLiterals(a, _) => constant(a),
        ExprNode::In(a, values) => constant(a) && values.iter().all(constant),
        ExprNode::Case(arms) | ExprNode::Validate(arms) => constant_arms(arms),
        ExprNode::Coalesce(values) => values.iter().all(constant),
        ExprNode::Call(function, args, _) => function.is_stable() && args.iter().all(constant),
    }
}

/// Distinct names of the fields an expression reads, in order.
fn collect_fields<'e>(expr: &'e Expr, names: &mut Vec<&'e str>) {
    match &expr.kind {
        ExprKind::Field(name) if !names.contains(&name.as_str()) => names.push(name),
        _ => expr.parts().into_iter().for_each(|part| collect_fields(part, names)),
    }
}

/// Rejects a `lookup()` with a plain text in place of its JSON object or array: it would match nothing in any row.
fn check_json_of_lookup(asked: &[Expr]) -> Result<(), EngineError> {
    let literal = |expr: &Expr| match &expr.kind {
        ExprKind::Text(text) | ExprKind::Number(_, text) => Some(text.clone()),
        _ => None,
    };
    let parsed = |text: &str| Json::parse_container(text);
    if let Some(object) = asked.first()
        && let Some(text) = literal(object).filter(|text| !matches!(parsed(text), Some(Json::Object(_))))
    {
        let form = format!("json_object({text:?}, VALUE)");
        let message = format!("lookup() expects an object of columns and values: write {form} in place of {text:?}");
        return Err(invalid(object, message));
    }
    if let Some(list) = asked.get(1)
        && let Some(text) = literal(list).filter(|text| !matches!(parsed(text), Some(Json::Array(_))))
    {
        let form = format!("json_array({text:?})");
        let message = format!("lookup() expects a list of columns: write {form} in place of {text:?}");
        return Err(invalid(list, message));
    }
    Ok(())
}
