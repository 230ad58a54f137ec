//! foreach, map and transaction.
//!
//! The commands of `foreach` are kept as text with their `<<...>>` in place. To tell faults where they are, they are
//! parsed once with a name of the same length in each place.

use std::collections::BTreeMap;

use super::cursor::{Parser, Read, unescape};
use super::options::{Known, OptionArg};
use crate::ast::{
    Command, EventTest, FlowCommand, ForeachCommand, ForeachOver, MapCommand, MapSearch, Span, TransactionCommand,
    TransactionKind, TransactionLists,
};
use crate::diagnostic::{Diagnostic, Severity};

/// Searches that `map` runs when `maxsearches=` is absent.
const DEFAULT_MAP_SEARCHES: usize = 10;
/// Events of a transaction when `maxevents=` is absent.
const DEFAULT_TRANSACTION_EVENTS: usize = 1_000;

const FOREACH: Known = Known {
    command: "foreach",
    names: &["mode", "fieldstr", "matchstr", "matchseg1", "matchseg2", "matchseg3", "itemstr", "iterstr"],
    ignored: &[],
};
const MAP: Known = Known { command: "map", names: &["search", "maxsearches"], ignored: &["maxtime", "timeout"] };
const TRANSACTION: Known = Known {
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

/// How `foreach` goes over what it is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ForeachMode {
    Fields,
    Values,
    JsonArray,
    Collection,
}

impl Parser<'_> {
    pub(crate) fn flow_command(&mut self, name: &str) -> Read<Command> {
        match name {
            "foreach" => self.foreach(),
            "map" => self.map(),
            _ => self.transaction(),
        }
    }

    // ---- foreach --------------------------------------------------------------------------------------------------

    fn foreach(&mut self) -> Read<Command> {
        let marks = ["<<FIELD>>", "<<MATCHSTR>>", "<<ITEM>>", "<<ITER>>"].map(str::to_owned);
        let [field_text, match_text, item_text, number_text] = marks;
        let mut command = ForeachCommand {
            over: ForeachOver::Fields(Vec::new()),
            template: String::new(),
            span: self.here(),
            field_text,
            match_text,
            segment_texts: ["<<MATCHSEG1>>", "<<MATCHSEG2>>", "<<MATCHSEG3>>"].map(str::to_owned),
            item_text,
            number_text,
        };
        let mut mode = ForeachMode::Fields;
        let mut fields = Vec::new();
        loop {
            while let Some(option) = self.option(FOREACH)? {
                foreach_option(option, &mut command, &mut mode)?;
            }
            self.skip_separators();
            match self.peek() {
                Some('[') => break,
                None => {
                    let remark = Diagnostic::error("foreach: no commands are given", self.here());
                    return Err(remark.with_hint("write `foreach * [ eval <<FIELD>>=... ]`"));
                }
                Some(_) => fields.push(self.expect_field("a field")?.field()),
            }
        }
        let first = fields.first().map(|field| field.text.clone());
        command.over = match (mode, first) {
            (ForeachMode::Fields, Some(_)) => ForeachOver::Fields(fields),
            (ForeachMode::Values, Some(field)) if fields.len() == 1 => ForeachOver::Values(field),
            (ForeachMode::JsonArray, Some(field)) if fields.len() == 1 => ForeachOver::JsonArray(field),
            (ForeachMode::Collection, Some(field)) if fields.len() == 1 => ForeachOver::Collection(field),
            (ForeachMode::Fields, None) => return Err(Diagnostic::error("foreach: no field is given", self.here())),
            _ => return Err(Diagnostic::error("foreach: this mode takes exactly one field", self.here())),
        };
        self.foreach_template(&mut command)?;
        Ok(Command::Flow(FlowCommand::Foreach(command)))
    }

    /// `[ ... ]`.
    fn foreach_template(&mut self, command: &mut ForeachCommand) -> Read<()> {
        let open = self.here();
        self.expect('[', "before the commands of foreach")?;
        let close = self.boundary(false);
        if close >= self.end {
            return Err(Diagnostic::error("this `[` is never closed", open).with_hint("add `]`"));
        }
        command.span = Span { start: self.pos, end: close };
        command.template = self.text[self.pos..close].trim().to_owned();
        let sample = command.sample(&self.text[self.pos..close]);
        self.pos = close + 1;
        if self.depth >= super::MAX_NESTING || self.subsearches >= super::MAX_SUBSEARCH_DEPTH {
            return Err(Diagnostic::error("foreach is nested too deep", open));
        }
        let (faults, unsupported) = super::check_commands(&sample, self.subsearches + 1, &self.custom);
        for mut remark in faults.into_iter().filter(|remark| remark.severity == Severity::Error) {
            remark.span.start += command.span.start;
            remark.span.end += command.span.start;
            self.report(remark);
        }
        unsupported.into_iter().for_each(|feature| self.unsupported(feature));
        Ok(())
    }

    // ---- map ------------------------------------------------------------------------------------------------------

    fn map(&mut self) -> Read<Command> {
        let mut search = None;
        let mut max_searches = DEFAULT_MAP_SEARCHES;
        loop {
            while let Some(option) = self.option(MAP)? {
                match option.name.as_str() {
                    "search" => search = Some(MapSearch::Text(option.value, option.value_span)),
                    _ => max_searches = option.number()?,
                }
            }
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if self.peek() == Some('[') {
                let open = self.here();
                self.bump();
                let close = self.boundary(false);
                if close >= self.end {
                    return Err(Diagnostic::error("this `[` is never closed", open).with_hint("add `]`"));
                }
                let span = Span { start: self.pos, end: close };
                search = Some(MapSearch::Text(self.text[self.pos..close].trim().to_owned(), span));
                self.pos = close + 1;
            } else {
                let word = self.expect_field("a saved search")?;
                search = Some(MapSearch::Saved(word.text, word.span));
            }
        }
        let Some(search) = search else {
            let remark = Diagnostic::error("map: no search is given", self.here());
            return Err(remark.with_hint("write `map search=\"search index=main user=$user$\"`"));
        };
        Ok(Command::Flow(FlowCommand::Map(MapCommand { search, max_searches })))
    }

    // ---- transaction ----------------------------------------------------------------------------------------------

    fn transaction(&mut self) -> Read<Command> {
        let mut command = TransactionCommand {
            fields: Vec::new(),
            max_span: None,
            max_pause: None,
            max_events: DEFAULT_TRANSACTION_EVENTS,
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
        let start = self.pos;
        let mut named: Option<(OptionArg, Span)> = None;
        loop {
            self.skip_separators();
            if self.at_end() {
                break;
            }
            match self.peek_option().map(str::to_ascii_lowercase).as_deref() {
                Some("startswith") => command.starts_with = Some(self.event_test()?),
                Some("endswith") => command.ends_with = Some(self.event_test()?),
                Some(_) => {
                    let place = self.pos;
                    match self.option(TRANSACTION)? {
                        Some(option) if option.name == "name" => named = Some((option, self.since(place))),
                        Some(option) => transaction_option(option, &mut command)?,
                        None => {}
                    }
                }
                None => command.fields.push(self.expect_field("a field")?.text),
            }
        }
        command.kind = named.map(|(option, written)| TransactionKind {
            options: format!("{} {}", &self.text[start..written.start], &self.text[written.end..self.pos]),
            span: option.value_span,
            name: option.value,
        });
        Ok(Command::Flow(FlowCommand::Transaction(command)))
    }

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
                // The text is read once more, without its quotes.
                crate::parse_condition(&text).map(EventTest::Condition).map_err(|faults| {
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
    /// The command with the settings of its stanza where it says nothing itself; a fault names the setting.
    pub fn of_kind(&self, settings: &BTreeMap<String, String>) -> Result<TransactionCommand, String> {
        let Some(kind) = &self.kind else { return Ok(self.clone()) };
        let mut text = String::from("| transaction");
        for (name, value) in settings {
            let (name, value) = (name.to_ascii_lowercase(), value.trim());
            let is_known =
                matches!(name.as_str(), "startswith" | "endswith") || TRANSACTION.names.contains(&name.as_str());
            if !is_known || name == "name" || value.is_empty() || (name == "fields" && !self.fields.is_empty()) {
                continue;
            }
            let is_test = name.ends_with("swith") && (value.starts_with(['"', '(']) || value.starts_with("eval"));
            let option = format!(" {name}={}", if is_test { value.to_owned() } else { super::short::quote(value) });
            let alone = super::parse(&format!("| transaction{option}"));
            if let Some(fault) = alone.diagnostics.first() {
                return Err(format!("{name}: {}", fault.message));
            }
            text.push_str(&option);
        }
        // Of an option that is given twice the last counts.
        let parsed = super::parse(&format!("{text} {}", kind.options));
        match parsed.pipeline.commands.into_iter().next().map(|stage| stage.command) {
            Some(Command::Flow(FlowCommand::Transaction(command))) => {
                Ok(TransactionCommand { kind: self.kind.clone(), ..command })
            }
            _ => Err(parsed.diagnostics.first().map(ToString::to_string).unwrap_or_default()),
        }
    }
}

impl ForeachCommand {
    /// The commands for one field or item: `values` are what stands for the field's name, the match, its three parts,
    /// the item and its number.
    pub fn filled(&self, template: &str, values: &[(&str, &str)]) -> String {
        values.iter().fold(template.to_owned(), |text, (mark, value)| text.replace(mark, value))
    }

    /// The commands with a name of the same length in each place.
    pub fn sample(&self, template: &str) -> String {
        let marks = [&self.field_text, &self.match_text, &self.item_text, &self.number_text];
        marks.into_iter().chain(&self.segment_texts).fold(template.to_owned(), |text, mark| {
            if mark.is_empty() { text } else { text.replace(mark.as_str(), &"f".repeat(mark.len())) }
        })
    }
}

fn foreach_option(option: OptionArg, command: &mut ForeachCommand, mode: &mut ForeachMode) -> Read<()> {
    match option.name.as_str() {
        "mode" => {
            *mode = match option.value.to_ascii_lowercase().as_str() {
                "multifield" => ForeachMode::Fields,
                "multivalue" => ForeachMode::Values,
                "json_array" => ForeachMode::JsonArray,
                "auto_collections" => ForeachMode::Collection,
                _ => return Err(option.refuse("multifield, multivalue, json_array or auto_collections")),
            }
        }
        "fieldstr" => command.field_text = option.value,
        "matchstr" => command.match_text = option.value,
        "matchseg1" => command.segment_texts[0] = option.value,
        "matchseg2" => command.segment_texts[1] = option.value,
        "matchseg3" => command.segment_texts[2] = option.value,
        "itemstr" => command.item_text = option.value,
        _ => command.number_text = option.value,
    }
    Ok(())
}

fn transaction_option(option: OptionArg, command: &mut TransactionCommand) -> Read<()> {
    let names = |text: &str| -> Vec<String> {
        text.split([',', ' '])
            .map(|name| name.trim_matches('"'))
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect()
    };
    // -1 is no limit.
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
