//! `eval`: computes fields by expressions.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Beginning, Call, CommandInfo, CreatedFields, Group, Kind, Semantics, StageContext, Syntax};
use crate::analyse::{FieldNeeds, is_constant, possibly_missing_fields};
use crate::ast::Expr;
use crate::diagnostic::Diagnostic;
use crate::lints::find_in_expression;
use crate::parse::{ParseResult, Parser};

/// `eval a=EXPR, b=EXPR`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalCommand {
    /// Assignments, evaluated from left to right.
    pub assignments: Vec<Assignment>,
}

/// `TARGET = EXPR`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// Target of the assignment.
    pub target: AssignTarget,
    /// The value.
    pub expr: Expr,
}

/// Left side of an eval assignment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AssignTarget {
    /// A field of this name.
    Field(String),
    /// `{f}` or `pre{f}post`: the name contains values of other fields, row by row.
    Dynamic(Vec<NamePart>),
}

/// Part of a dynamic field name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum NamePart {
    /// Fixed text.
    Text(String),
    /// Value of this field.
    Field(String),
}

impl Syntax for EvalCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "eval FIELD=EXPR [, FIELD=EXPR]...",
        summary: "Computes fields",
        group: Group::Fields,
        kind: Kind::Row,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<EvalCommand> {
        let mut assignments = Vec::new();
        loop {
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            assignments.push(parser.assignment()?);
            if !parser.eat(',') && !parser.at_end() {
                let before = parser.text[..parser.pos].trim_end();
                let hint = match (crate::foreign_words::after_expression(parser.rest()), parser.peek()) {
                    (Some(hint), _) => hint,
                    (None, Some('"')) => "join texts with `.`",
                    _ if before.ends_with("if") => "write if(condition, yes, no)",
                    _ if before.ends_with("case") => "write case(condition, value, ...)",
                    _ => "separate assignments by commas",
                };
                let remark = Diagnostic::error(format!("eval: unexpected {}", parser.found_text()), parser.here());
                return Err(remark.with_hint(hint));
            }
        }
        if assignments.is_empty() {
            return Err(
                Diagnostic::error("eval: nothing is assigned", parser.here()).with_hint("write field = expression")
            );
        }
        Ok(EvalCommand { assignments })
    }
}

impl Semantics for EvalCommand {
    fn begins_with(&self) -> Beginning<'_> {
        Beginning::EmptyRow
    }

    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        for assignment in self.assignments.iter().rev() {
            match &assignment.target {
                AssignTarget::Field(name) => {
                    if !after.includes(name) {
                        continue;
                    }
                    after.fields.remove(name);
                }
                AssignTarget::Dynamic(parts) => {
                    for part in parts {
                        if let NamePart::Field(name) = part {
                            after.add(name);
                        }
                    }
                }
            }
            after.add_expr(&assignment.expr);
        }
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        let names = self.assignments.iter().map(|assignment| match &assignment.target {
            AssignTarget::Field(name) => name.as_str(),
            AssignTarget::Dynamic(_) => "*",
        });
        CreatedFields::adding(names)
    }

    fn optional_fields(&self) -> BTreeSet<String> {
        self.assignments.iter().flat_map(|assignment| possibly_missing_fields(&assignment.expr)).collect()
    }

    fn written_fields(&self) -> Option<Vec<&str>> {
        let names = self.assignments.iter().map(|assignment| match &assignment.target {
            AssignTarget::Field(field) => Some(field.as_str()),
            AssignTarget::Dynamic(_) => None,
        });
        names.collect()
    }

    fn is_repeatable(&self) -> bool {
        self.assignments.iter().all(|assignment| is_constant(&assignment.expr))
    }

    fn find_lints(&self, place: &StageContext<'_>, found: &mut Vec<Diagnostic>) {
        self.assignments.iter().for_each(|assignment| find_in_expression(place.text, &assignment.expr, found));
    }
}
