//! `rare`: counts the least frequent values of fields; [`super::top`] in reverse order.

use super::top::OPTION_NAMES;
use super::{Call, Command, CommandInfo, Group, Kind};
use crate::parse::{OptionNames, ParseResult, Parser};

pub(super) const INFO: CommandInfo = CommandInfo {
    syntax: "rare [N] FIELD... [BY FIELD...]",
    summary: "Counts the rarest values",
    group: Group::Reporting,
    kind: Kind::Fold,
    ..CommandInfo::DEFAULT
};

pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<Command> {
    parser.top(OptionNames::new("rare", OPTION_NAMES), true).map(Command::Top)
}
