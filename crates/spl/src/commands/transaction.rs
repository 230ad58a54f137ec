//! `transaction`: groups related events into one row.

use std::collections::BTreeMap;

use super::{Call, CommandInfo, CreatedFields, Group, Kind, Semantics, Syntax};
use crate::analyse::{FieldNeeds, TIME, has_subsearch, search_fields};
use crate::ast::{Expr, SearchExpr, Span};
use crate::diagnostic::{Diagnostic, first_fault};
use crate::parse::{OptionArg, OptionNames, ParseResult, Parser, parse_condition, parse_with, quoted_len, unescape};
use quarry_event::time::Span as TimeSpan;
use quarry_stdx::Fault;
use serde::{Deserialize, Serialize};

/// Default of `maxevents=`.
const DEFAULT_EVENTS_MAX: usize = 1_000;

const OPTIONS: OptionNames = OptionNames::new(
    "transaction",
    &[
        "fields",
        "field",
        "maxspan",
        "maxpause",
        "maxevents",
        "connected",
        "unifyends",
        "keeporphans",
        "keepevicted",
        "mvlist",
        "delim",
        "nullstr",
        "maxopentxn",
        "maxopenevents",
        "mvraw",
        "name",
    ],
);

/// `transaction`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransactionCommand {
    /// Fields whose values relate events.
    pub fields: Vec<String>,
    /// `maxspan=`: maximum time from first to last event; by default unlimited.
    pub max_span: Option<TimeSpan>,
    /// `maxpause=`: maximum time between two events; by default unlimited.
    pub max_pause: Option<TimeSpan>,
    /// `maxevents=` (default `1000`): maximum number of events.
    pub max_events: usize,
    /// `startswith=`: test of the first event.
    pub starts_with: Option<EventTest>,
    /// `endswith=`: test of the last event.
    pub ends_with: Option<EventTest>,
    /// `connected=` (default `t`): whether an event must share a value with the transaction to join it.
    pub connected: bool,
    /// `unifyends=` (default `t`): accepted without effect.
    pub unify_ends: bool,
    /// `keeporphans=` (default `f`): whether events without a transaction are shown.
    pub keep_orphans: bool,
    /// `keepevicted=` (default `f`): whether incomplete transactions are shown.
    pub keep_evicted: bool,
    /// `mvlist=`: fields that keep all values in order.
    pub lists: TransactionLists,
    /// `delim=` (default `" "`): separator between the values of a field where they are joined into one text.
    pub delimiter: String,
    /// `nullstr=` (default `NULL`): placeholder for a missing value in lists.
    pub null_text: String,
    /// `maxopentxn=`; the default is in limits.conf.
    pub max_open: Option<usize>,
    /// `maxopenevents=`; the default is in limits.conf.
    pub max_open_events: Option<usize>,
    /// `mvraw=` (default `f`): whether `_raw` has one value per event of the transaction.
    pub raw_is_list: bool,
    /// `name=`: stanza of transactiontypes.conf, whose settings the other options override.
    pub kind: Option<TransactionKind>,
}

/// The stanza that defines a transaction type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionKind {
    /// Name of the stanza.
    pub name: String,
    /// Position of the stanza's name in the text.
    pub span: Span,
    /// The other options, as written in the search.
    pub options: String,
}

/// Fields of a transaction that are lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransactionLists {
    /// No field: every field is a set of distinct values.
    None,
    /// All.
    All,
    /// These fields.
    Fields(Vec<String>),
}

/// A test of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum EventTest {
    /// `"..."` or `(...)`: a search condition.
    Condition(SearchExpr),
    /// `eval(...)`.
    Expression(Expr),
}

impl Syntax for TransactionCommand {
    const INFO: CommandInfo = CommandInfo {
        syntax: "transaction [FIELD...] [maxspan=] [maxpause=] [maxevents=] [startswith=] [endswith=] [keepevicted=] [mvlist=]",
        summary: "Groups events that belong together",
        group: Group::Rows,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> ParseResult<TransactionCommand> {
        let mut command = TransactionCommand::default();
        let start = parser.pos;
        let named = parser.transaction_arguments(&mut command)?;
        command.kind = named.map(|option| TransactionKind {
            options: parser.text[start..parser.pos].to_owned(),
            span: option.value_span,
            name: option.value,
        });
        Ok(command)
    }
}

impl Default for TransactionCommand {
    fn default() -> TransactionCommand {
        TransactionCommand {
            fields: Vec::new(),
            max_span: None,
            max_pause: None,
            max_events: DEFAULT_EVENTS_MAX,
            starts_with: None,
            ends_with: None,
            connected: true,
            unify_ends: true,
            keep_orphans: false,
            keep_evicted: false,
            lists: TransactionLists::None,
            delimiter: " ".to_owned(),
            null_text: "NULL".to_owned(),
            max_open: None,
            max_open_events: None,
            raw_is_list: false,
            kind: None,
        }
    }
}

impl Semantics for TransactionCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        for made in ["duration", "eventcount", "closed_txn", "transactiontype"] {
            after.fields.remove(made);
        }
        // The fields of the transaction type's stanza are not known here.
        after.all |= self.kind.is_some();
        self.fields.iter().for_each(|field| after.add(field));
        after.add(TIME);
        for test in [&self.starts_with, &self.ends_with].into_iter().flatten() {
            match test {
                EventTest::Condition(condition) => {
                    search_fields(condition).iter().for_each(|field| after.add(field));
                    after.all |= has_subsearch(condition);
                }
                EventTest::Expression(expr) => after.add_expr(expr),
            }
        }
        after
    }

    fn created_fields(&self) -> Option<CreatedFields> {
        let made = CreatedFields::adding([
            "duration",
            "eventcount",
            "closed_txn",
            "transactiontype",
            "field_match_sum",
            "linecount",
        ]);
        made.filter(|_| self.kind.is_none())
    }
}

impl Parser<'_> {
    /// Parses the arguments into `command` and returns the option `name=`. If an option is repeated, its last value
    /// counts.
    fn transaction_arguments(&mut self, command: &mut TransactionCommand) -> ParseResult<Option<OptionArg>> {
        let mut named = None;
        loop {
            self.skip_separators();
            if self.at_end() {
                return Ok(named);
            }
            match self.peek_option().map(str::to_ascii_lowercase).as_deref() {
                Some(name @ ("startswith" | "endswith")) => {
                    self.skip_blank();
                    self.pos += name.len();
                    self.expect('=', "after the name of the option")?;
                    *command.event_test(name) = Some(self.event_test()?);
                }
                Some(_) => match self.option(OPTIONS)? {
                    Some(option) if option.name == "name" => named = Some(option),
                    Some(option) => transaction_option(option, command)?,
                    None => {}
                },
                None => command.fields.push(self.expect_field("a field")?.text),
            }
        }
    }

    /// Whether `eval(` is next.
    fn at_event_expression(&self) -> bool {
        let name = self.peek_name();
        name.eq_ignore_ascii_case("eval") && self.rest()[name.len()..].trim_start().starts_with('(')
    }

    /// Parses `"condition"`, `(condition)`, `eval(expression)` or `word`.
    fn event_test(&mut self) -> ParseResult<EventTest> {
        self.skip_blank();
        if self.at_event_expression() {
            self.pos += self.peek_name().len();
            self.expect('(', "after eval")?;
            self.chain = 0;
            let expr = self.expression()?;
            self.expect(')', "after the expression")?;
            return Ok(EventTest::Expression(expr));
        }
        let start = self.pos;
        match self.peek() {
            Some('"') => {
                let end = self.eat_quoted().map_or(start, |word| word.span.end);
                let text = unescape(self.text[start + 1..end].strip_suffix('"').unwrap_or_default());
                // The text is parsed again without its quotes.
                parse_condition(&text).map(EventTest::Condition).map_err(|faults| {
                    let fault = faults.first().map(ToString::to_string).unwrap_or_default();
                    Diagnostic::error(fault, Span { start, end })
                })
            }
            Some('(') => self.search_in_parentheses().map(EventTest::Condition),
            _ => {
                let rest = self.rest();
                let length = rest.find(|c: char| c.is_whitespace() || c == ',').unwrap_or(rest.len());
                let outer = std::mem::replace(&mut self.end, start + length);
                let read = self.search_condition();
                self.end = outer;
                self.pos = start + length;
                read.map(EventTest::Condition)
            }
        }
    }
}

impl TransactionCommand {
    /// Returns the command with the settings of its stanza as defaults; an error names the setting.
    pub fn with_settings(&self, settings: &BTreeMap<String, String>) -> Result<TransactionCommand, Fault> {
        let Some(kind) = &self.kind else { return Ok(self.clone()) };
        let mut command = TransactionCommand::default();
        for (name, value) in settings {
            let (name, value) = (name.to_ascii_lowercase(), value.trim());
            let is_test = matches!(name.as_str(), "startswith" | "endswith");
            let is_known = is_test || OPTIONS.names.contains(&name.as_str());
            if !is_known || name == "name" || value.is_empty() || (name == "fields" && !self.fields.is_empty()) {
                continue;
            }
            let read = match is_test {
                true => parse_event_test(value).map(|test| *command.event_test(&name) = Some(test)),
                false => transaction_option(OptionArg::of(&name, value), &mut command).map_err(|fault| vec![fault]),
            };
            read.map_err(|faults| {
                let fault = faults.first().map_or("", |fault| &fault.message);
                Fault::invalid(format!("{name}: {fault}"))
            })?;
        }
        command.kind = Some(kind.clone());
        parse_with(&kind.options, |parser| parser.transaction_arguments(&mut command).map(|_| Some(())))
            .map_err(|faults| first_fault(&faults))?;
        Ok(command)
    }

    /// Sets an option that is not a test, such as `maxspan`.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        transaction_option(OptionArg::of(name, value), self).map_err(|fault| first_fault(&[fault]))
    }

    fn event_test(&mut self, name: &str) -> &mut Option<EventTest> {
        if name == "startswith" { &mut self.starts_with } else { &mut self.ends_with }
    }
}

/// Parses a setting that tests events; its search condition needs no quotes.
fn parse_event_test(value: &str) -> Result<EventTest, Vec<Diagnostic>> {
    // Quotes around the whole value only delimit its condition; other quotes belong to the condition.
    let is_quoted = value.starts_with('"') && quoted_len(value) == Some(value.len());
    parse_with(value, |parser| {
        if !is_quoted && !parser.at_event_expression() {
            return parser.search_condition().map(|condition| Some(EventTest::Condition(condition)));
        }
        let test = parser.event_test()?;
        parser.expect_end("transaction")?;
        Ok(Some(test))
    })
}

fn transaction_option(option: OptionArg, command: &mut TransactionCommand) -> ParseResult<()> {
    let names = |text: &str| -> Vec<String> {
        text.split([',', ' '])
            .map(|name| name.trim_matches('"'))
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect()
    };
    // -1 means unlimited.
    let span = |option: &OptionArg| if option.value == "-1" { Ok(None) } else { option.time_span().map(Some) };
    match option.name.as_str() {
        "fields" | "field" => command.fields.extend(names(&option.value)),
        "maxspan" => command.max_span = span(&option)?,
        "maxpause" => command.max_pause = span(&option)?,
        "maxevents" => {
            let count: i64 = option.number()?;
            command.max_events = usize::try_from(count).ok().filter(|count| *count > 0).unwrap_or(usize::MAX);
        }
        "connected" => command.connected = option.boolean()?,
        "unifyends" => command.unify_ends = option.boolean()?,
        "keeporphans" => command.keep_orphans = option.boolean()?,
        "keepevicted" => command.keep_evicted = option.boolean()?,
        "mvlist" => {
            command.lists = match option.boolean() {
                Ok(true) => TransactionLists::All,
                Ok(false) => TransactionLists::None,
                Err(_) => TransactionLists::Fields(names(&option.value)),
            }
        }
        "delim" => command.delimiter = option.value,
        "nullstr" => command.null_text = option.value,
        "mvraw" => command.raw_is_list = option.boolean()?,
        "maxopentxn" => command.max_open = Some(option.number()?),
        _ => command.max_open_events = Some(option.number()?),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_in_settings_need_no_quotes() {
        for value in ["evaluation started", "eval", "(a) OR b", "(a OR b)", "\"a\" OR \"b\"", "\"a\" b", "a=1 b"] {
            let condition = parse_condition(value).map(EventTest::Condition);
            assert!(condition.is_ok(), "{value}");
            assert_eq!(parse_event_test(value), condition, "{value}");
        }
        assert_eq!(parse_event_test("\"a OR b\""), parse_condition("a OR b").map(EventTest::Condition));
        assert!(matches!(parse_event_test("eval(a=1 OR b=2)"), Ok(EventTest::Expression(_))));
        assert!(matches!(parse_event_test("EVAL (a=1)"), Ok(EventTest::Expression(_))));
        for wrong in ["eval(a=1) b", "(a", "\"a", "a)"] {
            assert!(parse_event_test(wrong).is_err(), "{wrong}");
        }
    }
}
