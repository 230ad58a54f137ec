//! `searchtxn`: transactions of a type that match a condition; rewritten to `from` a stanza of transactiontypes.conf.

use super::{Call, Command, CommandInfo, Group, Kind};
use crate::analyse::has_subsearch;
use crate::ast::{FromCommand, SearchTxnCommand};
use crate::diagnostic::Diagnostic;
use crate::parse::{Known, Parser, Read};

const OPTIONS: Known =
    Known { command: "searchtxn", names: &["max_terms", "use_disjunct", "eventsonly"], ignored: &[] };

/// Default of `max_terms=`.
const TERMS: usize = 1_000;

/// Names, help line and kind.
pub(super) const INFO: CommandInfo = CommandInfo {
    names: &["searchtxn"],
    syntax: "searchtxn TYPE [max_terms=N] [use_disjunct=] [eventsonly=] SEARCH",
    summary: "Finds transactions of a type that match a condition",
    group: Group::Rows,
    kind: Kind::Generating,
    ..CommandInfo::DEFAULT
};

/// Parses the command's arguments.
pub(super) fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> Read<Command> {
    let word = parser.expect_field("the name of a stanza of transactiontypes.conf")?;
    let mut command = SearchTxnCommand {
        kind: word.text,
        span: word.span,
        terms_max: TERMS,
        any: true,
        events_only: false,
        condition: String::new(),
    };
    while let Some(name) = parser.peek_option().map(str::to_ascii_lowercase)
        && OPTIONS.names.contains(&name.as_str())
    {
        let Some(option) = parser.option(OPTIONS)? else { break };
        match option.name.as_str() {
            "max_terms" => command.terms_max = option.number()?,
            "use_disjunct" => command.any = option.boolean()?,
            _ => command.events_only = option.boolean()?,
        }
    }
    parser.skip_separators();
    command.condition = parser.rest().trim().to_owned();
    if command.condition.is_empty() {
        let remark = Diagnostic::error("searchtxn: nothing is searched for", parser.here());
        return Err(remark.with_hint("write `searchtxn TYPE error`"));
    }
    // The text becomes part of the rewritten searches; the commands in it must be checked before.
    let place = parser.here();
    if has_subsearch(&parser.search_condition()?) {
        let remark = Diagnostic::error("searchtxn: a condition with a subsearch is not taken", place);
        return Err(remark.with_hint("write the values, or use transaction"));
    }
    Ok(Command::From(FromCommand::Transactions(command)))
}
