//! `head`: keeps the first rows.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, StageContext, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::{BinaryOp, CompareOp, Expr, ExprKind};
use crate::diagnostic::{Diagnostic, closest_name};
use crate::parse::{ParseResult, Parser};

/// Default number of rows, if there is neither a number nor a condition.
const DEFAULT_ROWS: usize = 10;

/// Options; any other `name=` starts a condition.
const OPTION_NAMES: &[&str] = &["limit", "null", "keeplast"];

/// Time modifiers, which belong to the leading search but are often written after `head`.
const TIME_RANGE_NAMES: &[&str] = &["earliest", "latest"];

/// `head [N] [(CONDITION)]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeadCommand {
    /// Maximum number of rows; 10 by default, if there is no condition.
    pub limit: Option<usize>,
    /// Condition; `head` stops at the first row for which it is false.
    pub condition: Option<Expr>,
    /// `null=` (default `f`): whether a null condition counts as true.
    pub null_is_true: bool,
    /// `keeplast=` (default `f`): whether the row that stops the command is kept.
    pub keep_last: bool,
}

impl Syntax for HeadCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "head [N] [(CONDITION)] [null=] [keeplast=]",
        summary: "Keeps the first rows",
        group: Group::Searching,
        kind: Kind::OrderedRow,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<HeadCommand> {
        let mut command = HeadCommand { limit: None, condition: None, null_is_true: false, keep_last: false };
        loop {
            while let Some(name) = parser.peek_option().map(str::to_ascii_lowercase) {
                if !OPTION_NAMES.contains(&name.as_str()) {
                    break;
                }
                let option = parser.read_option()?;
                match name.as_str() {
                    "limit" => command.limit = Some(option.number()?),
                    "null" => command.null_is_true = option.boolean()?,
                    _ => command.keep_last = option.boolean()?,
                }
            }
            if parser.at_end() {
                break;
            }
            match parser.row_count("head")? {
                Some(limit) if command.limit.is_none() => command.limit = Some(limit),
                None if command.condition.is_none() => command.condition = Some(parser.expression()?),
                _ => return Err(Diagnostic::error(format!("head: unexpected {}", parser.found_text()), parser.here())),
            }
        }
        if command.limit.is_none() && command.condition.is_none() {
            command.limit = Some(DEFAULT_ROWS);
        }
        Ok(command)
    }
}

impl Semantics for HeadCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        self.condition.iter().for_each(|expr| after.add_expr(expr));
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::none()
    }

    fn find_lints(&self, _: &StageContext<'_>, found: &mut Vec<Diagnostic>) {
        if let Some(Expr { kind: ExprKind::Field(name), span }) = &self.condition {
            let remark = Diagnostic::warning(format!("`{name}` is neither a number of rows nor a condition"), *span);
            found.push(remark.with_hint("write a number of rows, such as `head 10`"));
        }
        if let Some(Expr { kind: ExprKind::Binary(BinaryOp::Compare(CompareOp::Eq), left, _), .. }) = &self.condition
            && let ExprKind::Field(name) = &left.kind
        {
            let remark = format!("`{name}` is read as a field of a condition that rows must meet");
            let remark = Diagnostic::warning(remark, left.span);
            if TIME_RANGE_NAMES.contains(&name.as_str()) {
                found.push(remark.with_hint("a time range belongs to the search: write it before the first `|`"));
            } else if let Some(near) = closest_name(name, OPTION_NAMES.iter().copied()) {
                found.push(remark.with_hint(format!("did you mean the option `{near}=`?")));
            }
        }
    }
}
