//! `replace`: replaces whole values.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::FieldPattern;
use crate::diagnostic::Diagnostic;
use crate::parse::{ParseResult, Parser, Word};

/// `replace OLD WITH NEW [, ...] [IN FIELD...]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplaceCommand {
    /// Old and new values, including wildcards.
    pub pairs: Vec<(String, String)>,
    /// `IN` fields; if empty, all but internal fields.
    pub fields: Vec<FieldPattern>,
}

impl Syntax for ReplaceCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "replace OLD WITH NEW [, ...] [IN FIELD...]",
        summary: "Replaces whole values",
        group: Group::Fields,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<ReplaceCommand> {
        let hint = "write `replace old WITH new IN field`";
        let mut command = ReplaceCommand { pairs: Vec::new(), fields: Vec::new() };
        loop {
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            if !command.pairs.is_empty() && parser.eat_keyword("in") {
                command.fields = parser.field_list("replace")?;
                break;
            }
            let from = parser.expect_field("a value to replace")?;
            if !parser.eat_keyword("with") {
                let message = format!("replace: expected WITH after `{}`, found {}", from.text, parser.found_text());
                return Err(Diagnostic::error(message, parser.here()).with_hint(hint));
            }
            let to = parser.expect_field("a value after WITH")?;
            let stars = |word: &Word| word.text.matches('*').count();
            if stars(&to) > 0 && stars(&to) != stars(&from) {
                let message = format!("replace: `{}` and `{}` differ in their number of `*`", from.text, to.text);
                let remark = Diagnostic::error(message, to.span);
                return Err(remark.with_hint("the new value must have as many `*` as the old one, or none"));
            }
            command.pairs.push((from.text, to.text));
        }
        if command.pairs.is_empty() {
            return Err(Diagnostic::error("replace: nothing to replace is given", parser.here()).with_hint(hint));
        }
        Ok(command)
    }
}

impl Semantics for ReplaceCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add_all(&self.fields);
        after
    }
}
