//! Commands that bring in other rows: join, lookup, inputlookup, makeresults.

use super::cursor::{Parser, Read, Word};
use super::options::{Known, OptionArg};
use crate::ast::{
    Command, InlineData, InputLookupCommand, JoinAliases, JoinCommand, LookupCommand, MakeResultsCommand,
    SubsearchLimits,
};
use crate::diagnostic::Diagnostic;

/// Rows inputlookup reads when `max=` is absent.
const DEFAULT_LOOKUP_ROWS: usize = 1_000_000_000;

const JOIN: Known = Known {
    command: "join",
    names: &["type", "max", "overwrite", "usetime", "earlier", "left", "right", "maxout", "maxtime", "timeout"],
    ignored: &[],
};
const LOOKUP: Known = Known { command: "lookup", names: &["event_time_field"], ignored: &["local", "update"] };
const INPUTLOOKUP: Known =
    Known { command: "inputlookup", names: &["append", "strict", "start", "max"], ignored: &["events", "dispatch"] };
const MAKERESULTS: Known = Known {
    command: "makeresults",
    names: &["count", "annotate", "format", "data"],
    ignored: &["splunk_server", "splunk_server_group"],
};

impl Parser<'_> {
    pub(crate) fn combine_command(&mut self, name: &str) -> Read<Command> {
        match name {
            "join" => self.join(),
            "lookup" => self.lookup(),
            "inputlookup" => self.inputlookup().map(|command| match command {
                // A table that is not there is an error either way.
                Command::InputLookup(lookup) => Command::InputLookup(InputLookupCommand { strict: true, ..lookup }),
                other => other,
            }),
            _ => self.makeresults(),
        }
    }

    // ---- join -----------------------------------------------------------------------------------------------------

    fn join(&mut self) -> Read<Command> {
        let mut command = JoinCommand {
            fields: Vec::new(),
            left_outer: false,
            max: 1,
            overwrite: true,
            use_time: false,
            earlier: true,
            aliases: None,
            subsearch: crate::ast::Pipeline { commands: Vec::new(), span: self.here() },
            limits: SubsearchLimits::default(),
        };
        let (mut left, mut right, mut pairs) = (None, None, Vec::new());
        loop {
            while let Some(option) = self.option(JOIN)? {
                match option.name.as_str() {
                    "left" => left = Some(option.value),
                    "right" => right = Some(option.value),
                    _ => join_option(&option, &mut command)?,
                }
            }
            self.skip_separators();
            match self.peek() {
                None => {
                    let remark = Diagnostic::error("join: no subsearch is given", self.here());
                    return Err(remark.with_hint("write `join field [ search ... ]`"));
                }
                Some('[') => break,
                _ => {}
            }
            if let (Some(left), Some(right)) = (&left, &right)
                && self.eat_keyword("where")
            {
                pairs = self.join_pairs(left, right)?;
            } else {
                command.fields.push(self.expect_field("a field")?.field());
            }
        }
        command.subsearch = self.subsearch()?;
        command.aliases = match (left, right) {
            (Some(left), Some(right)) if !pairs.is_empty() => Some(JoinAliases { left, right, pairs }),
            (None, None) => None,
            _ => {
                let remark = Diagnostic::error("join: left=, right= and where belong together", self.here());
                return Err(remark.with_hint("write `join left=L right=R where L.a=R.b [ ... ]`"));
            }
        };
        Ok(Command::Join(command))
    }

    /// `L.a = R.b [AND] ...` up to the subsearch; sides may be swapped.
    fn join_pairs(&mut self, left: &str, right: &str) -> Read<Vec<(String, String)>> {
        let mut pairs = Vec::new();
        loop {
            self.skip_separators();
            if self.peek() == Some('[') || self.at_end() || self.peek_option().is_some() {
                return Ok(pairs);
            }
            if !pairs.is_empty() && self.eat_keyword("and") {
                continue;
            }
            let first = self.alias_side()?;
            self.expect('=', "between the fields of join")?;
            self.eat('=');
            let second = self.alias_side()?;
            let strip = |word: &Word, alias: &str| {
                word.text.strip_prefix(alias).and_then(|rest| rest.strip_prefix('.')).map(str::to_owned)
            };
            let straight = strip(&first, left).zip(strip(&second, right));
            let swapped = strip(&second, left).zip(strip(&first, right));
            let Some(pair) = straight.or(swapped) else {
                let message = format!("join: expected {left}.field={right}.field");
                return Err(Diagnostic::error(message, first.span));
            };
            pairs.push(pair);
        }
    }

    fn alias_side(&mut self) -> Read<Word> {
        self.skip_blank();
        if let Some(word) = self.quoted().or_else(|| self.single_quoted()) {
            return Ok(word);
        }
        let start = self.pos;
        let rest = self.rest();
        self.pos += rest.find(|c: char| c.is_whitespace() || matches!(c, '=' | ',' | '[')).unwrap_or(rest.len());
        if self.pos == start {
            return Err(Diagnostic::error(format!("join: expected a field, found {}", self.found()), self.here()));
        }
        Ok(Word { text: self.text[start..self.pos].to_owned(), quoted: false, span: self.since(start) })
    }

    // ---- lookup, inputlookup, makeresults -------------------------------------------------------------------------

    fn lookup(&mut self) -> Read<Command> {
        let mut time_field = None;
        while let Some(option) = self.option(LOOKUP)? {
            time_field = Some(option.value);
        }
        let table = self.expect_field("a lookup table")?;
        while let Some(option) = self.option(LOOKUP)? {
            time_field = Some(option.value);
        }
        let mut command = LookupCommand {
            table: table.text,
            table_span: table.span,
            inputs: Vec::new(),
            outputs: Vec::new(),
            only_new: false,
            time_field,
        };
        let mut output = false;
        loop {
            self.skip_separators();
            if self.at_end() {
                break;
            }
            if !output && self.eat_keyword("outputnew") {
                (output, command.only_new) = (true, true);
            } else if !output && self.eat_keyword("output") {
                output = true;
            } else {
                let pair = self.column_pair()?;
                if output { command.outputs.push(pair) } else { command.inputs.push(pair) }
            }
        }
        if command.inputs.is_empty() {
            let remark = Diagnostic::error("lookup: no input field is given", command.table_span);
            return Err(remark.with_hint("write `lookup table column AS field OUTPUT column`"));
        }
        Ok(Command::Lookup(command))
    }

    /// `column [AS field]`.
    fn column_pair(&mut self) -> Read<(String, String)> {
        let column = self.expect_field("a column of the table")?.text;
        let field = if self.eat_keyword("as") { self.expect_field("a field after AS")?.text } else { column.clone() };
        Ok((column, field))
    }

    pub(crate) fn inputlookup(&mut self) -> Read<Command> {
        let mut command = InputLookupCommand {
            table: String::new(),
            table_span: self.here(),
            append: false,
            strict: false,
            start: 0,
            max: DEFAULT_LOOKUP_ROWS,
            filter: None,
        };
        loop {
            while let Some(option) = self.option(INPUTLOOKUP)? {
                match option.name.as_str() {
                    "append" => command.append = option.boolean()?,
                    "strict" => command.strict = option.boolean()?,
                    "start" => command.start = option.number()?,
                    _ => command.max = option.number()?,
                }
            }
            if self.at_end() {
                break;
            }
            if command.table.is_empty() {
                let table = self.expect_field("a lookup table")?;
                (command.table, command.table_span) = (table.text, table.span);
            } else if self.eat_keyword("where") {
                command.filter = Some(self.search_condition()?);
            } else {
                return Err(Diagnostic::error(format!("inputlookup: unexpected {}", self.found()), self.here()));
            }
        }
        if command.table.is_empty() {
            return Err(Diagnostic::error("inputlookup: no lookup table is given", self.here()));
        }
        Ok(Command::InputLookup(command))
    }

    fn makeresults(&mut self) -> Read<Command> {
        let (mut count, mut annotate, mut format, mut data) = (1, false, None, None);
        loop {
            if let Some(rows) = self.whole_number() {
                count = rows;
                continue;
            }
            let Some(option) = self.option(MAKERESULTS)? else { break };
            match option.name.as_str() {
                "count" => count = option.number()?,
                "annotate" => annotate = option.boolean()?,
                "format" => match option.value.to_ascii_lowercase().as_str() {
                    "csv" => format = Some(InlineData::Csv as fn(String) -> InlineData),
                    "json" => format = Some(InlineData::Json as fn(String) -> InlineData),
                    _ => return Err(option.refuse("csv or json")),
                },
                _ => data = Some(option.value),
            }
        }
        let data = match (format, data) {
            (Some(format), Some(data)) => Some(format(data)),
            (None, None) => None,
            _ => {
                let remark = Diagnostic::error("makeresults: format= and data= belong together", self.here());
                return Err(remark.with_hint("write `makeresults format=csv data=\"a,b\"`"));
            }
        };
        Ok(Command::MakeResults(MakeResultsCommand { count, annotate, data }))
    }
}

/// Takes an option of join other than its aliases.
fn join_option(option: &OptionArg, command: &mut JoinCommand) -> Read<()> {
    match option.name.as_str() {
        "type" => {
            command.left_outer = match option.value.to_ascii_lowercase().as_str() {
                "inner" => false,
                "left" | "outer" => true,
                _ => return Err(option.refuse("inner, left or outer")),
            }
        }
        "max" => command.max = option.number()?,
        "overwrite" => command.overwrite = option.boolean()?,
        "usetime" => command.use_time = option.boolean()?,
        "earlier" => command.earlier = option.boolean()?,
        _ => command.limits.take(option)?,
    }
    Ok(())
}
