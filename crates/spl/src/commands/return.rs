//! `return`: formats fields of the first rows as one search condition.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{ParseResult, Parser};

/// `return [N] FIELD... | NAME=FIELD... | $FIELD...`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReturnCommand {
    /// Rows taken (default 1).
    pub count: usize,
    /// Items written for each row.
    pub items: Vec<ReturnItem>,
}

/// One item of `return`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReturnItem {
    /// `field` or `name=field`: `name="value"`.
    Pair {
        /// Name written.
        name: String,
        /// Field read.
        field: String,
    },
    /// `$field`: the value alone.
    Value(String),
}

impl Syntax for ReturnCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "return [N] FIELD... | NAME=FIELD... | $FIELD...",
        summary: "Returns fields of the first rows as one search condition",
        group: Group::Rows,
        kind: Kind::Blocking,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<ReturnCommand> {
        let count = parser.whole_number().unwrap_or(1);
        let mut items = Vec::new();
        loop {
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            if parser.peek_option().is_some() {
                let option = parser.read_option()?;
                let name = parser.text[option.name_span.start..option.name_span.end].to_owned();
                items.push(ReturnItem::Pair { name, field: option.value });
                continue;
            }
            let word = parser.expect_field("a field")?;
            items.push(match word.text.strip_prefix('$') {
                Some(field) => ReturnItem::Value(field.to_owned()),
                None => ReturnItem::Pair { name: word.text.clone(), field: word.text },
            });
        }
        if items.is_empty() {
            let remark = Diagnostic::error("return: no field is given", parser.here());
            return Err(remark.with_hint("write `return field`, `return name=field` or `return $field`"));
        }
        Ok(ReturnCommand { count, items })
    }
}

impl Semantics for ReturnCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        let mut needs = FieldNeeds::default();
        for item in &self.items {
            match item {
                ReturnItem::Pair { field, .. } | ReturnItem::Value(field) => needs.add(field),
            }
        }
        needs
    }
}
