//! `rename`: renames fields.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::ast::FieldPattern;
use crate::diagnostic::Diagnostic;
use crate::parse::{ParseResult, Parser};

/// `rename FIELD AS NEW [, FIELD AS NEW]...`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RenameCommand {
    /// Old and new names; if the old name contains `*`, the new name contains the same number of them.
    pub pairs: Vec<(FieldPattern, FieldPattern)>,
}

impl Syntax for RenameCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "rename FIELD AS NEW [, FIELD AS NEW]...",
        summary: "Renames fields",
        group: Group::Fields,
        kind: Kind::Row,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<RenameCommand> {
        let mut pairs = Vec::new();
        loop {
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            let from = parser.expect_field("a field to rename")?.field();
            // Splunk's usage message lists TO and `->` in addition to AS.
            if !parser.eat_keyword("as") && !parser.eat_keyword("to") && !parser.eat_arrow() {
                let message = format!("rename: expected AS after `{}`, found {}", from.text, parser.found_text());
                return Err(Diagnostic::error(message, parser.here()).with_hint("write `rename old AS new`"));
            }
            let to = parser.expect_field("a new name after AS")?.field();
            let stars = |pattern: &FieldPattern| pattern.text.matches('*').count();
            // The new name of a single field is taken literally.
            if stars(&from) > 0 && stars(&from) != stars(&to) {
                let message = format!("rename: `{}` and `{}` differ in their number of `*`", from.text, to.text);
                return Err(Diagnostic::error(message, to.span));
            }
            pairs.push((from, to));
        }
        if pairs.is_empty() {
            return Err(
                Diagnostic::error("rename: no field is given", parser.here()).with_hint("write `rename old AS new`")
            );
        }
        Ok(RenameCommand { pairs })
    }
}

impl Semantics for RenameCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        let chained = self.pairs.iter().any(|(from, _)| self.pairs.iter().any(|(_, to)| from.text == to.text));
        let (mut made, mut read) = (Vec::new(), Vec::new());
        for (from, to) in &self.pairs {
            if from.is_wildcard() || chained {
                read.push(from);
            } else if after.includes(&to.text) {
                made.push(to);
                read.push(from);
            }
        }
        for field in made {
            after.fields.remove(&field.text);
        }
        after.add_all(read);
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        CreatedFields::renaming(self.pairs.iter().map(|(from, to)| (from.text.as_str(), Some(to.text.as_str()))))
    }

    fn is_repeatable(&self) -> bool {
        true
    }
}

impl Parser<'_> {
    /// Steps over `->`.
    fn eat_arrow(&mut self) -> bool {
        self.skip_blank();
        let is_arrow = self.rest().starts_with("->");
        if is_arrow {
            self.pos += "->".len();
        }
        is_arrow
    }
}
