//! `searchtxn`: finds transactions of a type that match a condition; the type is a stanza of transactiontypes.conf.

use serde::{Deserialize, Serialize};

use super::{Beginning, Call, CommandInfo, Group, Kind, Semantics, Syntax};
use crate::analyse::{FieldNeeds, has_subsearch};
use crate::ast::{SearchCommand, SearchExpr, Span, TimeModifiers};
use crate::diagnostic::Diagnostic;
use crate::parse::{OptionNames, ParseResult, Parser};

const OPTIONS: OptionNames = OptionNames::new("searchtxn", &["max_terms", "use_disjunct", "eventsonly"]);

/// Default of `max_terms=`.
const DEFAULT_TERMS_MAX: usize = 1_000;

/// `searchtxn`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchTxnCommand {
    /// Stanza of transactiontypes.conf.
    pub kind: String,
    /// Position of the stanza's name in the text.
    pub span: Span,
    /// `max_terms=` (default `1000`): maximum number of different combinations of values that select further events.
    pub terms_max: usize,
    /// `use_disjunct=` (default `t`): whether an event is selected if it shares one value with a matching event;
    /// otherwise all fields must be equal.
    pub any: bool,
    /// `eventsonly=` (default `f`): whether the events are returned instead of the transactions.
    pub events_only: bool,
    /// Condition on the transactions.
    pub condition: SearchCommand,
}

impl Syntax for SearchTxnCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "searchtxn TYPE [max_terms=N] [use_disjunct=] [eventsonly=] SEARCH",
        summary: "Finds transactions of a type that match a condition",
        group: Group::Rows,
        kind: Kind::Generating,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<SearchTxnCommand> {
        let word = parser.expect_field("the name of a stanza of transactiontypes.conf")?;
        let mut command = SearchTxnCommand {
            kind: word.text,
            span: word.span,
            terms_max: DEFAULT_TERMS_MAX,
            any: true,
            events_only: false,
            condition: SearchCommand { expr: SearchExpr::All, time: TimeModifiers::default() },
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
        if parser.at_end() {
            let remark = Diagnostic::error("searchtxn: nothing is searched for", parser.here());
            return Err(remark.with_hint("write `searchtxn TYPE error`"));
        }
        let place = parser.here();
        command.condition = parser.search_command(true)?;
        if has_subsearch(&command.condition.expr) {
            let remark = Diagnostic::error("searchtxn: a condition with a subsearch is not supported", place);
            return Err(remark.with_hint("write the values, or use transaction"));
        }
        Ok(command)
    }
}

impl Semantics for SearchTxnCommand {
    fn fields_before(&self, _: FieldNeeds) -> FieldNeeds {
        FieldNeeds::default()
    }

    fn begins_with(&self) -> Beginning<'_> {
        Beginning::Transactions(self)
    }
}
