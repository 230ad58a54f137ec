//! `cofilter`: counts, for each pair of items, the users who have both.

use serde::{Deserialize, Serialize};

use super::{Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::FieldNeeds;
use crate::diagnostic::Diagnostic;
use crate::parse::{ParseResult, Parser};

/// `cofilter USER ITEM`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CofilterCommand {
    /// Field that identifies users.
    pub user: String,
    /// Field of the items.
    pub item: String,
}

impl Syntax for CofilterCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "cofilter USER ITEM",
        summary: "Counts the users that have both of two items",
        group: Group::Patterns,
        kind: Kind::Blocking,
        returns_table: true,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<CofilterCommand> {
        let user = parser.expect_field("a field of users")?.text;
        let Some(item) = parser.next_field() else {
            let remark = Diagnostic::error("cofilter: no field of items is given", parser.here());
            return Err(remark.with_hint("write `cofilter user item`"));
        };
        Ok(CofilterCommand { user, item: item.text })
    }
}

impl Semantics for CofilterCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        after.add(&self.user);
        after.add(&self.item);
        after
    }
}
