//! `transaction`: groups related events into one row.

use std::collections::BTreeMap;

use super::{Call, Command, CommandInfo, Group, Kind, MadeFields, Semantics, Syntax};
use crate::analyse::{FieldNeeds, TIME, has_subsearch, search_fields};
use crate::ast::{Expr, SearchExpr, Span};
use crate::diagnostic::{Diagnostic, fault_of};
use crate::parse::{self, Known, OptionArg, Parser, Read, parse_condition, quote, unescape};
use quarry_event::time::Span as TimeSpan;
use quarry_stdx::Fault;
use serde::{Deserialize, Serialize};

/// Default of `maxevents=`.
const DEFAULT_EVENTS: usize = 1_000;

const OPTIONS: Known = Known {
    command: "transaction",
    names: &[
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
    ignored: &[],
};

/// `transaction`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransactionCommand {
    /// Fields whose values relate events.
    pub fields: Vec<String>,
    /// `maxspan=-1`: maximum time from first to last event.
    pub max_span: Option<TimeSpan>,
    /// `maxpause=-1`: maximum time between two events.
    pub max_pause: Option<TimeSpan>,
    /// `maxevents=1000`.
    pub max_events: usize,
    /// `startswith=`.
    pub starts_with: Option<EventTest>,
    /// `endswith=`.
    pub ends_with: Option<EventTest>,
    /// `connected=t`.
    pub connected: bool,
    /// `unifyends=t`.
    pub unify_ends: bool,
    /// `keeporphans=f`.
    pub keep_orphans: bool,
    /// `keepevicted=f`.
    pub keep_evicted: bool,
    /// `mvlist=`: fields that keep all values in order.
    pub lists: TransactionLists,
    /// `delim=" "`: separator if the values are used as one text.
    pub delimiter: String,
    /// `nullstr=NULL`: placeholder for a missing value in lists.
    pub null_text: String,
    /// `maxopentxn=`; the default is in limits.conf.
    pub max_open: Option<usize>,
    /// `maxopenevents=`; the default is in limits.conf.
    pub max_open_events: Option<usize>,
    /// `mvraw=f`: whether `_raw` has a value for each event.
    pub raw_is_list: bool,
    /// `name=`: stanza of transactiontypes.conf, whose settings the other options override.
    pub kind: Option<TransactionKind>,
}

/// The stanza that defines a transaction type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionKind {
    /// Its name.
    pub name: String,
    /// Where it is named.
    pub span: Span,
    /// The other options, as written.
    pub options: String,
}

/// Which fields of a transaction are lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransactionLists {
    /// None: all are sets of distinct values.
    None,
    /// All.
    All,
    /// These.
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
        names: &["transaction"],
        syntax: "transaction [FIELD...] [maxspan=] [maxpause=] [maxevents=] [startswith=] [endswith=] [keepevicted=] [mvlist=]",
        summary: "Groups events that belong together",
        group: Group::Rows,
        kind: Kind::Blocking,
        ..CommandInfo::DEFAULT
    };

    fn parse(parser: &mut Parser<'_>, _: Call<'_>) -> Read<TransactionCommand> {
        let mut command = TransactionCommand {
            fields: Vec::new(),
            max_span: None,
            max_pause: None,
            max_events: DEFAULT_EVENTS,
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
        };
        let start = parser.pos;
        let mut named: Option<(OptionArg, Span)> = None;
        loop {
            parser.skip_separators();
            if parser.at_end() {
                break;
            }
            match parser.peek_option().map(str::to_ascii_lowercase).as_deref() {
                Some("startswith") => command.starts_with = Some(parser.event_test()?),
                Some("endswith") => command.ends_with = Some(parser.event_test()?),
                Some(_) => {
                    let place = parser.pos;
                    match parser.option(OPTIONS)? {
                        Some(option) if option.name == "name" => named = Some((option, parser.since(place))),
                        Some(option) => transaction_option(option, &mut command)?,
                        None => {}
                    }
                }
                None => command.fields.push(parser.expect_field("a field")?.text),
            }
        }
        command.kind = named.map(|(option, written)| TransactionKind {
            options: format!("{} {}", &parser.text[start..written.start], &parser.text[written.end..parser.pos]),
            span: option.value_span,
            name: option.value,
        });
        Ok(command)
    }
}

impl Semantics for TransactionCommand {
    fn fields_before(&self, mut after: FieldNeeds) -> FieldNeeds {
        for made in ["duration", "eventcount", "closed_txn", "transactiontype"] {
            after.fields.remove(made);
        }
        // The fields of its stanza are not known here.
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

    fn makes(&self) -> Option<MadeFields> {
        let made = MadeFields::beside([
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
    /// `name="condition"`, `name=(condition)`, `name=eval(expression)` or `name=word`.
    fn event_test(&mut self) -> Read<EventTest> {
        self.skip_blank();
        self.pos += self.peek_name().len();
        self.expect('=', "after the name of the option")?;
        self.skip_blank();
        let name = self.peek_name();
        if name.eq_ignore_ascii_case("eval") && self.rest()[name.len()..].trim_start().starts_with('(') {
            self.pos += name.len();
            self.expect('(', "after eval")?;
            self.chain = 0;
            let expr = self.expression()?;
            self.expect(')', "after the expression")?;
            return Ok(EventTest::Expression(expr));
        }
        let start = self.pos;
        match self.peek() {
            Some('"') => {
                let end = self.quoted().map_or(start, |word| word.span.end);
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
    /// Returns the command with its stanza's settings as defaults; an error names the setting.
    pub fn of_kind(&self, settings: &BTreeMap<String, String>) -> Result<TransactionCommand, Fault> {
        let Some(kind) = &self.kind else { return Ok(self.clone()) };
        let mut text = String::from("| transaction");
        for (name, value) in settings {
            let (name, value) = (name.to_ascii_lowercase(), value.trim());
            let is_known = matches!(name.as_str(), "startswith" | "endswith") || OPTIONS.names.contains(&name.as_str());
            if !is_known || name == "name" || value.is_empty() || (name == "fields" && !self.fields.is_empty()) {
                continue;
            }
            let is_test = name.ends_with("swith") && (value.starts_with(['"', '(']) || value.starts_with("eval"));
            let option = format!(" {name}={}", if is_test { value.to_owned() } else { quote(value) });
            let alone = parse::parse(&format!("| transaction{option}"));
            if let Some(fault) = alone.diagnostics.first() {
                return Err(Fault::invalid(format!("{name}: {}", fault.message)));
            }
            text.push_str(&option);
        }
        // The last of a repeated option applies.
        let parsed = parse::parse(&format!("{text} {}", kind.options));
        match parsed.pipeline.commands.into_iter().next().map(|stage| stage.command) {
            Some(Command::Transaction(command)) => Ok(TransactionCommand { kind: self.kind.clone(), ..command }),
            _ => Err(fault_of(&parsed.diagnostics)),
        }
    }
}

fn transaction_option(option: OptionArg, command: &mut TransactionCommand) -> Read<()> {
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
